package agent

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
	"github.com/389ds/function-directoryservice/fn/report"
)

// metrics in Prometheus' format. The server is asked when somebody asks the agent.
type metrics struct {
	registry *prometheus.Registry
	server   *directory.Server
	health   *health
	// operations that the agent sent, besides those of the scrapes.
	operations func() uint64

	// What the agent found last.
	mu       sync.Mutex
	version  string
	suffixes map[string]bool // Ready, by name
	entries  map[string]int  // by name
}

// scrapeTimeout of the server's answer: shorter than Prometheus' own 10 s.
const scrapeTimeout = 5 * time.Second

var (
	upDesc    = describe("up", "Whether the server answers over LDAPI.")
	readyDesc = describe("ready", "Whether clients can use the server, as its readiness probe says.")
	infoDesc  = describe("info", "The version that runs; always 1.", "version")

	startDesc       = describe("start_time_seconds", "When the server started, in seconds since 1970.")
	threadsDesc     = describe("threads", "Worker threads of the server.")
	connectionsDesc = describe("connections", "Connections that are open.")
	connectedDesc   = describe("connections_total", "Connections since the start.")
	operationsDesc  = describe("operations_total", "Operations since the start, by kind.", "operation")
	initiatedDesc   = describe("operations_initiated_total", "Operations of every kind that were begun since the start.")
	completedDesc   = describe("operations_completed_total", "Operations of every kind that were completed since the start.")
	anonymousDesc   = describe("anonymous_binds_total", "Anonymous binds since the start.")
	refusedDesc     = describe("bind_errors_total", "Binds that were refused since the start.")
	sentDesc        = describe("entries_sent_total", "Entries sent to clients since the start.")
	bytesDesc       = describe("bytes_sent_total", "Bytes sent to clients since the start.")

	suffixReadyDesc = describe("suffix_ready", "Whether the server has the suffix, and its data.", "suffix")
	entriesDesc     = describe("suffix_entries", "Entries of the suffix at its top: the root entry and those directly below it.", "suffix")
	cacheHitsDesc   = describe("entry_cache_hits_total", "Searches that the entry cache answered.", "backend")
	cacheTriesDesc  = describe("entry_cache_tries_total", "Searches in the entry cache.", "backend")
	cacheBytesDesc  = describe("entry_cache_bytes", "Size of the entry cache.", "backend")
	cacheLimitDesc  = describe("entry_cache_max_bytes", "Largest size of the entry cache.", "backend")
	cachedDesc      = describe("entry_cache_entries", "Entries in the entry cache.", "backend")

	agentOperations = describe("agent_ldap_operations_total", "LDAP operations that the agent has sent to its own server.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("directoryservice_"+name, help, labels, nil)
}

// newMetrics of a server; operations are those that the agent sends to it besides.
func newMetrics(server *directory.Server, h *health, operations func() uint64) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), server: server, health: h, operations: operations}
	m.registry.MustRegister(m)
	return m
}

// found tells what a pass over the server found.
func (m *metrics) found(r report.Report, entries map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version, m.entries, m.suffixes = r.Version, entries, make(map[string]bool, len(r.Suffixes))
	for name, s := range r.Suffixes {
		m.suffixes[name] = s.State == report.SuffixReady
	}
}

// Describe sends nothing: which suffixes there are is not known before.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect asks the server.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(readyDesc, truth(m.health.isReady()))
	stats, err := m.server.Stats(ctx)
	gauge(upDesc, truth(err == nil))
	counter(agentOperations, float64(m.server.Operations()+m.operations()))
	m.mu.Lock()
	if m.version != "" {
		gauge(infoDesc, 1, m.version)
	}
	for name, ready := range m.suffixes {
		gauge(suffixReadyDesc, truth(ready), name)
	}
	for name, n := range m.entries {
		gauge(entriesDesc, float64(n), name)
	}
	m.mu.Unlock()
	if err != nil {
		return
	}
	gauge(startDesc, float64(stats.StartTime.Unix()))
	gauge(threadsDesc, float64(stats.Threads))
	gauge(connectionsDesc, float64(stats.CurrentConnections))
	counter(connectedDesc, float64(stats.TotalConnections))
	for kind, n := range stats.Operations {
		counter(operationsDesc, float64(n), kind)
	}
	counter(initiatedDesc, float64(stats.OperationsInitiated))
	counter(completedDesc, float64(stats.OperationsCompleted))
	counter(anonymousDesc, float64(stats.AnonymousBinds))
	counter(refusedDesc, float64(stats.BindErrors))
	counter(sentDesc, float64(stats.EntriesSent))
	counter(bytesDesc, float64(stats.BytesSent))
	for name, b := range stats.Backends {
		counter(cacheHitsDesc, float64(b.EntryCacheHits), name)
		counter(cacheTriesDesc, float64(b.EntryCacheTries), name)
		gauge(cacheBytesDesc, float64(b.EntryCacheBytes), name)
		gauge(cacheLimitDesc, float64(b.EntryCacheMaxBytes), name)
		gauge(cachedDesc, float64(b.EntryCacheEntries), name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
