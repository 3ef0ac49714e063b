// Package fn is the composition function: one DirectoryService in, the objects of
// a 389 Directory Server out.
package fn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

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
	// Now is the clock: time.Now where it is nil.
	Now func() time.Time
	// AgentImage is the image of this program, for the Jobs that it composes, unless
	// the input names another one; "" where nobody knows it.
	AgentImage string
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
	own := spec.PodSettings
	applyDefaults(spec, state.Input.Defaults, state.StatefulSet != nil)
	password, credential := dmPassword(state)
	certificate, material := tlsOf(state, f.now())
	servers := serversOf(state, f.now())
	agentImage := cmp.Or(state.Input.AgentImage, f.AgentImage)
	target, refusal := resolveTarget(state)
	templates, err := compose.NewTemplates(compose.PodInputs{
		Identity: state.Identity, Spec: spec, Own: own, Target: target,
		Password: password.Ref, TLS: certificate.Secret, AgentImage: agentImage,
	}, annotationsOf(state.StatefulSet))
	if err != nil {
		return held(req, err)
	}
	rollout := rolloutOf(state, templates)
	ledger, projected := ledgerOf(state)
	recorded := recordedSuffixes(state, ledger.Good != nil || rollout.Healthy())
	ledger.Founded = founded(state, ledger, recorded, servers)
	problems := problemsOf(state, recorded)
	if agentImage == "" {
		problems = append(problems, noAgentImage)
	}
	if err := templates.TooLarge(); err != nil {
		problems = append(problems, err.Error())
	}
	suffixes := configured(spec.Suffixes, recorded)
	if len(problems) > 0 {
		suffixes = recorded
	}
	suffixes = withFounded(suffixes, ledger.Founded, refounded(state, servers))

	// Decide.
	decision := upgrade.Next(upgradeInputs{
		now: f.now(), state: state, ledger: ledger, begun: projected.Operation, target: target, refusal: refusal,
		rollout: rollout, templates: templates, held: len(problems) > 0,
	}.inputs())

	// Report.
	about := reportInputs(state, rollout, problems, ledger, decision, templates, credential, suffixes)
	about.NoAgentImage = agentImage == ""
	about.TLS, about.Servers = material, servers
	report := status.Of(about)

	// Compose.
	in := composeInputs(state, rollout, decision, templates, password, suffixes, report)
	in.Random, in.AgentImage = f.Random, agentImage
	in.TLS = certificate
	applyTLS(&in, state, material, servers)
	var desired compose.Desired
	if len(problems) == 0 {
		desired, err = compose.Service(in)
	} else {
		desired, err = compose.HoldRollout(in)
		if state.SpecReadable && spec.Image != "" && !spec.DeletionProtection {
			// A broken service, above all, must be possible to delete.
			delete(desired, naming.KeyUsage)
		}
	}
	if err != nil {
		return held(req, err)
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

// now is the time in whole seconds, as the ledger and the status hold it.
func (f *Function) now() time.Time {
	now := time.Now
	if f.Now != nil {
		now = f.Now
	}
	return now().UTC().Truncate(time.Second)
}

// noAgentImage is a problem of the platform: without the agent no pod can be made (nor
// could the one that is wanted be told from the one that runs).
const noAgentImage = "input.agentImage: this build of the function does not know the image that it comes in, which its pods and Jobs run: name it in the Composition, in the input of the function"

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
