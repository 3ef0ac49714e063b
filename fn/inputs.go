package fn

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/apis/input/v1beta1"
	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// This file hands what was observed to the pure packages, in their own types.

// upgradeInputs are what a decision on the release is made from.
type upgradeInputs struct {
	now       time.Time
	state     *observed.State
	ledger    upgrade.Ledger
	begun     *upgrade.Operation
	target    upgrade.Release
	refusal   *upgrade.Refusal
	rollout   upgrade.Rollout
	templates *compose.Templates
	held      bool
}

func (u upgradeInputs) inputs() upgrade.Inputs {
	in := upgrade.Inputs{
		Now:      u.now,
		Ledger:   u.ledger,
		Begun:    u.begun,
		Held:     u.held,
		Target:   u.target,
		Refusal:  u.refusal,
		Replicas: *u.state.Service.Spec.Replicas,
		Policy:   policyOf(u.state),
		Requests: requestsOf(u.state),
		Rollout:  u.rollout,
		Pods:     podsOf(u.state, u.now),
		Arrived:  u.state.Pods.Arrived,
		Template: u.templates.Name,
		Stored:   u.templates.Stored,
	}
	if u.held {
		in.Template = func(upgrade.Release) string { return "" }
	}
	return in
}

// resolveTarget is what the spec asks for; while it cannot be read, what it asked for.
func resolveTarget(state *observed.State) (upgrade.Release, *upgrade.Refusal) {
	if !state.SpecReadable {
		return targetOf(&state.Service.Status), nil
	}
	return upgrade.ResolveTarget(state.Service.Spec.Image, state.Service.Spec.Version, catalogOf(state.Input))
}

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
		Identity: state.Identity,
		Owner:    state.Service.GetUID(),
		Spec:     &state.Service.Spec,
		Decision: decision,
		Config: config.Config{
			Suffixes:          suffixes,
			DatabaseMigration: state.Service.Spec.Upgrade.DatabaseMigration == v1alpha1.DatabaseMigrationAutomatic,
			BackupConfirmed:   strings.TrimSpace(requestsOf(state).BackupConfirmed),
		},
		DMPassword:      password,
		FirstServerOnly: firstServerOnly(state, rollout, nil),
		Available:       report.Available,
		Observed:        state.Composed,
		StatefulSet:     state.StatefulSet,
		Reported:        state.Reports != nil,
		WaitToCreate:    !state.LookedUp || !state.Claims.Arrived || report.StorageRefused,
		Operating:       report.Operating,
		Templates:       templates,
		Unstick:         decision.Condemned,
		PodsUnknown:     !state.Pods.Arrived,
		Grow:            growthOf(state, report),
		ClaimsUnknown:   !state.Claims.Arrived,
		EndedJobs:       endedJobs(state),
	}
}

// growthOf is nil where no volume is too small.
func growthOf(state *observed.State, report status.Report) *compose.Growth {
	if len(report.Grow) == 0 {
		return nil
	}
	g := &compose.Growth{Size: *state.Service.Spec.Storage.Size}
	for _, c := range report.Grow {
		g.Claims = append(g.Claims, c.GetName())
		g.UIDs = append(g.UIDs, string(c.GetUID()))
	}
	return g
}

// endedJobs have failed for good, or did their work before there was more of it.
func endedJobs(state *observed.State) map[string]struct{} {
	out := map[string]struct{}{}
	for key, job := range state.ResizeJobs {
		if jobHas(job, batchv1.JobFailed) || jobHas(job, batchv1.JobComplete) {
			out[key] = struct{}{}
		}
	}
	return out
}

func jobHas(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// resizeFailed says that a Job that grows volumes to the size of the spec gave up.
func resizeFailed(state *observed.State) bool {
	for _, job := range state.ResizeJobs {
		if jobHas(job, batchv1.JobFailed) && status.Grows(job.Spec.Template.GetAnnotations(), &state.Service.Spec) {
			return true
		}
	}
	return false
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
		ResizePods:      state.ResizePods.Value,
		ResizeFailed:    resizeFailed(state),
	}
	if decision.PodUpdate != "" {
		in.PodUpdateSummary = templates.Difference(*decision.Ledger.Good)
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
