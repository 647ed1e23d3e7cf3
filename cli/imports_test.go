package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// importRule says that the packages under from may not import what lies under
// any of never, but for the packages under but. Names are relative to the
// module; "" is all of it.
type importRule struct {
	name  string
	from  []string
	never []string
	but   []string
	tests bool // test files are held to it too
}

// Imports go one way: main → cli → handlers → store → store/kv, and handlers →
// views → static. A package may import its own kind and what lies to the right.
var importRules = []importRule{
	{name: "main_imports_cli_only", from: []string{"main"}, never: []string{"tollhouse/"}, but: []string{"tollhouse/cli"}},
	{name: "only_main_imports_cli", from: []string{""}, never: []string{"tollhouse/cli"}, but: []string{"main", "cli"}, tests: true},
	{name: "server_imports_database_datadir_and_term_only_of_cli", from: []string{"cli/server"}, never: []string{"tollhouse/cli"},
		but: []string{"tollhouse/cli/database", "tollhouse/cli/datadir", "tollhouse/cli/term", "tollhouse/cli/webhooks", "tollhouse/cli/alarms", "tollhouse/cli/server/certtest"}, tests: true},
	{name: "webhooks_import_nothing_of_cli", from: []string{"cli/webhooks"}, never: []string{"tollhouse/cli", "tollhouse/handlers", "tollhouse/store/kv"}},
	{name: "alarms_know_no_store_and_no_server", from: []string{"cli/alarms"}, never: []string{"tollhouse/"}, but: []string{"tollhouse/store/secret", "tollhouse/store/spelling"}},
	{name: "only_tests_make_certificates", from: []string{""}, never: []string{"tollhouse/cli/server/certtest"}},
	{name: "database_imports_datadir_and_term_only_of_cli", from: []string{"cli/database"}, never: []string{"tollhouse/cli"}, but: []string{"tollhouse/cli/datadir", "tollhouse/cli/term"}, tests: true},
	{name: "datadir_imports_term_only_of_cli", from: []string{"cli/datadir"}, never: []string{"tollhouse/cli"}, but: []string{"tollhouse/cli/term"}, tests: true},
	{name: "term_and_proof_import_nothing_of_cli", from: []string{"cli/term", "cli/proof"}, never: []string{"tollhouse/cli"}, tests: true},
	{name: "only_cli_imports_handlers", from: []string{"store", "views", "static"}, never: []string{"tollhouse/handlers"}, tests: true},
	{name: "only_handlers_import_views", from: []string{"store", "static", "cli"}, never: []string{"tollhouse/views"}, tests: true},
	{name: "web_imports_only_rooms_before_it", from: []string{"handlers/web"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle"}},
	{name: "passkey_imports_web_only_of_handlers", from: []string{"handlers/passkey"}, never: []string{"tollhouse/handlers", "tollhouse/views"},
		but: []string{"tollhouse/handlers/web"}},
	{name: "only_tests_simulate_passkeys", from: []string{""}, never: []string{"tollhouse/handlers/passkey/passkeytest"}},
	{name: "oauth_imports_only_rooms_before_it", from: []string{"handlers/oauth"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle", "tollhouse/handlers/web", "tollhouse/handlers/passkey"}},
	{name: "api_imports_only_rooms_before_it", from: []string{"handlers/api"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle", "tollhouse/handlers/web", "tollhouse/handlers/oauth"}},
	{name: "admin_imports_only_rooms_before_it", from: []string{"handlers/admin"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle", "tollhouse/handlers/web", "tollhouse/handlers/oauth", "tollhouse/handlers/api"}},
	{name: "dev_imports_only_rooms_before_it", from: []string{"handlers/dev"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle", "tollhouse/handlers/web", "tollhouse/handlers/oauth", "tollhouse/handlers/api", "tollhouse/handlers/admin"}},
	{name: "desk_imports_only_rooms_before_it", from: []string{"handlers/desk"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle", "tollhouse/handlers/web", "tollhouse/handlers/passkey", "tollhouse/handlers/oauth", "tollhouse/handlers/api", "tollhouse/handlers/admin", "tollhouse/handlers/dev"}},
	{name: "docs_imports_only_rooms_before_it", from: []string{"handlers/docs"}, never: []string{"tollhouse/handlers"},
		but: []string{"tollhouse/handlers/throttle", "tollhouse/handlers/web", "tollhouse/handlers/oauth", "tollhouse/handlers/api", "tollhouse/handlers/admin", "tollhouse/handlers/dev", "tollhouse/handlers/desk"}},
	{name: "throttle_knows_no_http", from: []string{"handlers/throttle"}, never: []string{"net/http", "tollhouse/"}, but: []string{"tollhouse/store"}},
	{name: "views_know_no_store_and_no_http", from: []string{"views"}, never: []string{"tollhouse/store", "net/http"}},
	{name: "static_knows_nobody", from: []string{"static"}, never: []string{"tollhouse/"}},
	{name: "store_knows_no_http", from: []string{"store"}, never: []string{"net/http", "tollhouse/views", "tollhouse/static"},
		but: []string{"store/kv/pgkv/pgtest"}, tests: true}, // it asks Patroni
	{name: "store_knows_no_engine", from: []string{"store"}, never: []string{"tollhouse/store/kv/badgerkv", "tollhouse/store/kv/memkv", "tollhouse/store/kv/pgkv"},
		but: []string{"store/storetest", "store/kv"}},
	{name: "record_knows_kv_and_secret_only", from: []string{"store/record"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/kv", "tollhouse/store/secret"}},
	{name: "eventlog_knows_no_accounts", from: []string{"store/eventlog"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/record", "tollhouse/store/kv", "tollhouse/store/secret", "tollhouse/store/snapshot", "tollhouse/store/spelling"}},
	{name: "webhook_knows_the_log_and_the_seam", from: []string{"store/webhook"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/eventlog", "tollhouse/store/record", "tollhouse/store/kv", "tollhouse/store/secret", "tollhouse/store/snapshot"}},
	{name: "target_knows_no_network", from: []string{"store/webhook/target"}, never: []string{"tollhouse/", "net"}, but: []string{"net/netip", "net/url"}},
	{name: "moving_knows_no_store", from: []string{"store/moving"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/eventlog", "tollhouse/store/snapshot", "tollhouse/store/spelling"}},
	{name: "stats_know_the_log_and_the_seam", from: []string{"store/stats"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/eventlog", "tollhouse/store/record", "tollhouse/store/kv", "tollhouse/store/stats"}},
	{name: "history_knows_snapshots_and_ids_only", from: []string{"store/history"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/snapshot", "tollhouse/store/secret"}},
	{name: "backup_knows_the_seam_only", from: []string{"store/backup"}, never: []string{"tollhouse/"}, but: []string{"tollhouse/store/kv", "tollhouse/store/backup"}},
	{name: "only_encryption_imports_age", from: []string{""}, never: []string{"filippo.io/age"}, but: []string{"store/backup/encryption"}},
	{name: "handlers_know_no_kv", from: []string{"handlers"}, never: []string{"tollhouse/store/kv"}},
	{name: "kv_knows_no_store", from: []string{"store/kv"}, never: []string{"tollhouse/"}, but: []string{"tollhouse/store/kv", "tollhouse/store/storetest/must"}},
	{name: "tests_of_kv_know_no_store", from: []string{"store/kv"}, never: []string{"tollhouse/"},
		but: []string{"tollhouse/store/kv", "tollhouse/store/storetest/must", "store/kv/pgkv"}, tests: true}, // its benchmarks take the store's operations
	{name: "only_cli_and_storetest_name_badgerkv", from: []string{""}, never: []string{"tollhouse/store/kv/badgerkv"},
		but: []string{"cli", "store/storetest", "store/kv/badgerkv"}, tests: true},
	{name: "only_badgerkv_imports_badger", from: []string{""}, never: []string{"github.com/dgraph-io/badger"}, but: []string{"store/kv/badgerkv"}, tests: true},
	{name: "only_cli_and_storetest_name_pgkv", from: []string{""}, never: []string{"tollhouse/store/kv/pgkv"},
		but: []string{"cli", "store/storetest", "store/kv/pgkv"}, tests: true},
	{name: "only_pgkv_imports_pgx", from: []string{""}, never: []string{"github.com/jackc"}, but: []string{"store/kv/pgkv"}, tests: true},
	{name: "only_secret_is_random", from: []string{""}, never: []string{"crypto/rand"}, but: []string{"store/secret"}, tests: true},
	{name: "only_secret_imports_x_crypto", from: []string{""}, never: []string{"golang.org/x/crypto"},
		but: []string{"store/secret", "golang.org/x/crypto/acme"}, tests: true},
	{name: "only_cli_fetches_certificates", from: []string{""}, never: []string{"golang.org/x/crypto/acme"}, but: []string{"cli"}, tests: true},
	{name: "only_passkey_reads_CBOR", from: []string{""}, never: []string{"github.com/fxamacker/cbor"}, but: []string{"handlers/passkey"}, tests: true},
	{name: "only_tests_judge_passkeys_by_a_library", from: []string{""}, never: []string{"github.com/go-webauthn"}},
	{name: "only_tests_judge_schemas", from: []string{""}, never: []string{"github.com/santhosh-tekuri/jsonschema"}},
	{name: "only_cli_and_its_tests_read_commands", from: []string{""}, never: []string{"github.com/spf13/cobra"}, but: []string{"cli"}},
}

// sourceFile is a Go file with the packages that it imports.
type sourceFile struct {
	path    string
	pkg     string // the directory within the module; "main" for its top
	test    bool
	imports []string
}

func TestImports(t *testing.T) {
	t.Parallel()
	files := sourceFiles(t)
	for _, rule := range importRules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, file := range files {
				for _, imported := range file.imports {
					if rule.forbids(file, imported) {
						t.Errorf("%s imports %s", file.path, imported)
					}
				}
			}
		})
	}
	t.Run("rules_can_fail", func(t *testing.T) {
		t.Parallel()
		bad := sourceFile{path: "views/login.go", pkg: "views", imports: []string{"net/http"}}
		forbids := func(r importRule) bool { return r.forbids(bad, "net/http") }
		if !slices.ContainsFunc(importRules, forbids) {
			t.Error("no rule forbids views to import net/http")
		}
	})
}

func (r importRule) forbids(file sourceFile, imported string) bool {
	if file.test && !r.tests || !under(file.pkg, r.from) || !under(imported, r.never) {
		return false
	}
	return !under(file.pkg, r.but) && !under(imported, r.but)
}

// under reports whether name is one of the roots or lies below one.
func under(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return root == "" || name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
	})
}

// sourceFiles reads every Go file of the module, for every system.
func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	module := os.DirFS("..")
	err := fs.WalkDir(module, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && !isPackageDir(module, file):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(file) != ".go":
			return nil
		}
		code, err := fs.ReadFile(module, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, code, parser.ImportsOnly)
		if err != nil {
			return err
		}
		source := sourceFile{path: file, pkg: path.Dir(file), test: strings.HasSuffix(file, "_test.go")}
		if source.pkg == "." {
			source.pkg = "main"
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			source.imports = append(source.imports, imported)
		}
		files = append(files, source)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// isPackageDir leaves out hidden directories, test data, and other modules.
func isPackageDir(module fs.FS, dir string) bool {
	if name := path.Base(dir); name == "testdata" || strings.HasPrefix(name, ".") {
		return false
	}
	_, err := fs.Stat(module, path.Join(dir, "go.mod"))
	return err != nil
}

// directModules are all modules that the sources name. Another has to remove more than it
// adds, and its commit to say so.
var directModules = []string{
	"filippo.io/age",
	"github.com/a-h/templ",
	"github.com/dgraph-io/badger/v4", "github.com/dgraph-io/ristretto/v2",
	"github.com/fxamacker/cbor/v2",
	"github.com/hashicorp/golang-lru/v2",
	"github.com/jackc/pgx/v5",
	"github.com/julienschmidt/httprouter",
	"github.com/klauspost/compress",
	"github.com/pquerna/otp",
	"rsc.io/qr",
	"github.com/prometheus/client_golang",
	"github.com/spf13/cobra", "github.com/spf13/pflag",
	"github.com/tidwall/btree",
	"golang.org/x/crypto", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/term", "golang.org/x/text",
	// Of tests alone.
	"github.com/anishathalye/porcupine",
	"github.com/chromedp/cdproto", "github.com/chromedp/chromedp",
	"github.com/go-webauthn/webauthn",
	"github.com/rogpeppe/go-internal",
	"github.com/santhosh-tekuri/jsonschema/v6",
	"github.com/standard-webhooks/standard-webhooks/libraries",
	"go.uber.org/goleak",
	"go.yaml.in/yaml/v3", // of alerts.yml and the pages on Kubernetes; client_golang brings it
	"golang.org/x/oauth2",
	"pgregory.net/rapid",
}

func TestDirectModules(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for line := range strings.Lines(string(file)) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "\t") && len(words) == 2 && strings.HasPrefix(words[1], "v") {
			named = append(named, words[0])
		}
	}
	slices.Sort(named)
	want := slices.Sorted(slices.Values(directModules))
	must.Figure(t, "direct_modules", len(named))
	if !slices.Equal(named, want) {
		t.Errorf("go.mod names %v, want %v", named, want)
	}
}

// devFile is the only file in which dev makes its controls: serve has no way to get them.
const devFile = "cli/server/dev_control.go"

func TestOnlyDevMakesItsControls(t *testing.T) {
	t.Parallel()
	found := false
	for _, file := range sourceFiles(t) {
		if file.test {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file.path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if !makesControls(file.pkg, n) {
				return true
			}
			if found = true; file.path != devFile {
				t.Errorf("%s makes the controls of dev, want only %s to do so", file.path, devFile)
			}
			return true
		})
	}
	if !found {
		t.Errorf("%s does not make the controls of dev", devFile)
	}
}

// makesControls reports whether a node names dev.Controls from outside, or makes one
// inside dev.
func makesControls(pkg string, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		from, ok := n.X.(*ast.Ident)
		return ok && from.Name == "dev" && n.Sel.Name == "Controls" && pkg != "handlers"
	case *ast.CompositeLit:
		made, ok := n.Type.(*ast.Ident)
		return ok && pkg == "handlers/dev" && made.Name == "Controls"
	case *ast.CallExpr:
		made, ok := n.Fun.(*ast.Ident)
		return ok && pkg == "handlers/dev" && made.Name == "new" && len(n.Args) == 1 && isIdent(n.Args[0], "Controls")
	}
	return false
}

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}
