// Package naming holds every name that others rely on: of the composed objects,
// of the composition's resources, of labels and annotations. Changing one
// orphans what runs.
package naming

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// Composition resource names: the keys of the desired and observed resources.
const (
	KeyStatefulSet         = "statefulset"
	KeyService             = "service"
	KeyServiceInternal     = "service-internal"
	KeyConfig              = "config"
	KeyDMPassword          = "dm-password"
	KeyServiceAccount      = "serviceaccount"
	KeyPodDisruptionBudget = "poddisruptionbudget"
	KeyNetworkPolicy       = "networkpolicy"
	KeyUsage               = "usage"
	// KeyState is the ConfigMap that the agents report in.
	KeyState = "state"
	// KeyRole and KeyRoleBinding let the agents write to it.
	KeyRole        = "role"
	KeyRoleBinding = "rolebinding"
	// KeyTLS is the servers' certificate, KeyTLSCA the CA that signed it, and
	// KeyCertificate what asks cert-manager for one.
	KeyTLS         = "tls"
	KeyTLSCA       = "tls-ca"
	KeyCertificate = "certificate"
)

// KeyResizePrefix begins the composition resource names of what grows volumes. It
// comes and goes with a volume that is too small.
const KeyResizePrefix = ValueComponentResize + "-"

// IsResize says whether a composition resource is part of what grows volumes.
func IsResize(key string) bool { return strings.HasPrefix(key, KeyResizePrefix) }

// KeyUnstickPrefix begins the composition resource names of what deletes a stuck
// pod. It comes and goes with the pod.
const KeyUnstickPrefix = ValueComponentUnstick + "-"

// IsUnstick says whether a composition resource is part of what deletes a stuck pod.
func IsUnstick(key string) bool { return strings.HasPrefix(key, KeyUnstickPrefix) }

// KeyJob is a Job of the function's own program. The hash is of all that the Job
// runs: another Job is another object, for a Job's pod template cannot change.
func KeyJob(component, hash string) string { return component + "-" + hash }

// KeyJobServiceAccount is what the Job with that key runs as.
func KeyJobServiceAccount(job string) string { return job + "-serviceaccount" }

// KeyJobRole lets that Job do its work.
func KeyJobRole(job string) string { return job + "-role" }

// KeyJobRoleBinding gives that Role to that ServiceAccount.
func KeyJobRoleBinding(job string) string { return job + "-rolebinding" }

// Names of the required resources. The requirement of a Secret, and of a composed
// object that the XR does not reference, has the name of the composition resource.
const (
	RequirePods   = "pods"
	RequireClaims = "pvcs"
	// RequireResizePods are those of a Job that grows volumes.
	RequireResizePods = "resize-pods"
)

// Annotations, on the StatefulSet.
const (
	// AnnotationLedger holds the upgrade ledger: it lies on the object whose
	// image it speaks of, so that both are written in one apply.
	AnnotationLedger = v1alpha1.Group + "/ledger"
	// AnnotationTemplate holds the pod template as the function made it, and
	// AnnotationGoodTemplate the last good one where that is another.
	AnnotationTemplate     = v1alpha1.Group + "/pod-template"
	AnnotationGoodTemplate = v1alpha1.Group + "/pod-template-good"
	// AnnotationNotReadySince is on the pod of a Job that deletes a stuck one.
	AnnotationNotReadySince = v1alpha1.Group + "/not-ready-since"
	// AnnotationSize and AnnotationClaims, on the pod of a Job that grows volumes, are
	// the size that it gives them, and their UIDs.
	AnnotationSize   = v1alpha1.Group + "/size"
	AnnotationClaims = v1alpha1.Group + "/claims"
)

// Labels of every composed object (R15). The selector uses the first three only
// and never changes.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelVersion   = "app.kubernetes.io/version"

	ValueName             = "389-directory-server"
	ValueComponent        = "server"
	ValueComponentUnstick = "unstick"
	ValueComponentResize  = "resize"
	ValuePartOf           = "directoryservice"
	ValueManagedBy        = "function-directoryservice"
)

// Annotation is the whole name of one that a person sets on the service.
func Annotation(name string) string { return v1alpha1.Group + "/" + name }

// Parts of a pod.
const (
	// AgentContainer is the init container that brings the agent. A pod that has it
	// is judged by what the agent reports.
	AgentContainer = "agent"
	// Container is the directory server's container.
	Container = "dirsrv"
	// DataVolume is the volume claim template's name.
	DataVolume = "ds-data"
	// ServerUser is the uid and gid of the server in its images. It never changes:
	// another user could not read an existing database (R16b).
	ServerUser int64 = 389
)

// An Identity is the name and namespace of what the user applied, be it an XR or
// a claim. The names of all children come from it.
type Identity struct {
	Name      string
	Namespace string
}

// StatefulSet is the name of the servers' StatefulSet.
func (i Identity) StatefulSet() string { return i.Name }

// Service is the name of the Service for clients.
func (i Identity) Service() string { return i.Name }

// ServiceInternal is the name of the headless Service.
func (i Identity) ServiceInternal() string { return i.Name + "-internal" }

// Config is the name of the ConfigMap that the servers read.
func (i Identity) Config() string { return i.Name + "-config" }

// State is the name of the ConfigMap that the agents report in.
func (i Identity) State() string { return i.Name + "-state" }

// TLSCA is the name of the Secret with the service's own CA.
func (i Identity) TLSCA() string { return i.Name + "-tls-ca" }

// OwnTLS is the name of the Secret with a certificate that the function makes.
func (i Identity) OwnTLS() string { return i.Name + "-tls" }

// IssuedTLS is the name of the Secret with a certificate that cert-manager makes. It has
// a name of its own: two that write one Secret would fight.
func (i Identity) IssuedTLS() string { return i.Name + "-tls-issued" }

// Certificate is the name of what asks cert-manager for a certificate.
func (i Identity) Certificate() string { return i.Name + "-tls" }

// TLS is the Secret with the servers' certificate: the one the spec names, else the
// one that is made.
func (i Identity) TLS(spec *v1alpha1.DirectoryServiceSpec) string {
	switch {
	case spec.TLS.Mode == v1alpha1.TLSModeSecret && spec.TLS.SecretRef != nil:
		return spec.TLS.SecretRef.Name
	case spec.TLS.Mode == v1alpha1.TLSModeCertManager:
		return i.IssuedTLS()
	}
	return i.OwnTLS()
}

// GeneratedDMPassword is the name of the Secret for a generated password of the
// Directory Manager.
func (i Identity) GeneratedDMPassword() string { return i.Name + "-dm-password" }

// DMPassword is the Secret and key that hold the Directory Manager's password:
// the one the spec names, else the generated one.
func (i Identity) DMPassword(spec *v1alpha1.DirectoryServiceSpec) v1alpha1.SecretKeyRef {
	if ref := spec.DMPasswordSecretRef; ref != nil {
		return *ref
	}
	return v1alpha1.SecretKeyRef{Name: i.GeneratedDMPassword(), Key: v1alpha1.DefaultDMPasswordKey}
}

// Claim is the name of the volume claim of the pod with that ordinal.
func (i Identity) Claim(ordinal int32) string {
	return DataVolume + "-" + i.Pod(ordinal)
}

// Pod is the name of the pod with that ordinal.
func (i Identity) Pod(ordinal int32) string {
	return i.StatefulSet() + "-" + strconv.Itoa(int(ordinal))
}

// maxJobName is how much of the service's name is in Job: 63 characters, the longest
// value of a label, hold it, "-unstick-" and a hash of up to 14.
const maxJobName = 40

// Job is the name of the Job with that key, and of its ServiceAccount, Role and
// RoleBinding.
func (i Identity) Job(key string) string {
	return i.Name[:min(len(i.Name), maxJobName)] + "-" + key
}

// SelectorLabels select the servers.
func (i Identity) SelectorLabels() map[string]string {
	return map[string]string{
		LabelName:      ValueName,
		LabelInstance:  i.Name,
		LabelComponent: ValueComponent,
	}
}

// Owns says whether an object with these labels was made by the function for the
// service of this name.
func (i Identity) Owns(labels map[string]string) bool {
	return labels[LabelManagedBy] == ValueManagedBy && labels[LabelInstance] == i.Name
}

// JobLabels are those of a Job of the function's own program. Its pod is no server: it
// must not be counted as one, nor have clients sent to it.
func (i Identity) JobLabels(component string) map[string]string {
	l := i.Labels("")
	l[LabelComponent] = component
	return l
}

// ResizeSelector selects the pods of the Job that grows volumes.
func (i Identity) ResizeSelector() map[string]string {
	l := i.SelectorLabels()
	l[LabelComponent] = ValueComponentResize
	return l
}

// Labels of a composed object. A version that is unknown, or no label's value, has
// no label: the API server would refuse the object.
func (i Identity) Labels(version string) map[string]string {
	l := i.SelectorLabels()
	l[LabelPartOf] = ValuePartOf
	l[LabelManagedBy] = ValueManagedBy
	if version != "" && len(validation.IsValidLabelValue(version)) == 0 {
		l[LabelVersion] = version
	}
	return l
}
