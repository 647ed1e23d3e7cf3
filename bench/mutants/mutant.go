package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one rule taken out of the code.
type mutant struct {
	name   string
	breaks string // the rule, and who states it
	under  string // the directory of its file, or one above
	fn     string // the function around the text, where the text alone is not unique
	old    string // exactly once there; white space is like any other
	new    string
	in     string   // the package of the tests that must fail, or one above; "" is under
	tests  []string // their names
}

// table lists all mutants.
func table() []mutant {
	return slices.Concat(secretMutants, throttleMutants, factorMutants, codeMutants, tokenMutants, pageMutants, eventMutants, webhookMutants, auditMutants, importMutants)
}

// weaken finds the mutant's file below root and returns its path, and its text without
// the rule.
func (m mutant) weaken(root string) (file string, weakened []byte, err error) {
	old := regexp.MustCompile(blanks.ReplaceAllString(regexp.QuoteMeta(m.old), `\s+`))
	found := 0
	err = goFiles(root, m.under, func(name string) error {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !old.Match(source) || strings.HasSuffix(name, "_test.go") {
			return err
		}
		for _, at := range old.FindAllIndex(source, -1) {
			if m.fn == "" || m.fn == functionAt(source, at[0]) {
				found++
				file, weakened = name, slices.Concat(source[:at[0]], []byte(m.new), source[at[1]:])
			}
		}
		return nil
	})
	if err == nil && found != 1 {
		err = fmt.Errorf("its text is %d times under %s, not once; rewrite it in the table", found, m.under)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return file, weakened, nil
}

var blanks = regexp.MustCompile(`\s+`)

// functionAt is the name of the function or method around an offset of a source.
func functionAt(source []byte, offset int) string {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		return ""
	}
	at := fset.File(parsed.FileStart).Pos(offset)
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= at && at < f.End() {
			return f.Name.Name
		}
	}
	return ""
}

// packages are those, below the root, that have a test of the mutant.
func (m mutant) packages(root string) (found []string, err error) {
	for _, name := range m.tests {
		test := regexp.MustCompile(`(?m)^func ` + name + `\(`)
		before := len(found)
		err := goFiles(root, m.testsUnder(), func(file string) error {
			source, err := os.ReadFile(filepath.Join(root, file))
			if strings.HasSuffix(file, "_test.go") && test.Match(source) {
				found = append(found, "./"+path.Dir(file))
			}
			return err
		})
		if err == nil && len(found) == before {
			err = fmt.Errorf("no test %s under %s", name, m.testsUnder())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func (m mutant) testsUnder() string {
	if m.in != "" {
		return m.in
	}
	return m.under
}

// goFiles calls do with each Go file under a directory, named from the root.
func goFiles(root, under string, do func(file string) error) error {
	return filepath.WalkDir(filepath.Join(root, under), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return do(filepath.ToSlash(name))
	})
}

func (m mutant) pattern() string { return patternOf(m.tests) }

// patternOf is the -run pattern of exactly these tests.
func patternOf(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }
