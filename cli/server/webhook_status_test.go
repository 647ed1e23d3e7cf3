package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
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
	want(admin.StateOK, "none", "")
	first := create("https://a.example/")
	want(admin.StateOK, "1 endpoint", "")
	second := create("https://b.example/") // of whose creation the first is told
	must.Do(t, w.Start(ctx))
	now = now.Add(time.Hour)
	if c := must.Get(countWebhooks(ctx, data.Store, &waitingEvents{}))(t); c.OldestUndelivered != 3600 || c.Endpoints != 2 {
		t.Errorf("counts = %+v, want an event that waits for an hour", c)
	}
	dead := must.Get(w.Next(ctx, first, first.Cursor, 2))(t).Events[0]
	settle(first, webhook.Progress{Done: []webhook.Delivery{{Position: dead.Position, Event: dead.ID, Type: dead.Type, State: webhook.Dead}}})
	want(admin.StateWarning, "1 event is no longer retried: 2 endpoints; 0 events parked, 1 dead", "tollhouse webhook list")
	settle(second, webhook.Progress{Trouble: webhook.Trouble{Since: now, Attempts: 1}})
	now = now.Add(failingLong - time.Second)
	want(admin.StateWarning, "2 endpoints, 1 failing; 0 events parked, 1 dead", "tollhouse webhook list --state failing")
	now = now.Add(time.Second)
	want(admin.StateWarning, "1 endpoint has failed for a day or longer: 2 endpoints, 1 failing", "tollhouse webhook list --state failing")
	settle(second, webhook.Progress{Disable: webhook.SecretLost})
	want(admin.StateWarning, "1 endpoint is disabled because the server key was replaced", "put secret.key back")
	must.Get(w.Hold(ctx, webhook.System))(t)
	want(admin.StateWarning, "held since 2026-", "tollhouse webhook resume")
	must.Get(w.Resume(ctx, webhook.System))(t)
	must.Get(webhook.HoldUnasked(ctx, data.DB, webhook.HeldRestored, now))(t)
	want(admin.StateWarning, "held since a restore at 2026-", "if this is the real server and not a copy")
}

// TestAScrapeDoesNotReadTheBacklogOfAnEndpointAgain has an endpoint wait for an event behind
// many that do not match, while nothing is sent.
func TestAScrapeDoesNotReadTheBacklogOfAnEndpointAgain(t *testing.T) {
	t.Parallel()
	engine := &storetest.KeysRead{DB: storetest.EmptyInMemory()}
	s := storetest.Open(t, engine, storetest.NewClock())
	event := func(n int, typ string) {
		t.Helper()
		for range n {
			must.Get(s.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: "acct_a", Resource: "cus_1", Type: typ, Object: snapshot.ObjectOf()}))(t)
		}
	}
	e, _, err := s.Webhooks.Create(t.Context(), webhook.System, "acct_a", webhook.Settings{URL: "https://a.example/", Types: []string{"invoice.paid"}})
	must.Do(t, err)
	waits := &waitingEvents{}
	count := func() (age int64, reads int) {
		t.Helper()
		before := engine.N
		c := must.Get(countWebhooks(t.Context(), s.Store, waits))(t)
		return c.OldestUndelivered, engine.N - before
	}
	_, idle := count()
	event(500, "customer.updated")
	if _, first := count(); first < 500 {
		t.Errorf("the first count reads %d keys, want the whole backlog", first)
	}
	const few = 10 // of the instance, the endpoint, its log and one event
	if age, again := count(); age != 0 || again > idle+few {
		t.Errorf("the next count reads %d keys and finds an event that waits for %d s; without a backlog it reads %d", again, age, idle)
	}
	event(1, "invoice.paid")
	event(500, "customer.updated")
	s.Clock.Advance(time.Hour)
	count()
	if age, again := count(); age != 3600 || again > idle+few {
		t.Errorf("behind an event that waits a count reads %d keys, and the event waits for %d s; want 3600", again, age)
	}
	must.Get(s.PurgeEvents(t.Context(), store.By{}, eventlog.Purge{Account: "acct_a", Kind: "invoice", Resource: "cus_1"}))(t)
	if age, _ := count(); age != 0 {
		t.Errorf("a purged event waits for %d s", age)
	}
	event(1, "customer.created")
	_, _, err = s.Webhooks.Enable(t.Context(), webhook.System, e.ID, webhook.FromNow())
	must.Do(t, err)
	must.Get(s.Webhooks.Update(t.Context(), webhook.System, e.ID, webhook.Change{Types: []string{"webhook_endpoint.updated"}}))(t)
	s.Clock.Advance(time.Minute)
	if age, _ := count(); age != 60 {
		t.Errorf("after a change of types an event waits for %d s, want 60", age)
	}
}
