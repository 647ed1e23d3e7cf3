package pgkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

const (
	guessRowsMax    = 1 << 16
	guessTrimEvery  = 1 << 9                          // insertions of a process
	guessRowsFull   = guessRowsMax - 8*guessTrimEvery // of eight processes, each is about to look
	guessRowsLeft   = guessRowsFull - 8*guessTrimEvery
	guessSweepBatch = 1000 // rows
	guessTriesMax   = 5
	guessTimeMax    = 3 * time.Second
	guessConnsShare = 3 // of this part of the connections: strangers who guess leave some to readers
)

// Guesses is the table of the throttle's buckets. All processes on a database share it.
// It is unlogged: a crash of the database or a failover empties it.
type Guesses struct {
	db       *DB
	now      func() time.Time // nil is the clock of the database, which all processes share
	turns    chan struct{}
	inserted atomic.Int64
}

// Guesses returns the table. now is for tests; nil is the clock of the database.
func (db *DB) Guesses(now func() time.Time) *Guesses {
	return &Guesses{db: db, now: now, turns: make(chan struct{}, max(db.opts.Connections/guessConnsShare, 1))}
}

var (
	guessBegin = statement{"guess begin", "begin isolation level read committed read write"}
	guessAsync = statement{"guess async", "set local synchronous_commit = off"}
	guessLock  = statement{"guess lock", "select bucket, state from tollhouse.guess where bucket = any($1) order by bucket for update"}
	guessClock = statement{"guess clock", "select (extract(epoch from clock_timestamp()) * 1000000)::int8"}

	guessDelete = statement{"guess delete", "delete from tollhouse.guess where bucket = any($1)"}
	guessUpdate = statement{"guess update", "update tollhouse.guess g set state = n.state, until = to_timestamp(n.until::float8 / 1000000) " +
		"from unnest($1::bytea[], $2::bytea[], $3::int8[]) as n (bucket, state, until) where g.bucket = n.bucket"}
	// In one order, so that two processes do not deadlock, and without "on conflict": a
	// row that another process inserted meanwhile ends the transaction, and it runs again.
	guessInsert = statement{"guess insert", "insert into tollhouse.guess (bucket, state, until) select bucket, state, to_timestamp(until::float8 / 1000000) " +
		"from unnest($1::bytea[], $2::bytea[], $3::int8[]) as n (bucket, state, until) order by 1"}
	guessCommit = statement{"guess commit", "commit"}

	guessSweep = statement{"guess sweep", `delete from tollhouse.guess where bucket = any(array(select bucket from tollhouse.guess
		where until <= coalesce(to_timestamp($1::int8::float8 / 1000000), clock_timestamp()) limit $2 for update skip locked)) returning 1`}
	guessTrim = statement{"guess trim", `delete from tollhouse.guess where bucket = any(array(select bucket from tollhouse.guess order by until
		limit (select case when count(*) > $1 then count(*) - $2 else 0 end from tollhouse.guess) for update skip locked))`}
)

// Change locks the named rows in the order of their names, runs change over their states,
// and stores those that it replaced, in two round trips, or in one if it replaced none. A
// nil state is no row. change may run more than once. Errors: kv.ErrUnavailable.
func (g *Guesses) Change(ctx context.Context, names [][]byte, change func(now time.Time, states [][]byte, until []time.Time)) error {
	if err := g.db.enter(ctx); err != nil {
		return err
	}
	defer g.db.inFlight.Done()
	ctx, cancel := context.WithTimeout(ctx, g.db.opts.wait(guessTimeMax))
	defer cancel()
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, ctx.Err())
	}
	inserted, err := 0, error(nil)
	for range guessTriesMax {
		inserted, err = g.try(ctx, names, change)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "23505" {
			break
		}
	}
	if err != nil {
		return g.db.unavailable(err)
	}
	before := g.inserted.Add(int64(inserted)) - int64(inserted)
	if before/guessTrimEvery != (before+int64(inserted))/guessTrimEvery {
		_ = g.run(ctx, call{statement: guessTrim, params: [][]byte{int8Param(guessRowsFull), int8Param(guessRowsLeft)}}) // a later change tries again
	}
	return nil
}

func (g *Guesses) try(ctx context.Context, names [][]byte, change func(time.Time, [][]byte, []time.Time)) (inserted int, err error) {
	c, err := g.db.pool.take(ctx)
	if err != nil {
		return 0, err
	}
	defer g.db.pool.put(c)
	open := true
	defer func() {
		if open && !c.IsClosed() {
			c.leave()
		}
	}()
	now, found := time.Time{}, make([][]byte, len(names))
	err = c.exchange(timeLeft(ctx), call{statement: guessBegin}, call{statement: guessAsync},
		call{statement: guessLock, params: [][]byte{byteaArray(names)}, row: func(v [][]byte) {
			for i, name := range names {
				if bytes.Equal(name, v[0]) {
					found[i] = append([]byte{}, v[1]...)
				}
			}
		}},
		call{statement: guessClock, row: func(v [][]byte) { now = time.UnixMicro(int8Value(v[0])) }})
	if err != nil {
		return 0, err
	}
	if g.now != nil {
		now = g.now()
	}
	states, until := make([][]byte, len(names)), make([]time.Time, len(names))
	for i, state := range found {
		states[i] = bytes.Clone(state)
	}
	change(now, states, until)
	var w guessWrites
	for i, name := range names {
		w.add(name, found[i], states[i], until[i])
	}
	if len(w.calls()) == 0 {
		return 0, nil
	}
	err = c.exchange(timeLeft(ctx), append(w.calls(), call{statement: guessCommit})...)
	open = err != nil
	return len(w.inserted.names), err
}

// timeLeft is at least a moment: no limit at all has another meaning.
func timeLeft(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline), time.Millisecond)
}

// guessWrites are the rows that change.
type guessWrites struct {
	deleted           [][]byte
	updated, inserted guessColumns
}

type guessColumns struct {
	names, states [][]byte
	until         []int64 // microseconds since 1970
}

func (c *guessColumns) add(name, state []byte, until time.Time) {
	c.names, c.states, c.until = append(c.names, name), append(c.states, state), append(c.until, until.UnixMicro())
}

func (c *guessColumns) params() [][]byte {
	return [][]byte{byteaArray(c.names), byteaArray(c.states), int8Array(c.until)}
}

func (w *guessWrites) add(name, before, after []byte, until time.Time) {
	switch {
	case (before == nil) == (after == nil) && bytes.Equal(before, after):
	case after == nil:
		w.deleted = append(w.deleted, name)
	case before == nil:
		w.inserted.add(name, after, until)
	default:
		w.updated.add(name, after, until)
	}
}

func (w *guessWrites) calls() (calls []call) {
	if len(w.deleted) > 0 {
		calls = append(calls, call{statement: guessDelete, params: [][]byte{byteaArray(w.deleted)}})
	}
	if len(w.updated.names) > 0 {
		calls = append(calls, call{statement: guessUpdate, params: w.updated.params()})
	}
	if len(w.inserted.names) > 0 {
		calls = append(calls, call{statement: guessInsert, params: w.inserted.params()})
	}
	return calls
}

// run runs one statement by itself.
func (g *Guesses) run(ctx context.Context, statement call) error {
	c, err := g.db.pool.take(ctx)
	if err != nil {
		return err
	}
	defer g.db.pool.put(c)
	return c.exchange(g.db.opts.wait(statementMax), statement)
}

// Sweep deletes the rows whose time has passed. Errors: kv.ErrUnavailable.
func (g *Guesses) Sweep(ctx context.Context) error {
	if err := g.db.enter(ctx); err != nil {
		return err
	}
	defer g.db.inFlight.Done()
	var now []byte // NULL is the clock of the database
	if g.now != nil {
		now = int8Param(g.now().UnixMicro())
	}
	for swept := guessSweepBatch; swept == guessSweepBatch; {
		swept = 0
		err := g.run(ctx, call{statement: guessSweep, params: [][]byte{now, int8Param(guessSweepBatch)}, row: func([][]byte) { swept++ }})
		if err != nil {
			return g.db.unavailable(err)
		}
	}
	return nil
}
