package handlers

import (
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

const (
	webhooksPath = "/api/webhook-endpoints"
	webhookKind  = "webhook_endpoint" // of the events about them
)

const mergePatchType = "application/merge-patch+json" // RFC 7396 §4

// putResource is PUT /api/resources/:kind/:id.
func (s *Server) putResource(w http.ResponseWriter, r *http.Request) error {
	return s.changeResource(w, r, "application/json", s.store.PutResource)
}

// patchResource is PATCH /api/resources/:kind/:id: a merge patch.
func (s *Server) patchResource(w http.ResponseWriter, r *http.Request) error {
	return s.changeResource(w, r, mergePatchType, s.store.PatchResource)
}

func (s *Server) changeResource(w http.ResponseWriter, r *http.Request, mediaType string, change func(context.Context, eventlog.ResourceChange, snapshot.Value) (eventlog.Changed, error)) error {
	c, err := parseResourceChange(r)
	if err != nil {
		return err
	}
	if err := requireMediaType(r, mediaType); err != nil {
		return err
	}
	text, err := readBody(w, r)
	if err != nil {
		return err
	}
	// The body may have arrived long after its header.
	if err := s.aliveToken(r, store.ScopeResourcesWrite)(); err != nil {
		return err
	}
	body, err := snapshot.Parse(text, snapshot.DepthMax)
	if err != nil {
		return resourceProblem(err)
	}
	changed, err := change(r.Context(), c, body)
	if err != nil {
		return resourceProblem(err)
	}
	writeChanged(w, r, changed)
	status := http.StatusOK
	if changed.Created {
		status = http.StatusCreated
		w.Header().Set("Location", s.base+"/api/resources/"+c.Kind+"/"+c.ID)
	}
	// The change is committed, so it is answered even without room in the budget.
	factsFrom(r.Context()).demand.try(answerBudget, int64(len(changed.JSON)-answerSizeFree))
	writeBody(w, status, "application/json", changed.JSON)
	return nil
}

// deleteResource is DELETE /api/resources/:kind/:id.
func (s *Server) deleteResource(w http.ResponseWriter, r *http.Request) error {
	if refused := refuseQuery(r); refused != nil {
		return refused
	}
	c, err := parseResourceChange(r)
	if err != nil {
		return err
	}
	changed, err := s.store.DeleteResource(r.Context(), c)
	if err != nil {
		return resourceProblem(err)
	}
	writeChanged(w, r, changed)
	w.Header().Del("ETag") // the version is gone
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeChanged sends the resource's version and the recorded event, if any.
func writeChanged(w http.ResponseWriter, r *http.Request, changed eventlog.Changed) {
	w.Header().Set("ETag", entityTag(changed.Event))
	event := changed.Recorded
	if event == "" {
		event = "none"
	}
	w.Header().Set("Tollhouse-Event", event)
	note(r.Context(), slog.String("event_id", event))
}

// findResource is GET /api/resources/:kind/:id.
func (s *Server) findResource(w http.ResponseWriter, r *http.Request) error {
	if refused := refuseQuery(r); refused != nil {
		return refused
	}
	if !acceptsJSON(r) {
		return notAcceptable()
	}
	resource, err := s.store.FindResource(r.Context(), principalFrom(r.Context()).Account, pathParam(r, "kind"), pathParam(r, "id"))
	if err != nil {
		return resourceProblem(err)
	}
	if notModified(w, r, entityTag(resource.Event)) {
		return nil
	}
	if err := factsFrom(r.Context()).demand.settle(r.Context(), len(resource.JSON)); err != nil {
		return err
	}
	writeBody(w, http.StatusOK, "application/json", resource.JSON)
	return nil
}

// listResources is GET /api/resources/:kind. Its cursors are ids of resources.
func (s *Server) listResources(w http.ResponseWriter, r *http.Request) error {
	kind := pathParam(r, "kind")
	if !eventlog.IsKind(kind) {
		return newProblem(http.StatusNotFound, "not_found", "Not a valid kind of resource.")
	}
	after, limit, refused := parseResourceQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	if !acceptsJSON(r) {
		return notAcceptable()
	}
	buffer := takeBuffer()
	defer func() { buffer.release() }()
	d := &factsFrom(r.Context()).demand
	page, err := s.store.ListResources(r.Context(), principalFrom(r.Context()).Account, kind, after, limit, d.fits, append(buffer.b, listOpening...))
	buffer.b = page.Data
	if err != nil {
		return err
	}
	if err := d.settle(r.Context(), len(buffer.b)); err != nil {
		return err
	}
	first, last := page.First, page.Last
	if last == "" {
		last = after
	}
	if first == "" {
		first = last
	}
	buffer.b = appendListEnd(buffer.b, page.More, last, first)
	buffer = buffer.fit()
	writeBody(w, http.StatusOK, "application/json", buffer.b)
	return nil
}

func parseResourceQuery(raw string) (after string, limit int, refused *problem) {
	pairs, refused := parseAPIQuery(raw)
	if refused != nil {
		return "", 0, refused
	}
	limit = eventsLimitDefault
	known := []string{"after", "limit"}
	var seen []string
	for _, pair := range pairs {
		switch {
		case !slices.Contains(known, pair.name):
			return "", 0, unknownParameter(pair.name, nil, known)
		case slices.Contains(seen, pair.name):
			return "", 0, duplicateParameter(pair.name)
		case pair.name == "after":
			if !eventlog.IsID(pair.value) {
				return "", 0, invalidCursor("after", "must be the id of a resource")
			}
			after = pair.value
		default:
			if limit, refused = parseLimit(pair.value); refused != nil {
				return "", 0, refused
			}
		}
		seen = append(seen, pair.name)
	}
	return after, limit, nil
}

// parseResourceChange parses a change without its body.
func parseResourceChange(r *http.Request) (eventlog.ResourceChange, error) {
	p := principalFrom(r.Context())
	c := eventlog.ResourceChange{
		Owner: p.Account, Kind: pathParam(r, "kind"), ID: pathParam(r, "id"),
		Source: actor(p), Location: "api",
	}
	if !eventlog.IsKind(c.Kind) {
		return c, invalidParameter("kind", eventlog.KindRule+".")
	}
	if c.Kind == webhookKind {
		return c, newProblem(http.StatusBadRequest, "reserved_kind", "Webhook endpoints are changed at %s.", webhooksPath).on("kind")
	}
	if !eventlog.IsID(c.ID) {
		return c, invalidParameter("id", "must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -.")
	}
	if refused := parseAction(r, &c); refused != nil {
		return c, refused
	}
	if refused := parseCondition(r, &c.Condition); refused != nil {
		return c, refused
	}
	return c, nil
}

// actor returns the source of an event.
func actor(p store.Principal) string {
	switch {
	case p.Username != "":
		return p.Username
	case p.ClientName != "":
		return p.ClientName
	}
	return "system"
}

func parseAction(r *http.Request, c *eventlog.ResourceChange) *problem {
	pairs, refused := parseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	action, given, rest, refused := takePair(pairs, "action")
	switch {
	case refused != nil:
		return refused
	case len(rest) > 0:
		return unknownParameter(rest[0].name, nil, []string{"action"})
	case !given:
		return nil
	case slices.Contains([]string{"created", "updated", "deleted"}, action):
		return invalidParameter("action", "cannot be %s: such events are recorded automatically.", action)
	case !eventlog.IsAction(action):
		return invalidParameter("action", "must have 1 to 48 characters of a-z, 0-9 and _, the first a letter.")
	}
	c.Action = action
	return nil
}

// parseCondition reads If-Match and If-None-Match (RFC 9110 §13.1).
func parseCondition(r *http.Request, c *eventlog.Condition) *problem {
	if given := r.Header.Values("If-Match"); len(given) > 0 {
		star, tags, ok := parseEntityTags(given)
		if !ok {
			return brokenTags("If-Match")
		}
		c.Exists = star
		if !star {
			c.OneOf = []string{} // a weak tag matches nothing
			for _, tag := range tags {
				if !strings.HasPrefix(tag, "W/") {
					c.OneOf = append(c.OneOf, versionsIn(tag)...)
				}
			}
		}
	}
	if given := r.Header.Values("If-None-Match"); len(given) > 0 {
		star, tags, ok := parseEntityTags(given)
		if !ok {
			return brokenTags("If-None-Match")
		}
		c.Absent = star
		for _, tag := range tags {
			c.NoneOf = append(c.NoneOf, versionsIn(tag)...)
		}
	}
	return nil
}

func brokenTags(header string) *problem {
	return invalidRequest(`The header %s must contain entity tags in double quotes, such as "evt_…", or *.`, header)
}

// requireMediaType refuses other media types and encodings.
func requireMediaType(r *http.Request, want string) error {
	wrong := func(format string, args ...any) error {
		p := newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", format, args...)
		if want == mergePatchType {
			p.with("Accept-Patch", mergePatchType)
		}
		return p
	}
	if r.Header.Get("Content-Encoding") != "" {
		return wrong("Compressed bodies are not accepted; send it without Content-Encoding.")
	}
	got, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || got != want {
		return wrong("The Content-Type must be %s.", want)
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return wrong("JSON must be UTF-8; leave the charset out.")
	}
	return nil
}

// resourceProblem maps the store's errors to problems.
func resourceProblem(err error) error {
	var doc *snapshot.Error
	switch {
	case errors.As(err, &doc):
		return documentProblem(doc)
	case errors.Is(err, record.ErrNotFound):
		return newProblem(http.StatusNotFound, "not_found", "The resource does not exist.").because(err)
	case errors.Is(err, eventlog.ErrPrecondition):
		return newProblem(http.StatusPreconditionFailed, "precondition_failed", "The resource does not meet If-Match or If-None-Match; read it again and retry.").because(err)
	}
	return err
}

// documentProblem maps a JSON error to its status and code.
func documentProblem(e *snapshot.Error) *problem {
	status, code := http.StatusBadRequest, "invalid_json"
	switch e.Fault {
	case snapshot.TooLarge:
		status, code = http.StatusRequestEntityTooLarge, "too_large"
	case snapshot.UnknownField:
		code = "unknown_field"
	case snapshot.InvalidField:
		code = "invalid_field"
	case snapshot.SensitiveField:
		code = "sensitive_data"
	case snapshot.MismatchedField:
		status, code = http.StatusConflict, "conflict"
	}
	return newProblem(status, code, "%s", sentence(e.Reason)).on(e.Path)
}

// sentence turns a reason of the store into a sentence. A field name at its start keeps
// its case.
func sentence(reason string) string {
	if strings.HasPrefix(reason, "the ") {
		reason = "T" + reason[1:]
	}
	if strings.HasSuffix(reason, "?") {
		return reason
	}
	return reason + "."
}
