package fn

import (
	"github.com/389ds/function-directoryservice/apis/input/v1beta1"
	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// applyDefaults fills in what the platform gives to services that do not set it
// themselves, field by field. The class of volumes that exist cannot change, so
// its default is for new ones only.
func applyDefaults(spec *v1alpha1.DirectoryServiceSpec, d v1beta1.Defaults, exists bool) {
	if spec.Storage.StorageClassName == nil && !exists {
		spec.Storage.StorageClassName = d.StorageClassName
	}
	own := &spec.PodSettings
	if own.Resources == nil {
		own.Resources = d.Resources
	}
	if own.NodeSelector == nil {
		own.NodeSelector = d.NodeSelector
	}
	if own.Tolerations == nil {
		own.Tolerations = d.Tolerations
	}
	if own.Affinity == nil {
		own.Affinity = d.Affinity
	}
	if own.TopologySpreadConstraints == nil {
		own.TopologySpreadConstraints = d.TopologySpreadConstraints
	}
	if own.PriorityClassName == "" {
		own.PriorityClassName = d.PriorityClassName
	}
	if own.ImagePullSecrets == nil {
		own.ImagePullSecrets = d.ImagePullSecrets
	}
	if own.ImagePullPolicy == "" {
		own.ImagePullPolicy = d.ImagePullPolicy
	}
	if own.PodLabels == nil {
		own.PodLabels = d.PodLabels
	}
	if own.PodAnnotations == nil {
		own.PodAnnotations = d.PodAnnotations
	}
	if own.PodSecurityContext == nil {
		own.PodSecurityContext = d.PodSecurityContext
	}
	if own.SecurityContext == nil {
		own.SecurityContext = d.SecurityContext
	}
	if own.ServiceAccountAnnotations == nil {
		own.ServiceAccountAnnotations = d.ServiceAccountAnnotations
	}
}
