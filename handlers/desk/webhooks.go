package desk

import (
	"cmp"
	"errors"
	"net/http"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
	"tollhouse/views"
)

const (
	deskWebhooksPath  = "/desk/webhooks"
	newWebhookPath    = "/desk/new-webhook"
	deskWebhooksMax   = 40 // with a strip each; 50 would weigh more than 60 KB
	deskDeliveriesMax = 40

	webhooksCounted = 1_000 // events that wait, for each endpoint of the list
	webhooksDrawn   = 40
	webhookDrawn    = 100
)

// webhooks is GET /desk/webhooks.
func (s *Server) webhooks(v *visit) error {
	list, err := s.site.Store.Webhooks.List(v.ctx, v.webhooksBy(), "", v.after(), deskWebhooksMax+1)
	if err != nil {
		return err
	}
	in, err := s.site.Store.Webhooks.Instance(v.ctx)
	if err != nil {
		return err
	}
	p := views.WebhooksProps{
		NewURL: newWebhookPath, Held: in.Held, Restored: in.Reason == webhook.HeldRestored, Copied: in.Reason == webhook.HeldCopied, HoldURL: "/desk/webhook-hold", ResumeURL: "/desk/webhook-resume",
		APIPath: api.WebhooksPath, CreateCommand: v.s.oauth.Command("tollhouse webhook create"),
	}
	if p.Hold, err = v.held(); err != nil {
		return err
	}
	if len(list) > deskWebhooksMax {
		list = list[:deskWebhooksMax]
		p.Older = deskWebhooksPath + "?after=" + api.Escaped(list[deskWebhooksMax-1].ID)
	}
	for _, e := range list {
		listed, err := v.listedWebhook(&e, webhooksCounted, webhooksDrawn)
		if err != nil {
			return err
		}
		p.Webhooks = append(p.Webhooks, listed)
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Webhooks(p))
	return nil
}

// listedWebhook counts at most so many events that wait, and has the states of at most so many
// deliveries, to be drawn.
func (v *visit) listedWebhook(e *webhook.Endpoint, counted, drawn int) (views.ListedWebhook, error) {
	listed := views.ListedWebhook{
		ID: e.ID, Description: e.Description, URL: below(deskWebhooksPath, e.ID), Origin: target.Origin(e.URL), Account: e.Account,
		Health: string(e.Health()), Since: v.momentOrNever(e.Trouble.Since), Why: string(e.Why().Reason), Parked: e.Parked, Dead: e.Dead,
	}
	waiting, err := v.s.site.Store.Webhooks.Waiting(v.ctx, e, counted)
	if err != nil {
		return listed, err
	}
	listed.Waiting = views.Waiting{Events: waiting.Events, More: waiting.More}
	recent, err := v.s.site.Store.Webhooks.Recent(v.ctx, e, drawn)
	for _, d := range recent {
		listed.Recent = append(listed.Recent, string(d.State))
	}
	if len(recent) == drawn {
		listed.First = v.momentOrNever(recent[0].LastAt)
	}
	return listed, err
}

func (v *visit) webhooksBy() webhook.By {
	by := web.WebhooksBy(v.ctx)
	by.Live = v.guard().Live
	return by
}

// webhookOf returns the endpoint in the path.
func (v *visit) webhookOf() (webhook.Endpoint, error) {
	id, err := admin.NameIn(v.r)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	e, err := v.s.site.Store.Webhooks.Find(v.ctx, v.webhooksBy(), id)
	if errors.Is(err, record.ErrNotFound) {
		return e, web.NewProblem(http.StatusNotFound, "not_found", "There is no such webhook endpoint.").Because(err)
	}
	return e, err
}

// webhook is GET /desk/webhooks/:id.
func (s *Server) webhook(v *visit) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	return v.showWebhookPage(e, nil)
}

// showWebhookPage shows an endpoint, and what came of a test.
func (v *visit) showWebhookPage(e webhook.Endpoint, test *views.SentTest) error {
	listed, err := v.listedWebhook(&e, webhook.WaitingMax, webhookDrawn)
	if err != nil {
		return err
	}
	p := views.WebhookProps{
		Webhook: listed, Address: e.URL, Types: e.Types, Strict: e.Order == webhook.Strict, Created: v.momentOrNever(e.CreatedAt), Tried: v.momentOrNever(e.Last.At),
		DeliveredTo: v.momentOrNever(e.Cursor.Time()), LastError: e.Last.Error, Enabled: e.Enabled(), Reserved: e.Disabled.By == webhook.ByOperator, Secrets: len(e.Secrets), SecretsFull: len(e.Secrets) >= webhook.SecretsMax, Once: onceField(),
		DeleteCommand: v.s.oauth.Command("tollhouse webhook delete " + web.ShellOperand(e.ID)), Test: test,
	}
	if b := e.Head; b != nil {
		p.Blocked = &views.Blocked{Event: b.Event, Type: b.Type, URL: eventOf(e, b.Event), Attempts: b.Attempts, Status: b.Status, Error: b.Error, Next: web.Moment(b.NextAt, v.now)}
	}
	if !e.Gap.IsZero() {
		p.GapAfter = eventlog.PositionText(e.Account, e.Gap.After)
	}
	list, more, err := v.s.site.Store.Webhooks.Deliveries(v.ctx, v.webhooksBy(), e.ID, webhook.Filter{After: v.after(), Limit: deskDeliveriesMax})
	if err != nil {
		return err
	}
	for _, d := range list {
		p.Deliveries = append(p.Deliveries, views.Delivery{
			Event: d.Event, Type: d.Type, URL: eventOf(e, d.Event), State: string(d.State),
			MS: d.Took.Milliseconds(), Attempts: d.Attempts, Status: d.Status, Error: d.Error, Body: d.Body, Tried: v.momentOrNever(d.LastAt),
		})
	}
	if more {
		p.Older = p.Webhook.URL + "?after=" + api.Escaped(list[len(list)-1].Event)
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Webhook(p))
	return nil
}

// eventOf is the page of an event that was sent to an endpoint. One of all accounts has none: a
// delivery does not name the account of its event.
func eventOf(e webhook.Endpoint, event string) string {
	if e.Account == eventlog.AllAccounts {
		return ""
	}
	return below(deskEventsPath, event) + "?account=" + api.Escaped(e.Account)
}

// changeWebhook makes a change of the endpoint in the path, and leads back to its page.
func (v *posted) changeWebhook(done views.Done, change func(id string) error) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	if err := change(e.ID); err != nil {
		return api.WebhookProblem(err)
	}
	return v.finish(done, below(deskWebhooksPath, e.ID))
}

// enableWebhook is POST /desk/webhooks/:id/enable. It skips no events of an endpoint that
// another operator has enabled since.
func (s *Server) enableWebhook(v *posted) error {
	var from webhook.From
	if v.form.Has("now") {
		from = webhook.FromNow().IfDisabled()
	}
	return v.changeWebhook(views.DoneWebhookEnabled, func(id string) error {
		_, _, err := s.site.Store.Webhooks.Enable(v.ctx, v.webhooksBy(), id, from)
		if errors.Is(err, webhook.ErrEnabled) {
			return web.NewProblem(http.StatusConflict, "conflict", "The endpoint is already enabled. No events were skipped.")
		}
		return err
	})
}

// disableWebhook is POST /desk/webhooks/:id/disable.
func (s *Server) disableWebhook(v *posted) error {
	return v.changeWebhook(views.DoneWebhookDisabled, func(id string) error {
		_, err := s.site.Store.Webhooks.Disable(v.ctx, v.webhooksBy(), id)
		return err
	})
}

// skipWebhook is POST /desk/webhooks/:id/skip. It skips the event that the page showed.
func (s *Server) skipWebhook(v *posted) error {
	return v.changeWebhook(views.DoneWebhookSkipped, func(id string) error {
		event := v.form.Value("event")
		_, err := s.site.Store.Webhooks.Skip(v.ctx, v.webhooksBy(), id, event)
		if errors.Is(err, webhook.ErrNoHead) && event != "" {
			return web.NewProblem(http.StatusConflict, "conflict", "That event does not block the endpoint any more. Nothing was skipped.")
		}
		return err
	})
}

// retryParked is POST /desk/webhooks/:id/retry-parked.
func (s *Server) retryParked(v *posted) error { return v.retryAll(webhook.Parked) }

// retryDead is POST /desk/webhooks/:id/retry-dead.
func (s *Server) retryDead(v *posted) error { return v.retryAll(webhook.Dead) }

func (v *posted) retryAll(state webhook.State) error {
	return v.changeWebhook(views.DoneWebhookRetried, func(id string) error {
		_, err := v.s.site.Store.Webhooks.Retry(v.ctx, v.webhooksBy(), id, webhook.Retry{State: state})
		return err
	})
}

// sendAgain is POST /desk/webhooks/:id/retry: one event is sent now.
func (s *Server) sendAgain(v *posted) error {
	return v.changeWebhook(views.DoneWebhookRetried, func(id string) error {
		_, err := s.site.Store.Webhooks.Retry(v.ctx, v.webhooksBy(), id, webhook.Retry{Events: []string{v.form.Value("event")}})
		if errors.Is(err, record.ErrNotFound) {
			return web.NewProblem(http.StatusNotFound, "not_found", "There is no such event in this account.").Because(err)
		}
		return err
	})
}

// testWebhook is POST /desk/webhooks/:id/test. Its answer says what came of it.
func (s *Server) testWebhook(v *posted) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	result, err := s.api.SendTest(v.w, v.r, v.webhooksBy(), e)
	if err != nil {
		return api.WebhookProblem(err)
	}
	if e, err = v.webhookOf(); err != nil { // an accepted test ends its pauses
		return err
	}
	test := &views.SentTest{Delivered: result.Delivered, MS: result.MS}
	if result.Status != nil {
		test.Status = *result.Status
	}
	if result.Error != nil && !result.Delivered {
		test.Error = *result.Error
	}
	return v.showWebhookPage(e, test)
}

// rotateWebhook is POST /desk/webhooks/:id/rotate-secret. Only its answer shows the
// secret.
func (s *Server) rotateWebhook(v *posted) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	return v.makeOnce(func() (done onceDone, err error) {
		overlap := webhook.OverlapDefault
		if v.form.Has("leaked") {
			overlap = 0
		}
		e, sec, err := s.site.Store.Webhooks.RotateSecret(v.ctx, v.webhooksBy(), e.ID, overlap, secret.Token{})
		if err != nil {
			return done, api.WebhookProblem(err)
		}
		return v.showWebhookSecret(e, sec, views.WebhookSecretProps{Revoked: overlap == 0}), nil
	})
}

// showWebhookSecret shows a secret, once.
func (v *posted) showWebhookSecret(e webhook.Endpoint, sec secret.Token, p views.WebhookSecretProps) onceDone {
	p.Frame, p.ID, p.URL, p.Secret = v.frame(), e.ID, below(deskWebhooksPath, e.ID), sec.Reveal()
	p.Secrets = len(e.Secrets)
	p.Name = cmp.Or(e.Description, target.Origin(e.URL))
	v.draw(http.StatusOK, views.WebhookSecret(p))
	return onceDone{views.MadeWebhookSecret, p.URL}
}

// holdWebhooks is POST /desk/webhook-hold.
func (s *Server) holdWebhooks(v *posted) error {
	if _, err := s.site.Store.Webhooks.Hold(v.ctx, v.webhooksBy()); err != nil {
		return err
	}
	return v.finish(views.DoneWebhooksHeld, deskWebhooksPath)
}

// resumeWebhooks is POST /desk/webhook-resume.
func (s *Server) resumeWebhooks(v *posted) error {
	if _, err := s.site.Store.Webhooks.Resume(v.ctx, v.webhooksBy()); err != nil {
		return err
	}
	return v.finish(views.DoneWebhooksResumed, deskWebhooksPath)
}
