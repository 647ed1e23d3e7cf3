package handlers_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// members of an answer, for tests of documents.
func members(t testing.TB, a answer) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("body = %.300s: %v", a.body, err)
	}
	return m
}

// Promise (RFC 8414, 9207): the issuer is exactly the public URL; no OpenID configuration; an
// issuer with a path has its metadata at the RFC's path; every member is non-empty, every URL works
func TestMetadata(t *testing.T) {
	const path = "/.well-known/oauth-authorization-server"
	h := parallelHouse(t)
	a := h.get(t, path)
	m := members(t, a)
	t.Run("issuer_is_the_public_url", func(t *testing.T) {
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" || m["issuer"] != publicURL {
			t.Errorf("status = %d %s, issuer %v", a.StatusCode, a.Header.Get("Content-Type"), m["issuer"])
		}
	})
	t.Run("issuer_with_a_path", func(t *testing.T) {
		h := newHouse(t, at(publicURL+"/pay"))
		for _, at := range []string{path + "/pay", "/pay" + path} {
			a := h.get(t, at)
			m := members(t, a)
			if a.StatusCode != http.StatusOK || m["issuer"] != publicURL+"/pay" || m["token_endpoint"] != publicURL+"/pay/oauth/v2/token" {
				t.Errorf("%s: status = %d, issuer %v, token endpoint %v", at, a.StatusCode, m["issuer"], m["token_endpoint"])
			}
			if got := a.Header.Get("Access-Control-Allow-Origin"); got != "*" {
				t.Errorf("%s: Access-Control-Allow-Origin = %q, want *", at, got)
			}
		}
		for _, at := range []string{path, path + "/", path + "/other", path + "/pay/", path + "/pay/x"} {
			wantError(t, h.get(t, at), http.StatusNotFound, "not_found")
		}
	})
	t.Run("members", func(t *testing.T) {
		for name, want := range map[string][]any{
			"response_types_supported": {"code"}, "grant_types_supported": {"password", "authorization_code", "refresh_token", "client_credentials"},
			"token_endpoint_auth_methods_supported":         {"client_secret_basic", "client_secret_post", "none"},
			"revocation_endpoint_auth_methods_supported":    {"client_secret_basic", "client_secret_post", "none"},
			"introspection_endpoint_auth_methods_supported": {"client_secret_basic", "client_secret_post"},
			"code_challenge_methods_supported":              {"S256"},
			"scopes_supported":                              {"events:read", "resources:read", "resources:write", "webhooks:read", "webhooks:write"},
		} {
			if got, _ := m[name].([]any); !slices.Equal(got, want) {
				t.Errorf("%s = %v, want %v", name, m[name], want)
			}
		}
		if m["authorization_response_iss_parameter_supported"] != true {
			t.Error("authorization_response_iss_parameter_supported is not true")
		}
		for name, value := range m {
			if list, isList := value.([]any); isList && len(list) == 0 || value == nil || value == "" {
				t.Errorf("%s = %v, want nothing empty", name, value)
			}
		}
	})
	t.Run("every_url_answers", func(t *testing.T) {
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "revocation_endpoint", "introspection_endpoint", "service_documentation"} {
			address, _ := m[name].(string)
			target, isOurs := strings.CutPrefix(address, publicURL)
			if !isOurs {
				t.Errorf("%s = %v, want it under the issuer", name, m[name])
				continue
			}
			if a := h.get(t, target); a.StatusCode == http.StatusNotFound {
				t.Errorf("GET %s = 404, want an answer", target)
			}
		}
	})
	t.Run("no_openid_configuration", func(t *testing.T) {
		wantError(t, h.get(t, "/.well-known/openid-configuration"), http.StatusNotFound, "not_found")
	})
}
