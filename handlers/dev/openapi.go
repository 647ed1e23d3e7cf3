package dev

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/web"
)

// The description of the testers' controls is made from the table of their endpoints and
// from the forms of what they take and send, which stand in the files of the endpoints.
// /openapi.json leaves the controls out: they do not belong into clients that are generated
// for the product.

// devForm is what a body has, as a schema.
type devForm struct {
	name, does string
	kind       string // "object" when empty; see [devSchema]
	closed     bool   // no other members are taken
	example    string // JSON
	members    []devMember
}

type devMember struct {
	name, kind, does string
	always           bool
	more             string // further members of its schema, in JSON
}

// devParam is a parameter of a query.
type devParam struct{ name, kind, does, example, more string }

// devAnswer is an answer that is no refusal.
type devAnswer struct {
	status     int
	does, form string
}

// devTags are the groups of endpoints.
var devTags = []any{
	devObject{"name": "Instance", "description": "Reset, snapshots and state."},
	devObject{"name": "Clock", "description": "The instance's time."},
	devObject{"name": "Faults", "description": "Answers that fail on purpose."},
	devObject{"name": "Requests", "description": "The journal of requests."},
	devObject{"name": "Making", "description": "Tokens, events and seed lines made now."},
}

// devRefusals are the answers that refuse, by status.
var devRefusals = []struct {
	status           int
	name, code, does string
}{
	{400, "BadRequest", "invalid_request", "The request is not valid; param names the member or parameter."},
	{403, "Forbidden", "forbidden", "A page of another origin sent the request."},
	{404, "NotFound", "not_found", "It does not exist."},
	{409, "Conflict", "conflict", "The state of the instance forbids it."},
	{413, "TooLarge", "too_large", "The body is too large."},
	{415, "UnsupportedMediaType", "unsupported_media_type", "The body is not JSON."},
	{421, "Misdirected", "misdirected_request", "The Host header names another host."},
}

var devForms = []devForm{
	{name: "Error", does: "The form of every error.", members: []devMember{
		{"error", "string", "A code for programs.", true, ""},
		{"error_description", "string", "One sentence for people.", true, ""},
		{"param", "string", "The member or parameter at fault, such as match.path.", false, ""},
		{"hint", "string", "How to fix it.", false, ""},
	}},
	{name: "EndpointList", does: "All endpoints.", example: `{"endpoints":[{"method":"GET","path":"/_dev/clock","does":"shows the clock","curl":"curl -sS 'http://127.0.0.1:8655/_dev/clock'"}]}`, members: []devMember{
		{"endpoints", "[]Endpoint", "In an order in which all their examples work.", true, ""},
	}},
	{name: "Document", does: "This document.", example: `{"openapi":"3.1.0"}`},
	{name: "Endpoint", does: "An endpoint.", members: []devMember{
		{"method", "string", "Its method.", true, ""},
		{"path", "string", "Its path.", true, ""},
		{"does", "string", "What it does.", true, ""},
		{"curl", "string", "A command line that calls it.", true, ""},
	}},
}

// devObject is an object of the document.
type devObject map[string]any

// devSchema is the schema of a kind: a type of JSON or several between bars, a list after [],
// or the name of a form.
func devSchema(kind, does, more string) devObject {
	schema := devObject{}
	if err := json.Unmarshal([]byte("{"+more+"}"), &schema); err != nil {
		panic("dev: a schema of the controls is not JSON: " + more)
	}
	if does != "" {
		schema["description"] = does
	}
	item, isList := strings.CutPrefix(kind, "[]")
	switch {
	case isList:
		schema["type"], schema["items"] = "array", devSchema(item, "", "")
	case kind[0] <= 'Z':
		schema["$ref"] = "#/components/schemas/" + kind
	case strings.Contains(kind, "|"):
		schema["type"] = strings.Split(kind, "|")
	default:
		schema["type"] = kind
	}
	return schema
}

func (f devForm) schema() devObject {
	kind := f.kind
	if kind == "" {
		kind = "object"
	}
	schema := devSchema(kind, f.does, "")
	if f.closed {
		schema["additionalProperties"] = false
	}
	members, always := devObject{}, []string{}
	for _, m := range f.members {
		members[m.name] = devSchema(m.kind, m.does, m.more)
		if m.always {
			always = append(always, m.name)
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

func withRequestID(answer devObject) devObject {
	answer["headers"] = devObject{"X-Request-Id": devObject{"$ref": "#/components/headers/X-Request-Id"}}
	return answer
}

func jsonContent(form, example string) devObject {
	return devObject{web.AsJSON: devObject{"schema": devSchema(form, "", ""), "example": json.RawMessage(example)}}
}

// operation describes the endpoint.
func (e devEndpoint) operation(examples map[string]string) devObject {
	answers := devObject{}
	for _, a := range e.answers {
		answers[strconv.Itoa(a.status)] = withRequestID(devObject{"description": a.does, "content": jsonContent(a.form, examples[a.form])})
	}
	if e.answers == nil {
		answers["204"] = withRequestID(devObject{"description": "Done."})
	}
	refuses := append([]int{400, 403, 421}, e.refuses...)
	o := devObject{"operationId": e.id, "tags": []string{e.tag}, "summary": strings.ToUpper(e.does[:1]) + e.does[1:], "responses": answers}
	if e.takes != "" {
		refuses = append(refuses, 413, 415)
		o["requestBody"] = devObject{"required": e.needsBody, "content": jsonContent(e.takes, e.body)}
	}
	for _, r := range devRefusals {
		for _, status := range refuses {
			if status == r.status {
				answers[strconv.Itoa(status)] = devObject{"$ref": "#/components/responses/" + r.name}
			}
		}
	}
	var params []devObject
	if _, name, ok := strings.Cut(e.path, ":"); ok {
		params = append(params, devObject{"name": name, "in": "path", "required": true, "description": "Its " + name + ".",
			"schema": devSchema("string", "", ""), "example": path.Base(e.example)})
	}
	for _, p := range e.query {
		params = append(params, devObject{"name": p.name, "in": "query", "description": p.does, "schema": devSchema(p.kind, "", p.more), "example": json.RawMessage(p.example)})
	}
	if params != nil {
		o["parameters"] = params
	}
	return o
}

// describeDev returns the description of the controls at the URL.
func (s *Server) describeDev(url string, endpoints []devEndpoint) []byte {
	schemas, examples := devObject{}, map[string]string{}
	for _, f := range slices.Concat(devForms, devClockForms, devControlForms, devFaultForms, devJournalForms, devMakeForms) {
		schemas[f.name], examples[f.name] = f.schema(), f.example
	}
	refusals := devObject{}
	for _, r := range devRefusals {
		refusals[r.name] = withRequestID(devObject{"description": r.does, "content": devObject{web.AsJSON: devObject{
			"schema": devSchema("Error", "", ""), "example": devObject{"error": r.code, "error_description": r.does},
		}}})
	}
	paths := map[string]devObject{}
	for _, e := range endpoints {
		at := web.DevPath + e.path
		if before, name, ok := strings.Cut(at, ":"); ok {
			at = before + "{" + name + "}"
		}
		if paths[at] == nil {
			paths[at] = devObject{}
		}
		paths[at][strings.ToLower(e.method)] = e.operation(examples)
	}
	return web.EncodeJSON(struct {
		OpenAPI    string    `json:"openapi"`
		Info       devObject `json:"info"`
		Servers    []any     `json:"servers"`
		Security   []any     `json:"security"`
		Tags       []any     `json:"tags"`
		Paths      any       `json:"paths"`
		Components devObject `json:"components"`
	}{
		"3.1.0",
		devObject{
			"title": "tollhouse dev", "version": s.site.Version, "summary": "What an instance of tollhouse dev gives to the people who test against it.",
			"description": "Needs no credentials. Requests to these endpoints are not in the journal and are never faulted. Every GET route answers HEAD.",
			"license":     devObject{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		[]any{devObject{"url": url}}, []any{devObject{}}, devTags, paths,
		devObject{
			"headers":   devObject{"X-Request-Id": devObject{"description": "The id of the request.", "required": true, "schema": devSchema("string", "", ""), "example": "req_k5phyugrl7yiylttebwvewwddq"}},
			"responses": refusals, "schemas": schemas,
		},
	})
}
