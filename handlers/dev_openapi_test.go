package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// Every endpoint is described, its example works in the order of the list, and its
// answer is as described and ends with a newline.
//
// Promise (Testers, bad input): the guide has every member of seed lines and tokens; answers of the
// controls end with a newline; helpers without a binary name TOLLHOUSE_BIN
func TestDevDescription(t *testing.T) {
	t.Parallel()
	demo := &web.Demo{}
	h := newDevHouse(t, func(c *handlers.Config) { c.Demo = demo })
	h.dev.Seed = func(context.Context, [][]byte) ([]any, error) {
		return []any{map[string]any{"user": map[string]string{"username": "bob"}}}, nil // made in cli
	}
	demo.ClientID, demo.Username, demo.Account = h.client.ID, h.user.Username, h.account
	document := h.get(t, "/_dev/openapi.json").body
	described := handlers.NewDescribed(t, []byte(document))
	send := func(method, target, body string) answer {
		t.Helper()
		a := h.ask(t, method, target, body)
		path, _, _ := strings.Cut(target, "?")
		described.Check(t, method, path, a.StatusCode, a.Header, []byte(a.body))
		return a
	}
	var listed []string
	for _, e := range h.getList(t, "/_dev") {
		_, rest, _ := strings.Cut(e["curl"], " '"+publicURL)
		target, data, _ := strings.Cut(rest, "'")
		_, body, _ := strings.Cut(data, "-d '")
		if a := send(e["method"], target, strings.TrimSuffix(body, "'")); a.StatusCode >= 300 {
			t.Errorf("%s = %d %s, want its example to work", e["curl"], a.StatusCode, a.body)
		} else if a.body != "" && !strings.HasSuffix(a.body, "}\n") {
			t.Errorf("%s = %q, want a newline at the end, for terminals", e["curl"], a.body)
		}
		name := e["path"]
		for _, param := range []string{"name", "id"} {
			name = strings.Replace(name, ":"+param, "{"+param+"}", 1)
		}
		listed = append(listed, e["method"]+" "+name)
	}
	h.get(t, "/nowhere?a=1", header("X-A", "b"))
	h.token(t, h.passwordForm())
	send("GET", "/_dev/requests", "")
	send("POST", "/_dev/clock", `{"wrong":1}`)
	send("POST", "/_dev/restore", `{"name":"wrong"}`)
	send("POST", "/_dev/clock", `{"set":0,"running":true,"wrong":0}`)
	send("POST", "/_dev/faults", `{"match":{"client_id":"a","grant_type":"b","method":"POST"},"do":{"status":200,"body":["ok"],"headers":{"x":"y"},"retry_after":3,"delay":"1s"}}`)

	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(document), &api); err != nil {
		t.Fatal(err)
	}
	var operations []string
	for path, item := range api.Paths {
		for method := range item {
			operations = append(operations, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(listed)
	slices.Sort(operations)
	if !slices.Equal(listed, operations) {
		t.Errorf("listed are\n%s\nand described are\n%s", strings.Join(listed, "\n"), strings.Join(operations, "\n"))
	}
	if strings.Contains(h.get(t, "/openapi.json").body, "/_dev") {
		t.Error("the description of the product has the testers' controls")
	}
	if servers := object(t, h.get(t, "/_dev/openapi.json"), http.StatusOK)["servers"].([]any); servers[0].(map[string]any)["url"] != publicURL {
		t.Errorf("servers = %v, want %s", servers, publicURL)
	}
}

// The same rules apply to it as to the description of the product.
func TestDevDescriptionIsFitForGenerators(t *testing.T) {
	t.Parallel()
	handlers.NewDescribed(t, []byte(newDevHouse(t).get(t, "/_dev/openapi.json").body)).CheckFit(t)
}

// The document is made from the table of endpoints. What it says, and so what clients are
// generated from, changes only on purpose: the golden file has a line for each operation, schema
// and refusal.
//
//	go test ./handlers -run TestDevDescriptionGolden -update
//
// Promise (Testers, bad input): the description of the controls of dev is made from their table and
// loses nothing
func TestDevDescriptionGolden(t *testing.T) {
	t.Parallel()
	var all struct {
		OpenAPI              string
		Info, Security, Tags any
		Paths                map[string]any
		Components           map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(newDevHouse(t).get(t, "/_dev/openapi.json").body), &all); err != nil {
		t.Fatal(err)
	}
	document := all.Components
	document["paths"] = all.Paths
	document["document"] = map[string]any{"openapi": all.OpenAPI, "info": all.Info, "security": all.Security, "tags": all.Tags}
	var lines []string
	for section, of := range document {
		for name, what := range of {
			lines = append(lines, section+" "+name+" "+string(must.Get(json.Marshal(what))(t))+"\n")
		}
	}
	slices.Sort(lines)
	handlers.Golden(t, "dev_openapi.txt", strings.Join(lines, ""))
}
