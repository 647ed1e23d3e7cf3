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
	"tollhouse/store/backup/encryption"
)

func (p *program) backupVerify() *cobra.Command {
	var identity datadir.IdentityFlag
	var sealed bool
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "check every record of a backup (- for standard input)",
		Long: `Check that a backup is complete and unchanged, that every record can be read, and that
every list matches the records it lists. This needs no data directory and no server.
Exit 65 if the file is not a backup that can be restored. For a scheduled backup the
result is also written to FILE.checked, so that the desk can show it.

An encrypted backup needs --identity, the secret key of a recipient. With --sealed it needs
none: the file is compared with the checksum in FILE.checked, which does not prove that
anybody can decrypt it.`,
		Args: operands("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			if sealed && identity.Given() {
				return term.Usage("leave one of them out", "--sealed and --identity cannot be combined")
			}
			in, closeFile, err := p.openBackup(ctx, args[0])
			if err != nil {
				return err
			}
			defer closeFile()
			if sealed {
				return p.verifySealed(ctx, in, args[0])
			}
			with, err := identity.Parse(&p.Console, args[0] == "-")
			if err != nil {
				return err
			}
			checked, err := p.checkFile(ctx, in, args[0], with)
			if ctx.Err() == nil {
				_ = datadir.NoteCheck(args[0], time.Now(), err) // the directory may be read-only
			}
			if err != nil {
				return err
			}
			return p.showBackup(checked)
		}),
	}
	identity.Add(c.Flags())
	c.Flags().BoolVar(&sealed, "sealed", false, "compare an encrypted backup with its note, without decrypting it")
	nameVariables(c.Flags(), "")
	return c
}

// verifySealed checks an encrypted backup without an identity.
func (p *program) verifySealed(ctx context.Context, in io.Reader, name string) error {
	read := p.NewMeter("checking", in, sizeOf(in))
	defer read.Clear()
	checked, err := datadir.CheckSealed(ctx, read, name)
	if ctx.Err() == nil {
		_ = datadir.NoteCheck(name, time.Now(), err) // the directory may be read-only
	}
	if err != nil {
		return err
	}
	read.Clear()
	if p.JSON {
		return p.PrintJSON(checked)
	}
	if p.Quiet {
		return nil
	}
	return p.PrintRows(term.Row{"backup", checked.File}, term.Row{"encrypted", "for " + term.Count(int64(checked.Recipients), "recipient", "recipients")},
		term.Row{"size", term.ShowBytes(uint64(checked.Bytes))}, term.Row{"unchanged", "yes, since it was written"})
}

// openBackup opens a backup that is named on the command line. A pipe, such as /dev/stdin or
// <(…) of a shell, is read once, as standard input is: only a file can seek.
func (p *program) openBackup(ctx context.Context, name string) (io.Reader, func(), error) {
	if encryption.IsSecret(name) {
		return nil, nil, term.Usage("name the file, and give the key with --identity FILE", "a secret key was given in place of a backup file")
	}
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
func (p *program) checkFile(ctx context.Context, in io.Reader, name string, with encryption.Identities) (datadir.CheckedBackup, error) {
	read := p.NewMeter("checking", in, sizeOf(in))
	defer read.Clear()
	checked, err := datadir.ReadBackup(ctx, read, name, with)
	if err == nil {
		p.noteUnused(checked.Encrypted, with)
	}
	return checked, err
}

// noteUnused says that identities were given for a plain backup.
func (p *program) noteUnused(encrypted bool, with encryption.Identities) {
	if !encrypted && len(with) > 0 {
		p.Note("the backup is not encrypted, so --identity was not used")
	}
}

// sizeOf returns the size of a file, or 0 if it is not known.
func sizeOf(in io.Reader) int64 {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
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
