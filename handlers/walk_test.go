package handlers_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// browser keeps cookies, reads forms off pages and sends them. It does not follow redirects
// by itself.
type browser struct {
	h    *house
	jar  http.CookieJar
	site *url.URL
}

func (h *house) browser(t testing.TB) *browser {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	site := must.Get(url.Parse(h.issuer))(t)
	return &browser{h: h, jar: jar, site: site}
}

// send is every request of the browser.
func (b *browser) send(t testing.TB, method, target string, body io.Reader, change ...func(*http.Request)) answer {
	t.Helper()
	r := b.h.request(t, method, target, body, change...)
	for _, c := range b.jar.Cookies(b.site) {
		r.AddCookie(c)
	}
	a := b.h.do(r)
	b.jar.SetCookies(b.site, a.Cookies())
	return a
}

func (b *browser) get(t testing.TB, target string, change ...func(*http.Request)) answer {
	t.Helper()
	return b.send(t, "GET", target, nil, change...)
}

// post sends a form as one of our own pages would.
func (b *browser) post(t testing.TB, target string, form url.Values, change ...func(*http.Request)) answer {
	t.Helper()
	own := []func(*http.Request){header("Content-Type", formType), header("Origin", b.h.issuer), header("Sec-Fetch-Site", "same-origin")}
	return b.send(t, "POST", target, strings.NewReader(form.Encode()), append(own, change...)...)
}

// submit sends the form that a page shows, filled in.
func (b *browser) submit(t testing.TB, page answer, namesAndValues ...string) answer {
	t.Helper()
	f := formOn(t, page)
	return b.post(t, f.action, with(f.fields, namesAndValues...))
}

// follow goes where a redirect to one of our own pages leads.
func (b *browser) follow(t testing.TB, a answer) answer {
	t.Helper()
	if a.StatusCode != http.StatusSeeOther {
		t.Fatalf("status = %d %.300s, want 303", a.StatusCode, a.body)
	}
	target := a.Header.Get("Location")
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		t.Fatalf("Location = %q, want a path on this host", target)
	}
	return b.get(t, target)
}

func (b *browser) cookie(name string) string {
	for _, c := range b.jar.Cookies(b.site) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (b *browser) setCookie(name, value string) {
	b.jar.SetCookies(b.site, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: b.site.Scheme == "https"}})
}

const sessionCookie = "__Host-tollhouse" // on https, without a port or a path

// sessionCookie is the name at the browser's site.
func (b *browser) sessionCookie() string {
	name := sessionCookie
	if b.site.Scheme != "https" {
		name = "tollhouse"
	}
	if port := b.site.Port(); port != "" {
		name += "_" + port
	}
	if path := strings.Trim(b.site.Path, "/"); path != "" {
		name += "." + path
	}
	return name
}

// signedIn returns a browser that signed in as the user earlier, which costs no password
// hash.
func (h *house) signedIn(t testing.TB, u store.User) *browser {
	t.Helper()
	token, _, err := h.CreateSession(context.Background(), store.By{}, u, secret.Token{}, "")
	must.Do(t, err)
	b := h.browser(t)
	b.setCookie(b.sessionCookie(), token.Reveal())
	return b
}

// authURL is an authorization request of the house's client.
func (h *house) authURL(namesAndValues ...string) string {
	q := url.Values{"client_id": {h.client.ID}, "response_type": {"code"}, "redirect_uri": {storetest.CallbackURI}}
	q = with(q, namesAndValues...)
	for name, values := range q {
		if values[0] == "" {
			delete(q, name)
		}
	}
	return authPath + "?" + q.Encode()
}

// callback is where a redirect to the client leads.
func callback(t testing.TB, a answer, status int) *url.URL {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("status = %d %.300s, want %d", a.StatusCode, a.body, status)
	}
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil || !u.IsAbs() {
		t.Fatalf("Location = %q, want the client's redirect URI (%v)", a.Header.Get("Location"), err)
	}
	return u
}

// code lets the user allow the request and returns the code.
func (h *house) code(t testing.TB, namesAndValues ...string) string {
	t.Helper()
	b := h.signedIn(t, h.user)
	a := b.submit(t, b.get(t, h.authURL(namesAndValues...)), "decision", "allow")
	code := callback(t, a, http.StatusSeeOther).Query().Get("code")
	if code == "" {
		t.Fatalf("Location = %q, want a code", a.Header.Get("Location"))
	}
	return code
}

// pair walks the whole flow and redeems the code.
func (h *house) pair(t testing.TB, namesAndValues ...string) pair {
	t.Helper()
	return wantPair(t, h.token(t, h.codeForm(h.code(t, namesAndValues...))))
}

// form is a form on a page.
type form struct {
	action string
	fields url.Values
}

// formOn returns the one form of a page.
func formOn(t testing.TB, page answer) form {
	t.Helper()
	if page.StatusCode != http.StatusOK && page.StatusCode != http.StatusForbidden { // shown again
		t.Fatalf("status = %d %.300s, want a page with a form", page.StatusCode, page.body)
	}
	found := formsOn(t, page)
	if len(found) != 1 {
		t.Fatalf("the page has %d forms, want one: %.300s", len(found), page.body)
	}
	return found[0]
}

func formsOn(t testing.TB, page answer) (found []form) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "form":
			found = append(found, form{action: attribute(n, "action"), fields: url.Values{}})
		case n.Data == "input" && len(found) > 0:
			found[len(found)-1].fields.Set(attribute(n, "name"), attribute(n, "value"))
		}
	}
	return found
}

func parsePage(t testing.TB, page answer) *html.Node {
	t.Helper()
	root := must.Get(html.Parse(strings.NewReader(page.body)))(t)
	return root
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// words returns the visible text of a page.
func words(t testing.TB, page answer) string {
	t.Helper()
	var b strings.Builder
	for n := range parsePage(t, page).Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// wantPage400 fails the test unless the answer is an error page without a redirect.
func wantPage400(t testing.TB, a answer) {
	t.Helper()
	wantErrorPage(t, a, http.StatusBadRequest)
}

func wantErrorPage(t testing.TB, a answer, status int) {
	t.Helper()
	if a.StatusCode != status || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		t.Errorf("status = %d %s, want %d text/html: %.200s", a.StatusCode, a.Header.Get("Content-Type"), status, a.body)
	}
	if to := a.Header.Get("Location"); to != "" {
		t.Errorf("Location = %q, want none", to)
	}
	if strings.Contains(strings.ToLower(a.body), "http-equiv") {
		t.Error("the page sends the browser on by itself, want it to stay")
	}
	wantPageHeaders(t, a)
}

// wantPageHeaders are those of every page.
func wantPageHeaders(t testing.TB, a answer) {
	t.Helper()
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	policy := a.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("Content-Security-Policy = %q, want %s in it", policy, want)
		}
	}
}
