package upgrade

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC)

// release of a version, in the image that has it as its tag.
func release(version string) Release {
	return Release{Version: version, Image: "dirsrv:" + version}
}

// A cluster is what exists of a service, with a StatefulSet controller that does what
// the decisions ask for. What the pods make of it, and what a person does, the steps
// of a test say.
type cluster struct {
	in Inputs
	// settings of the spec, and the function, that a template is made of.
	settings, function string
	stored             map[string]bool
	agent              bool
	uids               int
}

// running is a healthy service that has been on 3.1.0 for long.
func running(replicas int32) *cluster { return installing(replicas).settled() }

// withAgents is the same, with an agent in every pod.
func withAgents(replicas int32) *cluster {
	c := installing(replicas)
	c.agent = true
	return c.settled()
}

func (c *cluster) settled() *cluster {
	c.next()
	for i := range c.in.Pods {
		c.ready(&c.in.Pods[i])
	}
	c.next()
	c.pass(24 * time.Hour)
	return c
}

// installing is a service of which nothing exists yet.
func installing(replicas int32) *cluster {
	c := &cluster{settings: "settings", function: "function", stored: map[string]bool{}}
	c.in = Inputs{
		Now: t0, Replicas: replicas, Arrived: true, Target: release("3.1.0"),
		Template: func(r Release) string { return c.template(r.Image) },
		Stored:   func(template string) bool { return c.stored[template] },
	}
	return c
}

func (c *cluster) template(image string) string {
	return TemplateID([]byte(c.settings+image), []byte(c.settings+c.function+image))
}

func (c *cluster) pass(d time.Duration) { c.in.Now = c.in.Now.Add(d) }

func (c *cluster) pod(name string) *Pod {
	for i := range c.in.Pods {
		if c.in.Pods[i].Name == name {
			return &c.in.Pods[i]
		}
	}
	panic("there is no pod " + name)
}

// ready is a pod whose server works.
func (c *cluster) ready(p *Pod) {
	if !p.Ready {
		p.Since = c.in.Now
	}
	p.Ready, p.Waiting, p.Refusal = true, "", nil
	if c.agent {
		p.Report = &Report{Version: c.in.Rollout.Running.Version, Ready: true, Replicates: true}
	}
	c.count()
}

func (c *cluster) unready(p *Pod) {
	if p.Ready {
		p.Since = c.in.Now
	}
	p.Ready = false
	c.count()
}

// next decides, and has the controller do what was decided.
func (c *cluster) next() Decision {
	d := Next(c.in)
	c.in.Ledger = d.Ledger
	if d.Run == nil {
		return d
	}
	r := &c.in.Rollout
	r.Exists, r.Current = true, true
	r.Running, r.Partition, r.OnDelete = *d.Run, d.Partition, d.OnDelete
	r.Wanted = c.in.Replicas
	r.UpdateRevision = "revision of " + d.Run.Template
	if r.CurrentRevision == "" {
		r.CurrentRevision = r.UpdateRevision
	}
	c.stored = map[string]bool{d.Run.Template: true}
	if g := d.Ledger.Good; g != nil {
		c.stored[g.Template] = true
	}
	for _, dead := range d.Condemned {
		c.in.Pods = slices.DeleteFunc(c.in.Pods, func(p Pod) bool { return p.Name == dead.Pod && p.UID == dead.UID && !p.Ready })
	}
	c.in.Pods = slices.DeleteFunc(c.in.Pods, func(p Pod) bool { return p.Ordinal >= r.Wanted })
	for i := range r.Wanted {
		if !slices.ContainsFunc(c.in.Pods, func(p Pod) bool { return p.Ordinal == i }) {
			c.create(i)
		}
	}
	slices.SortFunc(c.in.Pods, func(a, b Pod) int { return int(b.Ordinal - a.Ordinal) })
	c.roll()
	c.count()
	return d
}

// roll replaces a pod, as the controller does: from the highest ordinal down, and none
// below one that is not Ready.
func (c *cluster) roll() {
	r := c.in.Rollout
	for i := range c.in.Pods {
		p := &c.in.Pods[i]
		switch {
		case r.OnDelete || p.Ordinal < r.Partition:
			return
		case p.Revision != r.UpdateRevision:
			n := p.Ordinal
			c.in.Pods = slices.Delete(c.in.Pods, i, i+1)
			c.create(n)
			slices.SortFunc(c.in.Pods, func(a, b Pod) int { return int(b.Ordinal - a.Ordinal) })
			return
		case !p.Ready:
			return
		}
	}
}

func (c *cluster) create(ordinal int32) {
	c.uids++
	revision := c.in.Rollout.UpdateRevision
	if !c.in.Rollout.OnDelete && ordinal < c.in.Rollout.Partition {
		revision = c.in.Rollout.CurrentRevision
	}
	c.in.Pods = append(c.in.Pods, Pod{
		Name: "ds-" + strconv.Itoa(int(ordinal)), Ordinal: ordinal, UID: strconv.Itoa(c.uids),
		Revision: revision, Created: c.in.Now, Since: c.in.Now, HasAgent: c.agent,
	})
}

func (c *cluster) count() {
	r := &c.in.Rollout
	r.Pods, r.Ready, r.Updated = 0, 0, 0
	for _, p := range c.in.Pods {
		r.Pods++
		if p.Ready {
			r.Ready++
		}
		if p.Revision == r.UpdateRevision {
			r.Updated++
		}
	}
	if !r.OnDelete && r.Partition == 0 && r.Updated == r.Wanted && r.Ready == r.Wanted {
		r.CurrentRevision = r.UpdateRevision
	}
}

// show a decision in one line.
func show(d Decision) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch o := d.Ledger.Operation; {
	case o != nil:
		add("%s %s", o.Kind, TransitionOf(o.From, o.To))
		if o.Pod != "" {
			add("pod %s", o.Pod)
		}
		if d.OnDelete {
			add("OnDelete")
		} else {
			add("partition %d", d.Partition)
		}
	case d.Run != nil:
		add("runs %s", d.Run.name())
		if d.OnDelete || d.Partition != 0 {
			add("OnDelete %t, partition %d", d.OnDelete, d.Partition)
		}
	default:
		add("runs nothing")
	}
	for _, p := range d.Condemned {
		add("deletes %s", p.Pod)
	}
	if d.Blocked != nil {
		add("blocked %s", d.Blocked.Reason)
	}
	if d.Pending != nil {
		add("pending %s", d.Pending.name())
	}
	if d.PodUpdate != "" {
		add("pod update offered")
	}
	if d.Failure != nil {
		add("fails: %s", d.Failure)
	}
	if d.Waiting != "" {
		add("%q", d.Waiting)
	}
	return strings.Join(out, ", ")
}

// An act is what happens between two decisions.
type act func(c *cluster)

// A step of a story: what happens, and what is decided then.
type step struct {
	do   act
	want string
}

// A story is what becomes of a service of so many servers; the first step may be
// without an act.
type story struct {
	reason   string
	replicas int32
	steps    []step
}

func (s story) run(t *testing.T, c *cluster) {
	t.Helper()
	for i, step := range s.steps {
		if step.do != nil {
			step.do(c)
		}
		before, err := c.in.Ledger.String()
		if err != nil {
			t.Fatal(err)
		}
		first, in := Next(c.in), c.in
		d := c.next()
		if diff := cmp.Diff(first, d); diff != "" {
			t.Errorf("\n%s\nstep %d: the same inputs, another decision: -first, +second:\n%s", s.reason, i, diff)
		}
		if after, err := in.Ledger.String(); err != nil || after != before {
			t.Errorf("\n%s\nstep %d: the inputs were changed: -before, +after:\n%s", s.reason, i, cmp.Diff(before, after))
		}
		if diff := cmp.Diff(step.want, show(d)); diff != "" {
			t.Fatalf("\n%s\nstep %d: -want, +got:\n%s", s.reason, i, diff)
		}
	}
}

// tell every story, of a service that is made anew for each.
func tell(t *testing.T, of func(replicas int32) *cluster, stories map[string]story) {
	t.Helper()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			s.run(t, of(max(s.replicas, 1)))
		})
	}
}

// What happens.

func all(acts ...act) act {
	return func(c *cluster) {
		for _, a := range acts {
			a(c)
		}
	}
}

func spec(version string) act {
	return func(c *cluster) { c.in.Target, c.in.Refusal = release(version), nil }
}

// specOf names another image, which nobody knows the version of.
func specOf(r Release) act { return func(c *cluster) { c.in.Target, c.in.Refusal = r, nil } }

// mismatch is a spec whose image and version contradict each other.
func mismatched(version, tag string) act {
	return func(c *cluster) { c.in.Target, c.in.Refusal = ResolveTarget("dirsrv:"+tag, version, nil) }
}

func ask(change func(r *Requests)) act { return func(c *cluster) { change(&c.in.Requests) } }

// approve a transition.
func approve(pair string) act {
	return ask(func(r *Requests) { r.ApprovedTransition, r.BackupConfirmed = pair, pair })
}

func allowDegraded(pair string) act { return ask(func(r *Requests) { r.AllowDegraded = pair }) }

func rollbackTo(version string) act { return ask(func(r *Requests) { r.RollbackTo = version }) }

func policy(change func(p *Policy)) act { return func(c *cluster) { change(&c.in.Policy) } }

func paused(p bool) act { return policy(func(to *Policy) { to.Paused = p }) }

func settings(s string) act { return func(c *cluster) { c.settings = s } }

func function(f string) act { return func(c *cluster) { c.function = f } }

func scale(n int32) act { return func(c *cluster) { c.in.Replicas = n } }

func after(d time.Duration) act { return func(c *cluster) { c.pass(d) } }

func up(pods ...string) act {
	return func(c *cluster) {
		for _, p := range pods {
			c.ready(c.pod(p))
		}
	}
}

func down(pods ...string) act {
	return func(c *cluster) {
		for _, p := range pods {
			c.unready(c.pod(p))
		}
	}
}

// notBegun has the controller do nothing yet to a pod whose turn it is.
func notBegun(pod string) act {
	return func(c *cluster) {
		p := c.pod(pod)
		p.Revision = c.in.Rollout.CurrentRevision
		c.ready(p)
	}
}

// fail a pod for a reason that Kubernetes tells.
func fail(pod, reason string) act {
	return func(c *cluster) {
		p := c.pod(pod)
		c.unready(p)
		p.Waiting, p.Container = reason, "container dirsrv"
	}
}

// observed changes what is observed of the StatefulSet and its pods.
func observed(change func(in *Inputs)) act { return func(c *cluster) { change(&c.in) } }

// upgraded is a service that has gone from 3.1.0 to 3.1.1.
func upgraded(replicas int32) *cluster {
	c := running(replicas)
	spec("3.1.1")(c)
	for range replicas + 2 {
		c.next()
		for i := range c.in.Pods {
			c.ready(&c.in.Pods[i])
		}
	}
	if g := c.in.Ledger.Good; g.Version != "3.1.1" || c.in.Ledger.Operation != nil {
		panic(fmt.Sprintf("the upgrade did not end: %+v", c.in.Ledger))
	}
	c.pass(24 * time.Hour)
	return c
}
