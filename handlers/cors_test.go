package handlers_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// preflight sends a browser's request before one that is not simple.
func (h *house) preflight(t testing.TB, target, origin, method string) answer {
	t.Helper()
	return h.do(h.request(t, "OPTIONS", target, nil, header("Origin", origin),
		header("Access-Control-Request-Method", method), header("Access-Control-Request-Headers", "authorization")))
}

func wantNoCORS(t testing.TB, a answer) {
	t.Helper()
	for name := range a.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s = %q, want no CORS header", name, a.Header.Get(name))
		}
	}
}

// wantCORS checks which origin may read the answer.
func wantCORS(t testing.TB, a answer, origin string) {
	t.Helper()
	if got := a.Header.Values("Access-Control-Allow-Origin"); !slices.Equal(got, []string{origin}) {
		t.Errorf("Access-Control-Allow-Origin = %q, want %q", got, origin)
	}
	if got := a.Header.Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("Access-Control-Allow-Credentials = %q, want none, ever", got)
	}
	if a.Request.Method == "OPTIONS" {
		return
	}
	exposed := strings.Split(a.Header.Get("Access-Control-Expose-Headers"), ", ")
	for _, name := range []string{"ETag", "Link", "Retry-After", "WWW-Authenticate", "X-Request-Id", "Tollhouse-Event", "Tollhouse-Notice", "Tollhouse-Poll-After"} {
		if !slices.Contains(exposed, name) {
			t.Errorf("Access-Control-Expose-Headers = %q, want %s in it", exposed, name)
		}
	}
}

func wantPreflight(t testing.TB, a answer, origin string, methods ...string) {
	t.Helper()
	wantCORS(t, a, origin)
	if a.StatusCode != http.StatusNoContent {
		t.Errorf("status = %d, want 204", a.StatusCode)
	}
	if got := strings.Split(a.Header.Get("Access-Control-Allow-Methods"), ", "); !slices.Equal(got, methods) {
		t.Errorf("Access-Control-Allow-Methods = %q, want %q", got, methods)
	}
	if got := a.Header.Get("Access-Control-Allow-Headers"); got != "authorization" {
		t.Errorf("Access-Control-Allow-Headers = %q, want what was asked for", got)
	}
}

func variesByOrigin(a answer) bool {
	return strings.Contains(strings.Join(a.Header.Values("Vary"), ", "), "Origin")
}

// Promise (RFC 9700): no CORS at the authorization endpoint; CORS elsewhere is for public data, the
// API and public clients, never with credentials
func TestCORSOfTheTokenEndpoint(t *testing.T) {
	h := parallelHouse(t)
	h.Client(t, func(spec *store.ClientSpec) { spec.RedirectURIs = []string{"https://confidential.example/cb"} })
	spa, _ := h.Client(t, publicClient, func(spec *store.ClientSpec) {
		spec.RedirectURIs = []string{"https://spa.example/cb?x=1", "https://port.example:8443/cb", "https://plain.example:443/cb", "http://localhost/cb", "http://[::1]:9/cb", "com.example.app:/cb"}
	})
	for _, path := range []string{tokenPath, revokePath} {
		for _, origin := range []string{
			"https://spa.example", "https://port.example:8443", "https://plain.example", "http://localhost", "http://localhost:5173", "http://[::1]:4000",
		} {
			t.Run("allowed_"+path+"_"+origin, func(t *testing.T) {
				wantPreflight(t, h.preflight(t, path, origin, "POST"), origin, "POST")
				a := h.postForm(t, path, nil, header("Origin", origin))
				wantError(t, a, http.StatusUnauthorized, "invalid_client")
				wantCORS(t, a, origin) // a page must be able to read why it was refused
				if !variesByOrigin(a) {
					t.Error("Vary lacks Origin")
				}
			})
		}
		for _, origin := range []string{
			"https://confidential.example", "https://evil.example", "null", "", "http://spa.example", "https://spa.example:8443", "https://port.example",
			"https://spa.example.evil.example", "https://spa.example/", "https://SPA.example", "https://user@spa.example", "http://127.0.0.1",
			"http://localhost/cb", "https://localhost", "com.example.app:", "*", "file://",
		} {
			t.Run("none_"+path+"_"+origin, func(t *testing.T) {
				for _, a := range []answer{h.preflight(t, path, origin, "POST"), h.postForm(t, path, nil, header("Origin", origin))} {
					wantNoCORS(t, a)
					if !variesByOrigin(a) {
						t.Error("Vary lacks Origin")
					}
				}
			})
		}
	}
	t.Run("a_change_of_the_client_is_seen_at_once", func(t *testing.T) {
		uris := []string{"https://moved.example/cb"}
		must.Get(h.UpdateClient(context.Background(), spa.ID, store.ClientChange{RedirectURIs: &uris}))(t)
		wantCORS(t, h.preflight(t, tokenPath, "https://moved.example", "POST"), "https://moved.example")
		wantNoCORS(t, h.preflight(t, tokenPath, "https://spa.example", "POST"))
		must.Get(h.DisableClient(context.Background(), spa.ID))(t)
		wantNoCORS(t, h.preflight(t, tokenPath, "https://moved.example", "POST"))
	})
	t.Run("two_origins", func(t *testing.T) {
		wantNoCORS(t, h.postForm(t, tokenPath, nil, func(r *http.Request) {
			r.Header["Origin"] = []string{"https://spa.example", "https://spa.example"}
		}))
	})
}

// Promise (RFC 9700): no CORS at the authorization endpoint; CORS elsewhere is for public data, the
// API and public clients, never with credentials
func TestCORSElsewhere(t *testing.T) {
	h := parallelHouse(t)
	h.Client(t, publicClient)
	const origin = "https://app.example" // of a public client
	all := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	for path, methods := range map[string][]string{
		"/.well-known/oauth-authorization-server": all[:2], "/.well-known/openid-configuration": all[:2], "/openapi.json": all[:2],
		"/api": all, "/api/nothing": all, "/api/event-types": all, apiPath: all, apiPath + "/evt_00000000000000000000000000": all, apiPath + "/a/b": all,
		"/api/resources/plan": all, "/api/resources/plan/p1": all, "/api/webhook-endpoints": all, "/api/webhook-endpoints/wep_1/retry": all,
	} {
		t.Run("public_"+path, func(t *testing.T) {
			wantPreflight(t, h.preflight(t, path, "https://other.example", "PUT"), "*", methods...)
			wantCORS(t, h.get(t, path), "*") // a cache may give it to a page later
			for _, method := range []string{"GET", "POST", "PUT", "TRACE"} {
				wantCORS(t, h.do(h.request(t, method, path, nil, header("Origin", "https://other.example"))), "*")
			}
		})
	}
	for _, path := range []string{"/oauth/v2/auth", introspectPath, "/login", "/consent", "/logout", "/", "/apix", "/.well-knownx", "/api/platform", "/api/platform/clients", "/healthz", "/nothing", "/oauth/v2/tokens", "/oauth/v2/token/"} {
		t.Run("none_"+path, func(t *testing.T) {
			wantNoCORS(t, h.preflight(t, path, origin, "POST"))
			wantNoCORS(t, h.get(t, path, header("Origin", origin)))
			wantNoCORS(t, h.postForm(t, path, nil, header("Origin", origin)))
		})
	}
	t.Run("none_at_the_authorization_endpoint", func(t *testing.T) {
		wantNoCORS(t, h.get(t, h.authURL(), header("Origin", origin)))
		wantNoCORS(t, h.get(t, authPath, header("Origin", origin)))
	})
}

// TestCORSAllowsEveryHeader: where an origin is allowed, agents that trace requests and
// caches in the page may add their headers.
//
// Promise (RFC 9700): where an origin is allowed, so is every request header but Tollhouse-Account;
// errors and unknown addresses carry CORS too
func TestCORSAllowsEveryHeader(t *testing.T) {
	h := parallelHouse(t)
	h.Client(t, publicClient, func(spec *store.ClientSpec) { spec.RedirectURIs = []string{"https://spa.example/cb"} })
	ask := func(path string, names ...string) answer {
		return h.do(h.request(t, "OPTIONS", path, nil, header("Origin", "https://spa.example"), header("Access-Control-Request-Method", "GET"), func(r *http.Request) {
			r.Header["Access-Control-Request-Headers"] = names
		}))
	}
	for _, path := range []string{tokenPath, revokePath, apiPath, "/openapi.json", "/api/resources/plan", "/api/nothing", "/.well-known/nothing"} {
		for _, tt := range []struct {
			name string
			asks []string
			want string
		}{
			{"none", nil, ""}, {"empty", []string{""}, ""}, {"one", []string{"authorization"}, "authorization"},
			{"tracing", []string{"traceparent,tracestate,baggage,b3,x-datadog-trace-id,sentry-trace"}, "traceparent, tracestate, baggage, b3, x-datadog-trace-id, sentry-trace"},
			{"what_streams_and_caches_add", []string{"authorization,if-none-match,last-event-id"}, "authorization, if-none-match, last-event-id"},
			{"two_lines_and_spaces", []string{" a , ", "b"}, "a, b"},
			{"never_the_account", []string{"authorization,tollhouse-account,x-a", "Tollhouse-Account"}, "authorization, x-a"},
		} {
			if got := ask(path, tt.asks...).Header.Get("Access-Control-Allow-Headers"); got != tt.want {
				t.Errorf("%s, %s: allowed = %q, want %q", path, tt.name, got, tt.want)
			}
		}
	}
	t.Run("an_origin_that_is_not_allowed_gets_none", func(t *testing.T) {
		a := h.do(h.request(t, "OPTIONS", tokenPath, nil, header("Origin", "https://evil.example"), header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "x-a")))
		wantNoCORS(t, a)
	})
}

// TestCORSOfErrors: a page can read why it was refused, whatever refused it.
//
// Promise (RFC 9700): where an origin is allowed, so is every request header but Tollhouse-Account;
// errors and unknown addresses carry CORS too
func TestCORSOfErrors(t *testing.T) {
	h := parallelHouse(t)
	const origin = "https://other.example"
	from := header("Origin", origin)
	refused := map[int]answer{
		http.StatusUnauthorized:                h.get(t, apiPath, from),
		http.StatusNotFound:                    h.get(t, "/api/nothing", from),
		http.StatusMethodNotAllowed:            h.do(h.request(t, "PUT", apiPath, nil, from)),
		http.StatusMisdirectedRequest:          h.get(t, apiPath, from, func(r *http.Request) { r.Host = "foreign.example" }),
		http.StatusRequestURITooLong:           h.get(t, apiPath+"?a="+strings.Repeat("a", 9<<10), from),
		http.StatusRequestHeaderFieldsTooLarge: h.get(t, apiPath, from, func(r *http.Request) { r.Header["X-A"] = make([]string, 101) }),
	}
	h.Faults.Break(record.ErrUnavailable)
	refused[http.StatusServiceUnavailable] = h.get(t, apiPath, from, header("Authorization", "Bearer "+secret.New(nil, secret.AccessToken).Reveal()))
	h.Faults.Repair()
	for status, a := range refused {
		if a.StatusCode != status {
			t.Errorf("status = %d %s, want %d", a.StatusCode, a.body, status)
		}
		wantCORS(t, a, "*")
	}
	t.Run("below_a_path", func(t *testing.T) {
		below := newHouse(t, at(publicURL+"/pay"))
		for _, path := range []string{"/pay/api/events", "/pay/api/nothing", "/api/events", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/pay", "/pay/.well-known/nothing"} {
			if a := below.preflight(t, path, origin, "GET"); a.StatusCode != http.StatusNoContent {
				t.Errorf("the preflight of %s = %d, want 204", path, a.StatusCode)
			}
			wantCORS(t, below.get(t, path, from), "*")
		}
		wantNoCORS(t, below.get(t, "/pay/login", from))
		if a := below.preflight(t, "/login", origin, "GET"); a.StatusCode != http.StatusNotFound {
			t.Errorf("the preflight of another address = %d, want 404", a.StatusCode)
		}
	})
	t.Run("OPTIONS_that_is_no_preflight", func(t *testing.T) {
		if a := h.do(h.request(t, "OPTIONS", "/api/nothing", nil, from)); a.StatusCode != http.StatusNotFound {
			t.Errorf("OPTIONS = %d, want 404", a.StatusCode)
		}
	})
}
