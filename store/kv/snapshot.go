package kv

import (
	"context"
	"iter"
)

// Record is a key with all that an engine keeps under it, as it goes into a
// backup and comes out of one.
type Record struct {
	Key, Value []byte
	// ExpiresAt is the Unix second from which on the engine may drop the record,
	// on its own account; 0 is never. It is not the moment that was given to Set:
	// engines add to that what they like, and what they added is kept.
	ExpiresAt int64
}

// Snapshotter is an engine that can hand out all that it holds, for a backup.
type Snapshotter interface {
	// Snapshot calls fn with every record of one snapshot, in the order of the
	// keys, some at a time; they are valid until fn returns. The snapshot is no
	// older than the last Update that was acknowledged when Snapshot was called.
	// No transaction is open while fn runs, so fn may wait for whoever takes the
	// records (contract line 8), and updates go on meanwhile. The engine looks
	// for damage that its reads would pass over before it begins. An error of fn
	// ends it, and is returned. Errors: ErrCorrupt, ErrUnavailable.
	Snapshot(ctx context.Context, fn func([]Record) error) error
}

// Loader is an engine that can take in what a Snapshotter has handed out.
type Loader interface {
	// Load stores the records in an engine that holds none. They may come in any
	// order, each key once, and are valid until the next step. An error among
	// them ends it, and is returned. After an error the engine holds some of the
	// records, and is to be thrown away.
	Load(ctx context.Context, records iter.Seq2[Record, error]) error
}
