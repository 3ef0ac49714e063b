// Package unstick deletes one pod that is in the way of a rollout. It is what the
// Jobs run that the function composes for condemned pods: between the function's
// decision and the Job's run the pod may have become Ready, or have been replaced.
package unstick

import (
	"context"
	"fmt"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/retry"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// Delete deletes the condemned pod, and no other: one that was replaced, became Ready
// or is of another revision stays, and that is a success. The pod has its own grace
// period: a server that still runs must be able to write its caches.
//
// It goes on where waiting may help, and returns every other error.
func Delete(ctx context.Context, pods typedcorev1.PodInterface, c upgrade.Condemned, log logging.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, retry.Patience)
	defer cancel()

	err := retry.Until(ctx, time.Now().Add(retry.GrantWithin), log, func(ctx context.Context) error {
		outcome, err := deleteOnce(ctx, pods, c)
		if err == nil {
			log.Info(outcome, "pod", c.Pod, "uid", c.UID, "revision", c.Revision)
		}
		return err
	}, "pod", c.Pod)
	if err != nil {
		return fmt.Errorf("cannot delete the pod %s: %w", c.Pod, err)
	}
	return nil
}

// deleteOnce looks at the pod and deletes it as it looked: the API server refuses
// where anything about the pod has changed in between. It returns what was done and
// why.
func deleteOnce(ctx context.Context, pods typedcorev1.PodInterface, c upgrade.Condemned) (string, error) {
	pod, err := pods.Get(ctx, c.Pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "Nothing to do: the pod is gone", nil
	case err != nil:
		return "", err
	case string(pod.GetUID()) != c.UID:
		return "Nothing to do: the pod was replaced", nil
	case pod.GetDeletionTimestamp() != nil:
		return "Nothing to do: the pod is being deleted", nil
	case pod.GetLabels()[appsv1.ControllerRevisionHashLabelKey] != c.Revision:
		return "Nothing to do: the pod is of another revision", nil
	case ready(pod):
		return "Nothing to do: the pod is Ready", nil
	}
	err = pods.Delete(ctx, c.Pod, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID:             ptr.To(pod.GetUID()),
		ResourceVersion: ptr.To(pod.GetResourceVersion()),
	}})
	if apierrors.IsNotFound(err) {
		return "Nothing to do: the pod is gone", nil
	}
	return "Deleted the pod", err
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
