package proof

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tollhouse/store/storetest/must"
)

// TestBrowserWebhooks looks at the desk's pages of webhook endpoints that work, fail, are
// disabled and get a new secret.
func TestBrowserWebhooks(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/broken") {
			http.Error(w, "the books are closed", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(to.Close)
	create := func(path string, args ...string) (id string) {
		t.Helper()
		var e struct{ ID string }
		decode(t, s.run(append([]string{"webhook", "create", "--json", "--account", s.ready.Account, "--url", to.URL + path}, args...)...), &e)
		return e.ID
	}
	works := create("/works", "--description", "the books")
	parks := create("/broken/parks", "--order", "none")
	blocked := create("/broken/blocked?with=a-query-that-is-rather-long-and-has-no-place-to-break")
	s.run("event", "generate", "--seed", "3", "--events", "40", "--span", "2d", "--until", "2026-03-09T14:30:00Z", "--account", s.ready.Account, "--quiet")
	disabled := create("/disabled")
	s.run("webhook", "disable", disabled)
	status := func(id string) (e struct {
		Status struct {
			Parked    int
			BlockedOn *string
			Behind    bool
		}
	}) {
		if err := json.Unmarshal(s.run("webhook", "show", id, "--json"), &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	eventually(t, func() bool {
		return !status(works).Status.Behind && status(parks).Status.Parked > 0 && status(blocked).Status.BlockedOn != nil
	}, "the endpoints are not sent to")
	tb := newTab(t)
	tb.open(s.base + "/login?to=desk")
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see("main[data-desk=overview]")
	for _, p := range []struct{ name, path, see string }{
		{"list", "", "[data-webhook]"}, {"works", "/" + works, "[data-delivery]"}, {"parks", "/" + parks, "form[data-do^=retry-]"}, // dev tries for 20 seconds: then they are dead
		{"blocked", "/" + blocked, "form[data-do=skip]"}, {"disabled", "/" + disabled, ".deed:has(form[data-do=enable]) > summary"},
	} {
		t.Run(p.name, func(t *testing.T) {
			tb.open(s.base + "/desk/webhooks" + p.path)
			tb.see(p.see)
			tb.lookAtDesk(t, "desk-webhooks-"+p.name)
		})
	}
	t.Run("a_test_is_sent_by_keyboard", func(t *testing.T) {
		tb.open(s.base + "/desk/webhooks/" + works)
		tb.do(chromedp.Focus(chromedp.CSS("form[data-do=test] button")))
		tb.press(kb.Enter)
		tb.until(`(document.querySelector("main")?.innerText ?? "").includes("The test was delivered")`)
		tb.lookAtDesk(t, "desk-webhooks-tested")
	})
	t.Run("a_new_secret_is_shown", func(t *testing.T) {
		tb.open(s.base + "/desk/webhooks/" + works)
		tb.choose("Rotate the secret")
		tb.click("form[data-do=rotate-secret] button")
		tb.see("[data-secret]")
		tb.lookAtDesk(t, "desk-webhooks-secret")
	})
}
