//go:build unix

package cli

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// keepsData says that this system has the locks and modes of a data directory.
const keepsData = true

// closeToOthers sets the umask: Badger makes some of its files with mode 0644.
func closeToOthers() { syscall.Umask(0o077) }

// filesMax returns how many files this process may have open.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

// lockFile takes the lock of an open file or returns errLocked.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}

// ownedByUs returns the owner of a file and whether that is who we are.
func ownedByUs(info fs.FileInfo) (uid int, ours bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(stat.Uid), int(stat.Uid) == os.Geteuid()
}

// becomeOwner makes a process of root's the owner of dir, for good: what it
// writes there must belong to the user who serves it. It does nothing for
// another user, for a directory that is root's, and for one that is not there.
func becomeOwner(dir string) error {
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
		return fail(exitNotAllowed, "run tollhouse as "+userNamed(uid), "the data directory %s belongs to %s, and we cannot become that user: %w", dir, userNamed(uid), err)
	}
	return nil
}

// userNamed names a user as people know it.
func userNamed(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (uid " + id + ")"
	}
	return "uid " + id
}
