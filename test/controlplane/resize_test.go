//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// cannotGrow is what the API server says of a claim whose StorageClass does not allow it (plugin
// PersistentVolumeClaimResize).
const cannotGrow = "only dynamically provisioned pvc can be resized"

// testGrow: the Job's own program, with the rights of its Role and no more, against the real API server's rules on
// claims. No storage grows here: the test says that it has, as a driver's resizer would.
func testGrow(t *testing.T, cp *controlPlane) {
	t.Run("allowed", func(t *testing.T) {
		t.Parallel()
		testGrowAllowed(t, cp)
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		testGrowRefused(t, cp)
	})
}

// growing is a service whose volumes are of a StorageClass of its own.
func (cp *controlPlane) growing(t *testing.T, scenario string, replicas int, allowed bool) service {
	t.Helper()
	class := "grow-" + scenario
	_, err := cp.kube.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: ptr.To(allowed),
	}, metav1.CreateOptions{})
	must(t, err)
	s := cp.install(t, "grow-"+scenario, replicas, "storage:\n  size: 1Gi\n  storageClassName: "+class+"\n", nil)
	cp.recorder.allowJobs(s.namespace, "example-ds-resize-*")
	s.waitCondition(t, "StorageReady", metav1.ConditionTrue)
	return s
}

func growTo(size string) string {
	return `kubectl patch dirsrv example-ds --type merge -p '{"spec":{"storage":{"size":"` + size + `"}}}'`
}

// requests are what the claims ask for, by name.
func (s service) requests(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range s.claims(t) {
		out[c.Name] = c.Spec.Resources.Requests.Storage().String()
	}
	return out
}

// awaitGrown waits until there are so many claims, and all ask for the larger size.
func (s service) awaitGrown(t *testing.T, claims int) {
	t.Helper()
	want := map[string]string{}
	for i := range claims {
		want[fmt.Sprintf("ds-data-%s-%d", s.name, i)] = "2Gi"
	}
	s.cp.eventually(t, 2*soon, s.namespace+": claims of 2Gi", func() string { return cmp.Diff(want, s.requests(t)) })
}

// growStorage does what a storage driver's resizer would.
func (s service) growStorage(t *testing.T) {
	t.Helper()
	for _, c := range s.claims(t) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: *c.Spec.Resources.Requests.Storage()}
		_, err := s.cp.kube.CoreV1().PersistentVolumeClaims(s.namespace).UpdateStatus(t.Context(), &c, metav1.UpdateOptions{})
		must(t, err)
	}
}

// waitStorage waits for that reason of the condition StorageReady.
func (s service) waitStorage(t *testing.T, reason string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	s.cp.eventually(t, 2*soon, s.namespace+": StorageReady "+reason, func() string {
		if c = condition(s.get(t), "StorageReady"); c.Reason != reason {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	return c
}

func claimUIDs(t *testing.T, d directory) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, c := range d.claims(t) {
		out[c.Name] = c.UID
	}
	return out
}

// checkJobs checks that so many Jobs ran to their end, each in one pod.
func (s service) checkJobs(t *testing.T, want int) {
	t.Helper()
	pods := map[string]int{}
	for _, r := range s.kubelet.ran() {
		pods[r.pod] = r.exit
	}
	if len(pods) != want {
		t.Errorf("want %d pods that ran our program, got %+v", want, s.kubelet.ran())
	}
	for pod, exit := range pods {
		if exit != 0 {
			t.Errorf("the last run of %s ended with %d", pod, exit)
		}
	}
}

func testGrowAllowed(t *testing.T, cp *controlPlane) {
	s := cp.growing(t, "allowed", 2, true)
	before, pods, set := claimUIDs(t, s.directory), uids(s.pods(t)), s.statefulSet(t)

	s.shell(t, growTo("2Gi"))
	s.awaitGrown(t, 2)
	// The storage has to grow yet.
	if c := s.waitCondition(t, "StorageReady", metav1.ConditionFalse, "describe pvc"); c.Reason != "Growing" {
		t.Errorf("while the storage grows: %+v", c)
	}
	s.awaitNoJob(t, "resize")
	s.growStorage(t)
	s.waitCondition(t, "StorageReady", metav1.ConditionTrue)
	s.awaitPhase(t, v1alpha1.PhaseRunning)
	s.checkJobs(t, 1)

	// The StatefulSet makes a new server's claim of its template, which nobody can change.
	s.shell(t, "kubectl scale dirsrv example-ds --replicas=3")
	s.awaitGrown(t, 3)
	s.awaitNoJob(t, "resize")
	s.growStorage(t)
	s.waitCondition(t, "StorageReady", metav1.ConditionTrue)
	s.awaitRunning(t, "3.1.0", 3)
	s.checkJobs(t, 2)

	checkShrinkRefused(t, s.directory, "1Gi", "2Gi")
	s.awaitGrown(t, 3)

	now := claimUIDs(t, s.directory)
	delete(now, "ds-data-"+s.name+"-2")
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("volume claims: -before, +after:\n%s", diff)
	}
	volumes(t, s.directory) // none has an owner
	after := uids(s.pods(t))
	delete(after, s.name+"-2")
	if diff := cmp.Diff(pods, after); diff != "" {
		t.Errorf("pods: -before, +after:\n%s", diff)
	}
	if diff := cmp.Diff(set.Spec.VolumeClaimTemplates, s.statefulSet(t).Spec.VolumeClaimTemplates); diff != "" {
		t.Errorf("claim templates: -before, +after:\n%s", diff)
	}
}

func testGrowRefused(t *testing.T, cp *controlPlane) {
	s := cp.growing(t, "refused", 1, false)
	before := volumes(t, s.directory)

	s.shell(t, growTo("2Gi"))
	c := s.waitStorage(t, "GrowFailed")
	allow := `kubectl patch storageclass grow-refused -p '{"allowVolumeExpansion":true}'`
	for _, w := range []string{"spec.storage.size", "ds-data-example-ds-0 to 2Gi", cannotGrow, allow} {
		if !strings.Contains(c.Message, w) {
			t.Errorf("the message lacks %q: %s", w, c.Message)
		}
	}
	s.checkEvent(t, "GrowFailed")
	if diff := cmp.Diff(before, volumes(t, s.directory)); diff != "" {
		t.Errorf("volume claims: -before, +refused:\n%s", diff)
	}
	if ready := condition(s.get(t), "Ready"); ready.Status != metav1.ConditionTrue {
		t.Errorf("a service that works is not Ready: %+v", ready)
	}

	// Back to the size that it has: nothing is left.
	s.shell(t, growTo("1Gi"))
	s.waitCondition(t, "StorageReady", metav1.ConditionTrue)
	s.awaitNoJob(t, "resize")

	// The message's own command mends it, without a hand on the Job.
	s.shell(t, growTo("2Gi"))
	s.waitStorage(t, "GrowFailed")
	s.shell(t, allow)
	s.awaitGrown(t, 1)
	s.growStorage(t)
	s.waitCondition(t, "StorageReady", metav1.ConditionTrue)
	s.awaitNoJob(t, "resize")
	if got := s.claims(t)[0].Status.Capacity.Storage(); got.Cmp(resource.MustParse("2Gi")) != 0 {
		t.Errorf("the volume has %s", got)
	}
}
