package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

const reasonGrowFailed = "GrowFailed"

// volumes are the claims of the servers, sorted, that have a volume: also of those
// servers that were scaled away. Labels are anybody's, so the name decides. A claim
// without a volume cannot be changed, and one that is being deleted need not be.
func (in Inputs) volumes() []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range in.Claims {
		c := &in.Claims[i]
		_, number, _ := strings.Cut(c.GetName(), naming.DataVolume+"-"+in.Identity.StatefulSet()+"-")
		ordinal, err := strconv.ParseInt(number, 10, 32)
		if err == nil && ordinal >= 0 && c.GetName() == in.Identity.Claim(int32(ordinal)) &&
			c.Status.Phase == corev1.ClaimBound && c.GetDeletionTimestamp() == nil {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// tooSmall are those that request less than the spec says.
func tooSmall(in Inputs) []*corev1.PersistentVolumeClaim {
	return slices.DeleteFunc(in.volumes(), func(c *corev1.PersistentVolumeClaim) bool {
		r := request(c)
		return r.Cmp(*in.Spec.Storage.Size) >= 0
	})
}

// Grows says whether a pod with these annotations grows volumes to the size of the
// spec: one for another size may still be there.
func Grows(annotations map[string]string, spec *v1alpha1.DirectoryServiceSpec) bool {
	return annotations[naming.AnnotationSize] == spec.Storage.Size.String()
}

// growing says what becomes of claims that are too small.
func growing(in Inputs, small []*corev1.PersistentVolumeClaim) Condition {
	names := namesOf(small)
	size := in.Spec.Storage.Size.String()
	c := Condition{Type: TypeStorageReady, Status: metav1.ConditionFalse}
	if in.NoAgentImage {
		c.Reason, c.Bad = "GrowByHand", true
		c.Message = fmt.Sprintf("spec.storage.size: the function does not know its own image (agentImage in its input), so it does not grow volumes that exist. Grow them: kubectl -n %s patch pvc %s -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":%q}}}}'",
			in.Identity.Namespace, strings.Join(names, " "), size)
		return c
	}
	if len(in.Problems) > 0 {
		c.Reason, c.Message = "Waiting", "Volumes are grown once the spec is valid: see the condition SpecValid"
		return c
	}

	logs := fmt.Sprintf("kubectl -n %s logs -l %s", in.Identity.Namespace, in.resizeSelector())
	failed := fmt.Sprintf("spec.storage.size: cannot grow the volume claims %s to %s: ", firstOf(names, ", "), size)
	trouble, bad := resizeTrouble(in)
	switch {
	case bad:
		c.Reason, c.Bad = reasonGrowFailed, true
		c.Message = failed + trouble + ". It is tried again by itself. " + growRemedy(in, small, trouble) + "What the Job says: " + logs
	case failedBefore(in, failed) != "":
		// It is being tried again, by another pod or another Job.
		c.Reason, c.Bad, c.Message = reasonGrowFailed, true, failedBefore(in, failed)
	case in.ResizeFailed:
		c.Reason, c.Bad = reasonGrowFailed, true
		c.Message = failed + "the Job gave up. It is made anew. " + growRemedy(in, small, "storageclass") + "What the Job says: " + logs
	default:
		c.Reason = "Growing"
		c.Message = fmt.Sprintf("spec.storage.size: a Job grows the volume claims %s to %s%s. See: kubectl -n %s get jobs,pods -l %s",
			firstOf(names, ", "), size, trouble, in.Identity.Namespace, in.resizeSelector())
	}
	return c
}

// failedBefore is what was said of the same failure; "" where nothing was.
func failedBefore(in Inputs, begins string) string {
	for _, c := range in.Previous.Conditions {
		if c.Type == TypeStorageReady && c.Reason == reasonGrowFailed && strings.HasPrefix(c.Message, begins) {
			return c.Message
		}
	}
	return ""
}

// growRemedy is what a person can do about a refusal.
func growRemedy(in Inputs, small []*corev1.PersistentVolumeClaim, trouble string) string {
	if !strings.Contains(strings.ToLower(trouble), "storageclass") {
		return ""
	}
	have := request(small[0])
	for _, c := range small {
		if r := request(c); r.Cmp(have) > 0 {
			have = r
		}
	}
	if t := in.Template; t != nil {
		if r := request(t); r.Cmp(have) > 0 {
			have = r
		}
	}
	back := fmt.Sprintf("go back: %s. ", in.patch(fmt.Sprintf(`"storage":{"size":%q}`, have.String())))
	class := ptr.Deref(small[0].Spec.StorageClassName, "")
	if class == "" {
		return "Volumes without a StorageClass cannot grow; " + back
	}
	return fmt.Sprintf(`If its storage can grow, allow it: kubectl patch storageclass %s -p '{"allowVolumeExpansion":true}'; otherwise %s`, class, back)
}

// resizeTrouble is why the Job that grows volumes has not done so yet, and whether
// that is for a person to see to.
func resizeTrouble(in Inputs) (string, bool) {
	pods := slices.DeleteFunc(slices.Clone(in.ResizePods), func(p corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(&p)
		return owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.Name, in.Identity.Job(naming.KeyResizePrefix)) ||
			!Grows(p.GetAnnotations(), in.Spec) || p.GetDeletionTimestamp() != nil || p.Status.Phase == corev1.PodSucceeded
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for i := range pods {
		for j := range pods[i].Status.ContainerStatuses {
			c := &pods[i].Status.ContainerStatuses[j]
			for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if t != nil && t.ExitCode != 0 {
					return said(t), true
				}
			}
			if w := WaitingReason(c); w != "" {
				return fmt.Sprintf("the Job's pod does not start: %s (image %s)", w, c.Image), true
			}
		}
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != "" {
				return fmt.Sprintf(" (its pod does not start yet: %s)", c.Reason), false
			}
		}
	}
	return "", false
}

// mostSaid bounds what is quoted of a Job.
const mostSaid = 600

// said is the error in a termination message: the last line, without what the
// condition itself says.
func said(t *corev1.ContainerStateTerminated) string {
	message := strings.TrimSpace(t.Message)
	if message == "" {
		return strings.TrimSpace("exit code " + strconv.Itoa(int(t.ExitCode)) + " " + strings.TrimPrefix(t.Reason, "Error"))
	}
	message = message[strings.LastIndex(message, "\n")+1:]
	message = strings.TrimPrefix(message, "directoryservice: error: ")
	if strings.HasPrefix(message, "cannot grow ") {
		if _, why, ok := strings.Cut(message, ": "); ok {
			message = why
		}
	}
	return strings.TrimRight(strings.ToValidUTF8(message[:min(len(message), mostSaid)], ""), ". ")
}

// beingGrown tells of volumes that have not got yet what their claims request; nil
// where there is none.
func beingGrown(in Inputs) *Condition {
	var smaller, failing []*corev1.PersistentVolumeClaim
	for _, v := range in.volumes() {
		wanted, has := request(v), v.Status.Capacity[corev1.ResourceStorage]
		pending, failed := false, false
		for _, c := range v.Status.Conditions {
			if c.Status != corev1.ConditionTrue {
				continue
			}
			switch c.Type {
			case corev1.PersistentVolumeClaimFileSystemResizePending:
				pending = true
			case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
				failed = true
			default:
			}
		}
		if small := !has.IsZero() && has.Cmp(wanted) < 0; !small && !pending {
			continue
		}
		smaller = append(smaller, v)
		if failed {
			failing = append(failing, v)
		}
	}
	see := func(claims []*corev1.PersistentVolumeClaim) string {
		return fmt.Sprintf("%s. See: kubectl -n %s describe pvc %s", firstOf(namesOf(claims), ", "), in.Identity.Namespace, firstOf(namesOf(claims), " "))
	}
	switch {
	case len(failing) > 0:
		return &Condition{
			Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: reasonGrowFailed, Bad: true,
			Message: "spec.storage.size: volumes that their storage fails to grow, and tries again: " + see(failing),
		}
	case len(smaller) > 0:
		return &Condition{
			Type: TypeStorageReady, Status: metav1.ConditionFalse, Reason: "Growing",
			Message: "spec.storage.size: volumes that their storage grows; some grow only once their pod is made anew: " + see(smaller),
		}
	}
	return nil
}

func namesOf(claims []*corev1.PersistentVolumeClaim) []string {
	out := make([]string, len(claims))
	for i, c := range claims {
		out[i] = c.GetName()
	}
	return out
}

// resizeSelector is what a person types to select the Job that grows volumes.
func (in Inputs) resizeSelector() string {
	return in.selector() + "," + naming.LabelComponent + "=" + naming.ValueComponentResize
}
