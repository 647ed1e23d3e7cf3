package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestTwoInstancesOnOneHost: a browser shares cookies among ports, and __Host- cookies among
// paths. Neither instance signs people out of the other, or breaks its open forms.
//
// Promise (Browsers): instances on ports and paths of one host share no cookie
func TestTwoInstancesOnOneHost(t *testing.T) {
	t.Parallel()
	for name, at2 := range map[string][2]string{
		"ports on https":          {"https://pay.example", "https://pay.example:8443"},
		"two ports on https":      {"https://pay.example:9443", "https://pay.example:8443"},
		"a path on https":         {"https://pay.example", "https://pay.example/eu"},
		"two paths on https":      {"https://pay.example/us", "https://pay.example/eu"},
		"a path in a path":        {"https://pay.example/us", "https://pay.example/us/form"},
		"a path called form":      {"https://pay.example", "https://pay.example/form"},
		"a path like a port":      {"https://pay.example:8443", "https://pay.example/8443"},
		"ports on http":           {"http://127.0.0.1:8080", "http://127.0.0.1:8081"},
		"a path on http":          {"http://127.0.0.1:8080", "http://127.0.0.1:8080/eu"},
		"paths of odd characters": {"http://127.0.0.1:8080/a.b", "http://127.0.0.1:8080/a/b"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			one, two := parallelHouse(t, at(at2[0])), newHouse(t, at(at2[1]))
			b := one.browser(t)
			other := &browser{h: two, jar: b.jar, site: must.Get(url.Parse(two.issuer))(t)}
			b.site = must.Get(url.Parse(one.issuer))(t)
			b.site.Path, other.site.Path = "/", "/"
			path := func(h *house, p string) string { return must.Get(url.Parse(h.issuer))(t).Path + p }

			form, otherForm := b.get(t, path(one, "/login")), other.get(t, path(two, "/login"))
			for _, step := range []struct {
				b *browser
				a answer
			}{{b, form}, {other, otherForm}} {
				if a := step.b.submit(t, step.a, rightPassword...); a.StatusCode != http.StatusSeeOther {
					t.Fatalf("%s: sign-in gives %d %s", step.b.h.issuer, a.StatusCode, words(t, a))
				}
			}
			for _, of := range []*browser{b, other} {
				page := of.get(t, path(of.h, "/"))
				if !strings.Contains(words(t, page), "Signed in as mara") {
					t.Errorf("%s: nobody is signed in any more", of.h.issuer)
				}
				if of == b {
					of.submit(t, page) // sign out of the first
				}
			}
			if text := words(t, other.get(t, path(two, "/"))); !strings.Contains(text, "Signed in as mara") {
				t.Errorf("a sign-out at %s ended the sign-in at %s", one.issuer, two.issuer)
			}
		})
	}
}

// TestSignOutBesideAnotherInstance: a sign-out form that is sent again leads to the start
// page, also where the browser has the cookie of another instance.
//
// Promise (Browsers): instances on ports and paths of one host share no cookie
func TestSignOutBesideAnotherInstance(t *testing.T) {
	t.Parallel()
	one, two := newHouse(t, at("https://pay.example")), newHouse(t, at("https://pay.example:8443"))
	b := one.browser(t)
	b.submitFresh(t, "/login", rightPassword...)
	other := &browser{h: two, jar: b.jar, site: must.Get(url.Parse(two.issuer + "/"))(t)}
	other.submitFresh(t, "/login", rightPassword...)
	page := other.get(t, "/")
	for range 2 {
		if a := other.submit(t, page); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
			t.Errorf("signing out gives %d %s, want 303 to the start page", a.StatusCode, words(t, a))
		}
	}
	if text := words(t, b.get(t, "/")); !strings.Contains(text, "Signed in as mara") {
		t.Errorf("the start page of the other instance says %q, want mara signed in", text)
	}
}
