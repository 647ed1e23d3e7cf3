package storetest

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

func isInTurns() bool { return os.Getenv(EnvEngine) == "postgres" }

// inTurns is a database that two processes have open. Every transaction goes to the other
// one than the last, as requests behind a load balancer do.
type inTurns struct {
	*pgkv.DB
	other *pgkv.DB
	turns atomic.Int64
}

func newInTurns(t testing.TB) kv.DB {
	t.Helper()
	return inTurnsOn(t, pgtest.Emptied(t))
}

// patience multiplies the time limits of databases, which no test here is about.
const patience = 20

func inTurnsOn(t testing.TB, dsn string) kv.DB {
	t.Helper()
	options := pgkv.Options{URL: dsn, Connections: 4}.Patient(patience)
	return &inTurns{
		DB:    must.Get(pgkv.Open(context.Background(), options))(t),
		other: must.Get(pgkv.Open(context.Background(), options))(t),
	}
}

// newServers returns the store of the first of two servers on a database of their own. What
// a test breaks is broken for both.
func newServers(t testing.TB, clock *Clock, change []func(*store.Options)) *Fixture {
	t.Helper()
	options := pgkv.Options{URL: pgtest.Emptied(t), Connections: 4}.Patient(patience)
	open := func() *pgkv.DB { return must.Get(pgkv.Open(context.Background(), options))(t) }
	first, second, key := open(), open(), secret.NewKey(nil)
	change = append(slices.Clip(change), func(o *store.Options) { o.Key = key })
	faults := NewFaults(first)
	f := Open(t, sharedFaults{faults, first, first}, clock, change...)
	other := Open(t, sharedFaults{&Faults{second, faults.faultState}, second, second}, clock, change...)
	f.Faults, f.Other = faults, other.Store
	rest := f.rest
	f.rest = func() { rest(); other.rest() }
	return f
}

// sharedFaults is a Faults that the store takes to be shared.
type sharedFaults struct {
	*Faults
	kv.Caller
	kv.Locker
}

// InPostgres returns an empty store in a database of its own.
func InPostgres(t testing.TB) *Fixture {
	t.Helper()
	return OnPostgres(t, pgtest.Emptied(t))
}

// OnPostgres returns the store in a database, as one server has it.
func OnPostgres(t testing.TB, dsn string, change ...func(*store.Options)) *Fixture {
	t.Helper()
	db := must.Get(pgkv.Open(context.Background(), pgkv.Options{URL: dsn}.Patient(patience)))(t)
	return Open(t, db, NewClock(), change...)
}

func (p *inTurns) next() *pgkv.DB {
	if p.turns.Add(1)%2 == 0 {
		return p.DB
	}
	return p.other
}

func (p *inTurns) View(ctx context.Context, fn func(kv.Reader) error) error {
	return p.next().View(ctx, fn)
}

func (p *inTurns) Update(ctx context.Context, fn func(kv.Txn) error) error {
	return p.next().Update(ctx, fn)
}

func (p *inTurns) UpdateEach(ctx context.Context, fns []func(kv.Txn) error) []error {
	return p.next().UpdateEach(ctx, fns)
}

func (p *inTurns) Close() error { return errors.Join(p.DB.Close(), p.other.Close()) }
