//go:build controlplane

package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// watched is every kind the function composes or requires.
var watched = []schema.GroupVersionResource{
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "pods"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "protection.crossplane.io", Version: "v1beta1", Resource: "usages"},
}

// change is one event of a watch.
type change struct {
	at                        time.Time
	resource, namespace, name string
	old, new                  *unstructured.Unstructured // nil before an addition, after a deletion
}

func (c change) String() string {
	what := "changed"
	switch {
	case c.old == nil:
		what = "added"
	case c.new == nil:
		what = "deleted"
	}
	return fmt.Sprintf("%s %s %s/%s %s", c.at.Format("15:04:05.000"), c.resource, c.namespace, c.name, what)
}

// foreign says that neither Crossplane nor the function made this change: pods, PVCs and the status of
// everything else are written by Kubernetes' controllers, and here by the test in the kubelet's place; reports by agents.
func (c change) foreign() bool {
	switch c.resource {
	case "pods", "persistentvolumeclaims":
		return true
	case "directoryservices", "xdirectoryservices":
		return false
	case "configmaps":
		return strings.HasSuffix(c.name, "-state") && c.old != nil && c.new != nil && !cmp.Equal(c.old.Object["data"], c.new.Object["data"])
	}
	return c.old != nil && c.new != nil && !cmp.Equal(c.old.Object["status"], c.new.Object["status"])
}

// allowance is a deletion a test is about to cause on purpose. Empty name: any; one that ends in *: any that begins so.
type allowance struct{ namespace, resource, name string }

// recorder sees everything that happens to composed objects, from the start of the suite to its end, so that nothing
// vanishes unseen between two looks of a test.
type recorder struct {
	mu      sync.Mutex
	changes []change
	allowed []allowance
	tests   map[string]bool // the namespaces of tests
}

func record(t *testing.T, cp *controlPlane) *recorder {
	t.Helper()
	r := &recorder{tests: map[string]bool{}}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	factory := dynamicinformer.NewDynamicSharedInformerFactory(cp.dynamic, 0)
	gvrs := append([]schema.GroupVersionResource{cp.xr()}, watched...)
	if cp.claim {
		gvrs = append(gvrs, directoryServices)
	}
	for _, gvr := range gvrs {
		_, err := factory.ForResource(gvr).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { r.add(gvr.Resource, nil, obj) },
			UpdateFunc: func(old, obj any) { r.add(gvr.Resource, old, obj) },
			DeleteFunc: func(obj any) { r.add(gvr.Resource, obj, nil) },
		})
		must(t, err)
	}
	factory.Start(stop)
	for gvr, ok := range factory.WaitForCacheSync(stop) {
		if !ok {
			t.Fatalf("cannot watch %s", gvr)
		}
	}
	return r
}

func (r *recorder) add(resource string, old, obj any) {
	c := change{at: time.Now(), resource: resource, old: object(old), new: object(obj)}
	of := c.new
	if of == nil {
		of = c.old
	}
	c.namespace, c.name = of.GetNamespace(), of.GetName()
	if c.namespace == "" {
		c.namespace = of.GetLabels()["crossplane.io/claim-namespace"] // a claim's XR
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, c)
}

func object(obj any) *unstructured.Unstructured {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	u, _ := obj.(*unstructured.Unstructured)
	return u
}

// watch has the deletions in a namespace judged.
func (r *recorder) watch(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tests[namespace] = true
}

// allow announces deletions.
func (r *recorder) allow(namespace, resource string, names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		r.allowed = append(r.allowed, allowance{namespace, resource, name})
	}
}

// allowService announces that a whole service is deleted: all of it but its volumes.
func (r *recorder) allowService(namespace string) {
	r.allow(namespace, "directoryservices")
	r.allow(namespace, "xdirectoryservices")
	for _, gvr := range watched {
		if gvr.Resource != "persistentvolumeclaims" {
			r.allow(namespace, gvr.Resource)
		}
	}
}

// allowJobs announces that our own Jobs of that name are deleted when they have done their work.
func (r *recorder) allowJobs(namespace, name string) {
	for _, resource := range []string{"jobs", "pods", "serviceaccounts", "roles", "rolebindings"} {
		r.allow(namespace, resource, name)
	}
}

// vanished returns the deletions nobody announced.
func (r *recorder) vanished() []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []change
	for _, c := range r.changes {
		if c.new != nil || !r.tests[c.namespace] {
			continue
		}
		if !slices.ContainsFunc(r.allowed, func(a allowance) bool {
			prefix, several := strings.CutSuffix(a.name, "*")
			return a.namespace == c.namespace && a.resource == c.resource && (a.name == "" || a.name == c.name || several && strings.HasPrefix(c.name, prefix))
		}) {
			out = append(out, c)
		}
	}
	return out
}

// reissued returns the changes of certificates that nobody announced as deletions of their Secrets.
func (r *recorder) reissued() []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []change
	for _, c := range r.changes {
		if c.resource != "secrets" || !strings.HasSuffix(c.name, "-tls") || c.old == nil || c.new == nil || c.old.GetUID() != c.new.GetUID() || !r.tests[c.namespace] {
			continue
		}
		was, _, _ := unstructured.NestedString(c.old.Object, "data", "tls.crt")
		is, _, _ := unstructured.NestedString(c.new.Object, "data", "tls.crt")
		if was == is || slices.ContainsFunc(r.allowed, func(a allowance) bool {
			return a.namespace == c.namespace && a.resource == "secrets" && a.name == c.name
		}) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// since returns what happened in a namespace from then on.
func (r *recorder) since(namespace string, then time.Time) []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []change
	for _, c := range r.changes {
		if c.namespace == namespace && !c.at.Before(then) {
			out = append(out, c)
		}
	}
	return out
}

// sinceInTests returns what happened in the namespaces of tests from then on.
func (r *recorder) sinceInTests(then time.Time) []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []change
	for _, c := range r.changes {
		if r.tests[c.namespace] && !c.at.Before(then) {
			out = append(out, c)
		}
	}
	return out
}

// last returns when something happened in a namespace for the last time.
func (r *recorder) last(namespace string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.changes) - 1; i >= 0; i-- {
		if r.changes[i].namespace == namespace {
			return r.changes[i].at
		}
	}
	return time.Time{}
}

// list prints changes one a line.
func list(cs []change) string {
	var lines []string
	for _, c := range cs {
		line := c.String()
		if c.old != nil && c.new != nil {
			line += ": " + strings.Join(paths(c.old.Object, c.new.Object, ""), ", ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// paths names the fields in which two objects differ, three levels deep, and not those that always do.
func paths(a, b map[string]any, prefix string) []string {
	var out []string
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	for k := range keys {
		path := prefix + "." + k
		if path == ".metadata.resourceVersion" || path == ".metadata.managedFields" || cmp.Equal(a[k], b[k]) {
			continue
		}
		am, aok := a[k].(map[string]any)
		bm, bok := b[k].(map[string]any)
		if aok && bok && strings.Count(path, ".") < 3 {
			out = append(out, paths(am, bm, path)...)
		} else {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}
