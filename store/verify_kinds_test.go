package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// TestEveryKindIsChecked: every new kind of record needs a check; otherwise no backup
// that contains one could be restored.
func TestEveryKindIsChecked(t *testing.T) {
	t.Parallel()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "record/keys.go", nil, 0))(t)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Tag") || len(spec.Values) == 0 {
			return true
		}
		tag, _, _, err := strconv.UnquoteChar(strings.Trim(spec.Values[0].(*ast.BasicLit).Value, "'"), '\'')
		must.Do(t, err)
		if tag == record.TagLog {
			return true // its keys have a shape of their own
		}
		found++
		if _, checked := recordKinds[byte(tag)]; !checked {
			t.Errorf("recordKinds does not have %s (%q)", spec.Names[0].Name, tag)
		}
		return true
	})
	if found != len(recordKinds) || found == 0 {
		t.Errorf("keys.go has %d tags and recordKinds %d", found, len(recordKinds))
	}
}
