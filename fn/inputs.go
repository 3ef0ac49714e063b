package fn

import (
	"github.com/389ds/function-directoryservice/apis/input/v1beta1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// This file hands what was observed to the pure packages, in their own types.

func catalogOf(in v1beta1.Input) upgrade.Catalog {
	c := make(upgrade.Catalog, len(in.ImageCatalog))
	for _, i := range in.ImageCatalog {
		c[i.Image] = i.Version
	}
	return c
}

// firstServerOnly: there are, or are to be, several servers, and nothing
// replicates between them. While problems hold the service as it is, the spec
// does not count.
func firstServerOnly(state *observed.State, r upgrade.Rollout, problems []string) bool {
	return max(r.Wanted, r.Pods) > 1 || len(problems) == 0 && *state.Service.Spec.Replicas > 1
}

func composeInputs(state *observed.State, rollout upgrade.Rollout, decision upgrade.Decision, templates *compose.Templates, password compose.DMPassword, suffixes []config.Suffix, report status.Report) compose.Inputs {
	return compose.Inputs{
		Identity:        state.Identity,
		Owner:           state.Service.GetUID(),
		Spec:            &state.Service.Spec,
		Decision:        decision,
		Config:          config.Config{Suffixes: suffixes},
		DMPassword:      password,
		FirstServerOnly: firstServerOnly(state, rollout, nil),
		Available:       report.Available,
		Observed:        state.Composed,
		StatefulSet:     state.StatefulSet,
		WaitToCreate:    !state.LookedUp || report.StorageRefused,
		Operating:       report.Operating,
		Templates:       templates,
		Unstick:         decision.Condemned,
		PodsUnknown:     !state.Pods.Arrived,
	}
}

func reportInputs(state *observed.State, rollout upgrade.Rollout, problems []string, ledger upgrade.Ledger, decision upgrade.Decision, templates *compose.Templates, credential status.Credential, suffixes []config.Suffix) status.Inputs {
	in := status.Inputs{
		Identity:        state.Identity,
		Generation:      state.Generation,
		Spec:            &state.Service.Spec,
		Previous:        state.Service.Status,
		Problems:        problems,
		Ledger:          ledger,
		Decision:        decision,
		Rollout:         rollout,
		Config:          config.Config{Suffixes: suffixes},
		Credential:      credential,
		FirstServerOnly: firstServerOnly(state, rollout, problems),
		Claims:          state.Claims.Value,
		ClaimsArrived:   state.Claims.Arrived,
		Pods:            state.Pods.Value,
		PodsArrived:     state.Pods.Arrived,
	}
	if decision.PodUpdate != "" {
		in.PodUpdateSummary = templates.Difference(decision.Ledger.Good.Image, decision.Ledger.Good.Template)
	}
	if state.StatefulSet != nil && len(state.StatefulSet.Spec.VolumeClaimTemplates) > 0 {
		in.Template = &state.StatefulSet.Spec.VolumeClaimTemplates[0]
	}
	if state.ClientService != nil {
		in.LoadBalancer = state.ClientService.Status.LoadBalancer
		for _, p := range state.ClientService.Spec.Ports {
			switch p.Name {
			case "ldap":
				in.ObservedPorts.LDAP = p.Port
			case "ldaps":
				in.ObservedPorts.LDAPS = p.Port
			}
		}
	}
	return in
}
