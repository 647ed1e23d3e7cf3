package dev

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
)

// clockReserve is the time that a clock set as late as possible can still run:
// filters and cursors cannot name events after [eventlog.CreatedAtMax].
const clockReserve = 366 * 24 * time.Hour

// ClockMax is the latest time that a clock can be set to.
var ClockMax = time.Unix(eventlog.CreatedAtMax, 0).Add(-clockReserve).UTC()

var (
	// ErrBackwards refuses a time before the one that the clock shows.
	ErrBackwards = errors.New("the clock goes forward only")
	// ErrTooLate refuses a time after [ClockMax].
	ErrTooLate = errors.New("the time is too late")
)

// ClockState is what a clock shows and does.
type ClockState struct {
	Own     bool      // the machine's own clock, never moved or stopped
	Shows   time.Time // in whole milliseconds, UTC
	Running bool
}

// Clock is the time of an instance. It goes forward only and is safe for concurrent
// use.
type Clock struct {
	moving sync.Mutex
	face   atomic.Pointer[face]
}

// face is how a clock finds its time: start, plus the machine's time since then if it
// runs. The machine's own clock has no start.
type face struct {
	start   time.Time
	since   time.Time
	running bool
}

func (f *face) now() time.Time {
	switch {
	case f.start.IsZero():
		return time.Now().UTC()
	case f.running:
		return f.start.Add(time.Since(f.since))
	}
	return f.start
}

// NewClock returns a clock in the given state.
func NewClock(s ClockState) *Clock {
	c := &Clock{}
	if s.Own {
		c.face.Store(&face{running: true})
		return c
	}
	c.show(s.Shows, s.Running)
	return c
}

func (c *Clock) show(t time.Time, running bool) {
	c.face.Store(&face{start: t.UTC().Truncate(time.Millisecond), since: time.Now(), running: running})
}

// Now returns the time.
func (c *Clock) Now() time.Time { return c.face.Load().now() }

// State returns what the clock shows and does.
func (c *Clock) State() ClockState {
	f := c.face.Load()
	return ClockState{Own: f.start.IsZero(), Shows: f.now().Truncate(time.Millisecond), Running: f.running}
}

// IsOwn reports whether the clock is the machine's own, never moved or stopped.
func (c *Clock) IsOwn() bool { return c.face.Load().start.IsZero() }

// IsRunning reports whether the clock runs.
func (c *Clock) IsRunning() bool { return c.face.Load().running }

// After returns the clock of an instance that goes back to the state begun. The
// machine's own clock goes on; any other shows and does again what begun says.
func (c *Clock) After(begun ClockState) *Clock {
	begun.Own = begun.Own && c.IsOwn()
	return NewClock(begun)
}

// Move is a change of a clock: at most one of Advance and Set, and Running.
type Move struct {
	Advance time.Duration
	Set     time.Time // zero for none
	Running *bool     // nil: as before
}

// Move changes the clock atomically and returns its new state. Errors:
// ErrBackwards, ErrTooLate.
func (c *Clock) Move(m Move) (ClockState, error) {
	c.moving.Lock()
	defer c.moving.Unlock()
	before := c.State()
	to, running := before.Shows.Add(m.Advance), before.Running
	if !m.Set.IsZero() {
		to = m.Set.Truncate(time.Millisecond)
	}
	if m.Running != nil {
		running = *m.Running
	}
	switch {
	case to.Before(before.Shows):
		return before, ErrBackwards
	case to.After(ClockMax) && to.After(before.Shows):
		return before, ErrTooLate
	case to.Equal(before.Shows) && running == before.Running:
		return before, nil
	}
	c.show(to, running)
	return c.State(), nil
}

func (s *Server) clockEndpoints() []devEndpoint {
	return []devEndpoint{
		{id: "showClock", method: "GET", path: "/clock", does: "shows the clock",
			answers: []devAnswer{{200, "The clock.", "Clock"}},
			serve:   s.showClock},
		{id: "moveClock", method: "POST", path: "/clock", does: `moves, stops or starts the clock: "advance" or "set", and "running"`, body: `{"advance":"90s"}`,
			takes: "ClockMove", needsBody: true, answers: []devAnswer{{200, "The clock after the move.", "Clock"}}, refuses: []int{409},
			serve: s.moveClock},
	}
}

var devClockForms = []api.Form{
	{Name: "Clock", Does: "What the clock shows.", Example: `{"now":"2026-06-01T12:00:00.000Z","unix":1780315200,"running":false}`, Members: []api.FormMember{
		{"now", "string!", "RFC 3339, in milliseconds.", `"format":"date-time"`},
		{"unix", "integer!", "Seconds since 1970."},
		{"running", "boolean!", "Whether the clock runs."},
	}},
	{Name: "ClockMove", Does: "advance or set, and running, or running alone.", Closed: true, Members: []api.FormMember{
		{"advance", "string|number", "A duration such as 90s, 15m or 14d, or a number of seconds."},
		{"set", "string|integer", "RFC 3339 or Unix seconds, not before now."},
		{"running", "boolean", "false stops the clock, true lets it run on."},
	}},
}

// shownClock is a clock on the wire.
type shownClock struct {
	Now     string `json:"now"`
	Unix    int64  `json:"unix"`
	Running bool   `json:"running"`
}

const clockLayout = "2006-01-02T15:04:05.000Z"

func showClockState(c ClockState) shownClock {
	return shownClock{c.Shows.Format(clockLayout), c.Shows.Unix(), c.Running}
}

// showClock is GET /_dev/clock.
func (s *Server) showClock(w http.ResponseWriter, _ *http.Request) error {
	web.WriteJSON(w, http.StatusOK, showClockState(s.controls.Clock.State()))
	return nil
}

// moveClock is POST /_dev/clock.
func (s *Server) moveClock(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Advance *Duration `json:"advance"`
		Set     *Moment   `json:"set"`
		Running *bool     `json:"running"`
	}
	if err := readDevBody(w, r, &ask); err != nil {
		return err
	}
	move, param := Move{Running: ask.Running}, "advance"
	switch {
	case ask.Advance != nil && ask.Set != nil:
		return web.InvalidRequest("advance and set exclude each other.").On("set")
	case ask.Advance != nil:
		move.Advance = time.Duration(*ask.Advance)
	case ask.Set != nil:
		move.Set, param = time.Time(*ask.Set), "set"
	case ask.Running == nil:
		return web.InvalidRequest("The body must have advance, set or running.")
	}
	now, err := s.controls.Clock.Move(move)
	switch {
	case errors.Is(err, ErrBackwards):
		p := web.NewProblem(http.StatusConflict, "conflict", "The clock shows %s and goes forward only.", now.Shows.Format(clockLayout)).On(param).Because(err)
		p.Extra = map[string]any{"hint": "POST /_dev/reset and /_dev/restore go back"}
		return p
	case errors.Is(err, ErrTooLate):
		return web.InvalidRequest("The latest time that the clock can be set to is %s.", ClockMax.Format(time.RFC3339)).On(param).Because(err)
	case err != nil:
		return err
	}
	web.WriteJSON(w, http.StatusOK, showClockState(now))
	return nil
}
