package pgkv

import (
	"context"
	"time"

	"tollhouse/store/kv"
)

var beginView = statement{"begin view", "begin isolation level repeatable read read only"}

// view is one View. Its transaction begins with the first read.
type view struct {
	reader
	ctx context.Context
	db  *DB
	c   *conn // nil before the first read
}

func newView(ctx context.Context, db *DB) *view {
	v := &view{ctx: ctx, db: db}
	v.reader = reader{source: v, known: map[string][]byte{}}
	return v
}

// exchange sends one statement, and begins the transaction with the first.
func (v *view) exchange(one call) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	limit := v.db.opts.wait(statementMax)
	if v.c != nil {
		if err := v.c.exchange(limit, one); err != nil {
			return v.db.unavailable(err)
		}
		return nil
	}
	begun := time.Now()
	for {
		c, err := v.db.pool.take(v.ctx)
		if err != nil {
			return err
		}
		err = c.exchange(max(limit-time.Since(begun), statementMin), call{statement: beginView}, one)
		if err == nil {
			v.c = c
			return nil
		}
		stale := isStale(c, err) && time.Since(begun) < limit
		c.discard()
		v.db.pool.put(c)
		if !stale {
			return v.db.unavailable(err)
		}
		v.db.pool.reset() // it broke while it was idle, and so did the others
	}
}

func (v *view) get(keys [][]byte, row func(key, sealed []byte)) error {
	return v.exchange(v.db.getCall(keys, row))
}

func (v *view) page(rng kv.Range, n int) ([]stored, error) {
	return readPage(v.db, rng, n, v.exchange)
}

func (v *view) close() {
	v.ended = true
	if v.c != nil {
		v.c.leave()
		v.db.pool.put(v.c)
	}
}

// read sends statements in one round trip, outside a transaction of the store.
func (db *DB) read(ctx context.Context, calls ...call) error {
	begun, limit := time.Now(), db.opts.wait(statementMax)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := db.pool.take(ctx)
		if err != nil {
			return err
		}
		err = c.exchange(max(limit-time.Since(begun), statementMin), calls...)
		stale := isStale(c, err) && time.Since(begun) < limit
		db.pool.put(c)
		switch {
		case err == nil:
			return nil
		case !stale:
			return db.unavailable(err)
		}
		db.pool.reset()
	}
}
