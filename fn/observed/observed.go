// Package observed turns a RunFunctionRequest into plain Kubernetes types. It
// is the only package that reads the protocol; what it returns knows neither
// protobuf nor which flavour (XR or claim) the service has.
package observed

import (
	"errors"
	"fmt"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/input/v1beta1"
	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// Labels that Crossplane sets on the XR of a claim
// (crossplane-runtime pkg/resource/unstructured/claim).
const (
	labelClaimName      = "crossplane.io/claim-name"
	labelClaimNamespace = "crossplane.io/claim-namespace"
)

// A State is everything one request tells.
type State struct {
	// Identity of the service: what the user applied.
	Identity naming.Identity

	// Generation that status.observedGeneration reports; 0 where it would
	// mislead: a claim's generation is not that of its XR.
	Generation int64

	// Service as the user wants it, defaults filled in, and its last status.
	Service v1alpha1.DirectoryService

	// Input of the function; empty where the Composition gives none.
	Input v1beta1.Input

	// SpecReadable says that the spec could be decoded at all.
	SpecReadable bool

	// Problems are parts of the request that could not be read. Where there are
	// any, nothing that exists may change.
	Problems []error

	// Composed are the names, in the composition, of the objects that exist.
	Composed map[string]struct{}

	// StatefulSet, ClientService and Config exist; nil where there is none. A
	// StatefulSet and a Config of ours that the XR does not reference, because it
	// was recreated or restored, count as well.
	StatefulSet   *appsv1.StatefulSet
	ClientService *corev1.Service
	Config        *corev1.ConfigMap

	// Reports of the agents; nil where there is no such ConfigMap.
	Reports *corev1.ConfigMap

	// ResizeJobs grow volumes, by their names in the composition.
	ResizeJobs map[string]*batchv1.Job

	// LookedUp is false until it is known whether a StatefulSet and a Config that
	// the XR does not reference exist. Before, none may be created.
	LookedUp bool

	// GeneratedDMPassword is the composed Secret; nil where there is none.
	GeneratedDMPassword *corev1.Secret

	// DMPassword is the answer for the Secret that is named, or would be
	// generated.
	DMPassword Answer[*corev1.Secret]

	// GeneratedTLS and GeneratedTLSCA are the composed Secrets with the servers'
	// certificate and its CA; nil where there are none.
	GeneratedTLS, GeneratedTLSCA *corev1.Secret

	// TLS is the answer for the Secret with the servers' certificate, TLSCA that for the
	// one with our own CA, which is asked for only where the spec wants one.
	TLS, TLSCA Answer[*corev1.Secret]

	// Pods and Claims are the answers for the servers' pods and volume claims.
	Pods   Answer[[]corev1.Pod]
	Claims Answer[[]corev1.PersistentVolumeClaim]

	// ResizePods are those of ResizeJobs; not asked for where there is none.
	ResizePods Answer[[]corev1.Pod]
}

// An Answer is what Crossplane sent for a required resource.
type Answer[T any] struct {
	// Arrived is false until Crossplane has looked the requirement up. Nothing
	// may be concluded from the absence of an object before.
	Arrived bool
	// Value is the zero value where nothing was found.
	Value T
}

// ErrNoComposite is returned for a request without a usable XR.
var ErrNoComposite = errors.New("the request has no observed composite resource with a name")

// From reads a request. It returns an error only where not even the service's
// identity can be read; everything else that is unreadable is in Problems.
func From(req *fnv1.RunFunctionRequest) (*State, error) {
	xr := req.GetObserved().GetComposite().GetResource()
	s := &State{Composed: make(map[string]struct{}, len(req.GetObserved().GetResources()))}
	for name := range req.GetObserved().GetResources() {
		s.Composed[name] = struct{}{}
	}

	xrMeta := &v1alpha1.DirectoryService{}
	if err := decode(xr, xrMeta, "metadata"); err != nil {
		return s, fmt.Errorf("cannot read the metadata of the XR: %w", err)
	}
	if xrMeta.GetName() == "" {
		return s, ErrNoComposite
	}
	s.Identity, s.Generation = identify(xrMeta)
	s.Service.ObjectMeta = xrMeta.ObjectMeta
	if s.Identity.Namespace == "" {
		s.Problems = append(s.Problems, errors.New("metadata.namespace: the XR has no namespace and no claim: apply a DirectoryService (the claim) rather than an XDirectoryService"))
	}

	s.readService(xr)
	s.readInput(req.GetInput())
	s.readComposed(req.GetObserved().GetResources())
	s.readRequired(req.GetRequiredResources())
	return s, nil
}

// identify tells what the user applied. An XR with a namespace is it itself; an
// XR without one belongs to the claim that its labels name.
func identify(xr *v1alpha1.DirectoryService) (naming.Identity, int64) {
	if ns := xr.GetNamespace(); ns != "" {
		return naming.Identity{Name: xr.GetName(), Namespace: ns}, xr.GetGeneration()
	}
	return naming.Identity{
		Name:      xr.GetLabels()[labelClaimName],
		Namespace: xr.GetLabels()[labelClaimNamespace],
	}, 0
}

func (s *State) readService(xr *structpb.Struct) {
	if err := decodeField(xr, "spec", &s.Service.Spec); err != nil {
		s.Problems = append(s.Problems, fmt.Errorf("spec: cannot be read: %w", err))
		s.Service.Spec = v1alpha1.DirectoryServiceSpec{}
	} else {
		s.SpecReadable = true
	}
	s.Service.Spec.Default()
	if err := decodeField(xr, "status", &s.Service.Status); err != nil {
		s.Problems = append(s.Problems, fmt.Errorf("status: cannot be read: %w", err))
		s.Service.Status = v1alpha1.DirectoryServiceStatus{}
	}
}

func (s *State) readInput(in *structpb.Struct) {
	if in == nil {
		return
	}
	err := decode(in, &s.Input, "agentImage", "imageCatalog", "defaults")
	if err == nil {
		err = noUnknownFields(in, &v1beta1.Input{})
	}
	if err != nil {
		s.Problems = append(s.Problems, fmt.Errorf("the function's input in the Composition cannot be read: %w", err))
		s.Input = v1beta1.Input{}
	}
}

func (s *State) readComposed(resources map[string]*fnv1.Resource) {
	s.StatefulSet = composed[appsv1.StatefulSet](s, resources, naming.KeyStatefulSet, "apps/v1", "StatefulSet", "spec", "status")
	s.ClientService = composed[corev1.Service](s, resources, naming.KeyService, "v1", "Service", "spec", "status")
	s.Config = composed[corev1.ConfigMap](s, resources, naming.KeyConfig, "v1", "ConfigMap", "data")
	s.Reports = composed[corev1.ConfigMap](s, resources, naming.KeyState, "v1", "ConfigMap", "data")
	s.readResizeJobs(resources)
	s.GeneratedDMPassword = composed[corev1.Secret](s, resources, naming.KeyDMPassword, "v1", "Secret", "data", "type", "immutable")
	s.GeneratedTLS = composed[corev1.Secret](s, resources, naming.KeyTLS, "v1", "Secret", "data", "type", "immutable")
	s.GeneratedTLSCA = composed[corev1.Secret](s, resources, naming.KeyTLSCA, "v1", "Secret", "data", "type", "immutable")
}

// readResizeJobs leaves out what cannot be read: it is only told of.
func (s *State) readResizeJobs(resources map[string]*fnv1.Resource) {
	for key, r := range resources {
		if !naming.IsResize(key) || stringField(r.GetResource(), "kind") != "Job" {
			continue
		}
		job := &batchv1.Job{}
		if decode(r.GetResource(), job, "metadata", "spec", "status") != nil {
			continue
		}
		if s.ResizeJobs == nil {
			s.ResizeJobs = map[string]*batchv1.Job{}
		}
		s.ResizeJobs[key] = job
	}
}

// composed reads one composed object. One that exists and is not what it should
// be is a problem, never an absence: absent objects are made anew.
func composed[T any](s *State, resources map[string]*fnv1.Resource, key, apiVersion, kind string, fields ...string) *T {
	r, ok := resources[key]
	if !ok {
		return nil
	}
	st := r.GetResource()
	gotVersion, gotKind := stringField(st, "apiVersion"), stringField(st, "kind")
	if gotVersion != apiVersion || gotKind != kind {
		s.Problems = append(s.Problems, fmt.Errorf("the composed resource %q is a %s %s, not a %s %s: delete that object, or the annotation crossplane.io/composition-resource-name on it", key, gotVersion, gotKind, apiVersion, kind))
		return nil
	}
	o := new(T)
	if err := decode(st, o, append(fields, "metadata")...); err != nil {
		s.Problems = append(s.Problems, fmt.Errorf("the composed resource %q cannot be read: %w", key, discreet[T](err)))
		return nil
	}
	return o
}

var errSecret = errors.New("it is no Secret as the API server has it")

// discreet is an error of decoding that shows nothing of a Secret's values.
func discreet[T any](err error) error {
	if _, secret := any(new(T)).(*corev1.Secret); secret {
		return errSecret
	}
	return err
}

func (s *State) readRequired(required map[string]*fnv1.Resources) {
	secret := s.Identity.DMPassword(&s.Service.Spec).Name
	// The answer to an earlier call may still be for the Secret that the spec
	// named then: only the name tells.
	s.DMPassword = answerNamed[corev1.Secret](s, required, naming.KeyDMPassword, secret, "data", "type", "immutable")
	s.TLS = answerNamed[corev1.Secret](s, required, naming.KeyTLS, s.Identity.TLS(&s.Service.Spec), "data", "type", "immutable")
	s.TLSCA = answerNamed[corev1.Secret](s, required, naming.KeyTLSCA, s.Identity.TLSCA(), "data", "type", "immutable")
	s.LookedUp = true
	unreferenced(s, required, naming.KeyStatefulSet, s.Identity.StatefulSet(), &s.StatefulSet, "spec", "status")
	unreferenced(s, required, naming.KeyConfig, s.Identity.Config(), &s.Config, "data")
	s.Pods = answer[corev1.Pod](s, required, naming.RequirePods, "status")
	s.Claims = answer[corev1.PersistentVolumeClaim](s, required, naming.RequireClaims, "spec", "status")
	s.ResizePods = answer[corev1.Pod](s, required, naming.RequireResizePods, "status")
}

// object is a pointer to a typed Kubernetes object.
type object[T any] interface {
	*T
	metav1.Object
}

// unreferenced finds an object of ours that exists although the XR does not
// reference it.
func unreferenced[T any, O object[T]](s *State, required map[string]*fnv1.Resources, key, name string, into *O, fields ...string) {
	if _, ok := s.Composed[key]; ok {
		return
	}
	a := answerNamed[T, O](s, required, key, name, fields...)
	s.LookedUp = s.LookedUp && a.Arrived
	if a.Value != nil && s.Identity.Owns(a.Value.GetLabels()) {
		*into = a.Value
	}
}

func answerNamed[T any, O object[T]](s *State, required map[string]*fnv1.Resources, key, name string, fields ...string) Answer[O] {
	list := answer[T](s, required, key, fields...)
	a := Answer[O]{Arrived: list.Arrived}
	for i := range list.Value {
		o := O(&list.Value[i])
		if o.GetName() != name {
			return Answer[O]{}
		}
		a.Value = o
	}
	return a
}

func answer[T any](s *State, required map[string]*fnv1.Resources, key string, fields ...string) Answer[[]T] {
	rs, ok := required[key]
	if !ok {
		return Answer[[]T]{}
	}
	a := Answer[[]T]{Arrived: true, Value: make([]T, len(rs.GetItems()))}
	for i, item := range rs.GetItems() {
		if err := decode(item.GetResource(), &a.Value[i], append(fields, "metadata")...); err != nil {
			s.Problems = append(s.Problems, fmt.Errorf("the required resource %q cannot be read: %w", key, discreet[T](err)))
			return Answer[[]T]{}
		}
	}
	return a
}
