package webhooks

import (
	"context"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// Store is what the sender asks of package webhook, which says what each method does.
type Store interface {
	Start(ctx context.Context) error
	Each(ctx context.Context, visit func(webhook.Endpoint) error) error
	Load(ctx context.Context, id string) (webhook.Endpoint, error)
	Open(e *webhook.Endpoint) (secrets []secret.Token, ok bool)
	Next(ctx context.Context, e *webhook.Endpoint, after record.Position, limit int) (eventlog.Stretch, error)
	Due(ctx context.Context, e *webhook.Endpoint, now time.Time, limit int) (due []webhook.Delivery, next time.Time, err error)
	Settle(ctx context.Context, e *webhook.Endpoint, p webhook.Progress) (webhook.Endpoint, error)
	PassGap(ctx context.Context, e *webhook.Endpoint) (webhook.Endpoint, error)
	TestAccepted(ctx context.Context, was *webhook.Endpoint) error
	Instance(ctx context.Context) (webhook.Instance, error)
}

// Events is what the sender asks of the log, besides the events after a cursor.
type Events interface {
	EventsAt(ctx context.Context, account string, positions []record.Position) ([]eventlog.Followed, error)
	// Unrecorded returns an event that is in no log.
	Unrecorded(e eventlog.NewEvent) (record.Position, []byte, error)
	// CountRecorded returns how many events were recorded in all logs since the start.
	CountRecorded() uint64
	Watch() Watch
}

// Watch says in which accounts' logs events were recorded, as [eventlog.WatchAll] does.
type Watch interface {
	Changed() <-chan struct{}
	Take() (accounts []string)
	Close()
}

// EventsOf returns the Events of a log.
func EventsOf(log *eventlog.Log) Events { return events{log} }

type events struct{ *eventlog.Log }

func (e events) Watch() Watch { return e.WatchAll() }

func (e events) CountRecorded() uint64 { return e.LogCounts().Recorded }
