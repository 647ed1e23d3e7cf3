package badgerkv

import (
	"iter"
	"time"

	"tollhouse/store/kv"
)

// txn is one Update: a reader of the group's base, overlaid with the group's pending
// writes.
type txn struct {
	reader
	pending   *pending
	budget    kv.Budget
	wallClock bool
	space     *space
	full      error // why a write was refused, if one was
}

// As is kv.Txn.
func (t *txn) As(c kv.Class) kv.Class { return t.budget.As(c) }

// Written is kv.Txn.
func (t *txn) Written() int { return t.budget.Written() }

// spend counts a write, unless the disk has no room for the update's class.
func (t *txn) spend(key, value []byte) error {
	if class := t.As(kv.Ordinary); class < t.space.least && t.full == nil {
		t.full = t.space.refusal(class)
	}
	if t.full != nil {
		return t.full
	}
	return t.budget.Spend(key, value)
}

func (t *txn) Get(key []byte) ([]byte, error) {
	t.mustBeOpen()
	switch c := t.pending.get(key); c.kind {
	case changeSet:
		return c.value(), nil
	case changeDelete:
		return nil, kv.ErrNotFound
	default:
		return t.getStored(key)
	}
}

func (t *txn) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return t.getMany(keys, t.Get)
}

func (t *txn) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		t.mustBeOpen()
		t.scan(rng, t.pending.within(rng), yield)
	}
}

// Pull is kv.Pull, with the group's own writes among the rows.
func (t *txn) Pull(rng kv.Range) (next func() (key, value []byte, ok bool), stop func()) {
	return iter.Pull2(t.Scan(rng))
}

func (t *txn) Set(key, value []byte, expiresAt time.Time) error {
	t.mustBeOpen()
	if err := t.spend(key, value); err != nil {
		return err
	}
	t.pending.write(key, change{
		kind:      changeSet,
		sealed:    kv.Seal(key, value),
		expiresAt: engineExpiry(expiresAt, t.wallClock),
	})
	return nil
}

func (t *txn) Delete(key []byte) error {
	t.mustBeOpen()
	if err := t.spend(key, nil); err != nil {
		return err
	}
	t.pending.write(key, change{kind: changeDelete})
	return nil
}
