package handlers

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store/storetest"
)

// send is a request of the admin API with a JSON body.
func (a *apiHouse) send(method, target, body string) answer {
	return a.admin(method, target, strings.NewReader(body), "Content-Type", "application/json")
}

// members returns the members of a JSON object, sorted by name.
func (w answer) members(t testing.TB) []string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w answer) text(t testing.TB, member string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	text, _ := object[member].(string)
	return text
}

const clientMembers = "client_id consent disabled grants introspect name platform public redirect_uris scopes"

// Promise (RFC 9700): a public client has no secret and never the password grant
func TestAdminClients(t *testing.T) {
	t.Parallel()
	t.Run("members_and_a_secret_shown_once", func(t *testing.T) {
		a := parallelAPI(t)
		made := a.send("POST", "/admin/clients", `{"name":"Till","redirect_uris":["https://app.example/cb"]}`)
		if got, want := strings.Join(made.members(t), " "), strings.Replace(clientMembers, "client_id", "client_id client_secret", 1); made.Code != http.StatusCreated || got != want {
			t.Fatalf("create = %d with %s, want %s", made.Code, got, want)
		}
		id, secret := made.text(t, "client_id"), made.text(t, "client_secret")
		for name, w := range map[string]answer{
			"show":    a.send("GET", "/admin/clients/"+id, ""),
			"update":  a.send("PATCH", "/admin/clients/"+id, `{"name":"Till 2"}`),
			"disable": a.send("POST", "/admin/clients/"+id+"/disable", ""),
			"enable":  a.send("POST", "/admin/clients/"+id+"/enable", ""),
		} {
			if got := strings.Join(w.members(t), " "); w.Code != http.StatusOK || got != clientMembers {
				t.Errorf("%s = %d with %s, want %s", name, w.Code, got, clientMembers)
			}
		}
		if w := a.send("GET", "/admin/clients", ""); strings.Contains(w.Body.String(), "secret") {
			t.Errorf("list shows a secret: %s", w.Body)
		}
		rotated := a.send("POST", "/admin/clients/"+id+"/rotate-secret", `{"revoke_tokens":false}`)
		if got := strings.Join(rotated.members(t), " "); got != "client_id client_secret" || rotated.text(t, "client_secret") == secret {
			t.Errorf("rotate = %d with %s", rotated.Code, got)
		}
		// Both live until the next rotation.
		for _, presented := range []string{secret, rotated.text(t, "client_secret")} {
			if _, err := a.AuthenticateClient(t.Context(), id, presented); err != nil {
				t.Errorf("a live secret is refused: %v", err)
			}
		}
		if w := a.send("POST", "/admin/clients/"+id+"/rotate-secret", `{"revoke_tokens":true}`); w.Code != http.StatusOK {
			t.Fatalf("rotate = %d %s", w.Code, w.Body)
		}
		if _, err := a.AuthenticateClient(t.Context(), id, secret); err == nil {
			t.Error("a leaked secret lives on")
		}
		if w := a.send("DELETE", "/admin/clients/"+id, ""); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
			t.Errorf("delete = %d %q", w.Code, w.Body)
		}
		for _, request := range [][2]string{{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"POST", "/disable"}, {"POST", "/enable"}, {"POST", "/rotate-secret"}} {
			a.send(request[0], "/admin/clients/"+id+request[1], "").fault(t, http.StatusNotFound, "not_found", "")
		}
	})
	t.Run("public_client_has_no_secret", func(t *testing.T) {
		a := parallelAPI(t)
		made := a.send("POST", "/admin/clients", `{"name":"Till","redirect_uris":["https://app.example/cb"],"public":true}`)
		if got := strings.Join(made.members(t), " "); got != clientMembers {
			t.Errorf("create = %d with %s, want %s", made.Code, got, clientMembers)
		}
		a.send("POST", "/admin/clients/"+made.text(t, "client_id")+"/rotate-secret", "").fault(t, http.StatusBadRequest, "invalid_request", "client_id")
	})
	t.Run("refusals_change_nothing", func(t *testing.T) {
		a := parallelAPI(t)
		id := "/admin/clients/" + a.client.ID
		before := a.send("GET", "/admin/clients", "").Body.String()
		for body, param := range map[string]string{
			`{"name":""}`:                                 "name",
			`{"name":"a\u202eb"}`:                         "name",
			`{"redirect_uris":[]}`:                        "redirect_uris",
			`{"redirect_uris":["http://app.example/cb"]}`: "redirect_uris",
			`{"grants":["implicit"]}`:                     "grants",
			`{"scopes":["events:write"]}`:                 "scopes",
			`{"add_redirect_uris":["nowhere"]}`:           "redirect_uris",
			`{"remove_redirect_uris":["nowhere"]}`:        "remove_redirect_uris",
			`{"redirect_uris":["https://a.example/"],"add_redirect_uris":["https://b.example/"]}`: "redirect_uris",
			`{"nmae":"slip"}`:            "",
			`{"name":"a","name":"b"}`:    "",
			`{"name":7}`:                 "",
			`["name"]`:                   "",
			`{"name":"a"} {"name":"b"}`:  "",
			`{"redirect_uris":[[[[]]]]}`: "",
			"{\"name\":\"\xff\"}":        "",
		} {
			a.send("PATCH", id, body).fault(t, http.StatusBadRequest, "invalid_request", param)
		}
		a.send("POST", "/admin/clients", `{"name":"`+strings.Repeat("x", web.FormSizeMax)+`"}`).fault(t, http.StatusRequestEntityTooLarge, "too_large", "")
		if after := a.send("GET", "/admin/clients", "").Body.String(); after != before {
			t.Errorf("clients before %s\nafter %s", before, after)
		}
	})
	t.Run("redirect_uris_added_at_once_all_stay", func(t *testing.T) {
		a := parallelAPI(t)
		var all sync.WaitGroup
		for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
			all.Go(func() {
				if w := a.send("PATCH", "/admin/clients/"+a.client.ID, `{"add_redirect_uris":["https://app.example/`+n+`"]}`); w.Code != http.StatusOK {
					t.Errorf("update = %d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		c, err := a.FindClient(t.Context(), a.client.ID)
		if err != nil || len(c.RedirectURIs) != 7 {
			t.Errorf("redirect URIs %v, %v; want all seven", c.RedirectURIs, err)
		}
	})
	t.Run("list_is_walked_by_pages", func(t *testing.T) {
		a := parallelAPI(t)
		for range 4 {
			a.Client(t)
		}
		var seen []string
		after := ""
		for range 3 {
			var page struct {
				Data    []admin.AdminClient `json:"data"`
				HasMore bool                `json:"hasMore"`
			}
			w := a.send("GET", "/admin/clients?limit=2&after="+after, "")
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.HasMore != (len(seen) < 3) {
				t.Fatalf("page after %q = %s, %v", after, w.Body, err)
			}
			for _, c := range page.Data {
				seen = append(seen, c.ClientID)
			}
			after = seen[len(seen)-1]
		}
		if !slices.IsSorted(seen) || len(slices.Compact(seen)) != 5 {
			t.Errorf("walked %v, want five in order", seen)
		}
		for _, query := range []string{"limit=0", "limit=501", "limit=x", "limit=1&limit=2", "after=a&after=b"} {
			if w := a.send("GET", "/admin/clients?"+query, ""); w.Code != http.StatusBadRequest {
				t.Errorf("%s = %d %s", query, w.Code, w.Body)
			}
		}
	})
}

func TestAdminUsers(t *testing.T) {
	a := parallelAPI(t)
	made := a.send("POST", "/admin/users", `{"username":"Odile","account":"acct_larkspur","password":"`+storetest.Password+`"}`)
	t.Run("members", func(t *testing.T) {
		if got := strings.Join(made.members(t), " "); made.Code != http.StatusCreated || got != "account operator user_id username" {
			t.Errorf("create = %d with %s", made.Code, got)
		}
		w := a.send("GET", "/admin/users/ODILE", "")
		if got := strings.Join(w.members(t), " "); got != "account disabled operator user_id username" || w.text(t, "user_id") != made.text(t, "user_id") {
			t.Errorf("show = %d with %s", w.Code, got)
		}
		if w := a.send("POST", "/admin/users", `{"username":"bob","password":"`+storetest.Password+`"}`); w.text(t, "account") != "default" {
			t.Errorf("account not named: %s", w.Body)
		}
	})
	t.Run("one_name_one_user", func(t *testing.T) {
		a.send("POST", "/admin/users", `{"username":"odile","password":"`+storetest.Password+`"}`).fault(t, http.StatusConflict, "exists", "")
	})
	t.Run("operator", func(t *testing.T) {
		for _, c := range []struct {
			name, method, path, body string
			want                     bool
		}{
			{"created_without_it", "GET", "/admin/users/odile", "", false},
			{"promoted", "POST", "/admin/users/odile/promote", "", true},
			{"shown", "GET", "/admin/users/odile", "", true},
			{"changed_otherwise", "POST", "/admin/users/odile/enable", "", true},
			{"demoted", "POST", "/admin/users/odile/demote", "", false},
			{"created_with_it", "POST", "/admin/users", `{"username":"olga","operator":true,"password":"` + storetest.Password + `"}`, true},
		} {
			var shown struct{ Operator *bool }
			w := a.send(c.method, c.path, c.body)
			if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || shown.Operator == nil || *shown.Operator != c.want {
				t.Errorf("%s: %d %s, want operator %t", c.name, w.Code, w.Body, c.want)
			}
		}
	})
	t.Run("new_password_ends_what_was_begun", func(t *testing.T) {
		b := newAPI(t)
		token := b.token(t, "odile", "acct_a", 0)
		if w := b.get("/api/events", token); w.Code != http.StatusOK {
			t.Fatalf("events = %d", w.Code)
		}
		if w := b.send("POST", "/admin/users/odile/password", `{"password":"another long passphrase"}`); w.Code != http.StatusOK {
			t.Fatalf("password = %d %s", w.Code, w.Body)
		}
		if w := b.get("/api/events", token); w.Code != http.StatusUnauthorized {
			t.Errorf("events with the old token = %d, want 401", w.Code)
		}
	})
	t.Run("name_with_a_slash", func(t *testing.T) {
		const name = "till/3%2f"
		if w := a.send("POST", "/admin/users", `{"username":"`+name+`","password":"`+storetest.Password+`"}`); w.Code != http.StatusCreated {
			t.Fatalf("create = %d %s", w.Code, w.Body)
		}
		path := "/admin/users/" + url.PathEscape(url.PathEscape(name))
		if w := a.send("POST", path+"/disable", ""); w.text(t, "username") != name {
			t.Errorf("disable = %d %s", w.Code, w.Body)
		}
		if w := a.send("DELETE", path, ""); w.Code != http.StatusNoContent {
			t.Errorf("delete = %d %s", w.Code, w.Body)
		}
		a.send("GET", "/admin/users/%25zz", "").fault(t, http.StatusBadRequest, "invalid_request", "")
		a.send("GET", "/admin/users/%2500", "").fault(t, http.StatusBadRequest, "invalid_request", "")
	})
	t.Run("refusals", func(t *testing.T) {
		for body, param := range map[string]string{
			`{"username":"eve","password":"short"}`:                                           "password",
			`{"username":"eve smith","password":"` + storetest.Password + `"}`:                "username",
			`{"username":"eve","account":"No Such","password":"` + storetest.Password + `"}`:  "account",
			`{"username":"eve","passwrod":"` + storetest.Password + `"}`:                      "",
			`{"username":"","password":"` + storetest.Password + `"}`:                         "username",
			`{"username":"eve","password":"` + strings.Repeat("x", 1025) + `"}`:               "password",
			`{"username":"` + strings.Repeat("e", 129) + `","password":"long enough, it is"}`: "username",
		} {
			w := a.send("POST", "/admin/users", body)
			w.fault(t, http.StatusBadRequest, "invalid_request", param)
			if strings.Contains(w.Body.String(), storetest.Password) {
				t.Errorf("the answer repeats the password: %s", w.Body)
			}
		}
		for _, request := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/disable"}, {"POST", "/enable"}, {"POST", "/promote"}, {"POST", "/demote"}} {
			a.send(request[0], "/admin/users/moira"+request[1], "").fault(t, http.StatusNotFound, "not_found", "")
		}
		a.send("POST", "/admin/users/moira/password", `{"password":"`+storetest.Password+`"}`).fault(t, http.StatusNotFound, "not_found", "")
	})
}

func TestAdminUserCodes(t *testing.T) {
	a := parallelAPI(t)
	made := a.send("POST", "/admin/users", `{"username":"nora","code":true}`)
	if got := strings.Join(made.members(t), " "); made.Code != http.StatusCreated || got != "account code expires_at operator user_id username" {
		t.Errorf("create by code = %d with %s", made.Code, got)
	}
	again := a.send("POST", "/admin/users/NORA/code", "")
	if got := strings.Join(again.members(t), " "); again.Code != http.StatusOK || got != "code expires_at user_id username" || again.text(t, "code") == made.text(t, "code") {
		t.Errorf("a new code = %d with %s", again.Code, got)
	}
	a.send("POST", "/admin/users", `{"username":"olga","code":true,"password":"`+storetest.Password+`"}`).fault(t, http.StatusBadRequest, "invalid_request", "code")
	a.send("POST", "/admin/users/moira/code", "").fault(t, http.StatusNotFound, "not_found", "")
	a.send("POST", "/admin/users/nora/disable", "")
	a.send("POST", "/admin/users/nora/code", "").fault(t, http.StatusConflict, "conflict", "")
	if _, err := a.FindUser(t.Context(), "olga"); err == nil {
		t.Error("a refused user was created")
	}
}

func TestAdminAccounts(t *testing.T) {
	a := parallelAPI(t)
	made := a.send("POST", "/admin/accounts", `{"account":"acct_a","name":"Larkspur Tea Room"}`)
	if got := strings.Join(made.members(t), " "); made.Code != http.StatusCreated || got != "account created_at name" {
		t.Fatalf("create = %d with %s", made.Code, got)
	}
	a.send("POST", "/admin/accounts", `{"account":"acct_a"}`).fault(t, http.StatusConflict, "exists", "")
	a.send("POST", "/admin/accounts", `{"account":"Acct"}`).fault(t, http.StatusBadRequest, "invalid_request", "account")
	a.User(t, "bob", "acct_b")
	a.send("DELETE", "/admin/accounts/acct_b", "").fault(t, http.StatusConflict, "conflict", "")
	a.importLines(t, "acct_a", `{"type":"customer.created","resource":"cus_1","eventData":{"object":{}},"createdAt":1773066600}`)
	if w := a.send("DELETE", "/admin/accounts/acct_a", ""); w.Code != http.StatusNoContent {
		t.Errorf("delete = %d %s", w.Code, w.Body)
	}
	a.send("GET", "/admin/accounts/acct_a", "").fault(t, http.StatusNotFound, "not_found", "")
	a.send("DELETE", "/admin/accounts/acct_a", "").fault(t, http.StatusNotFound, "not_found", "")
	if w := a.send("GET", "/admin/accounts", ""); strings.Count(w.Body.String(), `"account":`) != 1 {
		t.Errorf("list = %s, want acct_b alone", w.Body)
	}
}

// TestAdminIsApart: no public listener serves the admin API.
func TestAdminIsApart(t *testing.T) {
	a := parallelAPI(t)
	for _, path := range []string{"/admin/info", "/admin/clients", "/admin/users", "/admin/accounts", "/admin/events"} {
		if w := a.get(path, ""); w.Code != http.StatusNotFound {
			t.Errorf("GET %s = %d on the public handler, want 404", path, w.Code)
		}
	}
	if w := a.send("GET", "/admin/info", ""); w.text(t, "mode") != "serve" || w.text(t, "account") != "default" {
		t.Errorf("info = %s", w.Body)
	}
}
