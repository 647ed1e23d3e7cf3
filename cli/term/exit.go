package term

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
)

// The exit codes. From 65 on they are those of sysexits.h.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitNotFound     = 3
	ExitConflict     = 4
	ExitNotAllowed   = 5
	ExitBadData      = 65
	ExitUnreachable  = 69
	ExitCannotCreate = 73
	ExitIO           = 74
	ExitBusy         = 75
	ExitConfig       = 78
	ExitInterrupted  = 130
)

// Failure is why a command failed: the reason, the next step and the exit code.
type Failure struct {
	Code  int
	Err   error
	Hint  string
	Param string // the request parameter that the server refused, or ""
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Fail returns a [Failure]. format and args are those of [fmt.Errorf].
func Fail(code int, hint, format string, args ...any) error {
	return &Failure{Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Usage is Fail with [ExitUsage].
func Usage(hint, format string, args ...any) error { return Fail(ExitUsage, hint, format, args...) }

// FailureOf returns the exit code and the next step of any error.
func FailureOf(err error) *Failure {
	var f *Failure
	var hinted interface{ Hint() string }
	var disk *badgerkv.DiskError
	var clock *badgerkv.ClockError
	var behind *badgerkv.BehindError
	var refused *pgkv.RefusedError
	var format *store.FormatError
	var fixtures *store.FixturesError
	var bad *record.InvalidError
	hint := ""
	if errors.As(err, &hinted) {
		hint = hinted.Hint()
	}
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &clock), errors.As(err, &behind), errors.As(err, &refused), errors.As(err, &format), errors.As(err, &fixtures):
		return &Failure{Code: ExitConfig, Err: err, Hint: hint}
	case errors.As(err, &bad):
		return &Failure{Code: ExitUsage, Err: errors.New(bad.Reason), Hint: bad.Hint}
	case errors.As(err, &disk), errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrUnknownOutcome), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EIO):
		return &Failure{Code: ExitIO, Err: err, Hint: hint}
	case errors.Is(err, context.Canceled):
		return &Failure{Code: ExitInterrupted, Err: errors.New("interrupted")}
	case errors.Is(err, record.ErrUnavailable):
		return &Failure{Code: ExitBusy, Err: err, Hint: "try again shortly"}
	case errors.Is(err, fs.ErrPermission):
		return &Failure{Code: ExitNotAllowed, Err: err, Hint: "run it as the user who owns the file"}
	}
	return &Failure{Code: ExitFailed, Err: err, Hint: hint}
}

// errUnknownOutcome means that the process must write nothing more.
var errUnknownOutcome = errors.New("the outcome of a write is unknown")

// Fatal reports a write whose outcome is unknown. After it the process must write
// nothing more.
func Fatal(err error) error {
	return Fail(ExitIO, "check the disk and the log, then start again: acknowledged writes are kept", "%w: %w", errUnknownOutcome, err)
}

// IsFatal reports whether err comes from [Fatal].
func IsFatal(err error) bool { return errors.Is(err, errUnknownOutcome) }

// SystemReason returns the error number in err, or err itself.
func SystemReason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// PathReason returns err without its path, for messages that name the path.
func PathReason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
