package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"tollhouse/store/kv"
)

// eventLog is what a verifier knows of one account's events. They come before
// the lists that they are found by, so that each list must hold exactly what
// they call for. What they call for is not kept but summed up, in a few bytes
// for any number of events.
type eventLog struct {
	erasing     bool // in batches: what is left of it need not agree
	events      int64
	first, last Position
	headed      bool
	parts       map[part]*partEnds
	wanted      map[byte]sum
	found       map[byte]sum
	types       map[string]knownType
}

// partEnds are the first and the last place that a part of a log was seen to have.
type partEnds struct{ first, last Position }

// sum stands for a set: the sum of what its members hash to, twice, under seeds
// that nobody knows. Two sets of one sum are the same.
type sum struct {
	count int64
	a, b  uint64
}

// Names of the lists of events, for messages.
var listNames = map[byte]string{
	tagEventType: "the list by type", tagEventResource: "the list by resource", tagEventForeign: "the list of ids given elsewhere",
}

func (v *verifier) log(owner string) *eventLog {
	if l := v.logs[owner]; l != nil {
		return l
	}
	l := &eventLog{parts: map[part]*partEnds{}, wanted: map[byte]sum{}, found: map[byte]sum{}, types: map[string]knownType{}}
	v.logs[owner] = l
	return l
}

// add adds a list's entry, by the key that it would have in the first part of the
// log, to a set.
func (v *verifier) add(to map[byte]sum, k, value []byte) {
	s := to[k[0]]
	s.count++
	s.a += hashEntry(v.seeds[0], v.part, k, value)
	s.b += hashEntry(v.seeds[1], v.part, k, value)
	to[k[0]] = s
}

func hashEntry(seed maphash.Seed, in part, k, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var start [8]byte
	binary.LittleEndian.PutUint64(start[:], uint64(in))
	_, _ = h.Write(start[:])
	_ = h.WriteByte(byte(len(k)))
	_ = h.WriteByte(byte(len(k) >> 8))
	_, _ = h.Write(k)
	_, _ = h.Write(value)
	return h.Sum64()
}

// event checks an event and notes what it calls for.
func (v *verifier) event(parts keyParts, value []byte) error {
	owner, p := parts.texts[0], Position(parts.tail)
	if err := checkEvent(owner, p, value); err != nil {
		return fmt.Errorf("%w (%v of account %s)", err, p, owner)
	}
	names, err := namesOf(value[1:])
	if err != nil {
		return fmt.Errorf("%w (%v of account %s)", err, p, owner)
	}
	l := v.log(owner)
	l.saw(v.part, p)
	v.add(l.wanted, eventsOfType(owner, names.typ).in(0).position(p), value)
	v.add(l.wanted, eventsOfResource(owner, names.resource).in(0).position(p), nil)
	if names.id != p.String() {
		v.part = 0 // ids given elsewhere lie in no part
		v.add(l.wanted, eventForeignKey(owner, names.id), encodeForeign(p))
	}
	t := l.types[names.typ]
	l.types[names.typ] = knownType{count: t.count + 1, last: laterOf(t.last, p)}
	return nil
}

// saw notes an event. Those of the first part come behind all others.
func (l *eventLog) saw(in part, p Position) {
	if l.events == 0 || p.Compare(l.first) < 0 {
		l.first = p
	}
	l.events, l.last = l.events+1, laterOf(l.last, p)
	ends := l.parts[in]
	if ends == nil {
		ends = &partEnds{first: p}
		l.parts[in] = ends
	}
	ends.last = p
}

// checkEvent checks that what is stored is the event of that owner and place.
func checkEvent(owner string, p Position, value []byte) error {
	wire, err := wireOf(value)
	if err != nil {
		return err
	}
	if !json.Valid(wire) {
		return damaged("event record: it is not JSON")
	}
	_, rest, _ := bytes.Cut(wire, []byte(`,"owner":"`))
	if !bytes.HasPrefix(rest, append([]byte(owner), '"')) {
		return damaged("event record: it is another account's")
	}
	createdAt := wire[bytes.LastIndexByte(wire, ':')+1 : len(wire)-1]
	if seconds, err := strconv.ParseInt(string(createdAt), 10, 64); err != nil || seconds != p.Millis()/1000 {
		return damaged("event record: its createdAt is not that of its place")
	}
	return nil
}

// listed checks an entry of one of the lists.
func (v *verifier) listed(k []byte, parts keyParts, value []byte) error {
	v.add(v.log(parts.texts[0]).found, k, value)
	return nil
}

// head checks an account's head against its events.
func (v *verifier) head(parts keyParts, value []byte) error {
	owner := parts.texts[0]
	decode := decodeEventHead
	if v.of < schemaLogParted {
		decode = decodeUnpartedHead
	}
	h, err := decode(value)
	if err != nil {
		return err
	}
	l := v.log(owner)
	l.headed = true
	if l.events > 0 && !l.erasing && (l.last.Compare(h.last) > 0 || l.first.Compare(h.removed) <= 0) {
		return damaged("account %s: its events, %v to %v, lie outside of what its head says, %v to %v", owner, l.first, l.last, h.removed, h.last)
	}
	for in, ends := range l.parts {
		if (h.parts.of(ends.first) != in || h.parts.of(ends.last) != in) && !l.erasing {
			return damaged("account %s: its events %v to %v lie in another part of the log than its head says", owner, ends.first, ends.last)
		}
	}
	return nil
}

// knownType checks what a log says of a type against the events of it.
func (v *verifier) knownType(parts keyParts, value []byte) error {
	owner, typ := parts.texts[0], parts.texts[1]
	told, err := decodeKnownType(value)
	if err != nil {
		return err
	}
	l := v.log(owner)
	if is := l.types[typ]; told != is && !l.erasing {
		return damaged("account %s: its log counts %d events of the type %s up to %v, and there are %d up to %v", owner, told.count, typ, told.last, is.count, is.last)
	}
	delete(l.types, typ)
	return nil
}

// finish checks that each list holds what its events call for, and no more.
func (l *eventLog) finish(owner string) error {
	if l.erasing {
		return nil
	}
	if l.events > 0 && !l.headed {
		return damaged("account %s has %d events and no head", owner, l.events)
	}
	for _, tag := range []byte{tagEventType, tagEventResource, tagEventForeign} {
		if is, want := l.found[tag], l.wanted[tag]; is != want {
			return damaged("account %s: %s has %d entries that are not the %d that its events call for", owner, listNames[tag], is.count, want.count)
		}
	}
	for typ, t := range l.types {
		return damaged("account %s: its log does not know the type %s, of which there are %d events", owner, typ, t.count)
	}
	return nil
}

// resource checks a resource.
func (v *verifier) resource(_ keyParts, value []byte) error {
	rec, err := decodeResource(value)
	if err == nil && !rec.removed && !json.Valid(rec.json) {
		err = damaged("resource record: it is not JSON")
	}
	return err
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", kv.ErrCorrupt, fmt.Sprintf(format, args...))
}
