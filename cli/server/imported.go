package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
)

// importedStatus returns the imported password hashes of a store, or nil if it has none.
func importedStatus(ctx context.Context, s *store.Store) (*admin.ImportedStatus, error) {
	found, err := s.ImportedHashes(ctx)
	if err != nil || found.Users == 0 {
		return nil, err
	}
	status := admin.ImportedStatus{Users: found.Users, Oldest: found.Oldest.Unix()}
	for _, k := range found.Kinds {
		status.Kinds = append(status.Kinds, admin.ImportedKind(k))
	}
	return &status, nil
}

// importedRow is the line of the status command.
func importedRow(i admin.ImportedStatus, now time.Time) term.Row {
	return term.Row{"imported hashes", fmt.Sprintf("%s, the oldest for %s", term.Count(int64(i.Users), "user", "users"), daysSince(i.Oldest, now))}
}

// imported says how many users still have the password hash of another system. Its database is
// needed until they have signed in.
func (u checkup) imported(ctx context.Context) {
	const check = "imported hashes"
	found, err := importedStatus(ctx, u.data.Store)
	users := 0
	if err == nil && found != nil {
		users, err = u.data.Store.CountUsers(ctx)
	}
	switch {
	case err != nil:
		u.report(problemReading(check, err))
	case found != nil:
		have := "users still have"
		if found.Users == 1 {
			have = "users still has"
		}
		u.report(allRight(check, "%s of %s %s an imported hash, the oldest for %s", grouped(found.Users), grouped(uint64(users)), have, daysSince(found.Oldest, u.data.Store.Now())))
	}
}

func daysSince(seconds int64, now time.Time) string {
	return term.Count(int64(now.Sub(time.Unix(seconds, 0))/(24*time.Hour)), "day", "days")
}

// grouped writes a number with commas between its thousands.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

var descImported = describe("imported_hashes", "Users with a password hash of another system, who have not signed in since the import.", "kind", "wrapped")

// importedGauge reads the counts of imported hashes at each scrape.
type importedGauge struct{ r *running }

// Describe implements prometheus.Collector.
func (g importedGauge) Describe(to chan<- *prometheus.Desc) { to <- descImported }

// Collect implements prometheus.Collector.
func (g importedGauge) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	found, err := g.r.data().Store.ImportedHashes(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(descImported, err)
		return
	}
	for _, k := range found.Kinds {
		to <- prometheus.MustNewConstMetric(descImported, prometheus.GaugeValue, float64(k.Users), k.Kind, strconv.FormatBool(k.Wrapped))
	}
}
