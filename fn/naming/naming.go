// Package naming holds every name that others rely on: of the composed objects,
// of the composition's resources, of labels and annotations. Changing one
// orphans what runs.
package naming

import (
	"strconv"

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
)

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

	ValueName      = "389-directory-server"
	ValueComponent = "server"
	ValuePartOf    = "directoryservice"
	ValueManagedBy = "function-directoryservice"
)

// Parts of a pod.
const (
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
