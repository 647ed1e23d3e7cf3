package handlers_test

import (
	"net/http"
	"net/url"
	"testing"
)

// TestAdminIsElsewhere: the API without credentials cannot be reached over TCP. Its handler
// listens only on the operator's socket.
//
// Promise (Attacks on operations): the admin socket; a data directory open to others
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
