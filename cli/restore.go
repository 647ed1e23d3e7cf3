package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/backup/encryption"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

// A restore builds a new generation next to the one in use, checks it, and then makes
// CURRENT name it. Until then nothing existing changes, so a refusal leaves the
// directory as it was. A running server keeps its generation until it is restarted.

func (p *program) restoreCommand() *cobra.Command {
	var r restoration
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "restore the data from a backup (- for standard input)",
		Long: `Restore the data from a backup into a new generation, which the server uses from its next
start. An incomplete backup is refused, and nothing is changed. A server may keep running:
until it is restarted it uses the old generation, and what it records in that time is
only there.

The old generation is kept, so that you can undo a restore. Generations before it are
removed, unless --keep is given or a server is running. A restore undoes later
revocations too: tokens revoked and users disabled since then become active again.

Restored data sends no webhooks until you run tollhouse webhook resume, so that a test
copy does not call production receivers. With --resume-webhooks it sends them.

An encrypted backup needs --identity, the secret key of a recipient. It is decrypted in
memory; only the restored data is on the disk, and that is not encrypted.`,
		Args: operands("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			r.p, r.file = p, args[0]
			datadir.MemoryDefault.Limit(p.environ)
			return r.run(ctx)
		}),
	}
	c.Flags().BoolVar(&r.keepAll, "keep", false, "keep all generations, not only the last one in use")
	c.Flags().BoolVar(&r.acceptClock, "accept-clock", false, "restore even if the clock is earlier than the backup")
	c.Flags().BoolVar(&r.resume, "resume-webhooks", false, "send webhooks from the restored data immediately; use it only if this replaces the production server")
	r.identity.Add(c.Flags())
	nameVariables(c.Flags(), "") // what replaces everything is given on the command line
	return c
}

// restoration is one run of restore.
type restoration struct {
	p           *program
	file        string
	keepAll     bool
	still       func() error // fails if the copy may be incomplete; nil for a backup
	acceptClock bool
	resume      bool // webhooks are not held
	identity    datadir.IdentityFlag
	moved       bool // the store itself is moved here, not a copy of an earlier state

	dir      string
	created  bool     // the data directory was made for it
	fresh    bool     // it had no data
	alone    *os.File // the data directory, locked against other restores
	lock     *datadir.Lock
	server   datadir.Holder // that keeps running, when there is no lock
	replaced string         // the generation in use up to now, or ""
	name     string         // of the new one
	header   backup.Header
	totals   backup.Totals
	held     bool // webhooks are not sent until they are resumed
}

// restored is the outcome as --json shows it.
type restored struct {
	File       string    `json:"file"`
	Generation string    `json:"generation"`
	Replaced   string    `json:"replaced,omitempty"`
	Records    int64     `json:"records"`
	Instance   string    `json:"instance"`
	Created    time.Time `json:"created"`
	Restart    bool      `json:"restart_needed"` // a server still uses the old generation
	Held       bool      `json:"webhooks_held"`
	SameKey    *bool     `json:"same_key,omitempty"`
}

func (r *restoration) run(ctx context.Context) (err error) {
	if r.p.adminSocket != "" && !r.p.dataGiven {
		return term.Usage("name the data directory with --data; the server may keep running", "restore needs the data directory and cannot work through a socket")
	}
	if r.keepAll && r.p.store.Given() {
		return term.Usage("leave it out; the data that a restore replaces is kept until the next one", "--keep is for a data directory")
	}
	if !r.p.store.Given() {
		if err := datadir.CanKeepData(); err != nil {
			return err
		}
	}
	in, closeFile, err := r.p.openBackup(ctx, r.file)
	if err != nil {
		return err
	}
	defer closeFile()
	with, err := r.identity.Parse(&r.p.Console, r.file == "-")
	if err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(datadir.Locate(r.p.data)); err != nil {
		return err
	}
	b, size, err := r.examine(ctx, in, with)
	if err != nil {
		return err
	}
	defer b.Close()
	if r.p.store.Given() {
		return r.intoDatabase(ctx, b)
	}
	if err := r.install(ctx, b, size); err != nil {
		return err
	}
	return r.report()
}

// intoDatabase makes the backup the next generation of the database.
func (r *restoration) intoDatabase(ctx context.Context, b *store.BackupFile) error {
	p := r.p
	address, err := p.databaseAddress()
	if err != nil {
		return err
	}
	if err := p.Confirm(ctx, "Replace the data in %s with the backup of "+r.header.Created.Format(time.RFC3339)+"?", nameOf(address)); err != nil {
		return err
	}
	replaced, err := database.Replace(ctx, p.databaseOptions(address), func(_, next *pgkv.DB) (err error) {
		r.totals, err = b.Load(ctx, next, time.Now())
		if errors.Is(err, record.ErrUnavailable) {
			return err // of the database
		}
		if err != nil {
			return loadFault(r.file, err)
		}
		return r.record(ctx, next)
	})
	if err != nil {
		return err
	}
	out := r.outcome(database.TableOf(replaced.New), database.TableOf(replaced.Old), replaced.Key)
	if out.SameKey != nil && !*out.SameKey {
		p.Note("warning: the backup was made with a different server key (fingerprint %s, here %s): %s", r.header.Key, replaced.Key, datadir.LostWithKey)
	}
	if r.resume {
		if err := database.KeepPlace(ctx, address); err != nil {
			return err
		}
	}
	r.noteHeld()
	p.Note("%s is kept until the next restore: to undo this one, stop the servers and run: psql %s -c \"update %s set value = '%d' where name = 'generation'\"", out.Replaced, term.ShellQuote(address.String()), siteOf(address), replaced.Old)
	return p.Done(out, "restored %s from the backup of %s into %s of %s", term.Count(r.totals.Records, "record", "records"), r.header.Created.Format(time.RFC3339), out.Generation, nameOf(address))
}

// siteOf returns the table of a store's generation for SQL within double quotes of a shell.
func siteOf(a *pgkv.Address) string {
	if a.Schema() == pgkv.SchemaDefault {
		return pgkv.SchemaDefault + ".site"
	}
	return `\"` + a.Schema() + `\".site`
}

// record writes the audit line of the restore, and holds the webhooks.
func (r *restoration) record(ctx context.Context, db kv.DB) (err error) {
	if err := store.RecordRestore(ctx, db, r.header, time.Now()); err != nil || r.resume {
		return err
	}
	r.held, err = webhook.HoldUnasked(ctx, db, webhook.HeldRestored, time.Now())
	return err
}

// noteHeld says that webhooks are held.
func (r *restoration) noteHeld() {
	if r.held {
		r.p.Note("webhooks are held because this may be a copy; if it replaces the production server, run tollhouse webhook resume")
	}
}

// outcome is what was restored. here is the fingerprint of the present server key, or "".
func (r *restoration) outcome(generation, replaced, here string) restored {
	out := restored{File: r.file, Generation: generation, Replaced: replaced, Records: r.totals.Records, Instance: r.header.Instance, Created: r.header.Created, Held: r.held}
	if here != "" && r.header.Key != "" {
		same := here == r.header.Key
		out.SameKey = &same
	}
	return out
}

// examine checks the backup before the directory is touched: a file as a whole, a
// stream by its header. It returns the backup at its beginning, and its size in
// bytes if known.
func (r *restoration) examine(ctx context.Context, in io.Reader, with encryption.Identities) (b *store.BackupFile, size int64, err error) {
	if f, ok := in.(io.Seeker); ok {
		checked, err := r.p.checkFile(ctx, in, r.file, with)
		if err != nil {
			return nil, 0, err
		}
		if checked.Fixtures {
			return nil, 0, datadir.BadBackup(r.file, &store.FixturesError{})
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, 0, datadir.BadBackup(r.file, err)
		}
		size = checked.Bytes
	}
	b, encrypted, err := datadir.OpenBackup(in, r.file, with)
	if err != nil {
		return nil, 0, err
	}
	if size == 0 { // not checked before
		r.p.noteUnused(encrypted, with)
	}
	r.header = b.Header
	if err := r.checkClock(time.Now()); err != nil {
		b.Close()
		return nil, 0, err
	}
	return b, size, nil
}

const clockSlack = time.Minute // by which two machines' clocks may differ

// checkClock refuses a clock before the time of the backup, because expired tokens
// would become valid again.
func (r *restoration) checkClock(now time.Time) error {
	if !now.Add(clockSlack).Before(r.header.Created) || r.acceptClock {
		return nil
	}
	return term.Fail(term.ExitBusy, "correct the clock and try again; if it is right, add --accept-clock",
		"the clock says %s, but the backup was made later, at %s", now.UTC().Format(time.RFC3339), r.header.Created.Format(time.RFC3339))
}

// enter takes the directory's lock, or finds the server that holds it.
func (r *restoration) enter(ctx context.Context) error {
	if err := datadir.BecomeOwner(r.dir); err != nil {
		return err
	}
	if !r.moved && !datadir.IsEmpty(r.dir) {
		question := "Replace the data in %s with the backup of " + r.header.Created.Format(time.RFC3339) + "?"
		if err := r.p.Confirm(ctx, question, r.dir); err != nil {
			return err
		}
	}
	_, err := os.Lstat(r.dir)
	r.created, r.fresh = err != nil, datadir.IsEmpty(r.dir)
	dir, err := datadir.Prepare(r.dir, term.ExitNotAllowed, r.p.QuietLog())
	if err != nil {
		return err
	}
	r.dir = dir
	if err := r.lockOut(); err != nil {
		return err
	}
	deadline := time.Now().Add(datadir.LockTries)
	for {
		lock, err := datadir.TryLock(r.dir, "restore")
		if !errors.Is(err, datadir.ErrLocked) {
			r.lock = lock
			return err
		}
		h := datadir.ReadHolder(r.dir)
		a := newSocketAdmin(r.p.socketOf(r.dir))
		answered := a.ask(ctx) == nil
		_ = a.close()
		if answered && !r.moved {
			r.server = h
			return nil
		}
		if answered || time.Now().After(deadline) {
			return datadir.HeldError(r.dir, h)
		}
		if err := term.Sleep(ctx, datadir.LockWait); err != nil {
			return err
		}
	}
}

// lockOut excludes other restores, even while a server holds LOCK. The system
// releases the lock when the process exits.
func (r *restoration) lockOut() (err error) {
	if r.alone, err = os.Open(r.dir); err != nil {
		return datadir.NotAllowedOr(term.ExitIO, r.dir, err)
	}
	err = datadir.LockFile(r.alone)
	if errors.Is(err, datadir.ErrLocked) {
		return errors.Join(term.Fail(term.ExitBusy, "wait for it to finish", "another restore into %s is running", r.dir), r.alone.Close())
	}
	return err
}

// report prints the result and what is left to do.
func (r *restoration) report() error {
	p := r.p
	here := datadir.Fingerprint(p.knownKey(r.dir))
	out := r.outcome(r.name, r.replaced, here)
	out.Restart = r.lock == nil
	switch {
	case r.header.Key == "":
	case here == "":
		p.Note("the server key cannot be read: copy the secret.key of the backed-up server (fingerprint %s) into %s before the next start; otherwise %s", r.header.Key, r.dir, datadir.LostWithKey)
	case here != r.header.Key:
		p.Note("warning: the data was written with the server key %s, but the key here is %s: put the right key here before the next start, or start once with --new-key: %s", r.header.Key, here, datadir.LostWithKey)
	}
	if r.lock == nil {
		p.Note("the server (process %d) keeps using %s until it is restarted; what it records until then stays there", r.server.PID, cmp.Or(r.replaced, "its current data"))
	}
	r.noteHeld()
	if r.replaced != "" {
		p.Note("%s is kept: to undo the restore, stop the server and run: echo %s > %s", r.replaced, r.replaced, term.ShellQuote(filepath.Join(r.dir, datadir.CurrentName)))
	}
	return p.Done(out, "restored %s from the backup of %s into %s", term.Count(r.totals.Records, "record", "records"), r.header.Created.Format(time.RFC3339), filepath.Join(r.dir, r.name))
}
