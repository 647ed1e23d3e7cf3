package proof

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The README's two commands. They are not run from within a test: the first is
// what the test starts itself, and the second is the test.
var setUp = []string{"go run . dev", "go test -timeout 40m ./..."}

const (
	setUpSection = "Run it, test it"
	stepsSection = "A token and an event in a minute"
	testsSection = "For tests"
	readmeURL    = "http://127.0.0.1:8655" // dev's on a terminal, in the README's steps
	testsURL     = "http://127.0.0.1:8656" // of the second instance, for tests
	readmeMax    = 8 << 10                 // bytes
	pasteWait    = time.Minute
)

// TestReadme takes the README at its word.
func TestReadme(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "README.md")))(t)
	readme := string(text)

	t.Run("two_commands_are_all_the_set_up", func(t *testing.T) {
		if blocks := shellBlocks(section(readme, setUpSection)); !slices.Equal(blocks, setUp) {
			t.Errorf("under %q stand the sh blocks %q, want %q", setUpSection, blocks, setUp)
		}
	})
	t.Run("ci_runs_its_test_command", func(t *testing.T) {
		ci := string(must.Get(os.ReadFile(filepath.Join("..", "..", ".ci", "run")))(t))
		if !strings.HasSuffix(ci, "\nwith_second_try "+setUp[1]+"\n") {
			t.Errorf(".ci/run does not end with %s", setUp[1])
		}
	})
	t.Run("steps_work_as_they_stand", func(t *testing.T) { pasteSteps(t, shellBlocks(section(readme, stepsSection))) })
	t.Run("dev_for_tests_works_as_it_stands", func(t *testing.T) { pasteForTests(t, shellBlocks(section(readme, testsSection))) })
	t.Run("other_commands_and_flags_exist", func(t *testing.T) { tryCommands(t, shellBlocks(readme)) })
	t.Run("is_short", func(t *testing.T) {
		if len(readme) > readmeMax {
			t.Errorf("README.md has %d bytes, want at most %d", len(readme), readmeMax)
		}
	})
}

// pasteSteps runs the blocks in order and in one shell, as a reader who pastes
// them does, against an instance of the test's own.
func pasteSteps(t *testing.T, blocks []string) {
	bash := needTool(t, "bash")
	needTool(t, "curl")
	script := strings.Join(blocks, "\n")
	for _, step := range []string{"/oauth/v2/token", "/api/events", "/api/resources/"} {
		if !strings.Contains(script, readmeURL+step) {
			t.Fatalf("no sh block under %q goes to %s%s", stepsSection, readmeURL, step)
		}
	}
	s := startDev(t)
	before := s.countEvents()
	script = strings.ReplaceAll(script, readmeURL, s.ready.URL)
	out := paste(t, bash, t.TempDir(), script)
	if !strings.Contains(out, `"object":"list"`) || !strings.Contains(out, `"previousAttributes"`) {
		t.Errorf("the README's steps show no list of events, or no previousAttributes:\n%s", out)
	}
	if after := s.countEvents(); after <= before {
		t.Errorf("the README's change caused no event: there were %d, and are %d", before, after)
	}
}

// pasteForTests starts dev with the flags shown and wants the requests to return a
// code, the same from a second instance, an expired token, and a journal.
func pasteForTests(t *testing.T, blocks []string) {
	bash, dir := needTool(t, "bash"), t.TempDir()
	needTool(t, "curl")
	if len(blocks) != 4 || blocks[0] != "go build -o tollhouse ." {
		t.Fatalf("under %q are the sh blocks %q, want the build, the command, the requests and the helper", testsSection, blocks)
	}
	_, arguments, _ := strings.Cut(strings.TrimSuffix(blocks[1], " &"), "./tollhouse ")
	arguments = strings.Replace(arguments, " --listen 127.0.0.1:8656", "", 1)
	var codes []string
	for range 2 {
		s := start(t, strings.Fields(arguments)...)
		out := paste(t, bash, dir, strings.ReplaceAll(blocks[2], testsURL, s.ready.URL))
		code, rest, _ := strings.Cut(strings.TrimPrefix(out, s.ready.RedirectURI+"?code="), "&")
		codes = append(codes, code)
		for _, want := range []string{`"expires_in":-60`, `"unix":1781524800`, `"id":"flt_1"`, `"path":"/oauth/v2/auth"`} {
			if !strings.Contains(rest, want) {
				t.Errorf("the requests show no %s:\n%s", want, out)
			}
		}
	}
	if !strings.HasPrefix(codes[0], "tollac_") || codes[0] != codes[1] {
		t.Errorf("two instances gave %q, want the same code twice", codes)
	}
}

// paste runs lines in a shell in which curl exits non-zero for a refusal, and
// returns what they print.
func paste(t *testing.T, bash, dir, lines string) string {
	t.Helper()
	return shell(t, bash, dir, "curl() { command curl --show-error --fail-with-body \"$@\"; }\n"+lines)
}

// shell runs lines in a shell and returns what they print.
func shell(t *testing.T, bash, dir, lines string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pasteWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "-e", "-u", "-o", "pipefail", "-c", lines)
	cmd.Dir = dir
	cmd.Env = environ()
	cmd.WaitDelay = commandWait
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pasted into a shell: %v\n%s\n-- the lines were --\n%s", err, out, lines)
	}
	return string(out)
}

// tryCommands asks each command that calls the binary for help, which it only
// gives when it knows the command and all its flags.
func tryCommands(t *testing.T, blocks []string) {
	bash := needTool(t, "bash")
	tried := 0
	for line := range strings.Lines(strings.Join(blocks, "\n")) {
		_, arguments, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), " &"), "./tollhouse ")
		if !found {
			continue
		}
		tried++
		cmd := exec.CommandContext(t.Context(), bash, "-c", `"$0" `+arguments+" --help", program(t))
		cmd.Env = environ()
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("tollhouse %s: %v\n%s", arguments, err, out)
		}
	}
	if tried == 0 {
		t.Error("README.md calls the binary nowhere")
	}
}

// section returns what stands under a heading of the second level.
func section(text, heading string) string {
	_, rest, _ := strings.Cut(text, "\n## "+heading+"\n")
	inside, _, _ := strings.Cut(rest, "\n## ")
	return inside
}

// shellBlocks returns the fenced blocks of a Markdown text that are marked sh.
func shellBlocks(text string) []string { return fencedBlocks(text, "sh") }

// fencedBlocks returns the fenced blocks of a Markdown text that are marked so.
func fencedBlocks(text, mark string) []string {
	var blocks []string
	var block []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case !inside && line == "```"+mark:
			inside, block = true, nil
		case inside && line == "```":
			inside, blocks = false, append(blocks, strings.Join(block, "\n"))
		case inside:
			block = append(block, line)
		}
	}
	return blocks
}

// countEvents counts the demo account's events.
func (s *server) countEvents() int {
	s.t.Helper()
	c := s.asClient(credentials{ID: s.ready.ClientID, Secret: s.ready.ClientSecret})
	p, a, err := c.grant(s.t.Context(), "password", "username", s.ready.Username, "password", s.ready.Password)
	if err != nil || p.Access == "" {
		s.t.Fatalf("password grant: %s, %v", a, err)
	}
	events, err := c.eventsAfter(s.t.Context(), p.Access, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return len(events)
}
