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
		"known type": {encodeKnownType(knownType{count: 1 << 40, last: p}), func(b []byte) ([]byte, error) {
			k, err := decodeKnownType(b)
			return encodeKnownType(k), err
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

func TestPlaces(t *testing.T) {
	t.Parallel()
	d := must.Get(newDraft(&NewEvent{Owner: "a", Resource: "r", Type: "t.u"}, []byte("{}")))(t)
	begin := func() *positions { p := new(positions); p.init("a"); return p }
	take := func(t *testing.T, p *positions, id string, createdAt int64) record.Position {
		t.Helper()
		position := must.Get(p.of(d, id, createdAt))(t)
		p.took(createdAt, position)
		return position
	}
	t.Run("milliseconds_and_counter_are_the_rank_in_the_second", func(t *testing.T) {
		t.Parallel()
		p := begin()
		for rank := range int64(3) {
			position := take(t, p, "", 1773070200)
			if position.Millis() != 1773070200000 || int64(position[6])<<8|int64(position[7]) != rank {
				t.Errorf("position %d = %v at %d", rank, position, position.Millis())
			}
		}
		p.seconds[1773070200] = second{rank: 65536*2 + 5}
		position := take(t, p, "", 1773070200)
		if position.Millis() != 1773070200002 || position[7] != 5 {
			t.Errorf("position 131077 = %v at %d", position, position.Millis())
		}
	})
	t.Run("the_rest_is_derived_from_account_and_line", func(t *testing.T) {
		t.Parallel()
		p, other := begin(), begin()
		other.account = "b"
		if a, b := take(t, p, "", 5), take(t, other, "", 5); a == b {
			t.Error("two accounts share a position")
		}
		if a, b := take(t, begin(), "", 5), take(t, begin(), "", 5); a != b {
			t.Error("the same line has two positions")
		}
	})
	t.Run("a_line_with_an_id_follows_the_line_before_it", func(t *testing.T) {
		t.Parallel()
		p := begin()
		last := record.NewPosition(1773070200500, 9, [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		p.took(1773070200, last)
		if position := take(t, p, "foreign", 1773070200); position.Compare(last) <= 0 || position.Millis() != 1773070200500 {
			t.Errorf("position = %v, want the least behind %v", position, last)
		}
	})
	t.Run("a_position_never_leaves_its_second", func(t *testing.T) {
		t.Parallel()
		p := begin()
		p.took(1773070200, record.NewPosition(1773070200999, 0xffff, [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}))
		if position := take(t, p, "foreign", 1773070200); position.Millis()/1000 != 1773070200 {
			t.Errorf("position = %v at %d", position, position.Millis())
		}
		p.seconds[1773070200] = second{rank: 65536 * 1000}
		if _, err := p.of(d, "", 1773070200); err == nil {
			t.Error("the 65,536,001st line of a second has a position")
		}
	})
	t.Run("memory_is_bounded_without_harm_to_a_sorted_file", func(t *testing.T) {
		t.Parallel()
		p := begin()
		for createdAt := range int64(secondsKept + 10) {
			p.took(createdAt, record.Position{})
		}
		if len(p.seconds) > secondsKept {
			t.Errorf("%d seconds are kept", len(p.seconds))
		}
		take(t, p, "", secondsKept+10)
		var bad *record.InvalidError
		if _, err := p.of(d, "", 0); !errors.As(err, &bad) || !strings.Contains(bad.Hint, "sort") {
			t.Errorf("a line far behind = %v, want a refusal", err)
		}
	})
}

// A cursor older than what retention removed is refused with the oldest remaining
// position.
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
	page, err = s.ListResources(ctx, "a", "plan", page.Last, 1, nil, nil)
	if err != nil || page.Count != 1 || !page.More || page.First != number(removed) {
		t.Errorf("second page = %d, more %v, first %q, %v", page.Count, page.More, page.First, err)
	}
}
