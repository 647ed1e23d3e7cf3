package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Waiting says what waits behind the cursor of an endpoint.
type Waiting struct {
	Events int    `json:"events"` // at most WaitingMax
	More   bool   `json:"more"`
	Oldest *int64 `json:"oldest"` // when the first of them was created
}

// WaitingMax bounds the events that are counted.
const WaitingMax = 10_000

// Enable lets events be sent to an endpoint again, and binds it to the caller. It continues
// at the cursor, so nothing is lost, unless a position is given: that moves the cursor, also
// of an enabled endpoint, and forgets the events set aside after it. On an enabled endpoint
// without a position it ends the pauses, and changes nothing else. Errors:
// record.ErrNotFound, ErrOperatorOnly, record.ErrDisabled if the caller's authorization has
// ended in the meantime, ErrSecretLost, ErrEnabled for From.IfDisabled,
// *record.InvalidError, *eventlog.CursorError.
func (w *Webhooks) Enable(ctx context.Context, by By, id string, from From) (Endpoint, Waiting, error) {
	e, err := w.change(ctx, by, id, func(tx kv.Txn, e *Endpoint) (string, error) {
		if e.Enabled() && from.ifDisabled {
			return "", ErrEnabled
		}
		if e.Enabled() && from.IsZero() {
			if e.waits() {
				e.renew(false)
			}
			return "", nil
		}
		if by.hasToken() && e.isOperatorsToEnable() {
			return "", ErrOperatorOnly
		}
		if err := w.bind(tx, e, by); err != nil {
			return "", err
		}
		if _, ok := w.Open(e); !ok {
			return "", ErrSecretLost
		}
		if !from.IsZero() {
			p, err := from.resolve(tx, e.Account, w.Now())
			if err != nil {
				return "", err
			}
			e.turn += aMove
			e.Cursor, e.Head, e.Gap.Pending, e.atNow = p, nil, false, from.now
		}
		action := "updated"
		if !e.Enabled() {
			action = "enabled"
		}
		e.Disabled = Disabled{}
		e.renew(false)
		return action, nil
	})
	if err == nil && !from.IsZero() {
		e, err = w.forget(ctx, e)
	}
	if err != nil {
		return Endpoint{}, Waiting{}, err
	}
	waiting, err := w.Waiting(ctx, &e, WaitingMax)
	return e, waiting, err
}

// isOperatorsToEnable reports whether only an operator may enable the endpoint.
func (e *Endpoint) isOperatorsToEnable() bool {
	switch e.Disabled.By {
	case "", ByAPI:
		return false
	case ByOperator:
		return true
	}
	return e.IsOperator()
}

// forget drops the events that were set aside after the cursor's new position before it was
// moved there, because they are sent again. Those that the sender sets aside in the meantime
// have the new turn.
func (w *Webhooks) forget(ctx context.Context, e Endpoint) (Endpoint, error) {
	r := e.set().From(append(e.setKey(e.Cursor), 0))
	err := w.eachSetPage(ctx, r, func(page []Delivery) error {
		return w.editSet(ctx, e.ID, page, func(x Delivery) bool { return x.turn < e.turn && x.Position.Compare(e.Cursor) > 0 })
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("forget the events set aside: %w", err)
	}
	return w.Find(ctx, System, e.ID)
}

const setPage = 300 // events of a set read or written together

// eachSetPage reads events that are set aside, page by page.
func (w *Webhooks) eachSetPage(ctx context.Context, r kv.Range, visit func(page []Delivery) error) error {
	r.Limit = setPage
	for {
		var list []Delivery
		err := w.db.View(ctx, func(rd kv.Reader) error {
			list = list[:0]
			for k, v := range rd.Scan(r) {
				x, err := decodeLine(v)
				if err != nil {
					return err
				}
				list = append(list, x)
				r.Lo = append(append([]byte(nil), k...), 0)
			}
			return nil
		})
		if err != nil || len(list) == 0 {
			return err
		}
		if err := visit(list); err != nil {
			return err
		}
	}
}

// editSet removes those of the events set aside for which drop still says yes.
func (w *Webhooks) editSet(ctx context.Context, id string, page []Delivery, drop func(Delivery) bool) error {
	_, err := w.edit(ctx, System, id, func(tx kv.Txn, e *Endpoint) (changed bool, err error) {
		tx.As(kv.Ending)
		aside, err := e.aside(tx, page)
		if err != nil {
			return false, err
		}
		for p, x := range aside {
			if !drop(x) {
				continue
			}
			changed = true
			e.count(x.State, -1)
			if err := tx.Delete(e.setKey(p)); err != nil {
				return false, err
			}
		}
		return changed, nil
	})
	return record.GoneIsNil(err)
}

// count adds n events of a state to those set aside.
func (e *Endpoint) count(s State, n int) {
	switch {
	case s == Delivered:
	case s.isDead():
		e.Dead += n
	default:
		e.Parked += n
	}
}

// Waiting counts the events that wait behind the cursor, at most as many as most says and 10,000. It
// counts fewer, with More, if they are large or far apart: what it reads of the log depends on most.
func (w *Webhooks) Waiting(ctx context.Context, e *Endpoint, most int) (n Waiting, err error) {
	most = min(most, WaitingMax)
	after := e.Cursor
	for range 2 + most/200 { // of 10,000 rows or 1,000 events each
		s, err := w.Next(ctx, e, after, min(most+1, 1000))
		if gone, ok := errors.AsType[*eventlog.CursorError](err); ok {
			after = gone.Resume
			continue
		}
		if err != nil {
			return Waiting{}, err
		}
		if n.Events == 0 && len(s.Events) > 0 {
			n.Oldest = seconds(s.Events[0].Position.Time())
		}
		n.Events, n.More, after = n.Events+len(s.Events), s.More, s.Passed
		if n.Events > most {
			n.Events, n.More = most, true
		}
		if !s.More || n.Events == most {
			break
		}
	}
	return n, nil
}

// Disable stops sending to an endpoint until it is enabled. It is idempotent. An operator's
// request also counts when somebody else has disabled the endpoint, and nobody else's
// replaces it: only an operator enables the endpoint then. Errors: record.ErrNotFound.
func (w *Webhooks) Disable(ctx context.Context, by By, id string) (Endpoint, error) {
	return w.change(ctx, by, id, func(tx kv.Txn, e *Endpoint) (string, error) {
		tx.As(by.ending())
		return e.disableFor(by, w.Now()), nil
	})
}

// DisableOwn is Disable for a user at the pages, of an endpoint of the user's authorizations.
// Errors: record.ErrNotFound.
func (w *Webhooks) DisableOwn(ctx context.Context, by By, id string) (Endpoint, error) {
	return w.change(ctx, by, id, func(tx kv.Txn, e *Endpoint) (string, error) {
		tx.As(by.ending())
		if e.User != by.User {
			return "", record.ErrNotFound
		}
		return e.disableFor(by, w.Now()), nil
	})
}

func (e *Endpoint) disableFor(by By, at time.Time) (action string) {
	cause := ByOperator
	if by.hasToken() {
		cause = ByAPI
	}
	if !e.Enabled() && (cause == ByAPI || e.Disabled.By == ByOperator) {
		return ""
	}
	e.disable(cause, Asked, at)
	return "disabled"
}

func (e *Endpoint) disable(cause Cause, reason Reason, at time.Time) {
	e.Disabled = Disabled{By: cause, Reason: reason, At: at}
	e.turn++
}

// Skip settles the event that blocks a strict endpoint: it is set aside as skipped, and
// delivery continues after it. If event is given, only that one is settled. Errors:
// record.ErrNotFound, ErrNoHead, ErrFull.
func (w *Webhooks) Skip(ctx context.Context, by By, id, event string) (Endpoint, error) {
	random := w.draw()
	e, err := w.edit(ctx, by, id, func(tx kv.Txn, e *Endpoint) (bool, error) {
		if e.Head == nil || event != "" && e.Head.Event != event {
			return false, ErrNoHead
		}
		skipped := *e.Head
		skipped.State, skipped.NextAt = Skipped, time.Time{}
		if err := e.put(tx, e.turn, skipped); err != nil {
			return false, err
		}
		e.Cursor, e.Head = record.LaterOf(e.Cursor, skipped.Position), nil
		e.turn++
		return true, w.audit(tx, by, *e, "skipped "+skipped.Event, random)
	})
	if err != nil {
		return Endpoint{}, err
	}
	return w.answer(ctx, by, e), nil
}

// aside returns those of the events that are set aside.
func (e *Endpoint) aside(r kv.Reader, list []Delivery) (found map[record.Position]Delivery, err error) {
	found = map[record.Position]Delivery{}
	for _, v := range r.GetMany(e.setKeys(list)) {
		x, err := decodeLine(v)
		if err != nil {
			return nil, err
		}
		found[x.Position] = x
	}
	return found, nil
}

func (e *Endpoint) setKeys(list []Delivery) [][]byte {
	keys := make([][]byte, len(list))
	for i, x := range list {
		keys[i] = e.setKey(x.Position)
	}
	return keys
}

// put stores the results of events at a turn, and takes those out of the set that were
// delivered.
func (e *Endpoint) put(tx kv.Txn, turn uint64, list ...Delivery) error {
	aside, err := e.aside(tx, list)
	if err != nil {
		return err
	}
	for _, x := range list {
		old, was := aside[x.Position]
		if was {
			e.count(old.State, -1)
		}
		if x.State == Delivered {
			if was {
				delete(aside, x.Position)
				if err := tx.Delete(e.setKey(x.Position)); err != nil {
					return err
				}
			}
			if err := tx.Set(e.lineKey(e.lines), encodeLine(x), time.Time{}); err != nil {
				return err
			}
			e.lines++
			continue
		}
		if e.IsFull() {
			return ErrFull
		}
		e.count(x.State, 1)
		x.turn = turn
		aside[x.Position] = x
		if err := tx.Set(e.setKey(x.Position), encodeLine(x), time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// TestAccepted ends the pauses of an endpoint whose receiver accepted a test, unless it has
// another URL now. It is no change that is recorded. An endpoint that is gone is no error.
func (w *Webhooks) TestAccepted(ctx context.Context, was *Endpoint) error {
	_, err := w.edit(ctx, System, was.ID, func(_ kv.Txn, e *Endpoint) (bool, error) {
		if e.URL != was.URL || !e.Enabled() || !e.waits() {
			return false, nil
		}
		e.renew(true)
		return true, nil
	})
	return record.GoneIsNil(err)
}

// Tested writes the audit line of a test. Errors: record.ErrNotFound.
func (w *Webhooks) Tested(ctx context.Context, by By, id string) error {
	random := w.draw()
	return w.update(ctx, by, func(tx kv.Txn) error {
		e, err := find(tx, by, id)
		if err != nil {
			return err
		}
		return w.audit(tx, by, e, "tested", random)
	})
}
