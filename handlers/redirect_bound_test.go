package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers"
)

// TestRedirectIsBound checks everything that binds a code, and every answer at the redirect
// URI, to its request.
func TestRedirectIsBound(t *testing.T) {
	h := parallelHouse(t)
	const one, two, query = "https://app.example/cb", "https://app.example/other", "https://app.example/cb?a=1&a=2&b=%20x"
	client, sec := h.Client(t, redirectingTo(one, two, query))
	b := h.signedIn(t, h.user)
	ask := func(uri string, more ...string) string {
		return h.authURL(append([]string{"client_id", client.ID, "redirect_uri", uri}, more...)...)
	}
	t.Run("another_registered_uri_of_the_same_client", func(t *testing.T) {
		code := callback(t, b.submit(t, b.get(t, ask(one)), "decision", "allow"), http.StatusSeeOther).Query().Get("code")
		form := as(h.codeForm(code), client, sec)
		wantTokenError(t, h.token(t, with(form, "redirect_uri", two)), http.StatusBadRequest, "invalid_grant")
		wantPair(t, h.token(t, with(form, "redirect_uri", one)))
	})
	t.Run("the_query_is_kept_with_an_error_too", func(t *testing.T) {
		for name, a := range map[string]answer{
			"refused": b.get(t, ask(query, "response_type", "token")),
			"denied":  b.submit(t, b.get(t, ask(query)), "decision", "deny"),
		} {
			if to := a.Header.Get("Location"); !strings.HasPrefix(to, query+"&error=") {
				t.Errorf("%s: Location = %q, want the registered query and then ours", name, to)
			}
		}
	})
	t.Run("iss_is_the_issuer_of_the_metadata", func(t *testing.T) {
		for _, public := range []string{publicURL, publicURL + "/pay", "http://127.0.0.1:8080"} {
			h := newHouse(t, at(public))
			base := ""
			if strings.HasSuffix(public, "/pay") {
				base = "/pay"
			}
			issuer := members(t, h.get(t, base+"/.well-known/oauth-authorization-server"))["issuer"]
			refused := callback(t, h.get(t, base+h.authURL("response_type", "x")), http.StatusFound)
			if got := refused.Query()["iss"]; !slices.Equal(got, []string{public}) || issuer != public {
				t.Errorf("iss = %q and the metadata's issuer %q, want %q both", got, issuer, public)
			}
		}
	})
}

// TestPageAboutTheRedirectURI is the page for a developer who registered one redirect URI
// and sent another.
func TestPageAboutTheRedirectURI(t *testing.T) {
	t.Parallel()
	const sent = "https://app.example/callback"
	demo := func(c *handlers.Config) { c.Demo = &handlers.Demo{} }
	for name, change := range map[string][]func(*handlers.Config){"in_serve": nil, "in_dev": {demo}} {
		t.Run("says_what_was_sent_"+name, func(t *testing.T) {
			h := parallelHouse(t, change...)
			a := h.get(t, h.authURL("redirect_uri", sent))
			wantPage400(t, a)
			text := words(t, a)
			for _, want := range []string{sent, "Larkspur Bookkeeping", a.Header.Get("X-Request-Id")} {
				if want == "" || !strings.Contains(text, want) {
					t.Errorf("the page says %q, want %q in it", text, want)
				}
			}
			command := "tollhouse client update " + h.client.ID + " --add-redirect-uri '" + sent + "'"
			if shown := strings.Contains(text, command); shown != (name == "in_dev") {
				t.Errorf("the page says %q, want the command in it: %t", text, name == "in_dev")
			}
			asJSON := h.get(t, h.authURL("redirect_uri", sent), header("Accept", "application/json"))
			wantError(t, asJSON, http.StatusBadRequest, "invalid_request")
			if strings.Contains(asJSON.body, url.QueryEscape(sent)) || strings.Contains(asJSON.body, sent) {
				t.Errorf("body = %s, want nothing of the request in JSON", asJSON.body)
			}
		})
	}
}
