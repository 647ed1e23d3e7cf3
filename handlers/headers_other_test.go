package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store/record"
)

// otherAnswers are those missing from everyAnswer: endpoints outside the walk, resources,
// and refusals before any handler runs.
func otherAnswers(t testing.TB, h *house) map[string]answer {
	t.Helper()
	p := h.pair(t)
	bearer := header("Authorization", "Bearer "+p.AccessToken)
	const metadata, customer = "/.well-known/oauth-authorization-server", "/api/resources/customer/cus_1"
	send := func(method, target, body string, change ...func(*http.Request)) answer {
		return h.do(h.request(t, method, target, strings.NewReader(body), change...))
	}
	asJSON := header("Content-Type", "application/json")
	all := map[string]answer{
		"revoke":                      h.revoke(t, "x"),
		"revoke_unknown_client":       h.postForm(t, revokePath, nil),
		"revoke_by_get":               h.get(t, revokePath),
		"revoke_preflight":            h.preflight(t, revokePath, "https://evil.example", "POST"),
		"introspect":                  h.introspect(t, p.AccessToken),
		"introspect_unknown_client":   h.postForm(t, introspectPath, nil),
		"introspect_by_get":           h.get(t, introspectPath),
		"metadata":                    h.get(t, metadata),
		"metadata_by_post":            send("POST", metadata, ""),
		"event_types":                 h.get(t, "/api/event-types", bearer),
		"resource_made":               send("PUT", customer, `{"city":"Dunmere"}`, bearer, asJSON),
		"resource":                    h.get(t, customer, bearer),
		"resource_list":               h.get(t, "/api/resources/customer", bearer),
		"resource_unchanged":          send("PUT", customer, `{"city":"Dunmere"}`, bearer, asJSON),
		"resource_refused":            send("PUT", customer, `{"citty":1}`, bearer, asJSON),
		"resource_of_another_type":    send("PUT", customer, "x", bearer, header("Content-Type", "text/plain")),
		"resource_outdated":           send("PUT", customer, `{"city":"Larkspur"}`, bearer, asJSON, header("If-Match", `"x"`)),
		"resource_gone":               send("DELETE", customer, "", bearer),
		"unknown_resource":            h.get(t, customer, bearer),
		"event_query_refused":         h.get(t, apiPath+"?limit=0", bearer),
		"event_query_damaged":         h.get(t, apiPath+"?type=%zz", bearer),
		"events_of_a_narrow_token":    h.api(t, h.pair(t, "scope", "resources:read").AccessToken),
		"token_too_large":             h.tokenBody(t, formType, strings.Repeat("a", 64<<10+1)),
		"token_of_another_type":       h.tokenBody(t, "text/plain", "x"),
		"token_compressed":            h.token(t, h.passwordForm(), header("Content-Encoding", "gzip")),
		"sign_in_too_large":           send("POST", "/login", strings.Repeat("a", 64<<10+1), header("Content-Type", formType)),
		"no_such_path_for_a_browser":  h.get(t, "/nothing", header("Accept", "text/html")),
		"no_such_path_for_a_program":  h.get(t, "/nothing", header("Accept", "application/json")),
		"another_host_for_a_browser":  h.get(t, "/", header("Accept", "text/html"), func(r *http.Request) { r.Host = "evil.example" }),
		"query_too_long_in_a_browser": h.get(t, "/?"+strings.Repeat("a", 8<<10+1), header("Accept", "text/html")),
	}
	for range 11 {
		all["token_throttled"] = h.grant(t, "nils", tooLong)
		all["sign_in_throttled"] = h.stranger(t).signIn(t, "nils", tooLong)
	}
	h.Faults.Break(record.ErrUnavailable)
	all["events_unavailable"], all["revoke_unavailable"], all["introspect_unavailable"] = h.api(t, p.AccessToken), h.revoke(t, p.AccessToken), h.introspect(t, p.AccessToken)
	h.Faults.Repair()
	h.Rest()
	h.Faults.OnUpdate(func(func() error) error { panic("a mistake of our own") })
	all["revoke_broken"] = h.revoke(t, p.RefreshToken)
	h.Faults.Repair()
	return all
}

// Promise (RFC 9700 §4.5, §4.14): every answer of every route has its security headers
func TestHeadersOfOtherAnswers(t *testing.T) {
	t.Parallel()
	answers := otherAnswers(t, newHouse(t))
	dev := newHouse(t, at("http://127.0.0.1:8080"), func(c *handlers.Config) { c.Demo = &web.Demo{} })
	answers["callback"], answers["callback_damaged"] = dev.get(t, "/callback?code=x&state=y"), dev.get(t, "/callback?code=%zz")
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("X-Request-Id") == "" {
				t.Errorf("%d lacks nosniff or a request id: %v", a.StatusCode, a.Header)
			}
			want := "no-referrer"
			if isPage(a) {
				wantPageHeaders(t, a)
				wantPlainMarkup(t, a)
				if strings.Contains(a.body, "<form") {
					want = "same-origin"
				}
			}
			if got := a.Header.Get("Referrer-Policy"); got != want {
				t.Errorf("Referrer-Policy = %q, want %q", got, want)
			}
			kept := a.Header.Get("Cache-Control")
			public := name == "metadata" && a.StatusCode == http.StatusOK // the same for every caller
			if a.StatusCode != http.StatusNoContent && !public && !strings.Contains(kept, "no-store") && !strings.Contains(kept, "private") {
				t.Errorf("Cache-Control = %q, want no-store, or private on the API", kept)
			}
			if a.StatusCode >= http.StatusBadRequest && !isPage(a) {
				if a.Header.Get("Content-Type") != "application/json" || members(t, a)["error"] == "" {
					t.Errorf("%s %.100s, want a page or the one error shape", a.Header.Get("Content-Type"), a.body)
				}
			}
			if a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable {
				if a.Header.Get("Retry-After") == "" {
					t.Error("Retry-After is missing")
				}
			}
		})
	}
}
