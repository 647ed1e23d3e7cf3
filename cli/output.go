package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

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

// row is a name and its value in what is shown of one thing.
type row struct{ name, value string }

// printRows shows one thing to a person.
func (p *program) printRows(rows ...row) error {
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\n", r.name, r.value)
	}
	return t.Flush()
}

// table shows a list to a person; its head appears with the first line.
type table struct {
	w    *tabwriter.Writer
	head []string
	used bool
}

func (p *program) newTable(head ...string) *table {
	return &table{w: tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0), head: head}
}

func (t *table) add(cells ...string) {
	if !t.used {
		t.used = true
		fmt.Fprintln(t.w, strings.Join(t.head, "\t"))
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

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
