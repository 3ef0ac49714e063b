//go:build controlplane

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/389ds/function-directoryservice/fn/config"
)

var directoryServices = schema.GroupVersionResource{Group: "dirsrv.operator.port389.org", Version: "v1alpha1", Resource: "directoryservices"}

// soon is how long anything that only machines wait for may take. A loaded machine with two cores is slow.
const soon = time.Minute

// xr is the composite resource's kind.
func (cp *controlPlane) xr() schema.GroupVersionResource {
	if cp.claim {
		return directoryServices.GroupVersion().WithResource("xdirectoryservices")
	}
	return directoryServices
}

// directory is a DirectoryService as its user sees it.
type directory struct {
	cp              *controlPlane
	namespace, name string
}

// namespace makes a namespace for one test.
func (cp *controlPlane) namespace(t *testing.T, name string) string {
	t.Helper()
	_, err := cp.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	cp.recorder.watch(name)
	return name
}

// applyForGood applies one DirectoryService with kubectl, as a user does.
func (cp *controlPlane) applyForGood(t *testing.T, namespace, manifest string) directory {
	t.Helper()
	u := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(manifest), u))
	cp.kubectl(t, manifest, "apply", "-n", namespace, "-f", "-")
	return directory{cp: cp, namespace: namespace, name: u.GetName()}
}

// apply applies a DirectoryService and removes it after the test so that it takes no part in what the next one measures.
func (cp *controlPlane) apply(t *testing.T, namespace, manifest string) directory {
	t.Helper()
	d := cp.applyForGood(t, namespace, manifest)
	t.Cleanup(func() {
		cp.recorder.allowService(namespace)
		_, _ = cp.tryKubectl(t, "", "delete", "dirsrv", d.name, "-n", namespace, "--ignore-not-found", "--wait=false")
	})
	return d
}

// example returns the smaller of the two documented objects, with more in its spec.
func example(t *testing.T, spec string) string {
	t.Helper()
	return string(mustRead(t, inRoot(t, "test", "controlplane", "testdata", "example-ds.yaml"))) + indent(spec)
}

func indent(spec string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(spec, "\n")) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// get returns what the user applied: the XR, or the claim.
func (d directory) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u, err := d.cp.dynamic.Resource(directoryServices).Namespace(d.namespace).Get(t.Context(), d.name, metav1.GetOptions{})
	must(t, err)
	return u
}

// composite returns the XR: in the claim flavour that which the claim is bound to.
func (d directory) composite(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := d.get(t)
	if !d.cp.claim {
		return u
	}
	name, _, _ := unstructured.NestedString(u.Object, "spec", "resourceRef", "name")
	xr, err := d.cp.dynamic.Resource(d.cp.xr()).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return xr
}

// patch changes the user's object.
func (d directory) patch(t *testing.T, merge string) {
	t.Helper()
	d.cp.kubectl(t, "", "patch", "dirsrv", d.name, "-n", d.namespace, "--type=merge", "-p", merge)
}

func condition(u *unstructured.Unstructured, kind string) metav1.Condition {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range all {
		m, ok := c.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		var out metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &out); err == nil {
			return out
		}
	}
	return metav1.Condition{Type: kind}
}

func status(u *unstructured.Unstructured, field string) string {
	s, _, _ := unstructured.NestedString(u.Object, "status", field)
	return s
}

// waitCondition waits until a condition of the user's object has that status and names all of these.
func (d directory) waitCondition(t *testing.T, kind string, want metav1.ConditionStatus, names ...string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	d.cp.eventually(t, soon, fmt.Sprintf("%s/%s %s=%s", d.namespace, d.name, kind, want), func() string {
		u := d.get(t)
		c = condition(u, kind)
		complaint := fmt.Sprintf("%+v, status: %s", c, compact(u.Object["status"]))
		if c.Status != want {
			return complaint
		}
		for _, n := range names {
			if !strings.Contains(c.Message, n) {
				return fmt.Sprintf("no %q in %s", n, complaint)
			}
		}
		return ""
	})
	return c
}

// waitRunning plays the kubelet until the service is Ready.
func (d directory) waitRunning(t *testing.T) {
	t.Helper()
	d.cp.eventually(t, soon, fmt.Sprintf("%s/%s Running", d.namespace, d.name), func() string {
		d.markPodsReady(t)
		u := d.get(t)
		if c := condition(u, "Ready"); c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%+v, status: %s", c, compact(u.Object["status"]))
		}
		if phase := status(u, "phase"); phase != "Running" {
			return "phase " + phase
		}
		return ""
	})
}

// running applies a service and waits until it runs.
func (cp *controlPlane) running(t *testing.T, namespace, manifest string) directory {
	t.Helper()
	d := cp.apply(t, namespace, manifest)
	d.waitStatefulSet(t, "exists", func(*appsv1.StatefulSet) bool { return true })
	d.waitRunning(t)
	d.waitFounded(t)
	return d
}

// waitFounded waits until the servers are told that all suffixes were founded: the last that follows from a first start.
func (d directory) waitFounded(t *testing.T) {
	t.Helper()
	d.cp.eventually(t, soon, d.namespace+": all suffixes founded", func() string {
		doc := d.config(t)
		c, err := config.Parse(doc)
		must(t, err)
		for _, s := range c.Suffixes {
			if !s.Founded {
				return doc
			}
		}
		return ""
	})
}

// settle waits until nothing happens to the service any more.
func (d directory) settle(t *testing.T) {
	t.Helper()
	const quiet = 2 * time.Second
	d.cp.eventually(t, soon, fmt.Sprintf("nothing happens in %s for %s", d.namespace, quiet), func() string {
		if since := time.Since(d.cp.recorder.last(d.namespace)); since < quiet {
			return fmt.Sprintf("last change %s ago", since)
		}
		return ""
	})
}

// settle waits until the function is not called any more, by any service.
func (cp *controlPlane) settle(t *testing.T, quiet time.Duration) {
	t.Helper()
	last, since := cp.runs(t), time.Now()
	cp.eventually(t, 2*time.Minute, fmt.Sprintf("no function run for %s", quiet), func() string {
		if n := cp.runs(t); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Sprintf("run %d was %s ago", last, time.Since(since))
		}
		return ""
	})
}

func (d directory) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	set := d.statefulSet(t)
	if set == nil {
		return nil
	}
	l, err := d.cp.kube.CoreV1().Pods(d.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labels.SelectorFromSet(set.Spec.Selector.MatchLabels).String()})
	must(t, err)
	return l.Items
}

// markPodsReady does what a kubelet and a provisioner would: every claim has a volume, and every pod runs and is Ready.
func (d directory) markPodsReady(t *testing.T) {
	t.Helper()
	for _, c := range d.claims(t) {
		must(t, d.cp.provision(t.Context(), &c))
	}
	for _, p := range d.pods(t) {
		if p.Status.Phase == corev1.PodRunning {
			continue
		}
		now := metav1.Now()
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
		p.Status.Conditions, p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil, nil
		for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		started := true
		for _, c := range p.Spec.InitContainers {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, Ready: true,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}},
			})
		}
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, Ready: true, Started: &started,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			})
		}
		if _, err := d.cp.kube.CoreV1().Pods(d.namespace).UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// provision makes a volume for a claim that has none; Kubernetes' own controller binds the two.
func (cp *controlPlane) provision(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	if c.Status.Phase == corev1.ClaimBound {
		return nil
	}
	_, err := cp.kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(c.UID)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            c.Spec.AccessModes,
			Capacity:               c.Spec.Resources.Requests,
			StorageClassName:       ptr.Deref(c.Spec.StorageClassName, ""),
			ClaimRef:               &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent"}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// statefulSet returns nil while there is none.
func (d directory) statefulSet(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	s, err := d.cp.kube.AppsV1().StatefulSets(d.namespace).Get(t.Context(), d.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return s
}

func (d directory) waitStatefulSet(t *testing.T, what string, ok func(*appsv1.StatefulSet) bool) *appsv1.StatefulSet {
	t.Helper()
	var s *appsv1.StatefulSet
	d.cp.eventually(t, soon, fmt.Sprintf("StatefulSet %s/%s: %s", d.namespace, d.name, what), func() string {
		if s = d.statefulSet(t); s == nil {
			return fmt.Sprintf("none; status: %s", compact(d.get(t).Object["status"]))
		}
		if !ok(s) {
			return compact(s.Spec)
		}
		return ""
	})
	return s
}

func (d directory) claims(t *testing.T) []corev1.PersistentVolumeClaim {
	t.Helper()
	l, err := d.cp.kube.CoreV1().PersistentVolumeClaims(d.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return l.Items
}

func (cp *controlPlane) secret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	s, err := cp.kube.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return s
}

// delete deletes the service and waits until all that it owned is gone.
func (d directory) delete(t *testing.T) {
	t.Helper()
	d.cp.recorder.allowService(d.namespace)
	d.cp.kubectl(t, "", "delete", "dirsrv", d.name, "-n", d.namespace, "--timeout=60s")
	d.waitGone(t)
}

// waitGone waits until garbage collection has taken every child.
func (d directory) waitGone(t *testing.T) {
	t.Helper()
	d.cp.eventually(t, 2*soon, fmt.Sprintf("the children of %s/%s gone", d.namespace, d.name), func() string {
		var left []string
		for _, gvr := range watched {
			if gvr.Resource == "persistentvolumeclaims" {
				continue
			}
			l, err := d.cp.dynamic.Resource(gvr).Namespace(d.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/composite"})
			must(t, err)
			for _, o := range l.Items {
				left = append(left, gvr.Resource+"/"+o.GetName())
			}
		}
		pods, err := d.cp.kube.CoreV1().Pods(d.namespace).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, p := range pods.Items {
			left = append(left, "pods/"+p.Name)
		}
		return strings.Join(left, ", ")
	})
}

func fromUnstructured(u *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
