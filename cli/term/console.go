// Package term is how a command speaks to a person or a script: results as tables
// or JSON, progress, prompts, messages with a next step, and exit codes.
//
// A command writes to a [Console]. It returns its errors as a [Failure], and the
// Console prints that once, at the end of the process. What other people wrote
// passes [Visible] before it reaches a terminal.
package term

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"tollhouse/store/snapshot"
)

// Console holds the streams of a command. Results go to Out: a table for people,
// or with --json one value, or one per line for lists. Everything else goes to Err.
type Console struct {
	In       io.Reader
	Out, Err io.Writer

	JSON  bool // print JSON
	Quiet bool // print nothing but results and errors
	Yes   bool // do not ask before deleting or replacing

	Complete func(text string) string // completes the commands in notes and hints; nil leaves them

	lines *logLines // of a server's log, or nil
}

// PrintJSON prints one value on one line, without escapes for HTML.
func (c *Console) PrintJSON(value any) error {
	line, err := snapshot.EncodeJSON(value)
	if err != nil {
		return err
	}
	_, err = c.Out.Write(append(line, '\n'))
	return err
}

// Done reports success. format is for people; scripts get value with --json.
func (c *Console) Done(value any, format string, args ...any) error {
	if c.JSON {
		return c.PrintJSON(value)
	}
	if c.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(c.Out, format+"\n", visible(args)...)
	return err
}

// QuietLog returns the log of a command: warnings and errors only.
func (c *Console) QuietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// ServerLog returns the log of a server in the format that --log-format names. It never
// blocks: see [Console.LogDropped]. Where no person is watching, its lines are
// written in batches. [Console.Report] waits for the last ones.
func (c *Console) ServerLog(format string, level slog.Level) (*slog.Logger, error) {
	if format != "auto" && format != "text" && format != "json" {
		return nil, Usage("give auto, text or json", "--log-format %q is not a format", format)
	}
	isText := format == "text" || format == "auto" && IsTerminal(c.Err)
	handler := func(w io.Writer) slog.Handler {
		if isText {
			return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
		}
		return newPlainLines(w, &slog.HandlerOptions{Level: level})
	}
	c.lines = &logLines{to: c.Err, gather: gatherFor, missing: func(lines uint64) []byte {
		var line bytes.Buffer
		slog.New(handler(&line)).Warn("log lines dropped", "lines", lines, "reason", "the log was not read, or could not be written")
		return line.Bytes()
	}}
	if IsTerminal(c.Err) && isText {
		c.lines.gather = 0
	}
	return slog.New(gathered{Handler: handler(c.lines), lines: c.lines}), nil
}

// LogDropped returns how many lines of the server's log were dropped, because it was not
// read or could not be written.
func (c *Console) LogDropped() uint64 {
	if c.lines == nil {
		return 0
	}
	return c.lines.dropped.Load()
}

// Announce prints text on standard output after the lines of the log so far. If nobody
// reads it, the text stays there to be read, and Announce returns after a second.
func (c *Console) Announce(text string) {
	if c.lines != nil {
		c.lines.Flush()
	}
	out := &logLines{to: c.Out}
	_, _ = out.Write([]byte(text))
	out.Flush()
}

func (c *Console) complete(text string) string {
	if c.Complete == nil {
		return text
	}
	return c.Complete(text)
}

// Note prints a message that is not the result.
func (c *Console) Note(format string, args ...any) {
	if !c.Quiet {
		fmt.Fprintf(c.Err, "tollhouse: %s\n", c.complete(fmt.Sprintf(format, visible(args)...)))
	}
}

// Report prints err with its next step, after the last lines of a server's log, and
// returns the exit code of the process. It waits only briefly for a log that is not read.
func (c *Console) Report(err error) int {
	to := c.Err
	if c.lines != nil {
		to = c.lines
		defer c.lines.Flush()
	}
	if err == nil {
		return ExitOK
	}
	f := FailureOf(err)
	fmt.Fprintf(to, "tollhouse: error: %s\n", onOneLine(f.Err))
	if f.Hint != "" {
		fmt.Fprintf(to, "tollhouse: hint: %s\n", c.complete(Visible(f.Hint)))
	}
	return f.Code
}

// visible makes texts and errors among args safe for one line: a name in a file that others
// wrote must not look like a message of ours.
func visible(args []any) []any {
	safe := slices.Clone(args)
	for i, arg := range safe {
		switch arg := arg.(type) {
		case string:
			safe[i] = Visible(arg)
		case error:
			safe[i] = onOneLine(arg)
		}
	}
	return safe
}

// onOneLine returns the text of an error. Errors that were joined are separated by
// semicolons, so that a line break is always somebody else's, and escaped.
func onOneLine(err error) string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return Visible(err.Error())
	}
	each := joined.Unwrap()
	if err.Error() != errors.Join(each...).Error() { // of fmt.Errorf
		return Visible(err.Error())
	}
	texts := make([]string, len(each))
	for i, err := range each {
		texts[i] = onOneLine(err)
	}
	return strings.Join(texts, "; ")
}
