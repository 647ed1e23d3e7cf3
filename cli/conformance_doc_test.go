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
)

const conformanceSizeMax = 40 << 10 // bytes; a page that a person still reads

// TestConformancePage holds docs/conformance.md to what exists: every row has a
// promise and tests, and every test is a function of its package.
func TestConformancePage(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile(filepath.Join("..", "docs", "conformance.md")))(t)
	for _, fault := range conformanceFaults(string(page), "..") {
		t.Error(fault)
	}
}

func TestConformancePageFaults(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "store", "kv"), 0o700))
	source := "package kv\n\nfunc TestOne(t *testing.T) {\n\tfunc TestNested(t *testing.T)\n}\n\nfunc TestTwo(t *testing.T) {}\n"
	must.Do(t, os.WriteFile(filepath.Join(root, "store", "kv", "kv_test.go"), []byte(source), 0o600))
	const head = "# Conformance\n\n| promise | tests |\n|---|---|\n"
	for _, test := range []struct {
		name, page, want string
	}{
		{"a_row_with_its_tests", head + "| a \\| b | store/kv TestOne, TestTwo |\n", ""},
		{"tests_of_two_packages", head + "| a | store/kv TestOne; store/kv TestTwo |\n", ""},
		{"a_test_that_does_not_exist", head + "| a | store/kv TestOne, TestThree |\n", "store/kv has no TestThree"},
		{"a_beginning_of_a_name", head + "| a | store/kv TestT |\n", "store/kv has no TestT"},
		{"a_nested_name", head + "| a | store/kv TestNested |\n", "store/kv has no TestNested"},
		{"a_package_that_does_not_exist", head + "| a | store TestOne |\n", "store has no TestOne"},
		{"a_package_without_tests", head + "| a | store/kv |\n", "line 5 names no test"},
		{"a_row_without_tests", head + "| a |  |\n", "line 5 names no test"},
		{"a_row_without_a_promise", head + "|  | store/kv TestOne |\n", "line 5 has no promise"},
		{"a_row_of_one_cell", head + "| store/kv TestOne |\n", "line 5 has 1 cells"},
		{"no_row", head, "the page has no rows"},
		{"a_page_over_the_limit", head + "| a | store/kv TestOne |\n" + strings.Repeat("\n", conformanceSizeMax), "over"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			faults := conformanceFaults(test.page, root)
			if test.want == "" && len(faults) > 0 {
				t.Errorf("faults = %q, want none", faults)
			}
			contains := func(fault string) bool { return strings.Contains(fault, test.want) }
			if test.want != "" && (len(faults) != 1 || !contains(faults[0])) {
				t.Errorf("faults = %q, want one with %q", faults, test.want)
			}
		})
	}
}

var (
	cellBorder   = regexp.MustCompile(`(?:^| )\|(?: |$)`)
	tableHeading = regexp.MustCompile(`^\| promise \| tests \|$|^\|---`)
)

// conformanceFaults are the rows without a promise or tests, the tests that no
// package below root has, and a page over its limit.
func conformanceFaults(page, root string) (faults []string) {
	if len(page) > conformanceSizeMax {
		faults = append(faults, fmt.Sprintf("the page has %d bytes, over %d", len(page), conformanceSizeMax))
	}
	known := map[string][]string{} // functions by package
	rows := 0
	for i, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "|") || tableHeading.MatchString(line) {
			continue
		}
		rows++
		cells := cellBorder.Split(line, -1)
		cells = cells[1 : len(cells)-1]
		if len(cells) != 2 {
			faults = append(faults, fmt.Sprintf("line %d has %d cells", i+1, len(cells)))
			continue
		}
		if strings.TrimSpace(cells[0]) == "" {
			faults = append(faults, fmt.Sprintf("line %d has no promise", i+1))
		}
		for group := range strings.SplitSeq(cells[1], ";") {
			pkg, names, _ := strings.Cut(strings.TrimSpace(group), " ")
			if names == "" {
				faults = append(faults, fmt.Sprintf("line %d names no test", i+1))
				continue
			}
			if known[pkg] == nil {
				known[pkg] = testFunctions(filepath.Join(root, filepath.FromSlash(pkg)))
			}
			for name := range strings.SplitSeq(names, ", ") {
				if !slices.Contains(known[pkg], name) {
					faults = append(faults, fmt.Sprintf("line %d: %s has no %s", i+1, pkg, name))
				}
			}
		}
	}
	if rows == 0 {
		faults = append(faults, "the page has no rows")
	}
	return faults
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)

// testFunctions are the names of the tests in a package's folder.
func testFunctions(dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			continue // its tests are reported as missing
		}
		for _, found := range testFunction.FindAllSubmatch(source, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}
