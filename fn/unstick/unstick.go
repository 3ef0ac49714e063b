// Package unstick deletes one pod that is in the way of a rollout. It is what the
// Jobs run that the function composes for condemned pods: between the function's
// decision and the Job's run the pod may have become Ready, or have been replaced.
package unstick

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// patience with an API server that does not answer, or not sensibly. It ends, so
// that the Job shows that it cannot do its work.
const patience = 5 * time.Minute

// backoff between two requests. It grows to its cap and stays there.
var backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 15 * time.Second}

// grantWithin is how long the RoleBinding, which is applied along with the Job, may
// take to be there and to be known to the API server.
var grantWithin = 30 * time.Second

// Delete deletes the condemned pod, and no other: one that was replaced, became Ready
// or is of another revision stays, and that is a success. The pod has its own grace
// period: a server that still runs must be able to write its caches.
//
// It goes on where waiting may help, and returns every other error.
func Delete(ctx context.Context, pods typedcorev1.PodInterface, c upgrade.Condemned, log logging.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	granted := time.Now().Add(grantWithin)
	var last error
	err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		outcome, err := deleteOnce(ctx, pods, c)
		switch {
		case err == nil:
			log.Info(outcome, "pod", c.Pod, "uid", c.UID, "revision", c.Revision)
			return true, nil
		case mayPass(err), apierrors.IsForbidden(err) && time.Now().Before(granted):
			log.Info("Trying again", "pod", c.Pod, "error", err)
			last = err
			return false, nil
		default:
			return false, err
		}
	})
	switch {
	case err != nil && last != nil && ctx.Err() != nil:
		return fmt.Errorf("cannot delete the pod %s: %w: %w", c.Pod, err, last)
	case err != nil:
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

// mayPass says whether the same request may succeed later: the pod changed between
// look and deletion, the API server is overloaded or in trouble, or does not answer.
// What it otherwise answers stands.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code == http.StatusConflict || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
