package compose

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

func mustStatefulSet(t *testing.T, in Inputs) *appsv1.StatefulSet {
	t.Helper()
	return object[*appsv1.StatefulSet](t, mustService(t, in), naming.KeyStatefulSet)
}

// R13, R7: everything of the StatefulSet but its pods.
func TestStatefulSet(t *testing.T) {
	got := mustStatefulSet(t, inputs(func(in *Inputs) {
		in.Spec.Replicas = ptr.To[int32](3)
		in.Spec.Storage = v1alpha1.Storage{Size: ptr.To(resource.MustParse("10Gi")), StorageClassName: ptr.To("fast")}
	})).DeepCopy()
	template := got.Spec.Template
	got.Spec.Template = corev1.PodTemplateSpec{}
	delete(got.Annotations, naming.AnnotationTemplate)

	selector := map[string]string{
		"app.kubernetes.io/name":      "389-directory-server",
		"app.kubernetes.io/instance":  "ds",
		"app.kubernetes.io/component": "server",
	}
	want := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "ds", Namespace: "team",
			Labels:      naming.Identity{Name: "ds"}.Labels("3.1.0"),
			Annotations: map[string]string{"dirsrv.operator.port389.org/ledger": `{"good":{"version":"3.1.0","image":"dirsrv:3.1.0"}}`},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To[int32](3),
			ServiceName:         "ds-internal",
			Selector:            &metav1.LabelSelector{MatchLabels: selector},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				// S5: the API server adds apiVersion and kind.
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
				ObjectMeta: metav1.ObjectMeta{Name: "ds-data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					StorageClassName: ptr.To("fast"),
					Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
				},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("StatefulSet: -want, +got:\n%s", diff)
	}
	// R15: the selector selects the pods, by those three labels alone.
	for k, v := range selector {
		if template.GetLabels()[k] != v {
			t.Errorf("the pods lack the selector's label %s=%s: %v", k, v, template.GetLabels())
		}
	}
}

// The image and the ledger that speaks of it are written in one apply.
func TestStatefulSetCarriesTheLedger(t *testing.T) {
	good, target := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}, upgrade.Release{Version: "3.1.1", Image: "dirsrv:3.1.1"}
	sts := mustStatefulSet(t, inputs(func(in *Inputs) {
		in.Decision = upgrade.Decision{Run: &good, Target: target, Ledger: upgrade.Ledger{Good: &good}}
	}))
	if got := sts.Spec.Template.Spec.Containers[0].Image; got != good.Image {
		t.Errorf("the image is %q, want %q", got, good.Image)
	}
	got, err := upgrade.ParseLedger(sts.GetAnnotations()["dirsrv.operator.port389.org/ledger"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(upgrade.Ledger{Good: &good}, got); diff != "" {
		t.Errorf("ledger: -want, +got:\n%s", diff)
	}
}

// S5, R7: the API server refuses every change of these fields, so they come back
// as they are, whatever the spec or the function says by now.
func TestStatefulSetKeepsImmutableFields(t *testing.T) {
	observed := observe(mustStatefulSet(t, inputs(nil)))
	observed.Spec.ServiceName = "older-name"
	observed.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	observed.Spec.Selector.MatchLabels = map[string]string{"older": "label"}

	got := mustStatefulSet(t, inputs(func(in *Inputs) {
		in.StatefulSet = observed
		in.Spec.Storage = v1alpha1.Storage{Size: ptr.To(resource.MustParse("20Gi")), StorageClassName: ptr.To("other")}
		in.Spec.Replicas = ptr.To[int32](2)
	}))

	type immutable struct {
		Templates  []corev1.PersistentVolumeClaim
		Service    string
		Management appsv1.PodManagementPolicyType
		Selector   *metav1.LabelSelector
	}
	of := func(s appsv1.StatefulSetSpec) immutable {
		return immutable{s.VolumeClaimTemplates, s.ServiceName, s.PodManagementPolicy, s.Selector}
	}
	if diff := cmp.Diff(of(observed.Spec), of(got.Spec)); diff != "" {
		t.Errorf("immutable fields: -observed, +got:\n%s", diff)
	}
	if *got.Spec.Replicas != 2 {
		t.Errorf("what can change does not: %d replicas", *got.Spec.Replicas)
	}
}

// R14: the hash of the pod template against each class of change. What restarts
// the servers is deliberate; everything else reaches them while they run.
func TestPodTemplateHash(t *testing.T) {
	cases := map[string]struct {
		reason   string
		change   func(in *Inputs)
		restarts bool
	}{
		"Suffixes": {
			reason: "Suffixes go by the ConfigMap.",
			change: func(in *Inputs) {
				in.Spec.Suffixes = append(in.Spec.Suffixes, v1alpha1.Suffix{Name: "b", DN: "dc=b"})
				in.Config.Suffixes = append(in.Config.Suffixes, config.Suffix{Name: "b", DN: "dc=b"})
			},
		},
		"Ports": {
			reason: "R8: the ports are those of the Services.",
			change: func(in *Inputs) { in.Spec.Ports = v1alpha1.Ports{LDAP: 389, LDAPS: 636} },
		},
		"Service": {
			reason: "The Service is in front of the pods.",
			change: func(in *Inputs) {
				in.Spec.Service = v1alpha1.ClientService{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"a": "b"}}
			},
		},
		"FirstServerOnly": {
			reason: "R5: the Service's selector is not the pods'.",
			change: func(in *Inputs) { in.FirstServerOnly = true },
		},
		"NetworkPolicy": {
			reason: "R19: the policy is around the pods.",
			change: func(in *Inputs) {
				in.Spec.NetworkPolicy = v1alpha1.NetworkPolicy{Enabled: true, Monitoring: []networkingv1.NetworkPolicyPeer{{}}}
			},
		},
		"DeletionProtection": {
			reason: "R20: the protection is of the XR.",
			change: func(in *Inputs) { in.Spec.DeletionProtection = true },
		},
		"Replicas": {
			reason: "R21: more servers leave the others alone.",
			change: func(in *Inputs) { in.Spec.Replicas = ptr.To[int32](5) },
		},
		"StorageSize": {
			reason: "R7: volumes grow under running servers.",
			change: func(in *Inputs) { in.Spec.Storage.Size = ptr.To(resource.MustParse("5Gi")) },
		},
		"ServiceAccountAnnotations": {
			reason: "The ServiceAccount is not part of the pod.",
			change: func(in *Inputs) { in.Spec.ServiceAccountAnnotations = map[string]string{"a": "b"} },
		},
		"Ledger": {
			reason: "What the ledger records is not part of the pod.",
			change: func(in *Inputs) { in.Decision.Ledger = upgrade.Ledger{Founded: []string{"userroot"}} },
		},
		"Target": {
			reason: "R28: a blocked target touches no pod.",
			change: func(in *Inputs) {
				in.Spec.Image, in.Spec.Version = "dirsrv:4.0.0", "4.0.0"
				in.Decision.Target = upgrade.Release{Version: "4.0.0", Image: "dirsrv:4.0.0"}
				in.Decision.Blocked = &upgrade.Refusal{Reason: upgrade.ReasonApprovalRequired}
			},
		},
		"GeneratedPassword": {
			reason: "R9: the value of a password is not in the template.",
			change: func(in *Inputs) { in.DMPassword.Keep = generated("another password") },
		},
		"JustGenerated": {
			reason: "R9: the call that generates the password gives the same template as the next.",
			change: func(in *Inputs) { in.DMPassword = DMPassword{Generate: true} },
		},
		"Availability": {
			reason: "Health is not part of the pod.",
			change: func(in *Inputs) { in.Available = false },
		},

		"Image": {
			reason:   "Another image is another server.",
			change:   func(in *Inputs) { in.Decision.Run = &upgrade.Release{Version: "3.1.0", Image: "mirror/dirsrv:3.1.0"} },
			restarts: true,
		},
		"Resources": {
			reason: "Resources are the container's.",
			change: func(in *Inputs) {
				in.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
			},
			restarts: true,
		},
		"NodeSelector": {
			reason:   "A node is chosen when the pod is made.",
			change:   func(in *Inputs) { in.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
			restarts: true,
		},
		"PodAnnotations": {
			reason:   "The way to restart by hand.",
			change:   func(in *Inputs) { in.Spec.PodAnnotations = map[string]string{"restarted": "now"} },
			restarts: true,
		},
		"StartupTimeout": {
			reason:   "R16: the timeout is in the server's environment and probe.",
			change:   func(in *Inputs) { in.Spec.Startup.TimeoutSeconds = 600 },
			restarts: true,
		},
		"PasswordSecret": {
			reason:   "R10: another Secret is another volume.",
			change:   func(in *Inputs) { in.Spec.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "mine"} },
			restarts: true,
		},
	}
	hash := func(t *testing.T, in Inputs) string {
		t.Helper()
		b, err := json.Marshal(mustStatefulSet(t, in).Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := hash(t, inputs(nil))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := hash(t, inputs(tc.change))
			if restarts := before != after; restarts != tc.restarts {
				t.Errorf("\n%s\nthe change restarts the pods: want %t, got %t:\n%s", tc.reason, tc.restarts, restarts, cmp.Diff(before, after))
			}
		})
	}
}

// R21: scaling changes .spec.replicas of the StatefulSet, and nothing else of it.
func TestScaling(t *testing.T) {
	observed := observe(mustStatefulSet(t, inputs(nil)))
	scaled := func(n int32) *appsv1.StatefulSet {
		return mustStatefulSet(t, inputs(func(in *Inputs) {
			in.StatefulSet = observed
			in.Spec.Replicas = ptr.To(n)
			in.FirstServerOnly = n > 1
		})).DeepCopy()
	}
	one, five := scaled(1), scaled(5)
	if *one.Spec.Replicas != 1 || *five.Spec.Replicas != 5 {
		t.Errorf("replicas: want 1 and 5, got %d and %d", *one.Spec.Replicas, *five.Spec.Replicas)
	}
	five.Spec.Replicas = one.Spec.Replicas
	if diff := cmp.Diff(one, five); diff != "" {
		t.Errorf("scaling changes more than .spec.replicas: -one, +five:\n%s", diff)
	}
}
