package badgerkv

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// The benchmarks run each floor in the same run and on the same disk, and report ratios
// to it: only these are comparable between machines.
//
//	go test ./store/kv/badgerkv -run '^$' -bench . -benchtime 2s -count 5

const (
	benchRounds = 5 // of ours and its floors, alternating; their medians count
)

// benchValue has the size of a token record.
var benchValue = make([]byte, 200)

// BenchmarkCommit measures durable updates of one Get and one Set against Badger's own
// synced transactions, from as many writers, and against a single msync.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			db := mustOpen(b, Options{Dir: b.TempDir()})
			plain := openPlain(b, db.opts)
			commit := func(n uint64) error {
				return db.Update(context.Background(), func(tx kv.Txn) error {
					return createRecord(n, tx.Get, func(key []byte) error {
						return tx.Set(key, benchValue, time.Time{})
					})
				})
			}
			commitPlain := func(n uint64) error {
				return plain.Update(func(tx *badger.Txn) error {
					return createRecord(n, func(key []byte) ([]byte, error) {
						_, err := tx.Get(key)
						return nil, err
					}, func(key []byte) error { return tx.Set(key, benchValue) })
				})
			}
			floorShare := uint64(min(writers, 8)) // it is slower by about that factor
			var ours, floor, syncs []float64
			b.ResetTimer()
			for round := range benchRounds {
				from, to := uint64(b.N*round/benchRounds), uint64(b.N*(round+1)/benchRounds)
				ours = append(ours, spread(b, writers, from, to, commit))
				b.StopTimer()
				floor = append(floor, spread(b, writers, from/floorShare, to/floorShare, commitPlain))
				syncs = append(syncs, syncRate(b))
				b.StartTimer()
			}
			b.StopTimer()
			b.ReportMetric(median(ours), "updates/s")
			b.ReportMetric(median(floor), "badger-updates/s")
			b.ReportMetric(median(ours)/median(floor), "x-badger")
			b.ReportMetric(median(syncs), "msyncs/s")
			b.ReportMetric(median(ours)/median(syncs), "x-msync")
		})
	}
}

// createRecord is the work of one update: a Get that guards a Set.
func createRecord(n uint64, get func([]byte) ([]byte, error), set func([]byte) error) error {
	key := binary.BigEndian.AppendUint64([]byte("t"), n)
	if _, err := get(key); err == nil {
		return fmt.Errorf("key %d is there already", n)
	}
	return set(key)
}

// spread runs the pieces of work in [from, to) on many goroutines and returns the rate.
func spread(b *testing.B, goroutines int, from, to uint64, work func(n uint64) error) float64 {
	b.Helper()
	if from == to {
		return 0
	}
	var next atomic.Uint64
	next.Store(from)
	var wg sync.WaitGroup
	began := time.Now()
	for range goroutines {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < to; n = next.Add(1) - 1 {
				if err := work(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(to-from) / time.Since(began).Seconds()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// openPlain opens Badger without a committer, with our options.
func openPlain(b *testing.B, opts Options) *badger.DB {
	b.Helper()
	opts.path = b.TempDir()
	engine := opts.engine(nil)
	engine.DetectConflicts = true
	plain := must.Get(badger.Open(engine))(b)
	b.Cleanup(func() {
		if err := plain.Close(); err != nil {
			b.Error(err)
		}
	})
	return plain
}

// syncRate returns how often a second a small change of a mapped file can be
// synced on this disk: the floor of every commit.
func syncRate(b *testing.B) float64 {
	b.Helper()
	file, err := z.OpenMmapFile(b.TempDir()+"/floor", os.O_CREATE|os.O_RDWR, 2*memTableSize)
	if err != z.NewFile {
		b.Fatal(err)
	}
	const rounds = 100
	began := time.Now()
	for i := range rounds {
		copy(file.Data[i*512:], benchValue)
		file.Data[i*512] = byte(i) + 1
		must.Do(b, z.Msync(file.Data))
	}
	rate := rounds / time.Since(began).Seconds()
	must.Do(b, file.Close(-1))
	return rate
}

// BenchmarkView measures a View of four Gets, as in a bearer check, on an idle store and
// beside 64 writers.
func BenchmarkView(b *testing.B) {
	db := mustOpen(b, Options{Dir: b.TempDir()})
	const records = 10_000
	spread(b, 64, 0, records, func(n uint64) error {
		return db.Update(context.Background(), func(tx kv.Txn) error {
			return tx.Set(binary.BigEndian.AppendUint64([]byte("t"), n), benchValue, time.Time{})
		})
	})
	idle := viewTimes(b, db, 20_000, records)

	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	for w := range 64 {
		writers.Go(func() {
			for n := uint64(0); ctx.Err() == nil; n++ {
				_ = db.Update(ctx, func(tx kv.Txn) error {
					return tx.Set(binary.BigEndian.AppendUint64([]byte{'w', byte(w)}, n), benchValue, time.Time{})
				})
			}
		})
	}
	b.ResetTimer()
	loaded := viewTimes(b, db, b.N, records)
	b.StopTimer()
	cancel()
	writers.Wait()

	at := func(times []time.Duration, share float64) float64 {
		return float64(times[int(share*float64(len(times)-1))].Nanoseconds()) / 1e3
	}
	b.ReportMetric(at(idle, 0.5), "idle-p50-µs")
	b.ReportMetric(at(idle, 0.99), "idle-p99-µs")
	b.ReportMetric(at(loaded, 0.5), "loaded-p50-µs")
	b.ReportMetric(at(loaded, 0.99), "loaded-p99-µs")
	b.ReportMetric(at(loaded, 0.5)/at(idle, 0.5), "x-idle-p50")
}

// viewTimes returns how long n views took, sorted.
func viewTimes(b *testing.B, db *DB, n int, records uint64) []time.Duration {
	b.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		must.Do(b, db.View(context.Background(), func(r kv.Reader) error {
			for j := range uint64(4) {
				key := binary.BigEndian.AppendUint64([]byte("t"), (uint64(i)*7919+j*104729)%records)
				if _, err := r.Get(key); err != nil {
					return err
				}
			}
			return nil
		}))
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times
}

// BenchmarkOpenInMemory measures what dev waits for before it is ready.
func BenchmarkOpenInMemory(b *testing.B) {
	for b.Loop() {
		db := must.Get(Open(Options{InMemory: true}))(b)
		b.StopTimer()
		must.Do(b, db.Close())
		b.StartTimer()
	}
}
