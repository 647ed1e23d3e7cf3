package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/moving"
)

func (p *program) eventImport() *cobra.Command {
	var account, onError string
	var dryRun, strictTypes bool
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "record events from a file of JSON lines (- for standard input, gzip accepted)",
		Long: `Record events from a file with one event per line, as event export writes them.

Importing the same file again records nothing twice. Files of one history may overlap;
import the oldest first. The import stops at the first refused line, unless --on-error
skip is given, and keeps what it has recorded; --dry-run lists every line that would be
refused. If any line is refused, it exits with 65.

Event types are open, so a misspelled one is recorded, with a note that names the
nearest known type. --strict-types refuses its lines instead.`,
		Args: operands("a file"),
	}
	addAccountFlag(c, &account)
	c.Flags().StringVar(&onError, "on-error", "stop", "what to do at a refused line: stop, or skip it")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show which lines would be refused, and record nothing")
	c.Flags().BoolVar(&strictTypes, "strict-types", false, "refuse lines with an unknown event type that is close to a known one")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if onError != "stop" && onError != "skip" {
			return term.Usage("give stop, or skip to continue after refused lines", "--on-error must be stop or skip, not %q", onError)
		}
		in, closeFile, err := p.openLines(args[0])
		if err != nil {
			return err
		}
		defer closeFile()
		query := accountQuery(account)
		query.Set("on-error", onError)
		query.Set("dry-run", strconv.FormatBool(dryRun))
		query.Set("strict-types", strconv.FormatBool(strictTypes))
		need := makesData
		if dryRun {
			need = triesData
		}
		return p.manage(ctx, "event import", need, func(a *adminClient) error {
			return p.importLines(ctx, a, query, in)
		})
	})
	return c
}

// openLines opens a file of lines, unpacked, counting what is read.
func (p *program) openLines(name string) (*lineCounter, func(), error) {
	in, closeFile, err := p.openFile(name, "events")
	if err != nil {
		return nil, nil, err
	}
	counter := &lineCounter{}
	counter.share = shareRead(&in)
	buffered := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		_ = term.SkipByteOrderMark(buffered) // the reader of the lines reports UTF-16, as it does other formats
		counter.r = buffered
		return counter, closeFile, nil
	}
	unpacked, err := moving.NewGzipReader(buffered)
	counter.unpacked = &wholeLines{r: unpacked, err: err}
	counter.r = counter.unpacked
	return counter, closeFile, nil
}

// openFile opens a file of lines, or standard input.
func (p *program) openFile(name, of string) (in io.Reader, closeFile func(), err error) {
	if name == "-" {
		return p.In, func() {}, nil
	}
	f, err := term.OpenInput(name)
	hint := "name a file of " + of + ", or - for standard input"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, term.Fail(term.ExitNotFound, hint, "%s %s", name, term.Missing(name))
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, datadir.NotAllowedOr(term.ExitUsage, name, err)
	case err != nil:
		return nil, nil, term.Usage(hint, "%s: %w", name, term.PathReason(err))
	}
	return f, func() { _ = f.Close() }, nil
}

// shareRead counts the bytes read from in and returns the share of the file that
// was read, from 0 to 1, or nil if in is not a regular file.
func shareRead(in *io.Reader) func(importAnswer) float64 {
	f, ok := (*in).(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	read := &lineCounter{r: f}
	*in = read
	return func(importAnswer) float64 { return float64(read.bytes.Load()) / float64(info.Size()) }
}

// lineCounter counts the lines and bytes that pass through it. One goroutine reads
// through it while another reads the counts.
type lineCounter struct {
	r     io.Reader
	bytes atomic.Int64
	ends  atomic.Int64          // line ends
	open  atomic.Bool           // there is something after the last line end
	whole atomic.Bool           // the end was reached
	err   atomic.Pointer[error] // why it was not

	unpacked *wholeLines                // what a gzip file holds, or nil
	share    func(importAnswer) float64 // how much of it the server has, of 1; nil when not known
}

func (c *lineCounter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.bytes.Add(int64(n))
	c.ends.Add(int64(bytes.Count(b[:n], []byte("\n"))))
	if n > 0 {
		c.open.Store(b[n-1] != '\n')
	}
	switch {
	case errors.Is(err, io.EOF):
		c.whole.Store(true)
	case err != nil:
		c.err.Store(&err)
	}
	return n, err
}

// wholeLines passes on the lines of a gzip file up to where it is cut off or damaged, so
// that the import ends like that of a shorter file.
type wholeLines struct {
	r      io.Reader
	ready  []byte // whole lines
	rest   []byte // the line after them, as far as it was read
	err    error  // the end
	broken atomic.Bool
}

func (w *wholeLines) Read(b []byte) (int, error) {
	for len(w.ready) == 0 {
		if errors.Is(w.err, moving.ErrBrokenGzip) {
			w.broken.Store(true)
			return 0, io.EOF
		}
		if w.err != nil && len(w.rest) == 0 {
			return 0, w.err
		}
		if w.err != nil {
			w.ready, w.rest = w.rest, nil
			break
		}
		w.more()
	}
	n := copy(b, w.ready)
	w.ready = w.ready[n:]
	return n, nil
}

// more continues reading. A line that is too long is passed on in parts.
func (w *wholeLines) more() {
	chunk := make([]byte, 64<<10)
	n, err := w.r.Read(chunk)
	w.err = err
	all := append(w.rest, chunk[:n]...)
	end := bytes.LastIndexByte(all, '\n') + 1
	if end == 0 && len(all) > eventlog.ImportLineSizeMax {
		end = len(all)
	}
	w.ready, w.rest = all[:end], all[end:]
}

// isBroken reports whether a gzip file was read up to where it is cut off or damaged.
func (c *lineCounter) isBroken() bool { return c.unpacked != nil && c.unpacked.broken.Load() }

func (c *lineCounter) lines() int64 {
	lines := c.ends.Load()
	if c.open.Load() {
		lines++
	}
	return lines
}

// importAnswer is any line of the answer to an import.
type importAnswer struct {
	admin.ImportCounts
	admin.ImportRefusal
}

// importLines sends lines and follows the answer, which begins before the last
// of them is sent.
func (p *program) importLines(ctx context.Context, a *adminClient, query url.Values, in *lineCounter) error {
	answer, err := a.send(ctx, "POST", "/admin/events/import?"+query.Encode(), "application/x-ndjson", term.Interruptible(ctx, in))
	if err != nil {
		return importBroke(in, err)
	}
	defer answer.Body.Close()
	progress := p.NewProgress("importing")
	defer progress.Clear()
	var last importAnswer
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		last = importAnswer{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return term.Fail(term.ExitFailed, "use the same version of tollhouse as the server", "cannot read the server's answer: %w", err)
		}
		switch {
		case last.Progress:
			share := 0.0
			if in.share != nil {
				share = in.share(last)
			}
			progress.Show(share, "%s, %.1f MiB, %.0f lines/s", term.Count(last.Lines, "line", "lines"), float64(last.Bytes)/term.Mebibyte, progress.Rate(float64(last.Lines)))
		case last.Line > 0:
			progress.Clear()
			if err := p.refusedLine(last); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return importBroke(in, brokenAnswer(err))
	}
	if !last.Summary {
		return importBroke(in, importEnded(last))
	}
	progress.Clear()
	if in.isBroken() && (last.Errors == 0 || query.Get("on-error") == "skip" || query.Get("dry-run") == "true") {
		if err := p.refusedLine(importAnswer{ImportRefusal: admin.ImportRefusal{Line: last.Lines + 1, Offset: last.Bytes, Error: admin.IncompleteUpload, Description: admin.BrokenGzip}}); err != nil {
			return err
		}
		last.Lines, last.Errors = last.Lines+1, last.Errors+1
	}
	return p.sumUp(last, query.Get("on-error") == "stop", query.Get("dry-run") == "true", in)
}

// importBroke prefers an error in reading the file over err.
func importBroke(in *lineCounter, err error) error {
	if unread := in.err.Load(); unread != nil {
		return term.Fail(term.ExitBadData, "events recorded so far are kept; fix the file and import it again", "cannot read the whole file: %w", *unread)
	}
	return err
}

func importEnded(last importAnswer) error {
	if last.Description == "" {
		return term.Fail(term.ExitUnreachable, "events recorded so far are kept; run it again", "the server ended the import early")
	}
	code := term.ExitFailed
	if last.Error == web.DiskFull {
		code = term.ExitIO
	}
	return term.Fail(code, "events recorded so far are kept; run it again", "the import stopped early: %s", asClause(last.Description))
}

// refusedLine prints which line was refused and why.
func (p *program) refusedLine(l importAnswer) error {
	if p.JSON {
		return p.PrintJSON(struct {
			Line        int64  `json:"line"`
			Offset      int64  `json:"offset"`
			Error       string `json:"error"`
			Param       string `json:"param,omitempty"`
			Description string `json:"error_description"`
		}{l.Line, l.Offset, l.Error, l.Param, l.Description})
	}
	param := ""
	if l.Param != "" && !strings.HasPrefix(l.Description, l.Param+" ") {
		param = l.Param + ": "
	}
	fmt.Fprintf(p.Err, "tollhouse: line %d: %s: %s%s\n", l.Line, term.Visible(l.Error), term.Visible(param), term.Visible(asClause(l.Description)))
	return nil
}

// sumUp prints the summary. It fails if a line was refused, or if the server's
// counts differ from ours.
func (p *program) sumUp(s importAnswer, stops, dryRun bool, in *lineCounter) error {
	verb := "recorded"
	if dryRun {
		verb = "would be recorded"
	}
	summary := struct {
		Summary   bool  `json:"summary"`
		Lines     int64 `json:"lines"`
		Bytes     int64 `json:"bytes"`
		Recorded  int64 `json:"recorded"`
		Unchanged int64 `json:"unchanged"`
		Errors    int64 `json:"errors"`

		UnknownTypes []admin.UnknownType `json:"unknown_types,omitempty"`
	}{true, s.Lines, s.Bytes, s.Recorded, s.Unchanged, s.Errors, s.UnknownTypes}
	if s.Lines == 0 {
		p.warnEmpty()
	}
	for _, u := range s.UnknownTypes {
		p.Note("note: %s of type %q, which is unknown; nearest: %s", term.Count(u.Count, "event", "events"), u.Type, u.Nearest)
	}
	err := p.Done(summary, "%s (%s): %d %s, %d unchanged, %d refused", term.Count(s.Lines, "line", "lines"), term.Count(s.Bytes, "byte", "bytes"), s.Recorded, verb, s.Unchanged, s.Errors)
	if err != nil {
		return err
	}
	if s.Errors > 0 {
		hint := "fix the lines and import the file again: recorded events are kept and not recorded twice"
		switch {
		case s.Unreadable && dryRun:
			hint = "fix the file; nothing was recorded"
		case s.Unreadable:
			hint = "fix the file and import it again: recorded events are kept and not recorded twice"
		case in.isBroken():
			hint = "compress the file again and import it: recorded events are kept and not recorded twice"
		case dryRun:
			hint = "fix the lines; nothing was recorded"
		case stops:
			hint = "fix the line and import the file again, which continues from there; or skip refused lines with --on-error skip"
		}
		return term.Fail(term.ExitBadData, hint, "%s refused", term.Count(s.Errors, "line was", "lines were"))
	}
	if !in.whole.Load() || s.Lines != in.lines() || s.Bytes != in.bytes.Load() {
		return term.Fail(term.ExitFailed, "import the file again: nothing is recorded twice",
			"the server received %s and %s of the %s and %s that were sent", term.Count(s.Lines, "line", "lines"), term.Count(s.Bytes, "byte", "bytes"),
			term.Count(in.lines(), "line", "lines"), term.Count(in.bytes.Load(), "byte", "bytes"))
	}
	return nil
}
