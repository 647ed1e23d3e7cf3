package eventlog

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// rows yields positions and stored values in reading order, one more than the page if
// there is one. Values are valid until the next step.
func (l *query) rows() (iter.Seq2[record.Position, []byte], error) {
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
	case !wanted.all && len(wanted.names)+len(wanted.patterns) == 0:
		return noRows, nil
	case len(l.filter.Resources) > 0:
		return l.ofResources(wanted), nil
	case wanted.all:
		return l.joined([]List{eventsOf(l.owner)}, l.filter.Limit+1, perhaps), nil
	case wanted.isSearched():
		return l.filtered(wanted, SearchedMax), nil
	case wanted.most:
		return l.filtered(wanted, filterScan*l.mergeCost(len(wanted.names))), nil
	}
	return l.ofTypes(wanted), nil
}

func noRows(func(record.Position, []byte) bool) {}

// perhaps: an empty list in one segment may have rows in another.
func perhaps(int) bool { return true }

// within is the part of a list within the bounds, at most limit rows; 0 means all.
func (l *query) within(list List, limit int) stretch {
	return stretch{list: list, lo: l.lo, hi: l.hi, reverse: l.reverse, limit: limit}
}

// ofTypes reads the lists of several types as one.
func (l *query) ofTypes(wanted wantedTypes) iter.Seq2[record.Position, []byte] {
	var lists []List
	for _, typ := range wanted.names {
		lists = append(lists, eventsOfType(l.owner, typ))
	}
	return l.joined(lists, l.filter.Limit+1, func(i int) bool { return wanted.lookedUp || l.hasType(wanted.names[i]) })
}

// joined reads several lists as one, segment by segment, with at most limit rows from
// each list and segment; 0 means all. After the first segment it drops empty lists for
// which elsewhere returns false.
func (l *query) joined(lists []List, limit int, elsewhere func(i int) bool) iter.Seq2[record.Position, []byte] {
	return func(yield func(record.Position, []byte) bool) {
		looked, none := 0, make(map[List]bool)
		rowless := func(i int) { none[lists[i]] = !elsewhere(i) }
		var before Segment
		for sg := range l.head.Segments.between(l.lo, l.hi, l.reverse) {
			if looked > 0 && looked+len(lists) > rangesMax {
				l.stopped = l.edge(before, sg)
				return
			}
			ranges := make([]kv.Range, len(lists))
			for i, list := range lists {
				ranges[i] = l.within(list, limit).in(sg)
			}
			for p, v := range l.merged(ranges, rowless) {
				if !yield(p, v) {
					return
				}
			}
			looked, before, rowless = looked+len(lists), sg, func(int) {}
			lists = slices.DeleteFunc(lists, func(list List) bool { return none[list] })
			if len(lists) == 0 || l.err != nil {
				return
			}
		}
	}
}

// edge is the position to continue from between two segments, the one just read and
// the next.
func (l *query) edge(read, next Segment) *record.Position {
	p := read.first()
	if !l.reverse {
		p = next.first().Before()
	}
	return &p
}

// rangeRows is the cost of merging one more range, in rows. Skipping a row costs as
// much as merging one. Measured, see docs/internals/performance.md.
const rangeRows = 20

// mergeCost is the cost of a page that merges that many types.
func (l *query) mergeCost(types int) int { return l.filter.Limit + 1 + rangeRows*types }

// filterIsCheaper reports whether reading the log, in which matched of total events
// are wanted, costs less than merging that many types.
func (l *query) filterIsCheaper(matched, total uint64, types int) bool {
	return uint64(l.filter.Limit+1)*total < matched*uint64(l.mergeCost(types))
}

// The bounds of the work for one page, whatever the account's history. A page that
// reaches one ends early, with a cursor.
const (
	mergedMax        = 200      // ranges merged into one
	rangesMax        = 2_000    // ranges read, over all segments
	SearchedMax      = 10_000   // rows read where no index helps
	searchedBytesMax = 16 << 20 // bytes of those rows: twice the usual size
)

// filterScan bounds the log rows to read, in multiples of the merge's cost, before
// falling back to the merge.
const filterScan = 2

// filtered reads the log and skips other types, which is cheaper than a merge when it
// skips few. Since types cluster in time it may skip many after all; then, after limit
// rows, the rest is merged, unless the types are too many.
func (l *query) filtered(wanted wantedTypes, limit int) iter.Seq2[record.Position, []byte] {
	wanted.index()
	return func(yield func(record.Position, []byte) bool) {
		looked, size := 0, 0
		var last record.Position
		for p, v := range l.within(eventsOf(l.owner), limit).rows(l.r, l.head.Segments) {
			looked, size, last = looked+1, size+len(v), p
			if l.has(wanted, v) && !yield(p, v) || l.err != nil {
				return
			}
			if size > searchedBytesMax && wanted.isSearched() {
				l.stopped = &last
				return
			}
		}
		if looked < limit {
			return // nothing is left
		}
		if wanted.isSearched() {
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

// passed removes what has been read, up to p, from the bounds.
func (l *query) passed(p record.Position) {
	if l.reverse {
		l.hi = p[:]
	} else {
		l.lo = append(p[:], 0)
	}
}

// has reports whether a stored event has a wanted type.
func (l *query) has(wanted wantedTypes, v []byte) bool {
	if wanted.all {
		return true
	}
	typ, err := typeOf(v)
	if err != nil {
		l.err = err
		return false
	}
	if _, found := wanted.set[string(typ)]; found {
		return true
	}
	return slices.ContainsFunc(wanted.patterns, func(pattern string) bool { return matchesType(pattern, string(typ)) })
}

// ofResources merges the entries of the resources and reads their events.
func (l *query) ofResources(wanted wantedTypes) iter.Seq2[record.Position, []byte] {
	limit := 0 // an entry does not hold its event's type
	if wanted.all {
		limit = l.filter.Limit + 1
	}
	var lists []List
	for _, resource := range slices.Compact(slices.Sorted(slices.Values(l.filter.Resources))) {
		lists = append(lists, eventsOfResource(l.owner, resource))
	}
	refs := l.joined(lists, limit, perhaps)
	wanted.index()
	return func(yield func(record.Position, []byte) bool) {
		looked, size := 0, 0
		var last record.Position
		for p, v := range l.referred(refs, wanted.all) {
			if looked++; looked > SearchedMax || size > searchedBytesMax {
				l.stopped = &last
				return
			}
			last, size = p, size+len(v)
			if l.has(wanted, v) && !yield(p, v) || l.err != nil {
				return
			}
		}
	}
}

// referred yields the events of entries, which it reads some at a time: with all, no more than fill a
// page.
func (l *query) referred(refs iter.Seq2[record.Position, []byte], all bool) iter.Seq2[record.Position, []byte] {
	return func(yield func(record.Position, []byte) bool) {
		atOnce := feedRowsMax
		if all {
			atOnce = min(atOnce, l.filter.Limit+1)
		}
		places, keys := make([]record.Position, 0, atOnce), make([][]byte, 0, atOnce)
		read := func() (more bool) {
			next := 0
			for i, v := range l.r.GetMany(keys) {
				if i != next {
					break
				}
				if next++; !yield(places[i], v) {
					return false
				}
			}
			if next < len(keys) {
				l.err = fmt.Errorf("%w: event by resource: its event is missing", kv.ErrCorrupt)
				return false
			}
			places, keys = places[:0], keys[:0]
			return true
		}
		for p := range refs {
			places, keys = append(places, p), append(keys, eventsOf(l.owner).in(l.head.Segments.of(p)).Position(p))
			if len(keys) == atOnce && !read() {
				return
			}
		}
		end := l.stopped // of the entries, and not of the page until all their events are on it
		l.stopped = nil
		if l.err == nil && read() {
			l.stopped = end
		}
	}
}

// merged reads ranges, each in reading order, as one, and reports which are empty.
func (l *query) merged(ranges []kv.Range, empty func(i int)) iter.Seq2[record.Position, []byte] {
	if len(ranges) == 1 {
		return l.single(ranges[0], empty)
	}
	return func(yield func(record.Position, []byte) bool) {
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
			if !yield(foremost.position, foremost.value) {
				return
			}
			m.next()
		}
	}
}

func (l *query) single(r kv.Range, empty func(i int)) iter.Seq2[record.Position, []byte] {
	return func(yield func(record.Position, []byte) bool) {
		rowless := true
		for k, v := range l.r.Scan(r) {
			rowless = false
			if !yield(record.PositionAt(k), v) {
				return
			}
		}
		if rowless {
			empty(0)
		}
	}
}

// source is a range in a merge, with its current row.
type source struct {
	next     func() (key, value []byte, ok bool)
	position record.Position
	value    []byte
}

func (s *source) step() bool {
	k, v, ok := s.next()
	if ok {
		s.position, s.value = record.PositionAt(k), v
	}
	return ok
}

// merge is a binary heap of sources; the first has the next row.
type merge struct {
	sources []*source
	reverse bool
}

func (m *merge) order() {
	for i := len(m.sources)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
}

// next advances the first source, and drops it at its end.
func (m *merge) next() {
	if !m.sources[0].step() {
		last := len(m.sources) - 1
		m.sources[0] = m.sources[last]
		m.sources = m.sources[:last]
	}
	m.down(0)
}

// down restores the heap order from index i downwards.
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
	c := bytes.Compare(m.sources[i].position[:], m.sources[j].position[:])
	return c != 0 && c < 0 != m.reverse
}
