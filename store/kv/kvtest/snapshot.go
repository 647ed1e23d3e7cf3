package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"tollhouse/store/kv"
)

// snapshots tests the engine's backups against the promises of package kv. into is
// another empty store of the same engine.
func snapshots(t *testing.T, db, into kv.DB) {
	from, ok := db.(kv.Snapshotter)
	to, loads := into.(kv.Loader)
	if !ok || !loads {
		t.Fatal("the engine has no backups")
	}
	const keys = 2500 // several pages, and several updates
	value := bytes.Repeat([]byte("v"), 900)
	later := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
	for first := 0; first < keys; first += 500 {
		update(t, db, func(tx kv.Txn) error {
			for i := range 500 {
				var expiresAt time.Time
				if i%2 == 0 {
					expiresAt = later
				}
				check(tx.Set(fmt.Appendf(nil, "k%05d", first+i), value, expiresAt))
			}
			return nil
		})
	}
	var records []kv.Record
	pages := 0
	err := from.Snapshot(t.Context(), func(page []kv.Record) error {
		pages++
		for _, r := range page {
			records = append(records, kv.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), ExpiresAt: r.ExpiresAt})
		}
		// The snapshot is stable and blocks no update.
		update(t, db, func(tx kv.Txn) error {
			set(tx, "a new one", "1")
			set(tx, "k02499", "changed")
			remove(tx, "k02400")
			return nil
		})
		return nil
	})
	if err != nil || len(records) != keys || pages < 1 {
		t.Fatalf("Snapshot() = %d records in %d pages, %v, want %d", len(records), pages, err, keys)
	}
	for i, r := range records {
		if string(r.Key) != fmt.Sprintf("k%05d", i) || !bytes.Equal(r.Value, value) {
			t.Fatalf("record %d of the snapshot is %q = %.20q", i, r.Key, r.Value)
		}
	}
	if err := to.Load(t.Context(), each(records)); err != nil {
		t.Fatalf("Load() = %v, want nil", err)
	}
	var again []kv.Record
	err = into.(kv.Snapshotter).Snapshot(t.Context(), func(page []kv.Record) error {
		for _, r := range page {
			again = append(again, kv.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), ExpiresAt: r.ExpiresAt})
		}
		return nil
	})
	same := slices.EqualFunc(again, records, func(a, b kv.Record) bool {
		return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && between(a.ExpiresAt-b.ExpiresAt, -1, 1)
	})
	if err != nil || !same {
		t.Errorf("the loaded records differ from the snapshot: %d records, %v, want %d", len(again), err, len(records))
	}
	if err := to.Load(t.Context(), each(records)); err == nil {
		t.Error("Load() into a store that is not empty = nil, want an error")
	}
	refused := errors.New("refused")
	if err := from.Snapshot(t.Context(), func([]kv.Record) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("Snapshot(refused) = %v, want %v", err, refused)
	}
}

// holds tests kv.Holder.
func holds(t *testing.T, db kv.DB) {
	holder, ok := db.(kv.Holder)
	if !ok {
		t.Fatal("the engine holds no version")
	}
	put(t, db, "a", "1", "b", "2", "c", "3")
	held, err := holder.Hold(t.Context())
	if err != nil {
		t.Fatalf("Hold() = %v, want nil", err)
	}
	for i := range 3 {
		put(t, db, "a", fmt.Sprint("new", i), "d", fmt.Sprint("new", i))
		update(t, db, func(tx kv.Txn) error { remove(tx, "b"); return nil })
		err := held.View(t.Context(), func(r kv.Reader) error {
			wantValue(t, r, "a", "1")
			wantAbsent(t, r, "d")
			wantScan(t, r, kv.Range{}, "a=1", "b=2", "c=3")
			wantScan(t, r, kv.Range{Reverse: true, Limit: 2}, "c=3", "b=2")
			return nil
		})
		if err != nil {
			t.Errorf("View() = %v, want nil", err)
		}
		wantContent(t, db, "a="+fmt.Sprint("new", i), "c=3", "d="+fmt.Sprint("new", i))
	}
	refused := errors.New("refused")
	if err := held.View(t.Context(), func(kv.Reader) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("View(refused) = %v, want %v", err, refused)
	}
	held.Release()
	wantContent(t, db, "a=new2", "c=3", "d=new2")
	if err := db.Close(); err != nil {
		t.Errorf("Close() after the Release = %v, want nil", err)
	}
	if _, err := holder.Hold(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Hold() of a closed store = %v, want ErrUnavailable", err)
	}
}

func between(n, lo, hi int64) bool { return lo <= n && n <= hi }

func each(records []kv.Record) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}
