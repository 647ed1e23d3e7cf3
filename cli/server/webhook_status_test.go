package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/handlers"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// TestWebhookFindings takes endpoints through what doctor warns of. The worst is shown.
func TestWebhookFindings(t *testing.T) {
	t.Parallel()
	now := time.Unix(1773070200, 0)
	data := must.Get(datadir.Open(t.Context(), datadir.Options{Log: slog.New(slog.DiscardHandler), Key: secret.NewKey(nil), Now: func() time.Time { return now }}))(t)
	t.Cleanup(func() { _ = data.Close() })
	ctx, w := t.Context(), data.Store.Webhooks
	want := func(state, detail, next string) {
		t.Helper()
		f := checkup{data: data}.webhooks(ctx)
		if f.State != state || !strings.HasPrefix(f.Detail, detail) || !strings.HasPrefix(f.Next, next) {
			t.Errorf("finding = %+v, want %s, %s, next %s", f, state, detail, next)
		}
	}
	create := func(url string) *webhook.Endpoint {
		t.Helper()
		e, _, err := w.Create(ctx, webhook.System, "acct_a", webhook.Settings{URL: url, From: webhook.FromStart()})
		must.Do(t, err)
		return &e
	}
	settle := func(e *webhook.Endpoint, p webhook.Progress) {
		t.Helper()
		*e = must.Get(w.Settle(ctx, e, p))(t)
	}
	must.Get(data.Store.CreateAccount(ctx, "acct_a", ""))(t)
	want(handlers.StateOK, "none", "")
	first := create("https://a.example/")
	want(handlers.StateOK, "1 endpoint", "")
	second := create("https://b.example/") // of whose creation the first is told
	must.Do(t, w.Start(ctx))
	now = now.Add(time.Hour)
	if c := must.Get(countWebhooks(ctx, data.Store, &waitingEvents{}))(t); c.OldestUndelivered != 3600 || c.Endpoints != 2 {
		t.Errorf("counts = %+v, want an event that waits for an hour", c)
	}
	dead := must.Get(w.Next(ctx, first, first.Cursor, 2))(t).Events[0]
	settle(first, webhook.Progress{Done: []webhook.Delivery{{Position: dead.Position, Event: dead.ID, Type: dead.Type, State: webhook.Dead}}})
	want(handlers.StateWarning, "1 event is tried no more: 2 endpoints; 0 events parked, 1 dead", "tollhouse webhook list")
	settle(second, webhook.Progress{Trouble: webhook.Trouble{Since: now, Attempts: 1}})
	now = now.Add(failingLong - time.Second)
	want(handlers.StateWarning, "1 event is tried no more", "")
	now = now.Add(time.Second)
	want(handlers.StateWarning, "1 endpoint has failed for a day or longer: 2 endpoints, 1 failing", "tollhouse webhook list --state failing")
	settle(second, webhook.Progress{Disable: webhook.SecretLost})
	want(handlers.StateWarning, "1 endpoint is disabled because the server key was replaced", "put secret.key back")
	must.Get(w.Hold(ctx, webhook.System))(t)
	want(handlers.StateWarning, "held since 2026-", "tollhouse webhook resume")
	must.Get(w.Resume(ctx, webhook.System))(t)
	must.Get(webhook.HoldRestored(ctx, data.DB, now))(t)
	want(handlers.StateWarning, "held since a restore at 2026-", "if this is the real server and not a copy")
}
