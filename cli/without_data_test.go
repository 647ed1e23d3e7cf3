package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// withoutData says what each command does in a directory that does not exist.
type withoutData struct {
	args   string // behind the command's name, as in a shell, without quotes
	makes  bool   // it creates a store there and says so
	others int    // the exit code if it is neither 0 for makes nor 3, for the reason below
	why    string // it has another code
}

const (
	asksServer = "it asks a server that runs, as documented: 69 without one"
	noStore    = "it uses no store"
	ofDatabase = "it is for the servers of a database"
)

var commandsWithoutData = map[string]withoutData{
	"account create": {args: "acct_1", makes: true}, "account delete": {args: "acct_1"}, "account list": {}, "account show": {args: "acct_1"},
	"account disable": {args: "acct_1"}, "account enable": {args: "acct_1"}, "account revoke": {args: "acct_1"},
	"alarm list": {others: term.ExitUnreachable, why: asksServer}, "alarm test": {others: term.ExitUnreachable, why: asksServer},
	"audit": {}, "backup": {args: "FILE"}, "client create": {args: "--name Till --redirect-uri https://till.example/cb", makes: true},
	"client delete": {args: "cli_1"}, "client disable": {args: "cli_1"}, "client enable": {args: "cli_1"}, "client list": {},
	"client rotate-secret": {args: "cli_1"}, "client show": {args: "cli_1"}, "client update": {args: "cli_1 --name Till"},
	"doctor": {}, "event export": {args: "--account acct_1"}, "export": {args: "FILE"}, "event generate": {args: "--events 5 --account acct_1", makes: true},
	"event get": {args: "evt_00000000000000000000000000"}, "event import": {args: "EVENTS --account acct_1", makes: true}, "event list": {},
	"event purge": {args: "--account acct_1 --kind customer --resource cust_1"}, "event tail": {others: term.ExitUnreachable, why: asksServer},
	"import": {args: "LINES", makes: true},
	"health": {others: term.ExitUnreachable, why: asksServer}, "status": {others: term.ExitUnreachable, why: asksServer},
	"webhook listen":    {args: "--forward-to http://127.0.0.1:1", others: term.ExitUnreachable, why: asksServer},
	"webhook send-test": {args: "wep_00000000000000000000000000", others: term.ExitUnreachable, why: asksServer},
	"move":              {args: "postgres://u@127.0.0.1:1/x"}, "restore": {args: "BACKUP", makes: true}, "session list": {}, "session revoke": {args: "ses_00000000000000000000000000"},
	"stats": {}, "token inspect": {args: "--token-file TOKEN"}, "token list": {}, "token revoke": {args: "fam_00000000000000000000000000"},
	"user code": {args: "alice"}, "user create": {args: "alice --password-file PASSWORD", makes: true}, "user delete": {args: "alice"}, "user disable": {args: "alice"},
	"user enable": {args: "alice"}, "user list": {}, "user promote": {args: "alice"}, "user rename": {args: "alice bob"}, "user demote": {args: "alice"}, "user passwd": {args: "alice --password-file PASSWORD"}, "user reset-second-factor": {args: "alice"}, "user show": {args: "alice"},
	"webhook create":     {args: "--url https://hooks.example/ --account acct_1"},
	"webhook deliveries": {args: "wep_00000000000000000000000000"}, "webhook delete": {args: "wep_00000000000000000000000000"}, "webhook disable": {args: "wep_00000000000000000000000000"},
	"webhook enable": {args: "wep_00000000000000000000000000"}, "webhook hold": {}, "webhook list": {}, "webhook resume": {}, "webhook retry": {args: "wep_00000000000000000000000000 --state dead"},
	"webhook rotate-secret": {args: "wep_00000000000000000000000000"}, "webhook show": {args: "wep_00000000000000000000000000"}, "webhook skip": {args: "wep_00000000000000000000000000"},
	"webhook update":  {args: "wep_00000000000000000000000000 --description x"},
	"backup verify":   {args: "BACKUP", why: noStore},
	"completion bash": {why: noStore}, "completion fish": {why: noStore}, "completion zsh": {why: noStore},
	"config set": {args: "--access-ttl 30m", others: term.ExitUsage, why: ofDatabase},
	"config":     {why: noStore}, "config serve": {why: noStore}, "config dev": {why: noStore}, "version": {why: noStore},
	"print compose": {why: noStore}, "print dockerfile": {why: noStore}, "print grafana": {why: noStore}, "print helper": {args: "go", why: noStore},
	"print man": {why: noStore}, "print migration": {args: "keycloak", why: noStore},
	"print openapi": {why: noStore}, "print systemd": {why: noStore},
}

// eachLeaf calls visit with every command that does something.
func eachLeaf(c *cobra.Command, visit func(name string)) {
	for _, sub := range c.Commands() {
		if sub.Name() == "help" || sub.Name() == "serve" && c.Name() == "tollhouse" || sub.Name() == "dev" && c.Name() == "tollhouse" || sub.Hidden {
			continue
		}
		if !isGroup(sub) {
			visit(strings.TrimPrefix(sub.CommandPath(), "tollhouse "))
		}
		eachLeaf(sub, visit)
	}
}

// TestEveryCommandWithoutData: a typo in --data must not look like success, and must leave
// nothing behind. A command that creates a store says where.
//
// Promise (Commands and settings): without data each command makes a store and says so, or fails
// (3); a refused one leaves none; hints change only what is ours; shown commands name their store
func TestEveryCommandWithoutData(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	files := t.TempDir()
	source := filepath.Join(files, "source")
	for name, text := range map[string]string{"PASSWORD": "a long enough phrase", "TOKEN": "tollat_x", "LINES": `{"account":{"account":"acct_1"}}`} {
		must.Do(t, os.WriteFile(filepath.Join(files, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"account", "create", "acct_1", "--data", source}, {"backup", filepath.Join(files, "BACKUP"), "--data", source}, {"event", "generate", "--account", "acct_1", "--events", "3", "--data", source}} {
		_, stderr, code := run(t, args...)
		must.Have(t, code == term.ExitOK, "a store: "+stderr)
	}
	exported, stderr, code := run(t, "event", "export", "--account", "acct_1", "--data", source)
	must.Have(t, code == term.ExitOK, "events: "+stderr)
	must.Do(t, os.WriteFile(filepath.Join(files, "EVENTS"), []byte(exported), 0o600))
	var names []string
	eachLeaf((&program{}).rootCommand(), func(name string) {
		names = append(names, name)
		c, known := commandsWithoutData[name]
		if !known {
			t.Errorf("no row says what tollhouse %s does without data", name)
			return
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			dir := filepath.Join(work, "above", "data")
			args := strings.Fields(name + " " + regexp.MustCompile(`\b[A-Z]{4,}\b`).ReplaceAllStringFunc(c.args, func(file string) string { return filepath.Join(files, file) }))
			if name == "backup" {
				args[1] = filepath.Join(work, "backup")
			}
			stderr, code := runIn(t, work, nil, append(args, "--data", dir)...)
			notice := strings.Contains(stderr, "tollhouse: notice: created a new store in "+dir+"\n")
			left, _ := os.ReadDir(work)
			switch {
			case c.makes:
				if code != term.ExitOK || !notice {
					t.Errorf("exit %d, %s; want 0 and a notice", code, stderr)
				}
				return
			case c.why == noStore:
				if code != term.ExitOK {
					t.Errorf("exit %d, %s; want 0", code, stderr)
				}
			case c.why == ofDatabase:
				if code != c.others || !strings.Contains(stderr, "on a data directory") {
					t.Errorf("exit %d, %s; want %d: %s", code, stderr, c.others, c.why)
				}
			case c.why != "":
				if code != c.others || !strings.Contains(stderr, dir+" has no data") {
					t.Errorf("exit %d, %s; want %d: %s", code, stderr, c.others, c.why)
				}
			case code != term.ExitNotFound || !strings.Contains(stderr, dir+" has no data"):
				t.Errorf("exit %d, %s; want %d", code, stderr, term.ExitNotFound)
			}
			if notice || len(left) > 0 {
				t.Errorf("%v, %s; want nothing made", left, stderr)
			}
		})
	})
	for name := range commandsWithoutData {
		if !slices.Contains(names, name) {
			t.Errorf("there is no command %s", name)
		}
	}
}

// TestARefusedCommandLeavesNoStore: what creates a store removes it when nothing was
// recorded, with the directories that it made. One that was there before stays, empty.
//
// Promise (Commands and settings): without data each command makes a store and says so, or fails
// (3); a refused one leaves none; hints change only what is ours; shown commands name their store
func TestARefusedCommandLeavesNoStore(t *testing.T) {
	t.Parallel()
	password, events := filepath.Join(t.TempDir(), "password"), filepath.Join(t.TempDir(), "events")
	must.Do(t, os.WriteFile(password, []byte("short"), 0o600))
	must.Do(t, os.WriteFile(events, []byte(`{"type":"invoice.paid"}`), 0o600))
	for name, args := range map[string][]string{
		"user":    {"user", "create", "alice", "--password-file", password},
		"client":  {"client", "create", "--name", "Till", "--redirect-uri", "https://till.example/*"},
		"account": {"account", "create", "a/b c"},
		"import":  {"event", "import", events, "--account", "acct_1"},
		"dry_run": {"event", "import", events, "--account", "acct_1", "--dry-run"},
		"webhook": {"webhook", "create", "--url", "https://hooks.example/", "--account", "acct_none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work, there := t.TempDir(), t.TempDir()
			stderr, code := runIn(t, work, nil, append(args, "--data", filepath.Join(work, "above", "data"))...)
			if left, err := os.ReadDir(work); code == term.ExitOK || err != nil || len(left) > 0 || strings.Contains(stderr, "created") {
				t.Errorf("exit %d, %s, left %v, %v; want a refusal that leaves nothing", code, stderr, left, err)
			}
			stderr, _ = runIn(t, work, nil, append(args, "--data", there)...)
			if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
				t.Errorf("in an empty directory: %s, left %v, %v", stderr, left, err)
			}
		})
	}
}

// TestShownCommandsNameTheirStore: root pastes what a page or a hint shows in another
// directory. Each command that works on a store is known, whole.
//
// Promise (Commands and settings): without data each command makes a store and says so, or fails
// (3); a refused one leaves none; hints change only what is ours; shown commands name their store
func TestShownCommandsNameTheirStore(t *testing.T) {
	t.Parallel()
	const at = "--data '/srv/pay ments'"
	eachLeaf((&program{}).rootCommand(), func(name string) {
		want := "tollhouse " + name + " " + at + " X"
		if commandsWithoutData[name].why == noStore {
			want = "tollhouse " + name + " X"
		}
		if got := server.CompleteCommands("tollhouse "+name+" X", at); got != want && name != "webhook listen" {
			t.Errorf("%s is shown as %q, want %q", name, got, want)
		}
	})
	for _, text := range []string{"use the tollhouse that wrote it", "run tollhouse as root", "tollhouse user list --data /x shows them", "tollhouse user --help lists the commands"} {
		if got := server.CompleteCommands(text, at); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	dir := filepath.Join(t.TempDir(), "pay ments")
	shown := "--data '" + dir + "'"
	_, _, code := run(t, "user", "create", "alice", "--operator", "--code", "--data", dir)
	must.Have(t, code == term.ExitOK, "a store")
	_, stderr, _ := run(t, "user", "show", "bob", "--data", dir)
	if !strings.Contains(stderr, "hint: tollhouse user list "+shown+" shows the users") {
		t.Errorf("hint: %s; want the store", stderr)
	}
	work := filepath.Dir(dir)
	if stderr, _ := runIn(t, work, []string{"TOLLHOUSE_DATA=pay ments"}, "user", "show", "bob"); !strings.Contains(stderr, "tollhouse user list "+shown+" shows") {
		t.Errorf("hint: %s; want the whole path", stderr)
	}
	out, _, _ := run(t, "doctor", "--data", dir)
	if !strings.Contains(out, "next: tollhouse backup "+shown+" FILE") {
		t.Errorf("doctor: %s; want the store", out)
	}
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if out, _, _ := run(t, "doctor", "--admin-socket", s.text("admin_socket")); !strings.Contains(out, "next: tollhouse backup "+shown+" FILE") {
		t.Errorf("doctor of the server: %s; want the store", out)
	}
}

// TestTheHomePageNamesTheStore: the command for the first user is pasted as it is.
func TestTheHomePageNamesTheStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	answer := must.Get(http.Get(s.text("url")))(t)
	defer answer.Body.Close()
	if page := string(must.Get(io.ReadAll(answer.Body))(t)); !strings.Contains(page, "tollhouse user create --data "+dir+" NAME --operator") {
		t.Errorf("the page of a server without users lacks the store: %s", page)
	}
}

// TestANewStoreIsAnnounced: a server that starts on the wrong path serves, and nobody can
// sign in. Its log says why.
func TestANewStoreIsAnnounced(t *testing.T) {
	t.Parallel()
	announced := func(t *testing.T, want bool, args ...string) {
		t.Helper()
		s := start(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
		s.end()
		if strings.Contains(s.stderr.String(), "new store created") != want {
			t.Errorf("the log of serve %v: %s; want announced %v", args, s.stderr, want)
		}
	}
	t.Run("in_a_directory", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "data")
		announced(t, true, "--data", dir)
		announced(t, false, "--data", dir)
	})
	t.Run("on_a_database", func(t *testing.T) {
		t.Parallel()
		must.SkipInShort(t)
		postgres := pgtest.New(t)
		store := postgres.Database(t)
		if _, stderr, code := run(t, "user", "list", "--store", store); code != term.ExitNotFound || !strings.Contains(stderr, "has no data") {
			t.Errorf("user list: exit %d, %s; want %d", code, stderr, term.ExitNotFound)
		}
		key := must.Get(newKeyFile(t.TempDir()))(t)
		announced(t, true, "--store", store, "--key-file", key)
		announced(t, false, "--store", store, "--key-file", key)
		store = postgres.Database(t)
		if _, stderr, code := run(t, "account", "create", "acct_1", "--store", store); code != term.ExitOK || !strings.Contains(stderr, "notice: created a new store in postgres://") {
			t.Errorf("account create: exit %d, %s; want a notice", code, stderr)
		}
	})
}
