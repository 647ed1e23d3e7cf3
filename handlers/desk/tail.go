package desk

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/views"
)

const (
	DeskTailsMax = 8
	deskTailMax  = 30 * time.Minute
)

// tailLimit counts the open tails of the desk.
type tailLimit struct{ open atomic.Int32 }

func (l *tailLimit) enter() bool {
	if l.open.Add(1) > DeskTailsMax {
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
	Changed   string `json:"changed"` // in words
}

// appendTailRow is the frame of an event.
func appendTailRow(dst []byte, p record.Position, wire []byte) []byte {
	var row tailRow
	if err := json.Unmarshal(wire, &row); err != nil {
		panic("desk: stored event is not JSON: " + err.Error())
	}
	changed, err := deskEvent{Type: row.Type, wire: wire}.changed()
	if err != nil {
		panic("desk: stored event is no snapshot: " + err.Error())
	}
	row.Kind, row.Changed = views.EventColour(row.Type), views.ChangedWords(changed)
	data, err := json.Marshal(row) // escapes <, > and &
	if err != nil {
		panic("desk: tail row cannot be encoded: " + err.Error())
	}
	return fmt.Appendf(dst, "id: %s\ndata: %s\n\n", p, data)
}

// eventTail is GET /desk/event-tail: new events of a search, as server-sent events.
// The operator's session and role are checked before each frame, which does not count
// as a use of the session.
func (s *Server) eventTail(v *visit) error {
	e, refused := v.parseEventSearch()
	if refused == nil {
		refused = e.query.PlaceInStream(v.r, v.now)
	}
	if refused != nil {
		web.WriteProblem(v.w, refused)
		return nil
	}
	if err := v.knownAccount(e.account); err != nil {
		return err
	}
	if !s.tails.enter() {
		web.WriteProblem(v.w, web.NewProblem(http.StatusTooManyRequests, "too_many_requests", "Too many pages follow events. Close some of them.").With("Retry-After", api.LiveRetryAfter))
		return nil
	}
	defer s.tails.leave()
	web.OutcomeOf(v.ctx).Waited = true
	if err := api.StayOpen(v.w, v.r); err != nil {
		return err
	}
	watch, err := s.api.WatchEvents(v.r.Context(), e.account)
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
	st := &api.EventStream{S: s.api, W: v.w, R: v.r, Controller: http.NewResponseController(v.w), Owner: e.account, Filter: e.query.Filter, Watch: watch, Alive: alive, Row: appendTailRow}
	if err := st.Begin(); err != nil {
		return err
	}
	if v.r.Method == http.MethodHead {
		return nil
	}
	if err := st.Run(); err != nil && v.ctx.Err() == nil {
		web.Note(v.ctx, slog.String("err", err.Error()))
	}
	return nil
}

// aliveUnseen checks that the operator may still read, without recording a use.
func (v *visit) aliveUnseen() error {
	session, err := v.s.site.Store.PeekSession(v.ctx, v.session.Token)
	if err != nil || !session.User.Operator {
		return errLeft
	}
	return nil
}
