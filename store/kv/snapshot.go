package kv

import (
	"context"
	"iter"
)

// Record is a key with everything stored under it, for a backup.
type Record struct {
	Key, Value []byte
	// ExpiresAt is the Unix second from which the engine may drop the record; 0 means
	// never. It may be later than the time given to Set, and a backup keeps it.
	ExpiresAt int64
}

// Snapshotter is an engine that can be backed up.
type Snapshotter interface {
	// Snapshot calls fn with every record of one snapshot, in key order and in pages
	// that are valid until fn returns. The snapshot includes every Update acknowledged
	// before the call. No transaction is open while fn runs, so fn may wait (contract
	// line 8), and updates continue. Before it starts, the engine looks for damage
	// that reads would miss. An error of fn stops it and is returned. Errors:
	// ErrCorrupt, ErrUnavailable.
	Snapshot(ctx context.Context, fn func([]Record) error) error
}

// Holder is an engine whose records can be read at one moment over a long time, in any order.
type Holder interface {
	// Hold keeps the last acknowledged version until its Release. Before it returns, the
	// engine looks for damage that reads would miss. Errors: ErrCorrupt, ErrUnavailable.
	Hold(ctx context.Context) (Held, error)
}

// Held is a version of the store for one goroutine. Updates continue, and Close waits for its
// Release.
type Held interface {
	// View runs fn on the version, as [DB].View does on the last one. Between Views the
	// caller may wait (contract line 8).
	View(ctx context.Context, fn func(Reader) error) error
	Release()
}

// Loader is an engine that can restore a backup.
type Loader interface {
	// Load stores the records in an empty engine. They may be in any order, each key
	// once, and are valid until the next step. An error among them stops it and is
	// returned. After an error the engine holds some of the records; discard it.
	Load(ctx context.Context, records iter.Seq2[Record, error]) error
}
