package eventlog

import (
	"crypto/sha256"
	"math"
	"slices"

	"tollhouse/store/record"
)

// positions assigns the lines of one file their positions in the log.
type positions struct {
	account string
	seconds map[int64]second
	floor   int64  // seconds up to this one have been forgotten
	hashed  []byte // buffer for hashing a line
}

// second describes the lines of one second.
type second struct {
	rank uint32          // number of lines so far
	last record.Position // the position of the newest of them
}

// secondsKept bounds the memory of an import to about 32 MiB. A file sorted by time
// needs only the last second.
const secondsKept = 1 << 19

func (p *positions) init(account string) {
	p.account, p.seconds, p.floor = account, map[int64]second{}, math.MinInt64
}

// of returns the position of the next line, an event without a native id. It consists
// of the line's rank within its second and a digest of its content, so that positions
// follow the file's order and are the same in every run.
//
// Our choice: a line with a foreign id takes the least position after the line before
// it, not its rank. Its id identifies it anyway, and an export, which mixes such lines
// with others, keeps its order when imported into another store. Errors:
// *InvalidError.
func (p *positions) of(d *draft, id string, createdAt int64) (record.Position, error) {
	if createdAt <= p.floor {
		return record.Position{}, record.Invalid("createdAt", "sort the file by createdAt, or import it in parts",
			"the file is not in the order of time: more than %d different seconds are between this line and its neighbours", secondsKept)
	}
	p.hashed = append(append(p.hashed[:0], p.account...), 0)
	p.hashed = d.appendWire(p.hashed, id, createdAt)
	hash := sha256.Sum256(p.hashed)
	tail := [8]byte(hash[:])

	s := p.seconds[createdAt]
	millis, counter := createdAt*1000+int64(s.rank>>16), uint16(s.rank)
	if s.rank>>16 >= 1000 {
		return record.Position{}, record.Invalid("createdAt", "give the lines ids", "one second has more than %d lines", 1000<<16)
	}
	if id == "" {
		return record.NewPosition(millis, counter, tail), nil
	}
	least := record.NewPosition(createdAt*1000, 0, tail)
	if s.rank > 0 && least.Compare(s.last) <= 0 {
		least = s.last.Behind(tail)
	}
	if least.Millis()/1000 != createdAt { // the second is full
		return record.NewPosition(millis, counter, tail), nil
	}
	return least, nil
}

// took counts a line that parses with a createdAt, valid or not.
func (p *positions) took(createdAt int64, position record.Position) {
	if createdAt <= p.floor {
		return
	}
	s := p.seconds[createdAt]
	s.rank++
	if position.Compare(s.last) > 0 {
		s.last = position
	}
	p.seconds[createdAt] = s
	if len(p.seconds) > secondsKept {
		p.forget()
	}
}

// forget drops the older half of the seconds.
func (p *positions) forget() {
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
