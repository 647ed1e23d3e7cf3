package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"tollhouse/cli/term"
)

// A restore builds a generation as db-0002.new. When it is complete it gets its name, and
// then CURRENT names it. It has a mark until a process opens it: a generation with the mark was
// never in use, and the next restore removes it unless CURRENT names it.

const (
	generationsMax = 9999     // the most that four digits allow
	UnusedName     = "UNUSED" // the mark, a file in the generation
)

// GenerationForm matches the name of a generation.
var GenerationForm = regexp.MustCompile(`^db-[0-9]{4}$`)

// CurrentStore returns the directory of the generation in use. It creates the
// first one if there is none; fresh is then true. The caller holds the lock.
func CurrentStore(dir string) (path string, fresh bool, err error) {
	current := filepath.Join(dir, CurrentName)
	text, err := os.ReadFile(current)
	if errors.Is(err, fs.ErrNotExist) {
		return beginStore(dir)
	}
	if err != nil {
		return "", false, NotAllowedOr(term.ExitIO, current, err)
	}
	name := strings.TrimSuffix(string(text), "\n")
	if !GenerationForm.MatchString(name) {
		if last := lastGeneration(dir); !IsGeneration(dir, last) {
			return "", false, term.Fail(term.ExitConfig, "restore a backup into another directory", "%s does not name a generation such as %s, and there is none", current, GenerationOne)
		}
		return "", false, term.Fail(term.ExitConfig, fmt.Sprintf("write the name of the generation in use into it, the last one unless you undid a restore: echo %s > %s", lastGeneration(dir), term.ShellQuote(current)),
			"%s does not name a generation such as %s", current, GenerationOne)
	}
	path = filepath.Join(dir, name)
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return "", false, term.Fail(term.ExitConfig, "put it back, or restore a backup into another directory",
			"%s names %s, but that directory does not exist", current, path)
	}
	return path, false, claim(path)
}

// claim takes the mark from a generation that CURRENT names, for good.
func claim(path string) error {
	mark := filepath.Join(path, UnusedName)
	err := os.Remove(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = SyncDir(path)
	}
	if err != nil {
		return NotAllowedOr(term.ExitIO, mark, err)
	}
	return nil
}

// IsGeneration reports whether dir has a generation of that name.
func IsGeneration(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && info.IsDir() && GenerationForm.MatchString(name)
}

// IsUnused reports whether a generation has the mark.
func IsUnused(path string) bool {
	_, err := os.Lstat(filepath.Join(path, UnusedName))
	return err == nil
}

// RemoveUnused removes the generations, complete or not, that were never in use. If
// CURRENT is unreadable, it may have named any complete one, so those are kept. The caller
// locks out other restores.
func RemoveUnused(dir string) error {
	current, err := CurrentGeneration(dir)
	if err != nil {
		return err
	}
	_, missing := os.Lstat(filepath.Join(dir, CurrentName))
	unreadable := missing == nil && !IsGeneration(dir, current)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path, begun := strings.CutSuffix(filepath.Join(dir, e.Name()), NewSuffix)
		switch name := filepath.Base(path); {
		case !GenerationForm.MatchString(name), name == current:
		case begun:
			err = errors.Join(err, os.RemoveAll(path+NewSuffix))
		case !unreadable && IsUnused(path):
			err = errors.Join(err, RemoveGeneration(path))
		}
	}
	if err != nil {
		return NotAllowedOr(term.ExitIO, dir, err)
	}
	return nil
}

// RemoveGeneration removes a complete generation. If it is killed, what is left does not
// look complete.
func RemoveGeneration(path string) error {
	begun := path + NewSuffix
	err := os.RemoveAll(begun)
	if err == nil {
		err = os.Rename(path, begun)
	}
	if err == nil {
		err = os.RemoveAll(begun)
	}
	return err
}

// beginStore creates the first generation. It neither uses nor removes one that an
// unfinished restore has built: its data is wanted, not an empty store.
func beginStore(dir string) (string, bool, error) {
	path := filepath.Join(dir, GenerationOne)
	if IsUnused(path) {
		return "", false, term.Fail(term.ExitConfig, fmt.Sprintf("restore again, or use the existing generation: echo %s > %s", GenerationOne, term.ShellQuote(filepath.Join(dir, CurrentName))),
			"%s was built by a restore that did not finish", path)
	}
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, NotAllowedOr(term.ExitCannotCreate, path, err)
	}
	if err := WriteFile(filepath.Join(dir, CurrentName), []byte(GenerationOne+"\n")); err != nil {
		return "", false, NotAllowedOr(term.ExitCannotCreate, filepath.Join(dir, CurrentName), err)
	}
	return path, true, nil
}

// Discard removes a store that was created in dir and never used, dir itself, and the
// directories up to above that were created for it. The caller holds the lock and has closed
// the store.
func Discard(dir, above string) error {
	name, err := CurrentGeneration(dir)
	if err != nil || !GenerationForm.MatchString(name) {
		return err
	}
	err = errors.Join(os.Remove(filepath.Join(dir, CurrentName)), RemoveGeneration(filepath.Join(dir, name)), os.Remove(filepath.Join(dir, LockName)))
	if removed := os.Remove(filepath.Join(dir, KeyName)); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	for ; dir != above && err == nil; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break // another process has put something there
		}
	}
	return err
}

// CurrentGeneration returns the name of the generation in use, or "".
func CurrentGeneration(dir string) (string, error) {
	path := filepath.Join(dir, CurrentName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", NotAllowedOr(term.ExitIO, path, err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// lastGeneration returns the name of the last generation that was in use, as far
// as that can be determined.
func lastGeneration(dir string) string {
	last := GenerationOne
	entries, _ := os.ReadDir(dir) // sorted by name
	for _, e := range entries {
		if GenerationForm.MatchString(e.Name()) && !IsUnused(filepath.Join(dir, e.Name())) {
			last = e.Name()
		}
	}
	return last
}

// NextGeneration returns a name for another generation.
func NextGeneration(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", NotAllowedOr(term.ExitIO, dir, err)
	}
	last := 0
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), NewSuffix)
		if !GenerationForm.MatchString(name) {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db-")); err == nil {
			last = max(last, n)
		}
	}
	if last == generationsMax {
		return "", term.Fail(term.ExitConfig, "stop the server, rename the generation in use to "+GenerationOne+", put that name into "+CurrentName+" and remove the others", "%s has generation %d, the highest possible number", dir, last)
	}
	return fmt.Sprintf("db-%04d", last+1), nil
}
