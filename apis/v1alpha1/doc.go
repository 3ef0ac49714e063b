// Package v1alpha1 is the API a user writes: one DirectoryService, as a
// namespaced composite resource (XR) or as a claim.
//
// The comments here are the field reference: they become the descriptions in
// the XRDs, docs/reference.md and `kubectl explain`.
//
// +kubebuilder:object:generate=true
// +groupName=dirsrv.operator.port389.org
// +versionName=v1alpha1
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

const (
	// Group of the API, and the prefix of every annotation.
	Group = "dirsrv.operator.port389.org"
	// Version of the API.
	Version = "v1alpha1"
	// Kind of the resource a user writes, in both flavours.
	Kind = "DirectoryService"
)

// GroupVersion is the API's group and version.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}
