package datadir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tollhouse/cli/term"
	"tollhouse/store/backup/encryption"
)

// BackupFile is a file that gets its name when it is complete. Only its owner can
// open it.
type BackupFile struct {
	*os.File
	named string // what it is to be
	note  BackupNote
	was   CheckedBackup // encrypted

	ThenDue bool // a program is to run after the backup, so that it has a note
}

// NewBackupFile creates the file next to name.
func NewBackupFile(name string) (*BackupFile, error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*"+NewSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, term.Fail(term.ExitNotFound, "create the directory first: mkdir -p "+term.ShellQuote(dir), "the directory %s for the file does not exist", dir)
	case err != nil:
		return nil, NotAllowedOr(term.ExitIO, dir, err)
	}
	return &BackupFile{File: f, named: name}, nil
}

// Fill syncs what write writes to the file, and seeks back to the beginning.
func (f *BackupFile) Fill(write func(io.Writer) error) error {
	if err := write(DiskWriter{f.File, f.named}); err != nil {
		var broken *term.Failure
		if errors.As(err, &broken) {
			return err
		}
		return term.Fail(term.ExitIO, "check the server's log, then back up again", "the backup stopped early: %w", err)
	}
	err := f.Sync()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return writeError(f.named, err)
}

// Take fills the file with the backup that write writes, encrypted if there are recipients.
func (f *BackupFile) Take(ctx context.Context, to *encryption.Recipients, write func(io.Writer) error) error {
	if to == nil {
		return f.Fill(write)
	}
	return f.Fill(func(w io.Writer) (err error) {
		sum := newSum(ctx)
		f.was, err = EncryptBackup(ctx, io.MultiWriter(w, sum), to, f.named, write)
		f.note = noteOf(f.was, sum)
		return err
	})
}

func noteOf(b CheckedBackup, sum *fileSum) BackupNote {
	return BackupNote{Encrypted: b.Encrypted, SHA256: sum.text(), Bytes: sum.bytes, Instance: b.Instance, Created: b.Created, Records: b.Records}
}

// Check checks what Take wrote: in reads the file from its beginning.
func (f *BackupFile) Check(ctx context.Context, in io.Reader) (CheckedBackup, error) {
	sum := newSum(ctx)
	if !f.note.Encrypted {
		checked, err := ReadBackup(ctx, io.TeeReader(in, sum), f.named, nil)
		f.note = noteOf(checked, sum)
		return checked, err
	}
	if _, err := io.Copy(sum, in); err != nil {
		return CheckedBackup{}, BadBackup(f.named, err)
	}
	if sum.text() != f.note.SHA256 {
		return CheckedBackup{}, term.Fail(term.ExitIO, "check the disk", "%s: what was read back differs from what was written", f.named)
	}
	return f.was, nil
}

// Size returns the size of the file, which is whole.
func (f *BackupFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, writeError(f.named, err)
	}
	return info.Size(), nil
}

// Publish gives the file its name, and an encrypted backup its note. The note is first: an
// encrypted backup without one is nobody's.
func (f *BackupFile) Publish() error {
	if f.ThenDue {
		f.note.Then = ThenDue
	}
	if f.note.Encrypted || f.ThenDue {
		if err := f.note.write(f.named); err != nil {
			return err
		}
	}
	err := os.Rename(f.Name(), f.named)
	if err == nil {
		err = SyncDir(filepath.Dir(f.named))
	}
	return writeError(f.named, err)
}

// Discard closes the file, and removes it unless it has its name.
func (f *BackupFile) Discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// DiskWriter separates an error of the disk from an error of the source.
type DiskWriter struct {
	W    io.Writer
	Name string
}

// Write writes to W, and names the file in an error.
func (w DiskWriter) Write(b []byte) (int, error) {
	n, err := w.W.Write(b)
	return n, writeError(w.Name, err)
}

func writeError(name string, err error) error {
	if err == nil {
		return nil
	}
	return term.Fail(term.ExitIO, "free some space there, or name a file elsewhere; nothing was changed", "cannot write %s: %w", name, term.SystemReason(err))
}
