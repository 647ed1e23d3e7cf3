package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestBackupKilled kills a server in the middle of its backup, some times: what has
// a name is whole, what is half is swept at the next start, and that makes the
// backup which is due.
//
// Promise (Backup): a disk too small for a restore is refused; a killed server leaves no partial
// file; a backup directory that vanishes or becomes read-only is a finding
func TestBackupKilled(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const kills = 3
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	if _, stderr, code := run(t, append(generatedInto(t, root), "--data", dir)...); code != term.ExitOK {
		t.Fatal(stderr)
	}
	args := []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--backup-every", "24h"}
	// look returns the names of the backups that are there, half and whole.
	look := func() (halves, named []string) {
		entries, _ := os.ReadDir(filepath.Join(dir, datadir.BackupsName))
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".backup") {
				named = append(named, e.Name())
			} else if strings.Contains(e.Name(), ".backup.") {
				halves = append(halves, e.Name())
			}
		}
		return halves, named
	}
	await := func(enough func(halves, named []string) bool) {
		t.Helper()
		for begun := time.Now(); time.Since(begun) < startMax; time.Sleep(time.Millisecond) {
			if enough(look()) {
				return
			}
		}
		halves, named := look()
		t.Fatalf("no backup has begun, or come to its end: halves %q, named %q", halves, named)
	}
	var left []string // by the server before
	cut := 0
	for range kills {
		s := start(t, args...)
		await(func(halves, named []string) bool {
			return len(named) > 0 || len(halves) > 0 && !slices.Equal(halves, left)
		})
		must.Do(t, s.cmd.Process.Kill())
		<-s.ended
		halves, named := look()
		if len(halves) > 1 {
			t.Errorf("%q: what another start had left is still there", halves)
		}
		left = halves
		if cut += len(halves); len(named) > 0 {
			break // it was quicker than the kill
		}
	}
	if cut == 0 {
		t.Log("every backup was done before the kill")
	}
	s := start(t, args...)
	await(func(_, named []string) bool { return len(named) > 0 })
	if code := s.end(); code != term.ExitOK {
		t.Errorf("exit %d: %s", code, s.stderr)
	}
	halves, named := look()
	if len(halves) != 0 || len(named) != 1 {
		t.Errorf("a_killed_backup: halves %q, named %q; want one that is named, and no half", halves, named)
	}
	for _, name := range named {
		if out, stderr, code := run(t, "backup", "verify", filepath.Join(dir, datadir.BackupsName, name)); code != term.ExitOK || !strings.Contains(out, "2000") {
			t.Errorf("a_killed_backup: verify %s: exit %d, %s%s", name, code, out, stderr)
		}
	}
}
