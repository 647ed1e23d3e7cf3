package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// filesNamed is how many files a finding names.
const filesNamed = 3

// checkFiles looks at the mode and the owner of everything in the data directory.
func checkFiles(dir string) finding {
	const check = "files"
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target // a link to the data is where an operator has put it
	}
	top, err := os.Stat(dir)
	if err != nil {
		return problemFrom(check, "", notAllowedOr(exitIO, dir, err))
	}
	owner, _ := ownedByUs(top)
	var open, others, odd []string
	files := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return notAllowedOr(exitIO, path, err)
		}
		if e.Name() == "lost+found" && e.IsDir() {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		files++
		switch uid, _ := ownedByUs(info); {
		case info.Mode()&fs.ModeSymlink != 0:
			odd = append(odd, path+" is a symbolic link")
		case uid != owner:
			others = append(others, path+" belongs to "+userNamed(uid))
		case info.Mode().Perm()&0o077 != 0:
			open = append(open, fmt.Sprintf("%s has mode %04o", path, info.Mode().Perm()))
		}
		return nil
	})
	switch {
	case err != nil:
		return problemFrom(check, "", err)
	case len(others) > 0:
		return problemOf(check, fmt.Sprintf("chown -R %d %s", owner, quoteForShell(dir)), "not all belongs to %s: %s", userNamed(owner), nameFiles(others))
	case len(open) > 0:
		return problemOf(check, "chmod -R go= "+quoteForShell(dir)+", after a look at who may have read or changed them", "open to other users: %s", nameFiles(open))
	case len(odd) > 0:
		return warningOf(check, "look where it leads, and put the file itself in its place", "%s", nameFiles(odd))
	}
	return allRight(check, "%s of %s, closed to others", count(int64(files), "file", "files"), userNamed(owner))
}

func nameFiles(found []string) string {
	text := strings.Join(found[:min(len(found), filesNamed)], ", ")
	if more := len(found) - filesNamed; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// checkKey looks at the server key, which a backup does not have.
func (p *program) checkKey(dir string) finding {
	const check = "key"
	path := p.keyFile
	if path == "" {
		path = filepath.Join(dir, keyName)
	}
	key, err := readKey(path, p.keyFile != "", p.quietLog())
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.keyFile == "":
		return problemOf(check, "put your copy of it back; without one the next start makes another, and open consent screens and refreshes in flight fail once", "there is no server key %s", path)
	case err != nil:
		return problemFrom(check, "", err)
	}
	return allRight(check, "fingerprint %s", fingerprint(key))
}
