package validate

import (
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// R6: two spellings of one DN are one suffix.
func TestSameDN(t *testing.T) {
	cases := map[string]struct {
		reason string
		a, b   string
		want   bool
	}{
		"Equal":           {reason: "The same bytes.", a: "dc=example,dc=com", b: "dc=example,dc=com", want: true},
		"Case":            {reason: "Case does not count, in types nor in values.", a: "DC=Example,dc=COM", b: "dc=example,dc=com", want: true},
		"Spaces":          {reason: "Spaces around = and , do not count.", a: "dc = example , dc = com", b: "dc=example,dc=com", want: true},
		"InnerSpaces":     {reason: "Repeated spaces in a value count as one.", a: "o=Example   Inc", b: "o=example inc", want: true},
		"Escapes":         {reason: "An escaped character is itself.", a: `o=ex\61mple`, b: "o=example", want: true},
		"EscapedComma":    {reason: "A comma in a value separates nothing.", a: `o=example\, inc`, b: `o=example\2c inc`, want: true},
		"MultiValued":     {reason: "The parts of a multi-valued RDN have no order.", a: "cn=a+ou=b,o=c", b: "OU=b+CN=a,o=c", want: true},
		"OtherValue":      {reason: "Another value is another DN.", a: "dc=example,dc=com", b: "dc=example,dc=org"},
		"Child":           {reason: "A child is another DN.", a: "ou=x,dc=example", b: "dc=example"},
		"Order":           {reason: "RDNs have an order.", a: "dc=a,dc=b", b: "dc=b,dc=a"},
		"SpaceInValue":    {reason: "A space more in the middle of a word is another value.", a: "o=exam ple", b: "o=example"},
		"RecordedGarbage": {reason: "What is no DN equals none.", a: "example", b: "o=example"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := ldap.ParseDN(tc.b)
			if err != nil {
				t.Fatal(err)
			}
			if got := sameDN(tc.a, normalDN(b)); got != tc.want {
				t.Errorf("\n%s\nsameDN(%q, %q): want %t, got %t", tc.reason, tc.a, tc.b, tc.want, got)
			}
		})
	}
}
