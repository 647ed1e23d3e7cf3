package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// importHistory imports n events of a kind, one each step, the last one an hour ago.
func importHistory(t *testing.T, f *storetest.Fixture, account string, n int, step time.Duration, kind func(i int) string) {
	t.Helper()
	lines := make([]string, n)
	for i := range lines {
		at := f.Now().Add(-time.Hour - time.Duration(n-1-i)*step).Unix()
		lines[i] = fmt.Sprintf(`{"type":"%s.created","resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, kind(i), i%7, at)
	}
	storetest.ImportLines(t, f.Store, account, lines...)
}

func ofPlan(int) string { return "plan" }

// writtenCounts returns the keys of counts that the commits of a tape have written.
func writtenCounts(tape *storetest.Tape) (keys []string) {
	for _, commit := range tape.Commits {
		for _, r := range commit {
			if r.Key[0] == record.TagCounts {
				keys = append(keys, string(r.Key))
			}
		}
	}
	return keys
}

// Promise (Monitoring): counting costs an append no further record, but for the first event of a
// type in an hour
func TestAppendsWriteNoCountsWithinAnHour(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, tape := storetest.NewTaped(t)
	recorded := func() {
		t.Helper()
		must.Get(f.Events.RecordEvent(ctx, newEvent("acct_a", "plan.updated", "p1")))(t)
	}
	f.Clock.Advance(time.Hour - f.Now().Sub(f.Now().Truncate(time.Hour)))
	for hour := range 6 {
		tape.Commits = nil
		recorded()
		for range 20 {
			f.Clock.Advance(2 * time.Minute)
			recorded()
		}
		storetest.ImportLines(t, f.Store, "acct_a", fmt.Sprintf(`{"type":"plan.created","resource":"r","eventData":{"object":{}},"createdAt":%d}`, f.Now().Unix()))
		want := 0
		if hour >= 3 {
			want = 2 * 4 // of both types: an hour and a day, of the account and of all
		}
		if keys := writtenCounts(tape); len(keys) != want || len(tape.Commits) != 22 {
			t.Errorf("hour %d: %d commits wrote the counts %q, want %d", hour, len(tape.Commits), keys, want)
		}
		f.Clock.Advance(20 * time.Minute)
	}
	countedIn(f).check(t)
}

func TestCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("of_more_days_than_one_update_has_room_for", func(t *testing.T) {
		t.Parallel()
		must.SkipInShort(t)
		const days, kinds = 250, 60
		f := storetest.New(t, func(o *store.Options) { o.SegmentEvents = 200_000 }) // large batches of removals
		c := countedIn(f)
		long := strings.Repeat("k", 28) // so that the record of a day takes 2 KiB
		importHistory(t, f, "acct_a", days*kinds, 24*time.Hour/kinds, func(i int) string { return fmt.Sprintf("%s%03d", long, i%kinds) })
		for _, again := range []string{"one", "two"} {
			var lines []string
			for i := range days { // below the head
				lines = append(lines, fmt.Sprintf(`{"id":"%s-%d","type":"plan.created","resource":"spread","eventData":{"object":{"notes":%q}},"createdAt":%d}`, again, i, strings.Repeat("n", 3000), f.Now().Add(-time.Duration(i+1)*aDay).Unix()))
			}
			storetest.ImportLines(t, f.Store, "acct_a", lines...)
			c.agrees(t)
			must.Get(c.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "spread"}))(t)
			c.agrees(t)
		}
		must.Do(t, c.DeleteAccount(ctx, "acct_a"))
		if n := f.Count(t, record.TagCounts); n != 0 {
			t.Errorf("%d counts are left of no event", n)
		}
	})
	t.Run("of_types_that_each_leave_an_hour_behind", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		for range 2 {
			importHistory(t, c.f, "acct_a", 900, time.Hour, func(i int) string { return fmt.Sprintf("kind_%03d", i%60) })
			c.agrees(t)
		}
		must.Do(t, c.Events.SetRetention(ctx, 400*time.Hour))
		must.Get(c.TrimEvents(ctx))(t)
		c.agrees(t)
		must.Get(c.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a"}))(t)
		if n := c.f.Count(t, record.TagCounts); n != 0 {
			t.Errorf("%d counts are left of no event", n)
		}
	})
	t.Run("of_many_types_that_each_leave_another_hour_in_one_update", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		for range 3 {
			const types = 150
			importHistory(t, c.f, "acct_a", types, time.Hour, func(i int) string { return fmt.Sprint("kind_", i) })
			c.f.Clock.Advance(10 * time.Hour)
			importHistory(t, c.f, "acct_a", types, time.Second, func(i int) string { return fmt.Sprint("kind_", i) })
			c.f.Clock.Advance(200 * time.Hour)
		}
		if differs, err := c.Events.RepairCounts(ctx); differs || err != nil {
			t.Errorf("RepairCounts() = %v, %v", differs, err)
		}
	})
	t.Run("of_too_many_kinds_the_rest_is_one", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 94, time.Second, func(i int) string { return fmt.Sprintf("kind_%03d", i) })
		units := must.Get(c.Events.EventCounts(ctx, "acct_a", eventlog.ByDay, time.Unix(0, 0), c.f.Now()))(t)
		if len(units) != 1 || len(units[0].Tally) != 65 || units[0].Tally[0] != (eventlog.KindCount{Kind: eventlog.OtherKinds, Count: 30}) {
			t.Errorf("counted %v, want 64 kinds and 30 events of others", units)
		}
	})
	t.Run("an_hour_of_an_account_takes_at_most_400_bytes", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		const days, kinds = 3, 8
		for _, account := range []string{"acct_larkspur", "acct_demo", "default"} {
			importHistory(t, f, account, days*24*kinds*2, time.Hour/(kinds*2), func(i int) string { return fmt.Sprint("transaction_", i%kinds) })
		}
		size := 0
		must.Do(t, f.DB.View(ctx, func(r kv.Reader) error {
			for k, v := range r.Scan(record.NewKey(record.TagCounts).All()) {
				size += len(k) + len(v)
			}
			return nil
		}))
		if each := size / (3 * days * 24); size == 0 || each > 400 {
			t.Errorf("%d bytes an hour and account, want at most 400", each)
		}
	})
	t.Run("of_a_deleted_account_are_gone", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 300, time.Hour, ofPlan)
		must.Do(t, c.DeleteAccount(ctx, "acct_a"))
		if n := c.f.Count(t, record.TagCounts); n != 0 {
			t.Errorf("%d counts are left", n)
		}
	})
	t.Run("that_differ_are_found_and_set_right", func(t *testing.T) {
		t.Parallel()
		for name, damage := range map[string]func(tx kv.Txn, hour, other record.Key) error{
			"missing": func(tx kv.Txn, hour, _ record.Key) error { return tx.Delete(hour) },
			"kind": func(tx kv.Txn, hour, _ record.Key) error {
				return tx.Set(hour, []byte("\x01\x01\x01x\x01"), time.Time{})
			},
			"undecoded": func(tx kv.Txn, hour, _ record.Key) error { return tx.Set(hour, []byte("\x07"), time.Time{}) },
			"additional": func(tx kv.Txn, hour, other record.Key) error {
				return tx.Set(other, []byte("\x01\x01\x01x\x01"), time.Time{})
			},
		} {
			for _, owner := range []string{"acct_a", ""} {
				for _, grain := range []eventlog.Grain{eventlog.ByHour, eventlog.ByDay} {
					c := newCountedStore(t)
					importHistory(t, c.f, "acct_a", 30, time.Hour, ofPlan)
					unit := uint32(c.f.Now().Add(-20*time.Hour).Unix() / int64(grain.Length().Seconds()))
					keys := record.CountsKey(owner, byte(grain))
					must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
						return damage(tx, slices.Clone(keys).Uint32(unit), slices.Clone(keys).Uint32(unit-100))
					}))
					if differs, err := c.Events.RepairCounts(ctx); !differs || err != nil {
						t.Errorf("%s of %q by %q: RepairCounts() = %v, %v, want it to differ", name, owner, grain, differs, err)
					}
					c.agrees(t)
				}
			}
		}
	})
	t.Run("that_are_damaged_refuse_no_event_and_no_removal", func(t *testing.T) {
		t.Parallel()
		for name, v := range map[string]string{"undecoded": "\x07", "too_few": "\x01\x01\x04plan\x01", "none": ""} {
			c := newCountedStore(t)
			importHistory(t, c.f, "acct_a", 30, 10*time.Minute, ofPlan)
			must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
				var keys [][]byte
				for k := range tx.Scan(record.NewKey(record.TagCounts).All()) {
					keys = append(keys, slices.Clone(k))
				}
				for _, k := range keys {
					if v == "" {
						must.Do(t, tx.Delete(k))
						continue
					}
					must.Do(t, tx.Set(k, []byte(v), time.Time{}))
				}
				return nil
			}))
			importHistory(t, c.f, "acct_a", 3, time.Hour, ofPlan)
			must.Get(c.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "r3"}))(t)
			f := c.f
			f.Clock.Advance(5 * time.Hour)
			must.Get(f.Events.RecordEvent(ctx, newEvent("acct_a", "plan.created", "p1")))(t)
			if differs, err := c.Events.RepairCounts(ctx); !differs || err != nil {
				t.Errorf("%s: RepairCounts() = %v, %v, want it to differ", name, differs, err)
			}
			c.agrees(t)
			must.Do(t, c.DeleteAccount(ctx, "acct_a"))
		}
	})
	t.Run("that_change_while_they_are_checked_stay_right", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 30, time.Hour, ofPlan)
		unit := uint32(c.f.Now().Add(-20*time.Hour).Unix() / 3600)
		must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
			return tx.Delete(record.CountsKey("acct_a", byte(eventlog.ByHour)).Uint32(unit))
		}))
		begun := false
		c.f.Faults.OnUpdate(func(run func() error) error {
			if !begun { // after the check has read, and before it writes
				begun = true
				importHistory(t, c.f, "acct_a", 30, time.Hour, func(int) string { return "invoice" })
			}
			return run()
		})
		must.Get(c.Events.RepairCounts(ctx))(t)
		c.f.Faults.Repair()
		hour := c.f.Now().Add(-20 * time.Hour)
		units := must.Get(c.Events.EventCounts(ctx, "acct_a", eventlog.ByHour, hour.Truncate(time.Hour), hour))(t)
		if len(units) != 1 || units[0].Tally[0] != (eventlog.KindCount{Kind: "invoice", Count: 1}) {
			t.Errorf("counted %v, want the invoice that came meanwhile", units)
		}
		must.Get(c.Events.RepairCounts(ctx))(t)
		c.agrees(t)
	})
}

// manyAtOnce has servers record, import, purge and read at the same time.
func manyAtOnce(t *testing.T, f *storetest.Fixture, servers ...*store.Store) {
	ctx := context.Background()
	now := f.Now()
	var all sync.WaitGroup
	for i, s := range servers {
		for _, account := range countedAccounts {
			all.Go(func() {
				for n := range 30 {
					if _, err := s.Events.RecordEvent(ctx, newEvent(account, "plan.updated", fmt.Sprint("p", n%3))); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				for n := range 10 {
					storetest.ImportLines(t, s, account, fmt.Sprintf(`{"id":"old-%d-%d","type":"customer.created","resource":"r","eventData":{"object":{}},"createdAt":%d}`, i, n, now.Add(-time.Duration(n)*40*time.Minute).Unix()))
				}
			})
			all.Go(func() {
				for range 3 {
					if _, err := s.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: account, Kind: "plan", Resource: "p1"}); err != nil && !errors.Is(err, record.ErrNotFound) {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			for _, g := range []eventlog.Grain{eventlog.BySlot, eventlog.ByHour, eventlog.ByDay} {
				if _, err := s.Events.EventCounts(ctx, "", g, now.Add(-aDay), now.Add(aDay)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		c := countedIn(f)
		c.Store = s
		c.agrees(t)
	}
}

func TestCountsOfManyAtOnceAreExact(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	f := storetest.OnDisk(t)
	manyAtOnce(t, f, f.Store)
}

// Promise (Monitoring): what one server records, imports or removes, every server counts
func TestCountsOfTwoServers(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
		recordOne(t, a, "plan.updated")
		countedIn(b).check(t)
		manyAtOnce(t, a, a.Store, b.Store)
	})
}
