package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// Promise (Platform §13): export --secrets | import --allow privileged | export --secrets is the same file,
// beside a server and into one, with the commands alone
func TestExportIntoAnImport(t *testing.T) {
	t.Parallel()
	dir, _ := movable(t)
	root := t.TempDir()
	other, password := filepath.Join(root, "other"), filepath.Join(root, "password")
	must.Do(t, os.WriteFile(password, []byte("correct horse battery staple\n"), 0o600))
	for _, args := range [][]string{
		{"user", "create", "operator", "--account", "moss", "--operator", "--password-file", password},
		{"client", "create", "--name", "Office", "--platform", "--scope", "accounts:read"},
		{"webhook", "create", "--account", "larkspur", "--url", "https://hooks.example/from?start=1", "--from", "start"},
	} {
		tollhouse(t, append(args, "--data", dir)...)
	}
	from := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	defer from.end()
	into := start(t, "serve", "--data", other, "--listen", "127.0.0.1:0")
	defer into.end()
	first, second := filepath.Join(root, "first"), filepath.Join(root, "second")
	tollhouse(t, "export", first, "--secrets", "--data", dir)
	tollhouse(t, "import", first, "--allow", "privileged", "--data", other)
	tollhouse(t, "export", second, "--secrets", "--data", other)
	want, got := must.Get(os.ReadFile(first))(t), must.Get(os.ReadFile(second))(t)
	if string(got) != string(want) || strings.Count(string(want), "\n") < 500 {
		t.Errorf("exported again there are %d bytes in %d lines, want the same %d bytes", len(got), strings.Count(string(got), "\n"), len(want))
	}
	if audit := tollhouse(t, "audit", "--json", "--data", other); strings.Count(audit, `"reason":"exported with secrets"`) != 1 {
		t.Errorf("the audit log has %s", audit)
	}
}
