package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// requiring makes a second factor required.
func requiring(who store.SecondFactor) func(*store.Options) {
	return func(o *store.Options) { o.SecondFactor = who }
}

// raise restarts the server with another setting. All servers have the same, so another one ends.
func (h *house) raise(t testing.TB, who store.SecondFactor, change ...func(*handlers.Config)) {
	t.Helper()
	h.Other = nil
	h.open(h.Reopened(t, requiring(who)), change...)
}

const factorNeeded = "The user needs a second factor; use the authorization code grant."

// Promise (Guard §6): the password grant refuses a user who has a second factor or must have one,
// after the right password only, and takes no code
func TestPasswordGrantNeedsNoSecondFactor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		policy              store.SecondFactor
		hasOne, is, refused bool // is an operator
	}{
		{"offered_and_none", store.FactorOffered, false, true, false},
		{"offered_and_one", store.FactorOffered, true, false, true},
		{"operators_and_none", store.FactorOperators, false, false, false},
		{"operators_and_an_operator", store.FactorOperators, false, true, true},
		{"operators_and_one", store.FactorOperators, true, false, true},
		{"all_and_none", store.FactorAll, false, false, true},
		{"off_and_one", store.FactorOff, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := houseOver(t, storetest.New(t, requiring(c.policy)))
			if c.is {
				must.Get(h.PromoteUser(t.Context(), "mara"))(t)
			}
			if c.hasOne {
				h.SetUpApp(t, "mara")
			}
			var a answer
			lines := h.recorded(t, func() { a = h.token(t, with(h.passwordForm(), "code", "123456", "totp", "123456")) })
			if !c.refused {
				wantPair(t, a)
				return
			}
			if description := wantTokenError(t, a, http.StatusBadRequest, "invalid_grant"); description != factorNeeded {
				t.Errorf("error_description = %q", description)
			}
			if len(lines) != 1 || lines[0].What != store.AuditLoginRefused || lines[0].Reason != "second_factor_needed" ||
				lines[0].UserID != h.user.Subject() || lines[0].ClientID != h.client.ID {
				t.Errorf("the record has %+v, want one refused sign-in", lines)
			}
		})
	}
}

// TestPasswordGrantWhileAFactorIsSetUp: the answer is that of the moment of the issue, not of the
// password's check.
func TestPasswordGrantWhileAFactorIsSetUp(t *testing.T) {
	h := parallelHouse(t)
	before := must.Get(h.FindUser(t.Context(), "mara"))(t)
	h.SetUpApp(t, "mara")
	_, err := h.IssueForPassword(t.Context(), store.By{}, h.client, before, store.ScopeUnstated)
	if err == nil || !strings.Contains(err.Error(), store.ErrFactorNeeded.Error()) {
		t.Errorf("IssueForPassword = %v, want %v", err, store.ErrFactorNeeded)
	}
}

// amrOf returns the amr of an introspected token, or nil without the member.
func (h *house) amrOf(t testing.TB, token string) any {
	t.Helper()
	return wantActive(t, h.introspect(t, token))["amr"]
}

// auditAmr returns the amr of the newest line of a kind in the audit list.
func (h *house) auditAmr(t testing.TB, what string) (amr []string, has bool) {
	t.Helper()
	var list struct {
		Data []map[string]json.RawMessage `json:"data"`
	}
	must.Do(t, json.Unmarshal([]byte(h.admin(t, "GET", "/api/platform/audit?limit=1000&what="+what, "").body), &list))
	if len(list.Data) == 0 {
		t.Fatalf("the record has no line of kind %s", what)
	}
	raw, has := list.Data[len(list.Data)-1]["amr"]
	if has {
		must.Do(t, json.Unmarshal(raw, &amr))
	}
	return amr, has
}

// Promise (Guard §6): introspection and the audit lines of sign-ins and grants say how the user
// signed in (RFC 8176), also after a refresh; nothing without a user or for imported tokens
func TestAmr(t *testing.T) {
	h := parallelHouse(t)
	pwd := []any{"pwd"}
	t.Run("the_password_grant", func(t *testing.T) {
		p := wantPair(t, h.token(t, h.passwordForm()))
		again := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
		for _, token := range []string{p.AccessToken, again.AccessToken, again.RefreshToken} {
			if amr := h.amrOf(t, token); !reflect.DeepEqual(amr, pwd) {
				t.Errorf("amr = %v, want %v", amr, pwd)
			}
		}
		if amr, _ := h.auditAmr(t, "grant"); !reflect.DeepEqual(amr, []string{"pwd"}) {
			t.Errorf("the audit line has amr %v", amr)
		}
	})
	for _, c := range []struct {
		amr  store.Amr
		want []any
	}{
		{store.AmrPassword, pwd},
		{store.AmrCode, []any{"pwd", "otp", "mfa"}},
		{store.AmrHardwareKey, []any{"pwd", "hwk", "mfa"}},
		{store.AmrSoftwareKey, []any{"pwd", "swk", "mfa"}},
		{store.AmrUnknown, nil}, // of a sign-in before this was kept
	} {
		t.Run("a_code_of_"+strings.Join(append(c.amr.Values(), "none"), "_"), func(t *testing.T) {
			code := must.Get(h.Allow(t.Context(), store.Consent{Client: h.client, User: h.user, RedirectURI: storetest.CallbackURI, Scope: store.ScopeUnstated, Ticket: fmt.Sprint("ticket ", c.amr), TicketEnds: h.Clock.Now().Add(time.Minute), Amr: c.amr}))(t)
			p := wantPair(t, h.token(t, h.codeForm(code.Reveal())))
			again := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
			for _, token := range []string{p.AccessToken, again.AccessToken, again.RefreshToken} {
				if amr := h.amrOf(t, token); !reflect.DeepEqual(amr, any(c.want)) && !(amr == nil && c.want == nil) {
					t.Errorf("amr = %v, want %v", amr, c.want)
				}
			}
			if amr, has := h.auditAmr(t, "grant"); !reflect.DeepEqual(amr, c.amr.Values()) || has != (c.want != nil) {
				t.Errorf("the audit line has amr %v", amr)
			}
			h.Clock.Advance(time.Minute)
		})
	}
	t.Run("the_sign_in_page_and_what_follows", func(t *testing.T) {
		p := h.pair(t)
		if amr := h.amrOf(t, p.AccessToken); !reflect.DeepEqual(amr, pwd) {
			t.Errorf("amr = %v, want %v", amr, pwd)
		}
		if amr, _ := h.auditAmr(t, "login"); !reflect.DeepEqual(amr, []string{"pwd"}) {
			t.Errorf("the audit line has amr %v", amr)
		}
	})
	t.Run("the_list_of_sign_ins", func(t *testing.T) {
		var list struct{ Data []struct{ Amr []string } }
		must.Do(t, json.Unmarshal([]byte(h.admin(t, "GET", "/admin/sessions", "").body), &list))
		if len(list.Data) == 0 || !reflect.DeepEqual(list.Data[0].Amr, []string{"pwd"}) {
			t.Errorf("sign-ins %+v, want amr pwd", list.Data)
		}
	})
	t.Run("other_lines_have_none", func(t *testing.T) {
		h.postForm(t, revokePath, with(h.credentials(), "token", h.pair(t).RefreshToken))
		if _, has := h.auditAmr(t, "revoke"); has {
			t.Error("a revocation has an amr")
		}
	})
	t.Run("a_client_that_acts_for_itself", func(t *testing.T) {
		j := newJob(t, h)
		members := wantActive(t, h.postForm(t, introspectPath, with(j.form, "token", j.access(t))))
		if _, has := members["amr"]; has {
			t.Errorf("introspection = %v, want no amr", members)
		}
		if _, has := h.auditAmr(t, "grant"); has {
			t.Error("the audit line has an amr")
		}
	})
}

// Promise (Guard §1): a sign-in of before a second factor was required or set up is none from the next
// request on: at each door the user has to sign in
func TestSignInsWithoutTheFactorAreOver(t *testing.T) {
	t.Parallel()
	for name, require := range map[string]func(t *testing.T, h *house){
		"all":       func(t *testing.T, h *house) { h.raise(t, store.FactorAll, withDesk()) },
		"operators": func(t *testing.T, h *house) { h.raise(t, store.FactorOperators, withDesk()) },
		"set_up":    func(t *testing.T, h *house) { h.SetUpApp(t, "mara") }, // in another browser
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, withDesk())
			remembers, _ := h.Client(t, func(c *store.ClientSpec) { c.Consent = store.ConsentRemember })
			must.Get(h.PromoteUser(t.Context(), "mara"))(t)
			u := must.Get(h.FindUser(t.Context(), "mara"))(t)
			b := h.signedIn(t, u)
			remembered := h.authURL("client_id", remembers.ID, "state", "s")
			if a := b.get(t, accountPath); a.StatusCode != http.StatusOK {
				t.Fatalf("%s = %d while no second factor is needed", accountPath, a.StatusCode)
			}
			b.submit(t, b.get(t, remembered), "decision", "allow")
			if a := b.get(t, remembered); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), storetest.CallbackURI) {
				t.Fatalf("consent is not remembered: %d to %q", a.StatusCode, a.Header.Get("Location"))
			}
			require(t, h)
			if q := callback(t, b.get(t, h.authURL("client_id", remembers.ID, "prompt", "none")), http.StatusFound).Query(); q.Get("error") != "login_required" || q.Has("code") {
				t.Errorf("prompt=none answers %v, want login_required", q)
			}
			for _, target := range []string{accountPath, "/desk", remembered, h.authURL("max_age", "100000")} {
				a := b.get(t, target)
				if to := a.Header.Get("Location"); a.StatusCode == http.StatusOK && strings.Contains(words(t, a), "Signed in as mara") || strings.HasPrefix(to, storetest.CallbackURI) {
					t.Errorf("%s = %d to %q with a sign-in that lacks the second factor", target, a.StatusCode, to)
				}
			}
			if a := b.get(t, "/"); strings.Contains(words(t, a), "Signed in as mara") {
				t.Error("the start page says that the user is signed in")
			}
		})
	}
}

// Promise (Guard §6): a new password, by the operator or with a code, and disabling and enabling leave
// the second factor alone and sign nobody in
func TestTheFactorStays(t *testing.T) {
	h := parallelHouse(t)
	b, _ := h.signedInWithApp(t, "mara")
	for name, change := range map[string]func(t *testing.T){
		"a_password_by_the_operator": func(t *testing.T) { must.Get(h.SetPassword(t.Context(), "mara", "another long phrase"))(t) },
		"a_code_of_the_operator": func(t *testing.T) {
			_, code, err := h.CreateUserCode(t.Context(), "mara", 0)
			must.Do(t, err)
			stranger := h.browser(t)
			page := stranger.get(t, newPasswordPath)
			a := stranger.submit(t, page, "username", "mara", "code", code.Reveal(), "new_password", "a third long phrase", "repeat_password", "a third long phrase")
			if a.StatusCode != http.StatusSeeOther || stranger.cookie(sessionCookie) != "" {
				t.Errorf("the code leads by %d to a sign-in: %q", a.StatusCode, stranger.cookie(sessionCookie))
			}
		},
		"disabled_and_enabled": func(t *testing.T) {
			must.Get(h.DisableUser(t.Context(), "mara"))(t)
			must.Get(h.EnableUser(t.Context(), "mara"))(t)
		},
		"demoted_and_promoted": func(t *testing.T) {
			must.Get(h.PromoteUser(t.Context(), "mara"))(t)
			must.Get(h.DemoteUser(t.Context(), "mara"))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := must.Get(h.FindUser(t.Context(), "mara"))(t)
			change(t)
			u := must.Get(h.FindUser(t.Context(), "mara"))(t)
			if !u.HasApp() || u.FactorRevision() != before.FactorRevision() {
				t.Error("the second factor changed")
			}
			if left := must.Get(h.RecoveryCodesLeft(t.Context(), u))(t); left[0] != 10 {
				t.Errorf("%d recovery codes are left", left[0])
			}
		})
	}
	if a := b.get(t, accountPath); a.StatusCode == http.StatusOK {
		t.Error("the sign-in outlives a new password of the operator's")
	}
}
