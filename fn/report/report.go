// Package report is what the agent in a pod says of its server: one key of the
// ConfigMap `<name>-state` for each pod, named like the pod. A report changes when a
// fact changes, never with the clock.
package report

import (
	"encoding/json"
	"fmt"
)

// A Report of one server.
type Report struct {
	// PodUID is the pod that the report speaks of: a report outlives its pod.
	PodUID string `json:"podUID"`
	// BootID is new at each start of the server.
	BootID string `json:"bootID,omitempty"`
	// Version that the server says it is.
	Version string `json:"version,omitempty"`
	// Ready says that clients can use the server.
	Ready bool `json:"ready,omitempty"`
	// Replication by peer and suffix.
	Replication map[string]map[string]Agreement `json:"replication,omitempty"`
	// Refusal is why the server is not started on this volume.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// An Agreement is the state of replication of one suffix with one peer.
type Agreement struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// StateHealthy is the state of an agreement that replicates.
const StateHealthy = "Healthy"

// A Refusal says why an agent does not start its server. It is the container's
// termination message too.
type Refusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Parse reads a report.
func Parse(doc string) (Report, error) {
	r := Report{}
	if err := json.Unmarshal([]byte(doc), &r); err != nil {
		return Report{}, fmt.Errorf("cannot parse an agent's report: %w", err)
	}
	return r, nil
}

// ParseRefusal reads a termination message; false where it is something else.
func ParseRefusal(message string) (Refusal, bool) {
	r := Refusal{}
	if len(message) == 0 || message[0] != '{' || json.Unmarshal([]byte(message), &r) != nil || r.Reason == "" {
		return Refusal{}, false
	}
	return r, true
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
