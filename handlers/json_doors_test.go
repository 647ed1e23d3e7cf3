package handlers

import (
	"net/http"
	"strings"
	"testing"
)

// TestJSONOfTheAPI: every body of the API may begin with a byte order mark, null is
// absent, and a member of a wrong type is refused by name.
//
// Promise (RFC 6749 §3.2, §3.3): in JSON, null is absent, unknown members may have any type, a byte
// order mark is skipped, and a known member of a wrong type is refused by name
func TestJSONOfTheAPI(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	h := newHooked(t)
	t.Run("resources", func(t *testing.T) {
		if w := h.put("/api/resources/plan/p1", h.token, mark+`{"name":"Basic","note":null}`); w.Code != http.StatusCreated || strings.Contains(w.Body.String(), "note") {
			t.Errorf("PUT = %d %s, want 201 without the null", w.Code, w.Body)
		}
		if w := h.patch("/api/resources/plan/p1", h.token, mark+`{"name":"Plus"}`); w.Code != http.StatusOK {
			t.Errorf("PATCH = %d %s, want 200", w.Code, w.Body)
		}
		h.put("/api/resources/customer/c1", h.token, `{"company":7}`).fault(t, http.StatusBadRequest, "invalid_field", "company")
	})
	t.Run("webhook_endpoints", func(t *testing.T) {
		if w := h.post("", h.token, mark+`{"url":"`+hookURL+`","types":null,"description":null,"order":null}`); w.Code != http.StatusCreated {
			t.Errorf("POST = %d %s, want 201", w.Code, w.Body)
		}
		h.post("", h.token, `{"url":"`+hookURL+`","types":"a"}`).fault(t, http.StatusBadRequest, "invalid_parameter", "types")
	})
	t.Run("the_admin_API", func(t *testing.T) {
		if w := h.send("PUT", "/api/platform/accounts/acct_j", mark+`{"account":"acct_j","name":null}`); w.Code != http.StatusCreated {
			t.Errorf("PUT = %d %s, want 201", w.Code, w.Body)
		}
		for _, tt := range []struct{ body, code, param string }{
			{`{"account":7}`, "invalid_parameter", "account"}, {`{"redirect_uris":"https://a.example/"}`, "invalid_parameter", "redirect_uris"},
			{`{"redirect_uris":[7]}`, "invalid_parameter", "redirect_uris"}, {`{"redirect_uris":[null]}`, "invalid_parameter", "redirect_uris"},
			{`{"public":"yes"}`, "invalid_parameter", "public"}, {`{"colour":"red"}`, "unknown_field", "colour"}, {`null`, "invalid_json", ""}, {`[]`, "invalid_json", ""}, {`{} {}`, "invalid_json", ""},
		} {
			h.send("POST", "/api/platform/clients", tt.body).fault(t, http.StatusBadRequest, tt.code, tt.param)
		}
		event := `{"resource":"inv_1","eventData":{"object":{"id":"inv_1"}},"type":"invoice.created"}`
		if w := h.send("POST", "/admin/events", mark+event); w.Code != http.StatusCreated {
			t.Errorf("an event = %d %s, want 201", w.Code, w.Body)
		}
		line := strings.Replace(event, "{", `{"createdAt":1700000000,`, 1)
		h.importLines(t, "acct_j", mark+line+"\n"+line)
	})
}
