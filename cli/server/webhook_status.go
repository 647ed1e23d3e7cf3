package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/webhook"
)

// webhookCounts are the endpoints of all accounts at a glance.
type webhookCounts struct {
	handlers.WebhooksStatus
	since      time.Time // of the hold
	reason     string
	lost       int // disabled because their secrets cannot be read
	failingDay int // failing for a day or longer
}

// failingLong is how long an endpoint fails until doctor warns.
const failingLong = 24 * time.Hour

// countWebhooks reads every endpoint, and of those that are enabled the first event that
// waits.
func countWebhooks(ctx context.Context, s *store.Store) (c webhookCounts, err error) {
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
			return nil
		case webhook.HealthFailing:
			c.Failing++
			if since := e.Trouble.Since; !since.IsZero() && now.Sub(since) >= failingLong {
				c.failingDay++
			}
		}
		waits, err := s.Webhooks.Next(ctx, &e, e.Cursor, 2) // one may be its own creation, which is not sent
		var gap *eventlog.CursorError
		if errors.As(err, &gap) || err == nil && len(waits.Events) == 0 {
			return nil
		}
		if err == nil {
			age := int64(now.Sub(waits.Events[0].Position.Time()).Seconds())
			c.OldestUndelivered = max(c.OldestUndelivered, age)
		}
		return err
	})
	if err != nil {
		return c, fmt.Errorf("count webhook endpoints: %w", err)
	}
	return c, nil
}

// webhooksRow is the line of the status command.
func webhooksRow(w handlers.WebhooksStatus) term.Row {
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
		text += fmt.Sprintf("; the oldest undelivered event waits for %s", time.Duration(w.OldestUndelivered)*time.Second)
	}
	if w.Held {
		text += "; held: tollhouse webhook resume sends them again"
	}
	return term.Row{"webhooks", text}
}

// webhooks checks how deliveries go.
func (u checkup) webhooks(ctx context.Context) handlers.Finding {
	const check, list = "webhooks", "tollhouse webhook list"
	c, err := countWebhooks(ctx, u.data.Store)
	if err != nil {
		return problemFrom(check, nextDamage, err)
	}
	switch text := webhooksRow(c.WebhooksStatus)[1]; {
	case c.Endpoints == 0:
		return allRight(check, "none")
	case c.Held && c.reason == webhook.HeldRestored:
		return warningOf(check, "if this is the real server and not a copy: tollhouse webhook resume", "held since a restore at %s; nothing is sent", term.ShowTime(c.since.Unix()))
	case c.Held:
		return warningOf(check, "tollhouse webhook resume", "held since %s; nothing is sent", term.ShowTime(c.since.Unix()))
	case c.lost > 0:
		return warningOf(check, "put secret.key back, or use tollhouse webhook rotate-secret and tollhouse webhook enable for each",
			"%s disabled because the server key was replaced and the secrets cannot be read", term.Count(int64(c.lost), "endpoint is", "endpoints are"))
	case c.failingDay > 0:
		return warningOf(check, list+" --state failing", "%s failed for a day or longer: %s", term.Count(int64(c.failingDay), "endpoint has", "endpoints have"), text)
	case c.Dead > 0:
		return warningOf(check, list+"; tollhouse webhook deliveries ENDPOINT_ID --state dead", "%s tried no more: %s", term.Count(int64(c.Dead), "event is", "events are"), text)
	default:
		return allRight(check, "%s", text)
	}
}
