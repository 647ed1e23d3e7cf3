package handlers

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tollhouse/store/storetest/must"
)

// TestOpenAPIRules holds the description to what generators of clients need. The
// tests of the binary run the generators.
func TestOpenAPIRules(t *testing.T) {
	t.Parallel()
	d := NewDescribed(t, OpenAPI("https://pay.example", "test"))
	t.Run("openapi_pages_are_no_paths", func(t *testing.T) {
		t.Parallel()
		pages := 0
		for o := range d.operations() {
			isPage := slices.Contains(o.described["tags"].([]any), any("Pages")) || o.template == "/oauth/v2/auth"
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
	t.Run("openapi_names_differ_in_letters_and_digits", func(t *testing.T) {
		t.Parallel()
		var components []string
		for section := range d.object("components") {
			components = append(components, keysOf(d.object("components", section))...)
		}
		checkDistinct(t, "components", components)
		if schemas := keysOf(d.object("components", "schemas")); slices.Contains(schemas, "Client") {
			t.Error("a schema has the name of what oapi-codegen generates: Client")
		}
		for place, schema := range d.everySchema() {
			if properties, ok := schema["properties"].(map[string]any); ok {
				checkDistinct(t, place, keysOf(properties))
			}
		}
		for o := range d.operations() {
			var names []string
			for _, parameter := range d.parametersOf(o) {
				names = append(names, parameter["name"].(string))
			}
			checkDistinct(t, o.method+" "+o.template, names)
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
	t.Run("openapi_every_schema_says_its_type", func(t *testing.T) {
		t.Parallel()
		schemas := 0
		for place, schema := range d.everySchema() {
			schemas++
			if schema["$ref"] == nil && schema["type"] == nil {
				t.Errorf("%s says no type: %v", place, schema)
			}
			if _, ok := schema["const"]; ok {
				t.Errorf("%s is a const, which generators name by its value", place)
			}
			values, names := listOf(schema["enum"]), listOf(schema["x-enum-varnames"])
			if len(values) == 1 && len(names) != 1 {
				t.Errorf("%s is %v and has no name for programs", place, values)
			}
		}
		if schemas < 200 {
			t.Errorf("only %d schemas were found", schemas)
		}
	})
	t.Run("openapi_everything_has_an_example", func(t *testing.T) {
		t.Parallel()
		for o := range d.operations() {
			for _, parameter := range d.parametersOf(o) {
				if parameter["example"] == nil {
					t.Errorf("%s %s: the parameter %s has no example", o.method, o.template, parameter["name"])
				}
			}
			if o.section != "paths" {
				continue
			}
			if body, ok := o.described["requestBody"].(map[string]any); ok {
				d.checkExamples(t, []string{"paths", o.template, strings.ToLower(o.method), "requestBody"}, body)
			}
			for status, answer := range o.described["responses"].(map[string]any) {
				if strings.HasPrefix(status, "2") && status != "204" {
					d.checkExamples(t, []string{"paths", o.template, strings.ToLower(o.method), "responses", status}, answer.(map[string]any))
				}
			}
		}
	})
	t.Run("openapi_operation_ids_are_a_contract", func(t *testing.T) {
		t.Parallel()
		var ids []string
		names := map[string]bool{}
		for o := range d.operations() {
			id, _ := o.described["operationId"].(string)
			if id == "" || names[id] {
				t.Errorf("%s %s has the operationId %q", o.method, o.template, id)
			}
			names[id] = true
			ids = append(ids, o.method+" "+o.template+" "+id)
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

// checkDistinct fails the test when two names are the same to a generator.
func checkDistinct(t *testing.T, where string, names []string) {
	t.Helper()
	seen := map[string]string{}
	for _, name := range names {
		letters := strings.Map(func(r rune) rune {
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				return -1
			}
			return unicode.ToLower(r)
		}, name)
		if other, ok := seen[letters]; ok {
			t.Errorf("%s: %s and %s are the same to a generator", where, name, other)
		}
		seen[letters] = name
	}
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// parametersOf returns the parameters of an operation and of its path.
func (d *Described) parametersOf(o operation) (parameters []map[string]any) {
	item := d.object(o.section, o.template)
	for _, described := range append(listOf(item["parameters"]), listOf(o.described["parameters"])...) {
		parameter := described.(map[string]any)
		if ref, ok := parameter["$ref"].(string); ok {
			parameter = d.object(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		parameters = append(parameters, parameter)
	}
	return parameters
}

// checkExamples fails the test unless each media type has an example, which its
// schema must take.
func (d *Described) checkExamples(t *testing.T, at []string, described map[string]any) {
	t.Helper()
	for mediaType, media := range described["content"].(map[string]any) {
		value, ok := media.(map[string]any)["example"]
		if !ok {
			t.Errorf("%s: %s has no example", strings.Join(at, " "), mediaType)
			continue
		}
		schema := must.Get(d.schema(append(slices.Clone(at), "content", mediaType, "schema")))(t)
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: the example is not as described: %v", strings.Join(at, " "), err)
		}
	}
}

// everySchema returns each schema of the document by its place.
func (d *Described) everySchema() iter.Seq2[string, map[string]any] {
	return func(yield func(string, map[string]any) bool) { eachSchema("", d.document, false, yield) }
}

// eachSchema passes on the schemas below v, of which the members of isMap are
// names.
func eachSchema(place string, v any, isSchema bool, yield func(string, map[string]any) bool) bool {
	object, ok := v.(map[string]any)
	if !ok {
		for _, element := range listOf(v) {
			if !eachSchema(place, element, isSchema, yield) {
				return false
			}
		}
		return true
	}
	if isSchema && !yield(place, object) {
		return false
	}
	for name, inner := range object {
		below := place + "/" + name
		switch name {
		case "example", "enum", "required":
			continue
		case "schemas", "properties":
			named, _ := inner.(map[string]any)
			for member, schema := range named {
				if !eachSchema(below+"/"+member, schema, true, yield) {
					return false
				}
			}
			continue
		}
		isBelow := slices.Contains([]string{"schema", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}, name)
		if !eachSchema(below, inner, isBelow, yield) {
			return false
		}
	}
	return true
}
