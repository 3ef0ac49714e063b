package observed

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/types/known/structpb"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/389ds/function-directoryservice/apis/input/v1beta1"
	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// smallNumbers are those that protobuf's Struct, which knows only floats, can hold.
func smallNumbers(i *int64, c randfill.Continue) { *i = int64(c.Int31()) }

// TestDecodeAsConverter: what the Kubernetes converter makes of an object, decode
// makes too, of the fields that it is asked for.
func TestDecodeAsConverter(t *testing.T) {
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, func(serializer.CodecFactory) []any { return []any{smallNumbers} })
	fill := fuzzer.FuzzerFor(funcs, rand.NewSource(1), serializer.NewCodecFactory(runtime.NewScheme()))
	fields := []string{"spec", "status", "data", "type", "immutable", "imageCatalog", "defaults"}
	for _, object := range []func() any{
		func() any { return &appsv1.StatefulSet{} },
		func() any { return &batchv1.Job{} },
		func() any { return &corev1.Service{} },
		func() any { return &corev1.ConfigMap{} },
		func() any { return &corev1.Secret{} },
		func() any { return &corev1.Pod{} },
		func() any { return &corev1.PersistentVolumeClaim{} },
		func() any { return &v1alpha1.DirectoryService{} },
		func() any { return &v1beta1.Input{} },
	} {
		for range 100 {
			in := object()
			fill.Fill(in)
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
			if err != nil {
				t.Fatal(err)
			}
			st, err := structpb.NewStruct(m)
			if err != nil {
				t.Fatal(err)
			}
			asked := map[string]any{}
			for _, n := range fields {
				if v, ok := st.GetFields()[n]; ok {
					asked[n] = v.AsInterface()
				}
			}
			asked["metadata"] = pick(st.GetFields()["metadata"].GetStructValue(), metadataFields).AsMap()
			want, got := object(), object()
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(asked, want); err != nil {
				t.Fatal(err)
			}
			if err := decode(st, got, append(fields, "metadata")...); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(want, got) {
				t.Fatalf("%T -want, +got:\n%s", in, cmp.Diff(want, got, cmpopts.EquateEmpty()))
			}
		}
	}
}

// TestDecodeMalformed: decode refuses what the converter refuses, and reads the rest
// as it does.
func TestDecodeMalformed(t *testing.T) {
	for name, m := range map[string]map[string]any{
		"string for int":    {"spec": map[string]any{"replicas": "1"}},
		"bool for int":      {"spec": map[string]any{"replicas": true}},
		"number for string": {"spec": map[string]any{"serviceName": 1}},
		"fraction for int":  {"spec": map[string]any{"replicas": 1.5}},
		"list for struct":   {"spec": []any{}},
		"string for struct": {"spec": "x"},
		"struct for list":   {"spec": map[string]any{"volumeClaimTemplates": map[string]any{}}},
		"string for list":   {"spec": map[string]any{"volumeClaimTemplates": "x"}},
		"list for map":      {"metadata": map[string]any{"labels": []any{"a"}}},
		"struct for string": {"metadata": map[string]any{"name": map[string]any{}}},
		"number in map":     {"metadata": map[string]any{"labels": map[string]any{"a": 1}}},
		"bad quantity":      {"spec": map[string]any{"volumeClaimTemplates": []any{map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "x"}}}}}}},
		"bad time":          {"metadata": map[string]any{"deletionTimestamp": "x"}},
		"null spec":         {"spec": nil},
		"null replicas":     {"spec": map[string]any{"replicas": nil}},
		"null metadata":     {"metadata": nil},
		"string metadata":   {"metadata": "x"},
		"null in list":      {"spec": map[string]any{"volumeClaimTemplates": []any{nil}}},
		"null in map":       {"metadata": map[string]any{"labels": map[string]any{"a": nil}}},
		"null quantity":     {"spec": map[string]any{"volumeClaimTemplates": []any{map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": nil}}}}}}},
		"number quantity":   {"spec": map[string]any{"volumeClaimTemplates": []any{map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": 5}}}}}}},
		"unknown":           {"spec": map[string]any{"x": nil, "Replicas": 3}},
		"int port":          {"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"livenessProbe": map[string]any{"tcpSocket": map[string]any{"port": 3}}}}}}}},
		"bool port":         {"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"livenessProbe": map[string]any{"tcpSocket": map[string]any{"port": true}}}}}}}},
		"empty lists":       {"spec": map[string]any{"volumeClaimTemplates": []any{}, "selector": map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) { sameAsConverter[appsv1.StatefulSet](t, m, "metadata", "spec") })
	}
	for name, m := range map[string]map[string]any{
		"bytes":       {"data": map[string]any{"a": "aGVsbG8="}},
		"empty bytes": {"data": map[string]any{"a": ""}},
		"null bytes":  {"data": map[string]any{"a": nil}},
		"bad bytes":   {"data": map[string]any{"a": "*"}},
		"newlines":    {"data": map[string]any{"a": "aGVs\nbG8=\n"}},
		"null data":   {"data": nil},
	} {
		t.Run(name, func(t *testing.T) { sameAsConverter[corev1.Secret](t, m, "data") })
	}
}

func sameAsConverter[T any](t *testing.T, m map[string]any, fields ...string) {
	t.Helper()
	st, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	var want, got T
	wantErr := runtime.DefaultUnstructuredConverter.FromUnstructured(st.AsMap(), &want)
	gotErr := decode(st, &got, fields...)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("want error %v, got %v", wantErr, gotErr)
	}
	if diff := cmp.Diff(want, got); gotErr == nil && diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
