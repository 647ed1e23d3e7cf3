package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"tollhouse/store/storetest/must"
)

// demand skips a test whose surroundings lack something, and fails it in CI, which
// has it all.
func demand(t testing.TB, met bool, reason string) {
	t.Helper()
	switch {
	case met:
	case os.Getenv("CI") != "":
		t.Fatalf("needed in CI: %s", reason)
	default:
		t.Skipf("skipped: %s", reason)
	}
}

// skipInShort skips a test that takes seconds of a processor under -short, where a
// person waits for the answer, and never in CI.
func skipInShort(t testing.TB) {
	t.Helper()
	if testing.Short() && os.Getenv("CI") == "" {
		t.Skip("skipped under -short")
	}
}

var quiet = slog.New(slog.DiscardHandler)

// ClosedDir is a directory as a data directory is.
func closedDir(t testing.TB, name ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{t.TempDir()}, name...)...)
	must.Do(t, os.MkdirAll(dir, 0o700))
	must.Do(t, os.Chmod(dir, 0o700))
	return dir
}
