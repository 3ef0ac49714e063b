package render

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
)

// This file is what Kubernetes does in a life.

// A fate is what becomes of a server's pod.
type fate string

const (
	starts        fate = "starts"
	cannotPull    fate = "cannot pull"
	crashes       fate = "crashes"
	unschedulable fate = "unschedulable"
	// otherVersion and losesWrites are refusals of the agent.
	otherVersion fate = report.RefusalVersionMismatch
	losesWrites  fate = report.RefusalRollbackLosesWrites
)

// kubernetes acts: first on what was there, then on what came of that.
func (l *life) kubernetes() {
	l.grow()
	l.jobs()
	l.controller()
	l.kubelet()
	l.controller()
}

// statefulSet as it is stored; nil where there is none.
func (l *life) statefulSet() *appsv1.StatefulSet {
	o, ok := l.composed[naming.KeyStatefulSet]
	if !ok {
		return nil
	}
	return typed[appsv1.StatefulSet](l, o)
}

// controller is one sync of the StatefulSet controller under the policy Parallel
// (kubernetes pkg/controller/statefulset/stateful_set_control.go).
func (l *life) controller() {
	sts := l.statefulSet()
	if sts == nil {
		return
	}
	wanted, st := ptr.Deref(sts.Spec.Replicas, 1), &sts.Status
	st.ObservedGeneration, st.UpdateRevision, st.CollisionCount = sts.Generation, l.revision(&sts.Spec.Template), ptr.To[int32](0)
	if st.CurrentRevision == "" {
		st.CurrentRevision = st.UpdateRevision
	}
	rolling := sts.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType
	partition := int32(0)
	if u := sts.Spec.UpdateStrategy.RollingUpdate; u != nil {
		partition = ptr.Deref(u.Partition, 0)
	}

	for i := range l.pods {
		if i >= wanted {
			delete(l.pods, i)
		}
	}
	for i := range wanted {
		if l.pods[i] != nil {
			continue
		}
		revision := st.UpdateRevision
		if rolling && i < partition {
			revision = st.CurrentRevision
		}
		l.createPod(sts, i, revision)
	}
	for i := wanted - 1; rolling && i >= partition; i-- {
		if l.pods[i].Labels[appsv1.StatefulSetRevisionLabel] != st.UpdateRevision {
			l.deletePod(i)
			break
		}
		if !isReady(l.pods[i]) {
			break
		}
	}

	st.Replicas, st.ReadyReplicas, st.CurrentReplicas, st.UpdatedReplicas = 0, 0, 0, 0
	for _, p := range l.pods {
		st.Replicas++
		if isReady(p) {
			st.ReadyReplicas++
		}
		if p.Labels[appsv1.StatefulSetRevisionLabel] == st.CurrentRevision {
			st.CurrentReplicas++
		}
		if p.Labels[appsv1.StatefulSetRevisionLabel] == st.UpdateRevision {
			st.UpdatedReplicas++
		}
	}
	st.AvailableReplicas = st.ReadyReplicas
	if rolling && st.UpdatedReplicas == wanted && st.ReadyReplicas == wanted && st.Replicas == wanted {
		st.CurrentRevision, st.CurrentReplicas = st.UpdateRevision, st.UpdatedReplicas
	}
	l.setStatus(l.composed[naming.KeyStatefulSet], l.object(st))
}

// revision of a pod template: the same for the same template.
func (l *life) revision(t *corev1.PodTemplateSpec) string {
	b, err := json.Marshal(t)
	l.must(err)
	h := fnv.New32a()
	_, _ = h.Write(b)
	name := serviceName + "-" + rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
	l.templates[name] = *t
	return name
}

func (l *life) createPod(sts *appsv1.StatefulSet, ordinal int32, revision string) {
	template := l.templates[revision]
	name := fmt.Sprintf("%s-%d", sts.Name, ordinal)
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: sts.Namespace, Labels: maps.Clone(template.Labels), Annotations: template.Annotations,
			CreationTimestamp: metav1.NewTime(l.now),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(sts, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec:   corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", ordinal)},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	maps.Copy(p.Labels, map[string]string{
		appsv1.StatefulSetRevisionLabel: revision,
		appsv1.StatefulSetPodNameLabel:  name,
		appsv1.PodIndexLabel:            fmt.Sprint(ordinal),
	})
	for _, c := range template.Spec.InitContainers {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	for _, c := range template.Spec.Containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	l.storedPod(p, true)
	l.setReady(p, "Waiting", corev1.ConditionFalse)
	creating := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	if hasAgent(p) {
		creating.Waiting.Reason = "PodInitializing"
		l.setAgent(p, corev1.ContainerStatus{State: creating})
	}
	l.setServer(p, corev1.ContainerStatus{State: creating})
	l.pods[ordinal] = p
	if l.claims[ordinal] == nil {
		l.createClaim(sts, ordinal)
	}
}

func (l *life) createClaim(sts *appsv1.StatefulSet, ordinal int32) {
	c := sts.Spec.VolumeClaimTemplates[0].DeepCopy()
	c.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	c.Name, c.Namespace = fmt.Sprintf("%s-%s-%d", c.Name, sts.Name, ordinal), sts.Namespace
	c.Labels = maps.Clone(sts.Spec.Selector.MatchLabels)
	c.CreationTimestamp = metav1.NewTime(l.now)
	if c.Spec.StorageClassName == nil {
		c.Spec.StorageClassName = ptr.To("standard")
	}
	o := l.object(c)
	l.stored(o, nil)
	l.claims[ordinal] = typed[corev1.PersistentVolumeClaim](l, o)
	l.volumes[ordinal] = &volume{suffixes: map[string]bool{}}
}

// grow volumes to what their claims request.
func (l *life) grow() {
	for _, c := range l.claims {
		if c.Status.Phase == corev1.ClaimBound && !c.Status.Capacity.Storage().Equal(*c.Spec.Resources.Requests.Storage()) {
			c.Status.Capacity = c.Spec.Resources.Requests
			c.ResourceVersion = l.resourceVersion("PersistentVolumeClaim/" + c.Name)
		}
	}
}

// deletePod deletes a pod for the sake of a rollout.
func (l *life) deletePod(ordinal int32) {
	for i, p := range l.pods {
		if i != ordinal && !isReady(p) && isReady(l.pods[ordinal]) {
			l.t.Errorf("%s: pod %d is Ready and is deleted while pod %d is down", stamp(l.now), ordinal, i)
		}
	}
	delete(l.pods, ordinal)
}

// kubelet brings every pod that is older than this moment to its fate.
func (l *life) kubelet() {
	for _, i := range slices.Sorted(maps.Keys(l.pods)) {
		p := l.pods[i]
		f := starts
		if l.fate != nil {
			f = l.fate(i, p.Spec.Containers[0].Image)
		}
		if p.CreationTimestamp.Time.Equal(l.now) {
			continue
		}
		before := clone(l.object(p))
		if l.fates[p.UID] != f {
			l.fates[p.UID] = f
			if c := l.claims[i]; f != unschedulable && c.Status.Phase != corev1.ClaimBound {
				c.Spec.VolumeName = fmt.Sprintf("pv-%d", i)
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: c.Spec.AccessModes, Capacity: c.Spec.Resources.Requests}
			}
			l.meet(p, f)
		}
		if f == starts && hasAgent(p) {
			l.probe(p, l.look(i, p))
		}
		if !reflect.DeepEqual(before, l.object(p)) {
			l.storedPod(p, false)
		}
	}
}

// probe is what comes of the agent's answers.
func (l *life) probe(p *corev1.Pod, ready bool) {
	if ready == isReady(p) {
		return
	}
	p.Status.ContainerStatuses[0].Ready = ready
	if ready {
		l.setReady(p, "", corev1.ConditionTrue)
	} else {
		l.setReady(p, "ContainersNotReady", corev1.ConditionFalse)
	}
}

func (l *life) meet(p *corev1.Pod, f fate) {
	image := p.Spec.Containers[0].Image
	if hasAgent(p) && f != unschedulable {
		l.setAgent(p, corev1.ContainerStatus{
			Ready: true, Started: ptr.To(false), ImageID: p.Spec.InitContainers[0].Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: p.CreationTimestamp, FinishedAt: p.CreationTimestamp,
			}},
		})
	}
	switch f {
	case starts:
		l.setServer(p, corev1.ContainerStatus{
			Ready: !hasAgent(p), Started: ptr.To(true), ImageID: image,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(l.now)}},
		})
		if hasAgent(p) {
			// It says itself when it is Ready.
			l.setReady(p, "ContainersNotReady", corev1.ConditionFalse)
		} else {
			l.setReady(p, "", corev1.ConditionTrue)
		}
	case cannotPull:
		l.setReady(p, "ContainersNotReady", corev1.ConditionFalse)
		l.setServer(p, corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  "ImagePullBackOff",
			Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: failed to resolve reference %q: not found", image, image),
		}}})
	case crashes, otherVersion, losesWrites:
		message := ""
		if hasAgent(p) {
			message = l.failed(p, f)
		}
		l.setReady(p, "ContainersNotReady", corev1.ConditionFalse)
		l.setServer(p, corev1.ContainerStatus{
			ImageID: image, RestartCount: 3,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason:  "CrashLoopBackOff",
				Message: fmt.Sprintf("back-off 40s restarting failed container=%s pod=%s_%s(%s)", naming.Container, p.Name, p.Namespace, p.UID),
			}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", Message: message, StartedAt: metav1.NewTime(l.now.Add(-tick)), FinishedAt: metav1.NewTime(l.now),
			}},
		})
	case unschedulable:
		p.Spec.NodeName = ""
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "pod has unbound immediate PersistentVolumeClaims", LastTransitionTime: metav1.NewTime(l.now),
		}}}
	}
}

func (l *life) setReady(p *corev1.Pod, reason string, status corev1.ConditionStatus) {
	p.Status.Phase = corev1.PodPending
	if status == corev1.ConditionTrue || len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Started != nil {
		p.Status.Phase = corev1.PodRunning
	}
	initialized := corev1.ConditionTrue
	if len(p.Spec.InitContainers) > 0 && (len(p.Status.InitContainerStatuses) == 0 || !p.Status.InitContainerStatuses[0].Ready) {
		initialized = corev1.ConditionFalse
	}
	was := p.Status.Conditions
	p.Status.Conditions = nil
	for _, c := range []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: initialized},
		{Type: corev1.ContainersReady, Status: status, Reason: reason},
		{Type: corev1.PodReady, Status: status, Reason: reason},
	} {
		c.LastTransitionTime = metav1.NewTime(l.now)
		for _, w := range was {
			if w.Type == c.Type && w.Status == c.Status {
				c.LastTransitionTime = w.LastTransitionTime
			}
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
}

func (l *life) setAgent(p *corev1.Pod, c corev1.ContainerStatus) {
	c.Name, c.Image = naming.AgentContainer, p.Spec.InitContainers[0].Image
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{c}
}

func (l *life) setServer(p *corev1.Pod, c corev1.ContainerStatus) {
	c.Name, c.Image = naming.Container, p.Spec.Containers[0].Image
	p.Status.ContainerStatuses = []corev1.ContainerStatus{c}
}

// storedPod gives a pod what the API server keeps of it.
func (l *life) storedPod(p *corev1.Pod, isNew bool) {
	var old Object
	o := l.object(p)
	if !isNew {
		old = Object{"metadata": clone(o["metadata"])}
	}
	l.stored(o, old)
	p.ObjectMeta = typed[corev1.Pod](l, o).ObjectMeta
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// jobs do their work, once, as the function's program does.
func (l *life) jobs() {
	for _, key := range slices.Sorted(maps.Keys(l.composed)) {
		if text(l.composed[key], "kind") != "Job" || l.composed[key]["status"] != nil {
			continue
		}
		job := typed[batchv1.Job](l, l.composed[key])
		args := map[string][]string{}
		list := job.Spec.Template.Spec.Containers[0].Args
		for i := 1; i+1 < len(list); i += 2 {
			args[list[i]] = append(args[list[i]], list[i+1])
		}
		switch list[0] {
		case naming.ValueComponentUnstick:
			for i, p := range l.pods {
				if p.Name == args["--pod"][0] && string(p.UID) == args["--uid"][0] && p.Labels[appsv1.StatefulSetRevisionLabel] == args["--revision"][0] && !isReady(p) {
					l.deletePod(i)
				}
			}
		case naming.ValueComponentResize:
			if l.claimsRefused != "" {
				l.refuseGrowth(job, args["--claim"][0], args["--size"][0])
				continue
			}
			size := resource.MustParse(args["--size"][0])
			for _, c := range l.claims {
				if slices.Contains(args["--claim"], c.Name) && c.Spec.Resources.Requests.Storage().Cmp(size) < 0 {
					c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
					c.ResourceVersion = l.resourceVersion("PersistentVolumeClaim/" + c.Name)
				}
			}
		default:
			l.t.Fatalf("a Job runs %q", list)
		}
		l.setStatus(l.composed[key], l.object(batchv1.JobStatus{
			StartTime: ptr.To(metav1.NewTime(l.now)), CompletionTime: ptr.To(metav1.NewTime(l.now)), Succeeded: 1, Ready: ptr.To[int32](0),
			Conditions: []batchv1.JobCondition{{
				Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached,
				LastProbeTime: metav1.NewTime(l.now), LastTransitionTime: metav1.NewTime(l.now),
			}},
		}))
	}
}

// refuseGrowth has the pod of a Job that grows volumes fail.
func (l *life) refuseGrowth(job *batchv1.Job, claim, size string) {
	if job.Status.Active > 0 {
		return
	}
	ended := &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", StartedAt: metav1.NewTime(l.now), FinishedAt: metav1.NewTime(l.now),
		Message: fmt.Sprintf("directoryservice: error: cannot grow %s to %s: %s\n", claim, size, l.claimsRefused),
	}
	container := job.Spec.Template.Spec.Containers[0]
	o := l.object(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name + "-x2v8k", Namespace: job.Namespace, Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container.Name, Image: container.Image}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: container.Name, Image: container.Image, ImageID: container.Image, RestartCount: 1,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: ended},
		}}},
	})
	l.stored(o, nil)
	l.others = append(l.others, o)
	key := text(l.object(job), "metadata", "annotations", keyAnnotation)
	l.setStatus(l.composed[key], l.object(batchv1.JobStatus{StartTime: ptr.To(metav1.NewTime(l.now)), Active: 1, Ready: ptr.To[int32](0)}))
}

// setStatus of a composed object, as its controller does.
func (l *life) setStatus(o, status Object) {
	if reflect.DeepEqual(o["status"], status) {
		return
	}
	o["status"] = status
	o["metadata"].(Object)["resourceVersion"] = l.resourceVersion(text(o, "kind") + "/" + text(o, "metadata", "name"))
}

// defaults that the API server fills in.
func defaults(o Object) {
	spec, _ := o["spec"].(Object)
	switch o["kind"] {
	case "Service":
		ip := "10.96.3.4"
		if spec["clusterIP"] == "None" {
			ip = "None"
		}
		setDefaults(spec, Object{
			"clusterIP": ip, "clusterIPs": []any{ip}, "internalTrafficPolicy": "Cluster",
			"ipFamilies": []any{"IPv4"}, "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
		})
		o["status"] = Object{"loadBalancer": Object{}}
	case "StatefulSet":
		setDefaults(spec, Object{"revisionHistoryLimit": 10.0})
		podDefaults(get(spec, "template", "spec"))
		for _, c := range spec["volumeClaimTemplates"].([]any) {
			setDefaults(c.(Object)["spec"].(Object), Object{"volumeMode": "Filesystem"})
			c.(Object)["status"] = Object{"phase": "Pending"}
		}
	case "Job":
		setDefaults(spec, Object{"completionMode": "NonIndexed", "completions": 1.0, "parallelism": 1.0, "suspend": false, "podReplacementPolicy": "TerminatingOrFailed"})
		podDefaults(get(spec, "template", "spec"))
	}
}

func podDefaults(v any) {
	spec := v.(Object)
	setDefaults(spec, Object{
		"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": Object{},
		"terminationGracePeriodSeconds": 30.0,
	})
	if name, ok := spec["serviceAccountName"]; ok {
		setDefaults(spec, Object{"serviceAccount": name})
	}
	init, _ := spec["initContainers"].([]any)
	for _, c := range slices.Concat(init, spec["containers"].([]any)) {
		setDefaults(c.(Object), Object{
			"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
		})
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			if p, ok := c.(Object)[probe].(Object); ok {
				setDefaults(p, Object{"successThreshold": 1.0})
			}
		}
	}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		if cm, ok := v.(Object)["configMap"].(Object); ok {
			setDefaults(cm, Object{"defaultMode": 420.0})
		}
	}
}

func setDefaults(o, d Object) {
	for k, v := range d {
		if _, ok := o[k]; !ok {
			o[k] = v
		}
	}
}
