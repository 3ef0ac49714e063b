package observed

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/runtime"
)

// decode makes a typed object of the named top-level fields. The rest, above
// all metadata.managedFields, is left alone: turning it into Go values would
// cost more than all the function does.
func decode(st *structpb.Struct, into any, fields ...string) error {
	m := make(map[string]any, len(fields))
	for _, f := range fields {
		v, ok := st.GetFields()[f]
		if !ok {
			continue
		}
		if f == "metadata" {
			m[f] = metadata(v)
			continue
		}
		m[f] = v.AsInterface()
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(m, into)
}

// decodeField fills a typed value from one top-level field; a missing field
// leaves it as it is.
func decodeField(st *structpb.Struct, field string, into any) error {
	v, ok := st.GetFields()[field]
	if !ok {
		return nil
	}
	m, ok := v.AsInterface().(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object", field)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(m, into)
}

// metadata keeps what the function reads of an object's metadata.
func metadata(v *structpb.Value) any {
	st := v.GetStructValue()
	if st == nil {
		return v.AsInterface()
	}
	m := make(map[string]any)
	for _, f := range []string{"name", "namespace", "uid", "generation", "labels", "annotations", "creationTimestamp", "deletionTimestamp"} {
		if v, ok := st.GetFields()[f]; ok {
			m[f] = v.AsInterface()
		}
	}
	return m
}

func stringField(st *structpb.Struct, name string) string {
	return st.GetFields()[name].GetStringValue()
}
