package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

// searchFor is how long a request searches for the first row of its page.
const searchFor = 250 * time.Millisecond

// listEvents is GET /api/events.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	owner := web.PrincipalFrom(r.Context()).Account
	return s.WriteEvents(w, r, owner, s.site.Base()+"/api/events", pairs, s.aliveToken(r, store.ScopeEventsRead))
}

// AsNDJSON is the media type of one JSON value per line.
const AsNDJSON = "application/x-ndjson"

// WriteEvents responds with a page of events, immediately or after a wait, or with a
// stream. alive checks the caller's access after a wait and during a stream.
func (s *Server) WriteEvents(w http.ResponseWriter, r *http.Request, owner, path string, pairs []web.QueryPair, alive func() error) error {
	q, refused := ParseEventQuery(pairs)
	if refused != nil {
		return refused
	}
	if err := s.checkTypes(r.Context(), owner, pairs); err != nil {
		return err
	}
	as := web.Negotiate(r, web.AsJSON, AsNDJSON, web.AsEventStream)
	switch {
	case as == "":
		return web.NotAcceptable(AsNDJSON, web.AsEventStream)
	case as == web.AsEventStream:
		return s.streamEvents(w, r, owner, &q, alive)
	}
	s.noteCursor(w, &q)
	w.Header()["Tollhouse-Poll-After"] = web.HeaderPollAfter
	question := q.Identity(owner, as)
	if q.waited = q.wait > 0 && r.Method == http.MethodGet; q.waited {
		if err := s.waitForEvents(w, r, owner, &q); err != nil {
			return err
		}
		if err := alive(); err != nil { // the token may have expired while waiting
			return err
		}
	}
	s.site.Store.Events.Settle(r.Context(), q.To) // before the version is read, which a late event changes
	if !q.waited && web.IsConditional(r) {
		version, err := s.site.Store.Events.EventsVersion(r.Context(), owner)
		if err != nil {
			return err
		}
		if web.NotModified(w, r, s.site.ListTag(version, question)) {
			return nil
		}
		w.Header().Del("ETag") // the page's own may be later, and one that was cut has none
	}
	return s.WritePage(w, r, owner, path, as, &q, question)
}

// checkTypes refuses types that look misspelled, under --strict-types of dev.
func (s *Server) checkTypes(ctx context.Context, owner string, pairs []web.QueryPair) error {
	if !s.site.Testers {
		return nil
	}
	for _, pair := range pairs {
		if !IsListParam("type", pair.Name) {
			continue
		}
		err := s.site.Store.Events.CheckTypes(ctx, owner, strings.Split(pair.Value, ",")...)
		var bad *record.InvalidError
		if errors.As(err, &bad) {
			return web.InvalidValue(&record.InvalidError{Field: pair.Name, Reason: bad.Reason})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) WritePage(w http.ResponseWriter, r *http.Request, owner, path, as string, q *EventQuery, question string) error {
	if !q.moved {
		if done, err := s.writeKept(w, r, owner, path, as, q, question); done || err != nil {
			return err
		}
	}
	buffer := TakeBuffer()
	defer func() { buffer.Release() }()
	d := &web.FactsFrom(r.Context()).Lease
	q.Fits = d.Fits
	if as == AsNDJSON {
		q.Row = appendLine
	} else {
		buffer.B = append(buffer.B, listOpening...)
	}
	searchFor := s.SearchFor
	if q.waited { // it has searched
		searchFor = 0
	}
	page, err := s.site.Store.Events.SearchEvents(r.Context(), owner, q.Filter, searchFor, buffer.B)
	buffer.B = page.Data
	if err != nil {
		return EventListProblem(err)
	}
	if err := d.Settle(r.Context(), len(buffer.B)); err != nil {
		return err
	}
	if as != AsNDJSON {
		buffer.B = appendListEnd(buffer.B, page.More, q.position(page.Next), q.position(page.Previous))
	}
	buffer = buffer.fit()
	page.Data = nil
	if !d.Refused && !q.moved { // a page that was cut may grow
		tag := s.site.ListTag(page.Version, question)
		w.Header()["Etag"] = []string{tag}
		if !s.site.Testers { // dev replaces the whole store, and with it the versions
			s.Kept.Keep(question, KeptPage{tag, page, buffer.B})
		}
	}
	q.describe(w.Header(), path, as, page)
	web.WriteBody(w, http.StatusOK, as, buffer.B)
	return nil
}

// describe adds the headers of a page, other than its tag.
func (q *EventQuery) describe(h http.Header, path, as string, page eventlog.Page) {
	addNotices(h, page)
	if links := q.links(path, page); links != "" {
		h["Link"] = []string{links}
	}
	if as == AsNDJSON {
		h["Tollhouse-Next-Cursor"] = []string{q.position(page.Next)}
	}
}

// position returns a position of the query's log as callers see it.
func (q *EventQuery) position(p record.Position) string {
	if q.feed {
		return eventlog.PositionText(eventlog.AllAccounts, p)
	}
	return p.String()
}

// writeKept responds with the kept page if the log has not changed since.
func (s *Server) writeKept(w http.ResponseWriter, r *http.Request, owner, path, as string, q *EventQuery, question string) (done bool, err error) {
	kept := s.Kept.Find(question)
	if kept == nil {
		return false, nil
	}
	version, err := s.site.Store.Events.EventsVersion(r.Context(), owner)
	if err != nil {
		return false, err
	}
	d := &web.FactsFrom(r.Context()).Lease
	if version != kept.Page.Version || !d.Fits(len(kept.Body)) {
		return false, nil
	}
	if err := d.Settle(r.Context(), len(kept.Body)); err != nil {
		return false, err
	}
	w.Header()["Etag"] = []string{kept.tag}
	q.describe(w.Header(), path, as, kept.Page)
	web.WriteBody(w, http.StatusOK, as, kept.Body)
	return true, nil
}

func appendLine(dst []byte, _ record.Position, wire []byte) []byte {
	return append(append(dst, wire...), '\n')
}

// links are for clients that follow rel="next" (RFC 8288). A page requested with
// before always has a next page: the one it came from.
func (q *EventQuery) links(path string, page eventlog.Page) string {
	var links []string
	if backwards := !q.Before.IsZero(); page.More || backwards && page.Count > 0 {
		links = append(links, q.Link(path, "after", q.position(page.Next))+`; rel="next"`)
	}
	if q.CursorSent {
		links = append(links, q.Link(path, "before", page.Previous.String())+`; rel="prev"`, q.Link(path, "", "")+`; rel="first"`)
	}
	return strings.Join(links, ", ")
}

// addNotices reports requested types that no event has. That is no error, since types
// are open-ended, but probably a mistake. It also reports wildcards that no index
// serves.
func addNotices(h http.Header, page eventlog.Page) {
	if page.Searched {
		h.Add("Tollhouse-Notice", fmt.Sprintf("the account has more than %d types, so a page with a wildcard may be short or empty; follow nextCursor while hasMore is true, or name the types", eventlog.KnownTypesMax))
	}
	for _, unseen := range page.Unseen {
		h.Add("Tollhouse-Notice", unseen.String())
	}
}

// cursorAheadMax is how far a cursor may be ahead without a notice; the clocks of servers
// that share a database differ by less.
const cursorAheadMax = time.Minute

// NoteAhead reports a position ahead of the clock. That is no error, but it is probably
// another server's, or from before a reset, and its reader would wait in vain.
func (s *Server) NoteAhead(w http.ResponseWriter, param string, p record.Position) {
	now := s.site.Store.Now()
	if p.Time().Sub(now) <= cursorAheadMax {
		return
	}
	w.Header().Add("Tollhouse-Notice", fmt.Sprintf("%s is a position at %s, ahead of the server's clock (%s); it may be from another server, or from before a reset",
		param, p.Time().Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
}

// noteCursor is noteAhead for the cursor of a query.
func (s *Server) noteCursor(w http.ResponseWriter, q *EventQuery) {
	for _, c := range []eventlog.Cursor{q.After, q.Before} {
		if p, ok := c.Native(); ok && q.cursorParam != "" {
			s.NoteAhead(w, q.cursorParam, p)
		}
	}
}

func EventListProblem(err error) error {
	if errors.Is(err, eventlog.ErrFeedOff) {
		return web.NewProblem(http.StatusConflict, "feed_off", "This server keeps no feed of all accounts; the operator turns it on with --feed, such as --feed 30d.").Because(err)
	}
	var cursor *eventlog.CursorError
	if !errors.As(err, &cursor) {
		return err
	}
	if cursor.Oldest.IsZero() {
		return invalidCursor(cursor.Param, "is not the id of a known event").Because(err)
	}
	reason := "%s is too old: events that follow it have been removed because the retention period is over; the oldest event left is %s."
	if cursor.Feed {
		reason = "%s is too old: the feed no longer has what follows it; the oldest position left is %s, and after=start begins there."
	}
	p := web.NewProblem(http.StatusGone, "cursor_expired", reason, cursor.Param, cursor.OldestText()).On(cursor.Param).Because(err)
	p.Extra = map[string]any{"oldestAvailable": cursor.OldestText()}
	return p
}

// findEvent is GET /api/events/:id.
func (s *Server) findEvent(w http.ResponseWriter, r *http.Request) error {
	if refused := RefuseQuery(r); refused != nil {
		return refused
	}
	return s.WriteEvent(w, r, web.PrincipalFrom(r.Context()).Account)
}

func (s *Server) keysOfEvent(r *http.Request, account string) [][]byte {
	return s.site.Store.Events.KeysOfEvent(account, web.PathParam(r, "id"))
}

// WriteEvent sends one event. Unknown, malformed and foreign ids get the same response,
// and so does every id past the retention period.
func (s *Server) WriteEvent(w http.ResponseWriter, r *http.Request, owner string) error {
	if !web.AcceptsJSON(r) {
		return web.NotAcceptable()
	}
	id := web.PathParam(r, "id")
	buffer := TakeBuffer()
	defer func() { buffer.Release() }()
	var err error
	buffer.B, err = s.site.Store.Events.FindEvent(r.Context(), owner, id, buffer.B)
	if errors.Is(err, record.ErrNotFound) {
		return web.NewProblem(http.StatusNotFound, "not_found", "The event does not exist.").Because(err)
	}
	if errors.Is(err, record.ErrExpired) {
		return web.NewProblem(http.StatusGone, "event_expired", "The event is older than the retention period.").Because(err)
	}
	if err != nil {
		return err
	}
	if web.EventNotModified(w, r, owner, id) {
		return nil
	}
	if err := web.FactsFrom(r.Context()).Lease.Settle(r.Context(), len(buffer.B)); err != nil {
		return err
	}
	buffer = buffer.fit()
	web.WriteBody(w, http.StatusOK, "application/json", buffer.B)
	return nil
}

// RefuseQuery refuses every parameter.
func RefuseQuery(r *http.Request) *web.Problem {
	_, refused := web.ParseSingle(r.URL.RawQuery)
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
type pageBuffer struct{ B []byte }

const (
	bufferSizeFirst = web.AnswerSizeFree
	bufferSizeKept  = 1 << 20 // larger ones are rare and not worth keeping
)

var buffers = sync.Pool{New: func() any { return &pageBuffer{make([]byte, 0, bufferSizeFirst)} }}

func TakeBuffer() *pageBuffer { return buffers.Get().(*pageBuffer) }

// fit returns a buffer of about the response's size, since the request is charged for
// it while the response is sent.
func (p *pageBuffer) fit() *pageBuffer {
	if cap(p.B) <= max(2*len(p.B), bufferSizeFirst) {
		return p
	}
	defer p.Release()
	return &pageBuffer{slices.Clip(bytes.Clone(p.B))}
}

func (p *pageBuffer) Release() {
	if cap(p.B) >= bufferSizeFirst && cap(p.B) <= bufferSizeKept {
		p.B = p.B[:0]
		buffers.Put(p)
	}
}
