package handlers

import (
	"errors"
	"net/http"
	"strings"
	"sync"

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
	owner := principalFrom(r.Context()).Account
	return s.writeEvents(w, r, owner, s.base+"/api/events", pairs, s.aliveToken(r, store.ScopeEventsRead))
}

// The representations of a list of events, the first where none is preferred.
const (
	asJSON   = "application/json"
	asNDJSON = "application/x-ndjson"
)

// writeEvents answers with a page of an account's events, at once or after a
// wait, or with a stream of them. alive is asked behind a wait, and again and
// again by a stream, whether the caller may still read.
func (s *Server) writeEvents(w http.ResponseWriter, r *http.Request, owner, path string, pairs []queryPair, alive func() error) error {
	q, refused := parseEventQuery(pairs)
	if refused != nil {
		return refused
	}
	as := negotiate(r, asJSON, asNDJSON, asEventStream)
	switch {
	case as == "":
		return notAcceptable(asNDJSON, asEventStream)
	case as == asEventStream:
		return s.streamEvents(w, r, owner, &q, alive)
	}
	w.Header()["Tollhouse-Poll-After"] = headerPollAfter
	asked := q.digest(owner, as)
	switch {
	case q.wait > 0 && r.Method == http.MethodGet:
		if err := s.waitForEvents(w, r, owner, &q); err != nil {
			return err
		}
		if err := alive(); err != nil { // the wait may have outlived the token
			return err
		}
	case isConditional(r):
		version, err := s.store.EventsVersion(r.Context(), owner)
		if err != nil {
			return err
		}
		if notModified(w, r, listTag(version, asked)) {
			return nil
		}
	}
	return s.writePage(w, r, owner, path, as, &q, asked)
}

// writePage reads the page and sends it.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, owner, path, as string, q *eventQuery, asked uint32) error {
	buffer := takeBuffer()
	defer buffer.release()
	if as == asNDJSON {
		q.Row = appendLine
	} else {
		buffer.b = append(buffer.b, listOpening...)
	}
	page, err := s.store.ListEvents(r.Context(), owner, q.EventFilter, buffer.b)
	buffer.b = page.Data
	if err != nil {
		return eventListProblem(err)
	}
	next, previous := page.Next.String(), page.Previous.String()
	h := w.Header()
	h.Set("ETag", listTag(page.Version, asked))
	addNotices(h, page.Unseen)
	if links := q.links(path, page, next, previous); links != "" {
		h.Set("Link", links)
	}
	if as == asNDJSON {
		h.Set("Tollhouse-Next-Cursor", next)
	} else {
		buffer.b = appendListEnd(buffer.b, page.More, next, previous)
	}
	writeBody(w, http.StatusOK, as, buffer.b)
	return nil
}

// appendLine is a row of NDJSON.
func appendLine(dst []byte, _ store.Position, wire []byte) []byte {
	return append(append(dst, wire...), '\n')
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

// addNotices tells of types that no event has: it is no error, since types are
// open-ended, but a filter that can match nothing is worth a word.
func addNotices(h http.Header, types []store.UnseenType) {
	for _, unseen := range types {
		text := `no event has type "` + unseen.Type + `"`
		if unseen.Nearest != "" {
			text += "; nearest: " + unseen.Nearest
		}
		h.Add("Tollhouse-Notice", text)
	}
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
	id := pathParam(r, "id")
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
