package webhooks

import (
	"context"
	"net/http"
	"slices"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

const (
	dueMax    = 100       // events set aside that are read at a time
	retryLook = time.Hour // the clock may step while the next one is waited for
)

// retry tries the events that were set aside and are due, one after another, alongside the
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
		if next.IsZero() {
			return next
		}
		return time.Now().Add(min(time.Until(next), retryLook)) // by the monotonic clock
	}
	return time.Time{}
}

// retryDue tries what is due. It returns errAgain if it found anything.
func (d *delivery) retryDue() (next time.Time, err error) {
	due, next, err := d.s.o.Store.Due(d.stop, d.ep, time.Now(), dueMax)
	if silent := d.silentUntil(); time.Until(silent) > 0 { // except for those retried by hand
		due, next = slices.DeleteFunc(due, func(x webhook.Delivery) bool { return x.State != webhook.Retrying }), silent
	}
	if err != nil || len(due) == 0 {
		return next, err
	}
	for _, x := range due {
		if err := d.again(x); err != nil {
			return next, err
		}
	}
	return next, errAgain
}

// again tries an event that was set aside. It reads the endpoint and the event when it may
// send: while it waited for others the URL and the secrets may have changed, and the event
// may have been purged.
func (d *delivery) again(x webhook.Delivery) error {
	give, err := d.s.take(d.stop, d.ep.Account, d.isProven())
	if err != nil {
		return err
	}
	defer give()
	now, _ := d.load()
	if now == nil || now.ep.Turn() != d.ep.Turn() {
		return errAgain
	}
	d.ep, d.secrets = now.ep, now.secrets
	events, err := d.s.o.Events.EventsAt(d.stop, d.ep.Account, []record.Position{x.Position})
	if err != nil {
		return err
	}
	if len(events) == 0 { // it was purged
		return d.writeAside(webhook.Progress{Gone: []record.Position{x.Position}, Last: d.last}, false)
	}
	a, err := d.send(events[0], x.Attempts+1)
	if err != nil {
		return err
	}
	p := webhook.Progress{Last: d.last}
	switch {
	case a.Outcome == Accepted:
		d.recover(a)
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
	if err := d.writeAside(p, a.Outcome == Accepted); err != nil || !a.Silent() || a.RetryAfter == 0 {
		return err
	}
	d.keepSilent(a.RetryAfter)
	return errAgain
}

// writeAside settles the result of an event that was set aside. The head and the trouble are
// those of the live deliveries; an accepted event ends the trouble.
func (d *delivery) writeAside(p webhook.Progress, accepted bool) error {
	d.e.writing.Lock()
	defer d.e.writing.Unlock()
	now, err := d.s.o.Store.Load(context.WithoutCancel(d.stop), d.e.id)
	if err != nil {
		return err
	}
	wasFull := now.IsFull()
	if p.Head = now.Head; !accepted {
		p.Trouble = now.Trouble
		if p.Trouble.Attempts > 0 && len(p.Done) > 0 {
			p.Trouble.Attempts++
		}
	}
	if now, err = d.commit(d.ep, p); err != nil {
		return err
	}
	if wasFull && !now.IsFull() {
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		d.s.wake(&d.e.live)
	}
	return nil
}
