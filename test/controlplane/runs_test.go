//go:build controlplane

package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// crossplanes is how often Crossplane may call a function for one edit of the spec: for the edit, for the status and for
// the object that the answer changes. Its own writes of conditions come on top, see echo.
const crossplanes = 3

func testRuns(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "runs")
	d := directory{cp: cp, namespace: ns, name: "example-ds"}
	t.Cleanup(func() {
		cp.recorder.allowService(ns)
		_, _ = cp.tryKubectl(t, "", "delete", "dirsrv", d.name, "-n", ns, "--ignore-not-found", "--wait=false")
	})
	cases := []struct {
		name     string
		reason   string
		change   func(*testing.T)
		arrived  func() string
		restarts bool
		runs     int // at most, and one for each change by others
		alone    bool
		objects  map[string]int // what the function may change, and how often
	}{
		{
			name:   "Install",
			reason: "R1, R52: the CA, the certificate and the RoleBinding wait for an answer each; the ConfigMap gets the CA, and what was founded.",
			change: func(t *testing.T) { cp.applyForGood(t, ns, example(t, "")) },
			arrived: func() string {
				if d.statefulSet(t) == nil {
					return "no StatefulSet"
				}
				return ""
			},
			runs: crossplanes + 2,
			objects: map[string]int{
				"configmaps/example-ds-config": 3, "configmaps/example-ds-state": 1,
				"rolebindings/example-ds": 1, "roles/example-ds": 1, "serviceaccounts/example-ds": 1,
				"secrets/example-ds-dm-password": 1, "secrets/example-ds-tls": 1, "secrets/example-ds-tls-ca": 1,
				"services/example-ds": 1, "services/example-ds-internal": 1, "statefulsets/example-ds": 3,
			},
		},
		{
			name:   "Annotation",
			reason: "What the function does not read it answers as before, and nothing follows from that.",
			change: func(t *testing.T) {
				cp.kubectl(t, "", "annotate", "dirsrv", d.name, "-n", ns, "somebody.else/note=x")
			},
			runs:  2,
			alone: true,
		},
		{
			name:   "Nothing",
			reason: "The same version in other letters: all that happens is Crossplane's own.",
			change: func(t *testing.T) { d.patch(t, `{"spec":{"version":"v3.1.0"}}`) },
			runs:   crossplanes,
			alone:  true,
		},
		{
			name:   "Config",
			reason: "R14, R16: a suffix changes the ConfigMap once, and once more when a server has founded it; that is remembered, once.",
			change: func(t *testing.T) {
				d.patch(t, `{"spec":{"suffixes":[{"name":"userroot","dn":"dc=example,dc=com"},{"name":"second","dn":"dc=second"}]}}`)
			},
			arrived: func() string {
				if doc := d.config(t); !strings.Contains(doc, "dc=second") {
					return doc
				}
				return ""
			},
			runs:    crossplanes,
			objects: map[string]int{"configmaps/example-ds-config": 2, "statefulsets/example-ds": 1},
		},
		{
			name:   "Scale",
			reason: "R21: the StatefulSet changes once, then pods and claims come and its status follows them.",
			change: func(t *testing.T) { d.patch(t, `{"spec":{"replicas":2}}`) },
			arrived: func() string {
				if s := d.statefulSet(t); s.Status.ReadyReplicas != 2 {
					return compact(s.Status)
				}
				return ""
			},
			runs:    crossplanes,
			objects: map[string]int{"poddisruptionbudgets/example-ds": 1, "services/example-ds": 1, "statefulsets/example-ds": 1},
		},
		{
			name:   "Resources",
			reason: "R17, R30: the StatefulSet changes once for each of the two pods, and once when both are Ready.",
			change: func(t *testing.T) { d.patch(t, `{"spec":{"resources":{"requests":{"memory":"600Mi"}}}}`) },
			arrived: func() string {
				s := d.statefulSet(t)
				if memory := s.Spec.Template.Spec.Containers[0].Resources.Requests.Memory().String(); memory != "600Mi" || !updated(s) {
					return memory + " " + compact(s.Status)
				}
				return ""
			},
			restarts: true,
			runs:     crossplanes,
			objects:  map[string]int{"statefulsets/example-ds": 3},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.restarts {
				cp.recorder.allow(ns, "pods")
			}
			cp.settle(t, 3*time.Second)
			begin, before := time.Now(), cp.runs(t)
			tc.change(t)
			if tc.arrived != nil {
				cp.eventually(t, soon, "the change arrives", func() string {
					d.markPodsReady(t)
					return tc.arrived()
				})
			}
			d.waitRunning(t)
			cp.settle(t, 3*time.Second)
			runs := cp.runs(t) - before

			changes := cp.recorder.since(ns, begin)
			foreign, echoes, objects, parts := 0, 0, map[string]int{}, map[string]map[string]bool{}
			for _, c := range changes {
				switch {
				case c.foreign():
					foreign++
				case c.resource == cp.xr().Resource:
					if echo(c.old, c.new) {
						echoes++
					}
					for _, xr := range []*unstructured.Unstructured{c.old, c.new} {
						for part, value := range answer(xr) {
							if parts[part] == nil {
								parts[part] = map[string]bool{}
							}
							parts[part][value] = true
						}
					}
				case c.resource != directoryServices.Resource:
					objects[c.resource+"/"+c.name]++
				}
			}
			answers := 0
			for _, values := range parts {
				answers = max(answers, len(values)-1)
			}
			t.Logf("%d runs of the function, %d changes by others, %d of conditions by Crossplane, the function answered %d times anew, objects: %v", runs, foreign, echoes, answers, objects)

			if runs < 1 || runs > foreign+echoes+tc.runs {
				t.Errorf("%s\n%d runs of the function; want one, at most %d, one for each of the %d changes by others and of the %d times that Crossplane wrote conditions", tc.reason, runs, tc.runs, foreign, echoes)
			}
			// One answer to the edit, and one to each change by others: a function that changes its mind loops.
			if answers > foreign+1 {
				t.Errorf("%s\nthe function answered %d times anew; want once, and once for each of the %d changes by others", tc.reason, answers, foreign)
			}
			for name, n := range objects {
				if n > tc.objects[name] {
					t.Errorf("%s\n%s changed %d times; want at most %v", tc.reason, name, n, tc.objects)
				}
			}
			if tc.alone && foreign != 0 {
				t.Errorf("%s\n%d changes by others; want none", tc.reason, foreign)
			}
			if t.Failed() {
				t.Logf("what happened:\n%s", list(changes))
			}
		})
	}
}

// testQuiet: when nothing is asked of the services that are left, whatever they went through, nothing happens.
func (cp *controlPlane) testQuiet(t *testing.T) {
	cp.settle(t, 5*time.Second)
	const quiet = 2 * time.Minute
	begin, runs, events := time.Now(), cp.runs(t), cp.events(t)
	time.Sleep(quiet)
	if changes := cp.recorder.sinceInTests(begin); len(changes) != 0 {
		t.Errorf("changes within %s though nothing was asked for:\n%s", quiet, list(changes))
	}
	if diff := cmp.Diff(events, cp.events(t)); diff != "" {
		t.Errorf("events within %s though nothing was asked for: -before, +after:\n%s", quiet, diff)
	}
	// A steady service is looked at every ten minutes all the same.
	l, err := cp.dynamic.Resource(directoryServices).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	n := cp.runs(t) - runs
	t.Logf("%d runs of the function for %d services within %s", n, len(l.Items), quiet)
	if n > len(l.Items) {
		t.Errorf("%d runs of the function within %s for %d services though nothing was asked of it", n, quiet, len(l.Items))
	}
}

// events counts how often each event was sent.
func (cp *controlPlane) events(t *testing.T) map[string]int32 {
	t.Helper()
	l, err := cp.kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	out := map[string]int32{}
	for _, e := range l.Items {
		out[fmt.Sprintf("%s %s/%s %s: %s", e.InvolvedObject.Kind, e.Namespace, e.InvolvedObject.Name, e.Reason, e.Message)] += e.Count
	}
	return out
}

// echo says that a write of the XR changed nothing that anybody asked for or the function answered, but conditions at
// most. Once the status has changed Crossplane may go on so for a while: it applies the conditions of a cached copy that
// lacks its own last update, updates them, is woken by both, and ends when its cache happens to be in time.
func echo(was, is *unstructured.Unstructured) bool {
	return was != nil && is != nil && was.GetGeneration() == is.GetGeneration() &&
		compact(was.GetAnnotations()) == compact(is.GetAnnotations()) && answer(was)[""] == answer(is)[""]
}

// answer is the function's part of an XR's status: each condition by its type, and the rest. Values are to be counted,
// not their changes: Crossplane writes conditions first from a stale copy and then anew, so that an old value comes back
// for a moment (composition_functions.go applies the status with the conditions it has cached).
func answer(xr *unstructured.Unstructured) map[string]string {
	if xr == nil {
		return nil
	}
	s, _, _ := unstructured.NestedMap(xr.Object, "status")
	conditions, _, _ := unstructured.NestedSlice(s, "conditions")
	delete(s, "conditions")
	delete(s, "claimConditionTypes")
	parts := map[string]string{"": compact(s)}
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if kind, _ := m["type"].(string); ok && !slices.Contains([]string{"Ready", "Synced", "Responsive"}, kind) {
			parts[kind] = compact([]any{m["status"], m["reason"], m["message"]})
		}
	}
	return parts
}

// updated says that every pod is Ready and of the present template.
func updated(s *appsv1.StatefulSet) bool {
	n := *s.Spec.Replicas
	return s.Status.ObservedGeneration == s.Generation && s.Status.UpdatedReplicas == n && s.Status.ReadyReplicas == n && s.Status.CurrentRevision == s.Status.UpdateRevision
}
