package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// segmentEvents is how many events a segment has in these tests, so that few
// events cross segments.
const segmentEvents uint64 = 7

// SegmentsOf returns the first milliseconds of the segments of an account's log.
func SegmentsOf(r kv.Reader, owner string) (starts []uint64, err error) {
	head, err := ReadHead(r, owner)
	for i := range len(head.Segments) + 1 {
		starts = append(starts, uint64(head.Segments.At(i)))
	}
	return starts, err
}

// HeadOf returns the segments of an account's log except the first, and the last
// position that retention removed.
func HeadOf(r kv.Reader, owner string) (segments []uint64, removed record.Position, err error) {
	head, err := ReadHead(r, owner)
	for _, sg := range head.Segments {
		segments = append(segments, uint64(sg))
	}
	return segments, head.removed, err
}

// Moved returns the key of the log that k would have in another segment; ok is false for
// one in the first.
func Moved(k []byte, to func(uint64) uint64) (moved []byte, ok bool) {
	sg, list, p, _ := cutLogKey(k)
	return list.in(Segment(to(uint64(sg)))).Position(p), sg != 0
}

// ListIn returns the prefix of the event keys of a type, or of all, in a segment.
func ListIn(start uint64, owner, typ string) []byte {
	if typ == "" {
		return eventsOf(owner).in(Segment(start))
	}
	return eventsOfType(owner, typ).in(Segment(start))
}

// FuzzKeysOfLog checks for the keys of the log what FuzzKeysOfTexts does for others: no
// account, type, resource or position reaches into the range of another, and all parts
// of a key can be read back.
func FuzzKeysOfLog(f *testing.F) {
	f.Add("a", "b\x01c", uint64(1), []byte("0123456789abcdef"), "a\x01b", "c", uint64(2), []byte("0123456789abcdeg"))
	f.Add("a", "", uint64(1<<40), bytes.Repeat([]byte{0xff}, 16), "", "a", uint64(1<<40), make([]byte, 16))
	f.Add("a", "b", uint64(0), []byte("0123456789abcdef"), "a", "b", uint64(1), []byte("0123456789abcdef"))
	f.Add("e", "y", uint64(0x65), []byte{0, 0, 0}, "e", "y", uint64(0x6500), []byte{0, 0, 0x80})
	f.Fuzz(func(t *testing.T, owner, name string, start uint64, raw []byte, otherOwner, otherName string, otherStart uint64, otherRaw []byte) {
		owner, name, otherOwner, otherName = clean(owner), clean(name), clean(otherOwner), clean(otherName)
		sg, otherSegment := Segment(start%(record.PositionMillisMax+1)), Segment(otherStart%(record.PositionMillisMax+1))
		var p, other record.Position
		copy(p[:], raw)
		copy(other[:], otherRaw)
		sameSegment := sg == otherSegment && owner == otherOwner
		for form, list := range map[string]func(owner, name string) List{
			"event":             func(o, _ string) List { return eventsOf(o) },
			"event by type":     eventsOfType,
			"event by resource": eventsOfResource,
		} {
			l, otherList := list(owner, name), list(otherOwner, otherName)
			k, otherKey := l.in(sg).Position(p), otherList.in(otherSegment).Position(other)
			want := cmp.Or(cmp.Compare(sg, otherSegment), cmp.Compare(owner, otherOwner), cmp.Compare(l.name, otherList.name), p.Compare(other))
			if form == "event" {
				want = cmp.Or(cmp.Compare(sg, otherSegment), cmp.Compare(owner, otherOwner), p.Compare(other))
			}
			if got := bytes.Compare(k, otherKey); got != want {
				t.Fatalf("%s keys of %q %q %v and %q %q %v compare as %d, want %d", form, owner, name, p, otherOwner, otherName, other, got, want)
			}
			if inside := holds(l.in(sg).All(), otherKey); inside != (sameSegment && l == otherList) {
				t.Fatalf("%s key of %q %q is in the range of %q %q: %v", form, otherOwner, otherName, owner, name, inside)
			}
			if in, back, at, fits := cutLogKey(k); !fits || in != sg || back != l || at != p {
				t.Fatalf("%s key %q comes back as %d, %+v, %v, %v", form, k, in, back, at, fits)
			}
			if _, _, _, fits := cutLogKey(k[:len(k)-1]); fits {
				t.Fatalf("%s key %q fits when it is cut short", form, k)
			}
		}
		if holds(eventsOf(owner).in(sg).All(), eventsOfType(otherOwner, otherName).in(otherSegment).Position(other)) ||
			holds(eventsOfType(owner, name).in(sg).All(), eventsOfResource(otherOwner, otherName).in(otherSegment).Position(other)) {
			t.Fatal("one list is in the range of another")
		}
	})
}

// TestSegments reads ranges of several accounts' logs, each with segments of its own, and
// compares them with a list of all positions.
func TestSegments(t *testing.T) {
	t.Parallel()
	owners := []string{"a", "ab", "b"}
	rapid.Check(t, func(rt *rapid.T) {
		s := openTest(t)
		heads, positions := map[string]*Head{"a": {}, "ab": {}, "b": {}}, map[string][]record.Position{}
		millis := rapid.Int64Range(1, 100)
		must.Do(rt, s.db.Update(context.Background(), func(tx kv.Txn) error {
			for n := range rapid.IntRange(0, 80).Draw(rt, "events") {
				owner := rapid.SampledFrom(owners).Draw(rt, "owner")
				h := heads[owner]
				p := record.NewPosition(millis.Draw(rt, "millis"), uint16(n), [8]byte{})
				if rapid.Bool().Draw(rt, "behind") || p.Compare(h.last) > 0 {
					if p.Compare(h.last) <= 0 {
						p = h.last.Next(time.UnixMilli(h.last.Millis()+rapid.Int64Range(0, 2).Draw(rt, "later")), [8]byte{})
					}
					h.advance(p, segmentEvents)
				}
				positions[owner] = append(positions[owner], p)
				if err := tx.Set(eventsOf(owner).in(h.Segments.of(p)).Position(p), nil, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		}))
		for range 20 {
			owner := rapid.SampledFrom(owners).Draw(rt, "read")
			lo, hi := record.NewPosition(millis.Draw(rt, "lo"), 0, [8]byte{}), record.NewPosition(millis.Draw(rt, "hi"), 0, [8]byte{})
			st := stretch{list: eventsOf(owner), lo: lo[:], hi: hi[:], reverse: rapid.Bool().Draw(rt, "reverse"), limit: rapid.IntRange(0, 10).Draw(rt, "limit")}
			var want []record.Position
			for _, p := range slices.CompactFunc(slices.SortedFunc(slices.Values(positions[owner]), record.Position.Compare), func(p, q record.Position) bool { return p == q }) {
				if p.Compare(lo) >= 0 && p.Compare(hi) < 0 {
					want = append(want, p)
				}
			}
			if st.reverse {
				slices.Reverse(want)
			}
			if st.limit > 0 {
				want = want[:min(len(want), st.limit)]
			}
			var got []record.Position
			err := s.db.View(context.Background(), func(r kv.Reader) error {
				got = st.positions(r, heads[owner].Segments)
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				rt.Fatalf("of %s from %v to %v, reverse %v, limit %d: %v, %v; want %v", owner, lo, hi, st.reverse, st.limit, got, err, want)
			}
		}
	})
}

// TestASegmentBegins: when the newest is full, at the next millisecond, and never for an
// event below the head.
func TestASegmentBegins(t *testing.T) {
	t.Parallel()
	var h Head
	for range 3 * segmentEvents { // all in one millisecond
		h.advance(h.last.Next(time.UnixMilli(1000), [8]byte{}), segmentEvents)
	}
	if len(h.Segments) != 0 || h.recorded != 3*segmentEvents {
		t.Errorf("within a millisecond: %d segments, %d recorded, want none and %d", len(h.Segments), h.recorded, 3*segmentEvents)
	}
	h.advance(record.NewPosition(1001, 0, [8]byte{}), segmentEvents)
	if !slices.Equal(h.Segments, Segments{1001}) || h.recorded != 1 {
		t.Errorf("a millisecond later: segments %v, %d recorded, want one from 1001", h.Segments, h.recorded)
	}
	for millis := range segmentEvents {
		h.advance(record.NewPosition(int64(2000+millis), 0, [8]byte{}), segmentEvents)
	}
	if want := (Segments{1001, Segment(2000 + segmentEvents - 1)}); !slices.Equal(h.Segments, want) {
		t.Errorf("%d events later: segments %v, want %v", segmentEvents, h.Segments, want)
	}
	again, err := decodeEventHead(encodeEventHead(h))
	if err != nil || !slices.Equal(again.Segments, h.Segments) || again.recorded != h.recorded || again.last != h.last {
		t.Errorf("the head %+v comes back as %+v, %v", h, again, err)
	}
	for position, want := range map[int64]Segment{0: 0, 1000: 0, 1001: 1001, 2000: 1001, int64(h.Segments[1]): h.Segments[1], record.PositionMillisMax: h.Segments[1]} {
		if got := h.Segments.of(record.NewPosition(position, 7, [8]byte{1})); got != want {
			t.Errorf("%d ms belong to segment %d, want %d", position, got, want)
		}
	}
	for _, bad := range [][]byte{
		encodeEventHead(Head{last: record.LastPosition, Segments: Segments{5, 3}}),
		encodeEventHead(Head{last: record.LastPosition, Segments: Segments{record.PositionMillisMax + 1}}),
		encodeEventHead(Head{last: record.NewPosition(4, 0, [8]byte{}), Segments: Segments{3, 5}}),
	} {
		if h, err := decodeEventHead(bad); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("decodeEventHead(segments out of order, of time, or of the log) = %+v, %v; want ErrCorrupt", h, err)
		}
	}
}

// ImportEvery imports n events, each the given seconds after the one before, with the
// types that typ returns, and returns the second of the first.
func ImportEvery(t *testing.T, l *Log, events int, seconds int64, typ func(i int) string) int64 {
	t.Helper()
	im := must.Get(l.NewImporter("a", ImportOptions{}))(t)
	begin := l.now().Unix() - int64(events)*seconds
	for i := range events {
		line := fmt.Sprintf(`{"type":%q,"resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, typ(i), rand.IntN(3), begin+int64(i)*seconds)
		if refused, err := im.Add(context.Background(), []byte(line), 0); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(context.Background()); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	return begin
}

// TestSegmentsAreBounded lists types that an account last had long ago, in more segments
// than one page may search: pages end early, each with a cursor to continue, and together
// they miss nothing.
func TestSegmentsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	const rare = 20 // types
	events := int(segmentEvents) * rangesMax / rare * 5 / 2
	ImportEvery(t, s, events, 1, func(i int) string {
		if i < rare || i >= events-rare {
			return fmt.Sprintf("plan.rare_%d", i%rare)
		}
		return "plan.renewed"
	})
	var types []string
	for i := range rare {
		types = append(types, fmt.Sprintf("plan.rare_%d", i))
	}
	for _, ascending := range []bool{true, false} {
		f := Filter{Types: types, To: CreatedAtMax, Ascending: ascending, Limit: 100}
		found, pages := 0, 0
		for more := true; more && pages < 10; pages++ {
			page := must.Get(s.ListEvents(ctx, "a", f, nil))(t)
			found, more, f.After = found+page.Count, page.More, CursorAt(page.Next)
		}
		if found != 2*rare || pages < 3 || pages > 4 {
			t.Errorf("ascending %v: %d events on %d pages, want %d on 3 or 4", ascending, found, pages, 2*rare)
		}
	}
	if _, err := s.RecordEvent(ctx, NewEvent{Owner: "a", Resource: "r1", Type: "plan.rare_1", Object: snapshot.ObjectOf()}); err != nil {
		t.Fatal(err)
	}
	f := Filter{Types: types, To: CreatedAtMax, Ascending: true, Limit: 100, After: LatestCursor()}
	if page, err := s.ListEvents(ctx, "a", f, nil); err != nil || page.Count != 0 || page.More {
		t.Errorf("behind the newest: %d events, more %v, %v", page.Count, page.More, err)
	}
}

// TestPagesOfResourcesMissNothing has a page fill up when the entries have reached the bound of what
// one page may search: it continues after its last event.
func TestPagesOfResourcesMissNothing(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	resources := []string{"r0", "r1", "r2"}
	for i := range 17 {
		resources = append(resources, fmt.Sprintf("none_%d", i))
	}
	searched := int(segmentEvents) * rangesMax / len(resources)
	isRare := func(i int) bool { return i%14 == 0 || i%searched > searched-94 }
	want := make([]int64, 0, searched) // the seconds of the events, one event each
	for i := range 2 * searched {
		if isRare(i) {
			want = append(want, int64(i))
		}
	}
	begin := ImportEvery(t, s, 2*searched, 1, func(i int) string {
		if isRare(i) {
			return "plan.rare"
		}
		return "plan.renewed"
	})
	for _, ascending := range []bool{true, false} {
		var found []int64
		f := Filter{Types: []string{"plan.rare"}, Resources: resources, To: CreatedAtMax, Ascending: ascending, Limit: 100}
		f.Row = func(dst []byte, p record.Position, _ []byte) []byte {
			found = append(found, p.Time().Unix()-begin)
			return dst
		}
		for more := true; more; {
			page := must.Get(s.ListEvents(t.Context(), "a", f, nil))(t)
			more, f.After = page.More, CursorAt(page.Next)
		}
		if !ascending {
			slices.Reverse(found)
		}
		if !slices.Equal(found, want) {
			t.Errorf("ascending %v: the events %v, want %v", ascending, found, want)
		}
	}
}

// TestNewestFirst: a file with its newest event first fills the first segment, and events
// recorded afterwards start another.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	im := must.Get(s.NewImporter("a", ImportOptions{}))(t)
	for i := range 5 * segmentEvents {
		line := fmt.Sprintf(`{"type":"plan.renewed","resource":"r","eventData":{"object":{}},"createdAt":%d}`, s.now().Unix()-int64(i+1)*10)
		if refused, err := im.Add(ctx, []byte(line), 0); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if _, err := s.RecordEvent(ctx, NewEvent{Owner: "a", Resource: "r1", Type: "plan.renewed", Object: snapshot.ObjectOf()}); err != nil {
		t.Fatal(err)
	}
	var segments []uint64
	if err := s.db.View(ctx, func(r kv.Reader) (err error) { segments, err = SegmentsOf(r, "a"); return err }); err != nil || len(segments) != 2 {
		t.Errorf("the log has the segments %v, %v; want two", segments, err)
	}
	if n, err := s.CheckEvents(ctx, "a"); err != nil || n != int(5*segmentEvents)+1 {
		t.Errorf("CheckEvents() = %d, %v", n, err)
	}
}

// scansDB counts the ranges and rows that are read.
type scansDB struct {
	kv.DB
	scans, rows int
}

type scansReader struct {
	kv.Reader
	db *scansDB
}

func (d *scansDB) View(ctx context.Context, fn func(kv.Reader) error) error {
	return d.DB.View(ctx, func(r kv.Reader) error { return fn(scansReader{r, d}) })
}

func (r scansReader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	r.db.scans++
	return func(yield func(k, v []byte) bool) {
		for k, v := range r.Reader.Scan(rng) {
			if r.db.rows++; !yield(k, v) {
				return
			}
		}
	}
}

// TestTypesThatNoEventHas: they are looked up in one segment only, but a type of an old
// event is found in any segment.
func TestTypesThatNoEventHas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	ImportEvery(t, s, 20*int(segmentEvents), 10, func(i int) string {
		if i == 0 {
			return "plan.rare"
		}
		return "plan.renewed"
	})
	counted := &scansDB{DB: s.db}
	s.db = counted
	for _, c := range []struct {
		types         []string
		events, scans int
		unseen        []string
	}{
		{[]string{"plan.none"}, 0, 1, []string{"plan.none"}},
		{[]string{"plan.none", "plan.never"}, 0, 2, []string{"plan.never", "plan.none"}},
		{[]string{"plan.none", "plan.rare"}, 1, 2 + 19, []string{"plan.none"}},
	} {
		for _, ascending := range []bool{false, true} {
			counted.scans = 0
			page, err := s.ListEvents(ctx, "a", Filter{Types: c.types, To: CreatedAtMax, Ascending: ascending, Limit: 10}, nil)
			var unseen []string
			for _, u := range page.Unseen {
				unseen = append(unseen, u.Type)
			}
			slices.Sort(unseen)
			if err != nil || page.Count != c.events || page.More || !slices.Equal(unseen, c.unseen) {
				t.Errorf("%v, ascending %v: %d events, more %v, unseen %v, %v; want %d and unseen %v", c.types, ascending, page.Count, page.More, unseen, err, c.events, c.unseen)
			}
			if most := c.scans + len(c.unseen); counted.scans > most { // one each for the suggestion
				t.Errorf("%v, ascending %v: %d ranges read, want %d at most", c.types, ascending, counted.scans, most)
			}
		}
	}
}

// holds reports whether a range holds a key.
func holds(r kv.Range, k []byte) bool {
	return bytes.Compare(k, r.Lo) >= 0 && (r.Hi == nil || bytes.Compare(k, r.Hi) < 0)
}

// clean removes NUL from a text, which callers refuse.
func clean(text string) string { return strings.ReplaceAll(text, "\x00", "") }
