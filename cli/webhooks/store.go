package webhooks

import (
	"context"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Store is what the sender asks of the store. Each method that writes is one transaction.
// Errors: record.ErrNotFound for an endpoint that is gone; record.ErrConflict from the
// writing ones when the endpoint may no longer be sent to or its epoch is another. Then
// nothing is written.
type Store interface {
	// Endpoints returns all endpoints with their accounts.
	Endpoints(ctx context.Context) (map[string]string, error)
	Load(ctx context.Context, id string) (*Endpoint, error)
	// Next returns the matching events behind a position.
	Next(ctx context.Context, e *Endpoint, after record.Position) (Page, error)
	// Due returns the events that were set aside and are due, oldest first, and the time of
	// the next attempt if none is.
	Due(ctx context.Context, e *Endpoint, now time.Time) (due []SetAside, next time.Time, err error)
	Settle(ctx context.Context, e *Endpoint, p Progress) error
	// Disable disables an endpoint on behalf of the receiver, or because it fails.
	Disable(ctx context.Context, e *Endpoint, reason string) error
	// PassGap moves the cursor over events that retention removed.
	PassGap(ctx context.Context, e *Endpoint, g Gap) error
	// Changes is a number that rises with every change that a process made to endpoints.
	Changes(ctx context.Context) (uint64, error)
}

// Endpoint is an endpoint as the sender needs it.
type Endpoint struct {
	ID, Account, URL string
	Strict           bool
	Sendable         bool // enabled, with secrets, and the instance is not held
	Secrets          []secret.Token
	Cursor           record.Position
	Head             *Delivery // the failing event that blocks a strict endpoint, or nil
	Trouble          Trouble
	Gap              string // "AFTER..OLDEST" until the first event behind the gap is settled
	SetAside         int    // parked and dead events
}

// Trouble counts failed attempts since the last accepted one.
type Trouble struct {
	Since    time.Time
	For      time.Duration // since the first, in which a server ran
	Attempts int
}

// Event is an event of the log.
type Event struct {
	Position record.Position
	ID, Type string
	Wire     []byte
}

// Page is a stretch of the log.
type Page struct {
	Events []Event
	Passed record.Position // everything up to it was read
	More   bool            // the log goes on behind it
	Gap    *Gap            // retention removed events behind the cursor; nothing else is set
}

// Gap is a stretch of removed events.
type Gap struct{ After, Oldest record.Position }

// SetAside is an event that was set aside and is due.
type SetAside struct {
	Event
	Delivery Delivery
}

// Progress is what a sender has done.
type Progress struct {
	Cursor  record.Position // never moves back
	Lines   []Delivery      // also of events that are set aside from now on, or again
	Head    **Delivery      // nil leaves it
	Trouble *Trouble        // nil leaves it
	GapSent bool
}

// State is the state of a delivery.
type State string

// The states of a delivery.
const (
	Delivered State = "delivered"
	Retrying  State = "retrying"
	Parked    State = "parked"
	Dead      State = "dead"
)

// Delivery is an event and what came of sending it.
type Delivery struct {
	Position    record.Position
	Event, Type string
	State       State
	Attempts    int
	Refused     int // attempts that were refused, not silent
	Step        int // in the schedule, of an event that is set aside
	Status      int
	Error, Body string
	Took        time.Duration
	LastAt      time.Time
	NextAt      time.Time
	// Blocked is how long the event has blocked a strict endpoint. Probed is what it was at
	// the first refusal, and when the event behind it was last offered. Both are of the time
	// in which a server ran.
	Blocked, Probed time.Duration
}
