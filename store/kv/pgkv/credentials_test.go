package pgkv_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// log keeps what is logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// until waits until ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("waited %s for: %s", patience, what)
		}
	}
}

// app makes the role app with a database of its own, and returns its name.
func app(t *testing.T, s *pgtest.Server, role string) (database string) {
	t.Helper()
	dsn := s.Database(t)
	u := must.Get(url.Parse(dsn))(t)
	database = strings.TrimPrefix(u.Path, "/")
	s.Exec(t, dsn, role)
	s.Exec(t, dsn, "alter database "+database+" owner to app")
	return database
}

// endSessions ends those of the role app.
func endSessions(t *testing.T, s *pgtest.Server) {
	t.Helper()
	s.Exec(t, s.DSN("postgres"), "select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename = 'app'")
}

func read(t *testing.T, db *pgkv.DB) error {
	return db.View(t.Context(), func(r kv.Reader) error {
		if _, err := r.Get([]byte("k")); !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		return nil
	})
}

func write(file, text string) error { return os.WriteFile(file, []byte(text), 0o600) }

// Promise (Postgres §3, §9): the pass file is read for each connection; while its password is wrong the server is not ready.
//
// That is so also where older connections still answer; the reason is logged once.
func TestARotatedPassword(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := pgtest.New(t)
	database := app(t, s, "create role app login password 'first'")
	s.Access(t, "local all app scram-sha-256")
	file, logged := filepath.Join(t.TempDir(), "pgpass"), &log{}
	passwordIs := func(password string) { must.Do(t, write(file, "*:*:*:app:"+password+"\n")) }
	passwordIs("first")
	u := must.Get(url.Parse(s.DSN(database)))(t)
	q := u.Query()
	q.Set("user", "app")
	q.Set("passfile", file)
	u.RawQuery = q.Encode()
	db := openWith(t, pgkv.Options{URL: u.String(), Log: slog.New(slog.NewTextHandler(logged, nil))}.Patient(20))
	must.Do(t, errors.Join(read(t, db), db.Update(t.Context(), appended("first")), db.Ready(t.Context())))
	s.Exec(t, s.DSN("postgres"), "alter role app password 'second'")
	if _, _, err := db.TryLock(t.Context(), "a lock has a connection of its own"); !errors.Is(err, kv.ErrAway) || !strings.Contains(err.Error(), "28P01") {
		t.Errorf("TryLock(wrong password) = %v, want ErrAway with 28P01", err)
	}
	if err := read(t, db); err != nil {
		t.Errorf("View() on an older connection = %v, want nil", err)
	}
	notReady := func() {
		t.Helper()
		var refused *pgkv.CredentialsError
		if err := db.Ready(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "28P01") || !strings.Contains(refused.Public(), "28P01") {
			t.Errorf("Ready(wrong password) = %v, want a CredentialsError with 28P01", err)
		}
	}
	notReady()
	endSessions(t, s)
	if err := db.Update(t.Context(), appended("refused")); !errors.Is(err, kv.ErrAway) {
		t.Errorf("Update(wrong password) = %v, want ErrAway", err)
	}
	until(t, "it is logged", func() bool { return logged.count("database refuses new connections") == 1 })
	notReady()
	passwordIs("second")
	until(t, "the password is read", func() bool { return db.Ready(t.Context()) == nil })
	must.Do(t, errors.Join(read(t, db), db.Update(t.Context(), appended("second"))))
	until(t, "its end is logged", func() bool { return logged.count("database accepts new connections again") == 1 })
	if n := logged.count("database refuses new connections"); n != 1 || logged.count("28P01") != 1 {
		t.Errorf("the refusal was logged %d times, want once with 28P01: %s", n, logged.text.String())
	}
}

// Promise (Postgres §3, §9): a wrong password is read once more, and many callers make few attempts.
func TestAWrongPasswordIsReadOnceMore(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	database := app(t, s, "create role app login password 'right'")
	s.Access(t, "local all app scram-sha-256")
	with := func(password string) string {
		return strings.Replace(s.DSN(database), "user=postgres", "user=app&password="+password, 1)
	}
	var reads atomic.Int64
	a := must.Get(pgkv.ParseAddress(with("wrong")))(t)
	a.Again = func() (*pgkv.Address, error) {
		if reads.Add(1) == 1 {
			return pgkv.ParseAddress(with("wrong"))
		}
		return pgkv.ParseAddress(with("right"))
	}
	must.Get(pgkv.Dial(t.Context(), a))(t).Close()
	if n := reads.Load(); n != 2 {
		t.Errorf("the address was read %d times, want twice", n)
	}
	a = must.Get(pgkv.ParseAddress(with("wrong")))(t)
	reads.Store(0)
	a.Again = func() (*pgkv.Address, error) {
		reads.Add(1)
		return pgkv.ParseAddress(with("wrong"))
	}
	begun, calls := time.Now(), int64(0)
	for ; calls < 1000; calls++ {
		if _, err := pgkv.Dial(t.Context(), a); !errors.Is(err, kv.ErrAway) || !strings.Contains(err.Error(), "28P01") {
			t.Fatalf("Dial(wrong password) = %v, want ErrAway with 28P01", err)
		}
	}
	if n, most := reads.Load(), 2*(1+int64(time.Since(begun)/(2*time.Second))); n > most {
		t.Errorf("%d calls read the address %d times, want at most %d", calls, n, most)
	}
}

// Promise (Postgres §3, §9): certificates are read for each connection; an authority that was taken out is not trusted.
func TestRotatedCertificates(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	before, after := pgtest.NewAuthority(t), pgtest.NewAuthority(t)
	s := pgtest.NewTLS(t, before)
	database := app(t, s, "create role app login")
	s.Access(t, "hostssl all app all cert", "host all app all reject")
	dir := t.TempDir()
	roots, cert, key := filepath.Join(dir, "roots"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	identify := func(a *pgtest.Authority) {
		c, k := a.Issue(t, "app")
		must.Do(t, errors.Join(write(cert, string(c)), write(key, string(k))))
	}
	identify(before)
	must.Do(t, write(roots, string(before.PEM)+string(after.PEM)))
	params := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {roots}, "sslcert": {cert}, "sslkey": {key}, "connect_timeout": {"60"}}
	db := openWith(t, pgkv.Options{URL: "postgres://app@" + s.Address() + "/" + database + "?" + params.Encode()}.Patient(20))
	works := func() error { return errors.Join(read(t, db), db.Ready(t.Context())) }
	must.Do(t, works())
	awaited := func(what string) {
		t.Helper()
		until(t, what, func() bool { return works() == nil })
	}
	refused := func(what string) {
		t.Helper()
		endSessions(t, s)
		var refused *pgkv.CredentialsError
		until(t, what+": a connection is made, and refused", func() bool {
			err := db.Ready(t.Context())
			if err == nil {
				_ = read(t, db)
			}
			return errors.As(err, &refused)
		})
		if err := read(t, db); !errors.Is(err, kv.ErrAway) {
			t.Errorf("View(%s) = %v, want ErrAway", what, err)
		}
	}
	must.Do(t, write(roots, string(after.PEM)))
	refused("the authority was taken out")
	s.UseAuthority(t, after, "127.0.0.1")
	refused("the client's certificate is of the old authority")
	identify(after)
	awaited("all is new")
	must.Do(t, os.Remove(roots))
	refused("no authority is in the file")
	must.Do(t, write(roots, string(after.PEM)))
	awaited("the file is back")
}

// TestAnotherPlace: the files may name other hosts. Then the connections to the old ones
// are not used any more, and a database with another store stops the server.
func TestAnotherPlace(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	first, second := pgtest.Start(t), pgtest.Start(t)
	must.Do(t, open(t, second).Close())
	var now atomic.Pointer[string]
	now.Store(&first)
	a := must.Get(pgkv.ParseAddress(first))(t)
	a.Again = func() (*pgkv.Address, error) { return pgkv.ParseAddress(*now.Load()) }
	fatal := make(chan error, 1)
	db := openWith(t, pgkv.Options{Address: a, OnFatal: func(err error) { fatal <- err }}.Patient(20))
	must.Do(t, errors.Join(read(t, db), db.Update(t.Context(), appended("there"))))
	now.Store(&second)
	if _, _, err := db.TryLock(t.Context(), "a new connection"); err != nil {
		t.Fatal(err)
	}
	if err := read(t, db); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("View(another store) = %v, want ErrUnavailable", err)
	}
	select {
	case err := <-fatal:
		if !strings.Contains(err.Error(), "another store") {
			t.Errorf("the store stopped with %v, want that it is another", err)
		}
	case <-time.After(patience):
		t.Error("the store did not stop")
	}
}
