package handlers_test

import (
	"net/http"
	"testing"
	"time"
)

// TestRevokeWhatHasEnded: a client that cleans up gets no error for a token that has
// already ended (RFC 7009 §2.2).
//
// Promise (RFC 7009): an unknown, expired or malformed token is 200; the client must authenticate,
// a public one by its id; a wrong hint is ignored
func TestRevokeWhatHasEnded(t *testing.T) {
	t.Parallel()
	cases := map[string]func(t *testing.T, h *house, p pair){
		"an_expired_access_token":   func(_ *testing.T, h *house, _ pair) { h.Clock.Advance(2 * time.Hour) },
		"expired_tokens":            func(_ *testing.T, h *house, _ pair) { h.Clock.Advance(15 * 24 * time.Hour) },
		"a_family_past_its_year":    func(_ *testing.T, h *house, _ pair) { h.Clock.Advance(400 * 24 * time.Hour) },
		"tokens_revoked_before":     func(t *testing.T, h *house, p pair) { wantRevoked(t, h.revoke(t, p.RefreshToken)) },
		"an_access_token_with_none": func(t *testing.T, h *house, p pair) { wantRevoked(t, h.revoke(t, p.AccessToken)) },
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t)
			p := h.pair(t)
			end(t, h, p)
			wantRevoked(t, h.revoke(t, p.AccessToken))
			wantRevoked(t, h.revoke(t, p.RefreshToken))
			h.familyIsDead(t, p)
		})
	}
}

func TestRevokeAccessTokenByHint(t *testing.T) {
	h := parallelHouse(t)
	for _, hint := range []string{"access_token", "refresh_token", "cat", "ACCESS_TOKEN", ""} {
		t.Run("access_token_with_hint_"+hint, func(t *testing.T) {
			p := h.pair(t)
			wantRevoked(t, h.postForm(t, revokePath, with(h.credentials(), "token", p.AccessToken, "token_type_hint", hint)))
			if h.accessLives(t, p) {
				t.Error("the access token lives, want it dead")
			}
			wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
		})
	}
	t.Run("a_hint_given_twice_is_still_two", func(t *testing.T) {
		p := h.pair(t)
		form := with(h.credentials(), "token", p.AccessToken)
		form["token_type_hint"] = []string{"access_token", "refresh_token"}
		wantTokenError(t, h.postForm(t, revokePath, form), http.StatusBadRequest, "invalid_request")
	})
}
