package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// devClient asks a dev instance what a test asks, and writes down what it gets.
type devClient struct {
	t *testing.T
	s *process
}

func (c devClient) do(r *http.Request) (answer *http.Response, body string) {
	c.t.Helper()
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r) // follows no redirect
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer, string(text)
}

func (c devClient) request(method, path, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.s.text("url")+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// token asks for tokens and returns the answer as it is.
func (c devClient) token(form url.Values) string {
	c.t.Helper()
	form.Set("client_id", c.s.text("client_id"))
	form.Set("client_secret", c.s.text("client_secret"))
	r := c.request("POST", "/oauth/v2/token", form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, body := c.do(r)
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("token request answered %s: %s", answer.Status, body)
	}
	return body
}

func (c devClient) password() string {
	return c.token(url.Values{"grant_type": {"password"}, "username": {c.s.text("username")}, "password": {c.s.text("password")}})
}

func member(t *testing.T, body, name string) string {
	t.Helper()
	var object map[string]any
	must.Do(t, json.Unmarshal([]byte(body), &object))
	text, _ := object[name].(string)
	return text
}

// authorize sends a browser without cookies, or with those given, to the
// authorization endpoint.
func (c devClient) authorize(more string, cookies ...*http.Cookie) (*http.Response, string) {
	c.t.Helper()
	q := url.Values{"client_id": {c.s.text("client_id")}, "response_type": {"code"}, "redirect_uri": {c.s.text("redirect_uri")}, "state": {"xyz"}}
	r := c.request("GET", "/oauth/v2/auth?"+q.Encode()+more, "")
	for _, cookie := range cookies {
		r.AddCookie(cookie)
	}
	return c.do(r)
}

func codeIn(t *testing.T, answer *http.Response) string {
	t.Helper()
	to, err := answer.Location()
	if err != nil {
		t.Fatalf("%s without a place to go: %v", answer.Status, err)
	}
	return to.Query().Get("code")
}

// TestDevPredictable: with --rand-seed and --clock two runs that are asked the same
// give the same, to the letter; without, they do not.
//
// Promise (Testers, bad input): dev has predictable ids and a fixed clock on request
func TestDevPredictable(t *testing.T) {
	t.Parallel()
	// told is all that a run gives away, of what a test may want to compare.
	told := func(t *testing.T, polls int, args ...string) (all []string) {
		s := start(t, append([]string{"dev", "--auto-login", "demo", "--auto-consent"}, args...)...)
		c := devClient{t, s}
		for range polls { // how often somebody looks whether it is ready is no matter
			c.do(c.request("GET", "/healthz", ""))
		}
		first := c.password()
		all = append(all, first)
		answer, _ := c.authorize("")
		all = append(all, codeIn(t, answer))
		all = append(all, c.token(url.Values{"grant_type": {"authorization_code"}, "code": {all[1]}, "redirect_uri": {s.text("redirect_uri")}}))
		all = append(all, c.token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {member(t, first, "refresh_token")}}))
		r := c.request("PUT", "/api/resources/customer/cus_new", `{"displayName":"Larkspur Tea Room"}`)
		r.Header.Set("Authorization", "Bearer "+member(t, first, "access_token"))
		r.Header.Set("Content-Type", "application/json")
		if answer, body := c.do(r); answer.StatusCode != http.StatusCreated {
			t.Fatalf("PUT answered %s: %s", answer.Status, body)
		}
		made, stderr, code := run(t, "client", "create", "--name", "Till", "--redirect-uri", "https://app.example/cb", "--admin-socket", s.text("admin_socket"), "--json")
		if code != term.ExitOK {
			t.Fatal(stderr)
		}
		users, _, _ := run(t, "user", "list", "--admin-socket", s.text("admin_socket"), "--json")
		events, _, _ := run(t, "event", "list", "--admin-socket", s.text("admin_socket"), "--json", "--limit", "100")
		return append(all, made, users, events)
	}
	fixed := []string{"--rand-seed", "7", "--clock", "2026-06-01T12:00:00Z"}
	names := []string{"password grant", "code", "code grant", "refresh", "client", "users", "events"}
	t.Run("dev_rand_seed_and_clock_same_requests_same_answers", func(t *testing.T) {
		t.Parallel()
		one, two := told(t, 0, fixed...), told(t, 3, fixed...)
		for i, name := range names {
			if one[i] != two[i] || one[i] == "" {
				t.Errorf("%s differs between two runs:\n%s\n%s", name, one[i], two[i])
			}
		}
	})
	t.Run("without_rand_seed_nothing_is_predictable", func(t *testing.T) {
		t.Parallel()
		one, two, other := told(t, 0, fixed[2:]...), told(t, 0, fixed[2:]...), told(t, 0, "--rand-seed", "8", "--clock", fixed[3])
		for i, name := range names[:6] {
			if one[i] == two[i] || one[i] == other[i] {
				t.Errorf("%s is the same in two runs: %s", name, one[i])
			}
		}
	})
	t.Run("dev_rand_seed_is_said_aloud", func(t *testing.T) {
		t.Parallel()
		s := start(t, "dev", "--rand-seed", "7")
		s.end()
		if !strings.Contains(s.stderr.String(), "tokens are predictable") {
			t.Errorf("standard error: %q, want a warning that tokens are predictable", s.stderr)
		}
	})
}

// Promise (Testers, bad input): dev signs in and allows without pages on request
func TestDevAuto(t *testing.T) {
	t.Parallel()
	t.Run("dev_auto_login_and_consent_one_request_to_the_code", func(t *testing.T) {
		t.Parallel()
		c := devClient{t, start(t, "dev", "--auto-login", "DEMO", "--auto-consent")}
		answer, _ := c.authorize("")
		code := codeIn(t, answer)
		if answer.StatusCode != http.StatusSeeOther || code == "" || !strings.HasPrefix(answer.Header.Get("Location"), c.s.text("redirect_uri")+"?") ||
			!strings.Contains(answer.Header.Get("Location"), "&state=xyz&iss=") {
			t.Fatalf("%s to %q, want 303 back to the client with code, state and iss", answer.Status, answer.Header.Get("Location"))
		}
		tokens := c.token(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.s.text("redirect_uri")}})
		if member(t, tokens, "access_token") == "" {
			t.Errorf("the code gave %s", tokens)
		}
		// The browser is signed in as after the form: it stays so elsewhere.
		r := c.request("GET", "/account", "")
		for _, cookie := range answer.Cookies() {
			r.AddCookie(cookie)
		}
		if page, body := c.do(r); page.StatusCode != http.StatusOK || !strings.Contains(body, "Demo application") {
			t.Errorf("/account with the session's cookie answered %s", page.Status)
		}
		audit, _, _ := run(t, "audit", "--admin-socket", c.s.text("admin_socket"), "--json")
		if !strings.Contains(audit, "auto_login") {
			t.Errorf("no audit line says that nobody typed a password:\n%s", audit)
		}
	})
	t.Run("dev_auto_login_shows_the_consent", func(t *testing.T) {
		t.Parallel()
		c := devClient{t, start(t, "dev", "--auto-login", "demo")}
		for _, more := range []string{"", "&prompt=login"} {
			if answer, body := c.authorize(more); answer.StatusCode != http.StatusOK || !strings.Contains(body, ">Allow<") {
				t.Errorf("%q: %s without a button to allow it", more, answer.Status)
			}
		}
	})
	t.Run("dev_auto_consent_asks_who_it_is", func(t *testing.T) {
		t.Parallel()
		c := devClient{t, start(t, "dev", "--auto-consent")}
		if answer, body := c.authorize(""); answer.StatusCode != http.StatusOK || !strings.Contains(body, `name="password"`) {
			t.Errorf("%s without a sign-in form", answer.Status)
		}
	})
	t.Run("dev_auto_refusals_stay", func(t *testing.T) {
		t.Parallel()
		c := devClient{t, start(t, "dev", "--auto-login", "demo", "--auto-consent")}
		if answer, _ := c.authorize("&code_challenge=short"); !strings.Contains(answer.Header.Get("Location"), "error=invalid_request") {
			t.Errorf("a challenge that is none: %s to %q, want invalid_request", answer.Status, answer.Header.Get("Location"))
		}
		for _, query := range []string{"client_id=nobody&response_type=code", "client_id=demo&response_type=code&redirect_uri=https://elsewhere.example/"} {
			answer, _ := c.do(c.request("GET", "/oauth/v2/auth?"+query, ""))
			if answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Location") != "" {
				t.Errorf("%s: %s to %q, want 400 and to stay", query, answer.Status, answer.Header.Get("Location"))
			}
		}
		if _, stderr, code := run(t, "user", "disable", "demo", "--admin-socket", c.s.text("admin_socket")); code != term.ExitOK {
			t.Fatal(stderr)
		}
		if answer, body := c.authorize(""); answer.StatusCode != http.StatusOK || !strings.Contains(body, `name="password"`) {
			t.Errorf("a disabled user: %s, want the sign-in form", answer.Status)
		}
	})
	t.Run("dev_without_the_flags_shows_screens", func(t *testing.T) {
		t.Parallel()
		c := devClient{t, start(t, "dev")}
		if answer, body := c.authorize(""); answer.StatusCode != http.StatusOK || !strings.Contains(body, `name="password"`) {
			t.Errorf("%s without a sign-in form", answer.Status)
		}
	})
}

// TestDevParent: an instance that a test forgot does not outlive the test.
//
// Promise (Testers, bad input): dev ends with its parent on request
func TestDevParent(t *testing.T) {
	t.Parallel()
	type readyLine struct {
		AdminSocket string `json:"admin_socket"`
		PID         int    `json:"pid"`
	}
	// under starts dev as the child of a shell and returns what it printed.
	under := func(t *testing.T, flags string) (shell *exec.Cmd, ready readyLine, out *bufio.Reader) {
		shell = exec.Command("sh", "-c", "tollhouse dev "+flags+" & wait")
		pipe := must.Get(shell.StdoutPipe())(t)
		must.Do(t, shell.Start())
		out = bufio.NewReader(pipe)
		line, err := out.ReadString('\n')
		if err == nil {
			err = json.Unmarshal([]byte(line), &ready)
		}
		if err != nil {
			t.Fatalf("ready line %q: %v", line, err)
		}
		must.Do(t, shell.Process.Kill())
		return shell, ready, out
	}
	t.Run("dev_exit_with_parent", func(t *testing.T) {
		t.Parallel()
		shell, ready, out := under(t, "--exit-with-parent")
		if _, err := io.Copy(io.Discard, out); err != nil { // ends with the last who holds it
			t.Error(err)
		}
		_ = shell.Wait()
		if _, err := os.Stat(filepath.Dir(ready.AdminSocket)); err == nil {
			t.Errorf("%s is still there: it did not stop as it should", ready.AdminSocket)
		}
	})
	t.Run("dev_without_the_flag_it_stays", func(t *testing.T) {
		t.Parallel()
		shell, ready, out := under(t, "")
		child := must.Get(os.FindProcess(ready.PID))(t)
		_, stderr, code := run(t, "health", "--admin-socket", ready.AdminSocket)
		if err := child.Signal(syscall.SIGTERM); err != nil || code != term.ExitOK {
			t.Errorf("an instance without its parent: health exit %d, %s; %v", code, stderr, err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = shell.Wait()
	})
}

// TestDevEngine: dev runs on the engine whose state can be put back, unless told
// otherwise. Only Badger has a queue of updates.
func TestDevEngine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		flags []string
		queue float64
	}{
		{"memory_unless_given", nil, 0},
		{"memory", []string{"--engine", "memory"}, 0},
		{"badger", []string{"--engine", "badger"}, 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, append([]string{"dev"}, c.flags...)...)
			page := metricsOf(t, s)
			if got := gauge(page, "tollhouse_store_queue_limit_updates"); got != c.queue {
				t.Errorf("updates that may wait = %v, want %v", got, c.queue)
			}
			if got := gauge(page, "tollhouse_store_commit_updates_count"); got < 1 {
				t.Errorf("commits = %v, want 1 or more: the demo's", got)
			}
			s.end()
		})
	}
}

// TestDevDisk: dev keeps nothing on disk but its socket, and not that for long.
//
// Promise (Testers, bad input): dev runs in memory, on a free loopback port, ready by one line of
// JSON that has the desk, with a seed file; serve has none of the options of dev
func TestDevDisk(t *testing.T) {
	t.Parallel()
	t.Run("dev_keeps_nothing_on_disk", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		for _, dir := range []string{"tmp", "work"} {
			must.Do(t, os.Mkdir(filepath.Join(home, dir), 0o700))
		}
		s, err := startProcess(filepath.Join(home, "work"), []string{"TMPDIR=" + filepath.Join(home, "tmp"), "HOME=" + home}, "dev")
		must.Do(t, err)
		c := devClient{t, s}
		r := c.request("PUT", "/api/resources/customer/cus_new", `{"displayName":"Larkspur Tea Room"}`)
		r.Header.Set("Authorization", "Bearer "+member(t, c.password(), "access_token"))
		r.Header.Set("Content-Type", "application/json")
		if answer, body := c.do(r); answer.StatusCode != http.StatusCreated {
			t.Errorf("PUT answered %s: %s", answer.Status, body)
		}
		if got, want := filesUnder(t, home), []string{s.text("admin_socket")}; !slices.Equal(got, want) {
			t.Errorf("while it runs there are %q, want %q", got, want)
		}
		if runtime.GOOS == "linux" {
			for _, file := range filesOpenIn(t, s.cmd.Process.Pid) {
				t.Errorf("it holds the file %s open", file)
			}
		}
		if code := s.end(); code != term.ExitOK {
			t.Errorf("exit %d: %s", code, s.stderr)
		}
		if left := filesUnder(t, home); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		if dirs, err := os.ReadDir(filepath.Join(home, "tmp")); err != nil || len(dirs) > 0 {
			t.Errorf("left behind: %v, %v", dirs, err)
		}
	})
}

func filesUnder(t *testing.T, dir string) (names []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// filesOpenIn returns the ordinary files that a process holds open, those too
// that have lost their name (proc(5), fd).
func filesOpenIn(t *testing.T, pid int) (names []string) {
	t.Helper()
	links, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
	if err != nil || len(links) == 0 {
		t.Fatalf("no open files of %d: %v", pid, err)
	}
	for _, link := range links {
		info, err := os.Stat(link)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		// The runtime reads what the machine allows it, and polls by what have no place.
		if name, err := os.Readlink(link); err == nil && filepath.IsAbs(name) && !strings.HasPrefix(name, "/sys/") {
			names = append(names, name)
		}
	}
	return names
}

// TestDevShowsSecretsInItsJournalUnlessMasked: they are what a tester looks for. A reset keeps
// the choice.
//
// Promise (Testers, bad input): dev's journal shows secrets as they came; with `--mask-journal`,
// nowhere
func TestDevShowsSecretsInItsJournalUnlessMasked(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--mask-journal"}} {
		isMasked := flags != nil
		s := start(t, append([]string{"dev"}, flags...)...)
		c := devClient{t, s}
		c.do(c.request("POST", "/_dev/reset", ""))
		token := member(t, c.password(), "access_token")
		r := c.request("GET", "/api/events", "")
		r.Header.Set("Authorization", "Bearer "+token)
		c.do(r)
		_, journal := c.do(c.request("GET", "/_dev/requests", ""))
		for name, secret := range map[string]string{"password": s.text("password"), "client secret": s.text("client_secret"), "access token": "Bearer " + token} {
			if strings.Contains(journal, secret) == isMasked {
				t.Errorf("dev %v: that the journal shows the %s is %v: %s", flags, name, !isMasked, journal)
			}
		}
		if strings.Contains(journal, "[masked:") != isMasked {
			t.Errorf("dev %v: the journal has masks: %v: %s", flags, !isMasked, journal)
		}
	}
}
