// Package retry is the patience of what the function's Jobs run with the API server.
package retry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Patience with an API server that does not answer, or not sensibly. It ends, so
	// that the Job shows that it cannot do its work.
	Patience = 5 * time.Minute
	// GrantWithin is how long the RoleBinding, which is applied along with the Job, may
	// take to be there and to be known to the API server.
	GrantWithin = 30 * time.Second
)

// backoff between two requests. It grows to its cap and stays there.
var backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 15 * time.Second}

// Until there is an answer that stands. It goes on where waiting may help, also after
// a refusal until all must have been granted, and returns every other error. What is
// logged of each failure has these keys and values.
func Until(ctx context.Context, granted time.Time, log logging.Logger, attempt func(context.Context) error, keysAndValues ...any) error {
	var last error
	err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := attempt(ctx)
		switch {
		case err == nil:
			return true, nil
		case mayPass(err), apierrors.IsForbidden(err) && time.Now().Before(granted):
			log.Info("Trying again", append([]any{"error", err}, keysAndValues...)...)
			last = err
			return false, nil
		default:
			return false, err
		}
	})
	if err != nil && last != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// mayPass says whether the same request may succeed later: the object changed between
// two requests, the API server is overloaded or in trouble, or does not answer. What
// it otherwise answers stands.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code == http.StatusConflict || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
