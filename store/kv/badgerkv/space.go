package badgerkv

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"tollhouse/store/kv"
)

// freeSpaceMin must be free to open a store, and for a write. Badger writes through
// memory maps of sparse files: on a full disk that is SIGBUS, and SIGBUS again at
// reopening. Memtables, their logs and the tables they are flushed into take up to
// six times a memtable; as much again is for what is written until the next look.
const freeSpaceMin = 12 * memTableSize

// Between two looks at the disk less than freeSpaceMin is written: two merges write up to
// 600 MiB/s where a disk is memory. If a look comes too late, a full disk ends the process by SIGBUS.
const (
	lookEvery = 100 * time.Millisecond
	lookOften = 10 * time.Millisecond // while less than twice freeSpaceMin is free
)

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
	if full, is := errors.AsType[*DiskError](err); is {
		full.Err = nil // a start is refused, not a write
		return full
	}
	if err != nil {
		return &DiskError{Dir: opts.Dir, Reason: "the free space cannot be found out", Remedy: "check the disk", Err: err}
	}
	if free < freeSpaceMin {
		return &DiskError{
			Dir:    opts.Dir,
			Reason: fmt.Sprintf("only %d MiB are free on its filesystem", free>>20),
			Remedy: fmt.Sprintf("free space there until %d MiB are free, and start again; the store is untouched", freeSpaceMin>>20),
		}
	}
	return nil
}

// removeUnfinished removes the tables that the manifest does not name: a merge was writing
// them when the process was killed. The engine does so too, once there is room to open it.
func removeUnfinished(dir string, engine badger.Options) error {
	manifest, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil // an empty store
	}
	defer manifest.Close()
	named, end, err := badger.ReplayManifestFile(manifest, 0, engine)
	if info, statErr := manifest.Stat(); err != nil || statErr != nil || end != info.Size() {
		return nil // checkIndexes says what is wrong
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if id, isTable := table.ParseFileID(e.Name()); isTable {
			if _, has := named.Tables[id]; !has {
				err = cmp.Or(err, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
	}
	return err
}

// checkMerges refuses to open a store whose merges begin at once and may fill the disk. That
// would end this process, and every later one. Where there is less room than for all tables,
// it opens the engine without merges, to see what the next ones need.
func checkMerges(opts Options, engine badger.Options) error {
	entries, err := os.ReadDir(opts.Dir)
	all, memtables := uint64(0), 0
	for _, e := range entries {
		switch info, statErr := e.Info(); filepath.Ext(e.Name()) {
		case ".mem":
			memtables++
		case ".sst":
			if statErr == nil {
				all += uint64(info.Size())
			}
		}
	}
	free, freeErr := opts.FreeSpace(opts.Dir)
	if err = cmp.Or(err, freeErr); err != nil || free >= freeSpaceMin+all {
		return err
	}
	engine.NumCompactors, engine.NumLevelZeroTablesStall = 0, math.MaxInt
	db, err := badger.OpenManaged(engine)
	if err != nil {
		return err
	}
	levels := db.Levels()
	need := freeSpaceMin + mergedNext(db.Tables(), baseOf(levels))
	if err := db.Close(); err != nil || free >= need || !mergesDue(levels, memtables) {
		return err
	}
	return &DiskError{
		Dir:    opts.Dir,
		Reason: fmt.Sprintf("only %d MiB are free on its filesystem, its merges need %d", free>>20, need>>20),
		Remedy: fmt.Sprintf("free space there until %d MiB are free, and start again; nothing is lost", need>>20),
	}
}

// mergesDue reports whether the engine begins a merge once so many memtables are tables too.
func mergesDue(levels []badger.LevelInfo, memtables int) bool {
	return levels[0].NumTables+memtables >= firstTables || slices.ContainsFunc(levels, func(l badger.LevelInfo) bool { return l.Score >= 1 })
}

func baseOf(levels []badger.LevelInfo) int {
	return slices.IndexFunc(levels, func(l badger.LevelInfo) bool { return l.IsBaseLevel })
}

// spaceRefusal returns the error for a write on a nearly full disk, or nil. It is
// [kv.ErrFull], or [kv.ErrUnavailable] if the disk cannot be asked.
func (db *DB) spaceRefusal() error {
	if db.opts.InMemory {
		return nil
	}
	free, need, err := db.room()
	if full, is := errors.AsType[*DiskError](err); is {
		return full
	}
	if err != nil {
		return fmt.Errorf("%w: the free space cannot be found out: %w", kv.ErrUnavailable, err)
	}
	if free < need {
		return &DiskError{
			Dir:    db.opts.Dir,
			Reason: fmt.Sprintf("only %d MiB are free on its filesystem, writing needs %d", free>>20, need>>20),
			Remedy: fmt.Sprintf("free space there until %d MiB are free", need>>20),
			Err:    kv.ErrFull,
		}
	}
	return nil
}

// room returns how many bytes are free on the disk, the reserve among them, and how many
// must be for a write: freeSpaceMin, and what the engine may write when it merges tables
// before it removes the old ones.
func (db *DB) room() (free, need uint64, err error) {
	db.merge.Lock()
	defer db.merge.Unlock()
	free, err = db.opts.FreeSpace(db.opts.Dir)
	return free + db.held(), freeSpaceMin + db.merge.bytes, err
}

// look finds out what the next merges need, resizes the reserve, and returns when to look
// again. No write waits for that: a disk that merges are using takes up to 80 ms for it. A
// merge goes on while the store closes, so the reserve shrinks then too.
func (db *DB) look() time.Duration {
	if db.snapshots.enter() == nil {
		db.lookAtTables()
		db.snapshots.leave()
	}
	free, need, err := db.room()
	if err != nil {
		return lookEvery
	}
	// freeSpaceMin stays free beside it, for what is written until the next look. It shrinks
	// no further, even while writes are refused: another program would take the space.
	had, size := db.Reserved(), min(need-freeSpaceMin+reserveStep-1, max(free, freeSpaceMin)-freeSpaceMin)/reserveStep*reserveStep
	db.reserve(min(size, had+reserveStep))
	has := db.Reserved()
	if free-min(free, has) < 2*freeSpaceMin || had < has && has < size {
		return lookOften
	}
	return lookEvery
}

func (db *DB) lookAtTables() {
	// Tables reads all tables, up to a thousand.
	if levels := db.engine.Levels(); !slices.EqualFunc(levels, db.merge.levels, sameTables) {
		next := mergedNext(db.engine.Tables(), baseOf(levels))
		db.merge.Lock()
		defer db.merge.Unlock()
		db.merge.levels, db.merge.bytes = levels, next
	}
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
// refused until someone makes room. It shrinks while less than freeSpaceMin is free beside it.
const (
	reserveName = "reserve"
	reserveStep = 2 * memTableSize // it is not resized for less
)

// held returns how many bytes the reserve holds. Someone who needs space may remove it.
// db.merge is locked.
func (db *DB) held() uint64 {
	if db.merge.reserved > 0 && !db.merge.resizing {
		info, err := os.Lstat(filepath.Join(db.opts.Dir, reserveName))
		if err != nil || uint64(info.Size()) != db.merge.reserved || uint64(allocated(info)) < db.merge.reserved {
			db.merge.reserved = 0
		}
	}
	return db.merge.reserved
}

// RemoveReserve removes the reserve of a process that was killed. No other process may use dir.
func RemoveReserve(dir string) { _ = os.Remove(filepath.Join(dir, reserveName)) }

// reserve resizes the reserve. A file system without fallocate has none.
func (db *DB) reserve(size uint64) {
	db.merge.Lock()
	had := db.merge.reserved
	if size == had || db.merge.noReserve {
		db.merge.Unlock()
		return
	}
	db.merge.reserved, db.merge.resizing = min(had, size), true
	db.merge.Unlock()

	path := filepath.Join(db.opts.Dir, reserveName)
	var err error
	if size > 0 {
		err = allocate(path, int64(had), int64(size))
	}
	if info, statErr := os.Lstat(path); err == nil && had == 0 && statErr == nil && uint64(allocated(info)) < size {
		err = errors.ErrUnsupported // ZFS says that it has allocated, and has not
	}
	// Under a quota that the free space does not show, a reserve takes what the store needs.
	useless := errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EDQUOT)
	switch {
	case size > 0 && err == nil:
	case err != nil && had > 0 && !useless: // another program was faster
		size = min(had, size)
		_ = os.Truncate(path, int64(size))
	default:
		size = 0
		_ = os.Remove(path)
	}

	db.merge.Lock()
	defer db.merge.Unlock()
	db.merge.reserved, db.merge.resizing = size, false
	db.merge.noReserve = useless
}

// watchSpace looks at the disk while no write does, since the last write may have begun a
// merge. It ends when the store is closed, and removes the reserve.
func (db *DB) watchSpace() {
	defer close(db.watched)
	next := lookEvery
	for {
		select {
		case <-time.After(next):
			next = db.look()
		case <-db.closed:
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
	return cmp.Or(d.Sync(), d.Close())
}
