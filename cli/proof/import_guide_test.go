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
	guideRuns(t, bash, "import.md", t.TempDir(), 4)
}

// guideRuns runs the commands of a page in a directory, and compares what they print with it. The
// page shows at least so many steps.
func guideRuns(t *testing.T, bash, page, dir string, stepsMin int) {
	path := filepath.Join("..", "..", "docs", page)
	text := must.Get(os.ReadFile(path))(t)
	const between = "=== answer ==="
	guide := guideSteps(string(text))
	var script strings.Builder
	script.WriteString("PATH=" + filepath.Dir(program(t)) + ":$PATH\n")
	for _, step := range guide {
		script.WriteString("{ :\n" + step.request + "} || true\necho '" + between + "'\n")
	}
	answers := strings.Split(strings.ReplaceAll(shell(t, bash, dir, script.String()), dir, "/srv"), between)
	for i, step := range guide {
		got := strings.TrimSpace(answers[i])
		if *updateGuide {
			text = bytes.Replace(text, []byte(step.whole), []byte(strings.Replace(step.whole, "```text\n"+step.answer, "```text\n"+got+"\n", 1)), 1)
			continue
		}
		if want := strings.TrimSpace(step.answer); got != want {
			t.Errorf("%s\nprints\n%s\nand docs/%s says\n%s", step.request, got, page, want)
		}
	}
	if len(guide) < stepsMin {
		t.Errorf("docs/%s shows %d steps, want %d or more", page, len(guide), stepsMin)
	}
	if *updateGuide {
		must.Do(t, os.WriteFile(path, text, 0o644))
	}
}
