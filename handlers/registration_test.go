package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestRegistrationRefuses creates and changes clients as the command line does.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a script, wildcard, fragment, relative or plain-http URI
// cannot be registered, nor one with port 0 or a query parameter that an answer uses
// Promise (RFC 9700): grants are checked when a client is created; a refusal lists them; a public
// client's refresh token always rotates
func TestRegistrationRefuses(t *testing.T) {
	h := parallelHouse(t)
	clients := h.Count(t, 'c')
	uris := map[string]string{
		"javascript":             "javascript:alert(1)",
		"javascript_in_capitals": "JavaScript:alert(1)",
		"data":                   "data:text/html,x",
		"vbscript":               "vbscript:x",
		"wildcard_host":          "https://*.app.example/cb",
		"wildcard_path":          "https://app.example/*",
		"fragment":               "https://app.example/cb#frag",
		"empty_fragment":         "https://app.example/cb#",
		"plain_http":             "http://app.example/cb",
		"plain_http_by_number":   "http://192.0.2.1/cb",
		"port_0":                 "https://app.example:0/cb",
		"code_in_its_query":      "https://app.example/cb?code=1",
		"iss_in_its_query":       "https://app.example/cb?a=1&iss=1",
		"a_space":                "https://app.example/c b",
		"a_bad_escape":           "https://app.example/%2",
		"relative":               "/cb",
		"without_a_scheme":       "app.example/cb",
		"with_the_scheme_of_any": "//app.example/cb",
	}
	for name, uri := range uris {
		t.Run(name, func(t *testing.T) {
			list := must.Get(json.Marshal([]string{uri}))(t)
			made := h.admin(t, "POST", "/api/platform/clients", `{"name":"Larkspur","redirect_uris":`+string(list)+`}`)
			changed := h.admin(t, "PATCH", "/api/platform/clients/"+h.client.ID, `{"redirect_uris":`+string(list)+`}`)
			added := h.admin(t, "PATCH", "/api/platform/clients/"+h.client.ID, `{"add_redirect_uris":`+string(list)+`}`)
			for _, a := range []answer{made, changed, added} {
				wantHint(t, a, "")
			}
			wantPage400(t, h.get(t, h.authURL("redirect_uri", uri)))
		})
	}
	t.Run("a_misspelt_grant_and_the_list_of_them", func(t *testing.T) {
		for grants, want := range map[string]string{`["refresh_tokens"]`: "authorization_code", `["implicit"]`: "refresh_token", `["device_code"]`: "password"} {
			a := h.admin(t, "POST", "/api/platform/clients", `{"name":"Larkspur","redirect_uris":["https://app.example/cb"],"grants":`+grants+`}`)
			wantHint(t, a, want)
		}
	})
	if n := h.Count(t, 'c'); n != clients {
		t.Errorf("%d clients were made, want none", n-clients)
	}
}

// wantHint fails the test unless the operator learns what was wrong and, with the given
// words, what would be right.
func wantHint(t testing.TB, a answer, words string) {
	t.Helper()
	m := members(t, a)
	hint, _ := m["hint"].(string)
	if a.StatusCode != http.StatusBadRequest || m["error"] != "invalid_parameter" || m["error_description"] == "" || hint == "" || !strings.Contains(hint, words) {
		t.Errorf("%d %s, want 400 invalid_request with why and a hint that names %q", a.StatusCode, a.body, words)
	}
}
