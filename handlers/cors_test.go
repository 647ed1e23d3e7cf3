package handlers_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
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
	for _, name := range []string{"ETag", "Link", "Retry-After", "X-Request-Id", "Tollhouse-Event", "Tollhouse-Notice", "Tollhouse-Poll-After"} {
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
	if got := a.Header.Get("Access-Control-Allow-Headers"); !slices.Contains(strings.Split(got, ", "), "Authorization") {
		t.Errorf("Access-Control-Allow-Headers = %q, want Authorization in it", got)
	}
}

func variesByOrigin(a answer) bool {
	return strings.Contains(strings.Join(a.Header.Values("Vary"), ", "), "Origin")
}

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

func TestCORSElsewhere(t *testing.T) {
	h := parallelHouse(t)
	h.Client(t, publicClient)
	const origin = "https://app.example" // of a public client
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/openapi.json", "/api/event-types", apiPath, apiPath + "/evt_00000000000000000000000000"} {
		t.Run("public_read_"+path, func(t *testing.T) {
			wantPreflight(t, h.preflight(t, path, "https://other.example", "GET"), "*", "GET", "HEAD")
			wantCORS(t, h.get(t, path, header("Origin", "https://other.example")), "*")
			wantCORS(t, h.get(t, path), "*") // a cache may give it to a page later
		})
	}
	for _, path := range []string{"/oauth/v2/auth", introspectPath, "/login", "/consent", "/logout", "/", "/api/resources/customers", "/api/webhook-endpoints", "/api/eventsx", "/healthz", "/nothing"} {
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
