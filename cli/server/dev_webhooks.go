package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
)

// seedWebhook is an endpoint in a seed file.
type seedWebhook struct {
	URL         string   `json:"url"`
	Account     string   `json:"account"`
	Types       []string `json:"types"`
	Secret      string   `json:"secret"`
	Order       string   `json:"order"`
	Description string   `json:"description"`
	line        int
}

// create creates the endpoint, and its account if that does not exist. It gets the events
// that are recorded from now on.
func (h seedWebhook) create(ctx context.Context, to *store.Store, rules *target.Rules) (webhook.Endpoint, secret.Token, error) {
	url, err := rules.ParseURL(h.URL)
	var refused *target.Error
	if errors.As(err, &refused) {
		err = &record.InvalidError{Field: "url", Reason: refused.Reason, Hint: refused.Hint}
	}
	if err != nil {
		return webhook.Endpoint{}, secret.Token{}, err
	}
	var own secret.Token
	if h.Secret != "" {
		var ok bool
		if own, ok = secret.ParseWebhookSecret(h.Secret); !ok {
			return webhook.Endpoint{}, own, &record.InvalidError{Field: "secret", Reason: "a webhook secret is whsec_ and the base64 of 24 to 64 bytes", Hint: "leave it out to get a new one"}
		}
	}
	if _, err := to.CreateAccount(ctx, h.Account, ""); err != nil && !errors.Is(err, record.ErrExists) {
		return webhook.Endpoint{}, own, err
	}
	return to.Webhooks.Create(ctx, webhook.System, h.Account, webhook.Settings{
		URL: url, Types: h.Types, Description: h.Description, Order: webhook.Order(h.Order), Secret: own,
	})
}

// createWebhooks creates the endpoints of the file. The first is shown in the ready line.
func (w *seeder) createWebhooks(ctx context.Context) error {
	for i, h := range w.webhooks {
		h.Account = cmp.Or(h.Account, w.demo.Account)
		e, sec, err := h.create(ctx, w.to, w.rules)
		if err != nil {
			return storeError(h.line, "webhook", h.URL, err)
		}
		h.URL, h.Types, h.Order, h.Secret = e.URL, e.Types, string(e.Order), sec.Reveal()
		w.made[h.line] = map[string]any{"webhook": struct {
			ID string `json:"id"`
			seedWebhook
		}{e.ID, h}}
		if i == 0 && !w.byTest {
			w.demo.WebhookEndpoint, w.demo.WebhookSecret = e.ID, sec.Reveal()
		}
	}
	return nil
}

// sendTo creates the endpoint of --webhook-to. The ready line shows it in place of that of
// a seed file.
func (f devFlags) sendTo(ctx context.Context, s *store.Store, rules *target.Rules, shown *handlers.Demo) error {
	if f.webhookTo == "" {
		return nil
	}
	e, sec, err := seedWebhook{URL: f.webhookTo, Account: cmp.Or(shown.Account, demoAccount)}.create(ctx, s, rules)
	var bad *record.InvalidError
	switch {
	case errors.As(err, &bad):
		return term.Usage(bad.Hint, "--webhook-to %s: %s", f.webhookTo, bad.Reason)
	case errors.Is(err, record.ErrExists):
		return term.Usage("leave it out", "--webhook-to %s: the seed file has an endpoint with this URL", f.webhookTo)
	case err != nil:
		return fmt.Errorf("--webhook-to: %w", err)
	}
	shown.WebhookEndpoint, shown.WebhookSecret = e.ID, sec.Reveal()
	return nil
}
