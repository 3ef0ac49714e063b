package upgrade_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

const (
	maxPods = 6
	// depth is how many snapshots back a cache may be.
	depth = 8
)

// The world of one history.
type world struct {
	rng *rand.Rand
	swarm
	stats *stats

	step int32
	now  int64
	// latest is where the clock has been already.
	latest int64
	// calm: no faults, and every cache is fresh.
	calm bool

	xr   xr
	sts  statefulSet
	pods [maxPods]pod
	jobs []job
	// ghosts are jobs that are no longer wanted, and whose pods run yet.
	ghosts []job
	// slots say since when, and by whom, a server is down.
	slots [maxPods]slot

	// rendering is the version of the function.
	rendering uint8
	platform  platform
	nextUID   int32

	xrs   ring[xr]
	stss  ring[statefulSet]
	podss ring[[maxPods]pod]
	// controllerSees is the snapshot of the StatefulSet that its controller works on.
	controllerSees int32

	crossplane crossplane

	// tampered: people changed behind the function's back what it goes by.
	tampered bool
	// secondEdit is the image that follows the version in a second patch.
	secondEdit int

	failure *violation
	trace   []string
	tracing bool
}

// The swarm of a history: how likely what is; most histories leave most of it out.
type swarm struct {
	seed uint64
	// weights of the actors.
	weights [actorCount]int
	people  [peopleCount]bool
	chaos   [chaosCount]bool
	tamper  [tamperCount]bool
	pool    []uint8
	// faulty is how likely a call or an apply fails, stale how likely a cache lags, in
	// percent.
	faulty, stale int
	// maxUnavailable is the feature gate of the StatefulSet controller.
	maxUnavailable bool
	// stsMinReady: the StatefulSet has minReadySeconds of its own.
	stsMinReady bool
	// strictJobs also ask that the pod has not been Ready in between.
	strictJobs bool
	length     int
}

type xr struct {
	image, version uint8
	replicas       int32
	inputs         uint8
	held           bool
	policy         upgrade.Policy
	requests       upgrade.Requests
	// projected is the ledger in the status.
	projected string
}

func (x xr) String() string {
	p, r := x.policy, x.requests
	return fmt.Sprintf("{%s version=%q replicas=%d inputs=%d held=%t paused=%t keepFailed=%t automatic=%t deadline=%s minReady=%s approved=%q backup=%q degraded=%q rollbackTo=%q podUpdate=%q}",
		images[x.image].name, specVersions[x.version], x.replicas, x.inputs, x.held, p.Paused, p.KeepFailed, p.AutomaticPodUpdates, p.ProgressDeadline, p.MinReady,
		r.ApprovedTransition, r.BackupConfirmed, r.AllowDegraded, r.RollbackTo, r.ApplyPodUpdate)
}

// The template fields and the strategy of a StatefulSet, and what it says of them.
type statefulSet struct {
	exists     bool
	uid        int32
	generation int32
	content    content
	onDelete   bool
	partition  int32
	replicas   int32
	minReady   int32

	ledger string
	// carried templates are stored in annotations: of what runs, and the last good one.
	carried, carriedGood content
	// version is a label.
	version string

	observed               int32
	pods, ready, updated   int32
	current, updateContent content

	// byHand: the template is none that was decided on.
	byHand bool

	// grants say which decision, and upon which view, let the controller replace a pod.
	grants [maxPods]grant
}

type grant struct {
	// podsSeen and stsSeen are when that view was true.
	podsSeen, stsSeen int32
	// step of the decision.
	step int32
	kind grantKind
}

type grantKind uint8

const (
	grantNone grantKind = iota
	grantOperation
	grantSteady
	// grantPeople: not a decision of the function, or one about a service that was
	// never healthy.
	grantPeople
)

type pod struct {
	exists, terminating bool
	uid                 int32
	content             content
	created, since      int64
	// deleted is when a pod that terminates is to be gone.
	deleted int64
	started bool
	ready   bool
	// ended: evicted, the phase is Failed.
	ended   bool
	waiting string
	refused bool
	// byHand: made of a template that no decision was about.
	byHand bool

	reported                 bool
	reportReady, replicating bool
	reportVersion            string
}

type slot struct {
	down  bool
	cause cause
	since int32
}

type cause uint8

const (
	byScaling cause = iota
	byChance
	byPeople
	byUs
)

func (c cause) String() string {
	return [...]string{"scaling", "chance", "people", "us"}[c]
}

type job struct {
	pod      int
	uid      int32
	revision string
	since    time.Time
}

// outcome of a start.
type outcome uint8

const (
	healthy outcome = iota
	cannotPull
	crashes
	neverReady
	refuses
	flaky
	outcomeCount
)

// quality of an agent.
type quality uint8

const (
	reports quality = iota
	mute
	otherVersion
	noReplication
	qualityCount
)

type platform struct {
	outcomes  [imageCount]outcome
	qualities [imageCount]quality
	tooSmall  [imageCount][inputCount]bool
}

// outcome of starting a pod of this template.
func (p *platform) outcome(c content) outcome {
	if p.outcomes[c.image()] == healthy && p.tooSmall[c.image()][c.inputs()] {
		return crashes
	}
	return p.outcomes[c.image()]
}

// works says that pods of this template become Ready, and their agents report it.
func (p *platform) works(c content) bool {
	if p.outcome(c) != healthy {
		return false
	}
	q := p.qualities[c.image()]
	return !c.agent() || q == reports || q == otherVersion && images[c.image()].version == ""
}

// A ring of the last snapshots, each since a step.
type ring[T comparable] struct {
	head  int32
	items [depth]T
	since [depth]int32
}

func (r *ring[T]) push(v T, step int32) {
	if r.items[r.head%depth] == v && r.head > 0 {
		return
	}
	r.head++
	r.items[r.head%depth] = v
	r.since[r.head%depth] = step
}

func (r *ring[T]) at(i int32) (*T, int32) { return &r.items[i%depth], r.since[i%depth] }

// seen moves a cache on, at random, from the snapshot it has.
func (r *ring[T]) seen(rng *rand.Rand, from int32, lags bool) int32 {
	from = max(from, r.head-depth+1, 1)
	if !lags || from >= r.head {
		return r.head
	}
	return from + rng.Int32N(r.head-from+1)
}

func (w *world) snapshot() {
	w.xrs.push(w.xr, w.step)
	w.stss.push(w.sts, w.step)
	w.podss.push(w.pods, w.step)
}

var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (w *world) time(at int64) time.Time { return epoch.Add(time.Duration(at) * time.Second) }

func (w *world) chance(percent int) bool { return percent > 0 && w.rng.IntN(100) < percent }

func (w *world) logf(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%4d %6ds ", w.step, w.now)+fmt.Sprintf(format, args...))
	}
}

// A violation of an invariant.
type violation struct {
	name, message string
}

// fail keeps the first violation.
func (w *world) fail(name, format string, args ...any) {
	if w.failure == nil {
		w.failure = &violation{name: name, message: fmt.Sprintf(format, args...)}
		w.logf("VIOLATED %s: %s", name, w.failure.message)
	}
}

// fell: a server that was up is down.
func (w *world) fell(i int, c cause) {
	if s := &w.slots[i]; !s.down {
		*s = slot{down: true, cause: c, since: w.step}
	}
}

func (w *world) unready(p *pod) {
	if p.ready {
		p.ready, p.since = false, w.now
	}
	p.reportReady = false
}

func (w *world) terminate(i int, c cause) {
	p := &w.pods[i]
	if !p.terminating {
		p.terminating, p.deleted = true, w.now+30
	}
	if c == byScaling {
		w.slots[i] = slot{down: true, cause: c, since: w.step}
	}
	w.fell(i, c)
}

func (w *world) remove(i int, c cause) {
	w.fell(i, c)
	w.pods[i] = pod{}
}

// kubelet does the next thing that happens to a pod by itself.
func (w *world) kubelet(i int) {
	p := &w.pods[i]
	switch {
	case !p.exists, p.ended && !p.terminating:
	case p.terminating:
		if p.ready && w.chance(50) {
			w.unready(p)
			return
		}
		w.remove(i, byChance)
	case p.ready:
		w.report(p)
	case !p.started:
		p.started = true
	default:
		w.start(i)
	}
}

func (w *world) start(i int) {
	p := &w.pods[i]
	o := w.platform.outcome(p.content)
	if o == flaky {
		o = [...]outcome{healthy, healthy, crashes, neverReady}[w.rng.IntN(4)]
	}
	p.refused = o == refuses
	switch o {
	case healthy:
		p.waiting = ""
		p.ready, p.since = true, w.now
		w.slots[i].down = false
	case cannotPull:
		p.waiting = w.either("ErrImagePull", "ImagePullBackOff")
	case crashes:
		p.waiting = w.either("", "CrashLoopBackOff")
	default:
		p.waiting = ""
	}
}

func (w *world) either(a, b string) string {
	if w.calm || w.chance(50) {
		return b
	}
	return a
}

// report of the agent, if there is one: it lags behind the kubelet.
func (w *world) report(p *pod) {
	c := p.content
	if !c.agent() || !w.calm && w.chance(30) {
		return
	}
	q := w.platform.qualities[c.image()]
	if q == mute {
		return
	}
	p.reported, p.reportReady, p.replicating = true, true, q != noReplication
	p.reportVersion = images[c.image()].inside.String()
	if q == otherVersion {
		p.reportVersion = "1.4.0"
	}
}

// job deletes a pod that stands in the way: this very one, while it is not Ready.
func (w *world) job(j job) {
	p := &w.pods[j.pod]
	if !p.exists || p.terminating || p.uid != j.uid || revisionOf(p.content) != j.revision || p.ready || w.strictJobs && !w.time(p.since).Equal(j.since) {
		return
	}
	w.logf("job deletes %s", named.pods[j.pod])
	w.stats.n[nUnstuck]++
	w.terminate(j.pod, byChance)
}

// tick moves the clock.
func (w *world) tick(seconds int64) {
	w.now += seconds
	w.latest = max(w.latest, w.now)
}
