package handlers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"tollhouse/store"
)

const (
	streamRows       = 100 // events read at a time; what is read is sent before more is
	streamRetry      = 2 * time.Second
	heartbeatEvery   = 15 * time.Second
	frameTimeout     = 30 * time.Second // for a reader to take one frame
	lastEventID      = "Last-Event-ID"
	endTokenExpired  = "token_expired"
	endRestart       = "restart"
	streamControlMax = 512 // bytes; longer than any control frame
)

// streamParamsRefused are the parameters of a page, which a stream has none of.
var streamParamsRefused = []string{"order", "before", "limit", "wait"}

// streamEvents answers with an account's events as they are recorded, as
// server-sent events (HTML §9.2): first what lies behind the place that the
// caller names, then what comes. It reads the log from its place and then
// waits, so that a slow reader is slow and loses nothing, and so that there is
// no seam between what was and what comes. alive is asked before each read
// whether the caller may still read.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, owner string, q *eventQuery, alive func() error) error {
	if refused := q.placeInStream(r); refused != nil {
		return refused
	}
	served(r.Context()).Waited = true
	if err := stayOpen(w, r); err != nil {
		return err
	}
	watch, err := s.watchEvents(owner)
	if err != nil {
		return err
	}
	defer watch.Close()
	st := &eventStream{s: s, w: w, r: r, controller: http.NewResponseController(w), owner: owner, filter: q.EventFilter, watch: watch, alive: alive}
	if err := st.begin(); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if err := st.run(); err != nil && r.Context().Err() == nil {
		// The status has been sent. A reader who is cut off comes again, and goes
		// on where it was.
		note(r.Context(), slog.String("err", err.Error()))
	}
	return nil
}

// placeInStream finds where a stream begins: behind the event that was seen
// last, else behind after, else at the lower bound of createdAt, else now.
func (q *eventQuery) placeInStream(r *http.Request) *problem {
	for _, pair := range q.pairs {
		if slices.Contains(streamParamsRefused, pair.name) {
			return invalidParameter(pair.name, "has no meaning on a stream, which goes on from a place for as long as it is read; leave it out.")
		}
	}
	if !q.Before.IsZero() {
		return invalidParameter("before", "has no meaning on a stream, which goes on from a place for as long as it is read; leave it out.")
	}
	if seen := r.Header.Get(lastEventID); seen != "" {
		c, ok := store.ParseCursor(seen)
		if !ok {
			return invalidCursor(lastEventID, "must be the id of an event")
		}
		q.After = c
	}
	if q.After.IsZero() {
		q.After = store.LatestCursor()
		if q.hasLowerBound() {
			q.After = store.CursorAt(store.PlaceBefore(q.From))
		}
	}
	q.Ascending, q.Limit = true, streamRows
	return nil
}

// hasLowerBound reports whether createdAt was bounded from below, at 0 too.
func (q *eventQuery) hasLowerBound() bool {
	return slices.ContainsFunc(q.pairs, func(p queryPair) bool {
		return slices.Contains([]string{"createdAt", "createdAt[between]", "createdAt[gt]", "createdAt[gte]"}, p.name)
	})
}

// eventStream is one reader's.
type eventStream struct {
	s          *Server
	w          http.ResponseWriter
	r          *http.Request
	controller *http.ResponseController
	owner      string
	filter     store.EventFilter
	watch      *store.EventWatch
	alive      func() error
}

// begin finds the stream's place, so that what is wrong with it is still told
// by a status, and sends what comes before all events.
func (st *eventStream) begin() error {
	place, gap, err := st.findPlace()
	if err != nil {
		return err
	}
	h := st.w.Header()
	h.Set("Content-Type", asEventStream)
	h.Set("X-Accel-Buffering", "no") // nginx holds answers back otherwise
	st.w.WriteHeader(http.StatusOK)
	frames := fmt.Appendf(make([]byte, 0, streamControlMax), "retry: %d\n\nevent: ready\ndata: {\"after\":%q}\n\n", streamRetry.Milliseconds(), place)
	if gap != nil {
		frames = appendGap(frames, gap)
	}
	return st.send(frames)
}

// findPlace resolves the cursor. Where events behind it have been removed, the
// stream goes on with those that are left.
func (st *eventStream) findPlace() (store.Position, *store.CursorError, error) {
	none := st.filter
	none.From, none.To = 1, 0 // no event lies between
	page, err := st.s.store.ListEvents(st.r.Context(), st.owner, none, nil)
	var cursor *store.CursorError
	switch {
	case errors.As(err, &cursor) && !cursor.Oldest.IsZero():
		st.filter.After = store.CursorAt(cursor.Resume)
		return cursor.Resume, cursor, nil
	case errors.As(err, &cursor) && st.r.Header.Get(lastEventID) != "":
		return store.Position{}, nil, invalidCursor(lastEventID, "is the id of no event").because(err)
	case err != nil:
		return store.Position{}, nil, eventListProblem(err)
	}
	addNotices(st.w.Header(), page.Unseen)
	st.filter.After = store.CursorAt(page.Cursor)
	return page.Cursor, nil, nil
}

// run sends events until the reader leaves, or may read no more, or the server
// stops.
func (st *eventStream) run() error {
	heartbeat := time.NewTicker(st.s.heartbeatEvery)
	defer heartbeat.Stop()
	for {
		if err := st.alive(); err != nil {
			if asProblem(err).status >= http.StatusInternalServerError {
				return err
			}
			return st.end(endTokenExpired)
		}
		more, err := st.forward()
		if err != nil {
			return err
		}
		if more && !st.s.isDraining() {
			continue
		}
		select {
		case <-st.watch.Changed():
			err = st.tellBackfill()
		case <-heartbeat.C:
			err = st.send([]byte(": \n\n"))
		case <-st.s.draining:
			return st.end(endRestart)
		case <-st.r.Context().Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// forward sends the next events, if there are any, and reports whether there
// are more.
func (st *eventStream) forward() (more bool, err error) {
	buffer := takeBuffer() // given back before the wait: a quiet stream holds none
	defer buffer.release()
	var ends []int
	filter := st.filter
	filter.Row = func(dst []byte, p store.Position, wire []byte) []byte {
		dst = p.Append(append(dst, "id: "...))
		dst = append(append(append(dst, "\ndata: "...), wire...), "\n\n"...)
		ends = append(ends, len(dst))
		return dst
	}
	page, err := st.s.store.ListEvents(st.r.Context(), st.owner, filter, buffer.b)
	buffer.b = page.Data
	var cursor *store.CursorError
	if errors.As(err, &cursor) && !cursor.Oldest.IsZero() {
		st.filter.After = store.CursorAt(cursor.Resume)
		return true, st.send(appendGap(nil, cursor))
	}
	if err != nil {
		return false, err
	}
	sent := 0
	for _, end := range ends {
		if err := st.write(page.Data[sent:end]); err != nil {
			return false, err
		}
		sent = end
	}
	next := page.Next
	if !page.More && page.Version.Head.Compare(next) > 0 {
		next = page.Version.Head // up to there nothing else is wanted
	}
	st.filter.After = store.CursorAt(next)
	if sent == 0 {
		return page.More, nil
	}
	return page.More, st.controller.Flush()
}

// appendGap tells that events were removed before they could be sent.
func appendGap(b []byte, gap *store.CursorError) []byte {
	return fmt.Appendf(b, "event: gap\ndata: {\"oldestAvailable\":%q}\n\n", gap.Oldest)
}

// tellBackfill tells that events came to lie behind the stream's place, so that
// a reader who keeps a copy can read that stretch again.
func (st *eventStream) tellBackfill() error {
	span := st.watch.TakeBackfill()
	if span == nil {
		return nil
	}
	return st.send(fmt.Appendf(nil, "event: backfill\ndata: {\"first\":%q,\"last\":%q}\n\n", span.First, span.Last))
}

func (st *eventStream) end(reason string) error {
	return st.send(fmt.Appendf(nil, "event: end\ndata: {\"reason\":%q}\n\n", reason))
}

// write gives a frame its own time: there is no limit to the whole.
func (st *eventStream) write(frame []byte) error {
	_ = st.controller.SetWriteDeadline(time.Now().Add(frameTimeout))
	_, err := st.w.Write(frame)
	return err
}

func (st *eventStream) send(frame []byte) error {
	if err := st.write(frame); err != nil {
		return err
	}
	return st.controller.Flush()
}

// aliveToken lets a stream go on for as long as its access token is live.
func (s *Server) aliveToken(r *http.Request, need store.Scope) func() error {
	return func() error {
		p, err := s.findPrincipal(r)
		if err == nil && !p.Allows(need) {
			err = insufficientScope(need)
		}
		return err
	}
}

// aliveAlways is for the operator's socket.
func aliveAlways() error { return nil }
