package handlers_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

func basic(id, secret string) func(*http.Request) {
	pair := url.QueryEscape(id) + ":" + url.QueryEscape(secret)
	return header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
}

// Promise (RFC 6749 §2.3): Basic credentials are form-decoded before they are compared; Basic and a
// secret in the body together are refused, even when equal
// Promise (RFC 6749 §2.3): Basic may accompany the same client_id in the body, no other; a
// confidential client may use either
// Promise (RFC 6749 §5): a wrong secret is 401, and every 401 has a challenge; an unknown client is
// answered like it, byte for byte; the client is checked before the grant
func TestTokenClientAuthentication(t *testing.T) {
	h := parallelHouse(t)
	id, sec := h.client.ID, h.secret.Reveal()
	bare := without(h.passwordForm(), "client_id", "client_secret")
	const challenge = `Basic realm="tollhouse", charset="UTF-8"`

	t.Run("basic", func(t *testing.T) {
		wantPair(t, h.token(t, bare, basic(id, sec)))
		wantPair(t, h.token(t, bare, header("Authorization", "bAsIc  "+base64.StdEncoding.EncodeToString([]byte(id+":"+sec)))))
		// With every character percent-encoded it is still the same client.
		encoded := base64.StdEncoding.EncodeToString([]byte(percentAll(id) + ":" + percentAll(sec)))
		wantPair(t, h.token(t, bare, header("Authorization", "Basic "+encoded)))
	})
	t.Run("basic_with_the_same_client_id_in_the_body", func(t *testing.T) {
		wantPair(t, h.token(t, with(bare, "client_id", id), basic(id, sec)))
		wantTokenError(t, h.token(t, with(bare, "client_id", "another"), basic(id, sec)), http.StatusBadRequest, "invalid_request")
	})
	refused := []struct {
		name      string
		form      url.Values
		change    func(*http.Request)
		want      string
		challenge string
	}{
		{"basic_and_body_equal", h.passwordForm(), basic(id, sec), "invalid_request", ""},
		{"basic_and_body_not_equal", with(h.passwordForm(), "client_secret", "x"), basic(id, sec), "invalid_request", ""},
		{"bad_secret_in_basic", bare, basic(id, "x"), "invalid_client", challenge},
		{"bad_secret_in_body", with(h.passwordForm(), "client_secret", "x"), nil, "invalid_client", challenge},
		{"no_secret", without(h.passwordForm(), "client_secret"), nil, "invalid_client", challenge},
		{"no_client", bare, nil, "invalid_client", challenge},
		{"no_colon", bare, header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("nocolon"))), "invalid_client", challenge},
		{"bad_base64", bare, header("Authorization", "Basic !!!"), "invalid_client", challenge},
		{"bad_percent", bare, header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("%zz:x"))), "invalid_client", challenge},
		{"basic_without_credentials", h.passwordForm(), header("Authorization", "Basic"), "invalid_client", challenge},
		{"malformed_basic_beside_the_body", h.passwordForm(), header("Authorization", "Basic !!!"), "invalid_client", challenge},
		{"client_first", with(h.passwordForm(), "client_secret", "x", "grant_type", "foo", "scope", "bar"), nil, "invalid_client", challenge},
		{"client_before_missing_grant_type", with(h.credentials(), "client_secret", "x"), nil, "invalid_client", challenge},
		{"two_authorization_headers", bare, func(r *http.Request) { basic(id, sec)(r); r.Header.Add("Authorization", "Basic x") }, "invalid_request", ""},
		{"header_with_underscore", without(h.passwordForm(), "client_secret"), func(r *http.Request) { r.Header["Client_Secret"] = []string{sec} }, "invalid_client", challenge},
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			var change []func(*http.Request)
			if c.change != nil {
				change = append(change, c.change)
			}
			status := http.StatusBadRequest
			if c.want == "invalid_client" {
				status = http.StatusUnauthorized
			}
			a := h.token(t, c.form, change...)
			wantTokenError(t, a, status, c.want)
			if got := a.Header.Get("WWW-Authenticate"); got != c.challenge {
				t.Errorf("WWW-Authenticate = %q, want %q", got, c.challenge)
			}
		})
	}
	t.Run("unknown_client_is_like_a_bad_secret", func(t *testing.T) {
		unknown := "tollhouse_" + strings.Repeat("a", len(id)-len("tollhouse_"))
		wantSame(t, h.token(t, with(h.passwordForm(), "client_secret", "x")), h.token(t, with(h.passwordForm(), "client_id", unknown)))
		wantSame(t, h.token(t, bare, basic(id, "x")), h.token(t, bare, basic(unknown, "x")))
		must.Get(h.DisableClient(context.Background(), id))(t)
		wantSame(t, h.token(t, h.passwordForm()), h.token(t, with(h.passwordForm(), "client_id", unknown)))
	})
}

func percentAll(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02X", text[i])
	}
	return b.String()
}

// wantSame fails the test unless two answers differ only in their request ids.
func wantSame(t testing.TB, a, b answer) {
	t.Helper()
	ah, bh := a.Header.Clone(), b.Header.Clone()
	ah.Del("X-Request-Id")
	bh.Del("X-Request-Id")
	if a.StatusCode != b.StatusCode || a.body != b.body || !maps.EqualFunc(ah, bh, slices.Equal) {
		t.Errorf("%d %v %s\nis not\n%d %v %s", a.StatusCode, ah, a.body, b.StatusCode, bh, b.body)
	}
}

// Promise (RFC 6749 §4): wrong password, unknown user and disabled user get one answer
// Promise (RFC 6749 §5): a disabled grant is unauthorized_client; a store that cannot write is 503
// with Retry-After; other faults are 500 without detail
func TestTokenGrants(t *testing.T) {
	h := parallelHouse(t)
	t.Run("grant_that_is_switched_off", func(t *testing.T) {
		t.Parallel()
		narrow, sec := h.Client(t, func(s *store.ClientSpec) { s.Grants = []string{"authorization_code"} })
		for _, form := range []url.Values{h.passwordForm(), h.refreshForm("x")} {
			wantTokenError(t, h.token(t, as(form, narrow, sec)), http.StatusBadRequest, "unauthorized_client")
		}
	})
	t.Run("public_client_never_has_the_password_grant", func(t *testing.T) {
		t.Parallel()
		public, sec := h.Client(t, func(s *store.ClientSpec) { s.Public = true })
		wantTokenError(t, h.token(t, as(h.passwordForm(), public, sec)), http.StatusBadRequest, "unauthorized_client")
		wantTokenError(t, h.token(t, with(as(h.passwordForm(), public, sec), "client_secret", "x")), http.StatusUnauthorized, "invalid_client")
	})
	t.Run("wrong_password_unknown_and_disabled_user_are_one_answer", func(t *testing.T) {
		t.Parallel()
		h.User(t, "nils", h.account)
		must.Get(h.DisableUser(context.Background(), "nils"))(t)
		wrong := h.token(t, with(h.passwordForm(), "password", "not the password"))
		wantTokenError(t, wrong, http.StatusBadRequest, "invalid_grant")
		for _, form := range []url.Values{
			with(h.passwordForm(), "username", "moira"), with(h.passwordForm(), "username", "nils"),
			with(h.passwordForm(), "username", "no body at all"), with(h.passwordForm(), "password", strings.Repeat("p", 1025)),
			with(h.passwordForm(), "username", "moira", "password", strings.Repeat("p", 1025)),
		} {
			wantSame(t, wrong, h.token(t, form))
		}
	})
}

// Promise (RFC 6749 §3.2, §3.3): spaces separate scopes, however many; scopes are returned once
// each, in one order; the granted scope is returned if one was requested or it differs; null means
// all
func TestTokenScope(t *testing.T) {
	h := parallelHouse(t)
	narrow, narrowSecret := h.Client(t, func(s *store.ClientSpec) { s.Scopes = []string{"events:read", "resources:read"} })
	narrowForm := as(h.passwordForm(), narrow, narrowSecret)
	granted := []struct {
		name string
		form url.Values
		want string
	}{
		{"what_was_asked", with(h.passwordForm(), "scope", "events:read"), "events:read"},
		{"order_is_normalised", with(h.passwordForm(), "scope", "resources:write events:read"), "events:read resources:write"},
		{"duplicates_are_normalised", with(h.passwordForm(), "scope", "events:read events:read"), "events:read"},
		{"runs_of_spaces_separate", with(h.passwordForm(), "scope", "events:read   resources:read"), "events:read resources:read"},
		{"spaces_at_the_ends_are_ignored", with(h.passwordForm(), "scope", "  events:read "), "events:read"},
		{"narrowed_client_that_asks_for_none", narrowForm, "events:read resources:read"},
		{"narrowed_client_that_asks_for_less", with(narrowForm, "scope", "resources:read"), "resources:read"},
	}
	for _, c := range granted {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if p := wantPair(t, h.token(t, c.form)); p.Scope == nil || *p.Scope != c.want {
				t.Errorf("scope = %v, want %q", p.Scope, c.want)
			}
		})
	}
	refused := map[string]url.Values{
		"tab":                  with(h.passwordForm(), "scope", "events:read\tresources:read"),
		"quote":                with(h.passwordForm(), "scope", `"events:read"`),
		"backslash":            with(h.passwordForm(), "scope", `events:read\`),
		"unknown":              with(h.passwordForm(), "scope", "admin"),
		"not_for_this_client":  with(narrowForm, "scope", "resources:write"),
		"only_partly_for_this": with(narrowForm, "scope", "events:read resources:write"),
	}
	for name, form := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantTokenError(t, h.token(t, with(form, "username", "moira")), http.StatusBadRequest, "invalid_scope")
		})
	}
}
