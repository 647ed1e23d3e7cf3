package proof

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// TestBrowserPasskeys uses the authenticator that Chromium simulates.
//
// Promise (Guard §5): Chromium makes a passkey and signs in with it; a wrong signature is refused; at
// another host it is listed and not asked for; it is removed. The pages are whole at 320 px and axe finds nothing
func TestBrowserPasskeys(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	for name, bound := range map[string]bool{"bound_to_its_device": true, "that_may_be_synchronized": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startForMaud(t)
			byName := *s
			byName.base = strings.Replace(s.base, "127.0.0.1", "localhost", 1)
			tb := newTab(t)
			key := tb.authenticator(!bound)
			looks := t // the pages are looked at once
			if !bound {
				looks = nil
			}
			tb.makePasskey(&byName, "blue key", looks)
			tb.signInWithPasskey(&byName, looks)
			tb.refusesPasskeys(&byName, key)
			tb.finds(s)
			tb.removePasskey(&byName)
		})
	}
}

// authenticator gives the tab one, which answers by itself.
func (tb *tab) authenticator(synced bool) webauthn.AuthenticatorID {
	tb.t.Helper()
	tb.do(call(webauthn.Enable, webauthn.EnableParams{}))
	made := ask(tb, result(webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: "ctap2", Transport: "usb", AutomaticPresenceSimulation: true, DefaultBackupEligibility: synced, DefaultBackupState: synced,
	}}))
	return made.AuthenticatorID
}

const (
	secondFactorPage = "/account/second-factor"
	passkeyForm      = "form[data-do=passkey]"
)

// lookAt holds a page to the rules of axe-core and to the width of the window, if it is to be looked at.
func (tb *tab) lookAt(name string, looks *testing.T) {
	tb.t.Helper()
	if looks != nil {
		tb.lookAtDesk(looks, name)
	}
}

func (tb *tab) openFactors(s *server) {
	tb.t.Helper()
	tb.open(s.base + secondFactorPage)
	tb.signIn(maud, maudPassword)
}

func (tb *tab) makePasskey(s *server, name string, looks *testing.T) {
	tb.t.Helper()
	tb.openFactors(s)
	tb.beginPasskey(name)
	tb.lookAt("passkey-new", looks)
	tb.click("form[data-do=confirm-passkey] button")
	tb.see("[data-recovery-code]")
	if codes := ask(tb, chromedp.Evaluate[int](`document.querySelectorAll("[data-recovery-code]").length`)); codes != 10 {
		tb.t.Errorf("the first passkey shows %d recovery codes, want 10", codes)
	}
	tb.click("a[data-next]")
	tb.see("tr[data-passkey]")
	if text := tb.text(); !strings.Contains(text, name) || strings.Contains(text, "only") {
		tb.t.Errorf("the page is\n%s\nwant the passkey", text)
	}
	tb.lookAt("passkeys", looks)
}

func (tb *tab) beginPasskey(name string) {
	tb.t.Helper()
	tb.beginPasskeyWith(name, maudPassword)
}

func (tb *tab) beginPasskeyWith(name, password string) {
	tb.t.Helper()
	tb.click("details:has(form[data-do=begin-passkey]) summary")
	tb.see("form[data-do=begin-passkey] input[name=name]")
	tb.do(chromedp.SendKeys(chromedp.CSS("form[data-do=begin-passkey] input[name=name]"), name),
		chromedp.SendKeys(chromedp.CSS("form[data-do=begin-passkey] input[name=current_password]"), password))
	tb.click("form[data-do=begin-passkey] button")
	tb.see("form[data-do=confirm-passkey]")
}

// askedAgain signs in up to the second step.
func (tb *tab) askedAgain(s *server) {
	tb.t.Helper()
	tb.do(call(network.ClearBrowserCookies, cdp.Empty{}))
	tb.openFactors(s)
	tb.see("form[data-do=start-over]")
}

func (tb *tab) signInWithPasskey(s *server, looks *testing.T) {
	tb.t.Helper()
	tb.askedAgain(s)
	tb.see(passkeyForm)
	tb.lookAt("passkey-step", looks)
	tb.click(passkeyForm + " button")
	tb.see("tr[data-passkey]")
	if at := ask(tb, chromedp.Location()); at != s.base+secondFactorPage {
		tb.t.Errorf("the second step leads to %s", at)
	}
}

// refusesPasskeys: a wrong signature, a browser that gives none, and one without a script.
func (tb *tab) refusesPasskeys(s *server, key webauthn.AuthenticatorID) {
	tb.t.Helper()
	yes, no := true, false
	tb.askedAgain(s)
	tb.do(call(webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{AuthenticatorID: key, IsBogusSignature: &yes}))
	tb.click(passkeyForm + " button")
	tb.see("[role=alert]")
	if text := tb.text(); !strings.Contains(text, "not valid") {
		tb.t.Errorf("after a wrong signature the page is\n%s", text)
	}
	tb.do(call(webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{AuthenticatorID: key, IsBogusSignature: &no}))

	// No device of this user: Chromium says no, and the page too.
	tb.do(chromedp.Evaluate[chromedp.Void](`navigator.credentials.get = () => Promise.reject(new DOMException("", "NotAllowedError"))`))
	tb.click(passkeyForm + " button")
	tb.until(`document.querySelector("[data-webauthn-refused]").textContent.includes("no passkey")`)

	tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	tb.askedAgain(s)
	if text := tb.text(); strings.Contains(text, "Use a passkey") || !strings.Contains(text, "Passkeys need JavaScript") || !strings.Contains(text, "Use a recovery code") {
		tb.t.Errorf("without a script the page is\n%s", text)
	}
	tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}))
}

// finds: at another host the passkey is of no use, and is named.
func (tb *tab) finds(elsewhere *server) {
	tb.t.Helper()
	tb.askedAgain(elsewhere)
	text := tb.text()
	if strings.Contains(text, "Use a passkey") || !strings.Contains(text, "Passkeys need https and a host name. Your passkeys work at localhost only.") || !strings.Contains(text, "Recovery code") {
		tb.t.Errorf("at another host the second step is\n%s", text)
	}
}

func (tb *tab) removePasskey(s *server) {
	tb.t.Helper()
	tb.signInWithPasskey(s, nil) // it works here still
	tb.click("details:has(form[data-do=remove-passkey]) summary")
	tb.see("form[data-do=remove-passkey] input[name=current_password]")
	tb.do(chromedp.SendKeys(chromedp.CSS("form[data-do=remove-passkey] input[name=current_password]"), maudPassword))
	tb.click("form[data-do=remove-passkey] button")
	tb.see(done)
	if text := tb.text(); !strings.Contains(text, "You sign in with your password alone.") {
		tb.t.Errorf("after the removal the page is\n%s", text)
	}
}

// Promise (Guard §5): in Chromium an operator confirms a change at the desk with a passkey
func TestBrowserDeskPasskey(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	s.base = strings.Replace(s.base, "127.0.0.1", "localhost", 1)
	tb := newTab(t)
	tb.authenticator(false)
	tb.open(s.base + secondFactorPage)
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.beginPasskeyWith("blue key", s.ready.Password)
	tb.click("form[data-do=confirm-passkey] button")
	tb.see("[data-recovery-code]")
	s.advance(t, 20*time.Minute)
	tb.open(s.base + "/desk/new-client")
	tb.do(chromedp.SendKeys(chromedp.CSS("[name=name]"), "Aster Reports"), chromedp.SendKeys(chromedp.CSS("[name=redirect_uris]"), larkspurURI))
	tb.click("form[data-do=create-client] button")
	tb.excuse("status of 403") // the page that asks again
	tb.see("form[data-do=confirm] [data-webauthn=get]")
	tb.do(chromedp.SendKeys(chromedp.CSS("#password"), s.ready.Password))
	tb.click("form[data-do=confirm] [data-webauthn=get]")
	tb.see("[data-secret]")
}
