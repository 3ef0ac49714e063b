package fn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// The tests of this file throw requests at the function that no API server would
// let through, and hold its answers against what must be true of every answer.

// A document is a JSON value.
type document = any

// object is a JSON object.
type object = map[string]any

// A call is what a request is made of, as JSON documents: the XR, the composed
// objects by name, lists of required objects by name, and the function's input.
type call struct {
	xr, observed, required, input document
}

func toStruct(d document) *structpb.Struct {
	m, ok := d.(object)
	if !ok {
		return nil
	}
	st, err := structpb.NewStruct(m)
	if err != nil {
		return nil
	}
	return st
}

// request is the call as Crossplane would send it; what no Crossplane could send
// is left out.
func (c call) request() *fnv1.RunFunctionRequest {
	req := &fnv1.RunFunctionRequest{
		Meta:     &fnv1.RequestMeta{Tag: "t"},
		Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: toStruct(c.xr)}},
		Input:    toStruct(c.input),
	}
	if m, ok := c.observed.(object); ok {
		req.Observed.Resources = make(map[string]*fnv1.Resource, len(m))
		for name, o := range m {
			req.Observed.Resources[strings.ToValidUTF8(name, "?")] = &fnv1.Resource{Resource: toStruct(o)}
		}
	}
	if m, ok := c.required.(object); ok {
		req.RequiredResources = make(map[string]*fnv1.Resources, len(m))
		for name, list := range m {
			rs := &fnv1.Resources{}
			if items, ok := list.([]any); ok {
				for _, o := range items {
					rs.Items = append(rs.Items, &fnv1.Resource{Resource: toStruct(o)})
				}
			}
			req.RequiredResources[strings.ToValidUTF8(name, "?")] = rs
		}
	}
	return req
}

func (c call) clone() call {
	return call{clone(c.xr), clone(c.observed), clone(c.required), clone(c.input)}
}

func clone(d document) document {
	switch v := d.(type) {
	case object:
		m := make(object, len(v))
		for k, e := range v {
			m[k] = clone(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = clone(e)
		}
		return l
	}
	return d
}

// now is the time of every call that does not say otherwise: a minute after everything
// was made.
var now = time.Date(2026, time.January, 1, 0, 1, 0, 0, time.UTC)

// run answers a request with the same chance, and at the same time, in every call.
func run(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse { return runAt(req, now) }

func runAt(req *fnv1.RunFunctionRequest, at time.Time) *fnv1.RunFunctionResponse {
	return runWith(req, at, 1)
}

// runWith another chance: what is made in two calls differs.
func runWith(req *fnv1.RunFunctionRequest, at time.Time, seed byte) *fnv1.RunFunctionResponse {
	f := &Function{
		Log: logging.NewNopLogger(), Random: rand.NewChaCha8([32]byte{seed}),
		Now: func() time.Time { return at }, AgentImage: "registry.example.com/function:v1",
	}
	return f.Run(req)
}

// check answers a request and returns what is wrong with the answer: nothing, ever.
func check(req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	wire := func(m proto.Message) ([]byte, error) { return proto.MarshalOptions{Deterministic: true}.Marshal(m) }
	before, err := wire(req)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be sent: %w", err)
	}
	rsp := run(req)
	out, err := wire(rsp)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be sent: %w", err)
	}
	again := run(req)
	if second, err := wire(again); err != nil || !bytes.Equal(out, second) {
		return nil, fmt.Errorf("the same request got another answer: -first, +second:\n%s", cmp.Diff(rsp, again, protocmp.Transform()))
	}
	if after, err := wire(req); err != nil || !bytes.Equal(before, after) {
		return nil, errors.New("the request was changed")
	}
	return rsp, errors.Join(nothingLost(req, rsp), heldUnchanged(req, rsp), secretsKept(req, rsp), secretsHidden(req, rsp))
}

func fatal(rsp *fnv1.RunFunctionResponse) bool {
	return slices.ContainsFunc(rsp.GetResults(), func(r *fnv1.Result) bool { return r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL })
}

// valid says that the function acted upon the spec.
func valid(rsp *fnv1.RunFunctionResponse) bool {
	return !fatal(rsp) && slices.ContainsFunc(rsp.GetConditions(), func(c *fnv1.Condition) bool {
		return c.GetType() == status.TypeSpecValid && c.GetStatus() == fnv1.Status_STATUS_CONDITION_TRUE
	})
}

// nothingLost: an observed object that is not returned is deleted. Only what a
// valid spec turns off may be (R18, R19, R20); deletion protection also where
// something else in the spec is wrong, or a broken service could not be deleted.
func nothingLost(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) error {
	spec := req.GetObserved().GetComposite().GetResource().GetFields()["spec"].GetStructValue().GetFields()
	off := map[string]bool{
		naming.KeyPodDisruptionBudget: spec["replicas"].GetNumberValue() <= 1,
		naming.KeyNetworkPolicy:       !spec["networkPolicy"].GetStructValue().GetFields()["enabled"].GetBoolValue(),
		naming.KeyUsage:               !spec["deletionProtection"].GetBoolValue(),
		naming.KeyCertificate:         spec["tls"].GetStructValue().GetFields()["mode"].GetStringValue() != "CertManager",
	}
	for name := range req.GetObserved().GetResources() {
		mayGo := off[name] && (valid(rsp) || name == naming.KeyUsage && !fatal(rsp) && spec["image"].GetStringValue() != "")
		// What deletes a stuck pod goes with the pod.
		mayGo = mayGo || naming.IsUnstick(name) && !fatal(rsp)
		// What grows volumes goes when they have their size.
		mayGo = mayGo || naming.IsResize(name) && valid(rsp)
		if _, kept := rsp.GetDesired().GetResources()[name]; !kept && !mayGo {
			return fmt.Errorf("the observed resource %q is deleted", name)
		}
	}
	return nil
}

// heldUnchanged: while the function does not act upon the spec nothing that exists
// changes, and nothing new is made; but an operation that runs goes on (R35).
func heldUnchanged(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) error {
	if valid(rsp) {
		return nil
	}
	rolls := false
	if state, err := observed.From(req); err == nil && !fatal(rsp) {
		ledger, _ := ledgerOf(state)
		rolls = ledger.Operation != nil
	}
	for name, r := range rsp.GetDesired().GetResources() {
		o, exists := req.GetObserved().GetResources()[name]
		if naming.IsUnstick(name) && !fatal(rsp) {
			continue
		}
		if name == naming.KeyStatefulSet && rolls {
			if exists {
				o = withoutRollout(o)
			} else {
				o = withoutRollout(foundByName(req, name))
			}
			r, exists = withoutRollout(r), o != nil
		}
		if !exists {
			return fmt.Errorf("%q is made although the spec is not valid", name)
		}
		for field, want := range o.GetResource().GetFields() {
			if name == naming.KeyState && r.GetResource().GetFields()[field] == nil {
				// It holds the agents' own keys: what Crossplane does not apply stays.
				continue
			}
			if got := r.GetResource().GetFields()[field]; field != "status" && field != "metadata" && !proto.Equal(want, got) {
				return fmt.Errorf("%s of %q changes although the spec is not valid: -observed, +desired:\n%s", field, name, cmp.Diff(want, got, protocmp.Transform()))
			}
		}
	}
	return nil
}

// withoutRollout is a StatefulSet without what a rollout changes of it.
func withoutRollout(sts *fnv1.Resource) *fnv1.Resource {
	c := proto.CloneOf(sts)
	for _, field := range []string{"template", "updateStrategy"} {
		delete(c.GetResource().GetFields()["spec"].GetStructValue().GetFields(), field)
	}
	for _, t := range c.GetResource().GetFields()["spec"].GetStructValue().GetFields()["volumeClaimTemplates"].GetListValue().GetValues() {
		delete(t.GetStructValue().GetFields(), "status")
	}
	return c
}

// foundByName is an object that the XR does not reference.
func foundByName(req *fnv1.RunFunctionRequest, name string) *fnv1.Resource {
	if items := req.GetRequiredResources()[name].GetItems(); len(items) > 0 {
		return items[0]
	}
	return nil
}

func isSecret(r *fnv1.Resource) bool {
	return r.GetResource().GetFields()["kind"].GetStringValue() == "Secret"
}

func data(r *fnv1.Resource) map[string]*structpb.Value {
	return r.GetResource().GetFields()["data"].GetStructValue().GetFields()
}

// secretsKept: a generated value is never changed by a later call (R9), but for a
// certificate, which is renewed by a valid service (R52).
func secretsKept(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) error {
	for name, o := range req.GetObserved().GetResources() {
		if !isSecret(o) || name == naming.KeyTLS && valid(rsp) {
			continue
		}
		got := data(rsp.GetDesired().GetResources()[name])
		for key, v := range data(o) {
			if v.GetStringValue() != "" && !proto.Equal(v, got[key]) {
				return fmt.Errorf("the value of %q in the Secret %q changes", key, name)
			}
		}
	}
	return nil
}

// secretsHidden: the value of a Secret, observed, required or just made, is in no
// other object, in no status, condition or event.
func secretsHidden(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) error {
	values := map[string]bool{}
	var known []*fnv1.Resource // What was public before stays so.
	sort := func(r *fnv1.Resource) {
		if !isSecret(r) {
			known = append(known, r)
			return
		}
		for _, v := range data(r) {
			values[v.GetStringValue()] = true
			if plain, err := base64.StdEncoding.DecodeString(v.GetStringValue()); err == nil && !isCertificate(plain) {
				values[string(plain)] = true
			}
		}
	}
	known = append(known, req.GetObserved().GetComposite(), &fnv1.Resource{Resource: req.GetInput()})
	for _, r := range req.GetObserved().GetResources() {
		sort(r)
	}
	for _, rs := range req.GetRequiredResources() {
		for _, r := range rs.GetItems() {
			sort(r)
		}
	}
	in, err := proto.Marshal(&fnv1.Resources{Items: known})
	if err != nil {
		return err
	}

	public := &fnv1.RunFunctionResponse{
		Conditions: rsp.GetConditions(), Results: rsp.GetResults(), Requirements: rsp.GetRequirements(), Context: rsp.GetContext(),
		Desired: &fnv1.State{Composite: rsp.GetDesired().GetComposite(), Resources: map[string]*fnv1.Resource{}},
	}
	for name, r := range rsp.GetDesired().GetResources() {
		sort(r)
		if !isSecret(r) {
			public.Desired.Resources[name] = r
		}
	}
	out, err := proto.Marshal(public)
	if err != nil {
		return err
	}
	for v := range values {
		// Shorter ones are words that are anywhere.
		if len(v) >= 12 && bytes.Contains(out, []byte(v)) && !bytes.Contains(in, []byte(v)) {
			return fmt.Errorf("the value of a Secret (%d bytes) is outside of a Secret", len(v))
		}
	}
	return nil
}

// isCertificate says that a value is one, or several, and nothing else: that is public.
func isCertificate(v []byte) bool {
	for len(v) > 0 {
		b, rest := pem.Decode(v)
		if b == nil || b.Type != "CERTIFICATE" || !bytes.HasPrefix(v, []byte("-----BEGIN")) {
			return false
		}
		v = rest
	}
	return true
}

// seedXR is the first example object of the README as Crossplane hands it over (R1).
func seedXR(change func(xr, spec object)) object {
	spec := object{
		"image": "quay.io/389ds/dirsrv:3.1.0", "version": "3.1.0", "replicas": 2.0,
		"suffixes": []any{object{"name": "userroot", "dn": "dc=example,dc=com", "createEntry": true}},
		"storage":  object{"size": "10Gi"},
		"ports":    object{"ldap": 3389.0, "ldaps": 3636.0},
	}
	xr := object{
		"apiVersion": "dirsrv.operator.port389.org/v1alpha1", "kind": "DirectoryService",
		"metadata": object{"name": "my-ds", "namespace": "team", "uid": "u-1", "generation": 3.0},
		"spec":     spec,
	}
	if change != nil {
		change(xr, spec)
	}
	return xr
}

// asClaims makes the XR that of a claim.
func asClaims(xr, _ object) {
	xr["kind"] = "XDirectoryService"
	xr["metadata"] = object{
		"name": "my-ds-x7k2p", "uid": "u-1",
		"labels": object{"crossplane.io/claim-name": "my-ds", "crossplane.io/claim-namespace": "team", "crossplane.io/composite": "my-ds-x7k2p"},
	}
}

// everything sets every field of the spec.
func everything(_, spec object) {
	maps.Copy(spec, object{
		"service":                   object{"type": "LoadBalancer", "annotations": object{"a": "b"}, "loadBalancerClass": "internal", "loadBalancerSourceRanges": []any{"10.0.0.0/8"}, "externalTrafficPolicy": "Local"},
		"networkPolicy":             object{"enabled": true, "clients": []any{object{"podSelector": object{"matchLabels": object{"app": "x"}}}}, "monitoring": []any{object{"ipBlock": object{"cidr": "10.0.0.0/8"}}}},
		"deletionProtection":        true,
		"startup":                   object{"timeoutSeconds": 120.0},
		"resources":                 object{"requests": object{"cpu": "250m", "memory": "1Gi"}, "limits": object{"memory": "2Gi"}},
		"nodeSelector":              object{"disk": "ssd"},
		"tolerations":               []any{object{"key": "directory", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30.0}},
		"affinity":                  object{"nodeAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []any{object{"weight": 1.0, "preference": object{"matchExpressions": []any{object{"key": "a", "operator": "In", "values": []any{"b"}}}}}}}},
		"topologySpreadConstraints": []any{object{"maxSkew": 1.0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}},
		"priorityClassName":         "high",
		"imagePullSecrets":          []any{object{"name": "pull"}},
		"imagePullPolicy":           "Always",
		"podLabels":                 object{"team": "a"},
		"podAnnotations":            object{"a": "b"},
		"podSecurityContext":        object{"fsGroup": 1000.0, "supplementalGroups": []any{1.0}},
		"securityContext":           object{"readOnlyRootFilesystem": false},
		"serviceAccountAnnotations": object{"a": "b"},
		"dmPasswordMode":            "file",
		"tls":                       object{"mode": "SelfSigned", "dnsNames": []any{"ldap.example.org"}},
	})
	spec["storage"] = object{"size": "10Gi", "storageClassName": "fast"}
	spec["suffixes"] = append(spec["suffixes"].([]any), object{"name": "o", "dn": "o=Example Inc", "createEntry": false})
}

var seedInput = object{
	"apiVersion": "directoryservice.fn.crossplane.io/v1beta1", "kind": "Input",
	"imageCatalog": []any{object{"image": "quay.io/389ds/dirsrv:latest", "version": "3.1.0"}},
	"defaults":     object{"storageClassName": "standard", "tolerations": []any{object{"operator": "Exists"}}, "podLabels": object{"platform": "a"}},
}

// revision of a StatefulSet's pod template.
func revision(sts object) string {
	b, err := json.Marshal(sts["spec"].(object)["template"])
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:5])
}

// dig is a field of a document; nil where there is none.
func dig(d document, path ...string) any {
	for _, p := range path {
		m, _ := d.(object)
		d = m[p]
	}
	return d
}

// conditionStatus as Crossplane writes it.
var conditionStatus = map[fnv1.Status]string{
	fnv1.Status_STATUS_CONDITION_TRUE: "True", fnv1.Status_STATUS_CONDITION_FALSE: "False", fnv1.Status_STATUS_CONDITION_UNKNOWN: "Unknown",
}

// live is what the cluster makes of an answer: the objects applied, their status
// written by the controllers, every server Ready, and the answers to the requirements.
func live(c call, rsp *fnv1.RunFunctionResponse) call {
	next := c.clone()
	observed, required := object{}, object{naming.RequirePods: []any{}, naming.RequireClaims: []any{}}
	for name, r := range rsp.GetDesired().GetResources() {
		o := r.GetResource().AsMap()
		meta := o["metadata"].(object)
		maps.Copy(meta, object{
			"uid": "uid-" + name, "resourceVersion": "17", "generation": 1.0, "creationTimestamp": "2026-01-01T00:00:00Z",
			"managedFields":   []any{object{"manager": "crossplane", "operation": "Apply", "fieldsV1": object{"f:metadata": object{}}}},
			"ownerReferences": []any{object{"kind": "DirectoryService", "name": "my-ds", "uid": "u-1"}},
		})
		observed[name] = o
	}
	if sts, ok := observed[naming.KeyStatefulSet].(object); ok {
		n := sts["spec"].(object)["replicas"].(float64)
		update, current, partition := revision(sts), revision(sts), 0.0
		if u, ok := sts["spec"].(object)["updateStrategy"].(object)["rollingUpdate"].(object); ok {
			partition, _ = u["partition"].(float64)
		}
		if before := dig(c.observed, naming.KeyStatefulSet, "status", "currentRevision"); before != nil && partition > 0 {
			current = before.(string)
		}
		sts["status"] = object{
			"observedGeneration": 1.0, "replicas": n, "readyReplicas": n, "updatedReplicas": n - min(partition, n),
			"currentRevision": current, "updateRevision": update,
		}
		pods, claims := []any{}, []any{}
		for i := range int(n) {
			name, of := fmt.Sprintf("my-ds-%d", i), update
			if float64(i) < partition {
				of = current
			}
			pods = append(pods, object{
				"apiVersion": "v1", "kind": "Pod",
				"metadata": object{
					"name": name, "namespace": "team", "uid": name + "-of-" + of, "creationTimestamp": "2026-01-01T00:00:00Z",
					"labels": object{"controller-revision-hash": of},
				},
				"status": object{
					"conditions":        []any{object{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"}},
					"containerStatuses": []any{object{"name": "dirsrv", "started": true, "restartCount": 0.0}},
				},
			})
			claims = append(claims, object{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": "ds-data-" + name, "namespace": "team"},
				"spec":   clone(sts["spec"].(object)["volumeClaimTemplates"].([]any)[0].(object)["spec"]),
				"status": object{"phase": "Bound"},
			})
		}
		required[naming.RequirePods], required[naming.RequireClaims] = pods, claims
	}
	if svc, ok := observed[naming.KeyService].(object); ok {
		svc["status"] = object{"loadBalancer": object{"ingress": []any{object{"ip": "192.0.2.1"}}}}
	}
	for _, key := range []string{naming.KeyDMPassword, naming.KeyTLS, naming.KeyTLSCA} {
		required[key] = []any{}
		if s, ok := observed[key].(object); ok {
			required[key] = []any{clone(s)}
		}
	}
	for _, key := range []string{naming.KeyStatefulSet, naming.KeyConfig} {
		if _, ok := observed[key]; !ok {
			required[key] = []any{}
		}
	}
	next.observed, next.required = observed, required
	if xr, ok := next.xr.(object); ok {
		st, _ := rsp.GetDesired().GetComposite().GetResource().AsMap()["status"].(object)
		if st != nil {
			var conditions []any
			for _, c := range rsp.GetConditions() {
				conditions = append(conditions, object{"type": c.GetType(), "status": conditionStatus[c.GetStatus()], "reason": c.GetReason(), "message": c.GetMessage(), "lastTransitionTime": "2026-01-01T00:00:00Z"})
			}
			st["conditions"] = conditions
			xr["status"] = st
		}
	}
	return next
}

// nothingYet is the answer to the requirements of a service of which nothing exists.
func nothingYet() object {
	required := object{}
	for _, key := range []string{naming.RequirePods, naming.RequireClaims, naming.KeyDMPassword, naming.KeyTLS, naming.KeyTLSCA, naming.KeyStatefulSet, naming.KeyConfig} {
		required[key] = []any{}
	}
	return required
}

// settled are the calls of one service from the first to where nothing changes.
func settled(c call) []call {
	calls := []call{c}
	c.required = nothingYet()
	for range 4 {
		calls = append(calls, c)
		c = live(c, run(c.request()))
	}
	return append(calls, c)
}

// seeds are realistic calls: both flavours, from the first call to the steady
// state, and what happens to a service then.
func seeds() []call {
	var out []call
	for _, change := range []func(xr, spec object){nil, asClaims, everything} {
		out = append(out, settled(call{xr: seedXR(change), input: object{}})...)
	}
	out = append(out, settled(call{xr: seedXR(everything), input: seedInput})...)

	steady := out[5]
	edited := func(edit func(c call, spec object)) {
		c := steady.clone()
		edit(c, c.xr.(object)["spec"].(object))
		out = append(out, c)
	}
	edited(func(_ call, spec object) { spec["replicas"] = 1.0 })
	edited(func(_ call, spec object) { spec["image"], spec["version"] = "quay.io/389ds/dirsrv:4.0.0", "4.0.0" })
	edited(func(_ call, spec object) { spec["image"] = "quay.io/389ds/dirsrv:latest" })
	edited(func(_ call, spec object) { spec["suffixes"] = []any{} })
	edited(func(_ call, spec object) { spec["storage"] = object{"size": "1Gi"} })
	edited(func(_ call, spec object) { spec["dmPasswordSecretRef"] = object{"name": "mine", "key": "pw"} })
	edited(func(_ call, spec object) { spec["tls"] = object{"mode": "Secret", "secretRef": object{"name": "mine"}} })
	edited(func(_ call, spec object) {
		spec["tls"] = object{"mode": "CertManager", "issuerRef": object{"name": "ca"}}
	})
	edited(func(_ call, spec object) { spec["tls"] = object{"dnsNames": []any{"ldap.example.org"}} })
	edited(func(c call, _ object) {
		c.observed.(object)[naming.KeyCertificate] = object{"apiVersion": "cert-manager.io/v1", "kind": "Certificate"}
	})
	edited(func(c call, _ object) {
		reports := object{}
		for i, p := range dig(c.required, naming.RequirePods).([]any) {
			uid := dig(p, "metadata", "uid").(string)
			reports[fmt.Sprint("my-ds-", i)] = `{"podUID":"` + uid + `","version":"3.1.0","ready":true,"applied":{"tls":"old"},"tls":{"state":"Failed","message":"m"}}`
		}
		c.observed.(object)[naming.KeyState] = object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "my-ds-state"}, "data": reports}
	})
	edited(func(c call, _ object) {
		delete(c.observed.(object), naming.KeyTLSCA)
		c.required.(object)[naming.KeyTLSCA] = []any{}
	})
	edited(func(_ call, spec object) { spec["podLabels"] = object{"a b": "x", "c d": "y"} })
	edited(func(c call, _ object) { c.observed.(object)[naming.KeyUsage] = object{"kind": "Usage"} })
	edited(func(_ call, spec object) { spec["storage"] = object{"size": "20Gi"} })
	for range 2 {
		c := out[len(out)-1]
		out = append(out, live(c, run(c.request())))
	}
	out = append(out, upgrading(steady)...)
	// A recreated XR has lost its references: what exists is only found by name.
	lost := steady.clone()
	lost.observed = object{}
	delete(lost.xr.(object), "status")
	return append(out, lost)
}

// fails has a pod crash.
func fails(c call, pod int) call {
	c = c.clone()
	status := dig(c.required, naming.RequirePods).([]any)[pod].(object)["status"].(object)
	status["conditions"] = []any{object{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:30Z"}}
	status["containerStatuses"] = []any{object{
		"name": "dirsrv", "restartCount": 3.0,
		"state":     object{"waiting": object{"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=dirsrv"}},
		"lastState": object{"terminated": object{"exitCode": 1.0, "reason": "Error", "message": "cannot open the database"}},
	}}
	sts := dig(c.observed, naming.KeyStatefulSet, "status").(object)
	sts["readyReplicas"] = sts["readyReplicas"].(float64) - 1
	return c
}

// upgrading are the calls of an upgrade of a settled service: while it runs, fails and
// goes back.
func upgrading(steady call) []call {
	begins := steady.clone()
	spec := begins.xr.(object)["spec"].(object)
	spec["image"], spec["version"] = "quay.io/389ds/dirsrv:3.1.1", "3.1.1"
	runs := live(begins, run(begins.request()))
	failed := fails(runs, 1)
	back := live(failed, run(failed.request()))
	// The pod of the failed revision is still there.
	required := back.required.(object)
	required[naming.RequirePods] = clone(failed.required).(object)[naming.RequirePods]
	sts := dig(back.observed, naming.KeyStatefulSet, "status").(object)
	sts["readyReplicas"], sts["updatedReplicas"] = 1.0, 1.0
	unstick := live(back, run(back.request()))
	unstick.required = clone(required)
	sts = dig(unstick.observed, naming.KeyStatefulSet, "status").(object)
	sts["readyReplicas"], sts["updatedReplicas"] = 1.0, 1.0

	out := []call{begins, runs, failed, back, unstick}
	for _, c := range []call{failed, back, unstick} {
		invalid := c.clone()
		invalid.xr.(object)["spec"].(object)["ports"] = object{"ldap": 1.0, "ldaps": 1.0}
		out = append(out, invalid)
	}
	aborted := runs.clone()
	aborted.xr.(object)["spec"] = clone(dig(steady.xr, "spec"))
	requested := steady.clone()
	requested.xr.(object)["metadata"].(object)["annotations"] = object{
		naming.Annotation(upgrade.RollbackTo): "3.0.0", naming.Annotation(upgrade.AllowDegraded): "3.1.0->4.0.0",
		naming.Annotation(upgrade.ApprovedTransition): "3.1.0->4.0.0", naming.Annotation(upgrade.BackupConfirmed): "3.1.0->4.0.0",
	}
	return append(out, aborted, requested)
}

func encode(t testing.TB, d document) []byte {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzRunFunction(f *testing.F) {
	for _, c := range seeds() {
		f.Add(encode(f, c.xr), encode(f, c.observed), encode(f, c.required), encode(f, c.input))
	}
	whole := encode(f, seedXR(everything))
	nothing := []byte("null")
	for _, xr := range [][]byte{
		nil, nothing, []byte("[]"), []byte("1"), []byte(`"x"`), []byte("{}"),
		whole[:len(whole)/2],
		[]byte(`{"metadata":null,"spec":null,"status":null}`),
		[]byte(`{"metadata":{"name":"x"},"spec":{}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y","labels":{"a":1}},"spec":[]}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"suffixes":[null,1,{"name":null,"dn":"="},{"name":"a","dn":"+"}]}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"replicas":1e300,"storage":{"size":-1e300},"ports":{"ldap":0.5}}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"replicas":4294967297,"storage":{"size":"1e999999999"}}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"image":"x:3.1.0","storage":{"size":"1e999999999"}}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"image":"x:3.1.0","storage":{"size":1e300}}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"podLabels":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"podLabels":{"a b":"","b b":"","c b":"","d b":"","e b":"","f b":"","g b":""}}}`),
		[]byte(`{"metadata":{"name":"x","namespace":"y"},"spec":{"image":"` + strings.Repeat("a/", 5000) + `","version":"` + strings.Repeat("1.", 5000) + `"}}`),
	} {
		f.Add(xr, nothing, nothing, nothing)
		f.Add(xr, []byte(`{"statefulset":null,"dm-password":{"apiVersion":"v1","kind":"Secret","data":{"dm-password":"c2VjcmV0LXNlY3JldA=="}},"x":{}}`), nothing, nothing)
	}
	for _, observed := range []string{
		`{"statefulset":{"apiVersion":"v1","kind":"ConfigMap"},"usage":{}}`,
		`{"statefulset":{"apiVersion":"apps/v1","kind":"StatefulSet"}}`,
		`{"statefulset":{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"annotations":{"dirsrv.operator.port389.org/ledger":"{"}},"spec":{"template":null,"volumeClaimTemplates":[null]},"status":{"replicas":-1,"readyReplicas":1e9}}}`,
		`{"config":{"apiVersion":"v1","kind":"ConfigMap","data":{"config.json":"{\"suffixes\":[{\"name\":\"userroot\",\"dn\":\"(\"},{},{}]}"}}}`,
		`{"dm-password":{"apiVersion":"v1","kind":"Secret","data":{"dm-password":"no base64!","a":"AA=="}}}`,
		`{"dm-password":{"apiVersion":"v1","kind":"Secret","data":{"dm-password":{"a-secret-value":"another-secret-value"}},"stringData":{"dm-password":"plain-secret-value"}}}`,
		`{"poddisruptionbudget":{},"networkpolicy":{},"usage":{},"":{}}`,
	} {
		f.Add(whole, []byte(observed), []byte(`{"dm-password":[null],"pods":[{"status":{"conditions":[null]}}],"pvcs":{}}`), []byte(`{"defaults":1}`))
	}

	f.Fuzz(func(t *testing.T, xr, observed, required, input []byte) {
		c := call{}
		for _, d := range []struct {
			raw  []byte
			into *document
		}{{xr, &c.xr}, {observed, &c.observed}, {required, &c.required}, {input, &c.input}} {
			// What is no JSON is a part that is missing.
			_ = json.Unmarshal(d.raw, d.into)
		}
		if _, err := check(c.request()); err != nil {
			t.Error(err)
		}
	})
}

// mutate changes one place of a call as no API server would.
func mutate(r *rand.Rand, c *call) {
	root := object{"xr": c.xr, "observed": c.observed, "required": c.required, "input": c.input}
	// A place is a value and how to replace or remove it.
	type place struct {
		value  any
		set    func(v any)
		remove func()
	}
	var places []place
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case object:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				places = append(places, place{v[k], func(n any) { v[k] = n }, func() { delete(v, k) }})
				walk(v[k])
			}
		case []any:
			for i := range v {
				places = append(places, place{v[i], func(n any) { v[i] = n }, func() { v[i] = nil }})
				walk(v[i])
			}
		}
	}
	walk(root)
	p := places[r.IntN(len(places))]
	other := places[r.IntN(len(places))]

	values := []any{
		nil, true, false, "", "x", " ", "null", "-1", "0", "1e400", "dc=a+dc=b", "=", ",", "\x00", "é\n",
		"quay.io/389ds/dirsrv:3.1.1", "quay.io/389ds/dirsrv:latest", "3.1.1", "Secret", "ConfigMap",
		strings.Repeat("x", 70_000), strings.Repeat("1.", 200),
		0.0, -1.0, 0.5, 1.0, 2.0, 21.0, 65536.0, math.MaxInt32 + 1.0, -math.MaxInt64, 1e300, math.SmallestNonzeroFloat64,
		object{}, []any{}, []any{nil, 1.0, "x", object{}, []any{}}, object{"": nil, "a": object{}},
	}
	switch r.IntN(6) {
	case 0:
		p.remove()
	case 1:
		p.set(clone(other.value))
	case 2:
		switch v := p.value.(type) {
		case []any:
			p.set(append(clone(v).([]any), clone(v).([]any)...))
		case object:
			v[fmt.Sprint("k", r.IntN(3))] = clone(other.value)
		case string:
			p.set(v[:r.IntN(len(v)+1)])
		case float64:
			p.set(-v)
		default:
			p.set([]any{v})
		}
	default:
		p.set(values[r.IntN(len(values))])
	}
	c.xr, c.observed, c.required, c.input = root["xr"], root["observed"], root["required"], root["input"]
}

// A few thousand requests, or as many as four seconds are enough for, each a
// realistic one with some places spoilt. To repeat a failure, set RANDOM_SEED to
// the number that the test prints.
func TestRandomRequests(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RANDOM_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("RANDOM_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	from := seeds()
	sent, acted := 0, 0
	for start := time.Now(); sent < 3000 && time.Since(start) < 4*time.Second; sent++ {
		c := from[sent%len(from)].clone()
		for range 1 + r.IntN(4) {
			mutate(r, &c)
		}
		rsp, err := check(c.request())
		if err != nil {
			t.Fatalf("RANDOM_SEED=%d, request %d: %v\nxr: %.2000s\nobserved: %.2000s", seed, sent, err, encode(t, c.xr), encode(t, c.observed))
		}
		if valid(rsp) {
			acted++
		}
	}
	t.Logf("the function acted upon %d of %d requests", acted, sent)
	// Requests that are all refused at the door would prove little.
	if acted < sent/5 || acted == sent {
		t.Errorf("the function acted upon %d of %d requests", acted, sent)
	}
}

// The seeds themselves hold every invariant, and once settled nothing changes any
// more (R34): the same objects, the same status, no event.
func TestSettledServices(t *testing.T) {
	cases := map[string]struct {
		reason string
		call   call
	}{
		"Namespaced": {reason: "R1: the first example as an XR.", call: call{xr: seedXR(nil)}},
		"Claim":      {reason: "R1: the same as a claim.", call: call{xr: seedXR(asClaims)}},
		"Everything": {reason: "R17: every field of the spec.", call: call{xr: seedXR(everything), input: seedInput}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for i, c := range settled(tc.call) {
				rsp, err := check(c.request())
				if err != nil {
					t.Fatalf("\n%s\ncall %d: %v", tc.reason, i, err)
				}
				if !valid(rsp) {
					t.Fatalf("\n%s\ncall %d: the spec is not valid: %v %v", tc.reason, i, rsp.GetResults(), rsp.GetConditions())
				}
			}
			calls := settled(tc.call)
			last := run(calls[len(calls)-1].request())
			before := run(calls[len(calls)-2].request())
			if diff := cmp.Diff(before.GetDesired().GetResources(), last.GetDesired().GetResources(), protocmp.Transform()); diff != "" {
				t.Errorf("\n%s\nthe objects change for ever: -before, +last:\n%s", tc.reason, diff)
			}
			if password := data(last.GetDesired().GetResources()[naming.KeyDMPassword]); len(password["dm-password"].GetStringValue()) == 0 {
				t.Errorf("\n%s\nthere is no password (R9)", tc.reason)
			}
		})
	}
}

// Huge specs work: 200 suffixes in an XR of a mebibyte arrive whole, in time.
func TestLargeSpec(t *testing.T) {
	xr := seedXR(func(_, spec object) {
		var suffixes, terms []any
		for i := range 200 {
			suffixes = append(suffixes, object{"name": fmt.Sprint("s", i), "dn": fmt.Sprintf("ou=%d,o=%s", i, strings.Repeat("x", 900))})
		}
		for i := range 2000 {
			terms = append(terms, object{"matchExpressions": []any{object{"key": fmt.Sprint("k", i), "operator": "In", "values": []any{strings.Repeat("v", 400)}}}})
		}
		spec["suffixes"] = suffixes
		spec["affinity"] = object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": terms}}}
	})
	if n := len(encode(t, xr)); n < 1<<20 {
		t.Fatalf("the XR has %d bytes, want a mebibyte", n)
	}
	c := call{xr: xr, required: nothingYet()}
	first, err := check(c.request())
	if err != nil {
		t.Fatal(err)
	}
	next := live(c, first).request()
	// The server's default for --max-recv-message-size.
	if n := proto.Size(next); n > 4<<20 {
		t.Errorf("the request has %d bytes, more than the server takes", n)
	}
	rsp, err := check(next)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	run(next)
	// It takes milliseconds. The limit is for the race detector on a busy machine,
	// and finds what grows with the square of the size.
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("the function took %s", d)
	}
	if !valid(rsp) {
		t.Fatalf("the spec is not valid: %v", rsp.GetConditions())
	}
	doc := data(rsp.GetDesired().GetResources()[naming.KeyConfig])[config.Key].GetStringValue()
	parsed, err := config.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.Suffixes) != 200 || parsed.Suffixes[199].Name != "s199" {
		t.Errorf("%d suffixes arrive of 200 (R6)", len(parsed.Suffixes))
	}
	if n := len(doc); n > 1<<20 {
		t.Errorf("the ConfigMap has %d bytes, more than the API server takes", n)
	}
	st := rsp.GetDesired().GetComposite().GetResource().GetFields()["status"].GetStructValue()
	if n := len(st.GetFields()["suffixes"].GetListValue().GetValues()); n != 200 {
		t.Errorf("the status has %d suffixes of 200", n)
	}
}

// To compare, or even to read, a quantity with a large exponent takes Kubernetes'
// library minutes and gigabytes. One service's typing error must not stop the
// function for all others: such a spec is refused, with its field, and such an
// object of somebody else's holds what exists.
func TestHugeQuantities(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(c call, spec object)
		want   string
	}{
		"StorageSize": {
			reason: "R7: a size that no volume has.",
			change: func(_ call, spec object) { spec["storage"] = object{"size": "1e999999999"} },
			want:   "spec",
		},
		"TinyStorageSize": {
			reason: "R7: nor this.",
			change: func(_ call, spec object) { spec["storage"] = object{"size": "1e-999999999"} },
			want:   "spec",
		},
		"LongMantissa": {
			reason: "R7: nor this, which takes another way through the library.",
			change: func(_ call, spec object) {
				spec["storage"] = object{"size": "1234567890123456789012e999999999"}
			},
			want: "spec",
		},
		"LargeButReadable": {
			reason: "R7: an exponent of seven digits is read in no time, and compared in seconds.",
			change: func(_ call, spec object) { spec["storage"] = object{"size": "1E9999999"} },
			want:   "spec",
		},
		"Resources": {
			reason: "R17: the same of resources.",
			change: func(_ call, spec object) {
				spec["resources"] = object{"requests": object{"memory": "1e999999999"}, "limits": object{"memory": "1Gi"}}
			},
			want: "spec",
		},
		"InputResources": {
			reason: "The platform's default is no better.",
			change: func(c call, _ object) {
				c.input.(object)["defaults"] = object{"resources": object{"requests": object{"memory": "1e999999999"}, "limits": object{"memory": "1Gi"}}}
			},
			want: "input",
		},
		"Claim": {
			reason: "A volume claim is somebody else's to spoil.",
			change: func(c call, _ object) {
				claim := c.required.(object)[naming.RequireClaims].([]any)[0].(object)
				claim["spec"].(object)["resources"] = object{"requests": object{"storage": "1e999999999"}}
			},
			want: naming.RequireClaims,
		},
	}
	calls := settled(call{xr: seedXR(nil), input: object{}})
	steady := calls[len(calls)-1]
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := steady.clone()
			tc.change(c, c.xr.(object)["spec"].(object))
			type answer struct {
				rsp *fnv1.RunFunctionResponse
				err error
			}
			done := make(chan answer, 1)
			go func() {
				rsp, err := check(c.request())
				done <- answer{rsp, err}
			}()
			select {
			case a := <-done:
				if a.err != nil {
					t.Fatalf("\n%s\n%v", tc.reason, a.err)
				}
				if valid(a.rsp) {
					t.Errorf("\n%s\nthe spec is valid", tc.reason)
				}
				if m := a.rsp.GetConditions()[0].GetMessage(); !strings.Contains(m, tc.want) {
					t.Errorf("\n%s\nthe message does not name %q: %s", tc.reason, tc.want, m)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("\n%s\nthe function does not answer", tc.reason)
			}
		})
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("no randomness") }

// A panic in our own code is one service's error: everything is held, and the
// process lives on.
func TestRunFunction(t *testing.T) {
	c := call{
		xr:       seedXR(nil),
		observed: object{"usage": object{"kind": "Usage", "spec": object{"a": "b"}}, "x": object{"kind": "Y"}},
		required: nothingYet(),
	}
	cases := map[string]struct {
		reason string
		random io.Reader
		fatal  string
	}{
		"Panic":        {reason: "Chance panics.", random: panicking{}, fatal: "nothing was changed"},
		"NoRandomness": {reason: "Chance fails: no password is made up.", random: strings.NewReader(""), fatal: "cannot generate a password"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := &Function{Log: logging.NewNopLogger(), Random: tc.random, AgentImage: "registry.example.com/function:v1"}
			req := c.request()
			rsp, err := f.RunFunction(context.Background(), req)
			if err != nil {
				t.Fatalf("\n%s\nRunFunction(): %v", tc.reason, err)
			}
			if !fatal(rsp) || !strings.Contains(rsp.GetResults()[0].GetMessage(), tc.fatal) {
				t.Errorf("\n%s\nwant a fatal result with %q, got %v", tc.reason, tc.fatal, rsp.GetResults())
			}
			if diff := cmp.Diff(req.GetObserved().GetResources(), rsp.GetDesired().GetResources(), protocmp.Transform(), protocmp.IgnoreFields(&fnv1.Resource{}, "ready")); diff != "" {
				t.Errorf("\n%s\n-observed, +desired:\n%s", tc.reason, diff)
			}
		})
	}
}
