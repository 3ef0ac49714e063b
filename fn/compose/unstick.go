package compose

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/389ds/function-directoryservice/fn/naming"
)

// unstick adds, for each pod that is to be deleted, a Job that does it and what lets
// it do so (R35). All else of that kind goes, unless it is not known yet which pods
// there are.
func unstick(in Inputs, d Desired) error {
	if in.PodsUnknown {
		return nil
	}
	wanted := make([]job, len(in.Unstick))
	for i, pod := range in.Unstick {
		wanted[i] = job{
			args: []string{"--pod", pod.Pod, "--uid", pod.UID, "--revision", pod.Revision},
			// A pod that was Ready for a moment is another case than before.
			annotations: map[string]string{naming.AnnotationNotReadySince: pod.Since.UTC().Format(time.RFC3339)},
			may: rbacv1.PolicyRule{
				APIGroups:     []string{corev1.GroupName},
				Resources:     []string{"pods"},
				ResourceNames: []string{pod.Pod},
				Verbs:         []string{"get", "delete"},
			},
		}
	}
	return jobs(in, d, naming.ValueComponentUnstick, wanted)
}
