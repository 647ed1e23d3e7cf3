package handlers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tollhouse/store/stats"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// BenchmarkDeskOverview draws the Overview of each range, for all accounts and for one,
// over a year of three accounts with events in every hour, and of the ring, by
//
//	go test -run '^$' -bench DeskOverview ./handlers
//
// With TOLLHOUSE_LONG=1 there are a million events.
func BenchmarkDeskOverview(b *testing.B) {
	h := newHouse(b, withDesk())
	const hours = 365 * 24
	perHour := 2
	if must.Long() {
		perHour = 38
	}
	kinds := []string{"customer", "account", "transaction", "invoice", "recurring", "batch", "deposit", "token"}
	now := h.Now()
	for _, account := range []string{"acct_a", "acct_b", "acct_c"} {
		for month := range hours / 730 {
			var lines []string
			for i := range 730 * perHour {
				at := now.Add(-hours*time.Hour + time.Duration(month*730)*time.Hour + time.Duration(i)*time.Hour/time.Duration(perHour))
				lines = append(lines, fmt.Sprintf(`{"type":"%s.created","resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, kinds[i%len(kinds)], i%9, at.Unix()))
			}
			storetest.ImportLines(b, h.Store, account, lines...)
		}
	}
	h.Clock.Advance(-hours * time.Hour)
	ring := h.Ring()
	ring.Begin(func() stats.Disk { return stats.Disk{Used: 1 << 20, Free: 1 << 30} })
	for range hours {
		for took := time.Millisecond; took < time.Second; took *= 2 {
			ring.Count(stats.Request{Served: true, Timed: true, Class: stats.Status2xx, Took: took})
		}
		must.Do(b, ring.Write(b.Context()))
		h.Clock.Advance(time.Hour)
	}
	browser := h.signedIn(b, h.operator(b, "olga"))
	for _, of := range []string{"", "&account=acct_a"} {
		for _, name := range stats.RangeNames {
			b.Run(name+of, func(b *testing.B) {
				var times []time.Duration
				for b.Loop() {
					began := time.Now()
					wantStatus(b, browser.get(b, "/desk?range="+name+of), 200)
					times = append(times, time.Since(began))
				}
				slices.Sort(times)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
				b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, "ms-max")
			})
		}
	}
}
