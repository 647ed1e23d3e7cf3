package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"

	"github.com/chromedp/chromedp"
)

const (
	larkspurURI = "https://books.larkspurtea.example/connect/tollhouse/callback"
	windowWide  = 1100
	windowSlim  = 375
	windowHigh  = 812
)

// A stop is a screen, and the way there.
type stop struct {
	name   string // of its pictures too
	expect string // part of a message that it brings to the console, such as its status
	reach  func(tb *tab, v *view)
}

// A view is what a way to a screen begins with: a server of the screen's own,
// with a client, and with Maud, who can sign in there.
type view struct {
	*server
	larkspur credentials
}

// stops are all the screens that people see.
var stops = []stop{
	{"home", "", func(tb *tab, v *view) { tb.open(v.base + "/") }},
	{"home-signed-in", "", func(tb *tab, v *view) {
		tb.open(v.base + "/login")
		tb.signIn(maud, maudPassword)
		tb.see(signOutForm)
	}},
	{"home-operator", "", func(tb *tab, v *view) {
		tb.open(v.base + "/login")
		tb.signIn(v.ready.Username, v.ready.Password)
		tb.see("table[data-list=events]")
		tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-diff]").closest("details").open = true`))
	}},
	{"new-password", "", func(tb *tab, v *view) {
		tb.open(v.base + "/login")
		tb.click("a[href$=new-password]")
		tb.see("#code")
	}},
	{"new-password-error", "", func(tb *tab, v *view) {
		tb.open(v.base + "/new-password")
		tb.do(chromedp.SendKeys(chromedp.CSS("#username"), maud), chromedp.SendKeys(chromedp.CSS("#code"), "01234-56789-abcde-fghjk"),
			chromedp.SendKeys(chromedp.CSS("#new_password"), maudPassword), chromedp.SendKeys(chromedp.CSS("#repeat_password"), maudPassword))
		tb.click("form .filled")
		tb.see(alert)
	}},
	{"login", "", func(tb *tab, v *view) { tb.open(v.authorizeURL(v.larkspur.ID, larkspurURI, "x")) }},
	{"login-error", "", func(tb *tab, v *view) {
		tb.open(v.authorizeURL(v.larkspur.ID, larkspurURI, "x"))
		tb.signIn(maud, "not the password")
		tb.see(alert)
	}},
	{"login-throttled", "status of 429", reachThrottled},
	{"second-factor", "", func(tb *tab, v *view) { reachFactorPage(tb, v) }},
	{"second-factor-app", "", func(tb *tab, v *view) { reachSetUp(tb, v) }},
	{"second-factor-codes", "", func(tb *tab, v *view) { setUpApp(tb, v) }},
	{"second-factor-set-up", "", func(tb *tab, v *view) {
		setUpApp(tb, v)
		tb.click("a[data-next]")
		tb.see("[data-recovery-left]")
	}},
	{"second-step", "", func(tb *tab, v *view) { reachSecondStep(tb, v) }},
	{"second-step-error", "", func(tb *tab, v *view) {
		reachSecondStep(tb, v)
		tb.do(chromedp.SendKeys(chromedp.CSS("#code"), "000000x"))
		tb.click("form[data-do=second-factor] button")
		tb.see(alert)
	}},
	{"consent", "", reachConsent},
	{"callback", "", func(tb *tab, v *view) { reachCallback(tb, v, allowButton) }},
	{"callback-denied", "", func(tb *tab, v *view) { reachCallback(tb, v, denyButton) }},
	{"error", "status of 400", func(tb *tab, v *view) {
		tb.open(v.authorizeURL(v.larkspur.ID, larkspurURI+"/"+strings.Repeat("a-long-way-down/", 8), "x"))
	}},
	{"error-unknown-client", "status of 400", func(tb *tab, v *view) { tb.open(v.authorizeURL("larkspur", larkspurURI, "x")) }},
	{"error-damaged-link", "status of 400", func(tb *tab, v *view) { tb.open(v.base + "/oauth/v2/auth") }},
	{"error-not-found", "status of 404", func(tb *tab, v *view) { tb.open(v.base + "/no-such-page") }},
	{"error-answered", "status of 400", func(tb *tab, v *view) {
		reachConsent(tb, v)
		tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=ticket]").value = "of another question"`))
		tb.click(denyButton)
		tb.do(chromedp.WaitNotPresent(chromedp.CSS(denyButton)))
	}},
	{"account-empty", "", func(tb *tab, v *view) { tb.openAccount(v.server, maud) }},
	{"account", "", reachAccount},
	{"account-revoked", "", func(tb *tab, v *view) {
		reachAccount(tb, v)
		tb.click("td.act button")
		tb.see(done)
	}},
	{"account-error", "", func(tb *tab, v *view) {
		reachAccount(tb, v)
		tb.click(passwordFold)
		tb.do(chromedp.SendKeys(chromedp.CSS("#current_password"), "not the password"),
			chromedp.SendKeys(chromedp.CSS("#new_password"), "short"), chromedp.SendKeys(chromedp.CSS("#repeat_password"), "short"))
		tb.click("form .filled")
		tb.see(alert)
		// The words that head the form are in sight beside the field that it goes
		// on at, on a page that is longer than the window.
		if top := ask(tb, chromedp.Evaluate[float64](`document.querySelector("[role=alert]").getBoundingClientRect().top`)); top < 0 || top > windowHigh {
			tb.t.Errorf("the refusal is %v pixels from the top of the window, out of sight", top)
		}
	}},
}

func reachConsent(tb *tab, v *view) {
	tb.t.Helper()
	tb.open(v.authorizeURL(v.larkspur.ID, larkspurURI, "x"))
	tb.signIn(maud, maudPassword)
	tb.see(allowButton)
}

// reachCallback goes on to the page with which dev stands in for a client.
func reachCallback(tb *tab, v *view, button string) {
	tb.t.Helper()
	tb.open(v.authorizeURL(v.ready.ClientID, v.base+"/callback", "x"))
	tb.signIn(maud, maudPassword)
	tb.see(button)
	tb.click(button)
	tb.do(chromedp.WaitNotPresent(chromedp.CSS(button)))
}

// reachThrottled guesses until the answer is to wait. A pause grows with every
// guess, so that a slow machine only has to guess more often.
func reachThrottled(tb *tab, v *view) {
	tb.t.Helper()
	const free, guessesMax = 10, 8
	stranger := newVisitor(tb.t)
	form := stranger.open(v.base + "/login")
	for range free {
		stranger.submit(form, "username", maud, "password", "not the password")
	}
	tb.open(v.base + "/login")
	for range guessesMax {
		tb.signIn(maud, "not the password")
		tb.see(alert + ", .notice")
		if ask(tb, chromedp.Evaluate[int](`document.querySelectorAll(".notice").length`)) > 0 {
			return
		}
	}
	tb.t.Fatalf("%d guesses, and the form never says to wait", free+guessesMax)
}

// reachAccount goes to an account page with two clients and two sign-ins.
func reachAccount(tb *tab, v *view) {
	tb.t.Helper()
	for _, name := range []string{"Larkspur Bookkeeping", "Aster Reports"} {
		client := v.createClient(name, larkspurURI)
		if !v.lives(client, v.passwordPair(client, maud)) {
			tb.t.Fatal("the access token never lived")
		}
	}
	newTab(tb.t).openAccount(v.server, maud)
	tb.openAccount(v.server, maud)
}

// TestBrowserScreens looks at every screen, narrow and wide, by day and by
// night. With TOLLHOUSE_PICTURES set it keeps what it sees.
func TestBrowserScreens(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	for _, stop := range stops {
		t.Run(stop.name, func(t *testing.T) {
			t.Parallel()
			s := startDev(t, "--throttle")
			v := &view{server: s, larkspur: s.createClient("Larkspur Bookkeeping", larkspurURI)}
			v.createUser(maud, v.ready.Account, maudPassword)
			tb := newTab(t)
			if stop.expect != "" {
				tb.excuse(stop.expect)
			}
			stop.reach(tb, v)
			tb.see("main h1")
			tb.lookAround(stop.name, windowWide, func(shown string) {
				over := ask(tb, chromedp.Evaluate[int64](`document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth`))
				if over > 0 {
					t.Errorf("%s: %d pixels stick out", shown, over)
				}
				tb.picture(shown)
			})
			t.Run("axe_finds_no_violation", func(t *testing.T) { tb.wantAccessible(t, stop.name) })
		})
	}
}

// lookAround shows the screen in both schemes and both widths.
func (tb *tab) lookAround(name string, wide int64, look func(shown string)) {
	tb.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{wide, windowSlim} {
			look(tb.show(name, scheme, width))
		}
	}
}

// show sets a scheme and a width, and returns a name of what it shows.
func (tb *tab) show(name, scheme string, width int64) string {
	tb.t.Helper()
	tb.scheme(scheme)
	tb.size(width, windowHigh)
	return fmt.Sprintf("%s-%s-%d", name, scheme, width)
}

// smallTargets lists what is narrower than 24 px, or lower than 44 px where a finger may be:
// on the card pages, and on the controls of a narrow one but for tables and small buttons.
// A mouse needs 24 px. Axe judges links by the space around them. The target of a box is its
// label. WCAG 2.2 SC 2.5.8 exempts links within a sentence.
const smallTargets = `(card => [...document.querySelectorAll((card ? "a[href], " : ".button, .menu a, ") + "button, input:not([type=hidden]), select, textarea, summary")]
	.filter(e => e.checkVisibility({visibilityProperty: true}) && !e.matches(".skip:not(:focus)"))
	.filter(e => !(e.matches("a") && [...e.parentElement.childNodes].some(n => n.nodeType == Node.TEXT_NODE && /\w/.test(n.data))))
	.map(e => [e, (e.closest("label") ?? e).getBoundingClientRect(),
		card || innerWidth <= 768 && !e.closest("table") && !e.matches(".plainly, .code > button, .more > summary, figure summary") ? 44 : 24])
	.filter(([e, box, least]) => box.width < 23.5 || box.height < least - 0.5)
	.map(([e, box]) => Math.round(box.width) + " x " + Math.round(box.height) + ": " + e.outerHTML.slice(0, 200)))(document.body.className == "card")`

// violation is a rule of axe's that a screen breaks, and where.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// wantAccessible holds the screen to all rules of axe-core, and once more with all that is
// folded unfolded. The protocol evaluates it past the policy of the page, which lets no script run.
func (tb *tab) wantAccessible(t *testing.T, name string) {
	source := must.Get(os.ReadFile(filepath.Join(nodeModules(t), "axe-core", "axe.min.js")))(t)
	tb.do(chromedp.Evaluate[chromedp.Void](string(source)))
	tb.holdToAxe(t, name)
	if ask(tb, chromedp.Evaluate[bool](`document.querySelector("details:not([open])") != null`)) {
		tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => { d.open = true; })`))
		tb.holdToAxe(t, name+"-unfolded")
	}
}

// holdToAxe looks at each scheme and at each width once. TestContrast in static measures the colours
// of both schemes.
func (tb *tab) holdToAxe(t *testing.T, name string) {
	for _, look := range []struct {
		scheme string
		width  int64
	}{{"light", windowDesk}, {"dark", windowSlim}} {
		shown := tb.show(name, look.scheme, look.width)
		if over := ask(tb, chromedp.Evaluate[int64](`document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth`)); over > 0 {
			t.Errorf("%s: %d pixels stick out", shown, over)
		}
		for _, small := range ask(tb, chromedp.Evaluate[[]string](smallTargets)) {
			t.Errorf("%s: the target is too small: %s", shown, small)
		}
		found := ask(tb, chromedp.Evaluate[[]violation](`axe.run(document, {preload: false, resultTypes: ["violations", "incomplete"], rules: {"target-size": {enabled: true}}}).then(r => {
			if (r.passes.length === 0) throw new Error("axe has looked at nothing");
			// axe finds no background behind text in a drawing, behind an id that is cut, or where an
			// area scrolls, and leaves its contrast undecided. static's TestContrast measures these colours.
			const scrolls = n => document.querySelector(n.target[0])?.closest(".scrolls, .split > .panel");
			const undecided = r.incomplete.map(v => ({...v, nodes: v.nodes.filter(n => v.id !== "color-contrast" || !/^<text |class="id"/.test(n.html) && !scrolls(n))}));
			return [...r.violations, ...undecided];
		})`, chromedp.EvalAwaitPromise))
		for _, v := range found {
			for _, node := range v.Nodes {
				t.Errorf("%s: %s (%s): %s\n%s\n%s", shown, v.ID, v.Impact, v.Help, node.HTML, node.FailureSummary)
			}
		}
	}
}
