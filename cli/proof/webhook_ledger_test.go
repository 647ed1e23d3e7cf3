package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// The measure of the webhook ledger. The short form is part of every test run.
const (
	hookKills     = 6
	hookKillsLong = 40
	hookWriters   = 4
	hookWait      = 90 * time.Second // until another event arrives
	repeatsMax    = 100              // after a kill, and the request in flight
)

// sink is a receiver that fails at random and keeps what it accepted.
type sink struct {
	*httptest.Server
	t      testing.TB
	verify *standardwebhooks.Webhook

	mu     sync.Mutex
	random *rand.Rand
	order  []string          // ids of accepted events as they arrived
	bodies map[string]string // by id
}

func newSink(t testing.TB, seed uint64) *sink {
	s := &sink{t: t, random: rand.New(rand.NewPCG(seed, 1)), bodies: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.take))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed meanwhile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verify == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if err := s.verify.Verify(body, r.Header); err != nil {
		s.t.Errorf("the library of Standard Webhooks refuses what arrived: %v", err)
	}
	switch s.random.IntN(20) {
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	id := r.Header.Get("webhook-id")
	if before, seen := s.bodies[id]; seen && before != string(body) {
		s.t.Errorf("%s arrived with other bytes:\n%s\n%s", id, before, body)
	}
	s.order, s.bodies[id] = append(s.order, id), string(body)
}

// missing returns which of the events have not arrived.
func (s *sink) missing(ids []string) (missing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if _, seen := s.bodies[id]; !seen {
			missing = append(missing, id)
		}
	}
	return missing
}

// listen makes an endpoint of the client's account that sends to the sink.
func (s *sink) listen(ctx context.Context, c *client, access string) error {
	a, err := c.call(ctx, access, http.MethodPost, "/api/webhook-endpoints", fmt.Sprintf(`{"url":%q,"types":["customer.*"]}`, s.URL+"/hook"))
	if err != nil {
		return err
	}
	var made struct{ Secret string }
	if err := json.Unmarshal(a.body, &made); err != nil || made.Secret == "" {
		return fmt.Errorf("create an endpoint: %s", a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verify, err = standardwebhooks.NewWebhook(made.Secret)
	return err
}

// TestWebhookLedger kills the binary under writers and a receiver that fails at random,
// again and again. Every acknowledged event arrives, signed, with the same bytes each
// time; what is repeated after a kill begins at one place and goes on in order.
//
// Promise (Webhooks): kills repeat at most 100 events and lose none
func TestWebhookLedger(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	eachSite(t, webhooksThroughKills)
}

func webhooksThroughKills(t *testing.T, p site) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	serve := func() *server {
		return p.serve(t, "--public-url", "http://127.0.0.1", "--webhook-allow", "127.0.0.1", "--webhook-schedule", "50ms")
	}
	s := serve()
	to := newSink(t, seed)
	l := openLedger(t, s)
	if err := to.listen(t.Context(), l.client, l.reader); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var acknowledged []string
	kills := 0
	for ; must.More(kills, hookKills, hookKillsLong); kills++ {
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range hookWriters {
			writers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					a, err := l.call(ctx, l.reader, http.MethodPut, fmt.Sprintf("/api/resources/customer/cus_%d", w), fmt.Sprintf(`{"notes":"%d %d"}`, kills, n))
					if err != nil {
						return // the server is dead
					}
					if id := a.header.Get("Tollhouse-Event"); a.status/100 == 2 && id != "" {
						mu.Lock()
						acknowledged = append(acknowledged, id)
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(time.Duration(200+random.IntN(800)) * time.Millisecond)
		s.kill()
		cancel()
		writers.Wait()
		s.finish()
		s = serve()
		l.moveTo(s)
	}
	lost := to.missing(acknowledged)
	for end := time.Now().Add(hookWait); len(lost) > 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left := to.missing(acknowledged); len(left) < len(lost) {
			lost, end = left, time.Now().Add(hookWait)
		}
	}
	s.stop()
	must.Figure(t, "kills", kills)
	must.Figure(t, "acknowledged", len(acknowledged))
	must.Figure(t, "sent", len(to.order))
	must.Figure(t, "lost", len(lost))
	if len(lost) > 0 || len(acknowledged) < kills {
		t.Fatalf("%d of %d acknowledged events have not arrived after %d kills, such as %q", len(lost), len(acknowledged), kills, lost[:min(len(lost), 3)])
	}
	to.audit(t, kills)
}

// TestWebhookIsVerifiedInNode has the npm library of Standard Webhooks verify what arrives.
func TestWebhookIsVerifiedInNode(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	nodeModules(t)
	s := startDev(t)
	arrived := make(chan map[string]any, 1)
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		headers := map[string]string{}
		for name := range r.Header {
			headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		select {
		case arrived <- map[string]any{"headers": headers, "body": string(body)}:
		default:
		}
	}))
	t.Cleanup(to.Close)
	l := openLedger(t, s)
	a, err := l.call(t.Context(), l.reader, http.MethodPost, "/api/webhook-endpoints", fmt.Sprintf(`{"url":%q}`, to.URL))
	must.Do(t, err)
	var made struct{ Secret string }
	decode(t, a.body, &made)
	a, err = l.call(t.Context(), l.reader, http.MethodPut, "/api/resources/customer/cus_1", `{"notes":"ä \u2028 <b>"}`)
	must.Do(t, err)
	got := <-arrived
	got["secret"] = made.Secret
	node := nodeProgram(t, "webhook.mjs")
	node.Stdin = bytes.NewReader(must.Get(json.Marshal(got))(t))
	out, err := node.Output()
	var event struct{ ID string }
	if err != nil || json.Unmarshal(out, &event) != nil || event.ID != a.header.Get("Tollhouse-Event") {
		t.Errorf("webhook.mjs = %v, want the event %s\n%s", err, a.header.Get("Tollhouse-Event"), out)
	}
}

// TestWebhooksGoOnWhenTheServerThatSendsThemIsKilled has two servers on one database, of
// which one sends. When it is killed the other goes on.
func TestWebhooksGoOnWhenTheServerThatSendsThemIsKilled(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	p := onDatabase(t, pgtest.Start(t))
	s := p.serve(t, "--public-url", "http://127.0.0.1", "--webhook-allow", "127.0.0.1", "--webhook-schedule", "50ms")
	to := newSink(t, 1)
	l := openLedger(t, s)
	must.Do(t, to.listen(t.Context(), l.client, l.reader))
	change := func(n int) (ids []string) {
		for i := range n {
			a, err := l.call(t.Context(), l.reader, http.MethodPut, "/api/resources/customer/cus_1", fmt.Sprintf(`{"notes":"%d %d"}`, n, i))
			must.Do(t, err)
			ids = append(ids, a.header.Get("Tollhouse-Event"))
		}
		return ids
	}
	arrive := func(ids []string) {
		t.Helper()
		for end := time.Now().Add(hookWait); len(to.missing(ids)) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d of %d events have not arrived", len(to.missing(ids)), len(ids))
			}
		}
	}
	ids := change(50)
	arrive(ids)
	to.mu.Lock()
	if !slices.Equal(to.order, ids) {
		t.Errorf("two servers delivered %d events %d times, want each once and in order", len(ids), len(to.order))
	}
	to.mu.Unlock()
	sends, other := s, s.beside // the first to start has the jobs
	sends.kill()
	l.base = other.base
	begun := time.Now()
	arrive(change(60))
	t.Logf("the other server delivered after %v", time.Since(begun).Round(100*time.Millisecond))
	other.stop()
}

// TestWebhooksOverRestarts takes an endpoint through servers that send nothing, that send
// and are stopped, and that begin with what was asked for in between.
func TestWebhooksOverRestarts(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	arrived := make(chan string, 100)
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("webhook-id") }))
	t.Cleanup(to.Close)
	arrivals := func(n int) (ids []string) {
		t.Helper()
		for range n {
			select {
			case id := <-arrived:
				ids = append(ids, id)
			case <-time.After(hookWait):
				t.Fatalf("%q arrived, want %d events", ids, n)
			}
		}
		return ids
	}
	on := func(args ...string) []byte { return command(t, "", append(args, "--data", dir)...) }
	refused := func(args ...string) (code int, said string) {
		cmd := exec.Command(program(t), append(args, "--data", dir)...)
		cmd.Env, cmd.Dir = environ(), t.TempDir()
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	on("event", "generate", "--account", "acct_a", "--seed", "1", "--events", "3", "--until", "2026-03-01T00:00:00Z", "--span", "12h", "--quiet")
	create := []string{"webhook", "create", "--account", "acct_a", "--url", to.URL, "--from", "start", "--json"}
	if code, said := refused(create...); code != 2 || !strings.Contains(said, "--webhook-allow") {
		t.Errorf("without a server, for a URL that is not allowed: exit %d, %s", code, said)
	}
	var e struct {
		ID, Cursor string
		Status     struct{ Behind bool }
	}
	decode(t, on(append(create, "--webhook-allow", "127.0.0.1")...), &e)
	show := func() { decode(t, on("webhook", "show", e.ID, "--json"), &e) }

	off := startServe(t, dir, "--webhook-allow", "127.0.0.1", "--webhooks", "off")
	if code, said := refused("webhook", "send-test", e.ID); code != 75 || !strings.Contains(said, "sends no webhooks") {
		t.Errorf("a test by a server that sends nothing: exit %d, %s", code, said)
	}
	off.stop()
	if show(); !e.Status.Behind || len(arrived) > 0 {
		t.Errorf("a server that sends nothing sent %d events and left %+v", len(arrived), e)
	}

	sends := startServe(t, dir, "--webhook-allow", "127.0.0.1")
	ids := arrivals(3)
	sends.stop()
	if show(); e.Status.Behind || e.Cursor < ids[2] || !slices.IsSorted(ids) {
		t.Errorf("%q arrived, and a server that was stopped left %+v", ids, e)
	}
	if lines := on("webhook", "deliveries", e.ID, "--limit", "2", "--json"); bytes.Count(lines, []byte("\n")) != 2 || bytes.Index(lines, []byte(ids[2])) > bytes.Index(lines, []byte(ids[1])) {
		t.Errorf("the newest two deliveries are %s", lines)
	}
	for want, what := range map[string][]string{`{"queued":1}`: ids[:1], `{"queued":2}`: {"--from", ids[1], "--to", ids[2]}} {
		if got := on(append([]string{"webhook", "retry", e.ID, "--json"}, what...)...); string(got) != want+"\n" {
			t.Errorf("retry %q = %s, want %s", what, got, want)
		}
	}

	startServe(t, dir, "--webhook-allow", "127.0.0.1")
	if again := arrivals(3); !slices.Equal(again, ids) {
		t.Errorf("at the next start %q arrived, want what was retried: %q", again, ids)
	}
	if said := on("webhook", "send-test", e.ID); !strings.HasPrefix(string(said), "delivered in ") {
		t.Errorf("an accepted test says %s", said)
	}
	if test := arrivals(1); slices.Contains(ids, test[0]) {
		t.Errorf("%s arrived in place of the test", test)
	}
}

// audit checks the order in which the events were accepted. An event's id is its position
// in the log.
func (s *sink) audit(t *testing.T, kills int) {
	t.Helper()
	log := slices.Sorted(maps.Keys(s.bodies))
	place := make(map[string]int, len(log))
	for i, id := range log {
		place[id] = i
	}
	back, most, before := 0, 0, -1
	for _, id := range s.order {
		switch at := place[id]; {
		case at > before+1:
			t.Errorf("%s was accepted before %s, which lies before it", id, log[before+1])
		case at <= before:
			back, most = back+1, max(most, before-at+1)
		}
		before = place[id]
	}
	must.Figure(t, "repeated_most", most)
	t.Logf("%d kills, %d events, %d repeated in %d stretches, the longest of %d", kills, len(log), len(s.order)-len(log), back, most)
	if back > kills || most > repeatsMax+1 {
		t.Errorf("the order went back %d times in %d kills, and at most by %d events, want at most %d", back, kills, most, repeatsMax)
	}
}
