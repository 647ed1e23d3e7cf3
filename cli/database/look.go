package database

import (
	"context"

	"tollhouse/store/kv/pgkv"
)

// Found is the state of a database and the servers on it.
type Found struct {
	pgkv.Facts
	Clock     pgkv.Clock
	Servers   []pgkv.Server
	Strangers []pgkv.Stranger
}

// Look asks the database over a connection of its own. Errors: [ErrEmpty].
func Look(ctx context.Context, a *pgkv.Address) (f Found, err error) {
	defer func() { err = openFault(a, err) }()
	s, err := pgkv.Dial(ctx, a)
	if err != nil {
		return f, err
	}
	defer s.Close()
	switch made, err := s.IsMade(ctx); {
	case err != nil:
		return f, err
	case !made:
		return f, ErrEmpty
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
	f.Strangers, err = s.Strangers(ctx)
	return f, err
}
