package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A phase of the agent's work.
type phase int

const (
	// preparing the volume; a migration may take long.
	preparing phase = iota
	// starting the server, for the first time or again.
	starting
	// running: the server answers.
	running
	// stopping for good.
	stopping
)

const (
	// startGrace is what a start may take beyond the time that dscontainer gives it: by
	// then dscontainer ends it itself, and says why.
	startGrace = 60 * time.Second
	// deaf is how long a server that runs may give no answer before it is restarted.
	// Longer than a checkpoint of a busy database takes.
	deaf = 60 * time.Second
)

// health is what the probes are told (R16). The kubelet asks far more often than the
// server is asked: every answer is from what the agent's loop found last.
type health struct {
	startTimeout time.Duration
	now          func() time.Time

	mu      sync.Mutex
	phase   phase
	since   time.Time // of the phase
	heard   time.Time // when the server answered last
	ready   bool
	because string // it is not ready
}

func newHealth(startTimeout time.Duration, now func() time.Time) *health {
	return &health{startTimeout: startTimeout, now: now, since: now(), because: "the volume is being prepared"}
}

func (h *health) enter(p phase) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.since, h.heard = p, h.now(), h.now()
	if p != running {
		h.ready = false
		h.because = map[phase]string{preparing: "the volume is being prepared", starting: "the server is starting", stopping: "the server is stopping"}[p]
	}
}

// answered: the server gave an answer just now.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = h.now()
}

// judge sets whether clients can use the server, and why not.
func (h *health) judge(because string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready, h.because = because == "" && h.phase == running, because
}

func (h *health) isReady() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ready
}

var errNotReady = errors.New("not ready")

// startz: the server has answered, or its volume is still being prepared; how long that
// takes depends on the data, and the kubelet must not end it half way.
func (h *health) startz() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == starting {
		return fmt.Errorf("%w: the server is starting", errNotReady)
	}
	return nil
}

// readyz: a client can use the server.
func (h *health) readyz() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready {
		return nil
	}
	return fmt.Errorf("%w: %s", errNotReady, h.because)
}

// livez: the server works, or is being prepared, started or stopped within its bound. It
// stays true during a permitted restart.
func (h *health) livez() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.phase {
	case starting:
		if took := h.now().Sub(h.since); took > h.startTimeout+startGrace {
			return fmt.Errorf("the server does not start: it was begun %s ago", took.Round(time.Second))
		}
	case running:
		if silent := h.now().Sub(h.heard); silent > deaf {
			return fmt.Errorf("the server has not answered for %s", silent.Round(time.Second))
		}
	case preparing, stopping:
	}
	return nil
}

func (h *health) handler(m *metrics) http.Handler {
	mux := http.NewServeMux()
	for path, probe := range map[string]func() error{"/startz": h.startz, "/readyz": h.readyz, "/livez": h.livez} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := probe(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintln(w, "ok")
		})
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		// Each one asks the server.
		MaxRequestsInFlight: 2,
		Timeout:             scrapeTimeout + time.Second,
	}))
	return mux
}

// serveHTTP until the context ends. Without its port the agent is of no use to the
// kubelet: it tries again for ever.
func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	s := &http.Server{
		Handler: handler,
		// The memory is the server's as well: whoever is slow is sent away. There is no limit
		// of connections, for the kubelet's own would be refused along with all others.
		ReadTimeout: 3 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: 15 * time.Second, MaxHeaderBytes: 4 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve %s: %w", address, err)
	}
	return nil
}
