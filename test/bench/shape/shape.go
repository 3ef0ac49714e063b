// Package shape makes the requests that Crossplane sends for a service: the first,
// and that for a service which has come to rest. The latter is not written down
// but reached, by playing the control plane to the function's own answers; so it
// follows the function when that composes other objects.
package shape

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn"
)

const (
	// Name of the service in every shape.
	Name = "bench-0000"
	// Suffixes of a usual service.
	Suffixes = 2
	// ManySuffixes is nearly as many as a service can have.
	ManySuffixes = 200

	namespace = "directories"
	replicas  = 3
)

// A Shape is a request, and the function's answer to it.
type Shape struct {
	Name     string
	Request  *fnv1.RunFunctionRequest
	Response *fnv1.RunFunctionResponse
}

// AgentImage is the image that the function thinks it comes in.
const AgentImage = "registry.example.com/function:v1"

// Function is the function without its server. It logs nothing.
func Function() *fn.Function {
	return &fn.Function{Log: logging.NewNopLogger(), Random: rand.Reader, AgentImage: AgentImage}
}

// First is the first call for a service: nothing is observed, nothing is answered.
func First() (Shape, error) {
	return answered("first call", firstRequest(Suffixes))
}

// Steady is the call for a service that runs and is as it should be: everything is
// observed, the requirements are answered.
func Steady(suffixes int) (Shape, error) {
	// The answers, the password, the StatefulSet, its pods, the status: each takes a
	// call or two.
	const most = 12
	c := newCluster()
	last, err := answered(fmt.Sprintf("steady state, %d suffixes", suffixes), firstRequest(suffixes))
	if err != nil {
		return last, err
	}
	for range most {
		next, err := answered(last.Name, c.apply(last.Request, last.Response))
		if err != nil {
			return last, err
		}
		if proto.Equal(next.Response, last.Response) {
			return next, nil
		}
		last = next
	}
	return last, errors.New("the function does not come to rest")
}

// Lean is the same call without managed fields, which the function does not read
// and which make up most of a request: so the floor of the protocol is lowest.
func (s Shape) Lean() (Shape, error) {
	req := proto.CloneOf(s.Request)
	lean := func(r *fnv1.Resource) {
		delete(r.GetResource().GetFields()["metadata"].GetStructValue().GetFields(), "managedFields")
	}
	lean(req.GetObserved().GetComposite())
	for _, r := range req.GetObserved().GetResources() {
		lean(r)
	}
	for _, rs := range req.GetRequiredResources() {
		for _, r := range rs.GetItems() {
			lean(r)
		}
	}
	return answered(s.Name+", no managed fields", req)
}

// answered asks the function. A shape in which the service is not well would
// measure something else than what its name says.
func answered(name string, req *fnv1.RunFunctionRequest) (Shape, error) {
	rsp, err := Function().RunFunction(context.Background(), proto.CloneOf(req))
	if err != nil {
		return Shape{}, err
	}
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			return Shape{}, fmt.Errorf("%s: %s", name, r.GetMessage())
		}
	}
	for _, c := range rsp.GetConditions() {
		if c.GetType() == "SpecValid" && c.GetStatus() != fnv1.Status_STATUS_CONDITION_TRUE {
			return Shape{}, fmt.Errorf("%s: %s", name, c.GetMessage())
		}
	}
	return Shape{Name: name, Request: req, Response: rsp}, nil
}

func firstRequest(suffixes int) *fnv1.RunFunctionRequest {
	list := make([]any, suffixes)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprintf("suffix%03d", i), "dn": fmt.Sprintf("dc=suffix%03d,dc=example,dc=com", i), "createEntry": true}
	}
	xr := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       v1alpha1.Kind,
		"metadata":   map[string]any{"name": Name, "namespace": namespace},
		"spec": map[string]any{
			"image":         "quay.io/389ds/dirsrv:3.1.0",
			"version":       "3.1.0",
			"replicas":      replicas,
			"suffixes":      list,
			"storage":       map[string]any{"size": "10Gi"},
			"ports":         map[string]any{"ldap": 3389, "ldaps": 3636},
			"startup":       map[string]any{"timeoutSeconds": 60},
			"service":       map[string]any{"type": "ClusterIP"},
			"networkPolicy": map[string]any{"enabled": true},
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "500m", "memory": "1Gi"},
				"limits":   map[string]any{"memory": "2Gi"},
			},
			"deletionProtection": true,
		},
	}
	st := must(structpb.NewStruct(xr))
	return &fnv1.RunFunctionRequest{
		Meta:     &fnv1.RequestMeta{Tag: "bench", Capabilities: []fnv1.Capability{fnv1.Capability_CAPABILITY_CAPABILITIES, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES, fnv1.Capability_CAPABILITY_CONDITIONS}},
		Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: st}},
		Desired:  &fnv1.State{},
	}
}

// must is for conversions of what this package wrote itself.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
