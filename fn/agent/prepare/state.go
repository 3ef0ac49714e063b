package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/389ds/function-directoryservice/fn/report"
)

// markers is the directory of the volume that holds what is known of it. A first start that
// fails makes dscontainer remove all that is on the volume, this too: then there was
// nothing to know.
const markers = ".directoryservice"

// A state is what is known of a volume beyond what lies on it.
type state struct {
	// Ready is the server that was Ready last: the one to go back to.
	Ready release `json:"ready,omitzero"`
	// Writer is the server that was started last. It may have rewritten the configuration,
	// even where it never came up.
	Writer release `json:"writer,omitzero"`
	// First says that the server was being made, on an empty volume.
	First bool `json:"first,omitempty"`
	// Switched is when the server last got another kind of database.
	Switched *switched `json:"switched,omitempty"`
	// Pending is what must be finished or undone before anything else.
	Pending *pending `json:"pending,omitempty"`
	// Restored says that no server was Ready since a configuration was put back.
	Restored bool `json:"restored,omitempty"`
	// Snapshots are the names of the directories with the configuration that a version
	// left, when it was left for another.
	Snapshots map[string]string `json:"snapshots,omitempty"`
	// Undone are the names of the directories with configurations that were replaced.
	Undone []string `json:"undone,omitempty"`
	// Number of the last directory.
	Number int `json:"number,omitempty"`
	// Indexed is the build that the order of the indexes was checked with.
	Indexed string `json:"indexed,omitempty"`
	// Counts of entries by the suffix's name; Clean says that the server stopped
	// right after. Nil: nothing was ever counted.
	Counts map[string]int `json:"counts,omitempty"`
	Clean  bool           `json:"clean,omitempty"`
}

// A release is one build of one version.
type release struct {
	Version version `json:"version"`
	Build   string  `json:"build,omitempty"`
}

// A switched database.
type switched struct {
	To kind      `json:"to"`
	At time.Time `json:"at"`
	// Ready says that a server was Ready since. Clients reach a server through the Service,
	// which leads to Ready ones only: before, nobody wrote to it but the agent,
	// which applies the same to any database, and peers, which send what this server
	// lacks again.
	Ready bool `json:"ready,omitempty"`
	// Before is what was known until then. It counts again if nobody was Ready since
	// and the server gets its former database back.
	Before *switched `json:"before,omitempty"`
}

// A pending change of the volume.
type pending struct {
	Kind work `json:"kind"`
	// Dir has the files to put in place.
	Dir string `json:"dir"`
	// From has, where a configuration is put back, the one that it replaces.
	From string `json:"from,omitempty"`
	// To is the server that a configuration is put back for.
	To release `json:"to,omitzero"`
	// LMDB says that the configuration is made to open the present database.
	LMDB bool `json:"lmdb,omitempty"`
	// Switch is what is known of the database afterwards.
	Switch *switched `json:"switch,omitempty"`
	// Drop says that the migrated database goes: nobody wrote to it.
	Drop bool `json:"drop,omitempty"`
	// Guardian is what a cleanly closed Berkeley DB has in the file of that name, and
	// Files what else it consisted of.
	Guardian []byte            `json:"guardian,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
}

// Kinds of pending changes.
type work string

const (
	// restoring a configuration is finished.
	restoring work = "restore"
	// migrating a database is undone.
	migrating work = "migrate"
	// indexing changes the configuration, and is undone.
	indexing work = "index"
)

// MarshalText of a version.
func (v version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText of a version.
func (v *version) UnmarshalText(text []byte) error {
	*v = version{}
	if len(text) == 0 {
		return nil
	}
	parsed, ok := parseVersion(string(text))
	if !ok {
		return fmt.Errorf("%q is no version", text)
	}
	*v = parsed
	return nil
}

const stateFile = "state.json"

func loadState(data string) (*state, error) {
	s := &state{}
	content, err := os.ReadFile(filepath.Join(data, markers, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read what is known of the volume: %w", err)
	}
	if err := json.Unmarshal(content, s); err != nil {
		// It is written as a whole, so that this is no interrupted write.
		return nil, refuse(report.RefusalUnreadableConfig, "what is known of the volume cannot be read, %s/%s: %v. If no change of the version was under way, delete that file, with another pod that mounts the PersistentVolumeClaim; else restore it, or the volume, from a backup", markers, stateFile, err)
	}
	return s, nil
}

func (d disk) save(data string, s *state) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot remember the state of the volume: %w", err)
	}
	if err := d.mkdir(filepath.Join(data, markers)); err != nil {
		return err
	}
	return d.write(filepath.Join(data, markers, stateFile), append(content, '\n'))
}

// name of a new directory.
func (s *state) name(what string) string {
	s.Number++
	return what + "-" + strconv.Itoa(s.Number)
}

// MarkReady remembers that the server was Ready with this version, and how many entries
// its suffixes had, by name (nil: not known). Clients reach a server only while it is
// Ready: it has to be called, and to succeed, BEFORE readiness is told to anybody, for
// it is also what says from then on that there may be writes which going back would lose.
func MarkReady(data, version string, counts map[string]int) error {
	return mark(data, func(s *state) error {
		v, ok := parseVersion(version)
		if !ok {
			return fmt.Errorf("cannot remember that %q was Ready: it is no version", version)
		}
		if s.Writer.Version != v {
			s.Writer = release{Version: v}
		}
		s.Ready = s.Writer
		s.First = false
		s.Restored = false
		if s.Switched != nil {
			s.Switched.Ready, s.Switched.Before = true, nil
		}
		if counts != nil {
			s.Counts, s.Clean = counts, false
		}
		return nil
	})
}

// MarkCounts remembers how many entries the suffixes have, by name; clean says that the
// server stops right after.
func MarkCounts(data string, counts map[string]int, clean bool) error {
	return mark(data, func(s *state) error {
		if counts != nil {
			s.Counts = counts
		}
		s.Clean = clean
		return nil
	})
}

// Remembered returns the counts that were last marked; false where none ever were.
func Remembered(data string) (map[string]int, bool) {
	s, err := loadState(data)
	if err != nil || s.Counts == nil {
		return nil, false
	}
	return s.Counts, true
}

func mark(data string, change func(*state) error) error {
	s, err := loadState(data)
	if err != nil {
		return err
	}
	before, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot remember the state of the volume: %w", err)
	}
	s.Counts = maps.Clone(s.Counts)
	if err := change(s); err != nil {
		return err
	}
	after, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot remember the state of the volume: %w", err)
	}
	if string(before) == string(after) && exists(data, markers, stateFile) {
		// A volume is not written to for nothing.
		return nil
	}
	return disk{}.save(data, s)
}
