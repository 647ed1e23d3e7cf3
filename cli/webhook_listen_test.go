package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// Promise (Webhooks): webhook listen loses nothing while its program is away
func TestWebhookListen(t *testing.T) {
	t.Parallel()
	const wire = `{"id":"e1","type":"plan.created"}`
	key := secret.NewWebhookSecret(nil)
	forward := func(t *testing.T, to string, timeout time.Duration) string {
		t.Helper()
		var out strings.Builder
		l := &listener{p: &program{Console: term.Console{JSON: true, Out: &out}}, to: to, key: key, client: newListenClient(), retry: time.Millisecond}
		l.client.Timeout = timeout
		must.Do(t, l.forward(t.Context(), []byte(wire)))
		return out.String()
	}
	shown := func(t *testing.T, line string) (a attemptShown) {
		t.Helper()
		must.Do(t, json.Unmarshal([]byte(line), &a))
		return a
	}

	t.Run("posts_the_event_signed_and_follows_no_redirect", func(t *testing.T) {
		t.Parallel()
		requests := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			body := must.Get(io.ReadAll(r.Body))(t)
			seconds := must.Get(strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64))(t)
			want := http.Header{
				"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(wire))}, "User-Agent": {"tollhouse-webhooks/" + version()},
				"Webhook-Id": {"e1"}, "Webhook-Timestamp": {strconv.FormatInt(seconds, 10)}, "Tollhouse-Attempt": {"1"},
				"Webhook-Signature": {secret.SignWebhook([]secret.Token{key}, "e1", time.Unix(seconds, 0), []byte(wire))},
			}
			if string(body) != wire || r.Method != "POST" || r.URL.RequestURI() != "/hook?a=b" {
				t.Errorf("it sent %s %s %q", r.Method, r.URL.RequestURI(), body)
			}
			for name := range r.Header {
				if !slices.Equal(r.Header[name], want[name]) {
					t.Errorf("header %s = %q, want %q", name, r.Header[name], want[name])
				}
			}
			if len(r.Header) != len(want) {
				t.Errorf("it sent the headers %v, want %v", r.Header, want)
			}
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}))
		t.Cleanup(s.Close)
		if a := shown(t, forward(t, s.URL+"/hook?a=b", startMax)); a.Status != http.StatusTemporaryRedirect || a.Event != "e1" || a.Type != "plan.created" || requests != 1 {
			t.Errorf("after %d requests it printed %+v", requests, a)
		}
	})
	t.Run("a_silent_program_does_not_stop_the_rest", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		t.Cleanup(s.Close)
		t.Cleanup(func() { close(release) })
		if a := shown(t, forward(t, s.URL, 100*time.Millisecond)); a.Error != "no answer in 100ms" || a.Status != 0 {
			t.Errorf("it printed %+v", a)
		}
	})
	t.Run("an_event_waits_for_a_program_that_ends_before_it_answers", func(t *testing.T) {
		t.Parallel()
		var attempts []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			attempts = append(attempts, r.Header.Get("Tollhouse-Attempt"))
			if len(attempts) < 4 {
				c, _, err := http.NewResponseController(w).Hijack()
				must.Do(t, err)
				must.Do(t, c.Close())
			}
		}))
		t.Cleanup(s.Close)
		lines := strings.SplitAfter(strings.TrimSuffix(forward(t, s.URL, startMax), "\n"), "\n")
		if len(lines) != 2 || shown(t, lines[0]).Error == "" || shown(t, lines[1]).Status != http.StatusOK {
			t.Errorf("it printed %q, want one line of the failure and one of the answer", lines)
		}
		if want := []string{"1", "2", "3", "4"}; !slices.Equal(attempts, want) {
			t.Errorf("attempts %q, want %q", attempts, want)
		}
	})
}

// receiver is the program of TestWebhookListenProcess. It can end and start again at the
// same address.
type receiver struct {
	addr string
	key  secret.Token

	mu     sync.Mutex
	server *http.Server
	bodies []string // accepted
	crash  int      // ends instead of accepting when so many have been accepted
	bad    []string // signatures that are wrong
	ended  chan struct{}
}

func (r *receiver) start(t *testing.T, crash int) {
	t.Helper()
	l := must.Listen(t, r.addr)
	server := &http.Server{Handler: r, ReadHeaderTimeout: startMax}
	r.mu.Lock()
	r.server, r.crash, r.ended = server, crash, make(chan struct{})
	r.mu.Unlock()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bodies) == r.crash {
		_ = r.server.Close() // with this connection, unanswered
		close(r.ended)
		return
	}
	id, seconds := request.Header.Get("webhook-id"), request.Header.Get("webhook-timestamp")
	at, _ := strconv.ParseInt(seconds, 10, 64)
	if got := request.Header.Get("webhook-signature"); got != secret.SignWebhook([]secret.Token{r.key}, id, time.Unix(at, 0), body) {
		r.bad = append(r.bad, got)
	}
	r.bodies = append(r.bodies, string(body)+"\n")
}

func TestWebhookListenProcess(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	record := func(seed string) { t.Helper(); generateTen(t, dir, seed) }
	record("1")
	key := secret.NewWebhookSecret(nil)
	keyFile := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(keyFile, []byte(key.Reveal()), 0o600))
	r := &receiver{addr: must.FreeAddress(t), key: key}
	r.start(t, 5)
	server := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	listen := startFollower(t, "webhook", "listen", "--forward-to", "http://"+r.addr, "--data", dir, "--account", "acct_a", "--since", "0", "--secret-file", keyFile, "--json")
	<-r.ended
	listen.until(t, "out", "the waiting", func(text string) bool { return strings.Contains(text, `"error":`) })
	r.start(t, 15)
	listen.wantLines(t, 1+5+1+5) // the ready line, and once that the program is away
	server.end()
	listen.wantNote(t, "the server is stopping; reconnecting\n")
	record("2")
	start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	<-r.ended
	record("3") // while the program is away
	r.start(t, -1)
	listen.wantLines(t, 1+1+1+30)
	_ = listen.cmd.Process.Signal(os.Interrupt)
	_ = listen.cmd.Wait()
	if code := listen.cmd.ProcessState.ExitCode(); code != term.ExitInterrupted {
		t.Errorf("exit %d, want %d", code, term.ExitInterrupted)
	}
	var last struct{ ID string }
	must.Do(t, json.Unmarshal([]byte(r.bodies[len(r.bodies)-1]), &last))
	if stderr := listen.text(t, "err"); !strings.HasSuffix(stderr, "run it again with --after "+last.ID+"\n") {
		t.Errorf("it ended with %s, want to continue after %s", stderr, last.ID)
	}
	listed, _, _ := run(t, "event", "list", "--data", dir, "--account", "acct_a", "--order", "asc", "--limit", "1000", "--json")
	if got := strings.Join(r.bodies, ""); got != listed || len(r.bad) > 0 {
		t.Errorf("restarts of the program and the server lose or repeat events: it got\n%s\nwant\n%s; wrong signatures %q", got, listed, r.bad)
	}
}
