package webhooks

import (
	"net/http"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/webhook"
)

// fail notes that the head of a strict endpoint failed, offers the event after it if it is
// time to, and returns when the head is due again.
func (d *delivery) fail(ev eventlog.Followed, a Answer, behind []eventlog.Followed) (due time.Time, err error) {
	head := d.earlier(ev)
	if elapsed := d.failed(a); head.Attempts > 0 || head.Blocked > 0 {
		head.Blocked += elapsed
	}
	first := head.Refused == 0
	if head = after(head, a, webhook.Retrying); first {
		head.Probed = head.Blocked
	}
	d.ep.Head = &head
	if a.Status == http.StatusGone {
		return due, d.disable(webhook.Gone)
	}
	if !a.Silent() && head.Refused >= refusedLeast && head.Blocked-head.Probed >= d.s.o.ParkAfter && !d.ep.IsFull() {
		head.Probed = head.Blocked
		if parked, err := d.probe(ev, behind); err != nil || parked {
			return due, err
		}
	}
	if d.isBeyondHope() {
		return due, d.disable(webhook.Failing)
	}
	due = time.Now().Add(max(d.s.headPause(head.Attempts, true), a.RetryAfter))
	head.NextAt = wall(due)
	d.s.mu.Lock()
	d.e.headDue, d.e.headNext = due, head.NextAt
	d.s.mu.Unlock()
	return due, d.write("")
}

// headPause is the pause after that many attempts of an event that blocks its endpoint.
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
		t.Since = wall(time.Now())
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
func (d *delivery) disable(reason webhook.Reason) error {
	if err := d.write(reason); err != nil {
		return err
	}
	d.s.o.Log.Warn("webhook endpoint disabled", "endpoint", d.ep.ID, "account_id", d.ep.Account, "reason", string(reason))
	return errAgain
}

// probe offers the event after a head that is refused again and again. If it is accepted,
// the fault is the head's, which is parked. Otherwise the receiver refuses everything, and
// the head is kept.
func (d *delivery) probe(head eventlog.Followed, behind []eventlog.Followed) (parked bool, err error) {
	if len(behind) == 0 {
		page, err := d.next(head.Position, 1)
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
			return false, d.disable(webhook.Gone)
		}
		return false, nil
	}
	d.park(*d.ep.Head, d.stepAfter(d.ep.Head.Blocked), 0)
	d.accepted(behind[0], a)
	return true, d.settle("")
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

// park sets an event aside until the pause of a step is over. After the last step it is
// dead.
func (d *delivery) park(x webhook.Delivery, step int, atLeast time.Duration) {
	x.State, x.Step = webhook.Dead, step
	if step < len(d.s.o.Schedule) {
		x.State, x.NextAt = webhook.Parked, wall(time.Now().Add(max(pauseOf(d.s.o.Schedule[step]), atLeast)))
	}
	d.note(x)
	d.parked = true
	d.ep.Parked++ // until the store returns the number
}
