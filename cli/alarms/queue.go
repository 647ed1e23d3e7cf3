package alarms

import (
	"math/rand/v2"
	"slices"
	"time"

	"tollhouse/store/secret"
)

// The bounds of a queue.
const (
	queueMax     = 100
	keptMax      = 3 * 24 * time.Hour
	minuteMax    = 10 // messages in a minute
	minute       = time.Minute
	pauseShare   = 0.2 // by which a pause varies
	failingAfter = 15 * time.Minute
)

// pauses are those after failed attempts; the last one repeats.
var pauses = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute}

// queue is what waits for a target. The Sender's lock guards it.
type queue struct {
	t       *Target
	name    string // of its record
	entries []*entry

	failures     int       // attempts since the last success
	failingSince time.Time // zero while it works
	isToldFailed bool      // that others fail
	next         time.Time // of the next attempt after a failure
	sent         []time.Time
	wake         chan struct{}
	dirty        bool
}

func newID() string { return string(secret.AppendCrockford([]byte("alm_"), secret.NewID(nil))) }

// put adds a message. What waits untried of the same happening, or of the same finding, is
// replaced by it or counts it. It reports whether the message is one more.
func (q *queue) put(e entry) (added bool, dropped int) {
	q.dirty = true
	e.since = time.Now()
	if e.State == Happened {
		if i := slices.IndexFunc(q.entries, func(w *entry) bool { return w.joins(&e) }); i >= 0 {
			q.entries[i].join(&e)
			return false, 0
		}
	} else if i := slices.IndexFunc(q.entries, func(w *entry) bool { return w.isOf(&e) }); i >= 0 {
		was := q.entries[i]
		if e.State == Continues && was.State == Begun {
			e.State = Begun
		}
		e.QueuedAt, e.since = was.QueuedAt, was.since
		if e.ID = was.ID; was.Tried {
			e.ID = newID() // the receiver may have the other one
		}
		q.entries[i] = &e
		return false, 0
	}
	e.ID = newID()
	if len(q.entries) >= queueMax {
		if i := slices.IndexFunc(q.entries, func(w *entry) bool { return w.joins(&e) }); i >= 0 {
			q.entries[i].join(&e)
			return true, 0
		}
		q.entries, dropped = q.entries[1:], 1
	}
	q.entries = append(q.entries, &e)
	return true, dropped
}

// isOf reports whether an entry waits for the finding of another, alone.
func (e *entry) isOf(other *entry) bool {
	return e.Alarm == other.Alarm && e.Subject == other.Subject && e.Count == 1 && e.State != Happened && e.State != Tested
}

// joins reports whether two entries can be sent as one.
func (e *entry) joins(other *entry) bool {
	return !e.Tried && !other.Tried && e.Alarm == other.Alarm && e.State == other.State && e.State != Tested
}

func (e *entry) join(other *entry) {
	e.Count += other.Count
	if e.Subject != other.Subject {
		e.Subject = ""
	}
	if other.Severity == Problem && e.Severity != Problem {
		id, begun, ended, subject, count, queued, since := e.ID, e.BegunAt, e.EndedAt, e.Subject, e.Count, e.QueuedAt, e.since
		*e = *other
		e.ID, e.BegunAt, e.EndedAt, e.Subject, e.Count, e.QueuedAt, e.since = id, begun, ended, subject, count, queued, since
	}
	e.BegunAt = min(e.BegunAt, other.BegunAt)
	e.EndedAt = max(e.EndedAt, other.EndedAt)
}

// take returns the first message, joined with what can be sent with it.
func (q *queue) take() *entry {
	if len(q.entries) == 0 {
		return nil
	}
	head := q.entries[0]
	if !head.Tried {
		rest := q.entries[:1]
		for _, e := range q.entries[1:] {
			if head.joins(e) {
				head.join(e)
				continue
			}
			rest = append(rest, e)
		}
		q.entries = rest
		head.Tried, q.dirty = true, true
	}
	return head
}

// wait returns how long to wait until the next attempt, or a negative time without a message.
func (q *queue) wait(now time.Time) time.Duration {
	if len(q.entries) == 0 {
		return -1
	}
	q.sent = slices.DeleteFunc(q.sent, func(at time.Time) bool { return now.Sub(at) >= minute })
	wait := max(q.next.Sub(now), 0)
	if len(q.sent) >= minuteMax {
		wait = max(wait, minute-now.Sub(q.sent[len(q.sent)-minuteMax]))
	}
	return wait
}

// settle notes how the attempt at an entry ended, and returns how many messages were dropped.
func (q *queue) settle(e *entry, r Result, now time.Time) (dropped int) {
	if r.Delivered {
		q.entries = slices.DeleteFunc(q.entries, func(w *entry) bool { return w == e })
		q.failures, q.failingSince, q.next, q.dirty = 0, time.Time{}, time.Time{}, true
		return 0
	}
	pause := pauses[min(q.failures, len(pauses)-1)]
	pause += time.Duration((2*rand.Float64() - 1) * pauseShare * float64(pause))
	q.next = now.Add(max(pause, r.retryAfter))
	if q.failures++; q.failingSince.IsZero() {
		q.failingSince = now
	}
	before := len(q.entries)
	q.entries = slices.DeleteFunc(q.entries, func(w *entry) bool { return now.Sub(w.since) >= keptMax })
	if dropped = before - len(q.entries); dropped > 0 {
		q.dirty = true
	}
	return dropped
}

// isFailing reports whether the target has failed for long.
func (q *queue) isFailing(now time.Time) bool {
	return !q.failingSince.IsZero() && now.Sub(q.failingSince) >= failingAfter
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
