package upgrade_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// end of a history: nothing befalls the service any more, people say what they want for
// the last time, and it comes to rest.
func (w *world) end() {
	w.calm = true
	w.now, w.ghosts = w.latest, nil
	w.settlePlatform()
	w.lastWishes()
	w.snapshot()
	w.rest()
	for range 3 {
		if w.failure != nil || w.xr.held || w.crossplane.decision.Ledger.Good == nil {
			return
		}
		switch w.rng.IntN(5) {
		case 0, 1:
			w.followAdvice()
		case 2:
			w.applyPodUpdate()
		case 3:
			w.updateFunction()
		default:
			w.scale()
		}
	}
}

// followAdvice: whoever does what the message says gets on.
func (w *world) followAdvice() {
	b := w.crossplane.decision.Blocked
	switch {
	case b == nil:
	case len(b.Annotate) > 0:
		w.stats.n[nAdvised]++
		for _, a := range b.Annotate {
			w.annotate(a)
		}
		w.change("follows the advice %v", b.Annotate)
		if is := w.crossplane.decision.Blocked; is != nil && slices.Equal(is.Annotate, b.Annotate) {
			w.fail("advice", "%v was followed, and is given again", b.Annotate)
		}
	case b.Reason == upgrade.ReasonTargetRejected && w.crossplane.decision.Ledger.Operation == nil:
		w.stats.n[nRestarted]++
		w.restart()
	}
}

// restart: the spec names what runs, and then the target once more.
func (w *world) restart() {
	was := w.xr
	good := w.crossplane.decision.Ledger.Good
	c := named.contents[good.Template]
	w.xr.image, w.xr.version, w.xr.inputs = c.image(), versionFor(c.image()), c.inputs()
	w.xr.requests.ApplyPodUpdate, w.xr.policy.AutomaticPodUpdates = "", false
	w.change("names what runs")
	if w.failure != nil {
		return
	}
	w.xr.image, w.xr.version, w.xr.inputs = was.image, was.version, was.inputs
	w.xr.requests.ApplyPodUpdate, w.xr.policy.AutomaticPodUpdates = was.requests.ApplyPodUpdate, was.policy.AutomaticPodUpdates
	since := w.time(w.now)
	w.change("names the target again")
	d := &w.crossplane.decision
	if d.Blocked == nil || d.Blocked.Reason != upgrade.ReasonTargetRejected {
		return
	}
	for _, r := range []*upgrade.Rejected{d.Ledger.Rejected, d.Ledger.RejectedPods} {
		if r != nil && !r.At.Before(since) {
			return
		}
	}
	w.fail("advice", "the target is still rejected, and was not tried again: %s", w.crossplane.ledger)
}

// applyPodUpdate: what waits is applied when somebody asks for it.
func (w *world) applyPodUpdate() {
	update := w.crossplane.decision.PodUpdate
	if update == "" {
		return
	}
	w.xr.requests.ApplyPodUpdate = update
	w.change("asks for the pod update %s", update)
	if d := &w.crossplane.decision; d.PodUpdate == update && d.Blocked == nil && d.Failure == nil {
		w.fail("pod update", "it was asked for, and still waits")
	}
}

// updateFunction: a newer function alone restarts nothing (R44).
func (w *world) updateFunction() {
	d := &w.crossplane.decision
	if d.Ledger.Operation != nil || w.xr.policy.AutomaticPodUpdates || !w.sts.exists {
		return
	}
	w.xr.requests.ApplyPodUpdate = ""
	w.change("asks for no pod update")
	was := w.pods
	w.rendering = (w.rendering + 1) % renderingCount
	w.change("updates the function to %d", w.rendering)
	if was != w.pods {
		w.fail("pods stay", "the function was updated, and pods were replaced")
	}
}

// scale: the servers that there were, and shall be, stay (R21).
func (w *world) scale() {
	if d := &w.crossplane.decision; d.Ledger.Operation != nil || !w.allReady(w.sts.content) {
		return
	}
	was, n := w.pods, min(w.xr.replicas, w.sts.replicas)
	w.xr.replicas = 1 + w.rng.Int32N(maxPods-1)
	blocked := w.crossplane.decision.Blocked != nil
	w.change("scales to %d", w.xr.replicas)
	for i := range min(n, w.xr.replicas) {
		if blocked && was[i].uid != w.pods[i].uid {
			w.fail("pods stay", "the service was scaled, and %s was replaced", named.pods[i])
		}
	}
}

// change of a person, upon which the service comes to rest again.
func (w *world) change(format string, args ...any) {
	w.step++
	w.logf("person "+format, args...)
	w.snapshot()
	w.rest()
}

func (w *world) annotate(a upgrade.Annotation) {
	r := &w.xr.requests
	switch a.Name {
	case upgrade.ApprovedTransition:
		r.ApprovedTransition = a.Value
	case upgrade.BackupConfirmed:
		r.BackupConfirmed = a.Value
	case upgrade.AllowDegraded:
		r.AllowDegraded = a.Value
	default:
		w.fail("advice", "nobody knows the annotation %s", a.Name)
	}
}

// settlePlatform: what is flaky is one or the other from now on, and what was good works,
// mostly.
func (w *world) settlePlatform() {
	for i := range w.platform.outcomes {
		if w.platform.outcomes[i] == flaky {
			w.platform.outcomes[i] = [...]outcome{healthy, crashes}[w.rng.IntN(2)]
		}
	}
	for i := range w.pods {
		if w.pods[i].ready {
			continue
		}
		w.pods[i].waiting = ""
	}
	if !w.chance(65) {
		return
	}
	if g := w.liveLedger().Good; g != nil {
		if i, ok := imageNamed(g.Image); ok {
			w.platform.outcomes[i] = healthy
			w.platform.qualities[i] = reports
			w.platform.tooSmall[i][named.contents[g.Template].inputs()] = false
		}
	}
}

func (w *world) lastWishes() {
	x := &w.xr
	x.held = w.chance(3)
	x.policy.Paused = w.chance(5)
	x.policy.KeepFailed = x.policy.KeepFailed && w.chance(50)
	if w.chance(60) {
		x.requests.RollbackTo = ""
	}
	if w.chance(50) {
		x.requests.AllowDegraded = ""
	}
	x.image = w.pool[w.rng.IntN(len(w.pool))]
	x.version = versionFor(x.image)
	if w.chance(5) {
		x.version = uint8(w.rng.IntN(len(specVersions)))
	}
	if w.chance(30) {
		w.person(scales)
	}
	if w.chance(60) {
		w.approve()
	}
	w.step++
	w.logf("last wishes: %v rendering %d platform %+v", *x, w.rendering, w.platform)
}

// rest: the world comes to it, and where it does is where it should.
func (w *world) rest() {
	if !w.settle() {
		w.fail("convergence", "the service does not come to rest")
		return
	}
	if w.failure != nil {
		return
	}
	w.fixpoint()
	w.outcome()
}

// fixpoint: a call that changed nothing, and after which nothing changed, decides the
// same again.
func (w *world) fixpoint() {
	was := w.sts
	w.reconcile()
	if w.failure == nil && w.sts != was {
		w.fail("fixpoint", "two calls decided differently: %+v, %+v", was, w.sts)
	}
	if w.sts.exists && !w.xr.held && w.xr.projected != w.sts.ledger {
		w.fail("ledger", "the status and the StatefulSet disagree: %s, %s", w.xr.projected, w.sts.ledger)
	}
}

func (w *world) allReady(c content) bool {
	for i := range w.pods {
		p := &w.pods[i]
		if int32(i) >= w.sts.replicas {
			if p.exists {
				return false
			}
			continue
		}
		if !p.exists || !p.ready || p.terminating || p.content != c {
			return false
		}
	}
	return true
}

func (w *world) outcome() {
	d := &w.crossplane.decision
	l := d.Ledger
	fail := func(format string, args ...any) {
		w.fail("convergence", "%s\n  ledger %s\n  run %v blocked %+v pending %v failure %v waiting %q\n  spec %v rendering %d\n  pods %s\n  set %+v",
			fmt.Sprintf(format, args...), w.crossplane.ledger, d.Run, d.Blocked, d.Pending, d.Failure, d.Waiting, w.xr, w.rendering, describe(w.observedPods(w.live(), nil)), w.sts)
	}
	if !w.sts.exists {
		if d.Blocked == nil && !w.xr.held {
			fail("there are no servers, and nothing says why")
		}
		return
	}
	if w.sts.replicas != w.xr.replicas && !w.xr.held {
		fail("not scaled")
	}
	target := w.target()
	refusal := named.refusals[w.xr.image][w.xr.version]
	if l.Good == nil {
		switch made := w.live().makes(w.xrImage()); {
		case w.xr.held:
		case refusal != nil:
			if d.Blocked == nil {
				fail("nothing says that the target is refused")
			}
		case w.platform.works(made):
			fail("the target works, and is not good")
		}
		return
	}
	good := named.contents[l.Good.Template]
	if o := l.Operation; o != nil {
		w.unfinished(o, good, fail)
		return
	}
	// While the spec cannot be read nobody puts back what was changed by hand.
	if w.platform.works(good) && !w.allReady(good) && (!w.xr.held || !w.tampered) {
		fail("%s works, and not every server runs it", good)
	}
	if w.xr.held {
		return
	}
	there := samePair(*l.Good, target) && sameInputs(l.Good.Template, templateOf(w.live().makes(target.Image)))
	if there && d.Blocked == nil {
		return
	}
	b := d.Blocked
	if b == nil {
		fail("nothing says why the target does not run")
		return
	}
	w.blocked(b, l, target, good, fail)
}

func (w *world) live() *view {
	return &view{xr: &w.xr, sts: &w.sts, pods: &w.pods, rendering: w.rendering}
}

func (w *world) xrImage() string { return images[w.xr.image].name }

// unfinished: what is still under way at rest waits for a person, and says so.
func (w *world) unfinished(o *upgrade.Operation, good content, fail func(string, ...any)) {
	d := &w.crossplane.decision
	switch {
	case d.Failure != nil && (w.xr.policy.KeepFailed || d.Failure.Outdated):
	case d.Failure != nil:
		if w.stranded() {
			fail("the rollback fails, and nothing says how to leave it")
		}
		if to := named.contents[o.To.Template]; w.platform.works(to) && w.platform.works(good) {
			fail("it fails, and %s works", to)
		}
	case w.xr.policy.Paused:
	case w.xr.held && w.tampered:
	default:
		fail("an operation rests")
	}
}

// stranded: an operation goes back to what does not work, the spec names something else,
// and nobody is told what is missing for it.
func (w *world) stranded() bool {
	d := &w.crossplane.decision
	back := d.Ledger.Operation.Kind == upgrade.OperationRollback || d.Ledger.Operation.Kind == upgrade.OperationManualRollback
	return back && !w.xr.held && !samePair(w.target(), *d.Ledger.Good) && d.Blocked == nil
}

// blocked: the reason is true.
func (w *world) blocked(b *upgrade.Refusal, l upgrade.Ledger, target upgrade.Release, good content, fail func(string, ...any)) {
	r := w.xr.requests
	var truth bool
	switch b.Reason {
	case upgrade.ReasonApprovalRequired:
		truth = !allowed(*l.Good, target, r)
		if r.RollbackTo != "" {
			truth = truth || l.RollbackTo == ""
		}
	case upgrade.ReasonTargetRejected:
		made := templateOf(w.live().makes(l.Good.Image))
		truth = l.Rejected != nil && samePair(l.Rejected.Release, target) ||
			l.RejectedPods != nil && samePair(l.RejectedPods.Release, *l.Good) && sameInputs(l.RejectedPods.Template, made)
	case upgrade.ReasonServiceUnhealthy:
		truth = !w.platform.works(good)
	case upgrade.ReasonPaused:
		truth = w.xr.policy.Paused
	case upgrade.ReasonInvalidRollback:
		truth = r.RollbackTo != "" && !slices.ContainsFunc(l.History, func(e upgrade.HistoryEntry) bool {
			return e.From.Version == trimmed(r.RollbackTo) || e.To.Version == trimmed(r.RollbackTo) && e.Result == upgrade.ResultSucceeded
		}) && l.Good.Version != trimmed(r.RollbackTo)
	default:
		refusal := named.refusals[w.xr.image][w.xr.version]
		truth = refusal != nil && refusal.Reason == b.Reason
	}
	if !truth {
		fail("it is not true that the target is blocked by %s", b.Reason)
	}
}

func trimmed(version string) string {
	return strings.TrimPrefix(strings.TrimSpace(version), "v")
}
