package record

import (
	"context"

	"tollhouse/store/kv"
)

// GuardedDB is a DB whose Updates begin with a check, for work in batches that must stop
// when what it is for has changed.
type GuardedDB struct {
	kv.DB
	Check func(kv.Reader) error
}

// Update is the engine's, and returns the error of the check.
func (g GuardedDB) Update(ctx context.Context, fn func(kv.Txn) error) error {
	return g.DB.Update(ctx, func(tx kv.Txn) error {
		if err := g.Check(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}
