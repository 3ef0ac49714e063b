package validate

import (
	"strings"

	"github.com/go-ldap/ldap/v3"
)

// normalDN is a DN in the form that two spellings of the same suffix share: case
// and repeated spaces do not count (RFC 4517, caseIgnoreMatch, by which the
// naming attributes compare).
func normalDN(dn *ldap.DN) string {
	return strings.Join(strings.Fields(strings.ToLower(dn.String())), " ")
}

// sameDN compares a recorded DN with a normal form.
func sameDN(recorded, normal string) bool {
	dn, err := ldap.ParseDN(recorded)
	return err == nil && normalDN(dn) == normal
}
