package badgerkv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// TestScanOverTables is the contract's line on ranges over a store of many
// tables, which Badger leaves out by the prefix that both bounds share, and which
// are not all of one level. Compressed tables are small, so that there are many.
func TestScanOverTables(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: t.TempDir(), Compress: true}
	db := mustOpen(t, opts)
	var keys []string
	for _, prefix := range []string{"a\x00", "a\x00b\x00", "ab\x00", "b", "b\xff", "b\xff\xff", "c"} {
		for i := range 3000 {
			keys = append(keys, fmt.Sprintf("%s%05d", prefix, i))
		}
	}
	slices.Sort(keys)
	const batch = 400
	shuffled := slices.Clone(keys)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for some := range slices.Chunk(shuffled, batch) {
		var pairs []string
		for _, key := range some {
			pairs = append(pairs, key, noise(key, 1000))
		}
		put(t, db, pairs...)
	}
	mustClose(t, db) // what is in memory becomes a table
	compact(t, opts)
	db = mustOpen(t, opts)
	// What is deleted now lies above what it hides.
	removed := shuffled[:len(keys)/10]
	for some := range slices.Chunk(removed, batch) {
		err := db.Update(t.Context(), func(tx kv.Txn) error {
			for _, key := range some {
				if err := tx.Delete([]byte(key)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(removed)
	keys = slices.DeleteFunc(keys, func(key string) bool { _, found := slices.BinarySearch(removed, key); return found })
	mustClose(t, db)
	db = mustOpen(t, opts)
	if tables := len(db.engine.Tables()); tables < 8 {
		t.Fatalf("the store has %d tables, too few for the test to mean anything", tables)
	}

	bound := func() []byte {
		key := keys[random.IntN(len(keys))]
		switch random.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte(key[:1+random.IntN(len(key))])
		case 2:
			return []byte(key[:1+random.IntN(len(key))] + "\xff")
		case 3:
			return []byte(key + "\x00")
		default:
			return []byte(key)
		}
	}
	err := db.View(t.Context(), func(r kv.Reader) error {
		for range 4000 {
			rng := kv.Range{Lo: bound(), Hi: bound(), Reverse: random.IntN(2) == 0, KeysOnly: true, Limit: 40}
			var got []string
			for key := range r.Scan(rng) {
				got = append(got, string(key))
			}
			if want := inRange(keys, rng); !slices.Equal(got, want) {
				t.Fatalf("Scan([%q, %q) reverse=%t) = %q, want %q", rng.Lo, rng.Hi, rng.Reverse, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// compact has the engine move its newest tables down, to where each holds a part
// of the keys.
func compact(t *testing.T, opts Options) {
	t.Helper()
	engine := opts.withDefaults().engine(nil)
	engine.CompactL0OnClose = true
	db, err := badger.OpenManaged(engine)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// inRange is the definition of a range, over sorted keys.
func inRange(keys []string, rng kv.Range) []string {
	from, _ := slices.BinarySearch(keys, string(rng.Lo))
	to := len(keys)
	if rng.Hi != nil {
		to, _ = slices.BinarySearch(keys, string(rng.Hi))
	}
	within := slices.Clone(keys[from:max(from, to)])
	if rng.Reverse {
		slices.Reverse(within)
	}
	return within[:min(rng.Limit, len(within))]
}

// TestTablesOfBothKinds: what was compressed and what was not is read side by side,
// whatever is written now, and damage to either is named.
func TestTablesOfBothKinds(t *testing.T) {
	t.Parallel()
	const keys = 1000
	text := func(i int) string { return strings.Repeat(fmt.Sprintf(`{"id":%d,"object":"event"}`, i), 20) }
	dir := t.TempDir()
	sizes := map[bool]int64{}
	compress := func(round int) bool { return round%2 == 1 }
	for round := range 4 {
		opts := Options{Dir: dir, Compress: compress(round)}
		before := tablesOf(t, dir)
		db := mustOpen(t, opts)
		var pairs []string
		for i := range keys {
			pairs = append(pairs, fmt.Sprintf("%d/%04d", round, i), text(i))
		}
		put(t, db, pairs...)
		if err := db.Check(t.Context()); err != nil {
			t.Errorf("Check() in round %d = %v, want nil", round, err)
		}
		mustClose(t, db)
		for path, size := range tablesOf(t, dir) {
			if _, had := before[path]; !had {
				sizes[opts.Compress] = size
			}
		}
	}
	if sizes[true] == 0 || sizes[true] > sizes[false]/3 {
		t.Errorf("a compressed table has %d bytes and a plain one %d, want a third of it at most", sizes[true], sizes[false])
	}
	for _, opts := range []Options{{Dir: dir}, {Dir: dir, Compress: true}} {
		db := mustOpen(t, opts)
		for i := range 4 * keys {
			wantValue(t, db, fmt.Sprintf("%d/%04d", i/keys, i%keys), text(i%keys))
		}
		if err := db.Check(t.Context()); err != nil {
			t.Errorf("Check() of whole tables with Compress %t = %v, want nil", opts.Compress, err)
		}
		mustClose(t, db)
	}
	for path, size := range tablesOf(t, dir) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spoilt := slices.Clone(whole)
		spoilt[size/3] ^= 0x40
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		db := mustOpen(t, Options{Dir: dir})
		err = db.Check(t.Context())
		if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "1 of 4 tables") || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("Check() of a store whose %s is damaged = %v, want an error that names it alone", filepath.Base(path), err)
		}
		mustClose(t, db)
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tablesOf returns the sizes of the tables in dir, by path.
func tablesOf(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes[path] = info.Size()
	}
	return sizes
}
