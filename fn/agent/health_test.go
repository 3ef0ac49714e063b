package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
)

// R16: what each probe says in each phase, and how long it stays so.
func TestHealth(t *testing.T) {
	const startTimeout = time.Minute
	type probes struct{ Startz, Readyz, Livez bool }
	type act func(h *health, pass func(time.Duration))
	enter := func(p phase) act { return func(h *health, _ func(time.Duration)) { h.enter(p) } }
	judge := func(because string) act { return func(h *health, _ func(time.Duration)) { h.judge(because) } }
	answered := func(h *health, _ func(time.Duration)) { h.answered() }
	after := func(d time.Duration) act { return func(_ *health, pass func(time.Duration)) { pass(d) } }

	cases := map[string]struct {
		reason string
		acts   []act
		want   probes
	}{
		"Preparing": {
			reason: "The kubelet must not end a migration half way.",
			want:   probes{Startz: true, Livez: true},
		},
		"PreparingForLong": {
			reason: "However long it takes.",
			acts:   []act{after(5 * time.Hour)},
			want:   probes{Startz: true, Livez: true},
		},
		"PreparingAndJudged": {
			reason: "Only a server that runs can be Ready.",
			acts:   []act{judge("")},
			want:   probes{Startz: true, Livez: true},
		},
		"Starting": {
			reason: "It is not started before it answers.",
			acts:   []act{enter(starting), after(startTimeout + startGrace)},
			want:   probes{Livez: true},
		},
		"StartingForLong": {
			reason: "By now dscontainer should have ended itself.",
			acts:   []act{enter(starting), after(startTimeout + startGrace + time.Second)},
			want:   probes{},
		},
		"Running": {
			reason: "A server that answers is started, and not Ready before it was looked at.",
			acts:   []act{enter(starting), enter(running)},
			want:   probes{Startz: true, Livez: true},
		},
		"Ready": {
			reason: "Nothing is wrong.",
			acts:   []act{enter(starting), enter(running), judge("")},
			want:   probes{Startz: true, Readyz: true, Livez: true},
		},
		"NotReadyAnyMore": {
			reason: "Something is.",
			acts:   []act{enter(starting), enter(running), judge(""), judge("a suffix is gone")},
			want:   probes{Startz: true, Livez: true},
		},
		"Silent": {
			reason: "A checkpoint of a busy server takes a while.",
			acts:   []act{enter(running), judge(""), after(deaf)},
			want:   probes{Startz: true, Readyz: true, Livez: true},
		},
		"Deaf": {
			reason: "The kubelet starts it again.",
			acts:   []act{enter(running), judge(""), after(deaf + time.Second)},
			want:   probes{Startz: true, Readyz: true},
		},
		"HeardAgain": {
			reason: "It works.",
			acts:   []act{enter(running), judge(""), after(deaf + time.Second), answered},
			want:   probes{Startz: true, Readyz: true, Livez: true},
		},
		"HeardBefore": {
			reason: "The time counts from the last answer.",
			acts:   []act{enter(running), judge(""), after(deaf), answered, after(deaf)},
			want:   probes{Startz: true, Readyz: true, Livez: true},
		},
		"Stopping": {
			reason: "No new client shall come; how long a stop may take is the agent's to say.",
			acts:   []act{enter(running), judge(""), enter(stopping), after(startTimeout + startGrace + time.Second)},
			want:   probes{Startz: true, Livez: true},
		},
		"StoppingAndJudged": {
			reason: "A pass that ends late changes nothing.",
			acts:   []act{enter(running), enter(stopping), judge("")},
			want:   probes{Startz: true, Livez: true},
		},
		"Restarting": {
			reason: "A permitted restart has the time of a start, however long the stop took.",
			acts:   []act{enter(starting), enter(running), judge(""), enter(stopping), after(100 * time.Second), enter(starting), after(startTimeout + startGrace)},
			want:   probes{Livez: true},
		},
		"RestartingForLong": {
			reason: "And no more.",
			acts:   []act{enter(starting), enter(running), judge(""), enter(stopping), enter(starting), after(startTimeout + startGrace + time.Second)},
			want:   probes{},
		},
		"StartedAgain": {
			reason: "Each start has its own time, also where the one before never answered.",
			acts:   []act{enter(starting), after(startTimeout + startGrace), enter(starting), after(startTimeout)},
			want:   probes{Livez: true},
		},
		"HeardWhileAway": {
			reason: "The time before a restart does not count.",
			acts:   []act{enter(running), after(2 * deaf), enter(starting), enter(running)},
			want:   probes{Startz: true, Livez: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			h := newHealth(startTimeout, func() time.Time { return now })
			for _, a := range tc.acts {
				a(h, func(d time.Duration) { now = now.Add(d) })
			}
			got := probes{Startz: h.startz() == nil, Readyz: h.readyz() == nil, Livez: h.livez() == nil}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if got.Readyz != h.isReady() {
				t.Errorf("the metric says %t, and the probe %t", h.isReady(), got.Readyz)
			}
		})
	}
}

// What a person sees of a probe that fails.
func TestHandler(t *testing.T) {
	h := newHealth(time.Minute, time.Now)
	server := directory.New(directory.Options{Socket: t.TempDir() + "/none"})
	handler := h.handler(newMetrics(server, h, func() uint64 { return 0 }))
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	type answer struct {
		Code int
		Body string
	}
	ask := func(path string) answer {
		code, body := get(path)
		return answer{code, strings.TrimSpace(body)}
	}
	for _, tc := range []struct {
		reason string
		do     func()
		path   string
		want   answer
	}{
		{reason: "It says what it waits for.", do: func() {}, path: "/readyz", want: answer{503, "not ready: the volume is being prepared"}},
		{reason: "It says what it waits for.", do: func() { h.enter(starting) }, path: "/startz", want: answer{503, "not ready: the server is starting"}},
		{reason: "It names the reason.", do: func() { h.enter(running); h.judge("suffix a: is gone") }, path: "/readyz", want: answer{503, "not ready: suffix a: is gone"}},
		{reason: "No more than needed.", do: func() { h.judge("") }, path: "/readyz", want: answer{200, "ok"}},
		{reason: "There is nothing else.", do: func() {}, path: "/debug/pprof/", want: answer{404, "404 page not found"}},
	} {
		tc.do()
		if diff := cmp.Diff(tc.want, ask(tc.path)); diff != "" {
			t.Errorf("%s: %s\n-want, +got:\n%s", tc.path, tc.reason, diff)
		}
	}
	code, body := get("/metrics")
	if code != http.StatusOK || !strings.Contains(body, "directoryservice_up 0\n") || !strings.Contains(body, "directoryservice_ready 1\n") {
		t.Errorf("The server cannot be asked while it is down; the metrics say so.\n%d %s", code, body)
	}
}
