package config

import (
	"errors"
	"testing"
)

// R11: what makes a server crash never reaches one.
func TestReadPassword(t *testing.T) {
	cases := map[string]struct {
		reason string
		secret string
		want   string
		err    error
	}{
		"Text":      {reason: "A password.", secret: "a long one, with spaces ", want: "a long one, with spaces "},
		"LineBreak": {reason: "Editors leave one.", secret: "pw\r\n", want: "pw"},
		"UTF8":      {reason: "Letters of any language.", secret: "pässwörd\u2028☃", want: "pässwörd\u2028☃"},
		"Empty":     {reason: "With it anybody could bind, as nobody.", secret: "\n", err: ErrNoPassword},
		"Latin1":    {reason: "389 DS crashes when it hashes it.", secret: "p\xe4sswort", err: ErrPasswordNoText},
		"Random":    {reason: "So it does with bytes of chance.", secret: "ab\xff\xfe", err: ErrPasswordNoText},
		"NUL":       {reason: "It ends there, for whoever reads it.", secret: "a\x00b", err: ErrPasswordNoText},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ReadPassword([]byte(tc.secret))
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("\n%s\nReadPassword(%q): want %q, %v, got %q, %v", tc.reason, tc.secret, tc.want, tc.err, got, err)
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
