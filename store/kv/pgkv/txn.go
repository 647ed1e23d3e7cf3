package pgkv

import (
	"time"

	"tollhouse/store/kv"
)

// txn is one Update: a reader of what is stored, overlaid with pending writes.
type txn struct {
	reader
	budget kv.Budget
}

func (t *txn) Set(key, value []byte, expiresAt time.Time) error {
	t.mustBeOpen()
	if err := t.budget.Spend(key, value); err != nil {
		return err
	}
	t.pending.write(key, change{sealed: kv.Seal(key, value), x: expiry(expiresAt)})
	return nil
}

func (t *txn) Delete(key []byte) error {
	t.mustBeOpen()
	if err := t.budget.Spend(key, nil); err != nil {
		return err
	}
	t.pending.write(key, change{deleted: true})
	return nil
}

// As is kv.Txn. No class is refused: the disk is the database's own.
func (t *txn) As(c kv.Class) kv.Class { return t.budget.As(c) }

func (t *txn) Written() int { return t.budget.Written() }
