package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// generationsIn are the names of the generations in a data directory, those that
// are being built too.
func generationsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		if datadir.GenerationForm.MatchString(strings.TrimSuffix(e.Name(), datadir.NewSuffix)) {
			names = append(names, e.Name())
		}
	}
	return names
}

func sameGenerations(t *testing.T, when, dir, current string, want ...string) {
	t.Helper()
	if got := generationsIn(t, dir); !slices.Equal(got, want) || mustCurrent(t, dir) != current {
		t.Errorf("%s: %q, and CURRENT names %s; want %q and %s", when, got, mustCurrent(t, dir), want, current)
	}
}

// begunRestore restores file into dir up to the moment before CURRENT is changed,
// and keeps others out until end is called, as the end of its process would.
func begunRestore(t *testing.T, dir, file string) (r *restoration, end func()) {
	t.Helper()
	r = &restoration{p: &program{Console: term.Console{Err: &strings.Builder{}, Quiet: true}}, file: file, dir: dir}
	must.Do(t, r.lockOut())
	in := must.Get(os.Open(file))(t)
	defer in.Close()
	b, size, err := r.examine(context.Background(), in, nil)
	must.Do(t, err)
	defer b.Close()
	must.Do(t, r.build(context.Background(), b, size))
	return r, func() { _ = r.alone.Close() }
}

// TestGenerations: what was in use is kept, and what never was does not stay.
func TestGenerations(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	t.Run("what_a_killed_restore_made_whole_goes_with_the_next", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		_, end := begunRestore(t, dir, file)
		end()
		must.Do(t, os.Mkdir(filepath.Join(dir, "db-0003"+datadir.NewSuffix), 0o700))
		stillThere(t, dir)
		sameGenerations(t, "after a start", dir, datadir.GenerationOne, datadir.GenerationOne, "db-0002", "db-0003.new")
		if _, stderr, code := run(t, "restore", file, "--yes", "--keep", "--data", dir); code != term.ExitOK {
			t.Fatalf("restore: exit %d, %s", code, stderr)
		}
		sameGenerations(t, "after the next restore", dir, "db-0002", datadir.GenerationOne, "db-0002")
		stillThere(t, dir)
		if datadir.IsUnused(filepath.Join(dir, "db-0002")) {
			t.Error("the generation in use bears the mark of one that never was")
		}
	})
	t.Run("a_second_restore_keeps_what_was_in_use_before_the_first", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		for range 2 {
			if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != term.ExitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
		}
		sameGenerations(t, "after two restores without a start", dir, "db-0003", datadir.GenerationOne, "db-0002", "db-0003")
		stillThere(t, dir)
		if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != term.ExitOK {
			t.Fatalf("restore: exit %d, %s", code, stderr)
		}
		sameGenerations(t, "after another, with a start between", dir, "db-0004", "db-0003", "db-0004")
	})
	t.Run("what_another_process_builds_stays", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		_, end := begunRestore(t, dir, file)
		defer end()
		if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != term.ExitBusy {
			t.Errorf("restore beside another: exit %d, %s; want 75", code, stderr)
		}
		sameGenerations(t, "beside a restore", dir, datadir.GenerationOne, datadir.GenerationOne, "db-0002")
	})
	t.Run("what_CURRENT_names_stays_though_its_restore_was_killed", func(t *testing.T) {
		t.Parallel()
		for _, started := range []bool{true, false} {
			dir, file := liveDirectory(t)
			r, end := begunRestore(t, dir, file)
			must.Do(t, datadir.WriteFile(filepath.Join(dir, datadir.CurrentName), []byte(r.name+"\n")))
			end()
			if started {
				if stillThere(t, dir); datadir.IsUnused(filepath.Join(dir, r.name)) {
					t.Error("a start leaves the mark on the generation in use")
				}
			}
			if _, stderr, code := run(t, "restore", file, "--yes", "--keep", "--data", dir); code != term.ExitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
			sameGenerations(t, "after the next restore", dir, "db-0003", datadir.GenerationOne, "db-0002", "db-0003")
		}
	})
	t.Run("a_spoilt_CURRENT_costs_no_generation", func(t *testing.T) {
		t.Parallel()
		for _, spoilt := range []string{"", "db-0020\n", "db-0002\r\n", "..\n"} {
			dir, file := liveDirectory(t)
			if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != term.ExitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, datadir.CurrentName), []byte(spoilt), 0o600))
			if _, stderr, code := run(t, "account", "list", "--data", dir); code != term.ExitConfig || !strings.Contains(stderr, datadir.CurrentName) {
				t.Errorf("CURRENT %q: account list: exit %d, %s; want 78", spoilt, code, stderr)
			}
			_, stderr, code := run(t, "restore", file, "--yes", "--data", dir)
			if code != term.ExitOK || !strings.Contains(stderr, "does not name an existing generation, so all generations are kept") || strings.Contains(stderr, "to undo the restore") {
				t.Errorf("CURRENT %q: restore: exit %d, %s", spoilt, code, stderr)
			}
			sameGenerations(t, fmt.Sprintf("CURRENT was %q", spoilt), dir, "db-0003", datadir.GenerationOne, "db-0002", "db-0003")
		}
	})
	t.Run("the_first_restore_was_killed_and_the_next_goes_on", func(t *testing.T) {
		t.Parallel()
		_, file := liveDirectory(t)
		dir := must.ClosedDir(t)
		_, end := begunRestore(t, dir, file)
		end()
		for _, args := range [][]string{{"account", "list"}, {"serve", "--listen", "127.0.0.1:0"}} {
			_, stderr, code := run(t, append(args, "--data", dir)...)
			complaint{term.ExitConfig, "db-0001 was built by a restore that did not finish", "restore again"}.judge(t, args[0], stderr, code)
		}
		if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != term.ExitOK {
			t.Fatalf("restore: exit %d, %s", code, stderr)
		}
		sameGenerations(t, "after the next restore", dir, datadir.GenerationOne, datadir.GenerationOne)
		stillThere(t, dir)
	})
	t.Run("what_was_in_use_and_is_no_more_stays", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		for _, back := range []string{datadir.GenerationOne, "db-0003"} {
			if _, stderr, code := run(t, "restore", file, "--yes", "--keep", "--data", dir); code != term.ExitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
			stillThere(t, dir)
			must.Do(t, os.WriteFile(filepath.Join(dir, datadir.CurrentName), []byte(back+"\n"), 0o600))
		}
		sameGenerations(t, "after two ways back", dir, "db-0003", datadir.GenerationOne, "db-0002", "db-0003")
	})
}

// TestAdopt: a restore that fails at its last step removes what it made, unless the
// next start uses it all the same.
func TestAdopt(t *testing.T) {
	t.Parallel()
	t.Run("a_pointer_that_was_not_changed_leaves_no_generation", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		// In the place of the file that becomes CURRENT.
		must.Do(t, os.MkdirAll(filepath.Join(dir, datadir.CurrentName+datadir.NewSuffix, "in the way"), 0o700))
		_, stderr, code := run(t, "restore", file, "--yes", "--data", dir)
		complaint{term.ExitIO, "cannot write " + filepath.Join(dir, datadir.CurrentName) + ": ", "free some space there, or check the disk, and try again; nothing was changed"}.judge(t, "restore", stderr, code)
		sameGenerations(t, "after the refusal", dir, datadir.GenerationOne, datadir.GenerationOne)
		stillThere(t, dir)
	})
	t.Run("the_replaced_generation_of_a_killed_server_holds_no_disk_space_in_reserve", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		reserve := filepath.Join(dir, datadir.GenerationOne, "reserve")
		must.Do(t, os.WriteFile(reserve, []byte("space"), 0o600))
		if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != term.ExitOK {
			t.Fatalf("restore: exit %d, %s", code, stderr)
		}
		if _, err := os.Stat(reserve); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the reserve after the restore: %v, want that it is removed", err)
		}
	})
	t.Run("a_failure_after_the_pointer_was_changed_removes_nothing", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		r, end := begunRestore(t, dir, file)
		defer end()
		lost := errors.New("the change of CURRENT was not synced")
		must.Do(t, r.adopt())
		if err := r.rollBack(lost); !errors.Is(err, lost) {
			t.Errorf("rollBack() = %v, want why", err)
		}
		sameGenerations(t, "after the change", dir, "db-0002", datadir.GenerationOne, "db-0002")
		stillThere(t, dir)
		must.Do(t, os.WriteFile(filepath.Join(dir, datadir.CurrentName), []byte(datadir.GenerationOne+"\n"), 0o600))
		if err := r.rollBack(lost); !errors.Is(err, lost) {
			t.Errorf("rollBack() = %v, want why", err)
		}
		sameGenerations(t, "without the change", dir, datadir.GenerationOne, datadir.GenerationOne)
		stillThere(t, dir)
	})
}

func mustCurrent(t *testing.T, dir string) string {
	t.Helper()
	current := must.Get(datadir.CurrentGeneration(dir))(t)
	return current
}
