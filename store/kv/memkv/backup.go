package memkv

import (
	"context"
	"errors"
	"iter"
	"time"

	"tollhouse/store/kv"
)

var errNotEmpty = errors.New("memkv: records are loaded into an empty store only")

// pageRecords is the number of records in a page of a snapshot.
const pageRecords = 1000

// Snapshot passes every entry of the current state to fn.
func (db *DB) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	state := db.current.Load()
	db.inFlight.Done()
	var err error
	page := make([]kv.Record, 0, min(state.entries.Len(), pageRecords))
	state.within(kv.Range{}, func(e *entry) bool {
		if len(page) == pageRecords {
			if err = errors.Join(fn(page), ctx.Err()); err != nil {
				return false
			}
			page = page[:0]
		}
		r := kv.Record{Key: e.key, Value: e.value}
		if !e.expiresAt.IsZero() {
			// Whole seconds, rounded up.
			r.ExpiresAt = max(1, e.expiresAt.Add(time.Second-1).Unix())
		}
		page = append(page, r)
		return true
	})
	if err != nil {
		return err
	}
	return fn(page)
}

// held is a state that was current.
type held struct {
	db    *DB
	state *State
}

// Hold is kv.Holder.
func (db *DB) Hold(ctx context.Context) (kv.Held, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	return held{db, db.current.Load()}, nil
}

func (h held) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return fn(&txn{state: h.state, shared: true})
}

func (h held) Release() { h.db.inFlight.Done() }

// Load stores the records, whose expiry has whole seconds.
func (db *DB) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	if db.current.Load().entries.Len() > 0 {
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
