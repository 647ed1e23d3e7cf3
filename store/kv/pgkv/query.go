package pgkv

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// with runs fn on a connection of the pool, for tables besides the store's own. fn must
// leave no transaction open. Errors: [kv.ErrUnavailable] for whatever fn returns, unless
// ctx has ended.
func (db *DB) with(ctx context.Context, fn func(ctx context.Context, c *pgx.Conn) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	c, err := db.pool.take(ctx)
	if err != nil {
		return err
	}
	defer db.pool.put(c)
	limited, cancel := context.WithTimeout(ctx, db.opts.wait(statementMax))
	defer cancel()
	if err := fn(limited, c.Conn); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return db.unavailable(err)
	}
	return nil
}

// lasting returns a connection of its own, without time limits, for session locks and
// LISTEN. The caller closes it.
func (db *DB) lasting(ctx context.Context) (*pgx.Conn, error) {
	c, err := db.dial(ctx, roleLasting)
	if err != nil {
		return nil, db.unavailable(err)
	}
	return c.Conn, nil
}
