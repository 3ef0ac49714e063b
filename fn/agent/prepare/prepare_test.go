package prepare

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/report"
)

// R42: whatever makes a start impossible is found before anything on the volume was
// changed, and says what mends it.
func TestRefusals(t *testing.T) {
	at231 := func(w *world) { w.ready("2.3.1") }
	migrated := func(w *world) {
		w.ready("2.3.1")
		w.ready("3.3.1", migrateIt)
	}
	cases := map[string]struct {
		reason string
		volume func(*world)
		image  string
		change func(*Options)
		want   string
		says   string
	}{
		"OtherVersion":          {reason: "An image with another version than the pod is for was not approved.", image: "3.1.2", change: func(o *Options) { o.Version = "3.1.3" }, want: report.RefusalVersionMismatch, says: "contains 389 Directory Server 3.1.2, and the pod is for 3.1.3"},
		"OtherVersionLeadingV":  {reason: "A leading v does not count.", image: "3.1.2", change: func(o *Options) { o.Version = "v3.1.2" }},
		"PreRelease":            {reason: "The server spells a pre-release in its own way.", image: "3.1.0.rc1", change: func(o *Options) { o.Version = "3.1.0-rc.1" }},
		"PreReleaseNotPrinted":  {reason: "A pre-release that the server does not print is no mismatch.", image: "3.1.2", change: func(o *Options) { o.Version = "3.1.2-rc.1" }},
		"PreReleaseOfAnother":   {reason: "A pre-release of another version is one.", image: "3.1.2", change: func(o *Options) { o.Version = "3.1.1-rc.1" }, want: report.RefusalVersionMismatch},
		"NobodyKnowsTheVersion": {reason: "Without a version there is nothing to compare with.", image: "3.1.2", change: func(o *Options) { o.Version = "" }},
		"ServerDoesNotSay":      {reason: "A server of an unknown version is not started over data.", image: "silent", volume: at231, want: report.RefusalVersionMismatch, says: "cannot tell which version"},
		"TLS321":                {reason: "3.2.1 crashes with a certificate.", image: "3.2.1", change: func(o *Options) { o.TLS = true }, want: report.RefusalTLSUnsupported, says: "3.3.1"},
		"TLS322":                {reason: "3.2.2 too.", image: "3.2.2", change: func(o *Options) { o.TLS = true }, want: report.RefusalTLSUnsupported},
		"TLS330":                {reason: "3.3.0 too.", image: "3.3.0", change: func(o *Options) { o.TLS = true }, want: report.RefusalTLSUnsupported},
		"WithoutTLS":            {reason: "Without a certificate it starts.", image: "3.3.0"},
		"TLS331":                {reason: "3.3.1 is mended.", image: "3.3.1", change: func(o *Options) { o.TLS = true }},
		"BDBAndNoneIsMigrated":  {reason: "A Berkeley DB is not migrated unasked.", volume: at231, image: "3.3.1", want: report.RefusalDatabaseBackendUnsupported, says: "spec.upgrade.databaseMigration to Automatic"},
		"BDBAndNothingReadsIt":  {reason: "An image without the package cannot migrate either.", volume: at231, image: "without bdb", change: migrateIt, want: report.RefusalDatabaseBackendUnsupported, says: "389-ds-base-bdb"},
		"BDBAndAnUnknownImage":  {reason: "An image that nobody knows is not tried out on data.", volume: at231, image: "strange", change: migrateIt, want: report.RefusalDatabaseBackendUnsupported, says: "cannot be told"},
		"BDBAndNoTools":         {reason: "Without tools there is no migration.", volume: at231, image: "without tools", change: migrateIt, want: report.RefusalDatabaseBackendUnsupported, says: "dsctl"},
		"BDBBundled":            {reason: "A bundled Berkeley DB is one.", volume: at231, image: "bundled"},
		"BDBOpensIt":            {reason: "3.1.2 opens it.", volume: at231, image: "3.1.2"},
		"LMDBAndNothingReadsIt": {reason: "A server without LMDB is not started over one.", volume: migrated, image: "without lmdb", want: report.RefusalDatabaseBackendUnsupported, says: "LMDB"},
		"Unclean":               {reason: "What lies in the log alone is lost by a migration.", volume: func(w *world) { at231(w); os.Remove(filepath.Join(w.data, "db/guardian")) }, image: "3.3.1", change: migrateIt, want: report.RefusalUncleanDatabase, says: "Set spec.version back to 2.3.1"},
		"UncleanAndOpened":      {reason: "A server that opens it recovers it.", volume: func(w *world) { at231(w); os.Remove(filepath.Join(w.data, "db/guardian")) }, image: "3.1.2"},
		"UncleanSinceAMigration": {reason: "A database that changed since a migration was interrupted is not the one that was closed.", volume: func(w *world) {
			at231(w)
			_, _ = w.killedAt(1, func() error {
				w.step = func(what string) {
					if what == "bdb2mdb begins" {
						panic(killed{at: what})
					}
				}
				_, err := w.prepare("3.3.1", migrateIt)
				return err
			})
			w.write("more", "db/log.0000000001")
		}, image: "3.3.1", change: migrateIt, want: report.RefusalUncleanDatabase},
		"DatabaseGone": {reason: "What is not there cannot be migrated.", volume: func(w *world) {
			at231(w)
			os.RemoveAll(filepath.Join(w.data, "db/userRoot"))
			os.RemoveAll(filepath.Join(w.data, "db/other"))
		}, image: "3.3.1", change: migrateIt, want: report.RefusalDatabaseBackendUnsupported, says: "id2entry.db is missing"},
		"BackAcrossAMigration": {reason: "Going back to the old database loses what was written since.", volume: migrated, image: "2.3.1", want: report.RefusalRollbackLosesWrites, says: "backup-confirmed='3.3.1->2.3.1'"},
		"BackAndWhen":          {reason: "It says since when.", volume: migrated, image: "2.3.1", want: report.RefusalRollbackLosesWrites, says: "since 2026-01-02 03:04:05 UTC"},
		"BackConfirmedOther":   {reason: "A backup for another change is none for this.", volume: migrated, image: "2.3.1", change: confirm("2.3.1->3.3.1"), want: report.RefusalRollbackLosesWrites},
		"BackConfirmedHalf":    {reason: "Nor is one for a half of it.", volume: migrated, image: "2.3.1", change: confirm("3.3.1"), want: report.RefusalRollbackLosesWrites},
		"BackConfirmed":        {reason: "A person has a backup.", volume: migrated, image: "2.3.1", change: confirm("3.3.1->2.3.1")},
		"BackConfirmedSpaces":  {reason: "Spaces and a leading v do not count.", volume: migrated, image: "2.3.1", change: confirm(" v3.3.1 -> v2.3.1 ")},
		"BackAndOldDatabaseGone": {reason: "Where the old database was removed, no backup makes this volume one of the old version.", volume: func(w *world) {
			migrated(w)
			os.RemoveAll(filepath.Join(w.data, "db/userRoot"))
			os.RemoveAll(filepath.Join(w.data, "db/other"))
		}, image: "2.3.1", change: confirm("3.3.1->2.3.1"), want: report.RefusalDatabaseBackendUnsupported, says: "no longer there"},
		"BackWithNoConfig":   {reason: "2.3.1 cannot read what 3.1.2 wrote, and has left nothing here.", volume: func(w *world) { w.ready("3.1.2") }, image: "2.3.1", want: report.RefusalUnreadableConfig, says: "yescrypt_init"},
		"BackAcrossAMajor":   {reason: "Across a major version nothing is read, whatever plugins there are.", volume: func(w *world) { w.ready("3.1.2") }, image: "2.9.0", want: report.RefusalUnreadableConfig, says: "has never run here"},
		"BackWithoutAPlugin": {reason: "Within a major version it is the plugins that decide.", volume: func(w *world) { w.ready("3.1.2") }, image: "3.0.0", want: report.RefusalUnreadableConfig, says: "PersistentVolumeClaim"},
		"BackAndReadable":    {reason: "3.1.2 reads what 3.3.1 wrote.", volume: func(w *world) { w.ready("3.3.1") }, image: "3.1.2"},
		"ConfigGone":         {reason: "dscontainer would make a new server over a database.", volume: func(w *world) { at231(w); os.RemoveAll(filepath.Join(w.data, "config")) }, image: "2.3.1", want: report.RefusalUnreadableConfig, says: "is gone"},
		"MarkGone":           {reason: "dscontainer takes it for no server.", volume: func(w *world) { at231(w); os.Remove(filepath.Join(w.data, "config/container.inf")) }, image: "2.3.1", want: report.RefusalUnreadableConfig, says: "container.inf"},
		"ConfigCut":          {reason: "Half a configuration is none.", volume: func(w *world) { at231(w); w.write("dn: cn=x\n", "config/dse.ldif") }, image: "2.3.1", want: report.RefusalUnreadableConfig, says: "cn=config"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.volume != nil {
				tc.volume(w)
			}
			before := w.tree()
			var change []func(*Options)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			_, err := w.prepare(tc.image, change...)
			if diff := cmp.Diff(tc.want, reasonOf(err)); diff != "" {
				t.Fatalf("\n%s\nRun(): -want, +got:\n%s\n%v", tc.reason, diff, err)
			}
			if tc.want == "" {
				return
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("\n%s\nThe message does not say %q:\n%v", tc.reason, tc.says, err)
			}
			if diff := cmp.Diff(before, w.tree()); diff != "" {
				t.Errorf("\n%s\nA refusal changed the volume: -before, +after:\n%s", tc.reason, diff)
			}
		})
	}
}

// R35, R42: every change of versions, and back.
func TestVersions(t *testing.T) {
	cases := map[string]struct {
		reason string
		play   func(t *testing.T, w *world)
	}{
		"First": {
			reason: "On an empty volume dscontainer makes a server, and nothing else is done.",
			play: func(t *testing.T, w *world) {
				r, err := w.prepare("3.3.1")
				ok(t, err)
				is(t, r, Result{Version: "3.3.1", First: true})
				is(t, w.tree(markers), map[string]string{".": "directory"})
				ok(t, w.start("3.3.1"))
				// It made its own indexes: no start of it is made longer by looking at them.
				w.ran = nil
				r, err = w.prepare("3.3.1")
				ok(t, err)
				is(t, r, Result{Version: "3.3.1"})
				is(t, w.ran, []string{"ns-slapd -v"})
			},
		},
		"FirstInterrupted": {
			reason: "Half a server is made anew: dscontainer neither goes on with it nor removes it.",
			play: func(t *testing.T, w *world) {
				_, err := w.prepare("2.3.1")
				ok(t, err)
				w.create("2.3.1")
				ok(t, os.Remove(filepath.Join(w.data, "config/container.inf")))
				r, err := w.prepare("2.3.1")
				ok(t, err)
				is(t, r.First, true)
				w.ready("2.3.1")
			},
		},
		"FirstFailed": {
			reason: "dscontainer removes all of the volume when it cannot make a server.",
			play: func(t *testing.T, w *world) {
				_, err := w.prepare("2.3.1")
				ok(t, err)
				ok(t, os.RemoveAll(filepath.Join(w.data, markers)))
				r, err := w.prepare("3.3.1")
				ok(t, err)
				is(t, r, Result{Version: "3.3.1", First: true})
			},
		},
		"Emptied": {
			reason: "What was known of a volume that somebody emptied is forgotten.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.ready("3.1.2")
				for _, dir := range made {
					ok(t, os.RemoveAll(filepath.Join(w.data, dir)))
				}
				r, err := w.prepare("2.3.1")
				ok(t, err)
				is(t, r.First, true)
				ok(t, w.start("2.3.1"))
				// Nothing of the former life is put back.
				r, err = w.prepare("3.1.2")
				ok(t, err)
				is(t, r.Restored, false)
			},
		},
		"SameAgain": {
			reason: "A restart of the same version changes nothing.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				before := w.tree()
				r, err := w.prepare("2.3.1")
				ok(t, err)
				is(t, r, Result{Version: "2.3.1"})
				is(t, w.tree(), before)
			},
		},
		"Stale": {
			reason: "A killed server's marks name another process by now.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				before := w.tree("run")
				w.write("1", "run/slapd-localhost.pid")
				w.write("", "run/lock/server/17")
				w.write("", "run/lock/exports/17")
				w.write("", "run/lock/imports/18")
				_, err := w.prepare("2.3.1")
				ok(t, err)
				is(t, w.tree("run"), before)
				is(t, append(glob(w.data, "run/lock/*/*"), glob(w.data, "run/*.pid")...), []string(nil))
			},
		},
		"Up": {
			reason: "Another build of Berkeley DB wants an environment of its own, and the old configuration is kept.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				dse := w.read("config/dse.ldif")
				r := w.ready("3.1.2")
				is(t, r, Result{Version: "3.1.2", Changed: true, Expect: map[string]int{"userRoot": 5, "other": 2}})
				is(t, w.read(markers, "config-2.3.1-1/dse.ldif"), dse)
			},
		},
		"UpAfterACrash": {
			reason: "What was counted before a crash is no number that must be reached.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				ok(t, MarkCounts(w.data, w.counts(), false))
				r, err := w.prepare("3.1.2")
				ok(t, err)
				is(t, r, Result{Version: "3.1.2", Changed: true})
			},
		},
		"SameVersionOfAnotherBuild": {
			reason: "Its Berkeley DB may be another.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.ready("3.1.2")
				r := w.ready("3.1.2 of another distribution")
				is(t, r, Result{Version: "3.1.2"})
			},
		},
		"UpFailsAndBack": {
			reason: "The old server finds its configuration as it left it, however often the new one was tried.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				dse := w.read("config/dse.ldif")
				for range 3 {
					w.fails("3.1.2")
				}
				if dse == w.read("config/dse.ldif") {
					t.Fatal("3.1.2 has not rewritten the configuration")
				}
				r, err := w.prepare("2.3.1")
				ok(t, err)
				is(t, r, Result{Version: "2.3.1", Restored: true})
				for _, f := range []string{"dse.ldif", "dse.ldif.bak", "dse.ldif.startOK"} {
					is(t, w.read("config", f), dse)
				}
				ok(t, w.start("2.3.1"))
				w.stop()
				// Until it was Ready, everything in cn=config is applied again.
				r, err = w.prepare("2.3.1")
				ok(t, err)
				is(t, r.Restored, true)
				w.ready("2.3.1")
				r, err = w.prepare("2.3.1")
				ok(t, err)
				is(t, r.Restored, false)
			},
		},
		"UpFailsAndUpToAnother": {
			reason: "A third version starts from the good one's configuration, not from that of the one that failed.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				dse := w.read("config/dse.ldif")
				w.fails("3.1.2")
				r, err := w.prepare("3.1.3")
				ok(t, err)
				is(t, r.Restored, true)
				is(t, w.read("config/dse.ldif"), dse)
				w.ready("3.1.3")
				r = w.ready("2.3.1")
				is(t, r.Restored, true)
				is(t, w.read("db/userRoot/id2entry.db"), "5")
			},
		},
		"UpAndBack": {
			reason: "Going back from a version that was Ready puts the old configuration back, with the state of the replicas and the schema of now.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				dse := w.read("config/dse.ldif")
				w.ready("3.1.2")
				w.write("new schema", "config/schema/99user.ldif")
				w.write("6", "db/userRoot/id2entry.db")
				w.rewrite(replicaState.ReplaceAllString(w.read("config/dse.ldif"), "nsState:: ${1}BQAA\n AAAA=="))
				r := w.ready("2.3.1")
				is(t, r.Restored, true)
				is(t, r.Changed, true)
				is(t, w.read("config/dse.ldif"), replicaState.ReplaceAllString(dse, "nsState:: ${1}BQAA\n AAAA=="))
				is(t, w.read("config/schema/99user.ldif"), "new schema")
				is(t, w.read("db/userRoot/id2entry.db"), "6")
				// And the same once more: the configuration that is put back is the last one.
				w.rewrite(w.read("config/dse.ldif") + "\ndn: cn=new\ncn: new\n")
				w.ready("3.1.2")
				w.ready("2.3.1")
				if !strings.Contains(w.read("config/dse.ldif"), "cn: new") {
					t.Error("an old copy was put back")
				}
			},
		},
		"NeverReady": {
			reason: "R39: a version that was never Ready may be left; what it wrote is all there is.",
			play: func(t *testing.T, w *world) {
				w.fails("3.1.2")
				r := w.ready("3.3.1")
				is(t, r.Restored, false)
				is(t, r.Changed, true)
			},
		},
		"Migration": {
			reason: "A migration is counted before the server starts, leaves no export, and is not done again.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				var told []string
				r := w.ready("3.3.1", migrateIt, func(o *Options) { o.Progress = func(s string) { told = append(told, s) } })
				is(t, r, Result{Version: "3.3.1", Changed: true, Migrated: true, Expect: map[string]int{"userRoot": 5, "other": 2}})
				is(t, told, []string{"the database is being migrated from Berkeley DB to LMDB", ""})
				is(t, glob(w.data, "ldif", "*"), []string(nil))
				is(t, w.read("db/guardian"), "closed")
				w.ran = nil
				r, err := w.prepare("3.3.1", migrateIt)
				ok(t, err)
				is(t, r, Result{Version: "3.3.1"})
				is(t, w.ran, []string{"ns-slapd -v"})
			},
		},
		"MigrationLosesAnEntry": {
			reason: "A migration that lacks an entry is undone and refused, whatever the tool says.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				before := w.tree(markers, "db/__db.001", "ldif")
				w.lossy = true
				_, err := w.prepare("3.3.1", migrateIt)
				is(t, reasonOf(err), report.RefusalDatabaseBackendUnsupported)
				if !strings.Contains(err.Error(), "userRoot had 5 entries, and has 4") {
					t.Error(err)
				}
				is(t, w.tree(markers, "db/__db.001", "ldif"), before)
				w.lossy = false
				w.ready("3.3.1", migrateIt)
			},
		},
		"MigrationDoesNothing": {
			reason: "A tool that has done nothing says that all is well, too.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.idle = true
				w.write("0", "db/userRoot/id2entry.db")
				w.write("0", "db/other/id2entry.db")
				_, err := w.prepare("3.3.1", migrateIt)
				is(t, reasonOf(err), report.RefusalDatabaseBackendUnsupported)
				if !strings.Contains(err.Error(), "Failed trying to create") {
					t.Error(err)
				}
			},
		},
		"MigrationFails": {
			reason: "A migration that fails is undone and refused with what the tool says.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				before := w.tree(markers, "db/__db.001", "ldif")
				w.failing = true
				_, err := w.prepare("3.3.1", migrateIt)
				is(t, reasonOf(err), report.RefusalDatabaseBackendUnsupported)
				if !strings.Contains(err.Error(), "Not enough space") {
					t.Error(err)
				}
				is(t, w.tree(markers, "db/__db.001", "ldif"), before)
				r := w.ready("2.3.1")
				is(t, r.Restored, true)
			},
		},
		"MigratedAndNeverReady": {
			reason: "Nobody wrote to a server that was never Ready: the old one gets its own database back, unasked.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				dse := w.read("config/dse.ldif")
				w.fails("3.3.1", migrateIt)
				r := w.ready("2.3.1")
				is(t, r, Result{Version: "2.3.1", Restored: true})
				is(t, w.read("config/dse.ldif"), dse)
				is(t, glob(w.data, "db", "*.mdb"), []string(nil))
				w.ready("3.3.1", migrateIt)
				_, err := w.prepare("2.3.1")
				is(t, reasonOf(err), report.RefusalRollbackLosesWrites)
			},
		},
		"MigratedNeverReadyAndUp": {
			reason: "A third version migrates the good one's database again.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.fails("3.3.1", migrateIt)
				r := w.ready("3.3.2", migrateIt)
				is(t, r.Migrated, true)
			},
		},
		"BackKeepsLMDB": {
			reason: "An older server that opens LMDB keeps what was written since, with its own configuration.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.ready("3.1.2")
				w.ready("3.3.1", migrateIt)
				w.write("userroot 7\nother 2\n", "db/data.mdb")
				r := w.ready("3.1.2")
				is(t, r.Restored, true)
				is(t, w.counts(), map[string]int{"userRoot": 7, "other": 2})
				if dse := w.read("config/dse.ldif"); !strings.Contains(dse, "nsslapd-backend-implement: mdb") || !strings.Contains(dse, "nsslapd-mdb-max-size: 1") || strings.Contains(dse, "integerOrderingMatch") {
					t.Errorf("not the configuration of 3.1.2 with LMDB:\n%s", dse)
				}
				// And on to 2.3.1, which would open the Berkeley DB of before.
				_, err := w.prepare("2.3.1")
				is(t, reasonOf(err), report.RefusalRollbackLosesWrites)
				w.ready("2.3.1", confirm("3.1.2->2.3.1"))
				is(t, w.counts(), map[string]int{"userRoot": 5, "other": 2})
			},
		},
		"BackConfirmedFailsAndForthAgain": {
			reason: "Going back for which there is a backup loses nothing before it has come to its end; then it counts as used again.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.ready("3.3.1", migrateIt)
				w.write("userroot 7\nother 2\n", "db/data.mdb")
				w.fails("2.3.1", confirm("3.3.1->2.3.1"))
				r := w.ready("3.3.1")
				is(t, r.Restored, true)
				is(t, w.counts(), map[string]int{"userRoot": 7, "other": 2})
				_, err := w.prepare("2.3.1")
				is(t, reasonOf(err), report.RefusalRollbackLosesWrites)
			},
		},
		"BackConfirmed": {
			reason: "What a backup was confirmed for is done: the old configuration, the old database, and no number of entries that it must have.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				w.ready("3.3.1", migrateIt)
				w.write("userroot 7\nother 2\n", "db/data.mdb")
				r := w.ready("2.3.1", confirm("3.3.1->2.3.1"))
				is(t, r, Result{Version: "2.3.1", Changed: true, Restored: true})
				is(t, w.counts(), map[string]int{"userRoot": 5, "other": 2})
				r = w.ready("3.3.1", migrateIt)
				is(t, r.Migrated, true)
			},
		},
		"Elsewhere": {
			reason: "On a volume that was used without this program, whoever wrote last is taken for good.",
			play: func(t *testing.T, w *world) {
				w.create("2.3.1")
				ok(t, w.start("2.3.1"))
				w.stop()
				dse := w.read("config/dse.ldif")
				r, err := w.prepare("3.1.2")
				ok(t, err)
				is(t, r.Changed, true)
				_ = w.start("3.1.2")
				r = w.ready("2.3.1")
				is(t, r.Restored, true)
				is(t, w.read("config/dse.ldif"), dse)
			},
		},
		"Indexes": {
			reason: "The order of the indexes is looked at once for a build, and mended where it is wrong.",
			play: func(t *testing.T, w *world) {
				w.ready("3.1.2")
				w.ran = nil
				w.ready("3.3.1")
				is(t, w.ran, []string{"ns-slapd -v", "dsctl localhost index-check", "dsctl localhost index-check --fix"})
				if !strings.Contains(w.read("config/dse.ldif"), "integerOrderingMatch") {
					t.Error("it is not mended")
				}
				w.ran = nil
				w.ready("3.3.1")
				is(t, w.ran, []string{"ns-slapd -v"})
				w.ready("3.3.2")
				is(t, w.ran, []string{"ns-slapd -v", "ns-slapd -v", "dsctl localhost index-check"})
			},
		},
		"Bounded": {
			reason: "However often versions change, what is kept is bounded, and the good one is among it.",
			play: func(t *testing.T, w *world) {
				w.ready("2.3.1")
				for range 5 {
					w.fails("3.1.2")
					w.ready("2.3.1")
					w.ready("2.3.9")
					w.fails("3.1.3")
					w.ready("2.3.9")
					w.ready("2.3.1")
				}
				w.ready("2.3.9")
				w.ready("3.1.2")
				w.ready("3.1.3")
				w.ready("3.3.1", migrateIt)
				w.ready("3.3.2")
				if n := len(glob(w.data, markers, "*")); n > mostSnapshots+mostUndone+1 {
					t.Errorf("%d files: %v", n, glob(w.data, markers, "*"))
				}
				w.ready("3.3.1")
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			tc.play(t, newWorld(t))
		})
	}
}

var replicaState = regexp.MustCompile(`nsState:: (AQAAAAAAAA)\S+\n \S+`)

func is(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-want, +got:\n%s", diff)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
