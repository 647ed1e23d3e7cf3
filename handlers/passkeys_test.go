package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/handlers/passkey/passkeytest"
	"tollhouse/store"
	"tollhouse/store/storetest"
)

// deviceAt is an authenticator in a browser that is at the house's address.
func deviceAt(t testing.TB, h *house, id string) *passkeytest.Device {
	t.Helper()
	u, err := url.Parse(h.issuer)
	if err != nil {
		t.Fatal(err)
	}
	d := passkeytest.New(t, passkeytest.ES256)
	d.ID, d.Origin, d.RPID = []byte(id), u.Scheme+"://"+u.Host, u.Hostname()
	return d
}

// optionsOn returns the options of the form that asks for a passkey.
func optionsOn(t testing.TB, page answer, do string) string {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Data == "form" && attribute(n, "data-do") == do {
			return attribute(n, "data-options")
		}
	}
	t.Fatalf("no form %s on the page (%d): %.2000s", do, page.StatusCode, words(t, page))
	return ""
}

// beginsPasskey gets the form for a passkey that is to be made.
func (b *browser) beginsPasskey(t testing.TB, name string) answer {
	t.Helper()
	return b.do(t, b.get(t, factorPage), "begin-passkey", "current_password", storetest.Password, "name", name)
}

// makesPasskey makes one, and leaves the other sign-ins' tokens alone.
func (b *browser) makesPasskey(t testing.TB, d *passkeytest.Device, name string) answer {
	t.Helper()
	page := b.beginsPasskey(t, name)
	return b.do(t, page, "confirm-passkey", "credential", d.Made(t, optionsOn(t, page, "confirm-passkey")).JSON(t), "end_all", "")
}

// usesPasskey answers the second step.
func (b *browser) usesPasskey(t testing.TB, page answer, d *passkeytest.Device) answer {
	t.Helper()
	return b.do(t, page, "passkey", "credential", d.Used(t, optionsOn(t, page, "passkey")).JSON(t))
}

// passkeysOn returns the ids of the passkeys that the page lists.
func passkeysOn(t testing.TB, page answer) (ids []string) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Type == html.ElementNode && n.Data == "tr" && attribute(n, "data-passkey") != "" {
			ids = append(ids, attribute(n, "data-passkey"))
		}
	}
	return ids
}

// Promise (Guard §5): a passkey is made with the password and shown with its name; the first brings
// recovery codes, each ends other sign-ins, and one is removed by its id
func TestPasskeys(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	b, other := h.signedIn(t, h.user), h.signedIn(t, h.user)
	page := b.beginsPasskey(t, "blue key")
	form := func(d *passkeytest.Device) []string {
		return []string{"credential", d.Made(t, optionsOn(t, page, "confirm-passkey")).JSON(t), "end_all", ""}
	}
	if h.Count(t, 'j') != 0 {
		t.Error("a passkey that is not made is stored")
	}
	first := deviceAt(t, h, "first")
	before := b.cookie(sessionCookie)
	done := b.do(t, page, "confirm-passkey", form(first)...)
	if codes := allMarked(t, done, "data-recovery-code"); done.StatusCode != http.StatusOK || len(codes) != 10 {
		t.Fatalf("the first passkey: %d %s", done.StatusCode, words(t, done))
	}
	if !b.isSignedIn(t) || b.cookie(sessionCookie) == before || other.isSignedIn(t) {
		t.Error("this browser must stay under a new session id, and the other one must be signed out")
	}
	if again := b.do(t, page, "confirm-passkey", form(first)...); again.StatusCode != http.StatusForbidden {
		t.Errorf("the form again: %d, want 403", again.StatusCode)
	}
	if done = b.makesPasskey(t, deviceAt(t, h, "second"), "phone"); done.StatusCode != http.StatusOK || len(allMarked(t, done, "data-recovery-code")) != 0 {
		t.Errorf("the second passkey: %d %s", done.StatusCode, words(t, done))
	}
	page = b.get(t, factorPage)
	if ids := passkeysOn(t, page); !slices.Equal(ids, []string{"Zmlyc3Q", "c2Vjb25k"}) || !strings.Contains(words(t, page), "blue key") {
		t.Errorf("the page lists %q: %s", ids, words(t, page))
	}
	if !strings.Contains(b.get(t, accountPath).body, `data-second-factor="passkey"`) {
		t.Error("the account page does not show the passkeys")
	}
	if len(h.audited(t, "passkey added")) != 2 {
		t.Error("the audit log has not two passkeys")
	}
	t.Run("the_same_passkey_again", func(t *testing.T) {
		if a := b.makesPasskey(t, first, "again"); !strings.Contains(words(t, a), "That passkey was refused. Nothing was changed.") {
			t.Errorf("%d %s", a.StatusCode, words(t, a))
		}
	})
	t.Run("a_name_that_nobody_sees", func(t *testing.T) {
		for _, name := range []string{"", " ", "\u200b", "a\nb", strings.Repeat("ü", 61)} {
			a := b.beginsPasskey(t, name)
			if a.StatusCode != http.StatusOK || strings.Contains(a.body, "data-webauthn=") || !strings.Contains(words(t, a), "Give a name of 1 to 60 visible characters.") {
				t.Errorf("%q: %d %s", name, a.StatusCode, words(t, a))
			}
		}
		if a := b.beginsPasskey(t, strings.Repeat("ü", 60)); optionsOn(t, a, "confirm-passkey") == "" {
			t.Error("60 characters are refused")
		}
	})
	t.Run("a_wrong_password", func(t *testing.T) {
		for _, do := range []string{"begin-passkey", "remove-passkey"} {
			a := b.do(t, b.get(t, factorPage), do, "current_password", "no", "name", "x", "passkey", "Zmlyc3Q")
			if a.StatusCode != http.StatusOK || !strings.Contains(words(t, a), "That is not your current password.") || strings.Contains(a.body, "data-webauthn=") {
				t.Errorf("%s: %d %s", do, a.StatusCode, words(t, a))
			}
		}
	})
	t.Run("removed", func(t *testing.T) {
		for _, id := range []string{"c2Vjb25l", "!", ""} { // of nobody
			if a := b.do(t, b.get(t, factorPage), "remove-passkey", "current_password", storetest.Password, "passkey", id); a.StatusCode != http.StatusForbidden {
				t.Errorf("the passkey %q of nobody: %d, want 403", id, a.StatusCode)
			}
		}
		a := b.do(t, b.get(t, factorPage), "remove-passkey", "current_password", storetest.Password, "passkey", "Zmlyc3Q")
		if ids := passkeysOn(t, b.follow(t, a)); !slices.Equal(ids, []string{"c2Vjb25k"}) {
			t.Errorf("after the removal the page lists %q", ids)
		}
		b.do(t, b.get(t, factorPage), "remove-passkey", "current_password", storetest.Password, "passkey", "c2Vjb25k")
		if h.Count(t, 'j') != 0 || len(h.audited(t, "passkey removed")) != 2 {
			t.Error("something of the second factor outlives the last passkey, or the audit log lacks a line")
		}
	})
}

// Promise (Guard §5): a user has ten passkeys at most; the last factor of who must have one stays
func TestHowManyPasskeys(t *testing.T) {
	h := factorHouse(t, store.FactorAll)
	b := h.browser(t)
	page := b.password(t, "/login")
	app := newApp(t, h, page)
	b.do(t, page, "confirm-totp", "code", app.code())
	eleventh := b.beginsPasskey(t, "eleventh")
	for _, id := range strings.Split("0123456789", "") {
		if a := b.makesPasskey(t, deviceAt(t, h, id), "key "+id); a.StatusCode != http.StatusOK {
			t.Fatalf("passkey %s: %d %s", id, a.StatusCode, words(t, a))
		}
	}
	if ids := passkeysOn(t, b.get(t, factorPage)); len(ids) != 10 {
		t.Errorf("the page lists %d passkeys", len(ids))
	}
	action, fields := deskForm(t, eleventh, "confirm-passkey")
	if a := b.post(t, action, fields); a.StatusCode != http.StatusForbidden {
		t.Errorf("a form of before: %d", a.StatusCode)
	}
	_, fields = deskForm(t, b.get(t, factorPage), "remove-totp")
	a := b.post(t, factorPage+"/passkey", with(fields, "current_password", storetest.Password, "name", "eleventh"))
	if a.StatusCode != http.StatusOK || strings.Contains(a.body, "data-webauthn=") || !strings.Contains(words(t, a), "You have as many passkeys as you can have.") {
		t.Errorf("the eleventh: %d %s", a.StatusCode, words(t, a))
	}
	b.do(t, b.get(t, factorPage), "remove-totp", "current_password", storetest.Password)
	for _, id := range passkeysOn(t, b.get(t, factorPage))[1:] {
		wantStatus(t, b.do(t, b.get(t, factorPage), "remove-passkey", "current_password", storetest.Password, "passkey", id), http.StatusSeeOther)
	}
	last := passkeysOn(t, b.get(t, factorPage))
	if a := b.do(t, b.get(t, factorPage), "remove-passkey", "current_password", storetest.Password, "passkey", last[0]); a.StatusCode != http.StatusConflict {
		t.Errorf("the last factor: %d %s, want 409", a.StatusCode, words(t, a))
	}
}

// Promise (Guard §5): a passkey signs in as the second step, once for each challenge, and says in the
// audit log whether it is bound to its device
func TestPasskeySignsIn(t *testing.T) {
	for name, synced := range map[string]bool{"hwk": false, "swk": true} {
		t.Run(name, func(t *testing.T) {
			h := factorHouse(t, store.FactorOffered)
			d := deviceAt(t, h, "one")
			if synced {
				d.Flags |= passkeytest.BackupEligible | passkeytest.BackedUp
			}
			h.signedIn(t, h.user).makesPasskey(t, d, "key")
			for count := range uint32(3) { // 0 and 0 do not count; then each rises
				d.Count = count * 7
				b := h.browser(t)
				page := b.password(t, h.authURL("state", "s"))
				if b.cookie(sessionCookie) != "" || strings.Contains(page.body, `data-do="second-factor"`) {
					t.Error("before the passkey there is a session, or an app is asked for")
				}
				a := b.usesPasskey(t, page, d)
				if to := a.Header.Get("Location"); to != h.authURL("state", "s") {
					t.Fatalf("it leads by %d to %q: %s", a.StatusCode, to, words(t, a))
				}
				wantSignedIn(t, b, a, true)
			}
			lines := h.audit(t)
			last := lines[slices.IndexFunc(lines, func(l store.AuditLine) bool { return l.What == store.AuditLogin && l.Amr.HasFactor() })]
			if got := last.Amr.Values(); !slices.Equal(got, []string{"pwd", name, "mfa"}) {
				t.Errorf("the audit log has %q", got)
			}
		})
	}
}

// Promise (Guard §5): X8, a wrong answer shows the page again and changes nothing
func TestForeignPasskeys(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	mine, theirs := deviceAt(t, h, "mine"), deviceAt(t, h, "theirs")
	mine.Count = 9
	owner := h.signedIn(t, h.user)
	owner.makesPasskey(t, mine, "key")
	nils := h.User(t, "nils", h.account)
	thief := h.signedIn(t, nils)
	thief.makesPasskey(t, theirs, "key")
	setUpOn := func(page answer, do string) string {
		_, fields := deskForm(t, page, do)
		return fields.Get("setup")
	}
	t.Run("a_new_passkey", func(t *testing.T) {
		for name, bend := range map[string]func(page answer, a *passkeytest.Answer) []string{
			"origin": func(_ answer, a *passkeytest.Answer) []string {
				a.ClientData["origin"] = "https://evil.example"
				return nil
			},
			"type":  func(_ answer, a *passkeytest.Answer) []string { a.ClientData["type"] = "webauthn.get"; return nil },
			"host":  func(_ answer, a *passkeytest.Answer) []string { a.RPID = "evil.example"; return nil },
			"empty": func(answer, *passkeytest.Answer) []string { return []string{"credential", ""} },
		} {
			page := thief.beginsPasskey(t, "another")
			a := deviceAt(t, h, "new").Made(t, optionsOn(t, page, "confirm-passkey"))
			fields := bend(page, a)
			again := thief.do(t, page, "confirm-passkey", append([]string{"credential", a.JSON(t)}, fields...)...)
			if again.StatusCode != http.StatusOK || !strings.Contains(words(t, again), "That passkey was refused. Nothing was changed.") {
				t.Errorf("%s: %d %s", name, again.StatusCode, words(t, again))
			}
			if ids := passkeysOn(t, thief.get(t, factorPage)); len(ids) != 1 {
				t.Errorf("%s: the page lists %q", name, ids)
			}
		}
	})
	b := h.browser(t)
	old := b.password(t, "/login")
	h.Clock.Advance(time.Second)
	mine.Count = 10
	for name, test := range map[string]struct {
		bend   func(a *passkeytest.Answer)
		fields func(page answer) []string // in place of those of the form
		reason string
	}{
		"origin":       {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://evil.example" }},
		"port":         {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = h.issuer + ":8443" }},
		"host":         {bend: func(a *passkeytest.Answer) { a.RPID = "evil.example" }},
		"challenge":    {bend: func(a *passkeytest.Answer) { a.ClientData["challenge"] = strings.Repeat("A", 35) }},
		"type":         {bend: func(a *passkeytest.Answer) { a.ClientData["type"] = "webauthn.create" }},
		"signature":    {bend: func(a *passkeytest.Answer) { a.Signature = []byte("0") }},
		"presence":     {bend: func(a *passkeytest.Answer) { a.Flags = 0 }},
		"backup_flag":  {bend: func(a *passkeytest.Answer) { a.Flags |= passkeytest.BackupEligible }},
		"count":        {bend: func(a *passkeytest.Answer) { a.Count = 9 }, reason: "passkey_counter"},
		"no_count":     {bend: func(a *passkeytest.Answer) { a.Count = 0 }, reason: "passkey_counter"},
		"17_KiB":       {bend: func(a *passkeytest.Answer) { a.Extra["pad"] = strings.Repeat("x", 17<<10) }},
		"not_JSON":     {fields: func(answer) []string { return []string{"credential", "x"} }},
		"deep_JSON":    {fields: func(answer) []string { return []string{"credential", strings.Repeat("[", 16000)} }},
		"no_challenge": {fields: func(answer) []string { return []string{"setup", ""} }},
		"old_challenge": {fields: func(answer) []string {
			return []string{"setup", setUpOn(old, "passkey"), "credential", mine.Used(t, optionsOn(t, old, "passkey")).JSON(t)}
		}},
		"challenge_of_another": {fields: func(answer) []string {
			c := h.browser(t)
			page := c.follow(t, c.submit(t, c.get(t, "/login"), "username", "nils", "password", storetest.Password))
			return []string{"setup", setUpOn(page, "passkey"), "credential", mine.Used(t, optionsOn(t, page, "passkey")).JSON(t)}
		}},
		"passkey_of_another": {fields: func(page answer) []string {
			return []string{"credential", theirs.Used(t, optionsOn(t, page, "passkey")).JSON(t)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if h.Clock.Advance(time.Minute); test.reason == "" { // a source has 30 failures a minute
				test.reason = "passkey_refused"
			}
			before := len(h.audited(t, test.reason))
			b := h.browser(t)
			page := b.password(t, "/login")
			a := mine.Used(t, optionsOn(t, page, "passkey"))
			if test.bend != nil {
				test.bend(a)
			}
			sent := []string{"credential", a.JSON(t)}
			if test.fields != nil {
				sent = append(sent, test.fields(page)...)
			}
			again := b.do(t, page, "passkey", sent...)
			if again.StatusCode != http.StatusOK || !strings.Contains(words(t, again), "That code is not valid. Each code works once.") {
				t.Errorf("%d %s", again.StatusCode, words(t, again))
			}
			wantSignedIn(t, b, again, false)
			if after := len(h.audited(t, test.reason)); after != before+1 {
				t.Errorf("the audit log has %d lines of %s, want %d", after, test.reason, before+1)
			}
			if optionsOn(t, again, "passkey") == optionsOn(t, page, "passkey") {
				t.Error("the challenge is the same again")
			}
		})
	}
	t.Run("after_five_minutes", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login")
		h.Clock.Advance(5*time.Minute + time.Second)
		again := b.usesPasskey(t, page, mine)
		wantSignedIn(t, b, again, false)
		wantSignedIn(t, b, b.usesPasskey(t, again, mine), true)
	})
	t.Run("a_challenge_serves_once", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login")
		step := b.cookie(stepCookie)
		mine.Count++
		wantSignedIn(t, b, b.usesPasskey(t, page, mine), true)
		mine.Count++
		c := h.browser(t)
		c.setCookie(stepCookie, step)
		wantSignedIn(t, c, c.usesPasskey(t, page, mine), false)
	})
}

// Promise (Guard §2, §3): X7, a passkey's form of another user, sign-in, time or ceremony is refused
func TestForeignPasskeyForms(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	nils := h.User(t, "nils", h.account)
	b := h.signedIn(t, h.user)
	setUpOn := func(page answer, do string) string {
		_, fields := deskForm(t, page, do)
		return fields.Get("setup")
	}
	page := b.beginsPasskey(t, "mine")
	refused := func(what string, b *browser, setUp, options string) {
		t.Helper()
		a := b.do(t, page, "confirm-passkey", "setup", setUp, "credential", deviceAt(t, h, what).Made(t, options).JSON(t))
		if a.StatusCode != http.StatusForbidden || h.Count(t, 'j') != 0 {
			t.Errorf("%s: %d, want 403 and nothing stored", what, a.StatusCode)
		}
	}
	for what, from := range map[string]*browser{"of another user": h.signedIn(t, nils), "of another sign-in": h.signedIn(t, h.user)} {
		foreign := from.beginsPasskey(t, "theirs")
		refused(what, b, setUpOn(foreign, "confirm-passkey"), optionsOn(t, foreign, "confirm-passkey"))
	}
	options, sealed := optionsOn(t, page, "confirm-passkey"), setUpOn(page, "confirm-passkey")
	refused("forged", b, storetest.Bent(sealed), options)
	app := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
	refused("of an app", b, setUpOn(app, "confirm-totp"), options)
	h.Clock.Advance(5*time.Minute + time.Second)
	refused("of five minutes ago", b, sealed, options)
}

// Promise (Guard §5): at another host a passkey is listed with its host and not asked for; back under
// the old one it works
func TestPasskeysOfAnotherHost(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	h := houseOver(t, f)
	d := deviceAt(t, h, "one")
	codes := allMarked(t, h.signedIn(t, h.user).makesPasskey(t, d, "key"), "data-recovery-code")
	issuer := h.issuer
	h.open(h.Store, at("https://new.example"))
	b := h.browser(t)
	page := b.password(t, "/login?to=account")
	text := words(t, page)
	if strings.Contains(page.body, `data-do="passkey"`) || !strings.Contains(page.body, `data-do="recovery"`) || !strings.Contains(text, "Your passkeys work at "+d.RPID+" only.") {
		t.Errorf("the second step says %q", text)
	}
	moved := deviceAt(t, h, "one")
	_, fields := deskForm(t, page, "recovery")
	a := b.post(t, secondStep, with(fields, "credential", moved.Used(t, `{"challenge":"AAAA"}`).JSON(t)))
	wantSignedIn(t, b, a, false)

	h.open(h.Store, at(issuer))
	b = h.browser(t)
	wantSignedIn(t, b, b.usesPasskey(t, b.password(t, "/login"), d), true)
	session := b.cookie(sessionCookie)
	h.open(h.Store, at("https://new.example"))
	b = h.browser(t)
	b.setCookie(sessionCookie, session)
	page = b.get(t, factorPage)
	if ids := passkeysOn(t, page); len(ids) != 1 || !strings.Contains(words(t, page), "works at "+d.RPID+" only") {
		t.Errorf("the page lists %q: %s", ids, words(t, page))
	}
	t.Run("the_way_back_is_a_recovery_code", func(t *testing.T) {
		b := h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "recovery", "recovery_code", codes[0]), true)
		fresh := deviceAt(t, h, "fresh")
		b.makesPasskey(t, fresh, "new key")
		b.do(t, b.get(t, factorPage), "remove-passkey", "current_password", storetest.Password, "passkey", passkeysOn(t, b.get(t, factorPage))[0])
		b = h.browser(t)
		wantSignedIn(t, b, b.usesPasskey(t, b.password(t, "/login"), fresh), true)
	})
}

func TestPasskeysWithoutHTTPS(t *testing.T) {
	t.Parallel()
	h := houseOver(t, storetest.New(t))
	h.signedIn(t, h.user).makesPasskey(t, deviceAt(t, h, "one"), "key")
	h.open(h.Store, at(strings.Replace(h.issuer, "https:", "http:", 1)))
	page := h.browser(t).password(t, "/login")
	if text := words(t, page); strings.Contains(page.body, "data-webauthn=") || !strings.Contains(text, "Passkeys need https and a host name.") || strings.Contains(text, "only.") {
		t.Errorf("the second step says %q", text)
	}
}

// Promise (Guard §5): where browsers make no passkeys the page has no form and says why
func TestPasskeysAreNotOffered(t *testing.T) {
	for _, public := range []string{"http://pay.example", "https://192.0.2.7", "http://127.0.0.1:8080"} {
		t.Run(public, func(t *testing.T) {
			h := parallelHouse(t, at(public))
			b := h.signedIn(t, h.user)
			page := b.get(t, factorPage)
			if strings.Contains(page.body, `data-do="begin-passkey"`) || !strings.Contains(words(t, page), "Passkeys need https and a host name.") {
				t.Errorf("the page says %q", words(t, page))
			}
			_, fields := deskForm(t, page, "begin-totp")
			a := b.post(t, factorPage+"/passkey", with(fields, "current_password", storetest.Password, "name", "key"))
			if a.StatusCode != http.StatusOK || strings.Contains(a.body, "data-webauthn=") {
				t.Errorf("the form nevertheless: %d %s", a.StatusCode, words(t, a))
			}
		})
	}
}

// Promise (Guard §5): the pages of passkeys alone load their script, under trusted types, and fetch nothing
func TestPolicyOfPasskeyPages(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	d := deviceAt(t, h, "one")
	b := h.signedIn(t, h.user)
	pages := map[string]answer{"the_page": b.get(t, factorPage), "the_new_passkey": b.beginsPasskey(t, "key")}
	b.makesPasskey(t, d, "key")
	pages["the_second_step"] = h.browser(t).password(t, "/login")
	pages["the_request's_second_step"] = h.browser(t).password(t, h.authURL())
	for name, page := range pages {
		policy := directivesOf(page.Header.Get("Content-Security-Policy"))
		if policy["script-src"] != "'self'" || policy["require-trusted-types-for"] != "'script'" || policy["connect-src"] != "" || policy["default-src"] != "'none'" {
			t.Errorf("%s has the policy %v", name, policy)
		}
		if !strings.Contains(page.body, "/static/passkey.") {
			t.Errorf("%s lacks the script", name)
		}
	}
	for _, path := range []string{"/login", accountPath, "/"} {
		page := h.browser(t).get(t, path)
		if path != "/login" {
			page = b.get(t, path)
		}
		if policy := directivesOf(page.Header.Get("Content-Security-Policy")); policy["require-trusted-types-for"] != "" || strings.Contains(page.body, "/static/passkey.") {
			t.Errorf("%s has the policy %v", path, policy)
		}
	}
}
