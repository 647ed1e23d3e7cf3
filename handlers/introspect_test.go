package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

func (h *house) introspect(t testing.TB, token string) answer {
	t.Helper()
	return h.postForm(t, introspectPath, with(h.credentials(), "token", token))
}

// wantActive returns the members of an introspection of a live token.
func wantActive(t testing.TB, a answer) map[string]any {
	t.Helper()
	wantTokenHeaders(t, a)
	var members map[string]any
	if err := json.Unmarshal([]byte(a.body), &members); err != nil || a.StatusCode != http.StatusOK || members["active"] != true {
		t.Fatalf("status = %d %s, want an active token (%v)", a.StatusCode, a.body, err)
	}
	return members
}

func wantInactive(t testing.TB, a answer) {
	t.Helper()
	wantTokenHeaders(t, a)
	if a.StatusCode != http.StatusOK || strings.TrimSpace(a.body) != `{"active":false}` {
		t.Errorf(`status = %d %s, want 200 only {"active":false}`, a.StatusCode, a.body)
	}
}

func wantMembers(t testing.TB, got, want map[string]any) {
	t.Helper()
	want["active"], want["amr"] = true, []any{"pwd"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("introspection = %v, want %v", got, want)
	}
}

// Promise (RFC 7662, RFC 8252 §8.6): an active access token is shown with all members; an active
// refresh token is shown with its expiry
// Promise (Credentials, memory, connections): an old refresh token after its pair was shown to a
// resource server; a family refreshed, or a client's own tokens requested, without end
func TestIntrospect(t *testing.T) {
	h := parallelHouse(t)
	now := float64(h.Clock.Now().Unix())
	const all = "events:read resources:read resources:write webhooks:read webhooks:write"
	t.Run("live_access_token_of_no_stated_scope", func(t *testing.T) {
		wantMembers(t, wantActive(t, h.introspect(t, h.pair(t).AccessToken)), map[string]any{
			"scope": all, "client_id": h.client.ID, "username": "mara", "sub": h.user.Subject(), "token_type": "bearer",
			"exp": now + 3600, "iat": now, "iss": publicURL,
		})
	})
	t.Run("stated_scope", func(t *testing.T) {
		got := wantActive(t, h.introspect(t, h.pair(t, "scope", "events:read").AccessToken))
		if got["scope"] != "events:read" {
			t.Errorf("scope = %v, want events:read", got["scope"])
		}
	})
	t.Run("live_refresh_token", func(t *testing.T) {
		wantMembers(t, wantActive(t, h.introspect(t, h.pair(t).RefreshToken)), map[string]any{
			"scope": all, "client_id": h.client.ID, "username": "mara", "sub": h.user.Subject(), "exp": now + 1_209_600, "iss": publicURL,
		})
	})
	t.Run("active_for_its_own_client_counts_as_used", func(t *testing.T) {
		first := h.pair(t)
		second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
		wantActive(t, h.introspect(t, second.AccessToken))
		h.Clock.Advance(31 * time.Second)
		wantTokenError(t, h.token(t, h.refreshForm(first.RefreshToken)), http.StatusBadRequest, "invalid_grant")
		h.familyIsDead(t, second)
	})
	t.Run("active_for_a_resource_server_counts_as_used", func(t *testing.T) {
		for name, shown := range map[string]func(pair) string{
			"access_token":  func(p pair) string { return p.AccessToken },
			"refresh_token": func(p pair) string { return p.RefreshToken },
		} {
			t.Run(name, func(t *testing.T) {
				h := parallelHouse(t).overTCP(t)
				gateway, gatewaySecret := h.Client(t, func(spec *store.ClientSpec) { spec.Introspect = true })
				first := h.pair(t)
				second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
				wantActive(t, h.postForm(t, introspectPath, with(as(h.credentials(), gateway, gatewaySecret), "token", shown(second))))
				h.Clock.Advance(31 * time.Second)
				wantTokenError(t, h.token(t, h.refreshForm(first.RefreshToken)), http.StatusBadRequest, "invalid_grant")
				h.familyIsDead(t, second)
			})
		}
	})
	t.Run("missing_token", func(t *testing.T) {
		wantTokenError(t, h.postForm(t, introspectPath, h.credentials()), http.StatusBadRequest, "invalid_request")
	})
}

// Promise (RFC 7662, RFC 8252 §8.6): the client must authenticate; a public one cannot; an inactive
// or foreign token is inactive and nothing more
func TestIntrospectDead(t *testing.T) {
	h := parallelHouse(t)
	inactive := func(name string, kill func(t *testing.T, p pair)) {
		t.Run(name, func(t *testing.T) {
			p := h.pair(t)
			kill(t, p)
			wantInactive(t, h.introspect(t, p.AccessToken))
			wantInactive(t, h.introspect(t, p.RefreshToken))
		})
	}
	inactive("revoked", func(t *testing.T, p pair) { wantRevoked(t, h.revoke(t, p.RefreshToken)) })
	inactive("expired", func(*testing.T, pair) { h.Clock.Advance(15 * 24 * time.Hour) })
	inactive("user_disabled", func(t *testing.T, _ pair) {
		must.Get(h.DisableUser(context.Background(), "mara"))(t)
		must.Get(h.EnableUser(context.Background(), "mara"))(t)
		h.user, _ = h.FindUser(context.Background(), "mara")
	})
	inactive("account_disabled", func(t *testing.T, _ pair) {
		must.Get(h.DisableAccount(context.Background(), h.account))(t)
		must.Get(h.EnableAccount(context.Background(), h.account))(t)
		h.user, _ = h.FindUser(context.Background(), "mara")
	})
	t.Run("spent_refresh_token", func(t *testing.T) {
		p := h.pair(t)
		wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
		wantInactive(t, h.introspect(t, p.RefreshToken))
	})
	for name, token := range map[string]string{
		"unknown_access": secret.New(nil, secret.AccessToken).Reveal(), "unknown_refresh": secret.New(nil, secret.RefreshToken).Reveal(),
		"a_live_code": h.code(t), "garbage": "garbage",
	} {
		t.Run(name, func(t *testing.T) { wantInactive(t, h.introspect(t, token)) })
	}
}

// Promise (RFC 7662, RFC 8252 §8.6): the client must authenticate; a public one cannot; an inactive
// or foreign token is inactive and nothing more
func TestIntrospectWhose(t *testing.T) {
	h := parallelHouse(t)
	p := h.pair(t)
	ask := func(t *testing.T, c store.Client, sec secret.Token, token string) answer {
		return h.postForm(t, introspectPath, with(as(h.credentials(), c, sec), "token", token))
	}
	t.Run("another_clients", func(t *testing.T) {
		other, otherSecret := h.Client(t)
		wantInactive(t, ask(t, other, otherSecret, p.AccessToken))
		wantInactive(t, ask(t, other, otherSecret, p.RefreshToken))
	})
	t.Run("a_client_made_to_see_all", func(t *testing.T) {
		gateway, gatewaySecret := h.Client(t, func(spec *store.ClientSpec) { spec.Introspect = true })
		for _, token := range []string{p.AccessToken, p.RefreshToken} {
			if got := wantActive(t, ask(t, gateway, gatewaySecret, token)); got["client_id"] != h.client.ID {
				t.Errorf("client_id = %v, want the token's own", got["client_id"])
			}
		}
	})
	t.Run("without_or_with_bad_authentication", func(t *testing.T) {
		for _, form := range []url.Values{{}, with(h.credentials(), "client_secret", "wrong")} {
			wantTokenError(t, h.postForm(t, introspectPath, with(form, "token", p.AccessToken)), http.StatusUnauthorized, "invalid_client")
		}
	})
	t.Run("public_client", func(t *testing.T) {
		public, none := h.Client(t, publicClient)
		wantTokenError(t, ask(t, public, none, p.AccessToken), http.StatusUnauthorized, "invalid_client")
	})
	t.Run("narrowed_later_shows_the_remaining_scope", func(t *testing.T) {
		narrowed, narrowedSecret := h.Client(t)
		q := wantPair(t, h.token(t, as(h.passwordForm(), narrowed, narrowedSecret)))
		for _, scopes := range [][]string{{"resources:read"}, {"events:read", "resources:read"}} {
			must.Get(h.UpdateClient(context.Background(), narrowed.ID, store.ClientChange{Scopes: &scopes}))(t)
			for _, token := range []string{q.AccessToken, q.RefreshToken} {
				if got := wantActive(t, ask(t, narrowed, narrowedSecret, token)); got["scope"] != strings.Join(scopes, " ") {
					t.Errorf("scope = %q, want %q", got["scope"], scopes)
				}
			}
		}
		limited := wantPair(t, h.token(t, with(as(h.passwordForm(), narrowed, narrowedSecret), "scope", "events:read")))
		if _, err := h.UpdateClient(context.Background(), narrowed.ID, store.ClientChange{Scopes: &[]string{"resources:read"}}); err != nil {
			t.Fatal(err)
		}
		if got := wantActive(t, ask(t, narrowed, narrowedSecret, limited.AccessToken)); got["scope"] != "" {
			t.Errorf("scope = %q, want none: nothing means nothing here", got["scope"])
		}
	})
}
