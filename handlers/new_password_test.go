package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const newPasswordPath = "/new-password"

// codeFor makes a code for a user.
func (h *house) codeFor(t testing.TB, name string) string {
	t.Helper()
	_, code, err := h.CreateUserCode(context.Background(), name, 0)
	must.Do(t, err)
	return code.Reveal()
}

// setPassword fills the page for a code and sends it.
func (b *browser) setPassword(t testing.TB, name, code string, change ...string) answer {
	t.Helper()
	return b.submit(t, b.get(t, newPasswordPath), append([]string{"username", name, "code", code, "new_password", freshPassword, "repeat_password", freshPassword}, change...)...)
}

const codeRefusal = "That username and code do not match, or the code is no longer valid."

func wantCodeRefused(t testing.TB, a answer) {
	t.Helper()
	if text := words(t, a); a.StatusCode != http.StatusOK || !strings.Contains(text, codeRefusal) {
		t.Errorf("%d %s, want the refusal of a code", a.StatusCode, text)
	}
}

// Promise (Browsers): operators, codes for a new password, start page, name and logo
func TestNewPassword(t *testing.T) {
	t.Parallel()
	t.Run("the_sign_in_page_has_a_link_to_it", func(t *testing.T) {
		b := parallelHouse(t).browser(t)
		page := b.get(t, "/login")
		if href := linkOn(t, page, "I was given a code"); href != newPasswordPath {
			t.Errorf("the link leads to %q, want %s", href, newPasswordPath)
		}
		if a := b.get(t, newPasswordPath); a.StatusCode != http.StatusOK || !strings.Contains(words(t, a), "Set your password") {
			t.Errorf("GET %s = %d %s", newPasswordPath, a.StatusCode, words(t, a))
		}
	})
	t.Run("it_sets_the_password_ends_everything_and_leads_to_sign_in", func(t *testing.T) {
		h := parallelHouse(t)
		signedIn, p := h.signedIn(t, h.user), h.pair(t)
		old := signedIn.cookie(sessionCookie)
		b, code := h.browser(t), h.codeFor(t, "mara")
		a := b.setPassword(t, "MARA", strings.ToUpper(strings.ReplaceAll(code, "-", " ")))
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login" || b.cookie(sessionCookie) != "" {
			t.Fatalf("%d to %q, signed in: %t; want 303 to /login, not signed in", a.StatusCode, a.Header.Get("Location"), b.cookie(sessionCookie) != "")
		}
		page := b.follow(t, a)
		if text := words(t, page); !strings.Contains(text, "Your password is set. Sign in with it.") {
			t.Errorf("the sign-in page says %q, want that the password is set", text)
		}
		if text := words(t, b.get(t, "/login")); strings.Contains(text, "Your password is set") {
			t.Error("the outcome is shown twice")
		}
		if h.sessionLives(t, old) || h.accessLives(t, p) {
			t.Error("a sign-in or a token of before is live")
		}
		if a := b.submit(t, page, "username", "mara", "password", freshPassword); a.StatusCode != http.StatusSeeOther {
			t.Errorf("sign-in with the new password = %d %s", a.StatusCode, words(t, a))
		}
		wantCodeRefused(t, h.browser(t).setPassword(t, "mara", code)) // once
	})
	t.Run("only_POST_redeems", func(t *testing.T) {
		h := parallelHouse(t)
		code := h.codeFor(t, "mara")
		h.get(t, newPasswordPath+"?username=mara&code="+code+"&new_password="+freshPassword[:7]+"12345678&repeat_password="+freshPassword[:7]+"12345678")
		if a := h.browser(t).setPassword(t, "mara", code); a.StatusCode != http.StatusSeeOther {
			t.Errorf("after a GET the code gives %d %s, want it good", a.StatusCode, words(t, a))
		}
	})
	t.Run("what_was_typed_stays_and_the_code_stays_good", func(t *testing.T) {
		h := parallelHouse(t)
		b, code := h.browser(t), h.codeFor(t, "mara")
		for change, want := range map[[2]string]string{
			{"new_password", "short"}:        "Too short",
			{"repeat_password", "otherwise"}: "The passwords do not match.",
		} {
			page := b.setPassword(t, "mara", code, change[0], change[1])
			fields := formOn(t, page).fields
			if text := words(t, page); page.StatusCode != http.StatusOK || !strings.Contains(text, want) || !strings.Contains(text, "Your password was not set.") {
				t.Errorf("%s: %d %s, want %q", change[0], page.StatusCode, text, want)
			}
			if fields.Get("username") != "mara" || fields.Get("code") != code || fields.Get("new_password") != "" {
				t.Errorf("%s: the form has %v, want the name and the code and no password", change[0], fields)
			}
		}
		if a := b.setPassword(t, "mara", code); a.StatusCode != http.StatusSeeOther {
			t.Errorf("then %d %s, want the password set", a.StatusCode, words(t, a))
		}
	})
	t.Run("a_form_of_another_browser_or_site_is_refused", func(t *testing.T) {
		h := parallelHouse(t)
		b, code := h.browser(t), h.codeFor(t, "mara")
		filled := with(formOn(t, b.get(t, newPasswordPath)).fields, "username", "mara", "code", code, "new_password", freshPassword, "repeat_password", freshPassword)
		other := h.browser(t)
		other.get(t, newPasswordPath)
		wantErrorPage(t, other.post(t, newPasswordPath, filled), http.StatusForbidden)
		wantErrorPage(t, b.post(t, newPasswordPath, filled, header("Sec-Fetch-Site", "cross-site")), http.StatusForbidden)
		ofSignIn := with(filled, "form_token", formOn(t, b.get(t, "/login")).fields.Get("form_token"))
		wantErrorPage(t, b.post(t, newPasswordPath, ofSignIn), http.StatusForbidden)
		if a := b.post(t, newPasswordPath, filled); a.StatusCode != http.StatusSeeOther {
			t.Errorf("the browser's own form = %d %s", a.StatusCode, words(t, a))
		}
	})
	t.Run("wrong_codes_are_charged_to_their_source_and_a_right_one_never_waits", func(t *testing.T) {
		h := parallelHouse(t)
		b, code := h.browser(t), h.codeFor(t, "mara")
		form := formOn(t, b.get(t, newPasswordPath))
		const source = "198.51.100.7"
		try := func(name, code string) answer {
			return b.post(t, form.action, with(form.fields, "username", name, "code", code, "new_password", freshPassword, "repeat_password", freshPassword), from(source))
		}
		for i := range 30 { // in the end the name must wait at the sign-in form
			wantCodeRefused(t, try([]string{"mara", "nobody"}[i%2], "01234-56789-abcde-fghjk"))
			h.stranger(t).signIn(t, "mara", tooLong, from("198.51.100.8"))
		}
		for _, name := range []string{"mara", "nobody"} {
			throttled := try(name, "01234-56789-abcde-fghjk")
			wantThrottled(t, throttled, "2")
			if text := words(t, throttled); !strings.Contains(text, "Too many failed attempts. Try again in 2 seconds.") {
				t.Errorf("the page says %q", text)
			}
		}
		wantThrottled(t, h.stranger(t).signIn(t, "moira", tooLong, from(source)), "2")
		if a := try("mara", code); a.StatusCode != http.StatusSeeOther {
			t.Errorf("the right code gives %d %s", a.StatusCode, words(t, a))
		}
	})
	t.Run("a_user_without_a_password_signs_in_nowhere_in_the_words_of_a_wrong_password", func(t *testing.T) {
		h := parallelHouse(t)
		_, code, err := h.CreateUser(t.Context(), store.UserSpec{Username: "nora", Account: h.account, Code: true})
		must.Do(t, err)
		for _, password := range []string{"", code.Reveal(), storetest.Password} {
			if text := words(t, h.stranger(t).signIn(t, "nora", password)); !strings.Contains(text, "That username and password do not match.") {
				t.Errorf("the form with %q says %s", password, text)
			}
		}
		wantTokenError(t, h.grant(t, "nora", storetest.Password), http.StatusBadRequest, "invalid_grant")
		if a := h.browser(t).setPassword(t, "nora", code.Reveal()); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%d %s", a.StatusCode, words(t, a))
		}
		wantPair(t, h.grant(t, "nora", freshPassword))
	})
}

func TestAuditOfCodes(t *testing.T) {
	h := parallelHouse(t)
	var code string
	made := h.recorded(t, func() {
		var shown struct{ Code string }
		a := h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/code", "")
		must.Do(t, json.Unmarshal([]byte(a.body), &shown))
		code = shown.Code
	})
	wantReasons(t, made, store.AuditAdmin, "code made")
	wantReasons(t, h.recorded(t, func() { h.browser(t).setPassword(t, "mara", secret.NewUserCode(nil).Reveal()) }), store.AuditLoginRefused, "wrong_code")
	wantReasons(t, h.recorded(t, func() { h.browser(t).setPassword(t, "moira", code) }), store.AuditLoginRefused, "unknown_user")
	wantReasons(t, h.recorded(t, func() { h.browser(t).setPassword(t, "mara", code) }), store.AuditPasswordChanged, "password set by code")
	wantReasons(t, h.recorded(t, func() { h.browser(t).setPassword(t, "mara", code) }), store.AuditLoginRefused, "spent_code_or_none")
	late := h.codeFor(t, "mara")
	h.Clock.Advance(24 * time.Hour)
	wantReasons(t, h.recorded(t, func() { h.browser(t).setPassword(t, "mara", late) }), store.AuditLoginRefused, "expired_code")
	both := h.recorded(t, func() { h.admin(t, "POST", "/api/platform/users", `{"username":"nora","code":true}`) })
	if len(both) != 2 || both[0].Reason != "user created" || both[1].Reason != "code made" || both[1].UserID != both[0].UserID {
		t.Errorf("a user made by code leaves %+v, want the user and the code", both)
	}
	wantReasons(t, h.recorded(t, func() { h.stranger(t).signIn(t, "nora", storetest.Password) }), store.AuditLoginRefused, "no_password")
}

func wantReasons(t testing.TB, lines []store.AuditLine, what store.Audited, reason string) {
	t.Helper()
	if len(lines) != 1 || lines[0].What != what || lines[0].Reason != reason {
		t.Errorf("the audit log has %+v, want %s: %s", lines, what, reason)
	}
}

// linkOn returns where the link with that text leads, or "".
func linkOn(t testing.TB, page answer, text string) string {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Data == "a" && n.FirstChild != nil && n.FirstChild.Data == text {
			return attribute(n, "href")
		}
	}
	return ""
}

// TestCodesCountAsSignIns: a refused code is counted with its reason, as a refused
// password is. A right one is counted by the sign-in that follows.
func TestCodesCountAsSignIns(t *testing.T) {
	var all tally
	h := parallelHouse(t, func(c *handlers.Config) { c.Observe = all.observe })
	b := h.browser(t)
	outcome := func(name, code string) string {
		t.Helper()
		page := b.get(t, newPasswordPath)
		all.seen = nil
		b.submit(t, page, "username", name, "code", code, "new_password", freshPassword, "repeat_password", freshPassword)
		return string(all.last(t).SignIn)
	}
	other := func() string { return secret.NewUserCode(nil).Reveal() }
	code := h.codeFor(t, "mara")
	for _, c := range []struct{ name, code, want string }{
		{"moira", other(), "unknown_user"}, {"mara", other(), "wrong_code"}, {"mara", "text", "wrong_code"}, {"mara", code, ""}, {"mara", code, "spent_code_or_none"},
	} {
		if got := outcome(c.name, c.code); got != c.want {
			t.Errorf("%s with %q counts as %q, want %q", c.name, c.code, got, c.want)
		}
	}
	for range 40 {
		outcome("mara", other())
	}
	if got := outcome("mara", other()); got != string(web.SignInThrottled) {
		t.Errorf("after many wrong codes one counts as %q, want throttled", got)
	}
}
