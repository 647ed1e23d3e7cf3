package dev

import (
	"encoding/json"
	"net/http"
	"strconv"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

const journalPageMax = 1000 // entries

var journalFilters = []api.FormParam{
	{"method", "string", "The method.", `"POST"`, ""},
	{"path", "string", "The path; * and /** as in a fault.", `"/oauth/v2/token"`, ""},
	{"status", "integer", "The status.", `400`, `"minimum":0,"maximum":599`},
	{"client_id", "string", "The client.", `"demo"`, ""},
	{"grant_type", "string", "The grant.", `"refresh_token"`, ""},
	{"username", "string", "The user.", `"demo"`, ""},
	{"fault", "string", "The id of a fault.", `"flt_1"`, ""},
	{"notice", "boolean", "Only those answered with Tollhouse-Notice.", `true`, `"enum":[true]`},
	{"since", "integer", "Only those with a greater n.", `10`, `"minimum":0`},
	{"limit", "integer", "How many at most.", `100`, `"minimum":1,"maximum":1000,"default":1000`},
}

func (s *Server) journalEndpoints() []devEndpoint {
	return []devEndpoint{
		{id: "listRequests", method: "GET", path: "/requests", does: "lists the requests that came, the oldest first", query: journalFilters, example: "/requests?path=/oauth/v2/token",
			answers: []devAnswer{{200, "The requests.", "RequestList"}},
			serve:   s.listRequests},
		{id: "dropRequests", method: "DELETE", path: "/requests", does: "empties the list of requests", serve: s.dropRequests},
	}
}

var devJournalForms = []api.Form{
	{Name: "Request", Does: "A request as it came, secrets included. With --mask-journal, [masked:HHHHHHHH] replaces each password, secret, token, code, cookie and Authorization header: the first digits of its SHA-256.", Members: []api.FormMember{
		{"n", "integer!", "Counted from 1 since the last reset."},
		{"id", "string!", "X-Request-Id."},
		{"at", "string!", "By the instance's clock.", `"format":"date-time"`},
		{"method", "string!", "The method."},
		{"path", "string!", "Without the path of the public URL."},
		{"query", "object!", "Lists of values by name.", `"additionalProperties":{"type":"array","items":{"type":"string"}}`},
		{"headers", "object!", "Lists of values by name.", `"additionalProperties":{"type":"array","items":{"type":"string"}}`},
		{"body", "object|array|string|number|boolean", "A form or JSON as an object, anything else as a string; at most 4 KiB of what was read."},
		{"body_cut", "boolean", "Whether the body was longer."},
		{"status", "integer!", "0 for no answer."},
		{"error", "string", "The error code."},
		{"client_id", "string", "The client that the request names, or whose access token it has."},
		{"username", "string", "The user."},
		{"account", "string", "The account."},
		{"grant_type", "string", "The grant."},
		{"fault", "string", "The fault that hit it."},
		{"notices", "[]string", "Values of Tollhouse-Notice."},
		{"duration_ms", "number!", "Until the first byte of the answer; 0 while the clock stands."},
	}},
	{Name: "RequestList", Does: "Requests, the oldest first.", Example: `{"object":"list","data":[{"n":1,"id":"req_k5phyugrl7yiylttebwvewwddq","at":"2026-06-01T12:00:00.000Z","method":"POST","path":"/oauth/v2/token","query":{},"headers":{"Content-Type":["application/x-www-form-urlencoded"],"Host":["127.0.0.1:8655"]},"body":{"client_id":"demo","client_secret":"tollcs_DemoClientSecretThatEverybodyKnows0000000003NHca9","grant_type":"refresh_token","refresh_token":"wrong"},"status":400,"error":"invalid_grant","client_id":"demo","grant_type":"refresh_token","duration_ms":0}],"count":1,"dropped":0}`, Members: []api.FormMember{
		{"object", "string!", "Always list.", `"enum":["list"],"x-enum-varnames":["RequestListObject"]`},
		{"data", "[]Request!", "The requests."},
		{"count", "integer!", "All that match, before the limit."},
		{"dropped", "integer!", "Older ones that the bounds of the journal removed."},
	}},
}

// listRequests is GET /_dev/requests.
func (s *Server) listRequests(w http.ResponseWriter, r *http.Request) error {
	filter, limit, refused := parseJournalQuery(r)
	if refused != nil {
		return refused
	}
	found, count, dropped := s.controls.Journal.Find(filter, limit)
	if found == nil {
		found = []json.RawMessage{}
	}
	web.WriteJSON(w, http.StatusOK, struct {
		devList[json.RawMessage]
		Count   int   `json:"count"`
		Dropped int64 `json:"dropped"`
	}{devList[json.RawMessage]{"list", found}, count, dropped})
	return nil
}

// dropRequests is DELETE /_dev/requests.
func (s *Server) dropRequests(w http.ResponseWriter, _ *http.Request) error {
	s.controls.Journal.Clear()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// parseJournalQuery reads the filters; withQuery has refused unknown ones.
func parseJournalQuery(r *http.Request) (f Filter, limit int, refused *web.Problem) {
	pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return f, 0, refused
	}
	limit = journalPageMax
	for _, p := range pairs {
		var number int64
		switch p.Name {
		case "method":
			f.Method = p.Value
		case "path":
			f.Path = Pattern(p.Value)
		case "client_id":
			f.ClientID = p.Value
		case "grant_type":
			f.GrantType = p.Value
		case "username":
			f.Username = p.Value
		case "fault":
			f.Fault = p.Value
		case "status":
			number, refused = numberIn(p, 0, 599)
			status := int(number)
			f.Status = &status
		case "since":
			f.Since, refused = numberIn(p, 0, 1<<53)
		case "limit":
			number, refused = numberIn(p, 1, journalPageMax)
			limit = int(number)
		case "notice":
			f.Notice = true
			if p.Value != "true" {
				refused = web.InvalidRequest("notice must be true.").On("notice")
			}
		}
		if p.Value == "" {
			refused = web.InvalidRequest("%s must not be empty.", p.Name).On(p.Name)
		}
		if refused != nil {
			return f, 0, refused
		}
	}
	return f, limit, nil
}

func numberIn(p web.QueryPair, least, most int64) (int64, *web.Problem) {
	n, err := strconv.ParseInt(p.Value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, web.InvalidRequest("%s must be a number from %d to %d.", p.Name, least, most).On(p.Name)
	}
	return n, nil
}
