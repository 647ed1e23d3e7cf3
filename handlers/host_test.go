package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Promise (RFC 9110, RFC 9112): another Host; request smuggling
func TestForeignHost(t *testing.T) {
	h := parallelHouse(t)
	for _, host := range []string{"evil.example", "pay.example.evil.example", "evil.example:443", "", "pay.example.", "[::1]", "pay.example@evil.example", "127.0.0.1"} {
		t.Run("Host_"+host, func(t *testing.T) {
			for _, target := range []string{"/", h.authURL("response_type", "x"), apiPath, "/login", "/nothing"} {
				a := h.get(t, target, func(r *http.Request) { r.Host = host })
				wantError(t, a, http.StatusMisdirectedRequest, "misdirected_request")
				if a.Header.Get("Location") != "" || strings.Contains(a.body, "evil") {
					t.Errorf("GET %s = %v %s, want nothing of the Host in it", target, a.Header, a.body)
				}
			}
		})
	}
	t.Run("absolute_form", func(t *testing.T) {
		a := h.get(t, "http://evil.example"+h.authURL("response_type", "x"))
		wantError(t, a, http.StatusMisdirectedRequest, "misdirected_request")
	})
	t.Run("our_own_in_any_case_and_with_any_port", func(t *testing.T) {
		for _, host := range []string{"pay.example", "PAY.example", "pay.example:443", "pay.example:8080"} {
			if a := h.get(t, "/", func(r *http.Request) { r.Host = host }); a.StatusCode != http.StatusOK {
				t.Errorf("Host %s = %d, want 200", host, a.StatusCode)
			}
		}
	})
	t.Run("on_loopback_every_name_of_the_machine", func(t *testing.T) {
		h := newHouse(t, at("http://127.0.0.1:8080"))
		for host, want := range map[string]int{"localhost:8080": 200, "[::1]:8080": 200, "127.0.0.1:9090": 200, "evil.example": 421, "localhost.evil.example": 421} {
			if a := h.get(t, "/", func(r *http.Request) { r.Host = host }); a.StatusCode != want {
				t.Errorf("Host %s = %d, want %d", host, a.StatusCode, want)
			}
		}
	})
	t.Run("health_answers_to_any_name", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if a := h.get(t, path, func(r *http.Request) { r.Host = "10.0.0.7:8080" }); a.StatusCode != http.StatusOK {
				t.Errorf("GET %s = %d, want 200", path, a.StatusCode)
			}
		}
	})
}

func TestPublicURLWithPath(t *testing.T) {
	h := parallelHouse(t, at("https://pay.example/pay/"))
	if h.issuer != "https://pay.example/pay" {
		t.Errorf("Issuer() = %q, want no slash at the end", h.issuer)
	}
	b := h.browser(t)
	page := b.get(t, "/pay"+h.authURL())
	if f := formOn(t, page); !strings.HasPrefix(f.action, "/pay/login?") {
		t.Errorf("the form leads to %s, want /pay/login", f.action)
	}
	page = b.follow(t, b.submit(t, page, rightPassword...))
	to := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
	if to.Query().Get("iss") != h.issuer {
		t.Errorf("iss = %q, want %q", to.Query().Get("iss"), h.issuer)
	}
	for path, want := range map[string]int{"/": 404, "/login": 404, "/payx": 404, "/pay": 200, "/pay/": 200, "/healthz": 200, "/pay/healthz": 200, "/pay//login": 404} {
		if a := h.get(t, path); a.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, a.StatusCode, want)
		}
	}
}

// Promise (RFC 9110, RFC 9112): ambiguous paths; unsupported methods: 405 with Allow, no redirects
func TestPathConfusion(t *testing.T) {
	h := parallelHouse(t)
	token := h.pair(t).AccessToken
	for _, path := range []string{
		"//evil.com/%2e%2e/oauth/v2/auth/", "/API/Events", "/api/events/", "/api/../oauth/v2/auth", `/\evil.com`, "/%5Cevil.com", "//evil.com",
		"/oauth/v2/auth/", "/OAuth/v2/auth", "/oauth/v2/../v2/auth", "/./login", "/login/", "/login;x=1", "/%2e%2e/login", "/static/../main.go",
		"/static/%2e%2e/main.go", `/static/..%5cmain.go`, "/static/", "/static", "/static/%00", "/api/events//", "/api//events",
	} {
		t.Run(url.PathEscape(path), func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				a := h.do(h.request(t, method, path, nil, header("Authorization", "Bearer "+token)))
				if to := a.Header.Get("Location"); a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMethodNotAllowed || to != "" {
					t.Errorf("%s %s = %d to %q, want 404 and no redirect", method, path, a.StatusCode, to)
				}
			}
		})
	}
}

// routes are the public paths, with their methods.
var routes = map[string][]string{
	tokenPath:         {"POST"},
	authPath:          {"GET", "HEAD"},
	"/login":          {"GET", "HEAD", "POST"},
	"/consent":        {"POST"},
	"/logout":         {"POST"},
	"/":               {"GET", "HEAD"},
	"/healthz":        {"GET", "HEAD"},
	"/readyz":         {"GET", "HEAD"},
	"/static/missing": {"GET", "HEAD"},
	apiPath:           {"GET", "HEAD"},
	apiPath + "/x":    {"GET", "HEAD"},
	revokePath:        {"POST"},
	introspectPath:    {"POST"},
	"/.well-known/oauth-authorization-server": {"GET", "HEAD"},
	accountPath:              {"GET", "HEAD"},
	accountRevoke:            {"POST"},
	accountOthers:            {"POST"},
	accountPassword:          {"POST"},
	"/api/resources/kind":    {"GET", "HEAD"},
	"/api/resources/kind/id": {"GET", "HEAD", "PUT", "PATCH", "DELETE"},
}

// Promise (RFC 9110, RFC 9112): ambiguous paths; unsupported methods: 405 with Allow, no redirects
func TestMethods(t *testing.T) {
	h := parallelHouse(t)
	token := header("Authorization", "Bearer "+h.pair(t).AccessToken)
	for path, takes := range routes {
		allow := append([]string{"OPTIONS"}, takes...)
		for _, method := range []string{"TRACE", "PROPFIND", "CONNECT", "POST", "GET", "PUT", "DELETE", "QUERY", "get"} {
			if slices.Contains(takes, method) {
				continue
			}
			t.Run(method+url.PathEscape(path), func(t *testing.T) {
				a := h.do(h.request(t, method, path, nil, token))
				wantError(t, a, http.StatusMethodNotAllowed, "invalid_request")
				wantAllow(t, a, slices.Clone(allow)...)
			})
		}
		t.Run("OPTIONS"+url.PathEscape(path), func(t *testing.T) {
			a := h.do(h.request(t, "OPTIONS", path, nil))
			if a.StatusCode != http.StatusNoContent || a.body != "" {
				t.Errorf("OPTIONS = %d %q, want 204 and no body", a.StatusCode, a.body)
			}
			wantAllow(t, a, slices.Clone(allow)...)
		})
		if !slices.Contains(takes, "GET") {
			continue
		}
		t.Run("HEAD_is_GET"+url.PathEscape(path), func(t *testing.T) {
			get, head := h.get(t, path, token), h.do(h.request(t, "HEAD", path, nil, token))
			if get.StatusCode != head.StatusCode || get.Header.Get("Content-Type") != head.Header.Get("Content-Type") {
				t.Errorf("HEAD = %d %s, GET = %d %s, want the same", head.StatusCode, head.Header.Get("Content-Type"), get.StatusCode, get.Header.Get("Content-Type"))
			}
		})
	}
}

// Promise (Attacks on the events API): invalid types, cursors, limits and numbers; thousands of
// parameters; repeated, unknown and half-open filters; unparsable queries
func TestQueryThatCannotBeRead(t *testing.T) {
	h := parallelHouse(t)
	token := h.pair(t).AccessToken
	for name, query := range map[string]string{
		"broken_percent": "type=%zz", "semicolon": "type=a;type=b", "more_than_128_parameters": strings.TrimPrefix(numbered(129), "&"),
	} {
		t.Run(name, func(t *testing.T) {
			a := h.get(t, apiPath+"?"+query, header("Authorization", "Bearer "+token))
			if a.StatusCode != http.StatusBadRequest {
				t.Errorf("status = %d %.200s, want 400 and no list", a.StatusCode, a.body)
			}
		})
	}
	t.Run("many_thousands_of_parameters", func(t *testing.T) {
		a := h.get(t, apiPath+"?"+strings.Repeat("a&", 11_000), header("Authorization", "Bearer "+token))
		wantError(t, a, http.StatusRequestURITooLong, "uri_too_long")
	})
}

// TestOriginBehindProxies: a proxy may pass on the Host without the port of the public URL,
// or with it. The forms of our own pages are ours either way, also in browsers that send no
// Fetch Metadata, as all do over plain http.
//
// Promise (Browsers): behind a proxy on any port our own forms are ours, with a Host that lacks the
// port too; doctor sees that
func TestOriginBehindProxies(t *testing.T) {
	t.Parallel()
	const other = "https://evil.example"
	for _, c := range []struct {
		public, host, origin, site string
		ours                       bool
	}{
		{"http://pay.example:8080", "pay.example:8080", "http://pay.example:8080", "", true},
		{"http://pay.example:8080", "pay.example", "http://pay.example:8080", "", true},
		{"http://pay.example:8080", "pay.example", "http://pay.example", "", true},
		{"http://pay.example:8080", "pay.example:8080", "http://pay.example", "", true},
		{"https://pay.example:8443", "pay.example", "https://pay.example:8443", "", true},
		{"https://pay.example:8443", "pay.example", "https://pay.example:8443", "same-origin", true},
		{"https://pay.example:443", "pay.example:443", "https://pay.example", "", true},
		{"https://pay.example", "pay.example", "https://pay.example", "", true},
		{"https://PAY.example:8443", "pay.example", "https://pay.example:8443", "", true},
		{"https://pay.example:8443", "pay.example", "", "", true}, // no browser that could be misled
		{"http://pay.example:8080", "pay.example", "http://pay.example:9090", "", false},
		{"http://pay.example:8080", "pay.example", "https://pay.example:8080", "", false},
		{"http://pay.example:8080", "pay.example", "http://pay.example:80801", "", false},
		{"http://pay.example:8080", "pay.example", "null", "", false},
		{"https://pay.example:8443", "pay.example", other, "", false},
		{"https://pay.example:8443", "pay.example", "https://shop.pay.example:8443", "", false},
		{"https://pay.example:8443", "pay.example", "https://pay.example:8443", "cross-site", false},
		{"https://pay.example:8443", "pay.example", "https://pay.example", "same-site", false}, // another instance
	} {
		name := strings.Join([]string{c.public, c.host, c.origin, c.site}, " ")
		t.Run(url.PathEscape(name), func(t *testing.T) {
			h := parallelHouse(t, at(c.public))
			through := func(r *http.Request) {
				r.Host = c.host
				for header, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
					if r.Header.Del(header); value != "" && r.Method == http.MethodPost {
						r.Header.Set(header, value)
					}
				}
			}
			b := h.browser(t)
			b.site.Host = strings.ToLower(b.site.Host)
			a := b.post(t, "/login", with(formOn(t, b.get(t, "/login", through)).fields, rightPassword...), through)
			if signedIn := a.StatusCode == http.StatusSeeOther; signedIn != c.ours {
				t.Errorf("sign-in gives %d %.200s, want it to be let in: %t", a.StatusCode, words(t, a), c.ours)
			}
		})
	}
}

// Promise (Browsers): behind a proxy on any port our own forms are ours, with a Host that lacks the
// port too; doctor sees that
func TestHostsWithoutThePortAreNoted(t *testing.T) {
	h := parallelHouse(t, at("https://pay.example:8443"))
	for _, c := range []struct {
		host  string
		lacks bool
	}{{"pay.example:8443", false}, {"pay.example", true}, {"evil.example", true}, {"pay.example:8443", false}} {
		if h.get(t, "/healthz", func(r *http.Request) { r.Host = c.host }); h.server.Site.LacksPort() != c.lacks {
			t.Errorf("after Host %s: LacksPort() = %t, want %t", c.host, h.server.Site.LacksPort(), c.lacks)
		}
	}
	plain := newHouse(t)
	if plain.get(t, "/healthz"); plain.server.Site.LacksPort() {
		t.Error("LacksPort() = true for a public URL without a port")
	}
}
