package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
)

// newMakingHouse is a dev house whose first client and user are those of the house.
func newMakingHouse(t *testing.T) *devHouse {
	t.Helper()
	demo := &web.Demo{Username: "mara", Account: "acct_larkspur"}
	h := newDevHouse(t, func(c *handlers.Config) { c.Demo = demo })
	demo.ClientID, demo.ClientSecret = h.client.ID, h.secret.Reveal()
	return h
}

func (h *devHouse) bearerStatus(t *testing.T, token string) int {
	t.Helper()
	return h.get(t, apiPath, header("Authorization", "Bearer "+token)).StatusCode
}

// Promise (Platform §8, §16): dev has a platform client; a platform scope at /_dev/tokens needs such a
// client, and "all" is the five data scopes there too
func TestDevTokens(t *testing.T) {
	t.Parallel()
	h := newMakingHouse(t)
	mint := func(t *testing.T, body string) map[string]any {
		t.Helper()
		return object(t, h.ask(t, "POST", "/_dev/tokens", body), http.StatusOK)
	}
	active := func(t *testing.T, token any) bool {
		t.Helper()
		form := url.Values{"client_id": {h.client.ID}, "client_secret": {h.secret.Reveal()}, "token": {token.(string)}}
		return object(t, h.postForm(t, "/oauth/v2/introspect", form), http.StatusOK)["active"].(bool)
	}
	t.Run("are_those_of_a_grant", func(t *testing.T) {
		made, granted := mint(t, ""), map[string]any{}
		if err := json.Unmarshal([]byte(h.token(t, h.passwordForm()).body), &granted); err != nil {
			t.Fatal(err)
		}
		for name, value := range granted {
			if name != "access_token" && name != "refresh_token" && made[name] != value || len(made) != len(granted) {
				t.Errorf("%s = %v, want %v", name, made[name], value)
			}
		}
		if status := h.bearerStatus(t, made["access_token"].(string)); status != http.StatusOK || !active(t, made["access_token"]) {
			t.Errorf("the access token gives %d", status)
		}
		wantPair(t, h.token(t, h.refreshForm(made["refresh_token"].(string))))
	})
	t.Run("expire_when_they_are_told_to", func(t *testing.T) {
		made := mint(t, `{"expires_in":-60,"scope":"events:read"}`)
		if made["expires_in"] != float64(-60) || made["scope"] != "events:read" {
			t.Errorf("answer %v, want what was asked for", made)
		}
		if status := h.bearerStatus(t, made["access_token"].(string)); status != http.StatusUnauthorized || active(t, made["access_token"]) {
			t.Errorf("an expired token gives %d", status)
		}
		wantPair(t, h.token(t, h.refreshForm(made["refresh_token"].(string))))
		made = mint(t, `{"expires_in":0,"refresh_expires_in":0}`)
		wantTokenError(t, h.token(t, h.refreshForm(made["refresh_token"].(string))), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("of_a_platform_client", func(t *testing.T) {
		p := newPlatform(t, h.house, "accounts:act", "audit:read", "events:read")
		made := mint(t, `{"client_id":"`+p.client.ID+`","access_token":"platform-token"}`)
		if _, refreshes := made["refresh_token"]; refreshes || made["scope"] != "events:read accounts:act audit:read" {
			t.Errorf("answer %v, want the client's scopes and no refresh token", made)
		}
		wantStatus(t, h.call(t, "platform-token", "GET", apiPath, "", actingFor("acct_larkspur")), http.StatusOK)
		for _, scope := range []string{"audit:read", "events:read accounts:act"} {
			wantError(t, h.ask(t, "POST", "/_dev/tokens", `{"scope":"`+scope+`"}`), http.StatusBadRequest, "invalid_scope")
		}
		for _, member := range []string{"username", "refresh_token"} {
			fault := h.ask(t, "POST", "/_dev/tokens", `{"client_id":"`+p.client.ID+`","`+member+`":"mara"}`)
			wantError(t, fault, http.StatusBadRequest, "invalid_request")
		}
		if unstated := mint(t, ""); unstated["scope"] != nil || h.call(t, unstated["access_token"].(string), "GET", apiPath, "").StatusCode != http.StatusOK {
			t.Errorf("of the first client: %v, want no scope", unstated)
		}
	})
	t.Run("have_texts_of_the_callers_own", func(t *testing.T) {
		made := mint(t, `{"access_token":"mine","refresh_token":"my-refresh"}`)
		if made["access_token"] != "mine" || h.bearerStatus(t, "mine") != http.StatusOK || !active(t, "my-refresh") {
			t.Errorf("answer %v, want the texts to work", made)
		}
		wantPair(t, h.token(t, h.refreshForm("my-refresh")))
		fault := object(t, h.ask(t, "POST", "/_dev/tokens", `{"access_token":"mine"}`), http.StatusConflict)
		if fault["param"] != "access_token" {
			t.Errorf("%v, want access_token refused", fault)
		}
		if status := h.bearerStatus(t, "not-mine"); status != http.StatusUnauthorized {
			t.Errorf("an unknown text gives %d", status)
		}
	})
	t.Run("refuses", func(t *testing.T) {
		for body, want := range map[string]struct {
			status      int
			code, param string
		}{
			`{"client_id":"nobody"}`:                   {http.StatusNotFound, "not_found", "client_id"},
			`{"username":"nobody"}`:                    {http.StatusNotFound, "not_found", "username"},
			`{"scope":"everything"}`:                   {http.StatusBadRequest, "invalid_scope", ""},
			`{"access_token":""}`:                      {http.StatusBadRequest, "invalid_request", "access_token"},
			`{"access_token":"a b"}`:                   {http.StatusBadRequest, "invalid_request", "access_token"},
			`{"expires_in":9223372036854775807}`:       {http.StatusBadRequest, "invalid_request", "expires_in"},
			`{"expires_in":"60"}`:                      {http.StatusBadRequest, "invalid_request", "expires_in"},
			`{"expiresIn":60}`:                         {http.StatusBadRequest, "invalid_request", "expiresIn"},
			`{"access_token":"x","refresh_token":"x"}`: {http.StatusConflict, "conflict", "refresh_token"},
			`{"refresh_token":"","access_token":""}`:   {http.StatusBadRequest, "invalid_request", "access_token"},
		} {
			fault := object(t, h.ask(t, "POST", "/_dev/tokens", body), want.status)
			if param, _ := fault["param"].(string); fault["error"] != want.code || param != want.param {
				t.Errorf("%s: %v, want %s of %q", body, fault, want.code, want.param)
			}
		}
	})
}

func TestDevEvents(t *testing.T) {
	t.Parallel()
	h := newMakingHouse(t)
	const event = `"type":"invoice.paid","resource":"inv_1","eventData":{"object":{"total":"1"}}`
	post := func(t *testing.T, body string, status int) map[string]any {
		t.Helper()
		return object(t, h.ask(t, "POST", "/_dev/events", body), status)
	}
	made := func(t *testing.T, body string) (events []map[string]any) {
		t.Helper()
		for _, e := range post(t, body, http.StatusCreated)["data"].([]any) {
			events = append(events, e.(map[string]any))
		}
		return events
	}
	token := wantPair(t, h.token(t, h.passwordForm())).AccessToken
	listed := func(t *testing.T) (events []any) {
		t.Helper()
		return object(t, h.get(t, apiPath+"?order=asc&limit=1000", header("Authorization", "Bearer "+token)), http.StatusOK)["data"].([]any)
	}
	t.Run("are_recorded_as_they_are", func(t *testing.T) {
		for n, body := range []string{`{` + event + `}`, `[{` + event + `,"createdAt":1767225600,"owner":"acct_larkspur"}]`, `{` + event + `,"createdAt":1767225600,"account":"acct_larkspur"}`} {
			events := made(t, body)
			want := float64(devBegins.Unix())
			if n > 0 {
				want = 1767225600
			}
			if len(events) != 1 || events[0]["createdAt"] != want || events[0]["owner"] != "acct_larkspur" {
				t.Fatalf("%v, want one event at %v", events, want)
			}
			path := apiPath + "/" + events[0]["id"].(string)
			if found := object(t, h.get(t, path, header("Authorization", "Bearer "+token)), http.StatusOK); !reflect.DeepEqual(found, events[0]) {
				t.Errorf("the API has %v, want %v", found, events[0])
			}
		}
	})
	t.Run("of_one_second_keep_their_order_and_are_never_the_same", func(t *testing.T) {
		before := len(listed(t))
		var want []any
		for range 3 {
			for _, e := range made(t, `[{`+event+`},{`+event+`},{`+event+`,"createdAt":1767225599}]`)[:2] {
				want = append(want, e["id"])
			}
		}
		all := listed(t)
		if len(all) != before+9 {
			t.Fatalf("%d events, want 9 more than %d", len(all), before)
		}
		var got []any
		for _, e := range all[len(all)-6:] {
			got = append(got, e.(map[string]any)["id"])
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("newest %v, want %v", got, want)
		}
	})
	t.Run("answer_a_list_that_begins_with_its_kind", func(t *testing.T) {
		for _, a := range []answer{h.ask(t, "POST", "/_dev/events", `{`+event+`}`), h.get(t, "/_dev/faults"), h.get(t, "/_dev/requests")} {
			if !strings.HasPrefix(a.body, `{"object":"list","data":[`) {
				t.Errorf("%s, want object first", a.body)
			}
		}
	})
	t.Run("that_are_no_objects_are_named_by_their_place", func(t *testing.T) {
		if fault := post(t, `[7]`, http.StatusBadRequest); fault["error_description"] != "The event must be an object, not a number." || fault["param"] != "0" {
			t.Errorf("%v, want a sentence about the first event", fault)
		}
	})
	t.Run("all_or_none", func(t *testing.T) {
		before := len(listed(t))
		for body, param := range map[string]string{
			`[{` + event + `},{` + event + `,"createdAt":99999999998}]`:    "1.createdAt",
			`[{` + event + `},{` + event + `,"createdAt":"now"}]`:          "1.createdAt",
			`[{` + event + `},{"type":"invoice.paid","resource":"inv_1"}]`: "1.eventData",
			`[{` + event + `},{` + event + `,"colour":"red"}]`:             "1.colour",
			`[{` + event + `},{` + event + `,"owner":"no account"}]`:       "1.owner",
			`[{` + event + `},{` + event + `,"account":"no account"}]`:     "1.account",
			`[{` + event + `,"owner":"a","account":"a"}]`:                  "0",
			`[{` + event + `},7]`:                                                            "1",
			`{` + event + `,"createdAt":99999999998}`:                                        "createdAt",
			`{"type":"Invoice","resource":"inv_1","eventData":{"object":{}}}`:                "type",
			`[{` + event + `,"id":"evt_mine"},{` + event + `,"id":"evt_mine","source":"x"}]`: "1.id",
		} {
			fault := post(t, body, http.StatusBadRequest)
			if fault["error"] != "invalid_request" || fault["param"] != param {
				t.Errorf("%s: %v, want %s refused", body, fault, param)
			}
			if strings.Contains(body, "99999999998") != strings.Contains(fmt.Sprint(fault["hint"]), "/_dev/clock") {
				t.Errorf("%s: hint %v", body, fault["hint"])
			}
		}
		wantError(t, h.ask(t, "POST", "/_dev/events", ""), http.StatusBadRequest, "invalid_request")
		wantError(t, h.ask(t, "POST", "/_dev/events", "["+strings.Repeat("{},", 1000)+"{}]"), http.StatusBadRequest, "invalid_request")
		if after := len(listed(t)); after != before {
			t.Errorf("%d events, want the %d of before", after, before)
		}
	})
}

// Promise (§2.4): a number beyond binary64 and U+0000 are 400 `invalid_json` with the path of the
// member, in every body and line; all other numbers stay exact
func TestDevRefusesWhatReadersCannotHold(t *testing.T) {
	t.Parallel()
	h := newMakingHouse(t)
	for _, value := range []string{`1e400`, `"\u0000"`} {
		for path, body := range map[string]string{
			"/_dev/events": `{"type":"plan.x","resource":"p1","eventData":{"object":{"a":` + value + `}}}`,
			"/_dev/tokens": `{"scope":` + value + `}`,
		} {
			if refused := object(t, h.ask(t, "POST", path, body), http.StatusBadRequest); refused["error"] != "invalid_json" || refused["param"] == nil {
				t.Errorf("%s with %s = %v, want invalid_json on a member", path, value, refused)
			}
		}
	}
}
