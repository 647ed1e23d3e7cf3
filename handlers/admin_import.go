package handlers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"tollhouse/store"
)

// importQuery is how an import was asked for.
type importQuery struct {
	account string
	options store.ImportOptions
}

func (s *Server) parseImportQuery(r *http.Request) (importQuery, error) {
	account, pairs, err := s.namedAccount(r)
	if err != nil {
		return importQuery{}, err
	}
	q := importQuery{account: account}
	seen := map[string]bool{}
	for _, pair := range pairs {
		if seen[pair.name] {
			return q, duplicateParameter(pair.name)
		}
		seen[pair.name] = true
		switch {
		case pair.name == "on-error" && (pair.value == "stop" || pair.value == "skip"):
			q.options.SkipErrors = pair.value == "skip"
		case pair.name == "on-error":
			return q, invalidParameter("on-error", "must be stop or skip.")
		case pair.name == "dry-run" && (pair.value == "true" || pair.value == "false"):
			q.options.DryRun = pair.value == "true"
		case pair.name == "dry-run":
			return q, invalidParameter("dry-run", "must be true or false.")
		default:
			return q, unknownParameter(pair.name, nil, []string{"account", "on-error", "dry-run"})
		}
	}
	return q, nil
}

// adminImportEvents is POST /admin/events/import?account=A: events one a line.
// The answer is lines too, and begins while the upload is still read: progress,
// each refused line (the first hundred), and at last a summary. Without the
// summary the import is not whole.
func (s *Server) adminImportEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := s.parseImportQuery(r)
	if err != nil {
		return err
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != ndjsonType {
		return newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The Content-Type must be %s.", ndjsonType)
	}
	body, err := decompressed(r)
	if err != nil {
		return err
	}
	importer, err := s.store.NewImporter(q.account, q.options)
	if err != nil {
		return eventProblem(err)
	}
	noteAdmin(r, "account_id", q.account)
	// Go cuts an upload off, silently, when its answer begins before its end.
	// In the command's own process there is nothing to switch on.
	controller := http.NewResponseController(w)
	if err := controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	// Only the operator reaches this socket, and what a pipe brings may be slow.
	_ = controller.SetReadDeadline(time.Time{})
	h := w.Header()
	h.Set("Content-Type", ndjsonType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	ir := importRun{importer: importer, w: w, controller: controller, lines: newLineReader(body)}
	ir.run(r.Context())
	if importer.Stopped() {
		// A caller who is still sending would not read the answer of a
		// connection that is cut.
		_ = controller.Flush()
		extendDeadlines(controller)
		_, _ = io.CopyN(io.Discard, r.Body, passedOverMax)
	}
	total := importer.Summary()
	note(r.Context(), slog.Int("recorded", total.Recorded), slog.Int("refused", total.Errors))
	return nil
}

// decompressed returns the body of an import, unpacked if it is packed. What it
// unpacks to is bounded line by line.
func decompressed(r *http.Request) (io.Reader, error) {
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, invalidRequest("The body is not gzip, as its Content-Encoding says.").because(err)
		}
		return unpacked, nil
	}
	return nil, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The Content-Encoding must be gzip or none.")
}

const (
	progressLines = 10_000
	progressEvery = time.Second
	linesPerLook  = 256     // lines between two looks at the clock
	errorLinesMax = 100     // refused lines that are told one by one
	passedOverMax = 1 << 30 // bytes read and dropped behind the line that stopped an import
)

// importRun carries one import from the upload to the answer.
type importRun struct {
	importer   *store.Importer
	lines      *lineReader
	w          io.Writer
	controller *http.ResponseController
	told       int // refused lines

	reportedAt    time.Time // by the machine's clock: it paces the reports and decides nothing
	reportedLines int
}

func (ir *importRun) run(ctx context.Context) {
	ir.reportedAt = time.Now()
	for n := 1; !ir.importer.Stopped(); n++ {
		if n%linesPerLook == 0 {
			ir.look(n)
		}
		refused, more, err := ir.step(ctx)
		ir.tell(refused)
		if err != nil {
			ir.fail(ctx, err)
			return
		}
		if !more {
			break
		}
	}
	ir.write(ir.counts("summary"))
}

// step takes one line, or the end of the upload.
func (ir *importRun) step(ctx context.Context) (refused []store.LineError, more bool, err error) {
	line, offset, err := ir.lines.next()
	switch {
	case err == nil:
		refused, err = ir.importer.Add(ctx, line, offset)
		return refused, true, err
	case errors.Is(err, errLongLine):
		refused, err = ir.importer.Refuse(ctx, offset)
		return refused, true, err
	case errors.Is(err, io.EOF):
		refused, err = ir.importer.Flush(ctx)
		return refused, false, err
	}
	// What is whole so far is recorded; the line that was cut is not.
	refused, flushErr := ir.importer.Flush(ctx)
	broken := newProblem(http.StatusBadRequest, "incomplete_upload", "The upload broke off or could not be unpacked; what was recorded until then stays, and running it again goes on.")
	return refused, false, broken.because(errors.Join(err, flushErr))
}

// look reports when it is time.
func (ir *importRun) look(lines int) {
	now := time.Now()
	if now.Sub(ir.reportedAt) < progressEvery && lines-ir.reportedLines < progressLines {
		return
	}
	ir.reportedAt, ir.reportedLines = now, lines
	ir.write(ir.counts("progress"))
	_ = ir.controller.Flush()
}

// importLineJSON is a line of the answer that tells of a refused line.
type importLineJSON struct {
	Line        int    `json:"line"`
	Offset      int64  `json:"offset"`
	Error       string `json:"error"`
	Param       string `json:"param,omitempty"`
	Description string `json:"error_description"`
}

func (ir *importRun) tell(refused []store.LineError) {
	for _, e := range refused[:min(len(refused), errorLinesMax-ir.told)] {
		ir.told++
		ir.write(importLineJSON{e.Line, e.Offset, e.Code, e.Param, sentence(e.Reason)})
	}
}

// importCounts is progress, or the summary.
type importCounts struct {
	Progress  bool  `json:"progress,omitempty"`
	Summary   bool  `json:"summary,omitempty"`
	Lines     int   `json:"lines"`
	Bytes     int64 `json:"bytes"`
	Recorded  int   `json:"recorded"`
	Unchanged int   `json:"unchanged"`
	Errors    int   `json:"errors"`
}

func (ir *importRun) counts(kind string) importCounts {
	t := ir.importer.Summary()
	return importCounts{
		Progress: kind == "progress", Summary: kind == "summary",
		Lines: t.Lines, Bytes: ir.lines.offset, Recorded: t.Recorded, Unchanged: t.Unchanged, Errors: t.Errors,
	}
}

// fail tells why there will be no summary.
func (ir *importRun) fail(ctx context.Context, err error) {
	p := asProblem(err)
	noteProblem(ctx, p)
	ir.write(map[string]any{"error": p.code, "error_description": p.description})
}

func (ir *importRun) write(line any) {
	encoded, err := json.Marshal(line)
	if err != nil {
		panic("handlers: answer cannot be encoded: " + err.Error())
	}
	_ = ir.controller.SetWriteDeadline(time.Now().Add(longStep))
	_, _ = ir.w.Write(append(encoded, '\n')) // a caller who is gone cannot be told
}

// errLongLine says that a line is longer than any event.
var errLongLine = errors.New("line is too long")

// lineReader parts an upload into lines and counts bytes.
type lineReader struct {
	r      *bufio.Reader
	offset int64 // of the next line
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, store.ImportLineSizeMax+2)}
}

// next returns the next line without its end, valid until the next call, and
// where it begins. It returns errLongLine for one that is too long, which it
// has passed over; io.EOF after the last; and any other error for an upload
// that broke off, whose last, perhaps cut line it does not return.
func (l *lineReader) next() (line []byte, offset int64, err error) {
	offset = l.offset
	line, err = l.r.ReadSlice('\n')
	l.offset += int64(len(line))
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, offset, l.passOver()
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, offset, nil
	case err != nil:
		return nil, offset, err
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), offset, nil
}

func (l *lineReader) passOver() error {
	for {
		rest, err := l.r.ReadSlice('\n')
		l.offset += int64(len(rest))
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return errLongLine
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
