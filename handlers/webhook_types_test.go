package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers/api"
)

// TestWebhookTypesNearAKnownOneAreNoticed: types are open-ended, so they are accepted. Where
// types are given, the answer and its header name what was probably meant.
//
// Promise (Webhooks): misspelt types are noticed
func TestWebhookTypesNearAKnownOneAreNoticed(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.put("/api/resources/widget/w_1", h.token, `{}`)
	h.put("/api/resources/widget/w_1?action=polished", h.token, `{"shine":1}`)
	admin := func(method, path, body string) answer {
		return h.admin(method, "/admin/webhook-endpoints"+path, strings.NewReader(body), "Content-Type", "application/json")
	}
	e := h.created(t, `{"url":"`+hookURL+`"}`)
	for i, tt := range []struct {
		types string
		want  []string
	}{
		{`["customer.updated","widget.polished","*.created","*","customer.*"]`, nil},
		{`["customer.update"]`, []string{`no event has type "customer.update"; nearest: customer.updated`}},
		{`["widget.polishd","invoice.paid","invoice.piad"]`, []string{`no event has type "widget.polishd"; nearest: widget.polished`, `no event has type "invoice.piad"; nearest: invoice.paid`}},
		{`["custmer.*","*.craeted","custmer.*"]`, []string{`no event has type "custmer.*"; nearest: customer.*`, `no event has type "*.craeted"; nearest: *.created`}},
		{`["gadget.assembled"]`, nil}, // a type of the future that is like none
		{`null`, nil},
	} {
		body := fmt.Sprintf(`{"url":"%s/%d","types":%s}`, hookURL, i, tt.types)
		operator := admin("POST", "?account=acct_a", fmt.Sprintf(`{"url":"%s/op%d","types":%s}`, hookURL, i, tt.types))
		for name, w := range map[string]answer{
			"create": h.post("", h.token, body), "PATCH": h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"types":`+tt.types+`}`),
			"an operator's create": operator, "an operator's PATCH": admin("PATCH", "/"+e.ID, `{"types":`+tt.types+`}`),
			"retry": h.post("/"+e.ID+"/retry", h.token, `{"from":1,"to":2,"types":`+tt.types+`}`),
		} {
			var shown struct{ Notices []string }
			if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || w.Code >= 300 || !slices.Equal(shown.Notices, tt.want) {
				t.Errorf("%s with %s = %d %s, want notices %q", name, tt.types, w.Code, w.Body, tt.want)
			}
			if got := w.Header().Values("Tollhouse-Notice"); !slices.Equal(got, tt.want) {
				t.Errorf("%s with %s: Tollhouse-Notice = %q, want %q", name, tt.types, got, tt.want)
			}
		}
	}
	t.Run("only_where_they_are_given", func(t *testing.T) {
		h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"types":["customer.update"]}`)
		for name, w := range map[string]answer{
			"read": h.get(api.WebhooksPath+"/"+e.ID, h.token), "another PATCH": h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"description":"x"}`),
			"refusal": h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"types":["customer.update"],"url":"`+hookURL+`/1"}`),
		} {
			if got := w.Header().Values("Tollhouse-Notice"); len(got) > 0 {
				t.Errorf("%s: Tollhouse-Notice = %q, want none", name, got)
			}
		}
	})
}

// TestWebhookTypesOfAnotherAccountAreNotNamed: what is near is looked for in the catalogue and
// in the endpoint's account.
func TestWebhookTypesOfAnotherAccountAreNotNamed(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.put("/api/resources/widget/w_1", h.token, `{}`)
	h.put("/api/resources/widget/w_1?action=polished", h.token, `{"shine":1}`)
	w := h.post("", h.token2(t), `{"url":"`+hookURL+`","types":["widget.polishd"]}`)
	if got := w.Header().Values("Tollhouse-Notice"); w.Code != http.StatusCreated || len(got) > 0 {
		t.Errorf("answer = %d, Tollhouse-Notice = %q, want none", w.Code, got)
	}
}
