package handlers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestAccountForgery: the page's forms work only in the browser that it was shown in.
//
// Promise (RFC 6749 §10): a form without its own token, or cross-site, is refused and issues
// nothing
func TestAccountForgery(t *testing.T) {
	h := parallelHouse(t)
	p := h.pair(t)
	victim, elsewhere := h.signedIn(t, h.user), h.signedIn(t, h.user)
	own := with(victim.passwordForm(t, storetest.Password, freshPassword), "client_id", h.client.ID)
	ofElsewhere := elsewhere.accountForms(t)[accountPassword].Get("form_token")
	ofNils := h.signedIn(t, h.User(t, "nils", h.account)).accountForms(t)[accountPassword].Get("form_token")
	signOut := victim.accountForms(t)["/logout"].Get("form_token")
	for _, path := range []string{accountRevoke, accountOthers, accountPassword} {
		route := strings.ReplaceAll(strings.TrimPrefix(path, "/account/"), "-", "_")
		for name, forge := range map[string]func() answer{
			"without_a_token":                   func() answer { return victim.post(t, path, without(own, "form_token")) },
			"with_the_token_of_another_sign_in": func() answer { return victim.post(t, path, with(own, "form_token", ofElsewhere)) },
			"with_the_token_of_another_user":    func() answer { return victim.post(t, path, with(own, "form_token", ofNils)) },
			"with_the_token_that_signs_out":     func() answer { return victim.post(t, path, with(own, "form_token", signOut)) },
			"with_a_token_bent_by_one_character": func() answer {
				return victim.post(t, path, with(own, "form_token", storetest.Bent(own.Get("form_token"))))
			},
			"from_another_site": func() answer {
				return victim.post(t, path, own, header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example"))
			},
			"from_a_sibling_site": func() answer {
				return victim.post(t, path, own, header("Sec-Fetch-Site", "same-site"), header("Origin", "https://evil.pay.example"))
			},
			"from_another_origin_without_sec_fetch": func() answer {
				return victim.post(t, path, own, header("Sec-Fetch-Site", ""), header("Origin", "https://evil.example"))
			},
		} {
			t.Run(route+"_"+name, func(t *testing.T) {
				a := forge()
				wantErrorPage(t, a, http.StatusForbidden)
				if len(a.Cookies()) > 0 {
					t.Errorf("cookies %v are set, want none", a.Cookies())
				}
			})
		}
		t.Run(route+"_by_GET_is_refused", func(t *testing.T) {
			wantError(t, victim.get(t, path+"?"+own.Encode()), http.StatusMethodNotAllowed, "invalid_request")
		})
		t.Run(route+"_without_a_sign_in_leads_to_one", func(t *testing.T) {
			if a := h.browser(t).post(t, path, own); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login?to=account" {
				t.Errorf("%d to %q, want 303 to the sign-in", a.StatusCode, a.Header.Get("Location"))
			}
		})
	}
	victim.accountForms(t)
	elsewhere.accountForms(t)
	h.familyLives(t, p)
	if _, err := h.AuthenticateUser(context.Background(), secret.Caller{}, "mara", storetest.Password); err != nil {
		t.Errorf("a forged form changed the password: %v", err)
	}
}

// TestAccountAfterASignInEnds: a page left open has no effect under another sign-in of
// the same browser.
func TestAccountAfterASignInEnds(t *testing.T) {
	h := parallelHouse(t)
	p := h.pair(t)
	b := h.signedIn(t, h.user)
	left := with(b.accountForms(t)[h.client.ID])
	token, _, err := h.CreateSession(context.Background(), store.By{}, h.user, secret.Token{}, "")
	must.Do(t, err)
	b.setCookie(sessionCookie, token.Reveal())
	wantErrorPage(t, b.post(t, accountRevoke, left), http.StatusForbidden)
	h.familyLives(t, p)
}
