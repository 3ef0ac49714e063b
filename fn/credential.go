package fn

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
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
	p := compose.DMPassword{Ref: ref, Usable: hasPassword(answer.Value, ref.Key), Keep: state.GeneratedDMPassword}
	c := status.Credential{Ref: ref, Brought: state.Service.Spec.DMPasswordSecretRef != nil, Arrived: answer.Arrived, Exists: answer.Value != nil}

	if ref.Name == state.Identity.GeneratedDMPassword() {
		if p.Keep == nil && answer.Value != nil && state.Identity.Owns(answer.Value.GetLabels()) {
			p.Keep = answer.Value
		}
		if p.Keep != nil {
			c.Arrived, c.Exists = true, true
			p.Usable = hasPassword(p.Keep, ref.Key)
		}
		// A Secret of that name which somebody else made is used, not taken over.
		foreign := p.Keep == nil && answer.Value != nil
		c.Generated = !c.Brought && !foreign
		p.Generate = c.Generated && c.Arrived && !hasKey(answer.Value, ref.Key) && !hasKey(p.Keep, ref.Key)
	}
	c.Usable = p.Usable
	c.Invalid = !p.Usable && (hasKey(answer.Value, ref.Key) || hasKey(p.Keep, ref.Key))
	c.Lost = p.Generate && state.StatefulSet != nil
	if !p.Usable && !p.Generate {
		// The pods go on with the Secret that they have.
		if used, ok := passwordInUse(state.StatefulSet); ok {
			p.Ref, p.Usable = used, true
		}
	}
	c.InUse = p.Ref
	return p, c
}

// passwordInUse is the Secret that the pods refer to: by a volume; older pods, and those
// that scripts expect a variable in, by that as well.
func passwordInUse(sts *appsv1.StatefulSet) (v1alpha1.SecretKeyRef, bool) {
	if sts == nil {
		return v1alpha1.SecretKeyRef{}, false
	}
	if name, key := secretVolume(sts, compose.VolumeDMPassword); name != "" && key != "" {
		return v1alpha1.SecretKeyRef{Name: name, Key: key}, true
	}
	for _, c := range sts.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if c.Name == naming.Container && e.Name == compose.EnvDMPassword && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				return v1alpha1.SecretKeyRef{Name: e.ValueFrom.SecretKeyRef.Name, Key: e.ValueFrom.SecretKeyRef.Key}, true
			}
		}
	}
	return v1alpha1.SecretKeyRef{}, false
}

// hasPassword says that there is one which a server can have.
func hasPassword(s *corev1.Secret, key string) bool {
	if !hasKey(s, key) {
		return false
	}
	_, err := config.ReadPassword(s.Data[key])
	return err == nil
}

func hasKey(s *corev1.Secret, key string) bool {
	return s != nil && len(s.Data[key]) > 0
}
