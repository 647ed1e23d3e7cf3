package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
)

const (
	// AnyKindSchema is the schema of undocumented kinds.
	AnyKindSchema   = "Snapshot"
	openAPIDepthMax = 32 // of our own document
)

// openAPISource describes the public API, without the server's address and the
// catalogue of event types. Tests compare it with the routes and their responses.
//
//go:embed openapi.json
var openAPISource []byte

// openAPIExamples are the examples of each operation: of the bodies of its
// "request" and of its answers by status. A test takes them from dev.
//
//go:embed openapi_examples.json
var openAPIExamples []byte

// exampleIssuer stands in the examples for the address of the server.
const exampleIssuer = "https://tollhouse.example"

// OpenAPI returns the OpenAPI 3.1 description of the server with that issuer URL.
// With "" the server is the one that the document is read from.
func OpenAPI(issuer, version string) []byte { return describeWith(issuer, version, snapshot.Rules{}) }

func describeWith(issuer, version string, rules snapshot.Rules) []byte {
	d := Parsed(openAPISource)
	d = withText(d, version, "info", "version")
	if issuer != "" {
		d = withMember(d, snapshot.ArrayOf(withText(snapshot.ObjectOf(), issuer, "url")), "servers")
	}
	d = withText(d, issuer+web.DocsPath, "externalDocs", "url")
	flows := []string{"components", "securitySchemes", "oauth2", "flows"}
	d = withText(d, issuer+"/oauth/v2/auth", append(flows, "authorizationCode", "authorizationUrl")...)
	for _, flow := range []string{"authorizationCode", "password"} {
		d = withText(d, issuer+"/oauth/v2/token", append(flows, flow, "tokenUrl")...)
		d = withText(d, issuer+"/oauth/v2/token", append(flows, flow, "refreshUrl")...)
	}
	d = withText(d, issuer+"/oauth/v2/token", append(flows, "clientCredentials", "tokenUrl")...)
	examples := openAPIExamples
	if issuer != "" {
		examples = bytes.ReplaceAll(examples, []byte(exampleIssuer), []byte(issuer))
	}
	d = withExamples(d, Parsed(examples))
	return append(withCatalogue(d, rules).Append(nil), '\n')
}

// Parsed reads one of our own documents.
func Parsed(document []byte) snapshot.Value {
	v, err := snapshot.Parse(document, openAPIDepthMax)
	if err != nil {
		panic("api: " + err.Error())
	}
	return v
}

// withExamples adds its examples to each operation.
func withExamples(d, examples snapshot.Value) snapshot.Value {
	paths, _ := d.Member("paths")
	for _, item := range paths.Members() {
		for _, method := range item.Value.Members() {
			id, _ := method.Value.Member("operationId")
			found, _ := examples.Member(id.Text())
			for _, example := range found.Members() {
				at := []string{"paths", item.Name, method.Name, "responses", example.Name, "content"}
				if example.Name == "request" {
					at = []string{"paths", item.Name, method.Name, "requestBody", "content"}
				}
				for _, media := range MemberAt(d, at...).Members() {
					d = withMember(d, example.Value, append(at, media.Name, "example")...)
				}
			}
		}
	}
	return d
}

func MemberAt(v snapshot.Value, path ...string) snapshot.Value {
	for _, name := range path {
		v, _ = v.Member(name)
	}
	return v
}

// withCatalogue adds the schema of each kind, and each type of event.
func withCatalogue(d snapshot.Value, rules snapshot.Rules) snapshot.Value {
	var kinds, types, meanings []snapshot.Value
	for _, kind := range append(snapshot.Kinds(), "") {
		name := SchemaName(kind)
		d = withMember(d, rules.Schema(kind), "components", "schemas", name)
		kinds = append(kinds, withText(snapshot.ObjectOf(), "#/components/schemas/"+name, "$ref"))
	}
	for _, t := range eventlog.Catalogue() {
		types = append(types, snapshot.Text(t.Name))
		meanings = append(meanings, snapshot.Text(t.Meaning))
	}
	d = withMember(d, snapshot.ArrayOf(kinds...), "components", "schemas", "Resource", "anyOf")
	d = withMember(d, snapshot.ArrayOf(types...), "components", "schemas", "EventType", "x-extensible-enum")
	return withMember(d, snapshot.ArrayOf(meanings...), "components", "schemas", "EventType", "x-enum-descriptions")
}

// SchemaName returns the name of the schema of a kind's snapshots. It is never a
// name that generated code has for itself, such as Client.
func SchemaName(kind string) string {
	if !snapshot.IsDescribed(kind) {
		return AnyKindSchema
	}
	return snapshot.TypeName(kind) + AnyKindSchema
}

func withText(v snapshot.Value, text string, path ...string) snapshot.Value {
	return withMember(v, snapshot.Text(text), path...)
}

// withMember returns v with the member at path set.
func withMember(v, value snapshot.Value, path ...string) snapshot.Value {
	if len(path) == 0 {
		return value
	}
	members := slices.Clone(v.Members())
	i := slices.IndexFunc(members, func(m snapshot.Member) bool { return m.Name == path[0] })
	if i < 0 {
		i, members = len(members), append(members, snapshot.Member{Name: path[0]})
	}
	members[i].Value = withMember(members[i].Value, value, path[1:]...)
	return snapshot.ObjectOf(members...)
}

// Description is the API description as served.
type Description struct {
	issuer   string
	rules    snapshot.Rules
	Document []byte
	tag      string
}

func describe(issuer, version string, rules snapshot.Rules) *Description {
	document := describeWith(issuer, version, rules)
	sum := sha256.Sum256(document)
	return &Description{issuer, rules, document, web.EntityTag(hex.EncodeToString(sum[:12]))}
}

// descriptions keeps the description that was asked for last: a server has one issuer,
// unless it is dev.
type descriptions struct {
	mu   sync.Mutex
	last *Description
}

func (d *descriptions) Of(issuer, version string, rules snapshot.Rules) *Description {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || d.last.issuer != issuer || d.last.rules != rules {
		d.last = describe(issuer, version, rules)
	}
	return d.last
}

// openAPI is GET /openapi.json. It is public and contains no stored data.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	d := s.Described.Of(s.site.IssuerOf(r), s.site.Version, s.site.Store.Events.Rules())
	w.Header().Set("Cache-Control", "public, max-age=300")
	if web.NotModified(w, r, d.tag) {
		return nil
	}
	web.WriteBody(w, http.StatusOK, "application/json", d.Document)
	return nil
}
