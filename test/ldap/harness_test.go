//go:build ldap

package ldap

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/test/kubeapi/pki"
)

// script is a container that runs a shell script.
func script(s string) []string { return []string{"sh", "-euc", s} }

// runScript runs a script in a pod to its end, which has to be a good one, and returns what it printed.
func runScript(t *testing.T, spec podSpec, s string) string {
	t.Helper()
	spec.Command = script(s)
	p := startPod(t, spec)
	if diff := cmp.Diff(exit{}, p.Wait(t, time.Minute)); diff != "" {
		t.Fatalf("-want, +got\n%s\n%s", diff, p.Log(t))
	}
	return p.Log(t)
}

// TestContainer holds the containers to what a kubelet and Pod Security `restricted` would make of the composed pods.
// The agent must not pass here with rights that it will not have there.
func TestContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		script string
		want   string
	}{
		"User": {
			reason: "The server's user, its group alone, and the fsGroup.",
			script: `id -u; id -g; id -G`,
			want:   "389\n389\n389\n",
		},
		"Rights": {
			reason: "No capability, not even one that could be regained, and no way to new ones.",
			script: `grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\t'`,
			want:   "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\n",
		},
		"Namespaces": {
			reason: "PID 1, its own host name, and no other processes.",
			script: `echo $$; uname -n; cat /etc/hostname; hostname -f; ls -d /proc/[0-9]* | head -n1; ls /sys/class/net | tr '\n' ' '`,
			want:   "1\nds-0\nds-0\nds-0.ds-internal.team.svc.cluster.local\n/proc/1\neth0 lo ",
		},
		"Files": {
			reason: "A read-only root, and the places that a server needs writable.",
			script: `for d in / /etc /run /var/tmp /etc/directoryservice/config /opt/directoryservice /data /tmp /dev/shm; do
				touch $d/x 2>/dev/null && echo "$d: writable" || echo "$d: not"; done; stat -c '%U:%G %a' /data`,
			want: "/: not\n/etc: not\n/run: not\n/var/tmp: not\n/etc/directoryservice/config: not\n/opt/directoryservice: not\n" +
				"/data: writable\n/tmp: writable\n/dev/shm: writable\nroot:dirsrv 2775\n",
		},
		"Devices": {
			reason: "Devices of its own, that it can use.",
			script: `echo lost >/dev/null; head -c1 /dev/zero | od -An -tx1; head -c8 /dev/urandom | wc -c; (echo >/dev/full) 2>/dev/null || echo full; ls -A /dev | tr '\n' ' '`,
			want:   " 00\n8\nfull\nfd full null random shm stderr stdin stdout termination-log tty urandom zero ",
		},
		"SharedMemory": {
			reason: "As little shared memory as a container has.",
			script: `df -k /dev/shm | tail -n1 | tr -s ' ' | cut -d' ' -f2`,
			want:   "65536\n",
		},
		"Environment": {
			reason: "What the pod's fields say, and nothing of the test's.",
			script: `env | grep -v ^PWD= | sed 's/UID=.*-.*-.*/UID=uid/' | sort`,
			want:   "GREETING=hello from ds-0\nHOME=/data\nHOSTNAME=ds-0\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPOD_NAMESPACE=team\nPOD_UID=uid\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := runScript(t, podSpec{Env: map[string]string{"GREETING": "hello from $(POD_NAME)", "POD_UID": "$(POD_UID)", "POD_NAMESPACE": "$(POD_NAMESPACE)"}}, tc.script)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestSuites holds each root tree to the layout of the upstream image.
func TestSuites(t *testing.T) {
	for suite, version := range map[string]string{bookworm: "389-Directory/2.3.1", trixie: "389-Directory/3.1.2", sid: "389-Directory/"} {
		t.Run(suite, func(t *testing.T) {
			got := runScript(t, podSpec{Suite: suite}, `ns-slapd -v 2>&1 | grep -o '389-Directory/[0-9.]*'; id dirsrv; readlink /etc/dirsrv/slapd-localhost /etc/dirsrv/ssca /run/dirsrv; test -x `+dscontainer)
			if suite == sid { // it moves
				_, rest, _ := strings.Cut(got, "\n")
				got = version + "\n" + rest
			}
			want := version + "\nuid=389(dirsrv) gid=389(dirsrv) groups=389(dirsrv)\n/data/config\n/data/ssca\n/data/run\n"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want, +got\n%s", diff)
			}
		})
	}
}

// TestLife is about how containers end and what comes after.
func TestLife(t *testing.T) {
	const obedient = `trap 'echo -n bye >/dev/termination-log; exit 7' TERM; echo started >>/data/starts; while :; do sleep 0.1; done`
	started := func(p *pod) func() error {
		return func() error {
			b, err := os.ReadFile(p.spec.Volume.Path("starts"))
			if err == nil && strings.Count(string(b), "started") != p.starts {
				err = fmt.Errorf("started: %q, want %d times", b, p.starts)
			}
			return err
		}
	}

	p := startPod(t, podSpec{Command: script(obedient)})
	uid, address := p.uid, p.address
	eventually(t, 10*time.Second, "a container that runs", started(p))
	if diff := cmp.Diff(exit{Code: 7, Message: "bye"}, p.Stop(t, 10*time.Second)); diff != "" {
		t.Errorf("a container that heeds SIGTERM: -want, +got\n%s", diff)
	}

	p.Restart(t)
	eventually(t, 10*time.Second, "its second container", started(p))
	if p.uid != uid || p.address != address {
		t.Errorf("a kubelet's retry is the same pod: UID %s, want %s; address %s, want %s", p.uid, uid, p.address, address)
	}
	if diff := cmp.Diff(exit{Code: 128 + int(syscall.SIGKILL)}, p.Kill(t)); diff != "" {
		t.Errorf("a killed container says nothing: -want, +got\n%s", diff)
	}

	p.Replace(t, func(s *podSpec) {
		s.Suite, s.Command = bookworm, script(`trap '' TERM; echo started >>/data/starts; while :; do sleep 0.1; done`)
	})
	eventually(t, 10*time.Second, "its successor", started(p))
	if p.uid == uid || p.address == address {
		t.Errorf("a new pod has another UID and address: %s, %s", p.uid, p.address)
	}
	if diff := cmp.Diff(exit{Code: 128 + int(syscall.SIGKILL)}, p.Stop(t, time.Second)); diff != "" {
		t.Errorf("a container that does not heed SIGTERM is killed: -want, +got\n%s", diff)
	}
}

// TestMounts changes what is mounted while the container runs.
func TestMounts(t *testing.T) {
	p := startPod(t, podSpec{
		Mounts:  map[string]map[string]string{"dm-password": {"dm-password": "old"}, "tls": {"a": "1", "b": "1"}},
		Command: script(`while :; do sleep 1; done`),
	})
	show := func() string {
		out, err := p.Exec(t, "sh", "-c", `cd /etc/directoryservice; head -n 9 config/* dm-password/* tls/* 2>&1; id -u`)
		must(t, err)
		return out
	}
	want := "head: cannot open 'config/*' for reading: No such file or directory\n==> dm-password/dm-password <==\nold\n==> tls/a <==\n1\n==> tls/b <==\n1389\n"
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	p.Mount(t, "dm-password", map[string]string{"dm-password": "new"})
	p.Mount(t, "tls", map[string]string{"b": "2"})
	p.Mount(t, "config", map[string]string{"config.json": "{}"})
	want = "==> config/config.json <==\n{}\n==> dm-password/dm-password <==\nnew\n==> tls/b <==\n2389\n"
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
}

// TestNetwork lets pods talk to each other, to the API server with the rights of their service account, and to the
// test.
func TestNetwork(t *testing.T) {
	api := startAPI(t)
	svc := newService(t, "my-ds", api)
	serve := []string{"python3", "-um", "http.server", "8389"}
	peer := startPod(t, podSpec{Service: svc, Ordinal: 1, Command: serve})
	stranger := startPod(t, podSpec{Service: newService(t, "other", nil), Command: serve})
	for _, p := range []*pod{peer, stranger} {
		eventually(t, 10*time.Second, p.name+" answers the test", func() error {
			status, _, err := p.HTTP("/etc/hostname")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("status %d", status)
			}
			return err
		})
	}

	get := `import os, ssl, sys, urllib.request as r, urllib.error as e
sa = '/var/run/secrets/kubernetes.io/serviceaccount/'
def get(url, headers={}):
    try:
        with r.urlopen(r.Request(url, headers=headers), timeout=10, context=ssl.create_default_context(cafile=sa+'ca.crt') if url.startswith('https') else None) as a:
            return a.status
    except e.HTTPError as x: return x.code
    except OSError as x: return type(x).__name__
api = 'https://%s:%s/api/v1/namespaces/team/configmaps/' % (os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT'])
bearer = {'Authorization': 'Bearer ' + open(sa+'token').read()}
print('peer', get('http://` + peer.FQDN() + `:8389/'), get('http://my-ds-1.my-ds-internal:8389/'))
print('unknown', get('http://` + stranger.FQDN() + `:8389/'))
print('api', get(api+'x'), get(api+'x', bearer), get('https://%s:%s/version' % (os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT']), bearer))
`
	p := startPod(t, podSpec{Service: svc, ServiceAccount: "my-ds", Command: []string{"python3", "-c", get}})
	if e := p.Wait(t, time.Minute); e.Code != 0 {
		t.Fatalf("%+v\n%s", e, p.Log(t))
	}
	// Anonymously and as a service account without a Role: 403. What everybody may read: 200.
	if diff := cmp.Diff("peer 200 200\nunknown URLError\napi 403 403 200\n", p.Log(t)); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}

	api.StopServer(t)
	p.Restart(t)
	if e := p.Wait(t, time.Minute); e.Code != 0 {
		t.Fatalf("%+v\n%s", e, p.Log(t))
	}
	if diff := cmp.Diff("peer 200 200\nunknown URLError\napi URLError URLError URLError\n", p.Log(t)); diff != "" {
		t.Errorf("an outage of the API: -want, +got\n%s", diff)
	}
	api.StartServer(t)
}

// TestVolumes fills a volume, drains it and copies it.
func TestVolumes(t *testing.T) {
	v := newVolume(t, 64<<20)
	write := `head -c 1M /dev/zero >/data/x 2>/tmp/err && echo written || grep -o 'No space left' /tmp/err; rm -f /data/x`
	if got := runScript(t, podSpec{Volume: v}, write); got != "written\n" {
		t.Errorf("an empty volume: %q", got)
	}
	v.Fill(t, 256<<10)
	if got := runScript(t, podSpec{Volume: v}, write); got != "No space left\n" {
		t.Errorf("a full volume: %q", got)
	}
	v.Drain(t)
	runScript(t, podSpec{Volume: v}, `mkdir /data/config; umask 077; echo content >/data/config/file`)
	show := `cat /data/config/file; stat -c '%U:%G %a' /data /data/config/file`
	if got, want := runScript(t, podSpec{Volume: v.Clone(t)}, show), "content\nroot:dirsrv 2775\ndirsrv:dirsrv 600\n"; got != want {
		t.Errorf("a copy: %q, want %q", got, want)
	}
}

// TestServer crashes a server below dscontainer, and connects to it in every way.
func TestServer(t *testing.T) {
	v := newVolume(t, 0)
	ca, err := pki.NewAuthority("test")
	must(t, err)
	p := newPod(t, podSpec{Volume: v, Command: plain, Env: map[string]string{"DS_DM_PASSWORD": password}})
	pair, err := ca.Issue(pki.Request{Names: []string{p.FQDN()}})
	must(t, err)
	must(t, os.MkdirAll(v.Path("tls", "ca"), 0o755))
	for name, content := range map[string][]byte{"server.crt": pair.Cert, "server.key": pair.Key, "ca/ca.crt": ca.PEM} {
		path := v.Path("tls", name)
		must(t, os.WriteFile(path, content, 0o600))
		must(t, os.Chown(path, serverUser, serverUser))
	}
	p.Start(t)
	p.AwaitLDAP(t, firstStart, password)
	for name, vendor := range map[string]func() []string{
		"LDAP":  func() []string { return values(t, p.LDAP(t, password), "", "vendorName") },
		"LDAPS": func() []string { return values(t, p.LDAPS(t, ca.Pool(), password), "", "vendorName") },
		"LDAPI": func() []string { return values(t, p.LDAPI(t), "", "vendorName") },
	} {
		if diff := cmp.Diff([]string{"389 Project"}, vendor()); diff != "" {
			t.Errorf("%s: -want, +got\n%s", name, diff)
		}
	}
	other, err := pki.NewAuthority("other")
	must(t, err)
	if _, err := p.TryLDAPS(other.Pool(), password); err == nil {
		t.Error("LDAPS trusts a CA that did not sign the certificate")
	}
	if _, err := p.TryLDAP("another password"); err == nil {
		t.Error("the Directory Manager binds with a wrong password")
	}

	p.SignalServer(t, syscall.SIGSTOP)
	c, err := p.Dial(3389)
	must(t, err) // the kernel answers for a server that hangs
	_ = c.Close()
	p.SignalServer(t, syscall.SIGCONT)

	p.KillServer(t)
	t.Logf("dscontainer, when ns-slapd was killed: %+v", p.Wait(t, time.Minute))
	p.Restart(t)
	p.AwaitLDAP(t, firstStart, password)
}
