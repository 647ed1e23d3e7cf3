package term

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
)

// The exit codes. From 65 on they are those of sysexits.h. What time can cure gets ExitBusy or
// ExitIO: after ExitUsage, ExitNotAllowed, ExitBadData, ExitCannotCreate and ExitConfig the
// unit does not start a server again.
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
	var moved *badgerkv.MovedError
	var files *badgerkv.FilesError
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
	case errors.As(err, &clock), errors.As(err, &refused) && refused.Passing:
		return &Failure{Code: ExitBusy, Err: err, Hint: hint}
	case errors.As(err, &behind), errors.As(err, &files), errors.Is(err, badgerkv.ErrUnsafe), errors.As(err, &refused), errors.As(err, &format), errors.As(err, &fixtures):
		return &Failure{Code: ExitConfig, Err: err, Hint: hint}
	case errors.As(err, &bad):
		return &Failure{Code: ExitUsage, Err: errors.New(bad.Reason), Hint: bad.Hint}
	case errors.As(err, &disk), errors.As(err, &moved), errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrUnknownOutcome), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EIO):
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

// UnreadableCode returns the exit code of a server for a file that a setting names and that
// cannot be read: ExitBusy if it does not exist, because another program may write it later.
func UnreadableCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return ExitBusy
	}
	return ExitConfig
}

// errUnknownOutcome means that the process must write nothing more.
var errUnknownOutcome = errors.New("the outcome of a write is unknown")

// Fatal reports a write whose outcome is unknown, or a store that was moved. After it the
// process must write nothing more.
func Fatal(err error) error {
	if moved, is := errors.AsType[*badgerkv.MovedError](err); is {
		return Fail(ExitIO, moved.Hint(), "%w", moved)
	}
	return Fail(ExitIO, "check the disk and the log, then start again: acknowledged writes are kept", "%w: %w", errUnknownOutcome, err)
}

// errOverdue means that a part of the process hangs, so that it must exit as it is.
var errOverdue = errors.New("the server did not stop")

// Overdue reports a stop that did not finish within a time.
func Overdue(within time.Duration) error {
	return Fail(ExitIO, "check the disk and the system log, then start again: acknowledged writes are kept", "%w within %s", errOverdue, within)
}

// IsFatal reports whether after err the process must write nothing more.
func IsFatal(err error) bool {
	_, moved := errors.AsType[*badgerkv.MovedError](err)
	return moved || errors.Is(err, errUnknownOutcome) || errors.Is(err, errOverdue)
}

// SystemReason returns the error number in err, or err itself.
func SystemReason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// PathReason returns err without its path, for messages that name the path. A dangling
// symbolic link is named: to a person its file seems to exist.
func PathReason(err error) error {
	var pathErr *fs.PathError
	if !errors.As(err, &pathErr) {
		return err
	}
	if link, to := DanglingLink(pathErr.Path); link != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is a symbolic link to %s: %w", link, to, pathErr.Err)
	}
	return pathErr.Err
}

// Missing says that a file does not exist. A dangling symbolic link is named.
func Missing(path string) string {
	if link, to := DanglingLink(path); link != "" {
		return "does not exist: " + link + " is a symbolic link to " + to
	}
	return "does not exist"
}

// DanglingLink returns the dangling symbolic link that path is or leads through, and its
// target, or "".
func DanglingLink(path string) (link, target string) {
	for ; ; path = filepath.Dir(path) {
		if to, err := os.Readlink(path); err == nil {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return path, to
			}
			return "", ""
		}
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			return "", ""
		}
	}
}
