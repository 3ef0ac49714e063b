package compose

import (
	"strings"
	"testing"

	protectionv1beta1 "github.com/crossplane/crossplane/apis/v2/protection/v1beta1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// R14, R6: the document that the servers read is what the config says, to the byte.
func TestConfigMap(t *testing.T) {
	cases := map[string]struct {
		reason   string
		suffixes []config.Suffix
		want     string
	}{
		"None": {
			reason: "An empty list is a list.",
			want:   "{\n  \"suffixes\": []\n}\n",
		},
		"Several": {
			reason: "Suffixes in order, with what was taken off the spec.",
			suffixes: []config.Suffix{
				{Name: "b", DN: "dc=b", CreateEntry: true},
				{Name: "a", DN: "dc=a", Orphaned: true},
			},
			want: `{
  "suffixes": [
    {
      "name": "b",
      "dn": "dc=b",
      "createEntry": true
    },
    {
      "name": "a",
      "dn": "dc=a",
      "orphaned": true
    }
  ]
}
`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := object[*corev1.ConfigMap](t, mustService(t, inputs(func(in *Inputs) { in.Config.Suffixes = tc.suffixes })), naming.KeyConfig)
			if got.GetName() != "ds-config" {
				t.Errorf("\n%s\nthe name is %q", tc.reason, got.GetName())
			}
			if diff := cmp.Diff(map[string]string{"config.json": tc.want}, got.Data); diff != "" {
				t.Errorf("\n%s\ndata: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R18: a drain takes one server at a time. Where there is one server, a budget
// would stop every drain.
func TestPodDisruptionBudget(t *testing.T) {
	cases := map[string]struct {
		reason   string
		replicas int32
		want     *policyv1.PodDisruptionBudgetSpec
	}{
		"One": {reason: "One server has no budget.", replicas: 1},
		"Two": {
			reason:   "From two on, one may be away: of the servers only.",
			replicas: 2,
			want: &policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: ptr.To(intstr.FromInt32(1)),
				Selector:       &metav1.LabelSelector{MatchLabels: naming.Identity{Name: "ds"}.SelectorLabels()},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := mustService(t, inputs(func(in *Inputs) { in.Spec.Replicas = ptr.To(tc.replicas) }))
			var got *policyv1.PodDisruptionBudgetSpec
			if o, ok := d[naming.KeyPodDisruptionBudget].Object.(*policyv1.PodDisruptionBudget); ok {
				got = &o.Spec
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nspec: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R19: who may connect, and to what.
func TestNetworkPolicy(t *testing.T) {
	port := func(n int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(n))}
	}
	ldap := []networkingv1.NetworkPolicyPort{port(3389), port(3636)}
	selector := metav1.LabelSelector{MatchLabels: naming.Identity{Name: "ds"}.SelectorLabels()}
	servers := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &selector}}, Ports: ldap}
	cidr := networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}
	team := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}

	cases := map[string]struct {
		reason string
		policy v1alpha1.NetworkPolicy
		want   []networkingv1.NetworkPolicyIngressRule
	}{
		"Defaults": {
			reason: "The pods of the namespace, and the servers each other.",
			want: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}, Ports: ldap},
				servers,
			},
		},
		"Clients": {
			reason: "By selector and by CIDR; the servers' own connections stay.",
			policy: v1alpha1.NetworkPolicy{Clients: []networkingv1.NetworkPolicyPeer{team, cidr}},
			want: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{team, cidr}, Ports: ldap},
				servers,
			},
		},
		"Monitoring": {
			reason: "Monitoring reaches the metrics and nothing else.",
			policy: v1alpha1.NetworkPolicy{Clients: []networkingv1.NetworkPolicyPeer{team}, Monitoring: []networkingv1.NetworkPolicyPeer{cidr}},
			want: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{team}, Ports: ldap},
				servers,
				{From: []networkingv1.NetworkPolicyPeer{cidr}, Ports: []networkingv1.NetworkPolicyPort{port(8389)}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.policy.Enabled = true
			// R8: a policy is about the pods' ports, whatever the Service's are.
			d := mustService(t, inputs(func(in *Inputs) {
				in.Spec.NetworkPolicy = tc.policy
				in.Spec.Ports = v1alpha1.Ports{LDAP: 389, LDAPS: 636}
			}))
			got := object[*networkingv1.NetworkPolicy](t, d, naming.KeyNetworkPolicy).Spec
			want := networkingv1.NetworkPolicySpec{
				PodSelector: selector,
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
				Ingress:     tc.want,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("\n%s\nspec: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R17: the ServiceAccount has the user's annotations and no token.
func TestServiceAccount(t *testing.T) {
	d := mustService(t, inputs(func(in *Inputs) { in.Spec.ServiceAccountAnnotations = map[string]string{"a": "b"} }))
	got := object[*corev1.ServiceAccount](t, d, naming.KeyServiceAccount)
	want := &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "ds", Namespace: "team",
			Labels:      naming.Identity{Name: "ds"}.Labels("3.1.0"),
			Annotations: map[string]string{"a": "b"},
		},
		AutomountServiceAccountToken: ptr.To(false),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ServiceAccount: -want, +got:\n%s", diff)
	}
}

// R20: the Usage is of what the user applied, by the kind that both flavours share,
// and says how to end it.
func TestUsage(t *testing.T) {
	d := mustService(t, inputs(func(in *Inputs) { in.Spec.DeletionProtection = true }))
	got := object[*protectionv1beta1.Usage](t, d, naming.KeyUsage)
	want := protectionv1beta1.NamespacedResource{
		APIVersion:  "dirsrv.operator.port389.org/v1alpha1",
		Kind:        "DirectoryService",
		ResourceRef: &protectionv1beta1.NamespacedResourceRef{Name: "ds"},
	}
	if diff := cmp.Diff(want, got.Spec.Of); diff != "" {
		t.Errorf("of: -want, +got:\n%s", diff)
	}
	if r := ptr.Deref(got.Spec.Reason, ""); !strings.Contains(r, "spec.deletionProtection") {
		t.Errorf("the reason does not name the field: %q", r)
	}
}
