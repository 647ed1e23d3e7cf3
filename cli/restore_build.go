package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/record"
)

// install makes the backup the next generation of the directory.
func (r *restoration) install(ctx context.Context, b *store.BackupFile, size int64) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	err := r.build(ctx, b, size)
	if err == nil {
		if r.still != nil {
			err = r.still()
		}
		if err == nil {
			err = r.isMoved()
		}
		if err == nil {
			err = r.adopt()
		}
		err = r.rollBack(err)
	}
	if err == nil && r.fresh {
		r.p.Note("notice: created a new store in %s", r.dir)
	}
	return errors.Join(err, r.leave(err))
}

// isMoved returns a *badgerkv.MovedError if the data directory is no longer the one that was
// entered. Nothing may be removed then: the paths lead into another.
func (r *restoration) isMoved() error { return badgerkv.CheckMoved(r.alone, r.dir) }

// remove removes what the restore has made.
func (r *restoration) remove(path string) error {
	if r.isMoved() != nil {
		return nil
	}
	return os.RemoveAll(path)
}

// build makes the new generation under a name that no start uses.
func (r *restoration) build(ctx context.Context, b *store.BackupFile, size int64) (err error) {
	if err := datadir.RemoveUnused(r.dir); err != nil {
		return err
	}
	if err := r.findReplaced(); err != nil {
		return err
	}
	if r.lock != nil && r.replaced != "" { // a server that was killed has left it
		badgerkv.RemoveReserve(filepath.Join(r.dir, r.replaced))
	}
	if r.name, err = datadir.NextGeneration(r.dir); err != nil {
		return err
	}
	path := filepath.Join(r.dir, r.name)
	if err := os.Mkdir(path+datadir.NewSuffix, 0o700); err != nil {
		return datadir.NotAllowedOr(term.ExitCannotCreate, path+datadir.NewSuffix, err)
	}
	if err := r.load(ctx, b, size, path+datadir.NewSuffix); err != nil {
		return errors.Join(err, r.remove(path+datadir.NewSuffix))
	}
	if r.header.Key != "" {
		if err := datadir.WantKey(path+datadir.NewSuffix, r.header.Key); err != nil {
			return errors.Join(err, r.remove(path+datadir.NewSuffix))
		}
	}
	if err := datadir.WriteFile(filepath.Join(path+datadir.NewSuffix, datadir.UnusedName), nil); err != nil {
		return errors.Join(buildFault(path, err), r.remove(path+datadir.NewSuffix))
	}
	err = errors.Join(datadir.SyncDir(path+datadir.NewSuffix), os.Rename(path+datadir.NewSuffix, path), datadir.SyncDir(r.dir))
	if err != nil {
		return errors.Join(buildFault(path, err), r.remove(path+datadir.NewSuffix), r.remove(path))
	}
	return nil
}

// findReplaced finds the generation in use until now. If CURRENT names no existing
// generation, any could be the one in use, so all are kept.
func (r *restoration) findReplaced() error {
	name, err := datadir.CurrentGeneration(r.dir)
	if err != nil {
		return err
	}
	if datadir.IsGeneration(r.dir, name) {
		r.replaced = name
		// Restored and never started: what was in use is older.
		r.keepAll = r.keepAll || datadir.IsUnused(filepath.Join(r.dir, name))
		return nil
	}
	r.keepAll = true
	current := filepath.Join(r.dir, datadir.CurrentName)
	if _, err := os.Lstat(current); err == nil {
		r.p.Note("warning: %s does not name an existing generation, so all generations are kept", current)
	}
	return nil
}

// load fills the store in dir with the backup, and closes it.
func (r *restoration) load(ctx context.Context, b *store.BackupFile, size int64, dir string) error {
	db, err := badgerkv.Open(badgerkv.Options{Dir: dir, Moved: r.isMoved, Log: r.p.QuietLog()})
	if err != nil {
		return err
	}
	if err = checkRoom(db, size); err == nil {
		if r.totals, err = b.Load(ctx, db, time.Now()); err != nil {
			err = loadFault(r.file, err)
		} else if !r.moved {
			err = r.record(ctx, db)
		}
	}
	return errors.Join(err, db.Close())
}

// checkRoom refuses a restore that the disk cannot hold: the records, the same again
// while they are sorted, and the store's own reserve.
func checkRoom(db *badgerkv.DB, size int64) error {
	space, ok, err := db.Space()
	if err != nil || !ok {
		return err
	}
	if need := space.FreeMin + 2*uint64(size); space.Free < need {
		return term.Fail(term.ExitIO, "free some space there, or restore into another directory with --data; nothing was changed",
			"the restore needs %d MiB, but only %d MiB are free on the disk", need>>20, space.Free>>20)
	}
	return nil
}

// loadFault separates errors of the backup from errors of this machine.
func loadFault(file string, err error) error {
	var fixtures *store.FixturesError
	if errors.Is(err, backup.ErrTruncated) || errors.Is(err, backup.ErrDamaged) || errors.As(err, &fixtures) {
		return datadir.BadBackup(file, err)
	}
	if term.IsFatal(err) {
		return term.Fatal(err)
	}
	if errors.Is(err, record.ErrUnavailable) {
		return term.Fail(term.ExitIO, "free some disk space and try again; nothing was changed", "the backup could not be stored: %w", err)
	}
	return err
}

// buildFault is the failure to write the new generation.
func buildFault(path string, err error) error {
	return term.Fail(term.ExitIO, "free some space there, or check the disk, and try again; nothing was changed", "cannot write %s: %w", path, term.SystemReason(err))
}

// adopt has the next start use the new generation, and removes those that are
// older than the one which it replaces. A server may still be using any of them. The next
// start removes the mark of the new one.
func (r *restoration) adopt() error {
	current := filepath.Join(r.dir, datadir.CurrentName)
	switch err := datadir.WriteFile(current, []byte(r.name+"\n")); {
	case err != nil && r.adopted():
		return term.Fail(term.ExitIO, "check the disk and "+current+" before the next start",
			"%s names %s, but a power failure may undo that: %w", current, r.name, term.SystemReason(err))
	case err != nil:
		return buildFault(current, err)
	}
	if r.lock == nil || r.keepAll {
		return nil
	}
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if datadir.GenerationForm.MatchString(e.Name()) && e.Name() != r.name && e.Name() != r.replaced {
			err = errors.Join(err, datadir.RemoveGeneration(filepath.Join(r.dir, e.Name())))
		}
	}
	if err != nil {
		r.p.Note("warning: an older generation could not be removed: %v", err)
	}
	return nil
}

// rollBack removes the new generation when adopt failed, unless the next start will
// use it.
func (r *restoration) rollBack(failed error) error {
	if failed == nil || r.adopted() {
		return failed
	}
	return errors.Join(failed, r.remove(filepath.Join(r.dir, r.name)))
}

// leave releases the lock. After a failure it removes a directory it created.
func (r *restoration) leave(failed error) error {
	defer r.alone.Close()
	if r.lock == nil {
		return nil
	}
	if failed != nil && r.created && r.isMoved() == nil {
		// Under the lock, so that no other process uses it.
		_ = os.Remove(filepath.Join(r.dir, datadir.LockName))
		_ = os.Remove(r.dir)
	}
	return r.lock.Release()
}

// adopted reports whether the next start uses the new generation. It may do so even
// after adopt failed: the pointer may have been changed before that.
func (r *restoration) adopted() bool {
	name, err := datadir.CurrentGeneration(r.dir)
	return err != nil || name == r.name
}
