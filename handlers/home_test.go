package handlers_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/handlers"
	"tollhouse/handlers/desk"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/stats"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// nodesOn returns the elements of a page that have the attribute.
func nodesOn(t testing.TB, page answer, attr string) (found []*html.Node) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		for _, a := range n.Attr {
			if a.Key == attr {
				found = append(found, n)
			}
		}
	}
	return found
}

func named(name string) func(*handlers.Config) {
	return func(c *handlers.Config) { c.InstanceName = name }
}

// Promise (Browsers): operators, codes for a new password, start page, name and logo
func TestStartPage(t *testing.T) {
	t.Parallel()
	t.Run("a_stranger_sees_the_name_the_sign_in_and_two_links", func(t *testing.T) {
		h := parallelHouse(t, named("Larkspur Payments"), func(c *handlers.Config) { c.Version = "9.8.7" })
		page := h.browser(t).get(t, "/")
		text := words(t, page)
		for _, want := range []string{"Larkspur Payments", "Sign-in and events for the applications of Larkspur Payments.", "Sign in", "API reference", "Service status"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page says %q, want %q in it", text, want)
			}
		}
		for _, never := range []string{"9.8.7", "tollhouse", "operator", "<pre", "desk"} {
			if strings.Contains(strings.ReplaceAll(text, "tollhouse.example", ""), never) || never == "<pre" && strings.Contains(page.body, never) {
				t.Errorf("the page says %q, want no %q in it", text, never)
			}
		}
		if href := linkOn(t, page, "API reference"); href != "/docs" {
			t.Errorf("the API reference is at %q", href)
		}
		if href := linkOn(t, page, "Service status"); href != "/readyz" {
			t.Errorf("the service status is at %q", href)
		}
	})
	t.Run("a_server_without_users_says_how_to_create_one_at_the_machine_alone", func(t *testing.T) {
		const help = "Nobody can sign in yet. On this machine: Copy tollhouse user create NAME --operator"
		f := storetest.New(t)
		h := &house{Fixture: f, log: &journal{}}
		h.open(f.Store, at("http://localhost:8080"))
		says := func(change ...func(*http.Request)) bool {
			t.Helper()
			return strings.Contains(words(t, h.get(t, "/", change...)), help)
		}
		if !says(from("127.0.0.1")) || !says(from("::1"), func(r *http.Request) { r.Host = "[::1]:8080" }) {
			t.Error("the command is missing on the machine")
		}
		for name, change := range map[string]func(*http.Request){
			"another_machine":  from("192.0.2.1"),
			"a_proxy":          func(r *http.Request) { from("127.0.0.1")(r); r.Header.Set("X-Forwarded-For", "192.0.2.1") },
			"a_proxy_by_rfc":   func(r *http.Request) { from("127.0.0.1")(r); r.Header.Set("Forwarded", "for=192.0.2.1") },
			"a_proxy_of_https": func(r *http.Request) { from("127.0.0.1")(r); r.Header.Set("X-Forwarded-Proto", "https") },
		} {
			if says(change) {
				t.Errorf("%s: the command is shown", name)
			}
		}
		f.User(t, "mara", "acct_larkspur")
		if says(from("127.0.0.1")) {
			t.Error("the command is shown although a user exists")
		}
	})
	t.Run("a_public_name_is_not_the_machine", func(t *testing.T) {
		f := storetest.New(t)
		h := &house{Fixture: f, log: &journal{}}
		h.open(f.Store, at("https://pay.example"))
		if strings.Contains(words(t, h.get(t, "/", from("127.0.0.1"))), "Nobody can sign in yet") {
			t.Error("the command is shown under a public name")
		}
	})
	t.Run("a_user_sees_the_newest_ten_events_and_what_they_changed", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		if text := words(t, b.get(t, "/")); !strings.Contains(text, "No events yet. Change a resource or import events to create some.") {
			t.Errorf("without events the page says %q", text)
		}
		token := header("Authorization", "Bearer "+h.pair(t).AccessToken)
		put := func(id, body string) {
			t.Helper()
			a := h.do(h.request(t, "PUT", "/api/resources/parcel/"+id, strings.NewReader(body), token, header("Content-Type", "application/json")))
			if a.StatusCode >= 300 {
				t.Fatalf("PUT = %d %s", a.StatusCode, a.body)
			}
		}
		for i := range 9 {
			put(fmt.Sprint("p", i), `{"n":"x"}`)
		}
		put("parcel", `{"address":{"city":"Dunmere","zip":"05091"},"note":"","gone":1,"list":[1]}`)
		put("parcel", `{"address":{"city":"<b>Arlen</b>","zip":"05091"},"note":"x","added":true,"list":[1,2]}`)
		page := b.get(t, "/")
		rows := nodesOn(t, page, "data-event")
		if len(rows) != 10 || len(nodesOn(t, page, "data-list")) != 1 {
			t.Fatalf("%d events in the list, want 10", len(rows))
		}
		if text := textOf(rows[0]); !strings.Contains(text, "parcel.updated") || !strings.Contains(text, "15:30:00") {
			t.Errorf("the first row says %q, want the newest event", text)
		}
		changed := map[string]string{}
		for _, n := range nodesOn(t, page, "data-member") {
			changed[attribute(n, "data-member")] = strings.Join(strings.Fields(textOf(n)), " ")
		}
		for member, want := range map[string]string{
			"address.city": "address.city Dunmere <b>Arlen</b>", "note": `note "" x`, "added": "added new true",
			"gone": "gone removed 1", "list": "list [1] [1,2]",
		} {
			if changed[member] != want {
				t.Errorf("%s = %q, want %q", member, changed[member], want)
			}
		}
		if _, ok := changed["address.zip"]; ok || len(changed) != 5 {
			t.Errorf("the page shows the changes %v, want five", changed)
		}
		text := words(t, page)
		for _, want := range []string{"1 application has access to your account.", "Your account", "API reference", "Signed in as mara"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q: %s", want, text)
			}
		}
		if strings.Contains(text, "desk") {
			t.Errorf("the page of an ordinary user says %q", text)
		}
		other := h.signedIn(t, h.User(t, "olga", "acct_other"))
		if n := len(nodesOn(t, other.get(t, "/"), "data-event")); n != 0 {
			t.Errorf("a user of another account sees %d events", n)
		}
	})
	t.Run("long_changes_are_cut", func(t *testing.T) {
		h := parallelHouse(t)
		b, token := h.signedIn(t, h.user), header("Authorization", "Bearer "+h.pair(t).AccessToken)
		for _, filling := range []string{"a", "b"} {
			var members []string
			for i := range 30 {
				members = append(members, fmt.Sprintf("%q:%q", fmt.Sprint("m", i), strings.Repeat(filling, 400)))
			}
			h.do(h.request(t, "PUT", "/api/resources/parcel/p", strings.NewReader("{"+strings.Join(members, ",")+"}"), token, header("Content-Type", "application/json")))
		}
		page := b.get(t, "/")
		if n := len(nodesOn(t, page, "data-member")); n != 20 || !strings.Contains(words(t, page), "And 10 more.") || strings.Contains(page.body, strings.Repeat("a", 121)) {
			t.Errorf("%d changes are shown, want 20 cut values, and that 10 more exist", n)
		}
	})
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return b.String()
}

// Promise (Browsers): operators, codes for a new password, start page, name and logo
func TestStartPageOfAnOperator(t *testing.T) {
	t.Parallel()
	desk := &desk.Config{}
	served := func(c *handlers.Config) { c.Desk = desk }
	t.Run("leads_to_the_desk_while_the_role_lasts", func(t *testing.T) {
		h := parallelHouse(t, served)
		b := h.signedIn(t, h.user)
		if page := b.get(t, "/"); linkOn(t, page, "Open the desk") != "" {
			t.Error("an ordinary user sees the desk")
		}
		must.Get(h.PromoteUser(t.Context(), "mara"))(t)
		page := b.get(t, "/")
		text := words(t, page)
		if linkOn(t, page, "Open the desk") != "/desk" || !strings.Contains(text, "Events, 24 h 0 none before Failed sign-ins 0 of 0 Tokens issued 0 0 refreshed") {
			t.Errorf("the page of an operator says %q, want the figures and the link", text)
		}
		if strings.Index(text, "Open the desk") > strings.Index(text, "Newest events") {
			t.Error("the desk comes after the events, want it first")
		}
		must.Get(h.DemoteUser(t.Context(), "mara"))(t)
		if page := b.get(t, "/"); linkOn(t, page, "Open the desk") != "" {
			t.Error("the link outlives the role")
		}
	})
	t.Run("has_no_link_without_a_desk", func(t *testing.T) {
		h := parallelHouse(t)
		must.Get(h.PromoteUser(t.Context(), "mara"))(t)
		if page := h.signedIn(t, h.user).get(t, "/"); linkOn(t, page, "Open the desk") != "" {
			t.Error("a server without the desk links to it")
		}
	})
	t.Run("a_sign_in_to_the_desk_ends_there_for_operators_alone", func(t *testing.T) {
		for _, c := range []struct {
			name     string
			operator bool
			change   []func(*handlers.Config)
			want     string
		}{
			{"an_operator", true, []func(*handlers.Config){served}, "/desk"},
			{"a_user", false, []func(*handlers.Config){served}, "/"},
			{"an_operator_without_a_desk", true, nil, "/"},
		} {
			t.Run(c.name, func(t *testing.T) {
				h := parallelHouse(t, c.change...)
				if c.operator {
					must.Get(h.PromoteUser(t.Context(), "mara"))(t)
				}
				b := h.browser(t)
				if a := b.submit(t, b.get(t, "/login?to=desk"), rightPassword...); a.Header.Get("Location") != c.want {
					t.Errorf("the sign-in leads to %q, want %s", a.Header.Get("Location"), c.want)
				}
				if a := b.get(t, "/login?to=desk"); a.Header.Get("Location") != c.want {
					t.Errorf("a signed-in browser is led to %q, want %s", a.Header.Get("Location"), c.want)
				}
			})
		}
	})
}

// TestStartPageLeadsWhereTheDeskAnswers: the link stands on the page if, and only if, the
// desk answers such a request. Over plain http the page says why it does not.
func TestStartPageLeadsWhereTheDeskAnswers(t *testing.T) {
	trusted := func(c *handlers.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.1/32")} }
	for _, c := range []struct {
		name, public, remote string
		change               []func(*handlers.Config)
		header               [2]string
		operator             bool
		link, note           bool
	}{
		{name: "https", public: "https://pay.example", remote: "203.0.113.9:1", change: []func(*handlers.Config){withDesk()}, operator: true, link: true},
		{name: "an_ordinary_user", public: "https://pay.example", remote: "203.0.113.9:1", change: []func(*handlers.Config){withDesk()}},
		{name: "no_desk", public: "https://pay.example", remote: "203.0.113.9:1", operator: true},
		{name: "other_credentials", public: "https://pay.example", remote: "203.0.113.9:1", change: []func(*handlers.Config){withDesk()}, header: [2]string{"Authorization", "Basic eDp5"}, operator: true},
		{name: "loopback", public: "http://localhost:8080", remote: "127.0.0.1:1", change: []func(*handlers.Config){withDesk()}, operator: true, link: true},
		{name: "http", public: "http://pay.example", remote: "203.0.113.9:1", change: []func(*handlers.Config){withDesk()}, operator: true, note: true},
		{name: "http_for_an_ordinary_user", public: "http://pay.example", remote: "203.0.113.9:1", change: []func(*handlers.Config){withDesk()}},
		{name: "http_without_a_desk", public: "http://pay.example", remote: "203.0.113.9:1", operator: true},
		{name: "http_behind_an_unknown_proxy", public: "http://localhost:8080", remote: "127.0.0.1:1", change: []func(*handlers.Config){withDesk()}, header: [2]string{"X-Forwarded-For", "192.0.2.9"}, operator: true, note: true},
		{name: "inside_the_networks", public: "https://pay.example", remote: "10.1.2.3:1", change: []func(*handlers.Config){withDesk(deskFrom("10.0.0.0/8"))}, operator: true, link: true},
		{name: "outside_the_networks", public: "https://pay.example", remote: "203.0.113.9:1", change: []func(*handlers.Config){withDesk(deskFrom("10.0.0.0/8"))}, operator: true},
		{name: "behind_an_unknown_proxy", public: "https://pay.example", remote: "10.1.2.3:1", change: []func(*handlers.Config){withDesk(deskFrom("10.0.0.0/8"))}, header: [2]string{"X-Forwarded-Proto", "https"}, operator: true},
		{name: "inside_behind_a_trusted_proxy", public: "https://pay.example", remote: "203.0.113.1:1", change: []func(*handlers.Config){withDesk(deskFrom("10.0.0.0/8")), trusted}, header: [2]string{"X-Forwarded-For", "10.1.2.3"}, operator: true, link: true},
		{name: "outside_behind_a_trusted_proxy", public: "https://pay.example", remote: "203.0.113.1:1", change: []func(*handlers.Config){withDesk(deskFrom("10.0.0.0/8")), trusted}, header: [2]string{"X-Forwarded-For", "192.0.2.9"}, operator: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := parallelHouse(t, append(c.change, at(c.public))...)
			if c.operator {
				must.Get(h.PromoteUser(t.Context(), "mara"))(t)
			}
			token, _, err := h.CreateSession(t.Context(), store.By{}, must.Get(h.FindUser(t.Context(), "mara"))(t), secret.Token{}, "")
			must.Do(t, err)
			cookie := "__Host-tollhouse"
			if u := must.Get(url.Parse(c.public))(t); u.Scheme == "http" {
				cookie = strings.TrimSuffix("tollhouse_"+u.Port(), "_")
			}
			get := func(path string) answer {
				return h.get(t, path, func(r *http.Request) {
					r.RemoteAddr = c.remote
					r.AddCookie(&http.Cookie{Name: cookie, Value: token.Reveal()})
					if c.header[0] != "" {
						r.Header.Set(c.header[0], c.header[1])
					}
				})
			}
			page := get("/")
			text := words(t, page)
			if !strings.Contains(text, "Signed in as mara") {
				t.Fatalf("the page is of a stranger: %s", text)
			}
			if link, answers := linkOn(t, page, "Open the desk") == "/desk", get("/desk").StatusCode == http.StatusOK; link != c.link || answers != c.link {
				t.Errorf("link: %t, the desk answers: %t; want %t", link, answers, c.link)
			}
			if note := strings.Contains(text, "over plain http, a password would be readable on the network"); note != c.note {
				t.Errorf("the page explains plain http: %t, want %t", note, c.note)
			}
		})
	}
}

// TestStartPageFigures: an operator first sees what happened in the last 24 hours, in all
// accounts.
func TestStartPageFigures(t *testing.T) {
	h, b := deskHouse(t)
	h.Store.Ring().Begin(func() stats.Disk { return stats.Disk{} })
	h.recordMix(t, "acct_other", 7)
	h.recordMix(t, h.account, 5)
	h.token(t, with(h.passwordForm(), "password", "not the password"))
	h.token(t, h.passwordForm())
	text := words(t, b.get(t, "/"))
	figures := strings.Index(text, "Events, 24 h 12 none before Failed sign-ins 1 of 2 Tokens issued 1 0 refreshed Applications 0 with access")
	if figures < 0 || figures > strings.Index(text, "Newest events") {
		t.Errorf("the page says %q, want the figures first", text)
	}
	h.Clock.Advance(25 * time.Hour)
	b = h.signedIn(t, must.Get(h.FindUser(t.Context(), "olga"))(t))
	if text := words(t, b.get(t, "/")); !strings.Contains(text, "Events, 24 h 0 −100 %, was 12 Failed sign-ins 0 of 0 Tokens issued 0 0 refreshed") {
		t.Errorf("a day later the page says %q", text)
	}
	if text := words(t, h.signedIn(t, h.user).get(t, "/")); strings.Contains(text, "Tokens issued") {
		t.Errorf("the page of an ordinary user has figures: %q", text)
	}
}

func TestStartPageOfDev(t *testing.T) {
	demo := &web.Demo{ClientID: "demo", ClientSecret: "tollcs_demo", Username: "mara", Password: storetest.Password}
	h := parallelHouse(t, func(c *handlers.Config) { c.Demo, c.Version = demo, "9.8.7" })
	for name, b := range map[string]*browser{"a_stranger": h.browser(t), "a_user": h.signedIn(t, h.user)} {
		text := words(t, b.get(t, "/"))
		for _, want := range []string{"Test instance", "everything is lost when it stops.", "First steps", "client_secret=tollcs_demo", "'password=" + storetest.Password + "'", "In the browser", "tollhouse 9.8.7"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page lacks %q: %s", name, want, text)
			}
		}
		if got := strings.Contains(text, "Newest events"); got != (name == "a_user") {
			t.Errorf("%s: the page has events: %t", name, got)
		}
	}
	h = newHouse(t, withDesk(), func(c *handlers.Config) { c.Demo = demo })
	text := words(t, h.signedIn(t, h.operator(t, "olga")).get(t, "/"))
	for _, want := range []string{"Open the desk", "Failed sign-ins", "Newest events", "Test instance", "First steps"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of an operator lacks %q: %s", want, text)
		}
	}
}

// TestTheRoleReachesNoToken: the tokens of an operator and what is said of them are those
// of any user.
func TestTheRoleReachesNoToken(t *testing.T) {
	h := parallelHouse(t)
	inspect := func() string {
		return h.postForm(t, introspectPath, with(h.credentials(), "token", h.pair(t).AccessToken)).body
	}
	before := h.grant(t, "mara", storetest.Password).body
	must.Get(h.PromoteUser(t.Context(), "mara"))(t)
	after := h.grant(t, "mara", storetest.Password).body
	if strings.Contains(after+inspect(), "operator") || len(before) != len(after) {
		t.Errorf("an operator's answer %s differs from %s", after, before)
	}
}

func TestLostPagesLeadBack(t *testing.T) {
	h := parallelHouse(t)
	in, out := h.signedIn(t, h.user), h.browser(t)
	asBrowser := header("Accept", "text/html")
	for _, path := range []string{"/nothing", "/desk", "/desk/events", "/account/nothing"} {
		stranger, user := out.get(t, path, asBrowser), in.get(t, path, asBrowser)
		wantErrorPage(t, stranger, http.StatusNotFound)
		if linkOn(t, stranger, "Start page") != "/" || linkOn(t, stranger, "Sign in") != "/login" {
			t.Errorf("%s: a stranger's links lead to %q and %q", path, linkOn(t, stranger, "Start page"), linkOn(t, stranger, "Sign in"))
		}
		if linkOn(t, user, "Start page") != "/" || linkOn(t, user, "Sign in") != "" {
			t.Errorf("%s: the page of a user offers a sign-in", path)
		}
	}
	h.Clock.Advance(13 * time.Hour)
	if a := in.get(t, "/nothing", asBrowser); linkOn(t, a, "Sign in") != "/login" {
		t.Error("after the session has ended the page offers no sign-in")
	}
}

func TestLogo(t *testing.T) {
	logo := []byte("\x89PNG of a larkspur")
	h := parallelHouse(t, at("https://pay.example/pay"), func(c *handlers.Config) { c.Logo = logo })
	page := h.get(t, "/pay/")
	for n := range parsePage(t, page).Descendants() {
		if n.Data != "img" && attribute(n, "rel") != "icon" {
			continue
		}
		address := attribute(n, "src") + attribute(n, "href")
		a := h.get(t, address)
		if !strings.HasPrefix(address, "/pay/static/logo.") || a.body != string(logo) || a.Header.Get("Content-Type") != "image/png" || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("<%s> %s = %d %s, want the logo, for ever", n.Data, address, a.StatusCode, a.Header)
		}
		if b := newHouse(t).get(t, strings.TrimPrefix(address, "/pay")); b.StatusCode != http.StatusNotFound {
			t.Errorf("a server without a logo answers %d", b.StatusCode)
		}
	}
	if n := strings.Count(page.body, "/static/logo."); n != 2 {
		t.Errorf("the page names the logo %d times, want the masthead and the icon", n)
	}
}
