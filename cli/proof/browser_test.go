package proof

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/animation"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tollhouse/store/storetest/must"
)

// The people of the browser tests, beside the demo user.
const (
	maud         = "maud.tilling"
	maudPassword = "a quiet well kept counter"
)

const (
	allowButton  = "button[name=decision][value=allow]"
	denyButton   = "button[name=decision][value=deny]"
	alert        = "[role=alert]"
	signInLink   = "header a[href^='/login']" // of the pages for everybody
	signOutForm  = "header form"
	passwordFold = ".deed summary" // of the account page
)

// authorizeURL is where a client sends the browser.
func (s *server) authorizeURL(clientID, redirectURI, state string) string {
	return s.base + "/oauth/v2/auth?" + url.Values{
		"client_id": {clientID}, "response_type": {"code"}, "redirect_uri": {redirectURI}, "state": {state},
	}.Encode()
}

// TestBrowser walks the screens with Chromium: nothing but a browser enforces a
// content security policy, sends cookies by its own rules, or shows a page.
//
// Promise (RFC 6749 §4): Allow sends one code to the redirect URI; Deny is 303 with access_denied,
// a description, state and iss, and stores no code
// Promise (Browsers): a decision counts once: the same one again leads to the same place with the
// same code, at any server, while the code lives; then a page says what was decided; a user
// disabled in between allows nothing
// Promise (Browsers): a refused sign-in says the same to all
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): forged consent; going back in the browser and
// resubmitting; a double click that reaches Allow (not in dev)
func TestBrowser(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startForMaud(t)

	for name, test := range map[string]func(*testing.T, *server){
		"wrong_password_then_right_one_then_allow":     browserSignsIn,
		"deny_comes_back_without_a_code":               browserDenies,
		"works_without_javascript":                     browserWithoutScript,
		"a_keyboard_is_enough":                         browserByKeyboard,
		"not_you_lets_somebody_else_in_and_asks_again": browserNotYou,
		"an_answer_counts_once":                        browserAnswersOnce,
		"test_instances_have_no_pause_before_allow":    browserAtOnce,
		"deny_back_allow_gives_no_code":                browserGoesBack,
		"sign_in_and_out_at_the_start_page":            browserAtHome,
		"an_unknown_redirect_uri_leads_nowhere":        browserUnknownRedirect,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s.in(t)) })
	}
}

// in returns the server as a subtest uses it, which reports to its own t.
func (s *server) in(t testing.TB) *server {
	other := *s
	other.t = t
	return &other
}

// startForMaud starts dev with another user, for tests in a browser.
func startForMaud(t *testing.T) *server {
	t.Helper()
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	s.createUser(maud, s.ready.Account, maudPassword)
	return s
}

func browserSignsIn(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "s-1 ü&="))
	tb.signIn(s.ready.Username, "not the password")
	tb.see(alert)
	if kept := ask(tb, chromedp.Value(chromedp.CSS("input[name=username]"))); kept != s.ready.Username {
		t.Errorf("after a refusal the username field holds %q, want what was typed", kept)
	}
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	if text := tb.text(); !strings.Contains(text, s.ready.Username) || !strings.Contains(text, strings.TrimPrefix(back.base, "http://")) {
		t.Errorf("the consent screen names neither who is signed in nor where the browser goes next:\n%s", text)
	}
	tb.click(allowButton)
	q := back.wait()
	tb.see("#arrived")
	if q.Get("code") == "" || q.Get("state") != "s-1 ü&=" || q.Get("iss") != s.ready.URL {
		t.Errorf("callback got code %q, state %q, iss %q; want a code, the state as sent, and %s", q.Get("code"), q.Get("state"), q.Get("iss"), s.ready.URL)
	}
}

func browserDenies(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "no"))
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(denyButton)
	tb.click(denyButton)
	q := back.wait()
	if q.Get("error") != "access_denied" || q.Get("error_description") == "" || q.Get("state") != "no" || q.Has("code") {
		t.Errorf("callback got %v, want access_denied with a description, the state, and no code", q)
	}
}

func browserWithoutScript(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "plain"))
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	tb.click(allowButton)
	if q := back.wait(); q.Get("code") == "" {
		t.Errorf("callback got %v, want a code", q)
	}
}

func browserByKeyboard(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "keys"))
	tb.see("input[name=username]:focus")
	tb.press(s.ready.Username)
	tb.press(kb.Tab)
	tb.see("input[name=password]:focus")
	tb.press(s.ready.Password + kb.Enter)
	tb.see(allowButton)

	// Deny comes before Allow, and neither is out of reach.
	const stopsMax = 12
	var stops []string
	for range stopsMax {
		tb.press(kb.Tab)
		stop := ask(tb, chromedp.Evaluate[string](`document.activeElement.value || document.activeElement.textContent.trim()`))
		if stops = append(stops, stop); stop == "allow" {
			break
		}
	}
	if order := strings.Join(stops, ", "); !strings.HasSuffix(order, "deny, allow") {
		t.Fatalf("Tab stops at %s; want deny and then allow within %d steps", order, stopsMax)
	}
	tb.press(kb.Enter)
	if q := back.wait(); q.Get("code") == "" {
		t.Errorf("callback got %v, want a code", q)
	}
}

func browserNotYou(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "who"))
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	tb.click(".who a")
	tb.see("input[name=password]")
	tb.signIn(maud, maudPassword)
	tb.see(allowButton)
	if text := tb.text(); !strings.Contains(text, maud) {
		t.Errorf("the consent screen does not name %s, who signed in instead:\n%s", maud, text)
	}
	tb.click(allowButton)
	if q := back.wait(); q.Get("code") == "" || q.Get("state") != "who" {
		t.Errorf("callback got %v, want a code and the state of the first request", q)
	}
	tb.see("#arrived")

	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "again"))
	tb.see(allowButton) // no consent is remembered
	back.quiet()
}

// TestBrowserDoubleClick stops the clock of animations at the consent screen's first
// moment, in which the second half of a double click arrives, and lets it go on.
//
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): forged consent; going back in the browser and
// resubmitting; a double click that reaches Allow (not in dev)
func TestBrowserDoubleClick(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startServe(t, filepath.Join(t.TempDir(), "data")) // dev has no pause
	s.createUser(maud, "default", maudPassword)
	client := s.createClient("Larkspur Bookkeeping", "http://127.0.0.1/callback")
	for _, motion := range []string{"no-preference", "reduce"} {
		back := newCallback(t, "127.0.0.1:0")
		tb := newTab(t)
		tb.do(call(animation.Enable, cdp.Empty{}),
			call(animation.SetPlaybackRate, animation.SetPlaybackRateParams{PlaybackRate: 0}),
			call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: motion}}}))
		tb.open(s.authorizeURL(client.ID, back.uri(), "double"))
		tb.signIn(maud, maudPassword)
		tb.see(allowButton)
		at := ask(tb, chromedp.Evaluate[[2]float64](fmt.Sprintf(`(() => {
			const box = document.querySelector(%q).getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2];
		})()`, allowButton)))
		tb.do(chromedp.MouseClickXY(at[0], at[1], chromedp.ClickCount(2)))
		if tb.takesPointer(allowButton) || !tb.takesPointer(denyButton) || tb.ticket() == "" {
			t.Errorf("prefers-reduced-motion %s: in its first moment Allow takes a click, or Deny takes none", motion)
		}
		back.quiet()
		tb.do(call(animation.SetPlaybackRate, animation.SetPlaybackRateParams{PlaybackRate: 1}))
		tb.click(allowButton)
		if q := back.wait(); q.Get("code") == "" {
			t.Errorf("callback got %v, want a code", q)
		}
	}
}

// browserAtOnce clicks as soon as the button is there, as test programs do.
func browserAtOnce(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.do(call(animation.Enable, cdp.Empty{}), call(animation.SetPlaybackRate, animation.SetPlaybackRateParams{PlaybackRate: 0}))
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "once"))
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	if !tb.takesPointer(allowButton) {
		t.Error("Allow takes no click in its first moment")
	}
	tb.do(chromedp.Click(chromedp.CSS(allowButton)))
	if q := back.wait(); q.Get("code") == "" {
		t.Errorf("callback got %v, want a code", q)
	}
}

// browserAnswersOnce uses a callback that leaves the browser where it is, as a
// slow one does, so that the same question can be answered again.
func browserAnswersOnce(t *testing.T, s *server) {
	for _, script := range []bool{true, false} {
		back := newCallbackThat(t, "127.0.0.1:0", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		tb := newTab(t)
		tb.excuse("status of 400")
		tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !script}))
		tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "twice"))
		tb.signIn(s.ready.Username, s.ready.Password)
		tb.see(allowButton)
		tb.click(allowButton)
		first := back.wait()
		tb.click(allowButton)
		if script { // which stops this click, and none after some seconds
			tb.see("form[data-sent]")
			back.quiet()
			tb.do(chromedp.WaitNotPresent(chromedp.CSS("form[data-sent]")))
			tb.click(allowButton)
		}
		if again := back.wait(); again.Encode() != first.Encode() || again.Get("code") == "" {
			t.Errorf("the second answer leads to %v, want %v again", again, first)
		}
		if _, a, err := s.asClient(credentials{ID: s.ready.ClientID, Secret: s.ready.ClientSecret}).grant(t.Context(), "authorization_code", "code", first.Get("code"), "redirect_uri", back.uri()); err != nil || a.status != http.StatusOK {
			t.Fatalf("the code: %s, %v", a, err)
		}
		if script {
			tb.do(chromedp.WaitNotPresent(chromedp.CSS("form[data-sent]")))
		}
		tb.click(allowButton)
		tb.do(chromedp.WaitNotPresent(chromedp.CSS(allowButton)))
		tb.see("main h1")
		if text := tb.text(); !strings.Contains(text, "You allowed access") {
			t.Errorf("an answer after the code was redeemed is met with:\n%s", text)
		}
		if link := ask(tb, chromedp.Evaluate[string](`document.querySelector("main a").href`)); link != back.base+"/" {
			t.Errorf("the page leads to %s, want %s/", link, back.base)
		}
		back.quiet()
	}
}

// browserGoesBack is Deny, Back, Allow. Chromium brings the page back as it was
// left, although it is no-store, with the question that has been answered.
func browserGoesBack(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.excuse("status of 400")
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "back"))
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	ticket := tb.ticket()
	tb.click(denyButton)
	back.wait()
	tb.see("#arrived")
	entries := ask(tb, chromedp.NavigationEntries())
	before := entries.Entries[entries.CurrentIndex-1]
	tb.do(call(page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: before.ID}))
	eventually(t, func() bool { return tb.ticket() != "" }, "Back does not lead to the consent screen")
	must.Have(t, tb.ticket() == ticket, "this browser fetched the page again, and so was asked another question")
	tb.clickRestored(allowButton)
	tb.see("main h1")
	if text := tb.text(); !strings.Contains(text, "already answered") {
		t.Errorf("Allow after Deny and Back is met with:\n%s", text)
	}
	back.quiet()
}

// ticket returns the ticket of the consent screen, or "".
func (tb *tab) ticket() string {
	tb.t.Helper()
	return ask(tb, chromedp.Evaluate[string](`document.querySelector("input[name=ticket]")?.value ?? ""`))
}

func browserAtHome(t *testing.T, s *server) {
	tb := newTab(t)
	tb.open(s.base + "/")
	tb.click(signInLink)
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(signOutForm)
	if at := ask(tb, chromedp.Location()); at != s.base+"/" {
		t.Errorf("a sign-in for nobody in particular ends at %s, want %s/", at, s.base)
	}
	tb.click(signOutForm + " button")
	tb.see(signInLink)
}

func browserUnknownRedirect(t *testing.T, s *server) {
	tb := newTab(t)
	tb.excuse("status of 400")
	tb.open(s.authorizeURL(s.ready.ClientID, "https://elsewhere.example/<b>", "x"))
	tb.see("main h1")
	if text := tb.text(); !strings.Contains(text, "https://elsewhere.example/<b>") {
		t.Errorf("the page does not show the address that was sent:\n%s", text)
	}
	if links := ask(tb, chromedp.Evaluate[int](`document.querySelectorAll("a[href*=elsewhere]").length`)); links != 0 {
		t.Errorf("the page links to the address that was sent")
	}
}

// TestBrowserArrives shows RFC 8252 §7 in a browser. A policy of ours would apply to every
// hop of the redirect after Allow, so each kind of callback is tried.
//
// Promise (RFC 9700): a password change ends grants unless the box is cleared; the sign-in and
// consent pages have no form-action, so that a callback may redirect anywhere
func TestBrowserArrives(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	for _, c := range []struct {
		name       string
		registered string // the path is /callback
		listen     string
	}{
		{"registered_without_port", "http://127.0.0.1/callback", "127.0.0.1:0"},
		{"registered_with_another_port", "http://127.0.0.1:53219/callback", "127.0.0.1:0"},
		{"localhost", "http://localhost/callback", "localhost:0"},
		{"ipv6", "http://[::1]/callback", "[::1]:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.listen == "[::1]:0" {
				must.Have(t, hasIPv6(), "this machine has no ::1")
			}
			back := newCallback(t, c.listen)
			if strings.HasPrefix(c.listen, "localhost") {
				back.base = "http://localhost:" + mustParse(t, back.base).Port()
			}
			client := s.in(t).createClient(c.name, c.registered)
			q := allowInBrowser(t, s, client.ID, back)
			if q.Get("code") == "" {
				t.Errorf("callback got %v, want a code", q)
			}
		})
	}
	t.Run("callback_that_redirects_to_another_origin", func(t *testing.T) {
		t.Parallel()
		beyond := newCallback(t, "127.0.0.1:0")
		beyond.base = "http://localhost:" + mustParse(t, beyond.base).Port()
		back := newCallbackThat(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, beyond.uri()+"?from=callback", http.StatusFound)
		})
		client := s.in(t).createClient("Onward", "http://127.0.0.1/callback")
		allowInBrowser(t, s, client.ID, back)
		if q := beyond.wait(); q.Get("from") != "callback" {
			t.Errorf("beyond the callback the browser arrived with %v", q)
		}
	})
	t.Run("custom_scheme", func(t *testing.T) {
		t.Parallel()
		const uri = "com.example.tollbooth:/callback"
		client := s.in(t).createClient("Tollbooth App", uri)
		tb := newTab(t)
		tb.open(s.authorizeURL(client.ID, uri, "app"))
		tb.signIn(s.ready.Username, s.ready.Password)
		tb.see(allowButton)
		tb.click(allowButton)
		// No program on this machine has the scheme; that the browser tried it
		// shows that nothing stood in its way.
		eventually(t, func() bool { return tb.hasVisited(uri + "?code=") }, "the browser never tried %s", uri)
	})
}

// allowInBrowser signs in and allows in a new tab, and returns the query with
// which the browser arrived.
func allowInBrowser(t *testing.T, s *server, clientID string, back *callback) url.Values {
	t.Helper()
	tb := newTab(t)
	tb.open(s.authorizeURL(clientID, back.uri(), "arrive"))
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	tb.click(allowButton)
	q := back.wait()
	tb.see("#arrived")
	return q
}

func hasIPv6() bool {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// eventually waits for a condition that nothing announces.
func eventually(t testing.TB, holds func() bool, format string, args ...any) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(tabWait); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf(format, args...)
		}
	}
}
