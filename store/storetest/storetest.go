// Package storetest gives tests a real store: the product's own code on an in-memory
// engine, with a clock that the test controls. [New] opens one; [Fixture] creates
// clients and users in it. [Faults] breaks the engine on purpose, [Fixture.EachFault] at
// each step of a call, [House] restarts and kills a store on disk, and [Pairs], [Floor]
// and [Tape] measure.
package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// Clock is a clock that only moves when a test advances it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at a fixed time.
func NewClock() *Clock { return &Clock{now: time.Unix(1_773_070_200, 0).UTC()} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock; a negative duration moves it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Fixture is a store with its clock and engine.
type Fixture struct {
	*store.Store
	Clock  *Clock
	DB     kv.DB
	Faults *Faults // of a store in memory
	Key    secret.Key
	// Other is the store of a second server on the same database, if [EnvEngine] asks for two.
	Other *store.Store

	options store.Options
	rest    func()
}

// New returns an empty store in memory that drops records as soon as they expire.
// change edits its Options.
func New(t testing.TB, change ...func(*store.Options)) *Fixture {
	t.Helper()
	clock := NewClock()
	return inMemory(t, memkv.New(clock.Now), clock, change)
}

// DropsExpired reports whether the engine of [New] drops what has expired by the test's clock. Those of
// [EnvEngine] that keep data go by their own.
func DropsExpired() bool {
	return !slices.Contains([]string{"badger", "postgres", "servers"}, os.Getenv(EnvEngine))
}

// NewKeeping returns an empty store in memory that never drops an expired record: the
// record's own expiry must be enough.
func NewKeeping(t testing.TB, change ...func(*store.Options)) *Fixture {
	t.Helper()
	return inMemory(t, EmptyInMemory(), NewClock(), change)
}

func inMemory(t testing.TB, db kv.DB, clock *Clock, change []func(*store.Options)) *Fixture {
	t.Helper()
	switch os.Getenv(EnvEngine) {
	case "postgres":
		db = newInTurns(t)
	case "badger":
		db = openBadger(t, t.TempDir(), clock.Now)
	case "servers":
		return newServers(t, clock, change)
	}
	faults := NewFaults(db)
	f := Open(t, faults, clock, change...)
	f.Faults = faults
	return f
}

// OnDisk returns an empty store over Badger in a temporary directory, every commit
// synced; or in memory, see [EnvEngine].
func OnDisk(t testing.TB, change ...func(*store.Options)) *Fixture {
	t.Helper()
	clock := NewClock()
	return Open(t, openDurable(t, clock.Now), clock, change...)
}

// EnvEngine is the environment variable that puts what tests keep on disk into memory
// when it is "memory", so that both engines of the product pass the same tests. With "postgres" every
// store is a database that two processes use in turns, and with "servers" one that two
// servers have open, of which [Fixture.Other] is the second. "badger" puts every store on
// disk.
const EnvEngine = "TOLLHOUSE_TEST_ENGINE"

func durableInMemory() bool { return os.Getenv(EnvEngine) == "memory" }

func openDurable(t testing.TB, now func() time.Time) kv.DB {
	t.Helper()
	if isInTurns() {
		return newInTurns(t)
	}
	if durableInMemory() {
		return EmptyInMemory() // as on disk, which expires nothing under a test's clock
	}
	return openBadger(t, t.TempDir(), now)
}

func openBadger(t testing.TB, dir string, now func() time.Time) kv.DB {
	t.Helper()
	const recent = 32 << 10 // some 150 records: the cache drops many even in small tests
	return must.Get(badgerkv.Open(badgerkv.Options{Dir: dir, Now: now, Recent: record.RecentKinds, RecentMax: recent, Whole: record.WholeKinds}))(t)
}

// SegmentEvents is the size of a segment in tests, so that few events cross segments.
// Benchmarks use the default.
const SegmentEvents = 7

// Open returns a store over db, with cheap password hashes; see [FullHashes].
func Open(t testing.TB, db kv.DB, clock *Clock, change ...func(*store.Options)) *Fixture {
	t.Helper()
	options := store.Options{
		Now: clock.Now, Key: secret.NewKey(nil), Hasher: quickHasher,
		Lifetimes: store.DefaultLifetimes(), Log: slog.New(slog.DiscardHandler),
	}
	if _, measures := t.(*testing.B); !measures {
		options.SegmentEvents = SegmentEvents
	}
	for _, f := range change {
		f(&options)
	}
	s := must.Get(store.Open(context.Background(), db, options))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	f := &Fixture{Store: s, Clock: clock, DB: db, Key: options.Key, options: options, rest: func() { cancel(); <-ended }}
	t.Cleanup(func() {
		f.Rest()
		if err := db.Close(); err != nil {
			t.Errorf("storetest: close: %v", err)
		}
	})
	return f
}

// Rest writes the recorded uses and stops the goroutine that does so: from then on
// every Update comes from the test.
func (f *Fixture) Rest() { f.rest() }

// Reopened returns another store over the same engine, as after a crash: what was only
// in memory is lost.
func (f *Fixture) Reopened(t testing.TB, change ...func(*store.Options)) *store.Store {
	t.Helper()
	options := f.options
	for _, edit := range change {
		edit(&options)
	}
	return must.Get(store.Open(context.Background(), f.DB, options))(t)
}

// Count returns the number of keys with the tag.
func (f *Fixture) Count(t testing.TB, tag byte) int {
	t.Helper()
	return f.count(t, kv.Range{Lo: []byte{tag}, Hi: []byte{tag + 1}, KeysOnly: true})
}

// CountAll returns the number of keys.
func (f *Fixture) CountAll(t testing.TB) int {
	t.Helper()
	return f.count(t, kv.Range{KeysOnly: true})
}

func (f *Fixture) count(t testing.TB, r kv.Range) (n int) {
	t.Helper()
	must.Do(t, f.DB.View(context.Background(), func(rd kv.Reader) error {
		for range rd.Scan(r) {
			n++
		}
		return nil
	}))
	return n
}

// Password is the password of every user of a fixture.
const Password = "correct horse battery staple"

// CallbackURI is the redirect URI of every client of a fixture.
const CallbackURI = "https://app.example/cb"

// Client creates a confidential client and returns it with its secret.
func (f *Fixture) Client(t testing.TB, change ...func(*store.ClientSpec)) (store.Client, secret.Token) {
	t.Helper()
	spec := store.ClientSpec{Name: "Larkspur Bookkeeping", RedirectURIs: []string{CallbackURI}}
	for _, c := range change {
		c(&spec)
	}
	c, sec, err := f.CreateClient(context.Background(), spec)
	must.Do(t, err)
	return c, sec
}

// Platform makes the spec of [Fixture.Client] that of a platform client with those scopes.
func Platform(scopes ...string) func(*store.ClientSpec) {
	return func(c *store.ClientSpec) {
		*c = store.ClientSpec{Name: "Larkspur Platform", Platform: true, Scopes: scopes}
	}
}

// The hash of [Password] is computed once, because it is slower than most tests.
var (
	quickHasher = secret.NewQuickHasher()
	fullHasher  = secret.NewHasher()
	quickHash   = hashedOnce(quickHasher)
	fullHash    = hashedOnce(fullHasher)
)

func hashedOnce(h *secret.Hasher) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		return h.Hash(context.Background(), secret.Caller{}, Password)
	})
}

// FullHashes makes passwords as slow as the product's, for tests of their cost.
func FullHashes(o *store.Options) { o.Hasher = fullHasher }

// User creates a user of the account.
func (f *Fixture) User(t testing.TB, name, account string) store.User {
	t.Helper()
	hash := must.Get(quickHash())(t)
	if f.options.Hasher == fullHasher {
		hash = must.Get(fullHash())(t)
	}
	u := must.Get(f.CreateFixedUser(context.Background(), store.UserSpec{Username: name, Account: account}, hash))(t)
	return u
}

// ImportRecords imports lines of an import, whatever must be allowed for them.
func (f *Fixture) ImportRecords(t testing.TB, lines ...string) {
	t.Helper()
	ctx := context.Background()
	refused := func(r store.ImportReport) {
		if r.Refused != nil {
			t.Fatalf("line %d: %v", r.Line, r.Refused)
		}
	}
	im := f.NewImport(ctx, store.ImportOptions{Allow: store.ImportAllows(), Report: refused})
	for _, line := range lines {
		must.Do(t, im.Add(ctx, []byte(line), 0))
	}
	must.Do(t, im.Flush(ctx))
}

// ImportUser creates a user who brings the password hash of another system along.
func (f *Fixture) ImportUser(t testing.TB, name, account, hash string) {
	t.Helper()
	f.ImportRecords(t, fmt.Sprintf(`{"account":{"account":%q}}`, account),
		fmt.Sprintf(`{"user":{"username":%q,"account":%q,"password_hash":%q}}`, name, account, hash))
}

// OwnerOf returns the owner of the webhook endpoints that tokens of a client create, for the
// user if there is one.
func (f *Fixture) OwnerOf(t testing.TB, client string, user ...store.User) webhook.Owner {
	t.Helper()
	o := webhook.Owner{Client: client, ClientGeneration: must.Get(f.FindClient(context.Background(), client))(t).Generation}
	for _, u := range user {
		o.User, o.UserGeneration = u.Subject(), u.Generation
	}
	return o
}

// UserID returns the id of a user in calls.
func (f *Fixture) UserID(t testing.TB, name string) string {
	t.Helper()
	return must.Get(f.FindUser(context.Background(), name))(t).Subject()
}

// AuditReasons returns the reasons of up to limit audit lines after a position, and
// the position of the last.
func (f *Fixture) AuditReasons(t testing.TB, behind record.Position, limit int) (list []string, last record.Position) {
	t.Helper()
	lines := must.Get(f.ListAudit(context.Background(), behind, limit))(t)
	for _, l := range lines {
		list, last = append(list, l.Reason), l.Position
	}
	return list, last
}
