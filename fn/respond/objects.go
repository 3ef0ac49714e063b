package respond

import (
	"fmt"
	"maps"
	"reflect"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// toStruct turns a typed object into what goes over the wire. Status is never
// desired: the API server would ignore it, and server-side apply would claim it.
func toStruct(o any) (*structpb.Struct, error) {
	st, err := structOf(o)
	if err != nil {
		return nil, err
	}
	delete(st.GetFields(), "status")
	templates := st.GetFields()["spec"].GetStructValue().GetFields()["volumeClaimTemplates"]
	for _, t := range templates.GetListValue().GetValues() {
		delete(t.GetStructValue().GetFields(), "status")
	}
	return st, nil
}

// structOf does what runtime.DefaultUnstructuredConverter.ToUnstructured and
// structpb.NewStruct do, with the converter's own knowledge of the types, but in
// one step: the maps in between would cost as much again.
func structOf(o any) (*structpb.Struct, error) {
	v, err := encode(reflect.ValueOf(o))
	return v.GetStructValue(), err
}

func encode(v reflect.Value) (*structpb.Value, error) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return structpb.NewNullValue(), nil
		}
	default:
	}
	if p, ok := reflect.TypeAssert[intstr.IntOrString](v); ok {
		return encodePort(p)
	}
	entry := value.TypeReflectEntryOf(v.Type())
	switch {
	case v.Kind() == reflect.Pointer:
		return encode(v.Elem())
	case entry.CanConvertToUnstructured(): // Quantities and times.
		u, err := entry.ToUnstructured(v)
		if err != nil {
			return nil, err
		}
		return structpb.NewValue(u)
	case v.Kind() == reflect.String:
		return structpb.NewValue(v.String())
	case v.Kind() == reflect.Bool:
		return structpb.NewBoolValue(v.Bool()), nil
	case v.CanInt():
		return structpb.NewNumberValue(float64(v.Int())), nil
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return structpb.NewValue(v.Bytes())
	case v.Kind() == reflect.Slice:
		return encodeList(v)
	case v.Kind() == reflect.Map:
		return encodeMap(v)
	case v.Kind() == reflect.Struct:
		return encodeStruct(v, entry.OrderedFields())
	}
	return nil, fmt.Errorf("cannot convert %s", v.Type())
}

// encodePort is here because the type has no conversion of its own: the library
// would write and parse JSON for every port, at a tenth of the cost of all objects.
func encodePort(p intstr.IntOrString) (*structpb.Value, error) {
	if p.Type == intstr.Int {
		return structpb.NewNumberValue(float64(p.IntVal)), nil
	}
	return structpb.NewValue(p.StrVal)
}

func encodeList(v reflect.Value) (*structpb.Value, error) {
	list := make([]*structpb.Value, v.Len())
	for i := range list {
		e, err := encode(v.Index(i))
		if err != nil {
			return nil, err
		}
		list[i] = e
	}
	return structpb.NewListValue(&structpb.ListValue{Values: list}), nil
}

func encodeMap(v reflect.Value) (*structpb.Value, error) {
	fields := make(map[string]*structpb.Value, v.Len())
	for i := v.MapRange(); i.Next(); {
		k := i.Key().String()
		// The response would not marshal, and nobody would learn why.
		if !utf8.ValidString(k) {
			return nil, fmt.Errorf("invalid UTF-8 in %q", k)
		}
		e, err := encode(i.Value())
		if err != nil {
			return nil, err
		}
		fields[k] = e
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields}), nil
}

func encodeStruct(v reflect.Value, of []*value.FieldCacheEntry) (*structpb.Value, error) {
	fields := make(map[string]*structpb.Value)
	for _, f := range of {
		fv := f.GetFrom(v)
		if f.CanOmit(fv) {
			continue
		}
		e, err := encode(fv)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.JsonName, err)
		}
		fields[f.JsonName] = e
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields}), nil
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

// changed is an object with some of its fields as they are in another one. The object
// is changed in place but for its parts, which may belong to the request.
func changed(object, to *structpb.Struct, fields [][2]string) *structpb.Struct {
	copied := map[string]bool{}
	for _, f := range fields {
		if !copied[f[0]] {
			copied[f[0]] = true
			part := &structpb.Struct{Fields: map[string]*structpb.Value{}}
			maps.Copy(part.Fields, object.GetFields()[f[0]].GetStructValue().GetFields())
			object.Fields[f[0]] = structpb.NewStructValue(part)
		}
		part := object.GetFields()[f[0]].GetStructValue()
		if v, ok := to.GetFields()[f[0]].GetStructValue().GetFields()[f[1]]; ok {
			part.Fields[f[1]] = v
		} else {
			delete(part.Fields, f[1])
		}
	}
	return object
}
