package prepare

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A dse is the configuration of a server, dse.ldif, of which everything that is not
// changed stays as it was, byte for byte.
type dse struct {
	entries []entry
}

// An entry is a paragraph of the file.
type entry struct {
	lines []line
}

// A line is an attribute's value. LDIF folds long ones: raw is what the file says, with its
// line breaks, text the value in one piece.
type line struct {
	raw, text string
}

// parseDSE reads LDIF (RFC 2849) as servers write it: no change records, no URLs.
func parseDSE(content []byte) *dse {
	d := &dse{}
	var e entry
	for raw := range strings.Lines(string(content)) {
		text := strings.TrimRight(raw, "\r\n")
		switch {
		case text == "":
			// The blank line belongs to the entry before it.
			e.lines = append(e.lines, line{raw: raw})
			d.entries = append(d.entries, e)
			e = entry{}
		case (text[0] == ' ' || text[0] == '\t') && len(e.lines) > 0:
			last := &e.lines[len(e.lines)-1]
			last.raw += raw
			last.text += text[1:]
		default:
			e.lines = append(e.lines, line{raw: raw, text: text})
		}
	}
	if len(e.lines) > 0 {
		d.entries = append(d.entries, e)
	}
	return d
}

// bytes of the file.
func (d *dse) bytes() []byte {
	var b bytes.Buffer
	for _, e := range d.entries {
		for _, l := range e.lines {
			b.WriteString(l.raw)
		}
	}
	return b.Bytes()
}

// of says whether a line is one of that attribute.
func (l line) of(attribute string) bool {
	name, _, ok := strings.Cut(l.text, ":")
	return ok && strings.EqualFold(name, attribute)
}

// value of a line of that attribute.
func (l line) value(attribute string) (string, bool) {
	if !l.of(attribute) {
		return "", false
	}
	_, rest, _ := strings.Cut(l.text, ":")
	if encoded, ok := strings.CutPrefix(rest, ":"); ok {
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		return string(b), err == nil
	}
	return strings.TrimLeft(rest, " "), true
}

func (e entry) values(attribute string) []string {
	var out []string
	for _, l := range e.lines {
		if v, ok := l.value(attribute); ok {
			out = append(out, v)
		}
	}
	return out
}

func (e entry) value(attribute string) string {
	if v := e.values(attribute); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (e entry) is(class string) bool {
	return slices.ContainsFunc(e.values("objectClass"), func(v string) bool { return strings.EqualFold(v, class) })
}

// set the only value of an attribute.
func (e *entry) set(attribute, value string) {
	text := attribute + ": " + value
	e.put(attribute, line{raw: text + "\n", text: text})
}

// put the only line of an attribute in its place, or at the end.
func (e *entry) put(attribute string, l line) {
	kept := e.lines[:0:0]
	done := false
	for _, old := range e.lines {
		if old.of(attribute) {
			if !done {
				kept = append(kept, l)
				done = true
			}
			continue
		}
		if old.text == "" && !done {
			kept = append(kept, l)
			done = true
		}
		kept = append(kept, old)
	}
	if !done {
		kept = append(kept, l)
	}
	e.lines = kept
}

// dn of an entry, for comparing: in one case, without spaces around commas.
func (e entry) dn() string { return normaliseDN(e.value("dn")) }

func normaliseDN(dn string) string {
	rdns := strings.Split(dn, ",")
	for i := range rdns {
		rdns[i] = strings.TrimSpace(rdns[i])
	}
	return strings.ToLower(strings.Join(rdns, ","))
}

func (d *dse) find(dn string) *entry {
	for i := range d.entries {
		if d.entries[i].dn() == dn {
			return &d.entries[i]
		}
	}
	return nil
}

const (
	databaseDN = "cn=config,cn=ldbm database,cn=plugins,cn=config"
	mdbDN      = "cn=mdb," + databaseDN
	implement  = "nsslapd-backend-implement"
)

// complete says that this is a server's configuration, and not what is left of one.
func (d *dse) complete() bool { return d.find("cn=config") != nil }

// A kind of database.
type kind string

const (
	bdb kind = "bdb"
	mdb kind = "mdb"
)

func (k kind) String() string {
	if k == mdb {
		return "LMDB"
	}
	return "Berkeley DB"
}

// kind of the database. It is the configuration that says which one a server opens: files
// of both may lie on the volume.
func (d *dse) kind() kind {
	for _, e := range d.entries {
		if v := e.value(implement); v != "" {
			return kind(strings.ToLower(v))
		}
	}
	// Servers from before there was a choice do not say.
	return bdb
}

// writer is the version whose mark most plugins' entries bear; some have one of their own.
// A start that failed leaves its mark too, so it says who wrote last and not who was well
// last.
func (d *dse) writer() version {
	var out version
	marks := map[version]int{}
	for _, e := range d.entries {
		if v, ok := parseVersion(e.value("nsslapd-pluginVersion")); ok {
			marks[v]++
			if marks[v] > marks[out] || marks[v] == marks[out] && out.less(v) {
				out = v
			}
		}
	}
	return out
}

// A plugin is a library that a configuration wants to have loaded.
type plugin struct {
	path, init string
}

func (d *dse) plugins() []plugin {
	var out []plugin
	for _, e := range d.entries {
		p := plugin{path: e.value("nsslapd-pluginPath"), init: e.value("nsslapd-pluginInitfunc")}
		if p.path != "" && p.init != "" && strings.EqualFold(e.value("nsslapd-pluginEnabled"), "on") {
			out = append(out, p)
		}
	}
	return out
}

// A backend holds a suffix.
type backend struct {
	name, directory string
}

// backends of the database, with the names of their directories.
func (d *dse) backends() []backend {
	var out []backend
	for _, e := range d.entries {
		if !e.is("nsBackendInstance") {
			continue
		}
		b := backend{name: e.value("cn"), directory: e.value("cn")}
		if dir := e.value("nsslapd-directory"); dir != "" {
			b.directory = filepath.Base(dir)
		}
		out = append(out, b)
	}
	return out
}

// carryState takes over the clocks of the replicas. A replica that comes back with an
// older one gives its next changes numbers from the past, which its peers take for known:
// they would never get them, and nothing would say so.
func (d *dse) carryState(from *dse) {
	states := map[string]line{}
	for _, e := range from.entries {
		if !e.is("nsds5Replica") {
			continue
		}
		for _, l := range e.lines {
			if l.of("nsState") {
				states[normaliseDN(e.value("nsDS5ReplicaRoot"))] = l
			}
		}
	}
	for i := range d.entries {
		e := &d.entries[i]
		if l, ok := states[normaliseDN(e.value("nsDS5ReplicaRoot"))]; ok && e.is("nsds5Replica") {
			e.put("nsState", l)
		}
	}
}

// keepLMDB makes a configuration from before a migration open the database of after it,
// with the settings of the server that comes from there.
func (d *dse) keepLMDB(from *dse) bool {
	e, settings := d.find(databaseDN), from.find(mdbDN)
	if e == nil || settings == nil {
		return false
	}
	e.set(implement, string(mdb))
	if own := d.find(mdbDN); own != nil {
		*own = *settings
		return true
	}
	// In front of its parent it would be without one.
	i := slices.IndexFunc(d.entries, func(e entry) bool { return e.dn() == databaseDN })
	d.entries = slices.Insert(d.entries, i+1, *settings)
	d.entries[i].end()
	d.entries[i+1].end()
	return true
}

// end an entry that was the last one of its file, so that another can follow.
func (e *entry) end() {
	if last := e.lines[len(e.lines)-1]; last.text != "" {
		e.lines = append(e.lines, line{raw: "\n"})
	}
}

// names under which a server looks for its configuration, in its order: it writes the
// second, renames it to the first, and keeps the others.
var dseNames = []string{"dse.ldif", "dse.ldif.tmp", "dse.ldif.bak", "dse.ldif.startOK"}

// readDSE reads the configuration that a server would start with, from a directory.
func readDSE(dir string) (*dse, error) {
	for _, name := range dseNames {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		if len(content) > 0 {
			return parseDSE(content), nil
		}
	}
	return nil, nil //nolint:nilnil // There is none: that is no error.
}

// A version has three numbers. What servers print behind them (a build, and the pre-release
// in a spelling of their own) is not compared.
type version [3]int

var versionPattern = regexp.MustCompile(`(?:^|[^0-9.])v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})`)

// parseVersion finds the version in what a person, a label or a server says.
func parseVersion(s string) (version, bool) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return version{}, false
		}
		v[i] = n
	}
	return v, true
}

func (v version) known() bool { return v != version{} }

func (v version) less(o version) bool { return slices.Compare(v[:], o[:]) < 0 }

func (v version) String() string {
	if !v.known() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}
