package observed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// metadataFields are what the function reads of an object's metadata.
var metadataFields = []string{"name", "namespace", "uid", "generation", "labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp", "resourceVersion"}

// decode makes a typed object of the named top-level fields. The rest, above
// all metadata.managedFields, is left alone: turning it into Go values would
// cost more than all the function does.
func decode(st *structpb.Struct, into any, fields ...string) error {
	some := pick(st, fields)
	if meta := some.GetFields()["metadata"].GetStructValue(); meta != nil {
		some.Fields["metadata"] = structpb.NewStructValue(pick(meta, metadataFields))
	}
	return decodeStruct(some, reflect.ValueOf(into).Elem())
}

// decodeField fills a typed value from one top-level field; a missing field
// leaves it as it is.
func decodeField(st *structpb.Struct, field string, into any) error {
	v, ok := st.GetFields()[field]
	if !ok {
		return nil
	}
	o, ok := v.GetKind().(*structpb.Value_StructValue)
	if !ok {
		return fmt.Errorf("%s is not an object", field)
	}
	return decodeStruct(o.StructValue, reflect.ValueOf(into).Elem())
}

// noUnknownFields is for a document that no schema guards: whoever misspelt a field
// would wait in vain for its effect.
func noUnknownFields(st *structpb.Struct, into any) error {
	b, err := st.MarshalJSON()
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func pick(st *structpb.Struct, fields []string) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(fields))}
	for _, f := range fields {
		if v, ok := st.GetFields()[f]; ok {
			out.Fields[f] = v
		}
	}
	return out
}

func stringField(st *structpb.Struct, name string) string {
	return st.GetFields()[name].GetStringValue()
}

// decodeStruct does what runtime.DefaultUnstructuredConverter.FromUnstructured
// does, with the converter's own knowledge of the types, but from the protobuf
// value itself: by way of maps it would cost three times as much. A value of the
// wrong type is an error that names the field, never the value; unknown fields are
// ignored. into is a zero value.
func decodeStruct(st *structpb.Struct, into reflect.Value) error {
	// In the order of names, so that the same request gives the same error.
	for _, f := range value.TypeReflectEntryOf(into.Type()).OrderedFields() {
		v, ok := st.GetFields()[f.JsonName]
		if !ok {
			continue
		}
		if err := decodeValue(v, f.GetFrom(into)); err != nil {
			return fmt.Errorf("%s: %w", f.JsonName, err)
		}
	}
	return nil
}

func decodeValue(v *structpb.Value, into reflect.Value) error {
	if _, null := v.GetKind().(*structpb.Value_NullValue); null || v.GetKind() == nil {
		return nil
	}
	t := into.Type()
	if t.Kind() == reflect.Pointer {
		into.Set(reflect.New(t.Elem()))
		return decodeValue(v, into.Elem())
	}
	// Quantities, times, ports that may be names.
	if e := value.TypeReflectEntryOf(t); e.CanConvertFromUnstructured() {
		if t == quantityType && !reasonableQuantity(v.GetStringValue()) {
			return errors.New("not a reasonable quantity: write it like 10Gi")
		}
		return e.FromUnstructured(reflect.ValueOf(v.AsInterface()), into)
	}

	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		switch {
		case t.Kind() == reflect.String:
			into.SetString(k.StringValue)
			return nil
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
			b, err := base64.StdEncoding.DecodeString(k.StringValue)
			into.SetBytes(b)
			return err
		}
	case *structpb.Value_BoolValue:
		if t.Kind() == reflect.Bool {
			into.SetBool(k.BoolValue)
			return nil
		}
	case *structpb.Value_NumberValue:
		if i := int64(k.NumberValue); into.CanInt() && float64(i) == k.NumberValue && !into.OverflowInt(i) {
			into.SetInt(i)
			return nil
		}
	case *structpb.Value_ListValue:
		if t.Kind() == reflect.Slice {
			return decodeList(k.ListValue.GetValues(), into)
		}
	case *structpb.Value_StructValue:
		switch {
		case t.Kind() == reflect.Struct:
			return decodeStruct(k.StructValue, into)
		case t.Kind() == reflect.Map:
			return decodeMap(k.StructValue.GetFields(), into)
		}
	}
	return fmt.Errorf("a %T is not a valid %s", v.AsInterface(), t)
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// hugeExponent of a quantity: comparing 1e9999999 takes seconds, and reading
// 1e-99999999 never ends.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9.]{3,}`)

func reasonableQuantity(s string) bool {
	return len(s) <= 64 && !hugeExponent.MatchString(s)
}

func decodeList(values []*structpb.Value, into reflect.Value) error {
	into.Set(reflect.MakeSlice(into.Type(), len(values), len(values)))
	for i, v := range values {
		if err := decodeValue(v, into.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func decodeMap(fields map[string]*structpb.Value, into reflect.Value) error {
	t := into.Type()
	into.Set(reflect.MakeMapWithSize(t, len(fields)))
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		e := reflect.New(t.Elem()).Elem()
		if err := decodeValue(fields[k], e); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		into.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), e)
	}
	return nil
}
