package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tollhouse/store/storetest/must"
)

const peakOfEnv = "TOLLHOUSE_TEST_PEAK_OF"

// TestHostileMemory: no file makes its check take much more than a sound one does.
// A process inherits the peak of the one that started it, so that a small one, this
// test once more, starts each check and tells of it.
//
// Promise (Attacks on operations): a malicious backup; a backup directory of another user
// Promise (Backup): restore refuses a cut, changed or newer backup and leaves the live directory
// alone
func TestHostileMemory(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	if path := os.Getenv(peakOfEnv); path != "" {
		cmd := exec.Command("tollhouse", "backup", "verify", path)
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		fmt.Printf("\npeak %d\n", cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
		return
	}
	t.Run("hostile_backups_take_little_memory", func(t *testing.T) {
		t.Parallel()
		_, file := liveDirectory(t)
		peak := func(path string) (bytes int64) {
			t.Helper()
			child := exec.Command(os.Args[0], "-test.run=^TestHostileMemory$")
			child.Env = append(os.Environ(), peakOfEnv+"="+path)
			out, err := child.CombinedOutput()
			_, told, found := strings.Cut(string(out), "\npeak ")
			if _, scanErr := fmt.Sscan(told, &bytes); err != nil || !found || scanErr != nil {
				t.Fatalf("%v, %s", err, out)
			}
			return bytes
		}
		sound := peak(file)
		const more = 32 << 20 // a few chunks, packed and unpacked, and what zstd keeps of them
		for _, h := range hostileBackups(t, file) {
			path := filepath.Join(t.TempDir(), h.name)
			must.Do(t, os.WriteFile(path, h.content, 0o600))
			if used := peak(path); used > sound+more {
				t.Errorf("%s: verify took %d MiB, and of a sound file %d", h.name, used>>20, sound>>20)
			}
		}
	})
}
