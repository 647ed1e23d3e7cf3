package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"unicode"
	"unicode/utf8"

	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
)

// The exit codes that scripts may rely on; from 65 on they are those of
// sysexits.h.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitConflict     = 4
	exitNotAllowed   = 5
	exitBadData      = 65
	exitUnreachable  = 69
	exitCannotCreate = 73
	exitIO           = 74
	exitBusy         = 75
	exitConfig       = 78
	exitInterrupted  = 130
)

// fault is why a command did not do what it was asked: what went wrong, and
// the next step.
type fault struct {
	code  int
	err   error
	hint  string
	param string // of the server's, which is at fault, or ""
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func fail(code int, hint, format string, args ...any) error {
	return &fault{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

func usage(hint, format string, args ...any) error { return fail(exitUsage, hint, format, args...) }

// report prints why a run failed and returns its exit code.
func (p *program) report(err error) int {
	if err == nil {
		return exitOK
	}
	f := asFault(err)
	fmt.Fprintf(p.stderr, "tollhouse: error: %s\n", f.err)
	if f.hint != "" {
		fmt.Fprintf(p.stderr, "tollhouse: hint: %s\n", f.hint)
	}
	return f.code
}

// asFault gives every error its exit code and next step.
func asFault(err error) *fault {
	var f *fault
	var hinted interface{ Hint() string }
	var disk *badgerkv.DiskError
	var clock *badgerkv.ClockError
	var behind *badgerkv.BehindError
	var newer *store.SchemaError
	var bad *store.InvalidError
	hint := ""
	if errors.As(err, &hinted) {
		hint = hinted.Hint()
	}
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &clock), errors.As(err, &behind):
		return &fault{code: exitConfig, err: err, hint: hint}
	case errors.As(err, &newer):
		return &fault{code: exitConfig, err: err, hint: "use the tollhouse that wrote it, or a later one"}
	case errors.As(err, &bad):
		return &fault{code: exitUsage, err: errors.New(bad.Reason), hint: bad.Hint}
	case errors.As(err, &disk), errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EIO):
		return &fault{code: exitIO, err: err, hint: hint}
	case errors.Is(err, context.Canceled):
		return &fault{code: exitInterrupted, err: errors.New("interrupted")}
	case errors.Is(err, store.ErrUnavailable):
		return &fault{code: exitBusy, err: err, hint: "try again shortly"}
	case errors.Is(err, fs.ErrPermission):
		return &fault{code: exitNotAllowed, err: err, hint: "run it as the user who owns the file"}
	}
	return &fault{code: exitFailed, err: err, hint: hint}
}

// systemReason is what the system said, without what we tried.
func systemReason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// asClause turns a sentence of the server into the middle of a line of ours.
func asClause(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	second, _ := utf8.DecodeRuneInString(sentence[size:])
	if unicode.IsUpper(first) && !unicode.IsUpper(second) {
		sentence = string(unicode.ToLower(first)) + sentence[size:]
	}
	if n := len(sentence); n > 0 && sentence[n-1] == '.' {
		sentence = sentence[:n-1]
	}
	return sentence
}

// errUnknownOutcome is the fault after which nothing more may be written.
var errUnknownOutcome = errors.New("the outcome of a write is unknown")

func fatalFault(err error) error {
	return fail(exitIO, "look at the disk and the log, then start again: what was acknowledged is there", "%w: %w", errUnknownOutcome, err)
}

func isFatal(err error) bool { return errors.Is(err, errUnknownOutcome) }
