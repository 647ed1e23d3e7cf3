// Package datadir keeps the data directory: which files it holds, who may use it,
// and who holds its lock.
//
// A server or a command calls [Prepare] and [TryLock], finds the generation in use
// with [CurrentStore] and opens it with [Open]. A process without the lock talks to
// the holder over the admin socket ([SocketTransport], [ListenAdmin]). Files that
// belong here are written beside their name, synced and then renamed.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tollhouse/cli/term"
)

// A data directory is closed to others and holds
//
//	LOCK        who works on it now (lock.go)
//	secret.key  the server key (serverkey.go)
//	admin.sock  the socket of the server that runs on it
//	CURRENT     the name of the generation in use
//	db-0001/    a generation: the store's own files
//	backups/    those that the server makes by itself (cli/server/backup_schedule.go)
//
// A restore writes a new generation and then changes CURRENT, so that the directory
// itself, which may be a mounted volume, is never renamed.
const (
	LockName      = "LOCK"
	KeyName       = "secret.key"
	SocketName    = "admin.sock"
	CurrentName   = "CURRENT"
	GenerationOne = "db-0001"
	BackupsName   = "backups" // of those that the server makes by itself
	NewSuffix     = ".new"    // of a file that is being written
)

// Prepare creates dir, or checks that it is ours, closed to others and not another
// program's. It changes nothing in a directory that it refuses. notOurs is the exit
// code when dir belongs to another user.
func Prepare(dir string, notOurs int) error {
	if !keepsData {
		return term.Fail(term.ExitConfig, "use Linux or macOS; only tollhouse dev works here", "tollhouse cannot keep a data directory on this system")
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return makeDataDir(dir)
	}
	if err != nil {
		return NotAllowedOr(term.ExitConfig, dir, err)
	}
	if !info.IsDir() {
		return term.Fail(term.ExitConfig, "name a directory with --data", "%s is not a directory", dir)
	}
	if owner, ours := OwnedByUs(info); !ours {
		return term.Fail(notOurs, fmt.Sprintf("run tollhouse as that user, or give the directory to this one: chown -R %d %s", os.Geteuid(), term.ShellQuote(dir)),
			"the data directory %s belongs to %s with mode %04o, but this process runs as %s", dir, UserNamed(owner), info.Mode().Perm(), UserNamed(os.Geteuid()))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return NotAllowedOr(term.ExitConfig, dir, err)
	}
	if err := closeDataDir(dir, info, isEmptyDir(entries)); err != nil {
		return err
	}
	return refuseForeign(dir, entries)
}

// makeDataDir creates the directory and its missing parents.
func makeDataDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return term.Fail(term.ExitCannotCreate, "choose another directory with --data", "cannot create the data directory %s: %w", dir, term.PathReason(err))
	}
	above, info := NearestThere(filepath.Dir(dir))
	hint := fmt.Sprintf("choose another directory with --data, or create it as a user with permission: install -d -m 700 -o %d %s", os.Geteuid(), term.ShellQuote(dir))
	if info != nil {
		if _, ours := OwnedByUs(info); ours {
			hint = "choose another directory with --data, or give yourself access: chmod u+wx " + term.ShellQuote(above)
		}
	}
	return term.Fail(term.ExitCannotCreate, hint, "cannot create the data directory %s: %s, but this process runs as %s: %w", dir, whose(above, info), UserNamed(os.Geteuid()), term.PathReason(err))
}

// NearestThere returns path, or the nearest above it that can be looked at.
func NearestThere(path string) (string, fs.FileInfo) {
	for {
		info, err := os.Stat(path)
		if err == nil || path == filepath.Dir(path) {
			return path, info
		}
		path = filepath.Dir(path)
	}
}

// whose describes the owner and mode of a file.
func whose(path string, info fs.FileInfo) string {
	if info == nil {
		return path + " cannot be examined"
	}
	owner, _ := OwnedByUs(info)
	return fmt.Sprintf("%s belongs to %s with mode %04o", path, UserNamed(owner), info.Mode().Perm())
}

// closeDataDir closes an empty directory to others. It refuses one with content:
// others may have read or planted files.
func closeDataDir(dir string, info fs.FileInfo, empty bool) error {
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if !empty {
		return term.Fail(term.ExitConfig, "check its contents, then close it: chmod 700 "+term.ShellQuote(dir),
			"the data directory %s is open to other users (mode %04o)", dir, info.Mode().Perm())
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return term.Fail(term.ExitConfig, "chmod 700 "+term.ShellQuote(dir), "cannot close the data directory to others: %w", err)
	}
	return nil
}

// isEmptyDir ignores lost+found, which a fresh volume has.
func isEmptyDir(entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return false
		}
	}
	return true
}

// refuseForeign refuses a directory with content and without CURRENT, unless the
// content is ours, from a start that was interrupted.
func refuseForeign(dir string, entries []fs.DirEntry) error {
	stranger, generation := "", ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == CurrentName:
			return nil
		case GenerationForm.MatchString(name) && !IsUnused(filepath.Join(dir, name)):
			generation = name
		case isOwnName(name):
		case stranger == "":
			stranger = name
		}
	}
	if stranger != "" {
		return term.Fail(term.ExitConfig, "name an empty directory, or one that tollhouse made, with --data",
			"%s is not a data directory: it contains %s but no %s", dir, stranger, CurrentName)
	}
	if generation != "" {
		// A generation is made before CURRENT names it, and filled after: by
		// another command, perhaps, since the directory was listed.
		files, err := os.ReadDir(filepath.Join(dir, generation))
		_, missing := os.Lstat(filepath.Join(dir, CurrentName))
		if err != nil || len(files) > 0 && missing != nil {
			return term.Fail(term.ExitConfig, fmt.Sprintf("if that is the one in use: echo %s > %s", generation, term.ShellQuote(filepath.Join(dir, CurrentName))),
				"%s contains %s, but %s, which names the generation in use, is missing", dir, generation, CurrentName)
		}
	}
	return nil
}

func isOwnName(name string) bool {
	switch strings.TrimSuffix(name, NewSuffix) {
	case LockName, KeyName, SocketName, CurrentName, BackupsName, "lost+found":
		return true
	}
	return GenerationForm.MatchString(strings.TrimSuffix(name, NewSuffix)) // a restore that was cut short
}

// WriteFile puts a small file in place, whole or not at all, on disk when it
// returns.
func WriteFile(path string, content []byte) error {
	f, err := os.OpenFile(path+NewSuffix, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir syncs the names in a directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// NotAllowedOr is the failure for a file that the system does not let us use. It
// names the owner and mode of the file, our own user, and the next step.
func NotAllowedOr(code int, path string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return term.Fail(code, "mount it writable, or choose another directory with --data", "%s is on a %w", path, term.PathReason(err))
	case !errors.Is(err, fs.ErrPermission):
		return term.Fail(code, "check the path: ls -ld "+term.ShellQuote(path), "%s: %w", path, term.PathReason(err))
	}
	found, info := NearestThere(path)
	return term.Fail(term.ExitNotAllowed, notAllowedCure(found, info), "no permission to use %s: %s, but this process runs as %s: %w",
		path, whose(found, info), UserNamed(os.Geteuid()), term.PathReason(err))
}

// notAllowedCure is the next step when found exists but is not accessible.
func notAllowedCure(found string, info fs.FileInfo) string {
	if info == nil {
		return "run tollhouse as the user who owns it"
	}
	mode := fs.FileMode(0o600)
	if info.IsDir() {
		mode = 0o700
	}
	owner, ours := OwnedByUs(info)
	switch {
	case !ours:
		return "run tollhouse as " + UserNamed(owner) + ", who owns it, or choose another directory with --data"
	case info.Mode()&mode != mode:
		return fmt.Sprintf("chmod %o %s", mode, term.ShellQuote(found))
	}
	return "owner and mode allow it, so something else forbids it: check its attributes (lsattr -d " + term.ShellQuote(found) + ") and the system log"
}

// IsEmpty reports whether dir is missing or empty.
func IsEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && isEmptyDir(entries)
}
