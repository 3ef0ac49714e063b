package render

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// A life is one service with the part of Crossplane and Kubernetes around it that
// the function sees. What it comes to is what the cases begin with: ledgers, packed
// templates, revisions and conditions are as the function itself would find them.
//
// Nothing in it depends on chance or on the time of day.
type life struct {
	t   testing.TB
	now time.Time

	xr       Object
	input    Object
	composed map[string]Object
	pods     map[int32]*corev1.Pod
	claims   map[int32]*corev1.PersistentVolumeClaim
	// others are objects that the XR does not reference.
	others []Object
	// required by the function when it was called last.
	required *fnv1.Requirements

	// fate of the pods. They start where it is nil.
	fate  func(ordinal int32, image string) fate
	fates map[types.UID]fate
	// volumes by ordinal, and the agents by pod: what they remember.
	volumes map[int32]*volume
	agents  map[types.UID]*agent
	// suffixFails is why a server cannot make a suffix, by its name.
	suffixFails map[string]string
	// claimsRefused is why the API server does not let volumes grow; "" where it does.
	claimsRefused string
	// calls of the function so far.
	calls int
	// older is what an older function made otherwise in the pod template.
	older func(*corev1.PodTemplateSpec)

	templates map[string]corev1.PodTemplateSpec // By revision.
	made      map[string]int                    // How often an object of that kind and name was made.
	changed   map[string]int                    // How often it changed.
}

const (
	serviceName      = "example-ds"
	serviceNamespace = "team-a"
	serviceUID       = "11111111-0000-4000-8000-000000000000"

	generatedPassword = "a2VwdC1hcy1pdC1pcw==" // kept-as-it-is

	// tick is how long the cluster acts between two calls.
	tick = 10 * time.Second
)

// newLife of a service that was applied a moment ago.
func newLife(t testing.TB, now time.Time, claim bool) *life {
	l := &life{
		t: t, now: now,
		composed:  map[string]Object{},
		pods:      map[int32]*corev1.Pod{},
		claims:    map[int32]*corev1.PersistentVolumeClaim{},
		fates:     map[types.UID]fate{},
		volumes:   map[int32]*volume{},
		agents:    map[types.UID]*agent{},
		templates: map[string]corev1.PodTemplateSpec{},
		made:      map[string]int{},
		changed:   map[string]int{},
	}
	l.xr = l.parse(`
apiVersion: dirsrv.operator.port389.org/v1alpha1
kind: DirectoryService
metadata:
  name: ` + serviceName + `
  namespace: ` + serviceNamespace + `
  uid: ` + serviceUID + `
  generation: 1
  annotations: {}
spec:
  image: quay.io/389ds/dirsrv:3.1.0
  version: 3.1.0
  replicas: 1
  suffixes:
  - name: userroot
    dn: dc=example,dc=com
`)
	meta := l.xr["metadata"].(Object)
	meta["creationTimestamp"] = stamp(now)
	if claim {
		l.xr["kind"] = "XDirectoryService"
		meta["name"] = serviceName + "-x7k2p"
		delete(meta, "namespace")
		meta["labels"] = Object{"crossplane.io/claim-name": serviceName, "crossplane.io/claim-namespace": serviceNamespace}
		l.xr["spec"].(Object)["claimRef"] = Object{
			"apiVersion": l.xr["apiVersion"], "kind": "DirectoryService", "name": serviceName, "namespace": serviceNamespace,
		}
	}
	return l
}

// spec merges YAML into the spec, as `kubectl patch --type merge` does.
func (l *life) spec(patch string) {
	before := clone(l.xr["spec"])
	merge(l.xr["spec"].(Object), l.parse(patch))
	if !reflect.DeepEqual(before, l.xr["spec"]) {
		meta := l.xr["metadata"].(Object)
		meta["generation"] = meta["generation"].(float64) + 1
	}
}

// version has the spec name a version, and the image with that tag.
func (l *life) version(v string) { l.spec("{version: " + v + ", image: " + image(v) + "}") }

func image(version string) string { return "quay.io/389ds/dirsrv:" + version }

// annotate the service.
func (l *life) annotate(name, value string) {
	l.xr["metadata"].(Object)["annotations"].(Object)[naming.Annotation(name)] = value
}

// step: the function is called, Crossplane applies what it answers, and Kubernetes
// acts.
func (l *life) step() {
	l.call()
	l.pass(tick)
}

// pass lets Kubernetes act without a call.
func (l *life) pass(d time.Duration) {
	l.now = l.now.Add(d)
	l.kubernetes()
}

// until something is so. What comes of it is for the function to say next.
func (l *life) until(what string, so func() bool) {
	const enough = 100
	for range enough {
		if so() {
			return
		}
		l.step()
	}
	l.t.Fatalf("%s: it never came to that", what)
}

// settle until neither a call nor Kubernetes changes anything.
func (l *life) settle() {
	before := ""
	l.until("settled", func() bool {
		b, err := json.Marshal([]any{l.xr, l.composed, l.pods, l.claims})
		l.must(err)
		now := string(b)
		same := now == before
		before = now
		return same
	})
}

// moment is the case that begins now.
func (l *life) moment() Case {
	c := Case{
		Name: l.t.Name(), Now: l.now, XR: l.xr, Input: l.input, AgentImage: AgentImage,
		required: l.required, seed: fmt.Sprint("call ", l.calls),
	}
	for _, key := range slices.Sorted(maps.Keys(l.composed)) {
		c.Observed = append(c.Observed, l.composed[key])
	}
	for _, i := range slices.Sorted(maps.Keys(l.pods)) {
		c.Required = append(c.Required, l.object(l.pods[i]))
	}
	for _, i := range slices.Sorted(maps.Keys(l.claims)) {
		c.Required = append(c.Required, l.object(l.claims[i]))
	}
	// They are asked for by name, whether they are composed or not.
	for _, key := range []string{naming.KeyDMPassword, naming.KeyTLS, naming.KeyTLSCA} {
		if s, ok := l.composed[key]; ok {
			c.Required = append(c.Required, s)
		}
	}
	c.Required = append(c.Required, l.others...)
	return c
}

// call the function once and do what it answers.
func (l *life) call() {
	_, rsp, err := l.moment().Run()
	l.must(err)
	l.calls++
	l.required = rsp.GetRequirements()
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			l.t.Fatal(r.GetMessage())
		}
	}
	desired := map[string]Object{}
	for key, r := range rsp.GetDesired().GetResources() {
		desired[key] = fromStruct(r.GetResource())
	}
	xr := fromStruct(rsp.GetDesired().GetComposite().GetResource())
	if l.older != nil {
		l.age(desired[naming.KeyStatefulSet], xr)
	}

	for key := range l.composed {
		if desired[key] == nil {
			delete(l.composed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(desired)) {
		l.composed[key] = l.apply(key, desired[key])
	}
	status, _ := xr["status"].(Object)
	status["conditions"] = l.conditions(rsp)
	l.xr["status"] = status
}

// apply a composed object as Crossplane and the API server do.
func (l *life) apply(key string, o Object) Object {
	old := l.composed[key]
	meta := o["metadata"].(Object)
	for field, add := range map[string]Object{
		"labels":      {"crossplane.io/composite": text(l.xr, "metadata", "name")},
		"annotations": {keyAnnotation: key},
	} {
		m, _ := meta[field].(Object)
		if m == nil {
			m = Object{}
		}
		maps.Copy(m, add)
		meta[field] = m
	}
	meta["ownerReferences"] = []any{Object{
		"apiVersion": l.xr["apiVersion"], "kind": l.xr["kind"], "name": get(l.xr, "metadata", "name"), "uid": get(l.xr, "metadata", "uid"),
		"controller": true, "blockOwnerDeletion": true,
	}}
	defaults(o)
	if key == naming.KeyState && old != nil {
		if _, ok := o["data"]; ok {
			l.t.Errorf("%s: Crossplane takes from the agents what they report", stamp(l.now))
		}
		// Another manager's fields stay.
		if data, ok := old["data"]; ok {
			o["data"] = data
		}
	}
	l.stored(o, old)
	return o
}

// stored gives an object what the API server keeps of it.
func (l *life) stored(o, old Object) {
	meta := o["metadata"].(Object)
	name := text(o, "kind") + "/" + text(meta, "name")
	if old == nil {
		l.made[name]++
		meta["uid"] = uid(fmt.Sprintf("%s/%d", name, l.made[name]))
		meta["creationTimestamp"] = stamp(l.now)
		if counted[text(o, "kind")] {
			meta["generation"] = 1.0
		}
		meta["resourceVersion"] = l.resourceVersion(name)
		if text(meta, "name") == serviceName+"-"+naming.KeyDMPassword {
			o["data"] = Object{"dm-password": generatedPassword}
		}
		return
	}
	if v, known := meta["resourceVersion"], get(old, "metadata", "resourceVersion"); v != nil && v != known {
		l.t.Fatalf("conflict: %s is at resourceVersion %v, not %v", name, known, v)
	}
	for _, f := range []string{"uid", "creationTimestamp", "generation", "resourceVersion"} {
		if v := get(old, "metadata", f); v != nil {
			meta[f] = v
		}
	}
	if st, ok := old["status"]; ok {
		o["status"] = st
	}
	if g, ok := meta["generation"].(float64); ok && !reflect.DeepEqual(o["spec"], old["spec"]) {
		meta["generation"] = g + 1
	}
	if !reflect.DeepEqual(o, old) {
		meta["resourceVersion"] = l.resourceVersion(name)
	}
}

// counted kinds have a generation.
var counted = map[string]bool{"StatefulSet": true, "PodDisruptionBudget": true, "NetworkPolicy": true, "Job": true}

func (l *life) resourceVersion(name string) string {
	l.changed[name]++
	return fmt.Sprint(100 + l.changed[name])
}

// conditions of the XR, as Crossplane keeps them.
func (l *life) conditions(rsp *fnv1.RunFunctionResponse) []any {
	reason := "Creating"
	ready := rsp.GetDesired().GetComposite().GetReady() == fnv1.Ready_READY_TRUE
	if ready {
		reason = "Available"
	}
	now := []Object{
		{"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
		{"type": "Ready", "status": truth(ready), "reason": reason},
	}
	for _, c := range rsp.GetConditions() {
		o := Object{"type": c.GetType(), "status": conditionStatus[c.GetStatus()], "reason": c.GetReason()}
		if m := c.GetMessage(); m != "" {
			o["message"] = m
		}
		now = append(now, o)
	}
	before, _ := get(l.xr, "status", "conditions").([]any)
	out := make([]any, len(now))
	for i, c := range now {
		c["lastTransitionTime"] = stamp(l.now)
		for _, b := range before {
			same := true
			for _, f := range []string{"type", "status", "reason", "message"} {
				same = same && text(b, f) == text(c, f)
			}
			if same {
				c["lastTransitionTime"] = get(b, "lastTransitionTime")
			}
		}
		out[i] = c
	}
	return out
}

// age an answer: it becomes that of an older function, whose pod template was
// another one.
func (l *life) age(sts, xr Object) {
	if sts == nil {
		return
	}
	annotations := get(sts, "metadata", "annotations").(Object)
	name, doc := l.unpack(text(annotations, naming.AnnotationTemplate))
	template := corev1.PodTemplateSpec{}
	l.must(json.Unmarshal(doc, &template))
	l.older(&template)
	aged, err := json.Marshal(&template)
	l.must(err)
	inputs, _, _ := strings.Cut(name, "-")
	_, rendering, _ := strings.Cut(upgrade.TemplateID(nil, aged), "-")
	agedName := inputs + "-" + rendering
	for _, o := range []Object{sts, xr} {
		b, err := json.Marshal(o)
		l.must(err)
		clear(o)
		l.must(json.Unmarshal(bytes.ReplaceAll(b, []byte(name), []byte(agedName)), &o))
	}
	get(sts, "metadata", "annotations").(Object)[naming.AnnotationTemplate] = l.pack(agedName, aged)
	sts["spec"].(Object)["template"] = l.object(&template)
}

func (l *life) pack(name string, doc []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(doc)
	l.must(err)
	l.must(z.Close())
	return name + "." + base64.StdEncoding.EncodeToString(b.Bytes())
}

func (l *life) unpack(annotation string) (string, []byte) {
	name, packed, _ := strings.Cut(annotation, ".")
	raw, err := base64.StdEncoding.DecodeString(packed)
	l.must(err)
	z, err := gzip.NewReader(bytes.NewReader(raw))
	l.must(err)
	doc, err := io.ReadAll(z)
	l.must(err)
	return name, doc
}

// recreate the XR, by another UID. What the old one had composed stays, unreferenced,
// as far as it is named; the rest was collected, with the pods.
func (l *life) recreate(keys ...string) {
	for _, key := range keys {
		l.others = append(l.others, l.composed[key])
	}
	if !slices.Contains(keys, naming.KeyStatefulSet) {
		clear(l.pods)
	}
	clear(l.composed)
	l.required = nil
	delete(l.xr, "status")
	meta := l.xr["metadata"].(Object)
	meta["uid"], meta["generation"], meta["creationTimestamp"] = uid("recreated"), 1.0, stamp(l.now)
}

// has says whether a composed object exists whose key ends so.
func (l *life) has(suffix string) bool {
	for key := range l.composed {
		if strings.HasSuffix(key, suffix) {
			return true
		}
	}
	return false
}

// phase that the function reported.
func (l *life) phase() string { return text(l.xr, "status", "phase") }

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) parse(doc string) Object {
	o := Object{}
	l.must(yaml.Unmarshal([]byte(doc), &o))
	return o
}

// object of a typed one.
func (l *life) object(v any) Object {
	b, err := json.Marshal(v)
	l.must(err)
	o := Object{}
	l.must(json.Unmarshal(b, &o))
	return o
}

// typed reads an object into a type of Kubernetes.
func typed[T any](l *life, o Object) *T {
	b, err := json.Marshal(o)
	l.must(err)
	out := new(T)
	l.must(json.Unmarshal(b, out))
	return out
}

// merge a JSON merge patch (RFC 7386).
func merge(into, patch Object) {
	for k, v := range patch {
		m, isMap := v.(Object)
		old, both := into[k].(Object)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && both:
			merge(old, m)
		default:
			into[k] = v
		}
	}
}

// clone a document.
func clone(v any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// uid that is always the same for the same thing.
func uid(of string) string {
	sum := sha256.Sum256([]byte(of))
	return fmt.Sprintf("%x-%x-4%03x-8%03x-%x", sum[:4], sum[4:6], sum[6], sum[7], sum[8:14])
}
