package kv

import (
	"context"
	"errors"
)

// ErrSkipped says that an update of [UpdateEach] did not run, because one before
// it had failed.
var ErrSkipped = errors.New("kv: an update before this one failed")

// Sequencer is an engine that takes updates in an order without waiting for each
// to be on disk before it runs the next.
type Sequencer interface {
	// UpdateEach is [UpdateEach] in this engine.
	UpdateEach(ctx context.Context, fns []func(Txn) error) []error
}

// UpdateEach runs fns in their order, each of them an Update of its own, with
// its own limits and whole in itself, and returns how each has ended. One that
// fails ends it: those behind it do not run, and theirs is [ErrSkipped]. A
// [Sequencer] lets them share commits, and so syncs, where they are small
// enough; that a later one is on disk and an earlier is not never happens.
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
