package datadir

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/storetest/must"
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
	must.Do(t, os.WriteFile(file, nil, 0o600))
	if f := term.FailureOf(makeDataDir(filepath.Join(file, "data"))); f.Code != term.ExitCannotCreate || strings.Contains(f.Error(), "belongs") {
		t.Errorf("under a file: exit %d, %v", f.Code, f)
	}
}

// What dev uses in place of the system's randomness and clock never gets to a disk.
func TestOpenRefusesDevsOptionsForADirectory(t *testing.T) {
	t.Parallel()
	tests := map[string]Options{
		"fixtures_of_tests":      {Dev: &DevOptions{}},
		"predictable_randomness": {Random: func(string, []byte) {}},
		"a_clock_of_its_own":     {Now: time.Now},
		"a_state_to_begin_with":  {State: &memkv.State{}},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("Open took it for a directory")
				}
			}()
			o.Dir, o.Log = t.TempDir(), slog.New(slog.DiscardHandler)
			if opened, err := Open(t.Context(), o); err == nil {
				_ = opened.Close()
			}
		})
	}
}
