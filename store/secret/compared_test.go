package secret_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// judgements are the functions that compare something secret with the expected value,
// with the comparison that each uses. A comparison that ends at the first different byte
// reveals its place to a patient caller, and no test of the behaviour can notice, so
// this test reads the sources.
var judgements = []struct {
	file, function string
	rests          []string
}{
	{"store/secret/secret.go", "EqualText", []string{"subtle.ConstantTimeCompare"}},
	{"store/secret/secret.go", "Hash.Equal", []string{"subtle.ConstantTimeCompare"}},
	{"store/secret/secret.go", "Token.Equal", []string{"EqualText"}},
	{"store/secret/password.go", "Hasher.Verify", []string{"subtle.ConstantTimeCompare"}},
	{"store/client_secret.go", "Store.AuthenticateClient", []string{"c.proves"}},
	{"store/client_secret.go", "Client.proves", []string{"hash.Equal"}},
	{"store/session.go", "Session.Is", []string{"sn.hash.Equal"}},
	{"store/code.go", "code.judge", []string{"secret.EqualText"}},
	{"store/code.go", "code.judgeVerifier", []string{"secret.EqualText"}},
	{"handlers/web/form_token.go", "Site.CheckFormToken", []string{"secret.EqualText"}},
	{"handlers/oauth/login.go", "Server.logout", []string{"secret.EqualText"}},
	{"handlers/oauth/account.go", "Server.readAccountForm", []string{"secret.EqualText"}},
	{"handlers/oauth/ticket.go", "ticket.belongsTo", []string{"secret.EqualText"}},
}

// proofs are the calls whose results prove something. A function that uses one of them
// may not compare its result by ==.
var proofs = []string{"MAC", "S256", "Reveal", "HashOf", "Hash", "Successors", "SessionFormToken", "sessionMark"}

// Promise (RFC 9700 §4.5, §4.14): distinguishing an unknown client from a wrong secret
// Promise (Monitoring): client secrets are random, compared in constant time; passwords are
// Argon2id, rehashed when parameters rise; the server key is in no backup
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	for _, j := range judgements {
		t.Run(j.function, func(t *testing.T) {
			t.Parallel()
			body := functionOf(t, parseSource(t, j.file), j.function)
			calls := callsIn(body)
			for _, want := range j.rests {
				if !slices.Contains(calls, want) {
					t.Errorf("%s of %s calls %v, want %s among them", j.function, j.file, calls, want)
				}
			}
		})
	}
	t.Run("no_proof_is_compared_by_an_operator", func(t *testing.T) {
		t.Parallel()
		for _, name := range sourcesThatJudge(t) {
			for _, call := range comparedByOperator(parseSource(t, name)) {
				t.Errorf("%s compares what %s returns by == or !=; use secret.EqualText or Equal", name, call)
			}
		}
	})
	t.Run("the_reader_can_fail", func(t *testing.T) {
		t.Parallel()
		const bad = "package p\nfunc (s *Server) f(a string) bool { return s.key.MAC(\"x\") == a }"
		file := must.Get(parser.ParseFile(token.NewFileSet(), "bad.go", bad, 0))(t)
		if got := comparedByOperator(file); !slices.Equal(got, []string{"s.key.MAC"}) {
			t.Errorf("comparedByOperator = %v, want s.key.MAC", got)
		}
	})
}

// comparedByOperator returns the proofs that are an operand of == or !=. A comparison
// with "" only asks whether one exists, and is allowed.
func comparedByOperator(file *ast.File) (found []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if !ok || b.Op != token.EQL && b.Op != token.NEQ {
			return true
		}
		for _, operand := range []ast.Expr{b.X, b.Y} {
			call, ok := operand.(*ast.CallExpr)
			if ok && slices.Contains(proofs, lastName(nameOf(call.Fun))) && !isEmptyText(b.X) && !isEmptyText(b.Y) {
				found = append(found, nameOf(call.Fun))
			}
		}
		return true
	})
	return found
}

func isEmptyText(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Value == `""`
}

// functionOf returns the body of a function, or of a method written Type.Name.
func functionOf(t *testing.T, file *ast.File, name string) *ast.BlockStmt {
	t.Helper()
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := f.Name.Name
		if f.Recv != nil {
			full = strings.TrimPrefix(nameOf(f.Recv.List[0].Type), "*") + "." + full
		}
		if full == name {
			return f.Body
		}
	}
	t.Fatalf("%s no longer exists; update the list of judgements", name)
	return nil
}

func callsIn(body *ast.BlockStmt) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			names = append(names, nameOf(call.Fun))
		}
		return true
	})
	return names
}

// nameOf spells a name as in the source: f, x.f, x.y.f, *T; "" for other expressions.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	case *ast.StarExpr:
		return "*" + nameOf(e.X)
	}
	return ""
}

func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

const moduleTop = "../.."

// sourcesThatJudge returns the files of the packages that handle secrets.
func sourcesThatJudge(t *testing.T) (names []string) {
	t.Helper()
	for _, dir := range []string{"store", "handlers", "cli"} {
		before := len(names)
		must.Do(t, fs.WalkDir(os.DirFS(moduleTop), dir, func(file string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
				names = append(names, file)
			}
			return err
		}))
		if len(names) == before {
			t.Fatalf("no files below %s", dir)
		}
	}
	return names
}

// parseSource parses a file of the module, or its replacement in TOLLHOUSE_OVERLAY: this
// test has to read the sources that the other tests run.
func parseSource(t *testing.T, name string) *ast.File {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(moduleTop, name)))(t)
	if overlay := os.Getenv("TOLLHOUSE_OVERLAY"); overlay != "" {
		path = overlaid(t, overlay, path)
	}
	file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
	return file
}

// overlaid returns the file that replaces path in a go build overlay.
func overlaid(t *testing.T, overlay, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(overlay))(t)
	var o struct{ Replace map[string]string }
	must.Do(t, json.Unmarshal(text, &o))
	if file, ok := o.Replace[path]; ok {
		return file
	}
	return path
}
