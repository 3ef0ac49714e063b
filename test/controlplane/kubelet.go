//go:build controlplane

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
)

const (
	// nodeName is the one node of the cluster.
	nodeName = "node-0"
	// terminateAfter is what a server takes to end. Its deletion is graceful, as it only is for a pod on a node.
	terminateAfter = 200 * time.Millisecond
	// changeAfter is what a container takes to become Ready, or to fail.
	changeAfter = 300 * time.Millisecond
)

// behaviour is what becomes of a server.
type behaviour string

const (
	healthy     behaviour = "healthy"
	cannotPull  behaviour = "cannot pull"
	crashes     behaviour = "crashes"
	neverReady  behaviour = "never Ready"
	configError behaviour = "config error"
	outOfMemory behaviour = "out of memory"
	// The agent refuses to start the server on this volume.
	refusesVersion  behaviour = "refuses another version"
	refusesRollback behaviour = "refuses to lose writes"
)

// refusals are what an agent says that refuses.
var refusals = map[behaviour]report.Refusal{
	refusesVersion: {Reason: report.RefusalVersionMismatch, Message: "the image contains 3.0.9"},
	refusesRollback: {
		Reason:  report.RefusalRollbackLosesWrites,
		Message: "3.1.0 opens the bdb of before the migration: what was written since then would be lost on this server. Or: kubectl annotate dirsrv example-ds dirsrv.operator.port389.org/backup-confirmed='3.1.1->3.1.0' --overwrite",
	},
}

// state of the server's container.
type state struct {
	ready    bool
	waiting  string // the reason; empty: it runs
	message  string
	exit     int32  // of the last run; 0: there was none
	exitWhy  string // its reason
	exitSaid string // its termination message
}

// step is a state that a container reaches after that time.
type step struct {
	after time.Duration
	state state
}

// course is what happens to a server, step by step. Reasons and messages are those of the real kubelet.
func (b behaviour) course(p *corev1.Pod, image string) []step {
	starting := step{}
	backOff := fmt.Sprintf("back-off 10s restarting failed container=%s pod=%s_%s(%s)", naming.Container, p.Name, p.Namespace, p.UID)
	switch b {
	case healthy:
		return []step{starting, {after: changeAfter, state: state{ready: true}}}
	case cannotPull:
		pull := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", image, image, image)
		return []step{
			{state: state{waiting: "ErrImagePull", message: "rpc error: code = NotFound desc = " + pull}},
			{after: changeAfter, state: state{waiting: "ImagePullBackOff", message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", image, pull)}},
		}
	case crashes:
		return []step{starting, {after: changeAfter, state: state{
			waiting: "CrashLoopBackOff", message: backOff,
			exit: 1, exitWhy: "Error", exitSaid: "ns-slapd could not open its database",
		}}}
	case outOfMemory:
		return []step{starting, {after: changeAfter, state: state{
			waiting: "CrashLoopBackOff", message: backOff,
			exit: 137, exitWhy: "OOMKilled",
		}}}
	case configError:
		return []step{{state: state{waiting: "CreateContainerConfigError", message: `secret "missing" not found`}}}
	case neverReady:
		return []step{starting}
	case refusesVersion, refusesRollback:
		said, err := json.Marshal(refusals[b])
		if err != nil {
			panic(err)
		}
		refused := state{exit: 1, exitWhy: "Error", exitSaid: string(said)}
		loop := refused
		loop.waiting, loop.message = "CrashLoopBackOff", backOff
		// A container that failed once is started again without delay.
		return []step{starting, {after: changeAfter, state: refused}, {after: changeAfter + 5*time.Second, state: loop}}
	}
	panic("no course for behaviour " + b)
}

// kubelet does to pods on the real API what a kubelet, a scheduler and a provisioner would, in those namespaces that
// asked for it. All else is left to the real controllers.
type kubelet struct {
	cp      *controlPlane
	program built // what our own pods run
	pods    corev1listers.PodLister
	queue   workqueue.TypedDelayingInterface[types.NamespacedName]
	log     *os.File

	mu     sync.Mutex
	served map[string]*servedNamespace
	tasks  map[types.UID]*task
}

// task is what the kubelet has done to a pod. Only the worker that has the pod touches it.
type task struct {
	behaviour behaviour
	since     time.Time
	step      int
	cancel    context.CancelFunc // of our own program
}

// startKubelet starts the kubelet for a control plane. It touches nothing until a namespace asks for it.
func startKubelet(t *testing.T, cp *controlPlane, program built) *kubelet {
	t.Helper()
	log, err := os.Create(filepath.Join(cp.logs, "kubelet.log"))
	must(t, err)
	factory := informers.NewSharedInformerFactory(cp.kube, 0)
	k := &kubelet{
		cp: cp, program: program, log: log,
		pods:   factory.Core().V1().Pods().Lister(),
		queue:  workqueue.NewTypedDelayingQueue[types.NamespacedName](),
		served: map[string]*servedNamespace{},
		tasks:  map[types.UID]*task{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		k.queue.ShutDown()
		workers.Wait()
		_ = log.Close()
	})

	must(t, k.register(ctx))
	workers.Go(func() { k.heartbeat(ctx) })
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.observe(ctx, obj, false) },
		UpdateFunc: func(_, obj any) { k.observe(ctx, obj, false) },
		DeleteFunc: func(obj any) { k.observe(ctx, obj, true) },
	})
	must(t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range 2 {
		workers.Go(func() { k.work(ctx, &workers) })
	}
	return k
}

// register makes the node.
func (k *kubelet) register(ctx context.Context) error {
	now := metav1.Now()
	_, err := k.cp.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("500")},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

// heartbeat renews the node's lease: kube-controller-manager would otherwise evict its pods.
func (k *kubelet) heartbeat(ctx context.Context) {
	leases := k.cp.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	spec := func() coordinationv1.LeaseSpec {
		return coordinationv1.LeaseSpec{HolderIdentity: ptr.To(nodeName), LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &metav1.MicroTime{Time: time.Now()}}
	}
	beat := func() error {
		l, err := leases.Get(ctx, nodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: spec()}, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		l.Spec = spec()
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		return err
	}
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		if err := beat(); err != nil && ctx.Err() == nil {
			fmt.Fprintf(k.log, "heartbeat: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// served makes a namespace for one test whose pods run. They must meet the strictest of Kubernetes' Pod Security levels.
func (cp *controlPlane) served(t *testing.T, name string) *servedNamespace {
	t.Helper()
	cp.namespace(t, name)
	cp.kubectl(t, "", "label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
	return cp.kubelet.serve(t, name)
}

// serve has the pods of a namespace run, and tells what became of them if the test fails.
func (k *kubelet) serve(t *testing.T, namespace string) *servedNamespace {
	t.Helper()
	s := &servedNamespace{
		kubelet: k, name: namespace,
		images: map[string]behaviour{}, broken: map[string]brokenPod{},
		byUID: map[types.UID]*podRecord{}, up: map[string]bool{},
		rules: map[string]agentRules{}, restarting: map[types.UID]bool{},
	}
	k.mu.Lock()
	k.served[namespace] = s
	k.mu.Unlock()
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range s.failures {
			t.Errorf("kubelet: %s", f)
		}
		if t.Failed() {
			t.Logf("what became of the pods in %s:\n%s", namespace, strings.Join(s.story, "\n"))
		}
	})
	return s
}

func (k *kubelet) in(namespace string) *servedNamespace {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.served[namespace]
}

func (k *kubelet) task(uid types.UID) *task {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tasks[uid] == nil {
		k.tasks[uid] = &task{step: -1}
	}
	return k.tasks[uid]
}

// observe records what happened to a pod, and has it seen to.
func (k *kubelet) observe(ctx context.Context, obj any, gone bool) {
	if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tomb.Obj
	}
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	s := k.in(p.Namespace)
	if s == nil {
		return
	}
	s.observe(ctx, p, gone)
	k.queue.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
}

func (k *kubelet) work(ctx context.Context, children *sync.WaitGroup) {
	for {
		key, quit := k.queue.Get()
		if quit {
			return
		}
		again := k.sync(ctx, key, children)
		k.queue.Done(key)
		if again > 0 {
			k.queue.AddAfter(key, again)
		}
	}
}

// sync does the next thing to a pod, and returns when to look again.
func (k *kubelet) sync(ctx context.Context, key types.NamespacedName, children *sync.WaitGroup) time.Duration {
	s := k.in(key.Namespace)
	p, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if s == nil || err != nil {
		return 0 // gone
	}
	p = p.DeepCopy() // the lister's own
	doing := k.task(p.UID)
	var again time.Duration
	switch component := p.Labels[naming.LabelComponent]; {
	case p.DeletionTimestamp != nil:
		again, err = k.terminate(ctx, p, doing, s.life(p).terminating)
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
	case p.Spec.NodeName == "":
		again, err = k.bind(ctx, p)
	case component == naming.ValueComponent:
		again, err = k.runServer(ctx, p, doing, s.behaviour(p))
	case component == naming.ValueComponentUnstick, component == naming.ValueComponentResize:
		again, err = k.runProgram(ctx, s, p, doing, children)
	default:
		s.fail("nobody said how to run pod %s", p.Name)
	}
	switch {
	case err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil:
		return again
	case apierrors.IsConflict(err):
		return 50 * time.Millisecond
	}
	s.fail("pod %s: %v", p.Name, err)
	return time.Second
}

// terminate ends a pod that somebody deleted.
func (k *kubelet) terminate(ctx context.Context, p *corev1.Pod, doing *task, since time.Time) (time.Duration, error) {
	if doing.cancel != nil {
		doing.cancel()
	}
	if left := terminateAfter - time.Since(since); left > 0 && p.Spec.NodeName != "" {
		return left, nil
	}
	return 0, k.cp.kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
}

// bind puts a pod on the node once its volumes are there.
func (k *kubelet) bind(ctx context.Context, p *corev1.Pod) (time.Duration, error) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c, err := k.cp.kube.CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err != nil {
			return changeAfter, err
		}
		if c.Status.Phase != corev1.ClaimBound {
			return 100 * time.Millisecond, k.cp.provision(ctx, c)
		}
	}
	return 0, k.cp.kube.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
}

// runServer brings a server to the step it has reached by now.
func (k *kubelet) runServer(ctx context.Context, p *corev1.Pod, doing *task, b behaviour) (time.Duration, error) {
	if doing.behaviour != b {
		doing.behaviour, doing.since, doing.step = b, time.Now(), -1
	}
	var again time.Duration
	reached, course := 0, b.course(p, serverContainer(p).Image)
	for i, step := range course {
		left := step.after - time.Since(doing.since)
		if left > 0 {
			again = left
			break
		}
		reached = i
	}
	if reached == doing.step {
		return again, nil
	}
	setStatus(p, course[reached].state)
	if _, err := k.cp.kube.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		return again, err
	}
	doing.step = reached
	return again, nil
}

// setStatus writes what a kubelet reports of a pod whose server is in that state. All of its other containers run.
func setStatus(p *corev1.Pod, s state) {
	now := metav1.Now()
	if p.Status.StartTime == nil {
		p.Status.StartTime = &now
	}
	// A pod is Pending until each of its containers was started once.
	p.Status.Phase = corev1.PodRunning
	if s.waiting != "" && s.exit == 0 {
		p.Status.Phase = corev1.PodPending
	}
	setPodCondition(p, corev1.PodInitialized, true, "", "")
	reason, message := "ContainersNotReady", "containers with unready status: ["+naming.Container+"]"
	setPodCondition(p, corev1.ContainersReady, s.ready, reason, message)
	setPodCondition(p, corev1.PodReady, s.ready, reason, message)

	p.Status.InitContainerStatuses = nil
	for _, c := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: ptr.To(false),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: *p.Status.StartTime, FinishedAt: *p.Status.StartTime}},
		})
	}
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		cs := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}
		if c.Name == naming.Container {
			cs.Ready, cs.Started = s.ready, ptr.To(s.waiting == "")
			if s.waiting != "" {
				cs.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: s.waiting, Message: s.message}}
			}
			if s.exit != 0 {
				cs.RestartCount = 1
				cs.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
					ExitCode: s.exit, Reason: s.exitWhy, Message: s.exitSaid, StartedAt: *p.Status.StartTime, FinishedAt: now,
				}
			}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, cs)
	}
}

func setPodCondition(p *corev1.Pod, kind corev1.PodConditionType, ok bool, reason, message string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !ok {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
	}
	for i, old := range p.Status.Conditions {
		if old.Type != kind {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		p.Status.Conditions[i] = c
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}

// runProgram runs our own program as the pod of a Job would, with the rights of its service account.
func (k *kubelet) runProgram(ctx context.Context, s *servedNamespace, p *corev1.Pod, doing *task, children *sync.WaitGroup) (time.Duration, error) {
	if doing.cancel != nil {
		return 0, nil
	}
	c := p.Spec.Containers[0]
	if c.Image != k.program.image || len(p.Spec.Containers) != 1 {
		s.fail("pod %s has image %s; want our own package's, %s, and no other", p.Name, c.Image, k.program.image)
	}
	env, err := k.environment(ctx, p)
	if err != nil {
		// Until its ServiceAccount is there, a kubelet cannot mount a token either.
		s.tell("%s: %v", p.Name, err)
		return changeAfter, nil
	}
	args := slices.Clone(c.Args)
	if len(c.Command) > 0 {
		args = append(slices.Clone(c.Command[1:]), args...) // in place of the entrypoint
	}
	if err := k.report(ctx, p, func(cs *corev1.ContainerStatus) {
		cs.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
	}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	doing.cancel = cancel
	children.Go(func() {
		defer cancel()
		for tries := 1; ; tries++ {
			begun := metav1.Now()
			exit, output := k.execute(ctx, env, args)
			s.executed(p, exit, output)
			if exit != 0 && p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && ctx.Err() == nil {
				err := k.report(ctx, p, func(cs *corev1.ContainerStatus) {
					cs.RestartCount = int32(tries)
					cs.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off restarting failed container"}
					cs.LastTerminationState.Terminated = terminated(exit, begun, output)
				})
				if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					s.fail("pod %s: %v", p.Name, err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(min(tries, 5)) * time.Second):
				}
				continue
			}
			err := k.report(ctx, p, func(cs *corev1.ContainerStatus) {
				cs.RestartCount = int32(tries - 1)
				cs.State.Terminated = terminated(exit, begun, output)
			})
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				s.fail("pod %s: %v", p.Name, err)
			}
			return
		}
	})
	return 0, nil
}

// terminated is what a kubelet says of a program that ended.
func terminated(exit int, begun metav1.Time, output string) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{ExitCode: int32(exit), StartedAt: begun, FinishedAt: metav1.Now(), Reason: "Completed"}
	if exit != 0 {
		// The end of the log, and of a long one no more (terminationMessagePolicy FallbackToLogsOnError).
		t.Reason, t.Message = "Error", output[max(0, len(output)-2048):]
	}
	return t
}

// report writes the state of a pod's only container.
func (k *kubelet) report(ctx context.Context, p *corev1.Pod, set func(*corev1.ContainerStatus)) error {
	pods := k.cp.kube.CoreV1().Pods(p.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		p, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		cs := corev1.ContainerStatus{Name: p.Spec.Containers[0].Name, Image: p.Spec.Containers[0].Image}
		set(&cs)
		running := cs.State.Running != nil
		cs.Ready, cs.Started = running, ptr.To(running)
		switch {
		case cs.State.Terminated == nil:
			p.Status.Phase = corev1.PodRunning
		case cs.State.Terminated.ExitCode == 0:
			p.Status.Phase = corev1.PodSucceeded
		default:
			p.Status.Phase = corev1.PodFailed
		}
		if p.Status.StartTime == nil {
			p.Status.StartTime = ptr.To(metav1.Now())
		}
		setPodCondition(p, corev1.PodReady, running, "PodCompleted", "")
		p.Status.ContainerStatuses = []corev1.ContainerStatus{cs}
		_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
}

// environment is what a container finds: its own variables, and a kubeconfig where a pod would have a token mounted.
func (k *kubelet) environment(ctx context.Context, p *corev1.Pod) ([]string, error) {
	env := []string{"HOME=" + k.cp.dir}
	for _, e := range p.Spec.Containers[0].Env {
		if e.ValueFrom != nil {
			return nil, fmt.Errorf("variable %s: only plain values are known here", e.Name)
		}
		env = append(env, e.Name+"="+e.Value)
	}
	if !mountsToken(p) {
		return env, nil
	}
	token, err := k.cp.token(ctx, p)
	if err != nil {
		return nil, err
	}
	path := k.identity(p)
	return append(env, "KUBECONFIG="+path), writeKubeconfig(path, k.cp.server, k.cp.ca, clientcmdapi.AuthInfo{Token: token})
}

// mountsToken says that a pod's containers find a token of its service account.
func mountsToken(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// token is what they find: it is bound to the pod.
func (cp *controlPlane) token(ctx context.Context, p *corev1.Pod) (string, error) {
	tr, err := cp.kube.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName, &authnv1.TokenRequest{
		Spec: authnv1.TokenRequestSpec{BoundObjectRef: &authnv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return tr.Status.Token, nil
}

// identity is the kubeconfig with a pod's token.
func (k *kubelet) identity(p *corev1.Pod) string {
	return filepath.Join(k.cp.dir, "pod-"+string(p.UID)+".kubeconfig")
}

// execute runs our program to its end.
func (k *kubelet) execute(ctx context.Context, env, args []string) (exit int, output string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.program.binary, args...)
	cmd.Dir, cmd.Env = k.cp.dir, env
	out, err := cmd.CombinedOutput()
	output = strings.TrimSpace(string(out))
	if ee := (&exec.ExitError{}); errors.As(err, &ee) {
		return ee.ExitCode(), output
	}
	if err != nil {
		return 128, err.Error()
	}
	return 0, output
}

// servedNamespace are the pods of one namespace: how they behave, and what became of them.
type servedNamespace struct {
	kubelet *kubelet
	name    string

	mu         sync.Mutex
	images     map[string]behaviour
	memory     *resource.Quantity // what a server needs
	broken     map[string]brokenPod
	rules      map[string]agentRules // of the agents, by image
	restarting map[types.UID]bool    // the server, within its pod
	restarted  []string              // the pods of such servers
	records    []*podRecord          // of servers, as they were made
	byUID      map[types.UID]*podRecord
	up         map[string]bool // of servers that have been Ready
	worst      []string        // the most that were down at once
	programs   []programRecord
	failures   []string
	story      []string
}

// brokenPod is a pod that does not behave as its image does.
type brokenPod struct {
	image     string // with this image only; empty: with any
	behaviour behaviour
}

// podRecord is the life of one pod.
type podRecord struct {
	name, image                       string
	uid                               types.UID
	created, ready, terminating, gone time.Time // zero: never
}

// programRecord is a run of our own program.
type programRecord struct {
	pod    string
	exit   int
	output string
}

// image sets how servers of an image behave: healthy unless said otherwise.
func (s *servedNamespace) image(image string, b behaviour) {
	s.set(func() { s.images[image] = b })
}

// needs has servers die whose memory limit is smaller.
func (s *servedNamespace) needs(memory string) {
	s.set(func() { s.memory = ptr.To(resource.MustParse(memory)) })
}

// breakPod has one pod behave otherwise: with that image, or with any.
func (s *servedNamespace) breakPod(name, image string, b behaviour) {
	s.set(func() { s.broken[name] = brokenPod{image: image, behaviour: b} })
}

// healPod takes breakPod back.
func (s *servedNamespace) healPod(name string) {
	s.set(func() { delete(s.broken, name) })
}

// set changes a rule, and has it act on the pods there are.
func (s *servedNamespace) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	for _, r := range s.records {
		s.kubelet.queue.Add(types.NamespacedName{Namespace: s.name, Name: r.name})
	}
}

func (s *servedNamespace) behaviour(p *corev1.Pod) behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := serverContainer(p)
	if s.restarting[p.UID] {
		return neverReady
	}
	if b, ok := s.broken[p.Name]; ok && (b.image == "" || b.image == server.Image) {
		return b.behaviour
	}
	if limit, ok := server.Resources.Limits[corev1.ResourceMemory]; ok && s.memory != nil && limit.Cmp(*s.memory) < 0 {
		return outOfMemory
	}
	if b, ok := s.images[server.Image]; ok {
		return b
	}
	return healthy
}

func serverContainer(p *corev1.Pod) corev1.Container {
	for _, c := range p.Spec.Containers {
		if c.Name == naming.Container {
			return c
		}
	}
	return p.Spec.Containers[0]
}

// life returns what became of a pod so far.
func (s *servedNamespace) life(p *corev1.Pod) podRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.recordLocked(p)
}

// recordLocked returns the record of a pod, new or known.
func (s *servedNamespace) recordLocked(p *corev1.Pod) *podRecord {
	r, ok := s.byUID[p.UID]
	if !ok {
		r = &podRecord{name: p.Name, uid: p.UID, image: serverContainer(p).Image, created: time.Now()}
		s.byUID[p.UID] = r
		if p.Labels[naming.LabelComponent] == naming.ValueComponent {
			s.records = append(s.records, r)
		}
		s.tellLocked("%s made with %s", p.Name, r.image)
	}
	return r
}

// observe follows a pod through its life. The informer calls it in the order of the events.
func (s *servedNamespace) observe(ctx context.Context, p *corev1.Pod, gone bool) {
	now, ready := time.Now(), podReady(p)
	ended := (gone || p.DeletionTimestamp != nil) && s.life(p).terminating.IsZero()
	// A pod that was scaled away is not missed. The replicas were written before the pod was deleted.
	retired := ended && s.kubelet.retired(ctx, p)

	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recordLocked(p)
	if ready && r.ready.IsZero() {
		r.ready = now
		s.tellLocked("%s Ready (%s)", p.Name, r.image)
	}
	if ended {
		r.terminating = now
		s.tellLocked("%s deleted (%s)", p.Name, r.image)
	}
	if gone {
		r.gone = now
		s.tellLocked("%s gone", p.Name)
	}
	if p.Labels[naming.LabelComponent] != naming.ValueComponent {
		return
	}
	_, known := s.up[p.Name]
	switch up := ready && !gone && p.DeletionTimestamp == nil; {
	case retired:
		delete(s.up, p.Name)
	case known || up:
		s.up[p.Name] = up
	}
	var down []string
	for _, name := range slices.Sorted(maps.Keys(s.up)) {
		if !s.up[name] {
			down = append(down, name)
		}
	}
	if len(down) > len(s.worst) {
		s.worst = down
		s.tellLocked("down: %s", strings.Join(down, ", "))
	}
}

// retired says that a pod's StatefulSet does not want it any more.
func (k *kubelet) retired(ctx context.Context, p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	if owner == nil || owner.Kind != "StatefulSet" {
		return false
	}
	set, err := k.cp.kube.AppsV1().StatefulSets(p.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	ordinal, err := strconv.Atoi(p.Labels["apps.kubernetes.io/pod-index"])
	return err == nil && int32(ordinal) >= ptr.Deref(set.Spec.Replicas, 1)
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// maxDown names the servers that were down at once when they were most: missing, being deleted or not Ready after they
// have been Ready once, and not scaled away.
func (s *servedNamespace) maxDown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.worst)
}

// servers returns the lives of all servers, in the order in which they were made.
func (s *servedNamespace) servers() []podRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]podRecord, 0, len(s.records))
	for _, r := range s.records {
		out = append(out, *r)
	}
	return out
}

// deleted returns the servers that somebody deleted, in that order.
func (s *servedNamespace) deleted() []podRecord {
	out := slices.DeleteFunc(s.servers(), func(r podRecord) bool { return r.terminating.IsZero() })
	slices.SortStableFunc(out, func(a, b podRecord) int { return a.terminating.Compare(b.terminating) })
	return out
}

// ran returns the runs of our own program.
func (s *servedNamespace) ran() []programRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.programs)
}

func (s *servedNamespace) executed(p *corev1.Pod, exit int, output string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs = append(s.programs, programRecord{pod: p.Name, exit: exit, output: output})
	s.tellLocked("%s exited %d: %s", p.Name, exit, output)
}

// fail has the test fail: what happened cannot be right, whatever the test looks at.
func (s *servedNamespace) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := fmt.Sprintf(format, args...)
	if !slices.Contains(s.failures, f) {
		s.failures = append(s.failures, f)
	}
	s.tellLocked("%s", f)
}

func (s *servedNamespace) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked(format, args...)
}

func (s *servedNamespace) tellLocked(format string, args ...any) {
	line := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	s.story = append(s.story, line)
	fmt.Fprintf(s.kubelet.log, "%s: %s\n", s.name, line)
}
