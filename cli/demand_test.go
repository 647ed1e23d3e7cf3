package cli

import (
	"os"
	"testing"
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
