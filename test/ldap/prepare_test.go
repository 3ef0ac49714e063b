//go:build ldap

package ldap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

const (
	people   = 300
	otherDN  = "o=other"
	thirdDN  = "o=third"
	userPW   = "of-a-user-1"
	anything = "(objectClass=*)"
)

// A journey is one volume that goes through versions.
type journey struct {
	*deployment
	volume *volume
	pod    *pod
	table  *table
	at     string
	// added are the entries that were written under each version on the way.
	added []string
	// third says that there is one more suffix.
	third bool
}

// A table is what the README says of changes of the version.
type table struct{ rows []string }

func (j *journey) row(transition, what string, began time.Time) {
	j.table.rows = append(j.table.rows, fmt.Sprintf("| %s | %s | %.0f |", transition, what, time.Since(began).Seconds()))
}

// onward starts another version over the volume.
func (j *journey) onward(t *testing.T, suite string) *pod {
	t.Helper()
	if j.pod != nil && j.pod.Running() {
		j.pod.Stop(t, terminationGrace)
	}
	s := j.spec(t, suite, 0)
	s.Volume = j.volume
	if j.pod == nil {
		j.pod = startPod(t, s)
	} else {
		j.pod.Mount(t, "config", s.Mounts["config"])
		j.pod.Replace(t, func(to *podSpec) { *to = s })
	}
	return j.pod
}

// reach starts another version, waits until it is Ready, and checks that all is there.
func (j *journey) reach(t *testing.T, suite, what string) {
	t.Helper()
	from := j.at
	if j.pod != nil && j.pod.Running() {
		j.stop(t)
	}
	began := time.Now()
	j.onward(t, suite).awaitReady(t, firstStart)
	j.row(from+" -> "+run.Versions[suite], what, began)
	j.at = run.Versions[suite]
	j.verify(t)
}

func (j *journey) stop(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(exit{}, j.pod.Stop(t, terminationGrace)); diff != "" {
		t.Errorf("it stops cleanly: -want, +got\n%s", diff)
	}
}

// branch goes on with a copy of the volume.
func (j *journey) branch(t *testing.T) *journey {
	t.Helper()
	b := *j
	d := *j.deployment
	d.svc = newService(t, "ds", d.api)
	b.deployment, b.volume, b.pod = &d, j.volume.Clone(t), nil
	b.added = append([]string(nil), j.added...)
	return &b
}

// refused starts a version that must not start, and proves that nothing was touched.
func (j *journey) refused(t *testing.T, suite, reason string) {
	t.Helper()
	if j.pod != nil && j.pod.Running() {
		j.stop(t)
	}
	before := files(t, j.volume)
	began := time.Now()
	e := j.onward(t, suite).Wait(t, firstStart)
	got, ok := report.ParseRefusal(e.Message)
	if !ok || got.Reason != reason || e.Code == 0 {
		t.Fatalf("%s over the volume of %s: want the refusal %s, got %+v", run.Versions[suite], j.at, reason, e)
	}
	if diff := cmp.Diff(before, files(t, j.volume)); diff != "" {
		t.Errorf("a refusal changed the volume: -before, +after\n%s", diff)
	}
	j.row(j.at+" -> "+run.Versions[suite], "refused: "+reason, began)
	t.Log(got.Message)
}

// files of a volume by hash.
func files(t *testing.T, v *volume) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(v.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		out[strings.TrimPrefix(path, v.path)] = hex.EncodeToString(sum[:8])
		return nil
	}))
	return out
}

// populate a server: entries of three parents in one suffix and a few in another, some of
// them deleted again, an attribute of one's own, a user who can bind.
func (j *journey) populate(t *testing.T) {
	t.Helper()
	c := j.pod.LDAP(t, password)
	schema := ldap.NewModifyRequest("cn=schema", nil)
	schema.Add("attributeTypes", []string{"( 2.16.840.1.113730.3.8.999.1 NAME 'fdsTest' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"})
	schema.Add("objectClasses", []string{"( 2.16.840.1.113730.3.8.999.2 NAME 'fdsTested' SUP top AUXILIARY MAY fdsTest )"})
	must(t, c.Modify(schema))
	for _, ou := range []string{"a", "b", "c"} {
		add(t, c, "ou="+ou+","+suffixDN, map[string][]string{"objectClass": {"organizationalUnit"}})
	}
	for i := range people {
		j.addPerson(t, c, fmt.Sprintf("u%04d", i))
	}
	for i := range 10 {
		add(t, c, fmt.Sprintf("ou=o%d,%s", i, otherDN), map[string][]string{"objectClass": {"organizationalUnit"}})
	}
	for i := range 5 {
		must(t, c.Del(ldap.NewDelRequest(personDN(fmt.Sprintf("u%04d", i)), nil)))
	}
}

func personDN(uid string) string {
	n, _ := strconv.Atoi(strings.TrimLeft(uid, "un"))
	return fmt.Sprintf("uid=%s,ou=%c,%s", uid, 'a'+n%3, suffixDN)
}

func (j *journey) addPerson(t *testing.T, c *ldap.Conn, uid string) {
	t.Helper()
	add(t, c, personDN(uid), map[string][]string{
		"objectClass": {"inetOrgPerson", "fdsTested"}, "cn": {"Person " + uid}, "sn": {"S" + uid}, "mail": {uid + "@example.com"},
		"fdsTest": {"of " + uid}, "userPassword": {userPW},
	})
}

func add(t *testing.T, c *ldap.Conn, dn string, attributes map[string][]string) {
	t.Helper()
	r := ldap.NewAddRequest(dn, nil)
	for name, values := range attributes {
		r.Attribute(name, values)
	}
	if err := c.Add(r); err != nil {
		t.Fatalf("add %s: %v", dn, err)
	}
}

// write something under the present version.
func (j *journey) write(t *testing.T) {
	t.Helper()
	n := len(j.added)
	uid := fmt.Sprintf("n%04d", n)
	c := j.pod.LDAP(t, password)
	// A server that is gone back to has to read the schema that a newer one has written, or
	// this entry would be in its way.
	schema := ldap.NewModifyRequest("cn=schema", nil)
	schema.Add("attributeTypes", []string{fmt.Sprintf("( 2.16.840.1.113730.3.8.999.3.%d NAME 'fdsTest%d' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )", n, n)})
	must(t, c.Modify(schema))
	j.addPerson(t, c, uid)
	more := ldap.NewModifyRequest(personDN(uid), nil)
	more.Add("objectClass", []string{"extensibleObject"})
	more.Add(fmt.Sprintf("fdsTest%d", n), []string{j.at})
	must(t, c.Modify(more))
	j.added = append(j.added, uid)
}

// addSuffix that the older version has never heard of.
func (j *journey) addSuffix(t *testing.T) {
	t.Helper()
	j.config.Suffixes = append(append([]config.Suffix(nil), j.config.Suffixes...), config.Suffix{Name: "third", DN: thirdDN, CreateEntry: true})
	j.pod.Mount(t, "config", j.document(t))
	c := j.pod.LDAP(t, password)
	eventually(t, 3*time.Minute, "the suffix is there", func() error {
		_, err := c.Search(ldap.NewSearchRequest(thirdDN, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, anything, nil, nil))
		return err
	})
	for i := range 3 {
		add(t, c, fmt.Sprintf("ou=t%d,%s", i, thirdDN), map[string][]string{"objectClass": {"organizationalUnit"}})
	}
	j.third = true
}

// verify that the server answers as it should of all that was ever written.
func (j *journey) verify(t *testing.T) {
	t.Helper()
	c := j.pod.LDAP(t, password)
	n := people - 5 + len(j.added)
	perParent := 0
	for _, uid := range j.added {
		if strings.Contains(personDN(uid), "ou=a,") {
			perParent++
		}
	}
	type query struct {
		base   string
		scope  int
		filter string
		want   int
	}
	queries := []query{
		{suffixDN, ldap.ScopeWholeSubtree, anything, 1 + 3 + n},
		{suffixDN, ldap.ScopeWholeSubtree, "(uid=*)", n},
		{suffixDN, ldap.ScopeWholeSubtree, "(fdsTest=of *)", n},
		{suffixDN, ldap.ScopeSingleLevel, anything, 3},
		{"ou=a," + suffixDN, ldap.ScopeSingleLevel, anything, 98 + perParent},
		{suffixDN, ldap.ScopeWholeSubtree, "(mail=u0042@example.com)", 1},
		{suffixDN, ldap.ScopeWholeSubtree, "(sn=*u0042)", 1},
		{suffixDN, ldap.ScopeWholeSubtree, "(uid=u0001)", 0},
		{otherDN, ldap.ScopeWholeSubtree, anything, 11},
	}
	if j.third {
		queries = append(queries, query{thirdDN, ldap.ScopeWholeSubtree, anything, 4}, query{thirdDN, ldap.ScopeSingleLevel, "(ou=t1)", 1})
	}
	for _, q := range queries {
		r, err := c.Search(ldap.NewSearchRequest(q.base, q.scope, ldap.NeverDerefAliases, 0, 0, false, q.filter, []string{"1.1"}, nil))
		if err != nil {
			t.Fatalf("search %s %s: %v", q.base, q.filter, err)
		}
		if len(r.Entries) != q.want {
			t.Errorf("%s: %s %s: %d entries, want %d", j.at, q.base, q.filter, len(r.Entries), q.want)
		}
	}
	for _, uid := range append([]string{"u0042"}, j.added...) {
		conn, err := j.pod.Dial(3389)
		must(t, err)
		if n, err := strconv.Atoi(strings.TrimPrefix(uid, "n")); err == nil {
			attribute := fmt.Sprintf("fdsTest%d", n)
			if got := values(t, c, personDN(uid), attribute); len(got) != 1 {
				t.Errorf("%s: %s of %s is %q", j.at, attribute, uid, got)
			}
		}
		u := newConn(conn, false)
		if err := u.Bind(personDN(uid), userPW); err != nil {
			t.Errorf("%s: %s cannot bind: %v", j.at, uid, err)
		}
		_ = u.Close()
	}
	if t.Failed() {
		t.FailNow()
	}
}

// begin a journey with a version that is Ready and has data.
func (d *deployment) begin(t *testing.T, tab *table, suite string, v *volume) *journey {
	t.Helper()
	d.config.Suffixes = append(d.config.Suffixes, config.Suffix{Name: "other", DN: otherDN, CreateEntry: true})
	j := &journey{deployment: d, volume: v, table: tab, at: run.Versions[suite]}
	began := time.Now()
	j.onward(t, suite).awaitReady(t, firstStart)
	j.row("nothing -> "+j.at, "first start", began)
	j.populate(t)
	j.verify(t)
	return j
}

func read(v *volume, elem ...string) string {
	b, err := os.ReadFile(v.Path(elem...))
	if err != nil {
		return ""
	}
	return string(b)
}

// R35, R42, R56: a real volume through real versions: up, back, refused, failed, killed.
func TestVersionPairs(t *testing.T) {
	api := startAPI(t)
	tab := &table{}
	t.Cleanup(func() {
		t.Log("\n| change | what happens | seconds |\n|---|---|---|\n" + strings.Join(tab.rows, "\n"))
	})
	old := newDeployment(t, api).begin(t, tab, bookworm, newVolume(t, 0))
	old.stop(t)

	t.Run("UpAndBackWithBerkeleyDB", func(t *testing.T) {
		j := old.branch(t)
		j.reach(t, trixie, "the database stays")
		j.addSuffix(t)
		j.write(t)
		j.reach(t, bookworm, "the old configuration, the present data")
		j.write(t)
		j.reach(t, trixie, "once more")
		j.write(t)
		j.stop(t)

		t.Run("Migrate", func(t *testing.T) {
			j.refused(t, sid, report.RefusalDatabaseBackendUnsupported)
			j.config.DatabaseMigration = true
			j.reach(t, sid, "migrated to LMDB")
			j.write(t)
			j.stop(t)
			log := read(j.volume, "logs", "errors")
			if i := strings.LastIndex(log, "389-Directory/3.3"); i < 0 || strings.Contains(log[i:], "MISMATCH") {
				t.Error("3.3.1 complains of the order of an index")
			}
			j.reach(t, sid, "restart")
			j.stop(t)
			j.reach(t, trixie, "LMDB and all data stay")
			j.write(t)
			j.stop(t)
			j.reach(t, sid, "no migration")
			j.stop(t)
			j.reach(t, trixie, "LMDB and all data stay")
			j.stop(t)

			j.refused(t, bookworm, report.RefusalRollbackLosesWrites)
			j.config.BackupConfirmed = "3.1.2->2.3.1"
			// What was written since the migration is lost, as the person knows.
			j.added = j.added[:3]
			j.reach(t, bookworm, "backup confirmed: the data as of the migration")
			j.stop(t)
		})
	})

	t.Run("Refused", func(t *testing.T) {
		j := old.branch(t)
		j.refused(t, sid, report.RefusalDatabaseBackendUnsupported)

		// As if the image said something else than spec.version.
		j.onward(t, bookworm).awaitReady(t, firstStart)
		j.pod.KillServer(t)
		j.pod.Wait(t, time.Minute)
		j.config.DatabaseMigration = true
		j.refused(t, sid, report.RefusalUncleanDatabase)
		j.reach(t, bookworm, "recovers")
		j.stop(t)

		s := j.spec(t, trixie, 0)
		s.Volume = j.volume
		for i, a := range s.Command {
			s.Command[i] = strings.Replace(a, "3.1.2", "3.1.3", 1)
		}
		before := files(t, j.volume)
		j.pod.Replace(t, func(to *podSpec) { *to = s })
		if r, _ := report.ParseRefusal(j.pod.Wait(t, time.Minute).Message); r.Reason != report.RefusalVersionMismatch {
			t.Errorf("an image of 3.1.2 in a pod for 3.1.3: %+v", r)
		}
		if diff := cmp.Diff(before, files(t, j.volume)); diff != "" {
			t.Errorf("a refusal changed the volume: -before, +after\n%s", diff)
		}
		j.reach(t, sid, "migrated to LMDB")
		j.stop(t)
		j.refused(t, bookworm, report.RefusalRollbackLosesWrites)
	})

	t.Run("FailedUpgrade", func(t *testing.T) {
		j := old.branch(t)
		dse := read(j.volume, "config", "dse.ldif")
		began := time.Now()
		// It is killed as soon as it has rewritten the configuration, again and again.
		for range 3 {
			p := j.onward(t, trixie)
			eventually(t, time.Minute, "3.1.2 rewrites the configuration", func() error {
				if now := read(j.volume, "config", "dse.ldif"); now == dse || !strings.Contains(now, "nsslapd-pluginVersion: 3.1.2") {
					return errors.New("not yet")
				}
				return nil
			})
			p.Kill(t)
			p.Restart(t)
			time.Sleep(2 * time.Second)
			p.Kill(t)
		}
		j.at += " -> (3.1.2 killed 6 times)"
		j.row(j.at, "fails", began)
		j.reach(t, bookworm, "the old configuration, all data")
		j.stop(t)
	})

	t.Run("FailedMigration", func(t *testing.T) {
		// Each is the moment at which the pod is killed.
		moments := map[string]func(v *volume) bool{
			"Begun": func(v *volume) bool {
				return strings.Contains(read(v, ".directoryservice", "state.json"), `"kind": "migrate"`)
			},
			"Exported": func(v *volume) bool { return read(v, "ldif", "__dblib-other.ldif") != "" },
			"Switched": func(v *volume) bool {
				return strings.Contains(read(v, "config", "dse.ldif"), "nsslapd-backend-implement: mdb")
			},
			"Imported": func(v *volume) bool { return len(read(v, "db", "data.mdb")) > 100_000 },
			"Migrated": func(v *volume) bool {
				return strings.Contains(read(v, ".directoryservice", "state.json"), `"switched"`)
			},
			"Started": func(v *volume) bool {
				return strings.Contains(read(v, ".directoryservice", "state.json"), `"switched"`) && strings.Contains(read(v, "config", "dse.ldif"), "nsslapd-pluginVersion: 3.3")
			},
		}
		for name, reached := range moments {
			t.Run(name, func(t *testing.T) {
				j := old.branch(t)
				j.config.DatabaseMigration = true
				began := time.Now()
				p := j.onward(t, sid)
				eventually(t, 2*time.Minute, "the moment comes", func() error {
					if !p.Running() {
						t.Fatalf("it ended: %s", p.Log(t))
					}
					if !reached(j.volume) {
						return errors.New("not yet")
					}
					return nil
				})
				p.Kill(t)
				j.row(j.at+" -> 3.3.1", "killed: "+name, began)
				back := j.branch(t)
				j.reach(t, sid, "after "+name+": migrated to LMDB")
				j.stop(t)
				back.at = "(3.3.1 killed: " + name + ")"
				back.reach(t, bookworm, "after "+name+": the old configuration, the old database")
				if f, _ := filepath.Glob(back.volume.Path("db", "*.mdb")); len(f) > 0 {
					t.Errorf("what the migration made is left: %v", f)
				}
				if f, _ := filepath.Glob(back.volume.Path("ldif", "__dblib*")); len(f) > 0 {
					t.Errorf("an export with all password hashes is left: %v", f)
				}
				back.stop(t)
			})
		}
	})

	t.Run("LMDB", func(t *testing.T) {
		j := newDeployment(t, api).begin(t, tab, trixie, newVolume(t, 0))
		j.stop(t)
		j.refused(t, bookworm, report.RefusalUnreadableConfig)
		j.reach(t, sid, "LMDB stays")
		j.write(t)
		j.reach(t, trixie, "the old configuration, the present data")
		j.write(t)
		j.reach(t, sid, "once more")
		j.write(t)
		j.stop(t)
	})

	t.Run("SmallVolume", func(t *testing.T) {
		// On a node with much memory a new server of 2.3.1 would not start there.
		j := old.branch(t)
		j.volume = newVolume(t, 1<<30)
		out, err := exec.CommandContext(t.Context(), "cp", "-a", old.volume.path+"/.", j.volume.path).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		must(t, os.Chmod(j.volume.path, 0o775|os.ModeSetgid))
		j.reach(t, bookworm, "volume of 1 GiB: the cache is bounded")
		j.write(t)
		j.reach(t, trixie, "volume of 1 GiB: the cache is bounded")
		j.write(t)
		j.stop(t)
		j.config.DatabaseMigration = true
		j.reach(t, sid, "volume of 1 GiB: migrated to LMDB")
		j.stop(t)
		j.reach(t, trixie, "volume of 1 GiB: LMDB stays")
		j.stop(t)
	})
}

// R42: a first start that is killed at any moment begins again, and one that fails leaves nothing in its way.
func TestFirstStartKilled(t *testing.T) {
	api := startAPI(t)
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			d := newDeployment(t, api)
			s := d.spec(t, suite, 0)
			p := newPod(t, s)
			v := p.spec.Volume
			for _, moment := range []string{"config/dse.ldif", "db/DBVERSION", "config/cert9.db"} {
				p.Start(t)
				eventually(t, time.Minute, moment+" is there", func() error {
					if read(v, moment) == "" && read(v, "config/container.inf") == "" {
						return errors.New("not yet")
					}
					return nil
				})
				p.Kill(t)
			}
			p.Start(t)
			p.awaitReady(t, firstStart)
			p.Stop(t, terminationGrace)
		})
	}
}
