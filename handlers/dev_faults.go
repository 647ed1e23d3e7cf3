package handlers

import (
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/testers"
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

func (s *Server) devFaultEndpoints(r *router) []devEndpoint {
	return []devEndpoint{
		{method: "POST", path: "/faults", does: "makes answers fail: a status, a lost or broken answer, a delay",
			body:  `{"match":{"path":"/oauth/v2/token"},"count":1,"do":{"status":503}}`,
			serve: func(w http.ResponseWriter, rq *http.Request) error { return s.addFault(w, rq, r) }},
		{method: "GET", path: "/faults", does: "lists the faults and what they have hit", serve: s.listFaults},
		{method: "GET", path: "/faults/:id", does: "shows a fault", example: "/faults/flt_1", serve: s.findFault},
		{method: "DELETE", path: "/faults/:id", does: "removes a fault", example: "/faults/flt_1", serve: s.dropFault},
		{method: "DELETE", path: "/faults", does: "removes all faults", serve: s.dropFaults},
	}
}

// shownRule is a rule on the wire.
type shownRule struct {
	ID    string         `json:"id"`
	Match testers.Match  `json:"match"`
	Skip  int            `json:"skip"`
	Count *int           `json:"count,omitempty"`
	Do    testers.Action `json:"do"`
	Seen  int            `json:"seen"`
	Hits  int            `json:"hits"`
}

func showRule(r testers.Rule) shownRule {
	shown := shownRule{ID: r.ID, Match: r.Ask.Match, Skip: r.Ask.Skip, Do: r.Ask.Do, Seen: r.Seen, Hits: r.Hits}
	if r.Ask.Count > 0 {
		shown.Count = &r.Ask.Count
	}
	return shown
}

// addFault is POST /_dev/faults.
func (s *Server) addFault(w http.ResponseWriter, r *http.Request, routes *router) error {
	var ask struct {
		Match testers.Match  `json:"match"`
		Skip  *int           `json:"skip"`
		Count *int           `json:"count"`
		Do    testers.Action `json:"do"`
	}
	if err := readDevBody(w, r, &ask); err != nil {
		return err
	}
	made := testers.Ask{Match: ask.Match, Do: ask.Do}
	if ask.Skip != nil {
		made.Skip = *ask.Skip
	}
	if ask.Count != nil {
		made.Count = *ask.Count
	}
	switch {
	case made.Skip < 0 || made.Skip > faultCountMax:
		return invalidRequest("skip must be a number from 0 to %d.", faultCountMax).on("skip")
	case ask.Count != nil && (made.Count < 1 || made.Count > faultCountMax):
		return invalidRequest("count must be a number from 1 to %d; leave it out to hit all.", faultCountMax).on("count")
	}
	if refused := routes.checkMatch(made.Match); refused != nil {
		return refused
	}
	if refused := checkAction(made.Do); refused != nil {
		return refused
	}
	rule, err := s.dev.Faults.Add(made)
	if errors.Is(err, testers.ErrTooManyRules) {
		return newProblem(http.StatusConflict, "conflict", "There are %d faults already; remove some with DELETE /_dev/faults.", testers.RulesMax).because(err)
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, showRule(rule))
	return nil
}

// listFaults is GET /_dev/faults.
func (s *Server) listFaults(w http.ResponseWriter, _ *http.Request) error {
	rules := s.dev.Faults.List()
	shown := make([]shownRule, len(rules))
	for i, r := range rules {
		shown[i] = showRule(r)
	}
	writeDevList(w, http.StatusOK, shown)
	return nil
}

// findFault is GET /_dev/faults/ID.
func (s *Server) findFault(w http.ResponseWriter, r *http.Request) error {
	rule, ok := s.dev.Faults.Find(pathParam(r, "id"))
	if !ok {
		return unknownFault()
	}
	writeJSON(w, http.StatusOK, showRule(rule))
	return nil
}

// dropFault is DELETE /_dev/faults/ID.
func (s *Server) dropFault(w http.ResponseWriter, r *http.Request) error {
	if !s.dev.Faults.Remove(pathParam(r, "id")) {
		return unknownFault()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// dropFaults is DELETE /_dev/faults.
func (s *Server) dropFaults(w http.ResponseWriter, _ *http.Request) error {
	s.dev.Faults.Clear()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func unknownFault() *problem {
	return newProblem(http.StatusNotFound, "not_found", "Unknown fault; GET /_dev/faults lists them.")
}

// checkMatch refuses a rule that can never hit a request.
func (r *router) checkMatch(m testers.Match) *problem {
	for _, member := range []struct {
		name  string
		value *string
	}{{"match.client_id", m.ClientID}, {"match.grant_type", m.GrantType}, {"match.method", m.Method}} {
		if member.value != nil && *member.value == "" {
			return invalidRequest("%s must not be empty.", member.name).on(member.name)
		}
	}
	methods := r.methodsAt("")
	if m.Path != nil {
		if refused := r.checkPath(*m.Path); refused != nil {
			return refused
		}
		if !m.Path.HasWildcard() {
			methods = r.methodsAt(string(*m.Path))
		}
	}
	if m.Method == nil || slices.Contains(methods, *m.Method) {
		return nil
	}
	shown := plainWords(shownName(*m.Method))
	if near, ok := spelling.Nearest(*m.Method, slices.Values(methods)); ok {
		return invalidRequest("No route with this path has the method %s; did you mean %s?", shown, near).on("match.method")
	}
	return invalidRequest("No route with this path has the method %s; there are %s.", shown, strings.Join(methods, ", ")).on("match.method")
}

func (r *router) checkPath(p testers.Pattern) *problem {
	path, shown := string(p), plainWords(shownName(string(p)))
	switch {
	case !strings.HasPrefix(path, "/"):
		return invalidRequest("match.path must begin with a slash.").on("match.path")
	case strings.Contains(strings.TrimSuffix(path, "/**"), "**"):
		return invalidRequest("match.path may have /** at its end only.").on("match.path")
	case isDevPath(path):
		return invalidRequest("Faults never hit the controls below %s.", DevPath).on("match.path")
	case p.HasWildcard() || len(r.methodsAt(path)) > 0:
		return nil
	}
	if near, ok := spelling.Nearest(path, r.pathsLike(path)); ok {
		return invalidRequest("No route has the path %s; did you mean %s?", shown, near).on("match.path")
	}
	return invalidRequest("No route has the path %s; give it without the query and without the path of the public URL.", shown).on("match.path")
}

// checkAction refuses an action that is none, or several.
func checkAction(a testers.Action) *problem {
	given := 0
	for _, is := range []bool{a.Status != nil, a.Drop != nil, a.Truncate != nil, a.Malformed != nil} {
		if is {
			given++
		}
	}
	delay := a.Wait()
	switch {
	case given > 1:
		return invalidRequest("do must have only one of status, drop, truncate and malformed.").on("do")
	case given == 0 && a.Delay == nil:
		return invalidRequest("do must have status, drop, truncate, malformed or delay.").on("do")
	case a.Delay != nil && (delay <= 0 || delay > faultDelayMax):
		return invalidRequest("do.delay must be more than 0 and at most %s.", faultDelayMax).on("do.delay")
	case a.Drop != nil && *a.Drop != testers.DropRequest && *a.Drop != testers.DropAnswer:
		return invalidRequest("do.drop must be request or answer.").on("do.drop")
	case a.Truncate != nil && (*a.Truncate < 0 || *a.Truncate > faultTruncateMax):
		return invalidRequest("do.truncate must be a number from 0 to %d.", faultTruncateMax).on("do.truncate")
	case a.Malformed != nil && !*a.Malformed:
		return invalidRequest("do.malformed must be true.").on("do.malformed")
	}
	return checkStatus(a)
}

func checkStatus(a testers.Action) *problem {
	if a.Status == nil {
		switch {
		case a.Body != nil:
			return invalidRequest("do.body needs do.status.").on("do.body")
		case a.Headers != nil:
			return invalidRequest("do.headers needs do.status.").on("do.headers")
		case a.RetryAfter != nil:
			return invalidRequest("do.retry_after needs do.status.").on("do.retry_after")
		}
		return nil
	}
	status := *a.Status
	switch {
	case status >= 200 && status <= 299 && a.Body == nil:
		return invalidRequest("do.status %d needs do.body.", status).on("do.body")
	case status < 200 || status > 299 && status < 400 || status > 599:
		return invalidRequest("do.status must be a number from 400 to 599, or from 200 to 299 with do.body.").on("do.status")
	case a.RetryAfter != nil && (*a.RetryAfter < 0 || *a.RetryAfter > faultRetryAfterMax):
		return invalidRequest("do.retry_after must be a number of seconds from 0 to %d.", faultRetryAfterMax).on("do.retry_after")
	case a.Body != nil && a.Body[0] != '{' && a.Body[0] != '[' && a.Body[0] != '"':
		return invalidRequest("do.body must be an object, a list or a text.").on("do.body")
	case len(a.Headers) > faultHeadersMax:
		return invalidRequest("do.headers must have at most %d fields.", faultHeadersMax).on("do.headers")
	}
	for _, name := range sortedNames(a.Headers) {
		if !isHeaderName(name) || !isHeaderValue(a.Headers[name]) {
			return invalidRequest("do.headers has a field that cannot be sent.").on("do.headers." + plainWords(shownName(name)))
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
		return body, asJSON
	}
	var plain string
	_ = json.Unmarshal(body, &plain) // it was checked when the rule was made
	return []byte(plain), "text/plain; charset=utf-8"
}

// route is a registered route.
type route struct {
	method, template string
	isPage           bool
}

// at returns the template with its parameters as they are in the path, and whether that
// is the path.
func (t route) at(path string) (filled string, is bool) {
	segments, of := strings.Split(t.template, "/"), strings.Split(path, "/")
	for i, segment := range segments {
		switch {
		case strings.HasPrefix(segment, "*"):
			return strings.Join(append(segments[:i], of[min(i, len(of)):]...), "/"), i < len(of) && slices.Equal(segments[:i], of[:i])
		case strings.HasPrefix(segment, ":") && i < len(of) && of[i] != "":
			segments[i] = of[i]
		}
	}
	filled = strings.Join(segments, "/")
	return filled, filled == path
}

// routeOf returns the route of a request, or none.
func (r *router) routeOf(method, path string) (found route) {
	for _, candidate := range r.routes {
		if _, is := candidate.at(path); is && candidate.method == method {
			return candidate
		}
	}
	return route{}
}

// methodsAt returns the methods of a path, or of all routes for "".
func (r *router) methodsAt(path string) (methods []string) {
	for _, candidate := range r.routes {
		if _, is := candidate.at(path); (is || path == "") && !slices.Contains(methods, candidate.method) {
			methods = append(methods, candidate.method)
		}
	}
	if len(methods) > 0 {
		methods = append(methods, http.MethodOptions)
	}
	return methods
}

// pathsLike returns the paths of all routes but the controls', with the parameters of
// the given path.
func (r *router) pathsLike(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, candidate := range r.routes {
			filled, _ := candidate.at(path)
			if !isDevPath(filled) && !yield(filled) {
				return
			}
		}
	}
}
