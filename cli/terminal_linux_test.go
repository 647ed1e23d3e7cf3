package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal of that many columns: our end, and a
// program's.
func openTerminal(t *testing.T, columns int) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)})
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// shownBy returns what a command writes on a terminal: its standard output, and
// standard error too, or that alone when the output goes to a file.
func shownBy(t *testing.T, columns int, into string, args ...string) string {
	t.Helper()
	ours, theirs := openTerminal(t, columns)
	cmd := exec.Command("tollhouse", args...)
	cmd.Stdout, cmd.Stderr = theirs, theirs
	if into != "" {
		f, err := os.Create(into)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdout = f
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	shown, _ := io.ReadAll(ours) // ends in EIO, when nobody has the other end open
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, shown)
	}
	return strings.ReplaceAll(string(shown), "\r\n", "\n")
}

// TestTablesFitTheTerminal looks at every list on a narrow terminal: no line is
// wider, and nothing is lost of what a script gets.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	plant(t, dir, s.text("url"))
	for _, command := range [][]string{
		{"client", "list"}, {"user", "list"}, {"account", "list"}, {"session", "list"}, {"token", "list"}, {"audit"},
		{"event", "list", "--account", "larkspur"}, {"config", "serve"}, {"config", "dev"}, {"status"},
	} {
		for _, columns := range []int{40, 60, 80, 200} {
			t.Run(fmt.Sprintf("appliance_%s_in_%d", strings.Join(command[:min(len(command), 2)], "_"), columns), func(t *testing.T) {
				t.Parallel()
				args := append(command, "--data", dir)
				shown := shownBy(t, columns, "", args...)
				for line := range strings.Lines(shown) {
					if n := cellsOf(strings.TrimSuffix(line, "\n")); n > columns {
						t.Errorf("a line of %d characters: %q", n, line)
					}
				}
				if command[0] == "status" { // which tells the time
					return
				}
				plain, stderr, code := run(t, args...)
				if code != exitOK || string(letters(plain)) != string(letters(shown)) {
					t.Errorf("exit %d %s: the terminal shows\n%s\na script gets\n%s", code, stderr, shown, plain)
				}
			})
		}
	}
}

// plant makes one of everything that lists show.
func plant(t *testing.T, dir, at string) {
	t.Helper()
	must := func(args ...string) string {
		out, stderr, code := run(t, append(args, "--data", dir)...)
		if code != exitOK {
			t.Fatalf("%s: exit %d, %s", strings.Join(args, " "), code, stderr)
		}
		return out
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("correct horse battery staple"), 0o600); err != nil {
		t.Fatal(err)
	}
	must("account", "create", "larkspur", "--name", "Larkspur Bookkeeping and Sons, of the Old Town")
	must("user", "create", "harriet", "--account", "larkspur", "--password-file", password)
	client := grantable(t, must("client", "create", "--name", "Larkspur 会計", "--redirect-uri", "https://books.example/callback", "--json"))
	must("event", "generate", "--account", "larkspur", "--events", "20")
	if _, _, err := grantAt(at, client.ClientID, client.ClientSecret, "harriet", "correct horse battery staple"); err != nil {
		t.Fatal(err)
	}
	if _, err := signInAt(at, "harriet", "correct horse battery staple"); err != nil {
		t.Fatal(err)
	}
}

// TestProgress: long work shows one line on a terminal, and takes it away.
func TestProgress(t *testing.T) {
	t.Parallel()
	const events = "12000" // the server tells of each 10,000
	data := filepath.Join(t.TempDir(), "data")
	file, out := filepath.Join(t.TempDir(), "history.ndjson"), filepath.Join(t.TempDir(), "out.ndjson")
	steps := []struct {
		name, into string
		args       []string
		want       []string
		left       string // how the line begins that stands there afterwards
		quietly    bool   // no progress is shown
	}{
		{"appliance_event_generate", file, []string{"event", "generate", "--events", events}, []string{"making events: ", " MiB, ", " MiB/s"}, "", false},
		{"appliance_event_import", "", []string{"event", "import", file, "--data", data, "--account", "acct_a"},
			[]string{"importing: ", " MiB, ", " lines/s, ", " left"}, "12000 lines (7343928 bytes): 12000 recorded, 0 unchanged, 0 refused\n", false},
		{"appliance_event_export", out, []string{"event", "export", "--data", data, "--account", "acct_a"}, []string{"exporting: ", " MiB, ", " MiB/s"}, "", false},
		{"appliance_event_generate_into_an_account", "", []string{"event", "generate", "--data", data, "--account", "acct_b", "--events", events},
			[]string{"importing: ", " lines, ", " left"}, "12000 lines (7343928 bytes): 12000 recorded, 0 unchanged, 0 refused\n", false},
		{"appliance_event_generate_live", "", []string{"event", "generate", "--data", data, "--account", "acct_b", "--live", "--rate", "20/s", "--events", "4"},
			[]string{"recording: ", " events, ", "/s, ", " left"}, "4 lines (", false},
		{"appliance_quiet", "", []string{"event", "import", file, "--data", data, "--account", "acct_a", "--quiet"}, nil, "", true},
		{"appliance_no_line_into_what_is_on_the_terminal", "", []string{"event", "export", "--data", data, "--account", "acct_a"}, nil, "", true},
	}
	for _, step := range steps { // each needs what the one before made
		shown := shownBy(t, 100, step.into, step.args...)
		t.Run(step.name, func(t *testing.T) {
			for _, want := range step.want {
				if !strings.Contains(shown, want) {
					t.Errorf("the terminal shows %.500q, want %q in it", shown, want)
				}
			}
			const erase = "\r\033[K"
			if step.quietly {
				if strings.Contains(shown, erase) {
					t.Errorf("the terminal shows %.500q, want no progress", shown)
				}
				return
			}
			if last := shown[strings.LastIndex(shown, erase)+len(erase):]; !strings.HasPrefix(last, step.left) || strings.Count(last, "\n") != min(len(step.left), 1) {
				t.Errorf("at the end stands %q, want the line of progress taken away and %q", last, step.left)
			}
		})
	}
	t.Run("appliance_on_a_terminal_only", func(t *testing.T) {
		t.Parallel()
		_, stderr, code := run(t, "event", "import", file, "--data", data, "--account", "acct_a")
		if code != exitOK || stderr != "" {
			t.Errorf("exit %d, standard error %q; want nothing on it", code, stderr)
		}
	})
	t.Run("appliance_work_that_nobody_tells_of", func(t *testing.T) {
		t.Parallel()
		ours, theirs := openTerminal(t, 100)
		p := &program{stderr: theirs}
		err := p.waiting("removing events", func() error { return readUntil(ours, "removing events: for 1s") })
		if err != nil {
			t.Fatal(err)
		}
		if err := readUntil(ours, "\r\033[K"); err != nil { // and it is taken away
			t.Fatal(err)
		}
	})
	t.Run("appliance_one_line_on_a_narrow_terminal", func(t *testing.T) {
		t.Parallel()
		ours, theirs := openTerminal(t, 20)
		p := &program{stderr: theirs}
		g := p.newProgress("importing")
		g.show(0.5, "%d lines of a long history", 7)
		_ = theirs.Close()
		shown, _ := io.ReadAll(ours)
		if got := strings.TrimPrefix(string(shown), "\r\033[K"); cellsOf(got) >= 20 || !strings.HasPrefix(got, "importing: 7") {
			t.Errorf("the terminal of 20 columns shows %q", shown)
		}
	})
}

// readUntil reads what is shown until that is among it.
func readUntil(ours *os.File, want string) error {
	var shown strings.Builder
	b := make([]byte, 1<<10)
	for begun := time.Now(); time.Since(begun) < startMax; {
		n, err := ours.Read(b)
		shown.Write(b[:n])
		if strings.Contains(shown.String(), want) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the terminal shows %q, want %q", shown.String(), want)
}
