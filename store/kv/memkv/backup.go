package memkv

import (
	"context"
	"errors"
	"iter"
	"time"

	"tollhouse/store/kv"
)

var errNotEmpty = errors.New("memkv: records are loaded into an empty store only")

// Snapshot passes every entry of the current slice to fn.
func (db *DB) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	var records []kv.Record
	for _, e := range *db.snapshot.Load() {
		r := kv.Record{Key: e.key, Value: e.value}
		if !e.expiresAt.IsZero() {
			// Whole seconds, rounded up.
			r.ExpiresAt = max(1, e.expiresAt.Add(time.Second-1).Unix())
		}
		records = append(records, r)
	}
	return fn(records)
}

// Load stores the records, whose expiry has whole seconds.
func (db *DB) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	if len(*db.snapshot.Load()) > 0 {
		return errNotEmpty
	}
	for r, err := range records {
		if err != nil {
			return err
		}
		var expiresAt time.Time
		if r.ExpiresAt != 0 {
			expiresAt = time.Unix(r.ExpiresAt, 0)
		}
		err = db.Update(ctx, func(tx kv.Txn) error { return tx.Set(r.Key, r.Value, expiresAt) })
		if err != nil {
			return err
		}
	}
	return nil
}
