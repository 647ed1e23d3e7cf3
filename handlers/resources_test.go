package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest/must"
)

// lastEvent is the newest event of the account.
func lastEvent(t testing.TB, a *apiHouse, token string) eventJSON {
	t.Helper()
	page := a.get("/api/events?limit=1", token).page(t)
	if len(page.Data) == 0 {
		t.Fatal("no event was recorded")
	}
	return page.Data[0]
}

// The life of one resource, call by call.
//
// Promise (§3.1): a customer's fields are strings; a new one gets all of them; PUT is 201 and
// created, 200 and updated, or 200 and no event; PATCH changes what its merge patch names and
// nothing else
// Promise (§3.1): ?action= records its own event even without a change, and needs the resource;
// DELETE is 204 and deleted with the last snapshot; again 404; GET records nothing; nor does a
// repeat without an action
// Promise (§3.1): Tollhouse-Event names the event caused, or none
func TestResourceLife(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	const path = "/api/resources/customer/cus_1"
	type object = map[string]any
	steps := []struct {
		name         string
		do           func() answer
		wantStatus   int
		wantType     string // "" for no event
		wantPrevious object
	}{
		{"get_before_it_is_there", func() answer { return a.get(path, token) }, 404, "", nil},
		{"patch_before_it_is_there", func() answer { return a.patch(path, token, `{"city":"Dunmere"}`) }, 404, "", nil},
		{"delete_before_it_is_there", func() answer { return a.request("DELETE", path, token, nil) }, 404, "", nil},
		{"action_before_it_is_there", func() answer { return a.put(path+"?action=merged", token, `{}`) }, 404, "", nil},
		{"put_new", func() answer { return a.put(path, token, `{"displayName":"Larkspur","phone":"8025550107"}`) }, 201, "customer.created", nil},
		{"put_same", func() answer { return a.put(path, token, `{"phone":"8025550107","displayName":"Larkspur"}`) }, 200, "", nil},
		{"put_changed", func() answer { return a.put(path, token, `{"displayName":"Larkspur","phone":"8025550143"}`) }, 200, "customer.updated", object{"phone": "8025550107"}},
		{"patch_changed", func() answer { return a.patch(path, token, `{"city":"Dunmere","state":"VT"}`) }, 200, "customer.updated", object{"city": "", "state": ""}},
		{"patch_same", func() answer { return a.patch(path, token, `{"city":"Dunmere"}`) }, 200, "", nil},
		{"patch_null_removes", func() answer { return a.patch(path, token, `{"city":null}`) }, 200, "customer.updated", object{"city": "Dunmere"}},
		{"patch_with_action", func() answer { return a.patch(path+"?action=merged", token, `{"notes":"x"}`) }, 200, "customer.merged", object{"notes": ""}},
		{"action_without_a_change", func() answer { return a.patch(path+"?action=verified", token, `{}`) }, 200, "customer.verified", nil},
		{"delete", func() answer { return a.request("DELETE", path, token, nil) }, 204, "customer.deleted", nil},
		{"delete_again", func() answer { return a.request("DELETE", path, token, nil) }, 404, "", nil},
		{"get_after_it_is_gone", func() answer { return a.get(path, token) }, 404, "", nil},
		{"put_anew", func() answer { return a.put(path, token, `{}`) }, 201, "customer.created", nil},
	}
	recorded := 0
	for _, step := range steps {
		a.Clock.Advance(time.Second)
		ran := t.Run(step.name, func(t *testing.T) {
			w := step.do()
			if w.Code != step.wantStatus {
				t.Fatalf("answer = %d %s, want %d", w.Code, w.Body, step.wantStatus)
			}
			if step.wantType != "" {
				recorded++
				wantEvent(t, a, token, w, step.wantType, step.wantPrevious)
			} else if event := w.Header().Get("Tollhouse-Event"); step.wantStatus == 200 && event != "none" {
				t.Errorf("Tollhouse-Event = %q, want none", event)
			}
			if n := len(a.get("/api/events", token).page(t).Data); n != recorded {
				t.Fatalf("%d events, want %d", n, recorded)
			}
		})
		if !ran {
			return // the steps are one life
		}
	}
}

// wantEvent compares the newest event with the answer to its change.
func wantEvent(t *testing.T, a *apiHouse, token string, w answer, typ string, previous map[string]any) {
	t.Helper()
	e := lastEvent(t, a, token)
	if e.ID != w.Header().Get("Tollhouse-Event") || e.Type != typ || e.Source != "harriet.voss" || e.Location != "api" || e.Owner != "acct_a" || e.Resource != "cus_1" {
		t.Errorf("event %+v, want %s by harriet.voss", e, typ)
	}
	if !reflect.DeepEqual(e.EventData.PreviousAttributes, previous) {
		t.Errorf("previousAttributes = %v, want %v", e.EventData.PreviousAttributes, previous)
	}
	if w.Code == http.StatusNoContent {
		return
	}
	if body := decodeObject(t, w.Body.Bytes()); !reflect.DeepEqual(body, e.EventData.Object) {
		t.Errorf("answer %v, but the event has %v", body, e.EventData.Object)
	}
	if etag := w.Header().Get("ETag"); etag != web.EventTag(e.Owner, e.ID) {
		t.Errorf("ETag = %s, want that of the event", etag)
	}
}

// Promise (§3.1): reads need resources:read, changes resources:write; a resource's ETag is its last
// event's id with a mark of the account, strong
func TestResourceAnswers(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	created := a.put("/api/resources/plan/p1", token, `{"b":1.0,"a":{"x":null,"y":[null]}}`)
	t.Run("put_new_names_its_location", func(t *testing.T) {
		t.Parallel()
		if got := created.Header().Get("Location"); got != "/api/resources/plan/p1" {
			t.Errorf("Location = %q", got)
		}
		if got, want := created.Body.String(), `{"id":"p1","object":"plan","b":1.0,"a":{"y":[null]}}`; got != want {
			t.Errorf("snapshot = %s, want %s", got, want)
		}
	})
	t.Run("get_has_the_snapshot_and_its_ETag", func(t *testing.T) {
		t.Parallel()
		w := a.get("/api/resources/plan/p1", token)
		if w.Body.String() != created.Body.String() || w.Header().Get("ETag") != created.Header().Get("ETag") || w.Header().Get("Cache-Control") != "private, no-cache" {
			t.Errorf("GET = %v %s", w.Header(), w.Body)
		}
		if w := a.get("/api/resources/plan/p1", token, "If-None-Match", created.Header().Get("ETag")); w.Code != http.StatusNotModified {
			t.Errorf("GET with its ETag = %d, want 304", w.Code)
		}
	})
	t.Run("example_5_autoupdate", func(t *testing.T) {
		b := parallelAPI(t)
		token := b.token(t, "harriet.voss", "acct_b", store.ScopeUnstated)
		b.put("/api/resources/account/pa_9rd3x6", token, `{"customer":"cus_4tn8k2w1","method":"card","brand":"visa","last4":"4418","expiry":"0326"}`)
		if w := b.patch("/api/resources/account/pa_9rd3x6?action=autoupdate", token, `{"expiry":"0929"}`); w.Code != http.StatusOK {
			t.Fatalf("patch = %d %s", w.Code, w.Body)
		}
		e := lastEvent(t, b, token)
		if e.Type != "account.autoupdate" || !reflect.DeepEqual(e.EventData.PreviousAttributes, map[string]any{"expiry": "0326"}) {
			t.Errorf("event = %+v", e)
		}
	})
	t.Run("another_account_has_its_own", func(t *testing.T) {
		t.Parallel()
		stranger := a.token(t, "stranger", "acct_other", store.ScopeUnstated)
		a.get("/api/resources/plan/p1", stranger).fault(t, http.StatusNotFound, "not_found", "")
		a.request("DELETE", "/api/resources/plan/p1", stranger, nil).fault(t, http.StatusNotFound, "not_found", "")
		a.patch("/api/resources/plan/p1", stranger, `{}`).fault(t, http.StatusNotFound, "not_found", "")
		if page := a.get("/api/resources/plan", stranger).page(t); len(page.Data) != 0 {
			t.Errorf("the stranger sees %d plans", len(page.Data))
		}
	})
	t.Run("scopes_of_resources", func(t *testing.T) {
		t.Parallel()
		reader := a.token(t, "reader", "acct_a", store.ScopeResourcesRead|store.ScopeEventsRead)
		writer := a.token(t, "writer", "acct_a", store.ScopeResourcesWrite)
		for _, w := range []answer{
			a.put("/api/resources/plan/p1", reader, `{}`), a.patch("/api/resources/plan/p1", reader, `{}`), a.request("DELETE", "/api/resources/plan/p1", reader, nil),
			a.get("/api/resources/plan/p1", writer), a.get("/api/resources/plan", writer),
		} {
			w.fault(t, http.StatusForbidden, "insufficient_scope", "")
		}
	})
}

// Promise (Attacks on the events API): compressed bodies; a secret in the query of a token request
// Promise (§3.1): any kind is accepted; known kinds have no unknown fields, refused with the
// nearest name; id and object equal the path or are absent; resources are listed by id
// Promise (§3.2): id and object cannot change
func TestResourceRefusals(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	a.put("/api/resources/customer/cus_1", token, `{}`)
	a.put("/api/resources/plan/p1", token, `{}`)
	events := len(a.get("/api/events", token).page(t).Data)
	const customer = "/api/resources/customer/cus_1"
	big := `{"a":"` + strings.Repeat("x", 24<<10) + `"}`
	deep := strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17)
	tests := []struct {
		name   string
		do     func() answer
		status int
		code   string
		param  string
	}{
		{"unknown_field_with_the_nearest", func() answer { return a.put(customer, token, `{"displayNam":"x"}`) }, 400, "unknown_field", "displayNam"},
		{"unknown_field_in_a_patch", func() answer { return a.patch(customer, token, `{"colour":"red"}`) }, 400, "unknown_field", "colour"},
		{"customer_fields_are_strings", func() answer { return a.put(customer, token, `{"zip":5091}`) }, 400, "invalid_field", "zip"},
		{"id_must_equal_the_path", func() answer { return a.put(customer, token, `{"id":"cus_2"}`) }, 409, "conflict", "id"},
		{"object_must_equal_the_path", func() answer { return a.put(customer, token, `{"object":"plan"}`) }, 409, "conflict", "object"},
		{"a_patch_cannot_change_the_id", func() answer { return a.patch(customer, token, `{"id":"cus_2"}`) }, 409, "conflict", "id"},
		{"a_patch_cannot_remove_the_id", func() answer { return a.patch(customer, token, `{"id":null}`) }, 409, "conflict", "id"},
		{"card_guard", func() answer {
			return a.put("/api/resources/plan/p1", token, `{"card":{"number":"4242 4242 4242 4242"}}`)
		}, 400, "sensitive_data", "card.number"},
		{"card_guard_in_a_patch", func() answer { return a.patch("/api/resources/plan/p1", token, `{"cvv":"123"}`) }, 400, "sensitive_data", "cvv"},
		{"snapshot_past_24_KiB", func() answer { return a.put("/api/resources/plan/p1", token, big) }, 413, "too_large", ""},
		{"a_patch_past_24_KiB", func() answer { return a.patch("/api/resources/plan/p1", token, big) }, 413, "too_large", ""},
		{"depth_past_16", func() answer { return a.put("/api/resources/plan/p1", token, deep) }, 413, "too_large", ""},
		{"body_past_64_KiB", func() answer { return a.put("/api/resources/plan/p1", token, strings.Repeat(" ", 65<<10)) }, 413, "too_large", ""},
		{"no_body", func() answer { return a.put("/api/resources/plan/p1", token, ``) }, 400, "invalid_json", ""},
		{"no_object", func() answer { return a.put("/api/resources/plan/p1", token, `[1]`) }, 400, "invalid_field", ""},
		{"duplicate_members", func() answer { return a.put("/api/resources/plan/p1", token, `{"a":1,"a":2}`) }, 400, "invalid_json", ""},
		{"trailing_data", func() answer { return a.put("/api/resources/plan/p1", token, `{}{}`) }, 400, "invalid_json", ""},
		{"no_utf8", func() answer { return a.put("/api/resources/plan/p1", token, "{\"a\":\"\xff\"}") }, 400, "invalid_json", ""},
		{"a_put_of_a_webhook_endpoint", func() answer { return a.put("/api/resources/webhook_endpoint/wep_1", token, `{}`) }, 400, "reserved_kind", "kind"},
		{"a_patch_of_a_webhook_endpoint", func() answer { return a.patch("/api/resources/webhook_endpoint/wep_1", token, `{}`) }, 400, "reserved_kind", "kind"},
		{"a_delete_of_a_webhook_endpoint", func() answer { return a.request("DELETE", "/api/resources/webhook_endpoint/wep_1", token, nil) }, 400, "reserved_kind", "kind"},
		{"patch_as_json_patch", func() answer {
			return a.request("PATCH", customer, token, strings.NewReader(`[]`), "Content-Type", "application/json-patch+json")
		}, 415, "unsupported_media_type", ""},
		{"put_as_merge_patch", func() answer {
			return a.request("PUT", customer, token, strings.NewReader(`{}`), "Content-Type", "application/merge-patch+json")
		}, 415, "unsupported_media_type", ""},
		{"put_without_a_type", func() answer { return a.request("PUT", customer, token, strings.NewReader(`{}`)) }, 415, "unsupported_media_type", ""},
		{"put_in_another_charset", func() answer {
			return a.request("PUT", customer, token, strings.NewReader(`{}`), "Content-Type", "application/json; charset=latin1")
		}, 415, "unsupported_media_type", ""},
		{"compressed_body", func() answer { return a.put(customer, token, `{}`, "Content-Encoding", "gzip") }, 415, "unsupported_media_type", ""},
		{"action_that_has_its_own_event", func() answer { return a.patch(customer+"?action=updated", token, `{}`) }, 400, "invalid_parameter", "action"},
		{"action_in_capitals", func() answer { return a.patch(customer+"?action=Merged", token, `{}`) }, 400, "invalid_parameter", "action"},
		{"action_empty", func() answer { return a.patch(customer+"?action=", token, `{}`) }, 400, "invalid_parameter", "action"},
		{"action_of_49_characters", func() answer { return a.patch(customer+"?action="+strings.Repeat("a", 49), token, `{}`) }, 400, "invalid_parameter", "action"},
		{"action_twice", func() answer { return a.patch(customer+"?action=a&action=b", token, `{}`) }, 400, "duplicate_parameter", "action"},
		{"delete_takes_no_action", func() answer { return a.request("DELETE", customer+"?action=merged", token, nil) }, 400, "unknown_parameter", "action"},
		{"unknown_parameter", func() answer { return a.put(customer+"?actoin=merged", token, `{}`) }, 400, "unknown_parameter", "actoin"},
		{"kind_in_capitals", func() answer { return a.put("/api/resources/Customer/x", token, `{}`) }, 400, "invalid_parameter", "kind"},
		{"kind_of_33_characters", func() answer { return a.put("/api/resources/"+strings.Repeat("a", 33)+"/x", token, `{}`) }, 400, "invalid_parameter", "kind"},
		{"id_with_a_dot", func() answer { return a.put("/api/resources/plan/a.b", token, `{}`) }, 400, "invalid_parameter", "id"},
		{"id_with_nul", func() answer { return a.put("/api/resources/plan/a%00b", token, `{}`) }, 400, "invalid_parameter", "id"},
		{"id_of_65_characters", func() answer { return a.put("/api/resources/plan/"+strings.Repeat("a", 65), token, `{}`) }, 400, "invalid_parameter", "id"},
		{"If-Match_without_quotes", func() answer { return a.put(customer, token, `{}`, "If-Match", "evt_x") }, 400, "invalid_request", ""},
		{"list_of_no_kind", func() answer { return a.get("/api/resources/No-Kind", token) }, 404, "not_found", ""},
		{"list_unknown_parameter", func() answer { return a.get("/api/resources/plan?order=asc", token) }, 400, "unknown_parameter", "order"},
		{"list_limit", func() answer { return a.get("/api/resources/plan?limit=0", token) }, 400, "invalid_parameter", "limit"},
		{"list_cursor", func() answer { return a.get("/api/resources/plan?after=a.b", token) }, 400, "invalid_cursor", "after"},
		{"post_is_405", func() answer { return a.request("POST", customer, token, nil) }, 405, "invalid_request", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := tt.do()
			w.fault(t, tt.status, tt.code, tt.param)
			if tt.name == "patch_as_json_patch" && (w.Header().Get("Accept-Patch") != web.MergePatchType+", application/json" || !strings.Contains(w.Body.String(), web.MergePatchType)) {
				t.Errorf("the refusal does not name the right type: %v %s", w.Header(), w.Body)
			}
			if tt.code == "reserved_kind" && !strings.Contains(w.Body.String(), api.WebhooksPath) {
				t.Errorf("the refusal does not name %s: %s", api.WebhooksPath, w.Body)
			}
		})
	}
	t.Cleanup(func() { // after the parallel rows
		if n := len(a.get("/api/events", token).page(t).Data); n != events {
			t.Errorf("%d events, want the %d from before: a refusal changes nothing", n, events)
		}
	})
}

// Promise (§3.1): If-Match and If-None-Match give 412, also with a tag that a proxy weakened; with
// an action each call records; If-Match guards a retry
func TestResourceConditions(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	const path = "/api/resources/plan/p1"
	old := a.put(path, token, `{"n":1}`).Header().Get("ETag")
	current := a.put(path, token, `{"n":2}`).Header().Get("ETag")
	put := func(path string, headers ...string) answer { return a.put(path, token, `{"n":2}`, headers...) }
	tests := []struct {
		name string
		do   func() answer
		want int
	}{
		{"If-Match_current", func() answer { return put(path, "If-Match", current) }, 200},
		{"If-Match_one_of_several", func() answer { return put(path, "If-Match", `"x", `+current) }, 200},
		{"If-Match_any", func() answer { return put(path, "If-Match", "*") }, 200},
		{"If-Match_old", func() answer { return put(path, "If-Match", old) }, 412},
		{"If-Match_on_nothing", func() answer { return put("/api/resources/plan/none", "If-Match", "*") }, 412},
		{"If-None-Match_any_on_something", func() answer { return put(path, "If-None-Match", "*") }, 412},
		{"If-None-Match_any_on_nothing", func() answer { return put("/api/resources/plan/p2", "If-None-Match", "*") }, 201},
		{"If-None-Match_current", func() answer { return put(path, "If-None-Match", current) }, 412},
		{"patch_If-Match_old", func() answer { return a.patch(path, token, `{"n":3}`, "If-Match", old) }, 412},
		{"patch_of_nothing_is_404_first", func() answer { return a.patch("/api/resources/plan/none", token, `{}`, "If-Match", "*") }, 404},
		{"delete_If-Match_old", func() answer { return a.request("DELETE", path, token, nil, "If-Match", old) }, 412},
		{"action_If-Match_old", func() answer { return a.patch(path+"?action=renewed", token, `{}`, "If-Match", old) }, 412},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if w := tt.do(); w.Code != tt.want {
				t.Errorf("answer = %d %s, want %d", w.Code, w.Body, tt.want)
			}
		})
	}
}

// Promise (§3.1): any kind is accepted; known kinds have no unknown fields, refused with the
// nearest name; id and object equal the path or are absent; resources are listed by id
func TestListResources(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	for _, id := range []string{"b", "a", "d", "c", "gone"} {
		a.put("/api/resources/plan/"+id, token, `{}`)
	}
	a.put("/api/resources/planner/e", token, `{}`)
	a.request("DELETE", "/api/resources/plan/gone", token, nil)
	tests := []struct{ name, query, want string }{
		{"by_id", "plan", `{"object":"list","data":[{"id":"a","object":"plan"},{"id":"b","object":"plan"},{"id":"c","object":"plan"},{"id":"d","object":"plan"}],"hasMore":false,"nextCursor":"d","previousCursor":"a"}`},
		{"limit", "plan?limit=2", `{"object":"list","data":[{"id":"a","object":"plan"},{"id":"b","object":"plan"}],"hasMore":true,"nextCursor":"b","previousCursor":"a"}`},
		{"after", "plan?limit=2&after=b", `{"object":"list","data":[{"id":"c","object":"plan"},{"id":"d","object":"plan"}],"hasMore":false,"nextCursor":"d","previousCursor":"c"}`},
		{"after_no_resource", "plan?limit=1&after=bb", `{"object":"list","data":[{"id":"c","object":"plan"}],"hasMore":true,"nextCursor":"c","previousCursor":"c"}`},
		{"empty_after_a_cursor", "plan?after=z", `{"object":"list","data":[],"hasMore":false,"nextCursor":"z","previousCursor":"z"}`},
		{"empty", "invoice", `{"object":"list","data":[],"hasMore":false,"nextCursor":"","previousCursor":""}`},
	}
	for _, tt := range tests {
		t.Run("list_"+tt.name, func(t *testing.T) {
			t.Parallel()
			if w := a.get("/api/resources/"+tt.query, token); w.Body.String() != tt.want {
				t.Errorf("list = %s\nwant %s", w.Body, tt.want)
			}
		})
	}
}

// Writers of one resource never lose a change: each event has the values that it replaced,
// and together they lead back to the beginning.
func TestResourceChangesAtOnce(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	const path, writers = "/api/resources/plan/p1", 8
	a.put(path, token, `{"n":0}`)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for {
				w := a.patch(path, token, `{"m`+string(rune('a'+i))+`":1}`)
				if w.Code == http.StatusOK {
					return
				}
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
					t.Errorf("patch = %d %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(a.get("/api/events?type=plan.updated", token).page(t).Data); n != writers {
		t.Errorf("%d changes were recorded, want %d", n, writers)
	}
	if n := len(decodeObject(t, a.get(path, token).Body.Bytes())); n != writers+3 {
		t.Errorf("the snapshot has %d members, want %d", n, writers+3)
	}
}

// Promise (§2.4): card numbers and unmasked secrets are refused by path; the guard can warn or be
// off
func TestCardGuardModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[eventlog.CardGuard]int{"": 400, eventlog.CardGuardRefuse: 400, eventlog.CardGuardWarn: 201, eventlog.CardGuardOff: 201} {
		t.Run("card_guard_"+string(mode), func(t *testing.T) {
			a := parallelAPI(t, func(o *store.Options) { o.CardGuard = mode })
			token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
			if w := a.put("/api/resources/plan/p1", token, `{"n":"4242424242424242"}`); w.Code != want {
				t.Errorf("put = %d %s, want %d", w.Code, w.Body, want)
			}
		})
	}
}

// TestCardGuardOverTheWire: the guard refuses cards, and accepts what only resembles one.
//
// Promise (Attacks on the events API): card numbers in every spelling, and what only resembles one
func TestCardGuardOverTheWire(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	s := httptest.NewServer(a.server.Public())
	t.Cleanup(s.Close)
	for i, c := range []struct {
		name, kind, body string
		want             int
	}{
		{"a_mobile_number_with_a_country_code", "plan", `{"contact":"+49 151 1234 5678"}`, http.StatusCreated},
		{"a_mobile_number_without_the_plus_sign", "plan", `{"contact":"4915112345678"}`, http.StatusCreated},
		{"the_phone_of_a_customer", "customer", `{"phone":"4242 4242 4242 4242"}`, http.StatusCreated},
		{"an_id_with_digits_beside_letters", "plan", `{"ref":"INV4242424242424242"}`, http.StatusCreated},
		{"a_rate", "plan", `{"rate":0.4242424242424242}`, http.StatusCreated},
		{"a_card_number_in_the_notes_of_a_customer", "customer", `{"notes":"4242 4242 4242 4242"}`, http.StatusBadRequest},
		{"a_card_number_in_full_width_digits", "plan", `{"note":"４２４２４２４２４２４２４２４２"}`, http.StatusBadRequest},
		{"a_card_number_as_the_name_of_a_member", "plan", `{"4242424242424242":1}`, http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("%s/api/resources/%s/id_%d", s.URL, c.kind, i), strings.NewReader(c.body))
			must.Do(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := must.Get(s.Client().Do(r))(t)
			defer w.Body.Close()
			body, err := io.ReadAll(w.Body)
			if err != nil || w.StatusCode != c.want || c.want == http.StatusBadRequest && !strings.Contains(string(body), `"sensitive_data"`) {
				t.Errorf("put %s = %d %s, %v; want %d", c.body, w.StatusCode, body, err, c.want)
			}
			if strings.Contains(string(body), "4242") && c.want == http.StatusBadRequest {
				t.Errorf("the answer repeats the number: %s", body)
			}
		})
	}
}

// TestResourceChangeAfterTheTokenEnded: a body that arrives after its token has ended
// changes nothing, and brings no erased account back.
//
// Promise (Credentials, memory, connections): tokens of deleted or disabled parties; late bodies of
// former operators and ended tokens
func TestResourceChangeAfterTheTokenEnded(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(a *apiHouse) error{
		"user_disabled":    func(a *apiHouse) error { _, err := a.DisableUser(ctx, "ann"); return err },
		"account_disabled": func(a *apiHouse) error { _, err := a.DisableAccount(ctx, "acct_a"); return err },
		"account_erased":   func(a *apiHouse) error { return errors.Join(a.DeleteUser(ctx, "ann"), a.DeleteAccount(ctx, "acct_a")) },
	} {
		for method, mediaType := range map[string]string{"PUT": "application/json", "PATCH": web.MergePatchType} {
			t.Run(name+"/"+method, func(t *testing.T) {
				a := parallelAPI(t)
				token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
				a.request("PUT", "/api/resources/plan/p1", token, strings.NewReader(`{"n":"1"}`), "Content-Type", "application/json")
				var left int
				body := bodyAfter{strings.NewReader(`{"n":"2"}`), sync.OnceFunc(func() { must.Do(t, end(a)); left = a.Count(t, 'E') })}
				w := a.request(method, "/api/resources/plan/p1", token, body, "Content-Type", mediaType)
				if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
					t.Errorf("answer = %d %s, want 401", w.Code, w.Body)
				}
				if now := a.Count(t, 'E'); now != left {
					t.Errorf("%d records of events, were %d", now, left)
				}
				if _, err := a.FindAccount(ctx, "acct_a"); name == "account_erased" && err == nil {
					t.Error("the erased account exists again")
				}
			})
		}
	}
}

// A PATCH changes what it names and nothing else (RFC 7396), and a PUT of what was read
// changes nothing: the defaults of a customer are for one that the API creates.
//
// Promise (§3.1): a customer's fields are strings; a new one gets all of them; PUT is 201 and
// created, 200 and updated, or 200 and no event; PATCH changes what its merge patch names and
// nothing else
func TestAnImportedCustomerChangesOnlyInWhatARequestNames(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	token := a.token(t, "odile", "acct_a", store.ScopeUnstated)
	const path, imported = "/api/resources/customer/cus_1", `{"id":"cus_1","object":"customer","displayName":"Larkspur","legacy":{"tier":3}}`
	a.importLines(t, "acct_a", `{"type":"customer.created","resource":"cus_1","eventData":{"object":`+imported+`},"createdAt":1773000000}`)
	steps := []struct {
		name           string
		do             func() answer
		after, replied string // the resource, and its event's previousAttributes; "" for no event
	}{
		{"patch_nothing", func() answer { return a.patch(path, token, `{}`) }, imported, ""},
		{"patch_one_member", func() answer { return a.patch(path, token, `{"city":"Dunmere"}`) },
			`{"id":"cus_1","object":"customer","displayName":"Larkspur","legacy":{"tier":3},"city":"Dunmere"}`, `{"city":null}`},
		{"patch_null", func() answer { return a.patch(path, token, `{"city":null,"phone":null}`) }, imported, `{"city":"Dunmere"}`},
		{"patch_with_an_action", func() answer { return a.patch(path+"?action=merged", token, `{"displayName":"L"}`) },
			`{"id":"cus_1","object":"customer","displayName":"L","legacy":{"tier":3}}`, `{"displayName":"Larkspur"}`},
		{"put_one_member_more", func() answer { return a.put(path, token, `{"displayName":"L","city":"Dunmere"}`) },
			`{"id":"cus_1","object":"customer","displayName":"L","city":"Dunmere"}`, `{"city":null,"legacy":{"tier":3}}`},
		{"put_what_was_read", func() answer { return a.put(path, token, a.get(path, token).Body.String()) },
			`{"id":"cus_1","object":"customer","displayName":"L","city":"Dunmere"}`, ""},
	}
	for _, step := range steps {
		if step.name == "put_one_member_more" { // a member that the API does not know can only be imported
			a.importLines(t, "acct_a", `{"type":"customer.updated","resource":"cus_1","eventData":{"object":{"displayName":"L"}},"createdAt":`+strconv.FormatInt(a.Now().Unix()+1, 10)+`}`)
			step.replied = `{"city":null}`
		}
		w := step.do()
		if w.Code != http.StatusOK {
			t.Fatalf("%s = %d %s", step.name, w.Code, w.Body)
		}
		if got := a.get(path, token).Body.String(); got != step.after || w.Body.String() != got {
			t.Errorf("%s left %s\nwant %s", step.name, got, step.after)
		}
		event := w.Header().Get("Tollhouse-Event")
		if step.replied == "" {
			if event != "none" {
				t.Errorf("%s recorded %s", step.name, event)
			}
			continue
		}
		if got := a.get("/api/events/"+event, token).Body.String(); !strings.Contains(got, `"previousAttributes":`+step.replied+`}`) {
			t.Errorf("%s recorded %s\nwant previousAttributes %s", step.name, got, step.replied)
		}
	}
}
