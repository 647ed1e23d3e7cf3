package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// A data directory is closed to others and holds
//
//	LOCK        who works on it now (lock.go)
//	secret.key  the server key (serverkey.go)
//	admin.sock  the socket of the server that runs on it
//	CURRENT     the name of the generation in use
//	db-0001/    a generation: the store's own files
//	backups/    those that the server makes by itself (backup_schedule.go)
//	schema-*    backups from before a migration (migrate.go)
//
// Restoring and migrating write a new generation and then change CURRENT, so
// that the directory itself, which may be a mounted volume, is never renamed.
const (
	lockName      = "LOCK"
	keyName       = "secret.key"
	socketName    = "admin.sock"
	currentName   = "CURRENT"
	generationOne = "db-0001"
	newSuffix     = ".new" // of a file that is being written
)

// prepareDataDir makes dir, or checks that it may be used: that it is ours,
// closed to others, and not another program's. It changes nothing in a
// directory that it refuses. notOurs is the exit code when it belongs to another
// user.
func prepareDataDir(dir string, notOurs int) error {
	if !keepsData {
		return fail(exitConfig, "use Linux or macOS; tollhouse dev works here too", "tollhouse cannot keep a data directory on this system")
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return makeDataDir(dir)
	}
	if err != nil {
		return notAllowedOr(exitConfig, dir, err)
	}
	if !info.IsDir() {
		return fail(exitConfig, "name a directory with --data", "%s is not a directory", dir)
	}
	if owner, ours := ownedByUs(info); !ours {
		return fail(notOurs, fmt.Sprintf("run tollhouse as that user, or give the directory to this one: chown -R %d %s", os.Geteuid(), quoteForShell(dir)),
			"the data directory %s belongs to %s with mode %04o, and we are %s", dir, userNamed(owner), info.Mode().Perm(), userNamed(os.Geteuid()))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return notAllowedOr(exitConfig, dir, err)
	}
	if err := closeDataDir(dir, info, isEmptyDir(entries)); err != nil {
		return err
	}
	return refuseForeign(dir, entries)
}

// makeDataDir makes the directory and those above it that are missing.
func makeDataDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return fail(exitCannotCreate, "choose another place with --data", "cannot create the data directory %s: %w", dir, pathReason(err))
	}
	above, info := nearestThere(filepath.Dir(dir))
	hint := fmt.Sprintf("choose another place with --data, or make it there as a user who may: install -d -m 700 -o %d %s", os.Geteuid(), quoteForShell(dir))
	if info != nil {
		if _, ours := ownedByUs(info); ours {
			hint = "choose another place with --data, or open that one to yourself: chmod u+wx " + quoteForShell(above)
		}
	}
	return fail(exitCannotCreate, hint, "cannot create the data directory %s: %s, and we are %s: %w", dir, whose(above, info), userNamed(os.Geteuid()), pathReason(err))
}

// nearestThere returns path, or the nearest above it that can be looked at.
func nearestThere(path string) (string, fs.FileInfo) {
	for {
		info, err := os.Stat(path)
		if err == nil || path == filepath.Dir(path) {
			return path, info
		}
		path = filepath.Dir(path)
	}
}

// whose says to whom a file belongs and what its mode lets them do.
func whose(path string, info fs.FileInfo) string {
	if info == nil {
		return path + " cannot be looked at"
	}
	owner, _ := ownedByUs(info)
	return fmt.Sprintf("%s belongs to %s with mode %04o", path, userNamed(owner), info.Mode().Perm())
}

// closeDataDir closes an empty directory to others, and refuses one that was
// open to them while it held something: who knows who has read or planted what.
func closeDataDir(dir string, info fs.FileInfo, empty bool) error {
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if !empty {
		return fail(exitConfig, "close it, after a look at what is in it: chmod 700 "+quoteForShell(dir),
			"the data directory %s is open to other users (mode %04o)", dir, info.Mode().Perm())
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fail(exitConfig, "chmod 700 "+quoteForShell(dir), "cannot close the data directory to others: %w", err)
	}
	return nil
}

// isEmptyDir reports whether nothing of anybody's is there; a fresh volume has
// a lost+found.
func isEmptyDir(entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return false
		}
	}
	return true
}

// refuseForeign refuses a directory that holds something, but no CURRENT, and
// is not the remains of our own beginning.
func refuseForeign(dir string, entries []fs.DirEntry) error {
	stranger, generation := "", ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == currentName:
			return nil
		case generationForm().MatchString(name) && !isUnused(filepath.Join(dir, name)):
			generation = name
		case isOwnName(name):
		case stranger == "":
			stranger = name
		}
	}
	if stranger != "" {
		return fail(exitConfig, "name an empty directory, or one that tollhouse made, with --data",
			"%s is not a data directory: it holds %s and no %s", dir, stranger, currentName)
	}
	if generation != "" {
		// A generation is made before CURRENT names it, and filled after: by
		// another command, perhaps, since the directory was listed.
		files, err := os.ReadDir(filepath.Join(dir, generation))
		_, missing := os.Lstat(filepath.Join(dir, currentName))
		if err != nil || len(files) > 0 && missing != nil {
			return fail(exitConfig, fmt.Sprintf("if that is the one in use: echo %s > %s", generation, quoteForShell(filepath.Join(dir, currentName))),
				"%s holds %s, but %s, which says what is in use, is missing", dir, generation, currentName)
		}
	}
	return nil
}

func isOwnName(name string) bool {
	switch strings.TrimSuffix(name, newSuffix) {
	case lockName, keyName, socketName, currentName, backupsName, "lost+found":
		return true
	}
	if strings.HasPrefix(name, ".schema-") || olderBackup().MatchString(name) {
		return true
	}
	return generationForm().MatchString(strings.TrimSuffix(name, newSuffix)) // a restore that was cut short
}

// writeFile puts a small file in place, whole or not at all, on disk when it
// returns.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path+newSuffix, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
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
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// notAllowedOr is the fault for a file that the system does not let us use: it
// names the owner and mode that are in the way, who we are, and the cure.
func notAllowedOr(code int, path string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fail(code, "mount it so that it can be written to, or choose another place with --data", "%s lies on a %w", path, pathReason(err))
	case !errors.Is(err, fs.ErrPermission):
		return fail(code, "look what is there: ls -ld "+quoteForShell(path), "%s: %w", path, pathReason(err))
	}
	found, info := nearestThere(path)
	return fail(exitNotAllowed, notAllowedCure(found, info), "we may not use %s: %s, and we are %s: %w",
		path, whose(found, info), userNamed(os.Geteuid()), pathReason(err))
}

// notAllowedCure is the next step when found, which is there, is not for us.
func notAllowedCure(found string, info fs.FileInfo) string {
	if info == nil {
		return "run tollhouse as the user who owns it"
	}
	mode := fs.FileMode(0o600)
	if info.IsDir() {
		mode = 0o700
	}
	owner, ours := ownedByUs(info)
	switch {
	case !ours:
		return "run tollhouse as " + userNamed(owner) + ", who owns it, or choose another place with --data"
	case info.Mode()&mode != mode:
		return fmt.Sprintf("chmod %o %s", mode, quoteForShell(found))
	}
	return "owner and mode allow it, so something else forbids it: look at its attributes, lsattr -d " + quoteForShell(found) + ", and at the log of the system"
}

// pathReason is what the system said, without the path that we name ourselves.
func pathReason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// quoteForShell makes a path safe to paste.
func quoteForShell(path string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_./@:+-]+$`).MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
