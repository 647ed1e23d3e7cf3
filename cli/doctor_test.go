package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// findings runs doctor and reads what it says, by check.
func findings(t *testing.T, args ...string) (found map[string]admin.Finding, code int) {
	t.Helper()
	out, stderr, code := run(t, append([]string{"doctor", "--json"}, args...)...)
	found = map[string]admin.Finding{}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var f admin.Finding
		if err := d.Decode(&f); err != nil {
			t.Fatalf("doctor printed %q, %s: %v", out, stderr, err)
		}
		found[f.Check] = f
		if (f.State == admin.StateOK) != (f.Next == "") {
			t.Errorf("%+v: a next step belongs to what is not ok, and to nothing else", f)
		}
	}
	return found, code
}

// filledDir is a data directory whose store was closed, with events in a table.
func filledDir(t *testing.T) (dir, tablePath string, table []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{{"account", "create", "acct_a"}, {"event", "generate", "--seed", "1", "--events", "300", "--account", "acct_a"}} {
		if _, stderr, code := run(t, append(args, "--data", dir)...); code != term.ExitOK {
			t.Fatal(stderr)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, datadir.GenerationOne, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables = %q, %v", tables, err)
	}
	for _, path := range tables {
		text := must.Get(os.ReadFile(path))(t)
		if len(text) > len(table) {
			tablePath, table = path, text
		}
	}
	return dir, tablePath, table
}

// TestDoctorAfterACheckOfABackup: the note beside it, which others may read, is no problem.
func TestDoctorAfterACheckOfABackup(t *testing.T) {
	t.Parallel()
	dir, _, _ := filledDir(t)
	backups := filepath.Join(dir, "backups")
	must.Do(t, os.Mkdir(backups, 0o700))
	note := filepath.Join(backups, "tollhouse-abcd1234-20261124T100000Z.backup")
	must.Do(t, datadir.NoteCheck(note, time.Now(), nil))
	if found, _ := findings(t, "--data", dir); found["files"].State != admin.StateOK {
		t.Errorf("files: %+v", found["files"])
	}
	must.Do(t, os.Chmod(note+datadir.CheckedSuffix, 0o666))
	if found, _ := findings(t, "--data", dir); found["files"].State != admin.StateProblem {
		t.Errorf("a note that others may change: %+v, want a problem", found["files"])
	}
}

// TestDoctorDamage flips bits all over a table of a closed store: each is found,
// and it is told what they may have hidden.
//
// Promise (Commands and settings): doctor finds present and coming problems with the next step, and
// exits 1 for any; one setting scales memory
func TestDoctorDamage(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const flips = 16
	dir, path, whole := filledDir(t)
	if found, code := findings(t, "--deep", "--data", dir); code != term.ExitOK || found["blocks"].State != admin.StateOK || found["records"].State != admin.StateOK {
		t.Fatalf("a store that is whole: exit %d, %v", code, found)
	}
	opened := 0
	for i := range flips {
		at := (len(whole) - 1) * i / (flips - 1)
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (i % 8)
		must.Do(t, os.WriteFile(path, flipped, 0o600))
		found, code := findings(t, "--deep", "--data", dir)
		if code != term.ExitFailed {
			t.Errorf("byte_%d_of_%d_flipped: exit %d, %v; want 1", at, len(whole), code, found)
			continue
		}
		damage, isBlock := found["blocks"]
		if !isBlock {
			if found["store"].State != admin.StateProblem {
				t.Errorf("byte_%d_of_%d_flipped: %v, want a problem with the store or its blocks", at, len(whole), found)
			}
			continue
		}
		opened++
		if damage.State != admin.StateProblem || !strings.Contains(damage.Detail, filepath.Base(path)) || !strings.Contains(damage.Detail, "events") || !strings.Contains(damage.Next, "restore the last complete backup") {
			t.Errorf("byte_%d_of_%d_flipped: %+v, want the table, and that it may hold events", at, len(whole), damage)
		}
	}
	if opened < flips/2 {
		t.Errorf("%d of %d damaged stores could be opened, want most of them", opened, flips)
	}
	t.Run("beside_a_server_too_which_is_not_ready_then", func(t *testing.T) {
		must.Do(t, os.WriteFile(path, whole, 0o600))
		s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		if found, code := findings(t, "--deep", "--data", dir); code != term.ExitOK {
			t.Fatalf("exit %d, %v", code, found)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must.Do(t, err)
		_, err = f.WriteAt([]byte{^whole[len(whole)/3]}, int64(len(whole)/3))
		must.Do(t, f.Close())
		must.Do(t, err)
		if found, code := findings(t, "--deep", "--data", dir); code != term.ExitFailed || found["blocks"].State != admin.StateProblem {
			t.Errorf("exit %d, %v; want a problem with the blocks", code, found)
		}
		if found, code := findings(t, "--data", dir); code != term.ExitFailed || found["store"].State != admin.StateProblem {
			t.Errorf("afterwards: exit %d, %v; want that the store is known to be damaged", code, found)
		}
		if _, stderr, code := run(t, "health", "--data", dir); code != term.ExitFailed {
			t.Errorf("health: exit %d, %s; want 1", code, stderr)
		}
		if page := metricsOf(t, s); gauge(page, "tollhouse_store_damaged") != 1 {
			t.Error("the server takes no note of the damage")
		}
		s.end()
	})
}
