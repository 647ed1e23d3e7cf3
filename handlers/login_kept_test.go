package handlers_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// location is where the tab is after a form was sent: a browser restores it by GET.
func location(t testing.TB, page answer) string {
	t.Helper()
	return formOn(t, page).action
}

// TestTheRequestIsKept from the application's link to the code, on every way that a person
// takes.
//
// Promise (Browsers): a refused sign-in, its reload, a restored tab and the way over a code keep
// the application's request; our addresses repeat no more of it than they must
func TestTheRequestIsKept(t *testing.T) {
	t.Parallel()
	arrives := func(t *testing.T, h *house, b *browser, a answer) {
		t.Helper()
		page := b.follow(t, a)
		if to := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther); to.Query().Get("state") != "kept & safe" || to.Query().Get("code") == "" {
			t.Errorf("Location = %q, want a code and the state", to)
		}
	}
	refuse := func(t *testing.T, b *browser, page answer) answer {
		t.Helper()
		a := b.submit(t, page, "username", "mara", "password", "not the password")
		if a.StatusCode != http.StatusOK || !strings.Contains(words(t, a), "do not match") {
			t.Fatalf("%d %s, want the form with a refusal", a.StatusCode, words(t, a))
		}
		return a
	}
	ways := map[string]func(t *testing.T, h *house, b *browser, page answer) answer{
		"refused": func(t *testing.T, h *house, b *browser, page answer) answer {
			return b.submit(t, refuse(t, b, page), rightPassword...)
		},
		"refused_and_reloaded": func(t *testing.T, h *house, b *browser, page answer) answer {
			refuse(t, b, page)
			return b.submit(t, refuse(t, b, page), rightPassword...) // a reload sends the same again
		},
		"refused_and_restored": func(t *testing.T, h *house, b *browser, page answer) answer {
			refuse(t, b, page)
			return b.submit(t, b.get(t, location(t, page)), rightPassword...)
		},
		"out_of_date_and_restored": func(t *testing.T, h *house, b *browser, page answer) answer {
			a := b.submit(t, page, "form_token", "x", "username", "mara", "password", "x")
			wantErrorPage(t, a, http.StatusForbidden)
			return b.submit(t, b.get(t, location(t, page)), rightPassword...)
		},
		"by_a_code": func(t *testing.T, h *house, b *browser, page answer) answer {
			return b.submitCode(t, h, b.get(t, linkOn(t, page, "I was given a code")))
		},
		"by_a_code_refused_and_restored": func(t *testing.T, h *house, b *browser, page answer) answer {
			form := b.get(t, linkOn(t, page, "I was given a code"))
			wantCodeRefused(t, b.submit(t, form, "username", "mara", "code", "x", "new_password", freshPassword, "repeat_password", freshPassword))
			return b.submitCode(t, h, b.get(t, location(t, form)))
		},
		"by_a_code_in_a_browser_of_another_user": func(t *testing.T, h *house, b *browser, page answer) answer {
			h.User(t, "nils", h.account)
			b.submitFresh(t, "/login", nilsPassword...)
			return b.submitCode(t, h, b.get(t, linkOn(t, page, "I was given a code")))
		},
		"to_the_code_page_and_back": func(t *testing.T, h *house, b *browser, page answer) answer {
			form := b.get(t, linkOn(t, page, "I was given a code"))
			return b.submit(t, b.get(t, linkOn(t, form, "Sign in")), rightPassword...)
		},
	}
	for name, walk := range ways {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t)
			b := h.browser(t)
			arrives(t, h, b, walk(t, h, b, b.get(t, h.authURL("state", "kept & safe"))))
		})
	}
	t.Run("a_page_of_ours_too", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.browser(t)
		page := b.get(t, "/login?to=account")
		if a := b.submit(t, b.get(t, location(t, refuse(t, b, page))), rightPassword...); a.Header.Get("Location") != "/account" {
			t.Errorf("Location = %q, want /account", a.Header.Get("Location"))
		}
		b = h.browser(t)
		form := b.get(t, linkOn(t, b.get(t, "/login?to=account"), "I was given a code"))
		if to := linkOn(t, form, "Sign in"); to != "/login?to=account" {
			t.Errorf("the code page leads to %q, want /login?to=account", to)
		}
	})
	t.Run("a_restored_tab_of_somebody_signed_in_goes_on", func(t *testing.T) {
		h := parallelHouse(t)
		at := location(t, h.browser(t).get(t, h.authURL()))
		h.isAsked(t, "signed in", h.signedIn(t, h.user).get(t, at))
	})
}

// submitCode sets mara's password by a code and signs in with it.
func (b *browser) submitCode(t testing.TB, h *house, form answer) answer {
	t.Helper()
	a := b.submit(t, form, "username", "mara", "code", h.codeFor(t, "mara"), "new_password", freshPassword, "repeat_password", freshPassword)
	page := b.follow(t, a)
	if text := words(t, page); !strings.Contains(text, "Your password is set. Sign in with it.") {
		t.Errorf("the sign-in page says %q, want that the password is set", text)
	}
	return b.submit(t, page, "username", "mara", "password", freshPassword)
}

// TestOurAddressesRepeatOnlyWhatHasAMeaning: the rest of the client's query is in no
// redirect and in no address of ours.
//
// Promise (Browsers): a refused sign-in, its reload, a restored tab and the way over a code keep
// the application's request; our addresses repeat no more of it than they must
func TestOurAddressesRepeatOnlyWhatHasAMeaning(t *testing.T) {
	h := parallelHouse(t)
	const secret = "very-private"
	b := h.browser(t)
	page := b.get(t, h.authURL("state", "s", "login_hint", secret, "nonce", secret, "x", strings.Repeat(secret, 100)))
	refused := b.submit(t, page, "username", "mara", "password", "x")
	a := b.submit(t, page, rightPassword...)
	consent := b.follow(t, a)
	for where, text := range map[string]string{
		"the sign-in form": page.body, "the refused form": refused.body, "the redirect": a.Header.Get("Location"), "the consent screen": consent.body,
		"the code": b.submit(t, consent, "decision", "allow").Header.Get("Location"),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s repeats the client's own parameters: %.300s", where, text)
		}
	}
	t.Run("a_code_comes_with_no_more_than_code_state_and_iss", func(t *testing.T) {
		q := callback(t, b.submit(t, consent, "decision", "allow"), http.StatusSeeOther).Query()
		delete(q, "code")
		if want := (url.Values{"state": {"s"}, "iss": {h.issuer}}); q.Encode() != want.Encode() {
			t.Errorf("the query has %v, want %v", q, want)
		}
	})
}

// TestAddressesThatOnlyTakePOST show people a page, and programs JSON.
//
// Promise (Browsers): GET of an address that only takes POST shows people a page
func TestAddressesThatOnlyTakePOST(t *testing.T) {
	h := parallelHouse(t, withDesk())
	olga := h.operator(t, "olga")
	b := h.signedIn(t, olga)
	methods := map[string][]string{"/api/webhook-endpoints/x/enable": {"POST"}, "/api/webhook-endpoints/x/test": {"POST"}}
	maps.Copy(methods, routes)
	for _, route := range h.server.DeskRoutes() {
		methods[route[1]] = append(methods[route[1]], route[0])
	}
	tried := 0
	for template, takes := range methods {
		if slices.Contains(takes, "GET") {
			continue
		}
		tried++
		target := h.deskTarget(template, olga)
		a := b.get(t, target, header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
		if wantErrorPage(t, a, http.StatusMethodNotAllowed); !strings.Contains(words(t, a), "There is nothing to see here") || a.Header.Get("Allow") == "" {
			t.Errorf("GET %s says %q, want a page for people", target, words(t, a))
		}
		if !strings.HasPrefix(target, "/desk") { // which has its navigation
			if linkOn(t, a, "Start page") != "/" {
				t.Errorf("GET %s has no link to the start page", target)
			}
			wantError(t, b.get(t, target), http.StatusMethodNotAllowed, "invalid_request")
		}
	}
	if tried < 20 {
		t.Errorf("%d addresses were tried, want all", tried)
	}
}
