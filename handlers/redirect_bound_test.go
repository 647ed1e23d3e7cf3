package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest"
)

// TestRedirectIsBound checks everything that binds a code, and every answer at the redirect
// URI, to its request.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): any port matches on loopback: 127.0.0.1, [::1], and
// localhost if registered; the requested port is kept, and the token request must name it
// Promise (RFC 6749 §3.1, RFC 8252 §7): a private scheme must match exactly; the query of a
// redirect URI is kept verbatim before ours
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
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a missing, unregistered or repeated redirect URI gets a
// page that shows it as text and says what to register; URIs are compared byte for byte, of a
// loopback URI all but the port
func TestPageAboutTheRedirectURI(t *testing.T) {
	t.Parallel()
	const sent = "https://app.example/callback"
	demo := func(c *handlers.Config) { c.Demo = &web.Demo{} }
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
			command := "tollhouse client update " + h.client.ID + ` \ --add-redirect-uri '` + sent + "'"
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

// TestRedirectURIThatCannotBeRegistered: the page says why, and no command that would fail.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a missing, unregistered or repeated redirect URI gets a
// page that shows it as text and says what to register; URIs are compared byte for byte, of a
// loopback URI all but the port
func TestRedirectURIThatCannotBeRegistered(t *testing.T) {
	h := parallelHouse(t, func(c *handlers.Config) { c.Demo = &web.Demo{} })
	for uri, want := range map[string]string{
		"http://127.0.0.1:0/callback":       "has the port 0, on which nothing can listen",
		storetest.CallbackURI + "?code=1":   "has the query parameter code, which the answer uses",
		storetest.CallbackURI + "#top":      "has a fragment",
		"http://app.example/callback":       "is plain http on a host that is not this machine",
		"https://app.example./callback":     "has a host that ends with a dot",
		"https://me@app.example/callback":   "carries a user name",
		"https://*.app.example/callback":    "holds a wildcard",
		"javascript:alert(1)":               "has a scheme that is not for redirects",
		storetest.CallbackURI + longQuery(): "is empty or longer than 2048 bytes",
	} {
		a := h.get(t, h.authURL("redirect_uri", uri))
		wantPage400(t, a)
		if text := words(t, a); !strings.Contains(text, want) || strings.Contains(text, "--add-redirect-uri") {
			t.Errorf("the page about %.60q says %q, want %q and no command that would fail", uri, text, want)
		}
	}
}

func longQuery() string { return "?a=" + strings.Repeat("a", store.RedirectURISizeMax) }

// TestMalformedRedirectURIOfARequest: to be told to register it would lead nowhere.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a redirect URI with a space or a bad escape is refused by
// that reason
func TestMalformedRedirectURIOfARequest(t *testing.T) {
	h := parallelHouse(t, func(c *handlers.Config) { c.Demo = &web.Demo{} })
	for uri, want := range map[string]string{
		storetest.CallbackURI + "?a b": "contains a space", storetest.CallbackURI + "?a=%2": "contains a percent sign without two hexadecimal digits",
		storetest.CallbackURI + "\u00e9": "contains a character that a URI cannot contain",
	} {
		a := h.get(t, h.authURL("redirect_uri", uri))
		wantPage400(t, a)
		if text := words(t, a); !strings.Contains(text, want) || strings.Contains(text, "--add-redirect-uri") {
			t.Errorf("the page about %q says %q, want %q and no command that would fail", uri, text, want)
		}
		if got := wantError(t, h.get(t, h.authURL("redirect_uri", uri), header("Accept", "application/json")), http.StatusBadRequest, "invalid_request"); got != "The redirect_uri "+want+"." {
			t.Errorf("JSON about %q says %q", uri, got)
		}
	}
}
