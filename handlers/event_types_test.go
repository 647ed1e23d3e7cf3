package handlers

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest/must"
)

type eventTypesPage struct {
	Object  string
	HasMore bool
	Data    []map[string]any
}

func (w answer) eventTypes(t testing.TB) eventTypesPage {
	t.Helper()
	var page eventTypesPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK || page.Object != "list" || page.HasMore {
		t.Fatalf("answer = %d %s (%v), want a list", w.Code, w.Body, err)
	}
	return page
}

// row returns the row of a type, or nil.
func (p eventTypesPage) row(name string) map[string]any {
	i := slices.IndexFunc(p.Data, func(row map[string]any) bool { return row["name"] == name })
	if i < 0 {
		return nil
	}
	return p.Data[i]
}

// Promise (Attacks on the events API): another account's events in a list; another account's
// cursor; erased events
// Promise (§2.3): only the token names the owner; account= is the admin API's; OPTIONS is 204 with
// Allow, and CORS as for reads
func TestEventTypes(t *testing.T) {
	const path = "/api/event-types"
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	a.put("/api/resources/customer/cus_1", token, `{"city":"Dunmere"}`)
	a.patch("/api/resources/customer/cus_1?action=activated", token, `{}`)
	a.put("/api/resources/customer/cus_2", token, `{}`)
	a.put("/api/resources/plan/p1", token, `{}`)
	now := float64(a.Clock.Now().Unix())
	page := a.get(path, token).eventTypes(t)
	wantRows := map[string]map[string]any{
		"customer.created":   {"meaning": "A customer was added.", "schema": "/openapi.json#/components/schemas/CustomerSnapshot", "count": 2.0, "lastCreatedAt": now},
		"customer.activated": {"meaning": "A customer may be billed again.", "schema": "/openapi.json#/components/schemas/CustomerSnapshot", "count": 1.0, "lastCreatedAt": now},
		"plan.created":       {"schema": "/openapi.json#/components/schemas/Snapshot", "count": 1.0, "lastCreatedAt": now},
		"customer.updated":   {"meaning": "A customer's fields were changed.", "schema": "/openapi.json#/components/schemas/CustomerSnapshot", "count": 0.0},
		"batch.closed":       {"meaning": "A batch takes no more transactions.", "schema": "/openapi.json#/components/schemas/BatchSnapshot", "count": 0.0},
	}
	for name, want := range wantRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want["name"] = name
			got := page.row(name)
			if len(got) != len(want) {
				t.Fatalf("row = %v, want %v", got, want)
			}
			for member, value := range want {
				if got[member] != value {
					t.Errorf("%s = %v, want %v", member, got[member], value)
				}
			}
		})
	}
	t.Run("the_catalogue_and_the_accounts_own", func(t *testing.T) {
		t.Parallel()
		if got, want := len(page.Data), len(eventlog.Catalogue())+1; got != want {
			t.Errorf("%d rows, want %d", got, want)
		}
	})
	t.Run("schemas_are_in_the_description", func(t *testing.T) {
		t.Parallel()
		schemas := member[map[string]any](t, a.get("/openapi.json", "").Body.Bytes(), "components", "schemas")
		for _, row := range page.Data {
			name, found := strings.CutPrefix(row["schema"].(string), "/openapi.json#/components/schemas/")
			if !found || schemas[name] == nil {
				t.Errorf("%s: the schema %s leads nowhere", row["name"], row["schema"])
			}
		}
	})
	t.Run("of_the_callers_account_only", func(t *testing.T) {
		t.Parallel()
		theirs := a.get(path, a.token(t, "stranger", "acct_other", store.ScopeUnstated)).eventTypes(t)
		if theirs.row("plan.created") != nil || theirs.row("customer.created")["count"] != 0.0 {
			t.Errorf("the stranger sees %v, %v", theirs.row("plan.created"), theirs.row("customer.created"))
		}
	})
	t.Run("the_same_list_again_is_304", func(t *testing.T) {
		b := newAPI(t)
		token := b.token(t, "odile", "acct_b", store.ScopeUnstated)
		tag := b.get(path, token).Header().Get("ETag")
		if w := b.get(path, token, "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
			t.Errorf("with its tag %q: %d %v, want 304", tag, w.Code, w.Header())
		}
		b.put("/api/resources/plan/p1", token, `{}`)
		if w := b.get(path, token, "If-None-Match", tag); w.Code != http.StatusOK || w.Header().Get("ETag") == tag {
			t.Errorf("after another event: %d %v, want 200 and another tag", w.Code, w.Header())
		}
	})
	t.Run("head", func(t *testing.T) {
		t.Parallel()
		get, head := a.get(path, token), a.request(http.MethodHead, path, token, nil)
		if head.Code != http.StatusOK || head.Header().Get("Content-Length") != get.Header().Get("Content-Length") {
			t.Errorf("HEAD = %d %v, want the headers of GET", head.Code, head.Header())
		}
	})
	t.Run("options", func(t *testing.T) {
		t.Parallel()
		w := a.request(http.MethodOptions, path, "", nil, "Origin", "https://other.example", "Access-Control-Request-Method", "GET")
		if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(w.Header().Get("Allow"), "GET") {
			t.Errorf("OPTIONS = %d %v, want 204 and CORS as for public reads", w.Code, w.Header())
		}
	})
	refusals := []struct {
		name    string
		do      func() answer
		status  int
		code    string
		param   string
		headers map[string]string
	}{
		{"without_token", func() answer { return a.get(path, "") }, 401, "unauthorized", "", map[string]string{"WWW-Authenticate": `Bearer realm="tollhouse"`}},
		{"without_scope", func() answer {
			return a.get(path, a.token(t, "writer", "acct_a", store.ScopeResourcesWrite))
		}, 403, "insufficient_scope", "", nil},
		{"unknown_parameter", func() answer { return a.get(path+"?type=customer.created", token) }, 400, "unknown_parameter", "type", nil},
		{"broken_query", func() answer { return a.get(path+"?%zz", token) }, 400, "invalid_request", "", nil},
		{"post", func() answer { return a.request(http.MethodPost, path, token, nil) }, 405, "invalid_request", "", nil},
		{"not_acceptable", func() answer { return a.get(path, token, "Accept", "application/xml") }, 406, "not_acceptable", "", nil},
		{"slash_at_the_end", func() answer { return a.get(path+"/", token) }, 404, "not_found", "", nil},
		{"one_of_them", func() answer { return a.get(path+"/customer.created", token) }, 404, "not_found", "", nil},
	}
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := tt.do()
			w.fault(t, tt.status, tt.code, tt.param)
			for name, want := range tt.headers {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

// member returns the value at a path in a JSON document.
func member[T any](t testing.TB, document []byte, path ...string) T {
	t.Helper()
	var v any
	must.Do(t, json.Unmarshal(document, &v))
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	found, ok := v.(T)
	if !ok {
		t.Fatalf("no %s: %v", strings.Join(path, "."), v)
	}
	return found
}
