package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

// says: a server reports of the suffix userroot.
func says(ordinal int32, r report.Suffix) Server {
	s := server(ordinal, "h1")
	s.Report.Suffixes = map[string]report.Suffix{"userroot": r}
	return s
}

// R6: what every server says of a suffix, the worst of it first, and the command that
// mends it.
func TestSuffixes(t *testing.T) {
	has := report.Suffix{State: report.SuffixReady, Founded: true, Initialized: true}
	waits := report.Suffix{State: report.SuffixWaiting, Message: "it is empty"}
	failed := report.Suffix{State: report.SuffixFailed, Message: "no such thing"}
	replicas := func(n int32) func(in *Inputs) { return func(in *Inputs) { in.Spec.Replicas = ptr.To(n) } }
	servers := func(list ...Server) func(in *Inputs) { return func(in *Inputs) { in.Servers = list } }
	const refound = "kubectl -n team annotate dirsrv ds dirsrv.operator.port389.org/allow-refound=userroot --overwrite"

	type want struct {
		State   v1alpha1.SuffixState
		Message string
		Status  metav1.ConditionStatus
		Reason  string
		Bad     bool
	}
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    want
		words   string
	}{
		"Ready":       {reason: "The only server has it.", changes: []func(in *Inputs){servers(says(0, has))}, want: want{State: "Ready", Status: "True", Reason: "Ready"}},
		"NotYet":      {reason: "A server that has not reported has nothing, as far as anybody knows.", want: want{State: "Declared", Status: "False", Reason: "Creating"}, words: "userroot"},
		"NoServer":    {reason: "Nor has one that does not exist.", changes: []func(in *Inputs){servers()}, want: want{State: "Declared", Status: "False", Reason: "Creating"}},
		"OneOfTwo":    {reason: "Every server has to have it.", changes: []func(in *Inputs){replicas(2), servers(says(0, has), server(1, "h1"))}, want: want{State: "Declared", Status: "False", Reason: "Creating"}},
		"Failed":      {reason: "Which server, and why.", changes: []func(in *Inputs){replicas(2), servers(says(0, has), says(1, failed))}, want: want{State: "Failed", Message: "ds-1: no such thing", Status: "False", Reason: "SuffixFailed", Bad: true}, words: "userroot (dc=example,dc=com): ds-1: no such thing"},
		"FailedFirst": {reason: "What cannot be done comes before what is waited for.", changes: []func(in *Inputs){replicas(2), servers(says(0, waits), says(1, failed))}, want: want{State: "Failed", Message: "ds-1: no such thing", Status: "False", Reason: "SuffixFailed", Bad: true}},
		"DataMissing": {reason: "A person has to say that the data are lost.", changes: []func(in *Inputs){servers(says(0, waits))}, want: want{State: "Waiting", Message: "ds-0: it is empty", Status: "False", Reason: "DataMissing", Bad: true}, words: refound},
		"NoClients": {
			reason:  "R5: without replication the other servers have nothing, and no clients: ReplicationHealthy tells.",
			changes: []func(in *Inputs){replicas(2), servers(says(0, has), says(1, waits)), func(in *Inputs) { in.FirstServerOnly = true }},
			want:    want{State: "Ready", Status: "True", Reason: "Ready"},
		},
		"Replicated": {reason: "R51: with it, they have to be initialised.", changes: []func(in *Inputs){replicas(2), servers(says(0, has), says(1, waits))}, want: want{State: "Waiting", Message: "ds-1: it is empty", Status: "False", Reason: "DataMissing", Bad: true}},
		"ScaledAway": {reason: "A server that is going counts for nothing.", changes: []func(in *Inputs){servers(says(0, has), says(1, failed))}, want: want{State: "Ready", Status: "True", Reason: "Ready"}},
		"OldPods": {
			reason:  "R44: pods of an older function have no agent, and do not restart for one by themselves.",
			changes: []func(in *Inputs){servers(Server{Pod: "ds-0", Ready: true}), func(in *Inputs) { in.Decision.PodUpdate = "aa-bb" }},
			want:    want{State: "Declared", Status: "Unknown", Reason: "NotManaged"},
			words:   "kubectl -n team annotate dirsrv ds dirsrv.operator.port389.org/apply-pod-update=aa-bb --overwrite",
		},
		"Orphaned": {
			reason:  "What the spec does not list is none of its business any more.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Config.Suffixes[0].Orphaned = true }},
			want:    want{State: "Orphaned", Status: "True", Reason: "NoSuffixes"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputs(tc.changes...)
			st, c := suffixes(in)[0], suffixesReady(in)
			got := want{State: st.State, Message: st.Message, Status: c.Status, Reason: c.Reason, Bad: c.Bad}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if !strings.Contains(c.Message, tc.words) {
				t.Errorf("\n%s\nthe message lacks %q: %s", tc.reason, tc.words, c.Message)
			}
			if c.Blocks {
				t.Errorf("\n%s\na suffix blocks everything else", tc.reason)
			}
		})
	}
}

// R6: a hundred suffixes that fail do not fill the XR.
func TestSuffixMessageIsBounded(t *testing.T) {
	in := inputs(func(in *Inputs) {
		in.Config.Suffixes = nil
		r := map[string]report.Suffix{}
		for i := range 100 {
			name := "s" + strings.Repeat("x", i)
			in.Config.Suffixes = append(in.Config.Suffixes, config.Suffix{Name: name, DN: "o=" + name})
			r[name] = report.Suffix{State: report.SuffixFailed, Message: "no"}
		}
		in.Servers[0].Report.Suffixes = r
	})
	if m := suffixesReady(in).Message; !strings.Contains(m, "90 more") {
		t.Errorf("want ten and the number of the others, got %s", m)
	}
}

// A server that is down for a moment, or for long, unmakes no suffix: Available tells of it.
func TestSuffixStaysReady(t *testing.T) {
	before := func(s v1alpha1.SuffixState) func(in *Inputs) {
		return func(in *Inputs) {
			in.Previous.Suffixes = []v1alpha1.SuffixStatus{{Name: "userroot", State: s}}
			in.Servers = []Server{{Pod: "ds-0", HasAgent: true}}
		}
	}
	if st := suffixes(inputs(before(v1alpha1.SuffixReady)))[0].State; st != v1alpha1.SuffixReady {
		t.Errorf("the only server is down, and the suffix is %s", st)
	}
	if st := suffixes(inputs(before(v1alpha1.SuffixDeclared)))[0].State; st != v1alpha1.SuffixDeclared {
		t.Errorf("no server ever had the suffix, and it is %s", st)
	}
	// While the spec is invalid its replicas are not acted upon.
	held := inputs(func(in *Inputs) {
		in.Spec.Replicas = ptr.To[int32](3)
		in.Problems = []string{"spec: x"}
		in.Servers = []Server{says(0, report.Suffix{State: report.SuffixReady})}
	})
	if st := suffixes(held)[0].State; st != v1alpha1.SuffixReady {
		t.Errorf("every server that there is has the suffix, and it is %s", st)
	}
}
