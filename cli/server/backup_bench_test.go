package server

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// BenchmarkWritesBesideScheduledBackup records events from 32 writers, in turns with and
// without a scheduled backup: while it is written, and while it is read back and
// checked. ratio compares the times; 1.25 means a fifth less throughput.
//
//	TOLLHOUSE_LONG=1000000 go test ./cli/server -run '^$' -bench BesideScheduled -benchtime 10x
func BenchmarkWritesBesideScheduledBackup(b *testing.B) {
	events := 50_000
	if n, err := strconv.Atoi(os.Getenv("TOLLHOUSE_LONG")); err == nil {
		events = max(n, 1000)
	}
	r := onDisk(b)
	ctx := context.Background()
	storetest.Fill(b, r.data().Store, events)
	write := storetest.Writers(b, r.data().Store, 32, 400, "of the size of a usual one, more or less, and no larger than that")
	flags := backupFlags{every: term.Duration(time.Hour), keep: backupKeepMax}
	dir := b.TempDir()
	lock := must.Get(datadir.TryLock(dir, "serve"))(b)
	defer lock.Release()
	schedule := must.Get(flags.begin(ctx, dir, r, secret.NewKey(nil), lock, nil))(b)
	began := time.Now()
	must.Do(b, schedule.make(ctx, r.data().Store.Now()))
	b.Logf("a backup of %d events beside nobody took %s", events, time.Since(began))
	files, err := filepath.Glob(filepath.Join(schedule.dir, "*"))
	if err != nil || len(files) != 1 {
		b.Fatalf("files = %q, %v, want the backup", files, err)
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context)
	}{
		{"written", func(ctx context.Context) { _ = schedule.make(ctx, r.data().Store.Now()) }},
		{"checked", func(ctx context.Context) {
			f, err := os.Open(files[0])
			if err != nil {
				b.Error(err)
				return
			}
			defer f.Close()
			_, _ = datadir.ReadBackup(ctx, &datadir.PacedReader{Ctx: ctx, R: f, Rest: datadir.RestAlone}, files[0], nil)
		}},
	} {
		b.Run(phase.name, func(b *testing.B) {
			beside := storetest.Beside(write, phase.run)
			var pairs storetest.Pairs
			for b.Loop() {
				pairs.Take(beside, storetest.Timed(write))
			}
			pairs.Report(b, "beside", "alone")
		})
	}
}
