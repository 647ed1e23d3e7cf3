package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/history"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
)

// BenchmarkWritesBesideScheduledBackup records events from 32 writers, in turns
// beside a backup that a server makes by itself and without: while it is written,
// and while it is read back and checked. ratio is how many times as long they take;
// one of 1.25 is a fifth of the throughput.
//
//	TOLLHOUSE_LONG=1000000 go test ./cli -run '^$' -bench BesideScheduled -benchtime 10x
func BenchmarkWritesBesideScheduledBackup(b *testing.B) {
	const writers, each = 32, 400
	events := 50_000
	if n, err := strconv.Atoi(os.Getenv("TOLLHOUSE_LONG")); err == nil {
		events = max(n, 1000)
	}
	r := onDisk(b)
	ctx := context.Background()
	im, err := r.keep.store.NewImporter("acct_a", store.ImportOptions{})
	if err != nil {
		b.Fatal(err)
	}
	plan := history.Plan{Seed: 1, Events: events, Span: 90 * 24 * time.Hour, Until: r.keep.store.Now().Add(-time.Hour)}
	lines := bufio.NewScanner(history.New(plan))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if refused, err := im.Add(ctx, lines.Bytes(), 0); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	object, err := snapshot.Parse([]byte(`{"id":"r1","note":"of the size of a usual one, more or less, and no larger than that"}`), 3)
	if err != nil {
		b.Fatal(err)
	}
	write := func() {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for range each {
					e := store.NewEvent{Owner: "acct_b", Type: "plan.updated", Resource: "r1", Source: "bench", Location: fmt.Sprint(w), Object: object}
					if _, err := r.keep.store.RecordEvent(ctx, e); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	flags := backupFlags{every: lifetime(time.Hour), keep: backupKeepMax}
	schedule, err := flags.begin(b.TempDir(), r.keep, quiet)
	if err != nil {
		b.Fatal(err)
	}
	schedule.api = r.server.Admin()
	began := time.Now()
	if err := schedule.make(ctx, r.keep.store.Now()); err != nil {
		b.Fatal(err)
	}
	b.Logf("a backup of %d events beside nobody took %s", events, time.Since(began))
	files, err := filepath.Glob(filepath.Join(schedule.dir, "*"))
	if err != nil || len(files) != 1 {
		b.Fatalf("files = %q, %v, want the backup", files, err)
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context)
	}{
		{"written", func(ctx context.Context) { _ = schedule.make(ctx, r.keep.store.Now()) }},
		{"checked", func(ctx context.Context) {
			f, err := os.Open(files[0])
			if err != nil {
				b.Error(err)
				return
			}
			defer f.Close()
			_, _ = readBackup(ctx, &gentle{ctx: ctx, r: f, rest: gentlestRest}, files[0])
		}},
	} {
		b.Run(phase.name, func(b *testing.B) {
			beside := func() time.Duration {
				running, stop := context.WithCancel(ctx)
				var ended sync.WaitGroup
				begun := make(chan struct{})
				ended.Go(func() {
					close(begun)
					for running.Err() == nil {
						phase.run(running)
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
		})
	}
}
