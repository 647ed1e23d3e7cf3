package admin

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// The description of the calls for platform clients is made from their table and from the forms
// of what they take and send. /openapi.json leaves them out: they do not belong into the clients
// that integrators generate.

// platformTags are the groups of calls, by the beginning of their paths.
var platformTags = []struct{ path, name, does string }{
	{"", "Caller", "The client of the token, and these calls."},
	{"/accounts", "Accounts", "The accounts that own resources and events."},
	{"/users", "Users", "The people who sign in, each for one account."},
	{"/clients", "Clients", "The programs of integrators."},
	{"/authorizations", "Authorizations", "What users and clients have authorized: the token families."},
	{"/audit", "Audit", "Who did what, and when."},
	{"/events", "Feed", "The events of all accounts."},
}

// platformRefusals are the answers that refuse, by status.
var platformRefusals = []api.Refusal{
	{Status: 400, Name: "BadRequest", Code: "invalid_parameter", Does: "The request is not valid; param names the member or parameter.", Headers: []string{"WWW-Authenticate"}},
	{Status: 401, Name: "Unauthorized", Code: "invalid_token", Does: "The access token is missing, unknown, expired or revoked (RFC 6750 §3.1).", Headers: []string{"WWW-Authenticate"}},
	{Status: 403, Name: "Forbidden", Code: "insufficient_scope", Does: "The access token lacks the scope; or only the machine may change it (protected); or a page sent the request (cross_origin).", Headers: []string{"WWW-Authenticate"}},
	{Status: 404, Name: "NotFound", Code: "not_found", Does: "It does not exist; unknown_account: the account in the body does not."},
	{Status: 406, Name: "NotAcceptable", Code: "not_acceptable", Does: "Accept allows none of the available types."},
	{Status: 409, Name: "Conflict", Code: "conflict", Does: "Its state forbids it; exists: the name is taken; limit_reached: the maximum is reached."},
	{Status: 410, Name: "CursorExpired", Code: "cursor_expired", Does: "Events after the cursor were removed because the retention period is over; continue at oldestAvailable."},
	{Status: 412, Name: "PreconditionFailed", Code: "precondition_failed", Does: "It does not meet If-Match or If-None-Match."},
	{Status: 413, Name: "TooLarge", Code: "too_large", Does: "The body is too large."},
	{Status: 414, Name: "UriTooLong", Code: "uri_too_long", Does: "The query is too long."},
	{Status: 415, Name: "UnsupportedMediaType", Code: "unsupported_media_type", Does: "The body is not JSON."},
	{Status: 421, Name: "Misdirected", Code: "misdirected_request", Does: "The Host header names another host."},
	{Status: 429, Name: "TooManyRequests", Code: "too_many_requests", Does: "The client has too many waiting requests.", Headers: []string{"Retry-After"}},
	{Status: 500, Name: "ServerError", Code: "server_error", Does: "The server failed; the operator can find the cause by the request id."},
	{Status: 503, Name: "Unavailable", Code: "temporarily_unavailable", Does: "The server is busy or read-only; nothing was changed.", Headers: []string{"Retry-After"}},
}

// platformAlways are the statuses that every call may have.
var platformAlways = []int{400, 401, 403, 406, 414, 421, 500, 503}

var platformForms = []api.Form{
	{Name: "Error", Does: "The form of every error.", Members: []api.FormMember{
		{"error", "string!", "A code for programs."},
		{"error_description", "string!", "One sentence for people."},
		{"param", "string", "The member or parameter at fault, if any."},
		{"oldestAvailable", "string", "With cursor_expired: the oldest position there is."},
		{"user_id", "string", "With exists: the user of that name, if it is in the account of the body."},
	}},
	{Name: "Document", Does: "This document.", Example: `{"openapi":"3.1.0"}`},
	{Name: "Caller", Does: "The client of the token.", Example: `{"client_id":"tollhouse_platform","name":"Backend","scopes":["accounts:read"],"expires_at":1780318800}`, Members: []api.FormMember{
		{"client_id", "string!", "Its id."},
		{"name", "string!", "Its name."},
		{"scopes", "[]string!", "What the token allows."},
		{"expires_at", "integer!", "When the token expires, in Unix seconds."},
	}},
}

// listForm is the form of a page of items of a form.
func listForm(name string, of api.Form, does string) api.Form {
	example := `{"object":"list","data":[` + of.Example + `],"hasMore":false,"nextCursor":"x","previousCursor":"x"}`
	return api.Form{Name: name, Does: does, Example: example, Members: []api.FormMember{
		{"object", "string!", "Always list.", `"enum":["list"],"x-enum-varnames":["` + name + `Object"]`},
		{"data", "[]" + of.Name + "!", "The items."},
		{"hasMore", "boolean!", "Whether more follow."},
		{"nextCursor", "string!", "after, for the next page."},
		{"previousCursor", "string!", "The cursor of the first item."},
	}}
}

// pathParams describe the names in paths.
var pathParams = map[string]api.Object{
	"account":   api.InPath("account", "The id of the account.", "acct_larkspur"),
	"user_id":   api.InPath("user_id", "The id of the user.", "usr_01kt1ag0000001kx5qkgq9h1tm"),
	"client_id": api.InPath("client_id", "The id of the client, percent-encoded once.", "tollhouse_larkspur"),
	"family_id": api.InPath("family_id", "The id of the authorization.", "fam_01kt1ag0000001kx5qkgq9h1tm"),
}

var pageParams = []api.FormParam{
	{"limit", "integer", "The size of a page.", `50`, `"minimum":1,"maximum":1000,"default":50`},
	{"after", "string", "nextCursor of the page before; the list starts after it.", `"x"`},
}

// operation describes the call.
func (p platformCall) operation(examples map[string]string) api.Object {
	answers, refuses := api.Object{}, slices.Concat(platformAlways, p.refuses)
	statuses := p.made
	switch {
	case p.sends == "":
		answers["204"] = api.WithHeaders(api.Object{"description": "Done."})
	case statuses == nil:
		statuses = []int{http.StatusOK}
	}
	for _, status := range statuses {
		headers := slices.Clone(p.headers)
		if p.hasVersion() || status == http.StatusCreated {
			headers = append(headers, "ETag")
		}
		answers[strconv.Itoa(status)] = api.WithHeaders(api.Object{"description": sentence(p.does), "content": api.JSONContent(p.sends, examples[p.sends])}, headers...)
	}
	var security []api.Object
	for _, scope := range p.scope.Names() {
		security = append(security, api.Object{"bearer": append([]string{scope}, p.also.Names()...)})
	}
	o := api.Object{"operationId": p.id, "tags": []string{p.tag()}, "summary": p.does, "security": security, "responses": answers}
	if p.takes != "" {
		refuses = append(refuses, 413, 415)
		o["requestBody"] = api.Object{"required": p.needed, "content": api.JSONContent(p.takes, examples[p.takes])}
	}
	api.AddRefusals(answers, platformRefusals, refuses)
	var params []api.Object
	for segment := range strings.SplitSeq(p.path, "/") {
		if name, is := strings.CutPrefix(segment, ":"); is {
			params = append(params, pathParams[name])
		}
	}
	query := p.query
	if p.filters != nil {
		query = slices.Concat(p.filters, pageParams)
	}
	for _, f := range query {
		params = append(params, f.Described())
	}
	if p.hasVersion() && p.method != http.MethodGet {
		params = append(params, api.Object{"$ref": "#/components/parameters/ifMatch"})
	}
	if p.method == http.MethodPut {
		params = append(params, api.Object{"$ref": "#/components/parameters/ifNoneMatch"})
	}
	if params != nil {
		o["parameters"] = params
	}
	return o
}

func sentence(does string) string { return does + "." }

// tag is the group of the call.
func (p platformCall) tag() (name string) {
	for _, t := range platformTags {
		if t.path != "" && strings.HasPrefix(p.path, t.path) {
			return t.name
		}
	}
	return platformTags[0].name
}

// describePlatform is GET /openapi.json.
func describePlatform(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	web.WriteBody(c.w, http.StatusOK, web.AsJSON, append(PlatformOpenAPI(c.s.site.IssuerOf(c.r), c.s.site.Version), '\n'))
	return nil
}

// PlatformOpenAPI returns the OpenAPI 3.1 description of the calls for platform clients of the
// server with that issuer URL.
func PlatformOpenAPI(issuer, version string) []byte {
	schemas, examples := api.Object{}, map[string]string{}
	for _, f := range slices.Concat(platformForms, accountForms, userForms, clientForms, authorizationForms, auditForms, feedForms) {
		schemas[f.Name], examples[f.Name] = f.Schema(), f.Example
	}
	paths := map[string]api.Object{}
	for _, p := range platformCalls() {
		if p.scope == 0 {
			continue
		}
		at := web.PlatformPath + pathParam.ReplaceAllString(p.path, "{$1}")
		if paths[at] == nil {
			paths[at] = api.Object{}
		}
		paths[at][strings.ToLower(p.method)] = p.operation(examples)
	}
	var tags []any
	for _, t := range platformTags {
		tags = append(tags, api.Object{"name": t.name, "description": t.does})
	}
	header := func(does, kind string, isRequired bool) api.Object {
		return api.Object{"description": does, "required": isRequired, "schema": api.KindSchema(kind, "", "")}
	}
	return web.EncodeJSON(struct {
		OpenAPI    string     `json:"openapi"`
		Info       api.Object `json:"info"`
		Servers    []any      `json:"servers"`
		Tags       []any      `json:"tags"`
		Paths      any        `json:"paths"`
		Components api.Object `json:"components"`
	}{
		"3.1.0",
		api.Object{
			"title": "tollhouse platform", "version": version, "summary": "Management of accounts, users, clients and authorizations by a platform's own programs.",
			"description": "Needs an access token of a platform client (grant client_credentials). The account stands in the path, the query or the body, never in Tollhouse-Account. A call that changes nothing keeps the ETag.",
			"license":     api.Object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		[]any{api.Object{"url": issuer}}, tags, paths,
		api.Object{
			"headers": api.Object{
				"X-Request-Id":         header("Identifies the request in the server's log.", "string", true),
				"ETag":                 header("The version of the record, for If-Match.", "string", true),
				"Retry-After":          header("Seconds to wait before another attempt.", "integer", true),
				"WWW-Authenticate":     header("The challenge (RFC 6750 §3).", "string", false),
				"Tollhouse-Poll-After": header("Seconds between polls; wait is better.", "integer", false),
				"Link":                 header("rel=next for the next page (RFC 8288).", "string", false),
				"Tollhouse-Notice":     header("A cursor ahead of the server's clock.", "string", false),
			},
			"parameters": api.Object{
				"ifMatch":     precondition("If-Match", "The ETag that the record must have, or *.", `"7"`),
				"ifNoneMatch": precondition("If-None-Match", "With *, create only: an existing record is 412.", `*`),
			},
			"responses": api.Refusals(platformRefusals), "schemas": schemas,
			"securitySchemes": api.Object{"bearer": api.Object{"type": "http", "scheme": "bearer", "description": "The access token of a platform client, in the Authorization header."}},
		},
	})
}

func precondition(header, does, example string) api.Object {
	return api.Object{"name": header, "in": "header", "description": does, "schema": api.KindSchema("string", "", ""), "example": example}
}

var pathParam = regexp.MustCompile(`:([a-z_]+)`)
