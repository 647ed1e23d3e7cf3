package proof

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// TestBrowserDeskScript runs the desk's script against a server, and against frames that
// no server can be made to send on time.
func TestBrowserDeskScript(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	for name, test := range map[string]func(*testing.T, *server){
		"new_events_appear_on_top_until_the_role_ends": deskTailIsLive,
		"frames_are_text_bounded_and_announced_rarely": deskTailIsBounded,
		"copy_copies_and_times_are_local_too":          deskCopies,
		"clocks_are_in_the_readers_zone":               deskClocks,
		"without_a_script_its_controls_stay_hidden":    deskWithoutScript,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, startDev(t)) })
	}
}

func (tb *tab) openDesk(s *server, path string) {
	tb.t.Helper()
	tb.open(s.base + "/login?to=desk")
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see("main[data-desk=overview]")
	tb.open(s.base + path)
}

// until waits for a condition in the page, or in the one that follows it: a question to a page
// that is just being left has no answer.
func (tb *tab) until(condition string) {
	tb.t.Helper()
	eventually(tb.t, func() bool {
		ctx, cancel := context.WithTimeout(tb.ctx, tabWait)
		defer cancel()
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
		if err != nil && !isOfALeftPage(err) {
			tb.t.Fatalf("browser: %v", err)
		}
		return err == nil && holds
	}, "never true: %s", condition)
}

// isOfALeftPage knows the error by its text: its code, -32000, is that of any error of the browser.
func isOfALeftPage(err error) bool {
	return slices.ContainsFunc([]string{"navigated or closed", "context was destroyed", "Could not find node with given id"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}

func deskTailIsLive(t *testing.T, s *server) {
	client := s.createClient("Larkspur Bookkeeping", larkspurURI)
	s.createUser(maud, s.ready.Account, maudPassword)
	access := s.passwordPair(client, maud).Access
	record := func(id string) {
		a, err := s.asClient(client).call(t.Context(), access, http.MethodPut, "/api/resources/plan/"+id, `{}`)
		if err != nil || a.status != http.StatusCreated {
			t.Fatalf("PUT: %v, %v", a, err)
		}
	}
	tb := newTab(t)
	tb.size(windowDesk, 300)
	tb.openDesk(s, "/desk/events")
	tb.until(`document.querySelector("[data-live]").textContent == "Live"`)
	const first = `document.querySelector("table[data-list=events] tbody tr code").textContent`
	record("one")
	tb.until(first + ` == "one"`)
	const colour = `(() => { const kind = document.querySelector("table[data-list=events] tbody tr .kind"); return kind.className + " " + getComputedStyle(kind, "::before").backgroundColor })()`
	live := ask(tb, chromedp.Evaluate[string](colour))
	tb.open(s.base + "/desk/events")
	if drawn := ask(tb, chromedp.Evaluate[string](colour)); live != drawn {
		t.Errorf("a new row has the colour %q, and the same row of the server's has %q", live, drawn)
	}
	tb.until(`document.querySelector("[data-live]").textContent == "Live"`)
	tb.do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 600)`))
	tb.until(`document.querySelector("[data-live]").textContent == "Paused"`)
	record("two")
	tb.do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 0)`))
	tb.until(first + ` == "two"`) // what came meanwhile is not lost
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("tr[data-event] a").focus({preventScroll: true})`))
	tb.until(`document.querySelector("[data-live]").textContent == "Paused"`)
	tb.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	tb.until(`document.querySelector("[data-live]").textContent.startsWith("Live")`)
	tb.excuse("status of 404")
	s.run("user", "demote", s.ready.Username, "--yes")
	record("three")
	tb.until(`document.querySelector("[data-live]").textContent == "Paused"`)
	if top := ask(tb, chromedp.Evaluate[string](first)); top != "two" {
		t.Errorf("after the demotion the newest row is %q, want two", top)
	}
}

// fakeSource stands in for EventSource, and for the clock.
const fakeSource = `window.EventSource = class {
	constructor() { window.source = this; setTimeout(() => this.onopen(), 0); }
	addEventListener() {}
	close() {}
};
Date.now = () => 1e12;
const later = setTimeout;
window.waits = [];
window.setTimeout = (f, after) => after ? waits.push({f, after}) : later(f, 0);
window.frame = (n, type, source) => window.source.onmessage({lastEventId: "p" + n, data: JSON.stringify({id: "evt_" + n, type, resource: "cus_1", source, createdAt: 1772978400})});`

func deskTailIsBounded(t *testing.T, s *server) {
	tb := newTab(t)
	tb.do(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fakeSource}))
	tb.openDesk(s, "/desk/events")
	tb.until(`document.querySelector("[data-live]").textContent == "Live"`)
	const hostile = `<img src=x onerror=document.title='taken'>`
	tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`frame(0, %q, %q)`, hostile, hostile)))
	if got := ask(tb, chromedp.Evaluate[[]string](`[...document.querySelectorAll("tr[data-event=evt_0] [data-put=type], tr[data-event=evt_0] [data-put=source]")].map(e => e.textContent)`)); len(got) != 2 || got[0] != hostile || got[1] != hostile {
		t.Errorf("type and source = %q, want them as text", got)
	}
	if ask(tb, chromedp.Evaluate[int](`document.querySelectorAll("main img").length`)) != 0 {
		t.Error("a name in an event made an element")
	}
	if got := ask(tb, chromedp.Evaluate[string](`(row => row.className + " " + row.querySelector("td a").getAttribute("href"))(document.querySelector("tr[data-event=evt_0]"))`)); !strings.HasPrefix(got, "new /desk/events?") || !strings.HasSuffix(got, "resource=cus_1") {
		t.Errorf("the new row and the link of its resource are %q", got)
	}
	const status = `document.querySelector("[role=status][data-live]").textContent`
	announced := func(about string, after float64, want string) {
		if wait := ask(tb, chromedp.Evaluate[[]float64](`waits.map(w => w.after)`)); len(wait) != 1 || wait[0] != after {
			t.Errorf("%s: waits for %v ms, want %v", about, wait, after)
		}
		if got := ask(tb, chromedp.Evaluate[string](`waits.pop().f(); `+status)); got != want {
			t.Errorf("%s: status = %q, want %q", about, got, want)
		}
	}
	announced("the first event", 300, "Live – 1 new event")
	tb.do(chromedp.Evaluate[chromedp.Void](`for (let n = 1; n <= 300; n++) { frame(n, "customer.updated", "billing") }`))
	if rows := ask(tb, chromedp.Evaluate[int](`document.querySelectorAll("tr[data-event]").length`)); rows != 200 {
		t.Errorf("%d rows after 301 frames, want 200", rows)
	}
	announced("300 more", 10000, "Live – 301 new events")
	if got := ask(tb, chromedp.Evaluate[string](`document.querySelector("tr[data-event] time").title`)); !strings.Contains(got, " – ") {
		t.Errorf("the time of a new row has the title %q, want the local time in it", got)
	}
	tb.open(s.base + "/desk/events?type=unseen.type")
	tb.until(`document.querySelector("[data-live]").textContent == "Live"`)
	tb.see(".empty")
	tb.do(chromedp.Evaluate[chromedp.Void](`frame(0, "unseen.type", "billing")`))
	if !ask(tb, chromedp.Evaluate[bool](`document.querySelector("tr[data-event]").offsetHeight > 0 && document.querySelector(".empty") == null`)) {
		t.Error("the first event of an empty list is not shown in its place")
	}
}

// curlSummary unfolds the request of an event, and copyCurl copies it.
const (
	curlSummary = "article .deed:last-of-type > summary"
	copyCurl    = ".code:has([data-curl]) > [data-copy]"
)

func deskCopies(t *testing.T, s *server) {
	tb := newTab(t)
	tb.do(call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	tb.openDesk(s, "/desk/events?type=*.updated")
	tb.click("tr[data-event] th a")
	// The page may be there before the script has run.
	tb.until(`document.readyState == "complete" && document.querySelector("main .facts time").title != ""`)
	tb.click(curlSummary)
	tb.see(copyCurl)
	// Reading the clipboard needs a permission, so what is written is caught on its way.
	tb.do(chromedp.Evaluate[chromedp.Void](`{ const write = navigator.clipboard.writeText.bind(navigator.clipboard); navigator.clipboard.writeText = text => { window.copied = text; return write(text); } }
		window.setTimeout = (reset, after) => { window.reset = reset; window.after = after; };`))
	tb.click(copyCurl)
	tb.until(`document.querySelector("` + copyCurl + `").textContent == "Copied"`)
	if !ask(tb, chromedp.Evaluate[bool](`after == 2000 && (reset(), document.querySelector("`+copyCurl+`").textContent == "Copy")`)) {
		t.Error("the button does not go back to Copy after 2 s")
	}
	tb.scheme("light") // with reduced motion, where no timer runs
	tb.click(copyCurl)
	tb.until(`document.querySelector("` + copyCurl + `").textContent == "Copied"`)
	tb.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	tb.until(`document.querySelector("` + copyCurl + `").textContent == "Copy"`)
	if !ask(tb, chromedp.Evaluate[bool](`window.copied == document.querySelector("pre[data-curl]").textContent`)) {
		t.Error("the button copied something other than the command before it")
	}
}

// deskClocks reads the list in Tokyo, nine hours before UTC. A filter is in UTC wherever the
// reader is, so the page says so.
func deskClocks(t *testing.T, s *server) {
	tb := newTab(t)
	tb.do(call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}))
	tb.openDesk(s, "/desk/events")
	tb.until(`document.querySelector("[data-zone]").textContent == "Times are Asia/Tokyo; filters and plots are UTC"`)
	if !ask(tb, chromedp.Evaluate[bool](`[...document.querySelectorAll("tr[data-event] time")].every(time => {
		const local = new Date(Date.parse(time.dateTime) + 9 * 3600000).toISOString();
		return time.textContent.includes(local.slice(11, 16)) && time.title.includes(time.dateTime.slice(11, 19) + " UTC");
	})`)) {
		t.Error("a clock is not the reader's, or its title lacks the time in UTC")
	}
}

func deskWithoutScript(t *testing.T, s *server) {
	tb := newTab(t)
	tb.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	tb.openDesk(s, "/desk/events?type=*.updated")
	const last = "article pre[data-curl]"
	for _, step := range []string{"tr[data-event] th a", curlSummary, last} {
		tb.see(step)
		if shown := ask(tb, chromedp.Evaluate[int](`[...document.querySelectorAll("[data-live], [data-copy]")].filter(e => e.offsetParent).length`)); shown != 0 {
			t.Errorf("%d controls of the script are shown without it", shown)
		}
		if step != last {
			tb.click(step)
		}
	}
}
