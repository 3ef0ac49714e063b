// Package agent is PID 1 in a server's pod: it prepares the volume, runs the server,
// makes it what the spec says over LDAP, answers the kubelet's probes and reports. It
// never takes the server down by a fault of its own.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/crossplane/function-sdk-go/logging"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
	"github.com/389ds/function-directoryservice/fn/agent/prepare"
	"github.com/389ds/function-directoryservice/fn/report"
)

// Options of an agent.
type Options struct {
	// Command of the server, `dscontainer -r`.
	Command []string
	// ServerVersion that the pod is for; "" where nobody knows it.
	ServerVersion string
	// Pod is the name, UID the identity of the pod.
	Pod, UID string
	// StartTimeout is what dscontainer gives the server to start.
	StartTimeout time.Duration
	// Grace is what the server may take to stop.
	Grace time.Duration

	// Data is the volume, Root the image's file system, Mounts the folder of the mounted
	// ConfigMap and Secrets, and TerminationLog the file whose content the kubelet puts
	// into the pod's status.
	Data, Root, Mounts, TerminationLog string
	// Listen is the address of the probes and metrics.
	Listen string

	// Reports is where the report goes, to the ConfigMap of the name State.
	Reports Reports
	State   string

	// Output gets what the server prints.
	Output io.Writer
	Log    logging.Logger
}

// agent is one run of it.
type agent struct {
	Options
	ordinal  int32
	children children
	health   *health
	metrics  *metrics
	reporter *reporter
	server   *directory.Server
	report   report.Report

	// wish is what was mounted last, as far as it could be read.
	wish     wish
	prepared prepare.Result
	// lived says that the volume has held a server that was Ready; wasReady, that this
	// agent's server was.
	lived, wasReady bool
	// installed is the certificate that the server was started with.
	installed material
	// attempts to apply something by a restart, by what it was.
	attempts map[string]int
	upSince  time.Time
	// tries since the server was last as it should be.
	tries int
	// nudged: a pass over the server is due at once.
	nudged chan struct{}
	// remembered are the numbers of entries, by suffix, that the volume knows of.
	remembered map[string]int
	counted    time.Time
}

// Run the agent until the context ends, or the server does. The error then says why;
// the kubelet starts the container again.
func Run(ctx context.Context, o Options) error {
	if len(o.Command) == 0 {
		return errors.New("there is no command that starts a server")
	}
	i := strings.LastIndexByte(o.Pod, '-')
	ordinal, err := strconv.ParseInt(o.Pod[i+1:], 10, 32)
	if i < 0 || err != nil {
		return fmt.Errorf("the pod's name %q has no ordinal: it has to be a StatefulSet's", o.Pod)
	}
	a := &agent{
		Options:  o,
		ordinal:  int32(ordinal),
		health:   newHealth(o.StartTimeout, time.Now),
		reporter: newReporter(o.Reports, o.State, o.Pod, o.Log),
		report:   report.Report{PodUID: o.UID},
		attempts: map[string]int{},
		nudged:   make(chan struct{}, 1),
	}
	a.server = directory.New(a.directory())
	defer a.server.Close()
	// Scrapes have a connection of their own: one that takes too long is cut off, and must
	// not take a pass over the server with it.
	scraped := directory.New(a.directory())
	defer scraped.Close()
	a.metrics = newMetrics(scraped, a.health, a.server.Operations)

	// What goes on beside the server ends after it: its last report is sent.
	aside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	a.forever(aside, "serving probes", func() error {
		return serveHTTP(aside, o.Listen, a.health.handler(a.metrics))
	})
	a.forever(aside, "reporting", func() error { a.reporter.run(aside); return nil })
	if os.Getpid() == 1 {
		a.forever(aside, "reaping", func() error { a.reap(aside); return nil })
	}

	err = a.run(ctx)
	if err != nil {
		a.leave(err)
	}
	a.reporter.flush(aside)
	return err
}

// directory is where the server answers.
func (o Options) directory() directory.Options {
	return directory.Options{
		Socket:     filepath.Join(o.Data, "run", "slapd-localhost.socket"),
		Address:    "127.0.0.1:3389",
		TLSAddress: "127.0.0.1:3636",
	}
}

// run prepares the volume and then the server, again after each restart.
func (a *agent) run(ctx context.Context) error {
	command, err := find(a.Root, a.Command[0])
	if err != nil {
		return err
	}
	a.Command = append([]string{command}, a.Command[1:]...)
	a.wish = read(a.Mounts)
	if a.wish.configErr != nil {
		return a.wish.configErr
	}
	a.reporter.report(a.report)
	unlock, err := prepare.Lock(ctx, a.Data, func() {
		a.progress("another server still runs on this volume, and is waited for")
	})
	if ctx.Err() != nil {
		return nil // It was told to stop, and nothing runs yet.
	}
	if err != nil {
		return err //nolint:wrapcheck // It says what could not be done.
	}
	defer unlock()
	a.prepared, err = prepare.Run(ctx, prepare.Options{
		Data:            a.Data,
		Root:            a.Root,
		Service:         a.Pod[:strings.LastIndexByte(a.Pod, '-')],
		Version:         a.ServerVersion,
		Migrate:         a.wish.config.DatabaseMigration,
		BackupConfirmed: a.wish.config.BackupConfirmed,
		TLS:             a.wish.tls.hash != "",
		Command:         a.children.command,
		Log:             a.Log,
		Progress:        a.progress,
	})
	if ctx.Err() != nil {
		return nil // It was told to stop, and nothing runs yet.
	}
	if err != nil {
		return fmt.Errorf("cannot prepare the volume: %w", err)
	}
	a.remembered, a.lived = prepare.Remembered(a.Data)
	for {
		again, err := a.boot(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// progress of a long step of the preparation.
func (a *agent) progress(step string) {
	if step == "" {
		step = "the volume is being prepared"
	}
	a.health.judge(step)
	a.report.Message = step
	a.reporter.report(a.report)
}

// leave tells the kubelet, and so the function, why the container ends.
func (a *agent) leave(err error) {
	a.Log.Info("The agent ends", "error", err)
	message := err.Error()
	var refused *prepare.RefusedError
	if errors.As(err, &refused) {
		a.report.Refusal = &refused.Refusal
		if b, err := json.Marshal(refused.Refusal); err == nil {
			message = string(b)
		}
	}
	a.report.Ready = false
	a.report.Message = err.Error()
	if why := full(a.Data); why != "" && refused == nil {
		// dscontainer says that it waited in vain.
		a.report.Message = why + "; " + a.report.Message
		message = a.report.Message
	}
	a.reporter.report(a.report)
	// Kubernetes cuts it at 4096 bytes.
	const most = 4000
	if err := os.WriteFile(a.TerminationLog, []byte(message[:min(len(message), most)]), 0o600); err != nil {
		a.Log.Info("Cannot write the termination message", "error", err)
	}
}

// scarce is too little room for a server to start, or to write.
const scarce = 4 << 20

// full says what to do about a volume without room; "" where there is some.
func full(data string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(data, &s); err != nil || s.Bavail*uint64(s.Bsize) >= scarce && (s.Files == 0 || s.Ffree > 0) { //nolint:gosec // A block has a size.
		return ""
	}
	return "the volume is full: raise spec.storage.size, or delete what is not needed in its bak, ldif and logs"
}

// forever runs a loop of the agent, again when it fails or panics.
func (a *agent) forever(ctx context.Context, what string, loop func() error) {
	go func() {
		for ctx.Err() == nil {
			if err := safely(loop); err != nil {
				a.Log.Info("Failed, will begin again", "what", what, "error", err)
			}
			sleep(ctx, time.Second)
		}
	}()
}

// safely turns a panic into an error: a mistake in one loop must end neither the
// others nor the server.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// reap orphans when there are some.
func (a *agent) reap(ctx context.Context) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCHLD)
	defer signal.Stop(c)
	for {
		a.children.reap()
		select {
		case <-ctx.Done():
			return
		case <-c:
		}
	}
}

// newBootID tells one start of the server from another.
func newBootID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // It never fails (crypto/rand).
	return hex.EncodeToString(b)
}
