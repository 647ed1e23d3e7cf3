// Package memkv is an engine of [kv.DB] in memory, whose state is saved and restored in
// constant time: `dev` runs on it, and so do most tests of the store.
//
// All keys are in a copy-on-write tree. A View reads the published tree, which never
// changes. An Update writes to a copy, which shares every node that it does not touch,
// and publishes it when done. Updates run one after another under a mutex. Nothing
// survives the process.
package memkv

import (
	"bytes"
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
)

// DB is the engine. It is safe for concurrent use.
type DB struct {
	now     func() time.Time
	writing sync.Mutex // serializes updates
	current atomic.Pointer[State]

	mu       sync.Mutex // guards closed, and inFlight's growth against Close
	closed   bool
	inFlight sync.WaitGroup
}

// New returns an empty DB. After each Update it drops what has expired by now, the
// strictest behaviour that contract line 4 allows; with a nil now it never drops
// anything, the mildest.
func New(now func() time.Time) *DB { return NewFrom(newState(), now) }

// NewFrom returns a DB that begins with everything in s, in constant time. s may belong
// to a DB that is open, closed or gone; no DB sees the writes of another.
func NewFrom(s *State, now func() time.Time) *DB {
	db := &DB{now: now}
	db.current.Store(s)
	return db
}

// State returns what the last finished Update left, in constant time and without
// waiting. It does not change.
func (db *DB) State() *State { return db.current.Load() }

// View runs fn over the state that is current when it begins.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	return fn(&txn{state: db.current.Load(), shared: true})
}

// Update runs fn on a copy and publishes it if fn returns nil. An Update or Close
// inside fn would deadlock.
func (db *DB) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}

	t := &txn{state: db.current.Load(), shared: true, budget: kv.BudgetOf(ctx)}
	if err := fn(t); err != nil {
		return err
	}
	if db.now != nil {
		t.dropExpired(db.now())
	}
	db.current.Store(t.state)
	return nil
}

// Close waits for running transactions and refuses later ones.
func (db *DB) Close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.inFlight.Wait()
	return nil
}

// enter counts a transaction as running; the caller ends it.
func (db *DB) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return kv.ErrUnavailable
	}
	db.inFlight.Add(1)
	return nil
}

// txn is one transaction, reading or writing.
type txn struct {
	state  *State
	shared bool // state has other readers: copy before a change
	budget kv.Budget
}

func (t *txn) Get(key []byte) ([]byte, error) {
	e, found := t.state.entries.Get(&entry{key: key})
	if !found {
		return nil, kv.ErrNotFound
	}
	return e.value, nil
}

func (t *txn) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i, key := range keys {
			value, err := t.Get(key)
			if err == nil && !yield(i, value) {
				return
			}
		}
	}
}

func (t *txn) Scan(r kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		t.share() // a write inside the loop leaves this scan alone
		count := 0
		t.state.within(r, func(e *entry) bool {
			value := e.value
			if r.KeysOnly {
				value = nil
			}
			count++
			return yield(e.key, value) && count != r.Limit
		})
	}
}

func (t *txn) Set(key, value []byte, expiresAt time.Time) error {
	if err := t.budget.Spend(key, value); err != nil {
		return err
	}
	t.own()
	t.state.set(newEntry(key, value, expiresAt))
	return nil
}

// As is kv.Txn. No class is refused, because there is no disk.
func (t *txn) As(c kv.Class) kv.Class { return t.budget.As(c) }

func (t *txn) Written() int { return t.budget.Written() }

func (t *txn) Delete(key []byte) error {
	if err := t.budget.Spend(key, nil); err != nil {
		return err
	}
	if e, found := t.state.entries.Get(&entry{key: key}); found {
		t.own()
		t.state.remove(e)
	}
	return nil
}

// dropExpired drops what has expired by now: the first entries in the order of expiry.
func (t *txn) dropExpired(now time.Time) {
	for {
		e, found := t.state.expiring.Min()
		if !found || now.Before(e.expiresAt) {
			return
		}
		t.own()
		t.state.remove(e)
	}
}

// own makes the state safe to modify.
func (t *txn) own() {
	if t.shared {
		t.state, t.shared = t.state.copy(), false
	}
}

// share keeps the state as it is from now on. It writes nothing in a View.
func (t *txn) share() {
	if !t.shared {
		t.shared = true
	}
}

// Size returns the size of all keys and values in bytes.
func (db *DB) Size() int { return db.current.Load().size }

// newEntry copies key and value into one piece of memory.
func newEntry(key, value []byte, expiresAt time.Time) *entry {
	both := bytes.Join([][]byte{key, value}, nil)
	n := len(key)
	return &entry{key: both[:n:n], value: both[n:], expiresAt: expiresAt}
}
