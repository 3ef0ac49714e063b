package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A DirectoryService is a 389 Directory Server with its storage, its network
// endpoints and its credentials.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,path=directoryservices,singular=directoryservice,shortName=dirsrv
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.targetVersion`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready(pods)",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:validation:XValidation:rule="self.kind != 'DirectoryService' || !self.metadata.name.endsWith('-internal')",message="metadata.name must not end in -internal: another service's headless Service may have that name"
// +kubebuilder:validation:XValidation:rule="self.kind != 'DirectoryService' || (self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",message="metadata.name must be a DNS label that begins with a letter and has at most 52 characters: pods, Services and volumes are named after it"
type DirectoryService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the service as you want it.
	Spec DirectoryServiceSpec `json:"spec"`

	// Status is the service as it was last seen.
	// +optional
	Status DirectoryServiceStatus `json:"status,omitempty"`
}

// DirectoryServiceSpec is the service as you want it.
type DirectoryServiceSpec struct {
	// Image of the directory server, for example
	// `quay.io/389ds/dirsrv:3.1.0`. Its tag must be `version`, unless the
	// platform's image catalog knows the image (a digest, say). While tag and
	// version differ the service stays as it is, and the condition
	// `UpgradeBlocked` says why.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// Version of the directory server that `image` contains: a semantic version
	// such as `3.1.0` or `3.1.0-rc.1`; a leading `v` is allowed, build metadata
	// (`+x`) is not. Without it the image's tag is the version, if that is a
	// semantic version; else changes of the image cannot be gated, and the
	// condition `UpgradeBlocked` has the reason `Unversioned`.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?$`
	Version string `json:"version,omitempty"`

	// Replicas is the number of servers. `kubectl scale` changes it too.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Replicas *int32 `json:"replicas,omitempty"`

	// Suffixes are the directory's naming contexts, each in a backend
	// (database) of its own. A suffix that is taken off the list is never
	// dropped: its data stay, and the condition `SuffixOrphaned` names it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))",message="suffix names must differ in more than upper and lower case: the server compares backend names without regard to case"
	Suffixes []Suffix `json:"suffixes,omitempty"`

	// Storage is the volume of each server.
	// +optional
	// +kubebuilder:default={}
	Storage Storage `json:"storage,omitempty"`

	// Ports are the ports of the Services. The servers themselves always listen
	// on 3389 and 3636.
	// +optional
	// +kubebuilder:default={}
	Ports Ports `json:"ports,omitempty"`

	// DMPasswordSecretRef names a Secret of this namespace with the password of
	// the Directory Manager (`cn=Directory Manager`). Without it a password is
	// generated once, in the Secret `<name>-dm-password`. While the Secret or
	// its key is missing the service stays as it is and the condition
	// `CredentialsReady` says so; a Secret that appears later is picked up by
	// itself.
	// +optional
	DMPasswordSecretRef *SecretKeyRef `json:"dmPasswordSecretRef,omitempty"`

	// DMPasswordMode says how the servers get the password of the Directory Manager:
	// `env` (a mounted file, and the variable `DS_DM_PASSWORD` of the container as well,
	// where scripts expect it) or `file` (a mounted file only). In both a change of the Secret is
	// applied to the running servers.
	// +optional
	// +kubebuilder:default=env
	DMPasswordMode DMPasswordMode `json:"dmPasswordMode,omitempty"`

	// TLS is the servers' certificate, for LDAPS and StartTLS.
	// +optional
	// +kubebuilder:default={}
	TLS TLS `json:"tls,omitempty"`

	// Startup is what a server may take to start.
	// +optional
	// +kubebuilder:default={}
	Startup Startup `json:"startup,omitempty"`

	// Service is how clients reach the servers.
	// +optional
	// +kubebuilder:default={}
	Service ClientService `json:"service,omitempty"`

	// NetworkPolicy limits who may connect to the servers.
	// +optional
	// +kubebuilder:default={}
	NetworkPolicy NetworkPolicy `json:"networkPolicy,omitempty"`

	// Upgrade is how changes of the servers' pods go: of the version, the image, and
	// of everything else that a pod must be restarted for.
	// +optional
	// +kubebuilder:default={}
	Upgrade Upgrade `json:"upgrade,omitempty"`

	// DeletionProtection refuses the deletion of this object while it is true.
	// Volumes outlive a deletion in any case.
	// +optional
	// +kubebuilder:default=false
	DeletionProtection bool `json:"deletionProtection,omitempty"`

	PodSettings `json:",inline"`
}

// Upgrade is how changes of the servers' pods go.
type Upgrade struct {
	// Paused holds between pods: no further pod is replaced and no change begins. A
	// pod that fails is taken back all the same.
	// +optional
	// +kubebuilder:default=false
	Paused bool `json:"paused,omitempty"`

	// ProgressDeadlineSeconds that a pod may take to become Ready, from when its
	// replacement begins, before the change counts as failed.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`

	// MinReadySeconds that a new pod must have been Ready before the next one is
	// replaced.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// AutomaticRollback goes back to the last known good release by itself when a
	// change fails. Without it the change stays where it is, with the condition
	// `UpgradeSucceeded` False, until the pods recover or you turn the spec back.
	// +optional
	// +kubebuilder:default=true
	AutomaticRollback *bool `json:"automaticRollback,omitempty"`

	// DatabaseMigration says what happens to a database that the new version cannot
	// read (Berkeley DB, from 389 DS 3.2 on): `Refuse` starts nothing and touches nothing;
	// `Automatic` migrates it to LMDB after a clean stop, once. Going back afterwards
	// loses what was written since, so it needs a confirmed backup.
	// +optional
	// +kubebuilder:default=Refuse
	DatabaseMigration DatabaseMigration `json:"databaseMigration,omitempty"`

	// PodUpdates says when servers get the pod template of a newer function, or of
	// changed platform defaults: `WithNextRollout` (with the next change of the spec
	// that restarts them anyway, or when you ask for it) or `Automatic` (at once, one
	// at a time).
	// +optional
	// +kubebuilder:default=WithNextRollout
	PodUpdates PodUpdates `json:"podUpdates,omitempty"`
}

// PodUpdates says when servers get the pod template of a newer function.
// +kubebuilder:validation:Enum=WithNextRollout;Automatic
type PodUpdates string

// The ways of updating pods.
const (
	PodUpdatesWithNextRollout PodUpdates = "WithNextRollout"
	PodUpdatesAutomatic       PodUpdates = "Automatic"
)

// DatabaseMigration says what happens to a database that a new version cannot read.
// +kubebuilder:validation:Enum=Refuse;Automatic
type DatabaseMigration string

// The ways of dealing with such a database.
const (
	DatabaseMigrationRefuse    DatabaseMigration = "Refuse"
	DatabaseMigrationAutomatic DatabaseMigration = "Automatic"
)

// DMPasswordMode says how servers get the Directory Manager's password.
// +kubebuilder:validation:Enum=env;file
type DMPasswordMode string

// The ways of handing over the password.
const (
	DMPasswordModeEnv  DMPasswordMode = "env"
	DMPasswordModeFile DMPasswordMode = "file"
)

// TLS is where the servers' certificate comes from.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Secret') == has(self.secretRef)",message="secretRef names the certificate for mode Secret: set both, or neither"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'CertManager') == has(self.issuerRef)",message="issuerRef names the issuer for mode CertManager: set both, or neither"
type TLS struct {
	// Mode is `SelfSigned` (a CA of the service's own, in the Secret `<name>-tls-ca`, and
	// a certificate that is renewed by itself), `Secret` (a certificate that you bring) or
	// `CertManager` (one that cert-manager issues).
	// +optional
	// +kubebuilder:default=SelfSigned
	Mode TLSMode `json:"mode,omitempty"`

	// SecretRef names a Secret of this namespace with `tls.crt`, `tls.key` and,
	// unless the certificate's chain ends in a CA, `ca.crt`. While it is missing the
	// service stays as it is and the condition `TLSReady` says so.
	// +optional
	SecretRef *LocalSecretRef `json:"secretRef,omitempty"`

	// IssuerRef names the cert-manager issuer.
	// +optional
	IssuerRef *IssuerRef `json:"issuerRef,omitempty"`

	// DNSNames are further names in a certificate that is made here or by
	// cert-manager, besides those of the Services and pods: that of a load balancer, say.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	DNSNames []string `json:"dnsNames,omitempty"`
}

// TLSMode says where the servers' certificate comes from.
// +kubebuilder:validation:Enum=SelfSigned;Secret;CertManager
type TLSMode string

// The sources of a certificate.
const (
	TLSModeSelfSigned  TLSMode = "SelfSigned"
	TLSModeSecret      TLSMode = "Secret"
	TLSModeCertManager TLSMode = "CertManager"
)

// An IssuerRef names an issuer of cert-manager.
type IssuerRef struct {
	// Name of the issuer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Kind is Issuer, in the service's namespace, or ClusterIssuer; Issuer where it is not set.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// Group of the issuer; cert-manager.io where it is not set.
	// +optional
	// +kubebuilder:default=cert-manager.io
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// A Suffix is a naming context of the directory, in a backend of its own.
type Suffix struct {
	// Name of the backend, unique without regard to case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_-]*$`
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['config', 'monitor', 'changelog', 'bdb', 'mdb', 'database'])",message="config, monitor, changelog, bdb, mdb and database are the server's own names: choose another"
	Name string `json:"name"`

	// DN of the suffix, for example `dc=example,dc=com`; unique after
	// normalisation (case and spaces do not count). It cannot change: the
	// entries below it would not move along. Give another DN another name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	DN string `json:"dn"`

	// CreateEntry creates the suffix's root entry where there is none; true where
	// it is not set. The first attribute of `dn` must then be dc, o, ou, c or cn.
	// +optional
	CreateEntry *bool `json:"createEntry,omitempty"`
}

// Storage is the volume of each server, one PersistentVolumeClaim
// `ds-data-<name>-<ordinal>` per server. The claims outlive the service.
type Storage struct {
	// Size of each volume. It can grow; a smaller size is refused by the
	// condition `StorageReady`.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^\+?([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})([KMGTPE]i|[kMGTPE]|[eE]\+?[0-9]{1,2})?$`
	Size *resource.Quantity `json:"size,omitempty"`

	// StorageClassName of the volumes; by default the platform's, else the
	// cluster's default class. It cannot change once the volumes exist.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// Ports of the Services.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ldap) || !has(self.ldaps) || self.ldap != self.ldaps",message="ldap and ldaps must be different ports"
type Ports struct {
	// LDAP is the port for LDAP and StartTLS.
	// +optional
	// +kubebuilder:default=3389
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	LDAP int32 `json:"ldap,omitempty"`

	// LDAPS is the port for LDAP over TLS.
	// +optional
	// +kubebuilder:default=3636
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	LDAPS int32 `json:"ldaps,omitempty"`
}

// A SecretKeyRef names one key of a Secret in the service's namespace.
type SecretKeyRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// Key in the Secret.
	// +optional
	// +kubebuilder:default=dm-password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// Startup is what a server may take to start.
type Startup struct {
	// TimeoutSeconds a server may take to answer after its container started.
	// Large databases need more.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ClientService is the Service `<name>` that clients connect to.
//
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type == 'LoadBalancer') || (!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges))",message="loadBalancerClass and loadBalancerSourceRanges need type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type != 'ClusterIP') || !has(self.externalTrafficPolicy)",message="externalTrafficPolicy needs type NodePort or LoadBalancer"
type ClientService struct {
	// Type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Annotations of the Service, for example for a load balancer.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// LoadBalancerClass of a Service of type LoadBalancer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`

	// LoadBalancerSourceRanges are the CIDRs that may use the load balancer.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`

	// ExternalTrafficPolicy of a Service of type NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// NetworkPolicy limits who may connect to the servers. The servers may always
// connect to each other; what the servers connect to is not limited.
type NetworkPolicy struct {
	// Enabled composes a NetworkPolicy for the servers.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`

	// Clients that may connect to the LDAP and LDAPS ports: by pod selector,
	// namespace selector or CIDR. Empty means every pod of the service's
	// namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Clients []networkingv1.NetworkPolicyPeer `json:"clients,omitempty"`

	// Monitoring may connect to the metrics port 8389. Empty means nobody.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Monitoring []networkingv1.NetworkPolicyPeer `json:"monitoring,omitempty"`
}

// PodSettings are the settings of the servers' pods that Kubernetes knows. A
// platform may set defaults for them in the function's input; what a service
// sets itself wins, field by field.
type PodSettings struct {
	// Resources of the directory server's container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// NodeSelector of the pods.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the pods.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// TopologySpreadConstraints of the pods. By default the servers are spread
	// over nodes where that is possible. A constraint without a labelSelector
	// gets that of the servers.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// ImagePullSecrets of the pods: Secrets in the service's namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []LocalSecretRef `json:"imagePullSecrets,omitempty"`

	// ImagePullPolicy of the directory server's image.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// PodLabels are added to the pods. The labels that select the servers
	// cannot be set.
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// PodAnnotations are added to the pods.
	// +optional
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// PodSecurityContext of the pods; its fields win over the defaults, which
	// meet Pod Security `restricted`. User and group are always 389, the
	// server's own: another user could not read an existing database.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(!has(self.runAsUser) || self.runAsUser == 389) && (!has(self.runAsGroup) || self.runAsGroup == 389)",message="runAsUser and runAsGroup must be 389, the directory server's own user: another one could not read an existing database"
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// SecurityContext of the directory server's container; its fields win over
	// the defaults, which meet Pod Security `restricted`.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(!has(self.runAsUser) || self.runAsUser == 389) && (!has(self.runAsGroup) || self.runAsGroup == 389)",message="runAsUser and runAsGroup must be 389, the directory server's own user: another one could not read an existing database"
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// ServiceAccountAnnotations are set on the servers' ServiceAccount.
	// +optional
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

// A LocalSecretRef names a Secret in the service's namespace.
type LocalSecretRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}
