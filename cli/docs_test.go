package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
	"unicode/utf8"
)

// What people still read: pages and tables beyond these limits are skimmed.
const (
	decisionsSizeMax = 72_000 // bytes
	cellSizeMax      = 220    // characters
)

// TestDocuments holds README.md and the pages under docs to short tables, links that lead
// to files and headings, and decisions.md to its size.
func TestDocuments(t *testing.T) {
	t.Parallel()
	pages := must.Get(filepath.Glob("../docs/*.md"))(t)
	internals := must.Get(filepath.Glob("../docs/internals/*.md"))(t)
	if len(pages) < 7 || len(internals) < 5 {
		t.Fatalf("docs has the pages %q, its internals %q", pages, internals)
	}
	for _, page := range slices.Concat(pages, internals, []string{"../README.md"}) {
		for _, fault := range documentFaults(page) {
			t.Errorf("%s %s", page, fault)
		}
	}
}

// TestArchitectureNamesWhatExists holds the packages and files of
// docs/internals/architecture.md to the sources.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../docs/internals/architecture.md"))(t)
	named := regexp.MustCompile("`([a-z]+(?:/[a-z_*.]+)+|[a-z]+\\.go)`").FindAllStringSubmatch(string(page), -1)
	for _, found := range named {
		if files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(found[1]))); err != nil || len(files) == 0 {
			t.Errorf("docs/internals/architecture.md names %s, which does not exist", found[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("docs/internals/architecture.md names %d packages and files, want 30 or more", len(named))
	}
}

func TestDocumentFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, page, text, want string }{
		{"a_good_page", "good.md", "# Two words\n\n[a](#two-words) [b](good.md#two-words) [c](https://pay.example/x)\n", ""},
		{"a_long_cell", "page.md", "| a |\n|---|\n| " + strings.Repeat("§", cellSizeMax+1) + " |\n", "a cell of 221"},
		{"a_cell_at_the_limit", "page.md", "| a |\n|---|\n| " + strings.Repeat("§", cellSizeMax) + " |\n", ""},
		{"a_link_to_no_file", "page.md", "[a](none.md)\n", "none.md"},
		{"an_image_without_a_file", "page.md", "![a](none.png)\n", "none.png"},
		{"a_link_to_no_heading", "page.md", "# One\n\n[a](#two)\n", "#two"},
		{"a_link_to_a_comment_in_a_block", "page.md", "```\n# one\n```\n\n[a](#one)\n", "#one"},
		{"long_decisions", "decisions.md", strings.Repeat("a", decisionsSizeMax+1), fmt.Sprint(decisionsSizeMax+1, " bytes")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			page := filepath.Join(t.TempDir(), test.page)
			must.Do(t, os.WriteFile(page, []byte(test.text), 0o600))
			faults := documentFaults(page)
			if test.want == "" && len(faults) > 0 || test.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], test.want)) {
				t.Errorf("faults = %q, want %q", faults, test.want)
			}
		})
	}
}

var (
	cellBorder = regexp.MustCompile(`(?:^| )\|(?: |$)`)
	pageLink   = regexp.MustCompile(`\]\(([^)# ]*)(?:#([^) ]*))?\)`)
	fenced     = regexp.MustCompile("(?ms)^```.*?^```$")
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchors = regexp.MustCompile(`[^\pL\pN _-]`)
)

// documentFaults are the long cells and the broken links of a page, and a size
// over its limit.
func documentFaults(page string) (faults []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		return []string{err.Error()}
	}
	if filepath.Base(page) == "decisions.md" && len(text) > decisionsSizeMax {
		faults = append(faults, fmt.Sprintf("has %d bytes, over %d", len(text), decisionsSizeMax))
	}
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, cell := range cellBorder.Split(line, -1) {
			if n := utf8.RuneCountInString(cell); n > cellSizeMax {
				faults = append(faults, fmt.Sprintf("line %d has a cell of %d characters", i+1, n))
			}
		}
	}
	for _, link := range pageLink.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		target := page
		if link[1] != "" {
			target = filepath.Join(filepath.Dir(page), link[1])
		}
		content, err := os.ReadFile(target)
		if err != nil || link[2] != "" && !slices.Contains(anchors(string(content)), link[2]) {
			faults = append(faults, fmt.Sprintf("links to %s#%s, which does not exist", link[1], link[2]))
		}
	}
	return faults
}

// anchors are the names that a page's headings have in links.
func anchors(text string) (names []string) {
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(notAnchors.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-"))
	}
	return names
}
