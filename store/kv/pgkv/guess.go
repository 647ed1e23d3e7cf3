package pgkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

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
	guessConnsMax   = 8 // so that strangers who guess leave connections to readers
)

// Guesses is the table of the throttle's buckets. All processes on a database share it.
// It is unlogged: a crash of the database or a failover empties it.
type Guesses struct {
	pool     *pgxpool.Pool
	now      func() time.Time // nil is the clock of the database, which all processes share
	turns    chan struct{}
	inserted atomic.Int64
}

// NewGuesses returns the table over a pool. now is for tests; nil is the clock of the
// database.
func NewGuesses(pool *pgxpool.Pool, now func() time.Time) *Guesses {
	return &Guesses{pool: pool, now: now, turns: make(chan struct{}, guessConnsMax)}
}

// Change locks the named rows in the order of their names, runs change over their states,
// and stores those that it replaced, in two round trips. A nil state is no row. change may
// run more than once. Errors: kv.ErrUnavailable, within 3 s.
func (g *Guesses) Change(ctx context.Context, names [][]byte, change func(now time.Time, states [][]byte, until []time.Time)) error {
	ctx, cancel := context.WithTimeout(ctx, guessTimeMax)
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
		if !errors.As(err, &refused) || refused.Code != "23505" { // another process inserted the row
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s", kv.ErrUnavailable, Reason(err))
	}
	before := g.inserted.Add(int64(inserted)) - int64(inserted)
	if before/guessTrimEvery != (before+int64(inserted))/guessTrimEvery {
		_ = g.trim(ctx) // the change itself is done; a later one tries again
	}
	return nil
}

// guessRow is a row as it was read.
type guessRow struct{ name, state []byte }

func (g *Guesses) try(ctx context.Context, names [][]byte, change func(time.Time, [][]byte, []time.Time)) (inserted int, err error) {
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release() // closes a connection whose transaction is open
	now, read, err := g.lock(ctx, conn.Conn(), names)
	if err != nil {
		return 0, rolledBack(ctx, conn.Conn(), err)
	}
	states, until := make([][]byte, len(names)), make([]time.Time, len(names))
	found := make([][]byte, len(names))
	for i, name := range names {
		if at := slices.IndexFunc(read, func(r guessRow) bool { return bytes.Equal(r.name, name) }); at >= 0 {
			found[i], states[i] = read[at].state, bytes.Clone(read[at].state)
		}
	}
	change(now, states, until)
	var w guessWrites
	for i, name := range names {
		w.add(name, found[i], states[i], until[i])
	}
	return len(w.inserted.names), rolledBack(ctx, conn.Conn(), w.commit(ctx, conn.Conn()))
}

// rolledBack ends a transaction that failed, and returns err.
func rolledBack(ctx context.Context, conn *pgx.Conn, err error) error {
	if err != nil && !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "rollback")
	}
	return err
}

// lock begins a transaction and reads the rows, in one round trip.
func (g *Guesses) lock(ctx context.Context, conn *pgx.Conn, names [][]byte) (now time.Time, read []guessRow, err error) {
	var b pgx.Batch
	b.Queue("begin isolation level read committed read write")
	b.Queue("set local synchronous_commit = off")
	b.Queue("select bucket, state from tollhouse.guess where bucket = any($1) order by bucket for update", names).Query(func(rows pgx.Rows) error {
		read, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r guessRow, err error) {
			return r, row.Scan(&r.name, &r.state)
		})
		return err
	})
	b.Queue("select coalesce($1::timestamptz, clock_timestamp())", g.time()).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	return now, read, conn.SendBatch(ctx, &b).Close()
}

// time is nil for the clock of the database.
func (g *Guesses) time() *time.Time {
	if g.now == nil {
		return nil
	}
	now := g.now()
	return &now
}

// guessWrites are the rows that change. Rows that were absent are inserted without "on
// conflict": a row that another process inserted meanwhile ends the transaction, and it
// runs again over that row.
type guessWrites struct {
	deleted           [][]byte
	updated, inserted guessColumns
}

type guessColumns struct {
	names, states [][]byte
	until         []time.Time
}

func (c *guessColumns) add(name, state []byte, until time.Time) {
	c.names, c.states, c.until = append(c.names, name), append(c.states, state), append(c.until, until)
}

func (w *guessWrites) add(name, before, after []byte, until time.Time) {
	switch {
	case before == nil && after == nil, before != nil && bytes.Equal(before, after):
	case after == nil:
		w.deleted = append(w.deleted, name)
	case before == nil:
		w.inserted.add(name, after, until)
	default:
		w.updated.add(name, after, until)
	}
}

// commit writes the rows and ends the transaction, in one round trip.
func (w *guessWrites) commit(ctx context.Context, conn *pgx.Conn) error {
	var b pgx.Batch
	if len(w.deleted) > 0 {
		b.Queue("delete from tollhouse.guess where bucket = any($1)", w.deleted)
	}
	const columns = "unnest($1::bytea[], $2::bytea[], $3::timestamptz[]) as n (bucket, state, until)"
	if u := w.updated; len(u.names) > 0 {
		b.Queue("update tollhouse.guess g set state = n.state, until = n.until from "+columns+" where g.bucket = n.bucket", u.names, u.states, u.until)
	}
	if i := w.inserted; len(i.names) > 0 { // in one order, so that two processes do not deadlock
		b.Queue("insert into tollhouse.guess (bucket, state, until) select * from "+columns+" order by 1", i.names, i.states, i.until)
	}
	b.Queue("commit")
	return conn.SendBatch(ctx, &b).Close()
}

// trim drops the oldest rows when there are too many. It skips rows that are locked.
func (g *Guesses) trim(ctx context.Context) error {
	const drop = `delete from tollhouse.guess where bucket = any(array(
		select bucket from tollhouse.guess order by until
		limit (select case when count(*) > $1 then count(*) - $2 else 0 end from tollhouse.guess) for update skip locked))`
	_, err := g.pool.Exec(ctx, drop, guessRowsFull, guessRowsLeft)
	return err
}

// Sweep deletes the rows whose time has passed.
func (g *Guesses) Sweep(ctx context.Context) error {
	const drop = `delete from tollhouse.guess where bucket = any(array(
		select bucket from tollhouse.guess where until <= coalesce($1::timestamptz, clock_timestamp()) limit $2 for update skip locked))`
	for {
		done, err := g.pool.Exec(ctx, drop, g.time(), guessSweepBatch)
		if err != nil {
			return fmt.Errorf("%w: %s", kv.ErrUnavailable, Reason(err))
		}
		if done.RowsAffected() < guessSweepBatch {
			return nil
		}
	}
}
