package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"
)

// Results go to standard output: a table for people, or with --json one value,
// or one a line for lists. Everything else goes to standard error.

// printJSON prints one value on one line, as it is: no character is escaped
// for a page that nobody will put it in.
func (p *program) printJSON(value any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

func listed(values []string, none string) string {
	if len(values) == 0 {
		return none
	}
	return strings.Join(values, " ")
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// done tells a person that something was done; scripts have the exit code.
func (p *program) done(value any, format string, args ...any) error {
	if p.json {
		return p.printJSON(value)
	}
	if p.quiet {
		return nil
	}
	_, err := fmt.Fprintf(p.stdout, format+"\n", args...)
	return err
}

// isTerminal reports whether a stream is one that a person looks at.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// quietLog is the log of a command: what went wrong, and no more.
func (p *program) quietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// serverLog is the log of a server, in the format that --log-format names.
func (p *program) serverLog(format string, level slog.Level) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(p.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	case "auto":
		if isTerminal(p.stderr) {
			return slog.New(slog.NewTextHandler(p.stderr, options)), nil
		}
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	}
	return nil, usage("give auto, text or json", "--log-format %q is not a format", format)
}
