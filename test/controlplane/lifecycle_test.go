//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func testRunning(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "running")
	d := cp.apply(t, ns, example(t, ""))
	d.waitStatefulSet(t, "exists", func(*appsv1.StatefulSet) bool { return true })
	cp.eventually(t, soon, "a pod", func() string {
		if len(d.pods(t)) != 1 {
			return "none"
		}
		return ""
	})
	d.settle(t)
	if c := condition(d.get(t), "Ready"); c.Status != metav1.ConditionFalse {
		t.Errorf("Ready before any pod is: %+v", c)
	}
	if got := status(d.get(t), "phase"); got != "Initializing" {
		t.Errorf("phase before any pod is Ready: want Initializing, got %s", got)
	}

	d.waitRunning(t)
	for kind, u := range map[string]*unstructured.Unstructured{"what the user applied": d.get(t), "the XR": d.composite(t)} {
		for _, c := range []string{"Ready", "Synced", "Available"} {
			if got := condition(u, c); got.Status != metav1.ConditionTrue {
				t.Errorf("%s: want %s=True, got %+v", kind, c, got)
			}
		}
		got := map[string]string{}
		for _, f := range []string{"phase", "currentVersion", "currentImage", "targetVersion", "targetImage"} {
			got[f] = status(u, f)
		}
		want := map[string]string{
			"phase": "Running", "currentVersion": "3.1.0", "currentImage": "quay.io/389ds/dirsrv:3.1.0",
			"targetVersion": "3.1.0", "targetImage": "quay.io/389ds/dirsrv:3.1.0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: status: -want, +got:\n%s", kind, diff)
		}
	}
}

func testEdits(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "edits")
	d := cp.running(t, ns, example(t, ""))
	// One after the other on one service, as in life.
	cases := []struct {
		name     string
		reason   string
		patch    string
		arrived  func() string
		restarts bool
	}{
		{
			name:   "SuffixAdded",
			reason: "R6, R14: the servers create a suffix while they run.",
			patch:  `{"spec":{"suffixes":[{"name":"userroot","dn":"dc=example,dc=com"},{"name":"second","dn":"dc=second"}]}}`,
			arrived: func() string {
				if doc := d.config(t); !strings.Contains(doc, "dc=second") {
					return doc
				}
				return ""
			},
		},
		{
			name:   "SuffixRemoved",
			reason: "R6, R14: a suffix taken off the list is kept, and no server restarts.",
			patch:  `{"spec":{"suffixes":[{"name":"userroot","dn":"dc=example,dc=com"}]}}`,
			arrived: func() string {
				if c := condition(d.get(t), "SuffixOrphaned"); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "second") {
					return fmt.Sprintf("%+v", c)
				}
				if doc := d.config(t); !strings.Contains(doc, "dc=second") {
					return doc
				}
				return ""
			},
		},
		{
			name:   "Ports",
			reason: "R8: the port is the Service's; the servers' own never changes.",
			patch:  `{"spec":{"ports":{"ldap":389}}}`,
			arrived: func() string {
				s, err := cp.kube.CoreV1().Services(ns).Get(t.Context(), d.name, metav1.GetOptions{})
				must(t, err)
				for _, p := range s.Spec.Ports {
					if p.Name == "ldap" && p.Port == 389 {
						return ""
					}
				}
				return compact(s.Spec.Ports)
			},
		},
		{
			name:   "Resources",
			reason: "R17: resources are a container's, so its pod is made anew.",
			patch:  `{"spec":{"resources":{"requests":{"memory":"600Mi"}}}}`,
			arrived: func() string {
				for _, c := range d.statefulSet(t).Spec.Template.Spec.Containers {
					if c.Name == "dirsrv" && c.Resources.Requests.Memory().String() == "600Mi" {
						return ""
					}
				}
				return compact(d.statefulSet(t).Spec.Template.Spec.Containers)
			},
			restarts: true,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			before, pods := d.statefulSet(t), uids(d.pods(t))
			if tc.restarts {
				cp.recorder.allow(ns, "pods", d.name+"-0")
			}
			d.patch(t, tc.patch)
			cp.eventually(t, soon, "the edit arrives", tc.arrived)
			if tc.restarts {
				cp.eventually(t, soon, "the pod is made anew", func() string {
					if got := uids(d.pods(t)); got[d.name+"-0"] == "" || cmp.Equal(pods, got) {
						return fmt.Sprint(got)
					}
					return ""
				})
			}
			d.waitRunning(t)
			d.settle(t)
			after := d.statefulSet(t)
			if tc.restarts {
				if cmp.Equal(before.Spec.Template, after.Spec.Template) {
					t.Errorf("%s\nthe pod template is as before", tc.reason)
				}
				return
			}
			if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
				t.Errorf("%s\nStatefulSet: -before, +after:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(pods, uids(d.pods(t))); diff != "" {
				t.Errorf("%s\npods: -before, +after:\n%s", tc.reason, diff)
			}
		})
	}
}

func testDrift(t *testing.T, cp *controlPlane) {
	spec := func(d directory) any { return d.statefulSet(t).Spec }
	cases := map[string]struct {
		reason string
		object string
		patch  string
		get    func(directory) any
	}{
		"Image": {
			reason: "An image set by hand passed no gate.",
			object: "statefulset/example-ds",
			patch:  `{"spec":{"template":{"spec":{"containers":[{"name":"dirsrv","image":"by.hand/dirsrv:9.9.9"}]}}}}`,
			get:    spec,
		},
		"Environment": {
			reason: "Nor did a variable.",
			object: "statefulset/example-ds",
			patch:  `{"spec":{"template":{"spec":{"containers":[{"name":"dirsrv","env":[{"name":"DS_STARTUP_TIMEOUT","value":"1"}]}]}}}}`,
			get:    spec,
		},
		"Replicas": {
			reason: "The number of replicas is the spec's.",
			object: "statefulset/example-ds",
			patch:  `{"spec":{"replicas":2}}`,
			get:    spec,
		},
		"ServicePort": {
			reason: "Clients would end up at nobody.",
			object: "service/example-ds",
			patch:  `{"spec":{"ports":[{"port":3389,"name":"by-hand","targetPort":1}]}}`,
			get: func(d directory) any {
				s, err := cp.kube.CoreV1().Services(d.namespace).Get(t.Context(), d.name, metav1.GetOptions{})
				must(t, err)
				return s.Spec
			},
		},
		"Config": {
			reason: "The servers would lose a suffix.",
			object: "configmap/example-ds-config",
			patch:  `{"data":{"config.json":"{}"}}`,
			get:    func(d directory) any { return d.config(t) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := cp.namespace(t, "drift-"+strings.ToLower(name))
			d := cp.running(t, ns, example(t, ""))
			// The StatefulSet controller may act on what is wrong before it is right again.
			cp.recorder.allow(ns, "pods")
			want := tc.get(d)
			cp.kubectl(t, "", "patch", tc.object, "-n", ns, "-p", tc.patch)
			cp.eventually(t, soon, tc.object+" as before; "+tc.reason, func() string {
				d.markPodsReady(t)
				return cmp.Diff(want, tc.get(d))
			})
			d.waitRunning(t)
		})
	}
}

func testBlocked(t *testing.T, cp *controlPlane) {
	const good = `{"spec":{"version":"3.1.0","image":"quay.io/389ds/dirsrv:3.1.0"}}`
	cases := map[string]struct {
		reason string
		patch  string
	}{
		"VersionAlone": {
			reason: "The image still is the old version.",
			patch:  `{"spec":{"version":"3.1.1"}}`,
		},
		"ImageAlone": {
			reason: "Nobody asked for another version.",
			patch:  `{"spec":{"image":"quay.io/389ds/dirsrv:3.1.1"}}`,
		},
		"Latest": {
			reason: "Nobody knows what latest is.",
			patch:  `{"spec":{"image":"quay.io/389ds/dirsrv:latest"}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := cp.namespace(t, "blocked-"+strings.ToLower(name))
			d := cp.running(t, ns, example(t, ""))
			before, pods := d.statefulSet(t), uids(d.pods(t))
			d.patch(t, tc.patch)
			c := d.waitCondition(t, "UpgradeBlocked", metav1.ConditionTrue, "spec.")
			if c.Reason == "" {
				t.Errorf("%s\nno reason: %+v", tc.reason, c)
			}
			d.waitPhase(t, "Blocked")
			// R28: all else in the spec still applies.
			d.patch(t, `{"spec":{"serviceAccountAnnotations":{"case":"`+name+`"}}}`)
			cp.eventually(t, soon, "the rest of the spec arrives", func() string {
				sa, err := cp.kube.CoreV1().ServiceAccounts(ns).Get(t.Context(), before.Spec.Template.Spec.ServiceAccountName, metav1.GetOptions{})
				must(t, err)
				if sa.Annotations["case"] != name {
					return compact(sa.Annotations)
				}
				return ""
			})
			d.settle(t)
			if diff := cmp.Diff(before.Spec, d.statefulSet(t).Spec); diff != "" {
				t.Errorf("%s\nStatefulSet: -before, +blocked:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(pods, uids(d.pods(t))); diff != "" {
				t.Errorf("%s\npods: -before, +blocked:\n%s", tc.reason, diff)
			}
			// A service that works is Ready, whatever its spec waits for.
			if r := condition(d.get(t), "Ready"); r.Status != metav1.ConditionTrue {
				t.Errorf("%s\nwant Ready=True while blocked, got %+v", tc.reason, r)
			}
			d.checkEvent(t, "UpgradeBlocked")

			d.patch(t, good)
			d.waitCondition(t, "UpgradeBlocked", metav1.ConditionFalse)
			d.waitPhase(t, "Running")
			if diff := cmp.Diff(before.Spec, d.statefulSet(t).Spec); diff != "" {
				t.Errorf("%s\nStatefulSet: -before, +healed:\n%s", tc.reason, diff)
			}
		})
	}
}

func (d directory) waitPhase(t *testing.T, phase string) {
	t.Helper()
	d.cp.eventually(t, soon, "phase "+phase, func() string {
		if u := d.get(t); status(u, "phase") != phase {
			return compact(u.Object["status"])
		}
		return ""
	})
}

// checkEvent checks that the user's object has one event of that reason (R34).
func (d directory) checkEvent(t *testing.T, reason string) {
	t.Helper()
	d.checkEvents(t, reason, 1)
}

// checkEvents checks that the user's object has so many events of that reason, each with a message of its own. Each may
// have been sent up to three times: Crossplane calls the function again before its cache has what it wrote last.
func (d directory) checkEvents(t *testing.T, reason string, want int) {
	t.Helper()
	selector := "involvedObject.name=" + d.name + ",involvedObject.kind=DirectoryService,reason=" + reason
	var events []corev1.Event
	// They are sent in the background.
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		l, err := d.cp.kube.CoreV1().Events(d.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		must(t, err)
		if events = l.Items; len(events) >= want {
			break
		}
	}
	if len(events) != want {
		t.Errorf("want %d events %s, got %d: %s", want, reason, len(events), compact(events))
	}
	for _, e := range events {
		// While its cache lags Crossplane brings the conditions of before back, now and then, with each of its
		// own writes: the busier the machine the more often.
		if e.Count > 10 {
			t.Errorf("event %s was sent %d times: %s", reason, e.Count, e.Message)
		}
	}
}

func testBlockedFromTheStart(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "blocked-start")
	d := cp.apply(t, ns, strings.Replace(example(t, ""), "version: 3.1.0", "version: 3.1.1", 1))
	d.waitCondition(t, "UpgradeBlocked", metav1.ConditionTrue, "spec.")
	d.waitPhase(t, "Blocked")
	d.settle(t)
	if s := d.statefulSet(t); s != nil {
		t.Fatalf("a StatefulSet nevertheless: %s", compact(s.Spec))
	}
	d.patch(t, `{"spec":{"version":"3.1.0"}}`)
	d.waitStatefulSet(t, "exists", func(*appsv1.StatefulSet) bool { return true })
	d.waitRunning(t)
}
