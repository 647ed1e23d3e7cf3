package webhooks

import (
	"context"
	"errors"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

func (d *delivery) unsettled() bool { return d.at != d.ep.Cursor || len(d.done) > 0 }

func (d *delivery) settleIfDue() error {
	if d.unsettled() && (len(d.done) >= unsettledMax || time.Since(d.since) >= unsettledFor) {
		return d.settle("")
	}
	return nil
}

// note keeps the result of an event until it is written.
func (d *delivery) note(x webhook.Delivery) {
	d.done = append(d.done, x)
	d.ep.Gap.Settle(x)
	if d.since.IsZero() {
		d.since = time.Now()
	}
}

// settle writes what was done, if anything, and disables the endpoint if there is a reason.
func (d *delivery) settle(disable webhook.Reason) error {
	if !d.unsettled() && disable == "" {
		return nil
	}
	return d.write(disable)
}

// write settles what was done. If the store refuses, it retries: nothing more is sent that
// could not be settled.
func (d *delivery) write(disable webhook.Reason) error {
	d.e.writing.Lock()
	defer d.e.writing.Unlock()
	p := webhook.Progress{Cursor: d.at, Done: d.done, Head: d.ep.Head, Trouble: d.ep.Trouble, Last: d.last, Disable: disable}
	now, err := d.commit(d.ep, p)
	if d.parked { // also when the endpoint was changed, which settles what is done all the same
		d.wakeAside()
	}
	d.done, d.since, d.parked = nil, time.Time{}, false
	if err != nil { // the endpoint was changed, or the sender stops
		d.at = d.ep.Cursor
		return err
	}
	d.ep, d.at = &now, now.Cursor
	var open bool
	if d.secrets, open = d.s.o.Store.Open(d.ep); !open { // one may have expired
		return errAgain
	}
	if now.Held || !now.Stopped.IsZero() || disable == "" && !now.Enabled() {
		return errAgain
	}
	return nil
}

func (d *delivery) wakeAside() {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.wake(&d.e.aside)
}

// commit retries while the store refuses, until the sender stops.
func (r *run) commit(ep *webhook.Endpoint, p webhook.Progress) (webhook.Endpoint, error) {
	for {
		now, err := r.s.o.Store.Settle(context.WithoutCancel(r.stop), ep, p)
		switch {
		case err == nil, errors.Is(err, record.ErrNotFound), errors.Is(err, webhook.ErrFull):
			return now, err
		case errors.Is(err, record.ErrConflict):
			r.checkLost(ep)
			return now, err
		}
		r.s.o.Log.Warn("cannot record webhook deliveries", "endpoint", ep.ID, "err", err)
		select {
		case <-r.stop.Done():
			return now, err
		case <-time.After(storeRetry):
		}
	}
}

// checkLost stops the sender if an endpoint that nobody changed could not be settled:
// another process has become the sender.
func (r *run) checkLost(ep *webhook.Endpoint) {
	now, err := r.s.o.Store.Load(context.WithoutCancel(r.stop), ep.ID)
	if err != nil || now.Turn() != ep.Turn() || !now.Enabled() {
		return
	}
	r.s.o.Log.Warn("another process is sending the webhooks")
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.lost()
}
