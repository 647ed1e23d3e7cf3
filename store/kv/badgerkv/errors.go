package badgerkv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"tollhouse/store/kv"
)

// Errors of Open that an operator must act on. Error gives the problem, Hint the next
// step.

// DiskError means that the directory cannot be created, read or written, or that its
// filesystem is nearly full.
type DiskError struct {
	Dir    string
	Reason string
	Remedy string
	Err    error // what the system said, kv.ErrFull of a refused write, or nil
}

func (e *DiskError) Error() string {
	if e.Err != nil && e.Err != kv.ErrFull {
		return fmt.Sprintf("%s: %s: %v", e.Dir, e.Reason, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Dir, e.Reason)
}

// Hint returns the next step.
func (e *DiskError) Hint() string { return e.Remedy }

func (e *DiskError) Unwrap() error { return e.Err }

// RefusingError means that updates of some classes are refused now.
type RefusingError struct {
	err   error
	least kv.Class // of those that are not
}

func (e *RefusingError) Error() string {
	var refused []string
	for c := range e.least {
		refused = append(refused, c.String())
	}
	return fmt.Sprintf("%v; refused: %s", e.err, strings.Join(refused, ", "))
}

func (e *RefusingError) Unwrap() error { return e.err }

// Refused returns the names of the classes that are refused.
func (e *RefusingError) Refused() (names []string) {
	for c := range e.least {
		names = append(names, c.Name())
	}
	return names
}

// openRemedies are the next steps after errors of the system that say nothing about what is
// stored.
var openRemedies = []struct {
	errno  syscall.Errno
	remedy string
}{
	{syscall.EIO, "check the disk and the system's log"},
	{syscall.ENOSPC, "check the disk and the system's log"},
	{syscall.EMFILE, "raise the limit of open files (ulimit -n)"},
	{syscall.ENFILE, "raise the system's limit of open files (fs.file-max)"},
	{syscall.ENOMEM, "free some memory"},
	{syscall.EACCES, "make its files readable and writable by this user"},
}

// FilesError means that the process may open too few files for the tables.
type FilesError struct {
	Dir   string
	Limit uint64
	Need  uint64
}

func (e *FilesError) Error() string {
	return fmt.Sprintf("%s: this process may open %d files, but the store needs %d", e.Dir, e.Limit, e.Need)
}

// Hint returns the next step.
func (e *FilesError) Hint() string {
	return fmt.Sprintf("raise the limit to twice that, because the store grows: ulimit -n %[1]d, LimitNOFILE=%[1]d of systemd, or --ulimit nofile=%[1]d of docker run", 2*e.Need)
}

// openError returns the error of Open for an error of the engine, which keeps only the
// text of what the system said.
func openError(opts Options, err error) error {
	for _, c := range openRemedies {
		if errors.Is(err, c.errno) || strings.Contains(err.Error(), c.errno.Error()) {
			return &DiskError{Dir: opts.Dir, Reason: "the store cannot be opened", Remedy: c.remedy + ", then start again: acknowledged writes are kept", Err: err}
		}
	}
	return fmt.Errorf("badgerkv: open %s: %w", opts.name(), err)
}

// ClockError means that the wall clock is far from the time of the last write. If it
// is behind, expired tokens would be valid again; if it is far ahead, Badger would
// delete unexpired records.
type ClockError struct {
	Dir     string
	Wall    time.Time // what the clock says
	Stamped time.Time // when the store was last written
}

func (e *ClockError) Error() string {
	distance, direction := e.Wall.Sub(e.Stamped), "ahead of"
	if distance < 0 {
		distance, direction = -distance, "behind"
	}
	return fmt.Sprintf("%s: the wall clock says %s, %s %s the last write at %s", e.Dir,
		e.Wall.UTC().Format(time.RFC3339), distance.Round(time.Second), direction,
		e.Stamped.UTC().Format(time.RFC3339))
}

// Hint returns the next step.
func (e *ClockError) Hint() string {
	return "set the clock right and start again; if it is right, start once with --accept-clock"
}

// MovedError means that the directory of an open store, or its lock file, is no longer the
// one that was opened. The store has stopped and writes nothing more.
type MovedError struct {
	Path     string
	Replaced bool // another is in its place
}

func (e *MovedError) Error() string {
	if e.Replaced {
		return e.Path + " was replaced by another while it was in use"
	}
	return e.Path + " was moved or removed while it was in use"
}

// Hint returns the next step.
func (e *MovedError) Hint() string {
	return "start again with --data and the directory's new path: everything that was acknowledged is in it; nothing was written to another"
}

// DamageError means that tables cannot be opened.
type DamageError struct {
	Dir    string
	Tables string // their names, and what is wrong with them
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.Dir, kv.ErrCorrupt, e.Tables)
}

// Hint returns the next step.
func (e *DamageError) Hint() string { return "restore the last complete backup" }

func (e *DamageError) Unwrap() error { return kv.ErrCorrupt }

// BehindError means that the store lacks acknowledged writes: part of its write-ahead
// log is missing, or its stamp is damaged.
type BehindError struct {
	Dir     string
	Found   uint64 // the last version in the store
	Stamped uint64 // the last version acknowledged
	Damage  string // what is wrong with the stamp itself, or ""
}

func (e *BehindError) Error() string {
	if e.Damage != "" {
		return fmt.Sprintf("%s: the stamp cannot be compared with the store: %s", e.stampPath(), e.Damage)
	}
	return fmt.Sprintf("%s: the store ends at version %d, but %d was acknowledged: the last %d commits are lost",
		e.Dir, e.Found, e.Stamped, e.Stamped-e.Found)
}

// Hint returns the next step.
func (e *BehindError) Hint() string {
	return fmt.Sprintf("restore the last backup; to go on with what is left, remove %s and start again", e.stampPath())
}

func (e *BehindError) stampPath() string { return stampPath(e.Dir) }
