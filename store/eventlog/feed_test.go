package eventlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// feedDay is how long tests keep the feed.
const feedDay = 24 * time.Hour

// withFeed returns a store whose feed is on.
func withFeed(t testing.TB) *storetest.Fixture {
	t.Helper()
	f := storetest.New(t)
	must.Do(t, f.Events.SetFeed(context.Background(), feedDay))
	return f
}

// fed is an event that a reader got.
type fed struct {
	ID, Owner, Type, Resource string
	position                  record.Position // in the feed
}

// readFeed reads one page.
func readFeed(s *store.Store, f eventlog.Filter) ([]fed, eventlog.Page, error) {
	var rows []fed
	var bad error
	f.Row = func(dst []byte, p record.Position, wire []byte) []byte {
		e := fed{position: p}
		bad = errors.Join(bad, json.Unmarshal(wire, &e))
		rows = append(rows, e)
		return dst
	}
	page, err := s.Events.ListEvents(context.Background(), eventlog.AllAccounts, f, nil)
	return rows, page, errors.Join(err, bad)
}

// allFed reads the feed from a cursor to its end.
func allFed(t testing.TB, s *store.Store, after eventlog.Cursor) (all []fed) {
	t.Helper()
	for f := (eventlog.Filter{After: after, Limit: 3}); ; {
		rows, page, err := readFeed(s, f)
		must.Do(t, err)
		all = append(all, rows...)
		if !page.More {
			return all
		}
		f.After = eventlog.CursorAt(page.Next)
	}
}

func idsOf(rows []fed) (ids []string) {
	for _, e := range rows {
		ids = append(ids, e.ID)
	}
	return ids
}

// recordIn records an event and returns its id.
func recordIn(t must.T, s *store.Store, account, typ, resource string) string {
	wire := must.Get(s.Events.RecordEvent(context.Background(), newEvent(account, typ, resource)))(t)
	return idOf(wire)
}

func idOf(wire []byte) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(string(wire), `{"id":"`), `"`)
	return id
}

// feedModel is the model of the feed: what each reader must still get.
type feedModel struct {
	t       testing.TB
	stores  []*storetest.Fixture
	readers []*feedReader
	lines   int // imported, for their ids
}

// feedReader continues at nextCursor.
type feedReader struct {
	filter  eventlog.Filter
	matches func(e fed) bool
	pending []fed
}

const feedAccounts = 4

func (m *feedModel) store(t *rapid.T) *store.Store {
	return m.stores[rapid.IntRange(0, len(m.stores)-1).Draw(t, "store")].Store
}

func (m *feedModel) account(t *rapid.T) string {
	return fmt.Sprint("acct_", rapid.IntRange(1, feedAccounts).Draw(t, "account"))
}

// committed adds events to the model, in the order of their commits.
func (m *feedModel) committed(events ...fed) {
	for _, e := range events {
		for _, r := range m.readers {
			if r.matches(e) {
				r.pending = append(r.pending, e)
			}
		}
	}
}

// removed takes events out of what the readers must still get.
func (m *feedModel) removed(gone func(e fed) bool) {
	for _, r := range m.readers {
		r.pending = slices.DeleteFunc(r.pending, gone)
	}
}

func (m *feedModel) record(t *rapid.T) {
	e := fed{Owner: m.account(t), Type: rapid.SampledFrom([]string{"plan.created", "plan.updated", "price.created"}).Draw(t, "type"), Resource: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "resource")}
	e.ID = recordIn(t, m.store(t), e.Owner, e.Type, e.Resource)
	m.committed(e)
}

// logOf reads an account's log.
func logOfAccount(t must.T, s *store.Store, account string) (all []fed) {
	f := eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true, Limit: 1000}
	f.Row = func(dst []byte, p record.Position, wire []byte) []byte {
		e := fed{position: p}
		must.Do(t, json.Unmarshal(wire, &e))
		all = append(all, e)
		return dst
	}
	must.Get(s.Events.ListEvents(context.Background(), account, f, nil))(t)
	return all
}

// importSome imports a few lines, some of them above the head of the log and in any order.
func (m *feedModel) importSome(t *rapid.T) {
	account, s := m.account(t), m.store(t)
	head := must.Get(s.Events.EventsVersion(context.Background(), account))(t).Head
	var lines []string
	for range rapid.IntRange(1, 6).Draw(t, "lines") {
		m.lines++
		at := m.stores[0].Now().Unix() + int64(rapid.IntRange(-3600, 4).Draw(t, "after"))
		lines = append(lines, fmt.Sprintf(`{"id":"foreign-%d","type":"plan.created","resource":"r1","eventData":{"object":{}},"createdAt":%d}`, m.lines, at))
	}
	im := must.Get(s.Events.NewImporter(account, eventlog.ImportOptions{}))(t)
	for _, line := range lines {
		if refused, err := im.Add(context.Background(), []byte(line), 0); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(context.Background()); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	for _, e := range logOfAccount(t, s, account) {
		if e.position.Compare(head) > 0 {
			m.committed(e)
		}
	}
}

func (m *feedModel) restart(t *rapid.T) {
	f := m.stores[rapid.IntRange(0, len(m.stores)-1).Draw(t, "restarted")]
	f.Store = f.Reopened(m.t)
}

func (m *feedModel) purge(t *rapid.T) {
	p := eventlog.Purge{Account: m.account(t), Kind: "plan", Resource: "r1"}
	_, err := m.store(t).PurgeEvents(context.Background(), store.By{}, p)
	must.Do(t, record.GoneIsNil(err))
	m.removed(func(e fed) bool {
		return e.Owner == p.Account && strings.HasPrefix(e.Type, "plan.") && e.Resource == "r1"
	})
}

func (m *feedModel) erase(t *rapid.T) {
	account := m.account(t)
	must.Do(t, record.GoneIsNil(m.store(t).DeleteAccount(context.Background(), account)))
	m.removed(func(e fed) bool { return e.Owner == account })
}

// read reads a page: nothing may be missing, repeated or out of order.
func (m *feedModel) read(t *rapid.T) {
	m.readPage(t, m.readers[rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")], m.store(t), rapid.IntRange(1, 5).Draw(t, "limit"))
}

func (m *feedModel) readPage(t *rapid.T, r *feedReader, s *store.Store, limit int) {
	r.filter.Limit = limit
	rows, page, err := readFeed(s, r.filter)
	must.Do(t, err)
	r.filter.After = eventlog.CursorAt(page.Next)
	want := r.pending[:min(limit, len(r.pending))]
	if !slices.Equal(idsOf(rows), idsOf(want)) {
		t.Fatalf("the page has %v, want %v", idsOf(rows), idsOf(want))
	}
	if r.pending = r.pending[len(want):]; page.More != (len(r.pending) > 0) {
		t.Fatalf("More is %v, and %d events are left", page.More, len(r.pending))
	}
}

// trim removes old entries; the readers have read theirs.
func (m *feedModel) trim(t *rapid.T) {
	s := m.store(t)
	for _, r := range m.readers {
		m.readPage(t, r, s, 1000)
	}
	must.Get(s.TrimEvents(context.Background()))(t)
}

// Promise (Platform §6): a reader of the feed gets each new event once, in each log's order and that
// of commits, over restarts, two servers and clocks set back; removed events are passed over
func TestFeedByModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		shared := storetest.NewShared()
		clock, key := storetest.NewClock(), secret.NewKey(nil)
		m := &feedModel{t: t}
		for range 2 {
			engine := shared.Open()
			f := storetest.Open(t, engine, clock, func(o *store.Options) { o.Key = key })
			m.stores = append(m.stores, f)
		}
		must.Do(rt, m.stores[0].Events.SetFeed(context.Background(), feedDay))
		m.readers = []*feedReader{
			{filter: eventlog.Filter{After: eventlog.StartCursor()}, matches: func(fed) bool { return true }},
			{filter: eventlog.Filter{After: eventlog.LatestCursor(), Types: []string{"plan.*", "price.lost"}}, matches: func(e fed) bool { return strings.HasPrefix(e.Type, "plan.") }},
			{filter: eventlog.Filter{After: eventlog.StartCursor(), Types: []string{"*.created"}, Resources: []string{"r2", "r3"}}, matches: func(e fed) bool { return strings.HasSuffix(e.Type, ".created") && e.Resource == "r2" }},
		}
		m.readPage(rt, m.readers[1], m.stores[0].Store, 1) // latest is now
		rt.Repeat(map[string]func(*rapid.T){
			"record":   m.record,
			"record ":  m.record,
			"record  ": m.record,
			"import":   m.importSome,
			"clock": func(t *rapid.T) {
				clock.Advance(time.Duration(rapid.IntRange(-120, 30).Draw(t, "minutes")) * time.Minute)
			},
			"restart": m.restart,
			"purge":   m.purge,
			"erase":   m.erase,
			"trim":    m.trim,
			"read":    m.read,
			"read ":   m.read,
		})
		for _, r := range m.readers {
			m.readPage(rt, r, m.stores[1].Store, 1000)
		}
		must.Get(m.stores[0].CheckAll(context.Background()))(rt)
		for _, f := range m.stores {
			f.Rest()
		}
	})
}

// Many writers at two servers, and two readers beside them who begin at the start: both get
// every event once, the same in the same order, and each account's in that of its log.
func TestFeedBesideManyWriters(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
		const writers, each = 8, 40
		must.Do(t, a.Events.SetFeed(t.Context(), feedDay))
		must.Do(t, b.Events.SetFeed(t.Context(), feedDay))
		var all sync.WaitGroup
		for w := range writers {
			f := []*storetest.Fixture{a, b}[w%2]
			all.Go(func() {
				for i := range each {
					recordIn(t, f.Store, fmt.Sprint("acct_", (w+i)%5), "plan.updated", "r1")
					if w == 0 && i%7 == 0 {
						f.Clock.Advance([]time.Duration{-time.Second, 600 * time.Millisecond}[i%2])
					}
				}
			})
		}
		got := make([][]fed, 2)
		for i, f := range []*storetest.Fixture{a, b} {
			watch := must.Get(f.Events.WatchEvents(t.Context(), eventlog.AllAccounts))(t)
			all.Go(func() {
				defer watch.Close()
				filter := eventlog.Filter{After: eventlog.StartCursor(), Limit: 7}
				for len(got[i]) < writers*each {
					rows, page, err := readFeed(f.Store, filter)
					if err != nil {
						t.Error(err)
						return
					}
					got[i], filter.After = append(got[i], rows...), eventlog.CursorAt(page.Next)
					if len(rows) > 0 || page.More {
						continue
					}
					select {
					case <-watch.Changed():
					case <-time.After(wokenMax):
						t.Errorf("the reader was not woken after %d events", len(got[i]))
						return
					}
				}
			})
		}
		all.Wait()
		if !slices.Equal(idsOf(got[0]), idsOf(got[1])) {
			t.Fatal("the readers got different events")
		}
		byAccount := map[string][]string{}
		for _, e := range got[0] {
			byAccount[e.Owner] = append(byAccount[e.Owner], e.ID)
		}
		for n := range 5 {
			account := fmt.Sprint("acct_", n)
			if want := idsOf(logOfAccount(t, a.Store, account)); len(want) == 0 || !slices.Equal(byAccount[account], want) {
				t.Errorf("of %s the readers got %d events, want the %d of its log in their order", account, len(byAccount[account]), len(want))
			}
		}
		if rest := allFed(t, b.Store, eventlog.StartCursor()); len(rest) != writers*each {
			t.Errorf("the feed has %d events, want %d", len(rest), writers*each)
		}
		must.Get(b.CheckAll(t.Context()))(t)
	})
}

// Promise (Platform §6): a position of the feed is drawn inside the commit: what commits later has a
// later one, whoever began first
func TestFeedPositionIsDrawnInTheUpdate(t *testing.T) {
	t.Parallel()
	f := withFeed(t)
	f.Rest()
	other := f.Reopened(t)
	var overtook, seen string
	var cursor eventlog.Cursor
	f.Faults.OnUpdate(func(run func() error) error {
		f.Faults.Repair()
		overtook = recordIn(t, other, "acct_b", "plan.created", "r1")
		rows, page, err := readFeed(other, eventlog.Filter{After: eventlog.StartCursor(), Limit: 10})
		must.Do(t, err)
		seen, cursor = strings.Join(idsOf(rows), " "), eventlog.CursorAt(page.Next)
		return run()
	})
	first := recordIn(t, f.Store, "acct_a", "plan.created", "r1")
	if seen != overtook {
		t.Fatalf("a reader between the two saw %q, want %q", seen, overtook)
	}
	if rows := allFed(t, f.Store, cursor); !slices.Equal(idsOf(rows), []string{first}) {
		t.Errorf("a reader that continues gets %v, want %s", idsOf(rows), first)
	}
}

// Promise (Platform §6): off, an event costs no key and no read; on, one entry of at most 100 bytes;
// positions have a spelling of their own
func TestFeedEntries(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("off_it_costs_nothing_and_cannot_be_read", func(t *testing.T) {
		t.Parallel()
		f, g := storetest.New(t), storetest.New(t)
		recordIn(t, f.Store, "acct_a", "plan.created", "r1")
		must.Do(t, g.Events.SetFeed(ctx, 0))
		recordIn(t, g.Store, "acct_a", "plan.created", "r1")
		if without, with := f.CountAll(t), g.CountAll(t); with != without || f.Count(t, record.TagFeed) != 0 {
			t.Errorf("%d keys, and %d with a feed that is off", without, with)
		}
		if _, _, err := readFeed(f.Store, eventlog.Filter{After: eventlog.LatestCursor(), Limit: 1}); !errors.Is(err, eventlog.ErrFeedOff) {
			t.Errorf("ListEvents() = %v, want ErrFeedOff", err)
		}
		if s, err := f.Events.Follow(ctx, eventlog.AllAccounts, []string{"*"}, record.Position{}, 1); err != nil || s.More || len(s.Events) > 0 {
			t.Errorf("Follow() = %+v, %v, want nothing", s, err)
		}
	})
	t.Run("on_an_event_has_one_small_entry", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		recordIn(t, f.Store, "acct_"+strings.Repeat("x", 59), "plan.created", "r1")
		recordIn(t, f.Store, "acct_"+strings.Repeat("x", 59), "plan.updated", "r1")
		const checksum = 4 // of the engine
		entries := 0
		must.Do(t, f.DB.View(ctx, func(r kv.Reader) error {
			for k, v := range r.Scan(record.NewKey(record.TagFeed).All()) {
				if entries++; len(k)+len(v)+checksum > 100 {
					t.Errorf("an entry of %d bytes", len(k)+len(v)+checksum)
				}
			}
			return nil
		}))
		if entries != 2 {
			t.Errorf("%d entries of 2 events", entries)
		}
	})
	t.Run("a_command_without_a_server_writes_entries_too", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		recordIn(t, f.Reopened(t), "acct_a", "plan.created", "r1")
		if rows := allFed(t, f.Store, eventlog.StartCursor()); len(rows) != 1 {
			t.Errorf("%d events in the feed, want 1", len(rows))
		}
	})
	t.Run("a_time_out_of_bounds_is_refused", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for _, kept := range []time.Duration{time.Minute, eventlog.FeedMax + 1, -1} {
			var bad *record.InvalidError
			if err := f.Events.SetFeed(ctx, kept); !errors.As(err, &bad) {
				t.Errorf("SetFeed(%s) = %v, want an *InvalidError", kept, err)
			}
		}
	})
	t.Run("positions_rise_over_a_clock_that_is_set_back", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		var last record.Position
		for _, step := range []time.Duration{0, 0, -time.Hour, 0, 2 * time.Hour, time.Millisecond} {
			f.Clock.Advance(step)
			recordIn(t, f.Store, "acct_a", "plan.updated", "r1")
			p := must.Get(f.Events.EventsVersion(ctx, eventlog.AllAccounts))(t).Head
			text := eventlog.PositionText(eventlog.AllAccounts, p)
			if back, ok := record.ParseFeedPosition(text); !ok || back != p || len(text) != 16 || p.Compare(last) <= 0 || text <= eventlog.PositionText(eventlog.AllAccounts, last) {
				t.Errorf("after a step of %s the position is %s, read as %v, %v; it must be behind %v", step, text, back, ok, last)
			}
			last = p
		}
		if !last.Time().Equal(f.Now()) {
			t.Errorf("the last position carries %s, want %s", last.Time(), f.Now())
		}
	})
}

// Promise (Platform §6): entries go after --feed; a reader behind them gets cursor_expired, also one
// from before a time in which the feed was off
func TestFeedIsTrimmed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	expired := func(t *testing.T, s *store.Store, after eventlog.Cursor) *eventlog.CursorError {
		t.Helper()
		_, _, err := readFeed(s, eventlog.Filter{After: after, Limit: 10})
		var cursor *eventlog.CursorError
		if !errors.As(err, &cursor) || !strings.HasPrefix(cursor.OldestText(), "fd_") {
			t.Fatalf("a reader that missed entries gets %v, want a *CursorError with a feed position", err)
		}
		return cursor
	}
	t.Run("after_their_time_in_batches", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		first := recordIn(t, f.Store, "acct_a", "plan.created", "r1")
		before := eventlog.CursorAt(must.Get(f.Events.EventsVersion(ctx, eventlog.AllAccounts))(t).Head)
		for range record.DeleteBatchMax + 5 {
			recordIn(t, f.Store, "acct_a", "plan.updated", "r1")
		}
		f.Clock.Advance(feedDay - time.Second)
		young := recordIn(t, f.Store, "acct_b", "plan.created", "r1")
		if n := must.Get(f.Events.TrimFeed(ctx))(t); n != 0 {
			t.Errorf("%d entries were removed before their time", n)
		}
		f.Clock.Advance(2 * time.Second)
		if n := must.Get(f.Events.TrimFeed(ctx))(t); n != record.DeleteBatchMax+6 {
			t.Errorf("%d entries were removed, want %d", n, record.DeleteBatchMax+6)
		}
		if rows := allFed(t, f.Store, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{young}) {
			t.Errorf("%v is left, want %s", idsOf(rows), young)
		}
		cursor := expired(t, f.Store, before)
		rows := allFed(t, f.Store, eventlog.CursorAt(cursor.Resume))
		if !slices.Equal(idsOf(rows), []string{young}) || rows[0].position != cursor.Oldest {
			t.Errorf("the reader resumes with %v, and the oldest left is %v", rows, cursor.Oldest)
		}
		if _, err := f.Events.FindEvent(ctx, "acct_a", first, nil); err != nil {
			t.Errorf("the event itself: %v", err)
		}
		must.Get(f.CheckAll(ctx))(t)
	})
	t.Run("all_of_them_when_it_is_turned_off", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		recordIn(t, f.Store, "acct_a", "plan.created", "r1")
		before := must.Get(f.Events.EventsVersion(ctx, eventlog.AllAccounts))(t).Head
		must.Do(t, f.Events.SetFeed(ctx, 0))
		missed := recordIn(t, f.Store, "acct_a", "plan.updated", "r1")
		f.Clock.Advance(-time.Hour)
		must.Do(t, f.Events.SetFeed(ctx, feedDay))
		expired(t, f.Store, eventlog.CursorAt(before))
		next := recordIn(t, f.Store, "acct_a", "plan.updated", "r1")
		if rows := allFed(t, f.Store, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{next}) {
			t.Errorf("the feed has %v, want %s alone, without %s", idsOf(rows), next, missed)
		}
		if n := must.Get(f.Events.TrimFeed(ctx))(t); n != 1 || f.Count(t, record.TagFeed) != 1 {
			t.Errorf("%d entries were removed, want the one from before", n)
		}
		must.Do(t, f.Events.SetFeed(ctx, 0))
		if must.Get(f.Events.TrimFeed(ctx))(t); f.Count(t, record.TagFeed) != 0 {
			t.Error("entries are left of a feed that is off")
		}
		must.Get(f.CheckAll(ctx))(t)
	})
	t.Run("a_restart_with_the_same_setting_changes_nothing", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		id := recordIn(t, f.Store, "acct_a", "plan.created", "r1")
		again := f.Reopened(t)
		must.Do(t, again.Events.SetFeed(ctx, feedDay))
		if rows := allFed(t, again, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{id}) {
			t.Errorf("the feed has %v, want %s", idsOf(rows), id)
		}
	})
}

// Promise (Platform §6): the feed passes over what purge, retention and erasure removed; an account
// erased and imported again is in it once; of backfill it has the range alone, once in the order
func TestFeedOfRemovedAndImportedEvents(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	line := func(f *storetest.Fixture, id string, ago time.Duration) string {
		return fmt.Sprintf(`{"id":%q,"type":"plan.created","resource":"r1","eventData":{"object":{}},"createdAt":%d}`, id, f.Now().Add(-ago).Unix())
	}
	t.Run("erased_and_imported_again", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		kept := recordIn(t, f.Store, "acct_b", "plan.created", "r1")
		lines := []string{line(f, "old-1", 2*time.Hour), line(f, "old-2", time.Hour)}
		storetest.ImportLines(t, f.Store, "acct_a", lines...)
		must.Do(t, f.DeleteAccount(ctx, "acct_a"))
		if rows := allFed(t, f.Store, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{kept}) {
			t.Errorf("the feed has %v, want %s alone", idsOf(rows), kept)
		}
		storetest.ImportLines(t, f.Store, "acct_a", lines...)
		if rows := allFed(t, f.Store, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{kept, "old-1", "old-2"}) {
			t.Errorf("the feed has %v, want each event once", idsOf(rows))
		}
	})
	t.Run("past_their_retention", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		must.Do(t, f.Events.SetFeed(ctx, 5*feedDay))
		must.Do(t, f.Events.SetRetention(ctx, 2*feedDay))
		recordIn(t, f.Store, "acct_a", "plan.created", "r1")
		f.Clock.Advance(3 * feedDay)
		young := recordIn(t, f.Store, "acct_a", "plan.updated", "r1")
		must.Get(f.TrimEvents(ctx))(t)
		if rows := allFed(t, f.Store, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{young}) {
			t.Errorf("the feed has %v, want %s alone", idsOf(rows), young)
		}
	})
	t.Run("imported_in_any_order_they_are_in_that_of_the_log", func(t *testing.T) {
		t.Parallel()
		f := withFeed(t)
		storetest.ImportLines(t, f.Store, "acct_a", line(f, "third", time.Minute), line(f, "first", 3*time.Minute), line(f, "second", 2*time.Minute))
		_, before, err := readFeed(f.Store, eventlog.Filter{After: eventlog.StartCursor(), Limit: 10})
		must.Do(t, err)
		storetest.ImportLines(t, f.Store, "acct_a", line(f, "below", time.Hour), line(f, "fourth", 0), line(f, "far_below", 2*time.Hour))
		storetest.ImportLines(t, f.Store, "acct_b", line(f, "other", 0))
		if rows := allFed(t, f.Store, eventlog.StartCursor()); !slices.Equal(idsOf(rows), []string{"first", "second", "third", "fourth", "other"}) {
			t.Errorf("the feed has %v", idsOf(rows))
		}
		log := logOfAccount(t, f.Store, "acct_a")
		below := eventlog.Span{First: log[0].position, Last: log[1].position}
		for name, c := range map[string]struct {
			after eventlog.Cursor
			limit int
			told  bool
		}{
			"who_continues": {eventlog.CursorAt(before.Next), 10, true}, "from_the_start": {eventlog.StartCursor(), 10, true},
			"a_page_that_ends_before": {eventlog.StartCursor(), 2, false}, "who_begins_behind": {eventlog.LatestCursor(), 10, false},
		} {
			_, page, err := readFeed(f.Store, eventlog.Filter{After: c.after, Limit: c.limit})
			must.Do(t, err)
			if told := page.Backfills; len(told) > 1 || (len(told) == 1) != c.told || c.told && (told[0].Account != "acct_a" || told[0].Span != below) {
				t.Errorf("%s is told of the backfills %v, want %v in acct_a: %t", name, told, below, c.told)
			}
		}
		must.Do(t, f.DeleteAccount(ctx, "acct_a"))
		if _, page, err := readFeed(f.Store, eventlog.Filter{After: eventlog.StartCursor(), Limit: 10}); err != nil || len(page.Backfills) != 0 {
			t.Errorf("readers are told of the backfill %v of an erased account, %v", page.Backfills, err)
		}
	})
}

// A page of the feed ends early where few events match, and a reader that goes on misses none.
func TestFeedPageEndsEarly(t *testing.T) {
	t.Parallel()
	f := withFeed(t)
	var lines []string
	for i := range eventlog.SearchedMax {
		lines = append(lines, fmt.Sprintf(`{"id":"many-%d","type":"plan.updated","resource":"r1","eventData":{"object":{}},"createdAt":%d}`, i, f.Now().Unix()))
	}
	storetest.ImportLines(t, f.Store, "acct_a", lines...)
	want := recordIn(t, f.Store, "acct_b", "plan.created", "r1")
	filter := eventlog.Filter{After: eventlog.StartCursor(), Limit: 5, Types: []string{"plan.created"}}
	rows, page, err := readFeed(f.Store, filter)
	if err != nil || len(rows) != 0 || !page.More {
		t.Fatalf("the first page has %v, more: %v, %v; want an empty one with more", rows, page.More, err)
	}
	filter.After = eventlog.CursorAt(page.Next)
	if rows, page, err = readFeed(f.Store, filter); err != nil || !slices.Equal(idsOf(rows), []string{want}) || page.More {
		t.Errorf("the second page has %v, more: %v, %v; want %s", rows, page.More, err, want)
	}
	if rows, _, err := readFeed(f.Store, eventlog.Filter{After: eventlog.StartCursor(), Limit: 5, Fits: eventlog.UpTo(1)}); err != nil || len(rows) != 1 {
		t.Errorf("a page without space has %d rows, %v; want 1", len(rows), err)
	}
}

// The sender of webhooks follows the feed as it follows a log.
func TestFollowTheFeed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := withFeed(t)
	ids := []string{recordIn(t, f.Store, "acct_a", "plan.created", "r1"), recordIn(t, f.Store, "acct_b", "price.created", "r1"), recordIn(t, f.Store, "acct_b", "plan.created", "r2")}
	extent := extentOfFeed(t, f)
	first := must.Get(f.Events.Follow(ctx, eventlog.AllAccounts, []string{"plan.*"}, extent.Removed, 1))(t)
	if len(first.Events) != 1 || first.Events[0].ID != ids[0] || !first.More {
		t.Fatalf("Follow() = %+v, want the first event and more", first)
	}
	rest := must.Get(f.Events.Follow(ctx, eventlog.AllAccounts, []string{"plan.*"}, first.Passed, 5))(t)
	if len(rest.Events) != 1 || rest.Events[0].ID != ids[2] || rest.More || rest.Passed != extent.Last {
		t.Errorf("Follow() = %+v, want the last event, up to %v", rest, extent.Last)
	}
	must.Get(f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a"}))(t)
	at := []record.Position{first.Events[0].Position, rest.Events[0].Position, record.LastPosition}
	left := must.Get(f.Events.EventsAt(ctx, eventlog.AllAccounts, at))(t)
	if len(left) != 1 || left[0].ID != ids[2] || !bytes.Contains(left[0].Wire, []byte(`"owner":"acct_b"`)) {
		t.Errorf("EventsAt() = %+v, want the event that was not purged", left)
	}
}

// TestFollowTheFeedOfLargeEvents: what it passes over counts too.
func TestFollowTheFeedOfLargeEvents(t *testing.T) {
	t.Parallel()
	f := withFeed(t)
	const size, events = 24_000, 850 // more than a search reads
	var lines []string
	for i := range events {
		lines = append(lines, fmt.Sprintf(`{"id":"large-%d","type":"plan.created","resource":"r1","eventData":{"object":{"note":"%s"}},"createdAt":%d}`, i, strings.Repeat("x", size), f.Now().Unix()))
	}
	storetest.ImportLines(t, f.Store, "acct_a", lines...)
	want := recordIn(t, f.Store, "acct_b", "price.created", "r1")
	first := must.Get(f.Events.Follow(context.Background(), eventlog.AllAccounts, []string{"price.*"}, extentOfFeed(t, f).Removed, 5))(t)
	if len(first.Events) != 0 || !first.More {
		t.Fatalf("Follow() = %d events, more: %t; want none yet and more", len(first.Events), first.More)
	}
	rest := must.Get(f.Events.Follow(context.Background(), eventlog.AllAccounts, []string{"price.*"}, first.Passed, 5))(t)
	if len(rest.Events) != 1 || rest.Events[0].ID != want || rest.More {
		t.Errorf("Follow() = %+v, want %s", rest, want)
	}
}

func extentOfFeed(t testing.TB, f *storetest.Fixture) (extent eventlog.Extent) {
	t.Helper()
	must.Do(t, f.DB.View(context.Background(), func(r kv.Reader) (err error) {
		extent, err = eventlog.ReadExtent(r, eventlog.AllAccounts)
		return err
	}))
	return extent
}

// Promise (Platform §8, §16): each promise of the platform API is kept on Badger, and by two servers
// on one PostgreSQL that get the requests in turns
func TestPlatformOnEngines(t *testing.T) {
	storetest.Again(t, `Platform §[1-8]`, "badger", "postgres")
}
