package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBackupKilled kills a server in the middle of its backup, some times: what has
// a name is whole, what is half is swept at the next start, and that makes the
// backup which is due.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	const kills = 3
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	if _, stderr, code := run(t, append(generatedInto(t, root), "--data", dir)...); code != exitOK {
		t.Fatal(stderr)
	}
	args := []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--backup-every", "24h"}
	// seen waits for a file in the directory of backups, half or whole, and returns
	// the names of both.
	seen := func(whole bool) (halves, named []string) {
		t.Helper()
		for begun := time.Now(); time.Since(begun) < startMax; {
			halves, named = nil, nil
			entries, _ := os.ReadDir(filepath.Join(dir, backupsName))
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), backupSuffix) {
					named = append(named, e.Name())
				} else if strings.Contains(e.Name(), backupSuffix+".") {
					halves = append(halves, e.Name())
				}
			}
			if len(named) > 0 || len(halves) > 0 && !whole {
				return halves, named
			}
		}
		t.Fatal("no backup has begun")
		return nil, nil
	}
	cut := 0
	for range kills {
		s := start(t, args...)
		seen(false)
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-s.ended
		halves, named := seen(false)
		if len(halves) > 1 {
			t.Errorf("%q: what another start had left is still there", halves)
		}
		if cut += len(halves); len(named) > 0 {
			break // it was quicker than the kill
		}
	}
	if cut == 0 {
		t.Log("every backup was done before the kill")
	}
	s := start(t, args...)
	seen(true)
	if code := s.end(); code != exitOK {
		t.Errorf("exit %d: %s", code, s.stderr)
	}
	halves, named := seen(true)
	if len(halves) != 0 || len(named) != 1 {
		t.Errorf("appliance_a_killed_backup: halves %q, named %q; want one that is named, and no half", halves, named)
	}
	for _, name := range named {
		if out, stderr, code := run(t, "backup", "verify", filepath.Join(dir, backupsName, name)); code != exitOK || !strings.Contains(out, "2000") {
			t.Errorf("appliance_a_killed_backup: verify %s: exit %d, %s%s", name, code, out, stderr)
		}
	}
}
