package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/389ds/function-directoryservice/fn/report"
)

// configMaps is an API server that only knows how to patch.
type configMaps struct {
	typedcorev1.ConfigMapInterface

	mu      sync.Mutex
	patches []patched
	// answer is what it answers; nil is success.
	answer func(ctx context.Context) error
}

// A patched ConfigMap, and when that was, from the begin of the test.
type patched struct {
	At  time.Duration
	Doc string
}

var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every test in a bubble (testing/synctest)

func (c *configMaps) Patch(ctx context.Context, _ string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (*corev1.ConfigMap, error) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return nil, err
		}
	}
	var cm corev1.ConfigMap
	if err := json.Unmarshal(body, &cm); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patches = append(c.patches, patched{time.Since(begin), cm.Data["ds-0"]})
	return &cm, nil
}

func (c *configMaps) set(answer func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *configMaps) got() []patched {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]patched(nil), c.patches...)
}

func doc(t *testing.T, r report.Report) string {
	t.Helper()
	s, err := r.String()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// When reports are sent, in the time of a bubble.
func TestReporter(t *testing.T) {
	one, two := report.Report{PodUID: "1"}, report.Report{PodUID: "2"}
	lost := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "ds-state", nil)
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	cases := map[string]struct {
		reason string
		do     func(r *reporter, api *configMaps)
		want   []patched
	}{
		"Nothing": {
			reason: "Nothing is known yet.",
			do:     func(*reporter, *configMaps) { time.Sleep(time.Hour) },
		},
		"AtOnce": {
			reason: "A change is reported when it happens.",
			do: func(r *reporter, _ *configMaps) {
				time.Sleep(time.Second)
				r.report(one)
				time.Sleep(time.Second)
				r.report(two)
				time.Sleep(time.Second)
			},
			want: []patched{{time.Second, doc(t, one)}, {2 * time.Second, doc(t, two)}},
		},
		"Unchanged": {
			reason: "The same is told again once a minute only: a ConfigMap that was made anew has lost it.",
			do: func(r *reporter, _ *configMaps) {
				for range 130 {
					r.report(one)
					time.Sleep(time.Second)
				}
			},
			want: []patched{{0, doc(t, one)}, {time.Minute, doc(t, one)}, {2 * time.Minute, doc(t, one)}},
		},
		"Outage": {
			reason: "It tries again, and then tells what is true by then.",
			do: func(r *reporter, api *configMaps) {
				api.set(func(context.Context) error { return lost })
				r.report(one)
				time.Sleep(12 * time.Second)
				r.report(two)
				time.Sleep(time.Second)
				api.set(nil)
				time.Sleep(30 * time.Second)
			},
			want: []patched{{17 * time.Second, doc(t, two)}},
		},
		"Hangs": {
			reason: "An API server that does not answer holds nobody up.",
			do: func(r *reporter, api *configMaps) {
				api.set(hangs)
				for range 22 {
					r.report(one)
					time.Sleep(time.Second)
					r.report(two)
				}
				api.set(nil)
				time.Sleep(30 * time.Second)
			},
			want: []patched{{30 * time.Second, doc(t, two)}},
		},
		"Flush": {
			reason: "The last report is sent before the agent ends.",
			do: func(r *reporter, _ *configMaps) {
				r.report(one)
				time.Sleep(time.Second)
				r.report(two)
				r.flush(context.Background())
				if time.Since(begin) != time.Second {
					t.Errorf("it waited for nothing, %s", time.Since(begin)-time.Second)
				}
			},
			want: []patched{{0, doc(t, one)}, {time.Second, doc(t, two)}},
		},
		"FlushSent": {
			reason: "What was sent is not waited for.",
			do: func(r *reporter, _ *configMaps) {
				r.report(one)
				time.Sleep(time.Second)
				r.flush(context.Background())
				if time.Since(begin) != time.Second {
					t.Errorf("it waited for nothing, %s", time.Since(begin)-time.Second)
				}
			},
			want: []patched{{0, doc(t, one)}},
		},
		"FlushOutage": {
			reason: "The kubelet does not wait for the API server.",
			do: func(r *reporter, api *configMaps) {
				api.set(hangs)
				r.report(one)
				r.flush(context.Background())
				if time.Since(begin) != reportLast {
					t.Errorf("it waited %s", time.Since(begin))
				}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &configMaps{}
				r := newReporter(func() (typedcorev1.ConfigMapInterface, error) { return api, nil }, "ds-state", "ds-0", logging.NewNopLogger())
				ctx, cancel := context.WithCancel(t.Context())
				go r.run(ctx)
				tc.do(r, api)
				cancel()
				synctest.Wait()
				if diff := cmp.Diff(tc.want, api.got()); diff != "" {
					t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// What goes over the wire: a server-side apply of this pod's key alone, by a field manager of
// its own.
func TestSend(t *testing.T) {
	type request struct {
		Method, Path, Query, Type string
		Body                      map[string]any
	}
	var got request
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Type: r.Header.Get("Content-Type")}
		if err := json.NewDecoder(r.Body).Decode(&got.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1"}`))
	}))
	defer api.Close()
	client, err := typedcorev1.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := newReporter(func() (typedcorev1.ConfigMapInterface, error) { return client.ConfigMaps("team"), nil }, "ds-state", "ds-0", logging.NewNopLogger()).send(t.Context(), `{"podUID":"u"}`); err != nil {
		t.Fatal(err)
	}
	want := request{
		Method: http.MethodPatch, Path: "/api/v1/namespaces/team/configmaps/ds-state", Query: "fieldManager=ds-0&force=true", Type: "application/apply-patch+yaml",
		Body: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "ds-state"},
			"data": map[string]any{"ds-0": `{"podUID":"u"}`},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
