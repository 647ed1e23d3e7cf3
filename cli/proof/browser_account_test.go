package proof

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tollhouse/store/storetest/must"
)

const done = "[role=status]" // what the account page says was done

// TestBrowserAccount is the page on which people take back what they allowed.
func TestBrowserAccount(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	for _, c := range []struct {
		name, username string
		test           func(*testing.T, *server, string)
	}{
		{"revokes_by_keyboard_without_javascript", "harriet.voss", browserRevokes},
		{"changes_the_password", "nils.aspen", browserChangesPassword},
		{"signs_out_everywhere_else", "ida.marlow", browserSignsOutOthers},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			s.createUser(c.username, s.ready.Account, maudPassword)
			c.test(t, s, c.username)
		})
	}
}

// passwordPair signs the user in at a client by the password grant.
func (s *server) passwordPair(c credentials, username string) tokens {
	s.t.Helper()
	p, a, err := s.asClient(c).grant(context.Background(), "password", "username", username, "password", maudPassword)
	if err != nil || p.Access == "" {
		s.t.Fatalf("password grant for %s: %s, %v", username, a, err)
	}
	return p
}

// lives reports whether the API takes the access token.
func (s *server) lives(c credentials, p tokens) bool {
	s.t.Helper()
	a, err := s.asClient(c).call(context.Background(), p.Access, http.MethodGet, "/api/events?limit=1", "")
	if err != nil {
		s.t.Fatal(err)
	}
	return a.status == http.StatusOK
}

// openAccount goes to the account page by way of the sign-in.
func (tb *tab) openAccount(s *server, username string) {
	tb.t.Helper()
	tb.open(s.base + "/account")
	tb.signIn(username, maudPassword)
	tb.see(passwordFold)
	if at := ask(tb, chromedp.Location()); at != s.base+"/account" {
		tb.t.Errorf("the sign-in for the account page leads to %s", at)
	}
}

// wantDone waits for the page to say what was done.
func (tb *tab) wantDone(says string) {
	tb.t.Helper()
	tb.see(done)
	if text := ask(tb, chromedp.Text(chromedp.CSS(done))); !strings.Contains(text, says) {
		tb.t.Errorf("the page says %q, want %q", text, says)
	}
}

func browserRevokes(t *testing.T, s *server, username string) {
	client := s.createClient("Larkspur Bookkeeping", "https://books.larkspurtea.example/callback")
	p := s.passwordPair(client, username)
	tb := newTab(t)
	tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	tb.openAccount(s, username)
	if !s.lives(client, p) {
		t.Fatal("the access token never lived")
	}
	const stopsMax = 6
	for stop := 0; ask(tb, chromedp.Evaluate[string](`document.activeElement.textContent.trim()`)) != "Revoke"; stop++ {
		if stop == stopsMax {
			t.Fatalf("Tab does not reach Revoke within %d steps", stopsMax)
		}
		tb.press(kb.Tab)
	}
	tb.press(kb.Enter)
	tb.wantDone("no longer has access")
	if s.lives(client, p) {
		t.Error("the access token lives after Revoke")
	}
	if text := tb.text(); strings.Contains(text, "Larkspur Bookkeeping") {
		t.Errorf("the page still lists the client:\n%s", text)
	}
}

func browserChangesPassword(t *testing.T, s *server, username string) {
	const fresh = "another quiet counter"
	client := s.createClient("Larkspur Bookkeeping", "https://books.larkspurtea.example/callback")
	p := s.passwordPair(client, username)
	tb := newTab(t)
	tb.openAccount(s, username)
	change := func(current string) {
		t.Helper()
		if !ask(tb, chromedp.Evaluate[bool](`document.querySelector(".deed").open`)) { // it is after a refusal
			tb.click(passwordFold)
		}
		for name, text := range map[string]string{"current_password": current, "new_password": fresh, "repeat_password": fresh} {
			tb.do(chromedp.SendKeys(chromedp.CSS("input[name="+name+"]"), text))
		}
		tb.click("form .filled")
	}
	change("not the password")
	tb.see(alert)
	tb.see("#current_password:focus")
	if beside := ask(tb, chromedp.Text(chromedp.CSS("#current_password_note"))); !strings.Contains(beside, "not your current password") {
		t.Errorf("beside the field it says %q", beside)
	}
	if !s.lives(client, p) {
		t.Fatal("a refused form ended the access token")
	}
	change(maudPassword)
	tb.wantDone("Your password was changed.")
	if s.lives(client, p) {
		t.Error("the access token lives after the password was changed")
	}
	tb.click(signOutForm + " button") // sign out
	tb.click(signInLink)
	tb.signIn(username, fresh)
	tb.see(signOutForm)
}

func browserSignsOutOthers(t *testing.T, s *server, username string) {
	here, elsewhere := newTab(t), newTab(t)
	elsewhere.openAccount(s, username)
	here.openAccount(s, username)
	here.click("form[action$=sign-out-others] button")
	here.wantDone("signed out everywhere else")
	elsewhere.open(s.base + "/account")
	elsewhere.see("input[name=password]")
	here.open(s.base + "/account")
	here.see(passwordFold)
}
