package badgerkv

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

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

// TestSpaceForMerges: a write needs free disk space for one merge of the existing tables,
// and the refusal says how much.
func TestSpaceForMerges(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	opts := Options{Dir: t.TempDir(), FreeSpace: func(string) (uint64, error) { return free.Load(), nil }}
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
	free.Store(math.MaxUint64)
	for i := 0; db.engine.Levels()[0].NumTables < 2; i++ { // until memory has been flushed to another table
		key := fmt.Sprint("more", i)
		put(t, db, key, noise(key, 60<<10))
	}
	least := space.FreeMin + memTableSize/2
	for deadline := time.Now().Add(20 * mergedEvery); db.SpaceMin() < least; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("SpaceMin() = %d with another table, want at least %d", db.SpaceMin(), least)
		}
	}
}
