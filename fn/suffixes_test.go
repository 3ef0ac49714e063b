package fn

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// R20: which suffixes were founded. Creating a root entry that was lost would hide that
// its data are.
func TestFounded(t *testing.T) {
	long, now := metav1.NewTime(seenAt.Add(-time.Hour)), metav1.NewTime(seenAt)
	claim := func(at metav1.Time) []corev1.PersistentVolumeClaim {
		return []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "ds-data-ds-0", CreationTimestamp: at}}}
	}
	good := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}
	cases := map[string]struct {
		reason  string
		claims  []corev1.PersistentVolumeClaim
		exists  bool
		ledger  upgrade.Ledger
		servers []status.Server
		want    []string
	}{
		"New":          {reason: "Nothing is there: everything is to be founded."},
		"Recreated":    {reason: "A service without a memory, over volumes: their data count.", claims: claim(long), want: []string{"a", "b"}},
		"ClaimsBefore": {reason: "The same in the call after, when there is a StatefulSet.", claims: claim(long), exists: true, want: []string{"a", "b"}},
		"ClaimsAfter":  {reason: "Those that the StatefulSet made are empty.", claims: claim(metav1.NewTime(seenAt.Add(time.Second))), exists: true},
		"Remembered":   {reason: "The ledger knows better than the volumes' age.", claims: claim(long), exists: true, ledger: upgrade.Ledger{Good: &good, Founded: []string{"b"}}, want: []string{"b"}},
		"Reported": {
			reason: "What a server has was founded, whoever did it.", exists: true, ledger: upgrade.Ledger{Good: &good, Founded: []string{"b"}},
			servers: []status.Server{{Report: &report.Report{Suffixes: map[string]report.Suffix{"a": {Founded: true}, "c": {}, "not of the spec": {Founded: true}}}}, {}},
			want:    []string{"a", "b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := &observed.State{}
			state.Service.Spec.Suffixes = []v1alpha1.Suffix{{Name: "b"}, {Name: "a"}}
			state.Claims = observed.Answer[[]corev1.PersistentVolumeClaim]{Arrived: true, Value: tc.claims}
			if tc.exists {
				state.StatefulSet = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: now}}
			}
			if diff := cmp.Diff(tc.want, founded(state, tc.ledger, nil, tc.servers)); diff != "" {
				t.Errorf("\n%s\nfounded(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A person may say that data are lost, but not while a server has them, or might.
func TestRefounded(t *testing.T) {
	says := func(s report.Suffix) status.Server {
		return status.Server{Report: &report.Report{Suffixes: map[string]report.Suffix{"a": s}}}
	}
	empty, full := says(report.Suffix{State: report.SuffixWaiting}), says(report.Suffix{State: report.SuffixReady, Initialized: true})
	cases := map[string]struct {
		reason     string
		annotation string
		servers    []status.Server
		want       string
	}{
		"Allowed":     {reason: "Every server says that it has nothing.", annotation: " a ", servers: []status.Server{empty, empty}, want: "a"},
		"NotAsked":    {reason: "Nobody asked.", servers: []status.Server{empty, empty}},
		"OneHasIt":    {reason: "One has the data.", annotation: "a", servers: []status.Server{empty, full}},
		"OneIsDown":   {reason: "One that does not report may have them.", annotation: "a", servers: []status.Server{empty, {}}},
		"OneIsGone":   {reason: "So may one whose pod does not exist.", annotation: "a", servers: []status.Server{empty}},
		"OneIsSilent": {reason: "And one that says nothing of the suffix.", annotation: "a", servers: []status.Server{empty, says(report.Suffix{})}},
		"NoSuch":      {reason: "A name that is none.", annotation: "z", servers: []status.Server{empty, empty}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := &observed.State{}
			state.Service.Spec.Replicas = ptr.To[int32](2)
			state.Service.Annotations = map[string]string{"dirsrv.operator.port389.org/allow-refound": tc.annotation}
			if got := refounded(state, tc.servers); got != tc.want {
				t.Errorf("\n%s\nrefounded(): want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestWithFounded(t *testing.T) {
	before := []config.Suffix{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got := withFounded(before, []string{"a", "b"}, "b")
	if diff := cmp.Diff([]config.Suffix{{Name: "a", Founded: true}, {Name: "b"}, {Name: "c"}}, got); diff != "" {
		t.Errorf("withFounded(): -want, +got:\n%s", diff)
	}
	if before[0].Founded {
		t.Error("what was given is changed")
	}
}
