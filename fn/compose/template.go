package compose

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// Templates are the pod templates that can be had: what this function makes of the
// spec, and those that the StatefulSet carries. A carried one is returned byte for
// byte, whatever a newer function would make of the same spec (R44), and never the
// live one: what somebody changed by hand has passed no gate.
type Templates struct {
	pod    PodInputs
	inputs []byte

	made    map[madeOf]template
	carried map[string]carried
	// present is the name of the template that the StatefulSet carries as its own.
	present string
}

// PodInputs are what a pod template is made of, besides the release.
type PodInputs struct {
	Identity naming.Identity
	// Spec with defaults. Own are the pod settings of the spec itself, without the
	// platform's defaults: only a change of those is one that the user asked for.
	Spec *v1alpha1.DirectoryServiceSpec
	Own  v1alpha1.PodSettings
	// Target is the release that the spec asks for.
	Target upgrade.Release
	// Password and TLS are the Secrets that the pods refer to.
	Password v1alpha1.SecretKeyRef
	TLS      string
	// AgentImage has the agent.
	AgentImage string
}

// madeOf a release: of what a pod template has of it.
type madeOf struct{ version, image string }

// A template that was made.
type template struct {
	name string
	spec corev1.PodTemplateSpec
	doc  []byte
}

// A carried template is in an annotation.
type carried struct {
	doc        []byte
	annotation string
}

// NewTemplates of a service; annotations are those of its StatefulSet.
func NewTemplates(pod PodInputs, annotations map[string]string) (*Templates, error) {
	// What is at its default is left out: a field that is new in the API must not make
	// other inputs of every spec there is (R44).
	asked := struct {
		Password v1alpha1.SecretKeyRef
		Startup  v1alpha1.Startup
		Settings v1alpha1.PodSettings
		Mode     v1alpha1.DMPasswordMode `json:",omitempty"`
		TLS      string                  `json:",omitempty"`
	}{Password: pod.Password, Startup: pod.Spec.Startup, Settings: pod.Own}
	if pod.Spec.DMPasswordMode != v1alpha1.DMPasswordModeEnv {
		asked.Mode = pod.Spec.DMPasswordMode
	}
	if pod.TLS != pod.Identity.OwnTLS() {
		asked.TLS = pod.TLS
	}
	// The ServiceAccount is an object of its own.
	asked.Settings.ServiceAccountAnnotations = nil
	inputs, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("cannot hash the spec: %w", err)
	}
	t := &Templates{
		pod:     pod,
		inputs:  inputs,
		made:    map[madeOf]template{},
		carried: map[string]carried{},
	}
	for _, a := range []string{naming.AnnotationGoodTemplate, naming.AnnotationTemplate} {
		name, doc, err := decodeTemplate(annotations[a])
		if err != nil {
			// Lost, or changed by hand: it is made again.
			continue
		}
		t.carried[name] = carried{doc: doc, annotation: annotations[a]}
		if a == naming.AnnotationTemplate {
			t.present = name
		}
	}
	return t, nil
}

// Name of the template that this function makes for a release; "" where it cannot.
func (t *Templates) Name(r upgrade.Release) string {
	m, err := t.make(r)
	if err != nil {
		return ""
	}
	return m.name
}

// Stored says whether a template can be had as it was.
func (t *Templates) Stored(name string) bool {
	_, ok := t.carried[name]
	return ok
}

// Present is the name of the template that the StatefulSet says it has; "" where it
// does not say.
func (t *Templates) Present() string { return t.present }

// PresentImage is the image in that template.
func (t *Templates) PresentImage() string {
	// Mostly it is what the spec asks for, which need not be read.
	if m, err := t.make(t.pod.Target); err == nil && m.name == t.present {
		return t.pod.Target.Image
	}
	spec, err := t.carriedSpec(t.present)
	if err != nil {
		return ""
	}
	for _, c := range spec.Spec.Containers {
		if c.Name == naming.Container {
			return c.Image
		}
	}
	return ""
}

func (t *Templates) make(r upgrade.Release) (template, error) {
	key := madeOf{r.Version, r.Image}
	if m, ok := t.made[key]; ok {
		return m, nil
	}
	m := template{spec: podTemplate(t.pod, r)}
	var err error
	if m.doc, err = json.Marshal(&m.spec); err != nil {
		return template{}, fmt.Errorf("cannot write the pod template: %w", err)
	}
	m.name = upgrade.TemplateID(append(slices.Clone(t.inputs), r.Image...), m.doc)
	t.made[key] = m
	return m, nil
}

// maxPacked bounds a template in an annotation: two of them and the ledger have to fit
// into the 256 KiB that all annotations of an object may have.
const maxPacked = 90 << 10

// TooLarge says that a template would not fit beside another one into the
// StatefulSet's annotations, and so could not be rolled back.
func (t *Templates) TooLarge() error {
	m, err := t.make(t.pod.Target)
	if err != nil || len(m.doc) <= maxPacked {
		return nil //nolint:nilerr // Who needs the template says so.
	}
	packed, err := encodeTemplate(m.name, m.doc)
	if err == nil && len(packed) > maxPacked {
		err = fmt.Errorf("spec: the pods' template takes %d KiB and may take %d, or it could not be kept for a rollback: shorten podAnnotations, podLabels, affinity or tolerations", len(packed)>>10, maxPacked>>10)
	}
	return err
}

// get a release's template.
func (t *Templates) get(r upgrade.Release) (corev1.PodTemplateSpec, error) {
	m, err := t.make(r)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	if m.name == r.Template || !t.Stored(r.Template) {
		return m.spec, nil
	}
	return t.carriedSpec(r.Template)
}

func (t *Templates) carriedSpec(name string) (corev1.PodTemplateSpec, error) {
	spec := corev1.PodTemplateSpec{}
	if err := json.Unmarshal(t.carried[name].doc, &spec); err != nil {
		return corev1.PodTemplateSpec{}, fmt.Errorf("cannot read the carried pod template: %w", err)
	}
	return spec, nil
}

// annotations carry the template that runs and, where that is another one, the last
// good one, so that both can be had again.
func (t *Templates) annotations(run upgrade.Release, good *upgrade.Release) (map[string]string, error) {
	out := map[string]string{}
	add := func(annotation string, r upgrade.Release) error {
		if c, ok := t.carried[r.Template]; ok {
			out[annotation] = c.annotation
			return nil
		}
		m, err := t.make(r)
		if err != nil {
			return err
		}
		out[annotation], err = encodeTemplate(m.name, m.doc)
		return err
	}
	if err := add(naming.AnnotationTemplate, run); err != nil {
		return nil, err
	}
	if good != nil && good.Template != run.Template {
		if err := add(naming.AnnotationGoodTemplate, *good); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Difference names the fields in which the template that this function makes for a
// release differs from the one that it carries.
func (t *Templates) Difference(r upgrade.Release) string {
	m, err := t.make(r)
	if err != nil {
		return ""
	}
	var a, b any
	if json.Unmarshal(t.carried[r.Template].doc, &a) != nil || json.Unmarshal(m.doc, &b) != nil {
		return ""
	}
	fields := differing(nil, "", a, b)
	const most = 10
	if len(fields) > most {
		fields = append(fields[:most], fmt.Sprintf("and %d more", len(fields)-most))
	}
	return strings.Join(fields, ", ")
}

// differing fields of two JSON documents, by path. Elements of a list that have a
// name go by it.
func differing(out []string, path string, a, b any) []string {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		if p, q := byName(a), byName(b); p != nil && q != nil {
			x, y = p, q
		} else {
			if !reflect.DeepEqual(a, b) {
				out = append(out, strings.TrimPrefix(path, "."))
			}
			return out
		}
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		out = differing(out, path+"."+k, x[k], y[k])
	}
	return out
}

func byName(v any) map[string]any {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	out := make(map[string]any, len(list))
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m["name"].(string)
		if !ok {
			return nil
		}
		out[name] = e
	}
	return out
}

// An annotation holds `<name>.<document, gzip, base64>`.
func encodeTemplate(name string, doc []byte) (string, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(doc); err != nil {
		return "", fmt.Errorf("cannot pack the pod template: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("cannot pack the pod template: %w", err)
	}
	return name + "." + base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

var errTemplate = errors.New("not a pod template")

// maxTemplate bounds what an annotation may unpack to.
const maxTemplate = 1 << 20

func decodeTemplate(annotation string) (name string, doc []byte, err error) {
	name, packed, ok := strings.Cut(annotation, ".")
	if !ok {
		return "", nil, errTemplate
	}
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errTemplate, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errTemplate, err)
	}
	if doc, err = io.ReadAll(io.LimitReader(z, maxTemplate)); err != nil {
		return "", nil, fmt.Errorf("%w: %w", errTemplate, err)
	}
	if !upgrade.NamesTemplate(name, doc) {
		return "", nil, errTemplate
	}
	return name, doc, nil
}
