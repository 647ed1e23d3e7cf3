package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"tollhouse/store"
	"tollhouse/store/storetest"
)

func redirectingTo(uris ...string) func(*store.ClientSpec) {
	return func(s *store.ClientSpec) { s.RedirectURIs = uris }
}

// TestRedirectURIRefused: an unregistered redirect URI gives an error page and no redirect.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a missing, unregistered or repeated redirect URI gets a
// page that shows it as text and says what to register; URIs are compared byte for byte, of a
// loopback URI all but the port
// Promise (RFC 9700 §4.1, §4.11): userinfo before the host; fragments; dots and doubled slashes;
// other case, ports, queries and schemes; path parameters; encoded paths; look-alike hosts, or with
// a common prefix or suffix
// Promise (RFC 9700 §4.1, §4.11): a dot after the host; no scheme; blanks, line breaks, NUL,
// backslashes; other notations of addresses; too long, not UTF-8; repeated parameters
func TestRedirectURIRefused(t *testing.T) {
	h := parallelHouse(t) // https://app.example/cb
	loopback, _ := h.Client(t, redirectingTo("http://127.0.0.1/cb", "http://[::1]:8080/cb"))
	clients := map[string]store.Client{"": h.client, "loopback": loopback}
	cases := []struct{ name, client, uri string }{
		{"unregistered", "", "https://other.example/cb"},
		{"user", "", "https://app.example@evil.example/cb"},
		{"user_in_fragment", "", "https://evil.example#@app.example/cb"},
		{"userinfo", "", "https://user@app.example/cb"},
		{"fragment", "", "https://app.example/cb#f"},
		{"empty_fragment", "", "https://app.example/cb#"},
		{"dots", "", "https://app.example/cb/../x"},
		{"dot", "", "https://app.example/cb/./"},
		{"two_slashes", "", "https://app.example//cb"},
		{"slash", "", "https://app.example/cb/"},
		{"query", "", "https://app.example/cb?x"},
		{"query_with_value", "", "https://app.example/cb?x=1"},
		{"empty_query", "", "https://app.example/cb?"},
		{"ampersand", "", "https://app.example/cb&x"},
		{"path_case", "", "https://app.example/CB"},
		{"host_case", "", "https://APP.example/cb"},
		{"scheme_case", "", "HTTPS://app.example/cb"},
		{"trailing_dot", "", "https://app.example./cb"},
		{"default_port", "", "https://app.example:443/cb"},
		{"port", "", "https://app.example:8443/cb"},
		{"port_with_zero", "", "https://app.example:0443/cb"},
		{"semicolon_dots", "", "https://app.example/cb/..;/evil"},
		{"semicolon", "", "https://app.example/cb;x=1"},
		{"encoded_slash", "", "https://app.example/cb%2f..%2fevil"},
		{"encoded_c", "", "https://app.example/%63b"},
		{"twice_encoded", "", "https://app.example/cb%252f"},
		{"http", "", "http://app.example/cb"},
		{"javascript", "", "javascript:alert(1)//https://app.example/cb"},
		{"data", "", "data:text/html,x"},
		{"no_scheme", "", "app.example/cb"},
		{"scheme_relative", "", "//app.example/cb"},
		{"homograph", "", "https://\u0430pp.example/cb"},
		{"punycode", "", "https://xn--pp-7kc.example/cb"},
		{"fullwidth_dot", "", "https://app\u3002example/cb"},
		{"suffix", "", "https://app.example.evil.example/cb"},
		{"prefix", "", "https://evilapp.example/cb"},
		{"space_before", "", " https://app.example/cb"},
		{"space_behind", "", "https://app.example/cb "},
		{"tab", "", "https://app.example/cb\t"},
		{"line_break", "", "https://app.example/cb\r\nSet-Cookie: x=1"},
		{"nul", "", "https://app.example/cb\x00"},
		{"backslash", "", `https:\\app.example\cb`},
		{"ipv6", "", "https://[::1]/cb"},
		{"ipv4", "", "https://127.0.0.1:99/cb"},
		{"decimal", "loopback", "http://2130706433/cb"},
		{"octal", "loopback", "http://0177.0.0.1/cb"},
		{"of_4_KB", "", storetest.CallbackURI + strings.Repeat("a", 4<<10)},
		{"invalid_utf8", "", "https://app.example/cb\xff"},
		{"host_swapped", "loopback", "http://localhost:53219/cb"},
		{"https", "loopback", "https://127.0.0.1/cb"},
		{"other_path", "loopback", "http://127.0.0.1:53219/cb2"},
		{"other_query", "loopback", "http://127.0.0.1:53219/cb?x"},
		{"port_and_user", "loopback", "http://127.0.0.1:80@evil.example/cb"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := h.get(t, h.authURL("client_id", clients[c.client].ID, "redirect_uri", c.uri))
			wantPage400(t, a)
			for n := range parsePage(t, a).Descendants() {
				if n.Type == html.ElementNode && (n.Data == "a" || n.Data == "form" || n.Data == "script") {
					t.Errorf("the page has a <%s>, want the URI shown as text only", n.Data)
				}
			}
		})
	}
	twice := map[string]string{
		"missing":           h.authURL("redirect_uri", ""),
		"good_evil":         h.authURL() + "&redirect_uri=https://evil.example",
		"evil_good":         strings.Replace(h.authURL(), "?", "?redirect_uri=https://evil.example&", 1),
		"same_twice":        h.authURL() + "&redirect_uri=" + url.QueryEscape(storetest.CallbackURI),
		"bad_response_type": h.authURL("redirect_uri", "https://evil.example", "response_type", "token"),
	}
	for name, target := range twice {
		t.Run(name, func(t *testing.T) { wantPage400(t, h.get(t, target)) })
	}
	t.Run("the_uri_is_shown_escaped", func(t *testing.T) {
		a := h.get(t, h.authURL("redirect_uri", `https://evil.example/"><script>alert(1)</script>`))
		if strings.Contains(a.body, "<script") || !strings.Contains(a.body, "&lt;script&gt;") {
			t.Error("the page does not show what was sent as text")
		}
	})
}

// Promise (RFC 6749 §3.1, RFC 8252 §7): any port matches on loopback: 127.0.0.1, [::1], and
// localhost if registered; the requested port is kept, and the token request must name it
// Promise (RFC 6749 §3.1, RFC 8252 §7): a private scheme must match exactly; the query of a
// redirect URI is kept verbatim before ours
func TestRedirectURIAccepted(t *testing.T) {
	h := parallelHouse(t)
	registered := []string{"http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost:8080/cb", "com.example.app:/cb",
		"https://app.example/cb?a=1&a=2", "https://app.example/q?", "https://app.example"}
	client, sec := h.Client(t, redirectingTo(registered...))
	b := h.signedIn(t, h.user)
	allow := func(t *testing.T, uri string, more ...string) string {
		t.Helper()
		more = append([]string{"client_id", client.ID, "redirect_uri", uri}, more...)
		a := b.submit(t, b.get(t, h.authURL(more...)), "decision", "allow")
		if a.StatusCode != http.StatusSeeOther {
			t.Fatalf("status = %d %.200s, want 303", a.StatusCode, a.body)
		}
		return a.Header.Get("Location")
	}
	redeem := func(code, uri string) answer {
		return h.token(t, with(as(h.codeForm(code), client, sec), "redirect_uri", uri))
	}
	for _, uri := range []string{"http://127.0.0.1:53219/cb", "http://127.0.0.1/cb", "http://[::1]:53219/cb", "http://localhost:53219/cb"} {
		t.Run(uri, func(t *testing.T) {
			to := allow(t, uri)
			u, err := url.Parse(to)
			if err != nil || !strings.HasPrefix(to, uri+"?code=") {
				t.Fatalf("Location = %q, want the port that was asked", to)
			}
			code := u.Query().Get("code")
			wantTokenError(t, redeem(code, strings.Replace(uri, "53219", "53220", 1)+"x"), http.StatusBadRequest, "invalid_grant")
			wantTokenError(t, redeem(code, registered[0]+"?"), http.StatusBadRequest, "invalid_grant")
			wantPair(t, redeem(code, uri))
		})
	}
	t.Run("the_token_request_needs_the_same_port", func(t *testing.T) {
		u, _ := url.Parse(allow(t, "http://127.0.0.1:53219/cb"))
		code := u.Query().Get("code")
		for _, other := range []string{"http://127.0.0.1/cb", "http://127.0.0.1:53220/cb"} {
			wantTokenError(t, redeem(code, other), http.StatusBadRequest, "invalid_grant")
		}
		wantPair(t, redeem(code, "http://127.0.0.1:53219/cb"))
	})
	t.Run("private_scheme_exactly", func(t *testing.T) {
		if to := allow(t, "com.example.app:/cb"); !strings.HasPrefix(to, "com.example.app:/cb?code=") {
			t.Errorf("Location = %q, want the private scheme", to)
		}
		for _, other := range []string{"com.example.app:/CB", "com.example.app://cb", "com.example.app:cb", "com.example.app2:/cb"} {
			wantPage400(t, h.get(t, h.authURL("client_id", client.ID, "redirect_uri", other)))
		}
	})
	t.Run("the_query_of_the_uri_is_kept_verbatim", func(t *testing.T) {
		cases := map[string]string{
			"https://app.example/cb?a=1&a=2": "https://app.example/cb?a=1&a=2&code=",
			"https://app.example/q?":         "https://app.example/q?code=",
			"https://app.example":            "https://app.example?code=",
		}
		for uri, want := range cases {
			if to := allow(t, uri, "state", "s"); !strings.HasPrefix(to, want) || !strings.HasSuffix(to, "&state=s&iss=https%3A%2F%2Fpay.example") {
				t.Errorf("Location = %q, want %q and then state and iss", to, want)
			}
		}
	})
}
