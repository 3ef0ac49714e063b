package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storageReady compares the wanted volumes with those that exist (R7). Volumes
// never shrink, and their class never changes.
func storageReady(in Inputs) Condition {
	want := *in.Spec.Storage.Size
	refused := Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse, Bad: true, Blocks: true}

	largest, largestIn := largestRequest(in)
	if largest.Cmp(want) > 0 {
		refused.Reason = "ShrinkRefused"
		refused.Message = fmt.Sprintf("spec.storage.size: %s is less than %s has (%s), and a volume cannot shrink: set it to %s or more: %s", want.String(), largestIn, largest.String(), largest.String(), in.patch(fmt.Sprintf(`"storage":{"size":%q}`, largest.String())))
		return refused
	}
	if t := in.Template; t != nil && in.Spec.Storage.StorageClassName != nil {
		if have := t.Spec.StorageClassName; have == nil || *have != *in.Spec.Storage.StorageClassName {
			refused.Reason = "StorageClassImmutable"
			refused.Message = fmt.Sprintf("spec.storage.storageClassName: the volumes were made with %s, which cannot change: %s: %s", describeClass(have), classRemedy(have), in.patch(fmt.Sprintf(`"storage":{"storageClassName":%s}`, classJSON(have))))
			return refused
		}
	}

	var small, pending []string
	for i := range in.Claims {
		c := &in.Claims[i]
		if r := request(c); r.Cmp(want) < 0 {
			small = append(small, c.GetName())
		}
		if c.Status.Phase != corev1.ClaimBound {
			pending = append(pending, c.GetName())
		}
	}
	switch {
	case len(small) > 0:
		refused.Reason = "GrowByHand"
		refused.Blocks = false
		refused.Message = fmt.Sprintf("spec.storage.size: this version of the function does not grow volumes that exist. Grow them: kubectl -n %s patch pvc %s -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":%q}}}}'",
			in.Identity.Namespace, strings.Join(small, " "), want.String())
		return refused
	case !in.ClaimsArrived || len(in.Claims) == 0:
		return Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: "NoVolumes", Message: "No volume claim exists yet"}
	case len(pending) > 0:
		return Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: "VolumePending", Message: fmt.Sprintf("Volume claims that have no volume yet: %s. See: kubectl -n %s describe pvc %s", strings.Join(pending, ", "), in.Identity.Namespace, strings.Join(pending, " "))}
	}
	return Condition{Type: TypeStorageReady, Status: metav1.ConditionTrue, Reason: "Ready"}
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
