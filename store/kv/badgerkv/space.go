package badgerkv

import (
	"fmt"
	"os"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// freeSpaceMin must be free to open a store, and for a write. Badger writes through
// memory maps of sparse files: on a full disk that is SIGBUS, and SIGBUS again at
// reopening. Memtables, their logs and the tables they are flushed into take up to
// six times a memtable before anybody asks again.
const freeSpaceMin = 6 * memTableSize

const (
	// mergedEvery is how often it is looked at how much the engine may merge next;
	// a memtable or two are flushed meanwhile, which freeSpaceMin has room for.
	mergedEvery = time.Second
	// plentyFree is more than what is merged at once ever takes: the newest tables
	// and the base, which may be larger for a while than it should be.
	plentyFree = 8 * (firstTablesHalt*memTableSize + baseLevelSize)
)

// makeDir makes the directory of a store, closed to others.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &DiskError{Dir: dir, Reason: "the directory cannot be made", Remedy: "choose a directory that this user can write to", Err: err}
	}
	return nil
}

// checkSpace refuses to open a store on a nearly full disk.
func checkSpace(opts Options) error {
	free, err := opts.FreeSpace(opts.Dir)
	if err != nil {
		return &DiskError{Dir: opts.Dir, Reason: "the free space cannot be found out", Remedy: "check the disk", Err: err}
	}
	if free < freeSpaceMin {
		return &DiskError{
			Dir:    opts.Dir,
			Reason: fmt.Sprintf("only %d MiB are free on its filesystem", free>>20),
			Remedy: fmt.Sprintf("free at least %d MiB there and start again; the store is untouched", freeSpaceMin>>20),
		}
	}
	return nil
}

// spaceRefusal returns why nothing may be written now, or nil.
func (db *DB) spaceRefusal() error {
	if db.opts.InMemory {
		return nil
	}
	free, err := db.opts.FreeSpace(db.opts.Dir)
	if err != nil {
		return fmt.Errorf("%w: the free space cannot be found out: %w", kv.ErrUnavailable, err)
	}
	if free >= plentyFree {
		return nil
	}
	if need := db.spaceMin(); free < need {
		return fmt.Errorf("%w: only %d MiB are free on the disk, writing needs %d", kv.ErrUnavailable, free>>20, need>>20)
	}
	return nil
}

// spaceMin is how many bytes must be free for a write: freeSpaceMin, and what the
// engine may write when it merges its newest tables with those of the level below,
// before it removes what it has merged.
func (db *DB) spaceMin() uint64 {
	db.merge.Lock()
	defer db.merge.Unlock()
	if now := time.Now(); now.Sub(db.merge.looked) >= mergedEvery {
		db.merge.bytes, db.merge.looked = mergedNext(db.engine.Levels()), now
	}
	return freeSpaceMin + db.merge.bytes
}

// mergedNext sums the newest tables and the base, into which they are merged.
func mergedNext(levels []badger.LevelInfo) (sum uint64) {
	for _, level := range levels {
		if level.Level == 0 || level.IsBaseLevel {
			sum += uint64(level.Size)
		}
	}
	return sum
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return firstError(d.Sync(), d.Close())
}
