package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// server that serves the certificate with that hash.
func server(ordinal int32, hash string) Server {
	return Server{
		Pod: naming.Identity{Name: "ds", Namespace: "team"}.Pod(ordinal), Ordinal: ordinal, HasAgent: true, Ready: true,
		Report: &report.Report{
			Ready: true, Applied: report.Applied{TLS: hash},
			TLS: report.Part{State: report.StateApplied}, DMPassword: report.Part{State: report.StateApplied},
		},
	}
}

func tlsMode(mode v1alpha1.TLSMode) func(in *Inputs) {
	return func(in *Inputs) {
		in.Spec.TLS.Mode = mode
		in.TLS.Generated, in.TLS.CASecret, in.TLS.CAArrived = mode == v1alpha1.TLSModeSelfSigned, "", false
		switch mode {
		case v1alpha1.TLSModeSecret:
			in.Spec.TLS.SecretRef = &v1alpha1.LocalSecretRef{Name: "mine"}
			in.TLS.Secret, in.TLS.InUse = "mine", "mine"
		case v1alpha1.TLSModeCertManager:
			in.Spec.TLS.IssuerRef = &v1alpha1.IssuerRef{Name: "ca"}
			in.TLS.Secret, in.TLS.InUse = "ds-tls-issued", "ds-tls-issued"
		case v1alpha1.TLSModeSelfSigned:
		}
	}
}

// R52, R33: each state of the certificate. What is bad names the field and the command.
func TestTLSReady(t *testing.T) {
	const (
		yes     = metav1.ConditionTrue
		no      = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	type change = func(in *Inputs)
	brought, issued := tlsMode(v1alpha1.TLSModeSecret), tlsMode(v1alpha1.TLSModeCertManager)
	problem := func(reason, detail string) change {
		return func(in *Inputs) { in.TLS.Problem, in.TLS.Detail = reason, detail }
	}
	absent := func(in *Inputs) { in.TLS.Exists, in.TLS.Hash = false, "" }
	servers := func(s ...Server) change { return func(in *Inputs) { in.Servers = s } }
	failed := server(1, "h0")
	failed.Report.TLS = report.Part{State: report.StateFailed, Message: "certutil: bad database"}
	old, none := server(1, "h0"), server(2, "")
	silent := server(0, "")
	silent.Report = nil
	bare := silent
	bare.HasAgent = false

	type want struct {
		status metav1.ConditionStatus
		reason string
		bad    bool
		blocks bool
	}
	cases := map[string]struct {
		reason  string
		changes []change
		want    want
		words   []string
	}{
		"Serving":        {reason: "All is well.", want: want{status: yes, reason: "Serving"}, words: []string{`"ds-tls"`}},
		"NotLookedUp":    {reason: "Nobody is to blame for a question without an answer.", changes: []change{func(in *Inputs) { in.TLS.Arrived = false }}, want: want{status: unknown, reason: "NotLookedUp"}},
		"CANotLookedUp":  {reason: "The same for the CA.", changes: []change{func(in *Inputs) { in.TLS.CAArrived = false }}, want: want{status: unknown, reason: "NotLookedUp"}},
		"Waiting":        {reason: "Nothing is made for an invalid spec.", changes: []change{invalid, absent}, want: want{status: unknown, reason: "Waiting"}, words: []string{TypeSpecValid}},
		"Generating":     {reason: "The CA comes first.", changes: []change{firstInstall, absent}, want: want{status: unknown, reason: "Generating"}},
		"Damaged":        {reason: "A certificate of our own is made anew.", changes: []change{problem(TLSInvalid, "x")}, want: want{status: unknown, reason: "Generating"}},
		"CAInvalid":      {reason: "Without a CA there is no certificate.", changes: []change{absent, func(in *Inputs) { in.TLS.CAProblem = "it has expired" }}, want: want{status: no, reason: "CAInvalid", bad: true, blocks: true}, words: []string{"it has expired", "kubectl -n team delete secret ds-tls-ca"}},
		"CAInvalidLater": {reason: "The servers still have theirs: nothing is held back.", changes: []change{func(in *Inputs) { in.TLS.CAProblem = "it has expired" }}, want: want{status: no, reason: "CAInvalid", bad: true}, words: []string{"kubectl -n team delete secret ds-tls-ca"}},
		"CALost":         {reason: "Clients need the new one.", changes: []change{func(in *Inputs) { in.TLS.CALost = true }}, want: want{status: no, reason: "CALost", bad: true}, words: []string{"kubectl -n team get configmap ds-config"}},
		"CAExpiresSoon":  {reason: "In time to give clients another.", changes: []change{func(in *Inputs) { in.TLS.CAExpiresSoon = true }}, want: want{status: yes, reason: "CAExpiresSoon", bad: true}, words: []string{"kubectl -n team delete secret ds-tls-ca"}},

		"SecretMissing": {
			reason: "S4: the command that makes it.", changes: []change{brought, absent},
			want:  want{status: no, reason: "SecretMissing", bad: true, blocks: true},
			words: []string{"spec.tls.secretRef.name", "kubectl -n team create secret generic mine --type=kubernetes.io/tls --from-file=tls.crt=FILE --from-file=tls.key=FILE"},
		},
		"KeyMissing":   {reason: "S4: the key that it lacks.", changes: []change{brought, problem(TLSKeyMissing, "tls.key")}, want: want{status: no, reason: "KeyMissing", bad: true, blocks: true}, words: []string{`"tls.key"`, "kubectl -n team edit secret mine"}},
		"Invalid":      {reason: "Why it is of no use.", changes: []change{brought, problem(TLSInvalid, "tls.key is not the key")}, want: want{status: no, reason: "Invalid", bad: true, blocks: true}, words: []string{"tls.key is not the key"}},
		"Expired":      {reason: "Clients refuse it.", changes: []change{brought, problem(TLSExpired, "")}, want: want{status: no, reason: "Expired", bad: true, blocks: true}},
		"ExpiresSoon":  {reason: "Still served, but not for long.", changes: []change{brought, func(in *Inputs) { in.TLS.ExpiresSoon = true }}, want: want{status: yes, reason: "ExpiresSoon", bad: true}, words: []string{"kubectl -n team edit secret mine"}},
		"RenewedSoon":  {reason: "Our own is renewed by itself.", changes: []change{func(in *Inputs) { in.TLS.ExpiresSoon = true }}, want: want{status: yes, reason: "Serving"}},
		"HeldSoon":     {reason: "But not while the spec is invalid.", changes: []change{invalid, func(in *Inputs) { in.TLS.ExpiresSoon = true }}, want: want{status: yes, reason: "ExpiresSoon", bad: true}, words: []string{TypeSpecValid}},
		"NamesMissing": {reason: "A warning: nobody knows how clients are configured.", changes: []change{brought, func(in *Inputs) { in.TLS.MissingNames = []string{"ds.team.svc"} }}, want: want{status: yes, reason: "NamesMissing", bad: true}, words: []string{"ds.team.svc"}},
		"Foreign":      {reason: "A Secret of our name that is not ours is used, and not mended.", changes: []change{func(in *Inputs) { in.TLS.Generated = false }, problem(TLSExpired, "")}, want: want{status: no, reason: "Expired", bad: true, blocks: true}, words: []string{"kubectl -n team delete secret ds-tls"}},

		"Issuing":       {reason: "cert-manager takes its seconds.", changes: []change{firstInstall, issued, absent}, want: want{status: no, reason: "Issuing"}, words: []string{"kubectl -n team describe certificate.cert-manager.io ds-tls"}},
		"IssuedExpired": {reason: "cert-manager did not renew it.", changes: []change{issued, problem(TLSExpired, "")}, want: want{status: no, reason: "Expired", bad: true, blocks: true}, words: []string{"describe certificate.cert-manager.io ds-tls"}},
		"IssuedSoon":    {reason: "It should have by now.", changes: []change{issued, func(in *Inputs) { in.TLS.ExpiresSoon = true }}, want: want{status: yes, reason: "ExpiresSoon", bad: true}, words: []string{"describe certificate.cert-manager.io ds-tls"}},

		"Failed":         {reason: "What the agent says, and of which pod.", changes: []change{servers(server(0, "h1"), failed)}, want: want{status: no, reason: "Failed", bad: true}, words: []string{"pod ds-1: certutil: bad database"}},
		"RestartPending": {reason: "It goes by itself.", changes: []change{servers(server(0, "h1"), old)}, want: want{status: yes, reason: "RestartPending"}, words: []string{"ds-1"}},
		"Applying":       {reason: "One that serves none is more than one with an old one.", changes: []change{servers(server(0, "h1"), old, none)}, want: want{status: unknown, reason: "Applying"}, words: []string{"ds-2"}},
		"NotReported":    {reason: "No agent has said anything yet.", changes: []change{servers(silent)}, want: want{status: unknown, reason: "NotReported"}, words: []string{"no server has told"}},
		"NoAgent":        {reason: "R44: pods of an earlier function serve no certificate of ours until they are rolled.", changes: []change{servers(bare)}, want: want{status: unknown, reason: "NotReported"}, words: []string{"pendingPodUpdate"}},
		"OneSilent":      {reason: "The one that starts has the certificate from the start.", changes: []change{servers(server(1, "h1"), silent)}, want: want{status: yes, reason: "Serving"}},
		"Replacing":      {reason: "A change of mode is a rollout.", changes: []change{issued, func(in *Inputs) { in.TLS.InUse = "ds-tls" }}, want: want{status: unknown, reason: "Replacing"}, words: []string{`"ds-tls"`, `"ds-tls-issued"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Of(inputs(tc.changes...))
			c := condition(t, r, TypeTLSReady)
			got := want{status: c.Status, reason: c.Reason, bad: c.Bad, blocks: c.Blocks}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s\n%s", tc.reason, diff, c.Message)
			}
			words := tc.words
			if tc.want.bad {
				words = append(words, "spec", "kubectl -n team ")
			}
			for _, w := range words {
				if !strings.Contains(c.Message, w) {
					t.Errorf("\n%s\nthe message lacks %q: %s", tc.reason, w, c.Message)
				}
			}
			again := Of(inputs(append(tc.changes, func(in *Inputs) { in.Previous.Conditions = written(r) })...))
			for _, e := range again.Events {
				t.Errorf("\n%s\nthe next call sends an event again: %v", tc.reason, e)
			}
		})
	}
}

// R52: a service whose certificate is missing says where to look.
func TestAvailableWithoutTLS(t *testing.T) {
	r := Of(inputs(firstInstall, tlsMode(v1alpha1.TLSModeSecret), func(in *Inputs) { in.TLS.Exists, in.TLS.Hash = false, "" }))
	if c := condition(t, r, TypeAvailable); !strings.Contains(c.Message, TypeTLSReady) {
		t.Errorf("the message does not name the condition: %s", c.Message)
	}
	if r.Status.Phase != v1alpha1.PhaseBlocked {
		t.Errorf("the phase is %s", r.Status.Phase)
	}
}

// R52, R34: what becomes of a certificate is an event once.
func TestTLSEvents(t *testing.T) {
	absent := func(in *Inputs) { in.TLS.Exists = false }
	brought := tlsMode(v1alpha1.TLSModeSecret)
	cases := map[string]struct {
		reason      string
		before, now []func(in *Inputs)
		want        []string
	}{
		"Missing":  {reason: "The Secret is gone.", before: []func(in *Inputs){brought}, now: []func(in *Inputs){brought, absent}, want: []string{"SecretMissing"}},
		"Appeared": {reason: "S4: it appeared.", before: []func(in *Inputs){brought, absent}, now: []func(in *Inputs){brought}, want: []string{"TLSReady"}},
		"Issuing":  {reason: "A wait for cert-manager is neither good nor bad.", now: []func(in *Inputs){tlsMode(v1alpha1.TLSModeCertManager), absent}},
		"Renewed":  {reason: "A renewal is nobody's business.", now: []func(in *Inputs){func(in *Inputs) { in.TLS.Hash = "h2" }}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := written(Of(inputs(tc.before...)))
			var got []string
			for _, e := range Of(inputs(append(tc.now, func(in *Inputs) { in.Previous.Conditions = before })...)).Events {
				got = append(got, e.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R52: where clients find the certificate, and how long it lasts.
func TestTLSStatus(t *testing.T) {
	until := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
	r := Of(inputs(func(in *Inputs) { in.TLS.NotAfter = until }))
	at := metav1.NewTime(until)
	if diff := cmp.Diff(&v1alpha1.TLSStatus{Secret: "ds-tls", NotAfter: &at}, r.Status.TLS); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// R11: whether the servers took the password, and what a lost one means for them.
func TestCredentialsOfServers(t *testing.T) {
	failed := server(0, "h1")
	failed.Report.DMPassword = report.Part{State: report.StateFailed, Message: "the server is read-only"}
	bare := server(0, "")
	bare.HasAgent, bare.Report = false, nil
	lost := func(in *Inputs) {
		in.Credential.Exists, in.Credential.Usable, in.Credential.Lost = false, false, true
	}
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    string
		words   []string
		lacks   string
	}{
		"Applied":     {reason: "All is well.", want: "Ready"},
		"NotApplied":  {reason: "Of which pod, and why.", changes: []func(in *Inputs){func(in *Inputs) { in.Servers = []Server{failed} }}, want: "NotApplied", words: []string{"pod ds-0: the server is read-only", "kubectl -n team logs"}},
		"Lost":        {reason: "The agents apply the new one.", changes: []func(in *Inputs){lost}, want: "PasswordLost", words: []string{"kubectl -n team get secret ds-dm-password"}, lacks: "rollout restart"},
		"LostNoAgent": {reason: "Servers without an agent read it when they start.", changes: []func(in *Inputs){lost, func(in *Inputs) { in.Servers = []Server{server(1, "h1"), bare} }}, want: "PasswordLost", words: []string{"kubectl -n team rollout restart statefulset ds"}},
		"LostNoPods":  {reason: "Nobody knows which they are.", changes: []func(in *Inputs){lost, func(in *Inputs) { in.Servers = nil }}, want: "PasswordLost", words: []string{"rollout restart"}},
		"HeldInvalid": {reason: "R10: an invalid spec changes nothing about it.", changes: []func(in *Inputs){invalid}, want: "Ready"},
		"Operating":   {reason: "Nor does a rollout.", changes: []func(in *Inputs){func(in *Inputs) { in.Ledger.Operation = &upgrade.Operation{} }}, want: "Ready"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := condition(t, Of(inputs(tc.changes...)), TypeCredentialsReady)
			if c.Reason != tc.want || c.Bad != (tc.want != "Ready") || c.Blocks {
				t.Errorf("\n%s\nwant %s, got %+v", tc.reason, tc.want, c)
			}
			for _, w := range tc.words {
				if !strings.Contains(c.Message, w) {
					t.Errorf("\n%s\nthe message lacks %q: %s", tc.reason, w, c.Message)
				}
			}
			if tc.lacks != "" && strings.Contains(c.Message, tc.lacks) {
				t.Errorf("\n%s\nthe message has %q: %s", tc.reason, tc.lacks, c.Message)
			}
		})
	}
}
