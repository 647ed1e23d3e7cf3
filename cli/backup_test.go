package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/backup"
	"tollhouse/store/storetest/must"
)

// recordEvents records events over the admin socket, one after another, until
// stop is closed. Each says which of its writer's it is.
func recordEvents(t *testing.T, socket, account string, writer int, acked *atomic.Int64, stop <-chan struct{}) {
	a := newSocketAdmin(socket)
	defer a.close()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		event := map[string]any{
			"owner": account, "type": "customer.updated", "resource": fmt.Sprintf("r%d-%d", writer, i%20), "source": "test", "location": "here",
			"eventData": map[string]any{"object": map[string]any{"writer": writer, "turn": i}},
		}
		if err := a.call(context.Background(), "POST", "/admin/events?account="+account, event, nil); err != nil {
			t.Errorf("writer %d: %v", writer, err)
			return
		}
		acked.Add(1)
	}
}

// TestBackupBesideServer takes backups of the real program while four writers
// record events, and restores each elsewhere: it holds everything that was
// acknowledged before it began, and nothing of which the live log does not say
// the same.
//
// Promise (Backup): a backup beside writers is complete and consistent
func TestBackupBesideServer(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const writers, backups = 4, 5
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	tollhouse := func(args ...string) string {
		t.Helper()
		out, stderr, code := run(t, args...)
		if code != term.ExitOK {
			t.Fatalf("tollhouse %v: exit %d, %s", args, code, stderr)
		}
		return out
	}
	tollhouse("account", "create", "acct_a", "--data", dir)
	var acked atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		all.Go(func() { recordEvents(t, s.text("admin_socket"), "acct_a", w, &acked, stop) })
	}
	atLeast := make([]int64, backups)
	for i := range backups {
		for acked.Load() < int64(20*(i+1)) && !t.Failed() {
			runtime.Gosched()
		}
		atLeast[i] = acked.Load()
		tollhouse("backup", filepath.Join(root, strconv.Itoa(i)), "--data", dir)
	}
	close(stop)
	all.Wait()
	live := tollhouse("event", "export", "--account", "acct_a", "--data", dir)
	for i := range backups {
		elsewhere := filepath.Join(root, "restored-"+strconv.Itoa(i))
		tollhouse("restore", filepath.Join(root, strconv.Itoa(i)), "--data", elsewhere)
		got := tollhouse("event", "export", "--account", "acct_a", "--data", elsewhere)
		if n := int64(strings.Count(got, "\n")); n < atLeast[i] || !strings.HasPrefix(live, got) {
			t.Errorf("backup_%d_under_load: %d events, want the first of the live log, at least the %d that were acknowledged", i, n, atLeast[i])
		}
	}
	if code := s.end(); code != term.ExitOK {
		t.Errorf("the server ended with %d: %s", code, s.stderr)
	}
}

// TestRestoreInPlace is the drill: a server with data, a backup, a mistake, a
// restore beside the server, and a start.
//
// Promise (Backup): restore to a new generation, in place, elsewhere, while serving, from a pipe
func TestRestoreInPlace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, file := filepath.Join(root, "data"), filepath.Join(root, "file")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	for _, args := range [][]string{{"account", "create", "acct_kept"}, {"backup", file}, {"account", "delete", "acct_kept", "--yes"}, {"restore", file}} {
		if _, stderr, code := run(t, append(args, "--data", dir)...); code != term.ExitOK {
			t.Fatalf("tollhouse %v: exit %d, %s", args, code, stderr)
		}
	}
	if out, _, _ := run(t, "account", "list", "--data", dir, "--json"); strings.Contains(out, "acct_kept") {
		t.Error("the running server has changed its generation under its clients")
	}
	if code := s.end(); code != term.ExitOK {
		t.Fatalf("the server ended with %d: %s", code, s.stderr)
	}
	again := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if out, _, _ := run(t, "account", "list", "--data", dir, "--json"); !strings.Contains(out, "acct_kept") {
		t.Error("restored_while_serving: the next start does not use what was restored")
	}
	if code := again.end(); code != term.ExitOK { // and nobody writes to stderr any more
		t.Errorf("the server that was started again ended with %d: %s", code, again.stderr)
	}
	if strings.Contains(again.stderr.String(), "server key was missing") {
		t.Error("the restore took the server key away")
	}
}

// TestRestoreRaces: of restores that race beside a server, those that are not
// done say why, and one of them is in use.
//
// Promise (Backup): restore to a new generation, in place, elsewhere, while serving, from a pipe
func TestRestoreRaces(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, file := filepath.Join(root, "data"), filepath.Join(root, "file")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if _, stderr, code := run(t, "backup", file, "--data", dir); code != term.ExitOK {
		t.Fatal(stderr)
	}
	var all sync.WaitGroup
	var done atomic.Int32
	for range 3 {
		all.Go(func() {
			if _, stderr, code := run(t, "restore", file, "--data", dir); code == term.ExitOK {
				done.Add(1)
			} else if code != term.ExitBusy || !strings.Contains(stderr, "another restore") {
				t.Errorf("restore: exit %d, %s", code, stderr)
			}
		})
	}
	all.Wait()
	current, err := datadir.CurrentGeneration(dir)
	if err != nil || current == datadir.GenerationOne || done.Load() == 0 {
		t.Errorf("after %d restores CURRENT names %q, %v", done.Load(), current, err)
	}
	s.end()
	if _, stderr, code := run(t, "account", "list", "--data", dir); code != term.ExitOK {
		t.Errorf("account list: exit %d, %s", code, stderr)
	}
}

// TestRestoreClock: a backup from the future is one of a wrong clock, here or
// there.
//
// Promise (Testers, bad input): unreadable or misspelt configuration; another program's data
// directory; a clock 10 years off
func TestRestoreClock(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := start(t, "dev", "--clock", "2099-01-01T00:00:00Z")
	file, dir := filepath.Join(root, "file"), filepath.Join(root, "data")
	out, stderr, code := run(t, "backup", file, "--admin-socket", s.text("admin_socket"), "--json")
	var made struct{ backup.Header }
	if err := json.Unmarshal([]byte(out), &made); code != term.ExitOK || err != nil || made.Created.Year() != 2099 {
		t.Fatalf("backup of dev: exit %d, %s, %s", code, out, stderr)
	}
	_, stderr, code = run(t, "restore", file, "--data", dir)
	if code != term.ExitBusy || !strings.Contains(stderr, "but the backup was made later, at 2099-01-01T00:00:") {
		t.Errorf("a_clock_years_off: restore: exit %d, %s; want 75 that names both times", code, stderr)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the refused restore has made a directory")
	}
	if _, stderr, code = run(t, "restore", file, "--data", dir, "--accept-clock"); code != term.ExitOK {
		t.Errorf("restore --accept-clock: exit %d, %s", code, stderr)
	}
}

// generatedInto writes a history to a file and returns the command that imports it.
func generatedInto(t *testing.T, root string) []string {
	t.Helper()
	out, stderr, code := run(t, "event", "generate", "--seed", "7", "--events", "2000", "--data", filepath.Join(root, "nowhere"))
	if code != term.ExitOK {
		t.Fatal(stderr)
	}
	lines := filepath.Join(root, "events.ndjson")
	must.Do(t, os.WriteFile(lines, []byte(out), 0o600))
	return []string{"event", "import", lines, "--account", "acct_a"}
}

// TestARestoredCopyLeavesTheBackupsAlone: a copy has the identity of the first server, whose
// backups it would take for its own, and remove.
func TestARestoredCopyLeavesTheBackupsAlone(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	dir, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	backups, file := must.ClosedDir(t), filepath.Join(t.TempDir(), "file.backup")
	scheduled := []string{"--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", backups}
	for _, args := range [][]string{{"account", "create", "a", "--data", dir}, {"backup", file, "--data", dir}, {"restore", file, "--data", copied}} {
		if _, stderr, code := run(t, args...); code != term.ExitOK {
			t.Fatalf("%s: exit %d, %s", args[0], code, stderr)
		}
	}
	first := start(t, append([]string{"serve", "--data", dir}, scheduled...)...)
	_, stderr, code := run(t, append([]string{"serve", "--data", copied}, scheduled...)...)
	complaint{term.ExitBusy, "another server with the same data backs up to " + backups, "--backup-dir"}.judge(t, "serve of the copy", stderr, code)
	first.end()
	start(t, append([]string{"serve", "--data", copied}, scheduled...)...)
}
