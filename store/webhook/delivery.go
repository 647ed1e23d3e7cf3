package webhook

import (
	"time"

	"tollhouse/store/record"
)

// State is what became of an event.
type State string

const (
	Delivered State = "delivered"
	Retrying  State = "retrying" // the head of a strict endpoint, or retried by hand
	Parked    State = "parked"   // set aside, retried automatically
	Dead      State = "dead"     // set aside, not retried
	Skipped   State = "skipped"  // set aside by hand, not retried
)

var states = []State{Delivered, Retrying, Parked, Dead, Skipped}

// isDead reports whether an event in the set is not retried automatically.
func (s State) isDead() bool { return s == Dead || s == Skipped }

// Delivery is an event and the result of sending it to an endpoint.
type Delivery struct {
	Position record.Position
	Event    string // the event's id, which may be a foreign one
	Type     string
	State    State
	Attempts int
	Refused  int // attempts that were refused, not silent
	Step     int // pauses of the schedule taken since it was set aside
	Status   int // of the last attempt; 0 if there was no answer
	Error    string
	Body     string // the beginning of a failed answer
	Took     time.Duration
	LastAt   time.Time // of the last attempt; zero if there was none
	NextAt   time.Time // zero if none is due
	// Blocked is how long the event has blocked a strict endpoint, and Probed how long
	// it had when its successor was last tried; of the server's running time.
	Blocked, Probed time.Duration

	turn uint64 // of the endpoint when the event was set aside
}

// restart makes the event due, as if it had not been tried.
func (d *Delivery) restart() {
	d.NextAt, d.Attempts, d.Refused, d.Step, d.Blocked, d.Probed = time.Time{}, 0, 0, 0, 0, 0
}

const deliveryRecord = 1

func encodeDelivery(e *record.Encoder, x Delivery) {
	e.Position(x.Position)
	if x.Event == x.Position.String() {
		e.Str("")
	} else {
		e.Str(x.Event)
	}
	e.Str(x.Type).Str(string(x.State)).Uint(uint64(x.Attempts)).Uint(uint64(x.Refused)).Uint(uint64(x.Step))
	e.Uint(uint64(x.Status)).Str(x.Error).Str(x.Body).Uint(millis(x.Took)).Time(x.LastAt).Time(x.NextAt)
	e.Uint(millis(x.Blocked)).Uint(millis(x.Probed)).Uint(x.turn)
}

func decodeDelivery(d *record.Decoder) Delivery {
	x := Delivery{Position: d.Position(), Event: d.Str()}
	if x.Event == "" {
		x.Event = x.Position.String()
	}
	x.Type, x.State = d.Str(), State(d.Str())
	x.Attempts, x.Refused, x.Step = int(d.Uint()), int(d.Uint()), int(d.Uint())
	x.Status, x.Error, x.Body, x.Took = int(d.Uint()), d.Str(), d.Str(), duration(d.Uint())
	x.LastAt, x.NextAt = d.Time(), d.Time()
	x.Blocked, x.Probed, x.turn = duration(d.Uint()), duration(d.Uint()), d.Uint()
	return x
}

// decodeLine decodes a delivery that is a record of its own.
func decodeLine(v []byte) (Delivery, error) {
	d := record.NewDecoder("webhook delivery", deliveryRecord, v)
	x := decodeDelivery(&d)
	return x, d.Done()
}

func encodeLine(x Delivery) []byte {
	e := record.NewEncoder(deliveryRecord)
	encodeDelivery(e, x)
	return e.B
}

// setKey is the key of an event that is set aside.
func (e *Endpoint) setKey(p record.Position) record.Key { return e.set().Position(p) }

func (e *Endpoint) set() record.Key {
	return record.WebhooksKey(record.TagWebhookSet, e.Account).ID(e.key)
}

// lineKey is the key of a delivered event. New ones take the places of the oldest.
func (e *Endpoint) lineKey(n uint64) record.Key {
	return e.lineKeys().Uint32(uint32(n % DeliveriesMax))
}

func (e *Endpoint) lineKeys() record.Key {
	return record.WebhooksKey(record.TagWebhookLine, e.Account).ID(e.key)
}
