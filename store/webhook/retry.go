package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Filter selects deliveries of an endpoint. The zero Filter selects all.
type Filter struct {
	State State
	Event string // an event's id
	After string // an event's id: those older than it
	Limit int
}

// Deliveries returns deliveries of an endpoint, one for each event, newest event first,
// and whether more follow: the last DeliveriesMax delivered ones, those set aside, and
// the one that blocks it. Errors: record.ErrNotFound, *record.InvalidError.
func (w *Webhooks) Deliveries(ctx context.Context, by By, id string, f Filter) (list []Delivery, more bool, err error) {
	if f.State != "" && !slices.Contains(states, f.State) {
		return nil, false, record.Invalid("state", "use delivered, retrying, parked, dead or skipped", "state %.64q is not the state of a delivery", f.State)
	}
	err = w.db.View(ctx, func(r kv.Reader) error {
		list, more = nil, false
		e, err := find(r, by, id)
		if err != nil {
			return err
		}
		behind := record.LastPosition
		if f.After != "" {
			if behind, err = e.positionOf(r, f.After); errors.Is(err, record.ErrNotFound) {
				return record.Invalid("after", "use the id of an event of this list", "after is not the id of an event")
			}
			if err != nil {
				return err
			}
		}
		all, err := e.deliveries(r)
		if err != nil {
			return err
		}
		for _, x := range all {
			if x.Position.Compare(behind) >= 0 || f.State != "" && x.State != f.State || f.Event != "" && x.Event != f.Event {
				continue
			}
			if more = len(list) == f.Limit; more {
				break
			}
			list = append(list, x)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list webhook deliveries: %w", err)
	}
	return list, more, nil
}

// deliveries reads all deliveries, newest event first.
func (e *Endpoint) deliveries(r kv.Reader) ([]Delivery, error) {
	known := delivered{}
	for _, keys := range []record.Key{e.lineKeys(), e.set()} {
		for _, v := range r.Scan(keys.All()) {
			if err := known.add(e, v); err != nil {
				return nil, err
			}
		}
	}
	return known.newestFirst(e), nil
}

// Recent returns the deliveries of an endpoint that came last, oldest event first, at most n; an event
// that was sent again is one of them. It reads 2n at most, so a list of endpoints can afford it.
func (w *Webhooks) Recent(ctx context.Context, e *Endpoint, n int) (list []Delivery, err error) {
	err = w.db.View(ctx, func(r kv.Reader) error {
		known := delivered{}
		var keys [][]byte
		for i := range min(uint64(n), e.lines) {
			keys = append(keys, e.lineKey(e.lines-1-i))
		}
		for _, v := range r.GetMany(keys) {
			if err := known.add(e, v); err != nil {
				return err
			}
		}
		set := e.set().All()
		set.Reverse, set.Limit = true, n
		for _, v := range r.Scan(set) {
			if err := known.add(e, v); err != nil {
				return err
			}
		}
		list = known.newestFirst(e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list recent webhook deliveries: %w", err)
	}
	list = list[:min(len(list), n)]
	slices.Reverse(list)
	return list, nil
}

// delivered are deliveries by the positions of their events.
type delivered map[record.Position]Delivery

func (d delivered) add(e *Endpoint, v []byte) error {
	x, err := decodeLine(v)
	if err != nil {
		return err
	}
	x = e.current(x)
	// An event that was sent again has two lines.
	if old, has := d[x.Position]; !has || x.State != Delivered || x.LastAt.After(old.LastAt) {
		d[x.Position] = x
	}
	return nil
}

// newestFirst adds the event that blocks the endpoint.
func (d delivered) newestFirst(e *Endpoint) []Delivery {
	if e.Head != nil {
		d[e.Head.Position] = *e.Head
	}
	var all []Delivery
	for _, x := range d {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Delivery) int { return b.Position.Compare(a.Position) })
	return all
}

// positionOf returns the position of an event id. The feed has no list by id, so there it is
// one of the deliveries. Errors: record.ErrNotFound.
func (e *Endpoint) positionOf(r kv.Reader, id string) (record.Position, error) {
	if !e.ofAll() {
		return eventlog.PositionOf(r, e.Account, id)
	}
	all, err := e.deliveries(r)
	if err != nil {
		return record.Position{}, err
	}
	i := slices.IndexFunc(all, func(x Delivery) bool { return x.Event == id })
	if i < 0 {
		return record.Position{}, record.ErrNotFound
	}
	return all[i].Position, nil
}

// Retry says which events to send again: by their ids, all that are set aside with a
// state, or a stretch of the log.
type Retry struct {
	Events   []string
	State    State // Parked or Dead, which includes skipped ones
	From, To From  // the first and the last of a stretch
	Types    []string
}

// Retry makes events due now, in addition to the live ones, and returns how many. Of a stretch
// only events up to the cursor count, since those after it are sent anyway; they have the
// endpoint's types unless Types says others. Errors: record.ErrNotFound, also for an event
// that the account does not have, *record.InvalidError, *eventlog.CursorError, ErrTooMany,
// ErrFull.
func (w *Webhooks) Retry(ctx context.Context, by By, id string, what Retry) (queued int, err error) {
	e, err := w.Find(ctx, by, id)
	if err != nil {
		return 0, err
	}
	var list []Delivery
	switch {
	case len(what.Events) > 0:
		list, err = w.retriedEvents(ctx, &e, what.Events)
	case what.State != "":
		list, err = w.retriedState(ctx, &e, what.State)
	default:
		list, err = w.retriedStretch(ctx, &e, what)
	}
	if err == nil && len(list) > RetriedMax {
		err = ErrTooMany
	}
	if err != nil {
		return 0, fmt.Errorf("retry webhook events: %w", err)
	}
	random := w.draw()
	audited := false
	for batch := range slices.Chunk(list, setPage) {
		_, err := w.edit(ctx, by, id, func(tx kv.Txn, e *Endpoint) (bool, error) {
			if err := e.queue(tx, batch, w.Now()); err != nil || audited {
				return err == nil, err
			}
			return true, w.audit(tx, by, *e, fmt.Sprintf("%d events retried", len(list)), random)
		})
		if err != nil {
			return queued, fmt.Errorf("retry webhook events: %w", err)
		}
		audited = true
		queued += len(batch)
	}
	return queued, nil
}

const retriedAtOnce = 100 // events in memory with their texts

// retriedEvents finds events by their ids.
func (w *Webhooks) retriedEvents(ctx context.Context, e *Endpoint, ids []string) (list []Delivery, err error) {
	if len(ids) > RetriedMax {
		return nil, ErrTooMany
	}
	var positions []record.Position
	err = w.db.View(ctx, func(r kv.Reader) error {
		positions = positions[:0]
		for _, id := range ids {
			p, err := e.positionOf(r, id)
			if err != nil {
				return err
			}
			positions = append(positions, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(positions, record.Position.Compare)
	positions = slices.Compact(positions)
	for some := range slices.Chunk(positions, retriedAtOnce) {
		events, err := w.Log.EventsAt(ctx, e.Account, some)
		if err == nil && len(events) < len(some) {
			err = record.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			list = append(list, deliveryOf(event))
		}
	}
	return list, nil
}

// retriedState finds the events set aside with a state.
func (w *Webhooks) retriedState(ctx context.Context, e *Endpoint, s State) (list []Delivery, err error) {
	if s != Parked && s != Dead {
		return nil, record.Invalid("state", "use parked or dead", "state must be parked or dead, not %.64q", s)
	}
	err = w.eachSetPage(ctx, e.set().All(), func(page []Delivery) error {
		for _, x := range page {
			if x.State.isDead() == (s == Dead) {
				list = append(list, x)
			}
		}
		return nil
	})
	return list, err
}

// retriedStretch finds the events of a stretch of the log.
func (w *Webhooks) retriedStretch(ctx context.Context, e *Endpoint, what Retry) (list []Delivery, err error) {
	types := e.Types
	if what.Types != nil {
		if types, err = checkTypes(what.Types); err != nil {
			return nil, err
		}
	}
	var after, last record.Position
	err = w.db.View(ctx, func(r kv.Reader) error {
		if after, err = what.From.resolve(r, e.Account, w.Now()); err != nil {
			return err
		}
		last, err = what.To.end(r, e.Account)
		return err
	})
	if err != nil {
		return nil, err
	}
	if what.From.event != "" { // which belongs to the stretch
		after = after.Before()
	}
	last = minOf(last, e.Cursor)
	for after.Compare(last) < 0 {
		s, err := w.Log.FollowUntil(ctx, e.Account, types, after, last, 1000)
		if err != nil {
			return nil, err
		}
		for _, event := range s.Events {
			list = append(list, deliveryOf(event))
		}
		if !s.More || len(list) > RetriedMax {
			break
		}
		after = s.Passed
	}
	return list, nil
}

// end returns the last position of a stretch that ends there.
func (f From) end(r kv.Reader, account string) (record.Position, error) {
	switch {
	case f.event != "":
		p, err := eventlog.PositionOf(r, account, f.event)
		if errors.Is(err, record.ErrNotFound) {
			return p, notAPosition("to", account, f.event)
		}
		return p, err
	case f.time != nil && account == eventlog.AllAccounts:
		return record.Position{}, record.Invalid("to", feedHint, "to must not be a time: the feed is in the order of recording")
	case f.time != nil:
		return record.FirstPosition(max(*f.time, 0) + 1).Before(), nil
	}
	return record.LastPosition, nil
}

func deliveryOf(event eventlog.Followed) Delivery {
	return Delivery{Position: event.Position, Event: event.ID, Type: event.Type}
}

// queue makes events due now. What is known of earlier attempts is kept.
func (e *Endpoint) queue(tx kv.Txn, list []Delivery, now time.Time) error {
	aside, err := e.aside(tx, list)
	if err != nil {
		return err
	}
	var due []Delivery
	for _, x := range list {
		if e.Head != nil && e.Head.Position == x.Position {
			e.Head.NextAt = now
			continue
		}
		if x.Position.Compare(e.Cursor) > 0 {
			continue // it is sent anyway
		}
		if known, has := aside[x.Position]; has {
			x = known
		}
		x.State, x.NextAt, x.Step = Retrying, now, 0
		due = append(due, x)
	}
	return e.put(tx, e.turn, due...)
}
