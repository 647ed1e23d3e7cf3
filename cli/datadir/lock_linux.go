package datadir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// hasOpen reports whether the process with that PID here has a file open, as far as we are
// allowed to see.
func hasOpen(pid int, file fs.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if open, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}
