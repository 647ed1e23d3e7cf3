package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

const pollAfterSeconds = "1"

// listEvents is GET /api/events.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	pairs, refused := parseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	owner := principalFrom(r.Context()).Account
	return s.writeEvents(w, r, owner, s.base+"/api/events", pairs, s.aliveToken(r, store.ScopeEventsRead))
}

// The representations of an event list; the first is the default.
const (
	asJSON   = "application/json"
	asNDJSON = "application/x-ndjson"
)

// writeEvents responds with a page of events, at once or after a wait, or with a
// stream. alive checks the caller's access after a wait and during a stream.
func (s *Server) writeEvents(w http.ResponseWriter, r *http.Request, owner, path string, pairs []queryPair, alive func() error) error {
	q, refused := parseEventQuery(pairs)
	if refused != nil {
		return refused
	}
	if err := s.checkTypes(r.Context(), owner, pairs); err != nil {
		return err
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
		if err := alive(); err != nil { // the token may have expired while waiting
			return err
		}
	case isConditional(r):
		version, err := s.store.EventsVersion(r.Context(), owner)
		if err != nil {
			return err
		}
		if notModified(w, r, s.listTag(version, asked)) {
			return nil
		}
	}
	return s.writePage(w, r, owner, path, as, &q, asked)
}

// checkTypes refuses types that look misspelled, under --strict-types of dev.
func (s *Server) checkTypes(ctx context.Context, owner string, pairs []queryPair) error {
	if s.dev == nil {
		return nil
	}
	for _, pair := range pairs {
		if !isListParam("type", pair.name) {
			continue
		}
		err := s.store.CheckTypes(ctx, owner, strings.Split(pair.value, ",")...)
		var bad *record.InvalidError
		if errors.As(err, &bad) {
			return invalidValue(&record.InvalidError{Field: pair.name, Reason: bad.Reason})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) writePage(w http.ResponseWriter, r *http.Request, owner, path, as string, q *eventQuery, asked uint32) error {
	question := q.question(owner, path, as)
	if !q.moved {
		if done, err := s.writeKept(w, r, owner, as, question); done || err != nil {
			return err
		}
	}
	buffer := takeBuffer()
	defer func() { buffer.release() }()
	d := &factsFrom(r.Context()).demand
	q.Fits = d.fits
	if as == asNDJSON {
		q.Row = appendLine
	} else {
		buffer.b = append(buffer.b, listOpening...)
	}
	page, err := s.store.ListEvents(r.Context(), owner, q.Filter, buffer.b)
	buffer.b = page.Data
	if err != nil {
		return eventListProblem(err)
	}
	if err := d.settle(r.Context(), len(buffer.b)); err != nil {
		return err
	}
	next, previous := page.Next.String(), page.Previous.String()
	h := http.Header{}
	stands := !d.refused && !q.moved // a page that was cut may grow
	if stands {
		h["Etag"] = []string{s.listTag(page.Version, asked)}
	}
	addNotices(h, page)
	if links := q.links(path, page, next, previous); links != "" {
		h["Link"] = []string{links}
	}
	if as == asNDJSON {
		h["Tollhouse-Next-Cursor"] = []string{next}
	} else {
		buffer.b = appendListEnd(buffer.b, page.More, next, previous)
	}
	buffer = buffer.fit()
	if s.dev == nil && stands { // dev replaces the whole store, and with it the versions
		s.kept.keep(question, keptPage{page.Version, h, buffer.b})
	}
	maps.Copy(w.Header(), h)
	writeBody(w, http.StatusOK, as, buffer.b)
	return nil
}

// writeKept responds with the kept page if the log has not changed since.
func (s *Server) writeKept(w http.ResponseWriter, r *http.Request, owner, as, question string) (done bool, err error) {
	kept := s.kept.find(question)
	if kept == nil {
		return false, nil
	}
	version, err := s.store.EventsVersion(r.Context(), owner)
	if err != nil {
		return false, err
	}
	d := &factsFrom(r.Context()).demand
	if version != kept.version || !d.fits(len(kept.body)) {
		return false, nil
	}
	if err := d.settle(r.Context(), len(kept.body)); err != nil {
		return false, err
	}
	maps.Copy(w.Header(), kept.header)
	writeBody(w, http.StatusOK, as, kept.body)
	return true, nil
}

func appendLine(dst []byte, _ record.Position, wire []byte) []byte {
	return append(append(dst, wire...), '\n')
}

// links are for clients that follow rel="next" (RFC 8288). A page requested with
// before always has a next page: the one it came from.
func (q *eventQuery) links(path string, page eventlog.Page, next, previous string) string {
	var links []string
	if backwards := !q.Before.IsZero(); page.More || backwards && page.Count > 0 {
		links = append(links, q.link(path, "after", next)+`; rel="next"`)
	}
	if q.cursorSent {
		links = append(links, q.link(path, "before", previous)+`; rel="prev"`, q.link(path, "", "")+`; rel="first"`)
	}
	return strings.Join(links, ", ")
}

// addNotices reports requested types that no event has. That is no error, since types
// are open-ended, but probably a mistake. It also reports wildcards that no index
// serves.
func addNotices(h http.Header, page eventlog.Page) {
	if page.Searched {
		h.Add("Tollhouse-Notice", fmt.Sprintf("the account has more than %d types, so a page with a wildcard searches at most %d events; follow nextCursor, or name the types", eventlog.KnownTypesMax, eventlog.SearchedMax))
	}
	for _, unseen := range page.Unseen {
		text := `no event has type "` + unseen.Type + `"`
		if unseen.Nearest != "" {
			text += "; nearest: " + unseen.Nearest
		}
		h.Add("Tollhouse-Notice", text)
	}
}

func eventListProblem(err error) error {
	var cursor *eventlog.CursorError
	if !errors.As(err, &cursor) {
		return err
	}
	if cursor.Oldest.IsZero() {
		return invalidCursor(cursor.Param, "is not the id of a known event").because(err)
	}
	p := newProblem(http.StatusGone, "cursor_expired", "Events after %s have been removed because the retention period is over; oldestAvailable is the oldest event left.", cursor.Param).on(cursor.Param).because(err)
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

// writeEvent sends one event. Unknown, malformed and foreign ids get the same response,
// and so does every id past the retention period.
func (s *Server) writeEvent(w http.ResponseWriter, r *http.Request, owner string) error {
	if !acceptsJSON(r) {
		return notAcceptable()
	}
	id := pathParam(r, "id")
	buffer := takeBuffer()
	defer func() { buffer.release() }()
	var err error
	buffer.b, err = s.store.FindEvent(r.Context(), owner, id, buffer.b)
	if errors.Is(err, record.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "The event does not exist.").because(err)
	}
	if errors.Is(err, record.ErrExpired) {
		return newProblem(http.StatusGone, "event_expired", "The event is older than the retention period.").because(err)
	}
	if err != nil {
		return err
	}
	if tag := entityTag(id); notModified(w, r, tag) {
		return nil
	}
	if err := factsFrom(r.Context()).demand.settle(r.Context(), len(buffer.b)); err != nil {
		return err
	}
	buffer = buffer.fit()
	writeBody(w, http.StatusOK, "application/json", buffer.b)
	return nil
}

// refuseQuery refuses every parameter.
func refuseQuery(r *http.Request) *problem {
	pairs, refused := parseAPIQuery(r.URL.RawQuery)
	if refused == nil && len(pairs) > 0 {
		refused = unknownParameter(pairs[0].name, nil, nil)
	}
	return refused
}

const listOpening = `{"object":"list","data":[`

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

// pageBuffer holds a response until it is complete, so that its length is known and
// no transaction stays open while it is sent.
type pageBuffer struct{ b []byte }

const (
	bufferSizeFirst = answerSizeFree
	bufferSizeKept  = 1 << 20 // larger ones are rare and not worth keeping
)

var buffers = sync.Pool{New: func() any { return &pageBuffer{make([]byte, 0, bufferSizeFirst)} }}

func takeBuffer() *pageBuffer { return buffers.Get().(*pageBuffer) }

// fit returns a buffer of about the response's size, since the request is charged for
// it while the response is sent.
func (p *pageBuffer) fit() *pageBuffer {
	if cap(p.b) <= max(2*len(p.b), bufferSizeFirst) {
		return p
	}
	defer p.release()
	return &pageBuffer{slices.Clip(bytes.Clone(p.b))}
}

func (p *pageBuffer) release() {
	if cap(p.b) >= bufferSizeFirst && cap(p.b) <= bufferSizeKept {
		p.b = p.b[:0]
		buffers.Put(p)
	}
}
