package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

func (a *apiHouse) purge(body string) answer {
	return a.admin(http.MethodPost, "/admin/event-purge", strings.NewReader(body), "Content-Type", "application/json")
}

// Promise (§2.4): events do not change; an audited purge removes them and their snapshots, then 404
func TestPurge(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
	var events []string
	for _, body := range []string{`{"displayName":"Larkspur"}`, `{"displayName":"Larkspur Tea"}`} {
		events = append(events, a.put("/api/resources/customer/forgotten-r1", token, body).Header().Get("Tollhouse-Event"))
	}
	other := a.put("/api/resources/plan/forgotten-r1", token, `{"price":"5"}`).Header().Get("Tollhouse-Event")
	a.importLines(t, "acct_a", a.lineOf("foreign", "customer.merged", "forgotten-r1", time.Hour))
	plans := "/api/events?type=plan.created"
	tag := a.get(plans, token).Header().Get("ETag")
	if w := a.get(plans, token, "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified {
		t.Fatalf("a page with its ETag %q = %d, want 304", tag, w.Code)
	}

	w := a.purge(`{"account":"acct_a","kind":"customer","resource":"forgotten-r1"}`)
	if got, want := fmt.Sprint(decodeObject(t, w.Body.Bytes())), "map[account:acct_a events:3 kind:customer resource:forgotten-r1 resources:1]"; w.Code != http.StatusOK || got != want {
		t.Fatalf("purge = %d %s, want %s", w.Code, w.Body, want)
	}
	t.Run("a_purge_ends_what_the_ETag_of_a_list_confirmed", func(t *testing.T) {
		if w := a.get(plans, token, "If-None-Match", tag); w.Code != http.StatusOK {
			t.Errorf("a page with the ETag of before = %d, want 200", w.Code)
		}
	})
	t.Run("what_a_purge_removed_is_404_after", func(t *testing.T) {
		for _, id := range append(events, "foreign") {
			a.get("/api/events/"+id, token).fault(t, http.StatusNotFound, "not_found", "")
		}
		a.get("/api/resources/customer/forgotten-r1", token).fault(t, http.StatusNotFound, "not_found", "")
		for _, query := range []string{"", "?type=customer.created,customer.updated,plan.created", "?resource=forgotten-r1"} {
			if got := a.get("/api/events"+query, token).page(t).ids(); fmt.Sprint(got) != fmt.Sprint([]string{other}) {
				t.Errorf("GET /api/events%s = %v, want the event of the plan only", query, got)
			}
		}
		if notice := a.get("/api/events?type=customer.updated", token).Header().Get("Tollhouse-Notice"); !strings.HasPrefix(notice, `no event has type "customer.updated"`) {
			t.Errorf("Tollhouse-Notice = %q, want that no event has the type now", notice)
		}
	})
	t.Run("a_resource_of_another_kind_with_the_same_id_stays", func(t *testing.T) {
		if w := a.get("/api/resources/plan/forgotten-r1", token); w.Code != http.StatusOK {
			t.Errorf("the plan = %d %s", w.Code, w.Body)
		}
	})
	t.Run("a_purged_native_id_is_still_a_position_and_a_foreign_one_is_none", func(t *testing.T) {
		if got := a.get("/api/events?order=asc&after="+events[0], token).page(t).ids(); fmt.Sprint(got) != fmt.Sprint([]string{other}) {
			t.Errorf("after a purged event: %v, want %s", got, other)
		}
		a.get("/api/events?after=foreign", token).fault(t, http.StatusBadRequest, "invalid_cursor", "after")
	})
	t.Run("a_purge_is_in_the_audit_record_without_the_name_of_what_was_forgotten", func(t *testing.T) {
		lines := must.Get(a.ListAudit(context.Background(), record.Position{}, 100))(t)
		found := 0
		for _, l := range lines {
			if l.What == store.AuditAdmin && l.Reason == "events purged, of one customer" && l.AccountID == "acct_a" && l.RequestID != "" {
				found++
			}
			if strings.Contains(fmt.Sprint(l), "forgotten-r1") {
				t.Errorf("the line %+v names the resource", l)
			}
		}
		if found != 1 {
			t.Errorf("the record has %d lines of the purge, want 1: %+v", found, lines)
		}
	})
	t.Run("a_purged_resource_starts_again", func(t *testing.T) {
		w := a.put("/api/resources/customer/forgotten-r1", token, `{"displayName":"Another"}`)
		if w.Code != http.StatusCreated {
			t.Fatalf("PUT = %d %s, want 201", w.Code, w.Body)
		}
		if got := a.get("/api/events?type=customer.created", token).page(t).ids(); len(got) != 1 {
			t.Errorf("created events = %v, want the new one", got)
		}
	})
}

func TestPurgeRefusals(t *testing.T) {
	a := parallelAPI(t)
	a.importLines(t, "acct_a", a.lineOf("one", "plan.created", "p1", time.Hour))
	for name, c := range map[string]struct {
		body        string
		status      int
		code, param string
	}{
		"a_purge_names_its_account":                     {`{}`, 400, "invalid_request", "account"},
		"a_purge_of_an_unknown_account_is_not_found":    {`{"account":"acct_b"}`, 404, "not_found", ""},
		"a_purge_with_a_kind_alone_is_refused":          {`{"account":"acct_a","kind":"plan"}`, 400, "invalid_request", "resource"},
		"a_purge_with_a_resource_alone_is_refused":      {`{"account":"acct_a","resource":"p1"}`, 400, "invalid_request", "kind"},
		"a_purge_with_a_misspelt_member_is_refused":     {`{"account":"acct_a","resorce":"p1"}`, 400, "invalid_request", ""},
		"a_purge_with_a_malformed_resource_is_refused":  {`{"account":"acct_a","kind":"plan","resource":"p 1"}`, 400, "invalid_request", "resource"},
		"a_purge_with_a_malformed_kind_name_is_refused": {`{"account":"acct_a","kind":"Plan","resource":"p1"}`, 400, "invalid_request", "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			a.purge(c.body).fault(t, c.status, c.code, c.param)
			if w := a.admin(http.MethodGet, "/admin/events/one?account=acct_a", nil); w.Code != http.StatusOK {
				t.Errorf("the event = %d %s, want it to be there", w.Code, w.Body)
			}
		})
	}
	t.Run("a_purge_is_answered_however_long_it_takes", func(t *testing.T) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a.server.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/admin/event-purge", strings.NewReader(`{"account":"acct_a"}`)))
		if w.Code != http.StatusOK || !w.read || !w.write {
			t.Errorf("POST = %d %s, and it keeps the deadlines of a short request", w.Code, w.Body)
		}
	})
}
