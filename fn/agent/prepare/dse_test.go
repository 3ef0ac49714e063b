package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"Plain":       {reason: "As a person writes it.", text: "3.1.2", want: "3.1.2"},
		"LeadingV":    {reason: "A leading v does not count.", text: "v3.1.2", want: "3.1.2"},
		"Server":      {reason: "As a server says it.", text: "389-Directory/3.1.2 B2026.125.0709", want: "3.1.2"},
		"PreRelease":  {reason: "What follows is not compared.", text: "3.1.0-rc.1", want: "3.1.0"},
		"Spelled":     {reason: "However it is spelled.", text: "3.1.0.rc1", want: "3.1.0"},
		"FourNumbers": {reason: "1.4 had four.", text: "1.4.4.17", want: "1.4.4"},
		"LeadingZero": {reason: "A number is a decimal one.", text: "3.010.2", want: "3.10.2"},
		"Two":         {reason: "Two numbers are none.", text: "3.1"},
		"None":        {reason: "A word is none.", text: "none"},
		"Empty":       {reason: "Nothing is none.", text: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _ := parseVersion(tc.text)
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("\n%s\nparseVersion(%q): -want, +got:\n%s", tc.reason, tc.text, diff)
			}
		})
	}
}

// What is not changed stays as it is, byte for byte.
func TestDSEKeepsBytes(t *testing.T) {
	for name, content := range map[string]string{
		"Server":     configuration,
		"NoNewline":  "dn: cn=config\ncn: config",
		"Blank":      "\n\n\ndn: cn=config\n\n\n\ndn: cn=x\n\n",
		"CRLF":       "dn: cn=config\r\ncn: con\r\n fig\r\n\r\ndn: cn=x\r\n",
		"FoldedDN":   "dn: cn=con\n fig\ncn: config\n",
		"SpaceFirst": " dn: cn=config\n",
		"Empty":      "",
	} {
		if diff := cmp.Diff(content, string(parseDSE([]byte(content)).bytes())); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
}

func TestDSE(t *testing.T) {
	d := parseDSE([]byte(configuration))
	type found struct {
		Complete bool
		Kind     kind
		Backends []string
		Plugins  []string
		Folded   int
	}
	got := found{Complete: d.complete(), Kind: d.kind(), Folded: len(d.find("cn=config").value("nsslapd-rootpw"))}
	for _, b := range d.backends() {
		got.Backends = append(got.Backends, b.name+" in "+b.directory)
	}
	for _, p := range d.plugins() {
		got.Plugins = append(got.Plugins, p.path+" "+p.init)
	}
	want := found{Complete: true, Kind: bdb, Backends: []string{"userRoot in userRoot", "other in other"}, Plugins: []string{"libpwdstorage-plugin pbkdf2_init"}, Folded: 83}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// Base64, folding and another writing of the suffix do not hide what a value is.
func TestDSEValues(t *testing.T) {
	d := parseDSE([]byte("DN:: Y249Y29u\n ZmlnLCBjbj1sZGJtIGRhdGFiYXNlLCBjbj1wbHVnaW5zLCBjbj1jb25maWc=\nNSSLAPD-backend-implement:  MDB\n"))
	if diff := cmp.Diff(mdb, d.kind()); diff != "" {
		t.Error(diff)
	}
	if d.find(databaseDN) == nil {
		t.Errorf("no %s in %q", databaseDN, d.entries[0].dn())
	}
}

func TestWriter(t *testing.T) {
	cases := map[string]struct {
		reason  string
		content string
		want    string
	}{
		"Most":  {reason: "A plugin of somebody else has a version of its own.", content: "dn: cn=a\nnsslapd-pluginVersion: 3.1.2\n\ndn: cn=b\nnsslapd-pluginVersion: 3.1.2\n\ndn: cn=c\nnsslapd-pluginVersion: 9.9.9\n", want: "3.1.2"},
		"Equal": {reason: "Of as many the newer one.", content: "dn: cn=a\nnsslapd-pluginVersion: 3.1.2\n\ndn: cn=b\nnsslapd-pluginVersion: 2.3.1\n", want: "3.1.2"},
		"None":  {reason: "A plugin that was never loaded has none.", content: "dn: cn=a\nnsslapd-pluginVersion: none\n"},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, parseDSE([]byte(tc.content)).writer().String()); diff != "" {
			t.Errorf("%s: %s -want, +got:\n%s", name, tc.reason, diff)
		}
	}
}

func TestCarryState(t *testing.T) {
	replica := func(root, state string) string {
		s := "dn: cn=replica,cn=" + root + ",cn=mapping tree,cn=config\nobjectClass: nsDS5Replica\nnsDS5ReplicaRoot: " + root + "\n"
		if state != "" {
			s += "nsState:: " + state + "\n"
		}
		return s + "\n"
	}
	cases := map[string]struct {
		reason    string
		old, from string
		want      string
	}{
		"Newer":      {reason: "The present state is carried over.", old: replica("dc=a", "QQ=="), from: replica("dc=a", "Qg=="), want: replica("dc=a", "Qg==")},
		"Spelling":   {reason: "However the suffix is written.", old: replica("dc=a,dc=b", "QQ=="), from: replica("DC=A, dc=b", "Qg=="), want: replica("dc=a,dc=b", "Qg==")},
		"Each":       {reason: "Each suffix has its own.", old: replica("dc=a", "QQ==") + replica("dc=b", "QQ=="), from: replica("dc=b", "Qg==") + replica("dc=a", "Qw=="), want: replica("dc=a", "Qw==") + replica("dc=b", "Qg==")},
		"NotThere":   {reason: "A replica that has none gets it.", old: replica("dc=a", ""), from: replica("dc=a", "Qg=="), want: replica("dc=a", "Qg==")},
		"NoReplica":  {reason: "Where there is no replica none is made.", old: "dn: cn=x\n", from: replica("dc=a", "Qg=="), want: "dn: cn=x\n"},
		"NoneNow":    {reason: "Without a present state the old one stays.", old: replica("dc=a", "QQ=="), from: "dn: cn=x\n", want: replica("dc=a", "QQ==")},
		"Generators": {reason: "Another entry's state is another.", old: "dn: cn=uniqueid generator,cn=config\nnsState:: QQ==\n", from: "dn: cn=uniqueid generator,cn=config\nnsState:: Qg==\n", want: "dn: cn=uniqueid generator,cn=config\nnsState:: QQ==\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := parseDSE([]byte(tc.old))
			d.carryState(parseDSE([]byte(tc.from)))
			if diff := cmp.Diff(tc.want, string(d.bytes())); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestKeepLMDB(t *testing.T) {
	const database = "dn: cn=config,cn=ldbm database,cn=plugins,cn=config\nnsslapd-backend-implement: bdb\n"
	const settings = "dn: cn=mdb,cn=config,cn=ldbm database,cn=plugins,cn=config\ncn: mdb\nnsslapd-mdb-max-size: 2\n"
	lmdb := strings.Replace(database, ": bdb", ": mdb", 1)
	cases := map[string]struct {
		reason    string
		old, from string
		want      string
		kept      bool
	}{
		"Added":    {reason: "The settings of now come in behind their parent.", old: database + "\ndn: cn=x\n", from: settings, want: lmdb + "\n" + settings + "\ndn: cn=x\n", kept: true},
		"Last":     {reason: "At the end of the file too.", old: database, from: settings + "\n", want: lmdb + "\n" + settings + "\n", kept: true},
		"Replaced": {reason: "And in the place of older ones.", old: database + "\n" + strings.Replace(settings, "2", "1", 1), from: settings, want: lmdb + "\n" + settings, kept: true},
		"None":     {reason: "Without settings it cannot be kept.", old: database, from: database, want: database},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := parseDSE([]byte(tc.old))
			if got := d.keepLMDB(parseDSE([]byte(tc.from))); got != tc.kept {
				t.Errorf("\n%s\nkept: %v", tc.reason, got)
			}
			if diff := cmp.Diff(tc.want, string(d.bytes())); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// The order in which a server itself looks for its configuration.
func TestReadDSE(t *testing.T) {
	dir := t.TempDir()
	if d, err := readDSE(dir); d != nil || err != nil {
		t.Errorf("no configuration: %v, %v", d, err)
	}
	put(t, "dn: cn=bak\n", dir, "dse.ldif.bak")
	put(t, "", dir, "dse.ldif")
	d, err := readDSE(dir)
	if err != nil || d == nil || d.entries[0].dn() != "cn=bak" {
		t.Errorf("an empty file is none: %v, %v", d, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dse.ldif.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := readDSE(dir); err == nil {
		t.Error("what cannot be read is an error")
	}
}

// LDIF of any kind neither panics nor changes by being read.
func FuzzDSE(f *testing.F) {
	f.Add(configuration, configuration)
	f.Add("dn:: x\n y\n\n\n: \n", "nsState\n ")
	f.Fuzz(func(t *testing.T, content, other string) {
		d, o := parseDSE([]byte(content)), parseDSE([]byte(other))
		if diff := cmp.Diff(content, string(d.bytes())); diff != "" {
			t.Fatal(diff)
		}
		_, _, _, _, _ = d.kind(), d.writer(), d.plugins(), d.backends(), d.complete()
		d.carryState(o)
		d.keepLMDB(o)
		again := parseDSE(d.bytes())
		if diff := cmp.Diff(string(d.bytes()), string(again.bytes())); diff != "" {
			t.Fatal(diff)
		}
	})
}
