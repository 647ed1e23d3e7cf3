package badgerkv

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestReady: the store reports that it would refuse work before a request meets that.
//
// Promise (Monitoring): /healthz answers; /readyz reports store, disk and clock, reasons to
// operators alone; metrics are not public
func TestReady(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	var wall atomic.Pointer[time.Time]
	turn := func(to time.Time) { wall.Store(&to) }
	begun := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	turn(begun)
	db := mustOpen(t, Options{
		Dir:       t.TempDir(),
		FreeSpace: func(string) (uint64, error) { return free.Load(), nil },
		wall:      func() time.Time { return *wall.Load() },
	})
	put(t, db, "a", "1")
	isReady := func(t *testing.T) {
		t.Helper()
		if err := db.Ready(); err != nil {
			t.Errorf("Ready() = %v, want nil", err)
		}
	}
	t.Run("readyz_disk", func(t *testing.T) {
		isReady(t)
		free.Store(freeSpaceOrdinary - 1)
		if err := db.Ready(); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("Ready() on a full disk = %v, want ErrUnavailable", err)
		}
		free.Store(freeSpaceOrdinary)
		isReady(t)
	})
	t.Run("readyz_clock", func(t *testing.T) {
		var clock *ClockError
		turn(begun.Add(-61 * time.Second))
		if err := db.Ready(); !errors.As(err, &clock) {
			t.Errorf("Ready() with the clock set back = %v, want a ClockError", err)
		}
		turn(begun.Add(-59 * time.Second))
		isReady(t)
		turn(begun.AddDate(10, 0, 0))
		if err := db.Ready(); !errors.As(err, &clock) {
			t.Errorf("Ready() ten years on = %v, want a ClockError", err)
		}
		put(t, db, "a", "2") // writes advance the store's own clock
		isReady(t)
	})
	t.Run("a_store_in_memory_is_ready", func(t *testing.T) {
		memory := mustOpen(t, Options{InMemory: true, FreeSpace: func(string) (uint64, error) { return 0, nil }})
		if err := memory.Ready(); err != nil {
			t.Errorf("Ready() = %v, want nil", err)
		}
	})
	t.Run("readyz_store_that_has_stopped", func(t *testing.T) {
		db.stop(errors.New("fsync: input/output error"))
		if err := db.Ready(); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("Ready() after a failed write = %v, want ErrUnavailable", err)
		}
	})
}

// TestStats: each figure matches what was done.
func TestStats(t *testing.T) {
	t.Parallel()
	g := newGate()
	var commits, updates atomic.Int64
	db := mustOpen(t, Options{
		InMemory: true, commitAt: g.commitAt,
		OnCommit: func(n int, took time.Duration) {
			commits.Add(1)
			updates.Add(int64(n))
			if took <= 0 {
				t.Errorf("a commit took %s", took)
			}
		},
	})
	const waiting = 3
	var all sync.WaitGroup
	all.Go(func() { put(t, db, "first", "1") })
	<-g.began
	for range waiting {
		all.Go(func() { put(t, db, "later", "1") })
	}
	waitQueued(t, db, waiting)
	s := db.Stats()
	if s.Queue != waiting || s.QueueMax != queueMax || s.Transactions != waiting+1 || s.QueueFull != 0 {
		t.Errorf("Stats() with one commit in flight and %d updates behind it = %+v", waiting, s)
	}
	g.pass <- nil
	<-g.began
	g.pass <- nil
	all.Wait()
	if s := db.Stats(); s.Queue != 0 || s.Transactions != 0 {
		t.Errorf("Stats() at rest = %+v", s)
	}
	if commits.Load() != 2 || updates.Load() != waiting+1 {
		t.Errorf("reported %d commits with %d updates, want 2 with %d", commits.Load(), updates.Load(), waiting+1)
	}
}

// TestSpace: the figures are the filesystem's, and refusals for lack of space are
// counted.
func TestSpace(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir, FreeSpace: func(string) (uint64, error) { return free.Load(), nil }})
	before, ok, err := db.Space()
	if err != nil || !ok || before.FreeMin != freeSpaceOrdinary || before.FreeEnd != freeSpaceMin+2*memTableSize || before.Free != math.MaxUint64 || before.Used == 0 {
		t.Fatalf("Space() = %+v, %t, %v", before, ok, err)
	}
	if before.Used > memTableSize {
		t.Errorf("an empty store takes %d bytes: sparse files are counted as if they were full", before.Used)
	}
	const more = 1 << 20
	must.Do(t, os.WriteFile(filepath.Join(dir, "more"), []byte(noise("more", more)), 0o600))
	if after, _, err := db.Space(); err != nil || after.Used < before.Used+more {
		t.Errorf("Space() = %+v, %v, want %d bytes more than %d", after, err, more, before.Used)
	}
	free.Store(0)
	if err := db.Update(t.Context(), func(tx kv.Txn) error { return setAll(tx, "a", "1") }); err == nil {
		t.Error("a full disk took a write")
	}
	if got := db.Stats().DiskFull[kv.Ordinary]; got != 1 {
		t.Errorf("one refusal counted as %d", got)
	}
	memory := mustOpen(t, Options{InMemory: true})
	if _, ok, err := memory.Space(); ok || err != nil {
		t.Errorf("Space() in memory = %t, %v, want nothing", ok, err)
	}
}
