package handlers_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
)

// forwarded are the headers by which a proxy says where a request came from, and by which
// any client may pretend to be one.
var forwarded = []func(*http.Request){
	header("X-Forwarded-For", "203.0.113.9"), header("X-Forwarded-Host", "evil.example"), header("X-Forwarded-Proto", "http"), header("X-Forwarded-Scheme", "http"),
	header("X-Forwarded-Port", "81"), header("X-Forwarded-Prefix", "/evil"), header("X-Forwarded-Uri", "https://evil.example/"), header("X-Forwarded-Server", "evil.example"),
	header("X-Original-Url", "/admin/users"), header("X-Rewrite-Url", "/admin/users"), header("X-Real-Ip", "203.0.113.9"), header("Forwarded", "for=203.0.113.9;host=evil.example;proto=http"),
}

// TestForwardedHeaders: the issuer, the scheme and the cookies come from the configured
// public URL. A trusted proxy is trusted only for the address that it forwards for.
//
// Promise (RFC 9110, RFC 9112): forwarding headers; a forged source address, its port or zone
func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	trusting := func(c *handlers.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} }
	for name, change := range map[string][]func(*handlers.Config){"of_an_untrusted_peer": nil, "of_a_trusted_proxy": {trusting}} {
		t.Run(name+"_say_nothing_about_the_issuer", func(t *testing.T) {
			h := parallelHouse(t, change...)
			const metadata = "/.well-known/oauth-authorization-server"
			if plain, a := h.get(t, metadata), h.get(t, metadata, forwarded...); a.body != plain.body || !strings.Contains(a.body, `"issuer":"`+publicURL+`"`) {
				t.Errorf("metadata = %s, want what it is without the headers: %s", a.body, plain.body)
			}
			b := h.browser(t)
			page := b.get(t, h.authURL(), forwarded...)
			if strings.Contains(page.body, "evil") {
				t.Error("the page holds a forwarded host")
			}
			f := formOn(t, page)
			signedIn := b.post(t, f.action, with(f.fields, rightPassword...), forwarded...)
			if i := slices.IndexFunc(signedIn.Cookies(), func(c *http.Cookie) bool { return c.Name == sessionCookie }); i < 0 || !signedIn.Cookies()[i].Secure {
				t.Errorf("cookies = %v, want %s with Secure", signedIn.Header["Set-Cookie"], sessionCookie)
			}
			if to := signedIn.Header.Get("Location"); to != h.authURL() {
				t.Errorf("Location = %q, want %q", to, h.authURL())
			}
			allowed := b.submit(t, b.get(t, h.authURL(), forwarded...), "decision", "allow")
			if iss := callback(t, allowed, http.StatusSeeOther).Query().Get("iss"); iss != publicURL {
				t.Errorf("iss = %q, want %q", iss, publicURL)
			}
		})
	}
	t.Run("do_not_make_a_plain_connection_a_secure_one", func(t *testing.T) {
		h := parallelHouse(t, at("http://127.0.0.1:8080"))
		a := h.get(t, "/login", header("X-Forwarded-Proto", "https"), header("Forwarded", "proto=https"))
		for _, c := range a.Cookies() {
			if c.Secure || strings.HasPrefix(c.Name, "__Host-") {
				t.Errorf("Set-Cookie: %s, want the cookie of a plain connection", c.Raw)
			}
		}
		if len(a.Cookies()) == 0 || a.Header.Get("Strict-Transport-Security") != "" {
			t.Errorf("headers = %v, want the form's cookie and no Strict-Transport-Security", a.Header)
		}
	})
}

// TestZoneOfAForwardedAddress sends addresses with a zone, which may be any text, from a
// trusted proxy: neither the log nor the audit log contains it.
//
// Promise (RFC 9110, RFC 9112): forwarding headers; a forged source address, its port or zone
func TestZoneOfAForwardedAddress(t *testing.T) {
	h := parallelHouse(t, func(c *handlers.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	address := h.listen(t)
	const form = "grant_type=password&client_id=moira"
	lines := h.recorded(t, func() {
		for _, forwarded := range []string{"fe80::7%evil", "fe80::7%evil level=ERROR msg=\"forged\"", "fe80::7%evil\u009b31m\u202e", "::ffff:203.0.113.9%evil", "fe80::7%" + strings.Repeat("evil", 1000)} {
			answers, _ := exchange(t, address, "POST "+tokenPath+" HTTP/1.1\r\nHost: pay.example\r\nConnection: close\r\nX-Forwarded-For: "+forwarded+
				"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: "+strconv.Itoa(len(form))+"\r\n\r\n"+form)
			if first(answers) != http.StatusUnauthorized {
				t.Fatalf("forwarded for %q: %d", forwarded, first(answers))
			}
			h.Clock.Advance(time.Minute) // the first refusal in a minute has a line of its own
		}
	})
	if len(lines) != 5 {
		t.Fatalf("%d lines in the audit record, want 5", len(lines))
	}
	for _, line := range lines {
		if source := line.Source; source != "fe80::7" && source != "203.0.113.9" {
			t.Errorf("source = %q, want the address alone", source)
		}
	}
	if log := h.log.String(); strings.Contains(log, "evil") || !strings.Contains(log, "fe80::7") {
		t.Errorf("the log has the zone, or not the address: %s", log)
	}
}
