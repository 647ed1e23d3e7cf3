package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/moving"
	"tollhouse/store/record"
)

type importQuery struct {
	account string
	options eventlog.ImportOptions
}

func (s *Server) parseImportQuery(r *http.Request) (importQuery, error) {
	account, pairs, err := s.api.NamedAccount(r)
	if err != nil {
		return importQuery{}, err
	}
	q := importQuery{account: account}
	seen := map[string]bool{}
	for _, pair := range pairs {
		if seen[pair.Name] {
			return q, web.DuplicateParameter(pair.Name)
		}
		seen[pair.Name] = true
		switch {
		case pair.Name == "on-error" && (pair.Value == "stop" || pair.Value == "skip"):
			q.options.SkipErrors = pair.Value == "skip"
		case pair.Name == "on-error":
			return q, web.InvalidParameter("on-error", "must be stop or skip.")
		case pair.Name == "dry-run" && (pair.Value == "true" || pair.Value == "false"):
			q.options.DryRun = pair.Value == "true"
		case pair.Name == "dry-run":
			return q, web.InvalidParameter("dry-run", "must be true or false.")
		case pair.Name == "strict-types" && (pair.Value == "true" || pair.Value == "false"):
			q.options.StrictTypes = pair.Value == "true"
		case pair.Name == "strict-types":
			return q, web.InvalidParameter("strict-types", "must be true or false.")
		default:
			return q, web.UnknownParameter(pair.Name, nil, []string{"account", "on-error", "dry-run", "strict-types"})
		}
	}
	return q, nil
}

// importEvents is POST /admin/events/import?account=A, one event per line. It
// responds with lines too, while the upload is still being read: progress, the
// first hundred refused lines, or all of them in a dry run, and a summary. Without a
// summary the import is incomplete.
func (s *Server) importEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := s.parseImportQuery(r)
	if err != nil {
		return err
	}
	if err := mustBeLines(r); err != nil {
		return err
	}
	body, err := decompressed(r)
	if err != nil {
		return err
	}
	importer, err := s.site.Store.NewImporter(r.Context(), q.account, q.options)
	if err != nil {
		return eventProblem(err)
	}
	noteAdmin(r, "account_id", q.account)
	controller, err := beginAnswer(w)
	if err != nil {
		return err
	}
	ir := importRun{importer: importer, w: w, controller: controller, lines: moving.NewReader(body, eventlog.ImportLineSizeMax), reportedMax: errorLinesMax}
	if q.options.DryRun {
		ir.reportedMax = math.MaxInt
	}
	ir.run(r.Context())
	if importer.Stopped() || ir.broken > 0 {
		passOver(controller, r.Body)
	}
	total := importer.Summary()
	web.Note(r.Context(), slog.Int("recorded", total.Recorded), slog.Int("refused", total.Errors))
	return nil
}

// mustBeLines refuses an upload of another media type.
func mustBeLines(r *http.Request) error {
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != api.AsNDJSON {
		return web.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The Content-Type must be %s.", api.AsNDJSON)
	}
	return nil
}

// beginAnswer begins to answer with lines while the upload is still being read.
func beginAnswer(w http.ResponseWriter) (*http.ResponseController, error) {
	// net/http silently cuts off an upload when the response begins before its
	// end. Inside a command, without a connection, it is not supported.
	controller := http.NewResponseController(w)
	if err := controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	beginLong(controller) // a pipe may deliver slowly
	h := w.Header()
	h.Set("Content-Type", api.AsNDJSON)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return controller, nil
}

// passOver reads what follows the line that stopped an import: a caller that is still sending would
// not read the response of a closed connection.
func passOver(controller *http.ResponseController, body io.Reader) {
	_ = controller.Flush()
	_ = controller.SetReadDeadline(time.Now().Add(longStep))
	extendWrites(controller)
	_, _ = io.CopyN(io.Discard, body, passedOverMax)
}

// IncompleteUpload is the code of a line from which on the file is missing.
const IncompleteUpload = "incomplete_upload"

// BrokenGzip describes a file with [moving.ErrBrokenGzip].
const BrokenGzip = "The gzip file is cut off or damaged here; compress it again."

// decompressed returns the body of an import. Its lines are bounded one by one.
func decompressed(r *http.Request) (io.Reader, error) {
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		unpacked, err := moving.NewGzipReader(r.Body)
		if err != nil {
			return nil, web.InvalidRequest("The body is not gzip, as its Content-Encoding says.").Because(err)
		}
		return unpacked, nil
	}
	return nil, web.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The Content-Encoding must be gzip or none.")
}

const (
	progressLines = 10_000
	progressEvery = time.Second
	linesPerLook  = 256     // lines between two checks of the clock
	errorLinesMax = 100     // refused lines that are reported individually, unless it is a dry run
	passedOverMax = 1 << 30 // bytes read and discarded after the line that stopped an import
)

type importRun struct {
	importer   *eventlog.Importer
	lines      *moving.Reader
	w          io.Writer
	controller *http.ResponseController
	reported   int // refused lines reported, at most reportedMax

	reportedMax int
	broken      int // 1 after a line that could not be read; of a movingRun its number

	reportedAt    time.Time // only for the pace of the reports
	reportedLines int
}

func (ir *importRun) run(ctx context.Context) {
	ir.reportedAt = time.Now()
	if format := ir.lines.Format(); format != "" {
		ir.breakOff("invalid_json", 0, "The file is "+format+".")
	}
	for n := 1; !ir.importer.Stopped() && ir.broken == 0; n++ {
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
	summary := ir.counts("summary")
	summary.Unreadable = ir.broken > 0
	for _, u := range ir.importer.UnknownTypes() {
		summary.UnknownTypes = append(summary.UnknownTypes, UnknownType{Type: u.Type, Count: int64(u.Count), Nearest: u.Nearest})
	}
	ir.write(summary)
}

// step takes one line, or the end of the upload.
func (ir *importRun) step(ctx context.Context) (refused []eventlog.LineError, more bool, err error) {
	line, offset, err := ir.lines.Next()
	if offset == 0 {
		line = web.WithoutMark(line)
	}
	switch {
	case err == nil:
		refused, err = ir.importer.Add(ctx, line, offset)
		return refused, true, err
	case errors.Is(err, moving.ErrLongLine):
		refused, err = ir.importer.Refuse(ctx, offset)
		return refused, true, err
	case errors.Is(err, io.EOF):
		refused, err = ir.importer.Flush(ctx)
		return refused, false, err
	}
	// Complete lines are recorded; the line that was cut off is not.
	refused, flushErr := ir.importer.Flush(ctx)
	if errors.Is(err, moving.ErrBrokenGzip) && flushErr == nil {
		if !ir.importer.Stopped() {
			ir.tell(refused)
			ir.breakOff(IncompleteUpload, offset, BrokenGzip)
			refused = nil
		}
		return refused, false, nil
	}
	broken := web.NewProblem(http.StatusBadRequest, IncompleteUpload, "The upload was cut off or could not be decompressed. Events recorded so far are kept; run the import again to continue.")
	return refused, false, broken.Because(errors.Join(err, flushErr))
}

// breakOff refuses the line at offset, from which on the file cannot be read.
func (ir *importRun) breakOff(code string, offset int64, description string) {
	ir.broken = 1
	ir.write(ImportRefusal{Line: int64(ir.importer.Summary().Lines) + 1, Offset: offset, Error: code, Description: description})
}

// look reports progress when it is due.
func (ir *importRun) look(lines int) {
	if ir.isDue(lines) {
		ir.write(ir.counts("progress"))
		_ = ir.controller.Flush()
	}
}

// isDue reports whether progress is to be reported, and notes that it is.
func (ir *importRun) isDue(lines int) bool {
	now := time.Now()
	if now.Sub(ir.reportedAt) < progressEvery && lines-ir.reportedLines < progressLines {
		return false
	}
	ir.reportedAt, ir.reportedLines = now, lines
	return true
}

// ImportRefusal reports a refused line.
type ImportRefusal struct {
	Line        int64  `json:"line"`
	Offset      int64  `json:"offset"`
	Error       string `json:"error"`
	Param       string `json:"param,omitempty"`
	Description string `json:"error_description"`
}

func (ir *importRun) tell(refused []eventlog.LineError) {
	for _, e := range refused[:min(len(refused), ir.reportedMax-ir.reported)] {
		ir.reported++
		ir.write(ImportRefusal{int64(e.Line), e.Offset, e.Code, e.Param, web.Sentence(e.Reason, e.Param)})
	}
}

// ImportCounts is the progress of an import, or its summary.
type ImportCounts struct {
	Progress  bool  `json:"progress,omitempty"`
	Summary   bool  `json:"summary,omitempty"`
	Lines     int64 `json:"lines"`
	Bytes     int64 `json:"bytes"`
	Recorded  int64 `json:"recorded"`
	Unchanged int64 `json:"unchanged"`
	Errors    int64 `json:"errors"`
	// Unreadable, of a summary, reports that the file cannot be read from the last refused line on.
	Unreadable bool `json:"unreadable,omitempty"`
	// UnknownTypes, of a summary, are event types that look misspelled.
	UnknownTypes []UnknownType `json:"unknown_types,omitempty"`
}

// UnknownType is an event type that is neither in the catalogue nor in the account's
// log, and close to one that is.
type UnknownType struct {
	Type    string `json:"type"`
	Count   int64  `json:"count"`
	Nearest string `json:"nearest"`
}

func (ir *importRun) counts(kind string) ImportCounts {
	t := ir.importer.Summary()
	return ImportCounts{
		Progress: kind == "progress", Summary: kind == "summary",
		Lines: int64(t.Lines + ir.broken), Bytes: ir.lines.Offset(), Recorded: int64(t.Recorded), Unchanged: int64(t.Unchanged), Errors: int64(t.Errors + ir.broken),
	}
}

// fail reports why there will be no summary.
func (ir *importRun) fail(ctx context.Context, err error) {
	p := web.AsOperatorProblem(err)
	web.NoteProblem(ctx, p)
	settled, description := ir.importer.Summary().Settled, p.Description
	if errors.Is(err, record.ErrUnavailable) && p.Code != web.DiskFull {
		description = "The store accepts no more events at the moment." // but it did before
	}
	description = fmt.Sprintf("%s All lines up to line %d are done.", description, settled)
	ir.write(map[string]any{"error": p.Code, "error_description": description, "lines_done": settled})
}

func (ir *importRun) write(line any) {
	encoded := web.EncodeJSON(line)
	extendWrites(ir.controller)
	_, _ = ir.w.Write(append(encoded, '\n')) // the caller may be gone
}
