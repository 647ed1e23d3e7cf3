package handlers

import (
	"errors"
	"net/http"
	"time"

	"tollhouse/handlers/testers"
)

func (s *Server) devClockEndpoints() []devEndpoint {
	return []devEndpoint{
		{method: "GET", path: "/clock", does: "shows the clock", serve: s.showClock},
		{method: "POST", path: "/clock", does: `moves the clock: "advance" or "set", and "running"`, body: `{"advance":"90s"}`, serve: s.moveClock},
	}
}

// shownClock is a clock on the wire.
type shownClock struct {
	Now     string `json:"now"`
	Unix    int64  `json:"unix"`
	Running bool   `json:"running"`
}

const clockLayout = "2006-01-02T15:04:05.000Z"

func showClockState(c testers.ClockState) shownClock {
	return shownClock{c.Shows.Format(clockLayout), c.Shows.Unix(), c.Running}
}

// showClock is GET /_dev/clock.
func (s *Server) showClock(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, showClockState(s.dev.Clock.State()))
	return nil
}

// moveClock is POST /_dev/clock.
func (s *Server) moveClock(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Advance *testers.Duration `json:"advance"`
		Set     *testers.Moment   `json:"set"`
		Running *bool             `json:"running"`
	}
	if err := readDevBody(w, r, &ask); err != nil {
		return err
	}
	move, param := testers.Move{Running: ask.Running}, "advance"
	switch {
	case ask.Advance != nil && ask.Set != nil:
		return invalidRequest("advance and set exclude each other.").on("set")
	case ask.Advance != nil:
		move.Advance = time.Duration(*ask.Advance)
	case ask.Set != nil:
		move.Set, param = time.Time(*ask.Set), "set"
	case ask.Running == nil:
		return invalidRequest("The body must have advance, set or running.")
	}
	now, err := s.dev.Clock.Move(move)
	switch {
	case errors.Is(err, testers.ErrBackwards):
		p := newProblem(http.StatusConflict, "conflict", "The clock shows %s and goes forward only.", now.Shows.Format(clockLayout)).on(param).because(err)
		p.extra = map[string]any{"hint": "POST /_dev/reset and /_dev/restore go back"}
		return p
	case errors.Is(err, testers.ErrTooLate):
		return invalidRequest("The latest time that the clock can be set to is %s.", testers.ClockMax.Format(time.RFC3339)).on(param).because(err)
	case err != nil:
		return err
	}
	writeJSON(w, http.StatusOK, showClockState(now))
	return nil
}
