package badgerkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	errOdd := errors.New("odd")
	g := newGate()
	var commits atomic.Int32
	db := mustOpen(t, Options{Dir: t.TempDir(), commitAt: func(tx *badger.Txn, version uint64) error {
		commits.Add(1)
		return g.commitAt(tx, version)
	}})

	const writers = 64
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "first", "1") })
	<-g.began
	for i := range writers {
		wg.Go(func() {
			key := fmt.Sprintf("key-%02d", i)
			err := db.Update(t.Context(), func(tx kv.Txn) error {
				if err := setAll(tx, key, strconv.Itoa(i), "last", key); err != nil {
					return err
				}
				if i%2 == 1 {
					return errOdd
				}
				return nil
			})
			if want := i%2 == 1; errors.Is(err, errOdd) != want || (!want && err != nil) {
				t.Errorf("Update(%d) = %v, want refused %t", i, err, want)
			}
		})
	}
	waitQueued(t, db, writers)
	g.pass <- nil
	<-g.began
	g.pass <- nil
	wg.Wait()

	if n := commits.Load(); n != 2 {
		t.Errorf("%d commits for one update and %d behind it, want 2", n, writers)
	}
	for i := range writers {
		if key := fmt.Sprintf("key-%02d", i); i%2 == 0 {
			wantValue(t, db, key, strconv.Itoa(i))
		} else {
			wantAbsent(t, db, key)
		}
	}
}

// TestGroupIsWholeAround puts failing updates between good ones, all in one group.
func TestGroupIsWholeAround(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name string
		end  func() error
		want string // what the caller sees
	}{
		{"an_error", func() error { return errors.New("refused") }, "error"},
		{"a_panic", func() error { panic("broken") }, "panic"},
		{"a_nil_panic", func() error { panic(nil) }, "panic"}, //nolint:govet
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
			var wg sync.WaitGroup
			wg.Go(func() { put(t, db, "a", "1", "b", "1") })
			<-g.began
			wg.Go(func() { put(t, db, "a", "2") })
			waitQueued(t, db, 1)
			var got string
			wg.Go(func() {
				got = ending(func() error {
					return db.Update(t.Context(), func(tx kv.Txn) error {
						if err := setAll(tx, "a", "bad", "b", "bad", "c", "bad"); err != nil {
							return err
						}
						return e.end()
					})
				})
			})
			waitQueued(t, db, 2)
			wg.Go(func() { put(t, db, "d", "4") })
			waitQueued(t, db, 3)
			g.pass <- nil
			<-g.began
			g.pass <- nil
			wg.Wait()

			if got != e.want {
				t.Errorf("Update() ended by %s, want %s", got, e.want)
			}
			wantValue(t, db, "a", "2")
			wantValue(t, db, "b", "1")
			wantAbsent(t, db, "c")
			wantValue(t, db, "d", "4")
		})
	}
}

// ending runs fn in its own goroutine and reports how it ended.
func ending(fn func() error) string {
	how := make(chan string, 1)
	go func() {
		result := "exit"
		defer func() {
			if recover() != nil {
				result = "panic"
			}
			how <- result
		}()
		if err := fn(); err != nil {
			result = "error"
			return
		}
		result = "success"
	}()
	return <-how
}

func TestViewNeverWaits(t *testing.T) {
	t.Parallel()
	g := newGate()
	db := mustOpen(t, Options{Dir: t.TempDir(), commitAt: g.commitAt})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "a", "old") })
	<-g.began
	wantAbsent(t, db, "a")
	g.pass <- nil
	wg.Wait()

	wg.Go(func() { put(t, db, "a", "new") })
	<-g.began
	wantValue(t, db, "a", "old")
	g.pass <- nil
	wg.Wait()
	wantValue(t, db, "a", "new")
}

// TestADiskThatHangs reports no error, and the store is not ready until its write ends.
func TestADiskThatHangs(t *testing.T) {
	t.Parallel()
	g := newGate()
	db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "a", "1") })
	<-g.began
	if err := db.Ready(); err != nil {
		t.Errorf("Ready() during a commit = %v, want nil", err)
	}
	longAgo := db.writing.Load().Add(-writeSlow)
	db.writing.Store(&longAgo)
	if err := db.Ready(); !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "has not ended a write for 1") {
		t.Errorf("Ready() while a commit does not end = %v, want ErrUnavailable", err)
	}
	g.pass <- nil
	wg.Wait()
	if err := db.Ready(); err != nil {
		t.Errorf("Ready() after the commit = %v, want nil", err)
	}
	mustClose(t, db)
}

// Promise (Monitoring): a write with an unknown outcome stops the process immediately
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	g := newGate()
	var fatal atomic.Int32
	db := mustOpen(t, Options{Dir: t.TempDir(), commitAt: g.commitAt, OnFatal: func(error) { fatal.Add(1) }})
	var first, group sync.WaitGroup
	first.Go(func() { put(t, db, "a", "1") })
	<-g.began
	errRefused := errors.New("rests on a write that may be lost")
	for i := range 3 {
		group.Go(func() {
			err := db.Update(t.Context(), func(tx kv.Txn) error {
				if i == 2 {
					return errRefused
				}
				return setAll(tx, "b", "2")
			})
			if !errors.Is(err, kv.ErrUnknownOutcome) || errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("Update(commit failed) = %v, want ErrUnknownOutcome alone", err)
			}
		})
	}
	waitQueued(t, db, 3)
	g.pass <- nil
	first.Wait()
	<-g.began

	// This view begins before the failure and ends after it.
	err := db.View(t.Context(), func(r kv.Reader) error {
		g.pass <- errors.New("no space left on device")
		group.Wait()
		_, err := r.Get([]byte("a"))
		return err
	})
	if !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("View(across the failure) = %v, want ErrUnavailable", err)
	}
	if _, err := get(t, db, "a"); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("View(stopped) = %v, want ErrUnavailable", err)
	}
	ran := false
	err = db.Update(t.Context(), func(tx kv.Txn) error { ran = true; return setAll(tx, "c", "3") })
	if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknownOutcome) || ran {
		t.Errorf("Update(stopped) = %v, ran %t; want ErrUnavailable alone, not run", err, ran)
	}
	mustClose(t, db)
	if n := fatal.Load(); n != 1 {
		t.Errorf("OnFatal was called %d times, want once", n)
	}
}

// TestEngineFailureStops covers failures that Badger only logs.
func TestEngineFailureStops(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"Error while curlf sync: %v\n", "error flushing memtable to disk: %v, retrying"} {
		var fatal error
		db := mustOpen(t, Options{Dir: t.TempDir(), OnFatal: func(err error) { fatal = err }})
		put(t, db, "a", "1")
		db.engine.Opts().Logger.Errorf(format, errors.New("input/output error"))
		if _, err := get(t, db, "a"); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("%q: View() = %v, want ErrUnavailable", format, err)
		}
		if fatal == nil {
			t.Errorf("%q: OnFatal was not called", format)
		}
	}
	db := mustOpen(t, Options{InMemory: true})
	db.engine.Opts().Logger.Errorf("while deleting file: %s", "x")
	put(t, db, "a", "1")
}

// Promise (RFC 6749 §5): a disabled grant is unauthorized_client; a store that cannot write is 503
// with Retry-After; other faults are 500 without detail
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	g := newGate()
	db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "a", "1") })
	<-g.began
	for range queueMax - kv.QueueKept {
		wg.Go(func() {
			err := db.Update(kv.Yielding(t.Context()), func(kv.Txn) error { return nil })
			if err != nil {
				t.Errorf("Update(queued) = %v, want nil", err)
			}
		})
	}
	waitQueued(t, db, queueMax-kv.QueueKept)
	if err := db.Update(kv.Yielding(t.Context()), func(kv.Txn) error { return nil }); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update(queue nearly full, of a program) = %v, want ErrUnavailable", err)
	}
	for range kv.QueueKept {
		wg.Go(func() {
			if err := db.Update(t.Context(), func(kv.Txn) error { return nil }); err != nil {
				t.Errorf("Update(of others, queued) = %v, want nil", err)
			}
		})
	}
	waitQueued(t, db, queueMax)
	err := db.Update(t.Context(), func(kv.Txn) error { return nil })
	if !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update(queue full) = %v, want ErrUnavailable", err)
	}
	g.pass <- nil
	wg.Wait()
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	t.Run("before_fn_runs_withdraws_it", func(t *testing.T) {
		t.Parallel()
		g := newGate()
		db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
		var first, withdrawn sync.WaitGroup
		first.Go(func() { put(t, db, "a", "1") })
		<-g.began
		ctx, cancel := context.WithCancel(t.Context())
		withdrawn.Go(func() {
			err := db.Update(ctx, func(tx kv.Txn) error { return setAll(tx, "b", "2") })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Update(cancelled while it waits) = %v, want context.Canceled", err)
			}
		})
		waitQueued(t, db, 1)
		cancel()
		withdrawn.Wait()
		g.pass <- nil
		first.Wait()
		wantAbsent(t, db, "b")
	})
	t.Run("after_fn_has_run_waits_for_the_outcome", func(t *testing.T) {
		t.Parallel()
		g := newGate()
		db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			err := db.Update(ctx, func(tx kv.Txn) error { return setAll(tx, "a", "1") })
			if err != nil {
				t.Errorf("Update(cancelled while it commits) = %v, want nil", err)
			}
		})
		<-g.began
		cancel()
		g.pass <- nil
		wg.Wait()
		wantValue(t, db, "a", "1")
	})
}

func TestCloseFinishesAcceptedWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newGate()
	db := mustOpen(t, Options{Dir: dir, commitAt: g.commitAt})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "a", "1") })
	<-g.began
	wg.Go(func() { put(t, db, "b", "2") })
	waitQueued(t, db, 1)
	wg.Go(func() { mustClose(t, db) })
	g.pass <- nil
	<-g.began
	g.pass <- nil
	wg.Wait()

	again := mustOpen(t, Options{Dir: dir})
	wantValue(t, again, "a", "1")
	wantValue(t, again, "b", "2")
}

// TestLargestUpdatesShareGroups sends more than one Badger transaction holds.
func TestLargestUpdatesShareGroups(t *testing.T) {
	t.Parallel()
	g := newGate()
	db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
	const updates = 8
	value := noise("large", kv.UpdateBytesMax/kv.UpdateWritesMax-8)
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "first", "1") })
	<-g.began
	for u := range updates {
		wg.Go(func() {
			err := db.Update(t.Context(), func(tx kv.Txn) error {
				for i := range kv.UpdateWritesMax {
					if err := setAll(tx, fmt.Sprintf("%02d-%05d", u, i)[:8], value); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("Update(largest) = %v, want nil", err)
			}
		})
	}
	waitQueued(t, db, updates)
	g.pass <- nil
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	groups := 0
	for open := true; open; {
		select {
		case <-g.began:
			groups++
			g.pass <- nil
		case <-done:
			open = false
		}
	}
	if groups < 2 || groups > updates {
		t.Errorf("%d largest updates took %d groups, want more than one and at most each its own", updates, groups)
	}
}

func TestEngineExpiry(t *testing.T) {
	t.Parallel()
	expiresAt := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name      string
		now       func() time.Time
		expiresAt time.Time
		want      uint64
	}{
		{"a day later by the wall clock", nil, expiresAt, uint64(expiresAt.Add(24 * time.Hour).Unix())},
		{"never without an expiry", nil, time.Time{}, 0},
		{"long ago, not never, before 1970", nil, time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), 1},
		{"never by an injected clock", time.Now, expiresAt, 0},
	} {
		db := mustOpen(t, Options{InMemory: true, Now: c.now})
		var got uint64
		err := db.Update(t.Context(), func(tx kv.Txn) error {
			err := tx.Set([]byte("a"), nil, c.expiresAt)
			got = tx.(*txn).pending.get([]byte("a")).expiresAt
			return err
		})
		if err != nil || got != c.want {
			t.Errorf("%s: Badger's expiry = %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}

// Promise (RFC 6749 §5): a burst of clients waits, and none is refused; while more come than can be
// served, those who would wait too long are refused, and only for as long as that lasts
func TestAQueueThatStandsIsCrowded(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{InMemory: true})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var callers sync.WaitGroup
	for range 400 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_ = db.Update(ctx, func(kv.Txn) error { time.Sleep(100 * time.Microsecond); return nil })
			}
		})
	}
	begun := time.Now()
	for ; !db.Crowded(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("400 callers that come again and again are no crowd")
		}
	}
	if lasted := time.Since(begun); lasted < 400*time.Millisecond {
		t.Errorf("a crowd after %v, which may be a burst", lasted)
	}
	leave()
	callers.Wait()
	if db.Crowded() {
		t.Error("a crowd when nobody waits")
	}
	if db.Stats().QueueFull == 0 {
		t.Error("refusals are not counted")
	}
}
