package proof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const backupSection = "Backup and restore"

// TestOperations takes docs/operations.md at its word: the lines of its chapter on
// backups are pasted into a shell, in order, in a place of the test's own and
// beside a server.
func TestOperations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(section(string(text), backupSection))
	t.Run("backup_and_restore_drill_works_as_it_stands", func(t *testing.T) {
		t.Parallel()
		bash, root := needTool(t, "bash"), t.TempDir()
		if err := os.Chmod(root, 0o700); err != nil { // made under the test's umask
			t.Fatal(err)
		}
		if err := os.Symlink(program(t), filepath.Join(root, "tollhouse")); err != nil {
			t.Fatal(err)
		}
		s := startServe(t, filepath.Join(root, "data"))
		command(t, "", "account", "create", "acct_drill", "--admin-socket", s.ready.AdminSocket)
		script := "PATH=" + root + ":$PATH\n" + strings.Join(blocks, "\n")
		script = strings.ReplaceAll(script, "/var/backups/tollhouse", filepath.Join(root, "backups"))
		script = strings.ReplaceAll(script, "/var/lib/tollhouse", filepath.Join(root, "data"))
		out := paste(t, bash, root, script)
		for _, want := range []string{"backed up ", "whole ", "restored ", "db-0002", "is kept: to go back", "acct_drill"} {
			if !strings.Contains(out, want) {
				t.Errorf("the drill does not show %q:\n%s", want, out)
			}
		}
	})
}
