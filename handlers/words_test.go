package handlers_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
)

// TestWords: the screens use the terms of the field.
func TestWords(t *testing.T) {
	const dev = "http://127.0.0.1:8080"
	h := parallelHouse(t)
	h.pair(t)
	user, stranger := h.signedIn(t, h.user), h.browser(t)
	d := newHouse(t, at(dev), func(c *handlers.Config) {
		c.Demo = &web.Demo{ClientID: "demo", ClientSecret: "tollcs_demo", Username: "mara", Password: storetest.Password, RedirectURI: "http://127.0.0.1/callback"}
	})
	onDev := func(path string) answer {
		return d.get(t, path, func(r *http.Request) { r.Host = "127.0.0.1:8080" })
	}
	wrong := user.post(t, accountPassword, with(user.passwordForm(t, "not the password", freshPassword)))
	busy := func() answer {
		h.Faults.Break(record.ErrUnavailable)
		defer h.Faults.Repair()
		return user.get(t, "/account", header("Accept", "text/html"))
	}
	for _, c := range []struct {
		name string
		page answer
		want []string
	}{
		{"start_page", stranger.get(t, "/"), []string{"Sign in", "Service status", "API reference"}},
		{"start_page_of_dev", onDev("/"), []string{"Test instance Everything is in memory and gone when it stops.", "Try what an application’s user sees"}},
		{"sign_in", stranger.get(t, h.authURL()), []string{"I was given a code"}},
		{"sign_in_of_dev", onDev("/login"), []string{"Demo sign-in: mara , password " + storetest.Password}},
		{"consent", user.get(t, h.authURL()), []string{"Returns you to"}},
		{"account", user.get(t, "/account"), []string{"Applications with access", "Access", "Current password", "Confirm new password"}},
		{"a_wrong_password_there", wrong, []string{"That is not your current password."}},
		{"new_password", stranger.get(t, newPasswordPath), []string{"Confirm new password"}},
		{"allowed", onDev("/callback?code=x"), []string{"Signed in: here is the code"}},
		{"denied", onDev("/callback?error=access_denied"), []string{"Not allowed: here is the error"}},
		{"a_broken_link", stranger.get(t, authPath+"?client_id=%zz", header("Accept", "text/html")), []string{"This sign-in link is not valid"}},
		{"busy", busy(), []string{"The server is busy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := words(t, c.page)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the page lacks %q: %d %s", want, c.page.StatusCode, text)
				}
			}
		})
	}
}

// TestStrangersReadNothingOfOperators: no public page speaks of operators or their pages.
func TestStrangersReadNothingOfOperators(t *testing.T) {
	h, _ := deskHouse(t)
	said := regexp.MustCompile(`(?i)operator|\bdesk\b|tollhouse (user|client|serve|backup)`)
	for _, path := range []string{"/", "/login", "/login?to=desk", newPasswordPath, "/desk", "/nothing", "/callback", authPath, h.authURL(), "/docs", "/docs/oauth", "/docs/events", "/docs/resources", "/docs/webhooks", "/docs/deliveries", "/docs/service", "/docs/pages", "/openapi.json"} {
		page := h.get(t, path, header("Accept", "text/html,*/*"))
		text := page.body
		if isPage(page) {
			text = words(t, page)
		}
		if found := said.FindString(text); found != "" {
			t.Errorf("%s says %q", path, found)
		}
	}
}
