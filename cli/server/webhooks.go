package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/cli/webhooks"
	"tollhouse/handlers/api"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/webhook"
)

const webhookGrace = 5 * time.Second // for webhook requests in flight when the server stops

// newSender makes the sender of webhooks over an open store.
func (r *running) newSender(data *datadir.Opened) *webhooks.Sender {
	c := r.config.webhooks
	s := webhooks.New(webhooks.Options{
		Store: data.Store.Webhooks, Events: webhooks.EventsOf(data.Store.Events), Log: r.log,
		Client: webhooks.NewClient(webhooks.ClientOptions{
			Rules: c.Rules, Timeout: c.Timeout, Proxy: c.Proxy, Roots: c.Roots, Version: r.version,
			ShowAllowed: r.control != nil, // the receivers of dev are its user's own
		}),
		Resume: CompleteCommands("tollhouse webhook resume", r.at), Schedule: c.Schedule, ParkAfter: c.ParkAfter, DisableAfter: c.DisableAfter, Parallel: c.Parallel,
		Shared: r.presence != nil, Observe: r.metrics.webhooks.observe,
		Grace: func() time.Duration {
			if !r.closing.Load() {
				return 0 // another server sends now, or dev was reset
			}
			return cmp.Or(r.drainFor, webhookGrace)
		},
	})
	data.Store.Webhooks.OnChange(s.Changed)
	return s
}

// webhookPause is the pause before a sender that stopped by itself is restarted, so that a
// lasting fault causes no storm of requests.
const webhookPause = time.Second

// sendWebhooks sends from the present instance until ctx is done.
func (r *running) sendWebhooks(ctx context.Context) {
	for ctx.Err() == nil {
		i := r.current.Load()
		present, end := context.WithCancel(ctx)
		unhook := context.AfterFunc(i.present, end)
		r.onlyHere(present, pgkv.JobWebhooks, i.sender.Run)
		_ = term.Sleep(present, webhookPause)
		unhook()
		end()
	}
}

// webhookSender is what the handlers ask of the sender.
type webhookSender struct{ *webhooks.Sender }

// Test implements api.Webhooks.
func (s webhookSender) Test(ctx context.Context, id string) (api.WebhookTest, error) {
	event, a, err := s.Sender.Test(ctx, id)
	if errors.Is(err, webhooks.ErrNoSecret) {
		err = webhook.ErrSecretLost
	}
	if err != nil {
		return api.WebhookTest{}, err
	}
	test := api.WebhookTest{Delivered: a.Outcome == webhooks.Accepted, MS: a.Took.Milliseconds(), WebhookID: event}
	if a.Status != 0 {
		test.Status = &a.Status
	}
	if text := a.Error(); text != "" {
		test.Error = &text
	}
	return test, nil
}
