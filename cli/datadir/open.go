package datadir

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/secret"
)

// Opened is an open store and the goroutine that works for it.
type Opened struct {
	DB     Engine
	Store  *store.Store
	Hasher *secret.Hasher
	stop   context.CancelFunc
	ended  chan struct{} // closed when the store's Run has returned
}

// Options say which store to open and how.
type Options struct {
	Dir       string       // of the generation; "" keeps everything in memory
	Lock      *Lock        // of the data directory, or nil
	Engine    EngineName   // of a store in memory
	State     *memkv.State // nil, or what a store in memory begins with
	Key       secret.Key
	Random    secret.Source // nil, or dev's own
	Dev       *DevOptions   // nil, or how a store in memory serves tests
	Log       *slog.Logger
	Now       func() time.Time // an injected clock, or nil
	Lifetimes store.Lifetimes  // zero: the defaults
	// AccountWrites is how many bytes an account may write in an hour; 0 means no bound.
	AccountWrites int64
	CardGuard     eventlog.CardGuard
	OpenKinds     bool
	SecondFactor  store.SecondFactor
	AcceptClock   bool
	OnFatal       func(error)
	Memory        int64                                          // for the engine, in bytes; 0 is its default
	OnHash        func(waited, took time.Duration, refused bool) // nil, or counts a password hash
	OnCommit      func(updates int, took time.Duration)          // nil, or counts a commit
}

// DevOptions are dev's alone: its store takes test fixtures, hashes passwords as
// cheaply as possible, and keeps nothing.
type DevOptions struct {
	StrictTypes bool
	Throttle    bool // refreshes and tokens of clients too
}

// burstUnlimited is a burst that no test reaches.
const burstUnlimited = 1 << 28

// Open opens the engine and the store over it. The caller must Close it.
func Open(ctx context.Context, o Options) (*Opened, error) {
	if o.Dir != "" && (o.Random != nil || o.Now != nil || o.State != nil || o.Dev != nil) {
		panic("datadir: a store on disk must be neither predictable nor a test fixture; what is dev's is for memory only")
	}
	db, err := openEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	return OpenOver(ctx, db, o)
}

// OpenOver opens the store over an engine, and closes that if it cannot. The options that
// concern the engine have no effect.
func OpenOver(ctx context.Context, db Engine, o Options) (*Opened, error) {
	settings := store.Options{Hasher: secret.NewHasher()}
	if o.Dev != nil {
		settings.Hasher, settings.Fixtures, settings.StrictTypes = secret.NewQuickHasher(), true, o.Dev.StrictTypes
		if !o.Dev.Throttle {
			settings.Rotations, settings.ClientGrants = burstUnlimited, burstUnlimited
		}
	}
	hasher := settings.Hasher
	hasher.OnHash = o.OnHash
	now := o.Now
	if now == nil {
		now = time.Now
	}
	if o.Lifetimes == (store.Lifetimes{}) {
		o.Lifetimes = store.DefaultLifetimes()
	}
	settings.Now, settings.Key, settings.Lifetimes, settings.Log = now, o.Key, o.Lifetimes, o.Log
	settings.Random, settings.CardGuard, settings.AccountWrites = o.Random, o.CardGuard, o.AccountWrites
	settings.OpenKinds, settings.SecondFactor = o.OpenKinds, o.SecondFactor
	s, err := store.Open(ctx, db, settings)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The store's own work stops when close says so, not when the caller's context
	// is done: what is noted must still be written. The caller's values would keep the
	// request of a reset in memory, and with it the previous instance.
	running, stop := context.WithCancel(context.Background())
	k := &Opened{DB: db, Store: s, Hasher: hasher, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(k.ended)
		_ = s.Run(running) // returns nil once it is stopped
	}()
	return k, nil
}

// State returns everything that the store holds. With EngineMemory it takes constant
// time, apart from writing what is pending; with EngineBadger it copies
// every record.
func (k *Opened) State(ctx context.Context) (*memkv.State, error) {
	k.Store.Flush(ctx)
	if e, ok := k.DB.(memoryEngine); ok {
		return e.State(), nil
	}
	copied := memkv.New(nil)
	if err := copied.Load(ctx, recordsOf(ctx, k.DB)); err != nil {
		return nil, err
	}
	return copied.State(), nil
}

// recordsOf yields every record of an engine.
func recordsOf(ctx context.Context, from kv.Snapshotter) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		errStopped := errors.New("stopped")
		err := from.Snapshot(ctx, func(page []kv.Record) error {
			for _, r := range page {
				if !yield(r, nil) {
					return errStopped
				}
			}
			return nil
		})
		if err != nil && err != errStopped {
			yield(kv.Record{}, err)
		}
	}
}

// Close writes what is pending and closes the store.
func (k *Opened) Close() error {
	k.stop()
	<-k.ended
	return k.DB.Close()
}
