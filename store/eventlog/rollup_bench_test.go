package eventlog_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// uncounted returns a store over the same engine without a rollup.
func uncounted(b *testing.B, f *storetest.Fixture) *store.Store {
	b.Helper()
	must.Do(b, f.DB.Update(context.Background(), func(tx kv.Txn) error { return tx.Delete(record.CountedKey("")) }))
	return f.Reopened(b)
}

// BenchmarkRollup makes the rollup of a log from nothing, by
//
//	TOLLHOUSE_LONG=1 go test -run '^$' -bench Rollup -benchtime 5x ./store/eventlog
//
// It reports the time, the memory that a pass holds, the size of its records for an hour
// of an account, and how much slower appends are meanwhile.
func BenchmarkRollup(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			f, _ := loaded(b, n)
			b.Run("first", func(b *testing.B) { firstRollup(b, f) })
			b.Run("beside_half_load", func(b *testing.B) { rollupBesideAppends(b, f, true) })
			b.Run("beside_full_load", func(b *testing.B) { rollupBesideAppends(b, f, false) })
		})
	}
}

func firstRollup(b *testing.B, f *storetest.Fixture) {
	ctx := context.Background()
	must.Do(b, uncounted(b, f).CatchUpCounts(ctx)) // the engine's caches are full from here on
	var times []time.Duration
	for b.Loop() {
		s := uncounted(b, f)
		began := time.Now()
		must.Do(b, s.CatchUpCounts(ctx))
		times = append(times, time.Since(began))
	}
	weighed := &weighedDB{DB: f.DB}
	f.DB = weighed
	s := uncounted(b, f)
	weighed.before = storetest.Heap()
	must.Do(b, s.CatchUpCounts(ctx))
	f.DB = weighed.DB
	hours, size := 0, 0
	must.Do(b, f.DB.View(ctx, func(r kv.Reader) error {
		for k, v := range r.Scan(record.NewKey(record.TagCounts).All()) {
			size += len(k) + len(v)
		}
		for range r.Scan(record.CountsKey("acct_bench", byte(eventlog.ByHour)).All()) {
			hours++
		}
		return nil
	}))
	slices.Sort(times)
	slices.Sort(weighed.held)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(times[len(times)/2].Seconds(), "s-median")
	b.ReportMetric(times[len(times)-1].Seconds(), "s-max")
	b.ReportMetric(float64(weighed.held[len(weighed.held)/2])/(1<<20), "MiB-pass")
	b.ReportMetric(float64(size)/float64(hours), "bytes/hour")
}

// weighedDB weighs the memory that a pass holds between reading and writing.
type weighedDB struct {
	kv.DB
	before int64
	held   []int64
}

func (db *weighedDB) Turn() (giveWay func(context.Context)) {
	return func(context.Context) { db.held = append(db.held, storetest.Heap()-db.before) }
}

const (
	besideWriters = 4
	besideEach    = 2500 // events of one writer
)

// rollupBesideAppends compares the slowest hundredth of appends with and without a
// rollup that is made beside them. At half load each writer rests as long as its append
// took.
func rollupBesideAppends(b *testing.B, f *storetest.Fixture, half bool) {
	ctx := context.Background()
	var rolled []time.Duration
	appends := func() time.Duration { return slowest(b, f, half) }
	beside := func() time.Duration {
		var stopped atomic.Bool
		var ended sync.WaitGroup
		ended.Go(func() {
			for !stopped.Load() {
				s := uncounted(b, f)
				began := time.Now()
				must.Do(b, s.CatchUpCounts(ctx))
				if !stopped.Load() {
					rolled = append(rolled, time.Since(began))
				}
			}
		})
		p99 := slowest(b, f, half)
		stopped.Store(true)
		ended.Wait()
		return p99
	}
	var p storetest.Pairs
	for b.Loop() {
		p.Take(beside, appends)
	}
	p.Report(b, "p99-beside", "p99-alone")
	if len(rolled) > 0 {
		slices.Sort(rolled)
		b.ReportMetric(rolled[len(rolled)/2].Seconds(), "rollup-s")
	}
}

// slowest records events from several writers and returns the time that one in a
// hundred exceeds.
func slowest(b *testing.B, f *storetest.Fixture, half bool) time.Duration {
	var mu sync.Mutex
	var times []time.Duration
	var all sync.WaitGroup
	for w := range besideWriters {
		all.Go(func() {
			for i := range besideEach {
				began := time.Now()
				if _, err := f.RecordEvent(context.Background(), newEvent("acct_live", "plan.updated", fmt.Sprintf("r%d_%d", w, i%20))); err != nil {
					b.Error(err)
				}
				took := time.Since(began)
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
				if half {
					time.Sleep(took)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(times)
	return times[len(times)*99/100]
}
