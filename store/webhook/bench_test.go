package webhook_test

import (
	"context"
	"testing"

	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// BenchmarkNotMatching is the speed at which an endpoint passes events that it does not
// want: events/s.
func BenchmarkNotMatching(b *testing.B) {
	s := storetest.OnDisk(b)
	storetest.Fill(b, s.Store, 50_000)
	after := record.Position{}
	passed := 0
	for b.Loop() {
		stretch := must.Get(s.Events.Follow(context.Background(), "acct_a", []string{"none.such"}, after, 100))(b)
		if passed += 10_000; !stretch.More {
			stretch.Passed = record.Position{}
		}
		after = stretch.Passed
	}
	b.ReportMetric(float64(passed)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkSettle is the writing of 100 accepted events, synced.
func BenchmarkSettle(b *testing.B) {
	s := storetest.OnDisk(b)
	e, _, err := s.Webhooks.Create(context.Background(), webhook.System, "acct_1", webhook.Settings{URL: hook})
	must.Do(b, err)
	at, n := s.Now().UnixMilli(), int64(0)
	for b.Loop() {
		var done []webhook.Delivery
		for range 100 {
			n++
			done = append(done, outcome(record.NewPosition(at+n, 0, [8]byte{}), webhook.Delivered))
		}
		must.Get(s.Webhooks.Settle(context.Background(), &e, webhook.Progress{Cursor: done[99].Position, Done: done}))(b)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}
