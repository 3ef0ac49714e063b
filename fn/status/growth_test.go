package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
)

func noAgentImage(in *Inputs) { in.NoAgentImage = true }

const refusedWords = `persistentvolumeclaims "ds-data-ds-0" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`

// resizePod is that of the Job which grows volumes to the size of the spec.
func resizePod(in *Inputs, change func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "ds-resize-0a5f-x7k2p",
			Annotations:     map[string]string{naming.AnnotationSize: in.Spec.Storage.Size.String()},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "ds-resize-0a5f", Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "resize", Image: "function:v1"}}},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// crashed is what the kubelet says between two runs of a program that failed.
func crashed(message string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Status.ContainerStatuses[0]
		c.RestartCount = 1
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container"}
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message}
	}
}

// growthRefused: the API server refuses what the Job asks for. It follows what grows.
func growthRefused(in *Inputs) {
	in.ResizePods = []corev1.Pod{resizePod(in, crashed(`{"level":"info","msg":"Cannot grow the claim"}`+"\ndirectoryservice: error: cannot grow ds-data-ds-0: "+refusedWords+"\n"))}
}

// R7: what becomes of volumes that are smaller than the spec says.
func TestGrowth(t *testing.T) {
	five := func(in *Inputs) { in.Spec.Storage.Size = ptr.To(resource.MustParse("5Gi")) }
	class := func(in *Inputs) { in.Claims[0].Spec.StorageClassName = ptr.To("slow") }
	pod := func(change func(p *corev1.Pod)) func(in *Inputs) {
		return func(in *Inputs) { in.ResizePods = []corev1.Pod{resizePod(in, change)} }
	}
	before := func(reason, message string) func(in *Inputs) {
		return func(in *Inputs) {
			in.Previous.Conditions = []metav1.Condition{{Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
		}
	}
	add := func(claims ...*corev1.PersistentVolumeClaim) func(in *Inputs) {
		return func(in *Inputs) {
			for _, c := range claims {
				in.Claims = append(in.Claims, *c)
			}
		}
	}
	pending := func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		c.Status.Phase = corev1.ClaimPending
		return c
	}
	deleted := func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		c.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
		return c
	}
	// has is what the first volume really has, with conditions of its claim.
	has := func(size string, conditions ...corev1.PersistentVolumeClaimConditionType) func(in *Inputs) {
		return func(in *Inputs) {
			st := &in.Claims[0].Status
			st.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
			for _, c := range conditions {
				st.Conditions = append(st.Conditions, corev1.PersistentVolumeClaimCondition{Type: c, Status: corev1.ConditionTrue})
			}
		}
	}
	const failed = "spec.storage.size: cannot grow the volume claims ds-data-ds-0 to 5Gi: "
	grows := []string{"ds-data-ds-0"}

	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    string
		bad     bool
		words   []string
		// grow are the claims that a Job is composed for.
		grow []string
	}{
		"Growing": {
			reason:  "The Job is at work, and where to look.",
			changes: []func(in *Inputs){five},
			want:    "Growing", grow: grows,
			words: []string{"ds-data-ds-0 to 5Gi", "kubectl -n team get jobs,pods -l ", "app.kubernetes.io/component=resize"},
		},
		"Restarting": {
			reason:  "A Job whose pod is on its way is no failure.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} })},
			want:    "Growing", grow: grows,
		},
		"OneIsLarger": {
			reason:  "Nothing grows to a size that is refused.",
			changes: []func(in *Inputs){five, add(claim("ds-data-ds-1", "6Gi"))},
			want:    "ShrinkRefused", bad: true,
		},
		"SomeGrown": {
			reason:  "The message names those that are too small, also of servers that were scaled away. The Job is for all of them, as before: another list would be another Job.",
			changes: []func(in *Inputs){five, add(claim("ds-data-ds-7", "1Gi"), claim("ds-data-ds-10", "5Gi"))},
			want:    "Growing", grow: []string{"ds-data-ds-0", "ds-data-ds-10", "ds-data-ds-7"},
			words: []string{"ds-data-ds-0, ds-data-ds-7 to 5Gi"},
		},
		"NotOurs": {
			reason: "Labels are anybody's: a claim of another name is not touched.",
			changes: []func(in *Inputs){add(
				claim("data", "1Mi"), claim("ds-data-ds", "1Mi"), claim("ds-data-ds-x", "1Mi"), claim("ds-data-ds-01", "1Mi"), claim("ds-data-ds-+1", "1Mi"), claim("ds-data-ds--1", "1Mi"))},
			want: "Ready",
		},
		"NotBound": {
			reason:  "The API server allows no change of a claim that has no volume. It is grown when it has one.",
			changes: []func(in *Inputs){add(pending(claim("ds-data-ds-1", "512Mi")))},
			want:    "Ready",
		},
		"NewOrdinal": {
			reason:  "A new server's claim is as small as the template, and the others are large.",
			changes: []func(in *Inputs){five, add(claim("ds-data-ds-1", "5Gi")), func(in *Inputs) { in.Claims[0].Name, in.Claims[1].Name = "ds-data-ds-1", "ds-data-ds-0" }},
			want:    "Growing", grow: []string{"ds-data-ds-0", "ds-data-ds-1"},
			words: []string{"claims ds-data-ds-1 to 5Gi"},
		},
		"Deleted": {
			reason:  "What goes needs no growth.",
			changes: []func(in *Inputs){add(deleted(claim("ds-data-ds-1", "512Mi")))},
			want:    "Ready",
		},
		"Invalid": {
			reason:  "Of a spec that is invalid nothing is acted upon.",
			changes: []func(in *Inputs){five, invalid},
			want:    "Waiting", words: []string{"SpecValid"},
		},
		"ByHand": {
			reason:  "Without an image there is no Job.",
			changes: []func(in *Inputs){five, noAgentImage},
			want:    "GrowByHand", bad: true, grow: grows,
			words: []string{"agentImage", "kubectl -n team patch pvc ds-data-ds-0 -p "},
		},
		"OtherClass": {
			reason: "Nothing of a refused spec.storage is acted upon.",
			changes: []func(in *Inputs){five, func(in *Inputs) {
				in.Spec.Storage.StorageClassName, in.Template.Spec.StorageClassName = ptr.To("fast"), ptr.To("slow")
			}},
			want: "StorageClassImmutable", bad: true,
		},

		"Refused": {
			reason:  "The API server's own words, and the commands for either way out.",
			changes: []func(in *Inputs){five, class, growthRefused},
			want:    "GrowFailed", bad: true, grow: grows,
			words: []string{
				failed + refusedWords + ". ",
				`kubectl patch storageclass slow -p '{"allowVolumeExpansion":true}'`,
				`-p '{"spec":{"storage":{"size":"1Gi"}}}'`,
				"kubectl -n team logs -l ",
			},
		},
		"RefusedWithoutAClass": {
			reason:  "Nobody can allow it then.",
			changes: []func(in *Inputs){five, growthRefused},
			want:    "GrowFailed", bad: true, grow: grows,
			words: []string{"without a StorageClass", `-p '{"spec":{"storage":{"size":"1Gi"}}}'`},
		},
		"RunsAgain": {
			reason: "While the program runs once more, nothing is better yet.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) {
				crashed("directoryservice: error: no")(p)
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			})},
			want: "GrowFailed", bad: true, grow: grows, words: []string{failed + "no. "},
		},
		"Silent": {
			reason: "A program that says nothing has an exit code.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) {
				crashed("")(p)
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode = 137
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "OOMKilled"
			})},
			want: "GrowFailed", bad: true, grow: grows, words: []string{"exit code 137 OOMKilled"},
		},
		"Talkative": {
			reason:  "A condition has an end.",
			changes: []func(in *Inputs){five, pod(crashed(strings.Repeat("ä", 3000)))},
			want:    "GrowFailed", bad: true, grow: grows, words: []string{failed + strings.Repeat("ä", 300) + ". "},
		},
		"CannotPull": {
			reason: "A Job that cannot begin needs a person too.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}
			})},
			want: "GrowFailed", bad: true, grow: grows, words: []string{"ImagePullBackOff (image function:v1)"},
		},
		"Unschedulable": {
			reason: "A node may come: it is told, and no more.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}}
			})},
			want: "Growing", grow: grows, words: []string{"does not start yet: Unschedulable"},
		},
		"OtherSize": {
			reason:  "What refused another size says nothing of this one.",
			changes: []func(in *Inputs){growthRefused, five},
			want:    "Growing", grow: grows,
		},
		"Stranger": {
			reason: "Nor does a pod that only has the labels.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) {
				crashed("run this: rm -rf /")(p)
				p.OwnerReferences = nil
			})},
			want: "Growing", grow: grows,
		},
		"Succeeded": {
			reason: "Nor one that succeeded in the end: the claims are about to be seen.",
			changes: []func(in *Inputs){five, pod(func(p *corev1.Pod) {
				crashed("no")(p)
				p.Status.Phase = corev1.PodSucceeded
			})},
			want: "Growing", grow: grows,
		},
		"GaveUp": {
			reason:  "A Job that failed for good has no pod any more. It is made anew.",
			changes: []func(in *Inputs){five, class, func(in *Inputs) { in.ResizeFailed = true }},
			want:    "GrowFailed", bad: true, grow: grows, words: []string{"kubectl patch storageclass slow"},
		},
		"StillFailed": {
			reason:  "Until the next pod has tried, what the last one said stands: no condition goes to and fro.",
			changes: []func(in *Inputs){five, before("GrowFailed", failed+"no. And so on")},
			want:    "GrowFailed", bad: true, grow: grows, words: []string{failed + "no. And so on"},
		},
		"FailedForOthers": {
			reason:  "Not if other claims are meant, or another size.",
			changes: []func(in *Inputs){five, before("GrowFailed", "spec.storage.size: cannot grow the volume claims ds-data-ds-0 to 3Gi: no")},
			want:    "Growing", grow: grows,
		},

		"Storage": {
			reason:  "The claim asks for it, and its storage does not have it yet.",
			changes: []func(in *Inputs){has("512Mi")},
			want:    "Growing", words: []string{"kubectl -n team describe pvc ds-data-ds-0"},
		},
		"FileSystem": {
			reason:  "The file system still has to grow.",
			changes: []func(in *Inputs){has("1Gi", corev1.PersistentVolumeClaimFileSystemResizePending)},
			want:    "Growing", words: []string{"kubectl -n team describe pvc ds-data-ds-0"},
		},
		"StorageFails": {
			reason:  "The storage driver cannot, and says why to the claim.",
			changes: []func(in *Inputs){has("512Mi", corev1.PersistentVolumeClaimControllerResizeError)},
			want:    "GrowFailed", bad: true, words: []string{"kubectl -n team describe pvc ds-data-ds-0"},
		},
		"Larger": {
			reason:  "Storage comes in steps.",
			changes: []func(in *Inputs){has("2Gi")},
			want:    "Ready",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Of(inputs(tc.changes...))
			c := condition(t, r, TypeStorageReady)
			if c.Reason != tc.want || c.Bad != tc.bad || (c.Status == metav1.ConditionTrue) != (tc.want == "Ready") {
				t.Errorf("\n%s\nwant %s, bad %t; got %s %s, bad %t: %s", tc.reason, tc.want, tc.bad, c.Status, c.Reason, c.Bad, c.Message)
			}
			for _, w := range tc.words {
				if !strings.Contains(c.Message, w) {
					t.Errorf("\n%s\nthe message lacks %q: %s", tc.reason, w, c.Message)
				}
			}
			var grow []string
			for _, g := range r.Grow {
				grow = append(grow, g.GetName())
			}
			if diff := cmp.Diff(tc.grow, grow); diff != "" {
				t.Errorf("\n%s\nclaims to grow: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R7, R34: a person is told once that it fails, and once that it is done.
func TestGrowthEvents(t *testing.T) {
	five := func(in *Inputs) { in.Spec.Storage.Size = ptr.To(resource.MustParse("5Gi")) }
	done := func(in *Inputs) { in.Claims = []corev1.PersistentVolumeClaim{*claim("ds-data-ds-0", "5Gi")} }
	var previous []metav1.Condition
	for _, step := range []struct {
		reason  string
		changes []func(in *Inputs)
		want    []string
	}{
		{reason: "Ready.", want: nil},
		{reason: "It begins.", changes: []func(in *Inputs){five}},
		{reason: "It fails.", changes: []func(in *Inputs){five, growthRefused}, want: []string{"GrowFailed"}},
		{reason: "It still fails.", changes: []func(in *Inputs){five, growthRefused}},
		{reason: "Another pod tries.", changes: []func(in *Inputs){five}},
		{reason: "That one fails too.", changes: []func(in *Inputs){five, growthRefused}},
		{reason: "The claims were grown, the storage is at work.", changes: []func(in *Inputs){five, done, func(in *Inputs) {
			in.Claims[0].Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		}}},
		{reason: "It is done.", changes: []func(in *Inputs){five, done}, want: []string{"StorageReady"}},
	} {
		r := Of(inputs(append(step.changes, func(in *Inputs) { in.Previous.Conditions = previous })...))
		var got []string
		for _, e := range r.Events {
			if e.Reason == "GrowFailed" || e.Reason == "StorageReady" {
				got = append(got, e.Reason)
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s events: -want, +got:\n%s", step.reason, diff)
		}
		previous = nil
		for _, c := range r.Conditions {
			previous = append(previous, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
}
