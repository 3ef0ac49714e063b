package compose

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// clientService is what clients connect to (R12).
//
// Where the servers do not replicate, clients get the first alone: several
// behind one Service would be several directories under one name (R5).
func clientService(in Inputs) *corev1.Service {
	s := in.Spec.Service
	meta := in.meta(in.Identity.Service())
	meta.Annotations = maps.Clone(s.Annotations)
	selector := in.Identity.SelectorLabels()
	if in.FirstServerOnly {
		selector[appsv1.StatefulSetPodNameLabel] = in.Identity.Pod(0)
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type:                     s.Type,
			Selector:                 selector,
			Ports:                    servicePorts(in.Spec.Ports),
			LoadBalancerClass:        s.LoadBalancerClass,
			LoadBalancerSourceRanges: s.LoadBalancerSourceRanges,
			ExternalTrafficPolicy:    s.ExternalTrafficPolicy,
		},
	}
}

// internalService gives every server its DNS name, also before it is Ready: the
// servers must find each other to become so.
func internalService(in Inputs) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: in.meta(in.Identity.ServiceInternal()),
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 in.Identity.SelectorLabels(),
			Ports:                    servicePorts(in.Spec.Ports),
		},
	}
}

func servicePorts(p v1alpha1.Ports) []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "ldap", Protocol: corev1.ProtocolTCP, Port: p.LDAP, TargetPort: intstr.FromString("ldap")},
		{Name: "ldaps", Protocol: corev1.ProtocolTCP, Port: p.LDAPS, TargetPort: intstr.FromString("ldaps")},
	}
}
