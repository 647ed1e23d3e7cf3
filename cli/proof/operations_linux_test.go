package proof

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// A newcomer goes through docs/operations.md from its first line to its last: what
// stands there to be pasted is pasted, in order, on a machine of the test's own.
// That is a directory in the place of /, an address in the place of 127.0.0.1, and
// a person at a terminal who types passwords. In the place of systemd, which needs
// a machine, the test reads the unit and the settings that were written, and starts
// what they say. Two blocks for other ways (a container, another issuer) are left
// to the tests of their own, and so is the chapter on several machines and a database.

const (
	newcomersPassword = "larkspur tea room ledger"
	blockWait         = time.Minute // for the import; a second or two are usual
)

// place is a machine, as far as the document needs one.
type place struct {
	t       *testing.T
	root    string // in the place of /
	src     string // where the newcomer is: the directory of the sources
	address string // in the place of 127.0.0.1
	web     string // of the proxy, to which pay.example leads
	keys    keyPair
	typed   *os.File // our end of the terminal
	stdin   *os.File // theirs
	server  *server
	front   *front
	fetched *place // the other machine, to which backups are sent
}

func newPlace(t *testing.T) *place {
	t.Helper()
	// A short name: the path of the admin socket must fit into curl's address.
	root, err := os.MkdirTemp("", "place-")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	p := &place{t: t, root: root, address: ownLoopback(t), web: ownLoopback(t), keys: newKeyPair(t, false, secureHost)}
	p.src = filepath.Join(p.root, "root", "tollhouse")
	for _, dir := range []string{p.src, p.at("/usr/local/bin"), p.at("/etc/systemd/system"), p.at("/var/lib"), p.at("/var/backups")} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	install(t, program(t), filepath.Join(p.src, "tollhouse"))
	// What a release has; .ci/releasing tests that it makes it.
	pack := exec.CommandContext(t.Context(), needTool(t, "bash"), "-c",
		"tar -I 'gzip -1' -cf $0.tar.gz --transform s,^,$0/, tollhouse; sha256sum $0.tar.gz >SHA256SUMS", "tollhouse_1.0.0_linux_amd64")
	pack.Dir = p.src
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if p.typed, p.stdin, err = openTerminal(); err != nil {
		t.Fatalf("terminal: %v", err)
	}
	t.Cleanup(func() { p.typed.Close(); p.stdin.Close() })
	return p
}

func (p *place) at(path string) string { return p.root + path }

// here says in the words of this machine what the document says of any.
func (p *place) here(text string) string {
	text = strings.NewReplacer(
		"/usr/local/bin/", p.at("/usr/local/bin/"), "/etc/letsencrypt/live/pay.example/fullchain.pem", p.keys.cert, "/etc/letsencrypt/live/pay.example/privkey.pem", p.keys.key,
		"/etc/", p.at("/etc/"), "/var/lib/", p.at("/var/lib/"), "/var/backups/", p.at("/var/backups/"),
		" -o tollhouse -g tollhouse", "", "127.0.0.1:", p.address+":", "=:443", "="+p.address+":8443", "=:80\n", "="+p.address+":8080\n",
	).Replace(text)
	return text
}

// blockWants is what a block prints, by words of the block.
var blockWants = []struct{ block, want string }{
	{"tollhouse version", "tollhouse"},
	{"status --data", "ready"},
	{"user create harriet --data", "harriet"},
	{"cat client.json", `"client_secret":"tollcs_`},
	{"cat token.json", `{"access_token":"tollat_`},
	{"cus_first", `"type":"customer.created"`},
	{"token list", "Larkspur Bookkeeping"},
	{"https://pay.example/readyz", `"issuer":"https://pay.example"`},
	{"doctor --data", "ok       store"},
	{"doctor --deep", "ok       records"},
	{"curl -s http://127.0.0.1:9464", "tollhouse_ready 1"},
	{"ls -l /var/backups", "tollhouse-"},
	{"backup verify", "complete "},
	{"monday.backup --data /var/lib", "ed "},
	{"cat /var/lib/tollhouse/CURRENT", "db-0002"},
	{"tollhouse/tried\n", "restored "},
	{"before-upgrade", "backed up "},
	{"event import", "20000"},
	{"token inspect", "active       yes"},
	{"token revoke", "revoked family"},
	{"rotate-secret", "tollcs_"},
	{"user passwd", "harriet"},
}

// TestOperationsByANewcomer reaches a first token, a user and a client of its own,
// TLS behind nginx, and a nightly backup restored on another machine, and goes on
// through upgrade and disasters.
//
// Promise (TLS and proxies): a whole walk behind nginx, Apache and Caddy, below a path and on other
// ports too; a newcomer with that page gets a token, TLS, and a backup restored elsewhere
//
// Promise (Guard §11): the commands of operations.md for encrypted backups, rclone, restic and a lost key work
func TestOperationsByANewcomer(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	needTool(t, "bash")
	needTool(t, "curl")
	needTool(t, "nginx", "/usr/sbin/nginx")
	blocks := documentBlocks(readOperations(t))
	t.Run("newcomer_goes_through_the_document", func(t *testing.T) {
		t.Parallel()
		here, elsewhere := newPlace(t), newPlace(t)
		here.fetched = elsewhere
		wanted := map[int]bool{}
		for _, b := range blocks {
			p := here
			if encryptedHeadings[b.heading] || b.chapter == "TLS" || b.chapter == "Several machines" || b.chapter == "The long proofs" || b.heading == "As a package" {
				continue
			}
			if b.heading == "On another machine" && !strings.Contains(b.text, "scp ") {
				if p = elsewhere; p.server == nil && strings.HasPrefix(b.text, "install -d") {
					elsewhere.install(blocks)
				}
			}
			out := p.follow(b)
			for i, w := range blockWants {
				if b.mark != "" && b.mark != "sh" || !strings.Contains(b.text, w.block) {
					continue
				}
				if wanted[i] = true; !strings.Contains(out, w.want) {
					t.Errorf("under %q\n%s\nprints\n%s\nwant %q in it", b.heading, b.text, out, w.want)
				}
			}
		}
		for i, w := range blockWants {
			if !wanted[i] {
				t.Errorf("no block has %q", w.block)
			}
		}
		if out := string(elsewhere.server.run("user", "list")); !strings.Contains(out, "harriet") {
			t.Errorf("on the other machine the users are %s", out)
		}
	})
	t.Run("newcomer_encrypts_backups_and_sends_them_elsewhere", func(t *testing.T) {
		t.Parallel()
		for _, tool := range []string{"age", "age-keygen", "rclone", "restic", "openssl"} {
			needTool(t, tool)
		}
		p := newPlace(t)
		p.install(blocks)
		wants := []struct{ block, want string }{
			{"verify --sealed", "unchanged  yes"}, {"--identity laptop.key", "complete "}, {"restore --identity paper.key", "restored "}, {"ls -l /var/backups/elsewhere", ".backup.age"},
			{"restic snapshots", ".backup.age"}, {"--identity new.key", "complete "},
		}
		seen := 0
		for _, b := range blocks {
			switch {
			case b.heading == "A backup every night" && strings.Contains(b.text, "TOLLHOUSE_BACKUP_EVERY"):
			case !encryptedHeadings[b.heading]:
				continue
			}
			if b.heading == "A program after each backup" && strings.HasPrefix(b.text, "systemctl") {
				for _, made := range p.backups() { // as if a day had passed
					must.Do(t, os.Remove(made))
				}
			}
			if p.server == nil && strings.HasPrefix(b.text, "systemctl") {
				p.systemctl("start")
				continue
			}
			out := p.follow(b)
			if strings.HasPrefix(b.text, "systemctl") {
				p.waitForProgram()
			}
			for _, w := range wants {
				if strings.Contains(b.text, w.block) {
					if seen++; !strings.Contains(out, w.want) {
						t.Errorf("under %q\n%s\nprints\n%s\nwant %q in it", b.heading, b.text, out, w.want)
					}
				}
			}
		}
		for _, copied := range []string{"FILE=$(ls /var/backups/elsewhere/*.backup.age)",
			"restic restore -q latest --no-cache -r /var/backups/restic --password-file /etc/tollhouse/restic.password --target fetched; FILE=$(find $PWD/fetched -name '*.backup.age')"} {
			if out := p.paste(copied + "\ntollhouse backup verify --identity laptop.key $FILE"); !strings.Contains(out, "complete ") {
				t.Errorf("%s: the copy is %s", copied, out)
			}
		}
		if seen < len(wants) {
			t.Errorf("%d of the blocks were found, want %d", seen, len(wants))
		}
	})
	t.Run("newcomer_serves_tls_from_files", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.install(blocks)
		for _, b := range blocks {
			if b.chapter != "TLS" || b.heading != "A certificate in files" {
				continue
			}
			if b.mark == "ini" {
				writeFile(t, p.at("/etc/tollhouse/env"), p.here(b.text+"\n"))
				continue
			}
			p.follow(b)
		}
		p.systemctl("start")
		tr := p.server.transport(p.keys.roots, true)
		a := answerOf(t, &client{base: secureURL, http: httpClient(tr)}, "/.well-known/oauth-authorization-server")
		if !strings.Contains(string(a.body), `"issuer":"`+secureURL+`"`) {
			t.Errorf("over TLS the metadata are %v", a)
		}
		if a := answerOf(t, &client{base: "http://" + secureHost, http: httpClient(tr)}, "/account"); a.status != 308 {
			t.Errorf("plain http is answered %v, want 308", a)
		}
	})
	t.Run("newcomer_asks_for_a_certificate", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.install(blocks)
		for _, b := range blocks {
			if b.heading == "A certificate that it fetches" && b.mark == "ini" {
				// TestACME has an issuer; here there is none, and the server is to say so.
				writeFile(t, p.at("/etc/tollhouse/env"), p.here(b.text)+"TOLLHOUSE_ACME_DIRECTORY=https://"+p.address+":9/directory\n")
			}
		}
		p.systemctl("start")
		for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			status := string(p.server.run("status"))
			if strings.Contains(status, "connection refused") && strings.HasPrefix(status, "server       ready") {
				return
			}
			if time.Since(begun) > readyWait {
				t.Fatalf("status does not tell why there is no certificate:\n%s", status)
			}
		}
	})
}

// encryptedHeadings are gone through on a machine of their own.
var encryptedHeadings = map[string]bool{"Encrypted backups": true, "A program after each backup": true, "The key of the backups is lost": true}

// waitForProgram waits until no run of the program after a backup is due.
func (p *place) waitForProgram() {
	p.t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		due := false
		for _, made := range p.backups() {
			note, err := os.ReadFile(made + ".checked")
			due = due || err != nil || strings.Contains(string(note), `"then"`)
		}
		if !due {
			return
		}
		if time.Since(begun) > readyWait {
			p.t.Fatalf("the program after the backup has not ended:\n%s", p.server.log.tail())
		}
	}
}

// install follows the chapter on installing, up to the start.
func (p *place) install(blocks []docBlock) {
	p.t.Helper()
	for _, b := range blocks {
		if b.chapter == "Install" && (b.heading == "The program" || b.heading == "As a service") && !strings.Contains(b.text, "systemctl enable") && !strings.Contains(b.text, "status") {
			p.follow(b)
		}
	}
}

// follow does what a block says and returns what it printed.
func (p *place) follow(b docBlock) string {
	p.t.Helper()
	switch b.mark {
	case "sh":
		return p.paste(b.text)
	case "nginx":
		if b.heading == "nginx" {
			writeFile(p.t, p.at("/etc/nginx.conf"), b.text)
		}
		return ""
	case "ini", "apache", "caddy", "yaml", "json":
		return "" // another way, or what is sent
	case "":
		out := ""
		for line := range strings.Lines(b.text) {
			out += p.line(strings.TrimSpace(line))
		}
		return out
	}
	p.t.Fatalf("under %q stands a block marked %q, and the newcomer knows none such", b.heading, b.mark)
	return ""
}

// line follows a line that needs more than a shell.
func (p *place) line(line string) string {
	p.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "useradd", "apt-get", "a2enmod", "certbot", "docker", "#", "15", "TOLLHOUSE_PUBLIC_URL=https://pay.example":
		return "" // the machine's own, a container's, or cron's
	case "systemctl":
		return p.systemctl(strings.Fields(rest)[0])
	case "nginx":
		p.beginNginx()
		return ""
	case "scp":
		rest = strings.Replace(rest, "vault.example:", p.fetched.src, 1)
		return p.paste("cp " + rest)
	}
	if strings.Contains(verb, "://") {
		return "" // how a URL is spelled
	}
	if strings.Contains(line, "leaked.txt") {
		p.paste(`sed 's/.*"access_token":"\([^"]*\)".*/\1/' token.json > leaked.txt`)
	}
	if strings.Contains(line, "NEWEST") {
		files := p.backups()
		if len(files) == 0 {
			p.t.Fatal("there is no backup to restore")
		}
		line = strings.ReplaceAll(line, "NEWEST", filepath.Base(files[len(files)-1]))
	}
	return p.paste(line)
}

// paste runs lines in a shell at the newcomer's terminal, with what was set in the
// blocks before.
func (p *place) paste(lines string) string {
	p.t.Helper()
	for _, asked := range []string{"user create harriet", "user passwd harriet", "read -rs"} {
		if strings.Contains(lines, asked) {
			p.typeIn(newcomersPassword + "\n")
			if asked != "read -rs" {
				p.typeIn(newcomersPassword + "\n") // again
			}
		}
	}
	if _, err := os.Stat(p.at("/var/lib/tollhouse/CURRENT")); err == nil && restoresHere.MatchString(lines) {
		p.typeIn("y\n") // it asks before it replaces what is there
	}
	// How the binary is built is TestRelease's; here it is there.
	lines = strings.Replace(lines, releaseCommand+" -o tollhouse .\n", "", 1)
	ctx, cancel := context.WithTimeout(p.t.Context(), blockWait)
	defer cancel()
	state := filepath.Join(p.root, "shell")
	script := "set -a; [ ! -f " + state + " ] || . " + state + "; trap 'export -p > " + state + "' EXIT\nset -eu -o pipefail\n" +
		"curl() { case \"$*\" in *https://pay.example*) set -- --cacert " + p.keys.cert + " --connect-to pay.example:443:" + p.web + ":8443 \"$@\";; esac\n" +
		"command curl --show-error --fail-with-body \"$@\"; }\n" + p.here(lines)
	cmd := exec.CommandContext(ctx, needTool(p.t, "bash"), "-c", script)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = p.src, p.stdin, commandWait
	cmd.Env = append(slices.DeleteFunc(environ(), func(s string) bool { return strings.HasPrefix(s, "PATH=") || strings.HasPrefix(s, "HOME=") }),
		"HOME="+p.at("/root"), "PATH="+p.at("/usr/local/bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("pasted: %v\n%s\n-- the lines were --\n%s", err, out, lines)
	}
	return string(out)
}

var restoresHere = regexp.MustCompile(`(?m)^tollhouse restore .* --data /var/lib/tollhouse$`)

func (p *place) typeIn(text string) {
	p.t.Helper()
	if _, err := p.typed.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// systemctl does with the server what systemd would.
func (p *place) systemctl(verb string) string {
	p.t.Helper()
	if verb == "stop" || verb == "restart" {
		p.server.stop()
	}
	if verb == "start" || verb == "restart" || verb == "enable" {
		p.begin()
	}
	return ""
}

var execStart = regexp.MustCompile(`(?m)^ExecStart=(/usr/local/bin/tollhouse) (.*)$`)

// begin starts what the unit says, with the settings in its environment file, and
// waits for a backup when they speak of one.
func (p *place) begin() {
	p.t.Helper()
	unit, err := os.ReadFile(p.at("/etc/systemd/system/tollhouse.service"))
	if err != nil {
		p.t.Fatal(err)
	}
	command := execStart.FindStringSubmatch(string(unit))
	if command == nil || !strings.Contains(string(unit), "\nEnvironmentFile=-/etc/tollhouse/env\n") {
		p.t.Fatalf("the unit does not start the program with /etc/tollhouse/env:\n%s", unit)
	}
	if _, err := os.Stat(p.at(command[1])); err != nil {
		p.t.Fatal(err)
	}
	env := append(environ(), "TOLLHOUSE_LISTEN="+p.address+":8080")
	settings, err := os.ReadFile(p.at("/etc/tollhouse/env"))
	if err != nil {
		p.t.Fatal(err)
	}
	env = append(env, strings.Fields(string(settings))...) // what comes later counts
	p.server = startIn(p.t, env, strings.Fields(p.here(command[2]))...)
	if !strings.Contains(string(settings), "TOLLHOUSE_BACKUP_EVERY=") {
		return
	}
	if !strings.Contains(string(unit), "\nReadWritePaths=-/var/backups/tollhouse\n") {
		p.t.Errorf("the unit lets the server write no backups to /var/backups/tollhouse:\n%s", unit)
	}
	for begun := time.Now(); len(p.backups()) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > readyWait {
			p.t.Fatalf("no backup %v after the start:\n%s", readyWait, p.server.log.tail())
		}
	}
}

// backups are the files that the server has made by itself, oldest first.
func (p *place) backups() []string {
	p.t.Helper()
	var files []string
	for _, kind := range []string{".backup", ".backup.age"} {
		files = append(files, must.Get(filepath.Glob(p.at("/var/backups/tollhouse/tollhouse-*"+kind)))(p.t)...)
	}
	slices.Sort(files)
	return files
}

// beginNginx starts it once, on what was written.
func (p *place) beginNginx() {
	p.t.Helper()
	if p.front != nil {
		return
	}
	config, err := os.ReadFile(p.at("/etc/nginx.conf"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.front = &front{server: &server{base: "http://" + p.address + ":8080"}, public: secureURL}
	p.front.runNginx(p.t, p.keys, p.web, string(config))
}

func httpClient(tr http.RoundTripper) *http.Client {
	return &http.Client{Transport: tr, Timeout: requestWait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func answerOf(t *testing.T, c *client, path string) answer {
	t.Helper()
	a := must.Get(c.send(t.Context(), http.MethodGet, path, ""))(t)
	return a
}
