package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

const (
	StreamRows       = 100      // events read at a time
	streamSizeMax    = 64 << 10 // bytes read at a time
	streamRetry      = 2 * time.Second
	HeartbeatEvery   = 15 * time.Second
	frameTimeout     = 30 * time.Second // for a reader to take one frame
	LastEventID      = "Last-Event-ID"
	EndTokenExpired  = "token_expired"
	endRestart       = "restart"
	heartbeatFrame   = ": \n\n"
	streamControlMax = 512 // bytes; longer than any control frame
)

// streamParamsRefused are the parameters of pages.
var streamParamsRefused = []string{"order", "before", "limit", "wait"}

// streamEvents sends an account's events as server-sent events (HTML §9.2), from the
// position that the caller names on. It reads the log, then waits for more, so that a
// slow reader loses nothing and no event is missed between the two. It calls alive
// after each read to check the caller's access.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, owner string, q *EventQuery, alive func() error) error {
	if refused := q.PlaceInStream(r, s.site.Store.Now()); refused != nil {
		return refused
	}
	web.OutcomeOf(r.Context()).Waited = true
	if err := StayOpen(w, r); err != nil {
		return err
	}
	watch, err := s.WatchEvents(r.Context(), owner)
	if err != nil {
		return err
	}
	defer watch.Close()
	st := &EventStream{S: s, W: w, R: r, Controller: http.NewResponseController(w), Owner: owner, Filter: q.Filter, Watch: watch, Alive: alive}
	if p := web.FactsFrom(r.Context()).Principal; p != nil {
		st.wary = p.Platform
	}
	s.noteCursor(w, q)
	if err := st.Begin(); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if err := st.Run(); err != nil && r.Context().Err() == nil {
		// The status has been sent. The reader reconnects and continues from its
		// position.
		web.Note(r.Context(), slog.String("err", err.Error()))
	}
	return nil
}

// PlaceInStream sets the start of a stream: after Last-Event-ID, else after the
// cursor, else at the lower bound of createdAt, else now.
func (q *EventQuery) PlaceInStream(r *http.Request, now time.Time) *web.Problem {
	for _, pair := range q.pairs {
		if slices.Contains(streamParamsRefused, pair.Name) {
			return web.InvalidParameter(pair.Name, "is not allowed on a stream; leave it out.")
		}
	}
	if !q.Before.IsZero() {
		return web.InvalidParameter("before", "is not allowed on a stream; leave it out.")
	}
	if seen := r.Header.Get(LastEventID); seen != "" {
		c, refused := q.parseCursor(LastEventID, seen)
		if refused != nil {
			return refused
		}
		q.After, q.cursorParam = c, LastEventID
	}
	if q.After.IsZero() {
		q.After = eventlog.LatestCursor()
		if q.hasLowerBound() {
			q.After = eventlog.CursorAt(record.PositionBefore(min(q.From, now.Unix()))) // a position ahead would be taken for another instance's
		}
	}
	q.Ascending, q.Limit = true, StreamRows
	return nil
}

// hasLowerBound reports whether createdAt has a lower bound, even 0.
func (q *EventQuery) hasLowerBound() bool {
	return slices.ContainsFunc(q.pairs, func(p web.QueryPair) bool {
		return slices.Contains([]string{"createdAt", "createdAt[between]", "createdAt[gt]", "createdAt[gte]"}, p.Name)
	})
}

// EventStream sends the events of one account to one reader.
type EventStream struct {
	S          *Server
	W          http.ResponseWriter
	R          *http.Request
	Controller *http.ResponseController
	Owner      string
	Filter     eventlog.Filter
	at         record.Position // up to here every event has been sent or does not match
	sent       int             // events and reports of a gap
	Watch      *eventlog.Watch
	backfill   *eventlog.Span // of an account's log, not yet reported
	Alive      func() error
	wary       bool                                                    // a platform client reads: its access is checked before each frame
	Row        func(dst []byte, p record.Position, wire []byte) []byte // frame of an event; nil for the whole event
}

// Begin finds the start, so that an invalid one still gets an error status, and sends
// what comes before all events. ready has an id: a reader that loses the stream before its
// first event then resumes from there, and misses none.
func (st *EventStream) Begin() error {
	if err := st.findStart(); err != nil {
		return err
	}
	h := st.W.Header()
	h.Set("Content-Type", web.EventStreamType)
	h.Set("X-Accel-Buffering", "no") // nginx buffers responses otherwise
	st.W.WriteHeader(http.StatusOK)
	at := eventlog.PositionText(st.Owner, st.at)
	return st.send(fmt.Appendf(make([]byte, 0, streamControlMax), "retry: %d\n\nid: %s\nevent: ready\ndata: {\"after\":%q}\n\n", streamRetry.Milliseconds(), at, at))
}

// findStart resolves the cursor. It ignores removed events, which forward reports: a
// reader that takes ready and not the gap behind it must learn of the gap again.
func (st *EventStream) findStart() error {
	none := st.Filter
	none.From, none.To, none.Ascending = 1, 0, false // matches no event
	none.Limit, none.Row = 1, appendNothing          // which the feed does not know
	page, err := st.S.site.Store.Events.ListEvents(st.R.Context(), st.Owner, none, nil)
	var cursor *eventlog.CursorError
	if at, ok := none.After.Native(); ok && errors.As(err, &cursor) && cursor.Feed {
		st.moveTo(at)
		return nil
	}
	if errors.As(err, &cursor) && st.R.Header.Get(LastEventID) != "" {
		return invalidCursor(LastEventID, "is not the id of a known event").Because(err)
	}
	if err != nil {
		return EventListProblem(err)
	}
	addNotices(st.W.Header(), page)
	st.moveTo(page.Cursor)
	return nil
}

func (st *EventStream) moveTo(p record.Position) {
	st.at, st.Filter.After = p, eventlog.CursorAt(p)
}

// Run sends events until the reader disconnects, its access ends or the server stops. While
// the database is away the stream stays open: EventSource would take a 503 as final.
func (st *EventStream) Run() error {
	heartbeat := time.NewTicker(st.S.HeartbeatEvery)
	defer heartbeat.Stop()
	for {
		begun, from := time.Now(), st.sent
		more, err := st.forward()
		changed, again := st.Watch.Changed(), (<-chan time.Time)(nil)
		if errors.Is(err, record.ErrAway) {
			again, err = time.After(streamRetry), nil
		}
		if err == nil && more && st.sent == from { // the search continues, and not earlier for what is new
			changed, again = nil, st.S.betweenSearches(time.Since(begun))
		} else if err == nil && more && !st.S.isDraining() {
			if err = st.beatWhen(heartbeat.C); err == nil {
				continue
			}
		}
		if err != nil {
			return st.ended(err)
		}
		select {
		case <-changed:
		case <-heartbeat.C:
			err = st.beat()
		case <-again:
		case <-st.S.Draining:
			return st.End(endRestart)
		case <-st.R.Context().Done():
			return nil
		}
		if err != nil {
			return st.ended(err)
		}
	}
}

// ended tells the reader that its access has ended, if that is the error.
func (st *EventStream) ended(err error) error {
	if errors.Is(err, errAccessEnded) {
		return st.End(EndTokenExpired)
	}
	return err
}

// beat sends a heartbeat and the position. A reader whose filter matches nothing thus
// resumes where the stream has come to, and not from a position that retention has passed.
func (st *EventStream) beat() error {
	if err := st.mayRead(); err != nil && !errors.Is(err, record.ErrAway) {
		return err
	}
	return st.send(st.appendPosition([]byte(heartbeatFrame), st.at))
}

// beatWhen sends a heartbeat when one is due: searching a long log may find nothing for
// longer than readers wait.
func (st *EventStream) beatWhen(due <-chan time.Time) error {
	select {
	case <-due:
		return st.beat()
	default:
		return nil
	}
}

// errAccessEnded means that the caller may no longer read.
var errAccessEnded = errors.New("the access has ended")

// mayRead checks the caller's access.
func (st *EventStream) mayRead() error {
	denied := st.Alive()
	if denied != nil && web.AsProblem(denied).Status < http.StatusInternalServerError {
		return errAccessEnded
	}
	return denied
}

// forward sends what is new and reports whether more follows. It checks the access after
// it has read, or it might send what was recorded after the access ended.
func (st *EventStream) forward() (more bool, err error) {
	buffer := TakeBuffer() // released before waiting: an idle stream holds none
	defer buffer.Release()
	d := &web.FactsFrom(st.R.Context()).Lease
	defer d.Keep(web.AnswerBudget, 0)
	type frame struct {
		end int
		at  record.Position
	}
	var frames []frame
	filter := st.Filter
	if filter.Fits = eventlog.UpTo(web.AnswerSizeFree); d.Try(web.AnswerBudget, streamSizeMax) {
		filter.Fits = eventlog.UpTo(streamSizeMax)
	}
	filter.Row = func(dst []byte, p record.Position, wire []byte) []byte {
		dst = st.appendFrame(dst, p, wire)
		frames = append(frames, frame{len(dst), p})
		return dst
	}
	st.takeBackfill()
	page, err := st.S.site.Store.Events.ListEvents(st.R.Context(), st.Owner, filter, buffer.B)
	buffer.B = page.Data
	if err := st.mayRead(); err != nil {
		return false, err
	}
	if err := st.tellBackfill(page.Backfills); err != nil {
		return false, err
	}
	var cursor *eventlog.CursorError
	if errors.As(err, &cursor) && !cursor.Oldest.IsZero() {
		st.moveTo(cursor.Resume)
		st.sent++
		return true, st.send(st.appendPosition(appendGap(nil, cursor), cursor.Resume))
	}
	if err != nil {
		return false, err
	}
	if err := d.Settle(st.R.Context(), len(page.Data)); err != nil {
		return false, err
	}
	sent := 0
	for i, f := range frames {
		if st.wary && i > 0 {
			if err := st.mayRead(); err != nil {
				st.moveTo(frames[i-1].at)
				return false, err
			}
		}
		if err := st.write(page.Data[sent:f.end]); err != nil {
			return false, err
		}
		sent = f.end
	}
	next := page.Next
	if !page.More && page.Version.Head.Compare(next) > 0 {
		next = page.Version.Head // no other event up to there matches
	}
	st.moveTo(next)
	st.sent += len(frames)
	if sent == 0 {
		return page.More, nil
	}
	return page.More, st.Controller.Flush()
}

// appendFrame is the frame of an event.
func (st *EventStream) appendFrame(dst []byte, p record.Position, wire []byte) []byte {
	if st.Row != nil {
		return st.Row(dst, p, wire)
	}
	dst = eventlog.AppendPosition(append(dst, "id: "...), st.Owner, p)
	return append(append(append(dst, "\ndata: "...), wire...), "\n\n"...)
}

// appendPosition has no data: readers remember the id and dispatch no event (HTML §9.2.6).
func (st *EventStream) appendPosition(b []byte, p record.Position) []byte {
	return append(eventlog.AppendPosition(append(b, "id: "...), st.Owner, p), "\n\n"...)
}

// appendGap reports events that were removed before they were sent.
func appendGap(b []byte, gap *eventlog.CursorError) []byte {
	return fmt.Appendf(b, "event: gap\ndata: {\"oldestAvailable\":%q}\n\n", gap.OldestText())
}

// takeBackfill learns of what was recorded before the stream's position in an account's log.
// It comes before the log is read.
func (st *EventStream) takeBackfill() {
	if st.backfill == nil {
		st.backfill = st.Watch.TakeBackfill()
	}
}

// tellBackfill reports events that were recorded before the stream's position, so
// that readers with a copy can read that range again. The feed has entries about them.
func (st *EventStream) tellBackfill(inFeed []eventlog.Backfill) error {
	for _, b := range inFeed {
		if err := st.send(fmt.Appendf(nil, "event: backfill\ndata: {\"account\":%q,\"from\":%q,\"to\":%q}\n\n", b.Account, b.First, b.Last)); err != nil {
			return err
		}
	}
	span := st.backfill
	if span == nil {
		return nil
	}
	st.backfill = nil
	return st.send(fmt.Appendf(nil, "event: backfill\ndata: {\"first\":%q,\"last\":%q}\n\n", span.First, span.Last))
}

// End tells the reader why the stream ends.
func (st *EventStream) End(reason string) error {
	return st.send(fmt.Appendf(nil, "event: end\ndata: {\"reason\":%q}\n\n", reason))
}

// write gives every frame its own deadline.
func (st *EventStream) write(frame []byte) error {
	_ = st.Controller.SetWriteDeadline(time.Now().Add(frameTimeout))
	_, err := st.W.Write(frame)
	return err
}

func (st *EventStream) send(frame []byte) error {
	if err := st.write(frame); err != nil {
		return err
	}
	return st.Controller.Flush()
}

// aliveToken ends a stream with its access token, or with the account for which it acts.
func (s *Server) aliveToken(r *http.Request, need store.Scope) func() error {
	return func() error {
		_, err := s.authorize(r, need)
		return err
	}
}

// AliveAlways is for the admin socket.
func AliveAlways() error { return nil }
