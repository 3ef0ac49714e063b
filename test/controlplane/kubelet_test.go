//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// handMade is a StatefulSet as like ours as a test of the kubelet needs.
const handMade = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: ds
spec:
  replicas: 2
  serviceName: ds
  podManagementPolicy: Parallel
  selector:
    matchLabels: {app.kubernetes.io/component: server}
  template:
    metadata:
      labels: {app.kubernetes.io/component: server}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: dirsrv
        image: ds:1
        resources: {limits: {memory: 64Mi}}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: ds-data, mountPath: /data}]
  volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: ds-data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
`

func testKubelet(t *testing.T, cp *controlPlane) {
	s := cp.served(t, "kubelet")
	ns := s.name
	cp.recorder.allow(ns, "pods")
	cp.kubectl(t, handMade, "apply", "-n", ns, "-f", "-")

	pods := func() map[string]corev1.Pod {
		l, err := cp.kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/component": "server"}).String()})
		must(t, err)
		out := map[string]corev1.Pod{}
		for _, p := range l.Items {
			out[p.Name] = p
		}
		return out
	}
	// look tells image, readiness and what the server's container waits for.
	look := func(name string) string {
		p, ok := pods()[name]
		if !ok || len(p.Status.ContainerStatuses) != 1 {
			return "nothing"
		}
		what := fmt.Sprintf("%s %s Ready=%t", p.Spec.Containers[0].Image, p.Status.Phase, podReady(&p))
		if w := p.Status.ContainerStatuses[0].State.Waiting; w != nil {
			what += " " + w.Reason
		}
		if l := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; l != nil {
			what += fmt.Sprintf(" after %s %d", l.Reason, l.ExitCode)
		}
		return what
	}
	await := func(want map[string]string) {
		t.Helper()
		cp.eventually(t, soon, fmt.Sprint(want), func() string {
			got := map[string]string{}
			for name := range want {
				got[name] = look(name)
			}
			return cmp.Diff(want, got)
		})
	}
	const one, two = "ds:1 Running Ready=true", "ds:2 Running Ready=true"
	await(map[string]string{"ds-0": one, "ds-1": one})
	if down := s.maxDown(); len(down) != 0 {
		t.Errorf("down before anything happened: %s", down)
	}

	// A new image comes to the highest pod, and stays there while that one is not Ready.
	s.image("ds:2", cannotPull)
	cp.kubectl(t, "", "set", "image", "statefulset/ds", "-n", ns, "dirsrv=ds:2")
	await(map[string]string{"ds-0": one, "ds-1": "ds:2 Pending Ready=false ImagePullBackOff"})
	for _, tc := range []struct {
		is   behaviour
		want string
	}{
		{is: configError, want: "Pending Ready=false CreateContainerConfigError"},
		{is: crashes, want: "Running Ready=false CrashLoopBackOff after Error 1"},
		{is: neverReady, want: "Running Ready=false"},
		{is: refusesVersion, want: "Running Ready=false after Error 1"},
	} {
		s.image("ds:2", tc.is)
		await(map[string]string{"ds-0": one, "ds-1": "ds:2 " + tc.want})
	}
	s.image("ds:2", healthy)
	await(map[string]string{"ds-0": two, "ds-1": two})
	if down := s.maxDown(); len(down) != 1 {
		t.Errorf("down at once: want one, got %s", down)
	}
	var order []string
	for _, r := range s.deleted() {
		order = append(order, r.name+" "+r.image)
		if took := r.gone.Sub(r.terminating); took < terminateAfter {
			t.Errorf("%s was gone %s after its deletion: that was not graceful", r.name, took)
		}
	}
	if diff := cmp.Diff([]string{"ds-1 ds:1", "ds-0 ds:1"}, order); diff != "" {
		t.Errorf("deleted: -want, +got:\n%s", diff)
	}

	s.needs("128Mi")
	await(map[string]string{"ds-0": "ds:2 Running Ready=false CrashLoopBackOff after OOMKilled 137"})
	s.needs("1Mi")
	s.breakPod("ds-0", "", neverReady)
	await(map[string]string{"ds-0": "ds:2 Running Ready=false", "ds-1": two})
	s.healPod("ds-0")
	await(map[string]string{"ds-0": two, "ds-1": two})
	if diff := cmp.Diff([]string{"ds-0", "ds-1"}, s.maxDown()); diff != "" {
		t.Errorf("down at once: -want, +got:\n%s", diff)
	}

	t.Run("Program", func(t *testing.T) { testKubeletProgram(t, cp, s, pods) })
	await(map[string]string{"ds-0": two, "ds-1": two})

	// What is scaled away is not missed.
	s.mu.Lock()
	s.worst = nil
	s.mu.Unlock()
	cp.kubectl(t, "", "scale", "statefulset/ds", "-n", ns, "--replicas=1")
	cp.eventually(t, soon, "ds-1 gone", func() string {
		if _, there := pods()["ds-1"]; there {
			return "it is there"
		}
		return ""
	})
	if down := s.maxDown(); len(down) != 0 {
		t.Errorf("down though it was scaled away: %s", down)
	}
}

// handMadeJob runs our own program, with the right to delete ds-0 and nothing else.
const handMadeJob = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: unstick}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: unstick}
rules: [{apiGroups: [""], resources: [pods], resourceNames: [ds-0], verbs: [get, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: unstick}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: unstick}
subjects: [{kind: ServiceAccount, name: unstick}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  backoffLimit: 0
  template:
    metadata:
      labels: {app.kubernetes.io/component: unstick}
    spec:
      serviceAccountName: unstick
      restartPolicy: Never
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: unstick
        image: IMAGE
        args: [ARGS]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

func testKubeletProgram(t *testing.T, cp *controlPlane, s *servedNamespace, pods func() map[string]corev1.Pod) {
	s.breakPod("ds-0", "", neverReady)
	var before corev1.Pod
	cp.eventually(t, soon, "ds-0 not Ready", func() string {
		if before = pods()["ds-0"]; podReady(&before) {
			return "Ready"
		}
		return ""
	})
	runs := 0
	for name, tc := range map[string]struct {
		args string
		want batchv1.JobConditionType
	}{
		"succeeds": {
			args: strings.Join([]string{"unstick", "--namespace", s.name, "--pod", "ds-0", "--uid", string(before.UID), "--revision", before.Labels[appsv1.ControllerRevisionHashLabelKey]}, ", "),
			want: batchv1.JobComplete,
		},
		"fails": {args: "unstick, --no-such-flag", want: batchv1.JobFailed},
	} {
		manifest := strings.NewReplacer("NAME", name, "IMAGE", cp.kubelet.program.image, "ARGS", tc.args).Replace(handMadeJob)
		cp.kubectl(t, manifest, "apply", "-n", s.name, "-f", "-")
		cp.eventually(t, soon, "the end of the Job that "+name, func() string {
			j, err := cp.kube.BatchV1().Jobs(s.name).Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			for _, c := range j.Status.Conditions {
				if c.Type == tc.want && c.Status == corev1.ConditionTrue {
					return ""
				}
			}
			return compact(j.Status)
		})
		if runs++; len(s.ran()) != runs {
			t.Errorf("want %d runs, got %+v", runs, s.ran())
		}
	}
	s.healPod("ds-0")
	cp.eventually(t, soon, "ds-0 made anew", func() string {
		if now := pods()["ds-0"]; podReady(&now) && now.UID != before.UID {
			return ""
		}
		return compact(s.ran())
	})

	// The program has the rights of its service account and no more.
	l, err := cp.kube.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=succeeds"})
	must(t, err)
	if len(l.Items) != 1 {
		t.Fatalf("want one pod of the Job, got %d", len(l.Items))
	}
	identity := "KUBECONFIG=" + cp.kubelet.identity(&l.Items[0])
	for pod, want := range map[string]string{"ds-0": "yes", "ds-1": "no"} {
		out, err := run(cp.dir, []string{identity}, nil, tool(t, "kubectl"), "auth", "can-i", "delete", "pod/"+pod, "-n", s.name)
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("may it delete %s: want %s, got %s (%v)", pod, want, got, err)
		}
	}
}
