package fn

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/status"
)

// steadyCall is a service that is settled, with a certificate.
func steadyCall() call {
	calls := settled(call{xr: seedXR(nil), input: object{}})
	return calls[len(calls)-1].clone()
}

func plain(rsp *fnv1.RunFunctionResponse, key, field string) string {
	v := data(rsp.GetDesired().GetResources()[key])[field].GetStringValue()
	b, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		return v
	}
	return string(b)
}

func tlsReason(rsp *fnv1.RunFunctionResponse) string {
	for _, c := range rsp.GetConditions() {
		if c.GetType() == status.TypeTLSReady {
			return c.GetReason()
		}
	}
	return ""
}

// R52: first the CA, then what it signs, and with it the servers. Afterwards the same
// bytes in every call.
func TestTLSFromTheFirstCall(t *testing.T) {
	type step struct {
		CA, TLS, StatefulSet bool
		Reason               string
	}
	c := call{xr: seedXR(nil), input: object{}}
	var got []step
	for i := range 5 {
		rsp := run(c.request())
		_, ca := rsp.GetDesired().GetResources()[naming.KeyTLSCA]
		_, leaf := rsp.GetDesired().GetResources()[naming.KeyTLS]
		_, sts := rsp.GetDesired().GetResources()[naming.KeyStatefulSet]
		got = append(got, step{ca, leaf, sts, tlsReason(rsp)})
		if i == 0 {
			// The answers to the requirements come with the next call.
			c.required = nothingYet()
			continue
		}
		c = live(c, rsp)
	}
	want := []step{
		{Reason: "NotLookedUp"},
		{CA: true, Reason: "Generating"},
		{CA: true, TLS: true, StatefulSet: true, Reason: "Generating"},
		{CA: true, TLS: true, StatefulSet: true, Reason: "NotReported"},
		{CA: true, TLS: true, StatefulSet: true, Reason: "NotReported"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}

	first, second := run(c.request()), run(live(c, run(c.request())).request())
	if diff := cmp.Diff(first.GetDesired().GetResources(), second.GetDesired().GetResources(), protocmp.Transform()); diff != "" {
		t.Errorf("the objects change for ever:\n%s", diff)
	}
	if ca := plain(second, naming.KeyConfig, "ca.crt"); ca == "" || ca != plain(second, naming.KeyTLSCA, "tls.crt") {
		t.Errorf("clients find %q", ca)
	}
	notAfter := second.GetDesired().GetComposite().GetResource().GetFields()["status"].GetStructValue().GetFields()["tls"].GetStructValue().GetFields()["notAfter"].GetStringValue()
	if want := now.Add(90 * 24 * time.Hour).Format(time.RFC3339); notAfter != want {
		t.Errorf("status.tls.notAfter is %q, want %q", notAfter, want)
	}
}

// R9, R52: no CA, and no certificate, is made before it is known that there is none.
func TestTLSIsNotMadeTwice(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(c *call)
		// kept are those that are returned as they were; none is made anew.
		kept []string
	}{
		"Found":         {reason: "An XR that was recreated finds both by name.", change: func(*call) {}, kept: []string{naming.KeyTLSCA, naming.KeyTLS}},
		"NotLookedUp":   {reason: "Nothing is known of either.", change: func(c *call) { c.required = nil }},
		"CANotLookedUp": {reason: "Nothing is known of the CA.", change: func(c *call) { delete(c.required.(object), naming.KeyTLSCA) }, kept: []string{naming.KeyTLS}},
		"NotLookedUpTLS": {
			reason: "Nothing is known of the certificate.",
			change: func(c *call) { delete(c.required.(object), naming.KeyTLS) }, kept: []string{naming.KeyTLSCA},
		},
		"OtherAnswer": {
			reason: "The answer is for another Secret.",
			change: func(c *call) {
				for _, key := range []string{naming.KeyTLS, naming.KeyTLSCA} {
					dig(c.required, key).([]any)[0].(object)["metadata"].(object)["name"] = "other"
				}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := steadyCall()
			was := c.clone()
			c.observed = object{}
			tc.change(&c)
			rsp, err := check(c.request())
			if err != nil {
				t.Fatalf("\n%s\n%v", tc.reason, err)
			}
			for _, key := range []string{naming.KeyTLSCA, naming.KeyTLS} {
				_, exists := rsp.GetDesired().GetResources()[key]
				if exists != slices.Contains(tc.kept, key) {
					t.Errorf("\n%s\n%s is returned: %v", tc.reason, key, exists)
				}
				if !exists {
					continue
				}
				if diff := cmp.Diff(dig(was.observed, key, "data"), rsp.GetDesired().GetResources()[key].GetResource().AsMap()["data"]); diff != "" {
					t.Errorf("\n%s\n%s changes", tc.reason, key)
				}
			}
		})
	}
}

// R52: a CA that is gone is replaced, and only then what it signed: by the new one.
func TestTLSCALost(t *testing.T) {
	c := steadyCall()
	delete(c.observed.(object), naming.KeyTLSCA)
	dig(c.required).(object)[naming.KeyTLSCA] = []any{}
	before := dig(c.observed, naming.KeyTLS, "data", "tls.crt")
	random := func(seed byte) *fnv1.RunFunctionResponse { return runWith(c.request(), now, seed) }

	rsp := random(2)
	if tlsReason(rsp) != "CALost" {
		t.Errorf("the condition says %s", tlsReason(rsp))
	}
	if got := rsp.GetDesired().GetResources()[naming.KeyTLS].GetResource().AsMap()["data"].(object)["tls.crt"]; got != before {
		t.Error("a certificate was signed by a CA that nobody has seen")
	}
	old := plain(rsp, naming.KeyConfig, "ca.crt")
	c = live(c, rsp)
	rsp = random(3)
	if got := rsp.GetDesired().GetResources()[naming.KeyTLS].GetResource().AsMap()["data"].(object)["tls.crt"]; got == before {
		t.Error("the certificate of the old CA stays")
	}
	c = live(c, rsp)
	rsp = random(4)
	if got := plain(rsp, naming.KeyConfig, "ca.crt"); got == old || got != plain(rsp, naming.KeyTLSCA, "tls.crt") {
		t.Error("clients do not get the new CA")
	}
}

// R52: renewed with a third of its life left, once, and by itself.
func TestTLSRenewal(t *testing.T) {
	c := steadyCall()
	crt := func(c call) any { return dig(c.observed, naming.KeyTLS, "data", "tls.crt") }
	before, ca := crt(c), dig(c.observed, naming.KeyTLSCA, "data")
	at := func(days int) time.Time { return now.Add(time.Duration(days) * 24 * time.Hour) }

	if live(c, runWith(c.request(), at(59), 2)).observed.(object)[naming.KeyTLS].(object)["data"].(object)["tls.crt"] != before {
		t.Error("it is renewed after 59 of 90 days")
	}
	rsp := runWith(c.request(), at(61), 2)
	c = live(c, rsp)
	renewed := crt(c)
	if renewed == before {
		t.Fatal("it is not renewed after 61 of 90 days")
	}
	if tlsReason(rsp) == "" || !cmp.Equal(ca, dig(c.observed, naming.KeyTLSCA, "data")) {
		t.Error("the CA changed as well")
	}
	if c = live(c, runWith(c.request(), at(61), 3)); crt(c) != renewed {
		t.Error("it is renewed again at once")
	}
}

// R52: a change of mode is a change of the Secret that pods refer to, made once that
// Secret is usable; what exists stays.
func TestTLSModes(t *testing.T) {
	c := steadyCall()
	made := dig(c.observed, naming.KeyTLS).(object)
	refers := func(rsp *fnv1.RunFunctionResponse) string {
		sts := &appsv1.StatefulSet{}
		for _, v := range rsp.GetDesired().GetResources()[naming.KeyStatefulSet].GetResource().AsMap()["spec"].(object)["template"].(object)["spec"].(object)["volumes"].([]any) {
			if v := v.(object); v["name"] == compose.VolumeTLS {
				sts.Name = v["secret"].(object)["secretName"].(string)
			}
		}
		return sts.Name
	}
	usable := func(name string) []any {
		s := clone(made).(object)
		s["metadata"] = object{"name": name, "namespace": "team"}
		return []any{s}
	}
	withoutCA := func(list []any) []any {
		delete(list[0].(object)["data"].(object), "ca.crt")
		return list
	}
	cases := map[string]struct {
		reason   string
		tls      object
		secret   []any
		refersTo string
		want     string
	}{
		"SecretMissing":   {reason: "S4: the pods go on with what they have.", tls: object{"mode": "Secret", "secretRef": object{"name": "mine"}}, secret: []any{}, refersTo: "my-ds-tls", want: "SecretMissing"},
		"SecretHere":      {reason: "S4: it appeared.", tls: object{"mode": "Secret", "secretRef": object{"name": "mine"}}, secret: usable("mine"), refersTo: "mine", want: "Replacing"},
		"Issuing":         {reason: "cert-manager takes its time.", tls: object{"mode": "CertManager", "issuerRef": object{"name": "ca"}}, secret: []any{}, refersTo: "my-ds-tls", want: "Issuing"},
		"Issued":          {reason: "It is there.", tls: object{"mode": "CertManager", "issuerRef": object{"name": "ca"}}, secret: usable("my-ds-tls-issued"), refersTo: "my-ds-tls-issued", want: "Replacing"},
		"SecretUnusable":  {reason: "A Secret of no use is not mounted.", tls: object{"mode": "Secret", "secretRef": object{"name": "mine"}}, secret: []any{object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "mine"}, "data": object{"tls.crt": "eA==", "tls.key": "eA=="}}}, refersTo: "my-ds-tls", want: "Invalid"},
		"SecretWithoutIt": {reason: "Nor is one without the key.", tls: object{"mode": "Secret", "secretRef": object{"name": "mine"}}, secret: []any{object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "mine"}, "data": object{"tls.crt": "eA=="}}}, refersTo: "my-ds-tls", want: "KeyMissing"},
		"NoCA":            {reason: "Nor one whose CA nobody knows, which no agent would serve.", tls: object{"mode": "Secret", "secretRef": object{"name": "mine"}}, secret: withoutCA(usable("mine")), refersTo: "my-ds-tls", want: "KeyMissing"},
		"OurOwnByName":    {reason: "A Secret that we made and the spec names is not renewed, but used.", tls: object{"mode": "Secret", "secretRef": object{"name": "my-ds-tls"}}, secret: []any{made}, refersTo: "my-ds-tls", want: "NotReported"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := c.clone()
			c.xr.(object)["spec"].(object)["tls"] = tc.tls
			c.required.(object)[naming.KeyTLS] = clone(tc.secret)
			delete(c.required.(object), naming.KeyTLSCA)
			rsp, err := check(c.request())
			if err != nil {
				t.Fatalf("\n%s\n%v", tc.reason, err)
			}
			if got := refers(rsp); got != tc.refersTo {
				t.Errorf("\n%s\nthe pods refer to %q, want %q", tc.reason, got, tc.refersTo)
			}
			if got := tlsReason(rsp); got != tc.want {
				t.Errorf("\n%s\nthe condition says %q, want %q", tc.reason, got, tc.want)
			}
			for _, key := range []string{naming.KeyTLSCA, naming.KeyTLS} {
				if !cmp.Equal(dig(c.observed, key, "data"), rsp.GetDesired().GetResources()[key].GetResource().AsMap()["data"]) {
					t.Errorf("\n%s\n%s is gone, or changed", tc.reason, key)
				}
			}
		})
	}

	// While the Secret that the spec names is missing, our own certificate is renewed.
	c.xr.(object)["spec"].(object)["tls"] = object{"mode": "Secret", "secretRef": object{"name": "mine"}}
	c.required.(object)[naming.KeyTLS] = []any{}
	if plain(runWith(c.request(), now.Add(70*24*time.Hour), 2), naming.KeyTLS, "tls.crt") == plain(run(c.request()), naming.KeyTLS, "tls.crt") {
		t.Error("the certificate that is in use expires")
	}
}

// R10: the Secret that pods refer to for the Directory Manager's password, also where no
// variable does (R11).
func TestPasswordInUse(t *testing.T) {
	volume := corev1.Volume{Name: "dm-password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "file", Items: []corev1.KeyToPath{{Key: "pw", Path: "dm-password"}}}}}
	env := corev1.Container{Name: naming.Container, Env: []corev1.EnvVar{{Name: compose.EnvDMPassword, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}, Key: "pw"}}}}}
	cases := map[string]struct {
		reason string
		pod    corev1.PodSpec
		want   v1alpha1.SecretKeyRef
		ok     bool
	}{
		"Volume":   {reason: "With the mode file there is nothing else.", pod: corev1.PodSpec{Volumes: []corev1.Volume{volume}}, want: v1alpha1.SecretKeyRef{Name: "file", Key: "pw"}, ok: true},
		"Variable": {reason: "What older pods have.", pod: corev1.PodSpec{Containers: []corev1.Container{env}}, want: v1alpha1.SecretKeyRef{Name: "env", Key: "pw"}, ok: true},
		"Nothing":  {reason: "Pods of somebody else's."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sts := &appsv1.StatefulSet{}
			sts.Spec.Template.Spec = tc.pod
			got, ok := passwordInUse(sts)
			if ok != tc.ok || got != tc.want {
				t.Errorf("\n%s\nwant %v, got %v %v", tc.reason, tc.want, got, ok)
			}
		})
	}
	if _, ok := passwordInUse(nil); ok {
		t.Error("no StatefulSet refers to a Secret")
	}
}

// R52: who may restart.
func TestRestartPermit(t *testing.T) {
	server := func(ordinal int32, hash string, change func(s *status.Server)) status.Server {
		s := status.Server{Pod: fmt.Sprint("my-ds-", ordinal), Ordinal: ordinal, HasAgent: true, Ready: true, Report: &report.Report{Ready: true, Applied: report.Applied{TLS: hash}}}
		if change != nil {
			change(&s)
		}
		return s
	}
	down := func(s *status.Server) { s.Ready = false }
	failing := func(s *status.Server) { s.Report.Ready = false }
	silent := func(s *status.Server) { s.Report = nil }
	leaving := func(s *status.Server) { s.Ready, s.Terminating = false, true }
	permit := func(ordinal int32) *config.Restart { return &config.Restart{Ordinal: ordinal, Hash: "new"} }
	list := func(s ...status.Server) []status.Server { return s }

	cases := map[string]struct {
		reason  string
		servers []status.Server
		hash    string
		want    *config.Restart
	}{
		"Nobody":       {reason: "All serve it.", servers: list(server(0, "new", nil), server(1, "new", nil), server(2, "new", nil)), hash: "new"},
		"Unknown":      {reason: "Nobody knows what they should serve.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "old", nil))},
		"Highest":      {reason: "From the highest down.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "old", nil)), hash: "new", want: permit(2)},
		"Next":         {reason: "The first one is done.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "new", nil)), hash: "new", want: permit(1)},
		"Restarting":   {reason: "The one that is down for it keeps its permit.", servers: list(server(0, "old", nil), server(1, "old", func(s *status.Server) { down(s); failing(s) }), server(2, "new", nil)), hash: "new", want: permit(1)},
		"DoneNotReady": {reason: "The next one waits until the last is back.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "new", down)), hash: "new"},
		"AnotherDown":  {reason: "A server that is down for another reason.", servers: list(server(0, "old", down), server(1, "old", nil), server(2, "old", nil)), hash: "new"},
		"NotServing":   {reason: "A pod that is Ready, whose agent says that the server is not.", servers: list(server(0, "old", failing), server(1, "old", nil), server(2, "old", nil)), hash: "new"},
		"Silent":       {reason: "A server of which nothing is known.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "old", silent)), hash: "new"},
		"Missing":      {reason: "A server that is not there.", servers: list(server(0, "old", nil), server(2, "old", nil)), hash: "new"},
		"Leaving":      {reason: "A pod that is being deleted needs no restart, and is missing for the others.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "old", leaving)), hash: "new"},
		"OtherNeed":    {reason: "What else only a restart applies, a server says itself.", servers: list(server(0, "new", nil), server(1, "new", func(s *status.Server) { s.Report.Restart = "databases" }), server(2, "new", nil)), hash: "new", want: &config.Restart{Ordinal: 1, Hash: "databases"}},
		"ScaledAway":   {reason: "A pod beyond the replicas counts for nothing.", servers: list(server(0, "old", nil), server(1, "old", nil), server(2, "new", nil), server(3, "old", leaving)), hash: "new", want: permit(1)},
		"None":         {reason: "There is nobody.", hash: "new"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, restartPermit(tc.servers, 3, tc.hash)); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	if diff := cmp.Diff(permit(0), restartPermit(list(server(0, "old", nil)), 1, "new")); diff != "" {
		t.Errorf("one server alone: -want, +got:\n%s", diff)
	}
}

// R52: three servers get a new certificate one after the other, each with the others
// Ready, and no permit is left.
func TestRestartsInTurn(t *testing.T) {
	c := call{xr: seedXR(func(_, spec object) { spec["replicas"] = 3.0 }), input: object{}}
	calls := settled(c)
	c = calls[len(calls)-1].clone()
	hash := func(c call) string {
		get := func(key string) []byte {
			b, _ := base64.StdEncoding.DecodeString(dig(c.observed, naming.KeyTLS, "data", key).(string))
			return b
		}
		return config.TLSHash(get("tls.crt"), get("ca.crt"))
	}
	// The reports of three agents; serves is what each of them serves.
	var serves [3]string
	down := -1
	reporting := func(c call) call {
		reports := object{}
		for i, p := range dig(c.required, naming.RequirePods).([]any) {
			meta := p.(object)["metadata"].(object)
			r, err := report.Report{PodUID: meta["uid"].(string), Version: "3.1.0", Ready: i != down, Applied: report.Applied{TLS: serves[i]}}.String()
			if err != nil {
				t.Fatal(err)
			}
			reports[meta["name"].(string)] = r
		}
		c.observed.(object)[naming.KeyState] = object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "my-ds-state", "namespace": "team"}, "data": reports}
		return c
	}
	permit := func(rsp *fnv1.RunFunctionResponse) *config.Restart {
		p, err := config.Parse(plain(rsp, naming.KeyConfig, config.Key))
		if err != nil {
			t.Fatal(err)
		}
		return p.Restart
	}
	old := hash(c)
	serves = [3]string{old, old, old}
	c = reporting(c)
	if p := permit(run(c.request())); p != nil {
		t.Fatalf("a permit without need: %v", p)
	}

	// A name more is another certificate.
	c.xr.(object)["spec"].(object)["tls"] = object{"dnsNames": []any{"ldap.example.org"}}
	c = reporting(live(c, runWith(c.request(), now, 9)))
	want := hash(c)
	if want == old {
		t.Fatal("the certificate is the old one")
	}
	var order []int32
	for range 20 {
		rsp := run(c.request())
		p := permit(rsp)
		if p == nil {
			break
		}
		if p.Hash != want {
			t.Fatalf("the permit is for %s, want %s", p.Hash, want)
		}
		if r := tlsReason(rsp); r != "RestartPending" {
			t.Errorf("the condition says %s", r)
		}
		if down >= 0 && int(p.Ordinal) != down {
			t.Fatalf("server %d may restart while %d does", p.Ordinal, down)
		}
		if down < 0 {
			// It stops, and serves nothing new yet.
			order, down = append(order, p.Ordinal), int(p.Ordinal)
		} else {
			serves[down], down = want, -1
		}
		c = reporting(live(c, rsp))
	}
	if diff := cmp.Diff([]int32{2, 1, 0}, order); diff != "" {
		t.Errorf("the order: -want, +got:\n%s", diff)
	}
	if got := tlsReason(run(c.request())); got != "Serving" {
		t.Errorf("afterwards the condition says %s", got)
	}

	// R52: an operation replaces pods by itself, and nothing restarts beside it.
	serves = [3]string{want, want, old}
	c = reporting(c)
	if permit(run(c.request())) == nil {
		t.Fatal("no permit")
	}
	spec := c.xr.(object)["spec"].(object)
	spec["image"], spec["version"] = "quay.io/389ds/dirsrv:3.1.1", "3.1.1"
	for range 2 {
		rsp := run(c.request())
		if p := permit(rsp); p != nil {
			t.Errorf("a permit while an upgrade runs: %v", p)
		}
		c = reporting(live(c, rsp))
	}
}

// R52: a CA that cannot sign is neither replaced nor used: only a person knows whether
// clients still need it.
func TestTLSCADamaged(t *testing.T) {
	c := steadyCall()
	for _, s := range []any{dig(c.observed, naming.KeyTLSCA), dig(c.required, naming.KeyTLSCA).([]any)[0]} {
		s.(object)["data"].(object)["tls.key"] = "eA=="
	}
	c.xr.(object)["spec"].(object)["tls"] = object{"dnsNames": []any{"ldap.example.org"}}
	rsp, err := check(c.request())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{naming.KeyTLSCA, naming.KeyTLS} {
		if !cmp.Equal(dig(c.observed, key, "data"), rsp.GetDesired().GetResources()[key].GetResource().AsMap()["data"]) {
			t.Errorf("%s changes", key)
		}
	}
	if got := tlsReason(rsp); got != "CAInvalid" {
		t.Errorf("the condition says %s", got)
	}
}

// R52, S4: what Crossplane is asked for.
func TestTLSRequirements(t *testing.T) {
	cases := map[string]struct {
		reason string
		tls    object
		want   map[string]string
	}{
		"SelfSigned":  {reason: "Both that we would make.", tls: object{}, want: map[string]string{naming.KeyTLS: "my-ds-tls", naming.KeyTLSCA: "my-ds-tls-ca"}},
		"Secret":      {reason: "The one that is named.", tls: object{"mode": "Secret", "secretRef": object{"name": "mine"}}, want: map[string]string{naming.KeyTLS: "mine"}},
		"CertManager": {reason: "The one that cert-manager makes.", tls: object{"mode": "CertManager", "issuerRef": object{"name": "ca"}}, want: map[string]string{naming.KeyTLS: "my-ds-tls-issued"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, c := range []call{{xr: seedXR(nil)}, steadyCall()} {
				c.xr.(object)["spec"].(object)["tls"] = tc.tls
				got := map[string]string{}
				for key, r := range run(c.request()).GetRequirements().GetResources() {
					if key == naming.KeyTLS || key == naming.KeyTLSCA {
						got[key] = r.GetMatchName()
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
				}
			}
		})
	}
}

// R52: what the servers serve is named by what they have, not by what the spec asks for.
func TestTLSHash(t *testing.T) {
	state, err := observed.From(steadyCall().request())
	if err != nil {
		t.Fatal(err)
	}
	_, m := tlsOf(state, now)
	own := state.GeneratedTLS.Data
	if want := config.TLSHash(own["tls.crt"], own["ca.crt"]); m.Hash != want || m.Hash == "" {
		t.Errorf("the hash is %q, want %q", m.Hash, want)
	}
	state.Service.Spec.TLS = v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret, SecretRef: &v1alpha1.LocalSecretRef{Name: "mine"}}
	state.TLS = observed.Answer[*corev1.Secret]{Arrived: true, Value: &corev1.Secret{Data: map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")}}}
	if _, got := tlsOf(state, now); got.Hash != m.Hash {
		t.Errorf("the hash is that of a Secret which no pod has")
	}
	state.GeneratedTLS.Data = map[string][]byte{"tls.crt": []byte("x")}
	if _, got := tlsOf(state, now); got.Hash != "" {
		t.Errorf("servers may restart for what is no certificate")
	}
}

// R52: a Secret under our names that somebody else made is used and not taken over.
func TestForeignTLS(t *testing.T) {
	c := steadyCall()
	for _, key := range []string{naming.KeyTLS, naming.KeyTLSCA} {
		delete(c.observed.(object), key)
		delete(dig(c.required, key).([]any)[0].(object)["metadata"].(object), "labels")
	}
	rsp, err := check(c.request())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{naming.KeyTLS, naming.KeyTLSCA} {
		if _, ok := rsp.GetDesired().GetResources()[key]; ok {
			t.Errorf("%s is taken over", key)
		}
	}
	// A CA alone signs.
	c.required.(object)[naming.KeyTLS] = []any{}
	rsp = run(c.request())
	if _, ok := rsp.GetDesired().GetResources()[naming.KeyTLSCA]; ok {
		t.Error("the CA is taken over")
	}
	if plain(rsp, naming.KeyTLS, "ca.crt") == "" {
		t.Error("the CA that somebody brought signs nothing")
	}
}

// R52: clients keep the CA that they need while servers still serve what it signed, and
// while the Secret is gone.
func TestPublishedCA(t *testing.T) {
	c := steadyCall()
	state, err := observed.From(c.request())
	if err != nil {
		t.Fatal(err)
	}
	old := string(state.GeneratedTLSCA.Data["tls.crt"])
	other, _ := observed.From(live(call{xr: seedXR(nil), input: object{}, required: nothingYet()}, runWith(call{xr: seedXR(nil), input: object{}, required: nothingYet()}.request(), now, 5)).request())
	fresh := string(other.GeneratedTLSCA.Data["tls.crt"])
	cases := map[string]struct {
		reason   string
		public   string
		changing bool
		want     string
	}{
		"Same":     {reason: "Nothing changes.", public: old, want: old},
		"Replaced": {reason: "Every server serves the new one.", public: fresh, want: fresh},
		"Changing": {reason: "Some servers serve the old one.", public: fresh, changing: true, want: fresh + old},
		"Gone":     {reason: "The Secret is gone, the servers are not.", want: old},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, published(state, tc.public, tc.changing)); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// S3, R52: no key is outside of its Secret, in any state of a certificate's life.
func TestTLSKeysStaySecret(t *testing.T) {
	c := call{xr: seedXR(nil), input: object{}, required: nothingYet()}
	for _, days := range []int{0, 0, 0, 0, 30, 61, 61, 200} {
		rsp := runWith(c.request(), now.Add(time.Duration(days)*24*time.Hour), byte(days))
		public := proto.CloneOf(rsp)
		keys := map[string]string{}
		for _, key := range []string{naming.KeyTLS, naming.KeyTLSCA} {
			if k := plain(rsp, key, "tls.key"); k != "" {
				keys[key] = strings.Split(k, "\n")[1]
			}
			delete(public.GetDesired().GetResources(), key)
		}
		wire, err := proto.Marshal(public)
		if err != nil {
			t.Fatal(err)
		}
		for of, k := range keys {
			if bytes.Contains(wire, []byte(k)) || bytes.Contains(wire, []byte(base64.StdEncoding.EncodeToString([]byte(k)))) || bytes.Contains(wire, []byte("PRIVATE KEY")) {
				t.Errorf("after %d days the key of %s is outside of its Secret", days, of)
			}
		}
		c = live(c, rsp)
	}
}

// R52, R42: what the agent is told besides.
func TestConfigForAgents(t *testing.T) {
	c := steadyCall()
	c.xr.(object)["spec"].(object)["upgrade"] = object{"databaseMigration": "Automatic"}
	c.xr.(object)["metadata"].(object)["annotations"] = object{naming.Annotation("backup-confirmed"): " 3.1.0->4.0.0 "}
	doc, err := config.Parse(plain(run(c.request()), naming.KeyConfig, config.Key))
	if err != nil {
		t.Fatal(err)
	}
	if !doc.DatabaseMigration || doc.BackupConfirmed != "3.1.0->4.0.0" {
		t.Errorf("the document says %+v", doc)
	}
}
