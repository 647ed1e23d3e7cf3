package webhooks

import (
	"context"
	"net/http"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/webhook"
)

// answered is an event with the result of its first attempt.
type answered struct {
	index int
	a     Answer
	err   error
}

// atOnce sends the events of a page of an endpoint without order, several at a time. An
// event that fails is parked immediately. The page is settled up to the first event that is
// not answered.
func (d *delivery) atOnce(page eventlog.Stretch) (more bool, due time.Time, err error) {
	if len(d.done)+len(page.Events) > unsettledMax {
		if err := d.settle(""); err != nil {
			return false, due, err
		}
	}
	results := make(chan answered)
	done := make([]bool, len(page.Events))
	sent, settled, inFlight := 0, 0, 0
	var extra []func()            // return the slots besides the turn's own
	gone, refused := false, false // refused: what was done could not be written
	begun := time.Now()
	for settled < len(page.Events) {
		for err == nil && !gone && due.IsZero() && d.goesOn() && sent < len(page.Events) && inFlight < d.parallel() &&
			(inFlight == 0 || inFlight <= len(extra) || d.takeExtra(&extra)) && (sent == 0 || time.Since(begun) <= turnMax) && d.ep.Parked+d.ep.Dead+inFlight < webhook.SetMax {
			i, m := sent, d.message(page.Events[sent], 1)
			sent, inFlight = sent+1, inFlight+1
			d.s.work.Go(func() {
				a, err := d.attempt(m)
				results <- answered{i, a, err}
			})
		}
		if inFlight == 0 {
			break
		}
		r := <-results
		inFlight--
		if r.err != nil || refused { // what is not written is sent again
			err = firstOf(err, r.err)
			continue
		}
		ev := page.Events[r.index]
		done[r.index], d.last = true, lastOf(r.a)
		switch {
		case r.a.Outcome == Accepted:
			d.raise()
			d.recover(r.a)
			d.note(after(d.earlier(ev), r.a, webhook.Delivered))
		case r.a.Status == http.StatusGone:
			gone, done[r.index] = true, false
			continue
		default:
			d.failed(r.a)
			d.lower(r.a)
			d.park(after(d.earlier(ev), r.a, webhook.Parked), 0, r.a.RetryAfter)
			if r.a.RetryAfter > 0 {
				due = d.keepSilent(r.a.RetryAfter)
			}
		}
		for settled < len(done) && done[settled] {
			d.pass(page.Events[settled].Position)
			settled++
		}
		settle := d.settleIfDue
		if d.parked {
			settle = func() error { return d.settle("") }
		}
		if written := settle(); written != nil {
			err, refused = firstOf(err, written), true
		}
	}
	for _, give := range extra {
		give()
	}
	switch {
	case err != nil:
		return false, due, err
	case gone:
		return false, due, d.disable(webhook.Gone)
	case d.isBeyondHope():
		return false, due, d.disable(webhook.Failing)
	case settled == len(page.Events):
		d.pass(page.Passed)
		return false, due, nil
	case !d.goesOn():
		return false, due, context.Canceled
	}
	return true, due, nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (d *delivery) takeExtra(extra *[]func()) bool {
	if !d.isProven() {
		return false
	}
	give, found := d.s.tryTake(d.ep.Account, true)
	if found {
		*extra = append(*extra, give)
	}
	return found
}

func (d *delivery) parallel() int {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.e.parallel
}

// raise allows one more request in flight for each 100 accepted.
func (d *delivery) raise() {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.e.accepted++; d.e.accepted%acceptedToRaise == 0 {
		d.e.parallel = min(d.e.parallel+1, parallelMax)
	}
}

// lower halves the requests in flight when the receiver has too many.
func (d *delivery) lower(a Answer) {
	switch a.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		d.e.parallel, d.e.accepted = max(d.e.parallel/2, 1), 0
	}
}

// keepSilent has the endpoint wait as long as the receiver asks, until it is renewed.
func (d *delivery) keepSilent(pause time.Duration) time.Time {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	until := time.Now().Add(pause)
	if d.ep.Renewal() >= d.e.silentIn {
		d.e.silent, d.e.silentIn = until, d.ep.Renewal()
	}
	return until
}

// silentUntil returns until when the receiver asked for no request.
func (d *delivery) silentUntil() time.Time {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.e.silentFor(d.ep)
}

// silentFor returns until when the receiver asked for no request, or zero. The caller holds
// the mutex of the sender.
func (e *endpoint) silentFor(ep *webhook.Endpoint) time.Time {
	if e.silentIn != ep.Renewal() {
		return time.Time{}
	}
	return e.silent
}
