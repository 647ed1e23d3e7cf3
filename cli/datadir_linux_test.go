package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestReadOnly: on a filesystem that cannot be written to, everything says so and
// how to go on, and works again when it can.
//
// Promise (One data directory, one owner): 8 commands racing a starting server all succeed; a
// read-only filesystem is reported with the fix
func TestReadOnly(t *testing.T) {
	t.Parallel()
	t.Run("a_read_only_filesystem_is_told_with_the_cure", func(t *testing.T) {
		t.Parallel()
		volume := mountSmall(t, 200)
		dir, file := filepath.Join(volume, "data"), filepath.Join(t.TempDir(), "file")
		for _, args := range [][]string{{"account", "create", "acct_a"}, {"backup", file}} {
			if _, stderr, code := run(t, append(args, "--data", dir)...); code != term.ExitOK {
				t.Fatal(stderr)
			}
		}
		before := contentOf(t, dir)
		remount := func(flags uintptr) {
			t.Helper()
			if err := syscall.Mount("", volume, "", syscall.MS_REMOUNT|flags, ""); err != nil {
				t.Fatalf("remount: %v", err)
			}
		}
		remount(syscall.MS_RDONLY)
		for _, c := range []struct {
			args []string
			dir  string
			code int
			want string
		}{
			{[]string{"serve", "--listen", "127.0.0.1:0"}, dir, term.ExitIO, "data/LOCK is on a read-only file system\n"},
			{[]string{"account", "list"}, dir, term.ExitIO, "data/LOCK is on a read-only file system\n"},
			{[]string{"backup", file + "2"}, dir, term.ExitIO, "data/LOCK is on a read-only file system\n"},
			{[]string{"restore", file}, dir, term.ExitIO, "data/LOCK is on a read-only file system\n"},
			{[]string{"serve", "--listen", "127.0.0.1:0"}, filepath.Join(volume, "another"), term.ExitCannotCreate, "cannot create the data directory "},
		} {
			_, stderr, code := run(t, append(c.args, "--data", c.dir)...)
			if code != c.code || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "read-only file system\n") || !strings.Contains(stderr, "choose another directory with --data") {
				t.Errorf("%v: exit %d, %s; want %d and the cure", c.args, code, stderr, c.code)
			}
		}
		remount(0)
		if changed := must.Unlike(before, contentOf(t, dir)); len(changed) > 0 {
			t.Errorf("what was refused has changed %v", changed)
		}
		if out, stderr, code := run(t, "account", "list", "--data", dir, "--json"); code != term.ExitOK || !strings.Contains(out, "acct_a") {
			t.Errorf("account list afterwards: exit %d, %s, %s", code, out, stderr)
		}
	})
}
