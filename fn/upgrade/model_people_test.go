package upgrade_test

import (
	"time"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// What people do to a service, by right and otherwise, and what befalls it.

type person int

const (
	editsTarget person = iota
	editsTargetInTwo
	reverts
	approves
	withdraws
	allowsDegraded
	rollsBack
	unpins
	pauses
	scales
	editsInputs
	appliesPodUpdate
	updatesFunction
	editsPolicy
	writesNonsense
	callsTwice
	peopleCount
)

var peopleNames = [peopleCount]string{
	"target edited", "edited in two patches", "reverted", "approved", "approval withdrawn", "allow-degraded",
	"rollback-to", "rollback-to removed", "paused", "scaled", "pod inputs edited", "apply-pod-update",
	"function updated", "policy edited", "invalid spec", "called until nothing changes",
}

type mishap int

const (
	drain mishap = iota
	crash
	evict
	platformBreaks
	platformHeals
	agentLags
	clockJumps
	callLost
	imageGone
	chaosCount
)

var chaosNames = [chaosCount]string{
	"pod drained", "pod crashed", "pod evicted", "image broke", "image mended", "agent lagged", "clock jumped", "call lost",
	"last good image gone, and a pod with it",
}

type tampering int

const (
	deletesSet tampering = iota
	deletesSetAndPods
	removesLedger
	garblesLedger
	losesStatus
	setsImage
	editsTemplate
	removesTemplates
	restoresSet
	restoresStatus
	tamperCount
)

var tamperNames = [tamperCount]string{
	"StatefulSet deleted, pods orphaned", "StatefulSet and pods deleted", "ledger removed", "ledger garbled",
	"status lost", "image set by hand", "template edited by hand", "stored templates removed",
	"StatefulSet restored", "status restored",
}

// garbled is no ledger.
const garbled = "{garbled"

// liveLedger is what the StatefulSet, or else the status, says.
func (w *world) liveLedger() upgrade.Ledger {
	annotation := ""
	if w.sts.exists {
		annotation = w.sts.ledger
	}
	projected, err := upgrade.ParseLedger(w.xr.projected)
	if err != nil {
		w.fail("ledger", "the projected ledger cannot be read: %v", err)
	}
	return upgrade.Recover(annotation, projected)
}

func (w *world) target() upgrade.Release { return named.targets[w.xr.image][w.xr.version] }

func (w *world) person(p person) {
	w.stats.people[p]++
	x := &w.xr
	switch p {
	case editsTarget:
		if w.secondEdit >= 0 {
			x.image, w.secondEdit = uint8(w.secondEdit), -1
			break
		}
		x.image = w.pool[w.rng.IntN(len(w.pool))]
		x.version = versionFor(x.image)
		if w.chance(10) {
			x.version = 0
		}
		if w.chance(40) {
			w.approve()
		}
	case editsTargetInTwo:
		if w.secondEdit >= 0 {
			return
		}
		w.secondEdit = int(w.pool[w.rng.IntN(len(w.pool))])
		x.version = versionFor(uint8(w.secondEdit))
	case reverts:
		if g := w.liveLedger().Good; g != nil {
			if i, ok := imageNamed(g.Image); ok {
				x.image, x.version, w.secondEdit = i, versionFor(i), -1
			}
		}
	case approves:
		w.approve()
	case withdraws:
		x.requests.ApprovedTransition, x.requests.BackupConfirmed, x.requests.AllowDegraded = "", "", ""
	case allowsDegraded:
		if g := w.liveLedger().Good; g != nil {
			x.requests.AllowDegraded = pairOf(*g, w.target())
		}
	case rollsBack:
		x.requests.RollbackTo = w.recorded()
	case unpins:
		x.requests.RollbackTo = ""
	case pauses:
		x.policy.Paused = !x.policy.Paused && w.chance(40)
	case scales:
		x.replicas = 1 + w.rng.Int32N(maxPods-1)
	case editsInputs:
		x.inputs = uint8(w.rng.IntN(inputCount))
	case appliesPodUpdate:
		x.requests.ApplyPodUpdate = ""
		if d := w.crossplane.decision; d.PodUpdate != "" && w.chance(80) {
			x.requests.ApplyPodUpdate = d.PodUpdate
		}
	case updatesFunction:
		w.rendering = uint8(w.rng.IntN(renderingCount))
	case editsPolicy:
		x.policy = w.policy(x.policy)
	case writesNonsense:
		x.held = !x.held && w.chance(40)
	case callsTwice:
		w.repeat()
	default:
	}
	w.logf("person %s: %v rendering %d", peopleNames[p], *x, w.rendering)
}

func (w *world) policy(was upgrade.Policy) upgrade.Policy {
	p := was
	p.ProgressDeadline = time.Duration([...]int{0, 60, 300, 600}[w.rng.IntN(4)]) * time.Second
	p.MinReady = time.Duration([...]int{0, 0, 10, 30, 120}[w.rng.IntN(5)]) * time.Second
	p.KeepFailed = w.chance(20)
	p.AutomaticPodUpdates = w.chance(20)
	return p
}

func (w *world) approve() {
	l, r := w.liveLedger(), &w.xr.requests
	if l.Good == nil {
		return
	}
	pair := pairOf(*l.Good, w.target())
	switch w.rng.IntN(6) {
	case 0:
		// Half of it.
		r.BackupConfirmed = pair
		return
	case 1:
		pair = " v" + nameOf(*l.Good) + " -> v" + nameOf(w.target()) + " "
	case 2:
		// For a rollback.
		for _, e := range l.History {
			pair = pairOf(*l.Good, e.From)
			break
		}
	}
	r.ApprovedTransition, r.BackupConfirmed = pair, pair
}

// recorded is a version for rollback-to: mostly one that has run.
func (w *world) recorded() string {
	l := w.liveLedger()
	var have []string
	if l.Good != nil && w.chance(20) {
		have = append(have, l.Good.Version)
	}
	if l.Operation != nil {
		have = append(have, l.Operation.From.Version, l.Operation.From.Version)
	}
	for _, e := range l.History {
		have = append(have, e.From.Version, e.To.Version)
	}
	if len(have) == 0 || w.chance(10) {
		return "9.9.9"
	}
	v := have[w.rng.IntN(len(have))]
	if w.chance(10) {
		v = " v" + v
	}
	return v
}

// age: the service has run other versions before.
func (w *world) age() {
	l := w.liveLedger()
	if l.Good == nil || l.Operation != nil {
		return
	}
	for range 1 + w.rng.IntN(maxHistory) {
		i := w.pool[w.rng.IntN(len(w.pool))]
		from := upgrade.Release{Version: images[i].version, Image: images[i].name, Template: templateOf(contentOf(i, 0, w.rendering, 0))}
		l.History = append(l.History, upgrade.HistoryEntry{
			From: from, To: *l.Good, Result: upgrade.ResultSucceeded, StartedAt: w.time(-2000), CompletedAt: w.time(-1000),
		})
	}
	s, err := l.String()
	if err != nil {
		w.fail("ledger", "cannot be written: %v", err)
	}
	w.sts.ledger, w.xr.projected = s, s
	w.snapshot()
}

func (w *world) mishap(m mishap) {
	w.stats.chaos[m]++
	i := w.rng.IntN(maxPods)
	p := &w.pods[i]
	switch m {
	case drain:
		if p.exists && !p.terminating {
			w.logf("drained %s", named.pods[i])
			w.terminate(i, byChance)
		}
	case crash:
		if p.exists && p.ready {
			w.logf("crashed %s", named.pods[i])
			w.unready(p)
			w.fell(i, byChance)
			if w.chance(50) {
				p.waiting = "CrashLoopBackOff"
			}
		}
	case evict:
		if p.exists && !p.terminating {
			w.logf("evicted %s", named.pods[i])
			w.unready(p)
			w.fell(i, byChance)
			p.ended = true
		}
	case platformBreaks:
		at := w.pool[w.rng.IntN(len(w.pool))]
		w.platform.outcomes[at] = outcome(w.rng.IntN(int(outcomeCount)))
		w.platform.tooSmall[at][w.rng.IntN(inputCount)] = w.chance(50)
		w.logf("platform: %s is %d", images[at].name, w.platform.outcomes[at])
	case platformHeals:
		at := w.pool[w.rng.IntN(len(w.pool))]
		w.platform.outcomes[at] = healthy
		w.logf("platform: %s is mended", images[at].name)
	case agentLags:
		if p.exists {
			p.reportReady, p.replicating = false, false
		}
	case clockJumps:
		w.tick([...]int64{-20, -900, 300, 700, 4000}[w.rng.IntN(5)])
	case callLost:
		if w.crossplane.busy {
			w.logf("Crossplane is restarted")
			w.crossplane.busy = false
		}
	case imageGone:
		g := w.liveLedger().Good
		if g == nil || !p.exists || p.terminating {
			return
		}
		if at, ok := imageNamed(g.Image); ok {
			w.logf("%s is gone, %s drained", g.Image, named.pods[i])
			w.platform.outcomes[at] = cannotPull
			w.terminate(i, byChance)
		}
	default:
	}
}

func (w *world) tamperWith(t tampering) {
	if !w.sts.exists && t != losesStatus {
		return
	}
	w.stats.tamper[t]++
	w.logf("tampering: %s", tamperNames[t])
	s := &w.sts
	switch t {
	case deletesSet, deletesSetAndPods:
		*s = statefulSet{}
		w.tampered = true
		for i := range w.pods {
			if w.pods[i].exists && t == deletesSetAndPods {
				w.terminate(i, byPeople)
			}
		}
	case removesLedger, garblesLedger:
		if w.xr.projected != s.ledger {
			w.tampered = true
		}
		s.ledger = ""
		if t == garblesLedger {
			s.ledger = garbled
		}
	case losesStatus:
		if !s.exists || s.ledger == "" || s.ledger == garbled {
			w.tampered = true
		}
		w.xr.projected = ""
	case setsImage, editsTemplate:
		hand := uint8(w.rng.IntN(handCount))
		to := s.content.withImage(s.content.image(), 1+hand%2)
		if t == setsImage {
			to = s.content.withImage(w.pool[w.rng.IntN(len(w.pool))], hand)
		}
		if to == s.content {
			return
		}
		w.tampered = true
		s.content, s.byHand = to, true
		s.generation++
		for i := range s.grants {
			if !s.onDelete && int32(i) >= s.partition {
				s.grants[i] = grant{kind: grantPeople}
			}
		}
	case removesTemplates:
		w.tampered = true
		s.carried, s.carriedGood = none, none
	case restoresSet:
		w.restore()
	case restoresStatus:
		old, _ := w.xrs.at(w.xrs.seen(w.rng, 0, true))
		if w.xr.projected != old.projected && (!s.exists || s.ledger == "" || s.ledger == garbled) {
			w.tampered = true
		}
		w.xr.projected = old.projected
	default:
	}
}

// restore an old manifest of the StatefulSet over the present one.
func (w *world) restore() {
	s := &w.sts
	old, _ := w.stss.at(w.stss.seen(w.rng, 0, true))
	if !old.exists || old.uid != s.uid {
		return
	}
	w.tampered = true
	s.content, s.onDelete, s.partition, s.replicas, s.minReady = old.content, old.onDelete, old.partition, old.replicas, old.minReady
	s.ledger, s.carried, s.carriedGood, s.version = old.ledger, old.carried, old.carriedGood, old.version
	s.byHand = true
	s.generation++
	for i := range s.grants {
		s.grants[i] = grant{kind: grantPeople}
	}
}

// repeat a call, with nothing in between, until it decides nothing new: soon.
func (w *world) repeat() {
	w.calm = true
	defer func() { w.calm = false }()
	for range 6 {
		was := w.sts
		w.reconcile()
		if w.failure != nil || was == w.sts {
			return
		}
	}
	w.fail("fixpoint", "each call decides something new, though nothing changes")
}
