package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tollhouse/cli/alarms"
	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/handlers/web"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/record"
)

// The metrics follow the conventions of Prometheus: base units, _total for counters.
// Events are counted as they happen; states are read at each scrape. Labels have few,
// fixed values: a route template, a status class, a reason from the audit record. No
// metric names a client, user or account: these are private and unbounded in number.
type metrics struct {
	registry *prometheus.Registry

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	signIns   *prometheus.CounterVec
	throttled prometheus.Counter

	hashTime, hashWait prometheus.Histogram
	hashRefused        prometheus.Counter
	commitTime, group  prometheus.Histogram
	backupFailures     prometheus.Counter
	thenFailures       prometheus.Counter
	webhooks           webhookMetrics
	alarms             *prometheus.CounterVec

	// The series of requests so far: one lookup in a map instead of hashing the labels
	// twice. The map is replaced, never changed, and bounded by the routes.
	series    atomic.Pointer[map[seriesKey]series]
	appending sync.Mutex
}

type seriesKey struct {
	route, method string
	class         int // first digit of the status
}

type series struct {
	count    prometheus.Counter
	duration prometheus.Observer
}

// The buckets of durations, in seconds. The first ones separate requests served from
// memory, the last ones a slow disk from one that hangs.
var (
	requestBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	commitBuckets  = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	hashBuckets    = []float64{.01, .025, .05, .1, .25, .5, 1, 2}
	groupBuckets   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

func newMetrics() *metrics {
	const grant, reason, route = "grant_type", "reason", "route"
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  counters("http_requests_total", "Requests answered, by route template.", route, "method", "status"),
		durations: histograms("http_request_duration_seconds", "Time from the first line of a request to the end of its response, without requests that wait for events.", requestBuckets, route),
		tokens:    counters("token_requests_total", "Token requests by outcome: issued, or the error code.", grant, "outcome"),
		refusals:  counters("refusals_total", "Refused clients, codes and tokens, by the reason in the audit record.", grant, reason),
		signIns:   counters("sign_ins_total", "Password checks by outcome, and refused codes for a new password.", "outcome"),
		throttled: counter("throttled_total", "Requests refused because of recent failures."),

		hashTime:    histogram("password_hash_duration_seconds", "Time to hash one password.", hashBuckets),
		hashWait:    histogram("password_hash_wait_seconds", "Time that a password waited to be hashed.", hashBuckets),
		hashRefused: counter("password_hash_refused_total", "Passwords not hashed because the queue was full or the wait too long."),
		commitTime:  histogram("store_commit_duration_seconds", "Time to commit one group of updates, including the sync.", commitBuckets),
		group:       histogram("store_commit_updates", "Updates per commit.", groupBuckets),

		backupFailures: counter("backup_failures_total", "Scheduled backups that failed; each is retried."),
		thenFailures:   counter("backup_then_failures_total", "Runs of the program after a backup that failed."),
		webhooks:       newWebhookMetrics(),
		alarms:         counters("alarm_messages_total", "Alarms by outcome: delivered, an attempt that failed, or dropped.", "outcome"),
	}
	m.series.Store(&map[seriesKey]series{})
	for _, outcome := range alarms.Outcomes {
		m.alarms.WithLabelValues(outcome)
	}
	return m
}

// observe counts a finished request.
func (m *metrics) observe(s web.Served) {
	of := m.seriesOf(seriesKey{route: s.Route, method: s.Method, class: statusClass(s.Status)})
	of.count.Inc()
	if !s.Waited {
		of.duration.Observe(s.Took.Seconds())
	}
	if s.GrantType != "" {
		outcome := s.Code
		if outcome == "" {
			outcome = tokensIssued
		}
		m.tokens.WithLabelValues(s.GrantType, outcome).Inc()
	}
	if s.Refusal != "" {
		grant := s.GrantType
		if grant == "" {
			grant = "none"
		}
		m.refusals.WithLabelValues(grant, s.Refusal).Inc()
	}
	if s.SignIn != "" {
		m.signIns.WithLabelValues(string(s.SignIn)).Inc()
	}
	if s.Throttled {
		m.throttled.Inc()
	}
}

// seriesOf returns the series for key and creates it on first use.
func (m *metrics) seriesOf(key seriesKey) series {
	if found, ok := (*m.series.Load())[key]; ok {
		return found
	}
	m.appending.Lock()
	defer m.appending.Unlock()
	all := maps.Clone(*m.series.Load())
	all[key] = m.newSeries(key)
	m.series.Store(&all)
	return all[key]
}

func (m *metrics) newSeries(key seriesKey) series {
	return series{
		count:    m.requests.WithLabelValues(key.route, key.method, strconv.Itoa(key.class)+"xx"),
		duration: m.durations.WithLabelValues(key.route),
	}
}

const tokensIssued = "issued"

// prepare makes the series of everything that may be counted. Prometheus sees no increase
// in a series that appears with its first event.
func (m *metrics) prepare(outcomes []web.Served) {
	m.appending.Lock()
	defer m.appending.Unlock()
	all := maps.Clone(*m.series.Load())
	for _, o := range outcomes {
		switch {
		case o.Route != "":
			for class := 2; class <= 5; class++ {
				key := seriesKey{route: o.Route, method: o.Method, class: class}
				all[key] = m.newSeries(key)
			}
		case o.SignIn != "":
			m.signIns.WithLabelValues(string(o.SignIn))
		case o.Refusal != "":
			m.refusals.WithLabelValues(o.GrantType, o.Refusal)
		default:
			m.tokens.WithLabelValues(o.GrantType, tokensIssued)
		}
	}
	m.series.Store(&all)
}

// statusClass returns 2 for 204, and for no status, since net/http then sends 200.
func statusClass(status int) int {
	if status < 100 || status > 599 {
		return 2
	}
	return status / 100
}

// hashed counts a password that was hashed, or refused a turn.
func (m *metrics) hashed(waited, took time.Duration, refused bool) {
	if refused {
		m.hashRefused.Inc()
		return
	}
	m.hashWait.Observe(waited.Seconds())
	m.hashTime.Observe(took.Seconds())
}

// committed counts a group of updates that the store has committed.
func (m *metrics) committed(updates int, took time.Duration) {
	m.group.Observe(float64(updates))
	m.commitTime.Observe(took.Seconds())
}

// handler answers /metrics for a server.
func (m *metrics) handler(r *running) http.Handler {
	made := sync.OnceValue(func() http.Handler { return m.expose(r) })
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { made().ServeHTTP(w, req) })
}

// expose registers the metrics at the first scrape, so that dev starts faster without it.
func (m *metrics) expose(r *running) http.Handler {
	m.prepare(r.server().Site.Outcomes())
	m.registry.MustRegister(
		m.requests, m.durations, m.tokens, m.refusals, m.signIns, m.throttled,
		m.hashTime, m.hashWait, m.hashRefused, m.commitTime, m.group, m.backupFailures, m.thenFailures, m.webhooks.attempts, m.webhooks.time, m.alarms, webhookGauges{r}, importedGauge{r}, findingGauge{r},
		newGauges(r), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if r.presence != nil {
		m.registry.MustRegister(&databaseGauges{r, r.data().DB.(*database.Engine)})
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(r.log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError, // one failing metric must not hide the others
		Timeout:       metricsTimeout,
	})
}

// metricsTimeout is shorter than the scrape timeout of Prometheus.
const metricsTimeout = 5 * time.Second

const namespace = "tollhouse"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

// gauges reads the state of the server at each scrape.
type gauges struct {
	r     *running
	descs map[string]*prometheus.Desc
}

// gaugeHelp describes the metrics of gauges, except build_info.
var gaugeHelp = map[string]string{
	"ready":                              "1 if the server is ready, as /readyz says, otherwise 0.",
	"connections":                        "Open connections on the public listeners.",
	"connections_limit":                  "Limit of connections on the public listeners; above it the longest idle ones are closed.",
	"password_hash_waiting":              "Passwords waiting to be hashed.",
	"events_recorded_total":              "Events recorded in all accounts, including imported ones.",
	"events_live_readers":                "Streams and long polls waiting for events.",
	"log_lines_dropped_total":            "Lines of the log dropped because it was not read, or could not be written.",
	"audit_lines_lost_total":             "Lines of the audit record that could not be written.",
	"store_queue_updates":                "Updates waiting to be committed.",
	"store_queue_limit_updates":          "Limit of waiting updates; above it updates are refused.",
	"store_transactions":                 "Open transactions in the store, including updates.",
	"store_queue_refused_total":          "Changes refused because others had waited too long, or the queue was full.",
	"store_disk_refused_total":           "Updates refused because of low disk space.",
	"store_size_bytes":                   "Disk space used by the store.",
	"store_free_bytes":                   "Free disk space for the store.",
	"store_free_limit_bytes":             "Free disk space below which changes are refused.",
	"store_free_last_limit_bytes":        "Free disk space below which every update is refused, including revocations and disabling.",
	"store_disk_refused_access_total":    "Sign-ins, grants and refreshes refused because of low disk space.",
	"store_disk_refused_endings_total":   "Revocations and disabling refused because of low disk space.",
	"account_writes_refused_total":       "Updates refused because their account exceeded its write limit.",
	"store_memory_limit_bytes":           "Memory limit of the store's tables and caches, from --memory.",
	"store_damaged":                      "1 if the last check found damage in the store, otherwise 0.",
	"store_last_check_timestamp_seconds": "Unix time of the end of the last check of the store; 0 before the first.",
	"store_last_check_duration_seconds":  "Duration of the last check of the store.",
	"backup_last_timestamp_seconds":      "Unix time of the state in the last backup, scheduled or not; 0 if there is none.",
	"backup_last_size_bytes":             "Size of the last backup.",
	"alarm_waiting":                      "Alarms waiting to be delivered, of all URLs.",
	"backup_interval_seconds":            "Interval of scheduled backups; 0 if there are none.",

	"tls_certificate_not_before_timestamp_seconds": "Unix time from which the certificate in use is valid; 0 while there is none.",
	"tls_certificate_expiry_timestamp_seconds":     "Unix time at which the certificate in use expires; 0 while there is none.",
}

// databaseOwn are those that a store in a database describes itself.
var databaseOwn = map[string]bool{"store_queue_updates": true, "store_queue_limit_updates": true, "store_queue_refused_total": true, "store_size_bytes": true}

func newGauges(r *running) *gauges {
	g := &gauges{r: r, descs: map[string]*prometheus.Desc{}}
	for name, help := range gaugeHelp {
		if r.presence != nil && databaseOwn[name] {
			continue
		}
		g.descs[name] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil)
	}
	g.descs["build_info"] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "build_info"),
		"1, with the version, revision and Go version of the binary as labels.", nil,
		prometheus.Labels{"version": r.version, "revision": r.revision, "goversion": runtime.Version()})
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name string, value float64) {
		to <- prometheus.MustNewConstMetric(g.descs[name], kind, value)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	send(gauge, "build_info", 1)
	send(gauge, "ready", oneIf(g.r.ready() == nil))
	send(gauge, "password_hash_waiting", float64(g.r.data().Hasher.Waiting()))

	connections, _ := g.r.visitors.open()
	send(gauge, "connections", float64(connections))
	send(gauge, "connections_limit", float64(g.r.visitors.most()))

	send(counter, "log_lines_dropped_total", float64(g.r.logDropped()))
	counts := g.r.data().Store.Counts()
	send(counter, "events_recorded_total", float64(counts.EventsRecorded))
	send(gauge, "events_live_readers", float64(counts.LiveReaders))
	send(counter, "audit_lines_lost_total", float64(counts.AuditLost))
	send(counter, "account_writes_refused_total", float64(counts.BudgetRefused))

	if g.r.presence == nil { // a database has gauges of its own
		g.collectEngine(send)
	}
	send(gauge, "store_damaged", oneIf(g.r.damaged() != nil))
	switch c := g.r.checked.Load(); {
	case c != nil:
		send(gauge, "store_last_check_timestamp_seconds", float64(c.ended.UnixMilli())/1000)
		send(gauge, "store_last_check_duration_seconds", c.took.Seconds())
	case g.r.presence == nil: // of the servers on a database, one checks it
		send(gauge, "store_last_check_timestamp_seconds", 0)
		send(gauge, "store_last_check_duration_seconds", 0)
	}
	waiting := 0
	if g.r.alarms != nil {
		waiting = g.r.alarms.Waiting()
	}
	send(gauge, "alarm_waiting", float64(waiting))
	every := time.Duration(0)
	if g.r.backups != nil {
		every = g.r.backups.every
	}
	send(gauge, "backup_interval_seconds", every.Seconds())
	switch made, err := g.r.data().Store.LastBackup(context.Background()); {
	case err == nil:
		send(gauge, "backup_last_timestamp_seconds", float64(made.Created.UnixMilli())/1000)
		send(gauge, "backup_last_size_bytes", float64(made.Bytes))
	case errors.Is(err, record.ErrNotFound):
		send(gauge, "backup_last_timestamp_seconds", 0)
		send(gauge, "backup_last_size_bytes", 0)
	}
	if g.r.certificates != nil {
		c := g.r.certificates.status()
		send(gauge, "tls_certificate_not_before_timestamp_seconds", float64(c.NotBefore))
		send(gauge, "tls_certificate_expiry_timestamp_seconds", float64(c.Expires))
	}
}

// collectEngine sends the state of an engine on this machine.
func (g *gauges) collectEngine(send func(prometheus.ValueType, string, float64)) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	var stats badgerkv.Stats // zero in memory
	if disk, ok := g.r.data().DB.(datadir.DiskEngine); ok {
		stats = disk.Stats()
	}
	send(gauge, "store_queue_updates", float64(stats.Queue))
	send(gauge, "store_queue_limit_updates", float64(stats.QueueMax))
	send(gauge, "store_transactions", float64(stats.Transactions))
	send(counter, "store_queue_refused_total", float64(stats.QueueFull))
	full := stats.DiskFull
	send(counter, "store_disk_refused_total", float64(full[kv.Ordinary]+full[kv.AccessOfBusiest]+full[kv.Access]+full[kv.Ending]+full[kv.Ruling]))
	send(counter, "store_disk_refused_access_total", float64(full[kv.AccessOfBusiest]+full[kv.Access]))
	send(counter, "store_disk_refused_endings_total", float64(full[kv.Ending]+full[kv.Ruling]))
	send(gauge, "store_memory_limit_bytes", float64(stats.MemoryMax))
	// A store in memory has no disk, and a disk that cannot be read is not reported as full.
	if space, ok, err := datadir.SpaceOf(g.r.data().DB); ok && err == nil {
		send(gauge, "store_size_bytes", float64(space.Used))
		send(gauge, "store_free_bytes", float64(space.Free))
		send(gauge, "store_free_limit_bytes", float64(space.FreeMin))
		send(gauge, "store_free_last_limit_bytes", float64(space.FreeEnd))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
