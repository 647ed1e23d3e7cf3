package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Guard §2, §3): X5, the cookie of the first step is no session at any door, in any browser
func TestTheFirstStepsCookieIsNoSession(t *testing.T) {
	t.Parallel()
	h := houseOver(t, storetest.New(t), withDesk())
	h.operator(t, "olga")
	_, app, _ := h.withApp(t)
	b := h.browser(t)
	page := b.password(t, "/login")
	step := b.cookie(stepCookie)
	for name, cookie := range map[string]string{"as it is": stepCookie, "as a session": sessionCookie, "as a device": deviceCookie} {
		c := h.browser(t)
		c.setCookie(cookie, step)
		for _, path := range []string{"/account", factorPage, "/desk", h.authURL("prompt", "none"), h.authURL()} {
			a := c.get(t, path)
			if a.StatusCode == http.StatusOK && !strings.Contains(a.body, `name="password"`) || strings.Contains(a.Header.Get("Location"), "code=") {
				t.Errorf("%s, GET %s = %d to %q", name, path, a.StatusCode, a.Header.Get("Location"))
			}
		}
		for _, path := range []string{"/consent", "/account/password", factorPage + "/totp", factorPage + "/recovery-codes"} {
			a := c.post(t, path, url.Values{"decision": {"allow"}, "current_password": {storetest.Password}})
			if a.StatusCode == http.StatusOK && !strings.Contains(a.body, `name="password"`) {
				t.Errorf("%s, POST %s = %d %s", name, path, a.StatusCode, words(t, a))
			}
		}
		wantSignedIn(t, c, answer{Response: page.Response}, false)
	}
	t.Run("of_another_user", func(t *testing.T) {
		nils := h.User(t, "nils", h.account)
		theirs := h.signedIn(t, nils)
		theirs.setsUp(t)
		c := h.browser(t)
		other := c.submit(t, c.get(t, "/login"), "username", "nils", "password", storetest.Password)
		form := c.follow(t, other)
		c.setCookie(stepCookie, step)
		if a := c.do(t, form, "second-factor", "code", app.code()); a.StatusCode != http.StatusForbidden {
			t.Errorf("the form of nils with the cookie of mara: %d, want 403", a.StatusCode)
		}
	})
	t.Run("set_by_an_attacker_names_for_whom", func(t *testing.T) {
		victim := h.browser(t)
		victim.setCookie(stepCookie, step)
		if text := words(t, victim.get(t, secondStep)); !strings.Contains(text, "for mara") {
			t.Errorf("the page says %q, want for whom it is", text)
		}
	})
}

// Promise (Guard §2, §3): X10, hostile names are one text in the URI of an app
func TestHostileNamesInTheURIOfAnApp(t *testing.T) {
	t.Parallel()
	for _, instance := range []string{"Larkspur: Pay & \"Co\"", "a+b c", "\u2066إيجار\u2069 🏠", strings.Repeat("ü", 32)} {
		h := houseOver(t, storetest.New(t), func(c *handlers.Config) { c.InstanceName = instance })
		for i, name := range []string{"o:a&b=c", "x+y", `u"q"`, "müller", strings.Repeat("n", 128)} {
			b := h.signedIn(t, h.User(t, name, h.account))
			page := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
			link := linkMarked(t, page, "data-otpauth")
			uri, err := url.Parse(link)
			if err != nil {
				t.Fatalf("%s: %v", link, err)
			}
			label := strings.TrimPrefix(uri.EscapedPath(), "/")
			issuer, user, _ := strings.Cut(label, ":")
			if got := must.Get(url.PathUnescape(issuer))(t); got != instance || uri.Query().Get("issuer") != instance || strings.Contains(user, ":") {
				t.Errorf("the issuer is %q and %q, want %q", got, uri.Query().Get("issuer"), instance)
			}
			if got := must.Get(url.PathUnescape(user))(t); got != name {
				t.Errorf("user %d is %q, want %q", i, got, name)
			}
		}
	}
}

// Promise (Guard §12): X13, the secret of an app and recovery codes are in no log, audit line, page or record
func TestSecretsOfAFactorAreShownOnce(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	b, app, codes := h.withApp(t)
	wrong := app.wrong()
	c := h.browser(t)
	page := c.password(t, h.authURL("state", "s"))
	c.do(t, page, "second-factor", "code", wrong)
	c.do(t, page, "recovery", "recovery_code", codes[1][:14]+codes[0][14:])
	right := app.code()
	c.do(t, page, "second-factor", "code", right)
	h.Clock.Advance(time.Minute)
	d := h.browser(t)
	d.do(t, d.password(t, "/login"), "recovery", "recovery_code", codes[0])
	must.Get(h.ResetSecondFactor(context.Background(), "mara"))(t)
	everywhere := h.log.String() + words(t, b.get(t, accountPath)) + words(t, d.get(t, factorPage))
	for _, line := range h.audit(t) {
		everywhere += fmt.Sprintf("%+v", line)
	}
	secrets := append([]string{strings.ReplaceAll(app.secret, " ", ""), wrong, right}, codes...)
	for _, s := range secrets {
		if strings.Contains(everywhere, s) || strings.Contains(everywhere, strings.ReplaceAll(s, "-", "")) {
			t.Errorf("%.4s… is in a log, an audit line or a page", s)
		}
	}
}

// Promise (Guard §2, §3): X9, a recovery code of another user, used, or of before new ones is none; of two at once one wins
func TestRecoveryCodesOfOthers(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	b, _, codes := h.withApp(t)
	nils := h.signedIn(t, h.User(t, "nils", h.account))
	_, theirs := nils.setsUp(t)
	recover := func(code string) bool {
		c := h.browser(t)
		c.do(t, c.password(t, "/login"), "recovery", "recovery_code", code)
		return c.isSignedIn(t)
	}
	if recover(theirs[0]) {
		t.Error("the recovery code of another user signs in")
	}
	if !recover(strings.ToUpper(codes[0])) || recover(codes[0]) {
		t.Error("a recovery code must sign in once, in upper case too")
	}
	var wg sync.WaitGroup
	var won atomic.Int64
	for range 8 {
		c := h.browser(t)
		page := c.password(t, "/login")
		wg.Go(func() {
			if c.do(t, page, "recovery", "recovery_code", codes[1]).StatusCode == http.StatusSeeOther {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("one recovery code at once gave %d sessions, want 1", won.Load())
	}
	b.do(t, b.get(t, factorPage), "new-recovery-codes", "current_password", storetest.Password)
	if recover(codes[2]) {
		t.Error("a recovery code of before the new ones signs in")
	}
}

// Promise (Guard §6): --second-factor off for one start lets everybody in, and that sign-in ends with it
func TestOffLetsInWhoLostEverything(t *testing.T) {
	h := factorHouse(t, store.FactorOperators)
	b, _, _ := h.withApp(t)
	h.raise(t, store.FactorOff)
	c := h.browser(t)
	wantSignedIn(t, c, c.submit(t, c.get(t, "/login"), rightPassword...), true)
	h.raise(t, store.FactorOperators)
	if c.isSignedIn(t) || !b.isSignedIn(t) {
		t.Error("a sign-in by the password alone outlives the setting, or one with a second factor does not")
	}
}

// Promise (Guard §1): when a second factor becomes required, sessions without one are none from the next request on
func TestRaisingTheSettingEndsSessions(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	b := h.signedIn(t, h.user)
	for _, policy := range []store.SecondFactor{store.FactorOperators, store.FactorAll, store.FactorOffered} {
		h.raise(t, policy)
		if got, want := b.isSignedIn(t), policy != store.FactorAll; got != want {
			t.Errorf("under the setting %d the session lives: %v, want %v", policy, got, want)
		}
		refused := callback(t, b.get(t, h.authURL("prompt", "none")), http.StatusFound).Query().Get("error")
		if want := map[bool]string{true: "login_required", false: "consent_required"}[policy == store.FactorAll]; refused != want {
			t.Errorf("under the setting %d prompt=none gets %q, want %q", policy, refused, want)
		}
	}
}

// Promise (Guard §2, §3): before the right password nothing tells who has a second factor
func TestAWrongPasswordIsAlikeWithAFactor(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	h.withApp(t)
	h.User(t, "nils", h.account)
	refused := func(name string) (answer, string) {
		b := h.browser(t)
		a := b.submit(t, b.get(t, "/login"), "username", name, "password", "not the password")
		text := strings.ReplaceAll(a.body, `value="`+name+`"`, "")
		_, rest, _ := strings.Cut(text, `name="form_token" value="`)
		before, _, _ := strings.Cut(text, `name="form_token" value="`)
		_, rest, _ = strings.Cut(rest, `"`)
		return a, before + rest
	}
	with, page := refused("mara")
	without, other := refused("nils")
	if with.StatusCode != without.StatusCode || page != other || len(with.Header["Set-Cookie"]) != len(without.Header["Set-Cookie"]) {
		t.Errorf("a wrong password of a user with a factor: %d, without: %d, pages alike: %v", with.StatusCode, without.StatusCode, page == other)
	}
}
