package upgrade_test

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

var (
	histories = flag.Int("histories", 0, "how many random histories TestHistories goes through (0: 3000, fewer with -short or -race)")
	seed      = flag.Uint64("seed", 1, "the first history of TestHistories, or the one to replay with -histories 1")
	enough    = flag.Int("violations", 1, "how many violations TestHistories looks for before it ends")
)

// TestHistories leads a service through random histories: of people, of a platform, of
// Kubernetes and of Crossplane, as far as an upgrade can meet them. The invariants that
// the package names are checked after every call and every deletion of a pod, and at
// the end of a history, once nothing befalls the service any more, that it comes to
// rest where the requirements say.
//
// A history is its seed: everything random in it comes from there. What may happen in
// it, and how often, is chosen first, and most histories leave most of it out: a few
// faults that meet are found sooner than many that hide each other.
func TestHistories(t *testing.T) {
	n := *histories
	if n == 0 {
		n = 3_000
		switch {
		case raced:
			n = 200
		case testing.Short():
			n = 1_000
		}
	}
	first := *seed
	t.Logf("%d histories from -seed %d", n, first)
	// On a slow machine fewer are better than none.
	until := time.Now().Add(24 * time.Hour)
	if d, ok := t.Deadline(); ok {
		until = d.Add(-time.Until(d) / 10)
	}

	var (
		next  atomic.Int64
		mu    sync.Mutex
		total stats
		found []*world
		group sync.WaitGroup
	)
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			own := &stats{}
			for time.Now().Before(until) {
				i := next.Add(1) - 1
				if i >= int64(n) {
					break
				}
				w := history(first+uint64(i), own, false)
				if w.failure == nil {
					continue
				}
				mu.Lock()
				found = append(found, w)
				if len(found) >= *enough {
					next.Store(int64(n))
				}
				mu.Unlock()
			}
			mu.Lock()
			total.add(own)
			mu.Unlock()
		})
	}
	group.Wait()
	t.Logf("%s in %s", total.String(), time.Since(began).Round(time.Millisecond))

	report(t, found)
}

// report the shortest history of each invariant that was violated.
func report(t *testing.T, found []*world) {
	t.Helper()
	shortest := map[string]*world{}
	count := map[string]int{}
	for _, w := range found {
		count[w.failure.name]++
		if s := shortest[w.failure.name]; s == nil || w.step < s.step {
			shortest[w.failure.name] = w
		}
	}
	for name, s := range shortest {
		trace := history(s.seed, &stats{}, true).trace
		trace = trace[max(0, len(trace)-400):]
		t.Errorf("%s (%d times): %s\n\nreplay with -run TestHistories -histories 1 -seed %d\n%s", name, count[name], s.failure.message, s.seed, strings.Join(trace, "\n"))
	}
}

// history of one service.
func history(seed uint64, s *stats, tracing bool) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), stats: s, tracing: tracing, secondEdit: -1}
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v\n%s", p, debug.Stack())
		}
	}()
	s.n[nHistories]++
	w.seed = seed
	w.born()
	w.snapshot()
	if w.chance(85) {
		// It has been up for a while.
		w.calm = true
		w.settle()
		w.calm = false
		w.stats.n[nSettled]++
		if w.chance(40) {
			w.age()
		}
	}
	w.happen()
	if w.failure == nil {
		w.end()
	}
	s.n[nSteps] += int64(w.step)
	return w
}

type actor int

const (
	anApply actor = iota
	aCall
	aSync
	aKubelet
	aJob
	aClock
	aPerson
	aMishap
	aTampering
	aRound
	actorCount
)

// born: a platform, a spec, and what the history is about.
func (w *world) born() {
	r := w.rng
	all := r.Perm(imageCount)
	for _, i := range all[:2+r.IntN(3)] {
		w.pool = append(w.pool, uint8(i))
	}
	for _, i := range w.pool[1:] {
		if w.chance(45) {
			w.platform.outcomes[i] = outcome(r.IntN(int(outcomeCount)))
		}
		if w.chance(15) {
			w.platform.qualities[i] = quality(r.IntN(int(qualityCount)))
		}
	}
	for _, i := range w.pool {
		if w.chance(30) {
			w.platform.tooSmall[i][1+r.IntN(inputCount-1)] = true
		}
	}
	w.rendering = uint8(r.IntN(renderingCount))
	w.xr = xr{image: w.pool[0], version: versionFor(w.pool[0]), replicas: 1 + r.Int32N(maxPods-1)}
	w.xr.policy = w.policy(upgrade.Policy{})
	w.sts = statefulSet{}

	s := &w.swarm
	s.length = []int{15, 40, 80, 160}[r.IntN(4)]
	s.faulty = []int{0, 0, 5, 15}[r.IntN(4)]
	s.stale = []int{0, 0, 20, 70}[r.IntN(4)]
	s.strictJobs = w.chance(50)
	s.maxUnavailable = w.chance(50)
	s.stsMinReady = w.chance(30)
	s.weights = [actorCount]int{anApply: 40, aCall: 20 + r.IntN(20), aSync: 10 + r.IntN(30), aKubelet: 30 + r.IntN(40), aJob: 5 + r.IntN(10), aClock: 5 + r.IntN(15), aPerson: 4 + r.IntN(12)}
	if w.chance(70) {
		s.weights[aRound] = 4 + r.IntN(30)
	}
	if w.chance(60) {
		s.weights[aMishap] = 2 + r.IntN(10)
	}
	if w.chance(20) {
		s.weights[aTampering] = 1 + r.IntN(4)
	}
	often := []int{20, 50, 90}[r.IntN(3)]
	for i := range s.people {
		s.people[i] = w.chance(often)
	}
	s.people[editsTarget] = s.people[editsTarget] || w.chance(80)
	for i := range s.chaos {
		s.chaos[i] = w.chance(often)
	}
	for i := range s.tamper {
		s.tamper[i] = w.chance(often)
	}
}

// happen: everybody does something, in no order.
func (w *world) happen() {
	sum := 0
	for _, n := range w.weights {
		sum += n
	}
	for range w.length {
		for range 4 {
			n := w.rng.IntN(sum)
			a := actor(0)
			for n >= w.weights[a] {
				n -= w.weights[a]
				a++
			}
			w.act(a)
			if w.failure != nil {
				return
			}
		}
		w.tick(w.rng.Int64N(6))
	}
}

func (w *world) act(a actor) {
	w.step++
	switch a {
	case anApply:
		if w.crossplane.busy {
			w.apply()
		} else {
			return
		}
	case aCall:
		if !w.crossplane.busy {
			w.call()
		}
		return
	case aSync:
		w.controller()
	case aKubelet:
		w.kubelet(w.rng.IntN(maxPods))
	case aJob:
		if n := len(w.jobs); n > 0 {
			w.job(w.jobs[w.rng.IntN(n)])
		}
		if n := len(w.ghosts); n > 0 {
			w.job(w.ghosts[w.rng.IntN(n)])
		}
	case aClock:
		w.tick([...]int64{5, 10, 15, 60}[w.rng.IntN(4)])
		return
	case aPerson:
		if p := person(w.rng.IntN(int(peopleCount))); w.people[p] {
			w.person(p)
		}
	case aMishap:
		if m := mishap(w.rng.IntN(int(chaosCount))); w.chaos[m] {
			w.mishap(m)
		}
	case aRound:
		w.round()
		w.tick(1 + w.rng.Int64N(10))
		return
	case aTampering:
		if t := tampering(w.rng.IntN(int(tamperCount))); w.tamper[t] {
			w.tamperWith(t)
		}
	default:
	}
	w.snapshot()
}

// reconcile is a call whose answer is applied whole.
func (w *world) reconcile() {
	for w.crossplane.busy {
		w.act(anApply)
	}
	w.act(aCall)
	for w.crossplane.busy && w.failure == nil {
		w.act(anApply)
	}
}

// round: everybody does what there is to do, once, in any order.
func (w *world) round() {
	order := [...]int{0, 1, 2, 3}
	w.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, i := range order {
		switch i {
		case 0:
			w.reconcile()
		case 1:
			w.act(aSync)
		case 2:
			for i := range w.pods {
				w.step++
				w.kubelet(i)
			}
			w.snapshot()
		case 3:
			for _, j := range w.jobs {
				w.step++
				w.job(j)
			}
			w.snapshot()
		}
		if w.failure != nil {
			return
		}
	}
}

// settle lets the world go on until nothing changes any more, and says whether it came
// to that.
func (w *world) settle() bool {
	deadline := int64(w.xr.policy.ProgressDeadline / time.Second)
	if deadline == 0 {
		deadline = 600
	}
	still := 0
	for range 1500 {
		xr, sts, pods, jobs := w.xr, w.sts, w.pods, len(w.jobs)
		w.round()
		if w.failure != nil {
			return true
		}
		if xr != w.xr || sts != w.sts || pods != w.pods || jobs != len(w.jobs) {
			still = 0
			w.tick(1 + w.rng.Int64N(10))
			continue
		}
		still++
		switch still {
		case 1:
			w.tick(15)
		case 2:
			w.tick(61)
		case 3, 4, 5:
			w.tick(deadline + 31)
		default:
			return true
		}
	}
	return false
}
