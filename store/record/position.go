package record

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"tollhouse/store/secret"
)

// Position is where an event is in its account's log. It is also the event's id,
// the page cursor and the stream's event id: 48 bits of milliseconds since the Unix
// epoch, a 16-bit counter within the millisecond, and 64 random bits. Positions sort
// in log order, as bytes and as text.
type Position [16]byte

const (
	PositionSize      = len(Position{})
	positionPrefix    = "evt_"
	PositionMillisMax = 1<<48 - 1
)

// NewPosition builds a position from its three fields.
func NewPosition(millis int64, counter uint16, tail [8]byte) Position {
	var p Position
	binary.BigEndian.PutUint64(p[:8], uint64(millis)<<16|uint64(counter))
	copy(p[8:], tail[:])
	return p
}

// ParsePosition reads a native event id. Every 128-bit value is a position, with or
// without an event; only its canonical spelling is accepted.
func ParsePosition(text string) (Position, bool) {
	digits, ok := strings.CutPrefix(text, positionPrefix)
	if !ok {
		return Position{}, false
	}
	p, ok := secret.ParseCrockford(digits)
	return Position(p), ok
}

// String returns the position as an event id, `evt_` and 26 characters.
func (p Position) String() string { return string(p.Append(make([]byte, 0, 30))) }

// Append appends p's event id to b.
func (p Position) Append(b []byte) []byte {
	return secret.AppendCrockford(append(b, positionPrefix...), p)
}

// Millis returns the milliseconds since the Unix epoch that p carries.
func (p Position) Millis() int64 { return int64(binary.BigEndian.Uint64(p[:8]) >> 16) }

// Time returns the moment that p carries, in UTC.
func (p Position) Time() time.Time { return time.UnixMilli(p.Millis()).UTC() }

// IsZero reports whether p is the position before every event.
func (p Position) IsZero() bool { return p == Position{} }

// Compare returns -1, 0 or 1 when p is before, at or after q.
func (p Position) Compare(q Position) int { return bytes.Compare(p[:], q[:]) }

// Next returns the position that follows p at the time now: max(now, p + 1). Commit
// order, createdAt order and visible order therefore agree even when the clock steps
// back or stops.
func (p Position) Next(now time.Time, tail [8]byte) Position {
	head := binary.BigEndian.Uint64(p[:8])
	stamp := uint64(min(max(now.UnixMilli(), 0), PositionMillisMax)) << 16
	if stamp <= head {
		stamp = head + 1
	}
	return NewPosition(int64(stamp>>16), uint16(stamp), tail)
}

// PositionBefore returns the last position before the second unixSeconds.
func PositionBefore(unixSeconds int64) Position {
	return FirstPosition(unixSeconds).Before()
}

// Before returns the position before p, or p itself when p is zero.
func (p Position) Before() Position {
	for i := len(p) - 1; i >= 0 && !p.IsZero(); i-- {
		p[i]--
		if p[i] != 0xff {
			break
		}
	}
	return p
}

// FirstPosition returns the least position in or after the second unixSeconds, or
// LastPosition when that is out of range.
func FirstPosition(unixSeconds int64) Position {
	millis := unixSeconds * 1000
	if unixSeconds > PositionMillisMax/1000 {
		return LastPosition
	}
	return NewPosition(max(millis, 0), 0, [8]byte{})
}

// LastPosition sorts after every position of an event.
var LastPosition = Position{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// PositionAt returns the position at the end of a key.
func PositionAt(k []byte) (p Position) {
	copy(p[:], k[len(k)-len(p):])
	return p
}

// LaterOf returns the later of two positions.
func LaterOf(p, q Position) Position {
	if p.Compare(q) > 0 {
		return p
	}
	return q
}

// FeedPosition is where an entry is in the feed of all accounts: 48 bits of milliseconds and
// a 16-bit counter, which the feed takes for itself. Its bytes are followed by zeros, so that
// it compares as a Position, and it is written differently, as the two orders are not
// comparable.
const feedPositionPrefix = "fd_"

// FeedPositionSize is the size of a feed position in a key.
const FeedPositionSize = 8

// FeedPositionAt returns the feed position at the end of a key.
func FeedPositionAt(k []byte) (p Position) {
	copy(p[:], k[len(k)-FeedPositionSize:])
	return p
}

// ParseFeedPosition reads the canonical spelling of a feed position.
func ParseFeedPosition(text string) (p Position, ok bool) {
	digits, ok := strings.CutPrefix(text, feedPositionPrefix)
	if !ok {
		return p, false
	}
	n, ok := secret.ParseCrockford64(digits)
	binary.BigEndian.PutUint64(p[:FeedPositionSize], n)
	return p, ok
}

// AppendFeed appends p as a feed position to b: `fd_` and 13 characters.
func (p Position) AppendFeed(b []byte) []byte {
	return secret.AppendCrockford64(append(b, feedPositionPrefix...), binary.BigEndian.Uint64(p[:FeedPositionSize]))
}

// Behind returns the least position with that tail that is above p.
func (p Position) Behind(tail [8]byte) Position {
	q := p
	copy(q[8:], tail[:])
	if q.Compare(p) > 0 {
		return q
	}
	return p.Next(time.UnixMilli(0), tail)
}
