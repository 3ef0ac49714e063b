package directory

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// wantedIndexes are the equality indexes that every backend has. The server gives them
// to a new backend; one can be deleted by hand, or be missing from a configuration that
// is older than the data.
var wantedIndexes = []string{"uidNumber", "gidNumber", "memberUid"}

// unbuilt marks, as its description, an index that was added and is not built yet. It
// outlives the server and the agent: the server itself forgets at a
// restart that an index is not built, and would then not find what it lacks.
const unbuilt = "not built yet"

// indexes adds what is missing, and builds what was added to a backend with entries. It
// does not wait: the next calls see how far it came. Nothing about indexes makes a suffix
// unusable: without one the server searches all entries.
func (a *application) indexes(ctx context.Context, b *backend) error {
	if b.indexes == nil {
		return nil // just made
	}
	a.indexed = strings.ToLower(b.name)
	err := a.addIndexes(ctx, b)
	if err == nil {
		err = a.buildIndexes(ctx, b)
	}
	if err != nil && answered(err) {
		a.say("indexes are missing: %s", explain(err))
		return nil
	}
	return err
}

func (a *application) addIndexes(ctx context.Context, b *backend) error {
	for _, attribute := range wantedIndexes {
		key := strings.ToLower(attribute)
		if _, ok := b.indexes[key]; ok {
			continue
		}
		err := a.s.add(ctx, indexDN(attribute, b.name),
			ldap.Attribute{Type: "objectClass", Vals: []string{"top", "nsIndex", "extensibleObject"}},
			ldap.Attribute{Type: "cn", Vals: []string{attribute}},
			ldap.Attribute{Type: "nsSystemIndex", Vals: []string{"false"}},
			ldap.Attribute{Type: "nsIndexType", Vals: []string{"eq"}},
			ldap.Attribute{Type: "description", Vals: []string{unbuilt}},
		)
		if err != nil {
			return failed(err, "cannot add the index of %s", attribute)
		}
		b.indexes[key] = false
	}
	return nil
}

func (a *application) buildIndexes(ctx context.Context, b *backend) error {
	var missing []string
	for _, attribute := range wantedIndexes {
		if built, ok := b.indexes[strings.ToLower(attribute)]; ok && !built {
			missing = append(missing, attribute)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	key := strings.ToLower(b.name)
	task, ok := a.s.tasks[key]
	if !ok {
		return a.startTask(ctx, b, missing)
	}
	code, err := a.s.task(ctx, task)
	switch {
	case errors.Is(err, errNoTask):
		// The server was restarted, or has forgotten one that ended long ago.
		delete(a.s.tasks, key)
		return a.startTask(ctx, b, missing)
	case err != nil:
		return err
	case code == "":
		a.building(missing)
		return nil
	case code != "0":
		delete(a.s.tasks, key)
		a.say("the indexes of %s cannot be built (exit code %s of the index task): it is tried again; see the server's error log", strings.Join(missing, ", "), code)
		return nil
	}
	delete(a.s.tasks, key)
	for _, attribute := range missing {
		if err := a.s.replace(ctx, indexDN(attribute, b.name), "description"); err != nil {
			return failed(err, "cannot mark the index of %s as built", attribute)
		}
	}
	return nil
}

func (a *application) startTask(ctx context.Context, b *backend, missing []string) error {
	if len(a.s.tasks) > 0 {
		// One backend after the other: each task reads a whole one.
		a.building(missing)
		return nil
	}
	// Names are never used twice, or an old task's end would be taken for this one's.
	name := "directoryservice-" + b.name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	dn := "cn=" + ldap.EscapeDN(name) + ",cn=index,cn=tasks,cn=config"
	err := a.s.add(ctx, dn,
		ldap.Attribute{Type: "objectClass", Vals: []string{"top", "extensibleObject"}},
		ldap.Attribute{Type: "cn", Vals: []string{name}},
		ldap.Attribute{Type: "nsInstance", Vals: []string{b.name}},
		ldap.Attribute{Type: "nsIndexAttribute", Vals: slices.Clone(missing)},
	)
	if err != nil {
		return failed(err, "cannot start an index task")
	}
	a.s.tasks[strings.ToLower(b.name)] = dn
	a.building(missing)
	return nil
}

func (a *application) building(missing []string) {
	a.say("the indexes of %s are being built: until then searches for them are slow", strings.Join(missing, ", "))
}

func indexDN(attribute, backend string) string {
	return "cn=" + ldap.EscapeDN(attribute) + ",cn=index," + backendDN(backend)
}

// errNoTask: the server keeps a task's entry for a while after its end.
var errNoTask = errors.New("there is no such task")

// task is the exit code of a task, "" while it runs.
func (s *Server) task(ctx context.Context, dn string) (string, error) {
	entries, err := s.search(ctx, dn, ldap.ScopeBaseObject, "(objectClass=*)", "nsTaskExitCode")
	if ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) || err == nil && len(entries) == 0 {
		return "", errNoTask
	}
	if err != nil {
		return "", failed(err, "cannot read the index task")
	}
	return entries[0].GetEqualFoldAttributeValue("nsTaskExitCode"), nil
}
