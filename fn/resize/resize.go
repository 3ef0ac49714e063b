// Package resize grows volume claims. It is what the Job runs that the function
// composes while volumes are smaller than the spec says: Kubernetes grows no claim
// because its template grew, and a StatefulSet's template cannot.
package resize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/389ds/function-directoryservice/fn/retry"
)

// errNoAnswer stands for an error of the network: its words would be others each time,
// and the service's condition quotes them.
var errNoAnswer = errors.New("no answer from the API server: the log says more")

// Grow requests that size for each of the claims, and never less than it has. All are
// tried before an error is returned: that of the first that could not be grown, with
// the names of all.
//
// It goes on where waiting may help.
func Grow(ctx context.Context, claims typedcorev1.PersistentVolumeClaimInterface, names []string, size resource.Quantity, log logging.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, retry.Patience)
	defer cancel()

	granted := time.Now().Add(retry.GrantWithin)
	var failed []string
	var first error
	for _, name := range names {
		err := retry.Until(ctx, granted, log, func(ctx context.Context) error {
			outcome, err := growOnce(ctx, claims, name, size)
			if err == nil {
				log.Info(outcome, "claim", name, "size", size.String())
			}
			return err
		}, "claim", name)
		if err == nil {
			continue
		}
		log.Info("Cannot grow the claim", "claim", name, "size", size.String(), "error", err)
		failed = append(failed, name)
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil
	}
	var answer *apierrors.StatusError
	if errors.As(first, &answer) {
		first = answer
	} else {
		first = errNoAnswer
	}
	return fmt.Errorf("cannot grow %s: %w", strings.Join(failed, ", "), first)
}

// growOnce looks at the claim and changes it as it looked: the API server refuses
// where anything about it has changed in between. It returns what was done and why.
func growOnce(ctx context.Context, claims typedcorev1.PersistentVolumeClaimInterface, name string, size resource.Quantity) (string, error) {
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "Nothing to do: the claim is gone", nil
	case err != nil:
		return "", err
	case claim.Spec.Resources.Requests.Storage().Cmp(size) >= 0:
		return "Nothing to do: the claim is large enough", nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.GetUID(), "resourceVersion": claim.GetResourceVersion()},
		"spec":     map[string]any{"resources": map[string]any{"requests": corev1.ResourceList{corev1.ResourceStorage: size}}},
	})
	if err != nil {
		return "", fmt.Errorf("cannot write the patch: %w", err)
	}
	_, err = claims.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return "Nothing to do: the claim is gone", nil
	}
	return "Grew the claim", err
}
