package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store/record"
)

// tally keeps the observations of requests.
type tally struct {
	mu   sync.Mutex
	seen []web.Served
}

func (l *tally) observe(s web.Served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, s)
}

// last returns the observation of the request just answered, and checks that it was the
// only one.
func (l *tally) last(t *testing.T) web.Served {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) != 1 {
		t.Fatalf("observed %d requests, want 1: %+v", len(l.seen), l.seen)
	}
	s := l.seen[0]
	l.seen = nil
	if s.Took <= 0 {
		t.Errorf("%+v took no time", s)
	}
	s.Took = 0
	return s
}

// TestObserve: observations match what happened, and contain no text of the caller.
//
// Promise (Monitoring): metrics follow Prometheus' conventions and count what happened
func TestObserve(t *testing.T) {
	all := &tally{}
	h := parallelHouse(t, func(c *handlers.Config) { c.Observe = all.observe })
	code := h.code(t)
	p := wantPair(t, h.token(t, h.codeForm(code)))
	q := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	wantPair(t, h.token(t, h.refreshForm(q.RefreshToken)))
	all.seen = nil

	const token, events = "/oauth/v2/token", "/api/events"
	wrong := with(h.passwordForm(), "password", "not the password")
	stranger := with(h.passwordForm(), "client_secret", "not the secret")
	cases := []struct {
		name string
		do   func()
		want web.Served
	}{
		{"metrics_password_grant", func() { h.token(t, h.passwordForm()) },
			web.Served{Route: token, Method: "POST", Status: 200, GrantType: "password", SignIn: web.SignInRight}},
		{"metrics_wrong_password", func() { h.token(t, wrong) },
			web.Served{Route: token, Method: "POST", Status: 400, GrantType: "password", Code: "invalid_grant", SignIn: "wrong_password"}},
		{"metrics_unknown_user", func() { h.token(t, with(h.passwordForm(), "username", "moira")) },
			web.Served{Route: token, Method: "POST", Status: 400, GrantType: "password", Code: "invalid_grant", SignIn: "unknown_user"}},
		{"metrics_wrong_client", func() { h.token(t, stranger) },
			web.Served{Route: token, Method: "POST", Status: 401, GrantType: "none", Code: "invalid_client", Refusal: "unknown_or_disabled_client_or_wrong_secret"}},
		{"metrics_unknown_grant", func() { h.token(t, with(h.passwordForm(), "grant_type", "kanarienvogel")) },
			web.Served{Route: token, Method: "POST", Status: 400, GrantType: "none", Code: "unsupported_grant_type"}},
		{"metrics_code_again", func() { h.token(t, with(h.codeForm(code), "redirect_uri", "https://kanarienvogel.example")) },
			web.Served{Route: token, Method: "POST", Status: 400, GrantType: "authorization_code", Code: "invalid_grant", Refusal: "another_redirect_uri"}},
		{"metrics_refresh_reuse", func() { h.token(t, h.refreshForm(p.RefreshToken)) },
			web.Served{Route: token, Method: "POST", Status: 400, GrantType: "refresh_token", Code: "invalid_grant", Refusal: "used_before"}},
		{"no_grant_outside_the_token_endpoint", func() { h.browser(t).post(t, "/oauth/v2/revoke", url.Values{"token": {"x"}}) },
			web.Served{Route: "/oauth/v2/revoke", Method: "POST", Status: 401, Code: "invalid_client", Refusal: "unknown_or_disabled_client_or_wrong_secret"}},
		{"dead_token", func() { h.api(t, p.AccessToken) },
			web.Served{Route: events, Method: "GET", Status: 401, Code: "invalid_token"}},
		{"no_route", func() { h.get(t, "/kanarienvogel") },
			web.Served{Route: "(none)", Method: "GET", Status: 404, Code: "not_found"}},
		{"no_method", func() { h.do(h.request(t, "KANARIENVOGEL", "/", nil)) },
			web.Served{Route: "(none)", Method: "OTHER", Status: 405, Code: "invalid_request"}},
		{"foreign_host", func() { h.get(t, "/", func(r *http.Request) { r.Host = "kanarienvogel.example" }) },
			web.Served{Route: "(none)", Method: "GET", Status: 421}},
		{"long_query", func() { h.get(t, "/?"+strings.Repeat("k", 9<<10)) },
			web.Served{Route: "(none)", Method: "GET", Status: 414}},
		{"broken_store", func() { h.Faults.Break(record.ErrUnavailable); h.token(t, h.passwordForm()); h.Faults.Repair() },
			web.Served{Route: token, Method: "POST", Status: 503, GrantType: "none", Code: "temporarily_unavailable"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			if got := all.last(t); got != c.want {
				t.Errorf("observed %+v\nwant %+v", got, c.want)
			}
		})
	}
	t.Run("metrics_throttled", func(t *testing.T) {
		for range 40 {
			h.token(t, wrong)
			h.token(t, stranger)
		}
		all.seen = nil
		h.token(t, h.passwordForm())
		if got := all.last(t); got.Status != 429 || !got.Throttled || got.SignIn != web.SignInThrottled {
			t.Errorf("observed %+v for a throttled sign-in", got)
		}
		h.token(t, stranger)
		if got := all.last(t); got.Status != 429 || !got.Throttled || got.SignIn != "" {
			t.Errorf("observed %+v for a throttled client", got)
		}
	})
}

// TestMonitor: health and metrics have a handler of their own, under any host, and no
// public path serves metrics.
//
// Promise (Monitoring): /healthz answers; /readyz reports store, disk and clock, reasons to
// operators alone; metrics are not public
func TestMonitor(t *testing.T) {
	const page = "tollhouse_ready 1\n"
	h := parallelHouse(t, at("https://pay.example/tolls"), func(c *handlers.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) })
	})
	ask := func(from http.Handler, path string) answer {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "10.1.2.3:9090"
		from.ServeHTTP(w, r)
		return answer{Response: w.Result(), body: w.Body.String()}
	}
	for name, from := range map[string]http.Handler{"monitor": h.server.Monitor(), "admin_socket": h.server.Admin()} {
		t.Run("any_host_on_"+name, func(t *testing.T) {
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				if a := ask(from, path); a.StatusCode != http.StatusOK || a.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("GET %s = %d, Cache-Control %q; want 200, no-store", path, a.StatusCode, a.Header.Get("Cache-Control"))
				}
			}
			if a := ask(from, "/metrics"); a.body != page {
				t.Errorf("metrics = %q", a.body)
			}
		})
	}
	t.Run("metrics_are_off_the_public_handler", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/tolls/metrics"} {
			if a := h.get(t, path); a.StatusCode != http.StatusNotFound {
				t.Errorf("GET %s = %d, want 404", path, a.StatusCode)
			}
		}
	})
	t.Run("monitor_has_nothing_else", func(t *testing.T) {
		for _, path := range []string{"/", "/admin/info", "/admin/clients", "/api/events", "/login"} {
			if a := ask(h.server.Monitor(), path); a.StatusCode != http.StatusNotFound {
				t.Errorf("GET %s = %d, want 404", path, a.StatusCode)
			}
		}
	})
	t.Run("readyz_gives_the_reason_to_the_operator_only", func(t *testing.T) {
		h.Faults.Break(record.ErrUnavailable)
		defer h.Faults.Repair()
		reason := record.ErrUnavailable.Error()
		for _, from := range []http.Handler{h.public, h.server.Monitor()} {
			if a := ask(from, "/readyz"); a.StatusCode != http.StatusServiceUnavailable || strings.Contains(a.body, reason) {
				t.Errorf("readyz = %d, %s; want 503 without the reason", a.StatusCode, a.body)
			}
		}
		if a := ask(h.server.Admin(), "/readyz"); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, reason) {
			t.Errorf("readyz on the admin socket = %d, %s; want 503 with %q", a.StatusCode, a.body, reason)
		}
	})
}
