package database

import (
	"context"
	"time"

	"tollhouse/store/kv/pgkv"
)

// Found is the state of a database and the servers on it.
type Found struct {
	pgkv.Facts
	Clock     pgkv.Clock
	Servers   []pgkv.Server
	Strangers []pgkv.Stranger
	Held      []pgkv.Holder // that are old
	Now       time.Time     // by the database's clock
}

// Look asks the database over a connection of its own. Errors: [ErrEmpty],
// with the facts.
func Look(ctx context.Context, a *pgkv.Address) (f Found, err error) {
	defer func() { err = openFault(a, err) }()
	s, err := pgkv.DialFirst(ctx, a)
	if err != nil {
		return f, err
	}
	defer s.Close()
	switch made, err := s.IsMade(ctx); {
	case err != nil:
		return f, err
	case !made:
		if f.Facts, err = s.Facts(ctx); err == nil {
			err = ErrEmpty
		}
		return f, err
	}
	if f.Facts, err = s.Facts(ctx); err != nil {
		return f, err
	}
	if f.Clock, err = s.Clock(ctx); err != nil {
		return f, err
	}
	if f.Servers, err = s.Servers(ctx); err != nil {
		return f, err
	}
	if f.Strangers, err = s.Strangers(ctx); err != nil {
		return f, err
	}
	f.Now, f.Held, err = s.Holders(ctx, f.Servers)
	return f, err
}

// TryWrite returns why the database refuses to write and remove a row, or nil.
func TryWrite(ctx context.Context, a *pgkv.Address) error {
	s, err := pgkv.Dial(ctx, a)
	if err == nil {
		defer s.Close()
		err = s.TryWrite(ctx)
	}
	return err
}
