package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/secret"
)

func (p *program) backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "write everything that is kept into one file, beside a running server too",
		Long: `Write everything that is kept into one file (- for standard output): what was
acknowledged when it begins, while the server goes on. The file is checked record
by record before it gets its name; without one it is named after the time.

The server key is not in it. Keep a copy of secret.key elsewhere: without it a
restore loses open consent screens and refreshes in flight, and nothing else.`,
		Args: atMostOne("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			name := "tollhouse-" + time.Now().UTC().Format("20060102T150405Z") + ".backup"
			if len(args) > 0 {
				name = args[0]
			}
			if err := p.somethingToBackUp(); err != nil {
				return err
			}
			if name == "-" {
				return p.backUpToOutput(ctx)
			}
			return p.backUpToFile(ctx, name)
		}),
	}
	c.AddCommand(p.backupVerify())
	return c
}

// atMostOne is operands for one that may be left out.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("usage: "+c.UseLine(), "%s takes %s, and not %q too", c.CommandPath(), name, args[1])
		}
		return nil
	}
}

// somethingToBackUp refuses to back up a slip in a path.
func (p *program) somethingToBackUp() error {
	if p.adminSocket != "" && !p.dataGiven {
		return nil
	}
	dir, err := filepath.Abs(p.data)
	if err == nil && isNothing(dir) {
		err = fail(exitNotFound, "name the data directory with --data", "there is no data in %s to back up", dir)
	}
	return err
}

// backUpToOutput checks the backup on its way to standard output.
func (p *program) backUpToOutput(ctx context.Context) error {
	if isTerminal(p.stdout) {
		return usage("name a file, or send it on: tollhouse backup - | ssh …", "a backup is nothing to look at on a terminal")
	}
	return p.manage(ctx, "backup", needsData, func(a *admin) error {
		body, err := a.backup(ctx)
		if err != nil {
			return err
		}
		defer body.Close()
		copied := p.newMeter("backing up", body, 0)
		defer copied.clear()
		sent := &counted{w: writeFaults{p.stdout, "standard output"}}
		checked, err := readBackup(ctx, io.TeeReader(copied, sent), "the backup")
		if err != nil {
			return backupBroke(err)
		}
		p.warnUnnoted(a.backedUp(ctx, backupTold{File: "-", Created: checked.Created, Bytes: sent.n, Records: checked.Records}))
		return nil
	})
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

// backupTold is a backup as it is told to the store, once it lies whole where it
// belongs.
type backupTold struct {
	File      string    `json:"file"` // an absolute path, or -
	Created   time.Time `json:"created"`
	Bytes     int64     `json:"bytes"` // of the file
	Records   int64     `json:"records"`
	Scheduled bool      `json:"scheduled"`
}

// backedUp has a backup noted.
func (a *admin) backedUp(ctx context.Context, told backupTold) error {
	return a.call(ctx, "POST", "/admin/backup", told, nil)
}

// warnUnnoted tells that a backup could not be noted. It is one all the same:
// where the disk is full, nothing can be noted, and a backup elsewhere is wanted.
func (p *program) warnUnnoted(err error) {
	if err != nil {
		p.note("warning: the backup is whole, but the server does not know of it: %v", err)
	}
}

// backup begins a backup and returns the rest of the answer.
func (a *admin) backup(ctx context.Context) (io.ReadCloser, error) {
	answer, err := a.send(ctx, "GET", "/admin/backup", "", nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// backupBroke is the fault of a backup that did not come to its end.
func backupBroke(err error) error {
	if errors.Is(err, backup.ErrTruncated) || errors.Is(err, backup.ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(exitIO, "look at the server's log, then back up again", "the backup broke off, and what was written is not one: %w", errors.Unwrap(err))
	}
	return err
}

// backUpToFile writes beside the file's name, and gives the name to what was
// read back from the disk and found whole.
func (p *program) backUpToFile(ctx context.Context, name string) error {
	if err := p.mayOverwrite(name); err != nil {
		return err
	}
	var f *unnamedFile
	var in io.Reader
	err := p.manage(ctx, "backup", needsData, func(a *admin) (err error) {
		if f, err = newUnnamedFile(name); err != nil {
			return err
		}
		body, err := a.backup(ctx)
		if err != nil {
			return err
		}
		defer body.Close()
		copied := p.newMeter("backing up", body, 0)
		defer copied.clear()
		in = f
		if _, alone := a.http.Transport.(*inProcess); !alone {
			in = &gentle{ctx: ctx, r: f, rest: gentleRest}
		}
		return f.fill(copied)
	})
	if f != nil {
		defer f.discard()
	}
	if err != nil {
		return err
	}
	checked, err := p.checkFile(ctx, in, name)
	if err != nil {
		return backupBroke(err)
	}
	told, err := f.tell(checked)
	if err != nil {
		return err
	}
	if err := f.name(); err != nil {
		return err
	}
	// The store was closed for the check, so that a server need not wait for it.
	p.warnUnnoted(p.manage(ctx, "backup", needsData, func(a *admin) error { return a.backedUp(ctx, told) }))
	if p.json {
		return p.printJSON(checked)
	}
	return p.done(nil, "backed up %s to %s", count(checked.Records, "record", "records"), name)
}

// gentle reads with rests, so that a check beside a server leaves it the
// processors: it rests for rest times as long as what it has read was worked on.
type gentle struct {
	ctx  context.Context
	r    io.Reader
	rest int
	last time.Time // when the last Read returned
}

const (
	gentleRest    = 3 // while a person waits: a fourth of a processor
	gentlestRest  = 9 // while nobody does: a tenth, as the engine's own reading takes
	gentleTurnMax = 80 * time.Millisecond
)

func (g *gentle) Read(b []byte) (int, error) {
	if !g.last.IsZero() {
		if err := sleep(g.ctx, time.Duration(g.rest)*min(time.Since(g.last), gentleTurnMax)); err != nil {
			return 0, err
		}
	}
	n, err := g.r.Read(b)
	g.last = time.Now()
	return n, err
}

// mayOverwrite asks before a backup takes the place of another file. Where there
// is nobody to ask, only --yes says that it may.
func (p *program) mayOverwrite(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return notAllowedOr(exitIO, name, err)
	case !info.Mode().IsRegular():
		return usage("name a file, or give - and send the output there", "%s is there and not a file", name)
	case !p.yes && !isTerminal(p.stdin):
		return fail(exitConflict, "give another name, or --yes to replace it", "%s is there already", name)
	}
	return p.confirm("Replace the file %s?", name)
}

// unnamedFile is a file that gets its name when it is whole. It is closed to
// others from the beginning: what is in a backup is for nobody else.
type unnamedFile struct {
	*os.File
	named string // what it is to be
}

func newUnnamedFile(name string) (*unnamedFile, error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*"+newSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail(exitIO, "make the directory first: mkdir -p "+quoteForShell(dir), "there is no directory %s for the backup", dir)
	case err != nil:
		return nil, notAllowedOr(exitIO, dir, err)
	}
	return &unnamedFile{File: f, named: name}, nil
}

// fill copies r into the file, on disk when it returns, and goes back to the
// beginning.
func (f *unnamedFile) fill(r io.Reader) error {
	if _, err := io.Copy(writeFaults{f.File, f.named}, r); err != nil {
		var broken *fault
		if errors.As(err, &broken) {
			return err
		}
		return fail(exitIO, "look at the server's log, then back up again", "the backup broke off: %w", err)
	}
	return f.rewind()
}

// rewind puts what was written on disk, and goes back to the beginning.
func (f *unnamedFile) rewind() error {
	err := f.Sync()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return writeFault(f.named, err)
}

// tell describes the backup in the file, which was found whole.
func (f *unnamedFile) tell(checked backupShown) (backupTold, error) {
	info, err := f.Stat()
	if err != nil {
		return backupTold{}, writeFault(f.named, err)
	}
	path, err := filepath.Abs(f.named)
	return backupTold{File: path, Created: checked.Created, Bytes: info.Size(), Records: checked.Records}, err
}

// name gives the file its name.
func (f *unnamedFile) name() error {
	err := os.Rename(f.Name(), f.named)
	if err == nil {
		err = syncDir(filepath.Dir(f.named))
	}
	return writeFault(f.named, err)
}

// discard closes the file, and removes it unless it has its name.
func (f *unnamedFile) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// writeFaults tells an error of the disk from one of what is copied to it.
type writeFaults struct {
	w    io.Writer
	name string
}

func (w writeFaults) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	return n, writeFault(w.name, err)
}

func writeFault(name string, err error) error {
	if err == nil {
		return nil
	}
	return fail(exitIO, "make room there, or name a file elsewhere; nothing was changed", "cannot write %s: %w", name, systemReason(err))
}

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

// knownKey returns the server key of a data directory, or the zero key when it
// cannot be read: only a server needs it.
func (p *program) knownKey(dir string) secret.Key {
	path := p.keyFile
	if path == "" {
		path = filepath.Join(dir, keyName)
	}
	key, err := readKey(path, p.keyFile != "", slog.New(slog.DiscardHandler))
	if err != nil {
		return secret.Key{}
	}
	return key
}

// fingerprint names a key, or is "" for the zero key.
func fingerprint(key secret.Key) string {
	if key == (secret.Key{}) {
		return ""
	}
	return key.Fingerprint()
}
