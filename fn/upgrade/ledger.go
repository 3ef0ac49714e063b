package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Release is a version of the directory server, the image it comes in and the
// pod template it runs with.
type Release struct {
	// Version without a leading v; "" where nobody knows it.
	Version string `json:"version,omitempty"`
	// Image as the spec names it.
	Image string `json:"image"`
	// Template names the pod template: see TemplateID.
	Template string `json:"template,omitempty"`
}

// samePair says that version and image are the same.
func (r Release) samePair(o Release) bool { return r.Version == o.Version && r.Image == o.Image }

// name is the version, or the image where the version is unknown.
func (r Release) name() string {
	if r.Version != "" {
		return r.Version
	}
	return r.Image
}

// String tells version and image.
func (r Release) String() string {
	if r.Version == "" {
		return r.Image
	}
	return r.Version + " (" + r.Image + ")"
}

// TemplateID names a pod template by two hashes: of the inputs, those fields of the
// spec that a pod must be restarted for, and of the template that a function made
// of them. A newer function may make another template of the same inputs (R44).
func TemplateID(inputs, rendering []byte) string {
	return shortHash(inputs) + "-" + shortHash(rendering)
}

// NamesTemplate says whether a name is that of a rendering, whatever it was made of.
func NamesTemplate(name string, rendering []byte) bool {
	_, r, ok := strings.Cut(name, "-")
	return ok && r == shortHash(rendering)
}

func shortHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// sameInputs says that two templates were made of the same fields of the spec.
func sameInputs(a, b string) bool {
	x, _, _ := strings.Cut(a, "-")
	y, _, _ := strings.Cut(b, "-")
	return x == y
}

// sameRendering says that two templates are the same, whatever they were made of.
func sameRendering(a, b string) bool {
	_, x, ok := strings.Cut(a, "-")
	_, y, both := strings.Cut(b, "-")
	return ok && both && x == y
}

// A Ledger is the function's memory: the annotation on the StatefulSet that is
// written in the same apply as the image it speaks of. XR status is only a
// projection of it. Times are RFC 3339, UTC, whole seconds.
type Ledger struct {
	// Good is the last release that was seen healthy.
	Good *Release `json:"good,omitempty"`
	// Operation that runs.
	Operation *Operation `json:"operation,omitempty"`
	// Rejected is the target that is not tried again.
	Rejected *Rejected `json:"rejected,omitempty"`
	// RejectedPods is the update of the pods alone that is not tried again.
	RejectedPods *Rejected `json:"rejectedPods,omitempty"`
	// RollbackTo is the consumed rollback request.
	RollbackTo string `json:"rollbackTo,omitempty"`
	// Founded are the names of the suffixes whose root entry was created.
	Founded []string `json:"founded,omitempty"`
	// History of the operations, newest first, at most 10.
	History []HistoryEntry `json:"history,omitempty"`
}

// An Operation is a change of the pods that is under way.
type Operation struct {
	ID   string        `json:"id"`
	Kind OperationKind `json:"kind"`
	From Release       `json:"from"`
	To   Release       `json:"to"`
	// StartedAt is when the change began that this operation makes or takes back.
	StartedAt time.Time `json:"startedAt"`
	// Pod is the one being replaced, since PodSince. Pods above it were replaced,
	// those below it were not.
	Pod      string     `json:"pod,omitempty"`
	PodSince *time.Time `json:"podSince,omitempty"`
	// Mend says that pods which are not Ready are replaced first, each by being
	// deleted, and none that is Ready.
	Mend bool `json:"mend,omitempty"`
	// Degraded says that the operation was allowed to start on a service with
	// servers missing.
	Degraded bool `json:"degraded,omitempty"`
	// Reason and Message tell why From is being left, in a rollback.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// An OperationKind says why pods change.
type OperationKind string

// The kinds of operation.
const (
	OperationUpgrade        OperationKind = "Upgrade"
	OperationPodUpdate      OperationKind = "PodUpdate"
	OperationRollback       OperationKind = "Rollback"
	OperationManualRollback OperationKind = "ManualRollback"
)

// Rejected is a release that is not tried again until the spec names another one
// in between (R36).
type Rejected struct {
	Release

	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}

// A HistoryEntry is an operation that ended.
type HistoryEntry struct {
	From        Release   `json:"from"`
	To          Release   `json:"to"`
	Result      Result    `json:"result"`
	Reason      string    `json:"reason,omitempty"`
	Message     string    `json:"message,omitempty"`
	StartedAt   time.Time `json:"startedAt"`
	CompletedAt time.Time `json:"completedAt"`
}

// A Result is how an operation ended.
type Result string

// The results.
const (
	ResultSucceeded  Result = "Succeeded"
	ResultRolledBack Result = "RolledBack"
	ResultFailed     Result = "Failed"
	ResultSuperseded Result = "Superseded"
)

// maxHistory is how many entries are kept (R32).
const maxHistory = 10

// ended records an operation.
func (l *Ledger) ended(e HistoryEntry) {
	l.History = append([]HistoryEntry{e}, l.History...)
	if len(l.History) > maxHistory {
		l.History = l.History[:maxHistory]
	}
}

// recorded is the release of that version that the service has run, with the image
// it had then; nil where there was none.
func (l *Ledger) recorded(version string) *Release {
	if l.Good != nil && l.Good.Version == version {
		return l.Good
	}
	for i := range l.History {
		e := &l.History[i]
		if e.Result == ResultSucceeded && e.To.Version == version {
			return &e.To
		}
		if e.From.Version == version {
			return &e.From
		}
	}
	return nil
}

// clone shares nothing that a decision changes.
func (l Ledger) clone() Ledger {
	c := l
	if l.Good != nil {
		g := *l.Good
		c.Good = &g
	}
	if l.Operation != nil {
		o := *l.Operation
		c.Operation = &o
	}
	if l.Rejected != nil {
		r := *l.Rejected
		c.Rejected = &r
	}
	if l.RejectedPods != nil {
		r := *l.RejectedPods
		c.RejectedPods = &r
	}
	c.History = slices.Clone(l.History)
	return c
}

// ParseLedger reads the annotation. "" is an empty ledger.
func ParseLedger(annotation string) (Ledger, error) {
	l := Ledger{}
	if annotation == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(annotation), &l); err != nil {
		return Ledger{}, fmt.Errorf("cannot parse the upgrade ledger: %w", err)
	}
	return l, nil
}

// String is the annotation; the same Ledger always gives the same bytes.
func (l Ledger) String() (string, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("cannot write the upgrade ledger: %w", err)
	}
	return string(b), nil
}

// Recover is the ledger of a service: what the StatefulSet carries; where that is
// lost or unreadable, what the status projected from it; else nothing is known.
func Recover(annotation string, projected Ledger) Ledger {
	l, err := ParseLedger(annotation)
	if err != nil || annotation == "" {
		l = projected
	}
	if l.Good != nil && l.Good.Image == "" {
		l.Good = nil
	}
	if l.Good == nil && projected.Good != nil && projected.Good.Image != "" {
		l.Good = projected.Good
	}
	if o := l.Operation; o != nil && (o.To.Image == "" || o.From.Image == "" || l.Good == nil) {
		l.Operation = nil
	}
	return l
}
