//go:build !linux

package badgerkv

import "os"

// fdatasync syncs f with its metadata, the least that this system offers.
func fdatasync(f *os.File) error { return f.Sync() }
