package store

import (
	"bytes"
	"iter"
	"slices"

	"tollhouse/store/kv"
)

// rows yields places and stored values in the direction of reading. The values
// are valid until the next step.
func (l *eventList) rows() (iter.Seq2[Position, []byte], error) {
	switch types := l.filter.Types; {
	case bytes.Compare(l.lo, l.hi) >= 0:
		return func(func(Position, []byte) bool) {}, nil
	case len(types) == 0:
		return l.scan(eventsKey(l.owner)), nil
	case len(types) == 1:
		return l.scan(eventTypesKey(l.owner).str(types[0])), nil
	}
	return l.merged()
}

// scan reads one range, one row past the page to learn whether there is more.
func (l *eventList) scan(prefix key) iter.Seq2[Position, []byte] {
	r := kv.Range{
		Lo: append(slices.Clip(prefix), l.lo...), Hi: append(slices.Clip(prefix), l.hi...),
		Reverse: l.reverse, Limit: l.filter.Limit + 1,
	}
	return func(yield func(Position, []byte) bool) {
		for k, v := range l.r.Scan(r) {
			if !yield(positionAt(k), v) {
				return
			}
		}
	}
}

// merged reads the covering ranges of several types as one. A type that no
// event has costs one Get, and one that cannot have a row within the bounds no
// more than that.
func (l *eventList) merged() (iter.Seq2[Position, []byte], error) {
	var sources []*source
	for _, typ := range l.filter.Types {
		known, err := l.known(typ)
		if err != nil {
			return nil, err
		}
		if known.count > 0 && bytes.Compare(known.last[:], l.lo) >= 0 {
			sources = append(sources, &source{rows: l.scan(eventTypesKey(l.owner).str(typ))})
		}
	}
	if len(sources) == 1 {
		return sources[0].rows, nil
	}
	return func(yield func(Position, []byte) bool) {
		live := sources[:0:0]
		for _, src := range sources {
			src.next, src.stop = iter.Pull2(src.rows)
			defer src.stop()
			if src.step() {
				live = append(live, src)
			}
		}
		for len(live) > 0 {
			best := 0
			for i := 1; i < len(live); i++ {
				if c := live[i].place.Compare(live[best].place); c < 0 != l.reverse {
					best = i
				}
			}
			if !yield(live[best].place, live[best].value) {
				return
			}
			if !live[best].step() {
				live = slices.Delete(live, best, best+1)
			}
		}
	}, nil
}

// source is one of the ranges that are merged, with its foremost row.
type source struct {
	rows  iter.Seq2[Position, []byte]
	next  func() (Position, []byte, bool)
	stop  func()
	place Position
	value []byte
}

func (s *source) step() (ok bool) {
	s.place, s.value, ok = s.next()
	return ok
}
