package pgkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

// RefusedError means that the database answers and must not be used as it is. Error
// gives the reason, Hint the next step.
type RefusedError struct {
	Reason  string
	Remedy  string
	Passing bool // a restart is enough
}

func (e *RefusedError) Error() string { return e.Reason }

// Hint returns the next step.
func (e *RefusedError) Hint() string { return e.Remedy }

// FullError means that the disk of the database is full. It matches [kv.ErrFull]. All
// updates are refused then, whatever their class: the database keeps no room for any.
type FullError struct{}

func (*FullError) Error() string { return "the disk of the database is full" }

// Hint returns the next step.
func (*FullError) Hint() string {
	return "free space on the database's machine; the servers resume automatically"
}

func (*FullError) Unwrap() error { return kv.ErrFull }

func movedFrom(was, found site) error {
	if was.instance != found.instance {
		return &RefusedError{
			Reason: "the database now holds another store",
			Remedy: "check the address, and start again",
		}
	}
	return &RefusedError{
		Reason:  fmt.Sprintf("the store was restored or upgraded: generation %d instead of %d", found.generation, was.generation),
		Remedy:  "start again",
		Passing: true,
	}
}

// unavailable returns err as callers may see it, without names and addresses, and
// resets the pool if the server is no longer a primary or does not answer in time.
func (db *DB) unavailable(err error) error {
	if errors.Is(err, kv.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	db.counts.unavailable.Add(1)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "53100" {
		return &FullError{}
	}
	if errors.As(err, &refused) && (refused.Code == "25006" || refused.Code == "57P01") || pgconn.Timeout(err) {
		db.pool.reset()
	}
	return newAwayError(err)
}

// answered reports whether err came from the server over a connection that still works.
func answered(c *conn, err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && !c.IsClosed()
}

// isStale reports whether a connection broke while it was idle, so that another may do.
func isStale(c *conn, err error) bool {
	return err != nil && c.used && c.rows == 0 && !answered(c, err)
}
