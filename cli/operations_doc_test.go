package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"

	"github.com/spf13/pflag"
)

// documentedCommand finds the commands of a document: in its blocks and within its
// sentences.
var documentedCommand = regexp.MustCompile("(?m)(?:^|`|&& |exec (?:-T )?tollhouse /)tollhouse( [a-z][^|>`\\n]*)")

// TestOperationsDocument and TestWebhooksDocument take each command of a document through
// the tree of commands: there is one of that name, with these flags and as many operands.
func TestOperationsDocument(t *testing.T) {
	t.Parallel()
	tryDocumented(t, "operations.md", 40)
}

func TestWebhooksDocument(t *testing.T) {
	t.Parallel()
	tryDocumented(t, "webhooks.md", 12)
}

func tryDocumented(t *testing.T, page string, least int) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "docs", page)))(t)
	tried := map[string]bool{}
	for _, found := range documentedCommand.FindAllStringSubmatch(string(text), -1) {
		line, _, _ := strings.Cut(found[1], " && ")
		line = strings.ReplaceAll(strings.TrimSpace(line), `"$(ls tollhouse-*.backup`, "FILE")
		if tried[line] {
			continue
		}
		tried[line] = true
		c, rest, err := newRoot().Find(splitAsShell("tollhouse " + line))
		if err != nil || !c.HasParent() {
			t.Errorf("there is no command: tollhouse %s", line)
			continue
		}
		if err := c.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("tollhouse %s: %v", line, err)
			continue
		}
		// A sentence may name a command without its operands.
		if operands := c.Flags().Args(); len(operands) > 0 {
			if err := c.ValidateArgs(operands); err != nil {
				t.Errorf("tollhouse %s: %v", line, err)
			}
		}
	}
	if len(tried) < least {
		t.Errorf("%d commands were found, want %d or more: %v", len(tried), least, tried)
	}
}
