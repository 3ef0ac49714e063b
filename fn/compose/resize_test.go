package compose

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/389ds/function-directoryservice/fn/naming"
)

// smallInputs are those of a service with volumes to grow, changed.
func smallInputs(change func(in *Inputs)) Inputs {
	return inputs(func(in *Inputs) {
		in.AgentImage = "registry.example.com/function:v1"
		in.Grow = &Growth{
			Claims: []string{"ds-data-ds-0", "ds-data-ds-1"},
			UIDs:   []string{"0a5f", "0a60"},
			Size:   resource.MustParse("2Gi"),
		}
		if change != nil {
			change(in)
		}
	})
}

// resizeKeys of what is composed, in order: the Job, its Role, RoleBinding and
// ServiceAccount.
func resizeKeys(d Desired) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if naming.IsResize(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// R7: a Job grows the volumes. It may change those claims and do nothing else. All
// that it has in common with the one that deletes a pod, TestUnstick holds.
func TestResize(t *testing.T) {
	d := settled(t, smallInputs(func(in *Inputs) { in.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	keys := resizeKeys(d)
	if len(keys) != 4 {
		t.Fatalf("keys: %v", keys)
	}
	key := keys[0]
	if diff := cmp.Diff([]string{key, key + "-role", key + "-rolebinding", key + "-serviceaccount"}, keys); diff != "" {
		t.Errorf("keys: -want, +got:\n%s", diff)
	}
	labels := map[string]string{
		"app.kubernetes.io/name":       "389-directory-server",
		"app.kubernetes.io/instance":   "ds",
		"app.kubernetes.io/component":  "resize",
		"app.kubernetes.io/part-of":    "directoryservice",
		"app.kubernetes.io/managed-by": "function-directoryservice",
	}
	meta := metav1.ObjectMeta{Name: "ds-" + key, Namespace: "team", Labels: labels}

	job := object[*batchv1.Job](t, d, key)
	pod := job.Spec.Template
	type want struct {
		Job, Pod     metav1.ObjectMeta
		Image        string
		Args         []string
		NodeSelector map[string]string
		Account      string
	}
	if diff := cmp.Diff(want{
		Job: meta,
		Pod: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
			"dirsrv.operator.port389.org/size":   "2Gi",
			"dirsrv.operator.port389.org/claims": "0a5f,0a60",
		}},
		Image:        "registry.example.com/function:v1",
		Args:         []string{"resize", "--namespace", "team", "--size", "2Gi", "--claim", "ds-data-ds-0", "--claim", "ds-data-ds-1"},
		NodeSelector: map[string]string{"disk": "ssd"},
		Account:      meta.Name,
	}, want{
		Job: job.ObjectMeta, Pod: pod.ObjectMeta, Image: pod.Spec.Containers[0].Image, Args: pod.Spec.Containers[0].Args,
		NodeSelector: pod.Spec.NodeSelector, Account: pod.Spec.ServiceAccountName,
	}); diff != "" {
		t.Errorf("Job: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(&rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get", "patch"}, APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"},
			ResourceNames: []string{"ds-data-ds-0", "ds-data-ds-1"},
		}},
	}, object[*rbacv1.Role](t, d, key+"-role")); diff != "" {
		t.Errorf("Role: -want, +got:\n%s", diff)
	}
	if b := object[*rbacv1.RoleBinding](t, d, key+"-rolebinding"); b.RoleRef.Name != meta.Name || b.Subjects[0].Name != meta.Name {
		t.Errorf("RoleBinding: %+v", b)
	}
	if a := object[*corev1.ServiceAccount](t, d, key+"-serviceaccount"); !cmp.Equal(a.ObjectMeta, meta) {
		t.Errorf("ServiceAccount: %+v", a)
	}
}

// R7: the Job's pods are no servers, and the function finds them.
func TestResizeLabels(t *testing.T) {
	in := smallInputs(nil)
	d := settled(t, in)
	pod := labels.Set(object[*batchv1.Job](t, d, resizeKeys(d)[0]).Spec.Template.GetLabels())
	if s := labels.SelectorFromSet(in.Identity.SelectorLabels()); s.Matches(pod) {
		t.Errorf("%s selects the Job's pods: %v", s, pod)
	}
	if s := labels.SelectorFromSet(in.Identity.ResizeSelector()); !s.Matches(pod) {
		t.Errorf("%s does not select the Job's pods: %v", s, pod)
	}
}

// R7: which of it there is, by what exists.
func TestResizeObjects(t *testing.T) {
	job := resizeKeys(settled(t, smallInputs(nil)))[0]
	account, role, binding := job+"-serviceaccount", job+"-role", job+"-rolebinding"
	all := []string{job, role, binding, account}

	cases := map[string]struct {
		reason string
		in     Inputs
		want   []string
		held   bool
	}{
		"LargeEnough": {
			reason: "There is nothing to do.",
			in:     smallInputs(func(in *Inputs) { in.Grow = nil }),
		},
		"ImageUnknown": {
			reason: "Without an image no Job could run.",
			in:     smallInputs(func(in *Inputs) { in.AgentImage = "" }),
		},
		"First": {
			reason: "The API server refuses a RoleBinding before its Role.",
			in:     smallInputs(nil),
			want:   []string{role, account},
		},
		"Then": {
			reason: "With the Role comes the rest.",
			in:     smallInputs(func(in *Inputs) { in.Observed = set(role, account) }),
			want:   all,
		},
		"Over": {
			reason: "All of it goes when the volumes have their size.",
			in: smallInputs(func(in *Inputs) {
				in.Grow = nil
				in.Observed = set(all...)
			}),
		},
		"Unknown": {
			reason: "It stays while nobody knows which volumes there are.",
			in: smallInputs(func(in *Inputs) {
				in.Grow, in.ClaimsUnknown = nil, true
				in.Observed = set(all...)
			}),
			want: all, held: true,
		},
		"UnknownAtFirst": {
			reason: "Nor does any of it come then.",
			in:     smallInputs(func(in *Inputs) { in.Grow, in.ClaimsUnknown = nil, true }),
		},
		"OtherSize": {
			reason: "What grew them to another size goes.",
			in:     smallInputs(func(in *Inputs) { in.Observed = set("resize-0", "resize-0-role", role, account) }),
			want:   all,
		},
		"Ended": {
			reason: "A Job that gave up is deleted, and with the next call made anew: a StorageClass may have been mended.",
			in: smallInputs(func(in *Inputs) {
				in.Observed = set(all...)
				in.EndedJobs = map[string]struct{}{job: {}}
			}),
			want: []string{role, binding, account},
		},
		"Unsticks": {
			reason: "That pods are unknown is nothing to it.",
			in: smallInputs(func(in *Inputs) {
				in.PodsUnknown = true
				in.Observed = set(role, account)
			}),
			want: all,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := mustService(t, tc.in)
			if diff := cmp.Diff(tc.want, resizeKeys(d)); diff != "" {
				t.Errorf("\n%s\nkeys: -want, +got:\n%s", tc.reason, diff)
			}
			for _, key := range resizeKeys(d) {
				if d[key].NotReady || (d[key].Object == nil) != tc.held {
					t.Errorf("\n%s\n%q: %+v", tc.reason, key, d[key])
				}
			}
		})
	}
}

// R7: while a spec is invalid, all of it stays as it is.
func TestResizeHeld(t *testing.T) {
	in := smallInputs(func(in *Inputs) {
		in.Grow = nil
		in.Observed = set("resize-0", "resize-0-role")
	})
	d, err := HoldRollout(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Desired{"resize-0": Held(), "resize-0-role": Held()}, d); diff != "" {
		t.Errorf("HoldRollout(): -want, +got:\n%s", diff)
	}
}

// R7: a Job's pod template cannot change: whatever it runs is in its key.
func TestResizeKey(t *testing.T) {
	key := resizeKeys(settled(t, smallInputs(nil)))[0]
	cases := map[string]struct {
		reason string
		change func(in *Inputs)
		same   bool
	}{
		"Again":      {reason: "The same Job has the same key.", same: true},
		"Notation":   {reason: "2048Mi are 2Gi.", change: func(in *Inputs) { in.Grow.Size = resource.MustParse("2048Mi") }, same: true},
		"Image":      {reason: "Another version of the function is another Job.", change: func(in *Inputs) { in.AgentImage = "registry.example.com/function:v2" }},
		"Size":       {reason: "Another size.", change: func(in *Inputs) { in.Grow.Size = resource.MustParse("3Gi") }},
		"NewOrdinal": {reason: "A claim more.", change: func(in *Inputs) { in.Grow.Claims = append(in.Grow.Claims, "ds-data-ds-2") }},
		"Recreated":  {reason: "A claim that took the name of another is as small as the template.", change: func(in *Inputs) { in.Grow.UIDs[1] = "0a61" }},
		"Toleration": {reason: "A Job that could run nowhere is replaced when it could.", change: func(in *Inputs) { in.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := resizeKeys(settled(t, smallInputs(tc.change)))[0]; (got == key) != tc.same {
				t.Errorf("\n%s\nkey: %s, and before %s", tc.reason, got, key)
			}
		})
	}
}

// R7: the longest name of a service leaves room for the Job's.
func TestResizeName(t *testing.T) {
	d := settled(t, smallInputs(func(in *Inputs) { in.Identity.Name = strings.Repeat("a", 52) }))
	if name := object[*batchv1.Job](t, d, resizeKeys(d)[0]).GetName(); len(name) > 63 || !strings.HasPrefix(name, strings.Repeat("a", 40)+"-resize-") {
		t.Errorf("the name is %q", name)
	}
}
