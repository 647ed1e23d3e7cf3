package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/webhook"
)

const (
	webhookOverlapDefault = 24 * 60 * 60 // seconds
	webhookOverlapMax     = 7 * webhookOverlapDefault

	webhookTestMax = 90 * time.Second // more than --webhook-timeout may be
)

// createWebhook is POST /api/webhook-endpoints. Only its answer has the secret.
func createWebhook(c *webhookCall) error {
	account := c.by.Account
	if account == "" {
		named, rest, err := c.s.NamedAccount(c.r)
		if err == nil && named != eventlog.AllAccounts {
			err = c.s.mustExist(c.r.Context(), named)
		}
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return web.UnknownParameter(rest[0].Name, nil, []string{"account"})
		}
		account = named
	} else if refused := RefuseQuery(c.r); refused != nil {
		return refused
	}
	m, err := c.readMembers(false, "url", "types", "description", "order", "from", "secret")
	if err != nil {
		return err
	}
	settings := webhook.Settings{
		Types: m.Texts("types"), Description: m.Text("description"), Order: webhook.Order(m.Text("order")), From: m.from("from"), Secret: m.secret(),
	}
	url := m.Text("url")
	if err := m.Err(); err != nil {
		return err
	}
	if settings.URL, err = c.s.judged(url); err != nil {
		return err
	}
	notices, err := c.nearTypes(account, settings.Types)
	if err != nil {
		return err
	}
	e, sec, err := c.s.site.Store.Webhooks.Create(c.r.Context(), c.by, account, settings)
	if err != nil {
		return c.problem(err)
	}
	if c.by.Account != "" {
		c.w.Header().Set("Location", c.s.site.Base()+WebhooksPath+"/"+e.ID)
	}
	return c.answer(http.StatusCreated, WebhookEndpoint{Object: e.Object(), Secret: sec.Reveal(), Notices: notices})
}

// ParseWebhookURL returns the form of a URL that is stored. Errors: *target.Error.
func (s *Server) ParseWebhookURL(text string) (string, error) { return s.webhookRules.ParseURL(text) }

// judged returns the form of a URL that is stored.
func (s *Server) judged(text string) (string, error) {
	url, err := s.webhookRules.ParseURL(text)
	return url, WebhookProblem(err)
}

// listWebhooks is GET /api/webhook-endpoints.
func listWebhooks(c *webhookCall) error {
	account, after, limit, err := c.listed()
	if err != nil {
		return err
	}
	list, err := c.s.site.Store.Webhooks.List(c.r.Context(), c.by, account, after, limit+1)
	if err != nil {
		return err
	}
	shown := func(e webhook.Endpoint) WebhookEndpoint { return WebhookEndpoint{Object: e.Object()} }
	return SendPage(c.w, c.r, PageOf(list, limit, after, shown, func(e WebhookEndpoint) string { return e.ID }))
}

// findWebhook is GET /api/webhook-endpoints/:id. Its status changes without a new
// version, so it is never answered with 304.
func findWebhook(c *webhookCall) error {
	if refused := RefuseQuery(c.r); refused != nil {
		return refused
	}
	if !web.AcceptsJSON(c.r) {
		return web.NotAcceptable()
	}
	e, err := c.s.site.Store.Webhooks.Find(c.r.Context(), c.by, c.id())
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object()})
}

// updateWebhook is PATCH /api/webhook-endpoints/:id: a merge patch, in which null means
// the default.
func updateWebhook(c *webhookCall) error {
	if refused := RefuseQuery(c.r); refused != nil {
		return refused
	}
	condition, err := IfRevision(c.r)
	if err != nil {
		return err
	}
	m, err := c.readMembers(false, "url", "types", "description", "order")
	if err != nil {
		return err
	}
	change := webhook.Change{If: condition}
	if m.Given("types") {
		types := m.Texts("types")
		if types == nil {
			types = []string{"*"}
		}
		change.Types = types
	}
	if m.Given("description") {
		text := m.Text("description")
		change.Description = &text
	}
	if m.Given("order") {
		order := webhook.Order(m.Text("order"))
		change.Order = &order
	}
	url := m.Text("url")
	if err := m.Err(); err != nil {
		return err
	}
	if m.Given("url") {
		if url, err = c.s.judged(url); err != nil {
			return err
		}
		change.URL = &url
	}
	notices, err := c.nearTypesOf(change.Types)
	if err != nil {
		return err
	}
	e, err := c.s.site.Store.Webhooks.Update(c.r.Context(), c.by, c.id(), change)
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object(), Notices: notices})
}

// deleteWebhook is DELETE /api/webhook-endpoints/:id.
func deleteWebhook(c *webhookCall) error {
	if refused := RefuseQuery(c.r); refused != nil {
		return refused
	}
	if err := c.s.site.Store.Webhooks.Delete(c.r.Context(), c.by, c.id()); err != nil {
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
	if err := m.Err(); err != nil {
		return err
	}
	e, waiting, err := c.s.site.Store.Webhooks.Enable(c.r.Context(), c.by, c.id(), from)
	if err != nil {
		return c.problem(err)
	}
	return c.answer(http.StatusOK, WebhookEndpoint{Object: e.Object(), Waiting: &waiting})
}

// disableWebhook is POST /api/webhook-endpoints/:id/disable.
func disableWebhook(c *webhookCall) error { return c.apply(c.s.site.Store.Webhooks.Disable) }

// skipWebhook is POST /api/webhook-endpoints/:id/skip.
func skipWebhook(c *webhookCall) error {
	return c.apply(func(ctx context.Context, by webhook.By, id string) (webhook.Endpoint, error) {
		return c.s.site.Store.Webhooks.Skip(ctx, by, id, "")
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
	overlap, own := m.Seconds("overlap", webhookOverlapDefault, 0, webhookOverlapMax), m.secret()
	if err := m.Err(); err != nil {
		return err
	}
	e, sec, err := c.s.site.Store.Webhooks.RotateSecret(c.r.Context(), c.by, c.id(), time.Duration(overlap)*time.Second, own)
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
	e, err := c.s.site.Store.Webhooks.Find(c.r.Context(), c.by, c.id())
	if err != nil {
		return c.problem(err)
	}
	result, err := c.s.SendTest(c.w, c.r, c.by, e)
	if err != nil {
		return c.problem(err)
	}
	return c.send(http.StatusOK, result)
}

// SendTest sends a test, unless there were too many or the account is disabled.
func (s *Server) SendTest(w http.ResponseWriter, r *http.Request, by webhook.By, e webhook.Endpoint) (WebhookTest, error) {
	if !e.Stopped.IsZero() {
		return WebhookTest{}, web.NewProblem(http.StatusConflict, "conflict", "The account is disabled, so nothing is sent for it. Enable it first.")
	}
	if s.Webhooks == nil {
		return WebhookTest{}, web.NewProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "This process sends no webhooks, so it cannot send a test.")
	}
	sender := e.Account
	if by.Platform {
		sender += " " + by.Client
		ended, err := s.BeginWaiting(by.Client)
		if err != nil {
			return WebhookTest{}, err
		}
		defer ended()
	}
	end, ok := s.webhookTests.sending.begin(sender)
	if !ok {
		return WebhookTest{}, web.NewProblem(http.StatusTooManyRequests, "too_many_requests", "%d tests of the account are being sent. %s", WebhookTestsAtOnce, web.TryAgainIn("5")).With("Retry-After", "5")
	}
	defer end()
	if wait := s.webhookTests.take(e.ID); wait > 0 {
		seconds := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
		return WebhookTest{}, web.NewProblem(http.StatusTooManyRequests, "too_many_requests", "At most %d tests of an endpoint are sent in a minute. %s", WebhookTestsMax, web.TryAgainIn(seconds)).With("Retry-After", seconds)
	}
	if err := s.site.Store.Webhooks.Tested(r.Context(), by, e.ID); err != nil {
		return WebhookTest{}, err
	}
	// The receiver may take longer than answers have.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(webhookTestMax))
	return s.Webhooks.Test(r.Context(), e.ID)
}
