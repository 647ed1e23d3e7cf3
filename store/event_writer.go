package store

import (
	"bytes"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

// eventWriter writes many events within one transaction. What they share, the
// head, the types and the resources, is read once and written once.
type eventWriter struct {
	tx       kv.Txn
	owner    string
	head     eventHead
	horizon  Position // before which no event is kept
	backfill *Span    // where events lie below the head that was found
	before   Position
	*writerRoom
}

// writerRoom is the memory of one eventWriter after another, of which one at a
// time is at work.
type writerRoom struct {
	eventRoom
	types     map[string]*knownType
	resources map[[2]string]*writtenResource
}

// writtenResource is a resource as the transaction leaves it.
type writtenResource struct {
	resourceRecord
	changed bool
}

func newEventWriter(tx kv.Txn, owner string, horizon Position, room *writerRoom) (*eventWriter, error) {
	if room.types == nil {
		room.types, room.resources = map[string]*knownType{}, map[[2]string]*writtenResource{}
	}
	clear(room.types)
	clear(room.resources)
	head, err := readEventHead(tx, owner)
	return &eventWriter{tx: tx, owner: owner, head: head, horizon: horizon, before: head.last, writerRoom: room}, err
}

// eventRoom is the memory in which the keys and the values of events are made.
// The engine copies them.
type eventRoom struct{ key, value []byte }

func (r *eventRoom) set(tx kv.Txn, k key, value []byte) error {
	r.key = k
	return tx.Set(k, value, time.Time{})
}

// write is [writeEvent].
func (r *eventRoom) write(tx kv.Txn, d *draft, in part, p Position, id string) error {
	r.value = d.appendWire(append(r.value[:0], eventRecord), id, p.Millis()/1000)
	if err := r.set(tx, in.append(r.key[:0], d.owner, tagEvent).position(p), r.value); err != nil {
		return err
	}
	if err := r.set(tx, in.append(r.key[:0], d.owner, tagEventType).str(d.typ).position(p), r.value); err != nil {
		return err
	}
	return r.set(tx, in.append(r.key[:0], d.owner, tagEventResource).str(d.resource).position(p), nil)
}

// add records a line, unless it was refused before or its id is taken: by
// itself, and it is unchanged, or by something else, and it is a conflict.
func (w *eventWriter) add(l *importLine) (fault *LineError, recorded bool, err error) {
	if l.refused != nil {
		return l.refused, false, nil
	}
	id, place := l.foreign, l.place
	if id == "" {
		id = place.String()
	} else if place, err = readForeign(w.tx, w.owner, id); isAbsent(err) {
		place, err = l.place, nil
	}
	if err != nil {
		return nil, false, err
	}
	if place.Compare(w.horizon) < 0 {
		// It may have become too old while it waited for its batch.
		return lineError(l, tooOld(w.horizon)), false, nil
	}
	if place.Compare(w.head.last) > 0 {
		return nil, true, w.record(l, id) // nothing lies behind the head
	}
	found, err := w.tx.Get(eventsOf(w.owner).in(w.head.parts.of(place)).position(place))
	if err == nil {
		if bytes.Equal(found, l.draft.record(id, l.createdAt)) {
			return nil, false, nil
		}
		return lineError(l, &conflictError{id}), false, nil
	}
	if !isAbsent(err) {
		return nil, false, err
	}
	// Whoever reads on from below what retention removed is told that something
	// is missing there, and retention never looks there again: nothing may come
	// to lie there, even where events are kept for longer since.
	if place.Compare(w.head.removed) <= 0 {
		return lineError(l, invalid("createdAt", "import it into another account",
			"createdAt lies before the events of this account that were removed because of their age, up to %d", w.head.removed.Millis()/1000)), false, nil
	}
	return nil, true, w.record(l, id)
}

func (w *eventWriter) record(l *importLine, id string) error {
	if l.place.Compare(w.head.last) > 0 {
		w.head.advance(l.place)
	} else if w.head.parts.index(l.place[:]) == len(w.head.parts) {
		w.head.recorded++
	}
	if err := w.write(w.tx, l.draft, w.head.parts.of(l.place), l.place, id); err != nil {
		return err
	}
	if l.foreign != "" {
		if err := w.tx.Set(eventForeignKey(w.owner, id), encodeForeign(l.place), time.Time{}); err != nil {
			return err
		}
	}
	if l.place.Compare(w.before) <= 0 { // at it lies one that was purged
		w.backfill = w.backfill.join(&Span{l.place, l.place})
	}
	if err := w.count(l.draft.typ, l.place); err != nil {
		return err
	}
	return w.setResource(l)
}

func (w *eventWriter) count(typ string, p Position) error {
	known := w.types[typ]
	if known == nil {
		read, err := readKnownType(w.tx, w.owner, typ)
		if err != nil {
			return err
		}
		known = &read
		w.types[typ] = known
	}
	known.count++
	if p.Compare(known.last) > 0 {
		known.last = p
	}
	return nil
}

// setResource makes the resource what the event says, if no later event about
// it is there. None can be in the store when the event lies behind the head that
// was found there.
func (w *eventWriter) setResource(l *importLine) error {
	name := [2]string{l.kind, l.draft.resource}
	rec := w.resources[name]
	if rec == nil {
		rec = &writtenResource{}
		if l.place.Compare(w.before) <= 0 {
			found, err := readResource(w.tx, w.owner, l.kind, l.draft.resource)
			if err != nil {
				return err
			}
			rec.resourceRecord = found
		}
		w.resources[name] = rec
	}
	if l.place.Compare(rec.last) > 0 {
		rec.resourceRecord = resourceRecord{last: l.place, event: l.foreign, removed: l.removes, json: l.snapshot}
		rec.changed = true
	}
	return nil
}

// finish writes what the events share.
func (w *eventWriter) finish() error {
	for typ, known := range w.types {
		if err := writeKnownType(w.tx, w.owner, typ, *known); err != nil {
			return err
		}
	}
	for name, rec := range w.resources {
		if !rec.changed {
			continue
		}
		w.value = appendResource(w.value[:0], rec.resourceRecord)
		if err := w.set(w.tx, append(key(w.key[:0]), tagResource).str(w.owner).str(name[0]).str(name[1]), w.value); err != nil {
			return err
		}
	}
	if w.backfill != nil {
		w.head.generation++
	}
	if len(w.types) == 0 {
		return nil // nothing was recorded
	}
	return writeEventHead(w.tx, w.owner, w.head)
}

// conflictError says that an id is taken by another event.
type conflictError struct{ id string }

func (e *conflictError) Error() string {
	return fmt.Sprintf("another event has the id %s, and events never change", e.id)
}
