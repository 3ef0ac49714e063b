package prepare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A support says what a server can do with a Berkeley DB.
type support string

const (
	// readWrite: it is a database like any other.
	readWrite support = "read-write"
	// readOnly: the server refuses it, but the image has what migrates it.
	readOnly support = "read-only"
	// absent: the image has nothing that reads it.
	absent support = "none"
	// unknown: this image is like none that we know.
	unknown support = "unknown"
)

// An image is what the container has of 389 Directory Server.
type image struct {
	root    string
	run     Command
	version version
	// build is the version as the server prints it: the same version of another
	// distribution is another build, with another Berkeley DB.
	build string
	// bdb and mdb are which databases the server opens.
	bdb support
	mdb bool
	// server, dsctl and dbscan are paths in the image, "" where there is none.
	server, dsctl, dbscan string
	// plugins is the directory of the plugins, below root.
	plugins   string
	libraries map[string][]byte
}

// Where distributions keep things: usrmerge moves sbin to bin, Fedora has lib64, Debian
// a directory for each architecture, and builds from source have /opt/dirsrv.
var (
	binDirs    = []string{"usr/sbin", "usr/bin", "sbin", "bin", "opt/dirsrv/sbin", "opt/dirsrv/bin"}
	pluginDirs = []string{"usr/lib/*/dirsrv/plugins", "usr/lib64/dirsrv/plugins", "usr/lib/dirsrv/plugins", "opt/dirsrv/lib*/dirsrv/plugins"}
)

// versionLine of `ns-slapd -v`: 389-Directory/3.1.2 B2026.125.0709.
var versionLine = regexp.MustCompile(`389-Directory/(\S+)(?: +(\S+))?`)

func inspect(ctx context.Context, root string, run Command) (*image, error) {
	i := &image{root: root, run: run, libraries: map[string][]byte{}}
	i.server, i.dsctl, i.dbscan = i.find("ns-slapd"), i.find("dsctl"), i.find("dbscan")
	if i.server != "" {
		// Its exit status is 1, by design.
		out, _, err := run(ctx, i.server, "-v")
		if err != nil {
			return nil, fmt.Errorf("cannot ask the server for its version: %w", err)
		}
		if m := versionLine.FindSubmatch(out); m != nil {
			i.version, _ = parseVersion(string(m[1]))
			i.build = strings.TrimSpace(string(m[1]) + " " + string(m[2]))
		}
	}
	for _, pattern := range pluginDirs {
		for _, dir := range glob(root, pattern) {
			if len(glob(dir, "libback-ldbm.so*")) > 0 {
				i.plugins = dir
			}
		}
	}
	i.bdb, i.mdb = i.databases()
	return i, nil
}

func (i *image) find(name string) string {
	for _, dir := range binDirs {
		if info, err := os.Stat(filepath.Join(i.root, dir, name)); err == nil && info.Mode().IsRegular() {
			return filepath.Join("/", dir, name)
		}
	}
	return ""
}

// databases that the server opens, by what the server's own tools go by. That the image
// has libdb-5.3.so says nothing: others need that library too.
func (i *image) databases() (support, bool) {
	if i.plugins == "" {
		return unknown, false
	}
	lmdb := i.contains("libback-ldbm", "liblmdb")
	bundled := i.contains("libback-ldbm", "libback-bdb")
	switch {
	case len(glob(filepath.Dir(i.plugins), "librobdb.so*")) > 0:
		return readOnly, lmdb
	case bundled && len(glob(i.plugins, "libback-bdb.so*")) > 0:
		return readWrite, lmdb
	case i.contains("libback-ldbm", "libdb-"):
		return readWrite, lmdb
	case bundled:
		return absent, lmdb
	}
	return unknown, lmdb
}

// contains says whether a plugin's library has that string in it, which every symbol
// and every library that it needs is.
func (i *image) contains(library, text string) bool {
	content, ok := i.libraries[library]
	if !ok {
		paths := glob(i.plugins, library+".so*")
		if filepath.IsAbs(library) {
			paths = append(glob(i.root, library+".so*"), filepath.Join(i.root, library))
		}
		for _, path := range paths {
			if b, err := os.ReadFile(path); err == nil {
				content = b
				break
			}
		}
		i.libraries[library] = content
	}
	return bytes.Contains(content, []byte(text))
}

// lacking plugin of a configuration, which keeps this server from starting with it. Servers
// name password hashes and matching rules of theirs in the configuration, and those
// from before cannot load them.
func (i *image) lacking(d *dse) string {
	for _, p := range d.plugins() {
		if !i.contains(p.path, p.init) {
			return p.init
		}
	}
	return ""
}

// checksIndexes says that dsctl has index-check, which mends what an index is sorted by.
func (i *image) checksIndexes() bool {
	if i.dsctl == "" {
		return false
	}
	for _, pattern := range []string{"usr/lib*/python3*/*-packages", "opt/dirsrv/lib*/python3*/*-packages"} {
		for _, path := range glob(i.root, pattern, "lib389/cli_ctl/dbtasks.py") {
			if b, err := os.ReadFile(path); err == nil {
				return bytes.Contains(b, []byte("index-check"))
			}
		}
	}
	return false
}
