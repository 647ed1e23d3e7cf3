package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// logOf reads the head of an account's log.
func logOf(t *testing.T, f *storetest.Fixture, owner string) (segments []uint64, removed record.Position) {
	t.Helper()
	must.Do(t, f.DB.View(t.Context(), func(r kv.Reader) (err error) {
		segments, removed, err = eventlog.HeadOf(r, owner)
		return err
	}))
	return segments, removed
}

// manyTypes imports a hundred events of five types, an hour apart.
func manyTypes(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	eventlog.ImportEvery(t, f.Events, 100, 3600, func(i int) string { return fmt.Sprintf("plan.type_%d", i%5) })
}

// TestSegmentsEnd: a segment that retention empties ceases to exist, and nothing is lost.
// A purge of everything, and the deletion of the account, leave no record.
func TestSegmentsEnd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	s := f.Store
	const events = 100
	manyTypes(t, f)
	before, _ := logOf(t, f, "a")
	if want := (events - 1) / storetest.SegmentEvents; len(before) != want {
		t.Fatalf("%d events are in %d segments, want %d", events, len(before)+1, want+1)
	}
	must.Do(t, s.Events.SetRetention(ctx, 50*time.Hour))
	removed, err := s.TrimEvents(ctx)
	if err != nil || removed < 40 {
		t.Fatalf("TrimEvents() = %d, %v", removed, err)
	}
	after, last := logOf(t, f, "a")
	if len(after) == 0 || after[0] == before[0] || !slices.Equal(after, before[len(before)-len(after):]) {
		t.Errorf("of the segments %v are left %v, want the newest", before, after)
	}
	if len(after) > 1 && int64(after[1]) <= last.Millis() {
		t.Errorf("the segments %v begin with an empty one: %v", after, last)
	}
	if left, err := s.Events.CheckEvents(ctx, "a"); err != nil || left != events-removed {
		t.Errorf("%d events are left, %v; want %d", left, err, events-removed)
	}
	if _, err := s.CheckAll(ctx); err != nil {
		t.Errorf("CheckAll() = %v", err)
	}
	if gone, err := s.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "a"}); err != nil || gone.Events != events-removed {
		t.Errorf("PurgeEvents() = %+v, %v; want %d events", gone, err, events-removed)
	}
	if left := keysOf(t, f, "Exn"); len(left) > 0 {
		t.Errorf("a purge has left %q", left)
	}
	eventlog.ImportEvery(t, f.Events, events/4, 3600, func(int) string { return "plan.renewed" })
	must.Do(t, s.DeleteAccount(ctx, "a"))
	if left := keysOf(t, f, "Exnoh"); len(left) > 0 {
		t.Errorf("an account that was deleted has left %q", left)
	}
}

// keysOf returns the keys of some kinds.
func keysOf(t *testing.T, f *storetest.Fixture, kinds string) (keys []string) {
	t.Helper()
	must.Do(t, f.DB.View(context.Background(), func(r kv.Reader) error {
		for k := range r.Scan(kv.Range{}) {
			if strings.IndexByte(kinds, k[0]) >= 0 {
				keys = append(keys, string(k))
			}
		}
		return nil
	}))
	return keys
}

// TestDeletionBesideRetention: the deletion of an account is interrupted anywhere,
// retention removes what it can, and the deletion resumes. No segment keeps anything of
// the account, and the store is consistent.
func TestDeletionBesideRetention(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for cut := 1; cut < 60; cut += 3 {
		f := storetest.New(t)
		s := f.Store
		manyTypes(t, f)
		must.Do(t, s.Events.SetRetention(ctx, 50*time.Hour))
		updates := 0
		f.Faults.OnUpdate(func(run func() error) error {
			if updates++; updates > cut {
				return record.ErrUnavailable
			}
			return run()
		})
		err := s.DeleteAccount(ctx, "a")
		f.Faults.Repair()
		if err != nil && !errors.Is(err, record.ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := s.TrimEvents(ctx); err != nil {
			t.Errorf("cut at %d: TrimEvents() = %v", cut, err)
		}
		if err := s.DeleteAccount(ctx, "a"); err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Fatal(err)
		}
		if left := keysOf(t, f, "Exnoh"); len(left) > 0 {
			t.Errorf("cut at %d: %d records are left, the first %.80q", cut, len(left), left[0])
		}
		if _, err := s.CheckAll(ctx); err != nil {
			t.Errorf("cut at %d: CheckAll() = %v", cut, err)
		}
	}
}

// TestMisplacedSegment: no reader finds an event outside its segment, so it is damage.
func TestMisplacedSegment(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, move := range map[string]func(uint64) uint64{
		"into_the_first_segment": func(uint64) uint64 { return 0 },
		"into_one_that_is_none":  func(sg uint64) uint64 { return sg + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.New(t)
			eventlog.ImportEvery(t, f.Events, storetest.SegmentEvents+1, 10, func(int) string { return "plan.renewed" })
			count := 0
			must.Do(t, f.DB.Update(ctx, func(tx kv.Txn) error {
				count = 0
				var records []kv.Record
				for k, v := range tx.Scan(kv.Range{Lo: []byte("E"), Hi: []byte("F")}) {
					records = append(records, kv.Record{Key: bytes.Clone(k), Value: bytes.Clone(v)})
				}
				for _, r := range records {
					moved, ok := eventlog.Moved(r.Key, move)
					if !ok {
						continue
					}
					if err := errors.Join(tx.Delete(r.Key), tx.Set(moved, r.Value, time.Time{})); err != nil {
						return err
					}
					count++
				}
				return nil
			}))
			if count != 3 { // the event and its entry in both lists
				t.Errorf("%d records moved, want 3", count)
			}
			if _, err := f.CheckAll(ctx); !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "in a different segment") {
				t.Errorf("CheckAll() = %v, want ErrCorrupt that names the segment", err)
			}
		})
	}
}
