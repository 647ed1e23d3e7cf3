package eventlog

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// eventWriter writes many events within one transaction. It reads the head, types and
// resources once and writes them once.
type eventWriter struct {
	log      *Log
	tx       kv.Txn
	owner    string
	head     Head
	horizon  record.Position // events before it are too old
	backfill *Span           // covers the events recorded below the old head
	before   record.Position
	live     []record.Position // of the events recorded above the old head
	seconds  *seconds
	batch    *importBatch
	isSame   bool // the resource of the line added last exists with that object
	isMoved  bool // the head, by a resource without an event
	*writerArena
}

// writerArena is memory for one eventWriter after another.
type writerArena struct {
	eventArena
	types     map[string]*typeCounts
	resources map[[2]string]*writtenResource
	older     hourCounts // see typeCounts.add
}

// writtenResource is a resource in the state that the transaction gives it.
type writtenResource struct {
	resourceRecord
	changed bool
}

func (l *Log) newEventWriter(tx kv.Txn, owner string, arena *writerArena) (*eventWriter, error) {
	if arena.types == nil {
		arena.types, arena.resources = map[string]*typeCounts{}, map[[2]string]*writtenResource{}
		arena.older = hourCounts{}
	}
	clear(arena.types)
	clear(arena.resources)
	clear(arena.older)
	head, err := headToExtend(tx, owner)
	return &eventWriter{log: l, tx: tx, owner: owner, head: head, horizon: l.horizon(), before: head.last, writerArena: arena}, err
}

// eventArena is memory for building keys and values. The engine copies them.
type eventArena struct{ key, value []byte }

func (r *eventArena) set(tx kv.Txn, k record.Key, value []byte) error {
	r.key = k
	return tx.Set(k, value, time.Time{})
}

// write stores an event in its segment: in the log, in full under its type, and as an entry
// under its resource.
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
	if l.position.Compare(w.horizon) < 0 {
		// It may have become too old while its batch waited.
		return lineError(l, tooOld(w.horizon, l.createdAt)), false, nil
	}
	known, err := w.isKnown(l)
	switch {
	case err != nil || known:
	case l.again.fault != nil:
		return l.again.fault, false, nil
	case l.again.unchanged:
		known, w.isSame = true, !l.again.differs
	case l.resource != nil && l.resource.Silent:
		w.setSilently(l)
	default:
		err = w.record(l)
	}
	if err != nil && isLineFault(err) {
		return lineError(l, err), false, nil
	}
	return nil, err == nil && !known, err
}

// isKnown reports whether a line is an event that is recorded. If it is not, it decides
// the line's position. Errors: *InvalidError, *conflictError.
func (w *eventWriter) isKnown(l *importLine) (bool, error) {
	if l.resource != nil {
		if exists, err := w.hasResource(l); exists || err != nil || l.resource.Silent {
			return exists, err
		}
	}
	id, position, has := l.position.String(), l.position, l.native
	if l.foreign != "" {
		id = l.foreign
		recorded, err := readForeign(w.tx, w.owner, id)
		if err == nil {
			position, has = recorded, true
		} else if !record.IsAbsent(err) {
			return false, err
		}
	}
	if has && position.Compare(w.head.last) <= 0 { // nothing is recorded after the head
		found, err := w.tx.Get(eventsOf(w.owner).in(w.head.Segments.of(position)).Position(position))
		if err == nil {
			return true, w.mustBe(l, id, found)
		}
		if !record.IsAbsent(err) {
			return false, err
		}
	}
	if !l.native {
		var known bool
		var err error
		if position, known, err = w.seconds.place(w.tx, w.head, l); known || err != nil {
			return known, err
		}
	}
	// Readers that continue from below h.removed learn that events are missing, and
	// retention never looks there again. So nothing may be recorded there, even if
	// events are now kept for longer.
	if l.position.Compare(w.head.removed) <= 0 {
		return false, record.Invalid("createdAt", "import it into another account",
			"createdAt, %d, is before %d, up to which retention has removed events of this account", l.createdAt, w.head.removed.Millis()/1000)
	}
	l.placed = position
	return false, nil
}

// mustBe compares a line with the event that has its id.
func (w *eventWriter) mustBe(l *importLine, id string, found []byte) error {
	wire, err := wireOf(found)
	if err != nil {
		return err
	}
	if !bytes.Equal(wire, l.draft.record(id, l.createdAt)[1:]) {
		return &conflictError{id}
	}
	return nil
}

func (w *eventWriter) record(l *importLine) error {
	id := l.foreign
	if id == "" {
		id = l.placed.String()
	}
	if l.placed.Compare(w.head.last) > 0 {
		w.head.advance(l.placed, w.log.segmentEvents)
	} else if w.head.Segments.index(l.placed[:]) == len(w.head.Segments) {
		w.head.recorded++
	}
	if err := w.write(w.tx, &l.draft, w.head.Segments.of(l.placed), l.placed, id); err != nil {
		return err
	}
	if l.foreign != "" {
		if err := w.tx.Set(record.EventForeignKey(w.owner, id), encodeForeign(l.placed), time.Time{}); err != nil {
			return err
		}
	}
	if l.placed.Compare(w.before) <= 0 { // equal when the newest event was purged
		w.backfill = w.backfill.join(&Span{l.placed, l.placed})
	} else {
		w.live = append(w.live, l.placed)
	}
	if err := w.count(l); err != nil {
		return err
	}
	w.seconds.brought(l)
	return w.setResource(l)
}

func (w *eventWriter) count(l *importLine) error {
	known := w.types[l.draft.typ]
	if known == nil {
		read, err := readTypeCounts(w.tx, w.owner, l.draft.typ)
		if err != nil {
			return err
		}
		known, read.from = &read, slotsFrom(w.log.now())
		w.types[l.draft.typ] = known
	}
	return known.add(l.placed, l.kind, w.older)
}

// settleTypes moves the types' counts of old hours, of as many hours as there is room for. A
// batch may be within an hour, while each of its types has not occurred for other hours.
func (w *eventWriter) settleTypes() error {
	room := w.batch.bytesMax - w.tx.Written()
	for typ, known := range w.types {
		room -= len(w.owner) + len(typ) + len(known.earlier) + typeSizeMin
	}
	own := len(w.batch.hours)
	hoursMax := max(own, min(room/(hourWrites*tallySizeMax), own+(batchWritesMax-w.batch.writes)/hourWrites))
	for _, typ := range slices.Sorted(maps.Keys(w.types)) {
		if err := w.types[typ].settle(kindOf(typ), w.older, hoursMax); err != nil {
			return err
		}
	}
	return nil
}

// typeSizeMin is what the record of a type takes without names and slots, at most.
const typeSizeMin = 64

// hasResource reports whether a line's resource exists, and sets isSame.
func (w *eventWriter) hasResource(l *importLine) (bool, error) {
	rec, err := w.resource(l)
	if err != nil || !rec.exists() {
		return false, err
	}
	found, err := snapshot.Parse(rec.json, snapshot.DepthMax)
	if err != nil {
		return false, fmt.Errorf("%w: resource record: %w", record.ErrCorrupt, err)
	}
	given, err := snapshot.Parse(l.snapshot, snapshot.DepthMax)
	if err == nil && !l.resource.Silent { // what the line leaves out is as it was
		given = w.log.Rules().Complete(l.kind, l.draft.resource, l.resource.Object, found, "")
	}
	w.isSame = found.Equal(given)
	return true, err
}

// resource returns the resource of a line as it stands in the transaction.
func (w *eventWriter) resource(l *importLine) (*writtenResource, error) {
	name := [2]string{l.kind, l.draft.resource}
	if rec := w.resources[name]; rec != nil {
		return rec, nil
	}
	found, err := readResource(w.tx, w.owner, l.kind, l.draft.resource)
	if err != nil {
		return nil, err
	}
	rec := &writtenResource{resourceRecord: found}
	w.resources[name] = rec
	return rec, nil
}

// setSilently sets the resource of a line without an event. Its position is that of an event of
// which none exists.
func (w *eventWriter) setSilently(l *importLine) {
	w.head.last, w.isMoved = w.head.last.Next(w.log.now(), l.digest.tail()), true
	rec := w.resources[[2]string{l.kind, l.draft.resource}] // isKnown has read it
	rec.resourceRecord, rec.changed = resourceRecord{last: w.head.last, json: l.snapshot}, true
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
		if l.placed.Compare(w.before) <= 0 {
			found, err := readResource(w.tx, w.owner, l.kind, l.draft.resource)
			if err != nil {
				return err
			}
			rec.resourceRecord = found
		}
		w.resources[name] = rec
	}
	if l.placed.Compare(rec.last) > 0 {
		rec.resourceRecord = resourceRecord{last: l.placed, event: l.foreign, removed: l.removes, json: l.snapshot}
		rec.changed = true
	}
	return nil
}

// finish writes what the events share.
func (w *eventWriter) finish() error {
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
	if err := w.settleTypes(); err != nil {
		return err
	}
	for typ, known := range w.types {
		if err := writeTypeCounts(w.tx, w.owner, typ, *known); err != nil {
			return err
		}
	}
	if err := w.older.apply(w.tx, w.owner, allAccounts); err != nil {
		return err
	}
	if len(w.types) == 0 && !w.isMoved {
		return nil // nothing was recorded
	}
	slices.SortFunc(w.live, record.Position.Compare)
	if err := w.log.enterFeed(w.tx, &w.eventArena, w.owner, w.head, w.backfill, w.live...); err != nil {
		return err
	}
	return writeEventHead(w.tx, w.owner, w.head)
}

// conflictError means that another event has the id.
type conflictError struct{ id string }

func (e *conflictError) Error() string {
	return fmt.Sprintf("another event has the id %s, and events never change", e.id)
}
