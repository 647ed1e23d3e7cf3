package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// settle stores a Progress for the endpoint as it is.
func settle(t *testing.T, m made, p webhook.Progress) {
	t.Helper()
	e := m.now(t)
	must.Get(m.Webhooks.Settle(t.Context(), &e, p))(t)
}

// park sets an event aside and moves the cursor to it.
func park(t *testing.T, m made, p record.Position) {
	t.Helper()
	settle(t, m, webhook.Progress{Cursor: p, Done: []webhook.Delivery{outcome(p, webhook.Parked)}})
}

func outcome(p record.Position, s webhook.State) webhook.Delivery {
	return webhook.Delivery{Position: p, Event: p.String(), Type: "customer.created", State: s, Attempts: 1, Status: 200, LastAt: p.Time()}
}

// deliveries returns the deliveries as "event state" lines, newest first.
func deliveries(t *testing.T, m made, f webhook.Filter) (list []string) {
	t.Helper()
	f.Limit = 2000
	found, _, err := m.Webhooks.Deliveries(t.Context(), webhook.System, m.id, f)
	must.Do(t, err)
	for _, d := range found {
		list = append(list, d.Event+" "+string(d.State))
	}
	return list
}

// Promise (Webhooks): deliveries are listed; skip, retry, disable and enable lose nothing
func TestSkip(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	if _, err := m.Webhooks.Skip(t.Context(), webhook.System, m.id, ""); !errors.Is(err, webhook.ErrNoHead) {
		t.Errorf("without a failing event: %v", err)
	}
	first, second := event(t, m.Fixture, "customer.created"), event(t, m.Fixture, "customer.updated")
	head := outcome(first, webhook.Retrying)
	settle(t, m, webhook.Progress{Head: &head, Trouble: webhook.Trouble{Since: m.Now(), Attempts: 1}, Last: webhook.Attempt{At: m.Now(), Status: 500, Error: "response"}})
	e := m.now(t)
	if o := e.Object().Status; o.Health != webhook.HealthFailing || *o.BlockedOn != first.String() || *o.LastStatus != 500 {
		t.Errorf("the status of a failing endpoint is %+v", o)
	}
	if _, err := m.Webhooks.Skip(t.Context(), webhook.System, m.id, second.String()); !errors.Is(err, webhook.ErrNoHead) || m.now(t).Head == nil {
		t.Errorf("an event that does not block the endpoint: %v, head %v; want that nothing is skipped", err, m.now(t).Head)
	}
	now := must.Get(m.Webhooks.Skip(t.Context(), webhook.System, m.id, first.String()))(t)
	if now.Cursor != first || now.Head != nil || now.Dead != 1 {
		t.Errorf("after Skip the cursor is %s, the head %v, and %d are dead", now.Cursor, now.Head, now.Dead)
	}
	if next := must.Get(m.Webhooks.Next(t.Context(), &now, now.Cursor, 1))(t).Events; len(next) != 1 || next[0].Position != second {
		t.Errorf("the next event is %v, want the one behind", next)
	}
	if got := deliveries(t, m, webhook.Filter{}); !slices.Equal(got, []string{first.String() + " skipped"}) {
		t.Errorf("the deliveries are %v", got)
	}
	wantAudited(t, m, "skipped "+first.String())
	if _, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: second}); !errors.Is(err, record.ErrConflict) {
		t.Errorf("what the sender began before it was skipped is settled: %v", err)
	}
}

// wantAudited checks the last line of the audit log.
func wantAudited(t *testing.T, m made, what string) {
	t.Helper()
	lines := must.Get(m.ListAudit(t.Context(), record.Position{}, 100))(t)
	want := "webhook endpoint " + m.id + " at hooks.example.com:8443: " + what
	if last := lines[len(lines)-1]; last.Reason != want || last.AccountID != account {
		t.Errorf("the audit log ends with %q of %s, want %q", last.Reason, last.AccountID, want)
	}
}

// Promise (Webhooks): deliveries are listed; skip, retry, disable and enable lose nothing
func TestEnable(t *testing.T) {
	t.Parallel()

	t.Run("counts_what_waits_up_to_10000", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t, func(s *webhook.Settings) { s.Types = []string{"plan.*"} })
		lines := make([]string, 10_001)
		for i := range lines {
			lines[i] = fmt.Sprintf(`{"type":"plan.created","resource":"p","createdAt":%d,"eventData":{"object":{}}}`, 1_773_000_000+i)
		}
		storetest.ImportLines(t, m.Store, account, lines[1:]...)
		waiting := func() webhook.Waiting {
			_, waiting, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromStart())
			must.Do(t, err)
			return waiting
		}
		if w := waiting(); w.Events != 10_000 || w.More || *w.Oldest != 1_773_000_001 {
			t.Errorf("%+v wait, want 10,000 and no more", w)
		}
		storetest.ImportLines(t, m.Store, account, lines[0])
		if w := waiting(); w.Events != 10_000 || !w.More || *w.Oldest != 1_773_000_000 {
			t.Errorf("%+v wait, want 10,000 and more", w)
		}
	})

	t.Run("goes_on_at_the_cursor_and_says_what_waits", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t, func(s *webhook.Settings) { s.Types = []string{"customer.*"} })
		before := m.now(t)
		must.Get(m.Webhooks.Disable(t.Context(), webhook.System, m.id))(t)
		first := event(t, m.Fixture, "customer.created")
		event(t, m.Fixture, "invoice.created")
		event(t, m.Fixture, "customer.updated")
		e, waiting, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.From{})
		must.Do(t, err)
		if e.Cursor != before.Cursor || waiting.Events != 2 || waiting.More || *waiting.Oldest != first.Millis()/1000 {
			t.Errorf("the cursor went from %s to %s, and %+v wait", before.Cursor, e.Cursor, waiting)
		}
	})

	t.Run("from_now_leaves_nothing_waiting", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		event(t, m.Fixture, "customer.created")
		e, waiting, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromNow())
		must.Do(t, err)
		if waiting.Events != 0 || waiting.Oldest != nil || e.Revision != 2 {
			t.Errorf("an enabled endpoint has revision %d, and %+v wait", e.Revision, waiting)
		}
	})

	t.Run("from_an_event_forgets_what_was_set_aside_behind_it", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		var all []record.Position
		for range 3 {
			p := event(t, m.Fixture, "customer.created")
			park(t, m, p)
			all = append(all, p)
		}
		e, waiting, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromEvent(all[0].String()))
		must.Do(t, err)
		if e.Cursor != all[0] || e.Parked != 1 || waiting.Events < 2 {
			t.Errorf("the cursor is %s, %d are parked, and %+v wait", e.Cursor, e.Parked, waiting)
		}
		must.Get(m.CheckAll(t.Context()))(t)
	})

	t.Run("tries_the_failing_event_at_once", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		head := outcome(event(t, m.Fixture, "customer.created"), webhook.Retrying)
		head.Refused, head.Blocked, head.NextAt = 3, time.Hour, m.Now().Add(time.Hour)
		settle(t, m, webhook.Progress{Head: &head, Disable: webhook.Failing})
		e, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.From{})
		must.Do(t, err)
		if e.Head == nil || e.Head.Refused != 0 || e.Head.Blocked != 0 || !e.Head.NextAt.IsZero() {
			t.Errorf("the head is %+v, want one that is due and has not failed since", e.Head)
		}
	})

	t.Run("behind_a_gap_counts_what_is_left", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		must.Get(m.Webhooks.Disable(t.Context(), webhook.System, m.id))(t)
		event(t, m.Fixture, "customer.created")
		oldest := trim(t, m)
		_, waiting, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.From{})
		must.Do(t, err)
		if waiting.Events != 2 || *waiting.Oldest != oldest.Millis()/1000 { // and that of enabling
			t.Errorf("%+v wait", waiting)
		}
	})

	t.Run("from_removed_events_names_the_oldest", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		old := event(t, m.Fixture, "customer.created")
		oldest := trim(t, m)
		_, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromEvent(old.Before().String()))
		if gone, ok := errors.AsType[*eventlog.CursorError](err); !ok || gone.Oldest != oldest || gone.Param != "from" {
			t.Errorf("enabled from a removed event: %v", err)
		}
		_, _, err = m.Webhooks.Create(t.Context(), webhook.System, account, webhook.Settings{URL: hook + "2", From: webhook.FromTime(old.Millis() / 1000)})
		if _, ok := errors.AsType[*eventlog.CursorError](err); !ok {
			t.Errorf("created from a removed event: %v", err)
		}
		e, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromStart())
		must.Do(t, err)
		if next := must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 1))(t).Events; len(next) != 1 || next[0].Position != oldest {
			t.Errorf("from the start it is sent %v, want the oldest", next)
		}
	})
}

// trim has retention remove all events so far, and returns the oldest one left.
func trim(t *testing.T, m made) record.Position {
	t.Helper()
	must.Do(t, m.Events.SetRetention(t.Context(), 24*time.Hour))
	m.Clock.Advance(25 * time.Hour)
	oldest := event(t, m.Fixture, "customer.updated")
	must.Get(m.TrimEvents(t.Context()))(t)
	return oldest
}

func TestDisable(t *testing.T) {
	t.Parallel()

	t.Run("keeps_what_was_accepted_before", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		p := event(t, m.Fixture, "customer.created")
		e := m.now(t)
		must.Get(m.Webhooks.Disable(t.Context(), webhook.By{Owner: m.OwnerOf(t, clientOf(t, m.Fixture))}, m.id))(t)
		progress := webhook.Progress{Cursor: p, Done: []webhook.Delivery{outcome(p, webhook.Delivered)}, Trouble: webhook.Trouble{Attempts: 3}, Disable: webhook.Failing}
		if _, err := m.Webhooks.Settle(t.Context(), &e, progress); !errors.Is(err, record.ErrConflict) {
			t.Errorf("Settle: %v, want a conflict, since it is disabled now", err)
		}
		now := m.now(t)
		if now.Cursor != p || now.Trouble.Attempts != 0 || len(deliveries(t, m, webhook.Filter{})) != 1 {
			t.Errorf("it became %+v, want the cursor behind what was accepted", now)
		}
		if now.Disabled.By != webhook.ByAPI || now.Disabled.Reason != webhook.Asked {
			t.Errorf("it is disabled by %s, %s, want as it was asked for", now.Disabled.By, now.Disabled.Reason)
		}
	})

	t.Run("a_cursor_that_was_moved_stays_there", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		p := event(t, m.Fixture, "customer.created")
		e := m.now(t)
		moved, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromStart())
		must.Do(t, err)
		if _, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: p, Done: []webhook.Delivery{outcome(p, webhook.Delivered)}}); !errors.Is(err, record.ErrConflict) {
			t.Errorf("Settle: %v, want a conflict", err)
		}
		if now := m.now(t); now.Cursor != moved.Cursor || len(deliveries(t, m, webhook.Filter{})) > 0 {
			t.Errorf("the cursor went from %s to %s", moved.Cursor, now.Cursor)
		}
	})

	t.Run("by_the_receiver_is_one_write_with_its_event", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		settle(t, m, webhook.Progress{Disable: webhook.Gone, Last: webhook.Attempt{At: m.Now(), Status: 410, Error: "response"}})
		if d := m.now(t).Disabled; d.By != webhook.ByReceiver || d.Reason != webhook.Gone {
			t.Errorf("it is disabled by %s, %s", d.By, d.Reason)
		}
		wantAudited(t, m, "disabled by receiver (gone)")
		if n := m.Webhooks.Counts().Disabled[webhook.ByReceiver]; n != 1 {
			t.Errorf("%d are counted", n)
		}
		last := eventsAbout(t, m.Fixture)[1]
		if object := fmt.Sprint(last.EventData.Object["disabled"]); last.Type != "webhook_endpoint.disabled" || !strings.Contains(object, "receiver") {
			t.Errorf("the event is %+v", last)
		}
	})
}

func TestSettle(t *testing.T) {
	t.Parallel()

	t.Run("lists_one_line_an_event_and_1000_delivered", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		at := m.Now().UnixMilli()
		place := func(i int) record.Position { return record.NewPosition(at+int64(i), 0, [8]byte{}) }
		for batch := range 11 {
			var done []webhook.Delivery
			for i := range 100 {
				done = append(done, outcome(place(100*batch+i), webhook.Delivered))
			}
			settle(t, m, webhook.Progress{Done: done, Cursor: done[99].Position})
		}
		again := outcome(place(1050), webhook.Delivered)
		again.LastAt = again.LastAt.Add(time.Hour)
		again.Attempts = 7
		settle(t, m, webhook.Progress{Done: []webhook.Delivery{again}})
		list, more, err := m.Webhooks.Deliveries(t.Context(), webhook.System, m.id, webhook.Filter{Limit: 2000})
		must.Do(t, err)
		if len(list) != 998+1 || more || list[0].Position != place(1099) || list[998].Position != place(101) || list[49].Attempts != 7 {
			t.Errorf("%d deliveries are listed, from %s to %s", len(list), list[0].Event, list[len(list)-1].Event)
		}
		page, more, err := m.Webhooks.Deliveries(t.Context(), webhook.System, m.id, webhook.Filter{Limit: 2, After: place(1099).String()})
		must.Do(t, err)
		if len(page) != 2 || !more || page[0].Position != place(1098) {
			t.Errorf("a page behind the newest has %v, more %v", page, more)
		}
		settle(t, m, webhook.Progress{Done: []webhook.Delivery{outcome(place(1098), webhook.Parked)}})
		e := m.now(t)
		recent := must.Get(m.Webhooks.Recent(t.Context(), &e, 3))(t)
		if len(recent) != 3 || recent[0].Position != place(1050) || recent[1].State != webhook.Parked || recent[2].Position != place(1099) {
			t.Errorf("the newest three are %v, want the one sent again, the parked one and the last", recent)
		}
		must.Get(m.CheckAll(t.Context()))(t)
	})

	t.Run("of_a_sender_that_was_replaced_counts_for_nothing", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		p := event(t, m.Fixture, "customer.created")
		must.Do(t, m.Webhooks.Start(t.Context()))
		other := m.Reopened(t)
		e := m.now(t)
		must.Do(t, other.Webhooks.Start(t.Context()))
		if _, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: p}); !errors.Is(err, record.ErrConflict) {
			t.Errorf("the first sender settles: %v", err)
		}
		must.Get(other.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: p}))(t)
	})

	t.Run("passes_no_event_that_matches_types_given_since", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t, func(s *webhook.Settings) { s.Types = []string{"customer.*"} })
		first := event(t, m.Fixture, "customer.created")
		between := event(t, m.Fixture, "plan.created")
		third := event(t, m.Fixture, "customer.updated")
		e := m.now(t)
		must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{Types: []string{"customer.*", "plan.*"}}))(t)
		_, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{
			Cursor: third, Done: []webhook.Delivery{outcome(first, webhook.Delivered), outcome(third, webhook.Delivered)}, Disable: webhook.Gone,
		})
		if !errors.Is(err, record.ErrConflict) {
			t.Errorf("Settle: %v, want a conflict, since the types are others now", err)
		}
		now := m.now(t)
		if now.Cursor != first || !now.Enabled() {
			t.Errorf("the cursor is %s, enabled %v, want %s before %s, and enabled", now.Cursor, now.Enabled(), first, between)
		}
		e = now
		must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{Types: []string{"plan.*"}}))(t)
		if _, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: third, Done: []webhook.Delivery{outcome(between, webhook.Parked), outcome(third, webhook.Delivered)}}); !errors.Is(err, record.ErrConflict) {
			t.Errorf("Settle: %v, want a conflict", err)
		}
		if now := m.now(t); now.Cursor != third {
			t.Errorf("the cursor is %s, want %s, since nothing before matches that is not settled", now.Cursor, third)
		}
	})

	t.Run("of_another_URL_disables_nothing", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		e, url := m.now(t), "https://hooks.example.com/other"
		must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{URL: &url}))(t)
		_, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Disable: webhook.Gone})
		if now := m.now(t); !errors.Is(err, record.ErrConflict) || !now.Enabled() {
			t.Errorf("Settle: %v, enabled %v, want a conflict and nothing disabled", err, now.Enabled())
		}
	})

	t.Run("sets_aside_at_most_10000", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		at := m.Now().UnixMilli()
		for batch := range webhook.SetMax / 200 {
			var done []webhook.Delivery
			for i := range 200 {
				done = append(done, outcome(record.NewPosition(at+int64(200*batch+i), 0, [8]byte{}), webhook.Parked))
			}
			settle(t, m, webhook.Progress{Done: done})
		}
		e := m.now(t)
		one := outcome(record.NewPosition(at+webhook.SetMax, 0, [8]byte{}), webhook.Parked)
		if _, err := m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Done: []webhook.Delivery{one}}); !errors.Is(err, webhook.ErrFull) || e.Health() != webhook.HealthFailing {
			t.Errorf("one more is set aside: %v, and the health is %s", err, e.Health())
		}
		more := event(t, m.Fixture, "customer.created")
		settle(t, m, webhook.Progress{Cursor: more})
		if n, err := m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: []string{more.String()}}); n != 0 || !errors.Is(err, webhook.ErrFull) {
			t.Errorf("a retry queues %d: %v", n, err)
		}
		e = m.now(t)
		first := outcome(record.NewPosition(at, 0, [8]byte{}), webhook.Dead)
		if e := must.Get(m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Done: []webhook.Delivery{first}}))(t); e.Parked != webhook.SetMax-1 || e.Dead != 1 {
			t.Errorf("one of them died: %d parked, %d dead", e.Parked, e.Dead)
		}
	})

	t.Run("of_an_accepted_event_takes_it_out_of_the_set", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		p := event(t, m.Fixture, "customer.created")
		park(t, m, p)
		settle(t, m, webhook.Progress{Done: []webhook.Delivery{outcome(p, webhook.Delivered)}})
		if e := m.now(t); e.Parked != 0 || !slices.Equal(deliveries(t, m, webhook.Filter{}), []string{p.String() + " delivered"}) {
			t.Errorf("%d are parked, the deliveries are %v", e.Parked, deliveries(t, m, webhook.Filter{}))
		}
	})
}

func TestDeliveriesAreFiltered(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	var all []string
	for _, state := range []webhook.State{webhook.Delivered, webhook.Parked, webhook.Dead, webhook.Delivered} {
		p := event(t, m.Fixture, "customer.created")
		settle(t, m, webhook.Progress{Cursor: p, Done: []webhook.Delivery{outcome(p, state)}})
		all = append(all, p.String()+" "+string(state))
	}
	blocking := event(t, m.Fixture, "customer.created")
	head := outcome(blocking, webhook.Retrying)
	settle(t, m, webhook.Progress{Head: &head})
	event := strings.Fields(all[1])[0]
	for name, tt := range map[string]struct {
		filter webhook.Filter
		want   []string
	}{
		"all":       {webhook.Filter{}, []string{blocking.String() + " retrying", all[3], all[2], all[1], all[0]}},
		"a_state":   {webhook.Filter{State: webhook.Delivered}, []string{all[3], all[0]}},
		"retrying":  {webhook.Filter{State: webhook.Retrying}, []string{blocking.String() + " retrying"}},
		"an_event":  {webhook.Filter{Event: event}, []string{all[1]}},
		"older":     {webhook.Filter{After: event}, []string{all[0]}},
		"no_result": {webhook.Filter{Event: event, State: webhook.Dead}, nil},
	} {
		if got := deliveries(t, m, tt.filter); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the deliveries are %v, want %v", name, got, tt.want)
		}
	}
	for field, f := range map[string]webhook.Filter{"state": {State: "lost"}, "after": {After: "nope"}} {
		_, _, err := m.Webhooks.Deliveries(t.Context(), webhook.System, m.id, f)
		if invalid, ok := errors.AsType[*record.InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	var all []record.Position
	for i, state := range []webhook.State{webhook.Parked, webhook.Parked, webhook.Dead, webhook.Parked} {
		p := event(t, m.Fixture, "customer.created")
		x := outcome(p, state)
		x.NextAt = m.Now().Add(time.Duration(i-1) * time.Minute)
		settle(t, m, webhook.Progress{Cursor: p, Done: []webhook.Delivery{x}})
		all = append(all, p)
	}
	e := m.now(t)
	due, next, err := m.Webhooks.Due(t.Context(), &e, m.Now(), 10)
	must.Do(t, err)
	if len(due) != 2 || due[0].Position != all[0] || due[1].Position != all[1] || !next.Equal(m.Now().Add(2*time.Minute)) {
		t.Errorf("due are %v, the next is at %v", due, next)
	}
	early := m.Now().Add(-28 * time.Hour)
	if due, next, err := m.Webhooks.Due(t.Context(), &e, early, 10); err != nil || len(due) > 0 || !next.Equal(m.Now().Add(-time.Minute)) {
		t.Errorf("28 hours before, due are %v, the next is at %v (%v)", due, next, err)
	}
	early = m.Now().Add(-30 * time.Hour)
	if due, next, err := m.Webhooks.Due(t.Context(), &e, early, 2); err != nil || len(due) != 2 || !next.Equal(early) {
		t.Errorf("when the clock stepped back, due are %v, the next is at %v (%v)", due, next, err)
	}
}

// readsAtOnce notes the most keys of one read outside a write.
type readsAtOnce struct {
	kv.DB
	most *int
}

func (d readsAtOnce) View(ctx context.Context, fn func(kv.Reader) error) error {
	return d.DB.View(ctx, func(r kv.Reader) error { return fn(readerAtOnce{r, d.most}) })
}

type readerAtOnce struct {
	kv.Reader
	most *int
}

func (r readerAtOnce) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	*r.most = max(*r.most, len(keys))
	return r.Reader.GetMany(keys)
}

func TestRetryByIDReadsFewEventsAtOnce(t *testing.T) {
	t.Parallel()
	m, most := makeEndpoint(t), 0
	var ids []string
	for range 250 {
		ids = append(ids, event(t, m.Fixture, "customer.created").String())
	}
	_, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.FromNow())
	must.Do(t, err)
	s := storetest.Open(t, readsAtOnce{m.DB, &most}, m.Clock)
	if queued := must.Get(s.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: ids}))(t); queued != 250 || most != 100 {
		t.Errorf("%d are queued, and %d events were read at once", queued, most)
	}
	if e := m.now(t); e.Parked != 250 {
		t.Errorf("%d are set aside", e.Parked)
	}
}

// Promise (Webhooks): deliveries are listed; skip, retry, disable and enable lose nothing
func TestRetry(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T) (made, []record.Position) {
		m := makeEndpoint(t, func(s *webhook.Settings) { s.Types = []string{"customer.*"} })
		var all []record.Position
		for _, state := range []webhook.State{webhook.Parked, webhook.Dead, webhook.Delivered} {
			p := event(t, m.Fixture, "customer.created")
			settle(t, m, webhook.Progress{Cursor: p, Done: []webhook.Delivery{outcome(p, state)}})
			all = append(all, p)
		}
		invoice := event(t, m.Fixture, "invoice.created")
		settle(t, m, webhook.Progress{Cursor: invoice})
		return m, append(all, invoice)
	}
	for name, tt := range map[string]struct {
		what func(all []record.Position) webhook.Retry
		want []int // which of the events are due
	}{
		"parked_events": {func([]record.Position) webhook.Retry { return webhook.Retry{State: webhook.Parked} }, []int{0}},
		"dead_events":   {func([]record.Position) webhook.Retry { return webhook.Retry{State: webhook.Dead} }, []int{1}},
		"events_by_id": {func(all []record.Position) webhook.Retry {
			return webhook.Retry{Events: []string{all[2].String(), all[1].String(), all[1].String()}}
		}, []int{1, 2}},
		"a_stretch": {func(all []record.Position) webhook.Retry {
			return webhook.Retry{From: webhook.FromEvent(all[1].String()), To: webhook.FromEvent(all[2].String())}
		}, []int{1, 2}},
		"a_stretch_in_time": {func(all []record.Position) webhook.Retry {
			return webhook.Retry{From: webhook.FromTime(all[0].Millis() / 1000), To: webhook.FromTime(all[0].Millis() / 1000)}
		}, []int{0, 1, 2}},
		"a_stretch_of_types": {func(all []record.Position) webhook.Retry {
			return webhook.Retry{From: webhook.FromStart(), Types: []string{"invoice.*"}}
		}, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, all := prepare(t)
			queued := must.Get(m.Webhooks.Retry(t.Context(), webhook.System, m.id, tt.what(all)))(t)
			var want, got []record.Position
			for _, i := range tt.want {
				want = append(want, all[i])
			}
			e := m.now(t)
			due, _, err := m.Webhooks.Due(t.Context(), &e, m.Now(), 10)
			must.Do(t, err)
			for _, x := range due {
				if x.State == webhook.Retrying {
					got = append(got, x.Position)
				}
			}
			if queued != len(want) || !slices.Equal(got, want) {
				t.Errorf("%d are queued, due are %v, want %v", queued, got, want)
			}
			must.Get(m.CheckAll(t.Context()))(t)
		})
	}

	t.Run("is_audited", func(t *testing.T) {
		t.Parallel()
		m, _ := prepare(t)
		must.Get(m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{From: webhook.FromStart()}))(t)
		wantAudited(t, m, "3 events retried")
	})

	t.Run("sends_imported_history_which_is_not_sent_by_itself", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		const line = `{"id":"in_old","resource":"cus_1","type":"customer.created","createdAt":1773070000,"eventData":{"object":{}}}`
		storetest.ImportLines(t, m.Store, account, line)
		e := m.now(t)
		if next := must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 10))(t).Events; len(next) > 0 || e.Behind {
			t.Errorf("imported history is sent: %v", next)
		}
		what := webhook.Retry{From: webhook.FromTime(1773070000), To: webhook.FromTime(1773070000)}
		queued := must.Get(m.Webhooks.Retry(t.Context(), webhook.System, m.id, what))(t)
		due, _, err := m.Webhooks.Due(t.Context(), &e, m.Now(), 10)
		if must.Do(t, err); queued != 1 || len(due) != 1 || due[0].Event != "in_old" {
			t.Errorf("%d are queued, due are %+v", queued, due)
		}
	})

	t.Run("of_an_unknown_event_queues_nothing", func(t *testing.T) {
		t.Parallel()
		m, all := prepare(t)
		for _, id := range []string{"nope", "evt_00000000000000000000000000"} {
			if _, err := m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: []string{all[2].String(), id}}); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if e := m.now(t); e.Parked != 1 {
			t.Errorf("%d are parked", e.Parked)
		}
	})

	t.Run("of_what_is_not_in_the_log_is_refused", func(t *testing.T) {
		t.Parallel()
		m, _ := prepare(t)
		for field, what := range map[string]webhook.Retry{
			"state": {State: webhook.Delivered},
			"types": {From: webhook.FromStart(), Types: []string{"customer"}},
			"from":  {From: webhook.FromEvent("nope")},
			"to":    {From: webhook.FromStart(), To: webhook.FromEvent("nope")},
		} {
			_, err := m.Webhooks.Retry(t.Context(), webhook.System, m.id, what)
			if invalid, ok := errors.AsType[*record.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("%+v: %v, want that %s is invalid", what, err, field)
			}
		}
		_, err := m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: make([]string, webhook.RetriedMax+1)})
		if !errors.Is(err, webhook.ErrTooMany) {
			t.Errorf("too many events: %v", err)
		}
	})

	t.Run("sets_nothing_aside_that_is_still_to_be_sent", func(t *testing.T) {
		t.Parallel()
		m, all := prepare(t)
		waiting := event(t, m.Fixture, "customer.created")
		must.Get(m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: []string{all[2].String(), waiting.String()}}))(t)
		if e := m.now(t); e.Parked != 2 {
			t.Errorf("%d are parked, want the first and the delivered one", e.Parked)
		}
	})

	t.Run("of_the_failing_event_makes_it_due", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		p := event(t, m.Fixture, "customer.created")
		head := outcome(p, webhook.Retrying)
		head.NextAt = m.Now().Add(time.Hour)
		settle(t, m, webhook.Progress{Head: &head})
		must.Get(m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: []string{p.String()}}))(t)
		if e := m.now(t); e.Parked != 0 || !e.Head.NextAt.Equal(m.Now()) {
			t.Errorf("%d are parked, and the head is due at %v", e.Parked, e.Head.NextAt)
		}
	})
}

// Promise (Webhooks): secrets are shown once, sealed, and overlap
func TestSecrets(t *testing.T) {
	t.Parallel()

	t.Run("are_stored_sealed", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		body := strings.TrimPrefix(m.token.Reveal(), "whsec_")
		must.Do(t, m.DB.View(t.Context(), func(r kv.Reader) error {
			for k, v := range r.Scan(kv.Range{}) {
				if bytes.Contains(v, []byte(body)) {
					t.Errorf("the record %q has the text of a secret", k)
				}
			}
			return nil
		}))
		e := m.now(t)
		if tokens, ok := m.Webhooks.Open(&e); !ok || len(tokens) != 1 || !tokens[0].Equal(m.token) {
			t.Errorf("Open = %d secrets, %v", len(tokens), ok)
		}
	})

	t.Run("of_the_caller_are_taken", func(t *testing.T) {
		t.Parallel()
		own := secret.NewWebhookSecret(nil)
		if m := makeEndpoint(t, func(s *webhook.Settings) { s.Secret = own }); !m.token.Equal(own) {
			t.Error("another secret was made")
		}
	})

	t.Run("go_on_for_the_overlap_and_at_most_three_at_once", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		rotate := func(overlap time.Duration) (secret.Token, error) {
			_, token, err := m.Webhooks.RotateSecret(t.Context(), webhook.System, m.id, overlap, secret.Token{})
			return token, err
		}
		live := func() int {
			e := m.now(t)
			tokens, _ := m.Webhooks.Open(&e)
			return len(tokens)
		}
		second := must.Get(rotate(time.Hour))(t)
		must.Get(rotate(2 * time.Hour))(t)
		_, err := rotate(time.Hour)
		if full, ok := errors.AsType[*webhook.SecretsError](err); !ok || !full.Ends.Equal(m.Now().Add(time.Hour)) {
			t.Errorf("a fourth secret: %v", err)
		}
		m.Clock.Advance(time.Hour)
		if n := live(); n != 2 {
			t.Errorf("after the first overlap %d are live", n)
		}
		e := m.now(t)
		if tokens, _ := m.Webhooks.Open(&e); !tokens[1].Equal(second) || len(e.Secrets) != 2 || e.Secrets[1].ExpiresAt.IsZero() {
			t.Errorf("they are %+v", e.Secrets)
		}
		last := must.Get(rotate(0))(t)
		e = m.now(t)
		if tokens, _ := m.Webhooks.Open(&e); len(tokens) != 1 || !tokens[0].Equal(last) {
			t.Errorf("an overlap of 0 leaves %d", len(tokens))
		}
		if _, err := rotate(7*24*time.Hour + 1); err == nil {
			t.Error("an overlap of more than 7 days is taken")
		}
		must.Get(rotate(7 * 24 * time.Hour))(t)
	})

	t.Run("sealed_with_another_key_disable_the_endpoint_until_one_is_rotated", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		other := storetest.Open(t, m.DB, m.Clock, func(o *store.Options) { o.Key = secret.NewKey(nil) })
		must.Do(t, other.Webhooks.Start(t.Context()))
		e := must.Get(other.Webhooks.Find(t.Context(), webhook.System, m.id))(t)
		if e.Disabled.By != webhook.BySystem || e.Disabled.Reason != webhook.SecretLost {
			t.Fatalf("it is disabled by %q, %q", e.Disabled.By, e.Disabled.Reason)
		}
		if _, _, err := other.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.From{}); !errors.Is(err, webhook.ErrSecretLost) {
			t.Errorf("it is enabled without a secret: %v", err)
		}
		_, _, err := other.Webhooks.RotateSecret(t.Context(), webhook.System, m.id, time.Hour, secret.Token{})
		must.Do(t, err)
		e, _, err = other.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.From{})
		if err != nil || !e.Enabled() || len(e.Secrets) != 1 {
			t.Errorf("after a rotation it is enabled: %v, with %d secrets", err, len(e.Secrets))
		}
	})
}

// leftBehind returns an endpoint of a client with more endpoints than one transaction
// disables, after the process that disabled the client was killed behind its first commit.
func leftBehind(t *testing.T, prepare func(s *storetest.Fixture)) made {
	t.Helper()
	s := storetest.New(t)
	client := clientOf(t, s)
	c := must.Get(s.FindClient(t.Context(), client))(t)
	for i := range webhook.AccountMax + 1 {
		user := s.User(t, fmt.Sprint("user", i), fmt.Sprint("acct_", i))
		issued := must.Get(s.IssueForPassword(t.Context(), store.By{}, c, user, store.ScopeUnstated))(t)
		by := webhook.By{Account: user.Account, Owner: must.Get(s.FindPrincipal(t.Context(), issued.AccessToken))(t).WebhookOwner()}
		_, _, err := s.Webhooks.Create(t.Context(), by, user.Account, webhook.Settings{URL: hook})
		must.Do(t, err)
	}
	prepare(s)
	s.Rest()
	s.CutAt(1, false)
	if _, err := s.DisableClient(t.Context(), client); err == nil {
		t.Fatal("the client was disabled by one transaction")
	}
	s.Faults.Repair()
	list := must.Get(s.Webhooks.List(t.Context(), webhook.System, "", "", 100))(t)
	list = slices.DeleteFunc(list, func(e webhook.Endpoint) bool { return !e.Enabled() })
	if len(list) != 1 {
		t.Fatalf("%d endpoints are left, want 1", len(list))
	}
	return made{s, list[0].ID, secret.Token{}}
}

// Promise (Webhooks): no request to an endpoint begins after its authorization ended, on any server
func TestStartDisablesWhatAKilledCommandLeft(t *testing.T) {
	t.Parallel()
	m := leftBehind(t, func(*storetest.Fixture) {})
	must.Do(t, m.Webhooks.Start(t.Context()))
	if d := m.now(t).Disabled; d.Reason != webhook.AuthorizationEnded {
		t.Errorf("after a start it is disabled for %q", d.Reason)
	}
}

func TestStartRemovesWhatAKilledDeletionLeft(t *testing.T) {
	t.Parallel()
	b := makeBusy(t)
	settle(t, made{b.Fixture, b.unordered, secret.Token{}}, webhook.Progress{
		Done: []webhook.Delivery{outcome(b.events[0], webhook.Delivered), outcome(b.events[1], webhook.Parked)},
	})
	before := countKeys(t, b.Fixture)
	b.CutAt(1, false) // the endpoint is removed, and then the process ends
	_ = b.Webhooks.Delete(t.Context(), webhook.System, b.id)
	b.Faults.Repair()
	if n := countKeys(t, b.Fixture); n != before-2 {
		t.Fatalf("the deletion removed %d records, want the endpoint's 2", before-n)
	}
	must.Do(t, b.Webhooks.Start(t.Context()))
	if n := countKeys(t, b.Fixture); n != 2*2+2 {
		t.Errorf("%d records are left, want those of two endpoints, a delivery and an event set aside", n)
	}
	must.Get(b.CheckAll(t.Context()))(t)
}

// TestARunningSenderDisablesWhatAKilledCommandLeft: on a database the sender does not start
// again when a command or another server is killed.
//
// Promise (Webhooks): no request to an endpoint begins after its authorization ended, on any server
func TestARunningSenderDisablesWhatAKilledCommandLeft(t *testing.T) {
	t.Parallel()
	t.Run("when_it_loads_the_endpoint", func(t *testing.T) {
		t.Parallel()
		m := leftBehind(t, func(s *storetest.Fixture) { must.Do(t, s.Webhooks.Start(t.Context())) })
		if e := must.Get(m.Webhooks.Load(t.Context(), m.id))(t); e.Enabled() || e.Disabled.By != webhook.BySystem || e.Disabled.Reason != webhook.AuthorizationEnded {
			t.Errorf("it is disabled by %q (%q)", e.Disabled.By, e.Disabled.Reason)
		}
	})

	t.Run("when_it_settles_what_was_accepted", func(t *testing.T) {
		t.Parallel()
		all := map[string]webhook.Endpoint{}
		m := leftBehind(t, func(s *storetest.Fixture) {
			must.Do(t, s.Webhooks.Start(t.Context()))
			must.Do(t, s.Webhooks.Each(t.Context(), func(e webhook.Endpoint) error { all[e.ID] = e; return nil }))
		})
		was := all[m.id]
		p := must.Get(positionOf(must.Get(m.Events.RecordEvent(t.Context(), eventlog.NewEvent{
			Owner: was.Account, Type: "customer.created", Resource: "cus_1", Source: "test", Location: "system", Object: snapshot.ObjectOf(),
		}))(t)))(t)
		e := must.Get(m.Webhooks.Settle(t.Context(), &was, webhook.Progress{Cursor: p, Done: []webhook.Delivery{outcome(p, webhook.Delivered)}}))(t)
		if e.Disabled.Reason != webhook.AuthorizationEnded || e.Cursor != p {
			t.Errorf("it is disabled for %q with the cursor %s", e.Disabled.Reason, e.Cursor)
		}
	})
}

func TestHeadThatBlocksNoMoreIsDropped(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T, change webhook.Change) (m made, was webhook.Endpoint, failed webhook.Progress) {
		m = makeEndpoint(t)
		head := outcome(event(t, m.Fixture, "customer.created"), webhook.Retrying)
		was = m.now(t)
		must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, change))(t) // while it is tried
		return m, was, webhook.Progress{Head: &head, Trouble: webhook.Trouble{Since: m.Now(), Attempts: 1}, Last: webhook.Attempt{At: m.Now(), Status: 500, Error: "response"}}
	}

	t.Run("without_order", func(t *testing.T) {
		t.Parallel()
		order := webhook.None
		m, was, failed := prepare(t, webhook.Change{Order: &order})
		must.Get(m.Webhooks.Settle(t.Context(), &was, failed))(t)
		if e := m.now(t); e.Head != nil || e.Cursor != was.Cursor || e.Trouble.Attempts != 1 {
			t.Errorf("the head is %v, the cursor went from %s to %s, %d attempts failed", e.Head, was.Cursor, e.Cursor, e.Trouble.Attempts)
		}
	})

	t.Run("behind_the_cursor", func(t *testing.T) {
		t.Parallel()
		m, was, failed := prepare(t, webhook.Change{})
		must.Get(m.Webhooks.Settle(t.Context(), &was, failed))(t)
		must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{Types: []string{"invoice.*"}}))(t)
		e := m.now(t)
		failed.Cursor = must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 10))(t).Passed
		must.Get(m.Webhooks.Settle(t.Context(), &e, failed))(t)
		if e := m.now(t); e.Head != nil || e.Trouble != (webhook.Trouble{}) || e.Health() != webhook.OK {
			t.Errorf("the head is %v, the trouble %+v, the health %s", e.Head, e.Trouble, e.Health())
		}
	})
}

// Promise (Webhooks): gaps, purges, holds and restores
func TestGap(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	event(t, m.Fixture, "customer.created")
	e := m.now(t)
	after := e.Cursor
	oldest := trim(t, m)
	_, err := m.Webhooks.Next(t.Context(), &e, e.Cursor, 10)
	if _, ok := errors.AsType[*eventlog.CursorError](err); !ok {
		t.Fatalf("Next behind removed events: %v", err)
	}
	for range 2 {
		e = must.Get(m.Webhooks.PassGap(t.Context(), &e))(t)
	}
	if e.GapText() != after.String()+".."+oldest.String() || !e.Gap.Pending {
		t.Errorf("the gap is %s, pending %v", e.GapText(), e.Gap.Pending)
	}
	if next := must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 1))(t).Events; len(next) != 1 || next[0].Position != oldest {
		t.Errorf("behind it follows %v, want the oldest event", next)
	}
	events := eventsAbout(t, m.Fixture)
	if got := typesOf(events); !slices.Equal(got, []string{"gap"}) {
		t.Fatalf("the events are %v", got)
	}
	wantAudited(t, m, "gap")
	if gap := fmt.Sprint(events[0].EventData.Object["gap"]); !strings.Contains(gap, after.String()) || !strings.Contains(gap, oldest.String()) {
		t.Errorf("its event says %s", gap)
	}
	settle(t, m, webhook.Progress{Done: []webhook.Delivery{outcome(after, webhook.Delivered)}}) // retried by hand
	settle(t, m, webhook.Progress{Cursor: oldest, Done: []webhook.Delivery{outcome(oldest, webhook.Parked)}})
	if !m.now(t).Gap.Pending {
		t.Error("the gap is not pending, though nothing behind it was accepted")
	}
	oldest = trim(t, m)
	e = m.now(t)
	e = must.Get(m.Webhooks.PassGap(t.Context(), &e))(t)
	if e.GapText() != after.String()+".."+oldest.String() || !e.Gap.Pending || e.Revision != 2 {
		t.Errorf("the gap grew to %s, pending %v, at revision %d", e.GapText(), e.Gap.Pending, e.Revision)
	}
	if n := m.Webhooks.Counts().Gaps; n != 1 {
		t.Errorf("%d gaps are counted", n)
	}
	settle(t, m, webhook.Progress{Cursor: oldest, Done: []webhook.Delivery{outcome(oldest, webhook.Delivered)}})
	now := m.now(t)
	if now.Gap.Pending || now.Object().Status.Gap == nil {
		t.Errorf("after a delivery the gap is pending: %v, shown: %v", now.Gap.Pending, now.Object().Status.Gap)
	}
}

func TestGapOfAChangedEndpointIsLeft(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	event(t, m.Fixture, "customer.created")
	was := m.now(t)
	trim(t, m)
	must.Get(m.Webhooks.Disable(t.Context(), webhook.System, m.id))(t)
	if _, err := m.Webhooks.PassGap(t.Context(), &was); !errors.Is(err, record.ErrConflict) || m.now(t).Cursor != was.Cursor {
		t.Errorf("the gap of an endpoint that was disabled since: %v, want a conflict", err)
	}
}

func TestPurgeKeepsWhatItDoesNotRemove(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	other, _, err := m.Webhooks.Create(t.Context(), webhook.System, "acct_2", webhook.Settings{URL: hook})
	must.Do(t, err)
	kept := must.Get(positionOf(must.Get(m.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: account, Resource: "cus_2", Type: "customer.created", Object: snapshot.ObjectOf()}))(t)))(t)
	theirs := must.Get(positionOf(must.Get(m.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: "acct_2", Resource: "cus_1", Type: "customer.created", Object: snapshot.ObjectOf()}))(t)))(t)
	removed := event(t, m.Fixture, "customer.created")
	settle(t, m, webhook.Progress{Done: []webhook.Delivery{outcome(kept, webhook.Parked), outcome(removed, webhook.Parked)}})
	settle(t, made{m.Fixture, other.ID, m.token}, webhook.Progress{Done: []webhook.Delivery{outcome(theirs, webhook.Parked)}})
	must.Get(m.PurgeEvents(t.Context(), store.By{}, eventlog.Purge{Account: account, Kind: "customer", Resource: "cus_1"}))(t)
	for id, want := range map[string]record.Position{m.id: kept, other.ID: theirs} {
		if got := deliveries(t, made{m.Fixture, id, m.token}, webhook.Filter{}); !slices.Equal(got, []string{want.String() + " parked"}) {
			t.Errorf("of %s stays %v, want %s", id, got, want)
		}
	}
	must.Get(m.CheckAll(t.Context()))(t)
}

// Promise (Webhooks): gaps, purges, holds and restores
func TestPurgedEventsVanish(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	first := event(t, m.Fixture, "customer.created")
	park(t, m, first)
	dead := event(t, m.Fixture, "customer.created")
	settle(t, m, webhook.Progress{Cursor: dead, Done: []webhook.Delivery{outcome(dead, webhook.Dead)}})
	second := event(t, m.Fixture, "customer.updated")
	head := outcome(second, webhook.Retrying)
	settle(t, m, webhook.Progress{Head: &head})
	event(t, m.Fixture, "customer.deleted")
	must.Get(m.PurgeEvents(t.Context(), store.By{}, eventlog.Purge{Account: account, Kind: "customer", Resource: "cus_1"}))(t)
	e := m.now(t)
	if e.Parked+e.Dead != 0 || e.Head != nil || !e.Gap.IsZero() {
		t.Errorf("%d are parked, %d dead, the head is %v, the gap %v", e.Parked, e.Dead, e.Head, e.Gap)
	}
	if next := must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 10))(t).Events; len(next) != 0 {
		t.Errorf("purged events are sent: %v", next)
	}
	must.Get(m.CheckAll(t.Context()))(t)
}

func TestRetentionReadsNothingOfWhatStaysSetAside(t *testing.T) {
	t.Parallel()
	counted := func(kept int) int {
		m := makeEndpoint(t)
		old := event(t, m.Fixture, "customer.created")
		park(t, m, old)
		trim(t, m)
		for range kept {
			park(t, m, event(t, m.Fixture, "customer.updated"))
		}
		head := outcome(event(t, m.Fixture, "customer.updated"), webhook.Retrying)
		settle(t, m, webhook.Progress{Head: &head})
		engine := &storetest.KeysRead{DB: m.DB}
		s := storetest.Open(t, engine, m.Clock)
		engine.N = 0
		must.Do(t, s.Webhooks.SweepRemoved(t.Context()))
		if e := m.now(t); e.Parked != kept || e.Head == nil {
			t.Errorf("%d of %d are set aside, the head is %v", e.Parked, kept, e.Head)
		}
		return engine.N
	}
	if few, many := counted(1), counted(50); many != few {
		t.Errorf("with 1 event set aside it reads %d keys, with 50 it reads %d", few, many)
	}
}

func TestRetentionDropsWhatItRemovedAndIsSetAside(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	park(t, m, event(t, m.Fixture, "customer.created"))
	head := outcome(event(t, m.Fixture, "customer.updated"), webhook.Retrying)
	settle(t, m, webhook.Progress{Head: &head})
	trim(t, m)
	if e := m.now(t); e.Parked != 0 || e.Head != nil {
		t.Errorf("%d removed events are set aside, the head is %v", e.Parked, e.Head)
	}
	must.Get(m.CheckAll(t.Context()))(t)
}

func TestAnErasedAccountHasNoEndpoint(t *testing.T) {
	t.Parallel()
	m := makeEndpoint(t)
	park(t, m, event(t, m.Fixture, "customer.created"))
	settle(t, m, webhook.Progress{Done: []webhook.Delivery{outcome(event(t, m.Fixture, "customer.updated"), webhook.Delivered)}})
	var changed []string
	m.Webhooks.OnChange(func(id string) { changed = append(changed, id) })
	must.Do(t, m.DeleteAccount(t.Context(), account))
	if n := countKeys(t, m.Fixture); n != 0 || !slices.Equal(changed, []string{m.id}) {
		t.Errorf("%d records are left, and the sender heard of %v", n, changed)
	}
	if in := must.Get(m.Webhooks.Instance(t.Context()))(t); in.Endpoints != 0 {
		t.Errorf("%d endpoints are counted", in.Endpoints)
	}
	must.Get(m.CheckAll(t.Context()))(t)
}

// cutFromSecond fails every update of do but the first.
func cutFromSecond(t *testing.T, m made, do func() error) {
	t.Helper()
	m.Rest()
	updates := 0
	m.Faults.OnUpdate(func(run func() error) error {
		if updates++; updates > 1 {
			return record.ErrUnavailable
		}
		return run()
	})
	defer m.Faults.Repair()
	if err := do(); !errors.Is(err, record.ErrUnavailable) {
		t.Fatalf("cut behind its first commit it returns %v", err)
	}
}

// An account takes no event while it is being erased, also after a deletion that stopped
// behind its first commit. Its endpoints end all the same.
func TestAnAccountWhoseDeletionStoppedStopsNoSender(t *testing.T) {
	t.Parallel()
	stopped := func(t *testing.T) (m made, client string, was webhook.Endpoint) {
		s := storetest.New(t)
		c, _ := s.Client(t)
		client = c.ID
		// A user or a client of the account would keep it from being erased.
		m = addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, client, s.User(t, "mara", "acct_2"))})
		event(t, s, "customer.created")
		must.Do(t, s.Webhooks.Start(t.Context()))
		was = must.Get(s.Webhooks.Load(t.Context(), m.id))(t)
		trim(t, m)
		s.Rest()
		cutFromSecond(t, m, func() error { return s.DeleteAccount(t.Context(), account) })
		return m, client, was
	}

	t.Run("that_starts", func(t *testing.T) {
		t.Parallel()
		m, client, _ := stopped(t)
		must.Get(m.DisableClient(t.Context(), client))(t)
		if err := m.Webhooks.Start(t.Context()); err != nil || m.isEnabled(t) {
			t.Errorf("Start = %v, enabled %v, want the endpoint of a disabled client disabled", err, m.isEnabled(t))
		}
	})

	t.Run("whose_receiver_is_gone", func(t *testing.T) {
		t.Parallel()
		m, _, was := stopped(t)
		e, err := m.Webhooks.Settle(t.Context(), &was, webhook.Progress{Disable: webhook.Gone})
		if err != nil || e.Disabled.Reason != webhook.Gone {
			t.Errorf("Settle = %v, disabled for %q", err, e.Disabled.Reason)
		}
		wantAudited(t, m, "disabled by receiver (gone)")
	})

	t.Run("that_passes_a_gap", func(t *testing.T) {
		t.Parallel()
		m, _, was := stopped(t)
		e, err := m.Webhooks.PassGap(t.Context(), &was)
		if err != nil || !e.Gap.Pending || e.Cursor == was.Cursor {
			t.Errorf("PassGap = %v, the gap %+v", err, e.Gap)
		}
		must.Do(t, m.DeleteAccount(t.Context(), account))
		must.Get(m.CheckAll(t.Context()))(t)
	})
}

// restore returns a new engine with a backup of the store.
func restore(t *testing.T, s *storetest.Fixture) kv.DB {
	t.Helper()
	var file bytes.Buffer
	must.Get(s.Backup(t.Context(), &file, store.BackupNotes{}))(t)
	b := must.Get(store.OpenBackup(&file))(t)
	defer b.Close()
	db := storetest.EmptyInMemory()
	must.Get(b.Load(t.Context(), db, s.Now()))(t)
	return db
}

// Promise (Webhooks): gaps, purges, holds and restores
func TestHold(t *testing.T) {
	t.Parallel()

	t.Run("is_kept_until_resumed", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		for range 2 {
			in := must.Get(m.Webhooks.Hold(t.Context(), webhook.System))(t)
			if !in.Held || in.Reason != webhook.HeldAsked || !in.Since.Equal(m.Now()) {
				t.Errorf("Hold = %+v", in)
			}
		}
		second, _, err := m.Webhooks.Create(t.Context(), webhook.System, account, webhook.Settings{URL: hook + "2", From: webhook.FromStart()})
		must.Do(t, err)
		if second.Health() != webhook.HealthHeld || !second.Behind {
			t.Errorf("an endpoint made meanwhile has the health %s, behind %v", second.Health(), second.Behind)
		}
		again := m.Reopened(t)
		if e := must.Get(again.Webhooks.Find(t.Context(), webhook.System, m.id))(t); e.Health() != webhook.HealthHeld {
			t.Errorf("after a restart the health is %s", e.Health())
		}
		in := must.Get(again.Webhooks.Resume(t.Context(), webhook.System))(t)
		if e := m.now(t); in.Held || e.Health() != webhook.Idle {
			t.Errorf("after Resume it is held: %v, and the health is %s", in.Held, e.Health())
		}
		reasons, _ := m.AuditReasons(t, record.Position{}, 10)
		if !slices.Equal(slices.Delete(reasons, 2, 3)[1:], []string{"webhooks held", "webhooks resumed"}) {
			t.Errorf("the audit log has %v", reasons)
		}
	})

	t.Run("begins_when_a_store_with_endpoints_is_restored", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		p := event(t, m.Fixture, "customer.created")
		park(t, m, p)
		settle(t, m, webhook.Progress{Done: []webhook.Delivery{outcome(event(t, m.Fixture, "customer.updated"), webhook.Delivered)}})
		db := restore(t, m.Fixture)
		if !must.Get(webhook.HoldUnasked(t.Context(), db, webhook.HeldRestored, m.Now()))(t) {
			t.Error("it is not held")
		}
		copied := storetest.Open(t, db, m.Clock, func(o *store.Options) { o.Key = m.Key })
		in := must.Get(copied.Webhooks.Instance(t.Context()))(t)
		e := must.Get(copied.Webhooks.Find(t.Context(), webhook.System, m.id))(t)
		if !in.Held || in.Reason != webhook.HeldRestored || e.Health() != webhook.HealthHeld || e.Parked != 1 {
			t.Errorf("the copy is %+v, its endpoint %+v", in, e)
		}
		was := m.now(t)
		if tokens, ok := copied.Webhooks.Open(&e); !ok || !tokens[0].Equal(m.token) || e.Cursor != was.Cursor {
			t.Error("the copy has another secret or cursor")
		}
		if got, want := len(deliveries(t, made{copied, m.id, m.token}, webhook.Filter{})), 2; got != want {
			t.Errorf("the copy lists %d deliveries, want %d", got, want)
		}
	})

	t.Run("is_not_for_a_store_without_endpoints", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		event(t, s, "customer.created")
		if must.Get(webhook.HoldUnasked(t.Context(), restore(t, s), webhook.HeldRestored, s.Now()))(t) {
			t.Error("it is held")
		}
	})
}

func TestDeliveryObject(t *testing.T) {
	t.Parallel()
	p, _ := record.ParsePosition("evt_01kk9kgbjj00023m5qehe9m3gk")
	d := webhook.Delivery{
		Position: p, Event: p.String(), Type: "customer.created", State: webhook.Parked, Attempts: 3, Status: 500, Error: "response", Body: "oops",
		Took: 12 * time.Millisecond, LastAt: time.Unix(1773070200, 0), NextAt: time.Unix(1773070300, 0),
	}
	const want = `{"event":"evt_01kk9kgbjj00023m5qehe9m3gk","type":"customer.created","state":"parked","attempts":3,"lastStatus":500,"lastError":"response",` +
		`"lastBody":"oops","ms":12,"lastAttemptAt":1773070200,"nextAttemptAt":1773070300}`
	if got := string(must.Get(json.Marshal(d.Object()))(t)); got != want {
		t.Errorf("the object is\n%s\nwant\n%s", got, want)
	}
}
