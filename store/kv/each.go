package kv

import (
	"context"
	"errors"
)

// ErrSkipped means that an update of [UpdateEach] did not run because an earlier one
// failed.
var ErrSkipped = errors.New("kv: an update before this one failed")

// Sequencer is an engine that runs updates in order without waiting for each one's
// sync.
type Sequencer interface {
	// UpdateEach is the engine's [UpdateEach].
	UpdateEach(ctx context.Context, fns []func(Txn) error) []error
}

// UpdateEach runs fns in order, each as an atomic Update with its own limits, and
// returns the outcome of each. After a failure the rest do not run and get
// [ErrSkipped]. A [Sequencer] lets small updates share commits and syncs; a later one
// is never on disk without the earlier ones.
func UpdateEach(ctx context.Context, db DB, fns []func(Txn) error) []error {
	if engine, ok := db.(Sequencer); ok {
		return engine.UpdateEach(ctx, fns)
	}
	ends := make([]error, len(fns))
	for i, fn := range fns {
		if i > 0 && ends[i-1] != nil {
			ends[i] = ErrSkipped
			continue
		}
		ends[i] = db.Update(ctx, fn)
	}
	return ends
}
