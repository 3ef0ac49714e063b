//go:build ldap

package ldap

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/test/kubeapi/pki"
)

const (
	// soon is when a change of what is mounted has to be there (R11): the agent looks each
	// second, and a busy machine takes its time.
	soon = 10 * time.Second
	// later starts are quicker than the first.
	restart = 90 * time.Second
	person  = "cn=somebody," + suffixDN
)

// TestAgentLife is one server's life on each version, from an empty volume to its end. The
// steps build on each other: a first start takes long.
func TestAgentLife(t *testing.T) {
	api := startAPI(t)
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			l := &life{deployment: newDeployment(t, api), suite: suite, whole: t}
			l.pod = newPod(t, l.spec(t, suite, 0))
			for _, step := range []struct {
				name string
				do   func(*testing.T)
				only string
			}{
				{name: "R6/R16/R52/FirstStart", do: l.firstStart},
				{name: "R11/NoPasswordShown", do: l.noPasswordShown},
				{name: "R11/Password", do: l.passwordChanges},
				{name: "R11/BadPassword", do: l.badPassword},
				{name: "R6/Suffixes", do: l.suffixes},
				{name: "R52/Certificate", do: l.certificate},
				{name: "R52/NewCA", do: l.newCA},
				{name: "R52/InvalidCertificate", do: l.invalidCertificate},
				{name: "Orphans", do: l.orphans, only: trixie},
				{name: "R16/Hangs", do: l.hangs, only: trixie},
				{name: "ServerKilled", do: l.serverKilled},
				{name: "ParentKilled", do: l.parentKilled},
				{name: "AgentKilled", do: l.agentKilled},
				{name: "StoppedWhileStarting", do: l.stoppedWhileStarting},
				{name: "Stopped", do: l.stopped},
			} {
				if step.only != "" && step.only != suite {
					continue
				}
				began := time.Now()
				if !t.Run(step.name, step.do) && !l.pod.Running() {
					t.Fatal("the steps that follow need a server")
				}
				t.Logf("%s: %.1f s", step.name, time.Since(began).Seconds())
			}
		})
	}
}

type life struct {
	*deployment
	pod   *pod
	suite string
	// whole is the test of all steps: what a container needs goes with it.
	whole *testing.T
}

// readyReport has to hold whenever the server is Ready with what is mounted.
func (l *life) readyReport(t *testing.T) report.Report {
	t.Helper()
	doc := l.document(t)[config.Key]
	return l.awaitReport(t, l.pod, 10*time.Second, "that all is well", func(r report.Report) error {
		applied := report.Part{State: report.StateApplied}
		want := report.Report{
			PodUID: l.pod.uid, Version: run.Versions[l.suite], Ready: true, Config: config.Hash(doc),
			DMPassword: applied, TLS: applied, Suffixes: map[string]report.Suffix{},
			Applied: report.Applied{TLS: config.TLSHash(l.pair.Cert, l.ca.PEM)},
		}
		for _, s := range l.config.Suffixes {
			want.Suffixes[s.Name] = ready
		}
		want.BootID, want.Applied.Restart = r.BootID, r.Applied.Restart
		if r.BootID == "" {
			return errors.New("no boot ID")
		}
		if diff := cmp.Diff(want, r); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func (l *life) isReady(t *testing.T) {
	t.Helper()
	l.pod.isReadyNow(t)
}

// hasData: what was written once is still there.
func (l *life) hasData(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff([]string{"Test"}, values(t, l.pod.LDAP(t, l.password), person, "sn")); diff != "" {
		t.Errorf("what was written before is there: -want, +got\n%s", diff)
	}
}

// firstStart: from nothing to a server that has its suffix, its password and its
// certificate, and says so. Until then the probes say that it is not.
func (l *life) firstStart(t *testing.T) {
	l.pod.Start(l.whole)
	asked := l.pod.probe(t, "/startz", "/livez", "/readyz")
	began := time.Now()
	l.pod.awaitReady(t, firstStart)
	t.Logf("Ready after %.1f s", time.Since(began).Seconds())
	addPerson(t, l.pod.LDAP(t, password), person)
	l.pod.LDAPS(t, l.roots(), password)
	l.readyReport(t)
	answers := asked.stop()
	if !slices.Contains(answers["/startz"], "503 not ready: the server is starting") || !slices.Contains(answers["/startz"], "200") {
		t.Errorf("/startz turns from 503 to 200: %q", answers["/startz"])
	}
	if diff := cmp.Diff([]string{"200"}, answers["/livez"]); diff != "" {
		t.Errorf("/livez is true all the time: -want, +got\n%s", diff)
	}
	if all := answers["/readyz"]; slices.Index(all, "200") != len(all)-1 {
		t.Errorf("/readyz once true stays true: %q", all)
	}
	t.Logf("%q", answers)
}

// noPasswordShown: neither the real password, nor the one of the container's environment,
// nor the first random one is anywhere that others look.
func (l *life) noPasswordShown(t *testing.T) {
	for _, p := range l.pod.Processes(t) {
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
		must(t, err)
		if p.Inner != 1 && (strings.Contains(string(environ), "DS_DM_PASSWORD") || strings.Contains(string(environ), l.password)) {
			t.Errorf("%s (%q) has the password in its environment", p.Name, p.Command)
		}
		for _, secret := range []string{l.password, "of the day"} {
			if strings.Contains(strings.Join(p.Command, " "), secret) {
				t.Errorf("%s has the password in its command line", p.Name)
			}
		}
	}
	doc, err := l.report(t, l.pod).String()
	must(t, err)
	log := l.pod.Log(t)
	errorLog, err := os.ReadFile(l.pod.spec.Volume.Path("logs", "errors"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the log": log, "the report": doc, "the server's log": string(errorLog)} {
		for _, secret := range []string{l.password, "of the day when"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows the password %q", where, secret)
			}
		}
	}
	const before = `Set cn=Directory Manager password to "`
	if i := strings.Index(log, before); i < 0 || !strings.HasPrefix(log[i+len(before):], "(withheld)\n") || strings.Count(log, before) != 1 {
		t.Error("the log shows the first, random password, or this dscontainer says it in other words")
	}
	if strings.Contains(log, "Root DN password: ") && !strings.Contains(log, "Root DN password: (withheld)") {
		t.Error("the log shows the first, random password, of lib389's debug output")
	}
}

// passwordChanges are applied live, and put right where somebody else changed it.
func (l *life) passwordChanges(t *testing.T) {
	before, pid := l.report(t, l.pod), l.pod.serverPID(t)
	old := l.password
	l.password = "another password of the test"
	l.pod.Mount(t, "dm-password", map[string]string{"dm-password": l.password + "\n"})
	binds := func() error {
		c, err := l.pod.TryLDAP(l.password)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	eventually(t, soon, "the new password is the Directory Manager's", binds)
	if _, err := l.pod.TryLDAP(old); !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
		t.Errorf("the old password: want invalid credentials, got %v", err)
	}

	r := ldap.NewModifyRequest("cn=config", nil)
	r.Replace("nsslapd-rootpw", []string{"by hand"})
	must(t, l.pod.LDAPI(t).Modify(r))
	if binds() == nil {
		t.Error("somebody else's password was set, and the mounted one still works")
	}
	// What is mounted changes: the next pass is now, and not in a minute.
	l.mountConfig(t, l.pod, func(c *config.Config) { c.BackupConfirmed = "3.1.0->3.1.1" })
	eventually(t, soon, "the mounted password is back", binds)
	after := l.readyReport(t)
	if before.BootID != after.BootID || pid != l.pod.serverPID(t) {
		t.Errorf("the server was restarted: boot %s, was %s", after.BootID, before.BootID)
	}
}

// badPassword: a mistake in the Secret takes no server from its clients.
func (l *life) badPassword(t *testing.T) {
	for name, content := range map[string]map[string]string{
		"Empty":   {"dm-password": "\n"},
		"Missing": {},
		// The server takes it for a hash.
		"Scheme": {"dm-password": "{SSHA}nonsense"},
		// It crashes when it hashes it.
		"NoText": {"dm-password": "nonsense\xff\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			l.pod.Mount(t, "dm-password", content)
			r := l.awaitReport(t, l.pod, soon, "a bad password", func(r report.Report) error {
				if r.DMPassword.State != report.StateFailed {
					return errors.New("not failed")
				}
				return nil
			})
			if !r.Ready || strings.Contains(r.DMPassword.Message, "nonsense") {
				t.Errorf("want a Ready server and a message without the password: %+v", r)
			}
			l.isReady(t)
			l.pod.Mount(t, "dm-password", map[string]string{"dm-password": l.password})
			l.readyReport(t)
		})
	}
}

// suffixes come with the mounted document.
func (l *life) suffixes(t *testing.T) {
	good := slices.Clone(l.config.Suffixes)
	good = append(good, suffix("second", "dc=second"))
	l.mountConfig(t, l.pod, func(c *config.Config) { c.Suffixes = good })
	eventually(t, soon, "the second suffix is there", func() error {
		c := l.pod.LDAP(t, l.password)
		_, err := c.Search(ldap.NewSearchRequest("dc=second", ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", nil, nil))
		return err
	})
	l.readyReport(t)

	l.mountConfig(t, l.pod, func(c *config.Config) { c.Suffixes = append(slices.Clone(good), suffix("bad", "is no DN")) })
	r := l.awaitReport(t, l.pod, soon, "that a suffix cannot be made", func(r report.Report) error {
		if r.Suffixes["bad"].State != report.SuffixFailed {
			return errors.New("not failed")
		}
		return nil
	})
	if !r.Ready || r.Suffixes["bad"].Message == "" {
		t.Errorf("want a Ready server and a message: %+v", r)
	}
	l.isReady(t)

	l.pod.Mount(t, "config", map[string]string{config.Key: "{"})
	r = l.awaitReport(t, l.pod, soon, "a document that it cannot read", func(r report.Report) error {
		if !strings.Contains(r.Message, "cannot parse config.json") {
			return errors.New("no such message")
		}
		return nil
	})
	if !r.Ready {
		t.Errorf("want a Ready server: %+v", r)
	}
	l.isReady(t)
	l.mountConfig(t, l.pod, func(c *config.Config) { c.Suffixes = good })
	l.readyReport(t)
}

// serves says whether LDAPS serves that very certificate.
func (l *life) serves(t *testing.T, pair pki.Pair) error {
	t.Helper()
	c, err := l.pod.TryTLS(l.roots())
	if err != nil {
		return err
	}
	defer c.Close()
	block, _ := pem.Decode(pair.Cert)
	want, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	if !c.ConnectionState().PeerCertificates[0].Equal(want) {
		return errors.New("it serves another certificate")
	}
	return nil
}

// certificate: a new one is served after a restart, which needs a permit of its own.
func (l *life) certificate(t *testing.T) {
	old, before := l.pair, l.report(t, l.pod)
	must(t, l.serves(t, old))
	hash := l.mountTLS(t, l.pod, l.issue(t))
	pending := func(r report.Report) error {
		if r.Restart != hash || r.TLS.State != report.StatePending || !r.Ready || r.BootID != before.BootID || r.Applied.TLS == hash {
			return errors.New("not so")
		}
		return nil
	}
	l.awaitReport(t, l.pod, soon, "that it waits for a permit", pending)
	// Another server's, and one for something else.
	for _, permit := range []config.Restart{{Ordinal: 1, Hash: hash}, {Ordinal: 0, Hash: "another"}} {
		l.mountConfig(t, l.pod, func(c *config.Config) { c.Restart = &permit })
		doc := l.document(t)[config.Key]
		l.awaitReport(t, l.pod, soon, "that it has seen the document, and waits", func(r report.Report) error {
			if r.Config != config.Hash(doc) {
				return errors.New("it has not seen the document")
			}
			return pending(r)
		})
	}
	must(t, l.serves(t, old))

	asked := l.pod.probe(t, "/livez", "/readyz")
	l.mountConfig(t, l.pod, func(c *config.Config) { c.Restart = &config.Restart{Ordinal: 0, Hash: hash} })
	l.awaitRestart(t, before, hash)
	answers := asked.stop()
	if diff := cmp.Diff([]string{"200"}, answers["/livez"]); diff != "" {
		t.Errorf("/livez is true all the time: -want, +got\n%s", diff)
	}
	if all := answers["/readyz"]; len(all) < 3 || all[0] != "200" || all[len(all)-1] != "200" {
		t.Errorf("/readyz is false during the restart: %q", all)
	}
	t.Logf("%q", answers["/readyz"])
}

// awaitRestart waits for a permitted restart and looks at what it applied.
func (l *life) awaitRestart(t *testing.T, before report.Report, hash string) {
	t.Helper()
	l.awaitReport(t, l.pod, restart, "the restart", func(r report.Report) error {
		if r.BootID == before.BootID || !r.Ready {
			return errors.New("it has not restarted yet")
		}
		return nil
	})
	r := l.readyReport(t)
	if diff := cmp.Diff(report.Applied{TLS: hash, Restart: hash}, r.Applied); diff != "" {
		t.Errorf("applied: -want, +got\n%s", diff)
	}
	must(t, l.serves(t, l.pair))
	if l.pod.starts != 1 || !l.pod.Running() {
		t.Error("the container was started again")
	}
	l.hasData(t)
}

// newCA: the one before is trusted no longer.
func (l *life) newCA(t *testing.T) {
	before := l.report(t, l.pod)
	var err error
	// Of the same name, as a CA that was renewed.
	l.ca, err = pki.NewAuthority("test CA")
	must(t, err)
	hash := l.mountTLS(t, l.pod, l.issue(t))
	l.mountConfig(t, l.pod, func(c *config.Config) { c.Restart = &config.Restart{Ordinal: 0, Hash: hash} })
	l.awaitRestart(t, before, hash)
	files, err := filepath.Glob(l.pod.spec.Volume.Path("tls", "ca", "*"))
	must(t, err)
	if len(files) != 1 {
		t.Errorf("want the new CA's file alone, got %q", files)
	}
	out, err := l.pod.Exec(t, "certutil", "-L", "-d", "/data/config")
	must(t, err)
	if n := strings.Count(out, "/data/tls/ca/"); n != 1 {
		t.Errorf("want the new CA alone in the NSS database:\n%s", out)
	}
}

// invalidCertificate: the server goes on with the one that it has.
func (l *life) invalidCertificate(t *testing.T) {
	good, before := l.pair, l.report(t, l.pod)
	other := l.issue(t)
	l.pod.Mount(t, "tls", pki.Pair{Cert: other.Cert, Key: good.Key}.Files(l.ca.PEM))
	r := l.awaitReport(t, l.pod, soon, "a certificate that it cannot use", func(r report.Report) error {
		if r.TLS.State != report.StateFailed {
			return errors.New("not failed")
		}
		return nil
	})
	if !r.Ready || r.BootID != before.BootID || r.Restart != "" || !strings.Contains(r.TLS.Message, "tls.key") {
		t.Errorf("want a Ready server that wants nothing, and a message that says what to do: %+v", r)
	}
	l.isReady(t)
	must(t, l.serves(t, good))
	l.mountTLS(t, l.pod, good)
	l.readyReport(t)
}

// orphans of what people run in the container are reaped.
func (l *life) orphans(t *testing.T) {
	for range 5 {
		_, err := l.pod.Exec(t, "sh", "-c", "(sleep 0.2 & sleep 0.3 &)")
		must(t, err)
	}
	zombies := func() error {
		out, err := l.pod.Exec(t, "sh", "-c", `cat /proc/[0-9]*/stat | grep -F ') Z ' || true`)
		if err == nil && out != "" {
			err = fmt.Errorf("zombies: %s", out)
		}
		return err
	}
	time.Sleep(500 * time.Millisecond)
	eventually(t, soon, "no zombies", zombies)
}

// hangs: a server that does not answer is not Ready, then not alive, and Ready again when
// it answers.
func (l *life) hangs(t *testing.T) {
	before := l.report(t, l.pod)
	l.pod.SignalServer(t, syscall.SIGSTOP)
	fails := func(path string) func() error {
		return func() error {
			if code, _, err := l.pod.HTTP(path); code != 503 {
				return errors.Join(fmt.Errorf("the answer is %d", code), err)
			}
			return nil
		}
	}
	began := time.Now()
	eventually(t, 35*time.Second, "not Ready", fails("/readyz"))
	t.Logf("not Ready after %.0f s", time.Since(began).Seconds())
	if code, body, err := l.pod.HTTP("/livez"); code != 200 {
		t.Errorf("not alive after %.0f s already: %d %s %v", time.Since(began).Seconds(), code, body, err)
	}
	l.awaitReport(t, l.pod, 40*time.Second, "that it is not Ready", func(r report.Report) error {
		if r.Ready || r.Message == "" {
			return errors.New("Ready")
		}
		return nil
	})
	eventually(t, 75*time.Second-time.Since(began), "not alive", fails("/livez"))
	t.Logf("not alive after %.0f s", time.Since(began).Seconds())
	l.pod.SignalServer(t, syscall.SIGCONT)
	began = time.Now()
	l.pod.awaitReady(t, 15*time.Second)
	t.Logf("Ready again after %.1f s", time.Since(began).Seconds())
	if r := l.readyReport(t); r.BootID != before.BootID {
		t.Errorf("it was restarted: %+v", r)
	}
	if code, _, err := l.pod.HTTP("/livez"); code != 200 {
		t.Errorf("/livez: %d %v", code, err)
	}
}

// again starts the container again, to a server that is Ready with its data.
func (l *life) again(t *testing.T, boot string) {
	t.Helper()
	l.pod.Restart(l.whole)
	began := time.Now()
	l.pod.awaitReady(t, restart)
	t.Logf("Ready after %.1f s", time.Since(began).Seconds())
	l.hasData(t)
	if r := l.readyReport(t); r.BootID == boot {
		t.Errorf("the boot ID is new at each start: %s", boot)
	}
	must(t, l.serves(t, l.pair))
}

// failed: the container ended with an error that a person understands, and no secret.
func (l *life) failed(t *testing.T, e exit) {
	t.Helper()
	t.Logf("%+v", e)
	if e.Code == 0 || !strings.HasPrefix(e.Message, "the server ended by itself (") || strings.Contains(e.Message, l.password) {
		t.Errorf("want an exit code and a message, got %+v", e)
	}
}

func (l *life) serverKilled(t *testing.T) {
	boot := l.report(t, l.pod).BootID
	l.pod.KillServer(t)
	l.failed(t, l.pod.Wait(t, 30*time.Second))
	l.again(t, boot)
}

// parentKilled: dscontainer is killed, and the server below it ends cleanly with it.
func (l *life) parentKilled(t *testing.T) {
	boot := l.report(t, l.pod).BootID
	for _, p := range l.pod.Processes(t) {
		if strings.Contains(strings.Join(p.Command, " "), "python") && strings.Contains(strings.Join(p.Command, " "), "dscontainer") {
			must(t, syscall.Kill(p.PID, syscall.SIGKILL))
		}
	}
	l.failed(t, l.pod.Wait(t, 30*time.Second))
	l.clean(t)
	l.again(t, boot)
}

func (l *life) agentKilled(t *testing.T) {
	boot := l.report(t, l.pod).BootID
	l.pod.Kill(t)
	l.again(t, boot)
}

// clean: a Berkeley DB that was closed says so.
func (l *life) clean(t *testing.T) {
	t.Helper()
	if l.suite != bookworm {
		return
	}
	if b, err := os.ReadFile(l.pod.spec.Volume.Path("db", "guardian")); err != nil || !strings.Contains(string(b), "cachesize:") {
		t.Errorf("the database was not closed cleanly: %q %v", b, err)
	}
}

func (l *life) stoppedWhileStarting(t *testing.T) {
	boot := l.report(t, l.pod).BootID
	for name, until := range map[string]func() bool{
		"Agent": func() bool { _, _, err := l.pod.HTTP("/livez"); return err == nil },
		"Server": func() bool {
			return slices.ContainsFunc(l.pod.Processes(t), func(p process) bool { return p.Name == "ns-slapd" && slices.Contains(p.Command, "-D") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			if l.pod.Running() {
				l.pod.Stop(t, terminationGrace)
			}
			l.pod.Restart(l.whole)
			for !until() {
				time.Sleep(10 * time.Millisecond)
			}
			began := time.Now()
			if diff := cmp.Diff(exit{}, l.pod.Stop(t, 30*time.Second)); diff != "" {
				t.Errorf("-want, +got\n%s\n%s", diff, l.pod.Log(t))
			}
			t.Logf("stopped after %.1f s", time.Since(began).Seconds())
			l.clean(t)
		})
	}
	l.again(t, boot)
}

func (l *life) stopped(t *testing.T) {
	began := time.Now()
	if diff := cmp.Diff(exit{}, l.pod.Stop(t, terminationGrace)); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	t.Logf("stopped after %.1f s", time.Since(began).Seconds())
	l.clean(t)
	l.awaitReport(t, l.pod, time.Second, "its end", func(r report.Report) error {
		if r.Ready || r.Message != "the server was stopped" {
			return errors.New("not so")
		}
		return nil
	})
}
