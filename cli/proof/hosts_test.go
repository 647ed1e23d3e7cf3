package proof

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestDevHosts: a browser and a container know one instance by two names, and each
// name is an issuer of its own; a name that a stranger may own is none.
//
// Promise (RFC 9110, RFC 9112): DNS rebinding: on loopback `dev` answers to no name that a local
// resolver can answer for
func TestDevHosts(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, s *server, host, method, path string, form url.Values) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
		must.Do(t, err)
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		a := must.Get(exchange(&http.Client{Timeout: requestWait}, r))(t)
		return a
	}
	type metadata struct {
		Issuer string `json:"issuer"`
		Auth   string `json:"authorization_endpoint"`
		Token  string `json:"token_endpoint"`
	}
	const metadataPath = "/.well-known/oauth-authorization-server"

	t.Run("each_name_is_an_issuer", func(t *testing.T) {
		t.Parallel()
		s := startDev(t, "--listen", "127.0.0.1:0,0.0.0.0:0", "--host", "Dev.Corp.example", "--host", ".preview.example")
		for _, host := range []string{"localhost:8080", "tollhouse:8080", "app.localhost", "dev.corp.example", "a.preview.example:81", "192.0.2.7:8080"} {
			issuer := "http://" + host
			var m metadata
			decode(t, ask(t, s, host, "GET", metadataPath, nil).body, &m)
			if want := (metadata{issuer, issuer + "/oauth/v2/auth", issuer + "/oauth/v2/token"}); m != want {
				t.Errorf("Host %s: metadata %+v, want %+v", host, m, want)
			}
			client := url.Values{"client_id": {s.ready.ClientID}, "client_secret": {s.ready.ClientSecret}}
			form := url.Values{"grant_type": {"password"}, "username": {s.ready.Username}, "password": {s.ready.Password}}
			for name, value := range client {
				form[name] = value
			}
			var pair tokens
			decode(t, ask(t, s, host, "POST", "/oauth/v2/token", form).body, &pair)
			var told struct {
				Active bool   `json:"active"`
				Issuer string `json:"iss"`
			}
			client.Set("token", pair.Access)
			decode(t, ask(t, s, host, "POST", "/oauth/v2/introspect", client).body, &told)
			if !told.Active || told.Issuer != issuer {
				t.Errorf("Host %s: introspection %+v, want iss %s", host, told, issuer)
			}
		}
		for _, host := range []string{"evil.example", "preview.example", "corp.example:8080", "localhost.evil.example"} {
			if a := ask(t, s, host, "GET", metadataPath, nil); !a.refused(http.StatusMisdirectedRequest, "misdirected_request") || !strings.Contains(string(a.body), "--host NAME") {
				t.Errorf("Host %s: %s, want 421 that names --host", host, a)
			}
		}
	})
	t.Run("a_resolver_can_answer_for_none_on_loopback", func(t *testing.T) {
		t.Parallel()
		for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0", "127.0.0.1:0,[::1]:0"} {
			s := startDev(t, "--listen", listen, "--host", "till")
			for host, want := range map[string]int{
				"127.0.0.1:8080": 200, "[::1]:8080": 200, "localhost": 200, "app.localhost:8080": 200, "till:8080": 200,
				"tollhouse:8080": 421, "pay.test": 421, "host.docker.internal": 421, "192.0.2.7:8080": 421, "0.0.0.0:8080": 421, "evil.example": 421,
			} {
				for _, path := range []string{metadataPath, "/_dev", "/"} {
					if a := ask(t, s, host, "GET", path, nil); a.status != want {
						t.Errorf("--listen %s, Host %s: GET %s = %s, want %d", listen, host, path, a, want)
					}
				}
			}
			// A reset builds the server again.
			if a := ask(t, s, "localhost", "POST", "/_dev/reset", nil); a.status/100 != 2 {
				t.Errorf("reset: %s", a)
			}
			if a := ask(t, s, "tollhouse", "GET", metadataPath, nil); a.status != http.StatusMisdirectedRequest {
				t.Errorf("--listen %s, after a reset: %s, want 421", listen, a)
			}
		}
	})
	t.Run("a_public_url_is_the_one_issuer", func(t *testing.T) {
		t.Parallel()
		s := startDev(t, "--listen", "0.0.0.0:0", "--public-url", "http://pay.example:8080")
		for host, programs := range map[string]string{"tollhouse:8080": "http://tollhouse:8080", "pay.example:8080": "http://pay.example:8080"} {
			var m metadata
			decode(t, ask(t, s, host, "GET", metadataPath, nil).body, &m)
			if want := (metadata{"http://pay.example:8080", "http://pay.example:8080/oauth/v2/auth", programs + "/oauth/v2/token"}); m != want {
				t.Errorf("Host %s: metadata %+v, want %+v", host, m, want)
			}
		}
	})
	t.Run("a_value_that_is_no_name_is_refused", func(t *testing.T) {
		t.Parallel()
		for _, value := range []string{"pay.example:8080", "http://pay.example", "*.example", "", ".", "*"} {
			out, err := exec.Command(program(t), "dev", "--host", value).CombinedOutput()
			if code := exitCode(err); code != 2 || !strings.Contains(string(out), "--host") {
				t.Errorf("--host %q: exit code %d, %s; want 2", value, code, out)
			}
		}
	})
	t.Run("serve_has_no_such_flag", func(t *testing.T) {
		t.Parallel()
		out, err := exec.Command(program(t), "serve", "--data", t.TempDir(), "--host", "pay.example").CombinedOutput()
		if code := exitCode(err); code != 2 || !strings.Contains(string(out), "has no flag --host") {
			t.Errorf("exit code %d, %s; want 2", code, out)
		}
	})
}

// TestDevAdminSocket: the admin socket lies where it was asked for, else where the
// system has a place for it, else nowhere.
func TestDevAdminSocket(t *testing.T) {
	t.Parallel()
	const (
		missing = "/nonexistent/tollhouse"
		warning = "no admin socket"
	)
	under := func(runtime, temporary string) []string {
		return append(environ(), "XDG_RUNTIME_DIR="+runtime, "TMPDIR="+temporary)
	}
	private := func(t *testing.T) string {
		t.Helper()
		dir := must.Get(os.MkdirTemp("/tmp", "tollhouse-proof-"))(t)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	t.Run("runtime_directory_first", func(t *testing.T) {
		t.Parallel()
		runtime, temporary := private(t), private(t)
		s := startIn(t, under(runtime, temporary), "dev")
		if !strings.HasPrefix(s.ready.AdminSocket, runtime+"/") {
			t.Errorf("admin_socket %q, want it in %s", s.ready.AdminSocket, runtime)
		}
		s.run("health")
		s.stop()
		for _, dir := range []string{runtime, temporary} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s holds %v, %v after the end; want nothing", dir, entries, err)
			}
		}
	})
	t.Run("temporary_directory_next", func(t *testing.T) {
		t.Parallel()
		temporary := private(t)
		for _, runtime := range []string{missing, "", "relative"} {
			s := startIn(t, under(runtime, temporary), "dev")
			s.stop() // then all that it logged is here
			if !strings.HasPrefix(s.ready.AdminSocket, temporary+"/") || strings.Contains(s.log.all(), warning) {
				t.Errorf("XDG_RUNTIME_DIR=%q: admin_socket %q, want it in %s; stderr:\n%s", runtime, s.ready.AdminSocket, temporary, s.log.tail())
			}
		}
	})
	t.Run("none_where_nothing_can_be_written", func(t *testing.T) {
		t.Parallel()
		s := startIn(t, under(missing, missing), "dev")
		if s.ready.AdminSocket != "" {
			t.Errorf("admin_socket %q, want none", s.ready.AdminSocket)
		}
		health := exec.Command(program(t), "health", "--data", missing)
		health.Env = append(environ(), "TOLLHOUSE_LISTEN="+strings.Replace(s.ready.Listen[0], "127.0.0.1", "0.0.0.0", 1))
		if out, err := health.CombinedOutput(); err != nil {
			t.Errorf("health: %v\n%s", err, out)
		}
		s.stop()
		if n := strings.Count(s.log.all(), warning); n != 1 {
			t.Errorf("%d warnings, want 1; stderr:\n%s", n, s.log.tail())
		}
	})
	t.Run("one_that_was_asked_for_must_be", func(t *testing.T) {
		t.Parallel()
		for path, want := range map[string]int{
			filepath.Join(missing, "admin.sock"):                75, // somebody may still create the directory
			filepath.Join(private(t), strings.Repeat("x", 200)): 73,
		} {
			out, err := exec.Command(program(t), "dev", "--admin-socket", path).CombinedOutput()
			if code := exitCode(err); code != want || !strings.Contains(string(out), "admin socket") {
				t.Errorf("--admin-socket %s: exit code %d, %s; want %d", path, code, out, want)
			}
		}
	})
}

// exitCode returns how a command ended.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}
