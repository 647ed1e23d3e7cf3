package webhooks

import (
	"context"
	"errors"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

const (
	// unsettledMax bounds the accepted events of an endpoint whose cursor is not written:
	// that many are repeated after a kill.
	unsettledMax = 100
	unsettledFor = time.Second

	// turnMax is how long an endpoint keeps a slot while others wait for one.
	turnMax = 250 * time.Millisecond

	headPauseMax    = 5 * time.Minute
	refusedLeast    = 3  // answers before an event is parked
	failedLeast     = 10 // attempts before an endpoint is disabled
	parallelMax     = 8  // requests in flight of an endpoint without order
	acceptedToRaise = 100
	fullPause       = 5 * time.Minute // of an endpoint that cannot set aside more
	provenWithin    = time.Second
)

// errAgain says that the endpoint must be loaded again.
var errAgain = errors.New("load again")

// delivery is the work on one loaded state of an endpoint.
type delivery struct {
	*run
	ep      *webhook.Endpoint
	secrets []secret.Token
	at      record.Position // everything up to it is settled, in memory
	done    []webhook.Delivery
	since   time.Time // of the first that is not written
	parked  bool
	last    webhook.Attempt
}

// load reads an endpoint. It returns nil if nothing may be sent to it, and then when to
// try again, or zero.
func (r *run) load() (d *delivery, due time.Time) {
	ep, err := r.s.o.Store.Load(r.stop, r.e.id)
	switch {
	case errors.Is(err, record.ErrNotFound):
		r.s.forget(r.e)
		return nil, due
	case err != nil:
		return nil, time.Now().Add(storeRetry)
	}
	if r.rests(&ep) {
		return nil, due
	}
	secrets, ok := r.s.o.Store.Open(&ep)
	if !ok {
		return nil, due // Start disables it
	}
	return &delivery{run: r, ep: &ep, secrets: secrets, at: ep.Cursor, last: ep.Last}, due
}

// rests notes whether an endpoint is disabled or held. That time does not count as failing,
// and the endpoint restarts slowly. It also notes whether the endpoint can set aside more.
func (r *run) rests(ep *webhook.Endpoint) bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	was := r.e.resting
	if r.e.resting = !ep.IsSendable(); r.e.resting {
		return true
	}
	if was {
		r.e.mark, r.e.silent = time.Now(), time.Time{}
		r.e.parallel, r.e.accepted = 1, 0
	}
	if full := ep.IsFull(); full != r.e.full {
		if r.e.full = full; full {
			r.s.o.Log.Warn("webhook endpoint has reached the limit of parked and dead events", "endpoint", ep.ID, "account_id", ep.Account, "parked", ep.Parked, "dead", ep.Dead)
		}
	}
	return false
}

// deliver sends the events after the cursor. It returns when to try again, or zero.
func (s *Sender) deliver(r *run) time.Time {
	for r.goesOn() {
		d, due := r.load()
		if d == nil {
			return due
		}
		due, err := d.deliverAll()
		if r.mustLoad(err) {
			continue
		}
		if err != nil {
			return time.Now().Add(storeRetry)
		}
		return due
	}
	return time.Time{}
}

func (r *run) goesOn() bool { return r.stop.Err() == nil && r.inFlight.Err() == nil }

// mustLoad reports whether the endpoint is to be loaded again because it has changed.
func (r *run) mustLoad(err error) bool {
	return errors.Is(err, errAgain) || errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrNotFound)
}

// deliverAll delivers until nothing is left or an event fails.
func (d *delivery) deliverAll() (due time.Time, err error) {
	defer func() {
		if written := d.settle(""); err == nil {
			err = written
		}
	}()
	if wait := d.headDue(); time.Until(wait) > 0 {
		return wait, nil
	}
	for {
		if d.ep.Order == webhook.None && d.ep.IsFull() {
			return time.Now().Add(fullPause), nil
		}
		more, due, err := d.turn()
		if err != nil || !due.IsZero() {
			return due, err
		}
		if err := d.settleIfDue(); err != nil {
			return due, err
		}
		if more {
			continue
		}
		if !d.unsettled() {
			return time.Time{}, nil
		}
		if err := d.linger(); err != nil {
			return due, err
		}
	}
}

// linger waits for more events while something is not written yet, so that events that
// arrive one by one do not need a commit each.
func (d *delivery) linger() error {
	rest := time.NewTimer(unsettledFor - time.Since(d.since))
	defer rest.Stop()
	select {
	case <-d.wake:
		return nil
	case <-rest.C:
		return d.settle("")
	case <-d.stop.Done():
	case <-d.inFlight.Done():
	}
	return context.Canceled
}

// turn takes a slot, reads a page and delivers what it can. An endpoint that was changed is
// loaded first: a secret that leaked signs nothing more.
func (d *delivery) turn() (more bool, due time.Time, err error) {
	if d.changed.Swap(false) {
		return false, due, errAgain
	}
	give, found := d.s.tryTake(d.ep.Account, d.isProven())
	if !found { // waiting may take long
		if err := d.settle(""); err != nil {
			return false, due, err
		}
		if give, err = d.s.take(d.stop, d.ep.Account, d.isProven()); err != nil {
			return false, due, err
		}
	}
	defer give()
	page, err := d.next(d.at, unsettledMax)
	var gap *eventlog.CursorError
	switch {
	case errors.As(err, &gap):
		return false, due, d.passGap()
	case err != nil:
		return false, due, err
	}
	if d.ep.Order == webhook.Strict {
		more, due, err = d.inOrder(page)
	} else {
		more, due, err = d.atOnce(page)
	}
	return more || page.More, due, err
}

// next reads the events after a position. An event that was recorded after a change of the
// endpoint was answered must obey that change, whichever server made it, so this looks for
// changes after it has read the events.
func (d *delivery) next(after record.Position, limit int) (eventlog.Stretch, error) {
	page, err := d.s.o.Store.Next(d.stop, d.ep, after, limit)
	if err != nil || len(page.Events) == 0 {
		return page, err
	}
	in, err := d.s.o.Store.Instance(d.stop)
	if err == nil && in.Changes != d.ep.Changes {
		err = errAgain
	}
	return page, err
}

// passGap moves the cursor over what retention has removed.
func (d *delivery) passGap() error {
	if err := d.settle(""); err != nil {
		return err
	}
	d.e.writing.Lock()
	defer d.e.writing.Unlock()
	if _, err := d.s.o.Store.PassGap(d.stop, d.ep); err != nil {
		return err
	}
	return errAgain
}

// pass notes that everything up to p is settled.
func (d *delivery) pass(p record.Position) {
	if p.Compare(d.at) <= 0 {
		return
	}
	d.at = p
	if d.since.IsZero() {
		d.since = time.Now()
	}
}

// inOrder sends the events of a page one after another.
func (d *delivery) inOrder(page eventlog.Stretch) (more bool, due time.Time, err error) {
	begun := time.Now()
	for i, ev := range page.Events {
		if !d.goesOn() {
			return false, due, context.Canceled
		}
		if i > 0 && time.Since(begun) > turnMax {
			return true, due, nil
		}
		a, err := d.send(ev, d.earlier(ev).Attempts+1)
		if err != nil {
			return false, due, err
		}
		if a.Outcome != Accepted {
			due, err := d.fail(ev, a, page.Events[i+1:])
			return true, due, err
		}
		d.accepted(ev, a)
		if err := d.settleIfDue(); err != nil {
			return false, due, err
		}
	}
	d.pass(page.Passed)
	return false, due, nil
}

// earlier returns the delivery of an event so far: that of the head, or an empty one.
func (d *delivery) earlier(ev eventlog.Followed) webhook.Delivery {
	if d.ep.Head != nil && d.ep.Head.Position == ev.Position {
		return *d.ep.Head
	}
	return webhook.Delivery{Position: ev.Position, Event: ev.ID, Type: ev.Type}
}

// after returns the delivery of an event after one more attempt.
func after(x webhook.Delivery, a Answer, state webhook.State) webhook.Delivery {
	x.State, x.Attempts, x.NextAt = state, x.Attempts+1, time.Time{}
	x.Status, x.Error, x.Body, x.Took, x.LastAt = a.Status, a.Error(), a.Body, a.Took, wall(time.Now())
	if a.Outcome != Accepted && !a.Silent() {
		x.Refused++
	}
	return x
}

// wall is a time without its monotonic part, as the store keeps it.
func wall(t time.Time) time.Time { return t.Round(0).UTC().Truncate(time.Millisecond) }

// accepted notes that the first event after the cursor was accepted.
func (d *delivery) accepted(ev eventlog.Followed, a Answer) {
	x := after(d.earlier(ev), a, webhook.Delivered)
	d.ep.Head = nil
	d.recover(a)
	d.pass(ev.Position)
	d.note(x)
}

// recover notes that the receiver accepts. A slow one shares the slots of those that
// fail, or a few could take all.
func (d *delivery) recover(a Answer) {
	if d.ep.Trouble.Attempts > 0 {
		d.s.o.Log.Info("webhook endpoint recovered", "endpoint", d.ep.ID, "account_id", d.ep.Account, "attempts", d.ep.Trouble.Attempts)
	}
	d.ep.Trouble = webhook.Trouble{}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.e.proven, d.e.headDue = a.Took < provenWithin, time.Time{}
}

// headDue returns when the head may be tried: what this process decided, by the monotonic
// clock. After a start, and when somebody else has set the time, it is the stored time or
// one pause from now, whichever is sooner.
func (d *delivery) headDue() time.Time {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.ep.Head == nil {
		d.e.headDue = time.Time{}
		return d.e.silentFor(d.ep)
	}
	if d.e.headDue.IsZero() || !d.e.headNext.Equal(d.ep.Head.NextAt) {
		d.e.headNext = d.ep.Head.NextAt
		d.e.headDue = time.Now().Add(min(time.Until(d.ep.Head.NextAt), d.s.headPause(d.ep.Head.Attempts, false)))
	}
	return d.e.headDue
}

func (d *delivery) isProven() bool {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.e.proven
}

// attemptOf is one attempt, and the state of the endpoint for which it was prepared.
type attemptOf struct {
	*Message
	revision, turn, changes uint64
}

// message is the next attempt of an event.
func (d *delivery) message(ev eventlog.Followed, attempt int) attemptOf {
	m := &Message{URL: d.ep.URL, ID: ev.ID, Body: ev.Wire, Time: time.Now(), Secrets: d.secrets, Endpoint: d.ep.ID, Attempt: attempt}
	if d.ep.Gap.Pending {
		m.Gap = d.ep.GapText()
	}
	return attemptOf{m, d.ep.Revision, d.ep.Turn(), d.ep.Changes}
}

// send makes one attempt. It returns an error when the attempt was cut.
func (d *delivery) send(ev eventlog.Followed, attempt int) (Answer, error) {
	a, err := d.attempt(d.message(ev, attempt))
	if err == nil {
		d.last = lastOf(a)
	}
	return a, err
}

func lastOf(a Answer) webhook.Attempt {
	return webhook.Attempt{At: wall(time.Now()), Status: a.Status, Error: a.Error()}
}

// attempt makes one attempt. It returns an error when the attempt was cut, or errAgain.
func (r *run) attempt(m attemptOf) (a Answer, err error) {
	r.s.pace.wait(r.inFlight)
	if err := r.mayAttempt(m); err != nil {
		return a, err
	}
	if r.s.o.Send != nil {
		a, err = r.s.o.Send(r.inFlight, m.Message)
	} else {
		a, err = r.s.o.Client.Send(r.inFlight, r.s.connectionsOf(r.e), m.Message)
	}
	if err != nil {
		return a, err
	}
	r.s.o.Observe(a.Outcome, a.Took)
	if a.Outcome != Accepted && a.Outcome != Refused {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		r.e.close() // a connection may be dead without a sign
	}
	return a, nil
}

// mayAttempt returns errAgain if the endpoint has changed since the attempt was prepared. No
// request begins after a revocation was committed, whichever server did it. It usually reads
// one record.
func (r *run) mayAttempt(m attemptOf) error {
	if err := r.stop.Err(); err != nil {
		return err
	}
	in, err := r.s.o.Store.Instance(r.stop)
	if err != nil || in.Changes == m.changes {
		return err
	}
	ep, err := r.s.o.Store.Load(r.stop, r.e.id)
	if err == nil && (ep.Revision != m.revision || ep.Turn() != m.turn || !ep.IsSendable()) {
		err = errAgain
	}
	return err
}

// Error is the text for people about a failed attempt, or "".
func (a Answer) Error() string {
	switch {
	case a.Redirect != "":
		return a.Redirect
	case a.Outcome == Accepted, a.Outcome == Refused:
		return ""
	}
	if a.Detail == "" {
		return string(a.Outcome)
	}
	return string(a.Outcome) + ": " + a.Detail
}
