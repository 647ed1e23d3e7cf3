package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tollhouse/cli/term"
)

// A mistyped --data may name /, /tmp or a home directory. A hint that prints chmod or chown
// would then lock everybody out, so we look at the content of a directory first.

// CheckOurs returns why dir is not a data directory, or nil: for one that is ours, empty
// or missing, and for one that cannot be read.
func CheckOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && info.Mode()&fs.ModeSticky != 0 && !namesGeneration(dir) {
		return term.Fail(term.ExitConfig, "name a directory below it with --data", "%s is not a data directory: all users may create files in it", dir)
	}
	return refuseForeign(dir, entries)
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

// refuseForeign refuses a directory with content and without a CURRENT of ours, unless the
// content is ours, from a start that was interrupted.
func refuseForeign(dir string, entries []fs.DirEntry) error {
	stranger, generation, current := "", "", false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == CurrentName:
			current = true
		case GenerationForm.MatchString(name) && !IsUnused(filepath.Join(dir, name)):
			generation = name
		case isOwnName(name):
		case stranger == "":
			stranger = name
		}
	}
	if current && (generation != "" || stranger == "" || namesGeneration(dir)) {
		return nil
	}
	if current {
		return term.Fail(term.ExitConfig, notOursHint, "%s is not a data directory: it contains %s, and its %s names no generation such as %s", dir, stranger, CurrentName, GenerationOne)
	}
	if stranger != "" {
		return term.Fail(term.ExitConfig, notOursHint, "%s is not a data directory: it contains %s but no %s", dir, stranger, CurrentName)
	}
	if generation != "" {
		// A generation is made before CURRENT names it, and filled afterwards, perhaps
		// by another command since the directory was listed.
		files, err := os.ReadDir(filepath.Join(dir, generation))
		_, missing := os.Lstat(filepath.Join(dir, CurrentName))
		if err != nil || len(files) > 0 && missing != nil {
			return term.Fail(term.ExitConfig, "if that is the one in use: echo "+generation+" > "+term.ShellQuote(filepath.Join(dir, CurrentName)),
				"%s contains %s, but %s, which names the generation in use, is missing", dir, generation, CurrentName)
		}
	}
	return nil
}

const notOursHint = "name an empty directory, or one that tollhouse created, with --data"

// namesGeneration reports whether CURRENT names a generation, whether that is there or not.
// Other stores have a file of that name. One that cannot be read may be ours.
func namesGeneration(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, CurrentName))
	return errors.Is(err, fs.ErrPermission) || err == nil && GenerationForm.MatchString(strings.TrimSuffix(string(text), "\n"))
}

func isOwnName(name string) bool {
	switch strings.TrimSuffix(name, NewSuffix) {
	case LockName, KeyName, SocketName, CurrentName, BackupsName, "lost+found":
		return true
	}
	return GenerationForm.MatchString(strings.TrimSuffix(name, NewSuffix)) // a restore that was cut short
}
