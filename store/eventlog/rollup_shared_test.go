package eventlog_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestCountsOfTwoProcesses: two stores over one engine count the same logs. After all is
// counted, the counts of each of them are those of the log.
func TestCountsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		c := newCountedStore(t)
		both := []*store.Store{c.f.Store, c.f.Reopened(t)}
		use := func(t *rapid.T) int { i := rapid.IntRange(0, 1).Draw(t, "store"); c.Store = both[i]; return i }
		with := func(do func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) { use(t); do(t) }
		}
		rt.Repeat(map[string]func(*rapid.T){
			"record":  with(c.record),
			"history": with(c.history),
			"purge":   with(c.purge),
			"erase":   with(c.erase),
			"count":   with(func(t *rapid.T) { must.Do(t, c.CatchUpCounts(ctx)) }),
			"time": func(t *rapid.T) {
				c.f.Clock.Advance(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			},
			"repair": with(func(t *rapid.T) {
				must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
					for k := range tx.Scan(record.CountsKey("", byte(eventlog.ByDay)).All()) {
						return tx.Delete(slices.Clone(k))
					}
					return nil
				}))
				must.Get(c.RepairCounts(ctx))(t)
				c.warned.Reset()
			}),
			"reopen": func(rt *rapid.T) { both[use(rt)] = c.f.Reopened(t) },
			"the other one counts between reading and writing": func(t *rapid.T) {
				i, begun := use(t), false
				change := rapid.SampledFrom([]func(*rapid.T){func(*rapid.T) {}, c.history, c.purge, c.record, c.erase}).Draw(t, "change")
				at, updates := rapid.IntRange(0, 3).Draw(t, "update"), 0
				c.f.Faults.OnUpdate(func(run func() error) error {
					if updates++; updates > at && !begun {
						begun = true
						c.Store = both[1-i]
						change(t)
						must.Do(t, c.CatchUpCounts(ctx))
					}
					return run()
				})
				err := both[i].CatchUpCounts(ctx)
				c.f.Faults.Repair()
				must.Do(t, err)
			},
		})
		for _, s := range both {
			c.Store = s
			for _, owner := range countedAccounts { // each finds what the other one has counted
				must.Get(c.RecordEvent(ctx, newEvent(owner, "plan.updated", "last")))(rt)
			}
			c.catchUp(rt)
			c.check(rt)
			if differs, err := c.RepairCounts(ctx); differs || err != nil {
				rt.Fatalf("RepairCounts() = %v, %v", differs, err)
			}
		}
	})
}

func TestTwoProcessesCountAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := newCountedStore(t)
	var all sync.WaitGroup
	both := []*store.Store{c.f.Store, c.f.Reopened(t)}
	for i, s := range both {
		account := countedAccounts[i]
		all.Go(func() {
			for n := range 60 {
				if _, err := s.RecordEvent(ctx, newEvent(account, "plan.updated", fmt.Sprint("p", n%3))); err != nil {
					t.Error(err)
				}
				storetest.ImportLines(t, s, account, fmt.Sprintf(`{"id":"old-%d","type":"customer.created","resource":"r","eventData":{"object":{}},"createdAt":%d}`, n, c.f.Now().Add(-time.Duration(n)*20*time.Minute).Unix()))
			}
		})
		all.Go(func() {
			for range 60 {
				if err := s.CatchUpCounts(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range both {
		must.Do(t, s.CatchUpCounts(ctx))
	}
	for _, g := range []eventlog.Grain{eventlog.ByHour, eventlog.ByDay} {
		got, _ := c.counted(t, g, time.Unix(0, 0), c.f.Now().Add(aDay))
		if want := c.listed(t, g); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("grain %q: counted\n%v\nand the lists have\n%v", g, got, want)
		}
	}
}

// TestCountsByOneServerOfWhatAnotherRecords: the plots of a server have what another one
// records, without a start and without an event of its own.
func TestCountsByOneServerOfWhatAnotherRecords(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
		ctx := context.Background()
		counted := func() (n uint64) {
			must.Do(t, b.CatchUpCounts(ctx))
			units, _, err := b.EventCounts(ctx, "acct_a", eventlog.BySlot, b.Now().Add(-time.Hour), b.Now().Add(time.Hour))
			must.Do(t, err)
			for _, u := range units {
				n += u.Tally.Total()
			}
			return n
		}
		for want := range uint64(3) {
			for begun := time.Now(); counted() != want; time.Sleep(time.Millisecond) {
				if time.Since(begun) > wokenMax {
					t.Fatalf("%d events counted, want %d", counted(), want)
				}
			}
			recordOne(t, a, "plan.updated")
			if want > 0 {
				must.Do(t, a.CatchUpCounts(ctx)) // the other one then counts by slot only
			}
		}
	})
}
