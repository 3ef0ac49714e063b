package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Phase is the state of a service in one word.
// +kubebuilder:validation:Enum=Initializing;Running;Degraded;Upgrading;RollingBack;Blocked
type Phase string

// The phases.
const (
	// PhaseInitializing: no server was Ready yet.
	PhaseInitializing Phase = "Initializing"
	// PhaseRunning: every server is Ready and is what the spec says.
	PhaseRunning Phase = "Running"
	// PhaseDegraded: the service has run, and fewer servers than wanted are Ready.
	PhaseDegraded Phase = "Degraded"
	// PhaseUpgrading: servers are being replaced by another version.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseRollingBack: servers are going back to the last known good version.
	PhaseRollingBack Phase = "RollingBack"
	// PhaseBlocked: something in the spec waits for a person; the conditions say what.
	PhaseBlocked Phase = "Blocked"
)

// DirectoryServiceStatus is the service as it was last seen.
type DirectoryServiceStatus struct {
	// ObservedGeneration is the metadata.generation of the XR that this status
	// belongs to. A claim has none: its generation is not the XR's.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is the state in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// CurrentVersion is the version that runs and was last known to be good.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// CurrentImage is the image that runs and was last known to be good.
	// +optional
	CurrentImage string `json:"currentImage,omitempty"`

	// CurrentTemplate names the pod template that runs and was last known to be good.
	// +optional
	CurrentTemplate string `json:"currentTemplate,omitempty"`

	// TargetVersion is the version the spec asks for.
	// +optional
	TargetVersion string `json:"targetVersion,omitempty"`

	// TargetImage is the image the spec asks for.
	// +optional
	TargetImage string `json:"targetImage,omitempty"`

	// Replicas is the number of servers that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// ReadyReplicas is the number of servers that are Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// UpdatedReplicas is the number of servers made from the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// Upgrade is the change of the pods that runs, or waits.
	// +optional
	Upgrade *UpgradeStatus `json:"upgrade,omitempty"`

	// Rejected is the target that is not tried again until the spec names another
	// one, or what runs, in between.
	// +optional
	Rejected *RejectedStatus `json:"rejected,omitempty"`

	// RejectedPods is the update of the pods alone that is not tried again until the
	// spec asks for other pods.
	// +optional
	RejectedPods *RejectedStatus `json:"rejectedPods,omitempty"`

	// RollbackTo is the last request of the annotation `rollback-to` that was carried
	// out, as long as the annotation stays.
	// +optional
	RollbackTo string `json:"rollbackTo,omitempty"`

	// History of the changes of the pods, newest first, at most 10.
	// +optional
	// +listType=atomic
	History []HistoryStatus `json:"history,omitempty"`

	// Selector is the label selector of the servers' pods, in its string form.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Endpoints are where clients find the service.
	// +optional
	Endpoints *Endpoints `json:"endpoints,omitempty"`

	// DMPasswordSecret is the Secret with the Directory Manager's password.
	// +optional
	DMPasswordSecret *SecretKeyRef `json:"dmPasswordSecret,omitempty"`

	// Servers are what the agents in the pods report, by ordinal.
	// +optional
	// +listType=map
	// +listMapKey=pod
	Servers []ServerStatus `json:"servers,omitempty"`

	// TLS is the servers' certificate.
	// +optional
	TLS *TLSStatus `json:"tls,omitempty"`

	// Suffixes of the spec, and those that were taken off it.
	// +optional
	// +listType=map
	// +listMapKey=name
	Suffixes []SuffixStatus `json:"suffixes,omitempty"`

	// Conditions are kept by Crossplane and are part of every XR and claim.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UpgradeStatus is the change of the pods that runs, or waits.
type UpgradeStatus struct {
	// ID of the operation that runs.
	// +optional
	ID string `json:"id,omitempty"`

	// Kind of the operation that runs: Upgrade (of the version or the image),
	// PodUpdate (everything else), Rollback (by itself, or because the spec was
	// turned back) or ManualRollback (by annotation).
	// +optional
	Kind string `json:"kind,omitempty"`

	// From is what ran before.
	// +optional
	From *ReleaseStatus `json:"from,omitempty"`

	// To is what the servers become.
	// +optional
	To *ReleaseStatus `json:"to,omitempty"`

	// StartedAt is when the change began that the operation makes or takes back.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// Pod is the one being replaced.
	// +optional
	Pod string `json:"pod,omitempty"`

	// PodSince is when its replacement began. The progress deadline counts from here.
	// +optional
	PodSince *metav1.Time `json:"podSince,omitempty"`

	// Mending says that pods which are not Ready are being replaced, and no other.
	// +optional
	Mending bool `json:"mending,omitempty"`

	// Degraded says that the operation was allowed to start with servers missing.
	// +optional
	Degraded bool `json:"degraded,omitempty"`

	// Reason why From is being left, in a rollback.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message tells what the operation waits for, or what fails.
	// +optional
	Message string `json:"message,omitempty"`

	// Cause is what failed, in a rollback.
	// +optional
	Cause string `json:"cause,omitempty"`

	// Pending is what begins once the operation has ended.
	// +optional
	Pending *ReleaseStatus `json:"pending,omitempty"`

	// Plan is what the change that waits would do.
	// +optional
	Plan *PlanStatus `json:"plan,omitempty"`

	// PendingPodUpdate is another pod template that a newer function, or changed
	// defaults of the platform, make of the same spec. It goes along with the next
	// change that restarts the servers.
	// +optional
	PendingPodUpdate *PodUpdateStatus `json:"pendingPodUpdate,omitempty"`
}

// ReleaseStatus is a version of the directory server, and the image it comes in.
type ReleaseStatus struct {
	// Version; missing where nobody knows it.
	// +optional
	Version string `json:"version,omitempty"`

	// Image as the spec named it.
	// +optional
	Image string `json:"image,omitempty"`

	// Template names the pod template.
	// +optional
	Template string `json:"template,omitempty"`
}

// PlanStatus says what a change would do, before anything happens.
type PlanStatus struct {
	// Transition is the pair of versions, as approvals name it.
	Transition string `json:"transition"`

	// Class of the change: SameVersion, PatchUpgrade, PatchDowngrade, MinorUpgrade,
	// MinorDowngrade, MajorUpgrade, MajorDowngrade, PodUpdate or Unversioned.
	Class string `json:"class"`

	// Needs are the annotations that are still missing, as `name=value`.
	// +optional
	// +listType=atomic
	Needs []string `json:"needs,omitempty"`

	// Steps in their order.
	// +optional
	// +listType=atomic
	Steps []string `json:"steps,omitempty"`

	// Downtime says whether clients lose the service while it goes on.
	Downtime bool `json:"downtime"`
}

// PodUpdateStatus is a pod template that waits to be applied.
type PodUpdateStatus struct {
	// Hash to name in the annotation `apply-pod-update`.
	Hash string `json:"hash"`

	// Summary of what differs: the fields of the pod template.
	// +optional
	Summary string `json:"summary,omitempty"`
}

// RejectedStatus is a target that is not tried again.
type RejectedStatus struct {
	ReleaseStatus `json:",inline"`

	// Reason why it was rejected: that of the pod that failed,
	// ProgressDeadlineExceeded, or RolledBackManually.
	Reason string `json:"reason"`

	// Message tells more.
	// +optional
	Message string `json:"message,omitempty"`

	// At is when.
	At metav1.Time `json:"at"`
}

// HistoryStatus is a change of the pods that ended.
type HistoryStatus struct {
	// From is what ran before.
	From ReleaseStatus `json:"from"`

	// To is what was to run.
	To ReleaseStatus `json:"to"`

	// Result is Succeeded, RolledBack (From runs again), Failed or Superseded.
	Result string `json:"result"`

	// Reason of a result that is not plain success.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message tells more.
	// +optional
	Message string `json:"message,omitempty"`

	// StartedAt is when the change began.
	StartedAt metav1.Time `json:"startedAt"`

	// CompletedAt is when it ended.
	CompletedAt metav1.Time `json:"completedAt"`
}

// Endpoints are URLs (RFC 4516) of the service.
type Endpoints struct {
	// LDAP is the URL for LDAP and StartTLS inside the cluster.
	// +optional
	LDAP string `json:"ldap,omitempty"`

	// LDAPS is the URL for LDAP over TLS inside the cluster.
	// +optional
	LDAPS string `json:"ldaps,omitempty"`

	// External are the addresses of the load balancer, when it has some.
	// +optional
	// +listType=set
	External []string `json:"external,omitempty"`
}

// ServerStatus is what is known of one server.
type ServerStatus struct {
	// Pod of the server.
	Pod string `json:"pod"`

	// Version that runs, as the server itself says.
	// +optional
	Version string `json:"version,omitempty"`

	// Ready says that clients can use it.
	Ready bool `json:"ready"`

	// Message says why it is not Ready, or was not started.
	// +optional
	Message string `json:"message,omitempty"`
}

// TLSStatus is the servers' certificate.
type TLSStatus struct {
	// Secret with the certificate, and under `ca.crt` the CA that clients need.
	// +optional
	Secret string `json:"secret,omitempty"`

	// NotAfter is when the certificate expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// SuffixStatus is what is known of one suffix.
type SuffixStatus struct {
	// Name of the suffix.
	Name string `json:"name"`

	// DN of the suffix.
	DN string `json:"dn"`

	// State is Declared (no server has told of it yet), Ready (every server has it),
	// Waiting (a server has no data of it), Failed, or Orphaned (taken off the spec; its
	// data were kept).
	// +kubebuilder:validation:Enum=Declared;Ready;Waiting;Failed;Orphaned
	State SuffixState `json:"state"`

	// Founded says that its root entry was created: no server ever creates it again by
	// itself.
	// +optional
	Founded bool `json:"founded,omitempty"`

	// Message says what is wrong, and with which server.
	// +optional
	Message string `json:"message,omitempty"`
}

// A SuffixState is what is known of a suffix.
type SuffixState string

// The states of a suffix.
const (
	SuffixDeclared SuffixState = "Declared"
	SuffixReady    SuffixState = "Ready"
	SuffixWaiting  SuffixState = "Waiting"
	SuffixFailed   SuffixState = "Failed"
	SuffixOrphaned SuffixState = "Orphaned"
)
