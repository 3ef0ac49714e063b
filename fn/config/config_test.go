package config

import "testing"

// R11: what makes a server crash never reaches one.
func TestValidPassword(t *testing.T) {
	cases := map[string]struct {
		reason   string
		password string
		want     bool
	}{
		"Text":   {reason: "A password.", password: "a long one, with spaces", want: true},
		"UTF8":   {reason: "Letters of any language.", password: "pässwörd\u2028☃", want: true},
		"Latin1": {reason: "389 DS crashes when it hashes it.", password: "p\xe4sswort"},
		"Random": {reason: "So it does with bytes of chance.", password: "ab\xff\xfe"},
		"NUL":    {reason: "It ends there, for whoever reads it.", password: "a\x00b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ValidPassword(tc.password); got != tc.want {
				t.Errorf("\n%s\nValidPassword(%q): want %t, got %t", tc.reason, tc.password, tc.want, got)
			}
		})
	}
}

// R52, R44: hashes are compared between versions of the function and of the agent.
func TestHashes(t *testing.T) {
	if a, b := TLSHash([]byte("ab"), []byte("c")), TLSHash([]byte("a"), []byte("bc")); a == b {
		t.Error("two parts share a hash with two others")
	}
	if got, want := TLSHash([]byte("certificate"), []byte("ca")), "9ee84de772e4ee96"; got != want {
		t.Errorf("TLSHash(): want %s, got %s", want, got)
	}
	if got, want := Hash("{}"), "50690c8335f80a1d"; got != want {
		t.Errorf("Hash(): want %s, got %s", want, got)
	}
}
