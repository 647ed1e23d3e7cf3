package webhooks

import (
	"context"
	"errors"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
)

// ErrNoSecret means that an endpoint has no secret that can be opened.
var ErrNoSecret = errors.New("the endpoint's secrets cannot be decrypted")

// Test sends one event of the type system.test, which is in no log, whatever the state of
// the endpoint. It waits for a slot, as a delivery does. An accepted one ends the endpoint's
// pauses. It returns the event's id. Errors: record.ErrNotFound, ErrNoSecret.
func (s *Sender) Test(ctx context.Context, id string) (event string, a Answer, err error) {
	ep, err := s.o.Store.Load(ctx, id)
	if err != nil {
		return "", a, err
	}
	secrets, ok := s.o.Store.Open(&ep)
	if !ok {
		return "", a, ErrNoSecret
	}
	p, wire, err := s.o.Events.Unrecorded(eventlog.NewEvent{
		Owner: ep.Account, Type: "system.test", Resource: ep.ID, Source: "system", Location: "system",
		Object: snapshot.ObjectOf(
			snapshot.Member{Name: "id", Value: snapshot.Text(ep.ID)},
			snapshot.Member{Name: "object", Value: snapshot.Text("system")}),
	})
	if err != nil {
		return "", a, err
	}
	give, err := s.take(ctx, ep.Account, false)
	if err != nil {
		return "", a, err
	}
	defer give()
	over := s.o.Client.NewConnections()
	defer over.CloseIdleConnections()
	m := &Message{URL: ep.URL, ID: p.String(), Body: wire, Time: time.Now(), Secrets: secrets, Endpoint: ep.ID, Attempt: 1}
	if a, err = s.o.Client.Send(ctx, over, m); err == nil && a.Outcome == Accepted {
		if err := s.o.Store.TestAccepted(context.WithoutCancel(ctx), &ep); err != nil {
			s.o.Log.Warn("cannot end the pauses of a webhook endpoint", "endpoint", ep.ID, "err", err)
		}
	}
	return m.ID, a, err
}
