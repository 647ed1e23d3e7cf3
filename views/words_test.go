package views_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// pageWords are words for people: a capital letter at the front, or a space. Commands to
// paste are none.
var pageWords = regexp.MustCompile(`^[A-Z][a-z]|\S \S`)

var commandLine = regexp.MustCompile(`^(tollhouse|curl) `)

// TestWordsOfPagesAreChosenByViews: handlers fill the props of a page with values and kinds,
// and never with a label, a sentence or a title.
func TestWordsOfPagesAreChosenByViews(t *testing.T) {
	t.Parallel()
	props := 0
	must.Do(t, filepath.WalkDir("../handlers", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok || !namesViews(literal.Type) {
				return true
			}
			props++
			for _, words := range wordsIn(literal) {
				t.Errorf("%s: the words %q are chosen by a handler", files.Position(literal.Pos()), words)
			}
			return true
		})
		return nil
	}))
	if props < 50 {
		t.Errorf("%d props of pages are filled, want all of them looked at", props)
	}
}

// namesViews reports whether a type is one of views, or a list or a map of such.
func namesViews(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.SelectorExpr:
		from, ok := of.X.(*ast.Ident)
		return ok && from.Name == "views"
	case *ast.ArrayType:
		return namesViews(of.Elt)
	case *ast.MapType:
		return namesViews(of.Value)
	}
	return false
}

// wordsIn returns the words for people in a literal.
func wordsIn(literal *ast.CompositeLit) (words []string) {
	ast.Inspect(literal, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			return true
		}
		value, err := strconv.Unquote(text.Value)
		if err == nil && pageWords.MatchString(value) && !commandLine.MatchString(value) {
			words = append(words, value)
		}
		return true
	})
	return words
}

// translated are phrases that no engineer of the field would write.
var translated = regexp.MustCompile(`(?i)\b(anew|at once|meanwhile|goes on|go on|any more|has begun|good until|once more)\b|` +
	`not narrowed|95 % |half within|that blocks|the parked|the dead|slowed down|ends now|was not there|takes the place|for whom it acts`)

// TestPagesAreInPlainWords: no page has a phrase that was replaced.
func TestPagesAreInPlainWords(t *testing.T) {
	t.Parallel()
	pages := deskScreens()
	for name, c := range screens(page, "name") {
		pages[name] = c
	}
	for name, c := range pages {
		text := squeeze(named(elements(t, render(t, c)), "main")[0].text)
		if found := translated.FindString(text); found != "" {
			t.Errorf("the page %s says %q", name, found)
		}
	}
}
