package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

const (
	revokePath     = "/oauth/v2/revoke"
	introspectPath = "/oauth/v2/introspect"
)

// postForm posts a form to one of the OAuth endpoints.
func (h *house) postForm(t testing.TB, path string, form url.Values, change ...func(*http.Request)) answer {
	t.Helper()
	change = append([]func(*http.Request){header("Content-Type", formType)}, change...)
	return h.do(h.request(t, "POST", path, strings.NewReader(form.Encode()), change...))
}

func (h *house) revoke(t testing.TB, token string, change ...func(*http.Request)) answer {
	t.Helper()
	return h.postForm(t, revokePath, with(h.credentials(), "token", token), change...)
}

// wantRevoked is the one answer of RFC 7009 §2.2.
func wantRevoked(t testing.TB, a answer) {
	t.Helper()
	if a.StatusCode != http.StatusOK || strings.TrimSpace(a.body) != "{}" {
		t.Errorf("status = %d %q, want 200 {}", a.StatusCode, a.body)
	}
	wantTokenHeaders(t, a)
}

func publicClient(spec *store.ClientSpec) { spec.Public = true }

// Promise (RFC 7009): revoking a refresh token revokes its family; an access token is revoked
// alone; another client's token is 200 and stays valid; no token is 400, GET is 405
func TestRevoke(t *testing.T) {
	h := parallelHouse(t)
	other, otherSecret := h.Client(t)
	t.Run("refresh_token_ends_the_family", func(t *testing.T) {
		p := h.pair(t)
		wantRevoked(t, h.revoke(t, p.RefreshToken))
		h.familyIsDead(t, p)
	})
	t.Run("spent_refresh_token_ends_the_family", func(t *testing.T) {
		first := h.pair(t)
		second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
		wantRevoked(t, h.revoke(t, first.RefreshToken))
		h.familyIsDead(t, second)
		wantTokenError(t, h.token(t, h.refreshForm(first.RefreshToken)), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("access_token_ends_alone", func(t *testing.T) {
		p := h.pair(t)
		wantRevoked(t, h.revoke(t, p.AccessToken))
		if h.accessLives(t, p) {
			t.Error("the access token lives, want it dead")
		}
		next := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
		wantRevoked(t, h.revoke(t, next.AccessToken))
		if again := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken))); h.accessLives(t, again) {
			t.Error("a repeated refresh revived the access token, want it dead")
		}
	})
	for name, token := range map[string]string{
		"unknown_refresh": secret.New(nil, secret.RefreshToken).Reveal(), "unknown_access": secret.New(nil, secret.AccessToken).Reveal(),
		"garbage": "garbage", "a_code": secret.New(nil, secret.Code).Reveal(), "long": strings.Repeat("x", 8000),
	} {
		t.Run(name, func(t *testing.T) { wantRevoked(t, h.revoke(t, token)) })
	}
	t.Run("of_another_client", func(t *testing.T) {
		p := h.pair(t)
		for _, token := range []string{p.AccessToken, p.RefreshToken} {
			wantRevoked(t, h.postForm(t, revokePath, with(as(h.credentials(), other, otherSecret), "token", token)))
		}
		h.familyLives(t, p)
	})
	t.Run("without_or_with_bad_authentication", func(t *testing.T) {
		p := h.pair(t)
		for _, form := range []url.Values{{}, with(h.credentials(), "client_secret", "wrong"), without(h.credentials(), "client_secret")} {
			a := h.postForm(t, revokePath, with(form, "token", p.RefreshToken))
			wantTokenError(t, a, http.StatusUnauthorized, "invalid_client")
		}
		a := h.postForm(t, revokePath, url.Values{"token": {p.RefreshToken}}, func(r *http.Request) { r.SetBasicAuth(h.client.ID, "wrong") })
		wantTokenError(t, a, http.StatusUnauthorized, "invalid_client")
		if got := a.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
			t.Errorf("WWW-Authenticate = %q, want a challenge where Basic was tried", got)
		}
		h.familyLives(t, p)
	})
	for _, hint := range []string{"access_token", "refresh_token", "cat", ""} {
		t.Run("hint_"+hint, func(t *testing.T) {
			p := h.pair(t)
			wantRevoked(t, h.postForm(t, revokePath, with(h.credentials(), "token", p.RefreshToken, "token_type_hint", hint)))
			h.familyIsDead(t, p)
		})
	}
	t.Run("missing_token", func(t *testing.T) {
		wantTokenError(t, h.postForm(t, revokePath, h.credentials()), http.StatusBadRequest, "invalid_request")
		wantTokenError(t, h.revoke(t, ""), http.StatusBadRequest, "invalid_request")
	})
	t.Run("get", func(t *testing.T) {
		a := h.get(t, revokePath)
		wantError(t, a, http.StatusMethodNotAllowed, "invalid_request")
		if got := a.Header.Get("Allow"); !strings.Contains(got, "POST") {
			t.Errorf("Allow = %q, want POST in it", got)
		}
	})
	t.Run("token_in_the_query", func(t *testing.T) {
		p := h.pair(t)
		a := h.postForm(t, revokePath+"?token="+p.RefreshToken, h.credentials())
		wantTokenError(t, a, http.StatusBadRequest, "invalid_request")
		h.familyLives(t, p)
	})
}

// Promise (RFC 7009): an unknown, expired or malformed token is 200; the client must authenticate,
// a public one by its id; a wrong hint is ignored
func TestRevokeByPublicClient(t *testing.T) {
	h := parallelHouse(t)
	h.client, h.secret = h.Client(t, publicClient)
	form := as(h.codeForm(h.pkceCode(t, challenge)), h.client, h.secret)
	p := wantPair(t, h.token(t, with(form, "code_verifier", verifier)))
	t.Run("its_id_is_enough", func(t *testing.T) {
		wantRevoked(t, h.postForm(t, revokePath, url.Values{"client_id": {h.client.ID}, "token": {p.RefreshToken}}))
		if h.accessLives(t, p) {
			t.Error("the access token lives, want it dead")
		}
	})
}

// Promise (RFC 9700 §4.5, §4.14): an old refresh token within one frozen second; a revocation that
// cannot be written
func TestRevokeWithABrokenStore(t *testing.T) {
	h := parallelHouse(t)
	p := h.pair(t)
	t.Run("is_never_reported_as_done", func(t *testing.T) {
		for _, token := range []string{p.RefreshToken, p.AccessToken} {
			h.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
			a := h.revoke(t, token)
			h.Faults.Repair()
			wantTokenError(t, a, http.StatusServiceUnavailable, "temporarily_unavailable")
			if a.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		h.familyLives(t, p)
	})
}
