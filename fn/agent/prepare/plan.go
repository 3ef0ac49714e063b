package prepare

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/report"
)

// A plan is what a call does. Making it changes nothing.
type plan struct {
	// writer is the server that the present configuration is of, good the one that was
	// Ready last; unknown where nobody knows.
	writer, good version
	// changed says that another version starts than did last.
	changed bool
	// switched says that the server gets the other kind of database with the configuration;
	// back, that this undoes an earlier such change which nobody has used.
	switched, back bool
	// keep is the version whose configuration is kept before this one runs.
	keep version
	// restore is the directory whose configuration is put back; "" leaves the present one.
	restore string
	// lmdb makes that configuration open the present database; drop removes the one that it
	// takes the place of.
	lmdb, drop bool
	// kind of database that the server will find.
	kind kind
	// migrate that database to the other kind.
	migrate bool
	// last is when the server last got another kind of database.
	last *switched
	// guardian is what a Berkeley DB that is migrated has in the file of that name.
	guardian []byte
}

// decide what to do, or that the server must not be started. The present configuration is
// the one that there will be once an interrupted call was finished or undone.
func (r *run) decide() error {
	s, p := r.state, &r.plan
	*p = plan{writer: s.Writer.Version, good: s.Ready.Version, last: s.Switched}
	dir := filepath.Join(r.Data, "config")
	if s.Pending != nil {
		dir = r.marker(s.Pending.Dir)
	}
	present, err := readDSE(dir)
	if err != nil {
		return err
	}
	if present == nil || !present.complete() {
		return refuse(report.RefusalUnreadableConfig, "the configuration in %s is no server's: it has no cn=config. Put dse.ldif back, from a backup or from %s; or delete the PersistentVolumeClaim of this server to have it made anew", dir, filepath.Join(r.Data, markers))
	}
	if s.Pending != nil && s.Pending.Kind == restoring {
		p.writer, p.last = s.Pending.To.Version, s.Pending.Switch
		if err := r.adapt(present, s.Pending); err != nil {
			return err
		}
	}
	now := present.kind()
	if !p.writer.known() {
		// A volume from elsewhere: whoever wrote last is taken for good.
		p.writer = present.writer()
		p.good = p.writer
	}
	p.changed = r.image.version != p.writer

	base, here := present, p.writer
	if p.changed {
		if base, here, err = r.base(present); err != nil {
			return err
		}
	}
	p.kind = base.kind()
	if p.restore == "" {
		p.kind = now
	} else if p.kind != now {
		if err := r.switchBack(present, base, now); err != nil {
			return err
		}
	}
	if p.restore == "" || here != r.image.version {
		if err := r.readable(base, here); err != nil {
			return err
		}
	}
	return r.opens(base)
}

// base is the configuration that this version shall start from, and the version that it
// is of. What a server wrote that never became Ready is no ground to stand on; and an
// older version gets its own, for it cannot read a newer one's.
func (r *run) base(present *dse) (*dse, version, error) {
	s, p, n := r.state, &r.plan, r.image.version
	from := p.writer
	switch {
	case p.writer == p.good:
		p.keep = p.good
	case s.Snapshots[p.good.String()] != "":
		p.restore, from = s.Snapshots[p.good.String()], p.good
	}
	if own := s.Snapshots[n.String()]; own != "" && n.less(from) {
		p.restore, from = own, n
	}
	if p.restore == "" {
		return present, from, nil
	}
	base, err := readDSE(r.marker(p.restore))
	if err != nil {
		return nil, from, err
	}
	if base == nil || !base.complete() {
		return nil, from, fmt.Errorf("cannot put back the configuration of %s: %s has none", from, r.marker(p.restore))
	}
	return base, from, nil
}

// switchBack decides what happens where the configuration to put back opens another kind
// of database than the present one.
func (r *run) switchBack(present, base *dse, now kind) error {
	p, n := &r.plan, r.image.version
	// It is only known who wrote since where this program switched.
	unused := p.last != nil && p.last.To == now && !p.last.Ready
	p.switched, p.back = true, unused
	// An upgrade that failed: the old database is as it was, and nobody wrote to the new one.
	p.drop = unused && p.kind == bdb
	// From 3.0 on servers open LMDB, and an older one of these a newer one's. In 2.x it was an
	// experiment.
	if !unused && now == mdb && r.image.mdb && !n.less(version{3, 0, 0}) {
		if base.keepLMDB(present) {
			p.kind, p.lmdb, p.switched = mdb, true, false
			return nil
		}
	}
	if missing := r.lost(base); missing != "" {
		return refuse(report.RefusalDatabaseBackendUnsupported, "%s would open the %s of before, and that is no longer there: %s is missing. %s", n, p.kind, missing, stay(p.good))
	}
	if unused || r.confirmed() {
		return nil
	}
	since := "since then"
	if p.last != nil && p.last.To == now {
		since = "since " + p.last.At.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return refuse(report.RefusalRollbackLosesWrites, "%s opens the %s of before the migration: what was written %s would be lost on this server. %s. Or, if you have a backup or can do without: kubectl annotate dirsrv %s %s='%s->%s' --overwrite", n, p.kind, since, stay(p.good), cmp.Or(r.Service, "NAME"), backupConfirmed, p.from(), n)
}

// lost file of the database that a configuration opens; "" where it is there. A suffix
// without entries may have none.
func (r *run) lost(base *dse) string {
	if base.kind() == mdb {
		if !exists(r.Data, "db", "data.mdb") {
			return "db/data.mdb"
		}
		return ""
	}
	missing := ""
	for _, b := range base.backends() {
		if len(r.entries(b)) > 0 {
			return ""
		}
		missing = "db/" + b.directory + "/id2entry.db"
	}
	return missing
}

// entries are the files with a suffix's entries.
func (r *run) entries(b backend) []string {
	return glob(r.Data, "db", b.directory, "id2entry.db*")
}

// backupConfirmed is the annotation by which a person says that there is a backup.
const backupConfirmed = v1alpha1.Group + "/backup-confirmed"

// from is the version that is left: the one that was Ready last.
func (p *plan) from() version {
	if p.good.known() {
		return p.good
	}
	return p.writer
}

// confirmed says whether a person has a backup for exactly this change.
func (r *run) confirmed() bool {
	from, to, ok := strings.Cut(r.BackupConfirmed, "->")
	if !ok {
		return false
	}
	f, okFrom := parseVersion(strings.TrimSpace(from))
	t, okTo := parseVersion(strings.TrimSpace(to))
	return okFrom && okTo && f == r.plan.from() && t == r.image.version
}

// readable refuses an older server a newer one's configuration that it cannot read.
func (r *run) readable(d *dse, of version) error {
	n := r.image.version
	if !of.known() || n.less(of) {
		lacks := r.image.lacking(d)
		// 3.x is known to read what a newer 3.x wrote. Across a major version none does.
		if lacks != "" || n[0] < of[0] {
			why := ""
			if lacks != "" {
				why = fmt.Sprintf(" (it lacks %s)", lacks)
			}
			return refuse(report.RefusalUnreadableConfig, "%s cannot read the configuration on this volume, which %s has written%s, and it has never run here to leave one of its own. %s. Or, if other servers have the data, delete the PersistentVolumeClaim of this one to have it made anew", n, word(of), why, stay(r.plan.good))
		}
	}
	return nil
}

// opens refuses a server a database that it cannot open, and decides on migrating it.
func (r *run) opens(base *dse) error {
	p, s, i := &r.plan, r.state, r.image
	n, openedBefore := i.version, !p.changed && s.Writer.Build == i.build
	if openedBefore && (p.kind == mdb || i.bdb != readOnly) {
		return nil
	}
	switch {
	case p.kind == mdb && !i.mdb:
		return refuse(report.RefusalDatabaseBackendUnsupported, "the database is LMDB, which %s of this image does not open. %s", n, stay(p.good))
	case p.kind == mdb, i.bdb == readWrite:
		return nil
	case i.bdb == absent:
		return refuse(report.RefusalDatabaseBackendUnsupported, "the database is Berkeley DB, which %s of this image neither opens nor migrates: the package 389-ds-base-bdb is not in it. %s, or use an image that has it", n, stay(p.good))
	case i.bdb == unknown:
		return refuse(report.RefusalDatabaseBackendUnsupported, "the database is Berkeley DB, and it cannot be told whether %s of this image opens it: there is no libback-ldbm.so where 389 Directory Server has its plugins. %s", n, stay(p.good))
	case !r.Migrate:
		return refuse(report.RefusalDatabaseBackendUnsupported, "the database is Berkeley DB, which %s does not open any more. Have it migrated to LMDB: set spec.upgrade.databaseMigration to Automatic, best with a backup, for going back afterwards loses what was written since. Otherwise s%s", n, stay(p.good)[1:])
	case i.dsctl == "" || i.dbscan == "":
		return refuse(report.RefusalDatabaseBackendUnsupported, "the database is Berkeley DB, and this image of %s has no dsctl and dbscan to migrate it with. %s", n, stay(p.good))
	}
	if missing := r.lost(base); missing != "" {
		return refuse(report.RefusalDatabaseBackendUnsupported, "the database cannot be migrated: %s is missing. %s", missing, stay(p.good))
	}
	// What was not closed cleanly lies in the log, which a server that does not open the
	// database does not replay: the migration would lose acknowledged writes without a word.
	guardian, err := os.ReadFile(filepath.Join(r.Data, "db", "guardian"))
	switch {
	case err == nil:
		p.guardian = guardian
	case s.Pending != nil && s.Pending.Kind == migrating && sameFiles(s.Pending.Files, r.databaseFiles()):
		// It was there before a migration that was interrupted. That removes it, and only
		// reads the rest.
		p.guardian = s.Pending.Guardian
	default:
		return refuse(report.RefusalUncleanDatabase, "the database was not closed cleanly, and only the version that wrote it can mend that: migrated as it is it would lack the last writes. %s, wait until this server is Ready, and try again", stay(p.good))
	}
	p.migrate = true
	return nil
}

// stay says how to remain with the version that was Ready last.
func stay(v version) string {
	if !v.known() {
		return "Set spec.version to the version that this volume was last used with"
	}
	return fmt.Sprintf("Set spec.version back to %s", v)
}

func word(v version) string {
	if !v.known() {
		return "a version that nobody knows"
	}
	return v.String()
}
