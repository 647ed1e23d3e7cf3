package badgerkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// place is the directory of a store. An operator may move it while the store is open
// and put another in its place. Badger makes, renames and removes files by their paths
// whenever it flushes, merges or closes. Two things keep it from writing into the other one:
//
//   - where Linux offers it, paths begin with /proc/self/fd/N, which is the open directory
//     wherever it is moved to;
//   - before each group of updates, ten times a second and before Close, the store checks whether the
//     directory is still there. If not, it stops ([MovedError]).
type place struct {
	named string   // by the operator
	path  string   // that the files have
	file  *os.File // the open directory; on some file systems its inode number holds only while it is open
}

func openPlace(dir string) (*place, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, &DiskError{Dir: dir, Reason: "the directory cannot be opened", Remedy: "check the disk and its permissions", Err: reasonOf(err)}
	}
	p := &place{named: dir, path: dir, file: file}
	if fixed := fmt.Sprintf("/proc/self/fd/%d", file.Fd()); isSame(file, fixed) {
		p.path = fixed
	}
	return p, nil
}

func (p *place) close() { _ = p.file.Close() }

// check returns a *MovedError if the operator's path leads to another directory now.
func (p *place) check() error { return CheckMoved(p.file, p.named) }

// CheckMoved returns a *MovedError if the file at path is no longer the open one, or nil.
// If the system cannot tell, nothing has been moved as far as is known.
func CheckMoved(file *os.File, path string) error {
	now, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP):
		return &MovedError{Path: path}
	case err != nil:
		return nil
	}
	if opened, err := file.Stat(); err != nil || os.SameFile(opened, now) {
		return nil
	}
	return &MovedError{Path: path, Replaced: true}
}

// isSame reports whether the directory at path is the open one, and can be used by that path.
func isSame(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path + "/.")
	return err == nil && os.SameFile(opened, now)
}

// name puts the operator's path into the text of an error.
func (p *place) name(err error) error {
	if p == nil || err == nil || p.path == p.named || !strings.Contains(err.Error(), p.path) {
		return err
	}
	return &placedError{error: err, text: p.rename(err.Error())}
}

func (p *place) rename(text string) string {
	if p == nil || p.path == p.named {
		return text
	}
	var pairs []string
	for _, end := range []string{"/", ":", `"`, " "} { // N is not the beginning of a longer number
		pairs = append(pairs, p.path+end, p.named+end)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// placedError is an error with another text.
type placedError struct {
	error
	text string
}

func (e *placedError) Error() string { return e.text }
func (e *placedError) Unwrap() error { return e.error }

// reasonOf returns err without a path.
func reasonOf(err error) error {
	if named, is := errors.AsType[*fs.PathError](err); is {
		return named.Err
	}
	return err
}

// stopIfMoved stops the store if its directory, or what Options.Moved looks at, was moved.
// Nothing is written after that.
func (db *DB) stopIfMoved() error {
	if db.place == nil {
		return nil
	}
	err := db.opts.Moved()
	if err == nil {
		err = db.place.check()
	}
	if err != nil {
		db.stopAndTell(err)
	}
	return err
}

// file returns the path of a file in the store's directory.
func (db *DB) file(name string) string { return filepath.Join(db.opts.path, name) }
