package store

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"tollhouse/store/kv"
)

// rows yields places and stored values in the direction of reading, one past
// the page where there is one. The values are valid until the next step.
func (l *eventList) rows() (iter.Seq2[Position, []byte], error) {
	wanted, err := l.wantedTypes()
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Compare(l.lo, l.hi) >= 0:
		if !wanted.lookedUp {
			_, err = l.lookUp(wanted.names)
		}
		return noRows, err
	case !wanted.all && len(wanted.names) == 0:
		return noRows, nil
	case len(l.filter.Resources) > 0:
		return l.ofResources(wanted), nil
	case wanted.all:
		return l.joined([]logList{eventsOf(l.owner)}, l.filter.Limit+1, perhaps), nil
	case len(wanted.names) > mergedMax:
		return l.filtered(wanted, passedOverMax), nil
	case wanted.most:
		return l.filtered(wanted, filterScan*l.mergeCost(len(wanted.names))), nil
	}
	return l.ofTypes(wanted), nil
}

func noRows(func(Position, []byte) bool) {}

// perhaps says of a list without a row in one part that it may have some in others.
func perhaps(int) bool { return true }

// within is what lies within the bounds in a list, at most limit rows; 0 is all
// of them.
func (l *eventList) within(list logList, limit int) stretch {
	return stretch{list: list, lo: l.lo, hi: l.hi, reverse: l.reverse, limit: limit}
}

// ofTypes reads the covering lists of the types as one.
func (l *eventList) ofTypes(wanted wantedTypes) iter.Seq2[Position, []byte] {
	var lists []logList
	for _, typ := range wanted.names {
		lists = append(lists, eventsOfType(l.owner, typ))
	}
	return l.joined(lists, l.filter.Limit+1, func(i int) bool { return wanted.lookedUp || l.hasType(wanted.names[i]) })
}

// joined reads lists as one, part by part, of each list and part at most limit
// rows; 0 is all of them. Of the lists that have no row in the first part it reads
// on only those that elsewhere says may have some in others.
func (l *eventList) joined(lists []logList, limit int, elsewhere func(i int) bool) iter.Seq2[Position, []byte] {
	return func(yield func(Position, []byte) bool) {
		looked, none := 0, make(map[logList]bool)
		rowless := func(i int) { none[lists[i]] = !elsewhere(i) }
		var before part
		for pt := range l.head.parts.between(l.lo, l.hi, l.reverse) {
			if looked > 0 && looked+len(lists) > rangesMax {
				l.stopped = l.edge(before, pt)
				return
			}
			ranges := make([]kv.Range, len(lists))
			for i, list := range lists {
				ranges[i] = l.within(list, limit).in(pt)
			}
			for p, v := range l.merged(ranges, rowless) {
				if !yield(p, v) {
					return
				}
			}
			looked, before, rowless = looked+len(lists), pt, func(int) {}
			lists = slices.DeleteFunc(lists, func(list logList) bool { return none[list] })
			if len(lists) == 0 || l.err != nil {
				return
			}
		}
	}
}

// edge is the place to go on from between two parts, of which one was read and
// the other comes next.
func (l *eventList) edge(read, next part) *Position {
	p := read.first()
	if !l.reverse {
		p = next.first().before()
	}
	return &p
}

// rangeRows is what it costs to merge one more range, in rows that are looked at;
// to look at a row and pass over it costs as much as to merge one. Measured, see
// docs/decisions.md.
const rangeRows = 20

// mergeCost is the cost of a page by merging the ranges of so many types.
func (l *eventList) mergeCost(types int) int { return l.filter.Limit + 1 + rangeRows*types }

// filterIsCheaper reports whether a page costs less by reading the log, of which
// matched events of total are wanted, than by merging so many types.
func (l *eventList) filterIsCheaper(matched, total uint64, types int) bool {
	return uint64(l.filter.Limit+1)*total < matched*uint64(l.mergeCost(types))
}

// The bounds of the work for one page, whatever an account's history is like. A
// page that reaches them ends early, with a cursor to go on from.
const (
	mergedMax     = 200    // ranges merged into one
	rangesMax     = 2_000  // ranges looked into, part by part
	passedOverMax = 10_000 // rows looked at, where no index leads to the wanted ones
)

// filterScan bounds the rows of the log that are looked at, in costs of the
// merge, before the rest is merged after all.
const filterScan = 2

// filtered reads the log and leaves out other types: cheaper than a merge when
// few are left out. Where many are after all, since types gather in times, the
// rest is merged behind limit rows, unless the types are too many.
func (l *eventList) filtered(wanted wantedTypes, limit int) iter.Seq2[Position, []byte] {
	wanted.index()
	return func(yield func(Position, []byte) bool) {
		looked := 0
		var last Position
		for p, v := range l.within(eventsOf(l.owner), limit).rows(l.r, l.head.parts) {
			looked++
			last = p
			if l.has(wanted, v) && !yield(p, v) || l.err != nil {
				return
			}
		}
		if looked < limit {
			return // there is no more
		}
		if len(wanted.names) > mergedMax {
			l.stopped = &last
			return
		}
		l.passed(last)
		for p, v := range l.ofTypes(wanted) {
			if !yield(p, v) {
				return
			}
		}
	}
}

// passed takes from the bounds what has been read up to p.
func (l *eventList) passed(p Position) {
	if l.reverse {
		l.hi = p[:]
	} else {
		l.lo = append(p[:], 0)
	}
}

// has reports whether a stored event is of a wanted type.
func (l *eventList) has(wanted wantedTypes, v []byte) bool {
	if wanted.all {
		return true
	}
	typ, err := typeOf(v)
	if err != nil {
		l.err = err
		return false
	}
	_, found := wanted.set[string(typ)]
	return found
}

// ofResources reads the marks under the resources as one, and gets the events
// that they stand for.
func (l *eventList) ofResources(wanted wantedTypes) iter.Seq2[Position, []byte] {
	limit := 0 // a mark does not tell its event's type
	if wanted.all {
		limit = l.filter.Limit + 1
	}
	var lists []logList
	for _, resource := range slices.Compact(slices.Sorted(slices.Values(l.filter.Resources))) {
		lists = append(lists, eventsOfResource(l.owner, resource))
	}
	marks := l.joined(lists, limit, perhaps)
	wanted.index()
	return func(yield func(Position, []byte) bool) {
		looked := 0
		var last Position
		for p := range marks {
			if looked++; looked > passedOverMax {
				l.stopped = &last
				return
			}
			last = p
			v, err := l.r.Get(eventsOf(l.owner).in(l.head.parts.of(p)).position(p))
			if isAbsent(err) {
				err = fmt.Errorf("%w: event by resource: its event is missing", kv.ErrCorrupt)
			}
			if err != nil {
				l.err = err
				return
			}
			if l.has(wanted, v) && !yield(p, v) || l.err != nil {
				return
			}
		}
	}
}

// merged joins ranges, each in the direction of reading, into one. It says which
// of them are found empty.
func (l *eventList) merged(ranges []kv.Range, empty func(i int)) iter.Seq2[Position, []byte] {
	if len(ranges) == 1 {
		return l.single(ranges[0], empty)
	}
	return func(yield func(Position, []byte) bool) {
		m := merge{reverse: l.reverse, sources: make([]*source, 0, len(ranges))}
		for i, r := range ranges {
			src := &source{}
			var stop func()
			src.next, stop = kv.Pull(l.r, r)
			defer stop()
			if src.step() {
				m.sources = append(m.sources, src)
			} else {
				empty(i)
			}
		}
		m.order()
		for len(m.sources) > 0 {
			foremost := m.sources[0]
			if !yield(foremost.place, foremost.value) {
				return
			}
			m.next()
		}
	}
}

// single reads one range, which needs no merge.
func (l *eventList) single(r kv.Range, empty func(i int)) iter.Seq2[Position, []byte] {
	return func(yield func(Position, []byte) bool) {
		rowless := true
		for k, v := range l.r.Scan(r) {
			rowless = false
			if !yield(positionAt(k), v) {
				return
			}
		}
		if rowless {
			empty(0)
		}
	}
}

// source is one of the ranges that are merged, with its foremost row.
type source struct {
	next  func() (key, value []byte, ok bool)
	place Position
	value []byte
}

func (s *source) step() bool {
	k, v, ok := s.next()
	if ok {
		s.place, s.value = positionAt(k), v
	}
	return ok
}

// merge is a heap of sources: each is before those at twice its index and one or
// two more, so that the first is before all.
type merge struct {
	sources []*source
	reverse bool
}

func (m *merge) order() {
	for i := len(m.sources)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
}

// next steps the first source, and drops it at its end.
func (m *merge) next() {
	if !m.sources[0].step() {
		last := len(m.sources) - 1
		m.sources[0] = m.sources[last]
		m.sources = m.sources[:last]
	}
	m.down(0)
}

// down moves a source behind those that are before it.
func (m *merge) down(i int) {
	for {
		first := 2*i + 1
		if first >= len(m.sources) {
			return
		}
		if second := first + 1; second < len(m.sources) && m.before(second, first) {
			first = second
		}
		if !m.before(first, i) {
			return
		}
		m.sources[i], m.sources[first] = m.sources[first], m.sources[i]
		i = first
	}
}

func (m *merge) before(i, j int) bool {
	c := bytes.Compare(m.sources[i].place[:], m.sources[j].place[:])
	return c != 0 && c < 0 != m.reverse
}
