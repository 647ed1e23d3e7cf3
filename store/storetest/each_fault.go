package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// Call is a use of a store, by which tests see what a fault of the engine does.
type Call struct {
	Name string
	// Run returns what the caller gets. Nil opens the store.
	Run func(context.Context, *store.Store) (any, error)
	// InSteps marks a call of several Updates. Those before the fault are kept.
	InSteps bool
	// Leaves marks a call in steps that adds records at each attempt, such as an audit line
	// or an event, or leaves records that are never read.
	Leaves bool
	// Seals marks a call that seals with a new nonce, so it never writes the same bytes twice.
	Seals bool
	// Remakes marks a call in steps that changes counts of events. They are derived: damaged
	// ones begin again, and RepairCounts sets them right.
	Remakes bool
}

// EachFault runs every call over an engine that fails at its first step (a transaction,
// a read, a write or a commit), over one that fails at its second, and so on. Each time the
// call must return the error and change nothing, or do the same as without it; and it must
// succeed once the engine works.
func (f *Fixture) EachFault(t *testing.T, calls []Call) {
	t.Helper()
	f.each(t, calls, fault{fails: kv.ErrAway})
}

// EachDamage runs every call over an engine whose first value read has an unknown form,
// over one with such a second value, and so on. The call must return ErrCorrupt, as above.
func (f *Fixture) EachDamage(t *testing.T, calls []Call) {
	t.Helper()
	f.each(t, calls, fault{fails: kv.ErrCorrupt, damages: true})
}

// EachCancelled runs every call with a context that is done. Each must return its error
// and change nothing. Those in steps may continue, for what must finish without its caller.
func (f *Fixture) EachCancelled(t *testing.T, calls []Call) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	given := f.copied(t)
	for _, c := range calls {
		db := memkv.NewFrom(given, nil)
		s := must.Get(store.Open(t.Context(), db, f.options))(t)
		_, err := c.Run(ctx, s)
		if goesOn := c.InSteps && (err == nil || errors.Is(err, context.Canceled)); !goesOn && (!errors.Is(err, context.Canceled) || db.State() != given) {
			t.Errorf("%s of a caller that has gone: %v; it left changes: %t", c.Name, err, db.State() != given)
		}
	}
}

func (f *Fixture) each(t *testing.T, calls []Call, which fault) {
	t.Helper()
	given := f.copied(t)
	for _, c := range calls {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			whole := f.run(t, given, c, which, math.MaxInt)
			must.Do(t, whole.err)
			for at := range whole.steps {
				f.compare(t, at, c, whole, f.run(t, given, c, which, at))
			}
		})
	}
}

// copied returns everything in the engine, of whatever kind it is.
func (f *Fixture) copied(t testing.TB) *memkv.State {
	t.Helper()
	db := memkv.New(nil)
	must.Do(t, db.Load(t.Context(), func(yield func(kv.Record, error) bool) {
		for _, r := range recordsOf(t, f.DB.(kv.Snapshotter)) {
			if !yield(r, nil) {
				return
			}
		}
	}))
	return db.State()
}

func recordsOf(t testing.TB, db kv.Snapshotter) (records []kv.Record) {
	t.Helper()
	must.Do(t, db.Snapshot(t.Context(), func(page []kv.Record) error {
		for _, r := range page {
			records = append(records, kv.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), ExpiresAt: r.ExpiresAt})
		}
		return nil
	}))
	return records
}

// faultRun is what a call did over an engine with a fault.
type faultRun struct {
	store *store.Store
	call  func(context.Context, *store.Store) (any, error)
	db    *faulty
	got   any
	err   error
	left  *memkv.State
	steps int
	kept  bool // left is what the call was given
}

// run makes a call on a new store, whose engine has the fault at a step.
func (f *Fixture) run(t *testing.T, given *memkv.State, c Call, which fault, at int) (r faultRun) {
	t.Helper()
	r.db = &faulty{DB: memkv.NewFrom(given, nil), fault: which, at: -1}
	options := f.options
	options.Random = repeated()
	open := func(ctx context.Context, _ *store.Store) (any, error) {
		_, err := store.Open(ctx, r.db, options)
		return nil, err
	}
	r.store, r.call = must.Get(store.Open(t.Context(), r.db, options))(t), c.Run
	if r.call == nil {
		r.call = open
	}
	r.db.at, r.db.steps = at, 0
	r.got, r.err = r.call(t.Context(), r.store)
	r.steps, r.left = r.db.end(), r.db.State()
	r.kept = r.left == given
	return r
}

// repeated returns a source that draws the same as any other one.
func repeated() secret.Source {
	var mu sync.Mutex
	drawn := map[string]uint64{}
	return func(sequence string, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		drawn[sequence]++
		seed := sha256.Sum256(fmt.Appendf(nil, "%s %d", sequence, drawn[sequence]))
		_, _ = rand.NewChaCha8(seed).Read(b)
	}
}

// compare checks a call that met a fault.
func (f *Fixture) compare(t *testing.T, at int, c Call, whole, r faultRun) {
	t.Helper()
	same := func(what string, r faultRun) {
		t.Helper()
		if !reflect.DeepEqual(r.got, whole.got) {
			t.Errorf("step %d: %s, the call returns %+v, want %+v", at, what, r.got, whole.got)
		}
	}
	switch {
	case errors.Is(r.err, r.db.fails):
		if !c.InSteps && !c.Remakes && !r.kept {
			t.Errorf("step %d: the call failed and left changes", at)
		}
	case r.err != nil:
		t.Errorf("step %d: the call ends with %v, want %v", at, r.err, r.db.fails)
	case !c.Remakes || !r.db.damages:
		same("in spite of the fault", r)
		if !c.Seals && !reflect.DeepEqual(recordsOf(t, r.db), recordsOf(t, memkv.NewFrom(whole.left, nil))) {
			t.Errorf("step %d: the fault changed what the call writes", at)
		}
	}
	if r.err != nil || whole.kept {
		if r.got, r.err = r.call(t.Context(), r.store); r.err != nil {
			t.Errorf("step %d: with the engine in order again: %v", at, r.err)
		}
		if whole.kept && !c.Remakes {
			same("with the engine in order again", r)
		}
		if got, want := len(recordsOf(t, r.db)), len(recordsOf(t, memkv.NewFrom(whole.left, nil))); got != want && !c.Leaves && !c.Remakes {
			t.Errorf("step %d: when the call is made again there are %d records, want %d", at, got, want)
		}
	}
	if whole.kept && r.db.State() == whole.left {
		return
	}
	if _, err := r.store.CheckAll(t.Context()); err != nil {
		t.Errorf("step %d: %v", at, err)
	}
	if !c.Remakes {
		return
	}
	for _, may := range []bool{r.db.damages, false} {
		if differ, err := r.store.Events.RepairCounts(t.Context()); differ && !may || err != nil {
			t.Errorf("step %d: the counts differ from the logs, %v", at, err)
		}
	}
}

// fault is what goes wrong at one step.
type fault struct {
	fails   error
	damages bool // the steps are values that are read, and one has an unknown form
}

// faulty is an engine with a fault at one step of its work.
type faulty struct {
	*memkv.DB
	fault

	mu    sync.Mutex
	at    int
	steps int
}

// end removes the fault, and returns how many steps there were.
func (db *faulty) end() (steps int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.at = -1
	return db.steps
}

func (db *faulty) isNow() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.at < 0 {
		return false
	}
	db.steps++
	return db.steps == db.at+1
}

// step returns the fault if it is due.
func (db *faulty) step() error {
	if db.damages || !db.isNow() {
		return nil
	}
	return db.fails
}

// value returns a value as it is read. That of a list of endpoints is a text, which has
// no form.
func (db *faulty) value(k, v []byte) []byte {
	if !db.damages || len(v) == 0 || k[0] == record.TagWebhookID || !db.isNow() {
		return v
	}
	if k[0] == record.TagUserName { // an id
		return v[1:]
	}
	v = slices.Clone(v)
	v[0] ^= 0xff
	return v
}

func (db *faulty) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := db.step(); err != nil {
		return err
	}
	return db.DB.View(ctx, func(r kv.Reader) error {
		fr := &faultyReader{Reader: r, db: db}
		return fr.outcome(fn(fr))
	})
}

func (db *faulty) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if err := db.step(); err != nil {
		return err
	}
	return db.DB.Update(ctx, func(tx kv.Txn) error {
		ft := &faultyTxn{faultyReader{Reader: tx, db: db}, tx}
		if err := ft.outcome(fn(ft)); err != nil {
			return err
		}
		return db.step()
	})
}

type faultyReader struct {
	kv.Reader
	db     *faulty
	failed error // of a range
}

// outcome is the result of a transaction: a range that ended early fails it.
func (r *faultyReader) outcome(err error) error {
	if r.failed != nil {
		return r.failed
	}
	return err
}

func (r *faultyReader) fails() bool {
	err := r.db.step()
	if err != nil {
		r.failed = err
	}
	return err != nil
}

func (r *faultyReader) Get(key []byte) ([]byte, error) {
	if err := r.db.step(); err != nil {
		return nil, err
	}
	v, err := r.Reader.Get(key)
	return r.db.value(key, v), err
}

func (r *faultyReader) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i, v := range r.Reader.GetMany(keys) {
			if r.fails() || !yield(i, r.db.value(keys[i], v)) {
				return
			}
		}
	}
}

func (r *faultyReader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if r.fails() {
			return
		}
		for k, v := range r.Reader.Scan(rng) {
			if r.fails() || !yield(k, r.db.value(k, v)) {
				return
			}
		}
	}
}

type faultyTxn struct {
	faultyReader
	tx kv.Txn
}

func (t *faultyTxn) Set(key, value []byte, expiresAt time.Time) error {
	if err := t.db.step(); err != nil {
		return err
	}
	return t.tx.Set(key, value, expiresAt)
}

func (t *faultyTxn) Delete(key []byte) error {
	if err := t.db.step(); err != nil {
		return err
	}
	return t.tx.Delete(key)
}

func (t *faultyTxn) As(c kv.Class) kv.Class { return t.tx.As(c) }

func (t *faultyTxn) Written() int { return t.tx.Written() }
