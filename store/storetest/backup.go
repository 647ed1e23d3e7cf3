package storetest

import (
	"context"
	"iter"

	"tollhouse/store/kv"
)

// Snapshot is the engine's, or the error it was broken with.
func (f *Faults) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	if _, broken := f.state(); broken != nil {
		return broken
	}
	return f.DB.(kv.Snapshotter).Snapshot(ctx, fn)
}

// Load is the engine's.
func (f *Faults) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	return f.DB.(kv.Loader).Load(ctx, records)
}
