package status

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// reportUpgrade adds what the ledger does not hold: what is waited for, and what
// would be done.
func reportUpgrade(st *v1alpha1.DirectoryServiceStatus, in Inputs) {
	d := in.Decision
	switch {
	case d.Failure != nil:
		upgradeStatus(st).Message = d.Failure.String()
	case d.Ledger.Operation != nil && d.Waiting != "":
		upgradeStatus(st).Message = d.Waiting
	}
	if d.Pending != nil {
		u := upgradeStatus(st)
		u.Pending = &v1alpha1.ReleaseStatus{Version: d.Pending.Version, Image: d.Pending.Image}
		if d.Ledger.Operation == nil {
			u.Message = d.Waiting
		}
	}
	if p := d.Plan; p != nil {
		upgradeStatus(st).Plan = &v1alpha1.PlanStatus{
			Transition: upgrade.TransitionOf(p.From, p.To),
			Class:      string(p.Class),
			Steps:      p.Steps,
			Downtime:   downtime(in) != "",
		}
		for _, n := range p.Needs {
			upgradeStatus(st).Plan.Needs = append(upgradeStatus(st).Plan.Needs, naming.Annotation(n))
		}
	}
	if d.PodUpdate != "" {
		upgradeStatus(st).PendingPodUpdate = &v1alpha1.PodUpdateStatus{Hash: d.PodUpdate, Summary: in.PodUpdateSummary}
	}
}

// downtime says why clients lose the service while pods are replaced; "" where they
// do not.
func downtime(in Inputs) string {
	switch {
	case *in.Spec.Replicas == 1:
		return "Not ZeroDowntime: there is one server, and clients cannot reach it while it restarts"
	case in.FirstServerOnly:
		return fmt.Sprintf("Not ZeroDowntime: clients reach %s alone, and not while it restarts", in.Identity.Pod(0))
	}
	return ""
}

// upgradeBlocked: the message has the command that unblocks.
func upgradeBlocked(in Inputs) Condition {
	b := in.Decision.Blocked
	if b == nil && len(in.Problems) > 0 {
		return Condition{Type: TypeUpgradeBlocked, Status: metav1.ConditionUnknown, Reason: "SpecInvalid", Message: "See the condition SpecValid"}
	}
	if b == nil {
		c := Condition{Type: TypeUpgradeBlocked, Status: metav1.ConditionFalse, Reason: upgrade.ReasonNotBlocked}
		if in.Decision.Target.Image != "" && in.Decision.Target.Version == "" {
			c.Reason = upgrade.ReasonUnversioned
			c.Message = "Neither spec.version nor the tag of spec.image tells the version: set spec.version, or changes of the image cannot be gated"
		}
		return c
	}
	c := Condition{Type: TypeUpgradeBlocked, Status: metav1.ConditionTrue, Reason: b.Reason, Message: b.Message, Bad: true, Blocks: true}
	if b.Reason == upgrade.ReasonInvalidRollback {
		c.event = upgrade.ReasonInvalidRollback
	}
	// While an operation runs that is where it leads: the spec must not take it back.
	runs := in.Decision.Ledger.Good
	if o := in.Decision.Ledger.Operation; o != nil {
		runs = &o.To
	}
	switch {
	case b.Reason == upgrade.ReasonPaused:
		c.Message += ". Go on: " + in.patch(`"upgrade":{"paused":false}`)
	case len(b.Annotate) > 0:
		c.Message += ". Allow it: " + in.annotate(b.Annotate)
	}
	if b.Request != "" {
		c.Message += fmt.Sprintf(". Take the request back: kubectl -n %s annotate dirsrv %s %s-", in.Identity.Namespace, in.Identity.Name, naming.Annotation(b.Request))
	}
	switch {
	case b.Reason == upgrade.ReasonPaused, b.Request != "", b.Reason == upgrade.ReasonTargetRejected && !b.Restart:
	case runs != nil && runs.Image == in.Decision.Target.Image && runs.Version == in.Decision.Target.Version:
	case runs != nil:
		c.Message += ". Back to what runs: " + in.patchRelease(*runs)
	default:
		c.Message += ": " + in.edit()
	}
	return c
}

func (in Inputs) annotate(annotations []upgrade.Annotation) string {
	words := make([]string, len(annotations))
	for i, a := range annotations {
		words[i] = shellQuote(naming.Annotation(a.Name) + "=" + a.Value)
	}
	return fmt.Sprintf("kubectl -n %s annotate dirsrv %s %s --overwrite", in.Identity.Namespace, in.Identity.Name, strings.Join(words, " "))
}

// patchRelease is the command that has the spec name a release.
func (in Inputs) patchRelease(r upgrade.Release) string {
	spec := fmt.Sprintf(`"image":%q`, r.Image)
	if r.Version != "" {
		spec += fmt.Sprintf(`,"version":%q`, r.Version)
	} else {
		spec += `,"version":null`
	}
	return in.patch(spec)
}

// upgradeInProgress: what is replaced, and what that waits for.
func upgradeInProgress(in Inputs) Condition {
	d := in.Decision
	o := d.Ledger.Operation
	c := Condition{Type: TypeUpgradeInProgress, Status: metav1.ConditionFalse, Reason: "Idle"}
	if o == nil {
		if len(d.Condemned) > 0 {
			c.Message = in.stuck()
		}
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, string(o.Kind)
	parts := []string{what(o)}
	if o.Pod != "" && !replaced(in, o) {
		parts = append(parts, "replacing "+o.Pod)
	}
	if d.Waiting != "" {
		parts = append(parts, d.Waiting)
	}
	if dt := downtime(in); dt != "" {
		parts = append(parts, dt)
	}
	if len(d.Condemned) > 0 {
		parts = append(parts, in.stuck())
	}
	c.Message = strings.Join(parts, "; ")
	return c
}

// stuck pods are deleted by a Job; where that cannot be, a person has to.
func (in Inputs) stuck() string {
	names := make([]string, len(in.Decision.Condemned))
	for i, c := range in.Decision.Condemned {
		names[i] = c.Pod
	}
	command := fmt.Sprintf("kubectl -n %s delete pod %s", in.Identity.Namespace, strings.Join(names, " "))
	if in.NoAgentImage {
		return "delete by hand what is in the way and not Ready, since the function does not know its own image (agentImage in its input): " + command
	}
	return "a Job deletes what is in the way and not Ready; by hand: " + command
}

// what an operation does, in words.
func what(o *upgrade.Operation) string {
	switch o.Kind {
	case upgrade.OperationUpgrade:
		return "Upgrade " + upgrade.TransitionOf(o.From, o.To)
	case upgrade.OperationPodUpdate:
		return "Update of the pods of " + o.To.String()
	case upgrade.OperationRollback, upgrade.OperationManualRollback:
		s := "Rollback " + upgrade.TransitionOf(o.From, o.To)
		if o.From.Image == o.To.Image {
			s = "Rollback of the pods of " + o.To.String()
		}
		return s
	}
	return string(o.Kind)
}

// upgradeSucceeded is about the last operation that ended, or fails.
func upgradeSucceeded(in Inputs) Condition {
	d := in.Decision
	c := Condition{Type: TypeUpgradeSucceeded, Status: metav1.ConditionUnknown, Reason: "NoUpgrade", Message: "Nothing was upgraded yet"}
	o := d.Ledger.Operation
	switch {
	case d.Failure != nil && d.Failure.Outdated && o != nil:
		c.Status, c.Reason, c.Bad = metav1.ConditionFalse, d.Failure.Reason, true
		c.Message = fmt.Sprintf("%s waits: %s. %s", what(o), d.Failure, in.heldUp(o))
	case d.Failure != nil && o != nil && in.returning(o):
		c.Status, c.Reason, c.Bad = metav1.ConditionFalse, upgrade.ReasonRollbackFailed, true
		c.Message = fmt.Sprintf("%s fails: %s. Nothing else is replaced meanwhile, and it goes on by itself once that pod is Ready. See: kubectl -n %s describe pod %s; kubectl -n %s logs %s --all-containers --previous. To leave it for another version name that in the spec: %s",
			what(o), d.Failure, in.Identity.Namespace, d.Failure.Pod, in.Identity.Namespace, d.Failure.Pod, in.edit())
	case d.Failure != nil && o != nil:
		c.Status, c.Reason, c.Bad = metav1.ConditionFalse, d.Failure.Reason, true
		c.Message = fmt.Sprintf("%s fails: %s. spec.upgrade.automaticRollback is false, so it stays as it is. See: kubectl -n %s describe pod %s. Go back: %s",
			what(o), d.Failure, in.Identity.Namespace, d.Failure.Pod, in.back(o))
		if d.Pending != nil {
			c.Message += fmt.Sprintf(". What the spec names now, %s, waits until then", d.Pending)
		}
	case o != nil && in.returning(o):
		c.Status, c.Reason = metav1.ConditionFalse, o.Reason
		c.Message = what(o)
		if o.Message != "" {
			c.Message += ", because " + o.Message
		}
	case o != nil:
		c.Reason, c.Message = "InProgress", what(o)
	case len(d.Ledger.History) > 0:
		h := d.Ledger.History[0]
		pair := upgrade.TransitionOf(h.From, h.To)
		if h.From.Image == h.To.Image {
			pair = "The update of the pods of " + h.To.String()
		}
		if h.Result == upgrade.ResultSucceeded {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(h.Result), pair
			if h.Reason != "" {
				c.Reason = h.Reason
			}
			return c
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, h.Reason, pair+" was taken back"
		switch h.Result {
		case upgrade.ResultFailed:
			c.Message = pair + " failed, and so did going back"
		case upgrade.ResultSuperseded:
			c.Message = pair + " was ended by something else"
		case upgrade.ResultSucceeded, upgrade.ResultRolledBack:
		}
		if h.Message != "" {
			c.Message += ": " + h.Message
		}
	}
	return c
}

// returning says that an operation goes back to what is known to be good.
func (in Inputs) returning(o *upgrade.Operation) bool { return o.Returns(in.Decision.Ledger.Good) }

// heldUp says what to do about a pod that keeps an operation from going on.
func (in Inputs) heldUp(o *upgrade.Operation) string {
	ns, pod := in.Identity.Namespace, in.Decision.Failure.Pod
	remedy := fmt.Sprintf("It was not replaced yet. See: kubectl -n %s describe pod %s", ns, pod)
	switch in.Decision.Failure.Reason {
	case upgrade.ReasonStillTerminating:
		remedy = fmt.Sprintf("If its node is gone, delete it: kubectl -n %s delete pod %s --force --grace-period=0", ns, pod)
	case upgrade.ReasonPodMissing:
		remedy = fmt.Sprintf("See why it is not created: kubectl -n %s describe statefulset %s", ns, in.Identity.StatefulSet())
	default:
		if !in.returning(o) && !o.Degraded {
			remedy += ". To have it replaced first: " + in.annotate([]upgrade.Annotation{{Name: upgrade.AllowDegraded, Value: upgrade.TransitionOf(o.From, o.To)}})
		}
	}
	if in.returning(o) {
		return remedy
	}
	return remedy + ". Back to what ran before: " + in.back(o)
}

// back is the command that takes an operation back.
func (in Inputs) back(o *upgrade.Operation) string {
	switch {
	case o.Kind == upgrade.OperationUpgrade:
		return in.patchRelease(o.From)
	case o.Kind == upgrade.OperationManualRollback && o.From.Version != "":
		return in.annotate([]upgrade.Annotation{{Name: upgrade.RollbackTo, Value: o.From.Version}})
	}
	return in.edit()
}

// transitions are events on what the new ledger says and the observed one does not
// (R34).
func transitions(in Inputs) []Event {
	before, now := in.Ledger, in.Decision.Ledger
	old, o := before.Operation, now.Operation
	var out []Event
	normal := func(reason, message string) { out = append(out, Event{Reason: reason, Message: message}) }
	warn := func(reason, message string) {
		out = append(out, Event{Warning: true, Reason: reason, Message: message})
	}

	if old != nil && (o == nil || o.ID != old.ID || o.Pod != old.Pod) && old.Pod != "" && replaced(in, old) {
		normal("PodUpgraded", fmt.Sprintf("%s: %s was replaced", what(old), old.Pod))
	}
	if old != nil && (o == nil || o.ID != old.ID) {
		e := upgrade.HistoryEntry{}
		if len(now.History) > 0 {
			e = now.History[0]
		}
		ended := len(now.History) > 0 && e.CompletedAt.Compare(old.StartedAt) >= 0 && e.StartedAt.Equal(old.StartedAt)
		switch {
		case ended && e.Result == upgrade.ResultSucceeded && old.Kind != upgrade.OperationManualRollback:
			normal("UpgradeCompleted", what(old)+" is complete")
		case ended && (e.Result == upgrade.ResultSucceeded || e.Result == upgrade.ResultRolledBack):
			normal("RollbackCompleted", what(old)+" is complete")
		case ended:
			warn("UpgradeFailed", fmt.Sprintf("%s ended: %s", what(old), e.Reason))
		}
	}
	if u := in.Previous.Upgrade; o != nil && (old == nil || o.ID != old.ID) && (u == nil || u.ID != o.ID) {
		message := what(o)
		if dt := downtime(in); dt != "" {
			message += ". " + dt
		}
		switch o.Kind {
		case upgrade.OperationUpgrade, upgrade.OperationPodUpdate:
			normal("UpgradeStarted", message)
		case upgrade.OperationRollback, upgrade.OperationManualRollback:
			if old != nil && o.Reason != upgrade.ReasonAborted && o.Kind == upgrade.OperationRollback {
				warn("UpgradeFailed", fmt.Sprintf("%s failed: %s", what(old), o.Message))
			}
			normal("RollbackStarted", message)
		}
	}
	return out
}

// replaced says that the pod of an operation's turn was replaced, and works.
func replaced(in Inputs, o *upgrade.Operation) bool {
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.GetName() == o.Pod {
			return podReady(p) && in.Rollout.UpdateRevision != "" && p.GetLabels()[appsv1.StatefulSetRevisionLabel] == in.Rollout.UpdateRevision
		}
	}
	return false
}
