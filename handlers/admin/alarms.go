package admin

import (
	"context"
	"net/http"
	"time"

	"tollhouse/handlers/web"
)

// Alarms is the sender of alarms. Both return nil if no URL is given.
type Alarms struct {
	Test func(context.Context) []AlarmTried
	List func() []Alarm
}

// AlarmTried is how a test of one URL ended.
type AlarmTried struct {
	Alarm     string  `json:"alarm"` // the scheme and the host
	Delivered bool    `json:"delivered"`
	Status    *int    `json:"status"`
	Error     *string `json:"error"`
	MS        int64   `json:"ms"`
}

// Alarm is a finding that lasts, or a message that waits.
type Alarm struct {
	Alarm    string  `json:"alarm"`
	Subject  *string `json:"subject"`
	State    string  `json:"state"`
	Severity string  `json:"severity"`
	BegunAt  int64   `json:"begun_at"`
	ToldAt   *int64  `json:"told_at"`
	Waiting  int     `json:"waiting"` // messages
}

// testAlarms is POST /admin/alarm-test. The receivers may take longer than other answers.
func (s *Server) testAlarms(w http.ResponseWriter, r *http.Request) error {
	if err := readAdminBody(w, r, &struct{}{}); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	web.WriteJSON(w, http.StatusOK, s.Alarms.Test(r.Context()))
	return nil
}

// listAlarms is GET /admin/alarms.
func (s *Server) listAlarms(w http.ResponseWriter, _ *http.Request) error {
	web.WriteJSON(w, http.StatusOK, s.Alarms.List())
	return nil
}
