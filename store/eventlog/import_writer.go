package eventlog

import (
	"bytes"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// eventWriter writes many events within one transaction. It reads the head, types and
// resources once and writes them once.
type eventWriter struct {
	segmentEvents uint64
	tx            kv.Txn
	owner         string
	head          Head
	horizon       record.Position // events before it are too old
	backfill      *Span           // covers the events recorded below the old head
	before        record.Position
	*writerArena
}

// writerArena is memory for one eventWriter after another.
type writerArena struct {
	eventArena
	types     map[string]*knownType
	resources map[[2]string]*writtenResource
	dirty     hours // with events below the old head
}

// writtenResource is a resource in the state that the transaction gives it.
type writtenResource struct {
	resourceRecord
	changed bool
}

func newEventWriter(tx kv.Txn, segmentEvents uint64, owner string, horizon record.Position, arena *writerArena) (*eventWriter, error) {
	if arena.types == nil {
		arena.types, arena.resources = map[string]*knownType{}, map[[2]string]*writtenResource{}
		arena.dirty = hours{}
	}
	clear(arena.types)
	clear(arena.resources)
	clear(arena.dirty)
	head, err := headToExtend(tx, owner)
	return &eventWriter{tx: tx, segmentEvents: segmentEvents, owner: owner, head: head, horizon: horizon, before: head.last, writerArena: arena}, err
}

// eventArena is memory for building keys and values. The engine copies them.
type eventArena struct{ key, value []byte }

func (r *eventArena) set(tx kv.Txn, k record.Key, value []byte) error {
	r.key = k
	return tx.Set(k, value, time.Time{})
}

// write is [writeEvent] in the arena's memory.
func (r *eventArena) write(tx kv.Txn, d *draft, in Segment, p record.Position, id string) error {
	r.value = d.appendWire(append(r.value[:0], eventRecord), id, p.Millis()/1000)
	if err := r.set(tx, in.Append(r.key[:0], d.owner, ListAll).Position(p), r.value); err != nil {
		return err
	}
	if err := r.set(tx, in.Append(r.key[:0], d.owner, ListByType).Str(d.typ).Position(p), r.value); err != nil {
		return err
	}
	return r.set(tx, in.Append(r.key[:0], d.owner, ListByResource).Str(d.resource).Position(p), nil)
}

// add records a line, unless it was rejected before, is already recorded, or another
// event has its id.
func (w *eventWriter) add(l *importLine) (fault *LineError, recorded bool, err error) {
	if l.refused != nil {
		return l.refused, false, nil
	}
	id, position := l.foreign, l.position
	if id == "" {
		id = position.String()
	} else if position, err = readForeign(w.tx, w.owner, id); record.IsAbsent(err) {
		position, err = l.position, nil
	}
	if err != nil {
		return nil, false, err
	}
	if position.Compare(w.horizon) < 0 {
		// It may have become too old while its batch waited.
		return lineError(l, tooOld(w.horizon)), false, nil
	}
	if position.Compare(w.head.last) > 0 {
		return nil, true, w.record(l, id) // nothing is recorded after the head
	}
	found, err := w.tx.Get(eventsOf(w.owner).in(w.head.Segments.of(position)).Position(position))
	if err == nil {
		if bytes.Equal(found, l.draft.record(id, l.createdAt)) {
			return nil, false, nil
		}
		if _, err := wireOf(found); err != nil {
			return nil, false, err
		}
		return lineError(l, &conflictError{id}), false, nil
	}
	if !record.IsAbsent(err) {
		return nil, false, err
	}
	// Readers that continue from below h.removed learn that events are missing, and
	// retention never looks there again. So nothing may be recorded there, even if
	// events are now kept for longer.
	if position.Compare(w.head.removed) <= 0 {
		return lineError(l, record.Invalid("createdAt", "import it into another account",
			"createdAt is before %d, up to which retention has removed events of this account", w.head.removed.Millis()/1000)), false, nil
	}
	return nil, true, w.record(l, id)
}

func (w *eventWriter) record(l *importLine, id string) error {
	if l.position.Compare(w.head.last) > 0 {
		w.head.advance(l.position, w.segmentEvents)
	} else if w.head.Segments.index(l.position[:]) == len(w.head.Segments) {
		w.head.recorded++
	}
	if err := w.write(w.tx, l.draft, w.head.Segments.of(l.position), l.position, id); err != nil {
		return err
	}
	if l.foreign != "" {
		if err := w.tx.Set(record.EventForeignKey(w.owner, id), encodeForeign(l.position), time.Time{}); err != nil {
			return err
		}
	}
	if l.position.Compare(w.before) <= 0 { // equal when the newest event was purged
		w.backfill = w.backfill.join(&Span{l.position, l.position})
		w.dirty.add(l.position)
	}
	if err := w.count(l.draft.typ, l.position); err != nil {
		return err
	}
	return w.setResource(l)
}

func (w *eventWriter) count(typ string, p record.Position) error {
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

// setResource sets the resource to the event's snapshot, unless a later event about it
// exists. In the store none can if the event is after the old head.
func (w *eventWriter) setResource(l *importLine) error {
	if hasNoSnapshot(l.kind) {
		return nil
	}
	name := [2]string{l.kind, l.draft.resource}
	rec := w.resources[name]
	if rec == nil {
		rec = &writtenResource{}
		if l.position.Compare(w.before) <= 0 {
			found, err := readResource(w.tx, w.owner, l.kind, l.draft.resource)
			if err != nil {
				return err
			}
			rec.resourceRecord = found
		}
		w.resources[name] = rec
	}
	if l.position.Compare(rec.last) > 0 {
		rec.resourceRecord = resourceRecord{last: l.position, event: l.foreign, removed: l.removes, json: l.snapshot}
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
		if err := w.set(w.tx, append(record.Key(w.key[:0]), record.TagResource).Str(w.owner).Str(name[0]).Str(name[1]), w.value); err != nil {
			return err
		}
	}
	if w.backfill != nil {
		w.head.generation++
	}
	if err := w.dirty.raise(w.tx, w.owner); err != nil {
		return err
	}
	if len(w.types) == 0 {
		return nil // nothing was recorded
	}
	return writeEventHead(w.tx, w.owner, w.head)
}

// conflictError means that another event has the id.
type conflictError struct{ id string }

func (e *conflictError) Error() string {
	return fmt.Sprintf("another event has the id %s, and events never change", e.id)
}
