package dev

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/spelling"
)

const (
	faultDelayMax      = time.Minute
	faultCountMax      = 1_000_000_000
	faultRetryAfterMax = 86_400   // seconds
	faultHeadersMax    = 50       // of a rule
	faultHeaderSizeMax = 8 << 10  // bytes of a value
	faultTruncateMax   = 16 << 20 // bytes
)

func (s *Server) faultEndpoints(r *web.Router) []devEndpoint {
	return []devEndpoint{
		{id: "addFault", method: "POST", path: "/faults", does: "makes answers fail: a status, a lost or broken answer, a delay",
			body:  `{"match":{"path":"/oauth/v2/token"},"count":1,"do":{"status":503}}`,
			takes: "FaultRequest", needsBody: true, answers: []devAnswer{{201, "The fault.", "Fault"}}, refuses: []int{409},
			serve: func(w http.ResponseWriter, rq *http.Request) error { return s.addFault(w, rq, r) }},
		{id: "listFaults", method: "GET", path: "/faults", does: "lists the faults and what they have hit",
			answers: []devAnswer{{200, "The faults.", "FaultList"}},
			serve:   s.listFaults},
		{id: "findFault", method: "GET", path: "/faults/:id", does: "shows a fault", example: "/faults/flt_1",
			answers: []devAnswer{{200, "The fault.", "Fault"}}, refuses: []int{404},
			serve: s.findFault},
		{id: "dropFault", method: "DELETE", path: "/faults/:id", does: "removes a fault", example: "/faults/flt_1",
			refuses: []int{404},
			serve:   s.dropFault},
		{id: "dropFaults", method: "DELETE", path: "/faults", does: "removes all faults", serve: s.dropFaults},
	}
}

var devFaultForms = []api.Form{
	{Name: "FaultMatch", Does: "Which requests a fault is for. A missing member matches all; without a path, health checks and static files are left out.", Closed: true, Members: []api.FormMember{
		{"method", "string", "A preflight is matched only by OPTIONS."},
		{"path", "string", "Without the query and without the path of the public URL. * stands for a segment or a part of one, /** at the end for any rest."},
		{"client_id", "string", "The client that the request names, or whose access token it has."},
		{"grant_type", "string", "The grant of a token request."},
	}},
	{Name: "FaultAction", Does: "One of status, drop, truncate and malformed, or delay, or both.", Closed: true, Members: []api.FormMember{
		{"status", "integer", "Answers in place of the handler: 400 to 599, or 200 to 299 with a body.", `"minimum":200,"maximum":599`},
		{"body", "object|array|string", "Sent as it is. Without it, the product's own error of that status."},
		{"headers", "object", "More headers of the answer.", `"additionalProperties":{"type":"string"}`},
		{"retry_after", "integer", "Seconds of Retry-After; 1 for 429 and 503 when it is missing.", `"minimum":0`},
		{"drop", "string", "Closes the connection without a byte: request before the handler runs, answer after it.", `"enum":["request","answer"]`},
		{"truncate", "integer", "Closes the connection after so many bytes of the body.", `"minimum":0`},
		{"malformed", "boolean", "Sends the first half of the body only, with its Content-Length.", `"enum":[true]`},
		{"delay", "string|number", "Waits first, at most 60s: a duration such as 5s, or a number of seconds."},
	}},
	{Name: "FaultRequest", Does: "A fault.", Closed: true, Members: []api.FormMember{
		{"match", "FaultMatch", ""},
		{"skip", "integer", "How many matching requests pass first.", `"minimum":0`},
		{"count", "integer", "How many are hit then; all when it is missing.", `"minimum":1`},
		{"do", "FaultAction!", ""},
	}},
	{Name: "Fault", Does: "A fault and what it has seen.", Example: `{"id":"flt_1","match":{"path":"/oauth/v2/token"},"skip":0,"count":1,"do":{"status":503},"seen":0,"hits":0}`, Members: []api.FormMember{
		{"id", "string!", "Counted from 1 since the last reset."},
		{"match", "FaultMatch!", ""},
		{"skip", "integer!", "How many matching requests pass first."},
		{"count", "integer", "How many are hit then."},
		{"do", "FaultAction!", ""},
		{"seen", "integer!", "Matching requests that it was shown."},
		{"hits", "integer!", "Requests that it changed."},
	}},
	{Name: "FaultList", Does: "All faults in the order in which they were made.", Example: `{"object":"list","data":[{"id":"flt_1","match":{"path":"/oauth/v2/token"},"skip":0,"count":1,"do":{"status":503},"seen":0,"hits":0}]}`, Members: []api.FormMember{
		{"object", "string!", "Always list.", `"enum":["list"],"x-enum-varnames":["FaultListObject"]`},
		{"data", "[]Fault!", "The faults."},
	}},
}

// shownRule is a rule on the wire.
type shownRule struct {
	ID    string `json:"id"`
	Match Match  `json:"match"`
	Skip  int    `json:"skip"`
	Count *int   `json:"count,omitempty"`
	Do    Action `json:"do"`
	Seen  int    `json:"seen"`
	Hits  int    `json:"hits"`
}

func showRule(r Rule) shownRule {
	shown := shownRule{ID: r.ID, Match: r.Ask.Match, Skip: r.Ask.Skip, Do: r.Ask.Do, Seen: r.Seen, Hits: r.Hits}
	if r.Ask.Count > 0 {
		shown.Count = &r.Ask.Count
	}
	return shown
}

// addFault is POST /_dev/faults.
func (s *Server) addFault(w http.ResponseWriter, r *http.Request, routes *web.Router) error {
	var ask struct {
		Match Match  `json:"match"`
		Skip  *int   `json:"skip"`
		Count *int   `json:"count"`
		Do    Action `json:"do"`
	}
	if err := readDevBody(w, r, &ask); err != nil {
		return err
	}
	made := Ask{Match: ask.Match, Do: ask.Do}
	if ask.Skip != nil {
		made.Skip = *ask.Skip
	}
	if ask.Count != nil {
		made.Count = *ask.Count
	}
	switch {
	case made.Skip < 0 || made.Skip > faultCountMax:
		return web.InvalidRequest("skip must be a number from 0 to %d.", faultCountMax).On("skip")
	case ask.Count != nil && (made.Count < 1 || made.Count > faultCountMax):
		return web.InvalidRequest("count must be a number from 1 to %d; leave it out to hit all.", faultCountMax).On("count")
	}
	if refused := checkMatch(routes, made.Match); refused != nil {
		return refused
	}
	if refused := checkAction(made.Do); refused != nil {
		return refused
	}
	rule, err := s.controls.Faults.Add(made)
	if errors.Is(err, ErrTooManyRules) {
		return web.NewProblem(http.StatusConflict, "conflict", "There are %d faults already; remove some with DELETE /_dev/faults.", RulesMax).Because(err)
	}
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusCreated, showRule(rule))
	return nil
}

// listFaults is GET /_dev/faults.
func (s *Server) listFaults(w http.ResponseWriter, _ *http.Request) error {
	rules := s.controls.Faults.List()
	shown := make([]shownRule, len(rules))
	for i, r := range rules {
		shown[i] = showRule(r)
	}
	writeDevList(w, http.StatusOK, shown)
	return nil
}

// findFault is GET /_dev/faults/ID.
func (s *Server) findFault(w http.ResponseWriter, r *http.Request) error {
	rule, ok := s.controls.Faults.Find(web.PathParam(r, "id"))
	if !ok {
		return unknownFault()
	}
	web.WriteJSON(w, http.StatusOK, showRule(rule))
	return nil
}

// dropFault is DELETE /_dev/faults/ID.
func (s *Server) dropFault(w http.ResponseWriter, r *http.Request) error {
	if !s.controls.Faults.Remove(web.PathParam(r, "id")) {
		return unknownFault()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// dropFaults is DELETE /_dev/faults.
func (s *Server) dropFaults(w http.ResponseWriter, _ *http.Request) error {
	s.controls.Faults.Clear()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func unknownFault() *web.Problem {
	return web.NewProblem(http.StatusNotFound, "not_found", "Unknown fault; GET /_dev/faults lists them.")
}

// checkMatch refuses a rule that can never hit a request.
func checkMatch(r *web.Router, m Match) *web.Problem {
	for _, member := range []struct {
		name  string
		value *string
	}{{"match.client_id", m.ClientID}, {"match.grant_type", m.GrantType}, {"match.method", m.Method}} {
		if member.value != nil && *member.value == "" {
			return web.InvalidRequest("%s must not be empty.", member.name).On(member.name)
		}
	}
	methods := r.MethodsAt("")
	if m.Path != nil {
		if refused := checkPath(r, *m.Path); refused != nil {
			return refused
		}
		if !m.Path.HasWildcard() {
			methods = r.MethodsAt(string(*m.Path))
		}
	}
	if m.Method == nil || slices.Contains(methods, *m.Method) {
		return nil
	}
	shown := web.PlainWords(web.ShownName(*m.Method))
	if near, ok := spelling.Nearest(*m.Method, slices.Values(methods)); ok {
		return web.InvalidRequest("No route with this path has the method %s; did you mean %s?", shown, near).On("match.method")
	}
	return web.InvalidRequest("No route with this path has the method %s; there are %s.", shown, strings.Join(methods, ", ")).On("match.method")
}

func checkPath(r *web.Router, p Pattern) *web.Problem {
	path, shown := string(p), web.PlainWords(web.ShownName(string(p)))
	switch {
	case !strings.HasPrefix(path, "/"):
		return web.InvalidRequest("match.path must begin with a slash.").On("match.path")
	case strings.Contains(strings.TrimSuffix(path, "/**"), "**"):
		return web.InvalidRequest("match.path may have /** at its end only.").On("match.path")
	case web.IsDevPath(path):
		return web.InvalidRequest("Faults never hit the controls below %s.", web.DevPath).On("match.path")
	case p.HasWildcard() || len(r.MethodsAt(path)) > 0:
		return nil
	}
	if near, ok := spelling.Nearest(path, r.PathsLike(path)); ok {
		return web.InvalidRequest("No route has the path %s; did you mean %s?", shown, near).On("match.path")
	}
	return web.InvalidRequest("No route has the path %s; give it without the query and without the path of the public URL.", shown).On("match.path")
}

// checkAction refuses an action that is none, or several.
func checkAction(a Action) *web.Problem {
	given := 0
	for _, is := range []bool{a.Status != nil, a.Drop != nil, a.Truncate != nil, a.Malformed != nil} {
		if is {
			given++
		}
	}
	delay := a.Wait()
	switch {
	case given > 1:
		return web.InvalidRequest("do must have only one of status, drop, truncate and malformed.").On("do")
	case given == 0 && a.Delay == nil:
		return web.InvalidRequest("do must have status, drop, truncate, malformed or delay.").On("do")
	case a.Delay != nil && (delay <= 0 || delay > faultDelayMax):
		return web.InvalidRequest("do.delay must be more than 0 and at most %s.", faultDelayMax).On("do.delay")
	case a.Drop != nil && *a.Drop != DropRequest && *a.Drop != DropAnswer:
		return web.InvalidRequest("do.drop must be request or answer.").On("do.drop")
	case a.Truncate != nil && (*a.Truncate < 0 || *a.Truncate > faultTruncateMax):
		return web.InvalidRequest("do.truncate must be a number from 0 to %d.", faultTruncateMax).On("do.truncate")
	case a.Malformed != nil && !*a.Malformed:
		return web.InvalidRequest("do.malformed must be true.").On("do.malformed")
	}
	return checkStatus(a)
}

func checkStatus(a Action) *web.Problem {
	if a.Status == nil {
		switch {
		case a.Body != nil:
			return web.InvalidRequest("do.body needs do.status.").On("do.body")
		case a.Headers != nil:
			return web.InvalidRequest("do.headers needs do.status.").On("do.headers")
		case a.RetryAfter != nil:
			return web.InvalidRequest("do.retry_after needs do.status.").On("do.retry_after")
		}
		return nil
	}
	status := *a.Status
	switch {
	case status >= 200 && status <= 299 && a.Body == nil:
		return web.InvalidRequest("do.status %d needs do.body.", status).On("do.body")
	case status < 200 || status > 299 && status < 400 || status > 599:
		return web.InvalidRequest("do.status must be a number from 400 to 599, or from 200 to 299 with do.body.").On("do.status")
	case a.RetryAfter != nil && (*a.RetryAfter < 0 || *a.RetryAfter > faultRetryAfterMax):
		return web.InvalidRequest("do.retry_after must be a number of seconds from 0 to %d.", faultRetryAfterMax).On("do.retry_after")
	case a.Body != nil && a.Body[0] != '{' && a.Body[0] != '[' && a.Body[0] != '"':
		return web.InvalidRequest("do.body must be an object, a list or a string.").On("do.body")
	case len(a.Headers) > faultHeadersMax:
		return web.InvalidRequest("do.headers must have at most %d fields.", faultHeadersMax).On("do.headers")
	}
	for _, name := range web.SortedNames(a.Headers) {
		if !isHeaderName(name) || !isHeaderValue(a.Headers[name]) {
			return web.InvalidRequest("do.headers has a field that cannot be sent.").On("do.headers." + web.PlainWords(web.ShownName(name)))
		}
	}
	return nil
}

// headersOfOurs are set by the server for each answer.
var headersOfOurs = []string{"Connection", "Content-Length", "Date", "Tollhouse-Fault", "Trailer", "Transfer-Encoding", "Upgrade", "X-Request-Id"}

// isHeaderName reports whether text is a token (RFC 9110 §5.6.2) that a rule may set.
func isHeaderName(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return text != "" && !slices.Contains(headersOfOurs, http.CanonicalHeaderKey(text))
}

func isHeaderValue(text string) bool {
	return len(text) <= faultHeaderSizeMax && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// faultBody returns the body that a rule sends and its media type.
func faultBody(body json.RawMessage) (text []byte, mediaType string) {
	if body[0] != '"' {
		return body, web.AsJSON
	}
	var plain string
	_ = json.Unmarshal(body, &plain) // it was checked when the rule was made
	return []byte(plain), "text/plain; charset=utf-8"
}
