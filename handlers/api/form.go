package api

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/web"
)

// A description that is made from a table of calls says what these take and send by forms,
// which are next to the handlers.

// Object is an object of a description.
type Object = map[string]any

// Form is what a body has, as a schema.
type Form struct {
	Name, Does string
	Kind       string // "object" when empty; see [KindSchema]
	Closed     bool   // no other members are taken
	Example    string // JSON
	Members    []FormMember
}

// FormMember is a member of a form: its name, its kind with an exclamation mark if it is always
// there, what it is, and further members of its schema in JSON.
type FormMember [4]string

// FormParam is a parameter of a query: its name, its kind, what it is, an example in JSON, and
// further members of its schema in JSON.
type FormParam [5]string

// KindSchema is the schema of a kind: a type of JSON or several between bars, a list after [],
// or the name of a form.
func KindSchema(kind, does, more string) Object {
	schema := Object{}
	if err := json.Unmarshal([]byte("{"+more+"}"), &schema); err != nil {
		panic("api: a schema of a description is not JSON: " + more)
	}
	if does != "" {
		schema["description"] = does
	}
	item, isList := strings.CutPrefix(kind, "[]")
	switch {
	case isList:
		schema["type"], schema["items"] = "array", KindSchema(item, "", "")
	case kind[0] <= 'Z':
		schema["$ref"] = "#/components/schemas/" + kind
	case strings.Contains(kind, "|"):
		schema["type"] = strings.Split(kind, "|")
	default:
		schema["type"] = kind
	}
	return schema
}

// Schema is the schema of the form.
func (f Form) Schema() Object {
	kind := f.Kind
	if kind == "" {
		kind = "object"
	}
	schema := KindSchema(kind, f.Does, "")
	if f.Closed {
		schema["additionalProperties"] = false
	}
	members, always := Object{}, []string{}
	for _, m := range f.Members {
		kind, isAlways := strings.CutSuffix(m[1], "!")
		members[m[0]] = KindSchema(kind, m[2], m[3])
		if isAlways {
			always = append(always, m[0])
		}
	}
	if len(members) > 0 {
		schema["properties"] = members
	}
	if len(always) > 0 {
		schema["required"] = always
	}
	return schema
}

// InPath describes a parameter of a path.
func InPath(name, does, example string) Object {
	return Object{"name": name, "in": "path", "required": true, "description": does, "schema": KindSchema("string", "", ""), "example": example}
}

// Described describes a parameter of a query.
func (p FormParam) Described() Object {
	return Object{"name": p[0], "in": "query", "description": p[2], "schema": KindSchema(p[1], "", p[4]), "example": json.RawMessage(p[3])}
}

// WithHeaders adds the headers that an answer has to its description.
func WithHeaders(answer Object, names ...string) Object {
	headers := Object{}
	for _, name := range append([]string{"X-Request-Id"}, names...) {
		headers[name] = Object{"$ref": "#/components/headers/" + name}
	}
	answer["headers"] = headers
	return answer
}

// JSONContent is a body of a form.
func JSONContent(form, example string) Object {
	return Object{web.AsJSON: Object{"schema": KindSchema(form, "", ""), "example": json.RawMessage(example)}}
}

// Refusal is an answer that refuses: its status, its name in the description, and an error
// code as an example.
type Refusal struct {
	Status           int
	Name, Code, Does string
	Headers          []string
}

// AddRefusals adds the answers with these statuses to those of an operation.
func AddRefusals(answers Object, of []Refusal, statuses []int) {
	for _, r := range of {
		if slices.Contains(statuses, r.Status) {
			answers[strconv.Itoa(r.Status)] = Object{"$ref": "#/components/responses/" + r.Name}
		}
	}
}

// Refusals describes answers that refuse, with the form Error.
func Refusals(of []Refusal) Object {
	refusals := Object{}
	for _, r := range of {
		example := Object{"error": r.Code, "error_description": r.Does}
		refusals[r.Name] = WithHeaders(Object{"description": r.Does, "content": Object{web.AsJSON: Object{"schema": KindSchema("Error", "", ""), "example": example}}}, r.Headers...)
	}
	return refusals
}
