package proof

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// releaseCommand is the build of print dockerfile and TestRelease.
const releaseCommand = `CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -buildid="`

func readOperations(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "operations.md")))(t)
	return string(text)
}

// docBlock is a fenced block of a document, and where it stands.
type docBlock struct{ chapter, heading, mark, text string }

// documentBlocks returns all fenced blocks in order.
func documentBlocks(text string) []docBlock {
	var blocks []docBlock
	var b docBlock
	inside := false
	for line := range strings.Lines(text) {
		mark, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case inside && fence:
			inside, blocks = false, append(blocks, b)
		case fence:
			inside, b.mark, b.text = true, mark, ""
		case inside:
			b.text += line
		case strings.HasPrefix(line, "## "):
			b.chapter, b.heading = strings.TrimSpace(line[3:]), ""
		case strings.HasPrefix(line, "### "):
			b.heading = strings.TrimSpace(line[4:])
		}
	}
	return blocks
}

// TestOperations holds what docs/operations.md names to what there is. What it
// tells to do is done by TestOperationsByANewcomer.
func TestOperations(t *testing.T) {
	t.Parallel()
	text := readOperations(t)
	t.Run("the_program_is_built_as_a_release", func(t *testing.T) {
		built := "CGO_ENABLED=0 go build " + strings.Replace(strings.Join(releaseFlags, " "), "-s -w -buildid=", `"-s -w -buildid="`, 1)
		if built != releaseCommand || !strings.Contains(text, "\n"+releaseCommand+" -o tollhouse .\n") {
			t.Errorf("the chapter on installing does not build by\n%s", built)
		}
	})
	t.Run("settings_exist", func(t *testing.T) {
		settings := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "settings.md")))(t)
		names := regexp.MustCompile(`TOLLHOUSE_[A-Z_]+`).FindAllString(text, -1)
		for _, name := range names {
			ofProgram := strings.HasPrefix(name, "TOLLHOUSE_BACKUP_") || name == "TOLLHOUSE_INSTANCE" // what --backup-then gets
			if name != "TOLLHOUSE_LONG" && !ofProgram && !strings.Contains(string(settings), "`"+name+"`") {
				t.Errorf("there is no setting %s", name)
			}
		}
		if len(names) < 10 {
			t.Errorf("the document names %d settings", len(names))
		}
	})
	t.Run("long_proofs_name_tests_that_there_are", func(t *testing.T) { findProofs(t, section(text, "The long proofs")) })
}

var (
	proofCommand = regexp.MustCompile("(?m)`((?:TOLLHOUSE_LONG=1 )?)go test ([^`]*)`")
	asksForLong  = regexp.MustCompile(`TOLLHOUSE_LONG|\bmust\.(Long|More)\(`)
)

// findProofs finds each test of the table in its package, and that the long form
// of it is there; and that no package has a long form that the table forgets.
func findProofs(t *testing.T, chapter string) {
	named := map[string]bool{}
	for _, found := range proofCommand.FindAllStringSubmatch(chapter, -1) {
		words := strings.Fields(found[2])
		at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "./") })
		if at < 0 || words[at] == "./..." {
			continue // all packages
		}
		kinds := map[string]string{"-run": "Test", "-bench": "Benchmark", "-fuzz": "Fuzz"}
		dir := strings.TrimSuffix(words[at], "/...")
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests (%v)", dir, err)
			continue
		}
		var source string
		for _, file := range files {
			content := must.Get(os.ReadFile(file))(t)
			source += string(content)
		}
		for i, word := range words[:len(words)-1] {
			kind, pattern := kinds[word], strings.Trim(words[i+1], "'^$")
			if kind == "" || pattern == "" {
				continue
			}
			named[dir] = true
			if !regexp.MustCompile(`(?m)^func ` + kind + `\w*` + strings.TrimPrefix(pattern, kind)).MatchString(source) {
				t.Errorf("%s has no %s that matches %s", dir, kind, pattern)
			}
		}
		if found[1] != "" && !asksForLong.MatchString(source) {
			t.Errorf("nothing in %s has a long form", dir)
		}
	}
	for _, dir := range []string{"./cli/proof", "./store/eventlog", "./store/snapshot", "./handlers"} {
		if !named[dir] {
			t.Errorf("the long forms of %s are not in the table", dir)
		}
	}
}
