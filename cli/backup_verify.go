package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
)

func (p *program) backupVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "check every record of a backup (- for standard input)",
		Long: `Check that a backup is complete and unchanged, that every record can be read, and that
every list matches the records it lists. This needs no data directory and no server.
Exit 65 if the file is not a backup that can be restored. For a scheduled backup the
result is also written to FILE.checked, so that the desk can show it.`,
		Args: operands("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			in, closeFile, err := p.openBackup(ctx, args[0])
			if err != nil {
				return err
			}
			defer closeFile()
			checked, err := p.checkFile(ctx, in, args[0])
			if ctx.Err() == nil {
				_ = datadir.NoteCheck(args[0], time.Now(), err) // the directory may be read-only
			}
			if err != nil {
				return err
			}
			return p.showBackup(checked)
		}),
	}
}

// openBackup opens a backup that is named on the command line. A pipe, such as /dev/stdin or
// <(…) of a shell, is read once, as standard input is: only a file can seek.
func (p *program) openBackup(ctx context.Context, name string) (io.Reader, func(), error) {
	if name == "-" {
		in, err := onlyOnce(ctx, p.In)
		return in, func() {}, err
	}
	f, err := term.OpenInput(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, term.Fail(term.ExitNotFound, "name a backup file of tollhouse, or - for standard input", "%s %s", name, term.Missing(name))
	case err != nil:
		return nil, nil, datadir.NotAllowedOr(term.ExitIO, name, err)
	}
	closeFile := func() { _ = f.Close() }
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return f, closeFile, nil
	}
	in, err := onlyOnce(ctx, f)
	return in, closeFile, err
}

// onlyOnce returns a reader of an input that cannot seek, and refuses a terminal.
func onlyOnce(ctx context.Context, in io.Reader) (io.Reader, error) {
	if term.IsTerminal(in) {
		return nil, term.Usage("name a file, or pipe one in: … | tollhouse restore -", "a backup cannot be read from a terminal")
	}
	return term.Interruptible(ctx, in), nil
}

// checkFile checks a backup that is read from its beginning.
func (p *program) checkFile(ctx context.Context, in io.Reader, name string) (datadir.CheckedBackup, error) {
	size := int64(0)
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	read := p.NewMeter("checking", in, size)
	defer read.Clear()
	return datadir.ReadBackup(ctx, read, name)
}

// showBackup shows what is in a backup that was checked.
func (p *program) showBackup(b datadir.CheckedBackup) error {
	if p.JSON {
		return p.PrintJSON(b)
	}
	if p.Quiet {
		return nil
	}
	rows := []term.Row{
		{"backup", b.File}, {"made", b.Created.Format(time.RFC3339)}, {"by", "tollhouse " + b.Version},
		{"instance", b.Instance}, {"server key", cmp.Or(b.Key, "unknown")}, {"records", strconv.FormatInt(b.Records, 10)},
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Kinds)) {
		rows = append(rows, term.Row{"  " + kind, strconv.FormatInt(b.Kinds[kind], 10)})
	}
	return p.PrintRows(append(rows, term.Row{"complete", "yes"})...)
}
