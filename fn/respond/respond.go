// Package respond turns what was decided into a RunFunctionResponse. Beside
// package observed it is the only one that knows the protocol.
package respond

import (
	"errors"
	"fmt"
	"maps"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/status"
)

// Every composed and required object is watched, so the time to live of a response
// only bounds how long a change goes unnoticed that no watch event told of.
// Crossplane drops events of an XR with very many of them (its circuit breaker,
// which 20 servers that start at once can open); calls by the time to live still
// come.
const (
	// SteadyTTL is for a service that is as it should be, or waits for a person.
	SteadyTTL = 10 * time.Minute
	// UnsteadyTTL is for one whose servers are on their way.
	UnsteadyTTL = 15 * time.Second
)

// To begins a response: what earlier steps of the pipeline desire is copied, the
// request stays as it is.
func To(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	rsp := response.To(req, SteadyTTL)
	rsp.Desired = &fnv1.State{
		Composite: req.GetDesired().GetComposite(),
		Resources: make(map[string]*fnv1.Resource, len(req.GetObserved().GetResources())+len(req.GetDesired().GetResources())),
	}
	maps.Copy(rsp.Desired.Resources, req.GetDesired().GetResources())
	return rsp
}

// Requirements asks Crossplane for what the function reads beside the composed
// objects. They must be the same in every call: Crossplane calls again until they
// are.
//
// A StatefulSet and a ConfigMap that exist but are not among the observed objects
// are asked for by name: an XR that was recreated or restored has lost its
// references, and must not take them for absent.
func Requirements(rsp *fnv1.RunFunctionResponse, id naming.Identity, spec *v1alpha1.DirectoryServiceSpec, composed map[string]struct{}) {
	if id.Namespace == "" {
		return
	}
	byLabels := func(kind string, labels map[string]string) *fnv1.ResourceSelector {
		return &fnv1.ResourceSelector{
			ApiVersion: "v1",
			Kind:       kind,
			Namespace:  ptr.To(id.Namespace),
			Match:      &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}},
		}
	}
	byName := func(apiVersion, kind, name string) *fnv1.ResourceSelector {
		return &fnv1.ResourceSelector{
			ApiVersion: apiVersion,
			Kind:       kind,
			Namespace:  ptr.To(id.Namespace),
			Match:      &fnv1.ResourceSelector_MatchName{MatchName: name},
		}
	}
	required := map[string]*fnv1.ResourceSelector{
		naming.RequirePods:   byLabels("Pod", id.SelectorLabels()),
		naming.RequireClaims: byLabels("PersistentVolumeClaim", id.SelectorLabels()),
		naming.KeyDMPassword: byName("v1", "Secret", id.DMPassword(spec).Name),
		naming.KeyTLS:        byName("v1", "Secret", id.TLS(spec)),
	}
	if spec.TLS.Mode == v1alpha1.TLSModeSelfSigned {
		required[naming.KeyTLSCA] = byName("v1", "Secret", id.TLSCA())
	}
	if _, ok := composed[naming.KeyStatefulSet]; !ok {
		required[naming.KeyStatefulSet] = byName("apps/v1", "StatefulSet", id.StatefulSet())
	}
	if _, ok := composed[naming.KeyConfig]; !ok {
		required[naming.KeyConfig] = byName("v1", "ConfigMap", id.Config())
	}
	for key := range composed {
		if naming.IsResize(key) {
			// Why it does not grow the volumes, its pod tells.
			required[naming.RequireResizePods] = byLabels("Pod", id.ResizeSelector())
		}
	}
	rsp.Requirements = &fnv1.Requirements{Resources: required}
}

// Desired adds the objects to compose. What earlier steps of the pipeline desire
// stays, unless it has a key of ours.
func Desired(rsp *fnv1.RunFunctionResponse, observed map[string]*fnv1.Resource, desired compose.Desired) error {
	for key, o := range desired {
		r := &fnv1.Resource{Ready: ready(!o.NotReady)}
		if o.Object == nil {
			if _, ok := rsp.GetDesired().GetResources()[key]; ok {
				continue
			}
			r.Resource = held(observed[key].GetResource())
		} else {
			st, err := toStruct(o.Object)
			if err != nil {
				return fmt.Errorf("cannot compose %q: %w", key, err)
			}
			if was, ok := observed[key]; ok && len(o.Fields) > 0 {
				st = changed(held(was.GetResource()), st, o.Fields)
			}
			r.Resource = st
		}
		rsp.Desired.Resources[key] = r
	}
	return nil
}

// Status returns the report: status whole, conditions and events for the XR and,
// where there is one, the claim.
func Status(rsp *fnv1.RunFunctionResponse, xr *structpb.Struct, r status.Report) error {
	st, err := structOf(&r.Status)
	if err != nil {
		return fmt.Errorf("cannot write the status: %w", err)
	}
	// Crossplane keeps the conditions itself.
	delete(st.GetFields(), "conditions")
	// What earlier steps of the pipeline put into the XR stays.
	earlier := rsp.GetDesired().GetComposite().GetResource().GetFields()
	for k, v := range earlier["status"].GetStructValue().GetFields() {
		if _, ours := st.Fields[k]; !ours {
			st.Fields[k] = v
		}
	}
	fields := map[string]*structpb.Value{}
	maps.Copy(fields, earlier)
	for _, k := range []string{"apiVersion", "kind"} {
		if v, ok := xr.GetFields()[k]; ok {
			fields[k] = v
		}
	}
	fields["status"] = structpb.NewStructValue(st)
	rsp.Desired.Composite = &fnv1.Resource{
		Resource:          &structpb.Struct{Fields: fields},
		ConnectionDetails: rsp.GetDesired().GetComposite().GetConnectionDetails(),
		Ready:             ready(r.Available),
	}
	if !r.Steady {
		rsp.Meta.Ttl = durationpb.New(UnsteadyTTL)
	}
	for _, c := range r.Conditions {
		rsp.Conditions = append(rsp.Conditions, &fnv1.Condition{
			Type:    c.Type,
			Status:  conditionStatus(c.Status),
			Reason:  c.Reason,
			Message: ptr.To(c.Message),
			Target:  fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum(),
		})
	}
	for _, e := range r.Events {
		if e.Warning {
			response.Warning(rsp, errors.New(e.Message)).WithReason(e.Reason).TargetCompositeAndClaim()
			continue
		}
		response.Normal(rsp, e.Message).WithReason(e.Reason).TargetCompositeAndClaim()
	}
	return nil
}

func conditionStatus(s metav1.ConditionStatus) fnv1.Status {
	switch s {
	case metav1.ConditionTrue:
		return fnv1.Status_STATUS_CONDITION_TRUE
	case metav1.ConditionFalse:
		return fnv1.Status_STATUS_CONDITION_FALSE
	case metav1.ConditionUnknown:
	}
	return fnv1.Status_STATUS_CONDITION_UNKNOWN
}

func ready(ok bool) fnv1.Ready {
	if ok {
		return fnv1.Ready_READY_TRUE
	}
	return fnv1.Ready_READY_FALSE
}
