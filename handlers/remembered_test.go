package handlers_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// rememberingHouse is a house whose client remembers consent, and a browser of a user
// who allowed everything.
func rememberingHouse(t testing.TB, change ...func(*handlers.Config)) (*house, *browser) {
	t.Helper()
	h := newHouse(t, change...)
	h.update(t, store.ClientChange{Consent: new("remember")})
	b := h.signedIn(t, h.user)
	b.allows(t, h.authURL())
	return h, b
}

func (h *house) update(t testing.TB, change store.ClientChange) {
	t.Helper()
	h.client = must.Get(h.UpdateClient(context.Background(), h.client.ID, change))(t)
}

func (b *browser) allows(t testing.TB, target string) {
	t.Helper()
	callback(t, b.submit(t, b.get(t, target), "decision", "allow"), http.StatusSeeOther)
}

const consentWords = "Allow Larkspur Bookkeeping"

// isLetThrough fails the test unless the answer is a code at the redirect URI.
func (h *house) isLetThrough(t testing.TB, a answer) (code string) {
	t.Helper()
	to := callback(t, a, http.StatusSeeOther)
	q := to.Query()
	if len(q["code"]) != 1 || q.Get("iss") != h.issuer || !strings.HasPrefix(to.String(), storetest.CallbackURI+"?") {
		t.Fatalf("Location = %q, want a code at the redirect URI", to)
	}
	return q.Get("code")
}

func (h *house) isAsked(t testing.TB, what string, a answer) {
	t.Helper()
	if a.StatusCode != http.StatusOK || a.Header.Get("Location") != "" || !strings.Contains(words(t, a), consentWords) {
		t.Errorf("%s: %d to %q, want the consent screen", what, a.StatusCode, a.Header.Get("Location"))
	}
}

// Promise (RFC 7662, RFC 8252 §8.6): what is remembered, and what ends it; prompt, max_age
func TestRememberedConsent(t *testing.T) {
	t.Parallel()
	t.Run("who_allowed_it_is_sent_on_without_a_screen", func(t *testing.T) {
		t.Parallel()
		h, b := rememberingHouse(t)
		a := b.get(t, h.authURL("state", "a b&=#%é", "scope", "events:read"))
		if state := callback(t, a, http.StatusSeeOther).Query()["state"]; len(state) != 1 || state[0] != "a b&=#%é" {
			t.Errorf("state = %q, want it unchanged", state)
		}
		lines := h.recorded(t, func() { wantPair(t, h.token(t, h.codeForm(h.isLetThrough(t, a)))) })
		if len(lines) != 1 || lines[0].What != store.AuditGrant || !strings.Contains(lines[0].Reason, "remembered") {
			t.Errorf("audit lines %+v, want a grant that says remembered", lines)
		}
		if text := words(t, b.get(t, "/account")); !strings.Contains(text, "Allowed without asking until") {
			t.Errorf("the account page says %q", text)
		}
		b.post(t, "/account/revoke", with(b.accountForms(t)["/account/revoke"], "client_id", h.client.ID))
		h.isAsked(t, "after Revoke", b.get(t, h.authURL()))
		if text := words(t, b.get(t, "/account")); strings.Contains(text, "Allowed without asking") {
			t.Errorf("the account page still says %q", text)
		}
	})
	t.Run("what_was_not_allowed_brings_the_screen_back", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.update(t, store.ClientChange{Consent: new("remember"), AddRedirectURIs: []string{"http://127.0.0.1/cb", "https://app.example/two"}})
		b := h.signedIn(t, h.user)
		b.allows(t, h.authURL("scope", "events:read"))
		h.isLetThrough(t, b.get(t, h.authURL("scope", "events:read")))
		for _, target := range []string{
			h.authURL("scope", "events:read resources:read"), h.authURL(), h.authURL("scope", "events:read", "redirect_uri", "https://app.example/two"),
			h.authURL("scope", "events:read", "prompt", "consent"), h.authURL("scope", "events:read", "prompt", "select_account"),
		} {
			h.isAsked(t, target, b.get(t, target))
		}
		b.allows(t, h.authURL("redirect_uri", "http://127.0.0.1:4000/cb"))
		h.isAsked(t, "another port", b.get(t, h.authURL("redirect_uri", "http://127.0.0.1:4001/cb")))
		nils := h.signedIn(t, h.User(t, "nils", h.account))
		h.isAsked(t, "another user", nils.get(t, h.authURL("scope", "events:read")))
		h.Clock.Advance(365 * 24 * time.Hour)
		h.isAsked(t, "a year later", h.signedIn(t, h.user).get(t, h.authURL("scope", "events:read")))
	})
	t.Run("a_denial_is_remembered_too", func(t *testing.T) {
		t.Parallel()
		h, b := rememberingHouse(t)
		callback(t, b.submit(t, b.get(t, h.authURL("prompt", "consent")), "decision", "deny"), http.StatusSeeOther)
		h.isAsked(t, "after Deny", b.get(t, h.authURL()))
	})
	t.Run("a_public_client_asks_each_time", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		public, _ := h.Client(t, func(c *store.ClientSpec) { c.Public = true })
		if a := h.admin(t, "PATCH", "/api/platform/clients/"+public.ID, `{"consent":"remember"}`); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "public client") {
			t.Errorf("PATCH = %d %s, want a refusal that names the reason", a.StatusCode, a.body)
		}
		target := h.authURL("client_id", public.ID, "code_challenge", challenge, "code_challenge_method", "S256")
		b := h.signedIn(t, h.user)
		b.allows(t, target)
		h.isAsked(t, "a public client", b.get(t, target))
		if q := callback(t, b.get(t, target+"&prompt=none"), http.StatusFound).Query(); q.Get("error") != "consent_required" {
			t.Errorf("prompt=none: %v, want consent_required", q)
		}
	})
	t.Run("a_client_that_asks_each_time_lets_nobody_through", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		b := h.signedIn(t, h.user)
		b.allows(t, h.authURL())
		h.update(t, store.ClientChange{Consent: new("remember")})
		h.isAsked(t, "allowed before the operator's choice", b.get(t, h.authURL()))
	})
	t.Run("auto_consent_of_dev_is_not_remembered", func(t *testing.T) {
		t.Parallel()
		demo := &web.Demo{AutoLogin: "mara", AutoConsent: true}
		h := newHouse(t, at("http://127.0.0.1:8080"), func(c *handlers.Config) { c.Demo = demo })
		h.update(t, store.ClientChange{Consent: new("remember")})
		b := h.browser(t)
		for _, prompt := range []string{"", "none", "login consent"} {
			h.isLetThrough(t, b.get(t, h.authURL("prompt", prompt)))
		}
		demo.AutoConsent = false
		h.isAsked(t, "without --auto-consent", b.get(t, h.authURL()))
	})
}

// Promise (RFC 7662, RFC 8252 §8.6): what is remembered, and what ends it; prompt, max_age
func TestPromptNone(t *testing.T) {
	h := parallelHouse(t)
	remembering, who := rememberingHouse(t)
	remembering.Clock.Advance(time.Hour) // since the sign-in
	other := "https://app.example/other"
	remembering.update(t, store.ClientChange{AddRedirectURIs: []string{other}})
	who.allows(t, remembering.authURL())
	for name, c := range map[string]struct {
		h    *house
		b    *browser
		more []string
		want string // the error, "" for a code
	}{
		"nobody_is_signed_in":              {h, h.browser(t), nil, "login_required"},
		"the_client_asks_each_time":        {h, h.signedIn(t, h.user), nil, "consent_required"},
		"consent_is_remembered":            {remembering, who, nil, ""},
		"another_redirect_uri":             {remembering, who, []string{"redirect_uri", other}, "consent_required"},
		"somebody_else":                    {remembering, remembering.signedIn(t, remembering.User(t, "nils", "acct_larkspur")), nil, "consent_required"},
		"the_sign_in_is_too_old":           {remembering, who, []string{"max_age", "3600"}, "login_required"},
		"the_sign_in_is_fresh_enough":      {remembering, who, []string{"max_age", "3601"}, ""},
		"none_beside_another_value":        {remembering, who, []string{"prompt", "none consent"}, "invalid_request"},
		"none_beside_login":                {remembering, who, []string{"prompt", "login none"}, "invalid_request"},
		"the_request_itself_is_refused":    {h, h.browser(t), []string{"scope", "admin"}, "invalid_scope"},
		"max_age_is_no_number":             {remembering, who, []string{"max_age", "-1"}, "invalid_request"},
		"max_age_is_larger_than_any_clock": {remembering, who, []string{"max_age", "4294967295"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := c.h.authURL(append([]string{"prompt", "none", "state", "s"}, c.more...)...)
			a := c.b.get(t, target)
			if c.want == "" {
				c.h.isLetThrough(t, a)
				return
			}
			to := callback(t, a, http.StatusFound)
			q := to.Query()
			if q.Get("error") != c.want || q.Get("error_description") == "" || q.Get("state") != "s" || q.Get("iss") != c.h.issuer || q.Has("code") || to.Host != "app.example" {
				t.Errorf("Location = %q, want %s with state and iss", to, c.want)
			}
		})
	}
	t.Run("never_leads_to_an_unregistered_redirect_uri", func(t *testing.T) {
		wantErrorPage(t, who.get(t, remembering.authURL("prompt", "none", "redirect_uri", "https://evil.example/cb")), http.StatusBadRequest)
	})
}

func TestPromptIsKeptOverASignIn(t *testing.T) {
	t.Parallel()
	h, b := rememberingHouse(t)
	signIn := func(page answer) answer {
		t.Helper()
		return b.follow(t, b.submit(t, page, rightPassword...))
	}
	h.isLetThrough(t, signIn(b.get(t, h.authURL("prompt", "login"))))
	h.isAsked(t, "login consent", signIn(b.get(t, h.authURL("prompt", "login consent"))))
	h.isAsked(t, "consent login, encoded", signIn(b.get(t, h.authURL()+"&%70rompt=consent%20login")))
	h.isLetThrough(t, signIn(b.get(t, h.authURL("max_age", "0"))))
	notYou := ""
	for n := range parsePage(t, b.get(t, h.authURL("prompt", "consent", "max_age", "60"))).Descendants() {
		if href := attribute(n, "href"); n.Data == "a" && strings.Contains(href, "prompt=") {
			notYou = href
		}
	}
	h.isAsked(t, "consent, by another user", signIn(b.get(t, notYou)))
}

// silent are requests that no person opened as a page.
var silent = map[string][]func(*http.Request){
	"frame":                   {header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")},
	"old frame":               {header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "frame")},
	"fenced frame":            {header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "fencedframe")},
	"object":                  {header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "object")},
	"embed":                   {header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "embed")},
	"nested frame":            {header("Sec-Fetch-Mode", "nested-navigate"), header("Sec-Fetch-Dest", "nested-document")},
	"fetch":                   {header("Sec-Fetch-Mode", "cors"), header("Sec-Fetch-Dest", "empty"), header("Origin", "https://shop.pay.example")},
	"fetch without CORS":      {header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "empty")},
	"fetch of Chrome 79":      {header("Sec-Fetch-Mode", "no-cors")}, // without Sec-Fetch-Dest
	"image":                   {header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "image")},
	"script":                  {header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "script")},
	"worker":                  {header("Sec-Fetch-Mode", "same-origin"), header("Sec-Fetch-Dest", "worker")},
	"prefetch":                {header("Sec-Purpose", "prefetch"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")},
	"prerender":               {header("Sec-Purpose", "prefetch;prerender"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")},
	"prefetch of old Chrome":  {header("Purpose", "prefetch")},
	"prefetch of old Firefox": {header("X-Moz", "prefetch")},
	"preview of old Safari":   {header("X-Purpose", "preview")},
	"HEAD":                    {func(r *http.Request) { r.Method = http.MethodHead }},
}

// TestSilentRequests: no code without a person's navigation.
func TestSilentRequests(t *testing.T) {
	t.Parallel()
	h, b := rememberingHouse(t)
	codes := h.Count(t, 'k')
	for name, as := range silent {
		a := b.get(t, h.authURL("state", "s"), as...)
		if a.StatusCode != http.StatusOK || a.Header.Get("Location") != "" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || a.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %d to %q, want a page that no frame shows", name, a.StatusCode, a.Header.Get("Location"))
		}
		if cors := a.Header.Get("Access-Control-Allow-Origin"); cors != "" {
			t.Errorf("%s: readable by %s", name, cors)
		}
		q := callback(t, b.get(t, h.authURL("state", "s", "prompt", "none"), as...), http.StatusFound).Query()
		if q.Get("error") != "consent_required" || q.Get("state") != "s" || q.Has("code") {
			t.Errorf("%s with prompt=none: %v, want consent_required with the state", name, q)
		}
	}
	if n := h.Count(t, 'k') - codes; n != 0 {
		t.Errorf("%d codes were made, want none", n)
	}
	h.isLetThrough(t, b.get(t, h.authURL(), header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")))
}

// TestSilentGrantAttacks are what a screen each time would make visible.
//
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): a grant without a screen: after login CSRF, for a
// twin client or new redirect URI, by a frame or script, beside a revocation
func TestSilentGrantAttacks(t *testing.T) {
	t.Parallel()
	t.Run("login_CSRF_then_a_silent_grant", func(t *testing.T) {
		t.Parallel()
		h, _ := rememberingHouse(t) // mara is the attacker, who has allowed the client
		target := h.authURL("state", "s")
		query := strings.TrimPrefix(target, authPath+"?")
		theirs := h.browser(t)
		stolen := formOn(t, theirs.get(t, target)).fields // a form and its token, of the attacker's browser
		victim := h.browser(t)
		victim.get(t, target)
		for name, send := range map[string]func() answer{
			"cross-site": func() answer {
				return victim.post(t, "/login", with(stolen, rightPassword...), header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example"))
			},
			"another browser's token": func() answer { return victim.post(t, "/login", with(stolen, rightPassword...)) },
			"without a token": func() answer {
				return victim.post(t, "/login", with(url.Values{"query": {query}}, rightPassword...))
			},
		} {
			if a := send(); a.StatusCode != http.StatusForbidden || victim.cookie(sessionCookie) != "" {
				t.Errorf("%s: %d, signed in: %t; want 403 and no session", name, a.StatusCode, victim.cookie(sessionCookie) != "")
			}
			if a := victim.get(t, target); a.Header.Get("Location") != "" || !strings.Contains(words(t, a), "Password") {
				t.Errorf("%s: then %d to %q, want the sign-in form", name, a.StatusCode, a.Header.Get("Location"))
			}
		}
		signedIn := h.signedIn(t, h.User(t, "nils", h.account))
		signedIn.post(t, "/login", with(stolen, rightPassword...))
		h.isAsked(t, "a victim who is signed in", signedIn.get(t, target))
	})
	t.Run("a_second_client_of_the_same_name", func(t *testing.T) {
		t.Parallel()
		h, b := rememberingHouse(t)
		twin, _ := h.Client(t, func(c *store.ClientSpec) { c.Name, c.Consent = h.client.Name, "remember" })
		h.isAsked(t, "the twin", b.get(t, h.authURL("client_id", twin.ID)))
	})
	t.Run("a_redirect_uri_added_later", func(t *testing.T) {
		t.Parallel()
		h, b := rememberingHouse(t)
		h.update(t, store.ClientChange{AddRedirectURIs: []string{"https://evil.example/cb"}})
		h.isAsked(t, "the new one", b.get(t, h.authURL("redirect_uri", "https://evil.example/cb")))
		h.isAsked(t, "the old one", b.get(t, h.authURL()))
	})
	t.Run("a_screen_from_before_a_new_name", func(t *testing.T) {
		t.Parallel()
		h, b := rememberingHouse(t)
		page := b.get(t, h.authURL("prompt", "consent"))
		h.update(t, store.ClientChange{Name: new("Larkspur Bank")})
		h.update(t, store.ClientChange{Name: new("Larkspur Bookkeeping")})
		callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
		h.isAsked(t, "the screen was an older one", b.get(t, h.authURL()))
	})
	t.Run("64_at_once", func(t *testing.T) {
		t.Parallel()
		h, b := rememberingHouse(t)
		codes := map[string]bool{}
		for _, a := range h.together(t, 64, func() answer { return b.get(t, h.authURL("state", "s")) }) {
			codes[h.isLetThrough(t, a)] = true
		}
		if len(codes) != 64 {
			t.Errorf("%d codes, want 64", len(codes))
		}
	})
}
