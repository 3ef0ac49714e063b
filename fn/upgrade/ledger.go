package upgrade

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Release is a version of the directory server and the image it comes in.
type Release struct {
	// Version without a leading v; "" where nobody knows it.
	Version string `json:"version,omitempty"`
	// Image as the spec names it.
	Image string `json:"image"`
	// Template is the hash of the pod template it ran with.
	Template string `json:"template,omitempty"`
}

// A Ledger is the function's memory: the annotation on the StatefulSet that is
// written in the same apply as the image it speaks of. XR status is only a
// projection of it. Times are RFC 3339, UTC, whole seconds.
type Ledger struct {
	// Good is the last release that was seen healthy.
	Good *Release `json:"good,omitempty"`
	// Operation that runs.
	Operation *Operation `json:"operation,omitempty"`
	// Rejected is the target that failed and is not tried again.
	Rejected *Rejected `json:"rejected,omitempty"`
	// RollbackTo is the consumed rollback request.
	RollbackTo string `json:"rollbackTo,omitempty"`
	// Founded are the names of the suffixes whose root entry was created.
	Founded []string `json:"founded,omitempty"`
	// History of the operations, newest first, at most 10.
	History []HistoryEntry `json:"history,omitempty"`
}

// An Operation is a change of the pods that is under way.
type Operation struct {
	ID        string        `json:"id"`
	Kind      OperationKind `json:"kind"`
	From      Release       `json:"from"`
	To        Release       `json:"to"`
	StartedAt time.Time     `json:"startedAt"`
	// Pod is the one being replaced, since PodSince.
	Pod      string     `json:"pod,omitempty"`
	PodSince *time.Time `json:"podSince,omitempty"`
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

// Rejected is a release that failed.
type Rejected struct {
	Release

	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// A HistoryEntry is an operation that ended.
type HistoryEntry struct {
	From        Release   `json:"from"`
	To          Release   `json:"to"`
	Result      Result    `json:"result"`
	Reason      string    `json:"reason,omitempty"`
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
func Recover(annotation string, status Release) Ledger {
	l, err := ParseLedger(annotation)
	if err != nil {
		l = Ledger{}
	}
	if l.Good == nil && status.Image != "" {
		l.Good = &Release{Version: status.Version, Image: status.Image}
	}
	return l
}
