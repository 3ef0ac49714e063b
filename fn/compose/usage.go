package compose

import (
	protectionv1beta1 "github.com/crossplane/crossplane/apis/v2/protection/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// usage makes Crossplane's webhook refuse the deletion of what the user applied
// (R20).
func usage(in Inputs) *protectionv1beta1.Usage {
	return &protectionv1beta1.Usage{
		TypeMeta:   metav1.TypeMeta{APIVersion: protectionv1beta1.SchemeGroupVersion.String(), Kind: "Usage"},
		ObjectMeta: in.meta(in.Identity.Name + "-deletion-protection"),
		Spec: protectionv1beta1.UsageSpec{
			Of: protectionv1beta1.NamespacedResource{
				APIVersion:  v1alpha1.GroupVersion.String(),
				Kind:        v1alpha1.Kind,
				ResourceRef: &protectionv1beta1.NamespacedResourceRef{Name: in.Identity.Name},
			},
			Reason: ptr.To("spec.deletionProtection is true: set it to false first"),
		},
	}
}
