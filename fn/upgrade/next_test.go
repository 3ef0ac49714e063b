package upgrade

import (
	"strings"
	"testing"
	"time"
)

// R30, R31: one pod at a time, from the highest ordinal down, and judged on what is
// reported of the new revision.
func TestRollout(t *testing.T) {
	tell(t, running, map[string]story{
		"Steady": {
			reason: "Nothing to do.",
			steps:  []step{{want: `runs 3.1.0`}, {do: after(time.Hour), want: `runs 3.1.0`}},
		},
		"OneServer": {
			reason: "R41: one server is upgraded too.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{want: `runs 3.1.1`},
			},
		},
		"ThreeServers": {
			reason:   "Each pod waits for the one before.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, "waits for ds-2 to be Ready"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{want: `runs 3.1.1`},
			},
		},
		"PodsNotLookedUp": {
			reason:   "Holding: before the pods were looked up nothing begins, and nothing goes on.",
			replicas: 2,
			steps: []step{
				{do: all(spec("3.1.1"), observed(func(in *Inputs) { in.Arrived = false })), want: `runs 3.1.0, pending 3.1.1, "waits for the pods to be looked up"`},
				{do: observed(func(in *Inputs) { in.Arrived = true }), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), observed(func(in *Inputs) { in.Arrived = false })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the pods to be looked up"`},
				{do: observed(func(in *Inputs) { in.Arrived = true }), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"StatusStale": {
			reason:   "R31: counts of an older generation begin nothing, and finish nothing.",
			replicas: 2,
			steps: []step{
				{do: all(spec("3.1.1"), observed(func(in *Inputs) { in.Rollout.Current = false })), want: `runs 3.1.0, pending 3.1.1, "waits for the StatefulSet controller to report on the last change"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), observed(func(in *Inputs) { in.Rollout.Current = false })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the StatefulSet controller to take the change up"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: all(up("ds-0"), observed(func(in *Inputs) { in.Rollout.Current = false })), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for the StatefulSet controller to take the change up"`},
				{want: `runs 3.1.1`},
			},
		},
		"TemplateNotTakenUp": {
			reason:   "R31: what is reported of another template is not about this operation.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), observed(func(in *Inputs) { in.Rollout.Running = release("3.1.0") })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the StatefulSet controller to take the change up"`},
			},
		},
		"CountsLagBehind": {
			reason: "R31: every pod is Ready, and the StatefulSet's status does not say so yet.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: all(up("ds-0"), observed(func(in *Inputs) { in.Rollout.Updated = 0 })), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for the StatefulSet controller to report every server updated and Ready"`},
				{do: observed(func(in *Inputs) { in.Rollout.Ready = 0 }), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for the StatefulSet controller to report every server updated and Ready"`},
				{do: observed(func(in *Inputs) { in.Rollout.Pods = 2 }), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for the StatefulSet controller to report every server updated and Ready"`},
				{want: `runs 3.1.1`},
			},
		},
		"OutdatedAbove": {
			reason:   "Monotone: a pod above the partition that is outdated again is the controller's to replace; the partition does not rise to it.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: all(up("ds-1"), notBegun("ds-2")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-2 to be replaced"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"CachesDisagree": {
			reason:   "R30: pods and StatefulSet come from two caches; the next one is replaced only where both agree.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), observed(func(in *Inputs) { in.Rollout.Ready = 1 })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the StatefulSet controller to report every server Ready"`},
				{do: observed(func(in *Inputs) { in.Rollout.Pods = 1 }), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the StatefulSet controller to report every server Ready"`},
				{do: observed(func(in *Inputs) { in.Rollout.Updated = 2 }), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the StatefulSet controller to report every server Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"PodNotDeletedYet": {
			reason:   "The pod whose turn it is counts only as a new one.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: observed(func(in *Inputs) { in.Pods[0].Terminating = true }), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
				{do: observed(func(in *Inputs) { in.Pods = in.Pods[1:] }), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for pods to be created"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"AnotherFalls": {
			reason:   "R30: no pod is replaced while another one is down, whichever it is.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: all(up("ds-2"), down("ds-0")), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, "waits for ds-0 to be Ready"`},
				{do: after(DefaultProgressDeadline - time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
			},
		},
		"AnotherFallsForGood": {
			reason:   "One that is down and cannot come back by itself is next, once the target has proven itself.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: all(up("ds-2"), fail("ds-0", "ImagePullBackOff")), want: `Upgrade 3.1.0->3.1.1, pod ds-2, OnDelete, "waits for ds-0 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `runs 3.1.1`},
			},
		},
		"AnotherFallsUnproven": {
			reason:   "Before that nothing is done to it but to say so, until a person allows it.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: fail("ds-0", "ImagePullBackOff"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, fails: pod ds-0: ImagePullBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: allowDegraded("3.1.0->3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, fails: pod ds-0: ImagePullBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, OnDelete, "waits for ds-0 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
			},
		},
		"AnotherFallsNothingBegun": {
			reason:   "The controller replaces nothing while a pod is down (MaxUnavailableStatefulSet): it is said, and can be allowed.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(notBegun("ds-1"), fail("ds-0", "ImagePullBackOff")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, fails: pod ds-0: ImagePullBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: all(notBegun("ds-1"), allowDegraded("3.1.0->3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, OnDelete, "waits for ds-0 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
			},
		},
		"UpdatedOneFallsAgain": {
			reason:   "R30: also when it is one that was updated before.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: all(up("ds-1"), down("ds-2")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-2 to be Ready"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"Rebuild": {
			reason: "The gating table: another image of the same version is rolled out without a word.",
			steps: []step{
				{do: specOf(Release{Version: "3.1.0", Image: "mirror/dirsrv:3.1.0"}), want: `Upgrade 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"MinReady": {
			reason:   "R40: minReadySeconds between pods, and before the end.",
			replicas: 2,
			steps: []step{
				{do: all(policy(func(p *Policy) { p.MinReady = time.Minute }), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready for spec.upgrade.minReadySeconds"`},
				{do: after(time.Minute - time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready for spec.upgrade.minReadySeconds"`},
				{do: after(time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready for spec.upgrade.minReadySeconds"`},
				{do: after(time.Minute), want: `runs 3.1.1`},
			},
		},
		"MinReadyBeyondDeadline": {
			reason:   "R40: being Ready for long enough is no failure.",
			replicas: 2,
			steps: []step{
				{do: all(policy(func(p *Policy) { p.MinReady = time.Hour }), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(after(time.Minute), up("ds-1")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready for spec.upgrade.minReadySeconds"`},
				{do: after(59 * time.Minute), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready for spec.upgrade.minReadySeconds"`},
				{do: after(time.Minute), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"PausedBefore": {
			reason: "R40: paused, nothing begins; what is asked for is shown.",
			steps: []step{
				{do: all(paused(true), spec("3.1.1")), want: `runs 3.1.0, blocked Paused`},
				{do: paused(false), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"PausedBetween": {
			reason:   "R40: paused holds between pods; the one that is being replaced comes back.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: paused(true), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "spec.upgrade.paused holds it"`},
				{do: after(24 * time.Hour), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "spec.upgrade.paused holds it"`},
				{do: paused(false), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: all(paused(true), up("ds-0")), want: `runs 3.1.1`},
			},
		},
		"PausedAndFailing": {
			reason:   "R35, R40: a pod that fails is no less down for being paused; it goes back.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(paused(true), fail("ds-1", "CrashLoopBackOff")), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, deletes ds-1, blocked TargetRejected, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"MismatchThenMatch": {
			reason: "R24, R25: version and image arrive one after the other; in between nothing is touched.",
			steps: []step{
				{do: mismatched("3.1.1", "3.1.0"), want: `runs 3.1.0, blocked ImageVersionMismatch`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"MismatchThenMatchGated": {
			reason: "R24, R27: the same through a gate that was opened before.",
			steps: []step{
				{do: approve("3.1.0->4.0.0"), want: `runs 3.1.0`},
				{do: mismatched("3.1.0", "4.0.0"), want: `runs 3.1.0, blocked ImageVersionMismatch`},
				{do: spec("4.0.0"), want: `Upgrade 3.1.0->4.0.0, pod ds-0, partition 0`},
			},
		},
		"MismatchDuringAnOperation": {
			reason:   "R24: half a change does not turn an operation.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: mismatched("3.1.1", "3.1.0"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, blocked ImageVersionMismatch, "waits for ds-1 to be Ready"`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
			},
		},
		"ApprovedAfter": {
			reason: "R27: an approval that comes later unblocks by itself; half of it does not.",
			steps: []step{
				{do: spec("4.0.0"), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: ask(func(r *Requests) { r.ApprovedTransition = "3.1.0->4.0.0" }), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: ask(func(r *Requests) { r.BackupConfirmed = "3.1.0->4.0.0" }), want: `Upgrade 3.1.0->4.0.0, pod ds-0, partition 0`},
			},
		},
		"ApprovedOtherPair": {
			reason: "R26: an approval is for that pair alone.",
			steps: []step{
				{do: all(approve("3.1.0->5.0.0"), spec("4.0.0")), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: spec("5.0.0"), want: `Upgrade 3.1.0->5.0.0, pod ds-0, partition 0`},
			},
		},
		"ApprovalTakenBack": {
			reason: "An approval opens the gate; what has begun goes on without it.",
			steps: []step{
				{do: all(approve("3.1.0->4.0.0"), spec("4.0.0")), want: `Upgrade 3.1.0->4.0.0, pod ds-0, partition 0`},
				{do: approve(""), want: `Upgrade 3.1.0->4.0.0, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 4.0.0`},
			},
		},
		"BlockedThenReverted": {
			reason: "R28: revert the spec, and the block is gone.",
			steps: []step{
				{do: spec("4.0.0"), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: spec("3.1.0"), want: `runs 3.1.0`},
			},
		},
		"BlockedAndScaled": {
			reason: "R28: while blocked only the image is pinned.",
			steps: []step{
				{do: spec("4.0.0"), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: scale(2), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: up("ds-1"), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: settings("other resources"), want: `PodUpdate 3.1.0->3.1.0, pod ds-1, partition 1, blocked ApprovalRequired`},
				{do: up("ds-1"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0, blocked ApprovalRequired, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked ApprovalRequired`},
			},
		},
		"Unhealthy": {
			reason:   "R29: an upgrade begins on a healthy service.",
			replicas: 2,
			steps: []step{
				{do: all(down("ds-0"), spec("3.1.1")), want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
			},
		},
		"UnhealthyAllowed": {
			reason:   "R29, R30: allowed, it begins with the server that is down, once that has had its time.",
			replicas: 3,
			steps: []step{
				{do: all(fail("ds-1", "CrashLoopBackOff"), spec("3.1.1")), want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: allowDegraded("3.1.1->3.1.0"), want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: allowDegraded("3.1.0->3.1.1"), want: `Upgrade 3.1.0->3.1.1, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, OnDelete, deletes ds-1, "waits for ds-1 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, OnDelete, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, "waits for ds-2 to be replaced"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"UnhealthyAllowedSlow": {
			reason:   "R29: a server that may still come up by itself is not deleted before its deadline.",
			replicas: 2,
			steps: []step{
				{do: all(down("ds-1"), allowDegraded("3.1.0->3.1.1"), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.1, OnDelete, "waits for ds-1 to be Ready"`},
				{do: after(DefaultProgressDeadline), want: `Upgrade 3.1.0->3.1.1, pod ds-1, OnDelete, deletes ds-1, "waits for ds-1 to be Ready"`},
			},
		},
		"UnhealthyAllowedTwoDown": {
			reason:   "R30: the target is not known to be good, so one after the other.",
			replicas: 3,
			steps: []step{
				{do: all(fail("ds-0", "CrashLoopBackOff"), fail("ds-2", "CrashLoopBackOff"), allowDegraded("3.1.0->3.1.1"), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-2, OnDelete, deletes ds-2, "waits for ds-0 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-2, OnDelete, "waits for ds-0 to be Ready"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `runs 3.1.1`},
			},
		},
		"UnhealthyAllowedAnotherFalls": {
			reason:   "R30: a server that falls later comes first again.",
			replicas: 3,
			steps: []step{
				{do: all(fail("ds-1", "CrashLoopBackOff"), allowDegraded("3.1.0->3.1.1"), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, OnDelete, deletes ds-1, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, "waits for ds-2 to be replaced"`},
				{do: all(up("ds-2"), fail("ds-0", "CrashLoopBackOff")), want: `Upgrade 3.1.0->3.1.1, pod ds-2, OnDelete, "waits for ds-0 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"ScaledAndUpgraded": {
			reason: "R29: a service that is being scaled is waited for; one that is starting is not healthy.",
			steps: []step{
				{do: all(scale(2), spec("3.1.1")), want: `runs 3.1.0, pending 3.1.1, "waits for the service to be scaled"`},
				{want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
			},
		},
		"ScaledUpDuring": {
			reason:   "Servers that come during an operation come with its target.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), scale(3)), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the service to be scaled"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-2 to be Ready"`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"ScaledDownDuring": {
			reason:   "The pod whose turn it was goes; the operation goes on with the next.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: scale(2), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2, "waits for ds-2 to be Ready"`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"ScaledDownBefore": {
			reason: "R29: a server that is on its way out, and not Ready any more, is none that an upgrade waits for.",
			steps: []step{
				{do: all(spec("3.1.1"), observed(func(in *Inputs) {
					in.Pods = append(in.Pods, Pod{Name: "ds-1", Ordinal: 1, Revision: "an older one"})
				})), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"ScaledDownToTheUpdated": {
			reason:   "Only servers that were not updated yet are left.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: scale(1), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
				{do: after(24 * time.Hour), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"HeldBefore": {
			reason: "A spec that cannot be acted upon begins nothing.",
			steps: []step{
				{do: all(spec("3.1.1"), observed(func(in *Inputs) { in.Held = true })), want: `runs 3.1.0`},
				{do: observed(func(in *Inputs) { in.Held = false }), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"HeldDuring": {
			reason:   "What is wrong with the spec keeps no operation from going on; nothing in it is a target.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(spec("3.1.0"), observed(func(in *Inputs) { in.Held = true })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{do: observed(func(in *Inputs) { in.Held = false }), want: `Upgrade 3.1.1->3.1.0, pod ds-1, partition 1`},
			},
		},
	})
}

// R35: what fails goes back to the last known good release by itself.
func TestFailure(t *testing.T) {
	tell(t, running, map[string]story{
		"OneServer": {
			reason: "R35: also with one replica, which the StatefulSet controller alone would leave where it is.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "ImagePullBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(time.Hour), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"FirstOfThree": {
			reason:   "R35: the pods below were not touched, and are not now.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: fail("ds-2", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-2, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-2, OnDelete, deletes ds-2, blocked TargetRejected, "waits for ds-2 to be Ready"`},
				{do: up("ds-2"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"MiddleOfThree": {
			reason:   "R35: a stuck pod in the middle comes back first, by being deleted; only then the healthy one above it, by partition.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: fail("ds-1", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, deletes ds-1, blocked TargetRejected, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Rollback 3.1.1->3.1.0, pod ds-2, partition 2, blocked TargetRejected, "waits for ds-2 to be replaced"`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-2, partition 2, blocked TargetRejected, "waits for ds-2 to be Ready"`},
				{do: up("ds-2"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"LastOfThree": {
			reason:   "R35: the lowest, with two healthy ones above it.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `Rollback 3.1.1->3.1.0, pod ds-2, partition 2, blocked TargetRejected, "waits for ds-2 to be replaced"`},
				{do: up("ds-2"), want: `Rollback 3.1.1->3.1.0, pod ds-1, partition 1, blocked TargetRejected, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"TwoDown": {
			reason:   "Pods that are down have nothing to lose, but the good release may not work either: one after the other, that of the operation first.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: all(fail("ds-1", "CrashLoopBackOff"), fail("ds-2", "CrashLoopBackOff")), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, deletes ds-1, blocked TargetRejected, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Rollback 3.1.1->3.1.0, pod ds-2, OnDelete, deletes ds-2, blocked TargetRejected, "waits for ds-2 to be Ready"`},
				{do: up("ds-2"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"Deadline": {
			reason:   "R40: a pod that gives no reason has progressDeadlineSeconds from when its turn came, to the second.",
			replicas: 2,
			steps: []step{
				{do: all(policy(func(p *Policy) { p.ProgressDeadline = time.Minute }), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: after(time.Minute - time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be Ready"`},
				{do: after(time.Second), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
			},
		},
		"DeadlinePerPod": {
			reason:   "R40: each pod has its own.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(after(9*time.Minute), up("ds-1")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: after(9 * time.Minute), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
				{do: after(time.Minute), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
			},
		},
		"DeadlineOfAnother": {
			reason:   "An updated pod that falls again has as long.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: all(up("ds-0"), after(time.Minute), down("ds-1")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-1 to be Ready"`},
				{do: after(DefaultProgressDeadline - time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-1 to be Ready"`},
				{do: after(time.Second), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
			},
		},
		"NotEvenCreated": {
			reason:   "R40: nor may a pod stay away for ever, because its volume's node is gone for example.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(after(DefaultProgressDeadline), observed(func(in *Inputs) { in.Pods = in.Pods[1:] })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, fails: pod ds-1: PodMissing, "waits for pods to be created"`},
				{do: all(after(DefaultProgressDeadline), observed(func(in *Inputs) { in.Pods = in.Pods[1:] })), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
			},
		},
		"NotBegun": {
			reason:   "A controller that is away is no failure of the target: every server is up, and waiting costs nothing.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(notBegun("ds-1"), after(DefaultProgressDeadline)), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
			},
		},
		"Refused": {
			reason: "R42: the agent's own reason is the reason.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: observed(func(in *Inputs) {
					in.Pods[0].Refusal = &Refusal{Reason: "DatabaseBackendUnsupported", Message: "the database is bdb"}
					in.Pods[0].Waiting = "CrashLoopBackOff"
				}), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
			},
		},
		"StartingIsNoFailure": {
			reason: "Reasons that are part of every start.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "ContainerCreating"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "PodInitializing"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
			},
		},
		"NotTriedAgain": {
			reason: "R36: the same target is tried again only once the spec has named what runs, or another one.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(24 * time.Hour), want: `runs 3.1.0, blocked TargetRejected`},
				{do: spec("3.1.0"), want: `runs 3.1.0`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"AnotherInBetween": {
			reason: "R36: another target, although it is blocked.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: spec("4.0.0"), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"MismatchInBetween": {
			reason: "R24, R36: half a change names nothing.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: mismatched("3.1.0", "3.1.1"), want: `runs 3.1.0, blocked ImageVersionMismatch`},
				{do: spec("3.1.1"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"SameVersionOtherImage": {
			reason: "R36: a rebuild of the rejected version is another pair.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: specOf(Release{Version: "3.1.1", Image: "mirror/dirsrv:3.1.1"}), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"AnotherWhileGoingBack": {
			reason: "R38: what is asked for during a rollback waits.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{do: spec("3.1.2"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, pending 3.1.2, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, pending 3.1.2`},
				{want: `Upgrade 3.1.0->3.1.2, pod ds-0, partition 0`},
			},
		},
		"TwiceInARow": {
			reason: "Two targets fail one after the other: each goes back to the same good release.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: all(spec("3.1.2"), up("ds-0")), want: `runs 3.1.0, pending 3.1.2`},
				{want: `Upgrade 3.1.0->3.1.2, pod ds-0, partition 0`},
				{do: fail("ds-0", "ImagePullBackOff"), want: `Rollback 3.1.2->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.2->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"KeepFailed": {
			reason:   "R40: without automaticRollback it stays, and goes on when the pod comes up after all.",
			replicas: 2,
			steps: []step{
				{do: all(policy(func(p *Policy) { p.KeepFailed = true }), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: fail("ds-1", "CrashLoopBackOff"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, fails: pod ds-1: CrashLoopBackOff (container dirsrv), "waits for ds-1 to be Ready"`},
				{do: after(time.Hour), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, fails: pod ds-1: CrashLoopBackOff (container dirsrv), "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"KeepFailedThenBack": {
			reason: "R38: the person who looked at it turns the spec back.",
			steps: []step{
				{do: all(policy(func(p *Policy) { p.KeepFailed = true }), spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: spec("3.1.0"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"RollbackFails": {
			reason: "R35: behind the last known good release there is nothing: it stays, says so, and goes on when the pod comes up.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "CreateContainerConfigError"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, fails: pod ds-0: CreateContainerConfigError (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: after(24 * time.Hour), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, fails: pod ds-0: CreateContainerConfigError (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"RollbackNotDeleted": {
			reason: "Nobody deletes the stuck pod, for want of an image for the Job: after the deadline that is a failure too.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{do: observed(func(in *Inputs) { in.Pods[0].Terminating = true }), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: observed(func(in *Inputs) { in.Pods[0].Terminating = false }), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
			},
		},
		"RollbackLosesWrites": {
			reason: "R35: the agent refuses to go back: Degraded, and nothing by itself.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: observed(func(in *Inputs) {
					in.Pods[0].Refusal = &Refusal{Reason: "RollbackLosesWrites", Message: "writes"}
				}), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, fails: pod ds-0: RollbackLosesWrites: writes, "waits for ds-0 to be Ready"`},
			},
		},
		"LeftForAnother": {
			reason: "R29: a failing rollback is left for another version, where a person allows exactly that.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: spec("3.1.2"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked ServiceUnhealthy, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: allowDegraded("3.1.1->3.1.2"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked ServiceUnhealthy, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: allowDegraded("3.1.0->3.1.2"), want: `Upgrade 3.1.0->3.1.2, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.2, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.2`},
			},
		},
		"LeftForAGatedOne": {
			reason: "The gating table holds there too.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: all(spec("4.0.0"), allowDegraded("3.1.0->4.0.0")), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked ApprovalRequired, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: approve("3.1.0->4.0.0"), want: `Upgrade 3.1.0->4.0.0, OnDelete`},
			},
		},
		"LeftAndFailing": {
			reason: "And when that one fails as well, it is the good release's turn again.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: all(fail("ds-0", "CrashLoopBackOff"), spec("3.1.2"), allowDegraded("3.1.0->3.1.2")), want: `Upgrade 3.1.0->3.1.2, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.2, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.2->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.2->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
			},
		},
		"LeftForARefusedOne": {
			reason: "R25: nor is it left for what is refused, or what an invalid spec names.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: all(fail("ds-0", "CrashLoopBackOff"), mismatched("3.1.2", "3.1.3"), allowDegraded("3.1.0->3.1.2")), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked ImageVersionMismatch, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: all(spec("3.1.2"), observed(func(in *Inputs) { in.Held = true })), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: observed(func(in *Inputs) { in.Held = false }), want: `Upgrade 3.1.0->3.1.2, OnDelete`},
			},
		},
		"LeftForAnotherPaused": {
			reason: "R40: paused holds that too; and where nothing is asked for it holds nothing.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: all(paused(true), fail("ds-0", "CrashLoopBackOff"), spec("3.1.0")), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: all(spec("3.1.2"), allowDegraded("3.1.0->3.1.2")), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked Paused, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: paused(false), want: `Upgrade 3.1.0->3.1.2, OnDelete`},
			},
		},
		"RollbackFailsOnTheSpecsSettings": {
			reason: "R28: pod settings that are changed to mend a failing rollback reach it.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "CreateContainerConfigError"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected, fails: pod ds-0: CreateContainerConfigError (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: all(spec("3.1.0"), settings("another node selector")), want: `PodUpdate 3.1.0->3.1.0, OnDelete`},
			},
		},
		"GoingBackAnotherFalls": {
			reason:   "R30: a pod that fails while the healthy ones go back comes first.",
			replicas: 3,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-2, partition 2`},
				{do: up("ds-2"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `Rollback 3.1.1->3.1.0, pod ds-2, partition 2, blocked TargetRejected, "waits for ds-2 to be replaced"`},
				{do: all(up("ds-2"), fail("ds-1", "CrashLoopBackOff")), want: `Rollback 3.1.1->3.1.0, pod ds-2, OnDelete, blocked TargetRejected, "waits for ds-1 to be Ready"`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, deletes ds-1, blocked TargetRejected, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"TerminatingForever": {
			reason:   "A pod that does not go, on a node that is away, is no failure of the target; it is told, once its grace period is long over.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), observed(func(in *Inputs) {
					in.Pods[1].Terminating, in.Pods[1].Deleted = true, in.Now
				})), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-0 to be Ready"`},
				{do: after(DefaultProgressDeadline - time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-0 to be Ready"`},
				{do: after(time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, fails: pod ds-0: StillTerminating, "waits for ds-0 to be Ready"`},
			},
		},
		"AnotherMissing": {
			reason:   "Nor is one that is not even created.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), observed(func(in *Inputs) { in.Pods = in.Pods[:1] })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for pods to be created"`},
				{do: all(after(DefaultProgressDeadline), observed(func(in *Inputs) { in.Pods = in.Pods[:1] })), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, fails: pod ds-0: PodMissing, "waits for pods to be created"`},
			},
		},
		"HeldAndFailing": {
			reason: "R35: what is wrong with the spec keeps nothing from being rolled back.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: all(observed(func(in *Inputs) { in.Held = true }), fail("ds-0", "CrashLoopBackOff")), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0`},
				{do: observed(func(in *Inputs) { in.Held = false }), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
	})
}

// R30: where an agent runs the server, the next pod waits for what it says.
func TestAgents(t *testing.T) {
	says := func(pod string, report *Report) act {
		return func(c *cluster) {
			c.ready(c.pod(pod))
			c.pod(pod).Report = report
		}
	}
	tell(t, withAgents, map[string]story{
		"Ready": {
			reason:   "Version, readiness and replication are as they should.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"NoReport": {
			reason:   "A missing report fails the gate, and at the end of the deadline the operation.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: says("ds-1", nil), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the agent in ds-1 to report that its server is ready"`},
				{do: after(DefaultProgressDeadline - time.Second), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the agent in ds-1 to report that its server is ready"`},
				{do: after(time.Second), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
			},
		},
		"NotReady": {
			reason:   "Kubernetes says Ready, the agent does not.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: says("ds-1", &Report{Version: "3.1.1", Replicates: true}), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the agent in ds-1 to report that its server is ready"`},
			},
		},
		"OtherVersion": {
			reason:   "R25: the image contains another version than its tag says.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: says("ds-1", &Report{Version: "3.1.0", Ready: true, Replicates: true}), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to run 3.1.1: it runs 3.1.0"`},
				{do: after(DefaultProgressDeadline), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, blocked TargetRejected`},
			},
		},
		"LeadingV": {
			reason:   "R4: a leading v does not count.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: says("ds-1", &Report{Version: "v3.1.1", Ready: true, Replicates: true}), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"NotReplicating": {
			reason:   "R30: a server that does not replicate yet may be the next to hold the only copy.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: says("ds-1", &Report{Version: "3.1.1", Ready: true}), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for ds-1 to replicate"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"OldOneDoesNotReplicate": {
			reason:   "What was not updated yet is judged by its readiness alone: an update may be what mends it.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), says("ds-0", &Report{Version: "3.1.0", Ready: true})), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
		"NotHealthyAtFirst": {
			reason:   "R29: nor does an upgrade begin where a server does not replicate.",
			replicas: 2,
			steps: []step{
				{do: all(spec("3.1.1"), says("ds-0", &Report{Version: "3.1.0", Ready: true})), want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
			},
		},
		"TheLast": {
			reason: "R31: nor does it end.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: says("ds-0", &Report{Version: "3.1.1", Ready: true}), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to replicate"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"Unversioned": {
			reason: "R4: nobody knows which version the target is, so any will do.",
			steps: []step{
				{do: specOf(Release{Image: "dirsrv:testing"}), want: `Upgrade 3.1.0->dirsrv:testing, pod ds-0, partition 0`},
				{do: says("ds-0", &Report{Version: "9.9.9", Ready: true, Replicates: true}), want: `runs dirsrv:testing`},
			},
		},
		"FirstWithAgents": {
			reason:   "A template that brings the agent is judged on it, although the one before did not.",
			replicas: 2,
			steps: []step{
				{do: all(spec("3.1.1"), func(c *cluster) {
					for i := range c.in.Pods {
						c.in.Pods[i].HasAgent, c.in.Pods[i].Report = false, nil
					}
				}), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: says("ds-1", nil), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1, "waits for the agent in ds-1 to report that its server is ready"`},
				{do: up("ds-1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
			},
		},
	})
}

// R38: a target that changes while an operation runs.
func TestAnotherTarget(t *testing.T) {
	tell(t, running, map[string]story{
		"Abort": {
			reason:   "Back to where it came from: a rollback, and nothing is rejected.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: spec("3.1.0"), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete, deletes ds-1, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `runs 3.1.0`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
			},
		},
		"AbortOfAllReady": {
			reason:   "Pods that are Ready go back by partition.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(up("ds-1"), spec("3.1.0")), want: `Rollback 3.1.1->3.1.0, pod ds-1, OnDelete`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `runs 3.1.0`},
			},
		},
		"AbortGated": {
			reason: "Going back where it came from needs no approval, although it is a major version down.",
			steps: []step{
				{do: all(approve("3.1.0->4.0.0"), spec("4.0.0")), want: `Upgrade 3.1.0->4.0.0, pod ds-0, partition 0`},
				{do: spec("3.1.0"), want: `Rollback 4.0.0->3.1.0, pod ds-0, OnDelete`},
			},
		},
		"AbortOfAnAbort": {
			reason: "The target again, while it is going back: after that.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: spec("3.1.0"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete`},
				{do: spec("3.1.1"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, pending 3.1.1, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, pending 3.1.1`},
				{want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"Another": {
			reason: "Anything else waits until the operation has ended, and is gated from there.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: spec("3.1.2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, pending 3.1.2, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1, pending 3.1.2`},
				{want: `Upgrade 3.1.1->3.1.2, pod ds-0, partition 0`},
			},
		},
		"AnotherGated": {
			reason: "R26: approval is for what runs then.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: all(approve("3.1.0->4.0.0"), spec("4.0.0")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, blocked ApprovalRequired, "waits for ds-0 to be Ready"`},
				{do: approve("3.1.1->4.0.0"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, pending 4.0.0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1, pending 4.0.0`},
				{want: `Upgrade 3.1.1->4.0.0, pod ds-0, partition 0`},
			},
		},
		"AnotherThenTheFirst": {
			reason: "A change of mind: the target again.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: spec("3.1.2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, pending 3.1.2, "waits for ds-0 to be Ready"`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
			},
		},
		"AbortAlthoughPodsWereRejected": {
			reason: "Pods of the old version that were rejected before do not hold up the way back to that version.",
			steps: []step{
				{do: settings("no such node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: fail("ds-0", "CreateContainerConfigError"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: spec("3.1.0"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
			},
		},
		"AnotherAndTheOperationFails": {
			reason: "It goes back first; then what waited begins.",
			steps: []step{
				{do: all(spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: spec("3.1.2"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, pending 3.1.2, "waits for ds-0 to be Ready"`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, pending 3.1.2`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, pending 3.1.2, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, pending 3.1.2`},
				{want: `Upgrade 3.1.0->3.1.2, pod ds-0, partition 0`},
			},
		},
		"OtherSettings": {
			reason: "Other pod settings wait as well.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: settings("other resources"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, pending 3.1.1, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1, pending 3.1.1`},
				{want: `PodUpdate 3.1.1->3.1.1, pod ds-0, partition 0`},
			},
		},
	})
}

// R37: rollback-to.
func TestManualRollback(t *testing.T) {
	tell(t, upgraded, map[string]story{
		"Recorded": {
			reason:   "A version of the history, with its recorded image; the request is a pin while it stays, and taking it away does not upgrade again.",
			replicas: 2,
			steps: []step{
				{do: rollbackTo(" v3.1.0 "), want: `ManualRollback 3.1.1->3.1.0, pod ds-1, partition 1, blocked TargetRejected`},
				{want: `ManualRollback 3.1.1->3.1.0, pod ds-1, partition 1, blocked TargetRejected, "waits for ds-1 to be Ready"`},
				{do: up("ds-1"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(time.Hour), want: `runs 3.1.0, blocked TargetRejected`},
				{do: rollbackTo(""), want: `runs 3.1.0, blocked TargetRejected`},
				{do: spec("3.1.2"), want: `Upgrade 3.1.0->3.1.2, pod ds-1, partition 1`},
			},
		},
		"NewVersionSupersedes": {
			reason: "A new version is upgraded to although the request stays.",
			steps: []step{
				{do: rollbackTo("3.1.0"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: spec("3.1.2"), want: `Upgrade 3.1.0->3.1.2, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.2`},
				{do: after(time.Hour), want: `runs 3.1.2`},
			},
		},
		"SpecFollows": {
			reason: "The spec names what runs: nothing is blocked any more, and later nothing forbids the version that was left.",
			steps: []step{
				{do: rollbackTo("3.1.0"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: all(spec("3.1.0"), rollbackTo("")), want: `runs 3.1.0`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"Unrecorded": {
			reason: "A version that the service has not run: nothing is touched, and the service is held.",
			steps: []step{
				{do: rollbackTo("3.0.0"), want: `runs 3.1.1, blocked InvalidRollback`},
				{do: spec("3.1.2"), want: `runs 3.1.1, blocked InvalidRollback`},
				{do: rollbackTo(""), want: `Upgrade 3.1.1->3.1.2, pod ds-0, partition 0`},
			},
		},
		"UnrecordedDuring": {
			reason: "It does not stop what runs.",
			steps: []step{
				{do: spec("3.1.2"), want: `Upgrade 3.1.1->3.1.2, pod ds-0, partition 0`},
				{do: rollbackTo("3.0.0"), want: `Upgrade 3.1.1->3.1.2, pod ds-0, partition 0, blocked InvalidRollback, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.2, blocked InvalidRollback`},
			},
		},
		"There": {
			reason: "To what runs: a pin.",
			steps: []step{
				{do: all(spec("3.1.2"), rollbackTo("3.1.1")), want: `runs 3.1.1, blocked TargetRejected`},
				{want: `runs 3.1.1, blocked TargetRejected`},
				{do: rollbackTo(""), want: `runs 3.1.1, blocked TargetRejected`},
				{do: spec("3.1.3"), want: `Upgrade 3.1.1->3.1.3, pod ds-0, partition 0`},
			},
		},
		"Paused": {
			reason: "R40: paused holds it.",
			steps: []step{
				{do: all(paused(true), rollbackTo("3.1.0")), want: `runs 3.1.1, blocked Paused`},
				{do: paused(false), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
			},
		},
		"Unhealthy": {
			reason: "The same gates as any other change.",
			steps: []step{
				{do: all(fail("ds-0", "CrashLoopBackOff"), rollbackTo("3.1.0")), want: `runs 3.1.1, blocked ServiceUnhealthy`},
				{do: allowDegraded("3.1.1->3.1.0"), want: `ManualRollback 3.1.1->3.1.0, OnDelete, blocked TargetRejected`},
				{want: `ManualRollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"During": {
			reason: "To where the running operation came from: at once, and without a gate.",
			steps: []step{
				{do: all(approve("3.1.1->4.0.0"), spec("4.0.0")), want: `Upgrade 3.1.1->4.0.0, pod ds-0, partition 0`},
				{do: all(approve(""), rollbackTo("3.1.1")), want: `ManualRollback 4.0.0->3.1.1, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `ManualRollback 4.0.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1, blocked TargetRejected`},
				{do: rollbackTo(""), want: `runs 3.1.1, blocked TargetRejected`},
			},
		},
		"DuringToAnother": {
			reason: "To any other version after the operation, and through the gates from there.",
			steps: []step{
				{do: spec("3.2.0"), want: `Upgrade 3.1.1->3.2.0, pod ds-0, partition 0`},
				{do: rollbackTo("3.1.0"), want: `Upgrade 3.1.1->3.2.0, pod ds-0, partition 0, pending 3.1.0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.2.0, pending 3.1.0`},
				{want: `runs 3.2.0, blocked ApprovalRequired`},
				{do: approve("3.2.0->3.1.0"), want: `ManualRollback 3.2.0->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
			},
		},
		"DuringToTheTarget": {
			reason: "To where it goes: once it runs, the request is a pin.",
			steps: []step{
				{do: spec("3.1.2"), want: `Upgrade 3.1.1->3.1.2, pod ds-0, partition 0`},
				{do: rollbackTo("3.1.2"), want: `Upgrade 3.1.1->3.1.2, pod ds-0, partition 0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.2`},
				{want: `runs 3.1.2`},
				{do: spec("3.1.3"), want: `Upgrade 3.1.2->3.1.3, pod ds-0, partition 0`},
			},
		},
		"Fails": {
			reason: "It fails: back to what was good, and the request is not tried again.",
			steps: []step{
				{do: rollbackTo("3.1.0"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.0->3.1.1, pod ds-0, OnDelete`},
				{want: `Rollback 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{do: after(time.Hour), want: `runs 3.1.1`},
			},
		},
		"FailsAndIsKept": {
			reason: "R40: without automaticRollback it stays; the spec that it was to leave is no way back, another request is.",
			steps: []step{
				{do: all(policy(func(p *Policy) { p.KeepFailed = true }), rollbackTo("3.1.0")), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected, fails: pod ds-0: CrashLoopBackOff (container dirsrv), "waits for ds-0 to be Ready"`},
				{do: rollbackTo("3.1.1"), want: `ManualRollback 3.1.0->3.1.1, pod ds-0, OnDelete`},
				{want: `ManualRollback 3.1.0->3.1.1, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
			},
		},
		"TakenBackAtOnce": {
			reason: "The request is taken away while it runs: it goes on, and the version that was left stays rejected.",
			steps: []step{
				{do: rollbackTo("3.1.0"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: rollbackTo(""), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"Another": {
			reason: "Another request is another rollback: here to where the first came from, which the spec still names.",
			steps: []step{
				{do: rollbackTo("3.1.0"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: rollbackTo("3.1.1"), want: `ManualRollback 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{do: rollbackTo(""), want: `runs 3.1.1`},
			},
		},
		"AfterAMajorUpgrade": {
			reason: "The gating table: a major version down.",
			steps: []step{
				{do: all(approve("3.1.1->4.0.0"), spec("4.0.0")), want: `Upgrade 3.1.1->4.0.0, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 4.0.0`},
				{do: rollbackTo("3.1.1"), want: `runs 4.0.0, blocked ApprovalRequired`},
				{do: approve("4.0.0->3.1.1"), want: `ManualRollback 4.0.0->3.1.1, pod ds-0, partition 0, blocked TargetRejected`},
			},
		},
		"PinnedAlthoughPodsWereRejected": {
			reason: "Pods that were rejected before do not stand in for the version that is left.",
			steps: []step{
				{do: settings("no such node"), want: `PodUpdate 3.1.1->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CreateContainerConfigError"), want: `Rollback 3.1.1->3.1.1, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.1, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.1, blocked TargetRejected`},
				{do: rollbackTo("3.1.0"), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked TargetRejected`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(time.Hour), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
		"RefusedTarget": {
			reason: "The spec names an image that the catalog no longer knows: the pin holds when it does again.",
			steps: []step{
				{do: all(observed(func(in *Inputs) { in.Refusal = &Refusal{Reason: ReasonImageVersionMismatch} }), rollbackTo("3.1.0")), want: `ManualRollback 3.1.1->3.1.0, pod ds-0, partition 0, blocked ImageVersionMismatch`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked ImageVersionMismatch`},
				{do: observed(func(in *Inputs) { in.Refusal = nil }), want: `runs 3.1.0, blocked TargetRejected`},
			},
		},
	})
}

// R37: a version that failed was never run: no rollback leads there.
func TestManualRollbackToWhatFailed(t *testing.T) {
	tell(t, running, map[string]story{
		"RolledBack": {
			reason: "It is recorded as what was left.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: rollbackTo("3.1.1"), want: `runs 3.1.0, blocked InvalidRollback`},
			},
		},
		"StatefulSetDeleted": {
			reason: "Also where the StatefulSet was deleted while it went back.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{do: observed(func(in *Inputs) { in.Rollout, in.Pods = Rollout{}, nil }), want: `runs 3.1.0, blocked TargetRejected`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: rollbackTo("3.1.1"), want: `runs 3.1.0, blocked InvalidRollback`},
			},
		},
		"Left": {
			reason: "Also where the rollback was left for another version.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: all(fail("ds-0", "CrashLoopBackOff"), spec("3.1.2"), allowDegraded("3.1.0->3.1.2")), want: `Upgrade 3.1.0->3.1.2, OnDelete`},
				{want: `Upgrade 3.1.0->3.1.2, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.2`},
				{do: rollbackTo("3.1.1"), want: `runs 3.1.2, blocked InvalidRollback`},
			},
		},
	})
}

// R44: other pods of the same release.
func TestPodUpdates(t *testing.T) {
	apply := func(c *cluster) { c.in.Requests.ApplyPodUpdate = " " + c.template("dirsrv:3.1.0") + " " }
	tell(t, running, map[string]story{
		"Asked": {
			reason:   "Settings of the spec that a pod must be restarted for.",
			replicas: 2,
			steps: []step{
				{do: settings("other resources"), want: `PodUpdate 3.1.0->3.1.0, pod ds-1, partition 1`},
				{do: up("ds-1"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"AskedOfASickService": {
			reason:   "They may be what mends it: no server need be Ready, and one that is down comes first.",
			replicas: 2,
			steps: []step{
				{do: all(fail("ds-0", "CrashLoopBackOff"), settings("more memory")), want: `PodUpdate 3.1.0->3.1.0, OnDelete`},
				{want: `PodUpdate 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `PodUpdate 3.1.0->3.1.0, pod ds-1, partition 1, "waits for ds-1 to be replaced"`},
				{do: up("ds-1"), want: `runs 3.1.0`},
			},
		},
		"AskedAndPaused": {
			reason: "R40: paused holds them.",
			steps: []step{
				{do: all(paused(true), settings("other resources")), want: `runs 3.1.0, blocked Paused`},
				{do: paused(false), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"AskedAndFailing": {
			reason: "They go back, and are not tried again until the spec asks for others.",
			steps: []step{
				{do: settings("no such node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: after(DefaultProgressDeadline), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(time.Hour), want: `runs 3.1.0, blocked TargetRejected`},
				{do: settings("another node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"AskedAndTurnedBack": {
			reason: "R38: the settings as they were are an abort; R36: and after a failure they have what was rejected forgotten.",
			steps: []step{
				{do: settings("no such node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: settings("settings"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0`},
				{do: settings("no such node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"AskedFailedAndTurnedBack": {
			reason: "R36: the settings as they were have what was rejected forgotten.",
			steps: []step{
				{do: settings("no such node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: fail("ds-0", "CreateContainerConfigError"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: settings("settings"), want: `runs 3.1.0`},
				{do: settings("no such node"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"AskedTwice": {
			reason: "Other settings during an operation wait.",
			steps: []step{
				{do: settings("more memory"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: settings("even more memory"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0, pending 3.1.0, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, pending 3.1.0`},
				{want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"Offered": {
			reason:   "A newer function, or other defaults of the platform, restart nothing by themselves.",
			replicas: 2,
			steps: []step{
				{do: function("a newer function"), want: `runs 3.1.0, pod update offered`},
				{do: after(24 * time.Hour), want: `runs 3.1.0, pod update offered`},
				{do: function("function"), want: `runs 3.1.0`},
			},
		},
		"Applied": {
			reason: "The annotation with exactly that hash applies them, one pod at a time.",
			steps: []step{
				{do: function("a newer function"), want: `runs 3.1.0, pod update offered`},
				{do: ask(func(r *Requests) { r.ApplyPodUpdate = "another hash" }), want: `runs 3.1.0, pod update offered`},
				{do: apply, want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"AppliedToASickService": {
			reason: "R29: gated like any upgrade.",
			steps: []step{
				{do: all(function("a newer function"), fail("ds-0", "CrashLoopBackOff"), apply), want: `runs 3.1.0, blocked ServiceUnhealthy, pod update offered`},
				{do: allowDegraded("3.1.0->3.1.0"), want: `PodUpdate 3.1.0->3.1.0, OnDelete`},
			},
		},
		"AppliedAndFailing": {
			reason: "Rolled back like any upgrade, and not tried again; the next function's may be.",
			steps: []step{
				{do: all(function("a newer function"), apply), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(time.Hour), want: `runs 3.1.0, blocked TargetRejected, pod update offered`},
				{do: function("an even newer function"), want: `runs 3.1.0, pod update offered`},
			},
		},
		"AppliedFailedAndAgain": {
			reason: "R36: the request taken away, and set anew, tries it again.",
			steps: []step{
				{do: all(function("a newer function"), apply), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: ask(func(r *Requests) { r.ApplyPodUpdate = "" }), want: `runs 3.1.0, pod update offered`},
				{do: apply, want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"AutomaticAndFailing": {
			reason: "R36: by itself it is tried once.",
			steps: []step{
				{do: all(policy(func(p *Policy) { p.AutomaticPodUpdates = true }), function("a newer function")), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: after(24 * time.Hour), want: `runs 3.1.0, blocked TargetRejected, pod update offered`},
				{do: policy(func(p *Policy) { p.AutomaticPodUpdates = false }), want: `runs 3.1.0, pod update offered`},
				{do: policy(func(p *Policy) { p.AutomaticPodUpdates = true }), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"AutomaticWithTheNextFunction": {
			reason: "R36: what the next function makes is another thing.",
			steps: []step{
				{do: all(policy(func(p *Policy) { p.AutomaticPodUpdates = true }), function("a newer function")), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: fail("ds-0", "CrashLoopBackOff"), want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.0->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: up("ds-0"), want: `runs 3.1.0, blocked TargetRejected`},
				{do: function("an even newer function"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"LedgerWithoutTemplate": {
			reason: "A ledger of a function that did not name templates: what runs is what is good.",
			steps: []step{
				{do: all(function("a newer function"), func(c *cluster) { c.in.Ledger.Good.Template = "" }), want: `runs 3.1.0, pod update offered`},
			},
		},
		"Automatic": {
			reason: "spec.upgrade.podUpdates: Automatic.",
			steps: []step{
				{do: all(policy(func(p *Policy) { p.AutomaticPodUpdates = true }), function("a newer function")), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"AutomaticAndPaused": {
			reason: "R40: paused holds that too.",
			steps: []step{
				{do: all(policy(func(p *Policy) { p.AutomaticPodUpdates, p.Paused = true, true }), function("a newer function")), want: `runs 3.1.0, blocked Paused, pod update offered`},
			},
		},
		"WithTheNextRollout": {
			reason: "What waits goes along with the next rollout.",
			steps: []step{
				{do: function("a newer function"), want: `runs 3.1.0, pod update offered`},
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{want: `runs 3.1.1`},
			},
		},
		"WithTheNextSettings": {
			reason: "Also with a change of the pods alone.",
			steps: []step{
				{do: function("a newer function"), want: `runs 3.1.0, pod update offered`},
				{do: settings("other resources"), want: `PodUpdate 3.1.0->3.1.0, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
				{want: `runs 3.1.0`},
			},
		},
		"AnotherFunctionDuring": {
			reason:   "A function that is updated in the middle of an operation goes on with the template that it began with.",
			replicas: 2,
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-1, partition 1`},
				{do: all(function("a newer function"), up("ds-1")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0, "waits for ds-0 to be replaced"`},
				{do: up("ds-0"), want: `runs 3.1.1`},
				{want: `runs 3.1.1, pod update offered`},
			},
		},
		"AnotherFunctionThenBack": {
			reason: "And goes back to the good one byte for byte.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: all(function("a newer function"), fail("ds-0", "CrashLoopBackOff")), want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, blocked TargetRejected`},
				{want: `Rollback 3.1.1->3.1.0, pod ds-0, OnDelete, deletes ds-0, blocked TargetRejected, "waits for ds-0 to be Ready"`},
				{do: all(spec("3.1.0"), up("ds-0")), want: `runs 3.1.0`},
			},
		},
		"TemplateLost": {
			reason: "Where the carried template is lost, the one that this function makes is all there is.",
			steps: []step{
				{do: all(function("a newer function"), func(c *cluster) { c.stored, c.in.Rollout.Running.Template = nil, "" }), want: `runs 3.1.0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"SameTemplate": {
			reason: "The spec says by itself what was a default: the pods stay as they are.",
			steps: []step{
				{do: func(c *cluster) {
					template := c.template
					c.in.Template = func(r Release) string {
						_, rendering, _ := strings.Cut(template(r.Image), "-")
						return "0123456789ab-" + rendering
					}
				}, want: `runs 3.1.0`},
			},
		},
	})
}

// R39, R4: what was never healthy, and what nobody knows the version of.
func TestFirstInstall(t *testing.T) {
	foreign := func(in *Inputs) {
		in.Rollout = Rollout{Exists: true, Current: true, Wanted: 1, Pods: 1, Ready: 1, Updated: 1}
	}
	tell(t, installing, map[string]story{
		"New": {
			reason:   "A new service runs what the spec says, and it is good once a server was Ready.",
			replicas: 2,
			steps: []step{
				{want: `runs 3.1.0`},
				{want: `runs 3.1.0`},
				{do: up("ds-1"), want: `runs 3.1.0`},
			},
		},
		"Refused": {
			reason: "R25: a mismatch is refused before the StatefulSet is created.",
			steps: []step{
				{do: mismatched("3.1.1", "3.1.0"), want: `runs nothing, blocked ImageVersionMismatch`},
				{do: spec("3.1.1"), want: `runs 3.1.1`},
			},
		},
		"RefusedAfterwards": {
			reason: "R25: and before it is changed.",
			steps: []step{
				{want: `runs 3.1.0`},
				{do: mismatched("3.1.1", "3.1.0"), want: `runs 3.1.0, blocked ImageVersionMismatch`},
			},
		},
		"Corrected": {
			reason:   "R39: a bad image is left for any other without approval, a major version down included; its pods are in the way.",
			replicas: 2,
			steps: []step{
				{do: spec("4.0.0"), want: `runs 4.0.0`},
				{do: all(fail("ds-0", "ImagePullBackOff"), fail("ds-1", "ImagePullBackOff"), spec("3.1.0")), want: `runs 3.1.0`},
				{want: `runs 3.1.0, deletes ds-0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
			},
		},
		"CorrectedTooLate": {
			reason: "R39: once it was healthy, every gate is there.",
			steps: []step{
				{do: spec("4.0.0"), want: `runs 4.0.0`},
				{do: all(up("ds-0"), spec("3.1.0")), want: `runs 4.0.0, blocked ApprovalRequired`},
				{do: approve("4.0.0->3.1.0"), want: `Upgrade 4.0.0->3.1.0, pod ds-0, partition 0`},
			},
		},
		"BecomingHealthy": {
			reason:   "A server that is Ready this very moment is judged before it is left.",
			replicas: 2,
			steps: []step{
				{want: `runs 3.1.0`},
				{do: all(up("ds-1"), spec("3.2.0"), observed(func(in *Inputs) { in.Rollout.Current = false })), want: `runs 3.1.0, "waits for the StatefulSet controller to report on the servers"`},
				{want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.2.0, pod ds-1, partition 1`},
			},
		},
		"StuckHalfway": {
			reason:   "R39: what fails halfway may be left for any other, although a server of the image before it has become Ready since.",
			replicas: 2,
			steps: []step{
				{want: `runs 3.1.0`},
				{do: spec("4.0.0"), want: `runs 4.0.0`},
				{do: all(up("ds-0"), spec("3.1.2")), want: `runs 4.0.0, "waits for the StatefulSet controller to report on the servers"`},
				{do: fail("ds-1", "CrashLoopBackOff"), want: `runs 3.1.2`},
			},
		},
		"OldPodsReady": {
			reason:   "R31: a Ready pod of another template proves nothing.",
			replicas: 2,
			steps: []step{
				{want: `runs 3.1.0`},
				{do: all(up("ds-1"), observed(func(in *Inputs) { in.Rollout.Updated = 1 })), want: `runs 3.1.0`},
			},
		},
		"OtherSettings": {
			reason: "Pod settings that are corrected before anything was healthy.",
			steps: []step{
				{want: `runs 3.1.0`},
				{do: all(fail("ds-0", "CreateContainerConfigError"), settings("others")), want: `runs 3.1.0`},
				{want: `runs 3.1.0`},
			},
		},
		"NewerFunction": {
			reason: "R44: a newer function restarts no server, not even one that has not started yet.",
			steps: []step{
				{want: `runs 3.1.0`},
				{do: function("a newer function"), want: `runs 3.1.0`},
				{do: up("ds-0"), want: `runs 3.1.0, pod update offered`},
			},
		},
		"Foreign": {
			reason: "A StatefulSet without the server's container runs no release, and proves none.",
			steps: []step{
				{do: observed(foreign), want: `runs 3.1.0`},
			},
		},
		"ForeignAndRefused": {
			reason: "Nor does it run anything that could be kept.",
			steps: []step{
				{do: all(mismatched("3.1.1", "3.1.0"), observed(foreign)), want: `runs nothing, blocked ImageVersionMismatch`},
			},
		},
		"Unversioned": {
			reason: "R4: where nobody knows the version nothing is gated.",
			steps: []step{
				{do: specOf(Release{Image: "dirsrv:stable"}), want: `runs dirsrv:stable`},
				{do: up("ds-0"), want: `runs dirsrv:stable`},
				{do: specOf(Release{Image: "dirsrv:testing"}), want: `Upgrade dirsrv:stable->dirsrv:testing, pod ds-0, partition 0`},
				{do: up("ds-0"), want: `runs dirsrv:testing`},
				{do: spec("1.0.0"), want: `Upgrade dirsrv:testing->1.0.0, pod ds-0, partition 0`},
			},
		},
		"VersionLearnt": {
			reason: "A version that becomes known for the image that runs is recorded, and restarts nothing.",
			steps: []step{
				{do: specOf(Release{Image: "dirsrv:stable"}), want: `runs dirsrv:stable`},
				{do: up("ds-0"), want: `runs dirsrv:stable`},
				{do: specOf(Release{Version: "3.1.0", Image: "dirsrv:stable"}), want: `runs 3.1.0`},
				{do: specOf(Release{Image: "dirsrv:stable"}), want: `runs 3.1.0`},
			},
		},
		"CatalogForgets": {
			reason: "R25: an image that runs is not refused to itself, whatever the catalog says by now.",
			steps: []step{
				{do: specOf(Release{Version: "3.1.0", Image: "dirsrv@sha256:aa"}), want: `runs 3.1.0`},
				{do: up("ds-0"), want: `runs 3.1.0`},
				{do: observed(func(in *Inputs) { in.Refusal = &Refusal{Reason: ReasonImageVersionMismatch} }), want: `runs 3.1.0`},
			},
		},
	})
}

// What exists is gone, or was changed by hand.
func TestLost(t *testing.T) {
	gone := func(c *cluster) { c.in.Rollout, c.in.Pods, c.stored = Rollout{}, nil, nil }
	forgotten := func(c *cluster) { c.in.Ledger = Ledger{} }
	tell(t, running, map[string]story{
		"StatefulSetGone": {
			reason: "R28: it comes back with the good release, also while the spec asks for another; that begins once it is there and healthy.",
			steps: []step{
				{do: all(spec("3.1.1"), gone), want: `runs 3.1.0, pending 3.1.1, "waits for the StatefulSet to be created"`},
				{want: `runs 3.1.0, blocked ServiceUnhealthy`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"StatefulSetGoneAndBlocked": {
			reason: "R28: the same with a target that is gated, and with one that is refused.",
			steps: []step{
				{do: all(spec("4.0.0"), gone), want: `runs 3.1.0, blocked ApprovalRequired`},
				{do: all(mismatched("3.1.1", "3.1.0"), gone), want: `runs 3.1.0, blocked ImageVersionMismatch`},
			},
		},
		"StatefulSetAndLedgerGone": {
			reason: "R25: nothing is known any more: what the spec says.",
			steps: []step{
				{do: all(spec("3.1.1"), gone, forgotten), want: `runs 3.1.1`},
			},
		},
		"StatefulSetGoneDuring": {
			reason: "The operation ends with it.",
			steps: []step{
				{do: spec("3.1.1"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
				{do: gone, want: `runs 3.1.0, pending 3.1.1, "waits for the StatefulSet to be created"`},
				{do: up("ds-0"), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"LedgerLost": {
			reason: "What is healthy is good.",
			steps: []step{
				{do: forgotten, want: `runs 3.1.0`},
				{do: all(forgotten, spec("3.1.1")), want: `Upgrade 3.1.0->3.1.1, pod ds-0, partition 0`},
			},
		},
		"ChangedByHand": {
			reason: "An image that was put into the StatefulSet by hand has passed no gate: the good one comes back.",
			steps: []step{
				{do: observed(func(in *Inputs) { in.Rollout.Running.Image = "dirsrv:9.9.9" }), want: `runs 3.1.0`},
			},
		},
		"ChangedByHandOneDown": {
			reason:   "Nothing is deleted on the word of a template that is being put right: the pods of the good one are not outdated.",
			replicas: 2,
			steps: []step{
				{do: all(down("ds-0"), observed(func(in *Inputs) {
					in.Rollout.Running.Image, in.Rollout.UpdateRevision = "dirsrv:9.9.9", "revision of another hand"
				})), want: `runs 3.1.0`},
			},
		},
		"OutdatedAndDown": {
			reason:   "A pod that does not belong there, and does not become Ready by itself, is in the way of the controller.",
			replicas: 2,
			steps: []step{
				{do: all(down("ds-0"), observed(func(in *Inputs) { in.Pods[1].Revision = "an older revision" })), want: `runs 3.1.0`},
				{do: all(after(DefaultProgressDeadline), observed(func(in *Inputs) { in.Pods[1].Revision = "an older revision" })), want: `runs 3.1.0, deletes ds-0`},
			},
		},
		"OutdatedAndDownNotKnown": {
			reason:   "Holding: nothing is deleted before it is known what there is.",
			replicas: 2,
			steps: []step{
				{do: all(fail("ds-0", "CrashLoopBackOff"), observed(func(in *Inputs) { in.Pods[1].Revision, in.Arrived = "an older revision", false })), want: `runs 3.1.0`},
				{do: observed(func(in *Inputs) { in.Arrived, in.Rollout.Current = true, false }), want: `runs 3.1.0`},
			},
		},
	})
}
