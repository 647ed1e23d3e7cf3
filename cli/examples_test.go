package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExamples takes the lines that help shows through the tree of commands:
// there is one for every command, and none that would be refused.
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
