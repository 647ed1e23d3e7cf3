package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// ImportOptions configure an import.
type ImportOptions struct {
	SkipErrors bool // continue after a rejected line; otherwise stop before it
	DryRun     bool // check every line, also after a rejected one, and record nothing
	// StrictTypes rejects types that look misspelled, as a log with strict types
	// always does. Otherwise they are counted.
	StrictTypes bool
	// Begin is called in the first Update that records a line; nil calls nothing.
	Begin func(kv.Txn) error
	// Along is called at the end of each Update, which is the nth of those that run together and
	// may run again, with what the import has recorded by then, and Done when it is committed. Nil
	// calls nothing. Along may write two records and delete one.
	Along func(tx kv.Txn, n int, recorded Recorded) error
	Done  func(n int)
	// Seen is what earlier dry runs have seen, of any account; nil is nothing.
	Seen *Seen
	// Differs reports a resource that exists with another object; nil reports none.
	Differs func(line int, offset int64)
}

// Recorded counts what an import has recorded.
type Recorded struct{ Events, Resources int }

func (r Recorded) plus(s Recorded) Recorded {
	return Recorded{r.Events + s.Events, r.Resources + s.Resources}
}

// All returns the number of lines.
func (r Recorded) All() int { return r.Events + r.Resources }

// ImportLine is a line of an import in which other lines are between those of the events.
type ImportLine struct {
	Number   int
	Offset   int64
	Text     []byte            // of an event, unless Resource is set
	Resource *ImportedResource // a resource as it is
}

// ImportedResource is a resource as it is. It is recorded only if there is none of that name.
type ImportedResource struct {
	Kind, ID  string
	Object    snapshot.Value // not of an arena
	Action    string         // of its event
	CreatedAt *int64         // of its event; nil is now
	// Silent records no event. The object is kept as it is given; otherwise it is checked and
	// completed as that of a PUT.
	Silent bool
}

// ImportSummary counts the lines of an import so far.
type ImportSummary struct {
	Lines     int // read, including blank ones
	Recorded  int
	Resources int // of them, without events of their own lines
	Unchanged int // recorded by an earlier run
	Errors    int // rejected
	Settled   int // the line up to which all of them are recorded, unchanged or rejected
}

// UnknownTypesMax bounds the types that an import reports.
const UnknownTypesMax = 100

// LineError says why a line was rejected.
type LineError struct {
	Line   int   // 1 is the first
	Offset int64 // of its first byte
	Code   string
	Param  string // the wrong member, or ""
	Reason string // a clause without a full stop

	OfResource bool // the line is no event
}

// ImportLineSizeMax is the size of a line in bytes.
const ImportLineSizeMax = 64 << 10

// Importer records a file of events in batches, each committed atomically. Committed
// batches stay. Running the file again continues where it stopped, because the events
// of the earlier run are found again: by their ids, or by everything else.
//
// Parsing and committing overlap, since each keeps a processor busy. No batch is
// committed after one that failed.
type Importer struct {
	log     *Log
	account string
	options ImportOptions
	summary ImportSummary
	stopped bool
	seconds seconds                 // used by the commit only
	hashed  []byte                  // memory for hashing a line
	types   map[string]*UnknownType // of earlier lines; nil for one that is in order
	unknown []*UnknownType
	// Lines are parsed in lineArena; what must outlive the line is copied to its
	// draft.
	lineArena snapshot.Arena
	line      eventLine      // being parsed
	object    []byte         // the snapshot of the line
	drafts    []byte         // what the drafts of the latest lines share
	batch     *importBatch   // being filled
	waiting   []*importBatch // full
	outcome   chan settled   // of the batches being committed; nil without any
	seen      *Seen          // used by the commit only
	begun     bool           // used by the commit only: Begin is done, or nothing
	wrote     Recorded       // used by the commit only
	arena     writerArena    // used by the commit only
}

// importLine is an event to commit, or the error that rejected its line.
type importLine struct {
	refused *LineError
	number  int
	offset  int64
	draft   draft
	kind    string
	// position is that of a native id; else, until the line is recorded, the first of
	// its second.
	position  record.Position
	placed    record.Position // where it is recorded
	native    bool
	foreign   string // its id if that is not native
	digest    digest // of the line, unless its id is native
	createdAt int64
	removes   bool
	snapshot  []byte
	resource  *ImportedResource // of a line that is no event
	again     repeated          // in a dry run: an earlier line whose batch was rolled back
}

// NewImporter returns an Importer for the account; the first recorded event creates it
// if needed. Errors: *InvalidError.
func (l *Log) NewImporter(account string, o ImportOptions) (*Importer, error) {
	if err := record.CheckAccountID(account); err != nil {
		return nil, err
	}
	o.StrictTypes = o.StrictTypes || l.strictTypes
	im := &Importer{types: map[string]*UnknownType{}, log: l, account: account, options: o, batch: l.newImportBatch(), seconds: newSeconds(account), begun: o.Begin == nil, seen: cmp.Or(o.Seen, &Seen{})}
	return im, nil
}

// Summary returns the counts of the batches that are finished.
func (im *Importer) Summary() ImportSummary { return im.summary }

// UnknownTypes returns the types so far that look misspelled, in the order of the
// lines, at most [UnknownTypesMax].
func (im *Importer) UnknownTypes() (types []UnknownType) {
	for _, u := range im.unknown {
		types = append(types, *u)
	}
	return types
}

// goesOn reports whether the import continues after a rejected line. A dry run finds all of them.
func (im *Importer) goesOn() bool { return im.options.SkipErrors || im.options.DryRun }

// Stopped reports whether a rejected line has stopped the import.
func (im *Importer) Stopped() bool { return im.stopped }

// Add takes the next line, without its line end, which starts at offset; a full batch
// is committed. It returns the lines rejected since the last call, in order. An error
// stops the import; unless it is ErrUnavailable, the batch may or may not be recorded.
// After the last line call Flush, unless Add returned an error or the import has
// stopped.
func (im *Importer) Add(ctx context.Context, line []byte, offset int64) ([]LineError, error) {
	return im.AddLine(ctx, ImportLine{Number: im.summary.Lines + 1, Offset: offset, Text: line})
}

// AddLine is Add for a line with a number of its own.
func (im *Importer) AddLine(ctx context.Context, line ImportLine) ([]LineError, error) {
	refused, err := im.settle(false)
	if err != nil || im.stopped {
		return refused, err
	}
	im.summary.Lines = line.Number
	if line.Resource == nil && len(bytes.TrimSpace(line.Text)) == 0 {
		return refused, nil
	}
	l := importLine{number: line.Number, offset: line.Offset, resource: line.Resource}
	if l.resource != nil {
		err = im.parseResource(ctx, &l)
	} else {
		err = im.parse(ctx, line.Text, &l)
	}
	if err != nil {
		if !isLineFault(err) {
			more, unsettled := im.settle(true)
			return append(refused, more...), cmp.Or(unsettled, fmt.Errorf("import events: %w", err))
		}
		more, err := im.refuse(ctx, lineError(&l, err))
		return append(refused, more...), err
	}
	if !im.batch.fits(&l) {
		more, err := im.send(ctx)
		refused = append(refused, more...)
		if err != nil || im.stopped {
			return refused, err
		}
	}
	im.batch.hold(l)
	return refused, nil
}

// Refuse records that the next line is too long to read.
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

// refuse queues a rejection in order among the waiting lines.
func (im *Importer) refuse(ctx context.Context, fault *LineError) ([]LineError, error) {
	im.batch.lines = append(im.batch.lines, importLine{refused: fault})
	if im.goesOn() && len(im.batch.lines) < batchLinesMax {
		return nil, nil
	}
	return im.Flush(ctx)
}

// Flush commits the remaining lines and returns those that were rejected.
func (im *Importer) Flush(ctx context.Context) ([]LineError, error) {
	refused, err := im.settle(true)
	if err != nil || im.stopped {
		return refused, err
	}
	if len(im.batch.lines) > 0 {
		im.waiting = append(im.waiting, im.batch)
		im.batch = im.log.newImportBatch()
	}
	im.begin(ctx)
	last, err := im.settle(true)
	return append(refused, last...), err
}

// isLineFault reports whether a line is wrong, and not the store that it was checked with.
func isLineFault(err error) bool {
	var bad *record.InvalidError
	var doc *snapshot.Error
	var conflict *conflictError
	return errors.As(err, &bad) || errors.As(err, &doc) || errors.As(err, &conflict)
}

// lineError gives a rejection its code.
func lineError(l *importLine, err error) *LineError {
	le := &LineError{Line: l.number, Offset: l.offset, Code: "invalid_event", Reason: err.Error(), OfResource: l.resource != nil}
	var bad *record.InvalidError
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
	le.Param = strings.Clone(le.Param) // it may be a substring of the line and would keep it in memory
	return le
}
