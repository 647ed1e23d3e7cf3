package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// platform is a platform client of a house.
type platform struct {
	*house
	client store.Client
	form   url.Values
}

func newPlatform(t testing.TB, h *house, scopes ...string) *platform {
	t.Helper()
	c, sec := h.Client(t, storetest.Platform(scopes...))
	return &platform{h, c, url.Values{"client_id": {c.ID}, "client_secret": {sec.Reveal()}, "grant_type": {"client_credentials"}}}
}

// actsForAll is a platform client with accounts:act and all data scopes.
func actsForAll(t testing.TB, h *house) *platform {
	t.Helper()
	return newPlatform(t, h, append(store.ScopeNames(), "accounts:act")...)
}

// access returns an access token.
func (p *platform) access(t testing.TB, namesAndValues ...string) string {
	t.Helper()
	a := p.token(t, with(p.form, namesAndValues...))
	var members struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(a.body), &members); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("client_credentials = %d %s, %v", a.StatusCode, a.body, err)
	}
	return members.AccessToken
}

// call sends a request with a token.
func (h *house) call(t testing.TB, access, method, path, body string, change ...func(*http.Request)) answer {
	t.Helper()
	r := bearerRequest(t, h, method, path, access, body)
	for _, f := range change {
		f(r)
	}
	return h.do(r)
}

func actingFor(account string) func(*http.Request) { return header(web.AccountHeader, account) }

// Promise (Platform §1): a platform token has what it asks for of the client's scopes, no refresh
// token, and is introspected and revoked like any other
func TestPlatformToken(t *testing.T) {
	h := parallelHouse(t)
	p := newPlatform(t, h, "events:read", "accounts:act", "audit:read")
	for asked, want := range map[string]string{"": "events:read accounts:act audit:read", "audit:read": "audit:read", "accounts:act events:read": "events:read accounts:act"} {
		a := p.token(t, with(p.form, "scope", asked))
		wantTokenHeaders(t, a)
		var members map[string]any
		must.Do(t, json.Unmarshal([]byte(a.body), &members))
		if _, refreshes := members["refresh_token"]; refreshes || members["scope"] != want || members["expires_in"] != 3600.0 {
			t.Errorf("asked for %q: %s, want the scope %q and no refresh_token", asked, a.body, want)
		}
		found := wantActive(t, h.postForm(t, introspectPath, with(p.form, "token", members["access_token"].(string))))
		if found["scope"] != want || found["sub"] != p.client.ID || found["client_id"] != p.client.ID || found["username"] != nil {
			t.Errorf("introspected as %v", found)
		}
	}
	access := p.access(t)
	wantInactive(t, h.introspect(t, access)) // another client, which may introspect its own alone
	wantStatus(t, h.postForm(t, revokePath, with(p.form, "token", access)), http.StatusOK)
	wantError(t, h.call(t, access, "GET", apiPath, "", actingFor(h.account)), http.StatusUnauthorized, "invalid_token")
	for _, asked := range []string{"accounts:erase", "resources:read", "platform"} {
		wantTokenError(t, h.token(t, with(p.form, "scope", asked)), http.StatusBadRequest, "invalid_scope")
	}
	for _, grant := range []string{"password", "authorization_code", "refresh_token"} {
		wantTokenError(t, h.token(t, with(p.form, "grant_type", grant)), http.StatusBadRequest, "unauthorized_client")
	}
}

// TestPlatformScopesElsewhere asks for them wherever another client or a user could get them.
//
// Promise (Platform §1): a platform scope is invalid_scope for every other client: at the
// authorization and token endpoints and in a registration; scopes_supported has the five data scopes
func TestPlatformScopesElsewhere(t *testing.T) {
	h := parallelHouse(t)
	j := newJob(t, h)
	first := h.pair(t)
	for _, scope := range store.PlatformScopeNames() {
		a := h.get(t, h.authURL("scope", scope))
		if got := callback(t, a, http.StatusFound).Query().Get("error"); got != "invalid_scope" {
			t.Errorf("%s at the authorization endpoint: error = %q, want invalid_scope", scope, got)
		}
		for name, form := range map[string]url.Values{"password": h.passwordForm(), "refresh": h.refreshForm(first.RefreshToken), "client_credentials": j.form} {
			for _, asked := range []string{scope, "events:read " + scope} {
				if text := wantTokenError(t, h.token(t, with(form, "scope", asked)), http.StatusBadRequest, "invalid_scope"); !strings.Contains(text, scope) {
					t.Errorf("%s: the refusal says %q, want it to name %s", name, text, scope)
				}
			}
		}
		for _, call := range [][3]string{
			{"POST", "/api/platform/clients", `{"name":"L","redirect_uris":["https://a.example/"],"scopes":["` + scope + `"]}`},
			{"PATCH", "/api/platform/clients/" + h.client.ID, `{"scopes":["events:read","` + scope + `"]}`},
		} {
			a := h.admin(t, call[0], call[1], call[2])
			wantError(t, a, http.StatusBadRequest, "invalid_scope")
			if !strings.Contains(a.body, `"param":"scopes"`) {
				t.Errorf("%s: %s, want the param scopes", call[0], a.body)
			}
		}
	}
	var metadata struct {
		Scopes []string `json:"scopes_supported"`
	}
	must.Do(t, json.Unmarshal([]byte(h.get(t, "/.well-known/oauth-authorization-server").body), &metadata))
	if got := strings.Join(metadata.Scopes, " "); got != "events:read resources:read resources:write webhooks:read webhooks:write" {
		t.Errorf("scopes_supported = %q, want the five data scopes", got)
	}
	if !h.accessLives(t, wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))) {
		t.Error("the refusals ended the family")
	}
}

// Promise (Platform §1): --platform off gives no token and refuses those there are, introspected
// too; --platform-from and plain http limit every request with one, as they do the desk
// Promise (Platform §1): /api/platform is answered like an unknown address where it is off, to others
// than --platform-from, and over plain http; endpoints that platform clients made continue
func TestWherePlatformClientsAreAdmitted(t *testing.T) {
	t.Parallel()
	off := func(c *handlers.Config) { c.Platform = nil }
	from := func(c *handlers.Config) {
		c.Platform = &web.Platform{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	}
	peer := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address + ":4000" }
	}
	proxied := func(c *handlers.Config) {
		from(c)
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	}
	for name, c := range map[string]struct {
		change   []func(*handlers.Config)
		request  []func(*http.Request)
		admitted bool
	}{
		"on":                     {nil, nil, true},
		"off":                    {[]func(*handlers.Config){off}, nil, false},
		"from_its_network":       {[]func(*handlers.Config){from}, []func(*http.Request){peer("10.1.2.3")}, true},
		"from_another":           {[]func(*handlers.Config){from}, []func(*http.Request){peer("192.0.2.9")}, false},
		"through_a_proxy":        {[]func(*handlers.Config){proxied}, []func(*http.Request){peer("192.0.2.1"), header("X-Forwarded-For", "10.1.2.3")}, true},
		"from_another_by_proxy":  {[]func(*handlers.Config){proxied}, []func(*http.Request){peer("192.0.2.1"), header("X-Forwarded-For", "192.0.2.9")}, false},
		"through_a_forgotten":    {[]func(*handlers.Config){from}, []func(*http.Request){peer("10.1.2.3"), header("X-Forwarded-For", "10.1.2.3")}, false},
		"over_plain_http":        {[]func(*handlers.Config){at("http://pay.example")}, []func(*http.Request){peer("192.0.2.9")}, false},
		"on_this_machine":        {[]func(*handlers.Config){at("http://127.0.0.1:8080")}, []func(*http.Request){peer("127.0.0.1")}, true},
		"a_proxy_to_our_machine": {[]func(*handlers.Config){at("http://127.0.0.1:8080")}, []func(*http.Request){peer("127.0.0.1"), header("X-Forwarded-For", "127.0.0.1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t)
			p := actsForAll(t, h)
			all, one := p.access(t), p.access(t, "account", h.account)
			e := h.hooked(t, one)
			h.open(h.Store, c.change...)
			asked := h.token(t, p.form, c.request...)
			if !c.admitted {
				wantTokenError(t, asked, http.StatusBadRequest, "unauthorized_client")
			} else {
				wantStatus(t, asked, http.StatusOK)
			}
			for _, access := range []string{all, one} {
				a := h.call(t, access, "GET", apiPath, "", append(c.request, actingFor(h.account))...)
				if !c.admitted {
					wantError(t, a, http.StatusUnauthorized, "invalid_token")
				} else {
					wantStatus(t, a, http.StatusOK)
				}
			}
			found := h.postForm(t, introspectPath, with(p.form, "token", all))
			if name == "off" {
				wantInactive(t, found)
			} else {
				wantActive(t, found)
			}
			wantStatus(t, h.token(t, h.passwordForm(), c.request...), http.StatusOK) // others are as they were
			if now := must.Get(h.Webhooks.Find(t.Context(), webhook.System, e.ID))(t); !now.Enabled() {
				t.Errorf("its endpoint is %+v, want it enabled", now.Disabled)
			}
			for _, token := range []string{all, one, "wrong"} {
				for _, path := range []string{"", "/accounts", "/openapi.json", "/nowhere"} {
					a := h.call(t, token, "GET", web.PlatformPath+path, "", c.request...)
					if unknown := h.call(t, token, "GET", "/api/nowhere", "", c.request...); (a.StatusCode == http.StatusNotFound && a.body == unknown.body) == c.admitted && path != "/nowhere" {
						t.Errorf("GET %s = %d %s, want the answer of an unknown address: %t", path, a.StatusCode, a.body, !c.admitted)
					}
				}
			}
			if a := h.call(t, all, "GET", web.PlatformPath, "", c.request...); c.admitted {
				wantStatus(t, a, http.StatusOK)
			}
		})
	}
}

// dataRoutes are those where a platform client acts for an account, with the scopes needed.
var dataRoutes = []struct{ method, path, body, need string }{
	{"GET", "/api/events", "", "events:read"},
	{"GET", "/api/events/evt_00000000000000000000000000", "", "events:read"},
	{"GET", "/api/event-types", "", "events:read"},
	{"GET", "/api/resources/customer", "", "resources:read"},
	{"GET", "/api/resources/customer/c1", "", "resources:read"},
	{"PUT", "/api/resources/customer/c1", `{"notes":"x"}`, "resources:write"},
	{"PATCH", "/api/resources/customer/c1", `{"notes":"y"}`, "resources:write"},
	{"DELETE", "/api/resources/customer/c1", "", "resources:write"},
	{"GET", hooksPath, "", "webhooks:read"},
	{"POST", hooksPath, `{"url":"https://hooks.example/1"}`, "events:read webhooks:write"},
	{"GET", hooksPath + "/wep_1", "", "webhooks:read"},
	{"DELETE", hooksPath + "/wep_1", "", "events:read webhooks:write"},
}

// beginErasing leaves an account half erased, as a kill does.
func (h *house) beginErasing(t testing.TB, account string) {
	t.Helper()
	must.Get(h.CreateAccount(t.Context(), account, ""))(t)
	h.Rest()
	updates := 0
	h.Faults.OnUpdate(func(run func() error) error {
		if updates++; updates > 1 {
			return record.ErrUnavailable
		}
		return run()
	})
	defer h.Faults.Repair()
	if err := h.DeleteAccount(t.Context(), account); err == nil {
		t.Fatal("the account is erased, want it half erased")
	}
}

// TestActingIsRefusedInOrder breaks several rules with each request and expects the first.
//
// Promise (Platform §2): refused in this order: token, form of the header, another account of other
// tokens, scopes, no account named, unknown account; who lacks accounts:act learns of none
// Promise (Platform §8, §16): header attacks: *, lists, twice, capitals, empty, unknown, half
// erased, another's
func TestActingIsRefusedInOrder(t *testing.T) {
	h := parallelHouse(t)
	h.beginErasing(t, "acct_half")
	h.User(t, "zoe", "acct_zoe")
	p := actsForAll(t, h)
	acts, narrow, noAct := p.access(t), p.access(t, "scope", "accounts:act"), p.access(t, "scope", "events:read resources:read resources:write webhooks:read webhooks:write")
	bound := p.access(t, "account", h.account)
	user := h.pair(t).AccessToken
	userNarrow := h.pair(t, "scope", "webhooks:read").AccessToken
	job := newJob(t, h).access(t)
	twice := func(r *http.Request) { r.Header[web.AccountHeader] = []string{h.account, h.account} }
	malformed := map[string]func(*http.Request){"twice": twice}
	for _, value := range []string{"", "*", "a,b", "ACCT_X", "acct x", "all", "_a", strings.Repeat("a", 65)} {
		if value != "all" { // which is an id
			malformed[value] = actingFor(value)
		}
	}
	same := func(what string, answers ...answer) {
		t.Helper()
		for _, a := range answers[1:] {
			if a.body != answers[0].body {
				t.Errorf("%s: %s and %s, want the same bytes", what, answers[0].body, a.body)
			}
		}
	}
	for _, route := range dataRoutes {
		t.Run(route.method+route.path, func(t *testing.T) {
			call := func(access string, change ...func(*http.Request)) answer {
				return h.call(t, access, route.method, route.path, route.body, change...)
			}
			for name, change := range malformed {
				wantError(t, call("wrong", change), http.StatusUnauthorized, "invalid_token")
				for _, access := range []string{acts, narrow, noAct, bound, user, userNarrow, job} {
					a := call(access, change)
					wantError(t, a, http.StatusBadRequest, "invalid_parameter")
					if !strings.Contains(a.body, `"param":"Tollhouse-Account"`) {
						t.Errorf("%q: %s, want the param", name, a.body)
					}
				}
			}
			for _, access := range []string{user, userNarrow, job, bound} {
				var all []answer
				for _, account := range []string{"acct_zoe", "acct_never", "acct_half"} {
					a := call(access, actingFor(account))
					wantError(t, a, http.StatusForbidden, "account_mismatch")
					all = append(all, a)
				}
				same("another account", all...)
			}
			for _, access := range []string{narrow, noAct} {
				var all []answer
				for _, change := range []func(*http.Request){actingFor("acct_zoe"), actingFor("acct_never"), actingFor("acct_half"), func(*http.Request) {}} {
					a := call(access, change)
					wantError(t, a, http.StatusForbidden, "insufficient_scope")
					if want := `scope="` + route.need + ` accounts:act"`; !strings.Contains(a.Header.Get("WWW-Authenticate"), want) {
						t.Errorf("WWW-Authenticate = %q, want %s", a.Header.Get("WWW-Authenticate"), want)
					}
					all = append(all, a)
				}
				same("without the scopes", all...)
			}
			a := call(acts)
			wantError(t, a, http.StatusBadRequest, "account_required")
			if !strings.Contains(a.body, `"param":"Tollhouse-Account"`) {
				t.Errorf("%s, want the param", a.body)
			}
			var all []answer
			for _, account := range []string{"acct_never", "acct_half"} {
				a := call(acts, actingFor(account))
				wantError(t, a, http.StatusNotFound, "unknown_account")
				if a.Header.Get(web.AccountHeader) != "" {
					t.Error("the refusal names an account where it acted")
				}
				all = append(all, a)
			}
			same("unknown accounts", all...)
		})
	}
	for _, account := range []string{"acct_never", "acct_half"} {
		if a, err := h.FindAccount(t.Context(), account); account == "acct_never" && err == nil {
			t.Errorf("%s was created: %+v", account, a)
		}
	}
}

// Promise (Platform §4, §5): a header that names another account leaves a line with who sent it, and
// never with the account that it names
func TestAccountMismatchIsAudited(t *testing.T) {
	h := parallelHouse(t)
	p := actsForAll(t, h)
	user, bound := h.pair(t).AccessToken, p.access(t, "account", h.account)
	for access, want := range map[string]store.AuditLine{
		user:  {ClientID: h.client.ID, UserID: h.user.Subject()},
		bound: {By: store.By{Actor: store.Actor{ClientID: p.client.ID, ClientName: p.client.Name}}},
	} {
		before := len(h.audited(t, "account_mismatch"))
		wantError(t, h.call(t, access, "GET", apiPath, "", actingFor("acct_never")), http.StatusForbidden, "account_mismatch")
		lines := h.audited(t, "account_mismatch")
		if len(lines) != before+1 {
			t.Errorf("%d lines, want one more than %d", len(lines), before)
			continue
		}
		line := lines[len(lines)-1]
		if line.What != store.AuditRefused || line.UserID != want.UserID || want.ClientID != "" && line.ClientID != want.ClientID ||
			want.Actor.ClientID != "" && line.Actor.ClientID != want.Actor.ClientID || line.AccountID == "acct_never" {
			t.Errorf("the line is %+v, want %+v", line, want)
		}
	}
}

// drawnIDs are ids that the server draws.
var drawnIDs = regexp.MustCompile(`(evt|wep|whsec|tollhouse)_[0-9A-Za-z+/=]+`)

// Promise (Platform §2): with accounts:act everything is done as by a client bound to the account;
// the answer names it, Vary the header, and the log line has client and account
func TestActsAsABoundClient(t *testing.T) {
	h := parallelHouse(t)
	spec := store.ClientSpec{Name: "Larkspur Platform", Grants: []string{"client_credentials"}, Account: "acct_bound"}
	c, sec, err := h.CreateClient(t.Context(), spec)
	must.Do(t, err)
	own := &job{h, c, url.Values{"client_id": {c.ID}, "client_secret": {sec.Reveal()}, "grant_type": {"client_credentials"}}}
	p := actsForAll(t, h)
	must.Get(h.CreateAccount(t.Context(), "acct_acted", ""))(t)
	must.Get(h.CreateAccount(t.Context(), "acct_h10", ""))(t)
	callers := []struct {
		account, access string
		change          []func(*http.Request)
	}{
		{"acct_bound", own.access(t), nil},
		{"acct_acted", p.access(t), []func(*http.Request){actingFor("acct_acted")}},
		{"acct_h10", p.access(t, "account", "acct_h10"), nil},
		{"acct_h10", p.access(t, "account", "acct_h10"), []func(*http.Request){actingFor("acct_h10")}},
	}
	// What an answer has of its account, or draws.
	plain := func(a answer, account string) string {
		text := strings.ReplaceAll(a.body, account, "ACCOUNT")
		for _, id := range drawnIDs.FindAllString(text, -1) {
			text = strings.ReplaceAll(text, id, id[:4])
		}
		return a.Status + " " + text
	}
	var want []string
	for i, caller := range callers[:3] {
		var got []string
		for _, route := range dataRoutes {
			a := h.call(t, caller.access, route.method, route.path, route.body, caller.change...)
			got = append(got, route.method+" "+route.path+": "+plain(a, caller.account))
			if i > 0 && a.Header.Get(web.AccountHeader) != caller.account {
				t.Errorf("%s %s: Tollhouse-Account = %q, want %s", route.method, route.path, a.Header.Get(web.AccountHeader), caller.account)
			}
			if !strings.Contains(a.Header.Get("Vary"), web.AccountHeader) {
				t.Errorf("Vary = %q, want it to name the header", a.Header.Get("Vary"))
			}
		}
		got = append(got, plain(h.call(t, caller.access, "GET", apiPath, "", caller.change...), caller.account))
		if want == nil {
			want = got
		}
		for j := range want {
			if got[j] != want[j] {
				t.Errorf("%s:\n%s\nwant as the bound client\n%s", caller.account, got[j], want[j])
			}
		}
	}
	t.Run("a_header_that_names_its_own_account_changes_nothing", func(t *testing.T) {
		without := h.call(t, callers[3].access, "GET", apiPath, "")
		with := h.call(t, callers[3].access, "GET", apiPath, "", callers[3].change...)
		if without.body != with.body || with.StatusCode != http.StatusOK {
			t.Errorf("%s, want %s", with.body, without.body)
		}
		user := h.pair(t).AccessToken
		if a := h.call(t, user, "GET", apiPath, "", actingFor(h.account)); a.StatusCode != http.StatusOK || a.Header.Get(web.AccountHeader) != h.account {
			t.Errorf("a user's token: %d, Tollhouse-Account = %q", a.StatusCode, a.Header.Get(web.AccountHeader))
		}
	})
	t.Run("entity_tags_are_the_accounts", func(t *testing.T) {
		a := h.call(t, callers[1].access, "GET", apiPath, "", callers[1].change...)
		again := h.call(t, callers[1].access, "GET", apiPath, "", actingFor("acct_acted"), header("If-None-Match", a.Header.Get("ETag")))
		other := h.call(t, callers[1].access, "GET", apiPath, "", actingFor("acct_bound"), header("If-None-Match", a.Header.Get("ETag")))
		if again.StatusCode != http.StatusNotModified || other.StatusCode != http.StatusOK {
			t.Errorf("with the account's tag %d, for another account %d, want 304 and 200", again.StatusCode, other.StatusCode)
		}
	})
	if line := lastLine(h.log.String(), `"route":"/api/resources/:kind/:id"`); !strings.Contains(line, `"client_id":"`+p.client.ID+`"`) || !strings.Contains(line, `"account_id":"acct_h10"`) {
		t.Errorf("the log line is %s, want client and account", line)
	}
}

// TestEntityTagsDifferByAccount imports the same events into two accounts.
//
// Promise (Platform §2): the ETags of two accounts differ, also of events and resources that were
// imported with one id; that of the other account is no match, and the bare id is one
func TestEntityTagsDifferByAccount(t *testing.T) {
	h := parallelHouse(t)
	access := actsForAll(t, h).access(t)
	const line = `{"type":"plan.created","resource":"p1","id":"ev9","eventData":{"object":{"n":1}},"createdAt":1773000001}`
	accounts := []string{"acct_one", "acct_two"}
	for _, account := range accounts {
		must.Get(h.CreateAccount(t.Context(), account, ""))(t)
		im := must.Get(h.Events.NewImporter(account, eventlog.ImportOptions{}))(t)
		must.Get(im.Add(t.Context(), []byte(line), 0))(t)
		must.Get(im.Flush(t.Context()))(t)
	}
	const resource = "/api/resources/plan/p1"
	for _, path := range []string{"/api/events/ev9", resource, "/api/events", "/api/event-types"} {
		tags := map[string]string{}
		for _, account := range accounts {
			a := h.call(t, access, "GET", path, "", actingFor(account))
			wantStatus(t, a, http.StatusOK)
			tags[account] = a.Header.Get("ETag")
		}
		one, two := tags["acct_one"], tags["acct_two"]
		if one == "" || one == two {
			t.Errorf("%s: both accounts have the ETag %s", path, one)
		}
		for tag, status := range map[string]int{one: http.StatusNotModified, two: http.StatusOK} {
			wantStatus(t, h.call(t, access, "GET", path, "", actingFor("acct_one"), header("If-None-Match", tag)), status)
		}
	}
	tag := h.call(t, access, "GET", resource, "", actingFor("acct_two")).Header.Get("ETag")
	change := func(name, tag string, status int) {
		t.Helper()
		wantStatus(t, h.call(t, access, "PATCH", resource, `{}`, actingFor("acct_one"), header(name, tag)), status)
	}
	change("If-Match", tag, http.StatusPreconditionFailed)
	change("If-None-Match", tag, http.StatusOK)
	change("If-None-Match", `"ev9"`, http.StatusPreconditionFailed)
	change("If-Match", `"ev9"`, http.StatusOK)
	change("If-Match", h.call(t, access, "GET", resource, "", actingFor("acct_one")).Header.Get("ETag"), http.StatusOK)
}

// lastLine returns the last line of a log that has a text.
func lastLine(log, text string) (last string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			last = line
		}
	}
	return last
}

// Promise (Platform §2): an event's source is the client's name and its location api, unless
// Tollhouse-Source and Tollhouse-Location say otherwise; other clients' tokens may not send them
func TestSourceAndLocationOfActing(t *testing.T) {
	h := parallelHouse(t)
	p := actsForAll(t, h)
	acts, bound := p.access(t), p.access(t, "account", h.account)
	n := 0
	sourceOf := func(change ...func(*http.Request)) (source, location string) {
		t.Helper()
		n++
		id := "c" + string(rune('a'+n))
		wantStatus(t, h.call(t, acts, "PUT", "/api/resources/customer/"+id, `{}`, append(change, actingFor(h.account))...), http.StatusCreated)
		var list struct {
			Data []struct{ Source, Location string }
		}
		must.Do(t, json.Unmarshal([]byte(h.call(t, acts, "GET", apiPath+"?limit=1", "", actingFor(h.account)).body), &list))
		return list.Data[0].Source, list.Data[0].Location
	}
	if source, location := sourceOf(); source != "Larkspur Platform" || location != "api" {
		t.Errorf("source %q, location %q", source, location)
	}
	long := strings.Repeat("é", 160)
	if source, location := sourceOf(header(web.SourceHeader, "Mara Quill"), header(web.LocationHeader, long)); source != "Mara Quill" || location != long {
		t.Errorf("source %q, location %q, want those of the headers", source, location)
	}
	wantStatus(t, h.call(t, bound, "PUT", "/api/resources/customer/z", `{}`, header(web.SourceHeader, "worker")), http.StatusCreated)
	wantStatus(t, h.call(t, acts, "POST", hooksPath, `{"url":"https://hooks.example/1"}`, actingFor(h.account), header(web.SourceHeader, "Mara"), header(web.LocationHeader, "dashboard")), http.StatusCreated)
	if a := h.call(t, acts, "GET", apiPath+"?type=webhook_endpoint.created", "", actingFor(h.account)); !strings.Contains(a.body, `"source":"Mara"`) || !strings.Contains(a.body, `"location":"dashboard"`) {
		t.Errorf("the endpoint's event is %s", a.body)
	}
	for _, name := range []string{web.SourceHeader, web.LocationHeader} {
		for _, value := range []string{"", long + "x", "a\x00b", "a\u200bb", "\xff", "\u202e"} {
			a := h.call(t, acts, "GET", apiPath, "", actingFor(h.account), header(name, value))
			wantError(t, a, http.StatusBadRequest, "invalid_parameter")
		}
		for _, token := range []string{acts, bound} {
			a := h.call(t, token, "PUT", "/api/resources/customer/guarded", `{}`, actingFor(h.account), header(name, "4111 1111 1111 1111"))
			if wantError(t, a, http.StatusBadRequest, "sensitive_data"); strings.Contains(a.body, "4111") || !strings.Contains(a.body, name) {
				t.Errorf("%s, want the header named and nothing repeated", a.body)
			}
		}
		twice := func(r *http.Request) { r.Header[name] = []string{"a", "b"} }
		wantError(t, h.call(t, acts, "GET", apiPath, "", actingFor(h.account), twice), http.StatusBadRequest, "invalid_parameter")
		for _, access := range []string{h.pair(t).AccessToken, newJob(t, h).access(t)} {
			for _, route := range dataRoutes {
				a := h.call(t, access, route.method, route.path, route.body, header(name, "mara"))
				wantError(t, a, http.StatusBadRequest, "invalid_parameter")
				if !strings.Contains(a.body, `"param":"`+name+`"`) {
					t.Errorf("%s, want the param %s", a.body, name)
				}
			}
		}
	}
}

// Promise (Platform §2): account= binds a token to one account, with data scopes only; it needs no
// header and cannot act for another; whoever may not ask is refused and learns of no account
// Promise (Platform §8, §16): a token for one account with another's header or a platform scope
func TestTokenForOneAccount(t *testing.T) {
	h := parallelHouse(t)
	h.beginErasing(t, "acct_half")
	p := actsForAll(t, h)
	without, noData := newPlatform(t, h, "events:read", "accounts:write"), newPlatform(t, h, "accounts:act", "users:read")
	j := newJob(t, h)
	for name, c := range map[string]struct {
		form   url.Values
		status int
		code   string
	}{
		"unknown":                        {with(p.form, "account", "acct_never"), http.StatusBadRequest, "invalid_request"},
		"half_erased":                    {with(p.form, "account", "acct_half"), http.StatusBadRequest, "invalid_request"},
		"empty":                          {with(p.form, "account", ""), http.StatusBadRequest, "invalid_request"},
		"every":                          {with(p.form, "account", "*"), http.StatusBadRequest, "invalid_request"},
		"twice":                          {url.Values{"client_id": p.form["client_id"], "client_secret": p.form["client_secret"], "grant_type": p.form["grant_type"], "account": {h.account, h.account}}, http.StatusBadRequest, "invalid_request"},
		"a_platform_scope":               {with(p.form, "account", h.account, "scope", "events:read accounts:act"), http.StatusBadRequest, "invalid_scope"},
		"without_accounts_act":           {with(without.form, "account", h.account), http.StatusBadRequest, "unauthorized_client"},
		"without_accounts_act_unknown":   {with(without.form, "account", "acct_never"), http.StatusBadRequest, "unauthorized_client"},
		"without_a_data_scope":           {with(noData.form, "account", h.account), http.StatusBadRequest, "invalid_scope"},
		"a_bound_client_for_another":     {with(j.form, "account", h.account), http.StatusBadRequest, "invalid_request"},
		"a_bound_client_for_an_unknown":  {with(j.form, "account", "acct_never"), http.StatusBadRequest, "invalid_request"},
		"a_bound_client_with_an_empty":   {with(j.form, "account", ""), http.StatusBadRequest, "invalid_request"},
		"a_bound_client_for_its_own":     {with(j.form, "account", "acct_job"), http.StatusOK, ""},
		"the_password_grant_ignores_it":  {with(h.passwordForm(), "account", "acct_never"), http.StatusOK, ""},
		"the_password_grant_ignores_one": {with(h.passwordForm(), "account", ""), http.StatusOK, ""},
	} {
		a := h.token(t, c.form)
		if c.code == "" {
			wantStatus(t, a, http.StatusOK)
			continue
		}
		wantTokenError(t, a, c.status, c.code)
		if c.code == "invalid_request" && !strings.Contains(a.body, `"param":"account"`) {
			t.Errorf("%s: %s, want the param account", name, a.body)
		}
	}
	inURL := func(r *http.Request) { r.URL.RawQuery = "account=" + h.account }
	wantTokenError(t, h.token(t, p.form, inURL), http.StatusBadRequest, "invalid_request")
	a := p.token(t, with(p.form, "account", h.account))
	if !strings.Contains(a.body, `"scope":"events:read resources:read resources:write webhooks:read webhooks:write"`) || strings.Contains(a.body, "refresh_token") {
		t.Errorf("%s, want the client's data scopes", a.body)
	}
	access := p.access(t, "account", h.account, "scope", "events:read")
	wantStatus(t, h.call(t, access, "GET", apiPath, ""), http.StatusOK)
	wantError(t, h.call(t, access, "GET", apiPath, "", actingFor("acct_job")), http.StatusForbidden, "account_mismatch")
	wantError(t, h.call(t, access, "GET", "/api/resources/customer", ""), http.StatusForbidden, "insufficient_scope")
	h.Clock.Advance(time.Hour)
	wantError(t, h.call(t, access, "GET", apiPath, ""), http.StatusUnauthorized, "invalid_token")
}

// Promise (Platform §2): accounts:act reads and writes a disabled account, whose users cannot;
// disabling and revoking end the tokens that are bound to it, and a new one may be had
func TestActingForADisabledAccount(t *testing.T) {
	h := parallelHouse(t)
	p := actsForAll(t, h)
	all, one := p.access(t), p.access(t, "account", h.account)
	user := h.pair(t)
	hook := members(t, h.call(t, all, "POST", hooksPath, `{"url":"https://hooks.example/1"}`, actingFor(h.account)))["id"].(string)
	must.Get(h.DisableAccount(t.Context(), h.account))(t)
	wantError(t, h.call(t, all, "POST", hooksPath+"/"+hook+"/test", "", actingFor(h.account)), http.StatusConflict, "conflict")
	if h.accessLives(t, user) {
		t.Error("a token of a user lives")
	}
	wantError(t, h.call(t, one, "GET", apiPath, ""), http.StatusUnauthorized, "invalid_token")
	again := p.access(t, "account", h.account)
	for id, access := range map[string]string{"c1": all, "c2": again} {
		wantStatus(t, h.call(t, access, "PUT", "/api/resources/customer/"+id, `{}`, actingFor(h.account)), http.StatusCreated)
		wantStatus(t, h.call(t, access, "GET", apiPath, "", actingFor(h.account)), http.StatusOK)
	}
	must.Get(h.EnableAccount(t.Context(), h.account))(t)
	wantError(t, h.call(t, one, "GET", apiPath, ""), http.StatusUnauthorized, "invalid_token")
	must.Get(h.RevokeAccount(t.Context(), h.account))(t)
	wantError(t, h.call(t, again, "GET", apiPath, ""), http.StatusUnauthorized, "invalid_token")
	wantStatus(t, h.call(t, all, "GET", apiPath, "", actingFor(h.account)), http.StatusOK)
	last := p.access(t, "account", h.account)
	for _, u := range must.Get(h.ListUsers(t.Context(), "", 9))(t) {
		must.Do(t, h.DeleteUser(t.Context(), u.Username))
	}
	must.Do(t, h.DeleteAccount(t.Context(), h.account))
	must.Get(h.CreateAccount(t.Context(), h.account, ""))(t)
	wantError(t, h.call(t, last, "GET", apiPath, ""), http.StatusUnauthorized, "invalid_token")
}

// TestAnAccountErasedWhileActing erases it after the header was checked.
//
// Promise (Platform §8, §16): an account erased between the header's check and the write is 404
// and not created again
func TestAnAccountErasedWhileActing(t *testing.T) {
	for _, route := range dataRoutes {
		if route.method == "GET" {
			continue
		}
		t.Run(route.method+route.path, func(t *testing.T) {
			h := parallelHouse(t)
			p := actsForAll(t, h)
			must.Get(h.CreateAccount(t.Context(), "acct_gone", ""))(t)
			access := p.access(t)
			wantStatus(t, h.call(t, access, "PUT", "/api/resources/customer/c1", `{}`, actingFor("acct_gone")), http.StatusCreated)
			path := route.path
			if strings.HasPrefix(path, hooksPath+"/") {
				e, a := h.hook(t, p.access(t, "account", "acct_gone"), "POST", "", `{"url":"https://hooks.example/2"}`)
				wantStatus(t, a, http.StatusCreated)
				path = hooksPath + "/" + e.ID
			}
			h.Rest()
			h.Faults.OnUpdate(func(run func() error) error { // the header was checked
				h.Faults.Repair()
				if err := h.DeleteAccount(t.Context(), "acct_gone"); err != nil {
					t.Errorf("DeleteAccount() = %v", err)
				}
				return run()
			})
			a := h.call(t, access, route.method, path, route.body, actingFor("acct_gone"))
			wantError(t, a, http.StatusNotFound, "unknown_account")
			if _, err := h.FindAccount(t.Context(), "acct_gone"); err == nil {
				t.Error("the account is there again")
			}
			if n := h.Count(t, 'o'); n != 0 {
				t.Errorf("%d resources are left", n)
			}
		})
	}
}

// Promise (Platform §1): the desk shows, disables and rotates a platform client; it creates, widens,
// enables none
func TestPlatformClientAtTheDesk(t *testing.T) {
	h, b := deskHouse(t)
	c, first := h.Client(t, storetest.Platform("accounts:act", "events:read"))
	page := b.get(t, "/desk/clients")
	if marks := strings.Count(page.body, " data-platform"); marks != 1 || !strings.Contains(page.body, `data-client="`+c.ID+`"`) {
		t.Errorf("%d clients are marked as platform clients, want one: %.3000s", marks, page.body)
	}
	path := "/desk/clients/" + c.ID
	page = b.get(t, path)
	for _, want := range []string{`data-scope="accounts:act"`, `data-scope="events:read"`, "tollhouse client update \\\n  --scope SCOPE " + c.ID, "All data of all merchants"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("its page lacks %s", want)
		}
	}
	for _, no := range []string{`data-do="update-client"`, "data-scope=\"users:write\""} {
		if strings.Contains(page.body, no) {
			t.Errorf("its page has %s", no)
		}
	}
	_, fields := deskForm(t, page, "rotate-secret")
	forged := url.Values{"form_token": fields["form_token"], "name": {"Wider"}, "grants": {"client_credentials"}, "scopes": {"accounts:act", "users:write"}, "sure": {"true"}}
	wantStatus(t, b.post(t, path, forged), http.StatusForbidden)
	create := b.get(t, "/desk/new-client")
	action, making := deskForm(t, create, "create-client")
	making["scopes"], making["grants"] = []string{"users:write"}, []string{"client_credentials"}
	for name, value := range map[string]string{"name": "Mine", "account": "acct_x", "platform": "on"} {
		making.Set(name, value)
	}
	wantStatus(t, b.post(t, action, making), http.StatusBadRequest)
	now := must.Get(h.FindClient(t.Context(), c.ID))(t)
	if now.Name != c.Name || now.Scope != c.Scope {
		t.Errorf("it is now %+v", now)
	}
	if clients := must.Get(h.ListClients(t.Context(), "", 9))(t); len(clients) != 2 {
		t.Errorf("there are %d clients, want two", len(clients))
	}
	must.Get(h.AuthenticateClient(t.Context(), c.ID, first.Reveal(), nil))(t)
	rotated := b.sent(t, path, "rotate-secret")
	must.Get(h.AuthenticateClient(t.Context(), c.ID, marked(t, rotated, "data-secret"), nil))(t)
	wantStatus(t, b.sent(t, path, "disable"), http.StatusSeeOther)
	if strings.Contains(b.get(t, path).body, `data-do="enable"`) {
		t.Error("the page offers to enable it")
	}
	wantStatus(t, b.post(t, path+"/enable", forged), http.StatusForbidden)
	if now := must.Get(h.FindClient(t.Context(), c.ID))(t); now.DisabledAt.IsZero() || now.Scope != c.Scope {
		t.Errorf("it is now %+v, want it disabled with its scopes", now)
	}
}
