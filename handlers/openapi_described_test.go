package handlers

import (
	"bytes"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tollhouse/handlers/api"
	"tollhouse/store/storetest/must"
)

// Described is the API description as a judge of answers. The document leaves
// callers room for members that a later version adds; the judge has none, so
// that no member of an answer goes undescribed.
type Described struct {
	document map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by their places in the document
	seen    map[string]bool               // "GET /api/events 200"
}

// Pages are described beside paths, where no generator of clients looks, and so
// is what they alone refer to.
const (
	pagePaths      = "x-tollhouse-pages"
	pageComponents = "x-tollhouse-components"
	// alsoAnswers are the media types beside the one that generators get to see.
	alsoAnswers = "x-tollhouse-also"
)

const describedAt = "https://tollhouse.example/openapi.json"

// NewDescribed reads a document.
func NewDescribed(t testing.TB, document []byte) *Described {
	t.Helper()
	read := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(document)))(t)
	d := &Described{document: read.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{}}
	for _, schema := range d.object("components", "schemas") {
		object := schema.(map[string]any)
		if object["properties"] != nil && object["additionalProperties"] == nil {
			object["additionalProperties"] = false
		}
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	must.Do(t, d.compiler.AddResource(describedAt, read))
	return d
}

// object returns the object at a path, following references; nil when there is
// none.
func (d *Described) object(path ...string) map[string]any {
	v := d.document
	for _, name := range path {
		v, _ = v[name].(map[string]any)
		if ref, ok := v["$ref"].(string); ok && len(v) == 1 {
			v = d.object(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return v
}

// operation is one that the document describes.
type operation struct {
	section, template, method string // "paths", "/api/events", "GET"
	described                 map[string]any
}

// operations are those of machines and those of pages.
func (d *Described) operations() iter.Seq[operation] {
	return func(yield func(operation) bool) {
		for _, section := range []string{"paths", pagePaths} {
			for template, item := range d.object(section) {
				for method, described := range item.(map[string]any) {
					if method != "parameters" && !yield(operation{section, template, strings.ToUpper(method), described.(map[string]any)}) {
						return
					}
				}
			}
		}
	}
}

// template returns the documented path that a path has the form of, or "", and
// the section that it is in.
func (d *Described) template(path string) (best, section string) {
	parts := strings.Split(path, "/")
	for o := range d.operations() {
		templateParts := strings.Split(o.template, "/")
		fits := len(parts) == len(templateParts)
		for i := 0; fits && i < len(parts); i++ {
			fits = parts[i] == templateParts[i] || strings.HasPrefix(templateParts[i], "{") && parts[i] != ""
		}
		if fits && (best == "" || strings.Count(o.template, "{") < strings.Count(best, "{")) {
			best, section = o.template, o.section
		}
	}
	return best, section
}

// Check fails the test unless the answer to a request is described: its status,
// the headers that are ours, its type, and every member of its body.
func (d *Described) Check(t testing.TB, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	template, section := d.template(path)
	if template == "" {
		return // an address that there is not
	}
	operation := strings.ToLower(method)
	if method == http.MethodHead {
		operation, body = "get", nil
	}
	at := []string{section, template, operation, "responses", strconv.Itoa(status)}
	switch {
	case status == http.StatusMethodNotAllowed:
		at = []string{pageComponents, "responses", "MethodNotAllowed"}
	case method == http.MethodOptions:
		return
	}
	response := d.object(at...)
	if response == nil {
		t.Errorf("%s %s answers %d, which is not described", method, template, status)
		return
	}
	d.mu.Lock()
	d.seen[strings.ToUpper(operation)+" "+template+" "+strconv.Itoa(status)] = true
	d.mu.Unlock()
	d.checkHeaders(t, response, header)
	if len(body) > 0 {
		d.checkBody(t, at, response, header.Get("Content-Type"), body)
	}
}

// headersDescribed are the headers that are described with each answer that has
// them; Tollhouse-* are too.
var headersDescribed = []string{"X-Request-Id", "Etag", "Link", "Location", "Retry-After", "Www-Authenticate", "Allow", "Accept-Patch"}

func (d *Described) checkHeaders(t testing.TB, response map[string]any, header http.Header) {
	t.Helper()
	described, _ := response["headers"].(map[string]any)
	for name := range described {
		isRequired := d.object("components", "headers", name)["required"] == true || d.object(pageComponents, "headers", name)["required"] == true
		if isRequired && header.Get(name) == "" {
			t.Errorf("the answer lacks %s", name)
		}
	}
	for name := range header {
		if !slices.Contains(headersDescribed, name) && !strings.HasPrefix(name, "Tollhouse-") {
			continue
		}
		if !slices.ContainsFunc(keysOf(described), func(known string) bool { return strings.EqualFold(known, name) }) {
			t.Errorf("%s: %s is not described for %q", name, header.Get(name), response["description"])
		}
	}
}

func keysOf(m map[string]any) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}

func (d *Described) checkBody(t testing.TB, at []string, response map[string]any, contentType string, body []byte) {
	t.Helper()
	mediaType, _, _ := strings.Cut(contentType, ";")
	content, _ := response["content"].(map[string]any)
	also, _ := response[alsoAnswers].(map[string]any)
	in := "content"
	if also[mediaType] != nil {
		in, content = alsoAnswers, also
	}
	switch {
	case content["*/*"] != nil:
		return
	case content[mediaType] == nil:
		t.Errorf("an answer of the type %s is not described: %.200s", mediaType, body)
		return
	case mediaType != "application/json":
		return
	}
	if ref, ok := d.object(at[:len(at)-1]...)[at[len(at)-1]].(map[string]any)["$ref"].(string); ok {
		at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	}
	d.Validate(t, append(slices.Clone(at), in, mediaType, "schema"), body)
}

// Validate fails the test unless a JSON document is as the schema at the path.
func (d *Described) Validate(t testing.TB, at []string, document []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Errorf("no JSON: %.200s", document)
		return
	}
	schema, err := d.schema(at)
	if err != nil {
		t.Fatalf("the schema at %s: %v", strings.Join(at, "."), err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%.500s is not as described: %v", document, err)
	}
}

// schema compiles the schema at a path of the document.
func (d *Described) schema(at []string) (*jsonschema.Schema, error) {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	place := describedAt + "#"
	for _, name := range at {
		place += "/" + escape.Replace(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if schema := d.schemas[place]; schema != nil {
		return schema, nil
	}
	schema, err := d.compiler.Compile(place)
	d.schemas[place] = schema
	return schema, err
}

// Unseen returns what is described and no answer has shown yet: "GET /login 303".
// Statuses that any address may answer with, whatever is asked, are left out.
func (d *Described) Unseen(prefix string) (unseen []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := range d.operations() {
		if !strings.HasPrefix(o.template, prefix) {
			continue
		}
		for status := range o.described["responses"].(map[string]any) {
			answer := o.method + " " + o.template + " " + status
			if !d.seen[answer] && !slices.Contains([]string{"414", "421", "500", "503"}, status) {
				unseen = append(unseen, answer)
			}
		}
	}
	slices.Sort(unseen)
	return unseen
}

// The judge must be able to say no.
func TestDescribedRefuses(t *testing.T) {
	t.Parallel()
	d := NewDescribed(t, api.OpenAPI("https://pay.example", "test"))
	sound := http.Header{"X-Request-Id": {"req_x"}, "Content-Type": {"application/json"}}
	with := func(name, value string) http.Header {
		h := sound.Clone()
		h.Set(name, value)
		return h
	}
	const event = `{"id":"evt_1","owner":"a","resource":"r","source":"s","location":"l","type":"a.b","eventData":{"object":{"id":"r","object":"a"}},"createdAt":1}`
	list := func(event string) string {
		return `{"object":"list","data":[` + event + `],"hasMore":false,"nextCursor":"x","previousCursor":"x"}`
	}
	tests := []struct {
		name, path string
		status     int
		header     http.Header
		body       string
		wantFault  bool
	}{
		{"a_sound_list", "/api/events", 200, sound, list(event), false},
		{"a_status", "/api/events", 201, sound, list(event), true},
		{"a_header", "/api/events", 200, with("Tollhouse-Event", "none"), list(event), true},
		{"no_request_id", "/api/events", 200, http.Header{"Content-Type": {"application/json"}}, list(event), true},
		{"a_type_of_body", "/api/events", 200, with("Content-Type", "application/xml"), list(event), true},
		{"a_member_of_the_list", "/api/events", 200, sound, strings.Replace(list(event), `"hasMore"`, `"total":1,"hasMore"`, 1), true},
		{"a_member_of_an_event", "/api/events", 200, sound, list(strings.Replace(event, `"owner"`, `"extra":1,"owner"`, 1)), true},
		{"a_missing_member", "/api/events", 200, sound, list(strings.Replace(event, `"owner":"a",`, ``, 1)), true},
		{"a_type_of_no_form", "/api/events", 200, sound, list(strings.Replace(event, `a.b`, `A.b`, 1)), true},
		{"an_error", "/api/events", 400, sound, `{"error":"invalid_range","error_description":"x.","param":"y"}`, false},
		{"an_error_of_another_status", "/api/events", 400, sound, `{"error":"not_found","error_description":"x."}`, true},
		{"an_error_with_a_member", "/api/events", 400, sound, `{"error":"invalid_range","error_description":"x.","detail":"y"}`, true},
		{"an_error_without_a_sentence", "/api/events", 400, sound, `{"error":"invalid_range"}`, true},
		{"retry_after_missing", "/api/events", 429, sound, `{"error":"too_many_requests","error_description":"x."}`, true},
	}
	for _, tt := range tests {
		t.Run("openapi_"+tt.name, func(t *testing.T) {
			t.Parallel()
			fake := &faults{TB: t}
			d.Check(fake, "GET", tt.path, tt.status, tt.header, []byte(tt.body))
			if fake.failed != tt.wantFault {
				t.Errorf("Check found a fault: %v, want %v", fake.failed, tt.wantFault)
			}
		})
	}
}

// faults is a test that notes that it failed, and goes on.
type faults struct {
	testing.TB
	failed bool
}

func (f *faults) Errorf(string, ...any) { f.failed = true }

// Names returns the operations, each as "GET /api/events".
func (d *Described) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for o := range d.operations() {
			if !yield(o.method + " " + o.template) {
				return
			}
		}
	}
}
