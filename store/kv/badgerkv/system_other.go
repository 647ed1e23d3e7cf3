//go:build !linux

package badgerkv

import "os"

// fdatasync syncs f with its metadata, for want of less.
func fdatasync(f *os.File) error { return f.Sync() }
