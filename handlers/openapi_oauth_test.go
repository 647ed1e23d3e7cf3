package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/api"
)

// TestOAuthAnswersAreDescribed holds the answers of the OAuth endpoints and of
// the pages to the API description.
func TestOAuthAnswersAreDescribed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	told := handlers.NewDescribed(t, api.OpenAPI(h.issuer, "test"))
	check := func(t *testing.T, a answer) {
		t.Helper()
		told.Check(t, a.Request.Method, a.Request.URL.Path, a.StatusCode, a.Header, []byte(a.body))
	}
	for name, a := range everyAnswer(t, h) {
		t.Run("openapi_"+name, func(t *testing.T) { check(t, a) })
	}
	tokens := map[string]url.Values{
		"password":             h.passwordForm(),
		"password_with_scope":  with(h.passwordForm(), "scope", "events:read"),
		"wrong_password":       with(h.passwordForm(), "password", "wrong"),
		"wrong_scope":          with(h.passwordForm(), "scope", "everything"),
		"no_grant_type":        h.credentials(),
		"unknown_grant_type":   with(h.credentials(), "grant_type", "implicit"),
		"unknown_code":         h.codeForm("x"),
		"unknown_client":       with(h.passwordForm(), "client_id", "x"),
		"a_parameter_is_empty": with(h.passwordForm(), "username", ""),
	}
	for name, form := range tokens {
		t.Run("openapi_token_"+name, func(t *testing.T) { check(t, h.token(t, form)) })
	}
	t.Run("openapi_token_in_another_type", func(t *testing.T) {
		check(t, h.tokenBody(t, "text/plain", "x"))
		check(t, h.tokenBody(t, formType, "grant_type=password", header("Content-Encoding", "gzip")))
		check(t, h.tokenBody(t, formType, strings.Repeat("a", 65<<10)))
	})
	t.Run("openapi_token_by_basic", func(t *testing.T) {
		check(t, h.token(t, url.Values{"grant_type": {"password"}}, func(r *http.Request) { r.SetBasicAuth("x", "y") }))
	})
	t.Run("openapi_introspect", func(t *testing.T) {
		p := h.pair(t, "scope", "events:read")
		for _, token := range []string{p.AccessToken, p.RefreshToken, "x", ""} {
			check(t, h.introspect(t, token))
		}
	})
	t.Run("openapi_revoke", func(t *testing.T) {
		check(t, h.postForm(t, revokePath, with(h.credentials(), "token", h.pair(t).AccessToken)))
		check(t, h.postForm(t, revokePath, h.credentials()))
		check(t, h.postForm(t, revokePath, nil))
	})
	t.Run("openapi_metadata", func(t *testing.T) { check(t, h.get(t, "/.well-known/oauth-authorization-server")) })
	t.Run("openapi_too_many", func(t *testing.T) {
		for range 31 {
			a := h.token(t, with(h.credentials(), "client_secret", "wrong", "grant_type", "password"))
			check(t, a)
			if a.StatusCode == http.StatusTooManyRequests {
				return
			}
		}
		t.Error("no answer was 429")
	})
}
