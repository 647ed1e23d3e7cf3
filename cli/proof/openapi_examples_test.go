package proof

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

var updateExamples = flag.Bool("update-examples", false, "write the examples of the API description anew")

// exampleIssuer stands in the file of examples for the address of the server.
const exampleIssuer = "https://tollhouse.example"

// example is a request whose body and answer are examples in the description.
type example struct {
	operation, method, path string
	body                    any
	wantStatus              int
}

// exampleRequests are asked in this order, because what they give follows from
// what was asked before. The paths hold the examples of the parameters.
func exampleRequests(s *server, parameters map[string]string, pair func() tokens) []example {
	secret := map[string]any{"client_id": s.ready.ClientID, "client_secret": s.ready.ClientSecret}
	with := func(fields ...string) map[string]any {
		body := map[string]any{}
		for name, value := range secret {
			body[name] = value
		}
		for i := 0; i < len(fields); i += 2 {
			body[fields[i]] = fields[i+1]
		}
		return body
	}
	token := with("grant_type", "password", "username", s.ready.Username, "password", s.ready.Password, "scope", "events:read resources:read resources:write webhooks:read webhooks:write")
	larkspur := map[string]any{"displayName": "Larkspur Bookkeeping", "city": "Dunmere"}
	customer := "/api/resources/customer/" + parameters["resourceID"]
	endpoint := "/api/webhook-endpoints/" + parameters["webhookEndpointID"]
	return []example{
		{"issueToken", http.MethodPost, "/oauth/v2/token", token, 200},
		{"introspectToken", http.MethodPost, "/oauth/v2/introspect", func() any { return with("token", pair().Access) }, 200},
		{"listEvents", http.MethodGet, "/api/events?type=customer.created&type=customer.updated&limit=2", nil, 200},
		{"findEvent", http.MethodGet, "/api/events/" + parameters["eventID"], nil, 200},
		{"listEventTypes", http.MethodGet, "/api/event-types", nil, 200},
		{"listResources", http.MethodGet, "/api/resources/customer?limit=2", nil, 200},
		{"findResource", http.MethodGet, customer, nil, 200},
		{"putResource", http.MethodPut, "/api/resources/customer/cus_larkspur", larkspur, 201},
		{"putResource", http.MethodPut, "/api/resources/customer/cus_larkspur", larkspur, 200},
		{"patchResource", http.MethodPatch, customer, map[string]any{"city": "Dunmere"}, 200},
		{"createWebhookEndpoint", http.MethodPost, "/api/webhook-endpoints", map[string]any{"url": "https://hooks.larkspurtea.example/tollhouse", "types": []string{"customer.*"}, "description": "Larkspur Tea Room"}, 201},
		{"listWebhookEndpoints", http.MethodGet, "/api/webhook-endpoints?limit=2", nil, 200},
		{"updateWebhookEndpoint", http.MethodPatch, endpoint, map[string]any{"types": []string{"customer.*", "invoice.paid"}}, 200},
		{"disableWebhookEndpoint", http.MethodPost, endpoint + "/disable", nil, 200},
		{"findWebhookEndpoint", http.MethodGet, endpoint, nil, 200},
		{"enableWebhookEndpoint", http.MethodPost, endpoint + "/enable", map[string]any{"from": "now"}, 200},
		{"rotateWebhookSecret", http.MethodPost, endpoint + "/rotate-secret", map[string]any{"overlap": 3600}, 200},
		{"retryWebhookEvents", http.MethodPost, endpoint + "/retry", map[string]any{"events": []string{parameters["eventID"]}}, 202},
		{"revokeToken", http.MethodPost, "/oauth/v2/revoke", func() any { return with("token", pair().Access) }, 200},
		{"findMetadata", http.MethodGet, "/.well-known/oauth-authorization-server", nil, 200},
		{"isAlive", http.MethodGet, "/healthz", nil, 200},
		{"isReady", http.MethodGet, "/readyz", nil, 200},
	}
}

// exampleByHand have examples in the description itself: an excerpt, and answers that
// need a receiver.
var exampleByHand = []string{"findDescription", "skipWebhookEvent", "testWebhookEndpoint", "listWebhookDeliveries"}

// TestOpenAPIExamples asks a demo that can be foretold for what the description
// shows: its examples are what a reader gets.
func TestOpenAPIExamples(t *testing.T) {
	t.Parallel()
	s := startDev(t, "--rand-seed", "1", "--clock", "2026-06-01T12:00:00Z", "--webhooks", "off")
	served := fetchDocument(t, s.ready.URL+"/openapi.json")
	var document map[string]any
	decode(t, served, &document)
	parameters := map[string]string{}
	for name, parameter := range document["components"].(map[string]any)["parameters"].(map[string]any) {
		if text, ok := parameter.(map[string]any)["example"].(string); ok {
			parameters[name] = text
		}
	}
	c := s.asClient(credentials{ID: s.ready.ClientID, Secret: s.ready.ClientSecret})
	var pair tokens
	taken := map[string]map[string]any{}
	for _, asked := range exampleRequests(s, parameters, func() tokens { return pair }) {
		if later, ok := asked.body.(func() any); ok {
			asked.body = later()
		}
		body := ""
		if asked.body != nil {
			body = jsonOf(asked.body)
		}
		ask := func() (answer, error) { return c.call(t.Context(), pair.Access, asked.method, asked.path, body) }
		if !strings.HasPrefix(asked.path, "/api/") {
			ask = func() (answer, error) {
				return c.send(t.Context(), asked.method, asked.path, body, "Content-Type", "application/json")
			}
		}
		a, err := ask()
		if err != nil || a.status != asked.wantStatus {
			t.Fatalf("%s %s = %v, %v; want %d", asked.method, asked.path, a, err, asked.wantStatus)
		}
		if asked.operation == "issueToken" {
			decode(t, a.body, &pair)
		}
		if taken[asked.operation] == nil {
			taken[asked.operation] = map[string]any{}
		}
		if asked.body != nil {
			taken[asked.operation]["request"] = asked.body
		}
		taken[asked.operation][strconv.Itoa(a.status)] = json.RawMessage(a.body)
	}
	if *updateExamples {
		writeExamples(t, s, taken)
		return
	}
	shown := examplesOf(document)
	for name, want := range taken {
		t.Run("openapi_example_of_"+name, func(t *testing.T) {
			var answered map[string]any
			decode(t, []byte(jsonOf(want)), &answered)
			if !reflect.DeepEqual(shown[name], answered) {
				t.Errorf("the description shows\n%s\nand dev answers\n%s\n-update-examples writes the answers anew", jsonOf(shown[name]), jsonOf(answered))
			}
		})
	}
	t.Run("openapi_examples_of_all_operations_are_compared", func(t *testing.T) {
		for name, examples := range shown {
			if taken[name] == nil && !slices.Contains(exampleByHand, name) && len(examples) > 0 {
				t.Errorf("%s shows %s, and no answer was compared with it", name, jsonOf(examples))
			}
		}
	})
	t.Run("openapi_example_of_the_document_is_in_it", func(t *testing.T) {
		for name, value := range shown["findDescription"]["200"].(map[string]any) {
			if !reflect.DeepEqual(document[name], value) {
				t.Errorf("the example has %s %v, and the document %v", name, value, document[name])
			}
		}
	})
	t.Run("openapi_examples_of_parameters_are_accepted", func(t *testing.T) { askForParameters(t, s.in(t), c, document) })
}

// examplesOf returns what the document shows of each operation: of its "request",
// and of its answers by status. A request shows the same in
// each media type.
func examplesOf(document map[string]any) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, item := range document["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			operation := operation.(map[string]any)
			examples := map[string]any{}
			show := func(name string, described any) {
				content, _ := described.(map[string]any)["content"].(map[string]any)
				for _, media := range content {
					if value, ok := media.(map[string]any)["example"]; ok {
						examples[name] = value
					}
				}
			}
			if body, ok := operation["requestBody"]; ok {
				show("request", body)
			}
			for status, answer := range operation["responses"].(map[string]any) {
				show(status, answer)
			}
			found[operation["operationId"].(string)] = examples
		}
	}
	return found
}

// askForParameters sends the example of each parameter of the list of events by
// itself: it must be a filter that is understood.
func askForParameters(t *testing.T, s *server, c *client, document map[string]any) {
	pair, _, err := c.grant(t.Context(), "password", "username", s.ready.Username, "password", s.ready.Password)
	must.Do(t, err)
	components := document["components"].(map[string]any)["parameters"].(map[string]any)
	operation := document["paths"].(map[string]any)["/api/events"].(map[string]any)["get"].(map[string]any)
	for _, parameter := range operation["parameters"].([]any) {
		p := components[strings.TrimPrefix(parameter.(map[string]any)["$ref"].(string), "#/components/parameters/")].(map[string]any)
		query := url.Values{"order": {"asc"}} // which wait requires
		header := []string{"Authorization", "Bearer " + pair.Access}
		values, isList := p["example"].([]any)
		if !isList {
			values = []any{p["example"]}
		}
		query.Del(p["name"].(string))
		for _, value := range values {
			text, isText := value.(string)
			if !isText {
				text = jsonOf(value)
			}
			if p["in"] == "header" {
				header = append(header, p["name"].(string), text)
				continue
			}
			query.Add(p["name"].(string), text)
		}
		if a, err := c.send(t.Context(), http.MethodGet, "/api/events?"+query.Encode(), "", header...); err != nil || a.status != 200 && a.status != 304 {
			t.Errorf("the example of %v: %s = %v, %v", p["name"], query.Encode(), a, err)
		}
	}
}

// writeExamples writes the file that the description takes its examples from.
func writeExamples(t *testing.T, s *server, taken map[string]map[string]any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	must.Do(t, encoder.Encode(taken))
	path := filepath.Join("..", "..", "handlers", "api", "openapi_examples.json")
	must.Do(t, os.WriteFile(path, bytes.ReplaceAll(text.Bytes(), []byte(s.ready.URL), []byte(exampleIssuer)), 0o644))
}
