package upgrade_test

import (
	"fmt"
	"strings"
)

type counter int

const (
	nHistories counter = iota
	nSettled
	nSteps
	nCalls
	nStale
	nOverwritten
	nConflicts
	nRefused
	nFaults
	nUpgrades
	nPodUpdates
	nManual
	nDegraded
	nFailed
	nAborted
	nSucceeded
	nRolledBack
	nSuperseded
	nLeft
	nBlocked
	nAdvised
	nRestarted
	nReplaced
	nUnstuck
	counterCount
)

var counterNames = [counterCount]string{
	"histories", "of a service that was up", "steps", "calls", "upon a stale view", "StatefulSet overwritten upon a stale view", "conflicts", "StatefulSet refused", "applies failed",
	"upgrades begun", "pod updates begun", "manual rollbacks", "begun on a degraded service",
	"failed and taken back", "aborted", "succeeded", "rolled back", "superseded", "rollbacks left",
	"calls blocked", "advice followed", "tried again", "pods replaced", "pods unstuck",
}

// stats are what the histories covered.
type stats struct {
	n      [counterCount]int64
	people [peopleCount]int64
	chaos  [chaosCount]int64
	tamper [tamperCount]int64
}

func (s *stats) add(o *stats) {
	for i, n := range o.n {
		s.n[i] += n
	}
	for i, n := range o.people {
		s.people[i] += n
	}
	for i, n := range o.chaos {
		s.chaos[i] += n
	}
	for i, n := range o.tamper {
		s.tamper[i] += n
	}
}

func (s *stats) String() string {
	var parts []string
	part := func(name string, n int64) { parts = append(parts, fmt.Sprintf("%s %d", name, n)) }
	for i, n := range s.n {
		part(counterNames[i], n)
	}
	for i, n := range s.people {
		part(peopleNames[i], n)
	}
	for i, n := range s.chaos {
		part(chaosNames[i], n)
	}
	for i, n := range s.tamper {
		part(tamperNames[i], n)
	}
	return strings.Join(parts, ", ")
}
