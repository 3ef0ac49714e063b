package compose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// R12, R8, R5: the Service for clients.
func TestClientService(t *testing.T) {
	selector := func(extra ...string) map[string]string {
		s := map[string]string{
			"app.kubernetes.io/name":      "389-directory-server",
			"app.kubernetes.io/instance":  "ds",
			"app.kubernetes.io/component": "server",
		}
		for i := 0; i < len(extra); i += 2 {
			s[extra[i]] = extra[i+1]
		}
		return s
	}
	ports := func(ldap, ldaps int32) []corev1.ServicePort {
		return []corev1.ServicePort{
			{Name: "ldap", Protocol: corev1.ProtocolTCP, Port: ldap, TargetPort: intstr.FromString("ldap")},
			{Name: "ldaps", Protocol: corev1.ProtocolTCP, Port: ldaps, TargetPort: intstr.FromString("ldaps")},
		}
	}
	cases := map[string]struct {
		reason      string
		change      func(in *Inputs)
		want        corev1.ServiceSpec
		annotations map[string]string
	}{
		"Defaults": {
			reason: "A ClusterIP with both ports, for every server.",
			want:   corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: selector(), Ports: ports(3389, 3636)},
		},
		"Ports": {
			reason: "R8: other ports, for the same ports of the servers.",
			change: func(in *Inputs) { in.Spec.Ports = v1alpha1.Ports{LDAP: 389, LDAPS: 636} },
			want:   corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: selector(), Ports: ports(389, 636)},
		},
		"SeveralServers": {
			reason: "R5: servers that do not replicate are several directories, so clients get the first alone.",
			change: func(in *Inputs) { in.FirstServerOnly = true },
			want: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, Ports: ports(3389, 3636),
				Selector: selector("statefulset.kubernetes.io/pod-name", "ds-0"),
			},
		},
		"LoadBalancer": {
			reason: "R12: every setting of the Service arrives.",
			change: func(in *Inputs) {
				in.Spec.Service = v1alpha1.ClientService{
					Type:                     corev1.ServiceTypeLoadBalancer,
					Annotations:              map[string]string{"a": "b"},
					LoadBalancerClass:        ptr.To("internal"),
					LoadBalancerSourceRanges: []string{"10.0.0.0/8"},
					ExternalTrafficPolicy:    corev1.ServiceExternalTrafficPolicyLocal,
				}
			},
			want: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Selector: selector(), Ports: ports(3389, 3636),
				LoadBalancerClass: ptr.To("internal"), LoadBalancerSourceRanges: []string{"10.0.0.0/8"},
				ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			},
			annotations: map[string]string{"a": "b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := object[*corev1.Service](t, mustService(t, inputs(tc.change)), naming.KeyService)
			if got.GetName() != "ds" {
				t.Errorf("\n%s\nthe name is %q", tc.reason, got.GetName())
			}
			if diff := cmp.Diff(tc.want, got.Spec); diff != "" {
				t.Errorf("\n%s\nspec: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.annotations, got.GetAnnotations()); diff != "" {
				t.Errorf("\n%s\nannotations: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R12: the headless Service names every server, also one that is not Ready, and
// also where clients get the first alone (R5).
func TestInternalService(t *testing.T) {
	d := mustService(t, inputs(func(in *Inputs) {
		in.FirstServerOnly = true
		in.Spec.Service = v1alpha1.ClientService{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"a": "b"}}
	}))
	got := object[*corev1.Service](t, d, naming.KeyServiceInternal)
	want := corev1.ServiceSpec{
		Type:                     corev1.ServiceTypeClusterIP,
		ClusterIP:                "None",
		PublishNotReadyAddresses: true,
		Selector:                 naming.Identity{Name: "ds"}.SelectorLabels(),
		Ports: []corev1.ServicePort{
			{Name: "ldap", Protocol: corev1.ProtocolTCP, Port: 3389, TargetPort: intstr.FromString("ldap")},
			{Name: "ldaps", Protocol: corev1.ProtocolTCP, Port: 3636, TargetPort: intstr.FromString("ldaps")},
		},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec: -want, +got:\n%s", diff)
	}
	// R13: the StatefulSet finds it by that name.
	if name := object[*appsv1.StatefulSet](t, d, naming.KeyStatefulSet).Spec.ServiceName; name != got.GetName() || name != "ds-internal" {
		t.Errorf("the name is %q, and the StatefulSet's serviceName %q", got.GetName(), name)
	}
	if len(got.GetAnnotations()) > 0 {
		t.Errorf("the annotations are the client Service's: %v", got.GetAnnotations())
	}
}
