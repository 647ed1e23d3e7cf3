package store_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	generated "tollhouse/store/history"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
)

// benchBackupEvents is how many events the stores of these benchmarks hold, on
// disk. A million (TOLLHOUSE_LONG=1000000) takes some minutes to fill in; the ratio
// hardly depends on it, because a backup runs for as long as it is measured.
func benchBackupEvents() int {
	if n, err := strconv.Atoi(os.Getenv("TOLLHOUSE_LONG")); err == nil {
		return max(n, 1000)
	}
	return 100_000
}

// filled returns a store on disk with a history in it.
func filled(b *testing.B) *storetest.Fixture {
	b.Helper()
	f := storetest.OnDisk(b)
	ctx := context.Background()
	im, err := f.NewImporter("acct_a", store.ImportOptions{})
	if err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(generated.New(generated.Plan{Seed: 1, Events: benchBackupEvents(), Span: 90 * 24 * time.Hour, Until: f.Now().Add(-time.Hour)}))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if refused, err := im.Add(ctx, lines.Bytes(), 0); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	return f
}

// BenchmarkWritesBesideBackup records events from 32 writers, with a backup going
// on and without, in turns: ratio is how many times as long they take beside it.
// One of 1.25 is a fifth of the throughput.
//
//	go test ./store -run '^$' -bench WritesBesideBackup -benchtime 10x
func BenchmarkWritesBesideBackup(b *testing.B) {
	const writers, each = 32, 40
	f := filled(b)
	ctx := context.Background()
	object, err := snapshot.Parse([]byte(`{"id":"r1","note":"`+noise(1, 300)+`"}`), 3)
	if err != nil {
		b.Fatal(err)
	}
	write := func() {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for range each {
					e := store.NewEvent{Owner: "acct_b", Type: "plan.updated", Resource: "r1", Source: "bench", Location: fmt.Sprint(w), Object: object}
					if _, err := f.RecordEvent(ctx, e); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	beside := func() time.Duration {
		running, stop := context.WithCancel(ctx)
		var ended sync.WaitGroup
		begun := make(chan struct{})
		ended.Go(func() {
			close(begun)
			for running.Err() == nil {
				_, _ = f.Backup(running, io.Discard, store.BackupNotes{})
			}
		})
		<-begun
		took := storetest.Timed(write)()
		stop()
		ended.Wait()
		return took
	}
	var pairs storetest.Pairs
	for b.Loop() {
		pairs.Take(beside, storetest.Timed(write))
	}
	pairs.Report(b, "beside", "alone")
}

// BenchmarkBackup measures a backup, a check and a restore of an idle store.
func BenchmarkBackup(b *testing.B) {
	f := filled(b)
	file := &countedWriter{}
	for b.Loop() {
		began := time.Now()
		totals, err := f.Backup(context.Background(), file, store.BackupNotes{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(totals.Bytes)/(1<<20)/time.Since(began).Seconds(), "MiB/s")
		b.ReportMetric(float64(totals.Bytes)/float64(file.n), "packed")
		b.ReportMetric(float64(benchBackupEvents())/time.Since(began).Seconds(), "events/s")
		file.n = 0
	}
}

type countedWriter struct{ n int64 }

func (w *countedWriter) Write(p []byte) (int, error) { w.n += int64(len(p)); return len(p), nil }

// BenchmarkRestore measures a check of a backup, and a restore of it to disk.
func BenchmarkRestore(b *testing.B) {
	file := backUp(b, filled(b))
	for _, c := range []struct {
		name string
		run  func(*store.BackupFile) error
	}{
		{"check", func(f *store.BackupFile) error { _, err := f.Check(context.Background()); return err }},
		{"load", func(f *store.BackupFile) error {
			db := storetest.EmptyOnDisk(b)
			defer db.Close()
			_, err := f.Load(context.Background(), db, time.Now())
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				f, err := store.OpenBackup(bytes.NewReader(file))
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if err := c.run(f); err != nil {
					b.Fatal(err)
				}
				f.Close()
				b.ReportMetric(float64(benchBackupEvents())/time.Since(began).Seconds(), "events/s")
			}
		})
	}
}
