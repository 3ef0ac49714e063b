package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// storageReady compares the wanted volumes with those that exist (R7). Volumes
// never shrink, and their class never changes.
func storageReady(in Inputs) Condition {
	want := *in.Spec.Storage.Size
	refused := Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse, Bad: true, Blocks: true}

	largest, largestIn := largestRequest(in)
	shrunk := largest.Cmp(want) > 0
	otherClass := hasOtherClass(in)
	if (shrunk || otherClass) && neverHeldData(in) {
		// Neither claims nor their template can be changed, but there is nothing to
		// lose. No StatefulSet is made before the claims are gone: its pods would
		// take them up again.
		refused.Reason = "VolumesToRecreate"
		refused.Message = fmt.Sprintf("spec.storage: no volume was provisioned yet, and the claims cannot be changed. Have them made anew as the spec says; there are no data in them: kubectl -n %s delete statefulset %s && kubectl -n %s delete pvc -l %s",
			in.Identity.Namespace, in.Identity.StatefulSet(), in.Identity.Namespace, in.selector())
		return refused
	}
	if shrunk {
		refused.Reason = "ShrinkRefused"
		refused.Message = fmt.Sprintf("spec.storage.size: %s is less than %s has (%s), and a volume cannot shrink: set it to %s or more: %s", want.String(), largestIn, largest.String(), largest.String(), in.patch(fmt.Sprintf(`"storage":{"size":%q}`, largest.String())))
		return refused
	}
	if otherClass && in.Template != nil {
		have := in.Template.Spec.StorageClassName
		refused.Reason = "StorageClassImmutable"
		refused.Message = fmt.Sprintf("spec.storage.storageClassName: the volumes were made with %s, which cannot change: %s: %s", describeClass(have), classRemedy(have), in.patch(fmt.Sprintf(`"storage":{"storageClassName":%s}`, classJSON(have))))
		return refused
	}

	if small := tooSmall(in); len(small) > 0 {
		return growing(in, small)
	}
	var pending []string
	for i := range in.Claims {
		if c := &in.Claims[i]; c.Status.Phase != corev1.ClaimBound && wantedClaim(in, c.GetName()) {
			pending = append(pending, c.GetName())
		}
	}
	switch {
	case !in.ClaimsArrived || len(in.Claims) == 0:
		return Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: "NoVolumes", Message: "No volume claim exists yet"}
	case len(pending) > 0:
		return Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: "VolumePending", Message: fmt.Sprintf("Volume claims that have no volume yet: %s. See: kubectl -n %s describe pvc %s", strings.Join(pending, ", "), in.Identity.Namespace, strings.Join(pending, " "))}
	}
	if c := beingGrown(in); c != nil {
		return *c
	}
	return Condition{Type: TypeStorageReady, Status: metav1.ConditionTrue, Reason: "Ready"}
}

// hasOtherClass says that the claim template, or without a StatefulSet a claim that
// has no volume yet, has another class than the spec names.
func hasOtherClass(in Inputs) bool {
	want := in.Spec.Storage.StorageClassName
	if want == nil {
		return false
	}
	if in.Template != nil {
		return ptr.Deref(in.Template.Spec.StorageClassName, "") != *want
	}
	for i := range in.Claims {
		if c := &in.Claims[i]; !provisioned(c) && ptr.Deref(c.Spec.StorageClassName, "") != *want {
			return true
		}
	}
	return false
}

func provisioned(c *corev1.PersistentVolumeClaim) bool {
	return c.Status.Phase == corev1.ClaimBound || c.Spec.VolumeName != ""
}

// neverHeldData: no server ever ran, and no claim has a volume.
func neverHeldData(in Inputs) bool {
	if in.Decision.Ledger.Good != nil || !in.ClaimsArrived {
		return false
	}
	for i := range in.Claims {
		if provisioned(&in.Claims[i]) {
			return false
		}
	}
	return true
}

// wantedClaim says that the claim is of a server that the spec wants; one that was
// scaled away may wait for its volume for ever.
func wantedClaim(in Inputs, name string) bool {
	for i := range *in.Spec.Replicas {
		if name == in.Identity.Claim(i) {
			return true
		}
	}
	return false
}

// largestRequest of the claim template and the claims, and whose it is.
func largestRequest(in Inputs) (resource.Quantity, string) {
	var largest resource.Quantity
	whose := ""
	if in.Template != nil {
		largest, whose = request(in.Template), "the StatefulSet's claim template"
	}
	for i := range in.Claims {
		if r := request(&in.Claims[i]); r.Cmp(largest) > 0 {
			largest, whose = r, "the volume claim "+in.Claims[i].GetName()
		}
	}
	return largest, whose
}

func request(c *corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

func describeClass(name *string) string {
	if name == nil {
		return "the cluster's default class"
	}
	return classJSON(name)
}

func classRemedy(name *string) string {
	if name == nil {
		return "remove it"
	}
	return "set it back to " + classJSON(name)
}

func classJSON(name *string) string {
	if name == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *name)
}
