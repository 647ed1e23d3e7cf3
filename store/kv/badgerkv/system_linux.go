package badgerkv

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync syncs the content of f; its size never changes.
func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
