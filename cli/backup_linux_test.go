package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// mountSmall mounts a filesystem of so many MiB for a test.
func mountSmall(t *testing.T, mebibytes int) string {
	t.Helper()
	must.Have(t, os.Geteuid() == 0, "only root can mount a filesystem")
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", mebibytes))
	must.Have(t, err == nil, fmt.Sprintf("a machine that mounts a tmpfs: %v", err))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// Promise (Backup): a disk too small for a restore is refused; a killed server leaves no partial
// file; a backup directory that vanishes or becomes read-only is a finding
// Promise (Testers, bad input): a full disk during a backup
func TestBackupDisks(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	root := t.TempDir()
	dir, file := filepath.Join(root, "data"), filepath.Join(root, "file")
	for _, args := range [][]string{generatedInto(t, root), {"backup", file}} {
		if _, stderr, code := run(t, append(args, "--data", dir)...); code != term.ExitOK {
			t.Fatalf("tollhouse %v: exit %d, %s", args, code, stderr)
		}
	}
	t.Run("a_full_disk_during_backup_loses_nothing", func(t *testing.T) {
		t.Parallel()
		small := mountSmall(t, 1)
		must.Do(t, os.WriteFile(filepath.Join(small, "filler"), make([]byte, 900<<10), 0o600))
		_, stderr, code := run(t, "backup", filepath.Join(small, "file"), "--data", dir)
		if code != term.ExitIO || !strings.Contains(stderr, "no space left on device") || !strings.Contains(stderr, "hint: free some space there") {
			t.Errorf("backup to a full disk: exit %d, %s; want 74 that says so", code, stderr)
		}
		if left, err := os.ReadDir(small); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if _, stderr, code := run(t, "account", "list", "--data", dir); code != term.ExitOK {
			t.Errorf("account list afterwards: exit %d, %s", code, stderr)
		}
	})
	t.Run("too_small_a_disk_is_refused_before_a_restore", func(t *testing.T) {
		t.Parallel()
		small := mountSmall(t, 32)
		_, stderr, code := run(t, "restore", file, "--data", small)
		if code != term.ExitIO || !strings.Contains(stderr, "MiB are free") {
			t.Errorf("restore to a small disk: exit %d, %s; want 74 with the figures", code, stderr)
		}
		left, err := filepath.Glob(filepath.Join(small, "db-*"))
		if _, currentErr := os.Lstat(filepath.Join(small, datadir.CurrentName)); err != nil || len(left) > 0 || currentErr == nil {
			t.Errorf("left behind: %v, CURRENT %v", left, currentErr)
		}
	})
	t.Run("restored_on_a_mounted_volume", func(t *testing.T) {
		t.Parallel()
		volume := mountSmall(t, 400)
		for range 2 {
			if _, stderr, code := run(t, "restore", file, "--data", volume); code != term.ExitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
		}
		out, stderr, code := run(t, "event", "export", "--account", "acct_a", "--data", volume)
		if code != term.ExitOK || strings.Count(out, "\n") != 2000 {
			t.Errorf("export: exit %d, %d events, %s", code, strings.Count(out, "\n"), stderr)
		}
		if current, err := datadir.CurrentGeneration(volume); err != nil || current != "db-0002" {
			t.Errorf("CURRENT = %s, %v, want db-0002", current, err)
		}
	})
}

// TestSmallDisks: what a nearly full disk does to backups that the server makes by
// itself, and what doctor says of it.
func TestSmallDisks(t *testing.T) {
	t.Parallel()
	t.Run("a_full_backup_disk_costs_a_warning", func(t *testing.T) {
		t.Parallel()
		small := mountSmall(t, 100) // less than a backup must leave
		s := start(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", small)
		for begun := time.Now(); gauge(metricsOf(t, s), "tollhouse_backup_failures_total") < 1; {
			if time.Since(begun) > startMax {
				t.Fatal("no backup has failed")
			}
		}
		if left, err := filepath.Glob(filepath.Join(small, "*backup*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if page := metricsOf(t, s); gauge(page, "tollhouse_ready") != 1 || gauge(page, "tollhouse_backup_last_timestamp_seconds") != 0 {
			t.Error("the server is not ready, or tells of a backup")
		}
		if code := s.end(); code != term.ExitOK || !strings.Contains(s.stderr.String(), `"msg":"scheduled backup failed"`) || !strings.Contains(s.stderr.String(), "MiB are free in "+small) {
			t.Errorf("exit %d, log %s", code, s.stderr)
		}
	})
	t.Run("a_read_only_backup_disk_is_refused_at_the_start", func(t *testing.T) {
		t.Parallel()
		small := mountSmall(t, 1)
		err := syscall.Mount("", small, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		must.Have(t, err == nil, fmt.Sprintf("a machine that remounts a tmpfs: %v", err))
		for _, dir := range []string{small} {
			_, stderr, code := run(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", dir)
			if code != term.ExitCannotCreate || !strings.Contains(stderr, "read-only file system") || !strings.Contains(stderr, "hint: choose another directory with --backup-dir; under systemd, create it first and add ReadWritePaths="+dir) {
				t.Errorf("--backup-dir %s: exit %d, %s; want 73 with the way out", dir, code, stderr)
			}
		}
	})
	t.Run("doctor_tells_of_a_disk_that_fills", func(t *testing.T) {
		t.Parallel()
		small := mountSmall(t, 200)
		if _, stderr, code := run(t, "account", "create", "acct_a", "--data", small); code != term.ExitOK {
			t.Fatal(stderr)
		}
		if found, code := findings(t, "--data", small); code != term.ExitOK || found["disk"].State != admin.StateWarning {
			t.Errorf("exit %d, %v; want a warning", code, found)
		}
		s := start(t, "serve", "--data", small, "--listen", "127.0.0.1:0")
		must.Do(t, os.WriteFile(filepath.Join(small, "lost+found"), make([]byte, 120<<20), 0o600))
		found, code := findings(t, "--data", small)
		if disk := found["disk"]; code != term.ExitFailed || disk.State != admin.StateProblem || !strings.Contains(disk.Detail, "changes are refused") {
			t.Errorf("beside a server: exit %d, %v; want a problem with the disk", code, found)
		}
		s.end()
		found, code = findings(t, "--data", small)
		if f := found["store"]; code != term.ExitFailed || f.State != admin.StateProblem || !strings.Contains(f.Detail, "MiB are free") {
			t.Errorf("without a server: exit %d, %v; want that the store cannot be opened for lack of room", code, found)
		}
	})
}

// TestABackupDirectoryThatBecomesReadOnlyIsAFinding: the kernel mounts a disk with errors
// read-only. The next backup may be a day away, and doctor does not wait for it to fail; nor
// does it praise a backup that somebody has removed.
//
// Promise (Backup): a disk too small for a restore is refused; a killed server leaves no partial
// file; a backup directory that vanishes or becomes read-only is a finding
func TestABackupDirectoryThatBecomesReadOnlyIsAFinding(t *testing.T) {
	t.Parallel()
	dir, backups := filepath.Join(t.TempDir(), "data"), mountSmall(t, 400)
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", backups)
	doctor := func() (string, int) {
		out, _, code := run(t, "doctor", "--data", dir)
		return out, code
	}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if out, code := doctor(); code == term.ExitOK && strings.Contains(out, "ok       backup") {
			break
		}
		if time.Since(begun) > startMax {
			t.Fatalf("no backup within %s: %s", startMax, s.stderr)
		}
	}
	made := must.Get(filepath.Glob(filepath.Join(backups, "*.backup")))(t)
	must.Have(t, len(made) == 1, "a backup")
	must.Do(t, os.Remove(made[0]))
	if out, code := doctor(); code != term.ExitOK || !strings.Contains(out, "warning  backup     the last backup was removed: ") {
		t.Errorf("without the file, doctor: exit %d, %s; want a warning", code, out)
	}
	// The server has a file open in it, so it takes a second mount to make it read-only.
	must.Do(t, syscall.Mount(backups, backups, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { must.Do(t, syscall.Unmount(backups, 0)) })
	must.Do(t, syscall.Mount("", backups, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	if out, code := doctor(); code != term.ExitFailed || !strings.Contains(out, "problem  backup     "+backups+" is on a read-only file system") {
		t.Errorf("read-only, doctor: exit %d, %s; want 1 and the reason", code, out)
	}
}
