package compose

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// serviceAccount of the servers (R17). They talk to no API: no token is mounted.
func serviceAccount(in Inputs) *corev1.ServiceAccount {
	meta := in.meta(in.Identity.StatefulSet())
	meta.Annotations = maps.Clone(in.Spec.ServiceAccountAnnotations)
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   meta,
		AutomountServiceAccountToken: ptr.To(false),
	}
}
