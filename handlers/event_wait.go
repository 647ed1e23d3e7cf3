package handlers

import (
	"errors"
	"net/http"
	"time"

	"tollhouse/store"
)

const (
	waitMax        = 55  // seconds; proxies are apt to give up at 60
	liveRetryAfter = "5" // seconds
)

// watchEvents begins to watch an account's log, unless as many do as may.
func (s *Server) watchEvents(owner string) (*store.EventWatch, error) {
	watch, err := s.store.WatchEvents(owner)
	if errors.Is(err, store.ErrTooManyWatches) {
		return nil, newProblem(http.StatusTooManyRequests, "too_many_requests", "Too many requests of this account wait for events. End some of them.").
			with("Retry-After", liveRetryAfter).because(err)
	}
	return watch, err
}

// stayOpen readies a request for an answer that waits. What the caller sent with
// it is read to its end under the deadline that every body has: net/http waits
// for the rest of one before it sends a header, and without a deadline it would
// wait for ever. Then there is none, since net/http would take one that runs out
// for the caller's end.
func stayOpen(w http.ResponseWriter, r *http.Request) error {
	if _, err := readBody(w, r); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// waitForEvents returns when there is an event that q asks for, or when q's time
// is over, and moves q to where it looked.
func (s *Server) waitForEvents(w http.ResponseWriter, r *http.Request, owner string, q *eventQuery) error {
	if err := stayOpen(w, r); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(q.wait + writeTimeout))
	served(r.Context()).Waited = true
	watch, err := s.watchEvents(owner)
	if err != nil {
		return err
	}
	defer watch.Close()
	over := time.NewTimer(q.wait)
	defer over.Stop()
	for {
		probe := q.EventFilter
		probe.Limit, probe.Row = 1, appendNothing
		page, err := s.store.ListEvents(r.Context(), owner, probe, nil)
		if err != nil {
			return eventListProblem(err)
		}
		if page.Count > 0 {
			return nil
		}
		q.After = store.CursorAt(page.Next) // nothing up to there is wanted
		if page.More && r.Context().Err() == nil {
			continue // it ended early, and there is more to look through
		}
		select {
		case <-watch.Changed():
		case <-over.C:
			return nil
		case <-s.draining:
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

func appendNothing(dst []byte, _ store.Position, _ []byte) []byte { return dst }

// isDraining reports whether Drain was called.
func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Drain ends what waits for events, so that the server can stop: streams and
// long polls, which come again. It may be called once.
func (s *Server) Drain() { close(s.draining) }
