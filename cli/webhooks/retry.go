package webhooks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tollhouse/store/record"
)

// retry tries the events that were set aside and are due, one after another, beside the
// live ones. It returns when the next one is due, or zero.
func (s *Sender) retry(r *run) time.Time {
	for r.stop.Err() == nil && r.inFlight.Err() == nil {
		ep, err := s.o.Store.Load(r.stop, r.e.id)
		switch {
		case errors.Is(err, record.ErrNotFound):
			s.forget(r.e)
			return time.Time{}
		case err != nil:
			return time.Now().Add(storeRetry)
		case !ep.Sendable:
			return time.Time{}
		}
		due, next, err := s.o.Store.Due(r.stop, ep, time.Now())
		if err != nil {
			return time.Now().Add(storeRetry)
		}
		if len(due) == 0 {
			return next
		}
		d := &delivery{run: r, ep: ep, at: ep.Cursor}
		for _, set := range due {
			if err = d.again(set); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, errAgain) && !errors.Is(err, record.ErrConflict) && !errors.Is(err, record.ErrNotFound) {
			return time.Now().Add(storeRetry)
		}
	}
	return time.Time{}
}

// again tries an event that was set aside.
func (d *delivery) again(set SetAside) error {
	give, err := d.s.slots.take(d.stop, d.isProven())
	if err != nil {
		return err
	}
	defer give()
	a, err := d.send(set.Event, set.Delivery.Attempts+1)
	if err != nil {
		return err
	}
	p := Progress{}
	switch {
	case a.Outcome == Accepted:
		d.recover()
		d.line(set.Delivery.after(a, Delivered))
		p.Trouble = &Trouble{}
		if d.ep.SetAside >= setAsideMax {
			defer d.wakeLive()
		}
	case a.Status == http.StatusGone:
		if err := d.s.o.Store.Disable(context.WithoutCancel(d.stop), d.ep, "gone"); err != nil {
			return err
		}
		return errAgain
	default:
		d.s.mu.Lock()
		d.e.proven = false
		d.s.mu.Unlock()
		d.park(set.Delivery.after(a, Parked), set.Delivery.Step+1, a.RetryAfter)
	}
	p.Lines, d.lines = d.lines, nil
	return d.s.write(d.run, d.ep, p)
}

func (d *delivery) wakeLive() {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.wake(&d.e.live)
}
