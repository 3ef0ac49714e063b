package render

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/389ds/function-directoryservice/fn"
)

// maxRuns is how often Crossplane calls a function whose requirements change
// (crossplane internal/xfn, MaxRequirementsIterations, and the first call).
const maxRuns = 6

// Run calls the function as Crossplane does: with what the last call required, again
// until its requirements are stable. It returns the last request and response.
func (c Case) Run() (*fnv1.RunFunctionRequest, *fnv1.RunFunctionResponse, error) {
	f := &fn.Function{
		Log:        logging.NewNopLogger(),
		Random:     rand.NewChaCha8(sha256.Sum256([]byte("golden " + c.seed))),
		Now:        func() time.Time { return c.Now },
		AgentImage: c.AgentImage,
	}
	req, err := c.request()
	if err != nil {
		return nil, nil, err
	}
	last := c.required
	if req.RequiredResources, err = c.answers(last); err != nil {
		return nil, nil, err
	}
	for range maxRuns {
		rsp := f.Run(req)
		if proto.Equal(last, rsp.GetRequirements()) {
			return req, rsp, nil
		}
		last = rsp.GetRequirements()
		if req.RequiredResources, err = c.answers(last); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("the function's requirements do not become stable")
}

func (c Case) request() (*fnv1.RunFunctionRequest, error) {
	req := &fnv1.RunFunctionRequest{Observed: &fnv1.State{Composite: &fnv1.Resource{}, Resources: map[string]*fnv1.Resource{}}}
	var err error
	if req.Observed.Composite.Resource, err = toStruct(c.XR); err != nil {
		return nil, err
	}
	if c.Input != nil {
		if req.Input, err = toStruct(c.Input); err != nil {
			return nil, err
		}
	}
	for _, o := range c.Observed {
		st, err := toStruct(o)
		if err != nil {
			return nil, err
		}
		key := text(o, "metadata", "annotations", keyAnnotation)
		if key == "" {
			return nil, errors.New("an observed object has no annotation " + keyAnnotation)
		}
		req.Observed.Resources[key] = &fnv1.Resource{Resource: st}
	}
	return req, nil
}

// answers looks the requirements up among the case's required objects.
func (c Case) answers(r *fnv1.Requirements) (map[string]*fnv1.Resources, error) {
	out := map[string]*fnv1.Resources{}
	for name, sel := range r.GetResources() {
		found := &fnv1.Resources{}
		for _, o := range c.Required {
			if !matches(sel, o) {
				continue
			}
			st, err := toStruct(o)
			if err != nil {
				return nil, err
			}
			found.Items = append(found.Items, &fnv1.Resource{Resource: st})
		}
		out[name] = found
	}
	return out, nil
}

func matches(sel *fnv1.ResourceSelector, o Object) bool {
	if text(o, "apiVersion") != sel.GetApiVersion() || text(o, "kind") != sel.GetKind() || text(o, "metadata", "namespace") != sel.GetNamespace() {
		return false
	}
	if name := sel.GetMatchName(); name != "" {
		return text(o, "metadata", "name") == name
	}
	for k, v := range sel.GetMatchLabels().GetLabels() {
		if text(o, "metadata", "labels", k) != v {
			return false
		}
	}
	return true
}

// InProcess is the normal form of an in-process run.
func (c Case) InProcess() ([]Object, error) {
	req, rsp, err := c.Run()
	if err != nil {
		return nil, err
	}
	docs := []Object{}
	xr := fromStruct(rsp.GetDesired().GetComposite().GetResource())
	status, _ := xr["status"].(Object)
	if status == nil {
		return nil, fmt.Errorf("the function returned no status: %v", rsp.GetResults())
	}
	conditions := []any{Object{"type": "Ready", "status": truth(rsp.GetDesired().GetComposite().GetReady() == fnv1.Ready_READY_TRUE)}}
	for _, cond := range rsp.GetConditions() {
		o := Object{"type": cond.GetType(), "status": conditionStatus[cond.GetStatus()], "reason": cond.GetReason()}
		if m := cond.GetMessage(); m != "" {
			o["message"] = m
		}
		conditions = append(conditions, o)
	}
	status["conditions"] = conditions
	xr["metadata"] = Object{"name": req.GetObserved().GetComposite().GetResource().GetFields()["metadata"].GetStructValue().GetFields()["name"].GetStringValue()}
	docs = append(docs, xr)

	for _, key := range slices.Sorted(maps.Keys(rsp.GetDesired().GetResources())) {
		o := fromStruct(rsp.GetDesired().GetResources()[key].GetResource())
		meta, _ := o["metadata"].(Object)
		annotations, _ := meta["annotations"].(Object)
		if annotations == nil {
			annotations = Object{}
		}
		annotations[keyAnnotation] = key
		meta["annotations"] = annotations
		docs = append(docs, o)
	}
	for _, r := range rsp.GetResults() {
		docs = append(docs, Object{"kind": "Result", "severity": severity[r.GetSeverity()], "reason": r.GetReason(), "message": step + r.GetMessage()})
	}
	return c.Normal(docs), nil
}

var conditionStatus = map[fnv1.Status]string{
	fnv1.Status_STATUS_CONDITION_TRUE:    "True",
	fnv1.Status_STATUS_CONDITION_FALSE:   "False",
	fnv1.Status_STATUS_CONDITION_UNKNOWN: "Unknown",
}

var severity = map[fnv1.Severity]string{
	fnv1.Severity_SEVERITY_NORMAL:  "Normal",
	fnv1.Severity_SEVERITY_WARNING: "Warning",
	fnv1.Severity_SEVERITY_FATAL:   "Fatal",
}

func truth(ok bool) string {
	if ok {
		return "True"
	}
	return "False"
}

func toStruct(o Object) (*structpb.Struct, error) { return structpb.NewStruct(o) }

func fromStruct(st *structpb.Struct) Object { return st.AsMap() }
