package handlers_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (RFC 6749 §3.1, RFC 8252 §7): a valid request without a sign-in shows the form and stores
// nothing; each step validates it again; only GET and HEAD are allowed; the decision has its own
// path
func TestAuthorize(t *testing.T) {
	h := parallelHouse(t)
	t.Run("shows_the_sign_in_and_stores_nothing", func(t *testing.T) {
		before := h.kept(t)
		b := h.browser(t)
		query := strings.TrimPrefix(h.authURL("state", "a b&=#%é", "scope", "events:read"), authPath+"?")
		page := b.get(t, authPath+"?"+query)
		f := formOn(t, page)
		if got := f.fields.Get("query"); got != query {
			t.Errorf("the form carries %q, want the query as it came: %q", got, query)
		}
		if text := words(t, page); !strings.Contains(text, "Larkspur Bookkeeping") || !strings.Contains(text, "Sign in") {
			t.Errorf("the page says %q, want who asks and that it is a sign-in", text)
		}
		wantPageHeaders(t, page)
		if n := h.kept(t); n != before {
			t.Errorf("%d records were written, want none", n-before)
		}
	})
	t.Run("the_query_is_judged_again_at_the_sign_in", func(t *testing.T) {
		b := h.browser(t)
		page := b.get(t, h.authURL())
		evil := strings.TrimPrefix(h.authURL("redirect_uri", "https://evil.example/cb"), authPath+"?")
		wantPage400(t, b.submit(t, page, "query", evil, "username", "mara", "password", storetest.Password))
		wrong := strings.TrimPrefix(h.authURL("response_type", "token"), authPath+"?")
		wantPage400(t, b.submit(t, page, "query", wrong, "username", "mara", "password", storetest.Password))
		if b.cookie(sessionCookie) != "" {
			t.Error("a sign-in began with a request that is not sound")
		}
	})
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			a := h.do(h.request(t, method, h.authURL(), nil))
			wantError(t, a, http.StatusMethodNotAllowed, "invalid_request")
			wantAllow(t, a, "GET", "HEAD", "OPTIONS")
		})
	}
	t.Run("HEAD_is_GET_without_a_body", func(t *testing.T) {
		server := httptest.NewServer(h.public)
		defer server.Close()
		before := h.kept(t)
		for _, target := range []string{h.authURL(), h.authURL("client_id", "x"), h.authURL("response_type", "token")} {
			got := map[string]answer{}
			for _, method := range []string{"GET", "HEAD"} {
				r := must.Get(http.NewRequestWithContext(t.Context(), method, server.URL+target, nil))(t)
				r.Host = "pay.example"
				got[method] = overTheWire(t, server.Client(), r)
			}
			for _, a := range got {
				a.Header.Del("Date")
				a.Header.Del("Set-Cookie") // random, and the same but for that
				a.Header.Del("Content-Length")
			}
			if got["HEAD"].body != "" {
				t.Errorf("HEAD %s has a body", target)
			}
			get := got["GET"]
			get.body = ""
			wantSame(t, get, got["HEAD"])
		}
		if n := h.kept(t); n != before {
			t.Errorf("%d records were written, want none", n-before)
		}
	})
}

// overTheWire sends a request through a real connection and follows nothing.
func overTheWire(t testing.TB, c *http.Client, r *http.Request) answer {
	t.Helper()
	one := *c
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := one.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	defer res.Body.Close()
	return readAnswer(t, res)
}

// Promise (RFC 6749 §3.1, RFC 8252 §7): an unknown, missing or disabled client gets a page, never a
// redirect; JSON on request; a repeated parameter is invalid_request, reported to the client
func TestAuthorizeUnsoundClient(t *testing.T) {
	h := parallelHouse(t)
	disabled, _ := h.Client(t)
	must.Get(h.DisableClient(context.Background(), disabled.ID))(t)
	cases := map[string]string{
		"client_id_missing":             h.authURL("client_id", ""),
		"client_id_unknown":             h.authURL("client_id", "tollhouse_unknown"),
		"client_id_disabled":            h.authURL("client_id", disabled.ID),
		"client_id_of_10_KB":            h.authURL("client_id", strings.Repeat("x", 7<<10)),
		"client_id_twice":               h.authURL() + "&client_id=" + h.client.ID,
		"client_id_twice_good_last":     strings.Replace(h.authURL(), "?", "?client_id=x&", 1),
		"unknown_client_and_any_target": h.authURL("client_id", "x", "redirect_uri", "https://evil.example"),
		"bad_type_and_unknown_client":   h.authURL("client_id", "x", "response_type", "token"),
		"no_query_at_all":               authPath,
		"damaged_query":                 h.authURL() + "&state=%zz",
		"query_that_is_not_text":        h.authURL() + "&state=%ff",
		"more_than_128_parameters":      h.authURL() + "&" + strings.Repeat("&a", 1) + numbered(129),
	}
	for name, target := range cases {
		t.Run(name, func(t *testing.T) {
			wantPage400(t, h.get(t, target))
		})
		t.Run(name+"_as_json_for_who_asks_by_name", func(t *testing.T) {
			a := h.get(t, target, header("Accept", "text/html;q=0.5, application/json"))
			if a.StatusCode != http.StatusBadRequest || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Location") != "" {
				t.Errorf("%d %s Location %q, want 400 application/json and none", a.StatusCode, a.Header.Get("Content-Type"), a.Header.Get("Location"))
			}
		})
	}
	t.Run("a_browser_gets_a_page", func(t *testing.T) {
		a := h.get(t, h.authURL("client_id", "x"), header("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"))
		wantPage400(t, a)
	})
	t.Run("words_from_the_query_are_not_shown", func(t *testing.T) {
		const canary = "kanarienvogel"
		for _, target := range cases {
			if strings.Contains(target, "?") {
				target += "&error_description=" + canary + "&error_hint=" + canary + "&error=" + canary
			}
			if a := h.get(t, target); strings.Contains(a.body, canary) {
				t.Errorf("GET %s shows what the query says, want it not to", target)
			}
		}
	})
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("&p")
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteString(string(rune('a' + i%26)))
		b.WriteString(string(rune('a' + i/26)))
	}
	return b.String()
}

// TestResponseModeQuery: it is the mode that we have, so naming it changes nothing.
//
// Promise (RFC 6749 §4): response_mode is query or absent, else invalid_request
func TestResponseModeQuery(t *testing.T) {
	h := parallelHouse(t)
	for _, mode := range []string{"query", ""} {
		if a := h.get(t, h.authURL()+"&response_mode="+mode); a.StatusCode != http.StatusOK {
			t.Errorf("response_mode=%s = %d, want the sign-in form", mode, a.StatusCode)
		}
	}
}

// Promise (RFC 6749 §3.1, RFC 8252 §7): an unknown, missing or disabled client gets a page, never a
// redirect; JSON on request; a repeated parameter is invalid_request, reported to the client
// Promise (RFC 6749 §3.2, §3.3): an unknown scope is invalid_scope, reported to the client;
// invalid_scope names the scope
// Promise (RFC 6749 §4): no response_type is invalid_request; another response_type is
// unsupported_response_type, in the query; a client without this grant is unauthorized_client
// Promise (RFC 6749 §4): response_mode is query or absent, else invalid_request
// Promise (RFC 7636): a verifier without a challenge is refused; a public client must send a
// challenge; any method but S256 is refused; a challenge that is no SHA-256 is refused
func TestAuthorizeRefusals(t *testing.T) {
	h := parallelHouse(t)
	public, _ := h.Client(t, func(s *store.ClientSpec) { s.Public = true })
	passwordOnly, _ := h.Client(t, func(s *store.ClientSpec) { s.Grants = []string{"password"} })
	narrow, _ := h.Client(t, func(s *store.ClientSpec) { s.Scopes = []string{"events:read"} })
	pkce := func(challenge, method string) string {
		return h.authURL("code_challenge", challenge, "code_challenge_method", method)
	}
	cases := []struct{ name, target, wantCode, wantText string }{
		{"response_type_absent", h.authURL("response_type", ""), "invalid_request", "response_type"},
		{"response_type_token", h.authURL("response_type", "token"), "unsupported_response_type", ""},
		{"response_type_code_token", h.authURL("response_type", "code token"), "unsupported_response_type", ""},
		{"response_type_foo", h.authURL("response_type", "foo"), "unsupported_response_type", ""},
		{"client_without_the_grant", h.authURL("client_id", passwordOnly.ID), "unauthorized_client", ""},
		{"response_mode_fragment", h.authURL("response_mode", "fragment"), "invalid_request", "response_mode"},
		{"response_mode_form_post", h.authURL("response_mode", "form_post"), "invalid_request", "response_mode"},
		{"response_mode_of_JARM", h.authURL("response_mode", "query.jwt"), "invalid_request", "response_mode"},
		{"response_mode_twice", h.authURL("response_mode", "query") + "&response_mode=query", "invalid_request", "response_mode"},
		{"unknown_scope", h.authURL("scope", "events:read admin"), "invalid_scope", "Unknown scope admin."},
		{"scope_that_the_client_may_not_have", h.authURL("client_id", narrow.ID, "scope", "events:read resources:write"), "invalid_scope", "does not have the scope resources:write."},
		{"scope_with_a_tab", h.authURL("scope", "events:read\tresources:read"), "invalid_scope", "scope"},
		{"response_type_twice", h.authURL() + "&response_type=code", "invalid_request", "response_type"},
		{"scope_twice", h.authURL("scope", "events:read") + "&scope=events:read", "invalid_request", "scope"},
		{"code_challenge_twice", pkce(challenge, "S256") + "&code_challenge=" + challenge, "invalid_request", "code_challenge"},
		{"public_client_without_challenge", h.authURL("client_id", public.ID), "invalid_request", "code_challenge"},
		{"plain", pkce(challenge, "plain"), "invalid_request", "S256"},
		{"method_in_lower_case", pkce(challenge, "s256"), "invalid_request", "S256"},
		{"method_absent", pkce(challenge, ""), "invalid_request", "S256"},
		{"method_unknown", pkce(challenge, "S512"), "invalid_request", "S256"},
		{"method_without_challenge", pkce("", "S256"), "invalid_request", "code_challenge"},
		{"challenge_of_42", pkce(challenge[:42], "S256"), "invalid_request", "43"},
		{"challenge_of_44", pkce(challenge+"M", "S256"), "invalid_request", "43"},
		{"challenge_padded", pkce(challenge[:42]+"=", "S256"), "invalid_request", "43"},
		{"challenge_of_standard_base64", pkce("+"+challenge[1:], "S256"), "invalid_request", "43"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			const state = "a b&=#%é"
			to := callback(t, h.get(t, c.target+"&state="+url.QueryEscape(state)), http.StatusFound)
			q := to.Query()
			if q.Get("error") != c.wantCode || !strings.Contains(q.Get("error_description"), c.wantText) {
				t.Errorf("error = %s %q, want %s with %q", q.Get("error"), q.Get("error_description"), c.wantCode, c.wantText)
			}
			if !plainSentence.MatchString(q.Get("error_description")) {
				t.Errorf("error_description = %q, want plain characters", q.Get("error_description"))
			}
			if q.Get("state") != state || q.Get("iss") != h.issuer || q.Has("code") {
				t.Errorf("state = %q, iss = %q, code given: %t, want %q, %q, false", q.Get("state"), q.Get("iss"), q.Has("code"), state, h.issuer)
			}
			if to.Fragment != "" {
				t.Errorf("fragment = %q, want the error in the query", to.Fragment)
			}
		})
	}
	t.Run("state_twice", func(t *testing.T) {
		q := callback(t, h.get(t, h.authURL("state", "a")+"&state=b"), http.StatusFound).Query()
		if q.Get("error") != "invalid_request" || q.Has("state") {
			t.Errorf("%v, want invalid_request and neither state", q)
		}
	})
}

// Promise (RFC 6749 §4): state is returned byte for byte with success and failure; absent stays
// absent; state is optional, at most 2 KiB
// Promise (RFC 9700 §4.1, §4.11): parameters smuggled in state
func TestAuthorizeState(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	states := map[string]string{
		"punctuation":             "a b&=#%é+\"'<>\\",
		"of_2_KiB":                strings.Repeat("s", 2<<10),
		"code_and_another_target": "x&code=attacker",
		"redirect_uri":            "a&redirect_uri=https://evil.example&iss=x",
		"line_break":              "a\r\nSet-Cookie: x=1",
	}
	check := func(t *testing.T, a answer, status int, state string, want ...string) {
		t.Helper()
		q := callback(t, a, status).Query()
		if got := q["state"]; len(got) != 1 || got[0] != state {
			t.Errorf("state = %q, want %q once", got, state)
		}
		if got := slices.Sorted(maps.Keys(q)); !slices.Equal(got, want) {
			t.Errorf("the redirect carries %v, want %v", got, want)
		}
		if strings.ContainsAny(a.Header.Get("Location"), "\r\n") || len(a.Header["Set-Cookie"]) > 0 {
			t.Error("the state reached a header raw")
		}
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			check(t, b.submit(t, b.get(t, h.authURL("state", state)), "decision", "allow"), 303, state, "code", "iss", "state")
			check(t, b.submit(t, b.get(t, h.authURL("state", state)), "decision", "deny"), 303, state, "error", "error_description", "iss", "state")
			check(t, b.get(t, h.authURL("state", state, "response_type", "x")), 302, state, "error", "error_description", "iss", "state")
		})
	}
	t.Run("absent_stays_absent", func(t *testing.T) {
		for _, target := range []string{h.authURL(), h.authURL() + "&state="} {
			if q := callback(t, b.submit(t, b.get(t, target), "decision", "allow"), 303).Query(); q.Has("state") {
				t.Errorf("state = %q, want none", q.Get("state"))
			}
		}
	})
	t.Run("longer_than_2_KiB_is_refused", func(t *testing.T) {
		q := callback(t, b.get(t, h.authURL("state", strings.Repeat("s", 2<<10+1))), 302).Query()
		if q.Get("error") != "invalid_request" || q.Has("state") {
			t.Errorf("%v, want invalid_request without a state", q)
		}
	})
}

// Promise (RFC 8414, 9207): every redirect carries iss, equal to the metadata
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): an open redirect by errors; issuer mix-up
func TestAuthorizeIssuer(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	forged := []func(*http.Request){header("X-Forwarded-Host", "evil.example"), header("X-Forwarded-Proto", "http"),
		header("Forwarded", "host=evil.example;proto=http"), header("X-Forwarded-Uri", "https://evil.example/"), header("X-Original-Url", "/evil")}
	for name, target := range map[string]string{"success": h.authURL(), "error": h.authURL("response_type", "x")} {
		t.Run("iss_on_"+name+"_is_the_configured_one", func(t *testing.T) {
			a, status := b.get(t, target, forged...), http.StatusFound
			if name == "success" {
				a, status = b.submit(t, a, "decision", "allow"), http.StatusSeeOther
			}
			if got := callback(t, a, status).Query()["iss"]; !slices.Equal(got, []string{"https://pay.example"}) {
				t.Errorf("iss = %v, want the public URL once", got)
			}
		})
	}
}
