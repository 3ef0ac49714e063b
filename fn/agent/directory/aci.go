package directory

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"
)

// secrets are what nobody reads by default: each is in the standard schema of every
// version. The server refuses a rule that names an attribute which it does not know.
var secrets = []string{
	"userPassword", "passwordHistory", "userPKCS12", "netscapeReversiblePassword", "ntUserNtPassword",
	"nsSymmetricKey", "nsBindPassword", "nsDS5ReplicaCredentials",
	"sambaLMPassword", "sambaNTPassword", "sambaPasswordHistory",
	"sambaClearTextPassword", "sambaPreviousClearTextPassword",
}

// defaultACIs of a new root entry. The server has none: without them only the Directory
// Manager could read. They are written with the entry and never again, so whoever removes
// or changes one has the last word.
func defaultACIs(dn string, hidden []string) []string {
	hide := strings.Join(append(slices.Clone(hidden), "aci"), " || ")
	return []string{
		`(targetattr="userPassword")(version 3.0; acl "Everyone changes their own password"; allow (write) userdn="ldap:///self";)`,
		`(targetattr!="` + hide + `")(version 3.0; acl "Authenticated users read everything but secrets"; allow (read, search, compare) userdn="ldap:///all";)`,
		// A target would be the whole tree; there is no scope in the server's rules.
		`(targetfilter="(entrydn=` + ldap.EscapeFilter(dn) + `)")(targetattr!="` + hide + `")(version 3.0; acl "Anyone reads the root entry"; allow (read, search, compare) userdn="ldap:///anyone";)`,
	}
}

var unknownAttribute = regexp.MustCompile(`targetattr "([^"]+)" does not exist in schema`)

// withoutUnknown are the hidden attributes but for the one that the server says it does
// not know; false where it complains about something else.
func withoutUnknown(hidden []string, err error) ([]string, bool) {
	var e *ldap.Error
	if !errors.As(err, &e) || e.ResultCode != ldap.LDAPResultInvalidAttributeSyntax || e.Err == nil {
		return nil, false
	}
	m := unknownAttribute.FindStringSubmatch(e.Err.Error())
	if m == nil {
		return nil, false
	}
	out := slices.DeleteFunc(slices.Clone(hidden), func(a string) bool { return strings.EqualFold(a, m[1]) })
	return out, len(out) < len(hidden)
}
