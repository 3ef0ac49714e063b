package prepare

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// carryOut what was decided. It may end at any moment: what an interrupted call leaves
// is either nothing that anybody refers to, or pending.
func (r *run) carryOut(ctx context.Context) (Result, error) {
	s, p, n := r.state, &r.plan, r.release()
	if err := r.disk.remove(r.stale()...); err != nil {
		return Result{}, err
	}
	if err := r.recover(); err != nil {
		return Result{}, err
	}
	before := s.Writer
	if !before.Version.known() {
		s.Writer, s.Ready = release{Version: p.writer}, release{Version: p.good}
	}
	if p.changed {
		if err := r.replace(); err != nil {
			return Result{}, err
		}
	}
	if before != n {
		// A Berkeley DB's environment is of one build of its library: another refuses it, and
		// makes a new one where there is none. The log and guardian, which say whether and what
		// to recover, are not part of it.
		if p.kind == bdb {
			if err := r.disk.remove(r.environment()...); err != nil {
				return Result{}, err
			}
		}
		s.Writer, s.First, s.Indexed = n, false, ""
		// From here on this server may have rewritten the configuration.
		if err := r.disk.save(r.Data, s); err != nil {
			return Result{}, err
		}
	}
	if p.migrate {
		if err := r.migrate(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := r.boundCache(); err != nil {
		return Result{}, err
	}
	if err := r.checkIndexes(ctx); err != nil {
		return Result{}, err
	}
	if err := r.prune(); err != nil {
		return Result{}, err
	}
	out := Result{
		Changed:  p.good.known() && n.Version != p.good || !p.good.known() && p.changed,
		Restored: s.Restored,
		Migrated: p.migrate,
	}
	if out.Changed && s.Clean && !p.switched {
		out.Expect = s.Counts
	}
	return out, nil
}

// stale are the marks of running servers and tools, by their process number. None runs
// now, but after a kill the number is soon that of another process of the new container:
// a server then takes itself for running already, an export refuses the database, and a
// tool that stops the server stops that process.
func (r *run) stale() []string {
	return append(glob(r.Data, "run", "lock", "*", "[0-9]*"), glob(r.Data, "run", "slapd-localhost.pid")...)
}

// environment files of a Berkeley DB.
func (r *run) environment() []string { return glob(r.Data, "db", "__db.*") }

// replace the configuration by that of another version, or keep the present one before
// another version rewrites it.
func (r *run) replace() error {
	s, p := r.state, &r.plan
	config := filepath.Join(r.Data, "config")
	s.Snapshots = maps.Clone(s.Snapshots)
	if s.Snapshots == nil {
		s.Snapshots = map[string]string{}
	}
	kept := ""
	if err := r.disk.mkdir(filepath.Join(r.Data, markers)); err != nil {
		return err
	}
	if p.keep.known() {
		// It is taken when a version is left, and not when it comes: an old one would lack
		// what was configured since.
		kept = s.name("config-" + p.keep.String())
		if err := r.disk.copyTree(config, r.marker(kept)); err != nil {
			return err
		}
		s.Snapshots[p.keep.String()] = kept
		r.Log.Info("Kept the configuration of the version before", "version", p.keep.String())
	}
	if p.restore == "" {
		return nil
	}
	if kept == "" {
		// It is put aside for a person to look at.
		kept = s.name("undone-" + p.writer.String())
		if err := r.disk.copyTree(config, r.marker(kept)); err != nil {
			return err
		}
		s.Undone = append(slices.Clone(s.Undone), kept)
	}
	work := &pending{Kind: restoring, Dir: p.restore, From: kept, To: r.release(), LMDB: p.lmdb, Drop: p.drop, Switch: s.Switched}
	switch {
	case p.switched && p.back:
		work.Switch = p.last.Before
	case p.switched:
		work.Switch = &switched{To: p.kind, At: r.now(), Before: p.last}
	}
	s.Pending = work
	if err := r.disk.save(r.Data, s); err != nil {
		return err
	}
	return r.restore()
}

// recover finishes or undoes what an interrupted call has begun.
func (r *run) recover() error {
	s := r.state
	if s.Pending == nil {
		return nil
	}
	r.Log.Info("An earlier preparation was interrupted", "work", string(s.Pending.Kind))
	if s.Pending.Kind == restoring {
		return r.restore()
	}
	return r.undo()
}

// adapt a configuration of an earlier time to what has happened since.
func (r *run) adapt(d *dse, p *pending) error {
	newer, err := readDSE(r.marker(p.From))
	if err != nil {
		return err
	}
	if newer == nil {
		return nil
	}
	d.carryState(newer)
	if p.LMDB && !d.keepLMDB(newer) {
		return fmt.Errorf("cannot keep the database: the configuration in %s has no settings of it", p.From)
	}
	return nil
}

// restore puts the pending configuration in place. Only dse.ldif is put back: schema and
// certificates of a newer version are read by an older one, and schema that was added since
// is needed by the entries that were.
func (r *run) restore() error {
	s, p := r.state, r.state.Pending
	d, err := readDSE(r.marker(p.Dir))
	if err != nil {
		return err
	}
	if d == nil {
		return fmt.Errorf("cannot put back the configuration: %s has none", r.marker(p.Dir))
	}
	if err := r.adapt(d, p); err != nil {
		return err
	}
	content := d.bytes()
	// The first is last: as long as it is the newer one, a server would start with that.
	for _, name := range []string{"dse.ldif.startOK", "dse.ldif.bak", "dse.ldif"} {
		if err := r.disk.write(filepath.Join(r.Data, "config", name), content); err != nil {
			return err
		}
	}
	gone := append(r.environment(), filepath.Join(r.Data, "config", "dse.ldif.tmp"))
	if p.Drop {
		gone = append(gone, r.lmdb()...)
	}
	if err := r.disk.remove(gone...); err != nil {
		return err
	}
	r.Log.Info("Put back the configuration of the version", "version", p.To.Version.String())
	s.Writer, s.Switched, s.Indexed, s.Restored, s.Pending = p.To, p.Switch, "", true, nil
	return r.disk.save(r.Data, s)
}

// lmdb are the files of such a database.
func (r *run) lmdb() []string { return glob(r.Data, "db", "*.mdb") }

// undo a migration or a change of the configuration that did not come to its end.
func (r *run) undo() error {
	s, p := r.state, r.state.Pending
	for _, name := range dseNames {
		to := filepath.Join(r.Data, "config", name)
		content, err := os.ReadFile(filepath.Join(r.marker(p.Dir), name))
		switch {
		case err == nil:
			err = r.disk.write(to, content)
		case os.IsNotExist(err):
			err = r.disk.remove(to)
		}
		if err != nil {
			return fmt.Errorf("cannot put back the configuration: %w", err)
		}
	}
	if p.Kind == migrating {
		if err := r.disk.remove(append(r.lmdb(), r.exports()...)...); err != nil {
			return err
		}
		if err := r.closed(p); err != nil {
			return err
		}
	}
	s.Pending = nil
	if err := r.disk.save(r.Data, s); err != nil {
		return err
	}
	return r.disk.remove(r.marker(p.Dir))
}

const (
	// mostSnapshots and mostUndone bound what is kept, of 0.4 MB each.
	mostSnapshots = 4
	mostUndone    = 2
)

// prune what is kept.
func (r *run) prune() error {
	s := r.state
	versions := slices.SortedFunc(maps.Keys(s.Snapshots), func(a, b string) int {
		return number(s.Snapshots[b]) - number(s.Snapshots[a])
	})
	kept := 0
	for _, v := range versions {
		if kept++; kept > mostSnapshots && v != s.Ready.Version.String() {
			delete(s.Snapshots, v)
		}
	}
	kept = len(s.Snapshots)
	more := max(0, len(s.Undone)-mostUndone)
	s.Undone = s.Undone[more:]
	if kept < len(versions) || more > 0 {
		if err := r.disk.save(r.Data, s); err != nil {
			return err
		}
	}
	referred := append(slices.Collect(maps.Values(s.Snapshots)), s.Undone...)
	referred = append(referred, stateFile)
	// What an interrupted call has left, too.
	gone := append(glob(r.Data, "config", "dse.ldif*"+unfinished), glob(r.Data, "db", "guardian"+unfinished)...)
	for _, path := range glob(r.Data, markers, "*") {
		if !slices.Contains(referred, filepath.Base(path)) {
			gone = append(gone, path)
		}
	}
	return r.disk.remove(gone...)
}

// number of a directory, which is newer the higher it is.
func number(dir string) int {
	n, err := strconv.Atoi(dir[strings.LastIndexByte(dir, '-')+1:])
	if err != nil {
		return 0
	}
	return n
}
