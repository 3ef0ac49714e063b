//go:build ldap

package ldap

import (
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"
)

const (
	password = "a-password-of-the-test"
	suffixDN = "dc=example,dc=com"

	// A first start takes 16-30 s on an idle machine.
	firstStart = 3 * time.Minute
)

// createSuffix makes a backend, its mapping tree and the domain entry, as dsconf would.
func createSuffix(t *testing.T, c *ldap.Conn, name, dn string) {
	t.Helper()
	backend := ldap.NewAddRequest("cn="+name+",cn=ldbm database,cn=plugins,cn=config", nil)
	backend.Attribute("objectClass", []string{"top", "extensibleObject", "nsBackendInstance"})
	backend.Attribute("nsslapd-suffix", []string{dn})
	tree := ldap.NewAddRequest(`cn="`+dn+`",cn=mapping tree,cn=config`, nil)
	tree.Attribute("objectClass", []string{"top", "extensibleObject", "nsMappingTree"})
	tree.Attribute("nsslapd-state", []string{"backend"})
	tree.Attribute("nsslapd-backend", []string{name})
	entry := ldap.NewAddRequest(dn, nil)
	entry.Attribute("objectClass", []string{"top", "domain"})
	for _, r := range []*ldap.AddRequest{backend, tree, entry} {
		if err := c.Add(r); err != nil {
			t.Fatalf("add %s: %v", r.DN, err)
		}
	}
}

func addPerson(t *testing.T, c *ldap.Conn, dn string) {
	t.Helper()
	r := ldap.NewAddRequest(dn, nil)
	r.Attribute("objectClass", []string{"top", "person"})
	r.Attribute("sn", []string{"Test"})
	if err := c.Add(r); err != nil {
		t.Fatalf("add %s: %v", dn, err)
	}
}

// values of one attribute of one entry.
func values(t *testing.T, c *ldap.Conn, dn, attribute string) []string {
	t.Helper()
	r, err := c.Search(ldap.NewSearchRequest(dn, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{attribute}, nil))
	if err != nil {
		t.Fatalf("search %s: %v", dn, err)
	}
	return r.Entries[0].GetAttributeValues(attribute)
}

// TestSmoke proves the harness, without the agent: what the other tests see is the server's and the agent's doing.
func TestSmoke(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			p := startPod(t, podSpec{Suite: suite, Command: plain, Env: map[string]string{"DS_DM_PASSWORD": password}})
			begin := time.Now()
			p.AwaitLDAP(t, firstStart, password)
			t.Logf("first start: %.1fs", time.Since(begin).Seconds())

			c := p.LDAPI(t)
			createSuffix(t, c, "userroot", suffixDN)
			const dn = "cn=somebody," + suffixDN
			addPerson(t, c, dn)

			begin = time.Now()
			if diff := cmp.Diff(exit{}, p.Stop(t, terminationGrace)); diff != "" {
				t.Errorf("SIGTERM ends the server cleanly: -want, +got\n%s", diff)
			}
			t.Logf("stop: %.1fs", time.Since(begin).Seconds())

			begin = time.Now()
			p.Restart(t)
			c = p.AwaitLDAP(t, firstStart, password)
			t.Logf("restart: %.1fs", time.Since(begin).Seconds())
			if diff := cmp.Diff([]string{"Test"}, values(t, c, dn, "sn")); diff != "" {
				t.Errorf("what was written before is there: -want, +got\n%s", diff)
			}
		})
	}
}
