package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// manyEvents records events of two days, of four types on four resources. They fill
// several batches of a removal, and all but the last ones are old.
func manyEvents(t *testing.T, f *storetest.Fixture, account string, count int) {
	t.Helper()
	begin := f.Now().Add(-48 * time.Hour).Unix()
	lines := make([]string, count)
	for i := range lines {
		id := ""
		if i%3 == 0 {
			id = fmt.Sprintf(`"id":"%s-%d",`, account, i)
		}
		lines[i] = fmt.Sprintf(`{%s"type":"%s.%s","resource":"r%d","eventData":{"object":{}},"createdAt":%d}`,
			id, []string{"customer", "plan"}[i%2], []string{"created", "updated"}[i/2%2], i/4%4, begin+int64(i))
	}
	storetest.ImportLines(t, f.Store, account, lines...)
}

// left returns the size of a list, after a check of the whole log.
func left(t *testing.T, f *storetest.Fixture, account string) int {
	t.Helper()
	n := must.Get(f.Events.CheckEvents(context.Background(), account))(t)
	return n
}

const aDay = 24 * time.Hour

// Promise (§2.4): events do not change; an audited purge removes them and their snapshots, then 404
func TestPurge(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("a_purge_that_is_cut_short_anywhere_leaves_whole_events_and_is_finished_by_another", func(t *testing.T) {
		t.Parallel()
		for _, p := range []eventlog.Purge{{}, {Kind: "customer", Resource: "r1"}} {
			for failAt := range 8 {
				for _, applied := range []bool{false, true} {
					f := storetest.New(t)
					p.Account = "acct_a"
					manyEvents(t, f, p.Account, 500)
					manyEvents(t, f, "acct_b", 10)
					f.CutAt(failAt, applied)
					_, err := f.PurgeEvents(ctx, store.By{}, p)
					f.Faults.Repair()
					if err != nil && !errors.Is(err, record.ErrUnavailable) {
						t.Fatal(err)
					}
					left(t, f, p.Account)
					for range 2 {
						must.Get(f.PurgeEvents(ctx, store.By{}, p))(t)
					}
					want := 0
					if p.Resource != "" {
						want = 500 - 62 // 31 whole rounds of 16 events with 2 of them, and none in the rest
					}
					if got := left(t, f, p.Account); got != want {
						t.Errorf("%+v, broken at %d: %d events are left, want %d", p, failAt, got, want)
					}
					if got := left(t, f, "acct_b"); got != 10 {
						t.Errorf("another account has %d events, want 10", got)
					}
				}
			}
		}
	})
	t.Run("a_purge_that_did_not_begin_has_no_audit_line_and_one_that_did_has", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		manyEvents(t, f, "acct_a", 400)
		for failAt, want := range []int{0, 1} {
			f.CutAt(failAt, false)
			_, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "r2"})
			f.Faults.Repair()
			if !errors.Is(err, record.ErrUnavailable) {
				t.Fatalf("PurgeEvents() = %v, want it to break", err)
			}
			if list, _ := f.AuditReasons(t, record.Position{}, 10); len(list) != want {
				t.Errorf("broken at %d, the record has %q, want %d lines", failAt, list, want)
			}
			_, err = f.Events.FindResource(ctx, "acct_a", "plan", "r2")
			if gone := errors.Is(err, record.ErrNotFound); gone != (want == 1) {
				t.Errorf("broken at %d, the snapshot: %v", failAt, err)
			}
		}
	})
	t.Run("what_is_recorded_while_a_purge_runs_stays_with_its_snapshot", func(t *testing.T) {
		t.Parallel()
		for _, p := range []eventlog.Purge{{}, {Kind: "plan", Resource: "r2"}} {
			f := storetest.New(t)
			p.Account = "acct_a"
			manyEvents(t, f, p.Account, 400)
			begun, inside := false, false
			f.Faults.OnUpdate(func(run func() error) error {
				if err := run(); err != nil || begun || inside {
					return err
				}
				begun, inside = true, true
				_, err := f.Events.RecordEvent(ctx, newEvent(p.Account, "plan.updated", "r2"))
				inside = false
				return err
			})
			removed, err := f.PurgeEvents(ctx, store.By{}, p)
			f.Faults.Repair()
			must.Do(t, err)
			if got := left(t, f, p.Account); got != 401-removed.Events {
				t.Errorf("%d events are left, and %d were removed of 401", got, removed.Events)
			}
			if _, err := f.Events.FindResource(ctx, p.Account, "plan", "r2"); err != nil {
				t.Errorf("the snapshot of the new event: %v", err)
			}
		}
	})
	t.Run("of_history_imported_while_a_purge_runs_both_event_and_snapshot_stay_or_none", func(t *testing.T) {
		t.Parallel()
		for _, p := range []eventlog.Purge{{}, {Kind: "plan", Resource: "r2"}} {
			stayed := map[bool]int{}
			for _, at := range []int{5, 95} { // among the first events and the last ones
				for after, imported := 0, true; imported; after++ {
					f := storetest.New(t)
					p.Account = "acct_a"
					manyEvents(t, f, p.Account, 100)
					line := fmt.Sprintf(`{"id":"late","type":"plan.updated","resource":"r2","eventData":{"object":{}},"createdAt":%d}`, f.Now().Add(-48*time.Hour).Unix()+int64(at))
					updates := 0
					imported = false
					f.Faults.OnUpdate(func(run func() error) error {
						err := run()
						if updates++; updates == after+1 {
							imported = true
							storetest.ImportLines(t, f.Store, p.Account, line)
						}
						return err
					})
					must.Get(f.PurgeEvents(ctx, store.By{}, p))(t)
					f.Faults.Repair()
					_, eventErr := f.Events.FindEvent(ctx, p.Account, "late", nil)
					_, snapshotErr := f.Events.FindResource(ctx, p.Account, "plan", "r2")
					if (eventErr == nil) != (snapshotErr == nil) {
						t.Errorf("%+v, imported after update %d: the event: %v, its snapshot: %v", p, after, eventErr, snapshotErr)
					}
					left(t, f, p.Account)
					if imported {
						stayed[eventErr == nil]++
					}
				}
			}
			if stayed[true] == 0 || stayed[false] == 0 {
				t.Errorf("%+v: imported events stayed %d times and were removed %d times, want both", p, stayed[true], stayed[false])
			}
		}
	})
	t.Run("a_purge_counts_what_it_removed", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		manyEvents(t, f, "acct_a", 16)
		if got, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "r2"}); err != nil || got != (eventlog.Purged{Events: 2, Resources: 1}) {
			t.Errorf("PurgeEvents() of a resource = %+v, %v, want 2 events and 1 resource", got, err)
		}
		if got, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a"}); err != nil || got != (eventlog.Purged{Events: 14, Resources: 7}) {
			t.Errorf("PurgeEvents() of the rest = %+v, %v, want 14 events and 7 resources", got, err)
		}
	})
	t.Run("a_purge_names_an_account_and_both_or_none_of_kind_and_resource", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		manyEvents(t, f, "acct_a", 4)
		var bad *record.InvalidError
		for _, p := range []eventlog.Purge{{Kind: "plan"}, {Resource: "r1"}, {Kind: "Plan", Resource: "r1"}, {Kind: "plan", Resource: "r\x001"}} {
			p.Account = "acct_a"
			if _, err := f.PurgeEvents(ctx, store.By{}, p); !errors.As(err, &bad) {
				t.Errorf("PurgeEvents(%+v) = %v, want a refusal", p, err)
			}
		}
		for _, account := range []string{"", "acct_b", "a\x00b"} {
			if _, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: account}); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("PurgeEvents(%q) = %v, want ErrNotFound", account, err)
			}
		}
		if got := left(t, f, "acct_a"); got != 4 {
			t.Errorf("%d events are left, want 4", got)
		}
	})
}

// Readers find an event in all lists or in none while others remove and record.
func TestRemovalBesideReaders(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	ctx := context.Background()
	f := storetest.OnDisk(t)
	const account, count = "acct_a", 1200
	manyEvents(t, f, account, count)
	must.Do(t, f.Events.SetRetention(ctx, aDay))
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ended := false; !ended; { // once more when all is done
				select {
				case <-done:
					ended = true
				default:
				}
				if _, err := f.Events.CheckEvents(ctx, account); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	recorded := 0
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := f.Events.RecordEvent(ctx, newEvent(account, "plan.updated", "r2")); err != nil {
				t.Error(err)
				return
			}
			recorded++
		}
	})
	purged, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: account, Kind: "plan", Resource: "r2"})
	trimmed := 0
	if err == nil {
		trimmed, err = f.TrimEvents(ctx)
	}
	close(done)
	others.Wait()
	must.Do(t, err)
	if got := left(t, f, account); got != count+recorded-purged.Events-trimmed {
		t.Errorf("%d events are left of %d and %d, with %d purged and %d too old", got, count, recorded, purged.Events, trimmed)
	}
	if purged.Events+trimmed < count {
		t.Errorf("%d were purged and %d were too old, want all of the %d that were there at first", purged.Events, trimmed, count)
	}
}
