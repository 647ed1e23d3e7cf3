// Package datadir keeps the data directory: which files it holds, who may use it,
// and who holds its lock.
//
// A server or a command calls [Prepare] and [TryLock], finds the generation in use
// with [CurrentStore] and opens it with [Open]. A process without the lock talks to
// the holder over the admin socket ([SocketTransport], [ListenAdmin]). Files that
// belong here are written under a temporary name, synced and then renamed.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"tollhouse/cli/term"
	"tollhouse/store/kv/badgerkv"
)

// A data directory is closed to others and holds
//
//	LOCK        who works on it now (lock.go)
//	secret.key  the server key (key.go)
//	admin.sock  the socket of the server that runs on it
//	CURRENT     the name of the generation in use
//	db-0001/    a generation: the store's own files, and KEY (key.go)
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

// Prepare creates dir, or checks that it is ours and not another program's, and closes it to
// others, with a warning unless it is empty. It changes nothing in a directory that belongs to
// another user or program. notOurs is the exit code when it belongs to another user. The
// data directory that it returns is dir, or one below it; see [Locate].
func Prepare(dir string, notOurs int, log *slog.Logger) (string, error) {
	if err := CanKeepData(); err != nil {
		return "", err
	}
	dir = Locate(dir)
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := CheckLink(dir); err != nil {
			return "", err
		}
		return dir, makeDataDir(dir)
	}
	if err != nil {
		return "", NotAllowedOr(term.ExitConfig, dir, err)
	}
	if !info.IsDir() {
		return "", term.Fail(term.ExitConfig, "name a directory with --data", "%s is not a directory", dir)
	}
	if err := CheckOurs(dir); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if owner, ours := OwnedByUs(info); !ours {
		if err == nil && isEmptyDir(entries) {
			if own, made := makeOwn(dir, info, log); made {
				return own, nil
			}
		}
		hint := "run tollhouse as that user"
		if err == nil {
			hint += fmt.Sprintf(", or give the directory to this one: chown -R %d %s", os.Geteuid(), term.ShellQuote(dir))
		}
		return "", term.Fail(notOurs, hint, "the data directory %s belongs to %s with mode %04o, but this process runs as %s", dir, UserNamed(owner), info.Mode().Perm(), UserNamed(os.Geteuid()))
	}
	if err != nil {
		return "", NotAllowedOr(term.ExitConfig, dir, err)
	}
	return dir, closeDataDir(dir, info, log)
}

// CheckLink refuses a path that leads through a dangling symbolic link, such as one to a
// disk that is not mounted.
func CheckLink(path string) error {
	link, to := term.DanglingLink(path)
	if link == "" {
		return nil
	}
	return term.Fail(term.ExitBusy, "mount or create what it points to, or name another directory with --data", "%s is a symbolic link to %s, which does not exist", link, to)
}

// CanKeepData returns why this build keeps no data directory, or nil.
func CanKeepData() error {
	switch {
	case !keepsData:
		return term.Fail(term.ExitConfig, "use Linux or macOS; only tollhouse dev works here", "tollhouse cannot keep a data directory on this system")
	case !badgerkv.IsSafe:
		return term.Fail(term.ExitConfig, "use a 64-bit build; tollhouse dev, and serve --store with a PostgreSQL database, work here", "%w", badgerkv.ErrUnsafe)
	}
	return nil
}

// makeDataDir creates the directory and its missing parents.
func makeDataDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return term.Fail(passingCode(term.ExitCannotCreate, err), "choose another directory with --data", "cannot create the data directory %s: %w", dir, term.PathReason(err))
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

// NearestThere returns path, or the nearest directory above it that can be examined.
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

// WriteFile writes a small file atomically. The file is on disk when WriteFile
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
		return term.Fail(passingCode(code, err), "check the path: ls -ld "+term.ShellQuote(path), "%s: %w", path, term.PathReason(err))
	}
	found, info := NearestThere(path)
	return term.Fail(term.ExitNotAllowed, notAllowedCure(found, info), "no permission to use %s: %s, but this process runs as %s: %w",
		path, whose(found, info), UserNamed(os.Geteuid()), term.PathReason(err))
}

// passingCode returns code, or [term.ExitIO] for an error that may pass: a full or broken
// disk, or an unreachable one on the network.
func passingCode(code int, err error) int {
	for _, passes := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.ESTALE, syscall.ENOTCONN, syscall.ETIMEDOUT} {
		if errors.Is(err, passes) {
			return term.ExitIO
		}
	}
	return code
}

// notAllowedCure is the next step when found exists but is not accessible.
func notAllowedCure(found string, info fs.FileInfo) string {
	if info == nil {
		return "run tollhouse as the user who owns it"
	}
	mode, give := fs.FileMode(0o600), "u+rw"
	if info.IsDir() {
		mode, give = 0o700, "u+rwx"
	}
	owner, ours := OwnedByUs(info)
	switch {
	case !ours && !info.IsDir(): // of a backup or an import, perhaps
		return "run tollhouse as " + UserNamed(owner) + ", who owns it"
	case !ours:
		return "run tollhouse as " + UserNamed(owner) + ", who owns it, or choose another directory with --data"
	case info.Mode()&mode != mode:
		return "chmod " + give + " " + term.ShellQuote(found)
	}
	return "owner and mode allow it, so something else forbids it: check its attributes (lsattr -d " + term.ShellQuote(found) + ") and the system log"
}

// IsEmpty reports whether dir is missing or empty.
func IsEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && isEmptyDir(entries)
}
