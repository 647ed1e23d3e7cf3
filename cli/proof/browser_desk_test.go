package proof

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tollhouse/store/storetest/must"
)

const windowDesk = 1280

// deskPages are the pages of the desk, by name.
var deskPages = []struct{ name, path, expect string }{
	{"overview", "/desk", ""},
	{"overview-year", "/desk?range=1y", ""},
	{"events", "/desk/events", ""},
	{"events-refused", "/desk/events?from=never", "status of 400"},
	{"resources", "/desk/resources", ""},
	{"clients", "/desk/clients", ""},
	{"client", "/desk/clients/demo", ""},
	{"new-client", "/desk/new-client", ""},
	{"users", "/desk/users", ""},
	{"new-user", "/desk/new-user", ""},
	{"access", "/desk/access", ""},
	{"audit", "/desk/audit", ""},
	{"webhooks", "/desk/webhooks", ""},
	{"backups", "/desk/backups", ""},
	{"health", "/desk/health", ""},
	{"settings", "/desk/settings", ""},
	{"error", "/desk/nothing", "status of 404"},
	{"docs", "/docs", ""},
	{"docs-oauth", "/docs/oauth", ""},
	{"docs-events", "/docs/events", ""},
	{"docs-resources", "/docs/resources", ""},
	{"docs-webhooks", "/docs/webhooks", ""},
	{"docs-deliveries", "/docs/deliveries", ""},
	{"docs-service", "/docs/service", ""},
	{"docs-pages", "/docs/pages", ""},
}

// TestBrowserDesk looks at every page of the desk, narrow and wide, by day and by night.
//
// Promise (Browsers): the desk asks once, in numbers, before it takes something away, and not
// otherwise; with the password if that is due
func TestBrowserDesk(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	client := s.createClient("Larkspur Bookkeeping", larkspurURI)
	s.createUser(maud, s.ready.Account, maudPassword)
	s.passwordPair(client, maud)
	s.passwordPair(client, maud)
	tb := newTab(t)
	tb.open(s.base + "/login?to=desk")
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see("main[data-desk=overview]")
	for _, p := range deskPages {
		t.Run(p.name, func(t *testing.T) {
			if p.expect != "" {
				tb.excuse(p.expect)
			}
			tb.open(s.base + p.path)
			tb.see("main h1")
			tb.lookAtDesk(t, "desk-"+p.name)
		})
	}
	t.Run("the_first_focus_leads_to_the_content", func(t *testing.T) {
		tb.open(s.base + "/desk")
		tb.press(kb.Tab)
		if !ask(tb, chromedp.Evaluate[bool](`document.activeElement.matches(".skip[href='#content']:focus-visible") && getComputedStyle(document.activeElement).outlineStyle == "solid"`)) {
			t.Error("the first focus is not on a link to the content, with an outline")
		}
		tb.press(kb.Enter)
		tb.until(`location.hash == "#content" && document.querySelector("main#content:target") != null`)
	})
	t.Run("paper_has_one_column_of_tables_and_plots", func(t *testing.T) {
		tb.open(s.base + "/desk")
		tb.size(700, windowHigh)
		tb.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
		for _, want := range []string{
			`[".rail", ".chips"].every(s => getComputedStyle(document.querySelector(s)).display == "none")`,
			`getComputedStyle(document.body).display == "block"`,
			`[...document.querySelectorAll("figure svg, figure table")].every(e => e.checkVisibility({contentVisibilityAuto: true}) && e.getBoundingClientRect().height > 0)`,
			`getComputedStyle(document.querySelector("figure tr")).display == "table-row"`,
		} {
			if !ask(tb, chromedp.Evaluate[bool](want)) {
				t.Errorf("not so on paper: %s", want)
			}
		}
		tb.open(s.base + "/docs/events")
		tb.see("tr[data-param]")
		if !ask(tb, chromedp.Evaluate[bool](`[...document.querySelectorAll("tr[data-status]")].every(e => e.checkVisibility({contentVisibilityAuto: true}) && e.offsetHeight > 0) &&
			getComputedStyle(document.querySelector(".docs > .menu")).display == "none"`)) {
			t.Error("what is folded on the screen, the statuses and errors, is not on paper, or the contents are")
		}
		if !ask(tb, chromedp.Evaluate[bool](`getComputedStyle(document.querySelector(".operation")).display == "block" &&
			[...document.querySelectorAll("tr[data-param] th code")].every(e => e.getClientRects().length == 1)`)) {
			t.Error("the reference has two columns on paper, or a parameter is broken into several lines")
		}
		tb.scheme("light")
	})
	t.Run("event", func(t *testing.T) {
		tb.open(s.base + "/desk/events?type=*.updated")
		tb.click("tr[data-event] th a")
		tb.see("table[data-diff]")
		tb.lookAtDesk(t, "desk-event")
	})
	t.Run("resource", func(t *testing.T) {
		tb.open(s.base + "/desk/resources?kind=customer")
		tb.click("tr[data-resource] th a")
		tb.see("main[data-desk=resource]")
		tb.lookAtDesk(t, "desk-resource")
	})
	t.Run("cutting_a_client_off_is_asked_once", func(t *testing.T) {
		tb.size(windowDesk, windowHigh)
		tb.task(t, s, "Clients", "Larkspur Bookkeeping", "Disable")
		tb.see("form[data-do=disable] .danger")
		tb.lookAtDesk(t, "desk-disable")
		tb.size(windowDesk, windowHigh)
		tb.task(t, s, "Clients", "Larkspur Bookkeeping", "Disable", "Disable the client")
		tb.see("main[data-desk=client] form[data-do=enable]")
	})
	t.Run("a_new_client_shows_its_secret", func(t *testing.T) {
		tb.open(s.base + "/desk/new-client")
		tb.do(chromedp.SendKeys(chromedp.CSS("[name=name]"), "Aster Reports"), chromedp.SendKeys(chromedp.CSS("[name=redirect_uris]"), larkspurURI))
		tb.click("form[data-do=create-client] button")
		tb.see("[data-secret]")
		tb.lookAtDesk(t, "desk-secret")
	})
}

// lookAtDesk holds a page to all rules of axe-core, and to the width of the window.
func (tb *tab) lookAtDesk(t *testing.T, name string) {
	for _, width := range []int64{windowDesk, windowSlim, 320} {
		tb.size(width, windowHigh)
		over := ask(tb, chromedp.Evaluate[int64](`document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth`))
		if over > 0 {
			t.Errorf("%s at %d: %d pixels stick out", name, width, over)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{windowDesk, windowSlim} {
			tb.scheme(scheme)
			tb.size(width, windowHigh)
			tb.picture(name + "-" + scheme + "-" + map[int64]string{windowDesk: "wide", windowSlim: "slim"}[width])
		}
	}
	tb.wantAccessible(t, name)
}
