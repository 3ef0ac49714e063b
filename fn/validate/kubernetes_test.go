package validate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// R17, R19: what the API server would refuse in a composed object names the field of
// the spec.
func TestRefusedByKubernetes(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(s *v1alpha1.DirectoryServiceSpec)
		want   string // "" where the spec is valid
	}{
		"TolerationOperator": {
			reason: "An operator that does not exist.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Sometimes"}}
			},
			want: "spec.tolerations[0].operator",
		},
		"TolerationWithoutKey": {
			reason: "Only Exists tolerates every taint.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.Tolerations = []corev1.Toleration{{Operator: "Equal"}} },
			want:   "spec.tolerations[0].operator",
		},
		"Toleration": {
			reason: "A good one.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.Tolerations = []corev1.Toleration{{Operator: "Exists"}, {Key: "a/b", Value: "c", Effect: "NoSchedule"}}
			},
		},
		"Skew": {
			reason: "No skew at all cannot be had.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule"}}
			},
			want: "spec.topologySpreadConstraints[0].maxSkew",
		},
		"NegativeRequest": {
			reason: "Less than nothing.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("-1")}}
			},
			want: "spec.resources.requests[cpu]",
		},
		"ResourceClaims": {
			reason: "Pods have no resource claims.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.Resources = &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}
			},
			want: "spec.resources.claims",
		},
		"PriorityClass": {
			reason: "Not a name.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.PriorityClassName = "Not Valid!" },
			want:   "spec.priorityClassName",
		},
		"StorageClass": {
			reason: "Not a name.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.Storage.StorageClassName = ptr.To("Not Valid!") },
			want:   "spec.storage.storageClassName",
		},
		"SourceRange": {
			reason: "Not a CIDR.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.Service.LoadBalancerSourceRanges = []string{"foo"} },
			want:   "spec.service.loadBalancerSourceRanges[0]",
		},
		"PeerOfNothing": {
			reason: "A peer must be somebody.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.NetworkPolicy.Clients = []networkingv1.NetworkPolicyPeer{{}}
			},
			want: "spec.networkPolicy.clients[0]",
		},
		"PeerCIDR": {
			reason: "Not a CIDR.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.NetworkPolicy.Monitoring = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "nonsense"}}}
			},
			want: "spec.networkPolicy.monitoring[0].ipBlock.cidr",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.DirectoryServiceSpec{Image: "dirsrv:3.1.0"}
			tc.change(s)
			s.Default()
			errs := Service("ds", s, nil)
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("\n%s\nwant no error, got %v", tc.reason, errs)
			case tc.want != "" && (len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), tc.want+":")):
				t.Errorf("\n%s\nwant an error of %s, got %v", tc.reason, tc.want, errs)
			}
		})
	}
}

// S5: the API server refuses another class for a load balancer that exists.
func TestLoadBalancerClass(t *testing.T) {
	lb := func(class *string) *corev1.ServiceSpec {
		return &corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class}
	}
	cases := map[string]struct {
		reason   string
		want     v1alpha1.ClientService
		observed *corev1.ServiceSpec
		refused  bool
	}{
		"Same":       {"Nothing changes.", v1alpha1.ClientService{Type: "LoadBalancer", LoadBalancerClass: ptr.To("a/a")}, lb(ptr.To("a/a")), false},
		"Other":      {"It is immutable.", v1alpha1.ClientService{Type: "LoadBalancer", LoadBalancerClass: ptr.To("b/b")}, lb(ptr.To("a/a")), true},
		"Removed":    {"It cannot go either.", v1alpha1.ClientService{Type: "LoadBalancer"}, lb(ptr.To("a/a")), true},
		"OtherType":  {"Another type releases it.", v1alpha1.ClientService{Type: "ClusterIP"}, lb(ptr.To("a/a")), false},
		"SetAtFirst": {"A Service that was none may become one.", v1alpha1.ClientService{Type: "LoadBalancer", LoadBalancerClass: ptr.To("a/a")}, &corev1.ServiceSpec{Type: "ClusterIP"}, false},
		"ByTheCloud": {"Without a class the cloud's own balancer serves.", v1alpha1.ClientService{Type: "LoadBalancer"}, lb(nil), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := LoadBalancerClass(&tc.want, tc.observed); (len(got) > 0) != tc.refused {
				t.Errorf("\n%s\nrefused: want %v, got %v", tc.reason, tc.refused, got)
			}
		})
	}
}

// Names that another service's children have, or the server's own trees.
func TestReserved(t *testing.T) {
	s := &v1alpha1.DirectoryServiceSpec{Image: "dirsrv:3.1.0", Suffixes: []v1alpha1.Suffix{{Name: "changelog", DN: "cn=x, CN=config"}}}
	s.Default()
	got := Service("foo-internal", s, nil).ToAggregate().Error()
	for _, want := range []string{"metadata.name", "spec.suffixes[0].name", "spec.suffixes[0].dn"} {
		if !strings.Contains(got, want) {
			t.Errorf("R6: want an error of %s, got %s", want, got)
		}
	}
}
