//go:build unix

package datadir

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestAServerKeyThatIsNoFileIsRefused: to open a pipe waits for a writer, so that a command
// would hang with the lock in its hand.
//
// Promise (One data directory, one owner): a lost server key is recreated; another, or one open to
// others, is refused; a socket's path may be long
func TestAServerKeyThatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), KeyName)
		must.Do(t, place(path))
		read := make(chan error, 1)
		go func() {
			_, err := ReadKey(path, false, slog.New(slog.DiscardHandler))
			read <- err
		}()
		select {
		case err := <-read:
			if f := term.FailureOf(err); f == nil || f.Code != term.ExitConfig {
				t.Errorf("%s: ReadKey() = %v, want exit code %d", name, err, term.ExitConfig)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: ReadKey still waits after 10s", name)
		}
	}
}

// TestAForeignFileIsNoReasonForAnotherDataDirectory: a backup or an import that another user
// owns is not in the data directory.
func TestAForeignFileIsNoReasonForAnotherDataDirectory(t *testing.T) {
	t.Parallel()
	must.Have(t, os.Geteuid() == 0, "only root gives files away")
	file, dir := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{
		file: "run tollhouse as nobody (uid 65534), who owns it",
		dir:  "run tollhouse as nobody (uid 65534), who owns it, or choose another directory with --data",
	} {
		must.Do(t, os.Chown(path, 65534, -1))
		if got := term.FailureOf(NotAllowedOr(term.ExitIO, path, syscall.EACCES)).Hint; got != want {
			t.Errorf("%s: the hint is %q, want %q", path, got, want)
		}
	}
}
