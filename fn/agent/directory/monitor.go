package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// Stats are the server's own counters since its start.
type Stats struct {
	StartTime          time.Time
	Threads            uint64
	CurrentConnections uint64
	TotalConnections   uint64
	// OperationsInitiated and OperationsCompleted count every kind.
	OperationsInitiated uint64
	OperationsCompleted uint64
	// Operations by kind: bind, search, compare, add, delete, modify, rename.
	Operations map[string]uint64
	// AnonymousBinds are part of the binds; BindErrors are binds that were refused.
	AnonymousBinds uint64
	BindErrors     uint64
	EntriesSent    uint64
	BytesSent      uint64
	// Backends by name.
	Backends map[string]BackendStats
}

// BackendStats are the counters of one backend's entry cache.
type BackendStats struct {
	EntryCacheHits  uint64
	EntryCacheTries uint64
	// EntryCacheBytes of at most EntryCacheMaxBytes are in use by EntryCacheEntries.
	EntryCacheBytes    uint64
	EntryCacheMaxBytes uint64
	EntryCacheEntries  uint64
}

// kinds of operations, and the counters below cn=snmp,cn=monitor that count them.
var kinds = map[string][]string{
	"bind":    {"anonymousbinds", "unauthbinds", "simpleauthbinds", "strongauthbinds"},
	"search":  {"searchops"},
	"compare": {"compareops"},
	"add":     {"addentryops"},
	"delete":  {"removeentryops"},
	"modify":  {"modifyentryops"},
	"rename":  {"modifyrdnops"},
}

// Stats in two searches.
func (s *Server) Stats(ctx context.Context) (Stats, error) {
	attributes := []string{"starttime", "threads", "currentconnections", "totalconnections", "opsinitiated", "opscompleted", "entriessent", "bytessent", "bindsecurityerrors"}
	for _, counters := range kinds {
		attributes = append(attributes, counters...)
	}
	entries, err := s.search(ctx, "cn=monitor", ldap.ScopeWholeSubtree, "(|(cn=monitor)(cn=snmp))", attributes...)
	if err != nil {
		return Stats{}, fmt.Errorf("cannot read cn=monitor: %w", err)
	}
	backends, err := s.search(ctx, ldbm, ldap.ScopeWholeSubtree, "(cn=monitor)",
		"entrycachehits", "entrycachetries", "currententrycachesize", "maxentrycachesize", "currententrycachecount")
	if err != nil {
		return Stats{}, fmt.Errorf("cannot read the monitors of the backends: %w", err)
	}
	return statsOf(entries, backends), nil
}

func statsOf(server, backends []*ldap.Entry) Stats {
	out := Stats{Operations: make(map[string]uint64, len(kinds)), Backends: make(map[string]BackendStats, len(backends))}
	for _, e := range server {
		switch strings.ToLower(e.DN) {
		case "cn=monitor":
			// Generalized time, which is UTC here.
			out.StartTime, _ = time.Parse("20060102150405Z", e.GetEqualFoldAttributeValue("starttime"))
			out.Threads = count(e, "threads")
			out.CurrentConnections = count(e, "currentconnections")
			out.TotalConnections = count(e, "totalconnections")
			out.OperationsInitiated = count(e, "opsinitiated")
			out.OperationsCompleted = count(e, "opscompleted")
			out.EntriesSent = count(e, "entriessent")
			out.BytesSent = count(e, "bytessent")
		case "cn=snmp,cn=monitor":
			for kind, counters := range kinds {
				for _, c := range counters {
					out.Operations[kind] += count(e, c)
				}
			}
			out.AnonymousBinds = count(e, "anonymousbinds")
			out.BindErrors = count(e, "bindsecurityerrors")
		}
	}
	for _, e := range backends {
		name, ok := belowBackend(e.DN, "cn=monitor")
		if !ok {
			continue // the database's own
		}
		out.Backends[name] = BackendStats{
			EntryCacheHits:     count(e, "entrycachehits"),
			EntryCacheTries:    count(e, "entrycachetries"),
			EntryCacheBytes:    count(e, "currententrycachesize"),
			EntryCacheMaxBytes: count(e, "maxentrycachesize"),
			EntryCacheEntries:  count(e, "currententrycachecount"),
		}
	}
	return out
}

// count is 0 where there is no number, or a negative one: "unlimited".
func count(e *ldap.Entry, attribute string) uint64 {
	n, err := strconv.ParseUint(e.GetEqualFoldAttributeValue(attribute), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// number is 0 where there is none.
func number(e *ldap.Entry, attribute string) int {
	n, err := strconv.Atoi(e.GetEqualFoldAttributeValue(attribute))
	if err != nil {
		return 0
	}
	return n
}

// Counts tells, for each DN of a suffix, how much is there at a glance: 0 without a root
// entry, else 1 and the number of entries directly below it. One search each. What
// cannot be counted now, such as during an import, is not in the map.
func (s *Server) Counts(ctx context.Context, dns []string) (map[string]int, error) {
	out := make(map[string]int, len(dns))
	var failed []error
	for _, dn := range dns {
		n, err := s.rootEntry(ctx, dn)
		switch {
		case err == nil:
			out[dn] = n
		case answered(err):
			failed = append(failed, fmt.Errorf("cannot count the entries of %s: %w", dn, err))
		default:
			return nil, fmt.Errorf("cannot count the entries of %s: %w", dn, err)
		}
	}
	return out, errors.Join(failed...)
}

// rootEntry is 0 where there is none, else 1 and the number of its children.
func (s *Server) rootEntry(ctx context.Context, dn string) (int, error) {
	entries, err := s.search(ctx, dn, ldap.ScopeBaseObject, "(objectClass=*)", "numSubordinates")
	n := 0
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
	case err != nil:
		return 0, err
	case len(entries) > 0:
		n = 1 + number(entries[0], "numSubordinates")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooted[normal(dn)] = n > 0
	return n, nil
}
