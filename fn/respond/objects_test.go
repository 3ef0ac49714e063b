package respond

import (
	"math/rand"
	"testing"

	protectionv1beta1 "github.com/crossplane/crossplane/apis/v2/protection/v1beta1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// TestStructOfAsConverter: what the Kubernetes converter makes of an object, structOf
// makes too, for empty objects and for randomly filled ones.
func TestStructOfAsConverter(t *testing.T) {
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(1), serializer.NewCodecFactory(runtime.NewScheme()))
	for _, object := range []func() any{
		func() any { return &appsv1.StatefulSet{} },
		func() any { return &corev1.Service{} },
		func() any { return &corev1.ServiceAccount{} },
		func() any { return &corev1.ConfigMap{} },
		func() any { return &corev1.Secret{} },
		func() any { return &networkingv1.NetworkPolicy{} },
		func() any { return &policyv1.PodDisruptionBudget{} },
		func() any { return &batchv1.Job{} },
		func() any { return &rbacv1.Role{} },
		func() any { return &rbacv1.RoleBinding{} },
		func() any { return &protectionv1beta1.Usage{} },
		func() any { return &v1alpha1.DirectoryServiceStatus{} },
	} {
		for i := range 100 {
			in := object()
			if i > 0 {
				fill.Fill(in)
			}
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := structpb.NewStruct(m)
			got, gotErr := structOf(in)
			if (wantErr == nil) != (gotErr == nil) {
				t.Fatalf("%T: want error %v, got %v", in, wantErr, gotErr)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); wantErr == nil && diff != "" {
				t.Fatalf("%T -want, +got:\n%s", in, diff)
			}
		}
	}
}

// TestInvalidUTF8: a response with it would not marshal, and nobody would learn why.
func TestInvalidUTF8(t *testing.T) {
	for name, o := range map[string]any{
		"Key":   &corev1.ConfigMap{Data: map[string]string{"\xff": ""}},
		"Value": &corev1.ConfigMap{Data: map[string]string{"a": "\xff"}},
	} {
		if _, err := toStruct(o); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
