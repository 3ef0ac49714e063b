//go:build ldap

package ldap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The test binary runs in three stages, told apart by the environment:
//
//  1. go test starts it. It builds what is missing, while there is a network, and starts itself again in new
//     mount, pid and network namespaces, where
//  2. the tests run, as PID 1: when it ends, so does everything it started. Each pod is
//  3. the binary once more, in the namespaces of that pod. It makes the root filesystem, gives up all rights and
//     becomes the container's command (podinit.go).
const (
	stageVar = "FDS_LDAP_STAGE"
	setupVar = "FDS_LDAP_SETUP"

	stageTests = "tests"
	stagePod   = "pod"
)

// setup is what the first stage tells the second.
type setup struct {
	// Root is the repository's.
	Root string
	// Base holds what the tests write. The first stage removes it.
	Base string
	// Logs of the containers and of the API.
	Logs string
	// Trees by suite, and the versions of 389 DS in them: sid moves.
	Trees, Versions map[string]string
	// Binary is ours; BinaryError says why there is none. Only pods that run it mind.
	Binary, BinaryError string
}

// run is the setup of this run of the tests.
var run setup

func runStages(m *testing.M) int {
	stage := os.Getenv(stageVar)
	_ = os.Unsetenv(stageVar) // not for children
	var err error
	switch stage {
	case stagePod:
		err = becomePod()
	case stageTests:
		if err = enterTests(); err == nil {
			return m.Run()
		}
	default:
		var code int
		if code, err = startTests(); err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, "test/ldap:", err)
	return 1
}

// versionOf the server in a tree: three numbers.
func versionOf(tree string) (string, error) {
	// Its exit status is 1 by design.
	out, _ := exec.Command("chroot", tree, "ns-slapd", "-v").CombinedOutput()
	m := regexp.MustCompile(`389-Directory/(\d+\.\d+\.\d+)`).FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("ns-slapd in %s does not say its version: %s", tree, out)
	}
	return string(m[1]), nil
}

// startTests is the first stage.
func startTests() (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("needs root, for the pods' namespaces and mounts: run it as root (sudo -E), or leave the tag ldap out")
	}
	for tool, pkg := range map[string]string{"ip": "iproute2", "nsenter": "util-linux", "mkfs.ext4": "e2fsprogs"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("needs %s: apt-get install %s", tool, pkg)
		}
	}
	s := setup{Trees: map[string]string{}, Versions: map[string]string{}}
	var err error
	if s.Root, err = repository(); err != nil {
		return 0, err
	}
	if s.Base, err = os.MkdirTemp("", "fds-ldap-"); err != nil {
		return 0, err
	}
	// The mounts below it are in the tests' namespace, and gone with it.
	defer func() { _ = os.RemoveAll(s.Base) }()

	for _, suite := range suites {
		if s.Trees[suite], err = output(s.Root, filepath.Join(s.Root, "hack", "trees", "build.sh"), suite); err != nil {
			return 0, err
		}
		if s.Versions[suite], err = versionOf(s.Trees[suite]); err != nil {
			return 0, err
		}
	}
	for _, tool := range []string{"etcd", "kube-apiserver"} {
		if _, err = output(s.Root, filepath.Join(s.Root, "hack", "tools", "build.sh"), tool); err != nil {
			return 0, err
		}
	}
	s.Binary = filepath.Join(s.Base, "agent", "directoryservice")
	if err := buildBinary(s.Root, s.Binary); err != nil {
		s.Binary, s.BinaryError = "", err.Error()
	}
	keep := os.Getenv("FDS_LOGS") != ""
	if keep {
		s.Logs, err = filepath.Abs(os.Getenv("FDS_LOGS"))
		err = errors.Join(err, os.MkdirAll(s.Logs, 0o755))
	} else {
		s.Logs, err = os.MkdirTemp("", "fds-ldap-logs-")
	}
	if err != nil {
		return 0, err
	}

	b, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stageVar+"="+stageTests, setupVar+"="+string(b))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot make namespaces: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait() // how it ended is in the process state
	code := cmd.ProcessState.ExitCode()
	switch {
	case code != 0:
		fmt.Fprintln(os.Stderr, "test/ldap: logs kept in", s.Logs)
	case !keep:
		_ = os.RemoveAll(s.Logs)
	}
	if code < 0 {
		return 0, fmt.Errorf("the tests ended by %s", cmd.ProcessState)
	}
	return code, nil
}

// enterTests is the second stage.
func enterTests() error {
	if err := json.Unmarshal([]byte(os.Getenv(setupVar)), &run); err != nil {
		return fmt.Errorf("%s: %w", setupVar, err)
	}
	_ = os.Unsetenv(setupVar)
	// Nothing that is mounted from here on may reach the host.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	if err := os.MkdirAll(podRoot(), 0o755); err != nil {
		return err
	}
	return makeNetwork()
}

// repository is the root of the module.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, serr := os.Stat(filepath.Join(dir, "go.mod")); serr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run it in its repository")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// output runs a script whose last line is the answer. What it says meanwhile is shown: it may build for minutes.
func output(dir, path string, args ...string) (string, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w", filepath.Base(path), args, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func buildBinary(root, path string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/directoryservice")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the program: %w: %s", err, out)
	}
	// The pod's user has to read it.
	return errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o755))
}
