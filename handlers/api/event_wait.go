package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

const (
	waitMax        = 55  // seconds; proxies may give up at 60
	LiveRetryAfter = "5" // seconds
)

// WatchEvents watches an account's log, within the account's limit.
func (s *Server) WatchEvents(ctx context.Context, owner string) (*eventlog.Watch, error) {
	watch, err := s.site.Store.Events.WatchEvents(ctx, owner)
	if errors.Is(err, eventlog.ErrTooManyWatches) {
		return nil, web.NewProblem(http.StatusTooManyRequests, "too_many_requests", "Too many requests of this account are waiting for events. Close some of them, or try again in "+LiveRetryAfter+" seconds.").
			With("Retry-After", LiveRetryAfter).Because(err)
	}
	return watch, err
}

// StayOpen prepares a request that waits. It reads the body first, within the usual
// deadline, because net/http waits for the body before it sends a header. Then it
// removes the deadline, since net/http would take an expired one for the caller
// disconnecting.
func StayOpen(w http.ResponseWriter, r *http.Request) error {
	if _, err := web.ReadBody(w, r); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// waitForEvents returns when an event matches q or the time is over. It moves q to
// where it stopped looking.
func (s *Server) waitForEvents(w http.ResponseWriter, r *http.Request, owner string, q *EventQuery) error {
	if err := StayOpen(w, r); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(q.wait + web.WriteTimeout))
	web.OutcomeOf(r.Context()).Waited = true
	watch, err := s.WatchEvents(r.Context(), owner)
	if err != nil {
		return err
	}
	defer watch.Close()
	over, stop := context.WithTimeout(r.Context(), q.wait)
	defer stop()
	// The search continues only as long as the caller waits, even in a long log.
	for over.Err() == nil && !s.isDraining() {
		probe := q.Filter
		probe.Limit, probe.Row = 1, appendNothing
		page, err := s.site.Store.Events.ListEvents(r.Context(), owner, probe, nil)
		if err != nil {
			return EventListProblem(err)
		}
		if page.Count > 0 {
			return nil
		}
		if !q.After.IsAt(page.Next) { // nothing up to there matches
			q.After, q.moved = eventlog.CursorAt(page.Next), true
		}
		if page.More {
			continue
		}
		select {
		case <-watch.Changed():
		case <-over.Done():
		case <-s.Draining:
		}
	}
	return r.Context().Err()
}

func appendNothing(dst []byte, _ record.Position, _ []byte) []byte { return dst }

func (s *Server) isDraining() bool {
	select {
	case <-s.Draining:
		return true
	default:
		return false
	}
}

// Drain ends streams and long polls, so that the server can stop. Call it once.
func (s *Server) Drain() { close(s.Draining) }
