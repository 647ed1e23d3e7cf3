package storetest

import (
	"context"
	"sync"

	"tollhouse/store/kv"
)

// Faults is an engine that works until it is told not to. It stands around a
// whole engine, so that a test can break the store at one moment, see what
// callers are told, mend it, and look at what was kept.
type Faults struct {
	kv.DB

	mu       sync.Mutex
	broken   error
	onUpdate func(run func() error) error
}

// NewFaults returns db with nothing wrong with it.
func NewFaults(db kv.DB) *Faults { return &Faults{DB: db} }

// Break makes every View and Update fail with err before it begins, until Mend.
func (f *Faults) Break(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

// OnUpdate has around called in place of every Update that begins from now on,
// until Mend. run is the Update itself: what around does before it happens
// before the commit, and what it does after it happens after.
func (f *Faults) OnUpdate(around func(run func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onUpdate = around
}

// Mend ends what Break and OnUpdate began. An Update inside around stays there.
func (f *Faults) Mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken, f.onUpdate = nil, nil
}

func (f *Faults) state() (onUpdate func(func() error) error, broken error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.onUpdate, f.broken
}

// View is the engine's, or the error it was broken with.
func (f *Faults) View(ctx context.Context, fn func(kv.Reader) error) error {
	if _, broken := f.state(); broken != nil {
		return broken
	}
	return f.DB.View(ctx, fn)
}

// Update is the engine's, or what the test put in its place.
func (f *Faults) Update(ctx context.Context, fn func(kv.Txn) error) error {
	around, broken := f.state()
	if broken != nil {
		return broken
	}
	run := func() error { return f.DB.Update(ctx, fn) }
	if around != nil {
		return around(run)
	}
	return run()
}
