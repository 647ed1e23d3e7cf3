package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMigrateDisk: a disk without room for a migration keeps the older store, and
// is told of before anything is written; with room, the same store is migrated.
func TestMigrateDisk(t *testing.T) {
	t.Parallel()
	t.Run("appliance_too_small_a_disk_is_refused_before_a_migration", func(t *testing.T) {
		t.Parallel()
		small := mountSmall(t, 160)
		_, facts := olderStore(t)
		unpackOlder(t, small)
		var disk syscall.Statfs_t
		if err := syscall.Statfs(small, &disk); err != nil {
			t.Fatal(err)
		}
		// Enough to open the store, which takes 96 MiB, and not enough for another.
		filler := filepath.Join(small, "filler")
		if err := os.WriteFile(filler, make([]byte, int64(disk.Bavail)*disk.Bsize-(97<<20)), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, stderr, code := run(t, "serve", "--data", small, "--listen", "127.0.0.1:0")
			if code != exitIO || !strings.Contains(stderr, "could not be migrated to 3: a backup and another generation need ") || !strings.Contains(stderr, "hint: make room there and start again; nothing was changed") {
				t.Errorf("serve: exit %d, %s; want 74 with the figures", code, stderr)
			}
			if mustCurrent(t, small) != generationOne || len(olderBackups(t, small))+len(begunFiles(t, small)) > 0 {
				t.Errorf("CURRENT %s, backups %v, begun %v; want the store of before and nothing beside it", mustCurrent(t, small), olderBackups(t, small), begunFiles(t, small))
			}
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		facts.holdsAll(t, small)
	})
}
