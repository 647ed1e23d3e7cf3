package handlers_test

import (
	"net/http"
	"strings"
	"testing"
)

// plain hands a request to the handler of plain http.
func (h *house) plain(t testing.TB, method, target, body string, change ...func(*http.Request)) answer {
	t.Helper()
	before := h.public
	defer func() { h.public = before }()
	h.public = h.server.Site.Plain()
	return h.do(h.request(t, method, target, strings.NewReader(body), change...))
}

// Promise (TLS and proxies): plain http redirects to https and takes no secret
func TestPlain(t *testing.T) {
	t.Parallel()
	h, sub := newHouse(t), newHouse(t, at("https://pay.example:8443/till"))
	t.Run("http_redirect_keeps_the_path_and_knows_one_host", func(t *testing.T) {
		for target, want := range map[string]string{
			"/":                                 "https://pay.example/",
			"/?lang=en":                         "https://pay.example/?lang=en",
			"/login":                            "https://pay.example/login",
			"/oauth/v2/auth?state=a%2Fb&x=1":    "https://pay.example/oauth/v2/auth?state=a%2Fb&x=1",
			"/a%2F..%0d%0ab//c":                 "https://pay.example/a%2F..%0d%0ab//c",
			"//evil.example/":                   "https://pay.example//evil.example/",
			"http://evil.example/oauth/v2/auth": "https://pay.example/oauth/v2/auth",
		} {
			for _, method := range []string{"GET", "HEAD"} {
				a := h.plain(t, method, target, "", func(r *http.Request) { r.Host = "evil.example" })
				if got := a.Header.Get("Location"); a.StatusCode != http.StatusPermanentRedirect || got != want {
					t.Errorf("%s %s = %d to %q, want 308 to %q", method, target, a.StatusCode, got, want)
				}
				if a.Header.Get("X-Request-Id") == "" || a.Header.Get("Strict-Transport-Security") != "" || a.body != "" {
					t.Errorf("%s %s = %v %q, want a request id, no Strict-Transport-Security (RFC 6797 §7.2) and no body", method, target, a.Header, a.body)
				}
			}
		}
		for target, want := range map[string]string{"/": "https://pay.example:8443/till/", "/till/login": "https://pay.example:8443/till/login"} {
			if got := sub.plain(t, "GET", target, "").Header.Get("Location"); got != want {
				t.Errorf("under a path: GET %s leads to %q, want %q", target, got, want)
			}
		}
	})
	t.Run("http_redirect_takes_no_secret", func(t *testing.T) {
		const canary = "tollcs_canary"
		refused := map[string]answer{
			"POST":                h.plain(t, "POST", tokenPath, "client_secret="+canary),
			"PUT":                 h.plain(t, "PUT", "/api/resources/customer/"+canary, canary),
			"OPTIONS":             h.plain(t, "OPTIONS", tokenPath, ""),
			"BREW":                h.plain(t, "BREW", "/", ""),
			"bearer token":        h.plain(t, "GET", apiPath, "", header("Authorization", "Bearer "+canary)),
			"secret in the query": h.plain(t, "GET", tokenPath+"?client_secret="+canary, ""),
			"token in the query":  h.plain(t, "GET", apiPath+"?access_token="+canary, ""),
		}
		for what, a := range refused {
			want := http.StatusMethodNotAllowed
			if a.Request.Method == "GET" {
				want = http.StatusForbidden
			}
			wantError(t, a, want, "https_required")
			if a.Header.Get("Location") != "" || strings.Contains(a.body, "canary") || !strings.Contains(a.body, "https://pay.example ") {
				t.Errorf("%s = %v %s, want the https address and nothing that was sent", what, a.Header, a.body)
			}
			if want == http.StatusMethodNotAllowed && a.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s: Allow = %q, want GET, HEAD", what, a.Header.Get("Allow"))
			}
		}
		if strings.Contains(h.log.String(), "canary") {
			t.Error("the log holds what was sent")
		}
	})
}

// Promise (TLS and proxies): Strict-Transport-Security when TLS and the name are ours alone;
// sign-in, stream, long poll and stop work the same over TLS
func TestStrictTransport(t *testing.T) {
	t.Parallel()
	for public, want := range map[string]string{
		"https://pay.example":        "max-age=31536000",
		"https://pay.example:8443/t": "max-age=31536000",
		"https://192.0.2.7":          "",
		"https://[::1]:8443":         "",
		"https://localhost:8443":     "",
		"http://pay.example":         "",
	} {
		t.Run("hsts_on_our_own_TLS_of_"+public, func(t *testing.T) {
			h := parallelHouse(t, at(public))
			for _, target := range []string{"/", "/login", apiPath, "/nothing", "/healthz"} {
				if a := h.get(t, target, header("X-Forwarded-Proto", "https")); a.Header.Get("Strict-Transport-Security") != "" {
					t.Errorf("without TLS of our own GET %s says %q, want nothing", target, a.Header.Get("Strict-Transport-Security"))
				}
			}
			h.public = h.server.Secure()
			for _, target := range []string{"/", "/login", apiPath, "/nothing", "/healthz"} {
				if got := h.get(t, target).Header.Values("Strict-Transport-Security"); strings.Join(got, "|") != want {
					t.Errorf("GET %s says %q, want %q", target, got, want)
				}
			}
		})
	}
}
