package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

const (
	waitMax        = 55  // seconds; proxies may give up at 60
	LiveRetryAfter = "5" // seconds
)

// WatchEvents watches an account's log, within the limit of the account, or of the platform
// client that acts for it.
func (s *Server) WatchEvents(ctx context.Context, owner string) (*eventlog.Watch, error) {
	var ended func()
	if p := web.FactsFrom(ctx).Principal; p != nil && p.Platform {
		var err error
		if ended, err = s.BeginWaiting(p.ClientID); err != nil {
			return nil, err
		}
	}
	watch, err := s.site.Store.Events.WatchEventsFor(ctx, owner, ended)
	if errors.Is(err, eventlog.ErrTooManyWatches) {
		return nil, tooManyWait("account").Because(err)
	}
	return watch, err
}

// waitingMax bounds the waiting requests of a platform client, for all accounts together.
const waitingMax = 64

// BeginWaiting counts a request of a platform client that waits until ended is called. It
// refuses what is one too many.
func (s *Server) BeginWaiting(client string) (ended func(), err error) {
	ended, ok := s.waiting.begin(client)
	if !ok {
		return nil, tooManyWait("client")
	}
	return ended, nil
}

func tooManyWait(whose string) *web.Problem {
	return web.NewProblem(http.StatusTooManyRequests, "too_many_requests", "Too many requests of this %s are waiting for events. Close some of them, or try again in "+LiveRetryAfter+" seconds.", whose).
		With("Retry-After", LiveRetryAfter)
}

// atOnce counts what goes on at the same time, by who does it. It is safe for concurrent use.
type atOnce struct {
	most int

	mu sync.Mutex
	of map[string]int
}

func newAtOnce(most int) *atOnce { return &atOnce{most: most, of: map[string]int{}} }

// begin counts one more until ended is called, or reports that there are enough.
func (a *atOnce) begin(who string) (ended func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[who] == a.most {
		return nil, false
	}
	a.of[who]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.of[who]--; a.of[who] == 0 {
			delete(a.of, who)
		}
	}, true
}

// StayOpen prepares a request that waits. It reads the body first, within the usual
// deadline, because net/http waits for the body before it sends a header. Then it
// removes the deadline, since net/http would take an expired one for the caller
// disconnecting.
func StayOpen(w http.ResponseWriter, r *http.Request) error {
	web.FactsFrom(r.Context()).Lease.EndReads()
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
		begun := time.Now()
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
		changed, again := watch.Changed(), (<-chan time.Time)(nil)
		if page.More {
			changed, again = nil, s.betweenSearches(time.Since(begun))
		}
		select {
		case <-changed:
		case <-again:
		case <-over.Done():
		case <-s.Draining:
		}
	}
	return r.Context().Err()
}

// betweenSearches receives a value when a reader that waits may continue its search of a long
// log, whose last part took that time: after the same time for each reader that pauses. So
// all of them together use about one processor at most.
func (s *Server) betweenSearches(took time.Duration) <-chan time.Time {
	again := make(chan time.Time, 1)
	time.AfterFunc(took*time.Duration(s.pausing.Add(1)), func() {
		s.pausing.Add(-1)
		again <- time.Now()
	})
	return again
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
