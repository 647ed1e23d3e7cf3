package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// shownSettings are those that config prints.
func (h house) shownSettings(t *testing.T, args ...string) map[string]admin.Setting {
	t.Helper()
	shown := map[string]admin.Setting{}
	for _, line := range strings.Split(strings.TrimSpace(h.must(t, append([]string{"config", "--json"}, args...)...)), "\n") {
		var s admin.Setting
		must.Do(t, json.Unmarshal([]byte(line), &s))
		shown[s.Name] = s
	}
	return shown
}

// Promise (Postgres §5): config set changes what servers share while they run, prints old and new and leaves
// an audit line; servers take it within 10 seconds and keep it when they join again; another value ends with 78
func TestConfigSet(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	if _, stderr, code := h.run(t, "config", "set", "--access-ttl", "30m"); code != term.ExitNotFound {
		t.Errorf("config set on an empty database: exit %d, want %d: %s", code, term.ExitNotFound, stderr)
	}
	dir := must.Get(os.MkdirTemp("", "th"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sockets := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
	old := []string{"--access-ttl", "15m"}
	first := start(t, h.args(append(old, "--admin-socket", sockets[0])...)...)
	second := start(t, h.args(append(old, "--admin-socket", sockets[1])...)...)

	given := map[string][2]string{
		"access-ttl": {"15m", "30m"}, "refresh-ttl": {"14d", "20d"}, "code-ttl": {"1m", "2m"}, "session-idle": {"12h", "3h"}, "refresh-grace": {"30s", "10s"},
		"retain": {"0", "400d"}, "audit-retain": {"400d", "90d"}, "feed": {"0", "30d"}, "card-guard": {"refuse", "warn"}, "open-kinds": {"false", "true"},
		"second-factor": {"offered", "operators"}, "public-url": {"", "https://pay.example/toll"},
	}
	args := []string{"config", "set", "--json"}
	var agreed []string
	for name, values := range given {
		args, agreed = append(args, "--"+name+"="+values[1]), append(agreed, "--"+name+"="+values[1])
	}
	changed := time.Now()
	lines := strings.Split(strings.TrimSpace(h.must(t, args...)), "\n")
	if len(lines) != len(given) || len(given) != len((database.Agreed{}).Settings()) {
		t.Errorf("config set printed %d lines for %d settings: %s", len(lines), len(given), lines)
	}
	for _, line := range lines {
		var c database.Change
		must.Do(t, json.Unmarshal([]byte(line), &c))
		if want := given[c.Name]; want != [2]string{c.Old, c.New} {
			t.Errorf("config set printed %s, want %v", line, want)
		}
	}
	taken := func(t *testing.T, name, value string) {
		t.Helper()
		for _, socket := range sockets {
			eventually(t, func() (bool, string) {
				s := h.shownSettings(t, "--admin-socket", socket)[name]
				return s.Value == value && s.From == "database", fmt.Sprintf("%s = %+v, want %s", name, s, value)
			})
		}
	}
	t.Run("servers_take_them_within_10_seconds", func(t *testing.T) {
		taken(t, "access-ttl", "30m")
		if took := time.Since(changed); took > 10*time.Second {
			t.Errorf("after %s, want at most 10 s", took)
		}
		for _, socket := range sockets {
			shown := h.shownSettings(t, "--admin-socket", socket)
			for name, values := range given {
				if shown[name].Value != values[1] {
					t.Errorf("%s = %+v, want %s", name, shown[name], values[1])
				}
			}
		}
		for _, s := range []*process{first, second} {
			r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.text("url")+"/.well-known/oauth-authorization-server/toll", nil))(t)
			r.Host = "pay.example"
			answer := must.Get(http.DefaultClient.Do(r))(t)
			body := string(must.Get(io.ReadAll(answer.Body))(t))
			_ = answer.Body.Close()
			if !strings.Contains(body, `"issuer":"https://pay.example/toll"`) {
				t.Errorf("metadata = %d %s, want the new public URL", answer.StatusCode, body)
			}
		}
	})
	t.Run("config_shows_those_of_the_database", func(t *testing.T) {
		if s := h.shownSettings(t)["retain"]; s.Value != "400d" || s.From != "database" {
			t.Errorf("config = %+v, want 400d from the database", s)
		}
		if s := h.shownSettings(t, "--retain", "30d")["retain"]; s.Value != "30d" || s.From != "flag" {
			t.Errorf("config of another server = %+v, want 30d from its flag", s)
		}
	})
	t.Run("the_audit_record_has_them", func(t *testing.T) {
		if out := h.must(t, "audit"); !strings.Contains(out, "setting access-ttl changed from 15m to 30m") || !strings.Contains(out, "setting public-url changed from - to https://pay.example/toll") {
			t.Errorf("audit: %s, want a line for each setting", out)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{nil, term.ExitUsage, "config set needs a setting"},
			{[]string{"--access-ttl", "0s"}, term.ExitUsage, "--access-ttl 0 is too short"},
			{[]string{"--retain", "1h"}, term.ExitUsage, "--retain 1h is too short"},
			{[]string{"--feed", "1s"}, term.ExitUsage, "--feed 1s is out of range"},
			{[]string{"--card-guard", "none"}, term.ExitUsage, "--card-guard \"none\" is not valid"},
			{[]string{"--code-ttl", "11m"}, term.ExitUsage, "exceeds"},
			{[]string{"--refresh-grace", "40m"}, term.ExitUsage, "longer than an access token's lifetime"},
			{[]string{"--public-url", "http://pay.example"}, term.ExitBusy, "plain http while servers run"},
			{[]string{"--public-url", ""}, term.ExitBusy, "cannot be removed while servers run"},
			{[]string{"--listen", "127.0.0.1:1"}, term.ExitUsage, "has no flag --listen"},
		} {
			if out, stderr, code := h.run(t, append([]string{"config", "set"}, c.args...)...); code != c.code || !strings.Contains(stderr, c.want) || out != "" {
				t.Errorf("config set %v: exit %d, %q %s; want %d and %q", c.args, code, out, stderr, c.code, c.want)
			}
		}
		if s := h.shownSettings(t)["access-ttl"]; s.Value != "30m" {
			t.Errorf("a refused command left %+v", s)
		}
	})
	t.Run("a_variable_of_a_server_is_not_given", func(t *testing.T) {
		stderr, code := runWith(t, []string{"TOLLHOUSE_ACCESS_TTL=15m"}, "config", "set", "--code-ttl", "90s", "--store", h.store)
		if code != term.ExitOK || !strings.HasSuffix(stderr, "start others with --code-ttl=1m30s\n") {
			t.Errorf("exit %d, %s; want the code's lifetime alone", code, stderr)
		}
		h.must(t, "config", "set", "--code-ttl", "2m")
	})
	t.Run("another_value_ends_with_78", func(t *testing.T) {
		_, stderr, code := run(t, h.args(append(agreed, "--access-ttl", "15m")...)...)
		if code != term.ExitConfig || !strings.Contains(stderr, "--access-ttl is 15m here, but 30m") || !strings.Contains(stderr, "tollhouse config set") {
			t.Errorf("exit %d, %s; want %d, both values and the command", code, stderr, term.ExitConfig)
		}
		start(t, h.args(agreed...)...).end()
	})
	t.Run("servers_that_join_again_keep_them", func(t *testing.T) {
		h.postgres.Exec(t, h.store, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'")
		eventually(t, func() (bool, string) { // a server that joins alone keeps commands waiting
			_, stderr, code := h.run(t, "config", "set", "--access-ttl", "45m")
			return code == term.ExitOK, "config set: " + stderr
		})
		taken(t, "access-ttl", "45m")
	})
	for _, s := range []*process{first, second} {
		if code := s.end(); code != term.ExitOK {
			t.Errorf("a server ended with %d: %s", code, s.stderr)
		}
		if n := strings.Count(s.stderr.String(), `"setting":"access-ttl"`); n != 2 {
			t.Errorf("the log names the changed setting %d times, want 2: %s", n, s.stderr)
		}
	}
	t.Run("alone_they_are_not_replaced", func(t *testing.T) {
		_, stderr, code := run(t, h.args(agreed...)...)
		if code != term.ExitConfig || !strings.Contains(stderr, "--access-ttl is 30m here, but 45m by tollhouse config set") {
			t.Errorf("exit %d, %s; want %d and both values", code, stderr, term.ExitConfig)
		}
		h.must(t, "config", "set", "--access-ttl", "30m", "--public-url", "http://pay.example")
		start(t, h.args(append(agreed, "--public-url=http://pay.example", "--insecure-http")...)...).end()
	})
}

// Promise (Postgres §5): config set changes what servers share while they run, prints old and new and leaves
// an audit line; servers take it within 10 seconds and keep it when they join again; another value ends with 78
func TestConfigSetNeedsADatabase(t *testing.T) {
	t.Parallel()
	_, stderr, code := run(t, "config", "set", "--access-ttl", "30m", "--data", t.TempDir())
	if code != term.ExitUsage || !strings.Contains(stderr, "takes its settings when it starts") || !strings.Contains(stderr, "restart it") {
		t.Errorf("exit %d, %s; want %d and the next step", code, stderr, term.ExitUsage)
	}
}
