package pgkv_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// patience is far longer than any step here takes.
const patience = 2 * time.Minute

// madeDatabase returns a database that has the tables.
func madeDatabase(t *testing.T) *pgkv.Address {
	t.Helper()
	return madeIn(t, pgtest.Start(t))
}

func madeIn(t *testing.T, url string) *pgkv.Address {
	t.Helper()
	db := must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: url}))(t)
	must.Do(t, db.Close())
	return must.Get(pgkv.ParseAddress(url))(t)
}

func quiet(a *pgkv.Address, name string) pgkv.PresenceOptions {
	return pgkv.PresenceOptions{
		Address: a, Server: pgkv.Server{ID: []byte(name), Host: name, Started: time.Now()}, Log: slog.New(slog.DiscardHandler),
		Jobs:  []pgkv.Job{pgkv.JobSweep, pgkv.JobCheck},
		Judge: func(pgkv.Found) (map[string]string, error) { return nil, nil }, OnRefused: func(error) {}, OnLook: func(pgkv.State) {}, OnSite: func(map[string]string) {},
	}.Patient(20)
}

// running joins and runs a presence until the returned function is called.
func running(t *testing.T, o pgkv.PresenceOptions) (p *pgkv.Presence, end func()) {
	t.Helper()
	p = must.Get(pgkv.Join(t.Context(), o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(end)
	return p, end
}

func dial(t *testing.T, a *pgkv.Address) *pgkv.Session {
	t.Helper()
	s := must.Get(pgkv.Dial(t.Context(), a))(t)
	t.Cleanup(s.Close)
	return s
}

func hostsOf(t *testing.T, s *pgkv.Session) (hosts []string) {
	t.Helper()
	for _, server := range must.Get(s.Servers(t.Context()))(t) {
		hosts = append(hosts, server.Host)
	}
	slices.Sort(hosts)
	return hosts
}

func TestServersKnowEachOther(t *testing.T) {
	t.Parallel()
	a := madeDatabase(t)
	s := dial(t, a)
	first, end := running(t, quiet(a, "first"))
	second, _ := running(t, quiet(a, "second"))
	if got := hostsOf(t, s); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("Servers() = %v, want both", got)
	}
	for _, job := range []pgkv.Job{pgkv.JobSweep, pgkv.JobCheck} {
		if !first.Holds(job) || second.Holds(job) {
			t.Errorf("%s is held by first %t, second %t; want the first alone", job, first.Holds(job), second.Holds(job))
		}
	}
	end()
	if got := hostsOf(t, s); !slices.Equal(got, []string{"second"}) {
		t.Errorf("Servers() = %v after the first left, want the second", got)
	}
	if first.Holds(pgkv.JobSweep) {
		t.Error("the first holds a job after it left")
	}
	var locks int
	must.Do(t, sql(t, a.URL()).QueryRow(t.Context(), "select count(distinct pid) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())").Scan(&locks))
	if locks != 1 {
		t.Errorf("%d servers have locks after the first left, want the second", locks)
	}
}

// A holder whose connection broke stops its work at once; then some server has the job
// again.
func TestJobEndsWithTheConnection(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	a := madeDatabase(t)
	p, _ := running(t, quiet(a, "first"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, over := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	go p.Do(ctx, pgkv.JobSweep, func(ctx context.Context) {
		if runs.Add(1) > 1 {
			close(over)
		} else {
			close(begun)
		}
		<-ctx.Done()
	})
	within(t, begun, "the work begins")
	servers := must.Get(dial(t, a).Servers(t.Context()))(t)
	must.Do(t, dial(t, a).Terminate(t.Context(), servers[0].Backend))
	within(t, over, "the work begins again with a new connection")
}

func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited %s for: %s", patience, what)
	}
}

// What servers agree on is set by the one that finds no other, while no other can join.
func TestJoinJudges(t *testing.T) {
	t.Parallel()
	a := madeDatabase(t)
	o := quiet(a, "first")
	o.Judge = func(f pgkv.Found) (map[string]string, error) {
		if !f.Alone || !f.First {
			t.Errorf("the first server finds %+v, want to be alone", f)
		}
		return map[string]string{"access-ttl": "1h", "public-url": ""}, nil
	}
	_, end := running(t, o)
	o = quiet(a, "second")
	o.Judge = func(f pgkv.Found) (map[string]string, error) {
		if url, has := f.Site["public-url"]; f.Alone || f.Site["access-ttl"] != "1h" || url != "" || !has {
			t.Errorf("the second server finds %+v, want what the first has set", f)
		}
		return nil, errRefused
	}
	if _, err := pgkv.Join(t.Context(), o); !errors.Is(err, errRefused) {
		t.Errorf("Join() = %v, want the refusal", err)
	}
	if got := hostsOf(t, dial(t, a)); !slices.Equal(got, []string{"first"}) {
		t.Errorf("Servers() = %v after the refusal, want the first", got)
	}
	end()
	o.Judge = func(f pgkv.Found) (map[string]string, error) {
		if !f.Alone {
			t.Error("a server that starts alone finds another")
		}
		return nil, nil
	}
	running(t, o)
}

var errRefused = errors.New("refused")

func TestClockIsMeasured(t *testing.T) {
	t.Parallel()
	a := madeDatabase(t)
	c := must.Get(dial(t, a).Clock(t.Context()))(t)
	if last := must.Get(pgkv.LastWrite(dial(t, a), t.Context()))(t); c.Offset.Abs() > patience || !last.IsZero() {
		t.Errorf("Clock() = %+v, the last write %v, want this machine's clock and no write", c, last)
	}
	db := must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: a.URL()}))(t)
	defer db.Close()
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { return tx.Set([]byte("k"), []byte("v"), time.Time{}) }))
	last := must.Get(pgkv.LastWrite(dial(t, a), t.Context()))(t)
	if c = must.Get(dial(t, a).Clock(t.Context()))(t); last.IsZero() || c.Now.Before(last) {
		t.Errorf("after a write the last is at %v, want it before now, %v", last, c.Now)
	}
}

// Promise (Postgres §2): sessions compile no query plans, which costs a thousand times what the
// queries do
func TestSessionsDoNotCompilePlans(t *testing.T) {
	t.Parallel()
	if got := must.Get(pgkv.Setting(dial(t, madeDatabase(t)), t.Context(), "jit"))(t); got != "off" {
		t.Errorf("jit is %q, want off", got)
	}
}

func TestFactsOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := dial(t, madeIn(t, pgtest.New(t).Database(t)))
	f := must.Get(s.Facts(t.Context()))(t)
	if f.Product != "PostgreSQL" || f.Version == "" || f.Fsync != "on" || f.Synchronous != "on" || f.Seqscan != "off" || f.Size == 0 || f.Max < f.Connections || f.Connections == 0 {
		t.Errorf("Facts() = %+v", f)
	}
	site := must.Get(s.Site(t.Context()))(t)
	if names := slices.Sorted(maps.Keys(site)); !slices.Contains(names, "generation") {
		t.Errorf("Site() = %v, want the generation", site)
	}
}

// TestCopiedDatabase: two databases on one server with the same store are told apart only
// by the servers on them. Each sees that the other has one.
func TestCopiedDatabase(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	first, copied := madeDatabase(t), madeDatabase(t)
	instance := must.Get(dial(t, first).Site(t.Context()))(t)["instance"]
	must.Do(t, dial(t, copied).SetSite(t.Context(), map[string]string{"instance": instance}))
	alone := madeDatabase(t)
	isCopied := func(a *pgkv.Address) bool { return must.Get(dial(t, a).Facts(t.Context()))(t).Copied != "" }
	running(t, quiet(alone, "alone"))
	_, end := running(t, quiet(copied, "on the copy"))
	if !isCopied(first) || isCopied(copied) || isCopied(alone) {
		t.Errorf("copied = %t, %t and %t, want that the first alone sees a server elsewhere", isCopied(first), isCopied(copied), isCopied(alone))
	}
	end()
	if isCopied(first) {
		t.Error("a server that has ended is still seen elsewhere")
	}
}

// Promise (Postgres §1): two instances share a database by schemas of their own: neither
// sees the other's data, servers, locks or notes
func TestInstancesInSchemas(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	key := []byte("a key")
	var heard [2]chan []byte
	var dbs [2]*pgkv.DB
	for i, schema := range []string{"", "Shop_2"} {
		db := openWith(t, pgkv.Options{URL: dsn, Schema: schema}.Patient(20))
		must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { return tx.Set(key, []byte(schema), time.Time{}) }))
		a := must.Get(pgkv.ParseAddress(dsn))(t)
		must.Do(t, a.UseSchema(schema))
		o := quiet(a, "server of "+schema)
		alone := false
		o.Judge = func(f pgkv.Found) (map[string]string, error) { alone = f.Alone; return nil, nil }
		p, _ := running(t, o)
		if servers := p.State().Servers; !alone || len(servers) != 1 || servers[0].Host != o.Server.Host || !p.Holds(pgkv.JobSweep) {
			t.Errorf("in the schema %q: alone %v, servers %v, sweeps %v, want itself only, with its jobs", schema, alone, servers, p.Holds(pgkv.JobSweep))
		}
		heard[i], dbs[i] = make(chan []byte, 100), db
		go db.Hear(t.Context(), func(note []byte) { heard[i] <- note })
		<-heard[i] // it listens
		unlock, ok, err := db.TryLock(t.Context(), "backup")
		if err != nil || !ok {
			t.Fatalf("TryLock in the schema %q = %v, %v, want true", schema, ok, err)
		}
		defer unlock()
	}
	for i, want := range []string{"", "Shop_2"} {
		must.Do(t, dbs[i].View(t.Context(), func(r kv.Reader) error {
			if got, err := r.Get(key); err != nil || string(got) != want {
				t.Errorf("Get() = %q, %v, want %q", got, err, want)
			}
			return nil
		}))
		dbs[i].Call([]byte("to " + want))
	}
	for i, want := range []string{"", "Shop_2"} {
		if got := <-heard[i]; string(got) != "to "+want {
			t.Errorf("heard %q, want the note of its own schema", got)
		}
	}
}

// Promise (Postgres §1): the name of a schema has at most 40 letters, digits and _, and is not
// one that PostgreSQL or others use
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"": true, "tollhouse": true, "Shop_2": true, "2": true, "user": true, strings.Repeat("a", 40): true,
		strings.Repeat("a", 41): false, "a-b": false, `a"b`: false, "a.b": false, "é": false, "a b": false, "public": false, "pg_shop": false, "information_schema": false,
	} {
		a := must.Get(pgkv.ParseAddress("postgres://127.0.0.1/x"))(t)
		if err := a.UseSchema(name); (err == nil) != good {
			t.Errorf("UseSchema(%q) = %v", name, err)
		}
	}
}

// Promise (Postgres §5): a server that is stopped keeps its jobs for 60 s: then another ends its
// session and takes them
func TestJobsOfAStoppedServerAreTaken(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	a := madeDatabase(t)
	stopped := must.Get(pgkv.Join(t.Context(), quiet(a, "stopped")))(t) // it never runs
	t.Cleanup(stopped.Leave)
	other, _ := running(t, quiet(a, "other"))
	if !stopped.Holds(pgkv.JobSweep) || other.Holds(pgkv.JobSweep) {
		t.Fatal("the first server has not the job")
	}
	run(t, sql(t, a.URL()), "update tollhouse.server set seen = seen - interval '59 s' where id = 'stopped'")
	for begun := time.Now(); !other.Holds(pgkv.JobSweep) || !other.Holds(pgkv.JobCheck); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("nobody takes the jobs of a server that is stopped")
		}
	}
	eventually(t, func() error { // the beat that takes the jobs looks at the servers after it
		if servers := other.State().Servers; len(servers) != 1 || servers[0].Host != "other" {
			return fmt.Errorf("the servers are %v, want the one that runs", servers)
		}
		return nil
	})
}
