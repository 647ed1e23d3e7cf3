package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// databasePatience is far longer than any step of these tests takes.
const databasePatience = 2 * time.Minute

// house is a database, a key file, and what servers on it are started with.
type house struct {
	store, key string
	postgres   *pgtest.Server
}

func newDatabaseHouse(t *testing.T, settings ...string) house {
	t.Helper()
	postgres := pgtest.New(t, settings...)
	return house{store: postgres.Database(t), key: must.Get(newKeyFile(t.TempDir()))(t), postgres: postgres}
}

// args are those of a server.
func (h house) args(more ...string) []string {
	return append([]string{"serve", "--store", h.store, "--key-file", h.key, "--listen", "127.0.0.1:0"}, more...)
}

func (h house) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return run(t, append(args, "--store", h.store)...)
}

func (h house) must(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, code := h.run(t, args...)
	if code != term.ExitOK {
		t.Fatalf("tollhouse %s = exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return out
}

// eventually asks until ok, which says what it is waiting for.
func eventually(t *testing.T, ok func() (bool, string)) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		done, what := ok()
		if done {
			return
		}
		if time.Since(begun) > databasePatience {
			t.Fatalf("after %s still: %s", databasePatience, what)
		}
	}
}

// get asks a server, and returns the status, the header and the body.
func get(t *testing.T, address, token string) (int, http.Header, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), "GET", address, nil))(t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header, string(must.Get(io.ReadAll(answer.Body))(t))
}

// tokenOf makes a client and a user and gets a token for the account acct_a.
func (h house) tokenOf(t *testing.T, s *process) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	must.Do(t, os.WriteFile(file, []byte("correct horse battery"), 0o600))
	h.must(t, "user", "create", "harriet", "--account", "acct_a", "--password-file", file, "--quiet")
	var client admin.AdminClient
	must.Do(t, json.Unmarshal([]byte(h.must(t, "client", "create", "--name", "Till", "--redirect-uri", "https://app.example/cb", "--json")), &client))
	access, _, err := grantAt(s.text("url"), client.ClientID, client.ClientSecret, "harriet", "correct horse battery")
	must.Do(t, err)
	return access
}

// importEvent records an event of acct_a, of this second, by a command.
func (h house) importEvent(t *testing.T, object ...string) {
	t.Helper()
	h.importEventAt(t, time.Now(), object...)
}

func (h house) importEventAt(t *testing.T, at time.Time, object ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "events")
	line := fmt.Sprintf(`{"type":"customer.created","resource":"r1","eventData":{"object":{%s}},"createdAt":%d}`, strings.Join(object, ","), at.Unix())
	must.Do(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
	h.must(t, "event", "import", file, "--account", "acct_a", "--key-file", h.key, "--quiet")
}

type databaseStatus struct {
	Status   string               `json:"status"`
	Database admin.DatabaseStatus `json:"database"`
}

func (h house) status(t *testing.T) (s databaseStatus, code int) {
	t.Helper()
	out, stderr, code := h.run(t, "status", "--json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("status = exit %d, %q: %v: %s", code, out, err, stderr)
	}
	return s, code
}

func TestServersOnADatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	first := start(t, h.args("--metrics-listen", "127.0.0.1:0")...)
	if first.text("store") != "postgres" || first.ready["admin_socket"] != "" {
		t.Errorf("ready line %v, want the store and an empty admin_socket", first.ready)
	}
	second := start(t, h.args()...)
	token := h.tokenOf(t, first)
	if status, _, body := get(t, second.text("url")+"/api/events", token); status != http.StatusOK {
		t.Errorf("the other server answers %d %s, want 200", status, body)
	}
	t.Run("commands_work_beside_them", func(t *testing.T) {
		h.importEvent(t)
		for _, s := range []*process{first, second} {
			if status, _, body := get(t, s.text("url")+"/api/events", token); status != http.StatusOK || !strings.Contains(body, "customer.created") {
				t.Errorf("events = %d %s, want the imported one", status, body)
			}
		}
	})
	t.Run("status_lists_them", func(t *testing.T) {
		s, code := h.status(t)
		if code != term.ExitOK || s.Status != "ready" || len(s.Database.Servers) != 2 || s.Database.Version == "" || s.Database.Size == 0 {
			t.Fatalf("status = exit %d, %+v; want two servers", code, s)
		}
		var pids []int
		var jobs []string
		for _, server := range s.Database.Servers {
			pids, jobs = append(pids, server.PID), append(jobs, server.Jobs...)
		}
		if slices.Sort(jobs); !slices.Contains(pids, first.cmd.Process.Pid) || !slices.Contains(pids, second.cmd.Process.Pid) || strings.Join(jobs, " ") != "check sweep webhooks" {
			t.Errorf("status = %+v, want both processes, and each job once", s)
		}
	})
	t.Run("metrics_tell_of_them", func(t *testing.T) {
		_, _, page := get(t, first.text("metrics"), "")
		for _, want := range []string{
			`tollhouse_store_connections{state="limit"} 24`, `tollhouse_store_job{task="sweep"} 1`, `tollhouse_store_job{task="acme"} 0`, "tollhouse_store_servers ",
			"tollhouse_store_turn_wait_seconds ", "tollhouse_store_reads_late_total ", "tollhouse_store_group_retries_total ", "tollhouse_store_unknown_outcomes_total 0",
			"tollhouse_store_unavailable_total ", "tollhouse_store_clock_offset_seconds ", "tollhouse_store_notes_total ", "tollhouse_store_size_bytes ", "tollhouse_ready 1",
		} {
			if !strings.Contains(page, "\n"+want) {
				t.Errorf("metrics lack %s", want)
			}
		}
	})
	t.Run("an_admin_socket_is_there_if_asked_for", func(t *testing.T) {
		socket := filepath.Join(must.Get(os.MkdirTemp("", "th"))(t), "s")
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(socket)) })
		third := start(t, h.args("--admin-socket", socket)...)
		if third.text("admin_socket") != socket {
			t.Errorf("ready line %v, want the socket", third.ready)
		}
		if out, stderr, code := h.run(t, "health", "--admin-socket", socket); code != term.ExitOK {
			t.Errorf("health = exit %d, %s %s", code, out, stderr)
		}
		if out, stderr, code := h.run(t, "status", "--admin-socket", socket); code != term.ExitOK || !strings.Contains(out, "PostgreSQL") || strings.Count(out, "process") != 4 {
			t.Errorf("status = exit %d, %s %s; want that server, the database and three servers", code, out, stderr)
		}
		third.end()
	})
	t.Run("a_killed_one_leaves_its_jobs_to_the_other", func(t *testing.T) {
		must.Do(t, first.cmd.Process.Kill())
		<-first.ended
		eventually(t, func() (bool, string) {
			s, _ := h.status(t)
			ok := len(s.Database.Servers) == 1 && len(s.Database.Servers[0].Jobs) == 3
			return ok, fmt.Sprintf("status = %+v, want one server with all jobs", s)
		})
	})
	t.Run("a_generation_of_another_store_ends_the_server", func(t *testing.T) {
		h.postgres.Exec(t, h.store, "update tollhouse.site set value = '2' where name = 'generation'")
		select {
		case <-second.ended:
		case <-time.After(databasePatience):
			t.Fatal("the server goes on")
		}
		if code := second.cmd.ProcessState.ExitCode(); code != term.ExitBusy || !strings.Contains(second.stderr.String(), "restored or upgraded") {
			t.Errorf("the server ended with %d, want %d and the reason: %s", code, term.ExitBusy, second.stderr)
		}
	})
}

// Promise (Guard §1): servers on one database have the same --second-factor; another value ends with exit code 78
func TestServersAgree(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	first := start(t, h.args("--access-ttl", "30m", "--retain", "30d", "--card-guard", "off")...)
	other := must.Get(newKeyFile(t.TempDir()))(t)
	agreed := []string{"--access-ttl", "30m", "--retain", "30d", "--card-guard", "off"}
	t.Run("commands_follow", func(t *testing.T) { h.importEvent(t, `"note":"4111111111111111"`) })
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"lifetime", []string{"--access-ttl", "1h", "--retain", "30d"}, []string{"--access-ttl is 1h here, but 30m on the database's running servers", "give --access-ttl 30m here"}},
		{"retention", []string{"--access-ttl", "30m"}, []string{"--retain is 0 here, but 30d"}},
		{"the_first_that_differs_is_named", []string{"--access-ttl", "1h"}, []string{"--access-ttl is 1h here"}},
		{"public_url", append([]string{"--public-url", "https://pay.example"}, agreed...), []string{"--public-url is https://pay.example here, but not set", "leave --public-url out"}},
		{"second_factor", append([]string{"--second-factor", "all"}, agreed...), []string{"--second-factor is all here, but offered", "give --second-factor offered here"}},
		{"another_key", append([]string{"--key-file", other}, agreed...), []string{"the server key has the fingerprint", "copy their key file"}},
		{"another_key_beside_servers", append([]string{"--key-file", other, "--new-key"}, agreed...), []string{"--new-key cannot replace the server key", "stop all other servers first"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, stderr, code := run(t, h.args(c.args...)...)
			if code != term.ExitConfig {
				t.Errorf("exit %d, want %d: %s", code, term.ExitConfig, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("the error lacks %q: %s", want, stderr)
				}
			}
		})
	}
	if code := start(t, h.args(agreed...)...).end(); code != term.ExitOK {
		t.Errorf("a server with the same settings ends with %d", code)
	}
	if code := first.end(); code != term.ExitOK {
		t.Fatalf("the first server ends with %d: %s", code, first.stderr)
	}
	t.Run("alone_the_settings_are_replaced", func(t *testing.T) {
		start(t, h.args("--access-ttl", "2h")...).end()
	})
	t.Run("alone_the_key_is_replaced_when_asked", func(t *testing.T) {
		if _, stderr, code := run(t, h.args("--key-file", other)...); code != term.ExitConfig || !strings.Contains(stderr, "--new-key") {
			t.Errorf("another key = exit %d, want %d and the cure: %s", code, term.ExitConfig, stderr)
		}
		start(t, h.args("--key-file", other, "--new-key")...).end()
		start(t, h.args("--key-file", other)...).end()
	})
}

func TestServerWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	const password = "hunter2" // which this database does not ask for
	s := must.Get(startProcess("", []string{"TOLLHOUSE_STORE=" + h.store + "&password=" + password}, "serve", "--key-file", h.key, "--listen", "127.0.0.1:0"))(t)
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.end()
		}
	})
	token := h.tokenOf(t, s)
	at := s.text("url")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, "GET", at+"/api/events", nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	stream := must.Get(http.DefaultClient.Do(r))(t)
	defer stream.Body.Close()

	h.postgres.Stop(t)
	eventually(t, func() (bool, string) {
		status, header, body := get(t, at+"/readyz", "")
		ok := status == http.StatusServiceUnavailable && header.Get("Retry-After") == "2" && strings.Contains(body, "The database does not answer")
		return ok, fmt.Sprintf("readyz = %d %v %s, want 503 with the reason", status, header, body)
	})
	if status, _, _ := get(t, at+"/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz = %d, want 200", status)
	}
	if status, header, body := get(t, at+"/api/events", token); status != http.StatusServiceUnavailable || header.Get("Retry-After") != "2" {
		t.Errorf("events = %d %s, want 503 and Retry-After: 2", status, body)
	}
	if _, stderr, code := h.run(t, "client", "list"); code != term.ExitUnreachable {
		t.Errorf("client list = exit %d, want %d: %s", code, term.ExitUnreachable, stderr)
	}
	if _, stderr, code := h.run(t, "status"); code != term.ExitUnreachable {
		t.Errorf("status = exit %d, want %d: %s", code, term.ExitUnreachable, stderr)
	}

	h.postgres.Restart(t)
	eventually(t, func() (bool, string) {
		status, _, body := get(t, at+"/readyz", "")
		return status == http.StatusOK, "readyz = " + body
	})
	h.importEvent(t)
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), "customer.created") {
			cancel()
			break
		}
	}
	if ctx.Err() == nil {
		t.Error("the stream ended before it brought the event")
	}
	eventually(t, func() (bool, string) {
		found, _ := h.status(t)
		ok := len(found.Database.Servers) == 1 && len(found.Database.Servers[0].Jobs) == 3
		return ok, fmt.Sprintf("status = %+v, want the server with its jobs", found)
	})
	if code := s.end(); code != term.ExitOK {
		t.Errorf("the server ended with %d: %s", code, s.stderr)
	}
	if strings.Contains(s.stderr.String(), password) {
		t.Errorf("the log shows the password: %s", s.stderr)
	}
}

// TestServerWithARotatedPassword: while the password in the store file is wrong, /readyz and
// health give the reason; the right one is found without a restart.
func TestServerWithARotatedPassword(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	h.postgres.Exec(t, h.store, "create role app superuser login password 'first'")
	h.postgres.Access(t, "local all app scram-sha-256")
	file := filepath.Join(t.TempDir(), "store")
	passwordIs := func(password string) {
		must.Do(t, os.WriteFile(file, []byte(strings.Replace(h.store, "user=postgres", "user=app&password="+password, 1)), 0o600))
	}
	passwordIs("first")
	s := start(t, "serve", "--store-file", file, "--key-file", h.key, "--listen", "127.0.0.1:0")
	h.postgres.Exec(t, h.store, "alter role app password 'second'")
	h.postgres.Exec(t, h.store, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
	eventually(t, func() (bool, string) {
		status, header, body := get(t, s.text("url")+"/readyz", "")
		ok := status == http.StatusServiceUnavailable && header.Get("Retry-After") == "2" && strings.Contains(body, "28P01")
		return ok, fmt.Sprintf("readyz = %d %v %s, want 503 with the reason", status, header, body)
	})
	if _, stderr, code := run(t, "health", "--url", s.text("url")); code != term.ExitFailed || !strings.Contains(stderr, "28P01") {
		t.Errorf("health = exit %d %q, want %d with the reason", code, stderr, term.ExitFailed)
	}
	passwordIs("second")
	eventually(t, func() (bool, string) {
		status, _, body := get(t, s.text("url")+"/readyz", "")
		return status == http.StatusOK, "readyz = " + body
	})
	s.end()
	if n := strings.Count(s.stderr.String(), "database refuses new connections"); n != 1 {
		t.Errorf("the refusal was logged %d times, want once: %s", n, s.stderr)
	}
}

// A server and its database may be started together.
func TestServerWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	h.postgres.Stop(t)
	t.Run("not_for_ever", func(t *testing.T) {
		if _, stderr, code := run(t, h.args()...); code != term.ExitUnreachable || !strings.Contains(stderr, "no such file") {
			t.Errorf("serve = exit %d, want %d: %s", code, term.ExitUnreachable, stderr)
		}
	})
	t.Run("until_it_answers", func(t *testing.T) {
		ready := make(chan error, 1)
		var s *process
		go func() {
			var err error
			s, err = startProcess("", nil, h.args()...)
			ready <- err
		}()
		h.postgres.Restart(t)
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		s.end()
	})
}

// Promise (Postgres §3, §9): what waiting does not cure, a pooler in transaction mode among it, ends a
// server and every command with 78 immediately; a read-only database ends a server with 69 after 15 s.
func TestMistakesAboutADatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	s := h.postgres
	s.Exec(t, h.store, "create role app login superuser")
	name := must.Get(url.Parse(h.store))(t).Path
	file := filepath.Join(t.TempDir(), "url")
	backup := filepath.Join(t.TempDir(), "backup")
	h.must(t, "account", "create", "acct_x")
	h.must(t, "backup", backup)
	pooled := "postgres://app:right@" + s.Bouncer(t, "transaction", map[string]string{"app": "right"}) + name
	for address, want := range map[string]string{
		pooled: "PgBouncer in transaction mode is in front of the database",
		strings.Replace(h.store, name, "/gone", 1):          "the database does not exist (3D000)",
		strings.Replace(h.store, "=postgres", "=nobody", 1): "the user is unknown or may not log in (28000)",
		h.store + "&statement_cash=1":                       "unknown parameter: statement_cash (42704)",
		h.store + "&sslcrl=x":                               "sslcrl: tollhouse reads no revocation lists",
	} {
		must.Do(t, os.WriteFile(file, []byte(address), 0o600))
		for _, command := range [][]string{
			{"serve", "--listen", "127.0.0.1:0"}, {"status"}, {"doctor"}, {"account", "list"}, {"account", "create", "acct_x"}, {"event", "tail"}, {"backup", filepath.Join(t.TempDir(), "b")}, {"export", filepath.Join(t.TempDir(), "e")},
			{"restore", backup, "--yes"}, {"move", filepath.Join(t.TempDir(), "data")},
		} {
			stdout, stderr, code := run(t, append(command, "--store-file", file, "--key-file", h.key)...)
			if command[0] == "doctor" && code == term.ExitFailed { // it has a line about it
				stderr, code = stdout, term.ExitConfig
			}
			if code != term.ExitConfig || !strings.Contains(stderr, want) || strings.Contains(stderr, "waiting for") || strings.Contains(stderr, "right") {
				t.Errorf("%s = exit %d, want %d and %q: %s", command[0], code, term.ExitConfig, want, stderr)
			}
		}
	}
	s.Exec(t, h.store, "alter database "+name[1:]+" set default_transaction_read_only = on")
	for _, command := range [][]string{{"account", "list", "--store", h.store}, h.args()} {
		_, stderr, code := run(t, command...)
		if code != term.ExitUnreachable || !strings.Contains(stderr, "it is read-only") || (command[0] == "serve") != strings.Contains(stderr, "waiting for the database") {
			t.Errorf("%s = exit %d, want %d: %s", command[0], code, term.ExitUnreachable, stderr)
		}
	}
}

func TestDoctorOfADatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t, "fsync = off")
	h.must(t, "account", "create", "acct_a")
	s := start(t, h.args()...)
	for deep, args := range [][]string{{}, {"--deep"}} {
		found, code := findings(t, append(args, "--store", h.store, "--key-file", h.key)...)
		if f := found["database"]; code != term.ExitFailed || f.State != admin.StateProblem || !strings.Contains(f.Detail, "fsync is off") {
			t.Errorf("database = %+v, exit %d; want the missing fsync", f, code)
		}
		for _, check := range []string{"store", "clock", "key", "servers", "backup"} {
			if f := found[check]; f.State != admin.StateOK {
				t.Errorf("%s = %+v, want ok", check, f)
			}
		}
		if f, has := found["disk"]; has {
			t.Errorf("disk = %+v, but it says nothing of a database", f)
		}
		if f, has := found["records"]; has != (deep == 1) || has && f.State != admin.StateOK {
			t.Errorf("%v: records = %+v, %t", args, f, has)
		}
	}
	s.end()
	if !strings.Contains(s.stderr.String(), "database loses acknowledged writes in a crash") {
		t.Errorf("the server did not warn of the missing fsync: %s", s.stderr)
	}
	other := must.Get(newKeyFile(t.TempDir()))(t)
	found, _ := findings(t, "--store", h.store, "--key-file", other)
	if f := found["key"]; f.State != admin.StateProblem {
		t.Errorf("key = %+v with another key file, want a problem", f)
	}
}

func TestEventTailWithoutAServer(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	h.importEventAt(t, time.Now().Add(-time.Minute)) // of one second, the second import may be placed before the first
	ctx, cancel := context.WithTimeout(t.Context(), databasePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tollhouse", "event", "tail", "--store", h.store, "--account", "acct_a", "--since", "1h", "--json")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.Contains(lines.Text(), "customer.created") {
		t.Errorf("tail prints %q, want the event", lines.Text())
	}
	h.importEvent(t, `"note":"another"`)
	if !lines.Scan() || !strings.Contains(lines.Text(), "customer.created") {
		t.Error("tail ended before it printed what another process recorded")
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != term.ExitInterrupted {
		t.Errorf("tail = exit %d, want %d", code, term.ExitInterrupted)
	}
}
