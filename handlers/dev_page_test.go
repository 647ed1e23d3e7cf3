package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const devPage = "/_dev/"

var asBrowser = header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")

// devForm sends the form of a call, as the page has it.
func (b *browser) devForm(t testing.TB, call string, namesAndValues ...string) answer {
	t.Helper()
	page := b.get(t, devPage, asBrowser)
	for _, f := range formsOn(t, page) {
		if f.action == devPage+"?call="+call {
			return b.post(t, f.action, with(f.fields, namesAndValues...))
		}
	}
	// The buttons of a table send its form to their own address.
	if !strings.Contains(page.body, `formaction="`+devPage+"?call="+call+`"`) {
		t.Fatalf("the page has no form for %s: %.300s", call, page.body)
	}
	return b.post(t, devPage+"?call="+call, with(devToken(t, page), namesAndValues...))
}

// devToken is the token of the page's forms.
func devToken(t testing.TB, page answer) url.Values {
	t.Helper()
	for _, f := range formsOn(t, page) {
		if f.fields.Has("form_token") {
			return url.Values{"form_token": f.fields["form_token"]}
		}
	}
	t.Fatal("no form has a token")
	return nil
}

func (b *browser) devDone(t testing.TB, call string, namesAndValues ...string) {
	t.Helper()
	a := b.devForm(t, call, namesAndValues...)
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != devPage {
		t.Fatalf("%s = %d %s, want to be led back to the page", call, a.StatusCode, words(t, a))
	}
	notices := func() (n int) {
		for _, node := range nodesOn(t, b.get(t, devPage, asBrowser), "role") {
			if attribute(node, "role") == "status" && len(textOf(node)) > len("Done.") {
				n++
			}
		}
		return n
	}
	if n := notices(); n != 1 {
		t.Errorf("after %s the page has %d notices, want one that says what was done", call, n)
	}
	if n := notices(); n != 0 {
		t.Errorf("after %s the notice comes again", call)
	}
}

// TestDevPage: a browser gets a page at /_dev and /_dev/, programs get what they got before.
//
// Promise (Testers, bad input): /_dev/ in a browser is a page of requests as they come, faults, clock,
// snapshots, tokens and reset, whose forms send the calls of programs, without a script
func TestDevPage(t *testing.T) {
	t.Parallel()
	h := newMakingHouse(t)
	b := h.browser(t)
	t.Run("is_for_browsers_only", func(t *testing.T) {
		for _, path := range []string{"/_dev", devPage} {
			if page := b.get(t, path, asBrowser); page.StatusCode != http.StatusOK || !isPage(page) || !strings.Contains(page.body, "Test controls") {
				t.Errorf("a browser gets %d %.200s at %s, want the page", page.StatusCode, page.body, path)
			}
		}
		wantError(t, h.get(t, devPage), http.StatusNotFound, "not_found")
		wantError(t, h.ask(t, "POST", devPage, "{}"), http.StatusNotFound, "not_found")
		if list := h.getList(t, "/_dev"); len(list) < 15 {
			t.Errorf("a program gets %d endpoints at /_dev", len(list))
		}
		serve := newHouse(t)
		for _, method := range []string{"GET", "POST"} {
			if a := serve.ask(t, method, devPage, "", asBrowser); a.StatusCode != http.StatusNotFound {
				t.Errorf("serve answers %s %s with %d, want 404", method, devPage, a.StatusCode)
			}
		}
	})
	t.Run("lists_requests_the_newest_first", func(t *testing.T) {
		h.get(t, "/api/events?limit=3")
		h.token(t, with(h.passwordForm(), "password", "wrong"))
		page := b.get(t, devPage, asBrowser)
		newest, older := strings.Index(page.body, "POST /oauth/v2/token"), strings.Index(page.body, "GET /api/events")
		if newest < 0 || older < newest || !strings.Contains(words(t, page), "400 client-") && !strings.Contains(words(t, page), "invalid_grant") {
			t.Errorf("the list says %s", words(t, page))
		}
		narrowed := b.get(t, devPage+"?path=%2Fapi%2F**&status=&client_id=", asBrowser)
		if strings.Contains(narrowed.body, "POST /oauth/v2/token") || !strings.Contains(narrowed.body, "GET /api/events") {
			t.Errorf("narrowed to /api/** the list says %s", words(t, narrowed))
		}
		if none := b.get(t, devPage+"?status=418", asBrowser); !strings.Contains(words(t, none), "No requests match") {
			t.Errorf("without a match the page says %s", words(t, none))
		}
		if one := b.get(t, devPage+"?n=1", asBrowser); !strings.Contains(words(t, one), `"limit": [ "3" ]`) {
			t.Errorf("the request is shown as %s", words(t, one))
		}
		if a := b.get(t, devPage+"?status=many", asBrowser); a.StatusCode != http.StatusBadRequest || !isPage(a) {
			t.Errorf("status=many = %d %s, want a page that says why", a.StatusCode, a.Header.Get("Content-Type"))
		}
	})
	t.Run("the_start_page_of_dev_alone_leads_to_it", func(t *testing.T) {
		const link = `href="` + devPage + `"`
		if !strings.Contains(b.get(t, "/").body, link) || strings.Contains(newHouse(t).get(t, "/").body, link) {
			t.Error("the start page of dev does not lead to the controls, or that of serve does")
		}
	})
}

// TestDevPageForms sends each form of the page and looks at what its call did.
//
// Promise (Testers, bad input): /_dev/ in a browser is a page of requests as they come, faults, clock,
// snapshots, tokens and reset, whose forms send the calls of programs, without a script
func TestDevPageForms(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) (*devHouse, *browser) {
		t.Parallel()
		h := newMakingHouse(t)
		return h, h.browser(t)
	}
	t.Run("add_and_remove_faults", func(t *testing.T) {
		h, b := open(t)
		b.devDone(t, "addFault", "match.path", "/oauth/v2/token", "count", "1", "do.status", "503", "do.delay", "1ms", "do.malformed", "")
		b.devDone(t, "addFault", "match.path", "/api/**", "do.malformed", "true")
		rule := object(t, h.get(t, "/_dev/faults/flt_1"), http.StatusOK)
		if fmt.Sprint(rule["match"], rule["count"], rule["do"]) != "map[path:/oauth/v2/token] 1 map[delay:1ms status:503]" {
			t.Errorf("the rule is %v", rule)
		}
		if a := h.token(t, h.passwordForm()); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a token request = %d, want the fault's 503", a.StatusCode)
		}
		if text := words(t, b.get(t, devPage, asBrowser)); !strings.Contains(text, "1 of 1 spent") || !strings.Contains(text, "503") {
			t.Errorf("the page says %s", text)
		}
		b.devDone(t, "dropFault", "id", "flt_1")
		wantError(t, h.get(t, "/_dev/faults/flt_1"), http.StatusNotFound, "not_found")
		b.devDone(t, "dropFaults")
		if left := h.dev.Faults.List(); len(left) > 0 {
			t.Errorf("%d faults are left", len(left))
		}
	})
	t.Run("say_what_a_call_refuses_and_keep_what_was_typed", func(t *testing.T) {
		h, b := open(t)
		a := b.devForm(t, "addFault", "match.path", "/oauth/v2/tokn", "count", "many", "do.status", "503")
		if text := words(t, a); a.StatusCode != http.StatusBadRequest || !strings.Contains(text, "count") || !strings.Contains(a.body, `value="/oauth/v2/tokn"`) {
			t.Errorf("a wrong count = %d %s", a.StatusCode, text)
		}
		a = b.devForm(t, "addFault", "match.path", "/oauth/v2/tokn", "do.status", "503", "do.malformed", "")
		if text := words(t, a); !strings.Contains(text, "did you mean /oauth/v2/token?") || !strings.Contains(a.body, `aria-invalid="true"`) {
			t.Errorf("a wrong path = %d %s", a.StatusCode, text)
		}
		if len(h.dev.Faults.List()) > 0 {
			t.Error("a refused form made a fault")
		}
	})
	t.Run("move_freeze_and_run_the_clock", func(t *testing.T) {
		h, b := open(t)
		b.devDone(t, "moveClock", "advance", "90s")
		if got := h.dev.Clock.Now().Sub(devBegins).Seconds(); got != 90 {
			t.Errorf("the clock went %v s forward, want 90", got)
		}
		b.devDone(t, "moveClock", "set", "2026-07-01T00:00:00Z")
		if text := words(t, b.get(t, devPage, asBrowser)); !strings.Contains(text, "1 July 2026, 00:00:00 UTC State Frozen") {
			t.Errorf("the page says %s", text)
		}
		b.devDone(t, "moveClock", "running", "true")
		if !h.dev.Clock.IsRunning() {
			t.Error("the clock stands still")
		}
		b.devDone(t, "moveClock", "running", "false")
		if h.dev.Clock.IsRunning() {
			t.Error("the clock runs on")
		}
		if a := b.devForm(t, "moveClock", "set", "2026-01-01T00:00:00Z"); a.StatusCode != http.StatusConflict || !strings.Contains(words(t, a), "goes forward only") {
			t.Errorf("backwards = %d %s", a.StatusCode, words(t, a))
		}
	})
	t.Run("save_restore_and_remove_snapshots", func(t *testing.T) {
		h, b := open(t)
		b.devDone(t, "saveSnapshot", "name", "42")
		b.devDone(t, "saveSnapshot")
		if got := fmt.Sprint(h.control.Names()); got != "[42 default]" {
			t.Errorf("snapshots = %s, want the named one and the default", got)
		}
		b.devDone(t, "restoreSnapshot", "name", "42")
		if h.control.Resets() != 1 {
			t.Error("the snapshot was not restored")
		}
		b.devDone(t, "dropSnapshot", "name", "42")
		b.devDone(t, "dropSnapshots")
		if got := h.control.Names(); len(got) > 0 {
			t.Errorf("snapshots = %v, want none", got)
		}
	})
	t.Run("issue_tokens", func(t *testing.T) {
		h, b := open(t)
		a := b.devForm(t, "makeTokens", "scope", "events:read", "expires_in", "600")
		_, rest, _ := strings.Cut(a.body, "data-access-token=")
		_, rest, _ = strings.Cut(rest, ">")
		token, _, _ := strings.Cut(rest, "<")
		if h.bearerStatus(t, token) != http.StatusOK || !strings.Contains(words(t, a), "expires in 600 s") {
			t.Errorf("the page shows %s, want a token that works", words(t, a))
		}
	})
	t.Run("reset_and_empty_the_list", func(t *testing.T) {
		h, b := open(t)
		h.get(t, "/nowhere")
		b.devDone(t, "dropRequests")
		if n, _ := h.dev.Journal.Count(); n != 0 {
			t.Errorf("%d requests are left", n)
		}
		b.devDone(t, "resetInstance")
		if h.control.Resets() != 1 {
			t.Error("nothing was reset")
		}
	})
}

// TestDevPageIsClosedToOtherSites: a page of another site can neither read it nor send its forms.
//
// Promise (Testers, bad input): pages of another site can neither read the page at /_dev/ nor send its forms
func TestDevPageIsClosedToOtherSites(t *testing.T) {
	t.Parallel()
	h := newMakingHouse(t)
	b := h.browser(t)
	page := b.get(t, devPage, asBrowser)
	fields := devToken(t, page)
	for _, foreign := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://attacker.example"}} {
		from := header(foreign[0], foreign[1])
		for _, path := range []string{devPage, "/_dev", "/_dev/requests"} {
			page := b.get(t, path, asBrowser, from)
			wantErrorPage(t, page, http.StatusForbidden)
			if linkOn(t, page, "Start page") != "/" || strings.Contains(page.body, "form_token") {
				t.Errorf("%s: a link of another site leads to %s", path, words(t, page))
			}
			wantError(t, b.get(t, path, from), http.StatusForbidden, "forbidden")
		}
		for _, call := range []string{"resetInstance", "makeTokens", "addFault"} {
			a := b.send(t, "POST", devPage+"?call="+call, strings.NewReader(fields.Encode()), header("Content-Type", formType), from)
			wantError(t, a, http.StatusForbidden, "forbidden")
		}
	}
	// A browser that says neither is held by the token of its own page.
	for name, token := range map[string]string{"none": "", "wrong": "x"} {
		if a := b.post(t, devPage+"?call=resetInstance", url.Values{"form_token": {token}}); a.StatusCode != http.StatusForbidden {
			t.Errorf("a form with the token %s = %d, want 403", name, a.StatusCode)
		}
	}
	if a := h.browser(t).post(t, devPage+"?call=resetInstance", fields); a.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another browser = %d, want 403", a.StatusCode)
	}
	if a := b.post(t, devPage+"?call=showState", fields); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a form for what is no action = %d, want 400", a.StatusCode)
	}
	if h.control.Resets() != 0 {
		t.Error("the instance was reset")
	}
	policy := directivesOf(page.Header.Get("Content-Security-Policy"))
	if policy["script-src"] != "'self'" || policy["connect-src"] != "'self'" || policy["form-action"] != "'self'" || policy["frame-ancestors"] != "'none'" {
		t.Errorf("the policy is %v", policy)
	}
	if n, _ := h.dev.Journal.Count(); n != 0 {
		t.Errorf("the journal has %d requests, want none: looking changes nothing", n)
	}
}
