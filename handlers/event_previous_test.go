package handlers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/store"
)

// The previous snapshot in an event, call by call, on the wire: a null member differs from
// an absent one.
//
// Promise (§3.2): nulls in objects are dropped, those in arrays stay; of nested objects only
// changed members; an added member is null, a removed one has its value; arrays are whole
// Promise (§3.2): every event of a change has previousAttributes, named actions too; a snapshot has
// no null, so null always means absent; previousAttributes have no bookkeeping fields
func TestPreviousAttributesOnTheWire(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, before, action, change string
		wantType, wantObject         string
		wantPrevious                 string // "" for no such member
	}{
		{"nulls_of_objects_are_dropped_and_those_in_arrays_stay", `{"a":null,"b":{"c":null,"d":1},"e":[null]}`, "", `{"f":1}`,
			"plan.updated", `{"id":"p1","object":"plan","b":{"d":1},"e":[null],"f":1}`, `{"f":null}`},
		{"nested_only_what_differs", `{"transitions":{"finalized":null,"opened":5,"paid":7}}`, "", `{"transitions":{"finalized":6}}`,
			"plan.updated", `{"id":"p1","object":"plan","transitions":{"opened":5,"paid":7,"finalized":6}}`, `{"transitions":{"finalized":null}}`},
		{"a_member_that_was_added_is_null", `{"metadata":{}}`, "", `{"metadata":{"tier":"gold"}}`,
			"plan.updated", `{"id":"p1","object":"plan","metadata":{"tier":"gold"}}`, `{"metadata":{"tier":null}}`},
		{"a_member_that_was_removed_has_its_value", `{"metadata":{"tier":{"name":"gold"}},"n":1}`, "", `{"metadata":{"tier":null}}`,
			"plan.updated", `{"id":"p1","object":"plan","metadata":{},"n":1}`, `{"metadata":{"tier":{"name":"gold"}}}`},
		{"an_array_is_whole", `{"lines":[1,2,3]}`, "", `{"lines":[1,2,4]}`,
			"plan.updated", `{"id":"p1","object":"plan","lines":[1,2,4]}`, `{"lines":[1,2,3]}`},
		{"a_change_by_a_named_action_has_it_too", `{"status":"submitted"}`, "settled", `{"status":"settled"}`,
			"plan.settled", `{"id":"p1","object":"plan","status":"settled"}`, `{"status":"submitted"}`},
		{"an_action_that_changed_nothing_has_none", `{"status":"settled"}`, "settled", `{}`,
			"plan.settled", `{"id":"p1","object":"plan","status":"settled"}`, ""},
		{"null_removes_and_is_never_kept", `{"a":1,"b":2}`, "", `{"a":null}`,
			"plan.updated", `{"id":"p1","object":"plan","b":2}`, `{"a":1}`},
		{"there_are_no_bookkeeping_fields", `{"n":1}`, "", `{"n":2}`,
			"plan.updated", `{"id":"p1","object":"plan","n":2}`, `{"n":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := parallelAPI(t)
			token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
			created := a.put("/api/resources/plan/p1", token, tt.before).Header().Get("Tollhouse-Event")
			if e := a.eventData(t, token, created); e.Previous != nil {
				t.Errorf("the first event has previousAttributes %s, want none", e.Previous)
			}
			query := ""
			if tt.action != "" {
				query = "?action=" + tt.action
			}
			w := a.patch("/api/resources/plan/p1"+query, token, tt.change)
			if w.Code != http.StatusOK {
				t.Fatalf("patch = %d %s", w.Code, w.Body)
			}
			e := a.eventData(t, token, w.Header().Get("Tollhouse-Event"))
			if e.typ != tt.wantType || string(e.Object) != tt.wantObject || string(e.Previous) != tt.wantPrevious {
				t.Errorf("%s of %s, previous %s; want %s of %s, previous %s", e.typ, e.Object, e.Previous, tt.wantType, tt.wantObject, tt.wantPrevious)
			}
		})
	}
}

type rawEventData struct {
	typ      string
	Object   json.RawMessage `json:"object"`
	Previous json.RawMessage `json:"previousAttributes"`
}

// eventData is an event's, byte by byte.
func (a *apiHouse) eventData(t testing.TB, token, id string) rawEventData {
	t.Helper()
	w := a.get("/api/events/"+id, token)
	var e struct {
		Type      string
		EventData rawEventData
	}
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusOK {
		t.Fatalf("event %s = %d %s (%v)", id, w.Code, w.Body, err)
	}
	e.EventData.typ = e.Type
	return e.EventData
}

// Who acted and from where: every way into the log records it.
//
// Promise (§2.4): source is the user, else the client, else system; location says how it arrived
func TestEventSaysWhoAndWhereFrom(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	byUser := a.put("/api/resources/plan/p1", token, `{}`).Header().Get("Tollhouse-Event")
	w := a.admin(http.MethodPost, "/admin/events?account=acct_a", strings.NewReader(`{"type":"plan.renewed","resource":"p1","eventData":{"object":{}}}`), "Content-Type", "application/json")
	byOperator := decodeObject(t, w.Body.Bytes())["id"].(string)
	a.importLines(t, "acct_a", line(`,"id":"plain"`)+"\n"+line(`,"id":"named","source":"mona.lind","location":"dashboard"`)+"\n"+line(`,"id":"made","location":"generator"`))
	for _, tt := range []struct{ name, id, source, location string }{
		{"by_a_user_through_the_api", byUser, "harriet.voss", "api"},
		{"by_the_operator", byOperator, "system", "system"},
		{"by_an_import_that_does_not_say", "plain", "system", "import"},
		{"by_an_import_with_a_source", "named", "mona.lind", "dashboard"},
		{"by_the_generator", "made", "system", "generator"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := decodeObject(t, a.get("/api/events/"+tt.id, token).Body.Bytes())
			if e["source"] != tt.source || e["location"] != tt.location {
				t.Errorf("event = %v, want it by %s from %s", e, tt.source, tt.location)
			}
		})
	}
	for _, tt := range []struct {
		who  store.Principal
		want string
	}{
		{store.Principal{Username: "harriet.voss", ClientName: "Ledger"}, "harriet.voss"}, {store.Principal{ClientName: "Ledger"}, "Ledger"}, {store.Principal{}, "system"},
	} {
		if got := api.Actor(tt.who); got != tt.want {
			t.Errorf("actor(%+v) = %q, want %q", tt.who, got, tt.want)
		}
	}
}
