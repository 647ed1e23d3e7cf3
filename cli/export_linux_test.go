package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// Promise (Platform §13): secrets are not written to a terminal, and an export that a full disk or a
// reader that goes away ends is an error that leaves no file
func TestAnExportThatCannotBeWritten(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	tollhouse(t, append(generatedInto(t, root), "--data", dir)...)
	server := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	defer server.end()
	t.Run("full_disk", func(t *testing.T) {
		small := mountSmall(t, 1)
		must.Do(t, os.WriteFile(filepath.Join(small, "filler"), make([]byte, 900<<10), 0o600))
		_, stderr, code := run(t, "export", "--secrets", filepath.Join(small, "file"), "--data", dir)
		if code != term.ExitIO || !strings.Contains(stderr, "no space left on device") || !strings.Contains(stderr, "hint: free some space there") {
			t.Errorf("exit %d, %s; want 74 that says so", code, stderr)
		}
		if left, err := os.ReadDir(small); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		full := must.Get(os.Create(filepath.Join(small, "redirected")))(t)
		defer full.Close()
		cmd := exec.Command("tollhouse", "export", "-", "--data", dir)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = full, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != term.ExitIO || !strings.Contains(errs.String(), "the output is incomplete") {
			t.Errorf("redirected: exit %d, %s; want 74", code, &errs)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		ours, theirs := openTerminal(t, 100)
		defer ours.Close()
		cmd := exec.Command("tollhouse", "export", "--secrets", "-", "--data", dir)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = theirs, &errs
		_ = cmd.Run()
		_ = theirs.Close()
		if code := cmd.ProcessState.ExitCode(); code != term.ExitUsage || !strings.Contains(errs.String(), "secrets are not written to a terminal") {
			t.Errorf("exit %d, %s; want 2", code, &errs)
		}
		if audit := tollhouse(t, "audit", "--json", "--data", dir); strings.Count(audit, `"exported with secrets"`) != 1 {
			t.Errorf("the audit log has %s; want the one that met a full disk", audit)
		}
	})
	t.Run("a_reader_that_goes_away", func(t *testing.T) {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("tollhouse export - --data %s | head -n 1", term.ShellQuote(dir)))
		if out := must.Get(cmd.Output())(t); strings.Count(string(out), "\n") != 1 {
			t.Errorf("head has %q", out)
		}
		// The next one finds no other running.
		for range 20 {
			if _, _, code := run(t, "export", "-", "--only", "account", "--data", dir); code == term.ExitOK {
				return
			}
		}
		t.Error("an export whose reader went away keeps others out")
	})
}
