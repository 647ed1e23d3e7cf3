package store_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// benchBackupEvents is how many events the stores of these benchmarks hold, on disk.
// A million (TOLLHOUSE_LONG=1000000) takes minutes to record. The ratio hardly depends
// on it, because backups run for as long as the measurement.
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
	storetest.Fill(b, f.Store, benchBackupEvents())
	return f
}

// BenchmarkWritesBesideBackup records events from 32 writers, alternately with and
// without a running backup. ratio is the time with a backup over the time without;
// 1.25 is a loss of one fifth of the throughput.
//
//	go test ./store -run '^$' -bench WritesBesideBackup -benchtime 10x
func BenchmarkWritesBesideBackup(b *testing.B) {
	f := filled(b)
	write := storetest.Writers(b, f.Store, 32, 40, noise(1, 300))
	beside := storetest.Beside(write, func(ctx context.Context) { _, _ = f.Backup(ctx, io.Discard, store.BackupNotes{}) })
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
		totals := must.Get(f.Backup(context.Background(), file, store.BackupNotes{}))(b)
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
				f := must.Get(store.OpenBackup(bytes.NewReader(file)))(b)
				began := time.Now()
				must.Do(b, c.run(f))
				f.Close()
				b.ReportMetric(float64(benchBackupEvents())/time.Since(began).Seconds(), "events/s")
			}
		})
	}
}
