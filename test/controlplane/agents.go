//go:build controlplane

package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
)

const (
	// reportAgain is how often an unchanged report is sent. An agent waits for a minute; here the quiet at the end
	// shall see it several times.
	reportAgain = 20 * time.Second
	// reportRetry is the pause after a report that was refused.
	reportRetry = 2 * time.Second
	// restartTakes is what a server's restart within its pod takes.
	restartTakes = 700 * time.Millisecond
)

// agents plays the agent in every pod that has one: over the pod's own token, so that its Role must do. There is no
// server behind it, and what is on a volume is remembered here.
type agents struct {
	cp         *controlPlane
	log        *os.File
	pods       corev1listers.PodLister
	configMaps corev1listers.ConfigMapLister
	secrets    corev1listers.SecretLister
	queue      workqueue.TypedDelayingInterface[types.NamespacedName]

	mu      sync.Mutex
	playing map[types.UID]*agent
	volumes map[types.UID]map[string]bool // which suffixes were founded on the volume of a claim
}

// agent is one that is played. Only the worker that has its pod touches it.
type agent struct {
	client kubernetes.Interface
	report report.Report
	claim  types.UID // of its volume
	// installed is the certificate that the server was started with.
	installed string
	// restarting says until when the server restarts; wentDown, that the kubelet has noticed.
	restarting time.Time
	wentDown   bool

	sent   string
	sentAt time.Time
	failed string // what was said of the last attempt to send
}

// playAgents plays the agents of all pods.
func playAgents(t *testing.T, cp *controlPlane) *agents {
	t.Helper()
	log, err := os.Create(filepath.Join(cp.logs, "agents.log"))
	must(t, err)
	factory := informers.NewSharedInformerFactory(cp.kube, 0)
	core := factory.Core().V1()
	a := &agents{
		cp: cp, log: log,
		pods: core.Pods().Lister(), configMaps: core.ConfigMaps().Lister(), secrets: core.Secrets().Lister(),
		queue:   workqueue.NewTypedDelayingQueue[types.NamespacedName](),
		playing: map[types.UID]*agent{},
		volumes: map[types.UID]map[string]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		a.queue.ShutDown()
		workers.Wait()
		_ = log.Close()
	})
	seen := func(_, obj any) { a.enqueue(obj) }
	for _, informer := range []cache.SharedIndexInformer{core.Pods().Informer(), core.ConfigMaps().Informer(), core.Secrets().Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: a.enqueue, UpdateFunc: seen,
			DeleteFunc: func(obj any) {
				if p, ok := obj.(*corev1.Pod); ok {
					a.mu.Lock()
					defer a.mu.Unlock()
					delete(a.playing, p.UID)
				}
			},
		})
		must(t, err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range 4 {
		workers.Go(func() { a.work(ctx) })
	}
	return a
}

// enqueue the pods that an object concerns: what they have mounted may have changed.
func (a *agents) enqueue(obj any) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	if p, ok := obj.(*corev1.Pod); ok {
		if hasAgent(p) {
			a.queue.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
		return
	}
	pods, err := a.pods.Pods(o.GetNamespace()).List(labels.Everything())
	if err != nil {
		return
	}
	for _, p := range pods {
		if hasAgent(p) && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == o.GetName() || v.Secret != nil && v.Secret.SecretName == o.GetName()
		}) {
			a.queue.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
}

func hasAgent(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == naming.AgentContainer })
}

func (a *agents) work(ctx context.Context) {
	for {
		key, quit := a.queue.Get()
		if quit {
			return
		}
		again := a.sync(ctx, key)
		a.queue.Done(key)
		if again > 0 {
			a.queue.AddAfter(key, again)
		}
	}
}

func (a *agents) agent(uid types.UID) *agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.playing[uid] == nil {
		a.playing[uid] = &agent{report: report.Report{PodUID: string(uid)}}
	}
	return a.playing[uid]
}

// sync does what the agent in a pod would do now, and returns when to look again.
func (a *agents) sync(ctx context.Context, key types.NamespacedName) time.Duration {
	p, err := a.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !hasAgent(p) {
		return 0
	}
	ag, s, rules := a.agent(p.UID), a.cp.kubelet.in(p.Namespace), agentRules{}
	if s != nil {
		rules = s.agentRules(p)
	}
	switch status := serverStatus(p); {
	case p.DeletionTimestamp != nil && ag.report.BootID == "":
		return 0
	case p.DeletionTimestamp != nil:
		ag.report.Ready, ag.report.Message = false, "the server was stopped"
	case rules.silent || status == nil:
		return 0
	case rules.refusal != nil && (status.State.Terminated != nil || status.LastTerminationState.Terminated != nil):
		// The last word of an agent that ends.
		ag.report = report.Report{PodUID: string(p.UID), Message: rules.refusal.Message, Refusal: rules.refusal}
	case status.State.Running == nil:
		return 0
	case rules.refusal != nil:
		ag.report = report.Report{PodUID: string(p.UID), Message: "preparing the volume"}
	default:
		if again := a.look(p, ag, s, rules); again > 0 {
			if ag.report.BootID != "" {
				a.send(ctx, p, ag, s)
			}
			return again
		}
	}
	return a.send(ctx, p, ag, s)
}

func serverStatus(p *corev1.Pod) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; c.Name == naming.Container {
			return c
		}
	}
	return nil
}

// look once after a server that runs: what is mounted is applied. A positive result says when to look again.
func (a *agents) look(p *corev1.Pod, ag *agent, s *servedNamespace, rules agentRules) time.Duration {
	mounted := a.mountedTLS(p, ag)
	boot := func(message string) {
		ag.report.BootID, ag.report.Ready, ag.report.Message = string(uuid.NewUUID()), false, message
		ag.report.Applied.TLS, ag.report.Restart, ag.installed = "", "", mounted
	}
	if ag.report.BootID == "" {
		if mounted == "" {
			// No kubelet starts a pod whose Secret is missing; only the cache here may lack it yet.
			return 100 * time.Millisecond
		}
		boot("the server is starting")
	}
	if !ag.restarting.IsZero() {
		ag.wentDown = ag.wentDown || s == nil || !podReady(p)
		if left := time.Until(ag.restarting); left > 0 || !ag.wentDown {
			return max(left, 50*time.Millisecond)
		}
		ag.restarting = time.Time{}
		if s != nil {
			s.restarts(p, false)
		}
	}
	if !podReady(p) {
		if ag.report.Ready {
			ag.report.Ready, ag.report.Message = false, "the server does not answer"
		}
		return 0
	}

	ordinal := ordinalOf(p)
	doc, c := a.mountedConfig(p)
	ag.report.Ready, ag.report.Message = true, ""
	ag.report.Version = cmp.Or(rules.version, versionOf(p))
	ag.report.Config = config.Hash(doc)
	ag.report.DMPassword = report.Part{State: report.StateApplied}
	ag.report.Suffixes = a.suffixes(p, ag, c, rules)
	ag.report.TLS, ag.report.Restart = report.Part{State: report.StateApplied}, ""
	if mounted == ag.installed {
		ag.report.Applied.TLS = mounted
	} else {
		ag.report.TLS = report.Part{State: report.StatePending, Message: "a new certificate is served after a restart, which waits for its turn"}
		ag.report.Restart = mounted
		if r := c.Restart; r != nil && r.Ordinal == ordinal && r.Hash == mounted && ag.report.Applied.Restart != mounted {
			boot("the server is starting")
			ag.report.Applied.Restart = mounted
			ag.restarting, ag.wentDown = time.Now().Add(restartTakes), false
			if s != nil {
				s.restarts(p, true)
			}
			return restartTakes
		}
	}
	return 0
}

// suffixes as fn/agent/directory reports them: the first server founds what was never founded, no other one does, and
// nothing replicates.
func (a *agents) suffixes(p *corev1.Pod, ag *agent, c config.Config, rules agentRules) map[string]report.Suffix {
	if ag.claim == "" {
		ag.claim = a.claim(p)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	volume := a.volumes[ag.claim]
	if volume == nil {
		volume = map[string]bool{}
		a.volumes[ag.claim] = volume
	}
	out := map[string]report.Suffix{}
	for _, s := range c.Suffixes {
		failed := rules.failed[s.Name]
		if failed == "" && ordinalOf(p) == 0 && !s.Founded && !s.Orphaned && !volume[s.Name] {
			volume[s.Name] = true
			fmt.Fprintf(a.log, "%s %s/%s founded %s\n", time.Now().Format("15:04:05.000"), p.Namespace, p.Name, s.Name)
		}
		switch {
		case failed != "":
			out[s.Name] = report.Suffix{State: report.SuffixFailed, Message: failed}
		case volume[s.Name]:
			out[s.Name] = report.Suffix{State: report.SuffixReady, Founded: true, Initialized: true}
		case s.Orphaned:
		default:
			out[s.Name] = report.Suffix{State: report.SuffixWaiting, Message: "it has no data"}
		}
	}
	return out
}

// lose what the volume of a pod holds of a suffix.
func (a *agents) lose(t *testing.T, p *corev1.Pod, suffix string) {
	t.Helper()
	claim := a.claim(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.volumes[claim]
	if !v[suffix] {
		t.Fatalf("%s does not hold %s", p.Name, suffix)
	}
	delete(v, suffix)
}

// founded counts how often a suffix was founded in a namespace.
func (a *agents) founded(t *testing.T, namespace, suffix string) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(string(mustRead(t, a.log.Name()))) {
		if strings.Contains(line, " "+namespace+"/") && strings.HasSuffix(strings.TrimSpace(line), " founded "+suffix) {
			n++
		}
	}
	return n
}

// claim is the UID of a pod's volume claim.
func (a *agents) claim(p *corev1.Pod) types.UID {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c, err := a.cp.kube.CoreV1().PersistentVolumeClaims(p.Namespace).Get(context.Background(), v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err == nil {
			return c.UID
		}
	}
	return ""
}

// mountedTLS is the hash of the certificate in the Secret that the pod mounts; empty without. A Secret that is gone stays
// mounted as it was.
func (a *agents) mountedTLS(p *corev1.Pod, ag *agent) string {
	for _, v := range p.Spec.Volumes {
		if v.Name != compose.VolumeTLS || v.Secret == nil {
			continue
		}
		s, err := a.secrets.Secrets(p.Namespace).Get(v.Secret.SecretName)
		if err == nil && len(s.Data[corev1.TLSCertKey]) > 0 {
			return config.TLSHash(s.Data[corev1.TLSCertKey], s.Data[compose.KeyOfCA])
		}
	}
	return ag.installed
}

func (a *agents) mountedConfig(p *corev1.Pod) (string, config.Config) {
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		if m, err := a.configMaps.ConfigMaps(p.Namespace).Get(v.ConfigMap.Name); err == nil {
			if c, err := config.Parse(m.Data[config.Key]); err == nil {
				return m.Data[config.Key], c
			}
		}
	}
	return "", config.Config{}
}

func ordinalOf(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Name[strings.LastIndexByte(p.Name, '-')+1:], 10, 32)
	if err != nil {
		return -1
	}
	return int32(n)
}

// versionOf the server in the pod's image, as far as the tag tells: what it is for may be something else.
func versionOf(p *corev1.Pod) string {
	image := serverContainer(p).Image
	return image[strings.LastIndexByte(image, ':')+1:]
}

// argument of the agent's command line.
func argument(p *corev1.Pod, name string) string {
	for _, arg := range serverContainer(p).Command {
		if v, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}

// send the report as the agent's reporter does (fn/agent/reporter.go), unless that was done a moment ago. It returns when
// to send it again.
func (a *agents) send(ctx context.Context, p *corev1.Pod, ag *agent, s *servedNamespace) time.Duration {
	doc, err := ag.report.String()
	if err != nil {
		return 0
	}
	if left := reportAgain - time.Since(ag.sentAt); doc == ag.sent && left > 0 {
		return left
	}
	err = a.apply(ctx, p, ag, argument(p, "state"), doc)
	if err == nil {
		ag.failed = ""
		if doc != ag.sent {
			fmt.Fprintf(a.log, "%s %s/%s %s\n", time.Now().Format("15:04:05.000"), p.Namespace, p.Name, doc)
		}
		ag.sent, ag.sentAt = doc, time.Now()
		return reportAgain
	}
	if ctx.Err() != nil || p.DeletionTimestamp != nil || apierrors.IsUnauthorized(err) {
		return 0 // Its token ends with it.
	}
	if ag.failed != err.Error() {
		ag.failed = err.Error()
		fmt.Fprintf(a.log, "%s %s/%s cannot report: %v\n", time.Now().Format("15:04:05.000"), p.Namespace, p.Name, err)
		if s != nil {
			s.tell("%s cannot report: %v", p.Name, err)
		}
	}
	return reportRetry
}

func (a *agents) apply(ctx context.Context, p *corev1.Pod, ag *agent, name, doc string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if ag.client == nil {
		client, err := a.cp.as(ctx, p)
		if err != nil {
			return err
		}
		ag.client = client
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"name": name},
		"data":     map[string]string{p.Name: doc},
	})
	if err != nil {
		return err
	}
	_, err = ag.client.CoreV1().ConfigMaps(p.Namespace).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: p.Name, Force: ptr.To(true)})
	return err
}

// as returns a client with the token that a pod has mounted, and nothing else.
func (cp *controlPlane) as(ctx context.Context, p *corev1.Pod) (kubernetes.Interface, error) {
	if !mountsToken(p) {
		return nil, fmt.Errorf("pod %s has no token mounted", p.Name)
	}
	token, err := cp.token(ctx, p)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(&rest.Config{Host: cp.server, TLSClientConfig: rest.TLSClientConfig{CAData: cp.ca}, BearerToken: token})
}

// agentRules are how an agent does not behave as it should.
type agentRules struct {
	silent  bool              // it reports nothing
	version string            // of the server, where it is not the image's
	failed  map[string]string // suffixes that it cannot make, and why
	refusal *report.Refusal
}

// agents sets how those of an image behave; nil: as they should.
func (s *servedNamespace) agents(image string, change func(*agentRules)) {
	s.set(func() {
		r := agentRules{}
		if change != nil {
			change(&r)
		}
		s.rules[image] = r
	})
	s.kubelet.cp.agents.wake(s.name)
}

func (s *servedNamespace) agentRules(p *corev1.Pod) agentRules {
	b := s.behaviour(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rules[serverContainer(p).Image]
	if refusal, ok := refusals[b]; ok {
		r.refusal = &refusal
	}
	return r
}

// restarts has the server of a pod restart within it, or says that it has.
func (s *servedNamespace) restarts(p *corev1.Pod, now bool) {
	s.set(func() {
		if now {
			s.restarting[p.UID] = true
			s.restarted = append(s.restarted, p.Name)
			s.tellLocked("%s restarts its server", p.Name)
		} else {
			delete(s.restarting, p.UID)
		}
	})
}

// restartsSoFar names the pods whose servers were restarted, in that order.
func (s *servedNamespace) restartsSoFar() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.restarted)
}

// wake has the agents of a namespace look again.
func (a *agents) wake(namespace string) {
	pods, err := a.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, p := range pods {
		a.enqueue(p)
	}
}
