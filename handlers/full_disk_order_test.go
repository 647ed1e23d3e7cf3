package handlers_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// fullCase is a request on a disk that is nearly full.
type fullCase struct {
	name  string
	class kv.Class
	ready func(t *testing.T, h *house) (request func() answer) // while there is room
}

func adminCase(name, method, path, body string) fullCase {
	return fullCase{name, kv.Ruling, func(t *testing.T, h *house) func() answer {
		must.Get(h.CreateAccount(t.Context(), "acct_old", ""))(t)
		path := strings.NewReplacer("CLIENT", h.client.ID, "MARA", h.UserID(t, "mara")).Replace(path)
		return func() answer { return h.admin(t, method, path, body) }
	}}
}

func (h *house) bearer(t testing.TB, method, path, token, body string) answer {
	t.Helper()
	media := "application/json"
	if method == http.MethodPatch {
		media = "application/merge-patch+json"
	}
	return h.do(h.request(t, method, path, strings.NewReader(body), header("Authorization", "Bearer "+token), header("Content-Type", media)))
}

// tenant is a request with an access token. "ENDPOINT" in the path is a webhook endpoint.
func tenantCase(name string, class kv.Class, method, path, body string) fullCase {
	return fullCase{name, class, func(t *testing.T, h *house) func() answer {
		p := h.pair(t)
		e, _, err := h.Webhooks.Create(context.Background(), webhook.By{Account: h.account, Owner: h.OwnerOf(t, h.client.ID, h.user)}, h.account, webhook.Settings{URL: "https://hooks.example/a"})
		must.Do(t, err)
		if a := h.bearer(t, http.MethodPut, "/api/resources/customer/kept", p.AccessToken, `{}`); a.StatusCode != http.StatusCreated {
			t.Fatalf("a customer: %d %s", a.StatusCode, a.body)
		}
		path := strings.ReplaceAll(path, "ENDPOINT", e.ID)
		return func() answer { return h.bearer(t, method, path, p.AccessToken, body) }
	}}
}

var fullCases = []fullCase{
	tenantCase("a resource", kv.Ordinary, http.MethodPut, "/api/resources/customer/new", `{"displayName":"Larkspur"}`),
	tenantCase("a patch", kv.Ordinary, http.MethodPatch, "/api/resources/customer/kept", `{"displayName":"Larkspur"}`),
	tenantCase("a deleted resource", kv.Ordinary, http.MethodDelete, "/api/resources/customer/kept", ``),
	tenantCase("an endpoint", kv.Ordinary, http.MethodPost, "/api/webhook-endpoints", `{"url":"https://hooks.example/b"}`),
	tenantCase("an endpoint's new secret", kv.Ordinary, http.MethodPost, "/api/webhook-endpoints/ENDPOINT/rotate-secret", `{}`),
	{"a new account", kv.Ordinary, func(t *testing.T, h *house) func() answer {
		return func() answer { return h.admin(t, http.MethodPut, "/api/platform/accounts/acct_new", ``) }
	}},
	{"a refresh", kv.Access, func(t *testing.T, h *house) func() answer {
		p := h.pair(t)
		return func() answer { return h.token(t, h.refreshForm(p.RefreshToken)) }
	}},
	{"a password grant", kv.Access, func(t *testing.T, h *house) func() answer {
		return func() answer { return h.token(t, h.passwordForm()) }
	}},
	{"a sign-in", kv.Access, func(t *testing.T, h *house) func() answer {
		b := h.browser(t)
		page := b.get(t, "/login")
		return func() answer { return b.submit(t, page, rightPassword...) }
	}},
	{"a sign-in of an operator", kv.Ruling, func(t *testing.T, h *house) func() answer {
		h.operator(t, "olga")
		b := h.browser(t)
		page := b.get(t, "/login")
		return func() answer { return b.submit(t, page, "username", "olga", "password", storetest.Password) }
	}},
	{"RFC 7009, a refresh token", kv.Ending, func(t *testing.T, h *house) func() answer {
		p := h.pair(t)
		return func() answer { return h.revoke(t, p.RefreshToken) }
	}},
	{"RFC 7009, an access token", kv.Ending, func(t *testing.T, h *house) func() answer {
		p := h.pair(t)
		return func() answer { return h.revoke(t, p.AccessToken) }
	}},
	{"a replay, which revokes", kv.Ending, func(t *testing.T, h *house) func() answer {
		first := h.pair(t)
		second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
		wantPair(t, h.token(t, h.refreshForm(second.RefreshToken)))
		return func() answer {
			a := h.token(t, h.refreshForm(first.RefreshToken))
			if a.StatusCode == http.StatusBadRequest && strings.Contains(a.body, "invalid_grant") {
				a.StatusCode = http.StatusOK // it was refused, and the family ended
			}
			return a
		}
	}},
	{"a sign-out", kv.Ending, func(t *testing.T, h *house) func() answer {
		b := h.signedIn(t, h.user)
		form := b.accountForms(t)["/logout"]
		return func() answer { return b.post(t, "/logout", form) }
	}},
	{"a sign-out of other browsers", kv.Ending, func(t *testing.T, h *house) func() answer {
		h.signedIn(t, h.user)
		b := h.signedIn(t, h.user)
		form := b.accountForms(t)[accountOthers]
		return func() answer { return b.post(t, accountOthers, form) }
	}},
	{"an application revoked by its user", kv.Ending, func(t *testing.T, h *house) func() answer {
		h.pair(t)
		b := h.signedIn(t, h.user)
		form := b.accountForms(t)[h.client.ID]
		return func() answer { return b.post(t, accountRevoke, form) }
	}},
	{"a password change that ends everything", kv.Ending, func(t *testing.T, h *house) func() answer {
		b := h.signedIn(t, h.user)
		form := b.passwordForm(t, storetest.Password, freshPassword)
		return func() answer { return b.post(t, accountPassword, form) }
	}},
	{"a password set by a code", kv.Ending, func(t *testing.T, h *house) func() answer {
		b, code := h.browser(t), h.codeFor(t, "mara")
		return func() answer { return b.setPassword(t, "mara", code) }
	}},
	tenantCase("an endpoint disabled by its account", kv.Ending, http.MethodPost, "/api/webhook-endpoints/ENDPOINT/disable", `{}`),
	tenantCase("an endpoint deleted by its account", kv.Ending, http.MethodDelete, "/api/webhook-endpoints/ENDPOINT", ``),
	{"an endpoint disabled by the operator", kv.Ruling, func(t *testing.T, h *house) func() answer {
		e, _, err := h.Webhooks.Create(context.Background(), webhook.By{Account: h.account, Owner: h.OwnerOf(t, h.client.ID, h.user)}, h.account, webhook.Settings{URL: "https://hooks.example/a"})
		must.Do(t, err)
		return func() answer { return h.admin(t, http.MethodPost, "/admin/webhook-endpoints/"+e.ID+"/disable", ``) }
	}},
	{"user disable at the desk", kv.Ruling, func(t *testing.T, h *house) func() answer {
		b := h.signedIn(t, h.operator(t, "olga"))
		return func() answer { return b.sent(t, "/desk/users/"+h.user.Subject(), "disable") }
	}},
	adminCase("all deliveries held", http.MethodPost, "/admin/webhook-hold", `{}`),
	adminCase("user disable", http.MethodPost, "/api/platform/users/MARA/disable", ``),
	adminCase("user passwd", http.MethodPost, "/api/platform/users/MARA/password", `{"password":"`+freshPassword+`"}`),
	adminCase("user delete", http.MethodDelete, "/api/platform/users/MARA", ``),
	adminCase("client disable", http.MethodPost, "/api/platform/clients/CLIENT/disable", ``),
	adminCase("client rotate-secret --revoke-tokens", http.MethodPost, "/api/platform/clients/CLIENT/rotate-secret", `{"revoke_tokens":true}`),
	adminCase("client delete", http.MethodDelete, "/api/platform/clients/CLIENT", ``),
	adminCase("account delete", http.MethodDelete, "/api/platform/accounts/acct_old", ``),
	adminCase("event purge", http.MethodPost, "/admin/event-purge", `{"account":"acct_old"}`),
	{"session revoke", kv.Ruling, func(t *testing.T, h *house) func() answer {
		h.signedIn(t, h.user)
		return func() answer { return h.admin(t, http.MethodPost, "/admin/session-revoke", `{"user":"mara"}`) }
	}},
	deskCase("rotate-secret", deskClient, "revoke_tokens", "on"),
	deskCase("disable", deskClient),
	deskCase("disable", deskUser),
	deskCase("code", deskUser),
	deskCase("sign-out", deskUser),
	{"a denial of what was remembered", kv.Ending, func(t *testing.T, h *house) func() answer {
		must.Get(h.UpdateClient(t.Context(), h.client.ID, store.ClientChange{Consent: new("remember")}))(t)
		b := h.signedIn(t, h.user)
		wantStatus(t, b.submit(t, b.get(t, h.authURL()), "decision", "allow"), http.StatusSeeOther)
		page := b.get(t, h.authURL("prompt", "consent"))
		return func() answer { return b.submit(t, page, "decision", "deny") }
	}},
	{"a denial that ends nothing", kv.Access, func(t *testing.T, h *house) func() answer {
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL())
		return func() answer { return b.submit(t, page, "decision", "deny") }
	}},
	{"token revoke", kv.Ruling, func(t *testing.T, h *house) func() answer {
		p := h.pair(t)
		return func() answer {
			return h.admin(t, http.MethodPost, "/admin/token-revoke", `{"token":"`+p.AccessToken+`"}`)
		}
	}},
}

func deskClient(h *house) string { return "/desk/clients/" + h.client.ID }
func deskUser(h *house) string   { return "/desk/users/" + h.user.Subject() }

// deskCase is a form of the desk that ends something.
func deskCase(do string, path func(h *house) string, namesAndValues ...string) fullCase {
	return fullCase{"the desk: " + do, kv.Ruling, func(t *testing.T, h *house) func() answer {
		h.pair(t)
		b := h.signedIn(t, h.operator(t, "olga"))
		action, fields := deskForm(t, b.get(t, path(h)), do)
		return func() answer { return b.post(t, action, with(fields, namesAndValues...)) }
	}}
}

// TestEndingsOutliveChangesOnAFullDisk: each request succeeds where its class is the least
// that the disk has room for, and is refused with 503 where it is not. Changes are refused
// first, then sign-ins and refreshes, and last what ends something, operators' at the
// very end.
//
// Promise (Credentials, memory, connections): on a nearly full disk changes are refused first, then
// sign-ins and refreshes, of those who wrote most before the others, and what ends something last,
// operators' at the very end
func TestEndingsOutliveChangesOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range fullCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, withDesk())
			request := c.ready(t, h)
			h.Flush(t.Context())
			if int(c.class)+1 < kv.Classes {
				h.Faults.Fill(c.class + 1)
				if a := request(); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
					t.Errorf("without room for %s: %d %.300s, want 503 with Retry-After", c.class, a.StatusCode, a.body)
				}
			}
			h.Faults.Fill(c.class)
			if a := request(); a.StatusCode/100 != 2 && a.StatusCode != http.StatusSeeOther {
				t.Errorf("with room for %s: %d %.600s", c.class, a.StatusCode, a.body)
			}
			h.Flush(t.Context())
			if lost := h.Counts().AuditLost; lost > 0 && c.class > kv.Ordinary {
				t.Errorf("%d lines of the audit record are lost", lost)
			}
		})
	}
}

// TestWhoFilledTheDiskSignsInLast: where sign-ins of the accounts that wrote most are refused,
// those of the others are not.
//
// Promise (Credentials, memory, connections): on a nearly full disk changes are refused first, then
// sign-ins and refreshes, of those who wrote most before the others, and what ends something last,
// operators' at the very end
func TestWhoFilledTheDiskSignsInLast(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	other := h.User(t, "otto", "acct_other")
	p := h.pair(t)
	theirs := must.Get(h.IssueForPassword(t.Context(), store.By{}, h.client, other, store.ScopeUnstated))(t)
	text := `{"notes":"` + strings.Repeat("long ", 400) + `"}`
	for range 300 {
		text = strings.Replace(text, "long", "more", 1)
		if a := h.bearer(t, http.MethodPut, "/api/resources/customer/c1", p.AccessToken, text); a.StatusCode/100 != 2 {
			t.Fatalf("a change: %d %s", a.StatusCode, a.body)
		}
	}
	h.Faults.Fill(kv.Access)
	if a := h.token(t, h.refreshForm(p.RefreshToken)); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a refresh of who filled the disk: %d %s, want 503", a.StatusCode, a.body)
	}
	if a := h.token(t, h.passwordForm()); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a grant to who filled the disk: %d %s, want 503", a.StatusCode, a.body)
	}
	wantPair(t, h.token(t, h.refreshForm(theirs.RefreshToken.Reveal())))
	wantPair(t, h.token(t, with(h.passwordForm(), "username", "otto")))
	h.Faults.Fill(kv.AccessOfBusiest)
	wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
}

// TestReadyzSaysWhatIsRefused, to everybody, and to operators why.
//
// Promise (Credentials, memory, connections): /readyz lists the classes that are refused
func TestReadyzSaysWhatIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *handlers.Config) { c.Ready = func() error { return refusing{} } })
	for name, a := range map[string]answer{"public": h.get(t, "/readyz"), "operator": h.admin(t, http.MethodGet, "/readyz", "")} {
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, `"refused":["changes","access_of_busiest"]`) {
			t.Errorf("%s: %d %s, want 503 with the classes that are refused", name, a.StatusCode, a.body)
		}
		if strings.Contains(a.body, "MiB") != (name == "operator") {
			t.Errorf("%s: %s; how much is free is for operators", name, a.body)
		}
	}
}

type refusing struct{ diskFull }

func (refusing) Refused() []string {
	return slices.Clone([]string{kv.Ordinary.Name(), kv.AccessOfBusiest.Name()})
}
