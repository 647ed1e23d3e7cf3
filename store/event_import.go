package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/snapshot"
)

// ImportOptions say how a file of events is recorded.
type ImportOptions struct {
	SkipErrors bool // go on after a line that is refused; else stop before it
	DryRun     bool // find every fault, record nothing
}

// ImportSummary counts the lines of an import so far.
type ImportSummary struct {
	Lines     int // taken, blank ones too
	Recorded  int
	Unchanged int // recorded by an earlier run
	Errors    int // refused
}

// LineError says why a line was refused.
type LineError struct {
	Line   int   // 1 is the first
	Offset int64 // of its first byte
	Code   string
	Param  string // the member at fault, or ""
	Reason string // a sentence without its full stop
}

// ImportLineSizeMax is the length of a line in bytes.
const ImportLineSizeMax = eventSizeMax

// Importer records a file of events, in batches each of which is committed
// whole. What is committed stays; running the file again goes on where it broke,
// since every line has the same place in every run.
//
// While one batch is committed the next is read: to understand lines and to
// store them each keep a processor busy. A batch begins only when the one before
// it has ended well.
type Importer struct {
	store   *Store
	account string
	options ImportOptions
	summary ImportSummary
	stopped bool
	places  places
	batch   *importBatch // is being filled
	spare   *importBatch // was committed, and is filled next
	outcome chan settled // of the batch that is being committed; nil when there is none
	seen    dryRun       // belongs to the commit
}

// importLine is a line that waits to be committed: an event, or its refusal.
type importLine struct {
	refused   *LineError
	number    int
	offset    int64
	draft     *draft
	kind      string
	place     Position
	foreign   string // its id when that is not native
	createdAt int64
	removes   bool
	snapshot  []byte
}

// NewImporter returns an Importer for the account, which is made with the first
// line when it does not exist. Errors: *InvalidError.
func (s *Store) NewImporter(account string, o ImportOptions) (*Importer, error) {
	if err := checkAccountID(account); err != nil {
		return nil, err
	}
	im := &Importer{store: s, account: account, options: o, batch: newImportBatch(), spare: newImportBatch()}
	im.places.init(account)
	return im, nil
}

// Summary returns the counts of what Add and Flush have settled.
func (im *Importer) Summary() ImportSummary { return im.summary }

// Stopped reports whether a refused line has ended the import.
func (im *Importer) Stopped() bool { return im.stopped }

// Add takes the next line, which begins at offset and comes without its line
// end, and has a batch committed when one is full. It returns the lines that have
// turned out to be refused meanwhile, in their order. An error is not a line's
// fault: it ends the import, and nothing tells whether the batch stands unless it
// is ErrUnavailable. Unless Add has returned one, or the import has stopped, the
// caller ends with Flush, which waits for what is still being committed.
func (im *Importer) Add(ctx context.Context, line []byte, offset int64) ([]LineError, error) {
	refused, err := im.settle(false)
	if err != nil || im.stopped {
		return refused, err
	}
	im.summary.Lines++
	if len(bytes.TrimSpace(line)) == 0 {
		return refused, nil
	}
	l := importLine{number: im.summary.Lines, offset: offset}
	if err := im.parse(ctx, line, &l); err != nil {
		more, err := im.refuse(ctx, lineError(&l, err))
		return append(refused, more...), err
	}
	if !im.batch.fits(&l) {
		more, err := im.commit(ctx)
		refused = append(refused, more...)
		if err != nil || im.stopped {
			return refused, err
		}
	}
	im.batch.hold(l)
	return refused, nil
}

// Refuse takes the next line as one that is too long to be read.
func (im *Importer) Refuse(ctx context.Context, offset int64) ([]LineError, error) {
	if im.stopped {
		return nil, nil
	}
	im.summary.Lines++
	return im.refuse(ctx, &LineError{
		Line: im.summary.Lines, Offset: offset, Code: "too_large",
		Reason: fmt.Sprintf("the line has more than %d bytes", ImportLineSizeMax),
	})
}

// refuse keeps a refusal in its place among the lines that wait.
func (im *Importer) refuse(ctx context.Context, fault *LineError) ([]LineError, error) {
	im.batch.lines = append(im.batch.lines, importLine{refused: fault})
	if im.options.SkipErrors && len(im.batch.lines) < batchLinesMax {
		return nil, nil
	}
	return im.Flush(ctx)
}

// importBatch is what one Update commits.
type importBatch struct {
	lines     []importLine
	writes    int // as one Update counts them
	bytes     int
	types     map[string]bool
	resources map[[2]string]bool
}

func newImportBatch() *importBatch {
	return &importBatch{types: map[string]bool{}, resources: map[[2]string]bool{}}
}

// The bounds of a batch: those of one Update, less what is written once for the
// batch (the account and the head), and with room for the longest keys.
const (
	batchWritesMax  = kv.UpdateWritesMax - 2
	batchBytesMax   = kv.UpdateBytesMax - 4<<10
	lineWritesMax   = 6       // log, type, resource mark; foreign id, known type, resource
	lineKeysSizeMax = 1 << 10 // of all keys and small records of one line
	batchLinesMax   = 1000    // refused ones too
)

// fits reports whether l still goes into the batch.
func (b *importBatch) fits(l *importLine) bool {
	return b.writes+lineWritesMax <= batchWritesMax && b.bytes+l.size() <= batchBytesMax && len(b.lines) < batchLinesMax
}

// size is at least what l adds to an Update, in bytes.
func (l *importLine) size() int {
	return 2*(len(l.draft.rest)+eventIDSizeMax) + len(l.snapshot) + lineKeysSizeMax
}

func (b *importBatch) hold(l importLine) {
	b.writes += 3
	if l.foreign != "" {
		b.writes++
	}
	if !b.types[l.draft.typ] {
		b.types[l.draft.typ] = true
		b.writes++
	}
	if resource := [2]string{l.kind, l.draft.resource}; !b.resources[resource] {
		b.resources[resource] = true
		b.writes++
	}
	b.bytes += l.size()
	b.lines = append(b.lines, l)
}

func (b *importBatch) empty() {
	clear(b.lines)
	clear(b.types)
	clear(b.resources)
	b.lines, b.writes, b.bytes = b.lines[:0], 0, 0
}

// Flush commits the lines that wait, and returns those that were refused.
func (im *Importer) Flush(ctx context.Context) ([]LineError, error) {
	refused, err := im.commit(ctx)
	if err != nil || im.stopped {
		return refused, err
	}
	last, err := im.settle(true)
	return append(refused, last...), err
}

// settled is how a batch ended.
type settled struct {
	recorded, unchanged int
	refused             []LineError
	err                 error
	panicked            any
}

// commit begins to commit the batch, once the one before it has ended well.
func (im *Importer) commit(ctx context.Context) ([]LineError, error) {
	refused, err := im.settle(true)
	if err != nil || im.stopped || len(im.batch.lines) == 0 {
		return refused, err
	}
	batch, outcome := im.batch, make(chan settled, 1)
	im.batch, im.spare, im.outcome = im.spare, batch, outcome
	go func() {
		var s settled
		defer func() {
			s.panicked = recover()
			outcome <- s
		}()
		s = im.record(ctx, batch.lines)
		batch.empty()
	}()
	return refused, nil
}

// settle takes in how the batch that is being committed has ended. Without wait
// it looks only whether it has.
func (im *Importer) settle(wait bool) ([]LineError, error) {
	if im.outcome == nil {
		return nil, nil
	}
	var s settled
	if wait {
		s = <-im.outcome
	} else {
		select {
		case s = <-im.outcome:
		default:
			return nil, nil
		}
	}
	im.outcome = nil
	if s.panicked != nil {
		panic(s.panicked)
	}
	if s.err != nil {
		return nil, fmt.Errorf("import events: %w", s.err)
	}
	im.summary.Recorded += s.recorded
	im.summary.Unchanged += s.unchanged
	im.summary.Errors += len(s.refused)
	im.stopped = len(s.refused) > 0 && !im.options.SkipErrors
	return s.refused, nil
}

// errDryRun takes back what a dry run has written.
var errDryRun = errors.New("dry run")

// record records lines in one Update. It runs beside the rest of the Importer,
// of which it changes only what is known to a dry run.
func (im *Importer) record(ctx context.Context, lines []importLine) settled {
	var s settled
	var backfill *Span
	again := im.seen.addAll(lines, im.options.DryRun)
	err := im.store.db.Update(ctx, func(tx kv.Txn) error {
		s = settled{}
		if err := im.store.ensureAccount(tx, im.account); err != nil {
			return err
		}
		w, err := newEventWriter(tx, im.account)
		if err != nil {
			return err
		}
		for i := range lines {
			fault, recorded, err := w.add(&lines[i])
			if recorded && im.options.DryRun {
				fault, recorded = again[i].fault, !again[i].unchanged
			}
			switch {
			case err != nil:
				return err
			case fault != nil:
				s.refused = append(s.refused, *fault)
			case recorded:
				s.recorded++
			default:
				s.unchanged++
			}
			if len(s.refused) > 0 && !im.options.SkipErrors {
				break
			}
		}
		if err := w.finish(); err != nil {
			return err
		}
		backfill = w.backfill
		if im.options.DryRun {
			return errDryRun
		}
		return nil
	})
	if err == nil && s.recorded > 0 {
		im.store.watches.tell(im.account, s.recorded, backfill)
	}
	if !errors.Is(err, errDryRun) {
		s.err = err
	}
	return s
}

// eventWriter writes many events within one transaction. What they share, the
// head, the types and the resources, is read once and written once.
type eventWriter struct {
	tx        kv.Txn
	owner     string
	head      eventHead
	backfill  *Span // where events lie below the head that was found
	before    Position
	types     map[string]knownType
	resources map[[2]string]resourceRecord
	changed   map[[2]string]bool
}

func newEventWriter(tx kv.Txn, owner string) (*eventWriter, error) {
	head, err := readEventHead(tx, owner)
	return &eventWriter{
		tx: tx, owner: owner, head: head, before: head.last,
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
	if l.place.Compare(w.before) < 0 {
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

// lineError gives a refusal its code.
func lineError(l *importLine, err error) *LineError {
	le := &LineError{Line: l.number, Offset: l.offset, Code: "invalid_event", Reason: err.Error()}
	var bad *InvalidError
	var doc *snapshot.Error
	var conflict *conflictError
	switch {
	case errors.As(err, &conflict):
		le.Code, le.Param = "id_conflict", "id"
	case errors.As(err, &doc):
		le.Param, le.Reason = doc.Path, doc.Reason
		switch doc.Fault {
		case snapshot.TooLarge:
			le.Code = "too_large"
		case snapshot.SensitiveField:
			le.Code = "sensitive_data"
		case snapshot.Malformed:
			le.Code = "invalid_json"
		case snapshot.UnknownField:
			le.Code = "unknown_field"
		}
	case errors.As(err, &bad):
		le.Param, le.Reason = bad.Field, bad.Reason
		if bad.Hint != "" {
			le.Reason = strings.TrimSuffix(bad.Reason, ".") + "; " + bad.Hint
		}
	}
	return le
}
