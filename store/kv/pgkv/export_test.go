package pgkv

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

// CheckProduct is what Open does with the answers of a server.
var CheckProduct = checkProduct

// Setting returns what PostgreSQL has for a setting in a session.
func Setting(s *Session, ctx context.Context, name string) (string, error) {
	return one[string](ctx, s, "select current_setting($1)", name)
}

// LastWrite is what a server that joins compares the clocks with.
var LastWrite = (*Session).lastWrite

// Serializable is a store whose updates are transactions of their own, SERIALIZABLE and
// repeated when they conflict: what the committer is compared with.
type Serializable struct{ *DB }

var beginSerializable = statement{"begin serializable", "begin isolation level serializable"}

// Update runs fn in a transaction of its own.
func (s Serializable) Update(ctx context.Context, fn func(kv.Txn) error) error {
	for {
		err := s.try(ctx, fn)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !slices.Contains([]string{"40001", "40P01", "55P03", "57014"}, refused.Code) {
			return err
		}
	}
}

func (s Serializable) try(ctx context.Context, fn func(kv.Txn) error) (err error) {
	c, err := s.pool.take(ctx)
	if err != nil {
		return err
	}
	defer s.pool.put(c)
	if err := c.exchange(0, call{statement: beginSerializable}); err != nil {
		return err
	}
	source := &serialSource{s.DB, c}
	t := &txn{reader: reader{source: source, known: map[string][]byte{}, pending: newPending()}}
	if err := t.outcome(fn(t)); err != nil {
		c.leave()
		return err
	}
	calls := append(s.writes(t.pending.changes, false), call{statement: commit})
	if err := c.exchange(0, calls...); err != nil {
		c.leave()
		return err
	}
	return nil
}

type serialSource struct {
	db *DB
	c  *conn
}

func (s *serialSource) get(keys [][]byte, row func(key, sealed []byte)) error {
	return s.c.exchange(0, s.db.getCall(keys, row))
}

func (s *serialSource) page(rng kv.Range, n int) ([]stored, error) {
	return readPage(s.db, rng, n, func(one call) error { return s.c.exchange(0, one) })
}

// Settle reads what idle connections have not read yet.
func Settle(db *DB) {
	db.pool.mu.Lock()
	defer db.pool.mu.Unlock()
	for _, c := range db.pool.idle {
		_ = c.settle(time.Minute)
	}
}

// Lasting returns o with connections that live so long.
func (o Options) Lasting(life time.Duration) Options {
	o.life = life
	return o
}

// Trim closes the connections that nobody needed, as of now.
func Trim(db *DB, now time.Time) { db.pool.trim(now) }
