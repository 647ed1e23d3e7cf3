//go:build !linux

package badgerkv

import (
	"errors"
	"os"
)

// fdatasync syncs f with its metadata, the least that this system offers.
func fdatasync(f *os.File) error { return f.Sync() }

// allocate is not implemented: a store has no reserve on these systems.
func allocate(string, int64, int64) error { return errors.ErrUnsupported }
