package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"tollhouse/store/storetest/must"
)

var quiet = slog.New(slog.DiscardHandler)

// ClosedDir is a directory as a data directory is.
func closedDir(t testing.TB, name ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{t.TempDir()}, name...)...)
	must.Do(t, os.MkdirAll(dir, 0o700))
	must.Do(t, os.Chmod(dir, 0o700))
	return dir
}
