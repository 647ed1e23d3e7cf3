package handlers_test

import (
	"strings"
	"testing"

	"tollhouse/store/storetest"
)

// TestBrowsersHaveNames: the account page and the desk name the browsers that are signed in, also
// after a new password; one that sends anything else is unknown.
//
// Promise (Browsers): signed-in browsers are listed by name, in our own words
func TestBrowsersHaveNames(t *testing.T) {
	h, operator := deskHouse(t)
	firefox := header("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	b := h.browser(t)
	page := b.get(t, "/login")
	form := formOn(t, page)
	b.post(t, "/login", with(form.fields, "username", "mara", "password", storetest.Password), firefox)
	h.signedIn(t, h.user)
	for _, when := range []string{"after the sign-in", "after a new password"} {
		if text := words(t, b.get(t, accountPath)); !strings.Contains(text, "Firefox on Linux this browser") || !strings.Contains(text, "Another browser") {
			t.Errorf("%s the account page says %s", when, text)
		}
		for _, path := range []string{"/desk/access", "/desk/users/" + h.user.Subject()} {
			if text := words(t, operator.get(t, path)); !strings.Contains(text, "Firefox on Linux") || !strings.Contains(text, "Unknown browser") {
				t.Errorf("%s %s says %s", when, path, text)
			}
		}
		if when == "after the sign-in" {
			change := b.passwordForm(t, storetest.Password, "several unrelated words")
			change.Del("end_all")
			b.post(t, accountPath+"/password", change)
		}
	}
}
