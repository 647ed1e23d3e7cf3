package badgerkv

import (
	"os"
	"path/filepath"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestLogsThatWereOnlyBegun: a process killed just after creating a log leaves an empty
// file, which must not keep the next from starting.
func TestLogsThatWereOnlyBegun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"00001.mem", "00009.mem", "000001.vlog", "000009.vlog"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if name != "000001.vlog" { // which exists once the store has records
				db := mustOpen(t, Options{Dir: dir})
				put(t, db, "a", "1")
				mustClose(t, db)
			}
			path := filepath.Join(dir, name)
			must.Do(t, os.WriteFile(path, nil, 0o600))
			db := mustOpen(t, Options{Dir: dir})
			defer mustClose(t, db)
			if name != "000001.vlog" {
				wantValue(t, db, "a", "1")
			}
			put(t, db, "b", "2")
			wantValue(t, db, "b", "2")
		})
	}
}
