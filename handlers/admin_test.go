package handlers

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
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
		made := a.send("POST", "/api/platform/clients", `{"name":"Till","redirect_uris":["https://app.example/cb"]}`)
		if got, want := strings.Join(made.members(t), " "), strings.Replace(clientMembers, "client_id", "client_id client_secret", 1); made.Code != http.StatusCreated || got != want {
			t.Fatalf("create = %d with %s, want %s", made.Code, got, want)
		}
		id, secret := made.text(t, "client_id"), made.text(t, "client_secret")
		for name, w := range map[string]answer{
			"show":    a.send("GET", "/api/platform/clients/"+id, ""),
			"update":  a.send("PATCH", "/api/platform/clients/"+id, `{"name":"Till 2"}`),
			"disable": a.send("POST", "/api/platform/clients/"+id+"/disable", ""),
			"enable":  a.send("POST", "/api/platform/clients/"+id+"/enable", ""),
		} {
			if got := strings.Join(w.members(t), " "); w.Code != http.StatusOK || got != clientMembers {
				t.Errorf("%s = %d with %s, want %s", name, w.Code, got, clientMembers)
			}
		}
		if w := a.send("GET", "/api/platform/clients", ""); strings.Contains(w.Body.String(), "secret") {
			t.Errorf("list shows a secret: %s", w.Body)
		}
		rotated := a.send("POST", "/api/platform/clients/"+id+"/rotate-secret", `{"revoke_tokens":false}`)
		if got := strings.Join(rotated.members(t), " "); got != "client_id client_secret" || rotated.text(t, "client_secret") == secret {
			t.Errorf("rotate = %d with %s", rotated.Code, got)
		}
		// Both live until the next rotation.
		for _, presented := range []string{secret, rotated.text(t, "client_secret")} {
			if _, err := a.AuthenticateClient(t.Context(), id, presented, nil); err != nil {
				t.Errorf("a live secret is refused: %v", err)
			}
		}
		if w := a.send("POST", "/api/platform/clients/"+id+"/rotate-secret", `{"revoke_tokens":true}`); w.Code != http.StatusOK {
			t.Fatalf("rotate = %d %s", w.Code, w.Body)
		}
		if _, err := a.AuthenticateClient(t.Context(), id, secret, nil); err == nil {
			t.Error("a leaked secret lives on")
		}
		if w := a.send("DELETE", "/api/platform/clients/"+id, ""); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
			t.Errorf("delete = %d %q", w.Code, w.Body)
		}
		for _, request := range [][2]string{{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"POST", "/disable"}, {"POST", "/enable"}, {"POST", "/rotate-secret"}} {
			a.send(request[0], "/api/platform/clients/"+id+request[1], "").fault(t, http.StatusNotFound, "not_found", "")
		}
	})
	t.Run("public_client_has_no_secret", func(t *testing.T) {
		a := parallelAPI(t)
		made := a.send("POST", "/api/platform/clients", `{"name":"Till","redirect_uris":["https://app.example/cb"],"public":true}`)
		if got := strings.Join(made.members(t), " "); got != clientMembers {
			t.Errorf("create = %d with %s, want %s", made.Code, got, clientMembers)
		}
		a.send("POST", "/api/platform/clients/"+made.text(t, "client_id")+"/rotate-secret", "").fault(t, http.StatusBadRequest, "invalid_parameter", "client_id")
	})
	t.Run("refusals_change_nothing", func(t *testing.T) {
		a := parallelAPI(t)
		id := "/api/platform/clients/" + a.client.ID
		before := a.send("GET", "/api/platform/clients", "").Body.String()
		for body, at := range map[string][2]string{
			`{"name":""}`:                                 {"invalid_parameter", "name"},
			`{"name":"a\u202eb"}`:                         {"invalid_parameter", "name"},
			`{"redirect_uris":[]}`:                        {"invalid_parameter", "redirect_uris"},
			`{"redirect_uris":["http://app.example/cb"]}`: {"invalid_parameter", "redirect_uris"},
			`{"grants":["implicit"]}`:                     {"invalid_parameter", "grants"},
			`{"scopes":["events:write"]}`:                 {"invalid_scope", "scopes"},
			`{"add_redirect_uris":["nowhere"]}`:           {"invalid_parameter", "redirect_uris"},
			`{"remove_redirect_uris":["nowhere"]}`:        {"invalid_parameter", "remove_redirect_uris"},
			`{"redirect_uris":["https://a.example/"],"add_redirect_uris":["https://b.example/"]}`: {"invalid_parameter", "redirect_uris"},
			`{"nmae":"slip"}`:           {"unknown_field", "nmae"},
			`{"name":"a","name":"b"}`:   {"invalid_json", ""},
			`{"name":7}`:                {"invalid_parameter", "name"},
			`["name"]`:                  {"invalid_json", ""},
			`{"name":"a"} {"name":"b"}`: {"invalid_json", ""},
			`{"redirect_uris":[[]]}`:    {"invalid_parameter", "redirect_uris"},
			"{\"name\":\"\xff\"}":       {"invalid_json", ""},
		} {
			a.send("PATCH", id, body).fault(t, http.StatusBadRequest, at[0], at[1])
		}
		a.send("PATCH", id, `{"redirect_uris":[[[[]]]]}`).fault(t, http.StatusRequestEntityTooLarge, "too_large", "")
		a.send("POST", "/api/platform/clients", `{"name":"`+strings.Repeat("x", web.FormSizeMax)+`"}`).fault(t, http.StatusRequestEntityTooLarge, "too_large", "")
		if after := a.send("GET", "/api/platform/clients", "").Body.String(); after != before {
			t.Errorf("clients before %s\nafter %s", before, after)
		}
	})
	t.Run("redirect_uris_added_at_once_all_stay", func(t *testing.T) {
		a := parallelAPI(t)
		var all sync.WaitGroup
		for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
			all.Go(func() {
				if w := a.send("PATCH", "/api/platform/clients/"+a.client.ID, `{"add_redirect_uris":["https://app.example/`+n+`"]}`); w.Code != http.StatusOK {
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
			var page api.Page[admin.AdminClient]
			w := a.send("GET", "/api/platform/clients?limit=2"+after, "")
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.HasMore != (len(seen) < 3) {
				t.Fatalf("page after %q = %s, %v", after, w.Body, err)
			}
			for _, c := range page.Data {
				seen = append(seen, c.ClientID)
			}
			after = "&after=" + page.Next
		}
		if !slices.IsSorted(seen) || len(slices.Compact(seen)) != 5 {
			t.Errorf("walked %v, want five in order", seen)
		}
		for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "after=a&after=b", "after=", "name=a"} {
			if w := a.send("GET", "/api/platform/clients?"+query, ""); w.Code != http.StatusBadRequest {
				t.Errorf("%s = %d %s", query, w.Code, w.Body)
			}
		}
	})
}

const userMembers = "account created_at disabled has_password operator recovery_codes second_factor user_id username"

const nobody = "/api/platform/users/usr_00000000000000000000000000"

func TestAdminUsers(t *testing.T) {
	a := parallelAPI(t)
	made := a.send("POST", "/api/platform/users", `{"username":"Odile","account":"acct_larkspur","password":"`+storetest.Password+`"}`)
	odile := "/api/platform/users/" + made.text(t, "user_id")
	t.Run("members", func(t *testing.T) {
		if got := strings.Join(made.members(t), " "); made.Code != http.StatusCreated || got != userMembers {
			t.Errorf("create = %d with %s", made.Code, got)
		}
		w := a.send("GET", odile, "")
		if got := strings.Join(w.members(t), " "); got != userMembers || w.text(t, "username") != "Odile" {
			t.Errorf("show = %d with %s", w.Code, got)
		}
		if w := a.send("POST", "/api/platform/users", `{"username":"bob","password":"`+storetest.Password+`"}`); w.text(t, "account") != "default" {
			t.Errorf("account not named: %s", w.Body)
		}
	})
	t.Run("found_by_exact_name_in_any_spelling", func(t *testing.T) {
		for name, want := range map[string]int{"ODILE": 1, "+odile+": 1, "odil": 0, "moira": 0, "%00": 0} {
			var page api.Page[admin.AdminUser]
			w := a.send("GET", "/api/platform/users?username="+name, "")
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK || len(page.Data) != want {
				t.Errorf("%s = %d %s, want %d", name, w.Code, w.Body, want)
			}
		}
	})
	t.Run("listed_by_id", func(t *testing.T) {
		var ids []string
		for query, more := "?limit=1", true; more; {
			var page api.Page[admin.AdminUser]
			w := a.send("GET", "/api/platform/users"+query, "")
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Data) != 1 {
				t.Fatalf("%s = %d %s", query, w.Code, w.Body)
			}
			ids, query, more = append(ids, page.Data[0].UserID), "?limit=1&after="+page.Next, page.HasMore
		}
		if len(ids) != 2 || !slices.IsSorted(ids) {
			t.Errorf("walked %v, want both in order", ids)
		}
		a.send("GET", "/api/platform/users?after=odile", "").fault(t, http.StatusBadRequest, "invalid_parameter", "after")
	})
	t.Run("one_name_one_user", func(t *testing.T) {
		a.send("POST", "/api/platform/users", `{"username":"odile","password":"`+storetest.Password+`"}`).fault(t, http.StatusConflict, "exists", "")
	})
	t.Run("operator", func(t *testing.T) {
		for _, c := range []struct {
			name, method, path, body string
			want                     bool
		}{
			{"created_without_it", "GET", odile, "", false},
			{"promoted", "POST", odile + "/promote", "", true},
			{"shown", "GET", odile, "", true},
			{"changed_otherwise", "POST", odile + "/enable", "", true},
			{"demoted", "POST", odile + "/demote", "", false},
			{"created_with_it", "POST", "/api/platform/users", `{"username":"olga","operator":true,"password":"` + storetest.Password + `"}`, true},
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
		if w := b.send("POST", "/api/platform/users/"+b.UserID(t, "odile")+"/password", `{"password":"another long passphrase"}`); w.Code != http.StatusOK {
			t.Fatalf("password = %d %s", w.Code, w.Body)
		}
		if w := b.get("/api/events", token); w.Code != http.StatusUnauthorized {
			t.Errorf("events with the old token = %d, want 401", w.Code)
		}
	})
	t.Run("the_path_has_an_id_and_no_name", func(t *testing.T) {
		for _, name := range []string{"odile", "Odile", "%25zz", "%00", ".", ".."} {
			a.send("GET", "/api/platform/users/"+name, "").fault(t, http.StatusNotFound, "not_found", "")
			a.send("POST", "/api/platform/users/"+name+"/disable", "").fault(t, http.StatusNotFound, "not_found", "")
			a.send("DELETE", "/api/platform/users/"+name, "").fault(t, http.StatusNotFound, "not_found", "")
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for body, at := range map[string][2]string{
			`{"username":"eve","password":"short"}`:                                           {"invalid_parameter", "password"},
			`{"username":"eve smith","password":"` + storetest.Password + `"}`:                {"invalid_parameter", "username"},
			`{"username":"eve","account":"No Such","password":"` + storetest.Password + `"}`:  {"invalid_parameter", "account"},
			`{"username":"eve","passwrod":"` + storetest.Password + `"}`:                      {"unknown_field", "passwrod"},
			`{"username":"","password":"` + storetest.Password + `"}`:                         {"invalid_parameter", "username"},
			`{"username":"eve","password":"` + strings.Repeat("x", 1025) + `"}`:               {"invalid_parameter", "password"},
			`{"username":"` + strings.Repeat("e", 129) + `","password":"long enough, it is"}`: {"invalid_parameter", "username"},
			`{"username":"usr_00000000000000000000000000","password":"long enough, it is"}`:   {"invalid_parameter", "username"},
		} {
			w := a.send("POST", "/api/platform/users", body)
			w.fault(t, http.StatusBadRequest, at[0], at[1])
			if strings.Contains(w.Body.String(), storetest.Password) {
				t.Errorf("the answer repeats the password: %s", w.Body)
			}
		}
		for _, request := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/disable"}, {"POST", "/enable"}, {"POST", "/promote"}, {"POST", "/demote"}} {
			a.send(request[0], nobody+request[1], "").fault(t, http.StatusNotFound, "not_found", "")
		}
		a.send("POST", nobody+"/password", `{"password":"`+storetest.Password+`"}`).fault(t, http.StatusNotFound, "not_found", "")
	})
}

func TestAdminUserCodes(t *testing.T) {
	a := parallelAPI(t)
	made := a.send("POST", "/api/platform/users", `{"username":"nora","code":true}`)
	if got := strings.Join(made.members(t), " "); made.Code != http.StatusCreated || got != "account code code_expires_at created_at disabled expires_at has_password operator recovery_codes second_factor url user_id username" {
		t.Errorf("create by code = %d with %s", made.Code, got)
	}
	nora := "/api/platform/users/" + made.text(t, "user_id")
	again := a.send("POST", nora+"/code", "")
	if got := strings.Join(again.members(t), " "); again.Code != http.StatusOK || got != "code expires_at url user_id" || again.text(t, "code") == made.text(t, "code") {
		t.Errorf("a new code = %d with %s", again.Code, got)
	}
	a.send("POST", "/api/platform/users", `{"username":"olga","code":true,"password":"`+storetest.Password+`"}`).fault(t, http.StatusBadRequest, "invalid_parameter", "code")
	a.send("POST", nobody+"/code", "").fault(t, http.StatusNotFound, "not_found", "")
	a.send("POST", nora+"/disable", "")
	a.send("POST", nora+"/code", "").fault(t, http.StatusConflict, "conflict", "")
	if _, err := a.FindUser(t.Context(), "olga"); err == nil {
		t.Error("a refused user was created")
	}
}

func TestAdminAccounts(t *testing.T) {
	a := parallelAPI(t)
	const accounts = "/api/platform/accounts/"
	made := a.send("PUT", accounts+"acct_a", `{"name":"Larkspur Tea Room"}`)
	if got := strings.Join(made.members(t), " "); made.Code != http.StatusCreated || got != "account created_at disabled name" {
		t.Fatalf("create = %d with %s", made.Code, got)
	}
	for _, body := range []string{``, `{}`, `{"account":"acct_a"}`, `{"name":"Larkspur Tea Room"}`} {
		if again := a.send("PUT", accounts+"acct_a", body); again.Code != http.StatusOK || again.Body.String() != made.Body.String() {
			t.Errorf("PUT of %s again = %d %s, want the same account", body, again.Code, again.Body)
		}
	}
	if w := a.send("PUT", accounts+"acct_a", `{"name":"Larkspur"}`); w.Code != http.StatusOK || w.text(t, "name") != "Larkspur" {
		t.Errorf("renamed = %d %s", w.Code, w.Body)
	}
	a.admin("PUT", accounts+"acct_a", nil, "If-None-Match", "*").fault(t, http.StatusPreconditionFailed, "precondition_failed", "")
	a.send("PUT", accounts+"acct_a", `{"account":"acct_b"}`).fault(t, http.StatusConflict, "conflict", "account")
	a.send("PUT", accounts+"Acct", "").fault(t, http.StatusBadRequest, "invalid_parameter", "account")
	a.User(t, "bob", "acct_b")
	a.send("DELETE", accounts+"acct_b", "").fault(t, http.StatusConflict, "conflict", "")
	a.importLines(t, "acct_a", `{"type":"customer.created","resource":"cus_1","eventData":{"object":{}},"createdAt":1773066600}`)
	if w := a.send("DELETE", accounts+"acct_a", ""); w.Code != http.StatusNoContent {
		t.Errorf("delete = %d %s", w.Code, w.Body)
	}
	a.send("GET", accounts+"acct_a", "").fault(t, http.StatusNotFound, "not_found", "")
	a.send("DELETE", accounts+"acct_a", "").fault(t, http.StatusNotFound, "not_found", "")
	if w := a.send("GET", "/api/platform/accounts", ""); strings.Count(w.Body.String(), `"account":`) != 1 {
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
