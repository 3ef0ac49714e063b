//go:build controlplane

package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// newGracePeriod is what a pod of the newer function differs by.
const newGracePeriod int64 = 121

var (
	newerOnce sync.Once
	newerErr  error
)

// buildNewerFunction builds a function that makes other pods of the same spec, once for both flavours.
func buildNewerFunction(t *testing.T, b built) string {
	t.Helper()
	binary := filepath.Join(sharedDir, "directoryservice-newer")
	newerOnce.Do(func() {
		// A test that ends within Do leaves an error to the next flavour.
		newerErr = errors.New("it could not be built for another flavour")
		newerErr = compileNewer(t, b, binary)
	})
	must(t, newerErr)
	return binary
}

func compileNewer(t *testing.T, b built, binary string) error {
	t.Helper()
	constant := regexp.MustCompile(`(?m)^(\s*terminationGraceSeconds\s*=\s*)\d+$`)
	pod := inRoot(t, "fn", "compose", "pod.go")
	source := mustRead(t, pod)
	if len(constant.FindAll(source, -1)) != 1 {
		t.Fatalf("no constant terminationGraceSeconds in %s", pod)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "pod.go"), filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(changed, constant.ReplaceAll(source, fmt.Appendf(nil, "${1}%d", newGracePeriod)), 0o600))
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{pod: changed}})
	must(t, err)
	must(t, os.WriteFile(overlay, doc, 0o600))
	return b.compile(t, binary, "-overlay="+overlay)
}

// testFunctionUpdateRestartsNothing: R44.
func testFunctionUpdateRestartsNothing(t *testing.T, cp *controlPlane) {
	const services = 50
	k := cp.served(t, "function-update")
	ns := k.name
	cp.recorder.allow(ns, "pods")
	var manifests strings.Builder
	for i := range services {
		manifests.WriteString("---\n" + strings.Replace(example(t, ""), "example-ds", fmt.Sprintf("ds-%02d", i), 1))
	}
	cp.kubectl(t, manifests.String(), "apply", "-n", ns, "-f", "-")
	t.Cleanup(func() {
		cp.recorder.allowService(ns)
		_, _ = cp.tryKubectl(t, "", "delete", "dirsrv", "--all", "-n", ns, "--wait=false")
	})
	// all waits until every service has nothing to complain about.
	all := func(what string, check func(*unstructured.Unstructured) string) {
		t.Helper()
		cp.eventually(t, 5*soon, what, func() string {
			l, err := cp.dynamic.Resource(directoryServices).Namespace(ns).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			if len(l.Items) != services {
				return fmt.Sprintf("%d services", len(l.Items))
			}
			var complaints []string
			for _, u := range l.Items {
				if c := check(&u); c != "" {
					complaints = append(complaints, u.GetName()+": "+c)
				}
			}
			if len(complaints) > 0 {
				return fmt.Sprintf("%d of %d, for example %s", len(complaints), services, complaints[0])
			}
			return ""
		})
	}
	pods := func() map[string]corev1.Pod {
		l, err := cp.kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		out := map[string]corev1.Pod{}
		for _, p := range l.Items {
			out[p.Name] = p
		}
		return out
	}
	sets := func() map[string]any {
		l, err := cp.kube.AppsV1().StatefulSets(ns).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		out := map[string]any{}
		for _, s := range l.Items {
			out[s.Name] = s.Spec
		}
		return out
	}
	running := func(u *unstructured.Unstructured) string {
		if status(u, "phase") != "Running" || condition(u, "Ready").Status != metav1.ConditionTrue {
			return compact(u.Object["status"])
		}
		return ""
	}
	begin := time.Now()
	step := func(what string) {
		t.Logf("%-8s after %5.1fs", what, time.Since(begin).Seconds())
	}
	// The services take their time: meanwhile.
	newer := buildNewerFunction(t, cp.kubelet.program)
	step("built")
	all("Running", running)
	step("running")
	cp.settle(t, 3*time.Second)
	before := sets()

	cp.runFunction(t, newer)
	t.Cleanup(func() { cp.runFunction(t, cp.kubelet.program.binary) })
	cp.kubectl(t, "", "annotate", "dirsrv", "--all", "-n", ns, "somebody.else/note=reconcile")
	hashes := map[string]string{}
	all("a pod update pending", func(u *unstructured.Unstructured) string {
		hash, _, _ := unstructured.NestedString(u.Object, "status", "upgrade", "pendingPodUpdate", "hash")
		summary, _, _ := unstructured.NestedString(u.Object, "status", "upgrade", "pendingPodUpdate", "summary")
		if hash == "" || !strings.Contains(summary, "terminationGracePeriodSeconds") {
			return compact(u.Object["status"])
		}
		hashes[u.GetName()] = hash
		return running(u)
	})
	step("pending")
	cp.settle(t, 3*time.Second)
	if diff := cmp.Diff(before, sets()); diff != "" {
		t.Errorf("StatefulSets: -before, +with the newer function:\n%s", diff)
	}
	if deleted := k.deleted(); len(deleted) != 0 {
		t.Fatalf("%d pods restarted, first %+v", len(deleted), deleted[0])
	}

	const one = "ds-07"
	cp.kubectl(t, "", "annotate", "dirsrv", one, "-n", ns, "dirsrv.operator.port389.org/apply-pod-update="+hashes[one])
	cp.eventually(t, 2*soon, one+" has the newer pod", func() string {
		p := pods()[one+"-0"]
		u, err := cp.dynamic.Resource(directoryServices).Namespace(ns).Get(t.Context(), one, metav1.GetOptions{})
		must(t, err)
		_, pending, _ := unstructured.NestedMap(u.Object, "status", "upgrade", "pendingPodUpdate")
		if ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 0) != newGracePeriod || !podReady(&p) || pending {
			return compact(u.Object["status"])
		}
		return running(u)
	})
	step("one done")
	cp.settle(t, 3*time.Second)
	var deleted []string
	for _, r := range k.deleted() {
		deleted = append(deleted, r.name)
	}
	if diff := cmp.Diff([]string{one + "-0"}, deleted); diff != "" {
		t.Errorf("deleted pods: -want, +got:\n%s", diff)
	}
	after := sets()
	delete(before, one)
	delete(after, one)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the other StatefulSets: -before, +after one was updated:\n%s", diff)
	}
}
