//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

func testRuns(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "runs")
	d := cp.running(t, ns, example(t, ""))
	cases := []struct {
		name     string
		reason   string
		patch    string
		arrived  func() string
		restarts bool
		// alone says that nobody but Crossplane has anything to do.
		alone bool
	}{
		{
			name:   "Config",
			reason: "One run for the change, one for the ConfigMap that it changed.",
			patch:  `{"spec":{"suffixes":[{"name":"userroot","dn":"dc=example,dc=com"},{"name":"second","dn":"dc=second"}]}}`,
			arrived: func() string {
				if doc := d.config(t); !strings.Contains(doc, "dc=second") {
					return doc
				}
				return ""
			},
			alone: true,
		},
		{
			name:   "Scale",
			reason: "Pods and volume claims come, and the StatefulSet's status follows them: a run for each of these at most.",
			patch:  `{"spec":{"replicas":2}}`,
			arrived: func() string {
				d.markPodsReady(t)
				if s := d.statefulSet(t); s.Status.ReadyReplicas != 2 {
					return compact(s.Status)
				}
				return ""
			},
		},
		{
			name:     "Resources",
			reason:   "Two pods are made anew, one after the other: a run for each change of them and of the StatefulSet's status at most.",
			patch:    `{"spec":{"resources":{"requests":{"memory":"600Mi"}}}}`,
			restarts: true,
			arrived: func() string {
				d.markPodsReady(t)
				s := d.statefulSet(t)
				if memory := s.Spec.Template.Spec.Containers[0].Resources.Requests.Memory().String(); memory != "600Mi" || !updated(s) {
					return memory + " " + compact(s.Status)
				}
				return ""
			},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.restarts {
				cp.recorder.allow(ns, "pods")
			}
			cp.settle(t, 3*time.Second)
			begin, before := time.Now(), cp.runs(t)
			d.patch(t, tc.patch)
			cp.eventually(t, soon, "the change arrives", tc.arrived)
			d.waitRunning(t)
			cp.settle(t, 3*time.Second)
			n := cp.runs(t) - before

			changes := cp.recorder.since(ns, begin)
			foreign := 0
			for _, c := range changes {
				if c.foreign() {
					foreign++
				}
			}
			t.Logf("%d runs of the function, %d changes by others", n, foreign)
			if n < 1 || n-foreign > 2 {
				t.Errorf("%s\n%d runs of the function, of which %d changes by others explain one each; want at most 2 more:\n%s", tc.reason, n, foreign, list(changes))
			}
			if tc.alone && foreign != 0 {
				t.Errorf("%s\n%d changes by others:\n%s", tc.reason, foreign, list(changes))
			}
		})
	}

	t.Run("Quiet", func(t *testing.T) {
		cp.settle(t, 5*time.Second)
		const quiet = time.Minute
		begin, before := time.Now(), cp.runs(t)
		time.Sleep(quiet)
		if n := cp.runs(t) - before; n != 0 {
			t.Errorf("%d runs of the function within %s though nothing was asked of it; meanwhile:\n%s", n, quiet, list(cp.recorder.since(ns, begin)))
		}
	})
}

// updated says that every pod is Ready and of the present template.
func updated(s *appsv1.StatefulSet) bool {
	n := *s.Spec.Replicas
	return s.Status.ObservedGeneration == s.Generation && s.Status.UpdatedReplicas == n && s.Status.ReadyReplicas == n && fmt.Sprint(s.Status.CurrentRevision) == s.Status.UpdateRevision
}
