package badgerkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

const (
	plentyFree        = 1 << 40 // bytes
	freeSpaceOrdinary = freeSpaceMin + 8*memTableSize
)

// beside is the free space of a disk that has so much without the reserve.
func beside(free *atomic.Uint64) func(string) (uint64, error) {
	return func(dir string) (uint64, error) {
		left := free.Load()
		if reserve, err := os.Stat(filepath.Join(dir, reserveName)); err == nil {
			left -= min(left, uint64(reserve.Size()))
		}
		return left, nil
	}
}

// TestMergedNext: the engine may merge the newest tables with the base at once, and
// beside that the table of a level that overlaps most with the next.
func TestMergedNext(t *testing.T) {
	t.Parallel()
	table := func(level int, left, right string, size uint32) badger.TableInfo {
		return badger.TableInfo{Level: level, Left: []byte(left), Right: []byte(right), OnDiskSize: size}
	}
	newest := []badger.TableInfo{table(0, "a", "z", 10), table(0, "b", "c", 10)}
	lowest := []badger.TableInfo{table(6, "y", "z", 1), table(6, "a", "d", 2), table(6, "e", "h", 4), table(6, "i", "p", 8), table(6, "q", "w", 16)}
	for _, c := range []struct {
		name   string
		tables [][]badger.TableInfo
		base   int
		want   uint64
	}{
		{"nothing", nil, 6, 0},
		{"newest alone", [][]badger.TableInfo{newest}, 6, 20},
		{"with the base", [][]badger.TableInfo{newest, lowest}, 6, 51},
		{"with a base that is empty", [][]badger.TableInfo{newest, lowest}, 5, 20},
		{"what a table of the base overlaps", [][]badger.TableInfo{newest, {table(5, "b", "c", 100)}, lowest}, 5, 120 + 102},
		{"to the very ends", [][]badger.TableInfo{{table(5, "d", "e", 100)}, lowest}, 5, 100 + 106},
		{"a gap", [][]badger.TableInfo{{table(5, "d1", "d2", 100)}, lowest}, 5, 100 + 100},
		{"the worst of them", [][]badger.TableInfo{{table(5, "a", "b", 100), table(5, "c", "r", 100), table(5, "x", "x", 100)}, lowest}, 5, 300 + 130},
		{"of any level", [][]badger.TableInfo{{table(4, "a", "a", 1)}, {table(5, "f", "j", 100)}, lowest}, 4, 1 + 112},
	} {
		if got := mergedNext(slices.Concat(c.tables...), c.base); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// withFreeSpace returns the options of a store on a disk with as much free space as the test
// says: at first plenty.
func withFreeSpace(t *testing.T) (Options, *atomic.Uint64) {
	free := &atomic.Uint64{}
	free.Store(plentyFree)
	return Options{Dir: t.TempDir(), FreeSpace: beside(free)}, free
}

// TestSpaceForMerges: a write needs free disk space for one merge of the existing tables,
// and the refusal says how much.
func TestSpaceForMerges(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts, free := withFreeSpace(t)
	db := mustOpen(t, opts)
	for _, key := range []string{"a", "b", "c", "d"} {
		put(t, db, key, noise(key, 60<<10))
	}
	mustClose(t, db) // flushes memory to a table
	db = mustOpen(t, opts)
	space, _, err := db.Space()
	if least := uint64(freeSpaceMin + 4*50<<10); err != nil || space.FreeMin < least {
		t.Fatalf("Space() = %+v, %v; want that at least %d must be free", space, err, least)
	}
	free.Store(space.FreeMin - 1)
	err = db.Update(t.Context(), func(tx kv.Txn) error { return setAll(tx, "e", "1") })
	if !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update() without room for a merge = %v, want ErrUnavailable", err)
	}
	free.Store(space.FreeMin)
	put(t, db, "e", "1")
	free.Store(plentyFree)
	for i := 0; db.engine.Levels()[0].NumTables < 2; i++ { // until memory has been flushed to another table
		key := fmt.Sprint("more", i)
		put(t, db, key, noise(key, 60<<10))
	}
	least := space.FreeMin + memTableSize/2
	for deadline := time.Now().Add(time.Minute); db.SpaceMin() < least; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("SpaceMin() = %d with another table, want at least %d", db.SpaceMin(), least)
		}
	}
}

// TestAStartNeedsRoomForMerges: a store whose merges begin at once is not opened where they
// would fill the disk, and stays as it is. Where none begins it opens, and refuses to write.
func TestAStartNeedsRoomForMerges(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	var free atomic.Uint64
	var opts Options
	var key string
	tables := func() []string { return must.Get(filepath.Glob(filepath.Join(opts.Dir, "*.sst")))(t) }
	for len(tables()) < firstTables { // a merge may begin before the last Close
		opts = Options{Dir: t.TempDir(), FreeSpace: beside(&free)}
		for n := range firstTables { // a table each
			free.Store(plentyFree)
			db := mustOpen(t, opts)
			key = fmt.Sprint("key", n)
			put(t, db, key, noise(key, 60<<10))
			mustClose(t, db)
			if n == firstTables-2 {
				free.Store(freeSpaceMin + 100<<10)
				db := mustOpen(t, opts)
				wantValue(t, db, key, noise(key, 60<<10))
				if err := db.Update(t.Context(), func(tx kv.Txn) error { return setAll(tx, "e", "1") }); !errors.Is(err, kv.ErrUnavailable) {
					t.Errorf("Update() without room for merges = %v, want ErrUnavailable", err)
				}
				mustClose(t, db)
			}
		}
	}
	before := tables()
	var refused *DiskError
	free.Store(freeSpaceMin + 100<<10)
	if db, err := Open(opts); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "merges") {
		if err == nil {
			mustClose(t, db)
		}
		t.Errorf("Open() without room for merges = %v, want a *DiskError that says so", err)
	}
	if now := tables(); len(now) != len(before) || len(before) < firstTables {
		t.Errorf("%d tables after the refusal, want the %d as before", len(now), len(before))
	}
	free.Store(freeSpaceMin + firstTables<<16)
	db := mustOpen(t, opts)
	wantValue(t, db, key, noise(key, 60<<10))
	mustClose(t, db)
}

// TestMergesDue: the newest tables are merged by their number, those of other levels by their
// size; memtables of a killed process become tables first.
func TestMergesDue(t *testing.T) {
	t.Parallel()
	level := func(tables int, score float64) []badger.LevelInfo {
		return []badger.LevelInfo{{NumTables: tables}, {Level: 1, Score: score}}
	}
	for _, c := range []struct {
		levels    []badger.LevelInfo
		memtables int
		want      bool
	}{
		{level(0, 0), 0, false}, {level(firstTables-1, 0), 0, false}, {level(firstTables-1, 0), 1, true}, {level(firstTables, 0), 0, true}, {level(0, 1), 0, true},
	} {
		if got := mergesDue(c.levels, c.memtables); got != c.want {
			t.Errorf("mergesDue(%+v, %d) = %t", c.levels, c.memtables, got)
		}
	}
}

// TestAnUnfinishedMergeTakesNoRoomFromAStart: a merge that a kill interrupted has left a table
// that belongs to no store. It is removed before the free space is looked at.
func TestAnUnfinishedMergeTakesNoRoomFromAStart(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts := Options{Dir: t.TempDir()}
	left := filepath.Join(opts.Dir, "000999.sst")
	opts.FreeSpace = func(string) (uint64, error) {
		if _, err := os.Stat(left); err == nil {
			return freeSpaceMin - 1, nil
		}
		return plentyFree, nil
	}
	db := mustOpen(t, opts)
	put(t, db, "a", "1")
	mustClose(t, db) // flushes memory to a table, which stays
	must.Do(t, os.WriteFile(left, []byte("the beginning of a table"), 0o600))
	db = mustOpen(t, opts)
	wantValue(t, db, "a", "1")
	mustClose(t, db)
}

// TestTheReserveShrinksWhileTheStoreCloses: a merge under way is ended then, and needs it.
func TestTheReserveShrinksWhileTheStoreCloses(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts, free := withFreeSpace(t)
	db := withReserve(t, opts)
	reading, closed := make(chan struct{}), make(chan error, 1)
	err := db.View(t.Context(), func(kv.Reader) error {
		go func() { closed <- db.Close() }()
		go func() {
			defer close(reading)
			for db.snapshots.enter() == nil { // until it closes
				db.snapshots.leave()
				time.Sleep(time.Millisecond)
			}
			free.Store(freeSpaceMin)
			wantReserve(t, opts.Dir, "while the store closes", 0)
		}()
		<-reading
		return nil
	})
	must.Do(t, errors.Join(err, <-closed))
}

// TestAPassingErrorDoesNotEndTheReserve: it is made once the error is over.
func TestAPassingErrorDoesNotEndTheReserve(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts, _ := withFreeSpace(t)
	inTheWay := filepath.Join(opts.Dir, reserveName, "in the way")
	must.Do(t, os.MkdirAll(inTheWay, 0o700))
	db := withReserveLater(t, opts)
	time.Sleep(3 * lookEvery)
	must.Do(t, os.RemoveAll(filepath.Dir(inTheWay)))
	wantReserve(t, opts.Dir, "once it can be made", reserveStep)
	mustClose(t, db)
}

// withReserveLater opens a store that has a table, whose merge needs a reserve.
func withReserveLater(t *testing.T, opts Options) *DB {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), reserveName)
	must.Have(t, !errors.Is(allocate(elsewhere, 0, 1), errors.ErrUnsupported), "a system that allocates space for a file")
	db := mustOpen(t, opts)
	put(t, db, "a", noise("a", 60<<10))
	mustClose(t, db) // flushes memory to a table
	return mustOpen(t, opts)
}

func withReserve(t *testing.T, opts Options) *DB {
	t.Helper()
	db := withReserveLater(t, opts)
	wantReserve(t, opts.Dir, "with enough free", reserveStep)
	return db
}

// wantReserve waits until the reserve holds so many bytes.
func wantReserve(t *testing.T, dir, what string, want int64) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		got := int64(0)
		if info, err := os.Stat(filepath.Join(dir, reserveName)); err == nil {
			got = allocated(info)
		}
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s: the reserve holds %d bytes, want %d", what, got, want)
			return
		}
	}
}

// TestReserve: the space of the next merges is held while there is enough, given back bit
// by bit while there is no room for a write, and no part of what the store uses. It leaves
// with the store, and what a killed process has left is removed.
func TestReserve(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts, free := withFreeSpace(t)
	path := filepath.Join(opts.Dir, reserveName)
	must.Do(t, os.WriteFile(path, []byte("of a process that was killed"), 0o600))
	db := mustOpen(t, opts)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reserve of a process that was killed: %v, want that it is removed", err)
	}
	mustClose(t, db)
	db = withReserve(t, opts)
	eventually := func(what string, want int64) {
		t.Helper()
		wantReserve(t, opts.Dir, what, want)
	}
	space, _, err := db.Space()
	if err != nil || space.Free != plentyFree || space.Used > reserveStep {
		t.Errorf("Space() = %+v, %v; want the reserve free, and not used", space, err)
	}
	must.Do(t, os.Remove(path))
	if space, _, err = db.Space(); err != nil || space.Free != plentyFree {
		t.Errorf("Space() = %+v, %v; want nothing free beside the disk's own when someone has removed the reserve", space, err)
	}
	eventually("when someone has removed it", reserveStep)
	free.Store(freeSpaceMin + reserveStep - 1)
	eventually("when another program takes the disk", 0)
	free.Store(freeSpaceMin + reserveStep)
	eventually("with enough again", reserveStep)
	db.merge.Lock()
	db.merge.bytes = 2*reserveStep + 1 // of larger tables
	db.merge.Unlock()
	free.Store(plentyFree)
	eventually("for a larger merge", 3*reserveStep)
	free.Store(freeSpaceMin + 2*reserveStep + 1)
	eventually("with just enough for a write", 2*reserveStep)
	free.Store(freeSpaceMin + 2*reserveStep)
	if err := db.Ready(); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Ready() without room for a merge = %v, want ErrUnavailable", err)
	}
	eventually("without room for a write", 2*reserveStep)
	free.Store(freeSpaceMin + 2*reserveStep - 1)
	eventually("while merges write", reserveStep)
	free.Store(freeSpaceMin + reserveStep - 1)
	eventually("while merges write more", 0)
	free.Store(plentyFree)
	eventually("at the end", 3*reserveStep)
	mustClose(t, db)
	eventually("of a closed store", 0)
}
