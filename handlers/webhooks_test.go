package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

const hookURL = "https://hooks.larkspurtea.example/tollhouse"

// recordingSender sends nothing, and remembers what was asked of it.
type recordingSender struct {
	mu     sync.Mutex
	tested []string
	err    error         // of each test
	begun  chan struct{} // of each test, if there is one
	end    chan struct{}
}

func (s *recordingSender) Test(_ context.Context, id string) (api.WebhookTest, error) {
	s.mu.Lock()
	s.tested = append(s.tested, id)
	s.mu.Unlock()
	if s.begun != nil {
		s.begun <- struct{}{}
		<-s.end
	}
	status := http.StatusOK
	return api.WebhookTest{Delivered: true, Status: &status, MS: 3, WebhookID: "evt_01kk9kgbjj00023m5qehe9m3gk"}, s.err
}

// hooked is an API with a sender.
type hooked struct {
	*apiHouse
	sender *recordingSender
	token  string
}

func newHooked(t testing.TB) *hooked {
	t.Helper()
	a := newAPI(t)
	h := &hooked{apiHouse: a, sender: &recordingSender{}, token: a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)}
	a.server.API.Webhooks = h.sender
	return h
}

// post sends a JSON body to an address below the endpoints.
func (h *hooked) post(path, token, body string) answer {
	return h.request(http.MethodPost, api.WebhooksPath+path, token, strings.NewReader(body), "Content-Type", "application/json")
}

// created creates an endpoint and returns it.
func (h *hooked) created(t testing.TB, body string) api.WebhookEndpoint {
	t.Helper()
	return endpointIn(t, h.post("", h.token, body), http.StatusCreated)
}

func endpointIn(t testing.TB, w answer, status int) api.WebhookEndpoint {
	t.Helper()
	var e api.WebhookEndpoint
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != status {
		t.Fatalf("answer = %d %s (%v), want %d", w.Code, w.Body, err, status)
	}
	return e
}

// Promise (Webhooks): an endpoint, its limits, revisions and events; paths and queries of URLs stay
// out of events and audit
func TestWebhookEndpoints(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	w := h.post("", h.token, `{"url":"HTTPS://Hooks.LarkspurTea.example/tollhouse?x=1","types":["customer.*","customer.*","*.created"],"description":"Larkspur"}`)
	e := endpointIn(t, w, http.StatusCreated)

	t.Run("a_new_one_has_the_whole_object_and_its_secret", func(t *testing.T) {
		if got := w.Header().Get("Location"); got != api.WebhooksPath+"/"+e.ID {
			t.Errorf("Location = %q", got)
		}
		if got, want := w.Header().Get("ETag"), fmt.Sprintf(`"%d"`, e.Revision); got != want {
			t.Errorf("ETag = %s, want the revision %s", got, want)
		}
		if e.Object.Object != "webhook_endpoint" || e.Account != "acct_a" || e.URL != "https://hooks.larkspurtea.example/tollhouse?x=1" || e.Description != "Larkspur" ||
			!slices.Equal(e.Types, []string{"customer.*", "*.created"}) || e.Order != "strict" || e.State != "enabled" || e.Disabled != nil || len(e.Secrets) != 1 || e.Secrets[0].ExpiresAt != nil ||
			!strings.HasPrefix(e.ID, "wep_") || !strings.HasPrefix(e.Secret, "whsec_") || e.Status.Health != "idle" || e.CreatedBy.Client == nil || *e.CreatedBy.Client != h.client.ID || e.CreatedBy.User == nil {
			t.Errorf("endpoint = %s", w.Body)
		}
	})
	t.Run("the_secret_is_shown_once", func(t *testing.T) {
		for _, path := range []string{"", "/" + e.ID, "/" + e.ID + "/deliveries"} {
			if w := h.get(api.WebhooksPath+path, h.token); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "whsec_") || strings.Contains(w.Body.String(), `"secret"`) {
				t.Errorf("%s = %d %s", path, w.Code, w.Body)
			}
		}
		events := h.get("/api/events?limit=1000", h.token).Body.String()
		lines := fmt.Sprint(must.Get(h.ListAudit(context.Background(), record.Position{}, 500))(t))
		if strings.Contains(events+lines, "whsec_") {
			t.Error("an event or an audit line has the secret")
		}
	})
	t.Run("a_secret_of_ones_own_is_taken_over", func(t *testing.T) {
		const own = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
		if got := h.created(t, `{"url":"`+hookURL+`/own","secret":"`+own+`"}`); got.Secret != own {
			t.Errorf("secret = %q", got.Secret)
		}
	})
	t.Run("the_list_is_sorted_and_paged", func(t *testing.T) {
		for i := range 3 {
			h.created(t, fmt.Sprintf(`{"url":"%s/%d"}`, hookURL, i))
		}
		var ids []string
		for after := ""; ; {
			page := h.get(api.WebhooksPath+"?limit=2&after="+after, h.token).page(t)
			ids = append(ids, page.ids()...)
			if after = page.Next; !page.HasMore {
				break
			}
		}
		if len(ids) != 5 || !slices.IsSorted(ids) {
			t.Errorf("ids = %v, want five in order", ids)
		}
	})
	t.Run("a_patch_of_either_type_changes_what_it_names", func(t *testing.T) {
		for _, contentType := range []string{"application/json", web.MergePatchType} {
			before := endpointIn(t, h.get(api.WebhooksPath+"/"+e.ID, h.token), http.StatusOK)
			body := fmt.Sprintf(`{"description":"for %s","order":"none"}`, contentType)
			w := h.request("PATCH", api.WebhooksPath+"/"+e.ID, h.token, strings.NewReader(body), "Content-Type", contentType, "If-Match", fmt.Sprintf(`"%d"`, before.Revision))
			after := endpointIn(t, w, http.StatusOK)
			if after.Revision != before.Revision+1 || after.Description != "for "+contentType || after.Order != "none" || after.URL != before.URL {
				t.Errorf("after = %s", w.Body)
			}
		}
	})
	t.Run("a_patch_of_nothing_changes_nothing", func(t *testing.T) {
		before := endpointIn(t, h.get(api.WebhooksPath+"/"+e.ID, h.token), http.StatusOK)
		last := lastEvent(t, h.apiHouse, h.token)
		after := endpointIn(t, h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"order":"none"}`), http.StatusOK)
		if after.Revision != before.Revision || lastEvent(t, h.apiHouse, h.token).ID != last.ID {
			t.Errorf("the revision is %d after %d, or there is an event", after.Revision, before.Revision)
		}
	})
	t.Run("null_restores_the_default", func(t *testing.T) {
		after := endpointIn(t, h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"order":null,"types":null,"description":null}`), http.StatusOK)
		if after.Order != "strict" || !slices.Equal(after.Types, []string{"*"}) || after.Description != "" {
			t.Errorf("after = %+v", after)
		}
	})
	t.Run("a_status_is_never_answered_from_a_cache", func(t *testing.T) {
		tag := h.get(api.WebhooksPath+"/"+e.ID, h.token).Header().Get("ETag")
		if w := h.get(api.WebhooksPath+"/"+e.ID, h.token, "If-None-Match", tag); w.Code != http.StatusOK {
			t.Errorf("answer = %d, want 200", w.Code)
		}
	})
	t.Run("disabling_and_enabling_say_who_and_what_waits", func(t *testing.T) {
		off := endpointIn(t, h.post("/"+e.ID+"/disable", h.token, ""), http.StatusOK)
		if off.State != "disabled" || off.Disabled == nil || off.Disabled.By != "api" || off.Disabled.Reason != "asked" || off.Status.Health != "disabled" {
			t.Errorf("disabled = %+v", off.Disabled)
		}
		h.put("/api/resources/plan/p1", h.token, `{}`)
		on := endpointIn(t, h.post("/"+e.ID+"/enable", h.token, "{}"), http.StatusOK)
		if on.State != "enabled" || on.Disabled != nil || on.Waiting == nil || on.Waiting.Events < 1 || on.Waiting.More || on.Waiting.Oldest == nil {
			t.Errorf("enabled = %+v, waiting %+v", on, on.Waiting)
		}
		h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"types":["plan.*"]}`) // its own events would wait
		on = endpointIn(t, h.post("/"+e.ID+"/enable", h.token, `{"from":"now"}`), http.StatusOK)
		if on.Waiting == nil || on.Waiting.Events != 0 || on.Waiting.Oldest != nil {
			t.Errorf("from now on %+v waits, want nothing", on.Waiting)
		}
	})
	t.Run("a_rotated_secret_overlaps_the_old_one", func(t *testing.T) {
		var got api.WebhookRotated
		must.Do(t, json.Unmarshal(h.post("/"+e.ID+"/rotate-secret", h.token, `{"overlap":60}`).Body.Bytes(), &got))
		now := h.Now().Unix()
		if got.ID != e.ID || !strings.HasPrefix(got.Secret, "whsec_") || got.Secret == e.Secret || len(got.Secrets) != 2 || got.Secrets[0].ExpiresAt != nil || got.Secrets[1].ExpiresAt == nil || *got.Secrets[1].ExpiresAt != now+60 {
			t.Errorf("rotated = %+v", got)
		}
		must.Do(t, json.Unmarshal(h.post("/"+e.ID+"/rotate-secret", h.token, "").Body.Bytes(), &got))
		if len(got.Secrets) != 3 || *got.Secrets[1].ExpiresAt != now+24*60*60 {
			t.Errorf("rotated without an overlap = %+v, want a day", got)
		}
		refused := h.post("/"+e.ID+"/rotate-secret", h.token, "").fault(t, http.StatusConflict, "conflict", "")
		if text, _ := refused["error_description"].(string); !strings.Contains(text, time.Unix(now+60, 0).UTC().Format(time.RFC3339)) {
			t.Errorf("the refusal does not say when the next one ends: %s", text)
		}
		must.Do(t, json.Unmarshal(h.post("/"+e.ID+"/rotate-secret", h.token, `{"overlap":0}`).Body.Bytes(), &got))
		if len(got.Secrets) != 1 {
			t.Errorf("overlap 0 leaves %d secrets", len(got.Secrets))
		}
	})
	t.Run("a_skip_needs_an_event_that_fails", func(t *testing.T) {
		h.post("/"+e.ID+"/skip", h.token, "").fault(t, http.StatusConflict, "conflict", "")
	})
	t.Run("a_deleted_one_is_unknown", func(t *testing.T) {
		if w := h.request("DELETE", api.WebhooksPath+"/"+e.ID, h.token, nil); w.Code != http.StatusNoContent {
			t.Fatalf("answer = %d %s", w.Code, w.Body)
		}
		h.request("DELETE", api.WebhooksPath+"/"+e.ID, h.token, nil).fault(t, http.StatusNotFound, "not_found", "")
		h.get(api.WebhooksPath+"/"+e.ID, h.token).fault(t, http.StatusNotFound, "not_found", "")
	})
}

// webhookCalls are all calls about an endpoint.
func webhookCalls(id string) map[string]func(h *hooked, token string) answer {
	post := func(path, body string) func(h *hooked, token string) answer {
		return func(h *hooked, token string) answer { return h.post("/"+id+path, token, body) }
	}
	return map[string]func(h *hooked, token string) answer{
		"find":       func(h *hooked, token string) answer { return h.get(api.WebhooksPath+"/"+id, token) },
		"deliveries": func(h *hooked, token string) answer { return h.get(api.WebhooksPath+"/"+id+"/deliveries", token) },
		"update": func(h *hooked, token string) answer {
			return h.patch(api.WebhooksPath+"/"+id, token, `{"order":"none"}`)
		},
		"update_if": func(h *hooked, token string) answer {
			return h.patch(api.WebhooksPath+"/"+id, token, `{"order":"none"}`, "If-Match", `"9"`)
		},
		"update_url": func(h *hooked, token string) answer {
			return h.patch(api.WebhooksPath+"/"+id, token, `{"url":"`+hookURL+`"}`)
		},
		"enable": post("/enable", ""), "enable_from": post("/enable", `{"from":"start"}`), "enable_from_event": post("/enable", `{"from":"evt_00000000000000000000000001"}`),
		"disable": post("/disable", ""), "skip": post("/skip", ""), "rotate": post("/rotate-secret", ""), "test": post("/test", ""),
		"retry": post("/retry", `{"state":"dead"}`), "retry_event": post("/retry", `{"events":["evt_00000000000000000000000001"]}`),
		"delete": func(h *hooked, token string) answer { return h.request("DELETE", api.WebhooksPath+"/"+id, token, nil) },
	}
}

// TestWebhookOfAnotherAccount: whether an endpoint of another account exists cannot be
// seen from any answer.
//
// Promise (Webhooks): an endpoint of another account is answered like none, byte for byte, by every
// call
func TestWebhookOfAnotherAccount(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	e := h.created(t, `{"url":"`+hookURL+`"}`)
	h.post("/"+e.ID+"/disable", h.token, "")
	stranger := h.token2(t)
	before := h.get(api.WebhooksPath+"/"+e.ID, h.token).Body.String()
	never := "wep_" + strings.Repeat("0", len(e.ID)-4)
	of := func(w answer) string {
		headers := w.Header().Clone()
		headers.Del("X-Request-Id")
		return fmt.Sprint(w.Code, headers, w.Body)
	}
	for name, call := range webhookCalls(e.ID) {
		w := call(h, stranger)
		if got, want := of(w), of(webhookCalls(never)[name](h, stranger)); got != want || w.Code != http.StatusNotFound {
			t.Errorf("%s of another account's:\n%s\nand of none:\n%s", name, got, want)
		}
	}
	if w := h.get(api.WebhooksPath, stranger); strings.Contains(w.Body.String(), e.ID) || len(w.page(t).Data) != 0 {
		t.Errorf("the list has %s", w.Body)
	}
	if got := h.post("", stranger, `{"url":"`+hookURL+`"}`); got.Code != http.StatusCreated {
		t.Errorf("the URL of another account's endpoint is refused: %d %s", got.Code, got.Body)
	}
	if after := h.get(api.WebhooksPath+"/"+e.ID, h.token).Body.String(); after != before {
		t.Errorf("the endpoint was changed:\n%s\n%s", before, after)
	}
	if len(h.sender.tested) > 0 {
		t.Errorf("a stranger's test was sent: %v", h.sender.tested)
	}
}

func (h *hooked) token2(t testing.TB) string {
	return h.apiHouse.token(t, "stranger", "acct_other", store.ScopeUnstated)
}

// TestWebhookScopes: whoever may not read events cannot have them pushed.
//
// Promise (Webhooks): changes need webhooks:write and events:read; reads webhooks:read
func TestWebhookScopes(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	e := h.created(t, `{"url":"`+hookURL+`"}`)
	tokens := map[string]string{
		"neither": h.apiHouse.token(t, "neither", "acct_a", store.ScopeEventsRead|store.ScopeResourcesRead),
		"read":    h.apiHouse.token(t, "read", "acct_a", store.ScopeWebhooksRead),
		"write":   h.apiHouse.token(t, "write", "acct_a", store.ScopeWebhooksWrite),
		"both":    h.apiHouse.token(t, "both", "acct_a", store.ScopeWebhooksWrite|store.ScopeEventsRead),
	}
	calls := webhookCalls(e.ID)
	calls["list"] = func(h *hooked, token string) answer { return h.get(api.WebhooksPath, token) }
	calls["create"] = func(h *hooked, token string) answer { return h.post("", token, `{"url":"`+hookURL+`"}`) }
	reads := []string{"find", "deliveries", "list"}
	for name, call := range calls {
		for who, token := range tokens {
			if name == "delete" && who == "both" {
				continue // it would end the others
			}
			allowed := who == "both"
			if slices.Contains(reads, name) {
				allowed = who == "read"
			}
			w := call(h, token)
			if (w.Code != http.StatusForbidden) != allowed {
				t.Errorf("%s with %s = %d %s, want it let through: %t", name, who, w.Code, w.Body, allowed)
			}
		}
	}
	body := calls["create"](h, tokens["write"])
	description := body.fault(t, http.StatusForbidden, "insufficient_scope", "")["error_description"].(string)
	challenge := body.Header().Get("WWW-Authenticate")
	if !strings.Contains(description, "events:read") || strings.Contains(description, "webhooks:write") || !strings.Contains(challenge, `scope="events:read webhooks:write"`) {
		t.Errorf("%s, %s: want the missing scope named, and the challenge to have both", description, challenge)
	}
}

// bodyAfter is a body before which something happens.
type bodyAfter struct {
	io.Reader
	happens func()
}

func (b bodyAfter) Read(p []byte) (int, error) {
	b.happens()
	return b.Reader.Read(p)
}

func TestWebhookTokenRevokedBeforeTheBodyArrives(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]struct{ method, path, body string }{
		"create": {"POST", "", `{"url":"` + hookURL + `/2"}`}, "update": {"PATCH", "/", `{"url":"` + hookURL + `/2"}`},
		"enable": {"POST", "//enable", `{"from":"start"}`}, "rotate": {"POST", "//rotate-secret", `{"overlap":0}`}, "disable": {"POST", "//disable", ``},
		"retry": {"POST", "//retry", `{"state":"dead"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHooked(t)
			other := h.apiHouse.token(t, "other", "acct_a", store.ScopeUnstated)
			e := endpointIn(t, h.post("", other, `{"url":"`+hookURL+`"}`), http.StatusCreated)
			list := h.get(api.WebhooksPath, other).Body.String()
			path := api.WebhooksPath + strings.Replace(call.path, "/", "/"+e.ID, 1)
			body := bodyAfter{strings.NewReader(call.body), func() { must.Do(t, h.RevokeToken(context.Background(), store.By{}, h.client, h.token)) }}
			w := h.request(call.method, path, h.token, body, "Content-Type", "application/json")
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
				t.Errorf("answer = %d %s", w.Code, w.Body)
			}
			if now := h.get(api.WebhooksPath, other).Body.String(); now != list {
				t.Errorf("the endpoints became %s, were %s", now, list)
			}
		})
	}
}

// A change waits for its turn behind other commits. It must not be left behind as a push
// when its token ends meanwhile.
func TestWebhookTokenRevokedBeforeTheChangeIsCommitted(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]struct{ method, path, body string }{
		"create": {"POST", "", `{"url":"` + hookURL + `/2"}`}, "update": {"PATCH", "/", `{"types":["plan.*"]}`}, "delete": {"DELETE", "/", ""},
		"enable": {"POST", "//enable", `{"from":"start"}`}, "rotate": {"POST", "//rotate-secret", `{"overlap":0}`}, "disable": {"POST", "//disable", ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHooked(t)
			other := h.apiHouse.token(t, "other", "acct_a", store.ScopeUnstated)
			e := endpointIn(t, h.post("", other, `{"url":"`+hookURL+`"}`), http.StatusCreated)
			list := h.get(api.WebhooksPath, other).Body.String()
			h.Rest()
			h.Faults.OnUpdate(func(run func() error) error {
				h.Faults.Repair()
				must.Do(t, h.RevokeToken(context.Background(), store.By{}, h.client, h.token))
				return run()
			})
			w := h.request(call.method, api.WebhooksPath+strings.Replace(call.path, "/", "/"+e.ID, 1), h.token, strings.NewReader(call.body), "Content-Type", "application/json")
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
				t.Errorf("answer = %d %s", w.Code, w.Body)
			}
			if now := h.get(api.WebhooksPath, other).Body.String(); now != list {
				t.Errorf("the endpoints became %s, were %s", now, list)
			}
		})
	}
}

// Promise (Webhooks): bad input is refused by name, with the nearest member; a secret is not
// repeated
func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	e := h.created(t, `{"url":"`+hookURL+`"}`)
	at := api.WebhooksPath + "/" + e.ID
	create := func(body string) func() answer { return func() answer { return h.post("", h.token, body) } }
	other := func(member string) func() answer { return create(`{"url":"` + hookURL + `/2",` + member + `}`) }
	url := func(text string) func() answer { return create(fmt.Sprintf(`{"url":%q}`, text)) }
	call := func(path, body string) func() answer {
		return func() answer { return h.post("/"+e.ID+path, h.token, body) }
	}
	patch := func(body string) func() answer { return func() answer { return h.patch(at, h.token, body) } }
	get := func(path string) func() answer { return func() answer { return h.get(api.WebhooksPath+path, h.token) } }
	tests := []struct {
		name   string
		do     func() answer
		status int
		code   string
		param  string
		want   string // in the answer
	}{
		{"no_url", create(`{}`), 400, "invalid_url", "url", ""},
		{"url_null", create(`{"url":null}`), 400, "invalid_url", "url", ""},
		{"url_a_number", create(`{"url":1}`), 400, "invalid_parameter", "url", ""},
		{"ftp", url("ftp://hooks.example/x"), 400, "invalid_url", "url", ""},
		{"no_scheme", url("//hooks.example/x"), 400, "invalid_url", "url", ""},
		{"user_in_the_url", url("https://user@hooks.example/x"), 400, "invalid_url", "url", ""},
		{"fragment", url("https://hooks.example/x#y"), 400, "invalid_url", "url", ""},
		{"space_in_the_url", url("https://hooks.example/x y"), 400, "invalid_url", "url", ""},
		{"url_of_2049_bytes", url("https://hooks.example/" + strings.Repeat("x", 2027)), 400, "invalid_url", "url", ""},
		{"http_names_https_and_the_setting", url("http://hooks.example/x"), 400, "invalid_url", "url", "--webhook-allow"},
		{"private_address", url("https://10.0.0.5/x"), 400, "address_not_allowed", "url", ""},
		{"loopback", url("https://127.0.0.1/x"), 400, "address_not_allowed", "url", ""},
		{"mapped_loopback", url("https://[::ffff:127.0.0.1]/x"), 400, "address_not_allowed", "url", ""},
		{"metadata", url("https://169.254.169.254/latest"), 400, "address_not_allowed", "url", ""},
		{"localhost", url("https://localhost/x"), 400, "address_not_allowed", "url", ""},
		{"a_number_as_host", url("https://2130706433/x"), 400, "invalid_url", "url", ""},
		{"a_refused_url_in_a_patch", patch(`{"url":"https://10.0.0.5/x"}`), 400, "address_not_allowed", "url", ""},
		{"no_url_in_a_patch", patch(`{"url":null}`), 400, "invalid_url", "url", ""},
		{"types_not_a_list", other(`"types":"customer.*"`), 400, "invalid_parameter", "types", ""},
		{"types_of_numbers", other(`"types":[1]`), 400, "invalid_parameter", "types", ""},
		{"no_types", other(`"types":[]`), 400, "invalid_parameter", "types", ""},
		{"a_kind_alone", other(`"types":["customer"]`), 400, "invalid_parameter", "types", ""},
		{"a_type_in_capitals", other(`"types":["Customer.*"]`), 400, "invalid_parameter", "types", ""},
		{"51_types", other(`"types":[` + manyTypes(51) + `]`), 400, "invalid_parameter", "types", ""},
		{"order_of_another_name", other(`"order":"sorted"`), 400, "invalid_parameter", "order", ""},
		{"from_in_the_future", other(fmt.Sprintf(`"from":"%d"`, h.Now().Add(time.Hour).Unix())), 400, "invalid_parameter", "from", ""},
		{"from_in_milliseconds", other(`"from":1773070200000`), 400, "invalid_parameter", "from", "1773070200"},
		{"from_of_another_form", other(`"from":"2026-03-09T00:00:00Z"`), 400, "invalid_parameter", "from", ""},
		{"from_a_list", other(`"from":[]`), 400, "invalid_parameter", "from", ""},
		{"description_of_257_characters", other(`"description":"` + strings.Repeat("é", 257) + `"`), 400, "invalid_parameter", "description", ""},
		{"control_character", other(`"description":"a\u0007b"`), 400, "invalid_parameter", "description", ""},
		{"event_types_means_types", other(`"event_types":["*"]`), 400, "unknown_field", "event_types", "did you mean types?"},
		{"enabled_events_means_types", other(`"enabled_events":["*"]`), 400, "unknown_field", "enabled_events", "did you mean types?"},
		{"misspelt_member", other(`"descripton":""`), 400, "unknown_field", "descripton", "did you mean description?"},
		{"since_means_from", call("/retry", `{"since":1}`), 400, "unknown_field", "since", "did you mean from?"},
		{"before_means_neither_end", call("/retry", `{"from":1,"before":2}`), 400, "unknown_field", "before", "before is not a member of this request.\""},
		{"after_means_neither_end", call("/retry", `{"after":1,"to":2}`), 400, "unknown_field", "after", "after is not a member of this request.\""},
		{"misspelt_member_of_a_patch", patch(`{"ordre":"none"}`), 400, "unknown_field", "ordre", "did you mean order?"},
		{"a_patch_takes_no_secret", patch(`{"secret":"whsec_x"}`), 400, "unknown_field", "secret", ""},
		{"a_patch_takes_no_state", patch(`{"state":"disabled"}`), 400, "unknown_field", "state", ""},
		{"short_secret", other(`"secret":"whsec_c2hvcnQ="`), 400, "invalid_parameter", "secret", ""},
		{"secret_that_is_no_base64", other(`"secret":"whsec_!!"`), 400, "invalid_parameter", "secret", ""},
		{"empty_secret", other(`"secret":""`), 400, "invalid_parameter", "secret", ""},
		{"same_url_twice", create(`{"url":"` + hookURL + `"}`), 409, "conflict", "", e.ID},
		{"body_past_64_KiB", create(strings.Repeat(" ", 65<<10)), 413, "too_large", "", ""},
		{"no_object", create(`[]`), 400, "invalid_json", "", ""},
		{"no_body", create(``), 400, "invalid_json", "", ""},
		{"repeated_member", create(`{"url":"a","url":"b"}`), 400, "invalid_json", "", ""},
		{"form_body", func() answer {
			return h.request("POST", api.WebhooksPath, h.token, strings.NewReader("url=x"), "Content-Type", "application/x-www-form-urlencoded")
		}, 415, "unsupported_media_type", "", ""},
		{"patch_as_text", func() answer {
			return h.request("PATCH", at, h.token, strings.NewReader("{}"), "Content-Type", "text/plain")
		}, 415, "unsupported_media_type", "", ""},
		{"create_takes_no_account", func() answer { return h.post("?account=acct_b", h.token, `{}`) }, 400, "unknown_parameter", "account", ""},
		{"another_revision", func() answer { return h.patch(at, h.token, `{"order":"none"}`, "If-Match", `"999"`) }, 412, "precondition_failed", "", ""},
		{"revision_without_quotes", func() answer { return h.patch(at, h.token, `{}`, "If-Match", "1") }, 400, "invalid_request", "", ""},
		{"list_limit", get("?limit=0"), 400, "invalid_parameter", "limit", ""},
		{"list_cursor", get("?after=a.b"), 400, "invalid_cursor", "after", ""},
		{"list_unknown_parameter", get("?order=asc"), 400, "unknown_parameter", "order", ""},
		{"list_takes_no_account", get("?account=acct_a"), 400, "unknown_parameter", "account", ""},
		{"delivery_state", get("/" + e.ID + "/deliveries?state=lost"), 400, "invalid_parameter", "state", ""},
		{"delivery_limit", get("/" + e.ID + "/deliveries?limit=1001"), 400, "invalid_parameter", "limit", ""},
		{"enable_member", call("/enable", `{"form":"now"}`), 400, "unknown_field", "form", "did you mean from?"},
		{"disable_member", call("/disable", `{"reason":"x"}`), 400, "unknown_field", "reason", ""},
		{"overlap_of_eight_days", call("/rotate-secret", `{"overlap":691200}`), 400, "invalid_parameter", "overlap", ""},
		{"overlap_below_zero", call("/rotate-secret", `{"overlap":-1}`), 400, "invalid_parameter", "overlap", ""},
		{"overlap_with_a_fraction", call("/rotate-secret", `{"overlap":1.5}`), 400, "invalid_parameter", "overlap", ""},
		{"overlap_a_text", call("/rotate-secret", `{"overlap":"24h"}`), 400, "invalid_parameter", "overlap", ""},
		{"retry_of_nothing", call("/retry", `{}`), 400, "invalid_request", "", ""},
		{"retry_of_two_kinds", call("/retry", `{"events":["evt_1"],"state":"dead"}`), 400, "invalid_request", "", ""},
		{"retry_with_half_a_stretch", call("/retry", `{"from":"1773070200"}`), 400, "invalid_request", "", ""},
		{"retry_of_a_state_with_types", call("/retry", `{"state":"dead","types":["*"]}`), 400, "invalid_request", "", ""},
		{"retry_of_delivered", call("/retry", `{"state":"delivered"}`), 400, "invalid_parameter", "state", ""},
		{"retry_of_no_events", call("/retry", `{"events":[]}`), 400, "invalid_parameter", "events", ""},
		{"retry_of_an_unknown_event", call("/retry", `{"events":["evt_00000000000000000000000001"]}`), 404, "not_found", "", ""},
		{"put_is_405", func() answer { return h.put(at, h.token, `{}`) }, 405, "invalid_request", "", ""},
	}
	before := len(h.get("/api/events?limit=1000", h.token).page(t).Data)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.do()
			w.fault(t, tt.status, tt.code, tt.param)
			if !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("the answer lacks %q: %s", tt.want, w.Body)
			}
			if strings.Contains(w.Body.String(), "whsec_c2hvcnQ") || strings.Contains(w.Body.String(), "whsec_!!") {
				t.Errorf("the answer repeats the secret: %s", w.Body)
			}
		})
	}
	if after := len(h.get("/api/events?limit=1000", h.token).page(t).Data); after != before {
		t.Errorf("the refusals recorded %d events", after-before)
	}
}

func manyTypes(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"customer.a%d"`, i))
	}
	return strings.Join(list, ",")
}

// Promise (Webhooks): an endpoint, its limits, revisions and events; paths and queries of URLs stay
// out of events and audit
func TestWebhookLimits(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	var last api.WebhookEndpoint
	for i := range 50 {
		last = h.created(t, fmt.Sprintf(`{"url":"%s/%d"}`, hookURL, i))
	}
	t.Run("an_account_has_50_endpoints", func(t *testing.T) {
		h.post("", h.token, `{"url":"`+hookURL+`/51"}`).fault(t, http.StatusConflict, "limit_reached", "")
		h.request("DELETE", api.WebhooksPath+"/"+last.ID, h.token, nil)
		last = h.created(t, `{"url":"`+hookURL+`/51"}`)
	})
	t.Run("a_server_has_10000_endpoints", func(t *testing.T) {
		h := newHooked(t)
		e := h.created(t, `{"url":"`+hookURL+`"}`)
		full := record.NewEncoder(1).Time(time.Time{}).Str("").Uint(webhook.InstanceMax).Uint(1).Uint(0).B
		must.Do(t, h.DB.Update(t.Context(), func(tx kv.Txn) error { return tx.Set(record.MetaKey(webhook.MetaName), full, time.Time{}) }))
		answer := h.post("", h.token, `{"url":"`+hookURL+`/2"}`).fault(t, http.StatusConflict, "limit_reached", "")
		if text, _ := answer["error_description"].(string); !strings.Contains(text, "10000") && !strings.Contains(text, "10,000") {
			t.Errorf("the refusal does not name the limit: %s", text)
		}
		h.request("DELETE", api.WebhooksPath+"/"+e.ID, h.token, nil)
		h.created(t, `{"url":"`+hookURL+`/2"}`)
	})
	h.Clock.Advance(time.Minute) // until then the account's changes are counted
	t.Run("an_endpoint_is_tested_10_times_a_minute", func(t *testing.T) {
		test := func() answer { return h.post("/"+last.ID+"/test", h.token, "") }
		for range api.WebhookTestsMax {
			if got := decodeObject(t, test().Body.Bytes()); got["delivered"] != true || got["status"] != 200.0 || got["error"] != nil || got["ms"] != 3.0 || got["webhookId"] == "" {
				t.Fatalf("test = %v", got)
			}
			h.Clock.Advance(time.Second)
		}
		w := test()
		w.fault(t, http.StatusTooManyRequests, "too_many_requests", "")
		if got := w.Header().Get("Retry-After"); got != "50" {
			t.Errorf("Retry-After = %s, want 50", got)
		}
		if len(h.sender.tested) != api.WebhookTestsMax {
			t.Errorf("%d tests were sent", len(h.sender.tested))
		}
		h.Clock.Advance(50 * time.Second)
		if w := test(); w.Code != http.StatusOK {
			t.Errorf("after the wait: %d %s", w.Code, w.Body)
		}
	})
	t.Run("a_test_is_audited", func(t *testing.T) {
		found := 0
		for _, l := range must.Get(h.ListAudit(context.Background(), record.Position{}, 500))(t) {
			if strings.HasSuffix(l.Reason, ": tested") && l.AccountID == "acct_a" && strings.Contains(l.Reason, last.ID) && !strings.Contains(l.Reason, "/tollhouse") {
				found++
			}
		}
		if found != api.WebhookTestsMax+1 {
			t.Errorf("%d audit lines, want %d", found, api.WebhookTestsMax+1)
		}
	})
	t.Run("without_a_server_no_test_is_sent", func(t *testing.T) {
		h.server.API.Webhooks = nil
		h.post("/"+last.ID+"/test", h.token, "").fault(t, http.StatusServiceUnavailable, "temporarily_unavailable", "")
	})
}

// TestWebhookChangesAreCounted: an account's changes of endpoints are written one by one
// up to 60 a minute, and then counted, whatever they are and however many send them at
// once. The operator's changes are always written.
//
// Promise (Credentials, memory, connections): filling the audit record by changes of webhook
// endpoints, also at once and by a receiver
func TestWebhookChangesAreCounted(t *testing.T) {
	t.Parallel()
	const changes, most = 100, 60
	h := newHooked(t)
	l := listenLive(t, h.apiHouse)
	e := h.created(t, `{"url":"`+hookURL+`"}`)
	lines := func() (found, counts []store.AuditLine) {
		for _, l := range must.Get(h.ListAudit(t.Context(), record.Position{}, 1000))(t) {
			switch {
			case l.What != store.AuditWebhook:
			case l.Count > 0:
				counts = append(counts, l)
			default:
				found = append(found, l)
			}
		}
		return found, counts
	}
	var all sync.WaitGroup
	for i := range changes - 1 {
		all.Go(func() {
			path, body := "/rotate-secret", `{"overlap":0}`
			if i%2 == 0 {
				path, body = []string{"/disable", "/enable"}[i/2%2], "{}"
			}
			r, err := http.NewRequest(http.MethodPost, l.url+api.WebhooksPath+"/"+e.ID+path, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+h.token)
			r.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(r)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s = %v, %v", path, res, err)
				return
			}
			_ = res.Body.Close()
		})
	}
	all.Wait()
	h.Clock.Advance(30 * time.Second)
	if found, counts := lines(); len(found) != most || len(counts) != 0 {
		t.Errorf("%d changes within a minute leave %d lines and the numbers %+v, want %d and none yet", changes, len(found), counts, most)
	}
	for range most {
		must.Get(h.Webhooks.Disable(t.Context(), webhook.By{RequestID: "req_operator"}, e.ID))(t)
		must.Get(h.Webhooks.Disable(t.Context(), webhook.By{RequestID: "req_operator"}, e.ID))(t)
	}
	h.Clock.Advance(30 * time.Second)
	found, counts := lines()
	if len(counts) != 1 {
		t.Fatalf("a minute later the numbers are %+v, want one", counts)
	}
	if c := counts[0]; c.Count == 0 || c.Count > changes-most || c.AccountID != "acct_a" || c.ClientID != found[0].ClientID || c.UserID != found[0].UserID {
		t.Errorf("the number is %+v, want the changes of the account", c)
	}
	h.post("/"+e.ID+"/rotate-secret", h.token, "{}")
	again, _ := lines()
	if len(again) != len(found)+1 {
		t.Errorf("a minute later a change leaves %d lines, want 1", len(again)-len(found))
	}
	for range changes / 2 { // as the server does by itself when a receiver says so
		must.Get(h.Webhooks.Disable(t.Context(), webhook.System, e.ID))(t)
		_, _, err := h.Webhooks.Enable(t.Context(), webhook.System, e.ID, webhook.FromNow())
		must.Do(t, err)
	}
	if found, _ := lines(); len(found) > len(again)+most {
		t.Errorf("%d changes by the server leave %d lines, want %d at most", changes, len(found)-len(again), most)
	}
}

// TestWebhookStart: from says where deliveries begin.
//
// Promise (Webhooks): from: now, start, an event, a time; below retention 410
func TestWebhookStart(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	for i := range 3 {
		h.put(fmt.Sprintf("/api/resources/plan/p%d", i), h.token, `{}`)
		h.Clock.Advance(time.Minute)
	}
	list := h.get("/api/events?order=asc", h.token).page(t)
	first := list.Data[0]
	second := list.Data[1]
	for i, tt := range []struct{ name, from, wantCursor string }{
		{"at_an_event", `"` + first.ID + `"`, first.ID},
		{"at_a_time_in_digits", fmt.Sprintf(`"%d"`, second.CreatedAt-1), ""},
		{"at_a_time", fmt.Sprint(second.CreatedAt - 1), ""},
		{"at_the_start", `"start"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := h.created(t, fmt.Sprintf(`{"url":"%s/%d","types":["plan.*"],"from":%s}`, hookURL, i, tt.from))
			if !e.Status.Behind || tt.wantCursor != "" && e.Cursor != tt.wantCursor || e.Cursor >= second.ID {
				t.Errorf("cursor = %s, behind: %t", e.Cursor, e.Status.Behind)
			}
		})
	}
	t.Run("of_another_account_is_unknown", func(t *testing.T) {
		stranger := h.token2(t)
		const unknown = "evt_00000000000000000000000001"
		w, never := h.post("", stranger, `{"url":"`+hookURL+`","from":"`+first.ID+`"}`), h.post("", stranger, `{"url":"`+hookURL+`","from":"`+unknown+`"}`)
		if w.Body.String() != strings.ReplaceAll(never.Body.String(), unknown, first.ID) || w.Code != never.Code {
			t.Errorf("%d %s\n%d %s", w.Code, w.Body, never.Code, never.Body)
		}
	})
	t.Run("below_retention_is_gone", func(t *testing.T) {
		h.Clock.Advance(48 * time.Hour)
		token := h.apiHouse.token(t, "latecomer", "acct_a", store.ScopeUnstated)
		h.put("/api/resources/plan/young", token, `{}`)
		must.Do(t, h.Events.SetRetention(context.Background(), eventlog.RetentionMin))
		must.Get(h.TrimEvents(context.Background()))(t)
		w := h.post("", token, `{"url":"`+hookURL+`","from":"`+first.ID+`"}`)
		if oldest := w.fault(t, http.StatusGone, "cursor_expired", "from")["oldestAvailable"]; oldest == nil {
			t.Errorf("answer = %s", w.Body)
		}
		e := endpointIn(t, h.post("", token, `{"url":"`+hookURL+`"}`), http.StatusCreated)
		w = h.post("/"+e.ID+"/enable", token, `{"from":"`+first.ID+`"}`)
		if oldest := w.fault(t, http.StatusGone, "cursor_expired", "from")["oldestAvailable"]; oldest == nil {
			t.Errorf("enable = %s", w.Body)
		}
	})
}

// TestAdminWebhooks: the operator has the same calls for every account, by the id alone.
//
// Promise (Webhooks): an endpoint, its limits, revisions and events; paths and queries of URLs stay
// out of events and audit
func TestAdminWebhooks(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.User(t, "nils", "acct_b")
	mine := h.created(t, `{"url":"`+hookURL+`"}`)
	admin := func(method, path, body string) answer {
		return h.admin(method, "/admin/webhook-endpoints"+path, strings.NewReader(body), "Content-Type", "application/json")
	}
	e := endpointIn(t, admin("POST", "?account=acct_b", `{"url":"`+hookURL+`"}`), http.StatusCreated)
	t.Run("an_operators_endpoint_is_bound_to_nobody", func(t *testing.T) {
		if e.Account != "acct_b" || e.CreatedBy.Client != nil || e.CreatedBy.User != nil || e.Secret == "" {
			t.Errorf("endpoint = %+v", e)
		}
	})
	t.Run("an_unknown_account_is_named", func(t *testing.T) {
		admin("POST", "?account=acct_none", `{"url":"`+hookURL+`"}`).fault(t, http.StatusNotFound, "not_found", "")
		admin("GET", "?account=acct_none", "").fault(t, http.StatusNotFound, "not_found", "")
	})
	t.Run("lists_are_of_one_account_or_of_all", func(t *testing.T) {
		for path, want := range map[string]int{"": 2, "?account=acct_a": 1, "?account=acct_b": 1, "?limit=1": 1} {
			if page := admin("GET", path, "").page(t); len(page.Data) != want || page.HasMore != (path == "?limit=1") {
				t.Errorf("%q lists %d", path, len(page.Data))
			}
		}
	})
	t.Run("every_call_finds_any_endpoint", func(t *testing.T) {
		for _, step := range []struct {
			method, path, body string
			want               int
		}{
			{"GET", "", "", 200}, {"PATCH", "", `{"order":"none"}`, 200}, {"POST", "/disable", "", 200}, {"POST", "/enable", "", 200}, {"POST", "/rotate-secret", "", 200},
			{"POST", "/test", "", 200}, {"POST", "/retry", `{"state":"dead"}`, 202}, {"GET", "/deliveries", "", 200}, {"POST", "/skip", "", 409}, {"DELETE", "", "", 204}, {"GET", "", "", 404},
		} {
			if w := admin(step.method, "/"+mine.ID+step.path, step.body); w.Code != step.want {
				t.Errorf("%s %s = %d %s, want %d", step.method, step.path, w.Code, w.Body, step.want)
			}
		}
	})
	t.Run("the_operator_disables_as_operator", func(t *testing.T) {
		if got := endpointIn(t, admin("POST", "/"+e.ID+"/disable", ""), http.StatusOK); got.Disabled == nil || got.Disabled.By != "operator" {
			t.Errorf("disabled = %+v", got.Disabled)
		}
	})
	t.Run("an_unknown_endpoint_comes_with_a_hint", func(t *testing.T) {
		if w := admin("GET", "/"+mine.ID, ""); !strings.Contains(w.Body.String(), "tollhouse webhook list") {
			t.Errorf("answer = %s", w.Body)
		}
	})
	t.Run("a_hold_is_of_the_whole_instance_until_resume", func(t *testing.T) {
		hold := func(what string) map[string]any {
			return decodeObject(t, h.admin("POST", "/admin/webhook-"+what, nil).Body.Bytes())
		}
		if got := hold("hold"); got["held"] != true || got["reason"] != "asked" || got["since"] != float64(h.Now().Unix()) {
			t.Errorf("hold = %v", got)
		}
		endpointIn(t, admin("POST", "/"+e.ID+"/enable", ""), http.StatusOK)
		if got := endpointIn(t, admin("GET", "/"+e.ID, ""), http.StatusOK); got.Status.Health != "held" {
			t.Errorf("health = %s, want held", got.Status.Health)
		}
		if got := hold("resume"); got["held"] != false || got["since"] != nil {
			t.Errorf("resume = %v", got)
		}
		if got := endpointIn(t, admin("GET", "/"+e.ID, ""), http.StatusOK); got.Status.Health != "idle" {
			t.Errorf("health = %s, want idle", got.Status.Health)
		}
	})
	t.Run("each_change_leaves_one_audit_line_with_the_host_alone", func(t *testing.T) {
		var found []string
		for _, l := range must.Get(h.ListAudit(context.Background(), record.Position{}, 500))(t) {
			if strings.Contains(l.Reason, "webhook") {
				if strings.Contains(l.Reason, "/tollhouse") || strings.Contains(l.Reason, "whsec_") {
					t.Errorf("a line has the path or the secret: %s", l.Reason)
				}
				if strings.Contains(l.Reason, e.ID) {
					found = append(found, l.Reason[strings.LastIndex(l.Reason, ": ")+2:])
				}
				if strings.Contains(l.Reason, "held") || strings.Contains(l.Reason, "resumed") {
					found = append(found, l.Reason)
				}
			}
		}
		want := []string{"created", "disabled by operator (asked)", "webhooks held", "enabled", "webhooks resumed"}
		if !slices.Equal(found, want) {
			t.Errorf("lines = %q, want %q", found, want)
		}
	})
}

// BlockWebhook does what a sender does when the next event of an endpoint was accepted
// and the one after it was refused. It returns the ids of both.
func BlockWebhook(t testing.TB, a *store.Store, id string) (delivered, blocked string) {
	t.Helper()
	ctx := context.Background()
	must.Do(t, a.Webhooks.Start(ctx))
	e := must.Get(a.Webhooks.Load(ctx, id))(t)
	next := must.Get(a.Webhooks.Next(ctx, &e, e.Cursor, 2))(t).Events
	if len(next) < 2 {
		t.Fatalf("%d events wait, want 2", len(next))
	}
	now := a.Now()
	of := func(event eventlog.Followed) webhook.Delivery {
		return webhook.Delivery{Position: event.Position, Event: event.ID, Type: event.Type, Attempts: 1, Took: 12 * time.Millisecond, LastAt: now}
	}
	done, head := of(next[0]), of(next[1])
	done.State, done.Status = webhook.Delivered, http.StatusNoContent
	head.Refused, head.Status, head.Error, head.Body, head.NextAt = 1, http.StatusInternalServerError, "response", "no such order", now.Add(5*time.Second)
	must.Get(a.Webhooks.Settle(ctx, &e, webhook.Progress{
		Cursor: done.Position, Done: []webhook.Delivery{done}, Head: &head,
		Trouble: webhook.Trouble{Since: now, Attempts: 1}, Last: webhook.Attempt{At: now, Status: head.Status, Error: head.Error},
	}))(t)
	return done.Event, head.Event
}

// TestWebhookDeliveries: what became of each event is listed, and can be sent again.
//
// Promise (Webhooks): deliveries are listed; skip, retry, disable and enable lose nothing
func TestWebhookDeliveries(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	e := h.created(t, `{"url":"`+hookURL+`","types":["plan.*"]}`)
	for i := range 3 {
		h.put(fmt.Sprintf("/api/resources/plan/p%d", i), h.token, `{}`)
	}
	delivered, blocked := BlockWebhook(t, h.Store, e.ID)
	list := func(query string) (shown []webhook.ObjectDelivery, page api.Page[webhook.ObjectDelivery]) {
		t.Helper()
		w := h.get(api.WebhooksPath+"/"+e.ID+"/deliveries"+query, h.token)
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s = %d %s", query, w.Code, w.Body)
		}
		return page.Data, page
	}
	t.Run("newest_first_with_what_came_of_them", func(t *testing.T) {
		shown, _ := list("")
		if len(shown) != 2 || shown[0].Event != blocked || shown[1].Event != delivered {
			t.Fatalf("deliveries = %+v", shown)
		}
		if d := shown[0]; d.State != "retrying" || d.Type != "plan.created" || d.Attempts != 1 || *d.LastStatus != 500 || *d.LastError != "response" || d.LastBody != "no such order" || d.MS != 12 || d.NextAttemptAt == nil {
			t.Errorf("failed = %+v", d)
		}
		if d := shown[1]; d.State != "delivered" || *d.LastStatus != 204 || d.LastError != nil || d.NextAttemptAt != nil {
			t.Errorf("delivered = %+v", d)
		}
	})
	t.Run("filtered_and_paged", func(t *testing.T) {
		if shown, _ := list("?state=delivered"); len(shown) != 1 || shown[0].Event != delivered {
			t.Errorf("delivered ones = %+v", shown)
		}
		if shown, _ := list("?event=" + blocked); len(shown) != 1 || shown[0].Event != blocked {
			t.Errorf("of one event = %+v", shown)
		}
		shown, page := list("?limit=1")
		if len(shown) != 1 || !page.HasMore || page.Next != blocked {
			t.Errorf("first page = %+v", page)
		}
		if shown, page := list("?limit=1&after=" + page.Next); len(shown) != 1 || shown[0].Event != delivered || page.HasMore {
			t.Errorf("last page = %+v", page)
		}
	})
	t.Run("the_endpoint_says_what_blocks_it", func(t *testing.T) {
		got := endpointIn(t, h.get(api.WebhooksPath+"/"+e.ID, h.token), http.StatusOK).Status
		if got.Health != "failing" || !got.Behind || got.BlockedOn == nil || *got.BlockedOn != blocked || got.Attempts != 1 || got.FailingSince == nil || got.NextAttemptAt == nil || *got.LastStatus != 500 || *got.LastError != "response" {
			t.Errorf("status = %+v", got)
		}
	})
	t.Run("a_skipped_event_stays_listed_and_can_be_retried", func(t *testing.T) {
		got := endpointIn(t, h.post("/"+e.ID+"/skip", h.token, ""), http.StatusOK)
		if got.Status.BlockedOn != nil || got.Status.Dead != 1 || got.Cursor != blocked {
			t.Errorf("after the skip: %+v", got.Status)
		}
		if shown, _ := list("?state=skipped"); len(shown) != 1 || shown[0].Event != blocked {
			t.Errorf("skipped = %+v", shown)
		}
	})
	for _, tt := range []struct {
		name, body string
		want       float64
	}{
		{"by_id", `{"events":["` + delivered + `"]}`, 1},
		{"the_dead", `{"state":"dead"}`, 1},
		{"the_parked", `{"state":"parked"}`, 2}, // those above
		{"a_stretch", fmt.Sprintf(`{"from":"%s","to":"%s"}`, delivered, blocked), 2},
		{"a_stretch_of_other_types", fmt.Sprintf(`{"from":"0","to":"%d","types":["webhook_endpoint.*"]}`, h.Now().Unix()), 1},
	} {
		t.Run("retry_of_"+tt.name, func(t *testing.T) {
			w := h.post("/"+e.ID+"/retry", h.token, tt.body)
			if got := decodeObject(t, w.Body.Bytes()); w.Code != http.StatusAccepted || got["queued"] != tt.want {
				t.Errorf("answer = %d %s, want %v queued", w.Code, w.Body, tt.want)
			}
		})
	}
	t.Run("an_event_of_another_account_is_unknown", func(t *testing.T) {
		stranger := h.token2(t)
		other := endpointIn(t, h.post("", stranger, `{"url":"`+hookURL+`"}`), http.StatusCreated)
		w, never := h.post("/"+other.ID+"/retry", stranger, `{"events":["`+delivered+`"]}`), h.post("/"+other.ID+"/retry", stranger, `{"events":["evt_00000000000000000000000001"]}`)
		if w.Body.String() != never.Body.String() || w.Code != http.StatusNotFound || never.Code != w.Code {
			t.Errorf("%d %s\n%d %s", w.Code, w.Body, never.Code, never.Body)
		}
	})
	t.Run("an_event_of_another_account_is_no_cursor", func(t *testing.T) {
		stranger := h.apiHouse.token(t, "third", "acct_third", store.ScopeUnstated)
		other := endpointIn(t, h.post("", stranger, `{"url":"`+hookURL+`"}`), http.StatusCreated)
		for _, path := range []string{"/deliveries?event=", "/deliveries?after="} {
			w, never := h.get(api.WebhooksPath+"/"+other.ID+path+delivered, stranger), h.get(api.WebhooksPath+"/"+other.ID+path+"evt_00000000000000000000000001", stranger)
			if strings.ReplaceAll(w.Body.String(), delivered, "") != strings.ReplaceAll(never.Body.String(), "evt_00000000000000000000000001", "") || w.Code != never.Code {
				t.Errorf("%s: %d %s\n%d %s", path, w.Code, w.Body, never.Code, never.Body)
			}
		}
	})
}

// TestOneAccountSendsTwoTestsAtOnce: a receiver that hangs holds a slot of the sender.
func TestOneAccountSendsTwoTestsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	e := h.created(t, `{"url":"`+hookURL+`"}`)
	h.sender.begun, h.sender.end = make(chan struct{}), make(chan struct{})
	var sent sync.WaitGroup
	for range api.WebhookTestsAtOnce {
		sent.Go(func() {
			if w := h.post("/"+e.ID+"/test", h.token, ""); w.Code != http.StatusOK {
				t.Errorf("test: %d %s", w.Code, w.Body)
			}
		})
		<-h.sender.begun
	}
	w := h.post("/"+e.ID+"/test", h.token, "")
	w.fault(t, http.StatusTooManyRequests, "too_many_requests", "")
	if w.Header().Get("Retry-After") != "5" || len(h.sender.tested) != api.WebhookTestsAtOnce {
		t.Errorf("Retry-After %q after %d tests", w.Header().Get("Retry-After"), len(h.sender.tested))
	}
	close(h.sender.end)
	sent.Wait()
	h.sender.begun = nil
	if w := h.post("/"+e.ID+"/test", h.token, ""); w.Code != http.StatusOK {
		t.Errorf("a test behind them: %d %s", w.Code, w.Body)
	}
}
