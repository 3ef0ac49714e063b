package status

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// AllowRefound is the annotation that names a suffix whose data are lost and which may be
// created anew, empty.
const AllowRefound = "allow-refound"

// suffixes as their servers report them (R6).
func suffixes(in Inputs) []v1alpha1.SuffixStatus {
	out := make([]v1alpha1.SuffixStatus, 0, len(in.Config.Suffixes))
	for _, s := range in.Config.Suffixes {
		st := v1alpha1.SuffixStatus{
			Name: s.Name, DN: s.DN,
			Founded: slices.Contains(in.Decision.Ledger.Founded, s.Name),
		}
		st.State, st.Message = suffixState(in, s)
		out = append(out, st)
	}
	return out
}

// suffixState is the worst of what the servers say. A new suffix is Ready when every
// server has it; later a server that is down, and says nothing, changes nothing.
func suffixState(in Inputs, s config.Suffix) (v1alpha1.SuffixState, string) {
	if s.Orphaned {
		return v1alpha1.SuffixOrphaned, ""
	}
	wanted := *in.Spec.Replicas
	if len(in.Problems) > 0 {
		wanted = in.Rollout.Wanted
	}
	waiting, ready := "", int32(0)
	for _, server := range in.Servers {
		if server.Report == nil || server.Ordinal >= wanted {
			continue
		}
		r := server.Report.Suffixes[s.Name]
		switch r.State {
		case report.SuffixFailed:
			return v1alpha1.SuffixFailed, server.Pod + ": " + r.Message
		case report.SuffixReady:
			ready++
		case report.SuffixWaiting:
			if in.FirstServerOnly && server.Ordinal > 0 {
				// Nobody sends it clients: the condition ReplicationHealthy tells.
				ready++
			} else if waiting == "" {
				waiting = server.Pod + ": " + r.Message
			}
		}
	}
	switch {
	case waiting != "":
		return v1alpha1.SuffixWaiting, waiting
	case ready >= wanted, in.wasReady(s.Name):
		return v1alpha1.SuffixReady, ""
	}
	return v1alpha1.SuffixDeclared, ""
}

// wasReady says that every server had the suffix.
func (in Inputs) wasReady(name string) bool {
	return slices.ContainsFunc(in.Previous.Suffixes, func(s v1alpha1.SuffixStatus) bool {
		return s.Name == name && s.State == v1alpha1.SuffixReady
	})
}

func suffixesReady(in Inputs) Condition {
	c := Condition{Type: TypeSuffixesReady, Status: metav1.ConditionFalse}
	var failed, waiting, declared []string
	listed, lost := 0, ""
	for _, s := range suffixes(in) {
		switch s.State {
		case v1alpha1.SuffixFailed:
			failed = append(failed, fmt.Sprintf("%s (%s): %s", s.Name, s.DN, s.Message))
		case v1alpha1.SuffixWaiting:
			waiting = append(waiting, fmt.Sprintf("%s (%s): %s", s.Name, s.DN, s.Message))
			if lost == "" {
				lost = s.Name
			}
		case v1alpha1.SuffixDeclared:
			declared = append(declared, s.Name)
		case v1alpha1.SuffixReady:
		case v1alpha1.SuffixOrphaned:
			continue
		}
		listed++
	}
	switch {
	case listed == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "NoSuffixes", "The spec lists no suffix"
	case len(failed) > 0:
		c.Bad, c.Reason, c.Message = true, "SuffixFailed", firstOf(failed, "; ")
	case len(waiting) > 0:
		c.Bad, c.Reason = true, "DataMissing"
		c.Message = fmt.Sprintf("%s. Where the data are lost for good, have the suffix created anew, empty, and remove the annotation afterwards: kubectl -n %s annotate dirsrv %s %s=%s --overwrite",
			firstOf(waiting, "; "), in.Identity.Namespace, in.Identity.Name, naming.Annotation(AllowRefound), lost)
	case len(declared) > 0 && in.noAgents():
		c.Status, c.Reason = metav1.ConditionUnknown, "NotManaged"
		c.Message = "The servers' pods were made by a version of the function that did not look after suffixes. Their next change brings the agent that does"
		if hash := in.Decision.PodUpdate; hash != "" {
			c.Message += fmt.Sprintf("; now: kubectl -n %s annotate dirsrv %s %s=%s --overwrite",
				in.Identity.Namespace, in.Identity.Name, naming.Annotation(upgrade.ApplyPodUpdate), hash)
		}
	case len(declared) > 0:
		c.Reason, c.Message = "Creating", "Not every server has told yet that it has: "+firstOf(declared, ", ")
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "Ready"
	}
	return c
}

// noAgents says that there are servers, and none of them has an agent.
func (in Inputs) noAgents() bool {
	return len(in.Servers) > 0 && !slices.ContainsFunc(in.Servers, func(s Server) bool { return s.HasAgent })
}
