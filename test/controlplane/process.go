//go:build controlplane

package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a child of the test, with its output in a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	stopped bool // we ended it
}

// forker runs functions on one OS thread that never ends. Pdeathsig fires when the *thread* that
// started a child ends, which for an ordinary goroutine may be long before the test does.
var forker = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// startProcess starts a child that cannot outlive the test: the kernel kills it when the test is gone, however
// it went.
func startProcess(logs, name string, env []string, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(logs, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor

	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	forker() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in the process state
		close(p.done)
	}()
	return p, nil
}

// signal reaches the whole process group.
func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

// stop ends the process: politely, then not.
func (p *process) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT) // a stopped process does not see SIGTERM
	select {
	case <-p.done:
	case <-time.After(3 * time.Second):
		_ = p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// died is an error once the process has ended by itself.
func (p *process) died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself (%s):\n%s", p.name, p.cmd.ProcessState, tail(p.log, 20))
	default:
		return nil
	}
}

// run runs a program to its end and returns what it printed on stdout.
func run(dir string, env []string, stdin []byte, path string, args ...string) ([]byte, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if ee := (&exec.ExitError{}); errors.As(err, &ee) {
			stderr = string(ee.Stderr)
		}
		return out, fmt.Errorf("%s %q: %w: %s", filepath.Base(path), args, err, bytes.TrimSpace([]byte(stderr)))
	}
	return out, nil
}

// tail returns the last lines of a file, for an error message.
func tail(file string, lines int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return string(bytes.Join(all, []byte("\n")))
}
