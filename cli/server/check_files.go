package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// filesNamed is how many files a finding names.
const filesNamed = 3

// CheckFiles checks the mode and owner of every file in the data directory.
func CheckFiles(dir string) admin.Finding {
	const check = "files"
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target // an operator may link to the data directory
	}
	top, err := os.Stat(dir)
	if err != nil {
		return problemFrom(check, "", datadir.NotAllowedOr(term.ExitIO, dir, err))
	}
	owner, _ := datadir.OwnedByUs(top)
	var open, others, odd []string
	files := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed in the meantime
		}
		if err != nil {
			return datadir.NotAllowedOr(term.ExitIO, path, err)
		}
		if e.Name() == "lost+found" && e.IsDir() {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		files++
		if isCheckNote(e.Name()) && info.Mode().IsRegular() && info.Mode().Perm()&0o022 == 0 {
			return nil // root's too, for the server to read
		}
		switch uid, _ := datadir.OwnedByUs(info); {
		case info.Mode()&fs.ModeSymlink != 0:
			odd = append(odd, path+" is a symbolic link")
		case uid != owner:
			others = append(others, path+" belongs to "+datadir.UserNamed(uid))
		case info.Mode().Perm()&0o077 != 0:
			open = append(open, fmt.Sprintf("%s has mode %04o", path, info.Mode().Perm()))
		}
		return nil
	})
	switch {
	case err != nil:
		return problemFrom(check, "", err)
	case len(others) > 0:
		return problemOf(check, fmt.Sprintf("chown -R %d %s", owner, term.ShellQuote(dir)), "some files do not belong to %s: %s", datadir.UserNamed(owner), nameFiles(others))
	case len(open) > 0:
		return problemOf(check, "chmod -R go= "+term.ShellQuote(dir)+", after checking who may have read or changed them", "accessible to other users: %s", nameFiles(open))
	case len(odd) > 0:
		return warningOf(check, "check where it points, and replace it with the file itself", "%s", nameFiles(odd))
	}
	return allRight(check, "%s owned by %s, not accessible to other users", term.Count(int64(files), "file", "files"), datadir.UserNamed(owner))
}

// CheckSharedFiles checks the modes of the files that give access to a database and its tokens. A
// group may read them, as docs/operations.md has it. A missing file is not its concern.
func CheckSharedFiles(paths ...string) admin.Finding {
	const check = "files"
	var open, fix []string
	files := 0
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == "" || err != nil {
			continue
		}
		files++
		if mode := info.Mode().Perm(); mode&0o027 != 0 {
			open, fix = append(open, fmt.Sprintf("%s has mode %04o", path, mode)), append(fix, term.ShellQuote(path))
		}
	}
	if len(open) > 0 {
		return problemOf(check, "chmod 640 "+strings.Join(fix, " ")+", after checking who may have read or changed them", "accessible to other users: %s", nameFiles(open))
	}
	return allRight(check, "%s with passwords or keys, not accessible to other users", term.Count(int64(files), "file", "files"))
}

// isCheckNote reports whether a file says what a check of a scheduled backup found.
func isCheckNote(name string) bool {
	backup, is := strings.CutSuffix(name, datadir.CheckedSuffix)
	return is && datadir.ScheduledName.MatchString(backup)
}

func nameFiles(found []string) string {
	text := strings.Join(found[:min(len(found), filesNamed)], ", ")
	if more := len(found) - filesNamed; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// CheckSharedKey compares the server key in keyFile, if that is not "", with the one whose
// fingerprint the servers of a database agreed on.
func CheckSharedKey(keyFile, agreed string, log *slog.Logger) admin.Finding {
	const check = "key"
	switch {
	case agreed == "":
		return allRight(check, "no server has run on the database yet")
	case keyFile == "":
		return allRight(check, "the servers have the fingerprint %s; --key-file compares a file with it", agreed)
	}
	key, err := datadir.ReadKey(keyFile, true, log)
	switch {
	case err != nil:
		return problemFrom(check, "", err)
	case key.Fingerprint() != agreed:
		return problemOf(check, "copy the servers' key file to this machine", "%s has the fingerprint %s, but the servers have %s", keyFile, key.Fingerprint(), agreed)
	}
	return allRight(check, "fingerprint %s, as on all servers", agreed)
}

// CheckKey checks the server key of dir, or the one in keyFile if that is not "".
func CheckKey(dir, keyFile string, log *slog.Logger) admin.Finding {
	const check = "key"
	path := keyFile
	if path == "" {
		path = filepath.Join(dir, datadir.KeyName)
	}
	wanted, err := wantedKey(dir)
	if err != nil {
		return problemFrom(check, "", err)
	}
	key, err := datadir.ReadKey(path, keyFile != "", log)
	switch {
	case errors.Is(err, fs.ErrNotExist) && keyFile == "" && wanted != "":
		return problemOf(check, "put your copy back; without one the next start creates a new key: "+datadir.LostWithKey, "the server key %s is missing; the data was written with fingerprint %s", path, wanted)
	case errors.Is(err, fs.ErrNotExist) && keyFile == "":
		return problemOf(check, "put your copy back; without one the next start creates a new key: "+datadir.LostWithKey, "the server key %s is missing", path)
	case err != nil && wanted != "":
		f := term.FailureOf(err)
		return problemOf(check, f.Hint, "%s; the data was written with the key with the fingerprint %s", f.Err, wanted)
	case err != nil:
		return problemFrom(check, "", err)
	case wanted == "":
		return allRight(check, "fingerprint %s", key.Fingerprint())
	case key.Fingerprint() != wanted:
		return problemOf(check, "put that key back; if it is lost, start once with --new-key: "+datadir.LostWithKey, "%s has the fingerprint %s, but the data was written with the server key %s", path, key.Fingerprint(), wanted)
	}
	return allRight(check, "fingerprint %s, which matches the data", wanted)
}

// wantedKey returns the fingerprint of the key that the data in dir wants, or "".
func wantedKey(dir string) (string, error) {
	generation, err := datadir.CurrentGeneration(dir)
	if err != nil || generation == "" {
		return "", err
	}
	return datadir.WantedKey(filepath.Join(dir, generation))
}
