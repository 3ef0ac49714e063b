package prepare

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A fake image is made of small files with the strings that tell images apart.
type fakeImage struct {
	says string // what ns-slapd -v prints after "389-Directory/"
	// ldbm are the strings of libback-ldbm.so; robdb and bundled say which libraries lie
	// beside it.
	ldbm           string
	robdb, bundled bool
	// plugins are the init functions of libpwdstorage-plugin.so.
	plugins string
	// index says that dsctl has index-check; bare, that there are no tools at all.
	index, bare bool
}

var images = map[string]fakeImage{
	"2.3.1": {says: "2.3.1 B2025.016.1616", ldbm: "libdb-5.3.so liblmdb.so.0", plugins: "pbkdf2_init"},
	"2.9.0": {says: "2.9.0 B2026.001.0000", ldbm: "libdb-5.3.so liblmdb.so.0", plugins: "pbkdf2_init yescrypt_init"},
	"2.3.9": {says: "2.3.9 B2025.300.0000", ldbm: "libdb-5.3.so liblmdb.so.0", plugins: "pbkdf2_init"},
	"3.0.0": {says: "3.0.0 B2024.001.0000", ldbm: "libdb-5.3.so liblmdb.so.0 libback-bdb", plugins: "pbkdf2_init"},
	"3.1.2": {says: "3.1.2 B2026.125.0709", ldbm: "libdb-5.3.so liblmdb.so.0 libback-bdb", plugins: "pbkdf2_init yescrypt_init"},
	"3.1.3": {says: "3.1.3 B2026.200.0000", ldbm: "libdb-5.3.so liblmdb.so.0 libback-bdb", plugins: "pbkdf2_init yescrypt_init"},
	"3.3.1": {says: "3.3.1 B2026.254.0533", ldbm: "liblmdb.so.0 libback-bdb", robdb: true, plugins: "pbkdf2_init yescrypt_init", index: true},
	"3.3.2": {says: "3.3.2 B2026.300.0000", ldbm: "liblmdb.so.0 libback-bdb", robdb: true, plugins: "pbkdf2_init yescrypt_init", index: true},

	"3.1.2 of another distribution": {says: "3.1.2 B2026.999.0000", ldbm: "libdb-5.3.so liblmdb.so.0 libback-bdb", plugins: "pbkdf2_init yescrypt_init"},
	"3.2.1":                         {says: "3.2.1 B1", ldbm: "libdb-5.3.so liblmdb.so.0"},
	"3.2.2":                         {says: "3.2.2 B1", ldbm: "libdb-5.3.so liblmdb.so.0"},
	"3.3.0":                         {says: "3.3.0 B1", ldbm: "libdb-5.3.so liblmdb.so.0"},
	"3.1.0.rc1":                     {says: "3.1.0.rc1 B1", ldbm: "libdb-5.3.so liblmdb.so.0"},
	"bundled":                       {says: "3.1.2 B2", ldbm: "liblmdb.so.0 libback-bdb", bundled: true, plugins: "pbkdf2_init yescrypt_init"},
	"without bdb":                   {says: "3.3.1 B2", ldbm: "liblmdb.so.0 libback-bdb", plugins: "pbkdf2_init yescrypt_init"},
	"without lmdb":                  {says: "3.3.1 B3", ldbm: "libdb-5.3.so", plugins: "pbkdf2_init yescrypt_init"},
	"strange":                       {says: "3.3.1 B4"},
	"silent":                        {ldbm: "libdb-5.3.so"},
	"without tools":                 {says: "3.3.1 B5", ldbm: "liblmdb.so.0 libback-bdb", robdb: true, plugins: "pbkdf2_init yescrypt_init", bare: true},
}

// A world is a volume and the programs that work on it.
type world struct {
	t     *testing.T
	data  string
	roots map[string]string
	// step is called wherever the process may end.
	step func(string)
	// lossy makes a migration lose an entry, failing makes it end with an error, and tidy
	// makes it leave the guardian.
	// idle makes it do nothing, and say that all is well.
	lossy, failing, tidy, idle bool
	// free bytes of the volume, and memory of the node.
	free, memory uint64
	ran          []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, data: t.TempDir(), roots: map[string]string{}, free: 1 << 40, memory: 24 << 30}
}

// clone of a world has a copy of the volume.
func (w *world) clone(t *testing.T) *world {
	t.Helper()
	c := *w
	c.t, c.data, c.ran = t, t.TempDir(), nil
	if err := os.CopyFS(c.data, os.DirFS(w.data)); err != nil {
		t.Fatal(err)
	}
	// Times tell files apart, and are not copied.
	err := filepath.WalkDir(w.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.data, path)
		return os.Chtimes(filepath.Join(c.data, rel), i.ModTime(), i.ModTime())
	})
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func (w *world) at(what string) {
	if w.step != nil {
		w.step(what)
	}
}

func (w *world) write(content string, elem ...string) {
	w.t.Helper()
	put(w.t, content, append([]string{w.data}, elem...)...)
}

func put(t *testing.T, content string, elem ...string) {
	t.Helper()
	path := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) read(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{w.data}, elem...)...))
	if err != nil {
		return ""
	}
	return string(b)
}

// root of an image's file system.
func (w *world) root(image string) string {
	w.t.Helper()
	if r, ok := w.roots[image]; ok {
		return r
	}
	i, ok := images[image]
	if !ok {
		w.t.Fatalf("no image %q", image)
	}
	root := w.t.TempDir()
	put(w.t, i.says, root, "usr/sbin/ns-slapd")
	if !i.bare {
		put(w.t, "#!/usr/bin/python3\n", root, "usr/sbin/dsctl")
		put(w.t, "", root, "usr/bin/dbscan")
	}
	const dirsrv = "usr/lib/x86_64-linux-gnu/dirsrv"
	if i.ldbm != "" {
		put(w.t, i.ldbm, root, dirsrv, "plugins/libback-ldbm.so")
		put(w.t, i.plugins, root, dirsrv, "plugins/libpwdstorage-plugin.so")
	}
	if i.robdb {
		put(w.t, "", root, dirsrv, "librobdb.so")
	}
	if i.bundled {
		put(w.t, "", root, dirsrv, "plugins/libback-bdb.so")
	}
	if i.index {
		put(w.t, "add_parser('index-check')", root, "usr/lib/python3/dist-packages/lib389/cli_ctl/dbtasks.py")
	}
	w.roots[image] = root
	return root
}

// options of a pod for the version in the image.
func (w *world) options(image string, change ...func(*Options)) Options {
	o := Options{Data: w.data, Root: w.root(image), Command: w.command(image)}
	if v, ok := parseVersion(images[image].says); ok {
		o.Version = v.String()
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func migrateIt(o *Options) { o.Migrate = true }

func confirm(pair string) func(*Options) { return func(o *Options) { o.BackupConfirmed = pair } }

// prepare with an image.
func (w *world) prepare(image string, change ...func(*Options)) (Result, error) {
	w.t.Helper()
	r := &run{Options: w.options(image, change...), disk: disk{step: w.step}, free: func(string) (uint64, error) { return w.free, nil }, memory: func() uint64 { return w.memory }, now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }}
	return r.prepare(context.Background())
}

func (w *world) command(image string) Command {
	return func(_ context.Context, name string, args ...string) ([]byte, int, error) {
		w.ran = append(w.ran, strings.Join(append([]string{filepath.Base(name)}, args...), " "))
		if name == "/usr/bin/python3" {
			// python3 -c CODE dsctl ..: the code starts no server.
			name, args = args[2], args[3:]
		}
		switch filepath.Base(name) + " " + strings.Join(args[:min(len(args), 3)], " ") {
		case "ns-slapd -v":
			if images[image].says == "" {
				return []byte("segmentation fault"), 139, nil
			}
			return []byte("389 Project\n389-Directory/" + images[image].says + "\n"), 1, nil
		case "dbscan -D bdb -t":
			return []byte(w.entries(args[len(args)-1])), 0, nil
		case "dbscan -D mdb -L":
			return []byte(w.stats()), 0, nil
		case "dsctl localhost dblib bdb2mdb":
			return w.bdb2mdb()
		case "dsctl localhost index-check":
			if strings.Contains(w.read("config/dse.ldif"), "integerOrderingMatch") || !w.open("3.3.1", mdb) {
				return nil, 0, nil
			}
			return []byte("MISMATCH"), 1, nil
		case "dsctl localhost index-check --fix":
			w.rewrite(strings.Replace(w.read("config/dse.ldif"), "cn: parentid\n", "cn: parentid\nnsMatchingRule: integerOrderingMatch\n", 1))
			return nil, 0, nil
		}
		w.t.Errorf("unexpected command: %s %s", name, strings.Join(args, " "))
		return nil, 127, nil
	}
}

// entries as dbscan prints them; the fake file holds their number.
func (w *world) entries(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		w.t.Error(err)
	}
	n, _ := strconv.Atoi(string(b))
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "id %d\n\trdn: uid=u%d ...\n\tid 7\n", i+1, i)
	}
	return out.String()
}

// stats as dbscan prints them; the fake data.mdb holds `name number` lines.
func (w *world) stats() string {
	out := " " + w.data + "/db/__DBNAMES flags: MDB_DUPSORT state: 0x0  dataversion: 0 nb_entries=71\n"
	for line := range strings.Lines(w.read("db/data.mdb")) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		out += fmt.Sprintf(" %s/db/%s/cn.db flags: MDB_DUPSORT state: 0x0  dataversion: 0 nb_entries=999\n", w.data, name)
		out += fmt.Sprintf(" %s/db/%s/id2entry.db flags: 0x0  state: 0x0  dataversion: 0 nb_entries=%s\n", w.data, name, n)
	}
	return out
}

// rewrite the configuration as dsctl does, in place.
func (w *world) rewrite(content string) {
	w.write(content[:len(content)/2], "config/dse.ldif")
	w.at("dsctl writes")
	w.write(content, "config/dse.ldif")
	w.at("dsctl has written")
}

// bdb2mdb as dsctl does it, with its faults.
func (w *world) bdb2mdb() ([]byte, int, error) {
	if w.idle {
		return []byte("Failed trying to create the directory /data/ldif"), 0, nil
	}
	if !w.tidy {
		_ = os.Remove(filepath.Join(w.data, "db/guardian"))
	}
	w.at("bdb2mdb begins")
	for _, f := range []string{"INFO.mdb", "data.mdb", "lock.mdb"} {
		_ = os.Remove(filepath.Join(w.data, "db", f))
	}
	w.write("LIBVERSION=9025", "db/INFO.mdb")
	w.write("dn: dc=example,dc=com\nuserPassword: {PBKDF2}x\n", "ldif/__dblib-userroot.ldif")
	w.at("bdb2mdb has exported")
	if w.failing {
		return []byte("Error: Not enough space on /data/ldif"), 1, nil
	}
	dse := strings.Replace(w.read("config/dse.ldif"), "nsslapd-backend-implement: bdb", "nsslapd-backend-implement: mdb", 1)
	w.rewrite(dse + "\ndn: cn=mdb,cn=config,cn=ldbm database,cn=plugins,cn=config\ncn: mdb\nnsslapd-mdb-max-size: 1\n")
	w.write("", "db/data.mdb")
	w.at("bdb2mdb imports")
	n, _ := strconv.Atoi(w.read("db/userRoot/id2entry.db"))
	if w.lossy {
		n--
	}
	w.write(fmt.Sprintf("userroot %d\nother %s\n", n, w.read("db/other/id2entry.db")), "db/data.mdb")
	w.at("bdb2mdb ends")
	return []byte("Migration from Berkeley database to lmdb is done."), 0, nil
}

// open says whether a server of that image would open a database of that kind.
func (w *world) open(image string, k kind) bool {
	i := images[image]
	if k == mdb {
		return strings.Contains(i.ldbm, "liblmdb") && strings.Contains(w.read("config/dse.ldif"), "implement: mdb") && w.read("db/data.mdb") != ""
	}
	return strings.Contains(i.ldbm, "libdb-") && strings.Contains(w.read("config/dse.ldif"), "implement: bdb")
}

var pluginVersion = regexp.MustCompile(`nsslapd-pluginVersion: \S+`)

// start a server as far as it comes: it rewrites its configuration, whatever comes then. It
// fails with a configuration or a database that it does not know.
func (w *world) start(image string) error {
	w.t.Helper()
	i := images[image]
	v, _ := parseVersion(i.says)
	if !exists(w.data, "config/container.inf") {
		if exists(w.data, "config/dse.ldif") {
			return fmt.Errorf("another instance named 'localhost' may already exist")
		}
		w.create(image)
	}
	dse := w.read("config/dse.ldif")
	if v[0] == 2 && strings.Contains(dse, "yescrypt_init") {
		return fmt.Errorf("undefined symbol: yescrypt_init")
	}
	if !strings.Contains(dse, "dn: cn=config\n") {
		return fmt.Errorf("no configuration")
	}
	dse = pluginVersion.ReplaceAllString(dse, "nsslapd-pluginVersion: "+v.String())
	if v[0] == 3 && !strings.Contains(dse, "yescrypt_init") {
		dse = strings.Replace(dse, "dn: cn=config,cn=ldbm", "dn: cn=YESCRYPT,cn=plugins,cn=config\nnsslapd-pluginPath: libpwdstorage-plugin\nnsslapd-pluginInitfunc: yescrypt_init\nnsslapd-pluginEnabled: on\nnsslapd-pluginVersion: "+v.String()+"\n\ndn: cn=config,cn=ldbm", 1)
	}
	for _, f := range []string{"dse.ldif", "dse.ldif.bak", "dse.ldif.startOK"} {
		w.write(dse, "config", f)
	}
	switch {
	case w.open(image, mdb):
	case w.open(image, bdb):
		clean := exists(w.data, "db/guardian")
		if env := w.read("db/__db.001"); env != "" && env != i.says && clean {
			_ = os.Remove(filepath.Join(w.data, "db/guardian"))
			return fmt.Errorf("BDB1539 Build signature doesn't match environment")
		}
		_ = os.Remove(filepath.Join(w.data, "db/guardian"))
		w.write(i.says, "db/__db.001")
	default:
		return fmt.Errorf("%s does not open the database", image)
	}
	return nil
}

// create a server as dscontainer does on an empty volume.
func (w *world) create(image string) {
	w.write(configuration, "config/dse.ldif")
	w.write("", "config/schema/99user.ldif")
	w.write("", "config/key4.db")
	if v, _ := parseVersion(images[image].says); v[0] == 3 {
		w.write(strings.Replace(configuration, "implement: bdb", "implement: mdb", 1)+"\ndn: cn=mdb,cn=config,cn=ldbm database,cn=plugins,cn=config\ncn: mdb\nnsslapd-mdb-max-size: 1\n", "config/dse.ldif")
		w.write("userroot 5\nother 2\n", "db/data.mdb")
	} else {
		w.write("5", "db/userRoot/id2entry.db")
		w.write("2", "db/other/id2entry.db")
		w.write("", "db/log.0000000001")
	}
	w.write("", "logs/errors")
	w.write("", "config/container.inf")
}

// stop a server cleanly.
func (w *world) stop() {
	if strings.Contains(w.read("config/dse.ldif"), "implement: bdb") {
		w.write("closed", "db/guardian")
	}
}

// ready prepares, starts and stops a server that becomes Ready.
func (w *world) ready(image string, change ...func(*Options)) Result {
	w.t.Helper()
	r, err := w.prepare(image, change...)
	if err != nil {
		w.t.Fatalf("prepare %s: %v", image, err)
	}
	if err := w.start(image); err != nil {
		w.t.Fatalf("start %s: %v", image, err)
	}
	w.t.Helper()
	if err := MarkReady(w.data, r.Version, w.counts()); err != nil {
		w.t.Fatal(err)
	}
	if err := MarkCounts(w.data, w.counts(), true); err != nil {
		w.t.Fatal(err)
	}
	w.stop()
	return r
}

// fails prepares and starts a server that does not become Ready.
func (w *world) fails(image string, change ...func(*Options)) {
	w.t.Helper()
	if _, err := w.prepare(image, change...); err != nil {
		w.t.Fatalf("prepare %s: %v", image, err)
	}
	if err := w.start(image); err == nil {
		w.stop()
	}
}

func (w *world) counts() map[string]int {
	out := map[string]int{}
	if w.open("3.3.1", mdb) {
		for line := range strings.Lines(w.read("db/data.mdb")) {
			name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
			out[map[string]string{"userroot": "userRoot"}[name]+map[string]string{"other": "other"}[name]], _ = strconv.Atoi(n)
		}
		return out
	}
	out["userRoot"], _ = strconv.Atoi(w.read("db/userRoot/id2entry.db"))
	out["other"], _ = strconv.Atoi(w.read("db/other/id2entry.db"))
	return out
}

// tree is every file with a hash of its content, except those below the given names.
func (w *world) tree(except ...string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(w.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.data, path)
		for _, x := range except {
			if rel == x {
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
		}
		if e.IsDir() {
			out[rel] = "directory"
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h := sha256.Sum256(b)
		out[rel] = hex.EncodeToString(h[:4])
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func reasonOf(err error) string {
	if r, ok := Refused(err); ok {
		return r.Reason
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return ""
}

// No power fails while tests run, so that they need no disk: thousands of small volumes
// take minutes there.
func TestMain(m *testing.M) {
	fsync = func(*os.File) error { return nil }
	if dir, err := os.MkdirTemp("/dev/shm", "prepare"); err == nil {
		_ = os.Setenv("TMPDIR", dir)
		code := m.Run()
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// configuration of a fake server: folded lines, a comment, two backends and a replica.
const configuration = `# A comment
dn: cn=config
objectClass: top
nsslapd-port: 3389
nsslapd-rootpw: {PBKDF2_SHA256}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
 AAAAAAAAAAAAAAAAAAAAAA

dn: cn=uniqueid generator,cn=config
nsState:: gErUV/Hs8QHD2V52dIO2DwEAAAAAAAAA

dn: cn=PBKDF2,cn=plugins,cn=config
nsslapd-pluginPath: libpwdstorage-plugin
nsslapd-pluginInitfunc: pbkdf2_init
nsslapd-pluginEnabled: on
nsslapd-pluginVersion: none

dn: cn=config,cn=ldbm database,cn=plugins,cn=config
objectClass: top
nsslapd-backend-implement: bdb
nsslapd-directory: /data/db

dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config
objectClass: top
objectClass: nsBackendInstance
cn: userRoot
nsslapd-suffix: dc=example,dc=com
nsslapd-directory: /data/db/userRoot

dn: cn=parentid,cn=index,cn=userRoot,cn=ldbm database,cn=plugins,cn=config
cn: parentid

dn: cn=other,cn=ldbm database,cn=plugins,cn=config
objectClass: nsBackendInstance
cn: other
nsslapd-suffix: o=other
nsslapd-directory: /data/db/other

dn: cn=replica,cn=dc\3Dexample\2Cdc\3Dcom,cn=mapping tree,cn=config
objectClass: top
objectClass: nsds5Replica
nsDS5ReplicaRoot: dc=example,dc=com
nsDS5ReplicaId: 1
nsState:: AQAAAAAAAACPyQ1rAAAAAAAAAAAAAAAAAAAAAAAAAACkAAAAA
 AAAAAA==
nsDS5ReplicaName: x
`
