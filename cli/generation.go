package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A restore and a migration build a generation as db-0002.new. When it is whole it
// gets its name, and then CURRENT names it. One that they ended before that would
// look like one that was in use and is kept, so it bears a mark until CURRENT names
// it: what has the mark was never in use, and the next of them removes it.

const (
	generationsMax = 9999     // what four digits number
	unusedName     = "UNUSED" // the mark, a file in the generation
)

var generationForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^db-[0-9]{4}$`) })

// storeDir returns the directory of the generation in use, and makes the first
// one when there is none. The caller holds the lock.
func storeDir(dir string) (path string, fresh bool, err error) {
	current := filepath.Join(dir, currentName)
	text, err := os.ReadFile(current)
	if errors.Is(err, fs.ErrNotExist) {
		return beginStore(dir)
	}
	if err != nil {
		return "", false, notAllowedOr(exitIO, current, err)
	}
	name := strings.TrimSuffix(string(text), "\n")
	if !generationForm().MatchString(name) {
		return "", false, fail(exitConfig, fmt.Sprintf("write the name of the generation in use into it, which is the last one unless you went back: echo %s > %s", lastGeneration(dir), quoteForShell(current)),
			"%s does not name a generation such as %s", current, generationOne)
	}
	path = filepath.Join(dir, name)
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return "", false, fail(exitConfig, "put it back, or restore a backup into another directory",
			"%s names %s, but there is no such directory", current, path)
	}
	return path, false, claim(path)
}

// claim takes the mark from a generation that CURRENT names, for good: a restore
// that came too late for that was killed.
func claim(path string) error {
	mark := filepath.Join(path, unusedName)
	err := os.Remove(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(path)
	}
	if err != nil {
		return notAllowedOr(exitIO, mark, err)
	}
	return nil
}

// isUnused reports whether a generation bears the mark.
func isUnused(path string) bool {
	_, err := os.Lstat(filepath.Join(path, unusedName))
	return err == nil
}

// removeUnused removes the generations that were begun, or made whole, and never in
// use. The caller keeps other restores and migrations away.
func removeUnused(dir string) error {
	current, err := currentGeneration(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path, begun := strings.CutSuffix(filepath.Join(dir, e.Name()), newSuffix)
		switch name := filepath.Base(path); {
		case !generationForm().MatchString(name):
			continue
		case name == current:
			err = errors.Join(err, claim(path))
			continue
		case !begun:
			if !isUnused(path) {
				continue
			}
			// If this is killed too, what is left still tells that it is of no use.
			err = errors.Join(err, os.Rename(path, path+newSuffix))
		}
		err = errors.Join(err, os.RemoveAll(path+newSuffix))
	}
	if err != nil {
		return notAllowedOr(exitIO, dir, err)
	}
	return nil
}

// beginStore makes the first generation. One that a restore has built and not
// handed over is neither taken for it nor removed: whoever began that restore wants
// its data, and no empty store.
func beginStore(dir string) (string, bool, error) {
	path := filepath.Join(dir, generationOne)
	if isUnused(path) {
		return "", false, fail(exitConfig, fmt.Sprintf("restore again, or use what is there: echo %s > %s", generationOne, quoteForShell(filepath.Join(dir, currentName))),
			"%s was built by a restore that was ended before its last step", path)
	}
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, notAllowedOr(exitCannotCreate, path, err)
	}
	if err := writeFile(filepath.Join(dir, currentName), []byte(generationOne+"\n")); err != nil {
		return "", false, notAllowedOr(exitCannotCreate, filepath.Join(dir, currentName), err)
	}
	return path, true, nil
}

// currentGeneration returns the name of the generation in use, or "".
func currentGeneration(dir string) (string, error) {
	path := filepath.Join(dir, currentName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", notAllowedOr(exitIO, path, err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// lastGeneration returns the name of the last generation that was in use, as far
// as that can be told.
func lastGeneration(dir string) string {
	last := generationOne
	entries, _ := os.ReadDir(dir) // which sorts
	for _, e := range entries {
		if generationForm().MatchString(e.Name()) && !isUnused(filepath.Join(dir, e.Name())) {
			last = e.Name()
		}
	}
	return last
}

// nextGeneration returns a name for another generation.
func nextGeneration(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", notAllowedOr(exitIO, dir, err)
	}
	last := 0
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), newSuffix)
		if !generationForm().MatchString(name) {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db-")); err == nil {
			last = max(last, n)
		}
	}
	if last == generationsMax {
		return "", fail(exitConfig, "stop the server, rename the generation in use to "+generationOne+", name that in "+currentName+" and remove the others", "%s has a generation %d, the last that there can be", dir, last)
	}
	return fmt.Sprintf("db-%04d", last+1), nil
}
