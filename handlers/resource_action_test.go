package handlers

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
)

// Named actions, and the calls that a caller may repeat without knowing whether the first
// arrived.
//
// Promise (§2.4): previousAttributes exists only when something changed
// Promise (§3.1): If-Match and If-None-Match give 412, also with a tag that a proxy weakened; with
// an action each call records; If-Match guards a retry
// Promise (§3.4, §3.5): the specification's four are recorded
func TestResourceActions(t *testing.T) {
	t.Parallel()
	newPlan := func(t *testing.T) (a *apiHouse, token, path, etag string) {
		a = newAPI(t)
		token, path = a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated), "/api/resources/plan/p1"
		etag = a.put(path, token, `{"n":1}`).Header().Get("ETag")
		a.Clock.Advance(time.Second)
		return a, token, path, etag
	}
	recorded := func(t *testing.T, a *apiHouse, token string) (types []string) {
		for _, e := range a.get("/api/events?order=asc", token).page(t).Data {
			types = append(types, e.Type)
		}
		return types
	}
	wantTypes := func(t *testing.T, a *apiHouse, token string, want ...string) {
		t.Helper()
		if got := recorded(t, a, token); !reflect.DeepEqual(got, want) {
			t.Errorf("events = %v, want %v", got, want)
		}
	}
	t.Run("put_with_an_action_records_only_that", func(t *testing.T) {
		t.Parallel()
		a, token, path, _ := newPlan(t)
		if w := a.put(path+"?action=renewed", token, `{"n":2}`); w.Code != http.StatusOK {
			t.Fatalf("put = %d %s", w.Code, w.Body)
		}
		wantTypes(t, a, token, "plan.created", "plan.renewed")
		if e := lastEvent(t, a, token); !reflect.DeepEqual(e.EventData.PreviousAttributes, map[string]any{"n": 1.0}) {
			t.Errorf("previousAttributes = %v, want n 1", e.EventData.PreviousAttributes)
		}
	})
	t.Run("an_action_records_each_time", func(t *testing.T) {
		t.Parallel()
		a, token, path, _ := newPlan(t)
		for range 2 {
			if w := a.put(path+"?action=renewed", token, `{"n":1}`); w.Code != http.StatusOK || w.Header().Get("Tollhouse-Event") == "none" {
				t.Fatalf("put = %d %v", w.Code, w.Header())
			}
		}
		wantTypes(t, a, token, "plan.created", "plan.renewed", "plan.renewed")
		if e := lastEvent(t, a, token); e.EventData.PreviousAttributes != nil {
			t.Errorf("previousAttributes = %v, want none: nothing changed", e.EventData.PreviousAttributes)
		}
	})
	t.Run("If-Match_guards_the_retry_of_an_action", func(t *testing.T) {
		t.Parallel()
		a, token, path, etag := newPlan(t)
		if w := a.patch(path+"?action=renewed", token, `{}`, "If-Match", etag); w.Code != http.StatusOK {
			t.Fatalf("patch = %d %s", w.Code, w.Body)
		}
		a.patch(path+"?action=renewed", token, `{}`, "If-Match", etag).fault(t, http.StatusPreconditionFailed, "precondition_failed", "")
		wantTypes(t, a, token, "plan.created", "plan.renewed")
	})
	t.Run("put_and_patch_may_be_repeated", func(t *testing.T) {
		t.Parallel()
		a, token, path, _ := newPlan(t)
		put := func() answer { return a.put(path, token, `{"n":2}`) }
		patch := func() answer { return a.patch(path, token, `{"m":3}`) }
		for _, do := range []func() answer{put, patch} {
			first, again := do(), do()
			if again.Code != http.StatusOK || again.Header().Get("Tollhouse-Event") != "none" || again.Header().Get("ETag") != first.Header().Get("ETag") || again.Body.String() != first.Body.String() {
				t.Errorf("repeated: %d %v %s, want the same as %s and no event", again.Code, again.Header(), again.Body, first.Body)
			}
		}
		wantTypes(t, a, token, "plan.created", "plan.updated", "plan.updated")
	})
	t.Run("a_null_that_removes_nothing_records_nothing", func(t *testing.T) {
		t.Parallel()
		a, token, path, _ := newPlan(t)
		if w := a.patch(path, token, `{"absent":null,"n":1.0}`); w.Header().Get("Tollhouse-Event") != "none" {
			t.Errorf("patch = %d %v", w.Code, w.Header())
		}
		wantTypes(t, a, token, "plan.created")
	})
	t.Run("the_specifications_own_types", func(t *testing.T) {
		t.Parallel()
		a, token, _, _ := newPlan(t)
		a.put("/api/resources/transaction/txn_1", token, `{"amount":"148.50","method":"ach","status":"submitted"}`)
		if w := a.patch("/api/resources/transaction/txn_1?action=ach_process_error", token, `{"status":"declined"}`); w.Code != http.StatusOK {
			t.Fatalf("patch = %d %s", w.Code, w.Body)
		}
		a.put("/api/resources/account/pa_1", token, `{"expiry":"0326"}`)
		a.patch("/api/resources/account/pa_1?action=autoupdate", token, `{"expiry":"0929"}`)
		a.put("/api/resources/customer/cus_1", token, `{}`)
		a.patch("/api/resources/customer/cus_1", token, `{"city":"Dunmere"}`)
		wantTypes(t, a, token, "plan.created", "transaction.created", "transaction.ach_process_error", "account.created", "account.autoupdate", "customer.created", "customer.updated")
	})
	for _, action := range []string{"created", "updated", "deleted"} {
		t.Run("no_action_may_be_"+action, func(t *testing.T) {
			t.Parallel()
			a, token, path, _ := newPlan(t)
			a.put(path+"?action="+action, token, `{"n":2}`).fault(t, http.StatusBadRequest, "invalid_parameter", "action")
			wantTypes(t, a, token, "plan.created")
		})
	}
	conditions := []struct {
		name string
		do   func(a *apiHouse, token, path, etag string) answer
		want int
	}{
		{"patch_If-None-Match_current", func(a *apiHouse, token, path, etag string) answer {
			return a.patch(path, token, `{"n":2}`, "If-None-Match", etag)
		}, 412},
		{"patch_If-None-Match_another", func(a *apiHouse, token, path, _ string) answer {
			return a.patch(path, token, `{"n":2}`, "If-None-Match", `"evt_x"`)
		}, 200},
		{"delete_If-None-Match_any", func(a *apiHouse, token, path, _ string) answer {
			return a.request("DELETE", path, token, nil, "If-None-Match", "*")
		}, 412},
		{"delete_If-Match_current", func(a *apiHouse, token, path, etag string) answer {
			return a.request("DELETE", path, token, nil, "If-Match", etag)
		}, 204},
		{"put_If-Match_after_a_delete", func(a *apiHouse, token, path, etag string) answer {
			a.request("DELETE", path, token, nil)
			return a.put(path, token, `{"n":2}`, "If-Match", etag)
		}, 412},
		{"put_If-None-Match_any_after_a_delete", func(a *apiHouse, token, path, _ string) answer {
			a.request("DELETE", path, token, nil)
			return a.put(path, token, `{"n":2}`, "If-None-Match", "*")
		}, 201},
		{"head_is_get_without_a_body", func(a *apiHouse, token, path, _ string) answer {
			w := a.request("HEAD", path, token, strings.NewReader(""))
			if w.Header().Get("Content-Length") != a.get(path, token).Header().Get("Content-Length") {
				w.Code = 0
			}
			return w
		}, 200},
	}
	for _, tt := range conditions {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, token, path, etag := newPlan(t)
			if w := tt.do(a, token, path, etag); w.Code != tt.want {
				t.Errorf("answer = %d %s, want %d", w.Code, w.Body, tt.want)
			}
		})
	}
}

// No change without its event, and no event without its change: a failed commit leaves
// neither.
//
// Promise (§2.4): an acknowledged write survives a kill: event, resource and indexes together
func TestResourceAndEventAreOne(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	a.put("/api/resources/plan/p1", token, `{"n":1}`)
	a.Rest() // no use is being recorded
	changes := map[string]func() answer{
		"put":    func() answer { return a.put("/api/resources/plan/p1", token, `{"n":2}`) },
		"new":    func() answer { return a.put("/api/resources/plan/p2", token, `{"n":2}`) },
		"patch":  func() answer { return a.patch("/api/resources/plan/p1", token, `{"n":2}`) },
		"action": func() answer { return a.patch("/api/resources/plan/p1?action=renewed", token, `{}`) },
		"delete": func() answer { return a.request("DELETE", "/api/resources/plan/p1", token, nil) },
	}
	a.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
	for name, do := range changes {
		do().fault(t, http.StatusServiceUnavailable, "temporarily_unavailable", "")
		if n := len(a.get("/api/events", token).page(t).Data); n != 1 {
			t.Errorf("%s_refused: %d events, want the one from before", name, n)
		}
		if got := a.get("/api/resources/plan", token).Body.String(); !strings.Contains(got, `"data":[{"id":"p1","object":"plan","n":1}]`) {
			t.Errorf("%s_refused: the resources are %s", name, got)
		}
	}
}
