package fn

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
)

// dmPassword tells what exists of the Directory Manager's password, and whether
// one may be generated: only where Crossplane has looked the Secret up and found
// none. Observed objects alone do not tell, they come from the XR's references,
// which a recreated or restored XR has lost.
func dmPassword(state *observed.State) (compose.DMPassword, status.Credential) {
	ref := state.Identity.DMPassword(&state.Service.Spec)
	answer := state.DMPassword
	c := status.Credential{Ref: ref, Arrived: answer.Arrived, Exists: answer.Value != nil, Usable: hasKey(answer.Value, ref.Key)}
	p := compose.DMPassword{Usable: c.Usable, Keep: state.GeneratedDMPassword}
	if state.Service.Spec.DMPasswordSecretRef != nil {
		return p, c
	}

	if p.Keep == nil && ours(answer.Value, state.Identity) {
		p.Keep = answer.Value
	}
	if p.Keep != nil {
		c.Arrived, c.Exists, c.Usable = true, true, hasKey(p.Keep, ref.Key)
		p.Usable = c.Usable
	}
	// A Secret of that name which somebody else made is used, not taken over.
	foreign := p.Keep == nil && answer.Value != nil
	c.Generated = !foreign
	p.Generate = c.Arrived && !foreign && !c.Usable
	return p, c
}

func hasKey(s *corev1.Secret, key string) bool {
	return s != nil && len(s.Data[key]) > 0
}

// ours says that the function made the Secret, for a service of this name.
func ours(s *corev1.Secret, id naming.Identity) bool {
	return s != nil && s.GetLabels()[naming.LabelManagedBy] == naming.ValueManagedBy && s.GetLabels()[naming.LabelInstance] == id.Name
}
