package datadir

import (
	"context"
	"errors"
	"io"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/backup/encryption"
)

// CheckedBackup is a backup that was checked, as --json shows it.
type CheckedBackup struct {
	File string `json:"file"`
	shownHeader
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"`
	Kinds   map[string]int64 `json:"kinds"`
	// Fixtures means that it has test fixtures of dev, so that restore refuses it.
	Fixtures  bool `json:"fixtures,omitempty"`
	Encrypted bool `json:"encrypted,omitempty"`
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

// OpenBackup reads the header of a backup, plain or encrypted, and reports which it is. Close
// it when done.
func OpenBackup(in io.Reader, name string, with encryption.Identities) (b *store.BackupFile, encrypted bool, err error) {
	form, plain := encryption.Peek(in)
	if form == encryption.Plain {
		if b, err = store.OpenBackup(plain); err != nil {
			return nil, false, BadBackup(name, err)
		}
		return b, false, nil
	}
	if len(with) == 0 {
		return nil, true, term.Usage("add --identity FILE with the secret key of a recipient; tollhouse backup verify --sealed checks the file without one", "%s is encrypted", name)
	}
	decrypted, err := encryption.NewReader(plain, form, with)
	if err == nil {
		b, err = store.OpenBackup(decrypted)
	}
	if err != nil {
		return nil, true, BadBackup(name, err)
	}
	return b, true, nil
}

// ReadBackup checks a backup: its checksums, every record and every list.
func ReadBackup(ctx context.Context, in io.Reader, name string, with encryption.Identities) (CheckedBackup, error) {
	b, encrypted, err := OpenBackup(in, name, with)
	if err != nil {
		return CheckedBackup{}, err
	}
	defer b.Close()
	totals, err := b.Check(ctx)
	if err != nil {
		return CheckedBackup{}, BadBackup(name, err)
	}
	return CheckedBackup{File: name, shownHeader: shownHeader(b.Header), Records: totals.Records, Bytes: totals.Bytes, Kinds: store.NameKinds(totals.Kinds), Fixtures: b.HasFixtures(), Encrypted: encrypted}, nil
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
	case errors.Is(err, encryption.ErrNoIdentity):
		return term.Fail(term.ExitNotAllowed, "give --identity FILE with the secret key of one of its recipients", "%s: %w", name, err)
	case errors.Is(err, encryption.ErrPassphrase):
		return term.Fail(term.ExitBadData, "decrypt it on the way: age -d FILE | tollhouse … -", "%s: %w", name, err)
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
