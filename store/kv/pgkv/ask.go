package pgkv

import (
	"context"
	"time"

	"tollhouse/store/kv"
)

// ask runs fn to learn which keys it reads. What fn returns, even by a panic, is dropped.
func (db *DB) ask(ctx context.Context, fn func(kv.Txn) error) ([][]byte, error) {
	a := &asker{ctx: ctx, db: db}
	t := &txn{reader: reader{source: a, known: map[string][]byte{}, pending: newPending()}}
	runDropped(t, fn)
	if a.err != nil {
		return nil, a.err
	}
	asked := make([][]byte, 0, len(t.known))
	for key := range t.known {
		asked = append(asked, []byte(key))
	}
	return asked, nil
}

func runDropped(t *txn, fn func(kv.Txn) error) {
	defer func() {
		t.ended = true
		_ = recover()
	}()
	_ = fn(t)
}

// asker reads from memory, or else what is stored now. It has no snapshot.
type asker struct {
	ctx context.Context
	db  *DB
	err error // the database's or that of ctx
}

func (a *asker) get(keys [][]byte, row func(key, sealed []byte)) error {
	missing := a.db.memory.find(keys, row)
	if len(missing) == 0 {
		return nil
	}
	return a.exchange(a.db.getCall(missing, row))
}

func (a *asker) page(rng kv.Range, n int) ([]stored, error) {
	return readPage(a.db, rng, n, a.exchange)
}

func (a *asker) exchange(one call) error {
	a.err = a.db.read(a.ctx, one)
	return a.err
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
