package datadir

import (
	"context"
	"errors"
	"io"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup"
)

// CheckedBackup is a backup that was checked, as --json shows it.
type CheckedBackup struct {
	File string `json:"file"`
	shownHeader
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"`
	Kinds   map[string]int64 `json:"kinds"`
	// Fixtures means that it has test fixtures of dev, so that restore refuses it.
	Fixtures bool `json:"fixtures,omitempty"`
}

// shownHeader is a backup.Header with the names that scripts know.
type shownHeader struct {
	Format   int       `json:"format"`
	Schema   uint64    `json:"schema"`
	Instance string    `json:"instance"`
	Created  time.Time `json:"created"`
	Version  string    `json:"version"`
	Key      string    `json:"key,omitempty"`
}

// ReadBackup checks a backup: its checksums, every record and every list.
func ReadBackup(ctx context.Context, in io.Reader, name string) (CheckedBackup, error) {
	b, err := store.OpenBackup(in)
	if err != nil {
		return CheckedBackup{}, BadBackup(name, err)
	}
	defer b.Close()
	totals, err := b.Check(ctx)
	if err != nil {
		return CheckedBackup{}, BadBackup(name, err)
	}
	return CheckedBackup{File: name, shownHeader: shownHeader(b.Header), Records: totals.Records, Bytes: totals.Bytes, Kinds: store.NameKinds(totals.Kinds), Fixtures: b.HasFixtures()}, nil
}

// BadBackup gives what is wrong with a backup its exit code and next step.
func BadBackup(name string, err error) error {
	var form *backup.FormatError
	var format *store.FormatError
	var fixtures *store.FixturesError
	var ours *term.Failure
	switch {
	case errors.As(err, &ours):
		return err
	case errors.As(err, &form):
		return term.Fail(term.ExitBadData, form.Hint(), "%s: %w", name, form)
	case errors.As(err, &format):
		return term.Fail(term.ExitBadData, format.Hint(), "%s: %w", name, format)
	case errors.As(err, &fixtures):
		return term.Fail(term.ExitBadData, fixtures.Hint(), "%s: %w", name, fixtures)
	case errors.Is(err, backup.ErrForeign):
		return term.Fail(term.ExitBadData, "name a backup file of tollhouse", "%s: %w", name, err)
	case errors.Is(err, backup.ErrTruncated), errors.Is(err, backup.ErrDamaged):
		return term.Fail(term.ExitBadData, "copy it again from where it was made, or use another one", "%s: %w", name, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return term.Fail(term.ExitIO, "", "%s: %w", name, term.PathReason(err))
}

// BrokenBackup gives an incomplete backup its exit code and next step.
func BrokenBackup(err error) error {
	if errors.Is(err, backup.ErrTruncated) || errors.Is(err, backup.ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF) {
		return term.Fail(term.ExitIO, "check the server's log, then back up again", "the backup stopped early and is incomplete: %w", errors.Unwrap(err))
	}
	return err
}

// PacedReader leaves the processors to a server while a backup is checked. Before
// each read it rests Rest times as long as the caller worked on the last one.
type PacedReader struct {
	Ctx  context.Context
	R    io.Reader
	Rest int
	last time.Time // when the last Read returned
}

const (
	RestBesidePeople = 3 // while a person waits: a fourth of a processor
	RestAlone        = 9 // while nobody does: a tenth, as the engine's own reading takes
	gentleTurnMax    = 80 * time.Millisecond
)

// Read rests before it reads.
func (g *PacedReader) Read(b []byte) (int, error) {
	if !g.last.IsZero() {
		if err := term.Sleep(g.Ctx, time.Duration(g.Rest)*min(time.Since(g.last), gentleTurnMax)); err != nil {
			return 0, err
		}
	}
	n, err := g.R.Read(b)
	g.last = time.Now()
	return n, err
}
