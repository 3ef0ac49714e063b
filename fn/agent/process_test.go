package agent

import (
	"bytes"
	"context"
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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// within is how long anything here may take on a busy machine.
const within = 20 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s", within, what)
		}
	}
}

// alive says that a process is there, and no zombie.
func alive(pid int) bool {
	return slices.ContainsFunc(stats("/proc"), func(s stat) bool { return s.pid == pid && s.state != "Z" })
}

// inGroup counts the processes of a group that are no zombies.
func inGroup(group int) int {
	n := 0
	for _, s := range stats("/proc") {
		if s.group == group && s.state != "Z" {
			n++
		}
	}
	return n
}

func script(s string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", s, "sh"}, args...)
}

// A syncBuffer is written to and read at the same time.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// How a server ends by itself, and what a person reads then.
func TestServe(t *testing.T) {
	cases := map[string]struct {
		reason string
		script string
		output string
		ended  string
	}{
		"Good":     {reason: "A server has no reason to end.", script: "exit 0", ended: "the server ended by itself (exit code 0: ns-slapd was stopped or killed, for lack of memory for example)"},
		"Code":     {reason: "The end of the log says why.", script: "echo one; echo two >&2; exit 3", output: "one\ntwo\n", ended: "the server ended by itself (exit status 3): one\ntwo"},
		"Signal":   {reason: "As when memory runs out.", script: "kill -9 $$", ended: "the server ended by itself (signal: killed)"},
		"NoBreak":  {reason: "The last line counts, whole or not.", script: "printf last; exit 1", output: "last\n", ended: "the server ended by itself (exit status 1): last"},
		"Left":     {reason: "What holds its output is no reason to wait, and has not made it fail.", script: "sleep 600 & exit 0", ended: "the server ended by itself (exit code 0: ns-slapd was stopped or killed, for lack of memory for example)"},
		"LeftDeaf": {reason: "Nor is one that heeds no signal.", script: "(trap '' TERM; exec sleep 600) & sleep 0.1; exit 4", ended: "the server ended by itself (exit status 4)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c children
			out := &syncBuffer{}
			p, err := c.serve(script(tc.script), out, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.done:
			case <-time.After(within):
				t.Fatal("it does not end")
			}
			if diff := cmp.Diff([]string{tc.output, tc.ended}, []string{out.String(), p.ended()}); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			eventually(t, "nothing of its group is left", func() bool { return inGroup(p.cmd.Process.Pid) == 0 })
			if len(c.pids) != 0 {
				t.Errorf("it still counts as a child: %v", c.pids)
			}
		})
	}

	t.Run("Missing", func(t *testing.T) {
		var c children
		if _, err := c.serve([]string{"/no/such/program"}, io.Discard, time.Second); err == nil || !strings.HasPrefix(err.Error(), "cannot start /no/such/program: ") {
			t.Errorf("want an error about the program, got %v", err)
		}
	})
}

// How a server is stopped: in peace, and otherwise with force after the grace period, with all
// that it has started.
func TestStop(t *testing.T) {
	cases := map[string]struct {
		reason string
		script string
		grace  time.Duration
		clean  bool
		output string
	}{
		"Obeys": {
			reason: "dscontainer ends its server.",
			script: "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done",
			grace:  within, clean: true, output: "up\nbye\n",
		},
		"Ignores": {
			reason: "It has to end before the kubelet ends everything.",
			script: "trap '' TERM; echo up; while :; do sleep 0.05; done",
			grace:  200 * time.Millisecond, output: "up\n",
		},
		"Forgets": {
			reason: "dscontainer forgets a signal at times, and ends when its server does.",
			script: "trap '' TERM; (trap - TERM; exec sleep 600) & echo up; wait; echo ended",
			grace:  within, clean: true, output: "up\nended\n",
		},
		"LeavesOneThatObeys": {
			reason: "A server whose parent died is told, and may close its database.",
			script: "(trap '' PIPE; trap 'sleep 0.3; echo closed >$1; exit 0' TERM; echo up; while :; do sleep 0.05; done) & wait",
			grace:  within, clean: true, output: "up\n",
		},
		"LeavesOneThatIgnores": {
			reason: "Two servers must never open one database.",
			script: "(trap '' TERM; echo up; while :; do sleep 0.05; done) & wait",
			grace:  200 * time.Millisecond, output: "up\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c children
			out, file := &syncBuffer{}, filepath.Join(t.TempDir(), "closed")
			p, err := c.serve(script(tc.script, file), out, tc.grace)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "it runs", func() bool { return out.String() == "up\n" })
			clean := p.stop(tc.grace)
			if name != "LeavesOneThatIgnores" && clean != tc.clean {
				t.Errorf("\n%s\nclean: want %t, got %t", tc.reason, tc.clean, clean)
			}
			if diff := cmp.Diff(tc.output, out.String()); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			eventually(t, "nothing of its group is left", func() bool { return inGroup(p.cmd.Process.Pid) == 0 })
			if _, err := os.Stat(file); name == "LeavesOneThatObeys" && err != nil {
				t.Errorf("\n%s\nit was killed: %v", tc.reason, err)
			}
		})
	}
}

// A server's parent is reminded itself where it has no server yet.
func TestRemind(t *testing.T) {
	var c children
	out := &syncBuffer{}
	p, err := c.serve(script("trap 'echo bye; exit 0' TERM; echo up; while :; do :; done"), out, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return out.String() == "up\n" })
	p.remind()
	<-p.done
	if diff := cmp.Diff("up\nbye\n", out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// Programs that the preparation runs.
func TestCommand(t *testing.T) {
	t.Setenv("DS_DM_PASSWORD", "secret")
	type want struct {
		Out  string
		Code int
		Err  string
	}
	cases := map[string]struct {
		reason  string
		name    string
		args    []string
		timeout time.Duration
		want    want
	}{
		"Good":        {reason: "Both outputs.", name: "sh", args: []string{"-c", "echo out; echo err >&2"}, want: want{Out: "out\nerr\n"}},
		"Code":        {reason: "An exit code is an answer.", name: "sh", args: []string{"-c", "echo no; exit 7"}, want: want{Out: "no\n", Code: 7}},
		"Missing":     {reason: "That is none.", name: "/no/such/program", want: want{Code: -1, Err: "cannot start /no/such/program: "}},
		"Killed":      {reason: "Nor is a signal of somebody else's.", name: "sh", args: []string{"-c", "kill -9 $$"}, want: want{Code: -1}},
		"LeavesOne":   {reason: "A daemon that keeps the output open does not hold it up.", name: "sh", args: []string{"-c", "echo out; sleep 600 & exit 0"}, want: want{Out: "out\n"}},
		"Interrupted": {reason: "The pod is told to stop.", name: "sh", args: []string{"-c", "echo out; sleep 600"}, timeout: 300 * time.Millisecond, want: want{Out: "out\n", Code: -1, Err: "cannot run sh to its end: "}},
		"Environment": {reason: "No password reaches anybody.", name: "sh", args: []string{"-c", "echo $DS_DM_PASSWORD"}, want: want{Out: "\n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c children
			ctx := context.Background()
			if tc.timeout > 0 {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			began := time.Now()
			out, code, err := c.command(ctx, tc.name, tc.args...)
			got := want{Out: string(out), Code: code, Err: text(err)}
			if tc.want.Err != "" && strings.HasPrefix(got.Err, tc.want.Err) {
				got.Err = tc.want.Err
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if took := time.Since(began); took > within {
				t.Errorf("\n%s\nit took %s", tc.reason, took)
			}
			if len(c.pids) != 0 {
				t.Errorf("it still counts as a child: %v", c.pids)
			}
		})
	}

	t.Run("InterruptedWithItsChildren", func(t *testing.T) {
		var c children
		ctx, cancel := context.WithCancel(context.Background())
		file := filepath.Join(t.TempDir(), "pid")
		go func() {
			for {
				if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
					cancel()
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		if _, _, err := c.command(ctx, "sh", "-c", "sleep 600 & echo $! >"+file+"; wait"); err == nil {
			t.Error("it was interrupted, and there is no error")
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "its child is gone", func() bool { return !alive(pid) })
	})
}

// As PID 1 the agent gets the orphans of others, and must not take the exit status of its own.
func TestReap(t *testing.T) {
	// What a namespace would do: orphans of this process's descendants become its children.
	const prSetChildSubreaper = 36
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); e != 0 {
		t.Fatal(e)
	}
	defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 0, 0) }()

	a := &agent{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- safely(func() error { a.reap(ctx); return nil }) }()

	// Orphans are left while children of the agent's own end in great number.
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			out, code, err := a.children.command(ctx, "sh", "-c", fmt.Sprintf("(sh -c 'echo $$ >%s/%d; exec sleep 0.%d' >/dev/null 2>&1 &); exit %d", dir, i, i%10, i))
			if err != nil || code != i {
				t.Errorf("the exit code of a child of its own: want %d, got %d, %v: %s", i, code, err, out)
			}
		})
	}
	all.Wait()
	eventually(t, "all orphans are there, and gone", func() bool {
		pids, _ := filepath.Glob(dir + "/*")
		for _, path := range pids {
			b, _ := os.ReadFile(path)
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil || syscall.Kill(pid, 0) == nil {
				return false // It runs, or is a zombie.
			}
		}
		return len(pids) == 40
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStats(t *testing.T) {
	cases := map[string]struct {
		reason string
		stat   string
		want   []stat
	}{
		"Zombie":  {reason: "A child that has ended.", stat: "12 (sh) Z 5 7 1 0", want: []stat{{pid: 12, parent: 5, group: 7, state: "Z"}}},
		"Name":    {reason: "A name may be anything.", stat: "12 (a) Z 1 (b) S 5 7 1 0", want: []stat{{pid: 12, parent: 5, group: 7, state: "S"}}},
		"Garbled": {reason: "It has gone meanwhile.", stat: "12", want: []stat{}},
		"Short":   {reason: "It has gone meanwhile.", stat: "12 (sh) Z 1", want: []stat{}},
		"Empty":   {reason: "It has gone meanwhile.", want: []stat{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := stats(put(t, map[string]string{"12/stat": tc.stat, "self/stat": "13 (x) Z 1 1 1"}))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(stat{})); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R11: dscontainer would set a password of its environment at each start.
func TestEnvironment(t *testing.T) {
	all := []string{
		"PATH=/bin", "DS_DM_PASSWORD=secret", "DS_REINDEX=false", "DS_SUFFIX_NAME=dc=a", "SUFFIX_NAME=dc=a",
		"DS_STARTUP_TIMEOUT=60", "DS_ERRORLOG_LEVEL=16384", "MY_DS_DM_PASSWORD=x", "EMPTY=",
	}
	want := []string{"PATH=/bin", "DS_STARTUP_TIMEOUT=60", "DS_ERRORLOG_LEVEL=16384", "MY_DS_DM_PASSWORD=x", "EMPTY="}
	if diff := cmp.Diff(want, environment(all)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	for path, mode := range map[string]os.FileMode{
		"usr/lib/dirsrv/both": 0o755, "usr/libexec/dirsrv/both": 0o755, "usr/lib64/dirsrv/the-last": 0o755,
		"usr/lib/dirsrv/data": 0o644, "usr/libexec/dirsrv/the-dir/x": 0o755,
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason, name, want string
	}{
		"Path":        {reason: "A path is taken as it is.", name: "/any/where", want: "/any/where"},
		"OnPath":      {reason: "As a shell would.", name: "sh", want: sh},
		"First":       {reason: "Fedora's place before SUSE's.", name: "both", want: filepath.Join(root, "usr/libexec/dirsrv/both")},
		"Last":        {reason: "Wherever it is.", name: "the-last", want: filepath.Join(root, "usr/lib64/dirsrv/the-last")},
		"NotToBeRun":  {reason: "A file that is no program.", name: "data"},
		"ADirectory":  {reason: "Nor is this.", name: "the-dir"},
		"NotAnywhere": {reason: "It names the spec's field.", name: "none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := find(root, tc.name)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("\n%s\nfind(%q): want %q, got %q, %v", tc.reason, tc.name, tc.want, got, err)
			}
			if err != nil && !strings.Contains(err.Error(), "spec.image") {
				t.Errorf("\n%s\n%v", tc.reason, err)
			}
		})
	}
}

// What is passed on of a server's output, and what is remembered of it.
func TestTail(t *testing.T) {
	long := strings.Repeat("x", longestLine+10)
	type want struct{ Out, Last string }
	cases := map[string]struct {
		reason string
		writes []string
		want   want
	}{
		"Lines":    {reason: "As they come.", writes: []string{"a\nb\n"}, want: want{"a\nb\n", "a\nb"}},
		"Pieces":   {reason: "A line comes in pieces.", writes: []string{"a", "b", "c\nd", "\n"}, want: want{"abc\nd\n", "abc\nd"}},
		"NoBreak":  {reason: "The last one may have no end.", writes: []string{"a\nb"}, want: want{"a\nb\n", "a\nb"}},
		"Empty":    {reason: "Empty lines say nothing.", writes: []string{"a\n\n \nb\n"}, want: want{"a\n\n \nb\n", "a\nb"}},
		"Many":     {reason: "The end is what matters.", writes: []string{"1\n2\n3\n4\n5\n6\n7\n8\n"}, want: want{"1\n2\n3\n4\n5\n6\n7\n8\n", "3\n4\n5\n6\n7\n8"}},
		"LongLine": {reason: "It is passed on whole, and cut for the message.", writes: []string{strings.Repeat("y", 1000) + "\n"}, want: want{strings.Repeat("y", 1000) + "\n", strings.Repeat("y", tailLine)}},
		"Endless":  {reason: "It is not waited for without end.", writes: []string{long, "z\n"}, want: want{long + "z\n", strings.Repeat("x", tailLine) + "\nz"}},
		"Initial password": {
			reason: "dscontainer prints the first password (R11).",
			writes: []string{"INFO: IMPORTANT: Set cn=Directory Man", "ager password to \"Secret.1\"\nnext\n"},
			want:   want{"INFO: IMPORTANT: Set cn=Directory Manager password to \"(withheld)\nnext\n", "INFO: IMPORTANT: Set cn=Directory Manager password to \"(withheld)\nnext"},
		},
		"Chatter": {
			reason: "lib389 prints what it reads, which says nothing about the end.",
			writes: []string{"ERROR: a\nDEBUG: Retrieved entry [dn: \nvendorVersion: 1\n\n]\nDEBUG: b\n[30/Nov/2026] - ERR - c\nd\n"},
			want:   want{"ERROR: a\nDEBUG: Retrieved entry [dn: \nvendorVersion: 1\n\n]\nDEBUG: b\n[30/Nov/2026] - ERR - c\nd\n", "ERROR: a\n[30/Nov/2026] - ERR - c\nd"},
		},
		"Initial password of lib389": {
			reason: "So does lib389 where it is verbose, and a server may end right then.",
			writes: []string{"DEBUG: Root DN password: Secret.1"},
			want:   want{"DEBUG: Root DN password: (withheld)\n", ""},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &tail{to: &out}
			for _, w := range tc.writes {
				// The writer owns what it wrote.
				b := []byte(w)
				if n, err := p.Write(b); n != len(w) || err != nil {
					t.Fatal(n, err)
				}
				clear(b)
			}
			p.flush()
			if diff := cmp.Diff(tc.want, want{out.String(), p.last()}); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}

	t.Run("NobodyListens", func(t *testing.T) {
		r, w := io.Pipe()
		_ = r.Close()
		p := &tail{to: w}
		if n, err := p.Write([]byte("a\n")); n != 2 || err != nil {
			t.Errorf("a log that cannot be written must not end the server: %d, %v", n, err)
		}
	})
}

func TestSafely(t *testing.T) {
	err := safely(func() error { panic("a mistake") })
	if err == nil || !strings.HasPrefix(err.Error(), "panic: a mistake\n") {
		t.Errorf("want the panic as an error, got %v", err)
	}
}
