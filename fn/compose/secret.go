package compose

import (
	"fmt"
	"io"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

const (
	// passwordLength of 32 from 62 characters is 190 bits.
	passwordLength = 32
	passwordChars  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// keepAnnotations keep Argo CD and Flux from pruning a generated Secret.
func keepAnnotations() map[string]string {
	return map[string]string{
		"argocd.argoproj.io/compare-options": "IgnoreExtraneous",
		"argocd.argoproj.io/sync-options":    "Prune=false,Delete=false",
		"kustomize.toolkit.fluxcd.io/prune":  "disabled",
	}
}

// dmPassword is the Secret with a generated password (R9); nil where there is
// none to compose. What exists is returned key by key, also where the spec names
// another Secret by now: a credential outlives a mistake (S3).
//
// It is immutable: should a call ever take a live Secret for absent, the API
// server refuses the new password.
func dmPassword(in Inputs) (*corev1.Secret, error) {
	keep := in.DMPassword.Keep
	if keep == nil && !in.DMPassword.Generate {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	meta := in.meta(in.Identity.GeneratedDMPassword())
	meta.Annotations = keepAnnotations()
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeOpaque,
		Immutable:  ptr.To(true),
		Data:       map[string][]byte{},
	}
	if keep != nil {
		if keep.Type != "" {
			s.Type = keep.Type
		}
		maps.Copy(s.Data, keep.Data)
		s.OwnerReferences = demoted(keep.GetOwnerReferences(), in.Owner)
	}
	if in.DMPassword.Generate {
		p, err := password(in.Random)
		if err != nil {
			return nil, err
		}
		s.Data[v1alpha1.DefaultDMPasswordKey] = p
	}
	return s, nil
}

// demoted are the references of other controllers, no longer as controllers. A
// service that was deleted and applied again may find the Secret before garbage
// collection does. The XR of a claim then has another name, so its reference is
// not replaced; two controllers would be refused, and the Secret be lost with the
// dead XR. As a plain owner that XR does not hold it any more.
func demoted(refs []metav1.OwnerReference, owner types.UID) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, r := range refs {
		if r.UID != owner && ptr.Deref(r.Controller, false) {
			r.Controller, r.BlockOwnerDeletion = ptr.To(false), nil
			out = append(out, r)
		}
	}
	return out
}

// password draws characters evenly: bytes beyond the last multiple of their
// number are thrown away.
func password(random io.Reader) ([]byte, error) {
	const limit = 256 - 256%len(passwordChars)
	out := make([]byte, 0, passwordLength)
	buf := make([]byte, 1)
	for len(out) < passwordLength {
		if _, err := io.ReadFull(random, buf); err != nil {
			return nil, fmt.Errorf("cannot generate a password: %w", err)
		}
		if int(buf[0]) < limit {
			out = append(out, passwordChars[int(buf[0])%len(passwordChars)])
		}
	}
	return out, nil
}
