package storetest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// GuessesInPostgres makes a table in a database of the test's own. Each call of open is
// another process on it. Without PostgreSQL the test is skipped.
func GuessesInPostgres(t testing.TB) (open func(now func() time.Time) *pgkv.Guesses) {
	t.Helper()
	dsn := pgtest.Start(t)
	return func(now func() time.Time) *pgkv.Guesses {
		db := must.Get(pgkv.Open(context.Background(), pgkv.Options{URL: dsn}.Patient(patience)))(t)
		t.Cleanup(func() { _ = db.Close() })
		return db.Guesses(now)
	}
}

// Guesses is a table of the throttle's buckets in memory. It runs every change twice, as
// a database may.
type Guesses struct {
	now func() time.Time

	mu     sync.Mutex
	rows   map[string][]byte
	broken error
	left   int // calls that work still
	asked  int
}

// NewGuesses returns an empty table.
func NewGuesses(now func() time.Time) *Guesses {
	return &Guesses{now: now, rows: make(map[string][]byte)}
}

// Change is that of handlers.Guesses.
func (g *Guesses) Change(ctx context.Context, names [][]byte, change func(time.Time, [][]byte, []time.Time)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	if g.left--; g.broken != nil && g.left < 0 {
		return g.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	states := make([][]byte, len(names))
	for range 2 {
		for i, name := range names {
			states[i] = bytes.Clone(g.rows[string(name)])
		}
		change(g.now(), states, make([]time.Time, len(names)))
	}
	for i, name := range names {
		if g.rows[string(name)] = slices.Clone(states[i]); states[i] == nil {
			delete(g.rows, string(name))
		}
	}
	return nil
}

// Break makes Change fail after so many calls, or work again if err is nil.
func (g *Guesses) Break(after int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.broken = after, err
}

// Asked returns the number of calls of Change.
func (g *Guesses) Asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// Len returns the number of buckets.
func (g *Guesses) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.rows)
}
