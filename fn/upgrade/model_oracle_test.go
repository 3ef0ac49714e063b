package upgrade_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// The invariants of one decision. Each is written from the requirements and from what
// the call saw, and shares no code with the package.

const (
	maxLedger  = 12 << 10
	maxHistory = 10
)

func (w *world) check(v *view, in upgrade.Inputs, d upgrade.Decision) {
	k := checker{w: w, v: v, in: in, d: d, before: in.Ledger, after: d.Ledger}
	v.lost = k.lost()
	k.good()
	k.image()
	k.abort()
	k.failing()
	k.exposure()
	k.holding()
	k.once()
	k.template()
	k.condemned()
	k.history()
	w.count(&k)
}

// twice: a call leaves its inputs as they were, and what it writes can be read.
func (w *world) twice(in upgrade.Inputs) *upgrade.Decision {
	was, err := in.Ledger.String()
	if err != nil {
		w.fail("ledger", "cannot be written: %v", err)
	}
	pods := slices.Clone(in.Pods)
	d := upgrade.Next(in)
	if is, err := in.Ledger.String(); err != nil || is != was {
		w.fail("determinism", "the inputs' ledger changed from %s to %s", was, is)
	}
	if !reflect.DeepEqual(pods, in.Pods) {
		w.fail("determinism", "the inputs' pods changed")
	}
	s, err := d.Ledger.String()
	if err != nil {
		w.fail("ledger", "cannot be written: %v", err)
	}
	l, err := upgrade.ParseLedger(s)
	if err != nil {
		w.fail("ledger", "cannot be read: %v", err)
	}
	if !reflect.DeepEqual(l, d.Ledger) {
		w.fail("ledger", "%s is not what was written: %+v, %+v", s, l, d.Ledger)
	}
	if len(s) > maxLedger {
		w.fail("ledger", "has %d bytes: %s", len(s), s)
	}
	return &d
}

type checker struct {
	w             *world
	v             *view
	in            upgrade.Inputs
	d             upgrade.Decision
	before, after upgrade.Ledger
}

func (k *checker) fail(name, format string, args ...any) {
	if k.w.failure != nil {
		return
	}
	before, _ := k.before.String()
	after, _ := k.after.String()
	k.w.fail(name, "%s\n  before %s\n  after  %s\n  run %v partition %d onDelete %t blocked %v failure %v waiting %q\n  saw %v\n  rollout %+v\n  pods %s",
		fmt.Sprintf(format, args...), before, after, k.d.Run, k.d.Partition, k.d.OnDelete, k.d.Blocked, k.d.Failure, k.d.Waiting, *k.v.xr, k.in.Rollout, describe(k.in.Pods))
}

func describe(pods []upgrade.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		fmt.Fprintf(&b, "%s(%s ready=%t terminating=%t %s) ", p.Name, p.Revision, p.Ready, p.Terminating, p.Waiting)
	}
	return b.String()
}

// begun says whether this call began an operation.
func (k *checker) begun() bool {
	a, b := k.before.Operation, k.after.Operation
	return b != nil && (a == nil || a.ID != b.ID)
}

func (k *checker) kept() bool { return k.after.Operation != nil && !k.begun() }

// good changes to what ran through alone.
func (k *checker) good() {
	was, is := k.before.Good, k.after.Good
	r := k.in.Rollout
	switch {
	case was == nil && is == nil:
		return
	case was == nil:
		if !r.Exists || !r.Current || r.Ready == 0 || r.Updated != r.Pods || r.Running.Image != is.Image {
			k.fail("good", "%v was never seen healthy", is)
		}
	case is == nil:
		k.fail("good", "%v is forgotten", was)
	case samePair(*was, *is):
		if k.ended() {
			k.healthy()
		}
	case was.Image == is.Image:
		if k.in.Held || k.in.Refusal != nil || is.Version != k.in.Target.Version {
			k.fail("good", "the version of %v changes to %v", was, is)
		}
	case k.before.Operation == nil || !samePair(k.before.Operation.To, *is):
		k.fail("good", "%v becomes %v, which no operation went to", was, is)
	default:
		k.healthy()
	}
}

// ended says that the operation of before is not continued, taken back or left.
func (k *checker) ended() bool {
	return k.before.Operation != nil && k.after.Operation == nil && k.in.Rollout.Exists
}

// healthy: an operation succeeds with every server on the new revision, Ready, and
// reported (R31).
func (k *checker) healthy() {
	r, o := k.in.Rollout, k.before.Operation
	// A ledger that was lost may name a template that is lost too, and was made anew.
	lost := !k.in.Stored(o.To.Template)
	switch {
	case !k.in.Arrived || !r.Current || r.Ready != r.Wanted || r.Updated != r.Wanted || r.Pods != r.Wanted || r.Wanted != k.in.Replicas && !k.in.Held:
		k.fail("complete", "the StatefulSet's status does not say so")
	case r.Running.Image != o.To.Image || !lost && r.Running.Template != o.To.Template:
		k.fail("complete", "another template runs")
	case !k.allUp():
		k.fail("complete", "not every pod is Ready")
	}
	for _, p := range k.in.Pods {
		if p.Ordinal < r.Wanted && (p.Revision != r.UpdateRevision || !k.passes(p, o.To)) {
			k.fail("complete", "%s is outdated, or does not report", p.Name)
		}
	}
	if wait := k.in.Policy.MinReady; wait > 0 {
		for _, p := range k.in.Pods {
			if p.Ordinal < r.Wanted && k.in.Now.Sub(p.Since) < wait {
				k.fail("complete", "%s is not Ready for long enough", p.Name)
			}
		}
	}
}

func (k *checker) passes(p upgrade.Pod, to upgrade.Release) bool {
	r := p.Report
	return !p.HasAgent || r != nil && r.Ready && r.Replicates && (to.Version == "" || r.Version == to.Version)
}

// allUp: every server that shall be there is, and is Ready.
func (k *checker) allUp() bool {
	n := int32(0)
	for _, p := range k.in.Pods {
		if p.Ordinal >= k.in.Rollout.Wanted {
			continue
		}
		if !p.Ready || p.Terminating {
			return false
		}
		n++
	}
	return n == k.in.Rollout.Wanted
}

// sound: every server is up, and those that were updated report it.
func (k *checker) sound(to upgrade.Release) bool {
	for _, p := range k.in.Pods {
		if p.Revision == k.in.Rollout.UpdateRevision && !k.passes(p, to) {
			return false
		}
	}
	return k.allUp()
}

// image: what runs was gated, or is where the service comes from.
func (k *checker) image() {
	run, o := k.d.Run, k.after.Operation
	switch {
	case run == nil:
		if k.in.Rollout.Running.Image != "" || k.after.Good != nil {
			k.fail("gated", "nothing shall run, and something did")
		}
	case k.begun():
		if *run != o.To {
			k.fail("gated", "%v runs for an operation to %v", run, o.To)
		}
		k.beginning()
	case k.kept():
		was := k.before.Operation
		if *run != o.To || !samePair(was.To, o.To) || !samePair(was.From, o.From) || was.Kind != o.Kind || !was.StartedAt.Equal(o.StartedAt) {
			k.fail("gated", "the operation changed on its way")
		}
	case k.after.Good != nil:
		if *run != *k.after.Good {
			k.fail("gated", "%v runs outside an operation, and %v is good", run, k.after.Good)
		}
	case samePair(*run, k.in.Rollout.Running):
	case k.in.Held || k.in.Refusal != nil || !samePair(*run, k.in.Target):
		k.fail("gated", "%v is nothing that may run", run)
	}
	if run != nil && !k.in.Held {
		if _, ok := k.v.bytes(run.Template); !ok {
			k.fail("available", "the template %q of %v can be had neither from the store nor from this function", run.Template, run)
		}
	}
	if k.d.OnDelete && k.d.Partition != 0 || k.d.Partition < 0 || (o == nil && (k.d.OnDelete || k.d.Partition != 0)) {
		k.fail("strategy", "partition %d, onDelete %t, operation %v", k.d.Partition, k.d.OnDelete, o)
	}
	// Whoever reads it must learn why the target does not run.
	if run != nil && !k.in.Held && !samePair(*run, k.in.Target) && k.d.Blocked == nil && k.d.Pending == nil && k.d.Failure == nil && k.d.Waiting == "" {
		k.fail("says why", "%v runs instead of %v", run, k.in.Target)
	}
}

// beginning of an operation: R26, R29, R35 to R38, R40.
func (k *checker) beginning() {
	o, was, in := k.after.Operation, k.before.Operation, k.in
	good := k.after.Good
	if good == nil {
		k.fail("gated", "an operation without anything to go back to")
		return
	}
	if o.Kind == upgrade.OperationRollback || o.Kind == upgrade.OperationManualRollback && was != nil && samePair(o.To, *good) {
		k.returning()
		return
	}
	switch {
	case in.Held:
		k.fail("gated", "a spec that cannot be acted upon began an operation")
	case in.Policy.Paused && was == nil:
		k.fail("paused", "an operation began")
	case !in.Arrived || !in.Rollout.Current || !in.Rollout.Exists:
		k.fail("holding", "an operation began on what is not known")
	case !samePair(o.From, *good):
		k.fail("gated", "an operation began from %v, and %v is good", o.From, good)
	case was != nil && (!samePair(was.To, *good) || k.sound(was.To)):
		k.fail("gated", "an operation began while another one ran")
	case !allowed(o.From, o.To, in.Requests):
		k.fail("gated", "%s was not approved", pairOf(o.From, o.To))
	}
	switch o.Kind {
	case upgrade.OperationUpgrade:
		if in.Refusal != nil || !samePair(o.To, in.Target) {
			k.fail("gated", "the spec does not ask for %v", o.To)
		}
		if r := k.before.Rejected; r != nil && samePair(r.Release, o.To) {
			k.fail("once", "%v was rejected (%s) and is tried again", o.To, r.Reason)
		}
	case upgrade.OperationPodUpdate:
		if !samePair(o.From, o.To) || o.From.Template == o.To.Template && !k.w.tampered {
			k.fail("gated", "a change of the pods goes from %v to %v", o.From, o.To)
		}
		if r := k.before.RejectedPods; r != nil && r.Release == o.To {
			k.fail("once", "the pods %s were rejected (%s) and are tried again", o.To.Template, r.Reason)
		}
	case upgrade.OperationManualRollback:
		rb := strings.TrimPrefix(strings.TrimSpace(in.Requests.RollbackTo), "v")
		if rb == "" || o.To.Version != rb || k.after.RollbackTo != rb || k.before.RollbackTo == rb || !k.ran(o.To) {
			k.fail("rollback", "to %v, and %q was asked for", o.To, rb)
		}
	default:
	}
	asked := o.Kind == upgrade.OperationPodUpdate && (!sameInputs(o.From.Template, o.To.Template) || k.w.tampered)
	if !k.allUp() && !asked && !namesPair(in.Requests.AllowDegraded, o.From, o.To) {
		k.fail("degraded", "%s began with servers missing", pairOf(o.From, o.To))
	}
	if !k.allUp() && !k.d.OnDelete {
		k.fail("one down", "an operation on a degraded service lets the controller choose")
	}
}

// ran says that the service has run exactly this.
func (k *checker) ran(r upgrade.Release) bool {
	if g := k.before.Good; g != nil && samePair(*g, r) {
		return true
	}
	return slices.ContainsFunc(k.before.History, func(e upgrade.HistoryEntry) bool {
		return samePair(e.From, r) || samePair(e.To, r) && e.Result == upgrade.ResultSucceeded
	})
}

// returning: an operation is taken back to what is good, for a reason.
func (k *checker) returning() {
	o, was, in := k.after.Operation, k.before.Operation, k.in
	if was == nil {
		k.fail("returning", "from no operation")
		return
	}
	if !samePair(o.To, *k.after.Good) || !samePair(o.From, was.To) || k.before.Good == nil || !samePair(*k.before.Good, *k.after.Good) {
		k.fail("returning", "goes from %v to %v, and %v is good", o.From, o.To, k.before.Good)
	}
	if samePair(was.To, *k.after.Good) && was.Kind != upgrade.OperationPodUpdate {
		k.fail("returning", "from an operation to what is good already")
	}
	if !k.d.OnDelete {
		k.fail("one down", "a return begins with the controller choosing")
	}
	switch {
	case o.Kind == upgrade.OperationManualRollback:
		rb := strings.TrimPrefix(strings.TrimSpace(in.Requests.RollbackTo), "v")
		if in.Held || rb == "" || rb != o.To.Version || k.after.RollbackTo != rb || k.before.RollbackTo == rb {
			k.fail("rollback", "to %v, and %q was asked for", o.To, rb)
		}
	case o.Reason == upgrade.ReasonAborted:
		if in.Held || in.Refusal != nil || !samePair(in.Target, was.From) {
			k.fail("returning", "aborted, and the spec asks for %v", in.Target)
		}
	default:
		if in.Policy.KeepFailed {
			k.fail("returning", "a failed operation is to be kept")
		}
		if !in.Arrived || !in.Rollout.Current {
			k.fail("holding", "a failure of what is not known")
		}
		if k.sound(was.To) {
			k.fail("returning", "%s, and every server is up", o.Reason)
		}
		if (o.Reason == upgrade.ReasonProgressDeadlineExceeded || o.Reason == upgrade.ReasonVersionMismatch) && !k.late(was) {
			k.fail("deadline", "no pod had its time: %s", o.Message)
		}
	}
}

// recovered: the ledger is an older one, that of the status.
func (k *checker) recovered() bool {
	return k.v.sts.ledger == "" || k.v.sts.ledger == garbled
}

// abort: who names again what the operation came from gets it, at once (R38, R37).
func (k *checker) abort() {
	o, in := k.before.Operation, k.in
	if o == nil || in.Held || !in.Rollout.Exists || samePair(o.From, o.To) || k.before.Good == nil || !samePair(o.From, *k.before.Good) {
		return
	}
	r := k.before.Rejected
	named := in.Refusal == nil && samePair(in.Target, o.From) && (r == nil || !samePair(r.Release, in.Target))
	rb := strings.TrimPrefix(strings.TrimSpace(in.Requests.RollbackTo), "v")
	asked := rb != "" && rb == o.From.Version && k.before.RollbackTo == ""
	if (named || asked) && (!k.begun() || !samePair(k.after.Operation.To, o.From)) {
		k.fail("abort", "%v is asked for again, and the operation goes on", o.From)
	}
}

// failing: a pod of the target that cannot start is no reason to wait for a deadline.
func (k *checker) failing() {
	o, in := k.before.Operation, k.in
	if o == nil || !in.Rollout.Exists || !in.Arrived || !in.Rollout.Current || in.Rollout.Running.Template != o.To.Template || in.Rollout.OnDelete != o.Mend || k.lost() {
		return
	}
	back := k.before.Good != nil && samePair(o.To, *k.before.Good) && o.Kind != upgrade.OperationPodUpdate
	// There is no way back without the good template, or a spec to make it of.
	back = back || in.Held && k.before.Good != nil && !in.Stored(k.before.Good.Template)
	for _, p := range in.Pods {
		if p.Ordinal >= in.Rollout.Wanted || p.Revision != in.Rollout.UpdateRevision || p.Ready || p.Terminating || p.Waiting != "CrashLoopBackOff" && p.Waiting != "ImagePullBackOff" && p.Refusal == nil {
			continue
		}
		if k.kept() && k.d.Failure == nil || k.kept() && !back && !in.Policy.KeepFailed {
			k.fail("failing", "%s cannot start, and the operation goes on", p.Name)
		}
	}
}

// lost: the stored template of the operation is gone, and it goes on with another one.
func (k *checker) lost() bool {
	return k.kept() && k.after.Operation.To.Template != k.before.Operation.To.Template
}

// again: the status tells of an operation that the StatefulSet never got.
func (k *checker) again() bool {
	return k.before.Operation == nil && k.in.Begun != nil && k.in.Begun.ID == k.after.Operation.ID
}

// late: some pod has had the time that one may take.
func (k *checker) late(o *upgrade.Operation) bool {
	deadline := k.in.Policy.ProgressDeadline
	if deadline == 0 {
		deadline = upgrade.DefaultProgressDeadline
	}
	late := func(since ...time.Time) bool {
		return !k.in.Now.Before(slices.MaxFunc(since, time.Time.Compare).Add(deadline))
	}
	began := time.Time{}
	if o.PodSince != nil {
		began = *o.PodSince
	}
	there := false
	for _, p := range k.in.Pods {
		there = there || p.Name == o.Pod
		switch {
		case p.Ordinal >= k.in.Rollout.Wanted:
		case p.Revision == k.in.Rollout.UpdateRevision:
			if (!p.Ready || p.Terminating || !k.passes(p, o.To)) && late(p.Created, p.Since) {
				return true
			}
		case p.Name == o.Pod && (!p.Ready || p.Terminating):
			if late(began, p.Deleted) {
				return true
			}
		}
	}
	return !there && late(began)
}

// exposure: what the strategy lets the controller replace that it could not before.
func (k *checker) exposure() {
	d, in, s := k.d, k.in, k.v.sts
	if d.Run == nil || !s.exists || d.OnDelete || k.after.Good == nil || !in.Arrived {
		return
	}
	if k.w.tampered && (k.after.Operation == nil || k.recovered()) || k.lost() {
		return
	}
	c, ok := k.v.bytes(d.Run.Template)
	if !ok {
		return
	}
	same := s.content == c && !s.onDelete
	if same && k.kept() && d.Partition > s.partition && !k.recovered() {
		k.fail("monotone", "the partition rises from %d to %d", s.partition, d.Partition)
	}
	exposed, open := 0, 0
	for _, p := range in.Pods {
		if p.Ordinal < d.Partition || p.Ordinal >= in.Rollout.Wanted || p.Revision == revisionOf(c) || !p.Ready || p.Terminating {
			continue
		}
		open++
		if !same || p.Ordinal < s.partition {
			exposed++
		}
	}
	if exposed == 0 {
		return
	}
	switch {
	case s.byHand:
		// What was changed by hand is put back as it was.
	case in.Policy.Paused:
		k.fail("paused", "%d pods are let go", exposed)
	case !k.allUp():
		k.fail("one down", "%d pods are let go with servers missing", exposed)
	case open > 1:
		k.fail("one down", "%d pods are let go at once", open)
	case !in.Rollout.Current:
		k.fail("holding", "%d pods are let go upon a status that is not current", exposed)
	}
	if r := in.Rollout; !s.byHand && (r.Ready != r.Wanted || r.Pods != r.Wanted || r.Updated != k.updated()) {
		k.fail("one down", "%d pods are let go, and the StatefulSet's status does not say that every server is Ready", exposed)
	}
	if o := k.after.Operation; o != nil && !s.byHand {
		if !k.recovered() && (o.PodSince == nil || !o.PodSince.Equal(in.Now)) && !k.again() {
			k.fail("deadline", "%s is let go at %s, and its time began at %v", o.Pod, in.Now, o.PodSince)
		}
		for _, p := range in.Pods {
			if p.Ordinal < in.Rollout.Wanted && p.Revision == revisionOf(c) && !k.passes(p, o.To) {
				k.fail("one down", "%s does not report", p.Name)
			}
		}
	}
}

// holding: what is not known yet decides nothing.
func (k *checker) holding() {
	if k.in.Arrived && k.in.Rollout.Current {
		return
	}
	if len(k.d.Condemned) > 0 {
		k.fail("holding", "pods are condemned upon what is not known")
	}
	if k.ended() {
		k.fail("holding", "an operation ends upon what is not known")
	}
	if a, b := k.before.Operation, k.after.Operation; k.kept() && (a.Pod != b.Pod || a.Mend != b.Mend) {
		k.fail("holding", "an operation goes from %q to %q upon what is not known", a.Pod, b.Pod)
	}
}

// once: what was rejected stays so until the spec names another pair, or other pods of
// the same pair, or a person had it run all the same.
func (k *checker) once() {
	in, o, good := k.in, k.after.Operation, k.after.Good
	failed := k.begun() && o.Kind == upgrade.OperationRollback && o.Reason != upgrade.ReasonAborted
	if failed {
		r := k.after.Rejected
		if samePair(o.From, o.To) {
			r = k.after.RejectedPods
		}
		// What the spec still asks for stays rejected when a rollback request fails.
		passed := r != nil && samePair(r.Release, in.Target)
		if r == nil || r.Release != o.From && !passed {
			k.fail("once", "%v failed and is not rejected", o.From)
		}
	}
	pair := k.after.Rejected
	if rb := k.after.RollbackTo; rb != "" && rb != k.before.RollbackTo && !in.Held && in.Refusal == nil {
		// Taking the request away must not bring the target back.
		to := good
		if o != nil {
			to = &o.To
		}
		if !samePair(in.Target, *to) && (pair == nil || !samePair(pair.Release, in.Target)) {
			k.fail("once", "the target %v would come back without the rollback request", in.Target)
		}
	}
	if r := k.before.Rejected; r != nil && (pair == nil || !samePair(pair.Release, r.Release)) {
		consumed := k.after.RollbackTo != k.before.RollbackTo
		named := !in.Held && (in.Refusal == nil || consumed) && !samePair(in.Target, r.Release)
		asked := consumed && (o == nil && samePair(*good, r.Release) || o != nil && samePair(o.To, r.Release))
		succeeded := k.ended() && samePair(k.before.Operation.To, r.Release)
		// Where a failed rollback request comes back to is what the spec asks for.
		back := failed && good != nil && samePair(*good, r.Release)
		if !named && !asked && !succeeded && !back && (!failed || samePair(in.Target, r.Release)) {
			k.fail("once", "%v is no longer rejected", r.Release)
		}
	}
	if r := k.before.RejectedPods; r != nil && k.after.RejectedPods == nil {
		other := good == nil || !samePair(*good, r.Release) || k.before.Good == nil || !samePair(*k.before.Good, r.Release)
		asked := !in.Held && !sameInputs(templateOf(k.v.makes(r.Image)), r.Template)
		unasked := good != nil && sameInputs(r.Template, good.Template) && !in.Policy.AutomaticPodUpdates && strings.TrimSpace(in.Requests.ApplyPodUpdate) != r.Template
		succeeded := k.ended() && k.before.Operation.To.Template == r.Template
		if !other && !asked && !unasked && !succeeded {
			k.fail("once", "the pods %s are no longer rejected", r.Template)
		}
	}
}

// template: a newer function alone changes none (R44).
func (k *checker) template() {
	run, s := k.d.Run, k.v.sts
	if run == nil || !s.exists || k.before.Good == nil || s.carried == none || s.content != s.carried || s.ledger == "" {
		return
	}
	running := templateOf(s.carried)
	if run.Template == running || !sameInputs(run.Template, running) {
		return
	}
	o := k.after.Operation
	switch {
	case k.in.Policy.AutomaticPodUpdates, strings.TrimSpace(k.in.Requests.ApplyPodUpdate) == run.Template:
	case o != nil && run.Template == k.before.Good.Template:
		// Taken back.
	case o != nil && k.kept() && o.To.Template == k.before.Operation.To.Template:
		// It is the operation's; the StatefulSet is not seen to have it yet.
	case k.w.tampered:
	default:
		k.fail("pods stay", "the template changes from %s to %s, and nobody asked for it", running, run.Template)
	}
}

// updated is how many pods are of the revision of the StatefulSet's status.
func (k *checker) updated() int32 {
	n := int32(0)
	for _, p := range k.in.Pods {
		if p.Ordinal < k.in.Rollout.Wanted && p.Revision == k.in.Rollout.UpdateRevision {
			n++
		}
	}
	return n
}

// condemned pods are outdated, not Ready, and not going already.
func (k *checker) condemned() {
	for _, x := range k.d.Condemned {
		i := slices.IndexFunc(k.in.Pods, func(p upgrade.Pod) bool { return p.Name == x.Pod })
		if i < 0 {
			k.fail("condemned", "%s is not there", x.Pod)
			continue
		}
		p := k.in.Pods[i]
		if p.Ready || p.Terminating || p.UID != x.UID || p.Revision != x.Revision || p.Revision == k.in.Rollout.UpdateRevision || p.Ordinal >= k.in.Rollout.Wanted {
			k.fail("condemned", "%+v", p)
		}
	}
}

// history: an operation that ended is recorded, once.
func (k *checker) history() {
	if len(k.after.History) > maxHistory {
		k.fail("history", "has %d entries", len(k.after.History))
	}
	was := k.before.Operation
	over := was != nil && k.after.Operation == nil
	left := was != nil && k.begun() && (!samePair(k.after.Operation.To, *k.after.Good) || k.after.Operation.Kind == upgrade.OperationPodUpdate)
	grown := len(k.after.History) > 0 && (len(k.before.History) == 0 || k.after.History[0] != k.before.History[0])
	if grown != (over || left) {
		k.fail("history", "an operation ended: %t, recorded: %t", over || left, grown)
	}
}

// count what happened, so that a reader sees what the histories cover.
func (w *world) count(k *checker) {
	o := k.after.Operation
	if k.begun() {
		switch {
		case o.Kind == upgrade.OperationRollback && o.Reason == upgrade.ReasonAborted:
			w.stats.n[nAborted]++
		case o.Kind == upgrade.OperationRollback:
			w.stats.n[nFailed]++
		case k.before.Operation != nil && !samePair(o.To, *k.after.Good):
			w.stats.n[nLeft]++
		case o.Kind == upgrade.OperationManualRollback:
			w.stats.n[nManual]++
		case o.Kind == upgrade.OperationPodUpdate:
			w.stats.n[nPodUpdates]++
		default:
			w.stats.n[nUpgrades]++
		}
		if o.Degraded {
			w.stats.n[nDegraded]++
		}
	}
	if w.failure == nil && len(k.after.History) > 0 && (k.ended() || k.before.Operation != nil && o == nil) {
		switch k.after.History[0].Result {
		case upgrade.ResultSucceeded:
			w.stats.n[nSucceeded]++
		case upgrade.ResultRolledBack:
			w.stats.n[nRolledBack]++
		case upgrade.ResultSuperseded:
			w.stats.n[nSuperseded]++
		default:
		}
	}
	if k.d.Blocked != nil {
		w.stats.n[nBlocked]++
	}
}
