package upgrade

import "fmt"

// A Plan says what a change would do, before anything happens.
type Plan struct {
	From, To Release
	Class    Class
	// Needs are the annotations that were not set yet, `name=value`.
	Needs []string
	// Steps in their order.
	Steps []string
}

// plan of a change.
func (d *decider) plan(from, to Release) *Plan {
	p := &Plan{From: from, To: to, Class: Classify(from.Version, to.Version)}
	if to.samePair(from) {
		p.Class = ClassPodUpdate
	}
	t := transition(from, to)
	for _, n := range t.missing(p.Class, d.in.Requests) {
		p.Needs = append(p.Needs, fmt.Sprintf("%s=%s", n, t))
	}
	n := max(d.in.Replicas, 1)
	p.Steps = append(p.Steps, "wait until every server is Ready")
	name := func(i int32) string {
		for _, pod := range d.in.Pods {
			if pod.Ordinal == i {
				return pod.Name
			}
		}
		return fmt.Sprintf("pod %d", i)
	}
	for i := n - 1; i >= 0; i-- {
		p.Steps = append(p.Steps, fmt.Sprintf("replace %s, and wait until it is Ready", name(i)))
	}
	return p
}
