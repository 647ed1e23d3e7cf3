package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/kv/badgerkv"
)

// Whoever opens a store of an older schema migrates it first, a server and a
// command alike. It is a restore of a backup that is made on the spot:
//
//	.schema-1-TIME.backup.*.new   the backup, while it is written
//	db-0002.new/                  the generation that is built from it
//	schema-1-TIME.backup          each gets its name when it is whole,
//	db-0002/                      and then CURRENT names the generation
//
// Until CURRENT has changed, which is one rename, the store is what it was. What
// ends it before that leaves files behind which nobody uses; the next start
// removes them, but for a backup that has its name, and begins anew. The generation
// of before is kept: an older tollhouse goes on with it when CURRENT names it again.

// migrated tells what a migration has done.
type migrated struct {
	from, to uint64
	path     string // of the new generation
	replaced string // the name of the one before
	backup   string // its path
	records  int64
}

// olderBackup is the form of the name of a backup that a migration has made.
var olderBackup = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^schema-[0-9]+-[0-9]{8}T[0-9]{6}Z\.backup$`) })

// openMigrated is openKeep for a generation whose directory is locked. A store of
// an older schema is migrated first, and its new generation is opened.
func openMigrated(ctx context.Context, o keepOptions, migrate func(*store.OlderError) (migrated, error)) (*keep, error) {
	k, err := openKeep(ctx, o)
	var older *store.OlderError
	if !errors.As(err, &older) {
		return k, err
	}
	m, err := migrate(older)
	if err != nil {
		return nil, err
	}
	o.dir = m.path
	return openKeep(ctx, o)
}

// openToServe opens the store for a server, which tells its log of a migration
// and its manager that it takes time.
func (p *program) openToServe(ctx context.Context, r *running, o keepOptions) (*keep, error) {
	return openMigrated(ctx, o, func(older *store.OlderError) (migrated, error) {
		defer r.askForTime()()
		r.log.Info("migration begun", "from_schema", older.Found, "to_schema", older.Known)
		m, err := p.migrate(ctx, o, older)
		if err == nil {
			r.log.Info("store migrated", "from_schema", m.from, "to_schema", m.to, "records", m.records, "path", m.path, "replaced", m.replaced, "backup", m.backup)
		}
		return m, err
	})
}

// openToManage opens the store for a command.
func (p *program) openToManage(ctx context.Context, o keepOptions) (*keep, error) {
	return openMigrated(ctx, o, func(older *store.OlderError) (migrated, error) {
		m, err := p.migrate(ctx, o, older)
		if err == nil {
			p.note("the store was migrated from schema %d to %d, into %s; what it was is kept as %s and in %s", m.from, m.to, m.path, m.replaced, m.backup)
		}
		return m, err
	})
}

// migrate builds a new generation from a backup of the one that o names.
func (p *program) migrate(ctx context.Context, o keepOptions, older *store.OlderError) (m migrated, err error) {
	dir := filepath.Dir(o.dir)
	m = migrated{from: older.Found, to: older.Known}
	m.backup = filepath.Join(dir, "schema-"+strconv.FormatUint(older.Found, 10)+"-"+time.Now().UTC().Format("20060102T150405Z")+".backup")
	r := restoration{p: p, file: m.backup, dir: dir, keepAll: true}
	if err := r.lockOut(); err != nil {
		return m, err
	}
	defer r.alone.Close()
	if err = p.buildMigrated(ctx, o, &r); err != nil {
		return m, migrationFault(o.dir, older, r.name != "" && r.adopted(), err)
	}
	m.path, m.replaced, m.records = filepath.Join(dir, r.name), r.replaced, r.totals.Records
	return m, nil
}

// buildMigrated makes the backup, builds the generation from it, and has the next
// start use that. What it made is removed when it fails.
func (p *program) buildMigrated(ctx context.Context, o keepOptions, r *restoration) error {
	// Before the room for another is measured.
	if err := errors.Join(removeUnfinishedBackup(r.dir), removeUnused(r.dir)); err != nil {
		return err
	}
	f, err := newUnnamedFile(r.file)
	if err != nil {
		return err
	}
	defer f.discard()
	size, err := p.backUpOlder(ctx, o, f)
	if err != nil {
		return err
	}
	read := p.newMeter("migrating", f, 0)
	defer read.clear()
	b, err := store.OpenBackup(read)
	if err != nil {
		return err
	}
	defer b.Close()
	r.header = b.Header
	// The load checks every record of the backup, as it was read back from the
	// disk, before it counts as one.
	if err := r.build(ctx, b, size); err != nil {
		return err
	}
	if err = f.name(); err == nil {
		err = r.adopt()
	}
	if err != nil && !r.adopted() {
		return errors.Join(err, os.RemoveAll(filepath.Join(r.dir, r.name)), os.Remove(f.named))
	}
	return err
}

// backUpOlder backs up the store of an older schema, and returns how many bytes
// its records have.
func (p *program) backUpOlder(ctx context.Context, o keepOptions, f *unnamedFile) (size int64, err error) {
	db, err := badgerkv.Open(badgerkv.Options{Dir: o.dir, Now: o.now, Log: o.log, AcceptClock: o.acceptClock})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	space, ok, err := db.Space()
	if err != nil {
		return 0, err
	}
	if need := space.FreeMin + 2*space.Used; ok && space.Free < need {
		return 0, fail(exitIO, "", "a backup and another generation need %d MiB, and only %d MiB are free on the disk", need>>20, space.Free>>20)
	}
	notes := store.BackupNotes{Version: version(), Key: fingerprint(p.knownKey(filepath.Dir(o.dir)))}
	totals, err := store.BackupOlder(ctx, db, writeFaults{f.File, f.named}, time.Now(), notes)
	if err != nil {
		return 0, err
	}
	return totals.Bytes, f.rewind()
}

// removeUnfinishedBackup removes the backup that a migration was writing when it was
// ended. The caller keeps other migrations away.
func removeUnfinishedBackup(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return notAllowedOr(exitIO, dir, err)
	}
	for _, e := range entries {
		// os.CreateTemp has put digits before the suffix.
		if strings.HasPrefix(e.Name(), ".schema-") && strings.HasSuffix(e.Name(), newSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return notAllowedOr(exitIO, dir, err)
	}
	return nil
}

// migrationFault says what the store is now, which is what it was unless the other
// one was adopted, and what is to be done.
func migrationFault(path string, older *store.OlderError, adopted bool, err error) error {
	f := asFault(err)
	if adopted {
		return fail(exitIO, "see to the disk, then start again; what the store was is kept beside it and in the backup",
			"%s was migrated from schema %d to %d, and the disk may have lost that: %w", path, older.Found, older.Known, err)
	}
	code, hint := f.code, f.hint
	switch {
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, backup.ErrDamaged), errors.Is(err, backup.ErrTruncated):
		code, hint = exitIO, "nothing was changed: go on with the tollhouse of before, or restore a backup that is whole"
	case code == exitIO:
		hint = "make room there and start again; nothing was changed, and the tollhouse of before can go on"
	}
	return fail(code, hint, "%s has schema %d and could not be migrated to %d: %w", path, older.Found, older.Known, err)
}
