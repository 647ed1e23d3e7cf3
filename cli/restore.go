package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/kv/badgerkv"
)

// A restore builds a new generation beside the one in use, checks it, and then
// has CURRENT name it. Nothing that is there is changed before that, so that any
// refusal leaves the directory as it was; and a server may go on meanwhile. It
// goes on with its own generation until it is started again.

func (p *program) restoreCommand() *cobra.Command {
	var r restoration
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "build the data anew from a backup (- for standard input)",
		Long: `Build the data anew from a backup, in a new generation beside the one in use, and
use that from the next start on. A backup that is not whole is refused, and nothing
is changed. A server may run meanwhile: it goes on with what it has until it is
started again, and what it records until then stays with what it has.

What was in use is kept, so that a restore can be taken back; an older generation is
removed, unless --keep or a server runs. A backup brings everything back as it was,
tokens that were revoked since and users who were disabled since too.`,
		Args: operands("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			r.p, r.file = p, args[0]
			memoryDefault.limit(p.environ)
			return r.run(ctx)
		}),
	}
	c.Flags().BoolVar(&r.keepAll, "keep", false, "keep all generations, not only the one that was in use")
	c.Flags().BoolVar(&r.acceptClock, "accept-clock", false, "restore although the clock is before the time of the backup")
	nameVariables(c.Flags(), "") // what replaces everything is said on the command line
	return c
}

// restoration is one run of restore.
type restoration struct {
	p           *program
	file        string
	keepAll     bool
	acceptClock bool

	dir      string
	created  bool     // the data directory was made for it
	alone    *os.File // the data directory, locked against other restores
	lock     *dirLock
	server   holder // that goes on meanwhile, when there is no lock
	replaced string // the generation in use up to now, or ""
	name     string // of the new one
	header   backup.Header
	totals   backup.Totals
}

// restored is the outcome as --json shows it.
type restored struct {
	File       string    `json:"file"`
	Generation string    `json:"generation"`
	Replaced   string    `json:"replaced,omitempty"`
	Records    int64     `json:"records"`
	Instance   string    `json:"instance"`
	Created    time.Time `json:"created"`
	Restart    bool      `json:"restart_needed"` // a server goes on with the old generation
	SameKey    *bool     `json:"same_key,omitempty"`
}

func (r *restoration) run(ctx context.Context) (err error) {
	if r.p.adminSocket != "" && !r.p.dataGiven {
		return usage("name the data directory with --data; the server may go on", "restore builds a data directory, and cannot do that through a socket")
	}
	in, closeFile, err := r.p.openBackup(ctx, r.file)
	if err != nil {
		return err
	}
	defer closeFile()
	if r.dir, err = filepath.Abs(r.p.data); err != nil {
		return err
	}
	b, size, err := r.examine(ctx, in)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := r.enter(ctx); err != nil {
		return err
	}
	if err = r.build(ctx, b, size); err == nil {
		err = r.takeBack(r.adopt())
	}
	if err = errors.Join(err, r.leave(err)); err != nil {
		return err
	}
	return r.report()
}

// examine reads what can be read before the directory is touched: of a file
// everything, and of a stream the header. It returns the backup from its
// beginning, and how many bytes it will take, if that is known.
func (r *restoration) examine(ctx context.Context, in io.Reader) (b *store.BackupFile, size int64, err error) {
	if f, ok := in.(io.Seeker); ok && r.file != "-" {
		checked, err := r.p.checkFile(ctx, in, r.file)
		if err != nil {
			return nil, 0, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, 0, badBackup(r.file, err)
		}
		size = checked.Bytes
	}
	b, err = store.OpenBackup(in)
	if err != nil {
		return nil, 0, badBackup(r.file, err)
	}
	r.header = b.Header
	if err := r.checkClock(time.Now()); err != nil {
		b.Close()
		return nil, 0, err
	}
	return b, size, nil
}

const clockSlack = time.Minute // by which two machines' clocks may differ

// checkClock refuses a clock before the time of the backup: under it, what has
// expired would live again.
func (r *restoration) checkClock(now time.Time) error {
	if !now.Add(clockSlack).Before(r.header.Created) || r.acceptClock {
		return nil
	}
	return fail(exitConfig, "set the clock right and try again; if it is right, add --accept-clock",
		"the clock says %s, and the backup was made later, at %s", now.UTC().Format(time.RFC3339), r.header.Created.Format(time.RFC3339))
}

// enter takes the directory's lock, or finds the server that holds it.
func (r *restoration) enter(ctx context.Context) error {
	if err := becomeOwner(r.dir); err != nil {
		return err
	}
	if !isNothing(r.dir) {
		question := "Restore the backup of " + r.header.Created.Format(time.RFC3339) + " in place of what is in %s?"
		if err := r.p.confirm(question, r.dir); err != nil {
			return err
		}
	}
	_, err := os.Lstat(r.dir)
	r.created = err != nil
	if err := prepareDataDir(r.dir, exitNotAllowed); err != nil {
		return err
	}
	if err := r.lockOut(); err != nil {
		return err
	}
	deadline := time.Now().Add(lockTries)
	for {
		lock, err := tryLock(r.dir, "restore")
		if !errors.Is(err, errLocked) {
			r.lock = lock
			return err
		}
		h := readHolder(r.dir)
		a := newSocketAdmin(r.p.socketOf(r.dir))
		answered := a.ask(ctx) == nil
		_ = a.close()
		if answered {
			r.server = h
			return nil
		}
		if time.Now().After(deadline) {
			return heldFault(r.dir, h)
		}
		if err := sleep(ctx, lockWait); err != nil {
			return err
		}
	}
}

// lockOut keeps other restores away, beside a server too, which holds LOCK. The
// system gives the lock back with the process, however that ends.
func (r *restoration) lockOut() (err error) {
	if r.alone, err = os.Open(r.dir); err != nil {
		return notAllowedOr(exitIO, r.dir, err)
	}
	err = lockFile(r.alone)
	if errors.Is(err, errLocked) {
		return errors.Join(fail(exitBusy, "wait until it is done", "another restore into %s is at work", r.dir), r.alone.Close())
	}
	return err
}

// build makes the new generation under a name that no start uses.
func (r *restoration) build(ctx context.Context, b *store.BackupFile, size int64) (err error) {
	if err := removeUnused(r.dir); err != nil {
		return err
	}
	if err := r.findReplaced(); err != nil {
		return err
	}
	if r.name, err = nextGeneration(r.dir); err != nil {
		return err
	}
	path := filepath.Join(r.dir, r.name)
	if err := os.Mkdir(path+newSuffix, 0o700); err != nil {
		return notAllowedOr(exitCannotCreate, path+newSuffix, err)
	}
	if err := r.load(ctx, b, size, path+newSuffix); err != nil {
		return errors.Join(err, os.RemoveAll(path+newSuffix))
	}
	if err := writeFile(filepath.Join(path+newSuffix, unusedName), nil); err != nil {
		return errors.Join(buildFault(path, err), os.RemoveAll(path+newSuffix))
	}
	err = errors.Join(syncDir(path+newSuffix), os.Rename(path+newSuffix, path), syncDir(r.dir))
	if err != nil {
		return errors.Join(buildFault(path, err), os.RemoveAll(path+newSuffix), os.RemoveAll(path))
	}
	return nil
}

// findReplaced finds the generation in use up to now. When CURRENT is spoilt and
// names none that is there, any of them may be what was in use, and all are kept.
func (r *restoration) findReplaced() error {
	name, err := currentGeneration(r.dir)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(filepath.Join(r.dir, name)); err == nil && info.IsDir() && generationForm().MatchString(name) {
		r.replaced = name
		return nil
	}
	r.keepAll = true
	current := filepath.Join(r.dir, currentName)
	if _, err := os.Lstat(current); err == nil {
		r.p.note("warning: %s names no generation that is there, so all that are there are kept", current)
	}
	return nil
}

// load fills the store in dir with the backup, and closes it.
func (r *restoration) load(ctx context.Context, b *store.BackupFile, size int64, dir string) error {
	db, err := badgerkv.Open(badgerkv.Options{Dir: dir, Log: r.p.quietLog()})
	if err != nil {
		return err
	}
	if err = checkRoom(db, size); err == nil {
		if r.totals, err = b.Load(ctx, db, time.Now()); err != nil {
			err = loadFault(r.file, err)
		} else {
			err = store.RecordRestore(ctx, db, r.header, time.Now())
		}
	}
	return errors.Join(err, db.Close())
}

// checkRoom refuses to begin what the disk cannot hold: the records, as much
// again while they are sorted, and what a store needs beside.
func checkRoom(db *badgerkv.DB, size int64) error {
	space, ok, err := db.Space()
	if err != nil || !ok {
		return err
	}
	if need := space.FreeMin + 2*uint64(size); space.Free < need {
		return fail(exitIO, "make room there, or restore into another directory with --data; nothing was changed",
			"building the data anew needs %d MiB, and only %d MiB are free on the disk", need>>20, space.Free>>20)
	}
	return nil
}

// loadFault tells what is wrong with the backup from what is wrong here.
func loadFault(file string, err error) error {
	if errors.Is(err, backup.ErrTruncated) || errors.Is(err, backup.ErrDamaged) {
		return badBackup(file, err)
	}
	if errors.Is(err, store.ErrUnavailable) {
		return fail(exitIO, "make room on the disk and try again; nothing was changed", "the backup could not be stored: %w", err)
	}
	return err
}

// buildFault is the fault of a disk that does not take what a restore builds.
func buildFault(path string, err error) error {
	return fail(exitIO, "make room there, or see to the disk, and try again; nothing was changed", "cannot write %s: %w", path, systemReason(err))
}

// adopt has the next start use the new generation, and removes those that are
// older than the one which it replaces. A server may still be using any of them.
func (r *restoration) adopt() error {
	current := filepath.Join(r.dir, currentName)
	switch err := writeFile(current, []byte(r.name+"\n")); {
	case err != nil && r.adopted():
		return fail(exitIO, "look at the disk and at "+current+" before the next start",
			"%s names %s, but may not do so after a power cut: %w", current, r.name, systemReason(err))
	case err != nil:
		return buildFault(current, err)
	}
	_ = claim(filepath.Join(r.dir, r.name)) // else the next start does it
	if r.lock == nil || r.keepAll {
		return nil
	}
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		generation := strings.TrimSuffix(e.Name(), newSuffix)
		if generationForm().MatchString(generation) && e.Name() != r.name && e.Name() != r.replaced {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, e.Name())))
		}
	}
	if err != nil {
		r.p.note("warning: an older generation could not be removed: %v", err)
	}
	return nil
}

// takeBack removes the new generation when adopt failed, unless the next start uses
// it all the same.
func (r *restoration) takeBack(failed error) error {
	if failed == nil || r.adopted() {
		return failed
	}
	return errors.Join(failed, os.RemoveAll(filepath.Join(r.dir, r.name)))
}

// leave gives the lock back. A directory that was made for nothing goes again.
func (r *restoration) leave(failed error) error {
	defer r.alone.Close()
	if r.lock == nil {
		return nil
	}
	if failed != nil && r.created {
		// Under the lock, so that nobody can have begun to use it.
		_ = os.Remove(filepath.Join(r.dir, lockName))
		_ = os.Remove(r.dir)
	}
	return r.lock.release()
}

// report says what was done, and what there is to do.
func (r *restoration) report() error {
	p := r.p
	out := restored{File: r.file, Generation: r.name, Replaced: r.replaced, Records: r.totals.Records,
		Instance: r.header.Instance, Created: r.header.Created, Restart: r.lock == nil}
	here := fingerprint(p.knownKey(r.dir))
	if here != "" && r.header.Key != "" {
		same := here == r.header.Key
		out.SameKey = &same
	}
	const lost = "open consent screens and refreshes in flight will fail once; nothing else is lost"
	switch {
	case r.header.Key == "":
	case here == "":
		p.note("there is no server key to be read here: put the secret.key of the server that was backed up (fingerprint %s) into %s before the start, or else %s", r.header.Key, r.dir, lost)
	case here != r.header.Key:
		p.note("warning: the backup is of a server with another key (fingerprint %s, here %s): %s", r.header.Key, here, lost)
	}
	if r.lock == nil {
		p.note("the server (process %d) goes on with %s until it is started again, and what it records until then stays there", r.server.PID, orNot(r.replaced, "what it has"))
	}
	if r.replaced != "" {
		p.note("%s is kept: to go back, stop the server and run: echo %s > %s", r.replaced, r.replaced, quoteForShell(filepath.Join(r.dir, currentName)))
	}
	return p.done(out, "restored %s of %s into %s", count(r.totals.Records, "record", "records"), r.header.Created.Format(time.RFC3339), filepath.Join(r.dir, r.name))
}

// adopted reports whether the next start uses the new generation, which a failed
// adopt does not tell: the pointer may have been changed before it failed.
func (r *restoration) adopted() bool {
	name, err := currentGeneration(r.dir)
	return err != nil || name == r.name
}
