// Package internals writes and checks the pages for people who change the code.
package internals

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"tollhouse/store/storetest/must"
)

//go:generate go test . -run ^TestConformancePage$ -update

var update = flag.Bool("update", false, "write conformance.md")

const (
	pageSizeMax    = 112 << 10 // bytes; a page that a person still reads
	promiseSizeMax = 220       // characters; a cell that a person still reads
)

const pageHead = `# Conformance

What tollhouse promises, and the main tests of each promise. ` + "`go generate ./docs/internals`" + ` writes this page from the comments above the tests: ` +
	"`// Promise (SECTION): …`" + `, with the name of a section below up to its colon. Where the specifications are silent, [decisions.md](decisions.md) explains the choice.
`

// outline has the page's headings. The name of a section is its heading up to the colon.
const outline = `
## OAuth 2.0
### RFC 6749 §2.3: client authentication
### RFC 6749 §3.1, RFC 8252 §7: authorization endpoint
### RFC 6749 §3.2, §3.3: token endpoint and scope
### RFC 6749 §4: grants
### RFC 6749 §5: responses
### RFC 6749 §6: refresh
### RFC 6749 §10: security
### RFC 6750: bearer tokens
### RFC 7009: revocation
### RFC 7636: PKCE
### RFC 7662, RFC 8252 §8.6: introspection, consent
### RFC 8414, 9207: metadata and issuer
### RFC 9700: best current practice
### Browsers
## Attacks, each tried
### RFC 9700 §4.5, §4.14: codes and tokens
### RFC 9700 §4.1, §4.11: redirect URIs
### RFC 9700 §4.4, §4.7, §4.12, §4.16: browsers
### RFC 9110, RFC 9112: HTTP
### Credentials, memory, connections
### Attacks on the events API
### Attacks on operations
## The events API
### §2.1: the collection
### §2.2: filters
### §2.3: HTTP
### §2.4: the event
### §3.1: resources, which cause events
### §3.2: previousAttributes
### §3.3: import, export and record
### §3.4, §3.5: generator, types of event
### §4.1, §4.2: long polls and streams
### §6: the specification's examples
## Webhooks
## The platform API
### Platform §1: platform clients and their scopes
### Platform §2: acting for an account
### Platform §3: the calls
### Platform §4, §5: invitations, audit
### Platform §6: the feed of all accounts
### Platform §7: own data
### Platform §8, §16: elsewhere, attacks
## Moving in, and out
### Platform §9: one file
### Platform §10: passwords
### Platform §11: clients
### Platform §12: tokens
### Platform §13: out again
### Platform §14: recipes
## The second factor
### Guard §1: what it is
### Guard §2, §3: setting up a second factor, and the second step
### Guard §4: guessing and replay
### Guard §5: passkeys
### Guard §6: every other door
## The appliance
### Commands and settings
### One data directory, one owner
### Backup
### Guard §10: encrypted backups
### Guard §11: a program after each backup
### Guard §12: attacks
### Monitoring
### Guard §7, §8, §9: findings and alarms
### Testers, bad input
### TLS and proxies
### Releases
## Servers on one database
### Postgres §1: the database
### Postgres §2: commits and reads
### Postgres §3, §9: mistakes about it
### Postgres §5: servers among themselves

### Postgres §9: doctor, readiness, copies
`

// TestConformancePage holds conformance.md to the promises above the tests.
func TestConformancePage(t *testing.T) {
	t.Parallel()
	promises, faults := promisesOf(os.DirFS("../.."))
	page, more := conformancePage(promises, outline)
	for _, fault := range append(faults, more...) {
		t.Error(fault)
	}
	if t.Failed() {
		return
	}
	if *update {
		must.Do(t, os.WriteFile("conformance.md", []byte(page), 0o644))
	}
	if got := must.Get(os.ReadFile("conformance.md"))(t); string(got) != page {
		t.Error("conformance.md differs from the promises above the tests: go generate ./docs/internals writes it")
	}
}

// promise is what one comment above a test says. Tests that repeat it word for word
// share a row.
type promise struct{ section, text, pkg, test string }

var promiseLine = regexp.MustCompile(`^Promise(?: \(([^)]*)\):?|:) *(.*)$`)

// promisesOf are the promises above the tests below root, in the order of the sources,
// and what is wrong with some.
func promisesOf(root fs.FS) (promises []promise, faults []string) {
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || name != "." && name != ".ci" && strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		found, wrong, err := promisesOfFile(file, source)
		promises, faults = append(promises, found...), append(faults, wrong...)
		return err
	})
	if err != nil {
		faults = append(faults, err.Error())
	}
	return promises, faults
}

var testName = regexp.MustCompile(`^(?:Test|Fuzz)(?:[^a-z]|$)`)

func promisesOfFile(file string, source []byte) (promises []promise, faults []string, err error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	tests := map[*ast.CommentGroup]string{} // by the comment above
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Doc != nil && f.Recv == nil && testName.MatchString(f.Name.Name) {
			tests[f.Doc] = f.Name.Name
		}
	}
	for _, comment := range parsed.Comments {
		found := promisesOfComment(comment.Text())
		if test := tests[comment]; test != "" {
			for _, p := range found {
				promises = append(promises, promise{p.section, p.text, path.Dir(file), test})
			}
		} else if len(found) > 0 {
			faults = append(faults, fmt.Sprintf("%s has a promise above no test", fset.Position(comment.Pos())))
		}
	}
	return promises, faults, nil
}

// promisesOfComment reads promises, each up to the next one or an empty line.
func promisesOfComment(text string) (found []promise) {
	open := false
	for line := range strings.SplitSeq(text, "\n") {
		if m := promiseLine.FindStringSubmatch(line); m != nil {
			found, open = append(found, promise{section: m[1], text: m[2]}), true
		} else if open = open && line != ""; open {
			found[len(found)-1].text += " " + line
		}
	}
	return found
}

// conformancePage has a table for each section of the outline, and a row for each promise.
func conformancePage(promises []promise, outline string) (page string, faults []string) {
	for _, p := range promises {
		if strings.TrimSpace(p.text) == "" {
			faults = append(faults, fmt.Sprintf("%s %s: the promise is empty", p.pkg, p.test))
		}
		if n := utf8.RuneCountInString(p.text); n > promiseSizeMax {
			faults = append(faults, fmt.Sprintf("%s %s: the promise has %d characters, over %d", p.pkg, p.test, n, promiseSizeMax))
		}
	}
	var b strings.Builder
	b.WriteString(pageHead)
	left := slices.Clone(promises)
	headings := strings.Split(strings.TrimSpace(outline), "\n")
	for i, heading := range headings {
		fmt.Fprintf(&b, "\n%s\n", heading)
		name, _, _ := strings.Cut(strings.TrimLeft(heading, "# "), ":")
		var here []promise
		left = slices.DeleteFunc(left, func(p promise) bool {
			if p.section == name {
				here = append(here, p)
			}
			return p.section == name
		})
		if len(here) > 0 {
			b.WriteString("\n" + table(here))
		} else if i+1 == len(headings) || strings.HasPrefix(heading, "###") || !strings.HasPrefix(headings[i+1], "###") {
			faults = append(faults, fmt.Sprintf("no promise is in section %q", name))
		}
	}
	for _, p := range left {
		faults = append(faults, fmt.Sprintf("%s %s: the page has no section %q; conformance_test.go lists them", p.pkg, p.test, p.section))
	}
	if b.Len() > pageSizeMax {
		faults = append(faults, fmt.Sprintf("the page has %d bytes, over %d", b.Len(), pageSizeMax))
	}
	return b.String(), faults
}

// table has the promises in their order, with the tests of equal ones in one row.
func table(promises []promise) string {
	var b strings.Builder
	b.WriteString("| promise | tests |\n|---|---|\n")
	for len(promises) > 0 {
		text := promises[0].text
		var packages []string
		tests := map[string][]string{} // by package
		promises = slices.DeleteFunc(promises, func(p promise) bool {
			if p.text != text {
				return false
			}
			if !slices.Contains(packages, p.pkg) {
				packages = append(packages, p.pkg)
			}
			if !slices.Contains(tests[p.pkg], p.test) {
				tests[p.pkg] = append(tests[p.pkg], p.test)
			}
			return true
		})
		var cells []string
		for _, pkg := range packages {
			cells = append(cells, pkg+" "+strings.Join(tests[pkg], ", "))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(text, "|", `\|`), strings.Join(cells, "; "))
	}
	return b.String()
}

func TestConformancePageFaults(t *testing.T) {
	t.Parallel()
	const good = "\n// Promise (A): one\nfunc TestOne(t *testing.T) {}\n"
	for _, test := range []struct{ name, source, want string }{
		{"a_promise", good, ""},
		{"a_promise_without_a_section", good + "\n// Promise: two\nfunc TestTwo(t *testing.T) {}\n", `no section ""`},
		{"an_unknown_section", good + "\n// Promise (B): two\nfunc TestTwo(t *testing.T) {}\n", `no section "B"`},
		{"no_text", good + "\n// Promise (A):\nfunc TestTwo(t *testing.T) {}\n", "kv TestTwo: the promise is empty"},
		{"a_long_text", good + "\n// Promise (A): " + strings.Repeat("§", promiseSizeMax+1) + "\nfunc TestTwo(t *testing.T) {}\n", "has 221 characters"},
		{"above_no_test", good + "\n// Promise (A): two\nfunc helper() {}\n", "kv/kv_test.go:6:1 has a promise above no test"},
		{"apart_from_its_test", good + "\n// Promise (A): two\n\nfunc TestTwo(t *testing.T) {}\n", "above no test"},
		{"above_what_go_does_not_run", good + "\n// Promise (A): two\nfunc Testing() {}\n", "above no test"},
		{"within_a_test", "\n// Promise (A): one\nfunc TestOne(t *testing.T) {\n\t// Promise (A): two\n}\n", "above no test"},
		{"a_section_without_a_promise", "\nfunc TestOne(t *testing.T) {}\n", `no promise is in section "A"`},
		{"a_page_over_the_limit", good + "\n// Promise (A): two\nfunc Test" + strings.Repeat("X", pageSizeMax) + "(t *testing.T) {}\n", "over 114688"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			promises, faults := promisesOf(fstest.MapFS{"kv/kv_test.go": {Data: []byte("package kv\n" + test.source)}})
			_, more := conformancePage(promises, "## Part\n### A: title\n")
			faults = append(faults, more...)
			if test.want == "" && len(faults) > 0 || test.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], test.want)) {
				t.Errorf("faults = %q, want %q", faults, test.want)
			}
		})
	}
}

// TestConformanceRows: tests that repeat a promise word for word share its row.
func TestConformanceRows(t *testing.T) {
	t.Parallel()
	promises, faults := promisesOf(fstest.MapFS{
		"a/a_test.go": {Data: []byte("package a\n\n// TestOne is about x.\n//\n// Promise (A): one\n// a | b\n// Promise (A): two\n//\n// More.\nfunc TestOne() {}\n")},
		"b/b_test.go": {Data: []byte("package b\n\n// Promise (A): one a | b\nfunc TestTwo() {}\n\n// Promise (A): one a | b\nfunc FuzzThree() {}\n")},
	})
	page, more := conformancePage(promises, "## A\n")
	want := "\n## A\n\n| promise | tests |\n|---|---|\n" +
		"| one a \\| b | a TestOne; b TestTwo, FuzzThree |\n| two | a TestOne |\n"
	if got := strings.TrimPrefix(page, pageHead); got != want || len(faults)+len(more) > 0 {
		t.Errorf("page = %s, faults %q %q, want %s", got, faults, more, want)
	}
}
