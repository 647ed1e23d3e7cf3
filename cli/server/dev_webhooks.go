package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
)

// createWebhook creates an endpoint, and its account if that does not exist. It gets the events
// that are recorded from now on.
func createWebhook(ctx context.Context, to *store.Store, rules *target.Rules, h moving.Webhook) (webhook.Endpoint, secret.Token, error) {
	url, err := rules.ParseURL(h.URL)
	var refused *target.Error
	if errors.As(err, &refused) {
		err = &record.InvalidError{Field: "url", Reason: refused.Reason, Hint: refused.Hint}
	}
	if err != nil {
		return webhook.Endpoint{}, secret.Token{}, err
	}
	var own secret.Token
	if revealed(h.Secret) != "" {
		var ok bool
		if own, ok = secret.ParseWebhookSecret(revealed(h.Secret)); !ok {
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

// nearTypes returns notices of types that look misspelled, which --strict-types refuses.
func nearTypes(ctx context.Context, in *store.Store, h moving.Webhook) (notices []string, err error) {
	near, err := in.Events.NearTypes(ctx, h.Account, h.Types)
	for _, n := range near {
		notices = append(notices, n.String())
	}
	if err == nil && in.Events.HasStrictTypes() && len(near) > 0 {
		err = record.Invalid("types", "", "types has %s, which is unknown; did you mean %s?", near[0].Type, near[0].Nearest)
	}
	return notices, err
}

// createWebhooks creates the endpoints of the file. The first is shown in the ready line.
func (w *seeder) createWebhooks(ctx context.Context) error {
	for i, l := range w.webhooks {
		h := *l.of
		h.Account = cmp.Or(h.Account, w.demo.Account)
		if moving.NeedsImport(l.of) {
			if err := w.importLine(ctx, l.line, &h, h.Account); err != nil {
				return err
			}
			continue
		}
		notices, err := nearTypes(ctx, w.to, h)
		if err != nil {
			return storeError(l.line, "webhook", h.URL, err)
		}
		e, sec, err := createWebhook(ctx, w.to, w.rules, h)
		if err != nil {
			return storeError(l.line, "webhook", h.URL, err)
		}
		shown := moving.Secret(sec.Reveal())
		h.ID, h.URL, h.Types, h.Order, h.Secret = e.ID, e.URL, e.Types, string(e.Order), &shown
		w.made[l.line] = map[string]any{"webhook": struct {
			moving.Webhook
			Notices []string `json:"notices,omitempty"`
		}{h, notices}}
		if i == 0 && !w.byTest {
			w.demo.WebhookEndpoint, w.demo.WebhookSecret = e.ID, sec.Reveal()
		}
	}
	return nil
}

// sendTo creates the endpoint of --webhook-to. The ready line shows it instead of that of
// a seed file.
func (f devFlags) sendTo(ctx context.Context, s *store.Store, rules *target.Rules, shown *web.Demo) error {
	if f.webhookTo == "" {
		return nil
	}
	e, sec, err := createWebhook(ctx, s, rules, moving.Webhook{URL: f.webhookTo, Account: cmp.Or(shown.Account, demoAccount)})
	shownURL := term.MaskedURL(f.webhookTo) // a variable may have a password
	var bad *record.InvalidError
	switch {
	case errors.As(err, &bad):
		return term.Usage(bad.Hint, "--webhook-to %s: %s", shownURL, bad.Reason)
	case errors.Is(err, record.ErrExists):
		return term.Usage("leave it out", "--webhook-to %s: the seed file has an endpoint with this URL", shownURL)
	case err != nil:
		return fmt.Errorf("--webhook-to: %w", err)
	}
	shown.WebhookEndpoint, shown.WebhookSecret = e.ID, sec.Reveal()
	return nil
}
