package badgerkv

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync syncs the content of f; its size never changes.
func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// allocate gives the file at path a size whose space on the disk is its own.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = firstError(f.Truncate(size), unix.Fallocate(int(f.Fd()), 0, 0, size))
	return firstError(err, f.Close())
}
