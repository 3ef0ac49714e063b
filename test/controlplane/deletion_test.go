//go:build controlplane

package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// volumes are the claims' identities and specs.
func volumes(t *testing.T, d directory) map[types.UID]corev1.PersistentVolumeClaimSpec {
	t.Helper()
	out := map[types.UID]corev1.PersistentVolumeClaimSpec{}
	for _, c := range d.claims(t) {
		out[c.UID] = c.Spec
		if len(c.OwnerReferences) != 0 {
			t.Errorf("R7: %s has owners, and would be deleted with them: %s", c.Name, compact(c.OwnerReferences))
		}
	}
	return out
}

func testDeletion(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "deletion")
	manifest := string(mustRead(t, inRoot(t, "test", "controlplane", "testdata", "my-ds.yaml")))
	d := cp.running(t, ns, manifest)
	before := volumes(t, d)
	if len(before) != 2 {
		t.Fatalf("want two volume claims, got %v", before)
	}

	d.delete(t)
	if diff := cmp.Diff(before, volumes(t, d)); diff != "" {
		t.Errorf("volume claims: -before, +deleted:\n%s", diff)
	}

	d = cp.running(t, ns, manifest)
	if diff := cmp.Diff(before, volumes(t, d)); diff != "" {
		t.Errorf("volume claims: -before, +recreated:\n%s", diff)
	}
}

func testStorage(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "storage")
	d := cp.running(t, ns, example(t, "storage:\n  size: 2Gi\n"))
	d.waitCondition(t, "StorageReady", metav1.ConditionTrue)
	checkShrinkRefused(t, d, "1Gi", "2Gi")
}

// checkShrinkRefused checks that nothing becomes of a smaller size, and goes back to the one that the volumes have (R7).
func checkShrinkRefused(t *testing.T, d directory, smaller, size string) {
	t.Helper()
	set, claims := d.statefulSet(t), volumes(t, d)
	d.patch(t, `{"spec":{"storage":{"size":"`+smaller+`"}}}`)
	d.waitCondition(t, "StorageReady", metav1.ConditionFalse, "spec.storage.size", "cannot shrink")
	d.settle(t)
	if diff := cmp.Diff(set.Spec, d.statefulSet(t).Spec); diff != "" {
		t.Errorf("StatefulSet: -before, +after:\n%s", diff)
	}
	if diff := cmp.Diff(claims, volumes(t, d)); diff != "" {
		t.Errorf("volume claims: -before, +after:\n%s", diff)
	}
	if c := condition(d.get(t), "Synced"); c.Status != metav1.ConditionTrue {
		t.Errorf("the API server refused something: %+v", c)
	}
	d.patch(t, `{"spec":{"storage":{"size":"`+size+`"}}}`)
	d.waitCondition(t, "StorageReady", metav1.ConditionTrue)
}

func testDeletionProtection(t *testing.T, cp *controlPlane) {
	ns := cp.namespace(t, "protection")
	d := cp.running(t, ns, example(t, "deletionProtection: true\n"))
	usages := cp.dynamic.Resource(schema.GroupVersionResource{Group: "protection.crossplane.io", Version: "v1beta1", Resource: "usages"}).Namespace(ns)
	// protects lists what the Usages in this namespace are of.
	protects := func() []map[string]string {
		l, err := usages.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		var out []map[string]string
		for _, u := range l.Items {
			version, _, _ := unstructured.NestedString(u.Object, "spec", "of", "apiVersion")
			kind, _, _ := unstructured.NestedString(u.Object, "spec", "of", "kind")
			name, _, _ := unstructured.NestedString(u.Object, "spec", "of", "resourceRef", "name")
			out = append(out, map[string]string{"apiVersion": version, "kind": kind, "name": name})
		}
		return out
	}
	want := []map[string]string{{"apiVersion": directoryServices.GroupVersion().String(), "kind": "DirectoryService", "name": d.name}}
	cp.eventually(t, soon, "a Usage of the user's object", func() string { return cmp.Diff(want, protects()) })

	cp.recorder.allow(ns, "usages")
	d.patch(t, `{"spec":{"deletionProtection":false}}`)
	cp.eventually(t, soon, "no Usage", func() string { return cmp.Diff([]map[string]string(nil), protects()) })
}
