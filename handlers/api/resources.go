package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

const (
	WebhooksPath = "/api/webhook-endpoints"
	webhookKind  = "webhook_endpoint" // of the events about them
)

// patchTypes are the media types of a merge patch. Our choice: plain JSON is one too,
// because axios, fetch wrappers and requests send it.
var patchTypes = []string{web.MergePatchType, web.AsJSON}

// putResource is PUT /api/resources/:kind/:id.
func (s *Server) putResource(w http.ResponseWriter, r *http.Request) error {
	return s.changeResource(w, r, s.site.Store.Events.PutResource, web.AsJSON)
}

// patchResource is PATCH /api/resources/:kind/:id: a merge patch.
func (s *Server) patchResource(w http.ResponseWriter, r *http.Request) error {
	return s.changeResource(w, r, s.site.Store.Events.PatchResource, patchTypes...)
}

func (s *Server) changeResource(w http.ResponseWriter, r *http.Request, change func(context.Context, eventlog.ResourceChange, snapshot.Value) (eventlog.Changed, error), mediaTypes ...string) error {
	c, err := s.parseResourceChange(r)
	if err != nil {
		return err
	}
	text, err := web.ReadJSON(w, r, false, mediaTypes...)
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
	writeChanged(w, r, c.Owner, changed)
	for _, miss := range s.site.Store.Events.Rules().NearMisses(c.Kind, body) {
		w.Header().Add("Tollhouse-Notice", fmt.Sprintf("%s is not a field of kind %s; did you mean %s?", web.PlainWords(web.ShownName(miss.Name)), c.Kind, miss.Field))
	}
	status := http.StatusOK
	if changed.Created {
		status = http.StatusCreated
		w.Header().Set("Location", s.site.Base()+"/api/resources/"+c.Kind+"/"+c.ID)
	}
	// The change is committed, so it is answered even without room in the budget.
	web.FactsFrom(r.Context()).Lease.Try(web.AnswerBudget, int64(len(changed.JSON)-web.AnswerSizeFree))
	web.WriteBody(w, status, "application/json", changed.JSON)
	return nil
}

// deleteResource is DELETE /api/resources/:kind/:id.
func (s *Server) deleteResource(w http.ResponseWriter, r *http.Request) error {
	if refused := RefuseQuery(r); refused != nil {
		return refused
	}
	c, err := s.parseResourceChange(r)
	if err != nil {
		return err
	}
	changed, err := s.site.Store.Events.DeleteResource(r.Context(), c)
	if err != nil {
		return resourceProblem(err)
	}
	writeChanged(w, r, c.Owner, changed)
	w.Header().Del("ETag") // the version is gone
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeChanged sends the resource's version and the recorded event, if any.
func writeChanged(w http.ResponseWriter, r *http.Request, account string, changed eventlog.Changed) {
	w.Header().Set("ETag", web.EventTag(account, changed.Event))
	event := changed.Recorded
	if event == "" {
		event = "none"
	}
	w.Header().Set("Tollhouse-Event", event)
	web.Note(r.Context(), slog.String("event_id", event))
}

func keysOfResource(r *http.Request, account string) [][]byte {
	return eventlog.KeysOfResource(account, web.PathParam(r, "kind"), web.PathParam(r, "id"))
}

// findResource is GET /api/resources/:kind/:id.
func (s *Server) findResource(w http.ResponseWriter, r *http.Request) error {
	if refused := RefuseQuery(r); refused != nil {
		return refused
	}
	if !web.AcceptsJSON(r) {
		return web.NotAcceptable()
	}
	account := web.PrincipalFrom(r.Context()).Account
	resource, err := s.site.Store.Events.FindResource(r.Context(), account, web.PathParam(r, "kind"), web.PathParam(r, "id"))
	if err != nil {
		return resourceProblem(err)
	}
	if web.EventNotModified(w, r, account, resource.Event) {
		return nil
	}
	if err := web.FactsFrom(r.Context()).Lease.Settle(r.Context(), len(resource.JSON)); err != nil {
		return err
	}
	web.WriteBody(w, http.StatusOK, "application/json", resource.JSON)
	return nil
}

// listResources is GET /api/resources/:kind. Its cursors are ids of resources.
func (s *Server) listResources(w http.ResponseWriter, r *http.Request) error {
	kind := web.PathParam(r, "kind")
	if !eventlog.IsKind(kind) {
		return web.NewProblem(http.StatusNotFound, "not_found", "Not a valid kind of resource.")
	}
	after, limit, refused := parseResourceQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	if !web.AcceptsJSON(r) {
		return web.NotAcceptable()
	}
	buffer := TakeBuffer()
	defer func() { buffer.Release() }()
	d := &web.FactsFrom(r.Context()).Lease
	page, err := s.site.Store.Events.SearchResources(r.Context(), web.PrincipalFrom(r.Context()).Account, kind, after, limit, d.Fits, s.SearchFor, append(buffer.B, listOpening...))
	buffer.B = page.Data
	if err != nil {
		return err
	}
	if err := d.Settle(r.Context(), len(buffer.B)); err != nil {
		return err
	}
	first, last := page.First, page.Last
	if last == "" {
		last = after
	}
	if first == "" {
		first = last
	}
	buffer.B = appendListEnd(buffer.B, page.More, last, first)
	buffer = buffer.fit()
	web.WriteBody(w, http.StatusOK, "application/json", buffer.B)
	return nil
}

func parseResourceQuery(raw string) (after string, limit int, refused *web.Problem) {
	values, refused := web.ParseSingle(raw, "after", "limit")
	if refused != nil {
		return "", 0, refused
	}
	after, given := values["after"]
	if given && !eventlog.IsID(after) {
		return "", 0, invalidCursor("after", "must be the id of a resource")
	}
	limit = EventsLimitDefault
	if text, given := values["limit"]; given {
		if limit, refused = ParseLimit(text); refused != nil {
			return "", 0, refused
		}
	}
	return after, limit, nil
}

// parseResourceChange parses a change without its body.
func (s *Server) parseResourceChange(r *http.Request) (eventlog.ResourceChange, error) {
	p := web.PrincipalFrom(r.Context())
	c := eventlog.ResourceChange{Owner: p.Account, Kind: web.PathParam(r, "kind"), ID: web.PathParam(r, "id")}
	c.Source, c.Location = sourceOf(r, p)
	c.Live, c.Platform = s.site.Store.LiveIn(p, needing(store.ScopeResourcesWrite)), p.Platform
	if !eventlog.IsKind(c.Kind) {
		return c, web.InvalidParameter("kind", eventlog.KindRule+".")
	}
	if c.Kind == webhookKind {
		return c, web.NewProblem(http.StatusBadRequest, "reserved_kind", "Webhook endpoints are changed at %s.", WebhooksPath).On("kind")
	}
	if !eventlog.IsID(c.ID) {
		return c, web.InvalidParameter("id", "must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -.")
	}
	if refused := parseAction(r, &c); refused != nil {
		return c, refused
	}
	if refused := parseCondition(r, &c.Condition); refused != nil {
		return c, refused
	}
	for _, versions := range [][]string{c.Condition.OneOf, c.Condition.NoneOf} {
		for i, version := range versions {
			versions[i] = web.EventIn(c.Owner, version)
		}
	}
	return c, nil
}

// Actor returns the source of an event.
func Actor(p store.Principal) string {
	switch {
	case p.Username != "":
		return p.Username
	case p.ClientName != "":
		return p.ClientName
	}
	return "system"
}

func parseAction(r *http.Request, c *eventlog.ResourceChange) *web.Problem {
	values, refused := web.ParseSingle(r.URL.RawQuery, "action")
	action, given := values["action"]
	switch {
	case refused != nil:
		return refused
	case !given:
		return nil
	case slices.Contains([]string{"created", "updated", "deleted"}, action):
		return web.InvalidParameter("action", "cannot be %s: such events are recorded automatically.", action)
	case !eventlog.IsAction(action):
		return web.InvalidParameter("action", "must have 1 to 48 characters of a-z, 0-9 and _, the first a letter.")
	}
	c.Action = action
	return nil
}

// parseCondition reads If-Match and If-None-Match (RFC 9110 §13.1).
func parseCondition(r *http.Request, c *eventlog.Condition) *web.Problem {
	if given := r.Header.Values("If-Match"); len(given) > 0 {
		star, tags, ok := web.ParseEntityTags(given)
		if !ok {
			return brokenTags("If-Match")
		}
		c.Exists = star
		if !star {
			// Our choice: a weak tag of a version is the strong one, although RFC 9110
			// §13.1.1 compares strongly. Ours are strong, so a proxy that compresses has
			// weakened it, and its client could never write.
			c.OneOf = []string{}
			for _, tag := range tags {
				c.OneOf = append(c.OneOf, web.VersionsIn(tag)...)
			}
		}
	}
	if given := r.Header.Values("If-None-Match"); len(given) > 0 {
		star, tags, ok := web.ParseEntityTags(given)
		if !ok {
			return brokenTags("If-None-Match")
		}
		c.Absent = star
		for _, tag := range tags {
			c.NoneOf = append(c.NoneOf, web.VersionsIn(tag)...)
		}
	}
	return nil
}

// IfRevision reads If-Match and If-None-Match for records whose versions are numbers. The
// function reports whether one of that revision meets them; a record that does not exist yet
// has revision 0.
func IfRevision(r *http.Request) (meets func(revision uint64) bool, err error) {
	var c eventlog.Condition
	if refused := parseCondition(r, &c); refused != nil {
		return nil, refused
	}
	return func(revision uint64) bool {
		if revision == 0 {
			return !c.Exists && c.OneOf == nil
		}
		version := strconv.FormatUint(revision, 10)
		return !c.Absent && (c.OneOf == nil || slices.Contains(c.OneOf, version)) && !slices.Contains(c.NoneOf, version)
	}, nil
}

func brokenTags(header string) *web.Problem {
	return web.InvalidRequest(`The header %s must contain entity tags in double quotes, such as "evt_…", or *.`, header)
}

// resourceProblem maps the store's errors to problems.
func resourceProblem(err error) error {
	var doc *snapshot.Error
	switch {
	case errors.As(err, &doc):
		return web.DocumentProblem(doc)
	case errors.Is(err, record.ErrNotFound):
		return web.NewProblem(http.StatusNotFound, "not_found", "The resource does not exist.").Because(err)
	case errors.Is(err, record.ErrPrecondition):
		return web.NewProblem(http.StatusPreconditionFailed, "precondition_failed", "The resource does not meet If-Match or If-None-Match; read it again and retry.").Because(err)
	}
	return actingProblem(err)
}
