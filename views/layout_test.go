package views_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tollhouse/static"
	"tollhouse/store/storetest/must"
	"tollhouse/views"
)

// layoutTimeout bounds the whole of TestLayout; it takes about 6 s on two cores.
const layoutTimeout = 2 * time.Minute

// measured is what a browser says of a page that it has laid out.
const measured = `(() => {
	const box = e => e.getBoundingClientRect();
	const tag = e => e.outerHTML.slice(0, 80);
	const onCard = document.body.className == 'card';
	const card = box(document.querySelector('main'));
	document.querySelectorAll('[data-webauthn]').forEach(asks => { asks.hidden = false; }); // as the script shows them
	const shown = [...document.querySelectorAll('main *:not(.unseen, .unseen *, .id, .cut, .cut *)')].filter(e => box(e).width > 0);
	const controls = [...document.querySelectorAll('input:not([type=hidden], [type=checkbox], [hidden]), .choice, button:not([hidden]), .button, .who a')];
	const decisions = [...document.querySelectorAll('[name=decision]')].map(e => box(e).width + ' by ' + box(e).height);
	return {
		styled: getComputedStyle(document.body).marginTop == '0px',
		over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
		outside: shown.filter(e => box(e).right > card.right || box(e).left < card.left || (e.tagName != 'INPUT' && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)).map(tag),
		low: controls.filter(e => onCard && box(e).height < 44).map(tag),
		decisions: new Set(decisions).size,
	}
})()`

type measures struct {
	Styled    bool     `json:"styled"`    // the style sheet took hold
	Over      float64  `json:"over"`      // pixels that the page scrolls sideways
	Outside   []string `json:"outside"`   // elements that leave the card, or whose text leaves them
	Low       []string `json:"low"`       // controls of a card page lower than 44 px
	Decisions int      `json:"decisions"` // different sizes of Deny and Allow
}

// TestLayout lays every screen out in Chromium, with words that are hard to
// place, as wide as a desk, a telephone, and a telephone at 200 %.
func TestLayout(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for kind, words := range map[string]string{
		"everyday":      "Larkspur Bookkeeping",
		"one_long_word": strings.Repeat("Abfallbeseitigung", 15),
		"long_url":      "https://books.larkspurtea.example/callback?" + strings.Repeat("value=0123456789&", 30),
		"right_to_left": "مخبز الزاوية للحسابات \u202e حساب",
		"wide_letters":  strings.Repeat("税理士法人", 12),
	} {
		if testing.Short() && kind != "one_long_word" {
			continue // the hardest to place
		}
		for screen, address := range writeSite(t, t.TempDir(), words) {
			t.Run(screen+"_"+kind, func(t *testing.T) {
				must.Do(t, chromedp.Do(browser, chromedp.Navigate(address)))
				for _, width := range []int64{1100, 375, 187} {
					checkLayout(t, browser, width)
				}
			})
		}
	}
}

func checkLayout(t *testing.T, browser context.Context, width int64) {
	t.Helper()
	var got measures
	err := chromedp.Do(browser, chromedp.EmulateViewport(width, 760))
	if err == nil {
		got, err = chromedp.Run(browser, chromedp.Evaluate[measures](measured))
	}
	must.Do(t, err)
	if !got.Styled {
		t.Fatal("the style sheet did not load")
	}
	if got.Over > 0 {
		t.Errorf("%d px: page scrolls sideways by %v px", width, got.Over)
	}
	if len(got.Outside) > 0 {
		t.Errorf("%d px: outside the card or their own box: %q", width, got.Outside)
	}
	if len(got.Low) > 0 {
		t.Errorf("%d px: lower than 44 px: %q", width, got.Low)
	}
	if got.Decisions > 1 {
		t.Errorf("%d px: Deny and Allow differ in size", width)
	}
}

// writeSite renders every screen below dir, beside its assets, for a browser
// to read without a server. It returns their addresses.
func writeSite(t *testing.T, dir, words string) map[string]string {
	t.Helper()
	must.Do(t, os.Mkdir(filepath.Join(dir, "static"), 0o700))
	for _, name := range []string{"style.css", "icon.svg"} {
		content, _, _ := static.Open(static.Path(name))
		must.Do(t, os.WriteFile(filepath.Join(dir, static.Path(name)), content, 0o600))
	}
	addresses := map[string]string{}
	for screen, c := range screens(views.Page{Base: dir, Host: "pay.larkspurtea.example"}, words) {
		if strings.HasPrefix(screen, "dev") {
			continue // its tables cut what is long, as those of the desk; the browser tests look at both
		}
		path := filepath.Join(dir, strings.ReplaceAll(screen, " ", "-")+".html")
		must.Do(t, os.WriteFile(path, []byte(render(t, c)), 0o600))
		addresses[screen] = (&url.URL{Scheme: "file", Path: path}).String()
	}
	return addresses
}

// startBrowser returns a tab of a fresh Chromium. Without one it skips,
// or fails in CI.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	must.Have(t, err == nil, "chromium")
	ctx, cancel := context.WithTimeout(context.Background(), layoutTimeout)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	must.Do(t, chromedp.Do(ctx))
	return ctx
}

// TestDeskLayout lays every page of the desk out in Chromium, with every name hostile.
//
// Promise (Browsers): no name, however long, makes a page of the desk scroll sideways
func TestDeskLayout(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	browser := startBrowser(t)
	dir := t.TempDir()
	style, _, _ := static.Open(static.Path("style.css"))
	must.Do(t, os.WriteFile(filepath.Join(dir, "style.css"), style, 0o600))
	for screen, c := range deskScreens() {
		t.Run(screen, func(t *testing.T) {
			path := filepath.Join(dir, screen+".html")
			page := strings.Replace(render(t, c), static.Path("style.css"), "style.css", 1)
			must.Do(t, os.WriteFile(path, []byte(strings.Replace(page, "/style.css", "style.css", 1)), 0o600))
			must.Do(t, chromedp.Do(browser, chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String())))
			for _, width := range []int64{320, 768, 1024, 1280} {
				var got measures
				err := chromedp.Do(browser, chromedp.EmulateViewport(width, 900))
				if err == nil {
					got, err = chromedp.Run(browser, chromedp.Evaluate[measures](measured))
				}
				must.Do(t, err)
				if !got.Styled {
					t.Fatal("the style sheet did not load")
				}
				if got.Over > 0 {
					t.Errorf("%d px: page scrolls sideways by %v px", width, got.Over)
				}
			}
		})
	}
}
