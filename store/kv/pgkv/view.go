package pgkv

import (
	"bytes"
	"context"
	"slices"
	"time"

	"tollhouse/store/kv"
)

// planMax keys of one plan are read together.
const planMax = 16

var beginView = statement{"begin view", "begin isolation level repeatable read read only"}

// view is one View. Its transaction begins with the first read.
type view struct {
	reader
	ctx  context.Context
	db   *DB
	c    *conn    // nil before the first read
	used [][]byte // the keys that fn read, at most planMax
	plan [][]byte // those that earlier views with this first key read
}

func newView(ctx context.Context, db *DB) *view {
	v := &view{ctx: ctx, db: db}
	v.reader = reader{source: v, known: map[string][]byte{}, note: v.note}
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
	if v.c == nil {
		v.plan = v.db.plans.of(keys[0])
		keys = withPlan(keys, v.plan)
	}
	if err := v.exchange(v.db.getCall(keys, row)); err != nil {
		return err
	}
	for _, key := range keys {
		if _, found := v.known[string(key)]; !found {
			v.known[string(key)] = nil
		}
	}
	return nil
}

func withPlan(keys, plan [][]byte) [][]byte {
	for _, key := range plan {
		if !contains(keys, key) {
			keys = append(keys[:len(keys):len(keys)], key)
		}
	}
	return keys
}

func (v *view) page(rng kv.Range, n int) ([]stored, error) {
	return readPage(v.db, rng, n, v.exchange)
}

// note keeps a key that fn reads, for the plan.
func (v *view) note(key []byte) {
	if len(v.used) < planMax && !contains(v.used, key) {
		v.used = append(v.used, bytes.Clone(key))
	}
}

func contains(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}

// learn keeps which keys belong to the first one.
func (v *view) learn() {
	if len(v.used) > 1 && !slices.EqualFunc(v.used, v.plan, bytes.Equal) {
		v.db.plans.keep(v.used)
	}
}

func (v *view) close() {
	v.ended = true
	if v.c != nil {
		v.c.leave()
		v.db.pool.put(v.c)
	}
}
