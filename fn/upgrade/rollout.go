package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"
)

// A Rollout is what the StatefulSet controller reports of the servers.
type Rollout struct {
	// Exists says whether there is a StatefulSet.
	Exists bool
	// Running is the release that it was given: image and template are those that it
	// carries, whatever somebody made of the live ones.
	Running Release
	// Current says that the counts and revisions below speak of the present template
	// (status.observedGeneration equals metadata.generation).
	Current bool
	// Wanted is the number of pods the controller was told to have.
	Wanted int32
	// Pods that exist, that are Ready, and that were made from the present template.
	Pods, Ready, Updated int32
	// UpdateRevision is the revision of the present template, CurrentRevision that of
	// pods below the partition.
	UpdateRevision, CurrentRevision string
	// Partition and OnDelete are the update strategy as it is observed.
	Partition int32
	OnDelete  bool
}

// Healthy says that every pod was made from the present template and that one of
// them, at least, is Ready: the release works.
func (r Rollout) Healthy() bool {
	return r.Exists && r.Running.Image != "" && r.Current && r.Ready > 0 && r.Updated == r.Pods
}

// A Pod of the service.
type Pod struct {
	Name    string
	Ordinal int32
	UID     string
	// Revision of the template it was made from.
	Revision string
	Created  time.Time
	// Terminating pods are to be gone at Deleted, their grace period included.
	Terminating bool
	Deleted     time.Time
	Ready       bool
	// Since is when Ready changed last; zero where nobody knows.
	Since time.Time
	// Waiting is why one of its containers, or init containers, does not run, and
	// Container which one.
	Waiting, Container string
	// Message is what Kubernetes, or the server before it ended, said about it. It
	// may change from one moment to the next.
	Message string
	// Refusal is why the agent does not start the server on this volume.
	Refusal *Refusal
	// HasAgent says that the agent runs the server: what it reports counts.
	HasAgent bool
	// Report of this very pod's agent; nil where there is none.
	Report *Report
}

// A Report is what an agent says of its server.
type Report struct {
	Version    string
	Ready      bool
	Replicates bool
}

// failing are the reasons for which a container waits and that are no part of a
// start (kubernetes pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime).
var failing = map[string]bool{
	"CrashLoopBackOff":           true,
	"ImagePullBackOff":           true,
	"ErrImageNeverPull":          true,
	"InvalidImageName":           true,
	"CreateContainerConfigError": true,
	"CreateContainerError":       true,
	"RunContainerError":          true,
}

// A Failure is what is wrong with a pod.
type Failure struct {
	Pod    string
	Reason string
	// Container that does not run; "" where it is not about one.
	Container string
	// Message tells more, and may change from one moment to the next.
	Message string
	// Refused says that the pod's agent does not start the server. Its Message stands still,
	// and has what a person can do.
	Refused bool
	// Outdated says that the pod was not replaced yet: it is not the operation that
	// fails with it.
	Outdated bool
}

// String says it in words that stay the same as long as the failure does.
func (f Failure) String() string {
	s := "pod " + f.Pod + ": " + f.Reason
	if f.Container != "" {
		s += " (" + f.Container + ")"
	}
	if f.Refused && f.Message != "" {
		s += ": " + shorten(f.Message)
	}
	return s
}

// failure of a pod, as far as it shows by itself, without a deadline.
func (p Pod) failure() *Failure {
	switch {
	case p.Terminating || p.Ready:
		return nil
	case p.Refusal != nil:
		return &Failure{Pod: p.Name, Reason: p.Refusal.Reason, Message: p.Refusal.Message, Refused: true}
	case failing[p.Waiting]:
		return &Failure{Pod: p.Name, Reason: p.Waiting, Container: p.Container, Message: p.Message}
	}
	return nil
}

// stuck says why a pod does not become Ready by itself: it fails, or has not been
// Ready for longer than a pod may take.
func (p Pod) stuck(in Inputs) *Failure {
	if p.Ready || p.Terminating {
		return nil
	}
	if f := p.failure(); f != nil {
		return f
	}
	return late(p.Name, latest(p.Created, p.Since), in)
}

// heldUp says which pod keeps a rollout from going on without being its target's
// fault.
func (s servers) heldUp(in Inputs, o *Operation) *Failure {
	for _, p := range s.pods {
		if p.Terminating && !p.Deleted.IsZero() && late(p.Name, p.Deleted, in) != nil {
			return &Failure{Pod: p.Name, Reason: ReasonStillTerminating, Outdated: true}
		}
	}
	i := strings.LastIndexByte(o.Pod, '-')
	if s.missing == 0 || i < 0 || late("", ptr.Deref(o.PodSince, time.Time{}), in) == nil {
		return nil
	}
	there := make([]bool, s.wanted)
	for _, p := range s.pods {
		there[p.Ordinal] = true
	}
	return &Failure{Pod: o.Pod[:i+1] + strconv.Itoa(slices.Index(there, false)), Reason: ReasonPodMissing, Outdated: true}
}

// late is a failure once a pod has had the time that one may take.
func late(pod string, since time.Time, in Inputs) *Failure {
	if in.Now.Before(since.Add(in.Policy.deadline())) {
		return nil
	}
	return &Failure{Pod: pod, Reason: ReasonProgressDeadlineExceeded, Message: "it has not become Ready within spec.upgrade.progressDeadlineSeconds"}
}

// servers are the pods by ordinal, highest first, of the ordinals that shall exist.
type servers struct {
	pods    []Pod
	wanted  int32
	missing int32
	// revision of the present template.
	revision string
}

func (in Inputs) servers() servers {
	s := servers{wanted: in.Rollout.Wanted, revision: in.Rollout.UpdateRevision}
	for _, p := range in.Pods {
		if p.Ordinal >= 0 && p.Ordinal < s.wanted {
			s.pods = append(s.pods, p)
		}
	}
	slices.SortFunc(s.pods, func(a, b Pod) int { return cmp.Compare(b.Ordinal, a.Ordinal) })
	s.missing = s.wanted - int32(len(s.pods)) //nolint:gosec // At most wanted.
	return s
}

func (s servers) outdated(p Pod) bool { return p.Revision != s.revision }

// highestOutdated is the next pod to replace, unless it is being replaced already.
func (s servers) highestOutdated() *Pod {
	for i := range s.pods {
		if s.outdated(s.pods[i]) {
			return &s.pods[i]
		}
	}
	return nil
}

// down are outdated pods that are not Ready and that nobody deletes.
func (s servers) down() []Pod {
	var out []Pod
	for _, p := range s.pods {
		if s.outdated(p) && !p.Ready && !p.Terminating {
			out = append(out, p)
		}
	}
	return out
}

// allReady says that every server is there and Ready, and those that were updated
// pass the gates; else what is waited for.
func (s servers) allReady(in Inputs, to Release) (bool, string) {
	if s.missing > 0 {
		return false, "waits for pods to be created"
	}
	for i := len(s.pods) - 1; i >= 0; i-- {
		p := s.pods[i]
		if p.Terminating || !p.Ready {
			return false, fmt.Sprintf("waits for %s to be Ready", p.Name)
		}
		if s.outdated(p) {
			continue
		}
		if ok, why := p.passes(in, to); !ok {
			return false, why
		}
	}
	return true, ""
}

// passes says whether a pod of the new revision lets the next one be replaced (R30).
func (p Pod) passes(in Inputs, to Release) (bool, string) {
	if wait := in.Policy.MinReady; wait > 0 && in.Now.Before(p.Since.Add(wait)) {
		return false, fmt.Sprintf("waits for %s to be Ready for spec.upgrade.minReadySeconds", p.Name)
	}
	if !p.HasAgent {
		return true, ""
	}
	switch r := p.Report; {
	case r == nil || !r.Ready:
		return false, fmt.Sprintf("waits for the agent in %s to report that its server is ready", p.Name)
	case !runs(r.Version, to.Version):
		return false, fmt.Sprintf("waits for %s to run %s: it runs %s", p.Name, to.Version, r.Version)
	case !r.Replicates:
		return false, fmt.Sprintf("waits for %s to replicate", p.Name)
	}
	return true, ""
}

// failureOf the operation: a pod of its target that cannot become Ready, or has
// not in time.
func (s servers) failureOf(in Inputs, o *Operation) *Failure {
	for _, p := range s.pods {
		if s.outdated(p) {
			continue
		}
		if f := p.failure(); f != nil {
			return f
		}
	}
	seen := false
	for _, p := range s.pods {
		own := p.Name == o.Pod
		seen = seen || own
		ok, gate := p.Ready && !p.Terminating, ""
		if ok && !s.outdated(p) && p.HasAgent {
			// A server of which the agent says nothing, or something else, is as good
			// as one that is not Ready.
			ok, gate = p.passes(Inputs{Now: in.Now}, o.To)
		}
		if ok || !own && s.outdated(p) {
			// One that works and is not replaced yet is not late: its controller is.
			continue
		}
		since := ptr.Deref(o.PodSince, time.Time{})
		if !s.outdated(p) {
			// It may have been Ready, and been lost since, while nothing went on.
			since = latest(p.Created, p.Since, since)
		} else if p.Terminating {
			// Its controller may have begun late.
			since = latest(p.Deleted, since)
		}
		if f := late(p.Name, since, in); f != nil {
			if gate != "" {
				f.Message = "it is Ready, and the operation still " + gate
			}
			if r := p.Report; r != nil && r.Ready && !runs(r.Version, o.To.Version) {
				f.Reason = ReasonVersionMismatch
			}
			return f
		}
	}
	if n, ok := ordinal(o.Pod); ok && !seen && n < s.wanted {
		// Since when it is gone nobody knows: it gets the time to go, and that to come.
		return late(o.Pod, ptr.Deref(o.PodSince, time.Time{}).Add(in.Policy.deadline()), in)
	}
	return nil
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}
