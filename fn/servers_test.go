package fn

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// seenAt is the time of the call.
var seenAt = time.Date(2026, time.February, 3, 4, 6, 0, 0, time.UTC)

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

// R34, R35, R42: what a pod's containers say of it: why it does not run, in words that
// stand still.
func TestContainers(t *testing.T) {
	const where = "container dirsrv, image dirsrv:3.1.1"
	server := func(s corev1.ContainerStatus) corev1.ContainerStatus {
		s.Name, s.Image = naming.Container, "dirsrv:3.1.1"
		return s
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	refusal := `{"reason":"DatabaseBackendUnsupported","message":"the database is bdb"}`

	cases := map[string]struct {
		reason string
		init   []corev1.ContainerStatus
		server corev1.ContainerStatus
		want   upgrade.Pod
	}{
		"Running":   {reason: "Nothing is wrong.", server: corev1.ContainerStatus{State: running}},
		"Creating":  {reason: "Part of every start.", server: corev1.ContainerStatus{State: waitingFor("ContainerCreating", "")}},
		"Init":      {reason: "The same.", server: corev1.ContainerStatus{State: waitingFor("PodInitializing", "")}},
		"NoStatus":  {reason: "The kubelet has not said anything yet."},
		"CannotBe":  {reason: "What Kubernetes says of it.", server: corev1.ContainerStatus{State: waitingFor("CreateContainerConfigError", `secret "x" not found`)}, want: upgrade.Pod{Waiting: "CreateContainerConfigError", Container: where, Message: `secret "x" not found`}},
		"PullBack":  {reason: "R39: there is no such image.", server: corev1.ContainerStatus{State: waitingFor("ImagePullBackOff", `Back-off pulling image "x"`)}, want: upgrade.Pod{Waiting: "ImagePullBackOff", Container: where, Message: `Back-off pulling image "x"`}},
		"PullError": {reason: "R34: the kubelet says the one and the other in turn: they are one reason.", server: corev1.ContainerStatus{State: waitingFor("ErrImagePull", "not found")}, want: upgrade.Pod{Waiting: "ImagePullBackOff", Container: where, Message: "not found"}},
		"CrashLoop": {
			reason: "R34: the seconds of the kubelet's back-off are not in the message: how it ended is.",
			server: corev1.ContainerStatus{
				State:                waitingFor("CrashLoopBackOff", "back-off 40s restarting failed container=dirsrv pod=my-ds-1"),
				LastTerminationState: terminated(1, "Error", " cannot open the database\n"),
			},
			want: upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where, Message: "cannot open the database"},
		},
		"CrashLoopWithoutMessage": {
			reason: "A server that says nothing has at least an exit code; the reason Error tells nothing.",
			server: corev1.ContainerStatus{State: waitingFor("CrashLoopBackOff", "back-off 40s"), LastTerminationState: terminated(137, "Error", "")},
			want:   upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where, Message: "exit code 137"},
		},
		"CrashLoopOutOfMemory": {
			reason: "Another reason does.",
			server: corev1.ContainerStatus{State: waitingFor("CrashLoopBackOff", "back-off 40s"), LastTerminationState: terminated(137, "OOMKilled", "")},
			want:   upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where, Message: "exit code 137 OOMKilled"},
		},
		"CrashLoopOfUnknownEnd": {
			reason: "Nobody knows how it ended.",
			server: corev1.ContainerStatus{State: waitingFor("CrashLoopBackOff", "back-off 40s")},
			want:   upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where},
		},
		"BetweenTwoRestarts": {
			reason: "R34: a crash loop looks like a start whenever it is tried again.",
			server: corev1.ContainerStatus{State: running, RestartCount: 2, LastTerminationState: terminated(1, "Error", "m")},
			want:   upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where, Message: "m"},
		},
		"JustEnded": {
			reason: "R34: and for a moment like neither.",
			server: corev1.ContainerStatus{State: terminated(1, "Error", "m"), RestartCount: 2, LastTerminationState: terminated(1, "Error", "m")},
			want:   upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where, Message: "m"},
		},
		"EndedOnce": {
			reason: "The kubelet restarts what failed once without delay: no loop yet.",
			server: corev1.ContainerStatus{State: running, RestartCount: 1, LastTerminationState: terminated(1, "Error", "m")},
		},
		"EndedWell": {
			reason: "A server that ended without an error, after a node's shutdown for example, is in no loop.",
			server: corev1.ContainerStatus{State: running, RestartCount: 5, LastTerminationState: terminated(0, "Completed", "")},
		},
		"Refusal": {
			reason: "R42: the agent's own word, in its termination message.",
			server: corev1.ContainerStatus{State: waitingFor("CrashLoopBackOff", "back-off 40s"), RestartCount: 3, LastTerminationState: terminated(1, "Error", refusal)},
			want: upgrade.Pod{
				Waiting: "CrashLoopBackOff", Container: where, Message: refusal,
				Refusal: &upgrade.Refusal{Reason: "DatabaseBackendUnsupported", Message: "the database is bdb"},
			},
		},
		"RefusalAtOnce": {
			reason: "R42: it need not be repeated to be heard.",
			server: corev1.ContainerStatus{State: terminated(1, "Error", refusal)},
			want:   upgrade.Pod{Refusal: &upgrade.Refusal{Reason: "DatabaseBackendUnsupported", Message: "the database is bdb"}},
		},
		"NoRefusal": {
			reason: "JSON of the server's own log is none.",
			server: corev1.ContainerStatus{State: waitingFor("CrashLoopBackOff", ""), LastTerminationState: terminated(1, "Error", `{"level":"error"}`)},
			want:   upgrade.Pod{Waiting: "CrashLoopBackOff", Container: where, Message: `{"level":"error"}`},
		},
		"InitContainer": {
			reason: "An init container's reason is the cause: the server's only follows from it.",
			init:   []corev1.ContainerStatus{{Name: "other", Image: "x:1", State: waitingFor("ErrImagePull", "m")}},
			server: corev1.ContainerStatus{State: waitingFor("CreateContainerConfigError", "")},
			want:   upgrade.Pod{Waiting: "ImagePullBackOff", Container: "container other, image x:1", Message: "m"},
		},
		"InitContainerDone": {
			reason: "One that has done its work is nothing to wait for; the agent's is what brings the agent (R30).",
			init:   []corev1.ContainerStatus{{Name: naming.AgentContainer, State: terminated(0, "Completed", "")}},
			server: corev1.ContainerStatus{State: running},
			want:   upgrade.Pod{HasAgent: true},
		},
		"AgentFails": {
			reason: "R42: the agent's container refuses.",
			init: []corev1.ContainerStatus{{
				Name: naming.AgentContainer, Image: "f:1", RestartCount: 2,
				State: waitingFor("CrashLoopBackOff", "back-off 10s"), LastTerminationState: terminated(1, "Error", refusal),
			}},
			server: corev1.ContainerStatus{State: waitingFor("PodInitializing", "")},
			want: upgrade.Pod{
				HasAgent: true, Waiting: "CrashLoopBackOff", Container: "container agent, image f:1", Message: refusal,
				Refusal: &upgrade.Refusal{Reason: "DatabaseBackendUnsupported", Message: "the database is bdb"},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := &observed.State{Identity: naming.Identity{Name: "my-ds", Namespace: "team"}}
			state.Pods.Value = []corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Name: "my-ds-1"},
				Status:     corev1.PodStatus{InitContainerStatuses: tc.init, ContainerStatuses: []corev1.ContainerStatus{server(tc.server)}},
			}}
			got := podsOf(state, seenAt)
			tc.want.Name, tc.want.Ordinal = "my-ds-1", 1
			if diff := cmp.Diff([]upgrade.Pod{tc.want}, got); diff != "" {
				t.Errorf("\n%s\npodsOf(, time.Date(2026, time.February, 3, 4, 6, 0, 0, time.UTC)): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R34: whatever phase of a failing start the call meets, it is the same failure.
func TestContainersStandStill(t *testing.T) {
	phases := map[string][]corev1.ContainerStatus{
		"CrashLoop": {
			{State: waitingFor("CrashLoopBackOff", "back-off 10s"), RestartCount: 2, LastTerminationState: terminated(1, "Error", "m")},
			{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, RestartCount: 3, LastTerminationState: terminated(1, "Error", "m")},
			{State: terminated(1, "Error", "m"), RestartCount: 3, LastTerminationState: terminated(1, "Error", "m")},
			{State: waitingFor("CrashLoopBackOff", "back-off 5m0s"), RestartCount: 40, LastTerminationState: terminated(1, "Error", "m")},
		},
		// The runtime cannot start the program: kubelet, Status.Reason of a StartError.
		"CannotRun": {
			{State: waitingFor("RunContainerError", "no such file"), RestartCount: 2, LastTerminationState: terminated(128, "StartError", "no such file")},
			{State: waitingFor("CrashLoopBackOff", "back-off 40s"), RestartCount: 2, LastTerminationState: terminated(128, "StartError", "no such file")},
		},
	}
	for name, statuses := range phases {
		t.Run(name, func(t *testing.T) {
			var first upgrade.Pod
			containerOf(&first, &statuses[0], seenAt)
			for _, s := range statuses[1:] {
				var p upgrade.Pod
				containerOf(&p, &s, seenAt)
				if diff := cmp.Diff(first, p); diff != "" {
					t.Errorf("the failure moves by itself: -first, +then:\n%s", diff)
				}
			}
		})
	}
}

// R30, R31: what a rollout needs to know of a pod.
func TestPods(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC))
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Add(-time.Hour))},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
	}}
	pod := func(name string, change func(p *corev1.Pod)) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", CreationTimestamp: at, Labels: map[string]string{"controller-revision-hash": "r1"}},
			Status:     *ready.DeepCopy(),
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	base := upgrade.Pod{Name: "my-ds-12", Ordinal: 12, UID: "u-1", Revision: "r1", Created: at.Time, Ready: true, Since: at.Time}
	with := func(change func(p *upgrade.Pod)) []upgrade.Pod {
		p := base
		change(&p)
		return []upgrade.Pod{p}
	}
	report := `{"podUID":"u-1","version":"3.1.0","ready":true,"replication":{"my-ds-1":{"userroot":{"state":"Healthy"}}}}`

	cases := map[string]struct {
		reason  string
		pods    []corev1.Pod
		reports map[string]string
		want    []upgrade.Pod
	}{
		"None":        {reason: "No pods.", want: []upgrade.Pod{}},
		"Ready":       {reason: "All of it.", pods: []corev1.Pod{pod("my-ds-12", nil)}, want: []upgrade.Pod{base}},
		"Unready":     {reason: "And since when.", pods: []corev1.Pod{pod("my-ds-12", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse })}, want: with(func(p *upgrade.Pod) { p.Ready = false })},
		"Unknown":     {reason: "A node that is away is not Ready.", pods: []corev1.Pod{pod("my-ds-12", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionUnknown })}, want: with(func(p *upgrade.Pod) { p.Ready = false })},
		"New":         {reason: "Nobody has said anything.", pods: []corev1.Pod{pod("my-ds-12", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })}, want: with(func(p *upgrade.Pod) { p.Ready, p.Since = false, time.Time{} })},
		"Terminating": {reason: "It is going.", pods: []corev1.Pod{pod("my-ds-12", func(p *corev1.Pod) { p.DeletionTimestamp = &at })}, want: with(func(p *upgrade.Pod) { p.Terminating, p.Deleted = true, at.Time })},
		"Foreign":     {reason: "What the selector finds, and is no pod of the StatefulSet.", pods: []corev1.Pod{pod("my-ds-debug", nil), pod("my-ds-", nil), pod("other-0", nil), pod("my-ds-1-2", nil)}, want: []upgrade.Pod{}},
		"Report": {
			reason: "R30: what its agent says.", pods: []corev1.Pod{pod("my-ds-12", nil)}, reports: map[string]string{"my-ds-12": report},
			want: with(func(p *upgrade.Pod) { p.Report = &upgrade.Report{Version: "3.1.0", Ready: true, Replicates: true} }),
		},
		"ReportOfAnotherPod": {
			reason: "R30: a report outlives its pod: that of another UID says nothing about this one.", pods: []corev1.Pod{pod("my-ds-12", nil)},
			reports: map[string]string{"my-ds-12": strings.Replace(report, "u-1", "u-0", 1)}, want: []upgrade.Pod{base},
		},
		"ReportOfAnotherName": {reason: "Nor does another pod's.", pods: []corev1.Pod{pod("my-ds-12", nil)}, reports: map[string]string{"my-ds-1": report}, want: []upgrade.Pod{base}},
		"ReportGarbled":       {reason: "Nor does one that cannot be read.", pods: []corev1.Pod{pod("my-ds-12", nil)}, reports: map[string]string{"my-ds-12": report[:20]}, want: []upgrade.Pod{base}},
		"ReportBroken": {
			reason: "R30: one broken agreement is one too many.", pods: []corev1.Pod{pod("my-ds-12", nil)}, reports: map[string]string{"my-ds-12": strings.Replace(report, "Healthy", "Broken", 1)},
			want: with(func(p *upgrade.Pod) { p.Report = &upgrade.Report{Version: "3.1.0", Ready: true} }),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := &observed.State{Identity: naming.Identity{Name: "my-ds", Namespace: "team"}}
			state.Pods.Value = tc.pods
			if tc.reports != nil {
				state.Reports = &corev1.ConfigMap{Data: tc.reports}
			}
			if diff := cmp.Diff(tc.want, podsOf(state, seenAt)); diff != "" {
				t.Errorf("\n%s\npodsOf(, time.Date(2026, time.February, 3, 4, 6, 0, 0, time.UTC)): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R31: what the StatefulSet says of its servers.
func TestRollout(t *testing.T) {
	templates := &compose.Templates{}
	if diff := cmp.Diff(upgrade.Rollout{}, rolloutOf(&observed.State{}, templates)); diff != "" {
		t.Errorf("without a StatefulSet: -want, +got:\n%s", diff)
	}
	sts := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Generation: 7, Labels: map[string]string{"app.kubernetes.io/version": "3.1.0"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3)},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 7, Replicas: 4, ReadyReplicas: 2, UpdatedReplicas: 1, CurrentReplicas: 9, AvailableReplicas: 9,
			CurrentRevision: "r1", UpdateRevision: "r2",
		},
	}
	sts.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "x:1"}, {Name: "dirsrv", Image: "dirsrv:3.1.0"}}
	base := upgrade.Rollout{
		Exists: true, Running: upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}, Current: true,
		Wanted: 3, Pods: 4, Ready: 2, Updated: 1, UpdateRevision: "r2", CurrentRevision: "r1",
	}
	cases := map[string]struct {
		reason string
		change func(s *appsv1.StatefulSet)
		want   func(r *upgrade.Rollout)
	}{
		"Whole":     {reason: "All of it."},
		"Stale":     {reason: "The status speaks of an older generation.", change: func(s *appsv1.StatefulSet) { s.Generation = 8 }, want: func(r *upgrade.Rollout) { r.Current = false }},
		"Defaulted": {reason: "A StatefulSet without a number of replicas has one.", change: func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }, want: func(r *upgrade.Rollout) { r.Wanted = 1 }},
		"Partition": {reason: "R30: the strategy as it is observed.", change: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}}
		}, want: func(r *upgrade.Rollout) { r.Partition = 2 }},
		"OnDelete":  {reason: "R35: the other one.", change: func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }, want: func(r *upgrade.Rollout) { r.OnDelete = true }},
		"Foreign":   {reason: "Without the server's container it runs no release.", change: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers = s.Spec.Template.Spec.Containers[:1] }, want: func(r *upgrade.Rollout) { r.Running.Image = "" }},
		"NoVersion": {reason: "R4: nobody knows the version.", change: func(s *appsv1.StatefulSet) { s.Labels = nil }, want: func(r *upgrade.Rollout) { r.Running.Version = "" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, want := sts.DeepCopy(), base
			if tc.change != nil {
				tc.change(s)
			}
			if tc.want != nil {
				tc.want(&want)
			}
			if diff := cmp.Diff(want, rolloutOf(&observed.State{StatefulSet: s}, templates)); diff != "" {
				t.Errorf("\n%s\nrolloutOf(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
