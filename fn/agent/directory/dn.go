package directory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/389ds/function-directoryservice/fn/config"
)

// ldbm is above the backends, chaining above the links to other servers, mappingTree
// above the mapping trees.
const (
	ldbm        = "cn=ldbm database,cn=plugins,cn=config"
	chaining    = "cn=chaining database,cn=plugins,cn=config"
	mappingTree = "cn=mapping tree,cn=config"
)

// normal is a DN in the form that two spellings of it share: case, repeated spaces and
// the order within an RDN do not count. What is no DN is only lower-cased.
func normal(dn string) string {
	// The server once quoted the DN in the name of a mapping tree.
	if len(dn) > 1 && dn[0] == '"' && dn[len(dn)-1] == '"' {
		dn = dn[1 : len(dn)-1]
	}
	parsed, err := ldap.ParseDN(dn)
	if err != nil {
		return strings.ToLower(dn)
	}
	for _, rdn := range parsed.RDNs {
		slices.SortFunc(rdn.Attributes, func(a, b *ldap.AttributeTypeAndValue) int {
			return cmp.Compare(strings.ToLower(a.Type), strings.ToLower(b.Type))
		})
	}
	return strings.Join(strings.Fields(strings.ToLower(parsed.String())), " ")
}

// above says that one DN is a true ancestor of another; both are normal.
func above(ancestor, dn string) bool {
	a, err := ldap.ParseDN(ancestor)
	if err != nil || len(a.RDNs) == 0 {
		return false
	}
	d, err := ldap.ParseDN(dn)
	return err == nil && a.AncestorOfFold(d)
}

// depth of a DN; 0 where it is none.
func depth(dn string) int {
	d, err := ldap.ParseDN(dn)
	if err != nil {
		return 0
	}
	return len(d.RDNs)
}

// parentsFirst are the suffixes in an order in which each one's parent is there before
// it is made.
func parentsFirst(suffixes []config.Suffix) []config.Suffix {
	out := slices.Clone(suffixes)
	slices.SortStableFunc(out, func(a, b config.Suffix) int { return cmp.Compare(depth(a.DN), depth(b.DN)) })
	return out
}

// nearest is the deepest of the candidates that is above the DN, "" without one; all are
// normal.
func nearest(dn string, candidates []string) string {
	out := ""
	for _, c := range candidates {
		if above(c, dn) && (out == "" || depth(c) > depth(out)) {
			out = c
		}
	}
	return out
}

// belowBackend is the name of the backend whose entry the DN is below, as `within`.
func belowBackend(dn, within string) (string, bool) {
	d, err := ldap.ParseDN(dn)
	if err != nil {
		return "", false
	}
	w, err := ldap.ParseDN("cn=x," + ldbm)
	if err != nil {
		return "", false
	}
	in, err := ldap.ParseDN(within)
	if err != nil {
		return "", false
	}
	n := len(in.RDNs)
	if len(d.RDNs) != n+len(w.RDNs) || !(&ldap.DN{RDNs: d.RDNs[:n]}).EqualFold(in) ||
		!(&ldap.DN{RDNs: w.RDNs[1:]}).EqualFold(&ldap.DN{RDNs: d.RDNs[n+1:]}) {
		return "", false
	}
	name := d.RDNs[n].Attributes[0].Value
	// Its siblings of the same shape are the server's own.
	if strings.EqualFold(name, "config") || strings.EqualFold(name, "monitor") {
		return "", false
	}
	return name, true
}

// backendDN is the entry of a backend.
func backendDN(name string) string { return "cn=" + ldap.EscapeDN(name) + "," + ldbm }

// rootClasses are the object classes of root entries, by the attribute that names them.
var rootClasses = map[string]string{
	"dc": "domain",
	"o":  "organization",
	"ou": "organizationalUnit",
	"c":  "country",
	"cn": "nsContainer",
}

// rootEntryOf is what a root entry is made of, but for its access rules.
func rootEntryOf(dn string) ([]ldap.Attribute, error) {
	d, err := ldap.ParseDN(dn)
	if err != nil || len(d.RDNs) == 0 {
		return nil, fmt.Errorf("%q is not a distinguished name", dn)
	}
	if len(d.RDNs[0].Attributes) != 1 {
		return nil, fmt.Errorf("no root entry can be made from an RDN of several attributes (%s): create the entry yourself", d.RDNs[0])
	}
	a := d.RDNs[0].Attributes[0]
	attribute := strings.ToLower(a.Type)
	class := rootClasses[attribute]
	if class == "" {
		return nil, fmt.Errorf("no root entry can be made from the attribute %q: create the entry yourself", a.Type)
	}
	return []ldap.Attribute{
		{Type: "objectClass", Vals: []string{"top", class}},
		{Type: attribute, Vals: []string{a.Value}},
	}, nil
}
