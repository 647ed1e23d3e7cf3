package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
)

// webhookCall is a request about webhook endpoints: of a token, or of the operator, who
// has the same calls.
type webhookCall struct {
	s  *Server
	w  http.ResponseWriter
	r  *http.Request
	by webhook.By
	// alive judges the token again, because a body may arrive long after its header.
	alive func() error
}

type webhookHandler func(c *webhookCall) error

// readsWebhooks admits tokens that may read webhook endpoints.
func (s *Server) readsWebhooks(h webhookHandler) web.Handler {
	return s.bearer(store.ScopeWebhooksRead, s.ofTenant(store.ScopeWebhooksRead, h))
}

// changesWebhooks is what tokens need to change webhook endpoints: otherwise a token that cannot read
// events could have them pushed to it.
const changesWebhooks = store.ScopeWebhooksWrite | store.ScopeEventsRead

// writesWebhooks admits tokens that may change webhook endpoints.
func (s *Server) writesWebhooks(h webhookHandler) web.Handler {
	return s.bearer(changesWebhooks, s.site.AsChange(s.ofTenant(changesWebhooks, h)))
}

// endsWebhooks is writesWebhooks for changes that stop deliveries, which no crowd refuses.
func (s *Server) endsWebhooks(h webhookHandler) web.Handler {
	return s.bearer(changesWebhooks, s.ofTenant(changesWebhooks, h))
}

func (s *Server) ofTenant(need store.Scope, h webhookHandler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p := web.PrincipalFrom(r.Context())
		c := s.operatorCall(w, r)
		c.alive = s.aliveToken(r, need)
		c.by.Account, c.by.Owner, c.by.Platform, c.by.Live = p.Account, p.WebhookOwner(), p.Platform, s.site.Store.LiveIn(p, needing(need))
		c.by.Name, c.by.Location = sourceOf(r, p)
		return h(c)
	}
}

// ofOperator is for the admin API, where the id of an endpoint is enough.
func (s *Server) ofOperator(h webhookHandler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return h(s.operatorCall(w, r))
	}
}

func (s *Server) operatorCall(w http.ResponseWriter, r *http.Request) *webhookCall {
	return &webhookCall{s: s, w: w, r: r, by: web.WebhooksBy(r.Context()), alive: AliveAlways}
}

func (c *webhookCall) id() string { return web.PathParam(c.r, "id") }

// answer sends an endpoint with its version.
func (c *webhookCall) answer(status int, shown WebhookEndpoint) error {
	c.notice(shown.Notices)
	c.w.Header().Set("ETag", web.EntityTag(strconv.FormatUint(shown.Revision, 10)))
	return c.send(status, shown)
}

func (c *webhookCall) send(status int, shown any) error {
	web.WriteJSON(c.w, status, shown)
	return nil
}

// members reads a body that may be left out.
func (c *webhookCall) members(known ...string) (webhookMembers, error) {
	if refused := RefuseQuery(c.r); refused != nil {
		return webhookMembers{}, refused
	}
	return c.readMembers(true, known...)
}

// listed reads the query of a list of endpoints.
func (c *webhookCall) listed() (account, after string, limit int, err error) {
	known := []string{"after", "limit"}
	if c.by.Account == "" {
		known = append(known, "account")
	}
	values, refused := web.ParseSingle(c.r.URL.RawQuery, known...)
	if refused != nil {
		return "", "", 0, refused
	}
	account, limit = c.by.Account, EventsLimitDefault
	if text, given := values["limit"]; given {
		if limit, refused = ParseLimit(text); refused != nil {
			return "", "", 0, refused
		}
	}
	if after = values["after"]; after != "" && !eventlog.IsID(after) {
		return "", "", 0, invalidCursor("after", "must be the id of a webhook endpoint")
	}
	if named, given := values["account"]; given {
		account = named
		if _, err := c.s.site.Store.FindAccount(c.r.Context(), named); err != nil && named != eventlog.AllAccounts {
			return "", "", 0, AccountProblem(err, named)
		}
	}
	if !web.AcceptsJSON(c.r) {
		return "", "", 0, web.NotAcceptable()
	}
	return account, after, limit, nil
}

// problem is webhookProblem for the caller: an operator gets the id and a hint.
func (c *webhookCall) problem(err error) error {
	if c.by.Account == "" && errors.Is(err, record.ErrNotFound) {
		return web.Absent("webhook endpoint", c.id(), "tollhouse webhook list shows the webhook endpoints").Because(err)
	}
	return WebhookProblem(err)
}

// WebhookProblem maps the store's errors to problems. What belongs to another account
// is answered like what never was.
func WebhookProblem(err error) error {
	var (
		refusedURL *target.Error
		bad        *record.InvalidError
		cursor     *eventlog.CursorError
		exists     *webhook.ExistsError
		limit      *webhook.LimitError
		secrets    *webhook.SecretsError
		doc        *snapshot.Error
	)
	conflict := func(format string, args ...any) *web.Problem {
		return web.NewProblem(http.StatusConflict, "conflict", format, args...).Because(err)
	}
	switch {
	case errors.As(err, &refusedURL):
		p := web.NewProblem(http.StatusBadRequest, string(refusedURL.Code), "%s", web.Sentence(refusedURL.Reason, "url")).On("url")
		if refusedURL.Hint != "" {
			p.Extra = map[string]any{"hint": refusedURL.Hint}
		}
		return p
	case errors.As(err, &bad):
		p := web.InvalidValue(bad)
		p.Code = "invalid_parameter"
		return p
	case errors.As(err, &doc):
		return web.DocumentProblem(doc)
	case errors.As(err, &cursor), errors.Is(err, eventlog.ErrFeedOff):
		return EventListProblem(err)
	case errors.As(err, &exists):
		p := conflict("The endpoint %s of the account has this URL.", exists.ID)
		p.Extra = map[string]any{"id": exists.ID, "hint": "to send a second stream to the same receiver, add a query to the URL"}
		return p
	case errors.As(err, &limit):
		of := "account"
		if limit.Instance {
			of = "server"
		}
		return web.NewProblem(http.StatusConflict, "limit_reached", "The %s has %d webhook endpoints, the most it may have.", of, limit.Max).Because(err)
	case errors.As(err, &secrets):
		return conflict("The endpoint already has %d active secrets; the next one expires at %s. With `overlap` 0 the others end immediately.", webhook.SecretsMax, secrets.Ends.UTC().Format(time.RFC3339))
	case errors.Is(err, webhook.ErrNoHead):
		return conflict("No event is failing, so there is nothing to skip.")
	case errors.Is(err, webhook.ErrTooMany):
		return conflict("Too many events (the limit is %d); use enable with `from`.", webhook.RetriedMax)
	case errors.Is(err, webhook.ErrFull):
		return conflict("%d events are parked or dead (the limit); use enable with `from` to clear them.", webhook.SetMax)
	case errors.Is(err, webhook.ErrSecretLost):
		return conflict("The secret cannot be read with this server key; rotate it first.")
	case errors.Is(err, webhook.ErrOperatorOnly):
		return conflict("An operator disabled or created this endpoint, so only an operator can enable it: ask yours to run tollhouse webhook enable.")
	case errors.Is(err, record.ErrDisabled):
		return conflict("The client or the user of this token has ended, or may no longer have events pushed.")
	case errors.Is(err, record.ErrPrecondition):
		return web.NewProblem(http.StatusPreconditionFailed, "precondition_failed", "The endpoint does not meet If-Match or If-None-Match; read it again and retry.").Because(err)
	case errors.Is(err, record.ErrNotFound):
		return web.NewProblem(http.StatusNotFound, "not_found", "The webhook endpoint does not exist.").Because(err)
	}
	return actingProblem(err)
}
