package badgerkv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// freeSpaceMin must be free to open a store, and for a write. Badger writes through
// memory maps of sparse files: on a full disk that is SIGBUS, and SIGBUS again at
// reopening. Memtables, their logs and the tables they are flushed into take up to
// six times a memtable; as much again is for what is written during mergedEvery.
const freeSpaceMin = 12 * memTableSize

// mergedEvery is how often the space for the next merges is computed; less than
// freeSpaceMin is written in between.
const mergedEvery = 100 * time.Millisecond

// makeDir creates the directory of a store with mode 0700.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &DiskError{Dir: dir, Reason: "the directory cannot be created", Remedy: "choose a directory that this user can write to", Err: err}
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

// spaceRefusal returns the error for a write on a nearly full disk, or nil. It is
// [kv.ErrUnavailable].
func (db *DB) spaceRefusal() error {
	if db.opts.InMemory {
		return nil
	}
	free, need, err := db.room()
	if err != nil {
		return fmt.Errorf("%w: the free space cannot be found out: %w", kv.ErrUnavailable, err)
	}
	if free < need {
		return &DiskError{
			Dir:    db.opts.Dir,
			Reason: fmt.Sprintf("only %d MiB are free on its filesystem, writing needs %d", free>>20, need>>20),
			Remedy: fmt.Sprintf("free at least %d MiB there", need>>20),
			Err:    kv.ErrUnavailable,
		}
	}
	return nil
}

// room returns how many bytes are free on the disk, the reserve among them, and how many
// must be for a write: freeSpaceMin, and what the engine may write when it merges tables
// before it removes the old ones. It resizes the reserve.
func (db *DB) room() (free, need uint64, err error) {
	db.merge.Lock()
	defer db.merge.Unlock()
	free, err = db.opts.FreeSpace(db.opts.Dir)
	free += db.held()
	look := time.Since(db.merge.looked) >= mergedEvery && db.snapshots.enter() == nil
	if look {
		db.merge.looked = time.Now()
		// Tables reads all tables, up to a thousand.
		if levels := db.engine.Levels(); !slices.EqualFunc(levels, db.merge.levels, sameTables) {
			base := slices.IndexFunc(levels, func(l badger.LevelInfo) bool { return l.IsBaseLevel })
			db.merge.levels, db.merge.bytes = levels, mergedNext(db.engine.Tables(), base)
		}
		db.snapshots.leave()
	}
	need, reserved := freeSpaceMin+db.merge.bytes, uint64(0)
	if free >= need { // otherwise nothing is written, and merges under way have all that is left
		reserved = min(db.merge.bytes+reserveStep-1, free-freeSpaceMin) / reserveStep * reserveStep
	}
	if look || reserved == 0 {
		db.reserve(reserved)
	}
	return free, need, err
}

// SpaceMin returns how many bytes must be free for a write, the reserve among them.
func (db *DB) SpaceMin() uint64 {
	_, need, _ := db.room()
	return need
}

// Reserved returns how many bytes the reserve holds, which [FreeSpace] does not count.
func (db *DB) Reserved() uint64 {
	db.merge.Lock()
	defer db.merge.Unlock()
	return db.held()
}

// sameTables reports whether a level appears to have the same tables.
func sameTables(a, b badger.LevelInfo) bool {
	return a.NumTables == b.NumTables && a.Size == b.Size && a.IsBaseLevel == b.IsBaseLevel
}

// mergedNext is how much the engine may write at once. It has two compactors: one
// merges the newest tables into the base level, while the other may merge a table of
// any level with all tables that it overlaps in the next. The whole base counts: the
// next table may overlap all of it, and is merged as soon as it exists.
func mergedNext(tables []badger.TableInfo, base int) uint64 {
	levels, last := make(map[int][]badger.TableInfo), 0
	for _, t := range tables {
		levels[t.Level] = append(levels[t.Level], t)
		last = max(last, t.Level)
	}
	sum, most := sizeOf(levels[0])+sizeOf(levels[base]), uint64(0)
	for level := 1; level < last; level++ {
		below := levels[level+1]
		slices.SortFunc(below, func(a, b badger.TableInfo) int { return bytes.Compare(a.Left, b.Left) })
		for _, t := range levels[level] {
			most = max(most, uint64(t.OnDiskSize)+sizeOf(across(below, t)))
		}
	}
	return sum + most
}

// across returns the tables of a sorted level that overlap t.
func across(level []badger.TableInfo, t badger.TableInfo) []badger.TableInfo {
	from, _ := slices.BinarySearchFunc(level, t.Left, func(b badger.TableInfo, left []byte) int { return bytes.Compare(b.Right, left) })
	to := from
	for to < len(level) && bytes.Compare(level[to].Left, t.Right) <= 0 {
		to++
	}
	return level[from:to]
}

func sizeOf(tables []badger.TableInfo) (sum uint64) {
	for _, t := range tables {
		sum += uint64(t.OnDiskSize)
	}
	return sum
}

// reserveName is the file that holds the space of the next merges, so that no other program
// takes it: to a merge under way a full disk is SIGBUS, and a server that starts again is
// refused until someone makes room. When less is left than a write needs, it is removed, and
// the merges have its space.
const (
	reserveName = "reserve"
	reserveStep = 2 * memTableSize // it is not resized for less
)

// held returns how many bytes the reserve holds. Someone who needs space may remove it.
func (db *DB) held() uint64 {
	if db.merge.reserved > 0 {
		info, err := os.Lstat(filepath.Join(db.opts.Dir, reserveName))
		if err != nil || uint64(info.Size()) != db.merge.reserved {
			db.merge.reserved = 0
		}
	}
	return db.merge.reserved
}

// RemoveReserve removes the reserve of a process that was killed. No other process may use dir.
func RemoveReserve(dir string) { _ = os.Remove(filepath.Join(dir, reserveName)) }

// reserve resizes the reserve. A file system without fallocate has none.
func (db *DB) reserve(size uint64) {
	if size == db.merge.reserved || db.merge.noReserve {
		return
	}
	path := filepath.Join(db.opts.Dir, reserveName)
	db.merge.reserved = 0
	if size > 0 {
		err := allocate(path, int64(size))
		if err == nil {
			db.merge.reserved = size
			return
		}
		db.merge.noReserve = !errors.Is(err, syscall.ENOSPC) // a quota, or no such system call
	}
	_ = os.Remove(path)
}

// watchSpace looks at the disk while no write does, since the last write may have begun a
// merge. It ends when the store is closed, and removes the reserve.
func (db *DB) watchSpace() {
	defer close(db.watched)
	tick := time.NewTicker(mergedEvery / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _, _ = db.room()
		case <-db.closed:
			db.merge.Lock()
			defer db.merge.Unlock()
			db.reserve(0)
			return
		}
	}
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return firstError(d.Sync(), d.Close())
}
