package record

import (
	"errors"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// The store's sentinel errors. Methods wrap them with the operation; callers compare
// with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrExpired  = errors.New("has expired")
	ErrRevoked  = errors.New("has been revoked")
	ErrReplayed = errors.New("has been used before")
	ErrMismatch = errors.New("does not match")
	ErrDisabled = errors.New("is disabled")
	ErrConflict = errors.New("has changed in the meantime")
	ErrScope    = errors.New("scope is not covered by the grant")
	// ErrPrecondition means that a resource, or another record with a revision, does not meet
	// the condition of a change (RFC 9110 §13.1).
	ErrPrecondition = errors.New("precondition does not hold")
)

// Errors of the engine and the password hasher, re-exported because callers of the
// store import neither.
var (
	// ErrUnavailable means that nothing was written and a retry may succeed.
	ErrUnavailable = kv.ErrUnavailable
	// ErrFull is an ErrUnavailable: the disk is nearly full.
	ErrFull = kv.ErrFull
	// ErrAway is an ErrUnavailable: the database of the engine does not answer.
	ErrAway = kv.ErrAway
	// ErrUnknownOutcome means that the write may or may not be durable.
	ErrUnknownOutcome = kv.ErrUnknownOutcome
	// ErrCorrupt means that a stored record is damaged.
	ErrCorrupt = kv.ErrCorrupt
	// ErrBusy means that too many passwords are being hashed at the same time.
	ErrBusy = secret.ErrBusy
)

// InvalidError reports a value that cannot be stored: the field, the reason and the
// next step. Its text is for the person who sent the value.
type InvalidError struct {
	Field  string // the wire name, for example redirect_uris
	Reason string // a clause without a full stop: "redirect URI is not absolute"
	Hint   string // the next step, or ""
	Code   string // of the error on the wire, or "" for that of the endpoint
}

// Error returns the field and the reason, without the hint.
func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Reason) }

// Invalid returns an [*InvalidError]. format and args are those of [fmt.Sprintf]. The reason
// and the hint may reach anybody, so they must not contain secrets.
func Invalid(field, hint, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// Found turns the engine's ErrNotFound into the store's.
func Found(err error) error {
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// IsAbsent reports whether err means that a record does not exist.
func IsAbsent(err error) bool { return errors.Is(err, kv.ErrNotFound) || errors.Is(err, ErrNotFound) }

// GoneIsNil returns nil if [IsAbsent] holds for err, otherwise err.
func GoneIsNil(err error) error {
	if IsAbsent(err) {
		return nil
	}
	return err
}

// Damaged returns an [ErrCorrupt] that says what is wrong with a stored record.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", kv.ErrCorrupt, fmt.Sprintf(format, args...))
}

// ErrKeyShape is the [ErrCorrupt] for a stored key that does not have the form of its kind.
var ErrKeyShape = Damaged("malformed key")
