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
	tx        kv.Txn
	owner     string
	head      eventHead
	horizon   Position // before which no event is kept
	backfill  *Span    // where events lie below the head that was found
	before    Position
	types     map[string]knownType
	resources map[[2]string]resourceRecord
	changed   map[[2]string]bool
}

func newEventWriter(tx kv.Txn, owner string, horizon Position) (*eventWriter, error) {
	head, err := readEventHead(tx, owner)
	return &eventWriter{
		tx: tx, owner: owner, head: head, horizon: horizon, before: head.last,
		types: map[string]knownType{}, resources: map[[2]string]resourceRecord{}, changed: map[[2]string]bool{},
	}, err
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
	found, err := w.tx.Get(eventsKey(w.owner).position(place))
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
	if err := writeEvent(w.tx, l.draft, l.place, id); err != nil {
		return err
	}
	if l.foreign != "" {
		if err := w.tx.Set(eventForeignKey(w.owner, id), encodeForeign(l.place), time.Time{}); err != nil {
			return err
		}
	}
	if l.place.Compare(w.head.last) > 0 {
		w.head.last = l.place
	}
	if l.place.Compare(w.before) <= 0 { // at it lies one that was purged
		w.backfill = w.backfill.join(&Span{l.place, l.place})
	}
	if err := w.count(l.draft.typ, l.place); err != nil {
		return err
	}
	return w.setResource(l)
}

func (w *eventWriter) count(typ string, p Position) (err error) {
	known, ok := w.types[typ]
	if !ok {
		if known, err = readKnownType(w.tx, w.owner, typ); err != nil {
			return err
		}
	}
	known.count++
	if p.Compare(known.last) > 0 {
		known.last = p
	}
	w.types[typ] = known
	return nil
}

// setResource makes the resource what the event says, if no later event about
// it is there. None can be in the store when the event lies behind the head that
// was found there.
func (w *eventWriter) setResource(l *importLine) (err error) {
	name := [2]string{l.kind, l.draft.resource}
	rec, ok := w.resources[name]
	if !ok && l.place.Compare(w.before) <= 0 {
		if rec, err = readResource(w.tx, w.owner, l.kind, l.draft.resource); err != nil {
			return err
		}
	}
	if l.place.Compare(rec.last) > 0 {
		rec = resourceRecord{last: l.place, event: l.foreign, removed: l.removes, json: l.snapshot}
		w.changed[name] = true
	}
	w.resources[name] = rec
	return nil
}

// finish writes what the events share.
func (w *eventWriter) finish() error {
	for typ, known := range w.types {
		if err := writeKnownType(w.tx, w.owner, typ, known); err != nil {
			return err
		}
	}
	for name := range w.changed {
		if err := writeResource(w.tx, w.owner, name[0], name[1], w.resources[name]); err != nil {
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
