package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStart: what a package computes when it is linked in is paid for by every
// command, before it begins. So no pattern of ours is compiled before it is asked,
// and no package has a function that runs by itself.
func TestStart(t *testing.T) {
	t.Parallel()
	t.Run("nothing_is_compiled_before_main", func(t *testing.T) {
		t.Parallel()
		read := 0
		for _, file := range sourceFiles(t) {
			if file.test || under(file.pkg, []string{"cli/proof"}) {
				continue
			}
			read++
			code, err := os.ReadFile(filepath.Join("..", file.path))
			if err != nil {
				t.Fatal(err)
			}
			for _, early := range computedEarly(t, file.path, code) {
				t.Error(early)
			}
		}
		if read < 100 {
			t.Errorf("%d files were read, want all of them", read)
		}
	})
	t.Run("the_command_that_is_named_is_the_only_one_made", func(t *testing.T) {
		t.Parallel()
		whole := (&program{}).rootCommand(nil)
		if n := len(whole.Commands()); n < 18 {
			t.Errorf("the whole tree has %d commands, want all", n)
		}
		for name := range commandNames(whole) {
			made := slices.Collect(commandNames((&program{}).rootCommand([]string{name, "x"})))
			if !slices.Equal(made, []string{name}) {
				t.Errorf("%s: %q are made", name, made)
			}
		}
		if other := (&program{}).rootCommand([]string{"--json", "dev"}); len(other.Commands()) != len(whole.Commands()) {
			t.Errorf("behind a flag %d commands are made, want all", len(other.Commands()))
		}
	})
	t.Run("what_is_early_is_found", func(t *testing.T) {
		t.Parallel()
		const code = `package p
			import "regexp"
			var early = map[string]*regexp.Regexp{"a": regexp.MustCompile("a")}
			var later = func() *regexp.Regexp { return regexp.MustCompile("b") }
			func init() {}`
		if found := computedEarly(t, "p.go", []byte(code)); len(found) != 2 {
			t.Errorf("found %q, want the pattern a and the function init", found)
		}
	})
}

// computedEarly names the patterns that are compiled, and the functions that run,
// when the package of a file is initialised.
func computedEarly(t *testing.T, name string, code []byte) (early []string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			if f.Recv == nil && f.Name.Name == "init" {
				early = append(early, fmt.Sprintf("%s: init runs by itself", files.Position(f.Pos())))
			}
			continue
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(call.Sel.Name, "MustCompile") {
				early = append(early, fmt.Sprintf("%s: %s before main", files.Position(n.Pos()), call.Sel.Name))
			}
			_, body := n.(*ast.FuncLit)
			return !body
		})
	}
	return early
}
