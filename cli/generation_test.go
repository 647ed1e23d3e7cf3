package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
)

// generationsIn are the names of the generations in a data directory, those that
// are being built too.
func generationsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if generationForm().MatchString(strings.TrimSuffix(e.Name(), newSuffix)) {
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
	r = &restoration{p: &program{stderr: &strings.Builder{}, quiet: true}, file: file, dir: dir}
	if err := r.lockOut(); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	b, size, err := r.examine(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := r.build(context.Background(), b, size); err != nil {
		t.Fatal(err)
	}
	return r, func() { _ = r.alone.Close() }
}

// TestGenerations: what was in use is kept, and what never was does not stay.
func TestGenerations(t *testing.T) {
	t.Parallel()
	t.Run("reliability_R15_what_a_killed_restore_made_whole_goes_with_the_next", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		_, end := begunRestore(t, dir, file)
		end()
		if err := os.Mkdir(filepath.Join(dir, "db-0003"+newSuffix), 0o700); err != nil {
			t.Fatal(err)
		}
		stillThere(t, dir)
		sameGenerations(t, "after a start", dir, generationOne, generationOne, "db-0002", "db-0003.new")
		if _, stderr, code := run(t, "restore", file, "--yes", "--keep", "--data", dir); code != exitOK {
			t.Fatalf("restore: exit %d, %s", code, stderr)
		}
		sameGenerations(t, "after the next restore", dir, "db-0002", generationOne, "db-0002")
		if isUnused(filepath.Join(dir, "db-0002")) {
			t.Error("the generation in use bears the mark of one that never was")
		}
		stillThere(t, dir)
	})
	t.Run("reliability_R15_what_another_process_builds_stays", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		_, end := begunRestore(t, dir, file)
		defer end()
		if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != exitBusy {
			t.Errorf("restore beside another: exit %d, %s; want 75", code, stderr)
		}
		sameGenerations(t, "beside a restore", dir, generationOne, generationOne, "db-0002")
	})
	t.Run("reliability_R15_what_CURRENT_names_stays_though_its_restore_was_killed", func(t *testing.T) {
		t.Parallel()
		for _, started := range []bool{true, false} {
			dir, file := liveDirectory(t)
			r, end := begunRestore(t, dir, file)
			if err := writeFile(filepath.Join(dir, currentName), []byte(r.name+"\n")); err != nil {
				t.Fatal(err)
			}
			end()
			if started {
				if stillThere(t, dir); isUnused(filepath.Join(dir, r.name)) {
					t.Error("a start leaves the mark on the generation in use")
				}
			}
			if _, stderr, code := run(t, "restore", file, "--yes", "--keep", "--data", dir); code != exitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
			sameGenerations(t, "after the next restore", dir, "db-0003", generationOne, "db-0002", "db-0003")
			if isUnused(filepath.Join(dir, "db-0002")) {
				t.Error("the generation that was in use bears the mark of one that never was")
			}
		}
	})
	t.Run("reliability_R15_a_spoilt_CURRENT_costs_no_generation", func(t *testing.T) {
		t.Parallel()
		for _, spoilt := range []string{"", "db-0020\n", "db-0002\r\n", "..\n"} {
			dir, file := liveDirectory(t)
			if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != exitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
			if err := os.WriteFile(filepath.Join(dir, currentName), []byte(spoilt), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, stderr, code := run(t, "account", "list", "--data", dir); code != exitConfig || !strings.Contains(stderr, currentName) {
				t.Errorf("CURRENT %q: account list: exit %d, %s; want 78", spoilt, code, stderr)
			}
			_, stderr, code := run(t, "restore", file, "--yes", "--data", dir)
			if code != exitOK || !strings.Contains(stderr, "names no generation that is there, so all that are there are kept") || strings.Contains(stderr, "to go back") {
				t.Errorf("CURRENT %q: restore: exit %d, %s", spoilt, code, stderr)
			}
			sameGenerations(t, fmt.Sprintf("CURRENT was %q", spoilt), dir, "db-0003", generationOne, "db-0002", "db-0003")
		}
	})
	t.Run("reliability_R15_the_first_restore_was_killed_and_the_next_goes_on", func(t *testing.T) {
		t.Parallel()
		_, file := liveDirectory(t)
		dir := closedDir(t)
		_, end := begunRestore(t, dir, file)
		end()
		for _, args := range [][]string{{"account", "list"}, {"serve", "--listen", "127.0.0.1:0"}} {
			_, stderr, code := run(t, append(args, "--data", dir)...)
			complaint{exitConfig, "db-0001 was built by a restore that was ended before its last step", "restore again"}.judge(t, args[0], stderr, code)
		}
		if _, stderr, code := run(t, "restore", file, "--yes", "--data", dir); code != exitOK {
			t.Fatalf("restore: exit %d, %s", code, stderr)
		}
		sameGenerations(t, "after the next restore", dir, generationOne, generationOne)
		stillThere(t, dir)
	})
	t.Run("reliability_R15_what_was_in_use_and_is_no_more_stays", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		for _, back := range []string{generationOne, "db-0003"} {
			if _, stderr, code := run(t, "restore", file, "--yes", "--keep", "--data", dir); code != exitOK {
				t.Fatalf("restore: exit %d, %s", code, stderr)
			}
			if err := os.WriteFile(filepath.Join(dir, currentName), []byte(back+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		sameGenerations(t, "after two ways back", dir, "db-0003", generationOne, "db-0002", "db-0003")
	})
}

// TestAdopt: a restore that fails at its last step removes what it made, unless the
// next start uses it all the same.
func TestAdopt(t *testing.T) {
	t.Parallel()
	t.Run("reliability_R15_a_pointer_that_was_not_changed_leaves_no_generation", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		// In the place of the file that becomes CURRENT.
		if err := os.MkdirAll(filepath.Join(dir, currentName+newSuffix, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := run(t, "restore", file, "--yes", "--data", dir)
		complaint{exitIO, "cannot write " + filepath.Join(dir, currentName) + ": ", "make room there, or see to the disk, and try again; nothing was changed"}.judge(t, "restore", stderr, code)
		sameGenerations(t, "after the refusal", dir, generationOne, generationOne)
		stillThere(t, dir)
	})
	t.Run("reliability_R15_a_failure_after_the_pointer_was_changed_removes_nothing", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		r, end := begunRestore(t, dir, file)
		defer end()
		lost := errors.New("the change of CURRENT was not synced")
		if err := r.adopt(); err != nil {
			t.Fatal(err)
		}
		if err := r.takeBack(lost); !errors.Is(err, lost) {
			t.Errorf("takeBack() = %v, want why", err)
		}
		sameGenerations(t, "after the change", dir, "db-0002", generationOne, "db-0002")
		stillThere(t, dir)
		told := asFault(migrationFault(dir, &store.OlderError{Found: 1, Known: 2}, r.adopted(), lost))
		if told.code != exitIO || strings.Contains(told.hint, "nothing was changed") || !strings.Contains(told.hint, "see to the disk, then start again") || !errors.Is(told, lost) {
			t.Errorf("a migration that ends so says %v (hint: %s), exit %d", told, told.hint, told.code)
		}
		if err := os.WriteFile(filepath.Join(dir, currentName), []byte(generationOne+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.takeBack(lost); !errors.Is(err, lost) {
			t.Errorf("takeBack() = %v, want why", err)
		}
		sameGenerations(t, "without the change", dir, generationOne, generationOne)
		stillThere(t, dir)
	})
}
