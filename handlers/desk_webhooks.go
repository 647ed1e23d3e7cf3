package handlers

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
	"tollhouse/views"
)

const (
	deskWebhooksPath  = "/desk/webhooks"
	deskDeliveriesMax = 50
)

var webhookColumns = []string{"Endpoint", "Account", "Health", "Delivered up to", "Parked", "Dead"}

// deskWebhooks is GET /desk/webhooks.
func (s *Server) deskWebhooks(v *visit) error {
	list, err := s.store.Webhooks.List(v.ctx, v.webhooksBy(), "", v.after(), deskPageSize+1)
	if err != nil {
		return err
	}
	in, err := s.store.Webhooks.Instance(v.ctx)
	if err != nil {
		return err
	}
	p := v.page(v.r)
	t := views.DeskTable{Label: "Webhook endpoints", List: "webhooks", Columns: webhookColumns, Next: "Next",
		Empty: "No webhook endpoints yet. An application creates them at " + webhooksPath + ", and an operator with tollhouse webhook create."}
	if len(list) > deskPageSize {
		list = list[:deskPageSize]
		t.Older = deskWebhooksPath + "?after=" + escaped(list[deskPageSize-1].ID)
	}
	for _, e := range list {
		t.Rows = append(t.Rows, views.DeskRow{Hook: "webhook", ID: e.ID, State: string(e.Health()), Cells: []views.DeskCell{
			{Text: target.Origin(e.URL), Href: below(deskWebhooksPath, e.ID), Note: cmp.Or(e.Description, e.ID)}, {Text: e.Account}, healthCell(e), v.lagCell(e),
			{Text: strconv.Itoa(e.Parked)}, {Text: strconv.Itoa(e.Dead)},
		}})
	}
	page, act := views.DeskProps{Name: "webhooks", Title: "Webhooks"}, v.act("hold", "/desk/webhook-hold", "Hold all deliveries", "")
	if in.Held {
		page.Alert, act = heldWords(in), v.act("resume", "/desk/webhook-resume", "Resume all deliveries", "")
	}
	v.show(http.StatusOK, page, views.List(p, t), views.Acts(p, "All endpoints", []views.DeskAct{act}))
	return nil
}

func heldWords(in webhook.Instance) string {
	why := "All deliveries are held."
	if in.Reason == webhook.HeldRestored {
		why = "All deliveries are held, because this store was restored from a backup."
	}
	return why + " Nothing is lost: they go on where they stopped."
}

func healthCell(e webhook.Endpoint) views.DeskCell {
	c := views.DeskCell{Text: string(e.Health()), State: StateWarning}
	switch e.Health() {
	case webhook.OK, webhook.Idle:
		c.State = StateOK
	case webhook.HealthFailing:
		c.State = StateProblem
	case webhook.HealthDisabled:
		c.Text += ": " + disabledWords[e.Disabled.Reason]
	}
	return c
}

var disabledWords = map[webhook.Reason]string{
	webhook.Asked: "on request", webhook.Gone: "the receiver is gone", webhook.Failing: "it failed for too long",
	webhook.ClientEnded: "its client has ended", webhook.UserEnded: "its user has ended", webhook.SecretLost: "its secret is sealed with another key",
}

// lagCell is up to when events were delivered.
func (v *visit) lagCell(e webhook.Endpoint) views.DeskCell {
	if !e.Behind {
		return views.DeskCell{Text: "all of them"}
	}
	return views.DeskCell{When: moment(e.Cursor.Time(), v.now)}
}

// whenCell is a time, or a dash for none.
func (v *visit) whenCell(t time.Time) views.DeskCell {
	if t.IsZero() {
		return views.DeskCell{Text: "–"}
	}
	return views.DeskCell{When: moment(t, v.now)}
}

// soonCell is a time to come.
func (v *visit) soonCell(t time.Time) views.DeskCell {
	c := views.DeskCell{When: moment(t, v.now)}
	switch wait := t.Sub(v.now); {
	case wait <= 0:
		c.When.Phrase = "now"
	case wait < time.Minute:
		c.When.Phrase = "in less than a minute"
	default:
		c.When.Phrase = "in " + strings.TrimSuffix(ago(wait), " ago")
	}
	return c
}

func (v *visit) webhooksBy() webhook.By { return webhooksBy(v.ctx) }

// webhookOf returns the endpoint in the path.
func (v *visit) webhookOf() (webhook.Endpoint, error) {
	id, err := nameIn(v.r)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	e, err := v.store.Webhooks.Find(v.ctx, v.webhooksBy(), id)
	if errors.Is(err, record.ErrNotFound) {
		return e, newProblem(http.StatusNotFound, "not_found", "There is no such webhook endpoint.").because(err)
	}
	return e, err
}

// deskWebhook is GET /desk/webhooks/:id.
func (s *Server) deskWebhook(v *visit) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	return v.showWebhookPage(http.StatusOK, e, views.DeskProps{})
}

func (v *visit) showWebhookPage(status int, e webhook.Endpoint, page views.DeskProps, more ...templ.Component) error {
	p, path := v.page(v.r), below(deskWebhooksPath, e.ID)
	facts := []views.DeskFact{
		{Label: "Id", DeskCell: views.DeskCell{Text: e.ID, Code: true}}, {Label: "Account", DeskCell: views.DeskCell{Text: e.Account}},
		{Label: "URL", DeskCell: views.DeskCell{Text: e.URL}}, {Label: "Description", DeskCell: views.DeskCell{Text: cmp.Or(e.Description, "–")}},
		{Label: "Types", DeskCell: views.DeskCell{Text: strings.Join(e.Types, ", ")}}, {Label: "Order", DeskCell: views.DeskCell{Text: string(e.Order)}},
		{Label: "Health", DeskCell: healthCell(e)}, {Label: "Delivered up to", DeskCell: v.lagCell(e)},
		{Label: "Created", DeskCell: v.whenCell(e.CreatedAt)}, {Label: "Last attempt", DeskCell: v.whenCell(e.Last.At)},
		{Label: "Parked", DeskCell: views.DeskCell{Text: strconv.Itoa(e.Parked)}}, {Label: "Dead", DeskCell: views.DeskCell{Text: strconv.Itoa(e.Dead)}},
	}
	if e.Last.Error != "" {
		facts = append(facts, views.DeskFact{Label: "Last error", DeskCell: views.DeskCell{Text: e.Last.Error}})
	}
	if e.Head != nil {
		facts = append(facts, views.DeskFact{Label: "Blocked on", DeskCell: views.DeskCell{Text: e.Head.Event, Code: true, Note: "failed attempts: " + strconv.Itoa(e.Head.Attempts)}},
			views.DeskFact{Label: "Next attempt", DeskCell: v.soonCell(e.Head.NextAt)})
	}
	if !e.Gap.IsZero() {
		facts = append(facts, views.DeskFact{Label: "Gap", DeskCell: views.DeskCell{Text: "Events after " + e.Gap.After.String() + " were removed before they could be sent."}})
	}
	deliveries, err := v.deliveryTable(e)
	if err != nil {
		return err
	}
	acts := []views.DeskAct{v.act("test", path+"/test", "Send a test", "")}
	if e.Enabled() {
		acts = append(acts, v.act("disable", path+"/disable", "Disable", ""))
	}
	if e.Head != nil {
		skip := v.act("skip", path+"/skip", "Skip the event that blocks", "")
		skip.Event = e.Head.Event
		acts = append(acts, skip)
	}
	if e.Parked > 0 {
		acts = append(acts, v.act("retry-parked", path+"/retry-parked", "Retry the parked", ""))
	}
	if e.Dead > 0 {
		acts = append(acts, v.act("retry-dead", path+"/retry-dead", "Retry the dead", ""))
	}
	parts := append(more, views.Facts(p, "", facts), views.Acts(p, "Use", acts))
	if !e.Enabled() {
		parts = append(parts, views.Form(p, views.DeskForm{Do: "enable", Action: path + "/enable", Token: v.token(), Heading: "Enable", Second: true, Button: "Enable",
			Fields: []views.DeskField{{As: "box", Name: "now", Label: "Do not send what waits: begin with the next event"}}}))
	}
	parts = append(parts, views.List(p, deliveries),
		views.Form(p, views.DeskForm{Do: "rotate-secret", Action: path + "/rotate-secret", Token: v.token(), Once: v.onceField(), Heading: "New secret", Second: true,
			Text:   "The old secret signs too for 24 hours, so that the receiver can change.",
			Fields: []views.DeskField{{As: "box", Name: "leaked", Label: "The old secret leaked: end it now"}}, Button: "Rotate the secret"}),
		views.Commands("Endpoints are deleted on the machine:", "tollhouse webhook delete "+e.ID))
	page.Name, page.Title = "webhook", target.Origin(e.URL)
	v.show(status, page, parts...)
	return nil
}

func (v *visit) deliveryTable(e webhook.Endpoint) (views.DeskTable, error) {
	after := v.after()
	list, more, err := v.store.Webhooks.Deliveries(v.ctx, v.webhooksBy(), e.ID, webhook.Filter{After: after, Limit: deskDeliveriesMax})
	t := views.DeskTable{Heading: "Latest deliveries", List: "deliveries", Columns: []string{"Event", "State", "Attempts", "Answer", "Last attempt"}, Empty: "Nothing was delivered yet."}
	for _, d := range list {
		answer := cmp.Or(d.Error, "–")
		if d.Status != 0 {
			answer = strconv.Itoa(d.Status)
		}
		t.Rows = append(t.Rows, views.DeskRow{Hook: "delivery", ID: d.Event, State: string(d.State), Cells: []views.DeskCell{
			{Text: d.Type, Href: below("/desk/events", d.Event) + "?account=" + escaped(e.Account), Note: d.Event}, {Text: string(d.State), State: deliveryMarks[d.State]}, {Text: strconv.Itoa(d.Attempts)},
			{Text: answer, Note: d.Body}, v.whenCell(d.LastAt),
		}})
	}
	if more {
		t.Older = below(deskWebhooksPath, e.ID) + "?after=" + escaped(list[len(list)-1].Event)
	}
	return t, err
}

var deliveryMarks = map[webhook.State]string{
	webhook.Delivered: StateOK, webhook.Retrying: StateWarning, webhook.Parked: StateWarning, webhook.Dead: StateProblem, webhook.Skipped: StateWarning,
}

// changeWebhook makes a change of the endpoint in the path, and leads back to its page.
func (v *visit) changeWebhook(done string, change func(id string) error) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	if err := change(e.ID); err != nil {
		return webhookProblem(err)
	}
	return v.finish(done, below(deskWebhooksPath, e.ID))
}

// deskEnableWebhook is POST /desk/webhooks/:id/enable. It skips no events of an endpoint that
// another operator has enabled meanwhile.
func (s *Server) deskEnableWebhook(v *visit) error {
	var from webhook.From
	if v.form.has("now") {
		from = webhook.FromNow().IfDisabled()
	}
	return v.changeWebhook(doneWebhookEnabled, func(id string) error {
		_, _, err := s.store.Webhooks.Enable(v.ctx, v.webhooksBy(), id, from)
		if errors.Is(err, webhook.ErrEnabled) {
			return newProblem(http.StatusConflict, "conflict", "The endpoint is already enabled. No events were skipped.")
		}
		return err
	})
}

// deskDisableWebhook is POST /desk/webhooks/:id/disable.
func (s *Server) deskDisableWebhook(v *visit) error {
	return v.changeWebhook(doneWebhookDisabled, func(id string) error {
		_, err := s.store.Webhooks.Disable(v.ctx, v.webhooksBy(), id)
		return err
	})
}

// deskSkipWebhook is POST /desk/webhooks/:id/skip. It skips the event that the page showed.
func (s *Server) deskSkipWebhook(v *visit) error {
	return v.changeWebhook(doneWebhookSkipped, func(id string) error {
		event := v.form.value("event")
		_, err := s.store.Webhooks.Skip(v.ctx, v.webhooksBy(), id, event)
		if errors.Is(err, webhook.ErrNoHead) && event != "" {
			return newProblem(http.StatusConflict, "conflict", "That event does not block the endpoint any more. Nothing was skipped.")
		}
		return err
	})
}

// deskRetryParked is POST /desk/webhooks/:id/retry-parked.
func (s *Server) deskRetryParked(v *visit) error { return v.retryAll(webhook.Parked) }

// deskRetryDead is POST /desk/webhooks/:id/retry-dead.
func (s *Server) deskRetryDead(v *visit) error { return v.retryAll(webhook.Dead) }

func (v *visit) retryAll(state webhook.State) error {
	return v.changeWebhook(doneWebhookRetried, func(id string) error {
		_, err := v.store.Webhooks.Retry(v.ctx, v.webhooksBy(), id, webhook.Retry{State: state})
		return err
	})
}

// deskTestWebhook is POST /desk/webhooks/:id/test. Its answer says what came of it.
func (s *Server) deskTestWebhook(v *visit) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	result, err := s.sendTest(v.w, v.r, v.webhooksBy(), e)
	if err != nil {
		return webhookProblem(err)
	}
	answer := "no answer"
	if result.Status != nil {
		answer = "an answer of status " + strconv.Itoa(*result.Status)
	}
	page := views.DeskProps{Notice: fmt.Sprintf("The test was delivered: %s in %d ms.", answer, result.MS)}
	if !result.Delivered {
		page = views.DeskProps{Alert: fmt.Sprintf("The test was not delivered: %s in %d ms.", answer, result.MS)}
		if result.Error != nil {
			page.Alert += " The error is " + *result.Error + "."
		}
	}
	return v.showWebhookPage(http.StatusOK, e, page)
}

// deskRotateWebhook is POST /desk/webhooks/:id/rotate-secret. Only its answer shows the
// secret.
func (s *Server) deskRotateWebhook(v *visit) error {
	e, err := v.webhookOf()
	if err != nil {
		return err
	}
	return v.makeOnce(func() (done onceDone, err error) {
		overlap, notice := webhook.OverlapDefault, "The endpoint has a new secret. The old one signs too for 24 hours."
		if v.form.has("leaked") {
			overlap, notice = 0, "The endpoint has a new secret. The old one has ended."
		}
		e, sec, err := s.store.Webhooks.RotateSecret(v.ctx, v.webhooksBy(), e.ID, overlap, secret.Token{})
		if err != nil {
			return done, webhookProblem(err)
		}
		path := below(deskWebhooksPath, e.ID)
		v.show(http.StatusOK, views.DeskProps{Name: "webhook", Title: target.Origin(e.URL), Notice: notice, Links: []views.Link{{Label: "Open the endpoint", Href: path}}},
			views.Secret(views.DeskSecret{Label: "New secret", IDHook: "webhook-id", ID: e.ID, Hook: "secret", Value: sec.Reveal(), Text: "Shown once. Store it now."}))
		return onceDone{"Open the endpoint", path}, nil
	})
}

// deskHoldWebhooks is POST /desk/webhook-hold.
func (s *Server) deskHoldWebhooks(v *visit) error {
	if _, err := s.store.Webhooks.Hold(v.ctx, v.webhooksBy()); err != nil {
		return err
	}
	return v.finish(doneWebhooksHeld, deskWebhooksPath)
}

// deskResumeWebhooks is POST /desk/webhook-resume.
func (s *Server) deskResumeWebhooks(v *visit) error {
	if _, err := s.store.Webhooks.Resume(v.ctx, v.webhooksBy()); err != nil {
		return err
	}
	return v.finish(doneWebhooksResumed, deskWebhooksPath)
}
