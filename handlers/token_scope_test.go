package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// TestRefreshTokenKeepsItsScope follows one family: however an access token was narrowed,
// its refresh tokens keep the whole granted scope (RFC 6749 §6).
//
// Promise (RFC 6749 §3.2, §3.3): an unknown scope is invalid_scope, reported to the client;
// invalid_scope names the scope
// Promise (RFC 6749 §6): the new refresh token keeps the scope; a client that disconnects finds a
// rotation complete or not begun
func TestRefreshTokenKeepsItsScope(t *testing.T) {
	h := parallelHouse(t)
	const granted = "events:read resources:read"
	scope := func(t *testing.T, p pair) string {
		t.Helper()
		if p.Scope == nil {
			t.Fatal("scope = null, want the granted one")
		}
		return *p.Scope
	}
	refreshed := func(t *testing.T, p pair, more ...string) pair {
		t.Helper()
		return wantPair(t, h.token(t, with(h.refreshForm(p.RefreshToken), more...)))
	}
	t.Run("through_every_rotation", func(t *testing.T) {
		p := h.pair(t, "scope", granted)
		for _, asked := range []string{"events:read", "resources:read", "", "events:read", granted} {
			p = refreshed(t, p, "scope", asked)
			want := asked
			if want == "" {
				want = granted
			}
			if got := scope(t, p); got != want {
				t.Errorf("asked for %q: scope = %q, want %q", asked, got, want)
			}
			if got := wantActive(t, h.introspect(t, p.RefreshToken))["scope"]; got != granted {
				t.Errorf("asked for %q: the new refresh token stands for %q, want %q", asked, got, granted)
			}
		}
	})
	t.Run("and_when_a_lost_pair_is_replaced", func(t *testing.T) {
		first := h.pair(t, "scope", granted)
		refreshed(t, first, "scope", "events:read")
		h.Clock.Advance(time.Minute)
		again := refreshed(t, first, "scope", "events:read")
		if got := scope(t, refreshed(t, again)); got != granted {
			t.Errorf("scope = %q, want %q", got, granted)
		}
	})
	t.Run("but_not_what_its_client_lost", func(t *testing.T) {
		h := parallelHouse(t)
		for name, p := range map[string]pair{"stated": h.pair(t, "scope", granted), "unstated": h.pair(t)} {
			first := wantPair(t, h.token(t, with(h.refreshForm(p.RefreshToken), "scope", "resources:read")))
			narrowed, all := []string{"events:read"}, []string{}
			must.Get(h.UpdateClient(t.Context(), h.client.ID, store.ClientChange{Scopes: &narrowed}))(t)
			for _, token := range []string{p.RefreshToken, first.RefreshToken} { // a repeat, and a first use
				wantTokenError(t, h.token(t, with(h.refreshForm(token), "scope", "resources:read")), http.StatusBadRequest, "invalid_scope")
			}
			if got := scope(t, wantPair(t, h.token(t, with(h.refreshForm(first.RefreshToken), "scope", "events:read")))); got != "events:read" {
				t.Errorf("%s: scope = %q, want events:read, which the client still may have", name, got)
			}
			must.Get(h.UpdateClient(t.Context(), h.client.ID, store.ClientChange{Scopes: &all}))(t)
		}
	})
	t.Run("and_never_grows_beyond_it", func(t *testing.T) {
		p := refreshed(t, h.pair(t, "scope", granted), "scope", "events:read")
		text := wantTokenError(t, h.token(t, with(h.refreshForm(p.RefreshToken), "scope", granted+" resources:write")), http.StatusBadRequest, "invalid_scope")
		if !strings.HasPrefix(text, "The scope resources:write exceeds") {
			t.Errorf("the refusal says %q, want it to name what exceeds the grant, and nothing else", text)
		}
		if got := scope(t, refreshed(t, p)); got != granted {
			t.Errorf("scope = %q, want %q", got, granted)
		}
	})
}
