// Package apis_test holds the two XRDs against what Crossplane and the API server
// make of them.
package apis_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crossplane/crossplane-runtime/v2/pkg/xcrd"
	xv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

type object = map[string]any

func load(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	// Whole numbers are integers to the API server, and to its CEL.
	doc, err := yaml.YAMLToJSON(raw)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := json.Unmarshal(doc, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// definition is an XRD as Crossplane reads it: a v2 one is converted to v1.
func definition(t *testing.T, flavour string) *xv1.CompositeResourceDefinition {
	t.Helper()
	xrd := &xv1.CompositeResourceDefinition{}
	load(t, filepath.Join(flavour, "definition.yaml"), xrd)
	return xrd
}

// rawSchema is the schema of an XRD with everything that was written into it,
// also what Crossplane would not read.
func rawSchema(t *testing.T, flavour string) object {
	t.Helper()
	xrd := struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema object `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}{}
	load(t, filepath.Join(flavour, "definition.yaml"), &xrd)
	return xrd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// crds are what Crossplane makes of the XRDs, by what a user applies; the XR of a
// claim is nobody's to apply, but must be accepted too.
func crds(t *testing.T) map[string]*extv1.CustomResourceDefinition {
	t.Helper()
	out := map[string]*extv1.CustomResourceDefinition{}
	for name, of := range map[string]func() (*extv1.CustomResourceDefinition, error){
		"namespaced": func() (*extv1.CustomResourceDefinition, error) {
			return xcrd.ForCompositeResource(definition(t, "namespaced"))
		},
		"claim": func() (*extv1.CustomResourceDefinition, error) {
			return xcrd.ForCompositeResourceClaim(definition(t, "claim"))
		},
		"xr of a claim": func() (*extv1.CustomResourceDefinition, error) {
			return xcrd.ForCompositeResource(definition(t, "claim"))
		},
	} {
		crd, err := of()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		crd.SetOwnerReferences(nil) // An XRD in a file has no UID yet.
		extv1.SetDefaults_CustomResourceDefinition(crd)
		extv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		out[name] = crd
	}
	return out
}

// A validator does to an object what the API server does to it.
type validator struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

func newValidator(t *testing.T, crd *extv1.CustomResourceDefinition) *validator {
	t.Helper()
	props := &apiextensions.JSONSchemaProps{}
	if err := extv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	return &validator{structural, v, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// admit fills in defaults and returns what is wrong, unknown fields included.
func (v *validator) admit(o object) field.ErrorList {
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(runtime.DeepCopyJSON(o), v.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, field.Invalid(field.NewPath(path), nil, "unknown field"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(o, v.structural)
	defaulting.Default(o, v.structural)
	errs = append(errs, validation.ValidateCustomResource(nil, o, v.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, o)...)
	if len(errs) > 0 {
		return errs // The API server runs CEL on objects of the right types only.
	}
	errs, _ = v.cel.Validate(context.Background(), nil, v.structural, o, nil, celconfig.RuntimeCELCostBudget)
	return errs
}

// R2: what `kubectl get dirsrv` shows, before Crossplane's own columns, and what
// `kubectl scale` changes.
func TestDefinitions(t *testing.T) {
	type names struct{ Kind, Plural, Singular, ShortName string }
	type column struct{ Name, Type, Path string }
	columns := []column{
		{"Version", "string", ".status.currentVersion"},
		{"Target", "string", ".status.targetVersion"},
		{"Replicas", "integer", ".spec.replicas"},
		{"Ready(pods)", "integer", ".status.readyReplicas"},
		{"Phase", "string", ".status.phase"},
	}
	dirsrv := names{"DirectoryService", "directoryservices", "directoryservice", "dirsrv"}

	cases := map[string]struct {
		reason string
		crd    string
		names  names
		own    []string
	}{
		"Namespaced": {reason: "The XR is what the user applies.", crd: "namespaced", names: dirsrv, own: []string{"SYNCED", "READY", "COMPOSITION", "AGE"}},
		"Claim":      {reason: "The claim has the same names.", crd: "claim", names: dirsrv, own: []string{"SYNCED", "READY", "CONNECTION-SECRET", "AGE"}},
		"XR":         {reason: "The claim's XR has others, or the two would be one.", crd: "xr of a claim", names: names{Kind: "XDirectoryService", Plural: "xdirectoryservices", Singular: "xdirectoryservice"}, own: []string{"SYNCED", "READY", "COMPOSITION", "AGE"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			crd := crds(t)[tc.crd]
			got := names{Kind: crd.Spec.Names.Kind, Plural: crd.Spec.Names.Plural, Singular: crd.Spec.Names.Singular}
			if s := crd.Spec.Names.ShortNames; len(s) > 0 {
				got.ShortName = strings.Join(s, ",")
			}
			if diff := cmp.Diff(tc.names, got); diff != "" {
				t.Errorf("\n%s\nnames: -want, +got:\n%s", tc.reason, diff)
			}
			if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != "v1alpha1" || crd.Spec.Group != v1alpha1.Group {
				t.Fatalf("\n%s\nwant the version v1alpha1 alone, got %v", tc.reason, crd.Spec.Versions)
			}
			version := crd.Spec.Versions[0]

			var ours []column
			var theirs []string
			for i, c := range version.AdditionalPrinterColumns {
				if i < len(columns) {
					ours = append(ours, column{c.Name, c.Type, c.JSONPath})
				} else if c.Priority == 0 {
					theirs = append(theirs, c.Name)
				}
			}
			if diff := cmp.Diff(columns, ours); diff != "" {
				t.Errorf("\n%s\ncolumns: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.own, theirs); diff != "" {
				t.Errorf("\n%s\nCrossplane's columns: -want, +got:\n%s", tc.reason, diff)
			}

			selector := ".status.selector"
			want := &extv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector}
			if diff := cmp.Diff(want, version.Subresources.Scale); diff != "" {
				t.Errorf("\n%s\nscale: -want, +got:\n%s", tc.reason, diff)
			}
			// A path that leads nowhere would show nothing, and nobody would know why.
			for _, path := range []string{".spec.replicas", ".status.replicas", ".status.selector", ".status.currentVersion", ".status.targetVersion", ".status.readyReplicas", ".status.phase"} {
				part, name, _ := strings.Cut(strings.TrimPrefix(path, "."), ".")
				if _, ok := version.Schema.OpenAPIV3Schema.Properties[part].Properties[name]; !ok {
					t.Errorf("\n%s\nthe schema has no %s", tc.reason, path)
				}
			}
		})
	}
}

// Both flavours are one API.
func TestFlavoursAreTheSame(t *testing.T) {
	if diff := cmp.Diff(definition(t, "namespaced").Spec.Versions, definition(t, "claim").Spec.Versions); diff != "" {
		t.Errorf("versions: -namespaced, +claim:\n%s", diff)
	}
}

// The API server takes the CRDs: structural schemas, valid defaults, CEL rules that
// compile and cost no more than it allows.
func TestCRDsAreValid(t *testing.T) {
	for name, crd := range crds(t) {
		t.Run(name, func(t *testing.T) {
			internal := &apiextensions.CustomResourceDefinition{}
			if err := extv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
				t.Fatal(err)
			}
			internal.Status.StoredVersions = []string{"v1alpha1"}
			if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

// Of the root, spec and status themselves Crossplane carries over these fields
// only (crossplane-runtime pkg/xcrd, genCrdVersion); any other would be dropped
// without a word. Nor may a property have the name of one of Crossplane's own.
func TestNothingIsDropped(t *testing.T) {
	carried := map[string][]string{
		"":       {"description", "properties", "required", "type", "x-kubernetes-validations"},
		"spec":   {"description", "oneOf", "properties", "required", "type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"},
		"status": {"description", "oneOf", "properties", "required", "type", "x-kubernetes-validations"},
	}
	for _, flavour := range []string{"namespaced", "claim"} {
		root := rawSchema(t, flavour)
		props, _ := root["properties"].(object)
		if diff := cmp.Diff([]string{"spec", "status"}, slices.Sorted(maps.Keys(props))); diff != "" {
			t.Errorf("%s: properties of the root: -want, +got:\n%s", flavour, diff)
		}
		if diff := cmp.Diff([]any{"spec"}, root["required"]); diff != "" {
			t.Errorf("%s: required of the root: -want, +got:\n%s", flavour, diff)
		}
		for part, allowed := range carried {
			node := root
			if part != "" {
				node, _ = props[part].(object)
			}
			for key := range node {
				if !slices.Contains(allowed, key) {
					t.Errorf("%s: Crossplane drops %q of %q", flavour, key, part)
				}
			}
		}
	}

	version := definition(t, "namespaced").Spec.Versions[0]
	for name, crd := range crds(t) {
		raw := rawSchema(t, "namespaced")
		for _, part := range []string{"spec", "status"} {
			translated := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
			ours := &extv1.JSONSchemaProps{}
			if err := yaml.Unmarshal(version.Schema.OpenAPIV3Schema.Raw, ours); err != nil {
				t.Fatal(err)
			}
			for property := range raw["properties"].(object)[part].(object)["properties"].(object) {
				if diff := cmp.Diff(ours.Properties[part].Properties[property], translated.Properties[property]); diff != "" {
					t.Errorf("%s: %s.%s is another one after translation, it has the name of one of Crossplane's own: -ours, +translated:\n%s", name, part, property, diff)
				}
			}
		}
	}
}

// kubernetesTypes are fields whose items are types of Kubernetes: their lists are
// as Kubernetes declares them.
var kubernetesTypes = []string{
	"spec.affinity", "spec.tolerations", "spec.topologySpreadConstraints[]", "spec.resources",
	"spec.podSecurityContext", "spec.securityContext", "spec.networkPolicy.clients", "spec.networkPolicy.monitoring",
}

// S5: an object read back after defaulting, against the one in Git, gives no
// difference: a list of ours is merged by key, or is a set, and no item of a list
// has a default.
func TestLists(t *testing.T) {
	root := rawSchema(t, "namespaced")
	lists := 0
	var walk func(path string, node object, whole bool)
	walk = func(path string, node object, whole bool) {
		if _, ok := node["default"]; ok && whole {
			t.Errorf("%s has a default inside of a list or of an atomic map", path)
		}
		kubernetes := slices.ContainsFunc(kubernetesTypes, func(p string) bool {
			return path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[]")
		})
		if node["x-kubernetes-map-type"] == "atomic" {
			whole = true
		}
		if node["type"] == "array" {
			lists++
			kind, _ := node["x-kubernetes-list-type"].(string)
			// Nobody but Crossplane writes the status, and always whole.
			if kind != "map" && kind != "set" && !kubernetes && (kind != "atomic" || !strings.HasPrefix(path, "status.")) {
				t.Errorf("the list %s is %q: want map or set", path, kind)
			}
			if items, ok := node["items"].(object); ok {
				walk(path+"[]", items, true)
			}
		}
		props, _ := node["properties"].(object)
		for name, p := range props {
			walk(strings.TrimPrefix(path+"."+name, "."), p.(object), whole)
		}
		if p, ok := node["additionalProperties"].(object); ok {
			walk(path+"{}", p, whole)
		}
	}
	walk("", root, false)
	if lists < 10 {
		t.Errorf("the walk found %d lists only", lists)
	}
	for _, path := range kubernetesTypes {
		if !strings.Contains(path, "[") && dig(root, strings.Split(path, ".")...) == nil {
			t.Errorf("there is no field %s any more", path)
		}
	}
}

func dig(node object, path ...string) object {
	for _, name := range path {
		props, _ := node["properties"].(object)
		node, _ = props[name].(object)
	}
	return node
}

// R1: the two examples of the README, verbatim, as XR and as claim. Nothing of
// them is unknown.
func TestExamplesAreAccepted(t *testing.T) {
	for kind, crd := range crds(t) {
		v := newValidator(t, crd)
		for _, example := range []string{"my-ds", "example-ds"} {
			t.Run(kind+" "+example, func(t *testing.T) {
				o := object{}
				load(t, filepath.Join("testdata", example+".yaml"), &o)
				o["kind"] = crd.Spec.Names.Kind
				if errs := v.admit(o); len(errs) > 0 {
					t.Error(errs.ToAggregate())
				}
			})
		}
	}
}

// The defaults of the schema and those of the Go types are the same: an XR that was
// rendered without its XRD runs like one that was applied. (Items of lists have
// none in the schema: see TestLists.)
func TestDefaults(t *testing.T) {
	v := newValidator(t, crds(t)["namespaced"])
	cases := map[string]struct {
		reason string
		spec   object
	}{
		"Minimal":    {reason: "R3, R5, R7, R8: an image alone.", spec: object{"image": "x"}},
		"SecretRef":  {reason: "R10: the key.", spec: object{"image": "x", "dmPasswordSecretRef": object{"name": "mine"}}},
		"HalfFilled": {reason: "A default for each field that is missing, and none over one that is set.", spec: object{"image": "x", "replicas": int64(3), "ports": object{"ldap": int64(389)}, "storage": object{"storageClassName": "fast"}, "startup": object{}, "service": object{}, "networkPolicy": object{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := v1alpha1.DirectoryServiceSpec{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(runtime.DeepCopyJSON(tc.spec), &want); err != nil {
				t.Fatal(err)
			}
			want.Default()

			o := object{"apiVersion": "dirsrv.operator.port389.org/v1alpha1", "kind": "DirectoryService", "metadata": object{"name": "ds"}, "spec": tc.spec}
			if errs := v.admit(o); len(errs) > 0 {
				t.Fatalf("\n%s\n%v", tc.reason, errs.ToAggregate())
			}
			got := v1alpha1.DirectoryServiceSpec{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o["spec"].(object), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("\n%s\n-Go, +schema:\n%s", tc.reason, diff)
			}
		})
	}
}

// What the schema takes and what it refuses, with the field that is to blame.
func TestSchema(t *testing.T) {
	version := func(v string) func(o, spec object) {
		return func(_, spec object) { spec["version"] = v }
	}
	set := func(field string, v any) func(o, spec object) {
		return func(_, spec object) { spec[field] = v }
	}
	name := func(n string) func(o, spec object) {
		return func(o, _ object) { o["metadata"] = object{"name": n} }
	}
	suffixes := func(names ...string) func(o, spec object) {
		return func(_, spec object) {
			var list []any
			for i, n := range names {
				list = append(list, object{"name": n, "dn": fmt.Sprintf("dc=%d", i)})
			}
			spec["suffixes"] = list
		}
	}
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}

	cases := map[string]struct {
		reason string
		change func(o, spec object)
		want   string // The field of the error; "" where it is accepted.
	}{
		"Name":           {reason: "52 characters fit.", change: name(strings.Repeat("a", 52))},
		"NameTooLong":    {reason: "53 would not fit a pod's label.", change: name(strings.Repeat("a", 53)), want: "metadata.name"},
		"NameWithDot":    {reason: "A Service's name has no dots.", change: name("example.ds"), want: "metadata.name"},
		"NameWithDigit":  {reason: "A Service's name begins with a letter.", change: name("389-ds"), want: "metadata.name"},
		"NameEndsInDash": {reason: "A label ends in a letter or digit.", change: name("ds-"), want: "metadata.name"},

		"NoImage":        {reason: "R3: an image is required.", change: func(_, spec object) { delete(spec, "image") }, want: "spec.image"},
		"EmptyImage":     {reason: "R3: an empty image is none.", change: set("image", ""), want: "spec.image"},
		"ImageWithSpace": {reason: "R3: an image has no spaces.", change: set("image", "x :3.1.0"), want: "spec.image"},

		"NoVersion":       {reason: "R4: the version is optional.", change: func(_, spec object) { delete(spec, "version") }},
		"LeadingV":        {reason: "R4: a leading v is allowed.", change: version("v3.1.0")},
		"PreRelease":      {reason: "R4: a pre-release is allowed.", change: version("3.1.0-rc.1")},
		"Latest":          {reason: "R4: latest is no version.", change: version("latest"), want: "spec.version"},
		"TwoNumbers":      {reason: "R4: two numbers are no version.", change: version("3.0"), want: "spec.version"},
		"OneNumber":       {reason: "R4: one number is no version.", change: version("v3"), want: "spec.version"},
		"FourNumbers":     {reason: "R4: four numbers are no version.", change: version("3.1.0.1"), want: "spec.version"},
		"BuildMetadata":   {reason: "R4: no tag has a +.", change: version("3.1.0+x"), want: "spec.version"},
		"PreReleaseBuild": {reason: "R4: neither has a pre-release's.", change: version("3.1.0-rc.1+x"), want: "spec.version"},
		"LeadingZero":     {reason: "R4: numbers have no leading zeros.", change: version("3.01.0"), want: "spec.version"},
		"VersionOnLines":  {reason: "R4: a pattern is about the whole value.", change: version("3.1.0\nlatest"), want: "spec.version"},
		"VersionNumber":   {reason: "R4: 3.1 without quotes is a number in YAML.", change: set("version", 3.1), want: "spec.version"},

		"OneReplica":      {reason: "R5: one server.", change: set("replicas", int64(1))},
		"MostReplicas":    {reason: "R5: 20 servers.", change: set("replicas", int64(20))},
		"NoReplicas":      {reason: "R5: none.", change: set("replicas", int64(0)), want: "spec.replicas"},
		"TooManyReplicas": {reason: "R5: 21 servers.", change: set("replicas", int64(21)), want: "spec.replicas"},

		"NoSuffixes":      {reason: "R6: suffixes may come later.", change: func(_, spec object) { delete(spec, "suffixes") }},
		"ManySuffixes":    {reason: "R6: 256 suffixes.", change: suffixes(many[:256]...)},
		"TooManySuffixes": {reason: "R6: 257 suffixes.", change: suffixes(many...), want: "spec.suffixes"},
		"SuffixName":      {reason: "R6: letters, digits, - and _.", change: suffixes("user_Root-1")},
		"SuffixDigit":     {reason: "R6: a name begins with a letter.", change: suffixes("1a"), want: "spec.suffixes[0].name"},
		"SuffixSpace":     {reason: "R6: a name has no spaces.", change: suffixes("a b"), want: "spec.suffixes[0].name"},
		"SuffixDot":       {reason: "R6: a name has no dots.", change: suffixes("a.b"), want: "spec.suffixes[0].name"},
		"SuffixEmpty":     {reason: "R6: a name is not empty.", change: suffixes(""), want: "spec.suffixes[0].name"},
		"SuffixReserved":  {reason: "R6: the server's own names, in any case.", change: suffixes("Monitor"), want: "spec.suffixes[0].name"},
		"SuffixTwice":     {reason: "R6: a name is unique.", change: suffixes("a", "a"), want: "spec.suffixes[1]"},
		"SuffixOtherCase": {reason: "R6: without regard to case.", change: suffixes("userroot", "b", "userRoot"), want: "spec.suffixes"},
		"SuffixWithoutDN": {reason: "R6: a suffix has a DN.", change: set("suffixes", []any{object{"name": "a"}}), want: "spec.suffixes[0].dn"},

		"StorageNumber": {reason: "R7: a quantity may be a number.", change: set("storage", object{"size": int64(1 << 30)})},
		"StorageWord":   {reason: "R7: a word is no quantity.", change: set("storage", object{"size": "large"}), want: "spec.storage.size"},

		"StorageHugeExponent": {reason: "R7: a quantity that takes minutes to compare.", change: set("storage", object{"size": "1e999999999"}), want: "spec.storage.size"},
		"StorageTinyExponent": {reason: "R7: or to read.", change: set("storage", object{"size": "1e-999999999"}), want: "spec.storage.size"},
		"StorageExponent":     {reason: "R7: an exponent as people write it.", change: set("storage", object{"size": "10e9"})},

		"OtherPorts":     {reason: "R8: any two different ports.", change: set("ports", object{"ldap": int64(389), "ldaps": int64(636)})},
		"EqualPorts":     {reason: "R8: one Service cannot have one port twice.", change: set("ports", object{"ldap": int64(636), "ldaps": int64(636)}), want: "spec.ports"},
		"EqualToDefault": {reason: "R8: nor twice the default of the other one.", change: set("ports", object{"ldap": int64(3636)}), want: "spec.ports"},
		"PortZero":       {reason: "R8: ports begin at 1.", change: set("ports", object{"ldap": int64(0)}), want: "spec.ports.ldap"},
		"PortTooLarge":   {reason: "R8: ports end at 65535.", change: set("ports", object{"ldaps": int64(65536)}), want: "spec.ports.ldaps"},

		"SecretRef":        {reason: "R10: a name is enough.", change: set("dmPasswordSecretRef", object{"name": "mine"})},
		"SecretRefNoName":  {reason: "R10: without a name there is no Secret.", change: set("dmPasswordSecretRef", object{"key": "pw"}), want: "spec.dmPasswordSecretRef.name"},
		"SecretRefBadKey":  {reason: "R10: what is no key of a Secret.", change: set("dmPasswordSecretRef", object{"name": "mine", "key": "a/b"}), want: "spec.dmPasswordSecretRef.key"},
		"SecretRefBadName": {reason: "R10: what is no Secret's name.", change: set("dmPasswordSecretRef", object{"name": "Mine"}), want: "spec.dmPasswordSecretRef.name"},

		"StartupTooShort": {reason: "R16: no server starts in a second.", change: set("startup", object{"timeoutSeconds": int64(1)}), want: "spec.startup.timeoutSeconds"},

		"LoadBalancer":       {reason: "R12: its settings with its type.", change: set("service", object{"type": "LoadBalancer", "loadBalancerClass": "x", "loadBalancerSourceRanges": []any{"10.0.0.0/8"}, "externalTrafficPolicy": "Local"})},
		"RangesWithoutType":  {reason: "R12: not without it.", change: set("service", object{"loadBalancerSourceRanges": []any{"10.0.0.0/8"}}), want: "spec.service"},
		"PolicyWithoutType":  {reason: "R12: the API server would refuse the Service.", change: set("service", object{"externalTrafficPolicy": "Local"}), want: "spec.service"},
		"ExternalName":       {reason: "R12: an ExternalName has no servers.", change: set("service", object{"type": "ExternalName"}), want: "spec.service.type"},
		"UserOfTheServer":    {reason: "R16b: 389 is the server's own user.", change: set("podSecurityContext", object{"runAsUser": int64(389)})},
		"OtherUser":          {reason: "R16b: another could not read the database.", change: set("podSecurityContext", object{"runAsUser": int64(1000)}), want: "spec.podSecurityContext"},
		"OtherContainerUser": {reason: "R16b: nor in the container alone.", change: set("securityContext", object{"runAsGroup": int64(0)}), want: "spec.securityContext"},
		"UnknownField":       {reason: "A field that is not ours is not passed over.", change: set("imagePullPolicies", "Always"), want: "spec.imagePullPolicies"},
	}
	all := crds(t)
	validators := map[string]*validator{}
	for kind, crd := range all {
		validators[kind] = newValidator(t, crd)
	}
	for caseName, tc := range cases {
		t.Run(caseName, func(t *testing.T) {
			for _, kind := range []string{"namespaced", "claim"} {
				spec := object{"image": "quay.io/389ds/dirsrv:3.1.0", "version": "3.1.0"}
				o := object{"apiVersion": "dirsrv.operator.port389.org/v1alpha1", "kind": "DirectoryService", "metadata": object{"name": "ds"}, "spec": spec}
				tc.change(o, spec)
				var fields []string
				errs := validators[kind].admit(o)
				for _, e := range errs {
					// A rule of the root object names it in its message.
					fields = append(fields, strings.TrimPrefix(strings.Replace(e.Field, "<nil>", "metadata.name", 1), "."))
				}
				if tc.want == "" {
					if len(errs) > 0 {
						t.Errorf("\n%s\n%s: %v", tc.reason, kind, errs.ToAggregate())
					}
					continue
				}
				if !slices.Contains(fields, tc.want) {
					t.Errorf("\n%s\n%s: want an error of %s, got %v %v", tc.reason, kind, tc.want, fields, errs.ToAggregate())
				}
			}
		})
	}
}
