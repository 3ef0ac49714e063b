package respond

import (
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/runtime"
)

// toStruct turns a typed object into what goes over the wire. Status is never
// desired: the API server would ignore it, and server-side apply would claim it.
func toStruct(o any) (*structpb.Struct, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(m, "status")
	if spec, ok := m["spec"].(map[string]any); ok {
		if templates, ok := spec["volumeClaimTemplates"].([]any); ok {
			for _, t := range templates {
				if t, ok := t.(map[string]any); ok {
					delete(t, "status")
				}
			}
		}
	}
	return structpb.NewStruct(m)
}

// serverFields of an object's metadata are written by the API server and
// controllers only; server-side apply refuses some of them and would claim the
// others.
var serverFields = map[string]bool{
	"creationTimestamp":          true,
	"deletionGracePeriodSeconds": true,
	"deletionTimestamp":          true,
	"finalizers":                 true,
	"generation":                 true,
	"managedFields":              true,
	"ownerReferences":            true,
	"resourceVersion":            true,
	"selfLink":                   true,
	"uid":                        true,
}

// held is an observed object as it can be applied again without changing it.
func held(observed *structpb.Struct) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(observed.GetFields()))}
	for k, v := range observed.GetFields() {
		switch k {
		case "status":
		case "metadata":
			meta := &structpb.Struct{Fields: map[string]*structpb.Value{}}
			for k, v := range v.GetStructValue().GetFields() {
				if !serverFields[k] {
					meta.Fields[k] = v
				}
			}
			out.Fields[k] = structpb.NewStructValue(meta)
		default:
			out.Fields[k] = v
		}
	}
	return out
}
