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
		if a := h.admin(t, "GET", "/admin/audit?"+name+"=never", ""); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `"`+name+` is not a time: `) {
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
	h.server.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/admin/audit?limit=500&"+query, nil))
	var page struct{ Data []admin.AdminAuditLine }
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &page))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	return page.Data
}
