package fn

import (
	"cmp"
	"slices"
	"strings"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/observed"
)

// recordedSuffixes are those the servers were given before: from the ConfigMap,
// and, where that is gone or unreadable, from the status.
func recordedSuffixes(state *observed.State) []config.Suffix {
	if state.Config != nil {
		if c, err := config.Parse(state.Config.Data[config.Key]); err == nil {
			return c.Suffixes
		}
	}
	out := make([]config.Suffix, 0, len(state.Service.Status.Suffixes))
	for _, s := range state.Service.Status.Suffixes {
		out = append(out, config.Suffix{Name: s.Name, DN: s.DN, Orphaned: s.State == v1alpha1.SuffixOrphaned})
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
