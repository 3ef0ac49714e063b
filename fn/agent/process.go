package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// directories in which distributions keep dscontainer: Fedora and Debian, SUSE, and
// Fedora's 64 bit one. It is on nobody's PATH.
var directories = []string{"usr/libexec/dirsrv", "usr/lib/dirsrv", "usr/lib64/dirsrv"}

// find a command below the image's root, on the PATH or where distributions keep
// dscontainer.
func find(root, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, d := range directories {
		path := filepath.Join(root, d, name)
		if i, err := os.Stat(path); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find %s in $PATH, nor below %s: spec.image has to be an image of 389 Directory Server", name, strings.Join(directories, ", "))
}

// children are the processes that the agent starts, so that reaping those of others
// leaves them alone.
type children struct {
	mu   sync.Mutex
	pids map[int]struct{}
}

func (c *children) start(cmd *exec.Cmd) error {
	// Under the lock: a child that has ended before it is known would be taken for
	// somebody else's.
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	if c.pids == nil {
		c.pids = map[int]struct{}{}
	}
	c.pids[cmd.Process.Pid] = struct{}{}
	return nil
}

func (c *children) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pids, cmd.Process.Pid)
	return err //nolint:wrapcheck // The caller looks at the exit status.
}

// reap the zombies that others left to PID 1: ns-slapd, say, of a dscontainer that was
// killed.
func (c *children) reap() {
	for _, s := range stats("/proc") {
		if s.state != "Z" || s.parent != os.Getpid() {
			continue
		}
		c.mu.Lock()
		if _, ours := c.pids[s.pid]; !ours {
			_, _ = syscall.Wait4(s.pid, nil, syscall.WNOHANG, nil)
		}
		c.mu.Unlock()
	}
}

// A stat of a process (proc_pid_stat(5)).
type stat struct {
	pid, parent, group int
	state              string
}

// stats of all processes.
func stats(proc string) []stat {
	paths, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return nil
	}
	out := make([]stat, 0, len(paths))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended meanwhile.
		}
		// pid (comm) state ppid pgrp ..; comm may hold spaces and parentheses.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 3 {
			continue
		}
		s := stat{state: fields[0]}
		var errs [3]error
		s.pid, errs[0] = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		s.parent, errs[1] = strconv.Atoi(fields[1])
		s.group, errs[2] = strconv.Atoi(fields[2])
		if errors.Join(errs[:]...) == nil {
			out = append(out, s)
		}
	}
	return out
}

// command runs a program to its end. Its output comes back, whatever its exit code.
func (c *children) command(ctx context.Context, name string, args ...string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	// With all that it has started: dsctl runs ns-slapd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = environment(os.Environ())
	// What the program has started would hold the pipes open.
	cmd.WaitDelay = time.Second
	if err := c.start(cmd); err != nil {
		return nil, -1, err
	}
	err := c.wait(cmd)
	if errors.Is(err, exec.ErrWaitDelay) {
		// It has ended well; what it left behind holds its pipes (lib389's forkserver does,
		// for a moment).
		err = nil
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return out.Bytes(), -1, fmt.Errorf("cannot run %s: %w", name, err)
	}
	if ctx.Err() != nil {
		return out.Bytes(), -1, fmt.Errorf("cannot run %s to its end: %w", name, ctx.Err())
	}
	return out.Bytes(), cmd.ProcessState.ExitCode(), nil
}

// withheld variables are not for the server. dscontainer would set the password that
// the environment had when the pod was made at every start, over a newer one; it would
// reindex everything for DS_REINDEX of any value; and create a suffix of its own.
var withheld = []string{"DS_DM_PASSWORD", "DS_REINDEX", "DS_SUFFIX_NAME", "SUFFIX_NAME"}

func environment(all []string) []string {
	out := make([]string, 0, len(all))
next:
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		for _, w := range withheld {
			if name == w {
				continue next
			}
		}
		out = append(out, e)
	}
	return out
}

// A process is a server that runs.
type process struct {
	cmd    *exec.Cmd
	output *tail
	done   chan struct{}
	err    error
}

// serve starts the server's command. What outlives it has the grace period to end.
func (c *children) serve(command []string, stdout io.Writer, grace time.Duration) (*process, error) {
	p := &process{output: &tail{to: stdout}, done: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // The command of the container; it is ended by signals, not by a context.
	p.cmd.Env = environment(os.Environ())
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	// A group of its own: one that outlives dscontainer can be ended with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	if err := c.start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		if p.err = c.wait(p.cmd); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // It has ended well, and left something behind.
		}
		// dscontainer that was killed leaves ns-slapd behind, and two servers must never
		// open one database.
		endGroup(p.cmd.Process.Pid, grace)
		p.output.flush()
		close(p.done)
	}()
	return p, nil
}

// endGroup ends what is left of a process group, so that a server can close its database,
// and kills what is there after the grace period.
func endGroup(group int, grace time.Duration) {
	deadline := time.Now().Add(grace)
	for s := syscall.SIGTERM; syscall.Kill(-group, s) == nil; s = 0 {
		if time.Now().After(deadline) {
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// remind is the pause between two signals to a server that is to stop.
const remind = 3 * time.Second

// stop the server and wait for its end; it is killed after the grace period.
func (p *process) stop(grace time.Duration) (clean bool) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	end, again := time.NewTimer(grace), time.NewTicker(remind)
	defer end.Stop()
	defer again.Stop()
	for {
		select {
		case <-p.done:
			return true
		case <-again.C:
			p.remind()
		case <-end.C:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
			return false
		}
	}
}

// remind a server that it is to stop. dscontainer forgets a signal that comes while it
// looks whether its server is up, for it catches the exception that this is; but where
// it does stop, a second one would end it before its server. So its server is told,
// with which it ends.
func (p *process) remind() {
	told := false
	for _, s := range stats("/proc") {
		if s.group == p.cmd.Process.Pid && s.pid != s.group && s.state != "Z" {
			_ = syscall.Kill(s.pid, syscall.SIGTERM)
			told = true
		}
	}
	if !told {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
}

// ended says how the server ended, for a person.
func (p *process) ended() string {
	// dscontainer does not say how its server ended.
	how := "exit code 0: ns-slapd was stopped or killed, for lack of memory for example"
	if p.err != nil {
		how = p.err.Error()
	}
	text := "the server ended by itself (" + how + ")"
	if last := p.output.last(); last != "" {
		text += ": " + last
	}
	return text
}

// A tail passes output on line by line, and remembers the end of it.
type tail struct {
	to io.Writer

	mu      sync.Mutex
	partial []byte
	lines   []string
	// chatter: the line is part of what lib389 says for those who debug it.
	chatter bool
}

const (
	// tailLines are what a termination message shows of a server's output.
	tailLines = 6
	// tailLine is how much of a line is kept.
	tailLine = 400
	// longestLine that is waited for: a longer one is passed on in pieces.
	longestLine = 64 << 10
)

// initialPassword is what stands before the random password that a new server has for a
// moment, until the agent sets the real one: dscontainer prints it (lib389, dscontainer
// and instance/setup.py).
var initialPassword = [][]byte{[]byte(`cn=Directory Manager password to "`), []byte("Root DN password: ")}

// Write never fails: a log that cannot be written must not end the server.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, b...)
	for {
		i := bytes.IndexByte(t.partial, '\n')
		if i < 0 && len(t.partial) < longestLine {
			return len(b), nil
		}
		if i < 0 {
			i = len(t.partial) - 1
		}
		t.line(t.partial[:i+1])
		t.partial = t.partial[i+1:]
	}
}

func (t *tail) line(b []byte) {
	for _, before := range initialPassword {
		if i := bytes.Index(b, before); i >= 0 {
			b = append(bytes.Clone(b[:i+len(before)]), "(withheld)\n"...)
		}
	}
	_, _ = t.to.Write(b)
	text := strings.TrimSpace(string(b))
	if text == "" || t.chats(text) {
		return
	}
	t.lines = append(t.lines, text[:min(len(text), tailLine)])
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

// speaks begins a line that is not part of one of lib389's before it: its own of other
// levels, Python's, and those of ns-slapd.
var speaks = []string{"INFO: ", "WARNING: ", "ERROR: ", "CRITICAL: ", "Traceback ", "["}

// chats says that a line tells nobody why the server ended: dscontainer is verbose, and
// prints the entries that it reads.
func (t *tail) chats(line string) bool {
	t.chatter = strings.HasPrefix(line, "DEBUG: ") ||
		t.chatter && !slices.ContainsFunc(speaks, func(s string) bool { return strings.HasPrefix(line, s) })
	return t.chatter
}

func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		t.line(append(t.partial, '\n'))
		t.partial = nil
	}
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
