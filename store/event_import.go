package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

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
// While some batches are committed the next are read: to understand lines and to
// store them each keep a processor busy. No batch is committed behind one that
// has not ended well.
type Importer struct {
	store   *Store
	account string
	options ImportOptions
	summary ImportSummary
	stopped bool
	places  places
	// lineRoom is where each line is read; its parts are copied to its draft.
	lineRoom snapshot.Room
	object   []byte         // the snapshot of the line
	drafts   []byte         // what the drafts of the latest lines share
	batch    *importBatch   // is being filled
	waiting  []*importBatch // are full
	outcome  chan settled   // of the batches that are being committed; nil when there are none
	seen     dryRun         // belongs to the commit
	room     writerRoom     // this too
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
	im := &Importer{store: s, account: account, options: o, batch: newImportBatch()}
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
		more, err := im.send(ctx)
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

// Flush commits the lines that wait, and returns those that were refused.
func (im *Importer) Flush(ctx context.Context) ([]LineError, error) {
	refused, err := im.settle(true)
	if err != nil || im.stopped {
		return refused, err
	}
	if len(im.batch.lines) > 0 {
		im.waiting = append(im.waiting, im.batch)
		im.batch = newImportBatch()
	}
	im.begin(ctx)
	last, err := im.settle(true)
	return append(refused, last...), err
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
	le.Param = strings.Clone(le.Param) // it may be a part of the line, and would keep it
	return le
}
