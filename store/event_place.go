package store

import (
	"crypto/sha256"
	"math"
	"slices"
	"time"
)

// places gives the lines of one file their places in the log.
type places struct {
	account string
	seconds map[int64]second
	floor   int64  // seconds up to this one have been forgotten
	hashed  []byte // the room in which a line is hashed
}

// second is what is known of the lines of one second.
type second struct {
	rank uint32   // how many lines there were
	last Position // the place of the newest of them
}

// secondsKept bounds the memory of an import, to about 32 MiB. A file in the
// order of time needs only the last.
const secondsKept = 1 << 19

func (p *places) init(account string) {
	p.account, p.seconds, p.floor = account, map[int64]second{}, math.MinInt64
}

// of returns the place of the next line, an event without a native id: at
// first the rank of the line in its second, then a digest of what it says, so
// that the file's order is kept and another run finds the same place.
//
// Our choice: a line with an id of its own takes the least place behind the
// line before it instead of its rank. Its id finds it wherever it lies, and so
// an export, which lists such lines among others, gives the same order when it
// is read into another store. Errors: *InvalidError.
func (p *places) of(d *draft, id string, createdAt int64) (Position, error) {
	if createdAt <= p.floor {
		return Position{}, invalid("createdAt", "sort the file by createdAt, or import it in parts",
			"the file is not in the order of time: more than %d different seconds lie between this line and its neighbours", secondsKept)
	}
	p.hashed = append(append(p.hashed[:0], p.account...), 0)
	p.hashed = d.appendWire(p.hashed, id, createdAt)
	hash := sha256.Sum256(p.hashed)
	tail := [8]byte(hash[:])

	s := p.seconds[createdAt]
	millis, counter := createdAt*1000+int64(s.rank>>16), uint16(s.rank)
	if s.rank>>16 >= 1000 {
		return Position{}, invalid("createdAt", "give the lines ids of their own", "one second has more than %d lines", 1000<<16)
	}
	if id == "" {
		return newPosition(millis, counter, tail), nil
	}
	least := newPosition(createdAt*1000, 0, tail)
	if s.rank > 0 && least.Compare(s.last) <= 0 {
		least = s.last.behind(tail)
	}
	if least.Millis()/1000 != createdAt { // behind the last place of the second is none
		return newPosition(millis, counter, tail), nil
	}
	return least, nil
}

// behind returns the least position with that tail that is above p.
func (p Position) behind(tail [8]byte) Position {
	q := p
	copy(q[8:], tail[:])
	if q.Compare(p) > 0 {
		return q
	}
	return p.next(time.UnixMilli(0), tail)
}

// took notes a line that parses with a createdAt; every such line counts.
func (p *places) took(createdAt int64, place Position) {
	if createdAt <= p.floor {
		return
	}
	s := p.seconds[createdAt]
	s.rank++
	if place.Compare(s.last) > 0 {
		s.last = place
	}
	p.seconds[createdAt] = s
	if len(p.seconds) > secondsKept {
		p.forget()
	}
}

// forget drops the older half of the seconds.
func (p *places) forget() {
	known := make([]int64, 0, len(p.seconds))
	for second := range p.seconds {
		known = append(known, second)
	}
	slices.Sort(known)
	for _, second := range known[:len(known)/2] {
		delete(p.seconds, second)
		p.floor = second
	}
}
