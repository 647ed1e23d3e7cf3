package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
)

// keep is an open store with what works behind it.
type keep struct {
	db     *badgerkv.DB
	store  *store.Store
	hasher *secret.Hasher
	stop   context.CancelFunc
	ended  chan struct{} // closed when the store's Run has returned

	metrics *metrics
}

// keepOptions say which store to open, and how.
type keepOptions struct {
	dir         string // of the generation; "" keeps everything in memory
	key         secret.Key
	log         *slog.Logger
	now         func() time.Time // an injected clock, or nil
	lifetimes   store.Lifetimes  // zero: the defaults
	cardGuard   store.CardGuard
	usersReady  <-chan struct{}
	acceptClock bool
	onFatal     func(error)
	memory      int64 // for the engine, in bytes; 0 is its default
}

// openKeep opens the engine and the store over it.
func openKeep(ctx context.Context, o keepOptions) (*keep, error) {
	if o.dir != "" && secret.IsForetold() {
		panic("cli: what is kept on disk must not be foretold")
	}
	counted, hasher := newMetrics(), secret.NewHasher()
	hasher.OnHash = counted.hashed
	db, err := badgerkv.Open(badgerkv.Options{
		Dir: o.dir, InMemory: o.dir == "", Now: o.now, Log: o.log, AcceptClock: o.acceptClock, OnFatal: o.onFatal,
		OnCommit: counted.committed, Memory: o.memory,
	})
	if err != nil {
		return nil, err
	}
	now := o.now
	if now == nil {
		now = time.Now
	}
	if o.lifetimes == (store.Lifetimes{}) {
		o.lifetimes = store.DefaultLifetimes()
	}
	s, err := store.Open(ctx, db, store.Options{
		Now: now, Key: o.key, Hasher: hasher, Lifetimes: o.lifetimes, Log: o.log,
		CardGuard: o.cardGuard, UsersReady: o.usersReady,
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The store's own work ends when close says so, not when the caller's
	// context does: what is noted must still be written.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &keep{db: db, store: s, hasher: hasher, stop: stop, ended: make(chan struct{}), metrics: counted}
	go func() {
		defer close(k.ended)
		_ = s.Run(running) // returns nil once it is stopped
	}()
	return k, nil
}

// close writes down what is left to write and closes the store.
func (k *keep) close() error {
	k.stop()
	<-k.ended
	return k.db.Close()
}
