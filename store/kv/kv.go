// Package kv is the seam between what tollhouse means and where it is kept:
// ordered keys and values in transactions, and nothing else.
//
// A datum flows like this. The store above encodes a record into bytes and
// names it by a key whose order is the order in which it will be read. It asks
// for one Update, in which it reads what it depends on and writes what follows
// from it. When Update returns nil, the write is on disk. From then on every
// View sees it.
//
// # The contract
//
// Every engine keeps these promises, and kvtest.Run holds it to each of them by
// its number.
//
//  1. A transaction sees its own writes, in Get and in Scan. A Scan shows them
//     as they were when its loop began; a write inside the loop is seen by
//     the next one.
//  2. An error or a panic from fn leaves no trace; a panic surfaces in the
//     caller of Update or View.
//  3. Update is serializable over the keys that it Gets, present or absent.
//     Ranges are not guarded: an invariant over a set rests on a named key,
//     never on an empty Scan.
//  4. Expiry only reclaims space, and not before expiresAt. A record's own
//     expires_at, compared with the injected clock, decides; a caller must not
//     rely on an expired key being gone.
//  5. Ranges are half-open, [Lo, Hi), in both directions and for keys of any
//     bytes; a nil Hi has no upper bound.
//  6. Limits are the same on every engine: a key of [KeySizeMax] bytes, a value
//     of [ValueSizeMax] bytes, [UpdateWritesMax] writes and [UpdateBytesMax]
//     bytes an Update. Past them Set or Delete returns [ErrTooLarge] and has
//     written nothing. Larger work is done in batches, each whole in itself.
//     A key has at least one byte and does not begin with [ReservedPrefix]; to
//     write another is a mistake in the calling code, and panics.
//  7. A commit whose outcome is unknown is [ErrUnknownOutcome], never a silent
//     retry. A refusal before the commit is [ErrUnavailable].
//  8. No transaction stays open while bytes go to or come from a client: read
//     a bounded page, close, then write.
package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// The limits of contract line 6. They are those of the narrowest engine we
// plan for, so that no engine change can make a working caller fail.
const (
	KeySizeMax      = 1 << 10  // bytes of a key
	ValueSizeMax    = 66 << 10 // bytes of a value
	UpdateWritesMax = 1000     // Set and Delete calls in one Update
	UpdateBytesMax  = 1 << 20  // bytes of all keys and values written by one Update
)

// ReservedPrefix is the first byte of the keys that engines keep for themselves.
const ReservedPrefix = '!'

var (
	// ErrNotFound says that no value is stored under the key.
	ErrNotFound = errors.New("kv: not found")
	// ErrCorrupt says that what is stored under a key is damaged. It is never
	// reported as ErrNotFound. Errors that match it are a [*CorruptError].
	ErrCorrupt = errors.New("kv: stored value is damaged")
	// ErrTooLarge says that a write passes one of the limits of contract line 6.
	ErrTooLarge = errors.New("kv: write is too large")
	// ErrUnavailable says that the engine refused the work before it began:
	// its queue is full, the disk is nearly full, or it is closing. Nothing
	// was written; the caller may try again later.
	ErrUnavailable = errors.New("kv: unavailable")
	// ErrUnknownOutcome says that a commit was begun and nobody can tell
	// whether it will be found after a restart. The engine takes no more work.
	ErrUnknownOutcome = errors.New("kv: outcome of the commit is unknown")
)

// CorruptError names the kind of the damaged record, which is the first byte of
// its key; the rest of the key may name somebody and is left out.
type CorruptError struct {
	Kind   byte
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("kv: stored value of kind %q is damaged: %s", e.Kind, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// DB is an ordered set of keys and values with transactions.
type DB interface {
	// View runs fn over one snapshot, no older than the last Update that was
	// acknowledged when View was called. It never waits for a commit.
	View(ctx context.Context, fn func(Reader) error) error
	// Update runs fn and stores what it wrote, all of it or nothing, durably
	// before it returns nil. fn may run more than once, so it is pure: it
	// resets what it captures and touches nothing outside. It is short, since
	// engines may run updates one after another.
	Update(ctx context.Context, fn func(Txn) error) error
	// Close waits for the transactions in flight, then releases what the
	// engine holds. Later calls of View and Update return ErrUnavailable.
	Close() error
}

// Reader reads within one transaction, and is not to be used after it.
type Reader interface {
	// Get returns the value of key, which stays valid and unchanged until the
	// transaction ends. Errors: ErrNotFound, ErrCorrupt.
	Get(key []byte) ([]byte, error)
	// GetMany yields the index of each key that is present, in the order of
	// keys, with its value: one round trip on a remote engine. A failure is
	// sticky, as in Scan.
	GetMany(keys [][]byte) iter.Seq2[int, []byte]
	// Scan yields the keys and values of a range in order. Both are valid until
	// the next step only. A failure ends the sequence and is returned by View
	// or Update, even when fn itself returns nil.
	Scan(r Range) iter.Seq2[[]byte, []byte]
}

// Txn reads and writes within one Update.
type Txn interface {
	Reader
	// Set stores value under key. The bytes are copied. A zero expiresAt means
	// that the value is kept until it is deleted. Errors: ErrTooLarge.
	Set(key, value []byte, expiresAt time.Time) error
	// Delete removes key; that it is absent is no error. Errors: ErrTooLarge.
	Delete(key []byte) error
}

// Range is the half-open range of keys [Lo, Hi).
type Range struct {
	Lo, Hi   []byte // a nil Lo is the first key, a nil Hi is past the last
	Reverse  bool   // from the last key below Hi down to Lo
	KeysOnly bool   // the values yielded are nil
	Limit    int    // at most so many keys; 0 is no limit
}

// Checker is an engine that can look for damage at rest, which no read may ever
// touch. Check reads everything, so it runs in the background, after opening
// and every night. An error that matches [ErrCorrupt] says what is damaged.
type Checker interface {
	Check(ctx context.Context) error
}
