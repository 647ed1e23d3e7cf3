package eventlog_test

import (
	"bytes"
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

// countKeys are the kinds of key of the rollup.
var countKeys = []byte{record.TagCounts, record.TagCounted, record.TagDirtyHour}

// history imports n events of a kind, one each step, the last one an hour ago.
func importHistory(t *testing.T, f *storetest.Fixture, account string, n int, step time.Duration, kind func(i int) string) {
	t.Helper()
	lines := make([]string, n)
	for i := range lines {
		at := f.Now().Add(-time.Hour - time.Duration(n-1-i)*step).Unix()
		lines[i] = fmt.Sprintf(`{"type":"%s.created","resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, kind(i), i%7, at)
	}
	storetest.ImportLines(t, f.Store, account, lines...)
}

func TestRollup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	plan := func(int) string { return "plan" }
	t.Run("more_hours_than_one_update_and_one_pass_take_are_counted", func(t *testing.T) {
		t.Parallel()
		must.SkipInShort(t)
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 4500, time.Hour, func(i int) string { return fmt.Sprint("kind_", i%3) })
		c.catchUp(t)
		c.check(t)
	})
	t.Run("more_kinds_than_one_update_has_room_for_are_counted", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		long := strings.Repeat("k", 28)
		importHistory(t, c.f, "acct_a", 200*60, 20*time.Second, func(i int) string { return fmt.Sprintf("%s%03d", long, i%200) })
		c.catchUp(t)
		c.check(t)
	})
	t.Run("of_too_many_kinds_the_rest_is_one", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 230, time.Second, func(i int) string { return fmt.Sprintf("kind_%03d", i) })
		c.catchUp(t)
		units, _, err := c.EventCounts(ctx, "acct_a", eventlog.ByDay, time.Unix(0, 0), c.f.Now())
		must.Do(t, err)
		if len(units) != 1 || len(units[0].Tally) != 201 || units[0].Tally[0] != (eventlog.KindCount{Kind: eventlog.OtherKinds, Count: 30}) {
			t.Errorf("counted %v, want 200 kinds and 30 events of others", units)
		}
		if differs, err := c.RepairCounts(ctx); differs || err != nil {
			t.Errorf("RepairCounts() = %v, %v", differs, err)
		}
	})
	t.Run("appending_costs_no_read_and_no_write_more", func(t *testing.T) {
		t.Parallel()
		f, tape := storetest.NewTaped(t)
		must.Get(f.RecordEvent(ctx, newEvent("acct_a", "plan.created", "p1")))(t)
		must.Do(t, f.CatchUpCounts(ctx))
		tape.Commits = nil
		must.Get(f.RecordEvent(ctx, newEvent("acct_a", "plan.updated", "p1")))(t)
		storetest.ImportLines(t, f.Store, "acct_a", fmt.Sprintf(`{"type":"plan.created","resource":"r","eventData":{"object":{}},"createdAt":%d}`, f.Now().Add(time.Second).Unix()))
		for _, commit := range tape.Commits {
			for _, r := range commit {
				if slices.Contains(countKeys, r.Key[0]) {
					t.Errorf("an event above the head wrote a key of the kind %q", r.Key[0])
				}
			}
		}
		if len(tape.Commits) != 2 {
			t.Errorf("%d commits, want 2", len(tape.Commits))
		}
	})
	t.Run("an_hour_of_an_account_takes_at_most_400_bytes", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		const days, kinds = 3, 8
		for _, account := range []string{"acct_larkspur", "acct_demo", "default"} {
			importHistory(t, f, account, days*24*kinds*2, time.Hour/(kinds*2), func(i int) string { return fmt.Sprint("transaction_", i%kinds) })
		}
		must.Do(t, f.CatchUpCounts(ctx))
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
	t.Run("a_deleted_account_leaves_no_count", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 300, time.Hour, plan)
		c.catchUp(t)
		must.Do(t, c.DeleteAccount(ctx, "acct_a"))
		if n := c.f.Count(t, record.TagCounts) + c.f.Count(t, record.TagDirtyHour); n != 0 || c.f.Count(t, record.TagCounted) != 1 {
			t.Errorf("%d counts and marks are left, and %d positions, want the note that the counts are complete", n, c.f.Count(t, record.TagCounted))
		}
	})
	t.Run("a_start_that_finds_no_counts_makes_them", func(t *testing.T) {
		t.Parallel()
		for _, left := range []string{"none", "half", "other_version"} {
			c := newCountedStore(t)
			importHistory(t, c.f, "acct_a", 30, time.Hour, plan)
			c.catchUp(t)
			must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
				switch k := record.CountedKey(""); left {
				case "half": // its removal was cut short
					return errors.Join(tx.Delete(k), tx.Delete(record.CountedKey("acct_a")))
				case "other_version":
					return tx.Set(k, []byte{99}, time.Time{})
				default:
					return tx.Delete(k)
				}
			}))
			c.kill(t)
			c.catchUp(t)
			c.check(t)
		}
	})
	t.Run("counts_that_differ_are_found_and_made_again", func(t *testing.T) {
		t.Parallel()
		for name, damage := range map[string]func(tx kv.Txn, hour, other record.Key) error{
			"hour": func(tx kv.Txn, hour, _ record.Key) error { return tx.Delete(hour) },
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
					importHistory(t, c.f, "acct_a", 30, time.Hour, plan)
					c.catchUp(t)
					unit := uint32(c.f.Now().Add(-5*time.Hour).Unix() / int64(grain.Length().Seconds()))
					keys := record.CountsKey(owner, byte(grain))
					must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
						return damage(tx, append(record.Key(nil), keys...).Uint32(unit), append(record.Key(nil), keys...).Uint32(unit-100))
					}))
					if differs, err := c.RepairCounts(ctx); !differs || err != nil {
						t.Errorf("%s of %q by %q: RepairCounts() = %v, %v, want it to differ", name, owner, grain, differs, err)
					}
					c.warned.Reset()
					c.check(t)
					if differs, err := c.RepairCounts(ctx); differs || err != nil {
						t.Errorf("%s of %q by %q: RepairCounts() = %v, %v after the repair", name, owner, grain, differs, err)
					}
				}
			}
		}
	})
	t.Run("a_log_changed_by_a_version_without_counts_is_counted_again", func(t *testing.T) {
		t.Parallel()
		c := newCountedStore(t)
		importHistory(t, c.f, "acct_a", 30, time.Hour, plan)
		c.catchUp(t)
		must.Get(c.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "r3"}))(t)
		must.Do(t, c.f.DB.Update(ctx, func(tx kv.Txn) error {
			var marks [][]byte
			for k := range tx.Scan(record.NewKey(record.TagDirtyHour).All()) {
				marks = append(marks, slices.Clone(k))
			}
			return record.DeleteKeys(tx, marks...)
		}))
		c.kill(t)
		c.catchUp(t)
		if !strings.Contains(c.warned.String(), "differed") {
			t.Error("the log does not say that the counts were made again")
		}
		c.warned.Reset()
		c.check(t)
	})
	t.Run("counts_made_beside_writers_and_readers_are_exact", func(t *testing.T) {
		t.Parallel()
		f := storetest.OnDisk(t, func(o *store.Options) { o.CountsEvery = time.Millisecond })
		now := f.Now()
		var others sync.WaitGroup
		for _, account := range countedAccounts {
			others.Go(func() {
				for i := range 60 {
					if _, err := f.RecordEvent(ctx, newEvent(account, "plan.updated", fmt.Sprint("p", i%3))); err != nil {
						t.Error(err)
					}
				}
			})
			others.Go(func() {
				for i := range 20 {
					storetest.ImportLines(t, f.Store, account, fmt.Sprintf(`{"id":"old-%d","type":"customer.created","resource":"r","eventData":{"object":{}},"createdAt":%d}`, i, now.Add(-time.Duration(i)*20*time.Minute).Unix()))
				}
			})
			others.Go(func() {
				for range 5 {
					if _, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: account, Kind: "plan", Resource: "p1"}); err != nil && !errors.Is(err, record.ErrNotFound) {
						t.Error(err)
					}
				}
			})
		}
		others.Go(func() {
			for _, g := range []eventlog.Grain{eventlog.BySlot, eventlog.ByHour, eventlog.ByDay, eventlog.BySlot} {
				if _, _, err := f.EventCounts(ctx, "", g, now.Add(-aDay), now.Add(aDay)); err != nil {
					t.Error(err)
				}
			}
		})
		others.Wait()
		f.Rest()
		c := &countedStore{Store: f.Store, f: f, warned: &bytes.Buffer{}}
		c.catchUp(t)
		c.check(t)
		if differs, err := f.RepairCounts(ctx); differs || err != nil {
			t.Errorf("RepairCounts() = %v, %v", differs, err)
		}
	})
	t.Run("the_store_counts_while_it_runs", func(t *testing.T) {
		t.Parallel()
		f := storetest.OnDisk(t, func(o *store.Options) { o.CountsEvery = time.Millisecond })
		for i := range 20 {
			must.Get(f.RecordEvent(ctx, newEvent("acct_a", "plan.created", fmt.Sprint("p", i))))(t)
		}
		for {
			units, behind, err := f.EventCounts(ctx, "", eventlog.ByDay, f.Now().Add(-aDay), f.Now().Add(aDay))
			must.Do(t, err)
			if behind == 0 {
				if len(units) != 1 || units[0].Tally.Total() != 20 {
					t.Errorf("counted %v, want 20 events", units)
				}
				break
			}
			time.Sleep(time.Millisecond)
		}
	})
}
