package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

var closed Rules

// compiled is the schema of a kind, compiled by a validator of JSON Schema with formats.
// An invalid schema fails the test.
func compiled(t testing.TB, kind string) *jsonschema.Schema {
	t.Helper()
	document := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(closed.Schema(kind).String())))(t)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	must.Do(t, c.AddResource("kind.json", document))
	schema, err := c.Compile("kind.json")
	if err != nil {
		t.Fatalf("Schema(%q): %v", kind, err)
	}
	return schema
}

func isValid(t fataler, schema *jsonschema.Schema, v Value) error {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(v.String()))
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return schema.Validate(document)
}

var (
	drawnField  = rapid.SampledFrom([]string{"displayName", "email", "dateAdded", "active", "amount", "last4", "lines", "metadata", "isDefault", "unknown"})
	drawnForms  = rapid.SampledFrom([]string{"", "x", "a@b", "a @b", "@", "a@b\n", "2026-03-09", "2026-02-30", "2026-3-9", "1", "12", "1234", "12345", "148.50", "-1", "1.", ".5", "1e3", "١"})
	drawnAmount = rapid.SampledFrom([]string{"0", "-0.5", "148.50", "999999999999999", "1000000000000000", "-1000000000000000"})
)

// drawMetadata draws an object around the bounds of metadata.
func drawMetadata(t *rapid.T) Value {
	names := rapid.SampledFrom([]string{"", "order", "a b", "a[0]", "x]", "a\tb", "a\u0085b", strings.Repeat("é", 40), strings.Repeat("é", 41)})
	texts := rapid.SampledFrom([]string{"", "7", strings.Repeat("é", 500), strings.Repeat("é", 501)})
	value := Text(texts.Draw(t, "text"))
	switch rapid.IntRange(0, 9).Draw(t, "other kind") {
	case 0:
		value = Value{kind: Number, text: "7"}
	case 1:
		value = ObjectOf(Member{"x", Text("y")})
	}
	members := []Member{{names.Draw(t, "name"), value}}
	for n := rapid.SampledFrom([]int{0, 49, 50}).Draw(t, "others"); n > 0; n-- {
		members = append(members, Member{fmt.Sprint("other", n), Text("")})
	}
	return ObjectOf(members...)
}

func drawFieldValue(t *rapid.T) Value {
	switch rapid.IntRange(0, 6).Draw(t, "sort") {
	case 4:
		return drawMetadata(t)
	case 0:
		return Value{kind: Number, text: drawnAmount.Draw(t, "number")}
	case 1:
		return Value{kind: Array, elements: []Value{Text("x")}}
	case 2:
		return ObjectOf(Member{"x", Text("y")})
	case 3:
		return Value{kind: Bool, text: "true"}
	}
	return Text(drawnForms.Draw(t, "text"))
}

// A body is accepted exactly if it matches the published schema.
//
// Promise (§3.4, §3.5): each kind has a schema
func TestSchemaTellsWhatCheckTakes(t *testing.T) {
	t.Parallel()
	for _, kind := range append(Kinds(), "plan") {
		schema := compiled(t, kind)
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				name, value := drawnField.Draw(t, "field"), drawFieldValue(t)
				body := ObjectOf(Member{"id", Text("x")}, Member{"object", Text(kind)}, Member{name, value})
				refused, invalid := closed.Check(kind, "x", body), isValid(t, schema, body)
				if (refused == nil) != (invalid == nil) {
					t.Fatalf("%s: Check says %v, and the schema %v", body, refused, invalid)
				}
			})
		})
	}
	t.Run("no_snapshot_without_id_and_kind", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{`{}`, `{"id":"x"}`, `{"object":"customer"}`, `{"id":"x","object":"plan"}`, `{"id":"a.b","object":"customer"}`, `[]`} {
			if isValid(t, compiled(t, "customer"), mustParse(t, text)) == nil {
				t.Errorf("the schema of customer takes %s", text)
			}
		}
	})
}

// Complete turns a body into a snapshot that matches the schema.
//
// Promise (§3.4, §3.5): each kind has a schema
func TestCompleteMakesWhatTheSchemaTells(t *testing.T) {
	t.Parallel()
	for _, kind := range append(Kinds(), "plan") {
		made := closed.Complete(kind, "x", mustParse(t, `{}`), ObjectOf(), "2026-03-09")
		if err := isValid(t, compiled(t, kind), made); err != nil {
			t.Errorf("%s: %v", made, err)
		}
	}
}
