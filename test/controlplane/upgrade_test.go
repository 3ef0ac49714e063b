//go:build controlplane

package controlplane

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// service is a DirectoryService whose pods run. It stays when its test has ended: what it went through must not keep it
// from being quiet.
type service struct {
	directory
	kubelet    *servedNamespace
	kubeconfig string // of its user, in its namespace
}

func imageOf(version string) string { return "quay.io/389ds/dirsrv:" + version }

// patchTo is how the manual asks for another version.
func patchTo(version string) string {
	return fmt.Sprintf(`kubectl patch dirsrv example-ds --type merge -p '{"spec":{"version":"%s","image":"%s"}}'`, version, imageOf(version))
}

const (
	patchVersionOnly = `kubectl patch dirsrv example-ds --type merge -p '{"spec":{"version":"3.1.1"}}'`
	patchImageOnly   = `kubectl patch dirsrv example-ds --type merge -p '{"spec":{"image":"quay.io/389ds/dirsrv:3.1.1"}}'`
	rollBack         = `kubectl annotate dirsrv example-ds dirsrv.operator.port389.org/rollback-to=3.1.0 --overwrite`
	rollBackInvalid  = `kubectl annotate dirsrv example-ds dirsrv.operator.port389.org/rollback-to=2.9.9 --overwrite`
	noRollback       = `kubectl annotate dirsrv example-ds dirsrv.operator.port389.org/rollback-to-`
	patchMemory      = `kubectl patch dirsrv example-ds --type merge -p '{"spec":{"resources":{"limits":{"memory":"%s"}}}}'`
)

// sizes runs a scenario for a single server and for three.
func sizes(t *testing.T, scenario func(t *testing.T, replicas int)) {
	t.Helper()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d", n), func(t *testing.T) {
			t.Parallel()
			scenario(t, n)
		})
	}
}

// deploy applies the documented example with that many servers, which do not run yet.
func (cp *controlPlane) deploy(t *testing.T, scenario string, replicas int, version, spec string, rules func(*servedNamespace)) service {
	t.Helper()
	ns := fmt.Sprintf("upgrade-%s-%d", scenario, replicas)
	s := service{kubelet: cp.served(t, ns), kubeconfig: filepath.Join(cp.dir, ns+".kubeconfig")}
	if rules != nil {
		rules(s.kubelet)
	}
	cp.recorder.allow(ns, "pods")
	cp.recorder.allowJobs(ns, "example-ds-unstick-*")

	cfg, err := clientcmd.LoadFromFile(cp.kubeconfig)
	must(t, err)
	cfg.Contexts[cfg.CurrentContext].Namespace = ns
	must(t, clientcmd.WriteToFile(*cfg, s.kubeconfig))

	manifest := strings.ReplaceAll(example(t, spec), "3.1.0", version)
	manifest = strings.Replace(manifest, "replicas: 1", fmt.Sprintf("replicas: %d", replicas), 1)
	s.directory = cp.applyForGood(t, ns, manifest)
	return s
}

// install returns a service that runs 3.1.0.
func (cp *controlPlane) install(t *testing.T, scenario string, replicas int, spec string, rules func(*servedNamespace)) service {
	t.Helper()
	s := cp.deploy(t, scenario, replicas, "3.1.0", spec, rules)
	s.awaitRunning(t, "3.1.0", replicas)
	s.waitFounded(t)
	return s
}

// shell runs a line of the manual.
func (s service) shell(t *testing.T, line string) {
	t.Helper()
	_, err := run(s.cp.dir, []string{
		"KUBECONFIG=" + s.kubeconfig,
		"KUBECACHEDIR=" + filepath.Join(s.cp.dir, "kubectl"),
		"PATH=" + filepath.Dir(tool(t, "kubectl")) + string(os.PathListSeparator) + os.Getenv("PATH"),
	}, nil, "bash", "-c", line)
	must(t, err)
	s.kubelet.tell("$ %s", line)
}

func (s service) status(t *testing.T) v1alpha1.DirectoryServiceStatus {
	t.Helper()
	raw, _ := s.get(t).Object["status"].(map[string]any)
	var out v1alpha1.DirectoryServiceStatus
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &out))
	return out
}

// await waits until the status has nothing to complain about.
func (s service) await(t *testing.T, what string, check func(v1alpha1.DirectoryServiceStatus) string) {
	t.Helper()
	s.cp.eventually(t, 2*soon, s.namespace+": "+what, func() string {
		st := s.status(t)
		if complaint := check(st); complaint != "" {
			return fmt.Sprintf("%s; status: %s", complaint, compact(st))
		}
		return ""
	})
}

// phases waits for one of these.
func (s service) awaitPhase(t *testing.T, phases ...v1alpha1.Phase) {
	t.Helper()
	s.await(t, fmt.Sprintf("phase %v", phases), func(st v1alpha1.DirectoryServiceStatus) string {
		if !slices.Contains(phases, st.Phase) {
			return "phase " + string(st.Phase)
		}
		return ""
	})
}

// awaitRunning waits until all servers run that version, and nothing is going on any more.
func (s service) awaitRunning(t *testing.T, version string, replicas int) {
	t.Helper()
	s.await(t, version+" Running", func(st v1alpha1.DirectoryServiceStatus) string {
		switch {
		case st.Phase != v1alpha1.PhaseRunning:
			return "phase " + string(st.Phase)
		case st.CurrentVersion != version || st.CurrentImage != imageOf(version):
			return "currentVersion " + st.CurrentVersion
		case st.Upgrade != nil && st.Upgrade.ID != "":
			return "an operation runs"
		case int(st.ReadyReplicas) != replicas:
			return fmt.Sprintf("%d servers Ready", st.ReadyReplicas)
		}
		return ""
	})
	s.checkPods(t, version, replicas)
}

// awaitReplaced waits until a pod was made with another image than 3.1.0.
func (s service) awaitReplaced(t *testing.T, pod string) {
	t.Helper()
	s.cp.eventually(t, 2*soon, s.namespace+": "+pod+" made with another image", func() string {
		for _, r := range s.kubelet.servers() {
			if r.name == pod && r.image != imageOf("3.1.0") {
				return ""
			}
		}
		return compact(s.status(t))
	})
}

// checkPods checks that exactly these servers run, with the image of that version.
func (s service) checkPods(t *testing.T, version string, replicas int) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for i := range replicas {
		want[fmt.Sprintf("%s-%d", s.name, i)] = imageOf(version) + " Ready=true"
	}
	for _, p := range s.pods(t) {
		got[p.Name] = fmt.Sprintf("%s Ready=%t", serverContainer(&p).Image, podReady(&p))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods: -want, +got:\n%s", diff)
	}
}

// checkUpgraded waits for a successful upgrade from 3.1.0, and checks what the service says and is then (R31, R32, R33).
func (s service) checkUpgraded(t *testing.T, to string, replicas int) {
	t.Helper()
	s.awaitRunning(t, to, replicas)
	// Crossplane writes conditions from a stale copy first: they may be late, and only that.
	for kind, want := range map[string]metav1.ConditionStatus{
		"UpgradeSucceeded": metav1.ConditionTrue, "UpgradeInProgress": metav1.ConditionFalse, "UpgradeBlocked": metav1.ConditionFalse,
		"Available": metav1.ConditionTrue, "Ready": metav1.ConditionTrue,
	} {
		s.waitCondition(t, kind, want)
	}
	st := s.status(t)
	s.checkHistory(t, st, "3.1.0", to, upgrade.ResultSucceeded)
	if st.TargetVersion != to || st.Rejected != nil {
		t.Errorf("want target %s and nothing rejected, got %s", to, compact(st))
	}
	s.checkSteady(t)
}

func (s service) checkHistory(t *testing.T, st v1alpha1.DirectoryServiceStatus, from, to string, result upgrade.Result) {
	t.Helper()
	type entry struct{ From, FromImage, To, ToImage, Result string }
	want := entry{From: from, FromImage: imageOf(from), To: to, ToImage: imageOf(to), Result: string(result)}
	var got entry
	if len(st.History) > 0 {
		h := st.History[0]
		got = entry{From: h.From.Version, FromImage: h.From.Image, To: h.To.Version, ToImage: h.To.Image, Result: h.Result}
		if h.StartedAt.After(h.CompletedAt.Time) {
			t.Errorf("it began after it had ended: %s", compact(h))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("newest entry of the history: -want, +got:\n%s\n%s", diff, compact(st.History))
	}
}

// checkSteady checks that nothing is left of an operation, and that no two servers were down at once because of it (R30).
func (s service) checkSteady(t *testing.T) {
	t.Helper()
	strategy := s.statefulSet(t).Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType || ptr.Deref(strategy.RollingUpdate.Partition, 0) != 0 {
		t.Errorf("updateStrategy outside an operation: %s", compact(strategy))
	}
	if down := s.kubelet.maxDown(); len(down) > 1 {
		t.Errorf("down at once: %s", down)
	}
	s.awaitNoJob(t, "unstick")
}

// awaitNoJob waits until nothing is left of our own Jobs of that component.
func (s service) awaitNoJob(t *testing.T, component string) {
	t.Helper()
	s.cp.eventually(t, soon, s.namespace+": nothing left of the Jobs of "+component, func() string {
		var left []string
		for _, gvr := range watched {
			l, err := s.cp.dynamic.Resource(gvr).Namespace(s.namespace).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, o := range l.Items {
				if strings.Contains(o.GetName(), "-"+component+"-") {
					left = append(left, gvr.Resource+"/"+o.GetName())
				}
			}
		}
		return strings.Join(left, ", ")
	})
}

// lives tells which servers were deleted, in that order, and with which version.
func (s service) lives() []string {
	out := []string{}
	for _, r := range s.kubelet.deleted() {
		out = append(out, r.name+" "+strings.TrimPrefix(r.image, imageOf("")))
	}
	return out
}

// snapshot is what must not change while a service is not touched.
type snapshot struct {
	Set     appsv1.StatefulSetSpec
	Pods    map[string]types.UID
	Volumes map[types.UID]corev1.PersistentVolumeClaimSpec
}

func (s service) snapshot(t *testing.T) snapshot {
	t.Helper()
	return snapshot{Set: s.statefulSet(t).Spec, Pods: uids(s.pods(t)), Volumes: volumes(t, s.directory)}
}

// checkUntouched waits until nothing happens any more, and compares with before.
func (s service) checkUntouched(t *testing.T, reason string, before snapshot) {
	t.Helper()
	s.settle(t)
	if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
		t.Errorf("%s\n-before, +after:\n%s", reason, diff)
	}
}

// checkVolumes checks that every volume claim that was there is there still, as it was (R7).
func (s service) checkVolumes(t *testing.T, before snapshot) {
	t.Helper()
	after := volumes(t, s.directory)
	maps.DeleteFunc(after, func(uid types.UID, _ corev1.PersistentVolumeClaimSpec) bool {
		_, known := before.Volumes[uid]
		return !known
	})
	if diff := cmp.Diff(before.Volumes, after); diff != "" {
		t.Errorf("volume claims: -before, +after:\n%s", diff)
	}
}

// command is what a message tells its reader to run.
var command = regexp.MustCompile(`kubectl (?:-n \S+ )?annotate .+? --overwrite`)

// obey runs the very commands in a message.
func (s service) obey(t *testing.T, message string) {
	t.Helper()
	lines := command.FindAllString(message, -1)
	if len(lines) == 0 {
		t.Fatalf("no command in %q", message)
	}
	for _, line := range lines {
		s.shell(t, line)
	}
}

func (s service) awaitBlocked(t *testing.T, reason string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	s.cp.eventually(t, soon, s.namespace+": UpgradeBlocked "+reason, func() string {
		u := s.get(t)
		if c = condition(u, "UpgradeBlocked"); c.Status != metav1.ConditionTrue || c.Reason != reason {
			return fmt.Sprintf("%+v; status: %s", c, compact(u.Object["status"]))
		}
		return ""
	})
	return c
}

// awaitRolledBack waits until a failed change was taken back, and checks what is said of it (R35, R36).
func (s service) awaitRolledBack(t *testing.T, replicas int, before snapshot) v1alpha1.DirectoryServiceStatus {
	t.Helper()
	s.await(t, "rolled back", func(st v1alpha1.DirectoryServiceStatus) string {
		switch {
		case len(st.History) == 0 || st.History[0].Result != string(upgrade.ResultRolledBack):
			return "no such entry in the history"
		case st.Upgrade != nil && st.Upgrade.ID != "":
			return "an operation runs"
		case st.Phase != v1alpha1.PhaseRunning && st.Phase != v1alpha1.PhaseBlocked:
			return "phase " + string(st.Phase)
		case st.Rejected == nil && st.RejectedPods == nil:
			return "nothing rejected"
		case st.CurrentVersion != "3.1.0" || st.CurrentImage != imageOf("3.1.0"):
			return "currentVersion " + st.CurrentVersion
		}
		return ""
	})
	s.awaitBlocked(t, upgrade.ReasonTargetRejected)
	s.waitCondition(t, "UpgradeSucceeded", metav1.ConditionFalse)
	s.checkPods(t, "3.1.0", replicas)
	s.checkVolumes(t, before)
	s.checkSteady(t)
	return s.status(t)
}

func testUpgrade(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "patch", replicas, "", nil)
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		s.checkUpgraded(t, "3.1.1", replicas)
		s.checkVolumes(t, before)
		var want []string
		for i := replicas - 1; i >= 0; i-- {
			want = append(want, fmt.Sprintf("example-ds-%d 3.1.0", i))
		}
		if diff := cmp.Diff(want, s.lives()); diff != "" {
			t.Errorf("deleted: -want, +got:\n%s", diff)
		}
		s.checkEvents(t, "UpgradeStarted", 1)
		s.checkEvents(t, "PodUpgraded", replicas)
		s.checkEvents(t, "UpgradeCompleted", 1)
		if runs := s.kubelet.ran(); len(runs) != 0 {
			t.Errorf("pods were deleted by Jobs though nothing was stuck: %+v", runs)
		}
	})
}

func testUpgradeApproval(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "major", replicas, "", nil)
		before := s.snapshot(t)
		s.shell(t, patchTo("4.0.0"))
		c := s.awaitBlocked(t, upgrade.ReasonApprovalRequired)
		for _, want := range []string{
			"annotate dirsrv example-ds",
			"dirsrv.operator.port389.org/approved-transition=3.1.0->4.0.0",
			"dirsrv.operator.port389.org/backup-confirmed=3.1.0->4.0.0",
		} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("R33: no %q in %q", want, c.Message)
			}
		}
		s.awaitPhase(t, v1alpha1.PhaseBlocked)
		s.checkUntouched(t, "R28: blocked means that no pod is touched.", before)
		s.checkEvents(t, "UpgradeBlocked", 1)

		s.shell(t, `kubectl annotate dirsrv example-ds 'dirsrv.operator.port389.org/approved-transition=3.1.0->4.0.1' --overwrite`)
		s.awaitBlocked(t, upgrade.ReasonApprovalRequired)
		s.checkUntouched(t, "R26: an approval is for its very pair.", before)

		s.obey(t, c.Message)
		s.checkUpgraded(t, "4.0.0", replicas)
		s.checkVolumes(t, before)
	})
}

func testUpgradeFails(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		fails := map[int]behaviour{1: cannotPull, 3: crashes}[replicas]
		s := cp.install(t, "fails", replicas, "", func(k *servedNamespace) { k.image(imageOf("3.1.1"), fails) })
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		st := s.awaitRolledBack(t, replicas, before)
		s.checkHistory(t, st, "3.1.0", "3.1.1", upgrade.ResultRolledBack)
		if st.Rejected.Version != "3.1.1" || st.Rejected.Image != imageOf("3.1.1") {
			t.Errorf("rejected: %s", compact(st.Rejected))
		}
		if replicas == 3 && !strings.Contains(compact(st), "could not open its database") {
			t.Errorf("what the server said before it ended is nowhere in the status: %s", compact(st))
		}
		last := fmt.Sprintf("example-ds-%d", replicas-1)
		if diff := cmp.Diff([]string{last + " 3.1.0", last + " 3.1.1"}, s.lives()); diff != "" {
			t.Errorf("deleted: -want, +got:\n%s", diff)
		}
		for _, reason := range []string{"UpgradeStarted", "UpgradeFailed", "RollbackStarted", "RollbackCompleted"} {
			s.checkEvents(t, reason, 1)
		}
		for _, r := range s.kubelet.ran() {
			if r.exit != 0 {
				t.Errorf("%s exited %d: %s", r.pod, r.exit, r.output)
			}
		}

		after := s.snapshot(t)
		s.patch(t, `{"spec":{"serviceAccountAnnotations":{"some":"thing"}}}`)
		time.Sleep(5 * time.Second)
		s.checkUntouched(t, "R36: what was rejected is not tried again by itself.", after)

		s.shell(t, patchTo("3.1.0"))
		s.waitCondition(t, "UpgradeBlocked", metav1.ConditionFalse)
		s.awaitRunning(t, "3.1.0", replicas)
		s.checkUntouched(t, "The spec asks for what runs.", after)
		if st := s.status(t); st.Rejected != nil {
			t.Errorf("rejected still: %s", compact(st.Rejected))
		}

		// R36: named again it is tried again.
		s.kubelet.image(imageOf("3.1.1"), healthy)
		s.shell(t, patchTo("3.1.1"))
		s.checkUpgraded(t, "3.1.1", replicas)
		s.checkVolumes(t, before)
	})
}

func testUpgradeStuckInTheMiddle(t *testing.T, cp *controlPlane) {
	const replicas = 3
	s := cp.install(t, "middle", replicas, "", func(k *servedNamespace) { k.breakPod("example-ds-1", imageOf("3.1.1"), crashes) })
	before := s.snapshot(t)
	s.shell(t, patchTo("3.1.1"))
	st := s.awaitRolledBack(t, replicas, before)
	s.checkHistory(t, st, "3.1.0", "3.1.1", upgrade.ResultRolledBack)
	want := []string{"example-ds-2 3.1.0", "example-ds-1 3.1.0", "example-ds-1 3.1.1", "example-ds-2 3.1.1"}
	if diff := cmp.Diff(want, s.lives()); diff != "" {
		t.Errorf("deleted: -want, +got:\n%s", diff)
	}
	ran := false
	for _, r := range s.kubelet.ran() {
		ran = ran || r.exit == 0
	}
	if !ran {
		t.Errorf("only a Job can have replaced example-ds-1 before example-ds-2, and none succeeded: %+v", s.kubelet.ran())
	}
}

func testManualRollback(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "manual", replicas, "", nil)
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		s.checkUpgraded(t, "3.1.1", replicas)
		spec := s.get(t).Object["spec"]

		upgraded := s.snapshot(t)
		s.shell(t, rollBackInvalid)
		s.awaitBlocked(t, upgrade.ReasonInvalidRollback)
		s.checkUntouched(t, "R37: nobody knows the image of a version that never ran.", upgraded)
		s.checkEvents(t, "InvalidRollback", 1)

		s.shell(t, rollBack)
		s.await(t, "3.1.0 again", func(st v1alpha1.DirectoryServiceStatus) string {
			if st.CurrentVersion != "3.1.0" || st.Upgrade != nil && st.Upgrade.ID != "" || len(st.History) != 2 {
				return "not yet"
			}
			return ""
		})
		s.checkPods(t, "3.1.0", replicas)
		s.checkHistory(t, s.status(t), "3.1.1", "3.1.0", upgrade.ResultSucceeded)
		s.awaitPhase(t, v1alpha1.PhaseRunning, v1alpha1.PhaseBlocked)
		s.checkSteady(t)
		s.checkVolumes(t, before)
		if diff := cmp.Diff(spec, s.get(t).Object["spec"]); diff != "" {
			t.Errorf("the spec is the user's: -before, +after:\n%s", diff)
		}

		back := s.snapshot(t)
		s.shell(t, noRollback)
		time.Sleep(3 * time.Second)
		s.checkUntouched(t, "R37: taking the annotation away does not upgrade again.", back)

		s.shell(t, patchTo("3.1.2"))
		s.checkUpgraded(t, "3.1.2", replicas)
		s.checkVolumes(t, before)
	})
}

func testUpgradeDeadline(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "deadline", replicas, "upgrade:\n  progressDeadlineSeconds: 10\n", func(k *servedNamespace) { k.image(imageOf("3.1.1"), neverReady) })
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		st := s.awaitRolledBack(t, replicas, before)
		s.checkHistory(t, st, "3.1.0", "3.1.1", upgrade.ResultRolledBack)
		if got := st.Rejected.Reason; got != upgrade.ReasonProgressDeadlineExceeded {
			t.Errorf("rejected for %s", got)
		}
	})
}

func testUpgradeScaled(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "scaled", replicas, "", func(k *servedNamespace) { k.image(imageOf("3.1.1"), neverReady) })
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		s.awaitReplaced(t, fmt.Sprintf("example-ds-%d", replicas-1))

		scaled := map[int]int{1: 3, 3: 2}[replicas]
		s.shell(t, fmt.Sprintf("kubectl scale dirsrv example-ds --replicas=%d", scaled))
		s.waitStatefulSet(t, "scaled", func(set *appsv1.StatefulSet) bool { return int(*set.Spec.Replicas) == scaled })
		s.kubelet.image(imageOf("3.1.1"), healthy)
		s.checkUpgraded(t, "3.1.1", scaled)
		s.checkVolumes(t, before)
	})
}

func testUpgradeStatefulSetDeleted(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "deleted", replicas, "", func(k *servedNamespace) { k.image(imageOf("3.1.1"), neverReady) })
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		s.awaitReplaced(t, fmt.Sprintf("example-ds-%d", replicas-1))
		s.awaitPhase(t, v1alpha1.PhaseUpgrading)

		// With its pods, or leaving them behind.
		cascade := map[int]string{1: "background", 3: "orphan"}[replicas]
		cp.recorder.allow(s.namespace, "statefulsets", "example-ds")
		s.shell(t, "kubectl delete statefulset example-ds --cascade="+cascade)
		s.waitStatefulSet(t, "made again", func(set *appsv1.StatefulSet) bool { return set.DeletionTimestamp == nil })
		s.kubelet.image(imageOf("3.1.1"), healthy)
		s.checkUpgraded(t, "3.1.1", replicas)
		s.checkVolumes(t, before)
	})
}

func testFirstImageCorrected(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		fails := map[int]behaviour{1: crashes, 3: cannotPull}[replicas]
		s := cp.deploy(t, "first", replicas, "4.0.0", "", func(k *servedNamespace) { k.image(imageOf("4.0.0"), fails) })
		cp.eventually(t, soon, s.namespace+": every server fails", func() string {
			failing := 0
			for _, p := range s.pods(t) {
				if len(p.Status.ContainerStatuses) > 0 && strings.HasSuffix(ptr.Deref(p.Status.ContainerStatuses[0].State.Waiting, corev1.ContainerStateWaiting{}).Reason, "BackOff") {
					failing++
				}
			}
			if failing != replicas {
				return fmt.Sprintf("%d of them do", failing)
			}
			return ""
		})
		s.settle(t)
		if st := s.status(t); st.Phase == v1alpha1.PhaseRunning || st.CurrentVersion != "" && st.CurrentVersion != "4.0.0" {
			t.Errorf("status of a service that never was healthy: %s", compact(st))
		}
		before := volumes(t, s.directory)

		// R39: a major downgrade by the table, but of what never ran.
		s.shell(t, patchTo("3.1.0"))
		s.awaitRunning(t, "3.1.0", replicas)
		s.waitCondition(t, "UpgradeBlocked", metav1.ConditionFalse)
		if diff := cmp.Diff(before, volumes(t, s.directory)); diff != "" {
			t.Errorf("volume claims: -before, +after:\n%s", diff)
		}
		s.checkSteady(t)
	})
}

func testResourcesTooSmall(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "memory", replicas, "resources:\n  limits:\n    memory: 512Mi\n", func(k *servedNamespace) { k.needs("256Mi") })
		before := s.snapshot(t)
		s.shell(t, fmt.Sprintf(patchMemory, "64Mi"))
		st := s.awaitRolledBack(t, replicas, before)
		s.checkHistory(t, st, "3.1.0", "3.1.0", upgrade.ResultRolledBack)
		memory := func() string {
			return s.statefulSet(t).Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String()
		}
		if got := memory(); got != "512Mi" {
			t.Errorf("the StatefulSet has %s", got)
		}
		after := s.snapshot(t)
		s.shell(t, fmt.Sprintf(patchMemory, "512Mi"))
		s.waitCondition(t, "UpgradeBlocked", metav1.ConditionFalse)
		s.awaitRunning(t, "3.1.0", replicas)
		s.checkUntouched(t, "The spec asks for what runs.", after)

		s.shell(t, fmt.Sprintf(patchMemory, "1Gi"))
		s.await(t, "1Gi everywhere", func(st v1alpha1.DirectoryServiceStatus) string {
			if len(st.History) != 2 || memory() != "1Gi" {
				return "the StatefulSet has " + memory()
			}
			return ""
		})
		s.awaitRunning(t, "3.1.0", replicas)
		s.checkHistory(t, s.status(t), "3.1.0", "3.1.0", upgrade.ResultSucceeded)
		s.checkSteady(t)
		s.checkVolumes(t, before)
	})
}

func testUpgradeInTwoPatches(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "mismatch", replicas, "", nil)
		before := s.snapshot(t)
		s.shell(t, patchVersionOnly)
		s.awaitBlocked(t, upgrade.ReasonImageVersionMismatch)
		s.checkUntouched(t, "R24: half a change touches nothing.", before)
		s.shell(t, patchImageOnly)
		s.checkUpgraded(t, "3.1.1", replicas)
		s.checkVolumes(t, before)
	})
}

func testUpgradeUnhealthy(t *testing.T, cp *controlPlane) {
	sizes(t, func(t *testing.T, replicas int) {
		s := cp.install(t, "unhealthy", replicas, "", nil)
		before := s.snapshot(t)
		broken := fmt.Sprintf("example-ds-%d", replicas/2)
		s.kubelet.breakPod(broken, "", neverReady)
		s.await(t, "a server not Ready", func(st v1alpha1.DirectoryServiceStatus) string {
			if int(st.ReadyReplicas) == replicas {
				return "all are"
			}
			return ""
		})
		s.shell(t, patchTo("3.1.1"))
		s.awaitBlocked(t, upgrade.ReasonServiceUnhealthy)
		s.checkUntouched(t, "R29: an upgrade begins only on a healthy service.", before)
		s.kubelet.healPod(broken)
		s.checkUpgraded(t, "3.1.1", replicas)
		s.checkVolumes(t, before)
	})
}
