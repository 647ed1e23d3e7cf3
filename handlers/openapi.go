package handlers

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
)

const (
	openAPIPath = "/openapi.json"
	// anyKindSchema is the schema of undocumented kinds. Names of kinds begin with a
	// lower-case letter, so they cannot collide.
	anyKindSchema = "Snapshot"

	openAPIDepthMax = 32 // of our own document
)

// openAPISource describes the public API, without the server's address and the
// catalogue of event types. Tests compare it with the routes and their responses.
//
//go:embed openapi.json
var openAPISource []byte

// OpenAPI returns the OpenAPI 3.1 description of the server with that issuer URL.
// With "" the server is the one that the document is read from.
func OpenAPI(issuer, version string) []byte {
	d, err := snapshot.Parse(openAPISource, openAPIDepthMax)
	if err != nil {
		panic("handlers: openapi.json: " + err.Error())
	}
	d = withText(d, version, "info", "version")
	if issuer != "" {
		d = withMember(d, snapshot.ArrayOf(withText(snapshot.ObjectOf(), issuer, "url")), "servers")
	}
	flows := []string{"components", "securitySchemes", "oauth2", "flows"}
	d = withText(d, issuer+"/oauth/v2/auth", append(flows, "authorizationCode", "authorizationUrl")...)
	for _, flow := range []string{"authorizationCode", "password"} {
		d = withText(d, issuer+"/oauth/v2/token", append(flows, flow, "tokenUrl")...)
		d = withText(d, issuer+"/oauth/v2/token", append(flows, flow, "refreshUrl")...)
	}
	return append(withCatalogue(d).Append(nil), '\n')
}

// withCatalogue adds the schema of each kind, and each type of event.
func withCatalogue(d snapshot.Value) snapshot.Value {
	var kinds, types []snapshot.Value
	for _, kind := range append(snapshot.Kinds(), anyKindSchema) {
		d = withMember(d, snapshot.Schema(kind), "components", "schemas", kind)
		kinds = append(kinds, withText(snapshot.ObjectOf(), "#/components/schemas/"+kind, "$ref"))
	}
	for _, t := range eventlog.Catalogue() {
		described := withText(snapshot.ObjectOf(), t.Name, "const")
		types = append(types, withText(described, t.Meaning, "description"))
	}
	anyOther := snapshot.ObjectOf() // matches every type that the pattern allows
	d = withMember(d, snapshot.ArrayOf(kinds...), "components", "schemas", "Resource", "anyOf")
	return withMember(d, snapshot.ArrayOf(append(types, anyOther)...), "components", "schemas", "EventType", "anyOf")
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

// description is the API description as served.
type description struct {
	issuer   string
	document []byte
	tag      string
}

func describe(issuer, version string) *description {
	document := OpenAPI(issuer, version)
	sum := sha256.Sum256(document)
	return &description{issuer, document, entityTag(hex.EncodeToString(sum[:12]))}
}

// descriptions keeps the description that was asked for last: a server has one issuer,
// unless it is dev.
type descriptions struct {
	mu   sync.Mutex
	last *description
}

func (d *descriptions) of(issuer, version string) *description {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || d.last.issuer != issuer {
		d.last = describe(issuer, version)
	}
	return d.last
}

// openAPI is GET /openapi.json. It is public and contains no stored data.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	d := s.described.of(s.issuerOf(r), s.version)
	w.Header().Set("Cache-Control", "public, max-age=300")
	if notModified(w, r, d.tag) {
		return nil
	}
	writeBody(w, http.StatusOK, "application/json", d.document)
	return nil
}
