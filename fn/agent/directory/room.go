package directory

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-ldap/ldap/v3"
)

// mdb is where LMDB is configured. One environment holds all backends, and has a limit of
// databases, by default 512, of which a backend takes about 35. The server accepts a
// backend beyond the limit, and ends itself at the first entry in it.
const mdb = "cn=mdb,cn=config," + ldbm

const (
	// perBackend are the databases that a new backend needs: its default indexes and four
	// more, and some for what people add.
	perBackend = 48
	// minDatabases are asked for in any case, so that a server seldom has to be restarted
	// because it gets one more suffix. Each costs some bytes in a transaction.
	minDatabases = 2048
	// defaultDatabases is what a server has that nobody configured.
	defaultDatabases = 512
)

// wantedDatabases for so many suffixes, in steps, so that it seldom changes.
func wantedDatabases(suffixes int) int {
	const step = 1024
	n := perBackend * (suffixes + 16)
	return max(minDatabases, (n+step-1)/step*step)
}

// makeRoom asks for enough databases. The server has them from its next start.
func (s *Server) makeRoom(ctx context.Context, st *state, suffixes int) error {
	n := wantedDatabases(max(suffixes, len(st.backends)))
	if !st.mdb || st.maxDatabases >= n {
		return nil
	}
	if err := s.replace(ctx, mdb, "nsslapd-mdb-max-dbs", strconv.Itoa(n)); err != nil {
		return failed(err, "cannot raise nsslapd-mdb-max-dbs")
	}
	return nil
}

// hasRoom says whether the server can hold one more backend.
func (s *Server) hasRoom(ctx context.Context, st *state) (bool, error) {
	if !st.mdb || st.full {
		return !st.full, nil
	}
	entries, err := s.search(ctx, "cn=database,cn=monitor,"+ldbm, ldap.ScopeBaseObject, "(objectClass=*)", "dbenvnumdbis")
	if err != nil {
		return false, failed(err, "cannot read how many databases are in use")
	}
	used := perBackend * len(st.backends)
	for _, e := range entries {
		used = number(e, "dbenvnumdbis")
	}
	st.full = used+perBackend > s.databases()
	return !st.full, nil
}

// databases is the limit that the server runs with. Only the file tells: the attribute
// has the one of the next start.
func (s *Server) databases() int {
	f, err := os.Open(filepath.Join(s.o.Database, "INFO.mdb"))
	if err != nil {
		return defaultDatabases
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "MAXDBS="); ok {
			if n, err := strconv.Atoi(v); err == nil {
				return n
			}
		}
	}
	return defaultDatabases
}

// NeedsRestart is why the server has to be restarted before all suffixes can be made, as
// the last ApplySuffixes found; "" when it need not be.
func (s *Server) NeedsRestart() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needsRestart
}
