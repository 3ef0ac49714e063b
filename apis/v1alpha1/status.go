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

	// Selector is the label selector of the servers' pods, in its string form.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Endpoints are where clients find the service.
	// +optional
	Endpoints *Endpoints `json:"endpoints,omitempty"`

	// DMPasswordSecret is the Secret with the Directory Manager's password.
	// +optional
	DMPasswordSecret *SecretKeyRef `json:"dmPasswordSecret,omitempty"`

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

// SuffixStatus is what is known of one suffix.
type SuffixStatus struct {
	// Name of the suffix.
	Name string `json:"name"`

	// DN of the suffix.
	DN string `json:"dn"`

	// State is Declared (in the spec) or Orphaned (taken off the spec; its data
	// were kept).
	// +kubebuilder:validation:Enum=Declared;Orphaned
	State SuffixState `json:"state"`
}

// A SuffixState is what is known of a suffix.
type SuffixState string

// The states of a suffix.
const (
	SuffixDeclared SuffixState = "Declared"
	SuffixOrphaned SuffixState = "Orphaned"
)
