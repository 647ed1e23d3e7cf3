package webhooks

import (
	"net/http"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

const dueMax = 100 // events set aside that are read at once

// retry tries the events that were set aside and are due, one after another, beside the
// live ones. It returns when the next one is due, or zero.
func (s *Sender) retry(r *run) time.Time {
	for r.goesOn() {
		d, due := r.load()
		if d == nil {
			return due
		}
		next, err := d.retryDue()
		if r.mustLoad(err) {
			continue
		}
		if err != nil {
			return time.Now().Add(storeRetry)
		}
		return next
	}
	return time.Time{}
}

// retryDue tries what is due. It returns errAgain if it found anything.
func (d *delivery) retryDue() (next time.Time, err error) {
	due, next, err := d.s.o.Store.Due(d.stop, d.ep, time.Now(), dueMax)
	if err != nil || len(due) == 0 {
		return next, err
	}
	positions := make([]record.Position, len(due))
	for i, x := range due {
		positions[i] = x.Position
	}
	events, err := d.s.o.Events.EventsAt(d.stop, d.ep.Account, positions)
	if err != nil {
		return next, err
	}
	for _, x := range due {
		if len(events) == 0 || events[0].Position != x.Position { // it was purged
			err = d.writeAside(webhook.Progress{Gone: []record.Position{x.Position}, Last: d.last}, false)
		} else {
			err = d.again(x, events[0])
			events = events[1:]
		}
		if err != nil {
			return next, err
		}
	}
	return next, errAgain
}

// again tries an event that was set aside.
func (d *delivery) again(x webhook.Delivery, ev eventlog.Followed) error {
	give, err := d.s.slots.take(d.stop, d.isProven())
	if err != nil {
		return err
	}
	defer give()
	a, err := d.send(ev, x.Attempts+1)
	if err != nil {
		return err
	}
	p := webhook.Progress{Last: d.last}
	switch {
	case a.Outcome == Accepted:
		d.recover()
		d.note(after(x, a, webhook.Delivered))
	case a.Status == http.StatusGone:
		p.Disable = webhook.Gone
	default:
		d.s.mu.Lock()
		d.e.proven = false
		d.s.mu.Unlock()
		d.park(after(x, a, webhook.Parked), x.Step+1, a.RetryAfter)
	}
	p.Done, d.done = d.done, nil
	return d.writeAside(p, a.Outcome == Accepted)
}

// writeAside settles what came of an event that was set aside. The head and the trouble are
// those of the live deliveries; an accepted event ends the trouble.
func (d *delivery) writeAside(p webhook.Progress, accepted bool) error {
	d.e.writing.Lock()
	defer d.e.writing.Unlock()
	now, err := d.s.o.Store.Load(d.stop, d.e.id)
	if err != nil {
		return err
	}
	if now.Turn() != d.ep.Turn() || !isSendable(&now) {
		return errAgain
	}
	wasFull := now.IsFull()
	if p.Head = now.Head; !accepted {
		p.Trouble = now.Trouble
	}
	if now, err = d.commit(&now, p); err != nil {
		return err
	}
	if wasFull && !now.IsFull() {
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		d.s.wake(&d.e.live)
	}
	return nil
}
