package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// openTerminal makes a pseudo-terminal of that many columns: our end, and a
// program's.
func openTerminal(t *testing.T, columns int) (ours, theirs *os.File) {
	t.Helper()
	ours = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
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
	must.Do(t, err)
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
		f := must.Get(os.Create(into))(t)
		defer f.Close()
		cmd.Stdout = f
	}
	must.Do(t, cmd.Start())
	_ = theirs.Close()
	shown, _ := io.ReadAll(ours) // ends in EIO, when nobody has the other end open
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, shown)
	}
	return strings.ReplaceAll(string(shown), "\r\n", "\n")
}

// sortedLetters are the characters of a text but spaces: a wrapped cell stands
// between the lines of its neighbours.
func sortedLetters(text string) string {
	all := []rune(strings.Join(strings.Fields(text), ""))
	slices.Sort(all)
	return string(all)
}

// TestTablesFitTheTerminal looks at every list on a narrow terminal: no line is
// wider, and nothing is lost of what a script gets.
//
// Promise (Commands and settings): long work shows one progress line, on a terminal only; tables
// fit it without loss
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	plantEvents(t, dir, s.text("url"))
	for _, command := range [][]string{
		{"client", "list"}, {"user", "list"}, {"account", "list"}, {"session", "list"}, {"token", "list"}, {"audit"},
		{"event", "list", "--account", "larkspur"}, {"config", "serve"}, {"config", "dev"}, {"status"},
	} {
		for _, columns := range []int{40, 60, 80, 200} {
			t.Run(fmt.Sprintf("%s_in_%d", strings.Join(command[:min(len(command), 2)], "_"), columns), func(t *testing.T) {
				t.Parallel()
				if columns != 60 {
					must.SkipInShort(t)
				}
				args := append(command, "--data", dir)
				shown := shownBy(t, columns, "", args...)
				for line := range strings.Lines(shown) {
					if n := term.Cells(strings.TrimSuffix(line, "\n")); n > columns {
						t.Errorf("a line of %d characters: %q", n, line)
					}
				}
				if command[0] == "status" { // which tells the time
					return
				}
				plain, stderr, code := run(t, args...)
				if code != term.ExitOK || sortedLetters(plain) != sortedLetters(shown) {
					t.Errorf("exit %d %s: the terminal shows\n%s\na script gets\n%s", code, stderr, shown, plain)
				}
			})
		}
	}
}

// plantEvents makes one of everything that lists show.
func plantEvents(t *testing.T, dir, at string) {
	t.Helper()
	tollhouse := func(args ...string) string {
		out, stderr, code := run(t, append(args, "--data", dir)...)
		if code != term.ExitOK {
			t.Fatalf("%s: exit %d, %s", strings.Join(args, " "), code, stderr)
		}
		return out
	}
	password := filepath.Join(t.TempDir(), "password")
	must.Do(t, os.WriteFile(password, []byte("correct horse battery staple"), 0o600))
	tollhouse("account", "create", "larkspur", "--name", "Larkspur Bookkeeping and Sons, of the Old Town")
	tollhouse("user", "create", "harriet", "--account", "larkspur", "--password-file", password)
	client := grantable(t, tollhouse("client", "create", "--name", "Larkspur 会計", "--redirect-uri", "https://books.example/callback", "--json"))
	tollhouse("event", "generate", "--account", "larkspur", "--events", "20")
	if _, _, err := grantAt(at, client.ClientID, client.ClientSecret, "harriet", "correct horse battery staple"); err != nil {
		t.Fatal(err)
	}
	must.Get(signInAt(at, "harriet", "correct horse battery staple"))(t)
}

// TestProgress: long work shows one line on a terminal, and takes it away.
//
// Promise (Commands and settings): long work shows one progress line, on a terminal only; tables
// fit it without loss
func TestProgress(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
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
		{"event_generate", file, []string{"event", "generate", "--events", events}, []string{"generating events: ", " MiB, ", " MiB/s"}, "", false},
		{"event_import", "", []string{"event", "import", file, "--data", data, "--account", "acct_a"},
			[]string{"importing: ", " MiB, ", " lines/s, ", " left"}, "12000 lines (6529330 bytes): 12000 recorded, 0 unchanged, 0 refused\n", false},
		{"event_export", out, []string{"event", "export", "--data", data, "--account", "acct_a"}, []string{"exporting: ", " MiB, ", " MiB/s"}, "", false},
		{"event_generate_into_an_account", "", []string{"event", "generate", "--data", data, "--account", "acct_b", "--events", events, "--until", "2026-03-09T14:30:00Z"},
			[]string{"importing: ", " lines, ", " left"}, "12000 lines (6529330 bytes): 12000 recorded, 0 unchanged, 0 refused\n", false},
		{"event_generate_live", "", []string{"event", "generate", "--data", data, "--account", "acct_b", "--live", "--rate", "20/s", "--events", "4"},
			[]string{"recording: ", " event", "/s, ", " left"}, "4 lines (", false},
		{"quiet", "", []string{"event", "import", file, "--data", data, "--account", "acct_a", "--quiet"}, nil, "", true},
		{"no_line_into_what_is_on_the_terminal", "", []string{"event", "export", "--data", data, "--account", "acct_a"}, nil, "", true},
	}
	tollhouse(t, "account", "create", "acct_a", "--data", data) // a new store is announced, below the last line of progress
	for _, step := range steps {                                // each needs what the one before made
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
	t.Run("on_a_terminal_only", func(t *testing.T) {
		t.Parallel()
		_, stderr, code := run(t, "event", "import", file, "--data", data, "--account", "acct_a")
		if code != term.ExitOK || stderr != "" {
			t.Errorf("exit %d, standard error %q; want nothing on it", code, stderr)
		}
	})
	t.Run("work_that_nobody_tells_of", func(t *testing.T) {
		t.Parallel()
		ours, theirs := openTerminal(t, 100)
		p := &term.Console{Err: theirs}
		must.Do(t, p.Wait("removing events", func() error { return readUntil(ours, "removing events: for ") }))
		if err := readUntil(ours, "\r\033[K"); err != nil { // and it is taken away
			t.Fatal(err)
		}
	})
	t.Run("one_line_on_a_narrow_terminal", func(t *testing.T) {
		t.Parallel()
		ours, theirs := openTerminal(t, 20)
		p := &term.Console{Err: theirs}
		g := p.NewProgress("importing")
		g.Show(0.5, "%d lines of a long history", 7)
		_ = theirs.Close()
		shown, _ := io.ReadAll(ours)
		if got := strings.TrimPrefix(string(shown), "\r\033[K"); term.Cells(got) >= 20 || !strings.HasPrefix(got, "importing: 7") {
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

// TestNothingSteersTheTerminal shows what a tenant recorded and what a caller typed,
// by every command that prints either: no control and no mark of direction reaches
// the terminal, JSON means the same there, and a pipe gets the bytes that were kept.
//
// Promise (Attacks on operations): terminal controls in events, names and arguments; JSON to a pipe
// stays byte for byte
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	const poison = "a\u009b31m\u202e\u2066\u200f\u200b\x7f"
	file := filepath.Join(t.TempDir(), "events.ndjson")
	const id = "evt_01jspd3ayc0008pmps9e7h4ryh"
	line := fmt.Sprintf(`{"id":%q,"resource":"p1","source":"%s","location":"%[2]s","type":"plan.created","eventData":{"object":{"id":"p1","object":"plan","%[2]s":"%[2]s"}},"createdAt":1745582402}`, id, poison)
	bad := filepath.Join(t.TempDir(), "bad.ndjson")
	for name, text := range map[string]string{file: line, bad: `{"` + poison + `":1}`} {
		must.Do(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
	}
	if out, stderr, code := run(t, "event", "import", file, "--data", dir, "--account", "acct_a"); code != term.ExitOK {
		t.Fatalf("import: exit %d, %s%s", code, out, stderr)
	}
	made, stderr, code := run(t, "webhook", "create", "--data", dir, "--account", "acct_a", "--url", "https://hooks.example/a\u202e\u2066\u200f", "--json")
	var endpoint struct{ ID string }
	if err := json.Unmarshal([]byte(made), &endpoint); err != nil || code != term.ExitOK {
		t.Fatalf("webhook create: exit %d, %s%s", code, made, stderr)
	}
	start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--retain", "0", "--webhooks", "off") // for event tail
	shows := func(t *testing.T, want string, args ...string) string {
		t.Helper()
		shown := shownUntil(t, want, args...)
		for _, r := range strings.ReplaceAll(shown, "\r\n", "\n") {
			if r != '\n' && (!unicode.IsGraphic(r) || r == utf8.RuneError) {
				t.Errorf("%s shows %U: %q", strings.Join(args, " "), r, shown)
				break
			}
		}
		return shown
	}
	for name, args := range map[string][]string{
		"event_get":         {"event", "get", id, "--account", "acct_a"},
		"event_get_json":    {"event", "get", id, "--account", "acct_a", "--json"},
		"event_list":        {"event", "list", "--account", "acct_a"},
		"event_list_json":   {"event", "list", "--account", "acct_a", "--json"},
		"event_tail":        {"event", "tail", "--account", "acct_a", "--since", "1"},
		"event_tail_json":   {"event", "tail", "--account", "acct_a", "--since", "1", "--json"},
		"event_export":      {"event", "export", "--account", "acct_a"},
		"event_import":      {"event", "import", bad, "--account", "acct_a"},
		"event_import_json": {"event", "import", bad, "--account", "acct_a", "--json"},
	} {
		t.Run(name+"_shows_escapes", func(t *testing.T) {
			t.Parallel()
			shows(t, `a\u009b31m\u202e\u2066\u200f\u200b\u007f`, append(args, "--data", dir)...)
		})
	}
	for name, args := range map[string][]string{
		"webhook_list":        {"webhook", "list"},
		"webhook_list_json":   {"webhook", "list", "--json"},
		"webhook_show":        {"webhook", "show", endpoint.ID},
		"webhook_show_json":   {"webhook", "show", endpoint.ID, "--json"},
		"webhook_update":      {"webhook", "update", endpoint.ID, "--description", "x"},
		"webhook_update_json": {"webhook", "update", endpoint.ID, "--description", "x", "--json"},
		"webhook_twice":       {"webhook", "create", "--account", "acct_a", "--url", "https://hooks.example/a\u202e\u2066\u200f"},
		"webhook_refused":     {"webhook", "create", "--account", "acct_a", "--url", "https://" + poison},
		"webhook_forward_to":  {"webhook", "listen", "--account", "acct_a", "--forward-to", "http://127.0.0.1:1/" + poison},
	} {
		t.Run(name+"_shows_no_mark_of_direction", func(t *testing.T) {
			t.Parallel()
			want := ""
			if strings.HasPrefix(name, "webhook_list") || strings.HasPrefix(name, "webhook_show") {
				want = `a\u202e\u2066\u200f`
			}
			shows(t, want, append(args, "--data", dir)...)
		})
	}
	for name, args := range map[string][]string{
		"an_unknown_command":         {"event", poison},
		"an_unknown_flag":            {"event", "list", "--" + poison},
		"an_id_that_is_none":         {"event", "get", poison},
		"a_cursor_that_is_none":      {"event", "list", "--after", poison},
		"a_type_that_no_event_has":   {"event", "list", "--account", "acct_a", "--type", "plan" + poison},
		"a_user_that_is_nobody":      {"user", "disable", poison},
		"a_client_that_is_none":      {"client", "show", poison},
		"a_name_that_is_refused":     {"account", "create", "x", "--name", poison},
		"a_time_that_is_none":        {"event", "list", "--since", poison},
		"a_directory_that_is_absent": {"event", "list", "--data", poison},
		"bytes_that_are_no_text":     {"event", "get", "a\x9b31m"},
		"a_value_of_a_setting":       {"config", "serve", "--public-url", "https://pay.example/" + poison},
	} {
		t.Run("of_"+name+"_no_character_steers", func(t *testing.T) {
			t.Parallel()
			shows(t, "", append([]string{"--data", dir}, args...)...)
		})
	}
	t.Run("JSON_on_a_terminal_means_the_same", func(t *testing.T) {
		t.Parallel()
		var e struct{ Source string }
		// It may say before that it waits for another command.
		_, object, _ := strings.Cut(shows(t, "", "event", "get", id, "--account", "acct_a", "--data", dir), "{")
		if err := json.Unmarshal([]byte("{"+object), &e); err != nil || e.Source != poison {
			t.Errorf("source = %q, %v; want %q", e.Source, err, poison)
		}
	})
	t.Run("a_pipe_gets_JSON_byte_for_byte", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"event", "get", id, "--json"}, {"event", "list", "--json"}, {"event", "export"}} {
			out, stderr, code := run(t, append(args, "--account", "acct_a", "--data", dir)...)
			if code != term.ExitOK || strings.Count(out, poison) != 4 {
				t.Errorf("%s: exit %d, %s, %q; want what was recorded", strings.Join(args, " "), code, stderr, out)
			}
		}
	})
	t.Run("the_log_of_a_server_shows_escapes", func(t *testing.T) {
		t.Parallel()
		data := filepath.Join(t.TempDir(), poison)
		shows(t, `a\u009b31m`, "serve", "--data", data, "--listen", "127.0.0.1:0")
		shows(t, `a\u009b31m`, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-format", "json")
	})
}

// shownUntil returns what a command shows on a terminal until want is among it, or,
// if want is empty, until it ends.
func shownUntil(t *testing.T, want string, args ...string) string {
	t.Helper()
	ours, theirs := openTerminal(t, 400)
	cmd := exec.Command("tollhouse", args...)
	cmd.Stdout, cmd.Stderr = theirs, theirs
	must.Do(t, cmd.Start())
	late := time.AfterFunc(startMax, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = theirs.Close()
	var shown strings.Builder
	b := make([]byte, 1<<10)
	for {
		n, err := ours.Read(b)
		shown.Write(b[:n])
		if want != "" && strings.Contains(shown.String(), want) {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		if err != nil { // EIO, when nobody has the other end open
			break
		}
	}
	_ = cmd.Wait() // an exit code says nothing of what was shown
	if !strings.Contains(shown.String(), want) {
		t.Errorf("%s shows %q, want %q in it", strings.Join(args, " "), shown.String(), want)
	}
	return shown.String()
}

// TestAnInterruptEndsAQuestion: the first SIGINT at a question ends the command,
// and nothing is deleted.
func TestAnInterruptEndsAQuestion(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if _, stderr, code := run(t, "account", "create", "acct_a", "--data", data); code != term.ExitOK {
		t.Fatal(stderr)
	}
	ours, theirs := openTerminal(t, 100)
	cmd := exec.Command("tollhouse", "account", "delete", "acct_a", "--data", data)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	must.Do(t, cmd.Start())
	late := time.AfterFunc(startMax, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	must.Do(t, readUntil(ours, "[y/N] "))
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != term.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, term.ExitInterrupted)
	}
	if _, stderr, code := run(t, "account", "show", "acct_a", "--data", data); code != term.ExitOK {
		t.Errorf("the account is gone: %s", stderr)
	}
}

// TestCtrlSFreezesOnlyTheTerminal: a person who stops the output to read it does not stop
// the server.
//
// Promise (Monitoring): unread output freezes nothing, not even a crash; dropped lines are counted
// and reported
func TestCtrlSFreezesOnlyTheTerminal(t *testing.T) {
	t.Parallel()
	ours, theirs := openTerminal(t, 200)
	s := &process{cmd: exec.Command("tollhouse", "dev", "--json"), ended: make(chan error, 1)}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirs, theirs, theirs
	must.Do(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() { s.ended <- s.cmd.Wait() }()
	must.Do(t, json.Unmarshal([]byte(must.Get(bufio.NewReader(ours).ReadString('\n'))(t)), &s.ready))
	must.Get(ours.Write([]byte{'S' & 0x1f}))(t)
	for i := range 20 {
		if got := ask(t, "GET", s.text("url")+"/api/events", ""); got != http.StatusUnauthorized {
			t.Fatalf("request %d gets %d, want 401", i, got)
		}
	}
	stopsSoon(t, s)
}

// TestTheEndOfTheTerminalStopsAServerAsSIGTERMDoes: a request in flight is finished, and
// nohup keeps the server.
//
// Promise (Monitoring): SIGHUP reloads the certificate; on a terminal, and for dev and commands, it
// is SIGTERM
func TestTheEndOfTheTerminalStopsAServerAsSIGTERMDoes(t *testing.T) {
	t.Parallel()
	on := func(t *testing.T, shell string) (s *process, terminal *os.File) {
		hearHangups()
		ours, theirs := openTerminal(t, 80)
		cmd := exec.Command("sh", "-c", shell+`exec "$@"`, "sh", "tollhouse", "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
		cmd.Stdin = theirs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		s = must.Get(startCommand(cmd))(t)
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		must.Do(t, theirs.Close())
		return s, ours
	}
	t.Run("drains", func(t *testing.T) {
		t.Parallel()
		s, terminal := on(t, "")
		conn, answers := slowRequest(t, s)
		must.Do(t, terminal.Close())
		untilRefused(t, s)
		fmt.Fprint(conn, "grant_type=password")
		if answer, err := http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("the request in flight got %v, %v; want its answer, 401", answer, err)
		}
		if <-s.ended; s.cmd.ProcessState.ExitCode() != term.ExitOK {
			t.Errorf("the server ended with %v, want 0: %s", s.cmd.ProcessState, s.stderr)
		}
	})
	t.Run("nohup", func(t *testing.T) {
		t.Parallel()
		s, terminal := on(t, "trap '' HUP; ")
		must.Do(t, terminal.Close())
		must.Do(t, s.cmd.Process.Signal(syscall.SIGHUP))
		if got := ask(t, "GET", s.text("url")+"/readyz", ""); got != http.StatusOK {
			t.Errorf("/readyz is %d, want 200", got)
		}
		if code := s.end(); code != term.ExitOK {
			t.Errorf("the server ended with %d, want 0: %s", code, s.stderr)
		}
	})
}
