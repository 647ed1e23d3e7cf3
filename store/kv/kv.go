// Package kv is the interface between the store and its engines: ordered keys and
// values in transactions, and nothing else.
//
// The store encodes a record into bytes under a key that determines the order of
// reading. In one Update it reads what the change depends on and writes the result. When
// Update returns nil, the write is on disk and every later View sees it.
//
// # The contract
//
// Every engine keeps these promises; kvtest.Run tests each of them by number.
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
//     bytes an Update, or fewer if it is [Bounded]. Past them Set or Delete returns [ErrTooLarge] and has
//     written nothing. Larger work is done in batches, each whole in itself.
//     A key has at least one byte and does not begin with [ReservedPrefix]; to
//     write another is a mistake in the calling code, and panics.
//  7. A commit whose outcome is unknown returns [ErrUnknownOutcome] and is never
//     retried silently. A refusal before the commit returns [ErrUnavailable].
//     On a disk that is nearly full, an update is refused at its first write,
//     by its [Class]; one that writes nothing is not.
//  8. No transaction stays open while bytes are sent to or received from a client: read
//     a bounded page, close, then write.
package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// The limits of contract line 6. They are those of the narrowest engine we plan for,
// so that changing the engine breaks no caller.
const (
	KeySizeMax      = 1 << 10  // bytes of a key
	ValueSizeMax    = 66 << 10 // bytes of a value
	UpdateWritesMax = 1000     // Set and Delete calls in one Update
	UpdateBytesMax  = 1 << 20  // bytes of all keys and values written by one Update
)

// ReservedPrefix is the first byte of keys reserved for engines.
const ReservedPrefix = '!'

var (
	// ErrNotFound means that the key has no value.
	ErrNotFound = errors.New("kv: not found")
	// ErrCorrupt means that the stored value of a key is damaged. It is never reported
	// as ErrNotFound. Errors that match it are a [*CorruptError].
	ErrCorrupt = errors.New("kv: stored value is damaged")
	// ErrTooLarge means that a write exceeds a limit of contract line 6.
	ErrTooLarge = errors.New("kv: write is too large")
	// ErrUnavailable means that the engine refused the work before it began: its queue
	// is full, the disk is nearly full, or it is closing. Nothing was written; the
	// caller may retry.
	ErrUnavailable = errors.New("kv: unavailable")
	// ErrFull is an ErrUnavailable: the disk is nearly full.
	ErrFull = fmt.Errorf("%w: the disk is nearly full", ErrUnavailable)
	// ErrAway is an ErrUnavailable: the database of a remote engine does not answer.
	ErrAway = fmt.Errorf("%w: the database does not answer", ErrUnavailable)
	// ErrUnknownOutcome means that a commit began and may or may not survive a
	// restart. An engine on a disk accepts no more work.
	ErrUnknownOutcome = errors.New("kv: outcome of the commit is unknown")
)

// CorruptError names the kind of the damaged record, the first byte of its key. The
// rest of the key may name a person and is left out.
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
	// View runs fn on one snapshot, which includes every Update acknowledged before
	// the call. It never waits for a commit.
	View(ctx context.Context, fn func(Reader) error) error
	// Update runs fn and stores its writes atomically, durably before it returns nil.
	// fn may run more than once, so it must reset what it captures and touch nothing
	// outside. Keep it short: engines may run updates one after another.
	Update(ctx context.Context, fn func(Txn) error) error
	// Close waits for running transactions, then releases the engine. Later calls of
	// View and Update return ErrUnavailable.
	Close() error
}

// Reader reads within one transaction. Do not use it afterwards.
type Reader interface {
	// Get returns the value of key, valid and unchanged until the transaction ends.
	// Errors: ErrNotFound, ErrCorrupt.
	Get(key []byte) ([]byte, error)
	// GetMany yields the index and value of each key that exists, in the order of
	// keys: one round trip on a remote engine. Errors are handled as in Scan.
	GetMany(keys [][]byte) iter.Seq2[int, []byte]
	// Scan yields the keys and values of a range in order, both valid only until the
	// next step. An error stops the sequence, and View or Update returns it even if fn
	// returns nil.
	Scan(r Range) iter.Seq2[[]byte, []byte]
}

// Txn reads and writes within one Update.
type Txn interface {
	Reader
	// Set stores a copy of value under key. A zero expiresAt means no expiry. Errors:
	// ErrTooLarge, ErrFull.
	Set(key, value []byte, expiresAt time.Time) error
	// Delete removes key; a missing key is no error. Errors: ErrTooLarge,
	// ErrFull.
	Delete(key []byte) error
	// As declares the class of the update, before its first write, and returns the highest
	// one declared, which counts. An engine whose disk is nearly full refuses the writes of
	// low classes: Set, Delete and Update return [ErrFull].
	As(c Class) Class
	// Written returns the bytes of all keys and values written so far.
	Written() int
}

// Range is the half-open range of keys [Lo, Hi).
type Range struct {
	Lo, Hi   []byte // a nil Lo is the first key, a nil Hi is past the last
	Reverse  bool   // from the last key below Hi down to Lo
	KeysOnly bool   // the values yielded are nil
	Limit    int    // maximum number of keys; 0 means no limit
}
