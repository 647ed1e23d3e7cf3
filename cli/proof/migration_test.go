package proof

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/moving"
	"tollhouse/store/storetest/must"
)

var updateMigration = flag.Bool("update-migration", false, "write testdata/migration/NAME/want.txt")

// migration is another system with a small database, in testdata/migration/NAME, and the script
// that exports it.
type migration struct {
	name   string
	probe  []string  // fails if a package is missing
	needs  string    // the packages
	fill   []string  // makes the database or the export
	file   string    // where the script's command expects the script
	scopes [2]string // the empty table at the top of the script, and a full one

	client   credentials
	username string
	access   string // live tokens of the old system; none where they do not move
	refresh  string
}

const migratedPassword = "correct horse battery" // everybody's

// TestMovingIn runs each printed script on the system that it is for, by the command in its
// first comment. What it writes and what it leaves out are in want.txt.
//
// The databases are made by the real libraries where Debian has them: Doorkeeper 5.5 on Rails 6.1
// with its own migration, models and strategies; django-oauth-toolkit 1.7 on Django 3.2; for
// FOSOAuthServerBundle Doctrine's schema and array type after the bundle's published mapping, and
// Symfony's own hashers. The tables of Hydra are a dump of what Hydra 2.3.0 made by its migrations
// and its API, whose answer is clients.json; those of Kratos are by the migrations of 1.3.1, with
// rows written here. Keycloak's export is after its published form, with hashes by the argon2 and
// hashlib libraries.
//
// Promise (Platform §14): each script writes lines alone to its standard output, and what it left
// out, and why, as counts to standard error, on a real small database or export of its system
//
// Promise (Platform §14): terminal escapes in the names of the old system's clients are not printed
//
// Promise (Platform §14): for each of the five systems what its script writes is imported, people
// sign in with their old passwords, an old token is refreshed where tokens move, and history is listed
func TestMovingIn(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	for _, m := range migrations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			file, left := m.export(t)
			var got strings.Builder
			for line := range strings.Lines(string(must.Get(os.ReadFile(file))(t))) {
				if _, err := moving.Parse([]byte(line), false); err != nil {
					t.Errorf("%s%v", line, err)
				}
				got.WriteString(masked(t, line))
				for _, found := range secretText.FindAllStringSubmatch(line, -1) {
					if strings.Contains(left, found[1]) {
						t.Errorf("standard error repeats a secret: %s", found[0])
					}
				}
			}
			if strings.ContainsFunc(left, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }) {
				t.Errorf("standard error has a control character: %q", left)
			}
			got.WriteString("\n" + left)
			golden := filepath.Join("testdata", "migration", m.name, "want.txt")
			if *updateMigration {
				must.Do(t, os.WriteFile(golden, []byte(got.String()), 0o644))
			}
			if want := must.Get(os.ReadFile(golden))(t); got.String() != string(want) {
				t.Errorf("the script writes\n%s\nwant\n%s", &got, want)
			}
			m.moveIn(t, file)
		})
	}
}

func migrations() []migration {
	const python = "/usr/bin/python3" // Debian's, which has its packages
	const pythonScopes = `SCOPES = {"orders": "events:read resources:read"}`
	return []migration{
		{
			name:  "fosoauthserverbundle",
			probe: []string{"php", "-r", `foreach (["Symfony/Component/PasswordHasher", "Symfony/Component/Console", "Doctrine/DBAL"] as $p) require_once "$p/autoload.php"; new SQLite3(":memory:");`},
			needs: "php-cli, php-sqlite3, php-doctrine-dbal, php-symfony-console and php-symfony-password-hasher",
			fill:  []string{"php", "fill.php"}, file: "src/Command/TollhouseExportCommand.php",
			scopes: [2]string{"const SCOPES = []", "const SCOPES = ['read' => 'events:read resources:read']"},
			client: credentials{"1_3bcbxd9e24g0gk4swg0kwgcwg4o8k8g4g888kwc44gcc0gwwk4", "4ok2x70rlfokc8g0wws8c8kwcokw80k44sg48goc0ok4w0so0k"}, username: "odile",
			access: "ZDNhYzY1NjQ4access-of-odile", refresh: "ZDNhYzY1NjQ4refresh-of-odile",
		},
		{
			name:  "doorkeeper",
			probe: []string{"ruby", "-e", `require "rails"; require "doorkeeper"; require "active_record/railtie"; require "sqlite3"; require "bcrypt"`},
			needs: "ruby-doorkeeper, ruby-activerecord, ruby-sqlite3 and ruby-bcrypt",
			fill:  []string{"FILL=1", "bin/rails", "runner", "fill.rb"}, file: "export.rb",
			scopes: [2]string{"scopes = {}", `scopes = { "public" => "events:read resources:read" }`},
			client: credentials{"books-uid", "the-secret-of-the-books-application"}, username: "odile@larkspur.example",
			access: "access-of-odile-at-the-books", refresh: "refresh-of-odile-at-the-books",
		},
		{
			name:  "django-oauth-toolkit",
			probe: []string{python, "-c", "import django, oauth2_provider, argon2"},
			needs: "python3-django-oauth-toolkit and python3-argon2",
			fill:  []string{"sh", "-c", "python3 manage.py shell < fill.py"}, file: "export.py",
			scopes: [2]string{"SCOPES = {}", `SCOPES = {"read": "events:read resources:read"}`},
			client: credentials{"books-id", "ooTh3ahquee8Eing9aeyoo6Iechi0eiChahph2Ahp6ohz4ee"}, username: "odile",
			access: "access-of-odile-at-the-books", refresh: "refresh-of-odile-at-the-books",
		},
		{
			name:  "hydra",
			probe: []string{"psql", "--version"}, needs: "postgresql",
			file: "export.py", scopes: [2]string{"SCOPES = {}", pythonScopes},
			client: credentials{"books", "the-secret-of-the-bookkeeping-client"}, username: "odile",
		},
		{
			name:  "keycloak",
			probe: []string{python, "-c", "import argon2"}, needs: "python3-argon2",
			fill: []string{"python3", "fill.py"}, file: "export.py", scopes: [2]string{"SCOPES = {}", pythonScopes},
			client: credentials{"books", "ZWq3hVJ8dEn2xT6gRk9LsYcB4mPaUf7t"}, username: "odile",
		},
	}
}

// export makes the system's database in a directory of its own and runs the script on it, by the
// command in the script. It returns the lines and what was left out.
func (m migration) export(t *testing.T) (file string, left string) {
	must.Have(t, exec.Command(m.probe[0], m.probe[1:]...).Run() == nil, m.needs+", of Debian's packages, are missing")
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "migration", m.name))))
	tools := t.TempDir()
	for _, name := range []string{"python", "python3"} {
		must.Do(t, os.Symlink("/usr/bin/python3", filepath.Join(tools, name)))
	}
	environ := append(environ(), "PATH="+tools+":"+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1")
	if m.name == "hydra" {
		environ = append(environ, hydra(t, dir)...)
	}
	run := func(name string, args ...string) (stderr string) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, environ
		var told bytes.Buffer
		cmd.Stderr = &told
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, &told)
		}
		return told.String()
	}
	if len(m.fill) > 0 {
		run("env", m.fill...) // looks for it in our PATH
	}
	script := string(command(t, "", "print", "migration", m.name))
	if !strings.Contains(script, m.scopes[0]) {
		t.Fatalf("the script has no %s", m.scopes[0])
	}
	// A table is read in pages, here of two rows.
	script = strings.NewReplacer(m.scopes[0], m.scopes[1], "[:1000]", "[:2]", "setMaxResults(1000)", "setMaxResults(2)", "FETCH_COUNT=1000", "FETCH_COUNT=2").Replace(script)
	path := filepath.Join(dir, filepath.FromSlash(m.file))
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(script), 0o600))
	line := runLine.FindStringSubmatch(script)
	if line == nil {
		t.Fatal("the script names no command")
	}
	left = run("bash", "-c", "umask 077; "+strings.Replace(line[1], "DIRECTORY", "export", 1))
	return filepath.Join(dir, "export.ndjson"), left
}

// migratedHistory is brought along: two events of one customer, and a customer without a history.
const migratedHistory = `{"event":{"id":"po_1","owner":"default","type":"customer.created","resource":"cus_1","createdAt":%[1]d,"eventData":{"object":{"displayName":"Larkspur Tea Room"}}}}
{"event":{"id":"po_2","owner":"default","type":"customer.updated","resource":"cus_1","createdAt":%[1]d,"eventData":{"object":{"displayName":"Larkspur"},"previousAttributes":{"displayName":"Larkspur Tea Room"}}}}
{"resource":{"kind":"customer","id":"cus_2","object":{"displayName":"Dunmere Books"},"createdAt":%[1]d}}
`

// moveIn imports a file that a script wrote, with a history, and lives on with what moved.
func (m migration) moveIn(t *testing.T, file string) {
	lines := must.Get(os.ReadFile(file))(t)
	lines = fmt.Appendf(lines, migratedHistory, time.Now().Add(-time.Hour).Unix())
	must.Do(t, os.WriteFile(file, lines, 0o600))
	data := filepath.Join(t.TempDir(), "data")
	m.tryAll(t, file, lines)
	for _, run := range []struct {
		flags              []string
		created, unchanged int
	}{
		{[]string{"--dry-run"}, bytes.Count(lines, []byte("\n")), 0},
		{nil, bytes.Count(lines, []byte("\n")), 0},
		{[]string{"--update"}, 0, bytes.Count(lines, []byte("\n"))}, // nothing changed between the runs
	} {
		var sum struct {
			Created                    map[string]int
			Unchanged, Updated, Errors int
		}
		decode(t, command(t, "", append([]string{"import", file, "--json", "--data", data}, run.flags...)...), &sum)
		created := 0
		for _, n := range sum.Created {
			created += n
		}
		// What was hashed again cannot be compared, so --update hashes it once more.
		if created != run.created || sum.Unchanged+sum.Updated != run.unchanged || sum.Errors != 0 {
			t.Fatalf("import %q = %+v, want %d created and %d unchanged", run.flags, sum, run.created, run.unchanged)
		}
	}

	s := startServe(t, data)
	c, ctx := s.asClient(m.client), t.Context()
	s.log.watchFor(migratedPassword)
	if p, a, err := c.grant(ctx, "password", "username", m.username, "password", "another "+migratedPassword); err != nil || p.Access != "" || a.status != http.StatusBadRequest {
		t.Errorf("a wrong password: %v, %v, want 400", a, err)
	}
	for range 2 { // the first sign-in replaces the hash
		p, a, err := c.grant(ctx, "password", "username", m.username, "password", migratedPassword)
		if err != nil || p.Access == "" {
			t.Fatalf("sign in with the old password: %s, %v", a, err)
		}
		c.wantHistory(t, p.Access)
	}
	if m.refresh == "" {
		return
	}
	s.log.watchFor(m.access)
	s.log.watchFor(m.refresh)
	c.wantHistory(t, m.access)
	first, a, err := c.grant(ctx, "refresh_token", "refresh_token", m.refresh)
	if err != nil || first.Access == "" || first.Refresh == m.refresh {
		t.Fatalf("refresh the old token: %s, %v", a, err)
	}
	again, a, err := c.grant(ctx, "refresh_token", "refresh_token", m.refresh)
	if err != nil || !again.same(first) {
		t.Errorf("a retry of the refresh: %s, %v, want the same pair", a, err)
	}
	c.wantHistory(t, first.Access)
	c.wantHistory(t, m.access) // lives to its expiry
}

// tryAll tries the old password of everybody who has one.
func (m migration) tryAll(t *testing.T, file string, lines []byte) {
	tried := 0
	for line := range bytes.Lines(lines) {
		var record struct{ User moving.User }
		decode(t, line, &record)
		if record.User.PasswordHash.IsZero() {
			continue
		}
		tried++
		for password, want := range map[string]int{migratedPassword: 0, "another " + migratedPassword: 1} {
			cmd := exec.Command(program(t), "import", file, "--try", record.User.Username, "--password-file", "-")
			cmd.Env, cmd.Dir, cmd.Stdin = environ(), t.TempDir(), strings.NewReader(password+"\n")
			if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
				t.Errorf("--try %s: exit code %d, want %d\n%s", record.User.Username, cmd.ProcessState.ExitCode(), want, out)
			}
		}
	}
	if tried < 2 {
		t.Errorf("%d users have a password", tried)
	}
}

func (c *client) wantHistory(t *testing.T, access string) {
	t.Helper()
	events, err := c.eventsAfter(t.Context(), access, "")
	if err != nil || len(events) != 3 || events[0].ID != "po_1" || events[2].Resource != "cus_2" {
		t.Errorf("the history = %v, %v, want that of the file", events, err)
	}
}

// runLine finds the command in a script's first comment, and the settings in front of it that a
// reader replaces.
var runLine = regexp.MustCompile(`(?m)^(?:#|//) run: (?:[A-Z_]+=\S* )*(.*)$`)

// hydra makes the databases of Hydra and Kratos, and an admin API that answers as Hydra did.
func hydra(t *testing.T, dir string) (environ []string) {
	api := http.NewServeMux()
	var clients []json.RawMessage
	decode(t, must.Get(os.ReadFile(filepath.Join(dir, "clients.json")))(t), &clients)
	api.HandleFunc("GET /admin/clients", func(w http.ResponseWriter, r *http.Request) {
		page := clients[:3]
		if r.FormValue("page_token") == "" {
			w.Header().Set("Link", `</admin/clients?page_size=3&page_token=eyJvIjoiMyJ9>; rel="next",</admin/clients?page_size=3&page_token=eyJvIjoiMyJ9>; rel="last"`)
		} else {
			page = clients[3:]
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(page)
	})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	environ = []string{"HYDRA_ADMIN_URL=" + server.URL}
	for _, name := range []string{"hydra", "kratos"} {
		dsn := pgtest.Start(t)
		if out, err := exec.Command("psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", filepath.Join(dir, name+".sql")).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		join := "?"
		if strings.Contains(dsn, "?") {
			join = "&"
		}
		environ = append(environ, strings.ToUpper(name)+"_DSN="+dsn+join+"max_conns=20&max_idle_conns=4")
	}
	return environ
}

// secretText finds secrets, tokens and hashes in a line.
var secretText = regexp.MustCompile(`"(?:client_secret|access_token|refresh_token|client_secret_hash|password_hash|hash|key)": ?"([^"]{16,})"`)

// secretMember finds members that may differ from run to run.
var secretMember = regexp.MustCompile(`password_hash|client_secret|_sha256`)

// masked is a line without what differs from run to run.
func masked(t *testing.T, line string) string {
	var record map[string]map[string]any
	decode(t, []byte(line), &record)
	for _, members := range record {
		for name, value := range members {
			switch text, isText := value.(string); {
			case strings.HasSuffix(name, "_at"):
				members[name] = 0
			case isText && secretMember.MatchString(name):
				members[name] = text[:min(len(text), len("$2a$10$"))] + "…"
			}
		}
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	must.Do(t, e.Encode(record))
	return text.String()
}

// TestMigrationGuide runs the commands of docs/migration.md beside an export of Keycloak.
//
// Promise (Platform §14): the page about moving in shows commands that run and what they print
func TestMigrationGuide(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	bash := needTool(t, "bash")
	dir := t.TempDir()
	m := migrations()[4]
	must.Have(t, exec.Command(m.probe[0], m.probe[1:]...).Run() == nil, m.needs+", of Debian's packages, are missing")
	cmd := exec.Command("/usr/bin/python3", must.Get(filepath.Abs(filepath.Join("testdata", "migration", m.name, "fill.py")))(t))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	guideRuns(t, bash, "migration.md", dir, 8)
}

// An application that was not changed comes to the addresses of the system before, with its scopes, through
// the proxy of the page.
//
// Promise (Platform §14): behind the proxy of the page about moving in, an application that knows only the
// old addresses and asks for old scopes gets a code and a token
func TestTheOldAddressesBehindNginx(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	docs := func(name string) string {
		return string(must.Get(os.ReadFile(filepath.Join("..", "..", "docs", name)))(t))
	}
	old := fencedBlocks(docs("migration.md"), "nginx")
	must.Have(t, len(old) == 1, "docs/migration.md has no block for nginx, or several")
	config := fencedBlocks(section(docs("operations.md"), proxySection), "nginx")[0]
	at := strings.LastIndex(config, "    location / {")
	f := startNginx(t, secureURL, config[:at]+old[0]+"\n"+config[at:])
	c := f.createClient("Larkspur Bookkeeping", callbackURI)
	f.createUser(odile, odileAccount, odilePassword)
	const realm = secureURL + "/realms/REALM/protocol/openid-connect/"
	query := url.Values{"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {callbackURI}, "state": {"s"}, "scope": {"openid orders"}}
	for _, asked := range []string{query.Encode(), "scope=openid&state=s", "state=s&scope=orders", "state=s"} {
		browser := must.Get(newVisitorClient(f.transport))(t)
		browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		a := must.Get(browser.Get(realm + "auth?" + asked))(t)
		must.Do(t, a.Body.Close())
		if to := a.Header.Get("Location"); a.StatusCode != http.StatusFound || !strings.Contains(to, "/oauth/v2/auth?") || strings.Contains(to, "scope") || !strings.Contains(to, "state=") {
			t.Errorf("%s leads on to %d %q", asked, a.StatusCode, to)
		}
	}
	visit := &visitor{t: t, http: must.Get(newVisitorClient(f.transport))(t)}
	if to := visit.allow(visit.signIn(realm+"auth?"+query.Encode(), odile, odilePassword)); to.Query().Get("code") == "" || to.Query().Get("state") != "s" {
		t.Errorf("the sign-in leads to %s, want a code", to)
	}
	form := url.Values{"grant_type": {"password"}, "username": {odile}, "password": {odilePassword}, "client_id": {c.ID}, "client_secret": {c.Secret}}
	a := must.Get((&http.Client{Transport: f.transport, Timeout: requestWait}).PostForm(realm+"token", form))(t)
	body := must.Get(io.ReadAll(a.Body))(t)
	must.Do(t, a.Body.Close())
	if a.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"access_token"`)) {
		t.Errorf("the token request is answered %d %s", a.StatusCode, body)
	}
}
