package upgrade

import (
	"fmt"
	"strings"
)

// Names of the annotations by which a person decides, after the API group and a
// slash.
const (
	ApprovedTransition = "approved-transition"
	BackupConfirmed    = "backup-confirmed"
	AllowDegraded      = "allow-degraded"
	RollbackTo         = "rollback-to"
	ApplyPodUpdate     = "apply-pod-update"
)

// Requests are what a person asks for by annotations, as they were written.
type Requests struct {
	ApprovedTransition string
	BackupConfirmed    string
	AllowDegraded      string
	RollbackTo         string
	ApplyPodUpdate     string
}

// A Transition is a pair of versions, `current->target`.
type Transition struct {
	From, To string
}

// transition of two releases. Where a version is unknown the image stands for it.
func transition(from, to Release) Transition {
	return Transition{From: from.name(), To: to.name()}
}

// TransitionOf two releases, as approvals name it.
func TransitionOf(from, to Release) string { return transition(from, to).String() }

// String is the pair as approvals name it.
func (t Transition) String() string { return t.From + "->" + t.To }

// named says whether an annotation names exactly this pair, after trimming spaces
// and one leading v on each side.
func (t Transition) named(annotation string) bool {
	from, to, ok := strings.Cut(annotation, "->")
	return ok && normalise(strings.TrimSpace(from)) == normalise(t.From) && normalise(strings.TrimSpace(to)) == normalise(t.To)
}

// missing are the approvals that the gating table asks for and that were not given.
func (t Transition) missing(c Class, r Requests) []string {
	if !c.NeedsApproval() {
		return nil
	}
	var out []string
	if !t.named(r.ApprovedTransition) {
		out = append(out, ApprovedTransition)
	}
	if !t.named(r.BackupConfirmed) {
		out = append(out, BackupConfirmed)
	}
	return out
}

// gate asks for the approvals of a transition.
func gate(from, to Release, r Requests) *Refusal {
	t, class := transition(from, to), Classify(from.Version, to.Version)
	missing := t.missing(class, r)
	if len(missing) == 0 {
		return nil
	}
	return &Refusal{
		Reason:   ReasonApprovalRequired,
		Message:  fmt.Sprintf("%s is a %s and waits for your approval", t, class.words()),
		Annotate: annotations(missing, t.String()),
	}
}

// annotations that a person has to set, all to one value.
func annotations(names []string, value string) []Annotation {
	out := make([]Annotation, len(names))
	for i, n := range names {
		out[i] = Annotation{Name: n, Value: value}
	}
	return out
}

func (c Class) words() string {
	switch c {
	case ClassMinorDown:
		return "minor downgrade"
	case ClassMajorUp:
		return "major upgrade"
	case ClassMajorDown:
		return "major downgrade"
	case ClassMinorUp:
		return "minor upgrade"
	case ClassPatchUp:
		return "patch upgrade"
	case ClassPatchDown:
		return "patch downgrade"
	case ClassSame:
		return "change of the image within one version"
	case ClassUnknown:
		return "change between images whose versions are not known"
	case ClassPodUpdate:
		return "change of the pods"
	}
	return string(c)
}
