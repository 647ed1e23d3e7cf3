package handlers

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tollhouse/store/storetest/must"
)

// CheckFit holds a description to what generators of clients need: a type in every schema,
// an example for every parameter and body, and names that differ in more than case and
// punctuation.
func (d *Described) CheckFit(t *testing.T) {
	t.Run("openapi_names_differ_in_letters_and_digits", func(t *testing.T) {
		t.Parallel()
		var components []string
		for section := range d.object("components") {
			components = append(components, keysOf(d.object("components", section))...)
		}
		checkDistinct(t, "components", components)
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
	t.Run("openapi_every_schema_says_its_type", func(t *testing.T) {
		t.Parallel()
		for place, schema := range d.everySchema() {
			if schema["$ref"] == nil && schema["type"] == nil {
				t.Errorf("%s says no type: %v", place, schema)
			}
			if _, ok := schema["const"]; ok {
				t.Errorf("%s is a const, which generators name by its value", place)
			}
			values, names := listOf(schema["enum"]), listOf(schema["x-enum-varnames"])
			if len(values) != 1 || len(names) == 1 {
				continue
			}
			if _, isText := values[0].(string); isText {
				t.Errorf("%s is %v and has no name for programs", place, values)
			}
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
	t.Run("openapi_operations_have_ids_of_their_own", func(t *testing.T) {
		t.Parallel()
		var ids []string
		for o := range d.operations() {
			id, _ := o.described["operationId"].(string)
			if ids = append(ids, id); id == "" {
				t.Errorf("%s %s has no operationId", o.method, o.template)
			}
		}
		checkDistinct(t, "operationId", ids)
	})
	t.Run("openapi_is_read_whole", func(t *testing.T) {
		t.Parallel()
		schemas, operations := 0, 0
		for range d.everySchema() {
			schemas++
		}
		for range d.operations() {
			operations++
		}
		if operations < 15 || schemas < 5*operations {
			t.Errorf("only %d schemas of %d operations were found", schemas, operations)
		}
	})
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
