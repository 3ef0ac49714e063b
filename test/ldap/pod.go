//go:build ldap

package ldap

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	directoryManager = "cn=Directory Manager"

	agentPath      = "/opt/directoryservice/directoryservice"
	dscontainer    = "/usr/libexec/dirsrv/dscontainer"
	terminationLog = "/dev/termination-log"
	mountsPath     = "/etc/directoryservice"
	tokenPath      = "/run/secrets/kubernetes.io/serviceaccount"

	ldapTimeout = 30 * time.Second
	rootVar     = "FDS_LDAP_ROOT"
)

// A podSpec is what a pod template says; its zero values are one server's of the middle version, with the agent.
type podSpec struct {
	// Service that the pod belongs to; one of its own when nil.
	Service *service
	Ordinal int
	// Suite is the server's image; trixie when empty.
	Suite string
	// Volume is mounted at /data; a new one when nil.
	Volume *volume
	// Mounts are the contents of what is mounted below /etc/directoryservice, by name: config {config.json},
	// dm-password {dm-password}, tls {tls.crt, tls.key, ca.crt}, replication {password}. What is not named is an
	// empty directory.
	Mounts map[string]map[string]string
	// Env of the container. $(POD_NAME), $(POD_NAMESPACE), $(POD_UID) and $(POD_IP) are replaced, as is in Command.
	Env map[string]string
	// Command is the agent above the server when nil.
	Command []string
	// ServiceAccount whose token is mounted, where the service has an API; none when empty.
	ServiceAccount string
}

// plain has dscontainer as PID 1, without the agent.
var plain = []string{dscontainer, "-r"}

// A pod is one server of a service, with one container at a time.
type pod struct {
	spec    podSpec
	name    string
	uid     string
	address string
	mounts  map[string]*mounted
	token   *mounted

	starts    int
	container *container
}

// A container is a pod's process that runs, or ran.
type container struct {
	pid         int
	log         string
	termination string
	done        chan struct{} // closed when it has ended
	state       *os.ProcessState
}

// An exit is how a container ended.
type exit struct {
	// Code is the exit status, or 128 and the signal, as Kubernetes reports it.
	Code int
	// Message is what the container wrote to its termination log.
	Message string
}

// newPod is a pod that is not started.
func newPod(t *testing.T, spec podSpec) *pod {
	t.Helper()
	if spec.Service == nil {
		spec.Service = newService(t, "ds", nil)
	}
	if spec.Suite == "" {
		spec.Suite = trixie
	}
	if spec.Volume == nil {
		spec.Volume = newVolume(t, 0)
	}
	if spec.Command == nil {
		spec.Command = append([]string{agentPath, "run", "--"}, plain...)
	}
	p := &pod{spec: spec, name: spec.Service.identity.Name + "-" + strconv.Itoa(spec.Ordinal), mounts: map[string]*mounted{}}
	for _, name := range []string{"config", "dm-password", "tls", "replication"} {
		p.mounts[name] = newMounted(t, name != "config")
		p.mounts[name].Set(t, spec.Mounts[name])
	}
	if spec.ServiceAccount != "" {
		if spec.Service.api == nil {
			t.Fatal("a service account needs a service with an API: newService(t, name, startAPI(t))")
		}
		p.token = newMounted(t, true)
	}
	p.rename(t)
	t.Cleanup(func() { p.remove(t) })
	return p
}

// startPod starts a pod.
func startPod(t *testing.T, spec podSpec) *pod {
	t.Helper()
	p := newPod(t, spec)
	p.Start(t)
	return p
}

// rename makes it a new pod under the old name.
func (p *pod) rename(t *testing.T) {
	t.Helper()
	p.uid, p.address = string(uuid.NewUUID()), newAddress()
	p.spec.Service.publish(t, p.name, p.address)
	if p.token == nil {
		return
	}
	// Here, and not for each container: a kubelet starts the next one without the API.
	api, namespace := p.spec.Service.api, p.spec.Service.identity.Namespace
	api.ServiceAccount(t, namespace, p.spec.ServiceAccount)
	p.token.Set(t, map[string]string{"token": api.Token(t, namespace, p.spec.ServiceAccount), "ca.crt": string(api.CA), "namespace": namespace})
}

// Start starts a container: the first one, or, over the same data and in the same pod, the next, as a kubelet does
// when one has ended.
func (p *pod) Start(t *testing.T) {
	t.Helper()
	if p.Running() {
		t.Fatalf("%s: its container runs already", p.name)
	}
	must(t, p.start(t))
}

// Restart is Start under the name for the second time.
func (p *pod) Restart(t *testing.T) { t.Helper(); p.Start(t) }

// Replace deletes the pod and starts a new one under its name over the same volume: another UID and address, what was
// mounted is mounted again, and change says what else the new template has.
func (p *pod) Replace(t *testing.T, change func(*podSpec)) {
	t.Helper()
	if p.Running() {
		p.Stop(t, terminationGrace)
	}
	if change != nil {
		change(&p.spec)
	}
	p.rename(t)
	p.Start(t)
}

// Mount replaces the content of a mounted Secret or ConfigMap, which the running container sees.
func (p *pod) Mount(t *testing.T, name string, files map[string]string) {
	t.Helper()
	m := p.mounts[name]
	if m == nil {
		t.Fatalf("%s mounts nothing of the name %q", p.name, name)
	}
	m.Set(t, files)
}

func (p *pod) start(t *testing.T) error {
	t.Helper()
	s := p.spec
	if slices.Contains(s.Command, agentPath) && run.Binary == "" {
		return errors.New(run.BinaryError)
	}
	p.starts++
	// A name that tells the containers of all pods of the test apart.
	base := filepath.Join(logDirectory(t), fmt.Sprintf("%s-%s-%d", p.name, p.uid[:8], p.starts))
	dir := workDirectory(t, "container")
	c := &container{log: base + ".log", termination: filepath.Join(dir, "termination-log"), done: make(chan struct{})}
	resolv := filepath.Join(dir, "resolv.conf")
	hostname := filepath.Join(dir, "hostname")
	for path, content := range map[string]string{
		c.termination: "",
		// Nobody answers: what is not in /etc/hosts is unknown at once.
		resolv:   "nameserver 127.0.0.1\n",
		hostname: p.name + "\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(c.termination, 0o666); err != nil {
		return err
	}

	expand := strings.NewReplacer("$(POD_NAME)", p.name, "$(POD_NAMESPACE)", s.Service.identity.Namespace, "$(POD_UID)", p.uid, "$(POD_IP)", p.address)
	spec := initSpec{
		Tree:     run.Trees[s.Suite],
		Hostname: p.name,
		Address:  p.address + networkPrefix,
		Mounts: []bind{
			{Source: s.Volume.path, Target: "/data", Writable: true},
			{Source: s.Service.file, Target: "/etc/hosts"},
			{Source: hostname, Target: "/etc/hostname"},
			{Source: resolv, Target: "/etc/resolv.conf"},
			{Source: c.termination, Target: terminationLog, Writable: true},
		},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/data", "HOSTNAME=" + p.name},
	}
	if spec.Tree == "" {
		return fmt.Errorf("no suite %q, but %q", s.Suite, suites)
	}
	if run.Binary != "" {
		spec.Mounts = append(spec.Mounts, bind{Source: filepath.Dir(run.Binary), Target: filepath.Dir(agentPath)})
	}
	for name, m := range p.mounts {
		spec.Mounts = append(spec.Mounts, bind{Source: m.dir, Target: filepath.Join(mountsPath, name)})
	}
	if p.token != nil {
		api := s.Service.api
		spec.Mounts = append(spec.Mounts, bind{Source: p.token.dir, Target: tokenPath})
		spec.Env = append(spec.Env, "KUBERNETES_SERVICE_HOST="+api.Host, "KUBERNETES_SERVICE_PORT="+strconv.Itoa(api.Port))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		spec.Env = append(spec.Env, k+"="+expand.Replace(s.Env[k]))
	}
	for _, a := range s.Command {
		spec.Command = append(spec.Command, expand.Replace(a))
	}
	if err := c.run(spec); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	p.container = c
	return nil
}

// run starts the process and returns when it has become the container's command.
func (c *container) run(spec initSpec) error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	specOut, specIn, err := os.Pipe()
	if err != nil {
		return err
	}
	defer specIn.Close()
	failedOut, failedIn, err := os.Pipe()
	if err != nil {
		return errors.Join(err, specOut.Close())
	}
	defer failedOut.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{stageVar + "=" + stagePod, rootVar + "=" + podRoot(), "PATH=" + os.Getenv("PATH")}
	cmd.ExtraFiles = []*os.File{fdSpec - 3: specOut, fdFailed - 3: failedIn}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
		Setsid:     true,
	}
	err = cmd.Start()
	_, _ = specOut.Close(), failedIn.Close()
	if err != nil {
		return err
	}
	c.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // how it ended is in the process state
		c.state = cmd.ProcessState
		close(c.done)
	}()
	err = connect(c.pid)
	if err == nil {
		err = json.NewEncoder(specIn).Encode(spec)
	}
	if err == nil {
		err = specIn.Close()
	}
	if err == nil {
		var complaint []byte
		if complaint, err = io.ReadAll(failedOut); err == nil && len(complaint) == 0 {
			return nil
		}
		err = errors.Join(err, errors.New(string(complaint)))
	}
	_ = syscall.Kill(c.pid, syscall.SIGKILL)
	<-c.done
	return err
}

// Running says whether the container runs.
func (p *pod) Running() bool {
	if p.container == nil {
		return false
	}
	select {
	case <-p.container.done:
		return false
	default:
		return true
	}
}

// terminationGrace of the composed pods.
const terminationGrace = 2 * time.Minute

// Stop is what a kubelet does to stop a container: SIGTERM, and after the grace period SIGKILL.
func (p *pod) Stop(t *testing.T, grace time.Duration) exit {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	select {
	case <-p.container.done:
	case <-time.After(grace):
		t.Logf("%s: still running %s after SIGTERM, killed", p.name, grace)
		p.Signal(t, syscall.SIGKILL)
	}
	return p.Wait(t, 10*time.Second)
}

// Kill kills the container, as when it runs out of memory or its node loses power.
func (p *pod) Kill(t *testing.T) exit {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	return p.Wait(t, 10*time.Second)
}

// Wait waits until the container ends by itself.
func (p *pod) Wait(t *testing.T, within time.Duration) exit {
	t.Helper()
	if p.container == nil {
		t.Fatalf("%s was never started", p.name)
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for p.Running() { // first: a container that has ended needs no time
		select {
		case <-p.container.done:
		case <-timeout.C:
			t.Fatalf("%s: its container did not end within %s", p.name, within)
		}
	}
	message, err := os.ReadFile(p.container.termination)
	must(t, err)
	e := exit{Code: p.container.state.ExitCode(), Message: string(message)}
	if ws, ok := p.container.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code = 128 + int(ws.Signal())
	}
	return e
}

// Signal sends a signal to PID 1 of the container.
func (p *pod) Signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if !p.Running() {
		t.Fatalf("%s: no container runs, so it gets no %s", p.name, s)
	}
	must(t, syscall.Kill(p.container.pid, s))
}

// A process in a pod.
type process struct {
	// PID in the tests' namespace, and Inner in the pod's.
	PID, Inner int
	Name       string
	Command    []string
}

// Processes of the container that are not zombies.
func (p *pod) Processes(t *testing.T) []process {
	t.Helper()
	if !p.Running() {
		return nil
	}
	namespace := func(pid string) string {
		link, err := os.Readlink(filepath.Join("/proc", pid, "ns", "pid"))
		if err != nil {
			return "" // gone meanwhile, or a zombie
		}
		return link
	}
	mine := namespace(strconv.Itoa(p.container.pid))
	all, err := os.ReadDir("/proc")
	must(t, err)
	var found []process
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || mine == "" || namespace(e.Name()) != mine {
			continue
		}
		status, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		proc := process{PID: pid, Command: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")}
		for line := range strings.Lines(string(status)) {
			if name, ok := strings.CutPrefix(line, "Name:"); ok {
				proc.Name = strings.TrimSpace(name)
			}
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				f := strings.Fields(ids)
				proc.Inner, _ = strconv.Atoi(f[len(f)-1])
			}
		}
		if len(cmdline) > 0 {
			found = append(found, proc)
		}
	}
	return found
}

// SignalServer sends a signal to ns-slapd: SIGKILL for a crash, SIGSTOP for a server that hangs.
func (p *pod) SignalServer(t *testing.T, s syscall.Signal) {
	t.Helper()
	for _, proc := range p.Processes(t) {
		if proc.Name == "ns-slapd" {
			must(t, syscall.Kill(proc.PID, s))
			return
		}
	}
	t.Fatalf("%s: no ns-slapd runs", p.name)
}

// KillServer is a crash of ns-slapd.
func (p *pod) KillServer(t *testing.T) { t.Helper(); p.SignalServer(t, syscall.SIGKILL) }

// Exec runs a command in the container, as the container's user, as kubectl exec does.
func (p *pod) Exec(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if !p.Running() {
		t.Fatalf("%s: no container runs", p.name)
	}
	id := strconv.Itoa(serverUser)
	cmd := exec.CommandContext(t.Context(), "nsenter", append([]string{
		"--target=" + strconv.Itoa(p.container.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd",
		"--setuid=" + id, "--setgid=" + id, "--",
	}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/data"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Log is all that the current container, or the last one, wrote.
func (p *pod) Log(t *testing.T) string {
	t.Helper()
	if p.container == nil {
		return ""
	}
	b, err := os.ReadFile(p.container.log)
	must(t, err)
	return string(b)
}

// FQDN is the pod's name within the cluster.
func (p *pod) FQDN() string { return p.name + "." + p.spec.Service.domain() }

// Dial connects to a port of the pod.
func (p *pod) Dial(port int) (net.Conn, error) {
	return net.DialTimeout("tcp", net.JoinHostPort(p.address, strconv.Itoa(port)), 5*time.Second)
}

// HTTP gets a path of the agent: status and body.
func (p *pod) HTTP(path string) (int, string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + net.JoinHostPort(p.address, "8389") + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// TryLDAP binds as Directory Manager over plain LDAP. The caller closes the connection.
func (p *pod) TryLDAP(password string) (*ldap.Conn, error) {
	conn, err := p.Dial(3389)
	if err != nil {
		return nil, err
	}
	return bindManager(conn, false, password)
}

// LDAP is TryLDAP that has to succeed; the connection goes with the test.
func (p *pod) LDAP(t *testing.T, password string) *ldap.Conn {
	t.Helper()
	c, err := p.TryLDAP(password)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// AwaitLDAP waits until the Directory Manager can bind. A container that ends meanwhile ends the test.
func (p *pod) AwaitLDAP(t *testing.T, within time.Duration, password string) *ldap.Conn {
	t.Helper()
	var c *ldap.Conn
	eventually(t, within, p.name+" lets the Directory Manager bind", func() error {
		if !p.Running() {
			t.Fatalf("%s ended before it could be used: %+v", p.name, p.Wait(t, 0))
		}
		var err error
		c, err = p.TryLDAP(password)
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TryTLS connects by TLS to the LDAPS port and checks the certificate against the pod's name.
func (p *pod) TryTLS(roots *x509.CertPool) (*tls.Conn, error) {
	conn, err := p.Dial(3636)
	if err != nil {
		return nil, err
	}
	c := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: p.FQDN()})
	_ = c.SetDeadline(time.Now().Add(ldapTimeout))
	if err := c.Handshake(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

// TryLDAPS is TryLDAP over LDAPS.
func (p *pod) TryLDAPS(roots *x509.CertPool, password string) (*ldap.Conn, error) {
	conn, err := p.TryTLS(roots)
	if err != nil {
		return nil, err
	}
	return bindManager(conn, true, password)
}

// LDAPS is TryLDAPS that has to succeed; the connection goes with the test.
func (p *pod) LDAPS(t *testing.T, roots *x509.CertPool, password string) *ldap.Conn {
	t.Helper()
	c, err := p.TryLDAPS(roots, password)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TryLDAPI connects to the socket on the volume; autobind makes root the Directory Manager, without a password.
func (p *pod) TryLDAPI() (*ldap.Conn, error) {
	// By the directory's descriptor: a path of a socket is limited to 107 bytes.
	dir, err := os.Open(p.spec.Volume.Path("run"))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	conn, err := net.DialTimeout("unix", fmt.Sprintf("/proc/self/fd/%d/slapd-localhost.socket", dir.Fd()), 5*time.Second)
	if err != nil {
		return nil, err
	}
	c := newConn(conn, false)
	if err := c.ExternalBind(); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// LDAPI is TryLDAPI that has to succeed; the connection goes with the test.
func (p *pod) LDAPI(t *testing.T) *ldap.Conn {
	t.Helper()
	c, err := p.TryLDAPI()
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newConn(conn net.Conn, isTLS bool) *ldap.Conn {
	c := ldap.NewConn(conn, isTLS)
	c.SetTimeout(ldapTimeout)
	c.Start()
	return c
}

func bindManager(conn net.Conn, isTLS bool, password string) (*ldap.Conn, error) {
	c := newConn(conn, isTLS)
	if err := c.Bind(directoryManager, password); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// remove ends the pod with the test, and keeps what explains a failure.
func (p *pod) remove(t *testing.T) {
	if p.Running() {
		_ = syscall.Kill(p.container.pid, syscall.SIGKILL)
		<-p.container.done
	}
	if p.container == nil || !t.Failed() {
		return
	}
	t.Logf("the end of %s:\n%s", p.container.log, tail(p.container.log, 25))
	errorLog := strings.TrimSuffix(p.container.log, ".log") + ".errors"
	if err := copyFile(p.spec.Volume.Path("logs", "errors"), errorLog); err == nil {
		t.Logf("the end of the server's errors, %s:\n%s", errorLog, tail(errorLog, 15))
	}
}
