// Package v1beta1 is the function's input: what a platform team sets, in the
// Composition, for all services.
//
// +kubebuilder:object:generate=true
// +groupName=directoryservice.fn.crossplane.io
// +versionName=v1beta1
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// Input of the function. All of it is optional.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=crossplane
type Input struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AgentImage is the image of the function's own program, for the Jobs that it
	// composes. By default it is the package image that the function was built for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	AgentImage string `json:"agentImage,omitempty"`

	// ImageCatalog tells the version of images whose tag does not, for example
	// images named by digest, or `latest`.
	// +optional
	// +listType=map
	// +listMapKey=image
	ImageCatalog []CatalogImage `json:"imageCatalog,omitempty"`

	// Defaults for what a service does not set itself.
	// +optional
	Defaults Defaults `json:"defaults,omitempty"`
}

// A CatalogImage is an image whose version the platform vouches for.
type CatalogImage struct {
	// Version of the directory server in the image: a semantic version.
	Version string `json:"version"`

	// Image exactly as services name it in `spec.image`.
	Image string `json:"image"`
}

// Defaults for what a service does not set itself. What a service sets wins,
// field by field; lists and maps are not merged.
type Defaults struct {
	// StorageClassName of new volumes.
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`

	v1alpha1.PodSettings `json:",inline"`
}
