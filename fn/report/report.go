// Package report is what the agent in a pod says of its server: one key of the
// ConfigMap `<name>-state` for each pod, named like the pod. A report changes when a
// fact changes, never with the clock.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// A Report of one server.
type Report struct {
	// PodUID is the pod that the report speaks of: a report outlives its pod.
	PodUID string `json:"podUID"`
	// BootID is new at each start of the server.
	BootID string `json:"bootID,omitempty"`
	// Version that the server says it is.
	Version string `json:"version,omitempty"`
	// Ready says that clients can use the server; Message says why they cannot.
	Ready   bool   `json:"ready,omitempty"`
	Message string `json:"message,omitempty"`
	// Applied is what the server runs with.
	Applied Applied `json:"applied,omitzero"`
	// Restart names what only a restart would apply, for a permit to name; "" where
	// nothing waits for one.
	Restart string `json:"restart,omitempty"`
	// Config is the hash of the document that was applied last (config.Hash).
	Config string `json:"config,omitempty"`
	// DMPassword says that the Directory Manager can bind with the password of the
	// mounted Secret; TLS, that LDAPS serves the mounted certificate.
	DMPassword Part `json:"dmPassword,omitzero"`
	TLS        Part `json:"tls,omitzero"`
	// Suffixes by name.
	Suffixes map[string]Suffix `json:"suffixes,omitempty"`
	// Replication by peer and suffix.
	Replication map[string]map[string]Agreement `json:"replication,omitempty"`
	// Refusal is why the server is not started on this volume.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Applied is what a server runs with.
type Applied struct {
	// TLS is the hash of the TLS material that LDAPS serves (config.TLSHash).
	TLS string `json:"tls,omitempty"`
	// Restart is the hash of the last permitted restart that was carried out.
	Restart string `json:"restart,omitempty"`
}

// A Part of a server's configuration.
type Part struct {
	// State is StateApplied, StatePending or StateFailed; "" where nothing is known yet.
	State string `json:"state,omitempty"`
	// Message says what is wrong and what to do.
	Message string `json:"message,omitempty"`
}

// States of a part.
const (
	StateApplied = "Applied"
	// StatePending: it is applied later by itself, with a restart that is permitted.
	StatePending = "Pending"
	StateFailed  = "Failed"
)

// A Suffix of one server.
type Suffix struct {
	// State is SuffixReady, SuffixWaiting or SuffixFailed.
	State string `json:"state"`
	// Message says what is wrong, or what is waited for.
	Message string `json:"message,omitempty"`
	// Founded says that the root entry exists. Initialized says that the server has
	// the suffix's data: its own, or a peer's.
	Founded     bool `json:"founded,omitempty"`
	Initialized bool `json:"initialized,omitempty"`
}

// States of a suffix.
const (
	SuffixReady = "Ready"
	// SuffixWaiting: the backend is there and empty; the data have to come from a peer,
	// or a person has to say that they are lost.
	SuffixWaiting = "Waiting"
	SuffixFailed  = "Failed"
)

// An Agreement is the state of replication of one suffix with one peer.
type Agreement struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// StateHealthy is the state of an agreement that replicates.
const StateHealthy = "Healthy"

// Reasons of refusals. Each is found before anything on the volume was changed (R42).
const (
	// RefusalVersionMismatch: the image contains another version than the pod is for.
	RefusalVersionMismatch = "VersionMismatch"
	// RefusalDatabaseBackendUnsupported: the server in the image cannot read the database.
	RefusalDatabaseBackendUnsupported = "DatabaseBackendUnsupported"
	// RefusalUncleanDatabase: the database was not closed cleanly; the old version has
	// to start and stop once before it is migrated.
	RefusalUncleanDatabase = "UncleanDatabase"
	// RefusalRollbackLosesWrites: the old database lacks what was written since.
	RefusalRollbackLosesWrites = "RollbackLosesWrites"
	// RefusalUnreadableConfig: there is no configuration that the older version can read.
	RefusalUnreadableConfig = "UnreadableConfig"
	// RefusalTLSUnsupported: this version crashes with a certificate.
	RefusalTLSUnsupported = "TLSUnsupported"
)

// A Refusal says why an agent does not start its server. It is the container's
// termination message too.
type Refusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Bounds of what is read of a report: a pod that was taken over must neither fill the
// service's status nor put words into it that look like a command of ours.
const (
	maxReport  = 256 << 10
	maxMessage = 800
	maxWord    = 80
)

// Parse reads a report. Messages come back as one line of a bounded length.
func Parse(doc string) (Report, error) {
	if len(doc) > maxReport {
		return Report{}, fmt.Errorf("an agent's report has %d bytes and may have %d", len(doc), maxReport)
	}
	r := Report{}
	if err := json.Unmarshal([]byte(doc), &r); err != nil {
		return Report{}, fmt.Errorf("cannot parse an agent's report: %w", err)
	}
	for _, word := range []*string{&r.Version, &r.Config, &r.Restart, &r.Applied.TLS, &r.Applied.Restart, &r.DMPassword.State, &r.TLS.State} {
		*word = tidy(*word, maxWord)
	}
	for _, message := range []*string{&r.Message, &r.DMPassword.Message, &r.TLS.Message} {
		*message = tidy(*message, maxMessage)
	}
	for name, s := range r.Suffixes {
		s.Message = tidy(s.Message, maxMessage)
		r.Suffixes[name] = s
	}
	if r.Refusal != nil {
		*r.Refusal = r.Refusal.tidy()
	}
	return r, nil
}

func (r Refusal) tidy() Refusal {
	return Refusal{Reason: tidy(r.Reason, maxWord), Message: tidy(r.Message, maxMessage)}
}

// tidy a text of others: printable, on one line, cut.
func tidy(s string, most int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// ParseRefusal reads a termination message; false where it is something else.
func ParseRefusal(message string) (Refusal, bool) {
	r := Refusal{}
	if len(message) == 0 || message[0] != '{' || json.Unmarshal([]byte(message), &r) != nil || r.Reason == "" {
		return Refusal{}, false
	}
	return r.tidy(), true
}

// String is the report as the agent writes it: the same Report always gives the same
// bytes.
func (r Report) String() (string, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("cannot write an agent's report: %w", err)
	}
	return string(b), nil
}

// Replicates says that no agreement of the server is broken.
func (r Report) Replicates() bool {
	for _, suffixes := range r.Replication {
		for _, a := range suffixes {
			if a.State != StateHealthy {
				return false
			}
		}
	}
	return true
}
