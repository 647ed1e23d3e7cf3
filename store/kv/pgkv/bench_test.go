package pgkv_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The benchmarks compare the store on PostgreSQL with what one writes by hand with pgx, a
// single statement for each operation, with two processes that share the writers, and
// with the store over updates that are SERIALIZABLE transactions of their own. All alternate in one run, since only the ratios
// mean anything; the median of the rounds counts:
//
//	go test ./store/kv/pgkv -run '^$' -bench BesideHand -benchtime 1x
//
// TOLLHOUSE_BENCH_ROUND sets how long a round of each is, and TOLLHOUSE_BENCH_ROUNDS how
// many there are.

const (
	handRounds = 3
	handRound  = time.Second
	handLogs   = 64
)

// scheme is a way to do the work; writer numbers whoever does it.
type scheme struct {
	name string
	work func(writer int) error
	dsn  string // of its database, if that matters
}

// snapshot opens a snapshot of the scheme's database, until end is called.
func (s scheme) snapshot(b *testing.B) (end func()) {
	b.Helper()
	conn := must.Get(pgx.Connect(b.Context(), s.dsn))(b)
	must.Get(conn.Exec(b.Context(), "begin isolation level repeatable read; select 1"))(b)
	return func() { must.Do(b, conn.Close(context.Background())) }
}

func BenchmarkBesideHand(b *testing.B) {
	for _, work := range []struct {
		name string
		of   func(b *testing.B, writers int) []scheme
	}{
		{"append_to_one_log", func(b *testing.B, writers int) []scheme { return appends(b, writers, 1) }},
		{"append_to_64_logs", func(b *testing.B, writers int) []scheme { return appends(b, writers, handLogs) }},
		{"refresh", refreshes},
	} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", work.name, writers), func(b *testing.B) {
				schemes := work.of(b, writers)
				for b.Loop() {
					report(b, schemes, writers)
				}
			})
		}
	}
}

// BenchmarkBesideSnapshot is how much of their rate writers keep while a snapshot of the
// database is open, as pg_dump's is, after TOLLHOUSE_BENCH_SNAPSHOT of it (10 s unless set).
func BenchmarkBesideSnapshot(b *testing.B) {
	open, err := time.ParseDuration(os.Getenv("TOLLHOUSE_BENCH_SNAPSHOT"))
	if err != nil {
		open = 10 * time.Second
	}
	const writers, round = 16, 5 * time.Second
	for name, of := range map[string]func(*testing.B, int) []scheme{
		"append":  func(b *testing.B, writers int) []scheme { return appends(b, writers, 1) },
		"refresh": refreshes,
	} {
		b.Run(name, func(b *testing.B) {
			schemes := of(b, writers)[:2] // ours, and by hand
			for b.Loop() {
				for _, s := range schemes {
					before := rate(b, s, writers, round)
					end := s.snapshot(b)
					_ = rate(b, s, writers, open)
					during := rate(b, s, writers, round)
					end()
					after := rate(b, s, writers, round)
					b.ReportMetric(before, s.name+"/s")
					b.ReportMetric(during/max(before, after), s.name+"-kept")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// report runs the schemes in turns.
func report(b *testing.B, schemes []scheme, writers int) {
	b.Helper()
	rounds, round := handRounds, handRound
	if n, err := strconv.Atoi(os.Getenv("TOLLHOUSE_BENCH_ROUNDS")); err == nil {
		rounds = n
	}
	if d, err := time.ParseDuration(os.Getenv("TOLLHOUSE_BENCH_ROUND")); err == nil {
		round = d
	}
	rates := make([][]float64, len(schemes))
	var ratios []float64
	for range rounds {
		for i, s := range schemes {
			rates[i] = append(rates[i], rate(b, s, writers, round))
		}
		ratios = append(ratios, rates[0][len(ratios)]/rates[1][len(ratios)])
	}
	for i, s := range schemes {
		slices.Sort(rates[i])
		b.ReportMetric(rates[i][len(rates[i])/2], s.name+"/s")
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[0], "least")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(ratios[len(ratios)-1], "most")
	b.ReportMetric(0, "ns/op")
}

// rate returns the operations per second of writers.
func rate(b *testing.B, s scheme, writers int, round time.Duration) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for w := range writers {
		wg.Go(func() {
			for time.Since(begun) < round {
				if err := s.work(w); err != nil {
					b.Errorf("%s: %v", s.name, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds()
}

// stores returns the store over both kinds of updates.
func stores(b *testing.B) (group, serial *storetest.Fixture, dsn string) {
	b.Helper()
	over := func(wrap func(*pgkv.DB) kv.DB) *storetest.Fixture {
		dsn = pgtest.New(b).Database(b)
		db := open(b, dsn)
		return storetest.Open(b, wrap(db), storetest.NewClock(), func(o *store.Options) { o.Rotations = 1 << 28 })
	}
	serial = over(func(db *pgkv.DB) kv.DB { return pgkv.Serializable{DB: db} })
	group = over(func(db *pgkv.DB) kv.DB { return db })
	return group, serial, dsn
}

// twoProcesses returns the stores of two processes on one database.
func twoProcesses(b *testing.B) []*storetest.Fixture {
	b.Helper()
	dsn := pgtest.New(b).Database(b)
	one, two := storetest.Two(b, open(b, dsn), open(b, dsn), func(o *store.Options) { o.Rotations = 1 << 28 })
	return []*storetest.Fixture{one, two}
}

// hand returns connections for writers, as the store has them, and the tables.
func hand(b *testing.B, tables string) (conns chan *pgx.Conn, dsn string) {
	b.Helper()
	dsn = pgtest.New(b).Database(b)
	conns = make(chan *pgx.Conn, 24)
	for range cap(conns) {
		conn := must.Get(pgx.Connect(b.Context(), dsn))(b)
		b.Cleanup(func() { conn.Close(context.Background()) })
		conns <- conn
	}
	conn := <-conns
	must.Get(conn.Exec(b.Context(), tables))(b)
	conns <- conn
	return conns, dsn
}

const notes = "asked to be reminded by telephone, never by letter, before each invoice"

func appends(b *testing.B, writers, logs int) []scheme {
	b.Helper()
	group, serial, dsn := stores(b)
	conns, handDSN := hand(b, `
		create table log (account text primary key, head bigint not null) with (fillfactor = 50);
		create table event (account text, position bigint, type text not null, resource text not null, at timestamptz not null, body jsonb not null, primary key (account, position));
		create index on event (account, type, position);
		create index on event (account, resource, position);
		create table resource (account text, id text, last bigint not null, body jsonb not null, primary key (account, id));
		insert into log select 'acct_' || i, 0 from generate_series(0, 63) i`)
	var members []snapshot.Member
	for i := range 8 {
		members = append(members, snapshot.Member{Name: fmt.Sprintf("member%d", i), Value: snapshot.Text(notes)})
	}
	object := snapshot.ObjectOf(members...)
	body := fmt.Sprintf(`{"notes": %q, "more": %q, "all": [%q, %q, %q, %q, %q]}`, notes, notes, notes, notes, notes, notes, notes)
	var next atomic.Int64
	record := func(processes ...*storetest.Fixture) func(int) error {
		return func(w int) error {
			n := next.Add(1)
			_, err := processes[w%len(processes)].Events.RecordEvent(context.Background(), eventlog.NewEvent{
				Owner: fmt.Sprintf("acct_%d", int(n)%logs), Type: "customer.updated", Resource: fmt.Sprintf("cus_%d", n%5000),
				Source: "harriet.voss", Location: "dashboard", Object: object,
			})
			return err
		}
	}
	byHand := func(int) error {
		n := next.Add(1)
		conn := <-conns
		defer func() { conns <- conn }()
		_, err := conn.Exec(context.Background(), `
			with head as (update log set head = head + 1 where account = $1 returning head),
			added as (insert into event select $1, head, $2, $3, clock_timestamp(), $4 from head)
			insert into resource select $1, $3, head, $4 from head
			on conflict (account, id) do update set last = excluded.last, body = excluded.body`,
			fmt.Sprintf("acct_%d", int(n)%logs), "customer.updated", fmt.Sprintf("cus_%d", n%5000), body)
		return err
	}
	return []scheme{{"group", record(group), dsn}, {"hand", byHand, handDSN}, {"two", record(twoProcesses(b)...), ""}, {"serializable", record(serial), ""}}
}

func refreshes(b *testing.B, writers int) []scheme {
	b.Helper()
	group, serial, dsn := stores(b)
	conns, handDSN := hand(b, `
		create table refresh (hash bytea primary key, family bigint not null, used timestamptz, next bytea);
		create table access (hash bytea primary key, family bigint not null, expires timestamptz not null);
		create table family (id bigint primary key, head bytea not null, at timestamptz not null) with (fillfactor = 50)`)
	rotate := func(processes ...*storetest.Fixture) func(int) error {
		f := processes[0]
		client, _ := f.Client(b)
		user := f.User(b, "harriet.voss", "acct_bench")
		issued := make([]store.Issued, writers)
		for i := range issued {
			issued[i] = must.Get(f.IssueForPassword(context.Background(), store.By{}, client, user, store.ScopeUnstated))(b)
		}
		return func(w int) error {
			next, err := processes[w%len(processes)].RotateRefresh(context.Background(), store.Refresh{Client: client, Token: issued[w].RefreshToken})
			issued[w] = next
			return err
		}
	}
	token := func(family, n int, kind string) []byte {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", family, n, kind))
		return sum[:]
	}
	rotations := make([]int, writers)
	for w := range writers {
		conn := <-conns
		must.Get(conn.Exec(b.Context(), "insert into refresh values ($1, $2)", token(w, 0, "refresh"), w))(b)
		must.Get(conn.Exec(b.Context(), "insert into family values ($1, $2, clock_timestamp())", w, token(w, 0, "refresh")))(b)
		conns <- conn
	}
	byHand := func(w int) error {
		n := rotations[w]
		rotations[w]++
		conn := <-conns
		defer func() { conns <- conn }()
		tag, err := conn.Exec(context.Background(), `
			with used as (update refresh set used = clock_timestamp(), next = $2 where hash = $1 and used is null returning family),
			added as (insert into refresh select $2, family from used),
			granted as (insert into access select $3, family, clock_timestamp() + interval '1 hour' from used)
			update family set head = $2, at = clock_timestamp() from used where id = used.family`,
			token(w, n, "refresh"), token(w, n+1, "refresh"), token(w, n+1, "access"))
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows, want 1", tag.RowsAffected())
		}
		return err
	}
	return []scheme{{"group", rotate(group), dsn}, {"hand", byHand, handDSN}, {"two", rotate(twoProcesses(b)...), ""}, {"serializable", rotate(serial), ""}}
}
