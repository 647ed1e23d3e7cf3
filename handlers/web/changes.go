package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
)

// changesAtOnce is how many changes of an account, or token requests of a client, may be in flight
// without any being refused: a caller that sends very many does not crowd out the others.
const changesAtOnce = 16

// refusalPause delays a refusal: clients that retry immediately would take processor time from
// those that are served.
const refusalPause = 25 * time.Millisecond

// changes counts the changes in flight by who makes them: an account, or a client.
type changes struct {
	mu sync.Mutex
	by map[string]int
}

// BeginChange refuses a change while changes have waited too long, if many of them are of the
// same account or client. It is for programs, which retry. People, operators and revocations do not
// call it: the engine keeps the last places in its queue for them, and gives none of these to updates
// with the returned context. Without an error the caller must call EndChange. Errors:
// temporarily_unavailable.
func (s *Site) BeginChange(ctx context.Context, of string) (context.Context, error) {
	if s.changes.begin(of) <= changesAtOnce || !s.Store.IsCrowded() {
		return store.Yielding(ctx), nil
	}
	s.changes.end(of)
	select {
	case <-time.After(refusalPause):
	case <-ctx.Done():
	}
	return ctx, TemporarilyUnavailable(record.ErrUnavailable)
}

// EndChange ends what BeginChange has begun.
func (s *Site) EndChange(of string) { s.changes.end(of) }

// AsChange handles a token's change of a resource or a webhook endpoint.
func (s *Site) AsChange(next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		of := "account " + PrincipalFrom(r.Context()).Account // an account and a client may have the same name
		ctx, err := s.BeginChange(r.Context(), of)
		if err != nil {
			return err
		}
		defer s.EndChange(of)
		return next(w, r.WithContext(ctx))
	}
}

func (c *changes) begin(of string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[of]++
	return c.by[of]
}

func (c *changes) end(of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[of]--; c.by[of] == 0 {
		delete(c.by, of)
	}
}
