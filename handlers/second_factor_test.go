package handlers_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const (
	secondStep = "/login/second-factor"
	factorPage = "/account/second-factor"
	stepCookie = "__Host-tollhouse_step"
)

// app is an authenticator app (RFC 6238), written anew for the tests.
type app struct {
	secret string // base32
	now    func() time.Time
}

func (a app) code() string { return a.codeAt(a.now()) }

func (a app) codeAt(at time.Time) string {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(a.secret, " ", ""))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/30)))
	sum := mac.Sum(nil)
	from := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[from:])&0x7fffffff)%1_000_000)
}

// wrong is a code that is not that of any step nearby.
func (a app) wrong() string {
	near := map[string]bool{}
	for step := -40; step <= 40; step++ {
		near[a.codeAt(a.now().Add(time.Duration(step)*30*time.Second))] = true
	}
	for n := range 1000 {
		if code := fmt.Sprintf("%06d", n); !near[code] {
			return code
		}
	}
	panic("a thousand codes are near")
}

// factorHouse is a house whose clock stands at the beginning of a step.
func factorHouse(t *testing.T, policy store.SecondFactor) *house {
	t.Helper()
	t.Parallel()
	f := storetest.New(t, func(o *store.Options) { o.SecondFactor = policy })
	return houseOver(t, f)
}

// send sends a form of a page, by its data-do.
func (b *browser) do(t testing.TB, page answer, do string, namesAndValues ...string) answer {
	t.Helper()
	action, fields := deskForm(t, page, do)
	return b.post(t, action, with(fields, namesAndValues...))
}

// setsUp sets up an app for the user who is signed in, and returns it with the recovery codes.
func (b *browser) setsUp(t testing.TB) (app, []string) {
	t.Helper()
	page := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
	a := app{marked(t, page, "data-totp-secret"), b.h.Clock.Now}
	done := b.do(t, page, "confirm-totp", "code", a.code(), "end_all", "")
	codes := allMarked(t, done, "data-recovery-code")
	if done.StatusCode != http.StatusOK || a.secret == "" {
		t.Fatalf("setting up an app: %d %s", done.StatusCode, words(t, done))
	}
	b.h.Clock.Advance(30 * time.Second)
	return a, codes
}

// allMarked returns the texts of the elements with that attribute.
func allMarked(t testing.TB, page answer, name string) (texts []string) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Type == html.ElementNode && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name }) {
			texts = append(texts, strings.TrimSpace(textOf(n)))
		}
	}
	return texts
}

// withApp is a user with an app, as a browser of theirs set it up.
func (h *house) withApp(t testing.TB) (*browser, app, []string) {
	t.Helper()
	b := h.signedIn(t, h.user)
	a, codes := b.setsUp(t)
	return b, a, codes
}

// password signs in with the right password, up to the second step.
func (b *browser) password(t testing.TB, to string) answer {
	t.Helper()
	a := b.submit(t, b.get(t, to), rightPassword...)
	if at := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(at, secondStep) {
		t.Fatalf("the right password leads by %d to %q, want the second step", a.StatusCode, at)
	}
	return b.follow(t, a)
}

func (b *browser) isSignedIn(t testing.TB) bool {
	t.Helper()
	return strings.Contains(words(t, b.get(t, "/")), "Signed in as mara")
}

func wantSignedIn(t testing.TB, b *browser, a answer, want bool) {
	t.Helper()
	if got := b.isSignedIn(t); got != want {
		t.Errorf("signed in: %v, want %v, after %d to %q: %.300s", got, want, a.StatusCode, a.Header.Get("Location"), words(t, a))
	}
}

// Promise (Guard §2, §3): who has an app has no session before its code; the request is kept
func TestSecondStep(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	_, app, _ := h.withApp(t)
	t.Run("the_right_password_gives_no_session", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login")
		if b.cookie(sessionCookie) != "" || b.cookie(deviceCookie) != "" || b.cookie(stepCookie) == "" {
			t.Error("between the password and the code there is a session or a device cookie, or no step")
		}
		for _, path := range []string{"/account", factorPage} {
			if a := b.get(t, path); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/login") {
				t.Errorf("GET %s = %d to %q, want the sign-in", path, a.StatusCode, a.Header.Get("Location"))
			}
		}
		if text := words(t, page); !strings.Contains(text, "Second factor for mara") || !strings.Contains(text, "Code from your app") {
			t.Errorf("the page says %q", text)
		}
		a := b.do(t, page, "second-factor", "code", app.code()[:3]+" "+app.code()[3:])
		wantSignedIn(t, b, a, true)
		if b.cookie(stepCookie) != "" || b.cookie(deviceCookie) == "" {
			t.Error("after both steps the step's cookie is left, or the device cookie is missing")
		}
		h.Clock.Advance(time.Minute)
	})
	t.Run("leads_back_to_the_request", func(t *testing.T) {
		b := h.browser(t)
		a := b.do(t, b.password(t, h.authURL("state", "s")), "second-factor", "code", app.code())
		if to := a.Header.Get("Location"); to != h.authURL("state", "s") {
			t.Errorf("it leads to %q, want the request", to)
		}
		h.Clock.Advance(time.Minute)
	})
	t.Run("a_wrong_code_is_shown_again_in_one_text", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login")
		for _, code := range []string{app.wrong(), app.codeAt(h.Clock.Now().Add(5 * time.Minute)), "12345", "１２３４５６"} {
			a := b.do(t, page, "second-factor", "code", code)
			if a.StatusCode != http.StatusOK || !strings.Contains(words(t, a), "That code is not valid. Each code works once.") {
				t.Errorf("%q: %d %s", code, a.StatusCode, words(t, a))
			}
		}
		wantSignedIn(t, b, page, false)
		h.Clock.Advance(2 * time.Hour)
	})
	t.Run("a_step_serves_once_and_ten_minutes", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login")
		step := b.cookie(stepCookie)
		wantSignedIn(t, b, b.do(t, page, "second-factor", "code", app.code()), true)
		h.Clock.Advance(time.Minute)
		other := h.browser(t)
		other.setCookie(stepCookie, step)
		a := other.do(t, page, "second-factor", "code", app.code())
		wantSignedIn(t, other, a, false)
		if text := words(t, other.follow(t, a)); !strings.Contains(text, "Your sign-in took too long. Enter your password again.") {
			t.Errorf("a spent step leads to %q", text)
		}
		empty := h.browser(t)
		if text := words(t, empty.follow(t, empty.do(t, page, "second-factor", "code", app.code()))); !strings.Contains(text, "Your sign-in took too long.") {
			t.Errorf("a form without the cookie leads to %q", text)
		}
		late := h.browser(t)
		page = late.password(t, h.authURL("state", "kept"))
		h.Clock.Advance(10 * time.Minute)
		a = late.do(t, page, "second-factor", "code", app.code())
		wantSignedIn(t, late, a, false)
		next := late.follow(t, a)
		if text := words(t, next); !strings.Contains(text, "Your sign-in took too long.") || !strings.Contains(next.body, "state=kept") {
			t.Errorf("a step of ten minutes leads to %q", text)
		}
	})
	t.Run("a_form_of_another_step_counts_nothing", func(t *testing.T) {
		b := h.browser(t)
		old := b.password(t, "/login")
		b.password(t, "/login")
		a := b.do(t, old, "second-factor", "code", app.code())
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, `data-do="second-factor"`) {
			t.Errorf("a form of another tab: %d %s", a.StatusCode, words(t, a))
		}
		wantSignedIn(t, b, b.do(t, a, "second-factor", "code", app.code()), true)
		h.Clock.Advance(time.Minute)
	})
	t.Run("start_over_ends_it", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login?to=account")
		step := b.cookie(stepCookie)
		a := b.do(t, page, "start-over")
		if to := a.Header.Get("Location"); to != "/login?to=account" || b.cookie(stepCookie) != "" {
			t.Errorf("start-over leads to %q", to)
		}
		thief := h.browser(t)
		thief.setCookie(stepCookie, step)
		wantSignedIn(t, thief, thief.do(t, page, "second-factor", "code", app.code()), false)
	})
	t.Run("a_device_cookie_opens_no_door", func(t *testing.T) {
		b := h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", app.code()), true)
		h.Clock.Advance(time.Minute)
		thief := h.browser(t)
		thief.setCookie(deviceCookie, b.cookie(deviceCookie))
		wantSignedIn(t, thief, thief.password(t, "/login"), false)
	})
}

// Promise (Guard §4): X1, a code gives one session however it is repeated
func TestAppCodeWorksOnce(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	_, app, _ := h.withApp(t)
	t.Run("at_once", func(t *testing.T) {
		const tries = 16
		var wg sync.WaitGroup
		var mu sync.Mutex
		signedIn := 0
		for range tries {
			b := h.browser(t)
			page := b.password(t, "/login")
			wg.Go(func() {
				a := b.do(t, page, "second-factor", "code", app.code())
				mu.Lock()
				defer mu.Unlock()
				if a.StatusCode == http.StatusSeeOther {
					signedIn++
				}
			})
		}
		wg.Wait()
		if signedIn != 1 {
			t.Errorf("one code gave %d sessions, want 1", signedIn)
		}
	})
	t.Run("an_older_code_after_a_newer", func(t *testing.T) {
		h.Clock.Advance(time.Minute)
		b := h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", app.codeAt(h.Clock.Now().Add(30*time.Second))), true)
		b = h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", app.code()), false)
	})
	t.Run("that_of_the_set_up", func(t *testing.T) {
		h := factorHouse(t, store.FactorOffered)
		b := h.signedIn(t, h.user)
		page := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
		app := newApp(t, h, page)
		code := app.code()
		b.do(t, page, "confirm-totp", "code", code)
		b = h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", code), false)
	})
}

func newApp(t testing.TB, h *house, page answer) app {
	t.Helper()
	return app{marked(t, page, "data-totp-secret"), h.Clock.Now}
}

// Promise (Guard §4): five wrong codes are free in all; then each waits, and nobody is locked out
func TestGuessesAtCodes(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	known, app, recovery := h.withApp(t)
	guesser := h.browser(t)
	judged, early := 0, 0
	for range 12 { // each a sign-in of its own
		a := guesser.do(t, guesser.password(t, "/login"), "second-factor", "code", app.wrong())
		switch a.StatusCode {
		case http.StatusOK:
			judged++
		case http.StatusTooManyRequests:
			early++
			if a.Header.Get("Retry-After") != "60" {
				t.Errorf("Retry-After = %q, want 60", a.Header.Get("Retry-After"))
			}
			if text := words(t, a); !strings.Contains(text, "Too many wrong codes. Try again in 1 minute, or use a recovery code or a passkey.") {
				t.Errorf("the page says %q", text)
			}
		}
	}
	if judged != 5 || early != 7 {
		t.Fatalf("%d wrong codes were judged and %d came too early, want 5 and 7", judged, early)
	}
	a := guesser.do(t, guesser.password(t, "/login"), "second-factor", "code", app.code())
	if a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the right code, too early: %d, want 429", a.StatusCode)
	}
	t.Run("the_delay_doubles_to_an_hour", func(t *testing.T) {
		for _, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			h.Clock.Advance(time.Duration(minutes)*time.Minute - time.Second)
			if a := guesser.do(t, guesser.password(t, "/login"), "second-factor", "code", app.wrong()); a.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("a second before %d minutes: %d, want 429", minutes, a.StatusCode)
			}
			h.Clock.Advance(time.Second)
			if a := guesser.do(t, guesser.password(t, "/login"), "second-factor", "code", app.wrong()); a.StatusCode != http.StatusOK {
				t.Fatalf("after %d minutes: %d, want 200", minutes, a.StatusCode)
			}
		}
	})
	t.Run("not_for_a_browser_that_is_known", func(t *testing.T) {
		b := h.browser(t)
		b.setCookie(deviceCookie, known.cookie(deviceCookie))
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", app.code()), true)
	})
	t.Run("which_has_a_count_of_its_own", func(t *testing.T) {
		h.Clock.Advance(30 * time.Second)
		b := h.browser(t)
		b.setCookie(deviceCookie, known.cookie(deviceCookie))
		for i := range 7 {
			a := b.do(t, b.password(t, "/login"), "second-factor", "code", app.wrong())
			if want := map[bool]int{true: 200, false: 429}[i < 5]; a.StatusCode != want {
				t.Errorf("wrong code %d of a known browser: %d, want %d", i+1, a.StatusCode, want)
			}
		}
	})
	t.Run("nor_for_a_recovery_code", func(t *testing.T) {
		b := h.browser(t)
		page := b.password(t, "/login")
		if a := b.do(t, page, "recovery", "recovery_code", recovery[1][:4]+recovery[0][4:]); a.StatusCode != http.StatusOK {
			t.Errorf("a wrong recovery code: %d", a.StatusCode)
		}
		typed := strings.ToUpper(strings.ReplaceAll(recovery[0], "-", " "))
		typed = strings.NewReplacer("0", "o", "1", "l").Replace(typed)
		wantSignedIn(t, b, b.do(t, page, "recovery", "recovery_code", typed), true)
		b = h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "recovery", "recovery_code", recovery[0]), false)
	})
	t.Run("a_new_password_ends_it", func(t *testing.T) {
		must.Get(h.SetPassword(context.Background(), "mara", storetest.Password))(t)
		h.Clock.Advance(30 * time.Second)
		b := h.browser(t)
		wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", app.code()), true)
	})
}

// Promise (Guard §4): a browser that was known by the password alone has no count of its own
func TestGuessesInBrowsersThatNeverProvedTheFactor(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	owner := h.signedIn(t, h.user)
	var devices []string
	for range 3 { // whoever has the password can have as many as they like
		b := h.browser(t)
		b.submit(t, b.get(t, "/login"), rightPassword...)
		devices = append(devices, b.cookie(deviceCookie))
	}
	page := owner.do(t, owner.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
	app := newApp(t, h, page)
	action, fields := deskForm(t, page, "confirm-totp")
	fields.Del("end_all") // which would end what these are good for
	owner.post(t, action, with(fields, "code", app.code()))
	judged := 0
	for _, device := range devices {
		b := h.browser(t)
		b.setCookie(deviceCookie, device)
		for range 4 {
			if a := b.do(t, b.password(t, "/login"), "second-factor", "code", app.wrong()); a.StatusCode == http.StatusOK {
				judged++
			}
		}
	}
	if device := devices[0]; device == "" || judged != 5 {
		t.Errorf("%d wrong codes of %d browsers were judged (a device cookie of %d bytes), want 5 in all", judged, len(devices), len(device))
	}
	b := h.browser(t)
	b.setCookie(deviceCookie, owner.cookie(deviceCookie))
	h.Clock.Advance(30 * time.Second)
	wantSignedIn(t, b, b.do(t, b.password(t, "/login"), "second-factor", "code", app.code()), true)
}

// Promise (Guard §2, §3): a factor is set up with the password, shown once, and ends other sign-ins
func TestAccountSecondFactor(t *testing.T) {
	t.Run("set_up", func(t *testing.T) {
		h := factorHouse(t, store.FactorOffered)
		b, other := h.signedIn(t, h.user), h.signedIn(t, h.user)
		page := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", "not the password")
		if page.StatusCode != http.StatusOK || !strings.Contains(words(t, page), "That is not your current password.") || marked(t, page, "data-totp-secret") != "" {
			t.Errorf("a wrong password: %d %s", page.StatusCode, words(t, page))
		}
		page = b.do(t, page, "begin-totp", "current_password", storetest.Password)
		uri := must.Get(url.Parse(linkMarked(t, page, "data-otpauth")))(t)
		shown := strings.ReplaceAll(marked(t, page, "data-totp-secret"), " ", "")
		if uri.Query().Get("secret") != shown || len(shown) != 32 || uri.Query().Get("issuer") != "tollhouse" || uri.Path != "/tollhouse:mara" {
			t.Errorf("the URI is %s, the key %s", uri, shown)
		}
		if h.Count(t, 'j') != 0 {
			t.Error("a set-up that is not confirmed is stored")
		}
		if again := b.do(t, page, "confirm-totp", "code", newApp(t, h, page).wrong()); strings.ReplaceAll(marked(t, again, "data-totp-secret"), " ", "") != shown {
			t.Errorf("a wrong code: %s, want the form again with the same key", words(t, again))
		}
		drifted := b.do(t, page, "confirm-totp", "code", newApp(t, h, page).codeAt(h.Clock.Now().Add(-5*time.Minute)))
		if text := words(t, drifted); !strings.Contains(text, "5 minutes old: your phone's clock is slow") {
			t.Errorf("a code of five minutes ago: %s", text)
		}
		before := b.cookie(sessionCookie)
		a := newApp(t, h, page)
		done := b.do(t, page, "confirm-totp", "code", a.code(), "end_all", "")
		if codes := allMarked(t, done, "data-recovery-code"); len(codes) != 10 || len(codes[0]) != 19 {
			t.Fatalf("the codes are %q, %s", codes, words(t, done))
		}
		if !b.isSignedIn(t) || b.cookie(sessionCookie) == before || other.isSignedIn(t) {
			t.Error("this browser must stay under a new session id, and the other one must be signed out")
		}
		if again := b.do(t, page, "confirm-totp", "code", a.code()); again.StatusCode != http.StatusForbidden {
			t.Errorf("the form again: %d, want 403", again.StatusCode)
		}
		if !strings.Contains(b.get(t, accountPath).body, `data-second-factor="totp"`) {
			t.Error("the account page does not show the app")
		}
	})
	t.Run("removed_and_replaced", func(t *testing.T) {
		h := factorHouse(t, store.FactorOffered)
		b, first, recovery := h.withApp(t)
		page := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
		second := newApp(t, h, page)
		done := b.do(t, page, "confirm-totp", "code", second.code())
		if len(allMarked(t, done, "data-recovery-code")) != 0 {
			t.Error("a replaced app shows recovery codes")
		}
		h.Clock.Advance(30 * time.Second)
		c := h.browser(t)
		if a := c.do(t, c.password(t, "/login"), "second-factor", "code", first.code()); a.StatusCode != http.StatusOK {
			t.Errorf("a code of the old app: %d", a.StatusCode)
		}
		wantSignedIn(t, c, c.do(t, c.password(t, "/login"), "recovery", "recovery_code", recovery[0]), true)
		if left := marked(t, c.get(t, factorPage), "data-recovery-left"); left != "Recovery codes: 9 of 10 left" {
			t.Errorf("it says %q", left)
		}
		made := c.do(t, c.get(t, factorPage), "new-recovery-codes", "current_password", storetest.Password)
		fresh := allMarked(t, made, "data-recovery-code")
		if len(fresh) != 10 {
			t.Fatalf("new codes: %s", words(t, made))
		}
		d := h.browser(t)
		wantSignedIn(t, d, d.do(t, d.password(t, "/login"), "recovery", "recovery_code", recovery[1]), false)
		wantSignedIn(t, d, d.do(t, d.password(t, "/login"), "recovery", "recovery_code", fresh[0]), true)
		a := d.do(t, d.get(t, factorPage), "remove-totp", "current_password", storetest.Password)
		if text := words(t, d.follow(t, a)); !strings.Contains(text, "The app was removed.") || !strings.Contains(text, "You sign in with your password alone.") {
			t.Errorf("after the removal: %s", text)
		}
		if h.Count(t, 'j') != 0 {
			t.Error("the recovery codes outlive the last factor")
		}
	})
	t.Run("a_factor_proved_long_ago_is_asked_for_first", func(t *testing.T) {
		h := factorHouse(t, store.FactorOffered)
		b, app, _ := h.withApp(t)
		h.Clock.Advance(16 * time.Minute)
		a := b.do(t, b.get(t, factorPage), "remove-totp", "current_password", storetest.Password)
		if to := a.Header.Get("Location"); to != secondStep+"?to=second-factor" {
			t.Fatalf("%d to %q, want the second factor first", a.StatusCode, to)
		}
		before := b.cookie(sessionCookie)
		page := b.follow(t, a)
		a = b.do(t, page, "second-factor", "code", app.code())
		if to := a.Header.Get("Location"); to != factorPage || b.cookie(sessionCookie) == before {
			t.Errorf("after the code: %d to %q", a.StatusCode, to)
		}
		if a = b.do(t, b.get(t, factorPage), "remove-totp", "current_password", storetest.Password); a.Header.Get("Location") != factorPage {
			t.Errorf("then: %d to %q", a.StatusCode, a.Header.Get("Location"))
		}
	})
	t.Run("the_last_one_of_who_must_have_one_stays", func(t *testing.T) {
		h := factorHouse(t, store.FactorAll)
		b := h.browser(t)
		page := b.password(t, "/login?to=account")
		if text := words(t, page); !strings.Contains(text, "This server requires a second factor. Set one up to continue.") {
			t.Fatalf("the second step says %q", text)
		}
		app := newApp(t, h, page)
		done := b.do(t, page, "confirm-totp", "code", app.code())
		if len(allMarked(t, done, "data-recovery-code")) != 10 || linkMarked(t, done, "data-next") != "/account" {
			t.Errorf("the answer says %s", words(t, done))
		}
		wantSignedIn(t, b, done, true)
		a := b.do(t, b.get(t, factorPage), "remove-totp", "current_password", storetest.Password)
		if a.StatusCode != http.StatusConflict {
			t.Errorf("the removal of the last factor: %d %s, want 409", a.StatusCode, words(t, a))
		}
	})
	t.Run("off", func(t *testing.T) {
		h := factorHouse(t, store.FactorOff)
		b := h.signedIn(t, h.user)
		for _, path := range []string{factorPage, secondStep} {
			if a := b.get(t, path); a.StatusCode != http.StatusNotFound {
				t.Errorf("GET %s = %d, want 404", path, a.StatusCode)
			}
		}
	})
}

// Promise (Guard §2, §3): X7, a set-up of another user, sign-in, time or tab is refused
func TestForeignSetUps(t *testing.T) {
	h := factorHouse(t, store.FactorOffered)
	nils := h.User(t, "nils", h.account)
	b, other, theirs := h.signedIn(t, h.user), h.signedIn(t, h.user), h.signedIn(t, nils)
	begin := func(b *browser) (answer, app) {
		page := b.do(t, b.get(t, factorPage), "begin-totp", "current_password", storetest.Password)
		return page, newApp(t, h, page)
	}
	setUpOf := func(page answer) string {
		_, fields := deskForm(t, page, "confirm-totp")
		return fields.Get("setup")
	}
	page, app := begin(b)
	for name, from := range map[string]*browser{"another user": theirs, "another sign-in": other} {
		foreign, of := begin(from)
		if a := b.do(t, page, "confirm-totp", "code", of.code(), "setup", setUpOf(foreign)); a.StatusCode != http.StatusForbidden {
			t.Errorf("the set-up of %s: %d, want 403", name, a.StatusCode)
		}
	}
	sealed := setUpOf(page)
	if a := b.do(t, page, "confirm-totp", "code", app.code(), "setup", storetest.Bent(sealed)); a.StatusCode != http.StatusForbidden {
		t.Errorf("a forged set-up: %d, want 403", a.StatusCode)
	}
	tab, ofTab := begin(b)
	b.do(t, page, "confirm-totp", "code", app.code())
	if a := b.do(t, tab, "confirm-totp", "code", ofTab.code()); a.StatusCode != http.StatusForbidden {
		t.Errorf("another tab's set-up after this one: %d, want 403", a.StatusCode)
	}
	late, ofLate := begin(theirs)
	h.Clock.Advance(15*time.Minute + time.Second)
	if a := theirs.do(t, late, "confirm-totp", "code", ofLate.code()); a.StatusCode != http.StatusForbidden {
		t.Errorf("a set-up after 15 minutes: %d, want 403", a.StatusCode)
	}
}
