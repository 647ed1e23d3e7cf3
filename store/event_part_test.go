package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store/kv"
	"tollhouse/store/snapshot"
)

// TestMain has a part of the log hold seven events, so that every test that
// records more reads and removes across parts. Benchmarks measure the parts of
// every store.
func TestMain(m *testing.M) {
	flag.Parse()
	if bench := flag.Lookup("test.bench"); bench == nil || bench.Value.String() == "" {
		partEvents = 7
	}
	os.Exit(m.Run())
}

// PartsOf returns the first milliseconds of the parts of an account's log.
func PartsOf(r kv.Reader, owner string) (starts []uint64, err error) {
	head, err := readEventHead(r, owner)
	for i := range len(head.parts) + 1 {
		starts = append(starts, uint64(head.parts.at(i)))
	}
	return starts, err
}

// ListIn returns what the keys of the events of a type, or of all, begin with in
// a part.
func ListIn(start uint64, owner, typ string) []byte {
	if typ == "" {
		return eventsOf(owner).in(part(start))
	}
	return eventsOfType(owner, typ).in(part(start))
}

// Unparted returns the record that a store of schema 2 had in place of r.
func Unparted(r kv.Record) (kv.Record, error) {
	switch r.Key[0] {
	case tagLogPart:
		_, whole, fits := outOfPart(r.Key)
		if !fits {
			return r, fmt.Errorf("%q is no key of a part", r.Key)
		}
		r.Key = whole
	case tagEventHead:
		h, err := decodeEventHead(r.Value)
		if err != nil {
			return r, err
		}
		e := newEncoder(unpartedHeadRecord)
		e.position(h.last)
		e.position(h.removed)
		e.uint(h.generation)
		r.Value = e.b
	}
	return r, nil
}

// FuzzKeysOfLog proves of the keys within later parts what FuzzKeysOfTexts does of
// others: no account, type, resource or place reaches into the range of another
// (attack 81). And a key leads to the one that it would have in the first part.
func FuzzKeysOfLog(f *testing.F) {
	f.Add("a", "b\x01c", uint64(1), []byte("0123456789abcdef"), "a\x01b", "c", uint64(2), []byte("0123456789abcdeg"))
	f.Add("a", "", uint64(1<<40), bytes.Repeat([]byte{0xff}, 16), "", "a", uint64(1<<40), make([]byte, 16))
	f.Add("e", "y", uint64(0x65), []byte{0, 0, 0}, "e", "y", uint64(0x6500), []byte{0, 0, 0x80})
	f.Fuzz(func(t *testing.T, owner, name string, start uint64, raw []byte, otherOwner, otherName string, otherStart uint64, otherRaw []byte) {
		owner, name, otherOwner, otherName = clean(owner), clean(name), clean(otherOwner), clean(otherName)
		pt, otherPart := part(start%positionMillisMax+1), part(otherStart%positionMillisMax+1)
		var p, other Position
		copy(p[:], raw)
		copy(other[:], otherRaw)
		samePart := pt == otherPart && owner == otherOwner
		for form, list := range map[string]func(owner, name string) logList{
			"event":             func(o, _ string) logList { return eventsOf(o) },
			"event by type":     eventsOfType,
			"event by resource": eventsOfResource,
		} {
			l, otherList := list(owner, name), list(otherOwner, otherName)
			k, otherKey := l.in(pt).position(p), otherList.in(otherPart).position(other)
			want := cmp.Or(cmp.Compare(pt, otherPart), cmp.Compare(owner, otherOwner), cmp.Compare(l.name, otherList.name), p.Compare(other))
			if form == "event" {
				want = cmp.Or(cmp.Compare(pt, otherPart), cmp.Compare(owner, otherOwner), p.Compare(other))
			}
			if got := bytes.Compare(k, otherKey); got != want {
				t.Fatalf("%s keys of %q %q %v and %q %q %v compare as %d, want %d", form, owner, name, p, otherOwner, otherName, other, got, want)
			}
			if inside := holds(l.in(pt).all(), otherKey); inside != (samePart && l == otherList) {
				t.Fatalf("%s key of %q %q lies in the range of %q %q: %v", form, otherOwner, otherName, owner, name, inside)
			}
			in, whole, fits := outOfPart(k)
			if !fits || in != pt || !bytes.Equal(whole, l.in(0).position(p)) {
				t.Fatalf("%s key %q is taken for %q of the part %d", form, k, whole, in)
			}
		}
		if holds(eventsOf(owner).in(pt).all(), eventsOfType(otherOwner, otherName).in(otherPart).position(other)) ||
			holds(eventsOfType(owner, name).in(pt).all(), eventsOfResource(otherOwner, otherName).in(otherPart).position(other)) {
			t.Fatal("one list lies in the range of another")
		}
	})
}

// TestParts reads stretches of logs of several accounts, each with parts of its
// own, and finds what a list of all places says.
func TestParts(t *testing.T) {
	t.Parallel()
	owners := []string{"a", "ab", "b"}
	rapid.Check(t, func(rt *rapid.T) {
		s := openTest(t)
		heads, places := map[string]*eventHead{"a": {}, "ab": {}, "b": {}}, map[string][]Position{}
		millis := rapid.Int64Range(1, 100)
		err := s.db.Update(context.Background(), func(tx kv.Txn) error {
			for n := range rapid.IntRange(0, 80).Draw(rt, "events") {
				owner := rapid.SampledFrom(owners).Draw(rt, "owner")
				h := heads[owner]
				p := newPosition(millis.Draw(rt, "millis"), uint16(n), [8]byte{})
				if rapid.Bool().Draw(rt, "behind") || p.Compare(h.last) > 0 {
					if p.Compare(h.last) <= 0 {
						p = h.last.next(time.UnixMilli(h.last.Millis()+rapid.Int64Range(0, 2).Draw(rt, "later")), [8]byte{})
					}
					h.advance(p)
				}
				places[owner] = append(places[owner], p)
				if err := tx.Set(eventsOf(owner).in(h.parts.of(p)).position(p), nil, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		for range 20 {
			owner := rapid.SampledFrom(owners).Draw(rt, "read")
			lo, hi := newPosition(millis.Draw(rt, "lo"), 0, [8]byte{}), newPosition(millis.Draw(rt, "hi"), 0, [8]byte{})
			st := stretch{list: eventsOf(owner), lo: lo[:], hi: hi[:], reverse: rapid.Bool().Draw(rt, "reverse"), limit: rapid.IntRange(0, 10).Draw(rt, "limit")}
			var want []Position
			for _, p := range slices.CompactFunc(slices.SortedFunc(slices.Values(places[owner]), Position.Compare), func(p, q Position) bool { return p == q }) {
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
			var got []Position
			err := s.db.View(context.Background(), func(r kv.Reader) error {
				got = st.places(r, heads[owner].parts)
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				rt.Fatalf("of %s from %v to %v, reverse %v, limit %d: %v, %v; want %v", owner, lo, hi, st.reverse, st.limit, got, err, want)
			}
		}
	})
}

// TestAPartBegins: when there are enough in the newest, at the first millisecond
// behind it, and never for what is recorded below the head.
func TestAPartBegins(t *testing.T) {
	t.Parallel()
	var h eventHead
	for range 3 * partEvents { // all in one millisecond
		h.advance(h.last.next(time.UnixMilli(1000), [8]byte{}))
	}
	if len(h.parts) != 0 || h.recorded != 3*partEvents {
		t.Errorf("within a millisecond: %d parts, %d recorded, want none and %d", len(h.parts), h.recorded, 3*partEvents)
	}
	h.advance(newPosition(1001, 0, [8]byte{}))
	if !slices.Equal(h.parts, logParts{1001}) || h.recorded != 1 {
		t.Errorf("a millisecond later: parts %v, %d recorded, want one from 1001", h.parts, h.recorded)
	}
	for millis := range partEvents {
		h.advance(newPosition(int64(2000+millis), 0, [8]byte{}))
	}
	if want := (logParts{1001, part(2000 + partEvents - 1)}); !slices.Equal(h.parts, want) {
		t.Errorf("%d events later: parts %v, want %v", partEvents, h.parts, want)
	}
	again, err := decodeEventHead(encodeEventHead(h))
	if err != nil || !slices.Equal(again.parts, h.parts) || again.recorded != h.recorded || again.last != h.last {
		t.Errorf("the head %+v comes back as %+v, %v", h, again, err)
	}
	for place, want := range map[int64]part{0: 0, 1000: 0, 1001: 1001, 2000: 1001, int64(h.parts[1]): h.parts[1], positionMillisMax: h.parts[1]} {
		if got := h.parts.of(newPosition(place, 7, [8]byte{1})); got != want {
			t.Errorf("%d ms lie in the part %d, want %d", place, got, want)
		}
	}
	for _, bad := range [][]byte{
		encodeEventHead(eventHead{last: lastPosition, parts: logParts{5, 3}}),
		encodeEventHead(eventHead{last: lastPosition, parts: logParts{positionMillisMax + 1}}),
		encodeEventHead(eventHead{last: newPosition(4, 0, [8]byte{}), parts: logParts{3, 5}}),
	} {
		if h, err := decodeEventHead(bad); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("decodeEventHead(parts out of order, of time, or of the log) = %+v, %v; want ErrCorrupt", h, err)
		}
	}
}

// importEvery imports so many events, each as many seconds behind the one before,
// of the types that typ tells, and returns the second of the first.
func importEvery(t *testing.T, s *Store, events int, seconds int64, typ func(i int) string) int64 {
	t.Helper()
	im, err := s.NewImporter("a", ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	begin := s.Now().Unix() - int64(events)*seconds
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

// TestPartsAreBounded asks for types that an account has not had for ages, among
// more parts than one page may look into: pages end early, each with a place to go
// on from, and in the end nothing is missed.
func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	const rare = 20 // types
	events := int(partEvents) * rangesMax / rare * 5 / 2
	importEvery(t, s, events, 1, func(i int) string {
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
		f := EventFilter{Types: types, To: CreatedAtMax, Ascending: ascending, Limit: 100}
		found, pages := 0, 0
		for more := true; more && pages < 10; pages++ {
			page, err := s.ListEvents(ctx, "a", f, nil)
			if err != nil {
				t.Fatal(err)
			}
			found, more, f.After = found+page.Count, page.More, CursorAt(page.Next)
		}
		if found != 2*rare || pages < 3 || pages > 4 {
			t.Errorf("ascending %v: %d events on %d pages, want %d on 3 or 4", ascending, found, pages, 2*rare)
		}
	}
	if _, err := s.RecordEvent(ctx, NewEvent{Owner: "a", Resource: "r1", Type: "plan.rare_1", Object: snapshot.ObjectOf()}); err != nil {
		t.Fatal(err)
	}
	f := EventFilter{Types: types, To: CreatedAtMax, Ascending: true, Limit: 100, After: LatestCursor()}
	if page, err := s.ListEvents(ctx, "a", f, nil); err != nil || page.Count != 0 || page.More {
		t.Errorf("behind the newest: %d events, more %v, %v", page.Count, page.More, err)
	}
}

// TestPartsEnd: what retention leaves empty is no part any more, and nothing is
// lost by that; a purge of all, and the end of the account, leave no record.
func TestPartsEnd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	const events = 100
	hours := int64(3600)
	importEvery(t, s, events, hours, func(i int) string { return fmt.Sprintf("plan.type_%d", i%5) })
	head := func() (h eventHead) {
		t.Helper()
		if err := s.db.View(ctx, func(r kv.Reader) (err error) { h, err = readEventHead(r, "a"); return err }); err != nil {
			t.Fatal(err)
		}
		return h
	}
	before := head()
	if want := int((events - 1) / partEvents); len(before.parts) != want {
		t.Fatalf("%d events lie in %d parts, want %d", events, len(before.parts)+1, want+1)
	}
	if err := s.SetRetention(ctx, 50*time.Hour); err != nil {
		t.Fatal(err)
	}
	removed, err := s.TrimEvents(ctx)
	if err != nil || removed < 40 {
		t.Fatalf("TrimEvents() = %d, %v", removed, err)
	}
	after := head()
	if len(after.parts) == 0 || after.parts[0] == before.parts[0] || !slices.Equal(after.parts, before.parts[len(before.parts)-len(after.parts):]) {
		t.Errorf("of the parts %v are left %v, want the newest", before.parts, after.parts)
	}
	if len(after.parts) > 1 && after.parts[1].first().Compare(after.removed) <= 0 {
		t.Errorf("the parts %v begin with an empty one: %v", after.parts, after.removed)
	}
	if left, err := s.CheckEvents(ctx, "a"); err != nil || left != events-removed {
		t.Errorf("%d events are left, %v; want %d", left, err, events-removed)
	}
	if _, err := s.CheckAll(ctx); err != nil {
		t.Errorf("CheckAll() = %v", err)
	}
	if gone, err := s.PurgeEvents(ctx, By{}, Purge{Account: "a"}); err != nil || gone.Events != events-removed {
		t.Errorf("PurgeEvents() = %+v, %v; want %d events", gone, err, events-removed)
	}
	if left := keysOf(t, s, "Eeyzxn"); len(left) > 0 {
		t.Errorf("a purge has left %q", left)
	}
	importEvery(t, s, events/4, hours, func(int) string { return "plan.renewed" })
	if err := s.DeleteAccount(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if left := keysOf(t, s, "Eeyzxnoh"); len(left) > 0 {
		t.Errorf("an account that was deleted has left %q", left)
	}
}

// keysOf returns the keys of some kinds.
func keysOf(t *testing.T, s *Store, kinds string) (keys []string) {
	t.Helper()
	err := s.db.View(context.Background(), func(r kv.Reader) error {
		for k := range r.Scan(kv.Range{}) {
			if strings.IndexByte(kinds, k[0]) >= 0 {
				keys = append(keys, string(k))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// cutDB refuses every Update after some.
type cutDB struct {
	kv.DB
	left int
}

var errCut = errors.New("cut short")

func (c *cutDB) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if c.left--; c.left < 0 {
		return errCut
	}
	return c.DB.Update(ctx, fn)
}

// TestDeletionBesideRetention: the deletion of an account is cut short anywhere,
// retention removes what it can, and the deletion is taken up again: nothing of the
// account is left in any part, and the store is whole.
func TestDeletionBesideRetention(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for cut := 1; cut < 60; cut += 3 {
		s := openTest(t)
		importEvery(t, s, 100, 3600, func(i int) string { return fmt.Sprintf("plan.type_%d", i%5) })
		if err := s.SetRetention(ctx, 50*time.Hour); err != nil {
			t.Fatal(err)
		}
		whole := s.db
		s.db = &cutDB{whole, cut}
		err := s.DeleteAccount(ctx, "a")
		s.db = whole
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if _, err := s.TrimEvents(ctx); err != nil {
			t.Errorf("cut at %d: TrimEvents() = %v", cut, err)
		}
		if err := s.DeleteAccount(ctx, "a"); err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if left := keysOf(t, s, "Eeyzxnoh"); len(left) > 0 {
			t.Errorf("cut at %d: %d records are left, the first %.80q", cut, len(left), left[0])
		}
		if _, err := s.CheckAll(ctx); err != nil {
			t.Errorf("cut at %d: CheckAll() = %v", cut, err)
		}
	}
}

// TestNewestFirst: a file that lists its newest event first fills the first part,
// and what is recorded after it begins another.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	im, err := s.NewImporter("a", ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 * partEvents {
		line := fmt.Sprintf(`{"type":"plan.renewed","resource":"r","eventData":{"object":{}},"createdAt":%d}`, s.Now().Unix()-int64(i+1)*10)
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
	var parts []uint64
	if err := s.db.View(ctx, func(r kv.Reader) (err error) { parts, err = PartsOf(r, "a"); return err }); err != nil || len(parts) != 2 {
		t.Errorf("the log has the parts %v, %v; want two", parts, err)
	}
	if n, err := s.CheckEvents(ctx, "a"); err != nil || n != int(5*partEvents)+1 {
		t.Errorf("CheckEvents() = %d, %v", n, err)
	}
}

// TestMisplacedPart: an event in another part than the head says is found by
// nobody, so it is damage.
func TestMisplacedPart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, move := range map[string]func(k, v []byte) (part, []byte){
		"into_the_first_part": func(k, v []byte) (part, []byte) { return 0, v },
		"into_one_that_is_none": func(k, v []byte) (part, []byte) {
			pt, _, _ := outOfPart(k)
			return pt + 1, v
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t)
			importEvery(t, s, int(partEvents)+1, 10, func(int) string { return "plan.renewed" })
			err := s.db.Update(ctx, func(tx kv.Txn) error {
				moved := 0
				var records []kv.Record
				for k, v := range tx.Scan(kv.Range{Lo: []byte{tagLogPart}, Hi: []byte{tagLogPart + 1}}) {
					records = append(records, kv.Record{Key: bytes.Clone(k), Value: bytes.Clone(v)})
				}
				for _, r := range records {
					_, whole, _ := outOfPart(r.Key)
					pt, v := move(r.Key, r.Value)
					k := whole
					if pt != 0 {
						var start [8]byte
						binary.BigEndian.PutUint64(start[:], uint64(pt)<<16)
						k = append(append([]byte{tagLogPart}, start[:partSize]...), r.Key[1+partSize:]...)
					}
					if err := errors.Join(tx.Delete(r.Key), tx.Set(k, v, time.Time{})); err != nil {
						return err
					}
					moved++
				}
				if moved != len(logLists) {
					t.Errorf("%d records moved, want %d", moved, len(logLists))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.CheckAll(ctx); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "another part of the log") {
				t.Errorf("CheckAll() = %v, want ErrCorrupt that names the part", err)
			}
		})
	}
}

// scansDB counts the ranges that are read.
type scansDB struct {
	kv.DB
	scans int
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
	return r.Reader.Scan(rng)
}

// TestTypesThatNoEventHas: they are looked for in one part, not in all; and one
// that some old event has is found wherever that is.
func TestTypesThatNoEventHas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	importEvery(t, s, 20*int(partEvents), 10, func(i int) string {
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
			page, err := s.ListEvents(ctx, "a", EventFilter{Types: c.types, To: CreatedAtMax, Ascending: ascending, Limit: 10}, nil)
			var unseen []string
			for _, u := range page.Unseen {
				unseen = append(unseen, u.Type)
			}
			slices.Sort(unseen)
			if err != nil || page.Count != c.events || page.More || !slices.Equal(unseen, c.unseen) {
				t.Errorf("%v, ascending %v: %d events, more %v, unseen %v, %v; want %d and unseen %v", c.types, ascending, page.Count, page.More, unseen, err, c.events, c.unseen)
			}
			if most := c.scans + len(c.unseen); counted.scans > most { // one each to name what may be meant
				t.Errorf("%v, ascending %v: %d ranges read, want %d at most", c.types, ascending, counted.scans, most)
			}
		}
	}
}
