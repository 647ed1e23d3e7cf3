package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/backup/encryption"
)

// backingUp is one run of backup.
type backingUp struct {
	*program
	to    *encryption.Recipients // nil for the server's
	plain bool                   // although the server has recipients
}

func (p *program) backupCommand() *cobra.Command {
	b := backingUp{program: p}
	var recipients datadir.RecipientFlags
	c := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "back up all data to one file; the server may keep running",
		Long: `Back up all data to one file (- for standard output) while the server keeps running. The
backup contains everything that was acknowledged before it began. Every record is checked
before the file appears under its name. The default name contains the time.

With --backup-recipient, or if the running server has recipients, the backup is encrypted in
the format of age, and a note of its checksum is written to FILE.checked. Only the secret
key of a recipient decrypts it again, and the server has none.

The server key is not included. Keep a copy of secret.key elsewhere. Without it a restore
loses open consent screens, refreshes in flight and the secrets of webhook endpoints, but
nothing else.`,
		Args: atMostOne("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) (err error) {
			if b.to, err = recipients.Parse(); err != nil {
				return err
			}
			if b.to != nil && b.plain {
				return term.Usage("leave one of them out, or unset the variable of --backup-recipient", "--plain cannot be combined with recipients")
			}
			if err := p.somethingTo("back up"); err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if name == "-" {
				return b.toOutput(ctx)
			}
			return b.toFile(ctx, name)
		}),
	}
	c.Flags().BoolVar(&b.plain, "plain", false, "do not encrypt, although the running server encrypts its backups")
	nameVariables(c.Flags(), "") // a variable must not undo the encryption
	recipients.Add(c.Flags())
	c.AddCommand(p.backupVerify())
	return c
}

// choose returns for whom the backup is encrypted, or nil.
func (p *backingUp) choose(a *adminClient) (*encryption.Recipients, error) {
	if p.to != nil || p.plain || len(a.info.BackupRecipients) == 0 {
		return p.to, nil
	}
	return encryption.ParseRecipients(a.info.BackupRecipients)
}

// toOutput checks the backup on its way to standard output.
func (p *backingUp) toOutput(ctx context.Context) error {
	if term.IsTerminal(p.Out) {
		return term.Usage("name a file, or pipe it: tollhouse backup - | ssh …", "a backup cannot be written to a terminal")
	}
	return p.manage(ctx, "backup", needsData, func(a *adminClient) error {
		to, err := p.choose(a)
		if err != nil {
			return err
		}
		body, err := a.backup(ctx, to)
		if err != nil {
			return err
		}
		defer body.Close()
		copied := p.NewMeter("backing up", body, 0)
		defer copied.Clear()
		sent := &counted{w: datadir.DiskWriter{W: p.Out, Name: "standard output"}}
		var checked datadir.CheckedBackup
		if to == nil {
			checked, err = datadir.ReadBackup(ctx, io.TeeReader(copied, sent), "the backup", nil)
		} else {
			checked, err = datadir.EncryptBackup(ctx, sent, to, "the backup", copyOf(copied))
		}
		if err != nil {
			return datadir.BrokenBackup(err)
		}
		p.warnUnnoted(a.backedUp(ctx, admin.AdminBackup{File: "-", Created: checked.Created, Bytes: uint64(sent.n), Records: uint64(checked.Records), Encrypted: checked.Encrypted}))
		return nil
	})
}

func copyOf(r io.Reader) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	}
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// backedUp records a backup in the store.
func (a *adminClient) backedUp(ctx context.Context, made admin.AdminBackup) error {
	return a.call(ctx, "POST", "/admin/backup", made, nil)
}

// warnUnnoted warns that the store could not record a backup. The backup is still
// good: a full disk prevents the record, and that is when a backup elsewhere is needed most.
func (p *program) warnUnnoted(err error) {
	if err != nil {
		p.Note("warning: the backup is complete, but the server could not record it: %v", err)
	}
}

// backup begins a backup and returns the rest of the answer.
func (a *adminClient) backup(ctx context.Context, to *encryption.Recipients) (io.ReadCloser, error) {
	path := "/admin/backup"
	if to != nil && a.own { // this process reads it too
		path += "?frugal=true"
	}
	answer, err := a.send(ctx, "GET", path, "", nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// toFile writes a temporary file next to name, and renames it after reading it back and
// checking it. If name is "", the file is named after the time.
func (p *backingUp) toFile(ctx context.Context, name string) error {
	if name != "" {
		if err := p.mayOverwrite(ctx, name); err != nil {
			return err
		}
	}
	var f *datadir.BackupFile
	var in io.Reader
	err := p.manage(ctx, "backup", needsData, func(a *adminClient) (err error) {
		to, err := p.choose(a)
		if err == nil && name == "" {
			name = "tollhouse-" + time.Now().UTC().Format("20060102T150405Z") + datadir.SuffixOf(to)
			err = p.mayOverwrite(ctx, name)
		}
		if err != nil {
			return err
		}
		if f, err = datadir.NewBackupFile(name); err != nil {
			return err
		}
		body, err := a.backup(ctx, to)
		if err != nil {
			return err
		}
		defer body.Close()
		copied := p.NewMeter("backing up", body, 0)
		defer copied.Clear()
		in = f
		if _, alone := a.http.Transport.(*inProcess); !alone {
			in = &datadir.PacedReader{Ctx: ctx, R: f, Rest: datadir.RestBesidePeople}
		}
		return f.Take(ctx, to, copyOf(copied))
	})
	if f != nil {
		defer f.Discard()
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	read := p.NewMeter("checking", in, size)
	defer read.Clear()
	checked, err := f.Check(ctx, read)
	if err != nil {
		return datadir.BrokenBackup(err)
	}
	read.Clear()
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	made := admin.AdminBackup{File: path, Created: checked.Created, Bytes: uint64(size), Records: uint64(checked.Records), Encrypted: checked.Encrypted}
	if err := f.Publish(); err != nil {
		return err
	}
	// The store was closed for the check, so that a server need not wait for it.
	p.warnUnnoted(p.manage(ctx, "backup", needsData, func(a *adminClient) error { return a.backedUp(ctx, made) }))
	if p.JSON {
		return p.PrintJSON(checked)
	}
	how := ""
	if checked.Encrypted {
		how = ", encrypted"
	}
	return p.Done(nil, "backed up %s to %s%s", term.Count(checked.Records, "record", "records"), name, how)
}

// mayOverwrite asks before a backup replaces a file. Without a terminal it requires
// --yes.
func (p *program) mayOverwrite(ctx context.Context, name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return datadir.NotAllowedOr(term.ExitIO, name, err)
	case !info.Mode().IsRegular():
		return term.Usage("name a file, or give - and redirect the output", "%s exists and is not a regular file", name)
	case !p.Yes && !term.IsTerminal(p.In):
		return term.Fail(term.ExitConflict, "give another name, or --yes to replace it", "%s already exists", name)
	}
	return p.Confirm(ctx, "Replace the file %s?", name)
}
