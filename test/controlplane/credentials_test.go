//go:build controlplane

package controlplane

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testNamedSecret(t *testing.T, cp *controlPlane) {
	cases := map[string]struct {
		reason  string
		present string // what the Secret has at first; empty: there is none
		names   []string
	}{
		"NoSecret": {
			reason: "External Secrets or a person may bring it later.",
			names:  []string{"from-outside"},
		},
		"NoKey": {
			reason:  "A Secret without the key is as good as none.",
			present: "other-key",
			names:   []string{"from-outside", "pw"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := cp.namespace(t, "credentials-"+map[bool]string{true: "key", false: "secret"}[tc.present != ""])
			if tc.present != "" {
				cp.kubectl(t, "", "create", "secret", "generic", "from-outside", "-n", ns, "--from-literal="+tc.present+"=x")
			}
			d := cp.apply(t, ns, example(t, "dmPasswordSecretRef:\n  name: from-outside\n  key: pw\n"))
			d.waitCondition(t, "CredentialsReady", metav1.ConditionFalse, tc.names...)
			d.settle(t)
			if s := d.statefulSet(t); s != nil {
				t.Errorf("%s\na StatefulSet without credentials: %s", tc.reason, compact(s.Spec))
			}

			if tc.present == "" {
				cp.kubectl(t, "", "create", "secret", "generic", "from-outside", "-n", ns, "--from-literal=pw=secret-12345")
			} else {
				cp.kubectl(t, "", "patch", "secret", "from-outside", "-n", ns, "-p", `{"stringData":{"pw":"secret-12345"}}`)
			}
			d.waitStatefulSet(t, "exists", func(*appsv1.StatefulSet) bool { return true })
			d.waitCondition(t, "CredentialsReady", metav1.ConditionTrue)
			d.waitRunning(t)
			if _, err := cp.kube.CoreV1().Secrets(ns).Get(t.Context(), d.name+"-dm-password", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s\na password was generated nevertheless (%v)", tc.reason, err)
			}
			if refs := cp.secret(t, ns, "from-outside").OwnerReferences; len(refs) != 0 {
				t.Errorf("%s\nthe user's Secret was adopted: %s", tc.reason, compact(refs))
			}
		})
	}
}

func testRecreatedAtOnce(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "recreated")
	manifest := example(t, "")
	d := cp.running(t, ns, manifest)
	before := cp.secret(t, ns, d.name+"-dm-password")

	// Without its controllers Kubernetes collects no garbage: the new service meets the old one's children for certain.
	must(t, cp.controllers.signal(syscall.SIGSTOP))
	resume := func() { _ = cp.controllers.signal(syscall.SIGCONT) }
	t.Cleanup(resume)
	old := d.composite(t).GetUID()
	cp.recorder.allowService(ns)
	cp.kubectl(t, "", "delete", "dirsrv", d.name, "-n", ns, "--timeout=60s")
	d = cp.apply(t, ns, manifest)
	cp.eventually(t, soon, "the new XR reconciled", func() string {
		u := d.get(t)
		if c := condition(u, "Synced"); c.Status == "" || c.Status == metav1.ConditionUnknown {
			return compact(u.Object["status"])
		}
		if xr := d.composite(t); xr.GetUID() == old || condition(xr, "Synced").Status == "" {
			return compact(xr.Object["status"])
		}
		return ""
	})
	time.Sleep(2 * time.Second) // time for a rewrite of the Secret, were there one
	if diff := cmp.Diff(before.Data, cp.secret(t, ns, d.name+"-dm-password").Data); diff != "" {
		t.Errorf("the password changed when the service was recreated")
	}
	resume()

	owner := d.composite(t).GetUID()
	cp.eventually(t, 2*soon, "everything belongs to the new XR", func() string {
		for _, gvr := range watched {
			l, err := cp.dynamic.Resource(gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/composite"})
			must(t, err)
			for _, o := range l.Items {
				if c := metav1.GetControllerOf(&o); c == nil || c.UID != owner || o.GetDeletionTimestamp() != nil {
					return fmt.Sprintf("%s %s: %s", gvr.Resource, o.GetName(), compact(o.GetOwnerReferences()))
				}
			}
		}
		if d.statefulSet(t) == nil {
			return "no StatefulSet"
		}
		return ""
	})
	d.waitRunning(t)
	after := cp.secret(t, ns, d.name+"-dm-password")
	if !cmp.Equal(before.Data, after.Data) {
		t.Errorf("the password changed after garbage collection")
	}
}
