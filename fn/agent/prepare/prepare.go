// Package prepare is what happens to a server's volume before each start of the server
// (R42). A newer 389 Directory Server rewrites its configuration at its first start,
// even where that start fails, and an older one then cannot read it: so what an older
// version needs to come back is kept before a newer one runs, and put back before the
// older one does.
//
// The kubelet repeats a start that failed, and may end it at any moment. Every step
// therefore can be repeated, what is known lies on the volume itself (written, synced,
// renamed), and nothing depends on being the first attempt. Whatever makes a start
// impossible is found before anything was touched: it is a *RefusedError.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/crossplane/function-sdk-go/logging"

	"github.com/389ds/function-directoryservice/fn/report"
)

// A Command runs a program of the image and returns what it printed (standard output, then
// standard error) and its exit status. The error says that it could not be run at all.
type Command func(ctx context.Context, name string, args ...string) (out []byte, exitCode int, err error)

// Options of Run.
type Options struct {
	// Data is the volume, "/data".
	Data string
	// Root is the image's file system, "/": where ns-slapd, its plugins and dsctl are
	// looked for.
	Root string
	// Service is the name of the DirectoryService, for the commands in messages.
	Service string
	// Version that the pod is for; "" where nobody knows it.
	Version string
	// Migrate says that a database which this server cannot read is migrated.
	Migrate bool
	// BackupConfirmed is the pair of versions, `<current>-><target>`, for which a person
	// says that there is a backup.
	BackupConfirmed string
	// TLS says that a certificate is going to be put into tls/ of the volume.
	TLS bool
	// Command runs programs; nil is os/exec.
	Command Command
	// Log is told what is done; nil is nobody. No secret is ever logged.
	Log logging.Logger
	// Progress is told when a long step begins, with a sentence that says which, and when
	// it ended, with ""; nil is nobody.
	Progress func(step string)
}

// A Result says what was found and done.
type Result struct {
	// Version of the server in the image: three numbers. It is set where the start was
	// refused, too; "" where the image does not say.
	Version string
	// First says that the volume has no server yet.
	First bool
	// Changed says that this is another version than the one that was last Ready here.
	Changed bool
	// Restored says that the configuration of an earlier time was put back: everything in
	// cn=config has to be applied again, and indexes that are added again need a reindex.
	Restored bool
	// Migrated says that the database was migrated by this call.
	Migrated bool
	// Hint is what will probably keep the server from starting, for the message if it does
	// not; "" where nothing is known.
	Hint string
	// Expect has the number of entries of each suffix, by its name, that this server
	// should have after its start: what was counted just before its last clean stop. It is
	// set only where the version changed. A peer may have deleted entries meanwhile, so
	// that where servers replicate only an empty suffix is wrong. Nil: nothing is known.
	Expect map[string]int
}

// A RefusedError says that the server must not be started on this volume as they are,
// and why. Nothing on the volume was changed.
type RefusedError struct {
	report.Refusal
}

// Error is the message.
func (e *RefusedError) Error() string { return e.Reason + ": " + e.Message }

// Refused returns the refusal that an error is about.
func Refused(err error) (report.Refusal, bool) {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Refusal, true
	}
	return report.Refusal{}, false
}

func refuse(reason, format string, a ...any) error {
	return &RefusedError{report.Refusal{Reason: reason, Message: fmt.Sprintf(format, a...)}}
}

// Run prepares the volume for a start of the server in the image. No server and none of
// its tools may run on the volume meanwhile: the caller holds its Lock.
func Run(ctx context.Context, o Options) (Result, error) {
	return (&run{Options: o}).prepare(ctx)
}

// run is one call of Run.
type run struct {
	Options
	disk disk
	now  func() time.Time
	// free bytes of the volume, and memory that a server sees.
	free   func(path string) (uint64, error)
	memory func() uint64
	image  *image
	// plan is what is decided before anything is touched.
	plan  plan
	state *state
}

func (r *run) prepare(ctx context.Context) (Result, error) {
	if r.Log == nil {
		r.Log = logging.NewNopLogger()
	}
	if r.Command == nil {
		r.Command = command
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.free == nil {
		r.free = free
	}
	if r.memory == nil {
		r.memory = memory
	}
	var err error
	if r.image, err = inspect(ctx, r.Root, r.Command); err != nil {
		return Result{}, err
	}
	out, err := r.start(ctx)
	out.Version = r.image.version.String()
	return out, err
}

// start is prepare with the image at hand.
func (r *run) start(ctx context.Context) (Result, error) {
	if pids := stray(r.Data); len(pids) > 0 {
		return Result{}, fmt.Errorf("cannot prepare the volume while a server runs on it: process %d", pids[0])
	}
	err := r.fits()
	if err != nil {
		return Result{}, err
	}
	if r.state, err = loadState(r.Data); err != nil {
		return Result{}, err
	}
	first, err := r.first()
	if first || err != nil {
		return Result{First: first, Hint: r.hint()}, err
	}
	if err := r.decide(); err != nil {
		return Result{}, err
	}
	return r.carryOut(ctx)
}

// brokenWithTLS are the versions whose dscontainer crashes on a certificate.
var brokenWithTLS = []version{{3, 2, 1}, {3, 2, 2}, {3, 3, 0}}

// fits refuses an image whatever is on the volume.
func (r *run) fits() error {
	v := r.image.version
	switch wanted, ok := parseVersion(r.Version); {
	case !v.known():
		return refuse(report.RefusalVersionMismatch, "cannot tell which version of 389 Directory Server the image has: `ns-slapd -v` does not say. spec.image has to be an image of 389 Directory Server")
	case ok && wanted != v:
		// Whoever decides on upgrades thinks that this is another version: the pair that was
		// approved is not the one that would happen. A pre-release is not compared: the server
		// prints 3.1.0-rc.1 as 3.1.0.rc1, or as 3.1.0 alone.
		return refuse(report.RefusalVersionMismatch, "the image contains 389 Directory Server %s, and the pod is for %s. Set spec.version to %s, or spec.image to an image of %s", v, wanted, v, wanted)
	case r.TLS && slices.Contains(brokenWithTLS, v):
		return refuse(report.RefusalTLSUnsupported, "389 Directory Server %s does not start with a certificate: its dscontainer calls add_cert with an argument that it does not take. Set spec.version to one without this error, 3.3.1 for example", v)
	}
	return nil
}

// made are the directories that dscontainer makes.
var made = []string{"config", "ssca", "db", "bak", "ldif", "run", "logs"}

// first says whether dscontainer makes a new server, which it does where it has left no
// mark of its own. Nothing is written but that, for what it makes, it wants to have made itself.
func (r *run) first() (bool, error) {
	config, mark := filepath.Join(r.Data, "config"), filepath.Join(r.Data, "config", "container.inf")
	d, err := readDSE(config)
	if err != nil {
		return false, err
	}
	data := glob(r.Data, "db", "*", "id2entry.db*")
	data = append(data, glob(r.Data, "db", "data.mdb")...)
	var gone []string
	switch {
	case d != nil && exists(mark):
		return false, nil
	case r.state.First && !r.state.Ready.Version.known() && !exists(mark):
		// A server was being made here when it ended, on a volume that was empty before.
		// Nobody has ever reached it, and dscontainer neither goes on with half of one nor
		// makes it anew.
		r.Log.Info("A first start was interrupted, and begins again")
		for _, dir := range made {
			gone = append(gone, filepath.Join(r.Data, dir))
		}
	case d == nil && !exists(mark) && len(data) == 0:
		// What was known was of another life, that somebody has removed by hand.
		gone = append(gone, filepath.Join(r.Data, markers))
	case d == nil:
		return false, refuse(report.RefusalUnreadableConfig, "the configuration of the server is gone, %s has none, and its database is there. Put dse.ldif back, from a backup or from %s; or delete the PersistentVolumeClaim of this server to have it made anew", config, filepath.Join(r.Data, markers))
	default:
		return false, refuse(report.RefusalUnreadableConfig, "the file %s is missing, without which dscontainer takes the server on this volume for none. Put it back from a backup; or delete the PersistentVolumeClaim of this server to have it made anew", mark)
	}
	if err := r.disk.remove(gone...); err != nil {
		return false, err
	}
	r.state = &state{First: true, Writer: r.release(), Indexed: r.image.build}
	return true, r.disk.save(r.Data, r.state)
}

func (r *run) release() release { return release{Version: r.image.version, Build: r.image.build} }

func (r *run) marker(name string) string { return filepath.Join(r.Data, markers, name) }

// command runs a program of the image.
func command(ctx context.Context, name string, args ...string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	// A daemon that the program has left behind keeps the pipes open.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out, -1, fmt.Errorf("cannot run %s to its end: %w", name, ctx.Err())
	case err == nil, errors.As(err, &exit), errors.Is(err, exec.ErrWaitDelay):
		return out, cmd.ProcessState.ExitCode(), nil
	}
	return out, -1, fmt.Errorf("cannot run %s: %w", name, err)
}
