package upgrade

import (
	"slices"
	"time"
)

// advance the operation that runs, by one step at most.
func (d *decider) advance() {
	in, l := d.in, &d.Ledger
	o := l.Operation
	o.To = *d.available(o.To)
	d.run(o)
	if d.turned() {
		return
	}
	d.meanwhile()
	switch {
	case !in.Arrived:
		d.Waiting = "waits for the pods to be looked up"
		return
	case !in.Rollout.Current || in.Rollout.Running.Template != o.To.Template || in.Rollout.OnDelete != o.Mend:
		d.Waiting = "waits for the StatefulSet controller to take the change up"
		return
	}
	if f := d.s.failureOf(in, o); f != nil {
		switch {
		case o.Returns(l.Good):
			d.Failure = f
			if d.leave() {
				return
			}
		case in.Policy.KeepFailed:
			d.Failure = f
		case in.Held && !in.Stored(l.Good.Template):
			// The good template is lost, and this spec makes no other one.
			d.Failure = f
		default:
			d.takeBack(OperationRollback, f.Reason, f.describe())
			return
		}
	}
	if d.Failure == nil {
		d.Failure = d.s.heldUp(in, o)
	}
	d.step()
}

// describe a failure for the record.
func (f *Failure) describe() string {
	s := f.String()
	if f.Message != "" && !f.Refused {
		s += ": " + shorten(f.Message)
	}
	return s
}

// shorten a message of others: an annotation and a status hold it for long.
func shorten(s string) string {
	const most = 600
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// entry of the history for an operation that ends. One that goes back is told as the
// change that it took back.
func (o *Operation) entry(good *Release, result Result, at time.Time) HistoryEntry {
	e := HistoryEntry{From: o.From, To: o.To, Result: result, StartedAt: o.StartedAt, CompletedAt: at}
	if o.Returns(good) {
		e.From, e.To = o.To, o.From
	}
	return e
}

// Returns says that the operation goes back to what is known to be good: behind
// that there is nothing to go back to.
func (o *Operation) Returns(good *Release) bool {
	return good == nil || o.To.samePair(*good) && (o.Kind == OperationRollback || o.Kind == OperationManualRollback)
}

// turned says that the operation was taken back: because the spec names again what
// it came from, or a request does. Anything else that is asked for waits (R38).
func (d *decider) turned() bool {
	in, l := d.in, &d.Ledger
	o := l.Operation
	if in.Held || o.Returns(l.Good) {
		return false
	}
	if rb := in.Requests.RollbackTo; rb != "" && l.RollbackTo == "" {
		if to := l.recorded(rb); to != nil && to.samePair(o.From) && !to.samePair(o.To) {
			d.consume(rb, o.From)
			d.takeBack(OperationManualRollback, ReasonRolledBackManually, "")
			return true
		}
	}
	target := in.Target
	if in.Refusal != nil || d.rejectsPair(target) || !target.samePair(o.From) {
		return false
	}
	if o.From.samePair(o.To) {
		made := in.Template(target)
		if sameInputs(made, o.To.Template) || !sameInputs(made, o.From.Template) {
			return false
		}
	}
	d.takeBack(OperationRollback, ReasonAborted, "")
	return true
}

// meanwhile says what becomes of that which the spec and the requests ask for
// while an operation runs.
func (d *decider) meanwhile() {
	in, l := d.in, &d.Ledger
	o := l.Operation
	if in.Held {
		return
	}
	if rb := in.Requests.RollbackTo; rb != "" && l.RollbackTo == "" {
		to := l.recorded(rb)
		switch {
		case to == nil && rb == o.To.Version:
			// Once it is there the request is a pin.
		case to == nil:
			d.Blocked = d.invalidRollback(rb)
			return
		case to.samePair(o.To):
			d.consume(rb, o.To)
		default:
			d.Pending = &Release{Version: to.Version, Image: to.Image}
			d.Plan = d.plan(o.To, *d.Pending)
			return
		}
	}
	target := in.Target
	made := in.Template(target)
	there := target.samePair(o.To) && (made == "" || sameInputs(made, o.To.Template))
	switch {
	case in.Refusal != nil:
		d.Blocked = in.Refusal
	case there && !o.Returns(l.Good):
		// That is where it goes.
	case d.rejects(target):
		d.Blocked = d.rejection(d.rejected(target))
	case !there:
		d.Plan = d.plan(o.To, target)
		if d.Blocked = gate(o.To, target, in.Requests); d.Blocked == nil {
			d.Pending = &target
		}
	}
}

// takeBack goes back to the last known good release. Pods that are not Ready are
// replaced first, by being deleted: from the highest ordinal down, as the StatefulSet
// controller does it, a Ready one above would be taken too.
func (d *decider) takeBack(kind OperationKind, reason, message string) {
	in, l := d.in, &d.Ledger
	o := l.Operation
	if kind == OperationRollback && reason != ReasonAborted {
		r := &Rejected{Release: o.To, Reason: reason, Message: message, At: in.Now}
		switch was := l.Rejected; {
		case o.From.samePair(o.To):
			l.RejectedPods = r
		case was != nil && was.samePair(in.Target) && !was.samePair(*l.Good) && !was.samePair(o.To):
			// What the spec asks for was rejected, or passed over for a rollback request,
			// and stays so. Nobody but that request, which was carried out, asks for what
			// failed.
		default:
			l.Rejected = r
		}
	}
	back := *d.available(*l.Good)
	l.Good.Template = back.Template
	d.start(&Operation{Kind: kind, From: o.To, To: back, StartedAt: o.StartedAt, Degraded: true, Reason: reason, Message: message})
	if o.Pod != "" {
		// It is the first that goes back, if it is not Ready.
		l.Operation.Pod, l.Operation.PodSince = o.Pod, &in.Now
	}
	d.meanwhile()
}

// leave a rollback that fails, for another release or for other pods, where every
// gate allows it.
func (d *decider) leave() bool {
	in, l := d.in, &d.Ledger
	target, kind, reason := in.Target, OperationUpgrade, ""
	if in.Held {
		return false
	}
	if rb := in.Requests.RollbackTo; rb != "" && l.RollbackTo == "" {
		// A person asks for something else than what fails.
		to := l.recorded(rb)
		if to == nil || to.samePair(*l.Good) {
			return false
		}
		target, kind, reason = Release{Version: to.Version, Image: to.Image}, OperationManualRollback, ReasonRolledBackManually
	} else if in.Refusal != nil || d.rejects(target) {
		return false
	}
	target.Template = in.Template(target)
	refusal := gate(*l.Good, target, in.Requests)
	t := transition(*l.Good, target)
	if target.samePair(*l.Good) {
		// Other pods may well be what mends the service.
		if kind = OperationPodUpdate; target.Template == "" || sameInputs(target.Template, l.Operation.To.Template) {
			return false
		}
	}
	switch {
	case in.Policy.Paused:
		refusal = pausedRefusal()
	case kind == OperationPodUpdate:
	case refusal == nil && !t.named(in.Requests.AllowDegraded):
		refusal = &Refusal{
			Reason:   ReasonServiceUnhealthy,
			Message:  "the rollback fails; " + t.String() + " begins all the same if you allow it",
			Annotate: annotations([]string{AllowDegraded}, t.String()),
		}
	}
	if refusal != nil {
		d.Blocked = refusal
		d.Pending, d.Plan = nil, d.plan(*l.Good, target)
		return false
	}
	o := l.Operation
	e := o.entry(l.Good, ResultFailed, in.Now)
	e.Reason, e.Message = ReasonRollbackFailed, d.Failure.describe()
	l.ended(e)
	d.Failure = nil
	if kind == OperationManualRollback {
		d.consume(in.Requests.RollbackTo, target)
	}
	d.start(&Operation{Kind: kind, From: *l.Good, To: target, StartedAt: in.Now, Degraded: true, Reason: reason})
	d.meanwhile()
	return true
}

// step replaces one more pod, or none, or ends the operation.
func (d *decider) step() {
	in, l, s := d.in, &d.Ledger, d.s
	o := l.Operation
	ready, waiting := s.allReady(in, o.To)
	next := s.highestOutdated()
	r := in.Rollout

	switch {
	case ready && next == nil:
		if in.Replicas != r.Wanted || r.Ready != r.Wanted || r.Updated != r.Wanted || r.Pods != r.Wanted {
			d.Waiting = "waits for the StatefulSet controller to report every server updated and Ready"
			return
		}
		d.complete()
	case !ready:
		d.Waiting = waiting
		d.mend()
	case in.Policy.Paused:
		d.Waiting = "spec.upgrade.paused holds it"
	case in.Replicas != r.Wanted:
		d.Waiting = "waits for the service to be scaled"
	case r.Ready != r.Wanted || r.Pods != r.Wanted || int(r.Updated) != s.updated():
		// Pods and StatefulSet come from two caches: the older one may still show Ready
		// what is gone.
		d.Waiting = "waits for the StatefulSet controller to report every server Ready"
	default:
		// What is below the partition cannot rise above it any more: the controller
		// replaces by itself what is not below.
		if n, ok := ordinal(o.Pod); o.Mend || !ok || next.Ordinal < n {
			// Its time begins now, also where it was the last one to be mended.
			o.Mend, o.Pod = false, ""
			d.replace(*next)
			d.strategy(o)
		}
		d.Waiting = "waits for " + next.Name + " to be replaced"
	}
}

// mend replaces pods that are not Ready and stand in the way: one at a time, and only
// while every pod of the target works, so that a target which does not cannot spread.
// A pod that may become Ready by itself is left alone, unless it is its turn.
func (d *decider) mend() {
	in, l, s := d.in, &d.Ledger, d.s
	o := l.Operation
	down := s.down()
	if len(down) == 0 {
		return
	}
	p, f := d.stuck(down)
	if o.Mend {
		if i := slices.IndexFunc(down, func(p Pod) bool { return p.Name == o.Pod }); i >= 0 && o.Returns(l.Good) {
			p, f = down[i], &Failure{}
		}
		if f != nil && s.updatedReady() {
			d.replace(p)
			d.condemn([]Pod{p})
		}
		return
	}
	if f != nil {
		allowed := o.Degraded || s.updated() > 0 || transition(o.From, o.To).named(in.Requests.AllowDegraded)
		if s.updatedReady() && allowed {
			// The target works, or may be tried: it is what mends this one.
			o.Mend = true
			d.strategy(o)
			return
		}
		if d.Failure == nil {
			f.Outdated = true
			d.Failure = f
		}
	}
	// Those that are to be replaced anyway need not wait for the controller.
	d.condemn(slices.DeleteFunc(down, func(p Pod) bool { return p.Ordinal < d.Partition }))
}

// stuck is the first of these pods that does not become Ready by itself.
func (d *decider) stuck(pods []Pod) (Pod, *Failure) {
	for _, p := range pods {
		if f := p.stuck(d.in); f != nil {
			return p, f
		}
	}
	return Pod{}, nil
}

// updated is how many pods are of the present template.
func (s servers) updated() int {
	n := 0
	for _, p := range s.pods {
		if !s.outdated(p) {
			n++
		}
	}
	return n
}

// updatedReady says that no pod of the present template is still to become Ready.
func (s servers) updatedReady() bool {
	if s.missing > 0 {
		return false
	}
	for _, p := range s.pods {
		if p.Terminating || !s.outdated(p) && !p.Ready {
			return false
		}
	}
	return true
}

// complete the operation: what runs is good, or good again.
func (d *decider) complete() {
	in, l := d.in, &d.Ledger
	o := l.Operation
	e := o.entry(l.Good, ResultSucceeded, in.Now)
	e.Reason = o.Reason
	if o.Returns(l.Good) {
		e.Result, e.Message = ResultRolledBack, o.Message
	} else {
		if r := l.Rejected; r != nil && r.samePair(o.To) {
			l.Rejected = nil
		}
		if r := l.RejectedPods; r != nil && r.Template == o.To.Template {
			l.RejectedPods = nil
		}
	}
	l.ended(e)
	good := o.To
	l.Good, l.Operation = &good, nil
	d.Run, d.OnDelete, d.Partition, d.Waiting = &good, false, 0, ""
}
