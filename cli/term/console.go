// Package term is how a command speaks to a person or a script: results as tables
// or JSON, progress, prompts, messages with a next step, and exit codes.
//
// A command writes to a [Console]. It returns its errors as a [Failure], and the
// Console prints that once, at the end of the process. What other people wrote
// passes [Visible] before it reaches a terminal.
package term

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Console holds the streams of a command. Results go to Out: a table for people,
// or with --json one value, or one per line for lists. Everything else goes to Err.
type Console struct {
	In       io.Reader
	Out, Err io.Writer

	JSON  bool // print JSON
	Quiet bool // print nothing but results and errors
	Yes   bool // do not ask before deleting or replacing

	lines *gatheredLines // of a server's log, or nil
}

// PrintJSON prints one value on one line, without escapes for HTML.
func (c *Console) PrintJSON(value any) error {
	e := json.NewEncoder(c.Out)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// Done reports success. format is for people; scripts get value with --json.
func (c *Console) Done(value any, format string, args ...any) error {
	if c.JSON {
		return c.PrintJSON(value)
	}
	if c.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// QuietLog returns the log of a command: warnings and errors only.
func (c *Console) QuietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// ServerLog returns the log of a server in the format that --log-format names. Where
// no person watches, its lines are written together; [Console.Report] writes the last.
func (c *Console) ServerLog(format string, level slog.Level) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	isText := format == "text" || format == "auto" && IsTerminal(c.Err)
	switch {
	case format != "auto" && format != "text" && format != "json":
		return nil, Usage("give auto, text or json", "--log-format %q is not a format", format)
	case IsTerminal(c.Err) && isText:
		return slog.New(slog.NewTextHandler(c.Err, options)), nil
	}
	c.lines = &gatheredLines{to: c.Err}
	if isText {
		return slog.New(gathered{Handler: slog.NewTextHandler(c.lines, options), lines: c.lines}), nil
	}
	return slog.New(gathered{Handler: slog.NewJSONHandler(c.lines, options), lines: c.lines}), nil
}

// Note prints a message that is not the result.
func (c *Console) Note(format string, args ...any) {
	if !c.Quiet {
		fmt.Fprintf(c.Err, "tollhouse: "+format+"\n", args...)
	}
}

// Report prints err with its next step and returns the exit code of the process.
func (c *Console) Report(err error) int {
	if c.lines != nil {
		c.lines.Flush()
	}
	if err == nil {
		return ExitOK
	}
	f := FailureOf(err)
	fmt.Fprintf(c.Err, "tollhouse: error: %s\n", f.Err)
	if f.Hint != "" {
		fmt.Fprintf(c.Err, "tollhouse: hint: %s\n", f.Hint)
	}
	return f.Code
}
