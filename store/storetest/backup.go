package storetest

import (
	"context"
	"iter"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
)

// EmptyInMemory returns an empty engine in memory that never drops a record.
func EmptyInMemory() kv.DB { return memkv.New(nil) }

// EmptyOnDisk returns an empty engine on disk for loading a backup; or in memory, see
// [EnvEngine]. The store opened over it closes it.
func EmptyOnDisk(t testing.TB) kv.DB {
	t.Helper()
	return openDurable(t, nil)
}

// Snapshot is the engine's, or the error it was broken with.
func (f *Faults) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	if _, broken := f.state(); broken != nil {
		return broken
	}
	return f.DB.(kv.Snapshotter).Snapshot(ctx, fn)
}

// Hold is the engine's, or the error it was broken with.
func (f *Faults) Hold(ctx context.Context) (kv.Held, error) {
	if _, broken := f.state(); broken != nil {
		return nil, broken
	}
	held, err := f.DB.(kv.Holder).Hold(ctx)
	return heldFaults{held, f}, err
}

// heldFaults fails once its engine is broken.
type heldFaults struct {
	kv.Held
	of *Faults
}

func (h heldFaults) View(ctx context.Context, fn func(kv.Reader) error) error {
	if _, broken := h.of.state(); broken != nil {
		return broken
	}
	return h.Held.View(ctx, fn)
}

// Load is the engine's.
func (f *Faults) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	return f.DB.(kv.Loader).Load(ctx, records)
}
