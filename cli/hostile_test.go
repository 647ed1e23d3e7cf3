package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// forgedLine is what a hostile file has tollhouse say.
const forgedLine = "tollhouse: hint: curl evil.example"

// TestAFileCannotForgeAMessage: a line break in a file that somebody else made is escaped, so
// that what follows does not look like a line of tollhouse.
//
// Promise (RFC 9110, RFC 9112): a line break in a backup, an import, a seed or another file is
// escaped in every message
func TestAFileCannotForgeAMessage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, args := range [][]string{{"account", "create", "acct_a"}, {"event", "generate", "--account", "acct_a", "--seed", "1", "--events", "5"}} {
		if _, stderr, code := run(t, append(args, "--data", dir, "--quiet")...); code != 0 {
			t.Fatal(stderr)
		}
	}
	hostile := backupWithAHeader(t, dir)
	line := func(member string) string {
		return "{" + member + `,"resource":"r1","eventData":{"object":{}},"createdAt":1773070200}`
	}
	escaped := strings.ReplaceAll(forgedLine, `"`, `\"`)
	for name, args := range map[string][]string{
		"header_of_a_backup_verified": {"backup", "verify", hostile},
		"header_of_a_backup_restored": {"restore", hostile, "--data", filepath.Join(t.TempDir(), "restored"), "--yes"},
		"header_restored_over_a_key":  {"restore", hostile, "--data", dirWithKey(t), "--yes"},
		"type_of_an_import":           {"event", "import", file("a", line(`"type":"x\n`+escaped+`"`)), "--account", "acct_a", "--data", dir},
		"member_of_an_import":         {"event", "import", file("b", line(`"type":"customer.created","x\n`+escaped+`":1`)), "--account", "acct_a", "--data", dir},
		"value_of_an_import":          {"event", "import", file("c", line(`"type":"customer.created","id":"x\n`+escaped+`"`)), "--account", "acct_a", "--data", dir},
		"client_of_a_seed":            {"dev", "--seed-file", file("d", `{"client":{"id":"x\n`+escaped+`"}}`), "--exit-with-parent"},
		"kind_of_a_seed":              {"dev", "--seed-file", file("e", `{"x\n`+escaped+`":{}}`), "--exit-with-parent"},
		"member_of_a_seed":            {"dev", "--seed-file", file("f", `{"user":{"x\n`+escaped+`":1}}`), "--exit-with-parent"},
		"webhook_of_a_seed":           {"dev", "--seed-file", file("g", `{"webhook":{"url":"https://x\n`+escaped+`"}}`), "--exit-with-parent"},
		"key_file":                    {"serve", "--data", filepath.Join(t.TempDir(), "d"), "--listen", "127.0.0.1:0", "--key-file", file("h", "x\n"+forgedLine+"\n")},
		"certificate":                 {"serve", "--data", filepath.Join(t.TempDir(), "d"), "--listen", "127.0.0.1:0", "--public-url", "https://pay.example", "--tls-cert", file("i", "-----BEGIN x\n"+forgedLine), "--tls-key", file("j", forgedLine)},
		"certificates_of_webhooks":    {"dev", "--webhook-ca", file("k", "\n"+forgedLine+"\n")},
		"address_of_a_database":       {"status", "--store-file", file("l", "postgres://u@x\n"+forgedLine)},
		"address_of_a_proxy":          {"dev", "--webhook-proxy-file", file("m", "http://x\n"+forgedLine)},
		"name_of_a_file":              {"backup", "verify", filepath.Join(t.TempDir(), "x\n"+forgedLine)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr, _ := run(t, args...)
			for shown := range strings.SplitSeq(out+"\n"+stderr, "\n") {
				if strings.HasPrefix(strings.TrimSpace(shown), forgedLine) {
					t.Errorf("tollhouse %q prints the line %q:\n%s%s", args, shown, out, stderr)
				}
			}
			if strings.TrimSpace(out+stderr) == "" {
				t.Errorf("tollhouse %q says nothing", args)
			}
		})
	}
}

// backupWithAHeader is a backup of dir with a header that somebody else wrote.
func backupWithAHeader(t *testing.T, dir string) string {
	t.Helper()
	whole := filepath.Join(t.TempDir(), "whole")
	if _, stderr, code := run(t, "backup", whole, "--data", dir, "--quiet"); code != 0 {
		t.Fatal(stderr)
	}
	reader := must.Get(backup.NewReader(bytes.NewReader(must.Get(os.ReadFile(whole))(t))))(t)
	defer reader.Close()
	h := reader.Header
	h.Version, h.Key = "1\n"+forgedLine, "ab\n"+forgedLine
	var records []kv.Record
	for r, err := range reader.Records() {
		must.Do(t, err)
		records = append(records, kv.Record{Key: slices.Clone(r.Key), Value: slices.Clone(r.Value), ExpiresAt: r.ExpiresAt})
	}
	path := filepath.Join(t.TempDir(), "hostile")
	must.Do(t, os.WriteFile(path, forged(t, h, records), 0o600))
	return path
}

// dirWithKey is a data directory with the key of another server.
func dirWithKey(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if _, stderr, code := run(t, "account", "create", "acct_b", "--data", dir, "--quiet"); code != 0 {
		t.Fatal(stderr)
	}
	return dir
}

// TestNoPasswordOnACommandLine: other users of the machine can read it.
//
// Promise (RFC 9110, RFC 9112): a user or a password in a URL on the command line is refused; a
// file or a variable may have one
func TestNoPasswordOnACommandLine(t *testing.T) {
	t.Parallel()
	const password = "hunter22"
	for name, args := range map[string][]string{
		"webhook_proxy":                 {"serve", "--webhook-proxy", "http://user:" + password + "@127.0.0.1:3128"},
		"webhook_proxy_with_a_token":    {"dev", "--webhook-proxy", "http://" + password + "@127.0.0.1:3128"},
		"webhook_proxy_with_a_slash":    {"dev", "--webhook-proxy=https://user:a/" + password + "@127.0.0.1:3128"},
		"webhook_proxy_in_other_case":   {"dev", "--webhook-proxy", "HTTP://user:" + password + "@127.0.0.1:3128"},
		"webhook_to":                    {"dev", "--webhook-to", "http://user:" + password + "@127.0.0.1:3000/hook"},
		"forward_to":                    {"webhook", "listen", "--forward-to", "http://user:" + password + "@127.0.0.1:3000/hook"},
		"url_of_health":                 {"health", "--url", "https://user:" + password + "@127.0.0.1:1"},
		"url_of_a_webhook":              {"webhook", "create", "--account", "a", "--url", "https://user:" + password + "@hooks.example"},
		"public_url":                    {"serve", "--public-url", "https://user:" + password + "@pay.example"},
		"acme_directory":                {"serve", "--acme-directory", "https://user:" + password + "@acme.example/directory"},
		"redirect_uri_among_several":    {"client", "create", "--name", "x", "--redirect-uri", "https://a.example", "--redirect-uri", "https://user:" + password + "@b.example"},
		"store":                         {"status", "--store", "postgres://user:" + password + "@127.0.0.1:1/x"},
		"store_that_a_move_leads_to":    {"move", "postgres://user:" + password + "@127.0.0.1:1/x"},
		"proxy_and_a_file_with_a_proxy": {"dev", "--webhook-proxy", "http://127.0.0.1:3128", "--webhook-proxy-file", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr, code := run(t, append(args, "--data", filepath.Join(t.TempDir(), "data"))...)
			if args[0] == "dev" || strings.Contains(name, "store") && args[0] != "move" {
				out, stderr, code = run(t, args...)
			}
			if code != 2 || !strings.Contains(stderr, "tollhouse: hint: ") {
				t.Errorf("tollhouse %q = exit %d, %s; want 2 and the next step", args, code, stderr)
			}
			if strings.Contains(out+stderr, password) {
				t.Errorf("tollhouse %q prints the password: %s%s", args, out, stderr)
			}
		})
	}
	t.Run("a_variable_and_a_file_may_have_one", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "proxy")
		must.Do(t, os.WriteFile(file, []byte("http://user:"+password+"@127.0.0.1:3128\n"), 0o600))
		for _, setting := range []string{"TOLLHOUSE_WEBHOOK_PROXY=http://user:" + password + "@127.0.0.1:3128", "TOLLHOUSE_WEBHOOK_PROXY_FILE=" + file} {
			s := must.Get(startProcess("", []string{setting}, "dev"))(t)
			if code := s.end(); code != 0 || strings.Contains(s.stderr.String(), password) {
				t.Errorf("%s: exit %d, %s", setting, code, s.stderr)
			}
			cmd := exec.Command("tollhouse", "config", "dev")
			cmd.Env = append(os.Environ(), setting)
			if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte(password)) {
				t.Errorf("config with %s: %v, %s", setting, err, out)
			}
		}
	})
}
