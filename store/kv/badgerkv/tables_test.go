package badgerkv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestScanOverTables is the contract for ranges over a store of many tables, on several
// levels. Badger skips tables by the prefix that both bounds share.
func TestScanOverTables(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts := Options{Dir: t.TempDir()}
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
	mustClose(t, db) // flushes memory to a table
	compact(t, opts)
	db = mustOpen(t, opts)
	// The deletes are now above what they hide.
	removed := shuffled[:len(keys)/10]
	for some := range slices.Chunk(removed, batch) {
		must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
			for _, key := range some {
				if err := tx.Delete([]byte(key)); err != nil {
					return err
				}
			}
			return nil
		}))
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

// compact has the engine move its newest tables down, until each holds a part of the keys.
func compact(t *testing.T, opts Options) {
	t.Helper()
	engine := opts.withDefaults().engine(nil)
	engine.CompactL0OnClose = true
	db := must.Get(badger.OpenManaged(engine))(t)
	must.Do(t, db.Close())
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
