package fn

import (
	"cmp"
	"slices"
	"strings"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/observed"
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
