package directory

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/config"
)

func TestNormal(t *testing.T) {
	cases := map[string]struct {
		reason string
		dn     string
		want   string
	}{
		"Same":       {reason: "A normal DN stays.", dn: "dc=example,dc=com", want: "dc=example,dc=com"},
		"Case":       {reason: "Case does not count.", dn: "DC=Example,dc=COM", want: "dc=example,dc=com"},
		"Spaces":     {reason: "Spaces around commas do not count, and repeated ones count once.", dn: "o=My  Org , c=DE", want: "o=my org,c=de"},
		"Escapes":    {reason: "Two ways of escaping are one name.", dn: `o=a\2Cb`, want: `o=a\,b`},
		"MultiRDN":   {reason: "The order within an RDN does not count.", dn: "ou=b+cn=a", want: "cn=a+ou=b"},
		"Quoted":     {reason: "Old mapping trees quote it.", dn: `"dc=example,dc=com"`, want: "dc=example,dc=com"},
		"NotADN":     {reason: "What is no DN compares as it is.", dn: "Nonsense", want: "nonsense"},
		"OwnEscaped": {reason: "The name of a mapping tree's entry is the DN.", dn: `cn=dc\3Da,cn=mapping tree,cn=config`, want: "cn=dc=a,cn=mapping tree,cn=config"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, normal(tc.dn)); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
		})
	}
}

// R6: a suffix is made after those that it is below, and otherwise in the order of the spec.
func TestParentsFirst(t *testing.T) {
	in := []config.Suffix{{Name: "c", DN: "ou=c,ou=b,dc=a"}, {Name: "z", DN: "dc=z"}, {Name: "b", DN: "ou=b,dc=a"}, {Name: "a", DN: "dc=a"}, {Name: "?", DN: "nonsense"}}
	got := ""
	for _, s := range parentsFirst(in) {
		got += s.Name
	}
	if got != "?zabc" {
		t.Errorf("order: %s", got)
	}
	if in[0].Name != "c" {
		t.Error("the caller's own list was changed")
	}
}

func TestNearest(t *testing.T) {
	all := []string{"dc=a", "ou=b,dc=a", "ou=b,dc=z", "", "nonsense"}
	cases := map[string]struct {
		reason string
		dn     string
		want   string
	}{
		"Nearest":   {reason: "The deepest of those above.", dn: "ou=d,ou=c,ou=b,dc=a", want: "ou=b,dc=a"},
		"NotItself": {reason: "A suffix is not above itself.", dn: "ou=b,dc=a", want: "dc=a"},
		"None":      {reason: "One that is on its own.", dn: "dc=a,dc=x", want: ""},
		"Letters":   {reason: "Names are compared, not letters.", dn: "dc=aa", want: ""},
		"NotADN":    {reason: "Nothing is above nonsense.", dn: "nonsense", want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, nearest(tc.dn, all)); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBelowBackend(t *testing.T) {
	type result struct {
		Name string
		OK   bool
	}
	cases := map[string]struct {
		reason string
		dn     string
		within string
		want   result
	}{
		"Backend":  {reason: "The entry of a backend.", dn: "cn=UserRoot,cn=ldbm database,cn=plugins,cn=config", want: result{"UserRoot", true}},
		"Spelling": {reason: "Case and spaces do not count.", dn: "CN=x, cn=LDBM Database, cn=plugins,cn=config", want: result{"x", true}},
		"Config":   {reason: "The database's own settings look alike.", dn: "cn=config,cn=ldbm database,cn=plugins,cn=config"},
		"Monitor":  {reason: "So does its monitor.", dn: "cn=monitor,cn=ldbm database,cn=plugins,cn=config"},
		"Index":    {reason: "An index of a backend.", dn: "cn=uidnumber,cn=index,cn=x,cn=ldbm database,cn=plugins,cn=config", within: "cn=uidNumber,cn=index", want: result{"x", true}},
		"Default":  {reason: "The index that new backends get is none's.", dn: "cn=uidnumber,cn=default indexes,cn=config,cn=ldbm database,cn=plugins,cn=config", within: "cn=uidNumber,cn=index"},
		"Other":    {reason: "Another attribute's.", dn: "cn=uid,cn=index,cn=x,cn=ldbm database,cn=plugins,cn=config", within: "cn=uidNumber,cn=index"},
		"Chaining": {reason: "A database link is no backend of entries.", dn: "cn=x,cn=chaining database,cn=plugins,cn=config"},
		"NotADN":   {reason: "Nonsense is below nothing.", dn: "nonsense"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n, ok := belowBackend(tc.dn, tc.within)
			if diff := cmp.Diff(tc.want, result{n, ok}); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
		})
	}
}

// R6: what a root entry is, by the attribute that names it.
func TestRootEntryOf(t *testing.T) {
	entry := func(class, attribute, value string) []ldap.Attribute {
		return []ldap.Attribute{{Type: "objectClass", Vals: []string{"top", class}}, {Type: attribute, Vals: []string{value}}}
	}
	cases := map[string]struct {
		reason string
		dn     string
		want   []ldap.Attribute
		err    string
	}{
		"Domain":       {reason: "dc is a domain.", dn: "dc=example,dc=com", want: entry("domain", "dc", "example")},
		"Organization": {reason: "The attribute's case does not count, the value's is kept.", dn: "O=My Org", want: entry("organization", "o", "My Org")},
		"Unit":         {reason: "ou is a unit.", dn: `ou=a\, b,dc=x`, want: entry("organizationalUnit", "ou", "a, b")},
		"Country":      {reason: "c is a country.", dn: "c=DE", want: entry("country", "c", "DE")},
		"Container":    {reason: "cn is a container.", dn: "cn=x", want: entry("nsContainer", "cn", "x")},
		"Other":        {reason: "Others have no class.", dn: "l=Berlin", err: "create the entry yourself"},
		"Multi":        {reason: "Nor have several at once.", dn: "ou=a+cn=b", err: "create the entry yourself"},
		"NotADN":       {reason: "Nonsense has no entry.", dn: "nonsense", err: "is not a distinguished name"},
		"Empty":        {reason: "Nor has the empty DN.", dn: "", err: "is not a distinguished name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := rootEntryOf(tc.dn)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
			if (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s\nerror: %v", tc.reason, err)
			}
		})
	}
}

// A server whose schema lacks one of the secrets gets its rules without it.
func TestWithoutUnknown(t *testing.T) {
	answer := func(code uint16, text string) error { return ldap.NewError(code, errors.New(text)) }
	const unknown = `targetattr "sambaLMPassword" does not exist in schema. Please add attributeTypes "sambaLMPassword" to schema if necessary.`
	cases := map[string]struct {
		reason string
		err    error
		want   []string
		ok     bool
	}{
		"Unknown": {reason: "It is left out.", err: answer(21, unknown), want: []string{"userPassword"}, ok: true},
		"Foreign": {reason: "One that is not ours is not our mistake.", err: answer(21, strings.ReplaceAll(unknown, "sambaLMPassword", "x")), want: []string{"userPassword", "sambaLMPassword"}},
		"Syntax":  {reason: "Another mistake is an error.", err: answer(21, "ACL Syntax Error(-5)")},
		"Code":    {reason: "So is another code.", err: answer(53, unknown)},
		"Network": {reason: "And everything else.", err: context.Canceled},
		"None":    {reason: "Success needs nothing."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := withoutUnknown([]string{"userPassword", "sambaLMPassword"}, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
				t.Errorf("%s\n%t, -want, +got\n%s", tc.reason, ok, diff)
			}
		})
	}
}

func TestDefaultACIs(t *testing.T) {
	want := []string{
		`(targetattr="userPassword")(version 3.0; acl "Everyone changes their own password"; allow (write) userdn="ldap:///self";)`,
		`(targetattr!="userPassword || aci")(version 3.0; acl "Authenticated users read everything but secrets"; allow (read, search, compare) userdn="ldap:///all";)`,
		`(targetfilter="(entrydn=o=a\28b\29)")(targetattr!="userPassword || aci")(version 3.0; acl "Anyone reads the root entry"; allow (read, search, compare) userdn="ldap:///anyone";)`,
	}
	if diff := cmp.Diff(want, defaultACIs("o=a(b)", []string{"userPassword"})); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
}

// line is how the server ends some of its texts.
func line(text string) string { return text + "\n" }

// What a person reads of an error says what the server said, and what to do.
func TestExplain(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Remedy":  {reason: "Some answers have one.", err: ldap.NewError(51, errors.New(line("busy now"))), want: "cannot x: the server answers 51 (Busy): busy now; it is tried again until the server is less busy"},
		"Plain":   {reason: "Others have none.", err: ldap.NewError(68, errors.New("")), want: "cannot x: the server answers 68 (Entry Already Exists)"},
		"Unknown": {reason: "A code without a name is told too.", err: ldap.NewError(99, errors.New("text")), want: "cannot x: the server answers 99: text"},
		"Other":   {reason: "What is no answer speaks for itself.", err: context.DeadlineExceeded, want: "cannot x: context deadline exceeded"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, explain(failed(tc.err, "cannot %s", "x"))); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestStateOf(t *testing.T) {
	e := ldap.NewEntry
	got := stateOf([]*ldap.Entry{
		e("cn=config,cn=ldbm database,cn=plugins,cn=config", map[string][]string{"nsslapd-backend-implement": {"MDB"}}),
		e("cn=mdb,cn=config,cn=ldbm database,cn=plugins,cn=config", map[string][]string{"nsslapd-mdb-max-dbs": {"512"}}),
		e("cn=uidnumber,cn=index,cn=a,cn=ldbm database,cn=plugins,cn=config", map[string][]string{"cn": {"uidnumber"}}),
		e("cn=memberUid,cn=index,cn=a,cn=ldbm database,cn=plugins,cn=config", map[string][]string{"description": {unbuilt}}),
		e("cn=uidnumber,cn=default indexes,cn=config,cn=ldbm database,cn=plugins,cn=config", nil),
		e("cn=a,cn=ldbm database,cn=plugins,cn=config", map[string][]string{"nsslapd-suffix": {"DC=A"}, "nsslapd-readonly": {"On"}}),
	}, []*ldap.Entry{
		e(`cn="dc=a",cn=mapping tree,cn=config`, map[string][]string{"cn": {`"dc=A"`}, "nsslapd-state": {"Backend"}, "nsslapd-backend": {"a"}, "orphan": {"TRUE"}}),
		e(`cn=ou\3Db\2Cdc\3Da,cn=mapping tree,cn=config`, map[string][]string{"cn": {"ou=b,dc=a"}, "nsslapd-state": {"disabled"}, "nsslapd-parent-suffix": {"dc=A"}}),
	})
	want := &state{
		backends: []backend{{name: "a", suffixes: []string{"dc=a"}, readOnly: true, indexes: map[string]bool{"uidnumber": true, "memberuid": false}}},
		trees: []tree{
			{dn: `cn="dc=a",cn=mapping tree,cn=config`, suffix: "dc=a", state: "backend", backends: []string{"a"}, orphan: true},
			{dn: `cn=ou\3Db\2Cdc\3Da,cn=mapping tree,cn=config`, suffix: "ou=b,dc=a", state: "disabled", backends: []string{}, parent: "dc=a"},
		},
		mdb:          true,
		maxDatabases: 512,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(state{}, backend{}, tree{})); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	if p := got.parent("ou=b,dc=a"); p != "dc=a" {
		t.Errorf("parent: %q", p)
	}
}

// The limit of databases that the server runs with is in a file of its own.
func TestDatabases(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		want   int
	}{
		"Limit":   {reason: "As the server writes it.", file: "LIBVERSION=9031\nMAXDBS=2048\n", want: 2048},
		"Absent":  {reason: "What is not known is the default.", want: defaultDatabases},
		"Garbage": {reason: "The same.", file: "MAXDBS=many\n", want: defaultDatabases},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(dir, "INFO.mdb"), []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := New(Options{Database: dir}).databases(); got != tc.want {
				t.Errorf("%s: %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
	if got := []int{wantedDatabases(0), wantedDatabases(50), wantedDatabases(256)}; !cmp.Equal(got, []int{2048, 4096, 13312}) {
		t.Errorf("wantedDatabases: %v", got)
	}
}

// A server that does not answer costs no more than the context allows, and no goroutine
// waits for another's connection longer than that.
func TestUnreachable(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	s := New(Options{Socket: socket, Address: "127.0.0.1:1", TLSAddress: "127.0.0.1:1", Timeout: time.Minute})
	if err := s.Alive(t.Context()); err == nil {
		t.Error("no socket: alive")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- s.Alive(ctx) }()
	}
	for range 2 {
		select {
		case err := <-done:
			if err == nil {
				t.Error("a server that does not answer: alive")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it waits for ever")
		}
	}
	const secret = "hidden"
	if _, err := s.ApplyPassword(t.Context(), secret); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("ApplyPassword: %v", err)
	}
	if _, err := s.ApplyPassword(t.Context(), ""); !errors.Is(err, errEmptyPassword) {
		t.Errorf("ApplyPassword: %v", err)
	}
	if _, err := s.ServedCertificate(t.Context()); err == nil {
		t.Error("a certificate from nobody")
	}
	if _, err := s.ApplySuffixes(ctx, nil, true); err == nil {
		t.Error("suffixes on nobody")
	}
	s.Close()
}
