package datadir

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/secret"
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

// TestAKeyFileThatAGroupMayReadMakesNoWarning: docs/operations.md gives it mode 0640.
//
// Promise (Commands and settings): a history in an account ends now, a printed one never changes; a
// key file for a group makes no warning; move takes a store file; a password prompt asks again
func TestAKeyFileThatAGroupMayReadMakesNoWarning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.key")
	key := secret.NewKey(nil)
	must.Do(t, os.WriteFile(path, key.Text(), 0o600))
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o440: false, 0o660: true, 0o644: true, 0o604: true} {
		must.Do(t, os.Chmod(path, mode))
		var log strings.Builder
		got, err := ReadKey(path, true, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || got != key || strings.Contains(log.String(), "key file is accessible to other users") != warns {
			t.Errorf("mode %04o: %v, and the log says %q, want a warning: %t", mode, err, log.String(), warns)
		}
		if _, err := ReadKey(path, false, slog.New(slog.DiscardHandler)); (err != nil) != (mode&0o077 != 0) {
			t.Errorf("mode %04o beside the data: %v", mode, err)
		}
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

// TestADiskThatIsFullOrAwayIsNoFinalExitCode: the unit starts a server again.
func TestADiskThatIsFullOrAwayIsNoFinalExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{syscall.ENOSPC, term.ExitIO}, {syscall.EDQUOT, term.ExitIO}, {syscall.EIO, term.ExitIO}, {syscall.ESTALE, term.ExitIO},
		{syscall.ENAMETOOLONG, term.ExitCannotCreate}, {syscall.ENOTDIR, term.ExitCannotCreate}, {syscall.EROFS, term.ExitCannotCreate},
	} {
		err := NotAllowedOr(term.ExitCannotCreate, "data", &fs.PathError{Op: "open", Path: "data", Err: c.err})
		if got := term.FailureOf(err).Code; got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
	}
}
