//go:build ldap

package ldap

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

const ldbm = "cn=ldbm database,cn=plugins,cn=config"

// A directoryTest is one server, with what the agent does to it and a connection of a person's.
type directoryTest struct {
	t      *testing.T // what the connections live as long as
	pod    *pod
	agent  *directory.Server
	person *ldap.Conn
}

func newDirectoryTest(t *testing.T, suite string) *directoryTest {
	t.Helper()
	p := startPod(t, podSpec{Suite: suite, Command: plain, Env: map[string]string{
		"DS_DM_PASSWORD": password,
		// With 50 backends a start can take longer than dscontainer's minute, on a busy machine.
		"DS_STARTUP_TIMEOUT": "300",
	}})
	awaitStarted(t, p)
	agent := directory.New(directory.Options{
		Socket:     p.spec.Volume.Path("run", "slapd-localhost.socket"),
		Address:    p.address + ":3389",
		TLSAddress: p.address + ":3636",
		Database:   p.spec.Volume.Path("db"),
		Timeout:    ldapTimeout,
	})
	t.Cleanup(agent.Close)
	return &directoryTest{t: t, pod: p, agent: agent, person: p.LDAPI(t)}
}

// awaitStarted waits for dscontainer too: it sets the password of its environment some seconds after the server
// answers.
func awaitStarted(t *testing.T, p *pod) {
	t.Helper()
	p.AwaitLDAP(t, 2*firstStart, password)
	eventually(t, firstStart, "dscontainer is done", func() error {
		if !strings.Contains(p.Log(t), "389-ds-container started") {
			return errors.New("not yet")
		}
		return nil
	})
}

// restart the server, as in a new container.
func (d *directoryTest) restart(t *testing.T) {
	t.Helper()
	_ = d.person.Close()
	d.pod.Stop(t, terminationGrace)
	d.pod.Restart(d.t)
	awaitStarted(t, d.pod)
	d.person = d.pod.LDAPI(d.t)
}

func (d *directoryTest) apply(t *testing.T, founder bool, want ...config.Suffix) map[string]report.Suffix {
	t.Helper()
	got, err := d.agent.ApplySuffixes(t.Context(), want, founder)
	if err != nil {
		t.Fatalf("ApplySuffixes: %v", err)
	}
	return got
}

// ready is a suffix with data.
var ready = report.Suffix{State: report.SuffixReady, Founded: true, Initialized: true}

func suffix(name, dn string) config.Suffix {
	return config.Suffix{Name: name, DN: dn, CreateEntry: true}
}

// found applies one suffix, which has to become ready.
func (d *directoryTest) found(t *testing.T, s config.Suffix) {
	t.Helper()
	if diff := cmp.Diff(map[string]report.Suffix{s.Name: ready}, d.apply(t, true, s)); diff != "" {
		t.Fatalf("found %s: -want, +got\n%s", s.DN, diff)
	}
}

func (d *directoryTest) modify(t *testing.T, dn, attribute string, values ...string) {
	t.Helper()
	r := ldap.NewModifyRequest(dn, nil)
	r.Replace(attribute, values)
	if err := d.person.Modify(r); err != nil {
		t.Fatalf("modify %s: %v", dn, err)
	}
}

func (d *directoryTest) add(t *testing.T, dn string, attributes map[string][]string) {
	t.Helper()
	r := ldap.NewAddRequest(dn, nil)
	for _, a := range slices.Sorted(maps.Keys(attributes)) {
		r.Attribute(a, attributes[a])
	}
	if err := d.person.Add(r); err != nil {
		t.Fatalf("add %s: %v", dn, err)
	}
}

// remove an entry and all below it.
func (d *directoryTest) remove(t *testing.T, dn string) {
	t.Helper()
	r, err := d.person.Search(ldap.NewSearchRequest(dn, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"1.1"}, nil))
	if err != nil {
		t.Fatalf("search %s: %v", dn, err)
	}
	slices.SortFunc(r.Entries, func(a, b *ldap.Entry) int { return strings.Count(b.DN, ",") - strings.Count(a.DN, ",") })
	for _, e := range r.Entries {
		// The server's own children of a backend (monitor, encrypted attributes ..) go with it.
		if err := d.person.Del(ldap.NewDelRequest(e.DN, nil)); err != nil && e.DN == dn {
			t.Fatalf("delete %s: %v", e.DN, err)
		}
	}
}

// exists says whether an entry is there.
func (d *directoryTest) exists(t *testing.T, dn string) bool {
	t.Helper()
	_, err := d.person.Search(ldap.NewSearchRequest(dn, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"1.1"}, nil))
	if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) {
		t.Fatalf("search %s: %v", dn, err)
	}
	return err == nil
}

// treeOf is the entry of a suffix's mapping tree.
func (d *directoryTest) treeOf(t *testing.T, dn string) *ldap.Entry {
	t.Helper()
	r, err := d.person.Search(ldap.NewSearchRequest("cn=mapping tree,cn=config", ldap.ScopeSingleLevel, ldap.NeverDerefAliases, 0, 0, false,
		"(&(objectClass=nsMappingTree)(cn="+ldap.EscapeFilter(dn)+"))", nil, nil))
	if err != nil || len(r.Entries) != 1 {
		t.Fatalf("mapping tree of %s: %v, %v", dn, r, err)
	}
	return r.Entries[0]
}

func backendOf(name string) string { return "cn=" + name + "," + ldbm }

// TestDirectory holds what the agent does to a running server against three versions of it.
func TestDirectory(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			d := newDirectoryTest(t, suite)
			d.apply(t, true)
			d.restart(t) // and has room for all that follows
			t.Run("Identity", d.testIdentity)
			t.Run("Password", d.testPassword)
			t.Run("Founding", d.testFounding)
			t.Run("Access", d.testAccess)
			t.Run("Nested", d.testNested)
			t.Run("Adopt", d.testAdopt)
			t.Run("Link", d.testLink)
			t.Run("Drift", d.testDrift)
			t.Run("ReadOnly", d.testReadOnly)
			t.Run("Indexes", d.testIndexes)
			t.Run("Import", d.testImport)
			t.Run("Restart", d.testRestart)
		})
	}
}

func (d *directoryTest) testIdentity(t *testing.T) {
	v, err := d.agent.Version(t.Context())
	if err != nil || v != run.Versions[d.pod.spec.Suite] {
		t.Errorf("Version: %q, %v", v, err)
	}
	if err := d.agent.Alive(t.Context()); err != nil {
		t.Errorf("Alive: %v", err)
	}
	c, err := d.agent.ServedCertificate(t.Context())
	if err != nil {
		t.Fatalf("ServedCertificate: %v", err)
	}
	if err := c.VerifyHostname(d.pod.FQDN()); err != nil {
		t.Errorf("the certificate that dscontainer made: %v", err)
	}
	stats, err := d.agent.Stats(t.Context())
	if err != nil || stats.Threads == 0 || stats.StartTime.IsZero() || stats.CurrentConnections == 0 || stats.Operations["bind"] == 0 || stats.Operations["search"] == 0 || stats.BytesSent == 0 {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
}

// R11: the password is set where a real bind says that it is another one.
func (d *directoryTest) testPassword(t *testing.T) {
	const secret = "another-Secret+1"
	if changed, err := d.agent.ApplyPassword(t.Context(), password); err != nil || changed {
		t.Errorf("the password that it has: changed %t, %v", changed, err)
	}
	if changed, err := d.agent.ApplyPassword(t.Context(), secret); err != nil || !changed {
		t.Errorf("another password: changed %t, %v", changed, err)
	}
	if _, err := d.pod.TryLDAP(password); err == nil {
		t.Error("the old password is still accepted")
	}
	if _, err := d.pod.TryLDAP(secret); err != nil {
		t.Errorf("the new password is not accepted: %v", err)
	}

	d.modify(t, "cn=config", "nsslapd-require-secure-binds", "on")
	if changed, err := d.agent.ApplyPassword(t.Context(), password); err != nil || !changed {
		t.Errorf("with encryption required: changed %t, %v", changed, err)
	}
	if changed, err := d.agent.ApplyPassword(t.Context(), password); err != nil || changed {
		t.Errorf("with encryption required, again: changed %t, %v", changed, err)
	}
	d.modify(t, "cn=config", "nsslapd-require-secure-binds", "off")

	if _, err := d.agent.ApplyPassword(t.Context(), ""); err == nil {
		t.Error("an empty password is a bind as nobody, which succeeds")
	}
	const scheme = "{SSHA}like-a-hash"
	if _, err := d.agent.ApplyPassword(t.Context(), scheme); err == nil || strings.Contains(err.Error(), "like-a-hash") {
		t.Errorf("a password that the server takes for a hash: %v", err)
	}
	if changed, err := d.agent.ApplyPassword(t.Context(), password); err != nil || !changed {
		t.Errorf("and back: changed %t, %v", changed, err)
	}
}

func (d *directoryTest) testFounding(t *testing.T) {
	waiting := func(message string) report.Suffix {
		return report.Suffix{State: report.SuffixWaiting, Message: message}
	}
	founded := func(s config.Suffix) config.Suffix { s.Founded = true; return s }
	plain := func(s config.Suffix) config.Suffix { s.CreateEntry = false; return s }
	cases := map[string]struct {
		reason string
		suffix config.Suffix
		joiner bool
		want   report.Suffix
		class  string
	}{
		"Domain":        {reason: "Each naming attribute has its class.", suffix: suffix("f1", "dc=f1,dc=example"), want: ready, class: "domain"},
		"Organization":  {reason: "The same.", suffix: suffix("f2", "o=My Org, c=DE"), want: ready, class: "organization"},
		"Unit":          {reason: "The same.", suffix: suffix("f3", "ou=People\\, and others"), want: ready, class: "organizationalUnit"},
		"Country":       {reason: "The same.", suffix: suffix("f4", "c=FR"), want: ready, class: "country"},
		"Container":     {reason: "The same.", suffix: suffix("f5", `cn=a \"quoted\" \+ \C3\A4 name`), want: ready, class: "nsContainer"},
		"Joiner":        {reason: "Founding rules: any other empty server waits for a peer.", suffix: suffix("f6", "dc=f6"), joiner: true, want: waiting("waits for a peer's data")},
		"JoinerFounded": {reason: "The same.", suffix: founded(suffix("f7", "dc=f7")), joiner: true, want: waiting("waits for a peer's data")},
		"Lost":          {reason: "Founding rules: nothing is created over what was lost.", suffix: founded(suffix("f8", "dc=f8")), want: waiting(directory.Lost)},
		"LostPlain":     {reason: "Also where a person creates the entry: a peer has the data.", suffix: plain(founded(suffix("f9", "dc=f9"))), want: waiting(directory.Lost)},
		"Plain":         {reason: "R6: createEntry false: a person creates the entry, which needs a server that is ready.", suffix: plain(suffix("f10", "dc=f10")), want: report.Suffix{State: report.SuffixReady, Initialized: true}},
		"OtherRDN":      {reason: "Only some attributes have a class.", suffix: suffix("f11", "l=Berlin"), want: report.Suffix{State: report.SuffixFailed, Message: `no root entry can be made from the attribute "l": create the entry yourself`}},
		"MultiRDN":      {reason: "The same.", suffix: suffix("f12", "ou=a+l=b"), want: report.Suffix{State: report.SuffixFailed, Message: "no root entry can be made from an RDN of several attributes (l=b+ou=a): create the entry yourself"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(map[string]report.Suffix{tc.suffix.Name: tc.want}, d.apply(t, !tc.joiner, tc.suffix)); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.class != "", d.exists(t, tc.suffix.DN)); diff != "" {
				t.Fatalf("%s: the root entry: -want, +got\n%s", tc.reason, diff)
			}
			before := d.agent.Operations()
			if diff := cmp.Diff(map[string]report.Suffix{tc.suffix.Name: tc.want}, d.apply(t, !tc.joiner, tc.suffix)); diff != "" {
				t.Errorf("again: -want, +got\n%s", diff)
			}
			n := d.agent.Operations() - before
			if tc.class == "" {
				if n != 3 {
					t.Errorf("looking for an entry that is not there: %d operations, want 3", n)
				}
				return
			}
			if n != 2 {
				t.Errorf("a steady pass: %d operations, want 2", n)
			}
			if diff := cmp.Diff([]string{"top", tc.class}, values(t, d.person, tc.suffix.DN, "objectClass")); diff != "" {
				t.Errorf("class: -want, +got\n%s", diff)
			}
		})
	}

	// What was waited for comes, by whatever way.
	d.add(t, "dc=f6", map[string][]string{"objectClass": {"domain"}})
	if diff := cmp.Diff(map[string]report.Suffix{"f6": ready}, d.apply(t, false, suffix("f6", "dc=f6"))); diff != "" {
		t.Errorf("data came: -want, +got\n%s", diff)
	}
	counts, err := d.agent.Counts(t.Context(), []string{"dc=f6", "dc=f7", "dc=f1, DC=Example"})
	if diff := cmp.Diff(map[string]int{"dc=f6": 1, "dc=f7": 0, "dc=f1, DC=Example": 1}, counts); diff != "" || err != nil {
		t.Errorf("Counts: %v, -want, +got\n%s", err, diff)
	}
	// And goes again: the count says so, and the next pass knows.
	d.remove(t, "dc=f6")
	if counts, err := d.agent.Counts(t.Context(), []string{"dc=f6"}); err != nil || counts["dc=f6"] != 0 {
		t.Errorf("Counts: %v, %v", counts, err)
	}
	if got := d.apply(t, false, founded(suffix("f6", "dc=f6"))); got["f6"].State != report.SuffixWaiting {
		t.Errorf("lost while it ran: %+v", got)
	}
}

// The access rules of a new root entry.
func (d *directoryTest) testAccess(t *testing.T) {
	const dn, one, two = "dc=access", "cn=u1,dc=access", "cn=u2,dc=access"
	s := suffix("access", dn)
	d.found(t, s)
	for _, u := range []string{"u1", "u2"} {
		d.add(t, "cn="+u+","+dn, map[string][]string{"objectClass": {"inetOrgPerson"}, "sn": {u}, "userPassword": {"secret-" + u}, "userPKCS12": {"x"}})
	}
	connect := func(user, password string) *ldap.Conn {
		c, err := ldap.DialURL("ldap://" + d.pod.address + ":3389")
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		if user != "" {
			must(t, c.Bind(user, password))
		}
		return c
	}
	// seen are the DNs that a search finds, each with the attributes of interest that it shows.
	seen := func(c *ldap.Conn, filter string) map[string][]string {
		r, err := c.Search(ldap.NewSearchRequest(dn, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, filter, []string{"sn", "dc", "userPassword", "userPKCS12", "aci"}, nil))
		must(t, err)
		out := map[string][]string{}
		for _, e := range r.Entries {
			out[e.DN] = []string{}
			for _, a := range e.Attributes {
				out[e.DN] = append(out[e.DN], a.Name)
			}
		}
		return out
	}
	write := func(c *ldap.Conn, target, attribute, value string) uint16 {
		r := ldap.NewModifyRequest(target, nil)
		r.Replace(attribute, []string{value})
		err := c.Modify(r)
		var e *ldap.Error
		if errors.As(err, &e) {
			return e.ResultCode
		}
		must(t, err)
		return 0
	}

	nobody, user := connect("", ""), connect(one, "secret-u1")
	if diff := cmp.Diff(map[string][]string{dn: {"dc"}}, seen(nobody, "(objectClass=*)")); diff != "" {
		t.Errorf("anyone reads the root entry only: -want, +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{dn: {"dc"}, one: {"sn"}, two: {"sn"}}, seen(user, "(objectClass=*)")); diff != "" {
		t.Errorf("users read all but secrets: -want, +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{}, seen(user, "(userPassword=*)")); diff != "" {
		t.Errorf("nor can they search for them: -want, +got\n%s", diff)
	}
	got := map[string]uint16{
		"another's password":   write(user, two, "userPassword", "stolen"),
		"one's other":          write(user, one, "sn", "x"),
		"the rules":            write(user, dn, "aci", `(targetattr="*")(version 3.0; acl "x"; allow (all) userdn="ldap:///all";)`),
		"as nobody":            write(nobody, one, "userPassword", "stolen"),
		"one's own password":   write(user, one, "userPassword", "secret-new"),
		"one's own, once more": write(connect(one, "secret-new"), one, "userPassword", "secret-u1"),
	}
	const denied = ldap.LDAPResultInsufficientAccessRights
	if diff := cmp.Diff(map[string]uint16{"another's password": denied, "one's other": denied, "the rules": denied, "as nobody": denied, "one's own password": 0, "one's own, once more": 0}, got); diff != "" {
		t.Errorf("writing: -want, +got\n%s", diff)
	}

	// A rule that a person removes does not come back.
	d.modify(t, dn, "aci")
	d.agent.Forget()
	d.apply(t, true, s)
	if diff := cmp.Diff([]string(nil), values(t, d.person, dn, "aci"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rules: -want, +got\n%s", diff)
	}
}

func (d *directoryTest) names(t *testing.T, base string) []string {
	t.Helper()
	r, err := d.person.Search(ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"1.1"}, nil))
	if err != nil {
		t.Fatalf("search %s: %v", base, err)
	}
	out := make([]string, 0, len(r.Entries))
	for _, e := range r.Entries {
		out = append(out, e.DN)
	}
	slices.Sort(out)
	return out
}

func (d *directoryTest) addPerson(t *testing.T, dn string) {
	t.Helper()
	addPerson(t, d.person, dn)
}

// Suffixes below each other.
func (d *directoryTest) testNested(t *testing.T) {
	want := map[string]report.Suffix{"n1": ready, "n2": ready, "n3": ready}
	if diff := cmp.Diff(want, d.apply(t, true, suffix("n3", "ou=c,OU=B, dc=n1"), suffix("n2", "ou=b,dc=n1"), suffix("n1", "dc=n1"))); diff != "" {
		t.Errorf("in any order: -want, +got\n%s", diff)
	}
	d.addPerson(t, "cn=x,ou=c,ou=b,dc=n1")
	if diff := cmp.Diff([]string{"cn=x,ou=c,ou=b,dc=n1", "dc=n1", "ou=b,dc=n1", "ou=c,OU=B,dc=n1"}, d.names(t, "dc=n1")); diff != "" {
		t.Errorf("a search of the whole: -want, +got\n%s", diff)
	}

	child, parent := suffix("m2", "ou=b,dc=m1"), suffix("m1", "dc=m1")
	d.found(t, child)
	d.addPerson(t, "cn=x,ou=b,dc=m1")
	later := ready
	later.Message = "the suffix dc=m1 above it was made later: searches below that one find these entries after the server's next restart"
	for range 2 {
		if diff := cmp.Diff(map[string]report.Suffix{"m1": ready, "m2": later}, d.apply(t, true, child, parent)); diff != "" {
			t.Errorf("the parent later: -want, +got\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{"dc=m1"}, d.names(t, "dc=m1")); diff != "" {
		t.Errorf("the parent later: -want, +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cn=x,ou=b,dc=m1", "ou=b,dc=m1"}, d.names(t, "ou=b,dc=m1")); diff != "" {
		t.Errorf("nothing is out of reach: -want, +got\n%s", diff)
	}

	d.found(t, suffix("h1", "dc=h1"))
	d.add(t, "ou=b,dc=h1", map[string][]string{"objectClass": {"organizationalUnit"}})
	hides := report.Suffix{State: report.SuffixFailed, Message: "the suffix dc=h1 contains an entry of this name, which a suffix of its own would hide: export that subtree, delete it there, and import it here"}
	if diff := cmp.Diff(map[string]report.Suffix{"h1": ready, "h2": hides}, d.apply(t, true, suffix("h1", "dc=h1"), suffix("h2", "ou=b,dc=h1"))); diff != "" {
		t.Errorf("an entry that it would hide: -want, +got\n%s", diff)
	}
	if d.exists(t, backendOf("h2")) {
		t.Error("a backend was made that is of no use")
	}
}

// Backends that were there first.
func (d *directoryTest) testAdopt(t *testing.T) {
	createSuffix(t, d.person, "byhand", "dc=byhand")
	adopted := ready
	adopted.Message = "the suffix is in the backend byhand, which was there first and is used as it is"
	for range 2 {
		if diff := cmp.Diff(map[string]report.Suffix{"mine": adopted}, d.apply(t, true, suffix("mine", "DC=ByHand"))); diff != "" {
			t.Errorf("held by another: -want, +got\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[string]report.Suffix{"BYHAND": ready}, d.apply(t, true, suffix("BYHAND", "dc=byhand"))); diff != "" {
		t.Errorf("names do not depend on case: -want, +got\n%s", diff)
	}
	taken := report.Suffix{State: report.SuffixFailed, Message: "the backend byhand is there and holds another suffix (dc=byhand): give this suffix another name"}
	if diff := cmp.Diff(map[string]report.Suffix{"ByHand": taken}, d.apply(t, true, suffix("ByHand", "dc=other"))); diff != "" {
		t.Errorf("the name is taken: -want, +got\n%s", diff)
	}

	// The server accepts a second backend of the same suffix.
	d.add(t, backendOf("twin"), map[string][]string{"objectClass": {"extensibleObject", "nsBackendInstance"}, "nsslapd-suffix": {"dc=byhand"}})
	twins := ready
	twins.Message = "the suffix is in the backend byhand, which was there first and is used as it is; the backends byhand, twin have the same suffix: delete those that are not used"
	if diff := cmp.Diff(map[string]report.Suffix{"twin": twins}, d.apply(t, true, suffix("twin", "dc=byhand"))); diff != "" {
		t.Errorf("two of one suffix: -want, +got\n%s", diff)
	}
	d.remove(t, d.treeOf(t, "dc=byhand").DN)
	undecided := report.Suffix{State: report.SuffixFailed, Message: "the backends byhand, twin have the same suffix, and none is used: delete all but the one with the data"}
	if diff := cmp.Diff(map[string]report.Suffix{"mine": undecided}, d.apply(t, true, suffix("mine", "dc=byhand"))); diff != "" {
		t.Errorf("two of one suffix, none in use: -want, +got\n%s", diff)
	}
	d.remove(t, backendOf("twin"))
	if diff := cmp.Diff(map[string]report.Suffix{"mine": adopted}, d.apply(t, true, suffix("mine", "dc=byhand"))); diff != "" {
		t.Errorf("one of them is deleted: -want, +got\n%s", diff)
	}

	// What was taken off the spec is looked at, no more.
	orphan := config.Suffix{Name: "byhand", DN: "dc=byhand", Orphaned: true}
	if diff := cmp.Diff(map[string]report.Suffix{"byhand": ready}, d.apply(t, true, orphan)); diff != "" {
		t.Errorf("orphaned: -want, +got\n%s", diff)
	}
	d.modify(t, d.treeOf(t, "dc=byhand").DN, "nsslapd-state", "disabled")
	if diff := cmp.Diff(map[string]report.Suffix{}, d.apply(t, true, orphan)); diff != "" {
		t.Errorf("orphaned and disabled: -want, +got\n%s", diff)
	}
	if got := d.treeOf(t, "dc=byhand").GetAttributeValue("nsslapd-state"); got != "disabled" {
		t.Errorf("an orphaned suffix was made %s", got)
	}
}

// A suffix that is on another server, behind a database link.
func (d *directoryTest) testLink(t *testing.T) {
	d.add(t, "cn=far,cn=chaining database,cn=plugins,cn=config", map[string][]string{
		"objectClass": {"extensibleObject", "nsBackendInstance"}, "nsslapd-suffix": {"dc=far"},
		"nsfarmserverurl": {"ldap://other.example:389/"}, "nsmultiplexorbinddn": {"cn=proxy"}, "nsmultiplexorcredentials": {"secret"},
	})
	d.add(t, `cn=dc\3Dfar,cn=mapping tree,cn=config`, map[string][]string{
		"objectClass": {"extensibleObject", "nsMappingTree"}, "cn": {"dc=far"}, "nsslapd-state": {stateBackend}, "nsslapd-backend": {"far"},
	})
	tree := d.treeOf(t, "dc=far").DN
	want := report.Suffix{State: report.SuffixFailed, Message: "the suffix is on another server, behind the database link far: delete its mapping tree (" + tree + ") to have it here"}
	if diff := cmp.Diff(map[string]report.Suffix{"mine": want}, d.apply(t, true, suffix("mine", "dc=far"))); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	if d.exists(t, backendOf("mine")) {
		t.Error("a backend was made that is of no use")
	}
}

// What is changed by hand is put right, and the data are there afterwards.
func (d *directoryTest) testDrift(t *testing.T) {
	lost := report.Suffix{State: report.SuffixWaiting, Message: directory.Lost}
	cases := map[string]struct {
		reason string
		drift  func(t *testing.T, s config.Suffix)
		want   report.Suffix
		// gone: the data, by the drift itself.
		gone bool
	}{
		"Disabled": {
			reason: "A disabled mapping tree answers nobody.",
			drift:  func(t *testing.T, s config.Suffix) { d.modify(t, d.treeOf(t, s.DN).DN, "nsslapd-state", "disabled") },
			want:   ready,
		},
		"Referral": {
			reason: "One that sends clients elsewhere has no data either.",
			drift: func(t *testing.T, s config.Suffix) {
				d.modify(t, d.treeOf(t, s.DN).DN, "nsslapd-referral", "ldap://other.example/")
				d.modify(t, d.treeOf(t, s.DN).DN, "nsslapd-state", "referral")
			},
			want: ready,
		},
		"ReferralOnUpdate": {
			reason: "The same for those who write.",
			drift: func(t *testing.T, s config.Suffix) {
				d.modify(t, d.treeOf(t, s.DN).DN, "nsslapd-referral", "ldap://other.example/")
				d.modify(t, d.treeOf(t, s.DN).DN, "nsslapd-state", "referral on update")
			},
			want: ready,
		},
		"Elsewhere": {
			reason: "The mapping tree uses a backend of another suffix.",
			drift: func(t *testing.T, s config.Suffix) {
				d.add(t, backendOf("x"+s.Name), map[string][]string{"objectClass": {"extensibleObject", "nsBackendInstance"}, "nsslapd-suffix": {"dc=x" + s.Name}})
				d.modify(t, d.treeOf(t, s.DN).DN, "nsslapd-backend", "x"+s.Name)
			},
			want: ready,
		},
		"NoTree": {
			reason: "Without a mapping tree nobody reaches the backend.",
			drift:  func(t *testing.T, s config.Suffix) { d.remove(t, d.treeOf(t, s.DN).DN) },
			want:   ready,
		},
		"NoBackend": {
			reason: "The server deletes the data with the entry of the backend: nothing empty takes their place.",
			drift:  func(t *testing.T, s config.Suffix) { d.remove(t, backendOf(s.Name)) },
			want:   lost,
			gone:   true,
		},
		"Nothing": {
			reason: "The same without a mapping tree.",
			drift: func(t *testing.T, s config.Suffix) {
				d.remove(t, d.treeOf(t, s.DN).DN)
				d.remove(t, backendOf(s.Name))
			},
			want: lost,
			gone: true,
		},
	}
	n := 0
	for name, tc := range cases {
		n++
		s := suffix(fmt.Sprintf("d%d", n), fmt.Sprintf("dc=d%d", n))
		t.Run(name, func(t *testing.T) {
			d.found(t, s)
			d.addPerson(t, "cn=x,"+s.DN)
			s.Founded = true
			tc.drift(t, s)
			want := tc.want
			if diff := cmp.Diff(map[string]report.Suffix{s.Name: want}, d.apply(t, true, s)); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
			if got := d.exists(t, "cn=x,"+s.DN); got == tc.gone {
				t.Errorf("%s: the data are there: %t", tc.reason, got)
			}
			tree := d.treeOf(t, s.DN)
			if diff := cmp.Diff([]string{stateBackend, s.Name}, []string{tree.GetAttributeValue("nsslapd-state"), tree.GetAttributeValue("nsslapd-backend")}); diff != "" {
				t.Errorf("%s\n-want, +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(map[string]report.Suffix{s.Name: want}, d.apply(t, true, s)); diff != "" {
				t.Errorf("again: -want, +got\n%s", diff)
			}
			before := d.agent.Operations()
			d.apply(t, true, s)
			if n := d.agent.Operations() - before; n > 3 {
				t.Errorf("again: %d operations", n)
			}
		})
	}
}

const stateBackend = "backend"

// A backend, or a server, that may not be written to.
func (d *directoryTest) testReadOnly(t *testing.T) {
	s := suffix("ro", "dc=ro")
	d.found(t, s)
	d.modify(t, backendOf("ro"), "nsslapd-readonly", "on")
	want := ready
	want.Message = "the backend ro is read-only: set nsslapd-readonly to off in cn=ro,cn=ldbm database,cn=plugins,cn=config to allow writing"
	if diff := cmp.Diff(map[string]report.Suffix{"ro": want}, d.apply(t, true, s)); diff != "" {
		t.Errorf("a person's choice: -want, +got\n%s", diff)
	}

	d.modify(t, "cn=config", "nsslapd-readonly", "on")
	what := "root entry"
	if d.pod.spec.Suite == sid { // where the configuration is read-only too
		what = "backend ro2"
	}
	failed := report.Suffix{State: report.SuffixFailed, Message: "cannot create the " + what + ": the server answers 53 (Unwilling To Perform): Server is read-only; it is tried again: if the server or the backend is read-only (nsslapd-readonly), make it writable"}
	if diff := cmp.Diff(map[string]report.Suffix{"ro": want, "ro2": failed}, d.apply(t, true, suffix("ro2", "dc=ro2"), s)); diff != "" {
		t.Errorf("a read-only server: -want, +got\n%s", diff)
	}
	d.modify(t, "cn=config", "nsslapd-readonly", "off")
	if diff := cmp.Diff(map[string]report.Suffix{"ro2": ready}, d.apply(t, true, suffix("ro2", "dc=ro2"))); diff != "" {
		t.Errorf("writable again: -want, +got\n%s", diff)
	}
}

// accounts are how many a filter finds.
func (d *directoryTest) accounts(t *testing.T, filter string) int {
	t.Helper()
	r, err := d.person.Search(ldap.NewSearchRequest("dc=ix", ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, filter, []string{"1.1"}, nil))
	if err != nil {
		t.Fatalf("search %s: %v", filter, err)
	}
	return len(r.Entries)
}

func (d *directoryTest) settled(t *testing.T, s config.Suffix) {
	t.Helper()
	eventually(t, time.Minute, "indexes are built", func() error {
		if got := d.apply(t, true, s)[s.Name]; got != ready {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

func (d *directoryTest) testIndexes(t *testing.T) {
	s := suffix("ix", "dc=ix")
	d.found(t, s)
	add := func(n int) {
		d.add(t, fmt.Sprintf("uid=u%d,dc=ix", n), map[string][]string{"objectClass": {"account", "posixAccount"}, "cn": {"x"}, "uidNumber": {fmt.Sprint(n)}, "gidNumber": {"1"}, "homeDirectory": {"/"}})
	}
	add(1)
	index := func(attribute string) string { return "cn=" + attribute + ",cn=index," + backendOf("ix") }
	for _, a := range []string{"uidNumber", "gidNumber", "memberUid", "entryUUID", "uid", "member", "memberOf", "uniqueMember"} {
		if !d.exists(t, index(a)) {
			t.Errorf("a new backend has no index of %s", a)
		}
	}
	must(t, d.person.Del(ldap.NewDelRequest(index("uidNumber"), nil)))
	add(2) // is in no index
	got := d.apply(t, true, s)["ix"]
	want := ready
	want.Message = "the indexes of uidNumber are being built: until then searches for them are slow"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a missing index: -want, +got\n%s", diff)
	}
	d.settled(t, s)
	for _, f := range []string{"(uidNumber=1)", "(uidNumber=2)"} {
		if n := d.accounts(t, f); n != 1 {
			t.Errorf("%s finds %d", f, n)
		}
	}
	before := d.agent.Operations()
	d.apply(t, true, s)
	if n := d.agent.Operations() - before; n != 2 {
		t.Errorf("settled: %d operations", n)
	}

	// Nobody builds it before the server is restarted: what the server forgets, the mark tells.
	must(t, d.person.Del(ldap.NewDelRequest(index("uidNumber"), nil)))
	add(3)
	d.add(t, index("uidNumber"), map[string][]string{"objectClass": {"nsIndex", "extensibleObject"}, "nsSystemIndex": {"false"}, "nsIndexType": {"eq"}, "description": {"not built yet"}})
	if n := d.accounts(t, "(uidNumber=3)"); n != 1 {
		t.Errorf("before the restart: %d", n)
	}
	d.restart(t)
	if n := d.accounts(t, "(uidNumber=3)"); n != 0 {
		t.Logf("the server has learned: it finds %d of 1 by an index that is not built", n)
	}
	d.settled(t, s)
	for _, f := range []string{"(uidNumber=1)", "(uidNumber=2)", "(uidNumber=3)"} {
		if n := d.accounts(t, f); n != 1 {
			t.Errorf("%s finds %d", f, n)
		}
	}
}

// An import makes a backend unavailable: nothing is founded, and nothing fails for good.
func (d *directoryTest) testImport(t *testing.T) {
	s := suffix("im", "dc=im")
	d.found(t, s)
	var b strings.Builder
	b.WriteString("dn: dc=im\nobjectClass: domain\ndc: im\n\n")
	const entries = 10000
	for i := range entries {
		fmt.Fprintf(&b, "dn: cn=p%d,dc=im\nobjectClass: person\ncn: p%d\nsn: x\n\n", i, i)
	}
	file := d.pod.spec.Volume.Path("ldif", "im.ldif")
	must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	const task = "cn=import-im,cn=import,cn=tasks,cn=config"
	d.add(t, task, map[string][]string{"objectClass": {"extensibleObject"}, "nsInstance": {"im"}, "nsFilename": {"/data/ldif/im.ldif"}})
	seen := map[report.Suffix]int{}
	eventually(t, 2*time.Minute, "the import ends", func() error {
		d.agent.Forget()
		seen[d.apply(t, true, s)["im"]]++
		if code := values(t, d.person, task, "nsTaskExitCode"); len(code) == 0 {
			return errors.New("running")
		}
		return nil
	})
	d.settled(t, s) // the task ends a moment before the backend is back
	importing := report.Suffix{State: report.SuffixFailed, Message: "cannot look for the root entry: the server answers 1 (Operations Error); it is tried again: an import or a restore makes a backend unavailable until it ends; otherwise see the server's error log"}
	if seen[importing] == 0 {
		t.Errorf("nothing was seen of the import: %v", seen)
	}
	for s := range seen {
		if s != importing && s != ready {
			t.Errorf("during an import: %+v", s)
		}
	}
	if counts, err := d.agent.Counts(t.Context(), []string{s.DN}); err != nil || counts[s.DN] != entries+1 {
		t.Errorf("Counts: %v, %v", counts, err)
	}
}

// The server goes away in the middle, and comes back with an older configuration.
func (d *directoryTest) testRestart(t *testing.T) {
	s := suffix("re", "dc=re")
	d.found(t, s)
	d.addPerson(t, "cn=x,dc=re")
	s.Founded = true
	_ = d.person.Close()
	d.pod.Stop(t, terminationGrace)
	if err := d.agent.Alive(t.Context()); err == nil {
		t.Error("a stopped server is alive")
	}
	if _, err := d.agent.ApplySuffixes(t.Context(), []config.Suffix{s}, true); err == nil {
		t.Error("a stopped server has suffixes")
	}

	// The data were there before this configuration.
	dse := d.pod.spec.Volume.Path("config", "dse.ldif")
	old, err := os.ReadFile(dse)
	must(t, err)
	var records []string
	for _, r := range strings.Split(strings.ReplaceAll(string(old), "\n ", ""), "\n\n") {
		if dn := strings.ToLower(strings.SplitN(r, "\n", 2)[0]); !strings.Contains(dn, "cn=re,") && !strings.Contains(dn, "cn=dc\\3dre,") && !strings.Contains(dn, "cn=dc=re,") {
			records = append(records, r)
		}
	}
	must(t, os.WriteFile(dse, []byte(strings.Join(records, "\n\n")), 0o600))
	d.pod.Restart(d.t)
	awaitStarted(t, d.pod)
	d.person = d.pod.LDAPI(d.t)
	if d.exists(t, backendOf("re")) || d.exists(t, s.DN) {
		t.Fatal("the backend is still configured")
	}
	if diff := cmp.Diff(map[string]report.Suffix{"re": ready}, d.apply(t, true, s)); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cn=x,dc=re", "dc=re"}, d.names(t, s.DN)); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}

	// What was detached is below its parent since the restart.
	if diff := cmp.Diff([]string{"cn=x,ou=b,dc=m1", "dc=m1", "ou=b,dc=m1"}, d.names(t, "dc=m1")); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]report.Suffix{"m1": ready, "m2": ready}, d.apply(t, true, suffix("m1", "dc=m1"), suffix("m2", "ou=b,dc=m1"))); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
}

// TestDirectoryMany makes many suffixes on a fresh server, and tells what it costs to keep them.
func TestDirectoryMany(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			newDirectoryTest(t, suite).testMany(t)
		})
	}
}

// processorTime of the server since its start, which other processes of the machine do not stretch.
func (d *directoryTest) processorTime(t *testing.T) time.Duration {
	t.Helper()
	for _, p := range d.pod.Processes(t) {
		if !strings.HasSuffix(p.Command[0], "ns-slapd") {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		must(t, err)
		// After the name, which may contain spaces: utime and stime are the 12th and 13th, in hundredths of seconds.
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		user, err := strconv.Atoi(fields[11])
		must(t, err)
		system, err := strconv.Atoi(fields[12])
		must(t, err)
		return time.Duration(user+system) * 10 * time.Millisecond
	}
	return 0
}

func (d *directoryTest) testMany(t *testing.T) {
	var many []config.Suffix
	want := map[string]report.Suffix{}
	for i := range 50 {
		name := fmt.Sprintf("many%02d", i)
		many = append(many, suffix(name, "dc="+name))
		want[name] = ready
	}
	begin, before, start := time.Now(), d.agent.Operations(), d.processorTime(t)
	got := d.apply(t, true, many...)
	took, cpu := time.Since(begin), d.processorTime(t)-start
	if reason := d.agent.NeedsRestart(); reason != "" {
		n := 0
		for _, s := range got {
			switch {
			case s == ready:
				n++
			case s.State != report.SuffixFailed || s.Message != reason:
				t.Errorf("without room: %+v", s)
			}
		}
		if n == 0 {
			t.Error("there is room for none")
		}
		if err := d.agent.Alive(t.Context()); err != nil {
			t.Errorf("the server does not survive it: %v", err)
		}
		t.Logf("%d suffixes in %.1fs before a restart", n, took.Seconds())
		d.restart(t)
		begin, start = time.Now(), d.processorTime(t)
		got = d.apply(t, true, many...)
		took, cpu = took+time.Since(begin), cpu+d.processorTime(t)-start
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got\n%s", diff)
	}
	if reason := d.agent.NeedsRestart(); reason != "" {
		t.Errorf("needs a restart: %s", reason)
	}
	t.Logf("50 suffixes: %.1fs, of which the server's processor time %.1fs; %d operations", took.Seconds(), cpu.Seconds(), d.agent.Operations()-before)

	for range 2 {
		begin, before = time.Now(), d.agent.Operations()
		if diff := cmp.Diff(want, d.apply(t, true, many...)); diff != "" {
			t.Errorf("steady: -want, +got\n%s", diff)
		}
		n := d.agent.Operations() - before
		t.Logf("steady: %s, %d operations", time.Since(begin), n)
		if n != 2 {
			t.Errorf("a steady pass costs %d operations, want 2", n)
		}
	}
	begin = time.Now()
	stats, err := d.agent.Stats(t.Context())
	if err != nil || len(stats.Backends) < 50 {
		t.Errorf("Stats: %d backends, %v", len(stats.Backends), err)
	}
	t.Logf("stats: %s", time.Since(begin))
	d.restart(t)
	if diff := cmp.Diff(want, d.apply(t, true, many...)); diff != "" {
		t.Errorf("after a restart: -want, +got\n%s", diff)
	}
}

// TestDirectoryTotalUpdate looks at a server while it gets all data of a suffix from a peer: the server itself sends
// clients elsewhere meanwhile, and nobody may put that right.
func TestDirectoryTotalUpdate(t *testing.T) {
	const secret, entries = "replication-secret", 1000
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			from := newDirectoryTest(t, suite)
			to := newDirectoryTest(t, suite)
			s := suffix("tu", "dc=tu")
			from.found(t, s)
			for i := range entries {
				from.addPerson(t, fmt.Sprintf("cn=p%d,dc=tu", i))
			}
			joiner := s
			joiner.Founded = true
			waiting := report.Suffix{State: report.SuffixWaiting, Message: directory.Waits}
			if diff := cmp.Diff(map[string]report.Suffix{"tu": waiting}, to.apply(t, false, joiner)); diff != "" {
				t.Errorf("before: -want, +got\n%s", diff)
			}
			for i, d := range []*directoryTest{from, to} {
				d.add(t, "cn=replication manager,cn=config", map[string][]string{"objectClass": {"inetUser", "netscapeServer", "nsAccount"}, "uid": {"replication"}, "userPassword": {secret}})
				d.add(t, "cn=replica,"+d.treeOf(t, s.DN).DN, map[string][]string{
					"objectClass": {"nsds5Replica"}, "nsDS5ReplicaRoot": {s.DN}, "nsDS5ReplicaId": {fmt.Sprint(i + 1)},
					"nsDS5ReplicaType": {"3"}, "nsDS5Flags": {"1"}, "nsDS5ReplicaBindDN": {"cn=replication manager,cn=config"},
				})
			}
			agreement := "cn=to,cn=replica," + from.treeOf(t, s.DN).DN
			from.add(t, agreement, map[string][]string{
				"objectClass": {"nsds5replicationagreement"}, "nsDS5ReplicaRoot": {s.DN}, "nsDS5ReplicaHost": {to.pod.address}, "nsDS5ReplicaPort": {"3389"},
				"nsDS5ReplicaTransportInfo": {"LDAP"}, "nsDS5ReplicaBindMethod": {"SIMPLE"}, "nsDS5ReplicaBindDN": {"cn=replication manager,cn=config"}, "nsDS5ReplicaCredentials": {secret},
				"nsds5BeginReplicaRefresh": {"start"},
			})
			seen, states := map[report.Suffix]int{}, map[string]int{}
			eventually(t, 4*time.Minute, "the total update ends", func() error {
				seen[to.apply(t, false, joiner)["tu"]]++
				states[to.treeOf(t, s.DN).GetAttributeValue("nsslapd-state")]++
				if len(values(t, from.person, agreement, "nsds5BeginReplicaRefresh")) > 0 {
					return errors.New("running")
				}
				return nil
			})
			t.Logf("%v, %v, %v", seen, states, values(t, from.person, agreement, "nsds5ReplicaLastInitStatus"))
			receives := report.Suffix{State: report.SuffixWaiting, Message: directory.Receives}
			if seen[receives] == 0 {
				t.Errorf("nothing was seen of the update: %v", seen)
			}
			for s := range seen {
				if s != receives && s != waiting && s != ready {
					t.Errorf("during an update: %+v", s)
				}
			}
			to.settled(t, joiner)
			if n := len(to.names(t, s.DN)); n != entries+1 {
				t.Errorf("%d of %d entries", n, entries+1)
			}
		})
	}
}
