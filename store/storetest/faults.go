package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Faults wraps a whole engine that works until a test breaks it. A test can break the
// store at one moment, check the errors, repair it, and check what was stored.
type Faults struct {
	kv.DB
	*faultState
}

// faultState is what a test has broken, of one engine or of those of several servers.
type faultState struct {
	mu       sync.Mutex
	broken   error
	onUpdate func(run func() error) error
	full     kv.Class
	crowded  bool
}

// NewFaults wraps db without any fault.
func NewFaults(db kv.DB) *Faults { return &Faults{db, &faultState{}} }

// Break makes every View and Update fail with err before it begins, until Repair.
func (f *faultState) Break(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

// OnUpdate calls around in place of every new Update until Repair, also of those that the
// store makes in the background: where the number matters, call [Fixture.Rest] first. run is
// the Update itself: around can act before and after the commit.
func (f *faultState) OnUpdate(around func(run func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onUpdate = around
}

// Fill refuses the writes of classes below least, as an engine does on a disk that is nearly
// full, until Repair.
func (f *faultState) Fill(least kv.Class) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = least
}

// Crowd makes the engine tell that updates have waited for too long, until Repair.
func (f *faultState) Crowd() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crowded = true
}

// Crowded makes the engine a [kv.Crowder].
func (f *faultState) Crowded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crowded
}

// Repair undoes Break, OnUpdate, Fill and Crowd. An Update inside around stays there.
func (f *faultState) Repair() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken, f.onUpdate, f.full, f.crowded = nil, nil, kv.Ordinary, false
}

func (f *faultState) state() (onUpdate func(func() error) error, broken error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.onUpdate, f.broken
}

// View is the engine's, or returns the injected error.
func (f *Faults) View(ctx context.Context, fn func(kv.Reader) error) error {
	if _, broken := f.state(); broken != nil {
		return broken
	}
	return f.DB.View(ctx, fn)
}

// Update is the engine's, or the function that the test has set.
func (f *Faults) Update(ctx context.Context, fn func(kv.Txn) error) error {
	around, broken := f.state()
	if broken != nil {
		return broken
	}
	run := func() error {
		return f.DB.Update(ctx, func(tx kv.Txn) error { return fn(&fullTxn{Txn: tx, faults: f.faultState}) })
	}
	if around != nil {
		return around(run)
	}
	return run()
}

// fullTxn is a transaction on a disk that may be nearly full.
type fullTxn struct {
	kv.Txn
	faults *faultState
}

func (t *fullTxn) refusal() error {
	t.faults.mu.Lock()
	defer t.faults.mu.Unlock()
	if t.As(kv.Ordinary) < t.faults.full {
		return kv.ErrFull
	}
	return nil
}

func (t *fullTxn) Set(key, value []byte, expiresAt time.Time) error {
	if err := t.refusal(); err != nil {
		return err
	}
	return t.Txn.Set(key, value, expiresAt)
}

func (t *fullTxn) Delete(key []byte) error {
	if err := t.refusal(); err != nil {
		return err
	}
	return t.Txn.Delete(key)
}

// CutAt breaks the store at the update with that number, before or after its commit. It
// calls [Fixture.Rest], or what the store writes in the background would count too.
func (f *Fixture) CutAt(number int, applied bool) {
	f.Rest()
	var updates atomic.Int64
	f.Faults.OnUpdate(func(run func() error) error {
		if updates.Add(1)-1 != int64(number) {
			return run()
		}
		if applied {
			if err := run(); err != nil {
				return err
			}
		}
		return record.ErrUnavailable
	})
}
