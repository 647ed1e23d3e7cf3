package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// unnamedFile is a file that gets its name when it is whole. It is closed to
// others from the beginning: what is in a backup is for nobody else.
type unnamedFile struct {
	*os.File
	named string // what it is to be
}

func newUnnamedFile(name string) (*unnamedFile, error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*"+newSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail(exitIO, "make the directory first: mkdir -p "+quoteForShell(dir), "there is no directory %s for the backup", dir)
	case err != nil:
		return nil, notAllowedOr(exitIO, dir, err)
	}
	return &unnamedFile{File: f, named: name}, nil
}

// fill copies r into the file, on disk when it returns, and goes back to the
// beginning.
func (f *unnamedFile) fill(r io.Reader) error {
	if _, err := io.Copy(writeFaults{f.File, f.named}, r); err != nil {
		var broken *fault
		if errors.As(err, &broken) {
			return err
		}
		return fail(exitIO, "look at the server's log, then back up again", "the backup broke off: %w", err)
	}
	return f.rewind()
}

// rewind puts what was written on disk, and goes back to the beginning.
func (f *unnamedFile) rewind() error {
	err := f.Sync()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return writeFault(f.named, err)
}

// tell describes the backup in the file, which was found whole.
func (f *unnamedFile) tell(checked backupShown) (backupTold, error) {
	info, err := f.Stat()
	if err != nil {
		return backupTold{}, writeFault(f.named, err)
	}
	path, err := filepath.Abs(f.named)
	return backupTold{File: path, Created: checked.Created, Bytes: info.Size(), Records: checked.Records}, err
}

// name gives the file its name.
func (f *unnamedFile) name() error {
	err := os.Rename(f.Name(), f.named)
	if err == nil {
		err = syncDir(filepath.Dir(f.named))
	}
	return writeFault(f.named, err)
}

// discard closes the file, and removes it unless it has its name.
func (f *unnamedFile) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// writeFaults tells an error of the disk from one of what is copied to it.
type writeFaults struct {
	w    io.Writer
	name string
}

func (w writeFaults) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	return n, writeFault(w.name, err)
}

func writeFault(name string, err error) error {
	if err == nil {
		return nil
	}
	return fail(exitIO, "make room there, or name a file elsewhere; nothing was changed", "cannot write %s: %w", name, systemReason(err))
}
