//go:build unix

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"tollhouse/cli/term"
)

// keepsData says that this system has the locks and modes of a data directory.
const keepsData = true

// CloseToOthers sets the umask: Badger makes some of its files with mode 0644.
func CloseToOthers() { syscall.Umask(0o077) }

// LockFile takes the lock of an open file or returns [ErrLocked].
func LockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}

// OwnedByUs returns the owner of a file and whether that is our own user.
func OwnedByUs(info fs.FileInfo) (uid int, ours bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(stat.Uid), int(stat.Uid) == os.Geteuid()
}

// BecomeOwner switches a root process to the owner of dir for good, because the files
// it writes must belong to the user of the server. It does nothing for another user,
// or if dir is missing or belongs to root.
func BecomeOwner(dir string) error {
	info, err := os.Stat(dir)
	if os.Geteuid() != 0 || err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return nil
	}
	uid, gid := int(stat.Uid), int(stat.Gid)
	if err := errors.Join(syscall.Setgroups([]int{gid}), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		return term.Fail(term.ExitNotAllowed, "run tollhouse as "+UserNamed(uid), "the data directory %s belongs to %s, and this process cannot become that user: %w", dir, UserNamed(uid), err)
	}
	return nil
}

// UserNamed names a user as people know it.
func UserNamed(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (uid " + id + ")"
	}
	return "uid " + id
}
