package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
)

// webhookCall is a request about webhook endpoints: of a token, or of the operator, who
// has the same calls.
type webhookCall struct {
	*Server
	w  http.ResponseWriter
	r  *http.Request
	by webhook.By
	// alive judges the token again, because a body may arrive long after its header.
	alive func() error
}

type webhookHandler func(c *webhookCall) error

// readsWebhooks admits tokens that may read webhook endpoints.
func (s *Server) readsWebhooks(h webhookHandler) handler {
	return s.ofTenant(store.ScopeWebhooksRead, h)
}

// writesWebhooks admits tokens that may change webhook endpoints. They must be able to
// read events, or a push would show what a read does not.
func (s *Server) writesWebhooks(h webhookHandler) handler {
	return s.ofTenant(store.ScopeWebhooksWrite|store.ScopeEventsRead, h)
}

func (s *Server) ofTenant(need store.Scope, h webhookHandler) handler {
	return s.bearer(need, func(w http.ResponseWriter, r *http.Request) error {
		p := principalFrom(r.Context())
		c := s.operatorCall(w, r)
		c.alive = s.aliveToken(r, need)
		c.by.Account, c.by.Client, c.by.User, c.by.Name, c.by.Live = p.Account, p.ClientID, p.UserID, actor(p), s.store.LiveIn(p)
		return h(c)
	})
}

// ofOperator is for the admin API, where the id of an endpoint is enough.
func (s *Server) ofOperator(h webhookHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return h(s.operatorCall(w, r))
	}
}

func (s *Server) operatorCall(w http.ResponseWriter, r *http.Request) *webhookCall {
	return &webhookCall{Server: s, w: w, r: r, by: webhooksBy(r.Context()), alive: aliveAlways}
}

// webhooksBy is the operator as the maker of a change.
func webhooksBy(ctx context.Context) webhook.By {
	origin := by(ctx)
	return webhook.By{RequestID: origin.RequestID, Address: origin.Source, OperatorID: origin.OperatorID}
}

func (c *webhookCall) id() string { return pathParam(c.r, "id") }

// answer sends an endpoint with its version.
func (c *webhookCall) answer(status int, shown WebhookEndpoint) error {
	c.w.Header().Set("ETag", entityTag(strconv.FormatUint(shown.Revision, 10)))
	return c.send(status, shown)
}

func (c *webhookCall) send(status int, shown any) error {
	writeJSON(c.w, status, shown)
	return nil
}

// sendList sends a page within the budget of the caller's account.
func (c *webhookCall) sendList(page any) error {
	body, err := json.Marshal(page)
	if err != nil {
		return err
	}
	if err := factsFrom(c.r.Context()).demand.settle(c.r.Context(), len(body)); err != nil {
		return err
	}
	writeBody(c.w, http.StatusOK, "application/json", append(body, '\n'))
	return nil
}

// members reads a body that may be left out.
func (c *webhookCall) members(known ...string) (*members, error) {
	if refused := refuseQuery(c.r); refused != nil {
		return nil, refused
	}
	return c.readMembers(true, known...)
}

// single returns the parameters of a query, each given once and known.
func (c *webhookCall) single(known ...string) (map[string]string, *problem) {
	pairs, refused := parseAPIQuery(c.r.URL.RawQuery)
	if refused != nil {
		return nil, refused
	}
	values := map[string]string{}
	for _, pair := range pairs {
		if !slices.Contains(known, pair.name) {
			return nil, unknownParameter(pair.name, nil, known)
		}
		if _, given := values[pair.name]; given {
			return nil, duplicateParameter(pair.name)
		}
		values[pair.name] = pair.value
	}
	return values, nil
}

// listed reads the query of a list of endpoints.
func (c *webhookCall) listed() (account, after string, limit int, err error) {
	known := []string{"after", "limit"}
	if c.by.Account == "" {
		known = append(known, "account")
	}
	values, refused := c.single(known...)
	if refused != nil {
		return "", "", 0, refused
	}
	account, limit = c.by.Account, eventsLimitDefault
	if text, given := values["limit"]; given {
		if limit, refused = parseLimit(text); refused != nil {
			return "", "", 0, refused
		}
	}
	if after = values["after"]; after != "" && !eventlog.IsID(after) {
		return "", "", 0, invalidCursor("after", "must be the id of a webhook endpoint")
	}
	if named, given := values["account"]; given {
		account = named
		if _, err := c.store.FindAccount(c.r.Context(), named); err != nil {
			return "", "", 0, accountProblem(err, named)
		}
	}
	if !acceptsJSON(c.r) {
		return "", "", 0, notAcceptable()
	}
	return account, after, limit, nil
}

// problem is webhookProblem for the caller: an operator gets the id and a hint.
func (c *webhookCall) problem(err error) error {
	if c.by.Account == "" && errors.Is(err, record.ErrNotFound) {
		return absent("webhook endpoint", c.id(), "tollhouse webhook list shows the webhook endpoints").because(err)
	}
	return webhookProblem(err)
}

// webhookProblem maps the store's errors to problems. What belongs to another account
// is answered like what never was.
func webhookProblem(err error) error {
	var (
		refusedURL *target.Error
		bad        *record.InvalidError
		cursor     *eventlog.CursorError
		exists     *webhook.ExistsError
		limit      *webhook.LimitError
		secrets    *webhook.SecretsError
	)
	conflict := func(format string, args ...any) *problem {
		return newProblem(http.StatusConflict, "conflict", format, args...).because(err)
	}
	switch {
	case errors.As(err, &refusedURL):
		p := newProblem(http.StatusBadRequest, string(refusedURL.Code), "%s", sentence(refusedURL.Reason)).on("url")
		if refusedURL.Hint != "" {
			p.extra = map[string]any{"hint": refusedURL.Hint}
		}
		return p
	case errors.As(err, &bad):
		p := invalidValue(bad)
		p.code = "invalid_parameter"
		return p
	case errors.As(err, &cursor):
		return eventListProblem(err)
	case errors.As(err, &exists):
		p := conflict("The endpoint %s of the account has this URL.", exists.ID)
		p.extra = map[string]any{"id": exists.ID, "hint": "to send a second stream to the same receiver, add a query to the URL"}
		return p
	case errors.As(err, &limit):
		of := "account"
		if limit.Instance {
			of = "server"
		}
		return newProblem(http.StatusConflict, "limit_reached", "The %s has %d webhook endpoints, the most it may have.", of, limit.Max).because(err)
	case errors.As(err, &secrets):
		return conflict("%d secrets sign already; the next one ends at %s. With overlap 0 the others end at once.", webhook.SecretsMax, secrets.Ends.UTC().Format(time.RFC3339))
	case errors.Is(err, record.ErrRevoked):
		return invalidToken().because(err)
	case errors.Is(err, webhook.ErrNoHead):
		return conflict("No event is failing, so there is nothing to skip.")
	case errors.Is(err, webhook.ErrTooMany):
		return conflict("These are more than %d events; enable with from sends all of them.", webhook.RetriedMax)
	case errors.Is(err, webhook.ErrFull):
		return conflict("%d events are parked or dead, the most there may be; enable with from forgets them.", webhook.SetMax)
	case errors.Is(err, webhook.ErrSecretLost):
		return conflict("The secret cannot be read with this server key; rotate it first.")
	case errors.Is(err, record.ErrDisabled):
		return conflict("The client or the user that created the endpoint has ended; create a new endpoint.")
	case errors.Is(err, eventlog.ErrPrecondition):
		return newProblem(http.StatusPreconditionFailed, "precondition_failed", "The endpoint does not meet If-Match or If-None-Match; read it again and retry.").because(err)
	case errors.Is(err, record.ErrNotFound):
		return newProblem(http.StatusNotFound, "not_found", "The webhook endpoint does not exist.").because(err)
	}
	return err
}
