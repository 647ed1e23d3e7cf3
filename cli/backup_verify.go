package cli

import (
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

	"tollhouse/store"
	"tollhouse/store/backup"
)

func (p *program) backupVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "check a backup, every record of it (- for standard input)",
		Long: `Check that a backup is whole and what was written, that each of its records can be
read, and that every list in it agrees with what it lists. It needs no data
directory and no server. Exit 65 if the file is not a backup that can be restored.`,
		Args: operands("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			in, closeFile, err := p.openBackup(ctx, args[0])
			if err != nil {
				return err
			}
			defer closeFile()
			checked, err := p.checkFile(ctx, in, args[0])
			if err != nil {
				return err
			}
			return p.showBackup(checked)
		}),
	}
}

// openBackup opens a backup that is named on the command line.
func (p *program) openBackup(ctx context.Context, name string) (io.Reader, func(), error) {
	if name == "-" {
		if isTerminal(p.stdin) {
			return nil, nil, usage("name a file, or send one: … | tollhouse restore -", "a backup cannot be typed")
		}
		return interruptible(ctx, p.stdin), func() {}, nil
	}
	f, err := openInput(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fail(exitNotFound, "name a file that tollhouse backup has written, or - for standard input", "there is no file %s", name)
	case err != nil:
		return nil, nil, notAllowedOr(exitIO, name, err)
	}
	return f, func() { _ = f.Close() }, nil
}

// backupShown is a backup that was checked, as --json shows it.
type backupShown struct {
	File string `json:"file"`
	backup.Header
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"`
	Kinds   map[string]int64 `json:"kinds"`
}

// checkFile checks a backup that is read from its beginning.
func (p *program) checkFile(ctx context.Context, in io.Reader, name string) (backupShown, error) {
	size := int64(0)
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	read := p.newMeter("checking", in, size)
	defer read.clear()
	return readBackup(ctx, read, name)
}

func readBackup(ctx context.Context, in io.Reader, name string) (backupShown, error) {
	b, err := store.OpenBackup(in)
	if err != nil {
		return backupShown{}, badBackup(name, err)
	}
	defer b.Close()
	totals, err := b.Check(ctx)
	if err != nil {
		return backupShown{}, badBackup(name, err)
	}
	return shownBackup(name, b.Header, totals), nil
}

func shownBackup(name string, h backup.Header, t backup.Totals) backupShown {
	return backupShown{File: name, Header: h, Records: t.Records, Bytes: t.Bytes, Kinds: store.NameKinds(t.Kinds)}
}

// badBackup gives what is wrong with a backup its exit code and next step.
func badBackup(name string, err error) error {
	var form *backup.FormatError
	var newer *store.SchemaError
	var ours *fault
	switch {
	case errors.As(err, &ours):
		return err
	case errors.As(err, &form):
		return fail(exitBadData, "use the tollhouse that wrote it, or a later one", "%s: %w", name, form)
	case errors.As(err, &newer):
		return fail(exitBadData, "use the tollhouse that wrote it, or a later one", "%s has schema %d, and this tollhouse knows up to %d: %w", name, newer.Found, newer.Known, newer)
	case errors.Is(err, backup.ErrForeign):
		return fail(exitBadData, "name a file that tollhouse backup has written", "%s: %w", name, err)
	case errors.Is(err, backup.ErrTruncated), errors.Is(err, backup.ErrDamaged):
		return fail(exitBadData, "copy it again from where it was made, or use another one", "%s: %w", name, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fail(exitIO, "", "%s: %w", name, pathReason(err))
}

// showBackup shows what is in a backup that was checked.
func (p *program) showBackup(b backupShown) error {
	if p.json {
		return p.printJSON(b)
	}
	if p.quiet {
		return nil
	}
	rows := []row{
		{"backup", b.File}, {"made", b.Created.Format(time.RFC3339)}, {"by", "tollhouse " + b.Version},
		{"instance", b.Instance}, {"server key", orNot(b.Key, "not known")}, {"records", strconv.FormatInt(b.Records, 10)},
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Kinds)) {
		rows = append(rows, row{"  " + kind, strconv.FormatInt(b.Kinds[kind], 10)})
	}
	return p.printRows(append(rows, row{"whole", "yes"})...)
}

func orNot(text, none string) string {
	if text == "" {
		return none
	}
	return text
}
