//go:build ldap

package ldap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Descriptors of a pod's first process, besides the standard ones.
const (
	fdSpec   = 3 // what to become
	fdFailed = 4 // why it could not; closed by a successful exec
)

// prctl's, which package syscall does not name.
const (
	prCapbsetDrop  = 24
	prSetNoNewPriv = 38
)

// serverUser is the uid and gid of every process in a pod, and its fsGroup.
const serverUser = 389

// initSpec is what a pod's first process makes of itself.
type initSpec struct {
	Tree     string
	Hostname string
	Address  string // with the prefix length
	Mounts   []bind
	Env      []string
	Command  []string
}

// bind is a file or directory of ours in the pod.
type bind struct {
	Source, Target string
	Writable       bool
}

// becomePod is the third stage; it returns only on failure.
func becomePod() error {
	failed := os.NewFile(fdFailed, "failed")
	syscall.CloseOnExec(fdFailed)
	err := tryBecomePod()
	_, _ = io.WriteString(failed, err.Error())
	return err
}

func tryBecomePod() error {
	// Rights belong to a thread: the one that drops them has to be the one that execs.
	runtime.LockOSThread()
	f := os.NewFile(fdSpec, "spec")
	var s initSpec
	// The end of it also tells that the network interface is here.
	if err := json.NewDecoder(f).Decode(&s); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	_ = f.Close()
	if err := syscall.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := ip("link set lo up", "addr add "+s.Address+" dev eth0", "link set eth0 up"); err != nil {
		return err
	}
	if err := enterRoot(s); err != nil {
		return err
	}
	if err := dropRights(); err != nil {
		return err
	}
	for _, e := range s.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			_ = os.Setenv("PATH", path)
		}
	}
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, s.Command, s.Env))
}

// enterRoot makes the container's root filesystem and leaves ours.
func enterRoot(s initSpec) error {
	root := podRoot()
	m := &mounter{root: root}
	m.mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	m.mount(s.Tree, root, "", syscall.MS_BIND, "")
	const safe = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	m.mount("proc", root+"/proc", "proc", safe, "")
	m.mount("sysfs", root+"/sys", "sysfs", safe|syscall.MS_RDONLY, "")
	m.mount("tmpfs", root+"/tmp", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777")
	m.devices()
	for _, b := range s.Mounts {
		m.bind(b)
	}
	m.mount("", root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NODEV, "")
	if m.err != nil {
		return m.err
	}
	// The old root goes below the new one, and away.
	return errors.Join(os.Chdir(root), syscall.PivotRoot(".", "."), syscall.Unmount(".", syscall.MNT_DETACH), os.Chdir("/"))
}

// mounter keeps the first error.
type mounter struct {
	root string
	err  error
}

func (m *mounter) do(what string, f func() error) {
	if m.err == nil {
		if err := f(); err != nil {
			m.err = fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (m *mounter) mount(source, target, kind string, flags uintptr, data string) {
	m.do("mount "+target, func() error { return syscall.Mount(source, target, kind, flags, data) })
}

func (m *mounter) bind(b bind) {
	target := filepath.Join(m.root, b.Target)
	m.mount(b.Source, target, "", syscall.MS_BIND, "")
	if !b.Writable {
		m.mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, "")
	}
}

// devices makes a /dev of the pod's own: a server's first start as root has been seen to change the mode of the
// host's /dev/null.
func (m *mounter) devices() {
	dev := filepath.Join(m.root, "dev")
	m.mount("tmpfs", dev, "tmpfs", syscall.MS_NOSUID, "mode=755,size=64k")
	const memory, terminal = 1 << 8, 5 << 8 // major numbers
	for name, number := range map[string]int{"null": memory | 3, "zero": memory | 5, "full": memory | 7, "random": memory | 8, "urandom": memory | 9, "tty": terminal} {
		path := filepath.Join(dev, name)
		m.do(path, func() error {
			// The umask would take rights away.
			return errors.Join(syscall.Mknod(path, syscall.S_IFCHR|0o666, number), os.Chmod(path, 0o666))
		})
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		m.do(name, func() error { return os.Symlink(target, filepath.Join(dev, name)) })
	}
	shm := filepath.Join(dev, "shm")
	m.do(shm, func() error { return os.Mkdir(shm, 0o777) })
	m.mount("tmpfs", shm, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "mode=1777,size=64m")
	// The mount point of the termination message.
	m.do("termination-log", func() error { return os.WriteFile(filepath.Join(m.root, terminationLog), nil, 0o666) })
}

// dropRights is the pod's and the container's security context: Pod Security `restricted`.
func dropRights() error {
	prctl := func(option, arg uintptr) error {
		if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, arg, 0, 0, 0, 0); e != 0 {
			return e
		}
		return nil
	}
	for c := uintptr(0); ; c++ {
		err := prctl(prCapbsetDrop, c)
		if errors.Is(err, syscall.EINVAL) {
			break // behind the last one
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	if err := prctl(prSetNoNewPriv, 1); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	syscall.Umask(0o022)
	return errors.Join(
		syscall.Setgroups([]int{serverUser}),
		syscall.Setresgid(serverUser, serverUser, serverUser),
		syscall.Setresuid(serverUser, serverUser, serverUser), // and with it the remaining capabilities
	)
}
