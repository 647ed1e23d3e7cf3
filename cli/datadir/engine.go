package datadir

import (
	"context"
	"errors"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
)

// EngineName is an engine that keeps everything in memory; "" is EngineMemory.
type EngineName string

const (
	EngineMemory EngineName = "memory"
	EngineBadger EngineName = "badger"
)

// String returns the name.
func (e *EngineName) String() string { return string(*e) }

// Type is the kind of the value in help.
func (e *EngineName) Type() string { return "name" }

// Set reads a name.
func (e *EngineName) Set(text string) error {
	switch name := EngineName(text); name {
	case EngineMemory, EngineBadger:
		*e = name
		return nil
	}
	return errors.New("give memory or badger")
}

// Engine is what a server and the doctor need of every engine.
type Engine interface {
	kv.DB
	kv.Snapshotter
	kv.Loader
	// Ready returns why a request would be refused now, or nil.
	Ready() error
	// Check reads everything that is stored and verifies its checksums.
	Check(ctx context.Context) error
}

// DiskEngine is what an engine on a disk of this machine has in addition. [badgerkv.DB]
// documents the methods.
type DiskEngine interface {
	CheckClock() (lastWrite time.Time, err error)
	DamagedKeys() [][2][]byte
	Stats() badgerkv.Stats
	Space() (s badgerkv.Space, ok bool, err error)
	SpaceMin() uint64
	Reserved() uint64
	Files() badgerkv.Files
}

// FilesOf returns how many files this process may open, and what an engine needs of them.
func FilesOf(db Engine) badgerkv.Files {
	if disk, ok := db.(DiskEngine); ok {
		return disk.Files()
	}
	return badgerkv.Files{Limit: badgerkv.FilesMax()}
}

// SpaceOf returns the disk space of an engine. ok is false for one without a disk.
func SpaceOf(db Engine) (s badgerkv.Space, ok bool, err error) {
	disk, ok := db.(DiskEngine)
	if !ok {
		return badgerkv.Space{}, false, nil
	}
	return disk.Space()
}

func openEngine(ctx context.Context, o Options) (Engine, error) {
	if o.State != nil && o.Dir != "" {
		panic("datadir: only a store in memory begins with a state")
	}
	if o.Dir == "" && o.Engine != EngineBadger {
		return openMemory(o), nil
	}
	var moved func() error
	if o.Lock != nil {
		moved = o.Lock.Moved
	}
	db, err := badgerkv.Open(badgerkv.Options{
		Dir: o.Dir, Moved: moved, InMemory: o.Dir == "", Now: o.Now, Log: o.Log, AcceptClock: o.AcceptClock, OnFatal: o.OnFatal,
		OnCommit: o.OnCommit, Memory: o.Memory, Recent: record.RecentKinds, Whole: record.WholeKinds,
	})
	if err != nil || o.State == nil {
		return db, err
	}
	if err := db.Load(ctx, recordsOf(ctx, memkv.NewFrom(o.State, nil))); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// memoryEngine has no disk, no queue and no damage.
type memoryEngine struct {
	*memkv.DB
	onCommit func(updates int, took time.Duration)
}

// expiryMargin is how long expired records stay, as on disk: a token that expired is
// then refused as expired and not as unknown.
const expiryMargin = 24 * time.Hour

func openMemory(o Options) memoryEngine {
	e := memoryEngine{onCommit: o.OnCommit}
	if e.onCommit == nil {
		e.onCommit = func(int, time.Duration) {}
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	expired := func() time.Time { return now().Add(-expiryMargin) }
	if e.DB = memkv.New(expired); o.State != nil {
		e.DB = memkv.NewFrom(o.State, expired)
	}
	return e
}

// Update calls the engine's, and counts a commit.
func (e memoryEngine) Update(ctx context.Context, fn func(kv.Txn) error) error {
	var begun time.Time
	err := e.DB.Update(ctx, func(tx kv.Txn) error {
		err := fn(tx)
		begun = time.Now()
		return err
	})
	if err == nil {
		e.onCommit(1, time.Since(begun))
	}
	return err
}

// Ready fails when the engine is closed.
func (e memoryEngine) Ready() error {
	return e.View(context.Background(), func(kv.Reader) error { return nil })
}

// Check finds nothing: memory has no checksums.
func (memoryEngine) Check(ctx context.Context) error { return ctx.Err() }
