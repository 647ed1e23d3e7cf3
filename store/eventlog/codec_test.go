package eventlog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// eventRecords has one record of each kind of events and resources, with a function that
// decodes and encodes it.
func eventRecords(t testing.TB) map[string]struct {
	value  []byte
	decode func([]byte) ([]byte, error)
} {
	t.Helper()
	p := record.NewPosition(1773070200123, 7, [8]byte{1, 2, 3})
	d, err := newDraft(&NewEvent{Owner: "a", Resource: "r", Source: "s", Location: "l", Type: "t.u"}, []byte("{}"))
	must.Do(t, err)
	known := typeCounts{knownType: knownType{count: 1 << 40, last: p}}
	known.setSlots([]slotCount{{50_000_000, 1 << 40}, {49_999_999, 7}, {49_999_911, 300}})
	return map[string]struct {
		value  []byte
		decode func([]byte) ([]byte, error)
	}{
		"event": {d.record(p.String(), 1773070200), func(b []byte) ([]byte, error) {
			wire, err := wireOf(b)
			return append([]byte{eventRecord}, wire...), err
		}},
		"event head": {encodeEventHead(Head{last: p, removed: p, generation: 300}), func(b []byte) ([]byte, error) {
			h, err := decodeEventHead(b)
			return encodeEventHead(h), err
		}},
		"known type": {encodeTypeCounts(known), func(b []byte) ([]byte, error) {
			k, err := decodeTypeCounts(b)
			if err != nil {
				return nil, err
			}
			slots, err := k.slots()
			k.setSlots(slots)
			return encodeTypeCounts(k), err
		}},
		"resource": {encodeResource(resourceRecord{last: p, event: "ev-1", json: []byte(`{"id":"x"}`)}), func(b []byte) ([]byte, error) {
			rec, err := decodeResource(b)
			return encodeResource(rec), err
		}},
		"removed resource": {encodeResource(resourceRecord{last: p, removed: true}), func(b []byte) ([]byte, error) {
			rec, err := decodeResource(b)
			return encodeResource(rec), err
		}},
	}
}

func TestEventRecords(t *testing.T) {
	t.Parallel()
	for name, r := range eventRecords(t) {
		t.Run(name+"_comes_back_as_it_was", func(t *testing.T) {
			t.Parallel()
			again, err := r.decode(r.value)
			if err != nil || !bytes.Equal(again, r.value) {
				t.Errorf("decode then encode = %x, %v, want %x", again, err, r.value)
			}
		})
		t.Run(name+"_cut_short_is_corrupt_and_never_absent", func(t *testing.T) {
			t.Parallel()
			for n := range r.value {
				if _, err := r.decode(r.value[:n]); !errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrNotFound) {
					t.Fatalf("decode of %d bytes of %d = %v, want ErrCorrupt", n, len(r.value), err)
				}
			}
			newer := bytes.Clone(r.value)
			newer[0]++
			if _, err := r.decode(newer); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("decode of another version = %v, want ErrCorrupt", err)
			}
		})
	}
}

// FuzzEventRecords passes arbitrary bytes to each reader: it refuses them, or its writer
// produces the same bytes.
func FuzzEventRecords(f *testing.F) {
	all := eventRecords(f)
	for name, r := range all {
		f.Add(name, r.value)
	}
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		r, known := all[name]
		if !known {
			return
		}
		again, err := r.decode(value)
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("decode = %v, want ErrCorrupt", err)
			}
			return
		}
		if !bytes.Equal(again, value) {
			t.Errorf("%x was taken for a %s, which is written %x", value, name, again)
		}
	})
}

// FuzzEventLine: an accepted line is an event of the specification's form, and its wire
// form is a line with the same meaning.
func FuzzEventLine(f *testing.F) {
	for _, seed := range []string{
		`{"id":"evt_01kk9g2fnp0008yce2tg57qtan","owner":"acct_a","resource":"cus_1","source":"s","location":"l","type":"customer.created","eventData":{"object":{"id":"cus_1","object":"customer"}},"createdAt":1773066600}`,
		`{"type":"plan.deleted","resource":"p","eventData":{"object":{"a":[null,1.0,{"b":null}]},"previousAttributes":{"a":null}},"createdAt":0}`,
		`{"type":"a.b","resource":"p","id":"foreign","eventData":{"object":{}},"createdAt":99999999999}`,
		`{"createdAt":-0}`, `{"type":"a.b","type":"a.b"}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	s := openTest(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		im := must.Get(s.NewImporter("acct_a", ImportOptions{}))(t)
		var l importLine
		if err := im.parse(context.Background(), line, &l); err != nil {
			if le := lineError(&l, err); le.Code == "" || le.Reason == "" || len(le.Reason) > 600 {
				t.Fatalf("refusal of %q = %+v", line, le)
			}
			return
		}
		if !IsEventType(l.draft.typ) || !IsID(l.draft.resource) || l.draft.owner != "acct_a" || l.position.Millis()/1000 != l.createdAt {
			t.Fatalf("%q was taken as %+v", line, l)
		}
		id := l.foreign
		if id == "" {
			id = l.position.String()
		}
		record := l.draft.record(id, l.createdAt)
		if len(record) > eventSizeMax+1 || len(l.snapshot) > snapshot.SizeMax || len(record) > kv.ValueSizeMax {
			t.Fatalf("%q makes a record of %d bytes", line, len(record))
		}
		again := must.Get(s.NewImporter("acct_a", ImportOptions{SkipErrors: true}))(t)
		var back importLine
		if err := again.parse(context.Background(), record[1:], &back); err != nil {
			t.Fatalf("the wire form of %q is refused: %v", line, err)
		}
		if !bytes.Equal(back.draft.record(id, back.createdAt), record) || back.position != l.position {
			t.Errorf("the wire form of %q reads as another event", line)
		}
	})
}

// openTest returns a log over the model, with a stopped clock.
func openTest(t testing.TB) *Log {
	t.Helper()
	s := must.Get(Open(context.Background(), memkv.New(nil), Options{
		Now: func() time.Time { return time.Unix(CreatedAtMax, 0) }, Log: slog.New(slog.DiscardHandler),
		EnsureAccount: func(kv.Txn, string) error { return nil }, SegmentEvents: segmentEvents,
	}))(t)
	return s
}

// Promise (§3.3): file order is kept; a line more than 5 s ahead or below the horizon is refused;
// committed lines stay; a second run resumes a broken one
func TestPlaces(t *testing.T) {
	t.Parallel()
	line := func(foreign string, tail byte) *importLine {
		return &importLine{foreign: foreign, createdAt: 1773070200, digest: digest{tail}}
	}
	after := func(millis int64, counter uint16, tail byte) *second {
		return &second{read: record.NewPosition(millis, counter, [8]byte{tail})}
	}
	tests := []struct {
		name   string
		second *second
		line   *importLine
		want   record.Position
	}{
		{"the_first_of_its_second", &second{read: record.PositionBefore(1773070200)}, line("", 7), record.NewPosition(1773070200000, 0, [8]byte{7})},
		{"the_first_with_a_foreign_id", &second{read: record.PositionBefore(1773070200)}, line("x", 7), record.NewPosition(1773070200000, 0, [8]byte{7})},
		{"the_next_rank", after(1773070200002, 5, 1), line("", 7), record.NewPosition(1773070200002, 6, [8]byte{7})},
		{"the_next_millisecond", after(1773070200002, 0xffff, 1), line("", 7), record.NewPosition(1773070200003, 0, [8]byte{7})},
		{"the_least_with_a_foreign_id", after(1773070200002, 5, 1), line("x", 7), record.NewPosition(1773070200002, 5, [8]byte{7})},
		{"the_least_with_a_lower_tail", after(1773070200002, 5, 8), line("x", 7), record.NewPosition(1773070200002, 6, [8]byte{7})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := tt.second.behind(tt.line); err != nil || got != tt.want {
				t.Errorf("position = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	t.Run("a_position_never_leaves_its_second", func(t *testing.T) {
		t.Parallel()
		for _, id := range []string{"", "x"} {
			if got, err := after(1773070200999, 0xffff, 8).behind(line(id, 7)); err == nil {
				t.Errorf("position = %v, want a refusal", got)
			}
		}
	})
	t.Run("the_rest_is_derived_from_account_and_line", func(t *testing.T) {
		t.Parallel()
		d := must.Get(newDraft(&NewEvent{Owner: "a", Resource: "r", Type: "t.u"}, []byte("{}")))(t)
		var buffer []byte
		first, other := d.digest("a", "", 5, &buffer), d.digest("b", "", 5, &buffer)
		if again := d.digest("a", "", 5, &buffer); first == other || first != again {
			t.Error("the digest does not identify account and line")
		}
		q := newSeconds("a")
		stored, native, err := q.digestOfStored(d.record(record.NewPosition(5000, 1, [8]byte{}).String(), 5))
		if stored != d.digest("a", "", 5, &buffer) || !native || err != nil {
			t.Errorf("the digest of the stored event is another: native %v, %v", native, err)
		}
	})
	t.Run("memory_is_bounded_without_harm_to_a_sorted_file", func(t *testing.T) {
		t.Parallel()
		q := newSeconds("a")
		for createdAt := range int64(secondsKept + 10) {
			q.find(createdAt)
		}
		q.settled()
		if len(q.known) > secondsKept || len(q.changes) > 0 {
			t.Errorf("%d seconds and %d changes are kept", len(q.known), len(q.changes))
		}
		l := importLine{createdAt: secondsKept + 10}
		if _, _, err := q.place(nil, Head{}, &l); err != nil {
			t.Errorf("the next line = %v", err)
		}
		l.createdAt = 0
		var bad *record.InvalidError
		if _, _, err := q.place(nil, Head{}, &l); !errors.As(err, &bad) || !strings.Contains(bad.Hint, "sort") {
			t.Errorf("a line far behind = %v, want a refusal", err)
		}
	})
}

// A cursor older than what retention removed is refused with the oldest remaining
// position.
//
// Promise (§2.1): any id is a position; an unknown foreign one is refused; one past retention is
// 410 with oldestAvailable
func TestListEventsExpiredCursor(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	removed, last := record.NewPosition(5000, 0, [8]byte{}), record.NewPosition(9000, 0, [8]byte{})
	must.Do(t, s.db.Update(ctx, func(tx kv.Txn) error {
		return writeEventHead(tx, "a", Head{last: last, removed: removed})
	}))
	cursor := func(p record.Position) Cursor { return Cursor{position: &p} }
	f := Filter{To: CreatedAtMax, Limit: 1, Ascending: true, After: cursor(record.NewPosition(4999, 0, [8]byte{}))}
	var expired *CursorError
	if _, err := s.ListEvents(ctx, "a", f, nil); !errors.As(err, &expired) || expired.Oldest != last {
		t.Errorf("cursor_expired: ListEvents = %v, want a CursorError with the head, since no event is left", err)
	}
	f.Ascending = false
	if _, err := s.ListEvents(ctx, "a", f, nil); err != nil {
		t.Errorf("descending = %v, want no error: the walk ends there anyway", err)
	}
	f.Ascending, f.After = true, cursor(removed)
	if _, err := s.ListEvents(ctx, "a", f, nil); err != nil {
		t.Errorf("at the last one removed = %v, want no error: nothing behind it is missing", err)
	}
}

// Events below the head raise the generation; events above do not.
//
// Promise (§3.3): events above the head are live; those below are backfill, a range in streams and
// not sent
func TestImportGeneration(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	for _, step := range []struct {
		createdAt string
		want      uint64
	}{{"100", 0}, {"200", 0}, {"150", 1}, {"150", 1}, {"300", 1}, {"50", 2}} {
		im := must.Get(s.NewImporter("a", ImportOptions{}))(t)
		refused, err := im.Add(ctx, []byte(`{"type":"a.b","resource":"r","eventData":{"object":{}},"createdAt":`+step.createdAt+`}`), 0)
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		must.Do(t, s.db.View(ctx, func(r kv.Reader) error {
			h, err := ReadHead(r, "a")
			if h.generation != step.want {
				t.Errorf("after an event at %s the generation is %d, want %d", step.createdAt, h.generation, step.want)
			}
			return err
		}))
	}
}

// A page of resources passes over a bounded number of removed ones, and skips none after
// them.
//
// Promise (§3.1): any kind is accepted; known kinds have no unknown fields, refused with the
// nearest name; id and object equal the path or are absent; resources are listed by id
func TestListResourcesPassesOverRemoved(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	p := record.NewPosition(1, 0, [8]byte{})
	number := func(n int) string {
		return string([]byte{'0' + byte(n/10000), '0' + byte(n/1000%10), '0' + byte(n/100%10), '0' + byte(n/10%10), '0' + byte(n%10)})
	}
	const removed = resourcesScanned + 100
	for from := 0; from <= removed; from += 500 {
		must.Do(t, s.db.Update(ctx, func(tx kv.Txn) error {
			for n := from; n < from+500; n++ {
				if err := writeResource(tx, "a", "plan", number(n), resourceRecord{last: p, removed: n < removed, json: []byte(`{}`)}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	page, err := s.ListResources(ctx, "a", "plan", "", 10, nil, nil)
	if err != nil || page.Count != 0 || !page.More || page.Last != number(resourcesScanned-1) {
		t.Fatalf("first page = %d, more %v, last %q, %v", page.Count, page.More, page.Last, err)
	}
	if page, err := s.SearchResources(ctx, "a", "plan", "", 10, nil, 0, nil); err != nil || page.Count != 0 || !page.More {
		t.Errorf("a search without time = %d, more %v, %v", page.Count, page.More, err)
	}
	found, err := s.SearchResources(ctx, "a", "plan", "", 1, nil, time.Hour, []byte("["))
	if err != nil || found.Count != 1 || !found.More || found.First != number(removed) || string(found.Data) != "[{}" {
		t.Errorf("a search with time = %d, more %v, first %q, %s, %v", found.Count, found.More, found.First, found.Data, err)
	}
	page, err = s.ListResources(ctx, "a", "plan", page.Last, 1, nil, nil)
	if err != nil || page.Count != 1 || !page.More || page.First != number(removed) {
		t.Errorf("second page = %d, more %v, first %q, %v", page.Count, page.More, page.First, err)
	}
}
