package handlers_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const (
	accountPath     = "/account"
	accountRevoke   = "/account/revoke"
	accountOthers   = "/account/sign-out-others"
	accountPassword = "/account/password"
	freshPassword   = "another long phrase"
)

// accountForms returns the forms of the account page by their targets; those of a list by what
// their buttons send, such as the id of a client.
func (b *browser) accountForms(t testing.TB) map[string]url.Values {
	t.Helper()
	page := b.get(t, accountPath)
	if page.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d to %q, want the page", accountPath, page.StatusCode, page.Header.Get("Location"))
	}
	forms := map[string]url.Values{}
	var action string
	var fields url.Values
	for n := range parsePage(t, page).Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "form":
			action, fields = attribute(n, "action"), url.Values{}
			forms[action] = fields
		case n.Data == "input":
			fields.Set(attribute(n, "name"), attribute(n, "value"))
		case n.Data == "button" && attribute(n, "name") != "":
			forms[attribute(n, "value")] = with(fields, attribute(n, "name"), attribute(n, "value"))
		}
	}
	return forms
}

// wantDone fails the test unless the form was accepted, and the page says so once.
func (b *browser) wantDone(t testing.TB, a answer, says string) {
	t.Helper()
	if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != accountPath {
		t.Fatalf("%d to %q %.300s, want 303 to %s", a.StatusCode, to, words(t, a), accountPath)
	}
	if text := words(t, b.follow(t, a)); !strings.Contains(text, says) {
		t.Errorf("the page says %q, want %q in it", text, says)
	}
	if text := words(t, b.get(t, accountPath)); strings.Contains(text, says) {
		t.Errorf("the page says %q again when it is opened again", says)
	}
}

// passwordForm is the account page's form, filled in, with the box ticked.
func (b *browser) passwordForm(t testing.TB, current, fresh string) url.Values {
	t.Helper()
	return with(b.accountForms(t)[accountPassword], "current_password", current, "new_password", fresh, "repeat_password", fresh, "end_all", "yes")
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): text from a link shown on our pages
func TestAccount(t *testing.T) {
	t.Parallel()
	t.Run("says_who_is_signed_in_and_who_can_act", func(t *testing.T) {
		h := parallelHouse(t)
		h.pair(t)
		h.Clock.Advance(3 * time.Hour)
		b := h.signedIn(t, h.user)
		h.signedIn(t, h.user)
		page := b.get(t, accountPath)
		wantPageHeaders(t, page)
		text := words(t, page)
		for _, want := range []string{
			"Signed in as mara", h.account, "Larkspur Bookkeeping", "Everything in your account",
			"3 h ago", "never", "This browser", "Another browser", "just now",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page says %q, want %q in it", text, want)
			}
		}
	})
	t.Run("shows_nothing_of_others", func(t *testing.T) {
		h := parallelHouse(t)
		h.pair(t)
		text := words(t, h.signedIn(t, h.User(t, "nils", h.account)).get(t, accountPath))
		if strings.Contains(text, "Larkspur Bookkeeping") || strings.Contains(text, "mara") || strings.Contains(text, "Another browser") || strings.Contains(text, "Sign out everywhere else ") {
			t.Errorf("the page says %q, want nothing of another user", text)
		}
	})
	t.Run("leads_a_stranger_through_the_sign_in_and_back", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.browser(t)
		page := b.follow(t, b.get(t, accountPath))
		page = b.submit(t, page, "username", "mara", "password", "not the password")
		a := b.submit(t, page, rightPassword...)
		if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != accountPath {
			t.Errorf("%d to %q, want 303 to %s", a.StatusCode, to, accountPath)
		}
		if a := b.get(t, "/login?to=account"); a.Header.Get("Location") != accountPath {
			t.Errorf("the sign-in leads to %q with a session, want %s", a.Header.Get("Location"), accountPath)
		}
	})
	t.Run("the_sign_in_leads_nowhere_else", func(t *testing.T) {
		h := parallelHouse(t)
		for _, to := range []string{"//evil.example", "https://evil.example/", "/account", "account/../..", `\\evil.example`, "ACCOUNT"} {
			b := h.browser(t)
			page := b.get(t, "/login?to="+url.QueryEscape(to))
			if strings.Contains(page.body, "evil") || formOn(t, page).fields.Has("to") {
				t.Errorf("to=%s: the sign-in carries it along", to)
			}
			if to == "https://evil.example/" { // one is enough: it costs password hashes
				if a := b.submit(t, page, "username", "mara", "password", "not the password", "to", to); formOn(t, a).fields.Has("to") {
					t.Errorf("to=%s: the form that was refused carries it along", to)
				}
				if a := b.submit(t, page, append(rightPassword, "to", to)...); a.Header.Get("Location") != "/" {
					t.Errorf("to=%s: the sign-in leads to %q, want /", to, a.Header.Get("Location"))
				}
			}
			if a := h.signedIn(t, h.user).get(t, "/login?to="+url.QueryEscape(to)); a.Header.Get("Location") != "/" {
				t.Errorf("to=%s: a sign-in that is there leads to %q, want /", to, a.Header.Get("Location"))
			}
		}
	})
	t.Run("a_link_cannot_make_it_say_that_something_was_done", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		plain := b.get(t, accountPath)
		wantSame(t, plain, b.get(t, accountPath+"?done=password&notice=evil&error=evil&error_description=evil"))
		b.setCookie("__Host-tollhouse_done", "evil")
		if text := words(t, b.get(t, accountPath)); strings.Contains(text, "evil") {
			t.Errorf("the page says %q", text)
		}
	})
	t.Run("bounds_its_lists", func(t *testing.T) {
		h := parallelHouse(t)
		for i := range 201 {
			c, _ := h.Client(t, func(c *store.ClientSpec) { c.Name = "Client " + strings.Repeat("I", i%40+1) })
			must.Get(h.IssueForPassword(context.Background(), store.By{}, c, h.user, store.ScopeUnstated))(t)
			h.signedIn(t, h.user)
		}
		page := h.signedIn(t, h.user).get(t, accountPath)
		if n, m := strings.Count(page.body, ">Client I"), strings.Count(words(t, page), " browser "); n != 200 || m != 50 {
			t.Errorf("the page shows %d clients and %d sign-ins, want 200 and 50", n, m)
		}
		if text := words(t, page); !strings.Contains(text, "More applications are not shown.") || !strings.Contains(text, "Older sign-ins are not shown.") || !strings.Contains(text, "This browser") {
			t.Error("the page does not say that more is there, or leaves this browser out")
		}
	})
}

// Promise (RFC 9700): every state of a refresh token is answered as rotation demands; refresh
// tokens expire after 14 idle days, families after a year; a password reset, disabled user, deleted
// client or revoked consent ends both
func TestAccountRevoke(t *testing.T) {
	t.Parallel()
	t.Run("ends_refresh_and_access_at_once", func(t *testing.T) {
		h := parallelHouse(t)
		first, second := h.pair(t), h.pair(t, "scope", "events:read")
		b := h.signedIn(t, h.user)
		b.wantDone(t, b.post(t, accountRevoke, b.accountForms(t)[h.client.ID]), "no longer has access.")
		h.familyIsDead(t, first)
		h.familyIsDead(t, second)
		if forms := b.accountForms(t); forms[accountRevoke] != nil {
			t.Error("the page still lists the client")
		}
		h.wantAudited(t, store.AuditRevoke, store.ReasonRevokedByUser, 2)
	})
	t.Run("leaves_other_clients_and_sign_ins_alone", func(t *testing.T) {
		h := parallelHouse(t)
		kept := h.pair(t)
		other, sec := h.Client(t, func(c *store.ClientSpec) { c.Name = "Aster Reports" })
		gone := wantPair(t, h.token(t, as(h.passwordForm(), other, sec)))
		b, elsewhere := h.signedIn(t, h.user), h.signedIn(t, h.user)
		b.wantDone(t, b.post(t, accountRevoke, b.accountForms(t)[other.ID]), "no longer has access.")
		if h.accessLives(t, gone) {
			t.Error("the token of the client that was revoked lives")
		}
		h.familyLives(t, kept)
		elsewhere.accountForms(t)
	})
	t.Run("never_reaches_what_another_user_granted_to_the_same_client", func(t *testing.T) {
		h := parallelHouse(t)
		victim := h.pair(t)
		b := h.signedIn(t, h.User(t, "nils", h.account))
		form := with(b.accountForms(t)[accountPassword], "client_id", h.client.ID)
		for _, extra := range [][]string{{}, {"user_id", h.user.Subject()}, {"username", "mara"}} {
			b.wantDone(t, b.post(t, accountRevoke, with(form, extra...)), "no longer has access.")
		}
		h.familyLives(t, victim)
	})
	t.Run("an_unknown_client_is_no_error_and_none_is", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		form := b.accountForms(t)[accountPassword]
		b.wantDone(t, b.post(t, accountRevoke, with(form, "client_id", "<script>")), "no longer has access.")
		wantPage400(t, b.post(t, accountRevoke, form))
		wantPage400(t, b.send(t, "POST", accountRevoke, strings.NewReader("client_id=a&client_id=b"), header("Content-Type", formType)))
	})
}

func TestAccountSignOutOthers(t *testing.T) {
	h := parallelHouse(t)
	b, elsewhere, nils := h.signedIn(t, h.user), h.signedIn(t, h.user), h.signedIn(t, h.User(t, "nils", h.account))
	p := h.pair(t)
	form := b.accountForms(t)[accountOthers]
	b.wantDone(t, b.post(t, accountOthers, form), "You are signed out everywhere else.")
	if h.sessionLives(t, elsewhere.cookie(sessionCookie)) {
		t.Error("another browser is signed in, want it signed out")
	}
	b.accountForms(t)
	nils.accountForms(t)
	h.familyLives(t, p)
	if forms := b.accountForms(t); forms[accountOthers] != nil {
		t.Error("the page offers to sign out elsewhere, with nothing left there")
	}
	b.wantDone(t, b.post(t, accountOthers, form), "You are signed out everywhere else.")
	h.wantAudited(t, store.AuditRevoke, "signed out everywhere else", 1) // that of what ended something
}

// Promise (RFC 9700): a password change ends grants unless the box is cleared; the sign-in and
// consent pages have no form-action, so that a callback may redirect anywhere
func TestAccountPassword(t *testing.T) {
	t.Parallel()
	t.Run("ends_everything_else", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		b, elsewhere := h.signedIn(t, h.user), h.signedIn(t, h.user)
		old := b.cookie(sessionCookie)
		b.wantDone(t, b.post(t, accountPassword, b.passwordForm(t, storetest.Password, freshPassword)), "Your password was changed. You are signed out everywhere else")
		h.familyIsDead(t, p)
		if h.sessionLives(t, elsewhere.cookie(sessionCookie)) {
			t.Error("another browser is signed in, want it signed out")
		}
		if fresh := b.cookie(sessionCookie); fresh == old || h.sessionLives(t, old) || !h.sessionLives(t, fresh) {
			t.Error("this browser keeps its session id or lost its session; want a new id")
		}
		wantTokenError(t, h.token(t, h.passwordForm()), http.StatusBadRequest, "invalid_grant")
		wantPair(t, h.token(t, with(h.passwordForm(), "password", freshPassword)))
		h.wantAudited(t, store.AuditPasswordChanged, "everything else ended", 1)
	})
	t.Run("without_the_tick_everything_else_stays", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		b, elsewhere := h.signedIn(t, h.user), h.signedIn(t, h.user)
		old := b.cookie(sessionCookie)
		b.wantDone(t, b.post(t, accountPassword, without(b.passwordForm(t, storetest.Password, freshPassword), "end_all")), "Your password was changed.")
		h.familyLives(t, p)
		if !h.sessionLives(t, elsewhere.cookie(sessionCookie)) || h.sessionLives(t, old) {
			t.Error("another browser is signed out, or the old id of this one lives")
		}
		wantTokenError(t, h.token(t, h.passwordForm()), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("a_refusal_says_why_beside_the_field_and_changes_nothing", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		b := h.signedIn(t, h.user)
		for name, c := range map[string]struct {
			change []string
			says   string
			field  string
		}{
			"wrong_current": {[]string{"current_password", "not the password"}, "That is not your current password.", "current_password"},
			"no_current":    {[]string{"current_password", ""}, "Enter your current password.", "current_password"},
			"eleven_bytes":  {[]string{"new_password", "12345678901"}, "Too short", "new_password"},
			"1025_bytes":    {[]string{"new_password", strings.Repeat("p", 1025)}, "Too long", "new_password"},
			"the_same":      {[]string{"new_password", storetest.Password}, "That is your current password. Choose a different one.", "new_password"},
			"not_repeated":  {[]string{"repeat_password", "something else"}, "The passwords do not match.", "repeat_password"},
		} {
			form := with(b.passwordForm(t, storetest.Password, freshPassword), c.change...)
			a := b.post(t, accountPassword, form)
			if text := words(t, a); a.StatusCode != http.StatusOK || !strings.Contains(text, "Your password was not changed.") || !strings.Contains(text, c.says) {
				t.Errorf("%s: %d says %q, want %q in it", name, a.StatusCode, text, c.says)
			}
			for _, typed := range []string{freshPassword, storetest.Password, "12345678901", strings.Repeat("p", 1025)} {
				if strings.Contains(a.body, typed) {
					t.Errorf("%s: the page sends a password back", name)
				}
			}
			wantMarked(t, name, a, c.field)
		}
		h.familyLives(t, p)
		b.accountForms(t)
		if _, err := h.AuthenticateUser(context.Background(), secret.Caller{}, "mara", storetest.Password); err != nil {
			t.Errorf("the password was changed by a form that was refused: %v", err)
		}
	})
	t.Run("twelve_bytes_and_1024_are_passwords", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		current := storetest.Password
		for _, fresh := range []string{"ÄÖÜäöü", strings.Repeat("p", 1024)} {
			b.wantDone(t, b.post(t, accountPassword, b.passwordForm(t, current, fresh)), "Your password was changed.")
			current = fresh
		}
	})
	t.Run("keeps_the_tick_as_it_was", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		form := with(b.passwordForm(t, storetest.Password, "short"))
		if ticked := b.post(t, accountPassword, form); !strings.Contains(ticked.body, " checked") {
			t.Error("the tick is gone from the form that was refused")
		}
		if bare := b.post(t, accountPassword, without(form, "end_all")); strings.Contains(bare.body, " checked") {
			t.Error("the form that was refused comes back ticked")
		}
		if fresh := b.get(t, accountPath); !strings.Contains(fresh.body, " checked") {
			t.Error("the box is not ticked by itself")
		}
	})
	t.Run("guesses_count_in_the_throttle", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		form := b.passwordForm(t, "not the password", freshPassword)
		var a answer
		for range 12 {
			a = b.post(t, accountPassword, form)
		}
		if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || !strings.Contains(words(t, a), "too many failed attempts") {
			t.Errorf("the 12th guess gives %d, want 429 with Retry-After and the page", a.StatusCode)
		}
		if a := b.post(t, accountPassword, with(form, "current_password", storetest.Password)); a.StatusCode != http.StatusTooManyRequests {
			t.Errorf("the right password right behind gives %d, want 429", a.StatusCode)
		}
		h.Clock.Advance(time.Hour)
		b.wantDone(t, b.post(t, accountPassword, with(form, "current_password", storetest.Password)), "Your password was changed.")
	})
	t.Run("a_store_that_refuses_changes_nothing", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		form := b.passwordForm(t, storetest.Password, freshPassword)
		h.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
		a := b.post(t, accountPassword, form)
		h.Faults.Repair()
		wantErrorPage(t, a, http.StatusServiceUnavailable)
		b.wantDone(t, b.post(t, accountPassword, form), "Your password was changed.")
	})
	t.Run("one_whose_password_was_set_meanwhile_signs_in_again", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		form := b.passwordForm(t, storetest.Password, freshPassword)
		must.Get(h.SetPassword(context.Background(), "mara", "a third long phrase"))(t)
		if a := b.post(t, accountPassword, form); a.Header.Get("Location") != "/login?to=account" {
			t.Errorf("%d to %q, want the sign-in", a.StatusCode, a.Header.Get("Location"))
		}
	})
}

// wantMarked fails the test unless exactly the invalid field is marked.
func wantMarked(t *testing.T, name string, page answer, field string) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Data != "input" || attribute(n, "type") != "password" {
			continue
		}
		if marked := attribute(n, "aria-invalid") == "true"; marked != (attribute(n, "name") == field) {
			t.Errorf("%s: %s is marked: %v", name, attribute(n, "name"), marked)
		}
	}
}

// wantAudited fails the test unless the audit log has that many lines about the house's
// user, with their source.
func (h *house) wantAudited(t testing.TB, what store.Audited, reason string, want int) {
	t.Helper()
	h.Rest() // writes pending lines
	lines := must.Get(h.ListAudit(context.Background(), record.Position{}, 1000))(t)
	n := 0
	for _, line := range lines {
		if line.What != what || line.Reason != reason {
			continue
		}
		n++
		if line.UserID != h.user.Subject() || line.AccountID != h.account || !strings.HasPrefix(line.RequestID, "req_") || line.Source == "" {
			t.Errorf("audit line %+v, want whom it concerns and where it came from", line)
		}
	}
	if n != want {
		t.Errorf("%d audit lines %s %q, want %d", n, what, reason, want)
	}
}

// TestAPasswordIsNotChangedWithoutEnd: what a password change writes has room when changes
// are refused, and one user must not use it up.
//
// Promise (Credentials, memory, connections): a user changes the password 20 times at once, then
// once a minute, so that nobody uses up the room for what ends things
func TestAPasswordIsNotChangedWithoutEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.signedIn(t, h.user)
	now, next := storetest.Password, freshPassword
	for range 20 {
		wantStatus(t, b.post(t, accountPassword, b.passwordForm(t, now, next)), http.StatusSeeOther)
		now, next = next, now
	}
	a := b.post(t, accountPassword, b.passwordForm(t, now, next))
	if wantStatus(t, a, http.StatusTooManyRequests); a.Header.Get("Retry-After") != "60" || !strings.Contains(words(t, a), "Your password was not changed") {
		t.Errorf("Retry-After = %q, the page says %q", a.Header.Get("Retry-After"), words(t, a))
	}
	h.Clock.Advance(time.Minute)
	wantStatus(t, b.post(t, accountPassword, b.passwordForm(t, now, next)), http.StatusSeeOther)
}
