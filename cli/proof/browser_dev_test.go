package proof

import (
	"testing"

	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// TestBrowserDevPage uses the page for testers: the list refreshes by itself and leaves alone
// what is typed beside it, a fault breaks the next request, and a reset goes back.
//
// Promise (Testers, bad input): /_dev/ in a browser is a page of requests as they come, faults, clock,
// snapshots, tokens and reset, whose forms send the calls of programs, without a script
func TestBrowserDevPage(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	tb := newTab(t)
	tb.open(s.base + "/_dev")
	tb.see("[data-refresh] .empty")
	unfold := func(title string) {
		t.Helper()
		tb.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".deed")].find(d => d.firstElementChild.textContent == "` + title + `").open = true`))
	}
	unfold("Add a fault")
	tb.do(chromedp.SendKeys(chromedp.CSS("[name='match.path']"), "/oauth/v2/token"))
	s.createUser(maud, s.ready.Account, maudPassword)
	s.passwordPair(s.createClient("Larkspur Bookkeeping", larkspurURI), maud)
	tb.see("tr[data-request='1']")
	tb.until(`document.querySelector("[name='match.path']").value == "/oauth/v2/token"`)
	tb.do(chromedp.SendKeys(chromedp.CSS("[name='do.status']"), "503"))
	tb.click("form[data-do=addFault] button")
	tb.see("tr[data-fault=flt_1]")
	unfold("Issue tokens")
	tb.click("form[data-do=makeTokens] button")
	tb.see("[data-access-token]")
	tb.click("tr[data-request='1'] th a")
	tb.see(".code pre")
	tb.lookAtDesk(t, "dev-page")
	tb.size(windowDesk, windowHigh)
	unfold("Reset")
	tb.click("form[data-do=resetInstance] button")
	tb.see("[data-refresh] .empty")
	tb.until(`document.querySelector("tr[data-fault]") == null`)
}
