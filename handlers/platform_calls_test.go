package handlers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// platformTargets are records that calls can be about.
type platformTargets struct {
	account, user, invited, client, family string
}

// newTargets makes records that nothing else is about.
func newTargets(t testing.TB, h *house, n int) platformTargets {
	t.Helper()
	name := fmt.Sprintf("target%d", n)
	account := "acct_" + name
	u := h.User(t, name, account)
	invited, _, err := h.CreateUser(t.Context(), store.UserSpec{Username: "invited" + name, Account: account, Code: true})
	must.Do(t, err)
	c, _ := h.Client(t, func(s *store.ClientSpec) { s.Grants = []string{"authorization_code", "refresh_token"} })
	issued := must.Get(h.IssueForPassword(t.Context(), store.By{}, h.client, u, store.ScopeUnstated))(t)
	found := h.inspected(t, issued.AccessToken.Reveal())
	return platformTargets{account, u.Subject(), invited.Subject(), c.ID, found["family_id"].(string)}
}

// in fills the names of a path in.
func (p platformTargets) in(path string) string {
	return strings.NewReplacer(":account", p.account, ":user_id", p.user, ":client_id", p.client, ":family_id", p.family).Replace(path)
}

// platformScopes are the calls and the scopes that let a client make them: the table of the
// documentation.
var platformScopes = []struct{ call, scopes, body string }{
	{"GET ", "accounts:read users:read clients:read tokens:read accounts:write accounts:act accounts:erase users:write users:recover clients:write tokens:revoke audit:read", ""},
	{"GET /openapi.json", "accounts:read users:read clients:read tokens:read accounts:write accounts:act accounts:erase users:write users:recover clients:write tokens:revoke audit:read", ""},
	{"GET /accounts", "accounts:read", ""},
	{"GET /accounts/:account", "accounts:read", ""},
	{"PUT /accounts/:account", "accounts:write", `{"name":"Aster"}`},
	{"POST /accounts/:account/disable", "accounts:write", ""},
	{"POST /accounts/:account/enable", "accounts:write", ""},
	{"POST /accounts/:account/revoke", "accounts:write", ""},
	{"DELETE /accounts/:account", "accounts:erase", ""},
	{"GET /users", "users:read", ""},
	{"POST /users", "users:write", `{"username":"NEW","account":"ACCOUNT"}`},
	{"GET /users/:user_id", "users:read", ""},
	{"PATCH /users/:user_id", "users:write", `{"username":"NEW"}`},
	{"DELETE /users/:user_id", "accounts:erase", ""},
	{"POST /users/:user_id/code", "users:recover", ""}, // of a user with a password
	{"POST /users/:user_id/reset-second-factor", "users:recover", ""},
	{"POST /users/:user_id/disable", "users:write", ""},
	{"POST /users/:user_id/enable", "users:write", ""},
	{"POST /users/:user_id/revoke", "users:write", ""},
	{"GET /clients", "clients:read", ""},
	{"POST /clients", "clients:write", `{"name":"Aster","redirect_uris":["https://app.example/cb"]}`},
	{"GET /clients/:client_id", "clients:read", ""},
	{"PUT /clients/:client_id", "clients:write", `{"name":"Aster","redirect_uris":["https://app.example/cb"]}`},
	{"PATCH /clients/:client_id", "clients:write", `{"name":"Aster"}`},
	{"DELETE /clients/:client_id", "accounts:erase", ""},
	{"POST /clients/:client_id/rotate-secret", "clients:write", ""},
	{"POST /clients/:client_id/disable", "clients:write", ""},
	{"POST /clients/:client_id/enable", "clients:write", ""},
	{"POST /clients/:client_id/revoke", "clients:write", ""},
	{"GET /authorizations", "tokens:read", ""},
	{"POST /authorizations/:family_id/revoke", "tokens:revoke", ""},
	{"GET /audit", "audit:read", ""},
	{"GET /events", "", ""}, // needs two
}

// TestEachScopeAlone tries every call with each scope alone, as a reviewer would: only the
// calls of the table succeed, and a refused one changes nothing.
//
// Promise (Platform §1): with each scope alone every call is tried, and only those that the table
// allows succeed; the 403 names the scope, and nothing changes
func TestEachScopeAlone(t *testing.T) {
	h := parallelHouse(t)
	h.Rest() // only the requests write from now on
	refusedOn, n := newTargets(t, h, 0), 0
	for _, scope := range slices.Concat(store.PlatformScopeNames(), store.ScopeNames()) {
		access := newPlatform(t, h, scope).access(t)
		h.call(t, access, "GET", apiPath, "") // its first use is recorded
		for _, row := range platformScopes {
			method, path, _ := strings.Cut(row.call, " ")
			allowed := slices.Contains(strings.Fields(row.scopes), scope)
			on := refusedOn
			if n++; allowed && strings.Contains(row.call, ":") || allowed && method == "POST" {
				on = newTargets(t, h, n)
			}
			if allowed && row.call == "DELETE /accounts/:account" {
				on.account = fmt.Sprintf("acct_empty%d", n)
				must.Get(h.CreateAccount(t.Context(), on.account, ""))(t)
			}
			body := strings.NewReplacer("NEW", fmt.Sprintf("new%d", n), "ACCOUNT", on.account).Replace(row.body)
			before := h.kept(t)
			a := h.call(t, access, method, web.PlatformPath+on.in(path), body)
			switch {
			case allowed && a.StatusCode >= 300:
				t.Errorf("%s with %s = %d %s, want it done", row.call, scope, a.StatusCode, a.body)
			case !allowed:
				description := wantError(t, a, http.StatusForbidden, "insufficient_scope")
				named := strings.Fields(row.scopes)
				if row.call == "GET /events" {
					named = slices.DeleteFunc([]string{"accounts:act", "events:read"}, func(name string) bool { return name == scope })
					if scope == "events:read" {
						named = []string{"accounts:act"}
					}
				}
				if row.call == "POST /users/:user_id/code" && scope != "users:write" {
					named = append(named, "users:write")
				}
				for _, name := range named {
					if !strings.Contains(description, name) || !strings.Contains(a.Header.Get("WWW-Authenticate"), name) {
						t.Errorf("%s with %s: %q, want %s named", row.call, scope, description, name)
					}
				}
				if now := h.kept(t); now != before {
					t.Errorf("%s with %s is refused, and leaves %d records of %d", row.call, scope, now, before)
				}
			}
		}
	}
	wantNoKeyTwice(t, h.log.String())
	t.Run("the_log_has_the_caller_apart_from_the_object", func(t *testing.T) {
		p := newPlatform(t, h, "clients:write")
		wantStatus(t, h.call(t, p.access(t), "PATCH", "/api/platform/clients/"+refusedOn.client, `{"name":"Aster"}`), http.StatusOK)
		line := lastLine(h.log.String(), `"route":"/api/platform/clients/:client_id"`)
		if !strings.Contains(line, `"actor_client_id":"`+p.client.ID+`"`) || !strings.Contains(line, `"client_id":"`+refusedOn.client+`"`) {
			t.Errorf("the log line is %s", line)
		}
	})
	t.Run("every_call_is_tried", func(t *testing.T) {
		var tried []string
		for _, row := range platformScopes {
			tried = append(tried, row.call)
		}
		for _, route := range admin.PlatformRoutes() {
			if !slices.Contains(tried, route) {
				t.Errorf("%s is not tried", route)
			}
		}
		if routes := admin.PlatformRoutes(); len(routes) != len(tried) {
			t.Errorf("%d calls are tried, and there are %d", len(tried), len(routes))
		}
	})
}

// wantNoKeyTwice checks that no line of a log has a key twice: readers keep one of them.
func wantNoKeyTwice(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		d, seen := json.NewDecoder(strings.NewReader(line)), map[string]bool{}
		must.Get(d.Token())(t)
		for d.More() {
			key := must.Get(d.Token())(t).(string)
			if seen[key] {
				t.Errorf("%s has %s twice", line, key)
			}
			seen[key] = true
			var value json.RawMessage
			must.Do(t, d.Decode(&value))
		}
	}
}

// Promise (Platform §3): a name in the body that the path has too may be there if it is the same; else
// 409 conflict
func TestNamesOfThePathInTheBody(t *testing.T) {
	h := parallelHouse(t)
	_, access := managesAll(t, h)
	on := newTargets(t, h, 1)
	for _, tt := range []struct{ method, path, name, members string }{
		{"PUT", "/accounts/" + on.account, "account", `,"name":"Aster"`},
		{"PUT", "/clients/" + on.client, "client_id", `,"name":"Aster","redirect_uris":["https://app.example/cb"]`},
		{"PATCH", "/clients/" + on.client, "client_id", `,"name":"Aster"`},
		{"POST", "/clients/" + on.client + "/rotate-secret", "client_id", ``},
	} {
		for value, status := range map[string]int{on.account: http.StatusConflict, on.client: http.StatusConflict} {
			if strings.Contains(tt.path, value) {
				status = http.StatusOK
			}
			a := h.call(t, access, tt.method, web.PlatformPath+tt.path, `{"`+tt.name+`":"`+value+`"`+tt.members+`}`)
			if wantStatus(t, a, status); status != http.StatusOK && members(t, a)["param"] != tt.name {
				t.Errorf("%s %s: %s", tt.method, tt.path, a.body)
			}
		}
	}
}

// TestDeskAndPlatformChangeOneUser is the race of an operator and a program: each of their changes is
// made on what is there then.
//
// Promise (Platform §8, §16): the desk and the API change the same user at the same time: none of the
// changes is lost, a condition holds in the change, and each has its line with who did it
func TestDeskAndPlatformChangeOneUser(t *testing.T) {
	h, b := deskHouse(t)
	p := newPlatform(t, h, "users:write", "users:read")
	access := p.access(t)
	on := newTargets(t, h, 1)
	path, page := "/api/platform/users/"+on.user, "/desk/users/"+on.user
	tag := h.call(t, access, "GET", path, "").Header.Get("ETag")
	action, fields := deskForm(t, b.get(t, page), "disable")
	disable := func() {
		if a := b.post(t, action, fields); strings.Contains(a.body, `data-do="sure"`) {
			action, fields = deskForm(t, a, "sure")
			wantStatus(t, b.post(t, action, fields), http.StatusSeeOther)
		}
	}
	h.Rest() // only the requests write from now on
	h.beforeTheChange(disable)
	wantError(t, h.call(t, access, "PATCH", path, `{"username":"nora"}`, header("If-Match", tag)), http.StatusPreconditionFailed, "precondition_failed")
	if u := must.Get(h.FindUserBySubject(t.Context(), on.user))(t); u.DisabledAt.IsZero() || u.Username == "nora" {
		t.Errorf("the user is %+v, want them disabled and not renamed", u)
	}
	before := must.Get(h.FindUserBySubject(t.Context(), on.user))(t).Revision
	const each = 20
	lines := h.recorded(t, func() {
		var all sync.WaitGroup
		all.Go(func() {
			for i := range each {
				if a := h.call(t, access, "PATCH", path, fmt.Sprintf(`{"username":"nora%d"}`, i)); a.StatusCode != http.StatusOK {
					t.Errorf("rename = %d %s", a.StatusCode, a.body)
				}
			}
		})
		for i := range each {
			do := []string{"enable", "disable"}[i%2]
			b.sent(t, page, do)
		}
		all.Wait()
	})
	u := must.Get(h.FindUserBySubject(t.Context(), on.user))(t)
	if u.Revision != before+2*each || u.Username != fmt.Sprint("nora", each-1) || u.DisabledAt.IsZero() {
		t.Errorf("after %d changes revision %d is %d: %+v", 2*each, before, u.Revision, u)
	}
	by := map[bool]int{}
	for _, l := range lines {
		if l.What == store.AuditAdmin && l.UserID == on.user {
			by[l.Actor.ClientID == p.client.ID]++
		}
	}
	if by[true] != each || by[false] != each {
		t.Errorf("the lines are %v, want %d by each", by, each)
	}
}

// Promise (Platform §3): a code for a user without a password needs users:write, for one with it
// users:recover, which does not reach the others; the 403 names the scope
func TestCodesByPlatformClients(t *testing.T) {
	h := parallelHouse(t)
	on := newTargets(t, h, 1)
	writes, recovers := newPlatform(t, h, "users:write").access(t), newPlatform(t, h, "users:recover").access(t)
	code := func(access, user string) answer {
		return h.call(t, access, "POST", "/api/platform/users/"+user+"/code", "")
	}
	for name, a := range map[string]answer{"invited": code(writes, on.invited), "recovered": code(recovers, on.user)} {
		made := shownTo(t, a, http.StatusOK)
		if len(made) != 4 || made["user_id"] == "" || made["expires_at"] == 0.0 || made["code"] == "" || made["url"] != publicURL+"/new-password" || strings.Contains(a.body, "hint") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	for scope, a := range map[string]answer{"users:recover": code(writes, on.user), "users:write": code(recovers, on.invited)} {
		if description := wantError(t, a, http.StatusForbidden, "insufficient_scope"); !strings.Contains(description, scope) {
			t.Errorf("%q, want %s named", description, scope)
		}
	}
	t.Run("by_the_scopes_of_now", func(t *testing.T) {
		p := newPlatform(t, h, "users:write", "users:recover")
		narrowed := func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(readBy(func() {
				must.Get(h.UpdateClient(t.Context(), p.client.ID, store.ClientChange{Scopes: &[]string{"users:write"}}))(t)
			}), r.Body))
		}
		a := h.call(t, p.access(t), "POST", "/api/platform/users/"+on.user+"/code", "{}", narrowed)
		wantError(t, a, http.StatusForbidden, "insufficient_scope")
	})
	null := shownTo(t, h.call(t, writes, "POST", "/api/platform/users", `{"username":"nora","account":"`+on.account+`","code":null,"password":null}`), http.StatusCreated)
	if null["code"] == nil {
		t.Errorf("null is not absent: %v", null)
	}
	wantStatus(t, h.call(t, writes, "POST", "/api/platform/users/"+on.invited+"/disable", ""), http.StatusOK)
	wantError(t, code(writes, on.invited), http.StatusConflict, "conflict")
}

// readBy is an empty reader that calls a function.
type readBy func()

func (f readBy) Read([]byte) (int, error) { f(); return 0, io.EOF }

// everything is a platform client with every platform scope.
func managesAll(t testing.TB, h *house) (p *platform, access string) {
	t.Helper()
	p = newPlatform(t, h, slices.Concat(store.ScopeNames(), store.PlatformScopeNames())...)
	return p, p.access(t)
}

// Promise (Platform §3): an operator, a platform client and one that introspects are read and never
// changed here: 403 protected, itself included, and no code
// Promise (Platform §8, §16): a platform token changes neither itself nor another nor an
// introspecting client
func TestProtectedFromPlatformClients(t *testing.T) {
	h := parallelHouse(t)
	p, access := managesAll(t, h)
	on := newTargets(t, h, 1)
	operator := h.operator(t, "olga")
	other, _ := h.Client(t, storetest.Platform("audit:read"))
	introspects, _ := h.Client(t, func(c *store.ClientSpec) { c.Introspect = true })
	for _, user := range []string{operator.Subject()} {
		on.user = user
		wantStatus(t, h.call(t, access, "GET", "/api/platform/users/"+user, ""), http.StatusOK)
	}
	for _, client := range []string{p.client.ID, other.ID, introspects.ID} {
		on.client = client
		shown := shownTo(t, h.call(t, access, "GET", "/api/platform/clients/"+client, ""), http.StatusOK)
		if shown["platform"] != (client != introspects.ID) {
			t.Errorf("shown as %v", shown)
		}
		for _, row := range platformScopes {
			method, path, _ := strings.Cut(row.call, " ")
			if method == "GET" || !strings.Contains(path, "/:user_id") && !strings.Contains(path, "/:client_id") {
				continue
			}
			before := h.kept(t)
			a := h.call(t, access, method, web.PlatformPath+on.in(path), strings.ReplaceAll(row.body, "NEW", "olga2"))
			wantError(t, a, http.StatusForbidden, "protected")
			if strings.Contains(a.body, "code") || h.kept(t) != before {
				t.Errorf("%s on %s: %s, want nothing done", row.call, on.in(path), a.body)
			}
		}
	}
	if u := must.Get(h.FindUser(t.Context(), "olga"))(t); !u.Operator || !u.DisabledAt.IsZero() || u.Revision != operator.Revision {
		t.Errorf("the operator is %+v now", u)
	}
	for _, c := range []store.Client{p.client, other, introspects} {
		if now := must.Get(h.FindClient(t.Context(), c.ID))(t); now.Revision != c.Revision {
			t.Errorf("%s has revision %d, want %d", c.ID, now.Revision, c.Revision)
		}
	}
}

// Promise (Platform §3): tokens:revoke alone ends every authorization, also of an operator, another
// platform client and one that introspects, and changes neither the user nor the client
func TestAuthorizationsOfAnybodyAreRevoked(t *testing.T) {
	h := parallelHouse(t)
	access := newPlatform(t, h, "tokens:revoke").access(t)
	operator := h.operator(t, "olga")
	introspects, _ := h.Client(t, func(c *store.ClientSpec) { c.Introspect = true })
	ofOperator := must.Get(h.IssueForPassword(t.Context(), store.By{}, introspects, operator, store.ScopeUnstated))(t)
	other := newPlatform(t, h, "audit:read")
	for _, token := range []string{ofOperator.AccessToken.Reveal(), other.access(t)} {
		family := h.inspected(t, token)["family_id"].(string)
		wantStatus(t, h.call(t, access, "POST", "/api/platform/authorizations/"+family+"/revoke", ""), http.StatusOK)
		wantError(t, h.call(t, token, "GET", "/api/platform", ""), http.StatusUnauthorized, "invalid_token")
	}
	if now := must.Get(h.FindUser(t.Context(), "olga"))(t); now.Revision != operator.Revision || now.Generation != operator.Generation {
		t.Errorf("the operator is %+v now", now)
	}
	for _, c := range []store.Client{introspects, other.client} {
		if now := must.Get(h.FindClient(t.Context(), c.ID))(t); now.Revision != c.Revision {
			t.Errorf("%s has revision %d, want %d", c.ID, now.Revision, c.Revision)
		}
	}
	other.access(t)
}

// Promise (Platform §3): clients:write alone neither makes nor changes a client that has access
// without its users' consent; with accounts:act, none with a scope that the caller lacks
// Promise (Platform §8, §16): a right to create clients is no right to data
func TestClientsThatGrantThemselvesAccess(t *testing.T) {
	h := parallelHouse(t)
	must.Get(h.CreateAccount(t.Context(), "acct_x", ""))(t)
	byGrant := func(grant string, scopes ...string) store.Client {
		c, _ := h.Client(t, func(c *store.ClientSpec) {
			c.Scopes, c.Grants = scopes, []string{grant}
			if c.Account = ""; grant == "client_credentials" {
				c.Account, c.RedirectURIs = "acct_x", nil
			}
		})
		return c
	}
	consented, _ := h.Client(t, func(c *store.ClientSpec) { c.Grants = []string{"authorization_code"} })
	const machine = `{"name":"M","grants":["client_credentials"],"account":"acct_x","scopes":["events:read"]}`
	const password = `{"name":"M","grants":["password"],"scopes":["events:read"]}`
	const unstated = `{"name":"M","grants":["password"]}`
	for _, tt := range []struct {
		name   string
		scopes []string
		lacks  string // "" if all is done
	}{
		{"clients:write alone", []string{"clients:write"}, "accounts:act"},
		{"without the data scope", []string{"clients:write", "accounts:act", "resources:read"}, "events:read"},
		{"with both", []string{"clients:write", "accounts:act", "events:read"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			access := newPlatform(t, h, tt.scopes...).access(t)
			bound, typed := byGrant("client_credentials", "events:read"), byGrant("password", "events:read")
			judge := func(name string, a answer, lacks string) {
				t.Helper()
				if lacks == "" {
					if a.StatusCode >= 300 {
						t.Errorf("%s = %d %s, want it done", name, a.StatusCode, a.body)
					}
				} else if description := wantError(t, a, http.StatusForbidden, "insufficient_scope"); !strings.Contains(description, lacks) {
					t.Errorf("%s: %q, want %s named", name, description, lacks)
				}
			}
			send := func(method, path, body string) answer {
				return h.call(t, access, method, "/api/platform/clients"+path, body)
			}
			judge("POST a machine", send("POST", "", machine), tt.lacks)
			judge("POST a password", send("POST", "", password), tt.lacks)
			judge("PUT a new one", send("PUT", "/own-"+strings.Fields(tt.name)[0], machine), tt.lacks)
			judge("PATCH to a password", send("PATCH", "/"+consented.ID, `{"grants":["authorization_code","password"],"scopes":["events:read"]}`), tt.lacks)
			for _, c := range []store.Client{bound, typed} {
				judge("PATCH the name", send("PATCH", "/"+c.ID, `{"name":"N"}`), tt.lacks)
				judge("narrow it to consent", send("PATCH", "/"+c.ID, `{"grants":["authorization_code"],"redirect_uris":["https://app.example/cb"],"account":null}`), tt.lacks)
			}
			for _, c := range []store.Client{byGrant("client_credentials", "events:read"), byGrant("password", "events:read")} {
				judge("rotate", send("POST", "/"+c.ID+"/rotate-secret", ""), tt.lacks)
				judge("disable", send("POST", "/"+c.ID+"/disable", ""), "")
				judge("enable", send("POST", "/"+c.ID+"/enable", ""), tt.lacks)
			}
			if tt.lacks != "" {
				for _, account := range []string{"acct_x", "acct_never"} { // which of them exists stays unknown
					judge("bind it to "+account, send("PATCH", "/"+consented.ID, `{"grants":["client_credentials"],"redirect_uris":[],"account":"`+account+`"}`), tt.lacks)
				}
			}
			if tt.lacks == "" {
				judge("POST without scopes is all of them", send("POST", "", unstated), "resources:write")
				wider := byGrant("password", "events:read", "webhooks:write")
				judge("rotate one with more", send("POST", "/"+wider.ID+"/rotate-secret", ""), "webhooks:write")
				judge("widen", send("PATCH", "/"+typed.ID, `{"grants":["password"],"scopes":["resources:write"]}`), "resources:write")
			}
			judge("one with consent may have any scope", send("POST", "", `{"name":"C","redirect_uris":["https://app.example/cb"]}`), "")
		})
	}
	t.Run("the_default_needs_consent", func(t *testing.T) {
		access := newPlatform(t, h, "clients:write").access(t)
		made := shownTo(t, h.call(t, access, "POST", "/api/platform/clients", `{"name":"C","redirect_uris":["https://app.example/cb"]}`), http.StatusCreated)
		if got := fmt.Sprint(made["grants"]); got != "[authorization_code refresh_token]" || made["client_secret"] == nil {
			t.Errorf("made %v", made)
		}
	})
	t.Run("no_platform_scope_and_no_unknown_account", func(t *testing.T) {
		_, access := managesAll(t, h)
		for _, scope := range store.PlatformScopeNames() {
			a := h.call(t, access, "POST", "/api/platform/clients", `{"name":"C","redirect_uris":["https://app.example/cb"],"scopes":["`+scope+`"]}`)
			if wantError(t, a, http.StatusBadRequest, "invalid_scope"); members(t, a)["param"] != "scopes" {
				t.Errorf("%s", a.body)
			}
		}
		a := h.call(t, access, "POST", "/api/platform/clients", strings.ReplaceAll(machine, "acct_x", "acct_typo"))
		if wantError(t, a, http.StatusNotFound, "unknown_account"); members(t, a)["param"] != "account" {
			t.Errorf("%s", a.body)
		}
	})
}

// Promise (Platform §1): a request to /api/platform with an Origin, or that a browser sends for a
// page, is 403 cross_origin before its token is read; no preflight passes; OPTIONS alone is 204
// Promise (Platform §8, §16): pages of another origin and of ours cannot call /api/platform
func TestPagesCannotCallPlatform(t *testing.T) {
	h := parallelHouse(t)
	_, access := managesAll(t, h)
	for name, change := range map[string]func(*http.Request){
		"of another origin": header("Origin", "https://evil.example"), "of ours": header("Origin", publicURL), "of null": header("Origin", "null"), "empty": header("Origin", ""),
		"same-origin": header("Sec-Fetch-Site", "same-origin"), "cross-site": header("Sec-Fetch-Site", "cross-site"),
	} {
		for _, path := range []string{"", "/accounts", "/openapi.json", "/nowhere"} {
			for _, method := range []string{"GET", "PUT", "OPTIONS"} {
				for _, token := range []string{access, "wrong"} {
					a := h.call(t, token, method, web.PlatformPath+path, "", change)
					wantError(t, a, http.StatusForbidden, "cross_origin")
					for name := range a.Header {
						if strings.HasPrefix(name, "Access-Control-") {
							t.Errorf("%s has %s", path, name)
						}
					}
				}
			}
		}
		_ = name
	}
	wantStatus(t, h.call(t, access, "GET", "/api/platform/accounts", "", header("Sec-Fetch-Site", "none")), http.StatusOK)
	if a := h.call(t, access, "OPTIONS", "/api/platform/accounts", ""); a.StatusCode != http.StatusNoContent || !strings.Contains(a.Header.Get("Allow"), "GET") {
		t.Errorf("OPTIONS = %d %v, want 204 with Allow", a.StatusCode, a.Header)
	}
}

// Promise (Platform §2): Tollhouse-Account is 400 on /api/platform, where the account stands in the
// path, the query or the body
// Promise (Platform §3): refusals are those of the API: 401 and 403 by RFC 6750, methods, HEAD, media
// types, repeated and empty parameters, members twice, null
// Promise (Platform §8, §16): user tokens, bound clients and tokens for one account get 403
// insufficient_scope on every platform call
func TestPlatformRefusals(t *testing.T) {
	h := parallelHouse(t)
	h.Rest() // only the requests write from now on
	_, access := managesAll(t, h)
	on := newTargets(t, h, 1)
	bound, sec := h.Client(t, func(c *store.ClientSpec) {
		c.Grants, c.Account, c.RedirectURIs = []string{"client_credentials"}, on.account, nil
	})
	ofBound := h.token(t, with(as(h.credentials(), bound, sec), "grant_type", "client_credentials"))
	acts := actsForAll(t, h)
	for name, token := range map[string]string{
		"a user's": h.pair(t, "scope", "events:read").AccessToken, "an unscoped one": h.pair(t).AccessToken,
		"of a bound client": members(t, ofBound)["access_token"].(string), "for one account": acts.access(t, "account", on.account),
	} {
		h.call(t, token, "GET", apiPath, "") // its first use is recorded
		before := h.kept(t)
		for _, row := range platformScopes {
			method, path, _ := strings.Cut(row.call, " ")
			if a := h.call(t, token, method, web.PlatformPath+on.in(path), row.body); a.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %s token = %d %s", row.call, name, a.StatusCode, a.body)
			} else {
				wantError(t, a, http.StatusForbidden, "insufficient_scope")
			}
		}
		if h.kept(t) != before {
			t.Errorf("%s token changed something", name)
		}
	}
	for _, account := range []string{on.account, "", "*"} {
		a := h.call(t, access, "GET", "/api/platform/accounts", "", actingFor(account))
		if wantError(t, a, http.StatusBadRequest, "invalid_parameter"); members(t, a)["param"] != web.AccountHeader {
			t.Errorf("with the header: %s", a.body)
		}
	}
	wantError(t, h.call(t, "wrong", "GET", "/api/platform/accounts", "", actingFor("*")), http.StatusUnauthorized, "invalid_token")
	wantError(t, h.get(t, "/api/platform/accounts"), http.StatusUnauthorized, "unauthorized")
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/nowhere", "", 404, "not_found"},
		{"PATCH", "/accounts", "{}", 405, "invalid_request"},
		{"GET", "/accounts?limit=0", "", 400, "invalid_parameter"},
		{"GET", "/accounts?limit=1001", "", 400, "invalid_parameter"},
		{"GET", "/accounts?limit=1&limit=2", "", 400, "duplicate_parameter"},
		{"GET", "/accounts?after=", "", 400, "invalid_parameter"},
		{"GET", "/accounts?after=a%00b", "", 400, "invalid_parameter"},
		{"GET", "/clients?after=%00", "", 400, "invalid_parameter"},
		{"GET", "/accounts?name=a", "", 400, "unknown_parameter"},
		{"GET", "/users?usernam=a", "", 400, "unknown_parameter"},
		{"GET", "/audit?operator=olga", "", 400, "unknown_parameter"},
		{"GET", "/audit?source=198.51.100.7", "", 400, "unknown_parameter"},
		{"PUT", "/accounts/acct_n?x=1", "", 400, "unknown_parameter"},
		{"PUT", "/accounts/acct_n", `null`, 400, "invalid_json"},
		{"PUT", "/accounts/Acct", ``, 400, "invalid_parameter"},
		{"PUT", "/accounts/acct_n", `{"account":"acct_m"}`, 409, "conflict"},
		{"PUT", "/clients/own", `{"client_id":"other","name":"C"}`, 409, "conflict"},
		{"PUT", "/clients/tollhouse_mine", `{"name":"C","redirect_uris":["https://app.example/cb"]}`, 400, "invalid_parameter"},
		{"POST", "/users", `{"username":"eve"}`, 400, "invalid_parameter"},
		{"POST", "/users", `{"username":"eve","account":"acct_typo"}`, 404, "unknown_account"},
		{"POST", "/users", `{"username":"eve","account":"acct_typo","password":"correct horse battery","code":false}`, 400, "invalid_parameter"},
		{"POST", "/users", `{"username":"usr_00000000000000000000000000","account":"` + on.account + `"}`, 400, "invalid_parameter"},
		{"PATCH", "/users/" + on.user, `{"username":"usr_00000000000000000000000000"}`, 400, "invalid_parameter"},
		{"PATCH", "/users/" + on.user, `{"username":"MARA"}`, 409, "exists"},
		{"GET", "/accounts/acct_typo", "", 404, "not_found"},
		{"GET", "/users/usr_00000000000000000000000000", "", 404, "not_found"},
		{"GET", "/users/mara", "", 404, "not_found"},
		{"GET", "/clients/nobody", "", 404, "not_found"},
		{"GET", "/clients/..", "", 404, "not_found"},
		{"POST", "/authorizations/fam_00000000000000000000000000/revoke", "", 404, "not_found"},
		{"DELETE", "/accounts/" + on.account, "", 409, "conflict"},
	} {
		before := h.kept(t)
		wantError(t, h.call(t, access, tt.method, web.PlatformPath+tt.path, tt.body), tt.status, tt.code)
		if h.kept(t) != before {
			t.Errorf("%s %s %s is refused, and changed something", tt.method, tt.path, tt.body)
		}
	}
	for _, name := range []string{"operator", "platform", "introspect", "user_id", "generation", "client_secret", "password_hash", "disabled"} {
		for path, body := range map[string]string{"/users": `{"username":"eve","account":"` + on.account + `"`, "/clients": `{"name":"C","redirect_uris":["https://app.example/cb"]`} {
			a := h.call(t, access, "POST", web.PlatformPath+path, body+`,"`+name+`":true}`)
			if wantError(t, a, http.StatusBadRequest, "unknown_field"); members(t, a)["param"] != name {
				t.Errorf("%s in %s: %s", name, path, a.body)
			}
		}
	}
	if a := h.call(t, access, "PUT", "/api/platform/accounts/acct_n", `{"name":"a","name":"b"}`); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "invalid_json") {
		t.Errorf("a member twice: %d %s", a.StatusCode, a.body)
	}
	if a := h.call(t, access, "POST", "/api/platform/users", `{"usernme":"eve"}`); !strings.Contains(a.body, "did you mean username?") {
		t.Errorf("a slip: %s", a.body)
	}
	wantError(t, h.call(t, access, "POST", "/api/platform/clients", "name=C", header("Content-Type", formType)), http.StatusUnsupportedMediaType, "unsupported_media_type")
	wantError(t, h.call(t, access, "POST", "/api/platform/clients", `{"name":"`+strings.Repeat("x", web.FormSizeMax)+`"}`), http.StatusRequestEntityTooLarge, "too_large")
	wantError(t, h.call(t, access, "GET", "/api/platform/accounts", "", header("Accept", "text/csv")), http.StatusNotAcceptable, "not_acceptable")
	if a := h.call(t, access, "HEAD", "/api/platform/accounts", ""); a.StatusCode != http.StatusOK {
		t.Errorf("HEAD = %d", a.StatusCode)
	}
}

// Promise (Platform §3): natural keys in place of idempotency keys: a repeated PUT changes nothing, a
// repeated user is 409 exists with its id if it is in the account that the body names
// Promise (Platform §3): GET of one has an ETag, its revision; If-Match on a change is 412 if it
// differs, also on a PUT of one that is not there; what changes nothing keeps it
func TestPlatformVersionsAndRepeats(t *testing.T) {
	h := parallelHouse(t)
	_, access := managesAll(t, h)
	on := newTargets(t, h, 1)
	send := func(method, path, body string, change ...func(*http.Request)) answer {
		return h.call(t, access, method, web.PlatformPath+path, body, change...)
	}
	put := send("PUT", "/accounts/acct_n", `{"name":"Aster"}`)
	wantStatus(t, put, http.StatusCreated)
	for range 2 {
		if again := send("PUT", "/accounts/acct_n", `{"name":"Aster"}`); again.StatusCode != http.StatusOK || again.Header.Get("ETag") != put.Header.Get("ETag") || again.body != put.body {
			t.Errorf("a repeated PUT = %d %s %s", again.StatusCode, again.Header.Get("ETag"), again.body)
		}
	}
	const client = `{"name":"C","redirect_uris":["https://app.example/cb"]}`
	made := send("PUT", "/clients/own", client)
	wantStatus(t, made, http.StatusCreated)
	if again := send("PUT", "/clients/own", client); again.StatusCode != http.StatusOK || again.Header.Get("ETag") != made.Header.Get("ETag") || strings.Contains(again.body, "secret") {
		t.Errorf("a repeated PUT = %d %s", again.StatusCode, again.body)
	}
	if replaced := shownTo(t, send("PUT", "/clients/own", `{"name":"C2","redirect_uris":["https://app.example/cb2"],"scopes":["events:read"]}`), http.StatusOK); replaced["name"] != "C2" || fmt.Sprint(replaced["redirect_uris"]) != "[https://app.example/cb2]" {
		t.Errorf("replaced: %v", replaced)
	}
	wantStatus(t, send("POST", "/users", `{"username":"eve","account":"acct_n"}`), http.StatusCreated)
	for account, named := range map[string]bool{"acct_n": true, on.account: false} {
		a := send("POST", "/users", `{"username":"EVE","account":"`+account+`"}`)
		var body map[string]any
		must.Do(t, json.Unmarshal([]byte(a.body), &body))
		if a.StatusCode != http.StatusConflict || body["error"] != "exists" || (body["user_id"] == h.UserID(t, "eve")) != named {
			t.Errorf("again for %s: %s", account, a.body)
		}
	}
	for _, path := range []string{"/accounts/" + on.account, "/users/" + on.user, "/clients/" + on.client} {
		tag := send("GET", path, "").Header.Get("ETag")
		if !strings.HasPrefix(tag, `"`) {
			t.Fatalf("%s has the ETag %q, want a strong one", path, tag)
		}
		wantError(t, send("POST", path+"/disable", "", header("If-Match", `"1x"`)), http.StatusPreconditionFailed, "precondition_failed")
		wantError(t, send("DELETE", path, "", header("If-Match", `"1x"`)), http.StatusPreconditionFailed, "precondition_failed")
		disabled := send("POST", path+"/disable", "", header("If-Match", tag))
		if disabled.StatusCode != http.StatusOK || disabled.Header.Get("ETag") == tag || send("GET", path, "").Header.Get("ETag") != disabled.Header.Get("ETag") {
			t.Errorf("disable %s = %d %s, from %s", path, disabled.StatusCode, disabled.Header.Get("ETag"), tag)
		}
		if again := send("POST", path+"/disable", ""); again.Header.Get("ETag") != disabled.Header.Get("ETag") {
			t.Errorf("%s is disabled again, and has another ETag", path)
		}
		wantError(t, send("POST", path+"/enable", "", header("If-Match", tag)), http.StatusPreconditionFailed, "precondition_failed")
		wantStatus(t, send("POST", path+"/enable", "", header("If-Match", disabled.Header.Get("ETag"))), http.StatusOK)
		wantStatus(t, send("POST", path+"/revoke", "", header("If-Match", "*")), http.StatusOK)
	}
	before := send("GET", "/users/"+on.invited, "").Header.Get("ETag")
	if after := send("POST", "/users/"+on.invited+"/code", "").Header.Get("ETag"); after == before {
		t.Error("a new code keeps the ETag")
	}
	for path, body := range map[string]string{"/accounts/acct_none": "", "/clients/none": client} {
		wantError(t, send("PUT", path, body, header("If-Match", "*")), http.StatusPreconditionFailed, "precondition_failed")
		wantError(t, send("GET", path, ""), http.StatusNotFound, "not_found")
		wantStatus(t, send("PUT", path, body, header("If-None-Match", "*")), http.StatusCreated)
		wantError(t, send("PUT", path, body, header("If-None-Match", "*")), http.StatusPreconditionFailed, "precondition_failed")
	}
	renamed := shownTo(t, send("PATCH", "/users/"+on.user, `{"username":"renamed"}`), http.StatusOK)
	if renamed["username"] != "renamed" || renamed["user_id"] != on.user {
		t.Errorf("renamed: %v", renamed)
	}
}

// Promise (Platform §3): a client id has 1 to 255 visible characters; in a path it is percent-encoded
// once, and the router looks at the escaped path; `.` and `..` are no ids
func TestClientIDsInPaths(t *testing.T) {
	h := parallelHouse(t)
	_, access := managesAll(t, h)
	const client = `{"name":"C","redirect_uris":["https://app.example/cb"]}`
	for _, id := range []string{"a/b", "https://app.example/?a=b&c#d", "%2F", "a%2Fb", "..%2f", ":client_id", "*", "~", strings.Repeat("x", 255), "a/disable"} {
		path := "/api/platform/clients/" + url.PathEscape(id)
		made := shownTo(t, h.call(t, access, "PUT", path, client), http.StatusCreated)
		if made["client_id"] != id {
			t.Errorf("%s is %v", path, made["client_id"])
		}
		for _, method := range []string{"GET", "HEAD", "PATCH"} {
			wantStatus(t, h.call(t, access, method, path, ""), http.StatusOK)
		}
		wantStatus(t, h.call(t, access, "POST", path+"/disable", ""), http.StatusOK)
		if found := must.Get(h.FindClient(t.Context(), id))(t); found.DisabledAt.IsZero() {
			t.Errorf("%s is not disabled", id)
		}
		wantStatus(t, h.admin(t, "DELETE", path, ""), http.StatusNoContent)
	}
	for _, id := range []string{".", "..", strings.Repeat("x", 256), "%20", "%C3%A9", "%00"} {
		wantError(t, h.call(t, access, "PUT", "/api/platform/clients/"+id, client), http.StatusBadRequest, "invalid_parameter")
		wantError(t, h.call(t, access, "GET", "/api/platform/clients/"+id, ""), http.StatusNotFound, "not_found")
	}
	wantError(t, h.call(t, access, "GET", "/api/platform/clients/", ""), http.StatusNotFound, "not_found")
	wantError(t, h.call(t, access, "GET", "/api/platform%2Fclients", ""), http.StatusNotFound, "not_found")
	wantStatus(t, h.call(t, access, "GET", "/api/%70latform/clients", ""), http.StatusOK)
}

// Promise (Platform §3): lists are walked by immutable ids, 1 to 1,000 at a time, 50 by default; a name
// is exact in any spelling, and a filter that names nobody gives an empty list
func TestPlatformLists(t *testing.T) {
	h := parallelHouse(t)
	_, access := managesAll(t, h)
	on := newTargets(t, h, 1)
	for i := range 60 {
		h.User(t, fmt.Sprintf("walker%d", i), "acct_walk")
	}
	ids := func(query, member string) []string {
		t.Helper()
		return listOf(t, h.call(t, access, "GET", web.PlatformPath+query, ""), member)
	}
	if got := ids("/users?account=acct_walk", "user_id"); len(got) != 50 || !slices.IsSorted(got) {
		t.Errorf("a page has %d users, want 50 in order", len(got))
	}
	var walked []string
	for i, query := 0, "?account=acct_walk&limit=7"; query != ""; i++ {
		page := shownTo(t, h.call(t, access, "GET", "/api/platform/users"+query, ""), http.StatusOK)
		for _, u := range page["data"].([]any) {
			walked = append(walked, u.(map[string]any)["user_id"].(string))
		}
		must.Get(h.RenameUser(t.Context(), walked[len(walked)-1], fmt.Sprintf("aaa%d", i)))(t) // neither misses nor repeats one
		if query = ""; page["hasMore"] == true {
			query = "?account=acct_walk&limit=7&after=" + page["nextCursor"].(string)
		}
	}
	if len(walked) != 60 || !slices.IsSorted(walked) || len(slices.Compact(slices.Clone(walked))) != 60 {
		t.Errorf("walked %d users", len(walked))
	}
	for query, want := range map[string]int{
		"/users?username=TARGET1": 1, "/users?username=target": 0, "/users?username=target1&account=" + on.account: 1, "/users?username=target1&account=acct_walk": 0,
		"/users?account=acct_none": 0, "/users?account=Not+one": 0,
	} {
		if got := ids(query, "user_id"); len(got) != want {
			t.Errorf("%s = %v, want %d", query, got, want)
		}
	}
	bound, sec := h.Client(t, func(c *store.ClientSpec) {
		c.Grants, c.Account, c.RedirectURIs = []string{"client_credentials"}, on.account, nil
	})
	if got := ids("/clients?account="+on.account, "client_id"); !slices.Equal(got, []string{bound.ID}) {
		t.Errorf("clients of the account = %v", got)
	}
	wantStatus(t, h.token(t, with(as(h.credentials(), bound, sec), "grant_type", "client_credentials")), http.StatusOK)
	h.pair(t) // of another account
	for query, want := range map[string]int{
		"account=" + on.account: 2, "account=" + on.account + "&user=" + on.user: 1, "user=TARGET1": 1, "user=nobody": 0, "client=nobody": 0, "client=" + bound.ID: 1,
		"client=" + bound.ID + "&account=acct_walk": 0, "user=target1&account=acct_walk": 0, "account=acct_none": 0, "client=" + url.QueryEscape(h.client.Name) + "&user=target1": 1,
	} {
		if got := ids("/authorizations?"+query, "family_id"); len(got) != want || !slices.IsSorted(got) {
			t.Errorf("authorizations of %s = %v, want %d", query, got, want)
		}
	}
	var all []string
	for query, more := "?limit=1&account="+on.account, true; more; {
		page := shownTo(t, h.call(t, access, "GET", "/api/platform/authorizations"+query, ""), http.StatusOK)
		all = append(all, page["data"].([]any)[0].(map[string]any)["family_id"].(string))
		more, query = page["hasMore"].(bool), "?limit=1&account="+on.account+"&after="+page["nextCursor"].(string)
	}
	if len(all) != 2 || !slices.IsSorted(all) {
		t.Errorf("walked the authorizations %v", all)
	}
}

// Promise (Platform §4, §5): GET /audit with a kept cursor is a feed of management; after=latest begins
// behind the newest line; a platform client's changes have its name
func TestAuditAsAFeed(t *testing.T) {
	h := parallelHouse(t)
	p, access := managesAll(t, h)
	read := func(after string) (lines []map[string]any, next string) {
		t.Helper()
		page := shownTo(t, h.call(t, access, "GET", "/api/platform/audit?after="+after, ""), http.StatusOK)
		for _, l := range page["data"].([]any) {
			lines = append(lines, l.(map[string]any))
		}
		return lines, page["nextCursor"].(string)
	}
	lines, cursor := read("latest")
	if len(lines) > 0 {
		t.Errorf("latest has %v", lines)
	}
	wantStatus(t, h.call(t, access, "PUT", "/api/platform/accounts/acct_n", ""), http.StatusCreated)
	wantStatus(t, h.call(t, access, "POST", "/api/platform/users", `{"username":"eve","account":"acct_n"}`), http.StatusCreated)
	wantError(t, h.call(t, access, "POST", "/api/platform/clients/"+p.client.ID+"/disable", ""), http.StatusForbidden, "protected")
	var reasons []string
	for range 2 {
		for lines, cursor = read(cursor); len(lines) > 0; lines, cursor = read(cursor) {
			for _, l := range lines {
				if l["actor_client_id"] != p.client.ID || l["actor_client"] != p.client.Name || l["operator_id"] != nil {
					t.Errorf("line %v, want the platform client as the actor", l)
				}
				reasons = append(reasons, fmt.Sprint(l["what"], " ", l["reason"]))
			}
		}
	}
	if want := []string{"admin account created", "admin user created", "admin code made", "refused protected"}; !slices.Equal(reasons, want) {
		t.Errorf("the record has %q, want %q", reasons, want)
	}
}

// TestAuditOfARareKind: who looks for lines that hardly ever come does not read the same ones
// again, and a request reads a bounded number of them.
//
// Promise (Platform §4, §5): GET /audit with a rare filter gives a cursor of how far it looked, after
// 10,000 lines at most, and hasMore while lines may follow
func TestAuditOfARareKind(t *testing.T) {
	h := parallelHouse(t)
	_, access := managesAll(t, h)
	const lines = 1000
	for range store.AuditSearchedMax / lines {
		for range lines {
			h.Audit(store.AuditLine{What: store.AuditLogin})
		}
		h.Flush(t.Context())
	}
	h.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: "rare"})
	h.Flush(t.Context())
	read := func(after string) (found int, next string, more bool) {
		t.Helper()
		page := shownTo(t, h.call(t, access, "GET", "/api/platform/audit?what=login_refused&after="+after, ""), http.StatusOK)
		return len(page["data"].([]any)), page["nextCursor"].(string), page["hasMore"].(bool)
	}
	zero := record.Position{}.String()
	found, cursor, more := read(zero)
	if found != 0 || !more || cursor <= zero {
		t.Fatalf("the first page has %d lines, more: %t, and the cursor %s; want none yet, more and a later cursor", found, more, cursor)
	}
	found, cursor, more = read(cursor)
	if found != 1 || more {
		t.Fatalf("the second page has %d lines, more: %t; want the rare one", found, more)
	}
	h.Audit(store.AuditLine{What: store.AuditLogin})
	h.Flush(t.Context())
	if found, next, more := read(cursor); found != 0 || more || next <= cursor {
		t.Errorf("after a line of another kind: %d lines, more: %t, and the cursor %s after %s; want a later one", found, more, next, cursor)
	}
}
