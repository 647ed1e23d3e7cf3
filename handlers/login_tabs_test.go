package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest"
)

var nilsPassword = []string{"username", "nils", "password", storetest.Password}

// wantShownAgain fails the test unless the answer is the form for the same request, with a
// token that works and without the password.
func wantShownAgain(t *testing.T, b *browser, a answer, query string) answer {
	t.Helper()
	wantErrorPage(t, a, http.StatusForbidden)
	f := formOn(t, a)
	if f.fields.Get("query") != query || f.fields.Get("password") != "" || strings.Contains(a.body, storetest.Password) {
		t.Errorf("the form has %v, want the request and no password", f.fields)
	}
	return b.submit(t, a, nilsPassword...)
}

// TestFormsOfOtherTabs: a name and a password that somebody typed are judged, whatever
// happened in other tabs.
//
// Promise (Browsers): a typed name and password are judged, whatever happened in other tabs; a form
// that cannot be judged is shown again with its request, without the password
func TestFormsOfOtherTabs(t *testing.T) {
	t.Parallel()
	before := map[string]func(h *house, b *browser){ // what another tab did
		"nothing": func(*house, *browser) {},
		"another user signed in": func(h *house, b *browser) {
			b.submitFresh(t, "/login", rightPassword...)
		},
		"another user signed in and out": func(h *house, b *browser) {
			b.submitFresh(t, "/login", rightPassword...)
			b.submit(t, b.get(t, "/"))
		},
		"signed out and in again": func(h *house, b *browser) {
			b.submitFresh(t, "/login", rightPassword...)
			b.submit(t, b.get(t, "/"))
			b.submitFresh(t, "/login", rightPassword...)
		},
		"the session ended": func(h *house, b *browser) {
			b.submitFresh(t, "/login", rightPassword...)
			if _, err := h.SetPassword(t.Context(), "mara", storetest.Password); err != nil {
				t.Fatal(err)
			}
		},
	}
	targets := map[string]func(h *house) (target, leadsTo string){
		"a request":            func(h *house) (string, string) { return h.authURL("state", "s"), h.authURL("state", "s") },
		"prompt=login":         func(h *house) (string, string) { return h.authURL("prompt", "login"), h.authURL() },
		"max_age":              func(h *house) (string, string) { return h.authURL("max_age", "0"), h.authURL() },
		"the start page":       func(*house) (string, string) { return "/login", "/" },
		"the account page":     func(*house) (string, string) { return "/login?to=account", "/account" },
		"the desk, for nobody": func(*house) (string, string) { return "/login?to=desk", "/" },
	}
	for doing, act := range before {
		for what, of := range targets {
			t.Run(what+"_after_"+doing, func(t *testing.T) {
				h := parallelHouse(t)
				h.User(t, "nils", h.account)
				target, leadsTo := of(h)
				b := h.browser(t)
				page := b.get(t, target)
				act(h, b)
				session := b.cookie(sessionCookie)
				lines := h.recorded(t, func() {
					a := b.submit(t, page, "username", "nils", "password", "not the password")
					if a.StatusCode != http.StatusOK || !strings.Contains(words(t, a), "That username and password do not match.") || b.cookie(sessionCookie) != session {
						t.Errorf("a wrong password gives %d %s, want the refusal and the session of before", a.StatusCode, words(t, a))
					}
				})
				if len(lines) != 1 || lines[0].What != store.AuditLoginRefused {
					t.Errorf("audit lines %+v, want the refusal", lines)
				}
				a := b.submit(t, page, nilsPassword...)
				if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != leadsTo {
					t.Errorf("the right password gives %d to %q, want 303 to %q", a.StatusCode, to, leadsTo)
				}
				if now := b.cookie(sessionCookie); now == session || session != "" && h.sessionLives(t, session) {
					t.Error("the sign-in kept the cookie of the session before, or its session lives on")
				}
				if text := words(t, b.get(t, "/")); !strings.Contains(text, "Signed in as nils") {
					t.Errorf("the start page says %q, want nils signed in", text)
				}
			})
		}
	}
}

// TestRememberedConsentIsOfWhoSignedIn: the code is of the user whose name was typed last.
//
// Promise (Browsers): a typed name and password are judged, whatever happened in other tabs; a form
// that cannot be judged is shown again with its request, without the password
func TestRememberedConsentIsOfWhoSignedIn(t *testing.T) {
	h, _ := rememberingHouse(t)
	nils := h.User(t, "nils", h.account)
	h.signedIn(t, nils).allows(t, h.authURL())
	b := h.browser(t)
	first, second := b.get(t, h.authURL()), b.get(t, h.authURL())
	h.isLetThrough(t, b.follow(t, b.submit(t, first, rightPassword...)))
	p := wantPair(t, h.token(t, h.codeForm(h.isLetThrough(t, b.follow(t, b.submit(t, second, nilsPassword...))))))
	if a := h.introspect(t, p.AccessToken); !strings.Contains(a.body, `"username":"nils"`) {
		t.Errorf("the token is %s, want that of nils", a.body)
	}
}

// TestFormsThatCannotBeJudged are shown again, with the request.
//
// Promise (Browsers): a typed name and password are judged, whatever happened in other tabs; a form
// that cannot be judged is shown again with its request, without the password
func TestFormsThatCannotBeJudged(t *testing.T) {
	for name, signedIn := range map[string]bool{"signed_in": true, "signed_out": false} {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t)
			h.User(t, "nils", h.account)
			page := h.browser(t).get(t, h.authURL("state", "s"))
			query := formOn(t, page).fields.Get("query")
			b := h.browser(t) // whose cookie is gone
			if signedIn {
				b = h.signedIn(t, h.user)
			}
			session := b.cookie(sessionCookie)
			again := b.submit(t, page, nilsPassword...)
			if b.cookie(sessionCookie) != session {
				t.Error("a form that cannot be judged changed the sign-in")
			}
			if got := formOn(t, again).fields.Get("username"); got != "nils" {
				t.Errorf("the username field holds %q, want what was typed", got)
			}
			a := wantShownAgain(t, b, again, query)
			if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != h.authURL("state", "s") {
				t.Errorf("sent again it gives %d to %q, want 303 to the request", a.StatusCode, a.Header.Get("Location"))
			}
			if text := words(t, b.get(t, h.authURL())); !strings.Contains(text, "Signed in as nils") {
				t.Errorf("the consent screen says %q, want nils", text)
			}
		})
	}
	t.Run("but_of_another_site_are_refused", func(t *testing.T) {
		h := parallelHouse(t)
		page := h.browser(t).get(t, h.authURL())
		a := h.browser(t).post(t, "/login", with(formOn(t, page).fields, nilsPassword...), header("Sec-Fetch-Site", "cross-site"))
		if wantErrorPage(t, a, http.StatusForbidden); strings.Contains(a.body, "<form") {
			t.Error("the page has a form")
		}
	})
	t.Run("a_code_is_not_repeated", func(t *testing.T) {
		h := parallelHouse(t)
		code := h.codeFor(t, "mara")
		a := h.browser(t).setPassword(t, "mara", code, "form_token", "x")
		wantErrorPage(t, a, http.StatusForbidden)
		if f := formOn(t, a).fields; f.Get("username") != "mara" || f.Get("code") != "" || strings.Contains(a.body, code) {
			t.Errorf("the form has %v, want the name alone", f)
		}
	})
}

// TestConsentOfAnotherSignIn: the question comes again for whoever is signed in now.
//
// Promise (Browsers): a consent form of another sign-in asks whoever is signed in now, if that
// sign-in is recent enough for max_age; no page denies what an earlier answer allowed
func TestConsentOfAnotherSignIn(t *testing.T) {
	h := parallelHouse(t)
	h.User(t, "nils", h.account)
	b := h.signedIn(t, h.user)
	page := b.get(t, h.authURL("state", "s"))
	b.submitFresh(t, h.authURL("prompt", "login"), nilsPassword...)
	again := b.submit(t, page, "decision", "allow")
	wantErrorPage(t, again, http.StatusForbidden)
	if text := words(t, again); !strings.Contains(text, "Signed in as nils") || !strings.Contains(text, "This answer changed nothing.") {
		t.Errorf("the page says %q, want the question for nils", text)
	}
	if h.Count(t, 'k') != 0 {
		t.Error("a code was made, want none")
	}
	if to := callback(t, b.submit(t, again, "decision", "allow"), http.StatusSeeOther); to.Query().Get("state") != "s" || to.Query().Get("code") == "" {
		t.Errorf("Location = %q, want a code and the state", to)
	}
	page = b.get(t, h.authURL("state", "s"))
	b.submit(t, b.get(t, "/"))
	signIn := b.submit(t, page, "decision", "allow")
	wantErrorPage(t, signIn, http.StatusForbidden)
	if a := b.submit(t, signIn, rightPassword...); a.Header.Get("Location") != h.authURL("state", "s") {
		t.Errorf("after a sign-out Allow, then a sign-in lead to %q, want the request", a.Header.Get("Location"))
	}
}

// TestNoPageDeniesWhatWasAllowed: Allow on a page that was left open says nothing untrue
// about the first answer.
//
// Promise (Browsers): a consent form of another sign-in asks whoever is signed in now, if that
// sign-in is recent enough for max_age; no page denies what an earlier answer allowed
func TestNoPageDeniesWhatWasAllowed(t *testing.T) {
	for name, then := range map[string]func(h *house, b *browser){
		"signed_out":      func(_ *house, b *browser) { b.submit(t, b.get(t, "/")) },
		"another_sign_in": func(h *house, b *browser) { b.submitFresh(t, h.authURL("prompt", "login"), rightPassword...) },
		"half_an_hour":    func(h *house, _ *browser) { h.Clock.Advance(30 * time.Minute) },
		"max_age_is_over": func(h *house, b *browser) {
			b.submitFresh(t, h.authURL("prompt", "login"), rightPassword...)
			h.Clock.Advance(time.Minute)
		},
		"after_a_redeemed": func(*house, *browser) {},
	} {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t)
			b := h.signedIn(t, h.user)
			page := b.get(t, h.authURL("max_age", "60"))
			code := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther).Query().Get("code")
			wantPair(t, h.token(t, h.codeForm(code)))
			then(h, b)
			a := b.submit(t, page, "decision", "allow")
			if text := words(t, a); a.Header.Get("Location") != "" || strings.Contains(strings.ToLower(text), "nothing was allowed") {
				t.Errorf("the page says %d %q, want nothing that denies the first answer", a.StatusCode, text)
			}
		})
	}
}

// TestConsentOfAnOldSignIn: a request with max_age is not put to somebody else whose sign-in
// is older.
//
// Promise (Browsers): a consent form of another sign-in asks whoever is signed in now, if that
// sign-in is recent enough for max_age; no page denies what an earlier answer allowed
func TestConsentOfAnOldSignIn(t *testing.T) {
	h := parallelHouse(t)
	h.User(t, "nils", h.account)
	b := h.signedIn(t, h.user)
	page := b.get(t, h.authURL("max_age", "60"))
	b.submitFresh(t, h.authURL("prompt", "login"), nilsPassword...)
	h.Clock.Advance(time.Minute)
	signIn := b.submit(t, page, "decision", "allow")
	wantErrorPage(t, signIn, http.StatusForbidden)
	if text := words(t, signIn); !strings.Contains(text, "asks for a recent sign-in. This answer changed nothing.") {
		t.Errorf("the page says %q, want the sign-in form", text)
	}
	to := b.follow(t, b.submit(t, signIn, nilsPassword...))
	if text := words(t, to); to.StatusCode != http.StatusOK || !strings.Contains(text, "Signed in as nils") {
		t.Errorf("after the sign-in comes %d %q, want the question", to.StatusCode, text)
	}
}

// TestAccountFormsOfAnotherSignIn change nothing and show the page of who is signed in now.
//
// Promise (Browsers): a typed name and password are judged, whatever happened in other tabs; a form
// that cannot be judged is shown again with its request, without the password
func TestAccountFormsOfAnotherSignIn(t *testing.T) {
	h := parallelHouse(t)
	h.User(t, "nils", h.account)
	b := h.signedIn(t, h.user)
	form := b.passwordForm(t, storetest.Password, freshPassword)
	b.submitFresh(t, h.authURL("prompt", "login"), nilsPassword...)
	a := b.post(t, accountPassword, form)
	wantErrorPage(t, a, http.StatusForbidden)
	if text := words(t, a); !strings.Contains(text, "nils") || !strings.Contains(text, "Nothing was changed.") || strings.Contains(a.body, freshPassword) {
		t.Errorf("the page says %q, want the account of nils", text)
	}
	fresh := url.Values{}
	for _, f := range formsOn(t, a) {
		if f.action == accountPassword {
			fresh = f.fields
		}
	}
	if a := b.post(t, accountPassword, with(fresh, "current_password", storetest.Password, "new_password", freshPassword, "repeat_password", freshPassword)); a.StatusCode != http.StatusSeeOther {
		t.Errorf("the form shown again gives %d %s, want 303", a.StatusCode, words(t, a))
	}
}
