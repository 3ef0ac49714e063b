package agent

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
	"github.com/389ds/function-directoryservice/fn/agent/prepare"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

// R16: without which suffixes a server is not Ready.
func TestMissing(t *testing.T) {
	type s = config.Suffix
	good := report.Suffix{State: report.SuffixReady}
	waiting := report.Suffix{State: report.SuffixWaiting, Message: "waits"}
	failed := report.Suffix{State: report.SuffixFailed, Message: "fails"}
	cases := map[string]struct {
		reason     string
		ordinal    int32
		lived      bool
		replicated bool
		remembered map[string]int
		suffix     s
		found      report.Suffix
		want       bool
	}{
		"Ready":        {reason: "It is there.", suffix: s{Name: "a"}, found: good},
		"Failed":       {reason: "A new server needs all of its suffixes.", suffix: s{Name: "a"}, found: failed, want: true},
		"NotSeen":      {reason: "Of which nothing is known.", suffix: s{Name: "a"}, want: true},
		"Waiting":      {reason: "Its data are lost, or with a peer.", suffix: s{Name: "a"}, found: waiting, want: true},
		"Orphaned":     {reason: "Nobody asks for it any more.", suffix: s{Name: "a", Orphaned: true}, found: failed},
		"New":          {reason: "One that cannot be made takes no server from the clients of all others.", lived: true, suffix: s{Name: "a"}, found: failed},
		"Known":        {reason: "It had data here.", lived: true, remembered: map[string]int{"a": 1}, suffix: s{Name: "a"}, found: failed, want: true},
		"KnownEmpty":   {reason: "It never had.", lived: true, remembered: map[string]int{"a": 0}, suffix: s{Name: "a"}, found: failed},
		"Founded":      {reason: "Clients use it, elsewhere.", lived: true, suffix: s{Name: "a", Founded: true}, found: failed, want: true},
		"NoPeers":      {reason: "There is nobody that it could wait for.", ordinal: 1, suffix: s{Name: "a", Founded: true}, found: waiting},
		"NoPeersLater": {reason: "Nor is there after it was Ready once, empty.", ordinal: 1, lived: true, remembered: map[string]int{"a": 0}, suffix: s{Name: "a", Founded: true}, found: waiting},
		"NoPeersLost":  {reason: "It had data, and lost them.", ordinal: 1, lived: true, remembered: map[string]int{"a": 1}, suffix: s{Name: "a", Founded: true}, found: waiting, want: true},
		"NoPeersFirst": {reason: "The first server is the one with the data.", suffix: s{Name: "a", Founded: true}, found: waiting, want: true},
		"Replicated":   {reason: "It gets a peer's data before anybody reads from it.", ordinal: 1, replicated: true, suffix: s{Name: "a", Founded: true}, found: waiting, want: true},
		"NoPeersFails": {reason: "A failure is none that time heals.", ordinal: 1, suffix: s{Name: "a", Founded: true}, found: failed, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.suffix.DN = "dc=a"
			a := &agent{ordinal: tc.ordinal, lived: tc.lived, remembered: tc.remembered}
			found := map[string]report.Suffix{}
			if tc.found.State != "" {
				found["a"] = tc.found
			}
			var want []string
			if tc.want {
				want = []string{"suffix a (dc=a): " + tc.found.Message}
			}
			got := a.missing(config.Config{Suffixes: []s{tc.suffix}, Replicated: tc.replicated}, found)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R42: a server that answers, and has lost what it held, is not Ready.
func TestLost(t *testing.T) {
	cases := map[string]struct {
		reason                     string
		remembered, expect, counts map[string]int
		replicated, orphaned       bool
		want                       string
	}{
		"New":        {reason: "Nothing was known.", counts: map[string]int{"a": 0}},
		"Same":       {reason: "All are there.", remembered: map[string]int{"a": 3}, counts: map[string]int{"a": 3}},
		"Less":       {reason: "Somebody deleted some.", remembered: map[string]int{"a": 3}, counts: map[string]int{"a": 1}},
		"None":       {reason: "Nobody deletes all.", remembered: map[string]int{"a": 3}, counts: map[string]int{"a": 0}, want: "3, and are 0"},
		"NotCounted": {reason: "What is not there has no number.", remembered: map[string]int{"a": 3}, counts: map[string]int{}, want: "3, and are 0"},
		"Orphaned":   {reason: "One that was taken off may be deleted.", orphaned: true, remembered: map[string]int{"a": 3}, counts: map[string]int{"a": 0}},
		"Migrated":   {reason: "Nobody could delete any meanwhile.", remembered: map[string]int{"a": 3}, expect: map[string]int{"a": 3}, counts: map[string]int{"a": 2}, want: "3, and are 2"},
		"MigratedOrphan": {
			reason: "Nor of this.", orphaned: true,
			remembered: map[string]int{"a": 3}, expect: map[string]int{"a": 3}, counts: map[string]int{"a": 0}, want: "3, and are 0",
		},
		"MigratedMore": {reason: "More is no loss.", remembered: map[string]int{"a": 3}, expect: map[string]int{"a": 3}, counts: map[string]int{"a": 4}},
		"MigratedWithPeers": {
			reason: "Peers go on.", replicated: true,
			remembered: map[string]int{"a": 3}, expect: map[string]int{"a": 3}, counts: map[string]int{"a": 1},
		},
		"MigratedAwayWithPeers": {
			reason: "Not that far.", replicated: true,
			remembered: map[string]int{"a": 3}, expect: map[string]int{"a": 3}, counts: map[string]int{"a": 0}, want: "3, and are 0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := &agent{remembered: tc.remembered, prepared: prepare.Result{Expect: tc.expect}}
			got := a.lost(config.Config{Suffixes: []config.Suffix{{Name: "a", DN: "dc=a", Orphaned: tc.orphaned}}, Replicated: tc.replicated}, tc.counts)
			var want []string
			if tc.want != "" {
				want = []string{"suffix a (dc=a) has lost entries: the root entry and those directly below it were " + tc.want}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// Which restarts are permitted, and which need no permit.
func TestRestarts(t *testing.T) {
	mine, others, stale := &config.Restart{Ordinal: 1, Hash: "h"}, &config.Restart{Ordinal: 0, Hash: "h"}, &config.Restart{Ordinal: 1, Hash: "old"}
	cases := map[string]struct {
		reason   string
		permit   *config.Restart
		wants    string
		idle     bool
		attempts int
		applied  string
		want     bool
		// what is reported after it
		restart, after string
	}{
		"Nothing":        {reason: "Nothing has to be applied.", permit: mine, applied: "h", after: "h"},
		"NothingIdle":    {reason: "An idle server has no reason either.", idle: true},
		"NoPermit":       {reason: "It waits, and says for what.", wants: "h", restart: "h"},
		"Permit":         {reason: "It has its turn.", permit: mine, wants: "h", want: true, restart: "h", after: "h"},
		"OthersPermit":   {reason: "It is another one's turn.", permit: others, wants: "h", restart: "h"},
		"StalePermit":    {reason: "That was for something else.", permit: stale, wants: "h", restart: "h"},
		"Used":           {reason: "A permit is for one restart.", permit: mine, wants: "h", applied: "h", restart: "h", after: "h"},
		"UsedBefore":     {reason: "One for something else was used.", permit: mine, wants: "h", applied: "old", want: true, restart: "h", after: "h"},
		"Idle":           {reason: "Nobody uses it.", wants: "h", idle: true, want: true, restart: "h"},
		"IdleForLong":    {reason: "It does not help.", wants: "h", idle: true, attempts: mostAttempts, restart: "h"},
		"IdleWithPermit": {reason: "A permit counts even so.", permit: mine, wants: "h", idle: true, attempts: mostAttempts, want: true, restart: "h", after: "h"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := &agent{ordinal: 1, attempts: map[string]int{"attempt": tc.attempts}, report: report.Report{Restart: "before", Applied: report.Applied{Restart: tc.applied}}}
			got := a.restarts(tc.permit, tc.wants, "attempt", tc.idle)
			if got != tc.want {
				t.Errorf("\n%s\nrestarts(): want %t, got %t", tc.reason, tc.want, got)
			}
			if diff := cmp.Diff(report.Report{Restart: tc.restart, Applied: report.Applied{Restart: tc.after}}, a.report); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if more := a.attempts["attempt"] - tc.attempts; (more == 1) != got {
				t.Errorf("\n%s\n%d attempts more", tc.reason, more)
			}
		})
	}
}

// R52: what is said of TLS, and when a restart is asked for.
func TestCertificate(t *testing.T) {
	ca := authority(t, nil, "CA")
	served, other := issue(t, ca, server("ds")), issue(t, ca, server("ds"))
	of := func(hash string, i *issued) material { return material{hash: hash, leaf: i.cert} }
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{served.cert.Raw}, PrivateKey: served.key}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if t, ok := c.(*tls.Conn); ok {
				_ = t.Handshake()
			}
			_ = c.Close()
		}
	}()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := silent.Addr().String()
	_ = silent.Close()

	type want struct {
		Wants, State, Applied string
		Problem               bool
	}
	cases := map[string]struct {
		reason    string
		mounted   material
		installed material
		applied   string
		address   string
		lived     bool
		upFor     time.Duration
		attempts  int
		want      want
	}{
		"None":     {reason: "There is nothing to serve.", want: want{State: report.StateFailed}},
		"Served":   {reason: "It is seen on the wire.", mounted: of("h", served), installed: of("h", served), want: want{State: report.StateApplied, Applied: "h"}},
		"Known":    {reason: "It was seen before; nobody asks again.", mounted: of("h", served), installed: of("h", served), applied: "h", address: nobody, want: want{State: report.StateApplied, Applied: "h"}},
		"New":      {reason: "A restart applies it.", mounted: of("new", other), installed: of("h", served), applied: "h", want: want{Wants: "new", State: report.StatePending, Applied: "h"}},
		"NotYet":   {reason: "A server that answers may serve LDAPS a moment later.", mounted: of("h", served), installed: of("h", served), address: nobody, upFor: settle / 2, want: want{Problem: true}},
		"NotAtAll": {reason: "3.3.1 does not after its first start; a restart helps.", mounted: of("h", served), installed: of("h", served), address: nobody, upFor: 2 * settle, want: want{Wants: "h", Problem: true}},
		"Never": {
			reason: "It did not help.", mounted: of("h", served), installed: of("h", served), address: nobody, upFor: 2 * settle, attempts: mostAttempts,
			want: want{State: report.StateFailed, Problem: true},
		},
		"Another": {
			reason: "The former one is served still.", mounted: of("h", other), installed: of("h", other), upFor: 2 * settle,
			want: want{Wants: "h", Problem: true},
		},
		"Invalid":        {reason: "A new server would have none.", mounted: material{hash: "bad", err: errors.New("bad")}, want: want{State: report.StateFailed, Problem: true}},
		"InvalidLater":   {reason: "It goes on with the one that it serves.", mounted: material{hash: "bad", err: errors.New("bad")}, installed: of("h", served), applied: "h", want: want{State: report.StateFailed, Applied: "h"}},
		"InvalidAtStart": {reason: "So it does after a restart, with what lies on the volume.", lived: true, mounted: material{hash: "bad", err: errors.New("bad")}, want: want{State: report.StateFailed}},
		"GoneLater":      {reason: "The Secret lost its keys.", installed: of("h", served), applied: "h", want: want{State: report.StateFailed, Applied: "h"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			address := tc.address
			if address == "" {
				address = listener.Addr().String()
			}
			a := &agent{
				server: directory.New(directory.Options{TLSAddress: address}), installed: tc.installed, lived: tc.lived,
				attempts: map[string]int{tc.mounted.hash: tc.attempts}, upSince: time.Now().Add(-tc.upFor),
				report: report.Report{Applied: report.Applied{TLS: tc.applied}},
			}
			wants, why, problem := a.certificate(t.Context(), wish{tls: tc.mounted})
			got := want{Wants: wants, State: a.report.TLS.State, Applied: a.report.Applied.TLS, Problem: problem != ""}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if (wants != "") != (why != "") {
				t.Errorf("\n%s\na restart has a reason: %q, %q", tc.reason, wants, why)
			}
			if (a.report.TLS.State == report.StateFailed) != (a.report.TLS.Message != "" && a.report.TLS.State != report.StatePending) {
				t.Errorf("\n%s\na failure has a message: %+v", tc.reason, a.report.TLS)
			}
		})
	}
}

// An agent that cannot begin says why.
func TestRunRefuses(t *testing.T) {
	cases := map[string]struct {
		reason  string
		options Options
		want    string
	}{
		"NoOrdinal": {reason: "Which server it is decides what it may do.", options: Options{Command: []string{"x"}, Pod: "ds"}, want: `the pod's name "ds" has no ordinal`},
		"NoNumber":  {reason: "A ReplicaSet's pod.", options: Options{Command: []string{"x"}, Pod: "ds-x7k2p"}, want: `the pod's name "ds-x7k2p" has no ordinal`},
		"NoCommand": {reason: "There is no server.", options: Options{Pod: "ds-0"}, want: "there is no command"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := Run(t.Context(), tc.options); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("\n%s\nwant %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}
