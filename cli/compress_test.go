package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCompress: what is stored with --compress takes less than half of the disk, and
// a store is read, written to and checked with it and without, whatever it was made
// with.
func TestCompress(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	made, plain, packed, file := filepath.Join(root, "made"), filepath.Join(root, "plain"), filepath.Join(root, "packed"), filepath.Join(root, "file")
	must := func(args ...string) string {
		t.Helper()
		out, stderr, code := run(t, args...)
		if code != exitOK {
			t.Fatalf("tollhouse %v: exit %d, %s", args, code, stderr)
		}
		return out
	}
	lines := generatedInto(t, root)
	s := start(t, "serve", "--data", made, "--listen", "127.0.0.1:0", "--compress")
	must(append(lines, "--data", made)...)
	must("backup", file, "--data", made)
	if code := s.end(); code != exitOK {
		t.Fatalf("the server ended with %d: %s", code, s.stderr)
	}
	must("restore", file, "--data", plain)
	must("restore", file, "--data", packed, "--compress")
	least := 2 * max(tableBytes(t, made), tableBytes(t, packed))
	if whole := tableBytes(t, plain); least == 0 || least > whole {
		t.Errorf("tables of %d bytes by serve --compress, %d by restore --compress and %d without; want at most half",
			tableBytes(t, made), tableBytes(t, packed), whole)
	}

	want := must("event", "export", "--account", "acct_a", "--data", made)
	for _, dir := range []string{made, plain, packed} {
		for _, flags := range [][]string{nil, {"--compress"}} {
			s := start(t, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, flags...)...)
			must("account", "create", "acct_"+filepath.Base(dir)+flagName(flags), "--data", dir)
			if got := must("event", "export", "--account", "acct_a", "--data", dir); got != want {
				t.Errorf("%s served with %v exports %d bytes, want the %d that were recorded", filepath.Base(dir), flags, len(got), len(want))
			}
			must("doctor", "--deep", "--data", dir)
			if code := s.end(); code != exitOK {
				t.Errorf("the server of %s with %v ended with %d: %s", filepath.Base(dir), flags, code, s.stderr)
			}
		}
	}
}

func flagName(flags []string) string {
	if len(flags) == 0 {
		return "_plain"
	}
	return "_packed"
}

// tableBytes sums the engine's tables in a data directory.
func tableBytes(t *testing.T, dir string) (sum int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "db-*", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}
