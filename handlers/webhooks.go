package handlers

import (
	"cmp"
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

const (
	webhookOverlapDefault = 24 * 60 * 60 // seconds
	webhookOverlapMax     = 7 * webhookOverlapDefault

	webhookTestMax = 90 * time.Second // more than --webhook-timeout may be
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

// createWebhook is POST /api/webhook-endpoints. Only its answer has the secret.
func createWebhook(c *webhookCall) error {
	account := c.by.Account
	if account == "" {
		named, rest, err := c.adminAccount(c.r)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return unknownParameter(rest[0].name, nil, []string{"account"})
		}
		account = named
	} else if refused := refuseQuery(c.r); refused != nil {
		return refused
	}
	m, err := c.readMembers(false, "url", "types", "description", "order", "from", "secret")
	if err != nil {
		return err
	}
	settings := webhook.Settings{
		Types: m.texts("types"), Description: m.text("description"), Order: webhook.Order(m.text("order")), From: m.from("from"), Secret: m.secret(),
	}
	url := m.text("url")
	if err := m.err(); err != nil {
		return err
	}
	if settings.URL, err = c.judged(url); err != nil {
		return err
	}
	e, sec, err := c.store.Webhooks.Create(c.r.Context(), c.by, account, settings)
	if err != nil {
		return c.problem(err)
	}
	if c.by.Account != "" {
		c.w.Header().Set("Location", c.base+webhooksPath+"/"+e.ID)
	}
	return c.answer(http.StatusCreated, WebhookEndpoint{Object: e.Object(), Secret: sec.Reveal()})
}

// judged returns the form of a URL that is stored.
func (s *Server) judged(text string) (string, error) {
	url, err := s.webhookRules.ParseURL(text)
	return url, webhookProblem(err)
}

// listWebhooks is GET /api/webhook-endpoints.
func listWebhooks(c *webhookCall) error {
	account, after, limit, err := c.listed()
	if err != nil {
		return err
	}
	list, err := c.store.Webhooks.List(c.r.Context(), c.by, account, after, limit+1)
	if err != nil {
		return err
	}
	page := WebhookList[WebhookEndpoint]{Object: "list", Data: []WebhookEndpoint{}, HasMore: len(list) > limit, Next: after, Previous: after}
	for _, e := range list[:min(len(list), limit)] {
		page.Data = append(page.Data, WebhookEndpoint{Object: e.Object()})
	}
	if n := len(page.Data); n > 0 {
		page.Next, page.Previous = page.Data[n-1].ID, page.Data[0].ID
	}
	return c.sendList(page)
}

// findWebhook is GET /api/webhook-endpoints/:id. Its status changes without a new
// version, so it is never answered with 304.
func findWebhook(c *webhookCall) error {
	if refused := refuseQuery(c.r); refused != nil {
		return refused
	}
	if !acceptsJSON(c.r) {
		return notAcceptable()
	}
	e, err := c.store.Webhooks.Find(c.r.Context(), c.by, c.id())
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object()})
}

// updateWebhook is PATCH /api/webhook-endpoints/:id: a merge patch, in which null means
// the default.
func updateWebhook(c *webhookCall) error {
	if refused := refuseQuery(c.r); refused != nil {
		return refused
	}
	var condition eventlog.Condition
	if refused := parseCondition(c.r, &condition); refused != nil {
		return refused
	}
	m, err := c.readMembers(false, "url", "types", "description", "order")
	if err != nil {
		return err
	}
	change := webhook.Change{If: func(revision uint64) bool {
		version := strconv.FormatUint(revision, 10)
		return !condition.Absent && (condition.OneOf == nil || slices.Contains(condition.OneOf, version)) && !slices.Contains(condition.NoneOf, version)
	}}
	if m.given("types") {
		types := m.texts("types")
		if types == nil {
			types = []string{"*"}
		}
		change.Types = types
	}
	if m.given("description") {
		text := m.text("description")
		change.Description = &text
	}
	if m.given("order") {
		order := cmp.Or(webhook.Order(m.text("order")), webhook.Strict)
		change.Order = &order
	}
	url := m.text("url")
	if err := m.err(); err != nil {
		return err
	}
	if m.given("url") {
		if url, err = c.judged(url); err != nil {
			return err
		}
		change.URL = &url
	}
	e, err := c.store.Webhooks.Update(c.r.Context(), c.by, c.id(), change)
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object()})
}

// deleteWebhook is DELETE /api/webhook-endpoints/:id.
func deleteWebhook(c *webhookCall) error {
	if refused := refuseQuery(c.r); refused != nil {
		return refused
	}
	if err := c.store.Webhooks.Delete(c.r.Context(), c.by, c.id()); err != nil {
		return c.problem(err)
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// enableWebhook is POST /api/webhook-endpoints/:id/enable.
func enableWebhook(c *webhookCall) error {
	m, err := c.members("from")
	if err != nil {
		return err
	}
	from := m.from("from")
	if err := m.err(); err != nil {
		return err
	}
	e, waiting, err := c.store.Webhooks.Enable(c.r.Context(), c.by, c.id(), from)
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object(), Waiting: &waiting})
}

// members reads a body that may be left out.
func (c *webhookCall) members(known ...string) (*members, error) {
	if refused := refuseQuery(c.r); refused != nil {
		return nil, refused
	}
	return c.readMembers(true, known...)
}

// disableWebhook is POST /api/webhook-endpoints/:id/disable.
func disableWebhook(c *webhookCall) error { return c.apply(c.store.Webhooks.Disable) }

// skipWebhook is POST /api/webhook-endpoints/:id/skip.
func skipWebhook(c *webhookCall) error {
	return c.apply(func(ctx context.Context, by webhook.By, id string) (webhook.Endpoint, error) {
		return c.store.Webhooks.Skip(ctx, by, id, "")
	})
}

// apply makes a change that has no members.
func (c *webhookCall) apply(do func(ctx context.Context, by webhook.By, id string) (webhook.Endpoint, error)) error {
	if _, err := c.members(); err != nil {
		return err
	}
	e, err := do(c.r.Context(), c.by, c.id())
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object()})
}

// rotateWebhook is POST /api/webhook-endpoints/:id/rotate-secret. Only its answer has the
// new secret.
func rotateWebhook(c *webhookCall) error {
	m, err := c.members("overlap", "secret")
	if err != nil {
		return err
	}
	overlap, own := m.seconds("overlap", webhookOverlapDefault, webhookOverlapMax), m.secret()
	if err := m.err(); err != nil {
		return err
	}
	e, sec, err := c.store.Webhooks.RotateSecret(c.r.Context(), c.by, c.id(), time.Duration(overlap)*time.Second, own)
	if err != nil {
		return c.problem(err)
	}
	return c.send(http.StatusOK, WebhookRotated{ID: e.ID, Secret: sec.Reveal(), Secrets: e.Object().Secrets})
}

// testWebhook is POST /api/webhook-endpoints/:id/test.
func testWebhook(c *webhookCall) error {
	if _, err := c.members(); err != nil {
		return err
	}
	e, err := c.store.Webhooks.Find(c.r.Context(), c.by, c.id())
	if err != nil {
		return c.problem(err)
	}
	result, err := c.sendTest(c.w, c.r, c.by, e)
	if err != nil {
		return c.problem(err)
	}
	return c.send(http.StatusOK, result)
}

// sendTest sends a test, unless there were too many.
func (s *Server) sendTest(w http.ResponseWriter, r *http.Request, by webhook.By, e webhook.Endpoint) (WebhookTest, error) {
	if s.webhooks == nil {
		return WebhookTest{}, newProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "This process sends no webhooks, so it cannot send a test.")
	}
	end, ok := s.webhookTests.begin(e.Account)
	if !ok {
		return WebhookTest{}, newProblem(http.StatusTooManyRequests, "too_many_requests", "%d tests of the account are being sent. %s", webhookTestsAtOnce, tryAgainIn("5")).with("Retry-After", "5")
	}
	defer end()
	if wait := s.webhookTests.take(e.ID); wait > 0 {
		seconds := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
		return WebhookTest{}, newProblem(http.StatusTooManyRequests, "too_many_requests", "At most %d tests of an endpoint are sent in a minute. %s", webhookTestsMax, tryAgainIn(seconds)).with("Retry-After", seconds)
	}
	if err := s.store.Webhooks.Tested(r.Context(), by, e.ID); err != nil {
		return WebhookTest{}, err
	}
	// The receiver may take longer than answers have.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(webhookTestMax))
	return s.webhooks.Test(r.Context(), e.ID)
}

// retryWebhook is POST /api/webhook-endpoints/:id/retry.
func retryWebhook(c *webhookCall) error {
	if refused := refuseQuery(c.r); refused != nil {
		return refused
	}
	m, err := c.readMembers(false, "events", "state", "from", "to", "types")
	if err != nil {
		return err
	}
	asked := webhook.Retry{Events: m.texts("events"), State: webhook.State(m.text("state")), Types: m.texts("types"), From: m.from("from"), To: m.from("to")}
	ways := 0
	for _, given := range []bool{m.given("events"), m.given("state"), m.given("from") || m.given("to")} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		return invalidRequest("The body names no events; send events, or state, or from and to.")
	case ways > 1:
		return invalidRequest("Send only one of events, state, and from with to.")
	case m.given("from") != m.given("to"):
		return invalidRequest("Send both from and to.")
	case m.given("types") && !m.given("from"):
		return invalidRequest("types selects events between from and to only; leave it out, or send from and to.").on("types")
	case m.given("state") && asked.State != webhook.Parked && asked.State != webhook.Dead:
		m.refuse("state", "must be parked or dead, not %.64q.", asked.State)
	case m.given("events") && len(asked.Events) == 0:
		m.refuse("events", "must have at least one id of an event.")
	}
	if err := m.err(); err != nil {
		return err
	}
	if _, err := c.store.Webhooks.Find(c.r.Context(), c.by, c.id()); err != nil {
		return c.problem(err)
	}
	queued, err := c.store.Webhooks.Retry(c.r.Context(), c.by, c.id(), asked)
	if errors.Is(err, record.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "One of the events does not exist.").because(err)
	}
	if err != nil {
		return c.problem(err)
	}
	return c.send(http.StatusAccepted, map[string]int{"queued": queued})
}

// listDeliveries is GET /api/webhook-endpoints/:id/deliveries.
func listDeliveries(c *webhookCall) error {
	q := webhook.Filter{Limit: eventsLimitDefault}
	values, refused := c.single("state", "event", "limit", "after")
	if refused != nil {
		return refused
	}
	q.State, q.Event, q.After = webhook.State(values["state"]), values["event"], values["after"]
	if text, given := values["limit"]; given {
		if q.Limit, refused = parseLimit(text); refused != nil {
			return refused
		}
	}
	if !acceptsJSON(c.r) {
		return notAcceptable()
	}
	list, more, err := c.store.Webhooks.Deliveries(c.r.Context(), c.by, c.id(), q)
	if err != nil {
		return c.problem(err)
	}
	page := WebhookList[webhook.ObjectDelivery]{Object: "list", Data: []webhook.ObjectDelivery{}, HasMore: more, Next: q.After, Previous: q.After}
	for _, d := range list {
		page.Data = append(page.Data, d.Object())
	}
	if n := len(page.Data); n > 0 {
		page.Next, page.Previous = page.Data[n-1].Event, page.Data[0].Event
	}
	return c.sendList(page)
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

// adminHoldWebhooks is POST /admin/webhook-hold.
func (s *Server) adminHoldWebhooks(w http.ResponseWriter, r *http.Request) error {
	return s.setHold(w, r, s.store.Webhooks.Hold)
}

// adminResumeWebhooks is POST /admin/webhook-resume.
func (s *Server) adminResumeWebhooks(w http.ResponseWriter, r *http.Request) error {
	return s.setHold(w, r, s.store.Webhooks.Resume)
}

func (s *Server) setHold(w http.ResponseWriter, r *http.Request, do func(context.Context, webhook.By) (webhook.Instance, error)) error {
	if err := readAdminBody(w, r, &struct{}{}); err != nil {
		return err
	}
	h, err := do(r.Context(), webhooksBy(r.Context()))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, WebhookHold{Held: h.Held, Since: unixOrNull(h.Since), Reason: h.Reason})
	return nil
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
