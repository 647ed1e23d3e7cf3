package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
)

func (p *program) eventImport() *cobra.Command {
	var account, onError string
	var dryRun bool
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "record events from a file of JSON lines (- for standard input, gzip accepted)",
		Long: `Record events from a file with one event a line, as export writes them.

What is recorded stays, and running the same file again records nothing twice. The
first line that is refused ends it, unless --on-error skip; exit 65 either way.`,
		Args: operands("a file"),
	}
	addAccountFlag(c, &account)
	c.Flags().StringVar(&onError, "on-error", "stop", "stop at the first refused line, or skip it")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "find what would be refused, record nothing")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if onError != "stop" && onError != "skip" {
			return usage("give stop, or skip to pass over refused lines", "--on-error must be stop or skip, not %q", onError)
		}
		in, closeFile, err := p.openLines(args[0])
		if err != nil {
			return err
		}
		defer closeFile()
		query := accountQuery(account)
		query.Set("on-error", onError)
		query.Set("dry-run", strconv.FormatBool(dryRun))
		return p.manage(ctx, "event import", makesData, func(a *admin) error {
			return p.importLines(ctx, a, query, in)
		})
	})
	return c
}

// openLines opens a file of lines, unpacked, counting what is read.
func (p *program) openLines(name string) (*lineCounter, func(), error) {
	in, closeFile := p.stdin, func() {}
	counter := &lineCounter{}
	if name != "-" {
		f, err := openInput(name)
		if err != nil {
			return nil, nil, usage("name a file of events, or - for standard input", "%s: %w", name, pathReason(err))
		}
		in, closeFile = f, func() { _ = f.Close() }
	}
	counter.share = shareRead(&in)
	buffered := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		counter.r = buffered
		return counter, closeFile, nil
	}
	unpacked, err := gzip.NewReader(buffered)
	if err != nil {
		closeFile()
		return nil, nil, fail(exitBadData, "pack it again with gzip", "%s is not whole: %w", name, err)
	}
	counter.r = unpacked
	return counter, closeFile, nil
}

// shareRead puts a count before what is read, and returns how much of it that
// is, of 1: of the file as it lies there, packed or not; nil when it is no file.
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

// openInput opens a file that is named on the command line. A directory opens
// like one, and fails only when it is read.
func openInput(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lineCounter counts the lines and bytes that go through it. It is read by the
// goroutine that sends, and asked by the one that receives.
type lineCounter struct {
	r     io.Reader
	bytes atomic.Int64
	ends  atomic.Int64               // line ends
	open  atomic.Bool                // there is something after the last line end
	whole atomic.Bool                // the end was reached
	err   atomic.Pointer[error]      // why it was not
	share func(importAnswer) float64 // how much of it the server has, of 1; nil when not known
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

func (c *lineCounter) lines() int64 {
	lines := c.ends.Load()
	if c.open.Load() {
		lines++
	}
	return lines
}

// interruptible reads from r until ctx ends, even while r waits for a person to
// type: whoever sends it is then released.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, r)
		_ = writer.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { _ = reader.CloseWithError(ctx.Err()) })
	return reader
}

// importAnswer is any line of the answer to an import.
type importAnswer struct {
	Progress    bool   `json:"progress"`
	Summary     bool   `json:"summary"`
	Lines       int64  `json:"lines"`
	Bytes       int64  `json:"bytes"`
	Recorded    int64  `json:"recorded"`
	Unchanged   int64  `json:"unchanged"`
	Errors      int64  `json:"errors"`
	Line        int64  `json:"line"`
	Offset      int64  `json:"offset"`
	Error       string `json:"error"`
	Param       string `json:"param"`
	Description string `json:"error_description"`
}

// importLines sends lines and follows the answer, which begins before the last
// of them is sent.
func (p *program) importLines(ctx context.Context, a *admin, query url.Values, in *lineCounter) error {
	answer, err := a.send(ctx, "POST", "/admin/events/import?"+query.Encode(), "application/x-ndjson", interruptible(ctx, in))
	if err != nil {
		return importBroke(in, err)
	}
	defer answer.Body.Close()
	progress := p.newProgress("importing")
	defer progress.clear()
	var last importAnswer
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		last = importAnswer{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return fail(exitFailed, "use the tollhouse that the server was started with", "the server's answer cannot be read: %w", err)
		}
		switch {
		case last.Progress:
			share := 0.0
			if in.share != nil {
				share = in.share(last)
			}
			progress.show(share, "%s, %.1f MiB, %.0f lines/s", count(last.Lines, "line", "lines"), float64(last.Bytes)/mebibyte, progress.rate(float64(last.Lines)))
		case last.Line > 0:
			progress.clear()
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
	progress.clear()
	return p.sumUp(last, query.Get("on-error") == "stop", query.Get("dry-run") == "true", in)
}

// importBroke prefers the reason that lies on our side.
func importBroke(in *lineCounter, err error) error {
	if unread := in.err.Load(); unread != nil {
		return fail(exitBadData, "what was recorded until then stays; mend the file and run it again", "the file cannot be read to its end: %w", *unread)
	}
	return err
}

func importEnded(last importAnswer) error {
	if last.Description == "" {
		return fail(exitUnreachable, "what was recorded until then stays; run it again", "the server ended the import before it was done")
	}
	return fail(exitFailed, "what was recorded until then stays; run it again", "the import broke off: %s", asClause(last.Description))
}

// refusedLine tells which line was refused and why.
func (p *program) refusedLine(l importAnswer) error {
	if p.json {
		return p.printJSON(struct {
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
	fmt.Fprintf(p.stderr, "tollhouse: line %d: %s: %s%s\n", l.Line, l.Error, param, asClause(l.Description))
	return nil
}

// sumUp prints the summary and judges it: an import is whole when no line was
// refused and both ends counted the same.
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
	}{true, s.Lines, s.Bytes, s.Recorded, s.Unchanged, s.Errors}
	err := p.done(summary, "%s (%s): %d %s, %d unchanged, %d refused", count(s.Lines, "line", "lines"), count(s.Bytes, "byte", "bytes"), s.Recorded, verb, s.Unchanged, s.Errors)
	if err != nil {
		return err
	}
	if s.Errors > 0 {
		hint := "mend the lines and run the file again: what is recorded stays, and is not recorded twice"
		if stops {
			hint = "mend the line and run the file again: it goes on from there; --on-error skip passes over refused lines"
		}
		return fail(exitBadData, hint, "%s refused", count(s.Errors, "line was", "lines were"))
	}
	if !in.whole.Load() || s.Lines != in.lines() || s.Bytes != in.bytes.Load() {
		return fail(exitFailed, "run the file again: nothing is recorded twice",
			"the server saw %s and %s of the %s and %s that were sent", count(s.Lines, "line", "lines"), count(s.Bytes, "byte", "bytes"),
			count(in.lines(), "line", "lines"), count(in.bytes.Load(), "byte", "bytes"))
	}
	return nil
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
