//go:build controlplane || ldap

package kubeapi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
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
func startProcess(log, name, path string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor
	p := &process{name: name, log: log, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
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
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// stop ends the process: politely, then not.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT) // a stopped process does not see SIGTERM
	select {
	case <-p.done:
	case <-time.After(3 * time.Second):
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// ended is an error once the process has ended.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself (%s):\n%s", p.name, p.cmd.ProcessState, p.tail())
	default:
		return nil
	}
}

// tail returns the last lines of the log, for an error message.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-20):], []byte("\n")))
}
