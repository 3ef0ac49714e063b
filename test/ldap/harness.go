//go:build ldap

package ldap

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/test/kubeapi"
)

// The suites of Debian whose servers the pods run; hack/trees/build.sh tells the versions.
const (
	bookworm = "bookworm" // 2.3.1, bdb
	trixie   = "trixie"   // 3.1.2, mdb, reads bdb
	sid      = "sid"      // 3.3.1 or newer, mdb
)

var suites = []string{bookworm, trixie, sid}

// A service is what the pods of one StatefulSet share: their names, and how they find each other.
type service struct {
	identity naming.Identity
	api      *kubeapi.API

	mu    sync.Mutex
	hosts map[string]string // address by pod
	file  string            // every pod's /etc/hosts
}

// newService is a service without pods. With an API, its pods get a service account's token (podSpec.ServiceAccount)
// and KUBERNETES_SERVICE_HOST and _PORT.
func newService(t *testing.T, name string, api *kubeapi.API) *service {
	t.Helper()
	s := &service{identity: naming.Identity{Name: name, Namespace: "team"}, api: api, hosts: map[string]string{}, file: filepath.Join(workDirectory(t, "hosts"), "hosts")}
	must(t, os.WriteFile(s.file, nil, 0o644))
	s.writeHosts(t)
	return s
}

// startAPI starts a real kube-apiserver that the test and the pods reach.
func startAPI(t *testing.T) *kubeapi.API {
	t.Helper()
	return kubeapi.Start(t, kubeapi.Options{Address: bridgeAddress, Logs: logDirectory(t)})
}

// domain of the pods' names, as the headless Service gives it.
func (s *service) domain() string {
	return s.identity.ServiceInternal() + "." + s.identity.Namespace + ".svc.cluster.local"
}

// publish gives a pod's name an address, and no address with "".
func (s *service) publish(t *testing.T, pod, address string) {
	t.Helper()
	s.mu.Lock()
	if address == "" {
		delete(s.hosts, pod)
	} else {
		s.hosts[pod] = address
	}
	s.mu.Unlock()
	s.writeHosts(t)
}

func (s *service) writeHosts(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := strings.Builder{}
	b.WriteString("127.0.0.1 localhost\n")
	for _, pod := range slices.Sorted(maps.Keys(s.hosts)) {
		fqdn := pod + "." + s.domain()
		svc := strings.TrimSuffix(fqdn, ".cluster.local")
		short := pod + "." + s.identity.ServiceInternal()
		fmt.Fprintf(&b, "%s %s %s %s.%s %s %s\n", s.hosts[pod], fqdn, svc, short, s.identity.Namespace, short, pod)
	}
	// In place: the pods have this very file mounted.
	f, err := os.OpenFile(s.file, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(b.String())
	must(t, err)
	must(t, f.Truncate(int64(b.Len())))
}

// A volume is a pod's persistent volume. It outlives the pod, and goes with the test.
type volume struct {
	path string
	size int64
}

// volumeOwner: root owns it, and the pod's fsGroup may write, as a kubelet has it.
func (v *volume) own(t *testing.T) {
	t.Helper()
	must(t, os.Chown(v.path, 0, serverUser))
	must(t, os.Chmod(v.path, 0o775|os.ModeSetgid))
}

// newVolume is an empty volume. With a size it is a filesystem of its own (ext4) that can run full; without, a
// directory.
func newVolume(t *testing.T, size int64) *volume {
	t.Helper()
	dir := workDirectory(t, "vol")
	v := &volume{path: filepath.Join(dir, "data"), size: size}
	must(t, os.Mkdir(v.path, 0o755))
	if size > 0 {
		image := filepath.Join(dir, "image")
		f, err := os.Create(image)
		must(t, err)
		must(t, f.Truncate(size))
		must(t, f.Close())
		// Without blocks that only root could use: full is full.
		command(t, "mkfs.ext4", "-q", "-m", "0", image)
		command(t, "mount", "-o", "loop", image, v.path)
		t.Cleanup(func() { _ = syscall.Unmount(v.path, syscall.MNT_DETACH) })
	}
	v.own(t)
	return v
}

// Path of a file on the volume, for the test.
func (v *volume) Path(elem ...string) string {
	return filepath.Join(append([]string{v.path}, elem...)...)
}

// Clone is a new volume with the same content: a first start takes 20 s, a copy one. No server may be running on it.
func (v *volume) Clone(t *testing.T) *volume {
	t.Helper()
	c := newVolume(t, v.size)
	command(t, "cp", "-a", "--sparse=always", v.path+"/.", c.path)
	c.own(t)
	return c
}

// balast is the file that fills a volume.
const balast = ".balast"

// Fill leaves so many bytes free on a volume that has a size.
func (v *volume) Fill(t *testing.T, free int64) {
	t.Helper()
	if v.size == 0 {
		t.Fatal("a volume without a size cannot run full: give newVolume one")
	}
	var st syscall.Statfs_t
	must(t, syscall.Statfs(v.path, &st))
	f, err := os.OpenFile(v.Path(balast), os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer f.Close()
	if n := int64(st.Bavail)*st.Bsize - free; n > 0 {
		must(t, syscall.Fallocate(int(f.Fd()), 0, 0, n))
	}
}

// Drain undoes Fill.
func (v *volume) Drain(t *testing.T) {
	t.Helper()
	must(t, os.Remove(v.Path(balast)))
}

// mounted is a Secret or ConfigMap as a kubelet mounts it: the keys are links through ..data, and an update replaces
// that one link, so that all keys change at once and a running pod sees it.
type mounted struct {
	dir  string
	mode os.FileMode
	n    int
}

func newMounted(t *testing.T, secret bool) *mounted {
	t.Helper()
	m := &mounted{dir: workDirectory(t, "mount"), mode: 0o644}
	if secret {
		m.mode = 0o440 // and the fsGroup's
	}
	must(t, os.Chmod(m.dir, 0o755))
	m.Set(t, nil)
	return m
}

// Set replaces the whole content.
func (m *mounted) Set(t *testing.T, files map[string]string) {
	t.Helper()
	m.n++
	version := fmt.Sprintf("..2026_01_01_00_00_00.%09d", m.n)
	must(t, os.Mkdir(filepath.Join(m.dir, version), 0o755))
	for name, content := range files {
		path := filepath.Join(m.dir, version, name)
		must(t, os.WriteFile(path, []byte(content), m.mode))
		must(t, os.Chown(path, 0, serverUser))
		must(t, os.Chmod(path, m.mode))
	}
	data := filepath.Join(m.dir, "..data")
	old, err := os.Readlink(data)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	must(t, os.Symlink(version, data+"_tmp"))
	must(t, os.Rename(data+"_tmp", data))

	links, err := os.ReadDir(m.dir)
	must(t, err)
	for _, l := range links {
		if _, wanted := files[l.Name()]; !wanted && !strings.HasPrefix(l.Name(), "..") {
			must(t, os.Remove(filepath.Join(m.dir, l.Name())))
		}
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(m.dir, old)))
	}
}

// eventually polls until check has nothing to complain about, and otherwise ends the test with its last complaint.
func eventually(t *testing.T, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s, last seen: %v", what, within, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

var directories atomic.Int32

// workDirectory is a new directory that goes with the test.
func workDirectory(t *testing.T, kind string) string {
	t.Helper()
	dir := filepath.Join(run.Base, kind+strconv.Itoa(int(directories.Add(1))))
	must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// logDirectory is the test's own below the logs of this run.
func logDirectory(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(run.Logs, filepath.FromSlash(t.Name()))
	must(t, os.MkdirAll(dir, 0o755))
	return dir
}

// podRoot is where each pod mounts its root filesystem, in a mount namespace of its own.
func podRoot() string {
	if run.Base == "" { // in the pod's first process
		return os.Getenv(rootVar)
	}
	return filepath.Join(run.Base, "root")
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

// tail returns the last lines of a file, for an error message.
func tail(file string, lines int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
