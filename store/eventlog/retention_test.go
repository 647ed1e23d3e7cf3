package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// keptEvent is an event in the model of retention.
type keptEvent struct {
	position       record.Position
	id             string
	typ            string
	wire           string
	kind, resource string
}

// keptLog is the model of one account under retention and purges: all its current
// events in order, and everything it ever had.
type keptLog struct {
	f       *storetest.Fixture
	account string
	kept    time.Duration
	events  []keptEvent
	ids     map[string]bool               // every id that was ever recorded
	states  map[[2]string]record.Position // of each resource: its last event, also one that removed it
	shown   map[[2]string]bool            // the resources that exist
	removed record.Position               // the last position from which retention removed something
}

var (
	keptKinds     = []string{"customer", "plan"}
	keptResources = []string{"r1", "r2", "r3"}
	keptActions   = []string{"created", "updated", "deleted"}
)

func (m *keptLog) horizon() int64 {
	if m.kept == 0 {
		return 0
	}
	return m.f.Now().Add(-m.kept).Unix()
}

// took adds an event to the model.
func (m *keptLog) took(t *rapid.T, id, typ, resource string) {
	wire, err := m.f.Events.FindEvent(context.Background(), m.account, id, nil)
	if err != nil {
		t.Fatalf("find %s, just recorded: %v", id, err)
	}
	kind, action, _ := strings.Cut(typ, ".")
	e := keptEvent{id: id, typ: typ, kind: kind, resource: resource, wire: string(wire)}
	e.position = m.positionOf(t, e.wire)
	m.ids[id] = true
	m.events = append(m.events, e)
	slices.SortFunc(m.events, func(a, b keptEvent) int { return a.position.Compare(b.position) })
	if of := [2]string{kind, resource}; e.position.Compare(m.states[of]) > 0 {
		m.states[of], m.shown[of] = e.position, action != "deleted"
	}
}

// placeOf walks the log to find an event's position.
func (m *keptLog) positionOf(t *rapid.T, wire string) record.Position {
	f := eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1}
	for {
		page, err := m.f.Events.ListEvents(context.Background(), m.account, f, nil)
		if err != nil || page.Count == 0 {
			t.Fatalf("%s is in no list: %v", wire, err)
		}
		if string(page.Data) == wire {
			return page.Next
		}
		f.After, _ = eventlog.ParseCursor(page.Next.String())
	}
}

func (m *keptLog) record(t *rapid.T) {
	typ := rapid.SampledFrom(keptKinds).Draw(t, "kind") + "." + rapid.SampledFrom(keptActions).Draw(t, "action")
	resource := rapid.SampledFrom(keptResources).Draw(t, "resource")
	wire := must.Get(m.f.Events.RecordEvent(context.Background(), newEvent(m.account, typ, resource)))(t)
	id, _, _ := strings.Cut(strings.TrimPrefix(string(wire), `{"id":"`), `"`)
	m.took(t, id, typ, resource)
}

// importOne imports one event of the last days, with a native id or a foreign one.
func (m *keptLog) importOne(t *rapid.T) {
	typ := rapid.SampledFrom(keptKinds).Draw(t, "kind") + "." + rapid.SampledFrom(keptActions).Draw(t, "action")
	resource := rapid.SampledFrom(keptResources).Draw(t, "resource")
	at := m.f.Now().Add(-time.Duration(rapid.IntRange(0, 10*24).Draw(t, "hours ago")) * time.Hour).Unix()
	id := fmt.Sprintf("foreign-%d", len(m.ids))
	if rapid.Bool().Draw(t, "native") {
		id = nativeID(at, byte(len(m.ids)))
	}
	line := fmt.Sprintf(`{"id":"%s","type":"%s","resource":"%s","eventData":{"object":{}},"createdAt":%d}`, id, typ, resource, at)
	im := must.Get(m.f.Events.NewImporter(m.account, eventlog.ImportOptions{}))(t)
	refused, err := im.Add(context.Background(), []byte(line), 0)
	if err == nil && len(refused) == 0 {
		refused, err = im.Flush(context.Background())
	}
	must.Do(t, err)
	mayBeOld := at < m.horizon() || at*1000 <= m.removed.Millis() // in one millisecond the rest of the position decides
	switch {
	case len(refused) == 0:
		m.took(t, id, typ, resource)
		last := m.events[slices.IndexFunc(m.events, func(e keptEvent) bool { return e.id == id })]
		if at < m.horizon() || last.position.Compare(m.removed) <= 0 {
			t.Fatalf("an event of %d was imported below the horizon %d or what was removed up to %v", at, m.horizon(), m.removed)
		}
	case !mayBeOld:
		t.Fatalf("an event of %d was refused with the horizon at %d: %+v", at, m.horizon(), refused)
	case refused[0].Param != "createdAt" || refused[0].Code != "invalid_event":
		t.Fatalf("refused with %+v, want invalid_event on createdAt", refused[0])
	}
}

// nativeID makes the id of an event at a second.
func nativeID(at int64, n byte) string {
	var p record.Position
	for i := range 6 {
		p[i] = byte(at * 1000 >> (40 - 8*i))
	}
	p[7], p[15] = n, 1
	return p.String()
}

// broken runs something while the engine fails at one of its updates, and again until it
// succeeds.
func (m *keptLog) broken(t *rapid.T, do func() error) {
	failAt, applied := rapid.IntRange(-1, 3).Draw(t, "fails at"), rapid.Bool().Draw(t, "applied")
	if failAt >= 0 {
		n := -1
		m.f.Faults.OnUpdate(func(run func() error) error {
			if n++; n != failAt {
				return run()
			}
			if applied { // the process ends between the commit and its answer
				if err := run(); err != nil {
					return err
				}
			}
			return record.ErrUnavailable
		})
		err := do()
		m.f.Faults.Repair()
		if err != nil && !errors.Is(err, record.ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := m.f.Events.CheckEvents(context.Background(), m.account); err != nil {
			t.Fatalf("cut short: %v", err)
		}
	}
	must.Do(t, do())
}

func (m *keptLog) trim(t *rapid.T) {
	m.broken(t, func() error { _, err := m.f.TrimEvents(context.Background()); return err })
	horizon := m.horizon()
	m.events = slices.DeleteFunc(m.events, func(e keptEvent) bool {
		old := e.position.Millis() < horizon*1000
		if old && e.position.Compare(m.removed) > 0 {
			m.removed = e.position
		}
		return old
	})
}

func (m *keptLog) purge(t *rapid.T) {
	p := eventlog.Purge{Account: m.account}
	if rapid.IntRange(0, 3).Draw(t, "scope") > 0 {
		p.Kind, p.Resource = rapid.SampledFrom(keptKinds).Draw(t, "kind"), rapid.SampledFrom(keptResources).Draw(t, "resource")
	}
	m.broken(t, func() error {
		_, err := m.f.PurgeEvents(context.Background(), store.By{}, p)
		if errors.Is(err, record.ErrNotFound) && len(m.ids) == 0 {
			return nil
		}
		return err
	})
	hit := func(kind, resource string) bool { return p.Resource == "" || p.Kind == kind && p.Resource == resource }
	m.events = slices.DeleteFunc(m.events, func(e keptEvent) bool { return hit(e.kind, e.resource) })
	for of := range maps.Clone(m.states) {
		if hit(of[0], of[1]) {
			delete(m.states, of)
			delete(m.shown, of)
		}
	}
}

// check compares everything that can be read with the model.
func (m *keptLog) check(t *rapid.T) {
	ctx := context.Background()
	if n, err := m.f.Events.CheckEvents(ctx, m.account); err != nil || n != len(m.events) {
		t.Fatalf("the log has %d events, want %d; %v", n, len(m.events), err)
	}
	m.checkFind(t)
	types := []string{"customer.created", "customer.updated", "customer.deleted", "plan.created", "plan.updated", "plan.deleted"}
	for _, f := range []eventlog.Filter{
		{}, {Ascending: true}, {Types: types[:1]}, {Types: types[1:3], Ascending: true}, {Types: types}, {Types: types[3:]},
		{From: m.horizon()}, {Ascending: true, Types: []string{types[2], types[4], types[5]}},
	} {
		f.Limit = 3
		if f.To == 0 {
			f.To = eventlog.CreatedAtMax
		}
		m.checkWalk(t, f)
	}
	for _, kind := range keptKinds {
		for _, resource := range keptResources {
			_, err := m.f.Events.FindResource(ctx, m.account, kind, resource)
			if there := !errors.Is(err, record.ErrNotFound); there != m.shown[[2]string{kind, resource}] {
				t.Fatalf("the resource %s %s: %v, want it to be there: %v", kind, resource, err, !there)
			}
		}
	}
}

func (m *keptLog) checkFind(t *rapid.T) {
	there := map[string]keptEvent{}
	for _, e := range m.events {
		there[e.id] = e
	}
	for id := range m.ids {
		wire, err := m.f.Events.FindEvent(context.Background(), m.account, id, nil)
		p, native := record.ParsePosition(id)
		e, is := there[id]
		young := !is || e.position.Millis() >= m.horizon()*1000
		switch {
		case native && p.Millis() < m.horizon()*1000:
			if !errors.Is(err, record.ErrExpired) {
				t.Fatalf("find %s, past the horizon: %v, want ErrExpired", id, err)
			}
		case !is || !young:
			if !errors.Is(err, record.ErrNotFound) {
				t.Fatalf("find %s, removed: %v, want ErrNotFound", id, err)
			}
		case err != nil || string(wire) != e.wire:
			t.Fatalf("find %s = %s, %v, want %s", id, wire, err, e.wire)
		}
	}
}

// checkWalk reads a list page by page.
func (m *keptLog) checkWalk(t *rapid.T, f eventlog.Filter) {
	var want, got []string
	for _, e := range m.events {
		if at := e.position.Millis() / 1000; at >= f.From && at <= f.To && (f.Types == nil || slices.Contains(f.Types, e.typ)) {
			want = append(want, e.wire)
		}
	}
	if !f.Ascending {
		slices.Reverse(want)
	}
	for range len(want) + 2 {
		page, err := m.f.Events.ListEvents(context.Background(), m.account, f, nil)
		if err != nil {
			t.Fatalf("list %+v: %v", f, err)
		}
		if page.Count > 0 {
			got = append(got, string(page.Data))
		}
		if !page.More {
			break
		}
		f.After, _ = eventlog.ParseCursor(page.Next.String())
	}
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Fatalf("list %+v:\n%s\nwant\n%s", f, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkCursor continues from a position: only a reader who would miss removed events is
// refused.
func (m *keptLog) checkCursor(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(m.ids))
	ids = append(ids, "evt_00000000000000000000000000", m.removed.String(), nativeID(m.f.Now().Unix()-3600, 3))
	ids = slices.DeleteFunc(ids, func(id string) bool { _, native := record.ParsePosition(id); return !native })
	id := rapid.SampledFrom(ids).Draw(t, "cursor")
	position, _ := record.ParsePosition(id)
	after, _ := eventlog.ParseCursor(id)
	page, err := m.f.Events.ListEvents(context.Background(), m.account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000, Ascending: true, After: after}, nil)
	var expired *eventlog.CursorError
	if position.Compare(m.removed) < 0 {
		if !errors.As(err, &expired) || expired.Oldest.IsZero() {
			t.Fatalf("after %v, with removals up to %v: %v, want a CursorError", position, m.removed, err)
		}
		if len(m.events) > 0 && expired.Oldest != m.events[0].position {
			t.Fatalf("oldestAvailable = %v, want %v", expired.Oldest, m.events[0].position)
		}
		return
	}
	var want []string
	for _, e := range m.events {
		if e.position.Compare(position) > 0 {
			want = append(want, e.wire)
		}
	}
	if err != nil || string(page.Data) != strings.Join(want, ",") {
		t.Fatalf("after %v, with removals up to %v: %s, %v, want %s", position, m.removed, page.Data, err, strings.Join(want, ","))
	}
}

// Under any mix of recording, imports, aging, purges and interruptions, what remains is
// consistent, and what is gone is gone for the reason that callers are given.
//
// Promise (§2.4): events do not change; an audited purge removes them and their snapshots, then 404
func TestRetentionAndPurgeByModel(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	accounts := 0
	rapid.Check(t, func(t *rapid.T) {
		accounts++
		must.Do(t, f.Events.SetRetention(context.Background(), 0))
		m := &keptLog{f: f, account: fmt.Sprintf("acct_%d", accounts), ids: map[string]bool{}, states: map[[2]string]record.Position{}, shown: map[[2]string]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"record":  m.record,
			"record ": m.record,
			"import":  m.importOne,
			"import ": m.importOne,
			"time":    func(t *rapid.T) { f.Clock.Advance(time.Duration(rapid.IntRange(0, 12).Draw(t, "hours")) * time.Hour) },
			"retain": func(t *rapid.T) {
				m.kept = time.Duration(rapid.SampledFrom([]int{0, 1, 3, 3, 6}).Draw(t, "days")) * 24 * time.Hour
				must.Do(t, f.Events.SetRetention(context.Background(), m.kept))
			},
			"trim":   m.trim,
			"purge":  m.purge,
			"cursor": m.checkCursor,
			"":       m.check,
		})
	})
}

// Promise (§2.4): all events are kept unless --retain limits them; older ids are 410 for everyone
func TestRetention(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("retention_is_remembered_by_the_store", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		must.Do(t, f.Events.SetRetention(ctx, 400*24*time.Hour))
		again := f.Reopened(t)
		if got := again.Events.Retention(); got != 400*24*time.Hour {
			t.Errorf("Retention() of the store opened again = %s, want 9600h", got)
		}
	})
	t.Run("retention_of_less_than_a_day_is_refused", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		var bad *record.InvalidError
		if err := f.Events.SetRetention(ctx, 23*time.Hour); !errors.As(err, &bad) || f.Events.Retention() != 0 {
			t.Errorf("SetRetention(23h) = %v, and Retention() = %s; want a refusal", err, f.Events.Retention())
		}
	})
	t.Run("the_snapshot_of_a_resource_outlives_its_events", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		must.Get(f.Events.RecordEvent(ctx, newEvent("acct_a", "plan.created", "p1")))(t)
		f.Clock.Advance(48 * time.Hour)
		must.Do(t, f.Events.SetRetention(ctx, 24*time.Hour))
		if n, err := f.TrimEvents(ctx); n != 1 || err != nil {
			t.Fatalf("TrimEvents() = %d, %v, want 1", n, err)
		}
		if _, err := f.Events.FindResource(ctx, "acct_a", "plan", "p1"); err != nil {
			t.Errorf("FindResource() = %v, want it to be there", err)
		}
	})
	t.Run("nothing_is_imported_to_where_retention_removed_even_when_more_is_kept_since", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		at := f.Now().Add(-3 * aDay).Unix()
		line := func(n byte) string {
			return fmt.Sprintf(`{"id":"%s","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, nativeID(at, n), at)
		}
		storetest.ImportLines(t, f.Store, "acct_a", line(5))
		for _, kept := range []time.Duration{aDay, 0} {
			must.Do(t, f.Events.SetRetention(ctx, kept))
			must.Get(f.TrimEvents(ctx))(t)
		}
		for n, want := range map[byte]int{4: 1, 5: 1, 6: 0} {
			im, err := f.Events.NewImporter("acct_a", eventlog.ImportOptions{})
			must.Do(t, err)
			_, err = im.Add(ctx, []byte(line(n)), 0)
			refused, flushErr := im.Flush(ctx)
			if err != nil || flushErr != nil || len(refused) != want {
				t.Errorf("import at position %d beside the removed one at 5: refused %+v, %v, %v; want %d refusals", n, refused, err, flushErr, want)
			}
		}
	})
	t.Run("removals_go_on_from_where_the_last_look_ended_and_miss_nothing", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		must.Do(t, f.Events.SetRetention(ctx, aDay))
		for i, turned := range []time.Duration{0, aDay, -aDay / 2, aDay, 10 * time.Minute} {
			f.Clock.Advance(turned)
			account := fmt.Sprint("acct_", i)
			for _, age := range []time.Duration{aDay - time.Second, aDay / 2} {
				at := f.Now().Add(-age).Unix()
				storetest.ImportLines(t, f.Store, account, fmt.Sprintf(`{"type":"plan.created","resource":"p1","source":"%s %s","eventData":{"object":{}},"createdAt":%d}`, turned, age, at))
			}
			f.Clock.Advance(time.Second * 2)
			must.Get(f.TrimEvents(ctx))(t)
			for i := range i + 1 {
				account := fmt.Sprint("acct_", i)
				page, err := f.Events.ListEvents(ctx, account, eventlog.Filter{To: f.Now().Add(-aDay).Unix() - 1, Limit: 10}, nil)
				if err != nil || page.Count != 0 {
					t.Errorf("after %s, %d events older than a day are left: %s, %v", turned, page.Count, page.Data, err)
				}
				left(t, f, account)
			}
		}
	})
}
