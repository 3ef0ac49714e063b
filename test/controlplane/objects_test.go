//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func testExamples(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "examples")
	type summary struct {
		ServiceName, ServiceAccount, Management string
		Replicas                                int32
		Image                                   string
		Storage                                 map[string]string
	}
	cases := map[string]struct {
		reason string
		file   string
		name   string
		want   summary
		budget bool // a PodDisruptionBudget
	}{
		"Replicated": {
			reason: "The example with everything spelled out has two replicas, so one of them may not be evicted.",
			file:   "my-ds.yaml",
			name:   "my-ds",
			want: summary{
				ServiceName: "my-ds-internal", ServiceAccount: "my-ds", Management: "Parallel", Replicas: 2,
				Image: "quay.io/389ds/dirsrv:3.1.0", Storage: map[string]string{"ds-data": "10Gi"},
			},
			budget: true,
		},
		"Single": {
			reason: "The shorter example gets the defaults, and no budget that would only block draining its node.",
			file:   "example-ds.yaml",
			name:   "example-ds",
			want: summary{
				ServiceName: "example-ds-internal", ServiceAccount: "example-ds", Management: "Parallel", Replicas: 1,
				Image: "quay.io/389ds/dirsrv:3.1.0", Storage: map[string]string{"ds-data": "1Gi"},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			manifest := string(mustRead(t, inRoot(t, "test", "controlplane", "testdata", tc.file)))
			d := cp.apply(t, ns, manifest)
			s := d.waitStatefulSet(t, "exists", func(*appsv1.StatefulSet) bool { return true })
			d.waitRunning(t)

			got := summary{
				ServiceName: s.Spec.ServiceName, ServiceAccount: s.Spec.Template.Spec.ServiceAccountName,
				Management: string(s.Spec.PodManagementPolicy), Replicas: *s.Spec.Replicas, Storage: map[string]string{},
			}
			for _, c := range s.Spec.Template.Spec.Containers {
				if c.Name == "dirsrv" {
					got.Image = c.Image
				}
			}
			for _, c := range s.Spec.VolumeClaimTemplates {
				got.Storage[c.Name] = c.Spec.Resources.Requests.Storage().String()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nStatefulSet: -want, +got:\n%s", tc.reason, diff)
			}

			d.compareService(t, tc.name, false)
			d.compareService(t, tc.name+"-internal", true)
			if len(cp.secret(t, ns, tc.name+"-dm-password").Data["dm-password"]) == 0 {
				t.Errorf("%s\nSecret: no password", tc.reason)
			}
			if doc := d.config(t); !strings.Contains(doc, "dc=example,dc=com") {
				t.Errorf("%s\nConfigMap: no suffix in %q", tc.reason, doc)
			}
			if _, err := cp.kube.CoreV1().ServiceAccounts(ns).Get(t.Context(), s.Spec.Template.Spec.ServiceAccountName, metav1.GetOptions{}); err != nil {
				t.Errorf("%s\n%v", tc.reason, err)
			}
			d.comparePodDisruptionBudget(t, tc.budget)
			d.checkNamespaces(t)

			// S5: what was applied is what is stored.
			if out := cp.kubectl(t, manifest, "apply", "-n", ns, "-f", "-"); !strings.Contains(out, "unchanged") {
				t.Errorf("%s\napplied once more: %s", tc.reason, out)
			}
		})
	}
}

// compareService checks one of the two Services (R8, R12).
func (d directory) compareService(t *testing.T, name string, headless bool) {
	t.Helper()
	s, err := d.cp.kube.CoreV1().Services(d.namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	type summary struct {
		Ports              map[string]int32
		Headless, NotReady bool
		Type               corev1.ServiceType
		Selects            map[string]bool
	}
	got := summary{
		Ports: map[string]int32{}, Headless: s.Spec.ClusterIP == corev1.ClusterIPNone, NotReady: s.Spec.PublishNotReadyAddresses, Type: s.Spec.Type,
		Selects: d.selected(t, s.Spec.Selector),
	}
	for _, p := range s.Spec.Ports {
		if p.Name == "ldap" || p.Name == "ldaps" {
			got.Ports[p.Name] = p.Port
		}
	}
	want := summary{
		Ports: map[string]int32{"ldap": 3389, "ldaps": 3636}, Headless: headless, NotReady: headless, Type: corev1.ServiceTypeClusterIP,
		Selects: map[string]bool{},
	}
	for _, p := range d.pods(t) {
		// R5: servers that do not replicate are never behind one Service.
		want.Selects[p.Name] = headless || p.Name == d.name+"-0" || condition(d.get(t), "ReplicationHealthy").Status == metav1.ConditionTrue
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Service %s: -want, +got:\n%s", name, diff)
	}
}

// selected says of each server whether a selector selects it.
func (d directory) selected(t *testing.T, selector map[string]string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, p := range d.pods(t) {
		out[p.Name] = labels.SelectorFromSet(selector).Matches(labels.Set(p.Labels))
	}
	return out
}

func (d directory) comparePodDisruptionBudget(t *testing.T, want bool) {
	t.Helper()
	l, err := d.cp.kube.PolicyV1().PodDisruptionBudgets(d.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var got []string
	for _, b := range l.Items {
		if cmp.Equal(b.Spec.Selector.MatchLabels, d.statefulSet(t).Spec.Selector.MatchLabels) {
			got = append(got, b.Spec.MaxUnavailable.String())
		}
	}
	var expected []string
	if want {
		expected = []string{"1"}
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("maxUnavailable of the service's PodDisruptionBudgets: -want, +got:\n%s", diff)
	}
}

// checkNamespaces checks that no child lies outside the user's namespace.
func (d directory) checkNamespaces(t *testing.T) {
	t.Helper()
	xr := d.composite(t).GetName()
	found := 0
	for _, gvr := range watched {
		l, err := d.cp.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/composite=" + xr})
		must(t, err)
		for _, o := range l.Items {
			found++
			// Crossplane itself confines a namespaced XR; another one in another namespace may have its name.
			if d.cp.claim && o.GetNamespace() != d.namespace {
				t.Errorf("%s %s/%s lies outside %s", gvr.Resource, o.GetNamespace(), o.GetName(), d.namespace)
			}
		}
	}
	if found < 6 {
		t.Errorf("found %d children of %s only", found, xr)
	}
}

func (d directory) config(t *testing.T) string {
	t.Helper()
	c, err := d.cp.kube.CoreV1().ConfigMaps(d.namespace).Get(t.Context(), d.name+"-config", metav1.GetOptions{})
	must(t, err)
	return c.Data["config.json"]
}

func testSchema(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "schema")
	const head = "apiVersion: dirsrv.operator.port389.org/v1alpha1\nkind: DirectoryService\nmetadata:\n  name: refused\nspec:\n"
	cases := map[string]struct {
		reason string
		spec   string
		want   string // in the refusal; empty: accepted
	}{
		"Accepted": {
			reason: "R4: a leading v is allowed, so what the other cases are refused for is not the rest of the object.",
			spec:   "  image: ds:v3.1.0\n  version: v3.1.0\n",
		},
		"NoImage": {
			reason: "R3: there is no image to guess.",
			spec:   "  version: 3.1.0\n",
			want:   "spec.image",
		},
		"Latest": {
			reason: "R4: latest cannot be compared.",
			spec:   "  image: ds:latest\n  version: latest\n",
			want:   "spec.version",
		},
		"TwoParts": {
			reason: "R4: 3.0 is not a semantic version.",
			spec:   "  image: ds:3.0\n  version: \"3.0\"\n",
			want:   "spec.version",
		},
		"BuildMetadata": {
			reason: "R4: build metadata does not count in a comparison.",
			spec:   "  image: ds:3.1.0\n  version: 3.1.0+x\n",
			want:   "spec.version",
		},
		"NoReplicas": {
			reason: "R5: at least one server.",
			spec:   "  image: ds:3.1.0\n  replicas: 0\n",
			want:   "spec.replicas",
		},
		"TooManyReplicas": {
			reason: "R5: a full mesh of more than twenty helps nobody.",
			spec:   "  image: ds:3.1.0\n  replicas: 21\n",
			want:   "spec.replicas",
		},
		"SuffixTwice": {
			reason: "R6: the server compares backend names without regard to case.",
			spec:   "  image: ds:3.1.0\n  suffixes: [{name: a, dn: dc=a}, {name: A, dn: dc=b}]\n",
			want:   "spec.suffixes",
		},
		"SuffixName": {
			reason: "R6: a backend's name is part of a DN and of a path.",
			spec:   "  image: ds:3.1.0\n  suffixes: [{name: 1a, dn: dc=a}]\n",
			want:   "spec.suffixes[0].name",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := cp.tryKubectl(t, head+tc.spec, "apply", "--dry-run=server", "-n", ns, "-f", "-")
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s\nrefused: %v", tc.reason, err)
			case tc.want != "" && err == nil:
				t.Errorf("%s\naccepted: %s", tc.reason, out)
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("%s\nthe refusal does not name %s: %v", tc.reason, tc.want, err)
			}
		})
	}
}

func testScale(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "scale")
	d := cp.running(t, ns, example(t, ""))

	header, row, _ := strings.Cut(cp.kubectl(t, "", "get", "dirsrv", "-n", ns), "\n")
	want := "NAME VERSION TARGET REPLICAS READY(PODS) PHASE SYNCED READY"
	if got := strings.Join(strings.Fields(header), " "); !strings.HasPrefix(got, want) {
		t.Errorf("kubectl get dirsrv: want columns %s first, got %s", want, got)
	}
	want = "example-ds 3.1.0 3.1.0 1 1 Running True True"
	if got := strings.Join(strings.Fields(row), " "); !strings.HasPrefix(got, want) {
		t.Errorf("kubectl get dirsrv: want %s, got %s", want, got)
	}

	before := d.statefulSet(t)
	pods := uids(d.pods(t))
	scale := func(n int32) *appsv1.StatefulSet {
		t.Helper()
		cp.kubectl(t, "", "scale", "dirsrv", d.name, "-n", ns, fmt.Sprintf("--replicas=%d", n))
		d.waitStatefulSet(t, fmt.Sprintf("%d replicas", n), func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == n })
		cp.eventually(t, soon, fmt.Sprintf("%d replicas Ready in the scale subresource", n), func() string {
			d.markPodsReady(t)
			u := d.get(t)
			out := cp.kubectl(t, "", "get", "--raw", fmt.Sprintf("/apis/%s/namespaces/%s/%s/%s/scale", directoryServices.GroupVersion(), ns, directoryServices.Resource, d.name))
			if !strings.Contains(out, fmt.Sprintf(`"status":{"replicas":%d,"selector":"`, n)) || status(u, "phase") != "Running" {
				return out + compact(u.Object["status"])
			}
			return ""
		})
		return d.statefulSet(t)
	}

	after := scale(3)
	ignore := cmpopts.IgnoreFields(appsv1.StatefulSetSpec{}, "Replicas")
	if diff := cmp.Diff(before.Spec, after.Spec, ignore); diff != "" {
		t.Errorf("R21: scaling up changed more than the replicas: -before, +after:\n%s", diff)
	}
	kept := uids(d.pods(t))
	for name, uid := range pods {
		if kept[name] != uid {
			t.Errorf("R21: scaling up replaced pod %s", name)
		}
	}
	d.comparePodDisruptionBudget(t, true)

	cp.recorder.allow(ns, "pods", d.name+"-1", d.name+"-2")
	cp.recorder.allow(ns, "poddisruptionbudgets")
	after = scale(1)
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("R21: scaling back left: -before, +after:\n%s", diff)
	}
	cp.eventually(t, soon, "two pods gone", func() string {
		if got := uids(d.pods(t)); !cmp.Equal(pods, got) {
			return fmt.Sprint(got)
		}
		return ""
	})
	cp.eventually(t, soon, "R18: no PodDisruptionBudget for a single server", func() string {
		if _, err := cp.kube.PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), d.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	if got := len(d.claims(t)); got != 3 {
		t.Errorf("R7: scaling down left %d of 3 volume claims", got)
	}
}

func uids(pods []corev1.Pod) map[string]types.UID {
	out := map[string]types.UID{}
	for _, p := range pods {
		out[p.Name] = p.UID
	}
	return out
}
