package must

import (
	"os"
	"path/filepath"
	"testing"
)

// ClosedDir returns a directory that other users cannot open, as a data directory is: a new
// one, or the one of that name in it.
func ClosedDir(t testing.TB, name ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{t.TempDir()}, name...)...)
	Do(t, os.MkdirAll(dir, 0o700))
	Do(t, os.Chmod(dir, 0o700))
	return dir
}
