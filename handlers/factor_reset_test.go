package handlers_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// signedInWithApp gives a user an app, and returns a browser that is signed in with it.
func (h *house) signedInWithApp(t testing.TB, name string) (*browser, secret.AppSecret) {
	t.Helper()
	done, app := h.SetUpApp(t, name)
	b := h.browser(t)
	b.setCookie(b.sessionCookie(), done.Session.Reveal())
	return b, app
}

// attributeOn returns the value of the first attribute with that name.
func attributeOn(t testing.TB, page answer, name string) string {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Type == html.ElementNode && strings.Contains(page.body, name) {
			for _, a := range n.Attr {
				if a.Key == name {
					return a.Val
				}
			}
		}
	}
	t.Fatalf("nothing on the page has the attribute %s", name)
	return ""
}

// shownFactor is what the API tells of a user's second factor.
type shownFactor struct {
	SecondFactor  []string `json:"second_factor"`
	RecoveryCodes int      `json:"recovery_codes"`
}

// Promise (Guard §1): a user in JSON has second_factor and recovery_codes, in this order; [] and 0
// without
func TestUsersShowTheirSecondFactor(t *testing.T) {
	h := parallelHouse(t)
	path := "/api/platform/users/" + h.user.Subject()
	want := func(members string) {
		t.Helper()
		for _, path := range []string{path, "/api/platform/users"} {
			if a := h.admin(t, "GET", path, ""); !regexp.MustCompile(`,"created_at":[0-9]+(,"last_sign_in":[0-9]+)?,` + regexp.QuoteMeta(members) + `}`).MatchString(a.body) {
				t.Errorf("%s = %s, want %s", path, a.body, members)
			}
		}
	}
	want(`"second_factor":[],"recovery_codes":0`)
	h.SetUpApp(t, "mara")
	want(`"second_factor":["totp"],"recovery_codes":10`)
	key := store.Passkey{ID: []byte("key one"), Key: []byte("cose"), Name: "Phone", RPID: "pay.example"}
	h.SetUpPasskey(t, "mara", key)
	want(`"second_factor":["totp","passkey"],"recovery_codes":10`)
	must.Get(h.ResetSecondFactor(t.Context(), "mara"))(t)
	want(`"second_factor":[],"recovery_codes":0`)
	h.SetUpPasskey(t, "mara", key)
	want(`"second_factor":["passkey"],"recovery_codes":10`)
}

// Promise (Guard §6): a platform client with users:recover resets a second factor, never an
// operator's; it ends the sign-ins, and repeated it changes nothing
func TestPlatformResetsSecondFactors(t *testing.T) {
	h := parallelHouse(t)
	b, _ := h.signedInWithApp(t, "mara")
	recovers := newPlatform(t, h, "users:recover").access(t)
	p := h.issued(t)
	reset := func(u store.User) answer {
		return h.call(t, recovers, "POST", "/api/platform/users/"+u.Subject()+"/reset-second-factor", "")
	}
	var shown struct {
		shownFactor
		UserID string `json:"user_id"`
	}
	for range 2 {
		a := reset(h.user)
		if a.StatusCode != http.StatusOK || json.Unmarshal([]byte(a.body), &shown) != nil || len(shown.SecondFactor) > 0 || shown.UserID != h.user.Subject() {
			t.Fatalf("reset = %d %s, want the user without a second factor", a.StatusCode, a.body)
		}
	}
	if a := b.get(t, accountPath); a.StatusCode != http.StatusSeeOther {
		t.Errorf("the browser is still signed in: %d", a.StatusCode)
	}
	if !h.accessLives(t, p) {
		t.Error("the tokens of applications ended")
	}
	if n := len(h.audited(t, "reset")); n != 1 {
		t.Errorf("%d audit lines of resets, want one", n)
	}
	if line := h.audited(t, "reset")[0]; line.What != store.AuditSecondFactor || line.UserID != h.user.Subject() || line.Actor.ClientID == "" {
		t.Errorf("audit line = %+v, want the user and the client", line)
	}
	olga := h.operator(t, "olga")
	h.SetUpApp(t, "olga")
	if a := reset(olga); a.StatusCode != http.StatusForbidden {
		t.Errorf("reset of an operator = %d %s, want 403", a.StatusCode, a.body)
	}
	if now := must.Get(h.FindUser(t.Context(), "olga"))(t); !now.HasFactor() {
		t.Error("the operator lost the second factor")
	}
}

// issued issues tokens as a password grant does.
func (h *house) issued(t testing.TB) pair {
	t.Helper()
	issued := must.Get(h.IssueFixture(t.Context(), store.TokenSpec{Client: h.client, User: h.user, Scope: store.ScopeUnstated}))(t)
	return pair{AccessToken: issued.AccessToken.Reveal(), RefreshToken: issued.RefreshToken.Reveal()}
}

// Promise (Guard §6): at the desk an operator with a fresh second factor of their own resets that of
// another user, and nobody else does
func TestDeskResetsSecondFactors(t *testing.T) {
	h, plain := deskHouse(t)
	path := "/desk/users/" + h.user.Subject()
	if a := plain.get(t, path); attributeOn(t, a, "data-second-factor") != "none" || strings.Contains(a.body, `data-do="reset-second-factor"`) {
		t.Errorf("a user without a second factor: %s", words(t, a))
	}
	mara, _ := h.signedInWithApp(t, "mara")
	if a := plain.get(t, path); attributeOn(t, a, "data-second-factor") != "totp" || !strings.Contains(words(t, a), "App, 10 recovery codes left") {
		t.Errorf("a user with an app: %s", words(t, a))
	}
	t.Run("an_operator_without_one", func(t *testing.T) {
		wantStatus(t, plain.sent(t, path, "reset-second-factor"), http.StatusForbidden)
		if now := must.Get(h.FindUser(t.Context(), "mara"))(t); !now.HasFactor() {
			t.Error("the second factor was reset")
		}
	})
	own, _ := h.signedInWithApp(t, "olga") // another sign-in of hers: the plain one is over
	if a := plain.get(t, path); a.StatusCode == http.StatusOK {
		t.Error("a sign-in without the second factor opens the desk")
	}
	t.Run("nobody_for_themselves", func(t *testing.T) {
		self := "/desk/users/" + h.UserID(t, "olga")
		page := own.get(t, self)
		if strings.Contains(page.body, `data-do="reset-second-factor"`) {
			t.Error("the page offers it for oneself")
		}
		_, fields := deskForm(t, page, "sign-out")
		wantStatus(t, own.post(t, self+"/reset-second-factor", fields), http.StatusConflict)
	})
	t.Run("late_in_the_session", func(t *testing.T) {
		h.Clock.Advance(time.Hour / 2)
		a := own.sent(t, path, "reset-second-factor")
		wantStatus(t, a, http.StatusForbidden)
		deskForm(t, a, "confirm")
		if now := must.Get(h.FindUser(t.Context(), "mara"))(t); !now.HasFactor() {
			t.Error("the second factor was reset")
		}
	})
	t.Run("another_user", func(t *testing.T) {
		fresh := h.operator(t, "olaf")
		b, _ := h.signedInWithApp(t, fresh.Username)
		a := b.sent(t, path, "reset-second-factor")
		wantStatus(t, a, http.StatusSeeOther)
		if page := b.follow(t, a); attributeOn(t, page, "data-second-factor") != "none" || !strings.Contains(words(t, page), "The second factor was reset.") {
			t.Errorf("the next page says %s", words(t, page))
		}
		if a := mara.get(t, accountPath); a.StatusCode != http.StatusSeeOther {
			t.Errorf("the user is still signed in: %d", a.StatusCode)
		}
		if lines := h.audited(t, "reset"); len(lines) != 1 || lines[0].Actor.OperatorID != fresh.Subject() || lines[0].UserID != h.user.Subject() {
			t.Errorf("audit lines = %+v, want one by the operator", lines)
		}
		h.User(t, "odile", h.account)
		h.SetUpApp(t, "odile")
		must.Get(h.PromoteUser(t.Context(), "odile"))(t)
		wantStatus(t, b.sent(t, "/desk/users/"+h.UserID(t, "odile"), "reset-second-factor"), http.StatusSeeOther)
	})
}
