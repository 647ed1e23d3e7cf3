package stats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tollhouse/store/stats"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// importEvents imports n events of a kind at a time before now.
func importEvents(t testing.TB, f *storetest.Fixture, account, kind string, ago time.Duration, n int) {
	t.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"id":"%s-%s-%s-%d","type":"%s.created","resource":"r1","eventData":{"object":{}},"createdAt":%d}`, account, kind, ago, i, kind, f.Now().Add(-ago).Unix())
	}
	storetest.ImportLines(t, f.Store, account, lines...)
}

func TestEventsPlot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	for i, kind := range []string{"one", "two", "three", "four", "five", "six", "other"} {
		importEvents(t, f, "acct_a", kind, 5*time.Hour, 10-i)
	}
	importEvents(t, f, "acct_a", "two", 10*time.Minute, 4)
	importEvents(t, f, "acct_b", "six", 3*24*time.Hour, 50)
	day, _ := stats.NewRange("24h", f.Now())
	t.Run("the_most_frequent_kinds_come_first_and_the_rest_is_one", func(t *testing.T) {
		t.Parallel()
		p := must.Get(f.Plots(ctx, day, "acct_a"))(t)
		var got []string
		for _, s := range p.Plots[0].Series {
			got = append(got, fmt.Sprintf("%s %v at 5h %v", s.Name, s.Total, s.Values[18].Number))
		}
		want := []string{"two 13 at 5h 9", "one 10 at 5h 10", "three 8 at 5h 8", "four 7 at 5h 7", "five 6 at 5h 6", "other 9 at 5h 9"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("series %q, want %q", got, want)
		}
	})
	t.Run("every_range_counts_what_lies_in_it", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]float64{"1h": 4, "24h": 53, "7d": 103, "30d": 103, "1y": 103} {
			r, _ := stats.NewRange(name, f.Now())
			p := must.Get(f.Plots(ctx, r, ""))(t)
			total := 0.0
			for _, s := range p.Plots[0].Series {
				total += s.Total
				for i, v := range s.Values {
					if !v.Known {
						t.Errorf("%s: bucket %d of %s is unknown", name, i, s.Name)
					}
				}
			}
			if total != want {
				t.Errorf("%s: %v events, want %v", name, total, want)
			}
		}
	})
	t.Run("the_hour_before_is_counted_by_slot_too", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		importEvents(t, f, "acct_a", "plan", 100*time.Minute, 7)
		hour, _ := stats.NewRange("1h", f.Now())
		p := must.Get(f.Plots(ctx, hour.Before(), ""))(t)
		if got := seriesOf(p, stats.PlotEvents, "plan").Total; got != 7 {
			t.Errorf("%v events in the hour before, want 7", got)
		}
	})
	t.Run("the_busiest_accounts", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{"1h": "[{acct_a 4}]", "24h": "[{acct_a 53}]", "7d": "[{acct_a 53} {acct_b 50}]"} {
			r, _ := stats.NewRange(name, f.Now())
			if got := fmt.Sprint(must.Get(f.BusiestAccounts(ctx, r, 5))(t)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		r, _ := stats.NewRange("7d", f.Now())
		if got := must.Get(f.BusiestAccounts(ctx, r, 1))(t); len(got) != 1 {
			t.Errorf("%v, want one account", got)
		}
	})
}

// BenchmarkPlots reads the plots of each range over a year of three accounts and of the
// ring, by
//
//	go test -run '^$' -bench Plots ./store/stats
func BenchmarkPlots(b *testing.B) {
	ctx := context.Background()
	f := storetest.OnDisk(b)
	f.Rest()
	const hours = 365 * 24
	for _, account := range []string{"acct_a", "acct_b", "acct_c"} {
		lines := make([]string, 0, 6*hours)
		for hour := range hours {
			for i, kind := range []string{"customer", "account", "transaction", "invoice", "recurring", "batch"} {
				lines = append(lines, fmt.Sprintf(`{"type":"%s.created","resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, kind, i, f.Now().Add(time.Duration(hour)*time.Hour).Unix()))
			}
		}
		f.Clock.Advance(hours * time.Hour)
		storetest.ImportLines(b, f.Store, account, lines...)
		f.Clock.Advance(-hours * time.Hour)
	}
	ring := f.Ring()
	ring.Begin(func() stats.Disk { return stats.Disk{Used: 1 << 20, Free: 1 << 30} })
	for range hours {
		for took := time.Millisecond; took < time.Second; took *= 2 {
			r := page
			r.Took = took
			ring.Count(r)
		}
		must.Do(b, ring.Write(ctx))
		f.Clock.Advance(time.Hour)
	}
	for _, name := range stats.RangeNames {
		b.Run(name, func(b *testing.B) {
			r, _ := stats.NewRange(name, f.Now())
			for b.Loop() {
				must.Get(f.Plots(ctx, r, ""))(b)
				must.Get(f.BusiestAccounts(ctx, r, 5))(b)
			}
		})
	}
}
