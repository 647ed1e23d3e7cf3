package record

import (
	"bytes"
	"context"

	"tollhouse/store/kv"
)

const DeleteBatchMax = 400 // keys removed in one Update

// DeleteAll removes every key of the ranges in batches. Use it to clean up after a
// change that has taken effect; it is not atomic. Each batch starts after the one
// before: engines pass over deleted keys, so starting again each time would cost
// quadratic time.
func DeleteAll(ctx context.Context, db kv.DB, ranges ...kv.Range) error {
	for _, r := range ranges {
		r.KeysOnly, r.Limit = true, DeleteBatchMax
		for {
			var keys [][]byte
			err := db.View(ctx, func(rd kv.Reader) error {
				for k := range rd.Scan(r) {
					keys = append(keys, bytes.Clone(k))
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				break
			}
			if err := UpdateAs(ctx, db, kv.Ending, func(tx kv.Txn) error { return DeleteKeys(tx, keys...) }); err != nil {
				return err
			}
			r.Lo = append(keys[len(keys)-1], 0)
		}
	}
	return nil
}

// DeleteKeys deletes keys in one transaction, which bounds them to 1,000 (package kv). A key
// that does not exist is no error.
func DeleteKeys(tx kv.Txn, keys ...[]byte) error {
	for _, k := range keys {
		if err := tx.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// UpdateAs is Update for an update of that class.
func UpdateAs(ctx context.Context, db kv.DB, c kv.Class, fn func(kv.Txn) error) error {
	return db.Update(ctx, func(tx kv.Txn) error {
		tx.As(c)
		return fn(tx)
	})
}
