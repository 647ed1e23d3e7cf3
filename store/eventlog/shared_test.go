package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// onShared runs a test with two stores on each engine that processes share.
func onShared(t *testing.T, run func(t *testing.T, a, b *storetest.Fixture)) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			a, b := storetest.Two(t, dbA, dbB)
			run(t, a, b)
		})
	}
}

func recordOne(t testing.TB, f *storetest.Fixture, typ string) {
	t.Helper()
	object := must.Get(snapshot.Parse([]byte(`{"id":"p1"}`), 3))(t)
	must.Get(f.Events.RecordEvent(context.Background(), eventlog.NewEvent{Owner: "acct_a", Type: typ, Resource: "p1", Object: object}))(t)
}

// after reads the events after a position, oldest first, and returns their positions.
func after(t testing.TB, f *storetest.Fixture, last record.Position) (positions []record.Position) {
	t.Helper()
	filter := eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true, Limit: 100, Row: func(dst []byte, p record.Position, _ []byte) []byte {
		positions = append(positions, p)
		return dst
	}}
	filter.After = eventlog.CursorAt(last)
	must.Get(f.Events.ListEvents(context.Background(), "acct_a", filter, nil))(t)
	return positions
}

// wokenMax is how long a reader may wait on a busy machine. What is measured is far less.
const wokenMax = time.Minute

// woken waits until the watch has changed.
func woken(t testing.TB, w *eventlog.Watch) {
	t.Helper()
	select {
	case <-w.Changed():
	case <-time.After(wokenMax):
		t.Fatal("the reader was not woken")
	}
}

// backfilled waits until the watch has a backfill.
func backfilled(t testing.TB, w *eventlog.Watch) *eventlog.Span {
	t.Helper()
	for {
		woken(t, w)
		if span := w.TakeBackfill(); span != nil {
			return span
		}
	}
}

// A live reader that could not learn where the log ends is not among the readers.
func TestWatchOfAFailingDatabase(t *testing.T) {
	t.Parallel()
	engine := storetest.NewShared().Open()
	f := storetest.Open(t, engine, storetest.NewClock())
	recordOne(t, f, "plan.created")
	f.Rest()
	for range 100 { // more than may read at once
		engine.Break(record.ErrAway)
		if _, err := f.Events.WatchEvents(t.Context(), "acct_a"); !errors.Is(err, record.ErrAway) {
			t.Fatalf("WatchEvents() = %v, want ErrAway", err)
		}
	}
	engine.Repair()
	w := must.Get(f.Events.WatchEvents(t.Context(), "acct_a"))(t)
	if n := f.Counts().LiveReaders; n != 1 {
		t.Errorf("%d readers are counted, want 1", n)
	}
	recordOne(t, f, "plan.updated")
	woken(t, w)
	for range 2 { // once is enough, and more does no harm
		w.Close()
	}
	if n := f.Counts().LiveReaders; n != 0 {
		t.Errorf("%d readers are counted after the end, want none", n)
	}
}

// TestTailBesideTwoServers: whoever records, a tail anywhere gets every event once and in
// the order of their ids.
func TestTailBesideTwoServers(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
		const each = 60
		recordOne(t, a, "plan.created")
		first := after(t, b, record.Position{})[0]
		watches := map[*storetest.Fixture]*eventlog.Watch{}
		for _, f := range []*storetest.Fixture{a, b} {
			watches[f] = must.Get(f.Events.WatchEvents(t.Context(), "acct_a"))(t)
		}
		var all sync.WaitGroup
		for _, f := range []*storetest.Fixture{a, b} {
			all.Go(func() {
				for range each {
					recordOne(t, f, "plan.updated")
				}
			})
		}
		seen := make([][]record.Position, 2)
		for i, f := range []*storetest.Fixture{a, b} {
			all.Go(func() {
				defer watches[f].Close()
				last := first
				for len(seen[i]) < 2*each {
					news := after(t, f, last)
					if len(news) == 0 {
						select {
						case <-watches[f].Changed():
						case <-time.After(wokenMax):
							t.Errorf("the tail was not woken after %d events", len(seen[i]))
							return
						}
						continue
					}
					seen[i], last = append(seen[i], news...), news[len(news)-1]
				}
			})
		}
		all.Wait()
		want := after(t, a, first)
		for len(want) < 2*each {
			want = append(want, after(t, a, want[len(want)-1])...)
		}
		for i := range seen {
			if !slices.Equal(seen[i], want) {
				t.Errorf("tail %d saw %d events, want the %d of the log in their order", i, len(seen[i]), len(want))
			}
			if !slices.IsSortedFunc(seen[i], record.Position.Compare) {
				t.Errorf("tail %d saw ids that do not rise", i)
			}
		}
	})
}

func TestReaderWakesForWhatAnotherServerDoes(t *testing.T) {
	t.Parallel()
	t.Run("an_event", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
			for range 2 {
				w := must.Get(b.Events.WatchEvents(t.Context(), "acct_a"))(t)
				recordOne(t, a, "plan.created")
				woken(t, w)
				recordOne(t, a, "plan.updated")
				woken(t, w)
				w.Close()
			}
		})
	})
	t.Run("imported_history", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
			recordOne(t, a, "plan.created")
			newest := after(t, a, record.Position{})[0]
			w := must.Get(b.Events.WatchEvents(t.Context(), "acct_a"))(t)
			defer w.Close()
			storetest.ImportLines(t, a.Store, "acct_a", oldLine(a, "old_1", 2*time.Hour), oldLine(a, "old_2", time.Hour))
			span := backfilled(t, w)
			all := after(t, b, record.Position{})
			if len(all) != 3 || all[2] != newest {
				t.Fatalf("the log has %d events, want the imported ones before the newest", len(all))
			}
			if span.First.Compare(all[0]) > 0 || span.Last.Compare(all[1]) < 0 {
				t.Errorf("the backfill is from %s to %s, want it to cover the imported events", span.First, span.Last)
			}
		})
	})
	t.Run("many_imports", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
			recordOne(t, a, "plan.created")
			w := must.Get(b.Events.WatchEvents(t.Context(), "acct_a"))(t)
			defer w.Close()
			var covered *eventlog.Span
			for i := range 5 {
				storetest.ImportLines(t, []*storetest.Fixture{a, b}[i%2].Store, "acct_a", oldLine(a, fmt.Sprint("old_", i), time.Duration(9-i)*time.Hour))
			}
			all := after(t, b, record.Position{})
			for covered == nil || covered.First.Compare(all[0]) > 0 || covered.Last.Compare(all[len(all)-2]) < 0 {
				span := backfilled(t, w)
				if covered == nil {
					covered = span
				}
				covered.First = slices.MinFunc([]record.Position{covered.First, span.First}, record.Position.Compare)
				covered.Last = record.LaterOf(covered.Last, span.Last)
			}
		})
	})
}

// TestBackfillOfAnotherServer is exact if its note arrives; a missing note makes readers
// read the whole log again.
func TestBackfillOfAnotherServer(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, s *storetest.Shared, a, b *storetest.Fixture, w *eventlog.Watch){
		"with_a_note_it_is_the_import_alone": func(t *testing.T, _ *storetest.Shared, a, b *storetest.Fixture, w *eventlog.Watch) {
			importOld(t, a)
			time.Sleep(time.Minute)
			wantBackfill(t, w, after(t, b, record.Position{})[:1])
		},
		"a_late_note_does_not_widen_it": func(t *testing.T, s *storetest.Shared, a, b *storetest.Fixture, w *eventlog.Watch) {
			s.HoldNotes()
			importOld(t, a)
			time.Sleep(time.Second) // as long as a look takes at most
			s.ReleaseNotes()
			time.Sleep(time.Minute)
			wantBackfill(t, w, after(t, b, record.Position{})[:1])
		},
		"without_a_note_it_is_the_whole_log": func(t *testing.T, s *storetest.Shared, a, b *storetest.Fixture, w *eventlog.Watch) {
			s.LoseNotes()
			importOld(t, a)
			time.Sleep(2*time.Second + time.Millisecond)
			wantBackfill(t, w, after(t, b, record.Position{}))
			time.Sleep(time.Minute)
			if span := w.TakeBackfill(); span != nil {
				t.Errorf("a second backfill from %s to %s, want none", span.First, span.Last)
			}
		},
		"removed_events_are_no_backfill": func(t *testing.T, _ *storetest.Shared, a, _ *storetest.Fixture, w *eventlog.Watch) {
			must.Get(a.PurgeEvents(t.Context(), store.By{}, eventlog.Purge{Account: "acct_a"}))(t)
			time.Sleep(time.Minute)
			if span := w.TakeBackfill(); span != nil {
				t.Errorf("a backfill from %s to %s, want none", span.First, span.Last)
			}
		},
		"a_lost_note_of_an_event_delays_it_by_a_second_at_most": func(t *testing.T, s *storetest.Shared, a, _ *storetest.Fixture, w *eventlog.Watch) {
			s.LoseNotes()
			recordOne(t, a, "plan.updated")
			time.Sleep(time.Second + time.Millisecond)
			select {
			case <-w.Changed():
			default:
				t.Error("the reader was not woken")
			}
		},
		"the_note_of_an_event_wakes_at_once": func(t *testing.T, _ *storetest.Shared, a, _ *storetest.Fixture, w *eventlog.Watch) {
			recordOne(t, a, "plan.updated")
			synctest.Wait()
			select {
			case <-w.Changed():
			default:
				t.Error("the reader was not woken")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := storetest.NewShared()
				a, b := storetest.Two(t, s.Open(), s.Open())
				for range 3 {
					recordOne(t, a, "plan.created")
				}
				synctest.Wait() // both hear
				w := must.Get(b.Events.WatchEvents(t.Context(), "acct_a"))(t)
				defer w.Close()
				run(t, s, a, b, w)
			})
		})
	}
}

// importOld imports an event below the head.
func importOld(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	storetest.ImportLines(t, f.Store, "acct_a", oldLine(f, "old_1", time.Hour))
}

func oldLine(f *storetest.Fixture, id string, ago time.Duration) string {
	return fmt.Sprintf(`{"id":%q,"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, id, f.Now().Add(-ago).Unix())
}

// wantBackfill checks that the backfill is from the first of the events to the last.
func wantBackfill(t *testing.T, w *eventlog.Watch, of []record.Position) {
	t.Helper()
	switch span := w.TakeBackfill(); {
	case span == nil:
		t.Errorf("no backfill, want one from %s to %s", of[0], of[len(of)-1])
	case *span != (eventlog.Span{First: of[0], Last: of[len(of)-1]}):
		t.Errorf("the backfill is from %s to %s, want %s to %s", span.First, span.Last, of[0], of[len(of)-1])
	}
}

func TestPurgeAtOneServerIsSeenAtTheOther(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
		for range 20 {
			recordOne(t, a, "plan.created")
			recordOne(t, b, "price.created")
		}
		ask := eventlog.Filter{To: eventlog.CreatedAtMax, Types: []string{"plan.*"}, Limit: 10}
		if page := must.Get(b.Events.ListEvents(t.Context(), "acct_a", ask, nil))(t); page.Count != 10 || len(page.Unseen) != 0 {
			t.Fatalf("%d events, %v unseen, want 10", page.Count, page.Unseen)
		}
		must.Get(a.PurgeEvents(t.Context(), store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "p1"}))(t)
		if page := must.Get(b.Events.ListEvents(t.Context(), "acct_a", ask, nil))(t); page.Count != 0 || len(page.Unseen) != 1 {
			t.Errorf("after a purge: %d events, %v unseen, want none of a type without events", page.Count, page.Unseen)
		}
		if left := after(t, b, record.Position{}); len(left) != 20 {
			t.Errorf("%d events are left, want the 20 of another kind", len(left))
		}
	})
}

// TestImportsOfOneFileAtTwoServers record every line once.
func TestImportsOfOneFileAtTwoServers(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *storetest.Fixture) {
		const lines = 400
		recordOne(t, a, "plan.created")
		var file strings.Builder
		for i := range lines {
			fmt.Fprintf(&file, `{"id":"old_%d","type":"plan.created","resource":"p%d","eventData":{"object":{}},"createdAt":%d}`+"\n", i, i%7, a.Now().Add(-time.Hour).Unix()+int64(i))
		}
		totals := make([]eventlog.ImportSummary, 2)
		var all sync.WaitGroup
		for i, f := range []*storetest.Fixture{a, b} {
			all.Go(func() {
				im := must.Get(f.Events.NewImporter("acct_a", eventlog.ImportOptions{}))(t)
				for line := range strings.Lines(file.String()) {
					if refused, err := im.Add(t.Context(), []byte(strings.TrimSpace(line)), 0); err != nil || len(refused) > 0 {
						t.Error(refused, err)
					}
				}
				if refused, err := im.Flush(t.Context()); err != nil || len(refused) > 0 {
					t.Error(refused, err)
				}
				totals[i] = im.Summary()
			})
		}
		all.Wait()
		if recorded := totals[0].Recorded + totals[1].Recorded; recorded != lines || totals[0].Errors+totals[1].Errors > 0 {
			t.Errorf("%+v, want %d lines recorded once", totals, lines)
		}
		if n := b.Count(t, record.TagEventForeign); n != lines {
			t.Errorf("%d foreign ids, want %d", n, lines)
		}
		must.Get(b.CheckAll(t.Context()))(t)
	})
}
