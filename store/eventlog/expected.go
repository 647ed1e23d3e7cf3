package eventlog

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store/record"
)

// guesses remembers the segments of logs on an engine that several processes share, so that
// the key of an event can be named before the head of its log was read. A wrong guess finds
// nothing, and costs a round trip.
type guesses struct{ segments *lru.Cache[string, Segments] }

const guessesMax = 1 << 12 // some 100 bytes each

func (g *guesses) init(l *Log) {
	if l.others.engine == nil {
		return
	}
	var err error
	if g.segments, err = lru.New[string, Segments](guessesMax); err != nil {
		panic("eventlog: " + err.Error())
	}
}

func (g *guesses) note(owner string, h Head) {
	if g.segments != nil {
		g.segments.Add(owner, h.Segments)
	}
}

// KeysOfEvent returns the keys that FindEvent probably reads, besides the head of the log.
func (l *Log) KeysOfEvent(owner, id string) [][]byte {
	p, native := record.ParsePosition(id)
	if !native && IsID(id) {
		return [][]byte{record.EventForeignKey(owner, id)}
	}
	if segments, ok := l.guesses.segments.Get(owner); ok && native {
		return [][]byte{eventsOf(owner).in(segments.of(p)).Position(p)}
	}
	return nil
}

// KeysOfResource returns the key that FindResource reads.
func KeysOfResource(owner, kind, id string) [][]byte {
	if !IsKind(kind) || !IsID(id) {
		return nil
	}
	return [][]byte{record.ResourceKey(owner, kind, id)}
}
