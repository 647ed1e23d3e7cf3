package store

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"tollhouse/store/secret"
)

// Position is a place in an account's event log, and at once the event's id,
// the page cursor and the stream's id: 48 bits of milliseconds since the Unix
// epoch, a 16-bit counter within the millisecond, 64 random bits. Positions
// sort as their events do, as bytes and as text.
type Position [16]byte

const (
	positionPrefix    = "evt_"
	positionMillisMax = 1<<48 - 1
)

// newPosition puts a position together.
func newPosition(millis int64, counter uint16, tail [8]byte) Position {
	var p Position
	binary.BigEndian.PutUint64(p[:8], uint64(millis)<<16|uint64(counter))
	copy(p[8:], tail[:])
	return p
}

// ParsePosition reads a native event id. Any 128 bits are a position, whether
// an event stands there or not; another spelling of the same bits is refused.
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

// Append appends what String returns.
func (p Position) Append(b []byte) []byte {
	return secret.AppendCrockford(append(b, positionPrefix...), p)
}

// Millis returns the milliseconds since the Unix epoch that p carries.
func (p Position) Millis() int64 { return int64(binary.BigEndian.Uint64(p[:8]) >> 16) }

// Time returns the moment that p carries, in UTC.
func (p Position) Time() time.Time { return time.UnixMilli(p.Millis()).UTC() }

// IsZero reports whether p is the position before every event.
func (p Position) IsZero() bool { return p == Position{} }

// Compare returns -1, 0 or 1 as p lies before, at or after q.
func (p Position) Compare(q Position) int { return bytes.Compare(p[:], q[:]) }

// next returns the position that follows p at the moment now: max(now, p + 1),
// so that commit order, createdAt order and visible order are one even when the
// clock steps back or stands still.
func (p Position) next(now time.Time, tail [8]byte) Position {
	head := binary.BigEndian.Uint64(p[:8])
	stamp := uint64(min(max(now.UnixMilli(), 0), positionMillisMax)) << 16
	if stamp <= head {
		stamp = head + 1
	}
	return newPosition(int64(stamp>>16), uint16(stamp), tail)
}

// PlaceBefore is the last position before the second of that timestamp.
func PlaceBefore(unixSeconds int64) Position {
	return firstPosition(unixSeconds).before()
}

// before is the place right before p; before the first there is none but it.
func (p Position) before() Position {
	for i := len(p) - 1; i >= 0 && !p.IsZero(); i-- {
		p[i]--
		if p[i] != 0xff {
			break
		}
	}
	return p
}

// firstPosition is the least position at or after the second of that timestamp;
// past the end of time it is the last position of all.
func firstPosition(unixSeconds int64) Position {
	millis := unixSeconds * 1000
	if unixSeconds > positionMillisMax/1000 {
		return lastPosition
	}
	return newPosition(max(millis, 0), 0, [8]byte{})
}

var lastPosition = Position{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
