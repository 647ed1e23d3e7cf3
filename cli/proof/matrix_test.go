package proof

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tollhouse/store/storetest/must"
)

// TestBrowserMatrix takes the whole way through the pages in the circumstances
// that people are in. Eight ways stand for thirty-two: any two circumstances
// meet in every combination.
func TestBrowserMatrix(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	for i, c := range []circumstances{
		{script: true, keyboard: false, width: windowWide, scheme: "light", decision: "allow"},
		{script: true, keyboard: false, width: windowSlim, scheme: "dark", decision: "deny"},
		{script: true, keyboard: true, width: windowWide, scheme: "dark", decision: "deny"},
		{script: true, keyboard: true, width: windowSlim, scheme: "light", decision: "allow"},
		{script: false, keyboard: false, width: windowWide, scheme: "dark", decision: "allow"},
		{script: false, keyboard: false, width: windowSlim, scheme: "light", decision: "deny"},
		{script: false, keyboard: true, width: windowWide, scheme: "light", decision: "deny"},
		{script: false, keyboard: true, width: windowSlim, scheme: "dark", decision: "allow"},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			username := fmt.Sprintf("maud.%d", i)
			s.createUser(username, s.ready.Account, maudPassword)
			c.walk(newTab(t), s, username)
		})
	}
}

// circumstances are what a person has before them, and what they want.
type circumstances struct {
	script, keyboard bool
	width            int64
	scheme, decision string
}

func (c circumstances) String() string {
	with, by := "without_javascript", "by_mouse"
	if c.script {
		with = "with_javascript"
	}
	if c.keyboard {
		by = "by_keyboard"
	}
	return fmt.Sprintf("%s_%s_at_%d_px_%s_%s", with, by, c.width, c.scheme, c.decision)
}

// walk is a refused sign-in, a good one, a decision, an error page, and the
// account page with what was allowed, which is taken back.
func (c circumstances) walk(tb *tab, s *server, username string) {
	tb.t.Helper()
	back := newCallback(tb.t, "127.0.0.1:0")
	client := s.createClient("Larkspur Bookkeeping", "http://127.0.0.1/callback")
	tb.excuse("status of 400")
	tb.scheme(c.scheme)
	tb.size(c.width, windowHigh)
	if !c.script {
		tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	}
	tb.open(s.authorizeURL(client.ID, back.uri(), "matrix"))
	c.signIn(tb, username, "not the password")
	tb.see(alert)
	c.signIn(tb, "", maudPassword)
	tb.see(allowButton)
	c.press(tb, "button[name=decision][value="+c.decision+"]")
	c.judge(tb.t, back.wait())
	tb.see("#arrived")
	p := s.passwordPair(client, username)

	tb.open(s.authorizeURL(client.ID, "https://elsewhere.example/", "matrix"))
	tb.see(".code")
	if text := tb.text(); !strings.Contains(text, "You did nothing wrong") {
		tb.t.Errorf("the error page says\n%s", text)
	}

	tb.open(s.base + "/account")
	tb.see(passwordFold)
	c.press(tb, "td.act button")
	tb.wantDone("no longer has access")
	if s.lives(client, p) {
		tb.t.Error("the access token lives after Revoke")
	}
	c.press(tb, signOutForm+" button")
	tb.see(signInLink)
}

// judge holds what the client is told to what was decided.
func (c circumstances) judge(t testing.TB, q url.Values) {
	t.Helper()
	code, refusal := q.Get("code") != "", q.Get("error")
	if allowed := c.decision == "allow"; code != allowed || (refusal == "access_denied") == allowed || q.Get("state") != "matrix" {
		t.Errorf("after %s the callback got %v", c.decision, q)
	}
}

// signIn fills in the form. A form that was refused keeps the name, and goes on
// at the password: by keyboard that is where typing goes.
func (c circumstances) signIn(tb *tab, username, password string) {
	tb.t.Helper()
	if !c.keyboard {
		if username != "" {
			tb.do(chromedp.SendKeys(chromedp.CSS("input[name=username]"), username))
		}
		tb.do(chromedp.SendKeys(chromedp.CSS("input[name=password]"), password))
		tb.click("form button[type=submit]")
		return
	}
	if username != "" {
		tb.see("input[name=username]:focus")
		tb.press(username + kb.Tab)
	}
	tb.see("input[name=password]:focus")
	tb.press(password + kb.Enter)
}

// press presses a button: with the mouse, or from stop to stop by Tab, where
// every stop has to show that it has the focus.
func (c circumstances) press(tb *tab, selector string) {
	tb.t.Helper()
	if !c.keyboard {
		tb.click(selector)
		return
	}
	const stopsMax = 12
	for range stopsMax {
		tb.press(kb.Tab)
		if width := ask(tb, chromedp.Evaluate[string](`getComputedStyle(document.activeElement).outlineWidth`)); width != "3px" {
			tb.t.Errorf("a stop on the way to %s has an outline of %s, want 3px", selector, width)
		}
		if ask(tb, chromedp.Evaluate[bool](fmt.Sprintf(`document.activeElement.matches(%q)`, selector))) {
			tb.press(kb.Enter)
			return
		}
	}
	tb.t.Fatalf("Tab does not reach %s within %d steps", selector, stopsMax)
}
