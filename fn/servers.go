package fn

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// rolloutOf is what the StatefulSet says of its servers.
func rolloutOf(state *observed.State, templates *compose.Templates) upgrade.Rollout {
	sts := state.StatefulSet
	if sts == nil {
		return upgrade.Rollout{}
	}
	r := upgrade.Rollout{
		Exists:          true,
		Wanted:          ptr.Deref(sts.Spec.Replicas, 1),
		Current:         sts.Status.ObservedGeneration == sts.GetGeneration(),
		Pods:            sts.Status.Replicas,
		Ready:           sts.Status.ReadyReplicas,
		Updated:         sts.Status.UpdatedReplicas,
		UpdateRevision:  sts.Status.UpdateRevision,
		CurrentRevision: sts.Status.CurrentRevision,
		OnDelete:        sts.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
	}
	if u := sts.Spec.UpdateStrategy.RollingUpdate; u != nil {
		r.Partition = ptr.Deref(u.Partition, 0)
	}
	r.Running.Version = sts.GetLabels()[naming.LabelVersion]
	if r.Running.Template = templates.Present(); r.Running.Template != "" {
		// What it was given: the live one may have been changed by hand, or by a webhook
		// that knows a nearer registry.
		r.Running.Image = templates.PresentImage()
		return r
	}
	for _, c := range sts.Spec.Template.Spec.Containers {
		if c.Name == naming.Container {
			r.Running.Image = c.Image
		}
	}
	return r
}

// podsOf the service, as far as a rollout cares. Labels are anybody's: a pod that
// something else controls is none of them.
func podsOf(state *observed.State, now time.Time) []upgrade.Pod {
	out := make([]upgrade.Pod, 0, len(state.Pods.Value))
	for i := range state.Pods.Value {
		pod := &state.Pods.Value[i]
		ordinal, err := strconv.ParseInt(strings.TrimPrefix(pod.GetName(), state.Identity.StatefulSet()+"-"), 10, 32)
		owner := metav1.GetControllerOfNoCopy(pod)
		if err != nil || pod.GetName() != state.Identity.Pod(int32(ordinal)) ||
			owner != nil && (owner.Kind != "StatefulSet" || owner.Name != state.Identity.StatefulSet()) {
			continue
		}
		p := upgrade.Pod{
			Name:     pod.GetName(),
			Ordinal:  int32(ordinal),
			UID:      string(pod.GetUID()),
			Revision: pod.GetLabels()[appsv1.StatefulSetRevisionLabel],
			Created:  pod.GetCreationTimestamp().Time,
		}
		if deleted := pod.GetDeletionTimestamp(); deleted != nil {
			p.Terminating, p.Deleted = true, deleted.Time
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				p.Ready = c.Status == corev1.ConditionTrue
				p.Since = c.LastTransitionTime.Time
			}
		}
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for j := range list {
				containerOf(&p, &list[j], now)
			}
		}
		if len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) == 0 {
			// The kubelet has not seen it yet: it is of the present template, or little older.
			p.HasAgent = templateHasAgent(state.StatefulSet)
		}
		p.Report = reportOf(state, pod)
		out = append(out, p)
	}
	return out
}

// templateHasAgent says that the pods which are made now have an agent.
func templateHasAgent(sts *appsv1.StatefulSet) bool {
	return sts != nil && slices.ContainsFunc(sts.Spec.Template.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == naming.AgentContainer
	})
}

// serversOf the service, by ordinal, with what their agents report of them.
func serversOf(state *observed.State, now time.Time) []status.Server {
	pods := podsOf(state, now)
	out := make([]status.Server, 0, len(pods))
	for _, p := range pods {
		out = append(out, status.Server{
			Pod:         p.Name,
			Ordinal:     p.Ordinal,
			HasAgent:    p.HasAgent,
			Ready:       p.Ready && !p.Terminating,
			Terminating: p.Terminating,
			Report:      agentReport(state, p.Name, p.UID),
		})
	}
	slices.SortStableFunc(out, func(a, b status.Server) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return out
}

// containerOf a pod that is not running as it should.
func containerOf(p *upgrade.Pod, c *corev1.ContainerStatus, now time.Time) {
	p.HasAgent = p.HasAgent || c.Name == naming.AgentContainer
	ended, failed := "", false
	for _, t := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
		if t == nil || t.ExitCode == 0 {
			continue
		}
		failed = true
		ended = strings.TrimSpace(t.Message)
		if r, ok := report.ParseRefusal(t.Message); ok {
			p.Refusal = &upgrade.Refusal{Reason: r.Reason, Message: r.Message}
		} else if ended == "" {
			ended = strings.TrimSpace("exit code " + strconv.Itoa(int(t.ExitCode)) + " " + strings.TrimPrefix(t.Reason, "Error"))
		}
	}
	if p.Waiting != "" {
		return
	}
	waiting, detail, noReason := status.WaitingReason(c), "", true
	if w := c.State.Waiting; w != nil {
		detail, noReason = w.Message, w.Reason == ""
	}
	switch {
	case waiting == "RunContainerError" && failed,
		// Between two restarts a crash loop looks like a start.
		noReason && failed && c.RestartCount >= restartsOfLoop && !ranLong(c, now):
		waiting = reasonLoop
	case waiting == "":
		return
	}
	if waiting == reasonLoop {
		// What the kubelet says has the seconds of its back-off in it.
		detail = ended
	}
	p.Waiting, p.Container, p.Message = waiting, "container "+c.Name+", image "+c.Image, detail
}

const (
	reasonLoop = "CrashLoopBackOff"
	// restartsOfLoop: the kubelet restarts a container that failed once without delay.
	restartsOfLoop = 2
)

// ranLong says that a container runs, or did so before it ended, for as long as the
// kubelet takes to forget that it failed before (kubernetes pkg/kubelet, maxContainerBackOff).
func ranLong(c *corev1.ContainerStatus, now time.Time) bool {
	const forgotten = 10 * time.Minute
	if r := c.State.Running; r != nil && !r.StartedAt.IsZero() && now.Sub(r.StartedAt.Time) >= forgotten {
		return true
	}
	t := c.LastTerminationState.Terminated
	return t != nil && !t.StartedAt.IsZero() && t.FinishedAt.Sub(t.StartedAt.Time) >= forgotten
}

// reportOf the agent of this very pod, as far as a rollout cares.
func reportOf(state *observed.State, pod *corev1.Pod) *upgrade.Report {
	r := agentReport(state, pod.GetName(), string(pod.GetUID()))
	if r == nil {
		return nil
	}
	return &upgrade.Report{Version: r.Version, Ready: r.Ready, Replicates: r.Replicates()}
}

// agentReport of the pod with that UID; nil where its agent has not reported yet.
func agentReport(state *observed.State, pod, uid string) *report.Report {
	if state.Reports == nil {
		return nil
	}
	r, err := report.Parse(state.Reports.Data[pod])
	if err != nil || r.PodUID != uid {
		return nil
	}
	return &r
}

// policyOf upgrades.
func policyOf(state *observed.State) upgrade.Policy {
	u := state.Service.Spec.Upgrade
	return upgrade.Policy{
		Paused:              u.Paused,
		ProgressDeadline:    time.Duration(u.ProgressDeadlineSeconds) * time.Second,
		MinReady:            time.Duration(u.MinReadySeconds) * time.Second,
		KeepFailed:          !ptr.Deref(u.AutomaticRollback, true),
		AutomaticPodUpdates: u.PodUpdates == "Automatic",
	}
}

// requestsOf a person, on the XR or, from where Crossplane copies them, the claim.
func requestsOf(state *observed.State) upgrade.Requests {
	a := state.Service.GetAnnotations()
	get := func(name string) string { return a[naming.Annotation(name)] }
	return upgrade.Requests{
		ApprovedTransition: get(upgrade.ApprovedTransition),
		BackupConfirmed:    get(upgrade.BackupConfirmed),
		AllowDegraded:      get(upgrade.AllowDegraded),
		RollbackTo:         get(upgrade.RollbackTo),
		ApplyPodUpdate:     get(upgrade.ApplyPodUpdate),
	}
}
