package eventlog_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func newEvent(owner, typ, resource string) eventlog.NewEvent {
	return eventlog.NewEvent{Owner: owner, Type: typ, Resource: resource, Source: "test", Location: "system", Object: snapshot.ObjectOf()}
}

// modelEvent is an event in the model of a log.
type modelEvent struct {
	position record.Position
	typ      string
	of       string
	wire     string
}

// matches is the meaning of a type pattern.
func matches(pattern, typ string) bool {
	kind, action, _ := strings.Cut(typ, ".")
	return slices.Contains([]string{"*", typ, kind + ".*", "*." + action}, pattern)
}

// modelPage is what ListEvents must return: the matching rows, in the order requested,
// cut by cursor and limit, found by a plain scan.
func modelPage(log []modelEvent, f eventlog.Filter, cursor *record.Position, isAfter bool) (data []string, more bool, next, previous record.Position) {
	matching := slices.DeleteFunc(slices.Clone(log), func(e modelEvent) bool {
		createdAt := e.position.Millis() / 1000
		return len(f.Types) > 0 && !slices.ContainsFunc(f.Types, func(pattern string) bool { return matches(pattern, e.typ) }) ||
			len(f.Resources) > 0 && !slices.Contains(f.Resources, e.of) || createdAt < f.From || createdAt > f.To
	})
	if !f.Ascending {
		slices.Reverse(matching)
	}
	if cursor != nil {
		matching = slices.DeleteFunc(matching, func(e modelEvent) bool {
			c := e.position.Compare(*cursor)
			if !f.Ascending {
				c = -c
			}
			return isAfter && c <= 0 || !isAfter && c >= 0
		})
	}
	rows := matching
	if more = len(rows) > f.Limit; more && (cursor == nil || isAfter) {
		rows = rows[:f.Limit]
	} else if more {
		rows = rows[len(rows)-f.Limit:]
	}
	for _, e := range rows {
		data = append(data, e.wire)
	}
	if len(rows) > 0 {
		return data, more, rows[len(rows)-1].position, rows[0].position
	}
	var head record.Position
	if len(log) > 0 {
		head = log[len(log)-1].position
	}
	if cursor != nil && (!f.Ascending || cursor.Compare(head) > 0) {
		head = *cursor
	}
	return data, more, head, head
}

// Every page of a random log, with every kind of filter, equals the model's.
//
// Promise (§2.1): nextCursor is a position: the last row's, on an empty page where to continue, in
// an empty log zero; previousCursor the first row's, or nextCursor
// Promise (§2.2): an exact createdAt is one second; all operators apply; between includes both
// ends; an empty window is an empty page
func TestListEventsIsTheModels(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	types := []string{"a.b", "a.bb", "b.a"}
	asked := []string{"a.b", "a.bb", "b.a", "c.never", "a.*", "*.a", "*.never", "*"}
	account := 0
	rapid.Check(t, func(rt *rapid.T) {
		account++
		owner := fmt.Sprintf("acct_%d", account)
		var log []modelEvent
		for range rapid.IntRange(0, 25).Draw(rt, "events") {
			// Types cluster in time, so that a frequent type may be rare near a page.
			typ := rapid.SampledFrom(types[:1+account%3]).Draw(rt, "type")
			if n := len(log); n > 0 && rapid.Bool().Draw(rt, "again") {
				typ = log[n-1].typ
			}
			of := rapid.SampledFrom([]string{"r", "rr", `s`}).Draw(rt, "resource")
			if rapid.Bool().Draw(rt, "moves") {
				f.Clock.Advance(time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms")) * time.Millisecond)
			}
			wire := must.Get(f.Events.RecordEvent(context.Background(), newEvent(owner, typ, of)))(rt)
			p, _ := record.ParsePosition(string(wire[len(`{"id":"`):][:30]))
			log = append(log, modelEvent{p, typ, of, string(wire)})
		}
		for range 20 {
			checkPage(rt, f.Store, owner, log, asked)
		}
	})
}

func checkPage(rt *rapid.T, s *store.Store, owner string, log []modelEvent, types []string) {
	f := eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: rapid.Bool().Draw(rt, "asc"), Limit: rapid.IntRange(1, 8).Draw(rt, "limit")}
	for _, typ := range types {
		if rapid.IntRange(0, 3).Draw(rt, "type") == 0 {
			f.Types = append(f.Types, typ)
		}
	}
	for _, resource := range []string{"r", "rr", "s", "never"} {
		if rapid.IntRange(0, 5).Draw(rt, "resource") == 0 {
			f.Resources = append(f.Resources, resource)
		}
	}
	separator := ","
	if rapid.Bool().Draw(rt, "rows") {
		separator = ""
		f.Row = func(dst []byte, p record.Position, wire []byte) []byte { return append(dst, wire...) }
	}
	position := func() record.Position {
		if len(log) == 0 {
			return record.Position{5}
		}
		p := log[rapid.IntRange(0, len(log)-1).Draw(rt, "at")].position
		p[15] += byte(rapid.IntRange(-1, 1).Draw(rt, "beside"))
		return p
	}
	if rapid.Bool().Draw(rt, "from") {
		f.From = position().Millis() / 1000
	}
	if rapid.Bool().Draw(rt, "to") {
		f.To = position().Millis() / 1000
	}
	var cursor *record.Position
	side := rapid.IntRange(0, 2).Draw(rt, "cursor")
	if side > 0 {
		p := position()
		cursor = &p
		c, _ := eventlog.ParseCursor(p.String())
		if side == 1 {
			f.After = c
		} else {
			f.Before = c
		}
	}
	data, more, next, previous := modelPage(log, f, cursor, side == 1)
	page := must.Get(s.Events.ListEvents(context.Background(), owner, f, []byte("<")))(rt)
	if got, want := string(page.Data), "<"+strings.Join(data, separator); got != want || page.Count != len(data) || page.More != more {
		rt.Fatalf("ListEvents(%+v) = %d, more %v: %s\nwant %d, more %v: %s", f, page.Count, page.More, got, len(data), more, want)
	}
	if page.Next != next || page.Previous != previous {
		rt.Fatalf("ListEvents(%+v): next %v, previous %v, want %v and %v", f, page.Next, page.Previous, next, previous)
	}
}

// A tail that polls while others record, on an engine with real commits, sees each event
// once and in order; the walk from the newest is not disturbed.
//
// Promise (§2.1): paging misses and repeats no event while new ones are recorded
func TestListEventsMissesNothingWhileOthersRecord(t *testing.T) {
	t.Parallel()
	f := storetest.OnDisk(t)
	ctx := context.Background()
	const writers, each = 8, 60
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if i%7 == 0 {
					f.Clock.Advance(time.Duration(w%3-1) * 700 * time.Millisecond) // it steps back too
				}
				if _, err := f.Events.RecordEvent(ctx, newEvent("acct_a", "a.b", fmt.Sprintf("r%d", w))); err != nil {
					t.Errorf("record: %v", err)
				}
			}
		})
	}
	recorded := make(chan struct{})
	go func() { wg.Wait(); close(recorded) }()

	tailed := tail(t, f.Store, recorded)
	if len(tailed) != writers*each {
		t.Errorf("the tail saw %d events, want %d", len(tailed), writers*each)
	}
	if !slices.IsSorted(tailed) || len(slices.Compact(slices.Clone(tailed))) != len(tailed) {
		t.Error("the tail saw events twice, or out of order")
	}
	all, err := f.Events.ListEvents(ctx, "acct_a", eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true, Limit: 1000}, nil)
	if err != nil || !slices.Equal(idsIn(all.Data), tailed) {
		t.Errorf("the log has %d events in another order (%v)", all.Count, err)
	}
}

// tail polls with a cursor until the writers are done and nothing is left.
func tail(t *testing.T, s *store.Store, recorded <-chan struct{}) []string {
	t.Helper()
	var seen []string
	cursor := eventlog.Cursor{}
	const pollsMax = 200_000
	for polls, done := 0, false; polls < pollsMax && len(seen) < pollsMax; polls++ {
		select {
		case <-recorded:
			done = true
		default:
		}
		f := eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true, Limit: 7, After: cursor}
		if len(seen)%2 == 1 {
			f.Types = []string{"a.b", "a.c"} // the merge must not miss either
		}
		page := must.Get(s.Events.ListEvents(context.Background(), "acct_a", f, nil))(t)
		seen = append(seen, idsIn(page.Data)...)
		cursor, _ = eventlog.ParseCursor(page.Next.String())
		if done && page.Count == 0 {
			return seen
		}
		if page.Count == 0 { // the disk may be slow: the polls are counted
			time.Sleep(time.Millisecond)
		}
	}
	t.Fatalf("the tail came to no end; it has seen %d events", len(seen))
	return nil
}

func idsIn(data []byte) []string {
	var ids []string
	for part := range bytes.SplitSeq(data, []byte(`{"id":"evt_`)) {
		if len(part) >= 26 {
			ids = append(ids, "evt_"+string(part[:26]))
		}
	}
	return ids
}

// TestListEventsKeepsOwnersApart: any list, by type, by time or with the cursor of
// another owner, has all of its owner's events and no others.
func TestListEventsKeepsOwnersApart(t *testing.T) {
	t.Parallel()
	owners, events, queries := 50, 10_000, 2_000
	if must.Long() {
		events, queries = 100_000, 20_000
	}
	f := storetest.OnDisk(t)
	rng := rand.New(rand.NewPCG(1, 2))
	types := []string{"a.b", "a.c", "b.a"}
	lines := make([][]string, owners)
	for range events {
		owner := rng.IntN(owners)
		lines[owner] = append(lines[owner], fmt.Sprintf(`{"type":%q,"resource":"r%d","eventData":{"object":{}},"createdAt":%d}`,
			types[rng.IntN(len(types))], rng.IntN(5), 1773000000+rng.IntN(500)))
	}
	name := func(owner int) string { // names that are prefixes of each other
		return strings.Repeat("a", 1+owner%10) + strings.Repeat("b", owner/10)
	}
	ids := make([][]string, owners)
	for owner := range owners {
		storetest.ImportLines(t, f.Store, name(owner), lines[owner]...)
		for cursor := (eventlog.Cursor{}); ; {
			page, err := f.Events.ListEvents(context.Background(), name(owner), eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true, Limit: 1000, After: cursor}, nil)
			must.Do(t, err)
			ids[owner] = append(ids[owner], idsIn(page.Data)...)
			if cursor, _ = eventlog.ParseCursor(page.Next.String()); !page.More {
				break
			}
		}
		if len(ids[owner]) != len(lines[owner]) {
			t.Fatalf("%s has %d events, want %d", name(owner), len(ids[owner]), len(lines[owner]))
		}
	}
	for range queries {
		owner, other := rng.IntN(owners), rng.IntN(owners)
		cursor, _ := eventlog.ParseCursor(ids[other][rng.IntN(len(ids[other]))])
		filter := eventlog.Filter{From: 1773000000 + int64(rng.IntN(400)), To: eventlog.CreatedAtMax, Limit: 20, Ascending: rng.IntN(2) == 0}
		filter.Types = types[:rng.IntN(len(types)+1)]
		if rng.IntN(2) == 0 {
			filter.After = cursor
		} else {
			filter.Before = cursor
		}
		page := must.Get(f.Events.ListEvents(context.Background(), name(owner), filter, nil))(t)
		if own := bytes.Count(page.Data, []byte(`"owner":"`+name(owner)+`"`)); own != page.Count {
			t.Fatalf("a page of %s with %+v has %d events, %d of them its own", name(owner), filter, page.Count, own)
		}
		if owner != other {
			if wire, err := f.Events.FindEvent(context.Background(), name(owner), ids[other][0], nil); err == nil {
				t.Fatalf("%s found %s", name(owner), wire)
			}
		}
	}
}

// A page ends before it exceeds its bound in bytes, and says that more follow.
func TestListEventsBoundsThePage(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	large := snapshot.ObjectOf(snapshot.Member{Name: "n", Value: snapshot.Text(strings.Repeat("x", 23<<10))})
	const events = 300 // 6.8 MiB
	for range events {
		e := newEvent("acct_a", "a.b", "r")
		e.Object = large
		must.Get(f.Events.RecordEvent(context.Background(), e))(t)
	}
	total, pages := 0, 0
	for cursor := (eventlog.Cursor{}); ; pages++ {
		page, err := f.Events.ListEvents(context.Background(), "acct_a", eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000, After: cursor}, nil)
		must.Do(t, err)
		if len(page.Data) > eventlog.PageSizeMax {
			t.Fatalf("the page has %d bytes", len(page.Data))
		}
		total += page.Count
		if cursor, _ = eventlog.ParseCursor(page.Next.String()); !page.More {
			break
		}
	}
	if total != events || pages != 6 {
		t.Errorf("%d events on %d pages, want %d on 7", total, pages+1, events)
	}
}

// Commit order, createdAt order and id order are the same, on an engine that commits in
// groups, while the clock steps.
//
// Promise (§2.4): createdAt is the server's commit time, never below the last; callers cannot set
// it
func TestRecordEventKeepsOneOrder(t *testing.T) {
	t.Parallel()
	f := storetest.OnDisk(t)
	var mu sync.Mutex
	var acknowledged []record.Position
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for range 20 {
				f.Clock.Advance(time.Duration(w-8) * 100 * time.Millisecond)
				mu.Lock()
				before := len(acknowledged)
				mu.Unlock()
				wire, err := f.Events.RecordEvent(context.Background(), newEvent("acct_a", "a.b", "r"))
				if err != nil {
					t.Errorf("record: %v", err)
					return
				}
				p, _ := record.ParsePosition(string(wire[len(`{"id":"`):][:30]))
				mu.Lock()
				for _, earlier := range acknowledged[:before] {
					if p.Compare(earlier) <= 0 {
						t.Errorf("%v was recorded after %v was acknowledged", p, earlier)
					}
				}
				acknowledged = append(acknowledged, p)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// Any account's history yields bounded pages: where no index leads to the matching
// events, a page ends early and the next continues.
func TestListEventsEndsEarly(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	const events = 10_300
	var lines []string
	for i := range events {
		typ := "plan.created"
		switch {
		case i == 10_100:
			typ = "plan.found"
		case i%34 == 0:
			typ = fmt.Sprintf("kind%d.seen", i/34) // 300 types
		}
		lines = append(lines, fmt.Sprintf(`{"type":%q,"resource":"r","eventData":{"object":{}},"createdAt":%d}`, typ, 1773000000+i))
	}
	storetest.ImportLines(t, f.Store, "acct_a", lines...)
	for name, tt := range map[string]struct {
		filter eventlog.Filter
		want   int
	}{
		"by_resource_and_type": {eventlog.Filter{Resources: []string{"r"}, Types: []string{"plan.found"}}, 1},
		"by_many_types":        {eventlog.Filter{Types: []string{"*.seen", "plan.found"}}, 304},
	} {
		for _, ascending := range []bool{true, false} {
			t.Run(fmt.Sprintf("bounded_work_%s_ascending_%v", name, ascending), func(t *testing.T) {
				t.Parallel()
				filter := tt.filter
				filter.To, filter.Limit, filter.Ascending = eventlog.CreatedAtMax, 1000, ascending
				found, pages := 0, 1
				for ; ; pages++ {
					page := must.Get(f.Events.ListEvents(context.Background(), "acct_a", filter, nil))(t)
					if found += page.Count; !page.More {
						break
					}
					filter.After = eventlog.CursorAt(page.Next)
				}
				if found != tt.want || pages != 2 {
					t.Errorf("%d events on %d pages, want %d on 7", found, pages, tt.want)
				}
			})
		}
	}
}
