package handlers_test

import (
	"context"
	"net/http"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// TestBearerOfANarrowedClient: a token permits what its client may do now, not what it
// could do when the token was issued.
//
// Promise (RFC 6750): a token without the scope is 403 naming the scope needed
func TestBearerOfANarrowedClient(t *testing.T) {
	h := parallelHouse(t)
	narrow := func(t *testing.T, scopes ...string) {
		t.Helper()
		must.Get(h.UpdateClient(context.Background(), h.client.ID, store.ClientChange{Scopes: &scopes}))(t)
	}
	for name, token := range map[string]string{
		"no_stated_scope": h.pair(t).AccessToken,
		"a_stated_scope":  h.pair(t, "scope", "events:read resources:read").AccessToken,
	} {
		t.Run("of_"+name, func(t *testing.T) {
			narrow(t, "resources:read")
			a := h.api(t, token)
			wantError(t, a, http.StatusForbidden, "insufficient_scope")
			if got, want := a.Header.Get("WWW-Authenticate"), bareChallenge+`, error="insufficient_scope", scope="events:read"`; got != want {
				t.Errorf("WWW-Authenticate = %q, want %q", got, want)
			}
			narrow(t, "events:read")
			if a := h.api(t, token); a.StatusCode != http.StatusOK {
				t.Errorf("status = %d once the client may again, want 200", a.StatusCode)
			}
		})
	}
}
