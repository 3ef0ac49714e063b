package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/389ds/function-directoryservice/fn/agent/prepare"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

const (
	// glance at the mounted files, and at a server that starts.
	glance = time.Second
	// steady is the pause between two passes over a server that is as it should be.
	steady = time.Minute
	// unsteady is the first pause after a pass over one that is not; it doubles up to
	// weary, for what a person has to mend is not mended the sooner.
	unsteady = 2 * time.Second
	weary    = 15 * time.Second
	// ping is how often a server is asked whether it is there at all.
	ping = 10 * time.Second
	// mostSilent pings in a row without an answer, and the server is not Ready.
	mostSilent = 2
	// recount is how often the entries are counted.
	recount = time.Hour
	// mostAttempts of restarts because the server does not serve its certificate. 389 DS
	// 3.3.1 needs one after its first start.
	mostAttempts = 2
	// hatching is what a server that starts may take to come up when it is told to
	// stop.
	hatching = 20 * time.Second
	// settle is how long a server that answers may take to serve LDAPS.
	settle = 3 * time.Second
)

// setUp is what dscontainer writes once a new server is made. Before, a server answers
// for a moment that is not the one which stays.
const setUp = "config/container.inf"

// boot starts the server and looks after it until it ends; again says that it was
// stopped to be started again.
func (a *agent) boot(ctx context.Context) (again bool, err error) {
	a.look()
	a.health.enter(starting)
	a.report.BootID, a.report.Ready, a.report.Message = newBootID(), false, "the server is starting"
	a.report.Applied.TLS, a.report.Restart = "", ""
	a.reporter.report(a.report)
	if a.wish.tls.leaf != nil {
		if err := a.wish.tls.install(a.Data); err != nil {
			return false, err
		}
		a.installed = a.wish.tls
	}
	if err := a.tidyTrust(ctx); err != nil {
		a.Log.Info("Cannot tidy the server's database of certificates", "error", err)
	}
	p, err := a.children.serve(a.Command, a.Output, a.Grace)
	if err != nil {
		return false, err
	}

	stopPinging := func() {}
	end := func(why string, grace time.Duration) {
		stopPinging()
		a.health.enter(stopping)
		a.end(p, why, grace)
	}
	// The entries that were counted before a clean stop say nothing of what comes now.
	a.counted, a.tries = time.Time{}, 0
	next := time.Time{}
	t := time.NewTicker(glance)
	defer t.Stop()
	for up := false; ; {
		if !up && a.up(ctx) {
			up = true
			a.health.enter(running)
			a.upSince = time.Now()
			a.server.Forget()
			stopPinging = a.ping(ctx)
			defer stopPinging()
		}
		if up {
			restart := ""
			if a.look() {
				a.tries, next = 0, time.Time{}
			}
			if !time.Now().Before(next) {
				next, restart = a.safePass(ctx)
			}
			if restart != "" && ctx.Err() == nil {
				a.Log.Info("Restarting the server", "why", restart)
				end("the server restarts: "+restart, a.Grace)
				return ctx.Err() == nil, nil
			}
		}
		select {
		case <-ctx.Done():
			told := time.Now()
			if !up && (a.lived || !a.prepared.First) {
				a.hatch(p)
			}
			end("the server was stopped", a.Grace-time.Since(told))
			return false, nil
		case <-p.done:
			if ctx.Err() != nil {
				return false, nil
			}
			why := p.ended()
			if hint := a.prepared.Hint; hint != "" && !up {
				why = hint + "; " + why
			}
			return false, errors.New(why)
		case <-a.nudged:
			a.tries, next = 0, time.Time{}
		case <-t.C:
		}
	}
}

// hatch lets a server that starts come up before it is told to stop: one that is ended
// before leaves its Berkeley DB unclosed, which no newer version migrates.
func (a *agent) hatch(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), hatching)
	defer cancel()
	for ctx.Err() == nil && !a.up(ctx) {
		select {
		case <-p.done:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// look at what is mounted; changed says that it is not what it was. What cannot be read
// stays as it was: a mistake in a Secret must not end a server that works.
func (a *agent) look() (changed bool) {
	fresh := read(a.Mounts).or(a.wish)
	changed = !fresh.same(a.wish)
	a.wish = fresh
	return changed
}

// safePass returns when to pass again, and why the server has to restart.
func (a *agent) safePass(ctx context.Context) (next time.Time, restart string) {
	again := weary
	if err := safely(func() error { again, restart = a.pass(ctx); return nil }); err != nil {
		a.Log.Info("A pass over the server failed", "error", err)
	}
	return time.Now().Add(again), restart
}

// up says that the server which stays answers.
func (a *agent) up(ctx context.Context) bool {
	if _, err := os.Stat(filepath.Join(a.Data, setUp)); err != nil {
		return false
	}
	return safely(func() error {
		if err := a.server.Alive(ctx); err != nil {
			return err //nolint:wrapcheck // Nobody reads it.
		}
		version, err := a.server.Version(ctx)
		if err == nil {
			a.report.Version = version
		}
		return err //nolint:wrapcheck // Nobody reads it.
	}) == nil
}

// end the server cleanly: what it holds is counted, for the next version to be held
// against.
func (a *agent) end(p *process, why string, grace time.Duration) {
	a.report.Ready, a.report.Message = false, why
	a.reporter.report(a.report)
	if a.wasReady {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		a.remember(safely(func() error {
			counts, err := a.entries(ctx, a.wish.config)
			if err != nil {
				return err
			}
			return prepare.MarkCounts(a.Data, counts, true) //nolint:wrapcheck // It says what it could not do.
		}))
	}
	a.server.Close()
	if !p.stop(grace) {
		a.Log.Info("The server did not stop in time, and was killed", "seconds", grace.Seconds())
	}
}

// ping the server until the returned function is called. A server that does not answer
// is not Ready, before the kubelet finds it dead; one that answers again is looked at at
// once.
func (a *agent) ping(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	silent := 0
	a.forever(ctx, "pinging", func() error {
		for ctx.Err() == nil {
			pause := ping
			switch err := a.server.Alive(ctx); {
			case err == nil:
				a.health.answered()
				if silent >= mostSilent {
					a.nudge()
				}
				silent = 0
			case ctx.Err() == nil:
				pause = unsteady
				if silent++; silent >= mostSilent {
					a.health.judge("the server does not answer: " + err.Error())
				}
				if silent == mostSilent {
					a.nudge() // It is reported, too.
				}
			}
			sleep(ctx, pause)
		}
		return nil
	})
	return cancel
}

// nudge has the server passed over at once.
func (a *agent) nudge() {
	select {
	case a.nudged <- struct{}{}:
	default:
	}
}

// pass once over the server: make it what is wished, see whether it is Ready, report. It
// returns when to pass again, and why the server has to restart.
func (a *agent) pass(ctx context.Context) (again time.Duration, restart string) {
	w := a.wish
	because := a.password(ctx, w)
	suffixes, err := a.server.ApplySuffixes(ctx, w.config.Suffixes, a.ordinal == 0)
	if err != nil {
		because = append(because, "the suffixes cannot be read: "+err.Error())
	} else {
		a.report.Suffixes = suffixes
		because = append(because, a.missing(w.config, suffixes)...)
	}

	wants, why, problem := a.certificate(ctx, w)
	if problem != "" {
		because = append(because, problem)
	}
	attempt := wants
	if reason := a.server.NeedsRestart(); reason != "" && wants == "" {
		// Of this very start: a permit for the same reason of an earlier one was used.
		wants, why, attempt = config.Hash(a.report.BootID+reason), reason, reason
	}
	if a.restarts(w.config.Restart, wants, attempt, !a.wasReady || problem != "") {
		restart = why
		// Nobody may come to rely on a server that is about to stop.
		because = append(because, "the server restarts: "+why)
	}
	if len(because) == 0 {
		because = a.count(ctx, w.config)
	}
	if ctx.Err() != nil {
		return steady, "" // What failed says nothing of the server.
	}
	a.conclude(w, because)
	if a.report.Ready && w.passwordErr == nil && a.report.DMPassword.State == report.StateApplied && err == nil && !unsettled(suffixes) {
		a.tries = 0
		return steady, restart
	}
	again = min(unsteady<<min(a.tries, 8), weary)
	a.tries++
	return again, restart
}

// conclude from what is not as it should be.
func (a *agent) conclude(w wish, because []string) {
	before := a.report
	a.report.Config = w.hash
	a.report.Ready = len(because) == 0
	a.health.judge(strings.Join(because, "; "))
	if w.configErr != nil {
		because = append(because, w.configErr.Error()+": what it said before stays applied")
	}
	if why := full(a.Data); why != "" {
		because = append(because, why)
	}
	a.report.Message = strings.Join(because, "; ")
	switch {
	case a.report.Ready && !before.Ready:
		a.Log.Info("The server is Ready", "version", a.report.Version)
	case !a.report.Ready && a.report.Message != before.Message:
		a.Log.Info("The server is not Ready", "because", a.report.Message)
	}
	a.wasReady = a.wasReady || a.report.Ready
	a.lived = a.lived || a.report.Ready
	a.metrics.found(a.report, a.remembered)
	a.reporter.report(a.report)
}

// password makes the Directory Manager's the mounted one (R11). It returns why the server
// is not Ready: without a real bind nobody knows that clients can use it. But one whose
// volume ever had a server that was Ready, and that answers, is not taken from its
// clients, which have their own passwords, because of a mistake in that Secret.
func (a *agent) password(ctx context.Context, w wish) []string {
	if w.passwordErr != nil {
		a.report.DMPassword = report.Part{State: report.StateFailed, Message: w.passwordErr.Error()}
		switch {
		case w.password == "" && a.lived:
			return nil
		case w.password == "":
			return []string{w.passwordErr.Error()}
		}
	}
	_, err := a.server.ApplyPassword(ctx, w.password)
	if err == nil {
		if w.passwordErr == nil {
			a.report.DMPassword = report.Part{State: report.StateApplied}
		}
		return nil
	}
	a.report.DMPassword = report.Part{State: report.StateFailed, Message: err.Error()}
	var answer *ldap.Error
	if a.lived && errors.As(err, &answer) && answer.ResultCode < ldap.ErrorNetwork {
		return nil
	}
	return []string{"the Directory Manager cannot bind with the password of the Secret: " + err.Error()}
}

func unsettled(suffixes map[string]report.Suffix) bool {
	for _, s := range suffixes {
		if s.State == report.SuffixFailed {
			return true
		}
	}
	return false
}

// missing suffixes, without which the server is not Ready (R16). One that is new in the
// spec and cannot be made does not take a server from its clients which serves all
// others.
func (a *agent) missing(c config.Config, found map[string]report.Suffix) []string {
	var out []string
	for _, s := range c.Suffixes {
		if s.Orphaned {
			continue
		}
		known := a.remembered[s.Name] > 0
		if a.lived && !known && !s.Founded {
			continue
		}
		f := found[s.Name]
		switch {
		case f.State == report.SuffixReady:
		case f.State == report.SuffixWaiting && !c.Replicated && a.ordinal > 0 && !known:
			// There is no peer that it could wait for.
		default:
			out = append(out, fmt.Sprintf("suffix %s (%s): %s", s.Name, s.DN, f.Message))
		}
	}
	return out
}

// count the entries before the server counts as Ready, and now and then: a migration
// that broke off leaves a server that answers, and is empty.
func (a *agent) count(ctx context.Context, c config.Config) []string {
	if a.wasReady && time.Since(a.counted) < recount {
		return nil
	}
	counts, err := a.entries(ctx, c)
	if a.wasReady {
		if ctx.Err() == nil {
			a.remember(prepare.MarkCounts(a.Data, counts, false))
			a.remembered, a.counted = counts, time.Now()
		}
		return nil
	}
	if err != nil {
		return []string{err.Error()}
	}
	if out := a.lost(c, counts); len(out) > 0 {
		return out
	}
	// Before a client can write: whether the data may be taken back to an older version
	// hangs on it.
	err = prepare.MarkReady(a.Data, a.prepared.Version, counts)
	a.remember(err)
	if err != nil && (a.prepared.First || a.prepared.Changed || a.prepared.Migrated) {
		return []string{"the volume cannot be written to: " + err.Error()}
	}
	a.remembered, a.counted = counts, time.Now()
	return nil
}

// lost entries, by what the volume remembers: all of a suffix or, where the version
// changed, some.
func (a *agent) lost(c config.Config, counts map[string]int) []string {
	var out []string
	for _, s := range c.Suffixes {
		least := min(a.remembered[s.Name], 1)
		if s.Orphaned {
			// Whoever takes a suffix off the spec may delete it.
			least = 0
		}
		if n, ok := a.prepared.Expect[s.Name]; ok && !c.Replicated {
			// With peers there may be less by now: they go on while a server is down.
			least = n
		}
		if counts[s.Name] < least {
			out = append(out, fmt.Sprintf("suffix %s (%s) has lost entries: the root entry and those directly below it were %d, and are %d", s.Name, s.DN, max(least, a.remembered[s.Name]), counts[s.Name]))
		}
	}
	return out
}

// entries at the top of each suffix, by its name. What cannot be counted now, such as
// during an import, is as it was remembered, and in the error.
func (a *agent) entries(ctx context.Context, c config.Config) (map[string]int, error) {
	dns := make([]string, 0, len(c.Suffixes))
	for _, s := range c.Suffixes {
		dns = append(dns, s.DN)
	}
	found, err := a.server.Counts(ctx, dns)
	counts := map[string]int{}
	for _, s := range c.Suffixes {
		n, ok := found[s.DN]
		if !ok {
			n, ok = a.remembered[s.Name]
		}
		if ok {
			counts[s.Name] = n
		}
	}
	return counts, err //nolint:wrapcheck // It says what could not be counted.
}

func (a *agent) remember(err error) {
	if err != nil {
		a.Log.Info("Cannot remember the state of the volume", "error", err)
	}
}

// restarts says whether the server may restart for what it wants to. One that clients
// use needs a permit; an idle one, which nobody can use anyway, needs none, but does not
// try the same for ever.
func (a *agent) restarts(permit *config.Restart, wants, attempt string, idle bool) bool {
	a.report.Restart = wants
	switch {
	case wants == "":
		return false
	case permit != nil && permit.Ordinal == a.ordinal && permit.Hash == wants && a.report.Applied.Restart != wants:
		a.report.Applied.Restart = wants
	case idle && a.attempts[attempt] < mostAttempts:
	default:
		return false
	}
	a.attempts[attempt]++
	return true
}

// certificate sees that LDAPS serves what is mounted (R52). It returns what a restart
// would apply, and why; and why the server is not Ready.
func (a *agent) certificate(ctx context.Context, w wish) (wants, why, problem string) {
	switch {
	case w.tls.hash == "":
		a.report.TLS = report.Part{State: report.StateFailed, Message: "no certificate is mounted"}
		return "", "", ""
	case w.tls.err != nil:
		a.report.TLS = report.Part{State: report.StateFailed, Message: w.tls.err.Error()}
		if a.report.Applied.TLS != "" || a.lived {
			// The server goes on with the one it has.
			return "", "", ""
		}
		return "", "", "LDAPS: " + w.tls.err.Error()
	case w.tls.hash != a.installed.hash:
		a.report.TLS = report.Part{State: report.StatePending, Message: "a new certificate is served after a restart, which waits for its turn"}
		return w.tls.hash, "to serve a new certificate", ""
	case a.report.Applied.TLS == w.tls.hash:
		a.report.TLS = report.Part{State: report.StateApplied}
		return "", "", ""
	}
	served, err := a.server.ServedCertificate(ctx)
	if err == nil && !served.Equal(a.installed.leaf) {
		err = errors.New("it serves another certificate")
	}
	if err == nil {
		a.report.TLS = report.Part{State: report.StateApplied}
		a.report.Applied.TLS = w.tls.hash
		return "", "", ""
	}
	problem = "LDAPS does not serve the mounted certificate: " + err.Error()
	if time.Since(a.upSince) < settle {
		return "", "", problem
	}
	if a.attempts[w.tls.hash] < mostAttempts {
		return w.tls.hash, problem, problem
	}
	a.report.TLS = report.Part{State: report.StateFailed, Message: problem + ". See what the server says of TLS: kubectl logs " + a.Pod}
	return "", "", problem
}
