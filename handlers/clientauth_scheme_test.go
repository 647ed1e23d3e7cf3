package handlers_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestOnlyBasicAuthenticatesAClient: the sessions of OAuth libraries add their access token
// to every request, also where the client's credentials are in the body.
//
// Promise (RFC 6749 §2.3): another scheme, or an empty header, is ignored where the body has
// credentials; alone it is a 401 that names the scheme
func TestOnlyBasicAuthenticatesAClient(t *testing.T) {
	h := parallelHouse(t)
	public, _ := h.Client(t, func(s *store.ClientSpec) { s.Public = true })
	others := []string{
		"", "Bearer " + h.pair(t).AccessToken, "bearer", "Bearer", `Digest username="mara", realm="x"`, "Negotiate YII=", "DPoP x", "Basically x", "!!! ???", "tollat_x",
	}
	ways := map[string]func(change ...func(*http.Request)) answer{
		"token": func(c ...func(*http.Request)) answer { return h.token(t, h.passwordForm(), c...) },
		"token_of_a_public_client": func(c ...func(*http.Request)) answer {
			return h.token(t, with(as(h.refreshForm("x"), public, h.secret)), c...)
		},
		"revoke": func(c ...func(*http.Request)) answer { return h.revoke(t, h.pair(t).RefreshToken, c...) },
		"revoke_of_a_public_client": func(c ...func(*http.Request)) answer {
			return h.postForm(t, revokePath, url.Values{"client_id": {public.ID}, "token": {"x"}}, c...)
		},
		"introspect": func(c ...func(*http.Request)) answer {
			return h.postForm(t, introspectPath, with(h.credentials(), "token", h.pair(t).AccessToken), c...)
		},
	}
	for name, ask := range ways {
		t.Run(name+"_ignores_another_scheme_beside_the_body", func(t *testing.T) {
			want := ask()
			for _, other := range others {
				if a := ask(header("Authorization", other)); a.StatusCode != want.StatusCode || a.StatusCode == http.StatusUnauthorized {
					t.Errorf("with %q: %d %s, want %d", other, a.StatusCode, a.body, want.StatusCode)
				}
			}
			wantTokenError(t, ask(basic(h.client.ID, h.secret.Reveal()), header("Authorization", "Basic !")), http.StatusUnauthorized, "invalid_client")
		})
	}
	for _, path := range []string{tokenPath, revokePath, introspectPath} {
		for _, tt := range []struct{ header, want string }{
			{"Bearer x", "The scheme Bearer does not"}, {"Digest a=b", "The scheme Digest does not"}, {"Negotiate", "The scheme Negotiate does not"},
			{"kanarienvogel-17", "does not use the scheme Basic"}, {"kanarienvogel_1 x", "does not use the scheme Basic"}, {"", "credentials are wrong"},
		} {
			t.Run("alone_at"+path+"_"+tt.header, func(t *testing.T) {
				a := h.postForm(t, path, url.Values{"token": {"x"}, "grant_type": {"password"}}, header("Authorization", tt.header))
				description := wantTokenError(t, a, http.StatusUnauthorized, "invalid_client")
				if !strings.Contains(description, tt.want) || strings.Contains(description, "kanarien") {
					t.Errorf("description = %q, want %q in it, and no secret", description, tt.want)
				}
				if got := a.Header.Get("WWW-Authenticate"); got != `Basic realm="tollhouse", charset="UTF-8"` {
					t.Errorf("WWW-Authenticate = %q", got)
				}
			})
		}
	}
}

// TestAMaskedJournalShowsTheScheme, so that a tester sees what a library sends, and no
// credentials.
//
// Promise (RFC 6749 §2.3): `dev` also compares Basic credentials that are not form-encoded; a
// masked journal shows the scheme of a header
func TestAMaskedJournalShowsTheScheme(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	h.dev.Journal = dev.NewMaskedJournal()
	for i, tt := range []struct{ header, want string }{
		{"Bearer kanarienvogel-17", "Bearer " + dev.Mask("kanarienvogel-17")}, {"Bearer", "Bearer"}, {"kanarienvogel-17", dev.Mask("kanarienvogel-17")},
		{"Basic bWFyYTprYW5hcmllbg==", "Basic " + dev.Mask("bWFyYTprYW5hcmllbg==")}, {"kanarienvogel_17 x", dev.Mask("kanarienvogel_17 x")},
	} {
		h.get(t, apiPath, header("Authorization", tt.header))
		entry := h.journalOf(t, "")[i]
		text, _ := json.Marshal(entry)
		if got := entry["headers"].(map[string]any)["Authorization"].([]any)[0]; got != tt.want || strings.Contains(string(text), "kanarien") {
			t.Errorf("Authorization of %q = %q in %s, want %q", tt.header, got, text, tt.want)
		}
	}
}

// TestDevTakesRawBasic: testers choose secrets with +, % and :, and many programs do not
// form-encode them.
//
// Promise (RFC 6749 §2.3): `dev` also compares Basic credentials that are not form-encoded; a
// masked journal shows the scheme of a header
func TestDevTakesRawBasic(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	raw := func(id, secret string) func(*http.Request) {
		return header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+secret)))
	}
	serve := newHouse(t)
	for _, chosen := range []string{"s+ecret", "s%ecret", "100%", "s:e:cret", "a%2Bb", "plain"} {
		t.Run(url.QueryEscape(chosen), func(t *testing.T) {
			c := h.fixedClient(t, chosen)
			form := without(h.refreshForm("x"), "client_id", "client_secret")
			for _, change := range []func(*http.Request){raw(c, chosen), basic(c, chosen)} {
				wantTokenError(t, h.token(t, form, change), http.StatusBadRequest, "invalid_grant")
				wantTokenError(t, h.token(t, with(form, "client_id", c), change), http.StatusBadRequest, "invalid_grant")
			}
			wantTokenError(t, h.token(t, form, raw(c, chosen+"x")), http.StatusUnauthorized, "invalid_client")
		})
	}
	t.Run("serve_does_not", func(t *testing.T) {
		form := without(serve.refreshForm("x"), "client_id", "client_secret")
		encoded := strings.ReplaceAll(serve.client.ID, "_", "%5F")
		wantTokenError(t, serve.token(t, form, raw(encoded, serve.secret.Reveal())), http.StatusBadRequest, "invalid_grant")
		wantTokenError(t, serve.token(t, form, raw(serve.client.ID+"%", serve.secret.Reveal())), http.StatusUnauthorized, "invalid_client")
	})
}

// TestEvery401HasAChallenge (RFC 9110 §15.5.2), the faults of dev too. wantError checks it
// in all other tests.
//
// Promise (RFC 6749 §5): a wrong secret is 401, and every 401 has a challenge; an unknown client is
// answered like it, byte for byte; the client is checked before the grant
func TestEvery401HasAChallenge(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t, func(c *handlers.Config) { c.Demo = &web.Demo{} })
	want := map[string]string{tokenPath: "Basic", revokePath: "Basic", introspectPath: "Basic", apiPath: "Bearer", "/api/event-types": "Bearer", "/api/resources/plan": "Bearer", "/api/webhook-endpoints": "Bearer"}
	for _, fault := range []string{"", `{"do":{"status":401}}`, `{"do":{"status":401,"body":{"error":"x"}}}`} {
		if fault != "" {
			h.ask(t, "DELETE", "/_dev/faults", "")
			h.ask(t, "POST", "/_dev/faults", fault)
			want["/"], want["/login"], want["/nowhere"] = "Bearer", "Bearer", "Bearer"
		}
		for path, scheme := range want {
			method := "GET"
			if scheme == "Basic" {
				method = "POST"
			}
			a := h.do(h.request(t, method, path, strings.NewReader("token=x"), header("Content-Type", formType)))
			if got := a.Header.Get("WWW-Authenticate"); a.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(got, scheme+" realm=") {
				t.Errorf("%s %s under %q = %d, WWW-Authenticate %q, want 401 with %s", method, path, fault, a.StatusCode, got, scheme)
			}
		}
	}
	h.ask(t, "DELETE", "/_dev/faults", "")
	h.ask(t, "POST", "/_dev/faults", `{"do":{"status":401,"headers":{"WWW-Authenticate":"Mine"},"body":{}}}`)
	if got := h.get(t, "/nowhere").Header.Get("WWW-Authenticate"); got != "Mine" {
		t.Errorf("WWW-Authenticate = %q", got)
	}
}

// fixedClient returns the id of a client with that secret, as a seed makes one.
func (h *devHouse) fixedClient(t testing.TB, text string) string {
	t.Helper()
	chosen, _ := secret.Fixture(text)
	c, err := h.CreateFixedClient(t.Context(), "", chosen, store.ClientSpec{Name: "Seeded", RedirectURIs: []string{storetest.CallbackURI}})
	must.Do(t, err)
	return c.ID
}
