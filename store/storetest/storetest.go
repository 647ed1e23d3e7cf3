// Package storetest gives other packages' tests a real store: the product's own
// code over an engine in memory, with a clock that the test turns.
package storetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/secret"
)

// Clock is a clock that stands still until it is turned.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at a moment of our choice.
func NewClock() *Clock { return &Clock{now: time.Unix(1_773_070_200, 0).UTC()} }

// Now tells the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance turns the clock; a negative duration turns it back.
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

	options store.Options
	rest    func()
}

// New returns an empty store in memory, which drops a record as soon as it has
// expired. Options may be changed before it opens.
func New(t testing.TB, change ...func(*store.Options)) *Fixture {
	t.Helper()
	clock := NewClock()
	return inMemory(t, memkv.New(clock.Now), clock, change)
}

// NewKeeping returns an empty store in memory that never drops a record, however
// long ago it expired: what a record says of itself must be enough.
func NewKeeping(t testing.TB, change ...func(*store.Options)) *Fixture {
	t.Helper()
	return inMemory(t, memkv.New(nil), NewClock(), change)
}

func inMemory(t testing.TB, db kv.DB, clock *Clock, change []func(*store.Options)) *Fixture {
	t.Helper()
	faults := NewFaults(db)
	f := Open(t, faults, clock, change...)
	f.Faults = faults
	return f
}

// OnDisk returns an empty store over Badger in a directory of the test's own,
// every commit synced.
func OnDisk(t testing.TB, change ...func(*store.Options)) *Fixture {
	t.Helper()
	clock := NewClock()
	db, err := badgerkv.Open(badgerkv.Options{Dir: t.TempDir(), Now: clock.Now})
	if err != nil {
		t.Fatalf("storetest: open badger: %v", err)
	}
	return Open(t, db, clock, change...)
}

// Open returns a store over db.
func Open(t testing.TB, db kv.DB, clock *Clock, change ...func(*store.Options)) *Fixture {
	t.Helper()
	options := store.Options{
		Now: clock.Now, Key: secret.NewKey(), Hasher: secret.NewHasher(),
		Lifetimes: store.DefaultLifetimes(), Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&options)
	}
	s, err := store.Open(context.Background(), db, options)
	if err != nil {
		t.Fatalf("storetest: open: %v", err)
	}
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

// Rest writes the notes that reads have left behind and ends the goroutine that
// does so: from then on every Update is one that the test asked for.
func (f *Fixture) Rest() { f.rest() }

// Reopened returns another store over the same engine, as a process finds it
// that was started after this one had died: what was only in memory is gone.
func (f *Fixture) Reopened(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), f.DB, f.options)
	if err != nil {
		t.Fatalf("storetest: open again: %v", err)
	}
	return s
}

// Count returns how many keys begin with the tag, which is the first byte of
// every key and says what kind of record it names.
func (f *Fixture) Count(t testing.TB, tag byte) int {
	t.Helper()
	return f.count(t, kv.Range{Lo: []byte{tag}, Hi: []byte{tag + 1}, KeysOnly: true})
}

// CountAll returns how many keys there are.
func (f *Fixture) CountAll(t testing.TB) int {
	t.Helper()
	return f.count(t, kv.Range{KeysOnly: true})
}

func (f *Fixture) count(t testing.TB, r kv.Range) (n int) {
	t.Helper()
	err := f.DB.View(context.Background(), func(rd kv.Reader) error {
		for range rd.Scan(r) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatalf("storetest: count: %v", err)
	}
	return n
}

// Password is the password of every user that a fixture makes.
const Password = "correct horse battery staple"

// CallbackURI is the redirect URI of every client that a fixture makes.
const CallbackURI = "https://app.example/cb"

// Client makes a confidential client and returns it with its secret.
func (f *Fixture) Client(t testing.TB, change ...func(*store.ClientSpec)) (store.Client, secret.Token) {
	t.Helper()
	spec := store.ClientSpec{Name: "Larkspur Bookkeeping", RedirectURIs: []string{CallbackURI}}
	for _, c := range change {
		c(&spec)
	}
	c, sec, err := f.CreateClient(context.Background(), spec)
	if err != nil {
		t.Fatalf("storetest: create client: %v", err)
	}
	return c, sec
}

// User makes a user who acts for the account.
func (f *Fixture) User(t testing.TB, name, account string) store.User {
	t.Helper()
	u, err := f.CreateUser(context.Background(), name, account, Password)
	if err != nil {
		t.Fatalf("storetest: create user: %v", err)
	}
	return u
}
