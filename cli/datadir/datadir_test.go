package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tollhouse/cli/term"
)

// TestNotAllowed: a reason that is no missing permission names no owner.
func TestNotAllowed(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{syscall.ENOENT, syscall.EROFS, syscall.ENOTDIR} {
		err := NotAllowedOr(term.ExitIO, "/d", &os.PathError{Op: "open", Path: "/d", Err: reason})
		if f := term.FailureOf(err); f.Code != term.ExitIO || strings.Contains(f.Error(), "belongs") || !strings.Contains(f.Error(), reason.Error()) || f.Hint == "" {
			t.Errorf("%v: exit %d, %v, hint %q", reason, f.Code, f, f.Hint)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := term.FailureOf(makeDataDir(filepath.Join(file, "data"))); f.Code != term.ExitCannotCreate || strings.Contains(f.Error(), "belongs") {
		t.Errorf("under a file: exit %d, %v", f.Code, f)
	}
}
