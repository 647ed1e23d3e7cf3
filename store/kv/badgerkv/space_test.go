package badgerkv

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// TestMergedNext: what the engine may merge at once are the newest tables and the
// base.
func TestMergedNext(t *testing.T) {
	t.Parallel()
	level := func(n int, size int64, base bool) badger.LevelInfo {
		return badger.LevelInfo{Level: n, Size: size, IsBaseLevel: base}
	}
	for _, c := range []struct {
		name   string
		levels []badger.LevelInfo
		want   uint64
	}{
		{"nothing", nil, 0},
		{"newest alone", []badger.LevelInfo{level(0, 20, false), level(6, 0, true)}, 20},
		{"what lies below the base stays", []badger.LevelInfo{level(0, 20, false), level(5, 100, true), level(6, 1000, false)}, 120},
	} {
		if got := mergedNext(c.levels); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// TestRoomForMerges: a write needs room for the tables that there are, merged once
// more, and says how much.
func TestRoomForMerges(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	opts := Options{Dir: t.TempDir(), FreeSpace: func(string) (uint64, error) { return free.Load(), nil }}
	db := mustOpen(t, opts)
	for _, key := range []string{"a", "b", "c", "d"} {
		put(t, db, key, noise(key, 60<<10))
	}
	mustClose(t, db) // what is in memory becomes a table
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
	db.merge.Lock()
	db.merge.looked = time.Now().Add(-mergedEvery)
	db.merge.Unlock()
	if again, _, err := db.Space(); err != nil || again.FreeMin != space.FreeMin {
		t.Errorf("Space() looked at again = %+v, %v; want %d as before, since no table was made", again, err, space.FreeMin)
	}
}
