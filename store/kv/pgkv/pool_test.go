package pgkv_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// together runs n Views, which have a connection each at the same time.
func together(t *testing.T, db *pgkv.DB, n int) {
	t.Helper()
	var open, done sync.WaitGroup
	open.Add(n)
	for range n {
		done.Go(func() {
			err := db.View(t.Context(), func(r kv.Reader) error {
				_, err := r.Get([]byte("k"))
				open.Done()
				open.Wait()
				if errors.Is(err, kv.ErrNotFound) {
					return nil
				}
				return err
			})
			if err != nil {
				t.Errorf("View() = %v, want nil", err)
			}
		})
	}
	done.Wait()
}

// Promise (Postgres §2): connections that are not needed are closed after five minutes; two stay.
func TestConnectionsThatAreNotNeeded(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Minute
	db := open(t, pgtest.Start(t))
	together(t, db, 8)
	begun := time.Now()
	idle := func() int { return db.Stats().Idle + db.Stats().Used } // one is asked at times
	if n := idle(); n < 8 {
		t.Fatalf("%d connections are open, want 8", n)
	}
	pgkv.Trim(db, begun.Add(limit-time.Minute))
	if n := idle(); n < 8 {
		t.Errorf("%d connections are open after less than %s, want 8", n, limit)
	}
	used := time.Now()
	together(t, db, 4) // the others are not needed, whichever they are
	pgkv.Trim(db, used.Add(limit))
	if n := idle(); n != 4 {
		t.Errorf("%d connections are open where 4 were needed, want 4", n)
	}
	pgkv.Trim(db, time.Now().Add(limit))
	if n := idle(); n != 2 {
		t.Errorf("%d connections are open after a silence, want 2", n)
	}
	must.Do(t, read(t, db))
}

// backends returns the processes of the database by the names of their sessions.
func backends(t *testing.T, look *pgx.Conn) map[string][]int {
	t.Helper()
	rows := must.Get(look.Query(t.Context(), "select application_name, pid from pg_stat_activity where datname = current_database() and application_name like '%tollhouse%'"))(t)
	defer rows.Close()
	found := map[string][]int{}
	for rows.Next() {
		var name string
		var pid int
		must.Do(t, rows.Scan(&name, &pid))
		found[name] = append(found[name], pid)
	}
	must.Do(t, rows.Err())
	return found
}

// Promise (Postgres §2): a connection is replaced after an hour.
func TestConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	dsn := pgtest.Start(t)
	look, db := sql(t, dsn), openWith(t, pgkv.Options{URL: dsn}.Lasting(time.Second).Patient(20))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var hearing sync.WaitGroup
	hearing.Go(func() { db.Hear(ctx, func([]byte) {}) })
	defer hearing.Wait()
	defer stop()
	n := 0
	now := func() map[string][]int {
		n++
		must.Do(t, errors.Join(read(t, db), db.Update(t.Context(), appended(fmt.Sprint(n)))))
		return backends(t, look)
	}
	first := now()
	for _, name := range []string{"tollhouse reads", "tollhouse commits", "tollhouse listens"} {
		until(t, name+" has another process", func() bool {
			found := now()[name]
			return len(found) > 0 && !slices.ContainsFunc(found, func(pid int) bool { return slices.Contains(first[name], pid) })
		})
	}
}

// Promise (Postgres §2): sessions are named by what they do.
func TestSessionsAreNamed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50) + "tollhouse"
	for operators, want := range map[string]string{"": "tollhouse ", "my tollhouse": "my tollhouse ", long: ""} {
		dsn := pgtest.Start(t)
		look := sql(t, dsn)
		if operators != "" {
			dsn += "&application_name=" + url.PathEscape(operators)
		}
		db := open(t, dsn)
		a := must.Get(pgkv.ParseAddress(dsn))(t)
		ctx, stop := context.WithCancel(t.Context())
		var hearing sync.WaitGroup
		hearing.Go(func() { db.Hear(ctx, func([]byte) {}) })
		running(t, quiet(a, "a server"))
		must.Do(t, errors.Join(read(t, db), db.Update(t.Context(), appended("named"))))
		held := must.Get(db.Hold(t.Context()))(t)
		names := []string{want + "reads", want + "commits", want + "presence", want + "listens", want + "backup"}
		if want == "" { // nothing fits
			names = []string{operators}
		}
		until(t, fmt.Sprintf("the sessions are %q", names), func() bool {
			found := backends(t, look)
			for _, name := range names {
				if len(found[name]) == 0 {
					return false
				}
			}
			return len(found) == len(names)
		})
		held.Release()
		stop()
		hearing.Wait()
	}
}

// Promise (Postgres §2): time limits of the database do not end our sessions.
func TestLimitsOfTheDatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	dsn := pgtest.Start(t)
	look := sql(t, dsn)
	for _, name := range []string{"idle_session_timeout", "idle_in_transaction_session_timeout", "transaction_timeout", "statement_timeout"} {
		known := false
		must.Do(t, look.QueryRow(t.Context(), "select current_setting($1, true) is not null", name).Scan(&known))
		if known {
			must.Get(look.Exec(t.Context(), "do $$ begin execute format('alter database %I set "+name+" = 300', current_database()); end $$"))(t)
		}
	}
	db := open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var hearing sync.WaitGroup
	hearing.Go(func() { db.Hear(ctx, func([]byte) {}) })
	defer hearing.Wait()
	defer stop()
	running(t, quiet(must.Get(pgkv.ParseAddress(dsn))(t), "a server"))
	must.Do(t, errors.Join(read(t, db), db.Update(t.Context(), appended("limited"))))
	held := must.Get(db.Hold(t.Context()))(t)
	defer held.Release()
	names := []string{"tollhouse reads", "tollhouse commits", "tollhouse presence", "tollhouse listens", "tollhouse backup"}
	var before map[string][]int
	until(t, "all sessions are there", func() bool {
		before = backends(t, look)
		return len(before) == len(names)
	})
	time.Sleep(time.Second) // longer than the limits
	after := backends(t, look)
	for _, name := range names {
		if !slices.ContainsFunc(after[name], func(pid int) bool { return slices.Contains(before[name], pid) }) {
			t.Errorf("%s has the processes %v, and had %v: the database ended it", name, after[name], before[name])
		}
	}
}

// Promise (Postgres §2): where no more connections are allowed, reads and writes share ours.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := pgtest.New(t)
	database := app(t, s, "create role app login")
	dsn := strings.Replace(s.DSN(database), "user=postgres", "user=app", 1)
	db := openWith(t, pgkv.Options{URL: dsn, Connections: 8}.Patient(20))
	must.Do(t, db.Update(t.Context(), appended("first")))
	s.Exec(t, s.DSN("postgres"), "alter role app connection limit 3")
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 20 {
				if err := read(t, db); err != nil {
					t.Errorf("View(3 connections) = %v, want nil", err)
				}
			}
		})
	}
	readers.Wait()
	s.Exec(t, s.DSN("postgres"), "select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'tollhouse commits'")
	s.Exec(t, s.DSN("postgres"), "alter role app connection limit 2")
	together(t, db, 2)
	if err := db.Update(t.Context(), appended("second")); err != nil {
		t.Errorf("Update(2 connections) = %v, want nil", err)
	}
}

// Promise (Postgres §2): a read that timed out drops the other connections.
func TestAReadThatTimedOut(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	server := pgtest.New(t)
	p, dsn := newProxy(t, server, server.Database(t))
	db := openWith(t, pgkv.Options{URL: dsn})
	until(t, "the store is there", func() bool { return read(t, db) == nil })
	together(t, db, 6)
	pgkv.Settle(db)
	p.frozen.Store(true)
	if err := read(t, db); !errors.Is(err, kv.ErrAway) {
		t.Errorf("View(frozen) = %v, want ErrAway", err)
	}
	if n := db.Stats().Idle; n != 0 {
		t.Errorf("%d connections are kept after a read that timed out, want none", n)
	}
}
