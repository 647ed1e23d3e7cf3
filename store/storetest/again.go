package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// Again runs those tests of the package again that state a promise of the sections of a
// regular expression, each time in a process whose stores are on one of the engines of
// [EnvEngine]. It is skipped under -short, and in these processes, which run with -short: what
// brings an engine of its own has run on it. Outside of CI the tests that take seconds are skipped
// there, as -short says.
func Again(t *testing.T, sections string, engines ...string) {
	t.Helper()
	if os.Getenv(EnvEngine) != "" {
		t.Skip("the stores of this process are on another engine already")
	}
	must.SkipInShort(t)
	names := promising(t, regexp.MustCompile(`Promise \((?:`+sections+`)\b`))
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			again := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.short", "-test.run=^("+strings.Join(names, "|")+")$")
			again.Env = append(os.Environ(), EnvEngine+"="+engine)
			if engine != "badger" {
				again.Env = append(again.Env, pgtest.EnvDSN+"="+pgtest.Start(t))
			}
			out, err := again.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for _, name := range names {
				skipped := !must.InCI() && strings.Contains(string(out), "--- SKIP: "+name+" ")
				if !skipped && !strings.Contains(string(out), "--- PASS: "+name+" ") {
					t.Errorf("%s did not pass", name)
				}
			}
		})
	}
}

// promising returns the tests in the working directory that state a promise, but for the one
// that runs them.
func promising(t *testing.T, promise *regexp.Regexp) (names []string) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob("*_test.go"))(t) {
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Name.Name != t.Name() && promise.MatchString(f.Doc.Text()) {
				names = append(names, f.Name.Name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no test matches %s", promise)
	}
	return names
}
