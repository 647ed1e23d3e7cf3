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

// TestOperationsDocument takes each command of docs/operations.md through the tree
// of commands: there is one of that name, with these flags and as many operands.
func TestOperationsDocument(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "docs", "operations.md")))(t)
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
	if len(tried) < 40 {
		t.Errorf("%d commands were found, want 40 or more: %v", len(tried), tried)
	}
}
