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
// memory maps of sparse files: on a full disk that means SIGBUS, and SIGBUS again at
// reopening. Memtables, their logs and the tables they are flushed into take up to
// six times a memtable; as much again is for what is written until the next look.
const freeSpaceMin = 12 * memTableSize

// Between two looks at the disk less than freeSpaceMin is written: two merges write up to
// 600 MiB/s where a disk is memory. If a look is too late, a full disk kills the process with SIGBUS.
const (
	lookEvery = 100 * time.Millisecond
	lookOften = 10 * time.Millisecond // while less than twice freeSpaceMin is free, or space is short
)

// A refused ending is retried for this long: a merge that has just finished gives
// space back when its old tables are removed.
const (
	endingEvery = 50 * time.Millisecond
	endingTries = 40
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
	free, err := opts.FreeSpace(opts.path)
	if full, is := errors.AsType[*DiskError](err); is {
		full.Err = nil // a start is refused, not a write
		return full
	}
	if err != nil {
		return &DiskError{Dir: opts.Dir, Reason: "cannot determine free space", Remedy: "check the disk", Err: err}
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

// checkMerges refuses to open a store whose merges begin immediately and may fill the disk. That
// would crash this process, and every later one. Where there is less room than for all tables,
// it opens the engine without merges, to see what the next ones need.
func checkMerges(opts Options, engine badger.Options) error {
	entries, err := os.ReadDir(opts.path)
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
	free, freeErr := opts.FreeSpace(opts.path)
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

// classSpace is what must be free for an update of a class, in addition to freeSpaceMin and the
// merges. What a class may write is bounded by the distance to the next one: 16 MiB are some
// 10,000 endings of 1.5 KiB, or 20,000 refreshes, and as much again is written
// at the same time when a memtable becomes a table. Below the last one nothing is written.
// Two memtables are left there, because a restart makes tables of them, and needs room for
// their merges.
var classSpace = [kv.Classes]uint64{
	kv.Ordinary:        8 * memTableSize,
	kv.AccessOfBusiest: 7 * memTableSize,
	kv.Access:          6 * memTableSize,
	kv.Ending:          4 * memTableSize,
	kv.Ruling:          2 * memTableSize,
}

// space is the room on the disk for a group of updates.
type space struct {
	least  kv.Class // updates of lower classes are refused
	unable error    // why even the highest is, if it is not for lack of space
	dir    string
	free   uint64
	merges uint64 // what they may still write
	took   uint64 // what merges under way have written, and will give back
}

// has returns what is free for a class, and what must be. A merge under way has taken some
// of the space that is kept for it. Ordinary updates wait until it finishes; the others, which write
// little, continue.
func (s *space) has(c kv.Class) (free, need uint64) {
	free, need = s.free, freeSpaceMin+s.merges+classSpace[c]
	if c != kv.Ordinary {
		free += min(s.took, s.merges)
	}
	return free, need
}

// space looks at the disk.
func (db *DB) space() (s space) {
	if db.opts.InMemory {
		return s
	}
	s.dir = db.opts.Dir
	s.free, s.merges, s.took, s.unable = db.room()
	for ; int(s.least) < kv.Classes; s.least++ {
		if free, need := s.has(s.least); s.unable == nil && free >= need {
			break
		}
	}
	return s
}

// refusal returns the error for a write of a class below the least one. It is [kv.ErrFull],
// or [kv.ErrUnavailable] if the disk cannot be queried.
func (s *space) refusal(c kv.Class) error {
	if full, is := errors.AsType[*DiskError](s.unable); is {
		return full
	}
	if s.unable != nil {
		return fmt.Errorf("%w: cannot determine free space: %w", kv.ErrUnavailable, s.unable)
	}
	_, need := s.has(c)
	_, all := s.has(kv.Ordinary)
	what := "writing needs"
	if c != kv.Ordinary {
		what = c.String() + " need"
	}
	return &DiskError{
		Dir:    s.dir,
		Reason: fmt.Sprintf("only %d MiB are free on its filesystem, %s %d", s.free>>20, what, need>>20),
		Remedy: fmt.Sprintf("free space there until %d MiB are free", all>>20),
		Err:    kv.ErrFull,
	}
}

// room returns how many bytes are free on the disk, the reserve among them; what the
// engine may write when it merges tables before it removes the old ones; and how much of
// that it has written.
func (db *DB) room() (free, merges, took uint64, err error) {
	db.merge.Lock()
	defer db.merge.Unlock()
	took = db.merge.took // first: what is free by now is less, if anything
	free, err = db.opts.FreeSpace(db.opts.path)
	return free + db.held(), db.merge.bytes, took, err
}

// look finds out what the next merges need, resizes the reserve, and returns when to look
// again. No write waits for that: a disk that merges are using takes up to 80 ms for it. A
// merge continues while the store closes, so the reserve shrinks then too.
func (db *DB) look() time.Duration {
	short := db.space().least > kv.Ordinary
	if db.snapshots.enter() == nil {
		db.lookAtTables()
		db.lookAtMerges(short)
		db.snapshots.leave()
	}
	free, merges, _, err := db.room()
	if err != nil {
		return lookEvery
	}
	// freeSpaceMin stays free in addition to it, for what is written until the next look. It shrinks
	// no further, even while writes are refused: another program would take the space.
	had, size := db.Reserved(), min(merges+reserveStep-1, max(free, freeSpaceMin)-freeSpaceMin)/reserveStep*reserveStep
	db.reserve(min(size, had+reserveStep))
	has := db.Reserved()
	if short || free-min(free, has) < 2*freeSpaceMin || had < has && has < size {
		return lookOften
	}
	return lookEvery
}

func (db *DB) lookAtTables() {
	// Tables reads all tables, up to a thousand.
	if levels := db.engine.Levels(); !slices.EqualFunc(levels, db.merge.levels, sameTables) {
		tables := db.engine.Tables()
		next, had := mergedNext(tables, baseOf(levels)), db.merge.tables
		db.needFiles(len(tables), next)
		db.merge.tables = make(map[uint64]bool, len(tables))
		for _, t := range tables {
			db.merge.tables[t.ID] = true
		}
		db.eachTable(func(id uint64, _ os.DirEntry) {
			if had[id] {
				db.merge.tables[id] = true
			}
		})
		db.merge.Lock()
		defer db.merge.Unlock()
		db.merge.levels, db.merge.bytes = levels, next
	}
}

// lookAtMerges finds out, if space is short, how much merges under way have written: tables
// that no level has or had. Those that one had are being removed, or are still read.
func (db *DB) lookAtMerges(short bool) {
	took := uint64(0)
	if short {
		db.eachTable(func(id uint64, file os.DirEntry) {
			if info, err := file.Info(); err == nil && !db.merge.tables[id] {
				took += uint64(allocated(info))
			}
		})
	}
	if !slices.EqualFunc(db.engine.Levels(), db.merge.levels, sameTables) {
		took = 0 // one has just finished, and its tables belong to a level
	}
	db.merge.Lock()
	defer db.merge.Unlock()
	db.merge.took = took
}

// eachTable visits the files of tables.
func (db *DB) eachTable(visit func(id uint64, file os.DirEntry)) {
	files, _ := os.ReadDir(db.opts.path)
	for _, file := range files {
		if id, isTable := table.ParseFileID(file.Name()); isTable {
			visit(id, file)
		}
	}
}

// SpaceMin returns how many bytes must be free for an ordinary write, the reserve among them.
func (db *DB) SpaceMin() uint64 {
	_, merges, _, _ := db.room()
	return freeSpaceMin + merges + classSpace[kv.Ordinary]
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

// mergedNext is how much the engine may write at the same time. It has two compactors: one
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
// takes it: a merge under way gets SIGBUS on a full disk, and a server that restarts is
// refused until someone makes room. It shrinks while less than freeSpaceMin is free apart from it.
const (
	reserveName = "reserve"
	reserveStep = 2 * memTableSize // it is not resized for less
)

// held returns how many bytes the reserve holds. Someone who needs space may remove it.
// db.merge is locked.
func (db *DB) held() uint64 {
	if db.merge.reserved > 0 && !db.merge.resizing {
		info, err := os.Lstat(db.file(reserveName))
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

	path := db.file(reserveName)
	var err error
	if size > 0 {
		err = allocate(path, int64(had), int64(size))
	}
	if info, statErr := os.Lstat(path); err == nil && had == 0 && statErr == nil && uint64(allocated(info)) < size {
		err = errors.ErrUnsupported // ZFS reports success without allocating
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
// merge, and whether the directory was moved. It returns when the store is closed, and removes
// the reserve.
func (db *DB) watchSpace() {
	defer close(db.watched)
	next := lookEvery
	for {
		select {
		case <-time.After(next):
			if db.stopIfMoved() == nil {
				next = db.look()
			}
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
