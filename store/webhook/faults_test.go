package webhook_test

import (
	"context"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// busy is a store with three endpoints. The first has an event that blocks it, and others
// set aside; the second sends without order to a client's own URL; the third is disabled.
type busy struct {
	made
	events            []record.Position // of the account, oldest first
	client            string
	unordered, asleep string
}

func makeBusy(t *testing.T) busy {
	t.Helper()
	s := storetest.NewKeeping(t)
	b := busy{client: clientOf(t, s)}
	b.made = addEndpoint(t, s, webhook.System)
	b.unordered = addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, b.client)}, func(c *webhook.Settings) { c.URL, c.Order = hook+"2", webhook.None }).id
	b.asleep = addEndpoint(t, s, webhook.System, func(c *webhook.Settings) { c.URL = hook + "3" }).id
	for range 6 {
		b.events = append(b.events, event(t, s, "customer.created"))
		s.Clock.Advance(time.Minute)
	}
	parked, head := outcome(b.events[1], webhook.Parked), outcome(b.events[3], webhook.Retrying)
	parked.NextAt = b.Now()
	settle(t, b.made, webhook.Progress{
		Cursor: b.events[2], Head: &head, Trouble: webhook.Trouble{Since: b.Now(), Attempts: 1},
		Done: []webhook.Delivery{outcome(b.events[0], webhook.Delivered), parked, outcome(b.events[2], webhook.Dead)},
	})
	must.Get(s.Webhooks.Disable(t.Context(), webhook.System, b.asleep))(t)
	return b
}

// calls are the methods of Webhooks, over a busy store.
func (b busy) calls(t *testing.T) []storetest.Call {
	t.Helper()
	type (
		ctxt = context.Context
		st   = *store.Store
	)
	by := webhook.By{Account: account, Owner: b.OwnerOf(t, b.client)}
	e, now := b.now(t), b.Now()
	asleep := must.Get(b.Webhooks.Find(t.Context(), webhook.System, b.asleep))(t)
	newURL, text := hook+"9", "new"
	retry := func(what webhook.Retry) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) { return s.Webhooks.Retry(ctx, webhook.System, b.id, what) }
	}
	enable := func(id string, from webhook.From) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) {
			e, waiting, err := s.Webhooks.Enable(ctx, webhook.System, id, from)
			return []any{e, waiting}, err
		}
	}
	return []storetest.Call{
		{Name: "Find", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Find(ctx, by, b.id) }},
		{Name: "Load", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Load(ctx, b.id) }},
		{Name: "List", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.List(ctx, by, account, b.id, 5) }},
		{Name: "List_of_all", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.List(ctx, webhook.System, "", "", 5) }},
		{Name: "Instance", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Instance(ctx) }},
		{Name: "Hold", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Hold(ctx, webhook.System) }},
		{Name: "Deliveries", Run: func(ctx ctxt, s st) (any, error) {
			list, _, err := s.Webhooks.Deliveries(ctx, by, b.id, webhook.Filter{After: b.events[4].String(), Limit: 5})
			return list, err
		}},
		{Name: "Recent", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Recent(ctx, &e, 5) }},
		{Name: "Waiting", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Waiting(ctx, &e, 3) }},
		{Name: "Next", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Next(ctx, &e, e.Cursor, 5) }},
		{Name: "Due", Run: func(ctx ctxt, s st) (any, error) {
			due, _, err := s.Webhooks.Due(ctx, &e, now, 5)
			return due, err
		}},
		{Name: "Create", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			made, token, err := s.Webhooks.Create(ctx, by, account, webhook.Settings{URL: newURL, From: webhook.FromStart()})
			return []any{made.ID, made.Behind, token.Reveal()}, err
		}},
		{Name: "Update", Run: func(ctx ctxt, s st) (any, error) {
			return s.Webhooks.Update(ctx, by, b.id, webhook.Change{URL: &newURL, Description: &text})
		}},
		{Name: "RotateSecret", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			e, token, err := s.Webhooks.RotateSecret(ctx, by, b.id, 0, b.token)
			return []any{e.Revision, len(e.Secrets), e.Behind, token.Reveal()}, err
		}},
		{Name: "Delete", InSteps: true, Leaves: true, Run: func(ctx ctxt, s st) (any, error) { return nil, record.GoneIsNil(s.Webhooks.Delete(ctx, by, b.id)) }},
		{Name: "Enable", InSteps: true, Run: enable(b.asleep, webhook.From{})},
		{Name: "Enable_from_an_event", InSteps: true, Leaves: true, Run: enable(b.id, webhook.FromEvent(b.events[0].String()))},
		{Name: "Disable", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Disable(ctx, by, b.id) }},
		{Name: "Skip", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.Skip(ctx, by, b.id, "") }},
		{Name: "Tested", Run: func(ctx ctxt, s st) (any, error) { return nil, s.Webhooks.Tested(ctx, by, b.id) }},
		{Name: "TestAccepted", Run: func(ctx ctxt, s st) (any, error) { return nil, s.Webhooks.TestAccepted(ctx, &e) }},
		{Name: "Retry_events", Run: retry(webhook.Retry{Events: []string{b.events[0].String(), b.events[1].String()}})},
		{Name: "Retry_a_state", Run: retry(webhook.Retry{State: webhook.Dead})},
		{Name: "Retry_a_stretch", Run: retry(webhook.Retry{From: webhook.FromEvent(b.events[0].String()), To: webhook.FromEvent(b.events[3].String())})},
		{Name: "Start", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.Webhooks.Start(ctx) }},
		{Name: "Settle", Run: func(ctx ctxt, s st) (any, error) {
			return s.Webhooks.Settle(ctx, &e, webhook.Progress{
				Cursor: b.events[4], Gone: []record.Position{b.events[2]}, Disable: webhook.Gone,
				Done: []webhook.Delivery{outcome(b.events[1], webhook.Delivered), outcome(b.events[3], webhook.Parked)},
			})
		}},
		{Name: "PassGap", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.PassGap(ctx, &e) }},
		{Name: "PassGap_of_a_disabled_endpoint", Run: func(ctx ctxt, s st) (any, error) { return s.Webhooks.PassGap(ctx, &asleep) }},
		{Name: "DisableClient", Run: func(ctx ctxt, s st) (any, error) { return s.DisableClient(ctx, b.client) }},
		{Name: "EndAccount", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.Webhooks.EndAccount(ctx, account, always) }},
		{Name: "SweepPurged", InSteps: true, Leaves: true, Run: func(ctx ctxt, s st) (any, error) {
			return s.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: account, Kind: "customer", Resource: "cus_1"})
		}},
		{Name: "SweepRemoved", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.Webhooks.SweepRemoved(ctx) }},
	}
}

// always is the check of an account that no other deletion erases.
func always(kv.Reader) error { return nil }

// Whatever fails below a call, its caller learns of it, no change is half made, and the
// same call succeeds once the engine works again.
func TestEngineFaults(t *testing.T) {
	t.Parallel()
	b := makeBusy(t)
	b.EachFault(t, b.calls(t))
}

// No call serves a damaged record, or writes on its base.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	b := makeBusy(t)
	b.EachDamage(t, b.calls(t))
}

// A call whose caller has gone says so and changes nothing.
func TestCallersThatHaveGone(t *testing.T) {
	t.Parallel()
	b := makeBusy(t)
	b.EachCancelled(t, b.calls(t))
}
