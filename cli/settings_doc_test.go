package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

var update = flag.Bool("update", false, "write the golden files and docs/settings.md anew")

// TestSettingsDocument holds docs/settings.md to the flags: it is made from them.
//
// Promise (Commands and settings): config shows each value of the running server, or of the next,
// and its origin, secrets masked; docs/settings.md agrees; the binary prints its unit, Dockerfile
// and more
func TestSettingsDocument(t *testing.T) {
	t.Parallel()
	checkGolden(t, filepath.Join("..", "docs", "settings.md"), settingsDocument())
}

// checkGolden compares a text with a file byte for byte, or writes that.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want := must.Get(os.ReadFile(file))(t)
	if got != string(want) {
		t.Errorf("%s is not what the code makes; go test ./cli -update writes it anew:\n%s", file, got)
	}
}

// newRoot is the tree of all commands, unused.
func newRoot() *cobra.Command {
	p := &program{Console: term.Console{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}
	return p.rootCommand()
}

func settingsDocument() string {
	root := newRoot()
	b := &strings.Builder{}
	b.WriteString(`# Settings

Generated from the flags by ` + "`go test ./cli -run TestSettingsDocument -update`" + `; a test fails when it differs.

A setting comes from its flag, else from its environment variable, else from its default. The values of a list in a variable are separated
by white space. An empty variable counts as unset; an empty value of a flag is refused, unless it clears a setting. An unknown flag is an error and an unknown ` + "`TOLLHOUSE_`" + ` variable a warning; both
suggest the nearest name. A path that begins with a quote, ` + "`~` or `$`" + ` is refused: only a shell expands those. So is a variable with white space around its path. ` + "`tollhouse config`" + ` shows the settings in effect and where each comes from.

## Every command

`)
	for _, group := range globalFlags {
		b.WriteString(group.title + "\n\n")
		settingsTable(b, globalFlagsOf(root, group.names))
		b.WriteString("\n")
	}
	b.WriteString("All commands take these. A command's help shows those that apply to it.\n")
	eachCommand(root, func(c *cobra.Command) {
		// What config takes is what the command that it shows takes.
		if c.LocalNonPersistentFlags().HasAvailableFlags() && !strings.HasPrefix(c.CommandPath(), "tollhouse config") {
			fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
			settingsTable(b, c.LocalNonPersistentFlags())
		}
	})
	return b.String()
}

func settingsTable(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | variable | default | description |\n|---|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "| `--%s` | %s | %s | %s |\n", f.Name, quoted(variableOf(f)), quoted(settingText(f)), strings.ReplaceAll(usage, "|", `\|`))
	})
}

func quoted(text string) string {
	if text == "" {
		return "none"
	}
	return "`" + text + "`"
}
