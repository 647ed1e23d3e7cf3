package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

func TestDevStrictTypes(t *testing.T) {
	t.Parallel()
	h := devHouseOver(t, dev.ClockState{Shows: devBegins}, func(o *store.Options) { o.StrictTypes = true })
	bearer := header("Authorization", "Bearer "+wantPair(t, h.token(t, h.passwordForm())).AccessToken)
	for query, param := range map[string]string{
		"type=customer.craeted": "type", "type[]=customer.created&type[]=custmer.created": "type[]", "type[3]=invoice.paid,invoice.piad": "type[3]",
		"type=custmer.*": "type", "type=*.craeted": "type",
	} {
		a := h.get(t, apiPath+"?"+url.PathEscape(query), bearer)
		fault := object(t, a, http.StatusBadRequest)
		description, _ := fault["error_description"].(string)
		if fault["error"] != "invalid_request" || fault["param"] != param || !strings.Contains(description, "did you mean ") || !strings.HasSuffix(description, "?") {
			t.Errorf("%s: %v, want %s refused with what was meant", query, fault, param)
		}
	}
	for _, query := range []string{"type=customer.created", "type=widget.polished", "type=*", "type=customer.*", ""} {
		if a := h.get(t, apiPath+"?"+query, bearer); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	for path, param := range map[string]string{"/api/resources/customer/cus_1?action=mergd": "action", "/api/resources/custmer/cus_1": "kind"} {
		a := h.ask(t, "PUT", path, `{"displayName":"Larkspur"}`, bearer)
		if fault := object(t, a, http.StatusBadRequest); fault["error"] != "invalid_request" || fault["param"] != param {
			t.Errorf("PUT %s: %v, want %s refused", path, fault, param)
		}
	}
}

// TestDevStrictTypesOfWebhooks: --strict-types refuses what is noticed otherwise.
func TestDevStrictTypesOfWebhooks(t *testing.T) {
	t.Parallel()
	h := devHouseOver(t, dev.ClockState{Shows: devBegins}, func(o *store.Options) { o.StrictTypes = true })
	bearer := header("Authorization", "Bearer "+wantPair(t, h.token(t, h.passwordForm())).AccessToken)
	create := func(types string) answer {
		return h.ask(t, "POST", "/api/webhook-endpoints", `{"url":"https://hooks.example.com/in","types":[`+types+`]}`, bearer)
	}
	a := create(`"customer.created","custmer.*"`)
	fault := object(t, a, http.StatusBadRequest)
	if fault["error"] != "invalid_parameter" || fault["param"] != "types" || fault["error_description"] != "types has custmer.*, which is unknown; did you mean customer.*?" {
		t.Errorf("create = %v", fault)
	}
	if a := create(`"customer.created","gadget.assembled"`); a.StatusCode != http.StatusCreated {
		t.Errorf("create = %d %s", a.StatusCode, a.body)
	}
}

// TestDevThrottlesOnlyWhenAsked: ten wrong passwords are an ordinary test.
func TestDevThrottlesOnlyWhenAsked(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for name, throttles := range map[string]bool{"without": false, "with": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newDevHouse(t, func(c *handlers.Config) { c.Dev.Throttle = throttles })
			refused := false
			for range 50 {
				refused = h.grant(t, "mara", "wrong").StatusCode == http.StatusTooManyRequests || refused
				refused = h.token(t, with(h.passwordForm(), "client_secret", "wrong")).StatusCode == http.StatusTooManyRequests || refused
			}
			right := h.token(t, h.passwordForm()).StatusCode
			if refused != throttles || !throttles && right != http.StatusOK {
				t.Errorf("throttled %v, want %v; then the right password gives %d", refused, throttles, right)
			}
		})
	}
}
