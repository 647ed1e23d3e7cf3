package proof

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The README's two commands. They are not run from within a test: the first is
// what the test starts itself, and the second is the test.
var setUp = []string{"go run . dev", "go test ./..."}

const (
	setUpSection = "Run it, test it"
	stepsSection = "A token and an event in a minute"
	testsSection = "For tests"
	readmeURL    = "http://127.0.0.1:8655" // dev's on a terminal, in the README's steps
	pasteWait    = time.Minute
)

// TestReadme takes the README at its word.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)

	t.Run("two_commands_are_all_the_set_up", func(t *testing.T) {
		if blocks := shellBlocks(section(readme, setUpSection)); !slices.Equal(blocks, setUp) {
			t.Errorf("under %q stand the sh blocks %q, want %q", setUpSection, blocks, setUp)
		}
	})
	t.Run("steps_work_as_they_stand", func(t *testing.T) { pasteSteps(t, shellBlocks(section(readme, stepsSection))) })
	t.Run("appliance_dev_for_tests_works_as_it_stands", func(t *testing.T) { pasteForTests(t, shellBlocks(section(readme, testsSection))) })
	t.Run("other_commands_and_flags_exist", func(t *testing.T) { tryCommands(t, shellBlocks(readme)) })
	t.Run("links_lead_to_files", func(t *testing.T) { findLinks(t, readme) })
	t.Run("configuration_names_flags_of_serve", func(t *testing.T) {
		help := string(command(t, "", "serve", "--help"))
		flags := tableFlags.FindAllString(section(readme, "Configuration"), -1)
		if len(flags) == 0 {
			t.Error("the configuration table names no flag")
		}
		for _, flag := range flags {
			if name := strings.Trim(flag, "|, `"); !strings.Contains(help, name+" ") {
				t.Errorf("serve has no %s", name)
			}
		}
	})
}

var relativeLinks = regexp.MustCompile(`\]\(([a-zA-Z][^):#]*)\)`)

// findLinks looks for the files that the README links to.
func findLinks(t *testing.T, readme string) {
	links := relativeLinks.FindAllStringSubmatch(readme, -1)
	if len(links) == 0 {
		t.Error("README.md links to no file")
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join("..", "..", link[1])); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
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

// pasteForTests makes the file, starts dev on it as it stands there, and wants
// the request below it to give a code, the same from a second instance.
func pasteForTests(t *testing.T, blocks []string) {
	bash, dir := needTool(t, "bash"), t.TempDir()
	needTool(t, "curl")
	if len(blocks) != 3 {
		t.Fatalf("under %q stand %d sh blocks, want the file, the command and the request", testsSection, len(blocks))
	}
	paste(t, bash, dir, blocks[0])
	_, arguments, _ := strings.Cut(blocks[1], "./tollhouse ")
	arguments = strings.ReplaceAll(arguments, "shop.ndjson", filepath.Join(dir, "shop.ndjson"))
	var codes []string
	for range 2 {
		s := start(t, strings.Fields(arguments)...)
		out := paste(t, bash, dir, strings.ReplaceAll(blocks[2], readmeURL, s.ready.URL))
		code, _, _ := strings.Cut(strings.TrimPrefix(out, s.ready.RedirectURI+"?code="), "&")
		codes = append(codes, code)
	}
	if !strings.HasPrefix(codes[0], "tollac_") || codes[0] != codes[1] {
		t.Errorf("two instances gave %q, want the same code twice", codes)
	}
}

// paste runs lines in a shell in which curl, unlike itself, does not take a
// refusal for a success, and returns what they print.
func paste(t *testing.T, bash, dir, lines string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pasteWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "-e", "-u", "-o", "pipefail", "-c",
		"curl() { command curl --show-error --fail-with-body \"$@\"; }\n"+lines)
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
		_, arguments, found := strings.Cut(strings.TrimSpace(line), "./tollhouse ")
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

// tableFlags finds a flag in the first column of a table, or the next of several.
var tableFlags = regexp.MustCompile("(?m)(^\\| |, )`--[a-z-]+`")

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
	events, err := c.eventsAfter(s.t.Context(), p.Access, "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	return len(events)
}
