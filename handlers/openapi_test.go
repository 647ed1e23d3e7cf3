package handlers

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// registered are the public routes of serve, but for HEAD, which every GET has:
// "GET /api/events/{id}".
func registered(t testing.TB) (routes []string) {
	t.Helper()
	server := newAPI(t).server
	r := server.Site.NewRouter()
	server.Site.Demo = &web.Demo{} // for the callback
	server.mountPublic(r)
	for _, route := range r.Routes {
		if route.Method != http.MethodHead && !web.IsPlatformPath(route.Template) { // which have a description of their own
			routes = append(routes, route.Method+" "+asTemplate(route.Template))
		}
	}
	slices.Sort(routes)
	return routes
}

var pathParameter = regexp.MustCompile(`[:*]([a-z]+)`)

func asTemplate(path string) string { return pathParameter.ReplaceAllString(path, "{$1}") }

func TestOpenAPIHasEveryRoute(t *testing.T) {
	t.Parallel()
	d := NewDescribed(t, api.OpenAPI("https://pay.example", "test"))
	var documented []string
	for o := range d.operations() {
		documented = append(documented, o.method+" "+o.template)
	}
	slices.Sort(documented)
	routes := registered(t)
	for _, route := range routes {
		if !slices.Contains(documented, route) {
			t.Errorf("openapi_routes: %s is not described", route)
		}
	}
	for _, route := range documented {
		if !slices.Contains(routes, route) {
			t.Errorf("openapi_routes: %s is described, and there is no such route", route)
		}
	}
	if len(routes) < 20 {
		t.Errorf("openapi_routes: only %d routes were found", len(routes))
	}
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	document := api.OpenAPI("https://pay.example/pay", "1.2.3")
	d := NewDescribed(t, document)
	t.Run("openapi_names_the_server", func(t *testing.T) {
		t.Parallel()
		if url := d.document["servers"].([]any)[0].(map[string]any)["url"]; url != "https://pay.example/pay" {
			t.Errorf("server = %v", url)
		}
		flow := d.object("components", "securitySchemes", "oauth2", "flows", "authorizationCode")
		if flow["tokenUrl"] != "https://pay.example/pay/oauth/v2/token" || flow["authorizationUrl"] != "https://pay.example/pay/oauth/v2/auth" {
			t.Errorf("flow = %v", flow)
		}
		if d.document["openapi"] != "3.1.0" || d.object("info")["version"] != "1.2.3" {
			t.Errorf("openapi %v, info %v", d.document["openapi"], d.object("info"))
		}
	})
	t.Run("openapi_without_an_issuer_is_relative", func(t *testing.T) {
		t.Parallel()
		relative := NewDescribed(t, api.OpenAPI("", "1.2.3"))
		flow := relative.object("components", "securitySchemes", "oauth2", "flows", "password")
		if url := relative.document["servers"].([]any)[0].(map[string]any)["url"]; url != "/" || flow["tokenUrl"] != "/oauth/v2/token" {
			t.Errorf("server = %v, flow = %v", url, flow)
		}
	})
	t.Run("openapi_references_lead_somewhere", func(t *testing.T) {
		t.Parallel()
		used := map[string]bool{}
		checkReferences(t, d, d.document, used)
		for _, components := range []string{"components", pageComponents} {
			for _, section := range []string{"schemas", "responses", "parameters", "headers"} {
				for name := range d.object(components, section) {
					place := "#/" + components + "/" + section + "/" + name
					if !used[place] && !strings.HasSuffix(place, "/responses/MethodNotAllowed") { // any address may say it
						t.Errorf("nothing uses %s", place)
					}
				}
			}
		}
	})
	t.Run("openapi_schemas_are_schemas", func(t *testing.T) {
		t.Parallel()
		for name := range d.object("components", "schemas") {
			if _, err := d.schema([]string{"components", "schemas", name}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name := range d.object("components", "parameters") {
			if _, err := d.schema([]string{"components", "parameters", name, "schema"}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("openapi_scopes_are_the_stores", func(t *testing.T) {
		t.Parallel()
		for _, flow := range []string{"authorizationCode", "password"} {
			scopes := keysOf(d.object("components", "securitySchemes", "oauth2", "flows", flow, "scopes"))
			slices.Sort(scopes)
			if !slices.Equal(scopes, store.ScopeNames()) {
				t.Errorf("%s: scopes = %v, want %v", flow, scopes, store.ScopeNames())
			}
		}
	})
	t.Run("openapi_parameters_of_the_list", func(t *testing.T) {
		t.Parallel()
		described := map[string]string{} // by name
		for _, parameter := range d.object("paths", "/api/events", "get")["parameters"].([]any) {
			p := d.object(strings.Split(strings.TrimPrefix(parameter.(map[string]any)["$ref"].(string), "#/"), "/")...)
			if p["in"] == "query" {
				described[p["name"].(string)] = p["description"].(string)
			}
		}
		for _, name := range api.EventParams {
			base, isList := strings.CutSuffix(name, "[]") // described with its base, for generated code has one name for both
			if described[base] == "" || isList && !strings.Contains(described[base], "`"+name+"`") {
				t.Errorf("%s is not described", name)
			}
		}
		limit := d.object("components", "parameters", "limit", "schema")
		if fmt.Sprint(limit["maximum"]) != strconv.Itoa(api.EventsLimitMax) || fmt.Sprint(limit["default"]) != strconv.Itoa(api.EventsLimitDefault) {
			t.Errorf("limit = %v, want at most %d, and %d by default", limit, api.EventsLimitMax, api.EventsLimitDefault)
		}
	})
	t.Run("openapi_has_the_catalogue", func(t *testing.T) {
		t.Parallel()
		schema := d.object("components", "schemas", "EventType")
		types, meanings := schema["x-extensible-enum"].([]any), schema["x-enum-descriptions"].([]any)
		for i, want := range eventlog.Catalogue() {
			if types[i] != want.Name || meanings[i] != want.Meaning {
				t.Errorf("type %d is %v: %v, want %v", i, types[i], meanings[i], want)
			}
		}
		for _, kind := range snapshot.Kinds() {
			if d.object("components", "schemas", api.SchemaName(kind)) == nil {
				t.Errorf("there is no schema of %s", kind)
			}
		}
	})
}

// checkReferences follows every reference below v.
func checkReferences(t *testing.T, d *Described, v any, used map[string]bool) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			used[ref] = true
			place, found := strings.CutPrefix(ref, "#/")
			if !found || d.object(strings.Split(place, "/")...) == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
		for _, inner := range v {
			checkReferences(t, d, inner, used)
		}
	case []any:
		for _, inner := range v {
			checkReferences(t, d, inner, used)
		}
	}
}

// The forms in the document are those that the product goes by.
func TestOpenAPIForms(t *testing.T) {
	t.Parallel()
	d := NewDescribed(t, api.OpenAPI("", "test"))
	forms := []struct {
		name string
		at   []string
		is   func(string) bool
	}{
		{"EventType", []string{"components", "schemas", "EventType"}, eventlog.IsEventType},
		{"ID", []string{"components", "schemas", "ID"}, eventlog.IsID},
		{"kind", []string{"components", "parameters", "kind", "schema"}, eventlog.IsKind},
		{"action", []string{"components", "parameters", "action", "schema"}, func(text string) bool {
			return eventlog.IsAction(text) && !slices.Contains([]string{"created", "updated", "deleted"}, text)
		}},
	}
	for _, form := range forms {
		t.Run("openapi_form_of_"+form.name, func(t *testing.T) {
			t.Parallel()
			schema := must.Get(d.schema(form.at))(t)
			rapid.Check(t, func(t *rapid.T) {
				text := rapid.OneOf(
					rapid.StringMatching(`[a-zA-Z0-9_.*-]{0,80}`), rapid.StringMatching(`[a-z][a-z0-9_]{0,34}\.[a-z][a-z0-9_]{0,50}`),
					rapid.SampledFrom([]string{"created", "customer.created", "a.b\n", "a\x00", "é.b", "a b"}),
				).Draw(t, "text")
				if got := schema.Validate(text) == nil; got != form.is(text) {
					t.Fatalf("the document takes %q: %v, want %v", text, got, form.is(text))
				}
			})
		})
	}
}

func TestServeOpenAPI(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	w := a.get(web.OpenAPIPath, "")
	t.Run("openapi_is_what_print_prints", func(t *testing.T) {
		t.Parallel()
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Body.String() != string(api.OpenAPI("http://127.0.0.1:8080", "test")) {
			t.Errorf("answer = %d %v %.200s", w.Code, w.Header(), w.Body)
		}
	})
	t.Run("openapi_may_be_kept_by_anybody", func(t *testing.T) {
		t.Parallel()
		if got := w.Header().Get("Cache-Control"); got != "public, max-age=300" {
			t.Errorf("Cache-Control = %q", got)
		}
		if w := a.get(web.OpenAPIPath, "", "If-None-Match", w.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("with its ETag it is %d", w.Code)
		}
		if w := a.get(web.OpenAPIPath, "", "If-None-Match", `"another"`); w.Code != http.StatusOK {
			t.Errorf("with another ETag it is %d", w.Code)
		}
	})
	t.Run("openapi_may_be_read_by_any_page", func(t *testing.T) {
		t.Parallel()
		if got := a.get(web.OpenAPIPath, "", "Origin", "https://anybody.example").Header().Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("Access-Control-Allow-Origin = %q, want *", got)
		}
	})
	t.Run("openapi_methods", func(t *testing.T) {
		t.Parallel()
		if w := a.request(http.MethodHead, web.OpenAPIPath, "", nil); w.Code != http.StatusOK || w.Header().Get("ETag") == "" {
			t.Errorf("HEAD = %d", w.Code)
		}
		a.request(http.MethodPost, web.OpenAPIPath, "", nil).fault(t, http.StatusMethodNotAllowed, "invalid_request", "")
	})
}
