package eventlog

import (
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// removeBatchMax bounds the events that one Update removes. With four records each
// (log, type and resource lists, foreign id), a known type, the head, and the counts of
// updateHoursMax hours, an Update stays below kv.UpdateWritesMax and does not block other
// writes for long.
const removeBatchMax = 150

// removeBatch is that bound for a log of many segments. When the newest event of a
// type is removed, all segments are searched for the one before it.
func (ps Segments) removeBatch() int { return max(1, removeBatchMax/(1+len(ps)/8)) }

// removable returns the first positions of a stretch that one Update may remove.
func (st stretch) removable(r kv.Reader, segments Segments) []record.Position {
	st.limit = segments.removeBatch()
	positions := st.positions(r, segments)
	hours := map[uint32]struct{}{}
	for i, p := range positions {
		if hours[ByHour.unit(p.Millis())] = struct{}{}; len(hours) > updateHoursMax {
			return positions[:i]
		}
	}
	return positions
}

// remover removes events of one account within one transaction, each from all its
// lists.
type remover struct {
	tx    kv.Txn
	owner string
	kind  string // only events of this resource kind, unless ""
	head  Head
	count int // events removed
	last  record.Position
	types map[string]*removedType
	older hourCounts
}

// removedType sums up what was removed of one type.
type removedType struct {
	count uint64
	last  record.Position
	slots map[uint32]uint64 // events
}

func newRemover(tx kv.Txn, owner, kind string) (*remover, error) {
	head, err := ReadHead(tx, owner)
	return &remover{tx: tx, owner: owner, kind: kind, head: head, types: map[string]*removedType{}, older: hourCounts{}}, err
}

// prefetch announces the events that will be removed.
func (rm *remover) prefetch(positions []record.Position) {
	remote, is := rm.tx.(kv.Prefetcher)
	if !is {
		return
	}
	var keys [][]byte
	for _, p := range positions {
		keys = append(keys, eventsOf(rm.owner).in(rm.head.Segments.of(p)).Position(p))
	}
	remote.Prefetch(keys)
}

// remove removes the event at p, if it still exists.
func (rm *remover) remove(p record.Position) error {
	sg := rm.head.Segments.of(p)
	k := eventsOf(rm.owner).in(sg).Position(p)
	v, err := rm.tx.Get(k)
	if err != nil {
		return record.GoneIsNil(err)
	}
	wire, err := wireOf(v)
	if err != nil {
		return err
	}
	names, err := namesOf(wire)
	if err != nil {
		return err
	}
	if rm.kind != "" && kindOf(names.typ) != rm.kind {
		return nil
	}
	keys := [][]byte{
		k, eventsOfType(rm.owner, names.typ).in(sg).Position(p),
		eventsOfResource(rm.owner, names.resource).in(sg).Position(p),
	}
	if names.id != p.String() {
		keys = append(keys, record.EventForeignKey(rm.owner, names.id))
	}
	if err := record.DeleteKeys(rm.tx, keys...); err != nil {
		return err
	}
	t := rm.types[names.typ]
	if t == nil {
		t = &removedType{slots: map[uint32]uint64{}}
		rm.types[names.typ] = t
	}
	t.count, t.last = t.count+1, record.LaterOf(t.last, p)
	t.slots[BySlot.unit(p.Millis())]++
	rm.count, rm.last = rm.count+1, record.LaterOf(rm.last, p)
	return nil
}

// finish updates the known types and the head, so that readers learn that pages have
// changed. With retained it also records how far retention got.
func (rm *remover) finish(retained bool) error {
	if rm.count == 0 {
		return nil
	}
	var keys [][]byte
	for typ := range rm.types {
		keys = append(keys, record.KnownTypesKey(rm.owner).Str(typ))
	}
	kv.Prefetch(rm.tx, keys)
	for typ, removed := range rm.types {
		if err := rm.uncount(typ, removed); err != nil {
			return err
		}
	}
	if err := rm.older.apply(rm.tx, rm.owner, allAccounts); err != nil {
		return err
	}
	rm.head.generation++
	if retained {
		rm.head.removed = record.LaterOf(rm.head.removed, rm.last)
		rm.head.forget()
	}
	return writeEventHead(rm.tx, rm.owner, rm.head)
}

// uncount subtracts removed events from a type's record, and deletes the record of a
// type without events.
func (rm *remover) uncount(typ string, removed *removedType) error {
	known, err := readTypeCounts(rm.tx, rm.owner, typ)
	if err != nil {
		return err
	}
	if err := known.take(removed.slots, kindOf(typ), rm.older); err != nil {
		return err
	}
	if known.count <= removed.count {
		return rm.tx.Delete(record.KnownTypesKey(rm.owner).Str(typ))
	}
	known.count -= removed.count
	if removed.last.Compare(known.last) >= 0 {
		// This Scan within an Update is rare enough to afford. It is guarded by the
		// known type's record: recording an event of the type writes it.
		before := stretch{list: eventsOfType(rm.owner, typ), hi: through(known.last), reverse: true, keysOnly: true, limit: 1}
		for p := range before.rows(rm.tx, rm.head.Segments) {
			known.last = p
		}
	}
	return writeTypeCounts(rm.tx, rm.owner, typ, known)
}

// eventNames are the texts of an event that its keys contain.
type eventNames struct{ id, resource, typ string }

// namesOf reads the names from an event's JSON, whose members are in newDraft's order.
// Errors: kv.ErrCorrupt.
func namesOf(wire []byte) (n eventNames, err error) {
	var owner, source, location string
	for _, member := range [...]*string{&n.id, &owner, &n.resource, &source, &location, &n.typ} {
		var text []byte
		if _, wire, err = cutText(wire); err != nil { // the member's name
			return eventNames{}, err
		}
		if text, wire, err = cutText(wire); err != nil {
			return eventNames{}, err
		}
		*member = string(text)
	}
	return n, nil
}

// kindOf returns the resource kind of an event type.
func kindOf(typ string) string {
	kind, _, _ := strings.Cut(typ, ".")
	return kind
}
