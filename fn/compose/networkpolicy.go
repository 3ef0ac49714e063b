package compose

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// networkPolicy limits who may connect to the servers (R19): clients and the
// servers themselves to LDAP, monitoring to the metrics.
func networkPolicy(in Inputs) *networkingv1.NetworkPolicy {
	s := in.Spec.NetworkPolicy
	clients := s.Clients
	if len(clients) == 0 {
		clients = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	}
	servers := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: in.Identity.SelectorLabels()}}
	ingress := []networkingv1.NetworkPolicyIngressRule{
		{From: clients, Ports: policyPorts(ldapPort, ldapsPort)},
		{From: []networkingv1.NetworkPolicyPeer{servers}, Ports: policyPorts(ldapPort, ldapsPort)},
	}
	if len(s.Monitoring) > 0 {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{From: s.Monitoring, Ports: policyPorts(agentPort)})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: in.meta(in.Identity.StatefulSet()),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: in.Identity.SelectorLabels()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     ingress,
		},
	}
}

func policyPorts(ports ...int32) []networkingv1.NetworkPolicyPort {
	out := make([]networkingv1.NetworkPolicyPort, 0, len(ports))
	for _, p := range ports {
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(p))})
	}
	return out
}
