package store

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"tollhouse/store/kv"
)

// The log of an account lies in parts: some 200,000 events with the lists that
// they are found by, then the next so many with theirs. So what is recorded lies
// behind all that was recorded before its part began, and the engine, which writes
// anew whatever lies between the ends of what it merges, leaves the older parts
// alone. While each list was one, from the first event to the newest, to record an
// event cost the more the more there were; measured, see docs/decisions.md.
//
// The first part has the keys of a log that is not parted, as most never are:
//
//	e str(owner) pos16 · y str(owner) str(type) pos16 · z str(owner) str(resource) pos16
//
// and every later one those, behind the first millisecond that it may hold:
//
//	E start6 str(owner) e pos16 · E start6 str(owner) y str(type) pos16 · E start6 str(owner) z str(resource) pos16
//
// The head of the log knows where its parts begin. An event lies in one part and
// never in another, whatever is recorded or removed.

// partEvents is how many events are recorded into the newest part before the next
// begins; history that is imported later may make a part larger. Tests have it
// small, so that every list crosses from part to part. Measured, see
// docs/decisions.md.
var partEvents uint64 = 200_000

// part names a part of a log by the first millisecond that it may hold; the first
// part is 0.
type part uint64

const partSize = 6 // bytes of a part in a key

// logParts are the parts of a log, in order, but for the first, which every log
// has.
type logParts []part

// of returns the part of a place.
func (ps logParts) of(p Position) part { return ps.at(ps.index(p[:])) }

// index counts the parts that begin at or before the place that bound is, or
// begins with.
func (ps logParts) index(bound []byte) int {
	var place [8]byte
	copy(place[:partSize], bound)
	millis := part(binary.BigEndian.Uint64(place[:]) >> 16)
	i, begins := slices.BinarySearch(ps, millis)
	if begins {
		i++
	}
	return i
}

func (ps logParts) at(index int) part {
	if index == 0 {
		return 0
	}
	return ps[index-1]
}

// between yields the parts that may hold places in [lo, hi), in the direction of
// reading.
func (ps logParts) between(lo, hi []byte, reverse bool) iter.Seq[part] {
	return func(yield func(part) bool) {
		if bytes.Compare(lo, hi) >= 0 {
			return
		}
		first, last := ps.index(lo), ps.index(hi)
		for n := range last - first + 1 {
			i := first + n
			if reverse {
				i = last - n
			}
			if !yield(ps.at(i)) {
				return
			}
		}
	}
}

// first is the least place that the part may hold.
func (pt part) first() Position { return newPosition(int64(pt), 0, [8]byte{}) }

// append appends what the keys of one list of an owner's begin with in the part.
func (pt part) append(k key, owner string, tag byte) key {
	if pt == 0 {
		return append(k, tag).str(owner)
	}
	var start [8]byte
	binary.BigEndian.PutUint64(start[:], uint64(pt)<<16)
	return append(append(append(k, tagLogPart), start[:partSize]...).str(owner), tag)
}

// advance takes the head to the place of a newer event. That begins a part when
// there are enough in the newest; one millisecond is never parted.
func (h *eventHead) advance(p Position) {
	if h.recorded >= partEvents && p.Millis() > h.last.Millis() {
		h.parts, h.recorded = append(h.parts, part(p.Millis())), 0
	}
	h.recorded++
	h.last = p
}

// forget drops the parts in which retention has left nothing.
func (h *eventHead) forget() {
	for len(h.parts) > 1 && h.parts[1].first().Compare(h.removed) <= 0 {
		h.parts = h.parts[1:]
	}
}

// logLists are the tags of the lists that lie in parts.
var logLists = []byte{tagEvent, tagEventType, tagEventResource}

// logList is one of the lists of an account's log: all events, those of a type,
// or the marks of a resource.
type logList struct {
	tag         byte
	owner, name string
}

func eventsOf(owner string) logList             { return logList{tagEvent, owner, ""} }
func eventsOfType(owner, typ string) logList    { return logList{tagEventType, owner, typ} }
func eventsOfResource(owner, id string) logList { return logList{tagEventResource, owner, id} }

// in returns what the keys of the list begin with in a part.
func (l logList) in(pt part) key {
	k := pt.append(make(key, 0, 96), l.owner, l.tag)
	if l.tag == tagEvent {
		return k
	}
	return k.str(l.name)
}

// stretch is what lies between two bounds of places, [lo, hi), in one list. An
// empty lo is the beginning.
type stretch struct {
	list     logList
	lo, hi   []byte
	reverse  bool
	keysOnly bool
	limit    int // of rows; 0 is all
}

// in is the range of the stretch in a part.
func (st stretch) in(pt part) kv.Range {
	prefix := st.list.in(pt)
	return kv.Range{
		Lo: append(slices.Clip(prefix), st.lo...), Hi: append(slices.Clip(prefix), st.hi...),
		Reverse: st.reverse, KeysOnly: st.keysOnly, Limit: st.limit,
	}
}

// rows yields places and values in the direction of reading, part by part. The
// values are valid until the next step.
func (st stretch) rows(r kv.Reader, parts logParts) iter.Seq2[Position, []byte] {
	return func(yield func(Position, []byte) bool) {
		rest := st
		for pt := range parts.between(st.lo, st.hi, st.reverse) {
			for k, v := range r.Scan(rest.in(pt)) {
				if !yield(positionAt(k), v) {
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

// places returns the places of the stretch.
func (st stretch) places(r kv.Reader, parts logParts) (places []Position) {
	st.keysOnly = true
	for p := range st.rows(r, parts) {
		places = append(places, p)
	}
	return places
}

// through returns the bound behind a place.
func through(p Position) []byte { return append(p[:], 0) }

// outOfPart returns the part of a key of tagLogPart, and the key that it would have
// in the first.
func outOfPart(k []byte) (pt part, whole key, fits bool) {
	const front = 1 + partSize
	if len(k) < front || k[0] != tagLogPart {
		return 0, nil, false
	}
	var start [8]byte
	copy(start[2:], k[1:front])
	pt = part(binary.BigEndian.Uint64(start[:]))
	owner, rest, ended := bytes.Cut(k[front:], []byte{0})
	if pt == 0 || !ended || len(rest) == 0 || bytes.IndexByte(logLists, rest[0]) < 0 {
		return 0, nil, false
	}
	return pt, append(newKey(rest[0]).str(string(owner)), rest[1:]...), true
}
