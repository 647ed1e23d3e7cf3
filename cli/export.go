package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
)

func (p *program) exportCommand() *cobra.Command {
	var account string
	var only []string
	var secrets bool
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "write everything as JSON lines, as import takes them (- for standard output)",
		Long: `Write accounts, clients, users, resources, events and webhook endpoints to a file of JSON
lines, as they are at one moment. tollhouse import takes it, and so can any other system.
The server may keep running. The file appears under its name when it is complete.

Without --secrets, no line has a secret or a hash. With it, clients and users have the
hashes of their secrets and passwords, webhook endpoints their secrets, and live tokens
are written by their hashes. Anyone with the file can attack the passwords and read what
the tokens are for: only its owner can open it, and the audit log says that it was made.

To move to another tollhouse, use backup and restore, or move: they keep the audit log,
sessions and the revisions too.`,
		Args: operands("a file"),
	}
	flags := c.Flags()
	flags.StringArrayVar(&only, "only", nil, "only lines of this `noun`: account, client, user, resource, event, webhook or token; may be given several times")
	flags.StringVar(&account, "account", "", "leave out what belongs to other accounts than this `account`")
	flags.BoolVar(&secrets, "secrets", false, "include hashes of passwords and secrets, secrets of webhook endpoints, and live tokens")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		query := url.Values{}
		if query["only"] = term.SplitLists(only); len(only) > 0 && len(query["only"]) == 0 {
			query["only"] = only // an empty noun, which the server refuses
		}
		if !secrets && slices.Contains(query["only"], "token") {
			return term.Usage("add --secrets", "tokens are exported by their hashes, only with --secrets")
		}
		if c.Flags().Changed("account") {
			query.Set("account", account)
		}
		needsKey := false
		if secrets {
			query.Set("secrets", "true")
			needsKey = len(query["only"]) == 0 || slices.Contains(query["only"], "webhook")
		}
		if err := p.somethingTo("export"); err != nil {
			return err
		}
		return inFlags(map[string]flagName{"only": {"--only", ""}, "account": {"--account", "tollhouse account list shows the accounts"}}, p.exportTo(ctx, args[0], query, needsKey))
	})
	return c
}

// exportTo writes an export to a file, or with - to standard output. Anyone with the secrets of
// webhook endpoints opened needs the server key.
func (p *program) exportTo(ctx context.Context, name string, query url.Values, needsKey bool) error {
	if name == "-" {
		if query.Has("secrets") {
			if term.IsTerminal(p.Out) {
				return term.Usage("name a file, or pipe it: tollhouse export --secrets - | ssh …", "secrets are not written to a terminal")
			}
			p.warnReadable()
		}
		_, err := p.export(ctx, query, needsKey, func(answer *http.Response) (int64, error) { return p.receiveLines(p.Out, answer, "Tollhouse-Lines") })
		return err
	}
	if err := p.mayOverwrite(ctx, name); err != nil {
		return err
	}
	var f *datadir.BackupFile
	lines, err := p.export(ctx, query, needsKey, func(answer *http.Response) (lines int64, err error) {
		if f, err = datadir.NewBackupFile(name); err != nil {
			return 0, err
		}
		err = f.Fill(func(w io.Writer) (err error) {
			lines, err = p.receiveLines(w, answer, "Tollhouse-Lines")
			return err
		})
		return lines, err
	})
	if f != nil {
		defer f.Discard()
	}
	if err == nil {
		err = f.Publish()
	}
	if err != nil {
		return err
	}
	return p.Done(map[string]any{"file": name, "lines": lines}, "exported %s to %s", term.Count(lines, "line", "lines"), name)
}

func (p *program) export(ctx context.Context, query url.Values, needsKey bool, receive func(*http.Response) (int64, error)) (lines int64, err error) {
	err = p.manage(ctx, "export", needsData, func(a *adminClient) error {
		if needsKey {
			if err := a.requireKey(); err != nil {
				return err
			}
		}
		answer, err := a.send(ctx, "GET", "/admin/export?"+query.Encode(), "", nil)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		lines, err = receive(answer)
		return err
	})
	return lines, err
}

// receiveLines copies the lines of an answer, and returns how many. It fails unless all arrived; the
// trailer counts them, if the answer came from a server.
func (p *program) receiveLines(w io.Writer, answer *http.Response, trailer string) (int64, error) {
	copied := p.NewMeter
	if w == p.Out {
		copied = func(what string, r io.Reader, _ int64) *term.Meter { return p.MeterToOutput(what, r) }
	}
	shown := copied("exporting", answer.Body, 0)
	defer shown.Clear()
	lines := &lineCounter{r: shown}
	if _, err := io.Copy(w, lines); err != nil {
		var ours *term.Failure
		if errors.As(err, &ours) {
			return 0, err
		}
		return 0, term.Fail(term.ExitIO, "the output is incomplete: run it again", "the export stopped early: %w", err)
	}
	if claimed := answer.Trailer.Get(trailer); claimed != "" && claimed != strconv.FormatInt(lines.lines(), 10) {
		return 0, term.Fail(term.ExitIO, "the output is incomplete: run it again", "the server sent %s lines, but %d arrived", claimed, lines.lines())
	}
	return lines.lines(), nil
}

// warnReadable warns of a file behind standard output that others can read.
func (p *program) warnReadable() {
	f, ok := p.Out.(*os.File)
	if !ok {
		return
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		p.Note("warning: other users can read the file behind standard output (mode %04o), and it will have secrets: name a FILE instead", info.Mode().Perm())
	}
}
