package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"

	"github.com/spf13/cobra"
)

// TestExamples takes the lines that help shows through the tree of commands:
// there is one for every command, and none that would be refused.
//
// Promise (Commands and settings): every command has an example, a transcript and --json
func TestExamples(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	eachCommand(newRoot(), func(c *cobra.Command) {
		shown[strings.TrimPrefix(c.CommandPath(), "tollhouse ")] = true
		lines := exampleForm.FindAllString(c.Long+"\n"+c.Example, -1)
		if len(lines) == 0 && c.Parent().Name() != "config" && c.Parent().Name() != "completion" && !isGroup(c) && c.Name() != "help" {
			t.Errorf("the help of %s shows no example", c.CommandPath())
		}
		for _, line := range lines {
			checkExample(t, c, line)
		}
	})
	for name := range examples {
		if !shown[name] {
			t.Errorf("there are examples for %q, and no such command", name)
		}
	}
}

// exampleForm finds the lines that begin as an example does.
var exampleForm = regexp.MustCompile(`(?m)^  (?:source <\()?tollhouse .*`)

// isGroup reports whether a command only has others below it.
func isGroup(c *cobra.Command) bool {
	return c.HasSubCommands() && !c.HasLocalFlags() && !strings.Contains(c.Use, " ")
}

func checkExample(t *testing.T, c *cobra.Command, line string) {
	t.Helper()
	words := splitAsShell(line)
	found, rest, err := newRoot().Find(words)
	if err != nil || !found.HasParent() {
		t.Errorf("the help of %s shows a command that there is not: %s", c.CommandPath(), line)
		return
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("the help of %s: %s: %v", c.CommandPath(), line, err)
		return
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		t.Errorf("the help of %s: %s: %v", c.CommandPath(), line, err)
	}
}

// splitAsShell returns the arguments of a line: up to a pipe or redirection,
// without quotes.
func splitAsShell(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "source <("), ")")
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " | ")
	var words []string
	for _, word := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(word, `"'`))
	}
	return words[1:]
}

// TestTranscripts: every command is in a transcript that runs it, and each list
// is run with --json too.
//
// Promise (Commands and settings): every command has an example, a transcript and --json
func TestTranscripts(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	for _, dir := range []string{"manage", "manage/long", "script"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no transcripts in %s: %v", dir, err)
		}
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			script, _, _ := strings.Cut(string(text), "\n-- ")
			said.WriteString(script + "\n")
		}
	}
	root := newRoot()
	ran := map[string]bool{}
	for _, line := range transcriptLine.FindAllStringSubmatch(said.String(), -1) {
		found, _, err := root.Find(splitAsShell("tollhouse " + line[1]))
		if err != nil {
			continue // one that is refused
		}
		ran[found.CommandPath()] = true
		if strings.Contains(line[1], "--json") {
			ran[found.CommandPath()+" --json"] = true
		}
	}
	eachCommand(root, func(c *cobra.Command) {
		path := c.CommandPath()
		if !isGroup(c) && !ran[path] {
			t.Errorf("no transcript runs %s", path)
		}
		if !isGroup(c) && printsResults(c) && !ran[path+" --json"] {
			t.Errorf("no transcript runs %s --json", path)
		}
	})
}

// transcriptLine is a line of a transcript that runs tollhouse, whatever it
// expects of it.
var transcriptLine = regexp.MustCompile(`(?m)^(?:(?:exec|exits \d+|follow \d+) tollhouse|start) (.*)$`)

// printsResults reports whether a command prints what --json changes.
func printsResults(c *cobra.Command) bool {
	switch c.Parent().Name() {
	case "completion", "print": // which write a file of its own form
		return false
	}
	switch c.Name() {
	case "help", "serve", "dev": // the last two have a ready line, which is JSON
		return false
	case "export": // JSON lines anyway
		return false
	}
	return true
}
