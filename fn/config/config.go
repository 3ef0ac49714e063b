// Package config is the document that the function hands to the servers: the key
// `config.json` of the ConfigMap `<name>-config`. What it says is applied to
// running servers; changing it restarts no pod (R14).
package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Key of the document in the ConfigMap.
const Key = "config.json"

// A Config is what the servers of one service shall hold.
type Config struct {
	// Suffixes in the order of the spec; then, sorted by name, those that were
	// taken off it.
	Suffixes []Suffix `json:"suffixes"`
}

// A Suffix is a naming context in a backend of its own.
type Suffix struct {
	// Name of the backend.
	Name string `json:"name"`
	// DN of the suffix.
	DN string `json:"dn"`
	// CreateEntry says whether the root entry is created where there is none.
	CreateEntry bool `json:"createEntry,omitempty"`
	// Orphaned says that the spec no longer lists the suffix. Its data stay.
	Orphaned bool `json:"orphaned,omitempty"`
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
