package handlers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

const (
	streamRows       = 100      // events read at a time
	streamSizeMax    = 64 << 10 // bytes read at a time
	streamRetry      = 2 * time.Second
	heartbeatEvery   = 15 * time.Second
	frameTimeout     = 30 * time.Second // for a reader to take one frame
	lastEventID      = "Last-Event-ID"
	endTokenExpired  = "token_expired"
	endRestart       = "restart"
	heartbeatFrame   = ": \n\n"
	streamControlMax = 512 // bytes; longer than any control frame
)

// streamParamsRefused are the parameters of pages.
var streamParamsRefused = []string{"order", "before", "limit", "wait"}

// streamEvents sends an account's events as server-sent events (HTML §9.2), from the
// position that the caller names on. It reads the log, then waits for more, so that a
// slow reader loses nothing and no event is missed between the two. It calls alive
// before each read to check the caller's access.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, owner string, q *eventQuery, alive func() error) error {
	if refused := q.placeInStream(r); refused != nil {
		return refused
	}
	served(r.Context()).Waited = true
	if err := stayOpen(w, r); err != nil {
		return err
	}
	watch, err := s.watchEvents(r.Context(), owner)
	if err != nil {
		return err
	}
	defer watch.Close()
	st := &eventStream{s: s, w: w, r: r, controller: http.NewResponseController(w), owner: owner, filter: q.Filter, watch: watch, alive: alive}
	if err := st.begin(); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if err := st.run(); err != nil && r.Context().Err() == nil {
		// The status has been sent. The reader reconnects and continues from its
		// position.
		note(r.Context(), slog.String("err", err.Error()))
	}
	return nil
}

// placeInStream sets the start of a stream: after Last-Event-ID, else after the
// cursor, else at the lower bound of createdAt, else now.
func (q *eventQuery) placeInStream(r *http.Request) *problem {
	for _, pair := range q.pairs {
		if slices.Contains(streamParamsRefused, pair.name) {
			return invalidParameter(pair.name, "is not allowed on a stream; leave it out.")
		}
	}
	if !q.Before.IsZero() {
		return invalidParameter("before", "is not allowed on a stream; leave it out.")
	}
	if seen := r.Header.Get(lastEventID); seen != "" {
		c, ok := eventlog.ParseCursor(seen)
		if !ok {
			return invalidCursor(lastEventID, "must be the id of an event")
		}
		q.After = c
	}
	if q.After.IsZero() {
		q.After = eventlog.LatestCursor()
		if q.hasLowerBound() {
			q.After = eventlog.CursorAt(record.PositionBefore(q.From))
		}
	}
	q.Ascending, q.Limit = true, streamRows
	return nil
}

// hasLowerBound reports whether createdAt has a lower bound, even 0.
func (q *eventQuery) hasLowerBound() bool {
	return slices.ContainsFunc(q.pairs, func(p queryPair) bool {
		return slices.Contains([]string{"createdAt", "createdAt[between]", "createdAt[gt]", "createdAt[gte]"}, p.name)
	})
}

type eventStream struct {
	s          *Server
	w          http.ResponseWriter
	r          *http.Request
	controller *http.ResponseController
	owner      string
	filter     eventlog.Filter
	watch      *eventlog.Watch
	alive      func() error
	row        func(dst []byte, p record.Position, wire []byte) []byte // frame of an event; nil for the whole event
}

// begin finds the start, so that an invalid one still gets an error status, and sends
// what comes before all events.
func (st *eventStream) begin() error {
	place, gap, err := st.findPlace()
	if err != nil {
		return err
	}
	h := st.w.Header()
	h.Set("Content-Type", asEventStream)
	h.Set("X-Accel-Buffering", "no") // nginx buffers responses otherwise
	st.w.WriteHeader(http.StatusOK)
	frames := fmt.Appendf(make([]byte, 0, streamControlMax), "retry: %d\n\nevent: ready\ndata: {\"after\":%q}\n\n", streamRetry.Milliseconds(), place)
	if gap != nil {
		frames = appendGap(frames, gap)
	}
	return st.send(frames)
}

// findPlace resolves the cursor. If events after it have been removed, the stream
// continues with those that are left.
func (st *eventStream) findPlace() (record.Position, *eventlog.CursorError, error) {
	none := st.filter
	none.From, none.To = 1, 0 // matches no event
	page, err := st.s.store.ListEvents(st.r.Context(), st.owner, none, nil)
	var cursor *eventlog.CursorError
	switch {
	case errors.As(err, &cursor) && !cursor.Oldest.IsZero():
		st.filter.After = eventlog.CursorAt(cursor.Resume)
		return cursor.Resume, cursor, nil
	case errors.As(err, &cursor) && st.r.Header.Get(lastEventID) != "":
		return record.Position{}, nil, invalidCursor(lastEventID, "is not the id of a known event").because(err)
	case err != nil:
		return record.Position{}, nil, eventListProblem(err)
	}
	addNotices(st.w.Header(), page)
	st.filter.After = eventlog.CursorAt(page.Cursor)
	return page.Cursor, nil, nil
}

// run sends events until the reader disconnects, its access ends or the server stops. While
// the database is away the stream stays open: EventSource would take a 503 as final.
func (st *eventStream) run() error {
	heartbeat := time.NewTicker(st.s.heartbeatEvery)
	defer heartbeat.Stop()
	var backfill *eventlog.Span
	for {
		if backfill == nil { // taken before the check, or one after the access ended might be sent
			backfill = st.watch.TakeBackfill()
		}
		err := st.alive()
		if err != nil && asProblem(err).status < http.StatusInternalServerError {
			return st.end(endTokenExpired)
		}
		if err == nil {
			err, backfill = st.tellBackfill(backfill), nil
		}
		more := false
		if err == nil {
			more, err = st.forward()
		}
		var again <-chan time.Time
		if errors.Is(err, record.ErrAway) {
			again, err = time.After(streamRetry), nil
		}
		if err != nil {
			return err
		}
		if more && !st.s.isDraining() {
			if err := st.beat(heartbeat.C); err != nil {
				return err
			}
			continue
		}
		select {
		case <-st.watch.Changed():
		case <-heartbeat.C:
			err = st.send([]byte(heartbeatFrame))
		case <-again:
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

// beat sends a heartbeat when one is due: searching a long log may find nothing for
// longer than readers wait.
func (st *eventStream) beat(due <-chan time.Time) error {
	select {
	case <-due:
		return st.send([]byte(heartbeatFrame))
	default:
		return nil
	}
}

// forward sends the next events and reports whether more follow.
func (st *eventStream) forward() (more bool, err error) {
	buffer := takeBuffer() // released before waiting: an idle stream holds none
	defer buffer.release()
	d := &factsFrom(st.r.Context()).demand
	defer d.keep(answerBudget, 0)
	var ends []int
	filter := st.filter
	if filter.Fits = eventlog.UpTo(answerSizeFree); d.try(answerBudget, streamSizeMax) {
		filter.Fits = eventlog.UpTo(streamSizeMax)
	}
	filter.Row = func(dst []byte, p record.Position, wire []byte) []byte {
		dst = st.appendFrame(dst, p, wire)
		ends = append(ends, len(dst))
		return dst
	}
	page, err := st.s.store.ListEvents(st.r.Context(), st.owner, filter, buffer.b)
	buffer.b = page.Data
	var cursor *eventlog.CursorError
	if errors.As(err, &cursor) && !cursor.Oldest.IsZero() {
		st.filter.After = eventlog.CursorAt(cursor.Resume)
		return true, st.send(appendGap(nil, cursor))
	}
	if err != nil {
		return false, err
	}
	if err := d.settle(st.r.Context(), len(page.Data)); err != nil {
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
		next = page.Version.Head // no other event up to there matches
	}
	st.filter.After = eventlog.CursorAt(next)
	if sent == 0 {
		return page.More, nil
	}
	return page.More, st.controller.Flush()
}

// appendFrame is the frame of an event.
func (st *eventStream) appendFrame(dst []byte, p record.Position, wire []byte) []byte {
	if st.row != nil {
		return st.row(dst, p, wire)
	}
	dst = p.Append(append(dst, "id: "...))
	return append(append(append(dst, "\ndata: "...), wire...), "\n\n"...)
}

// appendGap reports events that were removed before they were sent.
func appendGap(b []byte, gap *eventlog.CursorError) []byte {
	return fmt.Appendf(b, "event: gap\ndata: {\"oldestAvailable\":%q}\n\n", gap.Oldest)
}

// tellBackfill reports events that were recorded before the stream's position, so
// that readers with a copy can read that range again.
func (st *eventStream) tellBackfill(span *eventlog.Span) error {
	if span == nil {
		return nil
	}
	return st.send(fmt.Appendf(nil, "event: backfill\ndata: {\"first\":%q,\"last\":%q}\n\n", span.First, span.Last))
}

func (st *eventStream) end(reason string) error {
	return st.send(fmt.Appendf(nil, "event: end\ndata: {\"reason\":%q}\n\n", reason))
}

// write gives every frame its own deadline.
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

// aliveToken ends a stream with its access token.
func (s *Server) aliveToken(r *http.Request, need store.Scope) func() error {
	return func() error {
		p, err := s.findPrincipal(r)
		if err == nil && !p.Allows(need) {
			err = insufficientScope(need)
		}
		return err
	}
}

// aliveAlways is for the admin socket.
func aliveAlways() error { return nil }
