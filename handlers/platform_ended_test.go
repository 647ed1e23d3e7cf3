package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// beforeTheChange runs a function before the next commit: after the token was judged.
func (h *house) beforeTheChange(do func()) {
	h.Faults.OnUpdate(func(run func() error) error {
		h.Faults.Repair()
		do()
		return run()
	})
}

// Promise (Platform §3): a call whose token ends before its change is 401, one whose client loses the
// scope 403, and nothing changes
func TestPlatformTokenEndsBeforeItsChange(t *testing.T) {
	h := parallelHouse(t)
	h.Rest() // only the requests write from now on
	for n, row := range platformScopes {
		method, path, _ := strings.Cut(row.call, " ")
		if method == "GET" {
			continue
		}
		on := newTargets(t, h, n)
		if row.call == "DELETE /accounts/:account" {
			on.account = "acct_empty"
			must.Get(h.CreateAccount(t.Context(), on.account, ""))(t)
		}
		body := strings.NewReplacer("NEW", "new", "ACCOUNT", on.account).Replace(row.body)
		for code, end := range map[string]func(p *platform){
			"invalid_token": func(p *platform) { must.Get(h.DisableClient(t.Context(), p.client.ID))(t) },
			"insufficient_scope": func(p *platform) {
				must.Get(h.UpdateClient(t.Context(), p.client.ID, store.ClientChange{Scopes: &[]string{"audit:read"}}))(t)
			},
		} {
			p := newPlatform(t, h, row.scopes, "audit:read")
			access := p.access(t)
			h.call(t, access, "GET", apiPath, "") // its first use is recorded
			var before int
			h.beforeTheChange(func() {
				end(p)
				before = h.kept(t)
			})
			a := h.call(t, access, method, web.PlatformPath+on.in(path), body)
			status := http.StatusUnauthorized
			if code == "insufficient_scope" {
				status = http.StatusForbidden
			}
			wantError(t, a, status, code)
			if now := h.kept(t); now != before {
				t.Errorf("%s with a token that ended leaves %d records of %d", row.call, now, before)
			}
		}
		if u := must.Get(h.FindUserBySubject(t.Context(), on.user))(t); u.Revision != 1 {
			t.Errorf("%s: the user has revision %d, want 1", row.call, u.Revision)
		}
	}
}

// Promise (Platform §2): a change by any token that ends before it is made is 401, also if the account
// was erased meanwhile, which is then not created again
func TestAnAccountErasedBeforeAUsersChange(t *testing.T) {
	for _, route := range dataRoutes {
		if route.method == "GET" {
			continue
		}
		t.Run(route.method+route.path, func(t *testing.T) {
			h := parallelHouse(t)
			access := h.pair(t).AccessToken
			wantStatus(t, h.call(t, access, "PUT", "/api/resources/customer/c1", `{}`), http.StatusCreated)
			path := route.path
			if strings.HasPrefix(path, hooksPath+"/") {
				e, a := h.hook(t, access, "POST", "", `{"url":"https://hooks.example/2"}`)
				wantStatus(t, a, http.StatusCreated)
				path = hooksPath + "/" + e.ID
			}
			h.Rest() // the first use of a token is written behind the request
			h.beforeTheChange(func() {
				for _, u := range must.Get(h.ListUsers(t.Context(), "", 9))(t) {
					must.Do(t, h.DeleteUser(t.Context(), u.Username))
				}
				must.Do(t, h.DeleteAccount(t.Context(), h.account))
			})
			wantError(t, h.call(t, access, route.method, path, route.body), http.StatusUnauthorized, "invalid_token")
			if _, err := h.FindAccount(t.Context(), h.account); err == nil {
				t.Error("the account is there again")
			}
			if n := h.Count(t, 'o'); n != 0 {
				t.Errorf("%d resources are left", n)
			}
		})
	}
	t.Run("a_scope_taken_away", func(t *testing.T) {
		h := parallelHouse(t)
		access := h.pair(t).AccessToken
		wantStatus(t, h.call(t, access, "PUT", "/api/resources/customer/c1", `{}`), http.StatusCreated)
		h.Rest() // the first use of a token is written behind the request
		h.beforeTheChange(func() {
			must.Get(h.UpdateClient(t.Context(), h.client.ID, store.ClientChange{Scopes: &[]string{"events:read"}}))(t)
		})
		wantError(t, h.call(t, access, "PUT", "/api/resources/customer/c1", `{"displayName":"Larkspur"}`), http.StatusForbidden, "insufficient_scope")
	})
}
