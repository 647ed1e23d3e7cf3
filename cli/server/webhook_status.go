package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

// webhookCounts are the endpoints of all accounts at a glance.
type webhookCounts struct {
	admin.WebhooksStatus
	since      time.Time // of the hold
	reason     string
	lost       int // disabled because their secrets cannot be read
	failingDay int // failing for a day or longer
	refused    int // disabled by their receiver or by the server
}

// failingLong is how long an endpoint fails until doctor warns.
const failingLong = 24 * time.Hour

// waitingEvents remembers for each endpoint the first event that waits, and how far the log
// was read to find it. So each count reads only what is new since the last one, and a
// backlog costs the same however long it is. An event that an import adds to the part
// already read is missed.
type waitingEvents struct {
	mu   sync.Mutex
	seen map[string]waitingEvent // by the endpoint's id
	left int                     // stretches without an event that this count may still read
}

// unmatchedMax bounds the stretches without an event that one count reads, each of 10,000
// events. The next count continues there.
const unmatchedMax = 10

type waitingEvent struct {
	revision uint64 // of the endpoint; another may have other types or another cursor
	passed   record.Position
	first    record.Position // the event that waits, or zero
}

// of returns the first event that waits for an endpoint, or zero.
func (w *waitingEvents) of(ctx context.Context, s *store.Store, e *webhook.Endpoint) (seen waitingEvent, err error) {
	if e.Head != nil {
		return waitingEvent{first: e.Head.Position}, nil
	}
	if seen = w.seen[e.ID]; seen.revision != e.Revision {
		seen = waitingEvent{revision: e.Revision}
	}
	if seen.first.Compare(e.Cursor) > 0 {
		still, err := s.Events.EventsAt(ctx, e.Account, []record.Position{seen.first})
		if err != nil || len(still) > 0 {
			return seen, err
		}
	}
	seen.first, seen.passed = record.Position{}, record.LaterOf(seen.passed, e.Cursor)
	if w.left == 0 {
		return seen, nil
	}
	next, err := s.Webhooks.Next(ctx, e, seen.passed, 2) // one may be its own creation, which is not sent
	if _, gap := errors.AsType[*eventlog.CursorError](err); gap {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	if len(next.Events) > 0 {
		seen.first = next.Events[0].Position
		seen.passed = seen.first.Before()
		return seen, nil
	}
	if seen.passed = next.Passed; next.More {
		w.left--
	}
	return seen, nil
}

// countWebhooks reads every endpoint, and of those that are enabled the first event that
// waits.
func countWebhooks(ctx context.Context, s *store.Store, waits *waitingEvents) (c webhookCounts, err error) {
	waits.mu.Lock()
	defer waits.mu.Unlock()
	waits.left = unmatchedMax
	seen := map[string]waitingEvent{}
	in, err := s.Webhooks.Instance(ctx)
	if err != nil {
		return c, err
	}
	c.Held, c.since, c.reason = in.Held, in.Since, in.Reason
	now := s.Now()
	err = s.Webhooks.Each(ctx, func(e webhook.Endpoint) error {
		c.Endpoints++
		c.Parked += e.Parked
		c.Dead += e.Dead
		switch e.Health() {
		case webhook.HealthDisabled:
			c.Disabled++
			if e.Disabled.Reason == webhook.SecretLost {
				c.lost++
			}
			if isRefused(e) {
				c.refused++
			}
			return nil
		case webhook.HealthFailing:
			c.Failing++
			if isFailingLong(e, now) {
				c.failingDay++
			}
		}
		found, err := waits.of(ctx, s, &e)
		if err != nil {
			return err
		}
		if seen[e.ID] = found; !found.first.IsZero() {
			c.OldestUndelivered = max(c.OldestUndelivered, int64(now.Sub(found.first.Time()).Seconds()))
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("count webhook endpoints: %w", err)
	}
	waits.seen = seen
	return c, nil
}

func isRefused(e webhook.Endpoint) bool {
	return e.Health() == webhook.HealthDisabled && (e.Disabled.By == webhook.ByReceiver || e.Disabled.By == webhook.BySystem)
}

func isFailingLong(e webhook.Endpoint, now time.Time) bool {
	since := e.Trouble.Since
	return e.Health() == webhook.HealthFailing && !since.IsZero() && now.Sub(since) >= failingLong
}

// webhooksRow is the line of the status command.
func webhooksRow(w admin.WebhooksStatus) term.Row {
	text := term.Count(int64(w.Endpoints), "endpoint", "endpoints")
	for _, part := range []struct {
		n    int
		what string
	}{{w.Failing, "failing"}, {w.Disabled, "disabled"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	if w.Parked+w.Dead > 0 {
		text += fmt.Sprintf("; %s parked, %d dead", term.Count(int64(w.Parked), "event", "events"), w.Dead)
	}
	if w.OldestUndelivered > 0 {
		text += fmt.Sprintf("; the oldest undelivered event has waited %s", term.ShowAge(time.Duration(w.OldestUndelivered)*time.Second))
	}
	if w.Held {
		text += "; deliveries are held: tollhouse webhook resume"
	}
	return term.Row{"webhooks", text}
}

// webhooks checks the state of deliveries.
func (u checkup) webhooks(ctx context.Context) admin.Finding {
	const check, list = "webhooks", "tollhouse webhook list"
	c, err := countWebhooks(ctx, u.data.Store, &waitingEvents{})
	if err != nil {
		return problemReading(check, err)
	}
	switch text := webhooksRow(c.WebhooksStatus)[1]; {
	case c.Endpoints == 0:
		return allRight(check, "none")
	case c.Held && c.reason == webhook.HeldRestored:
		return webhooksHeld.finding(webhooksHeld.next, "held since a restore at %s; nothing is sent", term.ShowTime(c.since.Unix()))
	case c.Held && c.reason == webhook.HeldCopied:
		return webhooksCopied.finding(webhooksCopied.next, "held since the database was found to be another one at %s (a restored dump, a copy, or a major upgrade); nothing is sent", term.ShowTime(c.since.Unix()))
	case c.Held:
		return warningOf(check, "tollhouse webhook resume", "held since %s; nothing is sent", term.ShowTime(c.since.Unix()))
	case c.lost > 0:
		return warningOf(check, "put secret.key back, or use tollhouse webhook rotate-secret and tollhouse webhook enable for each",
			"%s disabled because the server key was replaced and the secrets cannot be read", term.Count(int64(c.lost), "endpoint is", "endpoints are"))
	case c.refused > 0:
		return webhookDisabled.finding(list+" --state disabled", "%s disabled by the server or the receiver: %s", term.Count(int64(c.refused), "endpoint is", "endpoints are"), text)
	case c.failingDay > 0:
		return warningOf(check, list+" --state failing", "%s failed for a day or longer: %s", term.Count(int64(c.failingDay), "endpoint has", "endpoints have"), text)
	case c.Failing > 0:
		return warningOf(check, list+" --state failing", "%s", text)
	case c.Dead > 0:
		return warningOf(check, list+"; tollhouse webhook deliveries ENDPOINT_ID --state dead", "%s no longer retried: %s", term.Count(int64(c.Dead), "event is", "events are"), text)
	default:
		return allRight(check, "%s", text)
	}
}
