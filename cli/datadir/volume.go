package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"tollhouse/cli/term"
)

// A volume of a container often belongs to root and is open to our group (fsGroup of
// Kubernetes) or to everybody (an emptyDir). A directory that we make on it is ours alone.
// At each mount Kubernetes may open it and its files to the group again, so a start closes
// them again.

// OwnName is the directory that Prepare makes on a volume that belongs to another user.
const OwnName = "tollhouse"

// Locate returns the data directory that dir means: itself, or the one below it that Prepare
// made on a volume. The latter can be ours only where users besides the owner may write.
func Locate(dir string) string {
	below := filepath.Join(dir, OwnName)
	info, err := os.Lstat(below)
	if err != nil || !info.IsDir() {
		return dir
	}
	top, err := os.Stat(dir)
	if err != nil || !isSharedVolume(top) || exists(filepath.Join(dir, CurrentName)) {
		return dir
	}
	owner, _ := OwnedByUs(top)
	if own, _ := OwnedByUs(info); own == owner {
		return dir
	}
	return below
}

func isSharedVolume(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeOwn makes a directory of our own on an empty volume of another user that we may write to.
// Root, which no mode restricts, does not: it could take the volume itself.
func makeOwn(dir string, info fs.FileInfo, log *slog.Logger) (below string, made bool) {
	below = filepath.Join(dir, OwnName)
	if os.Geteuid() == 0 || !isSharedVolume(info) || os.Mkdir(below, 0o700) != nil {
		return "", false
	}
	owner, _ := OwnedByUs(info)
	log.Warn("the volume belongs to another user, so the data is in a subdirectory of it", "volume", dir, "owner", UserNamed(owner), "data", below)
	return below, true
}

// closeDataDir closes a directory of ours, and what of ours is in it, to other users. If others
// could write to it, a file of another user is refused: it may have been planted.
func closeDataDir(dir string, info fs.FileInfo, log *slog.Logger) error {
	if err := closeToOthers(dir, info); err != nil {
		return err
	}
	closed, err := closeBelow(dir, info.Mode().Perm()&0o022 != 0)
	if err != nil {
		return err
	}
	if open := info.Mode().Perm()&0o077 != 0; closed > 0 || open && !IsEmpty(dir) {
		log.Warn("other users had access to the data directory or to files in it, and may have read them; access is now removed", "data", dir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()), "files", closed)
	}
	return nil
}

// closeBelow closes what is in dir, and descends into each directory that is open. Such a
// directory is closed after what is in it, so that the next start repeats one that was killed.
func closeBelow(dir string, writable bool) (closed int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, NotAllowedOr(term.ExitConfig, dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || e.Name() == "lost+found" || err == nil && info.Mode()&fs.ModeSymlink != 0 {
			continue
		}
		if err != nil {
			return closed, NotAllowedOr(term.ExitConfig, path, err)
		}
		owner, ours := OwnedByUs(info)
		if !ours && writable && owner != 0 {
			return closed, term.Fail(term.ExitConfig, "check who put it there, then remove it or take it: chown "+fmt.Sprint(os.Geteuid())+" "+term.ShellQuote(path),
				"%s belongs to %s, and other users could write to %s", path, UserNamed(owner), dir)
		}
		if !ours || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if info.IsDir() {
			below, err := closeBelow(path, writable || info.Mode().Perm()&0o022 != 0)
			closed += below
			if err != nil {
				return closed, err
			}
		}
		if err := closeToOthers(path, info); err != nil {
			return closed, err
		}
		closed++
	}
	return closed, nil
}

// closeToOthers takes the modes of group and others from a file or directory of ours.
func closeToOthers(path string, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(path, mode&0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return term.Fail(term.ExitConfig, "chmod go= "+term.ShellQuote(path), "cannot remove other users' access to %s (mode %04o): %w", path, mode, term.PathReason(err))
	}
	return nil
}
