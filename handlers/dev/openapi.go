package dev

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// The description of the testers' controls is made from the table of their endpoints and
// from the forms of what they take and send, which stand in the files of the endpoints.
// /openapi.json leaves the controls out: they do not belong into clients that are generated
// for the product.

// devAnswer is an answer that is no refusal.
type devAnswer struct {
	status     int
	does, form string
}

// devTags are the groups of endpoints.
var devTags = []any{
	api.Object{"name": "Instance", "description": "Reset, snapshots and state."},
	api.Object{"name": "Clock", "description": "The instance's time."},
	api.Object{"name": "Faults", "description": "Answers that fail on purpose."},
	api.Object{"name": "Requests", "description": "The journal of requests."},
	api.Object{"name": "Making", "description": "Tokens, events and seed lines made now."},
}

// devRefusals are the answers that refuse, by status.
var devRefusals = []api.Refusal{
	{Status: 400, Name: "BadRequest", Code: "invalid_request", Does: "The request is not valid; param names the member or parameter."},
	{Status: 403, Name: "Forbidden", Code: "forbidden", Does: "A page of another origin sent the request."},
	{Status: 404, Name: "NotFound", Code: "not_found", Does: "It does not exist."},
	{Status: 409, Name: "Conflict", Code: "conflict", Does: "The state of the instance forbids it."},
	{Status: 413, Name: "TooLarge", Code: "too_large", Does: "The body is too large."},
	{Status: 415, Name: "UnsupportedMediaType", Code: "unsupported_media_type", Does: "The body is not JSON."},
	{Status: 421, Name: "Misdirected", Code: "misdirected_request", Does: "The Host header names another host."},
}

var devForms = []api.Form{
	{Name: "Error", Does: "The form of every error.", Members: []api.FormMember{
		{"error", "string!", "A code for programs."},
		{"error_description", "string!", "One sentence for people."},
		{"param", "string", "The member or parameter at fault, such as match.path."},
		{"hint", "string", "How to fix it."},
	}},
	{Name: "EndpointList", Does: "All endpoints.", Example: `{"endpoints":[{"method":"GET","path":"/_dev/clock","does":"shows the clock","curl":"curl -sS 'http://127.0.0.1:8655/_dev/clock'"}]}`, Members: []api.FormMember{
		{"endpoints", "[]Endpoint!", "In an order in which all their examples work."},
	}},
	{Name: "Document", Does: "This document.", Example: `{"openapi":"3.1.0"}`},
	{Name: "Endpoint", Does: "An endpoint.", Members: []api.FormMember{
		{"method", "string!", "Its method."},
		{"path", "string!", "Its path."},
		{"does", "string!", "What it does."},
		{"curl", "string!", "A command line that calls it."},
	}},
}

// operation describes the endpoint.
func (e devEndpoint) operation(examples map[string]string) api.Object {
	answers := api.Object{}
	for _, a := range e.answers {
		answers[strconv.Itoa(a.status)] = api.WithHeaders(api.Object{"description": a.does, "content": api.JSONContent(a.form, examples[a.form])})
	}
	if e.answers == nil {
		answers["204"] = api.WithHeaders(api.Object{"description": "Done."})
	}
	refuses := append([]int{400, 403, 421}, e.refuses...)
	o := api.Object{"operationId": e.id, "tags": []string{e.tag}, "summary": strings.ToUpper(e.does[:1]) + e.does[1:], "responses": answers}
	if e.takes != "" {
		refuses = append(refuses, 413, 415)
		o["requestBody"] = api.Object{"required": e.needsBody, "content": api.JSONContent(e.takes, e.body)}
	}
	api.AddRefusals(answers, devRefusals, refuses)
	var params []api.Object
	if _, name, ok := strings.Cut(e.path, ":"); ok {
		params = append(params, api.InPath(name, "Its "+name+".", path.Base(e.example)))
	}
	for _, p := range e.query {
		params = append(params, p.Described())
	}
	if params != nil {
		o["parameters"] = params
	}
	return o
}

// describeDev returns the description of the controls at the URL.
func (s *Server) describeDev(url string, endpoints []devEndpoint) []byte {
	schemas, examples := api.Object{}, map[string]string{}
	for _, f := range slices.Concat(devForms, devClockForms, devControlForms, devFaultForms, devJournalForms, devMakeForms) {
		schemas[f.Name], examples[f.Name] = f.Schema(), f.Example
	}
	paths := map[string]api.Object{}
	for _, e := range endpoints {
		at := web.DevPath + e.path
		if before, name, ok := strings.Cut(at, ":"); ok {
			at = before + "{" + name + "}"
		}
		if paths[at] == nil {
			paths[at] = api.Object{}
		}
		paths[at][strings.ToLower(e.method)] = e.operation(examples)
	}
	return web.EncodeJSON(struct {
		OpenAPI    string     `json:"openapi"`
		Info       api.Object `json:"info"`
		Servers    []any      `json:"servers"`
		Security   []any      `json:"security"`
		Tags       []any      `json:"tags"`
		Paths      any        `json:"paths"`
		Components api.Object `json:"components"`
	}{
		"3.1.0",
		api.Object{
			"title": "tollhouse dev", "version": s.site.Version, "summary": "What an instance of tollhouse dev gives to the people who test against it.",
			"description": "Needs no credentials. Requests to these endpoints are not in the journal and are never faulted. Every GET route answers HEAD.",
			"license":     api.Object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		[]any{api.Object{"url": url}}, []any{api.Object{}}, devTags, paths,
		api.Object{
			"headers":   api.Object{"X-Request-Id": api.Object{"description": "The id of the request.", "required": true, "schema": api.KindSchema("string", "", ""), "example": "req_k5phyugrl7yiylttebwvewwddq"}},
			"responses": api.Refusals(devRefusals), "schemas": schemas,
		},
	})
}
