package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers"
)

// Every endpoint is described, its example works in the order of the list, and its
// answer is as described.
func TestDevDescription(t *testing.T) {
	t.Parallel()
	demo := &handlers.Demo{}
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

// Generators of clients need a type in every schema, an example for every body, and
// names that differ in more than case and punctuation.
func TestDevDescriptionIsFitForGenerators(t *testing.T) {
	t.Parallel()
	var document map[string]any
	if err := json.Unmarshal([]byte(newDevHouse(t).get(t, "/_dev/openapi.json").body), &document); err != nil {
		t.Fatal(err)
	}
	described := handlers.NewDescribed(t, []byte(newDevHouse(t).get(t, "/_dev/openapi.json").body))
	ids := map[string]bool{}
	var walk func(at []string, v any)
	walk = func(at []string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			list, _ := v.([]any)
			for _, item := range list {
				walk(append(slices.Clone(at), "[]"), item)
			}
			return
		}
		last := at[max(len(at)-1, 0):]
		place := strings.Join(at, " ")
		isSchema := slices.Equal(last, []string{"schema"}) || slices.Equal(last, []string{"items"}) || len(at) > 1 && (at[len(at)-2] == "properties" || at[len(at)-2] == "schemas")
		if isSchema && object["type"] == nil && object["$ref"] == nil {
			t.Errorf("the schema at %s has no type", place)
		}
		if len(at) > 1 && at[len(at)-2] == "content" {
			example, err := json.Marshal(object["example"])
			if object["example"] == nil || err != nil {
				t.Errorf("the body at %s has no example", place)
			} else {
				described.Validate(t, append(slices.Clone(at), "schema"), example)
			}
		}
		if object["in"] == "query" || object["in"] == "path" {
			if object["example"] == nil {
				t.Errorf("the parameter at %s has no example", place)
			}
		}
		if id, ok := object["operationId"].(string); ok {
			if ids[strings.ToLower(id)] {
				t.Errorf("two operations are called %s", id)
			}
			ids[strings.ToLower(id)] = true
		}
		seen := map[string]bool{}
		for name, member := range object {
			plain := strings.Map(func(c rune) rune {
				if c == '_' || c == '-' {
					return -1
				}
				return c
			}, strings.ToLower(name))
			if slices.Equal(last, []string{"schemas"}) || slices.Equal(last, []string{"properties"}) {
				if seen[plain] {
					t.Errorf("two names at %s are alike: %s", place, name)
				}
				seen[plain] = true
			}
			if name != "example" {
				walk(append(slices.Clone(at), name), member)
			}
		}
	}
	walk(nil, document)
	if len(ids) < 15 {
		t.Errorf("%d operations, want all", len(ids))
	}
}
