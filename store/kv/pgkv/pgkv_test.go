package pgkv_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// sql returns a connection past the store.
func sql(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), dsn))(t)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	must.Get(conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol))(t)
}

func setting(key, value string) func(kv.Txn) error {
	return func(tx kv.Txn) error { return tx.Set([]byte(key), []byte(value), time.Time{}) }
}

// insist makes an update on a store with short time limits, however slow the machine is.
func insist(t *testing.T, db kv.DB, fn func(kv.Txn) error) error {
	t.Helper()
	for {
		if err := db.Update(t.Context(), fn); !errors.Is(err, kv.ErrUnavailable) {
			return err
		}
	}
}

func TestFunctionsInPublicDoNotShadowPostgreSQLs(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	run(t, sql(t, dsn), `
		create function public.clock_timestamp() returns timestamptz language plpgsql as 'begin raise exception ''shadowed''; end';
		do $$ begin execute format('alter database %I set search_path = public, pg_catalog', current_database()); end $$`)
	db := open(t, dsn)
	must.Do(t, db.Update(t.Context(), setting("a", "1")))
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	must.Do(t, open(t, dsn).Close())
	conn := sql(t, dsn)
	const back = "update tollhouse.site set value = '2' where name = 'layout'"
	for _, c := range []struct{ name, change, back, want, next string }{
		{"another_layout", "update tollhouse.site set value = '3' where name = 'layout'", back, "layout 3", "start tollhouse 1.0.0 or newer"},
		{"a_newer_release", "update tollhouse.site set value = case name when 'layout' then '3' else '1.4.0' end where name in ('layout', 'layout_since')", back, "layout 3", "start tollhouse 1.4.0 or newer"},
		{"another_layout_without_a_number", "update tollhouse.site set value = '3' where name = 'layout'; delete from tollhouse.site where name = 'layout_since'", back, "layout 3", "start the version of tollhouse that the other servers run, or a newer one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, conn, c.change)
			_, err := pgkv.Open(t.Context(), pgkv.Options{URL: dsn})
			var refused *pgkv.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || refused.Hint() != c.next {
				t.Errorf("Open() = %v, want a RefusedError with %q and %q", err, c.want, c.next)
			}
			run(t, conn, c.back)
		})
	}
	open(t, dsn)
}

// Promise (Postgres §1): another product is refused by the text of its version(), also one that
// begins with "PostgreSQL"; packaged and managed PostgreSQL from version 15 on are accepted.
func TestServersAreChecked(t *testing.T) {
	t.Parallel()
	const gcc = " on x86_64-pc-linux-gnu, compiled by gcc (GCC) 12.2.0, 64-bit"
	for _, c := range []struct {
		product string
		version int
		want    string // in the error, or "" for none
	}{
		{"PostgreSQL 15.18 (Debian 15.18-0+deb12u1)" + gcc, 150018, ""},
		{"PostgreSQL 17.5 (6bc9ef8)" + gcc, 170005, ""},
		{"PostgreSQL 16.3 - Percona Distribution" + gcc, 160003, ""},
		{"PostgreSQL 15.8 on aarch64-unknown-linux-gnu, compiled by Debian clang version 12.0.1, 64-bit", 150008, ""},
		{"PostgreSQL 16.1, compiled by Visual C++ build 1937, 64-bit", 160001, ""},
		{"PostgreSQL 18.0 on x86_64-linux, compiled by gcc-12.2.0, 64-bit", 180000, ""},
		{"PostgreSQL 19beta1" + gcc, 190000, ""},
		{"PostgreSQL 19devel" + gcc, 190000, ""},
		{"PostgreSQL 14.9" + gcc, 140009, "PostgreSQL 14"},
		{"PostgreSQL 15.2-YB-2.25.0.0-b0" + gcc, 150002, "-YB-"},
		{"PostgreSQL 11.2-YB-2.20.1.0-b0" + gcc, 110002, "-YB-"},
		{"PostgreSQL 16.2 (YugabyteDB 3.0)" + gcc, 160002, "YugabyteDB"},
		{"PostgreSQL 15.4 (EnterpriseDB Advanced Server 15.4.0)" + gcc, 150004, "EnterpriseDB"},
		{"PostgreSQL 17.2 (IvorySQL 4.2)" + gcc, 170002, "IvorySQL"},
		{"PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f)" + gcc, 120012, "Greenplum"},
		{"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.48805", 80002, "Redshift"},
		{"PostgreSQL 13.14.0-RisingWave-2.0.1 (0d15632)", 130014, "RisingWave"},
		{"PostgreSQL 16", 160000, "not PostgreSQL"},
		{"CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)", 150000, "CockroachDB"},
	} {
		err := pgkv.CheckProduct(c.product, c.version)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s (%d): %v, want %q", c.product, c.version, err, c.want)
		}
	}
}

// TestManyOpenAnEmptyDatabase opens an empty database from several processes at once.
func TestManyOpenAnEmptyDatabase(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dsn := pgtest.Start(t)
	names := make([]string, 8)
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			db, err := pgkv.Open(t.Context(), pgkv.Options{URL: dsn}.Patient(20))
			if err != nil {
				t.Errorf("Open() = %v, want nil", err)
				return
			}
			names[i] = db.Instance()
			if err := db.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
		})
	}
	wg.Wait()
	if names[0] == "" || len(slices.Compact(names)) != 1 {
		t.Errorf("the instances are %q, want the same", names)
	}
}

func TestAnotherStoreIsNoticed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"generation": "update tollhouse.site set value = '2' where name = 'generation'",
		"instance":   "update tollhouse.site set value = 'another' where name = 'instance'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.Start(t)
			fatal := make(chan error, 2)
			db := openWith(t, pgkv.Options{URL: dsn, OnFatal: func(err error) { fatal <- err }}.Patient(20))
			must.Do(t, db.Update(t.Context(), setting("a", "1")))
			run(t, sql(t, dsn), change)
			if err := db.Update(t.Context(), setting("a", "2")); !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("Update() = %v, want ErrUnavailable", err)
			}
			var refused *pgkv.RefusedError
			if err := <-fatal; !errors.As(err, &refused) {
				t.Errorf("OnFatal(%v), want a RefusedError", err)
			}
			if err := db.View(t.Context(), scanAll); !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("View() = %v, want ErrUnavailable", err)
			}
			if len(fatal) > 0 {
				t.Error("OnFatal was called twice")
			}
		})
	}
}

// TestNextGeneration fills the next generation while the current one serves.
func TestNextGeneration(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dsn := pgtest.Start(t)
	for round := range 3 {
		old := open(t, dsn)
		must.Do(t, old.Update(t.Context(), setting("old", "1")))
		abandoned := openWith(t, pgkv.Options{URL: dsn, Next: true}.Patient(20))
		must.Do(t, abandoned.Update(t.Context(), setting("abandoned", "1")))
		must.Do(t, abandoned.Close())
		next := openWith(t, pgkv.Options{URL: dsn, Next: true}.Patient(20))
		must.Do(t, next.Update(t.Context(), setting("new", fmt.Sprint(round))))
		if keys, _ := contents(t, next); len(keys) != 1 || !keys["new"] {
			t.Errorf("the next generation has %v, want new", keys)
		}
		must.Do(t, old.Update(t.Context(), setting("old", "2")))
		must.Do(t, next.Adopt(t.Context()))
		if err := next.Adopt(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("Adopt(what is current) = %v, want ErrUnavailable", err)
		}
		must.Do(t, next.Update(t.Context(), setting("adopted", "1")))
		if err := old.Update(t.Context(), setting("old", "3")); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("Update(old generation) = %v, want ErrUnavailable", err)
		}
		must.Do(t, next.Close())
		again := open(t, dsn)
		if keys, _ := contents(t, again); len(keys) != 2 || !keys["new"] || !keys["adopted"] {
			t.Errorf("the adopted generation has %v, want new and adopted", keys)
		}
		must.Do(t, again.Close())
	}
	var tables int
	must.Do(t, sql(t, dsn).QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'tollhouse' and tablename like 'kv%'").Scan(&tables))
	if tables != 2 {
		t.Errorf("%d generations are kept, want 2", tables)
	}
}

// TestDamage changes a stored value past the store.
func TestDamage(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	db := open(t, dsn)
	must.Do(t, db.Update(t.Context(), setting("damaged", "1")))
	must.Do(t, db.Update(t.Context(), setting("sound", "1")))
	must.Do(t, db.Check(t.Context()))
	run(t, sql(t, dsn), `update tollhouse.kv_0001 set v = set_byte(v, 0, 255) where k = 'damaged'::bytea`)
	must.Do(t, db.Close())
	db = open(t, dsn) // without its memory
	read := func(key string) func(kv.Reader) error {
		return func(r kv.Reader) error { _, err := r.Get([]byte(key)); return err }
	}
	for name, got := range map[string]error{
		"Get":              db.View(t.Context(), read("damaged")),
		"Get in an Update": db.Update(t.Context(), func(tx kv.Txn) error { return read("damaged")(tx) }),
		"Scan":             db.View(t.Context(), scanAll),
		"Check":            db.Check(t.Context()),
		"Snapshot":         db.Snapshot(t.Context(), func([]kv.Record) error { return nil }),
	} {
		if !errors.Is(got, kv.ErrCorrupt) {
			t.Errorf("%s = %v, want ErrCorrupt", name, got)
		}
	}
	if err := db.View(t.Context(), read("sound")); err != nil {
		t.Errorf("Get(sound) = %v, want nil", err)
	}
	ends := kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{setting("before", "1"), func(tx kv.Txn) error { return read("damaged")(tx) }})
	if ends[0] != nil || !errors.Is(ends[1], kv.ErrCorrupt) {
		t.Errorf("UpdateEach() = %v, want nil and ErrCorrupt", ends)
	}
	must.Do(t, db.Update(t.Context(), setting("damaged", "mended")))
	must.Do(t, db.Check(t.Context()))
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	db := open(t, dsn)
	const many = 1200 // several batches
	now := time.Now()
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
		for _, r := range []struct {
			key       string
			expiresAt time.Time
		}{
			{"forever", time.Time{}},
			{"later", now.Add(time.Hour)},
			{"within a day", now.Add(-23 * time.Hour)},
			{"renewed", now.Add(-48 * time.Hour)},
		} {
			if err := tx.Set([]byte(r.key), nil, r.expiresAt); err != nil {
				return err
			}
		}
		return nil
	}))
	for first := 0; first < many; first += many / 3 {
		must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
			for i := range many / 3 {
				if err := tx.Set(fmt.Appendf(nil, "x%05d", first+i), nil, now.Add(-25*time.Hour)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	must.Do(t, db.Update(t.Context(), setting("renewed", "1")))
	dropped, err := db.Sweep(t.Context())
	if err != nil || dropped != many {
		t.Errorf("Sweep() = %d, %v, want %d", dropped, err, many)
	}
	keys, _ := contents(t, db)
	for _, key := range []string{"forever", "later", "within a day", "renewed"} {
		if !keys[key] {
			t.Errorf("%q was dropped", key)
		}
	}
	if len(keys) != 4 {
		t.Errorf("%d keys are left, want 4", len(keys))
	}
}

// A record goes before its index entries: without them it would count as damage.
func TestAHalfDoneSweepLeavesRecordsWithTheirIndexEntries(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sweeping atomic.Bool
	db := must.Get(pgkv.Open(t.Context(), pgkv.Options{
		URL: pgtest.Start(t),
		OnCommit: func(int, time.Duration) {
			if sweeping.Load() {
				cancel() // after the first batch
			}
		},
	}))(t)
	defer db.Close()
	const pairs = 800 // more than a batch
	expired := time.Now().Add(-25 * time.Hour)
	for first := 0; first < pairs; first += pairs / 4 {
		must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
			for i := first; i < first+pairs/4; i++ {
				for _, tag := range "Ss" {
					if err := tx.Set(fmt.Appendf(nil, "%c%03d", tag, i), nil, expired); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	sweeping.Store(true)
	_, _ = db.Sweep(ctx)
	keys, _ := contents(t, db)
	if len(keys) == 0 || len(keys) == 2*pairs {
		t.Fatalf("%d of %d rows are left, want some", len(keys), 2*pairs)
	}
	for key := range keys {
		if key[0] == 's' && !keys["S"+key[1:]] {
			t.Fatalf("of %d rows that are left, the record %q has no index entry", len(keys), key)
		}
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t)
	dsn := server.Database(t)
	p, through := newProxy(t, server, dsn)
	from, to := open(t, dsn), open(t, through)
	heard := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		to.Hear(ctx, func(note []byte) {
			if note == nil {
				heard <- "everything"
				return
			}
			heard <- string(note)
		})
	}()
	want := func(notes ...string) {
		t.Helper()
		for _, note := range notes {
			if got := <-heard; got != note {
				t.Fatalf("heard %q, want %q", got, note)
			}
		}
	}
	want("everything")
	from.Call([]byte("one"))
	want("one")
	for i := range 100 {
		from.Call(fmt.Appendf(nil, "note %d\x00", i))
	}
	for i := range 100 {
		want(fmt.Sprintf("note %d\x00", i))
	}
	sent := from.Stats().Notes
	if sent > 50 {
		t.Errorf("101 notes were sent as %d", sent)
	}
	from.Call(make([]byte, 8000))
	want("everything")
	p.cut()
	want("everything")
	from.Call([]byte("after"))
	want("after")
	cancel()
	<-ended
}

// A command ends right behind its last commit.
func TestNotesAreSentBeforeTheStoreIsClosed(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dsn := pgtest.New(t).Database(t)
	to := open(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		to.Hear(ctx, func(note []byte) { heard <- string(note) })
	}()
	<-heard // it listens
	for i := range 20 {
		from := must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: dsn}.Patient(20)))(t)
		from.Call(fmt.Appendf(nil, "note %d", i))
		must.Do(t, from.Close())
		select {
		case note := <-heard:
			if want := fmt.Sprint("note ", i); note != want {
				t.Fatalf("heard %q, want %q", note, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("note %d was not sent", i)
		}
	}
	cancel()
	<-ended
}

// TestCommitErrors raises errors where PostgreSQL would in a group's statements.
func TestCommitErrors(t *testing.T) {
	t.Parallel()
	const raise = `
		create sequence public.raised;
		create function public.fail() returns trigger language plpgsql as $$ begin
			if new.k = '%[1]s'::bytea and nextval('public.raised') <= %[2]d then raise %[3]s using errcode = '%[4]s'; end if;
			return new; end $$;
		create constraint trigger fail after insert on tollhouse.kv_0001 deferrable initially %[5]s for each row execute function public.fail()`
	for _, c := range []struct {
		name, code, when, level string
		times                   int
		want                    error
		resolved                uint64
	}{
		{"a_conflict_is_tried_again", "40001", "immediate", "exception", 2, nil, 0},
		{"a_read_only_server_is_tried_again", "25006", "immediate", "exception", 1, nil, 0},
		{"a_full_disk_is_unavailable", "53100", "immediate", "exception", 1, kv.ErrUnavailable, 0},
		{"an_error_of_the_commit_itself_is_no_unknown_outcome", "40001", "deferred", "exception", 1, nil, 0},
		{"a_warning_at_the_commit_is_no_answer", "01000", "deferred", "warning", 1, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.Start(t)
			db := open(t, dsn)
			run(t, sql(t, dsn), fmt.Sprintf(raise, "key", c.times, c.level+" 'of the test'", c.code, c.when))
			must.Do(t, db.Update(t.Context(), setting("another", "1")))
			if err := db.Update(t.Context(), appended("key")); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Fatalf("Update() = %v, want %v", err, c.want)
			} else if err != nil && strings.Contains(err.Error(), "of the test") {
				t.Errorf("the error %q has the database's words", err)
			}
			if keys, n := contents(t, db); keys["key"] != (c.want == nil) || n != len(keys)-1 {
				t.Errorf("the store has %v and counts %d", keys, n)
			}
			if got := db.Stats().Resolved; got != c.resolved {
				t.Errorf("%d outcomes were looked up, want %d", got, c.resolved)
			}
		})
	}
}

// TestUnknownOutcome holds the answer to a COMMIT back until its callers were told.
func TestUnknownOutcome(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	server := pgtest.New(t)
	p, dsn := newProxy(t, server, server.Database(t))
	db := openWith(t, pgkv.Options{URL: dsn})
	must.Do(t, insist(t, db, appended("first")))
	p.cutAt(stalled)
	if err := insist(t, db, appended("second")); !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Errorf("Update(no answer) = %v, want ErrUnknownOutcome", err)
	}
	if err := db.Update(t.Context(), appended("third")); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update(behind it) = %v, want ErrUnavailable", err)
	}
	close(p.stalled)
	must.Do(t, insist(t, db, appended("fourth")))
	if keys, n := contents(t, db); n != 3 || len(keys) != 3 || !keys["second"] || keys["third"] {
		t.Errorf("the store has %v and counts %d, want all but third", keys, n)
	}
	if got := db.Stats().UnknownOutcomes; got != 1 {
		t.Errorf("%d unknown outcomes are counted, want 1", got)
	}
}

// TestCloseDoesNotWaitForAStandby: a COMMIT whose answer never comes holds no stop up.
func TestCloseDoesNotWaitForAStandby(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	server := pgtest.New(t)
	p, dsn := newProxy(t, server, server.Database(t))
	db := openWith(t, pgkv.Options{URL: dsn})
	must.Do(t, insist(t, db, appended("first")))
	p.cutAt(stalled)
	if err := insist(t, db, appended("second")); !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Errorf("Update(no answer) = %v, want ErrUnknownOutcome", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		must.Do(t, err)
	case <-time.After(time.Minute):
		t.Error("Close() waits for an answer that never comes")
	}
	close(p.stalled)
}

// TestATurnThatIsHeld has another process take the turn and work on it for long. One that does
// nothing with it loses it, see [TestCutOffWithinAFlight].
func TestATurnThatIsHeld(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dsn := pgtest.Start(t)
	db := openWith(t, pgkv.Options{URL: dsn})
	must.Do(t, insist(t, db, appended("a")))
	holder := sql(t, dsn)
	run(t, holder, "begin; select 1 from tollhouse.turn for update")
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		_, _ = holder.Exec(t.Context(), "select pg_sleep(20)")
	}()
	if err := db.Update(t.Context(), appended("b")); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update(turn held) = %v, want ErrUnavailable", err)
	}
	if keys, _ := contents(t, db); len(keys) != 1 {
		t.Errorf("a View while the turn is held has %v, want a", keys)
	}
	<-worked
	run(t, holder, "rollback")
	must.Do(t, insist(t, db, appended("c")))
	if keys, n := contents(t, db); n != 2 || keys["b"] {
		t.Errorf("the store has %v and counts %d, want a and c", keys, n)
	}
}

// TestRoundTrips counts statements in the log of the server.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t, "log_statement = 'all'")
	db := open(t, server.Database(t))
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
		return errors.Join(setting("token", "family")(tx), setting("family", "client")(tx), setting("client", "user")(tx), setting("user", "1")(tx))
	}))
	reads := func(fn func()) int {
		t.Helper()
		before := strings.Count(server.Log(t), "execute get: ")
		fn()
		return strings.Count(server.Log(t), "execute get: ") - before
	}
	chain := func(r kv.Reader) error {
		next := []byte("token")
		for range 4 {
			value, err := r.Get(next)
			if err != nil {
				return err
			}
			next = value
		}
		return nil
	}
	if got := reads(func() { must.Do(t, db.View(t.Context(), chain)) }); got != 4 {
		t.Errorf("a View of a chain of 4 keys reads %d times, want 4", got)
	}
	keys := [][]byte{[]byte("token"), []byte("family"), []byte("client"), []byte("user"), []byte("none")}
	prefetched := func(r kv.Reader) error { kv.Prefetch(r, keys); return chain(r) }
	if got := reads(func() { must.Do(t, db.View(t.Context(), prefetched)) }); got != 1 {
		t.Errorf("a View of prefetched keys reads %d times, want 1", got)
	}
	// Each reads once under the turn.
	update := func(tx kv.Txn) error { return errors.Join(chain(tx), setting("user", "2")(tx)) }
	named := kv.Naming(t.Context(), func() [][]byte { return keys })
	if got := reads(func() { must.Do(t, db.Update(named, update)) }); got != 1 {
		t.Errorf("an Update of named keys reads %d times, want 1", got)
	}
	// Views that share a snapshot read each key once, in one transaction.
	begun := strings.Count(server.Log(t), "execute begin view: ")
	shared, end := kv.Share(t.Context())
	if got := reads(func() {
		must.Do(t, db.View(shared, prefetched))
		must.Do(t, db.Update(t.Context(), setting("user", "3")))
		must.Do(t, db.View(shared, chain))
	}); got != 1 {
		t.Errorf("two Views of one snapshot read %d times, want 1", got)
	}
	end()
	if got := strings.Count(server.Log(t), "execute begin view: ") - begun; got != 1 {
		t.Errorf("two Views of one snapshot begin %d transactions, want 1", got)
	}
	must.Do(t, db.Close())
}

func TestPrefetchReadsABatchAtOnce(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Start(t))
	var fns []func(kv.Txn) error
	for i := range 10 {
		fns = append(fns, func(tx kv.Txn) error {
			keys := [][]byte{fmt.Appendf(nil, "a%d", i), fmt.Appendf(nil, "b%d", i), []byte("shared")}
			kv.Prefetch(tx, keys)
			for _, key := range keys {
				if _, err := tx.Get(key); err != nil && !errors.Is(err, kv.ErrNotFound) {
					return err
				}
			}
			return tx.Set(keys[0], nil, time.Time{})
		})
	}
	before := db.Stats().LateReads
	for i, err := range kv.UpdateEach(t.Context(), db, fns) {
		if err != nil {
			t.Errorf("update %d = %v, want nil", i, err)
		}
	}
	if got := db.Stats().LateReads - before; got != 10 {
		t.Errorf("10 updates read %d times, want 10", got)
	}
}

// TestAViewWaitsForAConnection takes all connections.
func TestAViewWaitsForAConnection(t *testing.T) {
	t.Parallel()
	db := openWith(t, pgkv.Options{URL: pgtest.Start(t), Connections: 2})
	read := func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err }
	release, taken := make(chan struct{}), make(chan struct{}, 2)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			_ = db.View(t.Context(), func(r kv.Reader) error {
				err := read(r)
				taken <- struct{}{}
				<-release
				return err
			})
		})
	}
	<-taken
	<-taken
	if err := db.View(t.Context(), read); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("View(no connection) = %v, want ErrUnavailable", err)
	}
	close(release)
	wg.Wait()
	if err := db.View(t.Context(), read); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("View(connections free) = %v, want ErrNotFound", err)
	}
}

func TestErrorsHideNamesAndPasswords(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://secretuser:hunter2@127.0.0.1:1/secretdb",
		"postgres://secretuser:hunter2@nosuchhost.invalid/secretdb",
		"postgres://secretuser:hunter2@/secretdb?host=/nonexistent",
	} {
		_, err := pgkv.Open(t.Context(), pgkv.Options{URL: dsn})
		if !errors.Is(err, kv.ErrAway) {
			t.Errorf("Open() = %v, want ErrAway", err)
			continue
		}
		for _, word := range []string{"secretuser", "hunter2", "secretdb", "127.0.0.1", "nosuchhost", "nonexistent"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("Open() = %q, which has %q", err, word)
			}
		}
	}
}

// TestNotesThatAreSentAgain: whoever may connect can send what it heard before.
//
// Promise (RFC 9110, RFC 9112): notifications of a database role without rights, and notes sent
// again, are dropped without log noise; notes tell such a role nothing
func TestNotesThatAreSentAgain(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	server := pgtest.New(t)
	dsn := server.Database(t)
	to := open(t, dsn)
	heard := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		to.Hear(ctx, func(note []byte) { heard <- string(note) })
	}()
	<-heard // it listens
	sender := server.Stranger(t, dsn, "stranger", "psql")
	send := func(from byte, number uint64, at time.Time, note string) {
		payload := bytes.Repeat([]byte{from}, 16)
		payload = binary.BigEndian.AppendUint64(payload, number)
		payload = binary.BigEndian.AppendUint64(payload, uint64(at.UnixMilli()))
		payload = append(append(payload, byte(len(note))), note...)
		sender.Exec(t, "select pg_notify('tollhouse', $1)", base64.RawURLEncoding.EncodeToString(payload))
	}
	now := time.Now()
	send(1, 7, now, "one")
	send(1, 7, now, "again")
	send(1, 6, now, "an earlier one")
	send(2, 1, now.Add(-time.Hour), "an old one of an unknown server")
	send(2, 1, now.Add(time.Hour), "one of the future")
	send(1, 8, now, "two")
	send(2, 1, now.Add(-time.Minute), "of a server with another clock")
	for _, want := range []string{"one", "two", "of a server with another clock"} {
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	if n := to.Stats().NotesRefused; n != 4 {
		t.Errorf("%d notes were refused, want 4", n)
	}
	cancel()
	<-ended
}

// Updates of programs are refused first, while the queue still has places for people and operators.
func TestTheLastPlacesAreForOthers(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Start(t))
	running, gate := make(chan struct{}), make(chan struct{})
	var waiting sync.WaitGroup
	begin := sync.OnceFunc(func() { close(running) })
	waiting.Go(func() {
		if err := db.Update(t.Context(), func(kv.Txn) error { begin(); <-gate; return nil }); err != nil {
			t.Errorf("Update(running) = %v, want nil", err)
		}
	})
	<-running
	queued := func(ctx context.Context, updates, want int) {
		for range updates {
			waiting.Go(func() {
				if err := db.Update(ctx, setting("a", "1")); err != nil {
					t.Errorf("Update(queued) = %v, want nil", err)
				}
			})
		}
		for begun := time.Now(); db.Stats().Queue < want; time.Sleep(time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%d updates wait, want %d", db.Stats().Queue, want)
			}
		}
	}
	programs := db.Stats().QueueMax - kv.QueueKept
	queued(kv.Yielding(t.Context()), programs, programs)
	if err := db.Update(kv.Yielding(t.Context()), setting("b", "1")); !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrAway) {
		t.Errorf("Update(queue nearly full, of a program) = %v, want ErrUnavailable", err)
	}
	queued(t.Context(), kv.QueueKept, db.Stats().QueueMax)
	if err := db.Update(t.Context(), setting("b", "1")); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update(queue full) = %v, want ErrUnavailable", err)
	}
	close(gate)
	waiting.Wait()
}
