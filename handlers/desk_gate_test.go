package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/desk"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// withDesk adds the operators' pages.
func withDesk(change ...func(*desk.Config)) func(*handlers.Config) {
	return func(c *handlers.Config) {
		c.Desk = &desk.Config{}
		for _, f := range change {
			f(c.Desk)
		}
	}
}

// deskFrom limits the desk to networks.
func deskFrom(networks ...string) func(*desk.Config) {
	return func(d *desk.Config) {
		for _, network := range networks {
			d.From = append(d.From, netip.MustParsePrefix(network))
		}
	}
}

// operator creates an operator.
func (h *house) operator(t testing.TB, name string) store.User {
	t.Helper()
	u := h.User(t, name, h.account)
	return must.Get(h.PromoteUser(context.Background(), u.Username))(t)
}

// deskTarget fills in the parameters of a template.
func (h *house) deskTarget(template string, u store.User) string {
	id := h.client.ID
	switch {
	case strings.Contains(template, "/users/"):
		id = u.Subject()
	case strings.Contains(template, "/events/"), strings.Contains(template, "/resources/"):
		id = "evt_00000000000000000000000000"
	}
	return strings.NewReplacer(":id", id, ":kind", "customer", ":name", "x.backup").Replace(template)
}

var requestIDs = regexp.MustCompile(`req_[0-9a-z]+`)

// shape is an answer without its request id and what the clock adds.
func shape(a answer) string {
	headers := a.Header.Clone()
	headers.Del("X-Request-Id")
	return requestIDs.ReplaceAllString(fmt.Sprintf("%d %v\n%s", a.StatusCode, headers, a.body), "req_x")
}

// TestDeskGate: nobody but an operator's browser can tell an address of the desk from one
// that does not exist, by any method.
func TestDeskGate(t *testing.T) {
	h := parallelHouse(t, withDesk(deskFrom("192.0.2.0/24")))
	olga, demoted := h.operator(t, "olga"), h.operator(t, "demoted")
	disabled := h.operator(t, "disabled")
	browsers := map[string]*browser{
		"nobody": h.browser(t), "user": h.signedIn(t, h.user), "demoted a moment ago": h.signedIn(t, demoted), "disabled": h.signedIn(t, disabled),
		"operator with a bearer token": h.signedIn(t, olga), "operator with basic credentials": h.signedIn(t, olga),
		"operator from elsewhere": h.signedIn(t, olga), "operator behind an unknown proxy": h.signedIn(t, olga),
	}
	must.Get(h.DemoteUser(context.Background(), "demoted"))(t)
	must.Get(h.DisableUser(context.Background(), "disabled"))(t)
	token := h.pair(t).AccessToken
	changes := map[string]func(*http.Request){
		"operator with a bearer token":     header("Authorization", "Bearer "+token),
		"operator with basic credentials":  header("Authorization", "Basic eDp5"),
		"operator from elsewhere":          func(r *http.Request) { r.RemoteAddr = "198.51.100.7:4711" },
		"operator behind an unknown proxy": header("X-Forwarded-For", "192.0.2.9"),
	}
	templates := map[string]bool{
		"/desk/nothing": true, "/desk/": true, "//desk": true, "/desk//users": true, "/desk/users/": true, "/desk/../desk": true, "/./desk": true, "/%64esk": true, "/desk%2Fusers": true,
		"/DESK": true, "/desk/%2e%2e/desk": true, "/desk;a=b": true, "/desk?range=24h": true,
	}
	for _, route := range h.server.DeskRoutes() {
		templates[route[1]] = true
	}
	// The link to sign in leads back to the address, whatever it is.
	asDesk := strings.NewReplacer("dosk", "desk", "DOSK", "DESK", "64osk", "64esk")
	for who, b := range browsers {
		for template := range templates {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				for _, accept := range []string{"text/html", "application/json"} {
					if testing.Short() && accept != "text/html" {
						continue
					}
					ask := func(target string) string {
						set := []func(*http.Request){header("Accept", accept), header("Content-Type", formType)}
						if change := changes[who]; change != nil {
							set = append(set, change)
						}
						return shape(b.send(t, method, target, strings.NewReader("form_token=x"), set...))
					}
					target := h.deskTarget(template, olga)
					unknown := strings.NewReplacer("desk", "dosk", "DESK", "DOSK", "%64esk", "%64osk").Replace(target)
					if got, want := ask(target), asDesk.Replace(ask(unknown)); got != want {
						t.Fatalf("%s: %s %s answers\n%s\nwant the answer of an unknown address\n%s", who, method, target, got, want)
					}
				}
			}
		}
	}
	if a := h.signedIn(t, olga).get(t, "/desk"); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `data-desk="overview"`) {
		t.Errorf("the operator gets %d, want the Overview", a.StatusCode)
	}
}

// TestDeskGateLeavesNoTrace: an ordinary user's attempt is no use of the session, and so no
// sign of the desk; an operator's look is one.
func TestDeskGateLeavesNoTrace(t *testing.T) {
	h, b := deskHouse(t)
	user := h.signedIn(t, h.user)
	h.Clock.Advance(time.Hour)
	for _, path := range []string{"/desk", "/desk/users"} {
		user.get(t, path, header("Accept", "application/json"))
		b.get(t, path)
	}
	h.Rest()
	seen := func(name string) time.Duration {
		u := must.Get(h.FindUser(t.Context(), name))(t)
		return h.Clock.Now().Sub(must.Get(h.ListSessions(t.Context(), u))(t)[0].SeenAt)
	}
	if seen("mara") != time.Hour || seen("olga") != 0 {
		t.Errorf("the user was seen %v ago and the operator %v ago, want 1h and now", seen("mara"), seen("olga"))
	}
}

// TestDeskFormsOfFormerOperators: a form whose body arrives after its sender has lost the
// role changes nothing, and is answered like an unknown address.
//
// Promise (Credentials, memory, connections): tokens of deleted or disabled parties; late bodies of
// former operators and ended tokens
func TestDeskFormsOfFormerOperators(t *testing.T) {
	for _, c := range []struct {
		name, path string // for the id of mallory or olga
		of         string
		fields     []string
		ends       func(h *house) error
	}{
		{"promote_after_a_demotion", "/desk/users/:id/promote", "mallory", nil, func(h *house) error { _, err := h.DemoteUser(context.Background(), "mallory"); return err }},
		{"enable_after_being_disabled", "/desk/users/:id/enable", "mallory", nil, func(h *house) error { _, err := h.DisableUser(context.Background(), "mallory"); return err }},
		{"a_code_for_another_operator", "/desk/users/:id/code", "olga", nil, func(h *house) error { _, err := h.DisableUser(context.Background(), "mallory"); return err }},
		{"a_new_operator", "/desk/users", "olga", []string{"username", "ghost", "account", "acct_x", "operator", "1"}, func(h *house) error { return h.DeleteUser(context.Background(), "mallory") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := deskHouse(t)
			b := h.signedIn(t, h.operator(t, "mallory"))
			_, fields := deskForm(t, b.get(t, "/desk/new-user"), "create-user")
			form := with(fields, c.fields...).Encode()
			path := strings.Replace(c.path, ":id", must.Get(h.FindUser(t.Context(), c.of))(t).Subject(), 1)
			users := func() string { return fmt.Sprint(must.Get(h.ListUsers(t.Context(), "", 10))(t)) }
			var left string
			ask := func(path string, body io.Reader) string {
				return shape(b.send(t, "POST", path, body, header("Content-Type", formType), header("Accept", "text/html")))
			}
			got := ask(path, &once{strings.NewReader(form), func() { must.Do(t, c.ends(h)); left = users() }})
			if want := ask(strings.Replace(path, "desk", "dosk", 1), strings.NewReader(form)); got != want {
				t.Errorf("answer\n%s\nwant that of an unknown address\n%s", got, want)
			}
			if now := users(); now != left {
				t.Errorf("users became %s, were %s", now, left)
			}
		})
	}
	t.Run("while_the_password_is_checked", func(t *testing.T) {
		h, _ := deskHouse(t)
		mallory := h.operator(t, "mallory")
		b := h.signedIn(t, mallory)
		_, fields := deskForm(t, b.get(t, "/desk/new-user"), "create-user")
		h.Clock.Advance(15 * time.Minute)
		h.Rest()
		h.Faults.OnUpdate(func(run func() error) error { // of the session that the password gives
			h.Faults.Repair()
			_, err := h.DemoteUser(context.Background(), "mallory")
			return errors.Join(err, run())
		})
		a := b.post(t, "/desk/users/"+mallory.Subject()+"/promote", with(fields, "password", storetest.Password))
		if a.StatusCode != http.StatusNotFound || must.Get(h.FindUser(t.Context(), "mallory"))(t).Operator {
			t.Errorf("answer = %d, and mallory is an operator again", a.StatusCode)
		}
	})
}

// TestDeskChangesOfOperatorsDemotedWhileTheyWait: a change that waits for its turn while its sender
// loses the role is not made, and is answered like an unknown address.
//
// Promise (Browsers): a change at the desk whose operator is signed out or demoted while it waits for
// its turn is refused and changes nothing, in each of its steps
func TestDeskChangesOfOperatorsDemotedWhileTheyWait(t *testing.T) {
	h, _ := deskHouse(t)
	e, _, err := h.Webhooks.Create(t.Context(), webhook.System, h.account, webhook.Settings{URL: "https://hooks.example/1"})
	must.Do(t, err)
	must.Get(h.Webhooks.Hold(t.Context(), webhook.System))(t)
	h.operator(t, "mallory")
	for _, path := range []string{
		"/desk/clients/" + h.client.ID + "/disable", "/desk/users/" + h.user.Subject() + "/disable", "/desk/users/" + h.user.Subject() + "/promote",
		"/desk/users/" + h.user.Subject() + "/sign-out", "/desk/webhooks/" + e.ID + "/disable", "/desk/webhook-resume", "/desk/clients", "/desk/users",
	} {
		b := h.signedIn(t, must.Get(h.PromoteUser(t.Context(), "mallory"))(t))
		_, fields := deskForm(t, b.get(t, "/desk/new-user"), "create-user")
		form := with(fields, "sure", "true", "username", "ghost", "account", "", "name", "Ghost", "redirect_uris", storetest.CallbackURI, "grants", "authorization_code", "scopes", "events:read").Encode()
		ask := func(path string) string {
			return shape(b.send(t, "POST", path, strings.NewReader(form), header("Content-Type", formType), header("Accept", "text/html")))
		}
		h.Rest()
		updates, last := 0, 1
		if path == "/desk/clients" || path == "/desk/users" {
			last = 2 // after the field once is reserved
		}
		h.Faults.OnUpdate(func(run func() error) error {
			if updates++; updates == last {
				h.Faults.Repair()
				must.Get(h.DemoteUser(context.Background(), "mallory"))(t)
			}
			return run()
		})
		got := ask(path)
		h.Faults.Repair()
		if want := ask(strings.Replace(path, "desk", "dosk", 1)); updates < last || got != want {
			t.Errorf("%s answers\n%s\nwant that of an unknown address\n%s", path, got, want)
		}
	}
	u := must.Get(h.FindUser(t.Context(), "mara"))(t)
	_, noGhost := h.FindUser(t.Context(), "ghost")
	hook := must.Get(h.Webhooks.Find(t.Context(), webhook.System, e.ID))(t)
	if !must.Get(h.FindClient(t.Context(), h.client.ID))(t).DisabledAt.IsZero() || !u.DisabledAt.IsZero() || u.Operator || noGhost == nil || !hook.Enabled() ||
		!must.Get(h.Webhooks.Instance(t.Context()))(t).Held || len(must.Get(h.ListClients(t.Context(), "", 9))(t)) != 1 {
		t.Error("a change of a former operator was made")
	}
}

// once is a body before which something happens once.
type once struct {
	io.Reader
	happens func()
}

func (b *once) Read(p []byte) (int, error) {
	if b.happens != nil {
		b.happens()
		b.happens = nil
	}
	return b.Reader.Read(p)
}

// TestDeskIsOff: without the setting there is no desk, for operators either.
func TestDeskIsOff(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.operator(t, "olga"))
	if got, want := shape(b.get(t, "/desk")), shape(b.get(t, "/nothing")); got != want {
		t.Errorf("the desk answers\n%s\nwant\n%s", got, want)
	}
}

// TestDeskNeedsASafeConnection: over plain http the desk answers on this machine only.
func TestDeskNeedsASafeConnection(t *testing.T) {
	for _, c := range []struct {
		name, public, remote, forwarded string
		want                            int
	}{
		{"https_from_anywhere", "https://pay.example", "203.0.113.9:1", "", 200},
		{"loopback_on_loopback", "http://127.0.0.1:8080", "127.0.0.1:1", "", 200},
		{"loopback_by_name", "http://localhost:8080", "[::1]:1", "", 200},
		{"a_network_over_http", "http://pay.example", "203.0.113.9:1", "", 404},
		{"this_machine_by_another_name_over_http", "http://pay.example", "127.0.0.1:1", "", 404},
		{"another_machine_for_a_loopback_host", "http://127.0.0.1:8080", "203.0.113.9:1", "", 404},
		{"a_proxy_on_this_machine_over_http", "http://127.0.0.1:8080", "127.0.0.1:1", "203.0.113.9", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := parallelHouse(t, at(c.public), withDesk())
			token, _, err := h.CreateSession(context.Background(), store.By{}, h.operator(t, "olga"), secret.Token{}, "")
			must.Do(t, err)
			name := "__Host-tollhouse"
			if u := must.Get(url.Parse(c.public))(t); u.Scheme == "http" {
				name = "tollhouse"
				if u.Port() != "" {
					name += "_" + u.Port()
				}
			}
			a := h.get(t, "/desk", func(r *http.Request) {
				r.RemoteAddr = c.remote
				r.AddCookie(&http.Cookie{Name: name, Value: token.Reveal()})
				if c.forwarded != "" {
					r.Header.Set("X-Forwarded-For", c.forwarded)
				}
			})
			if a.StatusCode != c.want {
				t.Errorf("status = %d, want %d", a.StatusCode, c.want)
			}
		})
	}
}

// TestDeskFrom: the source is the one that the throttle uses.
func TestDeskFrom(t *testing.T) {
	for _, c := range []struct {
		name, remote, header, value string
		want                        int
	}{
		{"inside", "10.1.2.3:1", "", "", 200},
		{"outside", "198.51.100.7:1", "", "", 404},
		{"inside_behind_a_trusted_proxy", "203.0.113.1:1", "X-Forwarded-For", "10.1.2.3", 200},
		{"outside_behind_a_trusted_proxy", "203.0.113.1:1", "X-Forwarded-For", "198.51.100.7", 404},
		{"forged_by_the_caller_of_a_trusted_proxy", "203.0.113.1:1", "X-Forwarded-For", "10.1.2.3, 198.51.100.7", 404},
		{"a_trusted_proxy_that_names_itself_alone", "203.0.113.1:1", "X-Forwarded-For", "203.0.113.1", 404},
		{"a_trusted_proxy_inside_that_names_no_address", "10.9.9.9:1", "X-Forwarded-For", "unknown", 404},
		{"outside_with_a_port_behind_a_trusted_proxy_inside", "10.9.9.9:1", "X-Forwarded-For", "198.51.100.7:4711", 404},
		{"inside_with_a_port_behind_a_trusted_proxy", "203.0.113.1:1", "X-Forwarded-For", "10.1.2.3:4711", 200},
		{"a_trusted_proxy_inside_that_names_nothing", "10.9.9.9:1", "X-Forwarded-For", " , ", 404},
		{"a_trusted_proxy_inside_that_sends_another_header", "10.9.9.9:1", "Forwarded", "for=198.51.100.7", 404},
		{"inside_through_a_trusted_proxy_inside", "10.9.9.9:1", "X-Forwarded-For", "10.1.2.3", 200},
		{"the_machine_of_a_trusted_proxy_inside", "10.9.9.9:1", "X-Forwarded-For", "10.9.9.9", 200},
		{"an_unknown_proxy_inside", "10.0.0.1:1", "X-Forwarded-For", "198.51.100.7", 404},
		{"an_unknown_proxy_that_sends_Forwarded", "10.0.0.1:1", "Forwarded", "for=198.51.100.7", 404},
		{"an_unknown_proxy_that_sends_X-Real-IP", "10.0.0.1:1", "X-Real-Ip", "198.51.100.7", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := parallelHouse(t, withDesk(deskFrom("10.0.0.0/8")), func(c *handlers.Config) {
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.1/32"), netip.MustParsePrefix("10.9.9.9/32")}
			})
			a := h.signedIn(t, h.operator(t, "olga")).get(t, "/desk", func(r *http.Request) {
				r.RemoteAddr = c.remote
				if c.header != "" {
					r.Header.Set(c.header, c.value)
				}
			})
			if a.StatusCode != c.want {
				t.Errorf("status = %d, want %d", a.StatusCode, c.want)
			}
		})
	}
}

// TestSignInFromNowhere: an operator whose session has ended gets back to the page of the desk
// that was asked for, and anybody else to the start page.
//
// Promise (Browsers): a sign-in leads back to the page that was asked for, and never off the site
func TestSignInFromNowhere(t *testing.T) {
	h := parallelHouse(t, withDesk())
	h.operator(t, "olga")
	for name, want := range map[string]string{"olga": "/desk", "mara": "/"} {
		b := h.browser(t)
		const asked = "/desk/events?type=customer.*&from=2026-03-09%2014:30"
		lost := b.get(t, asked, header("Accept", "text/html"))
		link := linkOn(t, lost, "Sign in")
		if link != "/login?to="+url.QueryEscape(asked) || linkOn(t, lost, "Start page") != "/" {
			t.Fatalf("the 404 page lacks its links: %s", lost.body)
		}
		back := asked
		if want == "/" {
			back = "/"
		}
		wrong := b.submitFresh(t, link, "username", name, "password", "not the password")
		if a := b.submit(t, wrong, "username", name, "password", storetest.Password); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != back {
			t.Errorf("%s: %d to %q, want %s", name, a.StatusCode, a.Header.Get("Location"), back)
		}
		b = h.browser(t)
		if link := linkOn(t, b.post(t, "/desk/users", url.Values{}, header("Accept", "text/html")), "Sign in"); link != "/login?to=desk" {
			t.Errorf("the 404 page of a form leads to %q", link)
		}
		a := b.submitFresh(t, "/login?to=desk", "username", name, "password", storetest.Password)
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want {
			t.Errorf("%s: %d to %q, want %s", name, a.StatusCode, a.Header.Get("Location"), want)
		}
		if a := b.get(t, "/login?to=desk"); a.Header.Get("Location") != want {
			t.Errorf("%s, signed in: to %q, want %s", name, a.Header.Get("Location"), want)
		}
		if strings.Contains(b.get(t, "/nothing", header("Accept", "text/html")).body, "Sign in<") {
			t.Errorf("%s, signed in, is offered to sign in", name)
		}
	}
}

// TestSignInLeadsToTheDeskAlone: an address that is not plainly one of the desk is not carried
// along, whoever signs in.
//
// Promise (Browsers): a sign-in leads back to the page that was asked for, and never off the site
func TestSignInLeadsToTheDeskAlone(t *testing.T) {
	h := parallelHouse(t, withDesk())
	olga := h.signedIn(t, h.operator(t, "olga"))
	nobody := h.browser(t)
	for to, want := range map[string]string{
		"/desk": "/desk", "/desk/users?after=a%2Fb": "/desk/users?after=a%2Fb", "/desk?range=7d": "/desk?range=7d", "/desk/clients/a%20b": "/desk/clients/a%20b",
		"/deskx": "/", "/desk/../account": "/", "/desk/%2e%2e/account": "/", "/desk//evil.example": "/", "//desk/x": "/", "//evil.example/desk": "/", "https://evil.example/desk": "/",
		`/desk/\evil.example`: "/", "/desk/x\ny": "/", "/desk/\xff": "/", "/desk/é": "/", "/desk#x": "/", "/nothing": "/", "/desk/" + strings.Repeat("x", 1024): "/", "desk/users": "/",
	} {
		if a := olga.get(t, "/login?to="+url.QueryEscape(to)); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want {
			t.Errorf("to=%.40q: %d to %q, want %s", to, a.StatusCode, a.Header.Get("Location"), want)
		}
		if carried := formOn(t, nobody.get(t, "/login?to="+url.QueryEscape(to))).fields.Get("to"); carried != to && want != "/" || carried != "" && want == "/" {
			t.Errorf("to=%.40q: the form carries %q", to, carried)
		}
	}
}

// TestDeskHeaders: every answer of the desk has the policy that allows one script.
func TestDeskHeaders(t *testing.T) {
	h := parallelHouse(t, withDesk())
	olga := h.operator(t, "olga")
	b := h.signedIn(t, olga)
	for _, route := range h.server.DeskRoutes() {
		if route[0] != "GET" || route[1] == "/desk/event-tail" {
			continue
		}
		t.Run(strings.Trim(strings.ReplaceAll(route[1], "/", "_"), "_"), func(t *testing.T) {
			a := b.get(t, h.deskTarget(route[1], olga))
			for name, want := range map[string]string{
				"Content-Security-Policy":    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			if isPage(a) {
				wantPlainMarkup(t, a)
			}
		})
	}
}
