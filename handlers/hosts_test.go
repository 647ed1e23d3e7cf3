package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/store/storetest"
)

const metadataPath = "/.well-known/oauth-authorization-server"

// ofDev gives a server the hosts of dev: with no public URL, as it was asked.
func ofDev(hosts handlers.Hosts) func(*handlers.Config) {
	return func(c *handlers.Config) { c.Hosts = &hosts }
}

// under is the house as callers see it who know it by another address.
func (h *house) under(address string) *house {
	seen := *h
	seen.issuer = address
	return &seen
}

func withHost(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }

func TestHostsOfDev(t *testing.T) {
	h := parallelHouse(t, at("http://pay.example:8080"), ofDev(handlers.Hosts{Named: []string{"dev.corp.example", ".preview.example"}}))
	long := strings.Repeat("a", 64)
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8080": 200, "192.0.2.7:80": 200, "[::1]": 200, "[::1]:8080": 200, "[2001:db8::7]:8080": 200,
		"localhost": 200, "LOCALHOST:8080": 200, "app.localhost:3000": 200, "a.b.localhost": 200,
		"pay.test": 200, "host.docker.internal:8080": 200, "tollhouse": 200, "tollhouse:8080": 200, "my_app-1": 200,
		"pay.example": 200, "Pay.Example:9": 200, "dev.corp.example": 200, "DEV.corp.example:1": 200, "a.preview.example": 200, "a.b.preview.example": 200,

		"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "test.example": 421, "tollhouse.": 421, "localhost.": 421,
		"www.pay.example": 421, "corp.example": 421, "www.dev.corp.example": 421, "preview.example": 421, "evilpreview.example": 421, ".preview.example": 421, "..localhost": 421,
		"evillocalhost.com": 421, "127.0.0.1.evil.example": 421, "127.0.0.1.nip.io": 421, "": 421, ":8080": 421, "localhost:80:80": 421, "localhost:8o": 421,
		"localhost@evil.example": 421, "evil.example#.localhost": 421, "a b": 421, "[::1%25eth0]": 421, "[::1%lo\"]": 421, "::1": 421, "[127.0.0.1]": 421,
		"[::1]evil": 421, "[::1": 421, "[0:::0": 421, "[::1]evil:80": 421, long: 421, strings.Repeat("a.", 126) + "localhost": 421,
	} {
		a := h.get(t, metadataPath, withHost(host))
		if a.StatusCode != want {
			t.Errorf("Host %q = %d, want %d", host, a.StatusCode, want)
		}
		if want == 421 && !strings.Contains(wantError(t, a, 421, "misdirected_request"), "--host") {
			t.Errorf("Host %q: %s, want it to name --host", host, a.body)
		}
		if strings.Contains(a.body, "evil") {
			t.Errorf("Host %q: %s, want nothing of the Host in it", host, a.body)
		}
	}
	t.Run("health_answers_to_any_name", func(t *testing.T) {
		if a := h.get(t, "/readyz", withHost("evil.example")); a.StatusCode != http.StatusOK {
			t.Errorf("GET /readyz = %d, want 200", a.StatusCode)
		}
	})
	t.Run("serve_keeps_one_host", func(t *testing.T) {
		serve := newHouse(t)
		for _, host := range []string{"tollhouse", "localhost", "app.localhost", "pay.test", "127.0.0.1"} {
			if text := wantError(t, serve.get(t, "/", withHost(host)), 421, "misdirected_request"); strings.Contains(text, "--host") {
				t.Errorf("Host %q: %q, want no flag that serve does not have", host, text)
			}
		}
	})
}

func TestIssuerIsTheAddressThatWasAsked(t *testing.T) {
	dev := parallelHouse(t, at("http://127.0.0.1:8655"), ofDev(handlers.Hosts{AsAsked: true}), func(c *handlers.Config) {
		c.Demo = &handlers.Demo{ClientID: "demo", ClientSecret: "s", Username: "u", Password: "p", RedirectURI: "http://127.0.0.1/callback"}
	})
	for _, issuer := range []string{"http://localhost:8080", "http://tollhouse:8080", "http://tollhouse", "http://[::1]:9090", "http://127.0.0.1:8655"} {
		t.Run(issuer, func(t *testing.T) {
			h := dev.under(issuer)
			m := members(t, h.get(t, metadataPath))
			for name, path := range map[string]string{
				"issuer": "", "authorization_endpoint": authPath, "token_endpoint": tokenPath, "revocation_endpoint": "/oauth/v2/revoke",
				"introspection_endpoint": "/oauth/v2/introspect", "service_documentation": "/",
			} {
				if m[name] != issuer+path {
					t.Errorf("%s = %v, want %s", name, m[name], issuer+path)
				}
			}
			// Twice each, since a description is kept.
			for range 2 {
				if a := h.get(t, "/openapi.json"); !strings.Contains(a.body, `"url":"`+issuer+`"`) || !strings.Contains(a.body, `"tokenUrl":"`+issuer+tokenPath+`"`) {
					t.Errorf("/openapi.json does not name %s", issuer)
				}
			}
			start := h.get(t, "/", header("Accept", "text/html"))
			if text := words(t, start); !strings.Contains(text, "curl "+issuer+tokenPath) {
				t.Errorf("the start page says %q, want a command for %s", text, issuer)
			}
			back := strings.Replace(issuer, "localhost", "127.0.0.1", 1) + "/callback"
			if tries, want := strings.Contains(start.body, "redirect_uri="+url.QueryEscape(back)), strings.Contains(back, "127.0.0.1"); tries != want {
				t.Errorf("the start page has a link that tries the sign-in: %v, want %v", tries, want)
			}

			b := h.browser(t)
			page := b.get(t, h.authURL())
			page = b.follow(t, b.submit(t, page, rightPassword...))
			to := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
			if got := to.Query().Get("iss"); got != issuer {
				t.Errorf("iss = %q, want %q", got, issuer)
			}
			if to := callback(t, b.get(t, h.authURL("response_type", "token")), http.StatusFound); to.Query().Get("iss") != issuer {
				t.Errorf("iss of an error = %q, want %q", to.Query().Get("iss"), issuer)
			}
			if name := cookieOfPort(issuer); b.cookie(name) == "" {
				t.Errorf("the cookies are %v, want one named %s", b.jar.Cookies(b.site), name)
			}
			tokens := wantPair(t, h.token(t, h.codeForm(to.Query().Get("code"))))
			introspected := h.do(h.request(t, "POST", "/oauth/v2/introspect", strings.NewReader(with(h.credentials(), "token", tokens.AccessToken).Encode()), header("Content-Type", formType)))
			if got := members(t, introspected)["iss"]; got != issuer {
				t.Errorf("iss of introspection = %v, want %s", got, issuer)
			}
		})
	}
}

// cookieOfPort is the name of the session cookie on plain http.
func cookieOfPort(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	if u.Port() == "" {
		return "tollhouse"
	}
	return "tollhouse_" + u.Port()
}

func TestPublicURLOfDev(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ public, host, wantPrograms string }{
		"container":                  {"http://localhost:8080", "tollhouse:8080", "http://tollhouse:8080"},
		"other_port":                 {"http://localhost:8080", "localhost:9000", "http://localhost:9000"},
		"itself":                     {"http://localhost:8080", "localhost:8080", "http://localhost:8080"},
		"proxy_that_drops_the_port":  {"http://localhost:8080", "localhost", "http://localhost:8080"},
		"proxy_that_speaks_tls":      {"https://pay.example", "pay.example", "https://pay.example"},
		"proxy_on_a_port":            {"https://pay.example:8443", "pay.example:8443", "https://pay.example:8443"},
		"container_behind_tls":       {"https://pay.example", "tollhouse:8080", "http://tollhouse:8080"},
		"with_a_path":                {"https://pay.example/pay", "tollhouse:8080", "http://tollhouse:8080/pay"},
		"address_of_version_6":       {"http://[::1]:8080", "[::1]", "http://[::1]:8080"},
		"other_address_of_version_6": {"http://[::1]:8080", "[2001:db8::1]:8080", "http://[2001:db8::1]:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, at(test.public), ofDev(handlers.Hosts{}))
			base := strings.TrimPrefix(test.public, "https://pay.example")
			if !strings.HasPrefix(base, "/") {
				base = ""
			}
			m := members(t, h.get(t, base+metadataPath, withHost(test.host)))
			for name, want := range map[string]string{
				"issuer": test.public, "authorization_endpoint": test.public + authPath, "token_endpoint": test.wantPrograms + tokenPath,
				"revocation_endpoint": test.wantPrograms + "/oauth/v2/revoke", "introspection_endpoint": test.wantPrograms + "/oauth/v2/introspect",
			} {
				if m[name] != want {
					t.Errorf("%s = %v, want %s", name, m[name], want)
				}
			}
			to := callback(t, h.get(t, base+h.authURL("response_type", "token", "redirect_uri", storetest.CallbackURI), withHost(test.host)), http.StatusFound)
			if got := to.Query().Get("iss"); got != test.public {
				t.Errorf("iss = %q, want %q", got, test.public)
			}
		})
	}
}

// FuzzHostsOfDev: whatever Host is served makes an issuer that is a URL of that host
// and nothing more.
func FuzzHostsOfDev(f *testing.F) {
	h := newHouse(f, at("http://127.0.0.1:8655"), ofDev(handlers.Hosts{Named: []string{".preview.example"}, AsAsked: true}))
	for _, host := range []string{"localhost:8080", "[::1]:80", "[::1%lo]", "[0:::0", "a.preview.example", "a@localhost", "localhost/x", "localhost?", "localhost#.test", "%2e.test", "é.test", "a:b:c"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		a := h.get(t, metadataPath, withHost(host))
		if a.StatusCode == http.StatusMisdirectedRequest {
			return
		}
		u, err := url.Parse(members(t, a)["issuer"].(string))
		if err != nil || u.Scheme != "http" || u.Host != host || u.User != nil || u.Path+u.RawQuery+u.Fragment != "" {
			t.Errorf("Host %q: issuer %v, %v", host, u, err)
		}
	})
}
