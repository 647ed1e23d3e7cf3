package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestABackupDirectoryThatVanishesIsAFinding: a disk may be unmounted under a running
// server. doctor says so, and the server serves on.
//
// Promise (Backup): a disk too small for a restore is refused; a killed server leaves no partial
// file; a backup directory that vanishes or becomes read-only is a finding
func TestABackupDirectoryThatVanishesIsAFinding(t *testing.T) {
	t.Parallel()
	dir, backups := filepath.Join(t.TempDir(), "data"), must.ClosedDir(t, "backups")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", backups)
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if made, err := filepath.Glob(filepath.Join(backups, "*.backup")); err == nil && len(made) > 0 {
			break
		}
		if time.Since(begun) > startMax {
			t.Fatalf("no backup within %s: %s", startMax, s.stderr)
		}
	}
	must.Do(t, os.Rename(backups, backups+".away"))
	out, _, code := run(t, "doctor", "--data", dir)
	if code != term.ExitFailed || !strings.Contains(out, "the backup directory "+backups+" does not exist") || !strings.Contains(out, "next: mount its disk") {
		t.Errorf("doctor: exit %d, %s; want 1 and the missing directory", code, out)
	}
	if _, stderr, code := run(t, "health", "--data", dir); code != term.ExitOK {
		t.Errorf("health: exit %d, %s; want 0", code, stderr)
	}
}
