//go:build ldap

package ldap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/test/kubeapi/pki"
)

// whyNotReady waits until the readiness probe names a reason.
func (p *pod) whyNotReady(t *testing.T, within time.Duration, reason string) {
	t.Helper()
	eventually(t, within, p.name+" is not Ready, for it "+reason, func() error {
		if !p.Running() {
			t.Fatalf("%s has ended: %s", p.name, p.Log(t))
		}
		code, body, err := p.HTTP("/readyz")
		if err == nil && (code != 503 || !strings.Contains(body, reason)) {
			err = fmt.Errorf("%d %s", code, strings.TrimSpace(body))
		}
		return err
	})
}

// TestAgentFirstStartGoesWrong: a container that is stopped while its server is made, and a
// certificate that no server can use. The container is not started again for either.
func TestAgentFirstStartGoesWrong(t *testing.T) {
	api := startAPI(t)
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			d := newDeployment(t, api)
			nameless, err := d.ca.Issue(pki.Request{Names: []string{"*.ds-internal.team.svc.cluster.local"}, NoSubject: true})
			must(t, err)
			d.pair = nameless
			p := startPod(t, d.spec(t, suite, 0))
			eventually(t, time.Minute, "the server is being made", func() error {
				_, err := os.Stat(p.spec.Volume.Path("config", "dse.ldif"))
				return err
			})
			began := time.Now()
			if diff := cmp.Diff(exit{}, p.Stop(t, 60*time.Second)); diff != "" {
				t.Errorf("-want, +got\n%s\n%s", diff, p.Log(t))
			}
			t.Logf("stopped after %.1f s", time.Since(began).Seconds())

			p.Restart(t)
			began = time.Now()
			p.AwaitLDAP(t, firstStart, password)
			p.whyNotReady(t, time.Minute, "LDAPS: the certificate has no subject")
			r := d.awaitReport(t, p, 10*time.Second, "what is wrong", func(r report.Report) error {
				if r.Ready || r.TLS.State != report.StateFailed {
					return errors.New("not so")
				}
				return nil
			})
			if !strings.Contains(r.TLS.Message, "spec.commonName") || r.Suffixes["userroot"].State != report.SuffixReady || r.DMPassword.State != report.StateApplied {
				t.Errorf("want a message that says what to do, and all else applied: %+v", r)
			}
			t.Logf("up after %.1f s", time.Since(began).Seconds())
			p.Mount(t, "tls", d.issue(t).Files(d.ca.PEM))
			began = time.Now()
			p.awaitReady(t, time.Minute)
			t.Logf("Ready %.1f s after the certificate came", time.Since(began).Seconds())
			p.LDAPS(t, d.roots(), password)
			if p.starts != 2 {
				t.Error("the container was started again")
			}
		})
	}
}

// TestAgentServers: what a server does about a suffix whose data are not its to make.
func TestAgentServers(t *testing.T) {
	d := newDeployment(t, startAPI(t))
	empty := func(t *testing.T, p *pod) {
		t.Helper()
		if _, err := p.LDAPI(t).Search(ldap.NewSearchRequest(suffixDN, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", nil, nil)); !ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) {
			t.Errorf("want a suffix without any entry, got %v", err)
		}
	}
	seen := func(t *testing.T, p *pod, ready bool) report.Report {
		t.Helper()
		doc := d.document(t)[config.Key]
		return d.awaitReport(t, p, 20*time.Second, "that it has seen the document", func(r report.Report) error {
			if r.Config != config.Hash(doc) || r.Ready != ready {
				return fmt.Errorf("want ready %t", ready)
			}
			return nil
		})
	}

	t.Run("SecondWithoutPeers", func(t *testing.T) {
		p := startPod(t, d.spec(t, trixie, 1))
		p.awaitReady(t, firstStart)
		if r := seen(t, p, true); r.Suffixes["userroot"].State != report.SuffixWaiting {
			t.Errorf("want a suffix that waits: %+v", r)
		}
		empty(t, p)
		// Another pass finds the same, after it was Ready once.
		d.mountConfig(t, p, func(c *config.Config) { c.Suffixes[0].Founded = true })
		seen(t, p, true)
		// Servers that replicate have data, or are not used.
		d.mountConfig(t, p, func(c *config.Config) { c.Replicated = true })
		r := seen(t, p, false)
		if !strings.Contains(r.Message, "waits for a peer's data") {
			t.Errorf("want a message that says what it waits for: %+v", r)
		}
		p.whyNotReady(t, soon, "waits for a peer's data")
		empty(t, p)
	})

	t.Run("FirstHasLostItsData", func(t *testing.T) {
		d.config.Replicated = false
		p := startPod(t, d.spec(t, trixie, 0))
		p.whyNotReady(t, firstStart, directory.Lost)
		seen(t, p, false)
		empty(t, p)
		// A person has said so: the function's ledger forgets that it was founded.
		d.mountConfig(t, p, func(c *config.Config) { c.Suffixes[0].Founded = false })
		p.awaitReady(t, 20*time.Second)
	})
}

// TestAgentSharedVolume: two servers never open one database, be it a pod that was declared
// dead and is not, or a claim that two pods have. The second one waits.
func TestAgentSharedVolume(t *testing.T) {
	d := newDeployment(t, startAPI(t))
	s := d.spec(t, trixie, 0)
	s.Volume = newVolume(t, 0)
	first := startPod(t, s)
	first.awaitReady(t, firstStart)
	addPerson(t, first.LDAP(t, password), person)

	s.Ordinal = 1
	second := startPod(t, s)
	second.whyNotReady(t, soon, "another server still runs on this volume")
	if code, _, err := second.HTTP("/livez"); err != nil || code != 200 {
		t.Errorf("a server that waits is alive: %d, %v", code, err)
	}
	first.isReadyNow(t)
	first.Stop(t, terminationGrace)
	second.awaitReady(t, firstStart)
	if diff := cmp.Diff([]string{"Test"}, values(t, second.LDAP(t, password), person, "sn")); diff != "" {
		t.Errorf("the data: -want, +got\n%s", diff)
	}
}

// isReadyNow says that the readiness probe passes at this moment.
func (p *pod) isReadyNow(t *testing.T) {
	t.Helper()
	if code, body, err := p.HTTP("/readyz"); err != nil || code != 200 {
		t.Errorf("%s is not Ready: %d %s %v", p.name, code, body, err)
	}
}

// TestAgentFullVolume: what is written is kept, and a server that has room again goes on.
func TestAgentFullVolume(t *testing.T) {
	d := newDeployment(t, startAPI(t))
	s := d.spec(t, trixie, 0)
	s.Volume = newVolume(t, 256<<20)
	p := startPod(t, s)
	p.awaitReady(t, firstStart)
	c := p.LDAP(t, password)
	addPerson(t, c, person)
	written := 0
	add := func(c *ldap.Conn, n int) error {
		r := ldap.NewAddRequest(fmt.Sprintf("cn=%d,%s", n, suffixDN), nil)
		r.Attribute("objectClass", []string{"top", "person"})
		r.Attribute("sn", []string{"Test"})
		r.Attribute("description", []string{strings.Repeat("x", 64<<10)})
		return c.Add(r)
	}

	// Full while it runs.
	s.Volume.Fill(t, 1<<20)
	var err error
	for err == nil && written < 500 {
		if err = add(c, written); err == nil {
			written++
		}
	}
	t.Logf("%d entries written, then: %v; running: %t", written, err, p.Running())
	if err == nil {
		t.Error("the volume is not full")
	}
	if p.Running() {
		// Reading goes on.
		code, body, herr := p.HTTP("/readyz")
		t.Logf("/readyz: %d %s %v", code, strings.TrimSpace(body), herr)
		d.mountConfig(t, p, func(c *config.Config) { c.BackupConfirmed = "3.1.0->3.1.1" })
		d.awaitReport(t, p, soon, "that its volume is full", func(r report.Report) error {
			if !r.Ready || !strings.HasPrefix(r.Message, "the volume is full: raise spec.storage.size") {
				return errors.New("no such message")
			}
			return nil
		})
		if e := p.Stop(t, terminationGrace); e.Code != 0 {
			t.Errorf("a full volume does not keep the server from stopping: %+v", e)
		}
	} else {
		t.Logf("%+v", p.Wait(t, 0))
	}

	// Full before it starts.
	p.Restart(t)
	eventually(t, restart, "it starts, or says why it cannot", func() error {
		if !p.Running() {
			e := p.Wait(t, 0)
			t.Logf("it cannot start: %+v", e)
			if e.Code == 0 || !strings.HasPrefix(e.Message, "the volume is full: raise spec.storage.size") {
				t.Errorf("want a message that a person understands: %+v", e)
			}
			return nil
		}
		code, body, err := p.HTTP("/readyz")
		if code == 200 {
			t.Log("it starts, and is Ready")
			return nil
		}
		return errors.Join(fmt.Errorf("%d %s", code, strings.TrimSpace(body)), err)
	})
	if p.Running() {
		p.Stop(t, terminationGrace)
	}

	// With room again.
	s.Volume.Drain(t)
	p.Restart(t)
	p.awaitReady(t, restart)
	c = p.LDAP(t, password)
	if diff := cmp.Diff([]string{"Test"}, values(t, c, person, "sn")); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	for n := range written {
		if got := values(t, c, fmt.Sprintf("cn=%d,%s", n, suffixDN), "sn"); len(got) != 1 {
			t.Errorf("the entry %d of %d is lost", n, written)
		}
	}
	must(t, add(c, 1000))
}

// TestAgentSteady: a server that is as it should be costs next to nothing; what somebody
// changes by hand is put right within a minute, and an outage of the API harms nobody.
func TestAgentSteady(t *testing.T) {
	api := startAPI(t)
	d := newDeployment(t, api)
	p := startPod(t, d.spec(t, trixie, 0))
	p.awaitReady(t, firstStart)
	ctx, maps := context.Background(), api.Client.CoreV1().ConfigMaps("team")
	state := func() *corev1.ConfigMap {
		cm, err := maps.Get(ctx, "ds-state", metav1.GetOptions{})
		must(t, err)
		return cm
	}
	d.awaitReport(t, p, soon, "that it is Ready", func(r report.Report) error {
		if !r.Ready {
			return errors.New("not Ready")
		}
		return nil
	})
	before := d.report(t, p)

	t.Run("Costs", func(t *testing.T) {
		// The first metrics are what the second ones count.
		version, operations := state().ResourceVersion, p.metric(t, "directoryservice_agent_ldap_operations_total")
		const minutes = 1.5
		time.Sleep(time.Duration(minutes * float64(time.Minute)))
		perMinute := (p.metric(t, "directoryservice_agent_ldap_operations_total") - operations) / minutes
		rss, peak := p.memory(t, 1)
		t.Logf("figure agent memory: %.1f MiB now, %.1f MiB at most", rss, peak)
		t.Logf("figure agent LDAP operations: %.1f a minute", perMinute)
		if rss > 40 || peak > 40 {
			t.Errorf("the agent takes %.1f MiB, and took %.1f; want less than 40", rss, peak)
		}
		if perMinute > 15 {
			t.Errorf("the agent sends %.1f LDAP operations a minute; want 15 at most", perMinute)
		}
		if now := state().ResourceVersion; now != version {
			t.Errorf("the report was written in these %.1f minutes: %s, was %s:\n%s", minutes, now, version, state().Data[p.name])
		}
	})

	t.Run("ByHand", func(t *testing.T) {
		r := ldap.NewModifyRequest("cn=config", nil)
		r.Replace("nsslapd-rootpw", []string{"by hand"})
		must(t, p.LDAPI(t).Modify(r))
		// Meanwhile somebody deletes the ConfigMap, and the function makes it anew.
		must(t, maps.Delete(ctx, "ds-state", metav1.DeleteOptions{}))
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ds-state"}}, metav1.CreateOptions{})
		must(t, err)
		began := time.Now()
		eventually(t, 70*time.Second, "the mounted password is back", func() error {
			c, err := p.TryLDAP(password)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
		t.Logf("the password is back after %.0f s", time.Since(began).Seconds())
		d.awaitReport(t, p, 70*time.Second-time.Since(began), "anew", func(report.Report) error { return nil })
		t.Logf("the report is back after %.0f s", time.Since(began).Seconds())
	})

	t.Run("Outage", func(t *testing.T) {
		for name, outage := range map[string]struct{ begin, end func() }{
			"Frozen":  {api.Freeze, api.Thaw},
			"Stopped": {func() { api.StopServer(t) }, func() { api.StartServer(t) }},
		} {
			t.Run(name, func(t *testing.T) {
				outage.begin()
				d.mountConfig(t, p, func(c *config.Config) {
					c.Suffixes = append(c.Suffixes, suffix(strings.ToLower(name), "dc="+name))
				})
				eventually(t, soon, "the suffix is there", func() error {
					_, err := p.LDAPI(t).Search(ldap.NewSearchRequest("dc="+name, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", nil, nil))
					return err
				})
				for range 20 {
					for _, path := range []string{"/readyz", "/livez", "/startz"} {
						if code, body, err := p.HTTP(path); code != 200 {
							t.Errorf("%s: %d %s %v", path, code, body, err)
						}
					}
					time.Sleep(time.Second)
				}
				outage.end()
				began := time.Now()
				doc := d.document(t)[config.Key]
				r := d.awaitReport(t, p, 30*time.Second, "what it applied meanwhile", func(r report.Report) error {
					if r.Config != config.Hash(doc) || !r.Ready {
						return errors.New("not so")
					}
					return nil
				})
				t.Logf("the report is there after %.1f s", time.Since(began).Seconds())
				if r.BootID != before.BootID {
					t.Error("the server was restarted")
				}
			})
		}
	})
}

// metric of the agent, without labels.
func (p *pod) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, body, err := p.HTTP("/metrics")
	must(t, err)
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			return v
		}
	}
	t.Fatalf("no metric %s:\n%s", name, body)
	return 0
}

// memory of a process by its PID in the pod: now and at most, in MiB.
func (p *pod) memory(t *testing.T, inner int) (rss, peak float64) {
	t.Helper()
	for _, proc := range p.Processes(t) {
		if proc.Inner != inner {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(proc.PID), "status"))
		must(t, err)
		for line := range strings.Lines(string(status)) {
			f := strings.Fields(line)
			if len(f) != 3 || !slices.Contains([]string{"VmRSS:", "VmHWM:"}, f[0]) {
				continue
			}
			kib, err := strconv.ParseFloat(f[1], 64)
			must(t, err)
			if f[0] == "VmRSS:" {
				rss = kib / 1024
			} else {
				peak = kib / 1024
			}
		}
	}
	return rss, peak
}

// TestAgentStartTimes holds the agent's starts against those of dscontainer alone, on the
// same machine and in turn.
func TestAgentStartTimes(t *testing.T) {
	d := newDeployment(t, startAPI(t))
	alone := startPod(t, podSpec{Command: plain, Env: map[string]string{"DS_DM_PASSWORD": password}})
	measure := func(p *pod, ready func()) (start time.Duration) {
		began := time.Now()
		if !p.Running() {
			p.Restart(t)
		}
		ready()
		return time.Since(began)
	}
	bind := func() { alone.AwaitLDAP(t, firstStart, password) }
	// dscontainer forgets a signal that comes while it looks whether its server is up.
	stopAlone := func() {
		eventually(t, time.Minute, "dscontainer knows that its server is up", func() error {
			if !strings.Contains(alone.Log(t), "389-ds-container started.") {
				return errors.New("not yet")
			}
			return nil
		})
		alone.Stop(t, terminationGrace)
	}
	first := measure(alone, bind)
	stopAlone()
	with := newPod(t, d.spec(t, trixie, 0))
	ready := func() { with.awaitReady(t, firstStart) }
	firstWith := measure(with, ready)
	with.Stop(t, terminationGrace)
	t.Logf("ratio first start: %.2f (%.1f s with the agent, %.1f s without)", firstWith.Seconds()/first.Seconds(), firstWith.Seconds(), first.Seconds())

	const rounds = 3
	var again, againWith []time.Duration
	for range rounds {
		again = append(again, measure(alone, bind))
		stopAlone()
		againWith = append(againWith, measure(with, ready))
		with.Stop(t, terminationGrace)
	}
	// The best of each: what else runs on the machine only ever adds.
	a, b := slices.Min(again), slices.Min(againWith)
	t.Logf("ratio restart: %.2f (%.1f s with the agent, %.1f s without; %v, %v)", b.Seconds()/a.Seconds(), b.Seconds(), a.Seconds(), againWith, again)
	if more := b - a; more > 3*time.Second {
		t.Errorf("the agent adds %s to a restart; want 1 s, and allow 3", more)
	}
	if more := firstWith - first; more > 8*time.Second {
		t.Errorf("the agent adds %s to a first start; want 1 s, and allow 8", more)
	}
}
