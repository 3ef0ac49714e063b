// Package upgrade decides which release a service runs and which pod is replaced
// next. It is pure: no protocol, no clock of its own, no Kubernetes objects.
//
// The decision is made anew in every call, from what is observed and from the
// ledger. What the ledger says is only ever written together with what it speaks
// of, so a call that is repeated, or whose answer was lost, does no harm.
//
// Invariants of a rollout, each tested by its name:
//   - gated: no image is ever decided on that the gates did not allow;
//   - one down: no pod that is Ready is replaced while another one is down;
//   - monotone: the partition of an operation never rises;
//   - returning: a failed operation goes back to the last known good release;
//   - once: a rejected target is not tried again by itself;
//   - holding: what is not known yet decides nothing.
package upgrade

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultProgressDeadline is what a pod may take to become Ready.
const DefaultProgressDeadline = 10 * time.Minute

// A Policy is how the spec wants upgrades to go (R40).
type Policy struct {
	Paused           bool
	ProgressDeadline time.Duration
	MinReady         time.Duration
	// KeepFailed leaves a failed operation where it is, for a person to look at.
	KeepFailed bool
	// AutomaticPodUpdates has templates of a newer function applied by themselves.
	AutomaticPodUpdates bool
}

func (p Policy) deadline() time.Duration {
	if p.ProgressDeadline <= 0 {
		return DefaultProgressDeadline
	}
	return p.ProgressDeadline
}

// Inputs of a decision.
type Inputs struct {
	Now    time.Time
	Ledger Ledger
	// Begun is the operation that the status tells of, whether the ledger has it or
	// not.
	Begun *Operation
	// Held says that the spec cannot be acted upon: what runs goes on, and so does an
	// operation.
	Held bool
	// Target is what the spec asks for, and Refusal why it cannot be had.
	Target  Release
	Refusal *Refusal
	// Replicas that the spec asks for.
	Replicas int32
	Policy   Policy
	Requests Requests

	Rollout Rollout
	// Pods of the service; Arrived is false until they were looked up.
	Pods    []Pod
	Arrived bool

	// Template names the pod template that this function makes of the spec and a
	// release; "" where it can make none.
	Template func(Release) string
	// Stored says whether a template of that name can be had as it was.
	Stored func(template string) bool
}

// A Decision is what the service runs.
type Decision struct {
	// Ledger as it must be written together with the release.
	Ledger Ledger
	// Run is the release for the pod template; nil where no StatefulSet may be
	// created.
	Run *Release
	// Partition and OnDelete are the update strategy.
	Partition int32
	OnDelete  bool
	// Condemned pods are in the way, and the StatefulSet controller may leave them
	// there.
	Condemned []Condemned

	// Target is what the spec asks for.
	Target Release
	// Blocked says why Run does not become Target; nil where it does, or is.
	Blocked *Refusal
	// Pending is what begins once the operation has ended.
	Pending *Release
	// Plan is what the change that is blocked or pending would do.
	Plan *Plan
	// PodUpdate is the template of this function that waits to be applied.
	PodUpdate string
	// Failure holds the operation up, and nothing goes on by itself.
	Failure *Failure
	// Waiting says what the operation waits for.
	Waiting string
}

// Next decides. It never changes its inputs.
func Next(in Inputs) Decision {
	in.Requests = in.Requests.normalised()
	if in.Held {
		in.Replicas = in.Rollout.Wanted
	}
	d := &decider{in: in, s: in.servers(), Decision: Decision{Ledger: in.Ledger.clone(), Target: in.Target}}
	l := &d.Ledger
	if l.RollbackTo != "" && l.RollbackTo != in.Requests.RollbackTo && !in.Held {
		l.RollbackTo = ""
	}
	running := in.Rollout.Running
	if l.Good == nil && in.Rollout.Healthy() {
		l.Good = &running
	}
	if l.Good != nil && l.Good.Template == "" && l.Good.Image == running.Image {
		l.Good.Template = running.Template
	}
	d.forget()
	switch {
	case l.Operation != nil && !in.Rollout.Exists:
		// A new one is made of what is known to be good; its pods, if some are left,
		// are replaced like any that are outdated.
		o := l.Operation
		e := o.entry(l.Good, ResultSuperseded, in.Now)
		e.Reason = ReasonStatefulSetDeleted
		l.ended(e)
		l.Operation = nil
		d.steady()
	case l.Operation != nil:
		d.advance()
	default:
		d.steady()
	}
	return d.Decision
}

func (r Requests) normalised() Requests {
	r.RollbackTo = normalise(strings.TrimSpace(r.RollbackTo))
	r.ApplyPodUpdate = strings.TrimSpace(r.ApplyPodUpdate)
	return r
}

// A decider makes one decision.
type decider struct {
	Decision

	in Inputs
	s  servers
}

// forget the rejected target once the spec names another one, or what runs; and
// rejected pods once it asks for others.
func (d *decider) forget() {
	in, l := d.in, &d.Ledger
	if in.Held {
		return
	}
	if r := l.Rejected; r != nil && in.Refusal == nil && !r.samePair(in.Target) {
		l.Rejected = nil
	}
	if r := l.RejectedPods; r != nil && (l.Good == nil || !r.samePair(*l.Good) || !sameInputs(in.Template(*l.Good), r.Template)) {
		l.RejectedPods = nil
	}
	if r := l.RejectedPods; r != nil && sameInputs(r.Template, l.Good.Template) && !in.Policy.AutomaticPodUpdates && in.Requests.ApplyPodUpdate != r.Template {
		// Only the function made other pods, and nobody asks for them any more.
		l.RejectedPods = nil
	}
}

// rejected says what of that which the spec asks for was rejected. An update of the
// pods alone is rejected with its template, anything else with version and image.
func (d *decider) rejected(target Release) *Rejected {
	if r := d.Ledger.Rejected; r != nil && r.samePair(target) {
		return r
	}
	if good := d.Ledger.Good; good != nil && good.samePair(target) {
		return d.rejectedPods(d.in.Template(target))
	}
	return nil
}

// rejectedPods says whether a template for what runs was rejected: the very one; or,
// where the spec asks for other pods than those that run, any that is made of it.
func (d *decider) rejectedPods(made string) *Rejected {
	r, good := d.Ledger.RejectedPods, d.Ledger.Good
	if r == nil || !r.samePair(*good) {
		return nil
	}
	if r.Template == made || !sameInputs(r.Template, good.Template) && sameInputs(r.Template, made) {
		return r
	}
	return nil
}

func (d *decider) rejects(target Release) bool { return d.rejected(target) != nil }

// rejectsPair asks for version and image alone.
func (d *decider) rejectsPair(target Release) bool {
	r := d.Ledger.Rejected
	return r != nil && r.samePair(target)
}

// steady: no operation runs. One begins where the spec, or a person, asks for
// another release and every gate allows it.
func (d *decider) steady() {
	in, l := d.in, &d.Ledger
	if in.Held {
		d.keep()
		return
	}
	if l.Good == nil {
		d.first()
		return
	}
	if good := l.Good; in.Refusal == nil && good.Image == in.Target.Image && in.Target.Version != "" {
		// The same image; its version may be better known by now.
		good.Version = in.Target.Version
	}
	to, kind := d.wanted()
	d.keep()
	if kind == "" {
		return
	}
	r, wait := d.mayBegin(*to, kind)
	switch {
	case wait != "":
		d.Waiting, d.Pending, d.Plan = wait, to, d.plan(*l.Good, *to)
	case r != nil:
		d.Blocked, d.Plan = r, d.plan(*l.Good, *to)
	default:
		d.begin(*to, kind)
	}
}

// keep what runs, and have what does not belong there replaced.
func (d *decider) keep() {
	l := &d.Ledger
	switch {
	case l.Good != nil:
		d.Run = d.available(*l.Good)
		l.Good.Template = d.Run.Template
	case d.in.Rollout.Running.Image != "":
		d.Run = d.available(d.in.Rollout.Running)
	}
	down := d.s.down()
	if l.Good == nil {
		d.condemn(down)
	} else if p, f := d.stuck(down); f != nil && d.s.updatedReady() {
		d.condemn([]Pod{p})
	}
}

// available is a release with a template that can be had: the one it ran with, or
// where that is lost the one that this function makes.
func (d *decider) available(r Release) *Release {
	if r.Template == "" || !d.in.Stored(r.Template) {
		if made := d.in.Template(r); made != "" {
			r.Template = made
		}
	}
	return &r
}

// first: nothing of this service was ever healthy, so it follows the spec (R39),
// but for an image that contradicts the version (R25).
func (d *decider) first() {
	in := d.in
	if in.Refusal != nil {
		d.Blocked = in.Refusal
		d.keep()
		return
	}
	if d.becoming() {
		// It is becoming healthy at this very moment, and is judged when it has.
		d.keep()
		d.Waiting = "waits for the StatefulSet controller to report on the servers"
		return
	}
	run := in.Target
	run.Template = in.Template(run)
	if present := in.Rollout.Running; present.samePair(run) && sameInputs(present.Template, run.Template) && in.Stored(present.Template) {
		run.Template = present.Template
	}
	d.Run = &run
	d.condemn(d.s.down())
}

// becoming says that what runs instead of the target may be seen healthy in a moment.
func (d *decider) becoming() bool {
	in := d.in
	if in.Rollout.Ready == 0 || in.Rollout.Running.Image == "" || in.Rollout.Running.samePair(in.Target) {
		return false
	}
	if !in.Arrived || !in.Rollout.Current {
		return true
	}
	return !slices.ContainsFunc(d.s.pods, func(p Pod) bool { return !d.s.outdated(p) && p.stuck(in) != nil })
}

// wanted is what the service should run by the spec and the rollback request, and
// what kind of operation leads there; "" where it is there.
func (d *decider) wanted() (*Release, OperationKind) {
	in, l := d.in, &d.Ledger
	good := l.Good
	if rb := in.Requests.RollbackTo; rb != "" && l.RollbackTo == "" {
		to := l.recorded(rb)
		switch {
		case to == nil:
			d.Blocked = d.invalidRollback(rb)
		case to.samePair(*good):
			// There already: from now on the request is a pin.
			d.consume(rb, *good)
		default:
			r := Release{Version: to.Version, Image: to.Image}
			r.Template = in.Template(r)
			return &r, OperationManualRollback
		}
	}
	target := in.Target
	switch {
	case d.Blocked != nil:
		target = *good
	case good.Image == target.Image && (in.Refusal == nil || target.Version == good.Version || target.Version == ""):
		// The spec asks for what runs, whatever the catalog says.
		target = *good
	case in.Refusal != nil:
		d.Blocked = in.Refusal
		target = *good
	case d.rejects(target):
		d.Blocked = d.rejection(d.rejected(target))
		target = *good
	}
	if !target.samePair(*good) {
		target.Template = in.Template(target)
		if r := gate(*good, target, in.Requests); r != nil {
			d.Blocked = r
			d.Plan = d.plan(*good, target)
			target = *good
		} else {
			return &target, OperationUpgrade
		}
	}
	return d.podUpdate()
}

// podUpdate is the release that runs with other pods: because the spec asks for it,
// or because this function makes other pods of the same spec (R44).
func (d *decider) podUpdate() (*Release, OperationKind) {
	in, good := d.in, d.Ledger.Good
	made := in.Template(*good)
	if good.Template == "" || !in.Stored(good.Template) || made == good.Template || made == "" {
		return nil, ""
	}
	if sameRendering(made, good.Template) {
		// The spec says now what was a default: the same pods, under another name.
		good.Template = made
		return nil, ""
	}
	to := *good
	to.Template = made
	if sameInputs(made, good.Template) {
		d.PodUpdate = made
		if !in.Policy.AutomaticPodUpdates && in.Requests.ApplyPodUpdate != made {
			return nil, ""
		}
	}
	if r := d.rejectedPods(made); r != nil {
		if d.Blocked == nil {
			d.Blocked = d.rejection(r)
		}
		return nil, ""
	}
	return &to, OperationPodUpdate
}

// mayBegin asks the gates that are about the service, and for a manual rollback
// those about the versions. What passes by itself in a moment is waited for.
func (d *decider) mayBegin(to Release, kind OperationKind) (*Refusal, string) {
	in, good := d.in, *d.Ledger.Good
	if kind == OperationManualRollback {
		if r := gate(good, to, in.Requests); r != nil {
			r.Request = RollbackTo
			return r, ""
		}
	}
	if in.Policy.Paused {
		return pausedRefusal(), ""
	}
	if wait := d.unreported(); wait != "" {
		return nil, wait
	}
	ok, why := d.healthy(good)
	t := transition(good, to)
	switch {
	case ok, t.named(in.Requests.AllowDegraded):
		return nil, ""
	case kind == OperationPodUpdate && d.PodUpdate == "":
		// The spec asks for other pods: that may well be what mends the service.
		return nil, ""
	}
	return &Refusal{
		Reason:   ReasonServiceUnhealthy,
		Message:  fmt.Sprintf("%s begins once every server is Ready: it %s", t, why),
		Annotate: annotations([]string{AllowDegraded}, t.String()),
	}, ""
}

func pausedRefusal() *Refusal {
	return &Refusal{Reason: ReasonPaused, Message: "spec.upgrade.paused holds the change of the pods"}
}

// unreported is what is not known yet, and will be in a moment.
func (d *decider) unreported() string {
	r := d.in.Rollout
	switch {
	case !r.Exists:
		return "waits for the StatefulSet to be created"
	case !d.in.Arrived:
		return "waits for the pods to be looked up"
	case !r.Current:
		return "waits for the StatefulSet controller to report on the last change"
	case r.Wanted != d.in.Replicas:
		return "waits for the service to be scaled"
	}
	return ""
}

// healthy says that every server is Ready, and that nothing is on its way.
func (d *decider) healthy(good Release) (bool, string) {
	r := d.in.Rollout
	if p := d.s.highestOutdated(); p != nil {
		return false, "waits for " + p.Name + " to be replaced"
	}
	if ok, why := d.s.allReady(Inputs{Now: d.in.Now}, good); !ok {
		return false, why
	}
	// A pod below the partition is made from the current revision: until that is the
	// present template's it would be another release than the good one.
	if r.Ready != r.Wanted || r.Updated != r.Wanted || r.Pods != r.Wanted || r.CurrentRevision != r.UpdateRevision {
		return false, "waits for the StatefulSet controller to report every server updated and Ready"
	}
	return true, ""
}

// begin an operation.
func (d *decider) begin(to Release, kind OperationKind) {
	in, l := d.in, &d.Ledger
	healthy, _ := d.healthy(*l.Good)
	o := &Operation{Kind: kind, From: *l.Good, To: to, StartedAt: in.Now, Degraded: !healthy}
	if kind == OperationManualRollback {
		d.consume(in.Requests.RollbackTo, to)
		o.Reason = ReasonRolledBackManually
	}
	d.start(o)
	d.meanwhile()
}

// start an operation. With servers missing nothing is touched before it is known
// which pods that concerns.
func (d *decider) start(o *Operation) {
	o.ID = shortHash([]byte(string(o.Kind) + " " + transition(o.From, o.To).String() + " " + o.From.Template + " " + o.To.Template + " " + d.in.Now.UTC().Format(time.RFC3339)))
	o.Mend = o.Degraded
	o.Pod, o.PodSince = "", nil
	d.Ledger.Operation = o
	if !o.Mend && len(d.s.pods) > 0 {
		d.replace(d.s.pods[0])
	}
	if b := d.in.Begun; b != nil && d.in.Ledger.Operation == nil && b.Kind == o.Kind && b.From == o.From && b.To == o.To && b.Pod == o.Pod {
		// It has begun before, and the StatefulSet was refused: that is the same
		// attempt, not another one in each call.
		o.ID, o.StartedAt, o.PodSince = b.ID, b.StartedAt, b.PodSince
	}
	d.run(o)
}

// replace a pod next.
func (d *decider) replace(p Pod) {
	o := d.Ledger.Operation
	if o.Pod != p.Name {
		now := d.in.Now
		o.Pod, o.PodSince = p.Name, &now
	}
}

// run the target of an operation.
func (d *decider) run(o *Operation) {
	d.Run, d.Condemned = &o.To, nil
	d.Blocked, d.Plan, d.Pending, d.PodUpdate, d.Waiting = nil, nil, nil, "", ""
	d.strategy(o)
}

// strategy of an operation: OnDelete while pods are mended, else by partition.
func (d *decider) strategy(o *Operation) {
	d.OnDelete, d.Partition = o.Mend, 0
	if !o.Mend {
		d.Partition = d.partition(o)
	}
}

// partition is the ordinal of the pod being replaced: those below it stay.
func (d *decider) partition(o *Operation) int32 {
	if n, ok := ordinal(o.Pod); ok {
		return n
	}
	return max(d.in.Rollout.Wanted, d.in.Replicas)
}

func ordinal(pod string) (int32, bool) {
	i := strings.LastIndexByte(pod, '-')
	n, err := strconv.ParseInt(pod[i+1:], 10, 32)
	return int32(n), err == nil && i > 0
}

// consume a rollback request. What the spec asks for is not to come back when the
// request is taken away (R37).
func (d *decider) consume(version string, to Release) {
	l, target := &d.Ledger, d.in.Target
	l.RollbackTo = version
	if d.rejectsPair(to) {
		// Somebody asks for it.
		l.Rejected = nil
	}
	if !target.samePair(to) && !d.rejectsPair(target) {
		l.Rejected = &Rejected{Release: Release{Version: target.Version, Image: target.Image}, Reason: ReasonRolledBackManually, At: d.in.Now}
	}
}

func (d *decider) invalidRollback(version string) *Refusal {
	var have []string
	seen := map[string]bool{}
	add := func(v string) {
		if v != "" && !seen[v] && d.Ledger.recorded(v) != nil {
			seen[v] = true
			have = append(have, v)
		}
	}
	if g := d.Ledger.Good; g != nil {
		add(g.Version)
	}
	for _, e := range d.Ledger.History {
		add(e.To.Version)
		add(e.From.Version)
	}
	return &Refusal{
		Reason:  ReasonInvalidRollback,
		Request: RollbackTo,
		Message: fmt.Sprintf("%s=%s: this service has not run that version; it has run %s", RollbackTo, shorten(version), strings.Join(have, ", ")),
	}
}

func (d *decider) rejection(r *Rejected) *Refusal {
	what, restart := r.String(), true
	remedy := "It is not tried again until the spec has named another one in between"
	if good := d.Ledger.Good; r == d.Ledger.RejectedPods && good != nil {
		what, restart = "the change of the pods of "+what, false
		remedy = "It is not tried again until the spec asks for other pods"
		if sameInputs(r.Template, good.Template) {
			remedy = "To try it again take the annotation apply-pod-update away and set it anew, or set spec.upgrade.podUpdates to WithNextRollout and back"
		}
	}
	message := fmt.Sprintf("%s was rejected (%s)", what, r.Reason)
	if r.Message != "" {
		message += ": " + r.Message
	}
	return &Refusal{Reason: ReasonTargetRejected, Message: message + ". " + remedy, Restart: restart}
}

// condemn pods that nobody else replaces. Which are outdated is only known while the
// StatefulSet has the template that it shall have, and its controller has seen it.
func (d *decider) condemn(pods []Pod) {
	has := d.in.Rollout.Running
	if !d.in.Arrived || !d.in.Rollout.Current || d.Run == nil || has.Template != d.Run.Template {
		return
	}
	for _, p := range pods {
		d.Condemned = append(d.Condemned, Condemned{Pod: p.Name, UID: p.UID, Revision: p.Revision, Since: p.Since})
	}
}
