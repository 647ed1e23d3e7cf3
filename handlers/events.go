package handlers

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/julienschmidt/httprouter"

	"tollhouse/store"
)

// pollAfterSeconds is how long a caller who polls is asked to wait.
const pollAfterSeconds = "1"

// listEvents is GET /api/events.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	pairs, refused := parseQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	return s.writeEvents(w, r, principalFrom(r.Context()).Account, s.base+"/api/events", pairs)
}

// writeEvents answers with a page of an account's events.
func (s *Server) writeEvents(w http.ResponseWriter, r *http.Request, owner, path string, pairs []queryPair) error {
	q, refused := parseEventQuery(pairs)
	if refused != nil {
		return refused
	}
	if !acceptsJSON(r) {
		return notAcceptable()
	}
	buffer := takeBuffer()
	defer buffer.release()
	page, err := s.store.ListEvents(r.Context(), owner, q.EventFilter, append(buffer.b, listOpening...))
	buffer.b = page.Data
	if err != nil {
		return eventListProblem(err)
	}
	next, previous := page.Next.String(), page.Previous.String()
	h := w.Header()
	h.Set("Tollhouse-Poll-After", pollAfterSeconds)
	for _, unseen := range page.Unseen {
		h.Add("Tollhouse-Notice", notice(unseen))
	}
	if links := q.links(path, page, next, previous); links != "" {
		h.Set("Link", links)
	}
	buffer.b = appendListEnd(buffer.b, page.More, next, previous)
	writeBody(w, http.StatusOK, "application/json", buffer.b)
	return nil
}

// links are for clients that follow rel="next" (RFC 8288). Behind a page that
// was asked for by before lies the place it was asked before, so that there is
// a next one in any case.
func (q *eventQuery) links(path string, page store.EventPage, next, previous string) string {
	var links []string
	if backwards := !q.Before.IsZero(); page.More || backwards && page.Count > 0 {
		links = append(links, q.link(path, "after", next)+`; rel="next"`)
	}
	if q.cursorSent {
		links = append(links, q.link(path, "before", previous)+`; rel="prev"`, q.link(path, "", "")+`; rel="first"`)
	}
	return strings.Join(links, ", ")
}

// notice tells of a type that no event has: it is no error, since types are
// open-ended, but a filter that can match nothing is worth a word.
func notice(unseen store.UnseenType) string {
	text := `no event has type "` + unseen.Type + `"`
	if unseen.Nearest != "" {
		text += "; nearest: " + unseen.Nearest
	}
	return text
}

func eventListProblem(err error) error {
	var cursor *store.CursorError
	if !errors.As(err, &cursor) {
		return err
	}
	if cursor.Oldest.IsZero() {
		return invalidCursor(cursor.Param, "is the id of no event").because(err)
	}
	p := newProblem(http.StatusGone, "cursor_expired", "Events behind %s are older than they are kept and have been removed; oldestAvailable is the oldest one left.", cursor.Param).on(cursor.Param).because(err)
	p.extra = map[string]any{"oldestAvailable": cursor.Oldest.String()}
	return p
}

// findEvent is GET /api/events/:id.
func (s *Server) findEvent(w http.ResponseWriter, r *http.Request) error {
	if refused := refuseQuery(r); refused != nil {
		return refused
	}
	return s.writeEvent(w, r, principalFrom(r.Context()).Account)
}

// writeEvent answers with one event of an account. Unknown, malformed and
// another's: the answer is the same, and so it is for every id past retention.
func (s *Server) writeEvent(w http.ResponseWriter, r *http.Request, owner string) error {
	if !acceptsJSON(r) {
		return notAcceptable()
	}
	id := httprouter.ParamsFromContext(r.Context()).ByName("id")
	buffer := takeBuffer()
	defer buffer.release()
	var err error
	buffer.b, err = s.store.FindEvent(r.Context(), owner, id, buffer.b)
	if errors.Is(err, store.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "There is no such event.").because(err)
	}
	if errors.Is(err, store.ErrExpired) {
		return newProblem(http.StatusGone, "event_expired", "The id is older than events are kept here.").because(err)
	}
	if err != nil {
		return err
	}
	if tag := entityTag(id); notModified(w, r, tag) {
		return nil
	}
	writeBody(w, http.StatusOK, "application/json", buffer.b)
	return nil
}

// refuseQuery refuses any parameter at all.
func refuseQuery(r *http.Request) *problem {
	pairs, refused := parseQuery(r.URL.RawQuery)
	if refused == nil && len(pairs) > 0 {
		refused = unknownParameter(pairs[0].name, nil, nil)
	}
	return refused
}

const listOpening = `{"object":"list","data":[`

// appendListEnd closes the envelope of a list behind its rows.
func appendListEnd(b []byte, more bool, next, previous string) []byte {
	b = append(b, `],"hasMore":`...)
	if more {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	b = append(append(b, `,"nextCursor":"`...), next...)
	b = append(append(b, `","previousCursor":"`...), previous...)
	return append(b, `"}`...)
}

// entityTag is a strong one (RFC 9110 §8.8.3): an event never changes, and a
// resource has a new last event whenever it does.
func entityTag(id string) string { return `"` + id + `"` }

// notModified sets the tag, and answers 304 when the caller has what it names
// (RFC 9110 §13.1.2).
func notModified(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	given := r.Header.Values("If-None-Match")
	if len(given) == 0 {
		return false
	}
	star, tags, ok := parseEntityTags(given)
	if !ok || !star && !containsTag(tags, tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// acceptsJSON reports whether the Accept header, where there is one, has room
// for application/json (RFC 9110 §12.5.1).
func acceptsJSON(r *http.Request) bool {
	accept := r.Header.Values("Accept")
	if len(accept) == 0 {
		return true
	}
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaRange, parameters, _ := strings.Cut(strings.ToLower(item), ";")
		switch strings.TrimSpace(mediaRange) {
		case "*/*", "application/*", "application/json", "":
			if q := strings.ReplaceAll(parameters, " ", ""); q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000" {
				return true
			}
		}
	}
	return false
}

func notAcceptable() *problem {
	return newProblem(http.StatusNotAcceptable, "not_acceptable", "This is served as application/json, which the Accept header leaves out.")
}

// pageBuffer holds an answer while it is put together, so that its length is
// known and no transaction is open while it is sent.
type pageBuffer struct{ b []byte }

const (
	bufferSizeFirst = 64 << 10
	bufferSizeKept  = 1 << 20 // a larger one is rare and not worth its memory
)

var buffers = sync.Pool{New: func() any { return &pageBuffer{make([]byte, 0, bufferSizeFirst)} }}

func takeBuffer() *pageBuffer { return buffers.Get().(*pageBuffer) }

func (p *pageBuffer) release() {
	if cap(p.b) <= bufferSizeKept {
		p.b = p.b[:0]
		buffers.Put(p)
	}
}
