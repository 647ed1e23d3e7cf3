package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
)

// Promise (One data directory, one owner): LOCK describes its holder and decides nothing; CURRENT
// names a generation, a mounted volume is never renamed
func TestLock(t *testing.T) {
	t.Parallel()
	t.Run("one_holder_at_a_time_and_the_next_after_it", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		first, err := TryLock(dir, "serve")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := TryLock(dir, "user list"); !errors.Is(err, ErrLocked) {
			t.Errorf("second tryLock = %v, want errLocked", err)
		}
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		second, err := TryLock(dir, "user list")
		if err != nil {
			t.Fatalf("tryLock after release = %v", err)
		}
		if err := second.Release(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("text_names_the_holder_and_decides_nothing", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		l, err := TryLock(dir, "serve")
		if err != nil {
			t.Fatal(err)
		}
		l.Socket, l.Listen = filepath.Join(dir, SocketName), []string{"127.0.0.1:8080"}
		if err := l.Write(); err != nil {
			t.Fatal(err)
		}
		h := ReadHolder(dir)
		if h.PID != os.Getpid() || h.Role != "serve" || h.Socket != l.Socket || h.Started.IsZero() {
			t.Errorf("holder = %+v", h)
		}
		fault := term.FailureOf(HeldError(dir, h))
		if fault.Code != term.ExitBusy || !strings.Contains(fault.Error(), "listening on 127.0.0.1:8080") {
			t.Errorf("fault = %d, %v", fault.Code, fault)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		if h := ReadHolder(dir); h.PID != 0 {
			t.Errorf("after release the text still names %+v", h)
		}
		// What a crash, or another program, left there stops nobody.
		if err := os.WriteFile(filepath.Join(dir, LockName), []byte(`{"pid":1,"role":"serve"`), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err = TryLock(dir, "serve")
		if err != nil {
			t.Fatalf("tryLock over a stale text = %v", err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("holder_unknown_while_its_text_is_written", func(t *testing.T) {
		t.Parallel()
		if fault := term.FailureOf(HeldError("/d", ReadHolder(t.TempDir()))); fault.Code != term.ExitBusy || !strings.Contains(fault.Error(), "another process") {
			t.Errorf("fault = %d, %v", fault.Code, fault)
		}
	})
}
