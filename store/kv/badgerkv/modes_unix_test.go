//go:build linux || darwin

package badgerkv

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const modesDirEnv = "TOLLHOUSE_TEST_MODES_DIR"

// TestFileModes opens a store in a child process, because the umask belongs to
// the whole process and parallel tests must not see it change.
func TestFileModes(t *testing.T) {
	if dir := os.Getenv(modesDirEnv); dir != "" {
		syscall.Umask(0o077)
		db := mustOpen(t, Options{Dir: dir})
		put(t, db, "a", "1")
		wantModes(t, dir)
		mustClose(t, db)
		wantModes(t, dir)
		return
	}
	t.Run("no_file_is_open_to_others", func(t *testing.T) {
		t.Parallel()
		child := exec.Command(os.Args[0], "-test.run=^TestFileModes$", "-test.v")
		child.Env = append(os.Environ(), modesDirEnv+"="+filepath.Join(t.TempDir(), "db-0001"))
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("child: %v\n%s", err, out)
		}
	})
}

func wantModes(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if perm := info.Mode().Perm(); perm&0o077 != 0 {
			t.Errorf("%s has mode %o, want none for group and others", path, perm)
		}
		files++
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("walk %s = %d entries, %v, want Badger's files and the stamp", dir, files, err)
	}
}
