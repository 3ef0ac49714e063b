package compose

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// stuckInputs are those of a service with a stuck pod, changed.
func stuckInputs(change func(in *Inputs)) Inputs {
	return inputs(func(in *Inputs) {
		in.AgentImage = "registry.example.com/function:v1"
		in.Unstick = []upgrade.Condemned{{Pod: "ds-1", UID: "0a5f", Revision: "ds-bad", Since: time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC)}}
		if change != nil {
			change(in)
		}
	})
}

// settled composes until a call brings nothing new, as Crossplane does.
func settled(t *testing.T, in Inputs) Desired {
	t.Helper()
	for range 5 {
		d := mustService(t, in)
		before := len(in.Observed)
		in.Observed = set(slices.Collect(maps.Keys(d))...)
		if len(in.Observed) == before {
			return d
		}
	}
	t.Fatal("every call composes something new")
	return nil
}

// unstickKeys of what is composed, in order: the Job, its RoleBinding, Role and
// ServiceAccount.
func unstickKeys(d Desired) []string {
	var keys []string
	for key := range d {
		if naming.IsUnstick(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// onlyJob is the key of the one Job.
func onlyJob(t *testing.T, d Desired) string {
	t.Helper()
	keys := unstickKeys(d)
	want := []string{"", "-role", "-rolebinding", "-serviceaccount"}
	got := make([]string, len(keys))
	for i, k := range keys {
		got[i] = strings.TrimPrefix(k, keys[0])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("keys of one Job: -want, +got:\n%s", diff)
	}
	return keys[0]
}

// R35: a Job deletes the stuck pod. It may do that and nothing else, and meets Pod
// Security `restricted`.
func TestUnstick(t *testing.T) {
	toleration := corev1.Toleration{Key: "directory", Operator: corev1.TolerationOpExists}
	d := settled(t, stuckInputs(func(in *Inputs) {
		in.Spec.ImagePullSecrets = []v1alpha1.LocalSecretRef{{Name: "registry"}}
		in.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		in.Spec.Tolerations = []corev1.Toleration{toleration}
	}))
	key := onlyJob(t, d)
	name := "ds-" + key
	labels := map[string]string{
		"app.kubernetes.io/name":       "389-directory-server",
		"app.kubernetes.io/instance":   "ds",
		"app.kubernetes.io/component":  "unstick",
		"app.kubernetes.io/part-of":    "directoryservice",
		"app.kubernetes.io/managed-by": "function-directoryservice",
	}
	object := metav1.ObjectMeta{Name: name, Namespace: "team", Labels: labels}

	want := Desired{
		key: {Object: &batchv1.Job{
			TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
			ObjectMeta: object,
			Spec: batchv1.JobSpec{
				BackoffLimit: ptr.To[int32](100),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{
						Labels:      labels,
						Annotations: map[string]string{"dirsrv.operator.port389.org/not-ready-since": "2026-02-03T04:05:06Z"},
					},
					Spec: corev1.PodSpec{
						ServiceAccountName:           name,
						AutomountServiceAccountToken: ptr.To(true),
						RestartPolicy:                corev1.RestartPolicyOnFailure,
						SecurityContext: &corev1.PodSecurityContext{
							RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532), RunAsNonRoot: ptr.To(true),
							SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
						},
						NodeSelector:     map[string]string{"disk": "ssd"},
						Tolerations:      []corev1.Toleration{toleration},
						ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
						Containers: []corev1.Container{{
							Name:  "unstick",
							Image: "registry.example.com/function:v1",
							Args:  []string{"unstick", "--namespace", "team", "--pod", "ds-1", "--uid", "0a5f", "--revision", "ds-bad"},
							Resources: corev1.ResourceRequirements{
								Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
								Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
							},
							TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
							SecurityContext: &corev1.SecurityContext{
								AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
								Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
							},
						}},
					},
				},
			},
		}},
		key + "-serviceaccount": {Object: &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: object,
		}},
		key + "-role": {Object: &rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: object,
			Rules: []rbacv1.PolicyRule{{
				Verbs: []string{"get", "delete"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"ds-1"},
			}},
		}},
		key + "-rolebinding": {Object: &rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
			ObjectMeta: object,
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "team"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
		}},
	}
	got := Desired{}
	for _, key := range unstickKeys(d) {
		got[key] = d[key]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// The Job's pods are no servers.
func TestUnstickIsNoServer(t *testing.T) {
	in := stuckInputs(nil)
	d := settled(t, in)
	servers := labels.SelectorFromSet(in.Identity.SelectorLabels())
	template := object[*batchv1.Job](t, d, onlyJob(t, d)).Spec.Template
	if servers.Matches(labels.Set(template.GetLabels())) {
		t.Errorf("%s matches the Job's pods: %v", servers, template.GetLabels())
	}
}

// Which of it there is, by what exists.
func TestUnstickObjects(t *testing.T) {
	key := onlyJob(t, settled(t, stuckInputs(nil)))
	job, account, role, binding := key, key+"-serviceaccount", key+"-role", key+"-rolebinding"

	cases := map[string]struct {
		reason string
		in     Inputs
		want   []string
	}{
		"NothingStuck": {
			reason: "Without a condemned pod there is nothing to do.",
			in:     stuckInputs(func(in *Inputs) { in.Unstick = nil }),
		},
		"ImageUnknown": {
			reason: "Without an image no Job could run.",
			in:     stuckInputs(func(in *Inputs) { in.AgentImage = "" }),
		},
		"First": {
			reason: "The API server refuses a RoleBinding before its Role.",
			in:     stuckInputs(nil),
			want:   []string{role, account},
		},
		"Then": {
			reason: "With the Role comes the rest.",
			in:     stuckInputs(func(in *Inputs) { in.Observed = set(role, account) }),
			want:   []string{job, role, binding, account},
		},
		"Steady": {
			reason: "It stays while the pod is condemned.",
			in:     stuckInputs(func(in *Inputs) { in.Observed = set(role, account, binding, job) }),
			want:   []string{job, role, binding, account},
		},
		"Over": {
			reason: "It goes with its pod.",
			in: stuckInputs(func(in *Inputs) {
				in.Unstick = nil
				in.Observed = set(role, account, binding, job)
			}),
		},
		"Other": {
			reason: "What deleted an earlier pod goes, although another is stuck now.",
			in:     stuckInputs(func(in *Inputs) { in.Observed = set("unstick-0", "unstick-0-role", role, account) }),
			want:   []string{job, role, binding, account},
		},
		"Twice": {
			reason: "A pod that is named twice has one Job.",
			in: stuckInputs(func(in *Inputs) {
				in.Unstick = append(in.Unstick, in.Unstick...)
				in.Observed = set(role)
			}),
			want: []string{job, role, binding, account},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := mustService(t, tc.in)
			if diff := cmp.Diff(tc.want, unstickKeys(d)); diff != "" {
				t.Errorf("\n%s\nkeys: -want, +got:\n%s", tc.reason, diff)
			}
			for _, key := range unstickKeys(d) {
				if d[key].NotReady || d[key].Object == nil {
					t.Errorf("\n%s\n%q: %+v", tc.reason, key, d[key])
				}
			}
		})
	}
}

// A service with problems is held, Jobs and all.
func TestUnstickHeld(t *testing.T) {
	observed := set("unstick-0", "unstick-0-role")
	if diff := cmp.Diff(Desired{"unstick-0": Held(), "unstick-0-role": Held()}, Hold(observed)); diff != "" {
		t.Errorf("Hold(): -want, +got:\n%s", diff)
	}
}

// A Job's pod template cannot change: whatever it runs is in its key.
func TestUnstickKey(t *testing.T) {
	key := onlyJob(t, settled(t, stuckInputs(nil)))
	cases := map[string]struct {
		reason string
		change func(in *Inputs)
		same   bool
	}{
		"Again":       {reason: "The same Job has the same key.", same: true},
		"Version":     {reason: "What the servers run is nothing to the Job.", change: func(in *Inputs) { in.Decision.Run.Version = "3.1.1" }, same: true},
		"Image":       {reason: "Another version of the function is another Job.", change: func(in *Inputs) { in.AgentImage = "registry.example.com/function:v2" }},
		"Pod":         {reason: "Another pod.", change: func(in *Inputs) { in.Unstick[0].Pod = "ds-2" }},
		"UID":         {reason: "The same pod anew.", change: func(in *Inputs) { in.Unstick[0].UID = "0a60" }},
		"Revision":    {reason: "Another revision.", change: func(in *Inputs) { in.Unstick[0].Revision = "ds-worse" }},
		"Since":       {reason: "A pod that was Ready in between: the Job that found it Ready has ended.", change: func(in *Inputs) { in.Unstick[0].Since = in.Unstick[0].Since.Add(time.Second) }},
		"Toleration":  {reason: "A Job that could run nowhere is replaced when it could.", change: func(in *Inputs) { in.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }},
		"Selector":    {reason: "The same.", change: func(in *Inputs) { in.Spec.NodeSelector = map[string]string{"a": "b"} }},
		"PullSecrets": {reason: "A Job that could not pull its image is replaced when it could.", change: func(in *Inputs) { in.Spec.ImagePullSecrets = []v1alpha1.LocalSecretRef{{Name: "a"}} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := settled(t, stuckInputs(tc.change))
			if got := onlyJob(t, d); (got == key) != tc.same {
				t.Errorf("\n%s\nkey: %s, and before %s", tc.reason, got, key)
			}
		})
	}
}

// R34: the order in which pods are found is nothing to what is composed.
func TestUnstickIsDeterministic(t *testing.T) {
	compose := func(pods ...upgrade.Condemned) string {
		b, err := json.Marshal(settled(t, stuckInputs(func(in *Inputs) {
			in.Unstick = pods
			in.Spec.NodeSelector = map[string]string{"a": "1", "b": "2", "c": "3"}
		})))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one, two := upgrade.Condemned{Pod: "ds-0", UID: "1"}, upgrade.Condemned{Pod: "ds-1", UID: "2"}
	first := compose(one, two)
	for range 20 {
		if diff := cmp.Diff(first, compose(two, one)); diff != "" {
			t.Fatalf("another call, other objects: -first, +second:\n%s", diff)
		}
	}
}

// Names are values of labels too (batch.kubernetes.io/job-name), of at most 63
// characters.
func TestUnstickNames(t *testing.T) {
	cases := map[string]struct {
		reason  string
		service string
	}{
		"Short":      {reason: "A short name is whole.", service: "a"},
		"Longest":    {reason: "The longest name of a service is cut.", service: strings.Repeat("a", 52)},
		"CutAtADash": {reason: "A cut may be anywhere.", service: strings.Repeat("a", 39) + "-" + strings.Repeat("b", 12)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := settled(t, stuckInputs(func(in *Inputs) { in.Identity.Name = tc.service }))
			for _, key := range unstickKeys(d) {
				o, err := meta.Accessor(d[key].Object)
				if err != nil {
					t.Fatal(err)
				}
				if errs := validation.IsDNS1123Label(o.GetName()); len(errs) > 0 {
					t.Errorf("\n%s\n%q: %v", tc.reason, o.GetName(), errs)
				}
				if !strings.HasPrefix(o.GetName(), tc.service[:min(len(tc.service), 40)]+"-unstick-") {
					t.Errorf("\n%s\nthe name is %q", tc.reason, o.GetName())
				}
			}
		})
	}
}

// S11: the ClusterRole lets Crossplane manage every composed kind, and has each right
// that a composed Role gives: Kubernetes lets nobody grant what he has not got.
func TestClusterRole(t *testing.T) {
	raw, err := os.ReadFile("../../package/clusterrole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, &role); err != nil {
		t.Fatal(err)
	}
	granted := func(group, resource, verb string) bool {
		return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) &&
				slices.Contains(r.Verbs, verb) && len(r.ResourceNames) == 0
		})
	}
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			if slices.Contains([]string{"escalate", "bind", "impersonate", "*"}, verb) {
				t.Errorf("it would let Crossplane grant anything: %v", r)
			}
		}
	}

	d := settled(t, stuckInputs(func(in *Inputs) {
		in.Spec.Replicas = ptr.To[int32](2)
		in.Spec.NetworkPolicy.Enabled = true
		in.Spec.DeletionProtection = true
		in.Grow = smallInputs(nil).Grow
	}))
	for key, composed := range d {
		o, ok := composed.Object.(runtime.Object)
		if !ok {
			t.Fatalf("the composed object %q is a %T", key, composed.Object)
		}
		gvr, _ := meta.UnsafeGuessKindToResource(o.GetObjectKind().GroupVersionKind())
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			if !granted(gvr.Group, gvr.Resource, verb) {
				t.Errorf("%q: Crossplane may not %s %s", key, verb, gvr.GroupResource())
			}
		}
		r, ok := o.(*rbacv1.Role)
		if !ok {
			continue
		}
		for _, rule := range r.Rules {
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("%q: a Role has no use for URLs: %v", key, rule)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if !granted(group, resource, verb) {
							t.Errorf("%q: Crossplane may not grant what it may not do: %s %s.%s", key, verb, resource, group)
						}
					}
				}
			}
		}
	}
}

// R35: the mistake that is taken back may be where pods run: the Job runs where the
// good release does, and not where the spec says, be the spec valid or not.
func TestUnstickRunsWhereTheReleaseRuns(t *testing.T) {
	stuck := func(in *Inputs) {
		goBack(in)
		in.AgentImage = "registry.example.com/function:v1"
		in.Unstick = []upgrade.Condemned{{Pod: "ds-1", UID: "0a5f", Revision: "ds-bad"}}
		in.Spec.NodeSelector = map[string]string{"pool": "tpyo"}
		in.Spec.Tolerations = []corev1.Toleration{{Key: "no", Operator: "such"}}
		in.Spec.ImagePullSecrets = []v1alpha1.LocalSecretRef{{Name: "UPPER CASE"}}
	}
	for name, composed := range map[string]func(Inputs) (Desired, error){"Service": Service, "HoldRollout": HoldRollout} {
		t.Run(name, func(t *testing.T) {
			in := rollingOut(t, stuck)
			d, err := composed(in)
			if err != nil {
				t.Fatal(err)
			}
			in.Observed = set(append(slices.Collect(maps.Keys(d)), slices.Collect(maps.Keys(in.Observed))...)...)
			if d, err = composed(in); err != nil {
				t.Fatal(err)
			}
			jobs := 0
			for _, o := range d {
				job, ok := o.Object.(*batchv1.Job)
				if !ok {
					continue
				}
				jobs++
				pod := job.Spec.Template.Spec
				if len(pod.NodeSelector)+len(pod.Tolerations)+len(pod.ImagePullSecrets) > 0 {
					t.Errorf("the Job has what the spec says: %v %v %v", pod.NodeSelector, pod.Tolerations, pod.ImagePullSecrets)
				}
			}
			if jobs != 1 {
				t.Errorf("%d Jobs", jobs)
			}
		})
	}
}
