package stats_test

import (
	"context"
	"testing"
	"time"

	"tollhouse/store/stats"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestMissed: the hours in which no server counted are known as such, neighbours together; the
// running hour is not among them, nor is an hour in which a server had nothing to count.
//
// Promise (Browsers): the Overview says what just happened, and when no server counted
func TestMissed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	start := f.Now().Truncate(time.Hour)
	ring := f.Ring()
	ring.Begin(func() stats.Disk { return stats.Disk{Used: 1} })
	must.Do(t, ring.Write(ctx))
	f.Clock.Advance(time.Hour)
	must.Do(t, ring.Write(ctx))
	f.Clock.Advance(3 * time.Hour) // two whole hours without a server
	must.Do(t, ring.Write(ctx))
	f.Clock.Advance(time.Hour)
	day, _ := stats.NewRange("24h", f.Now())
	missed := must.Get(f.Plots(ctx, day, ""))(t).Missed()
	want := []stats.Span{{From: day.From(), To: start}, {From: start.Add(2 * time.Hour), To: start.Add(4 * time.Hour)}}
	if len(missed) != 2 || !missed[0].From.Equal(want[0].From) || !missed[0].To.Equal(want[0].To) || !missed[1].From.Equal(want[1].From) || !missed[1].To.Equal(want[1].To) {
		t.Errorf("missed %v, want %v", missed, want)
	}
}
