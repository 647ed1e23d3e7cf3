package cli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// TestSumUp: an import is whole only when both ends counted the same.
//
// Promise (§3.3): the command compares sent and seen, and exits 65 for a refused line; export,
// import and export is byte-identical
func TestSumUp(t *testing.T) {
	t.Parallel()
	const file = "one\ntwo\nthree"
	for name, c := range map[string]struct {
		answer importAnswer
		read   int64 // bytes of the file that were read
		want   int
	}{
		"all_arrived":          {importAnswer{ImportCounts: admin.ImportCounts{Lines: 3, Bytes: 13, Recorded: 3}}, 13, term.ExitOK},
		"server_saw_less":      {importAnswer{ImportCounts: admin.ImportCounts{Lines: 2, Bytes: 8, Recorded: 2}}, 13, term.ExitFailed},
		"bytes_differ":         {importAnswer{ImportCounts: admin.ImportCounts{Lines: 3, Bytes: 12, Recorded: 3}}, 13, term.ExitFailed},
		"file_was_not_ended":   {importAnswer{ImportCounts: admin.ImportCounts{Lines: 2, Bytes: 8, Recorded: 2}}, 8, term.ExitFailed},
		"a_line_was_refused":   {importAnswer{ImportCounts: admin.ImportCounts{Lines: 2, Bytes: 8, Recorded: 1, Errors: 1}}, 13, term.ExitBadData},
		"lines_were_unlike":    {importAnswer{ImportCounts: admin.ImportCounts{Lines: 3, Bytes: 13, Unchanged: 3}}, 13, term.ExitOK},
		"stopped_at_a_refusal": {importAnswer{ImportCounts: admin.ImportCounts{Lines: 1, Bytes: 4, Errors: 1}}, 8, term.ExitBadData},
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
//
// Promise (Commands and settings): each error has the exit code in the help; after what time can
// cure the unit starts again
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, up := range map[string]bool{"exit_130_server_up": true, "exit_130_server_down": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			_, stderr, code := run(t, "account", "create", "acct_a", "--data", dir)
			must.Have(t, code == term.ExitOK, "a store: "+stderr)
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

// TestImportOfABrokenGzipEndsWithTheSummary: the lines before the damage are recorded, and
// scripts find the summary in the last line.
//
// Promise (§3.3): a refused value is quoted, never a card number or a secret; zstd, bzip2, xz, zip
// and UTF-16 are named; a cut or damaged gzip file is read up to there and ends with the summary
func TestImportOfABrokenGzipEndsWithTheSummary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := `{"id":"a","type":"customer.created","resource":"cus_1","eventData":{"object":{}},"createdAt":1773066600}` + "\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	must.Get(z.Write([]byte(good)))(t)
	must.Do(t, z.Flush())
	cut := packed.Len()
	must.Get(z.Write([]byte(strings.Replace(good, `"a"`, `"b"`, 1))))(t)
	must.Do(t, z.Close())
	whole := packed.String()
	for name, test := range map[string]struct {
		file            string
		lines, recorded int
	}{
		"cut":                  {whole[:cut+4], 2, 1},
		"cut_within_its_head":  {whole[:5], 1, 0},
		"with_something_after": {whole + "and more", 3, 2},
		"zstd":                 {"\x28\xb5\x2f\xfd\x04\x00", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			must.Do(t, os.WriteFile(file, []byte(test.file), 0o600))
			stdout, stderr, code := run(t, "event", "import", file, "--account", "acct_"+name, "--data", filepath.Join(dir, "data"), "--json")
			lines := strings.Split(strings.TrimSpace(stdout), "\n")
			want := fmt.Sprintf(`{"summary":true,"lines":%d,`, test.lines)
			if last := lines[len(lines)-1]; code != term.ExitBadData || len(lines) != 2 || !strings.HasPrefix(last, want) || !strings.Contains(last, fmt.Sprintf(`"recorded":%d,`, test.recorded)) || !strings.Contains(last, `"errors":1`) {
				t.Errorf("exit %d, %s\n%s", code, stdout, stderr)
			}
		})
	}
}

// TestImportNamesAFileInUTF16: the command says which program converts it, as for other
// formats, and a byte order mark within gzip changes nothing.
//
// Promise (§3.3): a refused value is quoted, never a card number or a secret; zstd, bzip2, xz, zip
// and UTF-16 are named; a cut or damaged gzip file is read up to there and ends with the summary
func TestImportNamesAFileInUTF16(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const good = `{"id":"a","type":"customer.created","resource":"cus_1","eventData":{"object":{}},"createdAt":1773066600}` + "\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	must.Get(z.Write([]byte(term.ByteOrderMark + good)))(t)
	must.Do(t, z.Close())
	for name, test := range map[string]struct {
		file, says string
		code       int
	}{
		"utf16":        {inUTF16(good), "iconv -f UTF-16 -t UTF-8", term.ExitBadData},
		"utf32":        {"\xff\xfe\x00\x00{\x00\x00\x00", "iconv -f UTF-32 -t UTF-8", term.ExitBadData},
		"gzip_of_mark": {packed.String(), "1 recorded", term.ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			must.Do(t, os.WriteFile(file, []byte(test.file), 0o600))
			stdout, stderr, code := run(t, "event", "import", file, "--account", "acct_"+name, "--data", filepath.Join(dir, "data"))
			if code != test.code || !strings.Contains(stdout+stderr, test.says) {
				t.Errorf("exit %d, %s\n%s; want %d and %q", code, stdout, stderr, test.code, test.says)
			}
		})
	}
}

// TestAnEmptyValueIsNoAbsentFlag: a shell gives one for a variable that is not set. A purge
// of one resource must not become that of the account.
//
// Promise (Commands and settings): an empty value of a flag that narrows or moves is refused, not
// taken for an absent flag: no purge of an account in place of a resource
func TestAnEmptyValueIsNoAbsentFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "events"), filepath.Join(dir, "data")
	must.Do(t, os.WriteFile(file, []byte(`{"type":"customer.created","resource":"cus_1","eventData":{"object":{}},"createdAt":1773066600}`), 0o600))
	_, stderr, code := run(t, "event", "import", file, "--account", "acct_1", "--data", data)
	must.Have(t, code == term.ExitOK, stderr)
	for _, args := range [][]string{
		{"event", "purge", "--account", "acct_1", "--kind=", "--resource="},
		{"event", "purge", "--account", "acct_1", "--resource="},
		{"webhook", "enable", "wep_1", "--from="},
		{"webhook", "create", "--account", "acct_1", "--url", "https://hooks.example/", "--from="},
	} {
		if _, stderr, code := run(t, append(args, "--data", data)...); code != term.ExitUsage || !strings.Contains(stderr, "is empty") {
			t.Errorf("%q: exit %d, %s; want a refusal of the empty value", args, code, stderr)
		}
	}
	if out, _, _ := run(t, "event", "export", "--account", "acct_1", "--data", data); strings.Count(out, "\n") != 1 {
		t.Errorf("the events are %q, want the one as before", out)
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
