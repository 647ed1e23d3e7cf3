package eventlog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkAppend records events, each in an Update of its own and synced, and reports
// the processor time of one. Before it, each of 48 types had events in every slot that
// its record may count:
//
//	go test -run '^$' -bench Append ./store/eventlog
func BenchmarkAppend(b *testing.B) {
	ctx := context.Background()
	for _, c := range []struct {
		name    string
		step    time.Duration
		writers int
	}{{"one_writer", time.Millisecond, 1}, {"64_writers", time.Millisecond, 64}, {"an_hour_apart", time.Hour, 1}} {
		b.Run(c.name, func(b *testing.B) {
			f := storetest.OnDisk(b)
			object := must.Get(snapshot.Parse([]byte(`{"customerRef":"LTR-1","displayName":"Larkspur Tea Room","company":"Larkspur Tea Room","firstName":"Odile","lastName":"Marchbanks","address1":"18 Quarry Lane","city":"Dunmere","zip":"05091","phone":"8025550143","email":"odile@larkspurtea.example","notes":"asked to be reminded by telephone, never by letter, before each invoice"}`), snapshot.DepthMax))(b)
			record := func(i int) {
				typ := benchTypes[i%len(benchTypes)]
				if _, err := f.Events.RecordEvent(ctx, eventlog.NewEvent{Owner: "acct_bench", Type: typ, Resource: fmt.Sprint("cus_", i%5000), Object: object}); err != nil {
					b.Error(err)
				}
			}
			var filling sync.WaitGroup
			for range 90 {
				for i := range benchTypes {
					filling.Go(func() { record(i) })
				}
				filling.Wait()
				f.Clock.Advance(2 * time.Minute)
			}
			var next atomic.Int64
			b.ResetTimer()
			before := processorTime(b)
			for range c.writers {
				filling.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						f.Clock.Advance(c.step)
						record(int(i))
					}
				})
			}
			filling.Wait()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/1000, "cpu-µs/event")
		})
	}
}
