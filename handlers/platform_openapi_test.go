package handlers_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// Every call is described, and its answers are as described.
//
// Promise (Platform §1): /api/platform/openapi.json is made from the table of calls, describes every
// answer that they give, and needs a platform token; /openapi.json has none of them
func TestPlatformDescription(t *testing.T) {
	h := parallelHouse(t)
	must.Do(t, h.Events.SetFeed(t.Context(), time.Hour))
	p, access := managesAll(t, h)
	a := h.call(t, access, "GET", "/api/platform/openapi.json", "")
	if a.body != string(admin.PlatformOpenAPI(publicURL, "test"))+"\n" {
		t.Errorf("openapi.json = %d %.300s", a.StatusCode, a.body)
	}
	wantError(t, h.get(t, "/api/platform/openapi.json"), http.StatusUnauthorized, "unauthorized")
	wantError(t, h.call(t, h.pair(t).AccessToken, "GET", "/api/platform/openapi.json", ""), http.StatusForbidden, "insufficient_scope")
	if strings.Contains(h.get(t, "/openapi.json").body, web.PlatformPath) {
		t.Error("the description of the product has the calls of platforms")
	}
	described := handlers.NewDescribed(t, []byte(a.body))
	var operations []string
	for name := range described.Names() {
		operations = append(operations, name)
	}
	for _, route := range admin.PlatformRoutes() {
		method, path, _ := strings.Cut(route, " ")
		segments := strings.Split(path, "/")
		for i, s := range segments {
			if name, is := strings.CutPrefix(s, ":"); is {
				segments[i] = "{" + name + "}"
			}
		}
		if name := method + " " + web.PlatformPath + strings.Join(segments, "/"); !slices.Contains(operations, name) {
			t.Errorf("%s is not described", name)
		}
	}
	if len(operations) != len(admin.PlatformRoutes()) {
		t.Errorf("%d calls are described, and there are %d", len(operations), len(admin.PlatformRoutes()))
	}
	send := func(token, method, target, body string, change ...func(*http.Request)) answer {
		t.Helper()
		a := h.call(t, token, method, web.PlatformPath+target, body, change...)
		path, _, _ := strings.Cut(target, "?")
		described.Check(t, method, web.PlatformPath+path, a.StatusCode, a.Header, []byte(a.body))
		return a
	}
	none := newPlatform(t, h, "events:read").access(t)
	h.signedIn(t, h.user) // for last_sign_in
	for i, row := range platformScopes {
		method, path, _ := strings.Cut(row.call, " ")
		if path == "/events" {
			path += "?after=start"
		}
		on := newTargets(t, h, i+1)
		if row.call == "DELETE /accounts/:account" {
			on.account = "acct_empty"
			must.Get(h.CreateAccount(t.Context(), on.account, ""))(t)
		}
		body := strings.NewReplacer("NEW", "new"+on.account, "ACCOUNT", on.account).Replace(row.body)
		if a := send(access, method, on.in(path), body); a.StatusCode >= 300 {
			t.Errorf("%s = %d %s", row.call, a.StatusCode, a.body)
		}
		send("wrong", method, on.in(path), body)
		send(none, method, on.in(path), body)
		send(access, method, on.in(path), body, actingFor("acct_x"))
		send(access, method, on.in(path), body, header("Origin", "https://evil.example"))
		send(access, method, on.in(path), body, header("Accept", "text/csv"))
		if strings.Contains(path, ":") && method != "GET" {
			send(access, method, newTargets(t, h, 1000+i).in(path), body, header("If-Match", `"none"`))
			send(access, method, platformTargets{"acct_none", "usr_00000000000000000000000000", "", "none", "fam_00000000000000000000000000"}.in(path), body)
		}
	}
	send(access, "PUT", "/accounts/acct_new", `{"name":"Aster"}`)
	send(access, "PUT", "/clients/own", `{"name":"C","redirect_uris":["https://app.example/cb"]}`)
	send(access, "POST", "/users", `{"username":"mara","account":"`+h.account+`"}`)
	send(access, "POST", "/users", `{"username":"nobody","account":"acct_none"}`)
	send(access, "POST", "/users", `{"username":"moved","account":"`+h.account+`","password":"correct horse battery"}`)
	send(access, "POST", "/clients/"+p.client.ID+"/disable", "")
	send(access, "GET", "/audit?after=latest", "")
	send(access, "GET", "/audit?after=evt_7zzzzzzzzzzzzzzzzzzzzzzzzz", "") // ahead of the clock
	send(access, "GET", "/users?username=mara", "")
}

// The same rules apply to it as to the description of the product.
func TestPlatformDescriptionIsFitForGenerators(t *testing.T) {
	t.Parallel()
	handlers.NewDescribed(t, admin.PlatformOpenAPI(publicURL, "test")).CheckFit(t)
}

// What clients are generated from changes only on purpose: the golden file has a line for each
// operation and its id, schema and refusal.
//
//	go test ./handlers -run TestPlatformDescriptionGolden -update
func TestPlatformDescriptionGolden(t *testing.T) {
	t.Parallel()
	var all struct {
		Info, Tags any
		Paths      map[string]any
		Components map[string]map[string]any
	}
	must.Do(t, json.Unmarshal(admin.PlatformOpenAPI(publicURL, "test"), &all))
	document := all.Components
	document["paths"] = all.Paths
	document["document"] = map[string]any{"info": all.Info, "tags": all.Tags}
	var lines []string
	for section, of := range document {
		for name, what := range of {
			lines = append(lines, section+" "+name+" "+string(must.Get(json.Marshal(what))(t))+"\n")
		}
	}
	slices.Sort(lines)
	handlers.Golden(t, "platform_openapi.txt", strings.Join(lines, ""))
}
