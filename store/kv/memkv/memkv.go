// Package memkv is the reference model of [kv.DB]: simple enough to be obviously
// right. Every other engine is compared with it, and tests use it.
//
// All keys are in one sorted slice, which never changes once published. A View reads
// the current slice; an Update changes a copy and publishes it at its end. Updates run
// one after another under a mutex. Nothing survives the process.
package memkv

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
)

// DB is the model. It is safe for concurrent use.
type DB struct {
	now      func() time.Time
	writing  sync.Mutex // serializes updates
	snapshot atomic.Pointer[[]*entry]

	mu       sync.Mutex // guards closed, and inFlight's growth against Close
	closed   bool
	inFlight sync.WaitGroup
}

// entry is one key with its value; both are immutable.
type entry struct {
	key, value []byte
	expiresAt  time.Time
}

// New returns an empty DB. After each Update it drops what has expired by now, the
// strictest behaviour that contract line 4 allows; with a nil now it never drops
// anything, the mildest.
func New(now func() time.Time) *DB {
	db := &DB{now: now}
	db.snapshot.Store(new([]*entry))
	return db
}

// View runs fn over the snapshot that is current when it begins.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	return fn(&txn{entries: *db.snapshot.Load(), shared: true})
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

	t := &txn{entries: *db.snapshot.Load(), shared: true}
	if err := fn(t); err != nil {
		return err
	}
	db.snapshot.Store(db.unexpired(t.entries))
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

// unexpired returns entries without those that have expired.
func (db *DB) unexpired(entries []*entry) *[]*entry {
	if db.now == nil {
		return &entries
	}
	now := db.now()
	expired := func(e *entry) bool { return !e.expiresAt.IsZero() && !now.Before(e.expiresAt) }
	if slices.ContainsFunc(entries, expired) {
		entries = slices.DeleteFunc(slices.Clone(entries), expired)
	}
	return &entries
}

// txn is one transaction, reading or writing.
type txn struct {
	entries []*entry // sorted by key
	shared  bool     // entries has other readers: copy before a change
	budget  kv.Budget
}

func (t *txn) Get(key []byte) ([]byte, error) {
	i, found := t.find(key)
	if !found {
		return nil, kv.ErrNotFound
	}
	return t.entries[i].value, nil
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
		t.shared = true // a write inside the loop leaves this scan alone
		for _, e := range t.within(r) {
			value := e.value
			if r.KeysOnly {
				value = nil
			}
			if !yield(e.key, value) {
				return
			}
		}
	}
}

func (t *txn) Set(key, value []byte, expiresAt time.Time) error {
	if err := t.budget.Spend(key, value); err != nil {
		return err
	}
	e := &entry{key: bytes.Clone(key), value: append([]byte{}, value...), expiresAt: expiresAt}
	i, found := t.find(key)
	t.own()
	if found {
		t.entries[i] = e
		return nil
	}
	t.entries = slices.Insert(t.entries, i, e)
	return nil
}

func (t *txn) Delete(key []byte) error {
	if err := t.budget.Spend(key, nil); err != nil {
		return err
	}
	i, found := t.find(key)
	if !found {
		return nil
	}
	t.own()
	t.entries = slices.Delete(t.entries, i, i+1)
	return nil
}

// find returns the index of key, or where to insert it.
func (t *txn) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(t.entries, key, func(e *entry, key []byte) int {
		return bytes.Compare(e.key, key)
	})
}

// within returns the entries of r in the order of r.
func (t *txn) within(r kv.Range) []*entry {
	lo, _ := t.find(r.Lo)
	hi := len(t.entries)
	if r.Hi != nil {
		hi, _ = t.find(r.Hi)
	}
	found := t.entries[lo:max(lo, hi)]
	if r.Reverse {
		found = slices.Clone(found)
		slices.Reverse(found)
	}
	if r.Limit > 0 && len(found) > r.Limit {
		found = found[:r.Limit]
	}
	return found
}

// own makes entries safe to modify.
func (t *txn) own() {
	if t.shared {
		t.entries = slices.Clone(t.entries)
		t.shared = false
	}
}
