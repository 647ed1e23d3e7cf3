package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tollhouse/handlers/admin"
)

var descFinding = describe("finding", "1 if this finding of doctor lasts in this state, otherwise 0.", "check", "state")

// findingGauge reads the table of findings at each scrape.
type findingGauge struct{ r *running }

// Describe implements prometheus.Collector.
func (g findingGauge) Describe(to chan<- *prometheus.Desc) { to <- descFinding }

// Collect implements prometheus.Collector. What is not known now counts as absent.
func (g findingGauge) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	states := map[string]string{}
	for _, f := range (checkup{data: g.r.data(), server: g.r}).lasting(ctx, func(string) {}) {
		if states[f.check] != admin.StateProblem {
			states[f.check] = f.state
		}
	}
	for _, check := range checksOfRows() {
		for _, state := range []string{admin.StateWarning, admin.StateProblem} {
			to <- prometheus.MustNewConstMetric(descFinding, prometheus.GaugeValue, oneIf(states[check] == state), check, state)
		}
	}
}
