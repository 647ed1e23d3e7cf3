package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollhouse/cli/webhooks"
	"tollhouse/store/webhook"
)

// webhookMetrics count the attempts to deliver events.
type webhookMetrics struct {
	attempts *prometheus.CounterVec
	time     prometheus.Histogram
}

var attemptBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60}

// newWebhookMetrics has every outcome from the start, so that the first one counts as an
// increase.
func newWebhookMetrics() webhookMetrics {
	m := webhookMetrics{
		attempts: counters("webhook_attempts_total", "Attempts to deliver an event to a webhook endpoint, by outcome.", "outcome"),
		time:     histogram("webhook_attempt_seconds", "Time of an attempt to deliver an event.", attemptBuckets),
	}
	for _, o := range webhooks.Outcomes {
		m.attempts.WithLabelValues(string(o))
	}
	return m
}

// observe counts an attempt.
func (m webhookMetrics) observe(o webhooks.Outcome, took time.Duration) {
	m.attempts.WithLabelValues(string(o)).Inc()
	m.time.Observe(took.Seconds())
}

var (
	descEndpoints   = describe("webhook_endpoints", "Webhook endpoints, by state.", "state")
	descFailing     = describe("webhook_failing", "Enabled webhook endpoints whose last attempt failed.")
	descParked      = describe("webhook_parked", "Parked events of webhook endpoints, which are retried.")
	descDead        = describe("webhook_dead", "Dead events of webhook endpoints, which are no longer retried.")
	descUndelivered = describe("webhook_oldest_undelivered_seconds", "Age of the oldest event pending for an enabled webhook endpoint; 0 if none is.")
	descDisabled    = describe("webhook_disabled_total", "Webhook endpoints disabled, by who disabled them.", "by")
	descGaps        = describe("webhook_gaps_total", "Ranges of events removed before they were sent to a webhook endpoint.")
	descHeld        = describe("webhook_held", "1 if all deliveries are held, otherwise 0.")
)

// webhookGauges reads the state of the webhook endpoints at each scrape.
type webhookGauges struct{ r *running }

// Describe implements prometheus.Collector.
func (g webhookGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descEndpoints, descFailing, descParked, descDead, descUndelivered, descDisabled, descGaps, descHeld} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g webhookGauges) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	present := g.r.current.Load()
	s := present.data.Store
	happened := s.Webhooks.Counts()
	for _, by := range []webhook.Cause{webhook.ByAPI, webhook.ByOperator, webhook.ByReceiver, webhook.BySystem} {
		send(counter, descDisabled, float64(happened.Disabled[by]), string(by))
	}
	send(counter, descGaps, float64(happened.Gaps))
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	c, err := countWebhooks(ctx, s, &present.waits)
	if err != nil {
		to <- prometheus.NewInvalidMetric(descEndpoints, err)
		return
	}
	send(gauge, descEndpoints, float64(c.Endpoints-c.Disabled), "enabled")
	send(gauge, descEndpoints, float64(c.Disabled), "disabled")
	send(gauge, descFailing, float64(c.Failing))
	send(gauge, descParked, float64(c.Parked))
	send(gauge, descDead, float64(c.Dead))
	send(gauge, descUndelivered, float64(c.OldestUndelivered))
	send(gauge, descHeld, oneIf(c.Held))
}
