package eventlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"tollhouse/store/record"
)

// eventLog is what a Verifier knows of one account's events. It reads events before
// the lists, so it knows exactly which entries each list must have. It keeps only a
// sum of them, a few bytes for any number of events.
type eventLog struct {
	erasing     bool // in batches: the remains may be inconsistent
	events      int64
	first, last record.Position
	headed      bool
	segments    map[Segment]*segmentEnds
	wanted      map[byte]sum
	found       map[byte]sum
	types       map[string]knownType
}

// segmentEnds are the first and last position seen in a segment.
type segmentEnds struct{ first, last record.Position }

// sum represents a set: the sum of its members' hashes under two random seeds. Sets
// with equal sums are equal.
type sum struct {
	count int64
	a, b  uint64
}

// Names of the lists of events, for messages.
var listNames = map[byte]string{
	ListByType: "the list by type", ListByResource: "the list by resource", record.TagEventForeign: "the list of ids given elsewhere",
}

// Verifier checks the log records of all accounts in key order: events come before
// their lists.
type Verifier struct {
	seeds [2]maphash.Seed
	logs  map[string]*eventLog
	feed  record.Position // of its last entry, until its head was checked
}

// NewVerifier returns a Verifier that has seen no record.
func NewVerifier() *Verifier {
	return &Verifier{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, logs: map[string]*eventLog{}}
}

func (v *Verifier) log(owner string) *eventLog {
	if l := v.logs[owner]; l != nil {
		return l
	}
	l := &eventLog{segments: map[Segment]*segmentEnds{}, wanted: map[byte]sum{}, found: map[byte]sum{}, types: map[string]knownType{}}
	v.logs[owner] = l
	return l
}

// add adds an entry to a list's set.
func (v *Verifier) add(to map[byte]sum, list byte, k, value []byte) {
	s := to[list]
	s.count++
	s.a += hashEntry(v.seeds[0], k, value)
	s.b += hashEntry(v.seeds[1], k, value)
	to[list] = s
}

func hashEntry(seed maphash.Seed, k, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = h.WriteByte(byte(len(k)))
	_ = h.WriteByte(byte(len(k) >> 8))
	_, _ = h.Write(k)
	_, _ = h.Write(value)
	return h.Sum64()
}

// InLog checks an event or an entry of a list.
func (v *Verifier) InLog(k, value []byte) error {
	in, list, p, fits := cutLogKey(k)
	if !fits {
		return record.ErrKeyShape
	}
	if list.tag == ListAll {
		return v.event(in, list.owner, p, value)
	}
	v.add(v.log(list.owner).found, list.tag, k, value)
	return nil
}

// event checks an event and notes the list entries that it needs.
func (v *Verifier) event(in Segment, owner string, p record.Position, value []byte) error {
	if err := checkEvent(owner, p, value); err != nil {
		return fmt.Errorf("%w (%v of account %s)", err, p, owner)
	}
	names, err := namesOf(value[1:])
	if err != nil {
		return fmt.Errorf("%w (%v of account %s)", err, p, owner)
	}
	l := v.log(owner)
	l.saw(in, p)
	v.add(l.wanted, ListByType, eventsOfType(owner, names.typ).in(in).Position(p), value)
	v.add(l.wanted, ListByResource, eventsOfResource(owner, names.resource).in(in).Position(p), nil)
	if names.id != p.String() {
		v.add(l.wanted, record.TagEventForeign, record.EventForeignKey(owner, names.id), encodeForeign(p))
	}
	t := l.types[names.typ]
	l.types[names.typ] = knownType{count: t.count + 1, last: record.LaterOf(t.last, p)}
	return nil
}

// saw notes an event's position.
func (l *eventLog) saw(in Segment, p record.Position) {
	if l.events == 0 {
		l.first = p
	}
	l.events, l.last = l.events+1, p
	ends := l.segments[in]
	if ends == nil {
		ends = &segmentEnds{first: p}
		l.segments[in] = ends
	}
	ends.last = p
}

// checkEvent checks that value is the owner's event at position p.
func checkEvent(owner string, p record.Position, value []byte) error {
	wire, err := wireOf(value)
	if err != nil {
		return err
	}
	if !json.Valid(wire) {
		return record.Damaged("event record: not valid JSON")
	}
	_, rest, _ := bytes.Cut(wire, []byte(`,"owner":"`))
	if !bytes.HasPrefix(rest, append([]byte(owner), '"')) {
		return record.Damaged("event record: belongs to another account")
	}
	createdAt := wire[bytes.LastIndexByte(wire, ':')+1 : len(wire)-1]
	if seconds, err := strconv.ParseInt(string(createdAt), 10, 64); err != nil || seconds != p.Millis()/1000 {
		return record.Damaged("event record: createdAt disagrees with its position")
	}
	return nil
}

// Foreign checks an entry of the list of foreign ids.
func (v *Verifier) Foreign(owner string, k, value []byte) error {
	v.add(v.log(owner).found, record.TagEventForeign, k, value)
	return nil
}

// Head checks an account's head against its events.
func (v *Verifier) Head(owner string, value []byte) error {
	h, err := decodeEventHead(value)
	if err != nil {
		return err
	}
	l := v.log(owner)
	l.headed = true
	if l.events > 0 && !l.erasing && (l.last.Compare(h.last) > 0 || l.first.Compare(h.removed) <= 0) {
		return record.Damaged("account %s: its events, %v to %v, are outside the range of its head, %v to %v", owner, l.first, l.last, h.removed, h.last)
	}
	for in, ends := range l.segments {
		if (h.Segments.of(ends.first) != in || h.Segments.of(ends.last) != in) && !l.erasing {
			return record.Damaged("account %s: its events %v to %v are in a different segment than its head says", owner, ends.first, ends.last)
		}
	}
	return nil
}

// KnownType checks the record of a type against the events of that type.
func (v *Verifier) KnownType(owner, typ string, value []byte) error {
	recorded, err := decodeTypeCounts(value)
	if err == nil {
		_, err = recorded.slots()
	}
	if err != nil {
		return err
	}
	l := v.log(owner)
	if is := l.types[typ]; recorded.knownType != is && !l.erasing {
		return record.Damaged("account %s: its log counts %d events of type %s up to %v, but contains %d up to %v", owner, recorded.count, typ, recorded.last, is.count, is.last)
	}
	delete(l.types, typ)
	return nil
}

// Erasing notes that an account is being erased in batches, so that its log may be
// inconsistent.
func (v *Verifier) Erasing(owner string) { v.log(owner).erasing = true }

// Finish makes the checks that need all records.
func (v *Verifier) Finish() error {
	if !v.feed.IsZero() {
		return record.Damaged("the feed of all accounts has entries and no head")
	}
	for owner, l := range v.logs {
		if err := l.finish(owner); err != nil {
			return err
		}
	}
	return nil
}

// FeedEntry checks an entry of the feed. Its event may have been removed.
func (v *Verifier) FeedEntry(p record.Position, value []byte) error {
	v.feed = p
	x, err := decodeFeedEntry(value)
	if err != nil {
		return err
	}
	return record.CheckAccountID(x.owner)
}

// FeedHead checks the feed's head against its entries.
func (v *Verifier) FeedHead(value []byte) error {
	h, err := decodeFeedHead(value)
	if err == nil && (v.feed.Compare(h.last) > 0 || h.removed.Compare(h.last) > 0) {
		return record.Damaged("the feed of all accounts continues after its head")
	}
	v.feed = record.Position{}
	return err
}

// finish checks that each list holds exactly the entries that the events need.
func (l *eventLog) finish(owner string) error {
	if l.erasing {
		return nil
	}
	if l.events > 0 && !l.headed {
		return record.Damaged("account %s has %d events and no head", owner, l.events)
	}
	for _, tag := range []byte{ListByType, ListByResource, record.TagEventForeign} {
		if is, want := l.found[tag], l.wanted[tag]; is != want {
			return record.Damaged("account %s: %s has %d entries and should have the %d that its events need", owner, listNames[tag], is.count, want.count)
		}
	}
	for typ, t := range l.types {
		return record.Damaged("account %s: its log does not list the type %s, which has %d events", owner, typ, t.count)
	}
	return nil
}

// Resource checks the record of a resource.
func (v *Verifier) Resource(value []byte) error {
	rec, err := decodeResource(value)
	if err == nil && !rec.removed && !json.Valid(rec.json) {
		err = record.Damaged("resource record: not valid JSON")
	}
	return err
}
