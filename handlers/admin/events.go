package admin

import (
	"errors"
	"fmt"
	"net/http"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// listEvents is GET /admin/events?account=A.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.api.AdminAccount(r)
	if err != nil {
		return err
	}
	return s.api.WriteEvents(w, r, account, "/admin/events", pairs, api.AliveAlways)
}

// listFeed is GET /api/platform/events for the operator.
func (s *Server) listFeed(w http.ResponseWriter, r *http.Request) error {
	return s.api.WriteFeed(w, r, api.AliveAlways)
}

// findEvent is GET /admin/events/:id?account=A.
func (s *Server) findEvent(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	account, pairs, err := s.api.AdminAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return web.UnknownParameter(pairs[0].Name, nil, []string{"account"})
	}
	err = s.api.WriteEvent(w, r, account)
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("event", id, fmt.Sprintf("tollhouse event list shows the latest events of account %s; --account selects another account", account)).Because(err)
	}
	return err
}

// recordEvent is POST /admin/events?account=A.
func (s *Server) recordEvent(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.api.NamedAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return web.UnknownParameter(pairs[0].Name, nil, []string{"account"})
	}
	body, err := web.ReadJSON(w, r, false, web.AsJSON)
	if err != nil {
		return err
	}
	e, err := eventlog.ParseNewEvent(body, account)
	if err != nil {
		return eventProblem(err)
	}
	wire, err := s.site.Store.RecordEvent(r.Context(), e)
	if err != nil {
		return eventProblem(err)
	}
	noteAdmin(r, "account_id", account)
	web.WriteBody(w, http.StatusCreated, "application/json", wire)
	return nil
}

func eventProblem(err error) error {
	var doc *snapshot.Error
	if errors.As(err, &doc) {
		return web.DocumentProblem(doc)
	}
	var bad *record.InvalidError
	if !errors.As(err, &bad) {
		return err
	}
	p := web.InvalidValue(bad)
	p.Code = "invalid_event"
	return p
}
