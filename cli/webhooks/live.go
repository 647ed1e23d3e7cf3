package webhooks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tollhouse/store/record"
)

const (
	// unsettledMax bounds the accepted events of an endpoint whose cursor is not written:
	// so many are repeated after a kill.
	unsettledMax = 100
	unsettledFor = time.Second

	// turnMax is how long an endpoint keeps a slot while others wait for one.
	turnMax = 250 * time.Millisecond

	setAsideMax     = 10_000
	headPauseMax    = 5 * time.Minute
	refusedLeast    = 3  // answers before an event is parked
	failedLeast     = 10 // attempts before an endpoint is disabled
	parallelPerOne  = 8  // requests in flight of an endpoint without order
	acceptedToRaise = 100
	fullPause       = 5 * time.Minute // of an endpoint that cannot set aside more
)

// errAgain says that the endpoint must be loaded again.
var errAgain = errors.New("load again")

// delivery is the work on one loaded state of an endpoint.
type delivery struct {
	*run
	ep      *Endpoint
	at      record.Position // everything up to it is settled, in memory
	lines   []Delivery
	since   time.Time // of the first that is not written
	gapSent bool
	parked  bool
}

// deliver sends what lies behind the cursor. It returns when to come again, or zero.
func (s *Sender) deliver(r *run) time.Time {
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
		d := &delivery{run: r, ep: ep, at: ep.Cursor}
		due, err := d.deliverAll()
		switch {
		case errors.Is(err, errAgain), errors.Is(err, record.ErrConflict):
			continue
		case errors.Is(err, record.ErrNotFound):
			continue
		case err != nil && r.stop.Err() == nil && r.inFlight.Err() == nil:
			return time.Now().Add(storeRetry)
		}
		return due
	}
	return time.Time{}
}

// deliverAll delivers until nothing is left or an event fails.
func (d *delivery) deliverAll() (due time.Time, err error) {
	defer func() {
		if written := d.settle(); err == nil {
			err = written
		}
	}()
	if wait := d.headDue(); time.Until(wait) > 0 {
		return wait, nil
	}
	for {
		if !d.ep.Strict && d.ep.SetAside >= setAsideMax {
			return time.Now().Add(fullPause), nil
		}
		more, due, err := d.turn()
		if err != nil || !due.IsZero() {
			return due, err
		}
		if d.unsettled() && (len(d.lines) >= unsettledMax || time.Since(d.since) >= unsettledFor) {
			if err := d.settle(); err != nil {
				return due, err
			}
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
// come one by one are not as many commits.
func (d *delivery) linger() error {
	rest := time.NewTimer(unsettledFor - time.Since(d.since))
	defer rest.Stop()
	select {
	case <-d.wake:
		return nil
	case <-rest.C:
		return d.settle()
	case <-d.stop.Done():
	case <-d.inFlight.Done():
	}
	return context.Canceled
}

func (d *delivery) unsettled() bool { return d.at != d.ep.Cursor || len(d.lines) > 0 }

// turn takes a slot, reads a page and delivers what it can.
func (d *delivery) turn() (more bool, due time.Time, err error) {
	give, found := d.s.slots.tryTake(d.isProven())
	if !found { // waiting may take long
		if err := d.settle(); err != nil {
			return false, due, err
		}
		if give, err = d.s.slots.take(d.stop, d.isProven()); err != nil {
			return false, due, err
		}
	}
	defer give()
	page, err := d.s.o.Store.Next(d.stop, d.ep, d.at)
	switch {
	case err != nil:
		return false, due, err
	case page.Gap != nil:
		if err := d.settle(); err != nil {
			return false, due, err
		}
		if err := d.s.o.Store.PassGap(d.stop, d.ep, *page.Gap); err != nil {
			return false, due, err
		}
		return false, due, errAgain
	}
	if d.ep.Strict {
		more, due, err = d.inOrder(page)
	} else {
		more, due, err = d.atOnce(page)
	}
	return more || page.More, due, err
}

// pass notes that everything up to p is settled.
func (d *delivery) pass(p record.Position) {
	if p.Compare(d.at) > 0 {
		d.at = p
		if d.since.IsZero() {
			d.since = time.Now()
		}
	}
}

// inOrder sends the events of a page one after another.
func (d *delivery) inOrder(page Page) (more bool, due time.Time, err error) {
	begun := time.Now()
	for i, ev := range page.Events {
		if d.stop.Err() != nil {
			return false, due, d.stop.Err()
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

func (d *delivery) settleIfDue() error {
	if len(d.lines) >= unsettledMax || time.Since(d.since) >= unsettledFor {
		return d.settle()
	}
	return nil
}

// earlier returns what came of an event before: of the head, or nothing.
func (d *delivery) earlier(ev Event) Delivery {
	if d.ep.Head != nil && d.ep.Head.Position == ev.Position {
		return *d.ep.Head
	}
	return Delivery{Position: ev.Position, Event: ev.ID, Type: ev.Type}
}

// after returns what came of an event after one more attempt.
func (x Delivery) after(a Answer, state State) Delivery {
	x.State, x.Attempts, x.NextAt = state, x.Attempts+1, time.Time{}
	x.Status, x.Error, x.Body, x.Took, x.LastAt = a.Status, a.Error(), a.Body, a.Took, time.Now()
	if a.Outcome != Accepted && !a.Silent() {
		x.Refused++
	}
	return x
}

// accepted notes that the first event behind the cursor was accepted.
func (d *delivery) accepted(ev Event, a Answer) {
	line := d.earlier(ev).after(a, Delivered)
	d.ep.Head = nil
	d.recover()
	d.pass(ev.Position)
	d.passedGap()
	d.line(line)
}

func (d *delivery) passedGap() {
	d.gapSent = d.gapSent || d.ep.Gap != ""
	d.ep.Gap = ""
}

// recover notes that the receiver accepts.
func (d *delivery) recover() {
	if d.ep.Trouble.Attempts > 0 {
		d.s.o.Log.Info("webhook endpoint recovered", "endpoint", d.ep.ID, "account_id", d.ep.Account, "attempts", d.ep.Trouble.Attempts)
	}
	d.ep.Trouble = Trouble{}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.e.proven, d.e.headDue = true, time.Time{}
}

func (d *delivery) line(x Delivery) {
	d.lines = append(d.lines, x)
	if d.since.IsZero() {
		d.since = time.Now()
	}
}

// fail notes that the head of a strict endpoint failed, offers the event behind it if it is
// time to, and returns when the head is due again.
func (d *delivery) fail(ev Event, a Answer, behind []Event) (due time.Time, err error) {
	head := d.earlier(ev)
	if elapsed := d.failed(a); head.Attempts > 0 {
		head.Blocked += elapsed
	}
	first := head.Refused == 0
	if head = head.after(a, Retrying); first {
		head.Probed = head.Blocked
	}
	d.ep.Head = &head
	if a.Status == http.StatusGone {
		return due, d.disable("gone")
	}
	if !a.Silent() && head.Refused >= refusedLeast && head.Blocked-head.Probed >= d.s.o.ParkAfter && d.ep.SetAside < setAsideMax {
		head.Probed = head.Blocked
		if again, err := d.probe(ev, behind); err != nil || again {
			return due, err
		}
	}
	if d.isBeyondHope() {
		return due, d.disable("failing")
	}
	due = time.Now().Add(max(d.s.headPause(head.Attempts, true), a.RetryAfter))
	head.NextAt = due.Round(0)
	d.s.mu.Lock()
	d.e.headDue = due
	d.s.mu.Unlock()
	d.line(head)
	return due, d.settle()
}

// headPause is the pause behind so many attempts of an event that blocks its endpoint.
func (s *Sender) headPause(attempts int, byChance bool) time.Duration {
	pause := s.o.Schedule[min(max(attempts, 1), len(s.o.Schedule))-1]
	if byChance {
		pause = pauseOf(pause)
	}
	return min(pause, headPauseMax)
}

// failed counts a failed attempt, and returns the time since the one before.
func (d *delivery) failed(a Answer) (elapsed time.Duration) {
	d.s.mu.Lock()
	elapsed = time.Since(d.e.mark)
	d.e.mark, d.e.proven = time.Now(), false
	d.s.mu.Unlock()
	t := &d.ep.Trouble
	if t.Attempts == 0 {
		t.Since = time.Now()
		d.s.o.Log.Warn("webhook endpoint began to fail", "endpoint", d.ep.ID, "account_id", d.ep.Account, "outcome", string(a.Outcome), "status", a.Status)
	} else {
		t.For += elapsed
	}
	t.Attempts++
	return elapsed
}

func (d *delivery) isBeyondHope() bool {
	after := d.s.o.DisableAfter
	return after > 0 && d.ep.Trouble.Attempts >= failedLeast && d.ep.Trouble.For >= after
}

// disable writes what was done, and disables the endpoint. The event that failed last is
// not settled.
func (d *delivery) disable(reason string) error {
	if d.ep.Head != nil {
		d.line(*d.ep.Head)
	}
	if err := d.settle(); err != nil {
		return err
	}
	d.s.o.Log.Warn("webhook endpoint disabled", "endpoint", d.ep.ID, "account_id", d.ep.Account, "reason", reason)
	if err := d.s.o.Store.Disable(context.WithoutCancel(d.stop), d.ep, reason); err != nil {
		return err
	}
	return errAgain
}

// probe offers the event behind a head that is refused again and again. If it is accepted,
// the fault is the head's, which is parked. Otherwise the receiver refuses everything, and
// the head stays.
func (d *delivery) probe(head Event, behind []Event) (parked bool, err error) {
	if len(behind) == 0 {
		page, err := d.s.o.Store.Next(d.stop, d.ep, head.Position)
		if err != nil || len(page.Events) == 0 {
			return false, err
		}
		behind = page.Events
	}
	a, err := d.send(behind[0], 1)
	if err != nil {
		return false, err
	}
	if a.Outcome != Accepted {
		d.failed(a)
		if a.Status == http.StatusGone {
			return false, d.disable("gone")
		}
		return false, nil
	}
	d.park(*d.ep.Head, d.stepAfter(d.ep.Head.Blocked), 0)
	d.accepted(behind[0], a)
	return true, d.settle()
}

// stepAfter is the first step of the schedule whose pause is longer than the event has
// blocked the endpoint.
func (d *delivery) stepAfter(blocked time.Duration) int {
	for i, pause := range d.s.o.Schedule {
		if pause > blocked {
			return i
		}
	}
	return len(d.s.o.Schedule)
}

// park sets an event aside until the pause of a step is over. Behind the last step it is
// dead.
func (d *delivery) park(x Delivery, step int, atLeast time.Duration) {
	x.State, x.Step = Dead, step
	if step < len(d.s.o.Schedule) {
		x.State, x.NextAt = Parked, time.Now().Add(max(pauseOf(d.s.o.Schedule[step]), atLeast)).Round(0)
	}
	d.line(x)
	d.parked = true
	d.ep.SetAside++
}

// settle writes what was done. When the store refuses, it tries until it can: nothing more
// is sent that could not be settled.
func (d *delivery) settle() error {
	if !d.unsettled() {
		return nil
	}
	p := Progress{Cursor: d.at, Lines: d.lines, Head: &d.ep.Head, Trouble: &d.ep.Trouble, GapSent: d.gapSent}
	err := d.s.write(d.run, d.ep, p)
	parked := d.parked
	d.lines, d.since, d.gapSent, d.parked = nil, time.Time{}, false, false
	if err != nil { // another process changed the endpoint, or the sender stops
		d.at = d.ep.Cursor
		return err
	}
	d.ep.Cursor = d.at
	if parked {
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		d.s.wake(&d.e.aside)
	}
	return nil
}

// write settles progress. It goes on while the store refuses, until the sender stops.
func (s *Sender) write(r *run, ep *Endpoint, p Progress) error {
	for {
		err := s.o.Store.Settle(context.WithoutCancel(r.stop), ep, p)
		if err == nil || errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrNotFound) {
			return err
		}
		s.o.Log.Warn("deliveries of webhooks not written", "endpoint", ep.ID, "err", err)
		select {
		case <-r.stop.Done():
			return err
		case <-time.After(storeRetry):
		}
	}
}

// headDue returns when the head may be tried: what this process decided, by the monotonic
// clock. After a start it is the stored time or one pause from now, whichever is sooner.
func (d *delivery) headDue() time.Time {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.ep.Head == nil {
		d.e.headDue = time.Time{}
		return d.e.silent
	}
	if d.e.headDue.IsZero() {
		d.e.headDue = time.Now().Add(min(time.Until(d.ep.Head.NextAt), d.s.headPause(d.ep.Head.Attempts, false)))
	}
	return d.e.headDue
}

func (d *delivery) isProven() bool {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.e.proven
}

// message is the next attempt of an event.
func (d *delivery) message(ev Event, attempt int) *Message {
	return &Message{
		URL: d.ep.URL, ID: ev.ID, Body: ev.Wire, Time: time.Now(), Secrets: d.ep.Secrets,
		Endpoint: d.ep.ID, Attempt: attempt, Gap: d.ep.Gap,
	}
}

func (d *delivery) send(ev Event, attempt int) (Answer, error) {
	return d.attempt(d.message(ev, attempt))
}

// attempt makes one attempt. It returns an error when the attempt was cut.
func (r *run) attempt(m *Message) (a Answer, err error) {
	if r.s.o.Send != nil {
		a, err = r.s.o.Send(r.inFlight, m)
	} else {
		a, err = r.s.o.Client.Send(r.inFlight, r.s.connectionsOf(r.e), m)
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

// Error is the text for people about a failed attempt, or "".
func (a Answer) Error() string {
	switch {
	case a.Redirect != "":
		return a.Redirect
	case a.Outcome == Accepted, a.Outcome == Refused:
		return ""
	}
	return string(a.Outcome)
}
