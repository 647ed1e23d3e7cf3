package eventlog

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The log of an account is divided into segments of some 200,000 events, each with its
// own lists by type and resource. New events therefore sort after all keys of older
// segments. The engine's compaction rewrites everything between the ends of what it
// merges, so it leaves older segments alone. With single lists, the cost of recording
// grew with the size of the log; measured, see docs/internals/performance.md.
//
// A key contains the first millisecond of its segment, 0 for the first segment:
//
//	E start6 str(owner) e pos16 · E start6 str(owner) y str(type) pos16 · E start6 str(owner) z str(resource) pos16
//
// The head of the log lists where its segments begin. An event never moves to another
// segment.

// segmentEventsDefault is how many events start a new segment; history imported later
// may make an older segment larger. Tests use a small value, so that every list
// crosses segments. Measured, see docs/internals/performance.md.
const segmentEventsDefault = 200_000

// Segment identifies a segment by its first millisecond; the first segment is 0.
type Segment uint64

const segmentSize = 6 // bytes in a key

// Segments are the segments of a log in order, without the first, which every log has.
type Segments []Segment

// of returns the segment of a position.
func (ps Segments) of(p record.Position) Segment { return ps.At(ps.index(p[:])) }

// index counts the segments that begin at or before bound, which is a position or
// starts with one.
func (ps Segments) index(bound []byte) int {
	var position [8]byte
	copy(position[:segmentSize], bound)
	millis := Segment(binary.BigEndian.Uint64(position[:]) >> 16)
	i, begins := slices.BinarySearch(ps, millis)
	if begins {
		i++
	}
	return i
}

func (ps Segments) At(index int) Segment {
	if index == 0 {
		return 0
	}
	return ps[index-1]
}

// between yields the segments that may hold positions in [lo, hi), in reading order.
func (ps Segments) between(lo, hi []byte, reverse bool) iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		if bytes.Compare(lo, hi) >= 0 {
			return
		}
		first, last := ps.index(lo), ps.index(hi)
		for n := range last - first + 1 {
			i := first + n
			if reverse {
				i = last - n
			}
			if !yield(ps.At(i)) {
				return
			}
		}
	}
}

// first is the least position in the segment.
func (sg Segment) first() record.Position { return record.NewPosition(int64(sg), 0, [8]byte{}) }

// Append appends the key prefix of one of the owner's lists in the segment.
func (sg Segment) Append(k record.Key, owner string, tag byte) record.Key {
	var start [8]byte
	binary.BigEndian.PutUint64(start[:], uint64(sg)<<16)
	return append(append(append(k, record.TagLog), start[:segmentSize]...).Str(owner), tag)
}

// advance moves the head to the position of a newer event, and starts a segment when
// the newest is full. Events of one millisecond are never split.
func (h *Head) advance(p record.Position, segmentEvents uint64) {
	if h.recorded >= segmentEvents && p.Millis() > h.last.Millis() {
		h.Segments, h.recorded = append(h.Segments, Segment(p.Millis())), 0
	}
	h.recorded++
	h.last = p
}

// forget drops the segments that retention has emptied.
func (h *Head) forget() {
	for len(h.Segments) > 1 && h.Segments[1].first().Compare(h.removed) <= 0 {
		h.Segments = h.Segments[1:]
	}
}

// The lists that contain an event, by the byte after the owner in their keys.
const (
	ListAll        = 'e'
	ListByType     = 'y'
	ListByResource = 'z'

	ListsOfEvent = 3
)

// List is one of the lists of an account's log: all events, the events of a type, or
// the entries of a resource.
type List struct {
	tag         byte
	owner, name string
}

func eventsOf(owner string) List             { return List{ListAll, owner, ""} }
func eventsOfType(owner, typ string) List    { return List{ListByType, owner, typ} }
func eventsOfResource(owner, id string) List { return List{ListByResource, owner, id} }

// in returns the key prefix of the list in a segment.
func (l List) in(sg Segment) record.Key {
	k := sg.Append(make(record.Key, 0, 96), l.owner, l.tag)
	if l.tag == ListAll {
		return k
	}
	return k.Str(l.name)
}

// stretch is the part of a list between two position bounds, [lo, hi). An empty lo is
// the beginning.
type stretch struct {
	list     List
	lo, hi   []byte
	reverse  bool
	keysOnly bool
	limit    int // rows; 0 means all
}

// in returns the key range of the stretch in a segment.
func (st stretch) in(sg Segment) kv.Range {
	prefix := st.list.in(sg)
	return kv.Range{
		Lo: append(slices.Clip(prefix), st.lo...), Hi: append(slices.Clip(prefix), st.hi...),
		Reverse: st.reverse, KeysOnly: st.keysOnly, Limit: st.limit,
	}
}

// rows yields positions and values in reading order, segment by segment. Values are
// valid until the next step.
func (st stretch) rows(r kv.Reader, segments Segments) iter.Seq2[record.Position, []byte] {
	return func(yield func(record.Position, []byte) bool) {
		rest := st
		for sg := range segments.between(st.lo, st.hi, st.reverse) {
			for k, v := range r.Scan(rest.in(sg)) {
				if !yield(record.PositionAt(k), v) {
					return
				}
				if st.limit == 0 {
					continue
				}
				if rest.limit--; rest.limit == 0 {
					return
				}
			}
		}
	}
}

func (st stretch) positions(r kv.Reader, segments Segments) (positions []record.Position) {
	st.keysOnly = true
	for p := range st.rows(r, segments) {
		positions = append(positions, p)
	}
	return positions
}

// through returns the bound just after a position.
func through(p record.Position) []byte { return append(p[:], 0) }

// cutLogKey splits a key with TagLog.
func cutLogKey(k []byte) (sg Segment, l List, p record.Position, fits bool) {
	const front = 1 + segmentSize
	if len(k) < front+record.PositionSize {
		return 0, List{}, record.Position{}, false
	}
	var start [8]byte
	copy(start[2:], k[1:front])
	names, position := k[front:len(k)-record.PositionSize], k[len(k)-record.PositionSize:]
	owner, rest, _ := bytes.Cut(names, []byte{0})
	if len(rest) == 0 {
		return 0, List{}, record.Position{}, false
	}
	l = List{tag: rest[0], owner: string(owner)}
	switch name, behind, ended := bytes.Cut(rest[1:], []byte{0}); l.tag {
	case ListAll:
		fits = len(rest) == 1
	case ListByType, ListByResource:
		l.name, fits = string(name), ended && len(behind) == 0
	}
	return Segment(binary.BigEndian.Uint64(start[:])), l, record.Position(position), fits
}
