package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// importBatch is committed in one Update.
type importBatch struct {
	lines     []importLine
	writes    int // as one Update counts them
	ofLine    int // of those, what each line has for itself
	bytes     int
	bytesMax  int
	types     map[string]bool
	resources map[[2]string]bool
	hours     map[uint32]struct{}
}

func (l *Log) newImportBatch() *importBatch {
	ofLine := 3 // log, type and resource lists
	if !l.isFeedOff() {
		ofLine++
	}
	return &importBatch{ofLine: ofLine, bytesMax: l.importSizes().bytesMax - batchReserve, lines: make([]importLine, 0, batchLinesUsual), types: map[string]bool{}, resources: map[[2]string]bool{}, hours: map[uint32]struct{}{}}
}

// importSizes are how many bytes the Update of a batch may write, and how many batches are sent
// together, so that the engine starts the next commit without waiting for the importer.
type importSizes struct{ bytesMax, together int }

// importSizes depend on the engine. One of this process commits up to 1.2 MB at once: a batch of
// the largest size leaves no room for another, but of these three or four share a sync. Seven
// have as many lines as three of the largest, so updates of others wait no longer for their turn.
// On a shared engine each batch costs round trips.
func (l *Log) importSizes() importSizes {
	if l.others.engine != nil {
		return importSizes{kv.UpdateBytesMax, 3}
	}
	return importSizes{384 << 10, 7}
}

// A batch must fit one Update, with a reserve for what it writes once (the account, the head,
// that of the feed, its entry of backfill, two records of Begin and three of Along) and for the
// longest keys.
const (
	batchWritesMax  = kv.UpdateWritesMax - 9
	batchReserve    = 4 << 10                  // bytes
	lineWritesMax   = 7 + hourWrites           // log, type and resource lists; feed, foreign id, known type, resource; counts
	lineKeysSizeMax = 1<<10 + feedEntrySizeMax // all keys and small records of one line
	batchLinesMax   = 1000                     // including rejected ones
	batchLinesUsual = 128
)

// fits reports whether the batch has room for l.
func (b *importBatch) fits(l *importLine) bool {
	return b.writes+lineWritesMax <= batchWritesMax && b.bytes+l.size()+slotsSizeMax+hourWrites*tallySizeMax <= b.bytesMax && len(b.lines) < batchLinesMax
}

// size is an upper bound of what l adds to an Update, in bytes.
func (l *importLine) size() int {
	return 2*(len(l.draft.rest)+eventIDSizeMax) + len(l.snapshot) + lineKeysSizeMax
}

func (b *importBatch) hold(l importLine) {
	b.writes += b.ofLine
	if l.foreign != "" {
		b.writes++
	}
	if !b.types[l.draft.typ] {
		b.types[l.draft.typ] = true
		b.writes++
		b.bytes += slotsSizeMax
	}
	if resource := [2]string{l.kind, l.draft.resource}; !b.resources[resource] {
		b.resources[resource] = true
		b.writes++
	}
	hour := ByHour.unit(l.position.Millis())
	if _, has := b.hours[hour]; !has {
		b.hours[hour] = struct{}{}
		b.writes += hourWrites
		b.bytes += hourWrites * tallySizeMax
	}
	b.bytes += l.size()
	b.lines = append(b.lines, l)
}

// settled is the outcome of batches.
type settled struct {
	recorded  Recorded
	unchanged int
	differs   []*importLine
	last      int // line
	refused   []LineError
	stopped   bool
	err       error
	panicked  any
}

func (s settled) hasRecorded() bool { return s.recorded.All() > 0 }

// lastLine returns the number of the batch's last line. A batch that waits has one.
func (b *importBatch) lastLine() int {
	last := b.lines[len(b.lines)-1]
	if last.refused != nil {
		return last.refused.Line
	}
	return last.number
}

// send queues the batch and starts a commit unless one is running. When too many
// batches wait, it waits for the commit.
func (im *Importer) send(ctx context.Context) (refused []LineError, err error) {
	im.waiting = append(im.waiting, im.batch)
	im.batch = im.log.newImportBatch()
	if len(im.waiting) == im.log.importSizes().together {
		refused, err = im.settle(true)
	}
	if err == nil && !im.stopped && im.outcome == nil {
		im.begin(ctx)
	}
	return refused, err
}

// begin starts to commit the waiting batches. No commit may be running.
func (im *Importer) begin(ctx context.Context) {
	batches, outcome := im.waiting, make(chan settled, 1)
	if len(batches) == 0 {
		return
	}
	im.waiting, im.outcome = nil, outcome
	go func() {
		var s settled
		defer func() {
			s.panicked = recover()
			outcome <- s
		}()
		s = im.record(ctx, batches)
	}()
}

// settle takes in the outcome of the running commit. Without wait it returns immediately
// if that is not finished.
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
	im.summary.Recorded += s.recorded.All()
	im.summary.Resources += s.recorded.Resources
	im.summary.Unchanged += s.unchanged
	im.summary.Errors += len(s.refused)
	im.summary.Settled = max(im.summary.Settled, s.last)
	im.stopped = s.stopped
	for _, l := range s.differs {
		im.options.Differs(l.number, l.offset)
	}
	if s.err != nil {
		return s.refused, fmt.Errorf("import events: %w", s.err)
	}
	return s.refused, nil
}

// errDryRun rolls back what a dry run has written.
var errDryRun = errors.New("dry run")

// record commits batches, each in its own Update. It runs concurrently with the rest
// of the Importer and changes only im.seen, im.seconds and im.begun.
func (im *Importer) record(ctx context.Context, batches []*importBatch) (all settled) {
	each := make([]settled, len(batches))
	changes := make([]logChange, len(batches))
	updates := make([]func(kv.Txn) error, len(batches))
	im.seconds.settled()
	if all.err = im.seconds.look(ctx, im.log.db, batches); all.err != nil {
		return all
	}
	for i, b := range batches {
		if im.options.DryRun {
			im.seen.addAll(im.account, b.lines)
		}
		updates[i] = func(tx kv.Txn) (err error) {
			each[i] = settled{}
			if i > 0 && each[i-1].stopped {
				each[i].stopped = true
				return nil
			}
			changes[i], err = im.recordBatch(tx, i, b, &each[i])
			if err != nil || im.options.DryRun {
				return err
			}
			if each[i].hasRecorded() && !im.begun && !slices.ContainsFunc(each[:i], settled.hasRecorded) {
				err = im.options.Begin(tx)
			}
			if err == nil && im.options.Along != nil {
				err = im.options.Along(tx, i, recordedBy(im.wrote, each[:i+1]))
			}
			return err
		}
	}
	for i, err := range im.update(ctx, updates) {
		if err != nil && !errors.Is(err, errDryRun) {
			all.err = err
			return all
		}
		if err == nil && each[i].hasRecorded() {
			im.begun = true
			im.log.committed(changes[i])
		}
		if err == nil && im.options.Done != nil {
			im.options.Done(i)
		}
		im.wrote = im.wrote.plus(each[i].recorded)
		all.last = batches[i].lastLine()
		all.recorded = all.recorded.plus(each[i].recorded)
		all.unchanged += each[i].unchanged
		all.differs = append(all.differs, each[i].differs...)
		all.refused = append(all.refused, each[i].refused...)
		all.stopped = each[i].stopped
	}
	return all
}

func recordedBy(before Recorded, updates []settled) Recorded {
	for _, s := range updates {
		before = before.plus(s.recorded)
	}
	return before
}

// prefetchNames announces to a remote engine what the lines read wherever they are in
// the log.
func (b *importBatch) prefetchNames(tx kv.Txn, account string) {
	if _, remote := tx.(kv.Prefetcher); !remote {
		return
	}
	keys := [][]byte{record.EventHeadKey(account), record.AccountKey(account), feedHeadKey}
	for typ := range b.types {
		keys = append(keys, record.KnownTypesKey(account).Str(typ))
	}
	for _, l := range b.lines {
		if l.foreign != "" {
			keys = append(keys, record.EventForeignKey(account, l.foreign))
		}
	}
	kv.Prefetch(tx, keys)
}

// prefetchEvents does so for what lines read that are not after the head.
func (b *importBatch) prefetchEvents(tx kv.Txn, account string, head Head) {
	if _, remote := tx.(kv.Prefetcher); !remote {
		return
	}
	var keys [][]byte
	log := eventsOf(account)
	for _, l := range b.lines {
		if l.refused != nil {
			continue
		}
		position, stored := l.position, l.native
		if l.foreign != "" {
			if recorded, err := readForeign(tx, account, l.foreign); err == nil {
				position, stored = recorded, true
			}
		}
		if position.Compare(head.last) > 0 {
			continue
		}
		if stored {
			keys = append(keys, log.in(head.Segments.of(position)).Position(position))
		}
		keys = append(keys, record.ResourceKey(account, l.kind, l.draft.resource))
	}
	kv.Prefetch(tx, keys)
}

// update runs updates; those of a dry run all fail.
func (im *Importer) update(ctx context.Context, updates []func(kv.Txn) error) []error {
	if !im.options.DryRun {
		return kv.UpdateEach(kv.Bounded(ctx, im.log.importSizes().bytesMax), im.log.db, updates)
	}
	ends := make([]error, len(updates))
	for i, update := range updates {
		if ends[i] = im.log.db.Update(ctx, update); !errors.Is(ends[i], errDryRun) {
			return ends[:i+1]
		}
	}
	return ends
}

// recordBatch records the lines of a batch, the nth of those that run together, within
// tx and returns what that changes.
func (im *Importer) recordBatch(tx kv.Txn, n int, b *importBatch, s *settled) (logChange, error) {
	b.prefetchNames(tx, im.account)
	w, err := im.log.newEventWriter(tx, im.account, &im.arena)
	if err != nil {
		return logChange{}, err
	}
	w.seconds, w.batch = &im.seconds, b
	im.seconds.begin(n, w.head)
	b.prefetchEvents(tx, im.account, w.head)
	for i := range b.lines {
		l := &b.lines[i]
		fault, recorded, err := w.add(l)
		differs := l.resource != nil && !recorded && !w.isSame
		switch {
		case err != nil:
			return logChange{}, err
		case fault != nil:
			s.refused = append(s.refused, *fault)
		case recorded && l.resource != nil:
			s.recorded.Resources++
		case recorded:
			s.recorded.Events++
		default:
			s.unchanged++
		}
		if differs && fault == nil && im.options.Differs != nil {
			s.differs = append(s.differs, l)
		}
		if fault != nil && !im.goesOn() {
			s.stopped = true
			break
		}
	}
	if s.hasRecorded() { // otherwise a typing error in the name would create an account
		if err := im.log.ensureAccount(tx, im.account); err != nil {
			return logChange{}, err
		}
	}
	if err := w.finish(); err != nil {
		return logChange{}, err
	}
	if im.options.DryRun {
		return logChange{}, errDryRun
	}
	im.seconds.wrote(w.head)
	c := logChange{owner: im.account, recorded: s.recorded.All(), backfill: w.backfill}
	if c.backfill != nil {
		c.raised = w.head.generation
	}
	return c, nil
}
