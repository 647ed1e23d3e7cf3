package stats_test

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/stats"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// served is a store whose ring counts, beside a model of it.
type served struct {
	f       *storetest.Fixture
	ring    *stats.Ring
	free    uint64
	model   map[time.Time]slot // by two minutes
	written map[time.Time]slot // what a kill leaves
}

type slot struct {
	requests, refused, refreshes uint64
	free                         uint64
}

// newServed returns a store whose ring is written by the test alone.
func newServed(t testing.TB) *served {
	f := storetest.New(t)
	f.Rest()
	return servedOver(f)
}

func servedOver(f *storetest.Fixture) *served {
	s := &served{f: f, free: 1 << 30, model: map[time.Time]slot{}, written: map[time.Time]slot{}}
	s.begin(s.f.Store)
	return s
}

func (s *served) begin(opened *store.Store) {
	s.ring = opened.Ring()
	s.ring.Begin(func() stats.Disk { return stats.Disk{Used: 1 << 20, Free: s.free} })
}

func (s *served) now() time.Time { return s.f.Now().Truncate(2 * time.Minute) }

func (s *served) count(n int, r stats.Request) {
	for range n {
		s.ring.Count(r)
		at := s.model[s.now()]
		if r.Served {
			at.requests++
		}
		if r.SignIn == stats.SignInRefused {
			at.refused++
		}
		if r.Grant == stats.GrantRefresh {
			at.refreshes++
		}
		s.model[s.now()] = at
	}
}

func (s *served) write(t require) {
	if err := s.ring.Write(context.Background()); err != nil {
		t.Fatalf("Write: %v", err)
	}
	at := s.model[s.now()]
	at.free = s.free
	s.model[s.now()] = at
	s.written = map[time.Time]slot{}
	for start, of := range s.model {
		s.written[start] = of
	}
}

// reopen opens the store again, with what was written.
func (s *served) reopen(t testing.TB) {
	s.model = map[time.Time]slot{}
	for start, of := range s.written {
		s.model[start] = of
	}
	opened := s.f.Reopened(t)
	s.f.Store = opened
	s.begin(opened)
}

type require interface {
	Fatalf(format string, args ...any)
}

// check compares the plots of every range with the model.
func (s *served) check(t require) {
	for _, name := range stats.RangeNames {
		r, _ := stats.NewRange(name, s.f.Now())
		p, err := s.f.Plots(context.Background(), r, "")
		if err != nil {
			t.Fatalf("Plots(%s): %v", name, err)
		}
		for i, start := range r.Starts {
			end := r.End
			if i+1 < len(r.Starts) {
				end = r.Starts[i+1]
			}
			var want slot
			counted, last := false, time.Time{}
			for at, of := range s.model {
				if at.Before(start) || !at.Before(end) {
					continue
				}
				counted = true
				want.requests, want.refused, want.refreshes = want.requests+of.requests, want.refused+of.refused, want.refreshes+of.refreshes
				if of.free > 0 && !at.Before(last) {
					want.free, last = of.free, at
				}
			}
			for _, c := range []struct {
				plot, series string
				want         stats.Value
			}{
				{stats.PlotRequests, "2xx", stats.Value{Known: counted, Number: float64(want.requests)}},
				{stats.PlotRequests, "5xx", stats.Value{Known: counted}},
				{stats.PlotSignIns, "refused", stats.Value{Known: counted, Number: float64(want.refused)}},
				{stats.PlotTokens, "refresh_token", stats.Value{Known: counted, Number: float64(want.refreshes)}},
				{stats.PlotStore, "free", stats.Value{Known: want.free > 0, Number: float64(want.free)}},
			} {
				if got := seriesOf(p, c.plot, c.series).Values[i]; got != c.want {
					t.Fatalf("%s, %s of %s at %s: %+v, want %+v", name, c.series, c.plot, start, got, c.want)
				}
			}
		}
	}
}

func seriesOf(p stats.Plots, plot, series string) stats.Series {
	for _, of := range p.Plots {
		for _, s := range of.Series {
			if of.Name == plot && s.Name == series {
				return s
			}
		}
	}
	return stats.Series{}
}

var (
	page    = stats.Request{Served: true, Timed: true, Took: 3 * time.Millisecond, SignIn: stats.NoSignIn, Grant: stats.NoGrant}
	refused = stats.Request{Served: true, Class: stats.Status2xx, SignIn: stats.SignInRefused, Grant: stats.NoGrant}
	refresh = stats.Request{Served: true, Class: stats.Status2xx, SignIn: stats.NoSignIn, Grant: stats.GrantRefresh}
)

// TestRing: restarts and kills lose nothing that was written, in any range, and a time
// without a server is unknown.
func TestRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newServed(t)
		s.write(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"requests": func(t *rapid.T) {
				s.count(rapid.IntRange(1, 9).Draw(t, "count"), rapid.SampledFrom([]stats.Request{page, refused, refresh}).Draw(t, "request"))
			},
			"minute": func(t *rapid.T) {
				s.f.Clock.Advance(time.Minute)
				s.write(t)
			},
			"hour": func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "hours") {
					s.f.Clock.Advance(time.Hour)
					s.write(t)
				}
			},
			"disk": func(t *rapid.T) { s.free = rapid.Uint64Range(1, 1<<40).Draw(t, "free") },
			"restart": func(rt *rapid.T) {
				s.write(rt)
				s.reopen(t)
			},
			"kill": func(*rapid.T) { s.reopen(t) },
			"down": func(rt *rapid.T) {
				s.write(rt)
				s.f.Clock.Advance(time.Duration(rapid.IntRange(0, 60*24*3).Draw(rt, "minutes")) * time.Minute)
				s.reopen(t)
			},
			"write fails": func(t *rapid.T) {
				s.f.Clock.Advance(time.Duration(rapid.IntRange(0, 1).Draw(t, "hours")) * time.Hour)
				s.f.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
				_ = s.ring.Write(context.Background())
				s.f.Faults.Repair()
				at := s.model[s.now()]
				at.free = s.free
				s.model[s.now()] = at
			},
			"": func(t *rapid.T) { s.check(t) },
		})
	})
}

func TestRingRecords(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("nothing_is_counted_before_a_server_begins", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		f.Ring().Count(page)
		must.Do(t, f.Ring().Write(ctx))
		if n := f.Count(t, record.TagRing); n != 0 {
			t.Errorf("%d records, want none", n)
		}
	})
	t.Run("what_did_not_change_is_not_written", func(t *testing.T) {
		t.Parallel()
		s := newServed(t)
		s.write(t)
		updates := 0
		s.f.Faults.OnUpdate(func(run func() error) error { updates++; return run() })
		for range 3 {
			s.write(t)
		}
		s.count(1, page)
		s.write(t)
		if updates != 1 {
			t.Errorf("%d writes, want 1 for the one request", updates)
		}
	})
	t.Run("the_end_of_the_store_writes_what_was_counted", func(t *testing.T) {
		t.Parallel()
		s := servedOver(storetest.New(t))
		s.count(7, page)
		s.f.Rest()
		s.written = map[time.Time]slot{s.now(): {requests: 7, free: s.free}}
		s.reopen(t)
		s.check(t)
	})
	t.Run("an_hour_takes_at_most_400_bytes_once_it_is_over", func(t *testing.T) {
		t.Parallel()
		s := newServed(t)
		for range 3 * 60 {
			for took := 100 * time.Microsecond; took < time.Second; took += took / 3 {
				s.count(1, stats.Request{Served: true, Timed: true, Took: took, SignIn: stats.SignInRefused, Grant: stats.GrantRefresh})
			}
			s.f.Clock.Advance(time.Minute)
			s.write(t)
		}
		size := 0
		hour := uint32(s.f.Now().Add(-2*time.Hour).Unix() / 3600)
		k := record.RingKey('h').Uint32(hour)
		must.Do(t, s.f.DB.View(ctx, func(r kv.Reader) error {
			v, err := r.Get(k)
			size = len(k) + len(v)
			return err
		}))
		if size > 400 {
			t.Errorf("the record of an ended hour has %d bytes", size)
		}
	})
	t.Run("old_hours_and_days_are_removed", func(t *testing.T) {
		t.Parallel()
		s := newServed(t)
		s.write(t)
		s.f.Clock.Advance(10 * 24 * time.Hour)
		s.write(t)
		must.Do(t, s.ring.Trim(ctx, s.f.Now().Add(-24*time.Hour)))
		if n := s.f.Count(t, record.TagRing); n != 2 {
			t.Errorf("%d records are left, want this hour and day", n)
		}
	})
	t.Run("a_record_survives_a_backup_check", func(t *testing.T) {
		t.Parallel()
		s := newServed(t)
		s.count(5, page)
		s.write(t)
		must.Get(s.f.CheckAll(ctx))(t)
	})
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	for i := range 1000 {
		r := page
		r.Took = time.Duration(i+1) * time.Millisecond
		s.count(1, r)
	}
	waited := page
	waited.Timed, waited.Took = false, time.Minute
	s.count(5000, waited)
	r, _ := stats.NewRange("1h", s.f.Now())
	p := must.Get(s.f.Plots(context.Background(), r, ""))(t)
	for series, want := range map[string]float64{"p50": 0.5, "p95": 0.95} {
		got := seriesOf(p, stats.PlotRequests, series)
		if v := got.Values[29]; !v.Known || math.Abs(v.Number-want) > want*0.125 {
			t.Errorf("%s = %+v, want %v within 12 %%", series, v, want)
		}
		if got.Values[28].Known || got.Total != 0 {
			t.Errorf("%s has a value without a request, or a total: %+v", series, got)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 9, 14, 23, 45, 0, time.FixedZone("", 3600))
	for name, want := range map[string]struct {
		buckets         int
		from, last, end string
	}{
		"1h":  {30, "2026-03-09T12:24:00Z", "2026-03-09T13:22:00Z", "2026-03-09T13:24:00Z"},
		"24h": {24, "2026-03-08T14:00:00Z", "2026-03-09T13:00:00Z", "2026-03-09T14:00:00Z"},
		"7d":  {28, "2026-03-02T18:00:00Z", "2026-03-09T12:00:00Z", "2026-03-09T18:00:00Z"},
		"30d": {30, "2026-02-08T00:00:00Z", "2026-03-09T00:00:00Z", "2026-03-10T00:00:00Z"},
		"1y":  {13, "2025-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"},
	} {
		r, ok := stats.NewRange(name, now)
		if !ok || len(r.Starts) != want.buckets || r.From().Format(time.RFC3339) != want.from ||
			r.Starts[want.buckets-1].Format(time.RFC3339) != want.last || r.End.Format(time.RFC3339) != want.end {
			t.Errorf("%s = %v to %v, %v; want %+v", name, r.Starts, r.End, ok, want)
		}
		if b := r.Before(); !b.End.Equal(r.From()) || len(b.Starts) != want.buckets {
			t.Errorf("%s: the range before is %v to %v", name, b.Starts, b.End)
		}
	}
	for _, name := range []string{"", "2h", "24H", "1y "} {
		if _, ok := stats.NewRange(name, now); ok {
			t.Errorf("%q is a range", name)
		}
	}
}

// TestServersCountTogether: what each server counts adds up, whenever it writes.
func TestServersCountTogether(t *testing.T) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			a, b := storetest.Two(t, dbA, dbB)
			a.Rest()
			b.Rest() // the test alone writes
			servers := []*served{servedOver(a), servedOver(b)}
			total := &served{f: a, ring: a.Ring(), model: map[time.Time]slot{}}
			count := func(n int) {
				for i, s := range servers {
					s.count(n+i, page)
					at := total.model[s.now()]
					at.requests += uint64(n + i)
					total.model[s.now()] = at
				}
			}
			write := func(s *served) {
				must.Do(t, s.ring.Write(t.Context()))
				at := total.model[s.now()]
				at.free = s.free
				total.model[s.now()] = at
			}
			for i := range 40 {
				count(1 + i%3)
				servers[i%2].free += uint64(i)
				write(servers[i%2])
				if i%4 == 3 { // the other writes late, at times into an hour that is over
					a.Clock.Advance(time.Duration(i) * 7 * time.Minute)
				}
			}
			for _, s := range servers {
				write(s)
			}
			for _, s := range servers {
				total.f = s.f
				total.check(t)
			}
			must.Get(a.CheckAll(t.Context()))(t)
		})
	}
}
