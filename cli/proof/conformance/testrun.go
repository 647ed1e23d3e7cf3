package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// test is a test, or a subtest, that a run told of.
type test struct {
	pkg, name string
	result    string // "pass", "fail" or "skip"; "" when it never ended
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
}

const eventSizeMax = 16 << 20 // bytes; a line holds one line of a test's output

// readRun reads a whole run. It prints the line of each package and the output
// of what failed, and reports whether anything did.
func readRun(in io.Reader, out io.Writer) (tests []test, failed bool) {
	at := map[[2]string]int{}          // where a test stands in tests
	output := map[[2]string][]string{} // of a test that has not passed, by package and name
	building := map[string][]string{}  // what the compiler says, by package
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, eventSizeMax)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		key := [2]string{e.Package, e.Test}
		if _, known := at[key]; !known && e.Test != "" {
			at[key] = len(tests)
			tests = append(tests, test{pkg: e.Package, name: e.Test})
		}
		switch e.Action {
		case "build-output":
			building[e.ImportPath] = append(building[e.ImportPath], e.Output)
		case "build-fail":
			failed = true
			fmt.Fprint(out, strings.Join(building[e.ImportPath], ""))
		case "output":
			if e.Test == "" && isPackageLine(e.Output) {
				fmt.Fprint(out, e.Output)
				continue
			}
			if !strings.HasPrefix(e.Output, "=== ") { // what go test -v says of its progress
				output[key] = append(output[key], e.Output)
			}
		case "pass", "skip":
			delete(output, key)
		case "fail":
			failed = true
			if e.Test == "" {
				printUnended(out, e.Package, tests, output)
			}
			fmt.Fprint(out, strings.Join(output[key], ""))
			delete(output, key)
		}
		if e.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action) {
			tests[at[key]].result = e.Action
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, err)
		failed = true
	}
	return tests, failed
}

// isPackageLine tells the one line that go test prints of a package from the
// noise of its process.
func isPackageLine(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

// printUnended prints what the tests said that a crash or the time limit cut
// short: nothing else reports them.
func printUnended(out io.Writer, pkg string, tests []test, output map[[2]string][]string) {
	for _, t := range tests {
		if t.pkg == pkg && t.result == "" {
			fmt.Fprint(out, strings.Join(output[[2]string{pkg, t.name}], ""))
		}
	}
}
