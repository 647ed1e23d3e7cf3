package badgerkv

// slab hands out memory in pieces of one allocation, all of which are given back
// at once. Where nothing is rewound each piece begins as zeros; what rewind gives
// back is handed out again as it was left, even after a reset.
type slab[T any] struct {
	atOnce int   // items in one allocation; none that is taken has more
	chunks [][]T // those that are in use, up to at; the length of each is what is
	at     int
}

// slabMark is how far a slab was used.
type slabMark struct{ at, length int }

// take returns n items.
func (s *slab[T]) take(n int) []T {
	for ; s.at < len(s.chunks); s.at++ {
		if chunk := s.chunks[s.at]; cap(chunk)-len(chunk) >= n {
			from := len(chunk)
			s.chunks[s.at] = chunk[:from+n]
			return chunk[from : from+n : from+n]
		}
	}
	s.chunks = append(s.chunks, make([]T, n, max(n, s.atOnce)))
	return s.chunks[s.at][:n:n]
}

func (s *slab[T]) mark() slabMark {
	if s.at == len(s.chunks) {
		return slabMark{at: s.at}
	}
	return slabMark{s.at, len(s.chunks[s.at])}
}

// rewind gives back what was taken since the mark.
func (s *slab[T]) rewind(m slabMark) {
	for i := m.at; i < len(s.chunks); i++ {
		s.chunks[i] = s.chunks[i][:0]
	}
	if s.at = m.at; m.at < len(s.chunks) {
		s.chunks[m.at] = s.chunks[m.at][:m.length]
	}
}

// reset gives back everything, and clears what is in use. What the uses since the
// last reset did not need is left to the collector, so that one large group does
// not keep its memory for good.
func (s *slab[T]) reset() {
	used := min(s.at+1, len(s.chunks))
	clear(s.chunks[used:])
	s.chunks, s.at = s.chunks[:used], 0
	for i, chunk := range s.chunks {
		clear(chunk)
		s.chunks[i] = chunk[:0]
	}
}
