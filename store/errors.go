package store

import (
	"errors"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// The refusals of the store. Methods wrap them with the operation; callers
// compare with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrExpired  = errors.New("has expired")
	ErrRevoked  = errors.New("has been revoked")
	ErrReplayed = errors.New("has been used before")
	ErrMismatch = errors.New("does not match")
	ErrDisabled = errors.New("is disabled")
	ErrConflict = errors.New("has changed meanwhile")
	ErrScope    = errors.New("scope is not covered by the grant")
)

// What the engine and the hasher report, under the store's name, since callers
// above do not know them.
var (
	// ErrUnavailable says that nothing was written and a later try may succeed.
	ErrUnavailable = kv.ErrUnavailable
	// ErrUnknownOutcome says that nobody can tell whether the write will stand.
	ErrUnknownOutcome = kv.ErrUnknownOutcome
	// ErrCorrupt says that a stored record is damaged.
	ErrCorrupt = kv.ErrCorrupt
	// ErrBusy says that too many passwords are being checked at once.
	ErrBusy = secret.ErrBusy
)

// InvalidError says that a value may not be stored: which field, why, and what
// to do about it. Its text is for the person who sent the value.
type InvalidError struct {
	Field  string // the wire name, for example redirect_uris
	Reason string // a sentence without its full stop: "redirect URI is not absolute"
	Hint   string // the next step, or ""
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Reason) }

func invalid(field, hint, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...), Hint: hint}
}
