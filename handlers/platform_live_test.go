package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// acting returns a platform client, and its token that acts for any account.
func (a *apiHouse) acting(t testing.TB) (c store.Client, token string) {
	t.Helper()
	c, _ = a.Client(t, storetest.Platform(append(store.ScopeNames(), "accounts:act")...))
	return c, must.Get(a.IssueForClient(context.Background(), store.By{}, c, "", c.Scope))(t).AccessToken.Reveal()
}

// hold opens n streams of an account, and returns them.
func (l *live) hold(t *testing.T, n int, token, account string) (held []*stream) {
	t.Helper()
	for range n {
		s := l.open(t, "", token, web.AccountHeader, account)
		s.ready(t)
		held = append(held, s)
	}
	return held
}

// Promise (Platform §2): waiting is charged to the client, 64 requests for all accounts together,
// and not to the merchant: neither takes the other's share
func TestWaitingOfAPlatformClient(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	user := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	must.Get(l.CreateAccount(t.Context(), "acct_b", ""))(t)
	_, token := l.acting(t)
	_, other := l.acting(t)
	l.hold(t, 32, token, "acct_a")
	held := l.hold(t, 32, token, "acct_b")
	for _, account := range []string{"acct_a", "acct_b"} {
		for _, query := range []string{"", "?order=asc&wait=5&after=latest"} {
			if status := l.tryOpen(t, query, token, account); status != http.StatusTooManyRequests {
				t.Errorf("the 65th that waits, %q for %s: %d, want 429", query, account, status)
			}
		}
	}
	l.hold(t, 1, other, "acct_a")
	var watches []*eventlog.Watch
	for range 63 {
		watches = append(watches, must.Get(l.Events.WatchEvents(t.Context(), "acct_a"))(t))
	}
	l.open(t, "", user).ready(t) // the account's 64th
	if _, err := l.Events.WatchEvents(t.Context(), "acct_a"); err == nil {
		t.Error("the account has 65 readers of its own")
	}
	for _, w := range watches {
		w.Close()
	}
	held[0].close()
	for patience := time.Now().Add(livePatience); l.tryOpen(t, "", token, "acct_a") != http.StatusOK; time.Sleep(time.Millisecond) {
		if time.Now().After(patience) {
			t.Fatal("when one is gone, no other may wait")
		}
	}
}

// tryOpen asks for a stream, or with a query for a page after a wait, and returns the status.
// What is refused says when to try again.
func (l *live) tryOpen(t *testing.T, query, token, account string) int {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", l.url+"/api/events"+query, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(web.AccountHeader, account)
	if query == "" {
		r.Header.Set("Accept", web.AsEventStream)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	return answer.StatusCode
}

// Promise (Platform §2): a stream looks at token and account again before each frame and heartbeat,
// and ends with either; a long poll looks again before it answers
func TestAStreamEndsWithWhatItActsFor(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, l *live, c store.Client, token string){
		"the_account_is_erased": func(t *testing.T, l *live, _ store.Client, _ string) {
			must.Do(t, l.DeleteAccount(t.Context(), "acct_b"))
		},
		"the_client_is_disabled": func(t *testing.T, l *live, c store.Client, _ string) {
			must.Get(l.DisableClient(t.Context(), c.ID))(t)
		},
		"it_loses_the_scope": func(t *testing.T, l *live, c store.Client, _ string) {
			must.Get(l.UpdateClient(t.Context(), c.ID, store.ClientChange{Scopes: &[]string{"accounts:act", "resources:read"}}))(t)
		},
		"the_token_expires": func(_ *testing.T, l *live, _ store.Client, _ string) { l.Clock.Advance(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLive(t, func(s *Server) { s.API.HeartbeatEvery = 20 * time.Millisecond })
			c, token := l.acting(t)
			must.Get(l.CreateAccount(t.Context(), "acct_b", ""))(t)
			s := l.open(t, "", token, web.AccountHeader, "acct_b")
			s.ready(t)
			end(t, l, c, token)
			l.wantEnd(t, s, "token_expired")
		})
	}
	t.Run("before_each_frame", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		_, token := a.acting(t)
		must.Get(a.CreateAccount(t.Context(), "acct_b", ""))(t)
		var lines strings.Builder
		for i := range 9 {
			fmt.Fprintf(&lines, `{"type":"plan.created","resource":"p%d","eventData":{"object":{}},"createdAt":1000000000}`+"\n", i)
		}
		a.importLines(t, "acct_b", lines.String())
		w := &acts{ResponseRecorder: httptest.NewRecorder(), on: "plan.created", do: func() { a.Clock.Advance(time.Hour) }}
		a.public.ServeHTTP(w, a.actingRequest(t, "/api/events?createdAt[gte]=1", token, "acct_b"))
		if frames := strings.Count(w.Body.String(), "plan.created"); frames != 1 || !strings.Contains(w.Body.String(), "event: end") {
			t.Errorf("%d events were sent, want the one before the token expired, and the end:\n%s", frames, w.Body)
		}
	})
	t.Run("before_a_heartbeat", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		a.server.API.HeartbeatEvery = time.Millisecond
		watch := must.Get(a.Events.WatchEvents(t.Context(), "acct_b"))(t)
		defer watch.Close()
		w, looks := httptest.NewRecorder(), 0
		st := &api.EventStream{S: a.server.API, W: w, R: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), Controller: http.NewResponseController(w), Owner: "acct_b", Watch: watch,
			Filter: eventlog.Filter{To: eventlog.CreatedAtMax, After: eventlog.LatestCursor(), Ascending: true, Limit: 1}}
		st.Alive = func() error {
			if looks++; looks > 1 { // the first is for what was read
				return web.InvalidToken()
			}
			return nil
		}
		must.Do(t, errors.Join(st.Begin(), st.Run()))
		if text := w.Body.String(); strings.Contains(text, ": \n") || !strings.Contains(text, "event: end") {
			t.Errorf("it sent %q, want the end and no heartbeat", text)
		}
	})
	t.Run("a_long_poll", func(t *testing.T) {
		t.Parallel()
		l := newLive(t)
		c, token := l.acting(t)
		user := l.token(t, "bob", "acct_b", store.ScopeUnstated)
		status := make(chan int, 1)
		go func() { status <- l.tryOpen(t, "?order=asc&wait=55&after=latest", token, "acct_b") }()
		l.waitFor(t, 1)
		must.Get(l.DisableClient(t.Context(), c.ID))(t)
		l.put("/api/resources/plan/p", user, `{"for":"those who may read"}`)
		if got := <-status; got != http.StatusUnauthorized {
			t.Errorf("status = %d, want 401", got)
		}
	})
}

// acts is a response that acts once, when it is sent a text.
type acts struct {
	*httptest.ResponseRecorder
	on string
	do func()
}

func (w *acts) Write(b []byte) (int, error) {
	if w.do != nil && strings.Contains(string(b), w.on) {
		w.do()
		w.do = nil
	}
	return w.ResponseRecorder.Write(b)
}

// actingRequest asks for a stream of an account.
func (a *apiHouse) actingRequest(t *testing.T, target, token, account string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", target, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:4000"
	for name, value := range map[string]string{"Accept": web.AsEventStream, web.AccountHeader: account, "Authorization": "Bearer " + token} {
		r.Header.Set(name, value)
	}
	return r
}
