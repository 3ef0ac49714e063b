package prepare

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/389ds/function-directoryservice/fn/report"
)

// migrateOnly is dsctl without what its bdb2mdb ends with: it starts the server, and what
// is there has not been looked at yet.
const migrateOnly = `import runpy, sys
from lib389 import DirSrv
DirSrv.start = lambda self, *args, **kwargs: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
`

// migrate a Berkeley DB to LMDB, and look whether all of it arrived before a server starts
// on it: the tool exits with 0 whatever its exports and imports returned, and a server
// starts on an empty database like on any other.
func (r *run) migrate(ctx context.Context) error {
	s := r.state
	r.Progress("the database is being migrated from Berkeley DB to LMDB")
	defer r.Progress("")
	d, err := readDSE(filepath.Join(r.Data, "config"))
	if err != nil || d == nil {
		return fmt.Errorf("cannot migrate the database: no configuration: %w", err)
	}
	before, err := r.countBDB(ctx, d)
	if err != nil {
		return err
	}
	r.Log.Info("Migrating the database from Berkeley DB to LMDB", "entries", before)

	dir := s.name("migrate")
	if err := r.disk.copyTree(filepath.Join(r.Data, "config"), r.marker(dir)); err != nil {
		return err
	}
	s.Pending = &pending{Kind: migrating, Dir: dir, Guardian: r.plan.guardian, Files: r.databaseFiles()}
	if err := r.disk.save(r.Data, s); err != nil {
		return err
	}

	begun := r.now()
	var problem string
	out, code, err := r.dsctlOffline(ctx, "dblib", "bdb2mdb")
	stopStray(r.Data)
	if ctx.Err() != nil {
		// The next call undoes it.
		return fmt.Errorf("cannot migrate the database: %w", ctx.Err())
	}
	switch {
	case err != nil:
		problem = err.Error()
	case code != 0:
		problem = fmt.Sprintf("dsctl ended with status %d: %s", code, lastLines(out))
	default:
		if problem, err = r.arrived(ctx, before); err != nil {
			problem = err.Error()
		}
		if problem != "" {
			problem += ": " + lastLines(out)
		}
	}
	if problem != "" {
		if err := r.undo(); err != nil {
			return err
		}
		return refuse(report.RefusalDatabaseBackendUnsupported, "the migration to LMDB failed, and was undone: %s. %s", problem, stay(r.plan.good))
	}

	if err := r.disk.remove(r.exports()...); err != nil {
		return err
	}
	if err := r.closed(s.Pending); err != nil {
		return err
	}
	s.Pending, s.Indexed = nil, ""
	s.Switched = &switched{To: mdb, At: begun, Before: s.Switched}
	if err := r.disk.save(r.Data, s); err != nil {
		return err
	}
	r.Log.Info("Migrated the database", "seconds", int(r.now().Sub(begun).Seconds()))
	return r.disk.remove(r.marker(dir))
}

// dsctlOffline runs dsctl so that it starts no server.
func (r *run) dsctlOffline(ctx context.Context, args ...string) ([]byte, int, error) {
	args = append([]string{r.image.dsctl, "localhost"}, args...)
	if python := r.image.interpreter(r.image.dsctl); python != "" {
		return r.Command(ctx, python, append([]string{"-c", migrateOnly}, args...)...)
	}
	return r.Command(ctx, args[0], args[1:]...)
}

// interpreter of a script, if it is Python.
func (i *image) interpreter(path string) string {
	f, err := os.Open(filepath.Join(i.root, path))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	first, _ := bufio.NewReader(f).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) == 0 || !strings.HasPrefix(filepath.Base(words[0]), "python") {
		return ""
	}
	return words[0]
}

// arrived says what of the entries is missing in the new database; "" if nothing is.
func (r *run) arrived(ctx context.Context, before map[string]int) (string, error) {
	d, err := readDSE(filepath.Join(r.Data, "config"))
	if err != nil {
		return "", err
	}
	if d == nil || d.kind() != mdb {
		return "the configuration does not name LMDB", nil
	}
	after, err := r.countLMDB(ctx, d)
	if err != nil {
		return "", err
	}
	var differ []string
	for name, n := range before {
		if after[name] != n {
			differ = append(differ, fmt.Sprintf("%s had %d entries, and has %d", name, n, after[name]))
		}
	}
	slices.Sort(differ)
	return strings.Join(differ, "; "), nil
}

// idLine precedes each entry that dbscan prints.
var idLine = regexp.MustCompile(`(?m)^id [0-9]+\r?$`)

// countBDB counts the entries of each suffix, tombstones too, by its name.
func (r *run) countBDB(ctx context.Context, d *dse) (map[string]int, error) {
	out := map[string]int{}
	for _, b := range d.backends() {
		out[b.name] = 0
		for _, path := range r.entries(b) {
			// Entries are cut short: only their number matters.
			text, code, err := r.Command(ctx, r.image.dbscan, "-D", "bdb", "-t", "20", "-f", path)
			if err == nil && code != 0 {
				err = fmt.Errorf("status %d: %s", code, lastLines(text))
			}
			if err != nil {
				return nil, fmt.Errorf("cannot count the entries of %s: %w", b.name, err)
			}
			out[b.name] += len(idLine.FindAll(text, -1))
		}
	}
	return out, nil
}

// statLine of dbscan: /data/db/userroot/id2entry.db flags: 0x0 .. nb_entries=1005.
var statLine = regexp.MustCompile(`(?m)/([^/\s]+)/id2entry\.db\d* flags: .*nb_entries=([0-9]+)`)

// countLMDB counts the entries of each suffix, tombstones too, by its name.
func (r *run) countLMDB(ctx context.Context, d *dse) (map[string]int, error) {
	text, code, err := r.Command(ctx, r.image.dbscan, "-D", "mdb", "-L", filepath.Join(r.Data, "db"))
	if err == nil && code != 0 {
		err = fmt.Errorf("status %d: %s", code, lastLines(text))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot count the entries: %w", err)
	}
	found := map[string]int{}
	for _, m := range statLine.FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			return nil, fmt.Errorf("cannot count the entries: %w", err)
		}
		// In this database names are lower case.
		found[strings.ToLower(string(m[1]))] += n
	}
	out := map[string]int{}
	for _, b := range d.backends() {
		out[b.name] = found[strings.ToLower(b.name)]
	}
	return out, nil
}

// exports are what a migration writes and leaves: all entries, with password hashes.
func (r *run) exports() []string { return glob(r.Data, "ldif", "__dblib-*") }

// databaseFiles are the files of a Berkeley DB that hold data, with their sizes and times.
func (r *run) databaseFiles() map[string]string {
	out := map[string]string{}
	paths := append(glob(r.Data, "db", "*", "*.db*"), glob(r.Data, "db", "log.*")...)
	for _, path := range paths {
		if i, err := os.Stat(path); err == nil {
			rel, err := filepath.Rel(r.Data, path)
			if err != nil {
				rel = path
			}
			out[rel] = fmt.Sprintf("%d %d", i.Size(), i.ModTime().UnixNano())
		}
	}
	return out
}

func sameFiles(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for path, what := range a {
		if b[path] != what {
			return false
		}
	}
	return true
}

// closed puts back the mark of a clean stop, which the migration's export may remove.
func (r *run) closed(p *pending) error {
	guardian := filepath.Join(r.Data, "db", "guardian")
	if p.Guardian == nil || exists(guardian) || !sameFiles(p.Files, r.databaseFiles()) {
		return nil
	}
	return r.disk.write(guardian, p.Guardian)
}

// stopStray stops a server that a tool has left behind: two must never open one database,
// and what a killed tool began must not go on beside its undoing.
func stopStray(data string) {
	const patience, pause = time.Minute, 200 * time.Millisecond
	for begun := time.Now(); ; time.Sleep(pause) {
		pids := stray(data)
		if len(pids) == 0 {
			return
		}
		signal := syscall.SIGTERM
		if time.Since(begun) > patience {
			signal = syscall.SIGKILL
		}
		for _, pid := range pids {
			if syscall.Kill(pid, signal) != nil {
				return
			}
		}
	}
}

// stray servers. As PID 1 every one of the container is ours; elsewhere only that one is
// which the volume names.
func stray(data string) []int {
	candidates := glob("/proc/[0-9]*")
	if os.Getpid() != 1 {
		content, err := os.ReadFile(filepath.Join(data, "run", "slapd-localhost.pid"))
		if err != nil {
			return nil
		}
		candidates = []string{strings.TrimSpace(string(content))}
	}
	var out []int
	for _, c := range candidates {
		pid, err := strconv.Atoi(filepath.Base(c))
		if err == nil && isServer(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// isServer says whether a process is a server or one of its offline commands.
func isServer(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(name)) != "ns-slapd" {
		return false
	}
	// A zombie has no command line, and waits for PID 1 alone.
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(line) > 0
}

// lastLines of what a tool printed, for a message.
func lastLines(out []byte) string {
	const most = 400
	text := strings.Join(strings.Fields(string(bytes.ToValidUTF8(out, []byte("?")))), " ")
	if len(text) > most {
		text = "… " + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
