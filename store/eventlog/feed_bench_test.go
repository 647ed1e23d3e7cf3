package eventlog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// BenchmarkFeed records events of a thousand accounts, each in an Update of its own and
// synced, with the feed and without it, and compares the times:
//
//	go test -run '^$' -bench Feed ./store/eventlog
func BenchmarkFeed(b *testing.B) {
	for _, engine := range []string{"on_disk", "in_postgres"} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", engine, writers), func(b *testing.B) {
				on, off := appends(b, engine, feedDay, writers), appends(b, engine, 0, writers)
				var p storetest.Pairs
				for b.Loop() {
					p.Take(on, off)
				}
				p.Report(b, "with", "without")
			})
		}
	}
}

func appends(b *testing.B, engine string, kept time.Duration, writers int) storetest.Work {
	b.Helper()
	const accounts, each = 1000, 16
	f := storetest.OnDisk(b)
	if engine == "in_postgres" {
		f = storetest.InPostgres(b)
	}
	ctx := context.Background()
	must.Do(b, f.Events.SetFeed(ctx, kept))
	object := must.Get(snapshot.Parse([]byte(`{"displayName":"Larkspur Tea Room","address1":"18 Quarry Lane","city":"Dunmere","email":"odile@larkspurtea.example"}`), snapshot.DepthMax))(b)
	var n atomic.Int64
	record := func() {
		i := int(n.Add(1))
		e := eventlog.NewEvent{Owner: fmt.Sprint("acct_", i%accounts), Type: benchTypes[i%8], Resource: fmt.Sprint("cus_", i%5000), Object: object}
		if _, err := f.Events.RecordEvent(ctx, e); err != nil {
			b.Error(err)
		}
	}
	work := func() {
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range each {
					record()
				}
			})
		}
		all.Wait()
		f.Clock.Advance(time.Millisecond)
	}
	for range 2*accounts/(writers*each) + 1 {
		work() // the accounts and their types are known
	}
	return storetest.Timed(work)
}
