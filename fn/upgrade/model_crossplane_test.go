package upgrade_test

import (
	"fmt"
	"reflect"
	"time"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// Crossplane: it calls the function upon what its caches hold, applies the objects in
// any order, stops at the first error, and writes the status last.

type crossplane struct {
	// sees are the snapshots that the caches hold.
	xr, sts, pods int32

	// The answer that is being applied.
	busy     bool
	stage    int
	jobFirst bool
	view     view
	decision upgrade.Decision
	ledger   string
	// operating: an operation runs, begins or ends.
	operating bool

	// Parsed once for each text.
	annotation, projected string
	recovered             upgrade.Ledger
	begun                 *upgrade.Operation
	parsed                bool

	podsBuffer []upgrade.Pod
}

// A view is what one call gets to see, and when that was true.
type view struct {
	xr                  *xr
	sts                 *statefulSet
	pods                *[maxPods]pod
	stsSince, podsSince int32
	step                int32
	arrived             bool
	// rendering is the version of the function that answers.
	rendering uint8
	// lost: a template that was stored is gone, and another one is made.
	lost bool
}

func (w *world) look() view {
	c := &w.crossplane
	lags := func() bool { return !w.calm && w.chance(w.stale) }
	c.xr = w.xrs.seen(w.rng, c.xr, lags())
	c.sts = w.stss.seen(w.rng, c.sts, lags())
	c.pods = w.podss.seen(w.rng, c.pods, lags())
	v := view{step: w.step, rendering: w.rendering, arrived: w.calm || !w.chance(w.faulty)}
	v.xr, _ = w.xrs.at(c.xr)
	v.sts, v.stsSince = w.stss.at(c.sts)
	v.pods, v.podsSince = w.podss.at(c.pods)
	return v
}

// makes is the template that the function makes of the spec and an image.
func (v *view) makes(image string) content {
	i, ok := imageNamed(image)
	if !ok || v.xr.held {
		return none
	}
	return contentOf(i, v.xr.inputs, v.rendering, 0)
}

func templateOf(c content) string {
	if c == none {
		return ""
	}
	return named.templates[c]
}

func (v *view) stored(template string) bool {
	return v.sts.exists && template != "" && (template == templateOf(v.sts.carried) || template == templateOf(v.sts.carriedGood))
}

// inputs of a call.
func (w *world) inputs(v *view) upgrade.Inputs {
	c := &w.crossplane
	annotation := ""
	if v.sts.exists {
		annotation = v.sts.ledger
	}
	if !c.parsed || c.annotation != annotation || c.projected != v.xr.projected {
		// The status is the function's own: it can be read.
		projected, err := upgrade.ParseLedger(v.xr.projected)
		if err != nil {
			w.fail("ledger", "the projected ledger cannot be read: %v", err)
		}
		c.parsed, c.annotation, c.projected = true, annotation, v.xr.projected
		c.recovered, c.begun = upgrade.Recover(annotation, projected), projected.Operation
		w.remembered(annotation, v.xr.projected)
	}
	in := upgrade.Inputs{
		Now:      w.time(w.now),
		Ledger:   c.recovered,
		Held:     v.xr.held,
		Target:   named.targets[v.xr.image][v.xr.version],
		Refusal:  named.refusals[v.xr.image][v.xr.version],
		Replicas: v.xr.replicas,
		Policy:   v.xr.policy,
		Requests: v.xr.requests,
		Arrived:  v.arrived,
		Template: func(r upgrade.Release) string { return templateOf(v.makes(r.Image)) },
		Stored:   v.stored,
	}
	if v.xr.held {
		in.Target, in.Refusal = upgrade.Release{}, nil
	}
	in.Begun = c.begun
	if s := v.sts; s.exists {
		in.Rollout = upgrade.Rollout{
			Exists:          true,
			Running:         s.given(),
			Current:         s.observed == s.generation,
			Wanted:          s.replicas,
			Pods:            s.pods,
			Ready:           s.ready,
			Updated:         s.updated,
			UpdateRevision:  revisionOf(s.updateContent),
			CurrentRevision: revisionOf(s.current),
			Partition:       s.partition,
			OnDelete:        s.onDelete,
		}
	}
	if v.arrived {
		in.Pods = w.observedPods(v, c.podsBuffer[:0])
		c.podsBuffer = in.Pods
	}
	return in
}

// remembered: what the StatefulSet no longer says the status does.
func (w *world) remembered(annotation, projected string) {
	want := annotation
	if want == "" || want == garbled {
		want = projected
	}
	if want == "" || want == "{}" {
		return
	}
	if is, err := w.crossplane.recovered.String(); err != nil || is != want {
		w.fail("recovered", "%s of %q and %q", is, annotation, projected)
	}
}

// given is the release that a StatefulSet was given: in the template that it carries,
// whatever somebody made of the live one.
func (s *statefulSet) given() upgrade.Release {
	c := s.carried
	if c == none {
		c = s.content
	}
	return upgrade.Release{Version: s.version, Image: images[c.image()].name, Template: templateOf(s.carried)}
}

func (w *world) observedPods(v *view, out []upgrade.Pod) []upgrade.Pod {
	for i := range v.pods {
		p := &v.pods[i]
		if !p.exists {
			continue
		}
		u := upgrade.Pod{
			Name: named.pods[i], Ordinal: int32(i), UID: uidOf(p.uid), Revision: revisionOf(p.content),
			Created: w.time(p.created), Terminating: p.terminating, Ready: p.ready, Since: w.time(p.since),
			Waiting: p.waiting, HasAgent: p.content.agent(),
		}
		if p.terminating {
			u.Deleted = w.time(p.deleted)
		}
		if p.waiting != "" {
			u.Message = "as the kubelet says"
		}
		if p.refused {
			u.Refusal = &upgrade.Refusal{Reason: "DataNotSupported", Message: "the data is another server's"}
		}
		if p.reported {
			u.Report = &upgrade.Report{Version: p.reportVersion, Ready: p.reportReady, Replicates: p.replicating}
		}
		out = append(out, u)
	}
	return out
}

// call the function.
func (w *world) call() {
	c := &w.crossplane
	c.view = w.look()
	in := w.inputs(&c.view)
	w.stats.n[nCalls]++
	var again *upgrade.Decision
	if w.rng.IntN(32) == 0 {
		again = w.twice(in)
	}
	d := upgrade.Next(in)
	if again != nil && !reflect.DeepEqual(d, *again) {
		w.fail("determinism", "the same inputs gave\n%+v\nand\n%+v", d, *again)
	}
	w.check(&c.view, in, d)
	ledger, err := d.Ledger.String()
	if err != nil {
		w.fail("ledger", "cannot be written: %v", err)
	}
	c.decision, c.ledger = d, ledger
	c.operating = in.Ledger.Operation != nil || d.Ledger.Operation != nil
	c.busy, c.stage, c.jobFirst = true, 0, w.chance(50)
	w.log(&c.view, in, d)
}

// apply the next part of the answer.
func (w *world) apply() {
	c := &w.crossplane
	if !w.calm && w.chance(w.faulty) {
		// The rest is lost; the status with it.
		w.stats.n[nFaults]++
		w.logf("apply fails at stage %d", c.stage)
		c.busy = false
		return
	}
	switch {
	case c.stage == 2:
		w.xr.projected = c.ledger
		c.busy = false
	case (c.stage == 0) == c.jobFirst:
		if !w.calm && w.chance(30) {
			w.ghosts = append(w.ghosts[:0], w.jobs...)
		}
		w.jobs = w.jobs[:0]
		for _, x := range c.decision.Condemned {
			w.jobs = append(w.jobs, jobOf(x))
		}
	default:
		if !w.calm && w.chance(w.faulty/2) {
			// As one that is not valid is: the rest is applied all the same.
			w.logf("the StatefulSet is refused")
			w.stats.n[nRefused]++
			break
		}
		if !w.applyStatefulSet() {
			w.logf("conflict")
			w.stats.n[nConflicts]++
			c.busy = false
			return
		}
	}
	c.stage++
}

func jobOf(x upgrade.Condemned) job {
	j := job{pod: -1, revision: x.Revision, since: x.Since}
	for i := range named.pods {
		if named.pods[i] == x.Pod {
			j.pod = i
		}
	}
	for i := range named.uids {
		if named.uids[i] == x.UID {
			j.uid = int32(i)
		}
	}
	return j
}

// applyStatefulSet as a server-side apply does it: it creates what is not there, and
// overwrites whatever is; but for what was decided, which carries the resourceVersion
// that was observed. It says whether there was no conflict.
func (w *world) applyStatefulSet() bool {
	c := &w.crossplane
	v, d := &c.view, &c.decision
	if d.Run == nil {
		return true
	}
	if v.xr.held && (!c.operating || !v.stored(d.Run.Template)) {
		w.hold(v)
		return true
	}
	run, _ := v.bytes(d.Run.Template)
	next := w.sts
	if !next.exists {
		w.nextUID++
		next = statefulSet{exists: true, uid: w.nextUID, content: none, current: none, updateContent: none, carried: none, carriedGood: none}
	}
	next.carried = run
	next.content, next.onDelete, next.partition = run, d.OnDelete, d.Partition
	if next.onDelete {
		next.partition = 0
	}
	next.byHand = false
	next.replicas = v.xr.replicas
	if v.xr.held && v.sts.exists {
		next.replicas = v.sts.replicas
	}
	next.minReady = 0
	if w.stsMinReady {
		next.minReady = int32(v.xr.policy.MinReady / time.Second)
	}
	next.carriedGood = none
	if g := d.Ledger.Good; g != nil && g.Template != d.Run.Template {
		if good, ok := v.bytes(g.Template); ok {
			next.carriedGood = good
		}
	}
	next.version = d.Run.Version
	next.ledger = c.ledger

	if old := v.sts; *old != w.sts {
		if old.exists && (c.operating || old.ledger != next.ledger || old.carried != next.carried || old.carriedGood != next.carriedGood) {
			return false
		}
		w.stats.n[nOverwritten]++
	}
	w.replace(next, v, d)
	return true
}

// hold what was observed: there is nothing to act upon.
func (w *world) hold(v *view) {
	if !v.sts.exists || v.sts.uid != w.sts.uid {
		return
	}
	next, old := w.sts, v.sts
	next.content, next.onDelete, next.partition, next.replicas, next.minReady = old.content, old.onDelete, old.partition, old.replicas, old.minReady
	next.ledger, next.carried, next.carriedGood, next.version, next.byHand = old.ledger, old.carried, old.carriedGood, old.version, old.byHand
	w.replace(next, v, &w.crossplane.decision)
}

// replace the StatefulSet.
func (w *world) replace(next statefulSet, v *view, d *upgrade.Decision) {
	was := w.sts
	if next.content != was.content || next.onDelete != was.onDelete || next.partition != was.partition || next.replicas != was.replicas || next.minReady != was.minReady || !was.exists {
		next.generation++
	}
	for i := was.replicas; i < next.replicas; i++ {
		if s := &w.slots[i]; s.down {
			*s = slot{down: true, cause: byScaling, since: w.step}
		}
	}
	w.grant(&was, &next, v, d)
	w.sts = next
	if next.generation != was.generation {
		w.logf("applied: %s partition=%d onDelete=%t replicas=%d", next.content, next.partition, next.onDelete, next.replicas)
	}
}

// bytes of a template: stored, or made.
func (v *view) bytes(template string) (content, bool) {
	c, ok := named.contents[template]
	if !ok {
		return none, false
	}
	if v.stored(template) {
		return c, true
	}
	return c, v.makes(images[c.image()].name) == c
}

// grant to the controller what this decision lets it replace, and the earlier ones did
// not.
func (w *world) grant(was, next *statefulSet, v *view, d *upgrade.Decision) {
	g := grant{podsSeen: v.podsSince, stsSeen: v.stsSince, step: v.step, kind: grantSteady}
	switch {
	case d.Ledger.Good == nil, v.lost:
		g.kind = grantPeople
	case d.Ledger.Operation != nil:
		g.kind = grantOperation
	}
	for i := range next.grants {
		if next.onDelete || int32(i) < next.partition {
			next.grants[i] = grant{}
			continue
		}
		if was.exists && was.content == next.content && was.grants[i].kind != grantNone {
			next.grants[i] = was.grants[i]
			continue
		}
		next.grants[i] = g
	}
}

// log what a call decided.
func (w *world) log(v *view, in upgrade.Inputs, d upgrade.Decision) {
	if *v.xr != w.xr || *v.sts != w.sts || *v.pods != w.pods {
		w.stats.n[nStale]++
	}
	if !w.tracing {
		return
	}
	what := "keeps"
	if o := d.Ledger.Operation; o != nil {
		what = fmt.Sprintf("%s %s from %v to %v pod %s mend=%t reason=%s", o.Kind, o.ID, o.From, o.To, o.Pod, o.Mend, o.Reason)
	}
	reason := ""
	if d.Blocked != nil {
		reason = d.Blocked.Reason
	}
	w.logf("call (sts %d/%d pods %d/%d arrived %t current %t) pods %s: %s run %v partition=%d onDelete=%t good=%v blocked=%s pending=%v failure=%v waiting=%q condemned=%v",
		w.crossplane.sts, w.stss.head, w.crossplane.pods, w.podss.head, in.Arrived, in.Rollout.Current, describe(in.Pods), what, d.Run, d.Partition, d.OnDelete, d.Ledger.Good, reason, d.Pending, d.Failure, d.Waiting, d.Condemned)
}
