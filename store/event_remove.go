package store

import (
	"strings"

	"tollhouse/store/kv"
)

// removeBatchMax bounds the events that one Update removes: at most four records
// each (log, type, resource mark, foreign id) and a known type, and the head,
// stay far below kv.UpdateWritesMax, and other writes need not wait long.
const removeBatchMax = 150

// removeBatch is that bound for a log of many parts: when the newest event of a
// type is removed, the one before it is looked for through all of them.
func (ps logParts) removeBatch() int { return max(1, removeBatchMax/(1+len(ps)/8)) }

// remover removes events of one account within one transaction, each with all
// by which it is found: whoever reads finds it everywhere or nowhere.
type remover struct {
	tx    kv.Txn
	owner string
	kind  string // only events of this kind of resource, unless ""
	head  eventHead
	count int // of the events removed
	last  Position
	types map[string]removedType
}

// removedType is what was removed of one type.
type removedType struct {
	count uint64
	last  Position
}

func newRemover(tx kv.Txn, owner, kind string) (*remover, error) {
	head, err := readEventHead(tx, owner)
	return &remover{tx: tx, owner: owner, kind: kind, head: head, types: map[string]removedType{}}, err
}

// remove removes the event at p, unless somebody did already.
func (rm *remover) remove(p Position) error {
	pt := rm.head.parts.of(p)
	k := eventsOf(rm.owner).in(pt).position(p)
	v, err := rm.tx.Get(k)
	if err != nil {
		return goneIsNil(err)
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
		k, eventsOfType(rm.owner, names.typ).in(pt).position(p),
		eventsOfResource(rm.owner, names.resource).in(pt).position(p),
	}
	if names.id != p.String() {
		keys = append(keys, eventForeignKey(rm.owner, names.id))
	}
	if err := deleteKeys(rm.tx, keys...); err != nil {
		return err
	}
	t := rm.types[names.typ]
	rm.types[names.typ] = removedType{count: t.count + 1, last: laterOf(t.last, p)}
	rm.count, rm.last = rm.count+1, laterOf(rm.last, p)
	return nil
}

// finish puts right what the log says of the types whose events were removed,
// and tells readers that pages are not what they were. With retained it also
// tells them how far retention came.
func (rm *remover) finish(retained bool) error {
	if rm.count == 0 {
		return nil
	}
	for typ, removed := range rm.types {
		if err := rm.uncount(typ, removed); err != nil {
			return err
		}
	}
	rm.head.generation++
	if retained {
		rm.head.removed = laterOf(rm.head.removed, rm.last)
		rm.head.forget()
	}
	return writeEventHead(rm.tx, rm.owner, rm.head)
}

// uncount takes what was removed of one type from what the log says of it. A
// type that no event has any more is no known one.
func (rm *remover) uncount(typ string, removed removedType) error {
	known, err := readKnownType(rm.tx, rm.owner, typ)
	if err != nil {
		return err
	}
	if known.count <= removed.count {
		return rm.tx.Delete(knownTypesKey(rm.owner).str(typ))
	}
	known.count -= removed.count
	if removed.last.Compare(known.last) >= 0 {
		// Rare, so that a Scan within an Update is not too dear. It is guarded:
		// whoever records an event of the type writes what was read above.
		before := stretch{list: eventsOfType(rm.owner, typ), hi: through(known.last), reverse: true, keysOnly: true, limit: 1}
		for p := range before.rows(rm.tx, rm.head.parts) {
			known.last = p
		}
	}
	return writeKnownType(rm.tx, rm.owner, typ, known)
}

func laterOf(p, q Position) Position {
	if p.Compare(q) > 0 {
		return p
	}
	return q
}

// eventNames are the texts in an event by which it is found.
type eventNames struct{ id, resource, typ string }

// namesOf reads the names out of an event on the wire, whose members stand in
// the order in which newDraft writes them. Errors: kv.ErrCorrupt.
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

// kindOf returns the kind of resource that a type of event is about.
func kindOf(typ string) string {
	kind, _, _ := strings.Cut(typ, ".")
	return kind
}
