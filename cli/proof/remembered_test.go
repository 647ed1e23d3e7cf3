package proof

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// remembers creates a client that remembers consent.
func (s *server) remembers(name string, redirectURIs ...string) credentials {
	s.t.Helper()
	c := s.createClient(name, redirectURIs...)
	s.run("client", "update", c.ID, "--consent", "remember", "--json")
	return c
}

// TestRememberedConsent attacks grants without a screen, at one server and at two on a
// database.
func TestRememberedConsent(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	eachSite(t, func(t *testing.T, p site) {
		s := p.serve(t, "--public-url", "http://127.0.0.1")
		client := s.remembers("Larkspur Bookkeeping", callbackURI)
		s.createUser(odile, odileAccount, odilePassword)
		s.createUser(maud, odileAccount, maudPassword)
		address := s.authorizeURL(client.ID, callbackURI, "s")
		v := newVisitor(t)
		v.allow(v.signIn(address, odile, odilePassword))

		code := v.letThrough(address)
		if _, a, err := s.asClient(client).grant(t.Context(), "authorization_code", "code", code, "redirect_uri", callbackURI); err != nil || a.status != http.StatusOK {
			t.Fatalf("the code: %s, %v", a, err)
		}
		if audit := string(s.run("audit", "--json")); strings.Count(audit, "remembered") != 1 {
			t.Errorf("the audit log names the remembered grant %d times, want once", strings.Count(audit, "remembered"))
		}
		loginCSRF(t, s, address)

		twin := s.remembers("Larkspur Bookkeeping", callbackURI)
		v.isAsked("a second client of the same name", s.authorizeURL(twin.ID, callbackURI, "s"))
		v.isAsked("another port", s.authorizeURL(client.ID, "http://127.0.0.1:4001/callback", "s"))

		revokeBesideGrants(t, s, client, v, address)

		v.allow(v.open(address))
		s.run("client", "update", client.ID, "--add-redirect-uri", "https://evil.example/cb", "--json")
		v.isAsked("a redirect URI added later", s.authorizeURL(client.ID, "https://evil.example/cb", "s"))
		v.isAsked("the old one", address)
	})
}

func (v *visitor) letThrough(address string) (code string) {
	v.t.Helper()
	p := v.open(address)
	to := mustParse(v.t, p.location)
	if q := to.Query(); p.status != http.StatusSeeOther || !strings.HasPrefix(p.location, callbackURI+"?") || q.Get("code") == "" || q.Get("state") != "s" {
		v.t.Fatalf("%d to %q, want a code at the redirect URI", p.status, p.location)
	}
	return to.Query().Get("code")
}

func (v *visitor) isAsked(what, address string) {
	v.t.Helper()
	if p := v.open(address); p.status != http.StatusOK || p.field("ticket") == "" {
		v.t.Errorf("%s: %d to %q, want the consent screen", what, p.status, p.location)
	}
}

// loginCSRF signs a stranger's browser in as odile, who has allowed the client.
func loginCSRF(t *testing.T, s *server, address string) {
	t.Helper()
	victim := newVisitor(t)
	victim.open(address)
	form := url.Values{"query": {mustParse(t, address).RawQuery}, "username": {odile}, "password": {odilePassword}}
	for name, more := range map[string]url.Values{
		"without a token": {}, "another browser's token": {"form_token": {newVisitor(t).open(address).field("form_token")}},
	} {
		for field, values := range more {
			form[field] = values
		}
		for _, from := range []string{"cross-site", "same-site", ""} {
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/login", strings.NewReader(form.Encode())))(t)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if from != "" {
				r.Header.Set("Sec-Fetch-Site", from)
			}
			if p := must.Get(show(victim.http, r))(t); p.status != http.StatusForbidden {
				t.Errorf("%s, %s: POST /login = %d, want 403", name, from, p.status)
			}
			if p := victim.open(address); p.location != "" || p.field("password") == "" && p.field("form_token") == "" {
				t.Errorf("%s, %s: then %d to %q, want the sign-in form", name, from, p.status, p.location)
			}
		}
	}
}

// revokeBesideGrants sends 64 requests at once and revokes beside them; none of what they
// get may outlive the revocation.
func revokeBesideGrants(t *testing.T, s *server, c credentials, v *visitor, address string) {
	t.Helper()
	account := v.open(s.base + "/account")
	var all sync.WaitGroup
	given := make([]tokens, 64)
	for i := range given {
		all.Go(func() {
			p, err := openPage(t.Context(), v.http, address)
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			to, err := url.Parse(p.location)
			if err != nil || p.location != "" && !strings.HasPrefix(p.location, callbackURI+"?") {
				t.Errorf("request %d leads to %q (%v)", i, p.location, err)
				return
			}
			if code := to.Query().Get("code"); code != "" {
				given[i], _, _ = s.asClient(c).grant(context.WithoutCancel(t.Context()), "authorization_code", "code", code, "redirect_uri", callbackURI)
			}
		})
	}
	if p := v.revoke(account, c.ID); p.status != http.StatusOK && p.status != http.StatusSeeOther {
		t.Errorf("Revoke = %d", p.status)
	}
	all.Wait()
	for i, p := range given {
		if p.Access != "" && s.lives(c, p) {
			t.Errorf("request %d has a token that outlives the revocation", i)
		}
	}
	v.isAsked("after Revoke", address)
}

// revoke sends the form of a client on the account page.
func (v *visitor) revoke(account screen, clientID string) screen {
	v.t.Helper()
	token := ""
	for _, input := range inputs.FindAllString(account.body, -1) {
		if attribute(input, "name") == "form_token" {
			token = attribute(input, "value") // the last forms are of the page, the first signs out
		}
	}
	form := url.Values{"form_token": {token}, "client_id": {clientID}}
	r := must.Get(http.NewRequestWithContext(v.t.Context(), http.MethodPost, account.url.Scheme+"://"+account.url.Host+"/account/revoke", strings.NewReader(form.Encode())))(v.t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return must.Get(show(v.http, r))(v.t)
}

// TestBrowserSilentGrant: a hostile page, on the site of the server and on another, frames
// and fetches the authorization endpoint for a user who would be let through. Only a
// navigation of the whole window gets a code, which lands at the registered redirect URI.
//
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): a grant without a screen: after login CSRF, for a
// twin client or new redirect URI, by a frame or script, beside a revocation
func TestBrowserSilentGrant(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	back := newCallback(t, "127.0.0.1:0")
	client := s.remembers("Larkspur Bookkeeping", back.uri())
	address := s.authorizeURL(client.ID, back.uri(), "hostile")
	page := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html lang="en"><title>Hostile</title><link rel="icon" href="data:,"><body><script>
			const at = %q, none = at + "&prompt=none", over = [];
			const element = (name, set) => new Promise(done => {
				const e = document.createElement(name);
				set(e); e.onload = e.onerror = done; document.body.append(e);
			});
			const all = [
				element("iframe", e => e.src = at), element("object", e => e.data = at), element("embed", e => e.src = at),
				element("img", e => e.src = at), element("script", e => e.src = at),
				fetch(at, {mode: "no-cors", credentials: "include"}).catch(() => 0),
				fetch(at, {credentials: "include"}).catch(() => 0),
			];
			Promise.all(all).then(() => document.body.insertAdjacentHTML("beforeend", "<p id=over>Over<p>"));
		</script>`, address)
	}
	hostile := httptest.NewServer(http.HandlerFunc(page))
	t.Cleanup(hostile.Close)

	tb := newTab(t)
	for _, noise := range []string{"Refused to display", "frame", "CORS", "Failed to load", "MIME", "blocked", "Refused"} {
		tb.excuse(noise)
	}
	tb.open(address)
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.click(allowButton)
	back.wait()
	tb.see("#arrived")
	// The policy of the sign-in form lets the browser go on to the client.
	tb.open(address + "&prompt=login")
	tb.signIn(s.ready.Username, s.ready.Password)
	if q := back.wait(); q.Get("code") == "" {
		t.Errorf("after prompt=login the browser arrived with %v, want a code", q)
	}
	tb.see("#arrived")

	sameSite := hostile.URL
	otherSite := strings.Replace(hostile.URL, "127.0.0.1", "localhost", 1)
	for _, from := range []string{sameSite, otherSite} {
		tb.open(from)
		tb.see("#over")
		back.quiet()
		tb.do(chromedp.Navigate("about:blank"), chromedp.Navigate(from))
		tb.see("#over")
		ask(tb, chromedp.Evaluate[bool](fmt.Sprintf(`(location = %q, true)`, address)))
		if q := back.wait(); q.Get("code") == "" || q.Get("state") != "hostile" || q.Get("iss") != s.ready.URL {
			t.Errorf("from %s the window arrived with %v, want a code and the state", from, q)
		}
		tb.see("#arrived")
		back.quiet()
	}
}
