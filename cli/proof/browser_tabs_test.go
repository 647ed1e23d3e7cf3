package proof

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// TestBrowserTabs signs in with several tabs of one browser.
//
// Promise (Browsers): a typed name and password are judged, whatever happened in other tabs; a form
// that cannot be judged is shown again with its request, without the password
// Promise (Browsers): a refused sign-in, its reload, a restored tab and the way over a code keep
// the application's request; our addresses repeat no more of it than they must
func TestBrowserTabs(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startForMaud(t)
	for name, test := range map[string]func(*testing.T, *server){
		"the_second_form_is_judged":                      tabsAreJudged,
		"a_form_whose_cookie_is_gone_is_shown_again":     tabWithoutCookies,
		"a_refused_form_and_a_restored_tab_keep_the_way": tabIsRestored,
		"a_form_in_use_while_another_tab_signs_out":      tabsSignOut,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s.in(t)) })
	}
}

func tabsAreJudged(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	client := s.remembers("Tabs", "http://127.0.0.1/callback")
	for _, who := range [][2]string{{s.ready.Username, s.ready.Password}, {maud, maudPassword}} { // both allow it
		tb := newTab(t)
		tb.open(s.authorizeURL(client.ID, back.uri(), "before"))
		tb.signIn(who[0], who[1])
		tb.click(allowButton)
		back.wait()
		tb.see("#arrived")
	}
	first := newTab(t)
	first.open(s.authorizeURL(client.ID, back.uri(), "first"))
	second := first.another()
	second.open(s.authorizeURL(client.ID, back.uri(), "second"))
	first.signIn(s.ready.Username, s.ready.Password)
	first.see("#arrived")
	back.wait()
	second.signIn(maud, "not the password")
	second.see(alert)
	back.quiet()
	second.signIn(maud, maudPassword)
	second.see("#arrived")
	q := back.wait()
	p, a, err := s.asClient(client).grant(t.Context(), "authorization_code", "code", q.Get("code"), "redirect_uri", back.uri())
	if err != nil || p.Access == "" || q.Get("state") != "second" {
		t.Fatalf("the code of %v: %s, %v", q, a, err)
	}
	inspected := string(s.run("token", "list", "--json"))
	if newest := inspected[strings.LastIndex(inspected, client.ID):]; strings.Count(inspected, maud) == 0 {
		t.Errorf("the token of the second tab is %s, want one of %s", newest, maud)
	}
}

func tabWithoutCookies(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.excuse("status of 403")
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "kept"))
	tb.clearCookies()
	tb.signIn(maud, maudPassword)
	tb.see("[role=status]")
	if text := tb.text(); !strings.Contains(text, "out of date") {
		t.Errorf("the page says:\n%s", text)
	}
	if typed := ask(tb, chromedp.Value(chromedp.CSS("input[name=password]"))); typed != "" {
		t.Errorf("the form has a password")
	}
	tb.signIn(maud, maudPassword)
	tb.see(allowButton)
	tb.click(allowButton)
	if q := back.wait(); q.Get("code") == "" || q.Get("state") != "kept" {
		t.Errorf("callback got %v, want a code and the state", q)
	}
}

func tabIsRestored(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	tb := newTab(t)
	tb.open(s.authorizeURL(s.ready.ClientID, back.uri(), "kept"))
	tb.signIn(maud, "not the password")
	tb.see(alert)
	restored := tb.another() // a restored tab asks for the address again
	restored.open(ask(tb, chromedp.Location()))
	restored.signIn(maud, maudPassword)
	restored.see(allowButton)
	restored.click(allowButton)
	if q := back.wait(); q.Get("code") == "" || q.Get("state") != "kept" {
		t.Errorf("callback got %v, want a code and the state", q)
	}
	tb.do(chromedp.Reload()) // sends the refused form again
	tb.see(alert)
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see(allowButton)
	if text := tb.text(); !strings.Contains(text, s.ready.Username) {
		t.Errorf("the consent screen does not name %s:\n%s", s.ready.Username, text)
	}
}

func tabsSignOut(t *testing.T, s *server) {
	back := newCallback(t, "127.0.0.1:0")
	consent := newTab(t)
	consent.excuse("status of 403")
	consent.open(s.authorizeURL(s.ready.ClientID, back.uri(), "kept"))
	consent.signIn(s.ready.Username, s.ready.Password)
	consent.see(allowButton)
	other := consent.another()
	other.open(s.base + "/")
	other.click(signOutForm + " button")
	other.click(signInLink)
	other.signIn(maud, maudPassword)
	other.see(signOutForm)
	consent.click(allowButton)
	consent.see("[role=status]")
	if text := consent.text(); !strings.Contains(text, maud) || !strings.Contains(text, "This answer changed nothing") {
		t.Errorf("Allow of the former sign-in is met with:\n%s", text)
	}
	back.quiet()
	consent.click(allowButton)
	if q := back.wait(); q.Get("code") == "" || q.Get("state") != "kept" {
		t.Errorf("callback got %v, want a code and the state", q)
	}
}

// clearCookies forgets what the browser knows of all sites.
func (tb *tab) clearCookies() {
	tb.t.Helper()
	tb.do(call(network.ClearBrowserCookies, cdp.Empty{}))
}
