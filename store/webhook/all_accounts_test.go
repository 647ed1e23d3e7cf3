package webhook_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// ofAll returns a store with an endpoint of all accounts.
func ofAll(t *testing.T, change ...func(*webhook.Settings)) made {
	t.Helper()
	s := storetest.New(t)
	must.Do(t, s.Events.SetFeed(t.Context(), 24*time.Hour))
	settings := webhook.Settings{URL: hook}
	for _, f := range change {
		f(&settings)
	}
	e, token, err := s.Webhooks.Create(t.Context(), webhook.System, eventlog.AllAccounts, settings)
	must.Do(t, err)
	return made{s, e.ID, token}
}

func (m made) recordFor(t *testing.T, account, typ string) (id string) {
	t.Helper()
	wire := must.Get(m.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: account, Resource: "cus_1", Type: typ, Object: snapshot.ObjectOf()}))(t)
	p := must.Get(positionOf(wire))(t)
	return p.String()
}

// next returns the events that the sender would send.
func (m made) next(t *testing.T) (events []eventlog.Followed) {
	t.Helper()
	e := m.now(t)
	return must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 100))(t).Events
}

// Promise (Platform §6): an operator's endpoint of all accounts has account "*", a feed position as
// its cursor and order none; its changes are audited and cause no event
func TestEndpointOfAllAccounts(t *testing.T) {
	t.Parallel()
	t.Run("needs_the_feed_and_an_operator", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		if _, _, err := s.Webhooks.Create(t.Context(), webhook.System, eventlog.AllAccounts, webhook.Settings{URL: hook}); !errors.Is(err, eventlog.ErrFeedOff) {
			t.Errorf("Create() = %v, want ErrFeedOff", err)
		}
		must.Do(t, s.Events.SetFeed(t.Context(), time.Hour))
		for _, by := range []webhook.By{{Account: account}, {Owner: s.OwnerOf(t, clientOf(t, s))}} {
			var bad *record.InvalidError
			if _, _, err := s.Webhooks.Create(t.Context(), by, eventlog.AllAccounts, webhook.Settings{URL: hook}); !errors.As(err, &bad) {
				t.Errorf("Create() by a token = %v, want an *InvalidError", err)
			}
		}
	})
	t.Run("gets_the_events_of_all_from_now_on", func(t *testing.T) {
		t.Parallel()
		m := ofAll(t, func(s *webhook.Settings) { s.Types = []string{"customer.*"} })
		e := m.now(t)
		if o := e.Object(); o.Account != "*" || o.Order != webhook.None || !strings.HasPrefix(o.Cursor, "fd_") || e.Behind {
			t.Errorf("the endpoint is %+v", o)
		}
		if n := must.Get(m.Events.CountEvents(t.Context()))(t); n != 0 {
			t.Errorf("%d events were recorded about it", n)
		}
		reasons, _ := m.AuditReasons(t, record.Position{}, 10)
		if len(reasons) != 1 || !strings.HasSuffix(reasons[0], ": created") {
			t.Errorf("the audit lines are %v", reasons)
		}
		want := []string{m.recordFor(t, "acct_1", "customer.created"), m.recordFor(t, "acct_2", "customer.created")}
		m.recordFor(t, "acct_2", "plan.created")
		got := m.next(t)
		if len(got) != 2 || got[0].ID != want[0] || got[1].ID != want[1] || !m.now(t).Behind {
			t.Errorf("the next events are %v, want %v", got, want)
		}
		at := got[1].Position
		must.Get(m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: at}))(t)
		if left := m.next(t); len(left) != 0 {
			t.Errorf("after them come %v", left)
		}
		must.Get(m.CheckAll(t.Context()))(t)
		must.Do(t, m.Webhooks.Delete(t.Context(), webhook.System, m.id))
		must.Get(m.CheckAll(t.Context()))(t)
	})
	t.Run("is_moved_to_a_position_of_the_feed", func(t *testing.T) {
		t.Parallel()
		m := ofAll(t)
		first := m.recordFor(t, "acct_1", "customer.created")
		position := eventlog.PositionText("*", m.next(t)[0].Position)
		m.recordFor(t, "acct_2", "customer.created")
		for name, c := range map[string]struct {
			from webhook.From
			want int
		}{"start": {webhook.FromStart(), 2}, "position": {webhook.FromEvent(position), 1}, "now": {webhook.FromNow(), 0}} {
			if _, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, c.from); err != nil || len(m.next(t)) != c.want {
				t.Errorf("from %s: %v, then %d events wait, want %d", name, err, len(m.next(t)), c.want)
			}
		}
		for name, from := range map[string]webhook.From{"event": webhook.FromEvent(first), "time": webhook.FromTime(m.Now().Unix()), "ahead": webhook.FromEvent("fd_fzzzzzzzzzzzz")} {
			var bad *record.InvalidError
			if _, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, from); !errors.As(err, &bad) || bad.Field != "from" {
				t.Errorf("from an %s: %v, want an *InvalidError", name, err)
			}
		}
		order := webhook.Strict
		must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{Order: &order}))(t)
		order = ""
		if e := must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{Order: &order}))(t); e.Order != webhook.None || e.Revision != 6 {
			t.Errorf("with the default order it is %s, revision %d", e.Order, e.Revision)
		}
	})
	t.Run("passes_what_the_feed_no_longer_has", func(t *testing.T) {
		t.Parallel()
		m := ofAll(t)
		m.recordFor(t, "acct_1", "customer.created")
		m.Clock.Advance(25 * time.Hour)
		young := m.recordFor(t, "acct_2", "customer.created")
		must.Get(m.TrimEvents(t.Context()))(t)
		e := m.now(t)
		if _, err := m.Webhooks.Next(t.Context(), &e, e.Cursor, 1); !errors.As(err, new(*eventlog.CursorError)) {
			t.Fatalf("Next() = %v, want a *CursorError", err)
		}
		e = must.Get(m.Webhooks.PassGap(t.Context(), &e))(t)
		from, to, _ := strings.Cut(e.GapText(), "..")
		if left := m.next(t); len(left) != 1 || left[0].ID != young || !strings.HasPrefix(from, "fd_") || to != eventlog.PositionText("*", left[0].Position) {
			t.Errorf("the gap is %s, and after it come %v", e.GapText(), left)
		}
	})
	t.Run("forgets_what_was_purged_or_erased", func(t *testing.T) {
		t.Parallel()
		m := ofAll(t)
		var gone []string
		for _, account := range []string{"acct_1", "acct_2", "acct_3"} {
			gone = append(gone, m.recordFor(t, account, "customer.created"))
		}
		e := m.now(t)
		var dead []webhook.Delivery
		for _, event := range m.next(t) {
			dead = append(dead, webhook.Delivery{Position: event.Position, Event: event.ID, Type: event.Type, State: webhook.Dead})
		}
		must.Get(m.Webhooks.Settle(t.Context(), &e, webhook.Progress{Cursor: dead[2].Position, Done: dead}))(t)
		list, _, err := m.Webhooks.Deliveries(t.Context(), webhook.System, m.id, webhook.Filter{After: gone[2], Limit: 10})
		if err != nil || len(list) != 2 || list[0].Event != gone[1] {
			t.Errorf("Deliveries(after the newest) = %v, %v", list, err)
		}
		must.Get(m.PurgeEvents(t.Context(), store.By{}, eventlog.Purge{Account: "acct_1"}))(t)
		must.Do(t, m.DeleteAccount(t.Context(), "acct_2"))
		if list := deliveries(t, m, webhook.Filter{}); len(list) != 1 || !strings.HasPrefix(list[0], gone[2]) {
			t.Errorf("set aside are %v, want %s", list, gone[2])
		}
		if n, err := m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: gone[2:]}); n != 1 || err != nil {
			t.Errorf("Retry() = %d, %v, want 1", n, err)
		}
		if _, err := m.Webhooks.Retry(t.Context(), webhook.System, m.id, webhook.Retry{Events: gone[:1]}); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("Retry(purged) = %v, want ErrNotFound", err)
		}
		must.Get(m.CheckAll(t.Context()))(t)
	})
}

// Promise (Platform §8, §16): each promise of the platform API is kept on Badger, and by two servers
// on one PostgreSQL that get the requests in turns
func TestPlatformOnEngines(t *testing.T) {
	storetest.Again(t, `Platform §[1-8]`, "badger", "postgres")
}
