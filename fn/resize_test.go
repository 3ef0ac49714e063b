package fn

import (
	"maps"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/naming"
)

// resizeKinds of what is composed to grow volumes.
func resizeKinds(rsp *fnv1.RunFunctionResponse) []string {
	var kinds []string
	for _, key := range slices.Sorted(maps.Keys(rsp.GetDesired().GetResources())) {
		if naming.IsResize(key) {
			kinds = append(kinds, rsp.GetDesired().GetResources()[key].GetResource().GetFields()["kind"].GetStringValue())
		}
	}
	return kinds
}

// R7: how volumes grow, from the edit to the end, in the function's own calls.
func TestGrow(t *testing.T) {
	c := settled(call{xr: seedXR(nil), input: object{}})[4]
	claims := func(c call) []any { return c.required.(object)[naming.RequireClaims].([]any) }
	grow := func(c call, claim int, size string) {
		claims(c)[claim].(object)["spec"].(object)["resources"].(object)["requests"].(object)["storage"] = size
	}
	storage := func(t *testing.T, rsp *fnv1.RunFunctionResponse, want string, words ...string) {
		t.Helper()
		got := condition(t, rsp, "StorageReady")
		if got.GetReason() != want {
			t.Errorf("StorageReady: want %s, got %v", want, got)
		}
		for _, w := range words {
			if !strings.Contains(got.GetMessage(), w) {
				t.Errorf("the message lacks %q: %s", w, got.GetMessage())
			}
		}
	}
	kinds := func(t *testing.T, rsp *fnv1.RunFunctionResponse, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, resizeKinds(rsp)); diff != "" {
			t.Errorf("what grows the volumes: -want, +got:\n%s", diff)
		}
	}
	// next is the call after, with the same claims.
	next := func(c call, rsp *fnv1.RunFunctionResponse) call {
		n := live(c, rsp)
		n.required.(object)[naming.RequireClaims] = clone(claims(c))
		return n
	}
	asks := func(rsp *fnv1.RunFunctionResponse) bool {
		return rsp.GetRequirements().GetResources()[naming.RequireResizePods] != nil
	}

	rsp := mustCheck(t, c)
	kinds(t, rsp)
	if asks(rsp) {
		t.Error("there is no Job whose pods could be asked for")
	}

	c.xr.(object)["spec"].(object)["storage"] = object{"size": "20Gi"}
	rsp = mustCheck(t, c)
	storage(t, rsp, "Growing", "ds-data-my-ds-0, ds-data-my-ds-1 to 20Gi")
	kinds(t, rsp, "Role", "ServiceAccount")

	c = next(c, rsp)
	rsp = mustCheck(t, c)
	kinds(t, rsp, "Job", "Role", "RoleBinding", "ServiceAccount")
	if !asks(rsp) {
		t.Error("why a Job does not grow the volumes, only its pods tell")
	}

	// What is not known, or not valid, stays as it is.
	c = next(c, rsp)
	unknown := c.clone()
	delete(unknown.required.(object), naming.RequireClaims)
	kinds(t, mustCheck(t, unknown), "Job", "Role", "RoleBinding", "ServiceAccount")
	invalid := c.clone()
	invalid.xr.(object)["spec"].(object)["ports"] = object{"ldap": 1.0, "ldaps": 1.0}
	kinds(t, mustCheck(t, invalid), "Job", "Role", "RoleBinding", "ServiceAccount")

	// One has grown, the other is refused: it is the same Job.
	var key string
	for k, o := range c.observed.(object) {
		if o.(object)["kind"] == "Job" {
			key = k
		}
	}
	pod := object{
		"metadata": object{
			"name": "my-ds-" + key + "-x7k2p", "namespace": "team",
			"annotations":     clone(dig(c.observed, key, "spec", "template", "metadata", "annotations")),
			"ownerReferences": []any{object{"kind": "Job", "name": "my-ds-" + key, "controller": true}},
		},
		"status": object{"phase": "Running", "containerStatuses": []any{object{
			"name": "resize", "restartCount": 1.0,
			"state":     object{"waiting": object{"reason": "CrashLoopBackOff"}},
			"lastState": object{"terminated": object{"exitCode": 1.0, "reason": "Error", "message": "directoryservice: error: cannot grow ds-data-my-ds-1: the API server's words"}},
		}}},
	}
	grow(c, 0, "20Gi")
	c.required.(object)[naming.RequireResizePods] = []any{pod}
	rsp = mustCheck(t, c)
	storage(t, rsp, "GrowFailed", "cannot grow the volume claims ds-data-my-ds-1 to 20Gi: the API server's words")
	if _, same := rsp.GetDesired().GetResources()[key]; !same {
		t.Error("the Job was replaced by another one while it is at work")
	}

	// The Job gives up: it is deleted, then made anew, and what it said stands.
	c = next(c, rsp)
	c.observed.(object)[key].(object)["status"] = object{"failed": 1.0, "conditions": []any{object{"type": "Failed", "status": "True"}}}
	rsp = mustCheck(t, c)
	storage(t, rsp, "GrowFailed", "the API server's words")
	kinds(t, rsp, "Role", "RoleBinding", "ServiceAccount")
	c = next(c, rsp)
	rsp = mustCheck(t, c)
	storage(t, rsp, "GrowFailed", "the API server's words")
	kinds(t, rsp, "Job", "Role", "RoleBinding", "ServiceAccount")

	// That one succeeds.
	c = next(c, rsp)
	grow(c, 1, "20Gi")
	for i := range claims(c) {
		claims(c)[i].(object)["status"] = object{"phase": "Bound", "capacity": object{"storage": "10Gi"}}
	}
	rsp = mustCheck(t, c)
	storage(t, rsp, "Growing", "describe pvc")
	kinds(t, rsp)
	c = next(c, rsp)
	for i := range claims(c) {
		claims(c)[i].(object)["status"] = object{"phase": "Bound", "capacity": object{"storage": "20Gi"}}
	}
	rsp = mustCheck(t, c)
	storage(t, rsp, "Ready")

	// A new server's claim is as small as the template, which cannot change.
	c.xr.(object)["spec"].(object)["replicas"] = 3.0
	c = next(c, mustCheck(t, c))
	late := clone(claims(c)[0]).(object)
	late["metadata"].(object)["name"] = "ds-data-my-ds-2"
	late["status"] = object{"phase": "Pending"}
	c.required.(object)[naming.RequireClaims] = append(claims(c), late)
	grow(c, 2, "10Gi")
	rsp = mustCheck(t, c)
	storage(t, rsp, "VolumePending")
	kinds(t, rsp)
	claims(c)[2].(object)["status"] = object{"phase": "Bound"}
	rsp = mustCheck(t, c)
	storage(t, rsp, "Growing", "claims ds-data-my-ds-2 to 20Gi")
	kinds(t, rsp, "Role", "ServiceAccount")
}
