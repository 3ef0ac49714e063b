// Package config is the document that the function hands to the servers: the key
// `config.json` of the ConfigMap `<name>-config`. What it says is applied to
// running servers; changing it restarts no pod (R14).
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Key of the document in the ConfigMap.
const Key = "config.json"

// A Config is what the servers of one service shall hold.
type Config struct {
	// Suffixes in the order of the spec; then, sorted by name, those that were
	// taken off it.
	Suffixes []Suffix `json:"suffixes"`
	// Replicated says that the servers replicate with each other: one that has no
	// data then waits for a peer's before it is Ready.
	Replicated bool `json:"replicated,omitempty"`
	// Restart permits one server to restart; nil permits none.
	Restart *Restart `json:"restart,omitempty"`
	// DatabaseMigration says that a database which a new version cannot read is
	// migrated rather than refused.
	DatabaseMigration bool `json:"databaseMigration,omitempty"`
	// BackupConfirmed is the pair of versions, `<current>-><target>`, for which a person
	// says that there is a backup; "" without.
	BackupConfirmed string `json:"backupConfirmed,omitempty"`
}

// A Restart lets the server with that ordinal restart in its pod, to apply what only
// a restart applies: what its report names so (report.Report.Restart).
type Restart struct {
	Ordinal int32  `json:"ordinal"`
	Hash    string `json:"hash"`
}

// A Suffix is a naming context in a backend of its own.
type Suffix struct {
	// Name of the backend.
	Name string `json:"name"`
	// DN of the suffix.
	DN string `json:"dn"`
	// CreateEntry says whether the root entry is created where there is none.
	CreateEntry bool `json:"createEntry,omitempty"`
	// Founded says that the root entry was created once: a server that lacks it has lost
	// its data, and creates no new one over what its peers or a backup hold.
	Founded bool `json:"founded,omitempty"`
	// Orphaned says that the spec no longer lists the suffix. Its data stay.
	Orphaned bool `json:"orphaned,omitempty"`
}

// Errors of ReadPassword.
var (
	ErrNoPassword     = errors.New("there is no password")
	ErrPasswordNoText = errors.New("the password is not text in UTF-8, upon which 389 Directory Server crashes")
)

// ReadPassword of the Directory Manager, as a Secret has it. A line break at its end does
// not count: editors and `kubectl create secret --from-file` leave one, which nobody
// types. A server that hashes what is not UTF-8 crashes (389-ds-base, pwdchan), and for
// many readers a password ends at a NUL.
func ReadPassword(b []byte) (string, error) {
	password := strings.TrimRight(string(b), "\r\n")
	switch {
	case password == "":
		return "", ErrNoPassword
	case !utf8.ValidString(password) || strings.ContainsRune(password, 0):
		return "", ErrPasswordNoText
	}
	return password, nil
}

// hashBytes tell two documents apart.
const hashBytes = 8

// Hash of a document, as servers report it.
func Hash(doc string) string { return hashOf([]byte(doc)) }

// TLSHash names TLS material, by the PEM documents of the certificate and of its CA.
// The key is not in it: a hash of it would be a hint.
func TLSHash(certificate, ca []byte) string { return hashOf(certificate, ca) }

func hashOf(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		// With its length, or two parts could share a hash with two others.
		_, _ = fmt.Fprintf(h, "%d:", len(p))
		_, _ = h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:hashBytes])
}

// Parse reads the document.
func Parse(doc string) (Config, error) {
	c := Config{}
	if err := json.Unmarshal([]byte(doc), &c); err != nil {
		return Config{}, fmt.Errorf("cannot parse %s: %w", Key, err)
	}
	return c, nil
}

// String is the document; the same Config always gives the same bytes.
func (c Config) String() (string, error) {
	if c.Suffixes == nil {
		c.Suffixes = []Suffix{}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	// DNs with & would triple in size.
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", Key, err)
	}
	return b.String(), nil
}
