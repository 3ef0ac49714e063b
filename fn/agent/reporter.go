package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/report"
)

const (
	// reportAgain is how often an unchanged report is sent: a ConfigMap that was deleted
	// and made anew has lost it. The API server writes nothing where nothing changes.
	reportAgain = time.Minute
	// reportRetry is the pause after a report that could not be sent.
	reportRetry = 5 * time.Second
	// reportTimeout of one request.
	reportTimeout = 10 * time.Second
	// reportLast is what the agent waits for its last report at its end.
	reportLast = 3 * time.Second
)

// A reporter sends the report to the ConfigMap, as this pod's key of it. It never
// holds up the agent: the server's work does not depend on the API server.
type reporter struct {
	client Reports
	name   string // of the ConfigMap
	pod    string
	log    logging.Logger

	mu      sync.Mutex
	latest  string // the document
	changed chan struct{}
	sent    chan string // for those who wait until a document was sent
}

// Reports finds where the reports go. It is asked each time: how the API server is reached
// may not be known yet when the agent starts.
type Reports func() (typedcorev1.ConfigMapInterface, error)

func newReporter(client Reports, name, pod string, log logging.Logger) *reporter {
	return &reporter{client: client, name: name, pod: pod, log: log, changed: make(chan struct{}, 1), sent: make(chan string, 1)}
}

// report what is true now.
func (r *reporter) report(now report.Report) {
	doc, err := now.String()
	if err != nil {
		r.log.Info("Cannot report", "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if doc == r.latest {
		return
	}
	r.latest = doc
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run sends reports until the context ends.
func (r *reporter) run(ctx context.Context) {
	failed := false
	for {
		r.mu.Lock()
		doc := r.latest
		select {
		case <-r.changed: // It is seen now.
		default:
		}
		r.mu.Unlock()
		pause := reportAgain
		if doc != "" {
			err := r.send(ctx, doc)
			switch {
			case err == nil && failed:
				r.log.Info("Reported again")
			case err != nil && !failed:
				// Once an outage, not every few seconds.
				r.log.Info("Cannot report, will try again", "error", err)
			}
			if failed = err != nil; failed {
				pause = reportRetry
			} else {
				select {
				case <-r.sent:
				default:
				}
				r.sent <- doc
			}
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-r.changed:
		case <-t.C:
		}
		t.Stop()
	}
}

// flush waits until the latest report was sent, but not for long.
func (r *reporter) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportLast)
	defer cancel()
	for {
		r.mu.Lock()
		want := r.latest
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case doc := <-r.sent:
			if doc == want {
				return
			}
		}
	}
}

// send by server-side apply: every pod owns its own key, and writes nobody else's.
func (r *reporter) send(ctx context.Context, doc string) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]string{"name": r.name},
		"data":       map[string]string{r.pod: doc},
	})
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, r.name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: r.pod, Force: ptr.To(true)})
	if err != nil {
		return fmt.Errorf("cannot apply the ConfigMap %s: %w", r.name, err)
	}
	return nil
}
