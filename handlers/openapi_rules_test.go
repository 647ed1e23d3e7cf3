package handlers

import (
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers/api"
)

// TestOpenAPIRules holds the description to what generators of clients need. The
// tests of the binary run the generators.
func TestOpenAPIRules(t *testing.T) {
	t.Parallel()
	d := NewDescribed(t, api.OpenAPI("https://pay.example", "test"))
	d.CheckFit(t)
	if schemas := keysOf(d.object("components", "schemas")); slices.Contains(schemas, "Client") {
		t.Error("a schema has the name of what oapi-codegen generates: Client")
	}
	t.Run("openapi_pages_are_no_paths", func(t *testing.T) {
		t.Parallel()
		pages := 0
		for o := range d.operations() {
			tags := o.described["tags"].([]any)
			isPage := slices.Contains(tags, any("Pages")) || slices.Contains(tags, any("Factor")) || o.template == "/oauth/v2/auth"
			if isPage != (o.section == pagePaths) {
				t.Errorf("%s %s is in %s", o.method, o.template, o.section)
			}
			if isPage {
				pages++
			}
		}
		if pages < 10 {
			t.Errorf("only %d pages were found", pages)
		}
	})
	t.Run("openapi_answers_have_one_media_type", func(t *testing.T) {
		t.Parallel()
		for name := range d.object("components", "responses") {
			checkMediaTypes(t, name, d.object("components", "responses", name))
		}
		for o := range d.operations() {
			for status, answer := range o.described["responses"].(map[string]any) {
				if o.section == "paths" {
					checkMediaTypes(t, o.method+" "+o.template+" "+status, answer.(map[string]any))
				}
			}
		}
	})
	t.Run("openapi_other_media_types_are_named", func(t *testing.T) {
		t.Parallel()
		events := d.object("paths", "/api/events", "get", "responses", "200")
		for _, mediaType := range []string{"application/x-ndjson", "text/event-stream"} {
			if events[alsoAnswers].(map[string]any)[mediaType] == nil || !strings.Contains(events["description"].(string), mediaType) {
				t.Errorf("the list of events does not tell of %s", mediaType)
			}
		}
		for _, path := range []string{"/oauth/v2/token", "/oauth/v2/revoke", "/oauth/v2/introspect"} {
			body := d.object("paths", path, "post", "requestBody")
			content := keysOf(body["content"].(map[string]any))
			slices.Sort(content)
			if !slices.Equal(content, []string{"application/json", "application/x-www-form-urlencoded"}) {
				t.Errorf("%s takes %v", path, content)
			}
			if body[alsoAnswers].(map[string]any)["multipart/form-data"] == nil || !strings.Contains(body["description"].(string), "multipart/form-data") {
				t.Errorf("%s does not tell of multipart/form-data", path)
			}
		}
	})
	t.Run("openapi_filters_are_lists", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"typeFilter", "resourceFilter"} {
			p := d.object("components", "parameters", name)
			if p["style"] != "form" || p["explode"] != true || p["schema"].(map[string]any)["type"] != "array" {
				t.Errorf("%s = %v", name, p)
			}
		}
	})
	t.Run("openapi_operation_ids_are_a_contract", func(t *testing.T) {
		t.Parallel()
		var ids []string
		for o := range d.operations() {
			ids = append(ids, o.method+" "+o.template+" "+o.described["operationId"].(string))
		}
		slices.Sort(ids)
		golden(t, "openapi_operations.txt", strings.Join(ids, "\n")+"\n")
	})
}

// checkMediaTypes fails the test unless an answer of machines is JSON.
func checkMediaTypes(t *testing.T, name string, answer map[string]any) {
	t.Helper()
	content, _ := answer["content"].(map[string]any)
	if types := keysOf(content); len(types) > 0 && !slices.Equal(types, []string{"application/json"}) {
		t.Errorf("%s has %v", name, types)
	}
}
