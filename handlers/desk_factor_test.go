package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Guard §6): the desk confirms a change with the password and the second factor of who has
// one; a wrong one shows the form again, with what was typed, and does nothing
func TestDeskConfirmsWithTheSecondFactor(t *testing.T) {
	h, plain := deskHouse(t)
	b, secret := h.signedInWithApp(t, "olga")
	phone := app{secret.Reveal(), h.Clock.Now}
	page := "/desk/clients/" + h.client.ID
	if a := plain.get(t, page); a.StatusCode == http.StatusOK {
		t.Error("a sign-in without the second factor opens the desk")
	}
	h.Clock.Advance(time.Hour / 2)
	question := b.sent(t, page, "update-client", "name", "Renamed")
	wantStatus(t, question, http.StatusForbidden)
	to, fields := deskForm(t, question, "confirm")
	if !fields.Has("code") || fields.Get("name") != "Renamed" || strings.Contains(question.body, "data-webauthn") {
		t.Fatalf("the form has %v, want a code and what was typed", fields)
	}
	unchanged := func(a answer, status int, says string) {
		t.Helper()
		wantStatus(t, a, status)
		if _, again := deskForm(t, a, "confirm"); again.Get("name") != "Renamed" || again.Get("code") != "" {
			t.Errorf("the form has %v, want what was typed and no code", again)
		}
		if !strings.Contains(words(t, a), says) {
			t.Errorf("the page says %s, want %q", words(t, a), says)
		}
		if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); c.Name == "Renamed" {
			t.Error("the change was made")
		}
	}
	unchanged(b.post(t, to, with(fields, "password", "wrong", "code", phone.code())), http.StatusForbidden, "That is not your password.")
	unchanged(b.post(t, to, with(fields, "password", storetest.Password, "code", "")), http.StatusForbidden, "Your second factor is missing.")
	lines := h.recorded(t, func() {
		unchanged(b.post(t, to, with(fields, "password", storetest.Password, "code", phone.wrong())), http.StatusForbidden, "That code is not valid.")
	})
	if len(lines) != 1 || lines[0].What != store.AuditLoginRefused || lines[0].Reason != store.WrongAppCode {
		t.Errorf("the record has %+v, want a refused code", lines)
	}
	code, before := phone.code(), b.cookie(sessionCookie)
	wantStatus(t, b.post(t, to, with(fields, "password", storetest.Password, "code", code)), http.StatusSeeOther)
	if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); c.Name != "Renamed" || b.cookie(sessionCookie) == before {
		t.Errorf("the client is %q, and the session has a new id: %t", c.Name, b.cookie(sessionCookie) != before)
	}
	wantStatus(t, b.sent(t, page, "update-client", "name", "Renamed"), http.StatusSeeOther)
	kept := h.log.String() + h.admin(t, "GET", "/api/platform/audit?limit=1000", "").body + h.admin(t, "GET", "/api/platform/users", "").body + b.get(t, "/desk/users/"+h.UserID(t, "olga")).body
	for _, canary := range []string{phone.secret, `"` + code + `"`, "=" + code, storetest.Password} {
		if strings.Contains(kept, canary) {
			t.Errorf("the log, the audit record or a page has %s", canary)
		}
	}

	t.Run("the_code_is_spent", func(t *testing.T) {
		h.Clock.Advance(time.Hour / 2)
		question := b.sent(t, page, "update-client", "name", "Again")
		to, fields := deskForm(t, question, "confirm")
		wantStatus(t, b.post(t, to, with(fields, "password", storetest.Password, "code", code)), http.StatusForbidden)
	})
}

// TestDeskConfirmsWithARecoveryCode: who has lost the phone confirms changes too, once with each code.
func TestDeskConfirmsWithARecoveryCode(t *testing.T) {
	h, _ := deskHouse(t)
	done, _ := h.SetUpApp(t, "olga")
	b := h.browser(t)
	b.setCookie(b.sessionCookie(), done.Session.Reveal())
	for _, status := range []int{http.StatusSeeOther, http.StatusForbidden} {
		h.Clock.Advance(time.Hour / 2)
		to, fields := deskForm(t, b.sent(t, "/desk/clients/"+h.client.ID, "update-client", "name", "Renamed"), "confirm")
		wantStatus(t, b.post(t, to, with(fields, "password", storetest.Password, "code", strings.ToUpper(done.RecoveryCodes[0].Reveal()))), status)
	}
}

// TestDeskCountsWrongCodes: codes at the desk are no way around the count of the sign-in.
func TestDeskCountsWrongCodes(t *testing.T) {
	h, _ := deskHouse(t)
	b, secret := h.signedInWithApp(t, "olga")
	phone := app{secret.Reveal(), h.Clock.Now}
	h.Clock.Advance(time.Hour / 2)
	to, fields := deskForm(t, b.sent(t, "/desk/clients/"+h.client.ID, "update-client", "name", "Renamed"), "confirm")
	for range 5 {
		wantStatus(t, b.post(t, to, with(fields, "password", storetest.Password, "code", phone.wrong())), http.StatusForbidden)
	}
	a := b.post(t, to, with(fields, "password", storetest.Password, "code", phone.code()))
	wantStatus(t, a, http.StatusTooManyRequests)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// Promise (Guard §6): with --second-factor operators or all the desk opens to no operator without one
func TestDeskNeedsTheSecondFactor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy store.SecondFactor
		opens  bool
	}{{store.FactorOffered, true}, {store.FactorOperators, false}, {store.FactorAll, false}, {store.FactorOff, true}} {
		t.Run(c.policy.String(), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, withDesk())
			b := h.signedIn(t, h.operator(t, "olga")) // before the setting was raised
			h.raise(t, c.policy, withDesk())
			if a := b.get(t, "/desk"); (a.StatusCode == http.StatusOK) != c.opens {
				t.Errorf("the desk answers %d", a.StatusCode)
			}
		})
	}
}

// TestDeskAsksForAPasskey: an operator with a passkey of this host is asked for it in the same form,
// whose code may then stay empty. A refused one does nothing.
func TestDeskAsksForAPasskey(t *testing.T) {
	h, _ := deskHouse(t)
	done := h.SetUpPasskey(t, "olga", store.Passkey{ID: []byte("key one"), Key: []byte("cose"), Name: "Phone", RPID: "pay.example"})
	b := h.browser(t)
	b.setCookie(b.sessionCookie(), done.Session.Reveal())
	h.Clock.Advance(time.Hour / 2)
	question := b.sent(t, "/desk/clients/"+h.client.ID, "update-client", "name", "Renamed")
	to, fields := deskForm(t, question, "confirm")
	if attributeOn(t, question, "data-webauthn") != "get" || !strings.Contains(attributeOn(t, question, "data-options"), `"challenge"`) || !fields.Has("credential") || !fields.Has("setup") {
		t.Fatalf("the form has %v, want to ask for a passkey", fields)
	}
	if policy := question.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self'") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
		t.Errorf("the policy is %s", policy)
	}
	a := b.post(t, to, with(fields, "password", storetest.Password, "credential", `{"id":"a2V5IG9uZQ"}`))
	wantStatus(t, a, http.StatusForbidden)
	if _, again := deskForm(t, a, "confirm"); again.Get("name") != "Renamed" || again.Get("credential") != "" {
		t.Errorf("the form has %v, want what was typed and no passkey", again)
	}
	if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); c.Name == "Renamed" {
		t.Error("the change was made")
	}
}
