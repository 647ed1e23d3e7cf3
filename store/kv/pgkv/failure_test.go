package pgkv_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// appended is a write whose repetition would show: it counts up n, and creates its key.
func appended(key string) func(kv.Txn) error {
	return func(tx kv.Txn) error {
		n := 0
		if value, err := tx.Get([]byte("n")); err == nil {
			n, _ = strconv.Atoi(string(value))
		}
		if _, err := tx.Get([]byte(key)); !errors.Is(err, kv.ErrNotFound) {
			return fmt.Errorf("%s is written twice: %w", key, err)
		}
		return errors.Join(tx.Set([]byte("n"), itoa(n+1), time.Time{}), tx.Set([]byte(key), itoa(n), time.Time{}))
	}
}

// contents returns all keys but n, and n.
func contents(t *testing.T, db kv.DB) (keys map[string]bool, n int) {
	t.Helper()
	err := db.View(t.Context(), func(r kv.Reader) error {
		keys, n = map[string]bool{}, 0
		for key, value := range r.Scan(kv.Range{}) {
			if string(key) == "n" {
				n, _ = strconv.Atoi(string(value))
				continue
			}
			keys[string(key)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatalf("View() = %v, want nil", err)
	}
	return keys, n
}

func TestACommitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t)
	direct := server.Database(t)
	p, dsn := newProxy(t, server, direct)
	db := open(t, dsn)
	for i, c := range []struct {
		name    string
		at      when
		retries uint64
	}{
		{"that_is_in_is_acknowledged", afterCommit, 0},
		{"that_is_not_in_is_made_again", beforeCommit, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := strconv.Itoa(i)
			before := db.Stats()
			p.cutAt(c.at)
			if err := db.Update(t.Context(), appended(key)); err != nil {
				t.Fatalf("Update() = %v, want nil", err)
			}
			keys, n := contents(t, db)
			if !keys[key] || n != i+1 || len(keys) != n {
				t.Errorf("the store has %v and counts %d, want %s and %d", keys, n, key, i+1)
			}
			after := db.Stats()
			if got := after.Resolved - before.Resolved; got != 1 {
				t.Errorf("%d outcomes were looked up, want 1", got)
			}
			if got := after.Retries - before.Retries; got != c.retries {
				t.Errorf("the group was tried again %d times, want %d", got, c.retries)
			}
		})
	}
}

// cutsMin is how often all connections are cut; TOLLHOUSE_TEST_CUTS sets it.
const cutsMin = 20

// writers write with a key of their own each time, and keep what they are told.
type writers struct {
	mu                      sync.Mutex
	acknowledged            map[string]bool
	refused, unknown, other map[string]error
	count                   atomic.Int64 // of outcomes
	slowest                 time.Duration
	wg                      sync.WaitGroup
}

const writersMax = 16

// startWriters writes until ctx ends.
func startWriters(ctx context.Context, db kv.DB, name string) *writers {
	w := &writers{acknowledged: map[string]bool{}, refused: map[string]error{}, unknown: map[string]error{}, other: map[string]error{}}
	for i := range writersMax {
		w.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%s-%02d-%06d", name, i, n)
				begun := time.Now()
				err := db.Update(context.Background(), appended(key))
				w.record(key, err, time.Since(begun))
			}
		})
	}
	return w
}

func (w *writers) record(key string, err error, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowest = max(w.slowest, took)
	switch {
	case err == nil:
		w.acknowledged[key] = true
	case errors.Is(err, kv.ErrUnknownOutcome):
		w.unknown[key] = err
	case errors.Is(err, kv.ErrUnavailable):
		w.refused[key] = err
	default:
		w.other[key] = err
	}
	w.count.Add(1)
}

func (w *writers) acks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acknowledged)
}

// until waits for more acknowledged writes.
func (w *writers) until(t *testing.T, more int) {
	t.Helper()
	want := w.acks() + more
	for begun := time.Now(); w.acks() < want; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("%d writes were acknowledged, want %d: %d refused, %d unknown", w.acks(), want, len(w.refused), len(w.unknown))
		}
	}
}

// check compares what the writers were told with what the store has, and returns how many
// acknowledged writes are missing.
func (w *writers) check(t *testing.T, keys map[string]bool, n int) int {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	lost, there := 0, 0
	for key := range w.acknowledged {
		if !keys[key] {
			lost++
		}
	}
	for key := range w.refused {
		if keys[key] {
			there++
		}
	}
	t.Logf("%d acknowledged, %d refused, %d unknown, slowest %v", len(w.acknowledged), len(w.refused), len(w.unknown), w.slowest)
	if lost > 0 || there > 0 {
		t.Errorf("%d acknowledged writes are lost, %d refused ones are there", lost, there)
	}
	if n != len(keys) {
		t.Errorf("%d updates counted, but %d keys exist: one ran twice or in parts", n, len(keys))
	}
	for key, err := range w.other {
		t.Errorf("Update(%s) = %v", key, err)
	}
	return lost
}

func TestEveryOutcomeIsTrueWhileConnectionsAreCut(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	cuts := cutsMin
	if text := os.Getenv("TOLLHOUSE_TEST_CUTS"); text != "" {
		cuts, _ = strconv.Atoi(text)
	}
	server := pgtest.New(t)
	direct := server.Database(t)
	p, dsn := newProxy(t, server, direct)
	db, beside := open(t, dsn), open(t, direct)
	ctx, stop := context.WithCancel(t.Context())
	w, other := startWriters(ctx, db, "cut"), startWriters(ctx, beside, "beside")
	for p.cutSoFar() < cuts {
		w.until(t, writersMax)
		switch before := p.cutSoFar(); before % 3 {
		case 0:
			p.cut()
		case 1:
			p.cutAt(afterCommit)
		case 2:
			p.cutAt(beforeCommit)
		}
	}
	w.until(t, 2*writersMax)
	stop()
	w.wg.Wait()
	other.wg.Wait()
	keys, n := contents(t, beside)
	w.check(t, keys, n)
	other.check(t, keys, n)
	stats := db.Stats()
	t.Logf("%d cuts; %d commits without an answer, %d retries", p.cutSoFar(), stats.Resolved, stats.Retries)
	if stats.Resolved == 0 {
		t.Error("no commit was without an answer")
	}
}

// answerMax is how late an answer may be; the limit itself is 5 s.
const answerMax = 6 * time.Second

// inTime is how late it may be on a slow machine.
const inTime = 20 * answerMax

func TestTheDatabaseIsKilled(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	server := pgtest.New(t)
	dsn := server.Database(t)
	db := openWith(t, pgkv.Options{URL: dsn})
	ctx, stop := context.WithCancel(t.Context())
	w := startWriters(ctx, db, "killed")
	kills := 0
	for ; must.More(kills, 3, 500); kills++ {
		w.until(t, 200)
		server.Kill(t)
		before := w.count.Load()
		for w.count.Load() < before+writersMax { // each writer meets the dead database
			time.Sleep(time.Millisecond)
		}
		if err := db.Ready(t.Context()); !errors.Is(err, kv.ErrAway) {
			t.Errorf("Ready(killed) = %v, want ErrAway", err)
		}
		server.Restart(t)
	}
	w.until(t, 200)
	stop()
	w.wg.Wait()
	eventually(t, func() error { return db.Ready(t.Context()) }) // a refused write is tried again each second
	keys, n := contents(t, db)
	must.Figure(t, "postmaster_kills", kills)
	must.Figure(t, "acknowledged", w.acks())
	must.Figure(t, "lost", w.check(t, keys, n))
	must.Figure(t, "slowest_answer_ms", w.slowest.Milliseconds())
	if w.slowest > answerMax*20 {
		t.Errorf("the slowest answer took %v, want at most %v", w.slowest, answerMax)
	}
}

func TestAnswersComeInTimeWithoutTheDatabase(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	server := pgtest.New(t)
	p, dsn := newProxy(t, server, server.Database(t))
	db := openWith(t, pgkv.Options{URL: dsn})
	if err := insist(t, db, appended("a")); err != nil {
		t.Fatal(err)
	}
	p.setAway(true)
	for name, call := range map[string]func() error{
		"View": func() error {
			return db.View(t.Context(), func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err })
		},
		"Update":     func() error { return db.Update(t.Context(), appended("b")) },
		"UpdateEach": func() error { return kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{appended("c")})[0] },
		"of memory": func() error {
			return db.Update(t.Context(), func(tx kv.Txn) error { _, err := tx.Get([]byte("a")); return err })
		},
		"Ready":       func() error { return db.Ready(t.Context()) },
		"of a Scan":   func() error { return db.View(t.Context(), scanAll) },
		"of Snapshot": func() error { return db.Snapshot(t.Context(), func([]kv.Record) error { return nil }) },
	} {
		begun := time.Now()
		if err := call(); !errors.Is(err, kv.ErrAway) {
			t.Errorf("%s without the database = %v, want ErrAway", name, err)
		}
		if took := time.Since(begun); took > inTime {
			t.Errorf("%s without the database took %v", name, took)
		}
	}
	p.setAway(false)
	if err := insist(t, db, appended("d")); err != nil {
		t.Errorf("Update(database back) = %v, want nil", err)
	}
	if keys, n := contents(t, db); n != 2 || len(keys) != 2 || !keys["d"] {
		t.Errorf("the store has %v and counts %d, want a and d", keys, n)
	}
}

// Promise (Postgres §5): a server that is cut off within a flight, with the turn or within its
// writes, holds the others up for seconds, and what it did not acknowledge is not there
func TestCutOffWithinAFlight(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	server := pgtest.New(t)
	dsn := server.Database(t)
	p, through := newProxy(t, server, dsn)
	other := openWith(t, pgkv.Options{URL: dsn})
	for name, moment := range map[string]when{"with_the_turn": halfTurn, "within_its_writes": halfWrites} {
		cut := openWith(t, pgkv.Options{URL: through})
		if err := errors.Join(insist(t, cut, appended("before "+name)), insist(t, other, appended("there "+name))); err != nil {
			t.Fatal(err)
		}
		p.cutAt(moment)
		lost := make(chan error, 1)
		go func() { lost <- cut.Update(t.Context(), appended("lost "+name)) }()
		for p.isNext(moment) {
			time.Sleep(time.Millisecond)
		}
		begun := time.Now()
		if err := insist(t, other, appended("after "+name)); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 3*5*time.Second {
			t.Errorf("%s: another server could write after %v, want 5 s", name, took)
		}
		err := <-lost // it was made again over another connection, or was not made
		if keys, _ := contents(t, other); keys["lost "+name] != (err == nil) {
			t.Errorf("%s: the update of the one that was cut off = %v, and it is there: %t", name, err, keys["lost "+name])
		}
		p.cut()
	}
}

// eventually calls fn until it succeeds, for half a minute.
func eventually(t *testing.T, fn func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := fn()
		if err == nil {
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal(err)
		}
	}
}

// TestStoppedDatabase: a database that takes statements and answers none of them holds
// up no caller, whether or not the end of the last transaction was answered.
func TestStoppedDatabase(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	server := pgtest.New(t)
	p, dsn := newProxy(t, server, server.Database(t))
	db := openWith(t, pgkv.Options{URL: dsn})
	read := func() error {
		return db.View(t.Context(), func(r kv.Reader) error { _, err := r.Get([]byte("true")); return err })
	}
	for _, settled := range []bool{true, false} {
		if err := insist(t, db, appended(fmt.Sprint(settled))); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { return errors.Join(read(), db.Ready(t.Context())) })
		if settled {
			pgkv.Settle(db)
		}
		p.frozen.Store(true)
		for name, call := range map[string]func() error{"View": read, "Update": func() error { return db.Update(t.Context(), appended("b")) }} {
			begun := time.Now()
			if err := call(); !errors.Is(err, kv.ErrAway) {
				t.Errorf("%s() = %v, want ErrAway", name, err)
			}
			if took := time.Since(begun); took > inTime {
				t.Errorf("%s took %v, last transaction settled: %t", name, took, settled)
			}
		}
		p.frozen.Store(false)
		p.cut() // answers were lost
	}
}

func scanAll(r kv.Reader) error {
	for range r.Scan(kv.Range{}) {
	}
	return nil
}
