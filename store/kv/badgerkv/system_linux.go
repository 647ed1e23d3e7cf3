package badgerkv

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync syncs the content of f; its size never changes.
func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// allocate grows the file at path from has to size allocated bytes.
// It asks for new bytes only: xfs also wants free space for bytes that are already
// allocated. A link or a pipe of that name is refused.
func allocate(path string, has, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	for again := err == nil && size > has; again; again = err == unix.EINTR { // a signal, as Go's scheduler sends them
		err = unix.Fallocate(int(f.Fd()), 0, has, size-has)
	}
	return cmp.Or(err, f.Close())
}
