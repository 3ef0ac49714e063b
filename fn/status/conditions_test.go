package status

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// R33: each condition with its status and reason. A condition that asks for a
// person names the field of the spec and says what to do.
func TestConditions(t *testing.T) {
	const (
		yes     = metav1.ConditionTrue
		no      = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	type want struct {
		status metav1.ConditionStatus
		reason string
		bad    bool
		blocks bool
		words  []string
	}
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		kind    string
		want    want
	}{
		"SpecValid": {
			reason: "Nothing is wrong.",
			kind:   TypeSpecValid,
			want:   want{status: yes, reason: "Valid"},
		},
		"SpecInvalid": {
			reason:  "R6: the errors, field by field.",
			changes: []func(in *Inputs){invalid},
			kind:    TypeSpecValid,
			want:    want{status: no, reason: "Invalid", bad: true, blocks: true, words: []string{"spec.ports.ldaps", "must differ", "Nothing is changed"}},
		},

		"CredentialsReady": {
			reason: "R9: where the password is.",
			kind:   TypeCredentialsReady,
			want:   want{status: yes, reason: "Ready", words: []string{"ds-dm-password", "dm-password"}},
		},
		"CredentialsNotLookedUp": {
			reason:  "R10: before the Secret was looked up nobody is to blame.",
			changes: []func(in *Inputs){secretMissing, func(in *Inputs) { in.Credential.Arrived = false }},
			kind:    TypeCredentialsReady,
			want:    want{status: unknown, reason: "NotLookedUp", words: []string{`"mine"`}},
		},
		"CredentialsGenerating": {
			reason:  "R9: the Secret is made by this very call.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Credential.Exists, in.Credential.Usable = false, false }},
			kind:    TypeCredentialsReady,
			want:    want{status: unknown, reason: "Generating", words: []string{"ds-dm-password"}},
		},
		"SecretMissing": {
			reason:  "R10: the command that makes the Secret.",
			changes: []func(in *Inputs){secretMissing},
			kind:    TypeCredentialsReady,
			want: want{status: no, reason: "SecretMissing", bad: true, blocks: true, words: []string{
				"spec.dmPasswordSecretRef.name", "kubectl -n team create secret generic mine --from-file=pw=FILE",
			}},
		},
		"KeyMissing": {
			reason:  "R10: the key that the Secret lacks.",
			changes: []func(in *Inputs){keyMissing},
			kind:    TypeCredentialsReady,
			want:    want{status: no, reason: "KeyMissing", bad: true, blocks: true, words: []string{"spec.dmPasswordSecretRef.key", `"mine"`, `"pw"`}},
		},
		"PasswordInvalid": {
			reason:  "R10, R11: a password that would end every server is given to none.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Credential.Usable, in.Credential.Invalid = false, true }},
			kind:    TypeCredentialsReady,
			want:    want{status: no, reason: "PasswordInvalid", bad: true, blocks: true, words: []string{"UTF-8", `"ds-dm-password"`, "kubectl -n team edit secret ds-dm-password"}},
		},

		"NotBlocked": {
			reason: "The spec runs.",
			kind:   TypeUpgradeBlocked,
			want:   want{status: no, reason: "NotBlocked"},
		},
		"Unversioned": {
			reason:  "R4: nobody knows the version, which is told and blocks nothing.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Decision.Target.Version = "" }},
			kind:    TypeUpgradeBlocked,
			want:    want{status: no, reason: "Unversioned", words: []string{"spec.version"}},
		},
		"Blocked": {
			reason:  "R25: the reason, and the command that goes back.",
			changes: []func(in *Inputs){blocked},
			kind:    TypeUpgradeBlocked,
			want: want{status: yes, reason: "ImageVersionMismatch", bad: true, blocks: true, words: []string{
				"spec.image", `kubectl -n team patch dirsrv ds --type merge -p '{"spec":{"image":"dirsrv:3.1.0","version":"3.1.0"}}'`,
			}},
		},
		"BlockedUnversioned": {
			reason:  "R25: going back to an unknown version takes the version off the spec.",
			changes: []func(in *Inputs){blocked, func(in *Inputs) { in.Decision.Ledger.Good = &upgrade.Release{Image: "dirsrv:stable"} }},
			kind:    TypeUpgradeBlocked,
			want: want{status: yes, reason: "ImageVersionMismatch", bad: true, blocks: true, words: []string{
				`-p '{"spec":{"image":"dirsrv:stable","version":null}}'`,
			}},
		},
		"BlockedFirstInstall": {
			reason:  "R25: nothing runs that one could go back to.",
			changes: []func(in *Inputs){firstInstall, blocked},
			kind:    TypeUpgradeBlocked,
			want:    want{status: yes, reason: "ImageVersionMismatch", bad: true, blocks: true, words: []string{"spec.image"}},
		},

		"NoSuffixes": {
			reason:  "R6: nothing to do.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Config.Suffixes = nil }},
			kind:    TypeSuffixesReady,
			want:    want{status: yes, reason: "NoSuffixes"},
		},
		"NoOrphans": {
			reason: "R6: every suffix is listed.",
			kind:   TypeSuffixOrphaned,
			want:   want{status: no, reason: "NoOrphans"},
		},
		"SuffixOrphaned": {
			reason:  "R6: which suffixes were taken off, and that their data were kept.",
			changes: []func(in *Inputs){orphaned},
			kind:    TypeSuffixOrphaned,
			want:    want{status: yes, reason: "TakenOffTheSpec", bad: true, words: []string{"spec.suffixes", "old (dc=old)", "kept"}},
		},
		"OnlyOrphans": {
			reason:  "R6: an orphan is no suffix to create.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Config.Suffixes = []config.Suffix{{Name: "old", DN: "dc=old", Orphaned: true}} }},
			kind:    TypeSuffixesReady,
			want:    want{status: yes, reason: "NoSuffixes"},
		},

		"SingleServer": {
			reason: "R5: one server has nobody to replicate with.",
			kind:   TypeReplicationHealthy,
			want:   want{status: yes, reason: "SingleServer"},
		},
		"NotReplicated": {
			reason:  "R5: several servers are never silently several directories.",
			changes: []func(in *Inputs){severalServers},
			kind:    TypeReplicationHealthy,
			want:    want{status: no, reason: "NotReplicated", bad: true, words: []string{"ds-0 alone"}},
		},

		"Serving": {
			reason: "A client can use the service.",
			kind:   TypeAvailable,
			want:   want{status: yes, reason: "Serving"},
		},
		"ServingWithAProblem": {
			reason:  "What is wrong with another server is told.",
			changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Pods[1] = waiting("ds-1", "ImagePullBackOff") }},
			kind:    TypeAvailable,
			want:    want{status: yes, reason: "Serving", words: []string{"pod ds-1: ImagePullBackOff", "kubectl -n team describe pod"}},
		},
		"NotServing": {
			reason:  "Why, and where to look.",
			changes: []func(in *Inputs){down},
			kind:    TypeAvailable,
			want:    want{status: no, reason: "NotServing", words: []string{"pod ds-0: CrashLoopBackOff", "kubectl -n team describe pod"}},
		},
		"NotServingUnschedulable": {
			reason: "R16b, R17: a pod that fits on no node says so.",
			changes: []func(in *Inputs){down, func(in *Inputs) {
				in.Pods[0].Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}}
			}},
			kind: TypeAvailable,
			want: want{status: no, reason: "NotServing", words: []string{"pod ds-0: Unschedulable"}},
		},
		"NotStartedInvalid": {
			reason:  "The condition that says why no server was started.",
			changes: []func(in *Inputs){firstInstall, invalid},
			kind:    TypeAvailable,
			want:    want{status: no, reason: "NotServing", words: []string{TypeSpecValid}},
		},
		"NotStartedBlocked": {
			reason:  "The same for a refused image (R25).",
			changes: []func(in *Inputs){firstInstall, blocked},
			kind:    TypeAvailable,
			want:    want{status: no, reason: "NotServing", words: []string{TypeUpgradeBlocked}},
		},
		"NotStartedWithoutSecret": {
			reason:  "The same for a missing Secret (R10).",
			changes: []func(in *Inputs){firstInstall, secretMissing},
			kind:    TypeAvailable,
			want:    want{status: no, reason: "NotServing", words: []string{TypeCredentialsReady}},
		},
		"NotReadyYet": {
			reason:  "Nothing is wrong, it only takes its time.",
			changes: []func(in *Inputs){firstInstall},
			kind:    TypeAvailable,
			want:    want{status: no, reason: "NotServing", words: []string{"No server is Ready yet"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := condition(t, Of(inputs(tc.changes...)), tc.kind)
			got := want{status: c.Status, reason: c.Reason, bad: c.Bad, blocks: c.Blocks, words: tc.want.words}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("\n%s\n%s: -want, +got:\n%s", tc.reason, tc.kind, diff)
			}
			for _, w := range tc.want.words {
				if !strings.Contains(c.Message, w) {
					t.Errorf("\n%s\nthe message of %s lacks %q: %s", tc.reason, tc.kind, w, c.Message)
				}
			}
		})
	}
}

// R33: whatever is bad, a person can act on its message: it names a field, and,
// but for a spec that has to be edited, a command.
func TestBadConditionsAreActionable(t *testing.T) {
	field := regexp.MustCompile(`\bspec\.[a-z]|"spec":\{"[a-z]`)
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		kind    string
	}{
		"SpecInvalid":         {reason: "An invalid spec.", changes: []func(in *Inputs){invalid}, kind: TypeSpecValid},
		"SecretMissing":       {reason: "A missing Secret.", changes: []func(in *Inputs){secretMissing}, kind: TypeCredentialsReady},
		"KeyMissing":          {reason: "A missing key.", changes: []func(in *Inputs){keyMissing}, kind: TypeCredentialsReady},
		"Blocked":             {reason: "A refused image.", changes: []func(in *Inputs){blocked}, kind: TypeUpgradeBlocked},
		"BlockedFirstInstall": {reason: "A refused image of a service that never ran.", changes: []func(in *Inputs){firstInstall, blocked}, kind: TypeUpgradeBlocked},
		"Unapproved":          {reason: "An upgrade.", changes: []func(in *Inputs){unapproved}, kind: TypeUpgradeBlocked},
		"ShrinkRefused":       {reason: "A smaller volume.", changes: []func(in *Inputs){shrunk}, kind: TypeStorageReady},
		"OtherClass":          {reason: "Another storage class.", changes: []func(in *Inputs){otherClass}, kind: TypeStorageReady},
		"GrowByHand":          {reason: "A larger volume.", changes: []func(in *Inputs){grown, noAgentImage}, kind: TypeStorageReady},
		"GrowFailed":          {reason: "A larger volume that is refused.", changes: []func(in *Inputs){grown, growthRefused}, kind: TypeStorageReady},
		"Orphaned":            {reason: "A suffix taken off.", changes: []func(in *Inputs){orphaned}, kind: TypeSuffixOrphaned},
		"NotReplicated":       {reason: "Several servers.", changes: []func(in *Inputs){severalServers}, kind: TypeReplicationHealthy},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Of(inputs(tc.changes...))
			if c := condition(t, r, tc.kind); !c.Bad {
				t.Errorf("\n%s\n%s is not bad", tc.reason, tc.kind)
			}
			for _, c := range r.Conditions {
				if !c.Bad {
					continue
				}
				if !field.MatchString(c.Message) {
					t.Errorf("\n%s\nthe message of %s names no field: %s", tc.reason, c.Type, c.Message)
				}
				if c.Type != TypeSpecValid && !strings.Contains(c.Message, "kubectl -n team ") {
					t.Errorf("\n%s\nthe message of %s has no command: %s", tc.reason, c.Type, c.Message)
				}
			}
		})
	}
}

// written is what Crossplane keeps of a report.
func written(r Report) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range r.Conditions {
		out = append(out, metav1.Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastTransitionTime: metav1.NewTime(time.Unix(0, 0)), ObservedGeneration: 1,
		})
	}
	return out
}

// R34: an event for each transition, and none for each call.
func TestEvents(t *testing.T) {
	cases := map[string]struct {
		reason string
		before []func(in *Inputs)
		now    []func(in *Inputs)
		want   []string
	}{
		"Steady":            {reason: "Nothing happened."},
		"Invalid":           {reason: "The spec turned invalid.", now: []func(in *Inputs){invalid}, want: []string{"Warning SpecInvalid"}},
		"Valid":             {reason: "The spec was mended.", before: []func(in *Inputs){invalid}, want: []string{"Normal SpecValid"}},
		"SecretMissing":     {reason: "R10: the Secret is gone.", now: []func(in *Inputs){secretMissing}, want: []string{"Warning CredentialsMissing"}},
		"SecretAppeared":    {reason: "R10: the Secret appeared.", before: []func(in *Inputs){secretMissing}, want: []string{"Normal CredentialsReady"}},
		"SecretWithoutKey":  {reason: "R10: the Secret appeared without its key: still bad, for another reason.", before: []func(in *Inputs){secretMissing}, now: []func(in *Inputs){keyMissing}, want: []string{"Warning CredentialsMissing"}},
		"SecretNotLookedUp": {reason: "A question that is not answered yet is no news.", before: []func(in *Inputs){secretMissing}, now: []func(in *Inputs){secretMissing, func(in *Inputs) { in.Credential.Arrived = false }}},
		"Blocked":           {reason: "R25: the image is refused.", now: []func(in *Inputs){blocked}, want: []string{"Warning UpgradeBlocked"}},
		"BlockedOtherwise": {
			reason: "R25: the next refused target is another event.",
			before: []func(in *Inputs){blocked},
			now: []func(in *Inputs){blocked, func(in *Inputs) {
				in.Decision.Blocked = &upgrade.Refusal{Reason: upgrade.ReasonApprovalRequired, Message: "spec.image: another reason"}
			}},
			want: []string{"Warning UpgradeBlocked"},
		},
		"Unblocked":       {reason: "R28: the spec was reverted.", before: []func(in *Inputs){blocked}, want: []string{"Normal UpgradeUnblocked"}},
		"ShrinkRefused":   {reason: "R7: a smaller size.", now: []func(in *Inputs){shrunk}, want: []string{"Warning ShrinkRefused"}},
		"ShrinkTakenBack": {reason: "R7: the size was put back.", before: []func(in *Inputs){shrunk}, want: []string{"Normal StorageReady"}},
		"Orphaned":        {reason: "R6: a suffix was taken off.", now: []func(in *Inputs){orphaned}, want: []string{"Warning SuffixOrphaned"}},
		"Returned":        {reason: "R6: the suffix was put back.", before: []func(in *Inputs){orphaned}, want: []string{"Normal SuffixReturned"}},
		"ScaledUp":        {reason: "R5: servers that do not replicate.", now: []func(in *Inputs){severalServers}, want: []string{"Warning NotReplicated"}},
		"ScaledDown":      {reason: "R5: one server again.", before: []func(in *Inputs){severalServers}, want: []string{"Normal SingleServer"}},
		"Several": {
			reason: "Each condition has its own events.",
			before: []func(in *Inputs){orphaned},
			now:    []func(in *Inputs){blocked, shrunk},
			want:   []string{"Warning ShrinkRefused", "Warning UpgradeBlocked", "Normal SuffixReturned"},
		},
		"Down": {reason: "Kubernetes has its own events for pods.", now: []func(in *Inputs){down}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := written(Of(inputs(tc.before...)))
			r := Of(inputs(append(tc.now, func(in *Inputs) { in.Previous.Conditions = before })...))
			var got []string
			for _, e := range r.Events {
				kind := "Normal "
				if e.Warning {
					kind = "Warning "
				}
				got = append(got, kind+e.Reason)
				if e.Message == "" {
					t.Errorf("\n%s\nthe event %s says nothing", tc.reason, e.Reason)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nevents: -want, +got:\n%s", tc.reason, diff)
			}

			again := Of(inputs(append(tc.now, func(in *Inputs) { in.Previous.Conditions = written(r) })...))
			if len(again.Events) > 0 {
				t.Errorf("\n%s\nthe next call sends events again: %v", tc.reason, again.Events)
			}
		})
	}
}

// R34: what is bad from the first call on is an event, once; what is good is none.
func TestEventsOfTheFirstCall(t *testing.T) {
	r := Of(inputs(firstInstall, blocked))
	if len(r.Events) != 1 || !r.Events[0].Warning || r.Events[0].Reason != "UpgradeBlocked" {
		t.Errorf("want the event UpgradeBlocked alone, got %v", r.Events)
	}
	if r := Of(inputs(firstInstall)); len(r.Events) > 0 {
		t.Errorf("a first install without a problem sends events: %v", r.Events)
	}
}

// R34: after an error Crossplane sets conditions to Unknown; that they are good
// again then is no news.
func TestEventsAfterUnknown(t *testing.T) {
	unknown := written(Of(inputs()))
	for i := range unknown {
		unknown[i].Status = metav1.ConditionUnknown
	}
	r := Of(inputs(func(in *Inputs) { in.Previous.Conditions = unknown }))
	if len(r.Events) > 0 {
		t.Errorf("want no event, got %v", r.Events)
	}
}

// A pod's own reason comes before guesses.
func TestPodReason(t *testing.T) {
	started := pod("ds-0", false)
	init := waiting("ds-0", "PodInitializing")
	init.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
	deleting := pod("ds-0", true)
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(0, 0)))

	cases := map[string]struct {
		reason string
		pod    corev1.Pod
		want   string
	}{
		"Waiting":       {reason: "A container waits.", pod: waiting("ds-0", "CreateContainerConfigError"), want: "CreateContainerConfigError"},
		"Transient":     {reason: "What passes by itself is no reason.", pod: waiting("ds-0", "ContainerCreating"), want: "NotReady"},
		"InitContainer": {reason: "R34: an init container's reason is the cause; of the two that the kubelet gives in turn, one.", pod: init, want: "ImagePullBackOff"},
		"Deleting":      {reason: "A pod that is going.", pod: deleting, want: "Terminating"},
		"Unready":       {reason: "Kubernetes gives no reason.", pod: started, want: "NotReady"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := podReason(&tc.pod); got != tc.want {
				t.Errorf("\n%s\npodReason(): want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}
