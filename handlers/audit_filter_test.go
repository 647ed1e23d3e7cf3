package handlers_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// TestAuditFilters: the record can be searched by kind, by names in any spelling, by
// source and by time, in the API and at the desk.
func TestAuditFilters(t *testing.T) {
	h, b := deskHouse(t)
	h.pair(t)
	h.token(t, with(h.passwordForm(), "password", "wrong"))
	b.follow(t, b.sent(t, "/desk/clients/"+h.client.ID, "disable"))
	all := h.auditOf(t, "")
	if len(all) < 3 {
		t.Fatalf("the record has %d lines", len(all))
	}
	for query, keep := range map[string]func(admin.AdminAuditLine) bool{
		"what=login_refused": func(l admin.AdminAuditLine) bool { return l.What == "login_refused" },
		"user=MARA":          func(l admin.AdminAuditLine) bool { return l.Username == "mara" },
		"user=nobody":        func(admin.AdminAuditLine) bool { return false },
		"client=" + url.QueryEscape(h.client.Name): func(l admin.AdminAuditLine) bool { return l.ClientName == h.client.Name },
		"client=" + h.client.ID:                    func(l admin.AdminAuditLine) bool { return l.ClientID == h.client.ID },
		"operator=Olga":                            func(l admin.AdminAuditLine) bool { return l.Operator == "olga" },
		"source=192.0.2.0/24":                      func(l admin.AdminAuditLine) bool { return l.Source != "" },
		"source=198.51.100.7":                      func(admin.AdminAuditLine) bool { return false },
		"user=mara&what=login_refused":             func(l admin.AdminAuditLine) bool { return l.Username == "mara" && l.What == "login_refused" },
	} {
		var want []string
		for _, l := range all {
			if keep(l) {
				want = append(want, l.ID)
			}
		}
		var got []string
		for _, l := range h.auditOf(t, query) {
			got = append(got, l.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the API has %v for %s, want %v", got, query, want)
		}
		slices.Reverse(want)
		if shown := rows(t, b.get(t, "/desk/audit?"+query), "data-audit"); !slices.Equal(shown, want) {
			t.Errorf("the desk shows %v for %s, want %v", shown, query, want)
		}
	}
	if len(h.auditOf(t, "since=1h")) != len(all) || len(h.auditOf(t, "until=2020-01-01")) != 0 {
		t.Error("the filters of time select other lines")
	}
	for _, query := range []string{"what=nonsense", "source=x", "from=never", "after=x"} {
		wantStatus(t, b.get(t, "/desk/audit?"+query), http.StatusBadRequest)
	}
	for _, name := range []string{"since", "until"} {
		if a := h.admin(t, "GET", "/api/platform/audit?"+name+"=never", ""); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `"`+name+` is not a time: `) {
			t.Errorf("the API refuses %s with %d %s", name, a.StatusCode, a.body)
		}
	}
	for _, name := range []string{"from", "to"} {
		if text := words(t, b.get(t, "/desk/audit?"+name+"=never")); !strings.Contains(text, name+" is not a time: ") {
			t.Errorf("the desk refuses %s with %s", name, text)
		}
	}
}

// TestAuditFindsEveryKind: whatever the store records can be searched for, in the API and at
// the desk.
func TestAuditFindsEveryKind(t *testing.T) {
	h, b := deskHouse(t)
	kinds := auditedConstants(t)
	if len(kinds) < 12 {
		t.Fatalf("the store has the kinds %q, want all", kinds)
	}
	page := b.get(t, "/desk/audit").body
	for _, kind := range kinds {
		h.Audit(store.AuditLine{What: store.Audited(kind), Reason: "found"})
		if lines := h.auditOf(t, "what="+kind); len(lines) == 0 || lines[0].What != kind {
			t.Errorf("the API finds %v for what=%s", lines, kind)
		}
		if !strings.Contains(page, `value="`+kind+`"`) {
			t.Errorf("the desk does not offer %s", kind)
		}
	}
}

// auditedConstants returns the values of the store's constants of type Audited.
func auditedConstants(t testing.TB) (values []string) {
	t.Helper()
	for _, name := range must.Get(filepath.Glob("../store/*.go"))(t) {
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for n := range ast.Preorder(file) {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				continue
			}
			if of, is := spec.Type.(*ast.Ident); is && of.Name == "Audited" {
				for _, v := range spec.Values {
					values = append(values, must.Get(strconv.Unquote(v.(*ast.BasicLit).Value))(t))
				}
			}
		}
	}
	return values
}

// auditOf returns the lines that the admin API lists.
func (h *house) auditOf(t testing.TB, query string) []admin.AdminAuditLine {
	t.Helper()
	w := httptest.NewRecorder()
	h.operators.ServeHTTP(w, httptest.NewRequest("GET", "/api/platform/audit?limit=500&"+query, nil))
	var page struct{ Data []admin.AdminAuditLine }
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &page))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	return page.Data
}

// TestAuditSaysWhoDidItAndToWhat: a platform client, an operator at the desk and a command change
// the same user, and a platform client is refused.
//
// Promise (Platform §4, §5): an audit line has who did it (a platform client, an operator at the
// desk, or neither for a command) apart from what it was done to, in audit --json and at the desk
func TestAuditSaysWhoDidItAndToWhat(t *testing.T) {
	h, b := deskHouse(t)
	backOffice, _ := h.Client(t, func(spec *store.ClientSpec) { spec.Name = "Back office" })
	gone := store.Actor{ClientID: "gone", ClientName: "Former back office"}
	for _, actor := range []store.Actor{{ClientID: backOffice.ID, ClientName: backOffice.Name}, gone} {
		must.Get(h.DemoteUser(t.Context(), "mara"))(t)
		must.Get(h.PromoteUser(store.WithActor(t.Context(), actor), "mara"))(t)
	}
	h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/demote", "")
	b.follow(t, b.sent(t, "/desk/users/"+h.user.Subject(), "disable"))
	olga := must.Get(h.FindUser(t.Context(), "olga"))(t)
	var got [][4]string
	for _, l := range h.auditOf(t, "user=mara&what=admin") {
		if l.UserID != h.user.Subject() || l.Account != h.account || l.ClientID != "" {
			t.Errorf("the line %+v is not about mara", l)
		}
		got = append(got, [4]string{l.ActorClientID, l.ActorClient, l.OperatorID, l.Operator})
	}
	if want := [][4]string{{backOffice.ID, "Back office"}, {"gone", "Former back office"}, {}, {2: olga.Subject(), 3: "olga"}}; !slices.Equal(got, want) {
		t.Errorf("mara was changed by %q, want %q", got, want)
	}
	var cells []string
	for n := range parsePage(t, b.get(t, "/desk/audit?user=mara&what=admin")).Descendants() {
		if n.Data == "td" && attribute(n, "data-col") == "actor" {
			cells = append(cells, strings.TrimSpace(textOf(n)))
		}
	}
	if want := []string{"olga", "command line", "Former back office (deleted)", "Back office"}; !slices.Equal(cells, want) {
		t.Errorf("the desk shows that mara was changed by %q, want %q", cells, want)
	}
}

// TestAuditOfActing: what a platform client does for an account has its name, and who names the
// account of another is seen.
//
// Promise (Platform §4, §5): refusals by the platform API's rules are lines with the caller, the
// object and the code, 60 a minute for each client, and then numbers
func TestAuditOfActing(t *testing.T) {
	h := parallelHouse(t)
	p := actsForAll(t, h)
	create := `{"url":"https://hooks.example/a","types":["customer.*"]}`
	acted := h.recorded(t, func() {
		wantStatus(t, h.call(t, p.access(t), "POST", "/api/webhook-endpoints", create, actingFor(h.account)), http.StatusCreated)
	})
	if last := acted[len(acted)-1]; last.What != store.AuditWebhook || last.Actor.ClientID != p.client.ID || last.Actor.ClientName != p.client.Name || last.AccountID != h.account {
		t.Errorf("the line of an endpoint that a platform client made is %+v", last)
	}
	manager, other := newPlatform(t, h, "accounts:read", "clients:write"), newPlatform(t, h, "accounts:read")
	user, job, manages := h.pair(t).AccessToken, p.access(t, "account", h.account, "scope", "events:read"), manager.access(t)
	refused := h.recorded(t, func() {
		for _, access := range []string{user, job} {
			wantError(t, h.call(t, access, "GET", apiPath, "", actingFor("acct_other")), http.StatusForbidden, "account_mismatch")
			wantError(t, h.call(t, access, "GET", web.PlatformPath+"/accounts", ""), http.StatusForbidden, "insufficient_scope")
		}
		wantError(t, h.call(t, manages, "POST", web.PlatformPath+"/clients/"+other.client.ID+"/rotate-secret", ""), http.StatusForbidden, "protected")
		wantError(t, h.call(t, manages, "POST", web.PlatformPath+"/users/"+h.user.Subject()+"/revoke", ""), http.StatusForbidden, "insufficient_scope")
		wantError(t, h.call(t, manages, "DELETE", web.PlatformPath+"/clients/a%20b%00", ""), http.StatusForbidden, "insufficient_scope")
		wantError(t, h.call(t, job, "GET", "/api/resources/customer", ""), http.StatusForbidden, "insufficient_scope")
	})
	var got [][4]string
	for _, l := range refused {
		if l.What == store.AuditRefused && l.Source != "" && l.RequestID != "" {
			got = append(got, [4]string{l.Reason, l.Actor.ClientID, l.ClientID, l.UserID})
		}
	}
	if want := [][4]string{
		{"account_mismatch", h.client.ID, h.client.ID, h.user.Subject()}, {"insufficient_scope", h.client.ID, h.client.ID, h.user.Subject()},
		{"account_mismatch", p.client.ID}, {"insufficient_scope", p.client.ID}, {"protected", manager.client.ID, other.client.ID},
		{"insufficient_scope", manager.client.ID, "", h.user.Subject()}, {"insufficient_scope", manager.client.ID},
	}; !slices.Equal(got, want) {
		t.Errorf("the refusals are %q, want %q", got, want)
	}
	for query, want := range map[string]int{"account=" + h.account: 2, "client=" + p.client.ID: 2, "client=" + h.client.ID: 2} {
		if found := h.auditOf(t, "what=refused&"+query); len(found) != want {
			t.Errorf("%s finds %+v, want %d lines", query, found, want)
		}
	}
}
