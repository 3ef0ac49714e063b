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
)

// KeyUnstickPrefix begins the composition resource names of what deletes a stuck
// pod. It comes and goes with the pod.
const KeyUnstickPrefix = "unstick-"

// IsUnstick says whether a composition resource is part of what deletes a stuck pod.
func IsUnstick(key string) bool { return strings.HasPrefix(key, KeyUnstickPrefix) }

// KeyUnstick is the Job that deletes a stuck pod. The hash is of all that the Job
// runs: another Job is another object, for a Job's pod template cannot change.
func KeyUnstick(hash string) string { return KeyUnstickPrefix + hash }

// KeyUnstickServiceAccount is what that Job runs as.
func KeyUnstickServiceAccount(hash string) string { return KeyUnstick(hash) + "-serviceaccount" }

// KeyUnstickRole lets that Job delete its pod.
func KeyUnstickRole(hash string) string { return KeyUnstick(hash) + "-role" }

// KeyUnstickRoleBinding gives that Role to that ServiceAccount.
func KeyUnstickRoleBinding(hash string) string { return KeyUnstick(hash) + "-rolebinding" }

// Names of the required resources. The requirement of a Secret, and of a composed
// object that the XR does not reference, has the name of the composition resource.
const (
	RequirePods   = "pods"
	RequireClaims = "pvcs"
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

// maxUnstickName is how much of the service's name is in Unstick: 63 characters, the
// longest value of a label, hold it, "-unstick-" and a hash of up to 14.
const maxUnstickName = 40

// Unstick is the name of the Job with that hash that deletes a stuck pod, and of its
// ServiceAccount, Role and RoleBinding.
func (i Identity) Unstick(hash string) string {
	return i.Name[:min(len(i.Name), maxUnstickName)] + "-unstick-" + hash
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

// UnstickLabels are those of what deletes a stuck pod. The Job's pod is no server: it
// must not be counted as one, nor have clients sent to it.
func (i Identity) UnstickLabels() map[string]string {
	l := i.Labels("")
	l[LabelComponent] = ValueComponentUnstick
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
