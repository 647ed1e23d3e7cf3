package proof

import (
	"context"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// visitor is a person's browser, as far as plain HTTP goes: it keeps cookies,
// reads forms, and follows redirects on the server but none that leads away.
type visitor struct {
	t    testing.TB
	http *http.Client
}

// screen is what a visitor sees.
type screen struct {
	url      *url.URL
	status   int
	location string // where it would lead away to
	body     string
}

func newVisitor(t testing.TB) *visitor {
	t.Helper()
	client := must.Get(newVisitorClient(nil))(t)
	return &visitor{t: t, http: client}
}

func newVisitorClient(transport http.RoundTripper) (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Jar: jar, Timeout: requestWait, Transport: transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if next.URL.Host != via[0].URL.Host || len(via) > 5 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}, nil
}

// open goes to an address.
func (v *visitor) open(address string) screen {
	v.t.Helper()
	p, err := openPage(context.Background(), v.http, address)
	if err != nil {
		v.t.Fatalf("open %s: %v", address, err)
	}
	return p
}

// submit sends the page's form, its hidden fields and the fields given as name
// and value.
func (v *visitor) submit(p screen, namesAndValues ...string) screen {
	v.t.Helper()
	next, err := submitPage(context.Background(), v.http, p, namesAndValues...)
	if err != nil {
		v.t.Fatalf("submit %s: %v", p.url.Path, err)
	}
	return next
}

// signIn opens an authorization address and signs in, up to the consent screen.
func (v *visitor) signIn(address, username, password string) screen {
	v.t.Helper()
	p := v.submit(v.open(address), "username", username, "password", password)
	if p.field("ticket") == "" {
		v.t.Fatalf("sign in as %s: status %d and no consent screen:\n%s", username, p.status, p.body)
	}
	return p
}

// allow answers the consent screen and returns the address that it leads to.
func (v *visitor) allow(consent screen) *url.URL {
	v.t.Helper()
	p := v.submit(consent, "decision", "allow")
	if p.status != http.StatusSeeOther {
		v.t.Fatalf("allow: status %d, want 303:\n%s", p.status, p.body)
	}
	return mustParse(v.t, p.location)
}

func openPage(ctx context.Context, client *http.Client, address string) (screen, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return screen{}, err
	}
	return show(client, r)
}

func submitPage(ctx context.Context, client *http.Client, p screen, namesAndValues ...string) (screen, error) {
	form := url.Values{}
	for _, input := range inputs.FindAllString(p.body, -1) {
		if attribute(input, "type") == "hidden" {
			form.Set(attribute(input, "name"), attribute(input, "value"))
		}
	}
	for i := 0; i < len(namesAndValues); i += 2 {
		form.Set(namesAndValues[i], namesAndValues[i+1])
	}
	action, err := p.url.Parse(attribute(forms.FindString(p.body), "action"))
	if err != nil {
		return screen{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, action.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return screen{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return show(client, r)
}

func show(client *http.Client, r *http.Request) (screen, error) {
	a, err := exchange(client, r)
	if err != nil {
		return screen{}, err
	}
	return screen{url: a.url, status: a.status, location: a.header.Get("Location"), body: string(a.body)}, nil
}

var (
	forms  = regexp.MustCompile(`<form[^>]*>`)
	inputs = regexp.MustCompile(`<input[^>]*>`)
)

// field returns the value of one of the page's inputs.
func (p screen) field(name string) string {
	for _, input := range inputs.FindAllString(p.body, -1) {
		if attribute(input, "name") == name {
			return attribute(input, "value")
		}
	}
	return ""
}

func attribute(tag, name string) string {
	_, rest, found := strings.Cut(tag, " "+name+`="`)
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

func mustParse(t testing.TB, address string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	return u
}
