package api

import (
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

// retryWebhook is POST /api/webhook-endpoints/:id/retry.
func retryWebhook(c *webhookCall) error {
	if refused := RefuseQuery(c.r); refused != nil {
		return refused
	}
	m, err := c.readMembers(false, "events", "state", "from", "to", "types")
	if err != nil {
		return err
	}
	asked := webhook.Retry{Events: m.Texts("events"), State: webhook.State(m.Text("state")), Types: m.Texts("types"), From: m.from("from"), To: m.from("to")}
	ways := 0
	for _, given := range []bool{m.Given("events"), m.Given("state"), m.Given("from") || m.Given("to")} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		return web.InvalidRequest("The body names no events; send `events`, or `state`, or `from` and `to`.")
	case ways > 1:
		return web.InvalidRequest("Send only one of `events`, `state`, and `from` with `to`.")
	case m.Given("from") != m.Given("to"):
		return web.InvalidRequest("Send both `from` and `to`.")
	case m.Given("types") && !m.Given("from"):
		return web.InvalidRequest("types selects events between `from` and `to` only; leave it out, or send `from` and `to`.").On("types")
	case m.Given("state") && asked.State != webhook.Parked && asked.State != webhook.Dead:
		m.Refuse("state", "must be parked or dead, not %.64q.", asked.State)
	case m.Given("events") && len(asked.Events) == 0:
		m.Refuse("events", "must have at least one id of an event.")
	}
	if err := m.Err(); err != nil {
		return err
	}
	if _, err := c.s.site.Store.Webhooks.Find(c.r.Context(), c.by, c.id()); err != nil {
		return c.problem(err)
	}
	notices, err := c.nearTypesOf(asked.Types)
	if err != nil {
		return err
	}
	queued, err := c.s.site.Store.Webhooks.Retry(c.r.Context(), c.by, c.id(), asked)
	if errors.Is(err, record.ErrNotFound) {
		return web.NewProblem(http.StatusNotFound, "not_found", "One of the events does not exist.").Because(err)
	}
	if err != nil {
		return c.problem(err)
	}
	c.notice(notices)
	return c.send(http.StatusAccepted, WebhookRetried{Queued: queued, Notices: notices})
}

// listDeliveries is GET /api/webhook-endpoints/:id/deliveries.
func listDeliveries(c *webhookCall) error {
	q := webhook.Filter{Limit: EventsLimitDefault}
	values, refused := web.ParseSingle(c.r.URL.RawQuery, "state", "event", "limit", "after")
	if refused != nil {
		return refused
	}
	q.State, q.Event, q.After = webhook.State(values["state"]), values["event"], values["after"]
	if text, given := values["limit"]; given {
		if q.Limit, refused = ParseLimit(text); refused != nil {
			return refused
		}
	}
	if !web.AcceptsJSON(c.r) {
		return web.NotAcceptable()
	}
	if p, ok := record.ParsePosition(q.After); ok {
		c.s.NoteAhead(c.w, "after", p)
	}
	list, more, err := c.s.site.Store.Webhooks.Deliveries(c.r.Context(), c.by, c.id(), q)
	if err != nil {
		return c.problem(err)
	}
	page := PageOf(list, len(list), q.After, func(d webhook.Delivery) webhook.ObjectDelivery { return d.Object() }, func(d webhook.ObjectDelivery) string { return d.Event })
	page.HasMore = more
	return SendPage(c.w, c.r, page)
}
