// Package fn is the composition function: one DirectoryService in, the objects of
// a 389 Directory Server out.
package fn

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/respond"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
	"github.com/389ds/function-directoryservice/fn/validate"
)

// A Function composes DirectoryServices. It keeps nothing between calls.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	// Log of the function; never holds a secret.
	Log logging.Logger
	// Random is the source of generated passwords: crypto/rand, but in tests.
	Random io.Reader
}

// RunFunction answers one request. An error in our own code must not take the
// function from all other services, nor an object from this one: a panic becomes
// a fatal result, upon which Crossplane changes and deletes nothing.
func (f *Function) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (rsp *fnv1.RunFunctionResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.Log.Info("Panic", "panic", p, "stack", string(debug.Stack()))
			rsp, err = held(req, fmt.Errorf("internal error, nothing was changed: %v", p)), nil
		}
	}()
	return f.Run(req), nil
}

// Run is the pipeline: read, decide, report, compose, respond. There is no early return
// once objects are known: an observed object that is not returned is deleted.
func (f *Function) Run(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	// Read.
	state, err := observed.From(req)
	if err != nil {
		return held(req, err)
	}
	log := f.Log.WithValues("namespace", state.Identity.Namespace, "name", state.Identity.Name)
	spec := &state.Service.Spec
	applyDefaults(spec, state.Input.Defaults, state.StatefulSet != nil)
	rollout := rolloutOf(state)

	// Decide.
	decision := decide(state, rollout)
	recorded := recordedSuffixes(state, decision.Ledger.Good != nil)
	problems := problemsOf(state, recorded)
	password, credential := dmPassword(state)
	suffixes := configured(spec.Suffixes, recorded)
	if len(problems) > 0 {
		suffixes = recorded
	}

	// Report.
	report := status.Of(reportInputs(state, rollout, problems, decision, credential, suffixes))

	// Compose.
	desired := compose.Hold(state.Composed)
	switch {
	case len(problems) == 0:
		desired, err = compose.Service(composeInputs(state, rollout, decision, password, suffixes, report, f.Random))
		if err != nil {
			return held(req, err)
		}
	case state.SpecReadable && spec.Image != "" && !spec.DeletionProtection:
		// A broken service, above all, must be possible to delete.
		delete(desired, naming.KeyUsage)
	}

	// Respond.
	rsp := respond.To(req)
	respond.Requirements(rsp, state.Identity, spec, state.Composed)
	if err := respond.Desired(rsp, req.GetObserved().GetResources(), desired); err != nil {
		return held(req, err)
	}
	if err := respond.Status(rsp, req.GetObserved().GetComposite().GetResource(), report); err != nil {
		return held(req, err)
	}
	log.Debug("Composed", "phase", report.Status.Phase, "resources", len(desired), "problems", len(problems))
	return rsp
}

// decide which image runs. A spec that could not be read asks for nothing.
func decide(state *observed.State, rollout upgrade.Rollout) upgrade.Decision {
	if !state.SpecReadable {
		d := upgrade.Keep(ledgerOf(state), rollout)
		st := state.Service.Status
		d.Target = upgrade.Release{Version: st.TargetVersion, Image: st.TargetImage}
		return d
	}
	target, refusal := upgrade.ResolveTarget(state.Service.Spec.Image, state.Service.Spec.Version, catalogOf(state.Input))
	return upgrade.Decide(ledgerOf(state), target, refusal, rollout)
}

// problemsOf a request are what makes the spec, or the request, unfit to be acted upon.
func problemsOf(state *observed.State, recorded []config.Suffix) []string {
	out := make([]string, 0, len(state.Problems))
	for _, err := range state.Problems {
		out = append(out, err.Error())
	}
	if len(out) > 0 {
		return out
	}
	errs := validate.PodSettings(field.NewPath("input", "defaults"), &state.Input.Defaults.PodSettings)
	if len(errs) == 0 {
		errs = validate.Service(state.Identity.Name, &state.Service.Spec, recorded)
	}
	if s := state.ClientService; s != nil {
		errs = append(errs, validate.LoadBalancerClass(&state.Service.Spec.Service, &s.Spec)...)
	}
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// held is the answer to a request that cannot be acted upon at all: every observed
// object as it is, and a fatal result, upon which Crossplane applies and deletes
// nothing.
func held(req *fnv1.RunFunctionRequest, err error) *fnv1.RunFunctionResponse {
	rsp := respond.To(req)
	observed := req.GetObserved().GetResources()
	names := make(map[string]struct{}, len(observed))
	for name := range observed {
		names[name] = struct{}{}
	}
	_ = respond.Desired(rsp, observed, compose.Hold(names)) // Holding converts nothing, so it cannot fail.
	response.Fatal(rsp, err)
	return rsp
}
