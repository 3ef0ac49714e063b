//go:build controlplane

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// flavour is one of the two ways to offer the API.
type flavour struct {
	name string
	// claim says that what the user applies is a claim, and the XR an object of another kind.
	claim bool
}

var flavours = []flavour{
	{name: "namespaced"},
	{name: "claim", claim: true},
}

// controlPlane is a running Kubernetes API with Crossplane and the function.
type controlPlane struct {
	flavour

	dir  string // everything these processes write, gone at the end
	logs string // kept on failure

	server     string // URL of kube-apiserver
	ca         []byte // its CA
	kubeconfig string // of a cluster admin
	config     *rest.Config
	kube       kubernetes.Interface
	dynamic    dynamic.Interface

	controllers *process // kube-controller-manager
	crossplane  *process
	function    *process
	address     string // of the function
	metrics     string // URL of the function's metrics

	recorder *recorder
	kubelet  *kubelet // for those namespaces that want one
	agents   *agents

	mu        sync.Mutex
	processes []*process
}

// startControlPlane returns when a DirectoryService can be applied.
func startControlPlane(t *testing.T, f flavour) *controlPlane {
	t.Helper()
	cp := &controlPlane{flavour: f, dir: t.TempDir(), logs: logDirectory(t, f.name)}
	t.Cleanup(cp.stop)

	begin := time.Now()
	step := func(what string, f func(*testing.T)) {
		t.Helper()
		since := time.Now()
		f(t)
		t.Logf("%-12s %5.1fs", what, time.Since(since).Seconds())
	}
	pkg := buildFunction(t) // once for both flavours
	step("kubernetes", cp.startKubernetes)
	step("crossplane", cp.startCrossplane)
	step("function", func(t *testing.T) { cp.installFunction(t, pkg) })
	step("api", cp.awaitAPI)
	cp.recorder = record(t, cp)
	cp.kubelet = startKubelet(t, cp, pkg)
	cp.agents = playAgents(t, cp)
	t.Logf("control plane ready after %.1fs, logs in %s", time.Since(begin).Seconds(), cp.logs)
	return cp
}

// start starts a process that ends with the control plane.
func (cp *controlPlane) start(t *testing.T, name string, env []string, path string, args ...string) *process {
	t.Helper()
	p, err := startProcess(cp.logs, name, env, path, args...)
	must(t, err)
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes = append(cp.processes, p)
	return p
}

// stop ends the processes in the reverse order of their start.
func (cp *controlPlane) stop() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for i := len(cp.processes) - 1; i >= 0; i-- {
		cp.processes[i].stop()
	}
}

// died names a process that ended by itself.
func (cp *controlPlane) died() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for _, p := range cp.processes {
		if err := p.died(); err != nil {
			return err
		}
	}
	return nil
}

// eventually polls until check has nothing to complain about, and otherwise ends the test with its last complaint.
func (cp *controlPlane) eventually(t *testing.T, within time.Duration, what string, check func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		if err := cp.died(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s, last seen: %s", what, within, complaint)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// kubectl runs the real kubectl as cluster admin.
func (cp *controlPlane) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := cp.tryKubectl(t, stdin, args...)
	must(t, err)
	return out
}

func (cp *controlPlane) tryKubectl(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	// kubectl's discovery cache would otherwise be shared with the control plane before this one.
	args = append([]string{"--cache-dir=" + filepath.Join(cp.dir, "kubectl")}, args...)
	out, err := run(cp.dir, []string{"KUBECONFIG=" + cp.kubeconfig}, []byte(stdin), tool(t, "kubectl"), args...)
	return string(out), err
}

var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, serr := os.Stat(filepath.Join(dir, "go.mod")); serr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
})

// inRoot returns the path of a file of this repository.
func inRoot(t *testing.T, elem ...string) string {
	t.Helper()
	dir, err := root()
	must(t, err)
	return filepath.Join(append([]string{dir}, elem...)...)
}

var toolPaths sync.Map

// tool returns the path of a pinned tool, and builds it first where this machine has it not.
func tool(t *testing.T, name string) string {
	t.Helper()
	if path, ok := toolPaths.Load(name); ok {
		return path.(string)
	}
	out, err := run(inRoot(t), nil, nil, inRoot(t, "hack", "tools", "build.sh"), name)
	must(t, err)
	path := strings.TrimSpace(string(out))
	toolPaths.Store(name, path)
	return path
}

// logDirectory is FDS_LOGS, or one that is removed when all went well.
func logDirectory(t *testing.T, flavour string) string {
	t.Helper()
	if base := os.Getenv("FDS_LOGS"); base != "" {
		dir, err := filepath.Abs(filepath.Join(base, flavour))
		must(t, err)
		must(t, os.RemoveAll(dir)) // logs are searched: those of the last run must not be found
		must(t, os.MkdirAll(dir, 0o755))
		return dir
	}
	dir, err := os.MkdirTemp("", "fds-controlplane-"+flavour+"-")
	must(t, err)
	// At once, for a test that panics or runs out of time logs nothing any more.
	fmt.Fprintf(os.Stderr, "logs of the %s flavour: %s\n", flavour, dir)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs kept in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}
