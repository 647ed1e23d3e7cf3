package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// TestPasswordsAreOneInEverySpelling at every door: a phone composes letters, another
// keyboard does not, and a third has its own space.
//
// Promise (RFC 6749 §4): a password is one however a keyboard composes it; a hash of what was typed
// still matches; the cost is the same for every name
func TestPasswordsAreOneInEverySpelling(t *testing.T) {
	const composed, apart = "caf\u00e9 caf\u00e9 \U0001F469\u200D\U0001F4BB", "cafe\u0301\u00a0cafe\u0301 \U0001F469\u200D\U0001F4BB"
	h, _ := deskHouse(t)
	if a := h.browser(t).setPassword(t, "mara", h.codeFor(t, "mara"), "new_password", apart, "repeat_password", composed); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("a new password by a code = %d %s", a.StatusCode, words(t, a))
	}
	for _, typed := range []string{composed, apart} {
		wantPair(t, h.token(t, with(h.passwordForm(), "password", typed)))
		b := h.browser(t)
		if a := b.submit(t, b.get(t, "/login"), "username", "mara", "password", typed); a.StatusCode != http.StatusSeeOther {
			t.Errorf("the sign-in form with %+q = %d, want 303", typed, a.StatusCode)
		}
		form := b.accountForms(t)[accountPassword]
		a := b.post(t, accountPassword, with(form, "current_password", composed, "new_password", apart, "repeat_password", apart))
		if !strings.Contains(words(t, a), "That is your current password.") {
			t.Errorf("the account page takes another spelling for a new password: %d %s", a.StatusCode, words(t, a))
		}
		b.wantDone(t, b.post(t, accountPassword, with(form, "current_password", typed, "new_password", "another long phrase", "repeat_password", "another long phrase")), "Your password was changed.")
		form = b.accountForms(t)[accountPassword]
		b.wantDone(t, b.post(t, accountPassword, with(form, "current_password", "another long phrase", "new_password", typed, "repeat_password", typed)), "Your password was changed.")
	}
	olga := must.Get(h.SetPassword(t.Context(), "olga", composed))(t)
	b := h.signedIn(t, olga)
	h.Clock.Advance(16 * time.Minute)
	asked := b.sent(t, "/desk/clients/"+h.client.ID, "disable")
	wantStatus(t, asked, http.StatusForbidden)
	action, again := deskForm(t, asked, "confirm")
	wantStatus(t, b.post(t, action, with(again, "password", apart)), http.StatusSeeOther)
}
