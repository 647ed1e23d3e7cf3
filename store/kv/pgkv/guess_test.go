package pgkv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// guessRows runs SQL on the table of a database.
type guessRows struct{ *pgx.Conn }

func (r guessRows) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	must.Get(r.Exec(t.Context(), sql, args...))(t)
}

func (r guessRows) count(t *testing.T) (n int) {
	t.Helper()
	must.Do(t, r.QueryRow(t.Context(), "select count(*) from tollhouse.guess").Scan(&n))
	return n
}

// increment adds one to the number in each state.
func increment(now time.Time, states [][]byte, until []time.Time) {
	for i, state := range states {
		var n uint64
		if state != nil {
			n = binary.BigEndian.Uint64(state)
		}
		states[i], until[i] = binary.BigEndian.AppendUint64(nil, n+1), now.Add(time.Minute)
	}
}

// statesOf returns the states of rows.
func statesOf(t *testing.T, g *pgkv.Guesses, names ...[]byte) (found [][]byte) {
	t.Helper()
	must.Do(t, g.Change(t.Context(), names, func(_ time.Time, states [][]byte, _ []time.Time) { found = append([][]byte(nil), states...) }))
	return found
}

func TestGuesses(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	process, another := open(t, dsn), open(t, dsn)
	one, other := process.Guesses(nil), another.Guesses(nil)
	rows := guessRows{must.Get(pgx.Connect(t.Context(), dsn))(t)}
	defer rows.Close(context.Background())
	t.Run("no_change_of_two_processes_is_lost", func(t *testing.T) {
		const rounds, callers = 20, 8
		for round := range rounds { // each begins without the rows
			names := [][]byte{fmt.Appendf(nil, "b%d", round), fmt.Appendf(nil, "a%d", round), []byte("common")}
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					g := [2]*pgkv.Guesses{one, other}[i%2]
					if err := g.Change(context.Background(), names[i%3:], increment); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			want := []uint64{3, 6, 8} // of 8 callers, names[0] by every third, names[1] by two thirds
			for i, state := range statesOf(t, one, names...) {
				if i == 2 {
					want[2] *= uint64(round + 1)
				}
				if n := binary.BigEndian.Uint64(state); n != want[i] {
					t.Fatalf("round %d: %s counts %d, want %d", round, names[i], n, want[i])
				}
			}
		}
	})
	t.Run("a_nil_state_deletes_the_row", func(t *testing.T) {
		name := []byte("forgiven")
		must.Do(t, one.Change(t.Context(), [][]byte{name}, increment))
		must.Do(t, other.Change(t.Context(), [][]byte{name}, func(_ time.Time, states [][]byte, _ []time.Time) { states[0] = nil }))
		if state := statesOf(t, one, name)[0]; state != nil {
			t.Errorf("the state is %x, want none", state)
		}
	})
	t.Run("all_processes_have_the_clock_of_the_database", func(t *testing.T) {
		var want, got time.Time
		must.Do(t, rows.QueryRow(t.Context(), "select clock_timestamp()").Scan(&want))
		must.Do(t, one.Change(t.Context(), [][]byte{[]byte("clock")}, func(now time.Time, _ [][]byte, _ []time.Time) { got = now }))
		if got.Before(want) || got.Sub(want) > time.Hour {
			t.Errorf("the time is %s, want that of the database after %s", got, want)
		}
	})
	t.Run("a_row_ends_with_its_time", func(t *testing.T) {
		clock := must.Get(time.Parse(time.RFC3339, "2040-01-01T00:00:00Z"))(t)
		later := process.Guesses(func() time.Time { return clock })
		must.Do(t, later.Change(t.Context(), [][]byte{[]byte("ends")}, increment))
		clock = clock.Add(time.Minute - time.Millisecond)
		must.Do(t, later.Sweep(t.Context()))
		if n := rows.count(t); n != 1 {
			t.Fatalf("%d rows are left, want the one that has not ended", n)
		}
		clock = clock.Add(time.Millisecond)
		must.Do(t, later.Sweep(t.Context()))
		if n := rows.count(t); n != 0 {
			t.Errorf("%d rows are left, want none", n)
		}
	})
	t.Run("and_with_the_sweep_of_the_store", func(t *testing.T) {
		must.Do(t, one.Change(t.Context(), [][]byte{[]byte("past")}, func(now time.Time, states [][]byte, until []time.Time) {
			states[0], until[0] = []byte{1}, now.Add(-time.Second)
		}))
		must.Get(process.Sweep(t.Context()))(t)
		if n := rows.count(t); n != 0 {
			t.Errorf("%d rows are left, want none", n)
		}
	})
	t.Run("of_65536_rows_the_oldest_go", func(t *testing.T) {
		rows.exec(t, `insert into tollhouse.guess select int4send(i), '\x01', clock_timestamp() + i * interval '1 second'
			from generate_series(1, 61000) i`)
		newest, most := 0, 0
		for i := range 5000 {
			g := [2]*pgkv.Guesses{one, other}[i%2]
			must.Do(t, g.Change(t.Context(), [][]byte{fmt.Appendf(nil, "new%d", i)}, func(now time.Time, states [][]byte, until []time.Time) {
				states[0], until[0] = []byte{1}, now.Add(24*time.Hour)
			}))
			if newest = i; i%250 == 0 {
				most = max(most, rows.count(t))
			}
		}
		if most > 1<<16 || most < 61000 {
			t.Errorf("the table had %d rows, want 65,536 at most", most)
		}
		if statesOf(t, one, fmt.Appendf(nil, "new%d", newest))[0] == nil {
			t.Error("the newest row was dropped")
		}
		if statesOf(t, one, []byte{0, 0, 0, 1})[0] != nil {
			t.Error("the oldest row is still there")
		}
		rows.exec(t, "truncate tollhouse.guess")
	})
	t.Run("a_row_that_stays_locked_is_unavailable", func(t *testing.T) {
		name := []byte("locked")
		must.Do(t, one.Change(t.Context(), [][]byte{name}, increment))
		holder := must.Get(rows.Begin(t.Context()))(t)
		defer holder.Rollback(context.Background())
		must.Get(holder.Exec(t.Context(), "select 1 from tollhouse.guess where bucket = $1 for update", name))(t)
		if err := other.Change(t.Context(), [][]byte{name}, increment); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("Change() = %v, want ErrUnavailable", err)
		}
	})
	t.Run("a_closed_store_is_unavailable", func(t *testing.T) {
		must.Do(t, another.Close())
		if err := other.Change(t.Context(), [][]byte{[]byte("x")}, increment); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("Change() = %v, want ErrUnavailable", err)
		}
	})
}

// BenchmarkGuesses measures one step of an attempt: two round trips.
//
//	go test ./store/kv/pgkv -run '^$' -bench Guesses
func BenchmarkGuesses(b *testing.B) {
	g := open(b, pgtest.Start(b)).Guesses(nil)
	for i := 0; b.Loop(); i++ {
		names := [][]byte{fmt.Appendf(nil, "user%d", i), []byte("source")}
		must.Do(b, g.Change(b.Context(), names, increment))
	}
}
