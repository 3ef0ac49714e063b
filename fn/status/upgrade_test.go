package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// replicated are three servers that all serve.
func replicated(in *Inputs) {
	severalServers(in)
	in.Spec.Replicas = ptr.To[int32](3)
	in.Rollout.Wanted, in.Rollout.Pods, in.Rollout.Ready, in.Rollout.Updated = 3, 3, 3, 3
	in.Pods = append(in.Pods, pod("ds-2", true))
	in.FirstServerOnly = false
}

func refused(r upgrade.Refusal) func(in *Inputs) {
	return func(in *Inputs) {
		in.Decision.Target = newer
		in.Decision.Blocked = &r
	}
}

// operation that runs, and runs already in the observed ledger.
func operation(o upgrade.Operation) func(in *Inputs) {
	return func(in *Inputs) {
		o.ID, o.StartedAt = "1", t0
		in.Decision.Ledger.Good, in.Decision.Ledger.Operation = &good, &o
		in.Decision.Run, in.Decision.Target = &o.To, newer
		in.Ledger = in.Decision.Ledger
	}
}

func upgrading(in *Inputs) {
	operation(upgrade.Operation{Kind: upgrade.OperationUpgrade, From: good, To: newer, Pod: "ds-1"})(in)
}

func goingBack(in *Inputs) {
	operation(upgrade.Operation{
		Kind: upgrade.OperationRollback, From: newer, To: good, Pod: "ds-1", Mend: true,
		Reason: "CrashLoopBackOff", Message: "pod ds-1: CrashLoopBackOff (container dirsrv)",
	})(in)
}

func waits(message string) func(in *Inputs) {
	return func(in *Inputs) { in.Decision.Waiting = message }
}

func failing(in *Inputs) {
	in.Decision.Failure = &upgrade.Failure{Pod: "ds-1", Reason: "CrashLoopBackOff", Container: "container dirsrv", Message: "back-off 40s"}
}

// heldUp by a pod, for a reason that is not the target's.
func heldUp(reason string) func(in *Inputs) {
	return func(in *Inputs) {
		in.Decision.Failure = &upgrade.Failure{Pod: "ds-1", Reason: reason, Outdated: true}
	}
}

func ended(e upgrade.HistoryEntry) func(in *Inputs) {
	return func(in *Inputs) {
		e.StartedAt, e.CompletedAt = t0, t0.Add(time.Hour)
		in.Decision.Ledger.Good, in.Decision.Ledger.History = &good, []upgrade.HistoryEntry{e}
		in.Ledger = in.Decision.Ledger
	}
}

// R33: the conditions of an upgrade, to the letter: a person, or a program, copies the
// command out of the message and runs it.
func TestUpgradeConditions(t *testing.T) {
	const (
		group   = "dirsrv.operator.port389.org/"
		toGood  = `kubectl -n team patch dirsrv ds --type merge -p '{"spec":{"image":"dirsrv:3.1.0","version":"3.1.0"}}'`
		toNewer = `kubectl -n team patch dirsrv ds --type merge -p '{"spec":{"image":"dirsrv:3.1.1","version":"3.1.1"}}'`
		oneOnly = "; Not ZeroDowntime: there is one server, and clients cannot reach it while it restarts"
	)
	type want struct {
		Status  metav1.ConditionStatus
		Reason  string
		Message string
		Bad     bool
	}
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		kind    string
		want    want
	}{
		"ApprovalRequired": {
			reason: "The very command that unblocks, both annotations in one.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{
				Reason: upgrade.ReasonApprovalRequired, Message: "3.1.0->4.0.0 is a major upgrade and waits for your approval",
				Annotate: []upgrade.Annotation{{Name: upgrade.ApprovedTransition, Value: "3.1.0->4.0.0"}, {Name: upgrade.BackupConfirmed, Value: "3.1.0->4.0.0"}},
			})},
			kind: TypeUpgradeBlocked,
			want: want{metav1.ConditionTrue, "ApprovalRequired", "3.1.0->4.0.0 is a major upgrade and waits for your approval. " +
				"Allow it: kubectl -n team annotate dirsrv ds '" + group + "approved-transition=3.1.0->4.0.0' '" + group + "backup-confirmed=3.1.0->4.0.0' --overwrite. " +
				"Back to what runs: " + toGood, true},
		},
		"ApprovalRequiredDuring": {
			reason: "R38: back to what the operation leads to, and not an abort of it.",
			changes: []func(in *Inputs){upgrading, refused(upgrade.Refusal{
				Reason: upgrade.ReasonApprovalRequired, Message: "3.1.1->4.0.0 is a major upgrade and waits for your approval",
				Annotate: []upgrade.Annotation{{Name: upgrade.ApprovedTransition, Value: "3.1.1->4.0.0"}},
			}), func(in *Inputs) { in.Decision.Target = upgrade.Release{Version: "4.0.0", Image: "dirsrv:4.0.0"} }},
			kind: TypeUpgradeBlocked,
			want: want{metav1.ConditionTrue, "ApprovalRequired", "3.1.1->4.0.0 is a major upgrade and waits for your approval. " +
				"Allow it: kubectl -n team annotate dirsrv ds '" + group + "approved-transition=3.1.1->4.0.0' --overwrite. " +
				"Back to what runs: " + toNewer, true},
		},
		"ServiceUnhealthy": {
			reason: "R29: the annotation that has it begin all the same.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{
				Reason: upgrade.ReasonServiceUnhealthy, Message: "it waits for ds-1 to be Ready",
				Annotate: []upgrade.Annotation{{Name: upgrade.AllowDegraded, Value: "3.1.0->3.1.1"}},
			})},
			kind: TypeUpgradeBlocked,
			want: want{metav1.ConditionTrue, "ServiceUnhealthy", "it waits for ds-1 to be Ready. " +
				"Allow it: kubectl -n team annotate dirsrv ds '" + group + "allow-degraded=3.1.0->3.1.1' --overwrite. Back to what runs: " + toGood, true},
		},
		"TargetRejected": {
			reason:  "R36: the way back, so that the target can be named again.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{Reason: upgrade.ReasonTargetRejected, Message: "3.1.1 was rejected", Restart: true})},
			kind:    TypeUpgradeBlocked,
			want:    want{metav1.ConditionTrue, "TargetRejected", "3.1.1 was rejected. Back to what runs: " + toGood, true},
		},
		"PodsRejected": {
			reason:  "R36, R44: the spec names what runs already.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{Reason: upgrade.ReasonTargetRejected, Message: "the change of the pods was rejected"})},
			kind:    TypeUpgradeBlocked,
			want:    want{metav1.ConditionTrue, "TargetRejected", "the change of the pods was rejected", true},
		},
		"Paused": {
			reason:  "R40: the command that goes on.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{Reason: upgrade.ReasonPaused, Message: "spec.upgrade.paused holds it"})},
			kind:    TypeUpgradeBlocked,
			want: want{metav1.ConditionTrue, "Paused", "spec.upgrade.paused holds it. " +
				`Go on: kubectl -n team patch dirsrv ds --type merge -p '{"spec":{"upgrade":{"paused":false}}}'`, true},
		},
		"InvalidRollback": {
			reason:  "R37: the command that takes the request back.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{Reason: upgrade.ReasonInvalidRollback, Message: "rollback-to=2.0.0: it has run 3.1.0", Request: upgrade.RollbackTo})},
			kind:    TypeUpgradeBlocked,
			want: want{metav1.ConditionTrue, "InvalidRollback", "rollback-to=2.0.0: it has run 3.1.0. " +
				"Take the request back: kubectl -n team annotate dirsrv ds " + group + "rollback-to-", true},
		},
		"QuotedAnnotation": {
			reason: "No value breaks out of the command.",
			changes: []func(in *Inputs){refused(upgrade.Refusal{
				Reason: upgrade.ReasonApprovalRequired, Message: "m", Annotate: []upgrade.Annotation{{Name: "n", Value: "it's"}},
			})},
			kind: TypeUpgradeBlocked,
			want: want{metav1.ConditionTrue, "ApprovalRequired", "m. Allow it: kubectl -n team annotate dirsrv ds '" + group + `n=it'\''s' --overwrite. Back to what runs: ` + toGood, true},
		},

		"Idle": {
			reason: "Nothing runs.",
			kind:   TypeUpgradeInProgress,
			want:   want{metav1.ConditionFalse, "Idle", "", false},
		},
		"InProgress": {
			reason:  "R41: which pod, what it waits for, and that clients notice.",
			changes: []func(in *Inputs){upgrading, waits("waits for ds-1 to be Ready")},
			kind:    TypeUpgradeInProgress,
			want:    want{metav1.ConditionTrue, "Upgrade", "Upgrade 3.1.0->3.1.1; replacing ds-1; waits for ds-1 to be Ready" + oneOnly, false},
		},
		"InProgressReplicated": {
			reason:  "R41: with several servers that all serve, clients do not notice.",
			changes: []func(in *Inputs){replicated, upgrading, waits("waits for ds-1 to be Ready")},
			kind:    TypeUpgradeInProgress,
			want:    want{metav1.ConditionTrue, "Upgrade", "Upgrade 3.1.0->3.1.1; replacing ds-1; waits for ds-1 to be Ready", false},
		},
		"InProgressFirstServerOnly": {
			reason:  "R5, R41: where clients reach one of them alone, they do.",
			changes: []func(in *Inputs){severalServers, upgrading},
			kind:    TypeUpgradeInProgress,
			want:    want{metav1.ConditionTrue, "Upgrade", "Upgrade 3.1.0->3.1.1; replacing ds-1; Not ZeroDowntime: clients reach ds-0 alone, and not while it restarts", false},
		},
		"PodUpdate": {
			reason:  "R44: the same release.",
			changes: []func(in *Inputs){replicated, operation(upgrade.Operation{Kind: upgrade.OperationPodUpdate, From: good, To: good})},
			kind:    TypeUpgradeInProgress,
			want:    want{metav1.ConditionTrue, "PodUpdate", "Update of the pods of 3.1.0 (dirsrv:3.1.0)", false},
		},
		"Rollback": {
			reason:  "R35: the way back, and what is in the way of it.",
			changes: []func(in *Inputs){replicated, goingBack, func(in *Inputs) { in.Decision.Condemned = []upgrade.Condemned{{Pod: "ds-2"}, {Pod: "ds-1"}} }},
			kind:    TypeUpgradeInProgress,
			want: want{metav1.ConditionTrue, "Rollback", "Rollback 3.1.1->3.1.0; replacing ds-1; " +
				"a Job deletes what is in the way and not Ready; by hand: kubectl -n team delete pod ds-2 ds-1", false},
		},
		"RollbackByHand": {
			reason: "R35: where the function has no image for the Job, a person has to.",
			changes: []func(in *Inputs){replicated, goingBack, func(in *Inputs) {
				in.Decision.Condemned, in.NoAgentImage = []upgrade.Condemned{{Pod: "ds-1"}}, true
			}},
			kind: TypeUpgradeInProgress,
			want: want{metav1.ConditionTrue, "Rollback", "Rollback 3.1.1->3.1.0; replacing ds-1; " +
				"delete by hand what is in the way and not Ready, since the function does not know its own image (agentImage in its input): kubectl -n team delete pod ds-1", false},
		},
		"RollbackOfPods": {
			reason:  "R44: the same release goes back too.",
			changes: []func(in *Inputs){replicated, operation(upgrade.Operation{Kind: upgrade.OperationRollback, From: good, To: good, Reason: "Aborted"})},
			kind:    TypeUpgradeInProgress,
			want:    want{metav1.ConditionTrue, "Rollback", "Rollback of the pods of 3.1.0 (dirsrv:3.1.0)", false},
		},
		"StuckWithoutOperation": {
			reason:  "R39: a first install that was corrected.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Decision.Condemned = []upgrade.Condemned{{Pod: "ds-0"}} }},
			kind:    TypeUpgradeInProgress,
			want:    want{metav1.ConditionFalse, "Idle", "a Job deletes what is in the way and not Ready; by hand: kubectl -n team delete pod ds-0", false},
		},

		"NoUpgrade": {
			reason: "Nothing was ever changed.",
			kind:   TypeUpgradeSucceeded,
			want:   want{metav1.ConditionUnknown, "NoUpgrade", "Nothing was upgraded yet", false},
		},
		"Upgrading": {
			reason:  "It is too early to say.",
			changes: []func(in *Inputs){upgrading},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionUnknown, "InProgress", "Upgrade 3.1.0->3.1.1", false},
		},
		"Succeeded": {
			reason:  "The last operation.",
			changes: []func(in *Inputs){ended(upgrade.HistoryEntry{From: older, To: good, Result: upgrade.ResultSucceeded})},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionTrue, "Succeeded", "3.0.0->3.1.0", false},
		},
		"SucceededByHand": {
			reason:  "R37: a rollback that a person asked for.",
			changes: []func(in *Inputs){ended(upgrade.HistoryEntry{From: newer, To: good, Result: upgrade.ResultSucceeded, Reason: upgrade.ReasonRolledBackManually})},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionTrue, "RolledBackManually", "3.1.1->3.1.0", false},
		},
		"GoingBack": {
			reason:  "R35: why.",
			changes: []func(in *Inputs){goingBack},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionFalse, "CrashLoopBackOff", "Rollback 3.1.1->3.1.0, because pod ds-1: CrashLoopBackOff (container dirsrv)", false},
		},
		"RolledBack": {
			reason:  "R35: and afterwards.",
			changes: []func(in *Inputs){ended(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultRolledBack, Reason: "CrashLoopBackOff", Message: "pod ds-1: CrashLoopBackOff"})},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionFalse, "CrashLoopBackOff", "3.1.0->3.1.1 was taken back: pod ds-1: CrashLoopBackOff", false},
		},
		"Aborted": {
			reason:  "R38: a person changed their mind; nobody has to do anything.",
			changes: []func(in *Inputs){ended(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultRolledBack, Reason: upgrade.ReasonAborted})},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionFalse, "Aborted", "3.1.0->3.1.1 was taken back", false},
		},
		"Superseded": {
			reason:  "The StatefulSet was deleted.",
			changes: []func(in *Inputs){ended(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultSuperseded, Reason: upgrade.ReasonStatefulSetDeleted})},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionFalse, "StatefulSetDeleted", "3.1.0->3.1.1 was ended by something else", false},
		},
		"Failed": {
			reason:  "Neither there nor back.",
			changes: []func(in *Inputs){ended(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultFailed, Reason: upgrade.ReasonRollbackFailed, Message: "pod ds-1: CrashLoopBackOff"})},
			kind:    TypeUpgradeSucceeded,
			want:    want{metav1.ConditionFalse, "RollbackFailed", "3.1.0->3.1.1 failed, and so did going back: pod ds-1: CrashLoopBackOff", false},
		},
		"RollbackFails": {
			reason:  "R35: what a person can do; what Kubernetes says from one moment to the next is not in it.",
			changes: []func(in *Inputs){goingBack, failing},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "RollbackFailed", "Rollback 3.1.1->3.1.0 fails: pod ds-1: CrashLoopBackOff (container dirsrv). " +
				"Nothing else is replaced meanwhile, and it goes on by itself once that pod is Ready. " +
				"See: kubectl -n team describe pod ds-1; kubectl -n team logs ds-1 --all-containers --previous. " +
				"To leave it for another version name that in the spec: kubectl -n team edit dirsrv ds", true},
		},
		"KeepFailed": {
			reason:  "R40: without automaticRollback, the command that goes back.",
			changes: []func(in *Inputs){upgrading, failing},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "CrashLoopBackOff", "Upgrade 3.1.0->3.1.1 fails: pod ds-1: CrashLoopBackOff (container dirsrv). " +
				"spec.upgrade.automaticRollback is false, so it stays as it is. See: kubectl -n team describe pod ds-1. Go back: " + toGood, true},
		},
		"KeepFailedPods": {
			reason:  "R44: what the spec said before, only the user knows.",
			changes: []func(in *Inputs){operation(upgrade.Operation{Kind: upgrade.OperationPodUpdate, From: good, To: good}), failing},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "CrashLoopBackOff", "Update of the pods of 3.1.0 (dirsrv:3.1.0) fails: pod ds-1: CrashLoopBackOff (container dirsrv). " +
				"spec.upgrade.automaticRollback is false, so it stays as it is. See: kubectl -n team describe pod ds-1. Go back: kubectl -n team edit dirsrv ds", true},
		},
		"KeepFailedByHand": {
			reason:  "R37, R40: a rollback that a person asked for fails, and stays: it is nothing that goes on by itself.",
			changes: []func(in *Inputs){operation(upgrade.Operation{Kind: upgrade.OperationManualRollback, From: good, To: older, Reason: upgrade.ReasonRolledBackManually}), failing},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "CrashLoopBackOff", "Rollback 3.1.0->3.0.0 fails: pod ds-1: CrashLoopBackOff (container dirsrv). " +
				"spec.upgrade.automaticRollback is false, so it stays as it is. See: kubectl -n team describe pod ds-1. Go back: kubectl -n team annotate dirsrv ds '" + group + "rollback-to=3.1.0' --overwrite", true},
		},
		"OldPodFails": {
			reason:  "R30: a pod that was not replaced yet holds it up: the target is not to blame.",
			changes: []func(in *Inputs){upgrading, heldUp("CrashLoopBackOff")},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "CrashLoopBackOff", "Upgrade 3.1.0->3.1.1 waits: pod ds-1: CrashLoopBackOff. It was not replaced yet. " +
				"See: kubectl -n team describe pod ds-1. To have it replaced first: kubectl -n team annotate dirsrv ds '" + group + "allow-degraded=3.1.0->3.1.1' --overwrite. " +
				"Back to what ran before: " + toGood, true},
		},
		"StillTerminating": {
			reason:  "R30: nor is it where a node is away.",
			changes: []func(in *Inputs){upgrading, heldUp(upgrade.ReasonStillTerminating)},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "StillTerminating", "Upgrade 3.1.0->3.1.1 waits: pod ds-1: StillTerminating. " +
				"If its node is gone, delete it: kubectl -n team delete pod ds-1 --force --grace-period=0. Back to what ran before: " + toGood, true},
		},
		"PodMissing": {
			reason:  "R30, R35: nor where a pod is not even created; going back there is nothing to go back to.",
			changes: []func(in *Inputs){goingBack, heldUp(upgrade.ReasonPodMissing)},
			kind:    TypeUpgradeSucceeded,
			want: want{metav1.ConditionFalse, "PodMissing", "Rollback 3.1.1->3.1.0 waits: pod ds-1: PodMissing. " +
				"See why it is not created: kubectl -n team describe statefulset ds", true},
		},
		"SpecInvalid": {
			reason:  "Nobody knows what an invalid spec would have been blocked for.",
			changes: []func(in *Inputs){invalid},
			kind:    TypeUpgradeBlocked,
			want:    want{metav1.ConditionUnknown, "SpecInvalid", "See the condition SpecValid", false},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := condition(t, Of(inputs(tc.changes...)), tc.kind)
			if diff := cmp.Diff(tc.want, want{c.Status, c.Reason, c.Message, c.Bad}); diff != "" {
				t.Errorf("\n%s\n%s: -want, +got:\n%s", tc.reason, tc.kind, diff)
			}
		})
	}
}

// R32: the phase during an upgrade.
func TestUpgradePhase(t *testing.T) {
	blocks := refused(upgrade.Refusal{Reason: upgrade.ReasonApprovalRequired, Message: "m"})
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    v1alpha1.Phase
	}{
		"Upgrading":          {reason: "A version up.", changes: []func(in *Inputs){upgrading}, want: v1alpha1.PhaseUpgrading},
		"UpgradingOneDown":   {reason: "The server that is down is being replaced.", changes: []func(in *Inputs){upgrading, down}, want: v1alpha1.PhaseUpgrading},
		"UpgradingAndWaits":  {reason: "What waits for a person comes after what runs.", changes: []func(in *Inputs){upgrading, blocks}, want: v1alpha1.PhaseUpgrading},
		"PodUpdate":          {reason: "R44: other pods.", changes: []func(in *Inputs){operation(upgrade.Operation{Kind: upgrade.OperationPodUpdate, From: good, To: good})}, want: v1alpha1.PhaseUpgrading},
		"RollingBack":        {reason: "R35: by itself.", changes: []func(in *Inputs){goingBack}, want: v1alpha1.PhaseRollingBack},
		"RollingBackByHand":  {reason: "R37: by request.", changes: []func(in *Inputs){operation(upgrade.Operation{Kind: upgrade.OperationManualRollback, From: good, To: older})}, want: v1alpha1.PhaseRollingBack},
		"RollbackFails":      {reason: "R35: nothing goes on by itself.", changes: []func(in *Inputs){goingBack, failing}, want: v1alpha1.PhaseDegraded},
		"KeepFailed":         {reason: "R40: nor here.", changes: []func(in *Inputs){upgrading, failing}, want: v1alpha1.PhaseDegraded},
		"InvalidMeanwhile":   {reason: "An invalid spec stops no operation.", changes: []func(in *Inputs){upgrading, invalid}, want: v1alpha1.PhaseUpgrading},
		"RejectedAfterwards": {reason: "R36: the spec still asks for what was rejected.", changes: []func(in *Inputs){refused(upgrade.Refusal{Reason: upgrade.ReasonTargetRejected, Message: "m", Restart: true})}, want: v1alpha1.PhaseBlocked},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Of(inputs(tc.changes...))
			if r.Status.Phase != tc.want {
				t.Errorf("\n%s\nphase: want %s, got %s", tc.reason, tc.want, r.Status.Phase)
			}
			if r.Steady && r.Status.Upgrade != nil {
				t.Errorf("\n%s\nan operation has deadlines that no event tells of, and this is steady", tc.reason)
			}
		})
	}
}

// R32, R38, R44: what waits, and what would be done, beside the operation.
func TestUpgradeStatus(t *testing.T) {
	steps := []string{"wait until every server is Ready", "replace ds-0, and wait until it is Ready"}
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    *v1alpha1.UpgradeStatus
	}{
		"Nothing": {reason: "There is nothing to say."},
		"Plan": {
			reason: "Which annotations are missing, by their whole names, and that clients notice.",
			changes: []func(in *Inputs){func(in *Inputs) {
				in.Decision.Plan = &upgrade.Plan{From: good, To: newer, Class: upgrade.ClassMajorUp, Needs: []string{"approved-transition=3.1.0->3.1.1"}, Steps: steps}
			}},
			want: &v1alpha1.UpgradeStatus{Plan: &v1alpha1.PlanStatus{
				Transition: "3.1.0->3.1.1", Class: "MajorUpgrade", Needs: []string{"dirsrv.operator.port389.org/approved-transition=3.1.0->3.1.1"}, Steps: steps, Downtime: true,
			}},
		},
		"PlanWithoutDowntime": {
			reason: "R41: several servers.",
			changes: []func(in *Inputs){replicated, func(in *Inputs) {
				in.Decision.Plan = &upgrade.Plan{From: good, To: good, Class: upgrade.ClassPodUpdate, Steps: steps}
			}},
			want: &v1alpha1.UpgradeStatus{Plan: &v1alpha1.PlanStatus{Transition: "3.1.0->3.1.0", Class: "PodUpdate", Steps: steps}},
		},
		"Pending": {
			reason: "What begins in a moment, and what it waits for.",
			changes: []func(in *Inputs){waits("waits for the pods to be looked up"), func(in *Inputs) {
				in.Decision.Pending = &newer
			}},
			want: &v1alpha1.UpgradeStatus{Pending: &v1alpha1.ReleaseStatus{Version: "3.1.1", Image: "dirsrv:3.1.1"}, Message: "waits for the pods to be looked up"},
		},
		"PendingPodUpdate": {
			reason: "R44: its hash, and a summary.",
			changes: []func(in *Inputs){func(in *Inputs) {
				in.Decision.PodUpdate, in.PodUpdateSummary = "aa-ee", "spec.volumes.tmp"
			}},
			want: &v1alpha1.UpgradeStatus{PendingPodUpdate: &v1alpha1.PodUpdateStatus{Hash: "aa-ee", Summary: "spec.volumes.tmp"}},
		},
		"Failing": {
			reason:  "What fails comes before what is waited for, and stands still.",
			changes: []func(in *Inputs){upgrading, waits("waits for ds-1 to be Ready"), failing},
			want: &v1alpha1.UpgradeStatus{
				ID: "1", Kind: "Upgrade", StartedAt: ptr.To(metav1.NewTime(t0)), Pod: "ds-1",
				From:    &v1alpha1.ReleaseStatus{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: "aa-bb"},
				To:      &v1alpha1.ReleaseStatus{Version: "3.1.1", Image: "dirsrv:3.1.1", Template: "cc-dd"},
				Message: "pod ds-1: CrashLoopBackOff (container dirsrv)",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(inputs(tc.changes...)).Status.Upgrade); diff != "" {
				t.Errorf("\n%s\nstatus.upgrade: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R34: an event for each transition of the ledger, once, and none while it stands.
func TestTransitions(t *testing.T) {
	upgradeOf := func(change func(o *upgrade.Operation)) *upgrade.Operation {
		o := &upgrade.Operation{ID: "1", Kind: upgrade.OperationUpgrade, From: good, To: newer, StartedAt: t0, Pod: "ds-2"}
		if change != nil {
			change(o)
		}
		return o
	}
	back := func(kind upgrade.OperationKind, reason, message string) *upgrade.Operation {
		return &upgrade.Operation{ID: "2", Kind: kind, From: newer, To: good, StartedAt: t0, Reason: reason, Message: message}
	}
	history := func(e upgrade.HistoryEntry) []upgrade.HistoryEntry {
		e.StartedAt, e.CompletedAt = t0, t0.Add(time.Hour)
		before := upgrade.HistoryEntry{From: older, To: good, Result: upgrade.ResultSucceeded, StartedAt: t0.Add(-time.Hour), CompletedAt: t0.Add(-time.Hour)}
		return []upgrade.HistoryEntry{e, before}
	}
	earlier := history(upgrade.HistoryEntry{})[1:]

	cases := map[string]struct {
		reason      string
		before, now upgrade.Ledger
		one         bool
		// replaced are the pods of the present revision.
		replaced []string
		want     []string
	}{
		"Nothing": {
			reason: "No operation, no event.",
			before: upgrade.Ledger{Good: &good, History: earlier},
			now:    upgrade.Ledger{Good: &good, History: earlier},
		},
		"GoesOn": {
			reason:   "Nothing has changed, although the pod is Ready by now.",
			before:   upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			now:      upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			replaced: []string{"ds-2"},
		},
		"FirstGood": {
			reason: "A first install is no upgrade.",
			now:    upgrade.Ledger{Good: &good},
		},
		"Started": {
			reason: "An upgrade begins.",
			before: upgrade.Ledger{Good: &good, History: earlier},
			now:    upgrade.Ledger{Good: &good, Operation: upgradeOf(nil), History: earlier},
			want:   []string{"Normal UpgradeStarted: Upgrade 3.1.0->3.1.1"},
		},
		"StartedWithDowntime": {
			reason: "R41: it says so.",
			before: upgrade.Ledger{Good: &good},
			now:    upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			one:    true,
			want:   []string{"Normal UpgradeStarted: Upgrade 3.1.0->3.1.1. Not ZeroDowntime: there is one server, and clients cannot reach it while it restarts"},
		},
		"PodUpdateStarted": {
			reason: "R44: so does an update of the pods.",
			before: upgrade.Ledger{Good: &good},
			now:    upgrade.Ledger{Good: &good, Operation: upgradeOf(func(o *upgrade.Operation) { o.Kind, o.To = upgrade.OperationPodUpdate, good })},
			want:   []string{"Normal UpgradeStarted: Update of the pods of 3.1.0 (dirsrv:3.1.0)"},
		},
		"NextPod": {
			reason:   "R30: a pod was replaced, and the next one's turn has come.",
			before:   upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			now:      upgrade.Ledger{Good: &good, Operation: upgradeOf(func(o *upgrade.Operation) { o.Pod = "ds-1" })},
			replaced: []string{"ds-2"},
			want:     []string{"Normal PodUpgraded: Upgrade 3.1.0->3.1.1: ds-2 was replaced"},
		},
		"NextPodWithoutAny": {
			reason: "The pod whose turn it was is gone, with a scale-down: nothing was replaced.",
			before: upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			now:    upgrade.Ledger{Good: &good, Operation: upgradeOf(func(o *upgrade.Operation) { o.Pod = "ds-1" })},
		},
		"Completed": {
			reason:   "R31: the last pod, and the whole.",
			before:   upgrade.Ledger{Good: &good, Operation: upgradeOf(func(o *upgrade.Operation) { o.Pod = "ds-0" }), History: earlier},
			now:      upgrade.Ledger{Good: &newer, History: history(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultSucceeded})},
			replaced: []string{"ds-0", "ds-1", "ds-2"},
			want: []string{
				"Normal PodUpgraded: Upgrade 3.1.0->3.1.1: ds-0 was replaced",
				"Normal UpgradeCompleted: Upgrade 3.1.0->3.1.1 is complete",
			},
		},
		"Failed": {
			reason: "R35: why, and that it goes back. The pod that failed was not replaced.",
			before: upgrade.Ledger{Good: &good, Operation: upgradeOf(nil), History: earlier},
			now:    upgrade.Ledger{Good: &good, Operation: back(upgrade.OperationRollback, "CrashLoopBackOff", "pod ds-2: CrashLoopBackOff"), History: earlier},
			want: []string{
				"Warning UpgradeFailed: Upgrade 3.1.0->3.1.1 failed: pod ds-2: CrashLoopBackOff",
				"Normal RollbackStarted: Rollback 3.1.1->3.1.0",
			},
		},
		"RolledBack": {
			reason: "R35: the service is where it was.",
			before: upgrade.Ledger{Good: &good, Operation: back(upgrade.OperationRollback, "CrashLoopBackOff", "m")},
			now:    upgrade.Ledger{Good: &good, History: history(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultRolledBack, Reason: "CrashLoopBackOff"})},
			want:   []string{"Normal RollbackCompleted: Rollback 3.1.1->3.1.0 is complete"},
		},
		"Aborted": {
			reason: "R38: nothing failed.",
			before: upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			now:    upgrade.Ledger{Good: &good, Operation: back(upgrade.OperationRollback, upgrade.ReasonAborted, "")},
			want:   []string{"Normal RollbackStarted: Rollback 3.1.1->3.1.0"},
		},
		"RolledBackByHandDuring": {
			reason: "R37: nor here.",
			before: upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			now:    upgrade.Ledger{Good: &good, Operation: back(upgrade.OperationManualRollback, upgrade.ReasonRolledBackManually, "")},
			want:   []string{"Normal RollbackStarted: Rollback 3.1.1->3.1.0"},
		},
		"RollbackByHandStarted": {
			reason: "R37: a rollback of its own.",
			before: upgrade.Ledger{Good: &newer},
			now:    upgrade.Ledger{Good: &newer, Operation: back(upgrade.OperationManualRollback, upgrade.ReasonRolledBackManually, "")},
			want:   []string{"Normal RollbackStarted: Rollback 3.1.1->3.1.0"},
		},
		"RollbackByHandCompleted": {
			reason: "R37: and its end.",
			before: upgrade.Ledger{Good: &newer, Operation: back(upgrade.OperationManualRollback, upgrade.ReasonRolledBackManually, "")},
			now:    upgrade.Ledger{Good: &good, History: history(upgrade.HistoryEntry{From: newer, To: good, Result: upgrade.ResultSucceeded, Reason: upgrade.ReasonRolledBackManually})},
			want:   []string{"Normal RollbackCompleted: Rollback 3.1.1->3.1.0 is complete"},
		},
		"RollbackLeft": {
			reason: "R35: a rollback that failed is left for another version.",
			before: upgrade.Ledger{Good: &good, Operation: back(upgrade.OperationRollback, "CrashLoopBackOff", "m")},
			now: upgrade.Ledger{
				Good: &good, Operation: &upgrade.Operation{ID: "3", Kind: upgrade.OperationUpgrade, From: good, To: older, StartedAt: t0.Add(time.Hour)},
				History: history(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultFailed, Reason: upgrade.ReasonRollbackFailed}),
			},
			want: []string{
				"Warning UpgradeFailed: Rollback 3.1.1->3.1.0 ended: RollbackFailed",
				"Normal UpgradeStarted: Upgrade 3.1.0->3.0.0",
			},
		},
		"StatefulSetDeleted": {
			reason: "It ended without success.",
			before: upgrade.Ledger{Good: &good, Operation: upgradeOf(nil)},
			now:    upgrade.Ledger{Good: &good, History: history(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultSuperseded, Reason: upgrade.ReasonStatefulSetDeleted})},
			want:   []string{"Warning UpgradeFailed: Upgrade 3.1.0->3.1.1 ended: StatefulSetDeleted"},
		},
		"OperationLost": {
			reason: "An operation that vanished with its ledger has not ended in any way that one could tell.",
			before: upgrade.Ledger{Good: &good, Operation: upgradeOf(nil), History: earlier},
			now:    upgrade.Ledger{Good: &good, History: earlier},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			with := func(before upgrade.Ledger) Report {
				return Of(inputs(func(in *Inputs) {
					if !tc.one {
						replicated(in)
					}
					in.Rollout.UpdateRevision = "new"
					for i := range in.Pods {
						in.Pods[i].Labels = map[string]string{"controller-revision-hash": "old"}
						for _, name := range tc.replaced {
							if in.Pods[i].GetName() == name {
								in.Pods[i].Labels["controller-revision-hash"] = "new"
							}
						}
					}
					in.Ledger, in.Decision.Ledger = before, tc.now
				}))
			}
			var got []string
			for _, e := range with(tc.before).Events {
				kind := "Normal "
				if e.Warning {
					kind = "Warning "
				}
				got = append(got, kind+e.Reason+": "+e.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nevents: -want, +got:\n%s", tc.reason, diff)
			}
			if again := with(tc.now).Events; len(again) > 0 {
				t.Errorf("\n%s\nthe next call sends events again: %v", tc.reason, again)
			}
		})
	}
}

// R34: an operation whose StatefulSet was refused is begun anew in each call: the status
// tells that it was told.
func TestStartedIsToldOnce(t *testing.T) {
	starts := func(in *Inputs) {
		upgrading(in)
		in.Ledger.Operation = nil
	}
	first := Of(inputs(starts))
	if len(first.Events) != 1 || first.Events[0].Reason != "UpgradeStarted" {
		t.Fatalf("want UpgradeStarted, got %v", first.Events)
	}
	again := Of(inputs(starts, func(in *Inputs) {
		in.Previous = first.Status
		in.Previous.Conditions = written(first)
	}))
	if len(again.Events) > 0 {
		t.Errorf("the next call tells it again: %v", again.Events)
	}
}

// R34, R37: conditions of an upgrade that turn bad are events too, each once.
func TestUpgradeEvents(t *testing.T) {
	invalidRollback := refused(upgrade.Refusal{Reason: upgrade.ReasonInvalidRollback, Message: "m"})
	cases := map[string]struct {
		reason      string
		before, now []func(in *Inputs)
		want        []string
	}{
		"InvalidRollback":      {reason: "R37: by its own name.", now: []func(in *Inputs){invalidRollback}, want: []string{"InvalidRollback"}},
		"InvalidRollbackStays": {reason: "R37: once.", before: []func(in *Inputs){invalidRollback}, now: []func(in *Inputs){invalidRollback}},
		"InvalidRollbackGone":  {reason: "R28: the request was taken back.", before: []func(in *Inputs){invalidRollback}, want: []string{"UpgradeUnblocked"}},
		"RollbackFails":        {reason: "R35: the way back fails as well.", before: []func(in *Inputs){goingBack}, now: []func(in *Inputs){goingBack, failing}, want: []string{"UpgradeFailed"}},
		"RollbackFailsOn":      {reason: "R34: what Kubernetes says about it from one moment to the next is no news.", before: []func(in *Inputs){goingBack, failing}, now: []func(in *Inputs){goingBack, failing, func(in *Inputs) { in.Decision.Failure.Message = "back-off 80s" }}},
		"RollbackMends":        {reason: "It goes on: the ledger will tell how it ends.", before: []func(in *Inputs){goingBack, failing}, now: []func(in *Inputs){goingBack}},
		"KeepFailed":           {reason: "R40: it stays as it is.", before: []func(in *Inputs){upgrading}, now: []func(in *Inputs){upgrading, failing}, want: []string{"UpgradeFailed"}},
		"AnotherReason":        {reason: "R34: another failure is news.", before: []func(in *Inputs){upgrading, failing}, now: []func(in *Inputs){upgrading, failing, func(in *Inputs) { in.Decision.Failure.Reason = "ImagePullBackOff" }}, want: []string{"UpgradeFailed"}},
		"Waiting":              {reason: "What is waited for is in the status, and no event.", before: []func(in *Inputs){upgrading, waits("for ds-1")}, now: []func(in *Inputs){upgrading, waits("for ds-0")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := written(Of(inputs(tc.before...)))
			var got []string
			for _, e := range Of(inputs(append(tc.now, func(in *Inputs) { in.Previous.Conditions = before })...)).Events {
				got = append(got, e.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nevents: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R34: during an upgrade too no condition moves by itself, and none holds a time.
func TestUpgradeMessagesStandStill(t *testing.T) {
	blocks := refused(upgrade.Refusal{Reason: upgrade.ReasonApprovalRequired, Message: "m", Annotate: []upgrade.Annotation{{Name: "n", Value: "v"}}})
	all := map[string][]func(in *Inputs){
		"Upgrading":     {upgrading, waits("waits for ds-1 to be Ready")},
		"GoingBack":     {goingBack, func(in *Inputs) { in.Decision.Condemned = []upgrade.Condemned{{Pod: "ds-1", UID: "1", Since: t0}} }},
		"RollbackFails": {goingBack, failing},
		"KeepFailed":    {upgrading, failing},
		"Blocked":       {blocks},
		"RolledBack":    {ended(upgrade.HistoryEntry{From: good, To: newer, Result: upgrade.ResultRolledBack, Reason: "CrashLoopBackOff", Message: "m"})},
	}
	for name, changes := range all {
		t.Run(name, func(t *testing.T) {
			later := func(in *Inputs) {
				if o := in.Decision.Ledger.Operation; o != nil {
					o.StartedAt, o.PodSince = o.StartedAt.Add(time.Hour), ptr.To(t0.Add(time.Hour))
				}
				if f := in.Decision.Failure; f != nil {
					f.Message = "back-off 5m0s"
				}
				for i := range in.Decision.Condemned {
					in.Decision.Condemned[i].Since = t0.Add(time.Hour)
				}
				for i := range in.Decision.Ledger.History {
					in.Decision.Ledger.History[i].CompletedAt = t0.Add(24 * time.Hour)
				}
				in.Pods = append([]corev1.Pod(nil), in.Pods...)
			}
			now := Of(inputs(changes...)).Conditions
			if diff := cmp.Diff(now, Of(inputs(append(changes, later)...)).Conditions, cmp.AllowUnexported(Condition{})); diff != "" {
				t.Errorf("a condition moves by itself: -before, +later:\n%s", diff)
			}
			for _, c := range now {
				if strings.Contains(c.Message, "2026") || strings.Contains(c.Message, "back-off") {
					t.Errorf("the message of %s moves: %s", c.Type, c.Message)
				}
			}
		})
	}
}
