package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

const hooksPath = "/api/webhook-endpoints"

// hook calls the API of webhook endpoints with a token.
func (h *house) hook(t testing.TB, access, method, path, body string) (e api.WebhookEndpoint, a answer) {
	t.Helper()
	a = h.do(h.request(t, method, hooksPath+path, strings.NewReader(body), header("Authorization", "Bearer "+access), header("Content-Type", "application/json")))
	_ = json.Unmarshal([]byte(a.body), &e)
	return e, a
}

// hooked creates an endpoint with a token.
func (h *house) hooked(t testing.TB, access string) api.WebhookEndpoint {
	t.Helper()
	e, a := h.hook(t, access, "POST", "", `{"url":"https://hooks.example/in?key=unshown"}`)
	wantStatus(t, a, http.StatusCreated)
	return e
}

// hookNow is an endpoint as an operator gets it.
func (h *house) hookNow(t testing.TB, id string) (e api.WebhookEndpoint) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(h.admin(t, "GET", "/admin/webhook-endpoints/"+id, "").body), &e))
	return e
}

func (h *house) wantAuthorizationEnded(t testing.TB, e api.WebhookEndpoint) {
	t.Helper()
	now := h.hookNow(t, e.ID)
	if d := now.Disabled; d == nil || d.By != webhook.BySystem || d.Reason != webhook.AuthorizationEnded || now.Cursor != e.Cursor {
		t.Errorf("disabled = %+v at %s, want authorization_ended at %s", d, now.Cursor, e.Cursor)
	}
}

// TestAStolenTokensWebhookEndsWithTheAuthorization: over TCP, whatever ends the authorization
// of a token ends what it made, and another token enables it, which sends what waited.
//
// Promise (Webhooks): an endpoint is disabled in the transaction that revokes the authorization of
// the token that created it or last changed its URL or secret; its cursor stays
func TestAStolenTokensWebhookEndsWithTheAuthorization(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, h *house, p pair, code string, b *browser){
		"a_refresh_token_is_used_twice": func(t *testing.T, h *house, p pair, _ string, _ *browser) {
			second := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
			wantPair(t, h.token(t, h.refreshForm(second.RefreshToken)))
			wantTokenError(t, h.token(t, h.refreshForm(p.RefreshToken)), http.StatusBadRequest, "invalid_grant")
		},
		"a_code_is_used_twice": func(t *testing.T, h *house, _ pair, code string, _ *browser) {
			h.Clock.Advance(time.Minute) // a page that loads twice sends it twice
			wantTokenError(t, h.token(t, h.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		},
		"the_client_revokes_the_refresh_token": func(t *testing.T, h *house, p pair, _ string, _ *browser) {
			wantRevoked(t, h.revoke(t, p.RefreshToken))
		},
		"the_client_revokes_the_access_token": func(t *testing.T, h *house, p pair, _ string, _ *browser) { wantRevoked(t, h.revoke(t, p.AccessToken)) },
		"the_user_revokes_the_application": func(t *testing.T, h *house, _ pair, _ string, b *browser) {
			b.wantDone(t, b.post(t, accountRevoke, b.accountForms(t)[h.client.ID]), "Its webhooks are turned off.")
		},
		"the_user_changes_the_password_and_ends_the_rest": func(t *testing.T, _ *house, _ pair, _ string, b *browser) {
			b.wantDone(t, b.post(t, accountPassword, b.passwordForm(t, storetest.Password, freshPassword)), "the webhooks of your applications are turned off.")
		},
		"the_user_sets_a_password_by_code": func(t *testing.T, h *house, _ pair, _ string, _ *browser) {
			wantStatus(t, h.browser(t).setPassword(t, "mara", h.codeFor(t, "mara")), http.StatusSeeOther)
		},
		"an_operator_revokes_the_family": func(t *testing.T, h *house, p pair, _ string, _ *browser) {
			a := h.admin(t, "POST", "/admin/token-revoke", fmt.Sprintf(`{"token":%q}`, p.AccessToken))
			if wantStatus(t, a, http.StatusOK); !strings.Contains(a.body, `"webhooks_disabled":1`) || strings.Contains(a.body, "had_ended") {
				t.Errorf("answer = %s", a.body)
			}
		},
		"an_operator_sets_the_password": func(t *testing.T, h *house, _ pair, _ string, _ *browser) {
			wantStatus(t, h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/password", fmt.Sprintf(`{"password":%q}`, freshPassword)), http.StatusOK)
		},
		"an_operator_disables_the_user": func(t *testing.T, h *house, _ pair, _ string, _ *browser) {
			wantStatus(t, h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/disable", ""), http.StatusOK)
		},
		"an_operator_disables_the_client": func(t *testing.T, h *house, _ pair, _ string, _ *browser) {
			wantStatus(t, h.admin(t, "POST", "/api/platform/clients/"+h.client.ID+"/disable", ""), http.StatusOK)
		},
		"an_operator_revokes_the_clients_tokens": func(t *testing.T, h *house, _ pair, _ string, _ *browser) {
			wantStatus(t, h.admin(t, "POST", "/api/platform/clients/"+h.client.ID+"/rotate-secret", `{"revoke_tokens":true}`), http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t).overTCP(t)
			other, sec := h.Client(t)
			nils := h.User(t, "nils", h.account)
			another := wantPair(t, h.token(t, with(as(h.passwordForm(), other, sec), "username", nils.Username)))
			b, code := h.signedIn(t, h.user), h.code(t)
			p := wantPair(t, h.token(t, h.codeForm(code)))
			e := h.hooked(t, p.AccessToken)
			end(t, h, p, code, b)
			h.wantAuthorizationEnded(t, e)
			for _, path := range []string{"/disable", "/enable"} { // a tenant's disabling takes nothing over
				now, a := h.hook(t, another.AccessToken, "POST", "/"+e.ID+path, "")
				if wantStatus(t, a, http.StatusOK); path == "/disable" && now.Disabled.Reason != webhook.AuthorizationEnded {
					t.Errorf("disabled = %+v", now.Disabled)
				}
				if path == "/enable" && (now.Disabled != nil || now.Waiting.Events == 0 || *now.CreatedBy.Client != other.ID || *now.CreatedBy.User != nils.Subject()) {
					t.Errorf("enabled = %s, want what waited and the new owner", a.body)
				}
			}
			must.Do(t, h.RevokeToken(t.Context(), store.By{}, other, another.RefreshToken))
			h.wantAuthorizationEnded(t, e)
		})
	}
}

// TestWhoDisabledAWebhookDecidesWhoEnablesIt: over TCP.
//
// Promise (Webhooks): only an operator enables an endpoint that an operator disabled, and one of an
// operator's that no token disabled
func TestWhoDisabledAWebhookDecidesWhoEnablesIt(t *testing.T) {
	h := parallelHouse(t).overTCP(t)
	p := h.pair(t)
	e := h.hooked(t, p.AccessToken)
	call := func(path, body string) (api.WebhookEndpoint, answer) {
		return h.hook(t, p.AccessToken, "POST", "/"+e.ID+path, body)
	}
	operator := func(path string) answer { return h.admin(t, "POST", "/admin/webhook-endpoints/"+e.ID+path, "") }
	wantBy := func(want webhook.Cause) {
		t.Helper()
		if now := h.hookNow(t, e.ID); now.Disabled == nil || now.Disabled.By != want || now.Disabled.Reason != webhook.Asked {
			t.Fatalf("disabled = %+v, want by %s", now.Disabled, want)
		}
	}
	refused := func() {
		t.Helper()
		for _, body := range []string{"", `{"from":"now"}`} {
			if _, a := call("/enable", body); !strings.Contains(wantError(t, a, http.StatusConflict, "conflict"), "only an operator can enable it") {
				t.Errorf("answer = %s", a.body)
			}
		}
		wantBy(webhook.ByOperator)
	}
	_, a := call("/disable", "")
	wantStatus(t, a, http.StatusOK)
	wantBy(webhook.ByAPI)
	wantStatus(t, operator("/disable"), http.StatusOK) // it counts although it is disabled already
	refused()
	_, a = call("/disable", "") // a tenant's does not take it over
	wantStatus(t, a, http.StatusOK)
	refused()
	_, a = call("/rotate-secret", "")
	wantStatus(t, a, http.StatusOK)
	refused()
	_, a = h.hook(t, p.AccessToken, "PATCH", "/"+e.ID, `{"url":"https://hooks.example/elsewhere"}`)
	wantStatus(t, a, http.StatusOK)
	refused()

	wantStatus(t, operator("/enable"), http.StatusOK)
	if now := h.hookNow(t, e.ID); now.State != "enabled" || now.CreatedBy.Client != nil || now.CreatedBy.User != nil {
		t.Errorf("enabled by an operator it is %+v of %+v, want it bound to nobody", now.State, now.CreatedBy)
	}
	wantRevoked(t, h.revoke(t, p.RefreshToken))
	if now := h.hookNow(t, e.ID); now.State != "enabled" {
		t.Error("the end of an authorization that no longer owns it disables it")
	}
	q := h.pair(t)
	for _, path := range []string{"/disable", "/enable"} { // who may enable what a token disabled
		_, a := h.hook(t, q.AccessToken, "POST", "/"+e.ID+path, "")
		wantStatus(t, a, http.StatusOK)
	}
}

// TestAnOperatorsWebhookIsEnabledByOperators when the server disabled it.
//
// Promise (Webhooks): only an operator enables an endpoint that an operator disabled, and one of an
// operator's that no token disabled
func TestAnOperatorsWebhookIsEnabledByOperators(t *testing.T) {
	h := parallelHouse(t)
	e := h.endpoint(t, "https://hooks.example/in")
	must.Do(t, h.Webhooks.Start(t.Context()))
	loaded := must.Get(h.Webhooks.Load(t.Context(), e.ID))(t)
	must.Get(h.Webhooks.Settle(t.Context(), &loaded, webhook.Progress{Disable: webhook.Gone}))(t)
	_, a := h.hook(t, h.pair(t).AccessToken, "POST", "/"+e.ID+"/enable", "")
	wantError(t, a, http.StatusConflict, "conflict")
	wantStatus(t, h.admin(t, "POST", "/admin/webhook-endpoints/"+e.ID+"/enable", ""), http.StatusOK)
}

// TestAccountShowsWebhooks: the page lists the endpoints of the reader's authorizations, each
// with a button that turns it off, and no one else's.
//
// Promise (Webhooks): the account page lists the endpoints of one's authorizations, each with a
// button
func TestAccountShowsWebhooks(t *testing.T) {
	h := parallelHouse(t).overTCP(t)
	b := h.signedIn(t, h.user)
	const off = "/account/webhook-off"
	if forms := b.accountForms(t); forms[off] != nil {
		t.Error("the page has a button without an endpoint")
	}
	e := h.hooked(t, h.pair(t).AccessToken)
	operators := h.endpoint(t, "https://operators.example/in")
	nils := h.User(t, "nils", h.account)
	page := b.get(t, accountPath)
	if text := words(t, page); !strings.Contains(text, "https://hooks.example") || strings.Contains(page.body, "unshown") || strings.Contains(text, "operators.example") {
		t.Errorf("the page says %s", text)
	}
	form := b.accountForms(t)[e.ID]
	other := h.signedIn(t, nils)
	if text := words(t, other.get(t, accountPath)); strings.Contains(text, "hooks.example") {
		t.Error("another user of the account sees the endpoint")
	}
	foreign := with(other.accountForms(t)[accountPassword], "webhook_id", e.ID)
	wantStatus(t, other.post(t, off, foreign), http.StatusSeeOther)
	wantStatus(t, b.post(t, off, with(form, "webhook_id", operators.ID)), http.StatusSeeOther)
	for _, id := range []string{e.ID, operators.ID} {
		if now := h.hookNow(t, id); now.State != "enabled" {
			t.Fatalf("%s is disabled by somebody else's button", id)
		}
	}
	wantPage400(t, b.post(t, off, with(form, "webhook_id", "")))
	b.wantDone(t, b.post(t, off, form), "The webhook is turned off.")
	if now := h.hookNow(t, e.ID); now.Disabled == nil || now.Disabled.By != webhook.ByAPI || now.Disabled.Reason != webhook.Asked {
		t.Errorf("disabled = %+v", now.Disabled)
	}
	if forms := b.accountForms(t); forms[off] != nil {
		t.Error("the page still has a button for it")
	}
}
