package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// TestRace is the promise of lock and socket: commands that race each other and
// a server that is just starting all do what they were asked.
//
// Promise (One data directory, one owner): 8 commands racing a starting server all succeed; a
// read-only filesystem is reported with the fix
func TestRace(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const rounds, commands = 3, 8
	for round := range rounds {
		t.Run(fmt.Sprintf("commands_race_a_starting_server_%d", round), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			var all sync.WaitGroup
			for i := range commands {
				all.Go(func() {
					name := fmt.Sprintf("acct_%d", i)
					if _, stderr, code := run(t, "account", "create", name, "--data", dir); code != term.ExitOK {
						t.Errorf("account create %s: exit %d: %s", name, code, stderr)
					}
				})
			}
			s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
			all.Wait()
			listed, stderr, code := run(t, "account", "list", "--data", dir, "--json")
			if code != term.ExitOK || strings.Count(listed, "\n") != commands {
				t.Errorf("account list = exit %d, %q, %s; want all %d accounts", code, listed, stderr, commands)
			}
			if code := s.end(); code != term.ExitOK {
				t.Errorf("the server ended with %d, want 0: %s", code, s.stderr)
			}
		})
	}
}

// slowRequest begins a request that the server cannot answer before more of it
// comes, and returns the connection once the server has begun to work on it.
func slowRequest(t *testing.T, s *process) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(s.text("url"), "http://")))(t)
	t.Cleanup(func() { _ = conn.Close() })
	body := "grant_type=password"
	// Go asks for the body only when the handler reads it: then it is in flight.
	fmt.Fprintf(conn, "POST /oauth/v2/token HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	answers := bufio.NewReader(conn)
	line, err := answers.ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("first line %q, %v; want 100 Continue", line, err)
	}
	must.Get(answers.ReadString('\n'))(t)
	return conn, answers
}

// untilRefused waits until nobody accepts connections at the server's address.
func untilRefused(t *testing.T, s *process) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < startMax; {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.text("url"), "http://"))
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	t.Fatal("the server still accepts connections")
}

// Promise (Monitoring): SIGTERM: not ready, no new connections, requests in flight finish; a second
// signal forces the stop, two within a moment count as one; no stop lasts forever
func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("sigterm_drains_what_is_in_flight", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "data")
		s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		conn, answers := slowRequest(t, s)
		must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
		untilRefused(t, s)
		// While it drains it says that it is not ready, to whoever still asks.
		if _, stderr, code := run(t, "health", "--data", dir); code != term.ExitFailed || !strings.Contains(stderr, "not ready") {
			t.Errorf("health while draining = exit %d, %s; want 1 and not ready", code, stderr)
		}
		fmt.Fprint(conn, "grant_type=password")
		answer, err := http.ReadResponse(answers, nil)
		if err != nil || answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("the request in flight got %v, %v; want its answer, 401", answer, err)
		}
		if <-s.ended; s.cmd.ProcessState.ExitCode() != term.ExitOK {
			t.Errorf("exit %d, want 0: %s", s.cmd.ProcessState.ExitCode(), s.stderr)
		}
		if _, err := os.Lstat(filepath.Join(dir, datadir.SocketName)); err == nil {
			t.Error("the admin socket is still there")
		}
		if _, stderr, code := run(t, "account", "create", "after", "--data", dir); code != term.ExitOK {
			t.Errorf("a command after the stop: exit %d, %s", code, stderr)
		}
	})
	t.Run("second_signal_forces", func(t *testing.T) {
		t.Parallel()
		s := start(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
		slowRequest(t, s)
		for range 2 {
			must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
			untilRefused(t, s)
			<-time.After(2 * term.SameSignal) // or it would be the same one
		}
		if <-s.ended; s.cmd.ProcessState.ExitCode() != term.ExitInterrupted {
			t.Errorf("exit %d, want %d: %s", s.cmd.ProcessState.ExitCode(), term.ExitInterrupted, s.stderr)
		}
	})
	t.Run("dev_leaves_nothing_behind", func(t *testing.T) {
		t.Parallel()
		tmp := t.TempDir()
		s := must.Get(startProcess("", []string{"TMPDIR=" + tmp}, "dev"))(t)
		if code := s.end(); code != term.ExitOK {
			t.Errorf("exit %d, want 0: %s", code, s.stderr)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	t.Run("killed_server_leaves_a_socket_and_a_lock_that_hinder_nobody", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "data")
		s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		must.Do(t, s.cmd.Process.Kill())
		<-s.ended
		if _, err := os.Lstat(filepath.Join(dir, datadir.SocketName)); err != nil {
			t.Fatalf("the killed server's socket: %v", err)
		}
		if _, stderr, code := run(t, "account", "create", "acct_down", "--data", dir); code != term.ExitOK {
			t.Errorf("a command after the kill: exit %d, %s", code, stderr)
		}
		again := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		if out, stderr, code := run(t, "account", "list", "--data", dir, "--json"); code != term.ExitOK || !strings.Contains(out, "acct_down") {
			t.Errorf("account list on the new server: exit %d, %q, %s", code, out, stderr)
		}
		again.end()
	})
}

// TestReadyLine holds the line to its form, and to its time with the margin that
// STYLE allows for figures.
//
// Promise (Testers, bad input): dev runs in memory, on a free loopback port, ready by one line of
// JSON that has the desk, with a seed file; serve has none of the options of dev
func TestReadyLine(t *testing.T) {
	t.Parallel()
	members := func(line string) (names []string) {
		d := json.NewDecoder(strings.NewReader(line))
		must.Get(d.Token())(t)
		for d.More() {
			name := must.Get(d.Token())(t)
			names = append(names, name.(string))
			var value json.RawMessage
			must.Do(t, d.Decode(&value))
		}
		return names
	}
	readyOf := func(t *testing.T, args ...string) string {
		cmd := exec.Command("tollhouse", args...)
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
		_ = cmd.Process.Signal(os.Interrupt)
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err != nil || len(rest) > 0 {
			t.Errorf("after an interrupt: %v, and more output: %q", err, rest)
		}
		return line
	}
	const common = "ready url listen admin_socket version pid"
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		line := readyOf(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
		if got := strings.Join(members(line), " "); got != common {
			t.Errorf("members %s, want %s", got, common)
		}
	})
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		line := readyOf(t, "dev")
		if got, want := strings.Join(members(line), " "), common+" dev client_id client_secret redirect_uri username password account desk platform_client_id platform_client_secret"; got != want {
			t.Errorf("members %s, want %s", got, want)
		}
	})
}

// TestDevAnswers: what the ready line promises works with it, the first sign-in
// waits for the demo user, and a short access token life needs no second flag.
//
// Promise (Testers, bad input): the demo's user can sign in as soon as the ready line is out
func TestDevAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, "dev", "--access-ttl", "5s")
	answer := must.Get(http.PostForm(s.text("url")+"/oauth/v2/token", map[string][]string{
		"grant_type": {"password"}, "client_id": {s.text("client_id")}, "client_secret": {s.text("client_secret")},
		"username": {s.text("username")}, "password": {s.text("password")},
	}))(t)
	defer answer.Body.Close()
	var token struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&token); err != nil || token.ExpiresIn != 5 {
		t.Fatalf("token = %+v, %v; want one for 5 seconds", token, err)
	}
	r, err := http.NewRequestWithContext(context.Background(), "GET", s.text("url")+"/api/events?type=account.autoupdate", nil)
	must.Do(t, err)
	r.Header.Set("Authorization", "Bearer "+token.AccessToken)
	listed := must.Get(http.DefaultClient.Do(r))(t)
	defer listed.Body.Close()
	var page struct {
		Data []struct {
			Owner string `json:"owner"`
		} `json:"data"`
	}
	if err := json.NewDecoder(listed.Body).Decode(&page); err != nil || len(page.Data) == 0 || page.Data[0].Owner != "acct_demo" {
		t.Errorf("events = %+v, %v; want those of the demo's history", page, err)
	}
}

// TestSecretsStayOut: no secret of a run is in what its server logged.
//
// Promise (Monitoring): logs have no secret and no query, and the route for the path
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "password")
	const password = "canary in a coal mine"
	must.Do(t, os.WriteFile(file, []byte(password), 0o600))
	if _, stderr, code := run(t, "user", "create", "odile", "--data", dir, "--password-file", file); code != term.ExitOK {
		t.Fatalf("user create: exit %d, %s", code, stderr)
	}
	out, stderr, code := run(t, "client", "create", "--name", "Till", "--redirect-uri", "https://app.example/cb", "--data", dir, "--json")
	if code != term.ExitOK {
		t.Fatalf("client create: exit %d, %s", code, stderr)
	}
	var made admin.AdminClient
	must.Do(t, json.Unmarshal([]byte(out), &made))
	s.end()
	for _, canary := range []string{password, made.ClientSecret, "odile"} {
		if canary == "" || strings.Contains(s.stderr.String(), canary) {
			t.Errorf("the log holds %q:\n%s", canary, s.stderr)
		}
	}
}
