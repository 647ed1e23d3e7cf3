package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store/storetest/must"
)

// TestSumUp: an import is whole only when both ends counted the same.
func TestSumUp(t *testing.T) {
	t.Parallel()
	const file = "one\ntwo\nthree"
	for name, c := range map[string]struct {
		answer importAnswer
		read   int64 // bytes of the file that were read
		want   int
	}{
		"all_arrived":          {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 3, Bytes: 13, Recorded: 3}}, 13, term.ExitOK},
		"server_saw_less":      {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 2, Bytes: 8, Recorded: 2}}, 13, term.ExitFailed},
		"bytes_differ":         {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 3, Bytes: 12, Recorded: 3}}, 13, term.ExitFailed},
		"file_was_not_ended":   {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 2, Bytes: 8, Recorded: 2}}, 8, term.ExitFailed},
		"a_line_was_refused":   {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 2, Bytes: 8, Recorded: 1, Errors: 1}}, 13, term.ExitBadData},
		"lines_were_unlike":    {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 3, Bytes: 13, Unchanged: 3}}, 13, term.ExitOK},
		"stopped_at_a_refusal": {importAnswer{ImportCounts: handlers.ImportCounts{Lines: 1, Bytes: 4, Errors: 1}}, 8, term.ExitBadData},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &lineCounter{r: strings.NewReader(file)}
			if c.read == int64(len(file)) {
				must.Get(io.Copy(io.Discard, in))(t)
			} else if _, err := io.CopyN(io.Discard, in, c.read); err != nil {
				t.Fatal(err)
			}
			p := &program{Console: term.Console{Out: io.Discard, Err: io.Discard}}
			if code := p.Report(p.sumUp(c.answer, true, false, in)); code != c.want {
				t.Errorf("sumUp = exit %d, want %d", code, c.want)
			}
		})
	}
}

// TestInterrupt: an import whose input never ends is ended by an interrupt, with
// the server up and down.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, up := range map[string]bool{"exit_130_server_up": true, "exit_130_server_down": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if up {
				start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
			}
			cmd := exec.Command("tollhouse", "event", "import", "-", "--data", dir)
			in := must.Get(cmd.StdinPipe())(t)
			must.Do(t, cmd.Start())
			// The pipe holds 64 KiB: once more than that is written, the command
			// has begun to read, and so to heed interrupts.
			line := []byte(`{"id":"a","type":"customer.created","resource":"cus_1","eventData":{"object":{"note":"` + strings.Repeat("x", 1000) + `"}},"createdAt":1773066600}` + "\n")
			for range 200 {
				must.Get(in.Write(line))(t)
			}
			must.Do(t, cmd.Process.Signal(os.Interrupt))
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != term.ExitInterrupted {
				t.Errorf("exit %d, want %d", got, term.ExitInterrupted)
			}
			if _, stderr, code := run(t, "account", "list", "--data", dir); code != term.ExitOK {
				t.Errorf("the command after it: exit %d, %s", code, stderr)
			}
		})
	}
}

// TestFilesAreClosed: no file is open to others after a server and commands have worked in the directory.
func TestFilesAreClosed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if _, stderr, code := run(t, "account", "create", "a", "--data", dir); code != term.ExitOK {
		t.Fatalf("account create: exit %d, %s", code, stderr)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 8 {
		t.Errorf("looked at %d files, %v", files, err)
	}
	s.end()
}
