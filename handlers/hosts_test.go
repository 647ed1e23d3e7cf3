package handlers_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store/storetest"
)

const metadataPath = "/.well-known/oauth-authorization-server"

// ofDev gives a server the hosts of dev: with no public URL, as it was asked.
func ofDev(hosts web.Hosts) func(*handlers.Config) {
	return func(c *handlers.Config) { c.Hosts = &hosts }
}

// under is the house as callers see it who know it by another address.
func (h *house) under(address string) *house {
	seen := *h
	seen.issuer = address
	return &seen
}

func withHost(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }

// TestHostsOfDevOnLoopback: a router, a search domain or a hotel's resolver answers for
// names without a dot, .test and .internal; so a page under such a name could be anybody's.
//
// Promise (RFC 9110, RFC 9112): DNS rebinding: on loopback `dev` answers to no name that a local
// resolver can answer for
func TestHostsOfDevOnLoopback(t *testing.T) {
	h := parallelHouse(t, at("http://pay.example:8080"), ofDev(web.Hosts{Named: []string{"till", "192.0.2.9", ".preview.example"}}))
	v6 := newHouse(t, at("http://[2001:db8::8]:8080"), ofDev(web.Hosts{}))
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8080": 200, "127.8.8.8:80": 200, "[::1]:8080": 200, "[::ffff:127.0.0.1]": 200,
		"localhost": 200, "LOCALHOST:8080": 200, "app.localhost:3000": 200, "a.b.localhost": 200,
		"pay.example": 200, "Pay.Example:9": 200, "till": 200, "TILL:8080": 200, "192.0.2.9:8080": 200, "a.preview.example": 200,

		"tollhouse": 421, "tollhouse:8080": 421, "router": 421, "wpad:8080": 421, "localhost-": 421, "xlocalhost": 421, "2130706433": 421, "0x7f000001": 421,
		"pay.test": 421, "a.test:8080": 421, "host.docker.internal": 421, "metadata.google.internal": 421, "internal": 421, "test": 421,
		"192.168.1.7": 421, "192.0.2.7:80": 421, "10.0.0.1": 421, "169.254.169.254": 421, "0.0.0.0": 421, "0.0.0.0:8080": 421, "127.1": 421, "[::]": 421, "[2001:db8::7]:8080": 421, "[fe80::1]": 421,
		"evil.example": 421, "localhost.evil.example": 421, "localhost.": 421, "router.local": 421, "router.lan": 421, "router.home.arpa": 421, "": 421,
	} {
		if a := h.get(t, metadataPath, withHost(host)); a.StatusCode != want {
			t.Errorf("Host %q = %d, want %d", host, a.StatusCode, want)
		}
	}
	for host, want := range map[string]int{"[2001:db8::8]": 200, "[2001:DB8::8]:1": 200, "[2001:db8::9]": 421} {
		if a := v6.get(t, metadataPath, withHost(host)); a.StatusCode != want {
			t.Errorf("public URL [2001:db8::8], Host %q = %d, want %d", host, a.StatusCode, want)
		}
	}
}

// Promise (RFC 9110, RFC 9112): another Host; request smuggling
func TestHostsOfDev(t *testing.T) {
	h := parallelHouse(t, at("http://pay.example:8080"), ofDev(web.Hosts{OnNetwork: true, Named: []string{"dev.corp.example", ".preview.example"}}))
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

// TestDevBehindATLSTunnel: issuer, addresses and cookies are those that the caller sees, if
// a trusted proxy says so.
//
// Promise (RFC 9110, RFC 9112): in dev, issuer, addresses and cookies follow X-Forwarded-Proto from
// a trusted proxy
func TestDevBehindATLSTunnel(t *testing.T) {
	tunnel := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // httptest's peer
	hosts := web.Hosts{OnNetwork: true, AsAsked: true, Named: []string{".tunnel.example"}}
	dev := parallelHouse(t, at("http://127.0.0.1:8655"), ofDev(hosts), func(c *handlers.Config) {
		c.TrustedProxies, c.Demo = tunnel, &web.Demo{RedirectURI: "http://127.0.0.1/callback"}
	})
	const issuer = "https://a.tunnel.example"
	from := func(r *http.Request) { r.Host = "a.tunnel.example" }
	overTLS := header("X-Forwarded-Proto", "https")
	if a := dev.get(t, metadataPath, from, overTLS); !strings.Contains(a.body, `"issuer":"`+issuer+`"`) || !strings.Contains(a.body, `"token_endpoint":"`+issuer+tokenPath+`"`) {
		t.Errorf("metadata = %s, want %s", a.body, issuer)
	}
	if a := dev.get(t, metadataPath, from, header("X-Forwarded-Proto", "HTTPS , http")); !strings.Contains(a.body, `"issuer":"`+issuer+`"`) {
		t.Errorf("behind two proxies, https to the first: metadata = %s, want %s", a.body, issuer)
	}
	if a := dev.get(t, "/openapi.json", from, overTLS); !strings.Contains(a.body, `"url":"`+issuer+`"`) {
		t.Errorf("/openapi.json does not name %s", issuer)
	}
	if to := callback(t, dev.get(t, dev.authURL("response_type", "token"), from, overTLS), http.StatusFound); to.Query().Get("iss") != issuer {
		t.Errorf("iss = %q, want %q", to.Query().Get("iss"), issuer)
	}
	if c := dev.get(t, "/login", from, overTLS).Cookies()[0]; !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("cookie = %s, want a secure one", c)
	}
	for name, change := range map[string]func(*http.Request){
		"http": header("X-Forwarded-Proto", "http"), "http_then_https_between_proxies": header("X-Forwarded-Proto", "http, https"), "none": func(*http.Request) {}, "other": header("X-Forwarded-Proto", "gopher"),
		"a_stranger": func(r *http.Request) { overTLS(r); r.RemoteAddr = "198.51.100.7:4000" },
	} {
		t.Run(name, func(t *testing.T) {
			if a := dev.get(t, metadataPath, from, change); !strings.Contains(a.body, `"issuer":"http://a.tunnel.example"`) {
				t.Errorf("metadata = %s, want http", a.body)
			}
			if c := dev.get(t, "/login", from, change).Cookies()[0]; c.Secure {
				t.Errorf("cookie = %s, want one for http", c)
			}
		})
	}
	t.Run("serve_has_the_issuer_of_its_settings", func(t *testing.T) {
		serve := newHouse(t, at("http://127.0.0.1:8080"), func(c *handlers.Config) { c.TrustedProxies = tunnel })
		if a := serve.get(t, metadataPath, overTLS); !strings.Contains(a.body, `"issuer":"http://127.0.0.1:8080"`) {
			t.Errorf("metadata = %s", a.body)
		}
	})
}

func TestIssuerIsTheAddressThatWasAsked(t *testing.T) {
	dev := parallelHouse(t, at("http://127.0.0.1:8655"), ofDev(web.Hosts{OnNetwork: true, AsAsked: true}), func(c *handlers.Config) {
		c.Demo = &web.Demo{ClientID: "demo", ClientSecret: "s", Username: "u", Password: "p", RedirectURI: "http://127.0.0.1/callback"}
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
			if text := words(t, start); !strings.Contains(strings.ReplaceAll(text, "'", ""), "curl -sS "+issuer+tokenPath) {
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
			h := newHouse(t, at(test.public), ofDev(web.Hosts{OnNetwork: true}))
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
	h := newHouse(f, at("http://127.0.0.1:8655"), ofDev(web.Hosts{OnNetwork: true, Named: []string{".preview.example"}, AsAsked: true}))
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
