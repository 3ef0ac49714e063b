package directory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

// A state is what cn=config says of backends and mapping trees.
type state struct {
	backends []backend
	trees    []tree
	// mdb says that LMDB holds the backends; maxDatabases is its limit from the next start.
	mdb          bool
	maxDatabases int
	// full: there is no room for another backend; raise is why it cannot be had.
	full  bool
	raise error
}

// A backend holds the entries of a suffix.
type backend struct {
	name string
	// suffixes, normal; one, but for a backend that was made by hand.
	suffixes []string
	readOnly bool
	// indexes of those that it shall have, by lower-case attribute: whether it was built.
	indexes map[string]bool
}

// A tree says which backend answers for a suffix.
type tree struct {
	dn       string
	suffix   string
	state    string
	backends []string
	parent   string
	// orphan: a person wants it to be apart from the suffix above it.
	orphan bool
}

func (st *state) backend(name string) *backend {
	for i := range st.backends {
		if strings.EqualFold(st.backends[i].name, name) {
			return &st.backends[i]
		}
	}
	return nil
}

func (st *state) tree(suffix string) *tree {
	for i := range st.trees {
		if st.trees[i].suffix == suffix {
			return &st.trees[i]
		}
	}
	return nil
}

// holders are the backends of a suffix: the server accepts more than one.
func (st *state) holders(suffix string) []string {
	var out []string
	for _, b := range st.backends {
		if slices.Contains(b.suffixes, suffix) {
			out = append(out, b.name)
		}
	}
	slices.Sort(out)
	return out
}

// parent is the nearest suffix above another, "" without one.
func (st *state) parent(suffix string) string {
	all := make([]string, 0, len(st.trees))
	for _, t := range st.trees {
		all = append(all, t.suffix)
	}
	return nearest(suffix, all)
}

// read the whole state in two searches.
func (s *Server) read(ctx context.Context) (*state, error) {
	names := make([]string, 0, len(wantedIndexes))
	for _, a := range wantedIndexes {
		names = append(names, "(cn="+a+")")
	}
	below, err := s.search(ctx, ldbm, ldap.ScopeWholeSubtree,
		"(|(objectClass=nsBackendInstance)(cn=config)(cn=mdb)(&(objectClass=nsIndex)(|"+strings.Join(names, "")+")))",
		"cn", "nsslapd-suffix", "nsslapd-readonly", "description", "nsslapd-backend-implement", "nsslapd-mdb-max-dbs")
	if err != nil {
		return nil, failed(err, "cannot read the backends")
	}
	trees, err := s.search(ctx, mappingTree, ldap.ScopeSingleLevel, "(objectClass=nsMappingTree)",
		"cn", "nsslapd-state", "nsslapd-backend", "nsslapd-parent-suffix", "orphan")
	if err != nil {
		return nil, failed(err, "cannot read the mapping trees")
	}
	return stateOf(below, trees), nil
}

func stateOf(below, trees []*ldap.Entry) *state {
	st := &state{}
	for _, e := range below {
		switch normal(e.DN) {
		case "cn=config," + ldbm:
			st.mdb = strings.EqualFold(e.GetEqualFoldAttributeValue("nsslapd-backend-implement"), "mdb")
			continue
		case mdb:
			st.maxDatabases = number(e, "nsslapd-mdb-max-dbs")
			continue
		}
		if name, ok := belowBackend(e.DN, ""); ok {
			b := backend{name: name, readOnly: strings.EqualFold(e.GetEqualFoldAttributeValue("nsslapd-readonly"), "on"), indexes: map[string]bool{}}
			for _, suffix := range e.GetEqualFoldAttributeValues("nsslapd-suffix") {
				b.suffixes = append(b.suffixes, normal(suffix))
			}
			st.backends = append(st.backends, b)
		}
	}
	for _, e := range below {
		for _, a := range wantedIndexes {
			name, ok := belowBackend(e.DN, "cn="+a+",cn=index")
			if !ok {
				continue
			}
			// One of another type is a person's choice.
			if b := st.backend(name); b != nil {
				b.indexes[strings.ToLower(a)] = e.GetEqualFoldAttributeValue("description") != unbuilt
			}
		}
	}
	for _, e := range trees {
		st.trees = append(st.trees, tree{
			dn:       e.DN,
			suffix:   normal(e.GetEqualFoldAttributeValue("cn")),
			state:    strings.ToLower(e.GetEqualFoldAttributeValue("nsslapd-state")),
			backends: e.GetEqualFoldAttributeValues("nsslapd-backend"),
			parent:   normal(e.GetEqualFoldAttributeValue("nsslapd-parent-suffix")),
			orphan:   strings.EqualFold(e.GetEqualFoldAttributeValue("orphan"), "true"),
		})
	}
	return st
}

// What a suffix that is Waiting waits for, as its message says it.
const (
	// Waits: it is empty, and another server has to send its data.
	Waits = "waits for a peer's data"
	// Receives: another server is sending them.
	Receives = "receives a peer's data"
	// Lost: it had data, and is empty.
	Lost = "has lost its data, which a peer or a backup has to bring back"
)

// ApplySuffixes makes each suffix one that clients can use, and reports it by name. The
// founder is the one server that may create a root entry, and only where none was ever
// created. What fails for one suffix is its message; an error is returned only where the
// server does not answer.
//
// Where nothing differs it costs two searches, and one for each suffix whose root entry
// was not seen since the connection was made, or whose indexes are being built.
func (s *Server) ApplySuffixes(ctx context.Context, want []config.Suffix, founder bool) (map[string]report.Suffix, error) {
	select {
	case s.applying <- struct{}{}:
		defer func() { <-s.applying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	st, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.appliedOver != s.connections {
		s.appliedOver = s.connections
		clear(s.made)
		clear(s.detached)
	}
	s.mu.Unlock()
	if st.raise = s.makeRoom(ctx, st, len(want)); st.raise != nil && !answered(st.raise) {
		return nil, st.raise
	}
	needsRestart, asked := "", map[string]bool{}
	out := make(map[string]report.Suffix, len(want))
	for _, w := range parentsFirst(want) {
		a := &application{s: s, st: st, want: w, suffix: normal(w.DN), founder: founder}
		if w.Orphaned {
			err = a.look(ctx)
		} else {
			err = a.apply(ctx)
		}
		switch {
		case err != nil && !answered(err):
			return nil, fmt.Errorf("cannot apply the suffix %s: %w", w.Name, err)
		case err != nil:
			a.fail("%s", explain(err))
		}
		asked[a.indexed] = true
		if a.needsRestart != "" {
			needsRestart = a.needsRestart
		}
		if a.r.State != "" {
			a.r.Message = strings.Join(a.messages, "; ")
			out[w.Name] = a.r
		}
	}
	// Nobody asks for these again, and they would be in the way of others.
	maps.DeleteFunc(s.tasks, func(name string, _ string) bool { return !asked[name] })
	s.mu.Lock()
	s.needsRestart = needsRestart
	s.mu.Unlock()
	return out, nil
}

// An application of one wanted suffix.
type application struct {
	s       *Server
	st      *state
	want    config.Suffix
	suffix  string
	founder bool

	r        report.Suffix
	messages []string
	// indexed is the backend whose indexes were looked after, lower-case.
	indexed string
	// needsRestart is why this suffix cannot be made before one.
	needsRestart string
}

func (a *application) say(format string, args ...any) {
	a.messages = append(a.messages, fmt.Sprintf(format, args...))
}

func (a *application) wait(message string) {
	a.r.State = report.SuffixWaiting
	a.messages = append(a.messages, message)
}

func (a *application) fail(format string, args ...any) {
	a.r.State = report.SuffixFailed
	a.say(format, args...)
}

// look at a suffix that was taken off the spec, and touch nothing. It is reported only
// while it is served.
func (a *application) look(ctx context.Context) error {
	t := a.st.tree(a.suffix)
	if t == nil || t.state != stateBackend {
		return nil
	}
	n, err := a.s.root(ctx, a.want.DN, a.suffix)
	if err != nil || !n {
		if answered(err) {
			return nil
		}
		return err
	}
	a.r = report.Suffix{State: report.SuffixReady, Founded: true, Initialized: true}
	return nil
}

// apply one suffix.
func (a *application) apply(ctx context.Context) error {
	b, ok, err := a.backend(ctx)
	if err != nil || !ok {
		return err
	}
	if ok, err := a.tree(ctx, b); err != nil || !ok {
		return err
	}
	if err := a.root(ctx); err != nil {
		return err
	}
	if parent := a.s.detached[a.suffix]; parent != "" {
		a.say("the suffix %s above it was made later: searches below that one find these entries after the server's next restart", parent)
	}
	if b.readOnly {
		// A person did that, for a reason: reading goes on.
		a.say("the backend %s is read-only: set nsslapd-readonly to off in %s to allow writing", b.name, backendDN(b.name))
	}
	return a.indexes(ctx, b)
}

// backend finds the backend that holds the suffix, or makes it; false where it cannot.
func (a *application) backend(ctx context.Context) (*backend, bool, error) {
	named, holders := a.st.backend(a.want.Name), a.st.holders(a.suffix)
	if named != nil && !slices.Contains(named.suffixes, a.suffix) {
		a.fail("the backend %s is there and holds another suffix (%s): give this suffix another name", named.name, strings.Join(named.suffixes, ", "))
		return nil, false, nil
	}
	serving := ""
	if t := a.st.tree(a.suffix); t != nil {
		for _, name := range t.backends {
			// One that a plugin distributes over several is a person's choice too.
			if !strings.EqualFold(serving, a.want.Name) && slices.ContainsFunc(holders, func(h string) bool { return strings.EqualFold(h, name) }) {
				serving = name
			}
		}
	}
	switch {
	// What clients reach stays what they reach.
	case serving != "" && !strings.EqualFold(serving, a.want.Name):
		b := a.st.backend(serving)
		a.say("the suffix is in the backend %s, which was there first and is used as it is", b.name)
		if len(holders) > 1 {
			a.say("the backends %s have the same suffix: delete those that are not used", strings.Join(holders, ", "))
		}
		return b, true, nil
	case named != nil:
		if len(holders) > 1 {
			a.say("the backends %s have the same suffix: delete those that are not used", strings.Join(holders, ", "))
		}
		return named, true, nil
	case len(holders) == 1:
		a.say("the suffix is in the backend %s, which was there first and is used as it is", holders[0])
		return a.st.backend(holders[0]), true, nil
	case len(holders) > 1:
		a.fail("the backends %s have the same suffix, and none is used: delete all but the one with the data", strings.Join(holders, ", "))
		return nil, false, nil
	}
	if link, err := a.link(ctx); err != nil || link != "" {
		if link != "" {
			a.fail("the suffix is on another server, behind the database link %s: delete its mapping tree (%s) to have it here", link, a.st.tree(a.suffix).dn)
		}
		return nil, false, err
	}
	if hidden, err := a.hides(ctx); err != nil || hidden {
		return nil, false, err
	}
	room, err := a.s.hasRoom(ctx, a.st)
	if err != nil {
		return nil, false, err
	}
	switch {
	case !room && a.st.raise != nil:
		return nil, false, failed(a.st.raise, "the database has no room for another backend")
	case !room:
		a.needsRestart = "the database has no room for another backend: the limit nsslapd-mdb-max-dbs was raised, and counts from the server's next restart"
		a.fail("%s", a.needsRestart)
		return nil, false, nil
	}
	err = a.s.add(ctx, backendDN(a.want.Name),
		ldap.Attribute{Type: "objectClass", Vals: []string{"top", "extensibleObject", "nsBackendInstance"}},
		ldap.Attribute{Type: "cn", Vals: []string{a.want.Name}},
		ldap.Attribute{Type: "nsslapd-suffix", Vals: []string{a.want.DN}},
	)
	if err != nil {
		return nil, false, failed(err, "cannot create the backend %s", a.want.Name)
	}
	a.s.forget(a.suffix)
	// The server gives it every default index itself: the next call sees them.
	a.st.backends = append(a.st.backends, backend{name: a.want.Name, suffixes: []string{a.suffix}})
	return &a.st.backends[len(a.st.backends)-1], true, nil
}

// link is the name of a database link (chaining) that answers for the suffix, "" without.
func (a *application) link(ctx context.Context) (string, error) {
	t := a.st.tree(a.suffix)
	if t == nil || len(t.backends) == 0 {
		return "", nil
	}
	links, err := a.s.search(ctx, chaining, ldap.ScopeSingleLevel, "(objectClass=nsBackendInstance)", "cn")
	if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) {
		return "", failed(err, "cannot read the database links")
	}
	for _, l := range links {
		name := l.GetEqualFoldAttributeValue("cn")
		if slices.ContainsFunc(t.backends, func(n string) bool { return strings.EqualFold(n, name) }) {
			return name, nil
		}
	}
	return "", nil
}

// hides says that the suffix would hide entries of the suffix above it: its entries would
// stay in the other backend, where nobody reaches them.
func (a *application) hides(ctx context.Context) (bool, error) {
	parent := a.st.parent(a.suffix)
	if parent == "" || a.st.tree(a.suffix) != nil {
		return false, nil
	}
	n, err := a.s.rootEntry(ctx, a.want.DN)
	if err != nil {
		return false, failed(err, "cannot tell whether the suffix %s contains the entry", parent)
	}
	if n > 0 {
		a.s.forget(a.suffix)
		a.fail("the suffix %s contains an entry of this name, which a suffix of its own would hide: export that subtree, delete it there, and import it here", parent)
	}
	return n > 0, nil
}

// stateBackend is the state of a mapping tree whose backend answers.
const stateBackend = "backend"

// tree makes the mapping tree of the suffix, or puts it right; false where it
// cannot.
func (a *application) tree(ctx context.Context, b *backend) (bool, error) {
	parent := a.st.parent(a.suffix)
	t := a.st.tree(a.suffix)
	if t == nil {
		if hidden, err := a.hides(ctx); err != nil || hidden {
			return false, err
		}
		n := tree{dn: "cn=" + ldap.EscapeDN(a.want.DN) + "," + mappingTree, suffix: a.suffix, state: stateBackend, backends: []string{b.name}, parent: parent}
		attributes := []ldap.Attribute{
			{Type: "objectClass", Vals: []string{"top", "extensibleObject", "nsMappingTree"}},
			{Type: "cn", Vals: []string{a.want.DN}},
			{Type: "nsslapd-state", Vals: []string{stateBackend}},
			{Type: "nsslapd-backend", Vals: []string{b.name}},
		}
		if parent != "" {
			attributes = append(attributes, ldap.Attribute{Type: "nsslapd-parent-suffix", Vals: []string{parent}})
		}
		if err := a.s.add(ctx, n.dn, attributes...); err != nil {
			return false, failed(err, "cannot create the mapping tree of %s", a.want.DN)
		}
		a.s.forget(a.suffix)
		a.s.made[a.suffix] = true
		a.st.trees = append(a.st.trees, n)
		return true, nil
	}

	if !slices.ContainsFunc(t.backends, func(n string) bool { return strings.EqualFold(n, b.name) }) {
		if err := a.s.replace(ctx, t.dn, "nsslapd-backend", b.name); err != nil {
			return false, failed(err, "cannot make the mapping tree of %s use the backend %s", a.want.DN, b.name)
		}
		a.s.forget(a.suffix)
		t.backends = []string{b.name}
	}
	if t.parent != parent && !t.orphan {
		var values []string
		if parent != "" {
			values = append(values, parent)
		}
		if err := a.s.replace(ctx, t.dn, "nsslapd-parent-suffix", values...); err != nil {
			return false, failed(err, "cannot put the suffix %s below %s", a.want.DN, parent)
		}
		t.parent = parent
		// The server finds a suffix's place by its DN, when the suffix is added and at each
		// start, and moves none that is there.
		if a.s.made[parent] {
			a.s.detached[a.suffix] = parent
		}
	}
	return a.enable(ctx, t)
}

// enable a mapping tree whose backend does not answer, but for what replication does: a
// server that receives all data of a suffix refers everyone elsewhere meanwhile, and a
// consumer refers those that write. It undoes that itself.
func (a *application) enable(ctx context.Context, t *tree) (bool, error) {
	if t.state == stateBackend {
		return true, nil
	}
	if strings.HasPrefix(t.state, "referral") {
		replicated, err := a.replicated(ctx, t)
		switch {
		case err != nil:
			return false, err
		case replicated && t.state == "referral":
			a.wait(Receives)
			return false, nil
		case replicated:
			return true, nil
		}
	}
	if err := a.s.replace(ctx, t.dn, "nsslapd-state", stateBackend); err != nil {
		return false, failed(err, "cannot enable the mapping tree of %s, which is %q", a.want.DN, t.state)
	}
	t.state = stateBackend
	return true, nil
}

// replicated says that the suffix has a replica: its servers exchange what is written.
func (a *application) replicated(ctx context.Context, t *tree) (bool, error) {
	replicas, err := a.s.search(ctx, t.dn, ldap.ScopeSingleLevel, "(objectClass=nsds5Replica)", "1.1")
	if err != nil {
		return false, failed(err, "cannot tell whether the suffix is replicated")
	}
	return len(replicas) > 0, nil
}

// receives says that a suffix which does not answer gets all its data from a peer: its
// backend is away, it has a replica, and nobody on this server imports or restores.
func (a *application) receives(ctx context.Context, answer error) (bool, error) {
	t := a.st.tree(a.suffix)
	if t == nil || !ldap.IsErrorAnyOf(answer, ldap.LDAPResultOperationsError, ldap.LDAPResultBusy, ldap.LDAPResultUnavailable, ldap.LDAPResultReferral) {
		return false, nil
	}
	if replicated, err := a.replicated(ctx, t); err != nil || !replicated {
		return false, err
	}
	tasks, err := a.s.search(ctx, "cn=tasks,cn=config", ldap.ScopeWholeSubtree, "(&(nsTaskStatus=*)(!(nsTaskExitCode=*)))", "1.1")
	if err != nil {
		return false, failed(err, "cannot read the tasks")
	}
	return !slices.ContainsFunc(tasks, func(e *ldap.Entry) bool {
		dn := normal(e.DN)
		return strings.HasSuffix(dn, ",cn=import,cn=tasks,cn=config") || strings.HasSuffix(dn, ",cn=restore,cn=tasks,cn=config")
	}), nil
}

// root looks for the root entry, and founds the suffix where this server may.
func (a *application) root(ctx context.Context) error {
	there, err := a.s.root(ctx, a.want.DN, a.suffix)
	if answered(err) {
		receives, unknown := a.receives(ctx, err)
		switch {
		case unknown != nil:
			return unknown
		case receives:
			a.wait(Receives)
			return nil
		}
	}
	switch {
	case err != nil:
		return failed(err, "cannot look for the root entry")
	case there:
		a.r.Founded, a.r.Initialized, a.r.State = true, true, report.SuffixReady
		return nil
	case a.want.Founded && a.founder:
		// Also where the entry is a person's to create: an empty server that counted as
		// initialized would never get its peers' data.
		a.wait(Lost)
		return nil
	case !a.want.Founded && !a.want.CreateEntry:
		a.r.Initialized, a.r.State = true, report.SuffixReady
		return nil
	case !a.founder:
		a.wait(Waits)
		return nil
	}
	entry, err := rootEntryOf(a.want.DN)
	if err != nil {
		a.fail("%s", err)
		return nil
	}
	if err := a.found(ctx, entry); err != nil {
		return failed(err, "cannot create the root entry")
	}
	a.r.Founded, a.r.Initialized, a.r.State = true, true, report.SuffixReady
	return nil
}

func (a *application) found(ctx context.Context, entry []ldap.Attribute) error {
	for hidden := secrets; ; {
		err := a.s.add(ctx, a.want.DN, append(slices.Clone(entry), ldap.Attribute{Type: "aci", Vals: defaultACIs(a.want.DN, hidden)})...)
		less, ok := withoutUnknown(hidden, err)
		if ok {
			hidden = less
			continue
		}
		// Somebody was quicker.
		if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultEntryAlreadyExists) {
			return err
		}
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		a.s.rooted[a.suffix] = true
		return nil
	}
}

// root says whether the root entry is there. That it is, is remembered.
func (s *Server) root(ctx context.Context, dn, suffix string) (bool, error) {
	s.mu.Lock()
	known := s.rooted[suffix]
	s.mu.Unlock()
	if known {
		return true, nil
	}
	n, err := s.rootEntry(ctx, dn)
	return n > 0, err
}

func (s *Server) forget(suffix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rooted, suffix)
}
