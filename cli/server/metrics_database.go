package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"tollhouse/cli/database"
	"tollhouse/store/kv/pgkv"
)

// databaseGauges reads the state of a store in a database at each scrape. What the
// database itself knows is as of the server's last look at it.
type databaseGauges struct {
	r  *running
	db *database.Engine
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	descQueue        = describe("store_queue_updates", gaugeHelp["store_queue_updates"])
	descQueueMax     = describe("store_queue_limit_updates", gaugeHelp["store_queue_limit_updates"])
	descQueueRefused = describe("store_queue_refused_total", gaugeHelp["store_queue_refused_total"])
	descStoreSize    = describe("store_size_bytes", "Size of the records with their indexes in the database.")

	descConnections = describe("store_connections", "Connections for reading, by state: used, idle, and the limit.", "state")
	descTurnWait    = describe("store_turn_wait_seconds", "Time that the last group of updates waited for its turn and its reads.")
	descLateReads   = describe("store_reads_late_total", "Reads in updates that needed a separate round trip.")
	descRetries     = describe("store_group_retries_total", "Attempts of a group of updates after its first.")
	descUnknown     = describe("store_unknown_outcomes_total", "Groups of updates whose outcome is unknown.")
	descUnavailable = describe("store_unavailable_total", "Reads and updates refused because the database did not answer.")
	descOffset      = describe("store_clock_offset_seconds", "How far this machine's clock is ahead of the database's.")
	descServers     = describe("store_servers", "Servers on the database, including this one; 0 while it does not answer.")
	descSnapshot    = describe("store_snapshot_age_seconds", "Age of the oldest snapshot or replication position in the database, by what holds it.", "holder")
	descJob         = describe("store_job", "1 if this server has the job.", "task") // Prometheus sets a label job itself
	descNotes       = describe("store_notes_total", "Notifications of new events sent to the other servers.")
	descRefused     = describe("store_notes_refused_total", "Notifications dropped because they were not from a server with this key, or were repeated.")
)

// Describe implements prometheus.Collector.
func (g *databaseGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descQueue, descQueueMax, descQueueRefused, descStoreSize, descConnections, descTurnWait, descLateReads, descRetries, descUnknown, descUnavailable, descOffset, descServers, descSnapshot, descJob, descNotes, descRefused} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *databaseGauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
	stats := g.db.Stats()
	gauge(descQueue, float64(stats.Queue))
	gauge(descQueueMax, float64(stats.QueueMax))
	counter(descQueueRefused, stats.QueueFull)
	gauge(descConnections, float64(stats.Used), "used")
	gauge(descConnections, float64(stats.Idle), "idle")
	gauge(descConnections, float64(stats.Max), "limit")
	gauge(descTurnWait, stats.TurnWait.Seconds())
	counter(descLateReads, stats.LateReads)
	counter(descRetries, stats.Retries)
	counter(descUnknown, stats.UnknownOutcomes)
	counter(descUnavailable, stats.Unavailable)
	counter(descNotes, stats.Notes)
	counter(descRefused, stats.NotesRefused)
	state := g.r.presence.State()
	gauge(descOffset, state.Clock.Offset.Seconds())
	gauge(descStoreSize, float64(state.Size))
	servers := 0
	if state.Away == nil {
		servers = len(state.Servers)
	}
	gauge(descServers, float64(servers))
	for _, kind := range pgkv.HolderKinds {
		gauge(descSnapshot, oldestHolder(state, func(of pgkv.HolderKind) bool { return of == kind }).Seconds(), string(kind))
	}
	for _, job := range []pgkv.Job{pgkv.JobSweep, pgkv.JobCheck, pgkv.JobACME, pgkv.JobWebhooks, pgkv.JobAlarm} {
		gauge(descJob, oneIf(g.r.presence.Holds(job)), string(job))
	}
}
