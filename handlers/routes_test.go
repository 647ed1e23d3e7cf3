package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// otherRoutes are those outside TestMethods.
var otherRoutes = map[string][]string{
	revokePath:     {"POST"},
	introspectPath: {"POST"},
	"/.well-known/oauth-authorization-server": {"GET", "HEAD"},
	accountPath:              {"GET", "HEAD"},
	accountRevoke:            {"POST"},
	accountOthers:            {"POST"},
	accountPassword:          {"POST"},
	"/api/resources/kind":    {"GET", "HEAD"},
	"/api/resources/kind/id": {"GET", "HEAD", "PUT", "PATCH", "DELETE"},
}

func TestMethodsOfOtherRoutes(t *testing.T) {
	h := parallelHouse(t)
	token := header("Authorization", "Bearer "+h.pair(t).AccessToken)
	for path, takes := range otherRoutes {
		allow := append([]string{"OPTIONS"}, takes...)
		for _, method := range []string{"TRACE", "PROPFIND", "CONNECT", "POST", "GET", "PUT", "DELETE", "get"} {
			if slices.Contains(takes, method) {
				continue
			}
			t.Run(method+url.PathEscape(path), func(t *testing.T) {
				a := h.do(h.request(t, method, path, nil, token))
				wantError(t, a, http.StatusMethodNotAllowed, "invalid_request")
				wantAllow(t, a, slices.Clone(allow)...)
			})
		}
		t.Run("OPTIONS"+url.PathEscape(path), func(t *testing.T) {
			a := h.do(h.request(t, "OPTIONS", path, nil))
			if a.StatusCode != http.StatusNoContent || a.body != "" {
				t.Errorf("OPTIONS = %d %q, want 204 and no body", a.StatusCode, a.body)
			}
			wantAllow(t, a, slices.Clone(allow)...)
		})
	}
}

// TestAdminIsElsewhere: the API without credentials cannot be reached over TCP. Its handler
// listens only on the operator's socket.
func TestAdminIsElsewhere(t *testing.T) {
	h := parallelHouse(t)
	for _, path := range []string{
		"/admin/info", "/admin/clients", "/admin/users", "/admin/users/mara", "/admin/accounts", "/admin/events", "/admin/audit", "/admin/sessions", "/admin/families", "/admin/token-inspect", "/admin/event-export", "/admin", "/admin/",
	} {
		t.Run("not_over_tcp_"+url.PathEscape(path), func(t *testing.T) {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				wantError(t, h.do(h.request(t, method, path, nil)), http.StatusNotFound, "not_found")
			}
		})
	}
}
