package handlers

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"tollhouse/store/record"
)

const (
	deskTailsMax = 8
	deskTailMax  = 30 * time.Minute
)

// tailLimit counts the open tails of the desk.
type tailLimit struct{ open atomic.Int32 }

func (l *tailLimit) enter() bool {
	if l.open.Add(1) > deskTailsMax {
		l.open.Add(-1)
		return false
	}
	return true
}

func (l *tailLimit) leave() { l.open.Add(-1) }

// tailRow is what the explorer shows of an event.
type tailRow struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Kind      int    `json:"kind"` // its colour
	Resource  string `json:"resource"`
	Source    string `json:"source"`
	CreatedAt int64  `json:"createdAt"`
}

// appendTailRow is the frame of an event.
func appendTailRow(dst []byte, p record.Position, wire []byte) []byte {
	var row tailRow
	if err := json.Unmarshal(wire, &row); err != nil {
		panic("handlers: stored event is not JSON: " + err.Error())
	}
	row.Kind = kindColour(row.Type)
	data, err := json.Marshal(row) // escapes <, > and &
	if err != nil {
		panic("handlers: tail row cannot be encoded: " + err.Error())
	}
	return fmt.Appendf(dst, "id: %s\ndata: %s\n\n", p, data)
}

// deskEventTail is GET /desk/event-tail: new events of a search, as server-sent events.
// The operator's session and role are checked before each frame, which does not count
// as a use of the session.
func (s *Server) deskEventTail(v *visit) error {
	e, refused := v.parseEventSearch()
	if refused == nil {
		refused = e.query.placeInStream(v.r)
	}
	if refused != nil {
		writeProblem(v.w, refused)
		return nil
	}
	if err := v.knownAccount(e.account); err != nil {
		return err
	}
	if !s.desk.tails.enter() {
		writeProblem(v.w, newProblem(http.StatusTooManyRequests, "too_many_requests", "Too many pages follow events. Close some of them.").with("Retry-After", liveRetryAfter))
		return nil
	}
	defer s.desk.tails.leave()
	served(v.ctx).Waited = true
	if err := stayOpen(v.w, v.r); err != nil {
		return err
	}
	watch, err := s.watchEvents(v.r.Context(), e.account)
	if err != nil {
		return err
	}
	defer watch.Close()
	ends := time.Now().Add(deskTailMax)
	alive := func() error {
		if time.Now().After(ends) {
			return errLeft
		}
		return v.aliveUnseen()
	}
	st := &eventStream{s: s, w: v.w, r: v.r, controller: http.NewResponseController(v.w), owner: e.account, filter: e.query.Filter, watch: watch, alive: alive, row: appendTailRow}
	if err := st.begin(); err != nil {
		return err
	}
	if v.r.Method == http.MethodHead {
		return nil
	}
	if err := st.run(); err != nil && v.ctx.Err() == nil {
		note(v.ctx, slog.String("err", err.Error()))
	}
	return nil
}

// aliveUnseen checks that the operator may still read, without recording a use.
func (v *visit) aliveUnseen() error {
	session, err := v.store.PeekSession(v.ctx, v.session.token)
	if err != nil || !session.User.Operator {
		return errLeft
	}
	return nil
}
