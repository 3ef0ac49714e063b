package validate

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"
)

// normalDN is a DN in the form that two spellings of the same suffix share: case
// and repeated spaces do not count (RFC 4517, caseIgnoreMatch, by which the
// naming attributes compare).
func normalDN(dn *ldap.DN) string {
	return strings.Join(strings.Fields(strings.ToLower(dn.String())), " ")
}

// unfit says why a server does not take a DN, or takes it for another one; "" where it does.
func unfit(spelt string, dn *ldap.DN) string {
	for _, rdn := range dn.RDNs {
		for _, a := range rdn.Attributes {
			switch {
			case strings.TrimSpace(a.Value) == "":
				return "has an attribute without a value: " + a.Type
			case !utf8.ValidString(a.Value):
				return "has a value that is not UTF-8"
			case strings.ContainsFunc(a.Value, unicode.IsControl):
				return "has a control character in a value"
			}
		}
	}
	escaped := false
	for _, r := range spelt {
		if !escaped && strings.ContainsRune(`"<>;`, r) {
			return fmt.Sprintf("has an unescaped %c: write \\%c (RFC 4514, 2.4)", r, r)
		}
		escaped = r == '\\' && !escaped
	}
	return ""
}

// sameDN compares a recorded DN with a normal form.
func sameDN(recorded, normal string) bool {
	dn, err := ldap.ParseDN(recorded)
	return err == nil && normalDN(dn) == normal
}
