package proof

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestImportGuide runs the commands of docs/import.md in one directory, as a reader who
// pastes them does, and compares what they print with the document.
//
// Promise (§3.3): the page about importing shows commands that run and what they print
func TestImportGuide(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	bash := needTool(t, "bash")
	needTool(t, "python3")
	path := filepath.Join("..", "..", "docs", "import.md")
	text := must.Get(os.ReadFile(path))(t)
	const between = "=== answer ==="
	guide := guideSteps(string(text))
	var script strings.Builder
	script.WriteString("PATH=" + filepath.Dir(program(t)) + ":$PATH\n")
	for _, step := range guide {
		script.WriteString("{ :\n" + step.request + "} || true\necho '" + between + "'\n")
	}
	dir := t.TempDir()
	answers := strings.Split(strings.ReplaceAll(shell(t, bash, dir, script.String()), dir, "/srv"), between)
	for i, step := range guide {
		got := strings.TrimSpace(answers[i])
		if *updateGuide {
			text = bytes.Replace(text, []byte(step.whole), []byte(strings.Replace(step.whole, "```text\n"+step.answer, "```text\n"+got+"\n", 1)), 1)
			continue
		}
		if want := strings.TrimSpace(step.answer); got != want {
			t.Errorf("%s\nprints\n%s\nand docs/import.md says\n%s", step.request, got, want)
		}
	}
	if len(guide) < 4 {
		t.Errorf("docs/import.md shows %d steps, want one for each section", len(guide))
	}
	if *updateGuide {
		must.Do(t, os.WriteFile(path, text, 0o644))
	}
}
