package fn

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// recordedSuffixes are those the servers were given before, by the ConfigMap or the
// status: either may be lost, or changed by hand. Servers that never ran hold none.
func recordedSuffixes(state *observed.State, everRan bool) []config.Suffix {
	if !everRan {
		return nil
	}
	var out []config.Suffix
	seen := map[string]bool{}
	if state.Config != nil {
		if c, err := config.Parse(state.Config.Data[config.Key]); err == nil {
			for _, s := range c.Suffixes {
				seen[strings.ToLower(s.Name)] = true
				out = append(out, s)
			}
		}
	}
	for _, s := range state.Service.Status.Suffixes {
		if !seen[strings.ToLower(s.Name)] {
			out = append(out, config.Suffix{Name: s.Name, DN: s.DN, Orphaned: s.State == v1alpha1.SuffixOrphaned})
		}
	}
	return out
}

// founded are the names of the suffixes whose root entry was created once: those that
// the ledger records, and those that a server has. A service without a memory, that is
// created again over its volumes, counts every suffix as founded: that a volume is
// empty does not say that there is no data elsewhere.
func founded(state *observed.State, ledger upgrade.Ledger, recorded []config.Suffix, servers []status.Server) []string {
	// What a report says of others is nobody's business, and could grow without a bound.
	ours := map[string]bool{}
	for _, s := range state.Service.Spec.Suffixes {
		ours[s.Name] = true
	}
	for _, s := range recorded {
		ours[s.Name] = true
	}
	names := map[string]bool{}
	for _, n := range ledger.Founded {
		names[n] = true
	}
	for _, s := range servers {
		if s.Report == nil {
			continue
		}
		for n, r := range s.Report.Suffixes {
			if r.Founded && ours[n] {
				names[n] = true
			}
		}
	}
	if ledger.Good == nil && ledger.Operation == nil && claimsBefore(state) {
		for _, s := range state.Service.Spec.Suffixes {
			names[s.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// claimsBefore says that there is a volume claim which is older than the StatefulSet.
func claimsBefore(state *observed.State) bool {
	for i := range state.Claims.Value {
		c := &state.Claims.Value[i]
		if state.StatefulSet == nil || c.CreationTimestamp.Before(&state.StatefulSet.CreationTimestamp) {
			return true
		}
	}
	return false
}

// refounded is the suffix that a person says may be created anew, empty, although it was
// founded before; "" while any server holds data of it, or might.
func refounded(state *observed.State, servers []status.Server) string {
	name := strings.TrimSpace(state.Service.GetAnnotations()[naming.Annotation(status.AllowRefound)])
	if name == "" || len(servers) < int(*state.Service.Spec.Replicas) {
		return ""
	}
	for _, s := range servers {
		if s.Report == nil || s.Report.Suffixes[name].State == "" || s.Report.Suffixes[name].Initialized {
			return ""
		}
	}
	return name
}

// withFounded tells the servers which suffixes were founded.
func withFounded(suffixes []config.Suffix, founded []string, refounded string) []config.Suffix {
	out := slices.Clone(suffixes)
	for i := range out {
		out[i].Founded = out[i].Name != refounded && slices.Contains(founded, out[i].Name)
	}
	return out
}

// configured are the suffixes of the spec, then those that were taken off it: a
// suffix is never dropped (R6).
func configured(spec []v1alpha1.Suffix, recorded []config.Suffix) []config.Suffix {
	out := make([]config.Suffix, 0, len(spec)+len(recorded))
	listed := make(map[string]bool, len(spec))
	for _, s := range spec {
		listed[strings.ToLower(s.Name)] = true
		out = append(out, config.Suffix{Name: s.Name, DN: s.DN, CreateEntry: *s.CreateEntry})
	}
	var orphans []config.Suffix
	for _, s := range recorded {
		if !listed[strings.ToLower(s.Name)] {
			orphans = append(orphans, config.Suffix{Name: s.Name, DN: s.DN, Orphaned: true})
		}
	}
	slices.SortFunc(orphans, func(a, b config.Suffix) int { return cmp.Compare(a.Name, b.Name) })
	return append(out, orphans...)
}
