package storetest

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
)

// Asking is an engine in memory that first runs each Update's fn over values that never
// existed together: some keys are missing, others have an old value. It discards the
// outcome, panics included, and then runs the Update. An engine on a database does so to
// learn which keys fn reads.
type Asking struct {
	*memkv.DB

	mu     sync.Mutex
	past   []*memkv.State // oldest first
	random *rand.Rand
}

// NewAsking returns an Asking over db.
func NewAsking(db *memkv.DB) *Asking {
	return &Asking{DB: db, past: []*memkv.State{memkv.New(nil).State()}, random: rand.New(rand.NewPCG(1, 2))}
}

const (
	askedPastMax = 8       // states that the first run reads from
	askedReads   = 200_000 // reads after which the first run is endless
)

// Update runs fn twice; only the second run counts.
func (a *Asking) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if ctx.Err() == nil {
		a.ask(ctx, fn)
	}
	err := a.DB.Update(ctx, fn)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.past = append(a.past, a.State()); len(a.past) > askedPastMax {
		a.past = a.past[1:]
	}
	return err
}

type endless struct{}

func (a *Asking) ask(ctx context.Context, fn func(kv.Txn) error) {
	defer func() {
		if r := recover(); r == (endless{}) {
			panic("storetest: an Update's fn does not end on values that do not agree")
		}
	}()
	a.mu.Lock()
	tx := &askingTxn{own: map[string][]byte{}, random: rand.New(rand.NewPCG(a.random.Uint64(), 0))}
	for _, state := range append(slices.Clone(a.past), a.State()) {
		_ = memkv.NewFrom(state, nil).View(ctx, func(r kv.Reader) error { // it stays valid: a State never changes
			tx.states = append(tx.states, r)
			return nil
		})
	}
	a.mu.Unlock()
	_ = fn(tx)
}

// askingTxn answers each read from some state of the past, or from none.
type askingTxn struct {
	states []kv.Reader
	own    map[string][]byte // nil if deleted
	random *rand.Rand
	reads  int
	budget kv.Budget
}

// state returns the current state half of the time.
func (t *askingTxn) state() kv.Reader {
	if t.reads++; t.reads > askedReads {
		panic(endless{})
	}
	if t.random.IntN(2) == 0 {
		return t.states[len(t.states)-1]
	}
	return t.states[t.random.IntN(len(t.states))]
}

func (t *askingTxn) Get(key []byte) ([]byte, error) {
	state := t.state()
	if value, own := t.own[string(key)]; own {
		if value == nil {
			return nil, kv.ErrNotFound
		}
		return value, nil
	}
	if t.random.IntN(8) == 0 {
		return nil, kv.ErrNotFound
	}
	return state.Get(key)
}

func (t *askingTxn) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i, key := range keys {
			if value, err := t.Get(key); err == nil && !yield(i, value) {
				return
			}
		}
	}
}

func (t *askingTxn) Scan(r kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for k, v := range t.state().Scan(r) {
			_ = t.state()
			if !yield(k, v) {
				return
			}
		}
	}
}

func (t *askingTxn) Set(key, value []byte, _ time.Time) error {
	if err := t.budget.Spend(key, value); err != nil {
		return err
	}
	t.own[string(key)] = append([]byte{}, value...)
	return nil
}

func (t *askingTxn) Delete(key []byte) error {
	if err := t.budget.Spend(key, nil); err != nil {
		return err
	}
	t.own[string(key)] = nil
	return nil
}

func (t *askingTxn) As(c kv.Class) kv.Class { return t.budget.As(c) }

func (t *askingTxn) Written() int { return t.budget.Written() }
