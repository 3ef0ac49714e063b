// Package status says what is true of a service: the XR's status, its conditions
// and the events that a person should see. It is pure; equal inputs give equal
// reports, and no message holds a time or a count that moves by itself.
package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// Inputs of a report.
type Inputs struct {
	Identity   naming.Identity
	Generation int64
	Spec       *v1alpha1.DirectoryServiceSpec
	// Previous is the status as it was last written, with its conditions.
	Previous v1alpha1.DirectoryServiceStatus
	// Problems hold the service as it is; empty where the spec is valid.
	Problems []string

	// Ledger as it was observed; Decision has the new one.
	Ledger   upgrade.Ledger
	Decision upgrade.Decision
	Rollout  upgrade.Rollout
	// PodUpdateSummary says in which fields the pod template that waits differs.
	PodUpdateSummary string
	// NoAgentImage says that the function can neither delete a stuck pod nor grow a
	// volume: it knows no image for the Jobs that would.
	NoAgentImage bool
	Config       config.Config
	// Credential is the state of the Directory Manager's password.
	Credential Credential
	// TLS is the state of the servers' certificate.
	TLS TLSMaterial
	// Servers are the pods, by ordinal.
	Servers []Server
	// FirstServerOnly says that clients reach the first server alone.
	FirstServerOnly bool

	// Template is the volume claim template that exists; nil where there is none.
	Template *corev1.PersistentVolumeClaim
	// Claims of the servers, and whether Crossplane has looked them up.
	Claims        []corev1.PersistentVolumeClaim
	ClaimsArrived bool
	// Pods of the servers, and whether Crossplane has looked them up.
	Pods        []corev1.Pod
	PodsArrived bool
	// ResizePods are those of the Job that grows volumes. ResizeFailed says that it gave
	// up.
	ResizePods   []corev1.Pod
	ResizeFailed bool
	// ObservedPorts are those of the client Service that exists; 0 where there is none.
	ObservedPorts v1alpha1.Ports
	// LoadBalancer is the status of the client Service's load balancer.
	LoadBalancer corev1.LoadBalancerStatus
}

// A Credential is what is known of a Secret that a service needs.
type Credential struct {
	// Ref is the Secret that the spec names, or that is generated.
	Ref v1alpha1.SecretKeyRef
	// InUse is the one that the pods refer to: another one while Ref is not usable.
	InUse v1alpha1.SecretKeyRef
	// Brought says that the spec names the Secret.
	Brought bool
	// Generated says that the function made the Secret, or would make it.
	Generated bool
	// Lost says that a generated Secret is gone although servers exist.
	Lost bool
	// Arrived is false until Crossplane has looked the Secret up.
	Arrived bool
	// Exists and Usable: the Secret is there; its key has a value.
	Exists, Usable bool
	// Invalid says that the key has a value that no server can have as a password.
	Invalid bool
}

// A Report is what is true of a service.
type Report struct {
	Status     v1alpha1.DirectoryServiceStatus
	Conditions []Condition
	Events     []Event
	// Available says that a client can use the service now.
	Available bool
	// Operating says that an operation runs, begins or ends in this moment.
	Operating bool
	// StorageRefused says that the spec asks for volumes that cannot be had.
	StorageRefused bool
	// Grow are the claims, sorted, that a Job grows; empty where none is too small. A
	// claim among them may be large enough already.
	Grow []*corev1.PersistentVolumeClaim
	// Steady says that nothing will change by itself: every server is Ready, or
	// there is none until a person acts.
	Steady bool
}

// Of reports on a service.
func Of(in Inputs) Report {
	r := Report{Available: serving(in)}
	r.Conditions = conditions(in, r.Available)
	for _, c := range r.Conditions {
		r.StorageRefused = r.StorageRefused || c.Type == TypeStorageReady && c.Blocks
	}
	if !r.StorageRefused && len(in.Problems) == 0 && len(tooSmall(in)) > 0 {
		r.Grow = in.volumes()
	}
	r.Events = append(transitions(in), events(in.Previous.Conditions, r.Conditions)...)

	st := &r.Status
	st.ObservedGeneration = in.Generation
	st.Phase = phase(in, r.Conditions)
	w := in.Rollout
	r.Steady = w.Exists && w.Current && w.Ready == w.Wanted && w.Updated == w.Wanted && w.Pods == w.Wanted ||
		!w.Exists && st.Phase == v1alpha1.PhaseBlocked
	// An operation that runs, or begins in a moment, has deadlines that no event tells of.
	r.Operating = in.Decision.Ledger.Operation != nil || in.Ledger.Operation != nil
	r.Steady = r.Steady && !r.Operating && in.Decision.Pending == nil
	project(st, in.Decision.Ledger)
	reportUpgrade(st, in)
	st.TargetVersion, st.TargetImage = in.Decision.Target.Version, in.Decision.Target.Image
	st.Replicas, st.ReadyReplicas, st.UpdatedReplicas = in.Rollout.Pods, in.Rollout.Ready, in.Rollout.Updated
	st.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: in.Identity.SelectorLabels()})
	st.Endpoints = endpoints(in)
	st.DMPasswordSecret = &v1alpha1.SecretKeyRef{Name: in.Credential.InUse.Name, Key: in.Credential.InUse.Key}
	st.TLS = tlsStatus(in.TLS)
	st.Servers = servers(in)
	st.Suffixes = suffixes(in)
	return r
}

// serving says that a client can use the service now.
func serving(in Inputs) bool {
	if in.Rollout.Ready == 0 {
		return false
	}
	if !in.FirstServerOnly || !in.PodsArrived {
		return true
	}
	for i := range in.Pods {
		if in.Pods[i].GetName() == in.Identity.Pod(0) {
			return podReady(&in.Pods[i])
		}
	}
	return false
}

// phase is the state in one word: what hurts clients comes before what waits for
// a person.
func phase(in Inputs, conditions []Condition) v1alpha1.Phase {
	blocked := false
	for _, c := range conditions {
		blocked = blocked || c.Bad && c.Blocks
	}
	switch {
	case in.Decision.Ledger.Good == nil && blocked:
		return v1alpha1.PhaseBlocked
	case in.Decision.Ledger.Good == nil:
		return v1alpha1.PhaseInitializing
	case in.Decision.Failure != nil:
		return v1alpha1.PhaseDegraded
	case in.Decision.Ledger.Operation != nil:
		switch in.Decision.Ledger.Operation.Kind {
		case upgrade.OperationRollback, upgrade.OperationManualRollback:
			return v1alpha1.PhaseRollingBack
		case upgrade.OperationUpgrade, upgrade.OperationPodUpdate:
		}
		return v1alpha1.PhaseUpgrading
	case degraded(in):
		return v1alpha1.PhaseDegraded
	case blocked:
		return v1alpha1.PhaseBlocked
	default:
		return v1alpha1.PhaseRunning
	}
}

// degraded: servers are missing. One that is starting for the first time, after a
// scale-up or a drain, is on its way and not missing.
func degraded(in Inputs) bool {
	starting := int32(0)
	for i := range in.Pods {
		if podStarting(&in.Pods[i]) {
			starting++
		}
	}
	r := in.Rollout
	return r.Ready == 0 || r.Current && r.Ready+starting < r.Wanted
}

func endpoints(in Inputs) *v1alpha1.Endpoints {
	host := in.Identity.Service() + "." + in.Identity.Namespace + ".svc"
	ports := in.Spec.Ports
	if len(in.Problems) > 0 && in.ObservedPorts.LDAP != 0 && in.ObservedPorts.LDAPS != 0 {
		ports = in.ObservedPorts
	}
	e := &v1alpha1.Endpoints{
		LDAP:  fmt.Sprintf("ldap://%s:%d", host, ports.LDAP),
		LDAPS: fmt.Sprintf("ldaps://%s:%d", host, ports.LDAPS),
	}
	for _, i := range in.LoadBalancer.Ingress {
		address := i.Hostname
		if address == "" {
			address = i.IP
		}
		if address != "" {
			e.External = append(e.External, address)
		}
	}
	return e
}

// podProblems says of each pod that is not Ready why that is, as far as Kubernetes
// tells, and where to look.
func podProblems(in Inputs) string {
	var out []string
	for i := range in.Pods {
		pod := &in.Pods[i]
		if podReady(pod) {
			continue
		}
		out = append(out, fmt.Sprintf("pod %s: %s", pod.GetName(), in.whyNotReady(pod)))
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, "; ") + fmt.Sprintf(". See: kubectl -n %s describe pod -l %s", in.Identity.Namespace, in.selector())
}

// selector is what a person types to select the service's pods and claims, and no
// other application's of that name.
func (in Inputs) selector() string {
	return fmt.Sprintf("%s=%s,%s=%s", naming.LabelName, naming.ValueName, naming.LabelInstance, in.Identity.Name)
}

// podStarting says that the pod's containers were created, or are about to be,
// and have not passed their startup probe yet.
func podStarting(pod *corev1.Pod) bool {
	if pod.GetDeletionTimestamp() != nil || podReady(pod) || podReason(pod) != reasonNotReady {
		return false
	}
	for _, c := range pod.Status.ContainerStatuses {
		if ptr.Deref(c.Started, false) || c.RestartCount > 0 {
			return false
		}
	}
	return true
}

// reasonNotReady stands where Kubernetes gives no reason.
const reasonNotReady = "NotReady"

// transient waiting reasons of a container are part of every start.
var transient = map[string]bool{"PodInitializing": true, "ContainerCreating": true}

// WaitingReason is why a container does not run; "" where nothing is wrong with that.
// It stays the same as long as the problem does: a kubelet that cannot pull says
// ErrImagePull and ImagePullBackOff in turn.
func WaitingReason(c *corev1.ContainerStatus) string {
	w := c.State.Waiting
	switch {
	case w == nil || transient[w.Reason]:
		return ""
	case w.Reason == "ErrImagePull":
		return "ImagePullBackOff"
	}
	return w.Reason
}

// whyNotReady says what is wrong with a pod: what its agent says where Kubernetes knows
// no more than that it is not Ready.
func (in Inputs) whyNotReady(pod *corev1.Pod) string {
	if r, ok := refusal(pod); ok {
		return r.Reason + ": " + r.Message
	}
	reason := podReason(pod)
	if reason != reasonNotReady {
		return reason
	}
	for _, s := range in.Servers {
		if s.Pod == pod.GetName() && s.Report != nil && s.Report.Message != "" {
			return reason + ": " + s.Report.Message
		}
	}
	return reason
}

// servers as their agents report them.
func servers(in Inputs) []v1alpha1.ServerStatus {
	refused := map[string]report.Refusal{}
	for i := range in.Pods {
		if r, ok := refusal(&in.Pods[i]); ok && !podReady(&in.Pods[i]) {
			refused[in.Pods[i].GetName()] = r
		}
	}
	if len(in.Servers) == 0 {
		return nil
	}
	out := make([]v1alpha1.ServerStatus, 0, len(in.Servers))
	for _, s := range in.Servers {
		st := v1alpha1.ServerStatus{Pod: s.Pod, Ready: s.Ready}
		if s.Report != nil {
			st.Version = s.Report.Version
			if !s.Ready {
				st.Message = s.Report.Message
			}
		}
		if r, ok := refused[s.Pod]; ok {
			st.Message = r.Reason + ": " + r.Message
		}
		out = append(out, st)
	}
	return out
}

// refusal of the agent in a pod to start the server, in its own words (R42).
func refusal(pod *corev1.Pod) (report.Refusal, bool) {
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t == nil {
				continue
			}
			if r, ok := report.ParseRefusal(t.Message); ok {
				return r, true
			}
		}
	}
	return report.Refusal{}, false
}

func podReason(pod *corev1.Pod) string {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for j := range list {
			if reason := WaitingReason(&list[j]); reason != "" {
				return reason
			}
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != "" {
			return c.Reason
		}
	}
	if pod.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return reasonNotReady
}

func podReady(pod *corev1.Pod) bool {
	if pod.GetDeletionTimestamp() != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
