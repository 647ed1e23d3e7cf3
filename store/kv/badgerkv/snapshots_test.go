package badgerkv

import (
	"iter"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

func TestSnapshotsKeepTheOldestReader(t *testing.T) {
	t.Parallel()
	s := newSnapshots(1)
	open := func() *snapshot {
		at := must.Get(s.open())(t)
		return at
	}
	publish := func(version, wantOldest uint64) {
		t.Helper()
		if got := s.publish(version); got != wantOldest {
			t.Errorf("publish(%d) = %d, want %d", version, got, wantOldest)
		}
	}
	publish(2, 2)
	two := open()
	publish(3, 2)
	three, another := open(), open()
	publish(4, 2)
	publish(5, 2)
	s.release(three)
	publish(6, 2)
	s.release(two)
	publish(7, 3)
	if at := open(); at.version != 7 {
		t.Errorf("open() at %d, want 7", at.version)
	}
	s.release(another)
	publish(8, 7)
}

// TestLongViewSurvivesCompaction keeps a view open while its keys are
// overwritten, deleted and compacted away.
func TestLongViewSurvivesCompaction(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{InMemory: true})
	put(t, db, "a", "old", "b", "old")
	err := db.View(t.Context(), func(r kv.Reader) error {
		for i := range 40 {
			put(t, db, "a", noise(string(rune('a'+i)), kv.ValueSizeMax), "pad", noise("pad", kv.ValueSizeMax))
		}
		if err := db.engine.Flatten(compactors); err != nil {
			return err
		}
		value, err := r.Get([]byte("a"))
		if err != nil || string(value) != "old" {
			t.Errorf("Get(a) in an old view = %d bytes, %v, want old", len(value), err)
		}
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
}

// TestScanLeftOpen pulls from a Scan and forgets to stop, which must cost
// neither the process nor the other updates of the group.
func TestScanLeftOpen(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{InMemory: true})
	put(t, db, "a", "1", "b", "2")
	var stops []func()
	pull := func(r kv.Reader) {
		next, stop := iter.Pull2(r.Scan(kv.Range{}))
		stops = append(stops, stop)
		if key, _, ok := next(); !ok || string(key) != "a" {
			t.Errorf("next() = %q, %t, want a", key, ok)
		}
	}
	err := db.View(t.Context(), func(r kv.Reader) error { pull(r); return nil })
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
	err = db.Update(t.Context(), func(tx kv.Txn) error { pull(tx); return nil })
	if err != nil {
		t.Errorf("Update() = %v, want nil", err)
	}
	put(t, db, "c", "3")
	for _, stop := range stops {
		stop()
	}
}

func TestUseAfterEndPanics(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{InMemory: true})
	var kept kv.Txn
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { kept = tx; return nil }))
	defer func() {
		if recover() == nil {
			t.Error("Delete after the end did not panic")
		}
	}()
	_ = kept.Delete([]byte("a"))
}
